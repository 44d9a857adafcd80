//! DNS over TLS: what TCP has inside a TLS connection, failed handshakes, sessions, certificates, proxies.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use net::{Context, Listener, ListenerConfig, ListenerTls, TcpConfig, TcpLimits, TcpTimes, TlsChallenges};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};
use tls::{ServerCertificate, ServerTls};
use transport::Transport;

use crate::script::*;

/// The settings of a TLS server, and its certificate.
pub(crate) struct Identity {
    server: ServerTls,
    certificate: Arc<ServerCertificate>,
    pub(crate) challenges: TlsChallenges,
}

impl Identity {
    pub(crate) fn new() -> Identity {
        let (server, certificate) = (ServerTls::new().unwrap(), certificate());
        server.set(vec![Arc::clone(&certificate)]);
        Identity { server, certificate, challenges: TlsChallenges::default() }
    }

    /// Limits that no test reaches, with these timeouts.
    pub(crate) fn context(&self, times: TcpTimes) -> Context {
        let mut context = Context::new(TcpLimits::new(1000, 1000, &times));
        let (server, challenges) = (&self.server, self.challenges.clone());
        let (dot, https, quic) = (server.dot(), server.https(), server.quic());
        context.tls = Some(ListenerTls { dot, https, quic, identify: None, challenges });
        context
    }

    fn start(&self, times: TcpTimes) -> ScriptedServer {
        self.start_with(&config(), times)
    }

    fn start_with(&self, config: &ListenerConfig, times: TcpTimes) -> ScriptedServer {
        ScriptedServer::start_with("127.0.0.1:0", Transport::Tls, config, &self.context(times))
    }

    /// Settings of a client that accepts this certificate alone.
    fn client(&self) -> Arc<ClientConfig> {
        self.client_of(b"dot")
    }

    /// The same, for this application protocol.
    pub(crate) fn client_of(&self, protocol: &[u8]) -> Arc<ClientConfig> {
        client(&self.certificate, protocol)
    }
}

fn certificate() -> Arc<ServerCertificate> {
    Arc::new(ServerCertificate::self_signed(&["dns.test".into()]).unwrap())
}

fn client(certificate: &ServerCertificate, protocol: &[u8]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.chain()[0].clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(tls::provider());
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    Arc::new(config)
}

pub(crate) fn config() -> ListenerConfig {
    ListenerConfig { workers: 1, ..ListenerConfig::default() }
}

/// A TLS client.
struct TlsClient(StreamOwned<ClientConnection, TcpStream>);

impl TlsClient {
    fn connect(server: SocketAddr, config: &Arc<ClientConfig>) -> TlsClient {
        TlsClient::on(TcpClient::connect(server).0, config)
    }

    fn on(stream: TcpStream, config: &Arc<ClientConfig>) -> TlsClient {
        let name = ServerName::try_from("dns.test").unwrap();
        let connection = ClientConnection::new(Arc::clone(config), name).unwrap();
        TlsClient(StreamOwned::new(connection, stream))
    }

    fn send(&mut self, messages: &[Vec<u8>]) {
        self.0.write_all(&framed(messages)).unwrap();
    }

    fn receive(&mut self) -> std::io::Result<Vec<u8>> {
        let mut prefix = [0; 2];
        self.0.read_exact(&mut prefix)?;
        let mut message = vec![0; usize::from(u16::from_be_bytes(prefix))];
        self.0.read_exact(&mut message)?;
        Ok(message)
    }

    fn echo(&mut self, id: u16) {
        let q = query(id, Order::Echo, 40);
        self.send(std::slice::from_ref(&q));
        assert_eq!(self.receive().unwrap(), echoed(&q));
    }

    /// Whether the session of an earlier connection was resumed.
    fn resumed(&self) -> bool {
        self.0.conn.handshake_kind() == Some(HandshakeKind::Resumed)
    }
}

#[test]
fn answers_of_every_kind_and_size_arrive() {
    let identity = Identity::new();
    let server = identity.start(TcpTimes::default());
    let mut client = TlsClient::connect(server.addr(), &identity.client());
    let queries: Vec<_> = (0..100).map(|id| query(id, Order::Echo, 17 + usize::from(id))).collect();
    client.send(&queries);
    for q in &queries {
        assert_eq!(client.receive().unwrap(), echoed(q));
    }
    for len in [17, 500, 4096, 65_535] {
        let q = query(3, Order::Echo, len);
        client.send(std::slice::from_ref(&q));
        assert_eq!(client.receive().unwrap(), echoed(&q));
    }
    client.send(&[query(1, Order::Large(65_535), 17), query(2, Order::Stream(500), 17)]);
    assert_eq!(client.receive().unwrap().len(), 65_535);
    for number in 0..500_u32 {
        let message = client.receive().unwrap();
        assert_eq!((message.len(), &message[..4]), (1000, &number.to_be_bytes()[..]));
    }
    let late = query(7, Order::Later, 30);
    client.send(std::slice::from_ref(&late));
    assert_eq!(client.receive().unwrap(), echoed(&late));
    client.send(&[query(8, Order::Hold, 30)]);
    let (promise, q) = server.next_held();
    assert_eq!(promise.client().transport, Transport::Tls);
    promise.send(&q);
    assert_eq!(client.receive().unwrap(), q);
    client.0.conn.send_close_notify();
    client.0.flush().unwrap();
    server.wait_for("the close", |totals| totals.tcp_closed_by_peer == 1);
    let totals = server.stop();
    assert_eq!((totals.tls_handshakes, totals.tls_resumed, totals.late_lost), (1, 0, 0));
}

