//! [`Updater`]: applies requests one after the other to one version of a zone.
//!
//! Each request sees the changes of earlier ones, and the next version is built once for all of them. Until
//! then only the records of the names used are held, in [`Records`].

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use wire::rdata::view::Soa;
use wire::{Name, NameBuf, Serial, Ttl, Type, UnixTime};
use zone::Zone;
use zone::store::{ChangeError, ChangeSet};

use crate::fault::{UpdateFault, UpdateFaultKind as Kind};
use crate::policy::Permission;
use crate::records::{Records, is_signers};
use crate::request::{Prerequisite, Update, UpdateRequest};
use crate::serial::SerialPolicy;

/// Bytes of an SOA from the serial to the end: the serial and four more numbers.
const FROM_SERIAL: usize = 20;

/// Applies requests in sequence, each to the result of the earlier ones, and builds the next version of the
/// zone once for all of them. The cost of a request depends only on its own names; [`finish`](Self::finish)
/// builds the zone.
#[derive(Debug)]
pub struct Updater {
    zone: Arc<Zone>,
    /// Whether the zone is signed elsewhere.
    signed: bool,
    /// Whether the zone is signed here: the records that the signer makes are not seen.
    plain: bool,
    /// The serial after the requests so far.
    serial: Serial,
    apex: Arc<NameBuf>,
    /// The names used so far.
    names: BTreeMap<Arc<NameBuf>, Known>,
}

/// The records of a name.
#[derive(Clone, Debug)]
struct Known {
    /// As in the zone. Cheap, since both share unchanged RRsets.
    before: Records,
    now: Records,
}

impl Updater {
    /// Starts with a version of a zone.
    pub fn new(zone: &Arc<Zone>) -> Updater {
        Updater {
            zone: zone.clone(),
            signed: is_signed(zone),
            plain: false,
            serial: zone.serial(),
            apex: Arc::new(zone.apex().as_name().to_buf()),
            names: BTreeMap::new(),
        }
    }

    /// Starts with a version of a zone that is signed here: requests see and change its data without the
    /// records that the signer makes, which the caller renews for [`into_change`](Self::into_change).
    pub fn of_signed_here(zone: &Arc<Zone>) -> Updater {
        Updater { signed: false, plain: true, ..Updater::new(zone) }
    }

    /// The serial after the requests so far.
    pub fn serial(&self) -> Serial {
        self.serial
    }

    /// Applies a request: completely and in order, or not at all (RFC 2136 §3.7). Returns its changes, with
    /// the next serial in the SOA, or `None` if nothing changed; the serial then stays, too.
    ///
    /// Ignores what RFC 2136 §3.4.2 requires to be ignored: a CNAME beside other data and other data beside a
    /// CNAME, an SOA whose serial is not greater, and the deletion of the SOA and of the zone's last NS. Also
    /// ignores a DS at the apex, where it has no meaning (RFC 4035 §2.4). An accepted SOA keeps its serial.
    /// Records that differ only in the letter case of names are equal, and the existing one stays.
    ///
    /// # Errors
    /// [`UpdateFault`], and nothing has changed: see the order of checks in the [crate's
    /// documentation](crate).
    pub fn apply(
        &mut self,
        request: &UpdateRequest,
        permission: &Permission<'_>,
        serial: SerialPolicy,
        now: UnixTime,
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

    /// Builds the next version; returns it with all its changes, or `None` if nothing changed.
    ///
    /// # Errors
    /// Why the zone cannot be built; all requests are lost. No single request causes this: it takes a zone of
    /// more than 32 GiB, or one that had faults before.
    pub fn finish(self) -> Result<Option<(Zone, ChangeSet)>, ChangeError> {
        let zone = Arc::clone(&self.zone);
        let Some(change) = self.into_change() else { return Ok(None) };
        Ok(Some((zone.apply(&change)?, change)))
    }

    /// Returns all changes, or `None` if nothing changed.
    pub fn into_change(self) -> Option<ChangeSet> {
        let mut change = ChangeSet { before: self.zone.serial(), after: self.serial, ..ChangeSet::default() };
        self.names.values().for_each(|name| name.now.difference(&name.before, &mut change));
        (!change.is_empty()).then_some(change)
    }

    /// Returns a name as it was first written here, and its records.
    fn look_up(&mut self, name: &NameBuf) -> (Arc<NameBuf>, Records) {
        if let Some((key, known)) = self.names.get_key_value(name) {
            return (Arc::clone(key), known.now.clone());
        }
        let key = Arc::new(*name);
        let now = Records::of(&key, self.zone.find_name(name.as_name()), self.plain);
        self.names.insert(Arc::clone(&key), Known { before: now.clone(), now: now.clone() });
        (key, now)
    }

    /// The records of a name.
    fn records(&mut self, name: &NameBuf) -> Records {
        self.look_up(name).1
    }

    fn is_apex(&self, name: Name<'_>) -> bool {
        self.zone.apex().as_name() == name
    }

    /// Checks that the client may make a change.
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

    /// Checks the prerequisites (RFC 2136 §3.2).
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

/// The names that one request changes. Dropping it discards the changes.
struct Step<'u> {
    updater: &'u mut Updater,
    names: BTreeMap<Arc<NameBuf>, Known>,
}

impl Step<'_> {
    /// A name that the request may change, with its records before the request and now.
    fn known(&mut self, name: &NameBuf) -> &mut Known {
        let (key, now) = self.updater.look_up(name);
        self.names.entry(key).or_insert_with(|| Known { before: now.clone(), now })
    }

    fn records(&mut self, name: &NameBuf) -> &mut Records {
        &mut self.known(name).now
    }

    /// Applies a change (RFC 2136 §3.4.2).
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

    /// Adds a record (RFC 2136 §3.4.2.2).
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

    /// Commits the request's changes, if there are any.
    fn finish(mut self, policy: SerialPolicy, now: UnixTime) -> Result<Option<ChangeSet>, UpdateFault> {
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
        // The SOA comes first, together with other changes at the apex.
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

/// Whether a zone is signed: its apex has signatures, or NSEC, NSEC3 or NSEC3PARAM records.
pub fn is_signed(zone: &Zone) -> bool {
    let mut sets = zone.apex_node().rrsets();
    sets.any(|set| set.sig_count() > 0 || is_signers(set.rtype()))
}

/// Whether deleting all RRsets of a name deletes this one (RFC 2136 §3.4.2.3).
fn is_deleted(rtype: Type, apex: bool) -> bool {
    !(apex && matches!(rtype, Type::SOA | Type::NS))
}

/// The serial in an SOA's RDATA.
fn serial_of(soa: &[u8]) -> Option<Serial> {
    Soa::read(soa).ok().map(|soa| soa.numbers.serial)
}

/// Whether an SOA has a greater serial than the existing one.
fn is_newer(soa: &[u8], old: Option<&[u8]>) -> bool {
    match (serial_of(soa), old.and_then(serial_of)) {
        (Some(new), Some(old)) => new.compare(old) == Some(Ordering::Greater),
        _ => false,
    }
}

impl Records {
    /// Sets the serial of the SOA.
    fn set_serial(&mut self, serial: Serial) {
        self.edit_first(Type::SOA, |soa| {
            let at = soa.len().checked_sub(FROM_SERIAL);
            if let Some(field) = at.and_then(|at| soa[at..].first_chunk_mut()) {
                *field = serial.0.to_be_bytes();
            }
        });
    }
}
