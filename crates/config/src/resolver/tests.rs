//! From text to the settings of the parts: the effect of every key, the defaults, and the faults with their
//! places.

use std::net::IpAddr;
use std::path::Path;

use query_path::access::LocalAddress;
use recursion::{
    Access, AccessAction, AccessRule, Dns64Config, Domain, LocalConfig, LocalRecord, PrivateConfig,
    SpecialOff, ValidationConfig,
};
use resolver::{
    BudgetLimits, ForwardLimits, ForwardRule, ForwardTiming, IterateConfig, IterateRule, Minimisation,
    Opportunistic, Partition, Reach, StartServer, Upstream,
};
use transport::{Encryption, EncryptionFault, Transport};
use validator::{TrustAnchors, ValidationLimits, ValidationSettings};
use wire::Prefix;

use super::*;
use crate::Settings;
use crate::interfaces::AttachedAddress;
use crate::peers::ZonemdPolicy;
use crate::{RejectedConfig, read_text};

fn read(text: &str) -> Result<Settings, RejectedConfig> {
    read_text("t.toml", text.to_owned(), Path::new("/etc/nomen")).map(|accepted| accepted.config.settings)
}

fn settings(text: &str) -> Settings {
    read(text).unwrap_or_else(|rejected| panic!("{rejected}"))
}

fn prefix(text: &str) -> Prefix {
    text.parse().expect("a network")
}

fn name(text: &str) -> NameBuf {
    text.parse().expect("a name")
}

fn lower(text: &str) -> LowerNameBuf {
    name(text).as_name().to_lower()
}

fn interfaces() -> Interfaces {
    let address = |interface: &str, address: &str, prefix_len| AttachedAddress {
        interface: interface.into(),
        address: address.parse().expect("an address"),
        prefix_len,
    };
    Interfaces(vec![
        address("lo", "127.0.0.1", 8),
        address("eth0", "192.168.7.1", 24),
        address("eth0", "2001:db8::1", 64),
    ])
}

/// The shortest configuration with recursive service.
const LEAST: &str = "[[resolver.forward]]\nservers = [\"192.0.2.53\"]\n";

const FULL: &str = r#"
[resolver]
cache-size = "64MiB"
cache-preallocate = true
cache-file = "cache"
cache-save-interval = "1m"
min-ttl = "1s"
max-ttl = "2s"
max-negative-ttl = "3s"
failure-ttl = "4s"
serve-stale = "5s"
stale-answer-ttl = "6s"
stale-after = "7ms"
prefetch = false
nxdomain-cut = false
max-rule-chain = 9
special-names-off = ["Home.arpa"]
local-data = ["printer.lan. 300 A 192.0.2.5"]
private-addresses = ["usual", "203.0.113.0/24"]
private-domains = ["corp.example"]
dns64-prefix = "64:ff9b::/96"
dns64-clients = ["2001:db8::/32"]
dns64-exclude = ["2001:db8:1::/48"]
dns64-exclude-v4 = ["192.0.2.0/24"]
dns64-non-global = true
mixed-case = false
cookies = false
udp-size = 1400
source = ["192.0.2.53", "2001:db8::53"]
explore = 10
client-timeout = "11s"
first-timeout = "300ms"
min-timeout = "12ms"
max-timeout = "13s"
probe-interval = "14s"
connection-idle-timeout = "15s"
tls-handshake-timeout = "2500ms"
remember-faults = "16s"
clients-per-network = 17
pulse = 25
gather-time = "150ms"
clients-per-lookup = 18
queue = 26
lookups-per-rule = 19
lookups = 20
tries = 21
connections-per-server = 22
queries-per-connection = 23
records-per-set = 24
iterate = true
refused-domains = ["hidden.example"]
root-servers = ["192.0.2.55", "2001:db8::55@5353"]
qname-minimisation = "strict"
iterate-ipv4 = false
iterate-ipv6 = true
iterate-loopback = true
servers-per-zone = 27
addresses-per-server = 28
lookups-per-zone = 29
lookups-per-dead-zone = 30
delegations-size = "31MiB"
known-servers = 320
encrypt-to-authoritative = ["doq", "dot"]
encryption-probes = 41
encryption-timeout = "42s"
encryption-persistence = "43s"
encryption-damping = "44s"
budget-queries = 33
budget-queries-per-zone = 34
budget-bytes = 35000
budget-time = "36s"
budget-aliases = 37
budget-fruitless = 38
budget-minimised = 39
budget-depth = 40
validate = true
trust-anchors = [". DS 20326 8 2 E06D44B80B8F1D39A95C0B0D7C65D08458E880409BBC683457104237C7F8EC8D"]
negative-trust-anchors = ["Broken.example"]
root-key-sentinel = false
signature-skew = "41s"
bogus-ttl = "42s"
sha1-signatures = true
max-nsec3-iterations = 43
validate-signatures = 44
validate-failures = 45
validate-hashes = 46
validate-fetches = 47
validations = 48
known-keys = 490

