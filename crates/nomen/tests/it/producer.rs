//! Catalog zones produced by nomen: BIND, Knot and nomen serve the listed zones, and follow changes.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;

use crate::primary::{KEY_FILE, OtherServer, other, secret};
use crate::support::{APEX, Server, TEST_TIMEOUT, eventually, free_address, run, text, written};

const STATE: &str = "state-dir = \"state\"\n";
const KEYS: &str = "[transfers]\nkey-files = [\"transfer.key\"]\n";

fn zone_text(address: &str) -> String {
    format!("{APEX}www A {address}\n")
}

/// Returns the consumers' own `two.test`, for the group `gold`.
fn gold_text() -> String {
    zone_text("192.0.2.99").replace("admin 1 ", "admin 9 ")
}

/// Returns an address with the key, as peers are written.
fn peer(address: SocketAddr) -> String {
    format!("\"{} key:transfer.example\"", written(address).trim_matches('"'))
}

/// Starts a server that produces the catalog zone `made` of the zones in its folder `zones`, which are
/// `one.test` and `stays.test`, and of those that a test adds to it.
fn producer() -> Server {
    let folder = tempfile::tempdir().expect("a folder");
    ["state", "zones"].iter().for_each(|name| fs::create_dir(folder.path().join(name)).expect("made"));
    for zone in ["one.test", "stays.test"] {
        fs::write(folder.path().join(format!("zones/{zone}.zone")), zone_text("192.0.2.5")).expect("written");
    }
    fs::write(folder.path().join("two"), zone_text("192.0.2.6")).expect("written");
    fs::write(folder.path().join("example.zone"), APEX).expect("written");
    fs::write(folder.path().join("transfer.key"), KEY_FILE).expect("written");
    Server::start_in(folder, STATE, &sections())
}

fn sections() -> String {
    format!(
        "allow-transfer = [\"key:transfer.example\"]\n\
         [template.members]\ndirectory = \"zones\"\ncatalog-member = \"made\"\n\
         allow-transfer = [\"key:transfer.example\"]\n\
         [[zone]]\nname = \"made\"\ncatalog-produce = true\nallow-transfer = [\"key:transfer.example\"]\n\
         # notify\n{KEYS}"
    )
}

fn bind(primary: SocketAddr) -> impl Fn(SocketAddr, &Path) -> String {
    move |own, folder| {
        let from = format!("{{ {} port {} key transfer.example; }}", primary.ip(), primary.port());
        format!(
            "{KEY_FILE}options {{ directory \"{}\"; pid-file none; session-keyfile none; lock-file none;\n\
             listen-on port {} {{ {}; }}; listen-on-v6 {{ none; }}; recursion no; notify no;\n\
             allow-notify {{ key transfer.example; }};\n\
             catalog-zones {{ zone \"made\" default-primaries {from} min-update-interval 0; }}; }};\n\
             controls {{ }};\nzone \"made\" {{ type secondary; file \"made.zone\"; primaries {from}; }};\n",
            folder.display(),
            own.port(),
            own.ip()
        )
    }
}

/// Returns a Knot configuration whose members of the group `gold` are its own files.
fn knot(primary: SocketAddr) -> impl Fn(SocketAddr, &Path) -> String {
    move |own, folder| {
        fs::create_dir(folder.join("gold")).expect("made");
        fs::write(folder.join("gold/two.test.zone"), gold_text()).expect("written");
        let (folder, ip, port) = (folder.display(), own.ip(), own.port());
        format!(
            "server:\n  rundir: \"{folder}\"\n  listen: {ip}@{port}\ndatabase:\n  storage: \"{folder}\"\n\
             log:\n  - target: stderr\n    any: info\n\
             key:\n  - id: transfer.example\n    algorithm: hmac-sha256\n    secret: {}\n\
             remote:\n  - id: nomen\n    address: {}@{}\n    key: transfer.example\n\
             acl:\n  - id: notify-from-nomen\n    key: transfer.example\n    action: notify\n\
             template:\n  - id: members\n    master: nomen\n    acl: notify-from-nomen\n    \
             storage: \"{folder}\"\n\x20 - id: gold\n    storage: \"{folder}/gold\"\n\
             zone:\n  - domain: made\n    master: nomen\n    acl: notify-from-nomen\n    \
             storage: \"{folder}\"\n\x20   catalog-role: interpret\n    catalog-template: [members, gold]\n",
            secret(),
            primary.ip(),
            primary.port()
        )
    }
}

/// Starts a nomen whose members of the group `gold` are its own files.
fn nomen(address: SocketAddr, primary: SocketAddr) -> Server {
    let folder = tempfile::tempdir().expect("a folder");
    ["state", "gold"].iter().for_each(|name| fs::create_dir(folder.path().join(name)).expect("made"));
    fs::write(folder.path().join("gold/two.test"), gold_text()).expect("written");
    fs::write(folder.path().join("transfer.key"), KEY_FILE).expect("written");
    let zone = format!(
        "[template.members]\nmin-retry = \"1s\"\n[template.gold]\nfile = \"gold/{{zone}}\"\n\
         [[zone]]\nname = \"made\"\nprimaries = [{}]\nmin-retry = \"1s\"\n\
         catalog-template = \"members\"\ncatalog-groups = {{ gold = \"gold\" }}\n{KEYS}",
        peer(primary)
    );
    Server::start_at(address, folder, STATE, &zone)
}

