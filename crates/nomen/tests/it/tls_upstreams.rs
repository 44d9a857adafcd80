//! Rules whose servers are asked over TLS: a server in the test answers or fails, in a way that the test
//! selects, and records each query that it receives in the clear.

use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{HandshakeKind, ServerConfig, ServerConnection, StreamOwned};
use tempfile::TempDir;

use crate::metrics::http;
use crate::support::{
    BUILT_IN_PORT, BuiltIn, Server, TEST_TIMEOUT, eventually, free_address, message, run, text, written,
};

const SERVER_PIN: &str = "sha256/4Bk+iD5DaeLmvEE3T0l6f1cyQgIOp3jmqnNj3oC3VqE=";
const SELF_PIN: &str = "sha256/FnXh1YnQwt+FtZSYk+Z/oNS8Giph+k2HD69ffUY+Usg=";
/// Timeouts so long that no query is repeated, however slow the machine is.
const LONG_TIMEOUTS: &str = "first-timeout = \"10s\"\nmin-timeout = \"10s\"\nmax-timeout = \"60s\"\n\
                       client-timeout = \"60s\"\ntls-handshake-timeout = \"60s\"\nprobe-interval = \"100ms\"\n";
/// Timeouts so short that a query to a server that does not respond fails within a second.
const SHORT_TIMEOUTS: &str = "first-timeout = \"100ms\"\nmin-timeout = \"100ms\"\nclient-timeout = \"60s\"\n\
                     tls-handshake-timeout = \"300ms\"\nprobe-interval = \"100ms\"\n";

/// What the server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conduct {
    /// It answers each query.
    Answers,
    /// It answers once it has this many queries, the last one first.
    AnswersInReverse(usize),
    /// It answers one query of a connection, and closes it.
    ClosesAfterEach,
    /// It answers one query of a connection and ends its own half of it.
    HalfCloses,
    /// It answers one query of a connection, and resets it when the next comes.
    ResetsLater,
    /// It answers with TC.
    Truncates,
    /// It accepts connections and sends nothing.
    Hangs,
    /// It resets connections in the handshake.
    Resets,
    /// It closes connections in the handshake.
    ClosesInHandshake,
    /// It speaks another protocol.
    Garbage,
}

/// What the server has seen.
#[derive(Default)]
struct Seen {
    connections: usize,
    full: usize,
    resumed: usize,
    /// Lengths of queries.
    lengths: BTreeSet<usize>,
    queries: usize,
    /// Whatever came in the clear.
    in_clear: Vec<Vec<u8>>,
}

/// What threads of the server share.
struct State {
    conduct: Mutex<Conduct>,
    config: Mutex<Arc<ServerConfig>>,
    seen: Mutex<Seen>,
    stops: AtomicBool,
}

/// A DNS server over TLS. It stops when it is dropped, and then nothing may have come in the clear.
struct TlsServer {
    address: SocketAddr,
    state: Arc<State>,
    threads: Vec<JoinHandle<()>>,
}

impl TlsServer {
    fn start(certificate: &str, conduct: Conduct) -> Self {
        // The port must be free for both.
        let (listener, datagrams) = std::iter::repeat_with(|| {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let datagrams = UdpSocket::bind(listener.local_addr().expect("its address"));
            datagrams.ok().map(|datagrams| (listener, datagrams))
        })
        .take(100)
        .flatten()
        .next()
        .expect("a port for both");
        let address = listener.local_addr().expect("its address");
        let state = Arc::new(State {
            conduct: Mutex::new(conduct),
            config: Mutex::new(settings(certificate)),
            seen: Mutex::default(),
            stops: AtomicBool::new(false),
        });
        let (of_tcp, of_udp) = (Arc::clone(&state), Arc::clone(&state));
        let tcp = std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if of_tcp.stops.load(Relaxed) {
                    return;
                }
                let state = Arc::clone(&of_tcp);
                std::thread::spawn(move || state.serve(stream));
            }
        });
        let udp = std::thread::spawn(move || {
            let mut buffer = [0; 2000];
            while let Ok((len, _)) = datagrams.recv_from(&mut buffer) {
                if of_udp.stops.load(Relaxed) {
                    return;
                }
                of_udp.seen.lock().expect("no panic").in_clear.push(buffer[..len].to_vec());
            }
        });
        TlsServer { address, state, threads: vec![tcp, udp] }
    }

    fn show(&self, certificate: &str) {
        *self.state.config.lock().expect("no panic") = settings(certificate);
    }

    fn seen<T>(&self, read: impl FnOnce(&Seen) -> T) -> T {
        read(&self.state.seen.lock().expect("no panic"))
    }

    /// The server as a rule names it.
    fn as_named(&self, identity: &str) -> String {
        let address = written(self.address);
        format!("{}#{identity}\"", address.trim_end_matches('"'))
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        self.state.stops.store(true, Relaxed);
        drop(TcpStream::connect(self.address));
        let _ = UdpSocket::bind("127.0.0.1:0").expect("a port").send_to(&[0], self.address);
        for thread in self.threads.drain(..) {
            thread.join().expect("no panic");
        }
        if !std::thread::panicking() {
            self.seen(|seen| assert_eq!(seen.in_clear, Vec::<Vec<u8>>::new(), "sent in the clear"));
        }
    }
}

