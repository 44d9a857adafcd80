//! Sections of the configuration that all nodes share: reading all of them, changing some, their history.

use serde::Serialize;
use tokio_postgres::types::Type as SqlType;
use tokio_postgres::{Client, Row};

use crate::connect::Link;
use crate::interface::{SectionEdit, SectionEvent, SectionSet, StoredSection};
use crate::read::ReadFault;
use crate::write::{WriteFault, random_tag};

/// Reads all sections, and the number of the last change of one, in one snapshot.
pub(crate) async fn sections(client: &Client) -> Result<SectionSet, ReadFault> {
    let query = "SELECT a.last_section, s.kind, s.name, s.toml, s.author, s.node, s.at, s.change \
                 FROM nomen.about a LEFT JOIN nomen.sections s ON true ORDER BY s.kind, s.place, s.name";
    let rows = client.query_typed(query, &[]).await?;
    let number = match rows.first() {
        Some(row) => row.try_get(0)?,
        None => return Err(ReadFault("the table nomen.about has no row".into())),
    };
    let mut sections = Vec::new();
    for row in &rows {
        // Without sections there is one row of nulls.
        if let Some(kind) = row.try_get(1)? {
            let (name, text, author) = (row.try_get(2)?, row.try_get(3)?, row.try_get(4)?);
            let (node, at, change) = (row.try_get(5)?, row.try_get(6)?, row.try_get(7)?);
            sections.push(StoredSection { kind, name, text, author, node, at, change });
        }
    }
    Ok(SectionSet { number, sections })
}

/// An edit as `nomen.change_sections` takes it.
#[derive(Serialize)]
struct EditText<'a> {
    kind: &'a str,
    name: &'a str,
    toml: Option<&'a str>,
    place: Option<i64>,
}

/// Makes edits, all or none of them, and returns how many sections differed; `None` if sections have changed
/// after the number `seen`.
pub(crate) async fn change(
    link: &Link,
    edits: &[SectionEdit],
    seen: Option<i64>,
    (author, node): (&str, &str),
) -> Result<Option<u64>, WriteFault> {
    let texts: Vec<EditText<'_>> = edits
        .iter()
        .map(|edit| EditText {
            kind: &edit.kind,
            name: &edit.name,
            toml: edit.text.as_deref(),
            place: edit.place,
        })
        .collect();
    let payload = serde_json::to_string(&texts).map_err(|fault| WriteFault::Refused(fault.to_string()))?;
    let query = "SELECT before_first, last_one FROM nomen.change_sections($1::text::jsonb, $2, $3, $4, $5)";
    let rows = link
        .client
        .query_typed(
            query,
            &[
                (&payload, SqlType::TEXT),
                (&seen, SqlType::INT8),
                (&author, SqlType::TEXT),
                (&node, SqlType::TEXT),
                (&random_tag(), SqlType::INT8),
            ],
        )
        .await;
    let of = |fault: tokio_postgres::Error| WriteFault::of(link, &fault);
    let rows = rows.map_err(of)?;
    let Some(row) = rows.first() else { return Ok(None) };
    let (before, last): (i64, i64) = (row.try_get(0).map_err(of)?, row.try_get(1).map_err(of)?);
    Ok(Some((last - before).unsigned_abs()))
}

/// Reads the last changes of sections, the newest first; `kind` and `name` limit them.
pub(crate) async fn history(
    client: &Client,
    kind: Option<&str>,
    name: Option<&str>,
    most: usize,
) -> Result<Vec<SectionEvent>, ReadFault> {
    let query = "SELECT number, view, name, removed, added, author, node, at FROM nomen.changes \
        WHERE zone = 0 AND kind = 'section' AND ($1::text IS NULL OR view = $1) AND ($2::text IS NULL OR name = $2) \
        ORDER BY number DESC LIMIT $3";
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let parameters = [(&kind as _, SqlType::TEXT), (&name as _, SqlType::TEXT), (&most as _, SqlType::INT8)];
    let text = |row: &Row, at: usize| -> Result<Option<String>, ReadFault> {
        Ok(row.try_get::<_, Option<Vec<String>>>(at)?.and_then(|texts| texts.into_iter().next()))
    };
    let event = |row: &Row| {
        Ok(SectionEvent {
            number: row.try_get(0)?,
            kind: row.try_get(1)?,
            name: row.try_get(2)?,
            before: text(row, 3)?,
            after: text(row, 4)?,
            author: row.try_get(5)?,
            node: row.try_get(6)?,
            at: row.try_get(7)?,
        })
    };
    client.query_typed(query, &parameters).await?.iter().map(event).collect()
}
