//! Response policy zones: a second nomen is the upstream server and the primary.

use std::fs;

use serde_json::{Value, json};

use crate::encrypted::KEY;
use crate::metrics::http;
use crate::support::{APEX, Server, eventually, free_address, text, written};

const UPSTREAM: &str = "www A 192.0.2.1\nalias CNAME bad\nbad A 192.0.2.2\nother A 192.0.2.3\ngarden A 192.0.2.4\n\
    listed A 192.0.2.5\n";

const HEAD: &str = "$TTL 60\n@ SOA . . 1 3600 600 86400 60\n@ NS invalid.\n";

const RULES: &str = "bad.example CNAME .\nother.example CNAME garden.example.\nlisted.example CNAME rpz-passthru.\n\
    32.9.0.0.127.rpz-client-ip CNAME rpz-drop.\n33.1.2.0.192.rpz-ip CNAME .\n";

/// The upstream server. It is also a primary of `rpz.test`, which may be changed.
fn upstream(rules: &str) -> Server {
    upstream_for("any", "", rules)
}

/// The same, with a policy zone that is sent to these clients alone, and more configuration.
fn upstream_for(clients: &str, more: &str, rules: &str) -> Server {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), format!("{APEX}{UPSTREAM}")).expect("written");
    fs::write(folder.path().join("rpz"), format!("{HEAD}{rules}")).expect("written");
    let zone = format!(
        "[[zone]]\nname = \"rpz.test\"\nfile = \"rpz\"\nallow-transfer = [\"{clients}\"]\n\
         allow-update = [\"127.0.0.0/8\"]\n{more}"
    );
    Server::start_in(folder, "state-dir = \"state\"\n", &zone)
}

/// A forwarder with the policy zone `rpz.test`, whose source is this, and more configuration.
fn rewriter(upstream: &Server, source: &str, more: &str) -> Server {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("rpz"), format!("{HEAD}{RULES}")).expect("written");
    fs::write(folder.path().join("list"), "listed.example\n").expect("written");
    let config = format!(
        "[resolver]\nvalidate = false\nfirst-timeout = \"10s\"\nmin-timeout = \"10s\"\nmax-timeout = \"60s\"\n\
         client-timeout = \"60s\"\n\
         [[resolver.forward]]\nservers = [{}]\n\
         [[zone]]\nname = \"rpz.test\"\n{source}[[policy.zone]]\nname = \"rpz.test\"\n{more}",
        written(upstream.address)
    );
    Server::start_in(folder, "", &config)
}

const FROM_FILE: &str = "file = \"rpz\"\n";
const LIST: &str = "[[policy.list]]\nname = \"list\"\nfile = \"list\"\n";

#[test]
fn rules_of_a_zone_are_in_force_from_the_first_query_on() {
    let upstream = upstream("");
    let server = rewriter(&upstream, FROM_FILE, LIST);
    for name in ["bad.example", "alias.example"] {
        let answer = server.query(&[name]);
        assert!(answer.contains("status: NXDOMAIN") && answer.contains("EDE: 15 (Blocked)"), "{answer}");
        assert!(answer.contains("rpz.test.\t60\tIN\tSOA\t. . 1 "), "{answer}");
    }
    assert_eq!(server.query(&["other.example", "+short"]), "garden.example.\n192.0.2.4\n");
    assert_eq!(server.query(&["listed.example", "+short"]), "192.0.2.5\n", "a zone comes before a list");
    let own = server.query(&["rpz.test", "SOA"]);
    assert!(!own.contains("hostmaster") && !own.contains("\tSOA\t. . 1 "), "it is hidden: {own}");
    let status = server.ctl_json(&["policy", "status"]);
    assert_eq!((&status[0]["kind"], &status[0]["rules"]), (&"policy-zone".into(), &4.into()), "{status}");
    let queries = ["nxdomain", "local-data", "passthru"].map(|action| status[0]["queries"][action].as_u64());
    assert_eq!(queries, [Some(2), Some(1), Some(1)], "{status}");
    assert_eq!(status[0]["owners_unusable"], 1);
    let said = text(&server.ctl(&["policy", "status"]).stdout);
    let wanted = "rpz.test.: 4 rules, serial 1; queries: 1 local-data, 2 nxdomain, 1 passthru\n    1 owners are \
        no triggers; the first:\n    33.1.2.0.192.rpz-ip.rpz.test.: the first label is not the length";
    assert!(said.starts_with(wanted), "{said}");
}

