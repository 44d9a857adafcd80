//! Secondary zones: from BIND, Knot, NSD and nomen, with and without NOTIFY, and when primaries fail.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::metrics::http;
use crate::primary::{KEY_FILE, OtherServer, VARIED, other, records, secret, transfer};
use crate::support::{APEX, Server, TEST_TIMEOUT, eventually, free_address, message, run, text, written};

const KEYS: &str = "[transfers]\nkey-files = [\"transfer.key\"]\n";

/// Returns an address as a peer is written, with the key or without it.
pub(crate) fn peer(address: SocketAddr, key: bool) -> String {
    let key = if key { " key:transfer.example" } else { "" };
    format!("\"{}{key}\"", written(address).trim_matches('"'))
}

/// Starts a server with these sections and the key, at an address.
pub(crate) fn server(address: SocketAddr, keys: &str, sections: &str) -> Server {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("zones")).expect("made");
    fs::write(folder.path().join("transfer.key"), KEY_FILE).expect("written");
    start_in(folder, address, keys, sections)
}

fn start_in(folder: tempfile::TempDir, address: SocketAddr, keys: &str, sections: &str) -> Server {
    Server::start_at(address, folder, keys, sections)
}

/// Starts a secondary of `example.` from these primaries, with more keys of the zone.
pub(crate) fn secondary(primaries: &str, keys: &str) -> Server {
    secondary_at(free_address(), primaries, keys)
}

/// Like [`secondary`], at an address.
pub(crate) fn secondary_at(address: SocketAddr, primaries: &str, keys: &str) -> Server {
    let zone = format!("[[zone]]\nname = \"example\"\nprimaries = [{primaries}]\n{keys}");
    server(address, "", &format!("{zone}{KEYS}"))
}

/// Starts a nomen that serves `example.` with this text at an address, and sends NOTIFY to these peers.
pub(crate) fn primary(address: SocketAddr, zone: &str, notify: &str) -> Server {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("transfer.key"), KEY_FILE).expect("written");
    fs::write(folder.path().join("example.zone"), zone).expect("written");
    let notify = if notify.is_empty() { String::new() } else { format!("notify = [{notify}]\n") };
    start_in(folder, address, "", &format!("allow-transfer = [\"key:transfer.example\"]\n{notify}{KEYS}"))
}

/// Returns the transfer status of a zone.
fn known(server: &Server, zone: &str) -> serde_json::Value {
    server.ctl_json(&["zone", "status", zone])["transfers"].clone()
}

fn is_answered(server: &Server, name: &str, with: &str) -> bool {
    server.query(&[name, "A"]).contains(with)
}

/// Sends an update of a zone, signed with the key.
fn update(server: SocketAddr, folder: &Path, zone: &str, line: &str) {
    let file = folder.join("nsupdate.key");
    fs::write(&file, KEY_FILE).expect("written");
    let mut child = Command::new("nsupdate")
        .args(["-k", file.to_str().expect("text")])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("nsupdate runs");
    let commands = format!("server {} {}\nzone {zone}\nupdate {line}\nsend\n", server.ip(), server.port());
    child.stdin.take().expect("its input").write_all(commands.as_bytes()).expect("written");
    assert!(child.wait().expect("it ends").success());
}

fn bind(nomen: SocketAddr) -> impl Fn(SocketAddr, &Path) -> String {
    move |own, folder| {
        fs::write(folder.join("bind.zone"), format!("{APEX}{VARIED}")).expect("written");
        let (folder, ip, port) = (folder.display(), own.ip(), own.port());
        format!(
            "{KEY_FILE}options {{ directory \"{folder}\"; pid-file none; session-keyfile none; \
             lock-file none;\n\
             listen-on port {port} {{ {ip}; }}; listen-on-v6 {{ none; }}; recursion no; notify explicit;\n\
             notify-delay 0; }};\ncontrols {{ }};\n\
             zone \"bind\" {{ type primary; file \"bind.zone\"; allow-transfer {{ any; }};\n\
             allow-update {{ key transfer.example; }}; also-notify {{ {} port {}; }}; }};\n",
            nomen.ip(),
            nomen.port()
        )
    }
}

