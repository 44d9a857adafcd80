//! Views: the same zone in several versions for different clients, by address and by key.

use std::fs;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tempfile::TempDir;

use crate::metrics::http;
use crate::support::{
    APEX, Server, TEST_TIMEOUT, eventually, free_address, message, next_second, run, text, written,
};

const STATE: &str = "state-dir = \"state\"\n";

/// Secrets of the keys `in.example` and `out.example`.
const SECRETS: [(&str, &str); 2] = [
    ("in.example", "3q2+7wABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhs="),
    ("out.example", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
];

/// Clients of view `inside`, of view `lab`, and of none.
const INSIDE: &str = "127.1.0.1";
const LAB: &str = "127.2.0.1";
const OUTSIDE: &str = "127.3.0.1";

const VIEWS: &str = "[[view]]\nname = \"inside\"\nfrom = [\"127.1.0.0/16\", \"key:in.example\"]\n\
                     [[view]]\nname = \"lab\"\nfrom = [\"127.2.0.0/16\"]\n";

/// Returns the blocks of both keys.
fn keys() -> String {
    let block = |(name, secret): (&str, &str)| {
        format!("[[tsig-key]]\nname = \"{name}\"\nalgorithm = \"hmac-sha256\"\nsecret = \"{secret}\"\n")
    };
    SECRETS.map(block).concat()
}

/// Returns a zone with the address 192.0.2.`last` at `www`.
fn zone(last: u8) -> String {
    format!("{APEX}www A 192.0.2.{last}\n")
}

/// Returns the block of a zone.
fn block(name: &str, view: Option<&str>, file: &str, keys: &str) -> String {
    let view = view.map_or_else(String::new, |view| format!("view = \"{view}\"\n"));
    format!("[[zone]]\nname = \"{name}\"\n{view}file = \"{file}\"\n{keys}")
}

/// Returns a folder with these files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, contents) in files {
        fs::write(folder.path().join(name), contents).expect("written");
    }
    folder
}

/// Runs dig from a client's address, signed with a key if one is named, and returns its output.
fn dig(server: SocketAddr, from: &str, key: Option<&str>, words: &[&str]) -> String {
    let key = key.map(|key| {
        let secret = SECRETS.iter().find(|(name, _)| *name == key).expect("a key").1;
        format!("hmac-sha256:{key}:{secret}")
    });
    let mut command = Command::new("dig");
    command.env("HOME", "/nonexistent").arg(format!("@{}", server.ip()));
    command.args(["-p", &server.port().to_string(), "-b", from, "+tries=1", "+time=60", "+nocookie"]);
    if let Some(key) = &key {
        command.args(["-y", key]);
    }
    text(&command.args(words).output().expect("dig runs").stdout)
}

/// Returns the addresses of a name for a client, in short.
fn short(server: &Server, from: &str, name: &str) -> String {
    dig(server.address, from, None, &["+short", name, "A"]).trim().replace('\n', " ")
}

/// Sends an update of `example`, signed with a key.
fn update(server: SocketAddr, key: &str, line: &str) -> bool {
    update_of("example", server, key, line)
}

