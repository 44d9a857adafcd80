//! Key signing requests: any text is a request of the zone, or has a fault with a line of the text. A request
//! comes back from the text that is written of it, and so does the response that a KSK makes to it.
//!
//! RFC 4035 §2.2: "There MUST be an RRSIG for each RRset using at least one DNSKEY of each algorithm in the
//! zone apex DNSKEY RRset." A request whose slots have other algorithms than the KSK is refused.

use std::sync::LazyLock;
use std::time::Duration;

use signer::key::ZoneKey;
use signer::key::text::{PrivateText, PublicText};
use signer::rollover::KeyId;
use signer::rollover::offline::{KeySigningRequest, SignedKeyResponse, SlotSigning, sign_request};
use wire::rdata::view::{Dnskey, Ds};
use wire::{Name, Ttl, UnixTime};

use super::signed_response::{NOW, ZONE, bare};

/// The KSK of the corpus of `signed_response`.
const PRIVATE: &str = "Private-key-format: v1.3\nAlgorithm: 15 (ED25519)\n\
    PrivateKey: OFD9kxY/ZdFcyIy4DicnubpiwNQyTHPMj55bJj9woMk=\n\
    Publish: 20261201000000\nActivate: 20261201000000\n";
const PUBLIC: &str = "example. 3600 IN DNSKEY 257 3 15 qfa5xIiEuiBxbAmVJeeP3jKZ3xkjB/x9mSViBubhXyQ=\n";
/// A few slots of a response: more of them take longer, and no other code.
const SIGNED: Duration = Duration::from_secs(40 * 86_400);
const VALIDITY: Duration = Duration::from_secs(30 * 86_400);
const REFRESH: Duration = Duration::from_secs(20 * 86_400);

/// The last time that a text can have.
const LAST: UnixTime = UnixTime::from_secs(u32::MAX as u64);

static KSK: LazyLock<ZoneKey> = LazyLock::new(|| {
    let private = PrivateText::parse(PRIVATE).expect("a key");
    let public = PublicText::parse(PUBLIC).expect("a key");
    ZoneKey::join(public, private.key, private.times).expect("a key")
});

pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let zone = Name::from_wire(ZONE).expect("a name");
    let request = match KeySigningRequest::parse(text, zone) {
        Ok(request) => request,
        Err(fault) => {
            assert!((1..=text.lines().count().max(1)).contains(&fault.line), "{fault}");
            return;
        }
    };
    assert!(!request.slots.is_empty());
    assert!(request.slots.is_sorted_by(|one, next| one.inception < next.inception));
    let written = request.write(zone, NOW);
    // Without a TTL, the records are written with the TTL 0.
    let mut expected = request.clone();
    expected.slots.iter_mut().for_each(|slot| slot.ttl = Some(slot.ttl.unwrap_or(Ttl::ZERO)));
    assert_eq!(KeySigningRequest::parse(&written, zone).as_ref(), Ok(&expected), "{written}");
    signs(&request, zone);
}

fn signs(request: &KeySigningRequest, zone: Name<'_>) {
    let start: UnixTime = request.slots[0].inception;
    let how = SlotSigning {
        validity: VALIDITY,
        refresh: REFRESH,
        inception_offset: Duration::from_secs(3600),
        until: request.until.unwrap_or(UnixTime::from_secs(u64::MAX)).min(start.saturating_add(SIGNED)),
        digests: vec![Ds::SHA256],
    };
    let Ok(response) = sign_request(zone, request, std::slice::from_ref(&KSK), &how) else { return };
    let ksk = KeyId::of(&KSK);
    for slot in &response.slots {
        let of_request = request.slots.iter().rfind(|one| one.inception <= slot.inception);
        let of_request = of_request.expect("no slot begins before the request");
        assert!(of_request.dnskeys.iter().all(|rdata| slot.dnskeys().contains(rdata)));
        assert_eq!(slot.signers(), [ksk]);
        let other = slot.dnskeys().iter().find(|rdata| {
            Dnskey::read(rdata).is_ok_and(|key| key.algorithm != ksk.algorithm)
        });
        assert_eq!(other, None, "a DNSKEY record of an algorithm that signs nothing");
    }
    // Texts have times until 2106.
    if response.slots.iter().any(|slot| slot.inception > LAST) {
        return;
    }
    let written = response.write(zone, NOW);
    let again = SignedKeyResponse::parse(&written, zone).expect("our own text");
    assert_eq!(bare(again), bare(response), "{written}");
}
