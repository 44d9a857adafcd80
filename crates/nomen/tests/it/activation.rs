//! Socket activation: the server answers on sockets that a service manager passes, and while no server runs,
//! queries wait in them.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::process::{Command, Output, Stdio};

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, SockaddrIn6, bind, listen, setsockopt, socket,
    sockopt,
};
use tempfile::TempDir;

use crate::metrics::http;
use crate::support::{APEX, Server, TEST_TIMEOUT, free_address, message, text, without_manager, written};

/// Returns a command with at most three passed sockets: a shell gets them as its standard input, output and
/// error, and moves them to descriptors from 3 on. With several sockets, the output goes to the file `log`.
pub(crate) fn passing<const N: usize>(sockets: [OwnedFd; N], pid: &str, arguments: &[&str]) -> Command {
    let numbers = ["3<&0", " 4>&1", " 5>&2"][..N].concat();
    let log = if N > 1 || arguments.contains(&"serve") { ">log 2>&1" } else { "" };
    let script = format!("exec {numbers} </dev/null {log}; export LISTEN_PID={pid}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    without_manager(&mut command).args(["-c", &script, env!("CARGO_BIN_EXE_nomen")]).args(arguments);
    command.env("LISTEN_FDS", N.to_string()).env("LISTEN_FDNAMES", ["one", "two", "three"][..N].join(":"));
    let mut sockets = sockets.into_iter().map(Stdio::from);
    sockets.next().map(|first| command.stdin(first));
    sockets.next().map(|second| command.stdout(second));
    sockets.next().map(|third| command.stderr(third));
    command
}

/// Returns a folder with a zone `example.` and a configuration that listens on these addresses, or on the
/// defaults if there are none.
pub(crate) fn folder(addresses: &[SocketAddr], more: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), APEX).expect("written");
    let addresses: Vec<String> = addresses.iter().map(|address| written(*address)).collect();
    let listen = match addresses.is_empty() {
        true => String::new(),
        false => format!("[[listen]]\naddr = [{}]\n", addresses.join(", ")),
    };
    let config = format!(
        "[server]\nworkers = 2\n{listen}[control]\nsocket = \"ctl.sock\"\n[template.folder]\n\
         directory = \".\"\n{more}"
    );
    fs::write(folder.path().join("nomen.toml"), config).expect("written");
    folder
}

/// Starts a server with passed sockets.
fn serve<const N: usize>(sockets: [OwnedFd; N], folder: TempDir) -> Server {
    let address = free_address();
    Server::start_by(passing(sockets, "$$", &["serve", "--config", "nomen.toml"]), address, folder)
}

/// Runs a command to its end with one passed socket.
fn run(socket: impl Into<OwnedFd>, folder: &TempDir, verb: &[&str]) -> Output {
    // The messages of `serve` are in the log.
    let _ = fs::remove_file(folder.path().join("log"));
    let output = passing([socket.into()], "$$", verb).current_dir(folder.path()).output().expect("it runs");
    let log = fs::read(folder.path().join("log")).unwrap_or_default();
    Output { stderr: [output.stderr, log].concat(), ..output }
}

/// Binds both sockets of an address.
fn both(address: SocketAddr) -> (UdpSocket, TcpListener) {
    (UdpSocket::bind(address).expect("bound"), TcpListener::bind(address).expect("bound"))
}

/// Returns a copy of a socket for the server; the manager keeps the original.
fn copy<S>(socket: &S, clone: fn(&S) -> std::io::Result<S>) -> OwnedFd
where
    OwnedFd: From<S>,
{
    clone(socket).expect("another descriptor").into()
}

/// Returns a client that has sent a query.
pub(crate) fn asked(server: SocketAddr, id: u16) -> UdpSocket {
    let local = if server.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
    let client = UdpSocket::bind(local).expect("a client");
    client.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    client.connect(server).expect("connected");
    client.send(&message(id, "ns1.example", 1)).expect("sent");
    client
}

/// Reads the answer to [`asked`].
pub(crate) fn expect_answer(client: &UdpSocket, id: u16) {
    let mut answer = [0; 512];
    let size = client.recv(&mut answer).expect("an answer");
    check(&answer[..size], id);
}

