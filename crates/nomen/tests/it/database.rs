//! `nomen database`: tables, zones into a database and out of it, checks; passwords that nothing prints.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;
use testkit::postgres::{PostgresDatabase, PostgresServer};

use crate::support::{APEX, Server, eventually, nomen, run, text};

/// The tables of PowerDNS as far as they are read.
const POWERDNS: &str = "
CREATE TABLE domains (id SERIAL PRIMARY KEY, name VARCHAR(255) NOT NULL, type TEXT NOT NULL);
CREATE TABLE records (id BIGSERIAL PRIMARY KEY, domain_id INT, name VARCHAR(255), type VARCHAR(10),
    content VARCHAR(65535), ttl INT, prio INT, disabled BOOL DEFAULT 'f');
CREATE TABLE domainmetadata (id SERIAL PRIMARY KEY, domain_id INT, kind VARCHAR(32), content TEXT);
CREATE TABLE cryptokeys (id SERIAL PRIMARY KEY, domain_id INT, active BOOL);
INSERT INTO domains (name, type) VALUES ('p.example', 'NATIVE'), ('bad.example', 'NATIVE');
INSERT INTO records (domain_id, name, type, content, ttl, prio) VALUES
    (1, 'p.example', 'SOA', 'ns1.p.example h.p.example 7 10800 3600 604800 3600', 60, 0),
    (1, 'p.example', 'NS', 'ns1.p.example', 60, 0),
    (1, 'p.example', 'MX', 'mail.p.example', 60, 10),
    (2, 'bad.example', 'SOA', 'ns1.bad.example h.bad.example 7 10800 3600 604800 3600', 60, 0),
    (2, 'bad.example', 'NS', 'ns1.bad.example', 60, 0),
    (2, 'www.bad.example', 'A', '192.0.2.300', 60, 0);
INSERT INTO domainmetadata (domain_id, kind, content) VALUES (1, 'SOA-EDIT', 'INCEPTION-EPOCH');";

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Runs `nomen database`; returns the exit status, what it printed, and its messages.
fn database(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = run(folder, &[&["database"], arguments].concat());
    (status.code().expect("an end"), text(&stdout), text(&stderr))
}

/// As [`database`], but the command must succeed; returns what it printed.
fn done(folder: &Path, arguments: &[&str]) -> String {
    let (status, printed, messages) = database(folder, arguments);
    assert_eq!(status, 0, "{arguments:?}: {printed}{messages}");
    printed
}

/// A database with the tables of nomen.
fn fresh(folder: &Path) -> PostgresDatabase {
    let database = PostgresServer::shared().database();
    let printed = done(folder, &["init", "--url", &database.url()]);
    assert!(printed.contains("the schema nomen is made, version "), "{printed}");
    database
}

fn serials(database: &PostgresDatabase) -> String {
    database.sql("SELECT name, serial, coalesce(template, '') FROM nomen.zones ORDER BY name")
}

#[test]
fn tables_are_made_once() {
    let folder = folder();
    let database = fresh(folder.path());
    let url = database.url();
    let role = format!("node_{}", database.name);
    database.sql(&format!("CREATE ROLE {role} LOGIN"));
    let printed = done(folder.path(), &["init", "--url", &url, "--grant", &role]);
    assert!(
        printed.contains("is there already") && printed.contains("has the privileges of a node"),
        "{printed}"
    );
    assert!(done(folder.path(), &["migrate", "--url", &url]).contains("already"));
    // The role of a node passes the check, and one without privileges does not.
    let of_role = url.replace("nomen@", &format!("{role}@"));
    assert!(done(folder.path(), &["check", "--url", &of_role]).contains("zones: 0, records: 0, faults: 0"));
    database.sql(&format!("REVOKE INSERT ON nomen.rrsets FROM {role}"));
    let (status, _, messages) = self::database(folder.path(), &["check", "--url", &of_role]);
    assert_eq!((status, &*messages), (1, "error: the role lacks the privilege INSERT on nomen.rrsets\n"));
    // No tables, and no such role.
    let empty = PostgresServer::shared().database();
    let (status, _, messages) = self::database(folder.path(), &["check", "--url", &empty.url()]);
    assert!(status == 1 && messages.contains("run `nomen database init`"), "{status} {messages}");
    let (status, _, messages) = self::database(folder.path(), &["migrate", "--url", &empty.url()]);
    assert!(status == 1 && messages.contains("run `nomen database init`"), "{status} {messages}");
    let (status, _, messages) = self::database(folder.path(), &["init", "--url", &url, "--grant", "no\"one"]);
    assert!(status == 1 && messages.contains("does not exist"), "{status} {messages}");
}

