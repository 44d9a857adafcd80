//! Rollovers step by step: the timelines of RFC 7583, and what happens at bad moments.

use std::time::Duration;

use wire::rdata::view::SigAlgorithm;
use wire::{Ttl, UnixTime};

use super::*;
use crate::keyset::KeyUse;
use crate::policy::{DnssecPolicy, KeyAlgorithm, KeyLayout, SigningGoal};

/// Delays that are distinct in each sum: TTLs of hours, others of minutes.
fn policy() -> DnssecPolicy {
    DnssecPolicy {
        layout: KeyLayout::Split,
        dnskey_ttl: Ttl::from_secs(3_600),
        publish_safety: Duration::from_secs(60),
        retire_safety: Duration::from_secs(120),
        zone_propagation_delay: Duration::from_secs(600),
        parent_propagation_delay: Duration::from_secs(900),
        parent_ds_ttl: Ttl::from_secs(36_000),
        ..DnssecPolicy::default()
    }
}

const START: u64 = 1_767_225_600;
/// TTL of the data.
const DATA: u32 = 7_200;
/// Propagation, TTL and safety of RFC 7583's intervals.
const DNSKEY_COMES: u64 = 600 + 3_600 + 60;
const DNSKEY_GOES: u64 = 600 + 3_600 + 120;
const SIGNATURES_COME: u64 = 600 + DATA as u64 + 60;
const SIGNATURES_GO: u64 = 600 + DATA as u64 + 120;
const DS_COMES: u64 = 900 + 36_000 + 60;
const DS_GOES: u64 = 900 + 36_000 + 120;

/// A zone whose plans are carried out at once.
struct Zone {
    ring: Keyring,
    policy: DnssecPolicy,
    facts: Facts,
    plan: KeyPlan,
    next_tag: u16,
}

impl Zone {
    fn new(policy: DnssecPolicy) -> Zone {
        let facts = Facts {
            now: UnixTime::from_secs(START),
            largest_ttl: Ttl::from_secs(DATA),
            parent: Some(ParentView { ds_ttl: Ttl::from_secs(36_000), ..ParentView::default() }),
            ..Facts::default()
        };
        Zone { ring: Keyring::default(), policy, facts, plan: KeyPlan::default(), next_tag: 1 }
    }

    /// Steps at this time until nothing changes, and takes what the plan says in service.
    fn at(&mut self, seconds: u64) -> &mut Zone {
        self.facts.now = UnixTime::from_secs(START + seconds);
        if let Some(view) = &mut self.facts.parent {
            view.checked = self.facts.now;
        }
        for _ in 0..8 {
            self.plan = self.ring.step(&self.policy, &self.facts);
            for new in self.plan.generate.clone() {
                let id = KeyId { algorithm: new.algorithm, tag: self.next_tag };
                self.next_tag += 1;
                self.ring.add(&new, id, Vec::new(), 256, self.facts.now);
            }
            if self.plan.generate.is_empty() {
                self.serve();
            }
        }
        self
    }

    /// Steps each time when something is due, until this time.
    fn until(&mut self, seconds: u64) -> &mut Zone {
        let end = UnixTime::from_secs(START + seconds);
        while let Some(wake) = self.plan.wake.filter(|wake| *wake < end) {
            self.at(wake.as_secs().max(self.facts.now.as_secs() + 1) - START);
        }
        self.at(seconds)
    }

    fn serve(&mut self) {
        let ids = |is: fn(&KeyUse) -> bool| {
            self.plan.uses.iter().filter(|(_, used)| is(used)).map(|(id, _)| *id).collect::<Vec<_>>()
        };
        self.facts.published = ids(|used| used.publish);
        self.facts.dnskey_ttl = match self.facts.published.is_empty() {
            true => Ttl::ZERO,
            false => self.policy.dnskey_ttl,
        };
        self.facts.key_signers = ids(|used| used.sign_keys);
        self.facts.complete = ids(|used| used.sign_zone);
        self.facts.present = self.facts.complete.clone();
        self.facts.cds = ids(|used| used.sync);
    }

