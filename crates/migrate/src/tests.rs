//! Typical configurations, and the outcomes of their statements.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;

mod dnsdist;
mod home;
mod keys;
mod limits;
mod narrow;
mod policy;
mod reference;
mod signing;
mod views;

/// Files in memory.
#[derive(Default)]
struct Memory(BTreeMap<PathBuf, String>);

impl Files for Memory {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let text = self.0.get(path).ok_or(io::Error::from(io::ErrorKind::NotFound))?;
        Ok(text.clone().into_bytes())
    }
    fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        let inside = self.0.keys().filter_map(|path| path.strip_prefix(folder).ok());
        Ok(inside.map(|path| path.display().to_string()).filter(|name| !name.contains('/')).collect())
    }
}

fn memory(files: &[(&str, &str)]) -> Memory {
    Memory(files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect())
}

fn of(program: PeerProgram, files: &[(&str, &str)]) -> Converted {
    convert(Path::new(files[0].0), Some(program), &memory(files), Path::new("/lists"))
        .unwrap_or_else(|e| panic!("{:?}", e.fault))
}

fn bind(text: &str) -> Converted {
    of(PeerProgram::Bind, &[("/etc/bind/named.conf", text)])
}

/// The outcomes of the statements that begin with `statement`.
fn outcomes(converted: &Converted, statement: &str) -> Vec<Coverage> {
    let found = converted.accounts.iter().filter(|account| account.statement.starts_with(statement));
    found.map(|account| account.outcome).collect()
}

fn has(converted: &Converted, lines: &[&str]) {
    for line in lines {
        assert!(converted.toml.contains(line), "{line} is not in:\n{}", converted.toml);
    }
}

fn fault(program: Option<PeerProgram>, text: &str) -> SyntaxFaultKind {
    let files = memory(&[("/c", text)]);
    convert(Path::new("/c"), program, &files, Path::new("")).expect_err("it is broken").fault.kind
}

const KEY: &str = r#"key "Xfer." { algorithm hmac-sha256; secret "c2VjcmV0"; };"#;

#[test]
fn zones_of_bind_keep_their_servers_and_clients() {
    let text = format!(
        r#"{KEY}
acl inside {{ !10.0.0.128/25; 10.0.0.0/24; }};
masters "up" port 5353 {{ 192.0.2.1 key xfer; 2001:db8::1 port 54; }};
server 192.0.2.9 {{ keys {{ xfer; }}; }};
options {{ directory "/var/cache/bind"; recursion no; listen-on port 5300 {{ 127.0.0.1; }}; listen-on-v6 {{ none; }};
  allow-transfer {{ inside; key xfer; }}; also-notify {{ 192.0.2.9; }}; notify explicit; }};
zone "Example.COM" IN {{ type master; file "../zones/com"; }};
zone "sec.example" {{ type slave; masters {{ up; }}; file "sec"; request-ixfr no; min-refresh-time 60; }};
zone "open.example" {{ type primary; file "/z/open"; allow-transfer {{ !{{ !192.0.2.0/24; any; }}; key xfer; }};
  update-policy {{ grant xfer subdomain dyn.open.example. A AAAA; deny xfer name open.example.; }}; }};
"#
    );
    let found = bind(&text);
    has(
        &found,
        &[
            "addr = [\"127.0.0.1@5300\"]",
            "name = \"example.com\"\nfile = \"/var/cache/zones/com\"",
            "allow-transfer = [\"10.0.0.0/25\",",
            "notify = [\"192.0.2.9 key:xfer\"]",
            "primaries = [\"192.0.2.1@5353 key:xfer\", \"[2001:db8::1]@54\"]",
            "ixfr = false",
            "min-refresh = \"1m\"",
            "allow-transfer = [\"192.0.2.0/24 key:xfer\"]",
            "update-policy = [\"grant key:xfer subdomain dyn.open.example. A AAAA\", \"deny key:xfer name open.example.\"]",
            "state-dir = \"/var/lib/nomen\"",
        ],
    );
    assert!(!found.toml.contains("[resolver]"));
    assert!(
        found.accounts.iter().all(|account| account.outcome != Coverage::Missing),
        "{:#?}",
        found.accounts
    );
}

#[test]
fn whoever_wants_reports_still_gets_them() {
    let found = bind("options { recursion no; send-report-channel Er.Example.NET.; };");
    has(&found, &["report-channel = \"er.example.net\""]);
    assert_eq!(outcomes(&found, "send-report-channel"), [Coverage::Translated]);
    let found = bind("options { recursion no; send-report-channel .; };");
    assert_eq!(outcomes(&found, "send-report-channel"), [Coverage::Unneeded]);
    assert!(!found.toml.contains("report-channel"), "{}", found.toml);
    let zone = "zone \"a.example\" { type primary; file \"a\"; send-report-channel er.example; };";
    let found = bind(&format!("options {{ recursion no; }}; {zone}"));
    assert_eq!(outcomes(&found, "send-report-channel"), [Coverage::Missing], "of one zone alone");
    let found = of(PeerProgram::Unbound, &[("/u/unbound.conf", "server:\n  dns-error-reporting: yes\n")]);
    has(&found, &["error-reporting = true"]);
    assert_eq!(outcomes(&found, "dns-error-reporting"), [Coverage::Translated]);
}

#[test]
fn recursion_of_bind_keeps_who_may_ask_and_whom_is_asked() {
    let found = bind(
        r#"options { allow-recursion { !10.9.0.0/16; 10/8; localnets; }; forwarders { 192.0.2.53; 192.0.2.54 port 5353; };
  forward only; max-cache-size 64m; max-cache-ttl 3600; min-cache-ttl 10; stale-answer-enable yes; max-stale-ttl 2d;
  dns64 64:ff9b::/96 { clients { any; }; exclude { ::ffff:0:0/96; }; }; dnssec-validation no; };
zone "corp.example" { type forward; forwarders { 10.0.0.1; }; forward only; };
zone "ad.example" { type static-stub; server-addresses { 10.0.0.2; }; };"#,
    );
    has(
        &found,
        &[
            "cache-size = \"64MiB\"",
            "validate = false",
            "max-ttl = \"1h\"",
            "min-ttl = \"10s\"",
            "serve-stale = \"2d\"",
            "dns64-prefix = \"64:ff9b::/96\"",
            "domain = \".\"\nservers = [\"192.0.2.53\", \"192.0.2.54@5353\"]",
            "domain = \"corp.example\"\nservers = [\"10.0.0.1\"]",
            "[[resolver.stub]]\ndomain = \"ad.example\"\nservers = [\"10.0.0.2\"]",
            "action = \"refuse\"\nfrom = [\"10.9.0.0/16\"]",
            "action = \"allow\"\nfrom = [\"10.0.0.0/8\", \"attached\"]",
        ],
    );
}

