//! Signing and verifying: against messages signed by another implementation, and all faults in RFC 8945.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use wire::message::{HEADER_LEN, Header, Offset};
use wire::{NameBuf, Rcode, UnixTime};

use super::*;

const NOW: UnixTime = UnixTime::from_secs(1_700_000_000);
const SECRET: &str = "c2VjcmV0IG9mIHRoZSB0ZXN0cyBvZiB0cmFuc2ZlcnM=";
/// Messages signed by dnspython.
const VECTORS: &str = include_str!("vectors.txt");

fn name(text: &str) -> NameBuf {
    text.parse().expect("a name")
}

fn key_with(algorithm: TsigAlgorithm) -> TsigKey {
    TsigKey::from_base64(name("kEY.example.").as_name(), algorithm, SECRET).expect("a key")
}

fn keys_with(algorithm: TsigAlgorithm) -> TsigKeys {
    let other = TsigKey::new(name("other.").as_name(), TsigAlgorithm::HmacSha256, b"other").expect("a key");
    TsigKeys::new([other, key_with(algorithm)]).expect("two names")
}

fn key() -> Arc<TsigKey> {
    Arc::new(key_with(TsigAlgorithm::HmacSha256))
}

fn keys() -> TsigKeys {
    keys_with(TsigAlgorithm::HmacSha256)
}

/// The vectors with this algorithm and kind, in order.
fn vectors(algorithm: TsigAlgorithm, kind: &str) -> Vec<Vec<u8>> {
    let front = format!("{algorithm} {kind} ");
    let hex = VECTORS.lines().filter_map(|line| line.strip_prefix(front.as_str()));
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("text"), 16).expect("hex");
    hex.map(|hex| hex.as_bytes().chunks(2).map(byte).collect()).collect()
}

/// A query for `example. AXFR`.
fn query() -> Vec<u8> {
    [Header::query(0x1234).as_bytes().as_slice(), b"\x07Example\0\0\xfc\0\x01"].concat()
}

/// A message of a response, with no records.
fn response(rcode: Rcode) -> Vec<u8> {
    let mut message = query();
    let mut header = Header::query(0x1234).reply();
    header.set_counts([1, 0, 0, 0]);
    header.set_rcode(rcode);
    message[..HEADER_LEN].copy_from_slice(header.as_bytes());
    message
}

/// Extends a message by spare room, applies `change` to both, and returns the resulting message.
fn extended<T>(message: &[u8], change: impl FnOnce(&mut [u8], usize) -> (usize, T)) -> (Vec<u8>, T) {
    let mut buf = message.to_vec();
    buf.resize(message.len() + 512, 0xee);
    let (len, value) = change(&mut buf, message.len());
    buf.truncate(len);
    (buf, value)
}

fn request_with(key: &Arc<TsigKey>, now: UnixTime) -> (Vec<u8>, ResponseVerifier) {
    extended(&query(), |buf, len| sign_request(key, buf, len, now).expect("room"))
}

fn request() -> (Vec<u8>, ResponseVerifier) {
    request_with(&key(), NOW)
}

fn signed(signer: &mut ResponseSigner, message: &[u8], now: UnixTime) -> Vec<u8> {
    extended(message, |buf, len| (signer.sign(buf, len, now).expect("room"), ())).0
}

fn at(message: &[u8]) -> Offset {
    find(message).expect("a message").expect("a TSIG record")
}

fn check(message: &[u8], keys: &TsigKeys, now: UnixTime) -> Result<Verified, TsigError> {
    verify(message, at(message), keys, now)
}

/// The error of a rejected request, and the response with it.
fn refusal(message: &[u8], keys: &TsigKeys, now: UnixTime) -> (TsigRcode, Vec<u8>) {
    let Err(error) = check(message, keys, now) else { panic!("verified") };
    assert_eq!(error.rcode(), Rcode::NOTAUTH);
    let TsigError::Refused(refusal) = error else { panic!("{error}") };
    let plain = response(Rcode::NOTAUTH);
    let (reply, ()) = extended(&plain, |buf, len| (refusal.append(buf, len, now).expect("room"), ()));
    assert_eq!(reply.len() - plain.len(), refusal.reserve());
    (refusal.error(), reply)
}