    /// The parent does what CDS says.
    fn parent_follows(&mut self) {
        let cds = self.facts.cds.clone();
        if let Some(view) = &mut self.facts.parent {
            view.everywhere.clone_from(&cds);
            view.somewhere = cds;
        }
    }

    fn states(&self, tag: u16) -> [RecordState; 4] {
        let key = self.ring.keys().iter().find(|key| key.id.tag == tag).expect("a key");
        key.state.tracks().map(|track| track.state)
    }

    fn used(&self, tag: u16) -> KeyUse {
        let found = self.plan.uses.iter().find(|(id, _)| id.tag == tag);
        found.map(|(_, used)| *used).unwrap_or_default()
    }

    fn causes(&self) -> Vec<(Option<u16>, WaitCause)> {
        self.plan.waits.iter().map(|wait| (wait.key.map(|key| key.tag), wait.cause)).collect()
    }

    /// A zone with DS, whose keys are in all caches, and the time of that.
    fn secure(policy: DnssecPolicy) -> (Zone, u64) {
        let mut zone = Zone::new(policy);
        let ready = DNSKEY_COMES.max(SIGNATURES_COME);
        zone.at(0).until(ready).parent_follows();
        let from = ready + 10;
        zone.at(from).until(from + DS_COMES);
        (zone, from + DS_COMES)
    }
}

const H: RecordState = RecordState::Hidden;
const R: RecordState = RecordState::Rumoured;
const O: RecordState = RecordState::Omnipresent;
const U: RecordState = RecordState::Unretentive;

fn id(tag: u16) -> KeyId {
    KeyId { algorithm: SigAlgorithm::ECDSAP256SHA256, tag }
}

/// RFC 7583 §3.3.4 of the first key: DS comes when DNSKEY records and signatures are in all caches.
#[test]
fn the_first_ds_waits_for_signatures_in_all_caches() {
    let mut zone = Zone::new(policy());
    zone.at(0);
    assert_eq!(zone.used(1), KeyUse { publish: true, sign_keys: true, ..KeyUse::default() });
    assert_eq!(zone.used(2), KeyUse { publish: true, sign_zone: true, ..KeyUse::default() });
    assert_eq!([zone.states(1), zone.states(2)], [[R, H, R, H], [R, R, H, H]]);
    zone.until(SIGNATURES_COME - 1);
    assert_eq!([zone.states(1), zone.states(2)], [[O, H, O, H], [O, R, H, H]]);
    assert!(zone.facts.cds.is_empty(), "no CDS before");
    zone.at(SIGNATURES_COME);
    assert_eq!([zone.states(1), zone.states(2)], [[O, H, O, R], [O, O, H, H]]);
    assert!(zone.used(1).sync);
    assert!(zone.causes().contains(&(Some(1), WaitCause::ParentPublishes)));
    // A parent of which one server has the DS is waited for.
    zone.facts.parent.as_mut().expect("a view").somewhere = vec![id(1)];
    zone.until(10 * DS_COMES);
    assert_eq!(zone.states(1), [O, H, O, R]);
    zone.parent_follows();
    let seen = 10 * DS_COMES + 5;
    zone.at(seen).at(seen + DS_COMES - 1);
    assert_eq!(zone.states(1), [O, H, O, R]);
    zone.at(seen + DS_COMES);
    assert_eq!(zone.states(1), [O, H, O, O]);
    assert_eq!((zone.plan.wake, &*zone.plan.waits), (None, &[][..]));
}