#[test]
fn what_bind_has_and_nomen_does_not_is_reported() {
    let found = bind(
        r#"options { recursion no; frobnicate yes; };
zone "signed.example" { type master; file "s"; auto-dnssec maintain; };
key old { algorithm hmac-md5; secret "c2VjcmV0"; };
zone "b.example" { type master; file "b"; allow-transfer { key old; }; };"#,
    );
    for statement in ["frobnicate yes", "auto-dnssec", "key old", "old"] {
        assert_eq!(outcomes(&found, statement), [Coverage::Missing], "{statement}");
    }
    // A rule for a missing key permits no client.
    assert!(!found.toml.contains("allow-transfer"), "{}", found.toml);
}

#[test]
fn includes_are_followed_from_the_folder_that_bind_is_in() {
    let files = [
        (
            "/etc/bind/named.conf",
            "options { directory \"/srv/dns\"; recursion no; };\ninclude \"zones/*.conf\";\n",
        ),
        ("/srv/dns/zones/a.conf", "zone a.example { type master; file \"db/a\"; };"),
        ("/srv/dns/zones/b.conf", "zone b.example { type master; file \"b\"; bogus; };"),
        ("/srv/dns/db/a", "$TTL 1h\n$INCLUDE more.inc\n"),
        ("/srv/dns/b", "$INCLUDE more.inc\n"),
    ];
    let found = of(PeerProgram::Bind, &files);
    has(&found, &["file = \"/srv/dns/db/a\"", "file = \"/srv/dns/b\""]);
    let bogus = found.accounts.iter().find(|account| account.statement == "bogus").expect("it is reported");
    let span = bogus.span.as_ref().expect("it has a place");
    assert_eq!(found.texts[span.text].path, Path::new("/srv/dns/zones/b.conf"));
    assert_eq!(&found.texts[span.text].text[span.range.clone()], "bogus");
    // Of both zones, the one in its own folder includes another file in nomen.
    assert_eq!(outcomes(&found, "$INCLUDE"), [Coverage::Differs]);
}

#[test]
fn patterns_of_nsd_are_part_of_their_zones() {
    let text = "server:\n  ip-address: 192.0.2.1@5353\n  zonesdir: /var/nsd\n  server-count: 4\n  nsid: \"ascii_ams1\"\n  rrl-ratelimit: 0\n\
key:\n name: k\n algorithm: hmac-sha512\n secret: \"c2VjcmV0\"\n\
pattern:\n name: \"cust\"\n zonefile: \"%z/%s.zone\"\n provide-xfr: 10.0.0.1-10.0.0.2 k\n provide-xfr: 10.0.0.2 BLOCKED\n notify: 10.0.0.1@54 k\n\
zone:\n name: a.example\n include-pattern: cust\n\
zone:\n name: b.example\n include-pattern: cust\n\
zone: name: c.example\n request-xfr: AXFR 192.0.2.9 NOKEY\n allow-notify: 192.0.2.9 NOKEY\n max-retry-time: 600\n";
    let found = of(PeerProgram::Nsd, &[("/etc/nsd/nsd.conf", text)]);
    has(
        &found,
        &[
            "workers = 4",
            "nsid = \"ams1\"",
            "addr = [\"192.0.2.1@5353\"]",
            "[template.cust]\nfile = \"/var/nsd/example/{zone}.zone\"\n",
            "allow-transfer = [\"10.0.0.1 key:k\"]",
            "notify = [\"10.0.0.1@54 key:k\"]",
            "name = \"a.example\"\ntemplate = \"cust\"",
            "primaries = [\"192.0.2.9\"]\nixfr = false\nallow-notify = [\"192.0.2.9\"]\nmax-retry = \"10m\"",
        ],
    );
    assert_eq!(outcomes(&found, "provide-xfr"), [Coverage::Translated; 2]);
}

#[test]
fn templates_of_knot_are_part_of_their_zones() {
    let text = "server:\n    listen: [ 192.0.2.1@53, ::1@5353 ]\n    user: knot:knot\n    automatic-acl: on\nkey:\n  - id: k\n    algorithm: hmac-sha256\n    secret: c2VjcmV0\n\
remote:\n  - id: up\n    address: [192.0.2.9@54, 2001:db8::9]\n    key: k\n  - id: down\n    address: 10.0.0.1\n\
acl:\n  - id: some\n    address: [10.1.0.0/16, 10.2.0.1-10.2.0.2]\n    action: transfer\n  - id: not\n    address: 10.1.1.0/24\n    deny: on\n  - id: upd\n    key: k\n    action: update\n    update-type: [A, AAAA]\n\
template:\n  - id: default\n    storage: /srv/zones\n    file: \"%s.db\"\n    acl: [not, some]\n  - id: sec\n    master: up\n\
zone:\n  - domain: a.example\n    notify: down\n  - domain: b.example\n    acl: upd\n    serial-policy: dateserial\n  - domain: c.example\n    template: sec\n  - domain: cat.example\n    template: sec\n    catalog-role: interpret\n    catalog-template: sec\nmod-rrl:\n  - id: x\n    rate-limit: 20\n";
    let found = of(PeerProgram::Knot, &[("/etc/knot/knot.conf", text)]);
    has(
        &found,
        &[
            "addr = [\"192.0.2.1@53\", \"[::1]@5353\"]",
            "user = \"knot\"\ngroup = \"knot\"",
            "name = \"a.example\"\nfile = \"/srv/zones/a.example.db\"\nnotify = [\"10.0.0.1\"]",
            "\"10.1.0.0/24\"",
            "\"10.2.0.2\"",
            "update-policy = [\"grant key:k zone A AAAA\"]",
            "serial-policy = \"date\"",
            "[template.sec]\nprimaries = [\"192.0.2.9@54 key:k\", \"2001:db8::9 key:k\"]",
            "catalog-template = \"sec\"",
        ],
    );
    assert!(!found.toml.contains("\"10.1.1.0"), "{}", found.toml);
    assert_eq!(outcomes(&found, "id x"), [Coverage::Unneeded]);
}

