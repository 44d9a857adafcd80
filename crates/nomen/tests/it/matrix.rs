//! Every transport with everything that clients can ask of a server: what differs between transports, and
//! what does not.

use std::fs;
use std::net::SocketAddr;

use crate::encrypted::{KEY, SECRET, kdig, long};
use crate::support::{APEX, Server, TEST_TIMEOUT, eventually, free_address, run, text, written};

/// The transports, each with the type that its clients must not ask for.
const TRANSPORTS: [(&str, &str); 5] =
    [("udp", "LOC"), ("tcp", "RP"), ("tls", "AFSDB"), ("https", "CERT"), ("quic", "DHCID")];

/// A server with all transports, and one that it asks.
struct Matrix {
    server: Server,
    upstream: Server,
    /// The address for TLS and QUIC, and the one for HTTPS.
    encrypted: [SocketAddr; 2],
}

impl Matrix {
    fn start() -> Self {
        let upstream = tempfile::tempdir().expect("a folder");
        fs::write(upstream.path().join("other.zone"), format!("{APEX}* A 192.0.2.7\nalias CNAME blocked\n"))
            .expect("written");
        let upstream = Server::start_in(upstream, "", "[[zone]]\nname = \"other\"\nfile = \"other.zone\"\n");
        let folder = tempfile::tempdir().expect("a folder");
        let zone = format!("{APEX}www A 192.0.2.1\nlong TXT {}\n", long());
        fs::write(folder.path().join("example.zone"), zone).expect("written");
        let encrypted = [free_address(), free_address()];
        let mut sections = format!(
            "[[listen]]\naddr = [{}]\nproto = [\"tls\", \"quic\"]\n[[listen]]\naddr = [{}]\nproto = [\"https\"]\n\
             [log]\nqueries = true\n[[zone]]\nname = \"example\"\nfile = \"example.zone\"\n\
             allow-transfer = [\"key:k.example\"]\nallow-update = [\"key:k.example\"]\n{KEY}\
             [resolver]\nvalidate = false\niterate = false\n[[resolver.access]]\nfrom = [\"any\"]\n\
             [[resolver.forward]]\ndomain = \"other\"\nservers = [{}]\n",
            written(encrypted[0]),
            written(encrypted[1]),
            written(upstream.address)
        );
        for (transport, refused) in TRANSPORTS {
            sections += &format!(
                "[[server.access]]\naction = \"refuse\"\nfrom = [\"any\"]\ntype = [\"{refused}\"]\n\
                 proto = [\"{transport}\"]\n"
            );
        }
        let server = Server::start_in(folder, "state-dir = \"state\"\nnsid = \"here\"\n", &sections);
        Matrix { server, upstream, encrypted }
    }

    fn address(&self, transport: &str) -> SocketAddr {
        match transport {
            "tls" | "quic" => self.encrypted[0],
            "https" => self.encrypted[1],
            _ => self.server.address,
        }
    }

    /// Runs kdig over a transport and returns its output.
    fn kdig(&self, transport: &str, words: &[&str]) -> String {
        let over = if transport == "udp" { "+ignore".to_owned() } else { format!("+{transport}") };
        kdig(self.address(transport), &[&[&*over], words].concat())
    }

    /// Asserts that no transport returns the address of a blocked name.
    fn none_has_a_blocked_answer(&self, flags: &[&str]) {
        for (transport, _) in TRANSPORTS {
            // In the cache, not in it, and the target of an alias that is.
            for name in [format!("cached-{transport}"), format!("fresh-{transport}"), "alias".into()] {
                for flag in flags {
                    let said = self.kdig(transport, &[&format!("{name}.other"), "A", "+edns", flag]);
                    assert!(!said.contains("192.0.2.7"), "{transport} {name} {flag}: {said}");
                    assert!(
                        said.contains("NXDOMAIN") && said.contains("EDE: 15"),
                        "{transport} {name}: {said}"
                    );
                }
            }
        }
    }

    /// Sends an UPDATE without changes, and returns the response code as text. There is no such client for
    /// HTTPS.
    fn update(&self, transport: &str, signed: bool) -> String {
        let (at, key) = (self.address(transport), format!("hmac-sha256:k.example:{SECRET}"));
        let (server, time) =
            (format!("@{}@{}", at.ip(), at.port()), format!("+time={}", TEST_TIMEOUT.as_secs()));
        let over = if transport == "udp" { "+notcp".to_owned() } else { format!("+{transport}") };
        let mut words = vec!["query", &server, &time, &over, "+opcode=UPDATE", "example", "SOA"];
        if signed {
            words.extend(["-y", &key]);
        }
        let output = run(self.server.folder.path(), &words);
        text(&output.stdout) + &text(&output.stderr)
    }
}

