//! The configuration as a whole: faults and their messages, and what a reload takes over.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;

use super::table::{ConfigSection, Effect, KeyValue, SectionDoc};
use super::*;
use crate::interfaces::Interfaces;

fn faults(text: &str) -> Vec<String> {
    match read_text("t.toml", text.to_owned(), Path::new("/")) {
        Ok(_) => Vec::new(),
        Err(rejected) => rejected.faults.into_iter().map(|f| f.message).collect(),
    }
}

#[test]
fn nothing_is_a_configuration() {
    let loaded = read_text("t.toml", String::new(), Path::new("/")).expect("accepted");
    assert_eq!(loaded.config.settings.listens.len(), 1);
    assert_eq!(loaded.config.settings.server.answers.max_udp_size.0, 1232);
    assert!(loaded.config.settings.metrics.is_none());
}

#[test]
fn each_fault_has_its_words() {
    let cases = [
        ("[server]\nworkers = 0", "0 is out of range: 1 to 1024"),
        ("[server]\nworkers = \"all\"", "`all` is not one of \"auto\""),
        ("[server]\nmax-udp-size = 70000", "70000 is out of range: 512 to 4096"),
        ("[server]\nmax-udp-size = -1", "-1 is out of range: 512 to 4096"),
        ("[server]\nmax-udp-size = true", "expected an integer, found true or false"),
        ("[server]\ntcp-idle-timeout = \"1ms\"", "1ms is out of range: 200ms to 1h"),
        ("[server]\ngroup = \"x\"", "`group` has no effect without `user`"),
        (
            "[server]\ntcp-connections = 5",
            "`tcp-connections-per-client` is 100, more than the 5 of `tcp-connections`",
        ),
        (
            "[[server.access]]\nfrom = [\"any\"]",
            "[[server.access]] has no effect: every block allows, and a message that matches none is accepted",
        ),
        (
            "[[server.access]]\naction = \"drop\"\nfrom = [\"any\"]\nopcode = [\"notfy\"]",
            "`notfy` is not one of \"query\", \"iquery\", \"status\", \"notify\", \"update\" or \"dso\"",
        ),
        (
            "[[server.access]]\naction = \"drop\"\nfrom = [\"any\"]\ntype = [\"AXRF\"]",
            "`AXRF` is not a type; write its name, or `TYPE` and a number",
        ),
        (
            "[[server.access]]\naction = \"drp\"\nfrom = [\"any\"]",
            "`drp` is not one of \"allow\", \"refuse\", \"drop\" or \"truncate\"",
        ),
        ("[[server.access]]\naction = \"drop\"", "[[server.access]] needs the key `from`"),
        (
            "[[zone]]\nname = \"a\"\nfile = \"a\"\nallow-query = [\"10.0.0.0/8 proto:sctp\"]",
            "`sctp` is not a transport; write `proto:udp` or `proto:tcp`",
        ),
        (
            "[template.t]\nfile = \"x{zone}\"\nallow-query = [\"!\"]",
            "it names no client; write a network, \"key:NAME\", both, or \"any\"",
        ),
        (
            "[server]\ntcp-idle-timeout = \"1s\"\ntcp-idle-timeout-full = \"2s\"",
            "`tcp-idle-timeout-full` is longer than `tcp-idle-timeout`",
        ),
        (
            "[server]\ntcp-connections-per-network = 99",
            "`tcp-connections-per-network` is 99, less than the 100 of `tcp-connections-per-client`",
        ),
        (
            "[server]\nproxy-protocol-from = [\"lb.example\"]",
            "`lb.example` is not a network; write an address, or an address/length",
        ),
        ("[server]\nproxy-protocol-maximum-size = 51", "51 is out of range: 52 to 2048"),
        (
            "[[listen]]\naddr = [\"127.0.0.1@80\", \"192.0.2.1@80\"]\nproto = [\"http\"]",
            "192.0.2.1@80 over http would serve clients without TLS: there is no list of proxies",
        ),
        (
            "[server]\nhttp-client-header = \"forwarded\"",
            "`http-client-header` has no effect without `http-proxies-from`",
        ),
        (
            "[server]\nhttp-client-header = \"x-real-ip\"",
            "`x-real-ip` is not one of \"x-forwarded-for\" or \"forwarded\"",
        ),
        (
            "[[listen]]\naddr = [\"127.0.0.1@80\"]\nproto = [\"http\", \"https\"]",
            "127.0.0.1@80 over https overlaps with itself over http: a port has one of them",
        ),
        ("server = 1", "`server` is a section: write [server]"),
        ("[listen]\naddr = [\"127.0.0.1@1\"]", "`listen` is a list of blocks: write [[listen]]"),
        ("[[listen]]\naddr = []", "the list is empty"),
        ("[[listen]]\nxdp-copy = \"copy\"", "`xdp-copy` has no effect without `xdp`"),
        (
            "[[listen]]\nxdp = \"e\"\nxdp-attach = \"native\"",
            "`native` is not one of \"auto\", \"driver\" or \"generic\"",
        ),
        (
            "[[listen]]\naddr = [\"[::1]@1\"]\nxdp = \"e\"\n[[listen]]\nxdp = \"e\"\nxdp-queues = 2",
            "`xdp-queues` differs from another [[listen]] with xdp = \"e\"",
        ),
        ("[[zone]]\nname = \"a\"", "zone a. has no `file`, no `primaries` and no `template`"),
        ("[[zone]]\nfile = \"a\"", "[[zone]] needs the key `name`"),
        ("[[zone]]\nname = \"a\"\ntemplate = \"t\"", "there is no [template.t]"),
        (
            "[[zone]]\nname = \"a\"\nfile = \"a\"\nprimaries = [\"192.0.2.1\"]",
            "zone a. has `file` and `primaries`",
        ),
        ("[[zone]]\nname = \"a\"\nfile = \"a\"\nixfr = false", "`ixfr` has no effect without `primaries`"),
        (
            "[[zone]]\nname = \"a\"\nprimaries = [\"192.0.2.1\"]\nsource = [\"192.0.2.2\", \"192.0.2.3\"]",
            "`source` has two addresses of one family",
        ),
        (
            "[[zone]]\nname = \"a\"\nfile = \"a\"\nallow-notify = [\"any\"]",
            "`allow-notify` has no effect without `primaries`",
        ),
        (
            "[[zone]]\nname = \"a\"\nprimaries = [\"192.0.2.1\"]\nmin-retry = \"2m\"\nmax-retry = \"1m\"",
            "`min-retry` is longer than `max-retry`",
        ),
        ("[[zone]]\nname = \"a\"\nfile = \"a\"\nnotify = [\"ns1\"]", "`ns1` is not an IPv4 or IPv6 address"),
        (
            "[template.t]\ndirectory = \"x\"\nprimaries = [\"192.0.2.1\"]",
            "template `t` has `directory` and `primaries`",
        ),
        (
            "[[zone]]\nname = \"a\"\nfile = \"a\"\nallow-update = [\"any\"]",
            "`allow-update` needs a state folder",
        ),
        (
            "[server]\nstate-dir = \"s\"\n[[zone]]\nname = \"a\"\nprimaries = [\"192.0.2.1\"]\n\
             update-policy = [\"grant any zone\"]",
            "a zone with `primaries` takes no updates: `update-policy` has no effect",
        ),
        ("[[zone]]\nname = \"a\"\nfile = \"a\"\napi = true", "`api` needs a state folder"),
        (
            "[[zone]]\nname = \"a\"\nfile = \"a\"\ndelegation-updates = [\"cds\"]",
            "`delegation-updates` needs a state folder",
        ),
        (
            "[server]\nstate-dir = \"s\"\n[[zone]]\nname = \"a\"\nprimaries = [\"192.0.2.1\"]\n\
             delegation-updates = [\"cds\"]",
            "a zone with `primaries` is not changed here: `delegation-updates` has no effect",
        ),
        (
            "[server]\nstate-dir = \"s\"\n[[zone]]\nname = \"a\"\nfile = \"a\"\n\
             delegation-updates = [\"bootstrap\"]\n[resolver]\nvalidate = false",
            "`bootstrap` needs the resolver of this server, and that it validates",
        ),
        (
            "[server]\nstate-dir = \"s\"\n[[zone]]\nname = \"a\"\nprimaries = [\"192.0.2.1\"]\napi = true",
            "a zone with `primaries` is not changed here: `api` has no effect",
        ),
        (
            "[server]\nstate-dir = \"s\"\n[[zone]]\nname = \"a\"\ncatalog-produce = true\napi = true",
            "zone a. has `api` and `catalog-produce`",
        ),
        (
            "[[zone]]\nname = \"a\"\nfile = \"a\"\nixfr-from-differences = true",
            "`ixfr-from-differences` needs a state folder",
        ),
        (
            "[server]\nstate-dir = \"s\"\n[[zone]]\nname = \"a\"\nprimaries = [\"192.0.2.1\"]\nixfr-from-differences = true",
            "a zone with `primaries` has no file: `ixfr-from-differences` has no effect",
        ),
        (
            "[template.t]\nfile = \"x{zone}\"\nupdate-policy = [\"permit any zone\"]",
            "`permit`: a rule begins with `grant` or `deny`",
        ),
        (
            "[[zone]]\nname = \"a\"\nfile = \"a\"\nserial-policy = \"today\"",
            "`today` is not one of \"increment\", \"unixtime\" or \"date\"",
        ),
        ("[[zone]]\nname = \"a\"\ncatalog-produce = true", "`catalog-produce` needs a state folder"),
        (
            "[server]\nstate-dir = \"s\"\n[[zone]]\nname = \"a\"\nfile = \"a\"\ncatalog-produce = true",
            "zone a. has `file` and `catalog-produce`",
        ),
        (
            "[server]\nstate-dir = \"s\"\n[[zone]]\nname = \"a\"\ncatalog-produce = true\nallow-update = [\"any\"]",
            "zone a. has `allow-update` and `catalog-produce`",
        ),
        (
            "[server]\nstate-dir = \"s\"\n[[zone]]\nname = \"a\"\ncatalog-produce = true\ncatalog-answers = true",
            "`catalog-answers` has no effect without `catalog-template`",
        ),
        (
            "[server]\nstate-dir = \"s\"\n[[zone]]\nname = \"a\"\ncatalog-produce = true\ncatalog-member = \"a\"",
            "the catalog zone a. cannot list itself",
        ),
        (
            "[[zone]]\nname = \"a\"\nfile = \"a\"\ncatalog-member = \"b\"",
            "there is no zone b. with `catalog-produce`",
        ),
        (
            "[template.t]\nfile = \"x{zone}\"\ncatalog-member = \"b\"",
            "there is no zone b. with `catalog-produce`",
        ),
        (
            "[[zone]]\nname = \"a\"\nfile = \"a\"\ncatalog-group = \"g\"",
            "`catalog-group` has no effect without `catalog-member`",
        ),
        ("[template.t]", "template `t` has no `file`, no `directory` and no `primaries`"),
        (
            "[template.t]\nfile = \"x{zone}\"\npattern = \"{zone}\"",
            "`pattern` has no effect without `directory`",
        ),
        (
            "[template.t]\nfile = \"x{zone}\"\nmax-removed = 1",
            "`max-removed` has no effect without `directory`",
        ),
        ("[template.t]\ndirectory = \"x\"\nmax-removed = 1.5", "expected a share from 0 to 1"),
        ("[template.t]\ndirectory = \"x\"\nmax-removed = -0.5", "expected a share from 0 to 1"),
        ("[template.t]\ndirectory = \"x\"\nmax-removed = nan", "expected a share from 0 to 1"),
        (
            "[metrics]\nlisten = \"127.0.0.1@5300\"",
            "127.0.0.1@5300 overlaps with the DNS address 127.0.0.1@5300",
        ),
        ("[log]\nqueries = 2.0", "2.0 is not a share above 0 and up to 1"),
        ("[secondary]", "unknown section `secondary`"),
        ("workers = 2", "unknown section `workers`"),
        ("include = [\"nowhere.toml\"]", "cannot open /nowhere.toml: there is no such file"),
        ("include = [\"a*/b.toml\"]", "`*` and `?` are allowed in the file name only, not in folders"),
    ];
    for (text, words) in cases {
        assert_eq!(faults(text), [words], "{text}");
    }
}

