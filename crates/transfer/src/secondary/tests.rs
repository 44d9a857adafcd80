//! Secondary zones on virtual time.

use std::collections::HashMap;

use proptest::prelude::*;
use testkit::name;
use wire::edns::{OptionCode, opt_with_options};
use wire::rdata::view::SoaNumbers;
use wire::{Rcode, Serial, UnixTime};

use super::*;
use crate::incoming::{AskedFor, TransferFault};
use crate::tsig::{TsigAlgorithm, TsigKey, sign_request, signature_len};

const START: UnixTime = UnixTime::from_secs(1_700_000_000);

/// The time this many seconds after [`START`].
fn at(seconds: u64) -> UnixTime {
    START.saturating_add(Duration::from_secs(seconds))
}

fn soa(serial: u32) -> SoaNumbers {
    SoaNumbers { serial: Serial(serial), refresh: 1000, retry: 100, expire: 5000, minimum: 60 }
}

fn rules(primaries: usize) -> SecondaryRules {
    SecondaryRules { primaries, ..SecondaryRules::default() }
}

/// Random numbers without jitter.
fn none() -> impl FnMut() -> u32 {
    || 0
}

fn event(zone: &mut SecondaryZone, event: SecondaryEvent, now: UnixTime) -> Option<SecondaryAction> {
    zone.event(event, now, &mut none())
}

/// An SOA reply with this version, without EXPIRE.
fn probed(serial: Serial) -> SecondaryEvent {
    SecondaryEvent::Probed(SoaReply { serial, expire: None })
}

fn failed() -> SecondaryEvent {
    SecondaryEvent::Failed(SecondaryFault::Unreachable)
}

fn rcode(rcode: Rcode) -> SecondaryEvent {
    SecondaryEvent::Failed(SecondaryFault::Transfer(TransferFault::Rcode(rcode)))
}

fn notified(primary: Option<usize>, serial: Option<u32>) -> SecondaryEvent {
    SecondaryEvent::Notified { primary, serial: serial.map(Serial) }
}

fn axfr(primary: usize) -> Option<SecondaryAction> {
    Some(SecondaryAction::Transfer { primary, asked: AskedFor::Axfr })
}

fn ixfr(primary: usize, serial: u32) -> Option<SecondaryAction> {
    Some(SecondaryAction::Transfer { primary, asked: AskedFor::Ixfr(Serial(serial)) })
}

fn probe(primary: usize) -> Option<SecondaryAction> {
    Some(SecondaryAction::Probe { primary })
}

fn due(zone: &SecondaryZone) -> UnixTime {
    zone.due().expect("a time")
}

/// A zone that has had version 5 since [`START`].
fn loaded(primaries: usize) -> SecondaryZone {
    SecondaryZone::kept(rules(primaries), soa(5), START, &mut none())
}

#[test]
fn a_zone_is_loaded_then_refreshed() {
    let mut zone = SecondaryZone::new(rules(1), START);
    assert_eq!((zone.state(START), zone.due()), (SecondaryState::NeverLoaded, Some(START)));
    assert_eq!(zone.poll(START), axfr(0));
    assert_eq!(zone.poll(START), None, "one thing at a time");
    assert_eq!(event(&mut zone, SecondaryEvent::Transferred(soa(5), None), at(3)), None);
    assert_eq!((zone.state(at(3)), zone.due()), (SecondaryState::Fresh, Some(at(1003))));
    assert_eq!(zone.poll(at(1002)), None);
    assert_eq!(zone.poll(at(1003)), probe(0));
    assert_eq!(event(&mut zone, probed(Serial(5)), at(1004)), None);
    assert_eq!(zone.due(), Some(at(2004)));
    assert_eq!(zone.poll(at(2004)), probe(0));
    assert_eq!(event(&mut zone, probed(Serial(6)), at(2005)), ixfr(0, 5));
    assert_eq!(event(&mut zone, SecondaryEvent::Transferred(soa(6), None), at(2006)), None);
    assert_eq!(zone.soa().map(|soa| soa.serial), Some(Serial(6)));
}

