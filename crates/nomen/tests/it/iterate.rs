//! Iteration from the root servers: a small DNS of three servers, each at an address of its own and port 53,
//! in a network namespace. The tests run themselves inside: see [`in_a_network`].

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use crate::support::{BuiltIn, Server, eventually, run, text};

pub(crate) use testkit::network::{in_a_network, inside, ip};

const ROOT: &str = "$TTL 3600\n@ SOA a.root. admin. 1 3600 600 86400 60\n@ NS a.root.\na.root. A 10.53.0.1\n\
                    example. NS ns.example.\nns.example. A 10.53.0.2\nwww.own. 60 A 192.0.2.9\n";
const EXAMPLE: &str = "$TTL 3600\n@ SOA ns admin 1 3600 600 86400 60\n@ NS ns\nns A 10.53.0.2\n\
                       www A 192.0.2.1\nalias CNAME www.child\nchild NS ns.child\nns.child A 10.53.0.3\n\
                       far NS www.far.child\n";
const CHILD: &str = "$TTL 3600\n@ SOA ns admin 1 3600 600 86400 60\n@ NS ns\nns A 10.53.0.3\n\
                     www A 192.0.2.2\nwww.far A 10.53.0.3\n";
const FAR: &str =
    "$TTL 3600\n@ SOA ns admin 1 3600 600 86400 60\n@ NS www.far.child.example.\nwww A 192.0.2.3\n";

/// Starts an authoritative server of these zones at the address with this last byte.
pub(crate) fn authority(last: u8, zones: &[(&str, &str)]) -> Server {
    ip(&format!("address add 10.53.0.{last}/32 dev lo"));
    let folder = tempfile::tempdir().expect("a folder");
    let mut more = String::new();
    for (name, zone) in zones {
        let file = format!("{}.txt", name.replace('.', "_"));
        fs::write(folder.path().join(&file), zone).expect("written");
        more += &format!("[[zone]]\nname = \"{name}\"\nfile = \"{file}\"\n");
    }
    Server::start_at(SocketAddr::from(([10, 53, 0, last], 53)), folder, "", &more)
}

/// Starts a resolver that begins at this root.
fn resolver(keys: &str) -> Server {
    let folder = tempfile::tempdir().expect("a folder");
    Server::start_in(
        folder,
        "",
        &format!("[resolver]\nvalidate = false\nroot-servers = [\"10.53.0.1\"]\n{keys}"),
    )
}