impl State {
    fn serve(&self, mut stream: TcpStream) {
        let conduct = *self.conduct.lock().expect("no panic");
        let config = Arc::clone(&self.config.lock().expect("no panic"));
        self.seen.lock().expect("no panic").connections += 1;
        let mut first = [0; 3];
        match stream.peek(&mut first) {
            // A handshake record of TLS.
            Ok(2..) if first[..2] == [22, 3] => {}
            Ok(0) | Err(_) => return,
            Ok(len) => return self.seen.lock().expect("no panic").in_clear.push(first[..len].to_vec()),
        }
        match conduct {
            // Until the client closes the connection.
            Conduct::Hangs => drop(stream.read_to_end(&mut Vec::new())),
            Conduct::ClosesInHandshake => {
                let _ = stream.read(&mut [0; 4096]);
            }
            // The system resets a connection that is closed with unread data.
            Conduct::Resets => drop(stream),
            Conduct::Garbage => {
                let _ = stream.write_all(b"220 mail.example ESMTP\r\n");
                let _ = stream.read_to_end(&mut Vec::new());
            }
            _ => {
                let connection = ServerConnection::new(config).expect("a connection");
                let mut stream = StreamOwned::new(connection, stream);
                // The test examines the end of the connection at the client.
                let _ = self.converse(&mut stream, conduct);
            }
        }
    }

    fn converse(
        &self,
        stream: &mut StreamOwned<ServerConnection, TcpStream>,
        conduct: Conduct,
    ) -> std::io::Result<()> {
        let mut held = Vec::new();
        let mut answered = 0;
        loop {
            let query = match receive(stream) {
                Ok(query) => query,
                Err(error) => {
                    // Sends the alert of a failed handshake.
                    let _ = stream.flush();
                    return Err(error);
                }
            };
            {
                let mut seen = self.seen.lock().expect("no panic");
                if answered + held.len() == 0 {
                    match stream.conn.handshake_kind() {
                        Some(HandshakeKind::Resumed) => seen.resumed += 1,
                        _ => seen.full += 1,
                    }
                }
                seen.queries += 1;
                seen.lengths.insert(query.len());
            }
            if conduct == Conduct::ResetsLater && answered > 0 {
                // The next query is there, unread: the system resets the connection.
                return stream.sock.set_nonblocking(true).and(Err(ErrorKind::ConnectionReset.into()));
            }
            held.push(query);
            if let Conduct::AnswersInReverse(count) = conduct
                && held.len() < count
            {
                continue;
            }
            for query in held.drain(..).rev() {
                answered += 1;
                let answer = answer(&query, conduct == Conduct::Truncates);
                stream.write_all(&[&(answer.len() as u16).to_be_bytes()[..], &answer].concat())?;
            }
            stream.flush()?;
            match conduct {
                Conduct::ClosesAfterEach => {
                    stream.conn.send_close_notify();
                    return stream.flush();
                }
                Conduct::HalfCloses => {
                    stream.sock.shutdown(Shutdown::Write)?;
                    return stream.sock.read_to_end(&mut Vec::new()).map(drop);
                }
                _ => {}
            }
        }
    }
}

fn receive(stream: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut len = [0; 2];
    stream.read_exact(&mut len)?;
    let mut query = vec![0; u16::from_be_bytes(len).into()];
    stream.read_exact(&mut query)?;
    Ok(query)
}