#[test]
fn an_unknown_key_that_is_near_none_said_nothing_of_those_there_are() {
    let hint = |text: &str| {
        let rejected = read_text("t", text.to_owned(), Path::new("/")).expect_err("refused").to_string();
        rejected
            .lines()
            .last()
            .unwrap_or_default()
            .split_once('^')
            .map(|(_, rest)| rest.trim_matches(['^', ' ']).to_owned())
    };
    assert_eq!(
        hint("[metrics]\nport = 9153").as_deref(),
        Some("the keys are listen, freebind, per-zone, connections, head-timeout")
    );
    let many = hint("[server]\nzzzzzzzz = 1").expect("a hint");
    assert!(many.starts_with("the keys are access, user, group, sandbox, "), "{many}");
    assert!(many.ends_with(" more: see `nomen check --print-reference`") && many.len() < 250, "{many}");
    let sections = hint("[zzzzzzzz]").expect("a hint");
    assert!(sections.starts_with("the sections are server, server.access, listen, "), "{sections}");
    assert_eq!(hint("[metrics]\nlsten = 1").as_deref(), Some("did you mean `listen`?"));
}

#[test]
fn wildcard_addresses_cover_others_of_their_family() {
    let listen = |a: &str, b: &str| faults(&format!("[[listen]]\naddr = [\"{a}\", \"{b}\"]")).len();
    assert_eq!(listen("0.0.0.0@53", "127.0.0.1@53"), 2, "once for each transport");
    assert_eq!(listen("127.0.0.1@53", "127.0.0.1@53"), 2);
    assert_eq!(listen("0.0.0.0@53", "[::]@53"), 0);
    let proto = |a: &str, b: &str| {
        let block = |proto: &str| format!("[[listen]]\naddr = [\"127.0.0.1@853\"]\nproto = [\"{proto}\"]\n");
        faults(&(block(a) + &block(b))).len()
    };
    assert_eq!(
        (proto("tls", "tcp"), proto("tcp", "tls"), proto("tls", "tls")),
        (1, 1, 1),
        "one kind of socket"
    );
    assert_eq!(proto("tls", "udp"), 0);
    assert_eq!(listen("0.0.0.0@53", "127.0.0.1@5353"), 0);
}

