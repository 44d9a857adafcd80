//! `ip-ratelimit` and `cookie-secret…` of unbound.conf.

use std::path::Path;

use crate::files::{Files, join};
use crate::model::Section;
use crate::rates;
use crate::source_rates::{Lengths, SourceRates};
use crate::tree::{Statement, last};
use crate::units;
use crate::work::Work;

/// Converts the queries per second of an address, which become replies of each kind.
pub(super) fn rates(work: &mut Work, all: &[&Statement]) {
    let Some(found) = last(all, "ip-ratelimit") else { return };
    let Some(rate) = rates::number(work, found) else { return };
    if rate == 0 {
        return work
            .ledger
            .unneeded(found, "Unbound has no limit; nomen has its own defaults: see [rate-limits]");
    }
    let get = |key: &str| last(all, key).and_then(|found| units::size(found.value()));
    let factor = get("ip-ratelimit-factor").unwrap_or(10);
    // 1 lets every query pass.
    let rate = (factor != 1).then_some(rate);
    let out = SourceRates::of_networks([rate; 4], factor, Lengths { ipv4: 32, ipv6: 128 });
    for (key, to) in [("ip-ratelimit", "answers-per-second"), ("ip-ratelimit-factor", "slip")] {
        if let Some(found) = last(all, key) {
            work.in_key(found, Section::RateLimits, to);
        }
    }
    if let Some(found) = last(all, "ip-ratelimit-cookie") {
        match units::size(found.value()) {
            Some(0) => work.ledger.unneeded(found, "clients with a valid cookie have no limit"),
            _ => work.ledger.missing(found, "clients with a valid cookie have no limit in nomen"),
        }
    }
    rates::write(work, out, found);
}

/// Converts the secrets of cookies. Those in a file that can be read replace the others.
pub(super) fn secrets(work: &mut Work, files: &dyn Files, all: &[&Statement], folder: &Path) {
    let file = last(all, "cookie-secret-file").filter(|found| !found.value().is_empty());
    let in_file =
        file.is_some_and(|found| rates::secrets_in(work, files, found, &join(folder, found.value())));
    if let Some(found) = last(all, "cookie-secret") {
        match in_file {
            true => work.ledger.unneeded(found, "`cookie-secret-file` replaces it"),
            false => rates::secrets_of(work, found, &[found.value().to_owned()]),
        }
    }
}
