//! The set of zones changes while the server runs: by catalog zones, from BIND, Knot and files, and by `nomen
//! ctl zone add` and `remove`.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::primary::{KEY_FILE, OtherServer, other};
use crate::support::{APEX, Server, eventually, free_address, nomen, text, written};

const STATE: &str = "state-dir = \"state\"\n";

fn zone_text(address: &str) -> String {
    format!("{APEX}www A {address}\n")
}

/// Returns the text of a catalog zone with these records.
fn catalog_text(serial: u32, records: &str) -> String {
    format!("$TTL 0\n@ SOA . . {serial} 3600 600 86400 60\n@ NS invalid.\nversion TXT \"2\"\n{records}")
}

fn is_answered(server: &Server, zone: &str, with: &str) -> bool {
    server.query(&[&format!("www.{zone}"), "A"]).contains(with)
}

fn from(server: &Server, zone: &str) -> String {
    server.ctl_json(&["zone", "status", zone])["from"].as_str().unwrap_or_default().to_owned()
}

fn catalog(server: &Server, zone: &str) -> serde_json::Value {
    server.ctl_json(&["zone", "status", zone])["catalog"].clone()
}

/// Returns the error of a command of `nomen ctl` that must fail.
fn refusal(server: &Server, arguments: &[&str]) -> String {
    let output = server.ctl(arguments);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    text(&output.stderr)
}

/// Returns the number of files of secondary zones in the state folder.
pub(crate) fn kept(server: &Server) -> usize {
    let shards = fs::read_dir(server.path("state/secondaries")).into_iter().flatten().flatten();
    shards.map(|shard| fs::read_dir(shard.path()).into_iter().flatten().count()).sum()
}

fn change(server: &OtherServer, zone: &str, lines: &[&str]) {
    let file = server.folder.path().join("change.key");
    fs::write(&file, KEY_FILE).expect("written");
    let mut child = Command::new("nsupdate")
        .args(["-k", file.to_str().expect("text")])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("nsupdate runs");
    let (ip, port) = (server.address.ip(), server.address.port());
    let mut commands = format!("server {ip} {port}\nzone {zone}\n");
    lines.iter().for_each(|line| commands += &format!("update {line}\n"));
    child.stdin.take().expect("its input").write_all((commands + "send\n").as_bytes()).expect("written");
    assert!(child.wait().expect("it ends").success());
}

fn bind(secondary: SocketAddr) -> impl Fn(SocketAddr, &Path) -> String {
    move |own, folder| {
        fs::write(folder.join("cat.zone"), catalog_text(1, "a.zones PTR one.test.\n")).expect("written");
        let zones = ["one.test", "two.test"].map(|zone| {
            fs::write(folder.join(zone), zone_text("192.0.2.7")).expect("written");
            format!("zone \"{zone}\" {{ type primary; file \"{zone}\"; }};\n")
        });
        format!(
            "{KEY_FILE}options {{ directory \"{}\"; pid-file none; session-keyfile none; lock-file none;\n\
             listen-on port {} {{ {}; }}; listen-on-v6 {{ none; }}; recursion no; notify explicit;\n\
             notify-delay 0; allow-transfer {{ any; }}; }};\ncontrols {{ }};\n\
             zone \"cat\" {{ type primary; file \"cat.zone\"; allow-update {{ key transfer.example; }};\n\
             also-notify {{ {} port {}; }}; }};\n{}",
            folder.display(),
            own.port(),
            own.ip(),
            secondary.ip(),
            secondary.port(),
            zones.concat()
        )
    }
}

/// Starts a server in a folder; its catalog zone `cat` comes from `primary`.
fn consumer(folder: TempDir, address: SocketAddr, primary: SocketAddr) -> Server {
    fs::create_dir_all(folder.path().join("state")).expect("made");
    fs::create_dir_all(folder.path().join("gold")).expect("made");
    fs::write(folder.path().join("gold/two.test"), zone_text("192.0.2.99")).expect("written");
    let more = format!(
        "[template.members]\nmin-retry = \"1s\"\nmax-retry = \"1s\"\n[template.gold]\n\
         file = \"gold/{{zone}}\"\n\
         [[zone]]\nname = \"cat\"\nprimaries = [{}]\nmin-retry = \"1s\"\nmax-retry = \"1s\"\n\
         catalog-template = \"members\"\ncatalog-groups = {{ gold = \"gold\" }}\n",
        written(primary)
    );
    Server::start_at(address, folder, STATE, &more)
}