#[test]
fn requests_that_another_implementation_signed_are_verified() {
    for algorithm in TsigAlgorithm::ALL {
        let [request] = &vectors(algorithm, "request")[..] else { panic!("{algorithm}") };
        let verified = check(request, &keys_with(algorithm), NOW).expect("a good signature");
        assert_eq!(verified.key().algorithm(), algorithm);
        assert_eq!(verified.key().name().to_string(), "key.example.");
    }
}

#[test]
fn responses_that_another_implementation_signed_are_verified() {
    for algorithm in TsigAlgorithm::ALL {
        let (signed, mut verifier) = request_with(&Arc::new(key_with(algorithm)), NOW);
        let [request] = &vectors(algorithm, "request")[..] else { panic!("{algorithm}") };
        let mac =
            |message: &[u8]| record::TsigRecord::read(message, at(message)).expect("a record").mac.to_vec();
        assert_eq!(mac(&signed), mac(request), "our MAC of the same request is the same");
        let messages = [vectors(algorithm, "response"), vectors(algorithm, "later")].concat();
        assert!(messages.len() == if algorithm == TsigAlgorithm::HmacSha256 { 3 } else { 1 });
        for message in &messages {
            assert_eq!(verifier.message(message, Some(at(message)), NOW), Ok(()), "{algorithm}");
            assert_eq!(verifier.end(), Ok(()));
        }
    }
}

#[test]
fn what_we_sign_as_a_server_is_what_another_implementation_signs() {
    for algorithm in TsigAlgorithm::ALL {
        let [request] = &vectors(algorithm, "request")[..] else { panic!("{algorithm}") };
        let mut signer = check(request, &keys_with(algorithm), NOW).expect("good").signer();
        for theirs in [vectors(algorithm, "response"), vectors(algorithm, "later")].concat() {
            let tsig_at = at(&theirs);
            let their_record = record::TsigRecord::read(&theirs, tsig_at).expect("a record");
            let mut plain = theirs[..tsig_at.index()].to_vec();
            plain[11] -= 1;
            let ours = signed(&mut signer, &plain, NOW);
            let our_record = record::TsigRecord::read(&ours, at(&ours)).expect("a record");
            assert_eq!(our_record.mac, their_record.mac, "{algorithm}");
        }
    }
}

#[test]
fn signing_reserves_what_it_takes() {
    let plain = response(Rcode::NOERROR);
    let (request, _) = request();
    let mut signer = check(&request, &keys(), NOW).expect("good").signer();
    let needed = plain.len() + signer.reserve();
    for room in [plain.len(), needed - 1] {
        let mut buf = plain.clone();
        buf.resize(room, 0);
        assert!(signer.sign(&mut buf, plain.len(), NOW).is_err());
        assert_eq!(buf[..plain.len()], plain, "the message is as before");
    }
    let mut buf = plain.clone();
    buf.resize(needed, 0);
    assert_eq!(signer.sign(&mut buf, plain.len(), NOW), Ok(needed));
}

/// RFC 8945 §5.2.1 and §5.3.2: BADKEY, without a MAC.
#[test]
fn an_unknown_key_or_algorithm_is_badkey() {
    let (message, mut verifier) = request();
    for keys in [TsigKeys::default(), keys_with(TsigAlgorithm::HmacSha512)] {
        let (error, reply) = refusal(&message, &keys, NOW);
        assert_eq!(error, TsigRcode::BADKEY);
        let record = record::TsigRecord::read(&reply, at(&reply)).expect("a record");
        assert!(record.mac.is_empty() && record.other.is_empty());
        assert_eq!((record.error, record.original_id), (TsigRcode::BADKEY, 0x1234));
        assert_eq!(
            verifier.message(&reply, Some(at(&reply)), NOW),
            Err(ResponseError::Refused { error, authentic: false, server_time: None })
        );
    }
}

#[test]
fn md5_is_badkey() {
    let (mut message, _) = request();
    let start = at(&message).index();
    message.truncate(start);
    message[11] = 0;
    let (owner, algorithm) = (name("key.example."), name("hmac-md5.sig-alg.reg.int."));
    let record = record::NewTsig {
        owner: owner.as_name(),
        algorithm: algorithm.as_name(),
        time: NOW,
        fudge: FUDGE,
        mac: &[7; 16],
        original_id: 0x1234,
        error: TsigRcode::NOERROR,
        other: &[],
    };
    let (message, ()) = extended(&message, |buf, len| (record.append(buf, len).expect("room"), ()));
    assert_eq!(refusal(&message, &keys(), NOW).0, TsigRcode::BADKEY);
}

