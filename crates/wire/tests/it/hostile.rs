//! Arbitrary bytes and text: no panic, and accepted input is well formed.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use wire::Type;
use wire::rdata::{canonical, embedded_names, validate, write_text};
use wire::text::{Token, tokens};

use crate::arbitrary;
use crate::{known_types, read, written};

fn for_every_type<S: Strategy>(
    cases: u32,
    input: impl Fn(Type) -> S,
    property: impl Fn(Type, S::Value) -> Result<(), TestCaseError>,
) {
    for t in known_types() {
        let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
        if let Err(error) = runner.run(&input(t), |value| property(t, value)) {
            panic!("{t}: {error}");
        }
    }
}

/// Changes a byte string at one place.
fn change(bytes: &mut Vec<u8>, at: prop::sample::Index, what: u8, byte: u8) {
    if bytes.is_empty() {
        return bytes.push(byte);
    }
    let at = at.index(bytes.len());
    match what % 5 {
        0 => bytes[at] = byte,
        1 => bytes[at] ^= 1 << (byte % 8),
        2 => bytes.truncate(at),
        3 => bytes.insert(at, byte),
        _ => {
            bytes.remove(at);
        }
    }
}

fn bytes_are_harmless(t: Type, rdata: &[u8]) -> Result<(), TestCaseError> {
    for found in embedded_names(t, rdata) {
        prop_assert!(found.start + found.len <= rdata.len(), "{}", t);
    }
    canonical(t, &mut rdata.to_vec());
    let text = written(t, rdata);
    if validate(t, rdata).is_ok() {
        prop_assert!(read(t, &text).as_deref() == Ok(rdata), "{} {}: {:?}", t, text, rdata);
    } else {
        prop_assert!(text.starts_with("\\# "), "{} {}", t, text);
    }
    Ok(())
}

#[test]
fn any_bytes() {
    for_every_type(
        100,
        |_| prop::collection::vec(any::<u8>(), 0..60),
        |t, rdata| bytes_are_harmless(t, &rdata),
    );
}

#[test]
fn bytes_that_were_well_formed() {
    let changes = || prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<u8>()), 1..3);
    for_every_type(
        150,
        |t| (arbitrary::rdata(t), changes()),
        |t, (mut rdata, changes)| {
            for (at, what, byte) in changes {
                change(&mut rdata, at, what, byte);
            }
            bytes_are_harmless(t, &rdata)
        },
    );
}

#[test]
fn text_that_was_well_formed() {
    let byte =
        prop_oneof![Just(b'"'), Just(b'\\'), Just(b' '), Just(b'.'), Just(b'-'), b'0'..=b'9', any::<u8>()];
    let changes =
        move || prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), byte.clone()), 1..4);
    for_every_type(
        150,
        |t| (arbitrary::rdata(t), changes()),
        |t, (rdata, changes)| {
            let mut text = written(t, &rdata).into_bytes();
            for (at, what, byte) in changes {
                change(&mut text, at, what, byte);
            }
            let text = String::from_utf8_lossy(&text);
            if let Ok(rdata) = read(t, &text) {
                prop_assert_eq!(validate(t, &rdata), Ok(()), "{} {}", t, text);
                bytes_are_harmless(t, &rdata)?;
            }
            Ok(())
        },
    );
}

#[test]
fn tokens_out_of_nowhere() {
    let word = prop::sample::select(vec![
        "0",
        "1",
        "2",
        "3",
        "13",
        "255",
        "256",
        "65535",
        "65536",
        "4294967295",
        "4294967296",
        "-",
        ".",
        "@",
        "a",
        "*.b.",
        "192.0.2.1",
        "2001:db8::1",
        "AQID",
        "AQ==",
        "ff",
        "0x47",
        "N",
        "W",
        "10m",
        "alpn=h2",
        "mandatory=alpn",
        "key9=\"x\"",
        "A",
        "TYPE65535",
        "NOTIFY",
        "RSASHA256",
        "20300101000000",
        "1:10.0.0.0/8",
        "!2:::/0",
        "\\#",
        "\\",
        "\\300",
        "1:2:3:4",
        "00-00-5E-00-53-2A",
        "",
        "1h30m",
        "99999999999999999999999",
    ]);
    let token = move || (word.clone(), any::<bool>());
    for_every_type(
        150,
        |_| prop::collection::vec(token(), 0..12),
        |t, words| {
            let list: Vec<Token<'_>> = words
                .iter()
                .map(|(word, quoted)| Token { bytes: word.as_bytes(), quoted: *quoted })
                .collect();
            let mut out = Vec::new();
            match wire::rdata::parse_text(t, &list, None, &mut out) {
                Ok(()) => prop_assert_eq!(validate(t, &out), Ok(()), "{} {:?}", t, words),
                Err(fault) => {
                    prop_assert!(fault.token <= list.len() && out.is_empty(), "{} {:?}", t, words);
                    prop_assert!(!fault.to_string().is_empty());
                }
            }
            Ok(())
        },
    );
}

/// The longest data, where sizes are counted in 16 bits.
#[test]
fn longest_data() {
    let rdata = vec![0xff; 65_535];
    for t in known_types() {
        let mut text = String::new();
        assert!(write_text(t, &rdata, &mut text).is_ok());
        assert!(validate(t, &[0xff; 65_536]).is_err());
        assert!(embedded_names(t, &rdata).count() == 0);
    }
    let names = vec![0; 65_000];
    let hip = [&[1, 1, 0, 1, 9, 9][..], &names].concat();
    assert_eq!(embedded_names(Type::HIP, &hip).count(), 65_000);
    let many = format!("\\# 65536 {}", "00".repeat(65_536));
    assert!(read(Type(65_280), &many).is_err());
    assert_eq!(tokens(&many).count(), 3);
}