#[test]
fn unbound_keeps_its_rules_and_names() {
    let text = "server:\n  interface: 0.0.0.0\n  interface: 127.0.0.1\n  access-control: 10.0.0.0/8 allow\n  access-control: 10.9.0.0/16 refuse\n  num-threads: 2\n\
  local-zone: \"lan.\" redirect\n  local-data: \"lan. 60 A 192.0.2.5\"\n  local-data-ptr: \"192.0.2.5 host.lan\"\n  private-address: 10.0.0.0/8\n\
  msg-cache-size: 50m\n  rrset-cache-size: 100m\n  hide-version: yes\n  qname-minimisation-strict: yes\n  qname-minimisation: yes\n  ratelimit: 100\n\
forward-zone:\n  name: \".\"\n  forward-addr: 192.0.2.53@5353#dns.example\n\
forward-zone:\n  name: tls.example\n  forward-tls-upstream: yes\n  forward-addr: 192.0.2.54@853\n\
stub-zone:\n  name: corp.example\n  stub-addr: 10.0.0.1\n";
    let found = of(PeerProgram::Unbound, &[("/etc/unbound/unbound.conf", text)]);
    has(
        &found,
        &[
            "workers = 2",
            "addr = [\"0.0.0.0@53\"]",
            "version = \"hide\"",
            "cache-size = \"150MiB\"",
            "qname-minimisation = \"strict\"",
            "serve-stale = \"0s\"",
            "\"lan. 60 A 192.0.2.5\"",
            "\"*.lan. 60 A 192.0.2.5\"",
            "\"5.2.0.192.in-addr.arpa. PTR host.lan\"",
            "domain = \".\"\nservers = [\"192.0.2.53@5353\"]",
            "domain = \"corp.example\"",
        ],
    );
    // In the source the longest match decides, in nomen the first.
    let [refused, allowed] = ["10.9.0.0/16", "10.0.0.0/8\""].map(|text| found.toml.rfind(text).expect(text));
    assert!(refused < allowed, "{}", found.toml);
    // Names queried over TLS are not queried in the clear.
    has(&found, &["refused-domains = [\"lan\"]", "servers = [\"192.0.2.54@853#opportunistic\"]"]);
    assert_eq!(outcomes(&found, "ratelimit"), [Coverage::Missing]);
    assert_eq!(outcomes(&found, "forward-tls-upstream"), [Coverage::Translated]);
}

#[test]
fn who_validates_goes_on_and_who_does_not_goes_on_without() {
    let unbound = |text: &str| {
        let text = format!("server:\n  interface: 127.0.0.1\n{text}");
        of(PeerProgram::Unbound, &[("/etc/unbound/unbound.conf", &text)]).toml
    };
    let recursor = |text: &str| {
        let text = format!("local-address=127.0.0.1\nallow-from=127.0.0.0/8\n{text}\n");
        of(PeerProgram::Recursor, &[("/etc/powerdns/recursor.conf", &text)]).toml
    };
    let off = "validate = false";
    let anchor = "  auto-trust-anchor-file: \"/var/lib/unbound/root.key\"\n";
    // Without an anchor Unbound validates nothing.
    assert!(unbound("").contains(off));
    assert!(!unbound(anchor).contains(off));
    assert!(unbound(&format!("{anchor}  module-config: \"iterator\"\n")).contains(off));
    assert!(unbound(&format!("{anchor}  val-permissive-mode: yes\n")).contains(off));
    let insecure = unbound(&format!("{anchor}  domain-insecure: \"corp.example\"\n"));
    assert!(insecure.contains("negative-trust-anchors = [\"corp.example\"]"), "{insecure}");
    assert!(recursor("dnssec=off").contains(off) && recursor("dnssec=process-no-validate").contains(off));
    assert!(!recursor("dnssec=validate").contains(off) && !recursor("").contains(off));
    let except =
        bind("options { recursion yes; dnssec-validation auto; validate-except { corp.example; }; };").toml;
    assert!(
        except.contains("negative-trust-anchors = [\"corp.example\"]") && !except.contains(off),
        "{except}"
    );
}

/// DS of another zone, in the formats of `unbound-anchor` and `named.conf`.
const OTHER_DS: &str = "60485 13 2 2BB183AF5F22588179A53B0A98631FAD1A292118AB2D5E9F5D6B5C1C6D6E2B3A";
const ROOT_DS: &str = "20326 8 2 E06D44B80B8F1D39A95C0B0D7C65D08458E880409BBC683457104237C7F8EC8D";
const ROOT_KEY: &str = "257 3 8 AwEAAaz/tAm8yTn4Mfeh5eyI96WSVexTBAvkMgJzkKTOiW1vkIbzxeF3+/4RgWOq7HrxRixHlFlExOLAJr5emLvN7SWXgnLh4+B5xQlNVz8Og8kvArMtNROxVQuCaSnIDdD5LKyWbRd2n9WGe2R8PzgCmr3EgVLrjyBxWezF0jLHwVN8efS3rCj/EWgvIWgb9tarpVUDK/b58Da+sqqls3eNbuv7pr+eoZG+SrDK6nWeL3c6H5Apxz7LjVc1uTIdsIXxuOLYA4/ilBmSVIzuDWfdRUfhHdY6+cn8HFRm+2hM8AnXGXws9555KrUB5qihylGa8subX2Nn6UwNR1AkUTV74bU=";