/// RFC 7583 §3.2.1: Ipub, then the signatures are replaced, Iret, then the old DNSKEY record goes.
#[test]
fn a_zsk_is_published_before_it_signs() {
    let lifetime = Duration::from_secs(30 * 86_400);
    let (mut zone, _) = Zone::secure(DnssecPolicy { zsk_lifetime: Some(lifetime), ..policy() });
    let start = lifetime.as_secs() - DNSKEY_COMES;
    zone.until(start - 1);
    assert_eq!(zone.ring.keys().len(), 2);
    zone.at(start);
    assert_eq!([zone.states(2), zone.states(3)], [[O, O, H, H], [R, H, H, H]]);
    assert_eq!(zone.used(3), KeyUse { publish: true, ..KeyUse::default() });
    let new = &zone.ring.key(id(3)).expect("a key").state;
    assert_eq!((new.predecessor, new.role), (Some(id(2)), KeyPurpose::Zsk));
    zone.until(lifetime.as_secs() - 1);
    assert!(zone.used(2).sign_zone && !zone.used(3).sign_zone);
    zone.at(lifetime.as_secs());
    assert!(!zone.used(2).sign_zone && zone.used(2).publish && zone.used(3).sign_zone);
    assert_eq!([zone.states(2), zone.states(3)], [[O, U, H, H], [O, R, H, H]]);
    let gone = lifetime.as_secs() + SIGNATURES_GO;
    zone.until(gone - 1);
    assert!(zone.used(2).publish);
    zone.at(gone);
    assert!(!zone.used(2).publish);
    assert_eq!([zone.states(2), zone.states(3)], [[U, H, H, H], [O, O, H, H]]);
    zone.until(gone + DNSKEY_GOES);
    assert_eq!(zone.states(2), [H, H, H, H]);
    let kept = policy().purge_keys.expect("a time").as_secs();
    zone.until(gone + DNSKEY_GOES + kept - 1);
    assert_eq!(zone.plan.purge, []);
    zone.at(gone + DNSKEY_GOES + kept);
    assert_eq!(zone.plan.purge, [id(2)]);
}

/// RFC 7583 §3.3.1, double-KSK: the new key is in all caches before DS changes, the old one stays until no
/// cache has its DS.
#[test]
fn a_ksk_stays_until_no_cache_has_its_ds() {
    let (mut zone, from) = Zone::secure(policy());
    assert_eq!(zone.ring.roll(&zone.policy, RollTarget::Role(KeyPurpose::Ksk), &zone.facts), Ok(id(1)));
    zone.at(from + 10);
    assert_eq!([zone.states(1), zone.states(3)], [[O, H, O, O], [R, H, R, H]]);
    assert!(zone.used(1).sync && !zone.used(3).sync, "the old CDS stays until the new one comes");
    let again = zone.ring.roll(&zone.policy, RollTarget::Role(KeyPurpose::Ksk), &zone.facts);
    let earliest = zone.facts.now.saturating_add(Duration::from_secs(DNSKEY_COMES));
    assert_eq!(again, Err(RollFault::NotEstablished(id(3), WaitCause::DnskeyCaches, Some(earliest))));
    assert_eq!(
        zone.ring.roll(&zone.policy, RollTarget::Key(id(1)), &zone.facts),
        Err(RollFault::Rolling(Some(id(3))))
    );
    let published = from + 10 + DNSKEY_COMES;
    zone.until(published);
    assert_eq!([zone.states(1), zone.states(3)], [[O, H, O, U], [O, H, O, R]]);
    assert!(!zone.used(1).sync && zone.used(3).sync);
    assert!(zone.causes().contains(&(Some(1), WaitCause::ParentWithdraws)));
    zone.until(published + 100_000);
    assert!(zone.used(1).publish && zone.used(1).sign_keys, "the parent has done nothing");
    zone.parent_follows();
    let swapped = published + 200_000;
    zone.at(swapped).until(swapped + DS_GOES - 1);
    assert_eq!([zone.states(1), zone.states(3)], [[O, H, O, U], [O, H, O, O]]);
    zone.at(swapped + DS_GOES);
    assert_eq!([zone.states(1), zone.states(3)], [[U, H, U, H], [O, H, O, O]]);
}

