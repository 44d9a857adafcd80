//! Commits: conflicts, groups, what the database refuses, large changes, the order of numbers.

use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Instant;

use database::{CommitEnd, ZoneCommit, ZoneContent, ZoneId};
use tokio_postgres::NoTls;

use crate::node::{Event, Node, admin, assert_same, commit, fresh, new_zone, settings, zone};

/// A session of its own, for SQL that stays open.
pub(crate) struct Session {
    runtime: tokio::runtime::Runtime,
    client: tokio_postgres::Client,
}

impl Session {
    pub(crate) fn open(url: &str) -> Session {
        let builder = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = builder.expect("a runtime");
        let config: tokio_postgres::Config = url.parse().expect("a URL");
        let port = config.get_ports().first().copied().unwrap_or(5432);
        let client = runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.expect("a connection");
            let (client, connection) = config.connect_raw(stream, NoTls).await.expect("a session");
            tokio::spawn(connection);
            client
        });
        Session { runtime, client }
    }

    pub(crate) fn run(&self, sql: &str) -> Result<(), String> {
        let done = self.runtime.block_on(self.client.batch_execute(sql));
        done.map_err(|fault| {
            fault.as_db_error().map_or_else(|| fault.to_string(), |said| said.message().into())
        })
    }

    pub(crate) fn number(&self, sql: &str) -> i64 {
        self.runtime.block_on(self.client.query_one(sql, &[])).expect("a row").get(0)
    }
}

#[test]
fn a_conflict_leaves_out_one_zone_only() {
    let database = fresh();
    let (a, b) = (Node::start(&database.url(), "a"), Node::start(&database.url(), "b"));
    let (one, two) = (zone("one.", 1, ""), zone("two.", 1, ""));
    let (id_one, id_two) = (a.create(&one).expect("made"), a.create(&two).expect("made"));
    // The other node changes the first zone; its step is what this one gets.
    let theirs = zone("one.", 2, "theirs A 192.0.2.3");
    b.sink.version(id_one, 1);
    assert!(matches!(b.commit(commit(id_one, &one, &theirs)), CommitEnd::Committed));
    // While the number is locked, commits wait, and go together after that.
    let lock = Session::open(&database.url());
    lock.run("BEGIN; SELECT * FROM nomen.about FOR UPDATE").expect("locked");
    let three = zone("three.", 1, "");
    let database_of_a = std::sync::Arc::clone(&a.database);
    let (made, creating) = std::sync::mpsc::channel();
    database_of_a.create(new_zone(&three), Box::new(move |end| made.send(end).expect("a receiver")));
    a.until("the creation is in flight", |_| {
        database.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()")
            == "1"
    });
    let groups = a.database.counts().groups.load(Relaxed);
    let mine = zone("one.", 2, "mine A 192.0.2.4");
    let ours = zone("two.", 2, "ours A 192.0.2.5");
    let late_one = a.commit_later(commit(id_one, &one, &mine));
    let late_two = a.commit_later(commit(id_two, &two, &ours));
    lock.run("ROLLBACK").expect("unlocked");
    creating.recv().expect("an end").expect("made");
    match late_one() {
        CommitEnd::Conflict(ZoneContent::Steps(steps)) => {
            let found = steps
                .iter()
                .try_fold(std::sync::Arc::clone(&one), |zone, step| zone.apply(step).map(Into::into));
            assert_same(&found.expect("steps fit"), &theirs);
        }
        end => panic!("{end:?}"),
    }
    assert!(matches!(late_two(), CommitEnd::Committed));
    assert_eq!(a.database.counts().groups.load(Relaxed), groups + 1, "both went in one statement");
    assert_same(&b.sink.version(id_two, 2), &ours);
    assert_eq!(a.database.counts().conflicts.load(Relaxed), 1);
}