#[test]
fn members_of_a_catalog_zone_of_bind_come_go_and_are_there_after_a_restart() {
    let address = free_address();
    let Some(primary) = other("BIND", "named", &["-g", "-c"], bind(address)) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let server = consumer(folder, address, primary.address);
    eventually("its member is served", &server, || is_answered(&server, "one.test", "192.0.2.7"));
    assert_eq!(from(&server, "one.test"), "catalog cat.");
    assert_eq!(catalog(&server, "cat")["members"], 1);
    assert!(server.query(&["cat", "SOA"]).contains("REFUSED"), "it is not for clients");
    eventually("it is kept", &server, || kept(&server) == 2);

    change(&primary, "cat", &["add b.zones.cat 0 PTR two.test.", "delete a.zones.cat PTR"]);
    eventually("the new one is served", &server, || is_answered(&server, "two.test", "192.0.2.7"));
    eventually("the old one is not", &server, || server.query(&["one.test", "SOA"]).contains("REFUSED"));
    eventually("nothing is kept of it", &server, || kept(&server) == 2);

    drop(primary);
    let server = consumer(server.stop(), address, free_address());
    // From the first query on.
    assert!(is_answered(&server, "two.test", "192.0.2.7"), "{}", server.log());
    assert_eq!(from(&server, "two.test"), "catalog cat.");
    assert_eq!(catalog(&server, "cat")["members"], 1);
}

#[test]
fn a_member_is_served_by_the_template_of_its_group() {
    let address = free_address();
    let Some(primary) = other("BIND", "named", &["-g", "-c"], bind(address)) else { return };
    let server = consumer(tempfile::tempdir().expect("a folder"), address, primary.address);
    eventually("its first member is served", &server, || is_answered(&server, "one.test", "192.0.2.7"));
    change(&primary, "cat", &["add b.zones.cat 0 PTR two.test.", "add group.b.zones.cat 0 TXT gold"]);
    eventually("it is served from its file", &server, || is_answered(&server, "two.test", "192.0.2.99"));
    change(&primary, "cat", &["delete group.b.zones.cat TXT"]);
    eventually("it is taken from the primary", &server, || is_answered(&server, "two.test", "192.0.2.7"));
}

fn knot(own: SocketAddr, folder: &Path) -> String {
    for zone in ["one.test", "two.test"] {
        fs::write(folder.join(format!("{zone}.zone")), zone_text("192.0.2.8")).expect("written");
    }
    let (folder, ip, port) = (folder.display(), own.ip(), own.port());
    format!(
        "server:\n  rundir: \"{folder}\"\n  listen: {ip}@{port}\ndatabase:\n  storage: \"{folder}\"\n\
         acl:\n  - id: all\n    address: 127.0.0.0/8\n    action: transfer\n\
         zone:\n  - domain: cat\n    catalog-role: generate\n    acl: all\n\
         \x20 - domain: one.test\n    storage: \"{folder}\"\n    acl: all\n    catalog-role: member\n    \
         catalog-zone: cat\n\
         \x20 - domain: two.test\n    storage: \"{folder}\"\n    acl: all\n    catalog-role: member\n    \
         catalog-zone: cat\n\x20   catalog-group: gold\n"
    )
}

#[test]
fn members_of_a_catalog_zone_that_knot_generates_are_served() {
    let Some(primary) = other("Knot", "knotd", &["-c"], knot) else { return };
    let server = consumer(tempfile::tempdir().expect("a folder"), free_address(), primary.address);
    eventually("its member is served", &server, || is_answered(&server, "one.test", "192.0.2.8"));
    eventually("the other one, too, by its group", &server, || {
        is_answered(&server, "two.test", "192.0.2.99")
    });
}

/// Starts a server with two catalog zones in files, whose members are files in the folder `members`.
fn of_files(members: &[&str]) -> Server {
    let folder = tempfile::tempdir().expect("a folder");
    ["state", "members"].iter().for_each(|name| fs::create_dir(folder.path().join(name)).expect("made"));
    for (i, zone) in members.iter().enumerate() {
        fs::write(folder.path().join("members").join(zone), zone_text(&format!("192.0.2.{}", i + 1)))
            .expect("written");
    }
    for catalog in ["cat1", "cat2"] {
        fs::write(folder.path().join(catalog), catalog_text(1, "")).expect("written");
    }
    Server::start_in(folder, STATE, FILES)
}