/// RFC 6781 §4.1.4: signatures come first, then DNSKEY records, then DS; they go in the reverse order.
#[test]
fn signatures_of_a_new_algorithm_come_first_and_go_last() {
    let (mut zone, from) = Zone::secure(DnssecPolicy { layout: KeyLayout::Combined, ..policy() });
    let ed25519 = KeyAlgorithm { algorithm: SigAlgorithm::ED25519, bits: 0 };
    (zone.policy.ksk, zone.policy.zsk) = (ed25519, ed25519);
    let from = from + 10;
    zone.at(from);
    assert_eq!([zone.states(1), zone.states(2)], [[O, O, O, O], [H, R, H, H]]);
    zone.until(from + SIGNATURES_COME);
    assert_eq!([zone.states(1), zone.states(2)], [[O, O, O, O], [R, O, R, H]]);
    let published = from + SIGNATURES_COME + DNSKEY_COMES;
    zone.until(published);
    assert_eq!([zone.states(1), zone.states(2)], [[O, O, O, U], [O, O, O, R]]);
    zone.parent_follows();
    let swapped = published + 10_000;
    zone.at(swapped).until(swapped + DS_GOES);
    assert_eq!([zone.states(1), zone.states(2)], [[U, O, U, H], [O, O, O, O]]);
    assert!(zone.used(1).sign_zone);
    zone.until(swapped + DS_GOES + DNSKEY_GOES);
    assert_eq!([zone.states(1), zone.states(2)], [[H, U, H, H], [O, O, O, O]]);
}

#[test]
fn a_combined_key_is_split() {
    let (mut zone, from) = Zone::secure(DnssecPolicy { layout: KeyLayout::Combined, ..policy() });
    zone.policy.layout = KeyLayout::Split;
    zone.until(from + 10).until(from + 10 + DNSKEY_COMES);
    assert_eq!([1, 2, 3].map(|tag| zone.states(tag)), [[O, U, O, U], [O, H, O, R], [O, R, H, H]]);
    zone.parent_follows();
    let later = from + 10 + DNSKEY_COMES + 10_000;
    zone.at(later).until(later + DS_GOES + DNSKEY_GOES);
    assert_eq!([1, 2, 3].map(|tag| zone.states(tag)), [[H, H, H, H], [O, H, O, O], [O, O, H, H]]);
}

/// RFC 8078 §4: the parent deletes DS, and the zone is signed until no cache has it.
#[test]
fn an_insecure_zone_loses_its_ds_first() {
    let (mut zone, from) = Zone::secure(policy());
    zone.policy.goal = SigningGoal::Insecure;
    zone.at(from + 10);
    assert!(zone.plan.cds_delete && !zone.plan.unsign && zone.facts.cds.is_empty());
    assert!(zone.used(1).publish && zone.used(2).sign_zone);
    assert_eq!(
        zone.ring.roll(&zone.policy, RollTarget::Role(KeyPurpose::Zsk), &zone.facts),
        Err(RollFault::Unsigned)
    );
    zone.parent_follows();
    zone.facts.parent.as_mut().expect("a view").any_other_ds = true;
    let gone = from + 100_000;
    zone.at(gone).until(gone + DS_GOES);
    assert!(!zone.plan.unsign && zone.causes().contains(&(None, WaitCause::OtherDs)));
    zone.facts.parent.as_mut().expect("a view").any_other_ds = false;
    zone.at(gone + DS_GOES + 1);
    assert!(zone.plan.unsign && !zone.plan.cds_delete && zone.facts.published.is_empty());
}

#[test]
fn keys_of_others_keep_the_zone_and_their_algorithm_signed() {
    let (mut zone, from) = Zone::secure(policy());
    zone.facts.foreign = vec![SigAlgorithm::ECDSAP256SHA256];
    zone.policy.goal = SigningGoal::Insecure;
    zone.parent_follows();
    zone.facts.parent.as_mut().expect("a view").everywhere.clear();
    zone.facts.parent.as_mut().expect("a view").somewhere.clear();
    zone.until(from + 10 * DS_GOES);
    assert!(!zone.plan.unsign && !zone.plan.cds_delete);
    assert!(zone.causes().contains(&(None, WaitCause::ForeignKeys)));
}

