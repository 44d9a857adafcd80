//! Trust anchors that follow their zone (RFC 5011), through all states, on virtual time.

use std::collections::BTreeSet;

use proptest::prelude::*;
use testkit::keys::{SigningKey, Validity};
use validator::{
    AnchorChange, AnchorEvent, AnchorState, BogusReason, ReceivedSet, ReceivedSignature, Response,
    TrustAnchors, TrustPoints, ValidationSettings,
};
use wire::message::Section;
use wire::{Class, Name, NameBuf, Rcode, Ttl, Type, UnixTime};

const START: u64 = 1_760_000_000;
const HOUR: u64 = 3600;
const DAY: u64 = 86_400;
const HOLD_DOWN: u64 = validator::HOLD_DOWN.as_secs();
/// The TTL of the root's keys, and the validity of new signatures.
const TTL: u32 = 172_800;
const GOOD_FOR: u64 = 14 * DAY;

fn key(number: u16) -> SigningKey {
    SigningKey::new(number, SigningKey::KSK)
}

/// The same key with REVOKE set.
fn revoked(number: u16) -> SigningKey {
    SigningKey::new(number, SigningKey::KSK | 0x80)
}

/// The root's DNSKEY RRset with these keys, signed by `signers` until `end`.
fn signed(keys: &[&SigningKey], signers: &[&SigningKey], ttl: u32, end: u64) -> Response {
    let mut rdatas: Vec<Vec<u8>> = keys.iter().map(|key| key.dnskey.clone()).collect();
    rdatas.sort_unstable();
    let at = |time: u64| u32::try_from(time).expect("before 2106");
    let ttl = Ttl::from_secs(ttl);
    let validity = Validity { inception: at(START - 400 * DAY), expiration: at(end) };
    let sign = |signer: &&SigningKey| {
        let record = signer.sign(Name::ROOT, NameBuf::ROOT, Type::DNSKEY, ttl, &rdatas, validity);
        ReceivedSignature { ttl, rdata: record.rdata }
    };
    let signatures = signers.iter().map(sign).collect();
    let (section, owner, rtype) = (Section::Answer, NameBuf::ROOT, Type::DNSKEY);
    let set = ReceivedSet { section, owner, rtype, ttl, rdatas, signatures };
    let (name, qclass, rcode) = (Name::ROOT.to_lower(), Class::IN, Rcode::NOERROR);
    Response { name, qtype: Type::DNSKEY, qclass, rcode, sets: vec![set] }
}

/// These keys as anchors of the root.
fn anchors(keys: &[u16]) -> TrustAnchors {
    let mut anchors = TrustAnchors::none();
    keys.iter()
        .for_each(|&number| anchors.add_ds(Name::ROOT, &key(number).ds(Name::ROOT)).expect("an anchor"));
    anchors
}

/// A resolver that follows the root's anchors.
struct Follower {
    points: TrustPoints,
    configured: TrustAnchors,
    now: u64,
}

impl Follower {
    /// Creates a follower with these configured keys.
    fn new(configured: &[u16]) -> Self {
        let (mut points, configured) = (TrustPoints::default(), anchors(configured));
        points.follow(&configured, |_| true);
        Follower { points, configured, now: START }
    }

    /// Changes the configured keys.
    fn reconfigure(&mut self, configured: &[u16]) {
        self.configured = anchors(configured);
        self.points.follow(&self.configured, |_| true);
    }

    /// Processes the root's keys, signed by some of them.
    fn sees(&mut self, keys: &[&SigningKey], signers: &[&SigningKey]) -> Vec<(u16, AnchorEvent)> {
        let (fault, changes) = self.takes(&signed(keys, signers, TTL, self.now + GOOD_FOR));
        assert_eq!(fault, None);
        changes
    }

    fn takes(&mut self, response: &Response) -> (Option<BogusReason>, Vec<(u16, AnchorEvent)>) {
        let settings = ValidationSettings::default();
        let report = self.points.receive(Name::ROOT, response, &settings, self.unix());
        let change = |AnchorChange { zone, tag, event }: AnchorChange| {
            assert_eq!(zone, NameBuf::ROOT);
            (tag, event)
        };
        (report.fault, report.changes.into_iter().map(change).collect())
    }

    fn unix(&self) -> UnixTime {
        UnixTime::from_secs(self.now)
    }

    fn after(&mut self, seconds: u64) -> &mut Self {
        self.now += seconds;
        self
    }