#[test]
fn a_query_in_pieces_of_one_byte_is_answered() {
    let identity = Identity::new();
    let server = identity.start(TcpTimes::default());
    let mut client = TlsClient::connect(server.addr(), &identity.client());
    let q = query(9, Order::Echo, 40);
    // Each byte is a record of its own.
    for byte in framed(std::slice::from_ref(&q)) {
        client.0.write_all(&[byte]).unwrap();
        client.0.flush().unwrap();
    }
    assert_eq!(client.receive().unwrap(), echoed(&q));
    server.stop();
}

#[test]
fn a_connection_without_an_alert_at_its_end_is_no_error() {
    let identity = Identity::new();
    let server = identity.start(TcpTimes::default());
    let mut client = TlsClient::connect(server.addr(), &identity.client());
    client.echo(1);
    client.0.sock.shutdown(std::net::Shutdown::Write).unwrap();
    server.wait_for("the close", |totals| totals.tcp_closed == 1);
    let totals = server.stop();
    assert_eq!((totals.tcp_closed_by_peer, totals.tcp_closed_error), (1, 0));
}

#[test]
fn failed_handshakes_are_counted_by_their_cause() {
    let identity = Identity::new();
    let server = identity.start(TcpTimes { first_message: TEST_TIMEOUT, ..TcpTimes::default() });
    // DNS over TCP, HTTP, and bytes of neither.
    for bytes in [framed(&[query(1, Order::Echo, 30)]), b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![0xff; 600]] {
        let before = server.totals().tls_malformed;
        let mut plain = TcpClient::connect(server.addr());
        plain.0.write_all(&bytes).unwrap();
        server.wait_for("the count", |totals| totals.tls_malformed == before + 1);
        // An alert may precede the end.
        while plain.0.read(&mut [0; 64]).is_ok_and(|n| n > 0) {}
    }
    let mut other = TlsClient::connect(server.addr(), &client(&identity.certificate, b"h2"));
    assert!(other.0.write_all(&[0; 30]).and_then(|()| other.receive().map(drop)).is_err());
    server.wait_for("the count", |totals| totals.tls_incompatible == 1);
    let mut stranger = TlsClient::connect(server.addr(), &client(&certificate(), b"dot"));
    assert!(stranger.0.write_all(&[0; 30]).is_err(), "the client trusts another certificate");
    server.wait_for("the count", |totals| totals.tls_refused == 1);
    drop(TcpClient::connect(server.addr()));
    server.wait_for("the count", |totals| totals.tls_broken == 1);
    TlsClient::connect(server.addr(), &identity.client()).echo(1);
    let totals = server.stop();
    assert_eq!((totals.tls_handshakes, totals.tcp_accepted, totals.tcp_closed), (1, 7, 7));
}

#[test]
fn clients_that_do_not_finish_the_handshake_are_closed_in_time() {
    let identity = Identity::new();
    let times = TcpTimes { first_message: Duration::from_millis(300), ..TcpTimes::default() };
    let server = identity.start(times);
    // One sends nothing, the other stops in the middle of its first record.
    let mut silent = [TcpClient::connect(server.addr()), TcpClient::connect(server.addr())];
    silent[1].0.write_all(&[22, 3, 1, 1, 0, 1]).unwrap();
    server.wait_for("the timeouts", |totals| totals.tcp_timeout_first == 2);
    assert_eq!(server.stop().tls_handshakes, 0);
}

#[test]
fn sessions_are_resumed_and_leave_nothing_in_the_server() {
    let identity = Identity::new();
    let server = identity.start(TcpTimes::default());
    let config = identity.client();
    for round in 0..4 {
        let mut client = TlsClient::connect(server.addr(), &config);
        client.echo(round);
        assert_eq!(client.resumed(), round > 0);
    }
    assert_eq!((server.totals().tls_handshakes, server.totals().tls_resumed), (4, 3));
    server.stop();
}

