//! AdGuard Home and Pi-hole, whole configurations of them.

use super::*;

fn adguard(text: &str) -> Converted {
    of(PeerProgram::AdGuard, &[("/opt/AdGuardHome/AdGuardHome.yaml", text)])
}

/// The printed configuration without the comment at its top.
fn printed(converted: &Converted) -> &str {
    let text = &converted.toml;
    text.split_once("\n\n").map_or(text, |(_, rest)| rest)
}

/// The lists that are made, as `path: lines`.
fn made(converted: &Converted) -> Vec<String> {
    let shown =
        |list: &ListFile| format!("{}: {}", list.path.display(), list.text.trim_end().replace('\n', " "));
    converted.lists.iter().map(shown).collect()
}

/// The outcomes that are less or different, each as its first word and the statement.
fn notable(converted: &Converted) -> Vec<String> {
    let found = converted.accounts.iter();
    let found = found.filter(|account| !matches!(account.outcome, Coverage::Translated | Coverage::Unneeded));
    found.map(|account| format!("{:?} {}", account.outcome, account.statement)).collect()
}

const ADGUARD: &str = r#"http:
  address: 0.0.0.0:3000
users:
  - name: admin
    password: secret
dns:
  bind_hosts:
    - 192.0.2.9
  port: 5353
  ratelimit: 0
  refuse_any: true
  upstream_dns:
    - 192.0.2.53
    - https://dns.example/dns-query
    - '[/corp.example/home.example/]10.0.0.1:54'
    - '# a comment'
  bootstrap_dns:
    - 9.9.9.10
  fallback_dns: []
  upstream_mode: load_balance
  allowed_clients: []
  disallowed_clients:
    - 10.0.0.66
  blocked_hosts:
    - version.bind
    - id.server
    - bad.example
  cache_size: 4194304
  cache_ttl_min: 60
  cache_ttl_max: 0
  cache_optimistic: false
  enable_dnssec: false
  edns_client_subnet:
    custom_ip: ""
    enabled: false
  use_private_ptr_resolvers: false
  local_ptr_upstreams: []
  hostsfile_enabled: false
tls:
  enabled: false
querylog:
  enabled: true
  interval: 24h
filters:
  - enabled: true
    url: https://lists.example/one.txt
    name: One
    id: 1
  - enabled: false
    url: https://lists.example/two.txt
    name: Two
    id: 2
  - enabled: true
    url: /opt/lists/three.txt
    name: Three
    id: 3
whitelist_filters:
  - enabled: true
    url: http://lists.example/good.txt
    name: One
    id: 4
user_rules:
  - '||ads.example^'
  - '@@||good.example^$important'
  - /^ad[0-9]+\./
  - 0.0.0.0 track.example
  - 192.0.2.7 nas.home.example
  - '||tv.example^$ctag=device_tv'
  - '||moved.example^$dnsrewrite=192.0.2.8'
  - '||gone.example^$dnsrewrite=NXDOMAIN;;'
  - '! a comment'
dhcp:
  enabled: false
filtering:
  blocking_ipv4: ""
  blocking_ipv6: ""
  blocked_services:
    schedule:
      time_zone: Local
    ids: []
  safe_search:
    enabled: false
    bing: true
  blocking_mode: nxdomain
  rewrites:
    - domain: printer.home.example
      answer: 192.0.2.10
      enabled: true
    - domain: '*.apps.example'
      answer: apps.home.example
      enabled: true
    - domain: pass.apps.example
      answer: A
      enabled: true
  filters_update_interval: 12
  blocked_response_ttl: 30
  filtering_enabled: true
  parental_enabled: false
  safebrowsing_enabled: false
  protection_enabled: true
clients:
  runtime_sources:
    arp: true
  persistent:
    - name: child
      ids:
        - 10.0.0.77
      use_global_settings: false
      use_global_blocked_services: true
      filtering_enabled: true
      safe_search:
        enabled: true
        bing: true
        youtube: false
        yandex: false
    - name: tv
      ids:
        - 10.0.1.0/30
      use_global_settings: false
      filtering_enabled: false
    - name: console
      ids:
        - 10.0.1.2
      use_global_settings: false
      filtering_enabled: true
    - name: guest
      ids:
        - 10.0.0.78
      use_global_settings: true
      upstreams:
        - 192.0.2.99
    - name: laptop
      ids:
        - aa:bb:cc:dd:ee:ff
      use_global_settings: true
      use_global_blocked_services: true
      upstreams: []
schema_version: 29
"#;