/// Sends an update of a zone, signed with a key.
fn update_of(zone: &str, server: SocketAddr, key: &str, line: &str) -> bool {
    let secret = SECRETS.iter().find(|(name, _)| *name == key).expect("a key").1;
    let mut child = Command::new("nsupdate")
        .args(["-y", &format!("hmac-sha256:{key}:{secret}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("nsupdate runs");
    let commands = format!("server {} {}\nzone {zone}\nupdate {line}\nsend\n", server.ip(), server.port());
    child.stdin.take().expect("its input").write_all(commands.as_bytes()).expect("written");
    child.wait().expect("it ends").success()
}

#[test]
fn each_client_has_the_zones_of_its_view_and_else_those_outside() {
    let files = [
        (
            "outside",
            format!(
                "{APEX}www A 192.0.2.1\nonly A 192.0.2.1\nchain CNAME www.private\nsub NS ns.sub\nns.sub A 192.0.2.9\n"
            ),
        ),
        (
            "inside",
            format!("{APEX}www A 192.0.2.2\nchain CNAME www.private\nsub NS ns.sub\nns.sub A 192.0.2.9\n"),
        ),
        ("private", zone(3)),
        ("below", zone(4)),
        ("lab", zone(5)),
    ];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let sections = [
        block("example", None, "outside", ""),
        block("example", Some("inside"), "inside", ""),
        block("private", Some("inside"), "private", ""),
        block("below.example", None, "below", ""),
        block("lab.below.example", Some("lab"), "lab", ""),
        keys(),
        VIEWS.into(),
    ];
    let at = free_address();
    let metrics = format!("[metrics]\nlisten = {}\nper-zone = true\n", written(at));
    let server = Server::start_in(folder(&files), "", &(sections.concat() + &metrics));
    for (from, name, expected) in [
        (OUTSIDE, "www.example", "192.0.2.1"),
        (INSIDE, "www.example", "192.0.2.2"),
        // Neither a zone of the view nor another view takes part.
        (LAB, "www.example", "192.0.2.1"),
        (INSIDE, "only.example", ""),
        (OUTSIDE, "only.example", "192.0.2.1"),
        (INSIDE, "www.private", "192.0.2.3"),
        (OUTSIDE, "www.private", ""),
        // The longest apex, in the view or outside.
        (INSIDE, "www.below.example", "192.0.2.4"),
        (LAB, "www.lab.below.example", "192.0.2.5"),
        (INSIDE, "www.lab.below.example", ""),
    ] {
        assert_eq!(short(&server, from, name), expected, "{from} {name}");
    }
    assert_eq!(short(&server, INSIDE, "chain.example"), "www.private.example.");
    let whole = |from, words: &[&str]| dig(server.address, from, None, words);
    assert!(whole(OUTSIDE, &["www.private", "A"]).contains("REFUSED"));
    assert!(whole(OUTSIDE, &["sub.example", "A"]).contains("AUTHORITY: 1"));
    // DS at the apex of a zone below, of the parent in the view.
    assert!(whole(LAB, &["lab.below.example", "DS"]).contains("below.example.\t"));
    // A query that a key of a view has signed is in that view.
    let signed = |from, key| dig(server.address, from, Some(key), &["+short", "www.example", "A"]);
    assert_eq!(signed(OUTSIDE, "in.example").trim(), "192.0.2.2");
    assert_eq!(signed(LAB, "in.example").trim(), "192.0.2.2");
    assert_eq!(signed(INSIDE, "out.example").trim(), "192.0.2.2");
    assert_eq!(signed(OUTSIDE, "out.example").trim(), "192.0.2.1");
    // The same over TCP.
    assert!(whole(INSIDE, &["+tcp", "www.example", "A"]).contains("192.0.2.2"));
    let listed = server.ctl_json(&["zone", "list"]);
    let names: Vec<_> = listed.as_array().expect("zones").iter().map(|zone| zone["name"].clone()).collect();
    for name in ["example.", "example.@inside", "private.@inside", "lab.below.example.@lab"] {
        assert!(names.contains(&name.into()), "{name}: {listed}");
    }
    let status = server.ctl_json(&["zone", "status", "example@inside"]);
    assert_eq!((status["name"].as_str(), status["view"].as_str()), (Some("example.@inside"), Some("inside")));
    assert!(server.ctl_json(&["zone", "status", "example"])["view"].is_null());
    let none = server.ctl(&["zone", "status", "example@other"]);
    assert!(text(&none.stderr).contains("example.@other"), "{}", text(&none.stderr));
    let bad = server.ctl(&["zone", "status", "example@In"]);
    assert!(text(&bad.stderr).contains("the name of a view has"), "{}", text(&bad.stderr));
    let figures = http(at, "GET /metrics");
    for line in
        ["nomen_zone_serial{zone=\"example.\"} 1", "nomen_zone_serial{zone=\"example.\",view=\"inside\"} 1"]
    {
        assert!(figures.lines().any(|l| l == line), "{line} is missing:\n{figures}");
    }
    let counted = |labels: &str| {
        let line =
            figures.lines().find(|line| line.starts_with(&format!("nomen_zone_queries_total{{{labels}}}")));
        line.and_then(|line| line.rsplit_once(' ')).map(|(_, count)| count.parse::<f64>().expect("a number"))
    };
    assert!(counted("zone=\"example.\",view=\"inside\"").is_some_and(|count| count >= 5.0), "{figures}");
    // A zone outside views counts the queries of all views.
    assert!(counted("zone=\"below.example.\"").is_some_and(|count| count >= 2.0), "{figures}");
}

#[test]
fn check_reports_what_is_wrong_with_views() {
    let folder = folder(&[("z", APEX)]);
    let check = |config: &str| {
        fs::write(folder.path().join("c.toml"), config).expect("written");
        let output = run(folder.path(), &["check", "c.toml"]);
        (output.status.success(), text(&output.stderr) + &text(&output.stdout))
    };
    let good =
        format!("{}{}{VIEWS}{}", block("a", Some("inside"), "z", ""), block("a", None, "z", ""), keys());
    let (success, said) = check(&good);
    assert!(success, "{said}");
    for (from, to, words) in [
        ("\"key:in.example\"", "\"key:inn.example\"", "there is no key inn.example."),
        ("view = \"inside\"", "view = \"insid\"", "c.toml:3:8"),
    ] {
        let (success, said) = check(&good.replace(from, to));
        assert!(!success && said.contains(words), "{words}: {said}");
    }
}

/// The zone in view `inside` and the one outside, both with transfers and updates by their keys.
fn primary_zones(notify: Option<SocketAddr>) -> String {
    let zone = |view: Option<&str>, file: &str, key: &str| {
        let notify = notify
            .map_or_else(String::new, |to| format!("notify = [\"{}@{} key:{key}\"]\n", to.ip(), to.port()));
        let keys = format!("allow-transfer = [\"key:{key}\"]\nallow-update = [\"key:{key}\"]\n{notify}");
        block("example", view, file, &keys)
    };
    zone(None, "outside", "out.example") + &zone(Some("inside"), "inside", "in.example") + &keys() + VIEWS
}

fn primary(folder: TempDir, address: SocketAddr, notify: Option<SocketAddr>) -> Server {
    Server::start_at(address, folder, STATE, &primary_zones(notify))
}

#[test]
fn transfers_notify_and_updates_are_those_of_the_view() {
    let (at, second_at) = (free_address(), free_address());
    let first = primary(folder(&[("outside", &zone(1)), ("inside", &zone(2))]), at, Some(second_at));
    // The version of `www` that each key gets.
    let axfr = |key: &str| {
        let zone = dig(at, OUTSIDE, Some(key), &["example", "AXFR"]);
        let www = zone.lines().find(|line| line.starts_with("www.example."));
        www.and_then(|line| line.split_whitespace().last()).map(str::to_owned)
    };
    assert_eq!(axfr("out.example").as_deref(), Some("192.0.2.1"));
    assert_eq!(axfr("in.example").as_deref(), Some("192.0.2.2"));
    let of_zone = |view: &str, key: &str| {
        let view = if view.is_empty() { String::new() } else { format!("view = \"{view}\"\n") };
        format!(
            "[[zone]]\nname = \"example\"\n{view}primaries = [\"{}@{} key:{key}\"]\n\
             allow-transfer = [\"key:{key}\"]\n",
            at.ip(),
            at.port()
        )
    };
    let zones = of_zone("", "out.example") + &of_zone("inside", "in.example") + &keys() + VIEWS;
    let second = Server::start_at(second_at, folder(&[]), STATE, &zones);
    eventually("both versions are there", &second, || {
        short(&second, OUTSIDE, "www.example") == "192.0.2.1"
            && short(&second, INSIDE, "www.example") == "192.0.2.2"
    });
    // An update in the view changes nothing outside, and reaches the secondary by NOTIFY.
    assert!(update(at, "in.example", "add new.example 60 A 192.0.2.77"));
    assert_eq!(short(&first, INSIDE, "new.example"), "192.0.2.77");
    assert_eq!(short(&first, OUTSIDE, "new.example"), "");
    eventually("the view's version comes by NOTIFY", &second, || {
        short(&second, INSIDE, "new.example") == "192.0.2.77"
    });
    assert_eq!(short(&second, OUTSIDE, "new.example"), "");
    assert!(update(at, "out.example", "add other.example 60 A 192.0.2.78"));
    eventually("the other version comes too", &second, || {
        short(&second, OUTSIDE, "other.example") == "192.0.2.78"
    });
    assert_eq!([short(&first, INSIDE, "other.example"), short(&second, INSIDE, "other.example")], ["", ""]);
    // IXFR of each view's own changes.
    let ixfr = |key: &str| dig(at, OUTSIDE, Some(key), &["example", "IXFR=1", "+tcp"]);
    assert!(ixfr("in.example").contains("192.0.2.77") && !ixfr("in.example").contains("192.0.2.78"));
    assert!(ixfr("out.example").contains("192.0.2.78") && !ixfr("out.example").contains("www.example."));
    // Both versions are stored: after a restart neither needs its primary.
    let stored = || {
        let serial = |zone: &str| second.ctl_json(&["zone", "status", zone])["transfers"]["serial"].clone();
        serial("example") == 2 && serial("example@inside") == 2
    };
    eventually("both are confirmed", &second, stored);
    let folder = second.stop();
    drop(first.kill());
    let second = Server::start_at(second_at, folder, STATE, &zones);
    assert_eq!(short(&second, INSIDE, "new.example"), "192.0.2.77");
    assert_eq!(short(&second, OUTSIDE, "other.example"), "192.0.2.78");
    assert_eq!(short(&second, OUTSIDE, "new.example"), "");
}

#[test]
fn updates_of_both_versions_outlive_a_crash() {
    let at = free_address();
    let server = primary(folder(&[("outside", &zone(1)), ("inside", &zone(2))]), at, None);
    assert!(update(at, "in.example", "add new.example 60 A 192.0.2.77"));
    assert!(update(at, "out.example", "add new.example 60 A 192.0.2.78"));
    assert!(!update(at, "out.example", "add bad.other 60 A 192.0.2.78"));
    server.ctl_json(&["zone", "freeze", "example@inside"]);
    assert!(!update(at, "in.example", "add frozen.example 60 A 192.0.2.77"));
    assert!(update(at, "out.example", "add free.example 60 A 192.0.2.78"));
    let server = primary(server.kill(), at, None);
    let of = |from, name| short(&server, from, name);
    assert_eq!(
        (of(INSIDE, "new.example"), of(OUTSIDE, "new.example")),
        ("192.0.2.77".into(), "192.0.2.78".into())
    );
    assert_eq!(
        (of(INSIDE, "free.example"), of(OUTSIDE, "free.example")),
        (String::new(), "192.0.2.78".into())
    );
    next_second();
    assert!(!update(at, "in.example", "add frozen.example 60 A 192.0.2.77"), "it is still frozen");
    server.ctl_json(&["zone", "thaw", "example@inside"]);
    assert!(update(at, "in.example", "add frozen.example 60 A 192.0.2.77"));
    // The commands of transactions name the view as well.
    server.ctl_json(&["zone", "begin", "example@inside"]);
    server.ctl_json(&["zone", "set", "example@inside", "step 60 A 192.0.2.79"]);
    server.ctl_json(&["zone", "commit", "example@inside"]);
    assert_eq!(
        (of(INSIDE, "step.example"), of(OUTSIDE, "step.example")),
        ("192.0.2.79".into(), String::new())
    );
    server.ctl_json(&["zone", "write", "example@inside"]);
    assert!(fs::read_to_string(server.path("inside")).expect("the file").contains("192.0.2.79"));
    assert!(!fs::read_to_string(server.path("outside")).expect("the file").contains("192.0.2.79"));
    for path in ["state/changes", "state/views/inside/changes", "state/views/inside/zone-marks"] {
        assert!(server.path(path).exists(), "{path}");
    }
    // Changes do not go to another view with the zone.
    server.reconfigure("view = \"inside\"\n", "view = \"lab\"\n");
    server.reload();
    let warning = "nomen ctl zone write example.@inside";
    assert!(server.log().contains(warning), "{}", server.log());
    assert_eq!(server.log().matches("is in another view now").count(), 1, "of the zone that has moved");
}

/// Returns a catalog zone with these member records.
fn catalog(records: &str) -> String {
    format!("$TTL 0\n@ SOA . . 1 3600 600 86400 60\n@ NS invalid.\nversion TXT \"2\"\n{records}")
}

#[test]
fn members_of_a_catalog_zone_are_in_its_view() {
    let (at, second_at) = (free_address(), free_address());
    let files = [
        ("cat-in", catalog("1.zones PTR example.\n")),
        ("cat-out", catalog("1.zones PTR example.\n2.zones PTR other.\n")),
        ("inside", zone(2)),
        ("outside", zone(1)),
        ("later", zone(3)),
    ];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let keys_of = |key: &str| {
        let to = format!("notify = [\"{}@{} key:{key}\"]\n", second_at.ip(), second_at.port());
        format!("allow-transfer = [\"key:{key}\"]\nallow-update = [\"key:{key}\"]\n{to}")
    };
    let [inside, outside] = ["in.example", "out.example"].map(keys_of);
    let zones = [
        block("cat", Some("inside"), "cat-in", &inside),
        block("cat", None, "cat-out", &outside),
        block("example", Some("inside"), "inside", &inside),
        block("example", None, "outside", &outside),
        block("other", None, "outside", &outside),
        block("later", Some("inside"), "later", &inside),
    ];
    let first = Server::start_at(at, folder(&files), STATE, &(zones.concat() + &keys() + VIEWS));
    let consumer = |view: &str, key: &str| {
        format!(
            "[[zone]]\nname = \"cat\"\n{view}primaries = [\"{}@{} key:{key}\"]\ncatalog-template = \"m\"\n",
            at.ip(),
            at.port()
        )
    };
    let zones = consumer("view = \"inside\"\n", "in.example") + &consumer("", "out.example");
    let zones = zones + "[template.m]\n" + &keys() + VIEWS;
    let second = Server::start_at(second_at, folder(&[]), STATE, &zones);
    let of = |server: &Server, from: &str, name: &str| short(server, from, &format!("www.{name}"));
    eventually("all members are there", &second, || {
        of(&second, OUTSIDE, "example") == "192.0.2.1"
            && of(&second, OUTSIDE, "other") == "192.0.2.1"
            && of(&second, INSIDE, "example") == "192.0.2.2"
    });
    assert_eq!(of(&second, INSIDE, "other"), "192.0.2.1", "it is outside views alone");
    for from in [INSIDE, OUTSIDE] {
        assert!(dig(second_at, from, None, &["cat", "SOA"]).contains("REFUSED"), "it is not for clients");
    }
    let status = second.ctl_json(&["zone", "status", "cat@inside"]);
    assert_eq!(status["catalog"]["members"], 1, "{status}");
    assert_eq!(second.ctl_json(&["zone", "status", "example@inside"])["from"], "catalog cat.@inside");
    // NOTIFY for the catalog zone of the view, which answers no client.
    let line = "add 3.zones.cat 0 PTR later.";
    assert!(update_of("cat", at, "in.example", line));
    eventually("a new member is there", &second, || of(&second, INSIDE, "later") == "192.0.2.3");
    assert_eq!(of(&second, OUTSIDE, "later"), "");
    let stored = || {
        let serial = |zone: &str| second.ctl_json(&["zone", "status", zone])["transfers"]["serial"].clone();
        serial("later@inside") == 1 && serial("example@inside") == 1 && serial("cat@inside") == 2
    };
    eventually("they are stored", &second, stored);
    let folder = second.stop();
    drop(first.kill());
    let second = Server::start_at(second_at, folder, STATE, &zones);
    assert_eq!(
        (of(&second, INSIDE, "later"), of(&second, INSIDE, "example")),
        ("192.0.2.3".into(), "192.0.2.2".into())
    );
    assert_eq!(
        (of(&second, OUTSIDE, "later"), of(&second, OUTSIDE, "example")),
        ("".into(), "192.0.2.1".into())
    );
}

/// Sets a flag at the end, also if an assertion fails.
struct SetWhenDropped<'f>(&'f AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn zones_move_between_views_and_no_query_is_lost() {
    let moved = |view: Option<&str>| block("example", view, "zone", "");
    let only_outside = moved(None) + &keys() + VIEWS;
    let server = Server::start_in(folder(&[("zone", &zone(1)), ("other", &zone(1))]), "", &only_outside);
    let (stop, asked) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let _end = SetWhenDropped(&stop);
        scope.spawn(|| {
            let from: IpAddr = INSIDE.parse().expect("an address");
            let socket = UdpSocket::bind((from, 0)).expect("a socket");
            socket.connect(server.address).expect("connected");
            socket.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
            let (mut buf, mut id) = ([0; 512], 0u16);
            while !stop.load(Ordering::Relaxed) {
                id = id.wrapping_add(1);
                socket.send(&message(id, "www.example", 1)).expect("sent");
                let n = socket.recv(&mut buf).expect("every query is answered");
                assert_eq!((buf[3] & 15, buf[7]), (0, 1), "NOERROR with an address");
                assert_eq!(buf[n - 4..n], [192, 0, 2, 1]);
                asked.fetch_add(1, Ordering::Relaxed);
            }
        });
        let both = block("example", Some("inside"), "other", "") + &moved(None);
        let states = [moved(Some("inside")), moved(None), both, moved(Some("inside"))];
        let mut now = moved(None);
        for next in states.iter().cycle().take(12) {
            let before = asked.load(Ordering::Relaxed);
            server.reconfigure(&now, next);
            server.hang_up();
            now.clone_from(next);
            let has_outside = next.contains("name = \"example\"\nfile");
            let outside = short(&server, OUTSIDE, "www.example");
            assert_eq!(outside, if has_outside { "192.0.2.1" } else { "" }, "{next}");
            eventually("there are queries", &server, || asked.load(Ordering::Relaxed) > before + 2);
        }
        // The view gets another name, and its zone with it.
        for (from, to) in [("inside", "renamed"), ("renamed", "inside")] {
            server.reconfigure(&format!("\"{from}\""), &format!("\"{to}\""));
            server.hang_up();
            assert_eq!(short(&server, INSIDE, "www.example"), "192.0.2.1");
        }
    });
    // The zone is in the view now; a view that loses its clients loses its zone for them.
    server.reconfigure("\"127.1.0.0/16\"", "\"127.9.0.0/16\"");
    server.hang_up();
    assert_eq!(short(&server, INSIDE, "www.example"), "");
    assert_eq!(short(&server, "127.9.0.1", "www.example"), "192.0.2.1");
    // Without views all is as before there were any.
    server.reconfigure(VIEWS.replace("127.1", "127.9").as_str(), "");
    server.reconfigure(&moved(Some("inside")), &moved(None));
    server.hang_up();
    for from in [INSIDE, OUTSIDE, "127.9.0.1"] {
        assert_eq!(short(&server, from, "www.example"), "192.0.2.1");
    }
    assert_eq!(server.ctl_json(&["zone", "list"]).as_array().map(Vec::len), Some(1));
}

#[test]
fn zones_are_added_to_views_at_run_time() {
    let sections = block("example", None, "outside", "") + &keys() + VIEWS;
    let server = Server::start_in(folder(&[("outside", &zone(1)), ("inside", &zone(2))]), STATE, &sections);
    let added = server.ctl(&["zone", "add", "example@nowhere", "--file", "inside"]);
    assert!(text(&added.stderr).contains("no [[view]] named `nowhere`"), "{}", text(&added.stderr));
    server.ctl_json(&["zone", "add", "example@inside", "--file", "inside"]);
    assert_eq!(short(&server, INSIDE, "www.example"), "192.0.2.2");
    assert_eq!(short(&server, OUTSIDE, "www.example"), "192.0.2.1");
    let (address, folder) = (server.address, server.stop());
    let server = Server::start_at(address, folder, STATE, &sections);
    assert_eq!(short(&server, INSIDE, "www.example"), "192.0.2.2");
    server.ctl_json(&["zone", "remove", "example@inside"]);
    assert_eq!(short(&server, INSIDE, "www.example"), "192.0.2.1");
    assert_eq!(short(&server, OUTSIDE, "www.example"), "192.0.2.1");
}

#[test]
fn recursion_asks_the_zones_of_the_view_first() {
    let sections = block("example", Some("inside"), "inside", "") + &keys() + VIEWS;
    let resolver = "[resolver]\nlocal-root = false\n[[resolver.access]]\nfrom = [\"127.0.0.0/8\"]\n\
                    [[resolver.forward]]\ndomain = \".\"\nservers = [\"127.0.0.1@1\"]\n";
    let server = Server::start_in(folder(&[("inside", &zone(2))]), "", &(sections + resolver));
    assert_eq!(short(&server, INSIDE, "www.example"), "192.0.2.2");
    let outside = dig(server.address, OUTSIDE, None, &["www.example", "A"]);
    assert!(outside.contains("SERVFAIL"), "{outside}");
    assert_eq!(short(&server, INSIDE, "www.example"), "192.0.2.2");
}

#[test]
fn explanations_and_logs_show_the_view() {
    let sections = block("example", Some("inside"), "inside", "") + &block("example", None, "outside", "");
    let more = "[resolver]\nlocal-root = false\n[[resolver.access]]\nfrom = [\"127.0.0.0/8\"]\n\
                [[resolver.forward]]\ndomain = \".\"\nservers = [\"127.0.0.1@1\"]\n\
                [log]\nformat = \"json\"\nqueries = true\nqueries-file = \"queries.log\"\n\
                [dnstap]\nfile = \"tap\"\nmessages = [\"auth-response\", \"client-response\"]\n";
    let files = [("inside", zone(2)), ("outside", zone(1))];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let server = Server::start_in(folder(&files), "", &(sections + &keys() + VIEWS + more));
    let explained = |words: &[&str]| server.ctl_json(&[&["explain", "www.example"], words].concat());
    for (words, view, address, step) in [
        (&["--client", INSIDE][..], Some("inside"), "192.0.2.2", "of the client's view"),
        (&["--key", "IN.example"], Some("inside"), "192.0.2.2", "with the key in.example."),
        (&["--client", LAB], Some("lab"), "192.0.2.1", "zone example. is the closest"),
        (&["--client", LAB, "--key", "in.example"], Some("inside"), "192.0.2.2", "127.2.0.1 with the key"),
        (&[], None, "192.0.2.1", "the client 127.0.0.1 is in no view"),
    ] {
        let found = explained(words);
        assert_eq!(
            (found["steps"][0]["kind"].as_str(), found["steps"][0]["view"].as_str()),
            (Some("view"), view)
        );
        assert!(found["steps"].to_string().contains(step), "{words:?}: {found}");
        assert!(
            found["answer"].as_str().is_some_and(|answer| answer.contains(address)),
            "{words:?}: {found}"
        );
    }
    // A name that only the resolver answers, late.
    let late = server.ctl_json(&["explain", "www.test.example.org", "--client", LAB]);
    assert_eq!((&late["steps"][0]["view"], &late["steps"][1]["kind"]), (&"lab".into(), &"no-zone".into()));
    let none = server.ctl(&["explain", "www.example", "--key", "no"]);
    assert_eq!(text(&none.stderr), "nomen: there is no TSIG key no.\n");
    dig(server.address, INSIDE, None, &["inside.example", "A"]);
    dig(server.address, OUTSIDE, None, &["outside.example", "A"]);
    dig(server.address, OUTSIDE, Some("in.example"), &["signed.example", "A"]);
    dig(server.address, LAB, None, &["late.example.org", "A"]);
    let folder = server.stop();
    let log = fs::read_to_string(folder.path().join("queries.log")).expect("the log");
    let lines = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let mut logged: Vec<(String, Option<String>)> = lines
        .map(|line| {
            (line["name"].as_str().expect("a name").to_owned(), line["view"].as_str().map(str::to_owned))
        })
        .collect();
    logged.sort();
    // Those that explanations ask are logged, too.
    logged.retain(|(name, _)| !name.starts_with("www."));
    let expected = [
        ("inside.example.", Some("inside")),
        ("late.example.org.", Some("lab")),
        ("outside.example.", None),
        ("signed.example.", Some("inside")),
    ];
    let of = |(name, view): (&str, Option<&str>)| (name.to_owned(), view.map(str::to_owned));
    assert_eq!(logged, expected.map(of));
    let mut tapped = crate::dnstap::extras(&folder.path().join("tap"));
    tapped.sort();
    tapped.retain(|(name, _)| !name.starts_with("www."));
    let expected = expected.map(|(name, view)| (name.to_owned(), view.map(|view| format!("view={view}"))));
    assert_eq!(tapped, expected);
}
