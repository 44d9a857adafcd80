//! Policies of other servers: response policy zones, local zones and block lists.

use super::*;

/// The printed configuration from a header on, up to an empty line and `end`.
pub(super) fn part<'c>(converted: &'c Converted, from: &str, end: &str) -> &'c str {
    let start = converted.toml.find(from).unwrap_or_else(|| panic!("{from} is not in\n{}", converted.toml));
    let text = &converted.toml[start..];
    text.find(end).map_or(text, |end| &text[..end])
}

/// All outcomes that are no translation and need no look, as `outcome statement: words`.
pub(super) fn reported(converted: &Converted) -> Vec<String> {
    let found = converted.accounts.iter();
    let found = found.filter(|account| !matches!(account.outcome, Coverage::Translated | Coverage::Unneeded));
    found.map(|account| format!("{:?} {}: {}", account.outcome, account.statement, account.words)).collect()
}

const BIND_ZONES: &str = r#"
zone "rpz.example" { type primary; file "/z/rpz"; allow-query { none; }; };
zone "feed.example" { type secondary; primaries { 192.0.2.1; }; };
zone "log.example" { type primary; file "/z/log"; };
"#;

#[test]
fn policy_zones_of_bind_keep_their_order_and_actions() {
    let found = bind(&format!(
        r#"options {{ recursion yes; allow-recursion {{ any; }}; response-policy {{
  zone "rpz.example" policy given max-policy-ttl 1h ede forged;
  zone "feed.example" policy CNAME garden.example.net add-soa no log no;
  zone "log.example" policy disabled recursive-only yes;
}} break-dnssec yes max-policy-ttl 30 min-ns-dots 2 nsip-wait-recurse no nsdname-wait-recurse no
  qname-wait-recurse no min-update-interval 60 ede blocked; }};{BIND_ZONES}"#
    ));
    let expected = r#"[policy]
break-dnssec = true
qname-wait-recurse = false
ns-wait-recurse = false
min-ns-dots = 2

[[policy.zone]]
name = "rpz.example."
max-ttl = "1h"
extended-error = "forged"

[[policy.zone]]
name = "feed.example."
action = "garden.example.net."
max-ttl = "30s"
add-soa = false
log = false
answers = true

[[policy.zone]]
name = "log.example."
action = "disabled"
max-ttl = "30s"
answers = true

"#;
    assert_eq!(part(&found, "[policy]", "[[zone]]"), expected);
    assert!(found.toml.contains("name = \"rpz.example\"\nfile = \"/z/rpz\"\n"), "{}", found.toml);
    assert_eq!(outcomes(&found, "zone rpz.example policy"), [Coverage::Translated]);
    assert_eq!(outcomes(&found, "allow-query"), [Coverage::Translated]);
    assert_eq!(outcomes(&found, "log no"), [Coverage::Translated]);
    assert!(!found.is_less(), "{:#?}", reported(&found));
}

#[test]
fn a_policy_of_bind_has_the_defaults_of_bind() {
    let text = "options { recursion yes; response-policy { zone log.example; }; };";
    let found = bind(&format!("{text}{BIND_ZONES}"));
    let expected = "[policy]\nqname-wait-recurse = true\n\n[[policy.zone]]\nname = \"log.example.\"\n\
                    max-ttl = \"5s\"\nextended-error = \"none\"\nanswers = true\n\n";
    assert_eq!(part(&found, "[policy]", "[[zone]]"), expected);
    // A zone that is no policy zone is for the same clients.
    has(&found, &["name = \"rpz.example\"\nfile = \"/z/rpz\"\nallow-query = [\"!any\"]"]);
    let off =
        bind(&format!("options {{ recursion no; response-policy {{ zone log.example; }}; }};{BIND_ZONES}"));
    assert!(!off.toml.contains("[policy"), "{}", off.toml);
    assert_eq!(outcomes(&off, "response-policy"), [Coverage::Unneeded]);
}

