//! Statements with a key in nomen, one by one, and the meaning of 0 in them.

use super::*;

fn unbound(more: &str) -> Converted {
    let text = format!("server:\n  interface: 192.0.2.1\n  interface: 2001:db8::1\n{more}");
    of(PeerProgram::Unbound, &[("/etc/unbound/unbound.conf", &text)])
}

fn recursor(more: &str) -> Converted {
    let text = format!("local-address=127.0.0.1\n{more}\n");
    of(PeerProgram::Recursor, &[("/etc/powerdns/recursor.conf", &text)])
}

fn resolving(more: &str) -> Converted {
    bind(&format!("options {{ recursion yes; {more} }};"))
}

/// Asserts that each statement becomes this line, and nothing is missing.
fn become_lines(convert: &dyn Fn(&str) -> Converted, all: &[(&str, &str)]) {
    for (statement, line) in all {
        let found = convert(statement);
        assert!(found.toml.lines().any(|one| one == *line), "{statement} is not `{line}` in\n{}", found.toml);
        let key = statement.trim().split([' ', ':', '=', ';']).next().expect("a word");
        let outcomes = outcomes(&found, key);
        assert!(!outcomes.is_empty() && !outcomes.contains(&Coverage::Missing), "{statement}: {outcomes:?}");
    }
}

#[test]
fn statements_of_unbound_have_their_keys() {
    let anchored = |more: &str| unbound(&format!("  auto-trust-anchor-file: /k\n  {more}\n"));
    become_lines(
        &anchored,
        &[
            ("aggressive-nsec: no", "aggressive-nsec = false"),
            ("neg-cache-size: 4m", "aggressive-nsec-size = \"4MiB\""),
            ("trust-anchor-signaling: yes", "signal-trust-anchors = true"),
            ("root-key-sentinel: no", "root-key-sentinel = false"),
            ("val-bogus-ttl: 30", "bogus-ttl = \"30s\""),
            ("val-sig-skew-min: 60\n  val-sig-skew-max: 60", "signature-skew = \"1m\""),
            ("val-nsec3-keysize-iterations: \"1024 100 4096 100\"", "max-nsec3-iterations = 100"),
            ("infra-cache-min-rtt: 20", "min-timeout = \"20ms\""),
            ("infra-cache-max-rtt: 3000", "max-timeout = \"3s\""),
            ("unknown-server-time-limit: 376", "first-timeout = \"376ms\""),
            ("tcp-reuse-timeout: 20000", "connection-idle-timeout = \"20s\""),
            ("num-queries-per-thread: 100\n  num-threads: 4", "lookups = 400"),
            ("incoming-num-tcp: 10\n  num-threads: 4", "tcp-connections = 40"),
            ("do-tcp: no", "proto = [\"udp\"]"),
            ("do-udp: no", "proto = [\"tcp\"]"),
            ("incoming-num-tcp: 0", "proto = [\"udp\"]"),
            ("do-ip6: no", "addr = [\"192.0.2.1@53\"]"),
            ("outgoing-interface: 192.0.2.2", "source = [\"192.0.2.2\"]"),
            ("outgoing-interface: 192.0.2.2", "iterate-ipv6 = false"),
            ("rrset-roundrobin: no", "rotate-addresses = false"),
            ("ip-freebind: yes", "freebind = true"),
            ("ip-freebind: no", "freebind = false"),
            ("ip-transparent: yes\n  ip-freebind: no", "freebind = true"),
        ],
    );
    let lan = unbound(
        "  unblock-lan-zones: yes\n  insecure-lan-zones: yes\n  local-zone: 16.172.in-addr.arpa nodefault\n",
    );
    for name in
        ["\"10.in-addr.arpa\"", "\"31.172.in-addr.arpa\"", "\"127.100.in-addr.arpa\"", "\"d.f.ip6.arpa\""]
    {
        assert_eq!(lan.toml.matches(name).count(), 2, "{name}: {}", lan.toml);
    }
    assert!(!lan.toml.contains("localhost") && !lan.toml.contains("\"127.in-addr"), "{}", lan.toml);
    // TCP only, if all names have a rule.
    let rules = "  tcp-upstream: yes\nforward-zone:\n  name: .\n  forward-addr: 192.0.2.53\n";
    has(&unbound(rules), &["servers = [\"192.0.2.53\"]\ntcp-only = true"]);
    assert_eq!(outcomes(&unbound("  tcp-upstream: yes\n"), "tcp-upstream"), [Coverage::Missing]);
    // nomen has no limit that depends on the limited value.
    for other in
        ["val-sig-skew-min: 60", "val-nsec3-keysize-iterations: \"1024 100 4096 150\"", "wait-limit: 5"]
    {
        let key = other.split(':').next().expect("a key");
        assert_eq!(outcomes(&anchored(other), key), [Coverage::Missing], "{other}");
    }
    let zone = unbound(
        "  access-control: 0.0.0.0/0 allow\n  access-control: ::/0 allow\nauth-zone:\n  name: z\n  zonefile: /z\n  zonemd-check: yes\n  zonemd-reject-absence: yes\n",
    );
    has(&zone, &["file = \"/z\"\nzonemd = \"require\""]);
}

