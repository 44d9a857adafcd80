//! Zones of the database that the nodes sign: one node maintains the keys and signatures, the next one
//! takes over with the same keys, and all of them serve the same versions. PostgreSQL is a real one.

use std::process::Command;

use serde_json::json;
use testkit::postgres::{PostgresDatabase, PostgresServer, PostgresStop};

use crate::api::{ALL, Token, token};
use crate::changes;
use crate::database_status::{Node, database};
use crate::support::{APEX, eventually, run, text};
use crate::zone_signing::{keys, policy, serial, state, tag, verify, wait_settled};

const ZONE: &str = "signed.test";
const RECORDS: &str = "@ 1 SOA ns1 admin 1 3600 600 86400 1\n@ 1 NS ns1\nns1 1 A 192.0.2.1\n";

/// Starts a node that signs the zones of the database, and waits until it has followed it.
fn node(name: &str, database: &PostgresDatabase, admin: &Token) -> Node {
    let more = format!(
        "template = \"signed\"\n[template.signed]\ndnssec-policy = \"two\"\napi = true\n\
         allow-transfer = [\"any\"]\n{}",
        policy("two", "single-key = false\n")
    );
    let node = Node::start_in(changes::folder(APEX), name, &database.url(), admin, &more);
    eventually("the node is connected", &node.api.server, || node.is_current());
    node
}

/// Waits until the node has the newest version of the database.
fn follow(node: &Node, database: &PostgresDatabase) {
    let server = &node.api.server;
    eventually("the newest version", server, || {
        database.sql("SELECT serial FROM nomen.zones") == serial(server, ZONE).to_string()
    });
}

/// The tags of the keys that a node shows, and which of them have a DNSKEY record that all caches have.
fn shown(node: &Node) -> Vec<(String, String)> {
    let mut keys: Vec<(String, String)> =
        keys(&node.api.server, ZONE).iter().map(|key| (tag(key), state(key, "dnskey").to_owned())).collect();
    keys.sort();
    keys
}

#[test]
fn another_node_takes_over_with_the_same_keys() {
    let database = database(PostgresServer::shared());
    let admin = token("admin", ALL);
    let a = node("a", &database, &admin);
    let records =
        ["@ 1 SOA ns1 admin 1 3600 600 86400 1", "@ 1 NS ns1", "ns1 1 A 192.0.2.1", "www 1 A 192.0.2.1"];
    a.api.post(&admin, "/zones", &json!({"name": ZONE, "records": records})).with(201);
    wait_settled(&a.api.server, ZONE);
    let b = node("b", &database, &admin);
    follow(&b, &database);
    verify(&b.api.server, ZONE);
    assert_eq!(shown(&a).len(), 2);
    eventually("both show the same", &b.api.server, || shown(&a) == shown(&b));
    // The private keys are in no file of the nodes, no log and no reply.
    let secret = database.sql("SELECT substring(private FROM 'PrivateKey: (.*)') FROM nomen.keys LIMIT 1");
    let secret = secret.lines().next().expect("a line");
    assert!(secret.len() > 40, "{secret}");
    for node in [&a, &b] {
        let found = Command::new("grep").args(["-rlF", secret]).arg(node.api.server.folder.path()).output();
        let found = found.expect("grep runs");
        assert_eq!(text(&found.stdout), "");
        let all = node.api.get(&admin, &format!("/zones/{ZONE}/keys")).body;
        assert!(!all.contains(secret) && !node.api.server.log().contains(secret), "{all}");
    }
    // The file of the zone would be served without signatures.
    let file = format!("{ZONE}.zone");
    b.api.server.write(&file, &RECORDS.replace("admin 1 ", "admin 99 "));
    let import = ["database", "import", "--replace", "--url", &database.url(), &file];
    let refused = run(b.api.server.folder.path(), &import);
    assert!(text(&refused.stderr).contains("the nodes sign it"), "{refused:?}");
    // The node that signs dies, and the other one goes on with its rollover.
    let zsk = keys(&b.api.server, ZONE).iter().find(|key| key["role"] == "ZSK").map(tag).expect("a ZSK");
    assert_eq!(database.sql("SELECT node FROM nomen.signer"), "a");
    let rolled = b.api.server.ctl(&["key", "roll", ZONE, "--role", "zsk"]);
    assert!(rolled.status.success(), "{rolled:?}");
    a.api.server.kill();
    eventually("the other node signs", &b.api.server, || {
        database.sql("SELECT node FROM nomen.signer") == "b"
    });
    eventually("the rollover ends", &b.api.server, || {
        let key = keys(&b.api.server, ZONE).into_iter().find(|key| tag(key) == zsk);
        key.is_some_and(|key| state(&key, "dnskey") == "hidden")
    });
    assert_eq!(keys(&b.api.server, ZONE).len(), 3, "one new key");
    b.api.edit(&admin, ZONE, json!({"op": "delete", "name": format!("www.{ZONE}."), "type": "A"})).with(200);
    verify(&b.api.server, ZONE);
}

#[test]
fn without_the_database_signed_zones_stay_and_the_fault_is_shown() {
    let server = PostgresServer::start(&["fsync=off"]);
    let database = database(&server);
    let admin = token("admin", ALL);
    let a = node("a", &database, &admin);
    // The keys come with the zone.
    let folder = a.api.server.folder.path();
    std::fs::create_dir(folder.join("keys")).expect("made");
    let generated = ["ksk", "zsk"].map(|role| {
        let made = run(folder, &["key", "generate", ZONE, "--role", role, "-K", "keys"]);
        let stem = text(&made.stdout);
        stem.trim_end().rsplit('+').next().map(|tag| tag.trim_start_matches('0').to_owned()).expect("a tag")
    });
    let file = format!("{ZONE}.zone");
    a.api.server.write(&file, RECORDS);
    let import = ["database", "import", "--keys", "keys", "--url", &database.url(), &file];
    let imported = run(folder, &import);
    assert!(imported.status.success(), "{imported:?}");
    wait_settled(&a.api.server, ZONE);
    let tags: Vec<String> = keys(&a.api.server, ZONE).iter().map(tag).collect();
    assert!(tags.len() == 2 && generated.iter().all(|tag| tags.contains(tag)), "{generated:?} {tags:?}");
    server.stop(PostgresStop::Immediate);
    eventually("the node has noticed", &a.api.server, || {
        a.api.server.ctl_json(&["database"])["connected"] == false
    });
    let refused = a.api.server.ctl(&["zone", "sign", ZONE]);
    assert!(text(&refused.stderr).contains("the database is not available"), "{refused:?}");
    let status = a.api.server.ctl_json(&["zone", "status", ZONE]);
    assert!(status["signing"]["fault"].to_string().contains("not available"), "{status}");
    verify(&a.api.server, ZONE);
}
