//! Targets of aliases that are made here, by policies and local data, in zones of the same server.

use std::fs;

use crate::support::{APEX, Server, eventually, text, written};

/// A client of the view `inside`, and one of none.
const INSIDE: &str = "127.0.0.2";
const OUTSIDE: &str = "127.0.0.1";

const UPSTREAM: &str = "www A 192.0.2.1\nbad A 192.0.2.2\nfar A 192.0.2.3\nsigned A 192.0.2.4\n";

const HEAD: &str = "$TTL 60\n@ SOA . . 1 3600 600 86400 60\n@ NS invalid.\n";

const RULES: &str = "bad.example CNAME walled.corp.test.\nall.example CNAME *.corp.test.\n\
    away.example CNAME away.corp.test.\nnone.example CNAME none.corp.test.\n\
    closed.example CNAME www.closed.test.\nloop.example CNAME loop.corp.test.\n";

const CORP: &str = "$TTL 60\n@ SOA ns admin 1 3600 600 86400 60\n@ NS ns\nns A 10.0.0.1\naway CNAME far.example.\n\
    all.example A 10.0.0.82\nloop CNAME loop.example.\n";

/// A forwarder with the policy zone `rpz.test`, which has these rules as well, a list, and the zones that
/// their aliases lead to. The other server knows none of these.
fn server(more: &str) -> [Server; 2] {
    let upstream = Server::start(&format!("{APEX}{UPSTREAM}"), "");
    let folder = tempfile::tempdir().expect("a folder");
    let corp = |last: u8| format!("{CORP}walled A 192.0.2.{last}\n");
    for (name, contents) in [
        ("rpz", format!("{HEAD}{RULES}{more}")),
        ("list", "||listed.example^$dnsrewrite=walled.corp.test\n".to_owned()),
        ("corp", corp(80)),
        ("inside", corp(81)),
        ("closed", format!("{HEAD}www A 192.0.2.90\n5 PTR host.test.\n")),
        ("bing", format!("{HEAD}@ A 192.0.2.70\n")),
    ] {
        fs::write(folder.path().join(name), contents).expect("written");
    }
    let zone = |name: &str, file: &str, more: &str| {
        format!("[[zone]]\nname = \"{name}\"\nfile = \"{file}\"\n{more}")
    };
    let zones = [
        zone("rpz.test", "rpz", ""),
        zone("corp.test", "corp", ""),
        zone("corp.test", "inside", "view = \"inside\"\n"),
        zone("closed.test", "closed", "allow-query = [\"192.0.2.0/24\"]\n"),
        zone("strict.bing.com", "bing", ""),
        zone("2.0.192.in-addr.arpa", "closed", ""),
    ];
    let config = format!(
        "[resolver]\nvalidate = false\nfirst-timeout = \"10s\"\nmin-timeout = \"10s\"\nmax-timeout = \"60s\"\n\
         client-timeout = \"60s\"\ndns64-prefix = \"64:ff9b::/96\"\nlocal-data = [\"portal.lan. CNAME walled.corp.test.\"]\n\
         [[resolver.access]]\nfrom = [\"loopback\"]\n[[resolver.forward]]\nservers = [{}]\n\
         [[view]]\nname = \"inside\"\nfrom = [\"{INSIDE}\"]\n\
         [[policy.zone]]\nname = \"rpz.test\"\n[[policy.list]]\nname = \"list\"\nfile = \"list\"\n\
         [policy]\nsafe-search = true\nbreak-dnssec = true\n{}",
        written(upstream.address),
        zones.concat()
    );
    [Server::start_in(folder, "", &config), upstream]
}

/// The short answer to a query of type A of a client, in one line.
fn short(server: &Server, client: &str, name: &str) -> String {
    server.query(&[name, "A", "+short", "-b", client]).trim().replace('\n', " ")
}

/// The resolver looked the target up at other servers, which do not know the zone.
#[test]
fn the_target_of_a_policy_alias_was_not_answered_from_a_zone_of_this_server() {
    let [server, _upstream] = server("");
    // What the other server has is cached from the second round on.
    for _ in 0..2 {
        for (client, last) in [(OUTSIDE, 80), (INSIDE, 81)] {
            let walled = format!("walled.corp.test. 192.0.2.{last}");
            for name in ["bad.example", "listed.example", "x.listed.example", "portal.lan"] {
                assert_eq!(short(&server, client, name), walled, "{client} {name}");
            }
        }
        assert_eq!(short(&server, OUTSIDE, "all.example"), "all.example.corp.test. 10.0.0.82");
        assert_eq!(short(&server, OUTSIDE, "www.bing.com"), "strict.bing.com. 192.0.2.70");
        // Out of the zone again.
        assert_eq!(short(&server, OUTSIDE, "away.example"), "away.corp.test. far.example. 192.0.2.3");
    }
    let full = server.query(&["bad.example", "A"]);
    assert!(full.contains("flags: qr rd ra;") && full.contains("EDE: 15 (Blocked)"), "{full}");
    assert!(full.contains("rpz.test.\t60\tIN\tSOA\t. . 1 "), "{full}");
    let none = server.query(&["none.example", "A"]);
    assert!(none.contains("status: NXDOMAIN") && none.contains("CNAME\tnone.corp.test."), "{none}");
    assert!(none.contains("corp.test.\t60\tIN\tSOA\tns.corp.test."), "{none}");
    let pointer = server.query(&["-x", "64:ff9b::c000:205", "+short"]);
    assert_eq!(pointer, "5.2.0.192.in-addr.arpa.\nhost.test.\n", "as DNS64 maps it");
    let empty = server.query(&["bad.example", "AAAA"]);
    assert!(empty.contains("status: NOERROR") && empty.contains("ANSWER: 1,"), "{empty}");
    let explained = text(&server.ctl(&["explain", "bad.example"]).stdout);
    assert!(explained.contains("192.0.2.80"), "{explained}");
}

#[test]
fn a_chain_ends_before_a_zone_that_the_client_may_not_query_and_in_a_loop() {
    let [server, _upstream] = server("32.1.2.0.192.rpz-ip CNAME walled.corp.test.\n");
    assert_eq!(short(&server, OUTSIDE, "www.example"), "walled.corp.test. 192.0.2.80", "by its address");
    let closed = server.query(&["closed.example", "A"]);
    assert!(closed.contains("status: NOERROR") && closed.contains("CNAME\twww.closed.test."), "{closed}");
    assert!(!closed.contains("192.0.2.90"), "{closed}");
    assert!(server.query(&["loop.example", "A"]).contains("status: SERVFAIL"));
    server.reconfigure("allow-query = [\"192.0.2.0/24\"]\n", "allow-query = [\"127.0.0.0/8\"]\n");
    server.reload();
    eventually("the zone answers", &server, || {
        short(&server, OUTSIDE, "closed.example") == "www.closed.test. 192.0.2.90"
    });
}
