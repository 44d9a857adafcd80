//! Access lists and views that `nomen migrate` converts: BIND and NSD start with a configuration, and nomen
//! with the converted one. Clients of several addresses and keys get the same answers from both.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::primary::{OtherServer, other};
use crate::support::{Server, TEST_TIMEOUT, run, text};

/// TSIG keys of clients, each with its secret.
const KEYS: [(&str, &str); 2] =
    [("inside", "aW5zaWRlaW5zaWRlaW5zaWRlaW5zaWRl"), ("outside", "b3V0c2lkZW91dHNpZGVvdXRzaWRlb3V0")];
const ADDRESSES: [&str; 6] = ["127.0.0.1", "127.1.0.1", "127.1.2.1", "127.2.0.1", "127.2.0.9", "127.3.0.1"];
const NAMES: [&str; 4] = ["a.example", "b.example", "c.example", "x.other.example"];

/// Asks for the addresses of all names. Returns the status and the addresses of each reply.
fn ask(server: SocketAddr, from: &str, key: Option<(&str, &str)>, seconds: u64) -> Vec<String> {
    let mut command = Command::new("dig");
    command.env("HOME", "/nonexistent").arg(format!("@{}", server.ip()));
    command.args(["-p", &server.port().to_string(), "-b", from]);
    if let Some((name, secret)) = key {
        command.args(["-y", &format!("hmac-sha256:{name}:{secret}")]);
    }
    let time = format!("+time={seconds}");
    for name in NAMES {
        command.args([name, "A", "+tries=1", &time, "+nocookie", "+norecurse"]);
    }
    let output = text(&command.output().expect("dig runs").stdout);
    let replies = output.split("->>HEADER<<-").skip(1);
    let of_reply = |reply: &str| {
        let status =
            reply.split("status: ").nth(1).and_then(|rest| rest.split(',').next()).unwrap_or_default();
        let answers = reply.split(";; ANSWER SECTION:").nth(1).and_then(|rest| rest.split("\n\n").next());
        let mut addresses: Vec<&str> = answers
            .into_iter()
            .flat_map(str::lines)
            .filter_map(|line| line.split_whitespace().last())
            .collect();
        addresses.sort_unstable();
        format!("{status} {}", addresses.join(" ")).trim_end().to_owned()
    };
    replies.map(of_reply).collect()
}

/// Writes a zone with this address at its apex into a folder.
fn zone(folder: &Path, file: &str, address: &str) {
    let zone = format!("@ 60 SOA ns host 1 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.1\n@ 60 A {address}\n");
    fs::write(folder.join(file), zone).expect("written");
}

/// Starts nomen with the configuration of another server, converted. Its own addresses and user are the
/// test's.
fn moved(folder: &Path) -> (Server, String) {
    let moved = run(folder, &["migrate", "config"]);
    let printed = text(&moved.stdout);
    fs::write(folder.join("nomen.toml"), &moved.stdout).expect("written");
    let checked = run(folder, &["check", "nomen.toml"]);
    assert!(checked.status.success(), "{printed}{}", text(&checked.stderr));
    let wanted = |block: &&str| !["#", "[server]", "[[listen]]"].iter().any(|start| block.starts_with(start));
    let blocks: Vec<&str> = printed.trim().split("\n\n").filter(wanted).collect();
    let server = Server::start_in(tempfile::tempdir().expect("a folder"), "", &(blocks.join("\n\n") + "\n"));
    (server, text(&moved.stderr))
}

/// Compares the replies of both servers. Returns those of the first one.
fn same_replies(peer: &OtherServer, nomen: &Server) -> Vec<String> {
    let until = Instant::now() + TEST_TIMEOUT;
    while ask(peer.address, "127.0.0.1", None, 1).len() < NAMES.len() {
        let log = fs::read_to_string(peer.folder.path().join("log")).unwrap_or_default();
        assert!(Instant::now() < until, "it does not start: {log}");
    }
    let mut all = Vec::new();
    let mut faults = String::new();
    for from in ADDRESSES {
        for key in [None, Some(KEYS[0]), Some(KEYS[1])] {
            let [theirs, ours] = [peer.address, nomen.address].map(|server| ask(server, from, key, 60));
            if theirs != ours {
                let _ = writeln!(faults, "{from} {key:?}: {theirs:?}, nomen {ours:?}");
            }
            all.extend(theirs);
        }
    }
    assert!(faults.is_empty(), "{faults}");
    all
}

