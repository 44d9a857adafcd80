//! Nodes that follow a database: new zones, steps, zones that are removed, nodes that were away.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use database::{CommitEnd, DatabaseSettings};
use testkit::postgres::PostgresServer;

use crate::commits::bump;
use crate::node::{Event, Node, admin, assert_same, commit, fresh, new_zone, settings, zone};

#[test]
fn what_one_node_changes_reaches_the_other() {
    let database = fresh();
    let (a, b) = (Node::start(&database.url(), "a"), Node::start(&database.socket_url(), "b"));
    let first = zone("example.", 1, "www A 192.0.2.7");
    let id = a.create(&first).expect("a zone");
    assert_same(&b.sink.version(id, 1), &first);
    let second = zone("example.", 2, "www A 192.0.2.8\nmail MX 10 www");
    assert!(matches!(a.commit(commit(id, &first, &second)), CommitEnd::Committed));
    assert_same(&b.sink.version(id, 2), &second);
    // The node that made the change may get it, too.
    assert_same(&a.sink.version(id, 2), &second);
    let steps = b.sink.take_events().into_iter().filter(|event| *event == Event::Steps(id, 1)).count();
    assert_eq!(steps, 1, "a change comes as a step");
    assert_eq!(a.database.counts().committed.load(std::sync::atomic::Ordering::Relaxed), 2);
}

#[test]
fn a_zone_that_is_removed_and_made_anew_is_another_one() {
    let database = fresh();
    let (a, b) = (Node::start(&database.url(), "a"), Node::start(&database.url(), "b"));
    let first = zone("example.", 1, "");
    let id = a.create(&first).expect("a zone");
    assert_eq!(a.create(&first), Err(database::DatabaseFault::Exists));
    b.sink.version(id, 1);
    assert_eq!(a.remove(id), Ok(()));
    assert_eq!(a.remove(id), Err(database::DatabaseFault::Gone));
    let anew = a.create(&first).expect("a zone");
    assert_ne!(anew, id);
    b.sink.gone(id);
    assert_same(&b.sink.version(anew, 1), &first);
    let late = a.commit(commit(id, &first, &zone("example.", 2, "")));
    assert!(matches!(late, CommitEnd::Gone), "{late:?}");
}

#[test]
fn many_changes_in_one_batch_keep_their_order() {
    let database = fresh();
    let admin = admin(&database);
    let node = Node::start(&database.url(), "a");
    node.current();
    // Zones of one name in turn, with changes.
    let first = zone("example.", 1, "");
    let mut last = None;
    for round in 0..20 {
        let id = admin.create(&[new_zone(&first)]).expect("made")[0].expect("a free name");
        admin.replace(id, None, &zone("example.", 2 + round, "x A 192.0.2.3"), "test").expect("replaced");
        admin.set_template(id, Some("other"), "test").expect("set");
        if round < 19 {
            admin.remove(id, "test").expect("removed");
        }
        last = Some(id);
    }
    let last = last.expect("a zone");
    node.sink.version(last, 21);
    node.until("the template", |node| {
        node.sink.held(last).is_some_and(|held| held.template.as_deref() == Some("other"))
    });
    assert_eq!(node.sink.count(), 1);
}

#[test]
fn a_node_that_was_away_gets_steps() {
    let database = fresh();
    let a = Node::start(&database.url(), "a");
    let versions: Vec<_> =
        (1..=5).map(|serial| zone("example.", serial, &format!("x TXT {serial}"))).collect();
    let id = a.create(&versions[0]).expect("a zone");
    let b = Node::start(&database.url(), "b");
    b.sink.version(id, 1);
    b.database.stop();
    for pair in versions.windows(2) {
        assert!(matches!(a.commit(commit(id, &pair[0], &pair[1])), CommitEnd::Committed));
    }
    b.sink.take_events();
    let b = Node::with(settings(&database.url(), "b"), Arc::clone(&b.sink));
    assert_same(&b.sink.version(id, 5), &versions[4]);
    let events = b.sink.take_events();
    assert!(events.contains(&Event::Steps(id, 4)), "{events:?}");
    assert!(!events.iter().any(|event| matches!(event, Event::Whole(..))), "{events:?}");
}

