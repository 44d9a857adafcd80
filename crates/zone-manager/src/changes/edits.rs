//! Edits: a program changes RRsets of a zone in one step. Each edit is decided on the newest version, and
//! made as a whole or not at all.
//!
//! An edit says what RRsets hold afterwards, not how they change, so the order of its entries matters only
//! for entries about the same RRset. Only the result must be a valid zone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::sync::oneshot;
use tracing::field::{DisplayValue, display};
use transport::unix_now;
use update::{SerialPolicy, is_signed, is_signers};
use wire::message::RECORD_HEAD;
use wire::rdata::view::Soa;
use wire::{NameBuf, Serial, Ttl, Type, UnixTime, ViewName, ZoneName, rdata};
use zone::Zone;
use zone::store::{AddError, ChangeError, ChangeSet, RecordKey};
use zone_plan::{ZoneText, ZoneUpdates};

use super::answers::note_refused;
use super::group::ChangeJob;
use super::queue::Entry;
use super::rrsets::{RecordData, distinct, extended, put_difference, records, ttl_beside, without};
use super::serials::{soa_of, with_soa};
use super::{Changes, Shared, Waiting};
use crate::managed::ZoneStatus;
use crate::shown_change::IgnoredParts;
use threads::sync::lock;

/// An edit of a zone: all its entries are made together, as one change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneEdit {
    /// What RRsets hold afterwards. Entries about one RRset count in this order.
    pub edits: Vec<RrsetEdit>,
    /// The edit is made only if the zone has this serial number; `None`: whatever it has.
    pub at_serial: Option<Serial>,
    /// Who asks for it.
    pub by: ChangeAuthor,
}

/// An edit of one RRset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RrsetEdit {
    /// The owner.
    pub owner: NameBuf,
    /// The type.
    pub rtype: Type,
    /// What happens to the RRset.
    pub kind: RrsetEditKind,
}

/// What happens to an RRset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RrsetEditKind {
    /// It holds these records afterwards; without any, it is deleted.
    Replace {
        /// The TTL of all records.
        ttl: Ttl,
        /// Their data, uncompressed.
        rdatas: Vec<Vec<u8>>,
    },
    /// It is deleted. If there is none, nothing changes.
    Delete,
    /// It holds these records as well; of a type that has one record per name, the last of them instead.
    Extend {
        /// The TTL of all records of the RRset; `None`: the one it has, or else that of the SOA.
        ttl: Option<Ttl>,
        /// The data of the added records, uncompressed.
        rdatas: Vec<Vec<u8>>,
    },
    /// These records are deleted from it. Those that it does not hold are ignored.
    Prune {
        /// The data of the deleted records, uncompressed.
        rdatas: Vec<Vec<u8>>,
    },
}

/// Who asks for a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeAuthor {
    /// A program with a token.
    Program {
        /// The name of the token.
        token: Arc<str>,
        /// The address of the program.
        address: IpAddr,
    },
    /// The CDS and CDNSKEY records of a child zone, or its CSYNC record.
    Child {
        /// The child zone.
        child: Box<NameBuf>,
        /// What the change does, and why it is made.
        why: Arc<str>,
    },
    /// This server, for a zone that it signs (`ds-push`).
    DsPush {
        /// The signed zone.
        child: Box<NameBuf>,
        /// What the change does, and why it is made.
        why: Arc<str>,
    },
    /// This server, for a challenge of a CA.
    Acme,
}

impl fmt::Display for ChangeAuthor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program { token, address } => write!(f, "{token} from {address}"),
            Self::Child { child, .. } => write!(f, "request of {child}"),
            Self::DsPush { child, .. } => write!(f, "ds-push for {child}"),
            Self::Acme => f.write_str("nomen for [acme]"),
        }
    }
}

/// Who asks for a change, as fields of the audit file.
#[derive(Default)]
pub(super) struct AuditedAuthor<'a> {
    pub(super) token: Option<&'a str>,
    pub(super) client: Option<DisplayValue<IpAddr>>,
    pub(super) by: Option<&'static str>,
    pub(super) child: Option<DisplayValue<&'a NameBuf>>,
    pub(super) why: Option<&'a str>,
}

