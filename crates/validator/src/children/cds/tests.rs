//! Requests for DS sets: each rule alone, and at random against a model.

use proptest::prelude::*;
use testkit::keys::{SigningKey, Validity};

use super::*;
use crate::children::answers::ChildServerFault;
use crate::children::testing::{DAY, NOW, TestChild, child, now, valid};

type Answer = ServerAnswer<(CdsAnswers, ChildKeys)>;

fn key(seed: u16) -> SigningKey {
    SigningKey::new(seed, SigningKey::KSK)
}

fn ds_of(keys: &[&SigningKey]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = keys.iter().map(|key| key.ds(child().as_name())).collect();
    all.sort_unstable();
    all
}

/// A DS record of a key with another digest type.
fn ds_with(key: &SigningKey, digest_type: u8) -> Vec<u8> {
    match ds(child().as_name(), &Dnskey::read(&key.dnskey).expect("a key"), digest_type) {
        Some(ds) => ds,
        None => [&key.tag().to_be_bytes()[..], &[15, digest_type], &[7; 32]].concat(),
    }
}

/// Reads and judges, for a delegation with this DS set.
fn judged(ds: &[Vec<u8>], last: Option<u32>, answers: &[Answer]) -> Result<CdsDecision, ChildRefusal> {
    let only_cds = |answer: &Answer| ServerAnswer {
        server: answer.server.clone(),
        found: answer.found.as_ref().map(|(cds, _)| cds.clone()).map_err(Clone::clone),
    };
    let cds: Vec<ServerAnswer<CdsAnswers>> = answers.iter().map(only_cds).collect();
    let child = child();
    let request = CdsRequest::read(child.as_name(), &cds)?;
    let delegation = DelegationSigners { child: child.as_name(), ds, last: last.map(Serial) };
    request.judge(&delegation, answers, &ValidationSettings::default(), now())
}

fn reason(judged: Result<CdsDecision, ChildRefusal>) -> RefusalReason {
    judged.expect_err("a refusal").reason
}

fn change(ds: Vec<Vec<u8>>) -> Result<CdsDecision, ChildRefusal> {
    Ok(CdsDecision::Change { ds, inception: Serial(NOW - DAY) })
}

#[test]
fn a_new_key_that_is_in_use_replaces_the_old_one() {
    let (old, new) = (key(1), key(2));
    let child = TestChild::new(&[&old, &new]);
    let answers = [child.at("a"), child.at("b")];
    assert_eq!(judged(&ds_of(&[&old]), None, &answers), change(ds_of(&[&new])));
    let same = Ok(CdsDecision::Unchanged { inception: Some(Serial(NOW - DAY)) });
    assert_eq!(judged(&ds_of(&[&new]), None, &answers), same);
}

#[test]
fn cds_and_cdnskey_each_suffice() {
    let (old, new) = (key(1), key(2));
    let mut child = TestChild::new(&[&old, &new]);
    child.cdnskey.clear();
    assert_eq!(judged(&ds_of(&[&old]), None, &[child.at("a")]), change(ds_of(&[&new])));
    (child.cds, child.cdnskey) = (Vec::new(), vec![new.dnskey.clone()]);
    assert_eq!(judged(&ds_of(&[&old]), None, &[child.at("a")]), change(ds_of(&[&new])), "SHA-256");
    child.cdnskey.clear();
    let nothing = Ok(CdsDecision::Unchanged { inception: None });
    assert_eq!(judged(&ds_of(&[&old]), None, &[child.at("a")]), nothing);
}

