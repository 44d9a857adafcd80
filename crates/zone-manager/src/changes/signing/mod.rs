//! [`ZoneSigner`]: the keys and signatures of one zone that is signed here. `signer` decides and computes;
//! this module has the keys, and what a zone needs between two changes.
//!
//! A zone that is signed here is stored and served as its signed version alone. Each change of its data gets
//! the signatures that it needs before it is stored, so a crash leaves no version that is signed in part.
//! Maintenance (`ZoneSigner::maintain`) takes turns with other changes of the zone:
//!
//! 1. It looks at the signed version, and lets the states of the keys follow what is there. States that
//!    changed are written. A key that is missing is generated, and its files are written first.
//! 2. It renews signatures that end soon or are by other keys than those that sign now: some of them in a
//!    turn, so that updates of the zone do not wait for all.
//! 3. After a turn that changed the zone it is due again at once, else when the next thing is to be done.
//!
//! Of a zone of the database, each node has the keys and signs the changes that it accepts; states and keys
//! are committed together with the records. One node at a time maintains; the others only look at the zone,
//! for operators (`views`).
//!
//! | file | holds |
//! |---|---|
//! | `at_parent` | what the parent has, and what it is to have |
//! | `key_store` | where the keys of a zone are |
//! | `key_folder` | the files of a zone's keys and of their states |
//! | `shared_keys` | the keys of a zone of the database |
//! | `command` | what operators ask for |
//! | `csync` | the CSYNC record |
//! | `offline` | zones whose KSK is offline |
//! | `schedule` | when which zone is due |
//! | `status` | what operators see of it |

mod at_parent;
mod command;
mod csync;
mod key_folder;
mod key_store;
mod offline;
mod schedule;
mod shared_keys;
mod status;

use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use ::database::{KeyCommit, KeySetVersion, ZoneKeySet};
use serving::parental::ParentReport;
use signer::denial::DenialMethod;
use signer::files::KeyFolderFault;
use signer::incremental::{
    Refreshed, SignedStep, Signing, refresh, sign_change, unsign, unsigned_difference,
};
use signer::key::times::{KeyEvent, KeyTimes};
use signer::keyset::{KeySetFault, ZoneKeys};
use signer::online::OnlineSigner;
use signer::rollover::{Facts, KeyDuty, KeyId, KeyPlan, Keyring, ManagedKey, RollFault};
use signer::rrset::SignaturePeriod;
use signer::scan::{SignatureScan, SignedBy};
use signer::zone::{SignFault, SigningPolicy};
use tracing::info;
use update::is_signed;
use wire::rdata::view::{Dnskey, SigAlgorithm};
use wire::{NameBuf, Serial, Ttl, Type, UnixTime, ZoneName};
use zone::Zone;
use zone::store::{ChangeSet, ChangedRecord};
use zone_plan::{ZoneSigning, ZoneUpdates};

use super::Reply;
use super::serials::with_serial;
pub(super) use at_parent::{PushNeed, WantedDs};
pub(super) use command::log_command;
pub use command::{SignCommand, SignEnd, SignReply, ZoneKeyEvent};
pub(super) use csync::has_new_csync;
use csync::{lacks_csync, with_csync, without_csync};
use key_folder::KeyFolder;
use key_store::KeyStore;
pub use offline::OfflineStatus;
use offline::OfflineZone;
pub(super) use schedule::SignSchedule;
use shared_keys::SharedKeys;
pub use status::{SigningStatus, ZoneKeyStatus};

/// Most signatures that one turn of maintenance makes.
const SIGNATURES_A_TURN: usize = 2000;
/// Signatures that are due within this part of the time for renewing them are renewed together.
const TOGETHER: u32 = 20;
/// Longest such time.
const MOST_TOGETHER: Duration = Duration::from_secs(6 * 3600);
/// Shortest time between two looks at a zone for which there is nothing to do.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// The part of `signature-refresh` after which signatures that the node that signs has not renewed are late.
const LATE: u32 = 4;
/// Longest time for which a key that the database does not have is waited for.
const LONGEST_WAIT_FOR_KEYS: Duration = Duration::from_secs(10);
/// Longest time between two looks at a zone.
const LONGEST_PAUSE: Duration = Duration::from_secs(24 * 3600);
/// How often the servers of the parent are asked while a rollover waits for them: as often as they may have
/// another version, in these bounds.
const ASK_PARENT_EVERY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(600));
/// Passes in a row that may change a zone without a pause. A change of keys takes two; more in a row are a
/// fault, which must not fill the disk with versions.
const MOST_PASSES: usize = 5;
/// The pause after more of them.
const PAUSE_OF_PASSES: Duration = Duration::from_secs(60);
/// No signature expires later than this from now on; the validity of policies has a bound of a year.
const BEYOND_ALL_SIGNATURES: Duration = Duration::from_secs(10 * 365 * 86_400);
/// Most rounds of generating keys in one turn.
const MOST_ROUNDS: usize = 8;