impl ChangeAuthor {
    /// The name of the token; `None`: the change is not one of a program.
    pub fn token(&self) -> Option<&str> {
        match self {
            Self::Program { token, .. } => Some(token),
            Self::Child { .. } | Self::DsPush { .. } | Self::Acme => None,
        }
    }

    /// Returns the fields for the audit file: of a program its token and address, of a child zone its name
    /// and why, else the part of this server.
    pub(super) fn audited(&self) -> AuditedAuthor<'_> {
        let none = AuditedAuthor::default();
        match self {
            Self::Program { token, address } => {
                AuditedAuthor { token: Some(token), client: Some(display(*address)), ..none }
            }
            Self::Child { child, why } => {
                AuditedAuthor { child: Some(display(child)), why: Some(why), ..none }
            }
            Self::DsPush { child, why } => {
                AuditedAuthor { by: Some("ds-push"), child: Some(display(child)), why: Some(why), ..none }
            }
            Self::Acme => AuditedAuthor { by: Some("acme"), ..none },
        }
    }

    /// Checks whether the rules of a zone allow its edits.
    fn may_edit(&self, rules: &ZoneUpdates) -> Result<(), EditFault> {
        let takes_children = rules.delegations.is_some_and(|delegations| !delegations.dry_run);
        match self {
            Self::Program { .. } if !rules.api => Err(EditFault::NotAllowed),
            Self::Child { .. } if !takes_children => Err(EditFault::NotAllowed),
            Self::DsPush { .. } if !rules.takes_any() && !takes_children => Err(EditFault::TakesNoDs),
            Self::Acme if !rules.takes_any() => Err(EditFault::TakesNoChanges),
            Self::Program { .. } | Self::Child { .. } | Self::DsPush { .. } | Self::Acme => Ok(()),
        }
    }
}

/// Why an edit is not made. The zone is unchanged.
#[derive(Debug)]
pub enum EditFault {
    /// The server does not serve the zone.
    NoSuchZone,
    /// The zone comes from its primaries.
    Secondary,
    /// The server generates the zone.
    Generated,
    /// The configuration does not allow edits of the zone.
    NotAllowed,
    /// The configuration allows no changes of the zone.
    TakesNoChanges,
    /// The configuration allows no change of DS records of the zone.
    TakesNoDs,
    /// No version of the zone is in service.
    NotInService,
    /// The zone is frozen.
    Frozen,
    /// The zone is signed by another program.
    SignedElsewhere,
    /// The zone has this serial number, not the one of the edit.
    OtherSerial(Serial),
    /// Records of this type are made by the signer of the zone.
    SignersType(Type),
    /// The zone is not signed with the algorithm of a DNSKEY record.
    UnusedAlgorithm,
    /// The data of a record do not have the form of its type.
    BadData(Box<RecordKey>),
    /// The zone would not have exactly one SOA record, at its name.
    NotOneSoa,
    /// The result would not be a valid zone.
    Unfit(ChangeError),
    /// The edit has more than this many bytes of records.
    TooLarge(usize),
    /// As many edits and updates wait as may, given here.
    TooMany(usize),
    /// The change cannot be stored, for this reason.
    NotKept(String),
    /// The database does not have the change, for this reason.
    Database(String),
    /// The server is stopping.
    Stopping,
}

impl fmt::Display for EditFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchZone => f.write_str("there is no such zone here"),
            Self::Secondary => f.write_str("the zone comes from its primaries: change it there"),
            Self::Generated => f.write_str("nomen generates the records of the zone"),
            Self::NotAllowed => {
                f.write_str("the zone is not changed by programs: `api = true` of the zone or its template")
            }
            Self::TakesNoChanges => f.write_str(
                "the zone takes no changes: `api`, `allow-update` or `update-policy` of the zone or its template",
            ),
            Self::TakesNoDs => f.write_str(
                "the zone takes no changes: `delegation-updates`, `api`, `allow-update` or `update-policy` of the \
                 zone or its template",
            ),
            Self::NotInService => f.write_str("no version of the zone is in service"),
            Self::Frozen => f.write_str("the zone is frozen: `nomen ctl zone thaw`"),
            Self::SignedElsewhere => {
                f.write_str("the zone is signed elsewhere, and a change would make its signatures invalid")
            }
            Self::OtherSerial(serial) => write!(f, "the zone has another serial number, {serial}"),
            Self::SignersType(rtype) => write!(f, "records of type {rtype} are made by the signer of a zone"),
            Self::UnusedAlgorithm => f.write_str("the zone is not signed with the algorithm of this key"),
            Self::BadData(record) => write!(f, "{record}: the data do not have the form of this type"),
            Self::NotOneSoa => f.write_str("a zone has one SOA record, at its own name"),
            Self::Unfit(error) => error.fmt(f),
            Self::TooLarge(most) => {
                write!(f, "the edit has more than {most} bytes of records, `transaction-size` of [updates]")
            }
            Self::TooMany(most) => {
                write!(f, "{most} changes wait already, as many as `queue` of [updates] allows")
            }
            Self::NotKept(why) => f.write_str(why),
            Self::Database(why) => write!(f, "the change is not made: {why}"),
            Self::Stopping => f.write_str("the server is stopping"),
        }
    }
}
impl std::error::Error for EditFault {}