#[test]
fn statements_of_bind_have_their_keys() {
    become_lines(
        &resolving,
        &[
            ("synth-from-dnssec no;", "aggressive-nsec = false"),
            ("trust-anchor-telemetry yes;", "signal-trust-anchors = true"),
            ("root-key-sentinel no;", "root-key-sentinel = false"),
            ("resolver-query-timeout 8;", "budget-time = \"8s\""),
            ("resolver-query-timeout 8000;", "budget-time = \"8s\""),
            ("max-query-restarts 9;", "max-rule-chain = 9"),
            ("max-query-restarts 9;", "max-chain = 9"),
            ("max-records-per-type 50;", "records-per-set = 50"),
            ("query-source-v6 none;", "iterate-ipv6 = false"),
            ("query-source address 192.0.2.2 port *;", "source = [\"192.0.2.2\"]"),
            (
                "query-source 192.0.2.2; query-source-v6 2001:db8::2;",
                "source = [\"192.0.2.2\", \"2001:db8::2\"]",
            ),
            ("rrset-order { order cyclic; };", "rotate-addresses = true"),
            ("rrset-order { order none; };", "rotate-addresses = false"),
            ("min-transfer-rate-in 12000 2;", "incoming-min-rate = 100"),
            (
                "deny-answer-addresses { 10/8; } except-from { \"corp.example\"; };",
                "private-addresses = [\"10.0.0.0/8\"]",
            ),
            (
                "deny-answer-addresses { 10/8; } except-from { \"corp.example\"; };",
                "private-domains = [\"corp.example\"]",
            ),
        ],
    );
    let log = "logging { channel q { file \"q.log\" versions 3; }; category queries { q; }; };";
    let found = bind(&format!("options {{ directory \"/d\"; recursion no; }}; {log}"));
    has(&found, &["queries = true\nqueries-file = \"/d/q.log\""]);
    assert!(found.accounts.iter().all(|one| one.outcome != Coverage::Missing), "{:#?}", found.accounts);
    let counted =
        bind("options { recursion no; zone-statistics full; }; statistics-channels { inet 127.0.0.1; };");
    has(&counted, &["per-zone = true"]);
}

#[test]
fn servers_of_a_zone_are_asked_from_the_address_that_they_know() {
    let of_bind = |more: &str| {
        bind(&format!(
            "options {{ recursion no; {more} }}; zone s {{ type slave; masters {{ 192.0.2.9; }}; also-notify {{ 192.0.2.8; }}; }}; zone p {{ type master; file \"p\"; also-notify {{ 192.0.2.8; }}; }};"
        ))
    };
    let both = of_bind(
        "transfer-source 192.0.2.2; notify-source 192.0.2.2; transfer-source-v6 2001:db8::2; notify-source-v6 2001:db8::2;",
    );
    assert_eq!(both.toml.matches("source = [\"192.0.2.2\", \"2001:db8::2\"]").count(), 2, "{}", both.toml);
    let apart = of_bind("transfer-source 192.0.2.2; notify-source 192.0.2.3;");
    has(&apart, &["source = [\"192.0.2.2\"]", "source = [\"192.0.2.3\"]"]);
    assert!(outcomes(&apart, "notify-source").contains(&Coverage::Missing));
    let nsd = |more: &str| {
        let text = format!("zone:\n name: a\n request-xfr: 192.0.2.9 NOKEY\n{more}");
        of(PeerProgram::Nsd, &[("/c", &text)])
    };
    has(
        &nsd(" outgoing-interface: 192.0.2.2\n outgoing-interface: 2001:db8::2\n"),
        &["source = [\"192.0.2.2\", \"2001:db8::2\"]"],
    );
    assert_eq!(
        outcomes(&nsd(" outgoing-interface: 192.0.2.2@53\n"), "outgoing-interface"),
        [Coverage::Missing]
    );
    let knot = |master: &str| {
        let text = format!(
            "remote:\n  - id: up\n    address: 192.0.2.9\n    via: [192.0.2.2, 192.0.2.3]\n  - id: other\n    address: 192.0.2.8\nzone:\n  - domain: a\n    master: {master}\n"
        );
        of(PeerProgram::Knot, &[("/c", &text)])
    };
    has(&knot("up"), &["source = [\"192.0.2.2\"]"]);
    let mixed = knot("[up, other]");
    assert!(!mixed.toml.contains("source ="), "{}", mixed.toml);
    assert_eq!(outcomes(&mixed, "via"), [Coverage::Missing]);
    let conf =
        "launch=bind\nbind-config=/n\nquery-local-address=192.0.2.2\ntrusted-notification-proxy=192.0.2.7\n";
    let pdns =
        of(PeerProgram::PowerDns, &[("/c", conf), ("/n", "zone s { type slave; masters { 192.0.2.9; }; };")]);
    has(&pdns, &["source = [\"192.0.2.2\"]", "allow-notify = [\"192.0.2.7\"]"]);
}