#[test]
fn a_change_that_is_overtaken_after_its_time_is_refused() {
    let database = fresh();
    let a = Node::start(&database.url(), "a");
    let (first, next) = (zone("example.", 1, ""), zone("example.", 2, "more A 192.0.2.3"));
    let id = a.create(&first).expect("made");
    assert!(matches!(a.commit(commit(id, &first, &next)), CommitEnd::Committed));
    let overtaken = commit(id, &first, &next);
    assert!(matches!(a.commit(overtaken.clone()), CommitEnd::Conflict(_)), "in time, it is decided again");
    let since = Instant::now().checked_sub(settings(&database.url(), "a").timeout).expect("a time before");
    match a.commit(ZoneCommit { since, ..overtaken }) {
        CommitEnd::Unavailable(why) => assert!(why.contains("other nodes"), "{why}"),
        end => panic!("{end:?}"),
    }
    // A commit that is not overtaken counts, however late it is.
    let third = zone("example.", 3, "third A 192.0.2.3");
    let late = ZoneCommit { since, ..commit(id, &next, &third) };
    assert!(matches!(a.commit(late), CommitEnd::Committed));
}

#[test]
fn a_commit_without_a_step_only_ensures_that_the_version_is_the_newest() {
    let database = fresh();
    let a = Node::start(&database.url(), "a");
    let (first, next) = (zone("example.", 1, ""), zone("example.", 2, "more A 192.0.2.3"));
    let id = a.create(&first).expect("made");
    let nothing = |before| ZoneCommit { steps: Vec::new(), ..commit(id, before, before) };
    let last = || database.sql("SELECT last_change FROM nomen.about");
    let before = last();
    // The changes of the zone may have been removed.
    database.sql(
        "BEGIN; SET LOCAL search_path = nomen, pg_catalog, pg_temp, nomen_writes; \
         DELETE FROM nomen.changes; COMMIT",
    );
    assert!(matches!(a.commit(nothing(&first)), CommitEnd::Committed));
    assert_eq!(last(), before);
    assert!(matches!(a.commit(commit(id, &first, &next)), CommitEnd::Committed));
    match a.commit(nothing(&first)) {
        CommitEnd::Conflict(ZoneContent::Steps(steps)) => assert_eq!(steps.len(), 1),
        end => panic!("{end:?}"),
    }
}

#[test]
fn a_conflict_without_steps_has_the_whole_zone() {
    let database = fresh();
    let a = Node::start(&database.url(), "a");
    let (first, theirs) = (zone("example.", 1, ""), zone("example.", 7, "theirs A 192.0.2.3"));
    let id = a.create(&first).expect("made");
    admin(&database).replace(id, None, &theirs, "test").expect("replaced");
    match a.commit(commit(id, &first, &zone("example.", 2, ""))) {
        CommitEnd::Conflict(ZoneContent::Whole(found)) => assert_same(&found, &theirs),
        end => panic!("{end:?}"),
    }
}

#[test]
fn commits_of_one_zone_keep_their_order() {
    let database = fresh();
    let a = Node::start(&database.url(), "a");
    let versions: Vec<_> =
        (1..=30).map(|serial| zone("example.", serial, &format!("x TXT {serial}"))).collect();
    let id = a.create(&versions[0]).expect("made");
    let ends: Vec<_> =
        versions.windows(2).map(|pair| a.commit_later(commit(id, &pair[0], &pair[1]))).collect();
    for end in ends {
        assert!(matches!(end(), CommitEnd::Committed));
    }
    assert_same(&a.sink.version(id, 30), &versions[29]);
}

