//! Clients behind proxies: PROXY headers of version 2 over UDP and TCP, and the rules that apply to the
//! clients that they name.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::Command;

use socket2::{Domain, Socket, Type};

use crate::encrypted::{kdig, write_certificate};
use crate::support::{APEX, Server, TEST_TIMEOUT, eventually, free_address, message, text, written};

/// A proxy of the list, and an address that is not in it.
const PROXY: &str = "127.9.0.1";
const OTHER: &str = "127.8.0.1";
const KEYS: &str = "proxy-protocol-from = [\"127.9.0.0/16\"]\n";

/// Clients behind the proxy: of the view, refused by the access rules, and of neither.
const INSIDE: [u8; 4] = [198, 51, 100, 7];
const REFUSED: [u8; 4] = [203, 0, 113, 7];
const OUTSIDE: [u8; 4] = [192, 0, 2, 7];

/// Returns a header that names this client, port 4660, at this address of the proxy, by `protocol`: 1 is
/// TCP, 2 is UDP.
pub(crate) fn header_to(client: [u8; 4], to: [u8; 4], protocol: u8) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    header.extend([0x21, 0x10 | protocol, 0, 19]);
    header.extend(client);
    header.extend(to);
    header.extend([0x12, 0x34, 0, 53]);
    // An extension (PP2_TYPE_NOOP).
    header.extend([4, 0, 4, 1, 2, 3, 4]);
    header
}

fn header(client: [u8; 4]) -> Vec<u8> {
    header_to(client, [192, 0, 2, 53], 2)
}

/// A header of a proxy that speaks for itself.
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

fn udp(from: &str, server: &Server) -> UdpSocket {
    let socket = UdpSocket::bind((from, 0)).expect("an address");
    socket.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    socket.connect(server.address).expect("connected");
    socket
}

fn tcp(from: &str, server: &Server) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let from: SocketAddr = format!("{from}:0").parse().expect("an address");
    socket.bind(&from.into()).expect("bound");
    socket.connect(&server.address.into()).expect("connected");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    stream.set_nodelay(true).expect("set");
    stream
}

/// A reply: ID, response code, and the last byte, which is that of the address in an answer.
type Reply = (u16, u8, u8);

fn read(reply: &[u8]) -> Reply {
    (u16::from_be_bytes([reply[0], reply[1]]), reply[3] & 15, *reply.last().expect("bytes"))
}

fn receive(socket: &UdpSocket) -> Reply {
    let mut reply = [0; 4096];
    let len = socket.recv(&mut reply).expect("a reply");
    read(&reply[..len])
}

fn ask(socket: &UdpSocket, id: u16, header: &[u8], name: &str) -> Reply {
    socket.send(&[header, &message(id, name, 1)].concat()).expect("sent");
    receive(socket)
}

/// Returns a message after its length.
fn framed(id: u16, name: &str) -> Vec<u8> {
    let message = message(id, name, 1);
    [&(message.len() as u16).to_be_bytes(), &message[..]].concat()
}