#[test]
fn statements_of_the_recursor_have_their_keys() {
    become_lines(
        &recursor,
        &[
            ("max-concurrent-requests-per-tcp-connection=20", "tcp-pipeline = 20"),
            ("max-ns-per-resolve=7", "servers-per-zone = 7"),
            ("max-ns-address-qperq=7", "budget-fruitless = 7"),
            ("max-cache-bogus-ttl=60", "bogus-ttl = \"1m\""),
            ("nsec3-max-iterations=70", "max-nsec3-iterations = 70"),
            ("tcp-out-max-idle-ms=5000", "connection-idle-timeout = \"5s\""),
            ("refresh-on-ttl-perc=0", "prefetch = false"),
            ("aggressive-nsec-cache-size=0", "aggressive-nsec = false"),
            ("query-local-address=0.0.0.0", "iterate-ipv6 = false"),
            ("query-local-address=192.0.2.2, 2001:db8::2", "source = [\"192.0.2.2\", \"2001:db8::2\"]"),
            ("quiet=no", "queries = true"),
            (
                "proxy-protocol-from=192.0.2.0/24, 2001:db8::1",
                "proxy-protocol-from = [\"192.0.2.0/24\", \"2001:db8::1\"]",
            ),
            ("proxy-protocol-maximum-size=40", "proxy-protocol-maximum-size = 52"),
        ],
    );
    assert!(recursor("quiet=yes").toml.contains("queries = false"));
    assert_eq!(outcomes(&recursor("proxy-protocol-from="), "proxy-protocol-from"), [Coverage::Unneeded]);
    let except = recursor("proxy-protocol-from=192.0.2.0/24, !192.0.2.1");
    assert!(!except.toml.contains("proxy-protocol"), "{}", except.toml);
    assert_eq!(outcomes(&except, "proxy-protocol-from"), [Coverage::Missing]);
    let pdns = of(PeerProgram::PowerDns, &[("/c", "launch=bind\nxfr-max-received-mbytes=100\n")]);
    has(&pdns, &["incoming-max-size = \"100MiB\""]);
}

