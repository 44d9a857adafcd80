//! Sections of the configuration in the database: `nomen database set`, `get` and `unset`, and what the nodes
//! do with them. PostgreSQL is a real one.

use std::fs;
use std::path::Path;

use serde_json::json;
use tempfile::TempDir;
use testkit::postgres::{PostgresDatabase, PostgresServer, PostgresStop};

use crate::api::{ALL, token};
use crate::changes;
use crate::database_status::{Node, database};
use crate::support::{APEX, eventually, run, text};

const RESOLVER: &str = "[resolver]\nvalidate = false\n[[resolver.forward]]\nservers = [\"127.0.0.1@9\"]\n";
/// A list that each node has as a file.
const ADS: &str = "# Advertising.\n[[policy.list]]\nname = \"ads\"\nfile = \"ads.txt\"\n";

/// A folder of a node, with the file of a list.
fn folder() -> TempDir {
    let folder = changes::folder(APEX);
    fs::write(folder.path().join("ads.txt"), "ads.example.com\n").expect("written");
    folder
}

/// Starts nodes with the resolver, and waits until they have followed the database.
fn nodes(names: [&'static str; 2], database: &PostgresDatabase, more: [&str; 2]) -> [Node; 2] {
    let admin = token("admin", ALL);
    let nodes = [0, 1].map(|at| {
        let more = format!("{RESOLVER}{}", more[at]);
        Node::start_in(folder(), names[at], &database.url(), &admin, &more)
    });
    for node in &nodes {
        eventually("the node is connected", &node.api.server, || node.is_current());
    }
    nodes
}

/// Runs `nomen database` with the database's URL; returns the exit status, what it printed, and its messages.
fn command(database: &PostgresDatabase, arguments: &[&str]) -> (i32, String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    command_in(folder.path(), &[arguments, &["--url", &database.url()]].concat())
}

fn command_in(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let output = run(folder, &[&["database"], arguments].concat());
    (output.status.code().expect("an end"), text(&output.stdout), text(&output.stderr))
}

/// Sets sections; returns what was printed.
fn set(database: &PostgresDatabase, sections: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("in.toml");
    fs::write(&file, sections).expect("written");
    let file = file.display().to_string();
    let (status, printed, messages) = command(database, &["set", &file]);
    assert_eq!(status, 0, "{printed}{messages}");
    printed
}

fn unset(database: &PostgresDatabase, kind: &str, name: &str) {
    let (status, printed, messages) = command(database, &["unset", kind, name]);
    assert_eq!(status, 0, "{printed}{messages}");
}

fn blocks(node: &Node, name: &str) -> bool {
    node.api.server.query(&[name]).contains("status: NXDOMAIN")
}

#[test]
fn lists_and_tokens_of_the_database_are_in_force_on_every_node() {
    let database = database(PostgresServer::shared());
    let nodes = nodes(["a", "b"], &database, ["", ""]);
    assert!(nodes.iter().all(|node| !blocks(node, "ads.example.com")));
    assert_eq!(set(&database, ADS), "policy.list \"ads\": new\n");
    for node in &nodes {
        eventually("the name is blocked", &node.api.server, || blocks(node, "ads.example.com"));
    }
    let certbot = token("certbot", "{ right = \"read\" }");
    for node in &nodes {
        assert_eq!(node.api.get(&certbot, "/self").status, 401);
    }
    set(&database, &certbot.block);
    for node in &nodes {
        eventually("the token is accepted", &node.api.server, || {
            node.api.get(&certbot, "/self").status == 200
        });
    }
    // One with a time in the past is refused, and so is one that is removed.
    let expired = certbot.block.replace("rights =", "expires = \"2020-01-01\"\nrights =");
    set(&database, &expired);
    for node in &nodes {
        eventually("the token has expired", &node.api.server, || {
            node.api.get(&certbot, "/self").status == 401
        });
    }
    set(&database, &certbot.block);
    for node in &nodes {
        eventually("the token is accepted", &node.api.server, || {
            node.api.get(&certbot, "/self").status == 200
        });
    }
    unset(&database, "api.token", "certbot");
    for node in &nodes {
        eventually("the token is refused", &node.api.server, || {
            node.api.get(&certbot, "/self").status == 401
        });
    }
    // The rules of a zone of the database, and a group of clients for which none counts.
    let folder = tempfile::tempdir().expect("a folder");
    let zone = format!("{APEX}rpz.example.com CNAME .\n");
    fs::write(folder.path().join("rpz.example.zone"), zone).expect("written");
    let imported = command_in(folder.path(), &["import", "--url", &database.url(), "rpz.example.zone"]);
    assert_eq!(imported.0, 0, "{imported:?}");
    set(&database, "[[policy.zone]]\nname = \"rpz.example\"\n");
    for node in &nodes {
        eventually("the rule applies", &node.api.server, || blocks(node, "rpz.example.com"));
    }
    set(&database, "[[policy.group]]\nname = \"all\"\nfrom = [\"127.0.0.0/8\"]\nlists = []\nzones = []\n");
    for node in &nodes {
        eventually("nothing is blocked", &node.api.server, || {
            !blocks(node, "rpz.example.com") && !blocks(node, "ads.example.com")
        });
    }
    let (_, printed, _) = command(&database, &["get", "policy.list", "ads"]);
    assert!(printed.ends_with(&format!("\n\n{ADS}")), "{printed}");
    let (_, printed, _) = command(&database, &["get", "api.token", "--history", "--json"]);
    let history: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!(history.as_array().map(Vec::len), Some(4), "{history}");
    assert_eq!((&history[0]["after"], &history[0]["name"]), (&json!(null), &json!("certbot")));
}

#[test]
fn a_section_that_one_node_cannot_use_is_a_fault_of_that_node_alone() {
    let database = database(PostgresServer::shared());
    let local = "[[policy.list]]\nname = \"local\"\nfile = \"ads.txt\"\n";
    let [a, b] = nodes(["a", "b"], &database, [local, ""]);
    let group = "[[policy.group]]\nname = \"kids\"\nfrom = [\"192.0.2.0/24\"]\nlists = [\"local\"]\n";
    let other = ADS.replace("ads\"", "other\"");
    set(&database, &format!("{group}{other}"));
    eventually("the other section is in force", &b.api.server, || blocks(&b, "ads.example.com"));
    eventually("all is in force", &a.api.server, || {
        let sections = &a.api.server.ctl_json(&["database"])["sections"];
        sections["in_force"] == 2 && sections["unusable"] == 0
    });
    let sections = b.api.server.ctl_json(&["database"])["sections"].clone();
    assert_eq!(
        (&sections["count"], &sections["in_force"], &sections["unusable"]),
        (&json!(2), &json!(1), &json!(1))
    );
    let why = sections["faults"][0]["why"].as_str().unwrap_or_default();
    assert!(
        why.starts_with(
            "database: policy.group \"kids\", line 4, column 10: there is no [[policy.list]] named `local`"
        ),
        "{why}"
    );
    let shown = text(&b.api.server.ctl(&["database"]).stdout);
    assert!(shown.contains("section     policy.group \"kids\": unusable: database: "), "{shown}");
    assert!(b.series("nomen_database_sections_unusable 1") && a.series("nomen_database_sections_unusable 0"));
    // Its own configuration file tells so before anything is changed.
    let folder = b.api.server.stop();
    let file = folder.path().join("in.toml");
    fs::write(&file, group.replace("kids", "more")).expect("written");
    let (status, _, messages) = command_in(folder.path(), &["set", "-c", "nomen.toml", "in.toml"]);
    assert!(
        status == 1 && messages.contains("policy.group \"more\", line 4, column 10: there is no"),
        "{messages}"
    );
    fs::write(&file, "[[policy.list]]\nname = \"x\"\nurk = 1\n").expect("written");
    let (status, _, messages) = command_in(folder.path(), &["set", "-c", "nomen.toml", "in.toml"]);
    assert!(status == 1 && messages.contains("in.toml:3:1"), "{messages}");
    let (status, _, messages) = command_in(folder.path(), &["check", "-c", "nomen.toml"]);
    assert!(status == 1 && messages.contains("policy.group \"kids\""), "{messages}");
    assert_eq!(database.sql("SELECT count(*) FROM nomen.sections"), "2");
}

#[test]
fn a_start_without_the_database_has_the_sections() {
    let postgres = PostgresServer::start(&["fsync=off"]);
    let database = database(&postgres);
    let admin = token("admin", ALL);
    let node = Node::start_in(folder(), "a", &database.url(), &admin, RESOLVER);
    eventually("the node is connected", &node.api.server, || node.is_current());
    let shared = token("shared", "{ right = \"read\" }");
    set(&database, &format!("{ADS}{}", shared.block));
    eventually("the name is blocked", &node.api.server, || blocks(&node, "ads.example.com"));
    postgres.stop(PostgresStop::Fast);
    assert_eq!(node.api.get(&shared, "/self").status, 200);
    let folder = node.api.server.stop();
    let node = Node::start_in(folder, "a", &database.url(), &admin, RESOLVER);
    assert!(blocks(&node, "ads.example.com"));
    assert_eq!(node.api.get(&shared, "/self").status, 200);
    // What was removed meanwhile is found after the next connection.
    postgres.start_again();
    unset(&database, "api.token", "shared");
    eventually("the token is refused", &node.api.server, || node.api.get(&shared, "/self").status == 401);
    assert!(blocks(&node, "ads.example.com"));
    // A bit of each file changes on the disk: the start is that of a new node, until it is connected.
    let records = ["@ 3600 NS ns1.example.net.", "www 60 A 192.0.2.1"];
    node.api.post(&admin, "/zones", &json!({"name": "kept.test", "records": records})).with(201);
    let folder = node.api.server.stop();
    postgres.stop(PostgresStop::Fast);
    let files = ["database-zones", "database-position", "database-sections"];
    for name in files {
        let file = folder.path().join("state").join(name);
        let mut bytes = fs::read(&file).expect("read");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        fs::write(&file, bytes).expect("written");
    }
    let node = Node::start_in(folder, "a", &database.url(), &admin, RESOLVER);
    for name in files {
        let is_named = |line: &str| line.contains(name) && line.contains("was cut or changed");
        eventually("the damage is logged", &node.api.server, || node.api.server.log().lines().any(is_named));
    }
    assert!(!blocks(&node, "ads.example.com") && node.address("www.kept.test").is_empty());
    postgres.start_again();
    eventually("the zone is served", &node.api.server, || node.address("www.kept.test") == "192.0.2.1\n");
    eventually("the name is blocked", &node.api.server, || blocks(&node, "ads.example.com"));
}