#[test]
fn primaries_are_tried_in_turn_then_retried() {
    let mut zone = loaded(3);
    assert_eq!(zone.poll(at(1000)), probe(0));
    assert_eq!(event(&mut zone, failed(), at(1001)), probe(1));
    assert_eq!(event(&mut zone, rcode(Rcode::REFUSED), at(1002)), probe(2));
    assert_eq!(event(&mut zone, failed(), at(1003)), None);
    assert_eq!(zone.due(), Some(at(1103)), "after the retry time");
    let fault = LastFault { at: at(1003), primary: 2, fault: SecondaryFault::Unreachable };
    assert_eq!(zone.last_fault(), Some(&fault));
    assert_eq!(zone.poll(at(1103)), probe(0));
    assert_eq!(event(&mut zone, failed(), at(1104)), probe(1));
    assert_eq!(event(&mut zone, probed(Serial(5)), at(1105)), None);
    assert_eq!(zone.last_fault(), None);
    assert_eq!(zone.poll(at(2105)), probe(1), "the one that was of use");
}

#[test]
fn other_rules_leave_version_and_timers_and_begin_anew_what_was_under_way() {
    let zone = loaded(2).under(rules(1), at(10));
    assert_eq!((zone.soa(), zone.next(), zone.checked()), (Some(soa(5)), at(1000), Some(START)));
    let mut zone = loaded(2);
    assert_eq!(zone.poll(at(1000)), probe(0));
    assert_eq!(event(&mut zone, failed(), at(1001)), probe(1));
    let mut zone = zone.under(rules(1), at(1002));
    assert_eq!((zone.is_under_way(), zone.last_fault()), (false, None));
    assert_eq!(zone.poll(at(1002)), probe(0), "whom it was with may be gone");
    let mut zone = loaded(1).under(SecondaryRules { expire: 0..=2000, ..rules(1) }, START);
    assert_eq!(zone.expires(), Some(at(2000)));
    assert_eq!(zone.poll(at(2000)), Some(SecondaryAction::Expire));
    assert_eq!(zone.expires(), None);
}

#[test]
fn higher_limits_let_those_go_on_that_wait() {
    let one = SecondaryLimits { in_all: 1, per_primary: 1 };
    let mut scheduler = SecondaryScheduler::new(one);
    for _ in 0..5 {
        scheduler.add(SecondaryZone::new(rules(1), START), &[PrimaryId(1)]);
    }
    let begun = |scheduler: &mut SecondaryScheduler| std::iter::from_fn(|| scheduler.poll(START)).count();
    assert_eq!((begun(&mut scheduler), scheduler.load()), (1, (1, 4)));
    scheduler.set_limits(SecondaryLimits { in_all: 4, per_primary: 3 });
    assert_eq!(scheduler.next_due(), Some(UnixTime::EPOCH));
    assert_eq!((begun(&mut scheduler), scheduler.load()), (2, (3, 2)));
    scheduler.set_limits(one);
    assert_eq!((begun(&mut scheduler), scheduler.load()), (0, (3, 2)));
}

#[test]
fn the_whole_zone_is_asked_for_where_differences_fail() {
    for fault in [
        TransferFault::Rcode(Rcode::NOTIMP),
        TransferFault::Rcode(Rcode::FORMERR),
        TransferFault::BrokenChain { reached: Serial(5), found: Serial(4) },
    ] {
        let mut zone = loaded(2);
        zone.poll(at(1000));
        assert_eq!(event(&mut zone, probed(Serial(9)), at(1000)), ixfr(0, 5));
        let fault = SecondaryEvent::Failed(SecondaryFault::Transfer(fault));
        assert_eq!(event(&mut zone, fault, at(1000)), axfr(0));
        assert_eq!(event(&mut zone, failed(), at(1000)), probe(1), "then the next primary");
    }
    let mut zone = loaded(2);
    zone.poll(at(1000));
    event(&mut zone, probed(Serial(9)), at(1000));
    assert_eq!(event(&mut zone, rcode(Rcode::REFUSED), at(1000)), probe(1), "AXFR would be refused, too");
    let mut zone =
        SecondaryZone::kept(SecondaryRules { ixfr: false, ..rules(1) }, soa(5), START, &mut none());
    zone.poll(at(1000));
    assert_eq!(event(&mut zone, probed(Serial(9)), at(1000)), axfr(0));
}

