//! Streams of HTTP/3: the first byte selects the kind, the second where the bytes are cut. If the first byte
//! is 255, the rest is a message of Oblivious DoH, or what is encrypted in one.
//!
//! RFC 9000 §2.2: "Streams ... are an ordered byte-stream abstraction": what a stream carries does not depend
//! on how its bytes arrive. RFC 9114 §4.2.2: a header section has at most the bytes that the settings allow,
//! and no stream makes the reader keep more. RFC 9230 §6.1: "opaque key_id<0..2^16-1>": each part has its
//! length before it, so that a message that is read and written again is the same.

// The crate has it for itself.
#[allow(dead_code, unused_imports, unreachable_pub)]
#[path = "../../../crates/net/src/http3/mod.rs"]
mod streams;

// `tls` has it for itself; it needs no cryptography.
#[allow(dead_code)]
#[path = "../../../crates/tls/src/odoh/message.rs"]
mod oblivious;

use streams::{ControlStreams, H3Fault, MAX_FIELDS, Request, RequestReader, UniStream};

const LONGEST: usize = 1000;

/// Reads the stream of a request in these parts.
fn request(parts: &[&[u8]]) -> Result<Request, H3Fault> {
    let mut reader = RequestReader::new(LONGEST);
    for part in parts {
        let read = reader.read(part);
        assert!(reader.kept() <= MAX_FIELDS + LONGEST);
        read?;
    }
    reader.end()
}

/// Reads a unidirectional stream in these parts.
fn unidirectional(parts: &[&[u8]]) -> Result<bool, H3Fault> {
    let (mut stream, mut open) = (UniStream::default(), ControlStreams::default());
    for part in parts {
        if !stream.read(part, &mut open)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads messages and configurations of Oblivious DoH.
fn read_oblivious(bytes: &[u8]) {
    if let Ok(message) = oblivious::Message::read(bytes) {
        assert_eq!(message.write().as_deref(), Some(bytes));
        assert!(!message.encrypted.is_empty());
    }
    if let Ok(dns) = oblivious::dns_message(bytes) {
        assert!(!dns.is_empty());
        let padded = oblivious::padded(dns, 128, 65_535).expect("it fits");
        assert_eq!(oblivious::dns_message(&padded), Ok(dns));
    }
    if let Ok(Some(key)) = oblivious::public_key(bytes) {
        let configs = oblivious::configs(&[oblivious::contents(&key)]);
        assert_eq!(oblivious::public_key(&configs), Ok(Some(key)));
    }
}

pub(crate) fn run(bytes: &[u8]) {
    let [kind, cut, bytes @ ..] = bytes else { return };
    if *kind == 255 {
        return read_oblivious(bytes);
    }
    let (first, second) = bytes.split_at(usize::from(*cut).min(bytes.len()));
    let bytewise: Vec<&[u8]> = bytes.chunks(1).collect();
    if kind % 2 == 1 {
        let whole = unidirectional(&[bytes]);
        assert_eq!(unidirectional(&[first, second]), whole);
        assert_eq!(unidirectional(&bytewise), whole);
        return;
    }
    let kept = |read: Result<Request, H3Fault>| read.map(|request| (request.head.uri, request.body));
    let whole = kept(request(&[bytes]));
    assert_eq!(kept(request(&[first, second])), whole);
    assert_eq!(kept(request(&bytewise)), whole);
    let Ok((uri, body)) = whole else { return };
    assert!(!uri.to_string().is_empty() && uri.to_string().len() <= MAX_FIELDS);
    assert!(body.is_none_or(|body| body.len() <= LONGEST));
}
