//! Years of a zone that is signed here, on virtual time: updates, restarts, rollovers and a parent that is
//! late. Each version is audited when it is made and when something else happens, and validators with any
//! versions that caches may have must find a chain of trust.

mod offline;

use std::cell::Cell;
use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::time::Instant;

use authority::audit::audit;
use serving::parental::{DsAtServer, ParentalAnswer};
use signer::keyset::CDS_DELETE;
use signer::policy::{DnssecPolicy, KeyAlgorithm, KeyLayout, SigningGoal};
use wire::hash::HashKey;
use wire::rdata::view::{Ds, SigAlgorithm};
use zone::ZoneBuilder;
use zone::catalog::{AnswerSet, AnswerSigner, OnlineDenial};

use signer::rollover::{KeyPurpose, RollTarget, RolloverEvent};

use super::*;
use crate::changes::edits::{ChangeAuthor, EditFault, EditOrder, RrsetEdit, RrsetEditKind, ZoneEdit};
use crate::changes::group::{ChangeJob, Course, Decided};

const DAY: u64 = 86_400;
const START: u64 = 1_800_000_000;

thread_local! {
    /// The time of what signs answers.
    static ANSWERED_AT: Cell<UnixTime> = const { Cell::new(UnixTime::EPOCH) };
}

/// What a validator may have in its cache, with the time until which it may.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cached<T> {
    until: UnixTime,
    seen: T,
}

/// The keys in a DNSKEY RRset, and those that sign it.
type KeySet = (BTreeSet<SignedBy>, BTreeSet<SignedBy>);

/// The versions that caches may have.
#[derive(Default)]
struct Caches {
    keys: VecDeque<Cached<KeySet>>,
    /// The keys of which every RRset has a signature, of each version.
    data: VecDeque<Cached<Vec<BTreeSet<SignedBy>>>>,
    ds: VecDeque<Cached<BTreeSet<SignedBy>>>,
}

fn keep<T: PartialEq>(all: &mut VecDeque<Cached<T>>, seen: T, now: UnixTime, ttl: Duration) {
    all.retain(|cached| cached.until >= now);
    let until = now.saturating_add(ttl);
    match all.iter_mut().find(|cached| cached.seen == seen) {
        Some(cached) => cached.until = until,
        None => all.push_back(Cached { until, seen }),
    }
}

/// The signers of each kind of RRset of a version: those of one RRset, each kind once.
fn signers_of(zone: &Zone, now: UnixTime) -> Vec<BTreeSet<SignedBy>> {
    let mut kinds = BTreeSet::new();
    for node in zone {
        for set in node.rrsets().filter(|set| set.sig_count() > 0 && set.rtype() != Type::DNSKEY) {
            let mut signers = BTreeSet::new();
            for record in set.sig_rdatas() {
                let mut rdata = Vec::new();
                record.copy_to(&mut rdata);
                let signature = wire::rdata::view::Rrsig::read(&rdata).expect("a signature");
                let (from, until) = (
                    signer::scan::time_near(signature.inception, now),
                    signer::scan::time_near(signature.expiration, now),
                );
                if from <= now && now <= until {
                    signers.insert((signature.algorithm, signature.key_tag));
                }
            }
            kinds.insert(signers);
        }
    }
    kinds.into_iter().collect()
}

/// One server, its zone and the parent.
struct World {
    folder: tempfile::TempDir,
    rules: Arc<ZoneSigning>,
    updates: Arc<ZoneUpdates>,
    signer: Option<ZoneSigner>,
    /// What is noted for a later run.
    ttls: ZoneTtls,
    zone: Arc<Zone>,
    now: UnixTime,
    caches: Caches,
    /// The parent's DS set, and when it takes the next one from the zone.
    ds: Vec<Vec<u8>>,
    parent_acts: Option<UnixTime>,
    parent_is_asked: UnixTime,
    /// DS records are pushed: the number of changes.
    pushes: Option<u32>,
    random: u64,
    /// Keys that have signed the zone.
    used: BTreeSet<SignedBy>,
    versions: u32,
    /// Signs answers, if the policy has that.
    online: OnlineSigner,
}

fn apex() -> ZoneName {
    ZoneName::from(wire::Name::of_checked(b"\x07example\0"))
}