#[test]
fn what_the_database_refuses_does_not_stop_the_others() {
    let database = fresh();
    let a = Node::start(&database.url(), "a");
    let (one, two) = (zone("one.", 1, ""), zone("two.", 1, ""));
    let (id_one, id_two) = (a.create(&one).expect("made"), a.create(&two).expect("made"));
    let lock = Session::open(&database.url());
    lock.run("BEGIN; SELECT * FROM nomen.about FOR UPDATE").expect("locked");
    let zero = a.commit_later(commit(id_one, &one, &zone("one.", 2, "")));
    a.until("a commit is in flight", |_| {
        database.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()")
            == "1"
    });
    // The text of JSON has no byte zero for PostgreSQL.
    let mut bad = commit(id_one, &zone("one.", 2, ""), &zone("one.", 3, ""));
    bad.steps[0].author = "a\0b".into();
    let (bad, good) =
        (a.commit_later(bad), a.commit_later(commit(id_two, &two, &zone("two.", 2, "x A 192.0.2.3"))));
    lock.run("ROLLBACK").expect("unlocked");
    assert!(matches!(zero(), CommitEnd::Committed));
    match bad() {
        CommitEnd::Refused(why) => assert!(why.contains("Unicode"), "{why}"),
        end => panic!("{end:?}"),
    }
    assert!(matches!(good(), CommitEnd::Committed));
    assert_eq!(database.sql("SELECT name, serial FROM nomen.zones ORDER BY id"), "one.|2\ntwo.|2");
}

#[test]
fn a_large_change_replaces_the_zone() {
    let database = fresh();
    let (a, b) = (Node::start(&database.url(), "a"), Node::start(&database.url(), "b"));
    let first = zone("example.", 1, "x A 192.0.2.3");
    let id = a.create(&first).expect("made");
    b.sink.version(id, 1);
    let records: String = (0..30_000).map(|n| format!("h{n} A 192.0.2.{}\n", n % 250)).collect();
    let second = zone("example.", 2, &records);
    assert!(matches!(a.commit(commit(id, &first, &second)), CommitEnd::Committed));
    assert_same(&b.sink.version(id, 2), &second);
    assert_eq!(
        database.sql("SELECT kind, removed IS NULL FROM nomen.changes ORDER BY number DESC LIMIT 1"),
        "replace|t"
    );
    // A change of another version is a conflict as well.
    let stale = a.commit(commit(id, &first, &second));
    assert!(matches!(stale, CommitEnd::Conflict(ZoneContent::Whole(_))), "{stale:?}");
    // A large zone is created in one transaction.
    let other = zone("other.", 1, &records);
    let other_id = a.create(&other).expect("made");
    assert_same(&b.sink.version(other_id, 1), &other);
}

/// The call of `nomen.commit` for a change of the serial only; returns how many were committed.
pub(crate) fn bump(id: ZoneId, name: &str, before: i64) -> String {
    let after = before + 1;
    let soa = |serial: i64| format!("ns1.{name} admin.{name} {serial} 1 2 3 4");
    format!(
        "SELECT count(*) FROM nomen.commit('[{{\"zone\": {id}, \"before\": {before}, \"after\": {after}, \
         \"gone\": [], \"rrsets\": [{{\"name\": \"{name}\", \"type\": \"SOA\", \"covers\": \"\", \
         \"ttl\": 60, \"data\": [\"{new}\"]}}], \"steps\": [{{\"before\": {before}, \"after\": {after}, \
         \"removed\": [\"{name} 60 SOA {old}\"], \"added\": [\"{name} 60 SOA {new}\"], \
         \"author\": \"x\"}}]}}]', 'x', {id}) WHERE outcome = 'committed'",
        old = soa(before),
        new = soa(after),
    )
}