/// Returns the next reply; `None` if the server has closed the connection.
fn next(stream: &mut TcpStream) -> Option<Reply> {
    let mut len = [0; 2];
    match stream.read_exact(&mut len) {
        Err(e) if matches!(e.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => return None,
        read => read.expect("a length"),
    }
    let mut reply = vec![0; u16::from_be_bytes(len).into()];
    stream.read_exact(&mut reply).expect("a reply");
    Some(read(&reply))
}

/// Returns how many messages or connections were dropped for this reason.
fn dropped(server: &Server, transport: &str, reason: &str) -> u64 {
    let at = server.address;
    server.counter(&format!(
        "nomen_net_proxy_dropped_total{{listen=\"{at}\",transport=\"{transport}\",reason=\"{reason}\"}}"
    ))
}

/// A server with `www.example.` at 192.0.2.1 for all clients and at 192.0.2.2 for those of a view.
fn start(keys: &str, more: &str) -> Server {
    let folder = tempfile::tempdir().expect("a folder");
    for last in [1, 2] {
        fs::write(folder.path().join(format!("{last}.txt")), format!("{APEX}at A 192.0.2.{last}\n"))
            .expect("written");
    }
    let sections = format!(
        "[[view]]\nname = \"inside\"\nfrom = [\"198.51.100.0/24\"]\n\
         [[zone]]\nname = \"example\"\nfile = \"1.txt\"\n\
         [[zone]]\nname = \"example\"\nview = \"inside\"\nfile = \"2.txt\"\n\
         [[server.access]]\naction = \"refuse\"\nfrom = [\"203.0.113.0/24\"]\n{more}"
    );
    Server::start_in(folder, keys, &sections)
}

/// A server of [`start`] that also listens for HTTP without TLS, and the address of that.
fn start_http(keys: &str) -> (Server, SocketAddr) {
    let web = free_address();
    let more = format!(
        "[[listen]]\naddr = [{}]\nproto = [\"http\"]\n[log]\nqueries = true\nqueries-file = \"queries.log\"\n",
        written(web)
    );
    (start(keys, &more), web)
}

/// Asks for `at.example A` with curl from this address, and returns the status, the version of HTTP, and the
/// response code and last byte of a reply.
fn curl(server: &Server, from: &str, url: &str, words: &[&str]) -> (String, Option<(u8, u8)>) {
    let (query, reply) = (server.path("query"), server.path("reply"));
    fs::write(&query, message(0, "at.example", 1)).expect("written");
    let _ = fs::remove_file(&reply);
    let output = Command::new("curl")
        .args(["--silent", "--insecure", "--noproxy", "*", "--interface", from, "--output"])
        .arg(&reply)
        .args([
            "--max-time",
            &TEST_TIMEOUT.as_secs().to_string(),
            "--write-out",
            "%{http_code} %{http_version}",
        ])
        .args(["--header", "content-type: application/dns-message", "--data-binary"])
        .arg(format!("@{}", query.display()))
        .args(words)
        .arg(format!("{url}/dns-query"))
        .output()
        .expect("curl runs");
    let said = text(&output.stdout);
    let reply = fs::read(&reply).ok().filter(|reply| said.starts_with("200") && reply.len() > 12);
    (said, reply.map(|reply| (reply[3] & 15, *reply.last().expect("bytes"))))
}

const NOERROR: u8 = 0;
const SERVFAIL: u8 = 2;
const REFUSED_CODE: u8 = 5;

#[test]
fn rules_apply_to_the_client_that_a_datagram_names() {
    let log = "[log]\nqueries = true\nqueries-file = \"queries.log\"\n";
    let server = start(KEYS, log);
    let proxy = udp(PROXY, &server);
    assert_eq!(ask(&proxy, 1, &header(INSIDE), "at.example"), (1, NOERROR, 2));
    assert_eq!(ask(&proxy, 2, &header(OUTSIDE), "at.example"), (2, NOERROR, 1));
    assert_eq!(ask(&proxy, 3, &header(REFUSED), "at.example").1, REFUSED_CODE);
    // A mapped address is that of IPv4.
    let mut mapped = b"\r\n\r\n\0\r\nQUIT\n\x21\x22\0\x24".to_vec();
    for ip in [REFUSED, [192, 0, 2, 53]] {
        mapped.extend([[0; 10].as_slice(), &[0xff; 2], &ip].concat());
    }
    mapped.extend([0x12, 0x34, 0, 53]);
    assert_eq!(ask(&proxy, 4, &mapped, "at.example").1, REFUSED_CODE);
    // The proxy itself.
    assert_eq!(ask(&proxy, 5, LOCAL, "at.example"), (5, NOERROR, 1));
    let queries = || fs::read_to_string(server.path("queries.log")).unwrap_or_default();
    for (client, times) in [("198.51.100.7", 1), ("192.0.2.7", 1), ("203.0.113.7", 2), ("127.9.0.1", 1)] {
        eventually("the query log", &server, || queries().matches(&format!("={client}")).count() >= times);
    }
    assert!(queries().contains("192.0.2.53"), "the address that the client sent to: {}", queries());
    assert!(queries().lines().count() == 5, "{}", queries());
}

#[test]
fn a_datagram_without_a_valid_header_is_dropped_and_counted() {
    let server = start(&(KEYS.to_owned() + "proxy-protocol-maximum-size = 60\n"), "");
    let proxy = udp(PROXY, &server);
    let query = message(1, "at.example", 1);
    let unspecified = b"\r\n\r\n\0\r\nQUIT\n\x21\0\0\0".as_slice();
    let long = [b"\r\n\r\n\0\r\nQUIT\n\x21\x12\0\x2d".as_slice(), &[1; 45]].concat();
    let mut version = header(OUTSIDE);
    version[12] = 0x31;
    let bad: [(&str, &[u8]); 5] = [
        ("missing", b""),
        ("missing", b"PROXY UDP4 192.0.2.7 192.0.2.53 4660 53\r\n"),
        ("no-address", unspecified),
        ("too-long", &long),
        ("malformed", &version),
    ];
    for (_, start) in &bad {
        proxy.send(&[start, &query[..]].concat()).expect("sent");
    }
    // A header that the datagram ends in.
    let whole = header(OUTSIDE);
    proxy.send(&whole[..whole.len() - 1]).expect("sent");
    let expected = [("missing", 2), ("no-address", 1), ("too-long", 1), ("malformed", 2)];
    for (reason, count) in expected {
        eventually(reason, &server, || dropped(&server, "udp", reason) >= count);
    }
    assert_eq!(ask(&proxy, 2, &whole, "at.example").0, 2, "none of them has a reply");
    // From another address nothing is parsed.
    let other = udp(OTHER, &server);
    assert_eq!(ask(&other, 3, b"", "at.example"), (3, NOERROR, 1));
    let (_, rcode, _) = ask(&other, 4, &header(INSIDE), "at.example");
    assert_ne!(rcode, NOERROR, "a malformed message");
    for (reason, count) in expected {
        assert_eq!(dropped(&server, "udp", reason), count, "{reason}");
    }
}

#[test]
fn one_header_names_the_client_of_a_connection() {
    let server = start(KEYS, "");
    let mut inside = tcp(PROXY, &server);
    // Every byte apart, the first query too.
    for byte in [&header_to(INSIDE, [192, 0, 2, 53], 1)[..], &framed(1, "at.example")].concat() {
        inside.write_all(&[byte]).expect("sent");
    }
    assert_eq!(next(&mut inside), Some((1, NOERROR, 2)));
    inside.write_all(&[framed(2, "at.example"), framed(3, "at.example")].concat()).expect("sent");
    let mut both = [next(&mut inside), next(&mut inside)];
    both.sort();
    assert_eq!(both, [2, 3].map(|id| Some((id, NOERROR, 2))));
    // All at once, and another client on another connection of the proxy.
    let mut refused = tcp(PROXY, &server);
    refused.write_all(&[header(REFUSED), framed(4, "at.example")].concat()).expect("sent");
    assert_eq!(next(&mut refused).map(|reply| reply.1), Some(REFUSED_CODE));
    let mut own = tcp(PROXY, &server);
    own.write_all(&[LOCAL, &framed(5, "at.example")].concat()).expect("sent");
    assert_eq!(next(&mut own), Some((5, NOERROR, 1)));
    // Without a header.
    let mut without = tcp(PROXY, &server);
    without.write_all(&framed(6, "at.example")).expect("sent");
    assert_eq!(next(&mut without), None);
    assert_eq!(dropped(&server, "tcp", "missing"), 1);
    let mut other = tcp(OTHER, &server);
    other.write_all(&framed(7, "at.example")).expect("sent");
    assert_eq!(next(&mut other), Some((7, NOERROR, 1)));
    // From another address a header is a message of 3,338 bytes.
    let mut other = tcp(OTHER, &server);
    other.write_all(&[header(INSIDE), vec![0; 3340 - header(INSIDE).len()]].concat()).expect("sent");
    assert_ne!(next(&mut other).map(|reply| reply.1), Some(NOERROR));
    assert_eq!(dropped(&server, "tcp", "missing"), 1);
}

#[test]
fn connections_count_as_those_of_the_clients_that_they_name() {
    let keys = format!("{KEYS}tcp-connections-per-client = 2\ntcp-first-timeout = \"60s\"\n");
    let server = start(&keys, "");
    let connect = |client: [u8; 4], id: u16| {
        let mut stream = tcp(PROXY, &server);
        stream
            .write_all(&[header_to(client, [192, 0, 2, 53], 1), framed(id, "at.example")].concat())
            .expect("sent");
        let reply = next(&mut stream);
        (stream, reply.map(|reply| reply.0))
    };
    // Connections that wait for a header, more than a client may have.
    let waiting: Vec<_> = (0..5).map(|_| tcp(PROXY, &server)).collect();
    let several: Vec<_> = (1..=5).map(|client| connect([192, 0, 2, client as u8], client)).collect();
    assert_eq!(several.iter().map(|(_, id)| *id).collect::<Vec<_>>(), [1, 2, 3, 4, 5].map(Some));
    let second = connect([192, 0, 2, 1], 6);
    assert_eq!(second.1, Some(6));
    assert_eq!(connect([192, 0, 2, 1], 7).1, None, "a third one of the same client");
    let refused =
        format!("nomen_net_tcp_refused_client_total{{listen=\"{}\",transport=\"tcp\"}}", server.address);
    eventually("the count", &server, || server.counter(&refused) == 1);
    drop((waiting, several));
}

#[test]
fn a_header_that_does_not_come_has_the_time_of_a_first_query() {
    let server = start(&format!("{KEYS}tcp-first-timeout = \"100ms\"\n"), "");
    for start in [&b""[..], &header(OUTSIDE)] {
        let mut stream = tcp(PROXY, &server);
        stream.write_all(start).expect("sent");
        assert_eq!(next(&mut stream), None);
    }
    let first =
        format!("nomen_net_tcp_timeout_first_total{{listen=\"{}\",transport=\"tcp\"}}", server.address);
    eventually("the count", &server, || server.counter(&first) == 2);
}

#[test]
fn late_answers_go_to_the_proxy_and_recursion_is_for_the_client_that_is_named() {
    let upstream = Server::start(APEX, "");
    let server = Server::start_in(
        tempfile::tempdir().expect("a folder"),
        KEYS,
        &format!(
            "[resolver]\nvalidate = false\nclient-timeout = \"60s\"\n[[resolver.forward]]\nservers = [{}]\n\
             [[resolver.access]]\nfrom = [\"198.51.100.0/24\"]\n",
            written(upstream.address)
        ),
    );
    let proxy = udp(PROXY, &server);
    let recursive = |id: u16, name: &str| {
        let mut query = message(id, name, 1);
        query[2] |= 1;
        query
    };
    // Names that the other server has, and names that it refuses, all of which are asked there. Many together
    // are deferred.
    for id in 1..=40_u16 {
        let name = if id == 1 { "ns1.example".to_owned() } else { format!("a{id}.other") };
        proxy.send(&[header(INSIDE), recursive(id, &name)].concat()).expect("sent");
    }
    let mut replies: Vec<_> = (1..=40).map(|_| receive(&proxy)).collect();
    replies.sort();
    assert_eq!(replies.iter().map(|reply| reply.0).collect::<Vec<_>>(), (1..=40).collect::<Vec<_>>());
    assert_eq!((replies[0].1, replies[1].1), (NOERROR, SERVFAIL));
    proxy.send(&[header(OUTSIDE), recursive(50, "a50.other")].concat()).expect("sent");
    assert_eq!(receive(&proxy).1, REFUSED_CODE);
    let mut stream = tcp(PROXY, &server);
    let query = recursive(51, "a51.other");
    let length = (query.len() as u16).to_be_bytes();
    stream.write_all(&[&header(INSIDE)[..], &length, &query].concat()).expect("sent");
    assert_eq!(next(&mut stream).map(|reply| (reply.0, reply.1)), Some((51, SERVFAIL)));
}

#[test]
fn a_reload_changes_the_proxies() {
    let server = start("", "");
    let proxy = udp(PROXY, &server);
    assert_eq!(ask(&proxy, 1, b"", "at.example"), (1, NOERROR, 1));
    let mut before = tcp(PROXY, &server);
    before.write_all(&framed(1, "at.example")).expect("sent");
    assert_eq!(next(&mut before), Some((1, NOERROR, 1)));
    server.reconfigure("workers = 2\n", &format!("workers = 2\n{KEYS}"));
    server.reload();
    assert_eq!(server.ctl_json(&["status"])["pending_keys"], serde_json::json!([]));
    assert_eq!(ask(&proxy, 2, &header(INSIDE), "at.example"), (2, NOERROR, 2));
    // A connection that was open before has no header.
    before.write_all(&framed(2, "at.example")).expect("sent");
    assert_eq!(next(&mut before), Some((2, NOERROR, 1)));
    let mut after = tcp(PROXY, &server);
    after.write_all(&[header(INSIDE), framed(3, "at.example")].concat()).expect("sent");
    assert_eq!(next(&mut after), Some((3, NOERROR, 2)));
    server.reconfigure(KEYS, "");
    server.reload();
    assert_eq!(ask(&proxy, 3, b"", "at.example"), (3, NOERROR, 1));
}

#[test]
fn views_by_address_see_the_address_that_the_client_sent_to() {
    let at = free_address();
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("1.txt"), format!("{APEX}at A 192.0.2.1\n")).expect("written");
    let more =
        "[[zone]]\nname = \"example\"\nfile = \"1.txt\"\nallow-query = [\"0.0.0.0/0 on:192.0.2.53\"]\n";
    let server = Server::start_at(at, folder, KEYS, more);
    let proxy = udp(PROXY, &server);
    assert_eq!(ask(&proxy, 1, &header(OUTSIDE), "at.example"), (1, NOERROR, 1));
    let elsewhere = header_to(OUTSIDE, [192, 0, 2, 54], 2);
    assert_eq!(ask(&proxy, 2, &elsewhere, "at.example").1, REFUSED_CODE);
}