impl World {
    fn new(policy: DnssecPolicy, seed: u64) -> World {
        let apex = apex();
        let mut builder = ZoneBuilder::new(apex.as_name(), &HashKey::new([1, 2, 3]));
        let soa = [&[0, 0][..], &[0, 0, 0, 1], &[0; 12], &[0, 0, 1, 44]].concat();
        builder.add(apex.as_name(), Type::SOA, Ttl::from_secs(300), &soa).expect("added");
        builder.add(apex.as_name(), Type::NS, Ttl::from_secs(3600), b"\x02ns\x00").expect("added");
        for name in ["www.example.", "mail.example.", "a.b.example."] {
            let name: NameBuf = name.parse().expect("a name");
            builder.add(name.as_name(), Type::A, Ttl::from_secs(7200), &[192, 0, 2, 1]).expect("added");
        }
        let rules = Arc::new(ZoneSigning {
            policy: Arc::new(policy),
            parental_servers: Vec::new(),
            ds_push: zone_plan::DsPush::Off,
        });
        let updates = ZoneUpdates { signing: Some(Arc::clone(&rules)), ..ZoneUpdates::default() };
        World {
            folder: tempfile::tempdir().expect("a folder"),
            rules,
            updates: Arc::new(updates),
            signer: None,
            ttls: ZoneTtls::default(),
            zone: Arc::new(builder.finish().expect("a zone")),
            now: UnixTime::from_secs(START),
            caches: Caches::default(),
            ds: Vec::new(),
            parent_acts: None,
            parent_is_asked: UnixTime::from_secs(START),
            pushes: None,
            random: seed,
            used: BTreeSet::new(),
            versions: 0,
            online: OnlineSigner::new(apex.as_lower(), || ANSWERED_AT.get()),
        }
    }

    /// SplitMix64.
    fn random(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.random;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % below
    }

    fn state(&self) -> &Path {
        self.folder.path()
    }

    fn signer(&mut self) -> ZoneSigner {
        let mut signer = match self.signer.take() {
            Some(signer) => signer,
            None => {
                let opened =
                    ZoneSigner::open(self.state(), &apex(), Arc::clone(&self.rules), self.ttls, self.now);
                opened.expect("a signer")
            }
        };
        signer.rules = Arc::clone(&self.rules);
        // The zone is signed by another key in several versions.
        signer.most = 3;
        signer
    }

    /// A turn of maintenance, with what the parent has if the signer asks for that.
    fn maintain(&mut self, command: Option<SignCommand>) -> Option<Result<SignReply, SigningFault>> {
        let mut signer = self.signer();
        let asks = signer.asks_parent().is_some() && self.parent_is_asked <= self.now;
        let parent = asks.then(|| {
            self.parent_is_asked = self.now.saturating_add(Duration::from_secs(3600));
            let rdatas = self.ds.clone();
            let ttl = (!rdatas.is_empty()).then(|| Ttl::from_secs(DAY as u32));
            let found = Ok(DsAtServer { rdatas, ttl });
            let servers = vec![ParentalAnswer { server: "parent".into(), found }];
            ParentReport { at: self.now, parent: None, servers, fault: None }
        });
        let command = command.map(|command| (command, std::sync::mpsc::sync_channel(1).0));
        let order = SignOrder { rules: Arc::clone(&self.updates), command, parent };
        let after = self.updates.serial.next(self.zone.serial(), self.now);
        let maintained = signer.maintain(&self.zone, &order, after, self.now).expect("maintained");
        signer.sign_answers_by(&self.online);
        if let Maintenance::Step(step) = maintained {
            self.take(step.zone, &step.change);
        }
        let said = signer.take_said();
        self.ttls = signer.ttls().expect("a look");
        self.push(signer.push_need().clone());
        self.signer = Some(signer);
        said
    }

    /// The parent's part, if DS records are pushed: it takes them at some time.
    fn push(&mut self, need: PushNeed) {
        let (Some(pushed), PushNeed::Push(wanted)) = (self.pushes, need) else { return };
        if self.random(3) > 0 || wanted.rdatas == self.ds {
            return;
        }
        let mut cds = rdatas_at_apex(&self.zone, Type::CDS);
        cds.retain(|rdata| *rdata != CDS_DELETE);
        cds.sort_unstable();
        assert_eq!(wanted.rdatas, cds, "{} days: what the zone asks for", self.days());
        (self.ds, self.pushes) = (wanted.rdatas, Some(pushed + 1));
        self.check();
    }