#[test]
fn includes_add_up_and_clash() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    std::fs::create_dir(folder.path().join("conf.d")).expect("made");
    write("nomen.toml", "include = [\"conf.d/*.toml\"]\n[server]\nnsid = \"x\"\n");
    write("conf.d/a.toml", "[[zone]]\nname = \"a\"\nfile = \"a.zone\"\n");
    write("conf.d/b.toml", "[[zone]]\nname = \"b\"\nfile = \"b.zone\"\n[log]\nlevel = \"warn\"\n");
    write("conf.d/ignored", "not toml");
    let loaded = read_files(&folder.path().join("nomen.toml")).expect("accepted");
    let files: Vec<_> = loaded.config.zones.iter().map(|z| z.file.value.clone()).collect();
    assert_eq!(files, ["a.zone", "b.zone"].map(|f| Some(folder.path().join("conf.d").join(f))));
    write("conf.d/c.toml", "[server]\nid = \"x\"\n");
    let rejected = read_files(&folder.path().join("nomen.toml")).expect_err("two [server]");
    assert_eq!(rejected.faults.len(), 1);
    assert!(rejected.to_string().contains("[server] is in more than one file"), "{rejected}");
    write("conf.d/c.toml", "include = [\"../nomen.toml\"]\n");
    let rejected = read_files(&folder.path().join("nomen.toml")).expect_err("a circle");
    assert!(rejected.to_string().contains("is included more than once"), "{rejected}");
}

