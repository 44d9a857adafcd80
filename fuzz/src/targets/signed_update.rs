//! Signed updates: TSIG, the rules for the key, and the change.
//!
//! RFC 2136 §3.3: "if a REFUSED condition is encountered after an update has been partially applied, it will
//! be necessary to undo the partial update and restore the zone to its original state". So records outside
//! the grants of a client stay, whatever it sends. RFC 8945 §5.2: a message that was changed after it was
//! signed is refused. The same message has the same identity, by which it is recognized if it comes again.

use std::sync::Arc;

use transfer::tsig::{TsigAlgorithm, TsigKey, TsigKeys, find, sign_request, verify};
use update::{Requester, SerialPolicy, UpdateLimits, UpdatePolicy, UpdateRequest, Updater};
use wire::message::{HEADER_LEN, MAX_MESSAGE};
use wire::{Type, UnixTime};
use zone::Zone;

use crate::zones::{self, name};

const NOW: UnixTime = UnixTime::from_secs(1_795_327_230);
/// The rules of the zone. The keys are `host.example.` and `other.test.`.
const RULES: [&str; 4] = [
    "deny key:host.example name locked.host.example.",
    "grant key:host.example selfsub ANY",
    "grant key:other.test name www.example. A",
    "grant 192.0.2.0/28 name free.example. TXT",
];

fn zone() -> Arc<Zone> {
    zones::zone(&[
        ("www.example.", Type::A, &[192, 0, 2, 2]),
        ("www.example.", Type::TXT, b"\x01w"),
        ("host.example.", Type::A, &[192, 0, 2, 3]),
        ("a.host.example.", Type::TXT, b"\x01x"),
        ("locked.host.example.", Type::A, &[192, 0, 2, 4]),
        ("free.example.", Type::TXT, b"\x01f"),
    ])
}

/// The records that a requester must not change, but for the SOA record.
fn kept(zone: &Zone, mine: &dyn Fn(&str, Type) -> bool) -> Vec<(String, u16, Vec<u8>)> {
    let mut all = Vec::new();
    for node in zone {
        let owner = node.owner().as_name().to_string();
        for set in node.rrsets().filter(|set| set.rtype() != Type::SOA && !mine(&owner, set.rtype())) {
            for rdata in set.rdatas() {
                let mut data = Vec::new();
                rdata.copy_to(&mut data);
                all.push((owner.clone(), set.rtype().0, data));
            }
        }
    }
    all.sort();
    all
}

pub(crate) fn run(data: &[u8]) {
    let Some((&kind, message)) = data.split_first() else { return };
    let of = |text: &str| {
        let (name, algorithm) =
            (name(text), TsigAlgorithm::ALL[usize::from(kind >> 4) % TsigAlgorithm::ALL.len()]);
        TsigKey::new(name.as_name(), algorithm, text.as_bytes()).expect("a key")
    };
    let both = [of("host.example."), of("other.test.")];
    let keys = TsigKeys::new(both.clone()).expect("two keys");
    // The third requester signs nothing.
    let key = both.get(usize::from(kind) % 3).cloned().map(Arc::new);
    let mut request = message.to_vec();
    // Only a well-formed message can be signed, and one alone that has no TSIG record yet.
    let Ok(None) = find(message) else { return };
    if let Some(key) = &key {
        request.resize((message.len() + 300).min(MAX_MESSAGE), 0);
        let Ok((len, _)) = sign_request(key, &mut request, message.len(), NOW) else { return };
        request.truncate(len);
        let at = find(&request).expect("a message").expect("a TSIG record");
        let verified = verify(&request, at, &keys, NOW).expect("our own signature");
        assert_eq!(verified.key().name(), key.name());
        assert_eq!(verify(&request, at, &keys, NOW).expect("again").id(), verified.id());
        // The ID is not signed.
        let place = 2 + usize::from(kind) % message.len().saturating_sub(2).max(1);
        if place < message.len() && message.len() > HEADER_LEN {
            let mut changed = request.clone();
            changed[place] ^= 1 << (kind & 7);
            let is_refused = match find(&changed) {
                Ok(Some(at)) => verify(&changed, at, &keys, NOW).is_err(),
                Ok(None) | Err(_) => true,
            };
            assert!(is_refused, "byte {place}");
        }
    }
    let policy = UpdatePolicy::new(RULES.map(|rule| rule.parse().expect("a rule")));
    let named = key.as_ref().map(|key| key.name());
    let address = [192, 0, 2, kind & 31].into();
    let permission = policy.permission(Requester { key: named, address, certificate: None });
    let Ok(update) = UpdateRequest::read(&request, UpdateLimits { records: 100 }) else { return };
    let first = zone();
    let mut updater = Updater::new(&first);
    let applied = updater.apply(&update, &permission, SerialPolicy::Increment, NOW);
    let Some((last, _)) = updater.finish().expect("a zone") else {
        return assert!(!matches!(applied, Ok(Some(_))));
    };
    let is_near = kind & 31 < 16;
    let mine = |owner: &str, rtype: Type| match named.map(|name| name.as_name().to_string()).as_deref() {
        Some("host.example.") if owner == "host.example." || owner.ends_with(".host.example.") => {
            owner != "locked.host.example."
        }
        Some("other.test.") if owner == "www.example." && rtype == Type::A => true,
        _ => is_near && owner == "free.example." && rtype == Type::TXT,
    };
    assert_eq!(kept(&first, &mine), kept(&last, &mine));
}
