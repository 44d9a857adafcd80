//! DNS over HTTP without TLS: both versions of HTTP, from proxies and this host alone, and the clients that
//! proxies name in headers.

use std::io::{Read, Write};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use net::{Context, ListenerConfig, TcpTimes};
use transport::{ForwardedHeader, Transport};

use crate::script::*;

const LOOPBACK: ([u8; 4], u8) = ([127, 0, 0, 0], 8);

fn start(context: &Context) -> ScriptedServer {
    let config = ListenerConfig { workers: 1, ..ListenerConfig::default() };
    ScriptedServer::start_with("127.0.0.1:0", Transport::Http, &config, context)
}

/// Returns a context in which this host is a proxy that names clients in this header.
fn proxied(header: Option<ForwardedHeader>) -> Context {
    let context = Context::default();
    context.http_proxies.set([(LOOPBACK.0.into(), LOOPBACK.1)], header);
    context
}

/// Returns a request by HTTP/1.1 with these lines in its head.
fn request(lines: &str, message: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST /dns-query HTTP/1.1\r\nhost: dns.test\r\n{lines}content-type: application/dns-message\r\n\
         content-length: {}\r\n\r\n",
        message.len()
    );
    [head.as_bytes(), message].concat()
}

/// Reads a response, and returns its head and body; `None` if the connection ends without.
fn response(client: &mut TcpClient) -> Option<(String, Vec<u8>)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        match client.0.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            Ok(_) => return None,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
            Err(error) => panic!("no response: {error}"),
        }
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()).unwrap_or("0");
    let mut body = vec![0; length.parse().unwrap()];
    client.0.read_exact(&mut body).unwrap();
    Some((head, body))
}

fn http2<T>(server: &ScriptedServer, before: &[u8], work: impl AsyncFnOnce(Http2) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut stream = TcpClient::connect(server.addr()).0;
    stream.write_all(before).unwrap();
    stream.set_nonblocking(true).unwrap();
    runtime.block_on(async {
        let stream = TokioIo::new(tokio::net::TcpStream::from_std(stream).unwrap());
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        work(Http2(sender)).await
    })
}

/// A client of HTTP/2 with prior knowledge.
struct Http2(http2::SendRequest<Full<Bytes>>);