#[test]
fn an_operator_may_say_what_the_parent_has() {
    let mut zone = Zone::new(policy());
    zone.facts.parent = None;
    zone.at(0).until(2 * SIGNATURES_COME);
    assert_eq!(zone.states(1), [O, H, O, R]);
    assert_eq!(zone.ring.ds_published(id(2), zone.facts.now), Err(RollFault::NoDs));
    assert_eq!(zone.ring.ds_published(id(9), zone.facts.now), Err(RollFault::NoKey));
    assert_eq!(zone.ring.ds_published(id(1), zone.facts.now), Ok(()));
    let said = 2 * SIGNATURES_COME;
    zone.until(said + DS_COMES - 1);
    assert_eq!(zone.states(1), [O, H, O, R]);
    zone.at(said + DS_COMES);
    assert_eq!(zone.states(1), [O, H, O, O]);
    assert_eq!(zone.ring.ds_withdrawn(id(1), zone.facts.now), Err(RollFault::DsNeeded));
}

#[test]
fn a_retired_key_needs_another_one() {
    let (mut zone, from) = Zone::secure(policy());
    assert_eq!(zone.ring.retire(&zone.policy, id(2), &zone.facts), Err(RollFault::NoSuccessor));
    zone.ring.roll(&zone.policy, RollTarget::Key(id(2)), &zone.facts).expect("a rollover");
    zone.at(from + 1);
    assert_eq!(zone.ring.retire(&zone.policy, id(2), &zone.facts), Err(RollFault::Rolling(Some(id(3)))));
    let earliest = zone.facts.now.saturating_add(Duration::from_secs(DNSKEY_COMES));
    assert_eq!(
        zone.ring.roll(&zone.policy, RollTarget::Role(KeyPurpose::Zsk), &zone.facts),
        Err(RollFault::NotEstablished(id(3), WaitCause::DnskeyCaches, Some(earliest)))
    );
}

#[test]
fn states_do_not_claim_what_the_zone_lacks() {
    let (mut zone, from) = Zone::secure(policy());
    // A backup of the zone came back, without the DNSKEY of the ZSK, and with signatures of half of it.
    zone.facts.now = UnixTime::from_secs(START + from + 10);
    zone.facts.published = vec![id(1)];
    zone.facts.complete.clear();
    let plan = zone.ring.step(&zone.policy, &zone.facts);
    assert_eq!(zone.states(2), [U, R, H, H]);
    assert!(plan.changed.contains(&id(2)) && plan.use_of(id(2)).publish && plan.use_of(id(2)).sign_zone);
    // What states call hidden, and is there, is waited for.
    let mut ring = Keyring::new(vec![ManagedKey {
        id: id(1),
        dnskey: Vec::new(),
        state: KeyState::new(KeyPurpose::Csk, 256),
    }]);
    let here = vec![id(1)];
    let facts =
        Facts { published: here.clone(), key_signers: here.clone(), present: here, ..zone.facts.clone() };
    ring.step(&zone.policy, &facts);
    let state = &ring.key(id(1)).expect("a key").state;
    assert_eq!(state.tracks().map(|track| track.state), [R, R, R, R]);
    assert_eq!(state.zrrsig.since, None, "some RRsets lack the signature");
}

#[test]
fn a_lowered_ttl_counts_until_caches_have_lost_the_old_one() {
    let (mut zone, from) = Zone::secure(policy());
    zone.policy.dnskey_ttl = Ttl::from_secs(60);
    let lowered = from + 10;
    zone.at(lowered);
    zone.ring.roll(&zone.policy, RollTarget::Key(id(2)), &zone.facts).expect("a rollover");
    // A restart: states alone remember the TTL.
    zone.ring = Keyring::new(zone.ring.keys().to_vec());
    zone.at(lowered + 1).until(lowered + 600 + 3_600);
    assert_eq!(zone.states(3), [R, H, H, H]);
    zone.until(lowered + DNSKEY_COMES + 60);
    assert_eq!(zone.states(3)[0], O);
}

