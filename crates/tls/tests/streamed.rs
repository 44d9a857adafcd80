//! Sessions over HTTPS and QUIC, against servers on the loopback interface that answer, or fail in a way that
//! the test selects.

use std::future::poll_fn;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tls::client::{Authorities, ClientSettings, ServerIdentity};
use tokio::sync::Notify;
use transport::{ConnectionSession, Encryption, EncryptionFault, StreamedEvent, StreamedSession, Transport};

#[path = "streamed/oblivious.rs"]
mod oblivious;

/// How long a test waits for anything.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// A server with the certificate of dns.example, and this application protocol.
fn server(alpn: &[u8]) -> Arc<ServerConfig> {
    let key = PrivateKeyDer::from_pem_file(data("server.key")).expect("a key");
    let certificate = CertificateDer::from_pem_file(data("server.pem")).expect("a certificate");
    let builder = ServerConfig::builder_with_provider(tls::provider()).with_safe_default_protocol_versions();
    let builder = builder.expect("versions").with_no_client_auth();
    let mut config = builder.with_single_cert(vec![certificate], key).expect("settings");
    config.alpn_protocols = vec![alpn.to_vec()];
    Arc::new(config)
}

/// A server that is authenticated by this name.
fn named(name: &str) -> ServerIdentity {
    let roots = tls::authorities(Some(&data("ca.pem"))).expect("authorities");
    let name = (name.parse().expect("a name"), Authorities::new(roots));
    ServerIdentity::Authenticated { name: Some(name), pins: Vec::new() }
}

fn over_https(name: &str) -> Encryption {
    let url = "https://dns.example/dns-query".parse().expect("a URL");
    tls::over_https(&named(name), &url).expect("settings")
}

/// A query with this ID, of 12 bytes and a body.
fn query(id: u16) -> Vec<u8> {
    let mut query = vec![0x77; 20];
    query[..2].copy_from_slice(&id.to_be_bytes());
    query
}

/// The response to it: the same bytes.
fn response(id: u16) -> StreamedEvent {
    StreamedEvent::Response(query(id))
}

/// Returns the session of a connection to this server.
fn session(encryption: &Encryption, to: SocketAddr) -> Box<dyn StreamedSession> {
    match encryption.session(to, Instant::now()) {
        Ok(ConnectionSession::Streams(session)) => session,
        Ok(ConnectionSession::Bytes(_)) => panic!("a session without streams"),
        Err(fault) => panic!("{fault}"),
    }
}

/// A session and its socket.
struct Client {
    session: Box<dyn StreamedSession>,
    socket: Socket,
    events: Vec<StreamedEvent>,
}

enum Socket {
    Stream(TcpStream),
    Datagrams(UdpSocket),
}

impl Client {
    fn new(encryption: &Encryption, to: SocketAddr) -> Self {
        let socket = match encryption.transport() {
            Transport::Quic => {
                let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
                socket.connect(to).expect("connected");
                Socket::Datagrams(socket)
            }
            _ => Socket::Stream(TcpStream::connect(to).expect("connected")),
        };
        Client { session: session(encryption, to), socket, events: Vec::new() }
    }

    fn send(&mut self, id: u16) {
        self.session.send(&query(id), Instant::now());
        self.flush();
    }

    fn flush(&mut self) {
        let mut bytes = Vec::new();
        while self.session.output(&mut bytes, Instant::now()) {
            // The server may have closed the connection.
            let _ = match &mut self.socket {
                Socket::Stream(stream) => stream.write_all(&bytes),
                Socket::Datagrams(socket) => socket.send(&bytes).map(drop),
            };
            bytes.clear();
        }
        self.events.extend(std::iter::from_fn(|| self.session.event()));
    }