#[test]
fn orders_and_addresses_have_their_keys() {
    let knot = |more: &str| of(PeerProgram::Knot, &[("/c", &format!("server:\n  {more}\n"))]);
    let nsd = |more: &str| {
        of(PeerProgram::Nsd, &[("/c", &format!("server:\n {more}\nzone:\n name: a\n zonefile: a\n"))])
    };
    become_lines(
        &nsd,
        &[
            ("round-robin: yes", "rotate-addresses = true"),
            ("round-robin: no", "rotate-addresses = false"),
            ("ip-address: 192.0.2.1\n ip-freebind: yes", "freebind = true"),
            ("ip-address: 192.0.2.1\n ip-transparent: yes", "freebind = true"),
        ],
    );
    become_lines(&knot, &[("answer-rotation: off", "rotate-addresses = false")]);
    // Only addresses are rotated.
    for found in [knot("answer-rotation: on"), nsd("round-robin: yes"), unbound("  rrset-roundrobin: yes\n")]
    {
        let differs =
            found.accounts.iter().filter(|one| one.words.contains("other records keep their order"));
        assert!(differs.into_iter().all(|one| one.outcome == Coverage::Differs), "{:?}", found.accounts);
        has(&found, &["rotate-addresses = true"]);
    }
    // nomen has one source address per family, and one order for all names.
    let two = unbound("  outgoing-interface: 192.0.2.2\n  outgoing-interface: 192.0.2.3\n");
    assert_eq!(outcomes(&two, "outgoing-interface"), [Coverage::Translated, Coverage::Missing]);
    let networks = unbound("  outgoing-interface: 2001:db8::/64\n");
    assert_eq!(outcomes(&networks, "outgoing-interface"), [Coverage::Missing]);
    assert!(!networks.toml.contains("iterate-ipv4"), "{}", networks.toml);
    assert_eq!(
        outcomes(&recursor("query-local-address=192.0.2.2, 192.0.2.3"), "query-local"),
        [Coverage::Missing]
    );
    for (statement, outcome) in [
        ("rrset-order { type A order cyclic; order none; };", Coverage::Missing),
        ("rrset-order { order frob; };", Coverage::Missing),
        ("query-source 192.0.2.2 port 53;", Coverage::Differs),
        ("query-source address *;", Coverage::Unneeded),
        ("query-source port 5353;", Coverage::Unneeded),
        ("query-source 2001:db8::2;", Coverage::Missing),
    ] {
        let key = statement.split(' ').next().expect("a key");
        assert_eq!(outcomes(&resolving(statement), key), [outcome], "{statement}");
    }
}

#[test]
fn forwarders_that_have_no_answer_were_asked_alone() {
    let of_bind = |mode: &str| {
        bind(&format!(
            "options {{ recursion yes; forwarders {{ 192.0.2.53; }}; {mode} }}; zone corp.example {{ type forward; forwarders {{ 10.0.0.1; }}; {mode} }};"
        ))
    };
    for first in ["", "forward first;"] {
        assert_eq!(of_bind(first).toml.matches("forward-first = true").count(), 2, "{}", of_bind(first).toml);
    }
    assert!(!of_bind("forward only;").toml.contains("forward-first"));
    let rule = |name: &str, addr: &str, more: &str| {
        format!("forward-zone:\n  name: \"{name}\"\n  forward-addr: {addr}\n{more}")
    };
    let first = "  forward-first: yes\n";
    has(&unbound(&rule("corp.example", "10.0.0.1", first)), &["forward-first = true"]);
    // If names without a rule are refused, these are not resolved at the root either.
    let closed = unbound(
        &(rule("corp.example", "10.0.0.1", first)
            + &rule(".", "192.0.2.53#a..b", "  forward-tls-upstream: yes\n")),
    );
    has(&closed, &["iterate = false", "servers = [\"10.0.0.1\"]"]);
    assert!(!closed.toml.contains("forward-first"), "{}", closed.toml);
    assert!(closed.is_less());
    let stub = "stub-zone:\n  name: lan\n  stub-addr: 10.0.0.1\n  stub-first: yes\n";
    assert_eq!(outcomes(&unbound(stub), "stub-first"), [Coverage::Differs]);
}

#[test]
fn rules_of_updates_with_wildcards_were_left_out() {
    let of_bind = |rules: &str| {
        bind(&format!(
            "{KEY} options {{ recursion no; }}; zone a.example {{ type primary; file \"/a\"; update-policy {{ {rules} }}; }};"
        ))
    };
    let found = of_bind("deny xfer wildcard *.static.a.example. ; grant xfer wildcard *.a.example. A AAAA;");
    has(
        &found,
        &[
            "\"deny key:xfer wildcard *.static.a.example.\"",
            "\"grant key:xfer wildcard *.a.example. A AAAA\"",
        ],
    );
    assert!(!found.is_less(), "{:?}", found.accounts);
    assert!(of_bind("grant xfer wildcard a.example. A;").is_less(), "it is no wildcard");
    let knot = |matching: &str, names: &str| {
        let text = format!(
            "key:\n  - id: k1\n    algorithm: hmac-sha256\n    secret: c2VjcmV0\nacl:\n  - id: u\n    key: k1\n    action: update\n    update-type: TXT\n    update-owner: name\n    update-owner-match: {matching}\n    update-owner-name: [{names}]\nzone:\n  - domain: a.example\n    acl: u\n"
        );
        of(PeerProgram::Knot, &[("/k", &text)])
    };
    let found = knot("pattern", "\"_acme-challenge.*\", \"*.mid\", plain, \"x.*.a.example.\"");
    for rule in [
        "pattern _acme-challenge.*.a.example.",
        "pattern *.mid.a.example.",
        "name plain.a.example.",
        "pattern x.*.a.example.",
    ] {
        has(&found, &[&format!("\"grant key:k1 {rule} TXT\"")]);
    }
    assert!(!found.is_less(), "{:?}", found.accounts);
    has(&knot("sub", "dyn, \"@\""), &["wildcard *.dyn.a.example. TXT", "wildcard *.a.example. TXT"]);
    // A trailing `*` in nomen matches several labels.
    let open = knot("pattern", "\"_acme-challenge.*.\"");
    assert!(!open.toml.contains("update-policy") && open.is_less(), "{}", open.toml);
}