#[test]
fn adguard_home_keeps_its_servers_lists_rules_and_clients() {
    let found = adguard(ADGUARD);
    let expected = r#"[server]
version = "hide"
id = "hide"
state-dir = "/var/lib/nomen"

[[listen]]
addr = ["192.0.2.9@5353"]

[resolver]
serve-stale = "0s"
cache-size = "4MiB"
min-ttl = "1m"
validate = false
local-data = [
    "nas.home.example. 30 A 192.0.2.7",
    "moved.example. 30 A 192.0.2.8",
    "*.moved.example. 30 A 192.0.2.8",
    "printer.home.example. 30 A 192.0.2.10",
    "*.apps.example. 30 CNAME apps.home.example.",
]
refused-domains = ["bad.example", "gone.example"]

[[resolver.forward]]
domain = "."
servers = ["192.0.2.53"]

[[resolver.forward]]
domain = "corp.example"
servers = ["10.0.0.1@54"]

[[resolver.forward]]
domain = "home.example"
servers = ["10.0.0.1@54"]

[[resolver.access]]
action = "refuse"
from = ["10.0.0.78"]

[[resolver.access]]
action = "refuse"
from = ["10.0.0.66"]

[[resolver.access]]
action = "allow"
from = ["any"]

[policy]
block-ttl = "30s"
break-dnssec = true

[[policy.list]]
name = "One"
url = "https://lists.example/one.txt"
refresh = "12h"

[[policy.list]]
name = "Three"
file = "/opt/lists/three.txt"

[[policy.list]]
name = "One-2"
url = "http://lists.example/good.txt"
refresh = "12h"
kind = "allow"

[[policy.list]]
name = "user-rules"
file = "/lists/user-rules.txt"
format = "adblock"

[[policy.group]]
name = "child"
from = ["10.0.0.77"]
safe-search = true

[[policy.group]]
name = "tv"
from = ["10.0.1.0/31", "10.0.1.3"]
lists = []

[log]
queries = true
"#;
    assert_eq!(printed(&found), expected);
    let rules = "/lists/user-rules.txt: ||ads.example^ @@||good.example^$important /^ad[0-9]+\\./ \
                 |track.example^ ||tv.example^";
    assert_eq!(made(&found), [rules]);
    assert_eq!(
        notable(&found),
        [
            "Narrower https://dns.example/dns-query",
            "Differs 10.0.0.66",
            "Differs bad.example",
            "Narrower ||tv.example^$ctag=device_tv",
            "Narrower ||gone.example^$dnsrewrite=NXDOMAIN;;",
            "Missing domain pass.apps.example",
            "Differs youtube false",
            "Differs name tv",
            "Narrower name guest",
            "Narrower ",
        ]
    );
    let rule = found.accounts.iter().find(|one| one.statement.starts_with("||tv")).expect("reported");
    let span = rule.span.as_ref().expect("it has a place");
    let before = &found.texts[span.text].text[..span.range.start];
    assert_eq!(
        before.lines().count(),
        ADGUARD.lines().position(|line| line.contains("tv.example")).expect("a line") + 1
    );
}

#[test]
fn answers_of_adguard_home_are_those_of_its_mode() {
    let list = "filters:\n- {enabled: true, url: 'https://a.example/l', name: a}\n";
    let answer = |settings: &str| {
        let found = adguard(&format!("dns:\n  upstream_dns: [192.0.2.1]\n{list}filtering:\n{settings}"));
        let lines: Vec<String> = found
            .toml
            .lines()
            .filter(|line| line.starts_with("answer") || line.starts_with("block-ttl"))
            .map(str::to_owned)
            .collect();
        lines.join("; ")
    };
    assert_eq!(answer("  blocking_mode: default\n"), "block-ttl = \"10s\"; answer = \"null\"");
    assert_eq!(
        answer("  blocking_mode: null_ip\n  blocked_response_ttl: 5\n"),
        "block-ttl = \"5s\"; answer = \"null\""
    );
    assert_eq!(answer("  blocking_mode: refused\n"), "block-ttl = \"10s\"");
    let own = "  blocking_mode: custom_ip\n  blocking_ipv4: 192.0.2.80\n  blocking_ipv6: '2001:db8::80'\n";
    assert_eq!(answer(own), "block-ttl = \"10s\"; answer = [\"192.0.2.80\", \"2001:db8::80\"]");
    let off = adguard(&format!(
        "dns:\n  upstream_dns: [192.0.2.1]\n{list}filtering:\n  protection_enabled: false\n"
    ));
    assert!(!off.toml.contains("[[policy.list]]"), "{}", off.toml);
}