#[test]
fn serials_are_compared_as_rfc_1982_has_it() {
    let probed = |ours: u32, theirs: u32| {
        let mut zone = SecondaryZone::kept(rules(1), soa(ours), START, &mut none());
        zone.poll(at(1000));
        let action = event(&mut zone, probed(Serial(theirs)), at(1000));
        (action.is_some(), zone.last_fault().is_some())
    };
    assert_eq!(probed(u32::MAX, 0), (true, false), "newer");
    assert_eq!(probed(7, 7), (false, false), "the same");
    assert_eq!(probed(7, 6), (false, true), "older");
    assert_eq!(probed(0, u32::MAX), (false, true), "older");
    assert_eq!(probed(0, 1 << 31), (true, false), "as far apart as can be: it is not ours");
}

#[test]
fn a_zone_expires_and_comes_back() {
    let mut zone = loaded(1);
    let mut now = at(1000);
    while now < at(5000) {
        assert_eq!(zone.poll(now), probe(0));
        assert_eq!(event(&mut zone, failed(), now), None);
        assert_eq!(zone.state(now.saturating_add(Duration::from_secs(1))), SecondaryState::Stale);
        now = due(&zone);
    }
    assert_eq!(now, at(5000));
    assert_eq!(zone.poll(now), Some(SecondaryAction::Expire));
    assert_eq!(zone.state(now), SecondaryState::Expired);
    assert_eq!(zone.poll(now), probe(0), "it goes on asking");
    assert_eq!(event(&mut zone, probed(Serial(5)), now), None);
    assert_eq!(zone.state(now), SecondaryState::Fresh);
    // A zone expires at once, even with work under way.
    let mut zone = loaded(1);
    zone.poll(at(1000));
    assert_eq!(zone.due(), Some(at(5000)));
    assert_eq!(zone.poll(at(5000)), Some(SecondaryAction::Expire));
    assert_eq!(zone.due(), None);
}

#[test]
fn a_zone_that_was_never_loaded_is_tried_less_and_less_often() {
    let mut zone = SecondaryZone::new(SecondaryRules { retry: 10..=100, ..rules(1) }, START);
    let mut waits = Vec::new();
    for _ in 0..6 {
        let now = due(&zone);
        assert_eq!(zone.poll(now), axfr(0));
        assert_eq!(event(&mut zone, failed(), now), None);
        waits.push(due(&zone).saturating_duration_since(now).as_secs());
    }
    assert_eq!(waits, [10, 20, 40, 80, 100, 100]);
}

#[test]
fn times_stay_within_bounds() {
    let rules =
        SecondaryRules { refresh: 5000..=6000, retry: 200..=300, expire: 10_000..=20_000, ..rules(1) };
    let mut zone = SecondaryZone::kept(rules, soa(5), START, &mut none());
    assert_eq!(zone.due(), Some(at(5000)));
    zone.poll(at(5000));
    event(&mut zone, failed(), at(5000));
    assert_eq!(zone.due(), Some(at(5200)));
    assert_eq!(zone.state(at(9_999)), SecondaryState::Stale);
    zone.poll(at(9_999));
    assert_eq!(zone.poll(at(10_000)), Some(SecondaryAction::Expire));
}