#[test]
fn queries_of_a_policy_zone_are_for_the_clients_that_could_query_it() {
    let limited = |options: &str, zone: &str, policy: &str| {
        bind(&format!(
            "options {{ recursion yes; allow-recursion {{ any; }}; {options} response-policy {{ {policy} }}; }};\n\
             zone \"rpz.example\" {{ type primary; file \"/z/rpz\"; {zone} }};"
        ))
    };
    let policy = "zone rpz.example;";
    let some = limited("", "allow-query { 10/8; };", policy);
    let global = limited("allow-query { 10/8; };", "", policy);
    for found in [some, global] {
        has(
            &found,
            &[
                "answers = true",
                "[[zone]]\nname = \"rpz.example\"\nfile = \"/z/rpz\"\nallow-query = [\"10.0.0.0/8\"]",
            ],
        );
        assert!(!found.is_less(), "{:#?}", reported(&found));
    }
    let none = limited("", "allow-query { none; };", policy);
    assert!(!none.toml.contains("answers"), "{}", none.toml);
    // A zone from which no client gets answers is sent to no secondary.
    let transfer = limited("", "allow-query { none; }; allow-transfer { 10.0.0.1; };", policy);
    has(&transfer, &["answers = true", "allow-query = [\"!any\"]", "allow-transfer = [\"10.0.0.1\"]"]);
    // Where it is no policy zone in the end, clients get no answers from it either.
    let frob = limited("", "allow-query { none; };", "zone rpz.example policy frob;");
    let closed =
        limited("forwarders { 192.0.2.1 port 853 tls t; }; forward only;", "allow-query { none; };", policy);
    for found in [frob, closed] {
        assert!(!found.toml.contains("[[policy.zone]]"), "{}", found.toml);
        has(&found, &["allow-query = [\"!any\"]"]);
    }
}

#[test]
fn a_policy_of_bind_that_cannot_be_applied_refuses_recursion() {
    for policy in [
        "{ zone absent.example; }",
        "{ zone log.example policy frob; }",
        "{ zone log.example policy cname; }",
        "{ zone log.example max-policy-ttl soon; }",
        "{ zone log.example; } dnsrps-enable yes",
    ] {
        let found = bind(&format!("options {{ recursion yes; response-policy {policy}; }};{BIND_ZONES}"));
        has(&found, &["action = \"refuse\"\nfrom = [\"any\"]"]);
        assert!(found.accounts.iter().any(|one| one.outcome == Coverage::Narrower), "{policy}");
        assert_eq!(found.toml.contains("[policy]"), found.toml.contains("[[policy.zone]]"), "{policy}");
    }
    let less = |parameter: &str| {
        let text =
            format!("options {{ recursion yes; response-policy {{ zone log.example {parameter}; }}; }};");
        outcomes(&bind(&format!("{text}{BIND_ZONES}")), parameter)
    };
    assert_eq!(less("recursive-only no"), [Coverage::Missing]);
    assert_eq!(less("nsip-enable no"), [Coverage::Narrower]);
    assert_eq!(less("log yes"), [Coverage::Differs]);
    assert_eq!(less("log frob"), [Coverage::Missing]);
    assert_eq!(less("frob yes"), [Coverage::Missing]);
}

fn unbound(text: &str) -> Converted {
    of(PeerProgram::Unbound, &[("/etc/unbound/unbound.conf", text)])
}

