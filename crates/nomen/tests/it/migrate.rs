//! Configurations of other servers, converted: the output can be served, and the reports have positions.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::changes::STATE;
use crate::support::{Server, eventually, run, text};

/// One sample for each syntax, with a zone or a rule in it.
const SAMPLES: [(&str, &str); 9] = [
    (
        "named.conf",
        "key k { algorithm hmac-sha256; secret \"c2VjcmV0\"; };\n\
         options { directory \"/z\"; tcp-clients 50; min-cache-ttl 60; max-cache-ttl 30;\n\
         listen-on port 5300 { any; 127.0.0.1; }; allow-transfer { 10/8; key k; }; version none;\n\
         transfer-source 192.0.2.2; notify-source-v6 2001:db8::2; resolver-query-timeout 8; \
         max-query-restarts 9; max-records 0; fetches-per-zone 0;\n\
         synth-from-dnssec no; deny-answer-addresses { 10/8; } except-from { corp.example; }; \
         zone-statistics full; query-source 192.0.2.2; query-source-v6 none;\n\
         forwarders { 192.0.2.53; }; rrset-order { order none; };\n\
         dnstap { client; auth response; }; dnstap-output unix \"tap\" size 1m; \
         ixfr-from-differences yes; response-policy { zone a.example; zone rpz.example policy nodata; }; };\n\
         zone rpz.example { type primary; file \"rpz\"; allow-query { none; }; };\n\
         trust-anchors { other.example static-ds 60485 13 2 \
         \"2BB183AF5F22588179A53B0A98631FAD1A292118AB2D5E9F5D6B5C1C6D6E2B3A\"; };\n\
         statistics-channels { inet 127.0.0.1; };\n\
         logging { channel q { file \"q\"; }; category queries { q; }; };\n\
         zone a.example { type master; file \"a\"; allow-update { key k; }; };\n\
         zone b.example { type slave; masters { 192.0.2.1 key k; }; min-refresh-time 60; \
         max-refresh-time 10; allow-update-forwarding { key k; }; };\n\
         zone c.example { type master; file \"c\"; update-policy { grant k wildcard *.c.example. A; }; };\n\
         zone d.example { type master; file \"x/d\"; };\n",
    ),
    (
        "nsd.conf",
        "server:\n server-count: 2\n tcp-count: 100\n do-ip6: no\n ip-address: 192.0.2.1\n \
         ip-freebind: yes\n round-robin: no\n zonesdir: /z\npattern:\n name: p\n zonefile: %s\n \
         provide-xfr: 10.0.0.0/8 NOKEY\n\
         zone:\n name: a.example\n include-pattern: p\nzone:\n name: b.example\n include-pattern: p\n\
         pattern:\n name: m\n request-xfr: 192.0.2.1 NOKEY\npattern:\n name: l\n zonefile: %s\n \
         catalog-producer-zone: made.example\n create-ixfr: yes\n\
         zone:\n name: made.example\n catalog: producer\nzone:\n name: c.example\n include-pattern: l\n\
         zone:\n name: taken.example\n request-xfr: 192.0.2.1 NOKEY\n outgoing-interface: 192.0.2.2\n \
         catalog: consumer\n catalog-member-pattern: m\n\
         dnstap:\n dnstap-enable: yes\n dnstap-socket-path: /t\n dnstap-log-auth-query-messages: yes\n",
    ),
    (
        "knot.conf",
        "server:\n  answer-rotation: on\nacl:\n  - id: upd\n    address: 10.0.0.1\n    action: update\n    \
         update-owner: name\n    update-owner-match: pattern\n    \
         update-owner-name: [\"_acme-challenge.*\"]\nremote:\n  - id: up\n    address: 192.0.2.1\n    \
         via: 192.0.2.2\ntemplate:\n  - id: t\n    storage: /z\n    file: \"%s.db\"\n\
         \x20 - id: u\n    master: up\nzone:\n  - domain: d.example\n    acl: upd\n    \
         zonefile-sync: 1h\n    zonemd-verify: on\n  - domain: made.example\n    catalog-role: generate\n  \
         - domain: b.example\n    catalog-role: member\n    catalog-zone: made.example\n    \
         catalog-group: g\n    zonefile-load: difference\n  - domain: a.example\n  \
         - domain: cat.example\n    master: up\n    catalog-role: interpret\n    \
         catalog-template: [t, u]\n    zonemd-verify: on\n",
    ),
    (
        "unbound.conf",
        "server:\n access-control: 10.0.0.0/8 allow\n ip-freebind: yes\n rrset-roundrobin: yes\n \
         outgoing-interface: 192.0.2.2\n local-data: \"a.lan. A 192.0.2.1\"\n private-domain: x\n \
         unblock-lan-zones: yes\n insecure-lan-zones: yes\n do-tcp: no\n tcp-upstream: yes\n \
         infra-cache-min-rtt: 500\n infra-cache-max-rtt: 300\n\
         neg-cache-size: 1k\n incoming-num-tcp: 5\n val-bogus-ttl: 600\n cache-max-ttl: 0\n \
         trust-anchor: \"other.example. DNSKEY 257 3 13 \
         mdsswUyr3DPW132mOi8V9xESWE8jTo0dxCjjnopKl+GqJxpVXckHAeF+KkxLbxILfDLUT0rAK9iUzy1L53eKGQ==\"\n\
         forward-zone:\n name: .\n forward-addr: 192.0.2.53\n forward-first: yes\nstub-zone:\n name: s\n \
         stub-addr: 192.0.2.54@54\n\
         auth-zone:\n name: z\n primary: 192.0.2.1\n zonemd-check: yes\ndnstap:\n dnstap-enable: yes\n \
         dnstap-socket-path: /t\n dnstap-log-client-query-messages: yes\n dnstap-sample-rate: 7\n\
         rpz:\n name: r\n zonefile: r\n rpz-action-override: nxdomain\n",
    ),
    (
        "pdns.conf",
        "launch=gsqlite3\nxfr-max-received-mbytes=100\nmax-tcp-connections-per-client=0\n\
         local-address=127.0.0.1:5300\nsetgid=pdns\nmax-tcp-connections=20\nserver-id=x\n",
    ),
    (
        "recursor.conf",
        "allow-from=10.0.0.0/8\nforward-zones=a.example=192.0.2.1\nauth-zones=b.example=/z/b\n\
         dns64-prefix=64:ff9b::/96\nquiet=no\nquery-local-address=192.0.2.2\naggressive-nsec-cache-size=0\n\
         max-rrset-size=0\n",
    ),
    (
        "dnsdist.conf",
        "setLocal(\"127.0.0.1:5300\")\nsetACL({\"10.0.0.0/8\"})\nnewServer(\"192.0.2.53\")\n\
         newServer{address=\"192.0.2.54\", tls=\"openssl\", subjectName=\"dns.example\", pool=\"c\"}\n\
         addAction(\"corp.example\", PoolAction(\"c\"))\naddAction({\"10.9.0.0/16\"}, DropAction())\n\
         addAction(MaxQPSIPRule(5, 24, 48), TCAction())\nsetStaleCacheEntriesTTL(9999999)\n",
    ),
    (
        "AdGuardHome.yaml",
        "dns:\n  bind_hosts: [127.0.0.1]\n  port: 5300\n  upstream_dns: [192.0.2.53, '[/corp.example/]tcp://10.0.0.1:54']\n  \
         disallowed_clients: [10.0.0.6]\n  blocked_hosts: [version.bind, bad.example]\n  cache_size: 4194304\n  \
         use_private_ptr_resolvers: true\n  local_ptr_upstreams: [10.0.0.1]\nfiltering:\n  rewrites:\n  \
         - {domain: a.example, answer: 192.0.2.1, enabled: true}\n  \
         - {domain: '*.b.example', answer: a.example, enabled: true}\n  blocked_response_ttl: 99999999\n  \
         safe_search: {enabled: true, yandex: false}\n\
         filters:\n- {enabled: true, url: 'http://192.0.2.1/l', name: a}\n\
         clients:\n  persistent:\n  - {name: tv, ids: [10.0.0.7], use_global_settings: false}\n\
         schema_version: 29\n",
    ),
    (
        "pihole.toml",
        "[dns]\nupstreams = [\"192.0.2.53#54\"]\nport = 5300\nhosts = [\"192.0.2.1 a\"]\n\
         cnameRecords = [\"b.lan,a.lan,60\"]\nrevServers = [\"true,192.168.1.0/24,192.168.1.1,fritz.box\"]\n\
         listeningMode = \"ALL\"\nblockTTL = 2\n[dns.cache]\noptimizer = 3600\n[dns.blocking]\nactive = false\n",
    ),
];