#[test]
fn zone_files_are_imported_and_exported() {
    let folder = folder();
    let database = fresh(folder.path());
    let url = database.url();
    fs::create_dir(folder.path().join("zones")).expect("a folder");
    let in_folder = |name: &str| folder.path().join("zones").join(name);
    fs::write(in_folder("a.example.zone"), format!("{APEX}*.W TXT \"x\"\n")).expect("written");
    fs::write(in_folder("0@2f25.2.0.192.in-addr.arpa.zone"), APEX).expect("written");
    fs::write(in_folder("README"), "no zone").expect("written");
    fs::write(folder.path().join("bad.example.zone"), format!("{APEX}www A 192.0.2.300\n")).expect("written");
    fs::write(folder.path().join("other"), APEX).expect("written");
    // A dry run changes nothing.
    let printed = done(folder.path(), &["import", "--url", &url, "zones", "--dry-run"]);
    assert!(printed.contains("zone a.example.: new, serial 1, 6 records\n"), "{printed}");
    assert!(printed.contains("nothing is changed; zones: 2 new, 0 replaced,"), "{printed}");
    assert_eq!(serials(&database), "");
    let (status, printed, messages) = self::database(
        folder.path(),
        &["import", "--url", &url, "zones", "bad.example.zone", "--template", "t"],
    );
    assert_eq!(status, 1, "{printed}{messages}");
    assert!(printed.contains("zones: 2 new, 0 replaced, 0 the same already, 1 refused"), "{printed}");
    assert!(messages.contains("bad.example.zone:7:7: "), "the place of the fault: {messages}");
    done(folder.path(), &["import", "--url", &url, "other", "--zone", "c.example"]);
    assert_eq!(serials(&database).lines().count(), 3);
    assert_eq!(database.sql("SELECT DISTINCT author FROM nomen.changes"), "nomen database import");
    // Existing zones are refused, the same version is no change, and a newer one replaces it.
    let (status, _, messages) = self::database(folder.path(), &["import", "--url", &url, "zones"]);
    assert!(
        status == 1 && messages.contains("zone a.example.: the database has it already: --replace"),
        "{messages}"
    );
    let printed = done(folder.path(), &["import", "--url", &url, "zones", "--replace"]);
    assert!(printed.contains("zones: 0 new, 0 replaced, 2 the same already"), "{printed}");
    let newer = APEX.replace("admin 1 ", "admin 2 ");
    fs::write(in_folder("a.example.zone"), &newer).expect("written");
    let printed = done(folder.path(), &["import", "--url", &url, "zones", "--replace", "--template", "u"]);
    assert!(printed.contains("zones: 0 new, 2 replaced"), "{printed}");
    assert!(serials(&database).contains("a.example.|2|u\n"), "{}", serials(&database));
    fs::write(in_folder("a.example.zone"), format!("{APEX}older A 192.0.2.1\n")).expect("written");
    let (status, _, messages) =
        self::database(folder.path(), &["import", "--url", &url, "zones", "--replace"]);
    assert!(status == 1 && messages.contains("its serial 1 is not newer than 2"), "{messages}");
    // Out of it again, into files that are the same zones.
    let printed = done(folder.path(), &["export", "--url", &url, "out"]);
    assert!(printed.contains("zones written to out: 3, not written: 0"), "{printed}");
    let file = folder.path().join("out/a.example.zone");
    let out = fs::read_to_string(&file).expect("a zone");
    fs::write(folder.path().join("newer"), &newer).expect("written");
    let same = run(folder.path(), &["zone", "diff", "a.example", "newer", "out/a.example.zone"]);
    assert!(same.status.success(), "{out}{}", text(&same.stdout));
    assert_eq!(fs::read_dir(folder.path().join("out")).expect("a folder").count(), 3);
    let (status, _, messages) = self::database(folder.path(), &["export", "--url", &url, "out"]);
    assert!(status == 1 && messages.contains("a.example.zone exists: --replace replaces it"), "{messages}");
    done(folder.path(), &["export", "--url", &url, "out", "--replace", "--zone", "c.example"]);
    let (status, _, messages) =
        self::database(folder.path(), &["export", "--url", &url, "out", "--zone", "cc.example"]);
    assert!(status == 1 && messages.contains("did you mean \"c.example.\"?"), "{messages}");
}