/// Result of an edit: the change that is stored and in service, with the SOA and of a zone that is signed
/// here with signatures; `None` if nothing changed.
pub type EditEnd = Result<Option<Arc<ChangeSet>>, EditFault>;

/// Sends the result of an edit.
pub(super) type SendEnd = Box<dyn FnOnce(EditEnd) + Send>;

/// An edit to make on the thread that changes zones.
pub(super) struct EditOrder {
    pub(super) edit: ZoneEdit,
    pub(super) rules: Arc<ZoneUpdates>,
    /// Receives the result; dropped without one if the server is stopping.
    pub(super) reply: SendEnd,
    /// Counts the edit as waiting.
    pub(super) _waiting: Option<Waiting>,
}

/// An RRset that an edit names.
struct EditedRrset {
    old: Vec<RecordData>,
    new: Vec<RecordData>,
}

/// How a zone is edited.
#[derive(Clone, Copy)]
pub(super) struct EditRules<'r> {
    pub(super) updates: &'r ZoneUpdates,
    /// Whether the zone is signed here.
    pub(super) signed_here: bool,
    pub(super) now: UnixTime,
}

impl ZoneEdit {
    /// Size of its records and of what they are in, in bytes.
    fn bytes(&self) -> usize {
        let of_rrset = |edit: &RrsetEdit| {
            let (owner, rdatas) = (edit.owner.as_name().len() + RECORD_HEAD, edit.kind.rdatas());
            owner + rdatas.iter().map(|rdata| owner + rdata.len()).sum::<usize>()
        };
        self.edits.iter().map(of_rrset).sum()
    }

    /// Returns the change that the edit makes to a version, with the next serial number; `None` if it changes
    /// nothing. The version that it makes is not checked.
    ///
    /// # Errors
    /// [`EditFault`].
    pub(super) fn change_of(
        &self,
        zone: &Zone,
        rules: EditRules<'_>,
    ) -> Result<Option<ChangeSet>, EditFault> {
        if self.at_serial.is_some_and(|serial| serial != zone.serial()) {
            return Err(EditFault::OtherSerial(zone.serial()));
        }
        if !rules.signed_here && is_signed(zone) {
            return Err(EditFault::SignedElsewhere);
        }
        let serial = zone.serial();
        let mut change = ChangeSet { before: serial, after: serial, ..ChangeSet::default() };
        let mut soa = soa_of(zone).ok_or(EditFault::NotInService)?;
        for ((owner, rtype), EditedRrset { old, new }) in &self.rrsets(zone, rules)? {
            if *rtype == Type::SOA {
                let [only] = &new[..] else { return Err(EditFault::NotOneSoa) };
                soa = only.clone();
            } else {
                put_difference(&mut change, owner, *rtype, old, new);
            }
        }
        let Ok(read) = Soa::read(&soa.1) else { return Err(EditFault::NotOneSoa) };
        let wanted = read.numbers.serial;
        let change = with_soa(change, zone, soa, wanted, rules.updates.serial, rules.now);
        Ok(Some(change).filter(|change| !change.is_empty()))
    }

