//! Batches of packets against the reference of [`testkit::reference`]: whatever the zones are, and whatever comes.

use std::fmt;

use proptest::prelude::*;
use testkit::choices::Choices;
use testkit::packets::batch;
use testkit::random;

use crate::world::{Land, World};

/// What a batch is made from, short where a failure shows it.
#[derive(Clone)]
struct Made(Vec<u8>);

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

fn made() -> impl Strategy<Value = Made> {
    prop::collection::vec(any::<u8>(), 0..1500).prop_map(Made)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        // Zones take many steps to get small.
        max_shrink_iters: 20_000,
        ..ProptestConfig::with_cases(std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(1500))
    })]
    #[test]
    fn every_packet_of_every_batch_is_replied_to_as_the_reference_does(
        zones in random::zones(),
        loaded in prop::collection::vec(prop::bool::weighted(0.9), 3),
        batches in prop::collection::vec(made(), 1..4),
    ) {
        let land = |((apex, records), loaded)| Land { apex, records, loaded };
        let lands: Vec<Land> = zones.into_iter().zip(loaded).map(land).collect();
        let mut world = World::new(&lands);
        for Made(bytes) in batches {
            let batch = batch(&mut Choices::new(&bytes), &world.names);
            world.hold(&batch);
        }
    }
}
