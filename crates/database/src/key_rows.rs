//! Reading the keys of zones that the nodes sign.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;

use futures_util::TryStreamExt;
use tokio_postgres::types::Type as SqlType;
use tokio_postgres::{Client, Row};
use wire::{Serial, ZoneName};
use zeroize::Zeroizing;

use crate::interface::ZoneId;
use crate::keys::{KeySetVersion, StoredKey, ZoneKeySet};
use crate::read::ReadFault;
use crate::text::zone_name;

/// Zones whose keys are read by one statement.
pub(crate) const KEY_SETS_AT_A_TIME: usize = 1000;

/// Reads the versions of the keys of all zones that have some.
pub(crate) async fn key_versions(client: &Client) -> Result<HashMap<ZoneId, KeySetVersion>, ReadFault> {
    let rows = client.query_typed_raw("SELECT zone, version, stamp FROM nomen.key_sets", NO_PARAMETERS);
    let mut rows = pin!(rows.await?);
    let mut versions = HashMap::new();
    while let Some(row) = rows.try_next().await? {
        let version = KeySetVersion { number: row.try_get(1)?, stamp: row.try_get(2)? };
        versions.insert(ZoneId(row.try_get(0)?), version);
    }
    Ok(versions)
}

/// No parameters of a statement.
const NO_PARAMETERS: [(i64, SqlType); 0] = [];

/// Reads the keys of zones. A zone without keys has none in the result.
pub(crate) async fn key_sets(
    client: &Client,
    zones: &[ZoneId],
) -> Result<Vec<(ZoneId, ZoneName, ZoneKeySet)>, ReadFault> {
    let query = "SELECT s.zone, s.version, s.stamp, s.dnskey_ttl, s.largest_ttl, k.name, k.public, k.private, k.state, \
        z.view, z.name, s.serial FROM nomen.key_sets s JOIN nomen.zones z ON z.id = s.zone \
        LEFT JOIN nomen.keys k ON k.zone = s.zone WHERE s.zone = ANY($1) ORDER BY s.zone, k.name";
    let ids: Vec<i64> = zones.iter().map(|zone| zone.0).collect();
    let mut found: Vec<(ZoneId, ZoneName, ZoneKeySet)> = Vec::new();
    for row in client.query_typed(query, &[(&ids, SqlType::INT8_ARRAY)]).await? {
        let id = ZoneId(row.try_get(0)?);
        if found.last().is_none_or(|(last, ..)| *last != id) {
            // The list of zones has logged a name that cannot be read.
            let Ok(apex) = zone_name(row.try_get(9)?, row.try_get(10)?) else { continue };
            found.push((id, apex, set_of(&row)?));
        }
        if let (Some((.., set)), Some(name)) = (found.last_mut(), row.try_get::<_, Option<String>>(5)?) {
            set.keys.push(StoredKey {
                name,
                public: row.try_get(6)?,
                private: Arc::new(Zeroizing::new(row.try_get(7)?)),
                state: row.try_get(8)?,
            });
        }
    }
    Ok(found)
}

/// Reads the columns of a set without its keys.
fn set_of(row: &Row) -> Result<ZoneKeySet, ReadFault> {
    // The table allows only numbers below 2^32.
    let number = |at: usize| Ok::<_, ReadFault>(row.try_get::<_, i64>(at)? as u32);
    Ok(ZoneKeySet {
        version: KeySetVersion { number: row.try_get(1)?, stamp: row.try_get(2)? },
        serial: Serial(number(11)?),
        dnskey_ttl: number(3)?,
        largest_ttl: number(4)?,
        keys: Vec::new(),
    })
}