#[test]
fn the_anchors_of_the_public_root_are_not_written() {
    let key =
        format!("trust-anchors {{ . initial-key {}; . initial-ds {}; }};", quoted(ROOT_KEY), quoted(ROOT_DS));
    let found = bind(&format!("options {{ recursion yes; dnssec-validation yes; }}; {key}"));
    assert!(!found.toml.contains("trust-anchors") && !found.toml.contains("validate"), "{}", found.toml);
    assert_eq!(outcomes(&found, ". initial-key"), [Coverage::Unneeded]);
    // Without an anchor, `yes` validates nothing.
    has(&bind("options { recursion yes; dnssec-validation yes; };"), &["validate = false"]);
    assert!(!bind("options { recursion yes; };").toml.contains("validate"));
}

/// Quotes the last word, as in BIND.
fn quoted(data: &str) -> String {
    let (numbers, last) = data.rsplit_once(' ').expect("words");
    format!("{numbers} \"{last}\"")
}

#[test]
fn anchors_of_other_zones_are_written_beside_those_of_the_root() {
    let own = format!("trust-anchors {{ corp.example static-ds {}; }};", quoted(OTHER_DS));
    let line = format!("corp.example. DS {OTHER_DS}");
    let auto = bind(&format!("options {{ recursion yes; }}; {own}"));
    has(&auto, &[&line, &format!(". DS {ROOT_DS}"), ". DS 38696 8 2 683D"]);
    let alone = bind(&format!("options {{ recursion yes; dnssec-validation yes; }}; {own}"));
    has(&alone, &[&line]);
    assert!(!alone.toml.contains(ROOT_DS), "{}", alone.toml);
    // An unusable anchor is reported: of an unsupported type or algorithm, revoked, or too short.
    for bad in [
        "a static-ds 1 13 9 \"00\"",
        "a static-key 385 3 8 \"AwEAAQ==\"",
        "a static-key 257 3 3 \"AwEAAQ==\"",
        "a static-ds 1 13 2 \"00\"",
    ] {
        let found = bind(&format!("options {{ recursion yes; }}; trust-anchors {{ {bad}; }};"));
        assert_eq!(outcomes(&found, "a static"), [Coverage::Missing], "{bad}");
        assert!(!found.toml.contains("trust-anchors"), "{bad}");
    }
}

#[test]
fn anchors_in_files_are_read() {
    let root = format!(
        "; autotrust trust anchor file\n.\t172800\tIN\tDNSKEY\t{ROOT_KEY} ;{{id = 20326}} ;;state=2 [  VALID  ]\n"
    );
    let pending = format!("corp.example. 60 IN DS {OTHER_DS} ;;state=1 [ ADDPEND ]\n");
    let conf = "server:\n  auto-trust-anchor-file: \"/k/root.key\"\n";
    let of_files = |root: &str, conf: &str| {
        of(
            PeerProgram::Unbound,
            &[
                ("/etc/unbound/unbound.conf", conf),
                ("/k/root.key", root),
                (
                    "/k/bind",
                    &format!("trusted-keys {{ \"corp.example\" {}; }};", quoted("257 3 13 AwEAAQ==")),
                ),
            ],
        )
    };
    assert!(!of_files(&root, conf).toml.contains("trust-anchors"));
    assert!(
        !of_files(&(root.clone() + &pending), conf).toml.contains("corp"),
        "a key that is not trusted yet"
    );
    let both =
        of_files(&format!("{root}corp.example. IN DS (\n 60485 13 2\n {} ) ; x\n", &OTHER_DS[11..]), conf);
    has(&both, &[&format!("corp.example. DS {OTHER_DS}"), ". DNSKEY 257 3 8 AwEAAaz/"]);
    let more =
        format!("{conf}  trust-anchor: \"a.example. DS {OTHER_DS}\"\n  trusted-keys-file: \"/k/b*\"\n");
    has(
        &of_files(&root, &more),
        &[&format!("a.example. DS {OTHER_DS}"), "corp.example. DNSKEY 257 3 13 AwEAAQ=="],
    );
    let gone = of(PeerProgram::Unbound, &[("/etc/unbound/unbound.conf", conf)]);
    assert_eq!(outcomes(&gone, "auto-trust"), [Coverage::Differs]);
    assert!(!gone.toml.contains("validate"), "{}", gone.toml);
}

#[test]
fn anchors_in_lua_are_read_and_other_lua_is_not() {
    let lua = format!(
        "-- mine\naddTA('corp.example', \"{OTHER_DS}\")\naddNTA(\"bad.example\", 'broken')\npcall(x)\n"
    );
    let files = |conf| [("/etc/powerdns/recursor.conf", conf), ("/etc/powerdns/r.lua", lua.as_str())];
    let found =
        of(PeerProgram::Recursor, &files("local-address=127.0.0.1\nlua-config-file=/etc/powerdns/r.lua\n"));
    has(&found, &[&format!("corp.example. DS {OTHER_DS}"), "negative-trust-anchors = [\"bad.example\"]"]);
    assert!(outcomes(&found, "lua-config-file").contains(&Coverage::Missing));
    let off = of(PeerProgram::Recursor, &files("dnssec=off\nlua-config-file=/etc/powerdns/r.lua\n"));
    assert!(!off.toml.contains("corp.example"), "{}", off.toml);
}