/// The answer to a query for an address: 192.0.2.80.
fn answer(query: &[u8], truncated: bool) -> Vec<u8> {
    let mut end = 12;
    while query[end] != 0 {
        end += 1 + usize::from(query[end]);
    }
    let mut answer = query[..end + 5].to_vec();
    let is_address = query[end + 1..end + 3] == [0, 1] && !truncated;
    (answer[2], answer[3]) = (0x81 | if truncated { 2 } else { 0 }, 0x80);
    answer[6..12].copy_from_slice(&[0, is_address.into(), 0, 0, 0, 0]);
    if is_address {
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 2, 0x58, 0, 4, 192, 0, 2, 80]);
    }
    answer
}

/// A file of certificates or keys, which the tests of `tls` have.
fn data(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tls/tests/data");
    fs::read(folder.join(name)).expect("a file")
}

/// The settings of a server with this certificate.
fn settings(name: &str) -> Arc<ServerConfig> {
    let certificate = CertificateDer::from_pem_slice(&data(&format!("{name}.pem"))).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(&data(&format!("{name}.key"))).expect("a key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.expect("versions").with_no_client_auth();
    let mut config = builder.with_single_cert(vec![certificate], key).expect("settings");
    config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().expect("a ticketer");
    Arc::new(config)
}

/// A folder with the CA certificates.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("ca.pem"), data("ca.pem")).expect("written");
    folder
}

/// A server that forwards all names to these servers, with more keys of `[resolver]`.
fn forwarder(servers: &[String], keys: &str) -> Server {
    let named = servers.iter().any(|server| server.contains("example"));
    let ca_file = if named { "ca-file = \"ca.pem\"\n" } else { "" };
    let rule = format!("[[resolver.forward]]\nservers = [{}]\n{ca_file}", servers.join(", "));
    Server::start_in(folder(), "", &format!("[resolver]\nvalidate = false\n{keys}{rule}"))
}

/// The first server of the first rule.
fn shown(server: &Server) -> serde_json::Value {
    server.ctl_json(&["forward", "list"])[0]["servers"][0].clone()
}

#[test]
fn queries_go_over_tls_padded_on_one_connection_that_is_kept() {
    let upstream = TlsServer::start("server", Conduct::Answers);
    let server = forwarder(&[upstream.as_named("dns.example")], LONG_TIMEOUTS);
    for name in ["a.example", "a-longer-name-than-that.example", "b.example"] {
        assert_eq!(server.query(&[name, "+short"]), "192.0.2.80\n");
    }
    upstream.seen(|seen| {
        assert_eq!((seen.connections, seen.full, seen.queries), (1, 1, 3));
        assert_eq!(seen.lengths, BTreeSet::from([128]));
    });
    let list = shown(&server);
    assert_eq!((&list["tls"], &list["udp"], &list["tcp"]), (&3.into(), &0.into(), &0.into()), "{list}");
    let said = text(&server.ctl(&["explain", "c.example"]).stdout);
    assert!(said.contains("over TLS (dns.example)") && said.contains(" by tls, query 1"), "{said}");
}

#[test]
fn a_server_is_authenticated_by_pin_or_not_at_all_if_its_rule_says_so() {
    for (certificate, identity) in [
        ("server", SERVER_PIN.to_owned()),
        ("self", format!("{SERVER_PIN},{SELF_PIN}")),
        ("server", format!("dns.example,{SERVER_PIN}")),
        ("expired", "opportunistic".to_owned()),
        ("self", "opportunistic".to_owned()),
    ] {
        let upstream = TlsServer::start(certificate, Conduct::Answers);
        let server = forwarder(&[upstream.as_named(&identity)], LONG_TIMEOUTS);
        assert_eq!(server.query(&["www.example", "+short"]), "192.0.2.80\n", "{certificate} {identity}");
    }
}

/// The outcome of a query by a rule whose server fails in this way. Nothing may have come in the clear.
fn refusal(certificate: &str, conduct: Conduct, identity: &str) -> String {
    let upstream = TlsServer::start(certificate, conduct);
    let server = forwarder(&[upstream.as_named(identity)], SHORT_TIMEOUTS);
    let answer = server.query(&["www.example"]);
    assert!(answer.contains("status: SERVFAIL"), "{answer}");
    let error = answer.lines().find(|line| line.contains("EDE")).unwrap_or_else(|| panic!("{answer}"));
    let fault = shown(&server)["tls_fault"].as_str().unwrap_or_default().to_owned();
    assert!(error.contains("EDE: 23 (Network Error)") && error.contains(&fault), "{error} {fault}");
    // Later queries, and the health checks of a server that fails, do not go elsewhere either.
    for name in ["a.example", "b.example", "c.example"] {
        assert!(server.query(&[name, "+tcp"]).contains("status: SERVFAIL"));
    }
    let list = shown(&server);
    assert_eq!((&list["udp"], &list["tcp"]), (&0.into(), &0.into()), "{list}");
    assert_eq!(list["state"], "failing");
    fault
}