#[test]
fn files_of_zones_that_take_updates_are_written_as_often() {
    let knot = |sync: &str| {
        let text = format!(
            "acl:\n  - id: u\n    address: 10.0.0.1\n    action: update\nzone:\n  - domain: a\n    acl: u\n    zonefile-sync: {sync}\n"
        );
        of(PeerProgram::Knot, &[("/c", &text)])
    };
    has(&knot("1h"), &["write-file-every = \"1h\""]);
    has(&knot("0"), &["write-file-every = \"1s\""]);
    assert!(!knot("-1").toml.contains("write-file-every"));
}

/// Regression: 0 for no limit, or for a default, became the minimum: one record, one connection, one question
/// at a time.
#[test]
fn nothing_as_a_number_is_not_the_least_of_it() {
    let pdns = |more: &str| of(PeerProgram::PowerDns, &[("/c", &format!("launch=bind\n{more}\n"))]);
    let knot = |more: &str| of(PeerProgram::Knot, &[("/c", &format!("server:\n  {more}\n"))]);
    let nsd = |more: &str| {
        of(
            PeerProgram::Nsd,
            &[("/c", &format!("server:\n {more}\nzone:\n name: a\n zonefile: a\n ixfr-size: 0\n"))],
        )
    };
    become_lines(
        &resolving,
        &[
            ("fetches-per-zone 0;", "lookups-per-zone = 1000000"),
            ("max-clients-per-query 0;", "clients-per-lookup = 1000000"),
            ("max-records 0;", "incoming-max-records = 4294967295"),
        ],
    );
    become_lines(&pdns, &[("max-tcp-connections-per-client=0", "tcp-connections-per-client = 1000000")]);
    become_lines(&recursor, &[("max-tcp-per-client=0", "tcp-connections-per-client = 1000000")]);
    become_lines(&recursor, &[("max-total-msec=0", "budget-time = \"1m\"")]);
    become_lines(&knot, &[("tcp-io-timeout: 0", "tcp-write-timeout = \"10m\"")]);
    become_lines(&nsd, &[("server-count: 3\n tcp-count: 50", "tcp-connections = 150")]);
    has(&nsd("port: 53"), &["journal-size = \"1TiB\""]);
    for (found, key) in [
        (resolving("udp-receive-buffer 0;"), "udp-receive-buffer"),
        (unbound("  so-rcvbuf: 0\n"), "so-rcvbuf"),
        (nsd("receive-buffer-size: 0"), "receive-buffer-size"),
        (resolving("resolver-query-timeout 0;"), "resolver-query-timeout"),
    ] {
        assert_eq!(outcomes(&found, key), [Coverage::Unneeded], "{key}");
        assert!(!found.toml.contains("udp-buffer") && !found.toml.contains("budget-time"), "{}", found.toml);
    }
}

#[test]
fn times_to_the_next_try_fit_together() {
    has(&unbound("  infra-cache-min-rtt: 500\n"), &["min-timeout = \"500ms\"", "first-timeout = \"500ms\""]);
    let short = unbound("  infra-cache-max-rtt: 200\n  infra-cache-min-rtt: 300\n");
    has(&short, &["max-timeout = \"200ms\"", "min-timeout = \"200ms\"", "first-timeout = \"200ms\""]);
}