#[test]
fn copies_of_messages_go_where_they_went() {
    let of_bind = |more: &str| bind(&format!("options {{ directory \"/d\"; recursion no; {more} }};"));
    let found = of_bind(
        "dnstap { auth; client response; }; dnstap-output unix \"tap.sock\"; dnstap-identity none; dnstap-version \"v\";",
    );
    has(
        &found,
        &[
            "[dnstap]\nsocket = \"/d/tap.sock\"\nmessages = [\"auth-query\", \"auth-response\", \"client-response\"]\nidentity = \"hide\"\nversion = \"v\"\n",
        ],
    );
    let all =
        of_bind("dnstap { all; }; dnstap-output file \"/t\" size 20m versions 3; dnstap-identity hostname;");
    has(&all, &["[dnstap]\nfile = \"/t\"\n"]);
    assert!(!all.toml.contains("messages"), "{}", all.toml);
    assert_eq!(outcomes(&all, "dnstap-output"), [Coverage::Differs]);
    assert_eq!(outcomes(&of_bind("dnstap { all; };"), "dnstap"), [Coverage::Missing]);

    let unbound = "server:\n interface: 127.0.0.1\ndnstap:\n dnstap-enable: yes\n dnstap-socket-path: \"/t\"\n dnstap-send-identity: yes\n dnstap-log-client-query-messages: yes\n dnstap-log-resolver-response-messages: yes\n dnstap-sample-rate: 10\n";
    has(
        &of(PeerProgram::Unbound, &[("/u", unbound)]),
        &[
            "[dnstap]\nsocket = \"/t\"\nmessages = [\"client-query\", \"auth-query\", \"resolver-response\"]\nversion = \"hide\"\nsample = 10\n",
        ],
    );
    let tcp = unbound.to_owned() + " dnstap-ip: 192.0.2.1\n";
    let tcp = of(PeerProgram::Unbound, &[("/u", &tcp)]);
    assert!(
        !tcp.toml.contains("[dnstap]") && outcomes(&tcp, "dnstap-ip") == [Coverage::Missing],
        "{}",
        tcp.toml
    );
    let nsd = "server:\n ip-address: 192.0.2.1\ndnstap:\n dnstap-enable: yes\n dnstap-socket-path: /t\n dnstap-log-auth-response-messages: yes\n";
    has(
        &of(PeerProgram::Nsd, &[("/n", nsd)]),
        &["[dnstap]\nsocket = \"/t\"\nmessages = [\"auth-response\"]\n"],
    );
    let knot = "mod-dnstap:\n  - id: x\n    sink: unix:/t\n    log-responses: off\n  - id: y\n    sink: /other\ntemplate:\n  - id: default\n    global-module: mod-dnstap/x\nzone:\n  - domain: a\n";
    let knot = of(PeerProgram::Knot, &[("/k", knot)]);
    has(&knot, &["[dnstap]\nsocket = \"/t\"\nmessages = [\"auth-query\", \"update-query\"]\n"]);
    assert!(knot.accounts.iter().all(|account| account.outcome != Coverage::Missing), "{:#?}", knot.accounts);
}

#[test]
fn catalog_zones_of_knot_are_made_and_taken() {
    let text = r#"
remote:
  - id: up
    address: 192.0.2.1
acl:
  - id: xfr
    address: 10.0.0.0/8
    action: transfer
template:
  - id: default
    storage: /z
  - id: listed
    storage: /z
    catalog-role: member
    catalog-zone: cat.example.
    catalog-group: gold
  - id: one
    master: up
  - id: two
    master: up
    zonemd-verify: on
zone:
  - domain: cat.example
    catalog-role: generate
    acl: xfr
  - domain: a.example
    template: listed
  - domain: b.example
    template: listed
    zonefile-load: difference
  - domain: lost.example
    catalog-role: member
    catalog-zone: nowhere.example
  - domain: taken.example
    master: up
    catalog-role: interpret
    catalog-template: [one, two]
"#;
    let found = of(PeerProgram::Knot, &[("/etc/knot/knot.conf", text)]);
    has(
        &found,
        &[
            "state-dir = \"/var/lib/nomen\"",
            "name = \"cat.example\"\nallow-transfer = [\"10.0.0.0/8\"]\ncatalog-produce = true\n",
            "name = \"a.example\"\nfile = \"/z/a.example.zone\"\ncatalog-member = \"cat.example\"\ncatalog-group = \"gold\"\n",
            "ixfr-from-differences = true",
            "catalog-template = \"one\"\ncatalog-groups = { one = \"one\", two = \"two\" }\n",
            "[template.two]\nprimaries = [\"192.0.2.1\"]\nzonemd = \"require\"\n",
        ],
    );
    assert!(!found.toml.contains("nowhere.example"), "{}", found.toml);
    assert!(found.accounts.iter().any(|account| account.words.contains("no catalog zone nowhere.example")));
    assert!(
        found.accounts.iter().all(|account| account.outcome != Coverage::Missing),
        "{:#?}",
        found.accounts
    );
}

#[test]
fn catalog_zones_of_nsd_are_made_and_taken() {
    let text = "server:\n ip-address: 192.0.2.1\n zonesdir: /z\npattern:\n name: m\n request-xfr: 192.0.2.9 NOKEY\npattern:\n name: l\n zonefile: \"%z/%s\"\n catalog-producer-zone: cat.example\n create-ixfr: yes\n ixfr-size: 4194304\n\
zone:\n name: cat.example\n catalog: producer\n provide-xfr: 10.0.0.0/8 NOKEY\nzone:\n name: a.example\n include-pattern: l\n\
zone:\n name: taken.example\n request-xfr: 192.0.2.9 NOKEY\n catalog: consumer\n catalog-member-pattern: m\n";
    let found = of(PeerProgram::Nsd, &[("/etc/nsd/nsd.conf", text)]);
    has(
        &found,
        &[
            "[template.m]\nprimaries = [\"192.0.2.9\"]\n",
            "name = \"cat.example\"\nallow-transfer = [\"10.0.0.0/8\"]\ncatalog-produce = true\n",
            "file = \"/z/example/a.example\"\nixfr-from-differences = true\njournal-size = \"4MiB\"\ncatalog-member = \"cat.example\"\n",
            "catalog-template = \"m\"",
        ],
    );
    assert!(
        found.accounts.iter().all(|account| account.outcome != Coverage::Missing || account.span.is_none()),
        "{:#?}",
        found.accounts
    );
}

