//! Following: domains that come, change and go; connections that break; replicas; what may not be written.

use database::{CommitEnd, CommitStep, DatabaseFault, ZoneCommit};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Instant;
use testkit::postgres::{PostgresDatabase, PostgresServer, PostgresStop};
use wire::Type;
use zone::store::diff;

use crate::TABLES;
use crate::sink::{Node, data, domain, fresh, row};

/// Ends all sessions of nodes.
fn cut(database: &PostgresDatabase) {
    database.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE datname = current_database() AND application_name LIKE 'nomen %'",
    );
}

fn raise(database: &PostgresDatabase, id: database::ZoneId, from: u32, to: u32) {
    database.sql(&format!(
        "UPDATE records SET content = replace(content, ' {from} ', ' {to} ') WHERE domain_id = {id} AND type = 'SOA'"
    ));
}

#[test]
fn domains_come_change_and_go() {
    let database = fresh();
    let first = domain(&database, "first.example", 7);
    let node = Node::start(&database.url());
    let zone = node.version(first, 7);
    assert_eq!(data(&zone, "ns1.first.example.", Type::A), ["192.0.2.1"]);
    // A domain that is new.
    let second = domain(&database, "second.example", 1);
    node.version(second, 1);
    // Another serial, with a row that goes.
    database.sql(&format!("DELETE FROM records WHERE domain_id = {first} AND type = 'A'"));
    raise(&database, first, 7, 8);
    assert_eq!(data(&node.version(first, 8), "ns1.first.example.", Type::A), [""; 0]);
    // A new row, the serial as before.
    row(&database, &first.to_string(), "new.first.example", "A", "192.0.2.9");
    let has_new = |name: &str| {
        let name = name.to_owned();
        move |held: &crate::sink::Held| {
            held.version.as_ref().is_some_and(|zone| data(zone, &name, Type::A) == ["192.0.2.9"])
        }
    };
    node.until("the new row", first, has_new("new.first.example."));
    // A name that changes is another zone; one that is deleted goes.
    database.sql(&format!("UPDATE domains SET name = 'third.example' WHERE id = {second}"));
    database.sql(&format!(
        "UPDATE records SET name = replace(name, 'second', 'third') WHERE domain_id = {second}"
    ));
    node.until("the new name", second, |held| {
        held.version.as_ref().is_some_and(|zone| zone.apex().as_name().to_string() == "third.example.")
    });
    database.sql(&format!("DELETE FROM domains WHERE id = {first}"));
    node.gone(first);
    node.status("one zone", |status| (status.connected, status.zones, status.unfit) == (true, 1, 0));
}

#[test]
fn a_change_without_a_serial_is_found_after_a_connection() {
    let database = fresh();
    let (same, other) = (domain(&database, "same.example", 1), domain(&database, "other.example", 1));
    let node = Node::start(&database.url());
    node.version(same, 1);
    node.version(other, 1);
    database
        .sql(&format!("UPDATE records SET content = '192.0.2.77' WHERE domain_id = {other} AND type = 'A'"));
    cut(&database);
    node.connects(2);
    node.until("the other address", other, |held| {
        held.version.as_ref().is_some_and(|zone| data(zone, "ns1.other.example.", Type::A) == ["192.0.2.77"])
    });
    assert_eq!(node.until("one reading", same, |_| true).contents, 1, "what is the same is not read again");
}

#[test]
fn a_domain_that_cannot_be_served_can_be_mended() {
    let database = fresh();
    let id = domain(&database, "bad.example", 1);
    row(&database, &id.to_string(), "www.bad.example", "A", "192.0.2.300");
    let node = Node::start(&database.url());
    let why = node.until("the fault", id, |held| held.unfit.is_some()).unfit.expect("a reason");
    assert!(why.contains("www.bad.example A (row "), "{why}");
    database.sql("DELETE FROM records WHERE content = '192.0.2.300'");
    raise(&database, id, 1, 2);
    node.version(id, 2);
    // A key that PowerDNS signs with, and PRESIGNED without NSEC records.
    database.sql(&format!("INSERT INTO cryptokeys (domain_id, flags, active) VALUES ({id}, 257, true)"));
    node.until("keys", id, |held| held.unfit.as_ref().is_some_and(|why| why.contains("cryptokeys")));
    database.sql(&format!(
        "INSERT INTO domainmetadata (domain_id, kind, content) VALUES ({id}, 'PRESIGNED', '1')"
    ));
    node.until("no chain", id, |held| held.unfit.as_ref().is_some_and(|why| why.contains("PRESIGNED")));
    database.sql("DELETE FROM cryptokeys; DELETE FROM domainmetadata");
    node.until("no keys", id, |held| held.unfit.is_none());
}