const FILES: &str = "[template.members]\nfile = \"members/{zone}\"\n\
                     [[zone]]\nname = \"cat1\"\nfile = \"cat1\"\ncatalog-template = \"members\"\n\
                     [[zone]]\nname = \"cat2\"\nfile = \"cat2\"\ncatalog-template = \"members\"\n\
                     catalog-answers = true\n";

/// Puts another version of a catalog zone into service.
fn list(server: &Server, catalog: &str, serial: u32, records: &str) {
    server.write(catalog, &catalog_text(serial, records));
    server.reload();
}

#[test]
fn a_member_moves_to_the_catalog_zone_that_its_own_names() {
    let server = of_files(&["a.test"]);
    list(&server, "cat1", 2, "x.zones PTR a.test.\n");
    // The reload ends only when all consequences are in service.
    assert!(is_answered(&server, "a.test", "192.0.2.1"), "{}", server.log());
    list(&server, "cat2", 2, "x.zones PTR a.test.\n");
    assert_eq!(
        (from(&server, "a.test"), catalog(&server, "cat2")["conflicts"].clone()),
        ("catalog cat1.".into(), 1.into())
    );
    server.wait_for_log("catalog zone cat2. lists a.test. in vain", 1);
    server.reload();
    list(&server, "cat1", 3, "x.zones PTR a.test.\ncoo.x.zones PTR cat2.\n");
    assert_eq!(from(&server, "a.test"), "catalog cat2.");
    list(&server, "cat1", 4, "");
    assert!(is_answered(&server, "a.test", "192.0.2.1"));
    assert_eq!(server.log().matches("in vain").count(), 2, "once for each catalog zone: {}", server.log());
    // `cat2` is served to clients, `cat1` is not.
    assert!(server.query(&["cat2", "SOA"]).contains("NOERROR"));
    assert!(server.query(&["cat1", "SOA"]).contains("REFUSED"));
}

#[test]
fn a_broken_catalog_zone_changes_nothing() {
    let server = of_files(&["a.test"]);
    list(&server, "cat1", 2, "x.zones PTR a.test.\n");
    list(&server, "cat1", 3, "x.zones PTR a.test.\nx.zones PTR b.test.\n");
    assert!(is_answered(&server, "a.test", "192.0.2.1"));
    assert!(catalog(&server, "cat1")["fault"].as_str().is_some_and(|fault| fault.contains("PTR")));
    server.wait_for_log("catalog zone cat1.: serial 3 changes nothing", 1);
    list(&server, "cat1", 4, "");
    assert!(server.query(&["a.test", "SOA"]).contains("REFUSED"));
    assert!(catalog(&server, "cat1")["fault"].is_null());
}

#[test]
fn members_that_go_in_great_number_stay_until_they_are_forced_out() {
    let names: Vec<String> = (0..12).map(|i| format!("m{i}.test")).collect();
    let members: Vec<&str> = names.iter().map(String::as_str).collect();
    let server = of_files(&members);
    let lines: String =
        names.iter().enumerate().map(|(i, zone)| format!("m{i}.zones PTR {zone}.\n")).collect();
    list(&server, "cat1", 2, &lines);
    assert_eq!(catalog(&server, "cat1")["members"], 12);
    list(&server, "cat1", 3, "");
    assert_eq!(catalog(&server, "cat1")["held_back"], 12);
    assert!(is_answered(&server, "m0.test", "192.0.2.1"));
    server.ctl_json(&["reload", "--force"]);
    assert_eq!(catalog(&server, "cat1")["members"], 0);
    assert!(server.query(&["m0.test", "SOA"]).contains("REFUSED"));
}

#[test]
fn a_catalog_zone_that_is_configured_no_longer_takes_its_members_with_it() {
    let server = of_files(&["a.test"]);
    list(&server, "cat1", 2, "x.zones PTR a.test.\n");
    server.reconfigure("file = \"cat1\"\ncatalog-template = \"members\"\n", "file = \"cat1\"\n");
    server.reload();
    assert!(server.query(&["a.test", "SOA"]).contains("REFUSED"));
    assert!(server.query(&["cat1", "SOA"]).contains("NOERROR"), "it is a zone as any other now");
    server.reconfigure("file = \"cat1\"\n", "file = \"cat1\"\ncatalog-template = \"members\"\n");
    server.reload();
    assert!(is_answered(&server, "a.test", "192.0.2.1"), "{}", server.log());
    assert!(server.query(&["cat1", "SOA"]).contains("REFUSED"));
}

