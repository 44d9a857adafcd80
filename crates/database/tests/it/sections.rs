//! Sections of the configuration: set together or not at all, followed by every node, with a history; and the
//! migration of a database that has none.

use database::{CommitEnd, DatabaseAdmin, DatabaseFault, SCHEMA_VERSION, SectionEdit, SectionSet};
use testkit::postgres::PostgresServer;

use crate::node::{Node, admin, commit, fresh, new_zone, zone};

fn set(kind: &str, name: &str, text: &str) -> SectionEdit {
    SectionEdit { kind: kind.into(), name: name.into(), text: Some(text.into()), place: None }
}

fn unset(kind: &str, name: &str) -> SectionEdit {
    SectionEdit { kind: kind.into(), name: name.into(), text: None, place: None }
}

fn change(admin: &DatabaseAdmin, edits: &[SectionEdit]) -> u64 {
    admin.change_sections(edits, None, "test").expect("done").expect("no other change")
}

/// Kinds, names and texts.
fn texts(set: &SectionSet) -> Vec<(&str, &str, &str)> {
    set.sections.iter().map(|one| (&*one.kind, &*one.name, &*one.text)).collect()
}

#[test]
fn nodes_follow_sections_in_turn_with_zones() {
    let database = fresh();
    let admin = admin(&database);
    let first = zone("example.", 1, "");
    let id = admin.create(&[new_zone(&first)]).expect("made")[0].expect("new");
    assert_eq!(change(&admin, &[set("policy.list", "ads", "a = 1")]), 1);
    let node = Node::start(&database.url(), "a");
    let listed = node.sink.sections(2);
    assert_eq!(texts(&listed), [("policy.list", "ads", "a = 1")]);
    assert_eq!((&*listed.sections[0].author, &*listed.sections[0].node), ("test", "admin"));
    node.current();
    // Zones and sections take numbers from one sequence.
    let second = zone("example.", 2, "");
    assert!(matches!(node.commit(commit(id, &first, &second)), CommitEnd::Committed));
    let edits =
        [set("policy.list", "ads", "a = 2"), set("api.token", "t", "b = 1"), unset("policy.list", "none")];
    assert_eq!(change(&admin, &edits), 2, "a section that is not there is no change");
    let followed = node.sink.sections(5);
    assert_eq!(texts(&followed), [("api.token", "t", "b = 1"), ("policy.list", "ads", "a = 2")]);
    node.sink.version(id, 2);
    assert_eq!(change(&admin, &[set("policy.list", "ads", "a = 2")]), 0, "it has this text already");
    assert_eq!(change(&admin, &[unset("policy.list", "ads"), unset("api.token", "t")]), 2);
    assert_eq!(texts(&node.sink.sections(7)), []);
    node.until("the number of the last change", |node| node.database.status().followed == 7);
    let history = admin.section_history(Some("policy.list"), Some("ads"), 10).expect("read");
    let steps: Vec<_> =
        history.iter().map(|event| (event.number, event.before.as_deref(), event.after.as_deref())).collect();
    assert_eq!(
        steps,
        [(6, Some("a = 2"), None), (4, Some("a = 1"), Some("a = 2")), (2, None, Some("a = 1"))]
    );
}

#[test]
fn sections_keep_their_order() {
    let database = fresh();
    let admin = admin(&database);
    let names = || {
        let set = admin.sections().expect("read");
        set.sections.iter().map(|one| one.name.clone()).collect::<Vec<_>>().concat()
    };
    change(&admin, &[set("policy.group", "c", "x"), set("policy.group", "a", "x")]);
    change(&admin, &[set("policy.group", "b", "x"), set("policy.group", "c", "y")]);
    assert_eq!(names(), "cab", "one that changes keeps its place, and a new one is the last one");
    let at = |name: &str, place| SectionEdit { place: Some(place), ..set("policy.group", name, "x") };
    assert_eq!(change(&admin, &[at("a", 0), at("b", 1), at("c", 2)]), 3);
    assert_eq!(change(&admin, &[at("a", 0), at("b", 1), at("c", 2)]), 0);
    change(&admin, &[set("policy.group", "0", "x")]);
    assert_eq!(names(), "abc0");
}