fn knot(nomen: SocketAddr) -> impl Fn(SocketAddr, &Path) -> String {
    move |own, folder| {
        fs::write(folder.join("knot.zone"), format!("{APEX}{VARIED}")).expect("written");
        let (folder, ip, port) = (folder.display(), own.ip(), own.port());
        format!(
            "server:\n  rundir: \"{folder}\"\n  listen: {ip}@{port}\ndatabase:\n  storage: \"{folder}\"\n\
             key:\n  - id: transfer.example\n    algorithm: hmac-sha256\n    secret: {}\n\
             remote:\n  - id: nomen\n    address: {}@{}\n\
             acl:\n  - id: all\n    address: 127.0.0.0/8\n    action: transfer\n\
             \x20 - id: change\n    key: transfer.example\n    action: update\n\
             zone:\n  - domain: knot\n    storage: \"{folder}\"\n    notify: nomen\n    acl: [all, change]\n",
            secret(),
            nomen.ip(),
            nomen.port()
        )
    }
}

fn nsd(own: SocketAddr, folder: &Path) -> String {
    fs::write(folder.join("nsd.zone"), format!("{APEX}{VARIED}")).expect("written");
    let (folder, ip, port) = (folder.display(), own.ip(), own.port());
    format!(
        "server:\n ip-address: {ip}@{port}\n username: \"\"\n chroot: \"\"\n zonesdir: \"{folder}\"\n \
         database: \"\"\n\
         pidfile: \"\"\n xfrdfile: \"\"\n xfrdir: \"{folder}\"\n zonelistfile: \"{folder}/zone.list\"\n\
         remote-control:\n control-enable: no\nzone:\n name: nsd\n zonefile: nsd.zone\n\
         provide-xfr: 127.0.0.0/8 NOKEY\n"
    )
}

/// Whether a zone is the same at its primary and at nomen.
fn is_same(nomen: &Server, primary: &OtherServer, zone: &str) -> bool {
    let (here, there) = (transfer(nomen.address, zone, None), primary.zone(zone));
    here.ok().zip(there).is_some_and(|(here, there)| records(&here) == records(&there))
}

#[test]
fn zones_of_bind_knot_and_nsd_are_taken_whole_and_then_by_what_changed() {
    let address = free_address();
    let peers = [
        ("bind", other("BIND", "named", &["-g", "-c"], bind(address))),
        ("knot", other("Knot", "knotd", &["-c"], knot(address))),
        ("nsd", other("NSD", "nsd", &["-d", "-c"], nsd)),
    ];
    let peers: Vec<(&str, OtherServer)> =
        peers.into_iter().filter_map(|(zone, peer)| peer.map(|peer| (zone, peer))).collect();
    let zone = |(zone, other): &(&str, OtherServer)| {
        format!(
            "[[zone]]\nname = \"{zone}\"\nprimaries = [{}]\nallow-notify = [\"127.0.0.0/8\"]\n\
             allow-transfer = [\"any\"]\nmin-retry = \"1s\"\nmax-retry = \"1s\"\n",
            peer(other.address, false)
        )
    };
    let nomen = server(address, "", &(peers.iter().map(zone).collect::<String>() + KEYS));
    for (zone, other) in &peers {
        eventually("it is taken", &nomen, || known(&nomen, zone)["state"] == "fresh");
        eventually("it is the same here and there", &nomen, || is_same(&nomen, other, zone));
        match *zone {
            "nsd" => {
                let changed = APEX.replace("admin 1 ", "admin 2 ");
                fs::write(other.folder.path().join("nsd.zone"), format!("{changed}new A 192.0.2.9\n"))
                    .expect("written");
                let pid = Pid::from_raw(i32::try_from(other.child.id()).expect("a process number"));
                kill(pid, Signal::SIGHUP).expect("it is there");
                eventually("NSD has read it", &nomen, || {
                    other.zone(zone).is_some_and(|zone| zone.serial().0 == 2)
                });
                nomen.ctl_json(&["zone", "refresh", zone]);
            }
            _ => update(
                other.address,
                nomen.folder.path(),
                zone,
                "add new 60 A 192.0.2.9".replace("new", &format!("new.{zone}")).as_str(),
            ),
        }
        eventually("the change has come", &nomen, || {
            is_answered(&nomen, &format!("new.{zone}"), "192.0.2.9")
        });
        eventually("it is the same here and there", &nomen, || is_same(&nomen, other, zone));
        let last = &known(&nomen, zone)["last_transfer"];
        assert_eq!(last["kind"], if *zone == "nsd" { "AXFR" } else { "IXFR" }, "{last}");
    }
}