    /// Whether it trusts exactly these keys.
    fn trusts(&self, keys: &[u16]) -> bool {
        self.points.in_force(&self.configured) == anchors(keys)
    }

    fn state(&self, number: u16) -> Option<AnchorState> {
        let (_, root) = self.points.iter().next().expect("the root");
        root.keys().iter().find(|known| known.tag() == key(number).tag()).map(|key| key.state)
    }

    /// Seconds until the next query is due.
    fn wait(&self) -> u64 {
        self.points.wait(self.unix()).expect("a zone is followed").as_secs()
    }
}

#[test]
fn a_new_key_is_trusted_after_thirty_days_and_not_a_second_before() {
    let mut it = Follower::new(&[1]);
    let (old, new) = (key(1), key(2));
    let until = UnixTime::from_secs(START + HOLD_DOWN);
    let all = [(old.tag(), AnchorEvent::Found), (new.tag(), AnchorEvent::Appeared(until))];
    let seen: BTreeSet<String> =
        it.sees(&[&old, &new], &[&old]).iter().map(|change| format!("{change:?}")).collect();
    assert_eq!(seen, all.iter().map(|change| format!("{change:?}")).collect());
    it.after(HOLD_DOWN - 1);
    assert_eq!(it.sees(&[&old, &new], &[&old]), []);
    assert!(it.trusts(&[1]));
    assert_eq!(it.after(1).sees(&[&old, &new], &[&old]), [(new.tag(), AnchorEvent::Accepted)]);
    assert!(it.trusts(&[1, 2]));
    // From now on the new key suffices.
    assert_eq!(it.after(DAY).sees(&[&new], &[&new]), [(old.tag(), AnchorEvent::Missed)]);
}

#[test]
fn time_alone_makes_no_anchor() {
    let mut it = Follower::new(&[1]);
    it.sees(&[&key(1), &key(2)], &[&key(1)]);
    it.after(100 * DAY);
    assert_eq!(it.state(2), Some(AnchorState::Pending { until: UnixTime::from_secs(START + HOLD_DOWN) }));
    assert!(it.trusts(&[1]));
}

#[test]
fn a_key_that_is_gone_in_between_begins_anew() {
    let mut it = Follower::new(&[1]);
    let (old, new) = (key(1), key(2));
    it.sees(&[&old, &new], &[&old]);
    assert_eq!(it.after(20 * DAY).sees(&[&old], &[&old]), [(new.tag(), AnchorEvent::Withdrawn)]);
    assert_eq!(it.state(2), None);
    let until = UnixTime::from_secs(START + 21 * DAY + HOLD_DOWN);
    assert_eq!(it.after(DAY).sees(&[&old, &new], &[&old]), [(new.tag(), AnchorEvent::Appeared(until))]);
    assert_eq!(it.after(HOLD_DOWN - 1).sees(&[&old, &new], &[&old]), []);
    assert_eq!(it.after(1).sees(&[&old, &new], &[&old]), [(new.tag(), AnchorEvent::Accepted)]);
}

#[test]
fn a_long_ttl_makes_the_hold_down_longer() {
    let mut it = Follower::new(&[1]);
    let ttl = 40 * 86_400;
    it.takes(&signed(&[&key(1), &key(2)], &[&key(1)], ttl, it.now + GOOD_FOR));
    assert_eq!(
        it.state(2),
        Some(AnchorState::Pending { until: UnixTime::from_secs(START + u64::from(ttl)) })
    );
}

