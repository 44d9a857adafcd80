//! Signed messages.
//!
//! RFC 8945 §5.2.2: "If a TSIG fails to verify, the server MUST generate an error response as specified in
//! Section 5.3.2 with RCODE 9 (NOTAUTH) and TSIG ERROR 16 (BADSIG)." Only this target has the key, so no
//! input verifies; messages that the target signs do, until a byte is changed.

use std::sync::Arc;

use transfer::tsig::{TsigAlgorithm, TsigKey, TsigKeys, find, read_keys, sign_request, verify};
use wire::message::{HEADER_LEN, MAX_MESSAGE};
use wire::{Name, UnixTime};

const NOW: UnixTime = UnixTime::from_secs(1_700_000_000);
/// The name of the key in the corpus.
const KEY: &[u8] = b"\x03key\x07example\0";

pub(crate) fn run(message: &[u8]) {
    if let Ok(text) = std::str::from_utf8(message) {
        let _ = read_keys(text);
    }
    let name = Name::from_wire(KEY).expect("a name");
    let algorithm = TsigAlgorithm::ALL[message.len() % TsigAlgorithm::ALL.len()];
    let key = TsigKey::new(name, algorithm, b"known to this target").expect("a key");
    let keys = TsigKeys::new([key.clone()]).expect("one key");
    let key = Arc::new(key);

    let Ok(found) = find(message) else { return };
    if let Some(at) = found {
        assert!(verify(message, at, &keys, NOW).is_err());
    }
    let mut signed = message.to_vec();
    signed.resize((message.len() + 300).min(MAX_MESSAGE), 0);
    let Ok((len, mut verifier)) = sign_request(&key, &mut signed, message.len(), NOW) else { return };
    signed.truncate(len);
    // A message that already has a TSIG now has two, which is an error (RFC 8945 §5.1).
    assert_eq!(find(&signed).is_ok(), found.is_none());
    let Ok(Some(at)) = find(&signed) else { return };
    let mut signer = verify(&signed, at, &keys, NOW).expect("our own signature").signer();

    let mut reply = message.to_vec();
    reply.resize(signed.len(), 0);
    let len = signer.sign(&mut reply, message.len(), NOW).expect("as long as the request");
    let reply_at = find(&reply[..len]).expect("a message");
    assert_eq!(verifier.message(&reply[..len], reply_at, NOW), Ok(()));
    assert_eq!(verifier.end(), Ok(()));

    // The ID is not signed; everything else up to the TSIG record is.
    if let Some(byte) = message.last()
        && let Some(place) = signed.get_mut(HEADER_LEN + *byte as usize % (message.len() - HEADER_LEN).max(1))
    {
        *place ^= 1 << (byte & 7);
        assert!(message.len() == HEADER_LEN || verify(&signed, at, &keys, NOW).is_err());
    }
}