    /// Exchanges bytes until the event, and returns all events up to it.
    fn until(&mut self, is_last: impl Fn(&StreamedEvent) -> bool) -> Vec<StreamedEvent> {
        let (mut buffer, end) = (vec![0; 65_535], Instant::now() + TEST_TIMEOUT);
        loop {
            self.flush();
            if let Some(at) = self.events.iter().position(&is_last) {
                return self.events.drain(..=at).collect();
            }
            assert!(Instant::now() < end, "{:?}", self.events);
            let deadline = self.session.deadline().unwrap_or(end);
            let wait = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            let read = match &mut self.socket {
                Socket::Stream(stream) => {
                    stream.set_read_timeout(Some(wait)).expect("set");
                    stream.read(&mut buffer)
                }
                Socket::Datagrams(socket) => {
                    socket.set_read_timeout(Some(wait)).expect("set");
                    socket.recv(&mut buffer)
                }
            };
            match read {
                Ok(0) => return std::mem::take(&mut self.events),
                Ok(len) => self.session.receive(&buffer[..len], Instant::now()),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    self.session.timeout(Instant::now());
                }
                Err(_) => return std::mem::take(&mut self.events),
            }
        }
    }

    /// Sends a query, and returns the event about it.
    fn ask(&mut self, id: u16) -> StreamedEvent {
        self.send(id);
        let is_about = |event: &StreamedEvent| {
            matches!(
                event,
                StreamedEvent::Response(_) | StreamedEvent::Failed { .. } | StreamedEvent::Insecure(_)
            )
        };
        self.until(is_about).pop().expect("an event")
    }
}

/// What the server over HTTPS does with a request.
#[derive(Clone, Copy)]
enum Conduct {
    /// It responds with this status, this type and so many bytes of a body; without one it echoes the body.
    Responds(u16, &'static str, Option<usize>),
    /// It resets the stream.
    Resets,
    /// It announces that it takes no further requests, and answers the one it has when it is notified.
    GoesAway(&'static Notify),
    /// It answers the second request before the first.
    Reverses,
}

/// Runs a runtime of a server in a thread, which ends with the test's process.
fn in_thread<F: Future<Output = ()>>(serve: impl FnOnce() -> F + Send + 'static) {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(serve());
    });
}

/// Starts a server over HTTPS with this application protocol.
fn https(alpn: &'static [u8], conduct: Conduct) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    listener.set_nonblocking(true).expect("set");
    in_thread(move || async move {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        let acceptor = tokio_rustls::TlsAcceptor::from(server(alpn));
        while let Ok((stream, _)) = listener.accept().await {
            // A client may end the handshake.
            if let Ok(stream) = acceptor.accept(stream).await {
                let _ = serve(stream, conduct).await;
            }
        }
    });
    address
}

type Responder = h2::server::SendResponse<Bytes>;

async fn serve<S>(stream: S, conduct: Conduct) -> Result<(), h2::Error>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let mut connection = h2::server::handshake(stream).await?;
    let mut waiting: Option<(Responder, Vec<u8>)> = None;
    while let Some(accepted) = connection.accept().await {
        let (request, mut responder) = accepted?;
        assert_eq!(request.uri().path(), "/dns-query");
        assert_eq!(request.headers()["content-type"], "application/dns-message");
        let message = whole(&mut connection, request.into_body()).await;
        if message.is_empty() {
            continue;
        }
        assert_eq!(message[..2], [0, 0], "the message ID");
        match conduct {
            Conduct::Responds(status, of_type, len) => {
                let body = len.map_or(message, |len| vec![7; len]);
                respond(&mut responder, status, of_type, body);
            }
            Conduct::Resets => responder.send_reset(h2::Reason::INTERNAL_ERROR),
            Conduct::GoesAway(answers) => {
                connection.graceful_shutdown();
                tokio::spawn(async move {
                    answers.notified().await;
                    respond(&mut responder, 200, "application/dns-message", message);
                });
            }
            Conduct::Reverses => match waiting.take() {
                None => waiting = Some((responder, message)),
                Some((mut first, of_first)) => {
                    respond(&mut responder, 200, "application/dns-message", message);
                    respond(&mut first, 200, "application/dns-message", of_first);
                }
            },
        }
    }
    Ok(())
}

/// Returns the body of a request, or what came of it before it was cancelled.
async fn whole<S>(connection: &mut h2::server::Connection<S, Bytes>, mut body: h2::RecvStream) -> Vec<u8>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let mut message = Vec::new();
    // The connection has to be polled while the body arrives.
    loop {
        let data = poll_fn(|context| {
            let _ = connection.poll_closed(context);
            body.poll_data(context)
        });
        match data.await {
            Some(Ok(data)) => message.extend_from_slice(&data),
            Some(Err(_)) | None => return message,
        }
    }
}

fn respond(responder: &mut Responder, status: u16, of_type: &str, body: Vec<u8>) {
    let head = http::Response::builder().status(status).header("content-type", of_type);
    // The query may have been cancelled.
    if let Ok(mut stream) = responder.send_response(head.body(()).expect("a head"), false) {
        let _ = stream.send_data(body.into(), true);
    }
}

