//! Block lists: a second nomen is the upstream server.

use std::fs;

use crate::metrics::http;
use crate::support::{APEX, Server, free_address, run, text, written};

const UPSTREAM: &str =
    "www A 192.0.2.1\nalias CNAME t.ads\nt.ads A 192.0.2.2\nfree.ads A 192.0.2.3\nlate A 192.0.2.4\n";

/// A forwarder with a list `ads`, with more text behind its block, and with its upstream server.
fn blocker(ads: &str, keys: &str, more: &str) -> (Server, Server) {
    let upstream = Server::start(&format!("{APEX}{UPSTREAM}"), "");
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("ads.txt"), ads).expect("written");
    fs::write(folder.path().join("free.txt"), "free.ads.example\n").expect("written");
    let resolver = format!(
        "[resolver]\nvalidate = false\nfirst-timeout = \"10s\"\nmin-timeout = \"10s\"\nmax-timeout = \"60s\"\n\
         client-timeout = \"60s\"\n\
         [[resolver.forward]]\nservers = [{}]\n",
        written(upstream.address)
    );
    let lists = format!(
        "[[policy.list]]\nname = \"ads\"\nfile = \"ads.txt\"\n{keys}\
         [[policy.list]]\nname = \"free\"\nfile = \"free.txt\"\nkind = \"allow\"\n{more}"
    );
    (Server::start_in(folder, "", &format!("{resolver}{lists}")), upstream)
}

const ADS: &str = "# ads\n||ads.example^\n0.0.0.0 other.example\n";

#[test]
fn a_listed_name_is_blocked_and_an_exception_is_not() {
    let (server, upstream) = blocker(ADS, "", "");
    for name in ["ads.example", "x.ads.example", "other.example", "alias.example"] {
        let answer = server.query(&[name]);
        assert!(answer.contains("status: NXDOMAIN") && answer.contains("EDE: 15 (Blocked)"), "{answer}");
        assert!(answer.contains("SOA"), "clients cache it: {answer}");
    }
    assert_eq!(server.query(&["www.example", "+short"]), "192.0.2.1\n");
    assert_eq!(server.query(&["free.ads.example", "+short"]), "192.0.2.3\n");
    assert_eq!(upstream.counter("udp.type.A"), 3, "two names and the alias");
    let status = server.ctl_json(&["policy", "status"]);
    assert_eq!((&status[0]["rules"], &status[0]["blocked"]), (&2.into(), &4.into()), "{status}");
    assert_eq!((&status[1]["kind"], &status[1]["blocked"]), (&"allow".into(), &0.into()), "{status}");
}

#[test]
fn commands_show_the_list_and_the_line() {
    let (server, _upstream) = blocker(ADS, "", "");
    let blocked = server.ctl_json(&["policy", "test", "x.Ads.example"]);
    let wanted = ["blocked", "ads", "ads.example."].map(serde_json::Value::from);
    assert_eq!(["result", "list", "name"].map(|key| blocked[key].clone()), wanted, "{blocked}");
    assert_eq!(blocked["line"], 2);
    let said = text(&server.ctl(&["policy", "test", "x.ads.example"]).stdout);
    assert_eq!(said, "the list ads, line 2, blocks it: the rule for ads.example. and all names below\n");
    let said = text(&server.ctl(&["policy", "status"]).stdout);
    assert!(
        said.starts_with("ads: 2 rules, blocked 0 queries; ") && said.contains("ads.txt, loaded 20"),
        "{said}"
    );
    let exempt = server.ctl_json(&["policy", "test", "free.ads.example"]);
    assert_eq!(
        (&exempt["result"], &exempt["list"], &exempt["line"]),
        (&"exempt".into(), &"free".into(), &1.into())
    );
    assert_eq!(server.ctl_json(&["policy", "test", "www.example"])["result"], "no-rule");
    let said = text(&server.ctl(&["explain", "x.ads.example"]).stdout);
    assert!(said.contains("the list ads, line 2, blocks it") && said.contains("NXDOMAIN"), "{said}");
    let said = text(&server.ctl(&["explain", "free.ads.example"]).stdout);
    assert!(said.contains("the list free, line 1, exempts it") && said.contains("192.0.2.3"), "{said}");
    // Asked of the servers at first, and then from the cache.
    for found in ["it is not in the cache", "it is in the cache"] {
        let said = text(&server.ctl(&["explain", "alias.example"]).stdout);
        assert!(said.contains(found) && said.contains("status: NXDOMAIN"), "{said}");
        let rule =
            "it is an alias of t.ads.example.: the list ads, line 2, blocks it: the rule for ads.example.";
        assert!(said.contains(rule), "{said}");
    }
    let said = text(&server.ctl(&["explain", "www.example"]).stdout);
    assert!(said.contains("192.0.2.1") && !said.contains("the list"), "{said}");
}