#[test]
fn protection_of_adguard_home_that_nomen_lacks_refuses_recursion() {
    let closed = "[[resolver.access]]\naction = \"refuse\"\nfrom = [\"any\"]";
    for settings in [
        "filtering:\n  safebrowsing_enabled: true\n",
        "filtering:\n  parental_enabled: true\n",
        "filtering:\n  blocked_services:\n    ids: [tiktok]\n",
        "user_rules: ['*$dnsrewrite=192.0.2.1']\n",
        "filters: [{enabled: true, url: 'ftp://a.example/l', name: a}]\n",
        "clients:\n  persistent:\n  - {name: a, ids: ['aa:bb:cc:dd:ee:ff'], upstreams: [192.0.2.2]}\n",
        "tls: {enabled: true}\nclients:\n  persistent:\n  - {name: a, ids: [phone], upstreams: [192.0.2.2]}\n",
        "clients:\n  persistent:\n  - {name: a, ids: [not_one], use_global_settings: false}\n",
    ] {
        let found = adguard(&format!("dns:\n  upstream_dns: [192.0.2.1]\n{settings}"));
        has(&found, &[closed]);
        assert!(found.is_less(), "{settings}");
    }
    let lines = adguard("dns: {upstream_dns: [192.0.2.1]}\nuser_rules: ['||x^', \"||y^\\n||z^$ctag=a\"]\n");
    assert_eq!(made(&lines), ["/lists/user-rules.txt: ||x^ ||y^ ||z^"]);
    let open = adguard("dns:\n  upstream_dns: [192.0.2.1]\n  allowed_clients: [10.0.0.0/8, phone]\n");
    has(&open, &["action = \"allow\"\nfrom = [\"10.0.0.0/8\"]"]);
    assert_eq!(outcomes(&open, "phone"), [Coverage::Narrower]);
}

/// Clients as the page "Configuration" of AdGuard Home's wiki has them: by MAC address and by ClientID.
#[test]
fn clients_of_adguard_home_by_mac_address_are_groups_after_those_by_network() {
    let found = adguard(
        "dns:\n  upstream_dns: [192.0.2.1]\nfilters: [{enabled: true, url: 'https://a.example/l', name: ads}]\n\
         clients:\n  persistent:\n  \
         - {name: tv, ids: ['AA-BB-CC-DD-EE-01'], use_global_settings: false, filtering_enabled: false}\n  \
         - {name: child, ids: [10.0.0.8/29, 'aa:bb:cc:dd:ee:02'], use_global_settings: false, \
            filtering_enabled: true, safe_search: {enabled: true, yandex: false}}\n  \
         - {name: desk, ids: [10.0.0.2]}\n  \
         - {name: mine, ids: [10.0.0.3, my-phone], use_global_settings: false, filtering_enabled: false}\n  \
         - {name: work, ids: [my-laptop], use_global_settings: false, filtering_enabled: false}\n",
    );
    let groups = found.toml.split_once("[[policy.group]]").expect("groups").1;
    let expected = "\nname = \"child\"\nfrom = [\"10.0.0.8/29\"]\nsafe-search = true\n\n\
        [[policy.group]]\nname = \"desk\"\nfrom = [\"10.0.0.2\"]\n\n\
        [[policy.group]]\nname = \"mine\"\nfrom = [\"10.0.0.3\"]\nlists = []\n\n\
        [[policy.group]]\nname = \"tv\"\nfrom = [\"mac:aa:bb:cc:dd:ee:01\"]\nlists = []\n\n\
        [[policy.group]]\nname = \"child-2\"\nfrom = [\"mac:aa:bb:cc:dd:ee:02\"]\nsafe-search = true\n";
    assert_eq!(groups, expected);
    assert!(!found.toml.contains("refuse"), "{}", found.toml);
    assert_eq!(
        outcomes(&found, "name work"),
        [Coverage::Unneeded],
        "nothing is encrypted: no client sends its ID"
    );
    assert!(!found.accounts.iter().any(|one| one.outcome == Coverage::Narrower), "{:?}", found.accounts);
}

