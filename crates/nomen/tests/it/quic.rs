//! DNS over QUIC with real clients, kdig and `nomen query`: what TCP answers, the rules that know the
//! transport, clients that break the rules, certificates, and a server that takes over.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use tempfile::TempDir;

use crate::encrypted::{CERTIFICATE, KEY, SECRET, kdig, long, start_over, write_certificate};
use crate::support::{APEX, Server, TEST_TIMEOUT, eventually, free_address, nomen, run, text, written};

/// A server that is asked over QUIC and TLS at one port number.
struct QuicServer {
    server: Server,
    /// The address of the listeners.
    at: SocketAddr,
}

fn start_in(folder: TempDir, keys: &str, zone: &str, more: &str) -> QuicServer {
    let (server, at) = start_over("\"quic\", \"tls\"", folder, keys, zone, more);
    QuicServer { server, at }
}

fn start(keys: &str, zone: &str, more: &str) -> QuicServer {
    start_in(tempfile::tempdir().expect("a folder"), keys, zone, more)
}

/// Runs `nomen query` over QUIC in this folder. Returns its exit status and output.
fn query(folder: &Path, at: SocketAddr, words: &[&str]) -> (Option<i32>, String) {
    let (server, time) = (format!("@{}@{}", at.ip(), at.port()), format!("+time={}", TEST_TIMEOUT.as_secs()));
    let output = run(folder, &[&["query", &server, &time, "+quic"], words].concat());
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

impl QuicServer {
    /// Runs `nomen query` over QUIC and returns its output.
    fn query(&self, words: &[&str]) -> String {
        query(self.server.folder.path(), self.at, words).1
    }

    fn kdig(&self, words: &[&str]) -> String {
        kdig(self.at, words)
    }

    /// Returns a counter of the listener.
    fn counter(&self, name: &str) -> u64 {
        self.server.counter(&format!("{name}{{listen=\"{}\",transport=\"quic\"}}", self.at))
    }

    /// Whether a client that trusts this certificate alone gets an answer as a client of this name.
    fn is_trusted(&self, certificate: &str, name: &str) -> bool {
        self.server.write("trusted.pem", certificate);
        let said =
            self.query(&["+tls-ca=trusted.pem", &format!("+tls-hostname={name}"), "www.example", "+short"]);
        assert!(said == "192.0.2.1\n" || said.contains("the server's certificate"), "{said}");
        said == "192.0.2.1\n"
    }
}

#[test]
fn what_tcp_answers_is_answered_over_quic() {
    let quic = start("nsid = \"here\"\n", "allow-transfer = [\"key:k.example\"]\n", KEY);
    let of = |words: &[&str]| quic.query(words);
    assert_eq!(of(&["www.example", "A", "+short"]), "192.0.2.1\n");
    let whole = of(&["www.example", "A"]);
    assert!(whole.contains("id: 0\n") && whole.contains(") (QUIC)\n"), "{whole}");
    let long = of(&["long.example", "TXT"]);
    assert!(long.contains("NOERROR") && long.matches("xxxx\"").count() == 20, "{long}");
    let denied = of(&["no.example", "A", "+nsid"]);
    assert!(denied.contains("NXDOMAIN") && denied.contains("SOA") && denied.contains("here"), "{denied}");
    let refused = of(&["www.test", "A"]);
    assert!(refused.contains("REFUSED") && refused.contains("EDE: 20 (Not Authoritative)"), "{refused}");
    // Padded only for a query that is.
    let (padded, plain) = (of(&["www.example", "+padding"]), of(&["www.example"]));
    assert!(padded.contains("rcvd: 468\n") && plain.contains("rcvd: 56\n"), "{padded}{plain}");
    // Zone transfers over QUIC (RFC 9250 §5.3), signed and not.
    let key = format!("hmac-sha256:k.example:{SECRET}");
    let zone = of(&["example", "AXFR", "-y", &key]);
    assert!(zone.contains(") (QUIC)\n;; XFR size: 8 records") && zone.contains("192.0.2.1"), "{zone}");
    let current = of(&["example", "IXFR=1", "-y", &key]);
    assert!(current.contains(";; XFR size: 1 records"), "{current}");
    let refused = of(&["example", "AXFR"]);
    assert!(refused.contains("REFUSED") && !refused.contains("192.0.2.1"), "{refused}");
    let stats = ["tls_handshakes_total", "queries_total", "quic_protocol_errors_total"];
    assert_eq!(stats.map(|name| quic.counter(&format!("nomen_net_{name}"))), [10, 10, 0]);
    assert_eq!(quic.server.counter("nomen_queries_total{transport=\"quic\",type=\"A\"}"), 6);
}

#[test]
fn kdig_is_answered_over_quic_and_over_tls_at_one_port() {
    let quic = start("", "", "");
    for transport in ["+quic", "+tls"] {
        assert_eq!(quic.kdig(&[transport, "www.example", "A", "+short"]), "192.0.2.1\n", "{transport}");
    }
    let padded = quic.kdig(&["+quic", "+padding", "long.example", "TXT"]);
    assert!(padded.contains("QUIC session") && padded.matches("xxxx\"").count() == 20, "{padded}");
    assert!(padded.contains("Received 4212 B"), "{padded}");
}

#[test]
fn what_is_not_at_hand_is_resolved_and_cached() {
    let upstream = start("", "", "");
    let more = format!(
        "[[resolver.access]]\nfrom = [\"any\"]\n[resolver]\nvalidate = false\n[[resolver.forward]]\n\
         domain = \"other\"\nservers = [{}]\n",
        written(upstream.server.address)
    );
    upstream.server.write("other.txt", &format!("{APEX}www A 192.0.2.7\nlong TXT {}\n", long()));
    upstream.server.reconfigure(
        "[[zone]]\nname = \"example\"\n",
        "[[zone]]\nname = \"other\"\nfile = \"other.txt\"\n[[zone]]\nname = \"example\"\n",
    );
    upstream.server.reload();
    let quic = start("", "", &more);
    for _ in 0..2 {
        assert_eq!(quic.query(&["www.other", "A", "+short"]), "192.0.2.7\n", "{}", quic.server.log());
    }
    let long = quic.query(&["long.other", "TXT"]);
    assert!(long.matches("xxxx\"").count() == 20, "{long}");
    assert_eq!(quic.counter("nomen_net_late_replies_total"), 2);
    assert_eq!((quic.counter("nomen_net_late_lost_total"), quic.counter("nomen_net_replies_total")), (0, 3));
}

/// RFC 9250 §4.3.3.
#[test]
fn clients_that_break_the_rules_get_a_protocol_error() {
    let quic = start("", "", "");
    for (word, reason) in [
        ("+qid=7", "the message ID of the query is not 0"),
        ("+ednsopt=11", "the query has the option edns-tcp-keepalive"),
    ] {
        let said = quic.query(&[word, "www.example"]);
        let expected = format!("the server closed the connection: DOQ_PROTOCOL_ERROR ({reason})");
        assert!(said.contains(&expected), "{said}");
    }
    assert_eq!(quic.query(&["www.example", "+short"]), "192.0.2.1\n");
    let stats = ["quic_protocol_errors_total", "tcp_accepted_total", "queries_total"];
    assert_eq!(stats.map(|name| quic.counter(&format!("nomen_net_{name}"))), [2, 3, 1]);
}

#[test]
fn rules_views_and_the_log_know_quic() {
    let more = "[[server.access]]\naction = \"drop\"\nfrom = [\"any\"]\ntype = [\"TXT\"]\nproto = [\"quic\"]\n\
         [[view]]\nname = \"private\"\nfrom = [\"any\"]\nproto = [\"quic\"]\n\
         [[zone]]\nname = \"example\"\nview = \"private\"\nfile = \"private.txt\"\n\
         allow-query = [\"any proto:quic\"]\n[log]\nqueries = true\n";
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("private.txt"), format!("{APEX}www A 192.0.2.2\n")).expect("written");
    let quic = start_in(folder, "", "", more);
    assert_eq!(quic.query(&["www.example", "A", "+short"]), "192.0.2.2\n");
    assert_eq!(quic.kdig(&["+tls", "www.example", "A", "+short"]), "192.0.2.1\n");
    let dropped = quic.query(&["www.example", "TXT"]);
    assert!(dropped.contains("the server does not answer: DOQ_UNSPECIFIED_ERROR"), "{dropped}");
    eventually("a line of the query", &quic.server, || {
        quic.server.log().lines().any(|line| line.contains("www.example") && line.contains("quic"))
    });
    assert_eq!(quic.counter("nomen_net_dropped_total"), 1);
}

