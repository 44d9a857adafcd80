//! Rules whose servers are asked by Oblivious DoH (RFC 9230): a proxy in the test passes messages on to
//! another nomen. `tls` has tests of proxies and targets that fail in other ways.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use tls::{ObliviousConfig, ObliviousKeys, ObliviousSeed};

use crate::metrics::http;
use crate::oblivious_proxy::ObliviousProxy;
use crate::streamed_upstreams::{LONG_TIMEOUTS, SERVER_PIN, SHORT_TIMEOUTS, folder, forwarder, shown};
use crate::support::{APEX, Server, free_address, text, written};

/// A target, and the proxy before it.
struct Oblivious {
    target: Server,
    /// The address of the target's listener of HTTPS.
    at: SocketAddr,
    proxy: ObliviousProxy,
}

/// A seed of a target's key.
fn seed(byte: u8) -> [u8; 32] {
    let mut seed = [byte; 32];
    seed[0] = 1;
    seed
}

/// The configurations of the target with this seed, in base64.
fn configs(byte: u8) -> String {
    let seed = ObliviousSeed::new(seed(byte)).expect("a seed");
    let keys = ObliviousKeys::new([&seed], Duration::from_secs(600));
    ObliviousConfig::first(keys.configs()).expect("a key").to_string()
}

impl Oblivious {
    /// Starts a target whose key has the seed of the byte 7.
    fn start() -> Self {
        let (folder, at) = (folder(), free_address());
        fs::write(folder.path().join("example.zone"), format!("{APEX}* A 192.0.2.80\n")).expect("written");
        fs::write(folder.path().join("odoh.key"), seed(7)).expect("written");
        let more = format!(
            "[[listen]]\naddr = [{}]\nproto = [\"https\"]\n\
             [[certificate]]\nchain = \"server.pem\"\nkey = \"server.key\"\n\
             [odoh]\nkey-files = [\"odoh.key\"]\n",
            written(at)
        );
        let proxy = ObliviousProxy::start(at, folder.path());
        Oblivious { target: Server::start_in(folder, "", &more), at, proxy }
    }

    /// The target, whose key is fetched from it.
    fn target(&self) -> String {
        format!("odoh://dns.example:{}/dns-query@{}?", self.at.port(), self.at.ip())
    }

    /// The proxy.
    fn proxy(&self) -> String {
        let address = self.proxy.address;
        format!("proxy=https://dns.example:{}/proxy@{}", address.port(), address.ip())
    }

    /// The target behind the proxy.
    fn spec(&self) -> String {
        self.target() + &self.proxy()
    }
}

/// Returns the extended error of a query by this rule, which must fail. Nothing goes in the clear.
fn refusal(spec: &str, keys: &str) -> String {
    let (server, _) = forwarder(spec, keys);
    let answer = server.query(&["www.example"]);
    assert!(answer.contains("status: SERVFAIL"), "{spec}: {answer}");
    let error = answer.lines().find(|line| line.contains("EDE: 23 (Network Error)"));
    let list = shown(&server);
    let fault = list["tls_fault"].as_str().unwrap_or_default().to_owned();
    assert!(error.is_some_and(|error| error.contains(&fault)), "{spec}: {answer} {fault}");
    assert_eq!([&list["udp"], &list["tcp"], &list["https"]], [0, 0, 0], "{list}");
    fault
}

#[test]
fn queries_are_answered_and_the_proxy_sees_neither_them_nor_the_answers() {
    let oblivious = Oblivious::start();
    let (server, metrics) = forwarder(&oblivious.spec(), LONG_TIMEOUTS);
    assert_eq!(server.query(&["secret-name.example", "+short"]), "192.0.2.80\n");
    assert_eq!(server.query(&["secret-other.example", "+short"]), "192.0.2.80\n");
    let seen = oblivious.proxy.seen();
    assert!(seen.len() >= 2, "{}", seen.len());
    let (target, port) = (oblivious.at, oblivious.at.port());
    for [path, query, response] in &seen {
        let wanted = format!("/proxy?targethost=dns.example%3A{port}&targetpath=%2Fdns-query");
        assert_eq!(text(path), wanted);
        assert_eq!((query[0], response[0]), (1, 2), "messages of Oblivious DoH");
        for bytes in [path, query, response] {
            assert!(!bytes.windows(6).any(|part| part.eq_ignore_ascii_case(b"secret")), "the name is seen");
            assert!(!bytes.windows(4).any(|part| part == [192, 0, 2, 80]), "the answer is seen");
        }
    }
    let counter = |name: &str| {
        oblivious
            .target
            .counter(&format!("nomen_net_{name}_total{{listen=\"{target}\",transport=\"https\"}}"))
    };
    assert_eq!(counter("odoh_queries"), seen.len() as u64);
    assert_eq!(counter("https_bad_requests"), 0);
    let list = shown(&server);
    assert!(list["odoh"].as_u64() >= Some(2) && list["https"] == 0 && list["udp"] == 0, "{list}");
    let name = list["server"].as_str().expect("a name");
    assert!(name.contains(" over ODoH (odoh://dns.example:") && name.contains("?proxy=https://"), "{name}");
    let page = http(metrics, "GET /metrics");
    let count = format!("nomen_upstream_odoh_queries_total{{server=\"{name}\"}} {}\n", list["odoh"]);
    assert!(page.contains(&count), "{count}");
    let said = text(&server.ctl(&["explain", "c.example"]).stdout);
    assert!(said.contains(" by odoh, query 1"), "{said}");
}