#[test]
fn updates_that_were_passed_on_are_passed_on() {
    let found = bind(
        "options { recursion no; allow-update-forwarding { 10.0.0.0/8; }; ixfr-from-differences primary; };\n\
         zone a.example { type secondary; primaries { 192.0.2.1; }; };\n\
         zone b.example { type secondary; primaries { 192.0.2.1; }; allow-update-forwarding { none; }; };\n\
         zone c.example { type primary; file \"/c\"; };\nzone d.example { type primary; file \"/d\"; ixfr-from-differences no; };",
    );
    has(
        &found,
        &[
            "primaries = [\"192.0.2.1\"]\nforward-updates = [\"10.0.0.0/8\"]\n",
            "name = \"c.example\"\nfile = \"/c\"\nixfr-from-differences = true\n",
            "name = \"d.example\"\nfile = \"/d\"\nixfr-from-differences = false\n",
            "state-dir",
        ],
    );
    assert_eq!(found.toml.matches("forward-updates").count(), 1, "{}", found.toml);
    let knot = "remote:\n  - id: up\n    address: 192.0.2.1\nacl:\n  - id: u\n    address: 10.0.0.1\n    action: update\n  - id: few\n    address: 10.0.0.2\n    action: update\n    update-type: A\nzone:\n  - domain: a\n    master: up\n    acl: [u, few]\n";
    let knot = of(PeerProgram::Knot, &[("/k", knot)]);
    has(&knot, &["forward-updates = [\"10.0.0.1\"]"]);
    assert!(outcomes(&knot, "id few").contains(&Coverage::Missing));
    let pdns = [
        ("/p", "launch=bind\nbind-config=/n\ndnsupdate=yes\nallow-dnsupdate-from=10.0.0.0/8\n"),
        (
            "/n",
            "zone a { type slave; file \"a\"; masters { 192.0.2.1; }; };\nzone b { type native; file \"b\"; };\n",
        ),
    ];
    let pdns = of(PeerProgram::PowerDns, &pdns);
    assert_eq!(pdns.toml.matches("forward-updates = [\"10.0.0.0/8\"]").count(), 1, "{}", pdns.toml);
}

/// Permits every client, in Unbound's syntax.
const ALL: &str = " access-control: 0.0.0.0/0 allow\n access-control: ::/0 allow\n";

#[test]
fn digests_are_looked_at_as_they_were() {
    let zone = |more: &str| {
        let text =
            format!("server:\n interface: 127.0.0.1\n{ALL}auth-zone:\n name: a\n primary: 192.0.2.1\n{more}");
        of(PeerProgram::Unbound, &[("/u", &text)]).toml
    };
    assert!(zone(" zonemd-check: yes\n").contains("zonemd = \"verify\""));
    assert!(zone(" zonemd-check: yes\n zonemd-reject-absence: yes\n").contains("zonemd = \"require\""));
    assert!(zone(" zonemd-check: no\n").contains("zonemd = \"off\""));
    assert!(!zone("").contains("zonemd"));
}

#[test]
fn powerdns_takes_zones_from_its_bind_backend() {
    let files = [
        (
            "/etc/powerdns/pdns.conf",
            "launch=bind\nbind-config=/etc/powerdns/named.conf\nlocal-address=192.0.2.1, [::1]:5353\nallow-axfr-ips=10.0.0.0/8\nprimary=yes\nalso-notify=10.0.0.1:54\ninclude-dir=/etc/powerdns/pdns.d\n",
        ),
        (
            "/etc/powerdns/named.conf",
            "options { directory \"/srv\"; };\nzone \"a.example\" { type native; file \"a\"; };\nzone \"b.example\" { type slave; file \"b\"; masters { 192.0.2.9; }; };\n",
        ),
        ("/etc/powerdns/pdns.d/x.conf", "gmysql-host=db\nsetuid=pdns\nserver-id=x1\n"),
    ];
    let found = of(PeerProgram::PowerDns, &files);
    has(
        &found,
        &[
            "addr = [\"192.0.2.1@53\", \"[::1]@5353\"]",
            "user = \"pdns\"",
            "nsid = \"x1\"",
            "name = \"a.example\"\nfile = \"/srv/a\"\nallow-transfer = [\"10.0.0.0/8\"]\nnotify = [\"10.0.0.1@54\"]",
            "primaries = [\"192.0.2.9\"]",
        ],
    );
    assert_eq!(outcomes(&found, "gmysql-host"), [Coverage::Missing]);
}

#[test]
fn the_recursor_of_powerdns_keeps_its_rules() {
    let text = "local-address=127.0.0.1\nlocal-port=5300\nallow-from=10.0.0.0/8\nforward-zones=corp.example=10.0.0.1;10.0.0.2, +net.example=10.0.0.3\nforward-zones-recurse=.=192.0.2.53\nthreads=3\nquiet=yes\n";
    let found = of(PeerProgram::PowerDns, &[("/etc/powerdns/recursor.conf", text)]);
    assert_eq!(found.program, PeerProgram::Recursor);
    has(
        &found,
        &[
            "workers = 3",
            "addr = [\"127.0.0.1@5300\"]",
            "[[resolver.stub]]\ndomain = \"corp.example\"\nservers = [\"10.0.0.1\", \"10.0.0.2\"]",
            "domain = \"net.example\"",
            "domain = \".\"",
            "from = [\"10.0.0.0/8\"]",
        ],
    );
}

