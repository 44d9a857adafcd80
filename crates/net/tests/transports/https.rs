//! DNS over HTTPS: HTTP/2 and HTTP/1.1, requests that are none, limits and timeouts.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use net::TcpTimes;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;
use transport::Transport;

use crate::script::*;
use crate::tls::Identity;

fn start(identity: &Identity, times: TcpTimes) -> ScriptedServer {
    let mut context = identity.context(times);
    // The time that caches may keep a reply is the first byte of its data.
    context.fresh = Some(|reply| reply.get(17).copied().map(u32::from));
    ScriptedServer::start_with("127.0.0.1:0", Transport::Https, &crate::tls::config(), &context)
}

/// A client of HTTP/1.1, which writes and reads bytes.
struct Http1(StreamOwned<ClientConnection, TcpStream>);

impl Http1 {
    fn connect(server: SocketAddr, config: Arc<ClientConfig>) -> Http1 {
        let name = ServerName::try_from("dns.test").unwrap();
        let connection = ClientConnection::new(config, name).unwrap();
        Http1(StreamOwned::new(connection, TcpClient::connect(server).0))
    }

    /// Sends a request with this head and body.
    fn send(&mut self, head: &str, body: &[u8]) {
        let length =
            if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        self.0.write_all(format!("{head}\r\nhost: dns.test\r\n{length}\r\n").as_bytes()).unwrap();
        self.0.write_all(body).unwrap();
    }

    /// Sends a request, and returns the head and body of the response.
    fn ask(&mut self, head: &str, body: &[u8]) -> Option<(String, Vec<u8>)> {
        self.send(head, body);
        self.read()
    }

    /// Reads a response; `None` if the connection ends without.
    fn read(&mut self) -> Option<(String, Vec<u8>)> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            match self.0.read(&mut byte) {
                Ok(0) => return None,
                Ok(_) => head.push(byte[0]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no response: {error}"),
            }
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        let length =
            head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()).unwrap_or("0");
        let mut body = vec![0; length.parse().unwrap()];
        self.0.read_exact(&mut body).unwrap();
        Some((head, body))
    }
}

const POST: &str = "POST /dns-query HTTP/1.1\r\ncontent-type: application/dns-message";

/// Returns base64url (RFC 4648 §5).
fn base64url(bytes: &[u8]) -> String {
    data_encoding::BASE64URL_NOPAD.encode(bytes)
}

#[test]
fn http1_gets_and_posts_are_answered_on_one_connection() {
    let identity = Identity::new();
    let server = start(&identity, TcpTimes::default());
    let mut client = Http1::connect(server.addr(), identity.client_of(b"http/1.1"));
    for len in [18, 500, 4096, 10_000] {
        let q = query(3, Order::Echo, len);
        let get = format!("GET /dns-query?dns={} HTTP/1.1", base64url(&q));
        // The head of a request is bounded.
        if len <= 4096 {
            let (head, body) = client.ask(&get, b"").unwrap();
            assert!(
                head.starts_with("http/1.1 200 ok") && head.contains("cache-control: max-age=3\r\n"),
                "{head}"
            );
            assert_eq!(body, echoed(&q));
        }
        let (head, body) = client.ask(POST, &q).unwrap();
        assert!(head.contains("content-type: application/dns-message\r\n"), "{head}");
        assert_eq!(body, echoed(&q));
    }
    let (_, body) = client.ask(POST, &query(5, Order::Later, 30)).unwrap();
    assert_eq!(body, echoed(&query(5, Order::Later, 30)));
    let (_, body) = client.ask(POST, &query(6, Order::Large(65_535), 30)).unwrap();
    assert_eq!(body.len(), 65_535);
    // A zone transfer of one message, and one of more.
    let (_, body) = client.ask(POST, &query(7, Order::Stream(1), 30)).unwrap();
    assert_eq!(body.len(), 1000);
    let (head, _) = client.ask(POST, &query(8, Order::LaterStream(2), 30)).unwrap();
    assert!(head.starts_with("http/1.1 501 "), "{head}");
    // A query without a reply ends the connection.
    assert_eq!(client.ask(POST, &query(9, Order::Drop, 30)), None);
    let totals = server.stop();
    assert_eq!((totals.tls_handshakes, totals.tcp_accepted, totals.tcp_closed), (1, 1, 1));
    assert_eq!((totals.queries, totals.dropped, totals.https_bad_requests), (12, 1, 1));
}

