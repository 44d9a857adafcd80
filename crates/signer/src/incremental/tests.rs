//! Random zones that change step by step: each version must have the records of the same zone signed as a
//! whole. And what passes that renew signatures look at, make and leave.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use authority::audit::audit;
use proptest::prelude::*;
use testkit::choices::Choices;
use testkit::name;
use testkit::versions::{unsigned_change, unsigned_zone};
use wire::hash::HashKey;
use wire::rdata::view::{Rrsig, SigAlgorithm};
use wire::text::write_base64;
use wire::{Name, NameBuf, Ttl, Type, UnixTime};
use zone::ZoneBuilder;
use zone::store::ChangeError;
use zone::zonemd::{self, ZonemdHash};

use super::step::chain_ttl;
use super::*;
use crate::denial::{DenialMethod, Nsec3Settings};
use crate::key::pair::PrivateKey;
use crate::key::text::PrivateText;
use crate::key::times::KeyTimes;
use crate::key::{KeyRole, ZoneKey};
use crate::rrset::SignaturePeriod;

const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);
const PERIOD: SignaturePeriod = SignaturePeriod {
    inception: UnixTime::from_secs(1_799_996_400),
    expiration: UnixTime::from_secs(1_802_592_000),
    jitter: 86_400,
};
const CASES: u32 = 192;
const HOUR: Ttl = Ttl::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

fn one_of<T: Clone>(choices: &mut Choices<'_>, from: &[T]) -> T {
    from[choices.below(from.len())].clone()
}

/// A record with its owner in lower case and its RDATA in canonical form.
type Line = (String, Type, Ttl, Vec<u8>);

fn lines(zone: &Zone) -> BTreeSet<Line> {
    let mut all = BTreeSet::new();
    for node in zone.iter() {
        for set in node.rrsets() {
            let plain = set.rdatas().map(|record| (set.rtype(), record));
            for (rtype, record) in plain.chain(set.sig_rdatas().map(|record| (Type::RRSIG, record))) {
                let mut rdata = Vec::new();
                record.copy_to(&mut rdata);
                wire::rdata::canonical(rtype, &mut rdata);
                all.insert((node.owner().as_name().to_string(), rtype, record.ttl(), rdata));
            }
        }
    }
    all
}

fn text(line: &Line) -> String {
    let (owner, rtype, ttl, rdata) = line;
    let mut text = format!("{owner} {ttl} {rtype} ");
    let _ = wire::rdata::write_text(*rtype, rdata, &mut text);
    text
}

fn assert_same(ours: &Zone, expected: &Zone) {
    let (ours, expected) = (lines(ours), lines(expected));
    let only = |a: &BTreeSet<Line>, b: &BTreeSet<Line>| a.difference(b).map(text).collect::<Vec<_>>();
    assert_eq!((only(&ours, &expected), only(&expected, &ours)), (vec![], vec![]), "ours and expected only");
}

fn findings(zone: &Zone) -> Vec<String> {
    let mut found = Vec::new();
    audit(zone, NOW.to_serial(), &mut |finding| found.push(finding.to_string()));
    found
}

fn key(seed: u8, role: KeyRole, apex: Name<'_>) -> ZoneKey {
    let mut text = "Private-key-format: v1.3\nAlgorithm: 15 (ED25519)\nPrivateKey: ".to_owned();
    write_base64(&[seed; 32], &mut text).expect("written");
    let private = PrivateText::parse(&text).expect("a key");
    ZoneKey::new(apex, role, private.key, private.times)
}

/// A KSK and a ZSK with these seeds; one key that does both, if they are the same.
fn keys(apex: Name<'_>, [ksk, zsk]: [u8; 2]) -> ZoneKeys {
    let mut keys = vec![key(ksk, KeyRole::KeySigning, apex)];
    keys.extend((ksk != zsk).then(|| key(zsk, KeyRole::ZoneSigning, apex)));
    ZoneKeys::by_times(apex, keys, Vec::new(), NOW).expect("keys")
}

fn nsec3(opt_out: bool, salt: &[u8]) -> DenialMethod {
    DenialMethod::Nsec3(Nsec3Settings { opt_out, iterations: 1, salt: salt.to_vec() })
}