proptest! {
    #[test]
    fn any_text_is_accepted_or_rejected_with_a_place(text in "[\\[\\]a-z\"=@0-9.{}#\n -]{0,80}") {
        if let Err(rejected) = read_text("t.toml", text, Path::new("/nonexistent")) {
            prop_assert!(!rejected.faults.is_empty());
            prop_assert!(!rejected.to_string().is_empty());
        }
    }
}

/// Values that hardly any key accepts.
const ODD: [&str; 14] = [
    "0",
    "-1",
    "99999999999999999999",
    "1.5",
    "nan",
    "1979-05-27",
    "true",
    "[]",
    "[[]]",
    "[\"\", 1]",
    "{ a = 1 }",
    "\"\"",
    "\"\\u0000\"",
    "\"é.\"",
];

proptest! {
    /// Any values at the known keys.
    #[test]
    fn any_value_of_any_key_is_accepted_or_rejected_with_a_place(
        blocks in prop::collection::vec((any::<Index>(), prop::collection::vec(any::<[Index; 2]>(), 0..5)), 0..6),
    ) {
        let sections = Configuration::default().slots().map(|slot| slot.describe());
        let examples = sections.iter().flat_map(|section| section.keys.iter().map(|key| key.example));
        let values: Vec<&str> = ODD.into_iter().chain(examples).collect();
        let mut text = String::new();
        for (section, keys) in blocks {
            let SectionDoc { header, keys: known, .. } = section.get(&sections);
            let header = header.replace(".X", ".customers");
            if header.starts_with("[[") || !text.contains(&header) {
                let line = |[key, value]: [Index; 2]| (key.get(known).name, value.get(&values));
                let lines: BTreeMap<&str, _> = keys.into_iter().map(line).collect();
                text += &format!("{header}\n");
                lines.into_iter().for_each(|(key, value)| text += &format!("{key} = {value}\n"));
            }
        }
        match read_text("t.toml", text, Path::new("/nonexistent")) {
            Err(rejected) => prop_assert!(!rejected.to_string().is_empty()),
            Ok(accepted) => if let Some(recursive) = accepted.config.settings.recursive() {
                let config = recursive.forward_config();
                prop_assert!(!config.rules.is_empty() || !config.iterate.rules.is_empty());
                recursive.policy_config(&Interfaces::default());
            }
        }
    }
}