/// Like [`asked`], over TCP.
pub(crate) fn asked_over_tcp(server: SocketAddr, id: u16) -> TcpStream {
    let mut client = TcpStream::connect(server).expect("connected");
    client.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    let query = message(id, "ns1.example", 1);
    let length = u16::try_from(query.len()).expect("a query").to_be_bytes();
    client.write_all(&[&length[..], &query].concat()).expect("sent");
    client
}

pub(crate) fn expect_answer_over_tcp(mut client: TcpStream, id: u16) {
    let mut length = [0; 2];
    client.read_exact(&mut length).expect("a length");
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    client.read_exact(&mut answer).expect("an answer");
    check(&answer, id);
}

fn check(answer: &[u8], id: u16) {
    assert_eq!(answer[..2], id.to_be_bytes());
    assert_eq!(answer[3] & 15, 0, "NOERROR");
    assert!(answer.windows(4).any(|bytes| bytes == [192, 0, 2, 1]), "{answer:?}");
}

#[test]
fn passed_sockets_are_answered_on() {
    let address = free_address();
    let (udp, tcp) = both(address);
    let sockets = [copy(&udp, UdpSocket::try_clone), copy(&tcp, TcpListener::try_clone)];
    let server = serve(sockets, folder(&[address], ""));
    expect_answer(&asked(address, 1), 1);
    expect_answer_over_tcp(asked_over_tcp(address, 2), 2);
    server.wait_for_log("passed=1", 2);
}

#[test]
fn passed_sockets_of_ipv6_are_answered_on_beside_those_that_were_not_passed() {
    if UdpSocket::bind("[::1]:0").is_err() {
        return testkit::left_out("this system has no IPv6");
    }
    let (udp, tcp) = (0..100)
        .find_map(|_| {
            let udp = UdpSocket::bind("[::1]:0").ok()?;
            let tcp = TcpListener::bind(udp.local_addr().ok()?).ok()?;
            Some((udp, tcp))
        })
        .expect("a port that is free for both");
    let (six, four) = (udp.local_addr().expect("bound"), free_address());
    let server = serve([udp.into(), tcp.into()], folder(&[four, six], ""));
    for address in [four, six] {
        expect_answer(&asked(address, 1), 1);
        expect_answer_over_tcp(asked_over_tcp(address, 2), 2);
    }
    server.wait_for_log("passed=1", 2);
}

/// Returns an IPv6 socket on all addresses and a free port, for IPv6 only or for both families.
fn everywhere(kind: SockType, only_v6: bool) -> Option<OwnedFd> {
    let made = socket(AddressFamily::Inet6, kind, SockFlag::SOCK_CLOEXEC, None).ok()?;
    setsockopt(&made, sockopt::Ipv6V6Only, &only_v6).expect("set");
    let any: std::net::SocketAddrV6 = "[::]:0".parse().expect("an address");
    bind(std::os::fd::AsRawFd::as_raw_fd(&made), &SockaddrIn6::from(any)).ok()?;
    if kind == SockType::Stream {
        listen(&made, Backlog::MAXCONN).expect("it listens");
    }
    Some(made)
}

#[test]
fn a_passed_wildcard_answers_from_the_address_that_was_asked() {
    let any = UdpSocket::bind("0.0.0.0:0").expect("bound");
    let address = any.local_addr().expect("bound");
    let six = everywhere(SockType::Datagram, true).map(UdpSocket::from);
    let six_address = six.as_ref().map(|six| six.local_addr().expect("bound"));
    let addresses: Vec<SocketAddr> = [Some(address), six_address].into_iter().flatten().collect();
    let folder = folder(&addresses, "");
    // TCP is off: another process may have the port, as this binds all addresses.
    let config = folder.path().join("nomen.toml");
    let text = fs::read_to_string(&config).expect("read");
    fs::write(&config, text.replace("[[listen]]\n", "[[listen]]\nproto = [\"udp\"]\n")).expect("written");
    let server = match six {
        Some(six) => serve([any.into(), six.into()], folder),
        None => serve([any.into()], folder),
    };
    // Clients accept answers only from the address that they queried.
    let own = SocketAddr::new(free_address().ip(), address.port());
    expect_answer(&asked(own, 1), 1);
    if let Some(six) = six_address {
        expect_answer(&asked(SocketAddr::new("::1".parse().expect("an address"), six.port()), 2), 2);
    }
    server.wait_for_log("passed=1", addresses.len());
}