#[test]
fn notify_asks_the_primary_that_sent_it() {
    let mut zone = loaded(3);
    assert_eq!(event(&mut zone, notified(Some(2), Some(6)), at(10)), probe(2));
    // Events during a query are handled after it, once.
    assert_eq!(event(&mut zone, notified(Some(1), Some(7)), at(11)), None);
    assert_eq!(event(&mut zone, notified(Some(1), None), at(11)), None);
    assert_eq!(event(&mut zone, probed(Serial(6)), at(12)), ixfr(2, 5));
    assert_eq!(event(&mut zone, SecondaryEvent::Transferred(soa(6), None), at(13)), probe(1));
    assert_eq!(event(&mut zone, probed(Serial(6)), at(14)), None);
    assert!(!zone.is_under_way());
    // A version that is not newer is ignored.
    for serial in [6, 5] {
        assert_eq!(event(&mut zone, notified(Some(0), Some(serial)), at(15)), None);
    }
    assert_eq!(event(&mut zone, notified(Some(9), None), at(16)), probe(1), "no such primary: the usual one");
}

#[test]
fn the_operator_may_ask_for_either() {
    let mut zone = loaded(1);
    assert_eq!(event(&mut zone, SecondaryEvent::Refresh, START), probe(0));
    assert_eq!(event(&mut zone, SecondaryEvent::Retransfer, START), None, "after what is under way");
    assert_eq!(event(&mut zone, probed(Serial(5)), START), axfr(0));
    assert_eq!(event(&mut zone, SecondaryEvent::Transferred(soa(5), None), START), None);
    assert_eq!(event(&mut zone, SecondaryEvent::Refresh, START), probe(0));
}

#[test]
fn answers_that_nobody_waits_for_change_nothing() {
    let mut zone = loaded(2);
    assert_eq!(event(&mut zone, probed(Serial(9)), START), None);
    assert_eq!(event(&mut zone, failed(), START), None);
    assert!(zone.last_fault().is_none() && zone.due() == Some(at(1000)));
}

proptest! {
    /// A zone is never stuck, whatever the order of events: work is under way, or a time is set.
    #[test]
    fn a_zone_is_never_stuck(events in prop::collection::vec((0..8u8, 0..2000u64, any::<u32>()), 0..60)) {
        let (mut zone, mut now) = (SecondaryZone::new(rules(2), START), START);
        for (what, later, number) in events {
            now = now.saturating_add(Duration::from_secs(later));
            let mut random = || number;
            let under_way = zone.is_under_way();
            match what {
                0 | 1 => { zone.poll(now); }
                2 => { zone.event(probed(Serial(number)), now, &mut random); }
                3 if under_way => { zone.event(SecondaryEvent::Transferred(soa(number), None), now, &mut random); }
                4 | 5 => { zone.event(failed(), now, &mut random); }
                6 => { zone.event(notified(None, None), now, &mut random); }
                _ => { zone.event(SecondaryEvent::Retransfer, now, &mut random); }
            }
            if !zone.is_under_way() {
                prop_assert!(zone.due() <= Some(now.saturating_add(Duration::from_secs(2_419_200))));
            }
        }
    }

    #[test]
    fn jitter_takes_off_up_to_a_tenth(seconds in 0..1u64 << 33, number: u32) {
        let jittered = with_jitter(Duration::from_secs(seconds), &mut || number).as_secs();
        prop_assert!(jittered <= seconds && jittered >= seconds - seconds / 10);
    }
}