/// Reads the example files of the other programs, if installed; in files of commented-out examples,
/// uncomments all.
#[test]
fn the_peers_own_examples_are_read() {
    for (path, program, examples) in [
        ("/etc/bind/named.conf", PeerProgram::Bind, false),
        ("/usr/share/doc/nsd/examples/nsd.conf.sample", PeerProgram::Nsd, true),
        ("/etc/knot/knot.conf", PeerProgram::Knot, false),
        ("/usr/share/doc/unbound/examples/unbound.conf", PeerProgram::Unbound, true),
        ("/etc/powerdns/pdns.conf", PeerProgram::PowerDns, false),
        ("/etc/powerdns/recursor.conf", PeerProgram::Recursor, false),
    ] {
        let text = match OsFiles.read(Path::new(path)) {
            Ok(text) => text,
            Err(error) => {
                testkit::left_out(&format!("{path} cannot be read: {error}"));
                continue;
            }
        };
        let found = if examples {
            let text = String::from_utf8(text).expect("text");
            of(program, &[("/c", &uncommented(&text))])
        } else {
            convert(Path::new(path), Some(program), &OsFiles, Path::new(""))
                .unwrap_or_else(|e| panic!("{path}: {:?}", e.fault))
        };
        assert_eq!(found.program, program, "{path}");
        // Supported statements are in nomen's configuration.
        const DOES: [&str; 17] = [
            "trust-anchor",
            "trust-anchor-file",
            "trusted-keys-file",
            "auto-trust-anchor-file",
            "dnstap-enable",
            "dnstap-socket-path",
            "zonemd-check",
            "create-ixfr",
            "aggressive-nsec",
            "trust-anchor-signaling",
            "root-key-sentinel",
            "val-bogus-ttl",
            "val-nsec3-keysize-iterations",
            "infra-cache-min-rtt",
            "neg-cache-size",
            "do-tcp",
            "root-hints",
        ];
        for account in &found.accounts {
            let key = account.statement.split(' ').next().unwrap_or_default();
            assert!(account.outcome != Coverage::Missing || !DOES.contains(&key), "{path}: {account:?}");
        }
    }
}

/// Uncomments every `# key: value`.
fn uncommented(text: &str) -> String {
    let key = |text: &str| {
        let (key, value) = text.split_once(": ")?;
        let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let include = key.starts_with("include");
        (!include
            && key.starts_with(|c: char| c.is_ascii_lowercase())
            && key.bytes().all(good)
            && !value.trim().is_empty())
        .then_some(())
    };
    let line = |line: &str| {
        let bare = line.trim_start().trim_start_matches('#').trim_start();
        let section = bare
            .strip_suffix(':')
            .is_some_and(|name| unbound::SECTIONS.contains(&name) || nsd::SECTIONS.contains(&name));
        if key(bare).is_some() || section { bare.to_owned() + "\n" } else { "\n".to_owned() }
    };
    text.lines().map(line).collect()
}

#[test]
fn the_program_is_known_by_its_text() {
    for (text, program) in [
        ("options {\n recursion no;\n};\n", PeerProgram::Bind),
        ("server:\n zonesdir: /x\nzone:\n name: a\n zonefile: b\n", PeerProgram::Nsd),
        ("server:\n    listen: 127.0.0.1@53\nzone:\n  - domain: a\n", PeerProgram::Knot),
        ("server:\n interface: 127.0.0.1\nforward-zone:\n name: .\n", PeerProgram::Unbound),
        ("launch=bind\nlocal-port=5300\n", PeerProgram::PowerDns),
        ("forward-zones=a=b\n", PeerProgram::Recursor),
        ("dns:\n  bind_hosts:\n    - 0.0.0.0\nschema_version: 29\n", PeerProgram::AdGuard),
        ("[dns]\n  upstreams = [ \"192.0.2.1\" ]\n", PeerProgram::PiHole),
        ("PIHOLE_INTERFACE=eth0\nPIHOLE_DNS_1=192.0.2.1\n", PeerProgram::PiHole),
    ] {
        let converted = convert(Path::new("/c"), None, &memory(&[("/c", text)]), Path::new(""));
        assert_eq!(converted.map(|found| found.program).map_err(|e| e.fault), Ok(program), "{text}");
    }
    assert_eq!(fault(None, "hello world\n"), SyntaxFaultKind::UnknownKind);
}

#[test]
fn broken_texts_are_refused_with_their_fault() {
    use SyntaxFaultKind::*;
    let bind = Some(PeerProgram::Bind);
    assert_eq!(fault(bind, "options { recursion no; "), OpenBlock);
    assert_eq!(fault(bind, "options { recursion no }"), NoSemicolon);
    assert_eq!(fault(bind, "};"), StrayBrace);
    assert_eq!(fault(bind, "key \"a"), OpenString);
    assert_eq!(fault(bind, "/* x"), OpenComment);
    assert_eq!(fault(bind, "include \"/c\";"), IncludesItself("/c".into()));
    assert_eq!(fault(bind, "include \"/d\";"), CannotRead("/d".into(), io::ErrorKind::NotFound));
    assert_eq!(fault(bind, &"{".repeat(100)), TooDeep);
    let nsd = Some(PeerProgram::Nsd);
    assert_eq!(fault(nsd, "port: 53"), NoSection("port".into()));
    assert_eq!(fault(nsd, "server:\n \"x\n"), OpenString);
    assert_eq!(fault(nsd, "53"), NoKeyword);
    let knot = Some(PeerProgram::Knot);
    assert_eq!(fault(knot, "  a: b\n"), NoSection("a".into()));
    assert_eq!(fault(knot, "zone:\n  - domain: a\n - domain: b\n"), Indentation);
    assert_eq!(fault(knot, "zone:\n  - domain: [a, b\n"), OpenBlock);
    assert!(matches!(fault(knot, "zone: {a: b}\n"), Yaml(_)));
    assert_eq!(fault(Some(PeerProgram::PowerDns), "launch\n"), NoValue("launch".into()));
}

#[test]
fn a_statement_that_begins_beyond_ascii_and_ends_in_a_block_was_shown_from_within_a_letter() {
    let text = "options { \u{69a}x { a; } };";
    let files = memory(&[("/c", text)]);
    let fault = convert(Path::new("/c"), Some(PeerProgram::Bind), &files, Path::new(""))
        .expect_err("it is broken")
        .fault;
    let shown = fault.span.and_then(|span| text.get(span.range));
    assert_eq!((fault.kind, shown), (SyntaxFaultKind::NoSemicolon, Some("\u{69a}x")));
}