/// The largest TTLs of the versions of a zone that caches may have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ZoneTtls {
    /// Of DNSKEY.
    pub(super) dnskey: Ttl,
    /// Of all other RRsets, and of negative answers.
    pub(super) largest: Ttl,
}

/// Maintenance of a zone is due.
#[derive(Default)]
pub(super) struct SignOrder {
    pub(super) rules: Arc<ZoneUpdates>,
    /// What an operator asks for, if that is why.
    pub(super) command: Option<(SignCommand, Reply<SignEnd>)>,
    /// What the servers of the parent have said, if that is why.
    pub(super) parent: Option<ParentReport>,
}

/// What a turn of maintenance does to the zone.
pub(super) enum Maintenance {
    /// Nothing.
    Nothing,
    /// It makes this version.
    Step(Box<SignedStep>),
}

/// Why a zone cannot be signed. It stays as it is.
#[derive(Debug)]
pub(super) enum SigningFault {
    /// The files of its keys.
    Folder(KeyFolderFault),
    /// The zone is signed by a key whose private key is not here.
    MissingKey { algorithm: SigAlgorithm, tag: u16, place: String },
    /// A key cannot be generated.
    Generate(String),
    /// A request of an operator is refused.
    Refused(String),
    /// Its keys do not fit together.
    Keys(KeySetFault),
    /// Signing failed.
    Sign(SignFault),
}

impl fmt::Display for SigningFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(fault) => fault.fmt(f),
            Self::MissingKey { algorithm, tag, place } => {
                write!(f, "key {tag} of algorithm {algorithm} signs it, and {place}")
            }
            Self::Generate(why) | Self::Refused(why) => f.write_str(why),
            Self::Keys(fault) => fault.fmt(f),
            Self::Sign(fault) => fault.fmt(f),
        }
    }
}
impl std::error::Error for SigningFault {}

impl From<KeyFolderFault> for SigningFault {
    fn from(fault: KeyFolderFault) -> Self {
        Self::Folder(fault)
    }
}

impl From<KeySetFault> for SigningFault {
    fn from(fault: KeySetFault) -> Self {
        Self::Keys(fault)
    }
}

impl From<SignFault> for SigningFault {
    fn from(fault: SignFault) -> Self {
        Self::Sign(fault)
    }
}

impl SignOrder {
    /// Returns the order to look at a zone with these rules.
    pub(super) fn of(rules: Arc<ZoneUpdates>) -> SignOrder {
        SignOrder { rules, ..SignOrder::default() }
    }

    /// Whether an operator asks for a change.
    pub(super) fn commands(&self) -> bool {
        self.command.as_ref().is_some_and(|(command, _)| command.changes())
    }

    /// Replies to the operator, if one waits.
    pub(super) fn end(self, result: SignEnd) {
        if let Some((_, reply)) = self.command {
            // The operator's command may have timed out.
            let _ = reply.try_send(result);
        }
    }
}

/// The signer of one zone.
pub(super) struct ZoneSigner {
    apex: ZoneName,
    rules: Arc<ZoneSigning>,
    store: KeyStore,
    /// The keys of the database have changed, or may have: they are read again before the next turn.
    is_outdated: bool,
    /// Maintenance only looks at the zone, since another node maintains it.
    views: bool,
    /// Since when a key is missing that signs the zone.
    missing_since: Option<UnixTime>,
    ring: Keyring,
    plan: KeyPlan,
    /// The keys with the uses of the plan; `None` before the first look.
    keys: Option<ZoneKeys>,
    /// What the zone has beside its keys, if its KSK is offline.
    offline: Option<OfflineZone>,
    /// Where the pass that renews signatures goes on; `None`: no pass has begun.
    pass: Option<Pass>,
    /// All signatures are due, until a pass is complete.
    renew_all: bool,
    parent: Option<ParentReport>,
    /// Whether the DS RRset at the parent is to be changed.
    push: PushNeed,
    /// What the last look has found.
    facts: Facts,
    /// The TTLs of versions before the first look.
    before: ZoneTtls,
    /// The largest TTL that changes have brought since the last look.
    seen_ttl: Ttl,
    /// The first expiration of a signature, as far as it is known.
    earliest: Option<UnixTime>,
    /// Most signatures in one turn.
    most: usize,
    /// When maintenance is due.
    wake: UnixTime,
    /// Signatures made since the zone was opened.
    made: u64,
    /// Those of them that were counted.
    counted: u64,
    /// Passes that changed the zone since one that did not.
    passes: usize,
    /// The results of operators' commands of the turns that were not answered yet.
    said: VecDeque<Result<SignReply, SigningFault>>,
}