#[test]
fn a_key_seen_only_in_a_bogus_answer_does_nothing() {
    let mut it = Follower::new(&[1]);
    let (old, new, other) = (key(1), key(2), key(3));
    it.sees(&[&old], &[&old]);
    let before = it.points.to_string();
    let end = it.now + GOOD_FOR;
    // Signed by the new key itself, unsigned, signed by an absent key, expired, for another name.
    let mut of_another_name = signed(&[&old, &new], &[&old], TTL, end);
    of_another_name.name = testkit::name("example.").as_name().to_lower();
    for (response, fault) in [
        (signed(&[&old, &new], &[&new], TTL, end), None),
        (signed(&[&old, &new], &[], TTL, end), Some(BogusReason::Unsigned)),
        (signed(&[&new], &[&old], TTL, end), Some(BogusReason::NoDnskey)),
        (signed(&[&new, &other], &[&new, &other], TTL, end), Some(BogusReason::NoDnskey)),
        (signed(&[&old, &new], &[&old], TTL, it.now - DAY), None),
        (of_another_name, Some(BogusReason::NoDnskey)),
    ] {
        let (found, changes) = it.takes(&response);
        assert!(found.is_some() && (fault.is_none() || found == fault), "{found:?} {response:?}");
        assert_eq!(changes, []);
        assert_eq!(it.state(2), None);
    }
    assert!(it.trusts(&[1]));
    // Only the time of the next query differs.
    let times = |text: &str| text.split(' ').nth(5).map(str::to_owned);
    assert_eq!(it.points.to_string().replace(&times(&it.points.to_string()).expect("a time"), "T"), {
        before.replace(&times(&before).expect("a time"), "T")
    });
    // It does not end or shorten the time of a pending key either.
    it.sees(&[&old, &new], &[&old]);
    it.after(DAY).takes(&signed(&[&old], &[], TTL, end));
    assert_eq!(it.state(2), Some(AnchorState::Pending { until: UnixTime::from_secs(START + HOLD_DOWN) }));
    it.after(HOLD_DOWN);
    it.takes(&signed(&[&old, &new], &[&new], TTL, it.now + GOOD_FOR));
    assert!(it.trusts(&[1]));
}

#[test]
fn a_revoked_key_is_no_anchor_from_then_on_and_is_removed_after_thirty_days() {
    let mut it = Follower::new(&[1, 2]);
    let (old, new, gone) = (key(1), key(2), revoked(1));
    it.sees(&[&old, &new], &[&old]);
    // REVOKE is a bit of the flags, so the tag differs. The operator's tag is reported.
    assert_ne!(gone.tag(), old.tag());
    let changes = it.after(DAY).sees(&[&gone, &new], &[&gone, &new]);
    assert_eq!(changes, [(old.tag(), AnchorEvent::Revoked)]);
    assert!(it.trusts(&[2]));
    assert_eq!(it.after(DAY).sees(&[&gone, &new], &[&gone, &new]), []);
    // It signs nothing any more, and is never an anchor again.
    let (fault, changes) = it.takes(&signed(&[&old, &new, &key(3)], &[&old], TTL, it.now + GOOD_FOR));
    assert!(fault.is_some() && changes.is_empty(), "{fault:?} {changes:?}");
    assert_eq!(it.sees(&[&old, &new], &[&new]), []);
    assert!(it.trusts(&[2]));
    // The time starts when it disappears.
    assert_eq!(it.after(DAY).sees(&[&new], &[&new]), []);
    assert_eq!(it.after(HOLD_DOWN - 1).sees(&[&new], &[&new]), []);
    assert_eq!(it.after(1).sees(&[&new], &[&new]), [(old.tag(), AnchorEvent::Removed)]);
    assert_eq!(it.state(1), Some(AnchorState::Removed));
    assert_eq!(it.after(DAY).sees(&[&old, &new], &[&new]), [], "for ever");
    assert!(it.trusts(&[2]), "though it is configured");
}

#[test]
fn only_the_key_itself_can_revoke_a_key() {
    let mut it = Follower::new(&[1, 2]);
    let (old, new, gone) = (key(1), key(2), revoked(1));
    it.sees(&[&old, &new], &[&old]);
    assert_eq!(it.sees(&[&gone, &new], &[&new]), [(old.tag(), AnchorEvent::Missed)]);
    assert!(it.trusts(&[1, 2]));
    // Its own signature suffices for that.
    let (fault, changes) = it.takes(&signed(&[&gone, &new], &[&gone], TTL, it.now + GOOD_FOR));
    assert!(fault.is_some(), "of the rest nothing is known");
    assert_eq!(changes, [(old.tag(), AnchorEvent::Revoked)]);
    assert!(it.trusts(&[2]));
    // An old signature does not.
    let (_, changes) = it.takes(&signed(&[&old, &revoked(2)], &[&revoked(2)], TTL, it.now - DAY));
    assert_eq!(changes, []);
    assert!(it.trusts(&[2]));
}

#[test]
fn an_anchor_that_is_revoked_before_it_was_ever_seen_is_revoked() {
    let mut it = Follower::new(&[1, 2]);
    let changes = it.sees(&[&revoked(1), &key(2)], &[&revoked(1), &key(2)]);
    assert!(changes.contains(&(key(1).tag(), AnchorEvent::Revoked)), "{changes:?}");
    assert!(it.trusts(&[2]));
}