#[test]
fn zones_are_added_and_removed_at_run_time_and_a_restart_has_them() {
    let server = of_files(&["a.test", "b.test"]);
    server.ctl_json(&["zone", "add", "a.test", "--template", "members"]);
    assert!(is_answered(&server, "a.test", "192.0.2.1"), "{}", server.log());
    server.ctl_json(&["zone", "add", "B.test", "--file", "members/b.test"]);
    assert_eq!(from(&server, "b.test"), "added at run time");
    server.reload();
    assert!(is_answered(&server, "b.test", "192.0.2.2"));
    // Another state folder is used from the next start on.
    server.reconfigure(STATE, "state-dir = \"elsewhere\"\n");
    server.reload();
    assert!(is_answered(&server, "b.test", "192.0.2.2"));
    let address = server.address;
    let server = Server::start_at(address, server.stop(), STATE, FILES);
    assert!(is_answered(&server, "a.test", "192.0.2.1"), "{}", server.log());
    server.ctl_json(&["zone", "remove", "a.test"]);
    assert!(server.query(&["a.test", "SOA"]).contains("REFUSED"));
    let server = Server::start_at(address, server.stop(), STATE, FILES);
    assert!(server.query(&["a.test", "SOA"]).contains("REFUSED"));
    assert!(is_answered(&server, "b.test", "192.0.2.2"));
}

#[test]
fn what_cannot_be_added_or_removed_is_refused_and_nothing_changes() {
    let server = of_files(&["a.test", "b.test"]);
    list(&server, "cat1", 2, "x.zones PTR a.test.\n");
    for (arguments, words) in [
        (&["add", "cat1", "--template", "members"][..], "here already (configuration)"),
        (&["add", "a.test", "--template", "members"], "here already (catalog cat1.)"),
        (&["add", "c.test"], "no `file`, no `primaries` and no `template`"),
        (&["add", "c.test", "--template", "member"], "there is no [template.member]"),
        (&["add", "c.test", "--template", "members"], "No such file"),
        (&["add", "c.test", "--primaries", "192.0.2.1 key:unknown"], "there is no key unknown."),
        (&["add", "c..test", "--template", "members"], "not a domain name"),
        // Text in a name is not parsed as keys.
        (&["add", "x\"\nfile=\"y", "--template", "members"], "cannot read the file"),
        (&["remove", "cat1"], "remove it from the configuration"),
        (&["remove", "a.test"], "not added at run time (catalog cat1.)"),
        (&["remove", "c.test"], "there is no zone c.test. here"),
    ] {
        let said = refusal(&server, &[&["zone"], arguments].concat());
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
    assert!(server.query(&["c.test", "SOA"]).contains("REFUSED"));
    assert!(!server.path("state/added.toml").exists());
    // A zone added at run time has priority over a catalog zone that lists it later, until it is removed.
    server.ctl_json(&["zone", "add", "b.test", "--template", "members"]);
    list(&server, "cat1", 3, "x.zones PTR a.test.\ny.zones PTR b.test.\n");
    assert_eq!(from(&server, "b.test"), "added at run time");
    server.ctl_json(&["zone", "remove", "b.test"]);
    assert_eq!(from(&server, "b.test"), "catalog cat1.");
    eventually("it is served", &server, || is_answered(&server, "b.test", "192.0.2.2"));
}

#[test]
fn a_damaged_file_of_added_zones_is_a_fault_and_no_empty_set() {
    let server = of_files(&["a.test"]);
    server.ctl_json(&["zone", "add", "a.test", "--template", "members"]);
    server.write("state/added.toml", "[[zone]]\nname = \"a.te");
    let output = server.ctl(&["reload"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("added.toml"), "{}", text(&output.stderr));
    assert!(is_answered(&server, "a.test", "192.0.2.1"));
    let folder = server.stop();
    let output =
        nomen(&["serve", "--config", "nomen.toml"]).current_dir(folder.path()).output().expect("it runs");
    assert!(
        !output.status.success() && text(&output.stderr).contains("added.toml"),
        "{}",
        text(&output.stderr)
    );
}
