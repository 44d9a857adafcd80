//! Rules of groups: staff resolve an internal domain at its own servers, and all others do not.

use std::fs;

use crate::support::{APEX, Server, eventually, text, written};

const OUTSIDE: &str =
    "www A 192.0.2.80\nhost.corp A 192.0.2.81\nboth.corp A 192.0.2.82\ninto CNAME host.corp\n";
const INSIDE: &str = "$TTL 60\n@ SOA ns admin 1 3600 600 86400 60\n@ NS ns\nns A 10.0.0.1\nhost A 10.0.0.81\n\
    both TXT inside\nonly A 10.0.0.83\nout CNAME www.example.\n";

/// A client of the group, and one in no group.
const STAFF: &str = "127.0.0.2";
const GUEST: &str = "127.0.0.1";

/// The company's resolver, the outside server, and the inside one.
fn company() -> [Server; 3] {
    let outside = Server::start(&format!("{APEX}{OUTSIDE}"), "");
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("corp"), INSIDE).expect("written");
    let inside = Server::start_in(folder, "", "[[zone]]\nname = \"corp.example\"\nfile = \"corp\"\n");
    eventually("the zone is loaded", &inside, || {
        inside.query(&["host.corp.example", "+short"]).contains("10.0.0.81")
    });
    let config = format!(
        "[resolver]\nvalidate = false\nfirst-timeout = \"10s\"\nmin-timeout = \"10s\"\nmax-timeout = \"60s\"\n\
         client-timeout = \"60s\"\n[[resolver.access]]\nfrom = [\"loopback\"]\n\
         [[policy.group]]\nname = \"staff\"\nfrom = [\"{STAFF}\"]\n\
         [[resolver.forward]]\nservers = [{}]\n\
         [[resolver.forward]]\ndomain = \"corp.example\"\ngroups = [\"staff\"]\nservers = [{}]\n",
        written(outside.address),
        written(inside.address),
    );
    let folder = tempfile::tempdir().expect("a folder");
    [Server::start_in(folder, "", &config), outside, inside]
}

/// The last line of a short answer, or the response code without one.
fn says(server: &Server, client: &str, words: &[&str]) -> String {
    let short = server.query(&[words, &["+short", "-b", client]].concat());
    if let Some(last) = short.lines().last() {
        return last.to_owned();
    }
    let full = server.query(&[words, &["-b", client]].concat());
    ["NXDOMAIN", "SERVFAIL", "REFUSED", "NOERROR"]
        .into_iter()
        .find(|code| full.contains(code))
        .unwrap_or(&full)
        .to_owned()
}

#[test]
fn staff_and_guests_have_answers_of_their_own_below_the_internal_domain() {
    let [server, _outside, _inside] = company();
    for transport in ["+notcp", "+notcp", "+tcp"] {
        let says = |client: &str, name: &str| says(&server, client, &[name, transport]);
        assert_eq!(says(STAFF, "host.corp.example"), "10.0.0.81");
        assert_eq!(says(GUEST, "host.corp.example"), "192.0.2.81");
        assert_eq!(says(GUEST, "only.corp.example"), "NXDOMAIN");
        assert_eq!(says(STAFF, "only.corp.example"), "10.0.0.83");
        assert_eq!(says(STAFF, "both.corp.example"), "NOERROR");
        assert_eq!(says(GUEST, "both.corp.example"), "192.0.2.82");
        assert_eq!(says(STAFF, "gone.corp.example"), "NXDOMAIN");
        assert_eq!(says(GUEST, "into.example"), "192.0.2.81");
        assert_eq!(says(STAFF, "into.example"), "10.0.0.81");
        assert_eq!(says(STAFF, "out.corp.example"), "192.0.2.80");
        assert_eq!(says(GUEST, "www.example"), "192.0.2.80");
    }
}