#[test]
fn a_whole_zone_that_came_for_ixfr_was_logged_as_ixfr() {
    let there = free_address();
    // For so small a file no difference is stored: the primary sends the whole zone.
    let primary = primary(there, APEX, "");
    let secondary = secondary(&peer(there, true), "");
    eventually("it is taken", &secondary, || is_answered(&secondary, "ns1.example", "192.0.2.1"));
    secondary.wait_for_log("asked=\"AXFR\" kind=\"AXFR\"", 1);
    primary.write("example.zone", &format!("{}new A 192.0.2.9\n", APEX.replace("admin 1 ", "admin 2 ")));
    primary.reload();
    secondary.ctl_json(&["zone", "refresh", "example"]);
    eventually("the next one, too", &secondary, || is_answered(&secondary, "new.example", "192.0.2.9"));
    secondary.wait_for_log("asked=\"IXFR\" kind=\"AXFR\"", 1);
    let log = secondary.log();
    let line = log.lines().find(|line| line.contains("asked=\"IXFR\"")).expect("the line");
    assert!(line.contains("transfer received zone=\"example.\"") && line.contains(" from=\"1\""), "{line}");
}

#[test]
fn a_poll_that_finds_nothing_newer_was_counted_as_a_transfer() {
    let (there, figures) = (free_address(), [free_address(), free_address()]);
    let metrics = |at: usize| format!("[metrics]\nlisten = {}\n", written(figures[at]));
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), APEX).expect("written");
    let first = start_in(folder, there, "", &format!("allow-transfer = [\"any\"]\n{}", metrics(0)));
    let zone = format!("[[zone]]\nname = \"example\"\nprimaries = [{}]\n", peer(there, false));
    let second = server(free_address(), "", &format!("{zone}{}", metrics(1)));
    eventually("it is taken", &second, || is_answered(&second, "ns1.example", "192.0.2.1"));
    let has = |at: usize, line: &str| http(figures[at], "GET /metrics").lines().any(|found| found == line);
    assert!(has(1, "nomen_secondary_polls_unchanged_total 0"));
    second.ctl_json(&["zone", "refresh", "example"]);
    eventually("the poll is counted", &second, || has(1, "nomen_secondary_polls_unchanged_total 1"));
    for line in [
        "nomen_transfers_received_total{result=\"axfr\"} 1",
        "nomen_transfers_received_total{result=\"ixfr\"} 0",
    ] {
        assert!(has(1, line), "{line}");
    }
    assert!(!http(figures[1], "GET /metrics").contains("result=\"same\""));
    // The primary counts IXFR without newer data separately.
    assert!(
        has(0, "nomen_transfers_unchanged_total 0") && has(0, "nomen_transfers_sent_total{type=\"axfr\"} 1")
    );
    assert!(first.query(&["example", "IXFR=1", "+tcp", "+short"]).starts_with("ns1.example. "));
    eventually("it is counted", &first, || has(0, "nomen_transfers_unchanged_total 1"));
    assert!(has(0, "nomen_transfers_sent_total{type=\"ixfr\"} 0"));
}

#[test]
fn a_notify_to_a_refused_port_was_not_answered_without_a_reason() {
    let closed = free_address();
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), APEX).expect("written");
    let more = format!("notify = [{}]\n[log]\nlevel = \"debug\"\n", peer(closed, false));
    let primary = start_in(folder, free_address(), "", &more);
    primary.wait_for_log("reason=\"connection refused\"", 1);
    let log = primary.log();
    let line = log.lines().find(|line| line.contains("NOTIFY not answered zone=example.")).expect("the line");
    assert!(line.contains(&format!("peer={}@{} ", closed.ip(), closed.port())), "{line}");
}