#[test]
fn what_is_printed_is_a_good_configuration() {
    for (name, contents) in SAMPLES {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join(name), contents).expect("written");
        let moved = run(folder.path(), &["migrate", name]);
        fs::write(folder.path().join("nomen.toml"), &moved.stdout).expect("written");
        let checked = run(folder.path(), &["check", "--no-zones", "nomen.toml"]);
        let shown =
            format!("{name}\n{}{}{}", text(&moved.stdout), text(&moved.stderr), text(&checked.stderr));
        assert!(checked.status.success(), "{shown}");
    }
}

#[test]
fn groups_and_lists_of_pi_hole_are_a_good_configuration() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, contents: &str| fs::write(folder.path().join(name), contents).expect("written");
    write("pihole.toml", "[dns]\nupstreams = [\"192.0.2.53\"]\nport = 5300\n");
    write(
        "gravity.sql",
        "INSERT INTO \"group\"(id,enabled,name) VALUES(1,1,'default');\n\
         INSERT INTO adlist(id,address,enabled,type) VALUES(1,'https://lists.example/hosts.txt',1,0);\n\
         INSERT INTO adlist_by_group(adlist_id,group_id) VALUES(1,0);\n\
         INSERT INTO domainlist(id,type,domain,enabled) VALUES(1,1,'games.example',1);\n\
         INSERT INTO domainlist_by_group(domainlist_id,group_id) VALUES(1,1);\n\
         INSERT INTO client(id,ip) VALUES(1,'192.0.2.99');\n\
         INSERT INTO client_by_group(client_id,group_id) VALUES(1,1);\n",
    );
    let moved = run(folder.path(), &["migrate", "--lists", "lists", "pihole.toml"]);
    assert_eq!(moved.status.code(), Some(0), "{}", text(&moved.stderr));
    assert!(text(&moved.stdout).contains("[[policy.group]]\nname = \"group\"\n"), "{}", text(&moved.stdout));
    fs::write(folder.path().join("nomen.toml"), &moved.stdout).expect("written");
    let checked = run(folder.path(), &["check", "--no-zones", "nomen.toml"]);
    assert!(checked.status.success(), "{}", text(&checked.stderr));
}