/// RFC 8945 §5.2.2 and §5.3.2: BADSIG, without a MAC.
#[test]
fn another_secret_is_badsig() {
    let other =
        TsigKey::new(name("key.example.").as_name(), TsigAlgorithm::HmacSha256, b"guess").expect("key");
    let (message, _) = request_with(&Arc::new(other), NOW);
    let (error, reply) = refusal(&message, &keys(), NOW);
    assert_eq!(error, TsigRcode::BADSIG);
    assert!(record::TsigRecord::read(&reply, at(&reply)).expect("a record").mac.is_empty());
}

/// RFC 8945 §5.2.3: BADTIME, signed, with the time of the request and in other data that of the server.
#[test]
fn a_time_beyond_the_fudge_is_badtime_and_signed() {
    let (message, _) = request();
    for time in [NOW.saturating_sub(Duration::from_secs(300)), NOW.saturating_add(Duration::from_secs(300))] {
        assert!(check(&message, &keys(), time).is_ok());
    }
    for time in [NOW.saturating_sub(Duration::from_secs(301)), NOW.saturating_add(Duration::from_secs(301))] {
        let (error, reply) = refusal(&message, &keys(), time);
        assert_eq!(error, TsigRcode::BADTIME);
        assert_eq!(record::TsigRecord::read(&reply, at(&reply)).expect("a record").time, NOW);
        let (_, mut verifier) = request();
        assert_eq!(
            verifier.message(&reply, Some(at(&reply)), NOW),
            Err(ResponseError::Refused { error, authentic: true, server_time: Some(time) })
        );
    }
}

/// A client that chooses a fudge of 18 hours gets what the key accepts; one that chooses less gets that.
#[test]
fn the_fudge_is_the_smaller_one_of_client_and_server() {
    let of = |fudge| Arc::new(key_with(TsigAlgorithm::HmacSha256).with_fudge(fudge));
    let keys_of = |fudge| TsigKeys::new([TsigKey::clone(&of(fudge))]).expect("one");
    for (client, server, seconds) in
        [(u16::MAX, 300, 300), (300, 20, 20), (20, 300, 20), (u16::MAX, 3600, 3600)]
    {
        let (message, mut verifier) = request_with(&of(client), NOW);
        let read = record::TsigRecord::read(&message, at(&message)).expect("a record");
        assert_eq!(read.fudge, client, "it is what the key says");
        let last = NOW.saturating_add(Duration::from_secs(seconds));
        let good = check(&message, &keys_of(server), last).expect("within the fudge");
        assert_eq!((good.signed_at(), good.valid_until()), (NOW, last));
        let after = last.saturating_add(Duration::from_secs(1));
        let (error, reply) = refusal(&message, &keys_of(server), after);
        assert_eq!(error, TsigRcode::BADTIME);
        // The client accepts the error as authentic, whatever its own clock says.
        let refused = ResponseError::Refused { error, authentic: true, server_time: Some(after) };
        assert_eq!(verifier.message(&reply, Some(at(&reply)), NOW), Err(refused));
        // Responses are bounded as well: `client` is the server here.
        let (message, mut verifier) = request_with(&of(server), NOW);
        let mut signer = check(&message, &keys_of(client), NOW).expect("good").signer();
        let reply = signed(&mut signer, &response(Rcode::NOERROR), NOW);
        assert_eq!(verifier.message(&reply, Some(at(&reply)), after), Err(ResponseError::BadTime(NOW)));
    }
}

