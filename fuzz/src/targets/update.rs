//! Updates from clients that send anything.
//!
//! RFC 2136 §3.7: a server applies all of a request or nothing; §3.6: "the zone's SOA SERIAL" is incremented
//! if anything has changed. §3.4.2: the zone keeps its SOA and an NS record, and no CNAME is added beside
//! other data. The next version, made at once for all requests, equals the one made by the individual
//! changes, as they are stored and sent.

use std::cmp::Ordering;
use std::sync::Arc;

use update::{Requester, SerialPolicy, UpdateLimits, UpdatePolicy, UpdateRequest, Updater};
use wire::{Type, UnixTime};
use zone::store::ChangeSet;
use zone::Zone;

use crate::zones::{self, records};

fn zone() -> Arc<Zone> {
    zones::zone(&[
        ("www.example.", Type::A, &[192, 0, 2, 2]),
        ("*.wild.example.", Type::TXT, b"\x01x"),
        ("alias.example.", Type::CNAME, b"\x03www\x07example\0"),
        ("sub.example.", Type::NS, b"\x02ns\x03sub\x07example\0"),
        ("ns.sub.example.", Type::A, &[192, 0, 2, 3]),
    ])
}

/// Checks what must hold for every zone.
fn check(zone: &Zone) {
    assert!(zone.iter().all(|node| node.owner().is_at_or_below(zone.apex())));
    assert!(zone.apex_node().rrset(Type::SOA).is_some() && zone.apex_node().rrset(Type::NS).is_some());
    for node in zone {
        let beside = node.rrsets().filter(|set| !set.rtype().may_be_beside_cname()).count();
        assert!(node.rrset(Type::CNAME).is_none() || beside == 1, "{}", node.owner().as_name());
    }
}

pub(crate) fn run(data: &[u8]) {
    let Some((&kind, mut rest)) = data.split_first() else { return };
    let serial = [SerialPolicy::Increment, SerialPolicy::UnixTime, SerialPolicy::Date][usize::from(kind) % 3];
    let policy = UpdatePolicy::new(["grant any zone ANY".parse().expect("a rule")]);
    let address = [192, 0, 2, 9].into();
    let permission = policy.permission(Requester { key: None, address, certificate: None });
    let first = zone();
    let mut updater = Updater::new(&first);
    let mut one_by_one = Arc::clone(&first);
    while let Some((len, behind)) = rest.split_first_chunk::<2>() {
        let (message, later) = behind.split_at((u16::from_be_bytes(*len) as usize).min(behind.len()));
        rest = later;
        let Ok(request) = UpdateRequest::read(message, UpdateLimits { records: 100 }) else { continue };
        let before = updater.serial();
        match updater.apply(&request, &permission, serial, UnixTime::from_secs(1_795_327_230)) {
            Ok(Some(change)) => {
                assert_eq!((change.before, change.after), (before, updater.serial()));
                assert_eq!(before.compare(change.after), Some(Ordering::Less));
                assert!(change.is_difference_sequence());
                one_by_one = Arc::new(one_by_one.apply(&change).expect("the change fits"));
                check(&one_by_one);
            }
            Ok(None) | Err(_) => assert_eq!(updater.serial(), before),
        }
    }
    let last = updater.finish().expect("a zone");
    let (last, change) = last.map_or((None, ChangeSet::default()), |(zone, change)| (Some(zone), change));
    assert_eq!(first.serial() == one_by_one.serial(), change.is_empty());
    assert_eq!(records(last.as_ref().unwrap_or(&first)), records(&one_by_one));
}