/// The library of QUIC logs what it thinks of packets, of which clients can send any number.
#[test]
fn packets_make_no_lines_in_the_log() {
    let quic = start("", "", "[log]\nlevel = \"trace\"\n");
    assert_eq!(quic.query(&["www.example", "+short"]), "192.0.2.1\n");
    quic.server.wait_for_log("TRACE", 1);
    let log = quic.server.log();
    assert!(log.contains("TRACE") && !log.contains("packet") && !log.contains("drive{"), "{log}");
}

#[test]
fn nomen_query_verifies_the_server_over_quic() {
    let folder = tempfile::tempdir().expect("a folder");
    let certificate = write_certificate(folder.path(), "one.example");
    fs::write(folder.path().join("trusted.pem"), certificate).expect("written");
    let quic = start_in(folder, "", "", CERTIFICATE);
    let pin = quic.server.ctl_json(&["status"])["certificates"][0]["pin"].as_str().expect("a pin").to_owned();
    let pin = format!("+tls-pin={pin}");
    let other = "+tls-pin=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let wrong = "the server's certificate does not match its name";
    for (words, expected) in [
        (&["+tls-ca=trusted.pem", "+tls-hostname=one.example"][..], "192.0.2.1\n"),
        (&["+tls-ca=trusted.pem", "+tls-hostname=one.example", &pin], "192.0.2.1\n"),
        (&[&pin], "192.0.2.1\n"),
        (&["+tls-ca=trusted.pem", "+tls-hostname=two.example"], wrong),
        // Without a name it is that of the address.
        (&["+tls-ca=trusted.pem"], wrong),
        (&[other], "the server's key matches no pin"),
        (&["+tls-ca=none.pem"], "CA certificates cannot be read: none.pem: there is no such file"),
        (&["--trace"], "+quic is not supported: --trace and --chase ask many servers"),
    ] {
        let (code, said) =
            query(quic.server.folder.path(), quic.at, &[&["www.example", "+short"], words].concat());
        let is_good = expected == "192.0.2.1\n";
        assert_eq!(code == Some(0), is_good, "{words:?}: {said}");
        assert!(if is_good { said == expected } else { said.contains(expected) }, "{words:?}: {said}");
    }
    let json = quic.query(&["www.example", "+json"]);
    assert!(json.contains("\"transport\": \"quic\""), "{json}");
    eventually("the refusals", &quic.server, || quic.counter("nomen_net_tls_refused_total") == 3);
    // What no server of QUIC listens on.
    let output = run(
        quic.server.folder.path(),
        &[
            "query",
            &format!("@{}@{}", quic.at.ip(), free_address().port()),
            "+quic",
            "+time=1",
            "www.example",
        ],
    );
    let said = text(&output.stderr);
    assert!(said.contains("over QUIC: no answer in time"), "{said}");
}

