//! Wire to text and back, for every type.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use wire::rdata::{self, NameRule, embedded_names, validate};
use wire::{Name, Type};

use crate::arbitrary;
use crate::{known_types, read, written};

/// Checks a property on well-formed data of every type.
fn for_every_type(cases: u32, property: impl Fn(Type, &[u8]) -> Result<(), TestCaseError>) {
    for t in known_types() {
        let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
        if let Err(error) = runner.run(&arbitrary::rdata(t), |rdata| property(t, &rdata)) {
            panic!("{t}: {error}");
        }
    }
}

#[test]
fn text_reads_back_to_the_same_bytes() {
    for_every_type(100, |t, rdata| {
        prop_assert_eq!(validate(t, rdata), Ok(()));
        let text = written(t, rdata);
        prop_assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{} {}", t, text);
        let back = read(t, &text);
        prop_assert!(back.as_deref() == Ok(rdata), "{} {}: {:?}, not {:?}", t, text, back, rdata);
        Ok(())
    });
}

#[test]
fn generic_text_serves_every_type() {
    for_every_type(10, |t, rdata| {
        let hex: String = rdata.iter().map(|byte| format!("{byte:02x}")).collect();
        let back = read(t, &format!("\\# {} {hex}", rdata.len()));
        prop_assert_eq!(back.as_deref(), Ok(rdata));
        Ok(())
    });
}

#[test]
fn canonical_form_lowers_the_names_it_should() {
    for_every_type(30, |t, rdata| {
        let mut expected = rdata.to_vec();
        for found in embedded_names(t, rdata) {
            let range = found.start..found.start + found.len;
            prop_assert!(Name::from_wire(&rdata[range.clone()]).is_ok(), "{} at {}", t, found.start);
            if found.rule != NameRule::Plain {
                expected[range].make_ascii_lowercase();
            }
        }
        let mut canonical = rdata.to_vec();
        rdata::canonical(t, &mut canonical);
        prop_assert_eq!(&canonical, &expected);
        prop_assert_eq!(validate(t, &canonical), Ok(()));
        Ok(())
    });
}

/// RFC 3597 §4, RFC 4034 §6.2 and RFC 6840 §5.1, type by type.
#[test]
fn name_rules_are_those_of_the_rfcs() {
    let compress = [
        Type::NS,
        Type::MD,
        Type::MF,
        Type::CNAME,
        Type::SOA,
        Type::MB,
        Type::MG,
        Type::MR,
        Type::PTR,
        Type::MINFO,
        Type::MX,
    ];
    let lower = [
        Type::RP,
        Type::AFSDB,
        Type::RT,
        Type::SIG,
        Type::PX,
        Type::NXT,
        Type::NAPTR,
        Type::KX,
        Type::SRV,
        Type::DNAME,
        Type::A6,
        Type::RRSIG,
    ];
    for_every_type(10, |t, rdata| {
        for found in embedded_names(t, rdata) {
            let expected = match t {
                _ if compress.contains(&t) => NameRule::Compress,
                _ if lower.contains(&t) => NameRule::Lower,
                _ => NameRule::Plain,
            };
            prop_assert_eq!(found.rule, expected, "{}", t);
        }
        Ok(())
    });
    for t in compress.into_iter().chain(lower) {
        let named = arbitrary::rdata(t)
            .prop_filter("A6 of prefix 0", move |rdata| embedded_names(t, rdata).count() > 0);
        let mut runner = TestRunner::new(Config { cases: 1, failure_persistence: None, ..Config::default() });
        assert!(runner.run(&named, |_| Ok(())).is_ok(), "{t}");
    }
}

#[test]
fn expanded_names_make_the_uncompressed_form() {
    for_every_type(20, |t, rdata| {
        // The region is the uncompressed form with each compressible name replaced by a pointer.
        let (mut region, mut names, mut at) = (Vec::new(), Vec::new(), 0);
        let whole_fields = t != Type::A6;
        for found in embedded_names(t, rdata).filter(|found| whole_fields && found.rule != NameRule::Plain) {
            region.extend_from_slice(&rdata[at..found.start]);
            names.push((region.len(), &rdata[found.start..found.start + found.len]));
            region.extend_from_slice(&[0xc0, 0x0c]);
            at = found.start + found.len;
        }
        region.extend_from_slice(&rdata[at..]);
        let mut out = b"before".to_vec();
        let expanded = rdata::expand(t, &region, &mut out, |offset, out| {
            let (_, name) = names.iter().find(|(at, _)| *at == offset)?;
            out.extend_from_slice(name);
            Some(2)
        });
        prop_assert_eq!(expanded, Ok(()), "{}", t);
        prop_assert_eq!(&out[6..], rdata, "{}", t);
        Ok(())
    });
}