    fn take(&mut self, zone: impl Into<Arc<Zone>>, change: &ChangeSet) {
        let zone = zone.into();
        let applied = self.zone.apply(change).expect("a zone");
        assert!(zone::store::diff(&applied, &zone).is_empty(), "the change leads to another version");
        (self.zone, self.versions) = (zone, self.versions + 1);
        self.check();
    }

    /// Adds or removes a name, as an update does.
    fn update(&mut self) {
        let mut signer = self.signer();
        let serial = self.updates.serial.next(self.zone.serial(), self.now);
        let name: NameBuf = format!("n{}.example.", self.random(8)).parse().expect("a name");
        let mut change =
            with_serial(ChangeSet::default(), &self.zone, &self.zone, serial, self.updates.serial, self.now);
        let is_there = self.zone.find_name(name.as_name()).is_some_and(|node| node.rrset(Type::A).is_some());
        let records = if is_there { &mut change.removed } else { &mut change.added };
        records.push(name.as_name(), Type::A, Ttl::from_secs(7200), &[192, 0, 2, 7]);
        let step = signer.sign(&self.zone, &change, self.now).expect("signed");
        signer.sign_answers_by(&self.online);
        self.ttls = signer.ttls().expect("a look");
        self.signer = Some(signer);
        self.take(step.zone, &step.change);
    }

    /// Edits some names, as a program does.
    fn edit(&mut self) {
        let mut signer = self.signer();
        let mut edits = Vec::new();
        for _ in 0..3 {
            let owner: NameBuf = format!("e{}.example.", self.random(8)).parse().expect("a name");
            let kind = match self.random(3) {
                0 => RrsetEditKind::Delete,
                number => RrsetEditKind::Replace {
                    ttl: Ttl::from_secs(7200),
                    rdatas: vec![vec![192, 0, 2, number as u8]],
                },
            };
            edits.push(RrsetEdit { owner, rtype: Type::A, kind });
        }
        let by =
            ChangeAuthor::Program { token: "test".into(), address: std::net::Ipv4Addr::LOCALHOST.into() };
        let edit = ZoneEdit { edits, at_serial: Some(self.zone.serial()), by };
        let (rules, reply) = (Arc::clone(&self.updates), Box::new(|_| ()));
        let order = EditOrder { edit, rules, reply, _waiting: None };
        let jobs = [ChangeJob::Edit(Box::new(order))];
        let course = Course::of(&self.zone, &jobs, Some(&mut signer), self.now);
        let course = course.expect("signed");
        assert!(matches!(course.decided[..], [Decided::Edit(Ok(_))]), "decided");
        signer.sign_answers_by(&self.online);
        self.ttls = signer.ttls().expect("a look");
        self.signer = Some(signer);
        if let [step] = &course.steps[..] {
            self.take(course.zone, step);
        }
    }

    /// Audits the version, and checks each combination of versions that caches may have.
    fn check(&mut self) {
        let now = self.now;
        let scan = SignatureScan::of(&self.zone, now);
        self.used.extend(scan.of_all.iter().copied());
        if is_signed(&self.zone) && !self.zone.is_chainless() {
            let mut findings = Vec::new();
            audit(&self.zone, now.to_serial(), &mut |finding| findings.push(format!("{finding:?}")));
            findings.retain(|finding| !finding.contains("NoSepSignature"));
            assert!(findings.is_empty(), "{} days: {findings:?}", self.days());
        }
        let keys = scan.tagged_keys().map(|(key, _)| key).collect();
        let signs_keys = scan.of_keys.iter().copied().collect();
        let policy = Arc::clone(&self.rules.policy);
        // Servers of the zone have another version for a while, and caches then for the TTL.
        let delay = policy.zone_propagation_delay;
        let of_keys = Duration::from_secs(scan.dnskey_ttl.unwrap_or(Ttl::from_secs(300)).as_secs().into());
        let of_data = Duration::from_secs(scan.largest_ttl.as_secs().into());
        keep(&mut self.caches.keys, (keys, signs_keys), now, of_keys + delay);
        let mut signers = signers_of(&self.zone, now);
        signers.extend(self.zone.is_chainless().then(|| self.answered()));
        keep(&mut self.caches.data, signers, now, of_data + delay);
        let of_ds = Duration::from_secs(DAY) + policy.parent_propagation_delay;
        let ds = self.ds.iter().map(|ds| Ds::read(ds).expect("a DS"));
        let ds = ds.map(|ds| (ds.algorithm, ds.key_tag)).collect();
        keep(&mut self.caches.ds, ds, now, of_ds);
        self.check_caches();
    }