#[test]
fn clients_that_ask_at_the_same_time_share_only_what_they_may() {
    let [server, _outside, _inside] = company();
    let answers: Vec<(usize, String)> = std::thread::scope(|scope| {
        let ask = |number: usize| {
            let (server, client) = (&server, [STAFF, GUEST][number % 2]);
            (number, scope.spawn(move || says(server, client, &["host.corp.example"])))
        };
        let asked: Vec<_> = (0..12).map(ask).collect();
        asked.into_iter().map(|(number, answer)| (number, answer.join().expect("no panic"))).collect()
    });
    for (number, answer) in answers {
        assert_eq!(answer, ["10.0.0.81", "192.0.2.81"][number % 2]);
    }
}

#[test]
fn operators_see_whose_rules_and_answers_they_are() {
    let [server, _outside, _inside] = company();
    says(&server, STAFF, &["host.corp.example"]);
    says(&server, GUEST, &["host.corp.example"]);
    let dump = text(&server.ctl(&["cache", "dump"]).stdout);
    let of = |address: &str| {
        let end = dump.find(address).unwrap_or_else(|| panic!("{dump}"));
        dump[..end].lines().rev().find(|line| line.starts_with(';')).expect("a line for the entry").to_owned()
    };
    assert!(of("10.0.0.81").ends_with(", for staff"), "{dump}");
    assert!(!of("192.0.2.81").contains(" for "), "{dump}");
    let rules = server.ctl_json(&["forward", "list"]);
    let groups: Vec<String> =
        rules.as_array().expect("a list").iter().map(|rule| rule["groups"].to_string()).collect();
    assert_eq!(groups, ["null", "[\"staff\"]"], "{rules}");
    assert!(text(&server.ctl(&["forward", "list"]).stdout).contains("corp.example. forward, for staff\n"));
    let explained = |client: &str| {
        let arguments = ["explain", "host.corp.example", "A", "--client", client];
        text(&server.ctl(&arguments).stdout)
    };
    let staff = explained(STAFF);
    assert!(staff.contains("the rule of staff for corp.example. covers it"), "{staff}");
    assert!(staff.contains("10.0.0.81") && staff.contains("it is in the cache"), "{staff}");
    let guest = explained(GUEST);
    assert!(guest.contains("the rule for . covers it") && guest.contains("192.0.2.81"), "{guest}");
    // Both answers of the name go.
    assert_eq!(server.ctl_json(&["cache", "flush", "host.corp.example"])["dropped"], 2);
}

#[test]
fn a_reload_takes_the_rule_from_the_group_and_gives_it_back() {
    let [server, outside, inside] = company();
    let both = || [STAFF, GUEST].map(|client| says(&server, client, &["into.example"]));
    assert_eq!(both(), ["10.0.0.81", "192.0.2.81"]);
    let rule = format!("groups = [\"staff\"]\nservers = [{}]", written(inside.address));
    let other = format!("servers = [{}]", written(outside.address));
    server.reconfigure(&rule, &other);
    server.reload();
    assert_eq!(both(), ["192.0.2.81"; 2]);
    server.reconfigure(
        &format!("domain = \"corp.example\"\n{other}"),
        &format!("domain = \"corp.example\"\n{rule}"),
    );
    server.reload();
    assert_eq!(both(), ["10.0.0.81", "192.0.2.81"]);
    // Other clients are in the group now.
    server.reconfigure(&format!("from = [\"{STAFF}\"]"), &format!("from = [\"{GUEST}\"]"));
    server.reload();
    assert_eq!(both(), ["192.0.2.81", "10.0.0.81"]);
    server.reconfigure("groups = [\"staff\"]", "groups = [\"stuff\"]");
    let fault = server.reload_badly().to_string();
    assert!(fault.contains("there is no [[policy.group]] named `stuff`"), "{fault}");
    assert_eq!(both(), ["192.0.2.81", "10.0.0.81"], "the rules before stay");
}

