//! Requests one after the other on one version of a zone: [`Updater`].
//!
//! Each request sees what those before it have changed, and the next version is made once for all of them.
//! Until then only the records of the names that were looked at are kept, in [`Records`].

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use wire::rdata::view::Soa;
use wire::{Name, NameBuf, Serial, Ttl, Type};
use zone::Zone;
use zone::store::{ChangeError, ChangeSet};

use crate::fault::{UpdateFault, UpdateFaultKind as Kind};
use crate::policy::Permission;
use crate::records::Records;
use crate::request::{Prerequisite, Update, UpdateRequest};
use crate::serial::SerialPolicy;

/// Bytes behind the serial number in an SOA: four more numbers and itself.
const FROM_SERIAL: usize = 20;

/// Takes requests one after the other, each on what those before it have made of the zone, and makes the next
/// version of the zone for all of them at once. A request costs what its own names cost; the zone is built
/// once, by [`finish`](Self::finish).
#[derive(Debug)]
pub struct Updater {
    zone: Arc<Zone>,
    /// The zone is signed elsewhere.
    signed: bool,
    /// That of the version so far.
    serial: Serial,
    apex: Arc<NameBuf>,
    /// The names that were looked at.
    names: BTreeMap<Arc<NameBuf>, Known>,
}

/// The records of a name.
#[derive(Clone, Debug)]
struct Known {
    /// As they were, which costs next to nothing: both share what is the same.
    before: Records,
    now: Records,
}

impl Updater {
    /// Begins with a version of a zone.
    pub fn new(zone: &Arc<Zone>) -> Updater {
        Updater {
            zone: zone.clone(),
            signed: is_signed(zone),
            serial: zone.serial(),
            apex: Arc::new(zone.apex().as_name().to_buf()),
            names: BTreeMap::new(),
        }
    }

    /// The serial number of the version so far.
    pub fn serial(&self) -> Serial {
        self.serial
    }

    /// Does what a request asks for: all of it, in order, or nothing (RFC 2136 §3.7). Returns the step that
    /// it makes, with the next serial number in the SOA, or `None` if nothing is other than before: then the
    /// serial number stays, too.
    ///
    /// `now` is in seconds since 1970. What RFC 2136 §3.4.2 has servers ignore is ignored: a CNAME beside
    /// other data and other data beside a CNAME, an SOA whose serial number is not greater, the deletion of
    /// the SOA and of the zone's last NS; so is a DS at the zone's name, where it means nothing (RFC 4035
    /// §2.4). An SOA that is taken keeps its serial number. Records that differ in the letter case of names
    /// only are the same, and the one that is there stays.
    ///
    /// # Errors
    /// [`UpdateFault`], and nothing has changed: see the order of checks in the [crate's
    /// documentation](crate).
    pub fn apply(
        &mut self,
        request: &UpdateRequest,
        permission: &Permission<'_>,
        serial: SerialPolicy,
        now: u64,
    ) -> Result<Option<ChangeSet>, UpdateFault> {
        if request.zone() != self.zone.apex() {
            return Err(Kind::OtherZone.into());
        }
        if permission.is_none() {
            return Err(Kind::NotPermitted.into());
        }
        if self.signed {
            return Err(Kind::SignedZone.into());
        }
        request.updates().iter().try_for_each(|update| self.permit(update, permission))?;
        self.require(request.prerequisites())?;
        let mut step = Step { updater: self, names: BTreeMap::new() };
        request.updates().iter().for_each(|update| step.update(update));
        step.finish(serial, now)
    }

    /// The next version, and what it changes in all; `None` if nothing does.
    ///
    /// # Errors
    /// Why the zone cannot be made, for none of the requests. No request alone causes that: it takes a zone
    /// of more than 32 GiB, or one that had faults before.
    pub fn finish(self) -> Result<Option<(Zone, ChangeSet)>, ChangeError> {
        let mut change = ChangeSet { before: self.zone.serial(), after: self.serial, ..ChangeSet::default() };
        self.names.values().for_each(|name| name.now.difference(&name.before, &mut change));
        if change.is_empty() {
            return Ok(None);
        }
        Ok(Some((self.zone.apply(&change)?, change)))
    }

