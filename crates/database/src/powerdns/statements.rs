//! SQL on PowerDNS's tables, and the rows that come back. Only columns that all versions of the schema since
//! 3.4 have are named, and of `cryptokeys` none that holds a key: a role needs no right to read those.

use std::error::Error;

use futures_util::TryStreamExt as _;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{FromSql, Kind, ToSql, Type as SqlType};
use tokio_postgres::{Client, Row};

use super::zone_rows::{RecordRow, RowSum};

/// Longest wait for the next row: a large table is sorted before the first one comes.
const ROW_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(300);

/// Settings of the session: one that only reads, with time for large tables. Text comes as the bytes that are
/// stored, as PowerDNS reads it; with another encoding one row with bytes that are not of it would be an
/// error for all of them.
pub(super) const SESSION: &str = "SET default_transaction_read_only = on; SET client_encoding = 'SQL_ASCII'; SET statement_timeout = '300s'; \
    SET idle_in_transaction_session_timeout = '300s'";

/// All domains with the SOA row of each.
pub(super) const DOMAINS: &str = "\
SELECT d.id::bigint, d.name::text, upper(d.type::text), s.content::text,
    EXISTS (SELECT FROM domainmetadata m
        WHERE m.domain_id = d.id AND m.kind = 'PRESIGNED' AND m.content = '1'),
    EXISTS (SELECT FROM cryptokeys k WHERE k.domain_id = d.id AND k.active)
FROM domains d
LEFT JOIN records s
    ON s.domain_id = d.id AND s.name = d.name AND s.type = 'SOA' AND s.disabled IS NOT TRUE";

/// Fails where a table, a column or a privilege is missing, and returns no row.
pub(super) const PROBE: &str = "\
SELECT d.id, d.name, d.type, r.id, r.name, r.type, r.content, r.ttl, r.prio, r.disabled, m.kind, m.content, k.active
FROM domains d
JOIN records r ON r.domain_id = d.id
JOIN domainmetadata m ON m.domain_id = d.id
JOIN cryptokeys k ON k.domain_id = d.id
WHERE false";

/// The hash of a row: of the text of all columns that matter. It is not the same on every server.
macro_rules! row_hash {
    () => {
        "hashtextextended(ROW(r.name, r.type, r.content, r.ttl, r.prio, r.disabled)::text, 0)"
    };
}

/// The rows of some domains, one domain after the other. RRsets begin with their least TTL.
pub(super) const RECORDS: &str = concat!(
    "SELECT r.domain_id::bigint, r.id::bigint, r.name::text, r.type::text,
    CASE WHEN octet_length(r.content) <= $2 THEN r.content::text END,
    r.ttl::bigint, r.prio::bigint, r.disabled IS TRUE, ",
    row_hash!(),
    "\nFROM records r WHERE r.domain_id = ANY ($1::bigint[])
ORDER BY r.domain_id, r.name::text COLLATE \"C\", r.ttl"
);

/// The number of rows of each domain, and the sum of their hashes.
pub(super) const SUMS: &str = concat!(
    "SELECT r.domain_id::bigint, count(*), sum(",
    row_hash!(),
    "::numeric)::text FROM records r WHERE r.domain_id IS NOT NULL GROUP BY r.domain_id"
);

/// The greatest id of a row.
pub(super) const LAST_RECORD: &str = "SELECT coalesce(max(id), 0)::bigint FROM records";

/// Domains with rows above an id.
pub(super) const ADDED_TO: &str =
    "SELECT DISTINCT domain_id::bigint FROM records WHERE id > $1::bigint AND domain_id IS NOT NULL";

/// Domains whose serials PowerDNS changes in its answers.
pub(super) const EDITED: &str = "\
SELECT d.name::text FROM domains d WHERE EXISTS (SELECT FROM domainmetadata m
    WHERE m.domain_id = d.id AND m.kind = 'SOA-EDIT' AND m.content NOT IN ('', 'NONE')) ORDER BY 1";

/// Which cluster this server is of, whether it is a replica, and how far it is.
pub(super) const POSITION: &str = "\
SELECT (SELECT system_identifier::text FROM pg_control_system()), pg_is_in_recovery(),
    ((CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END) - '0/0')::text";

/// Text as bytes: a database with the encoding SQL_ASCII has any.
pub(super) struct TextBytes<'r>(pub(super) &'r [u8]);