/// A client condition that nomen cannot check does not permit the client.
#[test]
fn nobody_passes_by_less_than_was_asked_of_him() {
    let nsd = of(
        PeerProgram::Nsd,
        &[(
            "/c",
            "zone:\n name: a\n zonefile: a\n provide-xfr: 10.0.0.1 NOKEY tls\n provide-xfr: 10.0.0.2 NOKEY\n",
        )],
    );
    has(&nsd, &["allow-transfer = [\"10.0.0.2\"]"]);
    assert_eq!(outcomes(&nsd, "provide-xfr 10.0.0.1"), [Coverage::Missing]);
    let knot = |item: &str| {
        let text = format!(
            "acl:\n  - id: q\n    address: 10.0.0.1\n    {item}\n  - id: p\n    address: 10.0.0.2\n    action: transfer\nzone:\n  - domain: a\n    acl: [q, p]\n"
        );
        of(PeerProgram::Knot, &[("/c", &text)])
    };
    for condition in ["protocol: quic", "cert-key: Zm9v", "cert-hostname: a.example"] {
        let found = knot(&format!("action: transfer\n    {condition}"));
        has(&found, &["allow-transfer = [\"10.0.0.2\"]"]);
        let key = condition.split(':').next().expect("a key");
        assert_eq!(outcomes(&found, key), [Coverage::Missing]);
        let refused = knot(&format!("deny: on\n    {condition}"));
        assert!(!refused.toml.contains("allow-transfer"), "{}", refused.toml);
    }
}

#[test]
fn the_first_view_for_all_clients_is_the_only_one() {
    let zone = |name: &str| format!("zone \"{name}\" {{ type master; file \"{name}\"; }};");
    let first = bind(&format!(
        "options {{ recursion no; }}; view outside {{ match-clients {{ any; }}; {} {} }}; \
         view inside {{ match-clients {{ 10/8; }}; {} }}; view chaos ch {{ match-clients {{ any; }}; }};",
        zone("a.example"),
        zone("b.example"),
        zone("in.example")
    ));
    has(&first, &["name = \"a.example\"", "name = \"b.example\""]);
    assert!(!first.toml.contains("in.example") && !first.toml.contains("view"), "{}", first.toml);
    assert_eq!(outcomes(&first, "view inside"), [Coverage::Unneeded]);
    assert_eq!(outcomes(&first, "view chaos"), [Coverage::Missing]);
}

#[test]
fn anchors_that_follow_their_zones_still_do() {
    let own = |word: &str| format!("trust-anchors {{ corp.example {word} {}; }};", quoted(OTHER_DS));
    let of_bind = |mode: &str, more: &str| {
        bind(&format!("options {{ recursion yes; dnssec-validation {mode}; }}; {more}"))
    };
    has(&of_bind("yes", &own("initial-ds")), &["trust-anchor-rollover = \"all\"", "state-dir"]);
    has(&of_bind("auto", &own("initial-ds")), &["trust-anchor-rollover = \"all\""]);
    for fixed in [of_bind("yes", &own("static-ds")), of_bind("auto", &own("static-ds"))] {
        assert!(!fixed.toml.contains("rollover"), "{}", fixed.toml);
    }
    let mixed = of_bind("auto", &own("static-ds"));
    assert!(mixed.accounts.iter().any(|one| one.words.starts_with("some trust anchors follow their zones")));
    let root = |word: &str| format!("trust-anchors {{ . {word} {}; }};", quoted(ROOT_DS));
    has(&of_bind("yes", &root("static-ds")), &["trust-anchor-rollover = \"off\""]);
    for followed in [of_bind("yes", &root("initial-ds")), of_bind("auto", &root("static-ds"))] {
        assert!(!followed.toml.contains("rollover"), "{}", followed.toml);
    }
}

#[test]
fn a_root_of_ones_own_stays_in_its_file() {
    let hints = ". 60 NS ns.root.\nns.root. 60 A 192.0.2.55\n";
    let public = ". 60 NS a.root-servers.net.\na.root-servers.net. 60 A 198.41.0.4\n";
    let of_bind = |text: &str| {
        let conf = "options { directory \"/d\"; recursion yes; }; zone . { type hint; file \"root\"; };";
        of(PeerProgram::Bind, &[("/c", conf), ("/d/root", text)])
    };
    has(&of_bind(hints), &["root-hints = \"/d/root\""]);
    assert!(!of_bind(public).toml.contains("root-"), "{}", of_bind(public).toml);
    let conf = "server:\n  root-hints: /d/root\n";
    has(&of(PeerProgram::Unbound, &[("/c", conf), ("/d/root", hints)]), &["root-hints = \"/d/root\""]);
    let conf = "hint-file=/d/root\n";
    has(&of(PeerProgram::Recursor, &[("/c", conf), ("/d/root", hints)]), &["root-hints = \"/d/root\""]);
}