/// A pass over a zone that renews signatures.
struct Pass {
    /// Signatures that end then, or before, are renewed.
    due: UnixTime,
    /// Where it goes on; `None`: at the start.
    from: Option<NameBuf>,
    /// The first expiration of the signatures that it has left or made.
    earliest: Option<UnixTime>,
}

impl ZoneSigner {
    /// Reads the keys of a zone and their states.
    ///
    /// # Errors
    /// [`SigningFault::Folder`].
    pub(super) fn open(
        state: &Path,
        apex: &ZoneName,
        rules: Arc<ZoneSigning>,
        before: ZoneTtls,
        now: UnixTime,
    ) -> Result<Self, SigningFault> {
        let store = KeyStore::Folder(KeyFolder::of(state, apex));
        Self::with_store(store, apex, rules, before, now)
    }

    /// Takes the keys of a zone of the database.
    ///
    /// # Errors
    /// [`SigningFault::Folder`].
    pub(super) fn open_shared(
        keys: Arc<ZoneKeySet>,
        apex: &ZoneName,
        rules: Arc<ZoneSigning>,
        now: UnixTime,
    ) -> Result<Self, SigningFault> {
        let keys = SharedKeys::of(apex, keys);
        let before = keys.ttls();
        Self::with_store(KeyStore::Database(keys), apex, rules, before, now)
    }

    fn with_store(
        store: KeyStore,
        apex: &ZoneName,
        rules: Arc<ZoneSigning>,
        before: ZoneTtls,
        now: UnixTime,
    ) -> Result<Self, SigningFault> {
        let ring = store.ring(now)?;
        Ok(ZoneSigner {
            apex: apex.clone(),
            rules,
            store,
            is_outdated: false,
            views: false,
            missing_since: None,
            ring,
            plan: KeyPlan::default(),
            keys: None,
            offline: None,
            pass: None,
            renew_all: false,
            parent: None,
            push: PushNeed::Nothing,
            facts: Facts::default(),
            before,
            seen_ttl: Ttl::ZERO,
            earliest: None,
            most: SIGNATURES_A_TURN,
            wake: UnixTime::EPOCH,
            made: 0,
            counted: 0,
            passes: 0,
            said: VecDeque::new(),
        })
    }

    /// Sets the rules that apply from now on.
    pub(super) fn under(mut self: Box<Self>, rules: Arc<ZoneSigning>) -> Box<Self> {
        self.rules = rules;
        self
    }

    /// Has the signer work with these keys of the database, if it does not yet. All that it has decided with
    /// others is void.
    ///
    /// # Errors
    /// [`SigningFault::Folder`].
    pub(super) fn with_keys(
        mut self: Box<Self>,
        keys: Arc<ZoneKeySet>,
        now: UnixTime,
    ) -> Result<Box<Self>, SigningFault> {
        if !self.is_outdated && self.store.version() == Some(keys.version) {
            return Ok(self);
        }
        let anew = Self::open_shared(keys, &self.apex, Arc::clone(&self.rules), now)?;
        let Self { renew_all, parent, made, counted, passes, earliest, missing_since, .. } = *self;
        let wake = now;
        *self = Self { renew_all, parent, made, counted, passes, earliest, missing_since, wake, ..anew };
        Ok(self)
    }

    /// Has the next turn begin with the keys that the database has then.
    pub(super) fn outdated(&mut self) {
        self.is_outdated = true;
        self.begin_again();
    }

    /// Has a turn begin at once if the database has other keys than these.
    pub(super) fn expect_keys(&mut self, version: KeySetVersion, now: UnixTime) {
        if self.store.version() != Some(version) {
            self.outdated();
            self.wake = now;
        }
    }