fn settings(text: &str) -> Settings {
    match read_text("t.toml", text.to_owned(), Path::new("/")) {
        Ok(accepted) => accepted.config.settings,
        Err(rejected) => panic!("{rejected}"),
    }
}

/// The reports of a server that was started with one text and reads others.
fn reported(start: &str, reloads: &[&str]) -> Vec<Vec<String>> {
    let mut running = settings(start);
    let adopt = |text: &&str| running.adopt(settings(text)).iter().map(ToString::to_string).collect();
    reloads.iter().map(adopt).collect()
}

/// Every key of these settings, with its section.
fn values(settings: &Settings) -> Vec<(&'static str, KeyValue)> {
    fn of<T: ConfigSection>(section: &T) -> Vec<(&'static str, KeyValue)> {
        section.values().into_iter().map(|key| (T::HEADER, key)).collect()
    }
    let Settings {
        server,
        query_access,
        listens,
        certificates,
        acme,
        odoh,
        views,
        rate_limits,
        transfers,
        tsig_keys,
        updates,
        resolver,
        forwards,
        stubs,
        access,
        policy,
        policy_zones,
        lists,
        groups,
        schedules,
        database,
        control,
        metrics,
        api,
        api_tokens,
        log,
        dnstap,
    } = settings;
    let mut all =
        [of(&**server), of(&**rate_limits), of(&**transfers), of(&**updates), of(&**control), of(&**log)]
            .concat();
    all.extend(query_access.iter().flat_map(|access| of(&**access)));
    all.extend(tsig_keys.iter().flat_map(|key| of(&**key)));
    all.extend(views.iter().flat_map(|view| of(&**view)));
    all.extend(listens.iter().flat_map(|listen| of(&**listen)));
    all.extend(certificates.iter().flat_map(|certificate| of(&**certificate)));
    all.extend(acme.iter().flat_map(|acme| of(&**acme)));
    all.extend(odoh.iter().flat_map(|odoh| of(&**odoh)));
    all.extend(resolver.iter().flat_map(|resolver| of(&**resolver)));
    all.extend(forwards.iter().flat_map(|forward| of(&**forward)));
    all.extend(stubs.iter().flat_map(|stub| of(&**stub)));
    all.extend(access.iter().flat_map(|access| of(&**access)));
    all.extend(of(&**policy));
    all.extend(policy_zones.iter().flat_map(|zone| of(&**zone)));
    all.extend(lists.iter().flat_map(|list| of(&**list)));
    all.extend(groups.iter().flat_map(|group| of(&**group)));
    all.extend(schedules.iter().flat_map(|schedule| of(&**schedule)));
    all.extend(database.iter().flat_map(|database| of(&**database)));
    all.extend(metrics.iter().flat_map(|metrics| of(&**metrics)));
    all.extend(api.iter().flat_map(|api| of(&**api)));
    all.extend(api_tokens.iter().flat_map(|token| of(&**token)));
    all.extend(dnstap.iter().flat_map(|dnstap| of(&**dnstap)));
    all
}

/// Keys that exclude others: frames and the copy of the root zone each have one destination or source, and
/// the copy requires iteration from the root down, over some address family; a list that blocks nothing has
/// no answer; a token has one hash; there is no template.
const LEFT_OUT: [(&str, &str); 10] = [
    ("[database]", "url-file"),
    ("[database]", "template"),
    ("[api]", "template"),
    ("[[api.token]]", "hash-file"),
    ("[dnstap]", "file"),
    ("[[policy.list]]", "kind"),
    ("[[policy.list]]", "file"),
    ("[resolver]", "local-root-file"),
    ("[resolver]", "iterate"),
    ("[resolver]", "iterate-ipv4"),
];

/// Every section of [`Settings`] with the example of every key but those that are left out.
fn examples() -> String {
    let mut config = Configuration::default();
    let of_zones = ["[[zone]]", "[template.X]", "[dnssec-policy.X]"];
    let sections = config.slots().map(|slot| slot.describe());
    let sections = sections.into_iter().filter(|section| !of_zones.contains(&section.header));
    let text = |section: SectionDoc| {
        let keys = section.keys.iter().filter(|k| !LEFT_OUT.contains(&(section.header, k.name)));
        let keys: Vec<String> = keys.map(|k| format!("{} = {}", k.name, k.example)).collect();
        format!("{}\n{}\n", section.header, keys.join("\n"))
    };
    sections.map(text).collect()
}

