//! Operators of nodes with a database: what `nomen ctl`, metrics, `/readyz` and the API show of it, and zones
//! that programs create in it and remove from it. PostgreSQL is a real one.

use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::postgres::{PostgresDatabase, PostgresServer, PostgresStop};

use crate::api::{ALL, Api, Token, curl, token};
use crate::changes;
use crate::metrics::http;
use crate::support::{APEX, Server, TEST_TIMEOUT, eventually, free_address, message, run, text, written};

/// First records of a zone.
const RECORDS: [&str; 2] = ["@ 3600 NS ns1.example.net.", "www 60 A 192.0.2.1"];

/// Makes a database with the tables of nomen.
pub(crate) fn database(server: &PostgresServer) -> PostgresDatabase {
    let (database, folder) = (server.database(), tempfile::tempdir().expect("a folder"));
    let made = run(folder.path(), &["database", "init", "--url", &database.url()]);
    assert!(made.status.success(), "{made:?}");
    database
}

/// A node: a server with its API, metrics and the database.
pub(crate) struct Node {
    pub(crate) api: Api,
    metrics: SocketAddr,
}

impl Node {
    fn start(name: &str, url: &str, admin: &Token) -> Node {
        Self::start_in(changes::folder(APEX), name, url, admin, "")
    }

    pub(crate) fn start_in(folder: TempDir, name: &str, url: &str, admin: &Token, more: &str) -> Node {
        let metrics = free_address();
        let more = format!(
            "[metrics]\nlisten = {}\n[database]\nurl = \"{url}\"\nnode = \"{name}\"\npoll = \"100ms\"\n\
             timeout = \"2s\"\n{more}",
            written(metrics)
        );
        Node { api: Api::start_in(folder, "", &[admin], &more), metrics }
    }

    /// Starts it and waits until it has followed the database.
    pub(crate) fn connected(name: &str, url: &str, admin: &Token) -> Node {
        let node = Self::start(name, url, admin);
        eventually("the node is connected", &node.api.server, || node.is_current());
        node
    }

    pub(crate) fn is_current(&self) -> bool {
        let state = self.api.server.ctl_json(&["database"]);
        state["connected"] == true && !state["current_at"].is_null()
    }

    pub(crate) fn address(&self, name: &str) -> String {
        self.api.server.query(&[name, "A", "+short"])
    }

    pub(crate) fn series(&self, line: &str) -> bool {
        http(self.metrics, "GET /metrics").lines().any(|found| found == line)
    }

    fn ready(&self) -> String {
        http(self.metrics, "GET /readyz")
    }
}

fn zone(name: &str) -> Value {
    json!({"name": name, "records": RECORDS})
}

/// An edit that sets the address of a name.
fn address(name: &str, address: &str) -> Value {
    json!({"op": "replace", "name": name, "type": "A", "ttl": 60, "records": [address]})
}