[[resolver.forward]]
servers = ["192.0.2.53", "2001:db8::53@5353"]
trust-ad = true

[[resolver.forward]]
domain = "Example.net"
servers = ["[2001:db8::54]", "::ffff:192.0.2.54@54"]
tcp-only = true

[[resolver.stub]]
domain = "corp.example"
servers = ["10.0.0.53"]

[[resolver.access]]
action = "refuse"
from = ["10.0.0.0/8", "loopback"]

[[resolver.access]]
from = ["attached", "any"]
interface = ["eth0"]
proto = ["tcp"]
"#;

#[test]
fn every_key_reaches_the_cache() {
    let settings = settings(FULL);
    let recursive = settings.recursive().expect("on");
    let wanted = cache::CacheConfig {
        bytes: 64 << 20,
        positive: cache::Lifetime { min: 1, max: 2 },
        negative: cache::Lifetime { min: 0, max: 3 },
        failure: cache::Lifetime { min: 4, max: 300 },
        max_stale: 5,
        stale_ttl: 6,
        ..cache::CacheConfig::default()
    };
    assert_eq!(recursive.cache_config(), wanted);
    assert_eq!(recursive.cache_file().as_deref(), Some(Path::new("/etc/nomen/cache")));
    assert!(recursive.cache_preallocate());
    assert_eq!(recursive.cache_save_interval(), Duration::from_secs(60));
}

#[test]
fn every_key_reaches_the_forwarder() {
    assert_eq!(settings(FULL).recursive().expect("on").queue(), 26);
    let server = |address: &str, reach| Upstream { address: address.parse().expect("an address"), reach };
    let both = Reach::UdpThenTcp;
    let wanted = ForwardConfig {
        rules: vec![
            ForwardRule::new(
                name("."),
                vec![server("192.0.2.53:53", both.clone()), server("[2001:db8::53]:5353", both.clone())],
            ),
            ForwardRule::new(
                name("example.net."),
                vec![server("[2001:db8::54]:53", Reach::Tcp), server("192.0.2.54:54", Reach::Tcp)],
            ),
            ForwardRule {
                domain: name("corp.example."),
                partition: Partition::SHARED,
                upstreams: vec![server("10.0.0.53:53", both)],
                recursion_desired: false,
                instead: None,
            },
        ],
        iterate: IterateConfig {
            rules: Vec::new(),
            own_zones: None,
            budget: BudgetLimits {
                queries: 33,
                queries_per_zone: 34,
                bytes: 35_000,
                time: Duration::from_secs(36),
                aliases: 37,
                fruitless: 38,
                minimised: 39,
            },
            minimisation: Minimisation::Strict,
            servers: 27,
            addresses: 28,
            depth: 40,
            lookups_per_zone: 29,
            lookups_per_dead_zone: 30,
            ipv4: false,
            ipv6: true,
            loopback: true,
            delegation_bytes: 31 << 20,
            known_servers: 320,
            opportunistic: Opportunistic {
                encryptions: wanted_encryptions(),
                persistence: Duration::from_secs(43),
                damping: Duration::from_secs(44),
                timeout: Duration::from_secs(42),
                probes: 41,
            },
        },
        refused: vec![name("hidden.example.")],
        limits: ForwardLimits {
            clients_per_prefix: 17,
            pulse: 25,
            clients_per_lookup: 18,
            lookups_per_rule: 19,
            lookups: 20,
            tries: 21,
            connections: 22,
            pipeline: 23,
            records_per_set: 24,
        },
        timing: ForwardTiming {
            client: Duration::from_secs(11),
            gather: Duration::from_millis(150),
            first_rto: Duration::from_millis(300),
            min_rto: Duration::from_millis(12),
            max_rto: Duration::from_secs(13),
            probe: Duration::from_secs(14),
            tcp_idle: Duration::from_secs(15),
            handshake: Duration::from_millis(2500),
            remember: Duration::from_secs(16),
        },
        explore: 10,
        mixed_case: false,
        cookies: false,
        udp_size: 1400,
        sources: ["192.0.2.53", "2001:db8::53"].map(|source| source.parse().expect("an address")).into(),
        max_ttl: 2,
        max_negative_ttl: 3,
    };
    assert_eq!(settings(FULL).recursive().expect("on").forward_config(), wanted);
}

/// Encryptions of servers that are not authenticated, over QUIC and over TLS.
fn wanted_encryptions() -> Vec<Encryption> {
    let identity = "opportunistic to many servers".to_owned();
    let none = EncryptionFault::Protocol;
    let quic = Encryption::streamed(Transport::Quic, identity.clone(), String::new(), move |_, _| Err(none));
    vec![quic, Encryption::new(identity, String::new(), move |_| Err(none))]
}