/// The statements are written as in unbound.conf(5).
#[test]
fn response_ip_of_unbound_is_a_policy_zone_behind_the_others() {
    let found = unbound(
        "server:\n  module-config: \"respip iterator\"\n  access-control: 10.0.0.0/8 allow\n  \
         define-tag: \"mal\"\n  response-ip: 192.0.2.0/24 always_nxdomain\n  response-ip: 192.0.2.128/25 redirect\n  \
         response-ip-data: 192.0.2.128/25 \"A 198.51.100.1\"\n  response-ip: 2001:db8::/32 redirect\n  \
         response-ip-data: 2001:db8::/32 \"CNAME redirect.example.com\"\n  response-ip: 203.0.113.1 always_refuse\n  \
         response-ip: 203.0.113.0/24 deny\n  response-ip-tag: 203.0.113.0/24 \"mal\"\n\
         rpz:\n  name: rpz.example\n  zonefile: rpz.zone\n",
    );
    let zones = "[[policy.zone]]\nname = \"rpz.example.\"\nmax-ttl = \"7d\"\n\n\
                 [[policy.zone]]\nname = \"response-ip.rpz.invalid.\"\n\n";
    assert_eq!(part(&found, "[[policy.zone]]", "[[zone]]"), zones);
    has(&found, &["name = \"response-ip.rpz.invalid\"\nfile = \"/lists/response-ip.txt\"\n"]);
    let [list] = &found.lists[..] else { panic!("{:?}", found.lists) };
    let expected = "$TTL 60\n@ SOA localhost. root.localhost. 1 3600 600 86400 60\n@ NS localhost.\n\
        24.0.2.0.192.rpz-ip CNAME .\n25.128.2.0.192.rpz-ip A 198.51.100.1\n\
        32.0.0.0.0.0.0.db8.2001.rpz-ip CNAME redirect.example.com.\n32.1.113.0.203.rpz-ip CNAME rpz-drop.\n\
        24.0.113.0.203.rpz-ip CNAME rpz-drop.\n";
    assert_eq!(list.text, expected);
    assert_eq!(outcomes(&found, "response-ip-tag"), [Coverage::Unneeded]);
    assert_eq!(outcomes(&found, "response-ip 203.0.113.1"), [Coverage::Differs]);
    let refused = "[[resolver.access]]\naction = \"refuse\"\nfrom = [\"any\"]";
    assert!(!found.toml.contains(refused), "{}", found.toml);
    // What blocks for some clients alone is not moved; without the module, nothing has an effect.
    let tagged = "server:\n  module-config: \"respip iterator\"\n  define-tag: \"mal\"\n  \
                  access-control-tag: 10.0.0.0/8 \"mal\"\n  \
                  access-control-tag-action: 10.0.0.0/8 \"mal\" always_nxdomain\n  \
                  response-ip-tag: 203.0.113.0/24 \"mal\"\n";
    has(&unbound(tagged), &[refused]);
    let off = unbound(&tagged.replace("respip ", ""));
    assert!(!off.toml.contains(refused) && off.lists.is_empty(), "{}", off.toml);
    let unknown = "server:\n  module-config: \"respip iterator\"\n  response-ip: 192.0.2.0/24 frob\n";
    has(&unbound(unknown), &[refused]);
}

#[test]
fn policy_zones_of_unbound_keep_their_order_and_actions() {
    let found = unbound(
        "server:\n  module-config: \"respip iterator\"\n  access-control: 10.0.0.0/8 allow\n\
         rpz:\n  name: rpz.example\n  zonefile: rpz.zone\n  rpz-log: yes\n  rpz-log-name: mine\n\
         rpz:\n  name: feed.example.\n  primary: 192.0.2.1@5353\n  rpz-log: no\n  allow-notify: 192.0.2.1\n  zonefile: feed\n  \
         rpz-action-override: cname\n  rpz-cname-override: garden.example.net\n  rpz-signal-nxdomain-ra: yes\n",
    );
    let expected = r#"[[policy.zone]]
name = "rpz.example."
max-ttl = "7d"

[[policy.zone]]
name = "feed.example."
action = "garden.example.net."
max-ttl = "7d"
log = false

"#;
    assert_eq!(part(&found, "[[policy.zone]]", "[[zone]]"), expected);
    let zones = "[[zone]]\nname = \"rpz.example\"\nfile = \"/etc/unbound/rpz.zone\"\n\n[[zone]]\n\
                 name = \"feed.example\"\nprimaries = [\"192.0.2.1@5353\"]\nallow-notify = [\"192.0.2.1\"]\n";
    assert_eq!(part(&found, "[[zone]]", "\n\n\n"), zones);
    let open = |access: &str, more: &str| {
        unbound(&format!("server:\n  access-control: {access} allow\nrpz:\n  name: r\n  zonefile: r\n{more}"))
    };
    let all = "0.0.0.0/0 allow\n  access-control: ::/0";
    let yes = "  for-downstream: yes\n";
    has(&open(all, yes), &["name = \"r.\"\nmax-ttl = \"7d\"\nanswers = true\n"]);
    // Other clients are refused by the server.
    let limited = open("10.0.0.0/8", yes);
    has(&limited, &["answers = true", "[[server.access]]\naction = \"refuse\"\nfrom = [\"any\"]"]);
    assert!(!limited.is_less(), "{:#?}", reported(&limited));
    let silent = open(all, "  for-downstream: no\n");
    assert!(!silent.toml.contains("answers"), "{}", silent.toml);
    assert_eq!(outcomes(&silent, "for-downstream"), [Coverage::Unneeded]);
    assert!(!reported(&found).iter().any(|one| one.contains("rpz.example")), "{:#?}", reported(&found));
    let logs = [Coverage::Differs, Coverage::Unneeded, Coverage::Translated];
    assert_eq!(outcomes(&found, "rpz-log"), logs);
    assert_eq!(outcomes(&found, "rpz-signal-nxdomain-ra"), [Coverage::Missing]);
    assert_eq!(outcomes(&found, "module-config"), [Coverage::Translated]);
    assert!(found.toml.contains("action = \"allow\""), "{}", found.toml);
    for broken in
        ["  zonefile: r\n  tags: \"a\"\n", "  url: https://r\n", "  zonefile: r\n  rpz-action-override: x\n"]
    {
        let found =
            unbound(&format!("server:\n  access-control: 10.0.0.0/8 allow\nrpz:\n  name: r\n{broken}"));
        has(&found, &["action = \"refuse\"\nfrom = [\"any\"]"]);
    }
}