/// A ClientID comes before an address in AdGuard Home.
#[test]
fn clients_of_adguard_home_by_client_id_are_groups_before_all_others() {
    let clients = "clients:\n  persistent:\n  \
         - {name: child, ids: [10.0.0.8/29, 'aa:bb:cc:dd:ee:02', Tablet], use_global_settings: false, \
            filtering_enabled: true, safe_search: {enabled: true, yandex: false}}\n  \
         - {name: desk, ids: [my-desk]}\n  \
         - {name: work, ids: [my-laptop, my-phone], use_global_settings: false, filtering_enabled: false}\n";
    let with = |tls: &str, clients: &str| {
        adguard(&format!(
            "dns:\n  upstream_dns: [192.0.2.1]\nfilters: [{{enabled: true, url: 'https://a.example/l', name: ads}}]\n\
             tls:\n  enabled: true\n  certificate_path: /c\n  private_key_path: /k\n{tls}{clients}"
        ))
    };
    let found = with("  server_name: DNS.example.net\n", clients);
    has(&found, &["client-ids = [\"*.dns.example.net\", \"/dns-query/*\"]\n"]);
    let groups = found.toml.split_once("[[policy.group]]").expect("groups").1;
    let expected = "\nname = \"child\"\nfrom = [\"client-id:tablet\"]\nsafe-search = true\n\n\
        [[policy.group]]\nname = \"desk\"\nfrom = [\"client-id:my-desk\"]\n\n\
        [[policy.group]]\nname = \"work\"\nfrom = [\"client-id:my-laptop\", \"client-id:my-phone\"]\nlists = []\n\n\
        [[policy.group]]\nname = \"child-2\"\nfrom = [\"10.0.0.8/29\"]\nsafe-search = true\n\n\
        [[policy.group]]\nname = \"child-3\"\nfrom = [\"mac:aa:bb:cc:dd:ee:02\"]\nsafe-search = true\n";
    assert_eq!(groups, expected);
    assert!(!found.toml.contains("refuse"), "{}", found.toml);
    let places = |tls: &str| {
        let found = with(tls, clients).toml;
        found.lines().find(|line| line.starts_with("client-ids")).map(str::to_owned)
    };
    assert_eq!(places(""), Some("client-ids = [\"/dns-query/*\"]".into()), "there is no name");
    let without = "  server_name: dns.example.net\n  port_https: 0\n";
    assert_eq!(places(without), Some("client-ids = [\"*.dns.example.net\"]".into()));
    // A client that cannot be refused by its ClientID alone.
    let strict = "clients:\n  persistent:\n  - {name: x, ids: [my-x], use_global_settings: false, parental_enabled: true}\n";
    has(&with("", strict), &["action = \"refuse\""]);
}

#[test]
fn safe_search_of_adguard_home_is_that_of_nomen() {
    let with = |settings: &str| adguard(&format!("dns:\n  upstream_dns: [192.0.2.1]\n{settings}"));
    let found = with("filtering:\n  safe_search: {enabled: true, bing: true, google: false, yandex: true}\n");
    has(
        &found,
        &["[policy]\nblock-ttl = \"10s\"\nbreak-dnssec = true\nsafe-search = true\n", "action = \"allow\""],
    );
    assert_eq!(notable(&found), ["Differs google false", "Missing yandex true"]);
    let old = adguard("dns: {upstream_dns: [192.0.2.1], safesearch_enabled: true}\n");
    has(&old, &["safe-search = true"]);
    assert!(old.is_less(), "nothing is said of Yandex");
    let off = with("filtering:\n  safe_search: {enabled: true, yandex: true}\n  protection_enabled: false\n");
    assert!(!off.toml.contains("safe-search") && !off.is_less(), "{}", off.toml);
    // A client without what all others have, and one that has what nomen lacks.
    let clients = "filtering:\n  safe_search: {enabled: true, yandex: false}\nclients:\n  persistent:\n  \
                   - {name: default, ids: [10.0.0.1], use_global_settings: false, filtering_enabled: true}\n  \
                   - {name: b, ids: [10.0.0.2], use_global_settings: false, parental_enabled: true}\n";
    has(&with(clients), &["name = \"group\"\nfrom = [\"10.0.0.1\"]\n", "\"refuse\"\nfrom = [\"10.0.0.2\"]"]);
}

#[test]
fn servers_of_adguard_home_that_are_encrypted_are_not_asked_in_the_clear() {
    let found = adguard(
        "dns:\n  upstream_dns:\n  - https://192.0.2.1/dns-query\n  - '[/corp.example/]quic://10.0.0.1'\n  - '[/in.corp.example/]10.0.0.2'\n",
    );
    has(
        &found,
        &[
            "servers = [\"https://192.0.2.1/dns-query\"]",
            "domain = \"corp.example\"\nservers = [\"quic://10.0.0.1\"]",
            "domain = \"in.corp.example\"",
        ],
    );
    let left_out = adguard(
        "dns:\n  upstream_dns:\n  - https://dns.example/dns-query\n  - '[/corp.example/]sdns://AQMAAA'\n  - '[/a.example/]10.0.0.2'\n",
    );
    has(&left_out, &["iterate = false", "refused-domains = [\"corp.example\"]"]);
    assert!(!left_out.toml.contains("dns.example"), "{}", left_out.toml);
    let tls = adguard("dns:\n  upstream_dns: ['tls://192.0.2.1', 'tls://[2001:db8::1]:8853']\n");
    has(&tls, &["servers = [\"192.0.2.1@853#192.0.2.1\", \"[2001:db8::1]@8853#2001:db8::1\"]"]);
    // Private addresses have servers of their own.
    let private = adguard(
        "dns:\n  upstream_dns: [192.0.2.1]\n  use_private_ptr_resolvers: true\n  local_ptr_upstreams: [10.0.0.1]\n",
    );
    has(&private, &["domain = \"168.192.in-addr.arpa\"\nservers = [\"10.0.0.1\"]"]);
    assert_eq!(private.toml.matches("[[resolver.forward]]").count(), 25);
}

