//! Dynamic updates of a running server: requests of other clients, persistence, and transfers to other
//! servers.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::primary::{KEY_FILE, VARIED, other, records, secret, transfer, try_transfer};
use crate::support::{APEX, Server, TEST_TIMEOUT, eventually, text, written};

pub(crate) const STATE: &str = "state-dir = \"state\"\n";
const KEYS: &str = "[transfers]\nkey-files = [\"transfer.key\"]\n";

/// Returns a folder with a zone and the key.
pub(crate) fn folder(zone: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), zone).expect("written");
    fs::write(folder.path().join("transfer.key"), KEY_FILE).expect("written");
    folder
}

/// Starts a server of `example.` in a folder, with these keys of the zone.
pub(crate) fn start(folder: TempDir, keys: &str) -> Server {
    Server::start_in(folder, STATE, &format!("{keys}allow-transfer = [\"any\"]\n{KEYS}"))
}

/// Any client may update the zone.
pub(crate) const OPEN: &str = "allow-update = [\"any\"]\n";

/// Returns the records of a server's zone.
pub(crate) fn zone(address: SocketAddr) -> Option<BTreeSet<String>> {
    try_transfer(address, "example", None).ok()?.ok().map(|zone| records(&zone))
}

/// Asserts that two zones have the same records; shows those that only one has.
pub(crate) fn same(ours: &Option<BTreeSet<String>>, theirs: &Option<BTreeSet<String>>, what: &str) {
    let (ours, theirs) = (ours.clone().expect(what), theirs.clone().expect(what));
    let [only_ours, only_theirs]: [Vec<_>; 2] =
        [ours.difference(&theirs).collect(), theirs.difference(&ours).collect()];
    assert!(ours == theirs, "{what}\nfirst only: {only_ours:#?}\nsecond only: {only_theirs:#?}");
}

/// Returns the wire format of a name whose labels contain no dots.
fn wire(name: &str) -> Vec<u8> {
    let labels = name.split('.').filter(|label| !label.is_empty());
    labels.flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat()).chain([0]).collect()
}

/// Returns an update of `zone` with these records in the update section.
pub(crate) fn update_message(id: u16, zone: &str, updates: &[Vec<u8>]) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    message.extend([0x28, 0, 0, 1, 0, 0]);
    message.extend((updates.len() as u16).to_be_bytes());
    message.extend([0, 0]);
    message.extend([wire(zone), vec![0, 6, 0, 1]].concat());
    message.extend(updates.concat());
    message
}

/// Returns a record: of class IN to add, or of class ANY to delete an RRset.
pub(crate) fn record(owner: &str, rtype: u16, class: u16, ttl: u32, rdata: &[u8]) -> Vec<u8> {
    let mut record = wire(owner);
    record.extend([rtype.to_be_bytes(), class.to_be_bytes()].concat());
    record.extend(ttl.to_be_bytes());
    record.extend((rdata.len() as u16).to_be_bytes());
    record.extend(rdata);
    record
}

/// Sends a message over UDP and returns the response code; `None` if the server stops.
pub(crate) fn answer(socket: &UdpSocket, message: &[u8]) -> Option<u8> {
    answer_until(socket, message, &AtomicBool::new(false))
}

/// Like [`answer`], but also ends once `gone` is set: the server has stopped.
fn answer_until(socket: &UdpSocket, message: &[u8], gone: &AtomicBool) -> Option<u8> {
    socket.send(message).ok()?;
    let (mut reply, until) = ([0; 512], Instant::now() + TEST_TIMEOUT);
    loop {
        // Replies sent before that have arrived by now.
        let was_gone = gone.load(Ordering::SeqCst);
        match socket.recv(&mut reply) {
            Ok(len) if len >= 12 && reply[..2] == message[..2] => return Some(reply[3] & 15),
            Ok(_) => {}
            // A process that was stopped and continued has its wait interrupted.
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock && !was_gone => {
                assert!(Instant::now() < until, "no answer");
            }
            Err(_) => return None,
        }
    }
}

pub(crate) fn socket(server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(server).expect("an address");
    socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
    socket
}

/// Adds an address to the zone and returns the response code.
pub(crate) fn add(server: SocketAddr, zone: &str, owner: &str) -> Option<u8> {
    let added = record(owner, 1, 1, 60, &[192, 0, 2, 80]);
    answer(&socket(server), &update_message(7, zone, &[added]))
}