const CERTIFICATE: &str = "  tls-service-pem: /etc/tls/chain.pem\n  tls-service-key: key.pem\n";

#[test]
fn encrypted_listeners_of_unbound_stay() {
    let ports = "  interface: 192.0.2.1@853\n  interface: 192.0.2.1@443\n  interface: 192.0.2.1@8853\n";
    let more = "  tls-additional-port: 8853\n  http-endpoint: \"/q\"\n  tls-session-ticket-keys: \"t1.key\"\n  \
                tls-session-ticket-keys: \"t2.key\"\n  directory: /etc/unbound\n";
    let found = unbound(&format!("{ports}{CERTIFICATE}{more}"));
    has(
        &found,
        &[
            "addr = [\"192.0.2.1@53\", \"[2001:db8::1]@53\"]\n",
            "[[listen]]\naddr = [\"192.0.2.1@853\", \"192.0.2.1@8853\"]\nproto = [\"tls\"]\n",
            "[[listen]]\naddr = [\"192.0.2.1@443\"]\nproto = [\"https\"]\n",
            "[[certificate]]\nchain = \"/etc/tls/chain.pem\"\nkey = \"/etc/unbound/key.pem\"\n",
            "https-paths = [\"/q\"]",
            "tls-ticket-keys = [\"/etc/unbound/t1.key\", \"/etc/unbound/t2.key\"]",
        ],
    );
    for key in ["tls-service-pem", "tls-service-key", "tls-additional-port", "tls-session-ticket-keys"] {
        assert!(!outcomes(&found, key).contains(&Coverage::Missing), "{key}");
    }
    // A listener for TLS is one for TCP.
    let udp = unbound(&format!("{ports}{CERTIFICATE}  do-tcp: no\n"));
    assert_eq!(udp.toml.matches("[[listen]]").count(), 1, "{}", udp.toml);
    let tcp = unbound(&format!("{ports}{CERTIFICATE}  do-udp: no\n"));
    has(&tcp, &["proto = [\"tcp\"]", "proto = [\"tls\"]", "proto = [\"https\"]"]);
    let v4 = unbound(&format!("  interface: 2001:db8::1@853\n{CERTIFICATE}  do-ip6: no\n"));
    assert!(!v4.toml.contains("2001:db8") && !v4.toml.contains("tls"), "{}", v4.toml);
    let quic = unbound(&format!("{ports}{CERTIFICATE}  quic-port: 853\n"));
    let line = "addr = [\"192.0.2.1@853\"]\nproto = ";
    has(&quic, &[&format!("{line}[\"tls\"]"), &format!("{line}[\"quic\"]")]);
    let udp = unbound(&format!("{ports}{CERTIFICATE}  quic-port: 853\n  do-tcp: no\n"));
    assert!(udp.toml.contains("quic") && !udp.toml.contains("tls\""), "{}", udp.toml);
    let clear = unbound(&format!("{ports}{CERTIFICATE}  http-notls-downstream: yes\n"));
    assert!(!clear.toml.contains("http"), "{}", clear.toml);
    assert_eq!(outcomes(&clear, "http-notls-downstream"), [Coverage::Missing]);
    // A proxy on this machine is served as before, and without a certificate.
    let clear = unbound("  interface: 127.0.0.1@443\n  interface: ::1@443\n  http-notls-downstream: yes\n");
    has(&clear, &["[[listen]]\naddr = [\"127.0.0.1@443\", \"[::1]@443\"]\nproto = [\"http\"]\n"]);
    assert_eq!(outcomes(&clear, "http-notls-downstream"), [Coverage::Translated]);
    assert_eq!(outcomes(&clear, "interface 127"), [Coverage::Translated], "{:?}", clear.accounts);
    assert_eq!(outcomes(&unbound(CERTIFICATE), "tls-service-pem"), [Coverage::Unneeded]);
}