/// All forms of a request that another party can make without the key are the same request.
#[test]
fn a_request_is_the_same_one_in_every_form_that_verifies() {
    let cut = key_with(TsigAlgorithm::HmacSha256).truncated_to(128).expect("128 bits");
    let keys = TsigKeys::new([cut]).expect("one");
    let (message, _) = request();
    let id = check(&message, &keys, NOW).expect("good").id();
    for len in 16..=32 {
        let shorter = with_mac(&message, |mac| mac[..len].to_vec());
        assert_eq!(check(&shorter, &keys, NOW).expect("good").id(), id, "{len}");
    }
    let mut other_id = message.clone();
    other_id[..2].copy_from_slice(&[0xbe, 0xef]);
    assert_eq!(check(&other_id, &keys, NOW).expect("good").id(), id);
    let mut other_case = message.clone();
    let owner = at(&message).index() + 1;
    other_case[owner].make_ascii_uppercase();
    assert_ne!(other_case, message);
    assert_eq!(check(&other_case, &keys, NOW).expect("good").id(), id);
    // Another time makes another request, also where nothing else differs.
    let (later, _) = request_with(&key(), NOW.saturating_add(Duration::from_secs(1)));
    assert_ne!(check(&later, &keys, NOW).expect("good").id(), id);
}

#[test]
fn a_request_can_be_refused_for_its_time_within_the_fudge() {
    let (message, mut verifier) = request();
    let refusal = check(&message, &keys(), NOW).expect("good").bad_time();
    let plain = response(Rcode::NOTAUTH);
    let (reply, ()) = extended(&plain, |buf, len| (refusal.append(buf, len, NOW).expect("room"), ()));
    assert_eq!(reply.len() - plain.len(), refusal.reserve());
    let refused =
        ResponseError::Refused { error: TsigRcode::BADTIME, authentic: true, server_time: Some(NOW) };
    assert_eq!(verifier.message(&reply, Some(at(&reply)), NOW), Err(refused));
}