#[test]
fn queries_wait_for_the_start() {
    let address = free_address();
    let (udp, tcp) = both(address);
    let (over_udp, over_tcp) = (asked(address, 3), asked_over_tcp(address, 4));
    let _server = serve([udp.into(), tcp.into()], folder(&[address], ""));
    expect_answer(&over_udp, 3);
    expect_answer_over_tcp(over_tcp, 4);
}

#[test]
fn queries_between_two_servers_are_answered_by_the_second() {
    let address = free_address();
    let (udp, tcp) = both(address);
    let sockets = || [copy(&udp, UdpSocket::try_clone), copy(&tcp, TcpListener::try_clone)];
    let first = serve(sockets(), folder(&[address], ""));
    expect_answer(&asked(address, 1), 1);
    let folder = first.stop();
    let waiting: Vec<UdpSocket> = (0..50).map(|id| asked(address, id)).collect();
    let over_tcp: Vec<TcpStream> = (0..5).map(|id| asked_over_tcp(address, id)).collect();
    let _second = serve(sockets(), folder);
    (0..50).zip(&waiting).for_each(|(id, client)| expect_answer(client, id));
    (0..5).zip(over_tcp).for_each(|(id, client)| expect_answer_over_tcp(client, id));
}

#[test]
fn no_query_is_lost_while_servers_come_and_go() {
    let address = free_address();
    let (udp, tcp) = both(address);
    let sockets = || [copy(&udp, UdpSocket::try_clone), copy(&tcp, TcpListener::try_clone)];
    let stopped = std::sync::atomic::AtomicBool::new(false);
    let is_stopped = || stopped.load(std::sync::atomic::Ordering::Relaxed);
    std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut answered = 0_u16;
            while !is_stopped() {
                // Each query is sent once, whichever server runs at the time.
                expect_answer(&asked(address, answered), answered);
                answered = answered.wrapping_add(1);
            }
            answered
        });
        let mut at = folder(&[address], "");
        for _ in 0..4 {
            let server = serve(sockets(), at);
            expect_answer(&asked(address, 9), 9);
            at = server.stop();
        }
        let _last = serve(sockets(), at);
        stopped.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(client.join().expect("every query was answered") > 0);
    });
}

/// Returns a datagram socket that shares its address with others, as with `ReusePort=yes`.
fn sharing(address: SocketAddr) -> UdpSocket {
    let made =
        socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None).expect("a socket");
    setsockopt(&made, sockopt::ReusePort, &true).expect("set");
    let SocketAddr::V4(address) = address else { panic!("{address} is not of IPv4") };
    bind(std::os::fd::AsRawFd::as_raw_fd(&made), &SockaddrIn::from(address)).expect("bound");
    made.into()
}

#[test]
fn several_sockets_of_an_address_all_have_a_worker() {
    let address = free_address();
    // More sockets than workers, and none for TCP.
    let sockets = [(); 3].map(|()| OwnedFd::from(sharing(address)));
    let before: Vec<UdpSocket> = (0..100).map(|id| asked(address, id)).collect();
    let server = serve(sockets, folder(&[address], ""));
    (0..100).zip(&before).for_each(|(id, client)| expect_answer(client, id));
    let after: Vec<UdpSocket> = (0..100).map(|id| asked(address, id)).collect();
    (0..100).zip(&after).for_each(|(id, client)| expect_answer(client, id));
    expect_answer_over_tcp(asked_over_tcp(address, 7), 7);
    server.wait_for_log("passed=3", 1);
}