#[test]
fn local_zones_of_unbound_become_lists() {
    let found = unbound(
        "server:\n  local-zone: ads.example always_nxdomain\n  local-zone: track.example always_null\n  \
         local-zone: quiet.example. always_nodata\n  local-zone: home.example static\n  \
         local-zone: good.ads.example transparent\n  local-zone: closed.example always_refuse\n  \
         local-zone: free.example always_transparent\n  local-zone: silent.example inform_deny\n  \
         local-zone: ads.example refuse\n  local-data: \"host.home.example A 192.0.2.1\"\n  \
         local-data: \"x.ads.example A 192.0.2.2\"\n  local-data: \"x.free.example A 192.0.2.3\"\n",
    );
    let expected = r#"[[policy.list]]
name = "local-zones-nxdomain"
file = "/lists/local-zones-nxdomain.txt"
format = "adblock"

[[policy.list]]
name = "local-zones-null"
file = "/lists/local-zones-null.txt"
format = "adblock"
answer = "null"

[[policy.list]]
name = "local-zones-nodata"
file = "/lists/local-zones-nodata.txt"
format = "adblock"
answer = "nodata"
"#;
    assert_eq!(part(&found, "[[policy.list]]", "\n[log]"), expected);
    let lists: Vec<(&str, &str)> =
        found.lists.iter().map(|list| (list.path.to_str().expect("text"), list.text.as_str())).collect();
    assert_eq!(
        lists,
        [
            ("/lists/local-zones-nxdomain.txt", "||ads.example^\n||home.example^\n@@||good.ads.example^\n"),
            ("/lists/local-zones-null.txt", "||track.example^\n"),
            ("/lists/local-zones-nodata.txt", "||quiet.example^\n"),
        ]
    );
    has(
        &found,
        &[
            "refused-domains = [\"closed.example\", \"silent.example\"]",
            "local-data = [\"host.home.example A 192.0.2.1\"]",
        ],
    );
    // `closed.example` is refused by both, `silent.example` was not answered.
    let less: Vec<String> = reported(&found).into_iter().filter(|one| one.starts_with("Narrower")).collect();
    assert_eq!(less, ["Narrower : names at and below silent.example are refused (`refused-domains`)"]);
    assert_eq!(outcomes(&found, "local-zone silent.example"), [Coverage::Differs]);
}

#[test]
fn a_local_zone_inside_another_keeps_its_names_where_that_is_possible() {
    let lines = |text: &str| {
        let found = unbound(&format!("server:\n{text}"));
        let less = found.accounts.iter().filter(|one| one.outcome == Coverage::Narrower).count();
        (found.lists.iter().map(|list| list.text.clone()).collect::<String>(), less)
    };
    let outer = "  local-zone: a.example always_nxdomain\n  local-zone: b.a.example transparent\n";
    assert_eq!(lines(outer), ("||a.example^\n@@||b.a.example^\n".to_owned(), 0));
    // An exception would exempt the innermost zone, too.
    let inner = format!("{outer}  local-zone: c.b.a.example always_null\n");
    assert_eq!(lines(&inner), ("||a.example^\n||c.b.a.example^\n".to_owned(), 1));
    let refused = "  local-zone: a.example always_refuse\n  local-zone: b.a.example transparent\n";
    assert_eq!(lines(refused), (String::new(), 1));
}