    /// Whether a key of the database is missing that is probably on its way: a zone that is read whole may be
    /// newer than the keys that were read last.
    pub(super) fn waits_for_keys(&self, now: UnixTime) -> bool {
        let is_new = |since: UnixTime| now.saturating_duration_since(since) < LONGEST_WAIT_FOR_KEYS;
        self.store.version().is_some() && self.missing_since.is_some_and(is_new)
    }

    /// Sets whether another node maintains the zone. Work that was begun here is finished here, and
    /// signatures that the other node has not renewed in time are renewed here.
    pub(super) fn set_views(&mut self, views: bool, now: UnixTime) {
        let is_late = self.renewal_is_late().is_some_and(|at| at <= now);
        self.views = views && !self.renew_all && self.pass.is_none() && !is_late;
    }

    /// When it is certain that the node that signs does not renew the first signature that ends.
    fn renewal_is_late(&self) -> Option<UnixTime> {
        let refresh = self.rules.policy.signature_refresh;
        self.earliest.map(|at| at.saturating_sub(refresh - refresh / LATE))
    }

    /// Has a signer of answers sign with the keys of the zone.
    pub(super) fn sign_answers_by(&self, online: &OnlineSigner) {
        if let Some(keys) = &self.keys {
            online.set(keys, &self.rules.policy);
        }
    }

    /// Returns what a commit in the database requires of the keys, and how it changes them; `None` if they
    /// are files, or nothing is to be committed. `serial` is that of the version to come.
    pub(super) fn key_commit(&self, serial: Serial, author: String) -> Option<KeyCommit> {
        self.store.commit(serial, self.ttls(), author).filter(|_| !self.views)
    }

    /// Takes note of keys that were committed in the database.
    pub(super) fn committed(&mut self, keys: Arc<ZoneKeySet>) {
        self.store.committed(keys);
    }

    /// When the next turn of maintenance is due.
    pub(super) fn wake(&self) -> UnixTime {
        self.wake
    }

    /// Returns the result of the first command of an operator that was not answered yet, once.
    pub(super) fn take_said(&mut self) -> Option<Result<SignReply, SigningFault>> {
        self.said.pop_front()
    }

    /// Returns how many signatures were made since the last call.
    pub(super) fn take_made(&mut self) -> u64 {
        self.made - std::mem::replace(&mut self.counted, self.made)
    }

    /// Has the next turn begin with a look at the zone.
    pub(super) fn begin_again(&mut self) {
        self.said.clear();
        self.pass = None;
    }

    /// Whether the zone may have a DNSKEY record of another signer: its data have signatures of each
    /// algorithm of its keys (RFC 4035 §2.2).
    pub(super) fn may_have_key(&self, dnskey: &[u8]) -> bool {
        match (&self.keys, Dnskey::read(dnskey)) {
            (Some(keys), _) if keys.is_presigned() => keys.dnskeys().iter().any(|key| key == dnskey),
            (Some(keys), Ok(key)) => !key.is_zone_key() || keys.signs_with(key.algorithm),
            _ => true,
        }
    }

    /// Whether the next version has signatures. A zone whose KSK is offline has none before the first slot of
    /// a response.
    fn signs(&self) -> bool {
        !self.plan.unsign && (self.offline.is_none() || self.keys.is_some())
    }

    fn policy(&self, now: UnixTime) -> SigningPolicy {
        let policy = &self.rules.policy;
        let period = SignaturePeriod {
            inception: now.saturating_sub(policy.inception_offset),
            expiration: now.saturating_add(policy.signature_validity),
            jitter: u32::try_from(policy.signature_jitter.as_secs()).unwrap_or(u32::MAX),
        };
        SigningPolicy {
            period,
            denial: policy.denial.clone(),
            serial: None,
            dnskey_ttl: Some(policy.dnskey_ttl),
            // No other CDS records can have signatures.
            sync: policy.sync || self.offline.is_some(),
            zonemd: policy.zonemd.clone(),
        }
    }

    /// Returns the change from the data of a version to those of a zone file.
    pub(super) fn difference(&self, zone: &Zone, file: &Zone) -> ChangeSet {
        let ours = |rdata: &[u8]| self.keys.as_ref().is_some_and(|keys| keys.is_ours(rdata));
        let change = unsigned_difference(zone, file, &ours, &self.policy(UnixTime::EPOCH));
        if self.rules.policy.csync { without_csync(&change, zone) } else { change }
    }

