//! `[rate-limits]` and `cookie-secrets`: limits on replies and secrets of cookies, of several programs.

use std::path::Path;

use crate::files::Files;
use crate::ledger::Coverage;
use crate::model::{Section, Setting, bounded};
use crate::source_rates::SourceRates;
use crate::tree::Statement;
use crate::units;
use crate::work::Work;

/// The keys of the four kinds of replies.
const KINDS: [&str; 4] =
    ["answers-per-second", "referrals-per-second", "nxdomains-per-second", "errors-per-second"];
/// Most secrets of cookies.
const MAX_SECRETS: usize = 3;

/// Writes `[rate-limits]`. With limits of several statements, the stricter ones of each.
pub(crate) fn write(work: &mut Work, found: SourceRates, at: &Statement) {
    let rates = match work.rates.take() {
        Some(before) => before.stricter(&found),
        None => found,
    };
    let keys = work.nomen.section(Section::RateLimits);
    keys.0.clear();
    if rates.rates.iter().all(Option::is_none) {
        keys.switch("enable", false);
        work.rates = Some(rates);
        return;
    }
    if rates.dry_run {
        keys.switch("dry-run", true);
    }
    let mut changed = Vec::new();
    let mut set = |key: &'static str, value: u64| {
        if let Some((setting, is_changed)) = bounded("[rate-limits]", key, value) {
            keys.set(key, setting);
            changed.extend(is_changed.then_some(key));
        }
    };
    for (key, rate) in KINDS.into_iter().zip(rates.rates) {
        set(key, rate.unwrap_or(u64::MAX));
    }
    set("burst", rates.burst);
    set("slip", rates.slip);
    if rates.slip == 0 {
        set("short-replies-per-second", 0);
    }
    keys.set("ipv4-factors", Setting::Numbers(rates.factors.0.into()));
    keys.set("ipv6-factors", Setting::Numbers(rates.factors.1.into()));
    // An empty list is none; without it, nomen exempts networks that the source limits.
    keys.set("exempt", Setting::Texts(rates.exempt.clone()));
    keys.switch("limit-recursion", true);
    if !changed.is_empty() {
        let words = format!("{} of [rate-limits] take no such value", changed.join(", "));
        work.ledger.part(&at.span, &at.title(), Coverage::Differs, words);
    }
    if rates.is_wider {
        let words = "the largest networks that nomen counts are a /18 and a /48: a larger one may get more";
        work.ledger.part(&at.span, &at.title(), Coverage::Differs, words);
    }
    work.ledger.part(&at.span, &at.title(), Coverage::Differs, COUNTED);
    work.rates = Some(rates);
}

/// How the limits differ, for the report.
const COUNTED: &str = "[rate-limits] counts 256 bytes of a reply as one, and all replies of a kind to an address or \
                       network together; clients over TCP or with a valid cookie have no limit (docs/RATE-LIMITS.md)";

/// Adds secrets of cookies in hexadecimal digits, that with which cookies are made first. Returns whether all
/// are usable.
pub(crate) fn secrets(work: &mut Work, all: &[String]) -> bool {
    let digits = |text: &String| {
        let text = text.trim();
        let hex = text.strip_prefix("0x").unwrap_or(text).to_ascii_lowercase();
        (hex.len() == 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(hex)
    };
    let found: Option<Vec<String>> = all.iter().map(digits).collect();
    let Some(found) = found.filter(|found| !found.is_empty()) else { return false };
    if work.nomen.server.members("cookie-secrets").len() + found.len() > MAX_SECRETS {
        return false;
    }
    found.into_iter().for_each(|secret| work.nomen.server.add("cookie-secrets", secret));
    true
}

/// Converts a statement with secrets of cookies.
pub(crate) fn secrets_of(work: &mut Work, statement: &Statement, all: &[String]) {
    match secrets(work, all) {
        true => work.in_key(statement, Section::Server, "cookie-secrets"),
        false => {
            work.ledger.missing(statement, "`cookie-secrets` of [server] takes up to 3 secrets of 128 bits")
        }
    }
}

/// Converts a file with secrets of cookies, one on each line. Returns whether it has any.
pub(crate) fn secrets_in(work: &mut Work, files: &dyn Files, statement: &Statement, path: &Path) -> bool {
    let Ok(bytes) = files.read(path) else {
        work.ledger.missing(statement, "the file cannot be read: run `nomen migrate` as a user who may");
        return false;
    };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let plain = |line: &str| line.split(['#', ';']).next().unwrap_or_default().trim().to_owned();
    let all: Vec<String> = text.lines().map(plain).filter(|line| !line.is_empty()).collect();
    secrets_of(work, statement, &all);
    !work.nomen.server.members("cookie-secrets").is_empty()
}

/// A number of a statement; reports it if it is none.
pub(crate) fn number(work: &mut Work, statement: &Statement) -> Option<u64> {
    let found = units::size(statement.value());
    if found.is_none() {
        work.not_understood(statement);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_128_bits() {
        let mut work = Work::default();
        let good = "0xE5E973E5A6B2A43F48E7DC849E37BFCF".to_owned();
        assert!(secrets(&mut work, std::slice::from_ref(&good)));
        for bad in ["", "e5e9", "e5e973e5a6b2a43f48e7dc849e37bfcg", "e5e973e5a6b2a43f48e7dc849e37bfcf00"] {
            assert!(!secrets(&mut work, &[bad.to_owned()]), "{bad}");
        }
        assert!(!secrets(&mut work, &[]));
        assert_eq!(work.nomen.server.members("cookie-secrets"), [good[2..].to_ascii_lowercase()]);
        let many: Vec<String> = (0..3).map(|n| format!("{n:032x}")).collect();
        assert!(!secrets(&mut work, &many));
    }
}
