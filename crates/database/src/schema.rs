//! The schema `nomen`: its versions as SQL, making and migrating it, and comparing it with what this
//! program knows.

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type as SqlType;

use crate::connect::fault_text;

/// The SQL of each version, from 1 on. Each runs in a transaction of its own.
const MIGRATIONS: &[&str] =
    &[include_str!("../sql/0001.sql"), include_str!("../sql/0002.sql"), include_str!("../sql/0003.sql")];

/// The version that this program knows.
pub const SCHEMA_VERSION: i32 = MIGRATIONS.len() as i32;

/// The lock of those who make or migrate the schema: `nomen` in ASCII.
const MIGRATION_LOCK: i64 = 0x6e_6f6d_656e;

/// The search path of the functions that write, by which the triggers know them.
const WRITES: &str = "nomen, pg_catalog, pg_temp, nomen_writes";

/// Tables with their columns.
const TABLES: &[(&str, &[&str])] = &[
    ("about", &["singleton", "version", "cluster", "last_change", "last_section"]),
    ("zones", &["id", "view", "name", "template", "serial", "change", "created"]),
    ("rrsets", &["zone", "name", "type", "covers", "ttl", "data"]),
    (
        "changes",
        &[
            "number",
            "zone",
            "view",
            "name",
            "kind",
            "serial_before",
            "serial_after",
            "removed",
            "added",
            "author",
            "node",
            "at",
            "tag",
        ],
    ),
    ("nodes", &["name", "seen", "change", "zones", "version", "address"]),
    ("sections", &["kind", "name", "toml", "place", "author", "node", "at", "change"]),
    ("key_sets", &["zone", "version", "stamp", "serial", "dnskey_ttl", "largest_ttl", "changed"]),
    ("keys", &["zone", "name", "public", "private", "state"]),
    ("signer", &["singleton", "node", "session", "since"]),
];
/// Tables that the functions of the schema alone change.
const GUARDED: &[&str] = &["about", "zones", "rrsets", "changes", "sections", "key_sets", "keys"];
/// Indexes without which reads take long, or rows come twice.
const INDEXES: &[&str] = &[
    "about_pkey",
    "zones_pkey",
    "zones_view_name_key",
    "rrsets_key",
    "changes_pkey",
    "changes_zone",
    "changes_tag",
    "sections_pkey",
    "key_sets_pkey",
    "keys_pkey",
];

/// The advisory lock of the node that signs: `nomens` in ASCII.
pub(crate) const SIGNER_LOCK: i64 = 0x6e6f_6d65_6e73;
/// That lock in the view `pg_locks`, which has it in two halves.
pub(crate) const LOCK_CONDITION: &str = "l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 \
    AND l.classid = 28271 AND l.objid = 1835363955 \
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())";

/// The version of the schema in a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// There is none.
    None,
    /// This one.
    Version(i32),
}

/// Returns the version of the schema.
pub(crate) async fn version(client: &Client) -> Result<Found, String> {
    match client.query_typed("SELECT version FROM nomen.about", &[]).await {
        Ok(rows) => match rows.first() {
            Some(row) => row.try_get(0).map(Found::Version).map_err(|fault| fault_text(&fault)),
            None => Err("the table nomen.about has no row: the schema is damaged".into()),
        },
        Err(fault) => match fault.code() {
            Some(code) if *code == SqlState::UNDEFINED_TABLE || *code == SqlState::INVALID_SCHEMA_NAME => {
                Ok(Found::None)
            }
            _ => Err(fault_text(&fault)),
        },
    }
}

/// Checks that the schema is the one that this program knows.
///
/// # Errors
/// What to do.
pub(crate) async fn is_usable(client: &Client) -> Result<(), String> {
    match version(client).await? {
        Found::Version(SCHEMA_VERSION) => Ok(()),
        Found::None => Err("it has no tables of nomen: run `nomen database init`".into()),
        Found::Version(older) if older < SCHEMA_VERSION => Err(format!(
            "its schema has version {older}, and this program needs {SCHEMA_VERSION}: run `nomen database migrate`"
        )),
        Found::Version(newer) => Err(format!(
            "its schema has version {newer}, and this program knows {SCHEMA_VERSION}: it needs a newer nomen"
        )),
    }
}

/// Makes the schema, or brings it to the version that this program knows; returns the versions before and
/// after. Several at a time wait for each other. `may_make`: whether there may be none.
pub(crate) async fn migrate(client: &Client, may_make: bool) -> Result<(i32, i32), String> {
    let text = |fault| fault_text(&fault);
    client
        .query_typed("SELECT pg_advisory_lock($1)", &[(&MIGRATION_LOCK, SqlType::INT8)])
        .await
        .map_err(text)?;
    let done = migrate_locked(client, may_make).await;
    let unlocked =
        client.query_typed("SELECT pg_advisory_unlock($1)", &[(&MIGRATION_LOCK, SqlType::INT8)]).await;
    let done = done?;
    unlocked.map_err(text)?;
    Ok(done)
}