fn methods() -> [DenialMethod; 4] {
    [DenialMethod::Nsec, nsec3(false, b""), nsec3(true, b"\xab"), nsec3(true, b"")]
}

fn policy(denial: DenialMethod) -> SigningPolicy {
    SigningPolicy {
        period: PERIOD,
        denial,
        serial: None,
        dnskey_ttl: Some(HOUR),
        sync: false,
        zonemd: Vec::new(),
    }
}

/// A zone that changes, unsigned and signed.
struct Pair {
    plain: Zone,
    signed: Zone,
    keys: ZoneKeys,
    policy: SigningPolicy,
}

impl Pair {
    fn signing(&self) -> Signing<'_> {
        Signing { keys: &self.keys, policy: &self.policy, threads: 2 }
    }

    fn expected(&self) -> Zone {
        sign_zone(&self.plain, &self.keys, &self.policy, 1).expect("signed").zone
    }

    /// Checks that the signed zone is the plain one signed as a whole.
    fn check(&self) {
        assert_same(&self.signed, &self.expected());
        assert_eq!(findings(&self.signed), Vec::<String>::new());
        if !self.policy.zonemd.is_empty() {
            assert_eq!(zonemd::verify(&self.signed), Ok(self.policy.zonemd[0]));
        }
    }

    /// Checks a step and takes it.
    fn take(&mut self, step: SignedStep) {
        let SignedStep { zone, change, .. } = step;
        assert!(change.before == change.after || change.is_difference_sequence(), "{change:?}");
        assert!(diff(&self.signed.apply(&change).expect("it fits"), &zone).is_empty());
        self.signed = zone;
    }

    fn change(&mut self, change: &ChangeSet, plain: Zone) -> SigningCounts {
        let step = sign_change(&self.signed, change, &self.signing()).expect("signed");
        // Everything is signed only if the whole chain changes.
        if chain_ttl(&self.signed, &self.policy) == Some(plain.negative_ttl()) {
            let change = cleaned(change, plain.apex().as_name(), &self.policy);
            assert!(super::step(&self.signed, change, &self.signing(), None).is_ok(), "a small step");
        }
        let counts = step.counts;
        self.take(step);
        self.plain = plain;
        counts
    }

    /// Makes one part of a pass. Returns where the next one begins.
    fn refresh(&mut self, due: UnixTime, from: Option<&NameBuf>, most: usize) -> Refreshed {
        let after = Serial(self.signed.serial().0.wrapping_add(1));
        let mut refreshed = refresh(&self.signed, &self.signing(), after, due, from, most).expect("signed");
        if let Some(step) = refreshed.step.take() {
            let counts = step.counts;
            self.take(step);
            self.plain =
                self.plain.apply(&serial_change(&self.plain, after).expect("an SOA")).expect("it fits");
            let zone = self.signed.folded().expect("a zone");
            refreshed.step = Some(SignedStep { zone, change: ChangeSet::default(), counts });
        }
        refreshed
    }

    /// Changes keys, policy or base now and then.
    fn settings(&mut self, choices: &mut Choices<'_>) {
        match choices.below(16) {
            0 => self.policy.denial = one_of(choices, &methods()),
            1 => self.policy.sync = true,
            2 => {
                self.policy.zonemd =
                    one_of(choices, &[vec![], ZonemdHash::ALL.to_vec(), vec![ZonemdHash::Sha384]])
            }
            3 => self.policy.dnskey_ttl = Some(Ttl::from_secs(one_of(choices, &[60, 3600]))),
            4 => self.signed = self.signed.folded().expect("a zone"),
            _ => {}
        }
    }
}

fn pair(plain: Zone, denial: DenialMethod) -> Pair {
    let keys = keys(plain.apex().as_name(), [7, 8]);
    let policy = policy(denial);
    let signed = testkit::build(plain.apex().as_name(), &testkit::key(), &testkit::versions::records(&plain));
    let mut pair = Pair { plain, signed, keys, policy };
    let same = ChangeSet { before: pair.plain.serial(), after: pair.plain.serial(), ..ChangeSet::default() };
    let step = sign_change(&pair.signed, &same, &pair.signing()).expect("signed");
    pair.take(step);
    pair
}