    /// A name as it was first written here, and what there is for it.
    fn look_up(&mut self, name: &NameBuf) -> (Arc<NameBuf>, Records) {
        if let Some((key, known)) = self.names.get_key_value(name) {
            return (Arc::clone(key), known.now.clone());
        }
        let key = Arc::new(*name);
        let now = Records::of(&key, self.zone.find_name(name.as_name()));
        self.names.insert(Arc::clone(&key), Known { before: now.clone(), now: now.clone() });
        (key, now)
    }

    /// What there is for a name.
    fn records(&mut self, name: &NameBuf) -> Records {
        self.look_up(name).1
    }

    fn is_apex(&self, name: Name<'_>) -> bool {
        self.zone.apex().as_name() == name
    }

    /// Whether the requester may make a change.
    fn permit(&mut self, update: &Update, permission: &Permission<'_>) -> Result<(), UpdateFault> {
        let (owner, rtype) = update.target();
        if is_signers(rtype) {
            return Err(Kind::SignersType.of(owner, rtype));
        }
        let permitted = match update {
            Update::DeleteName(name) => {
                let apex = self.is_apex(owner);
                let records = self.records(name);
                let mut goes =
                    records.types().filter(|rtype| !is_signers(*rtype) && is_deleted(*rtype, apex));
                permission.permits_some(owner) && goes.all(|rtype| permission.permits(owner, rtype))
            }
            _ => permission.permits(owner, rtype),
        };
        if permitted { Ok(()) } else { Err(Kind::NotPermitted.of(owner, rtype)) }
    }

    /// RFC 2136 §3.2.
    fn require(&mut self, prerequisites: &[Prerequisite]) -> Result<(), UpdateFault> {
        let mut wanted: BTreeMap<(NameBuf, Type), Vec<&[u8]>> = BTreeMap::new();
        for prerequisite in prerequisites {
            let (holds, kind, name, rtype) = match prerequisite {
                Prerequisite::NameInUse(name) => {
                    (!self.records(name).is_empty(), Kind::NameNotInUse, name, Type::ANY)
                }
                Prerequisite::NameNotInUse(name) => {
                    (self.records(name).is_empty(), Kind::NameInUse, name, Type::ANY)
                }
                Prerequisite::RrsetExists(name, rtype) => {
                    (self.records(name).has(*rtype), Kind::NoSuchRrset, name, *rtype)
                }
                Prerequisite::NoRrset(name, rtype) => {
                    (!self.records(name).has(*rtype), Kind::RrsetExists, name, *rtype)
                }
                Prerequisite::RrsetHas { owner, rtype, rdata } => {
                    wanted.entry((*owner, *rtype)).or_default().push(rdata);
                    continue;
                }
            };
            if !holds {
                return Err(kind.of(name.as_name(), rtype));
            }
        }
        for ((name, rtype), rdatas) in wanted {
            if !self.records(&name).has_exactly(rtype, &rdatas) {
                return Err(Kind::NoSuchRrset.of(name.as_name(), rtype));
            }
        }
        Ok(())
    }
}

/// What one request makes of the names that it changes. Dropped, it has changed nothing.
struct Step<'u> {
    updater: &'u mut Updater,
    names: BTreeMap<Arc<NameBuf>, Known>,
}