    /// The keys that have signed an answer, whose signature is valid for as long as one of the zone.
    fn answered(&self) -> BTreeSet<SignedBy> {
        ANSWERED_AT.set(self.now);
        let owner: NameBuf = "www.example.".parse().expect("a name");
        let (owner, rdatas) = (owner.as_name().to_lower(), [vec![192, 0, 2, 1]]);
        let (rtype, ttl) = (Type::A, Ttl::from_secs(7200));
        let set = AnswerSet { owner: owner.as_lower(), rtype, ttl, rdatas: &rdatas, is_of_zone: true };
        let made = self.online.sign(&set, Instant::now()).expect("signed");
        let signer = |rdata: &Vec<u8>| {
            let signature = wire::rdata::view::Rrsig::read(rdata).expect("a signature");
            let until = signer::scan::time_near(signature.expiration, self.now);
            assert!(until >= self.now.saturating_add(self.rules.policy.signature_refresh), "{until}");
            (signature.algorithm, signature.key_tag)
        };
        made.iter().map(signer).collect()
    }

    fn check_caches(&self) {
        for ds in self.caches.ds.iter().filter(|ds| !ds.seen.is_empty()) {
            for keys in &self.caches.keys {
                let (published, signing) = &keys.seen;
                let trusted = ds.seen.iter().any(|key| published.contains(key) && signing.contains(key));
                assert!(trusted, "{} days: DS {ds:?}, DNSKEY {keys:?}", self.days());
                for version in &self.caches.data {
                    for signers in &version.seen {
                        let valid = signers.iter().any(|key| published.contains(key));
                        assert!(valid, "{} days: DNSKEY {keys:?}, signatures {signers:?}", self.days());
                    }
                }
            }
        }
    }

    fn days(&self) -> u64 {
        (self.now.as_secs() - START) / DAY
    }

    /// Lets time pass until `days` days after the start, with events at random times. The parent takes CDS
    /// records up to `late` days after they change, if it is not `None`.
    fn run(&mut self, days: u64, late: Option<u64>) {
        let end = UnixTime::from_secs(START + days * DAY);
        while self.now < end {
            let (seconds, late_turn) = (self.random(4 * DAY), self.random(4) == 0);
            // A turn of maintenance may come late.
            let delay = Duration::from_secs(if late_turn { self.random(DAY) } else { 0 });
            let is_due = self.signer.as_ref().map(|signer| signer.wake().max(self.now).saturating_add(delay));
            let event = self.now.saturating_add(Duration::from_secs(seconds + 1));
            let asked = self.signer.as_ref().and_then(ZoneSigner::asks_parent).map(|_| self.parent_is_asked);
            let all = [Some(event), is_due, self.parent_acts, asked, Some(end)];
            self.now = all.into_iter().flatten().min().unwrap_or(end).max(self.now);
            self.parent(late);
            // What was valid when it was made must be valid now.
            self.check();
            match self.random(10) {
                0 if self.now == event => self.signer = None,
                1..3 if self.now == event && self.signer.is_some() => self.update(),
                3 if self.now == event && self.signer.is_some() => self.edit(),
                _ => {}
            }
            self.maintain(None);
        }
    }

    /// The parent's part: it takes the DS records that the zone's CDS records ask for.
    fn parent(&mut self, late: Option<u64>) {
        let Some(late) = late else { return };
        let cds = rdatas_at_apex(&self.zone, Type::CDS);
        let wanted: Vec<Vec<u8>> = if cds == [CDS_DELETE] { Vec::new() } else { cds.clone() };
        if cds.is_empty() || wanted == self.ds {
            self.parent_acts = None;
            return;
        }
        match self.parent_acts {
            Some(at) if at <= self.now => (self.ds, self.parent_acts) = (wanted, None),
            Some(_) => {}
            None => {
                let wait = Duration::from_secs(self.random(late * DAY + 60) + 1);
                self.parent_acts = Some(self.now.saturating_add(wait));
            }
        }
    }
}

