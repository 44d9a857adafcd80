//! Configurations as operators write them, and what becomes of each statement.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;

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
    convert(Path::new(files[0].0), Some(program), &memory(files)).unwrap_or_else(|e| panic!("{:?}", e.fault))
}

fn bind(text: &str) -> Converted {
    of(PeerProgram::Bind, &[("/etc/bind/named.conf", text)])
}

/// The outcomes of the statements that begin so.
fn outcomes(converted: &Converted, statement: &str) -> Vec<Outcome> {
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
    convert(Path::new("/c"), program, &files).expect_err("it is broken").fault.kind
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
        found.accounts.iter().all(|account| account.outcome != Outcome::Missing),
        "{:#?}",
        found.accounts
    );
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
        r#"options { recursion no; rate-limit { responses-per-second 5; }; frobnicate yes; allow-query { 10/8; }; };
view "inside" { match-clients { 10/8; }; zone "a.example" { type master; file "a"; }; };
view "outside" { zone "a.example" { type master; file "b"; }; };
zone "signed.example" { type master; file "s"; dnssec-policy default; };
key old { algorithm hmac-md5; secret "c2VjcmV0"; };
zone "b.example" { type master; file "b"; allow-transfer { key old; }; };"#,
    );
    for statement in [
        "rate-limit",
        "frobnicate yes",
        "allow-query",
        "view inside",
        "view outside",
        "dnssec-policy",
        "key old",
        "old",
    ] {
        assert_eq!(outcomes(&found, statement), [Outcome::Missing], "{statement}");
    }
    // Zones of views would come from one of them, and a zone for a key that is gone is for nobody.
    assert!(!found.toml.contains("a.example") && !found.toml.contains("allow-transfer"), "{}", found.toml);
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
    // Of both zones, the one in a folder of its own includes another file here.
    assert_eq!(outcomes(&found, "$INCLUDE"), [Outcome::Differs]);
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
    assert_eq!(outcomes(&found, "provide-xfr"), [Outcome::Translated; 2]);
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
    assert_eq!(outcomes(&found, "id x"), [Outcome::Missing]);
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
    // The longest network decides there, and the first here.
    let [refused, allowed] = ["10.9.0.0/16", "10.0.0.0/8\""].map(|text| found.toml.rfind(text).expect(text));
    assert!(refused < allowed, "{}", found.toml);
    // What went encrypted does not go in the clear.
    assert!(!found.toml.contains("tls.example"), "{}", found.toml);
    assert_eq!(outcomes(&found, "ratelimit"), [Outcome::Missing]);
    assert_eq!(outcomes(&found, "forward-tls-upstream"), [Outcome::Missing]);
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
    assert_eq!(outcomes(&found, "gmysql-host"), [Outcome::Missing]);
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

#[test]
fn the_program_is_known_by_its_text() {
    for (text, program) in [
        ("options {\n recursion no;\n};\n", PeerProgram::Bind),
        ("server:\n zonesdir: /x\nzone:\n name: a\n zonefile: b\n", PeerProgram::Nsd),
        ("server:\n    listen: 127.0.0.1@53\nzone:\n  - domain: a\n", PeerProgram::Knot),
        ("server:\n interface: 127.0.0.1\nforward-zone:\n name: .\n", PeerProgram::Unbound),
        ("launch=bind\nlocal-port=5300\n", PeerProgram::PowerDns),
        ("forward-zones=a=b\n", PeerProgram::Recursor),
    ] {
        let converted = convert(Path::new("/c"), None, &memory(&[("/c", text)]));
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

/// Words of every syntax, and such that none has.
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
    "storage:",
    "cache-max-ttl:",
    "5",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Whatever stands in a configuration, each statement has an account (`convert` asserts it in tests), each place lies in
    /// its text.
    #[test]
    fn every_statement_has_an_account(
        words in prop::collection::vec((0..WORDS.len(), 0usize..9), 0..40),
        program in 0usize..6,
    ) {
        let marks = [" ", " ", " ", "; ", " { ", " }; ", "\n", "\n  ", "\n    "];
        let text: String = words.iter().map(|(word, mark)| WORDS[*word].to_owned() + marks[*mark]).collect();
        let programs = [
            PeerProgram::Bind, PeerProgram::Nsd, PeerProgram::Knot, PeerProgram::Unbound, PeerProgram::PowerDns,
            PeerProgram::Recursor,
        ];
        if let Ok(found) = convert(Path::new("/c"), Some(programs[program]), &memory(&[("/c", &text)])) {
            for account in &found.accounts {
                prop_assert!(!account.words.is_empty());
                if let Some(span) = &account.span {
                    prop_assert!(found.texts[span.text].text.get(span.range.clone()).is_some());
                }
            }
        }
    }

    /// A keyword that nobody knows is reported as missing, at its place.
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
        prop_assert_eq!(account.map(|account| account.outcome), Some(Outcome::Missing));
    }
}