#[test]
fn names_that_no_rule_is_for_are_found_from_the_root_down() {
    let rules = |text: &str| {
        let settings = settings(text);
        let recursive = settings.recursive().expect("on");
        let domains = recursive.policy_config(&interfaces()).domains;
        let all = domains.iter().any(|domain| domain.name.as_name().is_root());
        (recursive.forward_config().iterate.rules, all)
    };
    let stub = "[[resolver.stub]]\ndomain = \"a\"\nservers = [\"192.0.2.1\"]\n";
    assert_eq!(rules("[resolver]\n"), (vec![IterateRule::root()], true));
    assert_eq!(rules(stub), (vec![IterateRule::root()], true));
    assert_eq!(rules(LEAST), (Vec::new(), true), "all go to the servers of the rule");
    assert_eq!(rules(&format!("[resolver]\niterate = false\n{stub}")), (Vec::new(), false));
    let start = |address: &str| StartServer {
        name: None,
        addresses: vec![address.parse().expect("an address and a port")],
    };
    let own = IterateRule {
        domain: name("."),
        servers: vec![start("192.0.2.55:53"), start("[2001:db8::55]:5353")],
        prime: false,
        copy: None,
    };
    let text = "[resolver]\nroot-servers = [\"192.0.2.55\", \"2001:db8::55@5353\"]\n";
    assert_eq!(rules(text), (vec![own], true));
}

#[test]
fn every_key_reaches_the_policy() {
    let settings = settings(FULL);
    let policy = settings.recursive().expect("on").policy_config(&interfaces());
    let loopback = [prefix("127.0.0.0/8"), prefix("::1/128")];
    let attached = [prefix("127.0.0.0/8"), prefix("192.168.7.0/24"), prefix("2001:db8::/64")];
    let any = [prefix("0.0.0.0/0"), prefix("::/0")];
    let local = |text: &str| LocalAddress::from(text.parse::<IpAddr>().expect("an address"));
    let rules = [
        AccessRule {
            action: AccessAction::Refuse,
            from: [prefix("10.0.0.0/8")].into_iter().chain(loopback).collect(),
            local: None,
            transports: None,
        },
        AccessRule {
            action: AccessAction::Allow,
            from: attached.into_iter().chain(any).collect(),
            local: Some(["192.168.7.1", "2001:db8::1"].map(local).into()),
            transports: Some(vec![Transport::Tcp]),
        },
    ];
    assert_eq!(policy.access, rules);
    let local = LocalConfig {
        special_off: SpecialOff::These(vec![lower("home.arpa.")]),
        forwarded: [".", "example.net.", "corp.example."].map(lower).into(),
        designated: Vec::new(),
        data: vec![LocalRecord::parse("printer.lan. 300 A 192.0.2.5").expect("a record")],
    };
    assert_eq!(policy.local, local);
    let blocks = [PrivateConfig::usual_blocks(), vec![prefix("203.0.113.0/24")]].concat();
    assert_eq!(policy.private, PrivateConfig { blocks, exempt: vec![lower("corp.example.")] });
    let dns64 = Dns64Config {
        prefix: prefix("64:ff9b::/96"),
        clients: vec![prefix("2001:db8::/32")],
        exclude: vec![prefix("2001:db8:1::/48")],
        exclude_v4: vec![prefix("192.0.2.0/24")],
        non_global: true,
    };
    assert_eq!(policy.dns64, Some(dns64));
    let domain = |text, trust_ad, validate| Domain {
        name: name(text),
        partition: Partition::SHARED,
        trust_ad,
        validate,
    };
    let domains =
        [domain(".", true, false), domain("example.net.", false, true), domain("corp.example.", false, true)];
    assert_eq!(policy.domains, domains);
    let mut anchors = TrustAnchors::none();
    let ds = ". DS 20326 8 2 E06D44B80B8F1D39A95C0B0D7C65D08458E880409BBC683457104237C7F8EC8D";
    let ds = LocalRecord::parse(ds).expect("a record").rdata;
    anchors.add_ds(Name::ROOT, &ds).expect("an anchor");
    anchors.add_negative(name("broken.example.").as_name());
    let validation = ValidationConfig {
        settings: ValidationSettings {
            skew: 41,
            sha1_signatures: true,
            bogus_ttl: wire::Ttl::from_secs(42),
            max_nsec3_iterations: 43,
            ..ValidationSettings::default()
        },
        limits: ValidationLimits {
            signatures: 44,
            failures: 45,
            nsec3_hashes: 46,
            fetches: 47,
            ..ValidationLimits::default()
        },
        anchors,
        sentinel: false,
        names: 490,
        waiting: 48,
        waiting_of_network: 17,
    };
    assert_eq!(policy.validation, validation);
    assert_eq!(policy.stale_after, Some(Duration::from_millis(7)));
    assert_eq!((policy.nxdomain_cut, policy.prefetch, policy.max_chain), (false, false, 9));
}