/// A consumer of the catalog zone.
struct Consumer {
    kind: &'static str,
    address: SocketAddr,
    /// Whether it serves members of a group differently.
    knows_groups: bool,
    server: Result<OtherServer, Server>,
}

impl Consumer {
    /// Returns its answer for the address of a member.
    fn answer(&self, zone: &str) -> String {
        let at = format!("@{}@{}", self.address.ip(), self.address.port());
        let name = format!("www.{zone}");
        let output = run(Path::new("."), &["query", &at, "+tries=1", "+time=2", &name, "A"]);
        text(&output.stdout)
    }
}

/// Starts BIND and Knot if they are installed, and nomen: all have transferred the catalog zone, and get its
/// NOTIFY.
fn consumers(producer: &Server) -> Vec<Consumer> {
    let (primary, own) = (producer.address, free_address());
    let of = |kind: &'static str, server: Option<OtherServer>| {
        let knows_groups = kind == "Knot";
        server.map(|server| Consumer { kind, address: server.address, knows_groups, server: Ok(server) })
    };
    let nomen = nomen(own, primary);
    let all = [
        of("BIND", other("BIND", "named", &["-g", "-c"], bind(primary))),
        of("Knot", other("Knot", "knotd", &["-c"], knot(primary))),
        Some(Consumer { kind: "nomen", address: own, knows_groups: true, server: Err(nomen) }),
    ];
    let all: Vec<Consumer> = all.into_iter().flatten().collect();
    let told: Vec<String> = all.iter().map(|consumer| peer(consumer.address)).collect();
    producer.reconfigure("# notify\n", &format!("notify = [{}]\n", told.join(", ")));
    producer.reload();
    all
}

fn serial(server: &Server) -> u64 {
    server.ctl_json(&["zone", "status", "made"])["serial"].as_u64().expect("a version")
}

/// Returns the lines of the catalog zone for a member, without its TTL and class.
fn entry(server: &Server, zone: &str) -> Vec<String> {
    let dumped = text(&server.ctl(&["zone", "dump", "made"]).stdout);
    let pointer = format!(" PTR {zone}.");
    let owner = dumped.lines().find(|line| line.ends_with(&pointer)).and_then(|line| line.split(' ').next());
    let Some(owner) = owner else { return Vec::new() };
    dumped.lines().filter(|line| line.contains(owner)).map(str::to_owned).collect()
}

#[test]
fn bind_knot_and_nomen_follow_what_is_added_removed_and_regrouped() {
    let producer = producer();
    let consumers = consumers(&producer);
    let all = |what: &str, zone: &str, so: &dyn Fn(&Consumer, &str) -> bool| {
        for consumer in &consumers {
            let what = format!("{}: {what}", consumer.kind);
            eventually(&what, &producer, || so(consumer, &consumer.answer(zone)));
        }
    };
    all("the first list", "one.test", &|_, answer| answer.contains("192.0.2.5"));
    all("the first list, all of it", "stays.test", &|_, answer| answer.contains("192.0.2.5"));

    producer.ctl_json(&["zone", "add", "two.test", "--template", "members", "--file", "two"]);
    all("a zone that is added by hand", "two.test", &|_, answer| answer.contains("192.0.2.6"));
    producer.ctl_json(&["zone", "remove", "two.test"]);
    all("one that is removed", "two.test", &|_, answer| !answer.contains("192.0.2.6"));
    producer.ctl_json(&["zone", "add", "two.test", "--file", "two", "--catalog", "made", "--group", "gold"]);
    // It has no `allow-transfer`, but it is listed.
    let served = |consumer: &Consumer, answer: &str| answer.contains("192.0.2.99") == consumer.knows_groups;
    all("one of a group", "two.test", &served);
    producer.ctl_json(&["zone", "remove", "two.test"]);
    all("which is gone", "two.test", &|_, answer| !answer.contains("192.0.2.99"));

    // Changes of the configuration take effect at a reload.
    let label = entry(&producer, "stays.test");
    let zone = "[[zone]]\nname = \"two.test\"\nfile = \"two\"\ntemplate = \"members\"\n";
    producer.reconfigure(KEYS, &format!("{zone}{KEYS}"));
    fs::remove_file(producer.path("zones/one.test.zone")).expect("removed");
    producer.reload();
    all("a new zone of the configuration", "two.test", &|_, answer| answer.contains("192.0.2.6"));
    all("one whose file is gone", "one.test", &|_, answer| !answer.contains("192.0.2.5"));
    let before = entry(&producer, "two.test");
    for knot in consumers.iter().filter(|consumer| consumer.kind == "Knot") {
        // Knot has removed its own file with the zone.
        let folder = knot.server.as_ref().map(|server| server.folder.path());
        fs::write(folder.ok().expect("another server").join("gold/two.test.zone"), gold_text())
            .expect("written");
    }
    producer.reconfigure(zone, &format!("{zone}catalog-group = \"gold\"\n"));
    producer.reload();
    let grouped = |consumer: &Consumer, answer: &str| {
        answer.contains(if consumer.knows_groups { "192.0.2.99" } else { "192.0.2.6" })
    };
    all("a zone that gets a group", "two.test", &grouped);
    assert_eq!(entry(&producer, "two.test")[..1], before[..], "its label stays");
    assert_eq!(entry(&producer, "stays.test"), label);
    all("one that stayed all the time", "stays.test", &|_, answer| answer.contains("192.0.2.5"));
    producer.wait_for_log("kind=\"IXFR\"", consumers.len());
}