/// Replaces the MAC in `message`.
fn with_mac(message: &[u8], change: impl FnOnce(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let tsig_at = at(message);
    let record = record::TsigRecord::read(message, tsig_at).expect("a record");
    let mac = change(record.mac);
    let record = record::NewTsig {
        owner: record.owner.as_name(),
        algorithm: record.algorithm.as_name(),
        time: record.time,
        fudge: record.fudge,
        mac: &mac,
        original_id: record.original_id,
        error: record.error,
        other: record.other,
    };
    let mut plain = message[..tsig_at.index()].to_vec();
    plain[11] -= 1;
    extended(&plain, |buf, len| (record.append(buf, len).expect("room"), ())).0
}

/// RFC 8945 §5.2.2.1: a MAC that is too long, or shorter than ten bytes or than half, is FORMERR.
#[test]
fn macs_of_a_length_that_cannot_be_are_format_errors() {
    for algorithm in TsigAlgorithm::ALL {
        let (message, _) = request_with(&Arc::new(key_with(algorithm)), NOW);
        let least = algorithm.least_mac_len();
        for len in [0, 9, least - 1] {
            let short = with_mac(&message, |mac| mac[..len].to_vec());
            let error = check(&short, &keys_with(algorithm), NOW).expect_err("too short");
            assert!(
                matches!(error, TsigError::MacSize) && error.rcode() == Rcode::FORMERR,
                "{algorithm} {len}"
            );
        }
        let long = with_mac(&message, |mac| [mac, &[0]].concat());
        assert!(matches!(check(&long, &keys_with(algorithm), NOW), Err(TsigError::MacSize)));
        assert_eq!(algorithm.least_mac_len(), (algorithm.mac_len() / 2).max(10));
    }
}

/// RFC 8945 §5.2.4: a valid truncation that the local policy rejects is BADTRUNC, signed; a wrong MAC is
/// BADSIG first.
#[test]
fn macs_cut_shorter_than_the_key_takes_are_badtrunc() {
    let (message, _) = request();
    let cut = with_mac(&message, |mac| mac[..16].to_vec());
    let (error, _) = refusal(&cut, &keys(), NOW);
    assert_eq!(error, TsigRcode::BADTRUNC);
    let wrong = with_mac(&message, |mac| mac[..16].iter().map(|byte| !byte).collect());
    assert_eq!(refusal(&wrong, &keys(), NOW).0, TsigRcode::BADSIG);
}

#[test]
fn a_key_that_takes_cut_macs_makes_them_too() {
    let cut = Arc::new(key_with(TsigAlgorithm::HmacSha256).truncated_to(128).expect("128 bits"));
    let keys = TsigKeys::new([TsigKey::clone(&cut)]).expect("one");
    let (message, mut verifier) = request_with(&cut, NOW);
    let mut signer = check(&message, &keys, NOW).expect("good").signer();
    for _ in 0..3 {
        let message = signed(&mut signer, &response(Rcode::NOERROR), NOW);
        assert_eq!(record::TsigRecord::read(&message, at(&message)).expect("a record").mac.len(), 16);
        assert_eq!(verifier.message(&message, Some(at(&message)), NOW), Ok(()));
    }
    for bits in [0, 72, 120, 129, 264] {
        let whole = key_with(TsigAlgorithm::HmacSha256);
        assert_eq!(whole.truncated_to(bits).err(), Some(TsigKeyError::Truncation), "{bits}");
    }
    // A client whose key requires full MACs rejects them.
    let whole_keys = self::keys();
    let (message, mut verifier) = request();
    let mut signer = check(&message, &whole_keys, NOW).expect("good").signer();
    let reply = signed(&mut signer, &response(Rcode::NOERROR), NOW);
    let reply = with_mac(&reply, |mac| mac[..16].to_vec());
    assert_eq!(verifier.message(&reply, Some(at(&reply)), NOW), Err(ResponseError::Truncated));
}

/// RFC 8945 §5.1: the key is checked before the time, so that a client without it does not get the server's
/// time.
#[test]
fn checks_come_in_the_order_of_the_rfc() {
    let other =
        TsigKey::new(name("key.example.").as_name(), TsigAlgorithm::HmacSha256, b"guess").expect("key");
    let (late, _) = request_with(&Arc::new(other), NOW.saturating_sub(Duration::from_secs(5000)));
    assert_eq!(refusal(&late, &keys(), NOW).0, TsigRcode::BADSIG);
    let (late, _) = request_with(&key(), NOW.saturating_sub(Duration::from_secs(5000)));
    let late_and_cut = with_mac(&late, |mac| mac[..16].to_vec());
    assert_eq!(refusal(&late_and_cut, &keys(), NOW).0, TsigRcode::BADTIME);
    assert_eq!(refusal(&late_and_cut, &TsigKeys::default(), NOW).0, TsigRcode::BADKEY);
}

/// A forwarder may have changed the ID of the request: the digest covers the original one (RFC 8945 §4.3.2).
#[test]
fn another_id_does_not_break_the_signature() {
    let (mut message, _) = request();
    message[..2].copy_from_slice(&[0xbe, 0xef]);
    assert!(check(&message, &keys(), NOW).is_ok());
}

#[test]
fn records_of_another_class_or_ttl_are_malformed() {
    let (message, _) = request();
    let head = at(&message).index() + name("key.example.").as_name().len();
    for byte in [head + 3, head + 7] {
        let mut other = message.clone();
        other[byte] ^= 1;
        let tsig_at = at(&message);
        let error = verify(&other, tsig_at, &keys(), NOW).expect_err("class or TTL");
        assert!(matches!(error, TsigError::Malformed) && error.rcode() == Rcode::FORMERR);
    }
}

/// RFC 8945 §5.1: "If multiple TSIG records are detected or a TSIG record is present in any other position",
/// FORMERR.
#[test]
fn a_tsig_record_is_the_last_one_and_the_only_one() {
    let (once, _) = request();
    let (twice, ()) = extended(&once, |buf, len| (sign_request(&key(), buf, len, NOW).expect("room").0, ()));
    assert_eq!(find(&twice), Err(Malformed));
    let mut in_answer = once.clone();
    in_answer[7] = 1;
    in_answer[11] = 0;
    assert_eq!(find(&in_answer), Err(Malformed));
    assert_eq!(find(&query()), Ok(None));
    assert_eq!(find(&[once.as_slice(), b"x"].concat()), Err(Malformed));
    let error =
        verify(&[once.as_slice(), b"x"].concat(), at(&once), &keys(), NOW).expect_err("bytes behind it");
    assert!(matches!(error, TsigError::Malformed));
}

/// RFC 8945 §5.3.1: up to 99 unsigned messages may come between two signed ones.
#[test]
fn up_to_ninety_nine_messages_go_unsigned() {
    // Emulates such a server: the MAC of a signed message covers all messages since the previous one.
    let key = key();
    let (request, mut verifier) = request();
    let mut signer = check(&request, &keys(), NOW).expect("good").signer();
    let first = signed(&mut signer, &response(Rcode::NOERROR), NOW);
    assert_eq!(verifier.message(&first, Some(at(&first)), NOW), Ok(()));
    let first_record = record::TsigRecord::read(&first, at(&first)).expect("a record");
    let mut digest = digest::Digest::new(&key);
    digest.mac(&digest::Mac::of(first_record.mac, 32));
    for _ in 0..MOST_UNSIGNED {
        let plain = response(Rcode::NOERROR);
        digest.plain(&plain);
        assert_eq!(verifier.message(&plain, None, NOW), Ok(()));
        assert_eq!(verifier.end(), Err(ResponseError::Unsigned), "the last one must be signed");
    }
    let plain = response(Rcode::NOERROR);
    digest.plain(&plain);
    digest.timers(NOW, FUDGE);
    let mac = digest.end(32);
    let record = record::NewTsig {
        owner: key.name().as_name(),
        algorithm: key.algorithm().wire_name().as_name(),
        time: NOW,
        fudge: FUDGE,
        mac: mac.as_bytes(),
        original_id: 0x1234,
        error: TsigRcode::NOERROR,
        other: &[],
    };
    let (last, ()) = extended(&plain, |buf, len| (record.append(buf, len).expect("room"), ()));
    assert_eq!(verifier.message(&last, Some(at(&last)), NOW), Ok(()));
    assert_eq!(verifier.end(), Ok(()));
    for _ in 0..MOST_UNSIGNED {
        assert_eq!(verifier.message(&plain, None, NOW), Ok(()));
    }
    assert_eq!(verifier.message(&plain, None, NOW), Err(ResponseError::Unsigned), "the hundredth");
}

#[test]
fn the_first_message_must_be_signed() {
    let (_, mut verifier) = request();
    assert_eq!(verifier.end(), Err(ResponseError::Unsigned));
    assert_eq!(verifier.message(&response(Rcode::NOERROR), None, NOW), Err(ResponseError::Unsigned));
}

#[test]
fn messages_left_out_or_in_another_order_break_the_chain() {
    let (request, _) = request();
    let mut signer = check(&request, &keys(), NOW).expect("good").signer();
    let plain = |n: u8| {
        let mut message = response(Rcode::NOERROR);
        message[3] |= n << 4;
        message
    };
    let messages: Vec<Vec<u8>> = (0..3).map(|n| signed(&mut signer, &plain(n), NOW)).collect();
    for order in [vec![0, 2], vec![1], vec![0, 0], vec![0, 1, 1]] {
        let (_, mut verifier) = self::request();
        let results: Vec<_> = order
            .iter()
            .map(|&i: &usize| verifier.message(&messages[i], Some(at(&messages[i])), NOW))
            .collect();
        assert_eq!(results.last(), Some(&Err(ResponseError::BadSignature)), "{order:?}");
    }
}

#[test]
fn responses_with_another_key_or_time_are_refused() {
    let other = TsigKey::new(name("other.").as_name(), TsigAlgorithm::HmacSha256, b"other").expect("a key");
    let (theirs, _) = request_with(&Arc::new(other), NOW);
    let mut signer = check(&theirs, &keys(), NOW).expect("good").signer();
    let reply = signed(&mut signer, &response(Rcode::NOERROR), NOW);
    let (message, mut verifier) = request();
    assert_eq!(verifier.message(&reply, Some(at(&reply)), NOW), Err(ResponseError::OtherKey));
    let mut signer = check(&message, &keys(), NOW).expect("good").signer();
    let reply = signed(&mut signer, &response(Rcode::NOERROR), NOW.saturating_sub(Duration::from_secs(301)));
    assert_eq!(
        verifier.message(&reply, Some(at(&reply)), NOW),
        Err(ResponseError::BadTime(NOW.saturating_sub(Duration::from_secs(301))))
    );
}

#[test]
fn secrets_are_never_printed() {
    let key = TsigKey::new(name("k.").as_name(), TsigAlgorithm::HmacSha256, b"hidden").expect("a key");
    assert_eq!(format!("{key:?}"), "TsigKey(k. hmac-sha256)");
    assert_eq!(
        format!("{:?}", TsigKeys::new([key]).expect("one")),
        "TsigKeys { sorted: [TsigKey(k. hmac-sha256)] }"
    );
}

#[test]
fn names_of_keys_are_found_in_lower_case_and_are_unique() {
    let keys = keys();
    assert!(keys.get(name("key.example.").as_name().to_lower().as_lower()).is_some());
    assert!(keys.get(name("example.").as_name().to_lower().as_lower()).is_none());
    let same = [key_with(TsigAlgorithm::HmacSha1), key_with(TsigAlgorithm::HmacSha512)];
    assert_eq!(
        TsigKeys::new(same).err().map(|e| e.to_string()),
        Some("two keys are named key.example.".into())
    );
}

#[test]
fn key_files_of_other_servers_are_read() {
    let text = "# made by tsig-keygen\nkey \"one.example\" {\n\talgorithm hmac-sha256;\n\tsecret \"AAAA\";\n};\n\
        /* and\nmore */ key two { secret BBBB; algorithm \"HMAC-SHA512-256\"; }; // end\nkey three{algorithm hmac-sha1.;secret \"CCCC\";};";
    let keys = read_keys(text).expect("three keys");
    let read: Vec<_> =
        keys.iter().map(|key| (key.name().to_string(), key.algorithm(), key.mac_len())).collect();
    let expected = [
        ("one.example.".to_owned(), TsigAlgorithm::HmacSha256, 32),
        ("two.".to_owned(), TsigAlgorithm::HmacSha512, 32),
        ("three.".to_owned(), TsigAlgorithm::HmacSha1, 20),
    ];
    assert_eq!(read, expected);
}

#[test]
fn faults_of_key_files_have_places() {
    use KeyFileFaultKind as Kind;
    let fault = |text: &str| {
        let fault = read_keys(text).expect_err(text);
        (fault.line, fault.column, fault.kind)
    };
    assert_eq!(fault(""), (1, 1, Kind::Expected("`key`")));
    assert_eq!(fault("\n options {};"), (2, 2, Kind::Expected("`key`")));
    assert_eq!(fault("key \"a\" {\n secret \"AAAA\";\n};"), (1, 1, Kind::Missing("algorithm")));
    assert_eq!(fault("key a { algorithm hmac-sha1; };"), (1, 1, Kind::Missing("secret")));
    assert_eq!(fault("key a { algorithm hmac-sha3; secret \"AAAA\"; };"), (1, 19, Kind::UnknownAlgorithm));
    assert_eq!(fault("key a { algorithm hmac-md5; secret \"AAAA\"; };"), (1, 19, Kind::UnsupportedAlgorithm));
    assert_eq!(fault("key a { algorithm hmac-sha1-72; secret \"AAAA\"; };"), (1, 19, Kind::BadTruncation));
    assert_eq!(fault("key a {\n algorithm hmac-sha1;\n secret \"A\";\n};"), (3, 9, Kind::BadSecret));
    assert_eq!(fault("key a { algorithm hmac-sha1; secret \"\"; };"), (1, 37, Kind::BadSecret));
    assert_eq!(fault("key a..b { algorithm hmac-sha1; secret \"AAAA\"; };"), (1, 5, Kind::BadName));
    assert_eq!(fault("key a { secret \"AAAA\"; secret \"AAAA\"; };"), (1, 24, Kind::Repeated("secret")));
    assert_eq!(fault("key a { algorithm hmac-sha1"), (1, 28, Kind::Unfinished));
    assert_eq!(fault("/* é\n"), (1, 1, Kind::Unfinished));
    assert_eq!(fault("/* é */ key \"a\n\";"), (1, 13, Kind::Unfinished));
    assert_eq!(fault("key a { algorithm hmac-sha1 secret"), (1, 29, Kind::Expected("`;`")));
    assert_eq!(fault("key { algorithm"), (1, 5, Kind::Expected("a name")));
    assert_eq!(fault("key a { x y; };"), (1, 9, Kind::Expected("`algorithm`, `secret` or `}`")));
    assert_eq!(
        read_keys("key a { x y; };").expect_err("x").to_string(),
        "1:9: expected `algorithm`, `secret` or `}`"
    );
}

/// Whether the bit may change without breaking the signature: the ID, and letter case in the names of key and
/// algorithm.
fn free(message: &[u8], bit: usize) -> bool {
    let byte = bit / 8;
    let start = at(message).index();
    let head = start + name("key.example.").as_name().len();
    let algorithm = head + 10;
    let in_name = (start..head).contains(&byte) || (algorithm..algorithm + 13).contains(&byte);
    byte < 2 || in_name && bit % 8 == 2 && message[byte].is_ascii_alphabetic()
}

fn flipped(message: &[u8], bit: usize) -> Vec<u8> {
    let mut other = message.to_vec();
    other[bit / 8] ^= 0x80 >> (bit % 8);
    other
}

#[test]
fn a_bit_that_changes_anywhere_in_a_request_is_refused() {
    let (message, _) = request();
    let (tsig_at, keys) = (at(&message), keys());
    for bit in 0..message.len() * 8 {
        let other = flipped(&message, bit);
        // A malformed message, or one with the record elsewhere, is rejected before the MAC is checked.
        let found = find(&other).ok().flatten();
        for at in [Some(tsig_at), found].into_iter().flatten() {
            assert_eq!(verify(&other, at, &keys, NOW).is_ok(), free(&message, bit), "bit {bit}");
        }
    }
}

#[test]
fn a_bit_that_changes_anywhere_in_a_response_is_refused() {
    let (request, _) = request();
    let mut signer = check(&request, &keys(), NOW).expect("good").signer();
    let first = signed(&mut signer, &response(Rcode::NOERROR), NOW);
    let second = signed(&mut signer, &response(Rcode::NOERROR), NOW);
    for (number, message) in [&first, &second].into_iter().enumerate() {
        for bit in 0..message.len() * 8 {
            let (_, mut verifier) = self::request();
            if number > 0 {
                assert_eq!(verifier.message(&first, Some(at(&first)), NOW), Ok(()));
            }
            let good = verifier.message(&flipped(message, bit), Some(at(message)), NOW).is_ok();
            assert_eq!(good, free(message, bit), "message {number}, bit {bit}");
        }
    }
}

/// The number of accepted messages out of `count` with random MACs of every length.
fn forge(count: u32) -> u32 {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 32) as u8
    };
    let ((message, _), keys) = (request(), keys());
    let forged = (0..count).filter(|n| {
        let len = [32, 16, 24, 31][*n as usize % 4];
        let forged = with_mac(&message, |_| (0..len).map(|_| next()).collect());
        check(&forged, &keys, NOW).is_ok()
    });
    forged.count() as u32
}

