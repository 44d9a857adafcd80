//! Unusable journals, and the versions that operators accept in their place. Until then the server answers
//! SERVFAIL for their zones, since every other version of them is older than the acknowledged one, or may be.

use std::fmt;
use std::path::PathBuf;

use journal::{StoreFault, StoreFolders};
use serde::Serialize;
use tracing::warn;
use transport::unix_now;
use wire::hash::HashKey;
use wire::{Serial, ZoneName};
use zone::Zone;
use zone::store::ChangeSet;

use super::Changes;
use super::serials::with_serial;
use crate::managed::FileStamp;
use telemetry::trail::audit;
use threads::sync::lock;

/// State of an unusable journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// Why the journal cannot be used.
    pub fault: String,
    /// The serial number of the last acknowledged version, if known.
    pub acknowledged: Option<u32>,
    /// The serial number up to which the journal can be read, if it can be read at all.
    pub usable: Option<u32>,
}

/// The version accepted in place of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The zone's new serial number.
    pub serial: Serial,
    /// The serial number that the accepted version had before.
    pub of: Serial,
    /// Records of the zone.
    pub records: u64,
    /// Where the journal is now, if it exists.
    pub aside: Option<PathBuf>,
    /// The serial number of the last acknowledged version, if known.
    pub acknowledged: Option<Serial>,
}

/// Why no version is accepted in place of a journal. Nothing has changed.
#[derive(Debug)]
pub enum AcceptFault {
    /// The journal can be used.
    NotDamaged,
    /// No part of the journal can be read.
    Unreadable(StoreFault),
    /// The accepted version cannot be stored.
    NotKept(StoreFault),
    /// The zone cannot get a serial number later than the acknowledged one.
    NoSerial {
        /// The serial number of the accepted version.
        found: Serial,
        /// The acknowledged one.
        acknowledged: Serial,
    },
}

impl fmt::Display for AcceptFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotDamaged => f.write_str("the zone's journal is not damaged, there is nothing to accept"),
            Self::Unreadable(fault) => {
                write!(f, "nothing of the journal can be read: {fault}; --file accepts the zone's file")
            }
            Self::NotKept(fault) => write!(f, "the state folder does not take the zone: {fault}"),
            Self::NoSerial { found, acknowledged } => write!(
                f,
                "serial {found} cannot be led beyond serial {acknowledged}, which was acknowledged: set a \
                 later serial in the zone's file, and sign it again if it is signed"
            ),
        }
    }
}
impl std::error::Error for AcceptFault {}

/// Journals whose zone cannot be read from them.
pub(super) struct UnclearFiles(pub(super) Vec<PathBuf>);

impl UnclearFiles {
    /// Whether one of them is the journal of this zone.
    pub(super) fn contains(&self, folders: &StoreFolders, apex: &ZoneName) -> bool {
        let path = || Some(folders.of(apex).ok()?.path(apex.as_name()));
        !self.0.is_empty() && path().is_some_and(|path| self.0.contains(&path))
    }
}

impl Changes {
    /// Records that the journal of a zone cannot be used. Returns the remedies, as text for people.
    pub(super) fn note_damage(&self, apex: &ZoneName, fault: &StoreFault) -> String {
        let acknowledged = self.stores.acknowledged(apex);
        let usable = self.stores.exclusively(apex, |folder| folder.salvage(apex.as_name()));
        let usable = usable.ok().map(|rest| rest.serial());
        let mut text = match fault {
            StoreFault::MarkLost { .. } => {
                format!("acknowledged updates of the zone may be missing: {fault}; ")
            }
            _ => {
                format!("the updates of the zone cannot be read, and its file is older: {fault}; ")
            }
        };
        if matches!(fault, StoreFault::Io { .. }) {
            text += "mend that and reload, or accept what is older: ";
        }
        if let Some(usable) = usable {
            text += &format!(
                "`nomen ctl zone accept {apex} --journal` serves the stored versions up to serial {usable}"
            );
            let lost = acknowledged.filter(|acknowledged| *acknowledged != usable);
            text += &lost.map_or(String::new(), |serial| format!(" (acknowledged: {serial})"));
            text += ", ";
        }
        text += &format!("`nomen ctl zone accept {apex} --file` the zone's file");
        let damage = Damage {
            fault: fault.to_string(),
            acknowledged: acknowledged.map(|serial| serial.0),
            usable: usable.map(|serial| serial.0),
        };
        lock(&self.shared.damaged).insert(apex.clone(), damage);
        text
    }

    /// State of a zone's journal if it cannot be used.
    pub fn damage(&self, apex: &ZoneName) -> Option<Damage> {
        lock(&self.shared.damaged).get(apex).cloned()
    }

