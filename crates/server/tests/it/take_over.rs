//! One server after another on the same sockets: `nomen serve --take-over`, and sockets stored with the service manager.

use std::fs;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::activation::{asked, asked_over_tcp, expect_answer, expect_answer_over_tcp, folder, passing};
use crate::support::{PATIENCE, Server, free_address, run, text, without_manager, written};

/// A server that opens its sockets itself, or takes those of the server before.
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
                // Each is asked once, over UDP and over TCP in turn.
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
    std::net::UdpSocket::bind(second).expect("the address is free again");
    // Two workers, and two transports.
    server.wait_for_log("is not configured any more: its socket is closed", 4);
}

/// The descriptors that a server stores under `nomen-stored`, as the service manager receives them.
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

#[test]
fn queries_between_two_servers_wait_in_stored_sockets() {
    let address: SocketAddr = free_address();
    let folder = folder(&[address], "");
    let notify = UnixDatagram::bind(folder.path().join("store.sock")).expect("bound");
    notify.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let config = fs::read_to_string(folder.path().join("nomen.toml")).expect("read");
    fs::write(folder.path().join("nomen.toml"), config.replace("workers = 2", "workers = 1"))
        .expect("written");
    let mut child = serving(&["--store-sockets"])
        .current_dir(folder.path())
        .env("NOTIFY_SOCKET", folder.path().join("store.sock"))
        .spawn()
        .expect("nomen starts");
    // One worker has a socket for each transport.
    let sockets: [OwnedFd; 2] = stored(&notify, 2).try_into().expect("two sockets");
    expect_answer(&asked(address, 1), 1);
    kill(Pid::from_raw(i32::try_from(child.id()).expect("a number")), Signal::SIGTERM).expect("it runs");
    assert!(child.wait().expect("a child").success());
    let waiting: Vec<_> = (0..20).map(|id| asked(address, id)).collect();
    let over_tcp: Vec<_> = (0..5).map(|id| asked_over_tcp(address, id)).collect();
    let mut second = passing(sockets, "$$", &["serve", "--config", "nomen.toml", "--store-sockets"]);
    second.env("LISTEN_FDNAMES", "nomen-stored:nomen-stored");
    let _second = Server::start_by(second, address, folder);
    (0..20).zip(&waiting).for_each(|(id, client)| expect_answer(client, id));
    (0..5).zip(over_tcp).for_each(|(id, client)| expect_answer_over_tcp(client, id));
}