#[test]
fn what_is_missing_is_named() {
    let database = PostgresServer::shared().database();
    let node = Node::start(&database.url());
    node.fault("these are not the tables of PowerDNS");
    database.sql(TABLES);
    node.connects(1);
    // A role with the privileges of docs/DATABASE.md, and one without those on the keys.
    let role = format!("r{}", database.name);
    let id = domain(&database, "p.example", 1);
    database.sql(&format!(
        "CREATE ROLE {role} LOGIN; GRANT SELECT ON domains, records, domainmetadata TO {role}"
    ));
    let url = database.url().replace("nomen@", &format!("{role}@"));
    let node = Node::start(&url);
    node.fault("permission denied for table cryptokeys: the role needs SELECT, see docs/DATABASE.md");
    database.sql(&format!("GRANT SELECT (domain_id, active) ON cryptokeys TO {role}"));
    node.version(id, 1);
}

#[test]
fn nothing_is_written() {
    let database = fresh();
    let id = domain(&database, "a.example", 1);
    let node = Node::start(&database.url());
    let before = node.version(id, 1);
    let step = CommitStep { change: Arc::new(diff(&before, &before)), author: "test".into() };
    let apex = before.apex().into();
    let commit = ZoneCommit {
        zone: id,
        apex,
        before: Arc::clone(&before),
        after: before,
        steps: vec![step],
        keys: None,
        since: Instant::now(),
    };
    let (done, end) = channel();
    node.database.commit(commit, Box::new(move |end| done.send(end).expect("a receiver")));
    match end.recv().expect("an end") {
        CommitEnd::Refused(why) => assert!(why.contains("read only"), "{why}"),
        end => panic!("{end:?}"),
    }
    let (done, end) = channel();
    node.database.remove(id, "test".into(), Box::new(move |end| done.send(end).expect("a receiver")));
    assert!(matches!(end.recv().expect("an end"), Err(DatabaseFault::Refused(_))));
    let (done, end) = channel();
    node.database.nodes(Box::new(move |end| done.send(end).expect("a receiver")));
    assert!(matches!(end.recv().expect("an end"), Err(DatabaseFault::Refused(_))));
    let sql = "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables";
    database.sql("SELECT pg_stat_force_next_flush()");
    assert_eq!(database.sql(sql), "4", "only what this test has inserted");
}

#[test]
fn a_replica_serves_unless_it_is_behind() {
    let primary = PostgresServer::start(&["fsync=off"]);
    let database = primary.database();
    database.sql(TABLES);
    let id = domain(&database, "r.example", 1);
    let replica = primary.replica();
    let of_replica = replica.existing(&database.name);
    let reader = Node::start(&of_replica.url());
    reader.version(id, 1);
    raise(&database, id, 1, 2);
    reader.version(id, 2);
    // A node of both, which reads the primary while the replica stands still.
    let both = format!(
        "postgresql://nomen@127.0.0.1:{},127.0.0.1:{}/{}",
        primary.port(),
        replica.port(),
        database.name
    );
    of_replica.sql("SELECT pg_wal_replay_pause()");
    raise(&database, id, 2, 3);
    let node = Node::start(&both);
    node.version(id, 3);
    primary.stop(PostgresStop::Fast);
    node.fault("bytes of log behind");
    assert_eq!(node.version(id, 3).serial(), wire::Serial(3));
    of_replica.sql("SELECT pg_wal_replay_resume()");
    node.connects(2);
}