#[test]
fn a_reload_replaces_the_certificates_of_quic() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = write_certificate(folder.path(), "one.example");
    let quic = start_in(folder, "", "", CERTIFICATE);
    assert!(quic.is_trusted(&first, "one.example") && !quic.is_trusted(&first, "two.example"));
    let second = write_certificate(quic.server.folder.path(), "two.example");
    quic.server.reload();
    assert!(quic.is_trusted(&second, "two.example") && !quic.is_trusted(&first, "one.example"));
}

#[test]
fn connections_over_quic_count_as_those_of_tcp() {
    let quic = start("tcp-connections-per-client = 1\n", "", "");
    assert_eq!(quic.query(&["www.example", "+short"]), "192.0.2.1\n");
    let held = std::net::TcpStream::connect(quic.at).expect("connected");
    eventually("the connection", &quic.server, || quic.server.counter("nomen_tcp_connections") == 1);
    let said = quic.query(&["www.example", "+short"]);
    assert!(said.contains("the server closed the connection: "), "{said}");
    assert_eq!(quic.counter("nomen_net_tcp_refused_client_total"), 1);
    // With so low a limit the addresses of all clients are validated first.
    assert_eq!(quic.counter("nomen_net_quic_retries_total"), 2);
    drop(held);
    eventually("the end", &quic.server, || quic.server.counter("nomen_tcp_connections") == 0);
    assert_eq!(quic.query(&["www.example", "+short"]), "192.0.2.1\n");
}

#[test]
fn a_server_that_takes_over_continues_with_the_quic_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let certificate = write_certificate(folder.path(), "one.example");
    let QuicServer { server, at } = start_in(folder, "", "", CERTIFICATE);
    let log = fs::File::create(server.path("log")).expect("a log");
    let mut command = nomen(&["serve", "--config", "nomen.toml", "--take-over"]);
    command.stdin(Stdio::null()).stdout(log.try_clone().expect("the log")).stderr(log);
    let quic = QuicServer { server: server.taken_over_by(command), at };
    assert!(quic.is_trusted(&certificate, "one.example"));
    eventually("a line of the passed socket", &quic.server, || {
        quic.server.log().lines().any(|line| line.contains("quic") && line.contains("passed"))
    });
}

#[test]
fn a_port_of_udp_has_queries_or_quic() {
    let folder = tempfile::tempdir().expect("a folder");
    let text_of = "[[listen]]\naddr = [\"127.0.0.1@8853\"]\nproto = [\"udp\", \"quic\"]\n";
    fs::write(folder.path().join("nomen.toml"), text_of).expect("written");
    let output = run(folder.path(), &["check", "nomen.toml"]);
    let said = text(&output.stderr);
    assert!(
        said.contains("127.0.0.1@8853 over quic overlaps with itself over udp: a port has one of them"),
        "{said}"
    );
}