/// Operators get the configuration that tests and benchmarks of the parts measure.
#[test]
fn defaults_are_those_of_the_parts() {
    let settings = settings(LEAST);
    let recursive = settings.recursive().expect("on");
    assert_eq!(recursive.cache_config(), cache::CacheConfig::default());
    assert_eq!(ForwardConfig { rules: Vec::new(), ..recursive.forward_config() }, ForwardConfig::default());
    let policy = recursive.policy_config(&interfaces());
    let attached: Vec<Prefix> = interfaces().networks().collect();
    assert_eq!(policy.access, Access::default_rules(&attached));
    assert_eq!(policy.local, LocalConfig { forwarded: vec![LowerNameBuf::ROOT], ..LocalConfig::default() });
    assert_eq!((policy.private, policy.dns64), (PrivateConfig::default(), None));
    assert_eq!(policy.validation, ValidationConfig::default());
    assert_eq!(policy.stale_after, Some(Duration::from_millis(1800)));
    let with_prefix = format!("[resolver]\ndns64-prefix = \"64:ff9b::/96\"\n{LEAST}");
    let dns64 = self::settings(&with_prefix).recursive().expect("on").policy_config(&interfaces()).dns64;
    assert_eq!(dns64, Some(Dns64Config::new(prefix("64:ff9b::/96"))));
}

#[test]
fn rules_are_validated_unless_they_say_otherwise_or_nothing_public_leads_there() {
    let validated = |text: &str| {
        let domains = settings(text).recursive().expect("on").policy_config(&interfaces()).domains;
        domains.last().map(|domain| domain.validate)
    };
    let rule = |kind: &str, domain: &str, more: &str| {
        format!("[[resolver.{kind}]]\ndomain = \"{domain}\"\nservers = [\"192.0.2.1\"]\n{more}\n")
    };
    let off = |rules: &str| format!("[resolver]\niterate = false\n{rules}");
    assert_eq!(validated("[resolver]\n"), Some(true));
    assert_eq!(validated("[resolver]\nvalidate = false\n"), Some(false));
    for kind in ["forward", "stub"] {
        let rule = |domain, more| validated(&off(&rule(kind, domain, more)));
        assert_eq!(rule("corp.example", ""), Some(true));
        assert_eq!(rule("corp.example", "validate = false"), Some(false));
        for private in ["home.arpa", "lan.home.arpa", "corp.internal", "test", "168.192.in-addr.arpa"] {
            assert_eq!(rule(private, ""), Some(false), "{private}");
            assert_eq!(rule(private, "validate = true"), Some(true), "{private}");
        }
    }
    assert_eq!(validated(&off(&rule("forward", ".", "trust-ad = true"))), Some(false));
    let on = rule("stub", "a", "validate = true");
    assert_eq!(validated(&format!("[resolver]\niterate = false\nvalidate = false\n{on}")), Some(true));
}

#[test]
fn what_is_off_is_off() {
    assert!(settings("").recursive().is_none());
    let text = format!(
        "[server]\nstate-dir = \"/state\"\n[resolver]\ncache-file = \"none\"\nserve-stale = \"0s\"\nspecial-names = false\n{LEAST}"
    );
    let settings = settings(&text);
    let recursive = settings.recursive().expect("on");
    assert_eq!(recursive.cache_file(), None);
    let policy = recursive.policy_config(&interfaces());
    assert_eq!((policy.stale_after, policy.local.special_off), (None, SpecialOff::All));
}

#[test]
fn the_cache_is_kept_in_the_state_folder() {
    let settings = settings(&format!("[server]\nstate-dir = \"/state\"\n{LEAST}"));
    assert_eq!(settings.recursive().expect("on").cache_file().as_deref(), Some(Path::new("/state/cache")));
}

#[test]
fn an_interface_that_is_not_there_fits_nobody() {
    let text = format!(
        "{LEAST}[[resolver.access]]\nfrom = [\"any\"]\ninterface = [\"wlan7\", \"eth0\", \"eth9\"]\n"
    );
    let settings = settings(&text);
    let recursive = settings.recursive().expect("on");
    assert_eq!(recursive.interfaces_without_address(&interfaces()), ["wlan7", "eth9"]);
    let local = |interfaces| recursive.policy_config(interfaces).access[0].local.clone().map(|all| all.len());
    assert_eq!((local(&interfaces()), local(&Interfaces::default())), (Some(2), Some(0)));
}