#[test]
fn zones_that_programs_create_are_in_the_database_and_on_every_node() {
    let database = database(PostgresServer::shared());
    let admin = token("admin", ALL);
    let [a, b] = ["a", "b"].map(|name| Node::connected(name, &database.url(), &admin));
    a.api.post(&admin, "/zones", &zone("new.test")).with(201);
    assert_eq!(a.address("www.new.test"), "192.0.2.1\n", "it is served when the reply comes");
    eventually("the other node serves it", &b.api.server, || b.address("www.new.test") == "192.0.2.1\n");
    let again = b.api.post(&admin, "/zones", &zone("new.test"));
    assert_eq!(again.status, 409, "{again:?}");
    let author = database.sql("SELECT author FROM nomen.changes WHERE kind = 'create'");
    assert_eq!(author, "edit by admin from 127.0.0.1");
    // The history has the changes of both nodes.
    b.api.edit(&admin, "new.test", address("www.new.test.", "192.0.2.2")).with(200);
    eventually("the change is everywhere", &a.api.server, || a.address("www.new.test") == "192.0.2.2\n");
    let history = a.api.get(&admin, "/zones/new.test/history").with(200);
    let versions = history["versions"].as_array().expect("versions");
    let shown: Vec<[&Value; 3]> =
        versions.iter().map(|one| [&one["kind"], &one["node"], &one["by"]]).collect();
    let by = json!("edit by admin from 127.0.0.1");
    assert_eq!(shown, [[&json!("change"), &json!("b"), &by], [&json!("create"), &json!("a"), &by]]);
    let removed = a.api.send(&admin, "DELETE", "/zones/new.test", &json!({}), &[]);
    assert_eq!(removed.status, 200, "{removed:?}");
    let refused = |node: &Node| node.api.server.query(&["www.new.test"]).contains("status: REFUSED");
    assert!(refused(&a), "it is not served when the reply comes");
    eventually("it is gone", &b.api.server, || refused(&b));
    assert_eq!(database.sql("SELECT count(*) FROM nomen.zones"), "0");
    // The API of PowerDNS, and the removal by an operator.
    let body =
        json!({"name": "pdns.test.", "kind": "Native", "nameservers": ["ns1.example.net."]}).to_string();
    let zones = format!("http://{}/api/v1/servers/localhost/zones", b.api.at);
    let key = format!("X-API-Key: {}", admin.secret);
    assert_eq!(curl(&["-H", &key, "-d", &body, &zones]).with(201)["kind"], "Native");
    assert_eq!(database.sql("SELECT name FROM nomen.zones"), "pdns.test.");
    eventually("the other node has it", &a.api.server, || {
        a.api.get(&admin, "/zones/pdns.test").status == 200
    });
    a.api.server.ctl_json(&["zone", "remove", "pdns.test"]);
    assert_eq!(database.sql("SELECT count(*) FROM nomen.zones"), "0");
}

#[test]
fn what_cannot_be_created_in_the_database_leaves_nothing() {
    let database = database(PostgresServer::shared());
    let admin = token("admin", ALL);
    let node = Node::connected("a", &database.url(), &admin);
    for (body, status, words) in [
        (json!({"name": "example", "records": RECORDS}), 409, "there is such a zone here already"),
        (json!({"name": "t.test", "records": RECORDS, "template": "none"}), 422, "no template `none`"),
        (json!({"name": "t.test", "records": ["@ 60 TXT x"]}), 422, "no NS record"),
        (
            json!({"name": "t.test", "records": ["@ 60 NS a.", "w 60 CNAME a.", "w 60 A 192.0.2.1"]}),
            422,
            "CNAME",
        ),
        (json!({"name": "t.test@nowhere", "records": RECORDS}), 422, "no [[view]]"),
    ] {
        let got = node.api.post(&admin, "/zones", &body);
        assert!(got.status == status && got.body.contains(words), "{body}: {got:?}");
    }
    assert_eq!(database.sql("SELECT count(*) FROM nomen.zones"), "0");
    assert_eq!(database.sql("SELECT count(*) FROM nomen.changes"), "0");
}