#[test]
fn a_new_certificate_is_for_new_connections() {
    let identity = Identity::new();
    let server = identity.start(TcpTimes::default());
    let mut before = TlsClient::connect(server.addr(), &identity.client());
    before.echo(1);
    let next = certificate();
    identity.server.set(vec![Arc::clone(&next)]);
    let mut after = TlsClient::connect(server.addr(), &client(&next, b"dot"));
    after.echo(2);
    before.echo(3);
    assert_ne!(before.0.conn.peer_certificates(), after.0.conn.peer_certificates());
    server.stop();
}

#[test]
fn a_client_that_does_not_read_is_closed_and_others_are_answered() {
    let identity = Identity::new();
    let times = TcpTimes { write: Duration::from_millis(300), ..TcpTimes::default() };
    let tcp = TcpConfig { max_unsent: 128 * 1024, ..TcpConfig::default() };
    let server = identity.start_with(&ListenerConfig { tcp, ..config() }, times);
    let mut client = TlsClient::connect(server.addr(), &identity.client());
    client.send(&[query(1, Order::Stream(u32::MAX), 17)]);
    let mut other = TlsClient::connect(server.addr(), &identity.client());
    wait_until("the close", || {
        other.echo(2);
        server.totals().tcp_timeout_write == 1
    });
    server.stop();
}

#[test]
fn a_client_that_reads_late_receives_everything() {
    let identity = Identity::new();
    let tcp = TcpConfig { max_unsent: 64 << 20, max_in_flight: 1000, ..TcpConfig::default() };
    let times = TcpTimes { write: TEST_TIMEOUT, ..TcpTimes::default() };
    // Connections inherit the small buffer.
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    socket2::SockRef::from(&socket).set_send_buffer_size(32 * 1024).unwrap();
    let bound =
        Listener::from_tcp(vec![socket], Transport::Tls, &ListenerConfig { tcp, ..config() }).unwrap();
    let server = ScriptedServer::serve(bound, &identity.context(times));
    let mut sent = 0;
    // With one of these numbers the last bytes fill the buffers of both sockets, and wait encrypted for more
    // room, with nothing behind them.
    for number in 1..=40_u16 {
        let stream = TcpClient::connect(server.addr()).0;
        socket2::SockRef::from(&stream).set_recv_buffer_size(64 * 1024).unwrap();
        let mut client = TlsClient::on(stream, &identity.client());
        client.send(&(0..number).map(|id| query(id, Order::Large(16_384), 17)).collect::<Vec<_>>());
        sent += u64::from(number);
        server.wait_for("the replies", |totals| totals.replies == sent);
        for id in 0..number {
            let reply = client.receive().unwrap();
            assert_eq!((reply.len(), &reply[..2]), (16_384, &id.to_be_bytes()[..]));
        }
    }
    server.stop();
}

#[test]
fn connections_end_with_an_alert_when_the_listener_stops() {
    let identity = Identity::new();
    let server = identity.start(TcpTimes::default());
    let mut client = TlsClient::connect(server.addr(), &identity.client());
    client.echo(1);
    server.stop();
    assert_eq!(client.0.read(&mut [0; 1]).unwrap(), 0, "an end without an alert is an error for rustls");
}

#[test]
fn a_proxy_names_its_client_before_the_handshake_or_inside() {
    let identity = Identity::new();
    let context = identity.context(TcpTimes::default());
    context.proxies.set([([127, 0, 0, 1].into(), 32)], 512);
    let server = ScriptedServer::start_with("127.0.0.1:0", Transport::Tls, &config(), &context);
    // 192.0.2.7 port 4660 to 198.51.100.1 port 53, with an extension of 300 bytes.
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x01\x3b".to_vec();
    header.extend([192, 0, 2, 7, 198, 51, 100, 1, 0x12, 0x34, 0, 53, 4, 1, 44]);
    header.extend([9; 300]);
    for before in [true, false] {
        let mut stream = TcpClient::connect(server.addr()).0;
        if before {
            stream.write_all(&header).unwrap();
        }
        let mut client = TlsClient::on(stream, &identity.client());
        if !before {
            client.0.write_all(&header).unwrap();
        }
        client.send(&[query(1, Order::Hold, 30)]);
        let (promise, q) = server.next_held();
        assert_eq!(promise.client().peer, "192.0.2.7:4660".parse().unwrap(), "before: {before}");
        promise.send(&q);
        assert_eq!(client.receive().unwrap(), q);
    }
    // Neither: the first message is taken for a header.
    let mut client = TlsClient::connect(server.addr(), &identity.client());
    client.send(&[query(1, Order::Echo, 30)]);
    assert!(client.receive().is_err());
    // Half a header, and the end.
    let mut stream = TcpClient::connect(server.addr());
    stream.0.write_all(&header[..40]).unwrap();
    drop(stream);
    server.wait_for("the closes", |totals| totals.tcp_closed >= 2);
    let totals = server.stop();
    assert_eq!((totals.proxy_missing, totals.tls_handshakes), (1, 3));
}