#[test]
fn requests_without_a_message_get_a_status_and_the_connection_stays() {
    let identity = Identity::new();
    let server = start(&identity, TcpTimes::default());
    let mut client = Http1::connect(server.addr(), identity.client_of(b"http/1.1"));
    let q = query(1, Order::Echo, 30);
    for (head, body, status) in [
        ("GET / HTTP/1.1", &b""[..], 404),
        ("GET /dns-query HTTP/1.1", b"", 400),
        ("GET /dns-query?dns=!!! HTTP/1.1", b"", 400),
        ("PUT /dns-query HTTP/1.1", &q, 405),
        ("POST /dns-query HTTP/1.1\r\ncontent-type: text/plain", &q, 415),
        (POST, b"short", 400),
        (POST, &[7; 65_536], 413),
    ] {
        let mut one = Http1::connect(server.addr(), identity.client_of(b"http/1.1"));
        // Where a body is left unread, HTTP/1.1 may end the connection.
        let (said, _) =
            if body.len() > 100 || status >= 405 { one.ask(head, body) } else { client.ask(head, body) }
                .unwrap_or_else(|| panic!("{head}"));
        assert!(said.starts_with(&format!("http/1.1 {status} ")), "{head}: {said}");
    }
    assert_eq!(client.ask(POST, &q).unwrap().1, echoed(&q));
    assert_eq!(server.totals().https_bad_requests, 7);
    // What is no HTTP at all.
    let mut other = Http1::connect(server.addr(), identity.client_of(b"http/1.1"));
    other.0.write_all(b"\x00\x1d\x00\x07\x01\x00\x00\x01\r\n\r\n").unwrap();
    while other.read().is_some() {}
    server.wait_for("the close", |totals| totals.tcp_bad_framing == 1);
    server.stop();
}

/// Connects by HTTP/2.
async fn http2(server: SocketAddr, config: Arc<ClientConfig>) -> SendRequest<Full<Bytes>> {
    let stream = tokio::net::TcpStream::connect(server).await.unwrap();
    let name = ServerName::try_from("dns.test").unwrap();
    let stream = TlsConnector::from(config).connect(name, stream).await.unwrap();
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn post(message: Vec<u8>) -> Request<Full<Bytes>> {
    let request =
        Request::post("https://dns.test/dns-query").header("content-type", "application/dns-message");
    request.body(Full::new(message.into())).unwrap()
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn http2_answers_many_requests_at_a_time_as_they_are_ready() {
    let identity = Identity::new();
    let server = start(&identity, TcpTimes::default());
    runtime().block_on(async {
        let mut client = http2(server.addr(), identity.client_of(b"h2")).await;
        let held = client.send_request(post(query(200, Order::Hold, 30)));
        let held = tokio::spawn(held);
        let mut all = tokio::task::JoinSet::new();
        for id in 0..150 {
            let order = [Order::Echo, Order::Later, Order::Large(30_000)][usize::from(id) % 3];
            let (q, sent) = (query(id, order, 30), client.send_request(post(query(id, order, 30))));
            all.spawn(async move {
                let response = sent.await.unwrap();
                assert_eq!(response.status(), StatusCode::OK);
                let body = response.into_body().collect().await.unwrap().to_bytes();
                match id % 3 {
                    2 => assert_eq!((body.len(), &body[..2]), (30_000, &q[..2])),
                    _ => assert_eq!(body, echoed(&q)),
                }
            });
        }
        while let Some(done) = all.join_next().await {
            done.unwrap();
        }
        let (promise, q) = server.held.lock().unwrap().pop().unwrap();
        assert_eq!(promise.client().transport, Transport::Https);
        promise.send(&q);
        let body = held.await.unwrap().unwrap().into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, q);
        // A query without a reply costs its stream alone.
        assert!(client.send_request(post(query(1, Order::Drop, 30))).await.is_err());
        assert!(client.send_request(post(query(2, Order::Echo, 30))).await.is_ok());
    });
    let totals = server.stop();
    assert_eq!((totals.queries, totals.replies, totals.tls_handshakes), (153, 152, 1));
    assert_eq!((totals.late_lost, totals.dropped), (0, 1));
}

/// Returns the frame of a request for this message.
fn request(stream: u32, message: &[u8]) -> Vec<u8> {
    let path = format!("/dns-query?dns={}", base64url(message));
    // GET, https, path and authority; literals without Huffman code (RFC 7541 §6.2.2).
    let mut block = vec![0x82, 0x87, 0x04, u8::try_from(path.len()).unwrap()];
    block.extend(path.as_bytes());
    block.extend(b"\x01\x08dns.test");
    http2_frame(1, 5, stream, &block)
}

/// Connects by HTTP/2, sends these frames, and reads until the server closes the connection.
fn closed_after(server: &ScriptedServer, identity: &Identity, frames: &[u8]) {
    let mut client = Http1::connect(server.addr(), identity.client_of(b"h2"));
    let begin = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &http2_frame(4, 0, 0, &[])[..]].concat();
    // The server may close before all are sent.
    let _ = client.0.write_all(&begin).and_then(|()| client.0.write_all(frames));
    while client.0.read(&mut [0; 1024]).is_ok_and(|n| n > 0) {}
}

