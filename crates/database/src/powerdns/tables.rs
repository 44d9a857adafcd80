//! Listing the domains of PowerDNS's tables, and reading their rows.

use tokio_postgres::Client;
use wire::ZoneName;
use wire::hash::HashKey;

use super::known::{DomainChanges, KnownDomains};
use super::statements::{DOMAINS, DomainRow, RECORDS, for_each, record_row};
use super::zone_rows::{DomainRead, DomainRows, MAX_CONTENT};

/// Domains whose rows are read with one statement.
pub(super) const DOMAINS_AT_ONCE: usize = 1000;

/// Lists all domains. Returns what changed since the last time.
pub(super) async fn list_domains(client: &Client, known: &mut KnownDomains) -> Result<DomainChanges, String> {
    let mut changes = DomainChanges::default();
    known.begin();
    for_each(client, DOMAINS, &[], |row| {
        known.list(&DomainRow::read(row)?, &mut changes);
        Ok(())
    })
    .await?;
    known.end(&mut changes);
    Ok(changes)
}

/// Reads the rows of some domains, whose ids are in order, and passes each of them to `each`.
pub(super) async fn read_domains(
    client: &Client,
    key: &HashKey,
    known: &KnownDomains,
    ids: &[i64],
    each: &mut dyn FnMut(i64, &ZoneName, DomainRead),
) -> Result<(), String> {
    let begin = |id: i64| {
        let (apex, signing) = known.get(id)?;
        Some((id, apex, DomainRows::new(apex, signing, key)))
    };
    let mut left = ids.iter().copied();
    let mut current: Option<(i64, &ZoneName, DomainRows)> = None;
    for_each(client, RECORDS, &[&ids, &MAX_CONTENT], |row| {
        let (id, record) = record_row(row)?;
        while current.as_ref().is_none_or(|(open, ..)| *open != id) {
            let Some(next) = left.next() else { return Ok(()) };
            if let Some((id, apex, rows)) = current.take() {
                each(id, apex, rows.finish());
            }
            current = begin(next);
        }
        if let Some((.., rows)) = &mut current {
            rows.add(&record);
        }
        Ok(())
    })
    .await?;
    for (id, apex, rows) in current.take().into_iter().chain(left.filter_map(begin)) {
        each(id, apex, rows.finish());
    }
    Ok(())
}
