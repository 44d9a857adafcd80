//! What may go wrong: answers that are lost, a database that is down, replicas, rights, limits.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use database::{CommitEnd, DatabaseFault, DatabaseSettings, ZoneCommit};
use testkit::postgres::{PostgresDatabase, PostgresServer, PostgresStop};

use crate::commits::Session;
use crate::node::{Node, admin, assert_same, commit, fresh, settings, zone};
use crate::proxy::Proxy;

#[test]
fn a_commit_whose_answer_is_lost_is_found() {
    let database = fresh();
    let proxy = Proxy::start(PostgresServer::shared().port());
    let a = Node::start(&database.url_at(proxy.port), "a");
    let (first, second) = (zone("example.", 1, ""), zone("example.", 2, "x A 192.0.2.3"));
    let id = a.create(&first).expect("made");
    a.current();
    proxy.lose_replies(true);
    let end = a.commit_later(commit(id, &first, &second));
    a.until("the database has it", |_| database.sql("SELECT serial FROM nomen.zones") == "2");
    proxy.lose_replies(false);
    proxy.cut();
    assert!(matches!(end(), CommitEnd::Committed));
    assert_same(&a.sink.version(id, 2), &second);
}

#[test]
fn a_creation_whose_answer_is_lost_is_found() {
    let database = fresh();
    let proxy = Proxy::start(PostgresServer::shared().port());
    let a = Node::start(&database.url_at(proxy.port), "a");
    a.create(&zone("other.", 1, "")).expect("made");
    proxy.lose_replies(true);
    let (done, end) = std::sync::mpsc::channel();
    let new = crate::node::new_zone(&zone("example.", 1, ""));
    a.database.create(new, Box::new(move |made| done.send(made).expect("a receiver")));
    a.until("the database has it", |_| database.sql("SELECT count(*) FROM nomen.zones") == "2");
    proxy.lose_replies(false);
    proxy.cut();
    let id = end.recv().expect("an end").expect("made");
    a.sink.version(id, 1);
}

#[test]
fn a_commit_that_never_arrived_is_not_made() {
    let database = fresh();
    let proxy = Proxy::start(PostgresServer::shared().port());
    let a = Node::start(&database.url_at(proxy.port), "a");
    let (first, second) = (zone("example.", 1, ""), zone("example.", 2, "x A 192.0.2.3"));
    let id = a.create(&first).expect("made");
    a.current();
    // The session on the server goes on: it is ended before the answer, so that it cannot commit later.
    let sessions = "SELECT string_agg(pid::text, ',') FROM pg_stat_activity \
                    WHERE application_name = 'nomen a' AND datname = current_database()";
    let before = database.sql(sessions);
    proxy.lose_requests(true);
    let end = a.commit_later(commit(id, &first, &second));
    a.until("it is on its way", |_| proxy.has_lost("x.example."));
    proxy.cut();
    proxy.lose_requests(false);
    match end() {
        CommitEnd::Unavailable(_) => {}
        end => panic!("{end:?}"),
    }
    assert_eq!(database.sql("SELECT serial FROM nomen.zones"), "1");
    let after = database.sql(sessions);
    let common = before.split(',').filter(|pid| after.split(',').any(|other| other == *pid)).count();
    assert!(common < 2, "the session of the commit has ended: {before} {after}");
    assert!(matches!(a.commit(commit(id, &first, &second)), CommitEnd::Committed));
}

#[test]
fn without_a_new_connection_a_commit_is_unclear() {
    let database = fresh();
    let proxy = Proxy::start(PostgresServer::shared().port());
    let short =
        DatabaseSettings { timeout: Duration::from_secs(1), ..settings(&database.url_at(proxy.port), "a") };
    let a = Node::with(short, Arc::default());
    let (first, second) = (zone("example.", 1, ""), zone("example.", 2, "x A 192.0.2.3"));
    let id = a.create(&first).expect("made");
    a.current();
    proxy.lose_replies(true);
    proxy.refuse(true);
    let end = a.commit_later(commit(id, &first, &second));
    a.until("the database has it", |_| database.sql("SELECT serial FROM nomen.zones") == "2");
    proxy.cut();
    match end() {
        CommitEnd::Unclear(_) => assert_eq!(a.database.counts().unclear.load(Relaxed), 1),
        end => panic!("{end:?}"),
    }
    proxy.lose_replies(false);
    proxy.refuse(false);
    assert_same(&a.sink.version(id, 2), &second);
}

