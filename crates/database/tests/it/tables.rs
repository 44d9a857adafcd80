//! The schema: who may change it, its migrations, and what is noticed about damaged ones.

use database::{DatabaseAdmin, SCHEMA_VERSION};
use testkit::postgres::PostgresServer;

use crate::node::{Node, admin, fresh, new_zone, settings, zone};

#[test]
fn edits_by_hand_are_refused() {
    let database = fresh();
    admin(&database).create(&[new_zone(&zone("example.", 1, ""))]).expect("made");
    for sql in [
        "UPDATE nomen.zones SET serial = 2",
        "DELETE FROM nomen.zones",
        "INSERT INTO nomen.rrsets VALUES (1, 'x.example.', 'A', '', 60, '{192.0.2.3}')",
        "DELETE FROM nomen.rrsets WHERE false",
        "TRUNCATE nomen.rrsets",
        "DELETE FROM nomen.changes",
        "UPDATE nomen.about SET last_change = 0",
        "DELETE FROM nomen.key_sets",
        "INSERT INTO nomen.keys VALUES (1, 'K', '', '', '')",
    ] {
        let refusal = database.refused(sql);
        assert!(
            refusal.contains("by the functions of its schema only") && refusal.contains("HINT"),
            "{sql}: {refusal}"
        );
    }
    assert_eq!(database.sql("SELECT serial FROM nomen.zones"), "1");
}

#[test]
fn the_schema_is_made_once() {
    let database = PostgresServer::shared().database();
    let admin = admin(&database);
    assert_eq!(admin.compare_schema().expect("read").version, None);
    assert!(admin.migrate().expect_err("nothing to migrate").contains("nomen database init"));
    // Several at a time.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| crate::node::admin(&database).init().expect("a schema"));
        }
    });
    assert_eq!(admin.init(), Ok((SCHEMA_VERSION, SCHEMA_VERSION)));
    let report = admin.compare_schema().expect("read");
    assert_eq!((report.version, &report.differences[..]), (Some(SCHEMA_VERSION), &[][..]));
    assert_eq!(database.sql("SELECT count(*) FROM nomen.about"), "1");
}

#[test]
fn roles_that_only_read_get_no_keys() {
    let database = PostgresServer::shared().database();
    let [reader, node] = ["reader", "node"].map(|role| format!("{role}_{}", database.name));
    database.sql(&format!("CREATE ROLE \"{reader}\"; CREATE ROLE {node}"));
    database.sql(include_str!("../../sql/0001.sql"));
    database.sql(
        "BEGIN; SET LOCAL search_path = nomen, pg_catalog, pg_temp, nomen_writes; \
         INSERT INTO nomen.about (version) VALUES (1); COMMIT",
    );
    let admin = admin(&database);
    admin.grant(&node).expect("granted");
    for role in [&*reader, "PUBLIC"] {
        database.sql(&format!("ALTER DEFAULT PRIVILEGES IN SCHEMA nomen GRANT SELECT ON TABLES TO {role}"));
    }
    assert_eq!(admin.migrate(), Ok((1, SCHEMA_VERSION)));
    let may_read = |role: &str, table: &str| {
        database.sql(&format!("SELECT has_table_privilege('{role}', 'nomen.{table}', 'SELECT')"))
    };
    assert_eq!([may_read(&reader, "sections"), may_read(&reader, "keys")], ["t", "f"]);
    assert_eq!([may_read(&node, "sections"), may_read(&node, "keys")], ["t", "t"]);
}

#[test]
fn the_owner_of_a_database_who_is_no_superuser_makes_the_schema() {
    let database = PostgresServer::shared().database();
    let user = format!("owner_{}", database.name);
    database.sql(&format!("CREATE ROLE {user} LOGIN; ALTER DATABASE {} OWNER TO {user}", database.name));
    let url = database.url().replace("//nomen@", &format!("//{user}@"));
    let admin = DatabaseAdmin::connect(settings(&url, "admin")).expect("a connection");
    assert_eq!(admin.init(), Ok((0, SCHEMA_VERSION)));
    admin.create(&[new_zone(&zone("example.", 1, ""))]).expect("made");
    let refusal = database.refused(&format!("SET ROLE {user}; DELETE FROM nomen.zones"));
    assert!(refusal.contains("by the functions of its schema only"), "{refusal}");
    assert_eq!(database.sql("SELECT serial FROM nomen.zones"), "1");
}