#[test]
fn all_servers_must_have_the_same() {
    let (old, new, other) = (key(1), key(2), key(3));
    let (child, mut differs) = (TestChild::new(&[&old, &new]), TestChild::new(&[&old, &new]));
    let ds = ds_of(&[&old]);
    let of = |answers: &[Answer]| reason(judged(&ds, None, answers));
    differs.cds.push(other.ds(super::super::testing::child().as_name()));
    assert_eq!(of(&[child.at("a"), differs.at("b")]), RefusalReason::ServersDisagree);
    (differs.cds, differs.cdnskey) = (child.cds.clone(), Vec::new());
    assert_eq!(of(&[child.at("a"), differs.at("b")]), RefusalReason::ServersDisagree, "CDNSKEY");
    let failed = |fault| ServerAnswer { server: "b".to_owned(), found: Err(fault) };
    let silent = failed(ChildServerFault::NoAnswer("it does not respond".to_owned()));
    assert_eq!(of(&[child.at("a"), silent]), RefusalReason::NoAnswer);
    assert_eq!(of(&[child.at("a"), failed(ChildServerFault::NotAuthoritative)]), RefusalReason::Lame);
    assert_eq!(of(&[]), RefusalReason::NoAnswer);
}

#[test]
fn the_content_of_each_server_is_verified() {
    let (old, new) = (key(1), key(2));
    let (child, mut late) = (TestChild::new(&[&old, &new]), TestChild::new(&[&old, &new]));
    // The second server has no DNSKEY of the new key yet.
    (late.keys, late.signers, late.zone_signers) = (vec![&old], vec![&old], vec![&old]);
    late.cds_signers = vec![&old];
    let both = [child.at("a"), late.at("b")];
    assert_eq!(reason(judged(&ds_of(&[&old]), None, &both)), RefusalReason::Breaks);
    late.keys = vec![&new];
    let both = [child.at("a"), late.at("b")];
    assert_eq!(reason(judged(&ds_of(&[&old]), None, &both)), RefusalReason::WrongSigner, "no old key");
}

#[test]
fn signatures_are_by_a_key_of_the_ds_set_and_valid_now() {
    let (old, new, zsk) = (key(1), key(2), SigningKey::new(3, SigningKey::ZSK));
    let ds = ds_of(&[&old]);
    let of = |change: &dyn Fn(&mut TestChild<'_>)| {
        let (old, new, zsk) = (key(1), key(2), SigningKey::new(3, SigningKey::ZSK));
        let mut child = TestChild::new(&[&old, &zsk, &new]);
        let _ = &zsk;
        change(&mut child);
        reason(judged(&ds, None, &[child.at("a")]))
    };
    assert_eq!(of(&|child| child.cds_signers.clear()), RefusalReason::Unsigned);
    assert_eq!(of(&|child| child.cds_signers.retain(|k| k.tag() == new.tag())), RefusalReason::WrongSigner);
    assert_eq!(of(&|child| child.cds_signers.retain(|k| k.tag() == zsk.tag())), RefusalReason::WrongSigner);
    assert_eq!(of(&|child| child.signers.retain(|k| k.tag() == new.tag())), RefusalReason::WrongSigner);
    assert_eq!(of(&|child| child.signers.clear()), RefusalReason::Unsigned);
    let expired = Validity { inception: NOW - 2 * DAY, expiration: NOW - DAY };
    assert_eq!(of(&|child| child.when = expired), RefusalReason::BadSignature);
    let early = Validity { inception: NOW + DAY, expiration: NOW + 2 * DAY };
    assert_eq!(of(&|child| child.when = early), RefusalReason::BadSignature);
    // A stranger with other keys has no effect.
    let (mine, _) = (key(9), &old);
    let stranger = TestChild::new(&[&mine]);
    assert_eq!(reason(judged(&ds, None, &[stranger.at("a")])), RefusalReason::WrongSigner);
}