/// CVE-2023-44487.
#[test]
fn a_client_that_cancels_its_requests_at_once_is_closed() {
    let identity = Identity::new();
    let server = start(&identity, TcpTimes::default());
    let cancelled =
        |stream| [request(stream, &query(1, Order::Hold, 30)), http2_frame(3, 0, stream, &[0, 0, 0, 8])];
    let frames: Vec<u8> = (0..10_000_u32).flat_map(|n| cancelled(2 * n + 1)).flatten().collect();
    closed_after(&server, &identity, &frames);
    server.wait_for("the close", |totals| totals.tcp_closed == 1);
    assert!(server.totals().queries < 1_000, "{:?}", server.totals());
    Http1::connect(server.addr(), identity.client_of(b"http/1.1"))
        .ask(POST, &query(1, Order::Echo, 30))
        .unwrap();
    server.stop();
}

/// CVE-2024-27316 and others: headers that do not end.
#[test]
fn a_client_whose_headers_do_not_end_is_closed() {
    let identity = Identity::new();
    let server = start(&identity, TcpTimes::default());
    let field = [b"\x00\x01a\x7f\x81\x7e".as_slice(), &[b'x'; 253 + 1]].concat();
    let mut frames = http2_frame(1, 1, 1, b"\x82\x87");
    (0..4_000).for_each(|_| frames.extend(http2_frame(9, 0, 1, &field)));
    closed_after(&server, &identity, &frames);
    server.wait_for("the close", |totals| totals.tcp_closed == 1);
    assert_eq!(server.totals().queries, 0);
    server.stop();
}

#[test]
fn an_answer_to_a_request_that_was_cancelled_is_counted_as_lost() {
    let identity = Identity::new();
    let server = start(&identity, TcpTimes::default());
    let mut client = Http1::connect(server.addr(), identity.client_of(b"http/1.1"));
    client.send(POST, &query(1, Order::Hold, 30));
    let (promise, q) = server.next_held();
    socket2::SockRef::from(&client.0.sock).set_linger(Some(Duration::ZERO)).unwrap();
    drop(client);
    server.wait_for("the reset", |totals| totals.tcp_closed == 1);
    promise.send(&q);
    server.wait_for("the loss", |totals| totals.late_lost == 1);
    server.stop();
}

#[test]
fn clients_without_a_whole_request_are_closed_in_time() {
    let identity = Identity::new();
    let times = TcpTimes { first_message: Duration::from_millis(300), ..TcpTimes::default() };
    let server = start(&identity, times);
    let none = TcpClient::connect(server.addr());
    let mut no_request = Http1::connect(server.addr(), identity.client_of(b"http/1.1"));
    let mut half = Http1::connect(server.addr(), identity.client_of(b"http/1.1"));
    // On a busy machine the time may end in the handshake already.
    let _ = no_request.0.conn.complete_io(&mut no_request.0.sock);
    let _ = half.0.write_all(b"GET /dns-query HTTP/1.1\r\nhos");
    server.wait_for("the closes", |totals| totals.tcp_closed == 3);
    drop((none, no_request, half));
    assert_eq!(server.stop().queries, 0);
}