#[test]
fn a_reload_takes_over_the_live_keys_and_no_other() {
    let start = settings(
        "[server]\nstate-dir = \"s\"\n[acme]\nnames = [\"a.example\"]\naccept-terms = true\n\
         [odoh]\n[metrics]\n[[resolver.forward]]\nservers = [\"192.0.2.1\"]\n\
         [[resolver.stub]]\ndomain = \"a\"\nservers = [\"192.0.2.2\"]\n[[resolver.access]]\nfrom = [\"any\"]\n\
         [[view]]\nname = \"v\"\nfrom = [\"any\"]\n\
         [[zone]]\nname = \"z\"\nfile = \"f\"\n[[policy.zone]]\nname = \"z\"\n\
         [[policy.list]]\nname = \"l\"\nfile = \"f\"\n[[policy.group]]\nname = \"g\"\nfrom = [\"any\"]\n\
         [[policy.schedule]]\ngroup = \"g\"\nstart = \"08:00\"\nend = \"09:00\"\n\
         [[tsig-key]]\nname = \"k\"\nsecret = \"c2VjcmV0\"\n[dnstap]\nsocket = \"s\"\n\
         [[server.access]]\naction = \"drop\"\nfrom = [\"any\"]\n\
         [[certificate]]\nchain = \"c\"\nkey = \"k\"\n[api]\n[[api.token]]\nname = \"t\"\n\
         hash = \"sha256:0000000000000000000000000000000000000000000000000000000000000000\"\n\
         rights = [{ right = \"read\" }]\n[database]\nurl = \"postgresql://a/b\"\n",
    );
    let zone = "[[zone]]\nname = \"rpz.example.com\"\nfile = \"f\"\n";
    let new = settings(&(examples() + zone));
    let mut running = start.clone();
    let pending = running.adopt(new.clone());
    let [before, after, wanted] = [&start, &running, &new].map(values);
    let mut waiting = Vec::new();
    for ((before, after), wanted) in before.into_iter().zip(after).zip(wanted) {
        match after.1.effect {
            Effect::Live => assert_eq!(after, wanted),
            Effect::Restart => {
                assert_eq!(after, before);
                if wanted != before {
                    waiting.push((
                        before.0.to_owned(),
                        before.1.key.to_owned(),
                        before.1.value,
                        wanted.1.value,
                    ));
                }
            }
        }
    }
    waiting.sort();
    let mut pending: Vec<_> =
        pending.into_iter().map(|p| (p.section, p.key, p.running, p.configured)).collect();
    pending.sort();
    assert!(pending.len() > 15, "{pending:?}");
    assert_eq!(pending, waiting);
}

#[test]
fn a_restart_key_is_reported_at_every_reload_until_it_is_put_back() {
    let (two, four) = ("[server]\nworkers = 2\n", "[server]\nworkers = 4\n");
    let changed =
        vec!["`workers` of [server] changed from 2 to 4; this takes effect at the next start".to_owned()];
    let unset =
        vec!["`workers` of [server] changed from 2 to \"auto\"; this takes effect at the next start".into()];
    assert_eq!(reported(two, &[four, four, "", two]), [changed.clone(), changed, unset, vec![]]);
}

/// RFC 7828 §3.3.2: the server announces for how long it keeps an idle connection.
#[test]
fn the_idle_time_that_is_announced_is_the_one_in_force() {
    let mut running = settings("");
    running.adopt(settings("[server]\ntcp-idle-timeout = \"30s\"\n"));
    let tenths = u64::from(running.engine_config().keepalive);
    assert_eq!(Duration::from_millis(100 * tenths), Duration::from_secs(30));
    assert_eq!(running.server.tcp.times().idle, Duration::from_secs(30));
}

#[test]
fn sections_that_come_or_go_wait_for_the_next_start() {
    let on = "[metrics]\nper-zone = true\n";
    let [came, same]: [Vec<String>; 2] = reported("", &[on, ""]).try_into().expect("two reloads");
    let words =
        "`listen` of [metrics] changed from unset to \"127.0.0.1@9153\"; this takes effect at the next start";
    assert_eq!((came, same), (vec![words.to_owned()], vec![]));
    let words =
        "`listen` of [metrics] changed from \"127.0.0.1@9153\" to unset; this takes effect at the next start";
    assert_eq!(reported(on, &[""]), [[words]]);
    let mut running = settings("");
    running.adopt(settings(on));
    assert!(!running.counts_per_zone(), "the figures have no reader");
}