#[test]
fn a_bad_row_is_found_by_the_check() {
    let folder = folder();
    let database = fresh(folder.path());
    fs::write(folder.path().join("a.example.zone"), APEX).expect("written");
    done(folder.path(), &["import", "--url", &database.url(), "a.example.zone"]);
    // Rows that no function of the schema would write.
    database.sql(
        "ALTER TABLE nomen.zones DISABLE TRIGGER guard; UPDATE nomen.zones SET serial = 9; \
         ALTER TABLE nomen.rrsets DISABLE TRIGGER guard",
    );
    let (status, printed, messages) =
        self::database(folder.path(), &["check", "--url", &database.url(), "--json"]);
    assert!(status == 1 && messages.is_empty(), "{printed}{messages}");
    let report: Value = serde_json::from_str(&printed).expect("JSON");
    let faults = report["faults"].to_string();
    assert!(faults.contains("nomen.zones has no trigger against changes by hand"), "{faults}");
    assert!(faults.contains("its SOA record has the serial 1, and nomen.zones has 9"), "{faults}");
    let arguments = ["import", "--url", &database.url(), "a.example.zone", "--replace"];
    let (status, _, messages) = self::database(folder.path(), &arguments);
    assert!(status == 1 && messages.contains("nomen.zones has no trigger"), "{status} {messages}");
    database.sql("UPDATE nomen.rrsets SET data = '{nonsense}' WHERE type = 'A'");
    let (status, _, messages) = self::database(folder.path(), &["check", "--url", &database.url()]);
    assert!(status == 1 && messages.contains("error: zone a.example.: "), "{messages}");
    assert!(messages.contains("ns1.a.example."), "the record is named: {messages}");
}

#[test]
fn zones_of_a_configuration_are_imported_as_updates_have_left_them() {
    let server = Server::start_in(
        folder_with("example.zone", APEX),
        "state-dir = \"state\"\n",
        "[[zone]]\nname = \"example\"\nfile = \"example.zone\"\nallow-update = [\"127.0.0.0/8\"]\n\
         [[zone]]\nname = \"taken.example\"\nprimaries = [\"127.0.0.1@1\"]\n",
    );
    let script = format!(
        "server {} {}\nzone example\nupdate add www.example. 60 A 192.0.2.80\nsend\n",
        server.address.ip(),
        server.address.port()
    );
    fs::write(server.folder.path().join("script"), script).expect("written");
    let updated = run(server.folder.path(), &["update", "script"]);
    assert!(updated.status.success(), "{}", text(&updated.stderr));
    let database = fresh(server.folder.path());
    let arguments = ["import", "--url", &database.url(), "--from-config", "nomen.toml"];
    // A running server has versions that are not on the disk yet.
    let (status, _, messages) = self::database(server.folder.path(), &arguments);
    assert!(status == 3 && messages.contains("stop the server"), "{status} {messages}");
    let folder = server.stop();
    let (status, printed, messages) = self::database(folder.path(), &arguments);
    assert_eq!(status, 0, "{printed}{messages}");
    assert_eq!(messages, "zone taken.example.: left out, it comes from primaries\n");
    assert_eq!(database.sql("SELECT data FROM nomen.rrsets WHERE name = 'www.example.'"), "{192.0.2.80}");
}

fn folder_with(name: &str, contents: &str) -> TempDir {
    let folder = folder();
    fs::write(folder.path().join(name), contents).expect("written");
    folder
}

#[test]
fn domains_of_powerdns_are_checked_imported_and_exported() {
    let folder = folder();
    let database = fresh(folder.path());
    let powerdns = PostgresServer::shared().database();
    powerdns.sql(POWERDNS);
    let (status, printed, messages) =
        self::database(folder.path(), &["check", "--url", &powerdns.url(), "--schema", "powerdns"]);
    assert_eq!(status, 1, "{printed}{messages}");
    assert!(printed.contains("the tables of PowerDNS\nzones: 2, records: 3, faults: 1\n"), "{printed}");
    let bad = "error: zone bad.example.: www.bad.example A (row 6 of records): ";
    assert!(
        messages.contains(bad) && messages.contains("warning: zone p.example.: the serial"),
        "{messages}"
    );
    let (status, printed, messages) = self::database(
        folder.path(),
        &["import", "--url", &database.url(), "--from-powerdns", &powerdns.url()],
    );
    assert_eq!(status, 1, "{printed}{messages}");
    assert!(printed.contains("zones: 1 new,") && messages.contains(bad), "{printed}{messages}");
    assert_eq!(database.sql("SELECT data FROM nomen.rrsets WHERE type = 'MX'"), "{\"10 mail.p.example.\"}");
    let url = powerdns.url();
    let arguments = ["export", "--url", &url, "--schema", "powerdns", "out", "--zone", "p.example"];
    assert!(done(folder.path(), &arguments).contains("zones written to out: 1, not written: 0"));
    // Nothing is written to its tables.
    let configuration =
        format!("[server]\nstate-dir = \"s\"\n[database]\nurl = \"{url}\"\nschema = \"powerdns\"\n");
    fs::write(folder.path().join("nomen.toml"), configuration).expect("written");
    for verb in [&["init"][..], &["migrate"], &["import", "out"]] {
        let (status, _, messages) = self::database(folder.path(), verb);
        assert!(status == 1 && messages.contains("whose tables are not changed"), "{verb:?} {messages}");
    }
    assert!(
        done(folder.path(), &["export", "again", "--zone", "p.example"])
            .contains("zones written to again: 1,")
    );
}