#[test]
fn forged_macs_are_never_taken() {
    assert_eq!(forge(2_000), 0);
}

proptest! {
    #[test]
    fn what_is_signed_is_verified(
        algorithm in prop::sample::select(TsigAlgorithm::ALL.to_vec()),
        secret in prop::collection::vec(any::<u8>(), 1..200),
        now in 0..1u64 << 48,
        replies in 1..5usize,
        body in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let key = Arc::new(TsigKey::new(name("k.").as_name(), algorithm, &secret).expect("a key"));
        let keys = TsigKeys::new([TsigKey::clone(&key)]).expect("one");
        let now = UnixTime::from_secs(now);
        let (message, mut verifier) = request_with(&key, now);
        let mut signer = check(&message, &keys, now).expect("good").signer();
        for _ in 0..replies {
            // A record of an unknown type holds the body.
            let mut plain = response(Rcode::NOERROR);
            plain[7] = 1;
            plain.extend_from_slice(&[0xc0, 12, 0xff, 0, 0, 1, 0, 0, 0, 0, 0, body.len() as u8]);
            plain.extend_from_slice(&body);
            let message = signed(&mut signer, &plain, now);
            prop_assert_eq!(verifier.message(&message, Some(at(&message)), now), Ok(()));
        }
        prop_assert_eq!(verifier.end(), Ok(()));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(message in prop::collection::vec(any::<u8>(), 0..200), at in 0..220usize) {
        let at = Offset::new(at).expect("an offset");
        prop_assert!(verify(&message, at, &keys(), NOW).is_err());
        let (_, mut verifier) = request();
        prop_assert!(verifier.message(&message, Some(at), NOW).is_err());
    }

    #[test]
    fn any_text_is_read_as_keys_without_a_panic(text in "[ké{};\"#/*\n a-c]{0,40}") {
        let _ = read_keys(&text);
    }
}