async fn migrate_locked(client: &Client, may_make: bool) -> Result<(i32, i32), String> {
    let before = match version(client).await? {
        Found::None if !may_make => return Err("it has no tables of nomen: run `nomen database init`".into()),
        Found::None => 0,
        Found::Version(newer) if newer > SCHEMA_VERSION => {
            return Err(format!(
                "its schema has version {newer}, and this program knows {SCHEMA_VERSION}: it needs a newer nomen"
            ));
        }
        Found::Version(version) => version,
    };
    for (number, sql) in (1..).zip(MIGRATIONS).skip(before.unsigned_abs() as usize) {
        let note = match number {
            1 => "INSERT INTO nomen.about (version) VALUES (1)".to_owned(),
            _ => format!("UPDATE nomen.about SET version = {number}"),
        };
        let step = format!("BEGIN; {sql}; SET LOCAL search_path = {WRITES}; {note}; COMMIT");
        if let Err(fault) = client.batch_execute(&step).await {
            let _ = client.batch_execute("ROLLBACK").await;
            return Err(format!("version {number} of the schema: {}", fault_text(&fault)));
        }
    }
    Ok((before, SCHEMA_VERSION))
}

/// Returns the functions of the SQL with their bodies, the last version of each.
fn functions() -> Vec<(&'static str, &'static str)> {
    let mut found: Vec<(&str, &str)> = Vec::new();
    for sql in MIGRATIONS {
        for part in sql.split("CREATE FUNCTION nomen.").skip(1) {
            let (Some((name, _)), Some((_, rest))) = (part.split_once('('), part.split_once("$$")) else {
                continue;
            };
            let Some((body, _)) = rest.split_once("$$") else { continue };
            found.retain(|(known, _)| *known != name);
            found.push((name, body));
        }
    }
    found
}

/// Compares tables, indexes, functions and triggers with those of this program; returns what differs.
pub(crate) async fn differences(client: &Client) -> Result<Vec<String>, String> {
    let text = |fault: tokio_postgres::Error| fault_text(&fault);
    let mut differs = Vec::new();
    let columns = client
        .query_typed(
            "SELECT c.relname::text, a.attname::text FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid \
             WHERE c.relnamespace = 'nomen'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped",
            &[],
        )
        .await
        .map_err(text)?;
    let mut has = Vec::new();
    for row in &columns {
        has.push((row.try_get::<_, &str>(0).map_err(text)?, row.try_get::<_, &str>(1).map_err(text)?));
    }
    for (table, wanted) in TABLES {
        for column in *wanted {
            if !has.contains(&(table, column)) {
                differs.push(format!("nomen.{table} has no column {column}"));
            }
        }
    }
    let rows = client
        .query_typed(
            "SELECT p.proname::text, p.prosrc FROM pg_proc p WHERE p.pronamespace = 'nomen'::regnamespace",
            &[],
        )
        .await
        .map_err(text)?;
    let mut bodies = Vec::new();
    for row in &rows {
        bodies.push((row.try_get::<_, &str>(0).map_err(text)?, row.try_get::<_, &str>(1).map_err(text)?));
    }
    for (name, body) in functions() {
        match bodies.iter().filter(|(found, _)| *found == name).map(|(_, body)| *body).collect::<Vec<_>>()[..]
        {
            [] => differs.push(format!("the function nomen.{name} is missing")),
            [found] if found == body => {}
            [_] => differs.push(format!("the function nomen.{name} is another one")),
            _ => differs.push(format!("there are several functions nomen.{name}")),
        }
    }
    let triggers = names(
        client,
        "SELECT c.relname::text FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid \
         WHERE c.relnamespace = 'nomen'::regnamespace AND t.tgname = 'guard' AND t.tgenabled IN ('O', 'A')",
    )
    .await?;
    let indexes = names(
        client,
        "SELECT c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
         WHERE c.relnamespace = 'nomen'::regnamespace AND i.indisvalid",
    )
    .await?;
    for table in GUARDED.iter().filter(|table| !triggers.iter().any(|found| found == *table)) {
        differs.push(format!("nomen.{table} has no trigger against changes by hand, or it is switched off"));
    }
    for index in INDEXES.iter().filter(|index| !indexes.iter().any(|found| found == *index)) {
        differs.push(format!("the index nomen.{index} is missing or invalid"));
    }
    Ok(differs)
}

/// Returns the privileges that a node needs and this role lacks.
pub(crate) async fn missing_privileges(client: &Client) -> Result<Vec<String>, String> {
    let mut missing =
        names(client, "SELECT 'USAGE on the schema nomen' WHERE NOT has_schema_privilege('nomen', 'USAGE')")
            .await?;
    missing.extend(
        names(
            client,
            "SELECT format('%s on nomen.%s', p.privilege, c.relname) FROM pg_class c \
             CROSS JOIN (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) AS p (privilege) \
             WHERE c.relnamespace = 'nomen'::regnamespace AND c.relkind = 'r' \
             AND NOT has_table_privilege(c.oid, p.privilege) ORDER BY c.relname, p.privilege",
        )
        .await?,
    );
    missing.extend(
        names(
            client,
            "SELECT format('EXECUTE on the function nomen.%s', p.proname) FROM pg_proc p \
             WHERE p.pronamespace = 'nomen'::regnamespace AND NOT has_function_privilege(p.oid, 'EXECUTE') \
             ORDER BY p.proname",
        )
        .await?,
    );
    Ok(missing)
}

async fn names(client: &Client, query: &str) -> Result<Vec<String>, String> {
    let rows = client.query_typed(query, &[]).await.map_err(|fault| fault_text(&fault))?;
    let names: Result<Vec<String>, _> = rows.iter().map(|row| row.try_get(0)).collect();
    names.map_err(|fault| fault_text(&fault))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_condition_is_about_the_lock() {
        let (high, low) = (SIGNER_LOCK >> 32, SIGNER_LOCK & 0xffff_ffff);
        assert!(LOCK_CONDITION.contains(&format!("classid = {high} AND l.objid = {low} ")));
    }
}