#[test]
fn blocks_are_known_by_what_is_in_them() {
    let block = |port: u16, more: &str| format!("[[listen]]\naddr = [\"127.0.0.1@{port}\"]\n{more}");
    let [a, b, c] = [1, 2, 3].map(|port| block(port, ""));
    let start = format!("{a}{b}");
    let reloads = [
        format!("{b}{a}"),
        b.clone(),
        format!("{a}{b}{c}"),
        format!("{b}{c}"),
        format!("{a}{}", block(2, "proto = [\"tcp\"]\n")),
    ];
    let words = |number: usize, key: &str, from: &str, to: &str| {
        vec![format!(
            "`{key}` of [[listen]] (block {number}) changed from {from} to {to}; this takes effect at the next start"
        )]
    };
    let addr = |port: u16| format!("[\"127.0.0.1@{port}\"]");
    let expected = [
        vec![],
        words(1, "addr", &addr(1), "unset"),
        words(3, "addr", "unset", &addr(3)),
        words(2, "addr", &addr(1), &addr(3)),
        words(2, "proto", "[\"udp\", \"tcp\"]", "[\"tcp\"]"),
    ];
    assert_eq!(reported(&start, &reloads.each_ref().map(String::as_str)), expected);
}

#[test]
fn every_key_reaches_its_part() {
    let text = "[server]\nworkers = 3\npin-cpus = true\nudp-buffer = \"1MiB\"\nudp-fair-shares = false\ndrain = \"9s\"\n\
                tcp-connections = 11\ntcp-connections-per-client = 7\n\
                tcp-connections-per-network = 9\ntcp-first-timeout = \"1s\"\n\
                tcp-idle-timeout = \"2s\"\ntcp-idle-timeout-full = \"50ms\"\ntcp-message-timeout = \"3s\"\ntcp-write-timeout = \"4s\"\n\
                tcp-pipeline = 5\ntcp-write-buffer = \"6KiB\"\nnsid = \"n\"\nid = \"i\"\nversion = \"v\"\n\
                max-udp-size = 700\nmax-chain = 8\nproxy-protocol-maximum-size = 99\n\
                proxy-protocol-from = [\"192.0.2.1\", \"::ffff:198.51.100.0/120\", \"2001:db8::/32\"]\n[metrics]\nper-zone = true\n\
                [[listen]]\nxdp = \"e\"\nxdp-attach = \"driver\"\nxdp-copy = \"copy\"\nxdp-queues = 2\n";
    let settings = settings(text);
    let net = settings.net_config();
    let wanted = net::ListenerConfig {
        workers: 3,
        pin_cpus: true,
        drain: Duration::from_secs(9),
        udp: net::UdpConfig {
            batch: query_path::BATCH,
            receive_buffer: Some(1 << 20),
            send_buffer: Some(1 << 20),
            fair_shares: false,
            ..net::UdpConfig::default()
        },
        tcp: net::TcpConfig { max_in_flight: 5, max_unsent: 6 << 10, ..net::TcpConfig::default() },
        ..net::ListenerConfig::default()
    };
    assert_eq!(net, wanted);
    assert_eq!((settings.server.tcp.limits(), settings.server.tcp.per_network(11)), ((11, 7), 9));
    let times = net::TcpTimes {
        first_message: Duration::from_secs(1),
        idle: Duration::from_secs(2),
        message: Duration::from_secs(3),
        write: Duration::from_secs(4),
        idle_min: Duration::from_millis(50),
    };
    assert_eq!(settings.server.tcp.times(), times);
    let proxies = &settings.server.proxies;
    let networks: Vec<_> = proxies.networks().map(|(ip, len)| format!("{ip}/{len}")).collect();
    assert_eq!(networks, ["192.0.2.1/32", "198.51.100.0/24", "2001:db8::/32"]);
    assert_eq!(proxies.longest_header(), 99);
    assert_eq!(settings.warnings(false), []);
    let engine = settings.engine_config();
    assert_eq!((&*engine.nsid, engine.max_udp_size, engine.keepalive), (&b"n"[..], 700, 20));
    assert_eq!(
        settings.zones_config(),
        query_path::ZonesConfig { max_chain: 8, count_per_zone: true, ..query_path::ZonesConfig::default() }
    );
    assert_eq!(engine.identity.id.as_deref(), Some(&b"i"[..]));
    assert_eq!(engine.identity.version.as_deref(), Some(&b"v"[..]));
    let xdp = settings.listens[0].xdp_config().expect("a front");
    assert_eq!((xdp.interface.as_str(), xdp.queues), ("e", Some(2)));
    assert_eq!((xdp.attach, xdp.copy), (net::XdpAttach::Driver, net::XdpCopy::Copy));
}