#[test]
fn commands_show_the_zone_and_the_trigger() {
    let upstream = upstream("");
    let server = rewriter(&upstream, FROM_FILE, "");
    let said = |words: &[&str]| text(&server.ctl(&[&["policy", "test"], words].concat()).stdout);
    let wanted = "the policy zone rpz.test. answers NXDOMAIN: its QNAME rule for bad.example.\n";
    assert_eq!(said(&["bad.example"]), wanted);
    let wanted = "the policy zone rpz.test. sends no reply: its CLIENT-IP rule for 127.0.0.9/32\n";
    assert_eq!(said(&["bad.example", "--client", "127.0.0.9"]), wanted);
    assert_eq!(said(&["www.example"]), "no policy zone and no list has a rule for it\n");
    let said = text(&server.ctl(&["explain", "bad.example"]).stdout);
    assert!(said.contains("its QNAME rule for bad.example.") && said.contains("NXDOMAIN"), "{said}");
    let said = text(&server.ctl(&["explain", "listed.example"]).stdout);
    assert!(said.contains("exempts it from all rules") && said.contains("192.0.2.5"), "{said}");
    let said = text(&server.ctl(&["explain", "alias.example"]).stdout);
    let wanted = "it is an alias of bad.example.: the policy zone rpz.test. answers NXDOMAIN: its QNAME rule";
    assert!(said.contains(wanted) && said.contains("status: NXDOMAIN"), "{said}");
    server.write("rpz", &format!("{}32.1.2.0.192.rpz-ip CNAME *.\n", HEAD.replace(" 1 3600", " 2 3600")));
    server.reload();
    let found = server.ctl_json(&["explain", "www.example"]);
    let step = found["steps"].as_array().and_then(|steps| steps.last()).expect("a step");
    let keys = ["kind", "zone", "trigger", "result"].map(|key| step[key].as_str().unwrap_or_default());
    assert_eq!(keys, ["policy-zone", "rpz.test.", "ip", "nodata"], "{found}");
    assert!(!found["answer"].to_string().contains("192.0.2.1"), "{found}");
}

#[test]
fn a_reload_takes_a_changed_zone_and_another_configuration() {
    let upstream = upstream("");
    let server = rewriter(&upstream, FROM_FILE, "");
    assert_eq!(server.query(&["www.example", "+short"]), "192.0.2.1\n");
    server.write("rpz", &format!("{}www.example A 10.0.0.1\n", HEAD.replace(" 1 3600", " 2 3600")));
    server.reload();
    assert_eq!(server.query(&["www.example", "+short"]), "10.0.0.1\n", "although it is cached");
    assert_eq!(server.query(&["bad.example", "+short"]), "192.0.2.2\n");
    server.write("rpz", "not a zone\n");
    server.reload_badly();
    assert_eq!(server.query(&["www.example", "+short"]), "10.0.0.1\n", "the last good version");
    server.write("rpz", &format!("{}www.example A 10.0.0.2\n", HEAD.replace(" 1 3600", " 3 3600")));
    server.reconfigure(
        "[[policy.zone]]\nname = \"rpz.test\"\n",
        "[[policy.zone]]\nname = \"rpz.test\"\naction = \"nodata\"\n",
    );
    server.reload();
    assert_eq!(server.query(&["www.example", "+short"]), "");
    server.reconfigure("[[policy.zone]]\nname = \"rpz.test\"\naction = \"nodata\"\n", "");
    server.reload();
    assert_eq!(server.query(&["www.example", "+short"]), "192.0.2.1\n");
    let own = server.query(&["rpz.test", "SOA", "+short"]);
    assert_eq!(own, ". . 3 3600 600 86400 60\n", "it is a zone as any other now");
}