#[test]
fn a_secondary_that_has_a_new_zone_not_yet_was_a_warning() {
    // It has no zones.
    let secondary = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = secondary.local_addr().expect("an address");
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((len, from)) = secondary.recv_from(&mut buffer) {
            // NOTAUTH.
            (buffer[2], buffer[3]) = (buffer[2] | 0x80, 9);
            let _ = secondary.send_to(&buffer[..len], from);
        }
    });
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("zones")).expect("made");
    fs::write(folder.path().join("zones/new.test"), APEX).expect("written");
    let more = format!("[template.new]\nfile = \"zones/{{zone}}\"\nnotify = [{}]\n", peer(address, false));
    let primary = start_in(folder, free_address(), "state-dir = \"state\"\n", &more);
    primary.ctl_json(&["zone", "add", "new.test", "--template", "new"]);
    let early = format!(
        "zone new.test.: NOTIFY not taken by {}@{}, rcode=NOTAUTH: the secondary does not have the zone yet",
        address.ip(),
        address.port()
    );
    primary.wait_for_log(&early, 1);
    let warning = format!(
        "zone new.test.: {}@{} answers NOTIFY with NOTAUTH: check that it is a secondary",
        address.ip(),
        address.port()
    );
    let log = primary.log();
    assert!(log.lines().any(|line| line.contains(" INFO ") && line.contains(&early)), "{log}");
    assert!(!log.contains(&warning), "{log}");
    // It should have the zone by now.
    primary.ctl_json(&["zone", "notify", "new.test"]);
    primary.wait_for_log(&warning, 1);
    let log = primary.log();
    assert!(log.lines().any(|line| line.contains(" WARN ") && line.contains(&warning)), "{log}");
}

#[test]
fn a_change_is_announced_signed_and_taken() {
    let (here, there) = (free_address(), free_address());
    let primary = primary(there, APEX, &peer(here, true));
    let zone = format!("[[zone]]\nname = \"example\"\nprimaries = [{}]\n", peer(there, true));
    let secondary = server(here, "", &format!("{zone}{KEYS}"));
    eventually("it is taken", &secondary, || is_answered(&secondary, "ns1.example", "192.0.2.1"));
    for serial in 2..5 {
        let zone = APEX.replace("admin 1 ", &format!("admin {serial} "));
        primary.write("example.zone", &format!("{zone}new A 192.0.2.{serial}\n"));
        primary.reload();
        let address = format!("192.0.2.{serial}");
        eventually("it is announced and taken", &secondary, || {
            is_answered(&secondary, "new.example", &address)
        });
    }
    // On command, without a change: the serial is checked, and nothing is newer.
    let before = known(&secondary, "example")["last_transfer"].clone();
    primary.ctl_json(&["zone", "notify", "example"]);
    secondary.ctl_json(&["zone", "refresh", "example"]);
    assert_eq!(known(&secondary, "example")["last_transfer"], before);
    secondary.ctl_json(&["zone", "retransfer", "example"]);
    eventually("it is taken again", &secondary, || known(&secondary, "example")["last_transfer"] != before);
}

/// Returns the response code of a NOTIFY from a port of 127.0.0.1, for a zone of these labels.
fn notified(server: SocketAddr, zone: &str) -> u8 {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    let mut notify = message(9, zone, 6);
    notify[2] = 0x24;
    socket.send_to(&notify, server).expect("sent");
    let mut reply = [0; 512];
    let (len, _) = socket.recv_from(&mut reply).expect("a reply");
    assert!(len >= 12 && reply[..2] == [0, 9] && reply[2] & 0xf8 == 0xa0, "{:?}", &reply[..len]);
    reply[3] & 15
}

#[test]
fn a_notify_counts_only_from_whom_the_zone_takes_it() {
    let there = free_address();
    let primary = primary(there, APEX, "");
    let zone = format!("[[zone]]\nname = \"example\"\nprimaries = [{}]\n", peer(there, true));
    let file = "[[zone]]\nname = \"file\"\nfile = \"file.zone\"\n";
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("transfer.key"), KEY_FILE).expect("written");
    fs::write(folder.path().join("file.zone"), APEX).expect("written");
    let secondary = start_in(folder, free_address(), "", &format!("{zone}{file}{KEYS}"));
    eventually("it is taken", &secondary, || is_answered(&secondary, "ns1.example", "192.0.2.1"));
    assert_eq!(notified(secondary.address, "example"), 5, "a stranger is refused");
    assert_eq!(notified(secondary.address, "file"), 5, "a zone without primaries takes none");
    assert_eq!(notified(secondary.address, "elsewhere"), 9, "no zone here");
    primary.write("example.zone", &format!("{}new A 192.0.2.9\n", APEX.replace("admin 1 ", "admin 2 ")));
    primary.reload();
    secondary.reconfigure("name = \"example\"\n", "name = \"example\"\nallow-notify = [\"127.0.0.1\"]\n");
    secondary.reload();
    assert_eq!(notified(secondary.address, "example"), 0);
    eventually("it is taken", &secondary, || is_answered(&secondary, "new.example", "192.0.2.9"));
}