#[test]
fn the_timeline_has_the_events_that_will_be() {
    let lifetime = Duration::from_secs(30 * 86_400);
    let (mut zone, from) = Zone::secure(DnssecPolicy { zsk_lifetime: Some(lifetime), ..policy() });
    let events = zone.ring.timeline(&zone.policy, &zone.facts, None);
    let roll = UnixTime::from_secs(START + lifetime.as_secs() - DNSKEY_COMES);
    assert_eq!(events, [(roll, id(2), RolloverEvent::Roll)]);
    zone.until(lifetime.as_secs() - DNSKEY_COMES);
    let events = zone.ring.timeline(&zone.policy, &zone.facts, None);
    let at = |seconds: u64| UnixTime::from_secs(START + seconds);
    let signs = lifetime.as_secs();
    for event in [
        (at(signs), id(3), RolloverEvent::Sign),
        (at(signs), id(2), RolloverEvent::Retire),
        (at(signs + SIGNATURES_GO), id(2), RolloverEvent::Withdraw),
        (at(signs + SIGNATURES_GO + DNSKEY_GOES), id(2), RolloverEvent::Withdrawn),
    ] {
        assert!(events.contains(&event), "{event:?} in {events:?}");
    }
    assert!(from < signs);
}

#[test]
fn times_of_bind_make_states_that_wait() {
    use crate::key::times::{KeyEvent, KeyTimes};
    let now = UnixTime::from_secs(START);
    let mut times = KeyTimes::default();
    times.set(KeyEvent::Created, UnixTime::from_secs(START - 10));
    let new = KeyState::by_times(KeyPurpose::Ksk, 256, &times, now);
    assert!(new.is_unused());
    times.set(KeyEvent::Publish, UnixTime::from_secs(START - 10));
    times.set(KeyEvent::Activate, UnixTime::from_secs(START - 10));
    let states =
        |role, times: &KeyTimes| KeyState::by_times(role, 256, times, now).tracks().map(|track| track.state);
    assert_eq!(states(KeyPurpose::Ksk, &times), [R, H, R, R]);
    assert_eq!(states(KeyPurpose::Zsk, &times), [R, R, H, H]);
    assert_eq!(states(KeyPurpose::Csk, &KeyTimes::default()), [R, R, R, R]);
    times.set(KeyEvent::Inactive, now);
    assert_eq!(states(KeyPurpose::Csk, &times), [R, U, U, U]);
    assert_eq!(KeyState::by_times(KeyPurpose::Csk, 256, &times, now).goal, KeyGoal::Hidden);
}

#[test]
fn a_time_of_a_wrong_clock_does_not_stop_a_rollover() {
    let (mut zone, from) = Zone::secure(policy());
    zone.ring.roll(&zone.policy, RollTarget::Key(id(2)), &zone.facts).expect("a rollover");
    let year = 365 * 86_400;
    zone.at(from + year);
    assert_eq!(zone.states(3), [R, H, H, H]);
    // The clock was a year ahead.
    zone.at(from + 10).until(from + 10 + DNSKEY_COMES);
    assert_eq!(zone.states(3), [O, R, H, H]);
}

#[test]
fn a_key_of_bind_in_mid_roll_goes_on() {
    // As `named` writes it for a KSK that is seen by caches, and whose DS the parent was seen to have.
    let text = "; This is the state of key 1, for example.com.
Algorithm: 13
Length: 256
Lifetime: 0
KSK: yes
ZSK: no
Generated: 20251201000000 (Mon Dec  1 00:00:00 2025)
Published: 20251201000000 (Mon Dec  1 00:00:00 2025)
Active: 20251201000000 (Mon Dec  1 00:00:00 2025)
DSPublish: 20251231235000 (Wed Dec 31 23:50:00 2025)
PublishCDS: 20251202000000 (Tue Dec  2 00:00:00 2025)
DNSKEYChange: 20251202000000 (Tue Dec  2 00:00:00 2025)
KRRSIGChange: 20251202000000 (Tue Dec  2 00:00:00 2025)
DSChange: 20251202000000 (Tue Dec  2 00:00:00 2025)
DNSKEYState: omnipresent
KRRSIGState: omnipresent
DSState: rumoured
GoalState: omnipresent
";
    let state = text::StateText::parse(text).expect("a state").state;
    let mut zone = Zone::new(policy());
    zone.ring = Keyring::new(vec![ManagedKey { id: id(1), dnskey: Vec::new(), state }]);
    zone.facts.parent = None;
    zone.facts.published = vec![id(1)];
    zone.facts.key_signers = vec![id(1)];
    let plan = zone.ring.step(&zone.policy, &zone.facts);
    assert_eq!(zone.states(1), [O, H, O, R]);
    assert_eq!(plan.wake, Some(UnixTime::from_secs(START - 600 + DS_COMES)));
    assert_eq!(plan.generate.iter().map(|new| new.role).collect::<Vec<_>>(), [KeyPurpose::Zsk]);
    zone.next_tag = 2;
    zone.at(DS_COMES);
    assert_eq!(zone.states(1), [O, H, O, O]);
}

