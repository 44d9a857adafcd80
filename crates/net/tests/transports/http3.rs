//! DNS over HTTP/3: requests on streams, the errors of RFC 9114 and RFC 9204, limits and timeouts, against a
//! client of quinn that writes frames itself.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use net::{Context, ListenerConfig, TcpTimes};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, ReadError, ReadToEndError, RecvStream, SendStream,
    TransportConfig,
};
use tokio::runtime::Runtime;
use transport::Transport;

use crate::script::*;
use crate::tls::Identity;

/// Error codes of RFC 9114 §8.1 and RFC 9204 §6.
const NO_ERROR: u64 = 0x100;
const STREAM_CREATION_ERROR: u64 = 0x103;
const CLOSED_CRITICAL_STREAM: u64 = 0x104;
const FRAME_UNEXPECTED: u64 = 0x105;
const FRAME_ERROR: u64 = 0x106;
const EXCESSIVE_LOAD: u64 = 0x107;
const MISSING_SETTINGS: u64 = 0x10a;
const REQUEST_CANCELLED: u64 = 0x10c;
const MESSAGE_ERROR: u64 = 0x10e;
const DECOMPRESSION_FAILED: u64 = 0x200;

/// The control stream of a client, with settings.
const CONTROL: &[u8] = b"\0\x04\0";

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn start(mut context: Context) -> Arc<ScriptedServer> {
    // The time that caches may keep a reply is the first byte of its data.
    context.fresh = Some(|reply| reply.get(17).copied().map(u32::from));
    let config = crate::tls::config();
    Arc::new(ScriptedServer::start_with("127.0.0.1:0", Transport::H3, &config, &context))
}

struct Client {
    /// It has to stay while its connection is used.
    _endpoint: Endpoint,
    connection: Connection,
    control: SendStream,
}

/// A response: its status, whether it is a DNS message, and the body.
type Response = (u16, bool, Vec<u8>);

fn varint(len: usize) -> Vec<u8> {
    (len as u32 | 0x8000_0000).to_be_bytes().to_vec()
}

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    [&[kind][..], &varint(payload.len()), payload].concat()
}