/// Runs the program that checks a configuration of the other server, if it is installed.
fn checked(program: &str, folder: &Path) {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    match Command::new(program).arg("config").current_dir(folder).env("PATH", path).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        }
        Err(_) => testkit::left_out(&format!("{program} is missing")),
    }
}

fn keys_of_bind() -> String {
    let key = |(name, secret)| format!("key {name} {{ algorithm hmac-sha256; secret \"{secret}\"; }};\n");
    KEYS.map(key).concat()
}

/// The options of a BIND that keeps its files in a folder.
fn options(own: SocketAddr, folder: &Path, more: &str) -> String {
    format!(
        "options {{ directory \"{}\"; pid-file none; session-keyfile none; lock-file none; listen-on port {} {{ {}; }}; \
         listen-on-v6 {{ none; }}; notify no; allow-transfer {{ none; }}; {more} }};\ncontrols {{ }};\n",
        folder.display(),
        own.port(),
        own.ip()
    )
}

#[test]
fn zones_of_bind_answer_the_same_clients() {
    let config = |own: SocketAddr, folder: &Path| {
        for (file, address) in [("a", "192.0.2.11"), ("b", "192.0.2.12"), ("c", "192.0.2.13")] {
            zone(folder, file, address);
        }
        keys_of_bind()
            + "acl skips { !127.1.2.0/24; 127.1.0.0/16; };\nacl both { !{ !127.2.0.0/16; any; }; key inside; };\n"
            + &options(
                own,
                folder,
                "recursion no; allow-query { skips; !key outside; 127.1.2.1; 127.3.0.1; };",
            )
            + "zone a.example { type primary; file \"a\"; };\n\
               zone b.example { type primary; file \"b\"; allow-query { both; !127.2.0.9; localhost; 127.2/16; }; };\n\
               zone c.example { type primary; file \"c\"; allow-query { any; }; allow-query-on { !127.0.0.77; any; }; };\n"
    };
    let Some(bind) = other("BIND", "named", &["-g", "-c"], config) else { return };
    checked("named-checkconf", bind.folder.path());
    let (nomen, report) = moved(bind.folder.path());
    assert!(!report.contains("narrower: ") && !report.contains("missing: `allow"), "{report}");
    let all = same_replies(&bind, &nomen);
    for reply in ["NOERROR 192.0.2.11", "NOERROR 192.0.2.12", "NOERROR 192.0.2.13", "REFUSED"] {
        assert!(all.iter().any(|found| found == reply), "{all:?}");
    }
}

#[test]
fn views_of_bind_have_the_same_clients() {
    let config = |own: SocketAddr, folder: &Path| {
        for (file, address) in
            [("in", "192.0.2.21"), ("out", "192.0.2.22"), ("b", "192.0.2.23"), ("c", "192.0.2.24")]
        {
            zone(folder, file, address);
        }
        let zone = |name: &str, file: &str, more: &str| {
            format!("zone {name} {{ type primary; file \"{file}\"; {more} }};\n")
        };
        keys_of_bind()
            + "acl nets { 127.1.0.0/16; 127.2.0.1; };\n"
            + &options(own, folder, "recursion no;")
            + &format!(
                "view \"In House\" {{ match-clients {{ !key outside; key inside; !127.1.2.1; nets; }};\n{}{} }};\n",
                zone("a.example", "in", ""),
                zone("b.example", "b", "allow-query { !127.2.0.1; any; };")
            )
            + &format!(
                "view outside {{ match-clients {{ key outside; 127.2.0.0/16; 127.3.0.0/16; 127.1.2.1; }};\n{}{}\
                 zone b.example {{ in-view \"In House\"; }}; }};\n",
                zone("a.example", "out", ""),
                zone("c.example", "c", "allow-query { 127.3/16; };")
            )
    };
    let Some(bind) = other("BIND", "named", &["-g", "-c"], config) else { return };
    checked("named-checkconf", bind.folder.path());
    let (nomen, report) = moved(bind.folder.path());
    assert!(!report.contains("narrower: "), "{report}");
    let all = same_replies(&bind, &nomen);
    for reply in ["NOERROR 192.0.2.21", "NOERROR 192.0.2.22", "NOERROR 192.0.2.23", "NOERROR 192.0.2.24"] {
        assert!(all.iter().any(|found| found == reply), "{all:?}");
    }
}

