//! Answers synthesized from the proofs in other answers, compared with a model that checks every name of a
//! small zone.
//!
//! RFC 8198 §5.3: a name is answered from cached wildcard records if it is proved that the name does not
//! exist itself; if they are not cached, the servers are queried.
//!
//! The input makes the zones, and selects the answers that are stored.

use testkit::choices::Choices;
use testkit::synthesis::check;

pub(crate) fn run(input: &[u8]) {
    check(&mut Choices::new(input));
}
