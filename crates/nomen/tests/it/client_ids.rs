//! Clients that write an identifier for themselves, in front of the server name of TLS or behind the path of
//! HTTP, as those of AdGuard Home do: groups of them.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use crate::encrypted::{CERTIFICATE, kdig, write_certificate};
use crate::metrics::http;
use crate::support::{APEX, Server, TEST_TIMEOUT, eventually, free_address, run, text, written};

/// The listeners: TLS and QUIC at one port number, HTTPS and HTTP at others.
struct Encrypted {
    server: Server,
    _upstream: Server,
    at: SocketAddr,
    web: SocketAddr,
    clear: SocketAddr,
    metrics: SocketAddr,
}

const PLACES: &str = "client-ids = [\"*.DNS.test\", \"/dns-query/*\"]\n";

fn start(keys: &str) -> Encrypted {
    let upstream = Server::start(&format!("{APEX}ads A 192.0.2.1\n"), "");
    let [at, web, clear, metrics] = [(); 4].map(|()| free_address());
    let folder = tempfile::tempdir().expect("a folder");
    let certificate = write_certificate(folder.path(), "*.dns.test");
    for (name, contents) in [("trusted.pem", certificate.as_str()), ("list", "ads.example\n")] {
        fs::write(folder.path().join(name), contents).expect("written");
    }
    let listen = |address: SocketAddr, proto: &str| {
        format!("[[listen]]\naddr = [{}]\nproto = [{proto}]\n", written(address))
    };
    let config = format!(
        "[resolver]\nvalidate = false\nclient-timeout = \"60s\"\n[[resolver.access]]\nfrom = [\"loopback\"]\n\
         [[resolver.forward]]\nservers = [{}]\n{CERTIFICATE}{}{}{}[[policy.list]]\nname = \"list\"\nfile = \"list\"\n\
         [policy]\nlists = []\nclient-ids-from = [\"127.0.0.5\"]\n\
         [[policy.group]]\nname = \"phones\"\nfrom = [\"client-id:My-Phone\"]\n\
         [log]\nformat = \"json\"\nqueries = true\nqueries-file = \"queries.log\"\n[metrics]\nlisten = {}\n",
        written(upstream.address),
        listen(at, "\"tls\", \"quic\""),
        listen(web, "\"https\""),
        listen(clear, "\"http\""),
        written(metrics)
    );
    let server = Server::start_in(folder, keys, &config);
    Encrypted { server, _upstream: upstream, at, web, clear, metrics }
}

impl Encrypted {
    /// Whether the list blocks the name for a client with these words of `nomen query`.
    fn blocks(&self, words: &[&str]) -> bool {
        let (server, time) =
            (format!("@{}@{}", self.at.ip(), self.at.port()), format!("+time={}", TEST_TIMEOUT.as_secs()));
        let words = [&["query", &server, &time, "+tls-ca=trusted.pem", "ads.example"], words].concat();
        let output = run(self.server.folder.path(), &words);
        is_blocked(&text(&output.stdout))
    }

    /// The same of kdig, at another listener.
    fn blocks_at(&self, at: SocketAddr, words: &[&str]) -> bool {
        is_blocked(&kdig(at, &[words, &["ads.example"]].concat()))
    }
}

fn is_blocked(said: &str) -> bool {
    assert!(said.contains("192.0.2.1") || said.contains("NXDOMAIN"), "{said}");
    said.contains("NXDOMAIN")
}