#[test]
fn policy_zones_of_the_recursor_keep_their_order_and_actions() {
    let lua = "addNTA('corp.example')\n-- rpzFile('no')\n\
               rpzFile('/z/rpz', {defpol=Policy.Custom, defcontent=\"garden.example.net\", maxTTL=60})\n\
               rpzPrimary({'192.0.2.1', '[2001:db8::1]:54'}, 'feed.example', {\n  defpol=Policy.NoAction, \
               extendedErrorCode=15,\n  tsigname='k', tsigalgo='hmac-sha256', tsigsecret='c2VjcmV0', refresh=60, \
               includeSOA=true})\n";
    let files = [
        ("/r", "allow-from=10.0.0.0/8\nlua-config-file=/l\n"),
        ("/l", lua),
        ("/z/rpz", "$ORIGIN rpz.example.\n@ 60 SOA a. b. 1 2 3 4 5\n"),
    ];
    let found = of(PeerProgram::Recursor, &files);
    let expected = r#"[[policy.zone]]
name = "rpz.example."
action = "garden.example.net."
max-ttl = "1m"
add-soa = false
extended-error = "none"

[[policy.zone]]
name = "feed.example."
action = "passthru"
max-ttl = "7d"

[[zone]]
name = "rpz.example"
file = "/z/rpz"

[[zone]]
name = "feed.example"
primaries = ["192.0.2.1 key:k", "[2001:db8::1]@54 key:k"]
min-refresh = "1m"
max-refresh = "1m"
"#;
    assert_eq!(part(&found, "[[policy.zone]]", "\n\n\n"), expected);
    has(&found, &["action = \"allow\"", "[[tsig-key]]\nname = \"k\""]);
    assert!(!found.is_less(), "{:#?}", reported(&found));
    // A file without a name of its own has that of its policy.
    for (text, name) in
        [("@ SOA a. b. 1 2 3 4 5\n", "mine"), ("x.example. 60 IN SOA a. b. 1 2 3 4 5\n", "x.example")]
    {
        let files = [
            ("/r", "allow-from=10.0.0.0/8\nlua-config-file=/l\n"),
            ("/l", "rpzFile('/z', {policyName='mine'})\n"),
            ("/z", text),
        ];
        has(&of(PeerProgram::Recursor, &files), &[&format!("[[policy.zone]]\nname = \"{name}.\"")]);
    }
    for bad in [
        "rpzFile('/absent')",
        "rpzFile(name)",
        "rpzPrimary('ns.example', 'x')",
        "rpzPrimary('192.0.2.1', 'x', {tsigname='k', tsigalgo='hmac-md5', tsigsecret='c2Vj'})",
        "rpzFile('/z', {defpol=Policy.Frob})",
        "for f in x do rpzFile(f) end",
    ] {
        let files = [("/r", "allow-from=10.0.0.0/8\nlua-config-file=/l\n"), ("/l", bad), ("/z", "@ SOA")];
        has(&of(PeerProgram::Recursor, &files), &["action = \"refuse\"\nfrom = [\"any\"]"]);
    }
}

