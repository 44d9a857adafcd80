//! `rate-limit` and `cookie-secret` of named.conf.

use super::{Frame, acl};
use crate::ledger::Coverage;
use crate::model::Section;
use crate::rates;
use crate::source_rates::{Lengths, SourceRates};
use crate::tree::{Statement, find};
use crate::units;
use crate::work::Work;

/// Converts every `rate-limit`, of `options` and of views: nomen has one for all clients.
pub(super) fn convert(work: &mut Work, frame: &Frame<'_>, all: &[Statement]) {
    let scopes = all.iter().filter(|statement| {
        statement.key() == "options" || statement.key() == "view" && !super::is_of_other_class(statement)
    });
    for scope in scopes {
        for found in scope.block() {
            match found.key() {
                "rate-limit" => limits(work, frame, found),
                "cookie-secret" => secret(work, all, found),
                _ => {}
            }
        }
    }
}

fn limits(work: &mut Work, frame: &Frame<'_>, found: &Statement) {
    work.ledger.open(found);
    let get = |key: &str| found.find(key).and_then(|found| units::size(found.value()));
    let usual = get("responses-per-second").unwrap_or(0);
    let all = get("all-per-second").filter(|all| *all > 0);
    let rate = |keys: &[&str]| {
        // 0 is no limit.
        let own = keys.iter().map(|key| get(key).unwrap_or(usual)).filter(|rate| *rate > 0).min();
        own.into_iter().chain(all).min()
    };
    let kinds = [
        rate(&["responses-per-second"]),
        rate(&["referrals-per-second", "nodata-per-second"]),
        rate(&["nxdomains-per-second"]),
        rate(&["errors-per-second"]),
    ];
    let length = |key, usual| get(key).and_then(|length| u8::try_from(length).ok()).unwrap_or(usual);
    let lengths = Lengths { ipv4: length("ipv4-prefix-length", 24), ipv6: length("ipv6-prefix-length", 56) };
    let mut out = SourceRates::of_networks(kinds, get("slip").unwrap_or(2), lengths);
    out.dry_run = found.find("log-only").is_some_and(|found| units::switch(found.value()) == Some(true));
    for statement in found.block() {
        match statement.key() {
            "exempt-clients" => {
                out.exempt = acl::networks(work, &frame.acls, statement);
                work.in_key(statement, Section::RateLimits, "exempt");
            }
            "log-only" => match units::switch(statement.value()) {
                Some(_) => work.in_key(statement, Section::RateLimits, "dry-run"),
                None => work.not_understood(statement),
            },
            "window" => {
                let how =
                    "`burst` of [rate-limits] is 1s: after it, a client has to wait as long as it went over";
                work.ledger.differs(statement, how);
            }
            "max-table-size" | "min-table-size" => {
                work.ledger.unneeded(statement, "the table of nomen has its size in bytes: `table-size`");
            }
            "qps-scale" => work.ledger.missing(statement, "limits of nomen do not depend on the load"),
            "all-per-second" => {
                work.ledger
                    .differs(statement, "nomen counts kinds of replies apart; each has this limit at most");
            }
            key => match RATES.iter().find(|(name, _)| *name == key) {
                Some((_, to)) if rates::number(work, statement).is_some() => {
                    work.in_key(statement, Section::RateLimits, to);
                }
                Some(_) => {}
                None => work.ledger.missing(statement, format!("[rate-limits] has nothing for `{key}`")),
            },
        }
    }
    rates::write(work, out, found);
}

/// Numbers, and the keys that they are in.
const RATES: [(&str, &str); 8] = [
    ("responses-per-second", "answers-per-second"),
    ("referrals-per-second", "referrals-per-second"),
    ("nodata-per-second", "referrals-per-second"),
    ("nxdomains-per-second", "nxdomains-per-second"),
    ("errors-per-second", "errors-per-second"),
    ("slip", "slip"),
    ("ipv4-prefix-length", "ipv4-factors"),
    ("ipv6-prefix-length", "ipv6-factors"),
];

/// Converts a secret of cookies, if they have the algorithm of nomen.
fn secret(work: &mut Work, all: &[Statement], found: &Statement) {
    let options = all.iter().filter(|statement| statement.key() == "options");
    let algorithm = options.flat_map(Statement::blocks).find_map(|block| find(block, "cookie-algorithm"));
    if let Some(algorithm) = algorithm.filter(|algorithm| algorithm.value() != "siphash24") {
        let why =
            "nomen makes cookies with SipHash-2-4 alone (RFC 9018): other servers do not accept its cookies";
        work.ledger.part(&algorithm.span, &algorithm.title(), Coverage::Missing, why);
        return work.ledger.missing(found, "it is for another algorithm");
    }
    rates::secrets_of(work, found, &[found.value().to_owned()]);
}