#[test]
fn encrypted_listeners_of_adguard_home_stay() {
    let hosts = "dns:\n  upstream_dns: [192.0.2.1]\n  bind_hosts: [192.0.2.9]\n";
    let found = adguard(&format!(
        "{hosts}tls:\n  enabled: true\n  server_name: dns.example.net\n  port_https: 443\n  port_dns_over_tls: 8853\n  \
         port_dns_over_quic: 0\n  certificate_path: /etc/tls/chain.pem\n  private_key_path: /etc/tls/key.pem\n"
    ));
    has(
        &found,
        &[
            "[[listen]]\naddr = [\"192.0.2.9@53\"]\n",
            "[[listen]]\naddr = [\"192.0.2.9@8853\"]\nproto = [\"tls\"]\n",
            "[[listen]]\naddr = [\"192.0.2.9@443\"]\nproto = [\"https\"]\n",
            "[[certificate]]\nchain = \"/etc/tls/chain.pem\"\nkey = \"/etc/tls/key.pem\"\n",
            "discovery-name = \"dns.example.net\"",
        ],
    );
    assert!(!found.is_less(), "{}", found.toml);
    let http3 = adguard(&format!(
        "{hosts}  serve_http3: true\ntls:\n  enabled: true\n  port_https: 8443\n  port_dns_over_tls: 0\n  \
         port_dns_over_quic: 0\n  certificate_path: /etc/tls/chain.pem\n  private_key_path: /etc/tls/key.pem\n"
    ));
    for proto in ["https", "h3"] {
        has(&http3, &[&format!("[[listen]]\naddr = [\"192.0.2.9@8443\"]\nproto = [\"{proto}\"]\n")]);
    }
    assert_eq!(outcomes(&http3, "serve_http3"), [Coverage::Translated]);
    let off = adguard(&format!("{hosts}  serve_http3: true\n"));
    assert!(
        !off.toml.contains("h3") && outcomes(&off, "serve_http3") == [Coverage::Unneeded],
        "{}",
        off.toml
    );
    let inline = adguard(&format!(
        "{hosts}  serve_plain_dns: false\ntls:\n  enabled: true\n  port_https: 0\n  port_dns_over_quic: 0\n  certificate_chain: abc\n  private_key: abc\n"
    ));
    assert_eq!(inline.toml.matches("[[listen]]").count(), 1, "{}", inline.toml);
    has(&inline, &["addr = [\"192.0.2.9@853\"]\nproto = [\"tls\"]"]);
    assert!(!inline.toml.contains("[[certificate]]"), "{}", inline.toml);
    assert_eq!(outcomes(&inline, "certificate_chain"), [Coverage::Missing]);
}

const PIHOLE: &str = r#"# Pi-hole configuration file (v6.0)
[dns]
  upstreams = [
    "192.0.2.53#5353",
    "2001:db8::53"
  ] ### CHANGED, default = []
  blockTTL = 5
  hosts = [ "192.0.2.10 printer", "192.0.2.11 nas.lan store.lan" ]
  expandHosts = true
  domain = "lan"
  domainNeeded = false
  bogusPriv = true
  dnssec = false
  interface = ""
  listeningMode = "LOCAL"
  queryLogging = true
  cnameRecords = [ "files.lan,nas.lan", "web.lan,nas.lan,300" ]
  port = 53
  revServers = [ "true,192.168.1.0/24,192.168.1.1,fritz.box" ]

  [dns.cache]
    size = 10000
    optimizer = 3600
  [dns.blocking]
    active = true
    mode = "NULL"
  [dns.specialDomains]
    mozillaCanary = true
    iCloudPrivateRelay = false
  [dns.rateLimit]
    count = 0
    interval = 0
[dhcp]
  active = false
[webserver]
  port = "80o"
[misc]
  privacylevel = 0
  dnsmasq_lines = []
"#;

