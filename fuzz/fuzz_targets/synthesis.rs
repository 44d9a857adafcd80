//! Answers made of what other answers prove, beside a model that looks at every name of a small zone.
//!
//! RFC 8198 §5.3: a name is answered from the records of a wildcard that are known, as long as it is known
//! that it would not be there without; and where they are not known, its servers are asked.
//!
//! The input makes the zones, and says of which answers is learned.

#![no_main]
#![forbid(unsafe_code)]

use libfuzzer_sys::fuzz_target;
use testkit::choices::Choices;
use testkit::synthesis::check;

fuzz_target!(|input: &[u8]| {
    check(&mut Choices::new(input));
});