/// Creates fifty zones with files of the names that BIND would use.
fn fifty(folder: &Path) {
    let mut conf = format!("options {{ directory \"{}\"; recursion no; }};\n", folder.display());
    for n in 0..50 {
        let _ = writeln!(
            conf,
            "zone \"zone{n}.example\" {{ type master; file \"db.{n}\"; allow-transfer {{ 127.0.0.1; }}; }};"
        );
        let zone = format!("@ 60 SOA ns host {n} 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.{n}\n");
        fs::write(folder.join(format!("db.{n}")), zone).expect("written");
    }
    fs::write(folder.join("named.conf"), conf).expect("written");
}

#[test]
fn fifty_zones_of_bind_are_served() {
    let folder = tempfile::tempdir().expect("a folder");
    fifty(folder.path());
    let moved = run(folder.path(), &["migrate", "named.conf"]);
    assert_eq!(moved.status.code(), Some(0), "{}", text(&moved.stderr));
    let printed = text(&moved.stdout);
    let zones = printed.find("[template").expect("they have their clients in common");
    let server = Server::start_in(folder, "", &printed[zones..]);
    for n in 0..50 {
        let answer = server.query(&["+short", &format!("ns.zone{n}.example"), "A"]);
        assert_eq!(answer.trim(), format!("192.0.2.{n}"));
    }
}