/// A hundred thousand zones start together: the limits always hold, no zone is left out, and a primary that
/// never answers delays only its own zones.
#[test]
fn many_zones_share_few_places() {
    const ZONES: u32 = 100_000;
    let limits = SecondaryLimits { in_all: 50, per_primary: 10 };
    let mut scheduler = SecondaryScheduler::new(limits);
    let mut primary_of = HashMap::new();
    for number in 0..ZONES {
        let primary = PrimaryId(number % 20);
        let id = scheduler.add(SecondaryZone::new(rules(1), START), &[primary]);
        primary_of.insert(id, primary);
    }
    let silent = PrimaryId(7);
    let (mut running, mut loaded): (Vec<SecondaryId>, u32) = (Vec::new(), 0);
    let mut random = || 0;
    loop {
        while let Some((id, action)) = scheduler.poll(START) {
            assert_eq!(Some(action), axfr(0));
            running.push(id);
        }
        assert_eq!(scheduler.load().0, running.len());
        assert!(running.len() <= limits.in_all);
        let mut with: HashMap<PrimaryId, usize> = HashMap::new();
        running.iter().for_each(|id| *with.entry(primary_of[id]).or_default() += 1);
        assert!(with.values().all(|&n| n <= limits.per_primary));
        let Some(at) = running.iter().position(|id| primary_of[id] != silent) else { break };
        let id = running.swap_remove(at);
        scheduler.event(id, SecondaryEvent::Transferred(soa(1), None), START, &mut random);
        loaded += 1;
    }
    assert_eq!(loaded, ZONES - ZONES / 20);
    assert_eq!(scheduler.load(), (10, (ZONES / 20) as usize - 10));
    assert_eq!(scheduler.due(), Some(at(1000)));
}

#[test]
fn a_zone_takes_its_place_along_to_the_next_primary() {
    let mut scheduler = SecondaryScheduler::new(SecondaryLimits { in_all: 2, per_primary: 1 });
    let (a, b) = (PrimaryId(1), PrimaryId(2));
    let first = scheduler.add(SecondaryZone::new(rules(2), START), &[a, b]);
    let second = scheduler.add(SecondaryZone::new(rules(2), START), &[a, b]);
    let mut random = || 0;
    assert_eq!(scheduler.poll(START), Some((first, axfr(0).expect("an action"))));
    assert_eq!(scheduler.poll(START), None, "the second waits for the same primary");
    scheduler.event(first, failed(), START, &mut random);
    let mut next: Vec<_> = std::iter::from_fn(|| scheduler.poll(START)).collect();
    next.sort_by_key(|(id, _)| *id != first);
    assert_eq!(next, [(first, axfr(1).expect("an action")), (second, axfr(0).expect("an action"))]);
    assert!(scheduler.remove(first).is_some() && scheduler.remove(first).is_none());
    assert_eq!(scheduler.load(), (1, 0));
    scheduler.event(second, SecondaryEvent::Transferred(soa(3), None), START, &mut random);
    assert_eq!((scheduler.load(), scheduler.due()), ((0, 0), Some(at(1000))));
    assert_eq!(scheduler.poll(at(1000)), Some((second, probe(0).expect("an action"))));
}

#[test]
fn notify_is_sent_again_until_somebody_replies() {
    let mut sender = NotifySender::new(NotifyRules::default(), 2);
    let mut random = || 0;
    assert_eq!((sender.due(), sender.poll(START, &mut random)), (None, None));
    sender.changed(START);
    assert_eq!(sender.poll(START, &mut random), Some(0));
    assert_eq!(sender.poll(START, &mut random), Some(1));
    assert_eq!(sender.poll(START, &mut random), None);
    sender.replied(0);
    let mut sent = Vec::new();
    while let Some(now) = sender.due() {
        while let Some(secondary) = sender.poll(now, &mut random) {
            sent.push((secondary, now.saturating_duration_since(START).as_secs()));
        }
    }
    assert_eq!(sent, [(1, 2), (1, 6), (1, 14), (1, 30)], "five in all, each wait twice as long");
    sender.changed(at(500));
    assert_eq!(sender.poll(at(500), &mut random), Some(0), "a new change begins anew");
}