#[test]
fn older_signatures_than_the_last_accepted_are_a_replay() {
    let (old, new) = (key(1), key(2));
    let child = TestChild::new(&[&old, &new]);
    let of = |last| judged(&ds_of(&[&old]), Some(last), &[child.at("a")]);
    assert_eq!(reason(of(NOW - DAY + 1)), RefusalReason::Replayed);
    assert_eq!(of(NOW - DAY), change(ds_of(&[&new])));
    assert_eq!(of(NOW - 2 * DAY), change(ds_of(&[&new])));
    // The oldest of all servers counts.
    let mut newer = TestChild::new(&[&old, &new]);
    newer.when = Validity { inception: NOW - 10, ..valid() };
    let both = judged(&ds_of(&[&old]), Some(NOW - DAY + 1), &[newer.at("a"), child.at("b")]);
    assert_eq!(reason(both), RefusalReason::Replayed);
    let both = judged(&ds_of(&[&old]), None, &[newer.at("a"), child.at("b")]);
    assert_eq!(both, change(ds_of(&[&new])));
}

#[test]
fn digests_that_ds_records_may_not_have_are_left_out() {
    let (old, new) = (key(1), key(2));
    let mut child = TestChild::new(&[&old, &new]);
    let (sha1, gost, sha384) = (ds_with(&new, 1), ds_with(&new, 3), ds_with(&new, 4));
    child.cds.extend([sha1.clone(), gost.clone()]);
    assert_eq!(judged(&ds_of(&[&old]), None, &[child.at("a")]), change(ds_of(&[&new])));
    child.cds = vec![sha1, gost];
    assert_eq!(reason(judged(&ds_of(&[&old]), None, &[child.at("a")])), RefusalReason::UnknownDigest);
    child.cds = vec![sha384.clone()];
    assert_eq!(judged(&ds_of(&[&old]), None, &[child.at("a")]), change(vec![sha384]));
    child.cds = vec![new.ds(super::super::testing::child().as_name())[..20].to_vec()];
    child.cdnskey.clear();
    assert_eq!(reason(judged(&ds_of(&[&old]), None, &[child.at("a")])), RefusalReason::Malformed);
}

#[test]
fn cds_and_cdnskey_are_about_the_same_keys() {
    let (old, new) = (key(1), key(2));
    let mut child = TestChild::new(&[&old, &new]);
    let of = |child: &TestChild<'_>| judged(&ds_of(&[&old]), None, &[child.at("a")]);
    child.cdnskey = vec![old.dnskey.clone()];
    assert_eq!(reason(of(&child)), RefusalReason::Mismatch);
    child.cdnskey = vec![old.dnskey.clone(), new.dnskey.clone()];
    assert_eq!(reason(of(&child)), RefusalReason::Mismatch);
    child.cds = ds_of(&[&old, &new]);
    assert_eq!(of(&child), change(ds_of(&[&old, &new])));
    child.cdnskey = vec![new.dnskey.clone()];
    assert_eq!(reason(of(&child)), RefusalReason::Mismatch);
}

#[test]
fn deletion_is_asked_for_by_exactly_one_record() {
    let (old, new) = (key(1), key(2));
    let mut child = TestChild::new(&[&old]);
    let of = |child: &TestChild<'_>| judged(&ds_of(&[&old]), None, &[child.at("a")]);
    (child.cds, child.cdnskey) = (vec![DELETE_CDS.to_vec()], vec![DELETE_CDNSKEY.to_vec()]);
    assert_eq!(of(&child), change(Vec::new()));
    child.cdnskey.clear();
    assert_eq!(of(&child), change(Vec::new()));
    child.cds_signers.clear();
    assert_eq!(reason(of(&child)), RefusalReason::Unsigned);
    child.cds_signers = vec![&old];
    child.cdnskey = vec![old.dnskey.clone()];
    assert_eq!(reason(of(&child)), RefusalReason::MixedDelete);
    child.cdnskey = vec![DELETE_CDNSKEY.to_vec()];
    child.cds = vec![DELETE_CDS.to_vec(), new.ds(super::super::testing::child().as_name())];
    assert_eq!(reason(of(&child)), RefusalReason::MixedDelete);
    child.cds = vec![vec![0, 1, 0, 0, 0]];
    assert_eq!(reason(of(&child)), RefusalReason::MixedDelete, "a key tag");
    (child.cds, child.cdnskey) = (Vec::new(), vec![DELETE_CDNSKEY.to_vec()]);
    assert_eq!(of(&child), change(Vec::new()));
}