/// Runs nsupdate or knsupdate with the key in a file, and returns its output.
fn client(program: &str, key: &str, folder: &Path, server: SocketAddr, script: &str) -> String {
    let file = folder.join("client.key");
    fs::write(&file, key).expect("written");
    let mut command = Command::new(program);
    match program {
        "nsupdate" => command.args(["-k", file.to_str().expect("text")]),
        _ => command.args(["-y", &format!("hmac-sha256:transfer.example:{}", secret())]),
    };
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{program}: {e}"));
    let script = format!("server {} {}\nzone example.\n{script}", server.ip(), server.port());
    child.stdin.take().expect("its input").write_all(script.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("it ends");
    text(&output.stdout) + &text(&output.stderr)
}

/// The configuration of a BIND that is the primary of `example.`, which clients with the key may update.
fn bind(own: SocketAddr, folder: &Path) -> String {
    fs::write(folder.join("example.zone"), APEX).expect("written");
    let folder = folder.display();
    format!(
        "{KEY_FILE}options {{ directory \"{folder}\"; pid-file none; session-keyfile none; lock-file none;\n\
         listen-on port {} {{ {}; }}; listen-on-v6 {{ none; }}; recursion no; notify no;\n\
         allow-transfer {{ any; }}; }};\ncontrols {{ }};\n\
         zone \"example\" {{ type primary; file \"example.zone\"; \
         allow-update {{ key transfer.example; }}; }};\n",
        own.port(),
        own.ip(),
    )
}

/// Scripts for both clients: additions, deletions of every kind, prerequisites that hold and others that do
/// not.
const SCRIPTS: [&str; 8] = [
    "update add www.example. 300 A 192.0.2.80\nupdate add www.example. 300 A 192.0.2.81\nsend\n",
    "prereq yxrrset www.example. A\nupdate add mail.example. 60 MX 10 www.example.\nsend\n",
    "prereq nxdomain www.example.\nupdate add www.example. 300 TXT \"never\"\nsend\n",
    "prereq yxdomain absent.example.\nupdate add other.example. 300 TXT \"never\"\nsend\n",
    "update delete www.example. A 192.0.2.81\nupdate add a.b.c.example. 5 TXT \"deep\"\nsend\n",
    "prereq nxrrset mail.example. A\nupdate delete ns2.example. A\nupdate add ns2.example. 60 A 192.0.2.200\n\
     send\n",
    "update add sub.example. 60 NS ns1.example.\nupdate delete mail.example.\nsend\n",
    "update add alias.example. 60 CNAME www.example.\nupdate add www.example. 60 CNAME x.example.\nsend\n",
];

#[test]
fn nsupdate_and_knsupdate_make_of_a_zone_what_they_make_of_it_in_bind() {
    for program in ["nsupdate", "knsupdate"] {
        if !testkit::has_programs(&[program]) {
            continue;
        }
        let Some(bind) = other("BIND", "named", &["-g", "-c"], bind) else { return };
        let until = Instant::now() + TEST_TIMEOUT;
        while zone(bind.address).is_none() {
            assert!(Instant::now() < until, "BIND does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        let nomen = start(folder(APEX), "update-policy = [\"grant key:transfer.example zone ANY\"]\n");
        for script in SCRIPTS {
            let theirs = client(program, KEY_FILE, nomen.folder.path(), bind.address, script);
            let ours = client(program, KEY_FILE, nomen.folder.path(), nomen.address, script);
            // knsupdate prints the server's name in some errors.
            let failed = |said: &str| !said.trim().is_empty();
            assert_eq!(failed(&ours), failed(&theirs), "{program} {script}\n{ours}\n{theirs}");
            same(&zone(nomen.address), &zone(bind.address), &format!("{program} {script}"));
        }
    }
}

#[test]
fn who_may_not_change_what_changes_nothing() {
    if !testkit::has_programs(&["nsupdate"]) {
        return;
    }
    let keys = "update-policy = [\"grant key:transfer.example subdomain dyn.example. A\"]\n";
    let nomen = start(folder(APEX), keys);
    let before = zone(nomen.address);
    let said = |key: &str, script: &str| client("nsupdate", key, nomen.folder.path(), nomen.address, script);
    let other = KEY_FILE.replace("3q2+7w", "AAAAAA");
    assert!(said(&other, "update add a.dyn.example. 60 A 192.0.2.1\nsend\n").contains("BADSIG"));
    assert!(said(KEY_FILE, "update add a.dyn.example. 60 TXT x\nsend\n").contains("REFUSED"));
    assert!(said(KEY_FILE, "update add a.example. 60 A 192.0.2.1\nsend\n").contains("REFUSED"));
    assert_eq!(add(nomen.address, "example", "a.dyn.example"), Some(5), "without a key");
    assert_eq!(add(nomen.address, "elsewhere", "a.elsewhere"), Some(9));
    assert_eq!(add(nomen.address, "example", "a.elsewhere"), Some(10));
    assert_eq!(zone(nomen.address), before);
    assert_eq!(said(KEY_FILE, "update add a.dyn.example. 60 A 192.0.2.1\nsend\n"), "");
    assert!(nomen.query(&["a.dyn.example", "A"]).contains("192.0.2.1"));
    nomen.ctl_json(&["zone", "freeze", "example"]);
    assert!(said(KEY_FILE, "update add b.dyn.example. 60 A 192.0.2.1\nsend\n").contains("REFUSED"));
    nomen.ctl_json(&["zone", "thaw", "example"]);
    assert_eq!(said(KEY_FILE, "update add b.dyn.example. 60 A 192.0.2.1\nsend\n"), "");
}

#[test]
fn what_updates_have_changed_comes_back_after_a_restart_and_the_file_is_taken_when_told() {
    let nomen = start(folder(&format!("{APEX}{VARIED}")), OPEN);
    assert_eq!(add(nomen.address, "example", "new.example"), Some(0));
    let changed = zone(nomen.address);
    let text = fs::read_to_string(nomen.path("example.zone")).expect("the file");
    assert_eq!(text, format!("{APEX}{VARIED}"), "the file is never written");
    let nomen = start(nomen.stop(), OPEN);
    assert_eq!(zone(nomen.address), changed);
    assert_eq!(nomen.ctl_json(&["zone", "status", "example"])["serial"], 2);
    nomen.write("example.zone", &format!("{APEX}fresh A 192.0.2.90\n"));
    // The exit status of a reload was 0 although the edited file did not go into service.
    let report = nomen.reload_badly();
    assert_eq!(
        (&report["not_taken"], &report["faults"][0]["zone"]),
        (&1.into(), &"example.".into()),
        "{report}"
    );
    nomen.wait_for_log("is not taken, since updates have changed the zone", 1);
    // The same for a reload of that zone alone.
    let output = nomen.ctl(&["zone", "reload", "example"]);
    let said = crate::support::text(&output.stdout) + &crate::support::text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("example.") && said.contains("not taken 1"), "{said}");
    assert_eq!(zone(nomen.address), changed);
    let output = nomen.ctl(&["zone", "reload", "example", "--force"]);
    let said = crate::support::text(&output.stdout);
    assert!(
        output.status.success() && said.contains("-new.example. "),
        "what is dropped was not listed: {said}"
    );
    assert!(!said.contains(" SOA "), "{said}");
    eventually("the file is taken", &nomen, || nomen.query(&["fresh.example", "A"]).contains("192.0.2.90"));
    let taken = zone(nomen.address).expect("the zone");
    assert_eq!(taken.len(), 6, "{taken:#?}");
    assert_eq!(nomen.ctl_json(&["zone", "status", "example"])["serial"], 3);
    let nomen = start(nomen.stop(), OPEN);
    assert_eq!(zone(nomen.address), Some(taken));
}

/// Returns Knot and BIND as secondaries of a nomen.
pub(crate) fn secondaries(
    primary: SocketAddr,
) -> [(&'static str, &'static str, &'static [&'static str], String); 2] {
    let bind = format!("primaries {{ {} port {}; }};", primary.ip(), primary.port());
    let knot = format!("{}@{}", primary.ip(), primary.port());
    [("BIND", "named", &["-g", "-d", "1", "-c"], bind), ("Knot", "knotd", &["-c"], knot)]
}

pub(crate) fn secondary_config(kind: &str, primary: &str, own: SocketAddr, folder: &Path) -> String {
    let (folder, ip, port) = (folder.display(), own.ip(), own.port());
    match kind {
        "BIND" => format!(
            "options {{ directory \"{folder}\"; pid-file none; session-keyfile none; lock-file none;\n\
             listen-on port {port} {{ {ip}; }}; listen-on-v6 {{ none; }}; recursion no; notify no;\n\
             allow-notify {{ any; }}; allow-transfer {{ any; }}; }};\ncontrols {{ }};\n\
             zone \"example\" {{ type secondary; file \"example.zone\"; masterfile-format text; \
             {primary} }};\n"
        ),
        _ => format!(
            "server:\n  rundir: \"{folder}\"\n  listen: {ip}@{port}\ndatabase:\n  storage: \"{folder}\"\n\
             log:\n  - target: stderr\n    any: info\n\
             remote:\n  - id: nomen\n    address: {primary}\n\
             acl:\n  - id: all\n    address: 0.0.0.0/0\n    action: [transfer, notify]\n\
             zone:\n  - domain: example\n    storage: \"{folder}\"\n    master: nomen\n    acl: all\n"
        ),
    }
}

#[test]
fn bind_and_knot_take_what_changed_and_have_the_same_records() {
    let hosts: String = (0..500).map(|n| format!("host-{n} A 192.0.2.{}\n", n % 250)).collect();
    let nomen = start(folder(&format!("{APEX}{VARIED}{hosts}")), OPEN);
    // The store exists from the first change on.
    assert_eq!(add(nomen.address, "example", "first.example"), Some(0));
    for (kind, program, arguments, primary) in secondaries(nomen.address) {
        let config = |own: SocketAddr, folder: &Path| secondary_config(kind, &primary, own, folder);
        let Some(peer) = other(kind, program, arguments, config) else { continue };
        let same = || zone(peer.address).is_some_and(|theirs| Some(theirs) == zone(nomen.address));
        eventually("the whole zone is there", &nomen, same);
        // They get a NOTIFY for each change: their timers are longer than a test may take.
        nomen.reconfigure(OPEN, &format!("{OPEN}notify = [{}]\n", written(peer.address)));
        nomen.reload();
        let sent = |log: &str| log.matches("kind=\"IXFR\"").count();
        let before = sent(&nomen.log());
        let socket = socket(nomen.address);
        for n in 0..60_u16 {
            let name = format!("host-{}.example", n * 7 % 500);
            let mut updates = vec![record(&name, 1, 255, 0, &[])];
            if n % 3 > 0 {
                updates.push(record(&name, 1, 1, 60, &[198, 51, 100, n as u8]));
                updates.push(record(&format!("{kind}-{n}.example"), 16, 1, 60, b"\x01x"));
            }
            assert_eq!(answer(&socket, &update_message(n, "example", &updates)), Some(0));
        }
        eventually("what changed is there", &nomen, same);
        eventually("it came as differences", &nomen, || sent(&nomen.log()) > before);
        let log = fs::read_to_string(peer.folder.path().join("log")).unwrap_or_default();
        nomen.reconfigure(&format!("notify = [{}]\n", written(peer.address)), "");
        let is_ixfr = log.contains("IXFR") && !log.contains("fallback");
        assert!(is_ixfr || kind == "BIND", "{kind}\n{log}");
    }
}

/// A small pseudorandom generator.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Number of names that each client changes.
const NAMES: u32 = 20;

/// A client's names, each with the last acknowledged value, and one that may be in service instead.
type Known = HashMap<String, (u32, Option<u32>)>;

/// Changes names one after the other until the server stops.
fn change(client: u32, server: SocketAddr, from: u32, known: &mut Known, over: &AtomicBool) -> u32 {
    let socket = socket(server);
    let mut value = from;
    while !over.load(Ordering::Relaxed) {
        value += 1;
        let name = format!("c{client}n{}.example", value % NAMES);
        let updates =
            [record(&name, 1, 255, 0, &[]), record(&name, 1, 1, 60, &(0x0a00_0000 | value).to_be_bytes())];
        let acknowledged = known.get(&name).map_or(0, |(value, _)| *value);
        match answer_until(&socket, &update_message(value as u16, "example", &updates), over) {
            Some(0) => known.insert(name, (value, None)),
            Some(rcode) => panic!("rcode {rcode}"),
            None => {
                known.insert(name, (acknowledged, Some(value)));
                break;
            }
        };
    }
    value
}

/// Checks that everything acknowledged is in the zone, and stores the current values.
fn compare(server: &Server, known: &mut Known, serial: &mut u32) {
    let found = transfer(server.address, "example", None).expect("the zone");
    assert!(found.serial().0 >= *serial, "{} after {serial}", found.serial());
    *serial = found.serial().0;
    let mut values = HashMap::new();
    for node in &found {
        for set in node.rrsets().filter(|set| set.rtype() == wire::Type::A) {
            let mut rdata = Vec::new();
            set.rdatas().for_each(|record| record.copy_to(&mut rdata));
            let name = node.owner().as_name().to_string();
            values.insert(name, u32::from_be_bytes(rdata[..4].try_into().expect("an address")) & 0x00ff_ffff);
        }
    }
    for (name, (acknowledged, perhaps)) in known {
        let there = values.get(&format!("{name}.")).copied().unwrap_or(0);
        assert!(
            there == *acknowledged || Some(there) == *perhaps,
            "{name}: {there}, acknowledged was {acknowledged}, {perhaps:?} perhaps\n{}",
            server.log()
        );
        (*acknowledged, *perhaps) = (there, None);
    }
}

#[test]
fn nothing_acknowledged_is_lost_however_often_the_server_is_killed() {
    let cycles = std::env::var("NOMEN_KILL_CYCLES").ok().and_then(|n| n.parse().ok()).unwrap_or(5_u32);
    let mut random = Random(u64::from(std::process::id()));
    let mut server = start(folder(APEX), OPEN);
    let (mut serial, mut updates) = (0, 0);
    let mut clients: Vec<(u32, Known)> = (0..4).map(|_| (0, Known::new())).collect();
    for _ in 0..cycles {
        let over = Arc::new(AtomicBool::new(false));
        let address = server.address;
        let threads: Vec<_> = clients
            .drain(..)
            .enumerate()
            .map(|(client, (from, mut known))| {
                let over = Arc::clone(&over);
                std::thread::spawn(move || {
                    let value = change(client as u32, address, from, &mut known, &over);
                    (value, known)
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(random.below(150)));
        let left = server.kill();
        over.store(true, Ordering::SeqCst);
        clients = threads.into_iter().map(|thread| thread.join().expect("it ends")).collect();
        server = start(left, OPEN);
        clients.iter_mut().for_each(|(_, known)| compare(&server, known, &mut serial));
    }
    updates += clients.iter().map(|(value, _)| value).sum::<u32>();
    eprintln!("{cycles} kills, {updates} updates, serial {serial}");
    assert!(updates > 0 && serial > 1);
}

#[test]
fn a_disk_that_is_full_costs_the_updates_and_nothing_else() {
    let limit = |server: &Server, bytes: &str| {
        let limit = Command::new("prlimit")
            .args(["--pid", &server.id().to_string(), &format!("--fsize={bytes}:")])
            .status();
        limit.is_ok_and(|status| status.success())
    };
    let nomen = start(folder(APEX), OPEN);
    assert_eq!(add(nomen.address, "example", "first.example"), Some(0));
    if !limit(&nomen, "65536") {
        return testkit::left_out("prlimit is missing");
    }
    let socket = socket(nomen.address);
    let data = [&[200][..], &[b'x'; 200]].concat();
    let text = |n: u16| record(&format!("text-{n}.example"), 16, 1, 60, &data);
    let full = (0..1000).find(|n| match answer(&socket, &update_message(*n, "example", &[text(*n)])) {
        Some(0) => false,
        Some(2) => true,
        other => panic!("{other:?}\n{}", nomen.log()),
    });
    let full = full.expect("the disk gets full");
    assert!(full > 10, "{full}");
    nomen.wait_for_log("they cannot be stored", 1);
    // Each refused update had a log line of its own.
    for n in 0..50 {
        assert_eq!(answer(&socket, &update_message(2000 + n, "example", &[text(full)])), Some(2));
    }
    assert_eq!(nomen.log().matches("they cannot be stored").count(), 1);
    let there = |n: u16| nomen.query(&[&format!("text-{n}.example"), "TXT"]).contains("xxx");
    assert!(there(full - 1) && !there(full));
    assert!(!nomen.ctl_json(&["zone", "status", "example"])["updates"]["fault"].is_null());
    assert!(limit(&nomen, "unlimited"));
    assert_eq!(answer(&socket, &update_message(1, "example", &[text(full)])), Some(0));
    let before = zone(nomen.address);
    let left = nomen.stop();
    let log = fs::read_to_string(left.path().join("log")).expect("a log");
    assert!(
        log.contains("they cannot be stored") && log.contains("(50 such lines in the last 60 s)"),
        "{log}"
    );
    let nomen = start(left, OPEN);
    same(&zone(nomen.address), &before, "after a restart");
    assert!(nomen.query(&[&format!("text-{full}.example"), "TXT"]).contains("xxx"));
}