impl<'r> FromSql<'r> for TextBytes<'r> {
    fn from_sql(_: &SqlType, raw: &'r [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(TextBytes(raw))
    }

    fn accepts(sql: &SqlType) -> bool {
        matches!(*sql, SqlType::TEXT | SqlType::VARCHAR | SqlType::BPCHAR | SqlType::NAME)
            || *sql.kind() == Kind::Simple && sql.name() == "citext"
    }
}

/// A row of [`DOMAINS`].
pub(super) struct DomainRow<'r> {
    pub(super) id: i64,
    pub(super) name: &'r [u8],
    pub(super) kind: &'r [u8],
    pub(super) soa: Option<&'r [u8]>,
    pub(super) presigned: bool,
    pub(super) keys: bool,
}

impl<'r> DomainRow<'r> {
    /// Reads the columns.
    ///
    /// # Errors
    /// A column is of another kind, or NULL.
    pub(super) fn read(row: &'r Row) -> Result<Self, String> {
        let text = |at| bytes(row, at).map(Option::unwrap_or_default);
        Ok(DomainRow {
            id: value(row, 0)?,
            name: text(1)?,
            kind: text(2)?,
            soa: bytes(row, 3)?,
            presigned: value(row, 4)?,
            keys: value(row, 5)?,
        })
    }
}

/// Reads the columns of a row of [`RECORDS`]: the domain and the record.
///
/// # Errors
/// A column is of another kind.
pub(super) fn record_row(row: &Row) -> Result<(i64, RecordRow<'_>), String> {
    let record = RecordRow {
        id: value(row, 1)?,
        name: bytes(row, 2)?,
        rtype: bytes(row, 3)?,
        content: bytes(row, 4)?,
        ttl: value(row, 5)?,
        prio: value(row, 6)?,
        disabled: value(row, 7)?,
        hash: value(row, 8)?,
    };
    Ok((value(row, 0)?, record))
}

/// Reads the columns of a row of [`SUMS`].
pub(super) fn sum_row(row: &Row) -> Result<(i64, RowSum), String> {
    let hashes: String = value(row, 2)?;
    let hashes = hashes.parse().map_err(|_| "a sum that is no number".to_owned())?;
    Ok((value(row, 0)?, RowSum { rows: value(row, 1)?, hashes }))
}

pub(super) fn value<'r, T: FromSql<'r>>(row: &'r Row, at: usize) -> Result<T, String> {
    row.try_get(at).map_err(|fault| explained(&fault))
}

fn bytes(row: &Row, at: usize) -> Result<Option<&[u8]>, String> {
    Ok(value::<Option<TextBytes<'_>>>(row, at)?.map(|text| text.0))
}

/// Passes the rows of a statement to `each`, as they arrive.
///
/// # Errors
/// Why the statement failed, or what `each` returned.
pub(super) async fn for_each(
    client: &Client,
    statement: &str,
    parameters: &[&(dyn ToSql + Sync)],
    mut each: impl FnMut(&Row) -> Result<(), String>,
) -> Result<(), String> {
    let rows = within(client.query_raw(statement, parameters.iter().copied())).await?;
    let mut rows = std::pin::pin!(rows);
    while let Some(row) = within(rows.try_next()).await? {
        each(&row)?;
    }
    Ok(())
}

/// Waits for the database, [`ROW_TIMEOUT`] at most.
pub(super) async fn within<T>(
    answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, String> {
    match tokio::time::timeout(ROW_TIMEOUT, answer).await {
        Ok(answer) => answer.map_err(|fault| explained(&fault)),
        Err(_) => Err(format!("no answer within {} s", ROW_TIMEOUT.as_secs())),
    }
}

/// Why a statement failed, and what to do.
fn explained(fault: &tokio_postgres::Error) -> String {
    let Some(answer) = fault.as_db_error() else {
        return fault.source().map_or_else(|| fault.to_string(), ToString::to_string);
    };
    let message = answer.message();
    match *answer.code() {
        SqlState::UNDEFINED_TABLE | SqlState::UNDEFINED_COLUMN => format!(
            "{message}: these are not the tables of PowerDNS's gpgsql backend, or the role does not find them \
            (search_path)"
        ),
        SqlState::INSUFFICIENT_PRIVILEGE => {
            format!("{message}: the role needs SELECT, see docs/DATABASE.md")
        }
        _ => message.to_owned(),
    }
}