    /// Returns the number of zones with unusable journals.
    pub fn damaged(&self) -> usize {
        let damaged = lock(&self.shared.damaged);
        damaged.keys().filter(|apex| self.shared.states.get(apex).is_some()).count()
    }

    /// Accepts the readable part of a zone's damaged journal. The next reload serves it.
    ///
    /// # Errors
    /// [`AcceptFault`].
    pub fn accept_journal(&self, apex: &ZoneName, key: &HashKey) -> Result<Accepted, AcceptFault> {
        self.damage(apex).ok_or(AcceptFault::NotDamaged)?;
        self.release(apex);
        let rest = self.stores.exclusively(apex, |folder| folder.salvage(apex.as_name())?.load(key));
        let rest = rest.map_err(AcceptFault::Unreadable)?;
        let of = rest.serial();
        let (zone, acknowledged) = self.ahead(apex, rest)?;
        self.keep_accepted(apex, &zone, of, acknowledged)
    }

    /// Accepts the version of a zone's file, as it was when read, in place of the damaged journal. The next
    /// reload serves it. If its serial number is later than the last acknowledged one, the zone loads from
    /// its file again, as before its first update.
    ///
    /// # Errors
    /// [`AcceptFault`].
    pub fn accept_file(
        &self,
        apex: &ZoneName,
        read: Zone,
        file: &FileStamp,
    ) -> Result<Accepted, AcceptFault> {
        self.damage(apex).ok_or(AcceptFault::NotDamaged)?;
        self.release(apex);
        let of = read.serial();
        let (zone, acknowledged) = self.ahead(apex, read)?;
        if zone.serial() != of {
            let accepted = self.keep_accepted(apex, &zone, of, acknowledged)?;
            self.files.note_read(apex, Some(file), of);
            return Ok(accepted);
        }
        let aside = self.stores.exclusively(apex, |folder| folder.forget(apex.as_name()));
        let aside = aside.map_err(AcceptFault::NotKept)?;
        lock(&self.shared.stored).remove(apex);
        lock(&self.shared.damaged).remove(apex);
        Ok(self.accepted(apex, &zone, of, acknowledged, aside))
    }

    /// Returns the zone with a serial number later than the acknowledged one: secondaries may have any
    /// version up to that.
    fn ahead(&self, apex: &ZoneName, zone: Zone) -> Result<(Zone, Option<Serial>), AcceptFault> {
        let acknowledged = self.stores.acknowledged(apex);
        let Some(acknowledged) = acknowledged else { return Ok((zone, None)) };
        let is_ahead = |serial: Serial| acknowledged.compare(serial) == Some(std::cmp::Ordering::Less);
        if is_ahead(zone.serial()) {
            return Ok((zone, Some(acknowledged)));
        }
        let no_serial = || AcceptFault::NoSerial { found: zone.serial(), acknowledged };
        if zone.is_signed() || zone.is_chainless() {
            // A new serial number would invalidate the signature of the SOA.
            return Err(no_serial());
        }
        let policy = self.shared.rules.load().get(apex).map(|rules| rules.serial).unwrap_or_default();
        let (now, next) = (unix_now(), policy.next(acknowledged, unix_now()));
        let change = with_serial(ChangeSet::default(), &zone, &zone, next, policy, now);
        let changed = zone.apply(&change).ok().and_then(|zone| zone.folded().ok());
        let ahead = changed.filter(|zone| is_ahead(zone.serial())).ok_or_else(no_serial)?;
        Ok((ahead, Some(acknowledged)))
    }

    fn keep_accepted(
        &self,
        apex: &ZoneName,
        zone: &Zone,
        of: Serial,
        acknowledged: Option<Serial>,
    ) -> Result<Accepted, AcceptFault> {
        let aside = self.stores.exclusively(apex, |folder| folder.start_over(zone));
        let aside = aside.map_err(AcceptFault::NotKept)?;
        Ok(self.accepted(apex, zone, of, acknowledged, aside))
    }

    fn accepted(
        &self,
        apex: &ZoneName,
        zone: &Zone,
        of: Serial,
        acknowledged: Option<Serial>,
        aside: Option<PathBuf>,
    ) -> Accepted {
        let serial = zone.serial();
        let shown = aside.as_ref().map_or("missing".into(), |path| path.display().to_string());
        let lost = acknowledged.map_or("unknown".into(), |serial| serial.to_string());
        warn!(
            "zone {}: accepted with serial {of}, served with serial {serial}; acknowledged before: {lost}; \
             the old journal: {shown}",
            apex
        );
        audit!(zone = %apex, of = %of, acknowledged = lost, serial = %serial, "older version accepted");
        Accepted { serial, of, records: zone.record_count(), aside, acknowledged }
    }
}