#[test]
fn a_server_that_does_not_answer_is_given_up() {
    let database = fresh();
    let short = DatabaseSettings { timeout: Duration::from_secs(1), ..settings(&database.url(), "a") };
    let a = Node::with(short, Arc::default());
    let (first, second) = (zone("example.", 1, ""), zone("example.", 2, "x A 192.0.2.3"));
    let id = a.create(&first).expect("made");
    a.current();
    let lock = Session::open(&database.url());
    lock.run("BEGIN; SELECT * FROM nomen.about FOR UPDATE").expect("locked");
    match a.commit(commit(id, &first, &second)) {
        CommitEnd::Unavailable(why) => assert!(why.contains("timeout"), "{why}"),
        end => panic!("{end:?}"),
    }
    lock.run("ROLLBACK").expect("unlocked");
    assert!(matches!(a.commit(commit(id, &first, &second)), CommitEnd::Committed));
}

#[test]
fn a_restart_of_the_database_loses_nothing() {
    let server = PostgresServer::start(&[]);
    let database = server.database();
    admin(&database).init().expect("a schema");
    let (a, b) = (Node::start(&database.url(), "a"), Node::start(&database.url(), "b"));
    let versions: Vec<_> =
        (1..=4).map(|serial| zone("example.", serial, &format!("x TXT {serial}"))).collect();
    let id = a.create(&versions[0]).expect("made");
    assert!(matches!(a.commit(commit(id, &versions[0], &versions[1])), CommitEnd::Committed));
    b.sink.version(id, 2);
    server.stop(PostgresStop::Immediate);
    a.until("it is noticed", |node| node.database.status().fault.is_some());
    a.until("changes are refused", |node| {
        matches!(node.commit(commit(id, &versions[1], &versions[2])), CommitEnd::Unavailable(_))
    });
    assert!(matches!(a.create(&zone("other.", 1, "")), Err(DatabaseFault::Unavailable(_))));
    server.start_again();
    a.until("changes are accepted", |node| {
        matches!(node.commit(commit(id, &versions[1], &versions[2])), CommitEnd::Committed)
    });
    assert_same(&b.sink.version(id, 3), &versions[2]);
    // A restart between two commits is not noticed by who commits.
    server.stop(PostgresStop::Fast);
    server.start_again();
    a.until("changes are accepted", |node| {
        matches!(node.commit(commit(id, &versions[2], &versions[3])), CommitEnd::Committed)
    });
    assert_same(&b.sink.version(id, 4), &versions[3]);
}

/// Stops a server with one zone and promotes its replica, which then takes a commit of the node.
fn fail_over(
    node: &Node,
    (server, replica): (&PostgresServer, &PostgresServer),
    database: &PostgresDatabase,
    next: ZoneCommit,
) {
    // The replica has what was committed before it takes over.
    let waits = replica.existing(&database.name);
    node.until("the replica follows", |_| waits.sql("SELECT count(*) FROM nomen.zones") == "1");
    server.stop(PostgresStop::Immediate);
    replica.promote();
    node.until("the promoted one is used", |node| {
        node.database.status().connected && matches!(node.commit(next.clone()), CommitEnd::Committed)
    });
}

#[test]
fn a_replica_is_not_used_until_it_is_promoted() {
    let server = PostgresServer::start(&["fsync=off"]);
    let database = server.database();
    admin(&database).init().expect("a schema");
    let replica = server.replica();
    let hosts = format!("127.0.0.1:{},127.0.0.1:{}", replica.port(), server.port());
    let url = format!("postgresql://nomen@{hosts}/{}", database.name);
    let alone = Node::start(&database.url_at(replica.port()), "b");
    assert!(alone.sink.fault().contains("read only"), "{}", alone.sink.fault());
    let a = Node::start(&url, "a");
    let (first, second) = (zone("example.", 1, ""), zone("example.", 2, "x A 192.0.2.3"));
    let id = a.create(&first).expect("made");
    a.sink.version(id, 1);
    let of_server = format!("127.0.0.1:{}", server.port());
    assert_eq!(a.database.status().host, Some(of_server));
    fail_over(&a, (&server, &replica), &database, commit(id, &first, &second));
    assert_same(&alone.sink.version(id, 2), &second);
}

