//! Keys of zones that the nodes sign: they change with the records or not at all, and one node maintains
//! them.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use database::{CommitEnd, KeyCommit, KeySetVersion, StoredKey, ZoneCommit, ZoneContent, ZoneId, ZoneKeySet};
use wire::{Serial, UnixTime};
use zone::Zone;

use crate::node::{Node, assert_same, commit, fresh, zone};

/// Records of a zone that is written in parts.
fn many_records() -> String {
    let mut records = String::new();
    for number in 0..20_001 {
        writeln!(records, "h{number} A 192.0.2.3").expect("a text");
    }
    records
}

/// A set of keys with these names.
pub(crate) fn set(number: i64, stamp: i64, names: &[&str]) -> ZoneKeySet {
    let key = |name: &&str| StoredKey {
        name: (*name).to_owned(),
        public: format!("public of {name}"),
        private: Arc::new(format!("geheim of {name}").into()),
        state: format!("state {number}"),
    };
    ZoneKeySet {
        version: KeySetVersion { number, stamp },
        serial: Serial(u32::MAX),
        dnskey_ttl: 60,
        largest_ttl: u32::MAX,
        keys: names.iter().map(key).collect(),
    }
}

/// The commit of keys alone, decided with those of this stamp.
pub(crate) fn commit_keys(
    id: ZoneId,
    version: &Arc<Zone>,
    stamp: i64,
    after: Option<ZoneKeySet>,
) -> ZoneCommit {
    let keys = keyed(stamp, after);
    ZoneCommit { steps: Vec::new(), keys, ..commit(id, version, version) }
}

fn now() -> UnixTime {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    UnixTime::from_secs(now.as_secs())
}

fn keyed(stamp: i64, after: Option<ZoneKeySet>) -> Option<KeyCommit> {
    let before = KeySetVersion { number: 0, stamp };
    Some(KeyCommit { before, after: after.map(Arc::new), author: "signatures".into(), at: now() })
}

#[test]
fn keys_change_with_the_records_or_not_at_all() {
    let database = fresh();
    let (a, b) = (Node::start(&database.url(), "a"), Node::start(&database.url(), "b"));
    let first = zone("example.", 1, "");
    let id = a.create(&first).expect("made");
    b.sink.version(id, 1);
    // Both make keys, and one of them is faster.
    let (of_a, of_b) = (set(1, 11, &["Kexample.+013+00001"]), set(1, 12, &["Kexample.+013+00002"]));
    let signed = zone("example.", 2, "a A 192.0.2.3");
    let made = ZoneCommit { keys: keyed(0, Some(of_a.clone())), ..commit(id, &first, &signed) };
    assert!(matches!(a.commit(made), CommitEnd::Committed));
    assert_eq!(b.sink.keys(id, 1), of_a);
    assert_same(&b.sink.version(id, 2), &signed);
    // The serial fits, the keys do not.
    b.sink.forget_keys();
    let other = zone("example.", 3, "b A 192.0.2.3");
    let late = ZoneCommit { keys: keyed(0, Some(of_b)), ..commit(id, &signed, &other) };
    match b.commit(late) {
        CommitEnd::Conflict(ZoneContent::Whole(found)) => assert_same(&found, &signed),
        end => panic!("{end:?}"),
    }
    assert_eq!(b.sink.keys(id, 1), of_a, "the keys come before the end of the commit");
    assert_eq!(database.sql("SELECT string_agg(name, ' ') FROM nomen.keys"), "Kexample.+013+00001");
    // The keys fit, the serial does not.
    let stale = ZoneCommit { keys: keyed(11, Some(set(2, 13, &[]))), ..commit(id, &first, &other) };
    assert!(matches!(b.commit(stale), CommitEnd::Conflict(ZoneContent::Steps(_))));
    assert_eq!(database.sql("SELECT version, stamp FROM nomen.key_sets"), "1|11");
    // Keys alone change, and a change without new keys needs those that there are.
    let next = set(2, 14, &["Kexample.+013+00003"]);
    assert!(matches!(b.commit(commit_keys(id, &signed, 11, Some(next.clone()))), CommitEnd::Committed));
    assert_eq!(a.sink.keys(id, 2), next);
    let plain = |stamp| ZoneCommit { keys: keyed(stamp, None), ..commit(id, &signed, &other) };
    assert!(matches!(a.commit(plain(11)), CommitEnd::Conflict(_)));
    assert!(matches!(a.commit(plain(14)), CommitEnd::Committed));
    assert_eq!(database.sql("SELECT version, stamp FROM nomen.key_sets"), "2|14");
    // A node that comes later has them, and so has one that was away.
    assert_eq!(Node::start(&database.url(), "c").sink.keys(id, 2), next);
    let history = database.sql("SELECT string_agg(kind, ' ' ORDER BY number) FROM nomen.changes");
    assert_eq!(history, "create change keys keys change");
    let secrets = "SELECT count(*) FROM nomen.changes c WHERE c::text LIKE '%geheim%'";
    assert_eq!(database.sql(secrets), "0");
    b.remove(id).expect("removed");
    assert_eq!(database.sql("SELECT count(*) FROM nomen.keys"), "0");
}

