//! Figures over HTTP, and the query log.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};

use crate::support::{APEX, PATIENCE, Server, eventually, free_address, message, written};

/// Sends one request and returns the whole answer.
pub(crate) fn http(server: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(server).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    write!(stream, "{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer
}

#[test]
fn figures_are_scraped() {
    let at = free_address();
    let server = Server::start(APEX, &format!("[metrics]\nlisten = {}\nper-zone = true\n", written(at)));
    for _ in 0..3 {
        server.query(&["ns1.example", "A"]);
    }
    server.query(&["nosuch.example", "AAAA", "+tcp"]);
    let figures = http(at, "GET /metrics");
    assert!(figures.starts_with("HTTP/1.1 200"), "{figures}");
    for line in [
        "nomen_queries_total{transport=\"udp\",type=\"A\"} 3",
        "nomen_replies_total{transport=\"udp\",rcode=\"NOERROR\"} 3",
        "nomen_replies_total{transport=\"tcp\",rcode=\"NXDOMAIN\"} 1",
        "nomen_response_size_bytes_bucket{le=\"+Inf\",transport=\"udp\"} 3",
        "nomen_latency_seconds_count 4",
        "nomen_zones{state=\"ok\"} 1",
        "nomen_zone_serial{zone=\"example.\"} 1",
        "nomen_zone_queries_total{zone=\"example.\"} 4",
        "# EOF",
    ] {
        assert!(figures.lines().any(|l| l == line), "{line} is missing:\n{figures}");
    }
    assert!(http(at, "GET /").starts_with("HTTP/1.1 404"));
    assert!(http(at, "POST /metrics").starts_with("HTTP/1.1 405"));
}

#[test]
fn the_query_log_tells_each_query() {
    let large: String = (0..100).map(|n| format!("large A 192.0.2.{n}\n")).collect();
    let server = Server::start(&format!("{APEX}{large}"), "[log]\nqueries = true\nformat = \"json\"\n");
    let entry = |name: &str| {
        let logged = || {
            let log = server.log();
            let mut whole = log.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            whole.find(|line| line.contains(&format!("\"name\":\"{name}\""))).map(str::to_owned)
        };
        eventually("the query is logged", &server, || logged().is_some());
        let entry: serde_json::Value = serde_json::from_str(&logged().expect("a line")).expect("JSON");
        assert_eq!(entry["listener"], server.address.to_string(), "{entry}");
        entry
    };
    let is = |entry: &serde_json::Value, expected: &[(&str, serde_json::Value)]| {
        expected.iter().for_each(|(key, value)| assert_eq!(&entry[key], value, "{key} of {entry}"));
    };
    server.query(&["Ns1.example", "AAAA"]);
    let usual = [
        ("message", "query".into()),
        ("transport", "udp".into()),
        ("opcode", "QUERY".into()),
        ("class", "IN".into()),
        ("type", "AAAA".into()),
        ("zone", "example.".into()),
        ("rcode", "NOERROR".into()),
        ("truncated", false.into()),
        ("extended_error", serde_json::Value::Null),
    ];
    is(&entry("Ns1.example."), &usual);
    server.query(&["large.example", "A", "+ignore"]);
    is(&entry("large.example."), &[("truncated", true.into()), ("zone", "example.".into())]);
    server.query(&["elsewhere.test", "A", "+tcp"]);
    let refused = [
        ("transport", "tcp".into()),
        ("rcode", "REFUSED".into()),
        ("extended_error", 20.into()),
        ("zone", serde_json::Value::Null),
    ];
    is(&entry("elsewhere.test."), &refused);
    let mut notify = message(7, "example", 6);
    notify[2] = 4 << 3;
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.send_to(&notify, server.address).expect("sent");
    is(&entry("example."), &[("opcode", "NOTIFY".into())]);
}