#[test]
fn a_key_that_is_revoked_while_it_is_new_is_forgotten() {
    let mut it = Follower::new(&[1]);
    it.sees(&[&key(1), &key(2)], &[&key(1)]);
    let changes = it.after(DAY).sees(&[&key(1), &revoked(2)], &[&key(1), &revoked(2)]);
    assert_eq!(changes, [(key(2).tag(), AnchorEvent::Withdrawn)]);
}

#[test]
fn a_zone_that_has_revoked_all_its_keys_has_no_anchor() {
    let mut it = Follower::new(&[1]);
    it.takes(&signed(&[&revoked(1)], &[&revoked(1)], TTL, it.now + GOOD_FOR));
    assert_eq!(it.points.in_force(&it.configured), TrustAnchors::none());
}

#[test]
fn a_missing_key_stays_an_anchor_and_may_come_back() {
    let mut it = Follower::new(&[1, 2]);
    let (one, two) = (key(1), key(2));
    it.sees(&[&one, &two], &[&one]);
    assert_eq!(it.after(DAY).sees(&[&one], &[&one]), [(two.tag(), AnchorEvent::Missed)]);
    assert_eq!(it.state(2), Some(AnchorState::Missing));
    assert_eq!(it.after(100 * DAY).sees(&[&one], &[&one]), []);
    assert!(it.trusts(&[1, 2]));
    assert_eq!(it.after(DAY).sees(&[&two], &[&two]).len(), 2, "it signs for all");
    assert_eq!(it.state(2), Some(AnchorState::Valid));
}

#[test]
fn a_clock_that_is_put_back_makes_nobody_trusted_early() {
    let mut it = Follower::new(&[1]);
    let (old, new) = (key(1), key(2));
    it.sees(&[&old, &new], &[&old]);
    it.now -= 10 * DAY;
    assert_eq!(it.sees(&[&old, &new], &[&old]), [], "the hold-down begins anew");
    assert_eq!(it.state(2), Some(AnchorState::Pending { until: UnixTime::from_secs(it.now + HOLD_DOWN) }));
    assert_eq!(it.after(HOLD_DOWN - 1).sees(&[&old, &new], &[&old]), []);
    assert_eq!(it.after(1).sees(&[&old, &new], &[&old]), [(new.tag(), AnchorEvent::Accepted)]);
    // The same for a revoked key.
    it.sees(&[&revoked(1), &new], &[&revoked(1), &new]);
    it.after(DAY).sees(&[&new], &[&new]);
    it.now -= 40 * DAY;
    assert_eq!(it.sees(&[&new], &[&new]), []);
    assert_eq!(it.after(HOLD_DOWN).sees(&[&new], &[&new]), [(old.tag(), AnchorEvent::Removed)]);
    // A query that lies far ahead is due at once.
    it.now -= 365 * DAY;
    assert_eq!(it.wait(), 0);
}

#[test]
fn a_clock_that_is_far_ahead_ends_no_hold_down() {
    let mut it = Follower::new(&[1]);
    let keys = signed(&[&key(1), &key(2)], &[&key(1)], TTL, START + GOOD_FOR);
    it.takes(&keys);
    it.after(HOLD_DOWN);
    assert!(it.takes(&keys).0.is_some(), "the signatures have ended by that clock");
    assert!(it.trusts(&[1]));
}

/// Regression: only if the clock was set back by more than 15 days, the keys were due at once.
#[test]
fn a_clock_that_is_put_has_the_keys_asked_for_at_once() {
    let mut it = Follower::new(&[1]);
    it.sees(&[&key(1)], &[&key(1)]);
    assert!(it.wait() > HOUR);
    it.now -= 10 * DAY;
    it.points.clock_was_put();
    assert_eq!((it.wait(), it.points.due(it.unix())), (0, vec![NameBuf::ROOT]));
    it.points.failed(Name::ROOT, it.unix());
    assert!((HOUR..=DAY).contains(&it.wait()), "once, and then as after any failure: {}", it.wait());
    it.sees(&[&key(1)], &[&key(1)]);
    assert!(it.trusts(&[1]) && it.wait() > HOUR);
}

