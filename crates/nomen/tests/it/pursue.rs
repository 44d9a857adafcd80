//! `nomen query --trace` and `--chase` on a small DNS in a network namespace: iteration from its root, and
//! chains of trust.

use std::fs;
use std::net::SocketAddr;
use std::process::Output;

use crate::iterate::{authority, in_a_network, inside, ip};
use crate::support::{Server, TEST_TIMEOUT, run, text};
use crate::validate::{ds, internet, resolver};

const SOA: &str = "$TTL 3600\n@ SOA ns admin 1 3600 600 86400 60\n";
/// Delegates `example.`; `dead.`, whose server does not run; `lame.`, whose server does not serve it;
/// `empty.`, whose server has no address; and `to.` and `fro.`, whose servers have addresses in each other.
const ROOT: &str = "@ NS a.root.\na.root. A 10.53.0.1\nexample. NS ns.example.\nns.example. A 10.53.0.2\n\
                    dead. NS ns.dead.\nns.dead. A 10.53.0.9\nlame. NS ns.lame.\nns.lame. A 10.53.0.2\n\
                    empty. NS ns.empty.\nto. NS ns.fro.\nfro. NS ns.to.\n";
/// The servers of `far.example.` come without addresses.
const EXAMPLE: &str = "@ NS ns\nns A 10.53.0.2\nwww A 192.0.2.1\nalias CNAME www.child\n\
                       child NS ns.child\nns.child A 10.53.0.3\nfar NS www.far.child\n";
const CHILD: &str = "@ NS ns\nns A 10.53.0.3\nwww A 192.0.2.2\nwww.far A 10.53.0.3\n";
const FAR: &str = "@ NS www.far.child.example.\nwww A 192.0.2.3\n";

/// Runs `nomen query` with a long timeout.
fn query(words: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let time = format!("+time={}", TEST_TIMEOUT.as_secs());
    run(folder.path(), &[&["query", &time, "+tries=1"], words].concat())
}

/// Asserts that these lines, or beginnings of lines, are printed in this order.
fn assert_lines(output: &Output, wanted: &[&str]) {
    let printed = text(&output.stdout) + &text(&output.stderr);
    let mut lines = printed.lines();
    for line in wanted {
        assert!(lines.any(|printed| printed.starts_with(line)), "no line, or not there: {line}\n{printed}");
    }
}