#[test]
fn http_in_clear_text_is_for_proxies_or_this_host() {
    let listen = "[[listen]]\naddr = [\"[::]@80\"]\nproto = [\"http\"]\n";
    for keys in ["http-proxies-from = [\"192.0.2.1\"]", "proxy-protocol-from = [\"192.0.2.1\"]"] {
        let settings = settings(&format!("[server]\n{keys}\n{listen}"));
        assert!(!settings.has_tls(), "it needs no certificate");
    }
    let local = settings("[[listen]]\naddr = [\"127.0.0.1@80\", \"[::1]@80\"]\nproto = [\"http\"]\n");
    assert_eq!(local.server.http_proxies.networks().count(), 0);
    let text = "[server]\nhttp-proxies-from = [\"192.0.2.1\", \"2001:db8::/32\"]\nhttp-client-header = \"forwarded\"\n";
    let keys = settings(text).server.http_proxies.clone();
    assert_eq!(keys.header.value, Some(transport::ForwardedHeader::Forwarded));
    let networks: Vec<_> = keys.networks().map(|(ip, len)| format!("{ip}/{len}")).collect();
    assert_eq!(networks, ["192.0.2.1/32", "2001:db8::/32"]);
}

#[test]
fn a_list_of_proxies_that_has_every_address_has_a_warning() {
    let keys = ["proxy-protocol-from", "http-proxies-from"];
    for (key, network) in keys.iter().flat_map(|key| ["0.0.0.0/0", "::/0", "::ffff:0:0/96"].map(|n| (key, n)))
    {
        let text = format!("[server]\n{key} = [\"192.0.2.1\", \"{network}\"]\n");
        let found = settings(&text).warnings(false);
        let [warning] = &found[..] else { panic!("one warning: {found:?}") };
        assert!(warning.message.starts_with(&format!("`{key}` has every address")), "{warning:?}");
        let at = warning.place.as_ref().expect("a place");
        assert_eq!(text[at.span.clone()], format!("\"{network}\""));
    }
}

/// Operators get the configuration that tests and benchmarks of the parts measure.
#[test]
fn defaults_are_those_of_the_parts() {
    let (net, parts) = (Settings::default().net_config(), net::ListenerConfig::default());
    assert_eq!((net.workers, net.pin_cpus, net.drain), (parts.workers, parts.pin_cpus, parts.drain));
    assert_eq!(net.tcp, parts.tcp);
    assert_eq!(net::UdpConfig { batch: parts.udp.batch, ..net.udp }, parts.udp);
    let (engine, parts) = (Settings::default().engine_config(), query_path::EngineConfig::default());
    assert_eq!((engine.max_udp_size, engine.keepalive), (parts.max_udp_size, parts.keepalive));
    assert_eq!(Settings::default().zones_config(), query_path::ZonesConfig::default());
    assert_eq!(Settings::default().server.tcp.times(), net::TcpTimes::default());
}

proptest! {
    /// Whatever is read in whatever order, the start determines the keys in force, and the last text
    /// determines the keys that wait.
    #[test]
    fn what_waits_depends_on_the_start_and_the_last_reload(reloads in prop::collection::vec(0..TEXTS.len(), 2..6)) {
        let mut running = settings(TEXTS[reloads[0]]);
        let start = running.clone();
        let mut pending = Vec::new();
        for &text in &reloads[1..] {
            pending = running.adopt(settings(TEXTS[text]));
        }
        let last = settings(TEXTS[reloads[reloads.len() - 1]]);
        prop_assert_eq!(start.clone().adopt(last.clone()), pending.clone());
        prop_assert_eq!(running.clone().adopt(last), pending);
        let fixed = |settings: &Settings| -> Vec<_> {
            values(settings).into_iter().filter(|(_, key)| key.effect == Effect::Restart).collect()
        };
        prop_assert_eq!(fixed(&running), fixed(&start));
        prop_assert_eq!(running.adopt(start), vec![]);
    }
}

/// Configurations that differ in live keys, in restart keys, in blocks and in sections.
const TEXTS: [&str; 8] = [
    "",
    "[server]\nworkers = 2\ntcp-idle-timeout = \"20s\"\nnsid = \"a\"\n",
    "[server]\nuser = \"nomen\"\nmax-chain = 3\n[metrics]\nper-zone = true\n",
    "[metrics]\nlisten = \"127.0.0.1@1\"\n[log]\nlevel = \"warn\"\ntarget = \"/log\"\n",
    "[[listen]]\naddr = [\"127.0.0.1@1\"]\n[[listen]]\naddr = [\"127.0.0.1@2\"]\nproto = [\"udp\"]\n[control]\nenable = false\n",
    "[[listen]]\naddr = [\"127.0.0.1@2\"]\nproto = [\"udp\"]\n[log]\nqueries = true\n",
    "[resolver]\ncache-size = \"1GiB\"\n[[resolver.forward]]\nservers = [\"192.0.2.1\"]\n",
    "[resolver]\nmax-ttl = \"1h\"\nprefetch = false\n[[resolver.stub]]\ndomain = \"a\"\nservers = [\"192.0.2.1\"]\n",
];