fn policy() -> DnssecPolicy {
    let ed25519 = KeyAlgorithm { algorithm: SigAlgorithm::ED25519, bits: 0 };
    DnssecPolicy { ksk: ed25519, zsk: ed25519, ..DnssecPolicy::default() }
}

#[test]
fn a_zone_with_one_key_stays_valid_through_rollovers_updates_and_restarts() {
    let lifetime = Some(Duration::from_secs(50 * DAY));
    let mut world = World::new(DnssecPolicy { ksk_lifetime: lifetime, ..policy() }, 1);
    world.run(220, Some(3));
    assert!(world.used.len() >= 4, "keys {:?}", world.used);
    assert!(!world.ds.is_empty());
}

#[test]
fn a_zone_whose_ds_records_are_pushed_stays_valid_until_it_is_unsigned() {
    let days = |days| Some(Duration::from_secs(days * DAY));
    let layout = KeyLayout::Split;
    let policy = DnssecPolicy { layout, ksk_lifetime: days(40), zsk_lifetime: days(20), ..policy() };
    let mut world = World::new(policy.clone(), 7);
    world.pushes = Some(0);
    let under = |policy: DnssecPolicy| {
        let (policy, parental_servers) = (Arc::new(policy), Vec::new());
        Arc::new(ZoneSigning { policy, parental_servers, ds_push: zone_plan::DsPush::Here })
    };
    world.rules = under(policy.clone());
    world.run(200, None);
    assert!(world.pushes >= Some(4) && !world.ds.is_empty(), "{:?}", world.pushes);
    world.rules = under(DnssecPolicy { goal: SigningGoal::Insecure, ..policy });
    world.run(260, None);
    assert!(world.ds.is_empty() && !is_signed(&world.zone), "the DS records are removed first");
}

#[test]
fn a_zone_with_two_keys_stays_valid_through_rollovers_of_both() {
    let days = |days| Some(Duration::from_secs(days * DAY));
    let layout = KeyLayout::Split;
    let mut world =
        World::new(DnssecPolicy { layout, ksk_lifetime: days(80), zsk_lifetime: days(20), ..policy() }, 2);
    world.run(220, Some(10));
    assert!(world.used.len() >= 10, "keys {:?}", world.used);
}

#[test]
fn standby_keys_take_over_in_emergencies_without_a_gap() {
    let zsk_lifetime = Some(Duration::from_secs(45 * DAY));
    let (layout, standby_ksk, standby_zsk) = (KeyLayout::Split, true, true);
    // The world keeps CDS records in caches for the largest TTL of all data.
    let dnskey_ttl = Ttl::from_secs(7200);
    let policy = DnssecPolicy { layout, zsk_lifetime, standby_ksk, standby_zsk, dnskey_ttl, ..policy() };
    let mut world = World::new(policy, 9);
    let mut taken = [0, 0];
    for turn in 0..10 {
        world.run(40 * (turn + 1), Some(3));
        let roles = [KeyPurpose::Ksk, KeyPurpose::Zsk];
        let which = RollTarget::Role(roles[turn as usize % 2]);
        let said = world.maintain(Some(SignCommand::RollAtOnce(which)));
        taken[turn as usize % 2] += u32::from(said.is_some_and(|said| said.is_ok()));
    }
    assert!(taken.iter().all(|count| *count >= 3), "{taken:?}");
    world.run(450, Some(3));
    assert_eq!(world.ds.len(), 2, "of the KSK in use, and of the standby key");
    let scan = SignatureScan::of(&world.zone, world.now);
    assert_eq!((scan.dnskeys.len(), scan.of_keys.len(), scan.of_all.len()), (4, 1, 1));
}