#[test]
fn a_client_is_in_a_group_by_the_server_name_that_it_sends() {
    let all = start(PLACES);
    // The answer is cached from the second round on.
    for _ in 0..2 {
        for over in ["+tls", "+quic"] {
            let blocks = |name: &str| all.blocks(&[over, &format!("+tls-hostname={name}")]);
            assert!(blocks("my-phone.dns.test"), "{over}");
            assert!(!blocks("other.dns.test"), "{over}");
        }
        // The name of TLS has any letter case, and a client need not verify the certificate.
        let sent = |name: &str| all.blocks_at(all.at, &["+tls", &format!("+tls-sni={name}")]);
        assert!(sent("MY-phone.dns.Test"));
        for other in ["my-phone.other.test", "x.my-phone.dns.test", "dns.test"] {
            assert!(!sent(other), "{other}");
        }
        assert!(!all.blocks_at(all.at, &["+tls"]), "no name is sent");
        assert!(all.blocks_at(all.web, &["+https", "+tls-sni=my-phone.dns.test"]));
    }
    assert!(all.server.query(&["ads.example", "+short"]).contains("192.0.2.1"), "over UDP there is none");
    let figures = http(all.metrics, "GET /metrics");
    let line = "nomen_policy_group_queries_total{group=\"phones\",action=\"nxdomain\"} 8\n";
    assert!(figures.contains(line), "{figures}");
    eventually("the log has the group", &all.server, || {
        let log = fs::read_to_string(all.server.path("queries.log")).unwrap_or_default();
        log.lines().any(|line| line.contains("\"policy_group\":\"phones\"") && line.contains("quic"))
    });
}

#[test]
fn a_client_is_in_a_group_by_the_path_of_its_requests() {
    let all = start(PLACES);
    for method in ["+https", "+https-get"] {
        let blocks = |path: &str| all.blocks_at(all.web, &[&format!("{method}={path}")]);
        assert!(blocks("/dns-query/My-Phone") && !blocks("/dns-query/tv") && !blocks("/dns-query"));
    }
    assert!(
        !all.blocks_at(all.web, &["+https=/dns-query/tv", "+tls-sni=my-phone.dns.test"]),
        "the path comes before the name"
    );
    let status = |at: String, path: &str| {
        // no.example. A
        let url = format!("{at}{path}?dns=AAABAAABAAAAAAAAAm5vB2V4YW1wbGUAAAEAAQ");
        let mut command = Command::new("curl");
        command.args(["--silent", "--insecure", "--noproxy", "*", "--output", "/dev/null"]);
        command.args([
            "--write-out",
            "%{http_code}",
            "--max-time",
            &TEST_TIMEOUT.as_secs().to_string(),
            &url,
        ]);
        text(&command.output().expect("curl runs").stdout)
    };
    for at in [format!("https://{}", all.web), format!("http://{}", all.clear)] {
        assert_eq!(status(at.clone(), "/dns-query/my-phone"), "200", "{at}");
        for none in ["/dns-query/", "/dns-query/a/b", "/dns-query/a%20b", "/other/my-phone"] {
            assert_eq!(status(at.clone(), none), "404", "{at}{none}");
        }
    }
}

#[test]
fn nothing_is_taken_for_an_identifier_unless_the_configuration_says_where_it_is() {
    let all = start("");
    assert!(!all.blocks(&["+tls", "+tls-hostname=my-phone.dns.test"]));
    let said = kdig(all.web, &["+https=/dns-query/my-phone", "ads.example"]);
    assert!(said.contains("404"), "{said}");
}

#[test]
fn commands_take_the_identifier_of_a_client_over_an_encrypted_transport() {
    let all = start(PLACES);
    let test = |words: &[&str]| {
        let words = [&["policy", "test", "ads.example", "--client-id", "MY-phone"], words].concat();
        let output = all.server.ctl(&words);
        text(&output.stdout) + &text(&output.stderr)
    };
    for proto in ["tls", "https", "quic", "h3", "http"] {
        let said = test(&["--proto", proto]);
        assert!(said.contains("blocks it") && said.contains("(group `phones`)"), "{proto}: {said}");
    }
    assert!(test(&["--proto", "udp"]).contains("is not in `client-ids-from` of [policy]"));
    let words = ["explain", "ads.example", "--client-id", "my-phone", "--proto", "quic"];
    let said = text(&all.server.ctl(&words).stdout);
    assert!(said.contains("is in group `phones`") && said.contains("status: NXDOMAIN"), "{said}");
    let said = text(&all.server.ctl(&["explain", "ads.example", "--proto", "quic"]).stdout);
    assert!(said.contains("192.0.2.1"), "{said}");
}