/// The message of each fault and the text above the carets.
fn faults(text: &str) -> Vec<(String, String)> {
    let rejected = read(text).expect_err("refused");
    let marked = |fault: &Diagnostic| {
        let place = fault.place.as_ref()?;
        rejected.sources.get(place.source)?.text.get(place.span.clone()).map(str::to_owned)
    };
    rejected.faults.iter().map(|fault| (fault.message.clone(), marked(fault).unwrap_or_default())).collect()
}

/// One unusable anchor, such as that of a revoked key, made the whole configuration invalid.
#[test]
fn a_trust_anchor_that_cannot_be_used_was_an_error_beside_one_that_can() {
    const GOOD: &str = ". DS 20326 8 2 E06D44B80B8F1D39A95C0B0D7C65D08458E880409BBC683457104237C7F8EC8D";
    const UNSUPPORTED: &str = ". DS 1 16 2 E06D44B80B8F1D39A95C0B0D7C65D08458E880409BBC683457104237C7F8EC8D";
    let with = |anchors: &[&str]| settings(&format!("[resolver]\ntrust-anchors = {anchors:?}\n{LEAST}"));
    let anchors = |settings: &Settings| {
        settings.recursive().expect("on").policy_config(&interfaces()).validation.anchors
    };
    let notes = |settings: &Settings| settings.recursive().expect("on").anchor_notes();
    let (good, both) = (with(&[GOOD]), with(&[UNSUPPORTED, GOOD]));
    assert_eq!((anchors(&both), notes(&good)), (anchors(&good), Vec::new()));
    let expected = format!(
        "a trust anchor of . `{UNSUPPORTED}` is not used, others of that zone are: the algorithm or digest type is \
         not supported"
    );
    assert_eq!(notes(&both), [expected]);
    let none = with(&[]);
    assert_eq!(anchors(&none), TrustAnchors::none());
    let said = notes(&none);
    assert!(said.len() == 1 && said[0].starts_with("no answer counts as signed"), "{said:?}");
    assert_eq!(notes(&settings(LEAST)), Vec::<String>::new(), "those of the public root");
}

