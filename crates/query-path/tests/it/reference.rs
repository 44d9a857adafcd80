//! Batches of packets against the reference of [`testkit::reference`], for any zones and any packets.

use std::fmt;

use proptest::prelude::*;
use testkit::choices::Choices;
use testkit::packets::{PacketBatch, batch};
use testkit::random;
use wire::NameBuf;
use wire::message::Header;

use crate::world::{Land, World};

/// The bytes that a batch is made from; `Debug` prints them short.
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

/// A question for a long name with NSID, and a TSIG whose owner is "k" before that name: with the key's name
/// the reply has up to 512 bytes, with NSID more.
fn signed_by_a_long_name() -> Vec<u8> {
    let labels = [59, 59, 59, 28].map(|len| "x".repeat(len)).join(".");
    let name: NameBuf = format!("{labels}.example.").parse().expect("a name");
    assert_eq!(name.as_name().len(), 218);
    let mut packet = Header::query(7).as_bytes().to_vec();
    packet[5] = 1;
    packet[11] = 2;
    packet.extend_from_slice(name.as_name().as_wire());
    packet.extend_from_slice(
        b"\0\x01\0\x01\0\0\x29\0\0\0\0\0\0\0\x04\0\x03\0\0\x01k\xc0\x0c\0\xfa\0\xff\0\0\0\0\0\x21",
    );
    packet.extend_from_slice(b"\x0bhmac-sha256\0\0\0\x65\0\0\0\x01\x2c\0\x04abcd\0\x07\0\0\0\0");
    packet
}

fn hold(packet: Vec<u8>) {
    World::new(&[]).hold(&PacketBatch { stream: false, room: 1232, packets: vec![packet] });
}

#[test]
fn a_key_with_a_long_name_takes_the_room_of_nsid() {
    hold(signed_by_a_long_name());
}

#[test]
fn a_bad_signature_took_room_from_replies_that_it_does_not_sign() {
    // NOTIMP for an opcode that is not served, FORMERR for a byte too many.
    let mut packet = signed_by_a_long_name();
    packet[2] |= 3 << 3;
    hold(packet);
    let mut packet = signed_by_a_long_name();
    packet.push(0);
    hold(packet);
}
