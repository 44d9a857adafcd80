//! Chains of trust with every supported algorithm, and the policy for SHA-1 (RFC 8624 §3.1, RFC 9905).

use testkit::answers::Line;
use testkit::keys::SigningKey;
use testkit::name;
use testkit::tree::{NOW, TreeReply, VALID};
use validator::{InsecureReason, Need, Security, TrustAnchors, TrustTable, ValidationSettings, Validator};
use wire::rdata::view::{Dnskey, Ds, SigAlgorithm};
use wire::{Class, NameBuf, Rcode, Ttl, Type};

use crate::support::TREE;

const TTL: Ttl = Ttl::from_secs(3600);
/// Ed448 (RFC 8080).
const ED448: u8 = 16;

/// A zone's keys: the first signs the DNSKEY, the second everything else.
struct Zone {
    apex: NameBuf,
    keys: [SigningKey; 2],
}

impl Zone {
    fn new(apex: &str, [first, second]: [SigAlgorithm; 2]) -> Self {
        let keys = [SigningKey::random(first, SigningKey::KSK), SigningKey::random(second, SigningKey::ZSK)];
        Zone { apex: name(apex), keys }
    }

    /// An RRset and its signature.
    fn signed(&self, owner: NameBuf, rtype: Type, mut rdatas: Vec<Vec<u8>>) -> Vec<Line> {
        rdatas.sort();
        let key = &self.keys[usize::from(rtype != Type::DNSKEY)];
        let sig = key.sign(self.apex.as_name(), owner, rtype, TTL, &rdatas, VALID);
        let line = |rtype, rdata| Line { owner, rtype, ttl: TTL, rdata };
        let mut lines: Vec<Line> = rdatas.into_iter().map(|rdata| line(rtype, rdata)).collect();
        lines.push(line(Type::RRSIG, sig.rdata));
        lines
    }

    fn answer(&self, owner: NameBuf, rtype: Type, rdatas: Vec<Vec<u8>>) -> TreeReply {
        let answer = self.signed(owner, rtype, rdatas);
        reply(owner, rtype, answer)
    }

    fn dnskey(&self) -> TreeReply {
        self.answer(self.apex, Type::DNSKEY, self.keys.iter().map(|key| key.dnskey.clone()).collect())
    }

    fn ds(&self) -> Vec<u8> {
        self.keys[0].ds(self.apex.as_name())
    }
}

fn reply(name: NameBuf, qtype: Type, answer: Vec<Line>) -> TreeReply {
    TreeReply { name, qtype, rcode: Rcode::NOERROR, class: Class::IN, answer, authority: Vec::new() }
}

/// The state of an answer, with the requested records taken from `chain`.
fn validate(
    answer: &TreeReply,
    anchors: &TrustAnchors,
    settings: &ValidationSettings,
    others: &[TreeReply],
) -> Security {
    let mut other = |need: &Need, _: TreeReply| {
        let fits = |reply: &&TreeReply| reply.name.as_name() == need.name() && reply.qtype == need.rtype();
        others.iter().find(fits).cloned()
    };
    let validator = Validator::answer(answer.response());
    TREE.run(validator, settings, anchors, &TrustTable::new(64), &mut other).validated.security
}

/// Changes the last byte of the signature in the last line.
fn forged(mut reply: TreeReply) -> TreeReply {
    let signature = reply.answer.last_mut().expect("a line");
    *signature.rdata.last_mut().expect("data") ^= 1;
    reply
}

