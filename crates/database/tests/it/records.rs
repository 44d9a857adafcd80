//! Records of every kind go to the database and come back the same.

use std::fmt::Write as _;

use database::CommitEnd;

use crate::node::{Node, admin, assert_same, commit, fresh, key, new_zone, zone};

/// Creates a zone with these records, and changes another one to them; both must come back the same.
fn goes_through(records: &str) {
    let database = fresh();
    let (a, b) = (Node::start(&database.url(), "a"), Node::start(&database.url(), "b"));
    let (empty, full) = (zone("example.", 1, ""), zone("example.", 2, records));
    let id = a.create(&empty).expect("made");
    b.sink.version(id, 1);
    assert!(matches!(a.commit(commit(id, &empty, &full)), CommitEnd::Committed));
    assert_same(&b.sink.version(id, 2), &full);
    let admin = admin(&database);
    let read = admin.zone(id, &full.apex().into()).expect("read").expect("there").expect("records");
    assert_same(&read, &full);
    // And away again.
    let third = zone("example.", 3, "");
    assert!(matches!(a.commit(commit(id, &full, &third)), CommitEnd::Committed));
    let read = admin.zone(id, &full.apex().into()).expect("read").expect("there").expect("records");
    assert_same(&read, &third);
    // As a whole.
    assert_eq!(a.remove(id), Ok(()));
    let id = a.create(&full).expect("made");
    assert_same(&b.sink.version(id, 2), &full);
}

#[test]
fn names_with_escapes_and_upper_case() {
    goes_through(
        "WwW A 192.0.2.3\nWwW TXT x\n\\046\\032a\\\\b\\000\\255 A 192.0.2.4\n*.Wild CNAME Host.EXAMPLE.\n\
         Host A 192.0.2.5\na\\.b\\;c\\\"d MX 10 Mail\\@x.Example.\n",
    );
}

#[test]
fn text_of_all_bytes() {
    let all: String = (0..=255).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "\\{byte:03}");
        text
    });
    let (left, right) = all.split_at(all.len() / 2);
    goes_through(&format!(
        "t TXT \"{left}\" \"{right}\"\nu TXT \"\" \"\"\nv TXT \"Grüße\" \"漢字\"\n\
         x TYPE65400 \\# 5 0001020AFF\ny TYPE65401 \\# 0\n"
    ));
}

#[test]
fn signatures_of_several_types_and_ttls() {
    let signature = |covered: &str, ttl: u32, tag: u32| {
        format!("s {ttl} RRSIG {covered} 13 2 {ttl} 20300101000000 20200101000000 {tag} example. AAAA\n")
    };
    let records = [
        "s 300 A 192.0.2.3\ns 600 AAAA 2001:db8::1\n".to_owned(),
        signature("A", 300, 1),
        signature("A", 300, 2),
        signature("AAAA", 600, 1),
        // A signature without its RRset.
        signature("MX", 900, 1),
        "n NSEC s.example. A RRSIG NSEC\n".to_owned(),
        "abcdefghijklmnopqrstuvabcdefghij NSEC3 1 0 0 - bbcdefghijklmnopqrstuvabcdefghij A RRSIG\n"
            .to_owned(),
    ];
    goes_through(&records.concat());
}

#[test]
fn large_rrsets() {
    // The largest number of addresses that fit into a message.
    let many: String = (0..4000).map(|n| format!("many A 10.0.{}.{}\n", n / 250, n % 250)).collect();
    goes_through(&many);
}

#[test]
fn a_zone_with_a_record_of_every_kind() {
    let records = testkit::everything::records("example.");
    let everything = testkit::build(testkit::name("example.").as_name(), &key(), &records);
    let database = fresh();
    let content = std::sync::Arc::new(everything);
    let id = admin(&database).create(&[new_zone(&content)]).expect("made")[0].expect("a free name");
    let read =
        admin(&database).zone(id, &content.apex().into()).expect("read").expect("there").expect("records");
    assert_same(&read, &content);
}

#[test]
fn records_that_do_not_parse_are_named() {
    let database = fresh();
    let admin = admin(&database);
    let zones: Vec<_> = (0..6).map(|n| new_zone(&zone(&format!("z{n}."), 1, "x A 192.0.2.3"))).collect();
    let ids: Vec<_> = admin.create(&zones).expect("made").into_iter().map(|id| id.expect("free")).collect();
    let path = "nomen, pg_catalog, pg_temp, nomen_writes";
    let spoil = |sql: &str| database.sql(&format!("BEGIN; SET LOCAL search_path = {path}; {sql}; COMMIT"));
    spoil("UPDATE nomen.rrsets SET data = '{192.0.2.300}' WHERE name = 'x.z0.'");
    spoil("UPDATE nomen.rrsets SET type = 'NONSENSE' WHERE name = 'x.z1.'");
    spoil("UPDATE nomen.rrsets SET name = 'x.elsewhere.' WHERE name = 'x.z2.'");
    spoil(&format!("DELETE FROM nomen.rrsets WHERE zone = {}", ids[3]));
    spoil(&format!("INSERT INTO nomen.rrsets VALUES ({}, 'x.z4.', 'CNAME', '', 60, '{{x.}}')", ids[4]));
    let node = Node::start(&database.url(), "a");
    let reasons: Vec<String> = ids[..5].iter().map(|id| node.sink.unfit(*id)).collect();
    assert!(reasons[0].contains("x.z0. A: ") && reasons[0].contains("192.0.2.300"), "{}", reasons[0]);
    assert!(reasons[1].contains("NONSENSE"), "{}", reasons[1]);
    assert!(reasons[2].contains("x.elsewhere.") && reasons[2].contains("not in the zone"), "{}", reasons[2]);
    assert!(reasons[3].contains("no SOA"), "{}", reasons[3]);
    assert!(reasons[4].contains("CNAME and other data"), "{}", reasons[4]);
    node.sink.version(ids[5], 1);
    node.until("they are counted", |node| node.database.status().unfit == 5);
}
