//! Rules whose servers are asked over HTTPS and QUIC: the server is another nomen. `tls` has tests against
//! servers that fail in other ways, and `tls_upstreams` what is common to all encrypted servers.

use std::fs;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;

use tempfile::TempDir;

use crate::metrics::http;
use crate::support::{APEX, Server, free_address, text, written};

pub(crate) const SERVER_PIN: &str = "sha256/4Bk+iD5DaeLmvEE3T0l6f1cyQgIOp3jmqnNj3oC3VqE=";
const SELF_PIN: &str = "sha256/FnXh1YnQwt+FtZSYk+Z/oNS8Giph+k2HD69ffUY+Usg=";
/// Timeouts so long that no query is repeated, however slow the machine is.
pub(crate) const LONG_TIMEOUTS: &str = "first-timeout = \"10s\"\nmin-timeout = \"10s\"\nmax-timeout = \"60s\"\n\
                             client-timeout = \"60s\"\ntls-handshake-timeout = \"60s\"\nprobe-interval = \"100ms\"\n";
/// Timeouts so short that a query to a server that does not respond fails within a second.
pub(crate) const SHORT_TIMEOUTS: &str = "first-timeout = \"100ms\"\nmin-timeout = \"100ms\"\nclient-timeout = \"60s\"\n\
                              tls-handshake-timeout = \"300ms\"\nprobe-interval = \"100ms\"\n";

/// A folder with the certificates.
pub(crate) fn folder() -> TempDir {
    let (folder, data) = (
        tempfile::tempdir().expect("a folder"),
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../tls/tests/data"),
    );
    for name in ["ca.pem", "server.pem", "server.key"] {
        fs::copy(data.join(name), folder.path().join(name)).expect("copied");
    }
    folder
}

/// The server that is asked: at one port over HTTPS, and over QUIC at its UDP port.
struct Upstream {
    server: Server,
    encrypted: SocketAddr,
}

impl Upstream {
    fn start() -> Self {
        Self::start_at(free_address(), free_address())
    }

    fn start_at(address: SocketAddr, encrypted: SocketAddr) -> Self {
        let folder = folder();
        let long = format!("long TXT {}\n", format!("\"{}\" ", "x".repeat(200)).repeat(20));
        fs::write(folder.path().join("example.zone"), format!("{APEX}* A 192.0.2.80\n{long}"))
            .expect("written");
        let more = format!(
            "[[listen]]\naddr = [{}]\nproto = [\"https\", \"quic\"]\n\
             [[certificate]]\nchain = \"server.pem\"\nkey = \"server.key\"\n",
            written(encrypted)
        );
        Upstream { server: Server::start_at(address, folder, "", &more), encrypted }
    }

    /// The server over HTTPS and the one over QUIC, with this name and these words after it.
    fn both(&self, name: &str, more: &str) -> [String; 2] {
        let (ip, port) = (self.encrypted.ip(), self.encrypted.port());
        [format!("https://{name}:{port}/dns-query@{ip}{more}"), format!("quic://{name}:{port}@{ip}{more}")]
    }
}

/// A server that forwards all names to this one, with more keys of `[resolver]`, and with metrics.
pub(crate) fn forwarder(server: &str, keys: &str) -> (Server, SocketAddr) {
    let ca_file = if server.contains('#') { "" } else { "ca-file = \"ca.pem\"\n" };
    let metrics = free_address();
    let more = format!(
        "[resolver]\nvalidate = false\n{keys}[[resolver.forward]]\nservers = [\"{server}\"]\n{ca_file}\
         [metrics]\nlisten = {}\n",
        written(metrics)
    );
    (Server::start_in(folder(), "", &more), metrics)
}

/// The first server of the first rule.
pub(crate) fn shown(server: &Server) -> serde_json::Value {
    server.ctl_json(&["forward", "list"])[0]["servers"][0].clone()
}

#[test]
fn names_are_forwarded_over_https_and_quic_and_sessions_are_resumed() {
    let upstream = Upstream::start();
    let keys = format!("{LONG_TIMEOUTS}connection-idle-timeout = \"100ms\"\n");
    for (spec, label) in upstream.both("dns.example", "").iter().zip(["https", "quic"]) {
        let (server, metrics) = forwarder(spec, &keys);
        assert_eq!(server.query(&["a.example", "+short"]), "192.0.2.80\n");
        assert!(server.query(&["long.example", "TXT", "+tcp"]).contains("NOERROR"));
        let resumed = || {
            let page = http(metrics, "GET /metrics");
            page.lines().any(|line| {
                line.starts_with("nomen_upstream_tls_handshakes_total")
                    && line.contains("resumed")
                    && !line.ends_with(" 0")
            })
        };
        let mut number = 0;
        crate::support::eventually("a connection is resumed", &server, || {
            number += 1;
            std::thread::sleep(std::time::Duration::from_millis(150));
            server.query(&[&format!("n{number}.example"), "+short"]) == "192.0.2.80\n" && resumed()
        });
        let list = shown(&server);
        assert!(list[label].as_u64() > Some(2) && list["udp"] == 0 && list["tcp"] == 0, "{list}");
        let said = text(&server.ctl(&["explain", "c.example"]).stdout);
        assert!(said.contains(&format!(" by {label}, query 1")) && said.contains("dns.example"), "{said}");
    }
}