const GRAVITY: &str = r#"PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE "group" (id INTEGER PRIMARY KEY AUTOINCREMENT, enabled BOOLEAN NOT NULL DEFAULT 1, name TEXT UNIQUE NOT NULL, description TEXT);
INSERT INTO "group" VALUES(0,1,'Default','The default group');
INSERT INTO "group" VALUES(1,1,'kids',NULL);
INSERT INTO "group" VALUES(2,0,'off',NULL);
INSERT INTO "group" VALUES(3,1,'empty',NULL);
CREATE TABLE adlist (id INTEGER PRIMARY KEY AUTOINCREMENT, address TEXT NOT NULL, enabled BOOLEAN NOT NULL DEFAULT 1, date_added INTEGER NOT NULL DEFAULT (cast(strftime('%s', 'now') as int)), comment TEXT, type INTEGER NOT NULL DEFAULT 0, UNIQUE(address, type));
INSERT INTO adlist VALUES(1,'https://lists.example/hosts.txt',1,1700000000,'it''s; mine',0);
INSERT INTO adlist VALUES(2,'https://lists.example/off.txt',0,1700000000,NULL,0);
INSERT INTO adlist VALUES(3,'https://lists.example/good.txt',1,1700000000,NULL,1);
CREATE TABLE domainlist (id INTEGER PRIMARY KEY AUTOINCREMENT, type INTEGER NOT NULL DEFAULT 0, domain TEXT NOT NULL, enabled BOOLEAN NOT NULL DEFAULT 1);
INSERT INTO domainlist VALUES(1,0,'good.example',1);
INSERT INTO domainlist VALUES(2,1,'bad.example',1);
INSERT INTO domainlist VALUES(3,2,'^ok[0-9]\.',1);
INSERT INTO domainlist VALUES(4,3,'(\.|^)evil\.example$',1);
INSERT INTO domainlist VALUES(5,3,'^ads/',1);
INSERT INTO domainlist VALUES(6,1,'games.example',1);
INSERT INTO domainlist VALUES(7,1,'nowhere.example',1);
INSERT INTO domainlist VALUES(8,0,'school.example',1);
INSERT INTO domainlist VALUES(9,1,'unused.example',1);
CREATE TABLE domainlist_by_group (domainlist_id INTEGER NOT NULL REFERENCES domainlist (id), group_id INTEGER NOT NULL, PRIMARY KEY (domainlist_id, group_id));
INSERT INTO domainlist_by_group VALUES(1,0);
INSERT INTO domainlist_by_group VALUES(2,0);
INSERT INTO domainlist_by_group VALUES(3,0);
INSERT INTO domainlist_by_group VALUES(4,0);
INSERT INTO domainlist_by_group VALUES(5,0);
INSERT INTO domainlist_by_group VALUES(6,1);
INSERT INTO domainlist_by_group VALUES(8,1);
INSERT INTO domainlist_by_group VALUES(9,3);
CREATE TABLE adlist_by_group (adlist_id INTEGER NOT NULL, group_id INTEGER NOT NULL);
INSERT INTO adlist_by_group VALUES(1,0);
INSERT INTO adlist_by_group VALUES(1,1);
INSERT INTO adlist_by_group VALUES(3,0);
CREATE TABLE client (id INTEGER PRIMARY KEY AUTOINCREMENT, ip TEXT NOT NULL UNIQUE);
INSERT INTO client VALUES(1,'192.0.2.96/30');
INSERT INTO client VALUES(2,'192.0.2.99');
INSERT INTO client VALUES(3,'192.0.2.100');
CREATE TABLE client_by_group (client_id INTEGER NOT NULL, group_id INTEGER NOT NULL);
INSERT INTO client_by_group VALUES(1,1);
INSERT INTO client_by_group VALUES(1,2);
INSERT INTO client_by_group VALUES(2,0);
COMMIT;
"#;