#[test]
fn zones_of_nsd_answer_the_same_clients() {
    let config = |own: SocketAddr, folder: &Path| {
        for (file, address) in [("a", "192.0.2.31"), ("b", "192.0.2.32"), ("c", "192.0.2.33")] {
            zone(folder, file, address);
        }
        let folder = folder.display();
        let keys: String = KEYS
            .iter()
            .map(|(name, secret)| {
                format!("key:\n name: {name}\n algorithm: hmac-sha256\n secret: \"{secret}\"\n")
            })
            .collect();
        format!(
            "server:\n ip-address: {}@{}\n username: \"\"\n chroot: \"\"\n zonesdir: \"{folder}\"\n database: \"\"\n \
             pidfile: \"\"\n xfrdfile: \"\"\n xfrdir: \"{folder}\"\n zonelistfile: \"{folder}/zone.list\"\n\
             remote-control:\n control-enable: no\n{keys}\
             pattern:\n name: p\n allow-query: 127.1.0.0&255.255.0.0 NOKEY\n allow-query: 127.1.2.0/24 BLOCKED\n\
             zone:\n name: a.example\n zonefile: a\n include-pattern: p\n\
             zone:\n name: b.example\n zonefile: b\n include-pattern: p\n allow-query: 127.0.0.0/8 inside\n \
             allow-query: 127.2.0.2-127.2.0.200 NOKEY\nzone:\n name: c.example\n zonefile: c\n",
            own.ip(),
            own.port(),
        )
    };
    let Some(nsd) = other("NSD", "nsd", &["-d", "-c"], config) else { return };
    checked("nsd-checkconf", nsd.folder.path());
    let (nomen, report) = moved(nsd.folder.path());
    assert!(!report.contains("narrower: "), "{report}");
    // NSD answers no signed query with a list for unsigned ones, so unsigned queries alone are the same.
    let until = Instant::now() + TEST_TIMEOUT;
    while ask(nsd.address, "127.0.0.1", None, 1).len() < NAMES.len() {
        assert!(Instant::now() < until, "it does not start");
    }
    let mut all = Vec::new();
    for from in ADDRESSES {
        let [theirs, ours] = [nsd.address, nomen.address].map(|server| ask(server, from, None, 60));
        assert_eq!(theirs, ours, "{from}");
        all.extend(theirs);
    }
    let signed = ask(nomen.address, "127.3.0.1", Some(KEYS[0]), 60);
    assert_eq!(signed, ask(nsd.address, "127.3.0.1", Some(KEYS[0]), 60));
    assert_eq!(signed[1], "NOERROR 192.0.2.32");
    for reply in ["NOERROR 192.0.2.31", "NOERROR 192.0.2.32", "NOERROR 192.0.2.33", "REFUSED"] {
        assert!(all.iter().any(|found| found == reply), "{all:?}");
    }
}