#[test]
fn nodes_say_what_to_do_about_a_schema() {
    let database = PostgresServer::shared().database();
    let node = Node::start(&database.url(), "a");
    assert!(node.sink.fault().contains("run `nomen database init`"), "{}", node.sink.fault());
    admin(&database).init().expect("a schema");
    node.current();
    let set = |version: i32| {
        database.sql(&format!(
            "BEGIN; SET LOCAL search_path = nomen, pg_catalog, pg_temp, nomen_writes; \
             UPDATE nomen.about SET version = {version}; COMMIT"
        ));
    };
    set(SCHEMA_VERSION + 1);
    let newer = Node::start(&database.url(), "b");
    assert!(newer.sink.fault().contains("needs a newer nomen"), "{}", newer.sink.fault());
    assert!(admin(&database).init().expect_err("too new").contains("needs a newer nomen"));
    set(0);
    let older = Node::start(&database.url(), "c");
    assert!(older.sink.fault().contains("run `nomen database migrate`"), "{}", older.sink.fault());
}

#[test]
fn a_migration_that_fails_leaves_nothing() {
    let database = PostgresServer::shared().database();
    database.sql("CREATE SCHEMA nomen; CREATE TABLE nomen.changes (x int)");
    let fault = admin(&database).init().expect_err("a table is in the way");
    assert!(fault.contains("version 1 of the schema") && fault.contains("changes"), "{fault}");
    let tables = "SELECT string_agg(relname, ',') FROM pg_class WHERE relnamespace = 'nomen'::regnamespace AND relkind = 'r'";
    assert_eq!(database.sql(tables), "changes");
    database.sql("DROP TABLE nomen.changes");
    assert_eq!(admin(&database).init(), Ok((0, SCHEMA_VERSION)));
}

#[test]
fn a_damaged_schema_is_described() {
    let database = fresh();
    database.sql(
        "ALTER TABLE nomen.zones DISABLE TRIGGER guard; DROP FUNCTION nomen.set_template; \
         DROP INDEX nomen.changes_tag; ALTER TABLE nomen.rrsets DROP COLUMN covers; \
         CREATE OR REPLACE FUNCTION nomen.take_numbers(how_many bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'",
    );
    let found = admin(&database).compare_schema().expect("read").differences;
    for part in [
        "nomen.rrsets has no column covers",
        "the function nomen.set_template is missing",
        "the function nomen.take_numbers is another one",
        "nomen.zones has no trigger",
        "the index nomen.changes_tag is missing",
    ] {
        assert!(found.iter().any(|line| line.contains(part)), "{part}: {found:?}");
    }
}

#[test]
fn names_fold_by_ascii_in_every_locale() {
    let database = fresh();
    let admin = admin(&database);
    let content = zone("example.", 1, "İx A 192.0.2.3\nI A 192.0.2.4");
    admin.create(&[new_zone(&content)]).expect("made");
    // The key is the lower case of ASCII, whatever the collation of the database.
    let index = database.sql("SELECT indexdef FROM pg_indexes WHERE indexname = 'rrsets_key'");
    assert!(index.contains("lower(name)"), "{index}");
    assert_eq!(
        database.sql(
            "SELECT collname FROM pg_attribute a JOIN pg_collation c ON c.oid = a.attcollation \
            WHERE a.attrelid = 'nomen.rrsets'::regclass AND attname = 'name'"
        ),
        "C"
    );
}

#[test]
fn a_fault_says_which_host() {
    let two = settings("postgresql://nomen@127.0.0.1:1,127.0.0.1:2/x", "a");
    let fault = DatabaseAdmin::connect(two).err().expect("no server");
    assert!(fault.contains("127.0.0.1:1: ") && fault.contains("127.0.0.1:2: "), "{fault}");
}