/// The KSK is neither generated nor asked for by the server: a request is signed with one that is elsewhere.
#[test]
fn a_policy_of_bind_with_its_ksk_offline_is_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let conf = "options { recursion no; };\n\
        dnssec-policy off {\n  offline-ksk yes;\n  keys {\n    ksk lifetime P1Y algorithm 13;\n    \
        zsk lifetime P60D algorithm 13;\n  };\n};\n\
        dnssec-policy rsa { offline-ksk yes; keys { ksk lifetime P1Y algorithm 8 3072; \
        zsk lifetime P60D algorithm 8 3072; }; };\n\
        dnssec-policy one {\n  offline-ksk yes;\n};\n";
    let zones = format!(
        "zone example {{ type primary; file \"{0}/example\"; dnssec-policy off; }};\n\
         zone rsa.example {{ type primary; file \"{0}/rsa\"; dnssec-policy rsa; }};\n\
         zone one.example {{ type primary; file \"{0}/one\"; dnssec-policy one; }};\n",
        folder.path().display()
    );
    fs::write(folder.path().join("named.conf"), format!("{conf}{zones}")).expect("written");
    for file in ["example", "rsa", "one"] {
        let zone = "@ 60 SOA ns host 1 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.1\n";
        fs::write(folder.path().join(file), zone).expect("written");
    }
    let moved = run(folder.path(), &["migrate", "--json", "named.conf"]);
    assert_eq!(moved.status.code(), Some(1), "a single key cannot be offline: {}", text(&moved.stderr));
    let found: serde_json::Value = serde_json::from_slice(&moved.stdout).expect("JSON");
    let outcomes = |statement: &str| -> Vec<(String, u64)> {
        let all = found["statements"].as_array().expect("a list").iter();
        let of = all.filter(|one| one["statement"].as_str().is_some_and(|text| text.starts_with(statement)));
        let pair =
            |one: &serde_json::Value| (one["outcome"].as_str().map(str::to_owned), one["line"].as_u64());
        let mut all: Vec<_> =
            of.map(pair).map(|(outcome, line)| (outcome.expect("text"), line.expect("a line"))).collect();
        all.sort_by_key(|(_, line)| *line);
        all
    };
    let own = |word: &str, line| (word.to_owned(), line);
    assert_eq!(outcomes("offline-ksk"), [own("translated", 3), own("translated", 9), own("missing", 11)]);
    assert_eq!(outcomes("ksk lifetime"), [own("differs", 5), own("differs", 9)]);
    let printed = found["configuration"].as_str().expect("text");
    fs::write(folder.path().join("nomen.toml"), printed).expect("written");
    let checked = run(folder.path(), &["check", "--no-zones", "nomen.toml"]);
    assert!(checked.status.success(), "{printed}\n{}", text(&checked.stderr));

    let policies = printed.find("[dnssec-policy").expect("a policy");
    let server = Server::start_in(folder, STATE, &printed[policies..]);
    let ctl = |words: &[&str]| {
        let done = server.ctl(words);
        assert!(done.status.success(), "{words:?}: {}", text(&done.stderr));
        text(&done.stdout)
    };
    server.wait_for_log("its KSK is offline, and there is no signed key response", 2);
    eventually("the zone was looked at", &server, || {
        server.ctl(&["key", "list", "example"]).status.success()
    });
    ctl(&["key", "pregenerate", "example", "--for", "30d"]);
    server.write("request.ksr", &ctl(&["key", "request", "example", "--for", "20d"]));
    let folder = server.folder.path();
    for words in [
        &["key", "generate", "example", "--role", "ksk", "-K", "."][..],
        &["key", "sign-request", "example", "request.ksr", "-K", ".", "-o", "response.skr"],
    ] {
        let done = run(folder, words);
        assert!(done.status.success(), "{words:?}: {}", text(&done.stderr));
    }
    ctl(&["key", "import-response", "example", &server.path("response.skr").display().to_string()]);
    eventually("the zone has the keys of the response", &server, || {
        let keys = server.query(&["example", "DNSKEY", "+short", "+dnssec"]);
        let count = |start: &str| keys.lines().filter(|line| line.starts_with(start)).count();
        (count("257 "), count("256 "), count("DNSKEY ")) == (1, 1, 1)
    });
}

#[test]
fn what_has_no_counterpart_is_shown_at_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(
        folder.path().join("named.conf"),
        "options {\n  recursion no;\n  sortlist { 10.0.0.0; };\n};\n",
    )
    .expect("written");
    let moved = run(folder.path(), &["migrate", "named.conf"]);
    assert_eq!(moved.status.code(), Some(1));
    let shown = "missing: `sortlist`: nomen does not sort addresses by the network of the client\n --> named.conf:3:3\n  |\n\
                 3 |   sortlist { 10.0.0.0; };\n  |   ^^^^^^^^\n";
    assert!(text(&moved.stderr).contains(shown), "{}", text(&moved.stderr));
    let moved = run(folder.path(), &["migrate", "--json", "named.conf"]);
    let found: serde_json::Value = serde_json::from_slice(&moved.stdout).expect("JSON");
    let statements = found["statements"].as_array().expect("a list");
    let limit = statements.iter().find(|one| one["statement"] == "sortlist").expect("it is there");
    assert_eq!(limit["outcome"], "missing");
    assert_eq!(limit["line"], 3);
    assert_eq!(limit["column"], 3);
    assert!(found["configuration"].as_str().is_some_and(|text| text.contains("[[listen]]")));
}

