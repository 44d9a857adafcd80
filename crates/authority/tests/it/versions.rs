//! Changed zones: a version answers byte by byte as the zone built whole from the same records.

use std::sync::Arc;

use proptest::prelude::*;
use testkit::choices::Choices;
use testkit::versions::change_step_by_step;
use wire::{NameBuf, Type};
use zone::{Change, Zone};

use crate::support::{Query, Server};

const TYPES: [Type; 12] = [
    Type::A,
    Type::NS,
    Type::MX,
    Type::SRV,
    Type::SVCB,
    Type::CNAME,
    Type::DNAME,
    Type::SOA,
    Type::DS,
    Type::ANY,
    Type::RRSIG,
    Type::NSEC3,
];

/// Queries both for the names of the zone and for names near them. Each call queries another share of the
/// types.
fn check(version: &Arc<Zone>, whole: &Arc<Zone>, share: usize) {
    let [version, reference] = [version, whole].map(|zone| Server::new([Change::Serve(Arc::clone(zone))]));
    for (i, node) in whole.iter().enumerate() {
        let owner = node.owner().as_name();
        let near = [&b"*"[..], b"a", b"zz"].map(|label| NameBuf::prepend(label, owner).ok());
        for (name, qtype) in near.into_iter().flatten().chain([owner.to_buf()]).flat_map(|name| {
            let types = TYPES.iter().skip((i + share) % 4).step_by(4);
            types.map(move |qtype| (name, *qtype))
        }) {
            for dnssec_ok in [false, true] {
                let query = Query { dnssec_ok, ..Query::new(name, qtype) };
                let [ours, expected] =
                    [&version, &reference].map(|server| server.ask(&query).map(|reply| reply.bytes));
                assert_eq!(ours, expected, "{query:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(40))
    })]
    #[test]
    fn a_changed_zone_answers_as_if_it_were_built_whole(bytes in prop::collection::vec(any::<u8>(), 0..1000)) {
        let mut steps = 0;
        change_step_by_step(&mut Choices::new(&bytes), &mut |version, whole| {
            check(version, whole, steps);
            steps += 1;
        });
    }
}