#[test]
fn a_zone_whose_answers_are_signed_stays_valid_through_rollovers_and_other_policies() {
    let days = |days| Some(Duration::from_secs(days * DAY));
    let online = DnssecPolicy {
        denial: DenialMethod::Online(OnlineDenial::Compact),
        layout: KeyLayout::Split,
        ksk_lifetime: days(80),
        zsk_lifetime: days(20),
        ..policy()
    };
    let mut world = World::new(online.clone(), 5);
    world.run(160, Some(5));
    assert!(world.used.len() >= 7, "keys {:?}", world.used);
    assert!(world.zone.is_chainless() && !world.ds.is_empty());
    let signed = |zone: &Zone| {
        let others = zone.iter().filter(|node| node.owner() != zone.apex());
        others.flat_map(|node| node.rrsets()).filter(|set| set.sig_count() > 0).count()
    };
    assert_eq!(signed(&world.zone), 0, "the apex alone has signatures");
    let mut seen = Vec::new();
    for denial in [DenialMethod::Nsec, online.denial.clone(), DenialMethod::Nsec3(Default::default())] {
        let policy = Arc::new(DnssecPolicy { denial, ..online.clone() });
        world.rules =
            Arc::new(ZoneSigning { policy, parental_servers: Vec::new(), ds_push: zone_plan::DsPush::Off });
        let days = world.days();
        world.run(days + 30, Some(5));
        seen.push((world.zone.is_chainless(), world.zone.is_signed()));
    }
    assert_eq!(seen, [(false, true), (true, false), (false, true)]);
}

/// Without the parent's DS nothing that depends on it goes on, and the zone stays valid.
#[test]
fn a_parent_that_does_nothing_stops_rollovers_and_nothing_else() {
    let lifetime = Some(Duration::from_secs(60 * DAY));
    let mut world = World::new(DnssecPolicy { ksk_lifetime: lifetime, ..policy() }, 3);
    world.run(100, Some(1));
    let ds = world.ds.clone();
    world.run(250, None);
    assert_eq!(world.ds, ds);
    let kept: BTreeSet<SignedBy> = SignatureScan::of(&world.zone, world.now).of_keys.into_iter().collect();
    let ds = Ds::read(&ds[0]).expect("a DS");
    assert!(kept.contains(&(ds.algorithm, ds.key_tag)), "the key of the DS record still signs");
}

#[test]
fn another_algorithm_another_layout_and_no_signatures_at_all_are_reached_without_a_gap() {
    let mut world = World::new(policy(), 4);
    world.run(20, Some(1));
    let change = |world: &mut World, policy: DnssecPolicy| {
        world.rules = Arc::new(ZoneSigning {
            policy: Arc::new(policy),
            parental_servers: Vec::new(),
            ds_push: zone_plan::DsPush::Off,
        });
        world.maintain(None);
    };
    let p256 = KeyAlgorithm { algorithm: SigAlgorithm::ECDSAP256SHA256, bits: 0 };
    let split = DnssecPolicy { ksk: p256, zsk: p256, layout: KeyLayout::Split, ..DnssecPolicy::default() };
    change(&mut world, split.clone());
    world.run(80, Some(2));
    let scan = SignatureScan::of(&world.zone, world.now);
    let algorithms: BTreeSet<_> = scan.tagged_keys().map(|((algorithm, _), _)| algorithm).collect();
    assert_eq!(algorithms, BTreeSet::from([SigAlgorithm::ECDSAP256SHA256]));
    assert_eq!(scan.dnskeys.len(), 2);
    change(&mut world, DnssecPolicy { goal: SigningGoal::Insecure, ..split.clone() });
    world.run(120, Some(2));
    assert!(world.ds.is_empty() && !is_signed(&world.zone));
    assert!(rdatas_at_apex(&world.zone, Type::DNSKEY).is_empty());
    change(&mut world, split);
    world.run(150, Some(2));
    assert!(!world.ds.is_empty() && is_signed(&world.zone));
}