#[test]
fn keys_that_were_generated_before_a_crash_are_used() {
    let (mut zone, from) = Zone::secure(policy());
    // Two keys without `.state` file, one of each purpose.
    for (tag, role) in [(8, KeyPurpose::Ksk), (9, KeyPurpose::Zsk)] {
        let state = KeyState::new(role, 256);
        zone.ring.keys.push(ManagedKey { id: id(tag), dnskey: Vec::new(), state });
    }
    zone.at(from + 10);
    assert_eq!([zone.used(8), zone.used(9)], [KeyUse::default(); 2], "kept for later");
    for role in [KeyPurpose::Ksk, KeyPurpose::Zsk] {
        zone.ring.roll(&zone.policy, RollTarget::Role(role), &zone.facts).expect("a rollover");
    }
    zone.at(from + 20);
    assert!(zone.used(8).publish && zone.used(9).publish && zone.ring.keys().len() == 4);
    assert_eq!(zone.ring.key(id(9)).expect("a key").state.predecessor, Some(id(2)));
}

/// The policy with standby keys of both roles.
fn with_standby() -> DnssecPolicy {
    DnssecPolicy { standby_ksk: true, standby_zsk: true, ..policy() }
}

/// Returns a zone whose standby keys, 3 and 4, can take over, and the time of that.
fn on_standby() -> (Zone, u64) {
    let (mut zone, from) = Zone::secure(with_standby());
    assert_eq!([zone.states(3), zone.states(4)], [[O, H, H, R], [O, H, H, H]], "DNSKEY, then DS");
    let ksk = RollTarget::Role(KeyPurpose::Ksk);
    let early = zone.ring.roll_at_once(&zone.policy, ksk, &zone.facts);
    assert_eq!(early, Err(RollFault::StandbyNotReady(id(3), WaitCause::ParentPublishes, None)));
    assert!(zone.used(1).sync && zone.used(3).sync);
    zone.parent_follows();
    zone.at(from + 10).until(from + 10 + DS_COMES);
    assert_eq!([zone.states(3), zone.states(4)], [[O, H, H, O], [O, H, H, H]]);
    for tag in [3, 4] {
        let used = zone.used(tag);
        assert!(used.publish && !used.sign_keys && !used.sign_zone, "{tag}: {used:?}");
    }
    (zone, from + 10 + DS_COMES)
}