#[test]
fn the_next_primary_is_asked_where_the_first_is_dead() {
    let there = free_address();
    let _primary = primary(there, APEX, "");
    // No server listens there.
    let dead = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
    let secondary = secondary(&format!("{}, {}", peer(dead, false), peer(there, true)), "");
    eventually("it is taken", &secondary, || is_answered(&secondary, "ns1.example", "192.0.2.1"));
    let known = known(&secondary, "example");
    assert_eq!((&known["state"], &known["fault"]), (&"fresh".into(), &serde_json::Value::Null), "{known}");
    secondary.wait_for_log("connection refused", 1);
    secondary.wait_for_log("not stored on disk", 1);
}

#[test]
fn a_wrong_key_is_reported_once_and_the_zone_is_not_served() {
    let there = free_address();
    let primary = primary(there, APEX, "");
    let secondary = secondary(&peer(there, true), "min-retry = \"1s\"\nmax-retry = \"1s\"\n");
    eventually("it is taken", &secondary, || is_answered(&secondary, "ns1.example", "192.0.2.1"));
    // The version in service stays while nothing newer can be transferred.
    primary.write("transfer.key", &KEY_FILE.replace("3q2+7w", "AAAAAA"));
    primary.reload();
    secondary.ctl_json(&["zone", "refresh", "example"]);
    eventually("it fails", &secondary, || {
        known(&secondary, "example")["fault"]["fault"].as_str().is_some_and(|fault| fault.contains("BADSIG"))
    });
    assert!(is_answered(&secondary, "ns1.example", "192.0.2.1"));
    let first = known(&secondary, "example")["fault"]["at"].clone();
    eventually("it is tried again", &secondary, || known(&secondary, "example")["fault"]["at"] != first);
    assert_eq!(secondary.log().matches("BADSIG").count(), 1, "{}", secondary.log());
}

#[test]
fn a_zone_that_never_came_or_expired_is_answered_with_servfail_and_comes_back() {
    let there = free_address();
    let short = APEX.replace("3600 600 86400", "1 1 2");
    let keys = "min-refresh = \"1s\"\nmin-retry = \"1s\"\nmax-retry = \"1s\"\n";
    let secondary = secondary(&peer(there, true), keys);
    let answer = || secondary.query(&["ns1.example", "A"]);
    assert!(answer().contains("SERVFAIL"), "{}", answer());
    assert_eq!(known(&secondary, "example")["state"], "never-loaded");
    let first = primary(there, &short, "");
    eventually("it is taken", &secondary, || answer().contains("192.0.2.1"));
    let folder = first.stop();
    eventually("it expires", &secondary, || answer().contains("SERVFAIL"));
    assert_eq!(known(&secondary, "example")["state"], "expired");
    assert_eq!(secondary.ctl_json(&["zone", "status", "example"])["state"], "expired");
    let _again = start_in(folder, there, "", &format!("allow-transfer = [\"key:transfer.example\"]\n{KEYS}"));
    eventually("it is back", &secondary, || answer().contains("192.0.2.1"));
}