    /// Extends a change of data to the change to a signed version.
    ///
    /// # Errors
    /// [`SigningFault`].
    pub(super) fn sign(
        &mut self,
        zone: &Zone,
        change: &ChangeSet,
        now: UnixTime,
    ) -> Result<SignedStep, SigningFault> {
        if self.keys.is_none() && self.facts.now != now {
            self.look(zone, now)?;
        }
        if !self.signs() && !is_signed(zone) {
            let zone = zone.apply(change).map_err(SignFault::from)?;
            return Ok(SignedStep { zone, change: change.clone(), counts: Default::default() });
        }
        let csync = self.rules.policy.csync && self.signs();
        let extended = csync.then(|| with_csync(zone, change, self.rules.policy.dnskey_ttl));
        let change = extended.as_ref().unwrap_or(change);
        let policy = self.policy(now);
        let Some(keys) = &mut self.keys else { return Err(KeySetFault::NoActiveKey.into()) };
        keys.set_present(keys_after(zone, change))?;
        let step = sign_change(zone, change, &Signing { keys, policy: &policy, threads: threads() })?;
        self.made += step.counts.signatures;
        let ttls = change.added.iter().map(|record| record.ttl);
        self.seen_ttl = ttls.max().unwrap_or(Ttl::ZERO).max(self.seen_ttl);
        Ok(step)
    }

    /// Does a turn of maintenance; `after` is the serial of the version that it makes, if it makes one.
    ///
    /// # Errors
    /// [`SigningFault`]. The next turn begins with a look at the zone.
    pub(super) fn maintain(
        &mut self,
        zone: &Zone,
        order: &SignOrder,
        after: Serial,
        now: UnixTime,
    ) -> Result<Maintenance, SigningFault> {
        if order.parent.is_some() {
            (self.parent, self.pass) = (order.parent.clone(), None);
        }
        let mut pass = self.begin_turn(zone, order, now)?;
        if self.views {
            let (soonest, longest) = (now.saturating_add(SHORTEST_PAUSE), now.saturating_add(LONGEST_PAUSE));
            self.wake = self.renewal_is_late().unwrap_or(longest).clamp(soonest, longest);
            self.pass = None;
            return Ok(Maintenance::Nothing);
        }
        if !self.signs() {
            let (soonest, longest) = (now.saturating_add(SHORTEST_PAUSE), now.saturating_add(LONGEST_PAUSE));
            self.wake = self.plan.wake.unwrap_or(longest).clamp(soonest, longest);
            let is_bare = !is_signed(zone) || self.offline.is_some() && !self.plan.unsign;
            return Ok(match is_bare {
                true => Maintenance::Nothing,
                false => {
                    self.wake = now;
                    Maintenance::Step(Box::new(unsign(zone, after, &|_, _| false)?))
                }
            });
        }
        if let Some(step) = self.csync_added(zone, order, after, now)? {
            return Ok(Maintenance::Step(Box::new(step)));
        }
        let policy = self.policy(now);
        let Some(keys) = &self.keys else { return Err(KeySetFault::NoActiveKey.into()) };
        let signing = Signing { keys, policy: &policy, threads: threads() };
        let Refreshed { step, next, earliest } =
            refresh(zone, &signing, after, pass.due, pass.from.as_ref(), self.most)?;
        pass.earliest = [pass.earliest, earliest].into_iter().flatten().min();
        self.made += step.as_ref().map_or(0, |step| step.counts.signatures);
        match (next, &step) {
            (Some(next), _) => {
                pass.from = Some(next);
                (self.pass, self.wake) = (Some(pass), now);
            }
            // The next turn looks at what this one has made.
            (None, Some(_)) => {
                self.renew_all = false;
                self.passes += 1;
                let pause = if self.passes > MOST_PASSES { PAUSE_OF_PASSES } else { Duration::ZERO };
                self.wake = now.saturating_add(pause);
            }
            (None, None) => self.rest(&pass, now),
        }
        Ok(step.map_or(Maintenance::Nothing, |step| Maintenance::Step(Box::new(step))))
    }