fn change_step_by_step(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let plain = unsigned_zone(&mut choices);
    let mut pair = pair(plain, one_of(&mut choices, &methods()));
    pair.check();
    for _ in 0..24 {
        if choices.is_over() {
            return;
        }
        pair.settings(&mut choices);
        let Some((change, plain)) = unsigned_change(&mut choices, &pair.plain) else { continue };
        pair.change(&change, plain);
        pair.check();
    }
}

/// Keys change, and a pass replaces the signatures part by part, while the zone changes.
fn roll_step_by_step(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let plain = unsigned_zone(&mut choices);
    let mut pair = pair(plain, one_of(&mut choices, &methods()));
    for _ in 0..6 {
        if choices.is_over() {
            return;
        }
        let seeds = one_of(&mut choices, &[[7, 8], [7, 9], [10, 9], [7, 7], [8, 8]]);
        pair.keys = keys(pair.plain.apex().as_name(), seeds);
        pair.settings(&mut choices);
        let (mut from, most) = (None, 1 + choices.below(12));
        loop {
            let refreshed = pair.refresh(PERIOD.inception, from.as_ref(), most);
            let Some(next) = refreshed.next else { break };
            assert!(from.is_none_or(|from| from < next), "the pass proceeds");
            from = Some(next);
            if let Some((change, plain)) = unsigned_change(&mut choices, &pair.plain) {
                pair.change(&change, plain);
            }
        }
        pair.check();
        let rest = pair.refresh(PERIOD.inception, None, 1);
        assert!(rest.step.is_none() && rest.next.is_none(), "a complete pass leaves nothing to do");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn each_version_is_that_of_the_whole_zone_signed(bytes in prop::collection::vec(any::<u8>(), 0..900)) {
        change_step_by_step(&bytes);
    }

    #[test]
    fn passes_lead_to_the_whole_zone_signed_by_the_new_keys(
        bytes in prop::collection::vec(any::<u8>(), 0..700)
    ) {
        roll_step_by_step(&bytes);
    }
}

/// A record: its owner below the apex, its type and RDATA.
type TextRecord<'a> = (&'a str, Type, &'a [u8]);

/// A zone of these records and a few at the apex.
fn zone_of(lines: &[TextRecord<'_>]) -> Zone {
    let apex = name("example.");
    let mut builder = ZoneBuilder::new(apex.as_name(), &HashKey::new([1, 2, 3]));
    let soa = testkit::random::soa(apex.as_name(), 1);
    builder.add(apex.as_name(), Type::SOA, HOUR, &soa).expect("it fits");
    builder.add(apex.as_name(), Type::NS, HOUR, b"\x02ns\x00").expect("it fits");
    for (owner, rtype, rdata) in lines {
        builder.add(below(owner).as_name(), *rtype, HOUR, rdata).expect("it fits");
    }
    builder.finish().expect("a zone")
}

fn below(owner: &str) -> NameBuf {
    name(&format!("{owner}.example.").trim_start_matches('.').replace("..", "."))
}

/// The change of these records and of the serial.
fn change_of(zone: &Zone, removed: &[TextRecord<'_>], added: &[TextRecord<'_>]) -> ChangeSet {
    let mut change = serial_change(zone, Serial(zone.serial().0 + 1)).expect("an SOA");
    for (owner, rtype, rdata) in removed {
        change.removed.push(below(owner).as_name(), *rtype, HOUR, rdata);
    }
    for (owner, rtype, rdata) in added {
        change.added.push(below(owner).as_name(), *rtype, HOUR, rdata);
    }
    change
}

fn take_change(pair: &mut Pair, removed: &[TextRecord<'_>], added: &[TextRecord<'_>]) -> SigningCounts {
    let change = change_of(&pair.plain, removed, added);
    let plain = pair.plain.apply(&change).expect("it fits");
    pair.change(&change, plain)
}

const A: &[u8] = &[192, 0, 2, 1];
const OTHER_A: &[u8] = &[192, 0, 2, 2];
const NS: &[u8] = b"\x02ns\x00";
const DS: &[u8] = &[
    0, 1, 13, 2, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7,
];

#[test]
fn cuts_secure_and_insecure_and_what_is_above_and_below_them() {
    let steps: [(&[TextRecord<'_>], &[TextRecord<'_>]); 12] = [
        // A cut comes above names, gets a DS, loses it, and goes.
        (&[], &[("cut", Type::NS, NS)]),
        (&[], &[("cut", Type::DS, DS)]),
        (&[("cut", Type::DS, DS)], &[]),
        (&[("cut", Type::NS, NS)], &[("cut", Type::A, A)]),
        // Below an empty non-terminal.
        (&[], &[("deep.x.y", Type::NS, NS)]),
        (&[], &[("deep.x.y", Type::DS, DS), ("other.x.y", Type::NS, NS)]),
        (&[("deep.x.y", Type::DS, DS)], &[]),
        // The last name below an empty non-terminal goes; another one of the same name comes as data.
        (&[("deep.x.y", Type::NS, NS), ("other.x.y", Type::NS, NS)], &[("y", Type::A, A)]),
        (&[("y", Type::A, A)], &[("x.y", Type::CNAME, NS), ("*.y", Type::A, A)]),
        (&[("x.y", Type::CNAME, NS)], &[("x.y", Type::A, A), ("y", Type::DNAME, NS)]),
        (&[("y", Type::DNAME, NS)], &[("", Type::DNAME, NS)]),
        (&[("", Type::DNAME, NS)], &[]),
    ];
    let first: [TextRecord<'_>; 5] = [
        ("a.cut", Type::A, A),
        ("b.a.cut", Type::A, A),
        ("b.b.cut", Type::NS, NS),
        ("c.b.b.cut", Type::A, A),
        ("www", Type::A, A),
    ];
    for method in methods() {
        let mut pair = pair(zone_of(&first), method);
        pair.check();
        for (removed, added) in steps {
            take_change(&mut pair, removed, added);
            pair.check();
        }
    }
}

/// A zone of this many names with an address each.
fn large(names: u32) -> Zone {
    let apex = name("example.");
    let mut builder = ZoneBuilder::new(apex.as_name(), &HashKey::new([1, 2, 3]));
    let soa = testkit::random::soa(apex.as_name(), 1);
    builder.add(apex.as_name(), Type::SOA, HOUR, &soa).expect("it fits");
    builder.add(apex.as_name(), Type::NS, HOUR, NS).expect("it fits");
    for i in 0..names {
        let owner = below(&format!("h{i}"));
        builder.add(owner.as_name(), Type::A, HOUR, &i.to_be_bytes()).expect("it fits");
    }
    builder.finish().expect("a zone")
}

#[test]
fn one_name_costs_a_few_signatures_however_large_the_zone_is() {
    for method in [DenialMethod::Nsec, nsec3(false, b""), nsec3(true, b"")] {
        let mut pair = pair(large(10_000), method);
        // SOA, the RRset; where a name comes or goes, its record of the chain and the one before.
        let counts =
            take_change(&mut pair, &[("h77", Type::A, &77u32.to_be_bytes())], &[("h77", Type::A, A)]);
        assert_eq!((counts.signatures, counts.denials), (2, 0));
        let counts = take_change(&mut pair, &[], &[("h77", Type::TXT, b"\x01a")]);
        assert_eq!((counts.signatures, counts.denials), (3, 1));
        let counts = take_change(&mut pair, &[], &[("new", Type::A, A)]);
        assert_eq!((counts.signatures, counts.denials), (4, 2));
        let counts = take_change(&mut pair, &[("h4", Type::A, &4u32.to_be_bytes())], &[]);
        assert_eq!((counts.signatures, counts.denials), (2, 1));
        let counts = take_change(&mut pair, &[], &[]);
        assert_eq!((counts.signatures, counts.denials), (1, 0));
        let counts = take_change(&mut pair, &[], &[("deep.er.new", Type::A, A)]);
        assert!(counts.signatures <= 6, "{counts:?}");
        pair.check();
    }
}

#[test]
fn signatures_over_rrsets_that_do_not_change_stay() {
    let mut pair = pair(zone_of(&[("www", Type::A, A), ("www", Type::TXT, b"\x01a")]), DenialMethod::Nsec);
    // A later step has a later period, so that signatures that are made again differ.
    pair.policy.period.inception = NOW;
    let before = lines(&pair.signed);
    take_change(&mut pair, &[("www", Type::A, A)], &[("www", Type::A, OTHER_A)]);
    let after = lines(&pair.signed);
    let made = |line: &&Line| line.1 == Type::RRSIG;
    let covered = |line: &Line| {
        let sig = Rrsig::read(&line.3).expect("an RRSIG");
        (line.0.clone(), sig.type_covered)
    };
    let made: Vec<_> = after.difference(&before).filter(made).map(covered).collect();
    assert_eq!(made, [("example.".to_owned(), Type::SOA), ("www.example.".to_owned(), Type::A)]);
    assert_eq!(findings(&pair.signed), Vec::<String>::new());
}

/// The expiration of each signature, by owner and type.
fn expirations(zone: &Zone) -> BTreeMap<(String, Type), Vec<u64>> {
    let mut all = BTreeMap::<_, Vec<u64>>::new();
    for (owner, rtype, _, rdata) in lines(zone) {
        if rtype == Type::RRSIG {
            let sig = Rrsig::read(&rdata).expect("an RRSIG");
            all.entry((owner, sig.type_covered)).or_default().push(sig.expiration.0.into());
        }
    }
    all
}

#[test]
fn a_pass_renews_what_is_due_and_nothing_else() {
    for method in methods() {
        let mut pair = pair(large(300), method);
        let old = expirations(&pair.signed);
        // With the jitter, half of the signatures are due.
        let due = UnixTime::from_secs(PERIOD.expiration.as_secs() - u64::from(PERIOD.jitter) / 2);
        pair.policy.period.expiration = PERIOD.expiration.saturating_add(DAY);
        let refreshed = pair.refresh(due, None, usize::MAX);
        assert!(refreshed.next.is_none());
        let new = expirations(&pair.signed);
        assert!(old.keys().eq(new.keys()));
        let mut renewed = 0;
        for (set, end) in &old {
            let is_due = end[0] <= due.as_secs() || set.1 == Type::SOA;
            assert_eq!(end != &new[set], is_due, "{set:?}: {end:?}, now {:?}", new[set]);
            renewed += u64::from(is_due);
        }
        let step = refreshed.step.expect("a step");
        assert_eq!((step.counts.signatures, step.counts.denials), (renewed, 0));
        let earliest = new.values().flatten().min().copied();
        assert_eq!(refreshed.earliest.map(UnixTime::as_secs), earliest);
        assert!(earliest > Some(due.as_secs()));
        assert_eq!(findings(&pair.signed), Vec::<String>::new());
        let again = pair.refresh(due, None, usize::MAX);
        assert!(again.step.is_none() && again.next.is_none() && again.earliest == refreshed.earliest);
    }
}

#[test]
fn signatures_that_expire_at_the_due_time_are_renewed() {
    let data = zone_of(&[("www", Type::A, A)]);
    let mut pair = pair(data, nsec3(false, b""));
    pair.policy.period.jitter = 0;
    pair.policy.period.expiration = PERIOD.expiration.saturating_add(DAY);
    assert!(pair.refresh(PERIOD.expiration, None, usize::MAX).step.is_some());
    let end = pair.policy.period.expiration;
    assert!(pair.refresh(end.saturating_sub(Duration::from_secs(1)), None, usize::MAX).step.is_none());
    pair.policy.period.expiration = end.saturating_add(DAY);
    let counts = pair.refresh(end, None, usize::MAX).step.expect("a step").counts;
    assert_eq!(counts.signatures, expirations(&pair.signed).len() as u64);
}

#[test]
fn parts_of_a_pass_are_bounded_and_each_begins_where_the_last_one_ended() {
    for method in methods() {
        let mut pair = pair(large(100), method);
        let all = expirations(&pair.signed).len() as u64;
        pair.policy.period.expiration = PERIOD.expiration.saturating_add(DAY);
        let (due, most) = (PERIOD.expiration, 10);
        let (mut from, mut parts, mut made, mut earliest) = (None::<NameBuf>, 0, 0, None::<UnixTime>);
        loop {
            let refreshed = pair.refresh(due, from.as_ref(), most);
            let counts = refreshed.step.expect("a step").counts;
            // Beside those of the apex: all of it in the first part, then the SOA.
            let apex = if parts == 0 { 5 } else { 1 };
            assert!(counts.signatures <= most as u64 + apex, "{counts:?}");
            parts += 1;
            made += counts.signatures;
            earliest = earliest.min(refreshed.earliest).or(refreshed.earliest);
            let Some(next) = refreshed.next else { break };
            assert!(from.is_none_or(|from| from < next));
            from = Some(next);
        }
        assert_eq!(made, all + parts - 1, "the SOA is signed in each part");
        assert!(parts >= all / most as u64);
        let ends: Vec<u64> = expirations(&pair.signed).into_values().flatten().collect();
        assert!(ends.iter().all(|end| *end > due.as_secs()));
        pair.check();
        assert_eq!(earliest.map(UnixTime::as_secs), ends.into_iter().min());
    }
}

#[test]
fn one_name_with_more_signatures_than_a_part_may_have_is_a_part() {
    let data: [TextRecord<'_>; 3] = [("www", Type::A, A), ("www", Type::TXT, b"\x01a"), ("zzz", Type::A, A)];
    let mut pair = pair(zone_of(&data), DenialMethod::Nsec);
    pair.keys = keys(pair.plain.apex().as_name(), [7, 9]);
    let refreshed = pair.refresh(NOW, None, 1);
    assert_eq!(refreshed.next, Some(below("zzz")));
    assert!(pair.refresh(NOW, refreshed.next.as_ref(), 0).next.is_none());
    pair.check();
}

#[test]
fn signatures_of_keys_that_no_longer_sign_go() {
    let mut pair = pair(zone_of(&[("www", Type::A, A)]), nsec3(false, b""));
    let apex = pair.plain.apex().as_name().to_buf();
    let tags = |zone: &Zone| {
        let sigs = lines(zone).into_iter().filter(|line| line.1 == Type::RRSIG);
        sigs.map(|line| Rrsig::read(&line.3).expect("an RRSIG").key_tag).collect::<BTreeSet<u16>>()
    };
    let tag = |seed, role| key(seed, role, apex.as_name()).tag();
    let [ksk, old, new] = [(7, KeyRole::KeySigning), (8, KeyRole::ZoneSigning), (9, KeyRole::ZoneSigning)]
        .map(|(seed, role)| tag(seed, role));
    assert_eq!(tags(&pair.signed), BTreeSet::from([ksk, old]));
    // Two ZSKs sign at once, then the new one alone.
    let all = [key(7, KeyRole::KeySigning, apex.as_name()), key(8, KeyRole::ZoneSigning, apex.as_name())];
    let all = all.into_iter().chain([key(9, KeyRole::ZoneSigning, apex.as_name())]).collect();
    pair.keys = ZoneKeys::by_times(apex.as_name(), all, Vec::new(), NOW).expect("keys");
    let before = expirations(&pair.signed);
    assert!(pair.refresh(NOW, None, usize::MAX).step.is_some());
    assert_eq!(tags(&pair.signed), BTreeSet::from([ksk, old, new]));
    assert!(before.keys().eq(expirations(&pair.signed).keys()));
    pair.check();
    pair.keys = keys(apex.as_name(), [7, 9]);
    let counts = pair.refresh(NOW, None, usize::MAX).step.expect("a step").counts;
    assert_eq!(tags(&pair.signed), BTreeSet::from([ksk, new]));
    // Of the new key only SOA; of the KSK the one over DNSKEY.
    assert_eq!(counts.signatures, 2);
    pair.check();
}

#[test]
fn dnskeys_of_other_signers_stay_and_those_of_the_change_do_not_count() {
    let apex = name("example.");
    let private = PrivateKey::generate(SigAlgorithm::ED25519, 0).expect("a key");
    let foreign = ZoneKey::new(apex.as_name(), KeyRole::ZoneSigning, private, KeyTimes::default());
    let mut pair = pair(zone_of(&[("www", Type::A, A)]), DenialMethod::Nsec);
    let own = vec![key(7, KeyRole::KeySigning, apex.as_name()), key(8, KeyRole::ZoneSigning, apex.as_name())];
    let present = vec![foreign.dnskey().to_vec()];
    pair.keys = ZoneKeys::by_times(apex.as_name(), own, present, NOW).expect("keys");
    let counts =
        take_change(&mut pair, &[], &[("", Type::DNSKEY, foreign.dnskey()), ("", Type::ZONEMD, &[1; 54])]);
    let count = |pair: &Pair| pair.signed.apex_node().rrset(Type::DNSKEY).map(|set| set.count());
    assert_eq!((count(&pair), counts.signatures), (Some(3), 2));
    assert!(pair.signed.apex_node().rrset(Type::ZONEMD).is_none());
    pair.plain = zone_of(&[("www", Type::A, A)]);
    let serial = serial_change(&pair.plain, pair.signed.serial()).expect("an SOA");
    pair.plain = pair.plain.apply(&serial).expect("it fits");
    pair.check();
}

#[test]
fn an_unsigned_zone_has_its_data_alone() {
    for method in methods() {
        let mut pair = pair(large(20), method);
        pair.policy.sync = true;
        pair.policy.zonemd = ZonemdHash::ALL.to_vec();
        take_change(&mut pair, &[], &[("cut", Type::NS, NS), ("cut", Type::DS, DS)]);
        let step = unsign(&pair.signed, Serial(9), &|_, _| false).expect("unsigned");
        assert!(step.change.is_difference_sequence() && step.counts.dropped > 40);
        assert!(diff(&pair.signed.apply(&step.change).expect("it fits"), &step.zone).is_empty());
        let plain =
            pair.plain.apply(&serial_change(&pair.plain, Serial(9)).expect("an SOA")).expect("it fits");
        assert_same(&step.zone, &plain);
        assert_eq!(step.zone.node_count(), plain.node_count());
    }
}

#[test]
fn owners_of_nsec3_records_may_have_data_and_names_below_them() {
    let method = nsec3(true, b"");
    let DenialMethod::Nsec3(settings) = &method else { return };
    let hash = settings.hash(below("www").as_name().to_lower().as_lower());
    let owner = crate::denial::nsec3_owner(&hash, Name::ROOT).expect("a name").to_string();
    let owner = owner.trim_end_matches('.').to_ascii_uppercase();
    let child = format!("a.{owner}");
    let mut pair = pair(zone_of(&[("www", Type::A, A)]), method.clone());
    let steps: [(&[TextRecord<'_>], &[TextRecord<'_>]); 6] = [
        (&[], &[(&owner, Type::A, A)]),
        (&[], &[(&child, Type::A, A)]),
        (&[(&owner, Type::A, A)], &[("www", Type::TXT, b"\x01a")]),
        (&[("www", Type::TXT, b"\x01a"), ("www", Type::A, A)], &[]),
        (&[], &[("www", Type::A, A)]),
        (&[(&child, Type::A, A)], &[]),
    ];
    for (removed, added) in steps {
        take_change(&mut pair, removed, added);
        assert_same(&pair.signed, &pair.expected());
        pair.keys = keys(pair.plain.apex().as_name(), [7, 9]);
        pair.refresh(NOW, None, usize::MAX);
        assert_same(&pair.signed, &pair.expected());
        pair.keys = keys(pair.plain.apex().as_name(), [7, 8]);
        pair.refresh(NOW, None, usize::MAX);
    }
}

#[test]
fn another_name_with_the_same_hash_is_refused() {
    let settings = Nsec3Settings::default();
    let mut pair = pair(zone_of(&[("www", Type::A, A)]), DenialMethod::Nsec3(settings.clone()));
    // The chain has the hash of a name that the zone does not have.
    let apex = name("example.");
    let hash = settings.hash(below("new").as_name().to_lower().as_lower());
    let owner = crate::denial::nsec3_owner(&hash, apex.as_name()).expect("a name");
    let mut other = serial_change(&pair.signed, Serial(2)).expect("an SOA");
    other.added.push(owner.as_name(), Type::NSEC3, HOUR, &settings.record(&[7; 20], &[Type::A]));
    pair.signed = pair.signed.apply(&other).expect("it fits");
    let change = change_of(&pair.signed, &[], &[("new", Type::A, A)]);
    let refused = sign_change(&pair.signed, &change, &pair.signing());
    assert_eq!(refused.expect_err("refused"), SignFault::Collision(Box::new(below("new"))));
}

#[test]
fn names_that_are_below_a_cut_no_longer_are_signed_on_several_threads() {
    let hidden: Vec<String> = (0..300).map(|i| format!("h{i}.cut")).collect();
    let data: Vec<TextRecord<'_>> = hidden.iter().map(|owner| (&owner[..], Type::A, A)).collect();
    for method in methods() {
        let mut pair = pair(zone_of(&[&data[..], &[("cut", Type::NS, NS)]].concat()), method);
        let counts = take_change(&mut pair, &[("cut", Type::NS, NS)], &[]);
        assert!(counts.signatures > 600, "{counts:?}");
        pair.check();
        let counts = take_change(&mut pair, &[], &[("cut", Type::NS, NS)]);
        assert!(counts.signatures < 10 && counts.dropped > 900, "{counts:?}");
        pair.check();
    }
}

#[test]
fn a_change_that_does_not_fit_is_refused() {
    let pair = pair(zone_of(&[("www", Type::A, A)]), DenialMethod::Nsec);
    let change = change_of(&pair.plain, &[("www", Type::A, OTHER_A)], &[]);
    let refused = sign_change(&pair.signed, &change, &pair.signing());
    assert!(matches!(refused, Err(SignFault::Change(ChangeError::NotThere(_)))), "{refused:?}");
    let other = ChangeSet { before: Serial(77), ..change };
    let refused = sign_change(&pair.signed, &other, &pair.signing());
    assert!(matches!(refused, Err(SignFault::Change(ChangeError::OtherVersion(_)))), "{refused:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// A zone file changes: the difference leads to the file's data, and is none then.
    #[test]
    fn the_difference_from_a_file_leads_to_its_data(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
        let mut choices = Choices::new(&bytes);
        let plain = unsigned_zone(&mut choices);
        let mut pair = pair(plain, one_of(&mut choices, &methods()));
        pair.settings(&mut choices);
        let dnskeys: Vec<Vec<u8>> = pair.keys.dnskeys();
        let ours = |rdata: &[u8]| dnskeys.iter().any(|ours| ours == rdata);
        let mut wanted = testkit::build(
            pair.plain.apex().as_name(), &testkit::key(), &testkit::versions::records(&pair.plain)
        );
        for _ in 0..3 {
            let Some((_, next)) = unsigned_change(&mut choices, &wanted) else { continue };
            wanted = next;
        }
        let change = unsigned_difference(&pair.signed, &wanted, &ours, &pair.policy);
        pair.change(&change, wanted);
        pair.check();
        let change = unsigned_difference(&pair.signed, &pair.plain, &ours, &pair.policy);
        prop_assert!(change.is_empty(), "{:?}", change);
        let again = sign_zone(&pair.plain, &pair.keys, &pair.policy, 1).expect("signed").zone;
        prop_assert!(unsigned_difference(&pair.signed, &again, &ours, &pair.policy).is_empty());
    }
}

/// `cargo test -p signer --lib -- --ignored --nocapture measures`
#[test]
#[ignore = "a measurement"]
fn measures_a_change_of_one_name_in_a_large_zone() {
    for method in methods() {
        let mut pair = pair(large(200_000), method);
        for round in 0..4 {
            let owner = format!("new{round}");
            let change = change_of(&pair.signed, &[], &[(&owner, Type::A, A)]);
            let begin = std::time::Instant::now();
            let step = sign_change(&pair.signed, &change, &pair.signing()).expect("signed");
            println!("{:?}: {:?}, {:?}", pair.policy.denial, begin.elapsed(), step.counts);
            pair.signed = step.zone;
        }
        let begin = std::time::Instant::now();
        let refreshed = refresh(&pair.signed, &pair.signing(), Serial(99), NOW, None, 100).expect("signed");
        println!("a pass without work: {:?} {}", begin.elapsed(), refreshed.step.is_none());
    }
}