#[test]
fn a_reload_takes_changed_lists_and_keeps_the_last_good_one() {
    let (server, _upstream) = blocker(ADS, "answer = \"null\"\n", "");
    assert_eq!(server.query(&["t.ads.example", "+short"]), "0.0.0.0\n");
    assert_eq!(server.query(&["late.example", "+short"]), "192.0.2.4\n");
    server.write("ads.txt", "late.example\n");
    server.reload();
    assert_eq!(server.query(&["late.example", "+short"]), "0.0.0.0\n", "although it is cached");
    assert_eq!(server.query(&["t.ads.example", "+short"]), "192.0.2.2\n");
    server.write("ads.txt", "<!DOCTYPE html>\n<html>\n<h1>Not Found</h1>\n");
    let reload = server.ctl(&["reload"]);
    let said = text(&reload.stderr);
    assert_eq!(reload.status.code(), Some(1), "{said}");
    assert!(said.contains("the list ads cannot be used") && said.contains("ads.txt: not a list"), "{said}");
    assert_eq!(server.query(&["late.example", "+short"]), "0.0.0.0\n", "the last good version");
    let status = server.ctl_json(&["policy", "status"]);
    assert!(status[0]["fault"].as_str().is_some_and(|fault| fault.contains("not a list")), "{status}");
    server.write("ads.txt", ADS);
    server.reload();
    assert_eq!(server.query(&["late.example", "+short"]), "192.0.2.4\n");
}

#[test]
fn a_list_whose_file_is_missing_keeps_its_rules() {
    let (server, _upstream) = blocker(ADS, "answer = \"null\"\n", "");
    let is_blocked = || server.query(&["t.ads.example", "+short"]) == "0.0.0.0\n";
    fs::remove_file(server.path("ads.txt")).expect("removed");
    assert_eq!(server.ctl(&["reload"]).status.code(), Some(1));
    assert!(is_blocked());
    server.reconfigure("file = \"ads.txt\"", "file = \"moved.txt\"\nformat = \"adblock\"");
    assert_eq!(server.ctl(&["reload"]).status.code(), Some(1));
    assert!(is_blocked(), "another file, which is missing too");
    server.write("moved.txt", "||ads.example^\n");
    server.reconfigure("answer = \"null\"", "answer = [\"192.0.2.80\"]");
    server.reload();
    assert_eq!(server.query(&["t.ads.example", "+short"]), "192.0.2.80\n");
}

#[test]
fn a_server_starts_without_a_list_that_cannot_be_read() {
    let (server, _upstream) = blocker("", "", "");
    server.wait_for_log("the list has no rules", 1);
    assert_eq!(server.query(&["t.ads.example", "+short"]), "192.0.2.2\n");
    assert_eq!(server.ctl_json(&["policy", "status"])[0]["fault"], "the list is empty");
}

#[test]
fn a_check_shows_each_line_that_cannot_be_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = "[[listen]]\naddr = [\"127.0.0.1@5300\"]\n[resolver]\n[[policy.list]]\nname = \"ads\"\nfile = \
        \"ads.txt\"\n";
    fs::write(folder.path().join("nomen.toml"), config).expect("written");
    let check = |list: &[u8]| {
        fs::write(folder.path().join("ads.txt"), list).expect("written");
        let output = run(folder.path(), &["check", "nomen.toml"]);
        (output.status.code(), text(&output.stderr))
    };
    assert_eq!(check(b"ads.example\n"), (Some(0), String::new()));
    let (code, said) = check(b"ads.example\n192.0.2.7 bank.example\nb.example\n/ads(/\nc.example\n");
    assert_eq!(code, Some(0), "{said}");
    for words in
        ["ads.txt:2: a list can only block names", "ads.txt:4: the regular expression cannot be used"]
    {
        assert!(said.contains(words), "{said}");
    }
    let (code, said) = check(b"");
    assert!(code == Some(1) && said.contains("ads.txt: the list is empty"), "{said}");
}

#[test]
fn each_list_has_metrics() {
    let metrics = free_address();
    let (server, _upstream) =
        blocker(&format!("{ADS}a b\n"), "", &format!("[metrics]\nlisten = {}\n", written(metrics)));
    server.query(&["ads.example"]);
    let page = http(metrics, "GET /metrics");
    for line in [
        "nomen_policy_blocked_total{list=\"ads\"} 1",
        "nomen_policy_rules{list=\"ads\"} 2",
        "nomen_policy_unusable_lines{list=\"ads\"} 1",
        "nomen_policy_list_failed{list=\"ads\"} 0",
        "nomen_policy_rules{list=\"free\"} 1",
    ] {
        assert!(page.lines().any(|found| found.trim_end() == line), "{line}\n{page}");
    }
}