/// New keys in place of lost ones would make the zone bogus for each validator that follows the parent's DS.
#[test]
fn a_zone_whose_keys_are_lost_keeps_its_signatures_and_gets_no_new_keys() {
    let mut world = World::new(policy(), 6);
    world.run(10, Some(1));
    let (serial, keys) = (world.zone.serial(), world.state().join("keys"));
    let aside = world.state().join("aside");
    std::fs::rename(&keys, &aside).expect("moved");
    world.signer = None;
    let order = SignOrder::of(Arc::clone(&world.updates));
    let mut signer = world.signer();
    let fault = signer.maintain(&world.zone, &order, Serial(99), world.now).map(|_| ()).expect_err("a fault");
    assert!(matches!(fault, SigningFault::MissingKey { .. }), "{fault}");
    assert!(!keys.exists());
    std::fs::rename(&aside, &keys).expect("moved");
    world.run(30, Some(1));
    assert!(world.zone.serial().0 > serial.0);
}

/// A zone that is read whole from the database may be newer than the keys at hand.
#[test]
fn keys_that_the_database_does_not_have_yet_are_waited_for() {
    let mut world = World::new(policy(), 9);
    world.run(1, None);
    let order = SignOrder::of(Arc::clone(&world.updates));
    let signer = ZoneSigner::open_shared(Arc::default(), &apex(), Arc::clone(&world.rules), world.now);
    let mut signer = Box::new(signer.expect("a signer"));
    assert!(!signer.waits_for_keys(world.now));
    let later = |seconds| world.now.saturating_add(Duration::from_secs(seconds));
    for (seconds, waits) in [(0, true), (9, true), (10, false)] {
        let fault = signer.maintain(&world.zone, &order, Serial(99), later(seconds)).map(|_| ());
        assert!(matches!(fault, Err(SigningFault::MissingKey { .. })));
        assert_eq!(signer.waits_for_keys(later(seconds)), waits, "after {seconds} s");
        signer.outdated();
        signer = signer.with_keys(Arc::default(), later(seconds)).expect("a signer");
    }
}

/// A node that does not sign only looks, and is the one that renews what the node that signs should have.
#[test]
fn signatures_that_are_late_are_renewed_by_any_node() {
    let mut world = World::new(policy(), 8);
    world.run(1, None);
    let order = SignOrder::of(Arc::clone(&world.updates));
    let (mut signer, mut now) = (world.signer(), world.now);
    let refresh = world.rules.policy.signature_refresh;
    let late = signer.earliest.expect("an expiration").saturating_sub(refresh).saturating_add(refresh / 4);
    let mut looks = 0;
    let step = loop {
        signer.set_views(true, now);
        match signer.maintain(&world.zone, &order, Serial(99), now).expect("a look") {
            Maintenance::Nothing => (now, looks) = (signer.wake(), looks + 1),
            Maintenance::Step(step) => break step,
        }
        assert!(now <= late, "after {looks} looks");
    };
    assert_eq!((now, looks > 5), (late, true), "{looks} looks");
    (world.now, world.signer) = (now, Some(signer));
    world.take(step.zone, &step.change);
    world.run(40, None);
}

#[test]
fn commands_of_operators_are_carried_out_or_refused() {
    let mut world = World::new(policy(), 5);
    world.maintain(None);
    let key = world.signer.as_ref().expect("a signer").status(None, world.now).keys[0].id;
    let roll = || Some(SignCommand::Roll(RollTarget::Key(key)));
    let early = world.maintain(roll()).expect("a reply");
    assert!(early.is_err(), "{early:?}");
    world.run(10, Some(1));
    assert!(world.maintain(roll()).expect("a reply").is_ok());
    world.run(40, Some(1));
    let keys = world.signer.as_ref().expect("a signer").status(None, world.now).keys;
    assert!(keys.iter().any(|other| other.id != key && other.state.ds.is_omnipresent()), "{keys:?}");
    // All signatures are made again at once.
    let before = world.signer.as_ref().map(|signer| signer.made).unwrap_or_default();
    world.now = world.now.saturating_add(Duration::from_secs(7200));
    assert!(world.maintain(Some(SignCommand::Renew)).expect("a reply").is_ok());
    let made = |world: &World| world.signer.as_ref().map(|signer| signer.made).unwrap_or_default() - before;
    // Once: also those that end first by their share of the jitter are not made again.
    let mut once = 0;
    for round in 0..20 {
        world.now = world.now.saturating_add(Duration::from_secs(1));
        world.maintain(None);
        if round == 10 {
            once = made(&world);
        }
    }
    assert!(once >= 9 && made(&world) == once, "{once}");
    assert!(world.signer.as_ref().is_some_and(|signer| !signer.renew_all));
}