#[test]
fn a_walk_goes_from_the_root_to_the_answer() {
    in_a_network("pursue::inside_a_walk_goes_from_the_root_to_the_answer");
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_a_walk_goes_from_the_root_to_the_answer() {
    inside();
    let zone = |text: &str| format!("{SOA}{text}");
    let _root = authority(1, &[(".", &zone(ROOT))]);
    let _example = authority(2, &[("example", &zone(EXAMPLE))]);
    let _child = authority(3, &[("child.example", &zone(CHILD)), ("far.example", &zone(FAR))]);
    let walk = |words: &[&str]| query(&[&["--trace", "@10.53.0.1"], words].concat());
    let output = walk(&["www.child.example"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_lines(
        &output,
        &[
            ".\t3600\tIN\tNS\ta.root.",
            ";; Received ",
            "example.\t3600\tIN\tNS\tns.example.",
            ";; Received ",
            "child.example.\t3600\tIN\tNS\tns.child.example.",
            ";; Received ",
            "www.child.example.\t3600\tIN\tA\t192.0.2.2",
            ";; Received ",
        ],
    );
    let printed = text(&output.stdout);
    for server in [
        "10.53.0.1#53 in",
        "10.53.0.1#53(a.root.) in",
        "10.53.0.2#53(ns.example.) in",
        "10.53.0.3#53(ns.child.example.) in",
    ] {
        assert!(printed.contains(server), "{server}\n{printed}");
    }
    assert!(printed.contains(": refers to child.example.\n"), "{printed}");
    // CNAMEs are followed, from the closest known zone.
    let output = walk(&["+trace", "alias.example", "A"]);
    let alias = "alias.example.\t3600\tIN\tCNAME\twww.child.example.";
    assert_lines(
        &output,
        &[alias, "child.example.\t3600\tIN\tNS", "www.child.example.\t3600\tIN\tA\t192.0.2.2"],
    );
    assert_eq!(text(&output.stdout).matches("(a.root.)").count(), 1, "{}", text(&output.stdout));
    assert_eq!(text(&walk(&["alias.example", "+short"]).stdout), "www.child.example.\n192.0.2.2\n");
    // A missing glue address is looked up.
    let output = walk(&["www.far.example"]);
    assert_lines(
        &output,
        &[
            "far.example.",
            ";; (www.far.child.example. A) Received ",
            "www.far.example.\t3600\tIN\tA\t192.0.2.3",
        ],
    );
    let output = walk(&["nosuch.child.example"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains(" ms: NXDOMAIN\n"), "{}", text(&output.stdout));
    // DS records belong to the parent zone.
    let output = walk(&["child.example", "DS"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(!text(&output.stdout).contains("10.53.0.3#53"), "{}", text(&output.stdout));
    no_answer(&walk);
    as_json(&walk);
}

/// If no server of a zone answers, the output says so, and how each failed.
fn no_answer(walk: &dyn Fn(&[&str]) -> Output) {
    for (name, words, fault) in [
        ("www.dead", ";; 10.53.0.9#53(ns.dead.): ", "nomen: no server of dead. has an answer\n"),
        (
            "www.lame",
            ";; 10.53.0.2#53(ns.lame.): the reply cannot be used: its response code is REFUSED\n",
            "nomen: no server of lame. has an answer\n",
        ),
        ("www.empty", ";; Received ", "nomen: no server of empty. has an address that can be asked\n"),
        ("www.to", ";; (ns.fro. A) Received ", "nomen: no server of to. has an address that can be asked\n"),
    ] {
        let output = walk(&[name]);
        assert_eq!(output.status.code(), Some(3), "{name}");
        assert!(text(&output.stdout).contains(words), "{name}: {}", text(&output.stdout));
        assert!(text(&output.stderr).contains(fault), "{name}: {}", text(&output.stderr));
    }
    let asked = query(&["--trace", "@10.53.0.9", "www.example"]);
    assert_eq!(asked.status.code(), Some(3));
    assert!(text(&asked.stderr).contains("does not say who the root servers are"), "{}", text(&asked.stderr));
    for words in [&["--trace", "example", "AXFR"][..], &["--trace", "example", "-y", "k:c2VjcmV0"]] {
        assert_eq!(query(words).status.code(), Some(2), "{words:?}");
    }
}

fn as_json(walk: &dyn Fn(&[&str]) -> Output) {
    let output = walk(&["www.far.example", "+json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let steps = json["steps"].as_array().expect("steps");
    let first = &steps[0];
    assert_eq!((&first["for"], &first["server"]), (&"root servers".into(), &"10.53.0.1:53".into()), "{json}");
    let referral = &steps[1];
    assert_eq!(referral["outcome"], "referral", "{json}");
    assert_eq!(
        (&referral["refers_to"], &referral["host"]),
        (&"example.".into(), &"a.root.".into()),
        "{json}"
    );
    assert!(steps.iter().any(|step| step["for"] == "address"), "{json}");
    let last = steps.last().expect("a last step");
    assert_eq!(last["message"]["answerRRs"][0]["rdataA"], "192.0.2.3", "{json}");
    assert_eq!(json["RCODEname"], "NOERROR");
    let failed = walk(&["www.dead", "+json"]);
    let json: serde_json::Value = serde_json::from_slice(&failed.stdout).expect("JSON");
    assert_eq!(json["fault"], "no server of dead. has an answer");
}

#[test]
fn a_walk_keeps_to_the_port_and_the_family_that_it_is_told() {
    in_a_network("pursue::inside_a_walk_keeps_to_the_port_and_the_family_that_it_is_told");
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_a_walk_keeps_to_the_port_and_the_family_that_it_is_told() {
    inside();
    let served = |at: &str, name: &str, zone: &str| {
        let address: SocketAddr = at.parse().expect("an address");
        // A new IPv6 address cannot be bound before duplicate address detection ends, unless that is off.
        let mask = if address.is_ipv4() { "32 dev lo" } else { "128 dev lo nodad" };
        ip(&format!("address add {}/{mask}", address.ip()));
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("z"), format!("{SOA}{zone}")).expect("written");
        Server::start_at(address, folder, "", &format!("[[zone]]\nname = \"{name}\"\nfile = \"z\"\n"))
    };
    let root = "@ NS a.root.\na.root. A 10.53.0.1\na.root. AAAA fd53::1\n\
                example. NS ns.example.\nns.example. A 10.53.0.2\nns.example. AAAA fd53::2\n";
    let example = |last: u8| format!("@ NS ns\nns A 10.53.0.2\nwww A 192.0.2.{last}\n");
    let _servers = [
        served("10.53.0.1:21053", ".", root),
        served("10.53.0.2:21053", "example", &example(4)),
        served("[fd53::1]:21053", ".", root),
        served("[fd53::2]:21053", "example", &example(6)),
    ];
    for (words, answer) in [(["@10.53.0.1", "-4"], "192.0.2.4\n"), (["@fd53::1", "-6"], "192.0.2.6\n")] {
        let output = query(&[&["--trace", "-p", "21053", "www.example", "+short"][..], &words].concat());
        assert_eq!(text(&output.stdout), answer, "{}", text(&output.stderr));
    }
    // A port after the address only applies to that server.
    let output = query(&["--trace", "@10.53.0.1#21053", "www.example", "+tcp"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        text(&output.stdout).contains("10.53.0.1:53 over TCP: connection refused"),
        "{}",
        text(&output.stdout)
    );
}

#[test]
fn a_chase_shows_the_chain_of_trust() {
    in_a_network("pursue::inside_a_chase_shows_the_chain_of_trust");
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_a_chase_shows_the_chain_of_trust() {
    inside();
    let _servers = internet();
    let (anchor, server) = (ds("."), resolver(&ds("."), ""));
    let at = format!("@{}#{}", server.address.ip(), server.address.port());
    // Authoritative servers and a resolver lead to the same result.
    for way in [&["--trace", "@10.53.0.1"][..], &[&at]] {
        let chase = |words: &[&str]| query(&[&["--chase", "--anchor", &anchor], way, words].concat());
        for (name, code, outcome) in [
            ("www.example", 0, "secure\n"),
            ("nosuch.example", 0, "secure\n"),
            ("a.wild.example", 0, "secure\n"),
            ("www.bare", 0, "insecure at www.bare.: the zone, or one above it, is not signed\n"),
            ("far.example", 0, "insecure at www.bare.: the zone, or one above it, is not signed\n"),
            (
                "www.broken",
                1,
                "bogus at www.broken.: no good signature: the signature has expired (EDE 7, Signature \
                 Expired)\n",
            ),
            (
                "bad.example",
                1,
                "bogus at www.broken.: no good signature: the signature has expired (EDE 7, Signature \
                 Expired)\n",
            ),
        ] {
            let output = chase(&[name]);
            let printed = text(&output.stdout);
            assert!(printed.ends_with(&format!(";; SECURITY: {outcome}")), "{name} {way:?}\n{printed}");
            assert_eq!(output.status.code(), Some(code), "{name} {way:?}\n{}", text(&output.stderr));
        }
        let tag = |zone: &str| ds(zone).split(' ').nth(3).expect("a tag").to_owned();
        let (root, example) = (tag("."), tag("example."));
        let key = |tag: &str| format!(";   key {tag} ED25519");
        let signed = |by: &str, tag: &str| format!(";   signed by {by} {tag} ED25519, 20");
        assert_lines(
            &chase(&["www.example"]),
            &[
                ";; CHAIN OF TRUST:",
                "; . trust anchor",
                &key(&root),
                "; . DNSKEY",
                &format!("{} KSK, trusted", key(&root)),
                &signed(".", &root),
                "; example. DS",
                &key(&example),
                &signed(".", &root),
                "; example. DNSKEY",
                &format!("{} KSK, trusted", key(&example)),
                &signed("example.", &example),
                "; www.example. A",
                ";   192.0.2.1",
                &signed("example.", &example),
            ],
        );
        // The proof that there is no DS.
        assert_lines(
            &chase(&["www.bare"]),
            &["; bare. no DS: insecure", "; bare. NSEC", &signed(".", &root)],
        );
        let broken = text(&chase(&["www.broken"]).stdout);
        assert!(broken.contains(": the signature has expired\n"), "{broken}");
        // The parent zone has signed its DS.
        assert!(
            broken.contains("\n; broken. DS\n") && broken.contains("\n; broken. DNSKEY: bogus: "),
            "{broken}"
        );
        // Scripts get no bogus records.
        assert_eq!(text(&chase(&["www.example", "+short"]).stdout), "192.0.2.1\n");
        let short = chase(&["www.broken", "+short"]);
        assert_eq!((text(&short.stdout).as_str(), short.status.code()), ("", Some(1)));
        assert!(text(&short.stderr).contains(";; bogus at www.broken."), "{}", text(&short.stderr));
        let json: serde_json::Value =
            serde_json::from_slice(&chase(&["www.broken", "+json"]).stdout).expect("JSON");
        assert_eq!(
            (&json["validation"]["security"], &json["validation"]["EDE"]["code"]),
            (&"bogus".into(), &7.into())
        );
        let step =
            json["chain"].as_array().and_then(|chain| chain.iter().find(|step| step["what"] == "DNSKEY"));
        assert_eq!(step.expect("keys")["signatures"][0]["good"], true, "{json}");
        // Another anchor, and no reachable server of a zone.
        let wrong = ds("example.").replacen("example.", ".", 1);
        let output = query(&[&["--chase", "--anchor", &wrong], way, &["www.example"]].concat());
        assert_eq!(output.status.code(), Some(1));
        assert!(
            text(&output.stdout).contains("bogus at www.example.: no DNSKEY of the zone fits"),
            "{}",
            text(&output.stdout)
        );
    }
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("anchors"), format!("; ours\n{anchor}\n")).expect("written");
    let file = folder.path().join("anchors");
    let file = file.to_str().expect("a path");
    assert_eq!(query(&["--chase", "--anchor-file", file, &at, "www.example"]).status.code(), Some(0));
    assert_eq!(query(&["--chase", "--anchor-file", "/nowhere", &at, "www.example"]).status.code(), Some(3));
    assert_eq!(query(&["--chase", "--anchor", ". A 192.0.2.1", &at, "www.example"]).status.code(), Some(2));
}