#[test]
fn each_fault_has_its_words_and_its_place() {
    let in_section = |key: &str| format!("[resolver]\n{key}\n{LEAST}");
    let servers = |text: &str| format!("[[resolver.forward]]\nservers = {text}\n");
    let access = |from: &str| format!("{LEAST}[[resolver.access]]\nfrom = [{from}]\n");
    let rule = |kind: &str, domain: &str| {
        format!("[[resolver.{kind}]]\ndomain = \"{domain}\"\nservers = [\"192.0.2.1\"]\n")
    };
    let listening = |addr: &str, server: &str| {
        format!("[[listen]]\naddr = [\"{addr}\"]\n[[resolver.forward]]\nservers = [\"{server}\"]\n")
    };
    let cases = [
        (
            in_section("encrypt-to-authoritative = [\"dot\", \"dot\"]"),
            "this transport is named twice in `encrypt-to-authoritative`",
            "\"dot\"",
        ),
        ("resolver = 1".into(), "`resolver` is a section: write [resolver]", "1"),
        ("[resolver]\niterate = false\n".into(), "[resolver] has no server to query", "[resolver]"),
        (
            "[resolver]\niterate-ipv4 = false\niterate-ipv6 = false\n".into(),
            "neither `iterate-ipv4` nor `iterate-ipv6` is true: no server can be queried",
            "false",
        ),
        (
            "[[listen]]\naddr = [\"127.0.0.1@53\"]\n[resolver]\nroot-servers = [\"127.0.0.1\"]\n".into(),
            "nomen listens on 127.0.0.1@53 and would query itself",
            "\"127.0.0.1\"",
        ),
        (
            "[resolver.forward]\n".into(),
            "`resolver.forward` is a list of blocks: write [[resolver.forward]]",
            "[resolver.forward]",
        ),
        (servers("[]"), "the list is empty", "[]"),
        (
            servers("[\"192.0.2.1:53\"]"),
            "`192.0.2.1:53` has no port: addresses are written ip@port; write `192.0.2.1@53`",
            "\"192.0.2.1:53\"",
        ),
        (servers("[\"dns.example\"]"), "`dns.example` is not an IPv4 or IPv6 address", "\"dns.example\""),
        (servers("[\"192.0.2.1@0\"]"), "port 0 cannot be used", "\"192.0.2.1@0\""),
        (servers("[\"::\"]"), ":: is not the address of one server", "\"::\""),
        (
            servers("[\"192.0.2.1\", \"::ffff:192.0.2.1\"]"),
            "192.0.2.1@53 is named twice",
            "\"::ffff:192.0.2.1\"",
        ),
        (format!("{LEAST}{}", rule("forward", ".")), "there are two rules for .", "\".\""),
        (
            format!("{}{}", rule("stub", "A.b"), rule("forward", "a.B.")),
            "there are two rules for a.b.",
            "\"A.b\"",
        ),
        (
            rule("stub", "."),
            "a stub cannot have the domain \".\": no server is authoritative for all names",
            "\".\"",
        ),
        (
            listening("127.0.0.1@53", "127.0.0.1"),
            "nomen listens on 127.0.0.1@53 and would query itself",
            "\"127.0.0.1\"",
        ),
        (
            listening("[::]@5353", "::1@5353"),
            "nomen listens on [::1]@5353 and would query itself",
            "\"::1@5353\"",
        ),
        (
            in_section("min-ttl = \"1h\"\nmax-ttl = \"1m\""),
            "`min-ttl` \"1h\" is longer than `max-ttl` \"1m\"",
            "\"1h\"",
        ),
        (
            in_section("trust-anchors = [\". A 192.0.2.1\"]"),
            "A is no trust anchor: write a DS or a DNSKEY",
            "\". A 192.0.2.1\"",
        ),
        (
            in_section("trust-anchors = [\". DS 1 16 2 00\"]"),
            "the algorithm or digest type is not supported",
            "\". DS 1 16 2 00\"",
        ),
        (
            format!("{LEAST}trust-ad = true\nvalidate = true\n"),
            "`trust-ad` and `validate` exclude each other: either the servers validate, or nomen does",
            "true",
        ),
        (in_section("max-ttl = \"31d\""), "31d is out of range: 0s to 30d", "\"31d\""),
        (in_section("max-ttl = \"1500ms\""), "1500ms is not a number of whole seconds", "\"1500ms\""),
        (in_section("failure-ttl = \"301s\""), "301s is out of range: 1s to 5m", "\"301s\""),
        (in_section("cache-size = 1000"), "1000 is out of range: 1MiB to 64GiB", "1000"),
        (in_section("max-timeout = \"200ms\""), "`first-timeout` is longer than `max-timeout`", "\"200ms\""),
        (in_section("min-timeout = \"1s\""), "`min-timeout` is longer than `first-timeout`", "\"1s\""),
        (in_section("local-data = [\"a. A 192.0.2.1\", \"b. A x\"]"), "", "\"b. A x\""),
        (
            in_section("special-names-off = [\"home.apra\"]"),
            "home.apra. is not a special-use name",
            "\"home.apra\"",
        ),
        (in_section("refused-domains = [\".\"]"), "`refused-domains` takes no \".\"", "\".\""),
        (
            format!("[resolver]\nrefused-domains = [\"Corp.example\"]\n{}", rule("stub", "corp.example")),
            "corp.example. is in `refused-domains` and also has a rule",
            "\"Corp.example\"",
        ),
        (
            in_section("private-domains = [\"a\"]"),
            "`private-domains` has no effect without `private-addresses`",
            "[\"a\"]",
        ),
        (
            in_section("private-addresses = [\"usua\"]"),
            "`usua` is not a network; write an address, or an address/length",
            "\"usua\"",
        ),
        (
            in_section("dns64-clients = [\"::/0\"]"),
            "`dns64-clients` has no effect without `dns64-prefix`",
            "[\"::/0\"]",
        ),
        (
            in_section("dns64-prefix = \"64:ff9b::/95\""),
            "64:ff9b::/95: the length must be 32, 40, 48, 56, 64 or 96",
            "\"64:ff9b::/95\"",
        ),
        (
            in_section("dns64-prefix = \"64:ff9b::/96\"\ndns64-exclude = [\"::/0\", \"10.0.0.0/8\"]"),
            "10.0.0.0/8 is not an IPv6 network",
            "\"10.0.0.0/8\"",
        ),
        (
            access("\"10.0.0.1/8\""),
            "`10.0.0.1/8` is not a network: there are bits behind the length; the network is 10.0.0.0/8",
            "\"10.0.0.1/8\"",
        ),
        (
            format!("{LEAST}[[resolver.access]]\naction = \"allow\"\n"),
            "[[resolver.access]] needs the key `from`",
            "[[resolver.access]]",
        ),
        (
            format!("{LEAST}{}", "[[resolver.access]]\nfrom = [\"any\"]\n".repeat(65)),
            "65 access rules, and there can be 64",
            "[[resolver.access]]",
        ),
    ];
    for (text, words, marked) in cases {
        let found = faults(&text);
        let [(message, place)] = &found[..] else { panic!("{text}: {found:?}") };
        assert!(words.is_empty() || message == words, "{text}: {message}");
        assert!(place.starts_with(marked), "{text}: {place}");
    }
}