#[test]
fn without_an_authenticated_connection_clients_get_the_reason_and_nothing_goes_in_the_clear() {
    let certificate = |name, identity| refusal(name, Conduct::Answers, identity);
    assert_eq!(certificate("expired", "dns.example"), "TLS: the server's certificate has expired");
    assert_eq!(certificate("future", "dns.example"), "TLS: the server's certificate is not valid yet");
    assert_eq!(
        certificate("server", "dns2.example"),
        "TLS: the server's certificate does not match its name"
    );
    assert_eq!(
        certificate("self", "self.example"),
        "TLS: the server's certificate is from an unknown issuer"
    );
    assert_eq!(certificate("self", SERVER_PIN), "TLS: the server's key matches no pin");
}

#[test]
fn a_server_that_fails_in_the_handshake_is_not_asked_in_the_clear() {
    let conduct = |conduct| refusal("server", conduct, "dns.example");
    assert_eq!(conduct(Conduct::Hangs), "TLS: handshake timeout");
    assert_eq!(conduct(Conduct::Resets), "TLS: the server closed the connection during the handshake");
    let closed = "TLS: the server closed the connection during the handshake";
    assert_eq!(conduct(Conduct::ClosesInHandshake), closed);
    assert_eq!(conduct(Conduct::Garbage), "TLS: the server does not speak TLS");
}

#[test]
fn a_port_without_a_server_over_tls_is_not_asked_over_udp() {
    let closed = free_address();
    let datagrams = UdpSocket::bind(closed).expect("a free port");
    let server = forwarder(&[format!("\"{}@{}#{SERVER_PIN}\"", closed.ip(), closed.port())], SHORT_TIMEOUTS);
    let answer = server.query(&["www.example"]);
    assert!(answer.contains("SERVFAIL") && answer.contains("TLS: connection refused"), "{answer}");
    datagrams.set_nonblocking(true).expect("set");
    assert_eq!(datagrams.recv(&mut [0; 512]).map_err(|error| error.kind()), Err(ErrorKind::WouldBlock));
}

#[test]
fn a_truncated_answer_over_tls_is_not_asked_for_elsewhere() {
    let upstream = TlsServer::start("server", Conduct::Truncates);
    let server = forwarder(&[upstream.as_named("dns.example")], LONG_TIMEOUTS);
    let answer = server.query(&["www.example"]);
    assert!(answer.contains("status: SERVFAIL"), "{answer}");
    assert_eq!(upstream.seen(|seen| (seen.connections, seen.in_clear.len())), (1, 0));
}

#[test]
fn many_queries_are_in_flight_on_one_connection_and_their_answers_come_in_any_order() {
    const COUNT: usize = 20;
    let upstream = TlsServer::start("server", Conduct::AnswersInReverse(COUNT));
    let server = forwarder(&[upstream.as_named("dns.example")], LONG_TIMEOUTS);
    let client = UdpSocket::bind("127.0.0.1:0").expect("a port");
    client.set_read_timeout(Some(TEST_TIMEOUT)).expect("set");
    client.connect(server.address).expect("connected");
    for number in 0..COUNT {
        let mut query = message(number as u16, &format!("n{number}.example."), 1);
        // RD.
        query[2] |= 1;
        client.send(&query).expect("sent");
    }
    let mut answered = BTreeSet::new();
    while answered.len() < COUNT {
        let mut buffer = [0; 512];
        let len = client.recv(&mut buffer).expect("an answer");
        assert!(buffer[..len].ends_with(&[192, 0, 2, 80]), "{:?}", &buffer[..len]);
        answered.insert(u16::from_be_bytes([buffer[0], buffer[1]]));
    }
    assert_eq!(upstream.seen(|seen| (seen.connections, seen.queries)), (1, COUNT));
}

#[test]
fn a_server_that_ends_connections_after_each_answer_is_reached_by_resumed_sessions() {
    for conduct in [Conduct::ClosesAfterEach, Conduct::HalfCloses, Conduct::ResetsLater] {
        let upstream = TlsServer::start("server", conduct);
        let server = forwarder(&[upstream.as_named("dns.example")], LONG_TIMEOUTS);
        for number in 0..4 {
            let answer = server.query(&[&format!("n{number}.example"), "+short"]);
            assert_eq!(answer, "192.0.2.80\n", "{conduct:?} {number}");
        }
        assert_eq!(upstream.seen(|seen| (seen.full, seen.resumed)), (1, 3), "{conduct:?}");
        assert_eq!(shown(&server)["state"], "ok");
    }
}