#[test]
fn what_cannot_be_read_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("named.conf"), "options {\n  recursion no\n};\n").expect("written");
    let broken = run(folder.path(), &["migrate", "named.conf"]);
    assert_eq!((broken.status.code(), text(&broken.stdout).as_str()), (Some(1), ""));
    let shown = "error: a `;` is missing behind this\n --> named.conf:2:13\n  |\n2 |   recursion no\n  \
                 |             ^^\n";
    assert_eq!(text(&broken.stderr), shown);
    assert_eq!(run(folder.path(), &["migrate", "absent.conf"]).status.code(), Some(3));
    assert_eq!(run(folder.path(), &["migrate"]).status.code(), Some(2));
}

#[test]
fn lists_are_written_where_they_are_wanted_and_replace_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let conf = "server:\n interface: 127.0.0.1\n local-zone: ads.example always_null\n";
    fs::write(folder.path().join("unbound.conf"), conf).expect("written");
    let without = run(folder.path(), &["migrate", "unbound.conf"]);
    assert_eq!(without.status.code(), Some(1));
    let shown = "missing: /etc/nomen/lists/local-zones-null.txt: this list is not written";
    assert!(text(&without.stderr).contains(shown), "{}", text(&without.stderr));
    let moved = run(folder.path(), &["migrate", "--lists", "lists", "unbound.conf"]);
    assert_eq!(moved.status.code(), Some(0), "{}", text(&moved.stderr));
    let list = folder.path().join("lists/local-zones-null.txt");
    assert_eq!(fs::read_to_string(&list).expect("written"), "||ads.example^\n");
    // The configuration names it, and it can be read.
    fs::write(folder.path().join("nomen.toml"), &moved.stdout).expect("written");
    let checked = run(folder.path(), &["check", "--no-zones", "nomen.toml"]);
    assert!(checked.status.success(), "{}", text(&checked.stderr));
    assert_eq!(run(folder.path(), &["migrate", "--lists", "lists", "unbound.conf"]).status.code(), Some(0));
    fs::write(&list, "||mine.example^\n").expect("written");
    let refused = run(folder.path(), &["migrate", "--lists", "lists", "unbound.conf"]);
    assert_eq!((refused.status.code(), text(&refused.stdout).as_str()), (Some(3), ""));
    assert!(text(&refused.stderr).contains("is not replaced"), "{}", text(&refused.stderr));
    assert_eq!(fs::read_to_string(&list).expect("written"), "||mine.example^\n");
    let json = run(folder.path(), &["migrate", "--json", "unbound.conf"]);
    let found: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(found["lists"]["/etc/nomen/lists/local-zones-null.txt"], "||ads.example^\n");
}

/// Configurations that cannot be converted exactly: less is served, this is reported, and the exit status is
/// 1.
#[test]
fn what_becomes_narrower_is_reported_and_sets_the_exit_status() {
    for (name, contents, lacks) in [
        (
            "named.conf",
            "options { recursion no; };\n\
             view v { match-recursive-only yes; zone a.example { type master; file \"/a\"; }; };\n",
            "[[zone]]",
        ),
        (
            "unbound.conf",
            "server:\n interface: 127.0.0.1\n tls-upstream: yes\nforward-zone:\n name: .\n \
             forward-addr: 192.0.2.1@853\n",
            "[resolver]",
        ),
        ("recursor.conf", "allow-from=10.0.0.0/8\nforward-zones=corp.example=192.0.2.1:853\n", "192.0.2.1"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join(name), contents).expect("written");
        let moved = run(folder.path(), &["migrate", name]);
        assert_eq!(moved.status.code(), Some(1), "{}", text(&moved.stderr));
        assert!(text(&moved.stderr).contains("narrower: "), "{}", text(&moved.stderr));
        assert!(!text(&moved.stdout).contains(lacks), "{}", text(&moved.stdout));
        fs::write(folder.path().join("nomen.toml"), &moved.stdout).expect("written");
        let checked = run(folder.path(), &["check", "--no-zones", "nomen.toml"]);
        assert!(checked.status.success(), "{}", text(&checked.stderr));
    }
}
