//! Figures over HTTP, and the query log.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};

use crate::support::{APEX, PATIENCE, Server, eventually, free_address, message, written};

/// Sends one request and returns the whole answer.
pub(crate) fn http(server: SocketAddr, request: &str) -> String {
    http_with(server, request, "")
}

/// The same with more header lines, each with its end.
pub(crate) fn http_with(server: SocketAddr, request: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(server).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    write!(stream, "{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n").expect("sent");
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
        "nomen_response_size_bytes_bucket{transport=\"udp\",le=\"+Inf\"} 3",
        "nomen_latency_seconds_count 4",
        "nomen_zones{state=\"ok\"} 1",
        "nomen_zone_serial{zone=\"example.\"} 1",
        "nomen_zone_state{zone=\"example.\",state=\"ok\"} 1",
        "nomen_zone_state{zone=\"example.\",state=\"failed\"} 0",
        "nomen_zone_queries_total{zone=\"example.\"} 4",
    ] {
        assert!(figures.lines().any(|l| l == line), "{line} is missing:\n{figures}");
    }
    let age = figures
        .lines()
        .find_map(|l| l.strip_prefix("nomen_zone_loaded_timestamp_seconds{zone=\"example.\"} "));
    let age = age.and_then(|at| at.parse::<f64>().ok()).map(|at| crate::signatures::now() as f64 - at);
    assert!(age.is_some_and(|age| age.abs() < 3600.0), "{age:?}");
    assert!(http(at, "GET /nowhere").starts_with("HTTP/1.1 404"));
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

#[test]
fn the_status_page_shows_what_wants_looking_at_first() {
    let (at, nobody) = (free_address(), free_address());
    let more = format!(
        "[metrics]\nlisten = {}\n[[zone]]\nname = \"<script>alert(1)</script>\"\nfile = \"evil.txt\"\n\
         [[zone]]\nname = \"taken.test\"\nprimaries = [{}]\n",
        written(at),
        written(nobody)
    );
    let server = Server::start(APEX, &more);
    server.query(&["ns1.example", "A"]);
    server.write("evil.txt", "@ A <b onclick=\"x\">\n");
    server.reload_badly();
    let answer = http(at, "GET /");
    let (head, page) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(
        head.starts_with("HTTP/1.1 200") && head.contains("content-type: text/html; charset=utf-8"),
        "{head}"
    );
    for header in ["content-security-policy: default-src 'none'; ", "x-content-type-options: nosniff"] {
        assert!(head.contains(header), "{head}");
    }
    for markup in ["<script", "<b ", "<img", "javascript:"] {
        assert!(!page.contains(markup), "{markup}: {page}");
    }
    let place = |words: &str| page.find(words).unwrap_or_else(|| panic!("{words} is missing: {page}"));
    assert!(place("\\&lt;script\\&gt;alert") < place("<td>example.</td><td>ok</td><td>1</td>"), "{page}");
    for words in
        ["<td>NOERROR</td><td>1</td>", "1 of 3 zones are bad", "<td>taken.test.</td><td>never-loaded</td>"]
    {
        place(words);
    }
    let head_only = http(at, "HEAD /");
    assert!(head_only.starts_with("HTTP/1.1 200") && head_only.ends_with("\r\n\r\n"), "{head_only}");
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        assert!(http(at, &format!("{method} /")).starts_with("HTTP/1.1 405"), "{method}");
    }
}