    /// Begins a turn of maintenance: looks at the zone unless a pass is to go on, and does what an operator
    /// asks for. Returns the pass.
    fn begin_turn(&mut self, zone: &Zone, order: &SignOrder, now: UnixTime) -> Result<Pass, SigningFault> {
        let pass = match self.pass.take() {
            Some(pass) if !order.commands() => pass,
            _ => {
                self.look(zone, now)?;
                if let Some((command, _)) = order.command.as_ref().filter(|_| order.commands()) {
                    let said = self.obey(command).map(SignReply::Done);
                    self.said.push_back(said);
                    self.look(zone, now)?;
                }
                Pass { due: self.due(now), from: None, earliest: None }
            }
        };
        match order.command {
            Some((SignCommand::Timeline, _)) => {
                self.said.push_back(Ok(SignReply::Timeline(self.timeline(now))));
            }
            Some((SignCommand::Request(from, until), _)) => {
                let said = self.request(from, until, now).map(SignReply::Request);
                self.said.push_back(said);
            }
            _ => {}
        }
        Ok(pass)
    }

    /// Returns the step that adds the CSYNC record that the policy wants; `None`: there is one.
    fn csync_added(
        &mut self,
        zone: &Zone,
        order: &SignOrder,
        after: Serial,
        now: UnixTime,
    ) -> Result<Option<SignedStep>, SigningFault> {
        if !self.rules.policy.csync || !is_signed(zone) || !lacks_csync(zone) {
            return Ok(None);
        }
        let change = with_serial(ChangeSet::default(), zone, zone, after, order.rules.serial, now);
        let step = self.sign(zone, &change, now)?;
        self.wake = now;
        Ok(Some(step))
    }

    /// Decides when the next turn is due after a pass that found nothing to do.
    fn rest(&mut self, pass: &Pass, now: UnixTime) {
        self.renew_all = false;
        self.passes = 0;
        self.earliest = pass.earliest;
        let renewal = pass.earliest.map(|at| at.saturating_sub(self.rules.policy.signature_refresh));
        let longest = now.saturating_add(LONGEST_PAUSE);
        let soonest = now.saturating_add(SHORTEST_PAUSE);
        let wake = [renewal, self.plan.wake].into_iter().flatten().min().unwrap_or(longest);
        self.wake = wake.clamp(soonest, longest);
    }

    /// Returns the expiration up to which signatures are renewed now.
    fn due(&self, now: UnixTime) -> UnixTime {
        let policy = &self.rules.policy;
        if self.renew_all {
            return now.saturating_add(BEYOND_ALL_SIGNATURES);
        }
        let together = (policy.signature_refresh / TOGETHER).min(MOST_TOGETHER);
        now.saturating_add(policy.signature_refresh).saturating_add(together)
    }

    /// Lets the states of the keys follow what the version has, writes those that changed, and plans the next
    /// version. Keys that are missing are generated.
    fn look(&mut self, zone: &Zone, now: UnixTime) -> Result<(), SigningFault> {
        self.check_online_store()?;
        let scan = SignatureScan::of(zone, now);
        self.read_offline(zone, now)?;
        if let Err(fault) = self.check_keys(&scan) {
            self.missing_since.get_or_insert(now);
            return Err(fault);
        }
        self.missing_since = None;
        let facts = self.facts(zone, &scan, now);
        let slot_before = self.plan.presigned;
        let before = self.keys.is_some().then(|| (self.plan.uses.clone(), self.plan.cds_delete));
        for _ in 0..MOST_ROUNDS {
            let offline = self.offline.as_ref().map(|offline| &offline.keys);
            self.plan = self.ring.step_with(&self.rules.policy, &facts, offline);
            if self.plan.generate.is_empty() || self.views {
                break;
            }
            for new in &self.plan.generate {
                let (ttl, times) = (self.rules.policy.dnskey_ttl, created(now));
                let id = self.store.generate(new, &mut self.ring, ttl, times, now)?;
                let duty = if new.duty == KeyDuty::Standby { "standby " } else { "" };
                info!("zone {}: key {id}, a {duty}{}, is generated", self.apex, new.role);
            }
        }
        self.store.write_states(&mut self.ring, &self.plan.changed)?;
        let purged = std::mem::take(&mut self.plan.purge);
        for id in purged.into_iter().filter(|_| !self.views) {
            self.store.remove(id)?;
            self.ring.remove(id);
            info!("zone {}: key {id} is deleted", self.apex);
        }
        let present = present_keys(zone);
        self.facts = facts;
        self.push = self.need_of(zone);
        if let Some(used) = self.plan.presigned.filter(|_| !self.plan.unsign) {
            let is_same = before == Some((self.plan.uses.clone(), false)) && slot_before == Some(used);
            if !is_same || used.slot.is_none() {
                self.keys = self.presigned_keys(zone, used)?;
            }
            self.remind(now);
            self.seen_ttl = Ttl::ZERO;
            return Ok(());
        }
        match &mut self.keys {
            Some(keys) if before == Some((self.plan.uses.clone(), self.plan.cds_delete)) => {
                keys.set_present(present)?;
            }
            keys => {
                let read = self.store.zone_keys(self.apex.as_name(), |id| self.plan.use_of(id), present)?;
                *keys = read.map(|keys| keys.deleting_ds(self.plan.cds_delete));
            }
        }
        if self.views {
            self.earliest = scan.earliest;
            // A plan that lacks keys is not complete.
            self.keys.take_if(|_| !self.plan.generate.is_empty());
        }
        self.seen_ttl = Ttl::ZERO;
        Ok(())
    }

