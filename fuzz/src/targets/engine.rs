//! The query path: for any zones and any batch of packets, each packet gets the reply that the reference of
//! `testkit` expects, alone and beside others.
//!
//! RFC 2181 §9: "The TC bit should be set in responses only when an RRSet is required as a part of the
//! response, but could not be included in its entirety." RFC 1035 §4.1.1 of the ID: "This identifier is
//! copied the corresponding reply and can be used by the requester to match up replies to outstanding
//! queries."

#[path = "../../../crates/query-path/tests/it/world.rs"]
mod world;

use testkit::choices::Choices;
use testkit::{packets, zones};

use world::{Land, World};

pub(crate) fn run(data: &[u8]) {
    let mut choices = Choices::new(data);
    let len = choices.below(1 << 10);
    let unloaded = choices.byte();
    let zones = zones::zones(&mut choices.split_off(len));
    let land = |(i, (apex, records))| Land { apex, records, loaded: unloaded >> i & 0b1001 != 0b1001 };
    let lands: Vec<Land> = zones.into_iter().enumerate().map(land).collect();
    let mut world = World::new(&lands);
    let batch = packets::batch(&mut choices, &world.names);
    world.hold(&batch);
}