const ECHO: Conduct = Conduct::Responds(200, "application/dns-message", None);

#[test]
fn queries_over_https_share_a_connection_and_have_the_id_0() {
    let mut client = Client::new(&over_https("dns.example"), https(b"h2", ECHO));
    client.send(7);
    let events = client.until(|event| *event == response(7));
    assert_eq!(events, [StreamedEvent::Established { resumed: false }, response(7)]);
    assert_eq!(client.ask(0x1234), response(0x1234));
}

#[test]
fn responses_over_https_come_in_any_order() {
    let mut client = Client::new(&over_https("dns.example"), https(b"h2", Conduct::Reverses));
    client.send(1);
    client.send(2);
    let mut events = client.until(|event| *event == response(1));
    if !events.contains(&response(2)) {
        events.extend(client.until(|event| *event == response(2)));
    }
    assert_eq!(events.len(), 3, "{events:?}");
}

#[test]
fn anything_but_a_dns_message_fails_the_query_alone() {
    let message = "application/dns-message";
    let responds = |status, of_type, len| Conduct::Responds(status, of_type, len);
    for (conduct, fault) in [
        (responds(301, message, None), EncryptionFault::HttpRedirect),
        (responds(403, message, None), EncryptionFault::HttpForbidden),
        (responds(404, message, None), EncryptionFault::HttpNotFound),
        (responds(429, message, None), EncryptionFault::HttpTooMany),
        (responds(415, message, None), EncryptionFault::HttpRefused),
        (responds(500, message, None), EncryptionFault::HttpServer),
        (responds(204, message, Some(0)), EncryptionFault::HttpStatus),
        (responds(200, "text/html", None), EncryptionFault::HttpType),
        (responds(200, message, Some(11)), EncryptionFault::HttpLength),
        (responds(200, message, Some(65_536)), EncryptionFault::HttpLength),
        (Conduct::Resets, EncryptionFault::HttpReset),
    ] {
        let mut client = Client::new(&over_https("dns.example"), https(b"h2", conduct));
        for id in [3, 4] {
            assert_eq!(client.ask(id), StreamedEvent::Failed { id, fault: Some(fault) });
        }
    }
    let longest = responds(200, "Application/DNS-Message; q=1", Some(65_535));
    let mut client = Client::new(&over_https("dns.example"), https(b"h2", longest));
    let StreamedEvent::Response(message) = client.ask(9) else { panic!("no response") };
    assert_eq!((message.len(), &message[..3]), (65_535, &[0, 9, 7][..]));
}

#[test]
fn a_server_that_goes_away_takes_no_further_queries() {
    let answers: &Notify = Box::leak(Box::default());
    let mut client = Client::new(&over_https("dns.example"), https(b"h2", Conduct::GoesAway(answers)));
    client.send(1);
    client.until(|event| *event == StreamedEvent::Draining);
    assert_eq!(client.ask(2), StreamedEvent::Failed { id: 2, fault: None });
    answers.notify_one();
    let events = client.until(|event| matches!(event, StreamedEvent::Ended(_)));
    assert_eq!(events, [response(1), StreamedEvent::Ended(ErrorKind::UnexpectedEof)]);
}

#[test]
fn a_server_with_another_name_or_without_http_2_is_not_used() {
    let mut client = Client::new(&over_https("dns2.example"), https(b"h2", ECHO));
    assert_eq!(client.ask(1), StreamedEvent::Insecure(EncryptionFault::WrongName));
    let mut client = Client::new(&over_https("dns.example"), https(b"http/1.1", ECHO));
    assert!(
        matches!(client.ask(1), StreamedEvent::Insecure(EncryptionFault::NoHttp2 | EncryptionFault::Alert)),
        "another protocol"
    );
}

#[test]
fn a_cancelled_query_has_no_response() {
    let mut client = Client::new(&over_https("dns.example"), https(b"h2", ECHO));
    assert_eq!(client.ask(1), response(1));
    client.send(2);
    client.session.cancel(2, Instant::now());
    assert_eq!(client.ask(3), response(3));
}