#[test]
fn what_was_blocked_most_could_not_be_seen() {
    let (server, _upstream) = blocker(ADS, "", "");
    let queries = [("x.ads.example", 3), ("Other.example", 2), ("www.example", 1), ("free.ads.example", 1)];
    for (name, times) in queries {
        (0..times).for_each(|_| drop(server.query(&[name])));
    }
    let top = |words: &[&str]| server.ctl_json(&[&["policy", "top"], words].concat());
    let entries = |by: &str| {
        let (found, key) = (top(&["--by", by]), by.replace('-', "_"));
        let entries = found["top"].as_array().cloned().unwrap_or_default();
        entries.iter().map(|entry| (entry[&key].to_string(), entry["queries"].as_u64())).collect::<Vec<_>>()
    };
    let wanted = |text: &str, queries| (format!("\"{text}\""), Some(queries));
    assert_eq!(entries("name"), [wanted("x.ads.example.", 3), wanted("other.example.", 2)]);
    assert_eq!(entries("client"), [wanted("127.0.0.1", 5)]);
    assert_eq!(entries("rule-source"), [wanted("list ads", 5)]);
    let one = top(&["--hour", "1"]);
    assert_eq!(
        (&one["queries"], &one["others_at_most"], &one["top"][0]["error"]),
        (&5.into(), &2.into(), &0.into())
    );
    let said = text(&server.ctl(&["policy", "top"]).stdout);
    assert_eq!(said, "5 blocked queries since the start\n3  x.ads.example.\n2  other.example.\n");
    server
        .reconfigure("[[policy.list]]\nname = \"ads\"", "[policy]\ntop = 0\n[[policy.list]]\nname = \"ads\"");
    server.reload();
    let off = server.ctl(&["policy", "top"]);
    assert!(text(&off.stderr).contains("`top` of [policy] is 0"), "{}", text(&off.stderr));
}

#[test]
fn the_rule_that_blocks_a_name_is_shown() {
    let (server, _upstream) = blocker("||ads.example^$dnstype=AAAA\n/^r[0-9]/$client=192.0.2.7\n", "", "");
    let shown = |words: &[&str]| {
        let output = server.ctl(&[&["policy", "test"], words].concat());
        text(&output.stdout) + &text(&output.stderr)
    };
    for (words, expected) in [
        (&["x.ads.example", "--type", "AAAA"][..], "the list ads, line 1, blocks it"),
        (&["x.ads.example"], "no policy zone and no list has a rule for it"),
        (&["r2d2.example", "--client", "192.0.2.7"], "the list ads, line 2, blocks it"),
        (&["r2d2.example"], "no policy zone and no list has a rule for it"),
        (&["x", "--type", "nosuch"], "`nosuch` is no record type"),
    ] {
        let found = shown(words);
        assert!(found.contains(expected), "{words:?}: {found}");
    }
}

#[test]
fn a_list_can_answer_instead_of_blocking() {
    let ads = "||a.example^$dnsrewrite=192.0.2.80\n||a.example^$dnsrewrite=2001:db8::80\n\
        ||c.example^$dnsrewrite=www.example\n||n.example^$dnsrewrite=NXDOMAIN\n||r.example^$dnsrewrite=REFUSED;;\n\
        ||t.example^$dnsrewrite=NOERROR;TXT;hello world\n||free.ads.example^$dnsrewrite=192.0.2.81\n\
        ||b.example^\n@@||b.example^\n||b.example^$dnsrewrite=192.0.2.82\n@@||x.a.example^$dnsrewrite=192.0.2.80\n\
        ||late.example^$dnsrewrite=192.0.2.83,ctag=kids\n||www.example^$client='tv',dnsrewrite=192.0.2.84\n";
    let group = "[[policy.group]]\nname = \"children\"\nfrom = [\"127.0.0.0/8\"]\ntags = [\"kids\"]\n";
    let (server, _upstream) = blocker(ads, "", group);
    let short = |words: &[&str]| server.query(&[words, &["+short"]].concat());
    assert_eq!(short(&["x.y.a.example"]), "192.0.2.80\n");
    assert_eq!(short(&["a.example", "AAAA"]), "2001:db8::80\n");
    assert_eq!(short(&["x.a.example"]), "", "this value alone is exempt");
    assert_eq!(short(&["c.example"]), "www.example.\n192.0.2.1\n");
    assert_eq!(short(&["c.example", "CNAME"]), "www.example.\n");
    assert_eq!(short(&["t.example", "TXT"]), "\"hello world\"\n");
    assert_eq!(short(&["free.ads.example"]), "192.0.2.3\n", "an allow list comes first");
    assert_eq!(short(&["b.example"]), "192.0.2.82\n", "before blocks and exceptions");
    assert_eq!(short(&["late.example"]), "192.0.2.83\n");
    assert_eq!(short(&["www.example"]), "192.0.2.1\n", "another client");
    let empty = server.query(&["a.example", "MX"]);
    assert!(empty.contains("status: NOERROR") && empty.contains("\tSOA\t"), "{empty}");
    assert!(empty.contains("EDE: 4 (Forged Answer)"), "{empty}");
    assert!(server.query(&["n.example"]).contains("status: NXDOMAIN"));
    assert!(server.query(&["r.example"]).contains("status: REFUSED"));
    let test = server.ctl_json(&["policy", "test", "a.example"]);
    assert_eq!(
        (&test["result"], &test["list"], &test["line"]),
        (&"rewritten".into(), &"ads".into(), &1.into())
    );
    let said = text(&server.ctl(&["policy", "test", "c.example"]).stdout);
    assert_eq!(said, "the list ads, line 3, answers with CNAME www.example.\n");
    let status = server.ctl_json(&["policy", "status"]);
    assert_eq!(status[0]["blocked"], 11, "{status}");
}