    /// Checks that answers of the zone can be signed, if the policy wants that.
    fn check_online_store(&self) -> Result<(), SigningFault> {
        let is_online = matches!(self.rules.policy.denial, DenialMethod::Online(_));
        match self.store.version().is_some() && is_online {
            true => Err(SigningFault::Refused(
                "its policy has `online`, which is not possible for zones of a database".into(),
            )),
            false => Ok(()),
        }
    }

    /// The TTLs that a later run has to know; `None` before the first look.
    pub(super) fn ttls(&self) -> Option<ZoneTtls> {
        let dnskey = self.facts.dnskey_ttl.max(self.rules.policy.dnskey_ttl);
        let ttls = ZoneTtls { dnskey, largest: self.facts.largest_ttl.max(self.seen_ttl) };
        (self.facts.now > UnixTime::EPOCH).then_some(ttls)
    }

    /// Checks that each key which signs the keys of a version is here: signatures by other keys in their
    /// place would not be those that the parent's DS records lead to.
    fn check_keys(&self, scan: &SignatureScan) -> Result<(), SigningFault> {
        let is_here = |signed: &&SignedBy| {
            self.ring.keys().iter().any(|key| (key.id.algorithm, key.id.tag) == **signed)
        };
        // A revoked key has another tag than the one of its files.
        let revoked: Vec<SignedBy> = scan
            .tagged_keys()
            .filter(|(_, rdata)| Dnskey::read(rdata).is_ok_and(|key| key.flags & Dnskey::REVOKE != 0))
            .map(|(key, _)| key)
            .collect();
        let missing =
            scan.of_keys.iter().filter(|signed| !revoked.contains(signed)).find(|key| !is_here(key));
        match missing {
            Some((algorithm, tag)) => {
                let (algorithm, tag) = (*algorithm, *tag);
                Err(SigningFault::MissingKey { algorithm, tag, place: self.store.place() })
            }
            None => Ok(()),
        }
    }

    /// Collects what a version and the servers of the parent have.
    fn facts(&self, zone: &Zone, scan: &SignatureScan, now: UnixTime) -> Facts {
        let id_of = |signed: &SignedBy| {
            let is_it = |key: &&ManagedKey| (key.id.algorithm, key.id.tag) == *signed;
            self.ring.keys().iter().find(is_it).map(|key| key.id)
        };
        let ids = |signed: &[SignedBy]| signed.iter().filter_map(id_of).collect::<Vec<KeyId>>();
        let is_published = |key: &&ManagedKey| scan.has_key(&key.dnskey);
        let published = self.ring.keys().iter().filter(is_published).map(|key| key.id).collect();
        let is_foreign =
            |rdata: &&Vec<u8>| !self.ring.keys().iter().any(|key| key.dnskey.get(3..) == rdata.get(3..));
        let foreign = scan.dnskeys.iter().filter(is_foreign);
        let foreign = foreign.filter_map(|rdata| Some(Dnskey::read(rdata).ok()?.algorithm)).collect();
        Facts {
            now,
            zone: self.offline.is_some().then(|| self.apex.as_name().to_buf()),
            dnskey_ttl: scan.dnskey_ttl.unwrap_or(Ttl::ZERO),
            largest_ttl: scan.largest_ttl.max(zone.negative_ttl()).max(self.seen_ttl),
            dnskey_ttl_before: self.before.dnskey,
            largest_ttl_before: self.before.largest,
            published,
            key_signers: ids(&scan.of_keys),
            complete: if scan.has_unsigned { Vec::new() } else { ids(&scan.of_all) },
            present: ids(&scan.of_some),
            cds: self.cds_of(zone),
            foreign,
            parent: self.parent_view(),
        }
    }