#[test]
fn operators_see_the_connection_the_nodes_and_zones_that_are_not_served() {
    let database = database(PostgresServer::shared());
    let admin = token("admin", ALL);
    let template = "[template.customers]\nserial-policy = \"increment\"\n";
    let a = Node::start_in(changes::folder(APEX), "a", &database.url(), &admin, template);
    eventually("the node is connected", &a.api.server, || a.is_current());
    let b = Node::connected("b", &database.url(), &admin);
    a.api.post(&admin, "/zones", &zone("plain.test")).with(201);
    let mut with_template = zone("special.test");
    with_template["template"] = "customers".into();
    a.api.post(&admin, "/zones", &with_template).with(201);
    assert_eq!(database.sql("SELECT template FROM nomen.zones WHERE name = 'special.test.'"), "customers");
    eventually("both nodes have reported all changes", &b.api.server, || {
        let nodes = b.api.get(&admin, "/database").with(200)["nodes"].clone();
        let nodes = nodes.as_array().cloned().unwrap_or_default();
        nodes.len() == 2 && nodes.iter().all(|node| node["behind"] == 0)
    });
    let state = b.api.server.ctl_json(&["database"]);
    assert_eq!(
        (&state["connected"], &state["node"], &state["schema"]),
        (&json!(true), &json!("b"), &json!("nomen"))
    );
    assert_eq!(
        (&state["zones"], &state["unserved"], &state["lag_seconds"]),
        (&json!(2), &json!(1), &json!(0.0))
    );
    assert_eq!(state["unserved_zones"], json!([{"zone": "special.test.", "why": "no such template here"}]));
    let shown = text(&b.api.server.ctl(&["database"]).stdout);
    for words in
        ["database    connected to 127.0.0.1", "this node has all of them", "not served  special.test."]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(shown.lines().any(|line| line.starts_with("a ")), "{shown}");
    assert_eq!(a.api.server.ctl_json(&["database"])["commits"]["conflict"], 0);
    assert_eq!(b.api.server.ctl_json(&["status"])["database"]["connected"], true);
    for line in [
        "nomen_database_connected 1",
        "nomen_database_zones 2",
        "nomen_database_zones_unserved 1",
        "nomen_database_lag_seconds 0",
        "nomen_database_commits_total{result=\"committed\"} 0",
    ] {
        assert!(b.series(line), "{line}");
    }
    assert!(b.ready().starts_with("HTTP/1.1 200"), "{}", b.ready());
    a.api.edit(&admin, "plain.test", address("www.plain.test.", "192.0.2.9")).with(200);
    assert!(a.series("nomen_database_commits_total{result=\"committed\"} 3"));
    assert!(a.series("nomen_database_commit_seconds_count 3"));
}

#[test]
fn without_the_database_zones_are_answered_and_changes_are_refused() {
    let postgres = PostgresServer::start(&["fsync=off"]);
    let database = database(&postgres);
    let admin = token("admin", ALL);
    let node = Node::connected("a", &database.url(), &admin);
    node.api.post(&admin, "/zones", &zone("kept.test")).with(201);
    postgres.stop(PostgresStop::Fast);
    eventually("the node has noticed", &node.api.server, || node.series("nomen_database_connected 0"));
    for (what, got) in [
        ("create", node.api.post(&admin, "/zones", &zone("other.test"))),
        ("edit", node.api.edit(&admin, "kept.test", address("www.kept.test.", "192.0.2.7"))),
        ("remove", node.api.send(&admin, "DELETE", "/zones/kept.test", &json!({}), &[])),
    ] {
        assert!(got.status == 503 && got.body.contains("the database is not available"), "{what}: {got:?}");
    }
    assert_eq!(node.address("www.kept.test"), "192.0.2.1\n");
    assert!(node.ready().starts_with("HTTP/1.1 200"), "{}", node.ready());
    let state = node.api.get(&admin, "/database").with(200);
    assert!(state["connected"] == false && state["fault"].is_string(), "{state}");
    assert!(state["lag_seconds"].as_f64() > Some(0.0) && state["nodes_fault"].is_string(), "{state}");
    let shown = text(&node.api.server.ctl(&["database"]).stdout);
    assert!(shown.starts_with("database    not connected since "), "{shown}");
    // The history is the one in the state folder.
    assert!(node.api.get(&admin, "/zones/kept.test/history").with(200)["versions"].is_array());
    // The next run has the zone from the state folder; a new node has nothing to answer from.
    let folder = node.api.server.stop();
    let node = Node::start_in(folder, "a", &database.url(), &admin, "");
    assert_eq!(node.address("www.kept.test"), "192.0.2.1\n");
    assert!(node.ready().starts_with("HTTP/1.1 200"), "{}", node.ready());
    let new = Node::start("b", &database.url(), &admin);
    let unready = new.ready();
    assert!(unready.starts_with("HTTP/1.1 503") && unready.contains("have not been read"), "{unready}");
    postgres.start_again();
    eventually("the new node has the zone", &new.api.server, || {
        new.address("www.kept.test") == "192.0.2.1\n"
    });
    assert!(new.ready().starts_with("HTTP/1.1 200"), "{}", new.ready());
    eventually("the node is connected again", &node.api.server, || node.is_current());
    node.api.edit(&admin, "kept.test", address("www.kept.test.", "192.0.2.8")).with(200);
}