#[test]
fn encrypted_listeners_of_nsd_and_knot_stay() {
    let nsd = |more: &str| {
        let text = format!("server:\n  ip-address: 192.0.2.1\n  ip-address: 192.0.2.1@853\n{more}");
        of(PeerProgram::Nsd, &[("/etc/nsd/nsd.conf", &text)])
    };
    let found = nsd(&CERTIFICATE.replace("key.pem", "/etc/tls/key.pem"));
    let certificate = "[[certificate]]\nchain = \"/etc/tls/chain.pem\"\nkey = \"/etc/tls/key.pem\"\n";
    let tls = "[[listen]]\naddr = [\"192.0.2.1@853\"]\nproto = [\"tls\"]\n";
    has(&found, &["addr = [\"192.0.2.1@53\"]\n", tls, certificate]);
    // Without a certificate NSD answers in the clear there.
    has(&nsd(""), &["addr = [\"192.0.2.1@53\", \"192.0.2.1@853\"]"]);
    let knot = |more: &str| {
        let text = format!("server:\n  listen: 192.0.2.1@53\n  listen-tls: 192.0.2.1@853\n{more}");
        of(PeerProgram::Knot, &[("/etc/knot/knot.conf", &text)])
    };
    let found = knot("  cert-file: /etc/tls/chain.pem\n  key-file: /etc/tls/key.pem\n");
    has(&found, &["addr = [\"192.0.2.1@53\"]\n", tls, certificate]);
    let quic = knot("  listen-quic: [192.0.2.1, 192.0.2.2@8853]\n");
    has(&quic, &["addr = [\"192.0.2.1@853\", \"192.0.2.2@8853\"]\nproto = [\"quic\"]"]);
    let own = knot("");
    has(&own, &[tls]);
    assert_eq!(outcomes(&own, "listen-tls"), [Coverage::Translated, Coverage::Differs]);
}

#[test]
fn encrypted_listeners_of_bind_stay() {
    let blocks = "tls t { cert-file \"/etc/tls/chain.pem\"; key-file \"key.pem\"; };\n\
                  http h { endpoints { \"/q\"; \"/r\"; }; };\n\
                  tls mutual { cert-file \"/c\"; key-file \"/k\"; ca-file \"/ca\"; };\n";
    let with = |listens: &str| {
        bind(&format!(
            "{blocks}options {{ directory \"/etc/bind\"; listen-on {{ 192.0.2.1; }}; {listens} }};"
        ))
    };
    let found = with(
        "listen-on tls t { 192.0.2.1; }; listen-on port 8443 tls t http h { 192.0.2.1; }; \
         listen-on-v6 tls t http default { 2001:db8::1; };",
    );
    has(
        &found,
        &[
            "addr = [\"192.0.2.1@53\"]\n",
            "[[listen]]\naddr = [\"192.0.2.1@853\"]\nproto = [\"tls\"]\n",
            "[[listen]]\naddr = [\"192.0.2.1@8443\", \"[2001:db8::1]@443\"]\nproto = [\"https\"]\n",
            "[[certificate]]\nchain = \"/etc/tls/chain.pem\"\nkey = \"/etc/bind/key.pem\"\n",
            "https-paths = [\"/q\", \"/r\", \"/dns-query\"]",
        ],
    );
    assert_eq!(found.toml.matches("[[certificate]]").count(), 1, "{}", found.toml);
    assert_eq!(outcomes(&found, "cert-file"), [Coverage::Translated]);
    has(&with("tls-port 8853; listen-on tls t { 192.0.2.1; };"), &["\"192.0.2.1@8853\"]\nproto = [\"tls\"]"]);
    has(&with("listen-on tls ephemeral { 192.0.2.1; };"), &["\"192.0.2.1@853\"]\nproto = [\"tls\"]"]);
    // HTTP without TLS is for proxies, and those on this machine are known.
    let clear = with(
        "listen-on port 8053 tls none http h { 127.0.0.1; 192.0.2.1; }; http-port 8080; \
         listen-on-v6 tls none http default { ::1; };",
    );
    let listen = "[[listen]]\naddr = [\"127.0.0.1@8053\", \"[::1]@8080\"]\nproto = [\"http\"]\n";
    has(&clear, &[listen, "https-paths = [\"/q\", \"/r\", \"/dns-query\"]"]);
    assert!(outcomes(&clear, "listen-on").contains(&Coverage::Missing), "{:?}", clear.accounts);
    assert_eq!(outcomes(&clear, "http-port"), [Coverage::Translated]);
    // What nomen would answer more clients of, or in another way, is left out.
    for other in ["tls mutual", "tls none http h", "tls other"] {
        let found = with(&format!("listen-on {other} {{ 192.0.2.1; }};"));
        assert_eq!(found.toml.matches("[[listen]]").count(), 1, "{other}: {}", found.toml);
        assert!(outcomes(&found, "listen-on").contains(&Coverage::Missing), "{other}");
    }
}