#[test]
fn misspelt_names_are_known_again() {
    let hints = |text: &str| -> Vec<Option<String>> {
        read(text).expect_err("refused").faults.into_iter().map(|fault| fault.hint).collect()
    };
    assert_eq!(hints(&format!("[[resolver.froward]]\n{LEAST}")), [Some("did you mean `forward`?".into())]);
    assert_eq!(hints("[[forward]]\n"), [Some("did you mean `resolver.forward`?".into())]);
    assert_eq!(
        hints("[[resolver.forward]]\nserver = 1\nservers = [\"192.0.2.1\"]\n"),
        [Some("did you mean `servers`?".into())]
    );
    assert_eq!(hints("cache-size = 1\n"), [Some("this key belongs in [resolver]".into())]);
    let access = format!("{LEAST}[[resolver.access]]\nfrom = [\"atached\"]\n");
    assert_eq!(hints(&access), [Some("did you mean \"attached\"?".into())]);
    let special = format!("[resolver]\nspecial-names-off = [\"home.apra\"]\n{LEAST}");
    assert_eq!(hints(&special), [Some("did you mean \"home.arpa.\"?".into())]);
}

#[test]
fn servers_beside_our_own_addresses_can_be_asked() {
    for (addr, server) in
        [("0.0.0.0@53", "192.0.2.1"), ("127.0.0.1@53", "127.0.0.1@5353"), ("[::]@53", "127.0.0.1")]
    {
        settings(&format!(
            "[[listen]]\naddr = [\"{addr}\"]\n[[resolver.forward]]\nservers = [\"{server}\"]\n"
        ));
    }
}

#[test]
fn blocks_may_stand_in_other_files_than_the_section() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    let main = folder.path().join("nomen.toml");
    write(
        "nomen.toml",
        "include = [\"b.toml\", \"c.toml\"]\n[[resolver.forward]]\nservers = [\"192.0.2.1\"]\n",
    );
    write("b.toml", "[resolver]\nexplore = 7\n");
    write("c.toml", "[[resolver.stub]]\ndomain = \"a\"\nservers = [\"192.0.2.1\"]\n");
    let read = crate::read_files(&main).expect("accepted").config.settings;
    let config = read.recursive().expect("on").forward_config();
    assert_eq!((config.explore, config.rules.len()), (7, 2));
    write(
        "c.toml",
        "[resolver]\n[[resolver.stub]]\ndomain = \"a\"\nservers = [\"192.0.2.1\"]\ntcp-only = 1\n",
    );
    write("b.toml", "[resolver]\nexplore = 7\n[[resolver.access]]\nfrom = [\"any\"]\n");
    let rejected = crate::read_files(&main).expect_err("a fault in a block");
    assert_eq!(rejected.faults.len(), 1, "{rejected}");
    write("c.toml", "[resolver]\nexplore = 8\n");
    let rejected = crate::read_files(&main).expect_err("the section twice");
    assert!(rejected.to_string().contains("[resolver] is in more than one file"), "{rejected}");
}

#[test]
fn rules_change_at_a_reload_and_go_with_the_section_at_the_next_start() {
    let mut running = settings(&format!("[resolver]\ncache-size = \"64MiB\"\n{LEAST}"));
    let rules =
        |settings: &Settings| settings.recursive().map(|recursive| recursive.forward_config().rules.len());
    assert_eq!(
        running.adopt(settings(&format!(
            "[resolver]\ncache-size = \"64MiB\"\n{LEAST}{}",
            "[[resolver.stub]]\ndomain = \"a\"\nservers = [\"192.0.2.1\"]\n"
        ))),
        []
    );
    assert_eq!(rules(&running), Some(2));
    let pending = running.adopt(settings(""));
    let words =
        "`cache-size` of [resolver] changed from \"64MiB\" to unset; this takes effect at the next start";
    assert_eq!(pending.iter().map(ToString::to_string).collect::<Vec<_>>(), [words]);
    assert_eq!(rules(&running), Some(2), "what still runs has its servers");
    let mut running = settings("");
    let pending = running.adopt(settings(LEAST));
    assert_eq!(pending.len(), 1, "{pending:?}");
    assert_eq!(rules(&running), None);
}

#[test]
fn a_copy_of_the_root_comes_from_the_public_servers_from_others_or_from_a_file() {
    let source = |keys: &str| settings(&format!("[resolver]\n{keys}")).recursive().expect("on").local_root();
    let addresses = |keys: &str| -> Vec<String> {
        let primaries = source(keys).expect("wanted").peers.primaries.value.unwrap_or_default();
        primaries.iter().map(|peer| peer.value.server.address.0.to_string()).collect()
    };
    assert_eq!(source(""), None);
    let public = addresses("local-root = true\n");
    assert_eq!((public.len(), public[0].as_str()), (14, "170.247.170.2:53"));
    assert_eq!(addresses("local-root = true\niterate-ipv6 = false\n"), public[..7]);
    assert_eq!(addresses("local-root = true\niterate-ipv4 = false\n"), public[7..]);
    let own =
        "local-root = true\nlocal-root-primaries = [\"192.0.2.1@54\"]\nroot-servers = [\"192.0.2.2\"]\n";
    assert_eq!(addresses(own), ["192.0.2.1:54"]);
    let of_file = source("local-root = true\nlocal-root-file = \"root\"\n").expect("wanted");
    assert_eq!(of_file.file.as_deref(), Some(Path::new("/etc/nomen/root")));
    assert_eq!(of_file.peers.primaries.value, None);
    for source in [source("local-root = true\n"), Some(of_file)] {
        assert_eq!(source.expect("wanted").peers.zonemd.value, Some(ZonemdPolicy::Require));
    }
}