/// Keywords of all syntaxes, and unknown words.
const WORDS: &[&str] = &[
    "options",
    "zone",
    "view",
    "acl",
    "key",
    "type",
    "master",
    "slave",
    "file",
    "a.example",
    "b.example",
    "masters",
    "10.0.0.0/8",
    "any",
    "none",
    "!",
    "recursion",
    "yes",
    "no",
    "allow-transfer",
    "forwarders",
    "192.0.2.1",
    "frob",
    "server:",
    "interface:",
    "zone:",
    "name:",
    "pattern:",
    "include-pattern:",
    "zonefile:",
    "request-xfr:",
    "access-control:",
    "allow",
    "forward-zone:",
    "forward-addr:",
    "remote:",
    "template:",
    "- id:",
    "- domain:",
    "x",
    "master:",
    "acl:",
    "listen:",
    "launch=bind",
    "local-address=::1",
    "forward-zones=a=10.0.0.1",
    "\"q\"",
    "logging",
    "channel",
    "category",
    "controls",
    "dns64",
    "64:ff9b::/96",
    "min-refresh-time",
    "99999999999",
    "update-policy",
    "grant",
    "subdomain",
    "local-data:",
    "\"a. A 192.0.2.1\"",
    "catalog-zones",
    "dns:",
    "upstream_dns: [192.0.2.1]",
    "user_rules:",
    "- '||a.example^'",
    "filters: [{url: https://a.example/l}]",
    "[dns]",
    "hosts = [\"192.0.2.1 a\"]",
    "PIHOLE_DNS_1=192.0.2.1",
    "storage:",
    "cache-max-ttl:",
    "5",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Whatever a configuration contains, each statement has an outcome (`convert` asserts it in tests), and
    /// each span is within its text.
    #[test]
    fn every_statement_has_an_account(
        words in prop::collection::vec((0..WORDS.len(), 0usize..9), 0..40),
        program in 0usize..8,
    ) {
        let marks = [" ", " ", " ", "; ", " { ", " }; ", "\n", "\n  ", "\n    "];
        let text: String = words.iter().map(|(word, mark)| WORDS[*word].to_owned() + marks[*mark]).collect();
        let programs = [
            PeerProgram::Bind, PeerProgram::Nsd, PeerProgram::Knot, PeerProgram::Unbound, PeerProgram::PowerDns,
            PeerProgram::Recursor, PeerProgram::AdGuard, PeerProgram::PiHole,
        ];
        if let Ok(found) = convert(Path::new("/c"), Some(programs[program]), &memory(&[("/c", &text)]), Path::new("")) {
            for account in &found.accounts {
                prop_assert!(!account.words.is_empty());
                if let Some(span) = &account.span {
                    prop_assert!(found.texts[span.text].text.get(span.range.clone()).is_some());
                }
            }
        }
    }

    /// An unknown keyword is reported as missing, with its place.
    #[test]
    fn an_unknown_statement_is_reported(program in 0usize..4, key in "qq[a-z]{3,8}") {
        let (program, text) = match program {
            0 => (PeerProgram::Bind, format!("options {{ recursion no; {key} 1; }};")),
            1 => (PeerProgram::Nsd, format!("server:\n {key}: 1\n")),
            2 => (PeerProgram::Knot, format!("server:\n  {key}: 1\n")),
            _ => (PeerProgram::Unbound, format!("server:\n {key}: 1\n")),
        };
        let found = of(program, &[("/c", &text)]);
        let account = found.accounts.iter().find(|account| account.statement.starts_with(&key));
        prop_assert_eq!(account.map(|account| account.outcome), Some(Coverage::Missing));
    }
}

#[test]
fn a_copy_of_the_root_for_recursion_stays_one() {
    let unbound = |more: &str| {
        let text =
            format!("server:\n interface: 127.0.0.1\nauth-zone:\n name: \".\"\n for-downstream: no\n{more}");
        of(PeerProgram::Unbound, &[("/u", &text)])
    };
    let taken = unbound(
        " fallback-enabled: yes\n primary: 192.0.2.1\n primary: 2001:db8::1@54\n zonefile: r\n zonemd-check: yes\n",
    );
    has(
        &taken,
        &[
            "local-root = true\n",
            "local-root-primaries = [\"192.0.2.1\", \"[2001:db8::1]@54\"]\n",
            "state-dir",
        ],
    );
    assert!(!taken.toml.contains("[[zone]]") && !taken.toml.contains("local-root-file"), "{}", taken.toml);
    assert_eq!(outcomes(&taken, "fallback-enabled"), [Coverage::Unneeded]);
    assert_eq!(
        outcomes(&unbound(" primary: 192.0.2.1\n fallback-enabled: no\n"), "fallback-enabled"),
        [Coverage::Differs]
    );
    has(&unbound(" zonefile: /root.zone\n"), &["local-root = true\n", "local-root-file = \"/root.zone\"\n"]);
    for without in [
        " url: https://www.internic.net/domain/root.zone\n zonefile: r\n",
        " primary: b.root-servers.net\n",
        " primary: 192.0.2.1\nforward-zone:\n name: .\n forward-addr: 192.0.2.53\n",
        " primary: 192.0.2.1\n for-upstream: no\n",
    ] {
        assert!(!unbound(without).toml.contains("local-root"), "{without}");
    }
    let other =
        "server:\n interface: 127.0.0.1\nauth-zone:\n name: a\n for-downstream: no\n primary: 192.0.2.1\n";
    assert_eq!(outcomes(&of(PeerProgram::Unbound, &[("/u", other)]), "auth-zone"), [Coverage::Missing]);
    let bind = |options: &str, zone: &str| {
        let text = format!("options {{ {options} }};\nzone {zone};\n");
        of(PeerProgram::Bind, &[("/n", &text)])
    };
    let mirror = bind("", "\".\" { type mirror; }");
    has(&mirror, &["local-root = true\n", "state-dir"]);
    assert!(!mirror.toml.contains("local-root-primaries"), "{}", mirror.toml);
    has(
        &bind("", "\".\" { type mirror; primaries { 192.0.2.1 port 54; }; }"),
        &["local-root-primaries = [\"192.0.2.1@54\"]\n"],
    );
    for (options, zone) in [
        ("recursion no;", "\".\" { type mirror; }"),
        ("", "\"a\" { type mirror; primaries { 192.0.2.1; }; }"),
    ] {
        assert!(!bind(options, zone).toml.contains("local-root"), "{zone}");
    }
}