#[test]
fn questions_are_asked_as_often_as_rfc_5011_says() {
    assert_eq!(Follower::new(&[1]).wait(), 0, "at once");
    // TTL, remaining validity, time of the next query, and of the retry after a failure (§2.3).
    for (ttl, left, next, retry) in [
        (172_800, 14 * DAY, DAY, 17_280),
        (172_800, DAY, 12 * HOUR, 8640),
        (7 * 86_400, 2 * DAY, DAY, 17_280),
        (60 * 86_400, 60 * DAY, 15 * DAY, DAY),
        (300, 14 * DAY, HOUR, HOUR),
        (172_800, 600, HOUR, HOUR),
    ] {
        // The allowed clock skew counts, too.
        let left_by_us = left - 60;
        let mut it = Follower::new(&[1]);
        it.takes(&signed(&[&key(1)], &[&key(1)], ttl, it.now + left_by_us));
        assert_eq!(it.wait(), next, "{ttl} {left}");
        it.after(next);
        assert_eq!(it.points.due(it.unix()), [NameBuf::ROOT]);
        it.points.failed(Name::ROOT, it.unix());
        assert_eq!(it.wait(), retry, "{ttl} {left}");
        it.after(retry - 1);
        assert_eq!(it.points.due(it.unix()), []);
        it.after(1);
        it.takes(&signed(&[&key(2)], &[&key(2)], ttl, it.now + left));
        assert_eq!(it.wait(), retry, "bogus keys are as good as none");
    }
    let mut never = Follower::new(&[1]);
    never.points.failed(Name::ROOT, UnixTime::from_secs(START));
    assert_eq!(never.wait(), HOUR);
}

/// The events within this many days with these keys, if the zone is queried whenever due.
fn phase(it: &mut Follower, days: u64, keys: &[&SigningKey], signers: &[&SigningKey]) -> Vec<AnchorEvent> {
    let (until, mut events) = (it.now + days * DAY, Vec::new());
    while it.now < until {
        it.now += it.wait().min(until - it.now);
        events.extend(it.sees(keys, signers).into_iter().map(|(_, event)| event));
    }
    events.retain(|event| !matches!(event, AnchorEvent::Appeared(_)));
    events
}

#[test]
fn a_whole_roll_over_goes_by_itself() {
    let mut it = Follower::new(&[1]);
    let (old, new, zsk) = (key(1), key(2), SigningKey::new(9, SigningKey::ZSK));
    assert_eq!(phase(&mut it, 10, &[&old, &zsk], &[&old]), [AnchorEvent::Found]);
    assert_eq!(phase(&mut it, 60, &[&old, &new, &zsk], &[&old]), [AnchorEvent::Accepted]);
    assert_eq!(phase(&mut it, 60, &[&old, &new, &zsk], &[&new]), []);
    assert_eq!(phase(&mut it, 60, &[&revoked(1), &new, &zsk], &[&revoked(1), &new]), [AnchorEvent::Revoked]);
    assert_eq!(phase(&mut it, 60, &[&new, &zsk], &[&new]), [AnchorEvent::Removed]);
    assert!(it.trusts(&[2]));
}

#[test]
fn what_the_operator_takes_away_is_gone_and_what_was_revoked_stays_so() {
    let mut it = Follower::new(&[1, 2]);
    let (one, two, three) = (key(1), key(2), key(3));
    it.sees(&[&one, &two, &three], &[&one]);
    it.after(HOLD_DOWN).sees(&[&one, &two, &three], &[&one]);
    it.after(DAY).sees(&[&one, &revoked(2), &three], &[&one, &revoked(2)]);
    assert!(it.trusts(&[1, 3]));
    // Another one is configured, as by an update: learned keys stay.
    it.reconfigure(&[1, 2, 4]);
    assert!(it.trusts(&[1, 3, 4]));
    assert_eq!(it.wait(), 0, "whether the zone has it is asked at once");
    // Another root.
    it.reconfigure(&[2, 5]);
    assert!(it.trusts(&[5]));
    it.points.follow(&anchors(&[5]), |_| false);
    assert_eq!((it.points.iter().count(), it.points.wait(it.unix())), (0, None));
}

#[test]
fn a_pending_key_that_the_operator_names_is_an_anchor() {
    let mut it = Follower::new(&[1]);
    it.sees(&[&key(1), &key(2)], &[&key(1)]);
    it.reconfigure(&[1, 2]);
    assert!(it.trusts(&[1, 2]));
    assert_eq!(it.sees(&[&key(1), &key(2)], &[&key(1)]), [(key(2).tag(), AnchorEvent::Found)]);
}