#[test]
fn edits_are_made_all_or_none() {
    let database = fresh();
    let admin = admin(&database);
    change(&admin, &[set("policy.list", "ads", "a = 1")]);
    // Another change came between the check and the edit.
    let stale = admin.change_sections(&[set("policy.list", "ads", "a = 2")], Some(0), "test");
    assert_eq!(stale, Ok(None));
    let seen = admin.sections().expect("read").number;
    assert_eq!(admin.change_sections(&[set("policy.list", "ads", "a = 2")], Some(seen), "test"), Ok(Some(1)));
    let before = database.sql("SELECT last_change FROM nomen.about");
    for (edits, words) in [
        ([set("policy.list", "b", "x"), set("policy.list", "c", &"x".repeat(65_537))], "sections_toml_check"),
        ([set("policy.list", "b", "x"), set("policy.list", "", "x")], "sections_name_check"),
        ([set("policy.list", "b", "x"), set("policy.list", "b", "y")], "second time"),
    ] {
        let refused = admin.change_sections(&edits, None, "test").expect_err("refused");
        assert!(matches!(&refused, DatabaseFault::Refused(why) if why.contains(words)), "{words}: {refused}");
    }
    assert_eq!(database.sql("SELECT last_change FROM nomen.about"), before);
    assert_eq!(texts(&admin.sections().expect("read")), [("policy.list", "ads", "a = 2")]);
    // As many as there can be, and one more.
    let all: Vec<SectionEdit> =
        (1..10_000).map(|number| set("api.token", &number.to_string(), "x")).collect();
    assert_eq!(change(&admin, &all), 9_999);
    let refused = admin.change_sections(&[set("api.token", "more", "x")], None, "test").expect_err("refused");
    assert!(refused.to_string().contains("there can be 10,000 sections"), "{refused}");
    let edit = database.refused("UPDATE nomen.sections SET toml = 'x'");
    assert!(edit.contains("by the functions of its schema only"), "{edit}");
}

#[test]
fn the_secret_of_a_key_is_not_in_the_history() {
    let database = fresh();
    let admin = admin(&database);
    change(&admin, &[set("tsig-key", "k.", "secret = \"geheim\"")]);
    change(&admin, &[unset("tsig-key", "k.")]);
    assert_eq!(database.sql("SELECT count(*) FROM nomen.changes WHERE kind = 'section'"), "2");
    assert_eq!(
        database.sql("SELECT count(*) FROM nomen.changes WHERE added IS NOT NULL OR removed IS NOT NULL"),
        "0"
    );
}

#[test]
fn a_database_of_version_1_is_migrated_with_its_zones() {
    let database = PostgresServer::shared().database();
    database.sql(include_str!("../../sql/0001.sql"));
    database.sql(
        "BEGIN; SET LOCAL search_path = nomen, pg_catalog, pg_temp, nomen_writes; \
         INSERT INTO nomen.about (version) VALUES (1); COMMIT",
    );
    let admin = admin(&database);
    let content = zone("example.", 1, "");
    let id = admin.create(&[new_zone(&content)]).expect("made")[0].expect("new");
    let node = Node::start(&database.url(), "a");
    assert!(node.sink.fault().contains("run `nomen database migrate`"), "{}", node.sink.fault());
    assert_eq!(admin.migrate(), Ok((1, SCHEMA_VERSION)));
    assert_eq!(admin.compare_schema().expect("read").differences, [""; 0]);
    node.sink.version(id, 1);
    assert_eq!(change(&admin, &[set("policy.list", "ads", "a = 1")]), 1);
    assert_eq!(node.sink.sections(2).sections.len(), 1);
    // What version 3 has is there as well.
    let keys = crate::keys::set(1, 5, &["Kexample.+013+00001"]);
    assert!(matches!(
        node.commit(crate::keys::commit_keys(id, &content, 0, Some(keys))),
        CommitEnd::Committed
    ));
}