#[test]
fn each_transport_has_all_that_it_can_have() {
    let matrix = Matrix::start();
    let key = format!("hmac-sha256:k.example:{SECRET}");
    for (transport, refused_type) in TRANSPORTS {
        let of = |words: &[&str]| matrix.kdig(transport, words);
        let encrypted = ["tls", "https", "quic"].contains(&transport);
        assert_eq!(of(&["www.example", "A", "+short"]), "192.0.2.1\n", "{transport}");
        let large = of(&["long.example", "TXT"]);
        let cut = large.lines().any(|line| line.starts_with(";; Flags:") && line.contains(" tc"));
        assert_eq!((cut, large.matches("xxxx\"").count() == 20), (transport == "udp", transport != "udp"));
        let denied = of(&["no.example", "A", "+nsid"]);
        assert!(denied.contains("NXDOMAIN") && denied.contains("SOA"), "{transport}: {denied}");
        assert!(denied.contains("here"), "{transport}: {denied}");
        let cookie = of(&["www.example", "A", "+cookie"]);
        assert!(cookie.contains("COOKIE"), "{transport}: {cookie}");
        let padded = of(&["www.example", "A", "+padding=128"]);
        assert_eq!(padded.contains("Received 468 B"), encrypted, "{transport}: {padded}");
        // A miss, and then an answer from the cache.
        let name = format!("{}.other", refused_type.to_lowercase());
        let asked = || matrix.upstream.counter("nomen_queries_total{transport=\"udp\",type=\"A\"}");
        let before = asked();
        assert_eq!([of(&[&name, "A", "+short"]), of(&[&name, "A", "+short"])], ["192.0.2.7\n"; 2]);
        assert_eq!(asked() - before, 1, "{transport}");
        eventually("a line of the query", &matrix.server, || {
            matrix.server.log().lines().any(|line| line.contains(&name) && line.contains(transport))
        });
        // Each transport has a type of its own that is refused.
        for (other, refused) in TRANSPORTS {
            let said = of(&["www.example", refused, "+edns"]);
            assert_eq!(said.contains("REFUSED"), other == transport, "{transport} {refused}: {said}");
            assert_eq!(said.contains("EDE: 18"), other == transport, "{transport} {refused}: {said}");
        }
        let signed = of(&["www.example", "A", "-y", &key]);
        assert!(signed.contains("TSIG") && !signed.contains("WARNING"), "{transport}: {signed}");
        if transport != "https" {
            let [open, signed] = [false, true].map(|signed| matrix.update(transport, signed));
            assert!(open.contains("REFUSED"), "{transport}: {open}");
            assert!(signed.contains("NOERROR"), "{transport}: {signed}");
        }
        if ["tcp", "tls", "quic"].contains(&transport) {
            let zone = of(&["example", "AXFR", "-y", &key]);
            assert!(zone.contains("192.0.2.1") && zone.matches("SOA").count() >= 2, "{transport}: {zone}");
            let refused = of(&["example", "AXFR"]);
            assert!(!refused.contains("192.0.2.1"), "{transport}: {refused}");
        }
        let counted = format!("nomen_queries_total{{transport=\"{transport}\",type=\"A\"}}");
        assert_eq!(matrix.server.counter(&counted), 7, "{transport}");
    }
    matrix.server.reload();
    for (transport, _) in TRANSPORTS {
        let said = matrix.kdig(transport, &["www.example", "A", "+short"]);
        assert_eq!(said, "192.0.2.1\n", "{transport} after a reload");
    }
}

#[test]
fn no_transport_is_a_way_round_a_rule() {
    let matrix = Matrix::start();
    let list = "[[policy.list]]\nname = \"blocked\"\nfile = \"blocked\"\n";
    matrix.server.write("blocked", "elsewhere.test\n");
    matrix.server.reconfigure("[resolver]\n", &format!("{list}[resolver]\n"));
    matrix.server.reload();
    for (transport, _) in TRANSPORTS {
        for name in [format!("cached-{transport}.other"), "alias.other".into()] {
            let said = matrix.kdig(transport, &[&name, "A"]);
            assert!(said.contains("192.0.2.7"), "{transport} {name}: {said}");
        }
    }
    let names =
        TRANSPORTS.map(|(transport, _)| format!("cached-{transport}.other\nfresh-{transport}.other\n"));
    matrix.server.write("blocked", &format!("blocked.other\n{}", names.concat()));
    matrix.server.reload();
    let flags = ["+nocdflag", "+cdflag", "+dnssec"];
    matrix.none_has_a_blocked_answer(&flags);
    // With groups, the client is known before its name is looked up.
    let group = "[[policy.group]]\nname = \"all\"\nfrom = [\"any\"]\n[resolver]\n";
    matrix.server.reconfigure("[resolver]\n", group);
    matrix.server.reload();
    matrix.none_has_a_blocked_answer(&flags[..1]);
}