#[test]
fn pi_hole_keeps_its_servers_records_and_lists() {
    let files = [("/etc/pihole/pihole.toml", PIHOLE), ("/etc/pihole/gravity.sql", GRAVITY)];
    let found = of(PeerProgram::PiHole, &files);
    let expected = r#"[server]
state-dir = "/var/lib/nomen"

[[listen]]
addr = ["0.0.0.0@53", "[::]@53"]

[resolver]
serve-stale = "1h"
local-data = [
    "printer. 0 A 192.0.2.10",
    "printer.lan. 0 A 192.0.2.10",
    "10.2.0.192.in-addr.arpa. 0 PTR printer.lan.",
    "nas.lan. 0 A 192.0.2.11",
    "11.2.0.192.in-addr.arpa. 0 PTR nas.lan.",
    "store.lan. 0 A 192.0.2.11",
    "files.lan. 0 CNAME nas.lan.",
    "web.lan. 300 CNAME nas.lan.",
]
validate = false
refused-domains = ["168.192.in-addr.arpa"]

[[resolver.forward]]
domain = "."
servers = ["192.0.2.53@5353", "2001:db8::53"]

[[resolver.forward]]
domain = "1.168.192.in-addr.arpa"
servers = ["192.168.1.1"]

[[resolver.forward]]
domain = "fritz.box"
servers = ["192.168.1.1"]

[[resolver.access]]
action = "allow"
from = ["loopback", "attached"]

[policy]
block-ttl = "5s"
lists = ["own-names", "hosts.txt", "good.txt", "pihole-allowed", "pihole-blocked"]

[[policy.list]]
name = "own-names"
file = "/lists/own-names.txt"
format = "adblock"

[[policy.list]]
name = "hosts.txt"
url = "https://lists.example/hosts.txt"
refresh = "7d"
answer = "null"

[[policy.list]]
name = "good.txt"
url = "https://lists.example/good.txt"
refresh = "7d"
kind = "allow"

[[policy.list]]
name = "pihole-allowed"
file = "/lists/pihole-allowed.txt"
format = "adblock"
kind = "allow"

[[policy.list]]
name = "pihole-blocked"
file = "/lists/pihole-blocked.txt"
format = "adblock"
answer = "null"

[[policy.list]]
name = "pihole-blocked-1"
file = "/lists/pihole-blocked-1.txt"
format = "adblock"
answer = "null"

[[policy.list]]
name = "pihole-allowed-1"
file = "/lists/pihole-allowed-1.txt"
format = "adblock"
kind = "allow"

[[policy.group]]
name = "kids"
from = ["192.0.2.96/31", "192.0.2.98"]
lists = ["own-names", "hosts.txt", "pihole-blocked-1", "pihole-allowed-1"]

[[policy.group]]
name = "no group"
from = ["192.0.2.100"]
lists = ["own-names"]

[log]
queries = true
"#;
    assert_eq!(printed(&found), expected);
    assert_eq!(
        made(&found),
        [
            "/lists/own-names.txt: ||lan^$important |use-application-dns.net^$important",
            "/lists/pihole-allowed.txt: |good.example^ /^ok[0-9]\\./",
            "/lists/pihole-blocked.txt: |bad.example^ ||evil.example^ /^ads\\//",
            "/lists/pihole-blocked-1.txt: |games.example^",
            "/lists/pihole-allowed-1.txt: |school.example^",
        ]
    );
    assert_eq!(notable(&found), ["Differs size 10000", "Narrower ",]);
    let games =
        found.accounts.iter().find(|one| one.statement == "domainlist games.example").expect("reported");
    let span = games.span.as_ref().expect("it has a place");
    assert_eq!(found.texts[span.text].path, Path::new("/etc/pihole/gravity.sql"));
    assert_eq!(
        &found.texts[span.text].text[span.range.clone()],
        "INSERT INTO domainlist VALUES(6,1,'games.example',1)"
    );
}

/// Clients that nomen does not know may have any address: what they may not see is blocked for all others.
#[test]
fn groups_of_unknown_clients_count_for_all_others() {
    let unknown = GRAVITY.replace("192.0.2.96/30", "tablet.lan");
    let files = [("/etc/pihole/pihole.toml", PIHOLE), ("/etc/pihole/gravity.sql", unknown.as_str())];
    let found = of(PeerProgram::PiHole, &files);
    has(&found, &["\nlists = [\"own-names\", \"hosts.txt\", \"pihole-blocked\", \"pihole-blocked-1\"]\n"]);
    assert_eq!(outcomes(&found, "client tablet"), [Coverage::Narrower]);
    assert!(!found.toml.contains("name = \"kids\""), "{}", found.toml);
}

/// Clients by MAC address and by interface, as Pi-hole's page on per-client groups writes them.
#[test]
fn clients_of_pi_hole_by_mac_address_and_interface_are_groups_after_those_by_network() {
    for (client, from) in [
        ("AA:BB:CC:DD:EE:0F", "from = [\"mac:aa:bb:cc:dd:ee:0f\"]\n"),
        (":eth1", "from = [\"any\"]\ninterface = [\"eth1\"]\n"),
    ] {
        let moved = GRAVITY.replace("192.0.2.96/30", client);
        let files = [("/etc/pihole/pihole.toml", PIHOLE), ("/etc/pihole/gravity.sql", moved.as_str())];
        let found = of(PeerProgram::PiHole, &files);
        let names = found.toml.matches("name = \"no group\"\n").count();
        let (before, kids) = found.toml.split_once("name = \"kids\"\n").expect("a group");
        assert!(kids.starts_with(from), "{kids}");
        assert!(before.contains("from = [\"192.0.2.100\"]") && names == 1, "{before}");
        assert_eq!(outcomes(&found, &format!("client {client}")), [Coverage::Translated]);
    }
}