impl Http2 {
    async fn ask(&mut self, message: Vec<u8>, headers: &[(&str, &str)]) -> (u16, Bytes) {
        let mut request =
            Request::post("http://dns.test/dns-query").header("content-type", "application/dns-message");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.0.send_request(request.body(Full::new(message.into())).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        (status, response.into_body().collect().await.unwrap().to_bytes())
    }
}

#[test]
fn both_versions_of_http_are_served_to_this_host_without_a_list() {
    let server = start(&Context::default());
    let q = query(1, Order::Echo, 500);
    // The first letter of HTTP/2 is that of POST; each byte comes alone.
    let mut client = TcpClient::connect(server.addr());
    for byte in request("", &q) {
        client.0.write_all(&[byte]).unwrap();
    }
    assert_eq!(response(&mut client).unwrap().1, echoed(&q));
    client.0.write_all(&request("x-forwarded-for: 192.0.2.7\r\n", &query(2, Order::Hold, 30))).unwrap();
    let (promise, held) = server.next_held();
    assert!(promise.client().peer.ip().is_loopback(), "no header is read");
    assert_eq!(promise.client().transport, Transport::Http);
    promise.send(&held);
    assert_eq!(response(&mut client).unwrap().1, held);
    let bodies = http2(&server, b"", async |mut client| {
        [client.ask(q.clone(), &[]).await, client.ask(query(3, Order::Later, 30), &[]).await]
    });
    assert_eq!(bodies.map(|(status, _)| status), [200, 200]);
    drop(client);
    // What is no HTTP, and the beginning of HTTP/2 alone.
    let mut other = TcpClient::connect(server.addr());
    other.0.write_all(b"PRI * XTTP/1.1\r\n\r\n").unwrap();
    while response(&mut other).is_some() {}
    let mut other = TcpClient::connect(server.addr());
    other.0.write_all(b"PRI * HT").unwrap();
    drop(other);
    server.wait_for("the ends", |totals| totals.tcp_closed == 4);
    let totals = server.stop();
    assert_eq!((totals.queries, totals.http_unlisted, totals.tcp_accepted), (4, 0, 4));
}

#[test]
fn hosts_that_are_not_listed_are_closed_at_once() {
    for header in [true, false] {
        let context = Context::default();
        match header {
            true => context.proxies.set([([192, 0, 2, 1].into(), 32)], 512),
            false => context.http_proxies.set([([192, 0, 2, 1].into(), 32)], None),
        }
        let server = start(&context);
        let mut client = TcpClient::connect(server.addr());
        let mut rest = Vec::new();
        let ended = client.0.read_to_end(&mut rest);
        assert!(ended.is_err() || rest.is_empty());
        server.wait_for("the count", |totals| totals.http_unlisted == 1);
        // A change applies to the next connection.
        context.http_proxies.set([(LOOPBACK.0.into(), LOOPBACK.1)], None);
        let mut client = TcpClient::connect(server.addr());
        client.0.write_all(&request("", &query(1, Order::Echo, 30))).unwrap();
        assert!(response(&mut client).is_some());
        let totals = server.stop();
        assert_eq!((totals.http_unlisted, totals.tcp_accepted), (1, 1));
    }
}

#[test]
fn a_header_names_the_client_of_each_request() {
    let server = start(&proxied(Some(ForwardedHeader::XForwardedFor)));
    let mut client = TcpClient::connect(server.addr());
    for (lines, named) in [
        ("X-Forwarded-For: 192.0.2.7\r\n", "192.0.2.7:0"),
        ("x-forwarded-for: 198.51.100.1, 2001:db8::7\r\nX-Forwarded-For: 127.0.0.9\r\n", "[2001:db8::7]:0"),
        ("X-Forwarded-For: junk\r\nX-Forwarded-For: 192.0.2.8:53\r\n", "192.0.2.8:53"),
    ] {
        client.0.write_all(&request(lines, &query(1, Order::Hold, 30))).unwrap();
        let (promise, held) = server.next_held();
        assert_eq!(promise.client().peer, named.parse().unwrap(), "{lines}");
        promise.send(&held);
        assert!(response(&mut client).unwrap().0.starts_with("http/1.1 200"));
    }
    // Faults are for the operator of the proxy; the connection stays.
    let (statuses, words) = http2(&server, b"", async |mut client| {
        let (mut statuses, mut words) = (Vec::new(), Vec::new());
        for headers in [&[][..], &[("x-forwarded-for", "junk")], &[("x-forwarded-for", "unknown")]] {
            let (status, body) = client.ask(query(2, Order::Echo, 30), headers).await;
            statuses.push(status);
            words.push(String::from_utf8(body.to_vec()).unwrap());
        }
        (statuses, words)
    });
    assert_eq!(statuses, [400, 400, 400]);
    for (said, expected) in
        words.iter().zip(["sent no header x-forwarded-for", "no valid address", "without an address"])
    {
        assert!(said.contains(expected), "{said}");
    }
    let totals = server.stop();
    assert_eq!((totals.proxy_missing, totals.proxy_malformed, totals.proxy_no_address), (1, 1, 1));
    assert_eq!((totals.https_bad_requests, totals.queries), (3, 3));
}

#[test]
fn a_proxy_header_names_the_client_and_then_no_other_header_does() {
    let context = proxied(Some(ForwardedHeader::Forwarded));
    context.proxies.set([(LOOPBACK.0.into(), LOOPBACK.1)], 512);
    let server = start(&context);
    let header = |client: [u8; 4]| {
        let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c".to_vec();
        header.extend(client);
        header.extend([198, 51, 100, 1, 0x12, 0x34, 0, 53]);
        header
    };
    let named = |of: [u8; 4]| {
        let mut client = TcpClient::connect(server.addr());
        client.0.write_all(&header(of)).unwrap();
        client.0.write_all(&request("forwarded: for=203.0.113.7\r\n", &query(1, Order::Hold, 30))).unwrap();
        let (promise, held) = server.next_held();
        let named = promise.client();
        promise.send(&held);
        assert!(response(&mut client).is_some());
        (named.peer.to_string(), named.local.to_string())
    };
    assert_eq!(named([192, 0, 2, 7]), ("192.0.2.7:4660".into(), "198.51.100.1:53".into()));
    assert_eq!(named([127, 0, 0, 7]).0, "203.0.113.7:0", "behind a second proxy, which is listed");
    let (status, _) = http2(&server, &header([192, 0, 2, 7]), async |mut client| {
        client.ask(query(1, Order::Echo, 30), &[]).await
    });
    assert_eq!(status, 200);
    let mut client = TcpClient::connect(server.addr());
    client.0.write_all(&request("forwarded: for=203.0.113.7\r\n", &query(1, Order::Echo, 30))).unwrap();
    assert_eq!(response(&mut client), None, "a connection without the header");
    let totals = server.stop();
    assert_eq!((totals.proxy_missing, totals.queries), (1, 3));
}

#[test]
fn a_connection_without_a_request_ends_in_the_time_of_a_first_message() {
    let times = TcpTimes { first_message: Duration::from_millis(100), ..TcpTimes::default() };
    let context = Context::new(net::TcpLimits::new(100, 100, &times));
    context.http_proxies.set([(LOOPBACK.0.into(), LOOPBACK.1)], None);
    let server = start(&context);
    for begin in [&b""[..], b"PRI * HTTP/2.0", b"GET / HT"] {
        let mut client = TcpClient::connect(server.addr());
        client.0.write_all(begin).unwrap();
        // Of a request that HTTP/1.1 has begun to read, hyper reports the time with a status.
        while response(&mut client).is_some() {}
    }
    server.wait_for("the ends", |totals| totals.tcp_closed == 3);
    let totals = server.stop();
    assert!(totals.tcp_timeout_first >= 2, "{totals:?}");
}

/// Reads one frame of HTTP/2, and returns its type, flags and stream.
fn read_frame(client: &mut TcpClient) -> (u8, u8, u32) {
    let mut head = [0; 9];
    client.0.read_exact(&mut head).unwrap();
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    client.0.read_exact(&mut vec![0; length as usize]).unwrap();
    (head[3], head[4], u32::from_be_bytes(head[5..9].try_into().unwrap()))
}

/// A refusal once came before the body was read, and HTTP/2 then resets the stream: curl 7.88 showed no
/// status.
#[test]
fn a_refused_request_of_http2_is_not_reset() {
    const DATA: u8 = 0;
    const HEADERS: u8 = 1;
    const RST_STREAM: u8 = 3;
    const SETTINGS: u8 = 4;
    const PING: u8 = 6;
    const END_STREAM: u8 = 1;
    let server = start(&Context::default());
    let mut client = TcpClient::connect(server.addr());
    // POST, http, the path /x, and the authority.
    let head = http2_frame(HEADERS, 4, 1, b"\x83\x86\x04\x02/x\x01\x08dns.test");
    let body = http2_frame(DATA, END_STREAM, 1, b"body");
    let (settings, ping) = (http2_frame(SETTINGS, 0, 0, b""), http2_frame(PING, 0, 0, &[7; 8]));
    let mut seen = Vec::new();
    let mut send = |bytes: &[&[u8]], until: &dyn Fn(&(u8, u8, u32)) -> bool| {
        client.0.write_all(&bytes.concat()).unwrap();
        loop {
            let frame = read_frame(&mut client);
            seen.push(frame.0);
            if until(&frame) {
                return;
            }
        }
    };
    let ponged = |frame: &(u8, u8, u32)| *frame == (PING, 1, 0);
    send(&[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &settings, &head, &ping], &ponged);
    send(&[&body], &|frame| frame.2 == 1 && frame.1 & END_STREAM != 0);
    send(&[&ping], &ponged);
    assert!(!seen.contains(&RST_STREAM), "{seen:?}");
    drop(client);
    server.stop();
}