/// Returns the extended error of a query by this rule, which must fail, also for the next ones.
fn refusal(spec: &str) -> String {
    let (server, _) = forwarder(spec, SHORT_TIMEOUTS);
    let answer = server.query(&["www.example"]);
    assert!(answer.contains("status: SERVFAIL"), "{spec}: {answer}");
    let error = answer.lines().find(|line| line.contains("EDE: 23 (Network Error)"));
    let fault = shown(&server)["tls_fault"].as_str().unwrap_or_default().to_owned();
    assert!(error.is_some_and(|error| error.contains(&fault)), "{spec}: {answer} {fault}");
    let list = shown(&server);
    assert_eq!((&list["udp"], &list["tcp"]), (&0.into(), &0.into()), "{list}");
    fault
}

#[test]
fn a_server_that_is_not_the_wanted_one_is_not_asked() {
    let upstream = Upstream::start();
    for spec in upstream.both("dns2.example", "") {
        assert_eq!(refusal(&spec), "TLS: the server's certificate does not match its name");
    }
    for spec in upstream.both("dns.example", &format!("#{SELF_PIN}")) {
        assert_eq!(refusal(&spec), "TLS: the server's key matches no pin");
    }
    let [https, _] = upstream.both("dns.example", "");
    let fault = refusal(&https.replace("/dns-query", "/other"));
    assert_eq!(fault, "HTTPS: the server has no DNS at this path (status 404)");
    for spec in upstream.both("other.example", &format!("#{SERVER_PIN}")) {
        let (server, _) = forwarder(&spec, LONG_TIMEOUTS);
        assert_eq!(server.query(&["www.example", "+short"]), "192.0.2.80\n", "{spec}");
    }
}

#[test]
fn a_server_that_accepts_and_hangs_is_not_asked_in_the_clear() {
    let hanging = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = UdpSocket::bind(hanging.local_addr().expect("an address")).expect("the same port");
    let port = hanging.local_addr().expect("an address").port();
    for spec in [
        format!("https://127.0.0.1:{port}/dns-query#{SERVER_PIN}"),
        format!("quic://127.0.0.1:{port}#{SERVER_PIN}"),
    ] {
        assert_eq!(refusal(&spec), "TLS: handshake timeout");
    }
    silent.set_nonblocking(true).expect("set");
    let mut packet = [0; 2048];
    while let Ok(len) = silent.recv(&mut packet) {
        assert!(len >= 1200 && packet[0] & 0xc0 == 0xc0, "an initial packet of QUIC: {:?}", &packet[..len]);
    }
}

#[test]
fn connections_are_opened_again_after_the_server_was_restarted() {
    let upstream = Upstream::start();
    let servers = upstream.both("dns.example", "").map(|spec| forwarder(&spec, LONG_TIMEOUTS).0);
    servers.iter().for_each(|server| assert_eq!(server.query(&["a.example", "+short"]), "192.0.2.80\n"));
    let (address, encrypted) = (upstream.server.address, upstream.encrypted);
    let Upstream { server: first, .. } = upstream;
    drop(first.stop());
    let _upstream = Upstream::start_at(address, encrypted);
    servers.iter().for_each(|server| {
        assert_eq!(server.query(&["b.example", "+short"]), "192.0.2.80\n");
        assert_eq!(shown(server)["state"], "ok");
    });
}

#[test]
fn a_rule_of_a_running_server_has_the_notation_of_the_configuration() {
    let upstream = Upstream::start();
    let (server, _) = forwarder("192.0.2.1#opportunistic", LONG_TIMEOUTS);
    for spec in upstream.both("dns.example", &format!("#{SERVER_PIN}")) {
        assert!(server.ctl(&["forward", "add", "example", &spec]).status.success(), "{spec}");
        server.ctl(&["cache", "flush", "--tree", "example"]);
        assert_eq!(server.query(&["www.example", "+short"]), "192.0.2.80\n", "{spec}");
    }
    let refused = server.ctl(&["forward", "add", "example", "https://dns.example/dns-query"]);
    let said = text(&refused.stderr);
    assert!(
        said.contains("write its address behind it: `https://dns.example/dns-query@192.0.2.53`"),
        "{said}"
    );
}