#[test]
fn a_primary_from_before_a_failover_was_used_again() {
    let server = PostgresServer::start(&["fsync=off"]);
    let database = server.database();
    admin(&database).init().expect("a schema");
    let replica = server.replica();
    // The right to log in is all that the role of the nodes has on the server.
    database.sql("CREATE ROLE plain LOGIN; GRANT USAGE ON SCHEMA nomen TO plain; GRANT ALL ON ALL TABLES IN SCHEMA nomen TO plain");
    let hosts = format!("127.0.0.1:{},127.0.0.1:{}", server.port(), replica.port());
    let url = format!("postgresql://plain@{hosts}/{}", database.name);
    let folder = tempfile::tempdir().expect("a folder");
    let settings = || DatabaseSettings { state: Some(folder.path().into()), ..settings(&url, "a") };
    let (first, second) = (zone("example.", 1, ""), zone("example.", 2, "x A 192.0.2.3"));
    let a = Node::with(settings(), Arc::default());
    let id = a.create(&first).expect("made");
    fail_over(&a, (&server, &replica), &database, commit(id, &first, &second));
    a.database.stop();
    drop(a);
    // It is the first host of the URL, and takes writes.
    server.start_again();
    let a = Node::with(settings(), Arc::default());
    a.current();
    assert_eq!(a.database.status().host, Some(format!("127.0.0.1:{}", replica.port())));
    assert_same(&a.sink.version(id, 2), &second);
    replica.stop(PostgresStop::Immediate);
    a.until("it is not used in place of the other one either", |node| {
        node.sink.fault().contains(
            "a primary from before a failover: its timeline is 1, and this node has followed timeline 2",
        )
    });
}

#[test]
fn a_limit_of_connections_is_reported_and_waited_for() {
    let database = fresh();
    database.sql(
        "DROP ROLE IF EXISTS narrow; CREATE ROLE narrow LOGIN CONNECTION LIMIT 1; \
         GRANT USAGE ON SCHEMA nomen TO narrow; GRANT ALL ON ALL TABLES IN SCHEMA nomen TO narrow",
    );
    let url = database.url().replace("nomen@", "narrow@");
    let node = Node::start(&url, "narrow");
    assert!(node.sink.fault().contains("too many connections"), "{}", node.sink.fault());
    database.sql("ALTER ROLE narrow CONNECTION LIMIT 5");
    node.current();
}

#[test]
fn a_user_without_rights_is_told_so() {
    let database = fresh();
    database.sql(
        "DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA nomen TO reader; \
         GRANT SELECT ON ALL TABLES IN SCHEMA nomen TO reader; GRANT ALL ON nomen.nodes TO reader",
    );
    let a = Node::start(&database.url().replace("nomen@", "reader@"), "a");
    // The session may have ended before, since the node may not remove old changes either.
    let end = a.create(&zone("example.", 1, ""));
    let Err(DatabaseFault::Refused(why) | DatabaseFault::Unavailable(why)) = &end else { panic!("{end:?}") };
    assert!(why.contains("permission denied"), "{why}");
}

#[test]
fn what_waits_ends_with_the_thread() {
    let database = fresh();
    let a = Node::start(&database.url(), "a");
    let (first, second) = (zone("example.", 1, ""), zone("example.", 2, "x A 192.0.2.3"));
    let id = a.create(&first).expect("made");
    let end = a.commit_later(commit(id, &first, &second));
    a.database.stop();
    assert!(matches!(end(), CommitEnd::Committed), "what waits is finished");
    assert!(matches!(a.commit(commit(id, &first, &second)), CommitEnd::Unavailable(_)));
    // Without a database, too.
    let nowhere = Node::start("postgresql://nomen@127.0.0.1:1/none", "b");
    assert!(!nowhere.sink.fault().is_empty());
    assert!(matches!(nowhere.create(&first), Err(DatabaseFault::Unavailable(_))));
    nowhere.database.stop();
}

/// The change may be among those that are gone.
#[test]
fn a_commit_that_the_database_may_have_forgotten_is_not_called_refused() {
    let database = fresh();
    let proxy = Proxy::start(PostgresServer::shared().port());
    let a = Node::start(&database.url_at(proxy.port), "a");
    let (first, second) = (zone("example.", 1, ""), zone("example.", 2, "x A 192.0.2.3"));
    let id = a.create(&first).expect("made");
    a.until("it was followed", |node| node.database.status().followed == 1);
    proxy.lose_replies(true);
    let end = a.commit_later(commit(id, &first, &second));
    a.until("the database has it", |_| database.sql("SELECT serial FROM nomen.zones") == "2");
    database.sql(
        "BEGIN; SET LOCAL search_path = nomen, pg_catalog, pg_temp, nomen_writes; \
         DELETE FROM nomen.changes; COMMIT",
    );
    proxy.lose_replies(false);
    proxy.cut();
    match end() {
        CommitEnd::Unclear(why) => assert!(why.contains("has forgotten changes"), "{why}"),
        end => panic!("{end:?}"),
    }
    assert_same(&a.sink.version(id, 2), &second);
}
