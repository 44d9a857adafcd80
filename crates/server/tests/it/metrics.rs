//! Figures over HTTP, and the query log.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::{APEX, PATIENCE, Server, free_port};

/// Sends one request and gives the whole answer.
pub(crate) fn http(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    write!(stream, "{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer
}

#[test]
fn figures_are_scraped() {
    let port = free_port();
    let server = Server::start(APEX, &format!("[metrics]\nlisten = \"127.0.0.1@{port}\"\nper-zone = true\n"));
    for _ in 0..3 {
        server.query(&["ns1.example", "A"]);
    }
    server.query(&["nosuch.example", "AAAA", "+tcp"]);
    let figures = http(port, "GET /metrics");
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
    assert!(http(port, "GET /").starts_with("HTTP/1.1 404"));
    assert!(http(port, "POST /metrics").starts_with("HTTP/1.1 405"));
}

#[test]
fn the_query_log_tells_each_query() {
    let mut server = Server::start(APEX, "[log]\nqueries = true\nformat = \"json\"\n");
    server.query(&["Ns1.example", "AAAA"]);
    server.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(server.wait().success());
    let log = server.log();
    let line = log.lines().find(|l| l.contains("\"message\":\"query\"")).unwrap_or_else(|| panic!("{log}"));
    let entry: serde_json::Value = serde_json::from_str(line).expect("JSON");
    assert_eq!((&entry["name"], &entry["type"]), (&"Ns1.example.".into(), &"AAAA".into()), "{entry}");
    assert_eq!((&entry["rcode"], &entry["transport"]), (&"NOERROR".into(), &"udp".into()), "{entry}");
}