#[test]
fn a_change_of_a_large_zone_reads_few_rows() {
    let database = fresh();
    let a = Node::start(&database.url(), "a");
    // The planner has no statistics, and takes a zone for a small part of the table.
    let small: Vec<_> = (0..300).map(|n| new_zone(&zone(&format!("z{n}."), 1, ""))).collect();
    assert!(admin(&database).create(&small).expect("made").iter().all(Option::is_some));
    let records: String = (0..5000).map(|n| format!("h{n} A 192.0.2.1\n")).collect();
    let id = a.create(&zone("example.", 1, &records)).expect("made");
    let session = Session::open(&database.url());
    session.run("BEGIN").expect("begun");
    let gone = "\"gone\": [{\"name\": \"H7.example.\", \"type\": \"A\", \"covers\": \"\"}]";
    let change = bump(id, "example.", 1).replace("\"gone\": []", gone);
    assert_eq!(session.number(&change), 1);
    let fetched = session.number("SELECT pg_stat_get_xact_tuples_fetched('nomen.rrsets_key'::regclass)");
    assert!(fetched < 20, "{fetched} rows");
    session.run("COMMIT").expect("committed");
    assert_eq!(database.sql("SELECT count(*) FROM nomen.rrsets WHERE name LIKE 'h%'"), "4999");
}

#[test]
fn a_late_commit_keeps_later_numbers_back() {
    let database = fresh();
    let a = Node::start(&database.url(), "a");
    let (one, two) =
        (a.create(&zone("one.", 1, "")).expect("made"), a.create(&zone("two.", 1, "")).expect("made"));
    let (late, other) = (Session::open(&database.url()), Session::open(&database.url()));
    late.run("BEGIN").expect("begun");
    assert_eq!(late.number(&bump(one, "one.", 1)), 1);
    // Another one cannot take a number before that one has ended.
    other.run("SET lock_timeout = '300ms'").expect("set");
    let refused = other.run(&bump(two, "two.", 1)).expect_err("the number is locked");
    assert!(refused.contains("lock timeout"), "{refused}");
    assert_eq!(database.sql("SELECT max(number) FROM nomen.changes"), "2");
    // A transaction that is rolled back leaves no gap.
    late.run("ROLLBACK").expect("rolled back");
    assert_eq!(other.number(&bump(two, "two.", 1)), 1);
    assert_eq!(database.sql("SELECT max(number), count(*) FROM nomen.changes"), "3|3");
}

#[test]
fn a_reader_of_concurrent_commits_misses_nothing() {
    const WRITERS: usize = 6;
    const CHANGES: i64 = 40;
    let database = fresh();
    let a = Node::start(&database.url(), "a");
    let ids: Vec<ZoneId> =
        (0..WRITERS).map(|n| a.create(&zone(&format!("z{n}."), 1, "")).expect("made")).collect();
    let start = WRITERS as i64;
    let end = start + WRITERS as i64 * CHANGES;
    thread::scope(|scope| {
        for (n, id) in ids.iter().enumerate() {
            let (url, name) = (database.url(), format!("z{n}."));
            scope.spawn(move || {
                let session = Session::open(&url);
                for serial in 1..=CHANGES {
                    // Now and then a transaction that stays open for a while, or that is rolled back.
                    session.run("BEGIN").expect("begun");
                    if serial % 7 == 0 {
                        assert_eq!(session.number(&bump(*id, &name, serial)), 1);
                        session.run("ROLLBACK; BEGIN").expect("rolled back");
                    }
                    assert_eq!(session.number(&bump(*id, &name, serial)), 1);
                    session.run("COMMIT").expect("committed");
                }
            });
        }
        let reader = Session::open(&database.url());
        let mut seen = start;
        while seen < end {
            // One snapshot: all numbers up to the last one are there.
            let found = reader.number(&format!("SELECT count(*) FROM nomen.changes WHERE number > {seen}"));
            let last = reader.number("SELECT last_change FROM nomen.about");
            let up_to = reader.number(&format!("SELECT count(*) FROM nomen.changes WHERE number <= {last}"));
            assert_eq!(up_to, last, "a number is missing below the last one");
            assert!(found >= 0);
            seen = last;
        }
    });
    a.until("all is followed", |node| node.database.status().followed == end);
    assert_eq!(database.sql("SELECT bool_and(serial = 41) FROM nomen.zones"), "t");
    assert!(!a.sink.take_events().contains(&Event::Listed(WRITERS)), "there was no gap");
}