#[test]
fn without_listen_the_passed_sockets_are_the_listeners() {
    let address = free_address();
    let (udp, tcp) = both(address);
    let at = free_address();
    let metrics = TcpListener::bind(at).expect("bound");
    let more = format!("[metrics]\nlisten = {}\n", written(at));
    let server = serve([udp.into(), tcp.into(), metrics.into()], folder(&[], &more));
    expect_answer(&asked(address, 1), 1);
    expect_answer_over_tcp(asked_over_tcp(address, 2), 2);
    let figures = http(at, "GET /metrics");
    assert!(figures.starts_with("HTTP/1.1 200"), "{figures}");
    server.wait_for_log("passed=1", 2);
    assert!(!server.log().contains(":5300"), "{}", server.log());
}

#[test]
fn sockets_meant_for_another_process_are_left_alone() {
    let (own, other) = (free_address(), free_address());
    let socket = UdpSocket::bind(other).expect("bound");
    let command = passing([socket.into()], "1", &["serve", "--config", "nomen.toml"]);
    let server = Server::start_by(command, own, folder(&[own], ""));
    expect_answer(&asked(own, 1), 1);
    assert!(!server.log().contains("passed"), "{}", server.log());
}

#[test]
fn what_cannot_be_listened_on_is_named() {
    let at = free_address();
    let folder = folder(&[at], "");
    let elsewhere = free_address();
    let listener = TcpListener::bind(elsewhere).expect("bound");
    let connection = TcpStream::connect(elsewhere).expect("connected");
    let unix = UnixListener::bind(folder.path().join("unix")).expect("bound");
    // It is passed instead of the configured address.
    let any = UdpSocket::bind(("0.0.0.0", at.port())).expect("bound");
    let unused_any = format!("0.0.0.0@{} over udp, for which nothing is configured", at.port());
    let unused = format!("{} over tcp, for which nothing is configured", written(elsewhere).replace('"', ""));
    let mut wrong: Vec<(OwnedFd, &str)> = vec![
        (File::open("/dev/null").expect("opened").into(), "it is no socket"),
        (unix.into(), "it is a Unix socket"),
        (connection.into(), "Accept=yes"),
        (listener.into(), &unused),
        (any.into(), &unused_any),
    ];
    wrong.extend(everywhere(SockType::Datagram, false).map(|both| (both, "BindIPv6Only=ipv6-only")));
    wrong.extend(everywhere(SockType::Stream, false).map(|both| (both, "BindIPv6Only=ipv6-only")));
    for (descriptor, words) in wrong {
        let trial = run(
            descriptor.try_clone().expect("another descriptor"),
            &folder,
            &["check", "--system", "--no-zones", "nomen.toml"],
        );
        assert_eq!(trial.status.code(), Some(1), "{words}");
        let output = run(descriptor, &folder, &["serve", "--config", "nomen.toml"]);
        assert_eq!(output.status.code(), Some(3), "{words}");
        for said in [text(&trial.stderr), text(&output.stderr)] {
            assert!(said.contains("descriptor 3 (one) was passed"), "{said}");
            assert!(said.contains(words) && said.contains("hint: "), "{words}: {said}");
        }
    }
}

#[test]
fn descriptors_that_were_not_passed_are_a_fault() {
    let folder = folder(&[free_address()], "");
    let mut command = passing([], "$$", &["check", "--system", "--no-zones", "nomen.toml"]);
    for (count, words) in [("1", "descriptor 3 was passed"), ("many", "LISTEN_FDS=many")] {
        let command =
            command.env("LISTEN_FDS", count).env_remove("LISTEN_FDNAMES").current_dir(folder.path());
        let output = command.output().expect("it runs");
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(words), "{said}");
    }
}

#[test]
fn a_check_of_the_system_is_content_with_passed_sockets() {
    let address = free_address();
    let folder = folder(&[address], "");
    let config = fs::read_to_string(folder.path().join("nomen.toml")).expect("the configuration");
    let config = config.replace("[control]", "proto = [\"udp\"]\n[control]");
    fs::write(folder.path().join("nomen.toml"), config).expect("written");
    let socket = UdpSocket::bind(address).expect("bound");
    let check = ["check", "--system", "nomen.toml"];
    let without = crate::support::run(folder.path(), &check);
    assert!(text(&without.stderr).contains("already listens"), "{}", text(&without.stderr));
    let output = run(socket, &folder, &check);
    assert!(output.status.success(), "{}", text(&output.stderr));
}