/// Returns a header section with this method and path, and these literal fields.
fn head(method: u8, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    // https, an authority and a path.
    let mut section = vec![0, 0, 0xc0 | method, 0xd7, 0x50, 4];
    section.extend(b"test");
    section.extend([0x51, 0x7f]);
    let mut rest = path.len() - 127;
    while rest >= 0x80 {
        section.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    section.push(rest as u8);
    section.extend(path.bytes());
    for (name, value) in more {
        section.extend([0x27, name.len() as u8 - 7]);
        section.extend(name.bytes());
        section.push(value.len() as u8);
        section.extend(value.bytes());
    }
    frame(1, &section)
}

/// Indexes of methods.
const GET: u8 = 17;
const POST: u8 = 20;

/// A path that is longer than what its first byte of length tells.
fn path(of: &str) -> String {
    format!("{of}{}", "x".repeat(200))
}

const KIND: (&str, &str) = ("content-type", "application/dns-message");

fn post(message: &[u8]) -> Vec<u8> {
    [head(POST, &path("/dns-query?"), &[KIND]), frame(0, message)].concat()
}

impl Client {
    async fn connect(server: SocketAddr, identity: &Identity) -> Client {
        Client::with_window(server, identity, 1 << 20).await
    }

    /// Connects as a client that takes so many bytes before it reads.
    async fn with_window(server: SocketAddr, identity: &Identity, window: u32) -> Client {
        let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        let tls = (*identity.client_of(b"h3")).clone();
        let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
        let mut transport = TransportConfig::default();
        transport.receive_window(window.into());
        config.transport_config(Arc::new(transport));
        let connection = endpoint.connect_with(config, server, "dns.test").unwrap().await.unwrap();
        let mut control = connection.open_uni().await.unwrap();
        control.write_all(CONTROL).await.unwrap();
        Client { _endpoint: endpoint, connection, control }
    }

    async fn send(&self, bytes: &[u8]) -> (SendStream, RecvStream) {
        let (mut to, from) = self.connection.open_bi().await.unwrap();
        if to.write_all(bytes).await.is_ok() {
            let _ = to.finish();
        }
        (to, from)
    }

    async fn ask(&self, request: &[u8]) -> Result<Response, u64> {
        let (_to, from) = self.send(request).await;
        response(from).await
    }

    /// Opens a unidirectional stream with these bytes.
    async fn unidirectional(&self, bytes: &[u8]) -> SendStream {
        let mut stream = self.connection.open_uni().await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream
    }

    async fn echo(&self) {
        let q = query(1, Order::Echo, 40);
        assert_eq!(self.ask(&post(&q)).await, Ok((200, true, echoed(&q))));
    }

    /// Waits until the server has closed the connection, and returns the error code.
    async fn closed(&self) -> u64 {
        match tokio::time::timeout(TEST_TIMEOUT, self.connection.closed()).await.expect("a close") {
            ConnectionError::ApplicationClosed(close) => close.error_code.into_inner(),
            other => panic!("{other:?}"),
        }
    }
}

/// Reads a response of this server.
async fn response(mut from: RecvStream) -> Result<Response, u64> {
    let bytes = match from.read_to_end(1 << 20).await {
        Ok(bytes) => bytes,
        Err(ReadToEndError::Read(ReadError::Reset(code))) => return Err(code.into_inner()),
        Err(other) => panic!("{other:?}"),
    };
    // HEADERS of fewer than 64 bytes, with the status first; then DATA with a length of any size.
    assert_eq!((bytes[0], &bytes[2..4]), (1, &[0, 0][..]), "{bytes:?}");
    let (section, rest) = bytes[2..].split_at(bytes[1].into());
    let status = match section[2] {
        0xd9 => 200,
        0xdb => 404,
        0xff => 64 + u16::from(section[3]) - 1,
        0x5f => String::from_utf8_lossy(&section[5..8]).parse().unwrap(),
        other => panic!("{other:x}"),
    };
    // Index 67 of the table is the status 400.
    let status = if status == 67 { 400 } else { status };
    let has_kind = section.contains(&0xec);
    let Some((0, rest)) = rest.split_first().map(|(kind, rest)| (*kind, rest)) else {
        return Ok((status, has_kind, Vec::new()));
    };
    let body = rest[1 << (rest[0] >> 6)..].to_vec();
    Ok((status, has_kind, body))
}

/// Waits on another thread, so that the client goes on meanwhile.
async fn wait_for(server: &Arc<ScriptedServer>, what: &'static str, condition: fn(&net::Totals) -> bool) {
    let server = Arc::clone(server);
    tokio::task::spawn_blocking(move || server.wait_for(what, condition)).await.unwrap();
}

fn stop(server: Arc<ScriptedServer>) -> net::Totals {
    Arc::into_inner(server).expect("the only owner").stop()
}

#[test]
fn requests_are_answered_as_they_are_ready() {
    let identity = Identity::new();
    let server = start(identity.context(TcpTimes::default()));
    runtime().block_on(async {
        let client = Client::connect(server.addr(), &identity).await;
        // The server's settings.
        let mut settings = client.connection.accept_uni().await.unwrap();
        let mut first = [0; 8];
        settings.read_exact(&mut first).await.unwrap();
        assert_eq!(first, *b"\0\x04\x05\x06\x80\0\x40\0");
        let held = client.send(&post(&query(9, Order::Hold, 30))).await;
        for len in [18, 500, 4096] {
            let q = query(3, Order::Echo, len);
            assert_eq!(client.ask(&post(&q)).await, Ok((200, true, echoed(&q))));
            let get = format!("/dns-query?dns={}", data_encoding::BASE64URL_NOPAD.encode(&q));
            let get = head(GET, &format!("{get}&{}", path("")), &[]);
            assert_eq!(client.ask(&get).await, Ok((200, true, echoed(&q))));
        }
        let q = query(5, Order::Later, 30);
        assert_eq!(client.ask(&post(&q)).await, Ok((200, true, echoed(&q))));
        let (_, _, large) = client.ask(&post(&query(6, Order::Large(65_535), 30))).await.unwrap();
        assert_eq!(large.len(), 65_535);
        let (_, _, one) = client.ask(&post(&query(7, Order::Stream(1), 30))).await.unwrap();
        assert_eq!(one.len(), 1000);
        assert_eq!(
            client.ask(&post(&query(8, Order::LaterStream(2), 30))).await,
            Ok((501, false, Vec::new()))
        );
        assert_eq!(client.ask(&post(&query(9, Order::Drop, 30))).await, Err(REQUEST_CANCELLED));
        let (promise, q) = tokio::task::spawn_blocking({
            let server = Arc::clone(&server);
            move || server.next_held()
        })
        .await
        .unwrap();
        assert_eq!(promise.client().transport, Transport::H3);
        promise.send(&q);
        assert_eq!(response(held.1).await, Ok((200, true, q)));
        client.connection.close(0_u32.into(), b"");
        wait_for(&server, "the end", |totals| totals.tcp_closed == 1).await;
    });
    let totals = stop(server);
    assert_eq!((totals.tls_handshakes, totals.tcp_closed, totals.quic_protocol_errors), (1, 1, 0));
    assert_eq!((totals.tcp_closed_by_peer, totals.tcp_closed_error), (1, 0));
    assert_eq!((totals.queries, totals.dropped, totals.https_bad_requests), (12, 1, 1));
}

#[test]
fn requests_without_a_message_get_a_status_or_an_error_of_their_stream() {
    let identity = Identity::new();
    let times = TcpTimes { message: Duration::from_millis(200), ..TcpTimes::default() };
    let server = start(identity.context(times));
    let q = query(1, Order::Echo, 40);
    runtime().block_on(async {
        let client = Client::connect(server.addr(), &identity).await;
        let dns = path("/dns-query?");
        let with = |path: &str, fields: &[(&str, &str)], body: &[u8]| {
            [head(POST, path, fields), frame(0, body)].concat()
        };
        for (request, status) in [
            (head(GET, &path("/"), &[]), 404),
            (head(GET, &dns, &[]), 400),
            (with(&dns, &[("content-type", "text/plain")], &q), 415),
            (with(&dns, &[KIND], b"short"), 400),
            (with(&dns, &[KIND], &[7; 65_536]), 413),
            // PUT.
            (head(21, &dns, &[]), 405),
        ] {
            assert_eq!(client.ask(&request).await.map(|(status, ..)| status), Ok(status));
        }
        for (request, code) in [
            (with(&dns, &[KIND, ("content-length", "3")], &q), MESSAGE_ERROR),
            (with(&dns, &[KIND, ("connection", "close")], &q), MESSAGE_ERROR),
            (with(&dns, &[("x-field-field", "a"); 400], &q), EXCESSIVE_LOAD),
            ([head(POST, &dns, &[KIND]), frame(0x21, &[0; 20_000])].concat(), EXCESSIVE_LOAD),
        ] {
            assert_eq!(client.ask(&request).await, Err(code));
        }
        // A body that does not come.
        let (mut to, from) = client.connection.open_bi().await.unwrap();
        to.write_all(&head(POST, &dns, &[KIND])).await.unwrap();
        assert_eq!(response(from).await.map(|(status, ..)| status), Ok(408));
        // A request that is cancelled.
        let (mut to, _from) = client.connection.open_bi().await.unwrap();
        to.write_all(&head(POST, &dns, &[KIND])).await.unwrap();
        to.reset(0x10c_u32.into()).unwrap();
        wait_for(&server, "the count", |totals| totals.quic_cancelled == 1).await;
        client.echo().await;
    });
    let totals = stop(server);
    assert_eq!((totals.https_bad_requests, totals.queries, totals.quic_protocol_errors), (11, 1, 0));
}

#[test]
fn a_client_that_breaks_the_rules_is_closed() {
    let identity = Identity::new();
    let server = start(identity.context(TcpTimes::default()));
    runtime().block_on(async {
        for (bytes, code) in [
            (frame(0, b"x"), FRAME_UNEXPECTED),
            (frame(4, b""), FRAME_UNEXPECTED),
            (frame(1, b"\x02\0"), DECOMPRESSION_FAILED),
            (frame(1, b"\0\0\x80"), DECOMPRESSION_FAILED),
            (b"\x01\x40".to_vec(), FRAME_ERROR),
        ] {
            let client = Client::connect(server.addr(), &identity).await;
            let _streams = client.send(&bytes).await;
            assert_eq!(client.closed().await, code, "{bytes:x?}");
        }
        for (bytes, code) in [
            (CONTROL, STREAM_CREATION_ERROR),
            (b"\x01", STREAM_CREATION_ERROR),
            (b"\x02\x3f", 0x201),
            (b"\x03\x80", 0x202),
        ] {
            let client = Client::connect(server.addr(), &identity).await;
            let _stream = client.unidirectional(bytes).await;
            assert_eq!(client.closed().await, code, "{bytes:x?}");
        }
        let mut client = Client::connect(server.addr(), &identity).await;
        client.control.write_all(&frame(4, b"")).await.unwrap();
        assert_eq!(client.closed().await, FRAME_UNEXPECTED);
        let mut client = Client::connect(server.addr(), &identity).await;
        client.control.finish().unwrap();
        assert_eq!(client.closed().await, CLOSED_CRITICAL_STREAM);
        // Streams of unknown types are refused one by one, in any number.
        let client = Client::connect(server.addr(), &identity).await;
        for _ in 0..30 {
            let stream = client.unidirectional(b"\x21anything").await;
            let stopped = tokio::time::timeout(TEST_TIMEOUT, stream.stopped()).await.expect("refused");
            assert_eq!(stopped.unwrap().map(|code| code.into_inner()), Some(STREAM_CREATION_ERROR));
        }
        client.echo().await;
    });
    let totals = stop(server);
    assert_eq!((totals.quic_protocol_errors, totals.queries), (11, 1));
}

#[test]
fn settings_come_first_on_the_control_stream() {
    let identity = Identity::new();
    let server = start(identity.context(TcpTimes::default()));
    runtime().block_on(async {
        let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        let tls = (*identity.client_of(b"h3")).clone();
        let config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
        let connection = endpoint.connect_with(config, server.addr(), "dns.test").unwrap().await.unwrap();
        let mut control = connection.open_uni().await.unwrap();
        control.write_all(b"\0\x0d\x01\0").await.unwrap();
        let client = Client { _endpoint: endpoint, connection, control };
        assert_eq!(client.closed().await, MISSING_SETTINGS);
    });
    stop(server);
}

#[test]
fn one_socket_has_dns_over_quic_and_http3_by_their_application_protocols() {
    let identity = Identity::new();
    let context = identity.context(TcpTimes::default());
    let config = ListenerConfig { with_h3: true, ..crate::tls::config() };
    let server = ScriptedServer::start_with("127.0.0.1:0", Transport::Quic, &config, &context);
    let server = Arc::new(server);
    let q = query(0, Order::Echo, 40);
    runtime().block_on(async {
        Client::connect(server.addr(), &identity).await.echo().await;
        let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        let tls = (*identity.client_of(b"doq")).clone();
        let config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
        let doq = endpoint.connect_with(config, server.addr(), "dns.test").unwrap().await.unwrap();
        let (mut to, mut from) = doq.open_bi().await.unwrap();
        to.write_all(&framed(std::slice::from_ref(&q))).await.unwrap();
        to.finish().unwrap();
        assert_eq!(from.read_to_end(1000).await.unwrap(), framed(&[echoed(&q)]));
        // Such a connection has no unidirectional streams, as ever.
        let mut stream = doq.open_uni().await.unwrap();
        stream.write_all(CONTROL).await.unwrap();
        let ended = tokio::time::timeout(TEST_TIMEOUT, doq.closed()).await.expect("a close");
        assert!(
            matches!(ended, ConnectionError::ApplicationClosed(close) if close.error_code == 2_u32.into())
        );
    });
    let totals = stop(server);
    assert_eq!((totals.queries, totals.quic_protocol_errors), (2, 1));
}

#[test]
fn a_listener_that_stops_answers_what_it_has_and_says_from_where_on_it_does_not() {
    let identity = Identity::new();
    let server = start(identity.context(TcpTimes::default()));
    runtime().block_on(async {
        let client = Client::connect(server.addr(), &identity).await;
        let mut settings = client.connection.accept_uni().await.unwrap();
        client.echo().await;
        let held = client.send(&post(&query(9, Order::Hold, 30))).await;
        let (promise, q) = tokio::task::spawn_blocking({
            let server = Arc::clone(&server);
            move || server.next_held()
        })
        .await
        .unwrap();
        server.running.stop();
        // GOAWAY behind the settings: the third stream is the first that is not answered.
        let mut control = [0; 11];
        settings.read_exact(&mut control).await.unwrap();
        assert_eq!(control[8..], *b"\x07\x01\x08");
        promise.send(&q);
        assert_eq!(response(held.1).await, Ok((200, true, q)));
        assert_eq!(client.closed().await, NO_ERROR);
    });
    let totals = stop(server);
    assert_eq!((totals.replies, totals.tcp_stopped, totals.late_lost), (2, 1, 0));
}

#[test]
fn idle_clients_and_those_that_read_nothing_are_closed() {
    let identity = Identity::new();
    let times = TcpTimes {
        first_message: Duration::from_millis(100),
        idle: Duration::from_millis(200),
        write: Duration::from_millis(300),
        ..TcpTimes::default()
    };
    let server = start(identity.context(times));
    runtime().block_on(async {
        let silent = Client::connect(server.addr(), &identity).await;
        assert_eq!(silent.closed().await, NO_ERROR);
        let idle = Client::connect(server.addr(), &identity).await;
        idle.echo().await;
        assert_eq!(idle.closed().await, NO_ERROR);
        let unread = Client::with_window(server.addr(), &identity, 10_000).await;
        let _streams = unread.send(&post(&query(1, Order::Large(65_535), 30))).await;
        assert_eq!(unread.closed().await, EXCESSIVE_LOAD);
    });
    let totals = stop(server);
    assert_eq!((totals.tcp_timeout_first, totals.tcp_timeout_idle, totals.tcp_timeout_write), (1, 1, 1));
}