#[test]
fn a_key_that_the_target_has_replaced_is_fetched_again() {
    let oblivious = Oblivious::start();
    let (server, _) = forwarder(&oblivious.spec(), LONG_TIMEOUTS);
    assert_eq!(server.query(&["a.example", "+short"]), "192.0.2.80\n");
    let listener = format!("{{listen=\"{}\",transport=\"https\"}}", oblivious.at);
    let refused = || oblivious.target.counter(&format!("nomen_net_odoh_unknown_key_total{listener}"));
    assert_eq!(refused(), 0);
    fs::write(oblivious.target.path("odoh.key"), seed(8)).expect("written");
    oblivious.target.reload();
    assert_eq!(server.query(&["b.example", "+short"]), "192.0.2.80\n");
    assert!(refused() > 0, "the status was 401");
    let list = shown(&server);
    assert!(list["state"] == "ok" && list["tls_fault"].is_null(), "{list}");
}

#[test]
fn a_key_of_the_configuration_is_used_without_a_connection_to_the_target() {
    let oblivious = Oblivious::start();
    let with = |byte: u8| {
        let port = oblivious.at.port();
        format!("odoh://dns.example:{port}/dns-query?configs={}&{}", configs(byte), oblivious.proxy())
    };
    let (server, _) = forwarder(&with(7), LONG_TIMEOUTS);
    assert_eq!(server.query(&["a.example", "+short"]), "192.0.2.80\n");
    assert_eq!(refusal(&with(8), LONG_TIMEOUTS), "ODoH: the target does not accept its key (status 401)");
}

#[test]
fn without_the_proxy_the_target_or_the_right_one_nothing_is_answered_and_nothing_goes_in_the_clear() {
    let oblivious = Oblivious::start();
    let closed = free_address();
    let in_clear = UdpSocket::bind(closed).expect("the port of the proxy");
    let down = format!("{}proxy=https://dns.example:{}/p@{}", oblivious.target(), closed.port(), closed.ip());
    assert_eq!(refusal(&down, SHORT_TIMEOUTS), "TLS: connection refused");
    let absent = format!("odoh://dns.example:{}/q@{}?{}", closed.port(), closed.ip(), oblivious.proxy());
    let unreachable = "ODoH: no secure connection to the target for its key";
    assert_eq!(refusal(&absent, SHORT_TIMEOUTS), unreachable);
    in_clear.set_nonblocking(true).expect("set");
    assert!(in_clear.recv(&mut [0; 512]).is_err(), "a query in the clear");
    let other = oblivious.spec().replace("odoh://dns.example", "odoh://dns2.example");
    assert_eq!(refusal(&other, SHORT_TIMEOUTS), unreachable, "a target with another name");
    let other = oblivious.spec().replace("https://dns.example", "https://dns2.example");
    assert_eq!(refusal(&other, LONG_TIMEOUTS), "TLS: the server's certificate does not match its name");
    assert!(oblivious.proxy.seen().is_empty(), "no query without the right key");
}

#[test]
fn a_response_that_was_changed_is_refused_and_the_next_one_is_used() {
    let oblivious = Oblivious::start();
    oblivious.proxy.tamper(true);
    let (server, _) = forwarder(&oblivious.spec(), LONG_TIMEOUTS);
    let answer = server.query(&["www.example"]);
    assert!(answer.contains("ODoH: the response cannot be decrypted"), "{answer}");
    let list = shown(&server);
    assert_eq!(list["tls_fault"], "ODoH: the response cannot be decrypted", "{list}");
    oblivious.proxy.tamper(false);
    server.ctl(&["cache", "flush", "--tree", "example"]);
    crate::support::eventually("it is asked again", &server, || {
        server.query(&["www.example", "+short"]) == "192.0.2.80\n"
    });
}

#[test]
fn a_rule_of_a_running_server_can_name_a_target() {
    let oblivious = Oblivious::start();
    let (server, _) = forwarder("192.0.2.1#opportunistic", LONG_TIMEOUTS);
    let port = oblivious.at.port();
    let configured =
        format!("odoh://dns.example:{port}/dns-query?configs={}&{}", configs(7), oblivious.proxy());
    let spec = format!("{configured}#{SERVER_PIN}");
    let added = server.ctl(&["forward", "add", "example", &spec]);
    assert!(added.status.success(), "{}", text(&added.stderr));
    assert_eq!(server.query(&["www.example", "+short"]), "192.0.2.80\n");
    let refused = server.ctl(&["forward", "add", "example", "odoh://dns.example/dns-query@192.0.2.1"]);
    let said = text(&refused.stderr);
    assert!(said.contains("the target of Oblivious DoH has no proxy"), "{said}");
}