#[test]
fn all_signatures_are_made_again_once_whatever_the_jitter_is() {
    for jitter in [0, 3600] {
        let signature_jitter = Duration::from_secs(jitter);
        let mut world = World::new(DnssecPolicy { signature_jitter, ..DnssecPolicy::default() }, 6);
        (0..10).for_each(|_| drop(world.maintain(None)));
        let made = |world: &World| world.signer.as_ref().map(|signer| signer.made).unwrap_or_default();
        let before = made(&world);
        world.now = world.now.saturating_add(Duration::from_secs(7));
        assert!(world.maintain(Some(SignCommand::Renew)).expect("a reply").is_ok());
        (0..10).for_each(|_| drop(world.maintain(None)));
        let renewed = made(&world) - before;
        assert!(renewed >= 9, "{renewed}");
        for _ in 0..10 {
            world.now = world.now.saturating_add(Duration::from_secs(1));
            world.maintain(None);
        }
        assert_eq!(made(&world) - before, renewed, "jitter {jitter}");
    }
}

/// What the signer makes stays, and contents that make no zone are refused before anything is signed.
#[test]
fn edits_change_the_data_of_a_signed_zone_and_nothing_that_the_signer_makes() {
    let mut world = World::new(policy(), 8);
    (0..10).for_each(|_| drop(world.maintain(None)));
    let name = |text: &str| text.parse::<NameBuf>().expect("a name");
    let keys = rdatas_at_apex(&world.zone, Type::DNSKEY);
    let replace = |owner: &str, rtype, rdatas: Vec<Vec<u8>>| RrsetEdit {
        owner: name(owner),
        rtype,
        kind: RrsetEditKind::Replace { ttl: Ttl::from_secs(60), rdatas },
    };
    let (address, alias) = (vec![vec![192, 0, 2, 9]], vec![b"\x01x\0".to_vec()]);
    let other_key = [&[1, 0, 3, 8][..], &[7; 64]].concat();
    let all = [
        (replace("www.example.", Type::A, address.clone()), Ok(())),
        (replace("www.example.", Type::CNAME, alias), Err("CNAME")),
        (replace("example.", Type::CDS, Vec::new()), Err("type CDS are made by the signer")),
        (replace("example.", Type::NSEC, Vec::new()), Err("type NSEC are made by the signer")),
        (replace("example.", Type::DNSKEY, vec![other_key]), Err("not signed with the algorithm")),
        (replace("example.", Type::DNSKEY, Vec::new()), Ok(())),
        (replace("example.net.", Type::A, address), Err("not in the zone")),
    ];
    let by = ChangeAuthor::Program { token: "test".into(), address: std::net::Ipv4Addr::LOCALHOST.into() };
    let job = |(edit, _): &(RrsetEdit, _)| {
        let edit = ZoneEdit { edits: vec![edit.clone()], at_serial: None, by: by.clone() };
        let (reply, rules) = (Box::new(|_| ()), Arc::clone(&world.updates));
        ChangeJob::Edit(Box::new(EditOrder { edit, rules, reply, _waiting: None }))
    };
    let jobs: Vec<ChangeJob> = all.iter().map(job).collect();
    let mut signer = world.signer.take().expect("a signer");
    let course = Course::of(&world.zone, &jobs, Some(&mut signer), world.now).expect("a course");
    for ((edit, expected), decided) in all.iter().zip(&course.decided) {
        match (expected, decided) {
            (Ok(()), Decided::Edit(Ok(Some(_)))) => {}
            (Err(reason), Decided::Edit(Err(fault))) => {
                assert!(fault.to_string().contains(reason), "{edit:?}: {fault}");
                assert!(!matches!(fault, EditFault::NotKept(_)), "{edit:?}: {fault}");
            }
            (_, decided) => panic!("{edit:?}: {:?}", decided.change()),
        }
    }
    let zone = course.zone;
    assert_eq!(rdatas_at_apex(&zone, Type::DNSKEY), keys);
    world.signer = Some(signer);
    assert_eq!(zone.serial().0, world.zone.serial().0 + 2);
    let change = zone::store::diff(&world.zone, &zone);
    world.take(zone, &change);
}