    /// Returns the RRsets that the edit names, as they are and as they will be.
    fn rrsets(
        &self,
        zone: &Zone,
        rules: EditRules<'_>,
    ) -> Result<BTreeMap<(NameBuf, Type), EditedRrset>, EditFault> {
        let mut edited: BTreeMap<(NameBuf, Type), EditedRrset> = BTreeMap::new();
        for edit in &self.edits {
            let (owner, rtype) = (edit.owner.as_name(), edit.rtype);
            let is_apex = owner == zone.apex().as_name();
            if is_signers(rtype) || is_apex && rules.makes(rtype) {
                return Err(EditFault::SignersType(rtype));
            }
            if rtype == Type::SOA && !is_apex {
                return Err(EditFault::NotOneSoa);
            }
            let record = || Box::new(RecordKey { owner: edit.owner, rtype });
            if !owner.is_at_or_below(zone.apex().as_name()) {
                return Err(EditFault::Unfit(ChangeError::OutOfZone(record())));
            }
            if rtype.is_meta() {
                return Err(EditFault::Unfit(ChangeError::Unfit(AddError::MetaType, record())));
            }
            if edit.kind.rdatas().iter().any(|data| rdata::validate(rtype, data).is_err()) {
                return Err(EditFault::BadData(record()));
            }
            let rrset = edited.entry((edit.owner, rtype)).or_insert_with(|| {
                let old = records(zone, owner, rtype);
                EditedRrset { new: old.clone(), old }
            });
            rrset.new = edit.kind.applied_to(rtype, &rrset.new, zone);
        }
        Ok(edited)
    }

    /// Returns what the edit changes in a version, without an SOA record of which only the serial number
    /// differs. Its `after` is the serial number that the version would get.
    ///
    /// # Errors
    /// [`EditFault`], also if the result would not be a valid zone.
    pub(super) fn preview(&self, zone: &Zone, rules: EditRules<'_>) -> Result<ChangeSet, EditFault> {
        let serial = zone.serial();
        let nothing = || ChangeSet { before: serial, after: serial, ..ChangeSet::default() };
        let Some(change) = self.change_of(zone, rules)? else { return Ok(nothing()) };
        zone.apply(&change).map_err(EditFault::Unfit)?;
        Ok(IgnoredParts { serial: true, dnssec: false }.without(&change))
    }
}

impl RrsetEditKind {
    /// Returns the data of the records in the edit.
    fn rdatas(&self) -> &[Vec<u8>] {
        match self {
            Self::Replace { rdatas, .. } | Self::Extend { rdatas, .. } | Self::Prune { rdatas } => rdatas,
            Self::Delete => &[],
        }
    }

    /// Returns what an RRset of a version holds afterwards.
    fn applied_to(&self, rtype: Type, old: &[RecordData], zone: &Zone) -> Vec<RecordData> {
        match self {
            Self::Replace { ttl, rdatas } => distinct(rtype, *ttl, rdatas),
            Self::Delete => Vec::new(),
            Self::Extend { rdatas, .. } if rdatas.is_empty() => old.to_vec(),
            Self::Extend { ttl, rdatas } => {
                extended(rtype, old, ttl.unwrap_or_else(|| ttl_beside(zone, old)), rdatas)
            }
            Self::Prune { rdatas } => without(rtype, old, rdatas),
        }
    }
}

impl EditRules<'_> {
    /// Whether the signer of the zone makes the records of a type at the zone's name.
    fn makes(&self, rtype: Type) -> bool {
        let policy =
            self.updates.signing.as_ref().filter(|_| self.signed_here).map(|signing| &signing.policy);
        policy.is_some_and(|policy| match rtype {
            Type::CDS | Type::CDNSKEY => policy.sync,
            Type::CSYNC => policy.csync,
            Type::ZONEMD => !policy.zonemd.is_empty(),
            _ => false,
        })
    }
}

impl Changes {
    /// Whether the configuration allows clients, programs and operators to change a zone.
    pub fn takes_any(&self, apex: &ZoneName) -> bool {
        self.shared.rules.load().get(apex).is_some_and(|rules| rules.takes_any())
    }

    /// Whether the same or child zones may change a zone.
    pub fn changes_here(&self, apex: &ZoneName) -> bool {
        self.shared.rules.load().get(apex).is_some_and(|rules| rules.changes_here())
    }

    /// How the serial number of the next version of a zone is chosen, if the zone may change.
    pub fn serial_policy(&self, apex: &ZoneName) -> Option<SerialPolicy> {
        self.shared.rules.load().get(apex).map(|rules| rules.serial)
    }