#[test]
fn labels_and_the_serial_number_go_on_after_a_restart_and_a_kill() {
    let server = producer();
    server.ctl_json(&["zone", "add", "two.test", "--template", "members", "--file", "two"]);
    let (address, before, label) = (server.address, serial(&server), entry(&server, "one.test"));
    let added = entry(&server, "two.test");
    assert!(label.len() == 1 && added.len() == 1, "{label:?} {added:?}");
    let server = Server::start_at(address, server.stop(), STATE, &sections());
    assert_eq!((serial(&server), entry(&server, "one.test")), (before, label.clone()));
    assert_eq!(entry(&server, "two.test"), added);
    server.ctl_json(&["zone", "remove", "two.test"]);
    let next = serial(&server);
    assert!(next > before);
    let server = Server::start_at(address, server.kill(), STATE, &sections());
    assert_eq!((serial(&server), entry(&server, "one.test")), (next, label));
    server.ctl_json(&["zone", "add", "two.test", "--template", "members", "--file", "two"]);
    let again = entry(&server, "two.test");
    assert!(again.len() == 1 && again != added, "another zone of the same name: {again:?}");
    assert!(serial(&server) > next);
    // The zone has no file to read again.
    let output = server.ctl(&["zone", "reload", "made"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("nomen generates it"), "{}", text(&output.stderr));
}

#[test]
fn zones_that_are_held_back_stay_listed() {
    let server = producer();
    for i in 0..12 {
        fs::write(server.path(&format!("zones/m{i}.test.zone")), zone_text("192.0.2.7")).expect("written");
    }
    server.reload();
    let status = || server.ctl_json(&["zone", "status", "made"])["catalog"].clone();
    assert_eq!(status()["members"], 14);
    fs::rename(server.path("zones"), server.path("elsewhere")).expect("moved");
    fs::create_dir(server.path("zones")).expect("made");
    server.ctl(&["reload"]);
    assert_eq!(status()["members"], 14, "{}", server.log());
    server.ctl_json(&["reload", "--force"]);
    assert_eq!(status()["members"], 0);
}

#[test]
fn a_zone_cannot_be_added_to_a_catalog_zone_that_is_not_made_here() {
    let server = producer();
    for catalog in ["example", "nowhere"] {
        let output = server.ctl(&["zone", "add", "two.test", "--file", "two", "--catalog", catalog]);
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        assert!(said.contains(&format!("there is no zone {catalog}. with `catalog-produce`")), "{said}");
    }
    assert!(server.query(&["two.test", "SOA"]).contains("REFUSED"));
}

/// Waits for a NOTIFY of the zone `cat`, and answers it.
fn told(socket: &UdpSocket) {
    let mut packet = [0; 512];
    let (len, from) = socket.recv_from(&mut packet).expect("a NOTIFY");
    assert_eq!((packet[2] >> 3, &packet[12..17]), (4, &b"\x03cat\0"[..]));
    packet[2] |= 0x80;
    socket.send_to(&packet[..len], from).expect("sent");
}

#[test]
fn a_catalog_zone_that_is_not_answered_from_told_nobody_of_its_changes() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("state")).expect("made");
    fs::create_dir(folder.path().join("members")).expect("made");
    let catalog = |serial: u32| {
        format!("$TTL 0\n@ SOA . . {serial} 3600 600 86400 60\n@ NS invalid.\nversion TXT \"2\"\n")
    };
    fs::write(folder.path().join("cat"), catalog(1)).expect("written");
    let told_of = written(socket.local_addr().expect("an address"));
    let more = format!(
        "[template.members]\nfile = \"members/{{zone}}\"\n\
         [[zone]]\nname = \"cat\"\nfile = \"cat\"\ncatalog-template = \"members\"\nnotify = [{told_of}]\n"
    );
    let server = Server::start_in(folder, STATE, &more);
    told(&socket);
    server.write("cat", &catalog(2));
    server.reload();
    told(&socket);
    assert!(server.query(&["cat", "SOA"]).contains("REFUSED"), "it is hidden all the same");
}