/// Waits until the system's clock is past a Unix time.
fn pass(time: u64) {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs();
    while now() <= time {
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_restart_has_the_zones_back_without_the_primary_but_for_those_that_expired() {
    let (here, there) = (free_address(), free_address());
    let first = primary(there, APEX, "");
    let zone = |keys: &str| {
        let primaries = peer(there, true);
        format!("[[zone]]\nname = \"example\"\nprimaries = [{primaries}]\n{keys}{KEYS}")
    };
    let state = "state-dir = \"state\"\n";
    let secondary = server(here, state, &zone(""));
    eventually("it is taken", &secondary, || is_answered(&secondary, "ns1.example", "192.0.2.1"));
    let confirmed = known(&secondary, "example")["confirmed"].as_u64().expect("a time");
    first.write("example.zone", &format!("{}new A 192.0.2.9\n", APEX.replace("admin 1 ", "admin 2 ")));
    first.reload();
    secondary.ctl_json(&["zone", "refresh", "example"]);
    eventually("it is taken", &secondary, || is_answered(&secondary, "new.example", "192.0.2.9"));
    assert!(!secondary.log().contains("not stored on disk"), "{}", secondary.log());
    drop(first);
    let secondary = start_in(secondary.stop(), here, state, &zone(""));
    // From the first query on.
    assert!(is_answered(&secondary, "new.example", "192.0.2.9"), "{}", secondary.log());
    assert_eq!(known(&secondary, "example")["state"], "fresh");
    assert!(known(&secondary, "example")["confirmed"].as_u64().is_some_and(|at| at >= confirmed));
    pass(known(&secondary, "example")["confirmed"].as_u64().expect("a time") + 1);
    let secondary = start_in(secondary.stop(), here, state, &zone("max-expire = \"1s\"\n"));
    assert!(secondary.query(&["new.example", "A"]).contains("SERVFAIL"), "{}", secondary.log());
    assert_eq!(known(&secondary, "example")["state"], "expired");
}

#[test]
fn a_transfer_beyond_a_limit_is_given_up() {
    let there = free_address();
    let _primary = primary(there, APEX, "");
    let secondary = secondary(&peer(there, true), "min-retry = \"1s\"\nmax-retry = \"1s\"\n");
    eventually("it is taken", &secondary, || is_answered(&secondary, "ns1.example", "192.0.2.1"));
    secondary.reconfigure("[transfers]\n", "[transfers]\nincoming-max-records = 3\n");
    secondary.reload();
    secondary.ctl_json(&["zone", "retransfer", "example"]);
    eventually("it is given up", &secondary, || {
        known(&secondary, "example")["fault"]["fault"] == "more records than the limit"
    });
    assert!(is_answered(&secondary, "ns1.example", "192.0.2.1"), "what was in service stays");
}

#[test]
fn what_is_wrong_with_peers_is_said_with_its_place() {
    let there = free_address();
    let primary = primary(there, APEX, "");
    let reload = |from: &str, to: &str| {
        primary.reconfigure(from, to);
        let output = primary.ctl(&["reload"]);
        primary.reconfigure(to, from);
        text(&output.stdout) + &text(&output.stderr)
    };
    let none = "[transfers]\n";
    let said = reload(
        none,
        "[[zone]]\nname = \"b\"\nprimaries = [\"192.0.2.1 key:transfers.example\"]\n[transfers]\n",
    );
    assert!(said.contains("there is no key transfers.example"), "{said}");
    assert!(said.contains("did you mean \"key:transfer.example.\"?"), "{said}");
    let output = primary.ctl(&["zone", "refresh", "example"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no `primaries`"), "{}", text(&output.stderr));
    let output = primary.ctl(&["zone", "notify", "example"]);
    assert!(text(&output.stderr).contains("no `notify`"), "{}", text(&output.stderr));
}

#[test]
fn updates_that_reach_a_secondary_are_passed_on_and_the_primary_judges() {
    let (first, own) = (free_address(), free_address());
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("transfer.key"), KEY_FILE).expect("written");
    fs::write(folder.path().join("example.zone"), APEX).expect("written");
    let grants = "allow-transfer = [\"127.0.0.0/8\"]\nallow-update = [\"key:transfer.example\"]\n";
    let notify = format!("notify = [{}]\n{KEYS}", peer(own, false));
    let _primary = start_in(folder, first, "state-dir = \"state\"\n", &format!("{grants}{notify}"));
    // The secondary does not have the key.
    let zone = format!("[[zone]]\nname = \"example\"\nprimaries = [{}]\n", peer(first, false));
    let secondary =
        server(own, "", &format!("{zone}forward-updates = [\"any\"]\nallow-notify = [\"127.0.0.0/8\"]\n"));
    eventually("it has the zone", &secondary, || is_answered(&secondary, "ns1.example", "192.0.2.1"));
    let at = format!("{}#{}", own.ip(), own.port());
    let send = |arguments: &[&str]| {
        secondary.write("script", "zone example\nadd new.example. 60 A 192.0.2.9\n");
        let arguments = [&["update", "--server", &at, "--timeout", "60", "script"], arguments].concat();
        let output = run(&secondary.path("."), &arguments);
        (output.status.code(), text(&output.stderr))
    };
    let (code, said) = send(&["-k", "transfer.key"]);
    assert_eq!(code, Some(0), "{said}");
    eventually("the change comes back", &secondary, || is_answered(&secondary, "new.example", "192.0.2.9"));
    let (code, said) = send(&["-k", "transfer.key", "--tcp"]);
    assert_eq!(code, Some(0), "{said}");
    for (key, fault) in [("transfer.example:c2VjcmV0", "BADSIG"), ("other.example:c2VjcmV0", "BADKEY")] {
        let (code, said) = send(&["-y", key]);
        assert!(code == Some(1) && said.contains(fault), "{said}");
    }
    let (code, said) = send(&[]);
    assert!(code == Some(1) && said.contains("REFUSED"), "{said}");
    // An update that is not forwarded is refused here, for its signature first.
    secondary.reconfigure("\"any\"", "\"192.0.2.1\"");
    secondary.reload();
    let (code, said) = send(&["-k", "transfer.key"]);
    assert!(code == Some(1) && said.contains("BADKEY"), "{said}");
    let (code, said) = send(&[]);
    assert!(code == Some(1) && said.contains("REFUSED"), "{said}");
    // There is no primary that could decide.
    secondary.reconfigure("\"192.0.2.1\"", "\"any\"");
    secondary.reload();
    drop(_primary);
    let (code, said) = send(&[]);
    assert!(code == Some(1) && said.contains("SERVFAIL"), "{said}");
}

#[test]
fn other_servers_are_asked_and_told_from_the_addresses_that_source_says() {
    let (first, own) = (free_address(), free_address());
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), APEX).expect("written");
    // The primary knows the secondary by one address, and the secondary accepts NOTIFY from another one only.
    let grants =
        "allow-transfer = [\"127.0.0.77\"]\nallow-update = [\"127.0.0.77\"]\nsource = [\"127.0.0.78\"]\n";
    let notify = format!("notify = [{}]\n", peer(own, false));
    let primary = start_in(folder, first, "state-dir = \"state\"\n", &format!("{grants}{notify}"));
    let zone = format!("[[zone]]\nname = \"example\"\nprimaries = [{}]\n", peer(first, false));
    let keys =
        "allow-notify = [\"127.0.0.78\"]\nforward-updates = [\"any\"]\nsource = [\"127.0.0.77\", \"::1\"]\n";
    let secondary = server(own, "", &format!("{zone}{keys}"));
    eventually("it has the zone", &secondary, || is_answered(&secondary, "ns1.example", "192.0.2.1"));
    secondary.write("script", "zone example\nadd new.example. 60 A 192.0.2.9\n");
    let at = format!("{}#{}", own.ip(), own.port());
    let output = run(&secondary.path("."), &["update", "--server", &at, "--timeout", "60", "script"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    // The refresh time is an hour: only a NOTIFY triggers this.
    eventually("the change comes back", &secondary, || is_answered(&secondary, "new.example", "192.0.2.9"));
    primary.wait_for_log("peer=127.0.0.77 ", 1);
}

/// Returns the seconds for which a server may still serve `example.`, by its EXPIRE option (RFC 7314).
fn expire(server: &Server) -> Option<u32> {
    let printed = server.query(&["example", "SOA", "+expire"]);
    printed.split_once("; EXPIRE: ")?.1.split(' ').next()?.parse().ok()
}

#[test]
fn a_secondary_of_a_secondary_serves_no_longer_than_that_may() {
    let address = free_address();
    let first = primary(address, APEX, "");
    assert_eq!(expire(&first), Some(86_400));
    let keys = "max-expire = \"1h\"\nallow-transfer = [\"any\"]\n";
    let second = secondary(&peer(address, true), keys);
    eventually("it has the zone", &second, || is_answered(&second, "ns1.example", "192.0.2.1"));
    let third = secondary(&peer(second.address, false), "");
    eventually("it has the zone", &third, || is_answered(&third, "ns1.example", "192.0.2.1"));
    for server in [&second, &third] {
        let limited = || expire(server).is_some_and(|left| (1..=3600).contains(&left));
        eventually("it says when the zone expires", server, limited);
    }
}