#[test]
fn every_supported_algorithm_makes_a_chain_with_every_other() {
    use SigAlgorithm as A;
    let algorithms = [A::RSASHA256, A::RSASHA512, A::ECDSAP256SHA256, A::ECDSAP384SHA384, A::ED25519];
    let settings = ValidationSettings::default();
    for (at, above) in algorithms.into_iter().enumerate() {
        // The keys of one zone need not have the same algorithm.
        let below = algorithms[(at + 1) % algorithms.len()];
        let (parent, child) = (Zone::new("above.", [above; 2]), Zone::new("zone.above.", [below, above]));
        let mut anchors = TrustAnchors::none();
        anchors.add_ds(parent.apex.as_name(), &parent.ds()).expect("an anchor");
        let www = name("www.zone.above.");
        let answer = child.answer(www, Type::A, vec![vec![192, 0, 2, 1], vec![192, 0, 2, 2]]);
        let ds = parent.answer(child.apex, Type::DS, vec![child.ds()]);
        let chain = [parent.dnskey(), ds.clone(), child.dnskey()];
        let state = |answer: &TreeReply, chain: &[TreeReply]| validate(answer, &anchors, &settings, chain);
        assert_eq!(state(&answer, &chain), Security::Secure, "{above:?} above {below:?}");
        let bad = state(&forged(answer.clone()), &chain);
        assert!(matches!(bad, Security::Bogus(_)), "{above:?}: {bad:?}");
        for link in 0..3 {
            let mut chain = chain.clone();
            chain[link] = forged(chain[link].clone());
            let bad = state(&answer, &chain);
            assert!(matches!(bad, Security::Bogus(_)), "{above:?} above {below:?}, link {link}: {bad:?}");
        }
        // A signature by another key of the same algorithm.
        let other = Zone { keys: Zone::new("x.", [above; 2]).keys, apex: child.apex };
        let stolen = other.answer(www, Type::A, vec![vec![192, 0, 2, 1]]);
        assert!(matches!(state(&stolen, &chain), Security::Bogus(_)), "{above:?}");
    }
}

/// A zone signed with RSA and SHA-1: its DNSKEY, and an answer.
fn sha1(algorithm: SigAlgorithm) -> (Vec<u8>, TreeReply, TreeReply) {
    let lines: Vec<Vec<u8>> = include_str!("sha1.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let digits = line.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("digits"));
            digits.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal")).collect()
        })
        .collect();
    let at = if algorithm == SigAlgorithm::RSASHA1 { 0 } else { 3 };
    let [dnskey, of_dnskey, of_www] = [0, 1, 2].map(|n| lines[at + n].clone());
    assert_eq!(dnskey[3], algorithm.0);
    let (zone, www) = (name("sha1."), name("www.sha1."));
    let line = |owner, rtype, rdata: &[u8]| Line { owner, rtype, ttl: TTL, rdata: rdata.to_vec() };
    let keys = vec![line(zone, Type::DNSKEY, &dnskey), line(zone, Type::RRSIG, &of_dnskey)];
    let answer = vec![line(www, Type::A, &[192, 0, 2, 1]), line(www, Type::RRSIG, &of_www)];
    (dnskey, reply(zone, Type::DNSKEY, keys), reply(www, Type::A, answer))
}

#[test]
fn rsa_with_sha1_is_insecure_unless_the_operator_wants_it() {
    for algorithm in [SigAlgorithm::RSASHA1, SigAlgorithm::RSASHA1_NSEC3_SHA1] {
        let (dnskey, keys, answer) = sha1(algorithm);
        let parent = Zone::new(".", [SigAlgorithm::ED25519; 2]);
        let mut anchors = TrustAnchors::none();
        anchors.add_ds(parent.apex.as_name(), &parent.ds()).expect("an anchor");
        let zone = name("sha1.");
        let ds = dnssec::key::ds(zone.as_name(), &Dnskey::read(&dnskey).expect("a key"), Ds::SHA256);
        let ds = parent.answer(zone, Type::DS, vec![ds.expect("a digest type")]);
        let chain = [parent.dnskey(), ds, keys];
        let state = |answer: &TreeReply, settings| validate(answer, &anchors, settings, &chain);
        // RFC 9905 §2: as if unsigned, whether the signature is valid or not.
        let strict = ValidationSettings::default();
        let insecure = Security::Insecure(InsecureReason::UnsupportedAlgorithm);
        assert_eq!(state(&answer, &strict), insecure);
        assert_eq!(state(&forged(answer.clone()), &strict), insecure);
        let lenient = ValidationSettings { sha1_signatures: true, ..strict };
        assert_eq!(state(&answer, &lenient), Security::Secure, "{NOW}");
        assert!(matches!(state(&forged(answer.clone()), &lenient), Security::Bogus(_)));
    }
}

