//! Synthesized answers, compared with a model of the zone's servers: for all possible names in zones of every
//! shape.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use testkit::choices::Choices;
use testkit::synthesis::{Made, check};

#[test]
fn what_is_made_is_what_servers_answer() {
    let config = Config { cases: 100, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let sum = std::cell::Cell::new(Made::default());
    let bytes = prop::collection::vec(any::<u8>(), 0..200);
    let result = runner.run(&bytes, |bytes| {
        let (before, more) = (sum.get(), check(&mut Choices::new(&bytes)));
        sum.set(Made {
            names: before.names + more.names,
            types: before.types + more.types,
            wildcards: before.wildcards + more.wildcards,
            links: before.links + more.links,
        });
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    let Made { names, types, wildcards, links } = sum.get();
    assert!(names > 5000 && types > 5000 && wildcards > 2000 && links > 500, "{:?}", sum.get());
}
