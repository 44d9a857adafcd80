//! Every transport with everything that clients can ask of a server: what differs between transports, and
//! what does not.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;

use hyper::StatusCode;

use crate::encrypted::{CERTIFICATE, KEY, SECRET, kdig, long, write_certificate};
use crate::http3::Client;
use crate::support::{APEX, Server, TEST_TIMEOUT, eventually, free_address, run, text, written};

/// The transports, each with the type that its clients must not ask for.
const TRANSPORTS: [(&str, &str); 7] = [
    ("udp", "LOC"),
    ("tcp", "RP"),
    ("tls", "AFSDB"),
    ("https", "CERT"),
    ("quic", "DHCID"),
    ("http", "KX"),
    ("h3", "APL"),
];

/// Returns the address of DNS over TCP that passes messages on: kdig has neither HTTP without TLS nor HTTP/3.
/// `exchange` returns the reply to a message; `None` if there is none.
fn bridge(exchange: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let at = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            while let Some(message) = framed(&mut client) {
                let Some(reply) = exchange(&message) else { break };
                let length = u16::try_from(reply.len()).expect("a message").to_be_bytes();
                if client.write_all(&[&length, &*reply].concat()).is_err() {
                    break;
                }
            }
        }
    });
    at
}

/// Reads a message behind its length; `None` if the client sends no further one.
fn framed(client: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 2];
    client.read_exact(&mut length).ok()?;
    let mut message = vec![0; u16::from_be_bytes(length).into()];
    client.read_exact(&mut message).ok()?;
    Some(message)
}

/// Returns the response to a message that is POSTed to this URL; `None` if its status is another than 200.
fn posted(url: &str, message: &[u8]) -> Option<Vec<u8>> {
    let mut command = Command::new("curl");
    command.args(["--silent", "--insecure", "--fail", "--noproxy", "*", "--data-binary", "@-"]);
    command.args(["--max-time", &TEST_TIMEOUT.as_secs().to_string()]);
    command.args(["--header", "content-type: application/dns-message", url]);
    let mut curl = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("curl runs");
    curl.stdin.take().expect("piped").write_all(message).expect("passed");
    let output = curl.wait_with_output().expect("curl ends");
    output.status.success().then_some(output.stdout)
}

/// Returns the response to a message over HTTP/3; `None` if its status is another than 200.
fn over_http3(at: SocketAddr, certificate: &str, message: &[u8]) -> Option<Vec<u8>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (status, _, reply) = Client::connect(at, certificate).await.ask(message.to_vec()).await;
        (status == StatusCode::OK).then_some(reply)
    })
}

/// A server with all transports, and one that it asks.
struct Matrix {
    server: Server,
    upstream: Server,
    /// The address for TLS and QUIC, and the one for HTTPS.
    encrypted: [SocketAddr; 2],
    /// Bridges to HTTPS, HTTP and HTTP/3.
    bridges: [SocketAddr; 3],
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
        let certificate = write_certificate(folder.path(), "dns.test");
        let (encrypted, clear) = ([free_address(), free_address()], free_address());
        let mut sections = format!(
            "[[listen]]\naddr = [{}]\nproto = [\"tls\", \"quic\"]\n[[listen]]\naddr = [{}]\n\
             proto = [\"https\", \"h3\"]\n[[listen]]\naddr = [{}]\nproto = [\"http\"]\n{CERTIFICATE}[log]\nqueries = true\n[[zone]]\nname = \"example\"\nfile = \"example.zone\"\n\
             allow-transfer = [\"key:k.example\"]\nallow-update = [\"key:k.example\"]\n{KEY}\
             [resolver]\nvalidate = false\niterate = false\n[[resolver.access]]\nfrom = [\"any\"]\n\
             [[resolver.forward]]\ndomain = \"other\"\nservers = [{}]\n",
            written(encrypted[0]),
            written(encrypted[1]),
            written(clear),
            written(upstream.address)
        );
        for (transport, refused) in TRANSPORTS {
            sections += &format!(
                "[[server.access]]\naction = \"refuse\"\nfrom = [\"any\"]\ntype = [\"{refused}\"]\n\
                 proto = [\"{transport}\"]\n"
            );
        }
        let server = Server::start_in(folder, "state-dir = \"state\"\nnsid = \"here\"\n", &sections);
        let by_url = |url: String| bridge(move |message| posted(&url, message));
        let bridges = [
            by_url(format!("https://{}/dns-query", encrypted[1])),
            by_url(format!("http://{clear}/dns-query")),
            bridge(move |message| over_http3(encrypted[1], &certificate, message)),
        ];
        Matrix { server, upstream, encrypted, bridges }
    }

    /// Returns the bridge to a transport, if there is one.
    fn bridge(&self, transport: &str) -> Option<SocketAddr> {
        let at = ["https", "http", "h3"].into_iter().position(|one| one == transport)?;
        Some(self.bridges[at])
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
        let (at, over) = match (transport, self.bridge(transport)) {
            ("http" | "h3", Some(bridge)) => (bridge, "+tcp".to_owned()),
            ("udp", _) => (self.address(transport), "+ignore".to_owned()),
            _ => (self.address(transport), format!("+{transport}")),
        };
        kdig(at, &[&[&*over], words].concat())
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

    /// Sends an UPDATE without changes, and returns the response code as text.
    fn update(&self, transport: &str, signed: bool) -> String {
        let bridge = self.bridge(transport);
        let (at, key) =
            (bridge.unwrap_or_else(|| self.address(transport)), format!("hmac-sha256:k.example:{SECRET}"));
        let transport = if bridge.is_some() { "tcp" } else { transport };
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
        let pads = !["udp", "tcp"].contains(&transport);
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
        assert_eq!(padded.contains("Received 468 B"), pads, "{transport}: {padded}");
        // A miss, and then an answer from the cache.
        let name = format!("{}.other", refused_type.to_lowercase());
        let asked = || matrix.upstream.counter("nomen_queries_total{transport=\"udp\",type=\"A\"}");
        let before = asked();
        assert_eq!([of(&[&name, "A", "+short"]), of(&[&name, "A", "+short"])], ["192.0.2.7\n"; 2]);
        assert_eq!(asked() - before, 1, "{transport}");
        let logged = format!("transport=\"{transport}\"");
        eventually("a line of the query", &matrix.server, || {
            matrix.server.log().lines().any(|line| line.contains(&name) && line.contains(&logged))
        });
        // Each transport has a type of its own that is refused.
        for (other, refused) in TRANSPORTS {
            let said = of(&["www.example", refused, "+edns"]);
            assert_eq!(said.contains("REFUSED"), other == transport, "{transport} {refused}: {said}");
            assert_eq!(said.contains("EDE: 18"), other == transport, "{transport} {refused}: {said}");
        }
        let signed = of(&["www.example", "A", "-y", &key]);
        assert!(signed.contains("TSIG") && !signed.contains("WARNING"), "{transport}: {signed}");
        let [open, signed] = [false, true].map(|signed| matrix.update(transport, signed));
        assert!(open.contains("REFUSED"), "{transport}: {open}");
        assert!(signed.contains("NOERROR"), "{transport}: {signed}");
        // kdig asks for a transfer over TCP where it would use UDP. The zone fits in one message, as it has
        // to over HTTP.
        if transport != "udp" {
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
