//! Metrics over HTTP, and the query log.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};

use crate::support::{APEX, Server, TEST_TIMEOUT, eventually, free_address, message, written};

/// Sends one request and returns the whole response.
pub(crate) fn http(server: SocketAddr, request: &str) -> String {
    http_with(server, request, "")
}

/// Like [`http`], with more header lines, each with its line end.
pub(crate) fn http_with(server: SocketAddr, request: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(server).expect("connected");
    stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    write!(stream, "{request} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n{headers}\r\n")
        .expect("sent");
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
fn the_first_page_names_the_paths_for_programs() {
    let at = free_address();
    let _server = Server::start(APEX, &format!("[metrics]\nlisten = {}\n", written(at)));
    let answer = http(at, "GET /");
    let (head, page) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("content-type: text/plain;"), "{head}");
    assert!(head.contains("x-content-type-options: nosniff"), "{head}");
    for path in ["/metrics", "/healthz", "/readyz", "[api]"] {
        assert!(page.contains(path), "{path}: {page}");
    }
    // It has nothing about the server, so that it needs no access control.
    assert!(!page.contains("example"), "{page}");
    let head_only = http(at, "HEAD /");
    assert!(head_only.starts_with("HTTP/1.1 200") && head_only.ends_with("\r\n\r\n"), "{head_only}");
    assert!(http(at, "GET /why").starts_with("HTTP/1.1 404"));
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        assert!(http(at, &format!("{method} /")).starts_with("HTTP/1.1 405"), "{method}");
    }
}

#[test]
fn half_sent_requests_made_the_figures_unreachable() {
    let at = free_address();
    let keys = format!("[metrics]\nlisten = {}\nconnections = 8\nhead-timeout = \"10m\"\n", written(at));
    let _server = Server::start(APEX, &keys);
    let held: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = TcpStream::connect(at).expect("connected");
            write!(stream, "GET /metrics HTTP/1.1\r\nHost: {at}\r\nX-Half: ").expect("sent");
            stream
        })
        .collect();
    let figures = http(at, "GET /metrics");
    assert!(figures.starts_with("HTTP/1.1 200"), "{figures}");
    let evicted = figures.lines().find_map(|line| {
        line.strip_prefix("nomen_admin_connections_evicted_total{listener=\"metrics\"} ")?
            .parse::<usize>()
            .ok()
    });
    assert!(evicted.is_some_and(|evicted| evicted > held.len() - 8), "{evicted:?}");
}

#[test]
fn health_and_readiness_have_pages_of_their_own() {
    let at = free_address();
    let server = Server::start(APEX, &format!("[metrics]\nlisten = {}\n", written(at)));
    let status = |path: &str| http(at, &format!("GET {path}")).lines().next().unwrap_or_default().to_owned();
    assert_eq!([status("/healthz"), status("/readyz")], ["HTTP/1.1 200 OK"; 2]);
    // An old version is still served.
    server.write("example.zone", "@ SOA broken\n");
    server.reload_badly();
    assert_eq!(status("/readyz"), "HTTP/1.1 200 OK");
    server.write("other.zone", "@ SOA broken\n");
    server.reload_badly();
    let answer = http(at, "GET /readyz");
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.ends_with("not ready: 1 of 2 zones are not answered\nother. failed\n"), "{answer}");
    assert_eq!(status("/healthz"), "HTTP/1.1 200 OK");
}

#[test]
fn stats_had_a_part_of_what_metrics_have() {
    let at = free_address();
    let server = Server::start(APEX, &format!("[metrics]\nlisten = {}\n", written(at)));
    let stats = server.ctl_json(&["stats"]);
    let figures = http(at, "GET /metrics");
    let (_, body) = figures.split_once("\r\n\r\n").expect("a body");
    let lines = body.lines().filter(|line| !line.starts_with('#') && !line.contains("_bucket"));
    let missing: Vec<&str> = lines
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(name, _)| name)
        .filter(|name| stats.get(name).is_none())
        .collect();
    assert!(missing.is_empty() && body.contains("nomen_transfers_refused_total"), "{missing:?}");
}