#[test]
fn a_better_algorithm_beside_sha1_is_the_one_that_counts() {
    let (dnskey, ..) = sha1(SigAlgorithm::RSASHA1);
    let (parent, zone) =
        (Zone::new(".", [SigAlgorithm::ED25519; 2]), Zone::new("sha1.", [SigAlgorithm::ED25519; 2]));
    let mut anchors = TrustAnchors::none();
    anchors.add_ds(parent.apex.as_name(), &parent.ds()).expect("an anchor");
    let old = dnssec::key::ds(zone.apex.as_name(), &Dnskey::read(&dnskey).expect("a key"), Ds::SHA256);
    let ds = parent.answer(zone.apex, Type::DS, vec![old.expect("a digest type"), zone.ds()]);
    let answer = zone.answer(name("www.sha1."), Type::A, vec![vec![192, 0, 2, 1]]);
    let settings = ValidationSettings::default();
    let chain = [parent.dnskey(), ds, zone.dnskey()];
    assert_eq!(validate(&answer, &anchors, &settings, &chain), Security::Secure);
    // Signed by the old key alone it is bogus, though a zone with nothing better is insecure.
    let (.., weak) = sha1(SigAlgorithm::RSASHA1);
    assert!(matches!(validate(&weak, &anchors, &settings, &chain), Security::Bogus(_)));
}

/// An RRset with an Ed448 signature (RFC 8080 §4), of arbitrary bytes of the right length.
fn ed448(zone: &Zone, owner: NameBuf, rtype: Type, rdatas: Vec<Vec<u8>>) -> TreeReply {
    let mut answer = zone.answer(owner, rtype, rdatas);
    let sig = &mut answer.answer.last_mut().expect("a line").rdata;
    sig[2] = ED448;
    sig.truncate(18 + zone.apex.as_name().len());
    sig.extend([0x5a; 114]);
    answer
}

/// Ed448 is not supported: a zone with nothing else is insecure (RFC 4035 §5.2, RFC 6840 §5.2), and beside
/// another algorithm the other one counts.
#[test]
fn a_zone_signed_with_ed448_alone_is_insecure() {
    let (parent, zone) =
        (Zone::new(".", [SigAlgorithm::ED25519; 2]), Zone::new("ed448.", [SigAlgorithm::ED25519; 2]));
    let mut anchors = TrustAnchors::none();
    anchors.add_ds(parent.apex.as_name(), &parent.ds()).expect("an anchor");
    let dnskey = [&SigningKey::KSK.to_be_bytes()[..], &[3, ED448], &[0x42; 57]].concat();
    let ds = dnssec::key::ds(zone.apex.as_name(), &Dnskey::read(&dnskey).expect("a key"), Ds::SHA256);
    let ds = ds.expect("a digest type");
    let settings = ValidationSettings::default();
    let (www, address) = (name("www.ed448."), vec![vec![192, 0, 2, 1]]);
    let answer = ed448(&zone, www, Type::A, address.clone());
    let unsigned = TreeReply { answer: answer.answer[..1].to_vec(), ..answer.clone() };
    let alone = [
        parent.dnskey(),
        parent.answer(zone.apex, Type::DS, vec![ds.clone()]),
        ed448(&zone, zone.apex, Type::DNSKEY, vec![dnskey]),
    ];
    let insecure = Security::Insecure(InsecureReason::UnsupportedAlgorithm);
    for answer in [&answer, &forged(answer.clone()), &unsigned] {
        assert_eq!(validate(answer, &anchors, &settings, &alone), insecure);
    }
    assert_eq!(InsecureReason::UnsupportedAlgorithm.extended_error().map(|info| info.0), Some(1));
    let both = [parent.dnskey(), parent.answer(zone.apex, Type::DS, vec![ds, zone.ds()]), zone.dnskey()];
    let good = zone.answer(www, Type::A, address);
    assert_eq!(validate(&good, &anchors, &settings, &both), Security::Secure);
    for answer in [&answer, &unsigned] {
        let state = validate(answer, &anchors, &settings, &both);
        assert!(matches!(state, Security::Bogus(_)), "{state:?}: the other algorithm was left out");
    }
}