/// A list did not block a special-use name for the group that has it forwarded: the name counted as local.
#[test]
fn lists_block_special_use_names_that_a_group_has_forwarded() {
    let folder = tempfile::tempdir().expect("a folder");
    let zone = "$TTL 60\n@ SOA ns admin 1 3600 600 86400 60\n@ NS ns\nns A 10.0.0.1\nads A 10.0.0.2\nwww A 10.0.0.3\n";
    fs::write(folder.path().join("test"), zone).expect("written");
    let inside = Server::start_in(folder, "", "[[zone]]\nname = \"test\"\nfile = \"test\"\n");
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("ads"), "ads.test\n").expect("written");
    let config = format!(
        "[resolver]\nvalidate = false\niterate = false\nclient-timeout = \"60s\"\n\
         [[resolver.access]]\nfrom = [\"loopback\"]\n\
         [[policy.group]]\nname = \"staff\"\nfrom = [\"{STAFF}\"]\n\
         [[policy.list]]\nname = \"ads\"\nfile = \"ads\"\nanswer = [\"192.0.2.99\"]\n\
         [[resolver.forward]]\ndomain = \"test\"\ngroups = [\"staff\"]\nservers = [{}]\n",
        written(inside.address),
    );
    let server = Server::start_in(folder, "", &config);
    for _ in 0..2 {
        assert_eq!(says(&server, STAFF, &["www.test"]), "10.0.0.3");
        assert_eq!(says(&server, STAFF, &["ads.test"]), "192.0.2.99");
        // For all others the name does not exist (RFC 6761 §6.2), whatever lists say.
        assert_eq!(says(&server, GUEST, &["ads.test"]), "NXDOMAIN");
    }
}

#[test]
fn rules_count_for_the_keys_of_a_group_and_at_its_times() {
    let [server, _outside, _inside] = company();
    server.reconfigure(
        &format!("[[policy.group]]\nname = \"staff\"\nfrom = [\"{STAFF}\"]\n"),
        &format!(
            "[[tsig-key]]\nname = \"phone\"\nsecret = \"c2VjcmV0\"\n\
             [[policy.group]]\nname = \"staff\"\nfrom = [\"{STAFF}\", \"key:phone\", \"mac:02:00:5e:10:00:ff\"]\n"
        ),
    );
    server.reload();
    let signed = || server.query(&["-y", "hmac-sha256:phone:c2VjcmV0", "host.corp.example", "+short"]);
    for _ in 0..2 {
        assert_eq!(
            (signed().trim(), &*says(&server, GUEST, &["host.corp.example"])),
            ("10.0.0.81", "192.0.2.81")
        );
    }
    let explained = text(&server.ctl(&["explain", "host.corp.example", "--key", "phone"]).stdout);
    assert!(explained.contains("the rule of staff") && explained.contains("10.0.0.81"), "{explained}");
    // One of two schedules is in force at any time.
    let half = |name: &str, start: &str, end: &str| {
        format!(
            "[[policy.schedule]]\nname = \"{name}\"\ngroup = \"staff\"\nstart = \"{start}\"\nend = \"{end}\"\n\
             time-zone = \"UTC\"\n"
        )
    };
    let schedules = half("am", "00:00", "12:00") + &half("pm", "12:00", "00:00");
    let config = fs::read_to_string(server.path("nomen.toml")).expect("the configuration");
    let never = schedules.clone() + &half("never", "00:00", "00:01");
    for (names, all, expected) in
        [("\"am\", \"pm\"", &schedules, "10.0.0.81"), ("\"never\"", &never, "192.0.2.81")]
    {
        let at = format!("groups = [\"staff\"]\nschedules = [{names}]\n");
        server.write("nomen.toml", &(config.replace("groups = [\"staff\"]\n", &at) + all));
        server.reload();
        assert_eq!(says(&server, STAFF, &["host.corp.example"]), expected, "{names}");
        assert_eq!(says(&server, GUEST, &["host.corp.example"]), "192.0.2.81", "{names}");
    }
    let listed = text(&server.ctl(&["forward", "list"]).stdout);
    assert!(listed.contains("schedule never"), "{listed}");
}