#[test]
fn a_recursor_in_yaml_is_read_as_in_the_old_format() {
    let yaml = "# a comment\ndnssec:\n  validation: validate\n  negative_trustanchors:\n    - name: corp.example\n\
        incoming:\n  listen: ['192.0.2.53', '2001:db8::53']\n  port: 5353\n  allow_from: ['10.0.0.0/8', '!10.9.0.0/16']\n\
        outgoing:\n  max_qperq: 40\nrecordcache:\n  max_ttl: 3600\nlogging:\n  quiet: false\n\
        recursor:\n  threads: 3\n  nosuch: 1\n  forward_zones:\n    - zone: corp.example\n      forwarders: ['192.0.2.1', '192.0.2.2:54']\n      recurse: true\n\
        \x20 auth_zones:\n    - zone: own.example\n      file: own.zone\n\
        \x20 rpzs:\n    - name: /z/rpz\n      defpol: Custom\n      defcontent: garden.example.net\n      maxTTL: 60\n\
        \x20   - name: feed.example\n      addresses: ['192.0.2.7', '[2001:db8::1]:54']\n      includeSOA: true\n      extendedErrorCode: 15\n\
        \x20     tsig:\n        name: k\n        algo: hmac-sha256\n        secret: c2VjcmV0\n      refresh: 60\n";
    let files = [("/r", yaml), ("/z/rpz", "$ORIGIN rpz.example.\n@ 60 SOA a. b. 1 2 3 4 5\n")];
    let found = of(PeerProgram::Recursor, &files);
    has(
        &found,
        &[
            "192.0.2.53@5353",
            "[2001:db8::53]@5353",
            "workers = 3",
            "max-ttl = \"1h\"",
            "budget-queries = 40",
            "queries = true",
            "domain = \"corp.example\"",
            "192.0.2.2@54",
            "[[zone]]\nname = \"own.example\"\nfile = \"/own.zone\"\n",
            "[[server.access]]\naction = \"drop\"\nfrom = [\"any\"]\n",
            "[[policy.zone]]\nname = \"rpz.example.\"\naction = \"garden.example.net.\"\nmax-ttl = \"1m\"\n",
            "[[policy.zone]]\nname = \"feed.example.\"\nmax-ttl = \"7d\"\n",
            "192.0.2.7 key:k",
            "negative-trust-anchors",
        ],
    );
    for bad in [
        "recursor:\n  rpzs:\n    - name: /absent\n",
        "recursor:\n  rpzs:\n    - name: x\n      addresses: [ns.example]\n",
        "recursor:\n  include_dir: /more\n",
        "recursor:\n  forward_zones_file: /more.yml\n",
    ] {
        has(&of(PeerProgram::Recursor, &[("/r", bad)]), &["action = \"refuse\"\nfrom = [\"any\"]"]);
    }
}

#[test]
fn tags_of_unbound_are_groups_and_conditions() {
    let zones = "  define-tag: \"kids tv\"\n  local-zone: games.example always_nxdomain\n  local-zone-tag: games.example \"kids tv\"\n\
        \x20 local-zone: ads.example always_nxdomain\n";
    let clients = "  access-control: 10.0.0.0/8 allow\n  access-control-tag: 10.0.0.0/8 \"kids\"\n\
        \x20 access-control: 10.1.0.0/16 allow\n  access-control-tag: 10.2.0.0/16 \"tv\"\n  access-control: 0.0.0.0/0 refuse\n";
    let found = of(PeerProgram::Unbound, &[("/u", &format!("server:\n{clients}{zones}"))]);
    let group = |number: &str, from: &str, tags: &str| {
        format!("[[policy.group]]\nname = \"clients{number}\"\nfrom = [\"{from}\"]\n{tags}")
    };
    has(
        &found,
        &[
            &group("", "10.1.0.0/16", ""),
            &group("-2", "10.2.0.0/16", "tags = [\"tv\"]\n"),
            &group("-3", "10.0.0.0/8", "tags = [\"kids\"]\n"),
        ],
    );
    let lines: Vec<&str> = found.lists.iter().flat_map(|list| list.text.lines()).collect();
    assert!(
        lines.contains(&"||games.example^$ctag=kids|tv") && lines.contains(&"||ads.example^"),
        "{lines:?}"
    );
    assert!(!found.toml.contains("refused-domains"), "{}", found.toml);
    // Tags of interfaces have no counterpart.
    let more = "  interface-tag: 192.0.2.1 \"kids\"\n";
    let found = of(PeerProgram::Unbound, &[("/u", &format!("server:\n{clients}{zones}{more}"))]);
    has(&found, &["refused-domains = [\"games.example\"]"]);
    assert!(!found.toml.contains("[[policy.group]]"), "{}", found.toml);
}