/// RFC 8467 §4.1: "Clients SHOULD pad queries to the closest multiple of 128 octets."
#[test]
fn padded_queries_are_multiples_of_128_bytes_with_their_signature() {
    let (apex, mut buf) = (name("a-rather-long-name.of.a.zone.example."), [0; 1024]);
    let rdata = testkit::random::soa(apex.as_name(), 77);
    let key = TsigKey::new(apex.as_name(), TsigAlgorithm::HmacSha256, &[1]).expect("a key");
    let key = std::sync::Arc::new(key);
    for asked in [AskedFor::Axfr, AskedFor::Ixfr(Serial(77))] {
        let plain = AskExpire::Padded { signature: 0 };
        let len = transfer_query(&mut buf, 9, apex.as_name(), asked, &rdata, plain).expect("room");
        assert!(len.is_multiple_of(128), "{len}");
        let signed = AskExpire::Padded { signature: signature_len(&key) };
        let len = transfer_query(&mut buf, 9, apex.as_name(), asked, &rdata, signed).expect("room");
        let (len, _) = sign_request(&key, &mut buf, len, UnixTime::from_secs(1)).expect("room");
        assert!(len.is_multiple_of(128), "{len}");
    }
}

#[test]
fn messages_are_read_back() {
    let apex = name("Example.");
    let rdata = testkit::random::soa(apex.as_name(), 77);
    let mut buf = [0; 512];
    let len = notify_query(&mut buf, 9, apex.as_name(), &rdata).expect("room");
    let notification = read_notify(&buf[..len]).expect("NOTIFY");
    assert_eq!((notification.apex, notification.serial), (apex, Some(Serial(77))));
    assert_eq!(notify_reply(&buf[..len], 9, apex.as_name()), None, "no reply");
    buf[2] |= 0x80;
    assert_eq!(notify_reply(&buf[..len], 9, apex.as_name()), Some(Rcode::NOERROR));
    assert_eq!(notify_reply(&buf[..len], 8, apex.as_name()), None);
    assert_eq!(notify_reply(&buf[..len], 9, name("other.").as_name()), None);
    assert!(read_notify(&buf[..len]).is_err());

    let len = transfer_query(&mut buf, 9, apex.as_name(), AskedFor::Ixfr(Serial(77)), &rdata, AskExpire::Yes)
        .expect("room");
    let read = crate::outgoing::IxfrRequest::read(&buf[..len]).expect("a request");
    assert_eq!(read.serial, Serial(77));
    assert!(transfer_query(&mut [0; 20], 9, apex.as_name(), AskedFor::Axfr, &[], AskExpire::Yes).is_err());

    let len = soa_query(&mut buf, 9, apex.as_name(), AskExpire::No).expect("room");
    let mut reply = buf[..len].to_vec();
    reply.extend_from_slice(&[0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 9]);
    reply.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
    reply.extend_from_slice(&rdata);
    let read = |reply: &[u8]| read_soa_reply(reply, 9, apex.as_name());
    assert_eq!(read(&reply), Err(TransferFault::NotTheResponse));
    (reply[2], reply[7]) = (0x84, 1);
    assert_eq!(read(&reply), Ok(SoaReply { serial: Serial(77), expire: None }));
    let with_expire = |data: &[u8]| {
        let opt = opt_with_options(1232, false, &[(OptionCode::NSID, b"x"), (OptionCode::EXPIRE, data)]);
        let mut reply = [&reply[..], &opt].concat();
        reply[11] = 1;
        read(&reply).map(|reply| reply.expire)
    };
    assert_eq!((with_expire(&[0, 0, 1, 0]), with_expire(&[1, 0])), (Ok(Some(256)), Ok(None)));
    // Regression: of two OPT records the first was accepted (RFC 6891 §6.1.1).
    let opt = opt_with_options(1232, false, &[]);
    for counts in [[0, 2], [1, 1]] {
        let mut reply = [&reply[..], &opt, &opt].concat();
        (reply[9], reply[11]) = (counts[0], counts[1]);
        assert_eq!(read(&reply), Err(TransferFault::Malformed));
    }
    reply[2] = 0x80;
    assert_eq!(read(&reply), Err(TransferFault::NoSoa), "not from the zone itself");
    reply[2] = 0x86;
    assert_eq!(read(&reply), Err(TransferFault::Truncated));
    reply[3] = 5;
    assert_eq!(read(&reply), Err(TransferFault::Rcode(Rcode::REFUSED)));
    for cut in 0..reply.len() {
        assert!(read(&reply[..cut]).is_err() && read_notify(&reply[..cut]).is_err());
    }
}