#[test]
fn a_reverse_proxy_names_its_clients_in_a_header_of_http() {
    let keys = "http-proxies-from = [\"127.9.0.0/16\"]\nhttp-client-header = \"x-forwarded-for\"\n";
    let (server, web) = start_http(keys);
    let url = format!("http://{web}");
    let of = |from: &str, words: &[&str]| curl(&server, from, &url, words);
    let (h2c, http1) = ("--http2-prior-knowledge", "--http1.1");
    let named = |client: [u8; 4]| format!("X-Forwarded-For: {}", std::net::Ipv4Addr::from(client));
    assert_eq!(of(PROXY, &[h2c, "-H", &named(INSIDE)]), ("200 2".into(), Some((NOERROR, 2))));
    assert_eq!(of(PROXY, &[http1, "-H", &named(INSIDE)]), ("200 1.1".into(), Some((NOERROR, 2))));
    // What the client itself writes does not count, and neither does the second proxy.
    let chain = format!("X-Forwarded-For: 198.51.100.7, {}, 127.9.9.9", std::net::Ipv4Addr::from(OUTSIDE));
    assert_eq!(of(PROXY, &[h2c, "-H", &chain]).1, Some((NOERROR, 1)));
    let refused = of(PROXY, &[h2c, "-H", &named(REFUSED)]).1;
    assert_eq!(refused.map(|(rcode, _)| rcode), Some(REFUSED_CODE));
    assert_eq!(of(PROXY, &[h2c]), ("400 2".into(), None));
    assert!(of(OTHER, &[h2c, "-H", &named(INSIDE)]).0.starts_with("000"), "it is not listed");
    let counter = |name: &str, label: &str| {
        server.counter(&format!("nomen_net_{name}_total{{listen=\"{web}\",transport=\"http\"{label}}}"))
    };
    assert_eq!(counter("proxy_dropped", ",reason=\"missing\""), 1);
    assert_eq!((counter("http_unlisted", ""), counter("https_bad_requests", "")), (1, 1));
    assert_eq!(server.counter("nomen_queries_total{transport=\"http\",type=\"A\"}"), 4);
    let queries = || fs::read_to_string(server.path("queries.log")).unwrap_or_default();
    eventually("the query log", &server, || queries().lines().count() == 4);
    for client in ["198.51.100.7:0", "192.0.2.7:0", "203.0.113.7:0"] {
        assert!(queries().contains(&format!("client={client}")), "{}", queries());
    }
    assert!(!queries().contains("127.9") && queries().contains("http"), "{}", queries());
}