/// Compared with Unbound 1.17.1: the first tag of `define-tag` that client and zone have in common decides,
/// and of two actions for one tag the first.
#[test]
fn actions_of_tags_of_unbound_are_rules_for_the_groups_of_their_clients() {
    let zones = "  define-tag: \"a b c\"\n  local-zone: one.example always_nxdomain\n  local-zone-tag: one.example \"b a\"\n\
        \x20 local-zone: two.example transparent\n  local-zone-tag: two.example \"b\"\n";
    let client = |last: u8, tags: &str, more: &[&str]| {
        let lines = more.iter().map(|more| {
            format!("  access-control-tag-{}\n", more.replace('@', &format!("10.0.0.{last}/32")))
        });
        format!(
            "  access-control: 10.0.0.{last}/32 allow\n  access-control-tag: 10.0.0.{last}/32 \"{tags}\"\n{}",
            lines.collect::<String>()
        )
    };
    let clients = [
        client(
            1,
            "a b",
            &["action: @ \"b\" redirect", "data: @ \"b\" \"A 10.0.0.99\"", "data: @ \"b\" \"AAAA ::99\""],
        ),
        client(2, "a b", &["action: @ \"b\" always_null", "action: @ \"a\" always_transparent"]),
        client(3, "b", &["action: @ \"b\" deny", "action: @ \"b\" always_null"]),
        client(4, "b", &["action: @ \"b\" redirect"]),
        client(5, "c", &[]),
    ];
    let text = format!("server:\n  access-control: 10.0.0.0/8 allow\n{}{zones}", clients.concat());
    let found = of(PeerProgram::Unbound, &[("/u", &text)]);
    has(
        &found,
        &[
            "[[policy.group]]\nname = \"clients\"\nfrom = [\"10.0.0.1\"]\ntags = [\"a\", \"b\"]\n",
            "[[policy.group]]\nname = \"clients-3\"\nfrom = [\"10.0.0.3\"]\n",
        ],
    );
    let lines: std::collections::BTreeSet<(&str, &str)> = found
        .lists
        .iter()
        .flat_map(|list| list.text.lines().map(|line| (list.path.to_str().expect("a path"), line)))
        .filter(|(_, line)| line.starts_with("||"))
        .map(|(path, line)| (path.rsplit('/').next().expect("a name"), line))
        .collect();
    let expected = [
        ("local-zones-nodata.txt", "||one.example^$client='clients-4'"),
        ("local-zones-nodata.txt", "||two.example^$client='clients-4'"),
        ("local-zones-null.txt", "||two.example^$client='clients-2'"),
        ("local-zones-nxdomain.txt", "||one.example^$client='clients'"),
        ("local-zones-nxdomain.txt", "||one.example^$client='clients-3',dnsrewrite=REFUSED"),
        ("local-zones-nxdomain.txt", "||two.example^$client='clients',dnsrewrite=NOERROR;A;10.0.0.99"),
        ("local-zones-nxdomain.txt", "||two.example^$client='clients',dnsrewrite=NOERROR;AAAA;::99"),
        ("local-zones-nxdomain.txt", "||two.example^$client='clients-3',dnsrewrite=REFUSED"),
    ];
    assert_eq!(lines, expected.into_iter().collect());
    assert!(!found.toml.contains("refused-domains") && !found.is_less(), "{:#?}", reported(&found));
    // Zones in each other, and records of the zone, have no counterpart.
    for more in [
        "  local-zone: x.two.example always_null\n",
        "  local-data: \"two.example A 192.0.2.1\"\n",
        "  access-control-tag-data: 10.0.0.1/32 \"b\" \"MX 10 mail.example\"\n",
    ] {
        let found = of(PeerProgram::Unbound, &[("/u", &(text.clone() + more))]);
        assert!(found.toml.contains("refused-domains") && found.is_less(), "{more}: {}", found.toml);
    }
}

/// The exception in the list had no effect, since the outer zone is refused.
#[test]
fn a_transparent_zone_in_a_listed_one_in_a_refused_one_was_not_reported() {
    let of = |outer: &str| {
        unbound(&format!(
            "server:\n  access-control: 10.0.0.0/8 allow\n  local-zone: example {outer}\n  local-zone: a.example static\n  \
             local-zone: b.a.example transparent\n"
        ))
    };
    let exempts = |found: &Converted| found.lists.iter().any(|list| list.text.contains("@@||b.a.example^"));
    for outer in ["refuse", "redirect", "deny"] {
        let found = of(outer);
        assert!(outcomes(&found, "local-zone b.a.example").contains(&Coverage::Narrower), "{outer}");
        assert!(found.is_less() && !exempts(&found), "{outer}");
    }
    let open = of("transparent");
    assert!(outcomes(&open, "local-zone b.a.example").contains(&Coverage::Translated));
    assert!(exempts(&open) && !open.is_less(), "{:#?}", reported(&open));
}