#[test]
fn pi_hole_5_keeps_its_servers_records_and_lists() {
    let vars = "PIHOLE_INTERFACE=eth0\nPIHOLE_DNS_1=192.0.2.53\nPIHOLE_DNS_2=192.0.2.54#54\nQUERY_LOGGING=false\n\
                DNS_FQDN_REQUIRED=false\nDNS_BOGUS_PRIV=true\nDNSSEC=true\nBLOCKING_ENABLED=true\nBLOCKINGMODE=NXDOMAIN\n\
                REV_SERVER=false\nWEBPASSWORD=abc\nDNSMASQ_LISTENING=all\nCACHE_SIZE=10000\n";
    let files = [
        ("/p/setupVars.conf", vars),
        ("/p/custom.list", "192.0.2.10 printer.lan\n# x\n"),
        ("/p/05-pihole-custom-cname.conf", "cname=files.lan,printer.lan\n"),
        ("/p/adlist.json", "[{\"id\":1,\"address\":\"https://lists.example/hosts\",\"enabled\":1}]"),
        (
            "/p/blacklist.exact.json",
            "[{\"id\":2,\"domain\":\"bad.example\",\"enabled\":1,\"type\":1},\n{\"id\":3,\"domain\":\"off.example\",\"enabled\":0}]",
        ),
        ("/p/whitelist.regex.json", "[{\"id\":4,\"domain\":\"(^|\\\\.)good\\\\.example$\",\"enabled\":1}]"),
    ];
    let found = of(PeerProgram::PiHole, &files);
    let expected = r#"[server]
state-dir = "/var/lib/nomen"

[[listen]]
addr = ["0.0.0.0@53", "[::]@53"]

[resolver]
serve-stale = "0s"
local-data = [
    "printer.lan. 0 A 192.0.2.10",
    "10.2.0.192.in-addr.arpa. 0 PTR printer.lan.",
    "files.lan. 0 CNAME printer.lan.",
]

[[resolver.forward]]
domain = "."
servers = ["192.0.2.53", "192.0.2.54@54"]

[[resolver.access]]
action = "allow"
from = ["any"]

[policy]
block-ttl = "2s"

[[policy.list]]
name = "hosts"
url = "https://lists.example/hosts"
refresh = "7d"

[[policy.list]]
name = "pihole-blocked"
file = "/lists/pihole-blocked.txt"
format = "adblock"

[[policy.list]]
name = "pihole-allowed"
file = "/lists/pihole-allowed.txt"
format = "adblock"
kind = "allow"

[log]
queries = false
"#;
    assert_eq!(printed(&found), expected);
    assert_eq!(
        made(&found),
        ["/lists/pihole-blocked.txt: |bad.example^", "/lists/pihole-allowed.txt: ||good.example^"]
    );
    assert_eq!(notable(&found), ["Differs PIHOLE_INTERFACE eth0", "Differs CACHE_SIZE 10000"]);
}

#[test]
fn pi_hole_without_its_lists_refuses_recursion() {
    let pihole = |more: &str| {
        let text = format!("[dns]\nupstreams = [\"192.0.2.1\"]\n{more}");
        of(PeerProgram::PiHole, &[("/p/pihole.toml", &text)])
    };
    let closed = "action = \"refuse\"\nfrom = [\"any\"]";
    has(&pihole(""), &[closed]);
    assert!(pihole("").is_less());
    let files =
        [("/p/pihole.toml", "[dns]\nupstreams = [\"192.0.2.1\"]\n"), ("/p/gravity.sql", "no such file\n")];
    has(&of(PeerProgram::PiHole, &files), &[closed]);
    let off = pihole("[dns.blocking]\nactive = false\n");
    assert!(!off.toml.contains(closed) && !off.is_less(), "{}", off.toml);
    let lines =
        pihole("[dns.blocking]\nactive = false\n[misc]\ndnsmasq_lines = [\"address=/x/192.0.2.1\"]\n");
    has(&lines, &[closed]);
    // The domain of the hosts is theirs alone, unless another server knows it.
    let own = |more: &str| pihole(&format!("domain = \"lan\"\n{more}[dns.blocking]\nactive = false\n"));
    assert_eq!(made(&own("")), ["/lists/own-names.txt: ||lan^$important"]);
    let router = own("revServers = [\"true,10.0.0.0/8,10.0.0.1,lan\"]\n");
    has(&router, &["domain = \"10.in-addr.arpa\"", "domain = \"lan\"\nservers = [\"10.0.0.1\"]"]);
    assert!(made(&router).is_empty(), "{:?}", made(&router));
    let unknown = pihole("frobnicate = 1\n[dns.blocking]\nactive = false\n");
    assert_eq!(outcomes(&unknown, "frobnicate"), [Coverage::Missing]);
}