#[test]
fn a_body_that_does_not_come_is_not_waited_for() {
    let identity = Identity::new();
    let times = TcpTimes { message: Duration::from_millis(300), ..TcpTimes::default() };
    let server = start(&identity, times);
    let mut slow = Http1::connect(server.addr(), identity.client_of(b"http/1.1"));
    slow.0.write_all(format!("{POST}\r\nhost: a\r\ncontent-length: 30\r\n\r\nabc").as_bytes()).unwrap();
    assert!(slow.read().unwrap().0.starts_with("http/1.1 408 "));
    server.stop();
}

#[test]
fn idle_clients_are_closed_in_time() {
    let identity = Identity::new();
    // It bounds the time of the first request, too.
    let times = TcpTimes { idle: Duration::from_secs(2), ..TcpTimes::default() };
    let server = start(&identity, times);
    let mut idle = Http1::connect(server.addr(), identity.client_of(b"http/1.1"));
    assert!(idle.ask(POST, &query(1, Order::Echo, 30)).is_some());
    runtime().block_on(async {
        let mut client = http2(server.addr(), identity.client_of(b"h2")).await;
        assert!(client.send_request(post(query(1, Order::Echo, 30))).await.is_ok());
        let deadline = tokio::time::Instant::now() + TEST_TIMEOUT;
        while !client.is_closed() && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(client.is_closed(), "an idle connection of HTTP/2 is closed");
    });
    server.wait_for("the closes", |totals| totals.tcp_closed == 2);
    assert_eq!(server.stop().tcp_timeout_idle, 2);
}

#[test]
fn an_http2_client_that_reads_no_bodies_is_closed() {
    let times = TcpTimes { write: Duration::from_millis(300), ..TcpTimes::default() };
    let identity = Identity::new();
    let server = start(&identity, times);
    runtime().block_on(async {
        let mut client = http2(server.addr(), identity.client_of(b"h2")).await;
        let mut unread = Vec::new();
        // More than the client's windows take.
        for id in 0..99 {
            match client.send_request(post(query(id, Order::Large(65_535), 30))).await {
                Ok(response) => unread.push(response),
                Err(_) => break,
            }
        }
        let deadline = tokio::time::Instant::now() + TEST_TIMEOUT;
        while server.totals().tcp_timeout_write == 0 && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(server.totals().tcp_timeout_write, 1, "{} {:?}", unread.len(), server.totals());
    });
    server.stop();
}

#[test]
fn a_proxy_names_its_client_before_the_handshake_or_inside_https() {
    let identity = Identity::new();
    let context = identity.context(TcpTimes::default());
    context.proxies.set([([127, 0, 0, 1].into(), 32)], 512);
    let server = ScriptedServer::start_with("127.0.0.1:0", Transport::Https, &crate::tls::config(), &context);
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c".to_vec();
    header.extend([192, 0, 2, 7, 198, 51, 100, 1, 0x12, 0x34, 0, 53]);
    for before in [true, false] {
        let mut stream = TcpClient::connect(server.addr()).0;
        if before {
            stream.write_all(&header).unwrap();
        }
        let name = ServerName::try_from("dns.test").unwrap();
        let connection = ClientConnection::new(identity.client_of(b"http/1.1"), name).unwrap();
        let mut client = Http1(StreamOwned::new(connection, stream));
        if !before {
            client.0.write_all(&header).unwrap();
        }
        client.send(POST, &query(1, Order::Hold, 30));
        let (promise, q) = server.next_held();
        assert_eq!(promise.client().peer, "192.0.2.7:4660".parse().unwrap(), "before: {before}");
        promise.send(&q);
        assert_eq!(client.read().unwrap().1, q);
    }
    let mut client = Http1::connect(server.addr(), identity.client_of(b"http/1.1"));
    assert_eq!(client.ask(POST, &query(1, Order::Echo, 30)), None, "without a header");
    let totals = server.stop();
    assert_eq!((totals.proxy_missing, totals.tls_handshakes), (1, 3));
}

#[test]
fn requests_are_answered_while_the_listener_stops() {
    let identity = Identity::new();
    let server = start(&identity, TcpTimes::default());
    let mut client = Http1::connect(server.addr(), identity.client_of(b"http/1.1"));
    client.send(POST, &query(1, Order::Hold, 30));
    let (promise, q) = server.next_held();
    server.running.stop();
    promise.send(&q);
    assert_eq!(client.read().unwrap().1, q);
    let totals = server.stop();
    assert_eq!((totals.replies, totals.tcp_closed, totals.late_lost), (1, 1, 0));
}
