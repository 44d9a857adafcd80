//! Tests of RDATA over all types at once: round trips, hostile input, other implementations.

mod arbitrary;
mod domain;
mod hickory;
mod hostile;
mod round_trip;
mod views;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use wire::rdata::{TextFault, parse_text, write_text};
use wire::text::{Token, tokens};
use wire::{Name, Type};

/// Every type with its own layout.
fn known_types() -> impl Iterator<Item = Type> {
    wire::rr::TYPES.iter().map(|&(t, _)| t).filter(|&t| wire::rdata::layout(t).is_some())
}

/// Parses text with the origin `example.com.`.
fn read(t: Type, text: &str) -> Result<Vec<u8>, TextFault> {
    let list: Vec<Token<'_>> = tokens(text).collect();
    let mut out = Vec::new();
    parse_text(t, &list, Name::from_wire(b"\x07example\x03com\0").ok(), &mut out).map(|()| out)
}

fn written(t: Type, rdata: &[u8]) -> String {
    let mut text = String::new();
    write_text(t, rdata, &mut text).expect("a String takes everything");
    text
}

/// Compares with another implementation on well-formed data of each type; the error describes the difference.
/// Tries all types before the test fails. The data is the same in every run, so that a newly found quirk of
/// the other side does not break a build at random.
fn agree(
    types: &[Type],
    cases: u32,
    data: fn(Type) -> proptest::strategy::BoxedStrategy<Vec<u8>>,
    compare: impl Fn(Type, &[u8]) -> Result<(), String>,
) {
    let differences: Vec<String> = types
        .iter()
        .filter_map(|&t| {
            let config = Config { cases, failure_persistence: None, ..Config::default() };
            let run = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
                .run(&data(t), |rdata| compare(t, &rdata).map_err(TestCaseError::fail));
            run.err().map(|error| format!("{t}: {error}"))
        })
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
