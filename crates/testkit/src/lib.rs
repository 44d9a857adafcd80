//! Shared code of tests: zone builders, reference models, random names and zones. Never part of the server.
//!
//! | module | holds |
//! |---|---|
//! | [`answers`] | the expected answer to a question, from a reference model |
//! | [`disk`] | a disk in memory that loses unsynced data, tears writes and fails |
//! | [`choices`] | choices read from bytes, random ones or a fuzzer's |
//! | `data` | RDATA for random zones |
//! | [`decode`] | responses, decoded by two parsers |
//! | [`everything`] | a small zone with a record of every kind |
//! | [`keys`] | DNSSEC keys that make valid signatures |
//! | [`model`] | zones and catalogs as plain maps, searched linearly |
//! | [`network`] | network namespaces for tests, and servers in them |
//! | [`packets`] | batches of packets made from choices: good queries, odd ones, damaged ones and noise |
//! | [`peers`] | resolvers of other projects, started and queried |
//! | [`postgres`] | PostgreSQL servers with databases for tests |
//! | `pem` | certificates and keys as text |
//! | [`query`] | queries, decoded byte by byte |
//! | [`random`] | proptest strategies for names, records and zones |
//! | [`reference`](mod@reference) | the expected response to a packet |
//! | [`sign`](mod@sign) | signs zones: complete NSEC or NSEC3 chains, valid or placeholder signatures |
//! | [`synthesis`] | answers synthesized from NSEC and NSEC3, compared with the zone's own |
//! | [`texts`] | zone files that are edited |
//! | [`tld`] | a large zone of delegations, for measurements |
//! | [`tree`] | a signed tree of zones, and validation of its answers |
//! | [`verdicts`] | answers of other resolvers, compared with the expected ones |
//! | [`versions`] | zones that change, compared with zones built from scratch |
//! | [`zones`](mod@zones) | small zones made from choices |
//!
//! # How nomen is tested
//!
//! Unit and property tests live beside the code. [`model`] and [`answers`] answer from plain maps by linear
//! search: `authority` must agree with them on random zones, and `query-path` on random batches, packet by
//! packet. `prefetch` of `authority` fails where a prefetch is lost.
//!
//! In `nomen`, `storm` makes all zones of a secondary appear, change and be due for a refresh at once, which
//! `bench/compare` times; `hostile` tests a whole secondary against hostile primaries; `peers` transfers
//! thousands of versions of zones to and from BIND, Knot and PowerDNS, compared record by record; `manual`
//! runs the manual's pages, commands and all. The peers of `validator`, `resolver` and `recursion` judge the
//! same answers or play the same scenarios; where they agree with each other against us, a `peers.md` must
//! give the reason.
//!
//! `conformance` sends the same questions to other servers, and to nomen as a secondary, too: once with zones
//! transferred whole from BIND, NSD and Knot, once with zones transferred incrementally. With `--resolvers`
//! it queries other forwarders, twice: for answers from upstream and answers from the cache. With
//! `--internet` it queries other resolvers, on an Internet of its own in a network namespace, and with
//! `--attacks` it measures there what attacks cost (`docs/ATTACKS.md`). With `--lend` it runs the servers of
//! either for another program: `bench/compare` measures resolvers there. `fuzz` asserts RFC requirements for
//! any input.
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
mod pem;
pub mod postgres;
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

pub use model::ModelRecord;
pub use pem::pem;
pub use sign::{Chain, sign};

/// Returns the hash key of zones in tests.
pub fn key() -> HashKey {
    HashKey::new([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 7])
}

/// Reports that a test, or a part of it, is skipped because this machine lacks `what`. If `NOTHING_MISSING`
/// is set in the environment, as in CI, that is a failure.
///
/// # Panics
/// If `NOTHING_MISSING` is set and not empty.
pub fn left_out(what: &str) {
    let must_run = std::env::var_os("NOTHING_MISSING").is_some_and(|value| !value.is_empty());
    assert!(!must_run, "left out although NOTHING_MISSING is set: {what}");
    eprintln!("left out: {what}");
}

/// Whether these programs are installed. If one is missing, the test, or the part of it, is [left
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

/// Parses a name.
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
pub fn build(apex: wire::Name<'_>, key: &HashKey, records: &[ModelRecord]) -> Zone {
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