/// What the server over QUIC does with a stream.
#[derive(Clone, Copy)]
enum QuicConduct {
    Echoes,
    /// It sends these bytes in place of a response.
    Sends(&'static [u8]),
    Resets,
    Closes(u32),
}

fn quic(alpn: &[u8], conduct: QuicConduct) -> SocketAddr {
    let crypto = quinn::crypto::rustls::QuicServerConfig::try_from(server(alpn)).expect("settings");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("its address");
    in_thread(move || async move {
        let config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
        let runtime = Arc::new(quinn::TokioRuntime);
        let endpoint = quinn::Endpoint::new(quinn::EndpointConfig::default(), Some(config), socket, runtime);
        let endpoint = endpoint.expect("an endpoint");
        while let Some(incoming) = endpoint.accept().await {
            let Ok(connection) = incoming.await else { continue };
            while let Ok((mut sending, mut receiving)) = connection.accept_bi().await {
                // A cancelled query.
                let Ok(message) = receiving.read_to_end(70_000).await else { continue };
                assert_eq!(message[2..4], [0, 0], "the message ID");
                let sent = match conduct {
                    QuicConduct::Echoes => sending.write_all(&message).await,
                    QuicConduct::Sends(bytes) => sending.write_all(bytes).await,
                    QuicConduct::Resets => {
                        let _ = sending.reset(5u32.into());
                        continue;
                    }
                    QuicConduct::Closes(code) => {
                        connection.close(code.into(), b"");
                        continue;
                    }
                };
                sent.expect("sent");
                sending.finish().expect("finished");
            }
        }
    });
    address
}

fn over_quic(name: &str) -> Encryption {
    tls::over_quic(&named(name), &ClientSettings::default()).expect("settings")
}

#[test]
fn queries_over_quic_have_streams_of_their_own_and_sessions_are_resumed() {
    let address = quic(b"doq", QuicConduct::Echoes);
    let encryption = over_quic("dns.example");
    let mut client = Client::new(&encryption, address);
    client.send(7);
    let events = client.until(|event| *event == response(7));
    assert_eq!(events, [StreamedEvent::Established { resumed: false }, response(7)]);
    assert_eq!(client.ask(0x1234), response(0x1234));
    client.session.close(Instant::now());
    client.flush();
    let mut client = Client::new(&encryption, address);
    client.send(8);
    let events = client.until(|event| *event == response(8));
    assert_eq!(events, [StreamedEvent::Established { resumed: true }, response(8)]);
}

#[test]
fn anything_but_one_message_over_quic_fails_the_query_alone() {
    let mismatch = EncryptionFault::QuicMessage;
    for (conduct, fault) in [
        (QuicConduct::Resets, EncryptionFault::QuicReset),
        (QuicConduct::Sends(b""), mismatch),
        (QuicConduct::Sends(b"\x00\x0c\x00\x00short"), mismatch),
        (QuicConduct::Sends(b"\x00\x04\x00\x001234"), mismatch),
        (QuicConduct::Sends(b"\x00\x0c\x00\x01another_id"), mismatch),
        (QuicConduct::Sends(b"\x00\x0c\x00\x00one and a bit more"), mismatch),
    ] {
        let mut client = Client::new(&over_quic("dns.example"), quic(b"doq", conduct));
        for id in [3, 4] {
            assert_eq!(client.ask(id), StreamedEvent::Failed { id, fault: Some(fault) });
        }
    }
}

#[test]
fn a_server_over_quic_with_another_name_or_protocol_is_not_used() {
    let mut client = Client::new(&over_quic("dns2.example"), quic(b"doq", QuicConduct::Echoes));
    assert_eq!(client.ask(1), StreamedEvent::Insecure(EncryptionFault::WrongName));
    let mut client = Client::new(&over_quic("dns.example"), quic(b"h3", QuicConduct::Echoes));
    assert_eq!(client.ask(1), StreamedEvent::Insecure(EncryptionFault::Alert));
}

#[test]
fn a_connection_over_quic_that_the_server_closes_ends_in_order_or_with_a_fault() {
    let is_end =
        |event: &StreamedEvent| matches!(event, StreamedEvent::Ended(_) | StreamedEvent::Insecure(_));
    for (code, end) in [
        (0, StreamedEvent::Ended(ErrorKind::UnexpectedEof)),
        (4, StreamedEvent::Ended(ErrorKind::UnexpectedEof)),
        (2, StreamedEvent::Insecure(EncryptionFault::QuicClosed)),
    ] {
        let mut client = Client::new(&over_quic("dns.example"), quic(b"doq", QuicConduct::Closes(code)));
        client.send(1);
        assert_eq!(client.until(is_end).pop(), Some(end));
    }
}