#[test]
fn a_node_answers_from_the_tables_of_powerdns() {
    let powerdns = PostgresServer::shared().database();
    powerdns.sql(POWERDNS);
    let server = Server::start_in(
        folder(),
        "state-dir = \"state\"\n",
        &format!("[database]\nurl = \"{}\"\nschema = \"powerdns\"\npoll = \"100ms\"\n", powerdns.url()),
    );
    let ask = |name: &str, rtype: &str| {
        let at = format!("@{}@{}", server.address.ip(), server.address.port());
        text(&run(server.folder.path(), &["query", &at, name, rtype, "+short"]).stdout)
    };
    eventually("the zone is served", &server, || ask("p.example", "MX") == "10 mail.p.example.\n");
    powerdns.sql("INSERT INTO records (domain_id, name, type, content, ttl) VALUES (1, 'n.p.example', 'A', '192.0.2.9', 60)");
    eventually("the new row is served", &server, || ask("n.p.example", "A") == "192.0.2.9\n");
    eventually("the bad zone is logged", &server, || {
        server.log().contains("www.bad.example A (row 6 of records)")
    });
}

#[test]
fn passwords_are_printed_nowhere() {
    let folder = folder();
    let database = fresh(folder.path());
    let secret = "geheim%21";
    let with_password = database.url().replace("nomen@", &format!("nomen:{secret}@"));
    let unreachable = format!("postgresql://nomen:{secret}@127.0.0.1:1/nomen");
    for arguments in [
        &["check", "--url", &with_password][..],
        &["check", "--url", &unreachable],
        &["check", "--url", "postgresql://nomen:geheim%21@/x?nonsense=1"],
        &["import", "--url", &with_password, "--from-powerdns", &unreachable],
    ] {
        let (_, printed, messages) = self::database(folder.path(), arguments);
        assert!(
            !printed.contains("geheim") && !messages.contains("geheim"),
            "{arguments:?}: {printed}{messages}"
        );
    }
    // A server that asks for the password: from the variable, from a file, from neither.
    let role = format!("secret_{}", database.name);
    let server = PostgresServer::start(&["fsync=off"]);
    let own = server.database();
    own.sql(&format!("CREATE ROLE {role} LOGIN SUPERUSER PASSWORD 'geheim'"));
    server.require_passwords();
    let url = own.url().replace("nomen@", &format!("{role}@"));
    let init = |variable: Option<&str>, arguments: &[&str]| {
        let mut command = nomen(&[&["database", "init"], arguments].concat());
        command.env_remove("PGPASSWORD").envs(variable.map(|value| ("PGPASSWORD", value)));
        command.current_dir(folder.path()).output().expect("nomen runs")
    };
    let refused = init(None, &["--url", &url]);
    assert_eq!(refused.status.code(), Some(3), "{}", text(&refused.stderr));
    let refused = init(Some("wrong"), &["--url", &url]);
    assert_eq!(refused.status.code(), Some(3), "{}", text(&refused.stderr));
    let made = init(Some("geheim"), &["--url", &url]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    fs::write(folder.path().join("url"), url.replace('@', ":geheim@") + "\n").expect("written");
    let made = init(None, &["--url-file", "url"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
}

#[test]
fn wrong_command_lines_are_refused() {
    let folder = folder();
    let unreachable = "postgresql://nomen@127.0.0.1:1/nomen";
    for (arguments, status, expected) in [
        (&["check", "--url", "http://x/"][..], 2, "no URL of a PostgreSQL database"),
        (&["check", "--url", "postgresql://localhost/x"], 2, "no user"),
        (&["check", "--url", unreachable], 3, "cannot connect to postgresql://nomen@127.0.0.1:1/nomen: "),
        (&["check", "--url-file", "missing"], 3, "cannot read missing: there is no such file"),
        (&["check"], 3, "nomen.toml"),
        (&["import", "--url", unreachable], 2, "required"),
        (&["import", "--url", unreachable, "a", "b", "--zone", "c"], 2, "--zone is for one file"),
        (&["import", "--url", unreachable, "missing.zone"], 3, "cannot read missing.zone"),
        (&["import", "--url", unreachable, "."], 1, "there is no file NAME.zone"),
        (&["import", "--url", unreachable, "a", "--from-config", "b"], 2, "cannot be used with"),
    ] {
        let (found, printed, messages) = database(folder.path(), arguments);
        assert!(found == status && messages.contains(expected), "{arguments:?}: {found} {printed}{messages}");
    }
    fs::write(folder.path().join("nomen.toml"), "[server]\n").expect("written");
    let (status, _, messages) = database(folder.path(), &["check"]);
    assert!(
        status == 1 && messages.contains("nomen.toml has no [database]; --url names a database"),
        "{messages}"
    );
}