#[test]
fn a_certificate_that_changes_is_verified_at_the_next_connection() {
    let upstream = TlsServer::start("server", Conduct::ClosesAfterEach);
    let server = forwarder(&[upstream.as_named(&format!("dns.example,{SERVER_PIN}"))], LONG_TIMEOUTS);
    assert_eq!(server.query(&["a.example", "+short"]), "192.0.2.80\n");
    upstream.show("renewed");
    let answer = server.query(&["b.example"]);
    assert!(
        answer.contains("SERVFAIL") && answer.contains("TLS: the server's key matches no pin"),
        "{answer}"
    );
    assert_eq!(shown(&server)["tls_fault"], "TLS: the server's key matches no pin");
    // As it was, it is trusted again.
    upstream.show("server");
    let mut number = 0;
    eventually("the server is used again", &server, || {
        number += 1;
        server.query(&[&format!("n{number}.example"), "+short"]) == "192.0.2.80\n"
    });
    assert_eq!(shown(&server)["tls_fault"], serde_json::Value::Null);
}

#[test]
fn another_identity_is_in_force_from_a_reload_on() {
    let upstream = TlsServer::start("server", Conduct::Answers);
    let server = forwarder(&[upstream.as_named("dns.example")], LONG_TIMEOUTS);
    assert_eq!(server.query(&["a.example", "+short"]), "192.0.2.80\n");
    // The connection that is open was authenticated in another way: it is not used.
    server.reconfigure("#dns.example", "#other.example");
    server.reload();
    let answer = server.query(&["b.example"]);
    assert!(answer.contains("TLS: the server's certificate does not match its name"), "{answer}");
    server.reconfigure("#other.example", "#dns.example");
    // Other authorities at the same path.
    server.write("ca.pem", &String::from_utf8(data("self.pem")).expect("text"));
    server.reload();
    let answer = server.query(&["c.example"]);
    assert!(answer.contains("TLS: the server's certificate is from an unknown issuer"), "{answer}");
    server.write("ca.pem", &String::from_utf8(data("ca.pem")).expect("text"));
    server.reload();
    assert_eq!(server.query(&["d.example", "+short"]), "192.0.2.80\n");
    assert_eq!(upstream.seen(|seen| seen.queries), 2);
    // A reload that changes nothing leaves the connection open.
    server.reload();
    let before = upstream.seen(|seen| seen.connections);
    assert_eq!(server.query(&["e.example", "+short"]), "192.0.2.80\n");
    assert_eq!(upstream.seen(|seen| seen.connections), before);
}

#[test]
fn of_two_servers_the_one_that_can_be_authenticated_answers() {
    let wrong = TlsServer::start("self", Conduct::Answers);
    let right = TlsServer::start("server", Conduct::Answers);
    let server = forwarder(&[wrong.as_named("dns.example"), right.as_named("dns.example")], LONG_TIMEOUTS);
    for number in 0..6 {
        assert_eq!(server.query(&[&format!("n{number}.example"), "+short"]), "192.0.2.80\n");
    }
    assert_eq!(wrong.seen(|seen| seen.queries), 0);
}

#[test]
fn handshakes_and_their_failures_are_in_the_metrics() {
    let upstream = TlsServer::start("server", Conduct::ClosesAfterEach);
    let metrics = free_address();
    let rule = format!("[[resolver.forward]]\nservers = [{}]\n", upstream.as_named(SERVER_PIN));
    let more = format!(
        "[resolver]\nvalidate = false\n{LONG_TIMEOUTS}{rule}[metrics]\nlisten = {}\n",
        written(metrics)
    );
    let server = Server::start_in(folder(), "", &more);
    for name in ["a.example", "b.example"] {
        assert_eq!(server.query(&[name, "+short"]), "192.0.2.80\n");
    }
    let page = http(metrics, "GET /metrics");
    let label = format!("server=\"{} over TLS ({SERVER_PIN})\"", upstream.address);
    for line in [
        format!("nomen_upstream_tls_queries_total{{{label}}} 2"),
        format!("nomen_upstream_tls_handshakes_total{{{label},kind=\"full\"}} 1"),
        format!("nomen_upstream_tls_handshakes_total{{{label},kind=\"resumed\"}} 1"),
        format!("nomen_upstream_tls_failures_total{{{label},reason=\"wrong-pin\"}} 0"),
    ] {
        assert!(page.contains(&line), "{line}: {page}");
    }
    upstream.show("self");
    assert!(server.query(&["c.example"]).contains("SERVFAIL"));
    let page = http(metrics, "GET /metrics");
    let failures = format!("nomen_upstream_tls_failures_total{{{label},reason=\"wrong-pin\"}} ");
    let count = page.lines().find_map(|line| line.strip_prefix(&failures)).expect("counted");
    assert_ne!(count, "0");
}

