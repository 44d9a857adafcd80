//! Records of the challenge dns-01 in zones of this server (RFC 8555 §8.4): they are added before the CA
//! asks for them, and removed after the order, also if the server was stopped in the meantime.

use std::sync::Arc;
use std::time::Duration;

use acme::{AcmeStore, ChallengeProof, StoredRecord};
use config::acme::challenge_owner;
use tracing::{error, info};
use wire::{Name, NameBuf, ViewName, ZoneName};

use super::propagation::ZoneServers;
use super::records::{ChallengePlace, ChallengeRecord, ChallengeZones};
use super::stored::blocking;

/// How long an order waits for the servers of its zones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ServerWait {
    /// Whether they are asked for the record.
    pub(super) is_checked: bool,
    /// Longest time until they have it; if they are not asked, the time until the CA asks them.
    pub(super) longest: Duration,
}

/// The records of one order.
pub(super) struct OrderRecords<'r> {
    pub(super) zones: &'r Arc<dyn ChallengeZones>,
    pub(super) store: &'r AcmeStore,
    pub(super) servers: &'r ZoneServers,
    pub(super) wait: ServerWait,
}

impl OrderRecords<'_> {
    /// Adds the records of these proofs, and waits until the servers of their zones have them.
    pub(super) async fn show(&self, proofs: &[ChallengeProof]) -> Result<(), String> {
        let mut records = Vec::new();
        for proof in proofs {
            let places = self.zones.places(&challenge_owner(&proof.name)?)?;
            let record = |place| ChallengeRecord { place, value: proof.text.clone() };
            records.extend(places.into_iter().map(record));
        }
        // They are removed even if the server is killed from here on.
        let stored: Vec<StoredRecord> = records.iter().map(stored).collect();
        blocking(self.store, move |store| store.keep_records(&stored)).await?;
        self.zones.add(records.clone()).await?;
        let owners: Vec<String> = records.iter().map(|record| record.place.owner.to_string()).collect();
        info!("records of the challenge are in service: {}", owners.join(", "));
        match self.wait.is_checked {
            true => self.servers.await_records(&records, self.wait.longest).await,
            false => {
                tokio::time::sleep(self.wait.longest).await;
                Ok(())
            }
        }
    }
}

/// Removes the records of orders that have ended. Returns whether none is left.
pub(super) async fn withdraw(zones: Option<&Arc<dyn ChallengeZones>>, store: &AcmeStore) -> bool {
    match withdrawn(zones, store).await {
        Ok(()) => true,
        Err(fault) => {
            error!("records of a challenge are left in a zone: {fault}");
            false
        }
    }
}

async fn withdrawn(zones: Option<&Arc<dyn ChallengeZones>>, store: &AcmeStore) -> Result<(), String> {
    let stored = blocking(store, AcmeStore::records).await?;
    if stored.is_empty() {
        return Ok(());
    }
    let zones = zones.ok_or("zones cannot be changed")?;
    let records: Option<Vec<ChallengeRecord>> = stored.iter().map(read).collect();
    let records = records.ok_or("what is stored of them is damaged")?;
    zones.remove(records).await?;
    blocking(store, |store| store.keep_records(&[])).await
}

fn stored(record: &ChallengeRecord) -> StoredRecord {
    let ChallengePlace { zone, owner } = &record.place;
    StoredRecord {
        zone: zone.as_name().to_string(),
        view: zone.view().map(str::to_owned),
        owner: owner.to_string(),
        value: record.value.clone(),
    }
}

/// Returns a stored record; `None` if it is damaged.
fn read(stored: &StoredRecord) -> Option<ChallengeRecord> {
    let name = |text: &str| NameBuf::from_text(text.as_bytes(), Some(Name::ROOT)).ok();
    let view: Option<ViewName> = stored.view.as_deref().map(str::parse).transpose().ok()?;
    let zone = ZoneName::in_view(name(&stored.zone)?.as_name().to_lower().as_lower(), view.as_ref());
    let place = ChallengePlace { zone, owner: name(&stored.owner)? };
    Some(ChallengeRecord { place, value: stored.value.clone() })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use threads::sync::lock;

    use super::super::records::ChangeEnd;
    use super::*;

    /// Zones that take records, or do not.
    #[derive(Default)]
    struct Zones {
        records: Mutex<Vec<ChallengeRecord>>,
        are_frozen: Mutex<bool>,
    }

    impl ChallengeZones for Zones {
        fn places(&self, _: &NameBuf) -> Result<Vec<ChallengePlace>, String> {
            Err("no place".into())
        }

        fn add(&self, records: Vec<ChallengeRecord>) -> ChangeEnd<'_> {
            lock(&self.records).extend(records);
            Box::pin(async { Ok(()) })
        }

        fn remove(&self, records: Vec<ChallengeRecord>) -> ChangeEnd<'_> {
            let end = match *lock(&self.are_frozen) {
                true => Err("frozen".to_owned()),
                false => {
                    lock(&self.records).retain(|own| !records.contains(own));
                    Ok(())
                }
            };
            Box::pin(async { end })
        }
    }

    fn record(zone: &str, view: Option<&str>) -> ChallengeRecord {
        let view: Option<ViewName> = view.map(|view| view.parse().expect("a view"));
        let name: NameBuf = zone.parse().expect("a name");
        let zone = ZoneName::in_view(name.as_name().to_lower().as_lower(), view.as_ref());
        let owner = "_acme-challenge.dns.example.".parse().expect("a name");
        ChallengeRecord { place: ChallengePlace { zone, owner }, value: "text".into() }
    }

    #[tokio::test]
    async fn what_an_order_before_the_start_left_is_removed_once_the_zone_takes_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let (store, own) = (AcmeStore::new(folder.path()), Arc::new(Zones::default()));
        let zones: Arc<dyn ChallengeZones> = own.clone();
        assert!(withdraw(None, &store).await, "there is nothing to remove");
        let (left, other) =
            ([record("example.", None), record("example.", Some("inside"))], record("a.", None));
        lock(&own.records).extend(left.iter().cloned().chain([other.clone()]));
        store.keep_records(&left.iter().map(stored).collect::<Vec<_>>()).expect("stored");
        assert!(!withdraw(None, &store).await);
        *lock(&own.are_frozen) = true;
        assert!(!withdraw(Some(&zones), &store).await);
        assert_eq!(store.records().expect("read").len(), 2, "the next attempt finds them");
        *lock(&own.are_frozen) = false;
        assert!(withdraw(Some(&zones), &store).await);
        assert_eq!((&*lock(&own.records), store.records().expect("none").len()), (&vec![other], 0));
    }
}