#[test]
fn the_keys_of_a_zone_that_is_written_in_parts_are_compared_as_well() {
    let database = fresh();
    let a = Node::start(&database.url(), "a");
    let first = zone("example.", 1, "");
    let id = a.create(&first).expect("made");
    let large = zone("example.", 2, &many_records());
    let change = |stamp| ZoneCommit {
        keys: keyed(stamp, Some(set(1, 11, &["Kexample.+013+00001"]))),
        ..commit(id, &first, &large)
    };
    assert!(matches!(a.commit(change(7)), CommitEnd::Conflict(_)));
    assert_eq!(database.sql("SELECT count(*) FROM nomen.rrsets"), "3");
    assert!(matches!(a.commit(change(0)), CommitEnd::Committed));
    assert_eq!(a.sink.keys(id, 1).keys.len(), 1);
    let kinds = database.sql("SELECT string_agg(kind, ' ' ORDER BY number) FROM nomen.changes");
    assert_eq!(kinds, "create replace keys");
}

#[test]
fn a_node_with_a_wrong_clock_signs_nothing() {
    let database = fresh();
    let a = Node::start(&database.url(), "a");
    let first = zone("example.", 1, "");
    let id = a.create(&first).expect("made");
    let (day, minutes) = (Duration::from_secs(86_400), Duration::from_secs(540));
    let small = zone("example.", 2, "a A 192.0.2.3");
    let at = |at, after: &Arc<Zone>| {
        let keys = keyed(0, Some(set(1, 11, &["Kexample.+013+00001"]))).map(|keys| KeyCommit { at, ..keys });
        a.commit(ZoneCommit { keys, ..commit(id, &first, after) })
    };
    for after in [&small, &zone("example.", 2, &many_records())] {
        for (wrong, word) in [(now().saturating_add(day), "ahead of"), (now().saturating_sub(day), "behind")]
        {
            match at(wrong, after) {
                CommitEnd::Refused(why) => {
                    assert!(why.contains("the clock of the node is 86") && why.contains(word), "{why}");
                }
                end => panic!("{end:?}"),
            }
        }
    }
    assert_eq!(database.sql("SELECT count(*) FROM nomen.keys"), "0");
    assert!(matches!(at(now().saturating_add(minutes), &small), CommitEnd::Committed));
}

#[test]
fn one_node_at_a_time_signs() {
    let database = fresh();
    let (a, b) = (Node::start(&database.url(), "a"), Node::start(&database.url(), "b"));
    a.current();
    a.sink.set_has_zones_to_sign(true);
    a.sink.signs(true);
    b.sink.set_has_zones_to_sign(true);
    let signers = |node: &Node, names: &[&str]| {
        node.until_nodes(&format!("{names:?} sign"), |nodes| {
            nodes.len() == 2
                && nodes.iter().filter(|row| row.signs).map(|row| &*row.name).eq(names.iter().copied())
        });
    };
    signers(&b, &["a"]);
    assert!(a.database.status().signs && !b.database.status().signs);
    // Its session ends, and the other one takes over.
    let asked = "SELECT pg_terminate_backend(session) FROM nomen.signer";
    a.sink.set_has_zones_to_sign(false);
    database.sql(asked);
    a.sink.signs(false);
    b.sink.signs(true);
    signers(&a, &["b"]);
    // A node without zones to sign gives it back.
    a.sink.set_has_zones_to_sign(true);
    b.sink.set_has_zones_to_sign(false);
    b.sink.signs(false);
    a.sink.signs(true);
    a.database.stop();
    a.sink.signs(false);
    signers(&b, &[]);
}
