//! What tests share: zone builders, reference models, random names and zones. Never part of the server.
//!
//! | module | holds |
//! |---|---|
//! | [`answers`] | what a question is answered with, by the plainest reading of the RFCs |
//! | [`disk`] | a disk that forgets, tears and fails |
//! | [`choices`] | choices made from bytes, by chance or by a fuzzer |
//! | `data` | data of records that random zones are made of |
//! | [`decode`] | replies, read back by two decoders |
//! | [`everything`] | a small zone that has something of everything |
//! | [`keys`] | keys that sign for real |
//! | [`model`] | zones and catalogs as plain maps, every question answered by looking at everything |
//! | [`network`] | network namespaces for tests, and servers in them |
//! | [`packets`] | batches of packets made from choices: good queries, odd ones, damaged ones and noise |
//! | [`peers`] | resolvers of other projects, started and asked |
//! | [`query`] | queries, read byte by byte |
//! | [`random`] | proptest strategies for names, records and zones |
//! | [`reference`](mod@reference) | what a packet is replied to with |
//! | [`sign`](mod@sign) | signs zones with true chains, and signatures made up or true |
//! | [`synthesis`] | what is made of proofs, beside what the zone's servers answer |
//! | [`texts`] | master files that are edited |
//! | [`tld`] | a large zone of delegations, for measurements |
//! | [`tree`] | a tree of zones signed for real, and validating what they answer |
//! | [`verdicts`] | what those resolvers answer, beside what is expected |
//! | [`versions`] | zones that change, and what must be the same then |
//! | [`zones`](mod@zones) | small zones made from choices |
//!
//! # How nomen is tested
//!
//! Unit and property tests stand beside the code. [`model`] and [`answers`] answer from plain maps by looking
//! at everything: `authority` must agree with them on random zones, and `engine` on random batches, packet by
//! packet. `prefetch` of `authority` fails where a prefetch is lost.
//!
//! In `nomen`, `storm` has all zones of a secondary come, change and be due at once, which `bench/compare`
//! times; `hostile` has primaries that do harm to a whole secondary; `peers` has thousands of versions of
//! zones go to BIND, Knot and PowerDNS and come from them, compared record by record; `manual` follows the
//! pages of the manual, commands and all. The peers of `dnssec`, `resolver` and `recursion` judge the same
//! answers or play the same scenarios; what they agree on among themselves, against ours, needs its reason in
//! a `peers.md`.
//!
//! `conformance` asks other servers the same questions, and nomen also as a secondary: once with zones that
//! came whole from BIND, NSD and Knot, once with zones that came by differences. With `--resolvers` it asks
//! other forwarders, twice: what comes from upstream and what comes from the cache. With `--internet` it asks
//! other resolvers, on an Internet of its own in a network namespace, and with `--attacks` it measures there
//! what attacks cost (`docs/ATTACKS.md`). With `--lend` it runs the servers of either for another program:
//! `bench/compare` measures resolvers there. `fuzz` asserts sentences of the RFCs for any input.
//!
//! `scripts/test` runs all of it; CONTRIBUTING.md says what belongs where.
#![forbid(unsafe_code)]

pub mod answers;
pub mod choices;
mod data;
pub mod decode;
pub mod disk;
pub mod everything;
pub mod keys;
pub mod model;
pub mod network;
pub mod packets;
pub mod peers;
pub mod query;
pub mod random;
pub mod reference;
pub mod sign;
pub mod synthesis;
pub mod texts;
pub mod tld;
pub mod tree;
pub mod verdicts;
pub mod versions;
pub mod zones;

use std::path::Path;

use wire::NameBuf;
use wire::hash::HashKey;
use zone::store::{Zone, ZoneBuilder};

pub use model::Record;
pub use sign::{Chain, sign};

/// The key of zones in tests.
pub fn key() -> HashKey {
    HashKey::new([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 7])
}

/// Reports that a test, or a part of it, is left out because this machine lacks `what`. With
/// `NOTHING_MISSING` in the environment, as in CI, that is a failure.
///
/// # Panics
/// If `NOTHING_MISSING` is set and not empty.
pub fn left_out(what: &str) {
    let must_run = std::env::var_os("NOTHING_MISSING").is_some_and(|value| !value.is_empty());
    assert!(!must_run, "left out although NOTHING_MISSING is set: {what}");
    eprintln!("left out: {what}");
}

/// Whether these programs are installed. A test, or a part of it, that needs one that is not is [left
/// out](left_out).
pub fn has_programs(programs: &[&str]) -> bool {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let is_there = |program: &&&str| path.split(':').any(|folder| Path::new(folder).join(program).exists());
    let missing: Vec<&str> = programs.iter().filter(|program| !is_there(program)).copied().collect();
    if !missing.is_empty() {
        left_out(&format!("{} missing", missing.join(" and ")));
    }
    missing.is_empty()
}

/// A name, from its text.
///
/// # Panics
/// If the text is not that of a name: tests call this.
pub fn name(text: &str) -> NameBuf {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Builds a zone of `records`, in their order.
///
/// # Panics
/// If the records do not make a zone: tests call this.
pub fn build(apex: wire::Name<'_>, key: &HashKey, records: &[Record]) -> Zone {
    let mut builder = ZoneBuilder::new(apex, key);
    for record in records {
        let added = builder.add(record.owner.as_name(), record.rtype, record.ttl, &record.rdata);
        added.unwrap_or_else(|error| panic!("{record:?}: {error}"));
    }
    builder.finish().unwrap_or_else(|error| panic!("{apex}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    #[test]
    #[ignore = "run by what_is_left_out_is_a_failure_where_nothing_may_be_missing"]
    fn leaves_something_out() {
        crate::left_out("a tool is missing");
    }

    #[test]
    fn what_is_left_out_is_a_failure_where_nothing_may_be_missing() {
        let run = |nothing_missing: Option<&str>| {
            let mut command = Command::new(std::env::current_exe().expect("this program"));
            command.args(["--exact", "tests::leaves_something_out", "--ignored", "--nocapture"]);
            command.env_remove("NOTHING_MISSING");
            command.envs(nothing_missing.map(|value| ("NOTHING_MISSING", value)));
            let output = command.output().expect("it runs");
            let said = [output.stdout, output.stderr].concat();
            (output.status.success(), String::from_utf8_lossy(&said).into_owned())
        };
        for value in [None, Some("")] {
            let (passed, said) = run(value);
            assert!(passed && said.contains("left out: a tool is missing\n"), "{value:?}: {said}");
        }
        let (passed, said) = run(Some("1"));
        assert!(
            !passed && said.contains("left out although NOTHING_MISSING is set: a tool is missing"),
            "{said}"
        );
    }
}