#[test]
fn nginx_in_front_passes_requests_on_in_clear_text() {
    if !testkit::has_programs(&["nginx"]) {
        return;
    }
    let keys = "http-proxies-from = [\"127.9.0.0/16\"]\nhttp-client-header = \"x-forwarded-for\"\n";
    let (server, web) = start_http(keys);
    let (folder, at) = (server.folder.path(), free_address());
    write_certificate(folder, "dns.test");
    let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|of| format!("{of}_temp_path {}/{of};\n", folder.display()))
        .concat();
    let config = format!(
        "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log nginx.log;\nevents {{}}\nhttp {{\naccess_log off;\n{paths}\
         server {{\nlisten {at} ssl http2;\nssl_certificate chain.pem;\nssl_certificate_key key.pem;\n\
         location /dns-query {{\nproxy_pass http://{web};\nproxy_http_version 1.1;\nproxy_bind {PROXY};\n\
         proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\n}}\n}}\n}}\n"
    );
    fs::write(folder.join("nginx.conf"), config).expect("written");
    let mut nginx = Command::new("nginx");
    nginx
        .arg("-p")
        .arg(folder)
        .arg("-c")
        .arg(folder.join("nginx.conf"))
        .arg("-e")
        .arg(folder.join("nginx.log"));
    nginx.env("PATH", format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default()));
    let mut nginx = nginx.spawn().expect("nginx runs");
    let url = format!("https://{at}");
    eventually("nginx", &server, || TcpStream::connect(at).is_ok());
    let own = curl(&server, OTHER, &url, &["-H", "X-Forwarded-For: 198.51.100.7"]);
    let padded = kdig(at, &["+https", "+padding", "at.example", "A"]);
    let _ = nginx.kill();
    let _ = nginx.wait();
    assert_eq!(own, ("200 2".into(), Some((NOERROR, 1))), "the client is the one that nginx sees");
    assert!(padded.contains("Received 468 B"), "{padded}");
    let queries = || fs::read_to_string(server.path("queries.log")).unwrap_or_default();
    eventually("the query log", &server, || queries().contains(&format!("client={OTHER}:0")));
}