#[test]
fn each_algorithm_of_the_new_set_must_sign_the_zone() {
    let (old, new) = (key(1), SigningKey::random(SigAlgorithm::ECDSAP256SHA256, SigningKey::KSK));
    let mut child = TestChild::new(&[&old, &new]);
    let of = |child: &TestChild<'_>| judged(&ds_of(&[&old]), None, &[child.at("a")]);
    (child.cds, child.cdnskey) = (ds_of(&[&old, &new]), Vec::new());
    assert_eq!(of(&child), change(ds_of(&[&old, &new])));
    child.signers = vec![&old];
    assert_eq!(reason(of(&child)), RefusalReason::Breaks, "the DNSKEY RRset");
    (child.signers, child.zone_signers) = (vec![&old, &new], vec![&old]);
    assert_eq!(reason(of(&child)), RefusalReason::Breaks, "the SOA");
    // A standby key of an algorithm in use need not be published.
    let standby = key(7);
    child.cds = ds_of(&[&old, &standby]);
    assert_eq!(of(&child), change(ds_of(&[&old, &standby])));
    child.cds = ds_of(&[&standby]);
    assert_eq!(reason(of(&child)), RefusalReason::Breaks, "alone");
    // Ed448, which cannot be verified here.
    child.cds = vec![ds_of(&[&old])[0].clone(), [&[0, 9, 16, 2][..], &[1; 32]].concat()];
    assert_eq!(reason(of(&child)), RefusalReason::Breaks);
    let many: Vec<SigningKey> = (20..29).map(key).collect();
    child.cds = ds_of(&many.iter().collect::<Vec<_>>());
    assert_eq!(reason(of(&child)), RefusalReason::TooMany);
}

#[test]
fn a_ds_set_that_nothing_here_can_verify_is_left_alone() {
    let (old, new) = (key(1), key(2));
    let child = TestChild::new(&[&old, &new]);
    let ds = [ds_with(&old, 3)];
    assert_eq!(reason(judged(&ds, None, &[child.at("a")])), RefusalReason::WrongSigner);
}

/// Judges the bootstrapping of an unsigned delegation with these signals.
fn bootstrapped(child: &TestChild<'_>, signals: &[SignalAnswer]) -> Result<CdsDecision, ChildRefusal> {
    let (apex, answers) = (super::super::testing::child(), [child.at("a"), child.at("b")]);
    let cds = answers.iter().map(|answer| ServerAnswer {
        server: answer.server.clone(),
        found: answer.found.clone().map(|(cds, _)| cds),
    });
    let request = CdsRequest::read(apex.as_name(), &cds.collect::<Vec<_>>())?;
    let delegation = DelegationSigners { child: apex.as_name(), ds: &[], last: None };
    request.judge_bootstrap(&delegation, &answers, signals, &ValidationSettings::default(), now())
}

#[test]
fn an_unsigned_delegation_gets_what_all_signaling_names_have() {
    let new = key(2);
    let mut child = TestChild::new(&[&new]);
    let found = [child.cds.clone(), child.cdnskey.clone()];
    let signal = |found| SignalAnswer { name: "_dsboot.child.example._signal.ns.test.".to_owned(), found };
    let good = || signal(Ok(found.clone()));
    assert_eq!(bootstrapped(&child, &[good(), good()]), change(ds_of(&[&new])));
    let of = |signals: &[SignalAnswer]| reason(bootstrapped(&child, signals));
    assert_eq!(of(&[]), RefusalReason::Signal, "no name server outside of the child");
    assert_eq!(of(&[good(), signal(Err("it is not secure".to_owned()))]), RefusalReason::Signal);
    assert_eq!(of(&[good(), signal(Ok([found[0].clone(), Vec::new()]))]), RefusalReason::Signal);
    assert_eq!(of(&[signal(Ok([ds_of(&[&key(3)]), found[1].clone()]))]), RefusalReason::Signal);
    child.signers.clear();
    assert_eq!(reason(bootstrapped(&child, &[good()])), RefusalReason::Breaks);
    (child.cds, child.cdnskey) = (vec![DELETE_CDS.to_vec()], Vec::new());
    let nothing = Ok(CdsDecision::Unchanged { inception: None });
    assert_eq!(bootstrapped(&child, &[good()]), nothing, "there is no DS to delete");
}