#[test]
fn a_standby_ksk_takes_over_at_once() {
    let (mut zone, from) = on_standby();
    let ksk = RollTarget::Role(KeyPurpose::Ksk);
    assert_eq!(zone.ring.roll_at_once(&zone.policy, ksk, &zone.facts), Ok((id(1), id(3))));
    zone.at(from);
    // The DNSKEY RRset is signed by the key whose DS record is in all caches, and by the old key no more.
    assert!(zone.used(3).sign_keys && !zone.used(1).sign_keys && zone.used(1).publish);
    assert_eq!([zone.states(1), zone.states(3)], [[O, H, U, O], [O, H, R, O]]);
    // Caches have a DNSKEY RRset that the old key alone has signed, to which its DS record leads.
    assert!(zone.used(1).sync && zone.used(3).sync);
    let new = zone.ring.key(id(5)).expect("another standby key");
    assert!(new.state.is_standby() && new.state.role == KeyPurpose::Ksk);
    zone.until(from + DNSKEY_COMES - 1);
    assert!(zone.used(1).sync, "as long as caches may have it");
    zone.at(from + DNSKEY_COMES);
    assert!(!zone.used(1).sync && zone.used(3).sync);
    zone.until(from + DNSKEY_GOES - 1);
    assert!(zone.used(1).publish, "caches may have CDS records with its signature");
    zone.at(from + DNSKEY_GOES);
    assert!(!zone.used(1).publish);
    zone.parent_follows();
    zone.at(from + DNSKEY_COMES + 100).until(from + 3 * DS_COMES);
    zone.parent_follows();
    zone.at(from + 3 * DS_COMES + 10).until(from + 6 * DS_COMES);
    assert_eq!([zone.states(1), zone.states(3), zone.states(5)], [[H; 4], [O, H, O, O], [O, H, H, O]]);
    assert!(zone.ring.key(id(5)).expect("a key").state.can_take_over());
    let standby = zone.ring.roll_at_once(&zone.policy, RollTarget::Key(id(5)), &zone.facts);
    assert_eq!(standby, Err(RollFault::IsStandby));
}

#[test]
fn a_standby_zsk_takes_over_at_once() {
    let (mut zone, from) = on_standby();
    let zsk = RollTarget::Role(KeyPurpose::Zsk);
    assert_eq!(zone.ring.roll_at_once(&zone.policy, zsk, &zone.facts), Ok((id(2), id(4))));
    zone.at(from);
    assert!(zone.used(4).sign_zone && !zone.used(2).sign_zone && zone.used(2).publish);
    assert!(zone.ring.key(id(5)).is_some_and(|key| key.state.is_standby()), "another standby key");
    zone.until(from + SIGNATURES_GO);
    assert!(!zone.used(2).publish);
    let again = zone.ring.roll_at_once(&zone.policy, zsk, &zone.facts);
    assert_eq!(again, Ok((id(4), id(5))), "the next one is ready as well");
}

#[test]
fn without_a_standby_key_nothing_takes_over_at_once() {
    let (mut zone, _) = Zone::secure(policy());
    for role in [KeyPurpose::Ksk, KeyPurpose::Zsk] {
        let refused = zone.ring.roll_at_once(&zone.policy, RollTarget::Role(role), &zone.facts);
        assert_eq!(refused, Err(RollFault::NoStandby));
    }
}

/// A DS record of a standby key alone would lead nowhere: an operator may remove the old record first.
#[test]
fn the_old_ds_stays_until_the_new_one_is_in_all_caches_beside_that_of_a_standby_key() {
    let (mut zone, from) = on_standby();
    let ksk = RollTarget::Role(KeyPurpose::Ksk);
    assert_eq!(zone.ring.roll(&zone.policy, ksk, &zone.facts), Ok(id(1)));
    zone.at(from).until(from + DNSKEY_COMES);
    assert!([1, 3, 5].iter().all(|tag| zone.used(*tag).sync), "all three");
    zone.parent_follows();
    zone.at(from + DNSKEY_COMES + 10).until(from + DNSKEY_COMES + 10 + DS_COMES);
    assert!(!zone.used(1).sync && zone.used(3).sync && zone.used(5).sync);
    assert!(zone.ring.key(id(3)).expect("a key").state.is_standby(), "it stays what it is");
}

#[test]
fn a_standby_key_that_the_policy_no_longer_wants_goes() {
    let (mut zone, from) = on_standby();
    zone.policy = policy();
    zone.at(from + 1);
    assert!(!zone.used(3).sync && !zone.used(4).publish && zone.used(3).publish);
    zone.parent_follows();
    // Once the parent cannot find the old CDS records any more.
    zone.at(from + 10_000).until(from + 10_000 + 2 * DS_GOES);
    assert_eq!([zone.states(3), zone.states(4)], [[H; 4], [H; 4]]);
    assert_eq!([zone.states(1), zone.states(2)], [[O, H, O, O], [O, O, H, H]]);
}