/// A server with the policy zone from this primary, once it is transferred.
fn secondary(upstream: &Server, more: &str) -> Server {
    let server = rewriter(upstream, &from_primary(&written(upstream.address)), more);
    eventually("the zone is transferred", &server, || is_in_force(&server, 1));
    server
}

/// The source of a zone with this primary.
fn from_primary(primary: &str) -> String {
    format!("primaries = [{primary}]\nmin-retry = \"1s\"\nmax-retry = \"1s\"\n")
}

fn is_in_force(server: &Server, serial: u64) -> bool {
    server.ctl_json(&["policy", "status"])[0]["serial"].as_u64() == Some(serial)
}

/// Changes the policy zone at its primary, and waits until this version is in force. Each change is an owner
/// below the zone's name, and what it has then.
fn change(upstream: &Server, server: &Server, serial: u64, changes: &[(&str, &str)]) {
    let lines = changes.iter().map(|(owner, records)| {
        let add =
            if records.is_empty() { String::new() } else { format!("add {owner}.rpz.test. 60 {records}\n") };
        format!("delete {owner}.rpz.test.\n{add}")
    });
    let (at, lines) = (upstream.address, lines.collect::<String>());
    server.write("script", &format!("server {} {}\nzone rpz.test\n{lines}send\n", at.ip(), at.port()));
    let output = crate::support::run(server.folder.path(), &["update", "script"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(server.ctl(&["zone", "refresh", "rpz.test"]).status.success());
    eventually("the change is in force", server, || is_in_force(server, serial));
}

#[test]
fn a_secondary_policy_zone_follows_its_primary() {
    let upstream = upstream(RULES);
    let server = secondary(&upstream, "");
    assert!(server.query(&["bad.example"]).contains("status: NXDOMAIN"));
    change(&upstream, &server, 2, &[("www.example", "A 10.0.0.1"), ("bad.example", "")]);
    assert_eq!(server.query(&["www.example", "+short"]), "10.0.0.1\n");
    assert_eq!(server.query(&["bad.example", "+short"]), "192.0.2.2\n");
}

#[test]
fn a_policy_zone_is_transferred_with_tsig() {
    let upstream = upstream_for("key:k.example", KEY, RULES);
    let primary = format!("\"{} key:k.example\"", written(upstream.address).trim_matches('"'));
    let server = rewriter(&upstream, &from_primary(&primary), KEY);
    eventually("the zone is transferred", &server, || is_in_force(&server, 1));
    assert!(server.query(&["bad.example"]).contains("status: NXDOMAIN"));
    change(&upstream, &server, 2, &[("www.example", "A 10.0.0.1"), ("bad.example", "")]);
    assert_eq!(server.query(&["www.example", "+short"]), "10.0.0.1\n");
    assert_eq!(server.query(&["bad.example", "+short"]), "192.0.2.2\n");
    let last = server.ctl_json(&["zone", "status", "rpz.test"])["transfers"]["last_transfer"].clone();
    assert_eq!(last["kind"], "IXFR", "{last}");
    assert!(!upstream.log().contains("transfer refused"), "{}", upstream.log());
    let other = KEY.replace("3q2+", "4q2+");
    let without = rewriter(&upstream, &from_primary(&primary), &other);
    eventually("the key is wrong", &without, || upstream.log().contains("signature refused"));
    assert!(!is_in_force(&without, 2));
    assert_eq!(without.query(&["www.example", "+short"]), "192.0.2.1\n", "there are no rules");
}

/// A transfer of a few records used to compile all rules again.
#[test]
fn the_differences_of_a_transfer_change_rules_of_each_trigger() {
    let rules = "bad.example CNAME .\nother.example CNAME .\n*.wild.example A 10.0.0.7\n\
        32.5.2.0.192.rpz-ip CNAME .\n32.4.2.0.192.rpz-ip CNAME .\n32.9.0.0.127.rpz-client-ip CNAME rpz-drop.\n\
        ns.elsewhere.rpz-nsdname CNAME .\n32.99.2.0.192.rpz-nsip CNAME .\n33.1.2.0.192.rpz-ip CNAME .\n";
    let upstream = upstream(rules);
    let metrics_at = free_address();
    let metrics = format!("[metrics]\nlisten = {}\n", written(metrics_at));
    let server = secondary(&upstream, &format!("{LIST}[policy]\nmin-ns-dots = 0\n{metrics}"));
    let compiled = || server.log().matches("policy rules are compiled").count();
    let changed = || server.log().matches("policy rules are changed").count();
    let (compiled_before, changed_before) = (compiled(), changed());
    let short = |name: &str| server.query(&[name, "+short"]);
    let is_nxdomain = |name: &str| server.query(&[name]).contains("status: NXDOMAIN");
    let of_client =
        |client: &str| text(&server.ctl(&["policy", "test", "x.test", "--client", client]).stdout);
    assert!(
        ["bad.example", "other.example", "garden.example", "alias.example"].map(is_nxdomain) == [true; 4]
    );
    assert_eq!(short("a.wild.example"), "10.0.0.7\n");
    assert!(of_client("127.0.0.9").contains("sends no reply"));
    let counted = |rules: u64, unusable: u64| {
        let status = server.ctl_json(&["policy", "status"]);
        assert_eq!((&status[0]["rules"], &status[0]["owners_unusable"]), (&rules.into(), &unusable.into()));
        let metrics = http(metrics_at, "GET /metrics");
        let of = |name: &str, value: u64| format!("nomen_policy_zone_{name}{{zone=\"rpz.test.\"}} {value}\n");
        assert!(metrics.contains(&of("rules", rules)), "{metrics}");
        assert!(metrics.contains(&of("unusable_owners", unusable)), "{metrics}");
    };
    counted(8, 1);
    let changes = [
        ("bad.example", ""),
        ("other.example", "A 10.0.0.3"),
        ("www.example", "A 10.0.0.1"),
        ("*.wild.example", "A 10.0.0.8"),
        ("*.new.example", "CNAME ."),
        ("32.5.2.0.192.rpz-ip", ""),
        ("32.4.2.0.192.rpz-ip", "A 10.0.0.4"),
        ("32.2.2.0.192.rpz-ip", "A 10.0.0.2"),
        ("32.9.0.0.127.rpz-client-ip", ""),
        ("32.8.0.0.127.rpz-client-ip", "CNAME ."),
        ("33.1.2.0.192.rpz-ip", ""),
        ("x.rpz-nsip", "CNAME ."),
        ("y.rpz-ip", "CNAME ."),
    ];
    change(&upstream, &server, 2, &changes);
    counted(9, 2);
    assert_eq!(short("bad.example"), "10.0.0.2\n", "the rule about its address");
    assert_eq!(short("other.example"), "10.0.0.3\n");
    assert_eq!(short("www.example"), "10.0.0.1\n");
    assert_eq!(short("a.wild.example"), "10.0.0.8\n");
    assert_eq!(short("garden.example"), "10.0.0.4\n");
    assert!(is_nxdomain("a.new.example"));
    assert!(server.query(&["listed.example"]).contains("EDE: 15"), "the list still blocks it");
    assert!(of_client("127.0.0.9").contains("has a rule") && of_client("127.0.0.8").contains("NXDOMAIN"));
    let first = text(&server.ctl(&["policy", "status"]).stdout);
    assert!(first.contains("y.rpz-ip.rpz.test.: ") && first.contains("x.rpz-nsip.rpz.test.: "), "{first}");
    change(
        &upstream,
        &server,
        3,
        &[("ns1.example.rpz-nsdname", "A 10.0.1.1"), ("ns.elsewhere.rpz-nsdname", "")],
    );
    counted(9, 2);
    assert_eq!(short("ns2.example"), "10.0.0.2\n", "IP comes before NSDNAME");
    assert_eq!(short("mail.example"), "10.0.1.1\n");
    let servers = [
        ("ns1.example.rpz-nsdname", ""),
        ("32.1.2.0.192.rpz-nsip", "A 10.0.1.2"),
        ("32.2.2.0.192.rpz-ip", ""),
    ];
    change(&upstream, &server, 4, &servers);
    counted(8, 2);
    assert_eq!(short("mail.example"), "10.0.1.2\n");
    change(&upstream, &server, 5, &[("32.1.2.0.192.rpz-nsip", ""), ("32.99.2.0.192.rpz-nsip", "")]);
    counted(6, 2);
    assert_eq!(short("bad.example"), "192.0.2.2\n");
    assert_eq!((compiled(), changed() - changed_before), (compiled_before, 4), "{}", server.log());
    // All rules are compiled again with a list that has a pattern now, and are the same.
    server.write("list", "listed.example\nmore.example\n*pattern*\n");
    server.reload();
    assert_eq!(compiled(), compiled_before + 1);
    counted(6, 2);
    assert_eq!(short("other.example"), "10.0.0.3\n");
    assert_eq!(short("garden.example"), "10.0.0.4\n");
}

#[test]
fn a_policy_zone_must_be_a_zone_of_this_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let config =
        "[[listen]]\naddr = [\"127.0.0.1@5300\"]\n[resolver]\n[[policy.zone]]\nname = \"rpz.test\"\n";
    fs::write(folder.path().join("nomen.toml"), config).expect("written");
    let output = crate::support::run(folder.path(), &["check", "nomen.toml"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said.contains("there is no [[zone]] named `rpz.test.`") && said.contains("nomen.toml:5:8"),
        "{said}"
    );
}

/// The fields of the query log that name a rule, of the query for a name; JSON.
fn logged_rule(server: &Server, name: &str) -> Value {
    let log = fs::read_to_string(server.path("queries.log")).unwrap_or_default();
    let wanted = json!(format!("{name}."));
    let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let field = |line: &Value, key: &str| line["fields"].get(key).or(line.get(key)).cloned();
    let found = lines.rfind(|line| field(line, "name").as_ref() == Some(&wanted));
    let keys = ["policy_action", "policy_trigger", "policy_zone", "policy_list"];
    keys.map(|key| found.as_ref().and_then(|line| field(line, key)).unwrap_or_default()).into_iter().collect()
}

#[test]
fn the_query_log_did_not_name_the_rule_that_decided() {
    let upstream = upstream("");
    let log = "[log]\nformat = \"json\"\nqueries = true\nqueries-file = \"queries.log\"\n\
        [dnstap]\nfile = \"tap\"\nmessages = [\"client-response\"]\n";
    let server = rewriter(
        &upstream,
        FROM_FILE,
        &format!("{}{log}", LIST.replace("name = \"list\"", "name = \"ads\"")),
    );
    server.write("list", "www.example\n");
    let head = HEAD.replace(" 1 3600", " 2 3600");
    let rules = RULES.replace("other.example CNAME garden.example.\n", "");
    let more = "drop.example CNAME rpz-drop.\n32.3.2.0.192.rpz-ip CNAME *.\n";
    server.write("rpz", &format!("{head}{rules}{more}"));
    server.reload();
    let names = ["bad", "alias", "other", "listed", "www", "garden"].map(|name| format!("{name}.example"));
    for name in &names {
        server.query(&[name]);
    }
    // No reply comes, and none is waited for.
    let socket = crate::changes::socket(server.address);
    let mut query = crate::support::message(7, "drop.example", 1);
    query[2] = 1;
    socket.send(&query).expect("sent");
    let is_logged =
        || fs::read_to_string(server.path("queries.log")).is_ok_and(|log| log.contains("drop.example."));
    eventually("the query without a reply is logged", &server, is_logged);
    let is_complete =
        || fs::read_to_string(server.path("queries.log")).is_ok_and(|log| log.lines().count() == 7);
    eventually("all are logged", &server, is_complete);
    let rule = |name: &str| logged_rule(&server, name);
    assert_eq!(rule("bad.example"), json!(["nxdomain", "qname", "rpz.test.", null]));
    assert_eq!(rule("alias.example"), json!(["nxdomain", "qname", "rpz.test.", null]));
    assert_eq!(rule("other.example"), json!(["nodata", "ip", "rpz.test.", null]));
    assert_eq!(rule("listed.example"), json!(["passthru", "qname", "rpz.test.", null]));
    assert_eq!(rule("drop.example"), json!(["drop", "qname", "rpz.test.", null]));
    assert_eq!(rule("www.example"), json!(["nxdomain", "qname", null, "ads"]));
    assert_eq!(rule("garden.example"), json!([null, null, null, null]));
    let folder = server.stop();
    let policies = crate::dnstap::policies(&folder.path().join("tap"));
    let of = |name: &str| policies.iter().find(|(own, ..)| own == name).map(|(_, rest)| rest.clone());
    assert_eq!(of("bad.example."), Some(Some(("RPZ".into(), 1, 1))));
    assert_eq!(of("other.example."), Some(Some(("RPZ".into(), 2, 3))));
    assert_eq!(of("www.example."), Some(Some(("LIST".into(), 1, 1))));
    assert_eq!(of("garden.example."), Some(None));
}

/// As `log no` of BIND.
#[test]
fn the_rules_of_a_zone_without_log_are_counted_and_not_logged() {
    let upstream = upstream("");
    let log = "log = false\n[log]\nformat = \"json\"\nqueries = true\nqueries-file = \"queries.log\"\n\
        [dnstap]\nfile = \"tap\"\nmessages = [\"client-response\"]\n[[policy.list]]\nname = \"ads\"\nfile = \"list\"\n";
    let server = rewriter(&upstream, FROM_FILE, log);
    server.write("list", "www.example\n");
    let more = "drop.example CNAME rpz-drop.\n";
    server.write("rpz", &format!("{}{RULES}{more}", HEAD.replace(" 1 3600", " 2 3600")));
    server.reload();
    assert!(server.query(&["bad.example"]).contains("EDE: 15 (Blocked)"));
    assert!(server.query(&["www.example"]).contains("EDE: 15 (Blocked)"));
    // No reply comes, and none is waited for.
    let socket = crate::changes::socket(server.address);
    let mut query = crate::support::message(7, "drop.example", 1);
    query[2] = 1;
    socket.send(&query).expect("sent");
    let is_complete =
        || fs::read_to_string(server.path("queries.log")).is_ok_and(|log| log.lines().count() == 3);
    eventually("all are logged", &server, is_complete);
    let log = fs::read_to_string(server.path("queries.log")).expect("the log");
    assert!(log.contains("drop.example."), "a query without a reply is logged: {log}");
    let rule = |name: &str| logged_rule(&server, name);
    assert_eq!(rule("bad.example"), json!([null, null, null, null]));
    assert_eq!(rule("drop.example"), json!([null, null, null, null]));
    assert_eq!(rule("www.example"), json!(["nxdomain", "qname", null, "ads"]));
    let status = server.ctl_json(&["policy", "status"]);
    let counted = ["nxdomain", "drop"].map(|action| status[0]["queries"][action].as_u64());
    assert_eq!(counted, [Some(1), Some(1)], "{status}");
    let is_in_top = || text(&server.ctl(&["policy", "top"]).stdout).contains("bad.example");
    eventually("the rule is counted for `policy top`", &server, is_in_top);
    let folder = server.stop();
    let policies = crate::dnstap::policies(&folder.path().join("tap"));
    let of = |name: &str| policies.iter().find(|(own, ..)| own == name).map(|(_, rest)| rest.clone());
    assert_eq!(of("bad.example."), Some(None));
    assert_eq!(of("www.example."), Some(Some(("LIST".into(), 1, 1))));
}

#[test]
fn a_check_shows_owners_that_are_no_triggers() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("rpz"), format!("{HEAD}{RULES}")).expect("written");
    let config = "[[listen]]\naddr = [\"127.0.0.1@5300\"]\n[resolver]\n[[zone]]\nname = \"rpz.test\"\nfile = \"rpz\"\n\
        [[policy.zone]]\nname = \"rpz.test\"\n";
    fs::write(folder.path().join("nomen.toml"), config).expect("written");
    let output = crate::support::run(folder.path(), &["check", "nomen.toml"]);
    let said = text(&output.stderr);
    let wanted = "warning: policy zone rpz.test.: 1 owners are no triggers; the first:\n    \
        33.1.2.0.192.rpz-ip.rpz.test.: the first label is not the length";
    assert!(said.contains(wanted), "{said}");
}