impl Step<'_> {
    /// A name that the request may change, before it does and as it is now.
    fn known(&mut self, name: &NameBuf) -> &mut Known {
        let (key, now) = self.updater.look_up(name);
        self.names.entry(key).or_insert_with(|| Known { before: now.clone(), now })
    }

    fn records(&mut self, name: &NameBuf) -> &mut Records {
        &mut self.known(name).now
    }

    /// RFC 2136 §3.4.2.
    fn update(&mut self, update: &Update) {
        let apex = self.updater.is_apex(update.target().0);
        match update {
            Update::Add { owner, rtype, ttl, rdata } => self.add(owner, *rtype, *ttl, rdata, apex),
            Update::DeleteRrset(_, Type::SOA | Type::NS) if apex => {}
            Update::DeleteRrset(owner, rtype) => self.records(owner).delete_types(|other| other == *rtype),
            Update::DeleteName(owner) => self.records(owner).delete_types(|rtype| is_deleted(rtype, apex)),
            Update::Delete { rtype: Type::SOA, .. } if apex => {}
            Update::Delete { owner, rtype, rdata } => {
                let records = self.records(owner);
                let last = apex && *rtype == Type::NS && records.count(Type::NS) == 1;
                if !last {
                    records.delete(*rtype, rdata);
                }
            }
        }
    }

    /// RFC 2136 §3.4.2.2.
    fn add(&mut self, owner: &NameBuf, rtype: Type, ttl: Ttl, rdata: &[u8], apex: bool) {
        let records = self.records(owner);
        let is_other = |rtype: Type| rtype != Type::CNAME && !rtype.may_be_beside_cname();
        let collides = match rtype {
            Type::CNAME => records.types().any(is_other),
            _ => is_other(rtype) && records.has(Type::CNAME),
        };
        let misplaced = match rtype {
            Type::DS => apex,
            Type::SOA => !apex || !is_newer(rdata, records.first(Type::SOA)),
            _ => false,
        };
        if !collides && !misplaced {
            records.add(owner, rtype, ttl, rdata);
        }
    }

    /// Takes the step, if it is one.
    fn finish(mut self, policy: SerialPolicy, now: u64) -> Result<Option<ChangeSet>, UpdateFault> {
        let apex = Arc::clone(&self.updater.apex);
        let (mut at_apex, mut elsewhere) = (ChangeSet::default(), ChangeSet::default());
        for (name, known) in &self.names {
            known.now.check(&known.before)?;
            let change = if *name == apex { &mut at_apex } else { &mut elsewhere };
            known.now.difference(&known.before, change);
        }
        if at_apex.is_empty() && elsewhere.is_empty() {
            return Ok(None);
        }
        let before = self.updater.serial;
        let known = self.known(&apex);
        let mut after = known.now.first(Type::SOA).and_then(serial_of).unwrap_or(before);
        if after == before {
            after = policy.next(before, now);
            known.now.set_serial(after);
        }
        // The SOA comes first, and with it what else changes at its name.
        let mut change = ChangeSet { before, after, ..ChangeSet::default() };
        known.now.difference(&known.before, &mut change);
        change.removed.append(&elsewhere.removed);
        change.added.append(&elsewhere.added);
        self.updater.serial = after;
        for (name, known) in self.names {
            if let Some(of_updater) = self.updater.names.get_mut(&name) {
                of_updater.now = known.now;
            }
        }
        Ok(Some(change))
    }
}

/// Whether a zone is signed: its own name has signatures, or a chain begins there.
pub fn is_signed(zone: &Zone) -> bool {
    let mut sets = zone.apex_node().rrsets();
    sets.any(|set| set.sig_count() > 0 || is_signers(set.rtype()))
}

/// Whether records of a type are made by the signer of a zone.
pub fn is_signers(rtype: Type) -> bool {
    matches!(rtype, Type::RRSIG | Type::NSEC | Type::NSEC3 | Type::NSEC3PARAM)
}

/// Whether an RRset goes when all of a name do (RFC 2136 §3.4.2.3).
fn is_deleted(rtype: Type, apex: bool) -> bool {
    !(apex && matches!(rtype, Type::SOA | Type::NS))
}

/// The serial number in the data of an SOA.
fn serial_of(soa: &[u8]) -> Option<Serial> {
    Soa::read(soa).ok().map(|soa| soa.numbers.serial)
}

/// Whether an SOA is of a later version than the one that is there.
fn is_newer(soa: &[u8], old: Option<&[u8]>) -> bool {
    match (serial_of(soa), old.and_then(serial_of)) {
        (Some(new), Some(old)) => new.compare(old) == Some(Ordering::Greater),
        _ => false,
    }
}

impl Records {
    /// Puts a serial number into the SOA.
    fn set_serial(&mut self, serial: Serial) {
        self.edit_first(Type::SOA, |soa| {
            let at = soa.len().checked_sub(FROM_SERIAL);
            if let Some(field) = at.and_then(|at| soa[at..].first_chunk_mut()) {
                *field = serial.0.to_be_bytes();
            }
        });
    }
}