#[test]
fn names_are_found_from_the_root_down() {
    in_a_network("iterate::inside_names_are_found_from_the_root_down");
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_names_are_found_from_the_root_down() {
    inside();
    let root = authority(1, &[(".", ROOT)]);
    let _example = authority(2, &[("example", EXAMPLE)]);
    let child = authority(3, &[("child.example", CHILD), ("far.example", FAR)]);
    let server = resolver("budget-time = \"2s\"\n");
    let first = server.query(&["www.child.example", "+dnssec"]);
    assert!(first.contains("status: NOERROR") && first.contains("flags: qr rd ra;"), "{first}");
    assert!(first.contains("192.0.2.2"), "{first}");
    assert_eq!(server.counter("forward.referrals"), 2);
    let asked = root.counter("udp.queries");
    assert_eq!(server.query(&["alias.example", "+short"]), "www.child.example.\n192.0.2.2\n");
    assert_eq!(server.query(&["www.far.example", "+short"]), "192.0.2.3\n", "the server's address is sought");
    assert!(server.counter("forward.address.lookups") > 0);
    assert!(server.query(&["nosuch.child.example"]).contains("status: NXDOMAIN"));
    assert_eq!(root.counter("udp.queries"), asked, "the root was asked once");
    assert!(server.query(&["nosuch"]).contains("status: NXDOMAIN"));
    assert_eq!(server.query(&["www.own", "+short"]), "192.0.2.9\n");
    let rules = server.ctl_json(&["forward", "list"]);
    assert_eq!((&rules[0]["domain"], &rules[0]["kind"]), (&".".into(), &"iterate".into()), "{rules}");
    // The steps are shown.
    server.ctl_json(&["cache", "flush", ".", "--tree"]);
    let said = text(&server.ctl(&["explain", "www.example"]).stdout);
    assert!(said.contains("the rule for . covers it") && said.contains("10.53.0.2"), "{said}");
    drop(child);
    let failed = server.query(&["gone.child.example"]);
    assert!(failed.contains("status: SERVFAIL") && failed.contains("EDE: 2"), "{failed}");
}

#[test]
fn rules_and_the_root_share_the_names() {
    in_a_network("iterate::inside_rules_and_the_root_share_the_names");
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_rules_and_the_root_share_the_names() {
    inside();
    let _root = authority(1, &[(".", ROOT)]);
    let _example = authority(2, &[("example", EXAMPLE)]);
    let internal = authority(4, &[("corp.example", &CHILD.replace("192.0.2.2", "192.0.2.4"))]);
    let stub = "[[resolver.stub]]\ndomain = \"corp.example\"\nservers = [\"10.53.0.4\"]\n";
    let server = resolver(stub);
    assert_eq!(server.query(&["www.corp.example", "+short"]), "192.0.2.4\n");
    assert_eq!(server.query(&["www.example", "+short"]), "192.0.2.1\n");
    // A rule for all names replaces the root servers, until a reload.
    let add = server.ctl(&["forward", "add", ".", "10.53.0.4"]);
    assert!(add.status.success(), "{}", text(&add.stderr));
    eventually("another is asked", &server, || server.query(&["www.example"]).contains("status: SERVFAIL"));
    assert!(internal.counter("udp.queries") > 1);
    server.reload();
    eventually("the root is", &server, || server.query(&["www.example", "+short"]) == "192.0.2.1\n");
    server.reconfigure("root-servers = [\"10.53.0.1\"]\n", "iterate = false\n");
    server.reload();
    eventually("no rule is left", &server, || server.query(&["www.example"]).contains("status: REFUSED"));
    assert_eq!(server.query(&["www.corp.example", "+short"]), "192.0.2.4\n");
}

#[test]
fn names_that_a_zone_here_delegates_ended_in_a_referral() {
    in_a_network("iterate::inside_names_that_a_zone_here_delegates_ended_in_a_referral");
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_names_that_a_zone_here_delegates_ended_in_a_referral() {
    inside();
    let _root = authority(1, &[(".", ROOT)]);
    let _example = authority(2, &[("example", EXAMPLE)]);
    // The root has no `corp`: only the zone served beside the resolver has the delegation of `child.corp`.
    let child = CHILD.replace("192.0.2.2", "192.0.2.44");
    let _child = authority(3, &[("child.corp", &child), ("child.example", CHILD), ("stub.corp", &child)]);
    let folder = tempfile::tempdir().expect("a folder");
    let zone = "$TTL 3600\n@ SOA ns admin 1 3600 600 86400 60\n@ NS ns\nns A 10.53.0.9\n\
                alias CNAME www.child\n\
                out CNAME www.example.\nchild NS ns.child\nns.child A 10.53.0.3\nstub NS nowhere.stub\n";
    fs::write(folder.path().join("corp.zone"), zone).expect("written");
    let more = "[[zone]]\nname = \"corp\"\nfile = \"corp.zone\"\n\
                [resolver]\nvalidate = false\nroot-servers = [\"10.53.0.1\"]\n\
                [[resolver.stub]]\ndomain = \"stub.corp\"\nservers = [\"10.53.0.3\"]\n\
                [log]\nqueries = true\n\
                [[resolver.access]]\nfrom = [\"127.0.0.2\"]\naction = \"refuse\"\n[[resolver.access]]\n\
                from = [\"127.0.0.1\"]\n";
    let server = Server::start_in(folder, "", more);
    let answer = server.query(&["www.child.corp"]);
    assert!(answer.contains("flags: qr rd ra;") && answer.contains("192.0.2.44"), "{answer}");
    // The answer is not from the zone, and is not logged as such.
    server.wait_for_log("name=www.child.corp. class=\"IN\" type=\"A\" rcode=NOERROR", 1);
    assert_eq!(server.query(&["www.child.corp", "+short"]), "192.0.2.44\n", "from the cache");
    assert_eq!(server.query(&["www.stub.corp", "+short"]), "192.0.2.44\n", "by the rule for the child");
    assert_eq!(server.query(&["alias.corp", "+short"]), "www.child.corp.\n192.0.2.44\n");
    assert_eq!(server.query(&["out.corp", "+short"]), "www.example.\n192.0.2.1\n");
    // The steps continue where those of the zone end.
    let explain = |server: &Server, name: &str| text(&server.ctl(&["explain", name]).stdout);
    for name in ["www.child.corp", "fresh.child.corp", "alias.corp"] {
        let said = explain(&server, name);
        assert!(said.contains("referral to the name servers of child.corp."), "{said}");
        assert!(
            said.contains("clients who may recurse, and ask for it (RD), get the resolved answer"),
            "{said}"
        );
        let answer = if name.starts_with("fresh") { "status: NXDOMAIN" } else { "192.0.2.44" };
        assert!(said.contains(answer), "{said}");
    }
    assert!(explain(&server, "alias.corp").contains("www.child.corp."), "the alias is part of the answer");
    assert!(explain(&server, "other.child.corp").contains("10.53.0.3"), "whom the lookup asks");
    assert!(server.query(&["nosuch.child.corp"]).contains("status: NXDOMAIN"));
    assert!(server.query(&["child.corp", "NS"]).contains("ns.child.corp."));
    assert!(
        server.query(&["ns.corp"]).contains("flags: qr aa rd ra;"),
        "the zone's own names are answered from it"
    );
    let referral =
        |answer: &str| answer.contains("ANSWER: 0, AUTHORITY: 1,") && answer.contains("status: NOERROR");
    let iterative = server.query(&["www.child.corp", "+norecurse"]);
    assert!(referral(&iterative), "{iterative}");
    let refused = server.query(&["www.child.corp", "-b", "127.0.0.2"]);
    assert!(referral(&refused), "{refused}");
    // Without a rule that covers the name, the answer is the referral.
    server.reconfigure("root-servers = [\"10.53.0.1\"]\n", "iterate = false\n");
    server.reload();
    eventually("the referral is the answer", &server, || referral(&server.query(&["www.child.corp"])));
    let said = explain(&server, "www.child.corp");
    assert!(!said.contains("clients who may recurse") && said.contains("AUTHORITY: 1"), "{said}");
    assert_eq!(server.query(&["www.stub.corp", "+short"]), "192.0.2.44\n");
}

#[test]
fn forwarders_that_have_no_answer_ended_every_lookup() {
    in_a_network("iterate::inside_forwarders_that_have_no_answer_ended_every_lookup");
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_forwarders_that_have_no_answer_ended_every_lookup() {
    inside();
    let _root = authority(1, &[(".", ROOT)]);
    let _example = authority(2, &[("example", EXAMPLE)]);
    let _child = authority(3, &[("child.example", CHILD)]);
    // One forwarder that refuses, and one at whose port no server listens.
    let refusing = authority(8, &[("other.test", CHILD)]);
    let rule = |servers: &str| format!("[[resolver.forward]]\nservers = [{servers}]\nforward-first = true\n");
    let both = rule("\"10.53.0.8\", \"10.53.0.8@5399\"");
    let server = resolver(&both);
    assert_eq!(server.query(&["www.example", "+short"]), "192.0.2.1\n");
    assert_eq!(server.query(&["alias.example", "+short"]), "www.child.example.\n192.0.2.2\n");
    assert!(server.query(&["nosuch.example"]).contains("status: NXDOMAIN"));
    assert!(refusing.counter("udp.queries") > 0, "the forwarders come first");
    assert!(server.counter("forward.instead") >= 3);
    let said = text(&server.ctl(&["explain", "new.example"]).stdout);
    assert!(
        said.contains("the servers of the rule have no answer: the name is resolved from the root"),
        "{said}"
    );
    // A forwarder that answers is enough.
    server.reconfigure("\"10.53.0.8\", \"10.53.0.8@5399\"", "\"10.53.0.2\"");
    server.reload();
    let before = server.counter("forward.instead");
    server.ctl_json(&["cache", "flush", ".", "--tree"]);
    assert_eq!(server.query(&["www.example", "+short"]), "192.0.2.1\n");
    assert_eq!(server.counter("forward.instead"), before);
    server.reconfigure("forward-first = true\n", "");
    server.reconfigure("\"10.53.0.2\"", "\"10.53.0.8\"");
    server.reload();
    server.ctl_json(&["cache", "flush", ".", "--tree"]);
    assert!(server.query(&["www.example"]).contains("status: SERVFAIL"), "the forwarder alone is asked");
}

#[test]
fn answers_of_the_last_resort_were_counted_and_not_logged() {
    in_a_network("iterate::inside_answers_of_the_last_resort_were_counted_and_not_logged");
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_answers_of_the_last_resort_were_counted_and_not_logged() {
    inside();
    let _root = authority(1, &[(".", ROOT)]);
    let _example = authority(5, &[("example", EXAMPLE)]);
    // The root delegates `example` to a server that has no zone, and queries another.
    ip("address add 10.53.0.2/32 dev lo");
    let folder = tempfile::tempdir().expect("a folder");
    let rule = "[resolver]\nvalidate = false\niterate = false\n\
                [[resolver.forward]]\nservers = [\"10.53.0.5\"]\n\
                [[resolver.access]]\nfrom = [\"127.0.0.0/8\", \"10.53.0.0/16\"]\n";
    let _recursive = Server::start_at(SocketAddr::from(([10, 53, 0, 2], 53)), folder, "", rule);
    let server = resolver("");
    assert_eq!(server.query(&["www.example", "+short"]), "192.0.2.1\n");
    server.wait_for_log(
        "answer used of a server that is not authoritative zone=example. server=10.53.0.2:53 \
         name=www.example. type=A not_logged=0",
        1,
    );
    assert_eq!(server.counter("forward.recursive.answers"), 1);
}

#[test]
fn servers_at_loopback_addresses_are_asked_only_where_that_is_configured() {
    in_a_network("iterate::inside_servers_at_loopback_addresses_are_asked_only_where_that_is_configured");
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_servers_at_loopback_addresses_are_asked_only_where_that_is_configured() {
    inside();
    let _root = authority(1, &[(".", &ROOT.replace("10.53.0.2", "127.0.0.53"))]);
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), EXAMPLE).expect("written");
    let zone = "[[zone]]\nname = \"example\"\nfile = \"example.zone\"\n";
    let example = Server::start_at(SocketAddr::from(([127, 0, 0, 53], 53)), folder, "", zone);
    let server = resolver("");
    assert!(server.query(&["www.example"]).contains("status: SERVFAIL"));
    assert_eq!(example.counter("udp.queries"), 0);
    let server = resolver("iterate-loopback = true\n");
    assert_eq!(server.query(&["www.example", "+short"]), "192.0.2.1\n");
}

#[test]
fn a_resolver_is_one_command() {
    in_a_network("iterate::inside_a_resolver_is_one_command");
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_a_resolver_is_one_command() {
    inside();
    let server = BuiltIn::start(&["--resolve"]).expect("the namespace has a free port");
    let answer = server.query("www.example.com", &[]);
    let said = &server.greeting;
    assert!(said.contains("resolves queries of this machine from the root servers down"), "{said}");
    // No route leads out of the namespace.
    assert!(answer.contains("status: SERVFAIL") && answer.contains("EDE: 23 (Network Error)"), "{answer}");
    let both = run(Path::new("."), &["serve", "--resolve", "--forward", "192.0.2.1"]);
    assert_eq!(both.status.code(), Some(2));
}