/// A child zone at one server, as sets of key numbers.
#[derive(Clone, Debug)]
struct ModelChild {
    keys: u8,
    signers: u8,
    zone_signers: u8,
    cds: u8,
    cds_signers: u8,
}

/// The keys of the model: two of each of two algorithms.
fn pool() -> &'static [SigningKey; 4] {
    static POOL: std::sync::OnceLock<[SigningKey; 4]> = std::sync::OnceLock::new();
    let other = || SigningKey::random(SigAlgorithm::ECDSAP256SHA256, SigningKey::KSK);
    POOL.get_or_init(|| [key(1), key(2), other(), other()])
}

fn chosen(set: u8) -> Vec<&'static SigningKey> {
    pool().iter().enumerate().filter(|(n, _)| set >> n & 1 == 1).map(|(_, key)| key).collect()
}

impl ModelChild {
    /// Whether a validator with this DS set, and with one or both algorithms, finds the child valid or
    /// insecure: for each algorithm of the DS set that it supports and requires.
    fn is_valid(&self, ds: u8) -> bool {
        [0b0011, 0b1100].iter().filter(|algorithm| ds & **algorithm != 0).all(|algorithm| {
            let signs_keys = ds & self.keys & self.signers & algorithm != 0;
            signs_keys && self.keys & self.zone_signers & algorithm != 0
        })
    }

    fn child(&self) -> TestChild<'static> {
        TestChild {
            keys: chosen(self.keys),
            signers: chosen(self.signers),
            zone_signers: chosen(self.zone_signers),
            cds: ds_of(&chosen(self.cds)),
            cdnskey: Vec::new(),
            cds_signers: chosen(self.cds_signers),
            when: valid(),
        }
    }
}

fn model_child() -> impl Strategy<Value = ModelChild> {
    let some = || prop_oneof![2 => Just(0b1111u8), 3 => 0u8..16];
    (some(), some(), some(), 1u8..16, some()).prop_map(|(keys, signers, zone_signers, cds, cds_signers)| {
        ModelChild { keys, signers, zone_signers, cds, cds_signers }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// After an accepted change the child is valid at each server, for validators with the new DS set; what
    /// was accepted was signed by a key of the old one.
    #[test]
    fn no_accepted_change_leaves_the_child_bogus(
        servers in prop::collection::vec(model_child(), 1..3),
        is_equal in any::<bool>(),
        old in 1u8..16,
    ) {
        let mut servers = servers;
        let cds = servers[0].cds;
        servers.iter_mut().filter(|_| is_equal).for_each(|server| server.cds = cds);
        let answers: Vec<Answer> =
            servers.iter().enumerate().map(|(n, server)| server.child().at(&n.to_string())).collect();
        let judged = judged(&ds_of(&chosen(old)), None, &answers);
        let agree = servers.iter().all(|server| server.cds == cds);
        let is_entitled = |server: &ModelChild| {
            server.keys & old & server.signers != 0 && server.keys & old & server.cds_signers != 0
        };
        let is_good = agree
            && servers.iter().all(|server| is_entitled(server) && server.is_valid(cds));
        match judged {
            Ok(CdsDecision::Change { ds, .. }) => {
                prop_assert!(is_good, "accepted");
                prop_assert_eq!(ds, ds_of(&chosen(cds)));
            }
            Ok(CdsDecision::Unchanged { .. }) => prop_assert!(agree && cds == old),
            Err(refusal) => prop_assert!(!is_good || cds == old, "refused: {}", refusal),
        }
    }
}