/// Versions that expire after 5000 seconds, and the primary's EXPIRE (RFC 7314 §4).
#[test]
fn secondaries_in_a_chain_do_not_lengthen_each_others_life() {
    let life = Duration::from_secs(soa(5).expire.into());
    let mut zone = SecondaryZone::new(rules(1), START);
    assert_eq!(zone.poll(START), axfr(0));
    // A transfer: the primary's EXPIRE counts instead of the SOA's.
    event(&mut zone, SecondaryEvent::Transferred(soa(5), Some(700)), at(0));
    assert_eq!((zone.expires(), zone.vouched()), (Some(at(700)), Some(at(700).saturating_sub(life))));
    // The same version with a smaller EXPIRE: ours stays.
    zone.event(SecondaryEvent::Refresh, at(100), &mut none());
    event(&mut zone, SecondaryEvent::Probed(SoaReply { serial: Serial(5), expire: Some(500) }), at(100));
    assert_eq!(zone.expires(), Some(at(700)));
    // A larger EXPIRE counts, also in a response to IXFR.
    zone.event(SecondaryEvent::Refresh, at(200), &mut none());
    event(&mut zone, SecondaryEvent::Probed(SoaReply { serial: Serial(5), expire: Some(900) }), at(200));
    assert_eq!(zone.expires(), Some(at(1100)));
    zone.event(SecondaryEvent::Refresh, at(300), &mut none());
    event(&mut zone, SecondaryEvent::Unchanged(Some(1000)), at(300));
    assert_eq!((zone.expires(), zone.checked()), (Some(at(1300)), Some(at(300))));
    // Never more than the SOA's expire, which also counts if EXPIRE is absent.
    zone.event(SecondaryEvent::Refresh, at(400), &mut none());
    event(&mut zone, SecondaryEvent::Unchanged(Some(u32::MAX)), at(400));
    assert_eq!(zone.expires(), Some(at(400).saturating_add(life)));
    zone.event(SecondaryEvent::Refresh, at(500), &mut none());
    event(&mut zone, probed(Serial(5)), at(500));
    assert_eq!(zone.expires(), Some(at(500).saturating_add(life)));
    // Another version starts over.
    zone.event(SecondaryEvent::Retransfer, at(600), &mut none());
    event(&mut zone, SecondaryEvent::Transferred(soa(6), Some(50)), at(600));
    assert_eq!(zone.expires(), Some(at(650)));
    // Stored and reloaded, the zone expires at the same time.
    let vouched = zone.vouched().expect("a version");
    let kept = SecondaryZone::kept(rules(1), soa(6), vouched, &mut none());
    assert_eq!(kept.expires(), Some(at(650)));
}

#[test]
fn a_zone_that_expired_with_its_primary_stays_expired() {
    let mut zone = SecondaryZone::new(rules(1), START);
    zone.poll(START);
    event(&mut zone, SecondaryEvent::Transferred(soa(5), Some(10)), START);
    assert_eq!(zone.poll(at(10)), Some(SecondaryAction::Expire));
    zone.event(SecondaryEvent::Refresh, at(11), &mut none());
    event(&mut zone, SecondaryEvent::Probed(SoaReply { serial: Serial(5), expire: Some(0) }), at(11));
    assert_eq!((zone.state(at(11)), zone.expires()), (SecondaryState::Expired, None));
    zone.event(SecondaryEvent::Refresh, at(12), &mut none());
    event(&mut zone, SecondaryEvent::Probed(SoaReply { serial: Serial(5), expire: Some(5) }), at(12));
    assert_eq!((zone.state(at(12)), zone.expires()), (SecondaryState::Fresh, Some(at(17))));
}