#[test]
fn a_server_without_a_database_says_so() {
    let admin = token("admin", ALL);
    let api = Api::start("", &[&admin]);
    let got = api.get(&admin, "/database");
    assert!(got.status == 409 && got.body.contains("[database]"), "{got:?}");
    assert_eq!(api.server.ctl_json(&["status"])["database"], Value::Null);
}

/// Forwards connections to a port of this host. `first` runs before the first one is forwarded. Returns the
/// port of the proxy.
fn proxy(to: u16, first: impl FnOnce() + Send + 'static) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let mut first = Some(first);
    std::thread::spawn(move || {
        for near in listener.incoming() {
            let near = near.expect("a connection");
            first.take().into_iter().for_each(|first| first());
            let far = TcpStream::connect((Ipv4Addr::LOCALHOST, to)).expect("a connection");
            for (from, to) in [(&near, &far), (&far, &near)] {
                let (mut from, mut to) = (from.try_clone().expect("a copy"), to.try_clone().expect("a copy"));
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
            }
        }
    });
    port
}

#[test]
fn a_query_that_comes_before_the_first_zones_of_the_database_waits_for_them() {
    let database = database(PostgresServer::shared());
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("first.test.zone"), format!("{APEX}www A 192.0.2.1\n"))
        .expect("written");
    let imported = run(folder.path(), &["database", "import", "--url", &database.url(), "first.test.zone"]);
    assert!(imported.status.success(), "{imported:?}");
    let (address, client) = (free_address(), UdpSocket::bind("127.0.0.1:0").expect("a socket"));
    let asking = client.try_clone().expect("a copy");
    // A server that answers before it has the zones does so now.
    let first = move || {
        asking.send_to(&message(7, "www.first.test", 1), address).expect("sent");
        asking.set_read_timeout(Some(Duration::from_secs(2))).expect("a timeout");
        let _ = asking.peek(&mut [0; 512]);
        asking.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    };
    let url = database.url_at(proxy(PostgresServer::shared().port(), first));
    let sections = format!("[database]\nurl = \"{url}\"\ntimeout = \"60s\"\n");
    // The server has no file of the zone.
    let empty = tempfile::tempdir().expect("a folder");
    let server = Server::start_at(address, empty, "state-dir = \"state\"\n", &sections);
    let (mut reply, mut again) = ([0; 512], [0; 512]);
    let size = client.recv(&mut reply).expect("a reply");
    assert_eq!((reply[3] & 15, reply[7]), (0, 1), "an answer, not a refusal: {}", server.log());
    // The next start has its zones, and waits for nothing.
    let state = server.stop();
    let closed = free_address();
    let url = database.url_at(closed.port());
    let sections = format!("[database]\nurl = \"{url}\"\n");
    let server = Server::start_at(address, state, "state-dir = \"state\"\n", &sections);
    client.send_to(&message(7, "www.first.test", 1), address).expect("sent");
    assert_eq!(client.recv(&mut again).expect("a reply"), size);
    assert_eq!(again[..size], reply[..size], "{}", server.log());
}

#[test]
fn an_empty_node_that_cannot_reach_its_database_answers_from_its_own_zones() {
    let url = format!("postgresql://nomen@127.0.0.1:{}/none", free_address().port());
    let sections =
        format!("[database]\nurl = \"{url}\"\n[[zone]]\nname = \"example\"\nfile = \"example.zone\"\n");
    let server = Server::start_in(changes::folder(APEX), "state-dir = \"state\"\n", &sections);
    server.wait_for_log("queries are answered without the zones of the database", 1);
    assert!(server.query(&["example", "SOA", "+short"]).contains("admin"));
    assert!(server.query(&["first.test", "SOA"]).contains("status: REFUSED"));
}