#[test]
fn a_node_that_was_away_for_long_gets_the_whole_zone() {
    let database = fresh();
    let a = Node::start(&database.url(), "a");
    let versions: Vec<_> =
        (1..=3).map(|serial| zone("example.", serial, &format!("x TXT {serial}"))).collect();
    let id = a.create(&versions[0]).expect("a zone");
    let b = Node::start(&database.url(), "b");
    b.sink.version(id, 1);
    b.database.stop();
    for pair in versions.windows(2) {
        assert!(matches!(a.commit(commit(id, &pair[0], &pair[1])), CommitEnd::Committed));
    }
    assert_eq!(database.sql("SELECT nomen.forget_changes('0 s', 2)"), "2");
    b.sink.take_events();
    let b = Node::with(settings(&database.url(), "b"), Arc::clone(&b.sink));
    assert_same(&b.sink.version(id, 3), &versions[2]);
    assert!(b.sink.take_events().iter().any(|event| matches!(event, Event::Whole(..))));
}

#[test]
fn a_gap_in_the_changes_is_noticed() {
    let database = fresh();
    let (a, b) = (Node::start(&database.url(), "a"), Node::start(&database.url(), "b"));
    let (first, second) = (zone("example.", 1, ""), zone("example.", 2, ""));
    let id = a.create(&first).expect("a zone");
    b.sink.version(id, 1);
    b.until("the creation was followed", |node| node.database.status().followed == 1);
    b.sink.take_events();
    // In one transaction, so that the change is never seen.
    let bump = bump(id, "example.", 1);
    database.sql(&format!("BEGIN; {bump}; SELECT nomen.forget_changes('-1 hour', 1000); COMMIT"));
    assert_same(&b.sink.version(id, 2), &second);
    assert!(b.sink.take_events().contains(&Event::Listed(1)), "the list is read again");
}