    /// Returns the keys with a CDS or CDNSKEY record in a version.
    fn cds_of(&self, zone: &Zone) -> Vec<KeyId> {
        let (cds, cdnskey) = (rdatas_at_apex(zone, Type::CDS), rdatas_at_apex(zone, Type::CDNSKEY));
        let apex = self.apex.as_name();
        let has = |key: &&ManagedKey| {
            cdnskey.contains(&key.dnskey) || cds.iter().any(|rdata| key.is_of_ds(apex, rdata))
        };
        self.ring.keys().iter().filter(has).map(|key| key.id).collect()
    }

    /// Carries out what an operator asks for, after a look at the zone.
    fn obey(&mut self, command: &SignCommand) -> Result<String, SigningFault> {
        let refused = |fault: RollFault| SigningFault::Refused(fault.to_string());
        let policy = &self.rules.policy;
        Ok(match command {
            SignCommand::Renew => {
                self.renew_all = true;
                "all signatures are made again".into()
            }
            SignCommand::Roll(_) | SignCommand::RollAtOnce(_) | SignCommand::Retire(_)
                if self.offline.is_some() =>
            {
                self.check_online()?;
                String::new()
            }
            SignCommand::Roll(which) => {
                let id = self.ring.roll(policy, *which, &self.facts).map_err(refused)?;
                format!("the rollover of key {id} begins")
            }
            SignCommand::RollAtOnce(which) => {
                let (id, next) = self.ring.roll_at_once(policy, *which, &self.facts).map_err(refused)?;
                format!("standby key {next} takes over from key {id} at once")
            }
            SignCommand::Retire(id) => {
                self.ring.retire(policy, *id, &self.facts).map_err(refused)?;
                format!("key {id} is removed once no cache needs it")
            }
            SignCommand::DsPublished(id) => {
                self.ring.ds_published(*id, self.facts.now).map_err(refused)?;
                format!("the parent has the DS record of key {id}")
            }
            SignCommand::DsWithdrawn(id) => {
                self.ring.ds_withdrawn(*id, self.facts.now).map_err(refused)?;
                format!("the parent no longer has the DS record of key {id}")
            }
            SignCommand::Pregenerate(until) => self.pregenerate(*until)?,
            SignCommand::ImportResponse(text) => self.import(text)?,
            SignCommand::Timeline | SignCommand::Request(..) => String::new(),
        })
    }
}

/// Deletes the files of all keys of a zone.
///
/// # Errors
/// A file that cannot be deleted.
pub(super) fn remove_keys(state: &Path, apex: &ZoneName) -> Result<(), KeyFolderFault> {
    KeyFolder::of(state, apex).remove_all()
}

fn rdatas_at_apex(zone: &Zone, rtype: Type) -> Vec<Vec<u8>> {
    let records = zone.apex_node().rrset(rtype).into_iter().flat_map(|set| set.rdatas());
    let copy = |record: zone::store::Rdata<'_>| {
        let mut rdata = Vec::new();
        record.copy_to(&mut rdata);
        rdata
    };
    records.map(copy).collect()
}

/// Returns the DNSKEY records of a version.
fn present_keys(zone: &Zone) -> Vec<Vec<u8>> {
    rdatas_at_apex(zone, Type::DNSKEY)
}

/// Returns the DNSKEY records of a version after a change of its data.
fn keys_after(zone: &Zone, change: &ChangeSet) -> Vec<Vec<u8>> {
    let mut keys = present_keys(zone);
    let of_keys =
        |record: &ChangedRecord<'_>| record.rtype == Type::DNSKEY && record.owner == zone.apex().as_name();
    for record in change.removed.iter().filter(of_keys) {
        keys.retain(|key| key != record.rdata);
    }
    keys.extend(change.added.iter().filter(of_keys).map(|record| record.rdata.to_vec()));
    keys
}

/// The times of the file of a key that is generated at `now`.
fn created(now: UnixTime) -> KeyTimes {
    let mut times = KeyTimes::default();
    times.set(KeyEvent::Created, now);
    times
}

/// Most threads that sign one zone.
fn threads() -> usize {
    available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests;
