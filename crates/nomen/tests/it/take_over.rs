//! One server after another on the same sockets: `nomen serve --take-over`, and sockets stored with the
//! service manager.

use std::collections::BTreeSet;
use std::fs;
use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tempfile::TempDir;

use crate::activation::{asked, asked_over_tcp, expect_answer, expect_answer_over_tcp, folder, passing};
use crate::support::{
    Server, TEST_TIMEOUT, eventually, free_address, message, run, text, without_manager, written,
};

/// Returns a command for a server that opens its sockets itself, or takes over those of the previous server.
fn serving(more: &[&str]) -> Command {
    let arguments = [&["serve", "--config", "nomen.toml"], more].concat();
    let log = "exec \"$0\" \"$@\" >>log 2>&1";
    let mut command = Command::new("sh");
    without_manager(&mut command).args(["-c", log, env!("CARGO_BIN_EXE_nomen")]).args(arguments);
    command
}

#[test]
fn a_server_that_takes_over_loses_no_query() {
    let address = free_address();
    let mut server = Server::start_by(serving(&[]), address, folder(&[address], ""));
    let stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut answered = 0_u16;
            while !stopped.load(Ordering::Relaxed) {
                // Each query is sent once, alternately over UDP and over TCP.
                match answered % 2 {
                    0 => expect_answer(&asked(address, answered), answered),
                    _ => expect_answer_over_tcp(asked_over_tcp(address, answered), answered),
                }
                answered = answered.wrapping_add(1);
            }
            answered
        });
        for _ in 0..4 {
            server = server.taken_over_by(serving(&["--take-over"]));
            expect_answer(&asked(address, 9), 9);
        }
        stopped.store(true, Ordering::Relaxed);
        assert!(client.join().expect("every query was answered") > 0);
    });
}

#[test]
fn where_no_server_runs_there_is_nothing_to_take_over() {
    let address = free_address();
    let _server = Server::start_by(serving(&["--take-over"]), address, folder(&[address], ""));
    expect_answer(&asked(address, 1), 1);
}

#[test]
fn a_bad_configuration_does_not_stop_the_server_that_runs() {
    let address = free_address();
    let server = Server::start_by(serving(&[]), address, folder(&[address], ""));
    fs::write(server.path("nomen.toml"), "nonsense = 1").expect("written");
    let output = run(server.folder.path(), &["serve", "--config", "nomen.toml", "--take-over"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    expect_answer(&asked(address, 1), 1);
}

#[test]
fn an_address_that_is_not_configured_any_more_is_not_taken_over() {
    let (first, second) = (free_address(), free_address());
    let server = Server::start_by(serving(&[]), first, folder(&[first, second], ""));
    let config = fs::read_to_string(server.path("nomen.toml")).expect("read");
    assert!(config.contains(&written(second)));
    let gone = format!(", {}", written(second));
    fs::write(server.path("nomen.toml"), config.replace(&gone, "")).expect("written");
    let server = server.taken_over_by(serving(&["--take-over"]));
    expect_answer(&asked(first, 1), 1);
    UdpSocket::bind(second).expect("the address is free again");
    // Two workers, and two transports.
    server.wait_for_log("is not configured any more: its socket is closed", 4);
}

/// Returns the descriptors that a server stores under `nomen-stored`, as the service manager receives them.
fn stored(notify: &UnixDatagram, wanted: usize) -> Vec<OwnedFd> {
    let mut sockets = Vec::new();
    while sockets.len() < wanted {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut words = [0; 512];
        let read =
            recvmsg(notify, &mut [IoSliceMut::new(&mut words)], &mut ancillary, RecvFlags::CMSG_CLOEXEC);
        let read = read.expect("a notification").bytes;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                assert!(text(&words[..read]).contains("FDNAME=nomen-stored"), "{}", text(&words[..read]));
                sockets.extend(descriptors);
            }
        }
    }
    sockets
}

/// Starts and stops a server with one worker that stores its sockets, one for each transport. Returns its
/// folder and the sockets.
fn ended_with_stored_sockets(address: SocketAddr) -> (TempDir, [OwnedFd; 2]) {
    let folder = folder(&[address], "");
    let notify = UnixDatagram::bind(folder.path().join("store.sock")).expect("bound");
    notify.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    let config = fs::read_to_string(folder.path().join("nomen.toml")).expect("read");
    fs::write(folder.path().join("nomen.toml"), config.replace("workers = 2", "workers = 1"))
        .expect("written");
    let mut child = serving(&["--store-sockets"])
        .current_dir(folder.path())
        .env("NOTIFY_SOCKET", folder.path().join("store.sock"))
        .spawn()
        .expect("nomen starts");
    let sockets: [OwnedFd; 2] = stored(&notify, 2).try_into().expect("two sockets");
    expect_answer(&asked(address, 1), 1);
    kill(Pid::from_raw(i32::try_from(child.id()).expect("a number")), Signal::SIGTERM).expect("it runs");
    assert!(child.wait().expect("a child").success());
    (folder, sockets)
}

/// Returns a command for a server with these stored sockets, as the service manager passes them.
fn with_stored(sockets: [OwnedFd; 2]) -> Command {
    let mut command = passing(sockets, "$$", &["serve", "--config", "nomen.toml", "--store-sockets"]);
    command.env("LISTEN_FDNAMES", "nomen-stored:nomen-stored");
    command
}

