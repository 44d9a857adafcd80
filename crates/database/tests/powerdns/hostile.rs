//! Rows that PowerDNS itself would not write.

use testkit::postgres::PostgresServer;
use wire::{Serial, Type};

use crate::TABLES;
use crate::sink::{Node, data, domain, fresh, read, row};

#[test]
fn columns_of_other_types_and_nulls_are_read() {
    let database = fresh();
    database.sql("ALTER TABLE records ALTER content TYPE text, ALTER ttl TYPE bigint, ALTER id TYPE int");
    let id = domain(&database, "c.example", 1);
    database.sql(&format!(
        "INSERT INTO records (domain_id, name, type, content) VALUES \
         ({id}, 'ent.c.example', NULL, NULL), ({id}, 'x.c.example', '', ''), ({id}, 'nottl.c.example', 'A', '192.0.2.3')"
    ));
    let zone = read(&database, id).expect("a zone");
    assert_eq!(data(&zone, "nottl.c.example.", Type::A), ["192.0.2.3"]);
    database
        .sql(&format!("UPDATE records SET name = NULL WHERE domain_id = {id} AND name = 'nottl.c.example'"));
    assert!(read(&database, id).expect_err("a fault").contains("the name is NULL"));
}

#[test]
fn huge_content_is_not_read() {
    let database = fresh();
    database.sql("ALTER TABLE records ALTER content TYPE text");
    let id = domain(&database, "h.example", 1);
    row(&database, &id.to_string(), "h.example", "TXT", "x");
    database.sql("UPDATE records SET content = repeat('x', 20000000) WHERE type = 'TXT'");
    assert!(read(&database, id).expect_err("a fault").contains("the content is NULL or has more than"));
}

#[test]
fn bytes_of_any_encoding_are_read() {
    let server = PostgresServer::shared();
    let name = server.database().name;
    let made = format!("CREATE DATABASE {name}ascii ENCODING 'SQL_ASCII' TEMPLATE template0");
    server.existing("postgres").sql(&made);
    let database = server.existing(&format!("{name}ascii"));
    database.sql(TABLES);
    let id = domain(&database, "latin.example", 1);
    database.sql(&format!(
        "INSERT INTO records (domain_id, name, type, content, ttl) \
         VALUES ({id}, 'latin.example', 'TXT', E'\"\\xe4\"', 60)"
    ));
    let zone = read(&database, id).expect("a zone");
    assert_eq!(data(&zone, "latin.example.", Type::TXT), [r#""\228""#]);
    database.sql(&format!(
        "UPDATE records SET name = E'\\xe4.latin.example' WHERE domain_id = {id} AND type = 'TXT'"
    ));
    let zone = read(&database, id).expect("a zone");
    assert_eq!(data(&zone, r"\228.latin.example.", Type::TXT).len(), 1);
}

#[test]
fn odd_domains_do_not_stop_the_others() {
    let database = fresh();
    let good = domain(&database, "good.example", 1);
    let no_name = domain(&database, "a..b", 1);
    let twice = domain(&database, "good.example.", 1);
    let two_soas = domain(&database, "two.example", 1);
    row(&database, &two_soas.to_string(), "two.example", "SOA", "ns1.two.example h.two.example 9 1 2 3 4");
    let empty =
        database.sql("INSERT INTO domains (name, type) VALUES ('empty.example', 'NATIVE') RETURNING id");
    database.sql("INSERT INTO domains (name, type) VALUES ('new.example', 'SLAVE')");
    let node = Node::start(&database.url());
    node.version(good, 1);
    let empty = database::ZoneId(empty.parse().expect("a number"));
    let why = node.until("no rows", empty, |held| held.unfit.is_some()).unfit.expect("a reason");
    assert!(why.contains("no SOA record"), "{why}");
    let why = node.until("two SOA rows", two_soas, |held| held.unfit.is_some()).unfit.expect("a reason");
    assert!(why.contains("more than one SOA"), "{why}");
    // The unique index of names does not see the final dot: the second one is left out, as is a name that is
    // none.
    node.status("two zones are good", |status| (status.zones, status.unfit) == (3, 4));
    for id in [no_name, twice] {
        assert!(read(&database, id).is_err());
    }
    assert_eq!(read(&database, good).expect("a zone").serial(), Serial(1));
}