#[test]
fn the_command_line_takes_servers_over_tls() {
    let upstream = TlsServer::start("self", Conduct::Answers);
    let option = upstream.as_named(SELF_PIN).replace('"', "");
    let _port = BUILT_IN_PORT.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().expect("a folder");
    let output = run(folder.path(), &["serve", "--forward", "192.0.2.1#sha256/AAAA"]);
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("is not the pin of a key: it has 3 bytes"), "{said}");
    let Some(server) = BuiltIn::start(&["--forward", &option]) else { return };
    assert_eq!(server.query("www.example", &["+short"]), "192.0.2.80\n");
    let said = &server.greeting;
    assert!(said.contains(&format!("forwards queries of this machine to {option}")), "{said}");
}

#[test]
fn faults_in_a_rule_are_shown_where_they_stand() {
    let check = |rule: &str| {
        let folder = folder();
        let file = folder.path().join("nomen.toml");
        fs::write(&file, format!("[[listen]]\naddr = [\"127.0.0.1@5300\"]\n[[resolver.forward]]\n{rule}\n"))
            .expect("written");
        let output = run(folder.path(), &["check", "nomen.toml"]);
        (output.status.success(), text(&output.stdout) + &text(&output.stderr))
    };
    for (rule, fault) in [
        ("servers = [\"192.0.2.1#\"]", "after `#` comes the server's name, a pin"),
        ("servers = [\"192.0.2.1#a..b\"]", "`a..b` cannot be the name in a certificate"),
        ("servers = [\"192.0.2.1#sha256/AAAA\"]", "it has 3 bytes, and a SHA-256 digest has 32"),
        ("servers = [\"192.0.2.1#sha256/%\"]", "it is not base64"),
        ("servers = [\"192.0.2.1#a.example,opportunistic\"]", "there can be no name or pin beside it"),
        ("servers = [\"192.0.2.1#a.example,b.example\"]", "`b.example` is the second"),
        ("servers = [\"odoh://a.example@192.0.2.1\"]", "the target of Oblivious DoH has no proxy"),
        (
            "servers = [\"odoh://a.example/q?proxy=https://192.0.2.1/p\"]",
            "write the address it is fetched from, `odoh://a.example/q@192.0.2.53`",
        ),
        (
            "servers = [\"odoh://a.example/q@192.0.2.1?proxy=https://b.example/p\"]",
            "the proxy behind `proxy=`: the host has a name; write its address behind it",
        ),
        (
            "servers = [\"odoh://a.example/q?configs=AAAA&proxy=https://192.0.2.1/p\"]",
            "the target's configurations behind `configs=`: they are malformed",
        ),
    ] {
        let (good, said) = check(rule);
        assert!(!good && said.contains(fault) && said.contains("nomen.toml:4:12"), "{rule}: {said}");
    }
    let (good, said) = check("servers = [\"192.0.2.1#dns.example\"]\nca-file = \"none.pem\"");
    assert!(!good && said.contains("CA certificates cannot be read") && said.contains(":5:11"), "{said}");
    let (good, said) = check("servers = [\"192.0.2.1\"]\nca-file = \"ca.pem\"");
    assert!(!good && said.contains("`ca-file` has no effect") && said.contains(":5:11"), "{said}");
    let (good, said) = check("servers = [\"192.0.2.1#dns.example\", \"192.0.2.2\"]\nca-file = \"ca.pem\"");
    assert!(good && said.contains("queries of this rule go to 192.0.2.2@53 in the clear"), "{said}");
    let (good, said) =
        check("servers = [\"192.0.2.1#dns.example\"]\nca-file = \"ca.pem\"\nforward-first = true");
    assert!(
        good && said.contains("with `forward-first`, queries go to other servers in the clear"),
        "{said}"
    );
    let (good, said) = check("servers = [\"192.0.2.1#dns.example\"]\nca-file = \"ca.pem\"");
    assert!(good && !said.contains("in the clear"), "{said}");
}