#[test]
fn a_database_that_lost_changes_is_read_whole() {
    let database = fresh();
    let a = Node::start(&database.url(), "a");
    let (first, second) = (zone("example.", 1, ""), zone("example.", 2, "x A 192.0.2.3"));
    let id = a.create(&first).expect("a zone");
    assert!(matches!(a.commit(commit(id, &first, &second)), CommitEnd::Committed));
    a.sink.version(id, 2);
    a.until("the change was followed", |node| node.database.status().followed == 2);
    // As after the promotion of a replica that lacks the last change, and another one there with the same
    // serial.
    database.sql(
        "BEGIN; SET LOCAL search_path = nomen, pg_catalog, pg_temp, nomen_writes; \
         UPDATE nomen.changes SET tag = 77 WHERE number = 2; \
         UPDATE nomen.rrsets SET data = '{192.0.2.99}' WHERE name = 'x.example.'; COMMIT; \
         SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    let third = zone("example.", 2, "x A 192.0.2.99");
    a.until("the other version", |node| {
        let held = node.sink.held(id).and_then(|held| held.version);
        held.is_some_and(|version| zone::store::diff(&version, &third).is_empty())
    });
}

#[test]
fn a_node_that_was_stopped_while_the_database_lost_changes_kept_other_records_with_the_same_serial() {
    let (database, folder) = (fresh(), tempfile::tempdir().expect("a folder"));
    let settings =
        || DatabaseSettings { state: Some(folder.path().into()), ..settings(&database.url(), "a") };
    let a = Node::with(settings(), Arc::default());
    let (first, second) = (zone("example.", 1, ""), zone("example.", 2, "x A 192.0.2.3"));
    let id = a.create(&first).expect("a zone");
    assert!(matches!(a.commit(commit(id, &first, &second)), CommitEnd::Committed));
    a.sink.version(id, 2);
    a.until("the change was followed", |node| node.database.status().followed == 2);
    a.database.stop();
    let sink = Arc::clone(&a.sink);
    drop(a);
    database.sql(
        "BEGIN; SET LOCAL search_path = nomen, pg_catalog, pg_temp, nomen_writes; \
         UPDATE nomen.changes SET tag = 77 WHERE number = 2; \
         UPDATE nomen.rrsets SET data = '{192.0.2.99}' WHERE name = 'x.example.'; COMMIT",
    );
    let a = Node::with(settings(), sink);
    let third = zone("example.", 2, "x A 192.0.2.99");
    a.until("the other version", |node| {
        let held = node.sink.held(id).and_then(|held| held.version);
        held.is_some_and(|version| zone::store::diff(&version, &third).is_empty())
    });
}

#[test]
fn content_is_fetched_again() {
    let database = fresh();
    let a = Node::start(&database.url(), "a");
    let first = zone("example.", 1, "");
    let id = a.create(&first).expect("a zone");
    a.sink.version(id, 1);
    a.current();
    a.sink.take_events();
    a.database.fetch(id, first.apex().into());
    a.sink.event(&Event::Whole(id, first.serial()));
}

#[test]
fn history_and_nodes_are_read() {
    let database = fresh();
    let (a, b) = (Node::start(&database.url(), "ns1"), Node::start(&database.url(), "ns2"));
    let (first, second) = (zone("example.", 1, ""), zone("example.", 2, "x A 192.0.2.3"));
    let id = a.create(&first).expect("a zone");
    assert!(matches!(a.commit(commit(id, &first, &second)), CommitEnd::Committed));
    b.sink.version(id, 2);
    let (done, end) = channel();
    b.database.history(id, 10, Box::new(move |rows| done.send(rows).expect("a receiver")));
    let rows = end.recv_timeout(Duration::from_secs(30)).expect("an end").expect("rows");
    assert_eq!(
        rows.iter().map(|row| (row.number, &*row.kind)).collect::<Vec<_>>(),
        [(2, "change"), (1, "create")]
    );
    let change = &rows[0];
    assert_eq!((&*change.author, &*change.node), ("key update-key.", "ns1"));
    assert_eq!(change.added.last().map(|line| &**line), Some("x.example. 60 A 192.0.2.3"));
    assert_eq!((change.before, change.after), (Some(first.serial()), Some(second.serial())));
    let nodes = b.until_nodes("both nodes", |nodes| nodes.iter().map(|node| &*node.name).eq(["ns1", "ns2"]));
    assert_eq!(nodes[0].address, Some(std::net::Ipv4Addr::LOCALHOST.into()));
}

#[test]
fn old_changes_are_removed_by_nodes() {
    let database = fresh();
    let admin = admin(&database);
    let first = zone("example.", 1, "");
    admin.create(&[new_zone(&first)]).expect("made");
    let short = DatabaseSettings { keep_changes: Duration::ZERO, ..settings(&database.url(), "a") };
    let node = Node::with(short, Arc::default());
    node.until("no changes", |_| database.sql("SELECT count(*) FROM nomen.changes") == "0");
    assert_eq!(database.sql("SELECT last_change FROM nomen.about"), "1");
}

#[test]
fn a_first_synchronisation_reads_many_zones() {
    let database = PostgresServer::shared().database();
    let admin = admin(&database);
    admin.init().expect("a schema");
    let zones: Vec<_> =
        (0..2500).map(|n| new_zone(&zone(&format!("z{n}.example."), 1, "x A 192.0.2.3"))).collect();
    assert!(admin.create(&zones).expect("made").iter().all(Option::is_some));
    let node = Node::start(&database.url(), "a");
    node.sink.has(2500);
    node.current();
    assert_eq!(node.database.status().zones, 2500);
    assert_eq!(database.sql("SELECT last_change FROM nomen.about"), "2500");
    let sample = node.sink.held(database::ZoneId(17)).expect("held").version.expect("a version");
    assert_same(&sample, &zones[16].content);
}