/// Lists of clients of all kinds, with the program that checks each configuration.
const SAMPLES: [(&str, &str, &str); 7] = [
    (
        "bind",
        "named-checkconf",
        "key k { algorithm hmac-sha256; secret \"c2VjcmV0\"; };\n\
         acl a { !{ !10/8; any; }; key k; { !10.1.1.1; 10.1/16; }; };\n\
         options { directory \"/\"; blackhole { !192.0.2.1; 192.0.2.0/24; localnets; { !11.0.0.1; 11/8; }; }; \
         allow-query { a; 2001:db8::/32; }; allow-query-on { 127.0.0.1; ::1; }; allow-transfer { none; }; };\n\
         zone a.example { type primary; file \"a\"; };\n\
         zone b.example { type primary; file \"b\"; allow-query { !key k; localhost; localnets; }; };\n\
         zone c.example { type secondary; primaries { 192.0.2.9; }; allow-query { none; }; };\n\
         zone cat.example { type secondary; primaries { 192.0.2.9; }; };\n",
    ),
    (
        "bind",
        "named-checkconf",
        "key k { algorithm hmac-sha256; secret \"c2VjcmV0\"; };\n\
         key l { algorithm hmac-sha256; secret \"c2VjcmV0\"; };\n\
         options { directory \"/\"; };\n\
         view a { match-clients { !key l; key k; localhost; 10/8; { !{ !11/8; any; }; key l; }; }; recursion yes; \
         response-policy { zone rpz.example; }; zone rpz.example { type primary; file \"r\"; }; \
         zone a.example { type primary; file \"a\"; allow-transfer { key k; }; }; \
         zone b.example { type primary; file \"b\"; allow-transfer { key k; }; }; };\n\
         view b { match-clients { localnets; !12.0.0.1; 12/8; }; match-destinations { 127.0.0.1; }; \
         zone b.example { type primary; file \"b2\"; }; };\n\
         view Rest { match-clients { any; }; recursion no; zone a.example { in-view a; }; \
         zone c.example { type secondary; primaries { 192.0.2.9 key l; }; }; };\n\
         view never { match-clients { 10.1/16; }; zone a.example { type primary; file \"x\"; }; };\n",
    ),
    (
        "nsd",
        "nsd-checkconf",
        "server:\n ip-address: 127.0.0.1\nkey:\n name: k\n algorithm: hmac-sha256\n secret: \"c2VjcmV0\"\n\
         pattern:\n name: p\n request-xfr: 192.0.2.9 NOKEY\n allow-query: 0.0.0.0/0 k\n allow-query: ::/0 k\n \
         allow-query: 10.0.0.1-10.0.0.9 BLOCKED\n allow-query: 10.0.0.0&255.0.0.0 NOKEY\n\
         zone:\n name: a.example\n zonefile: a\n allow-query: 10.0.0.0/8 BLOCKED\n\
         zone:\n name: b.example\n include-pattern: p\n",
    ),
    (
        "nsd",
        "",
        "server:\n ip-address: 127.0.0.1\npattern:\n name: p\n request-xfr: 192.0.2.9 NOKEY\n \
         allow-query: 10.0.0.0/8 NOKEY\n\
         zone:\n name: made.example\n catalog: producer\n allow-query: 10.0.0.0/8 NOKEY\n\
         zone:\n name: taken.example\n request-xfr: 192.0.2.9 NOKEY\n catalog: consumer\n \
         catalog-member-pattern: p\n allow-query: 127.0.0.1 NOKEY\n",
    ),
    (
        "knot",
        "",
        "key:\n  - id: k\n    algorithm: hmac-sha256\n    secret: c2VjcmV0\n\
         mod-queryacl:\n  - id: q\n    address: [10.0.0.0/8, 192.0.2.1-192.0.2.9]\n    interface: 127.0.0.1\n\
         acl:\n  - id: no\n    address: 10.9.0.0/16\n    action: [query, transfer]\n    deny: on\n  \
         - id: yes\n    key: k\n    action: query\n  - id: rest\n    action: query\n    deny: on\n\
         zone:\n  - domain: a.example\n    module: mod-queryacl/q\n    acl: no\n  \
         - domain: b.example\n    acl: [no, yes, rest]\n",
    ),
    (
        "unbound",
        "unbound-checkconf",
        "server:\n directory: \"\"\n chroot: \"\"\n username: \"\"\n access-control: 10.0.0.0/8 allow\n \
         access-control: 10.9.0.0/16 deny\n access-control: 10.9.1.0/24 refuse_non_local\n \
         access-control: 0.0.0.0/0 refuse\n \
         access-control: 12.0.0.0/8 allow_setrd\n access-control: 13.0.0.0/8 deny_non_local\n\
         auth-zone:\n name: z\n primary: 192.0.2.1\n for-downstream: yes\n",
    ),
    (
        "unbound",
        "",
        "server:\n interface: lo\n interface-action: lo allow\n interface-action: 127.0.0.1 deny\n \
         access-control: 10.0.0.0/8 refuse\n access-control: 11.0.0.0/8 allow_cookie\nauth-zone:\n name: z\n primary: 192.0.2.1\n",
    ),
];

#[test]
fn converted_lists_of_clients_are_a_good_configuration() {
    for (program, check, contents) in SAMPLES {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("config"), contents).expect("written");
        if !check.is_empty() {
            checked(check, folder.path());
        }
        let moved = run(folder.path(), &["migrate", "--from", program, "config"]);
        fs::write(folder.path().join("nomen.toml"), &moved.stdout).expect("written");
        let good = run(folder.path(), &["check", "--no-zones", "nomen.toml"]);
        let shown =
            format!("{program}\n{}{}{}", text(&moved.stdout), text(&moved.stderr), text(&good.stderr));
        assert!(good.status.success(), "{shown}");
        assert!(text(&moved.stdout).contains("[[zone]]"), "{shown}");
    }
}
