//! `rrl-…` and `cookie-secret…` of nsd.conf.

use std::path::Path;

use crate::files::{Files, join};
use crate::ledger::Coverage;
use crate::model::Section;
use crate::rates;
use crate::source_rates::{Lengths, SourceRates};
use crate::tree::{Statement, last};
use crate::units;
use crate::work::Work;

/// Replies per second to a network, without `rrl-ratelimit`.
const USUAL_RATE: u64 = 200;

/// Converts the limits on replies, which NSD has by default.
pub(super) fn rates(work: &mut Work, all: &[&Statement], server: Option<&Statement>) {
    let get = |key: &str| last(all, key).and_then(|found| units::size(found.value()));
    let length = |key, usual| get(key).and_then(|length| u8::try_from(length).ok()).unwrap_or(usual);
    let lengths =
        Lengths { ipv4: length("rrl-ipv4-prefix-length", 24), ipv6: length("rrl-ipv6-prefix-length", 64) };
    let rate = Some(get("rrl-ratelimit").unwrap_or(USUAL_RATE)).filter(|rate| *rate > 0);
    let out = SourceRates::of_networks([rate; 4], get("rrl-slip").unwrap_or(2), lengths);
    for (key, to) in [
        ("rrl-ratelimit", "answers-per-second"),
        ("rrl-slip", "slip"),
        ("rrl-ipv4-prefix-length", "ipv4-factors"),
        ("rrl-ipv6-prefix-length", "ipv6-factors"),
    ] {
        if let Some(found) = last(all, key)
            && rates::number(work, found).is_some()
        {
            match (key, rate) {
                ("rrl-ratelimit", None) => work.in_key(found, Section::RateLimits, "enable"),
                (_, None) => work.ledger.unneeded(found, "`rrl-ratelimit` is 0"),
                _ => work.in_key(found, Section::RateLimits, to),
            }
        }
    }
    match last(all, "rrl-ratelimit").or(server) {
        Some(found) => rates::write(work, out, found),
        None => work.ledger.unwritten(
            Coverage::Differs,
            "NSD limits replies to a network to 200 a second; nomen has its own defaults: see [rate-limits]",
        ),
    }
}

/// Converts the secrets of cookies. Those in a file that can be read replace the others.
pub(super) fn secrets(work: &mut Work, files: &dyn Files, all: &[&Statement], folder: &Path) {
    let file = last(all, "cookie-secret-file").filter(|found| !found.value().is_empty());
    let in_file =
        file.is_some_and(|found| rates::secrets_in(work, files, found, &join(folder, found.value())));
    for found in ["cookie-secret", "cookie-staging-secret"].iter().filter_map(|key| last(all, key)) {
        match in_file {
            true => work.ledger.unneeded(found, "`cookie-secret-file` replaces it"),
            false => rates::secrets_of(work, found, &[found.value().to_owned()]),
        }
    }
}