#[test]
fn keys_beyond_all_measure_are_not_remembered() {
    let mut it = Follower::new(&[1]);
    let many: Vec<SigningKey> = (1..200).map(key).collect();
    it.sees(&many.iter().collect::<Vec<_>>(), &[&key(1)]);
    let (_, root) = it.points.iter().next().expect("the root");
    assert_eq!(root.keys().len(), 64);
    assert!(it.trusts(&[1]));
}

#[test]
fn text_that_is_no_state_is_refused_with_its_line() {
    let mut it = Follower::new(&[1]);
    it.sees(&[&key(1)], &[&key(1)]);
    let good = it.points.to_string();
    assert_eq!(good.parse(), Ok(it.points.clone()));
    let fault = |text: &str| text.parse::<TrustPoints>().expect_err(text).0;
    assert_eq!(fault("key valid 1 - 0101030F00\n"), 1, "of no zone");
    assert_eq!(fault(&good.replace("retry", "retri")), 1);
    assert_eq!(fault(&good.replace("valid", "absurd")), 3);
    assert_eq!(fault(&good.replace(" - ", " 5 ")), 3);
    assert_eq!(fault(&format!("{good}\n")), 4);
    let last = good.lines().last().expect("a line");
    assert_eq!(fault(&format!("{good}{last}\n")), 4);
}

/// A key in the root's RRset at some time: 0 absent, 1 present, 2 revoked; and whether it signs.
type Part = (u8, bool);

/// A minimal RFC 5011, for one zone and a clock that only advances.
#[derive(Default)]
struct Model {
    trusted: BTreeSet<u16>,
    revoked: BTreeSet<u16>,
    /// Since when each key was in all RRsets with a valid signature.
    there: std::collections::BTreeMap<u16, u64>,
}

impl Model {
    fn see(&mut self, parts: &[Part], now: u64) {
        let all = || (1u16..).zip(parts.iter().copied());
        for (number, _) in all().filter(|(_, part)| *part == (2, true)) {
            if self.trusted.remove(&number) {
                self.revoked.insert(number);
            }
        }
        if !all().any(|(number, part)| part == (1, true) && self.trusted.contains(&number)) {
            return;
        }
        for (number, (form, _)) in all() {
            if form != 1 {
                self.there.remove(&number);
                continue;
            }
            let since = *self.there.entry(number).or_insert(now);
            if now - since >= HOLD_DOWN && !self.revoked.contains(&number) {
                self.trusted.insert(number);
            }
        }
    }
}

proptest! {
    /// Whatever a zone does, in whatever order: the anchors are those of RFC 5011, no revoked key is one
    /// again, and a restart at any time changes nothing.
    #[test]
    fn whatever_a_zone_does_the_right_keys_are_anchors(
        steps in prop::collection::vec((0..20u64, prop::collection::vec((0..3u8, any::<bool>()), 4)), 1..30),
    ) {
        let mut it = Follower::new(&[1]);
        let mut model = Model { trusted: BTreeSet::from([1]), ..Model::default() };
        for (days, parts) in steps {
            it.after(days * DAY);
            let keys: Vec<(SigningKey, bool)> = (1u16..).zip(&parts).filter_map(|(number, part)| match part {
                (1, signs) => Some((key(number), *signs)),
                (2, signs) => Some((revoked(number), *signs)),
                _ => None,
            }).collect();
            let signers: Vec<&SigningKey> = keys.iter().filter(|(_, signs)| *signs).map(|(key, _)| key).collect();
            let set = signed(&keys.iter().map(|(key, _)| key).collect::<Vec<_>>(), &signers, TTL, it.now + GOOD_FOR);
            it.takes(&set);
            model.see(&parts, it.now);
            let wanted: Vec<u16> = model.trusted.iter().copied().collect();
            prop_assert!(it.trusts(&wanted), "{wanted:?}\n{}", it.points);
            it.points = it.points.to_string().parse().expect("what was written");
            it.points.follow(&it.configured, |_| true);
        }
    }

    #[test]
    fn any_text_can_be_read(text in "(zone \\. seen [0-9-]{1,3} next [0-9]{1,3} retry [0-9]{1,3}\n)?([a-z]{3,7}( [0-9a-f-]{1,9}){0,4}\n){0,4}") {
        if let Ok(points) = text.parse::<TrustPoints>() {
            prop_assert_eq!(points.to_string().parse::<TrustPoints>(), Ok(points));
        }
    }
}