#[test]
fn queries_between_two_servers_wait_in_stored_sockets() {
    let address: SocketAddr = free_address();
    let (folder, sockets) = ended_with_stored_sockets(address);
    let waiting: Vec<_> = (0..20).map(|id| asked(address, id)).collect();
    let over_tcp: Vec<_> = (0..5).map(|id| asked_over_tcp(address, id)).collect();
    let _second = Server::start_by(with_stored(sockets), address, folder);
    (0..20).zip(&waiting).for_each(|(id, client)| expect_answer(client, id));
    (0..5).zip(over_tcp).for_each(|(id, client)| expect_answer_over_tcp(client, id));
}

/// Number of queries in flight of one client: fewer than fit into a socket's buffer.
const TOGETHER: u16 = 50;

/// Sends many queries at a time over UDP, each once, until `stopped`. All must be answered.
fn flood(address: SocketAddr, asked: &AtomicU32, stopped: &AtomicBool) {
    let client = UdpSocket::bind("127.0.0.1:0").expect("a client");
    client.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    client.connect(address).expect("connected");
    while !stopped.load(Ordering::Relaxed) {
        for id in 0..TOGETHER {
            client.send(&message(id, "ns1.example", 1)).expect("sent");
        }
        let mut missing: BTreeSet<u16> = (0..TOGETHER).collect();
        while !missing.is_empty() {
            let mut answer = [0; 512];
            let size = client
                .recv(&mut answer)
                .unwrap_or_else(|e| panic!("{} queries are lost: {e}", missing.len()));
            let id = u16::from_be_bytes([answer[0], answer[1]]);
            assert!(missing.remove(&id), "{id} is answered twice");
            let has_address = answer[..size].windows(4).any(|bytes| bytes == [192, 0, 2, 1]);
            assert!(answer[3] & 15 == 0 && has_address, "{:?}", &answer[..size]);
        }
        asked.fetch_add(u32::from(TOGETHER), Ordering::Relaxed);
    }
}

#[test]
fn restarts_with_stored_sockets_lose_no_query_under_load() {
    let address = free_address();
    let (mut folder, sockets) = ended_with_stored_sockets(address);
    let copies = || [&sockets[0], &sockets[1]].map(|socket| socket.try_clone().expect("another descriptor"));
    let (asked, stopped) = (AtomicU32::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let floods = [(); 2].map(|()| scope.spawn(|| flood(address, &asked, &stopped)));
        let over_tcp = scope.spawn(|| {
            let mut answered = 0_u16;
            while !stopped.load(Ordering::Relaxed) {
                expect_answer_over_tcp(asked_over_tcp(address, answered), answered);
                answered = answered.wrapping_add(1);
            }
            answered
        });
        for _ in 0..4 {
            let server = Server::start_by(with_stored(copies()), address, folder);
            let before = asked.load(Ordering::Relaxed);
            // More than were in flight when it started.
            let more = u32::from(TOGETHER) * 10;
            eventually("queries are answered", &server, || asked.load(Ordering::Relaxed) > before + more);
            folder = server.stop();
        }
        let last = Server::start_by(with_stored(copies()), address, folder);
        stopped.store(true, Ordering::Relaxed);
        floods.into_iter().for_each(|flood| flood.join().expect("every query was answered"));
        assert!(over_tcp.join().expect("every query was answered") > 0);
        drop(last);
    });
}

#[test]
fn queries_on_an_open_connection_are_answered_over_a_hand_over() {
    const QUERIES: u16 = 200;
    let address = free_address();
    let folder = folder(&[address], "");
    let config = folder.path().join("nomen.toml");
    let text = fs::read_to_string(&config).expect("read");
    fs::write(&config, text.replace("workers = 2", "workers = 2\ndrain = \"1m\"")).expect("written");
    let log = folder.path().join("log");
    let first = Server::start_by(serving(&[]), address, folder);
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    let framed = |id| {
        let query = message(id, "ns1.example", 1);
        [&u16::try_from(query.len()).expect("short").to_be_bytes()[..], &query].concat()
    };
    let pipelined: Vec<u8> = (0..QUERIES).flat_map(framed).collect();
    // Half of the last query arrives after the server has handed over its sockets.
    let (now, later) = pipelined.split_at(pipelined.len() - 10);
    stream.write_all(now).expect("sent");
    let mut answers = vec![0; 2];
    stream.read_exact(&mut answers).expect("an answer: the connection was accepted");
    std::thread::scope(|scope| {
        let second = scope.spawn(|| first.taken_over_by(serving(&["--take-over"])));
        let until = Instant::now() + TEST_TIMEOUT;
        while !fs::read_to_string(&log).expect("a log").contains("answering what has arrived") {
            assert!(Instant::now() < until, "the sockets are not handed over");
            std::thread::sleep(Duration::from_millis(5));
        }
        // The next server accepts this one.
        let waiting = asked_over_tcp(address, 7);
        stream.write_all(later).expect("sent");
        stream.read_to_end(&mut answers).expect("the rest");
        let mut ids = BTreeSet::new();
        let mut rest = answers.as_slice();
        while let Some((length, more)) = rest.split_first_chunk::<2>() {
            let (answer, more) = more.split_at(usize::from(u16::from_be_bytes(*length)));
            ids.insert(u16::from_be_bytes([answer[0], answer[1]]));
            rest = more;
        }
        assert_eq!(ids, (0..QUERIES).collect(), "each query is answered");
        expect_answer_over_tcp(waiting, 7);
        drop(second.join().expect("it takes over"));
    });
}