#[test]
fn a_copy_of_the_root_that_makes_no_sense_is_refused() {
    let zone = "[[zone]]\nname = \".\"\nfile = \"r\"\n";
    for (text, words, marked) in [
        (
            "local-root-file = \"r\"\n".into(),
            "`local-root-file` has no effect without `local-root = true`",
            "\"r\"",
        ),
        (
            "local-root-primaries = [\"192.0.2.1\"]\n".into(),
            "`local-root-primaries` has no effect without `local-root = true`",
            "[\"192.0.2.1\"]",
        ),
        (
            "local-root = true\nlocal-root-file = \"r\"\nlocal-root-primaries = [\"192.0.2.1\"]\n".into(),
            "[resolver] has `local-root-file` and `local-root-primaries`",
            "[\"192.0.2.1\"]",
        ),
        (
            "local-root = true\nroot-servers = [\"192.0.2.1\"]\n".into(),
            "`local-root` would be a copy of the public root, but `root-servers` names other servers",
            "true",
        ),
        (
            format!("local-root = true\n{LEAST}"),
            "`local-root` has no effect: no name is resolved from the root servers down",
            "true",
        ),
        (
            format!("local-root = true\n{zone}"),
            "`local-root` has no effect: the root zone is served here",
            "true",
        ),
    ] {
        let text: String = text;
        let found = faults(&format!("[resolver]\n{text}"));
        let [(message, place)] = &found[..] else { panic!("{text}: {found:?}") };
        assert_eq!(message, words);
        assert!(place.starts_with(marked), "{text}: {place}");
    }
}

#[test]
fn recursion_open_to_any_address_was_not_warned_of() {
    let warnings = |listen: &str, access: &str| {
        let text = format!("[[listen]]\naddr = [\"{listen}\"]\n[resolver]\n{access}");
        settings(&text).warnings(false).into_iter().map(|warning| warning.message).collect::<Vec<_>>()
    };
    let block = |keys: &str| format!("[[resolver.access]]\n{keys}\n");
    let any = block("from = [\"any\"]");
    let public = "192.0.2.1@53";
    for (listen, access, found) in [
        (public, String::new(), 0),
        (public, any.clone(), 1),
        (public, block("from = [\"10.0.0.0/8\", \"::/0\"]"), 1),
        (public, block("from = [\"10.0.0.0/8\"]"), 0),
        ("127.0.0.1@53", any.clone(), 0),
        (public, block("from = [\"any\"]\ninterface = [\"eth1\"]"), 0),
        (public, block("from = [\"any\"]\nproto = [\"tcp\"]"), 0),
        (public, block("from = [\"any\"]\naction = \"refuse\"") + &any, 0),
    ] {
        let found_here = warnings(listen, &access);
        assert_eq!(found_here.len(), found, "{listen} {access}{found_here:?}");
        assert!(found_here.iter().all(|message| message.contains("RFC 5358")), "{found_here:?}");
    }
}

#[test]
fn a_rule_for_a_zone_that_is_served_here_was_not_warned_of() {
    let text = "[resolver]\n[[resolver.forward]]\ndomain = \"corp.example\"\nservers = [\"192.0.2.1\"]\n\
                [[resolver.stub]]\ndomain = \"child.corp.example\"\nservers = [\"192.0.2.2\"]\n";
    let shadowed = |zones: &[&str]| {
        let zones: Vec<NameBuf> = zones.iter().map(|zone| name(zone)).collect();
        let found = settings(text).shadowed_rules(zones.iter().map(NameBuf::as_name));
        found.into_iter().map(|warning| warning.message).collect::<Vec<_>>()
    };
    assert_eq!(shadowed(&["example.", "other."]), Vec::<String>::new());
    let found = shadowed(&["other.", "corp.example."]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("corp.example. is a zone served here, and answered from it"), "{found:?}");
}

#[test]
fn servers_are_asked_from_one_address_of_each_family() {
    let text = |source: &str| format!("[resolver]\nsource = {source}\n");
    settings(&text("[\"192.0.2.1\", \"2001:db8::1\"]"));
    let found = faults(&text("[\"192.0.2.1\", \"192.0.2.2\"]"));
    assert!(
        found.iter().any(|(message, _)| message == "`source` has two addresses of one family"),
        "{found:?}"
    );
}