    /// Queues an edit. The receiver gets the result once the change is stored and in service; it is closed
    /// without a result if the server is stopping.
    pub fn edit(&self, apex: &ZoneName, edit: ZoneEdit) -> oneshot::Receiver<EditEnd> {
        let (reply, replied) = oneshot::channel();
        let waiting = Waiting::new(&self.shared);
        match self.may_edit(apex, &edit) {
            Ok(rules) => {
                // The requester may be gone.
                let reply = Box::new(move |end| drop(reply.send(end)));
                let order = EditOrder { edit, rules, reply, _waiting: Some(waiting) };
                self.queue(apex, Entry::Change(ChangeJob::Edit(Box::new(order))));
            }
            Err(fault) => {
                note_refused(&self.shared, apex, &edit, &fault, self.serial_of(apex));
                // The requester may be gone.
                let _ = reply.send(Err(fault));
            }
        }
        replied
    }

    /// Returns what an edit would change in the version in service, without signatures, and without an SOA
    /// record of which only the serial number differs. `after` is the serial number that it would get now.
    ///
    /// # Errors
    /// [`EditFault`].
    pub fn preview(&self, apex: &ZoneName, edit: &ZoneEdit) -> Result<ChangeSet, EditFault> {
        let (zone, updates) = checked_rules(&self.shared, apex, &edit.by)?;
        self.check_size(edit)?;
        let zone = zone.ok_or(EditFault::NotInService)?;
        let (signed_here, now) = (updates.is_signed(), unix_now());
        edit.preview(&zone, EditRules { updates: &updates, signed_here, now })
    }

    /// State of a zone that the server serves.
    pub fn zone_status(&self, apex: &ZoneName) -> Option<Arc<ZoneStatus>> {
        self.shared.states.get(apex)
    }

    /// Returns the views that have zones which may change, each once.
    pub fn changing_views(&self) -> Vec<ViewName> {
        let rules = self.shared.rules.load();
        let views: BTreeSet<&str> = rules.iter().filter_map(|(apex, _)| apex.view()).collect();
        views.into_iter().filter_map(|view| view.parse().ok()).collect()
    }

    fn check_size(&self, edit: &ZoneEdit) -> Result<(), EditFault> {
        let most = self.bounds.load().bytes;
        if edit.bytes() > most { Err(EditFault::TooLarge(most)) } else { Ok(()) }
    }

    /// Checks whether an edit of a zone may wait now. Returns the rules for it.
    fn may_edit(&self, apex: &ZoneName, edit: &ZoneEdit) -> Result<Arc<ZoneUpdates>, EditFault> {
        let (_, rules) = checked_rules(&self.shared, apex, &edit.by)?;
        self.check_size(edit)?;
        let (counts, most) = (&self.shared.counts, self.queue.load(Relaxed));
        // This edit is counted already.
        if counts.waiting.load(Relaxed) > most {
            counts.too_many.fetch_add(1, Relaxed);
            return Err(EditFault::TooMany(most));
        }
        Ok(rules)
    }
}

/// Returns the version in service of a zone to edit, if there is one, and the rules for it. A zone that is
/// signed here may be about to be signed for the first time.
///
/// # Errors
/// [`EditFault`] if the zone is not edited.
fn checked_rules(
    shared: &Shared,
    apex: &ZoneName,
    by: &ChangeAuthor,
) -> Result<(Option<Arc<Zone>>, Arc<ZoneUpdates>), EditFault> {
    let state = shared.states.get(apex).ok_or(EditFault::NoSuchZone)?;
    match &state.spec.text {
        ZoneText::Primaries => return Err(EditFault::Secondary),
        ZoneText::Produced | ZoneText::BuiltIn(_) => return Err(EditFault::Generated),
        ZoneText::File(_) | ZoneText::Disputed(_) | ZoneText::Database => {}
    }
    let rules = shared.rules.load();
    let without = ZoneUpdates::default();
    by.may_edit(rules.get(apex).map_or(&without, |rules| rules))?;
    let rules = rules.get(apex).ok_or(EditFault::TakesNoChanges)?;
    if lock(&shared.frozen).contains(apex) {
        return Err(EditFault::Frozen);
    }
    Ok((state.zone.clone(), Arc::clone(rules)))
}

#[cfg(test)]
mod tests;
