//! The modules of knot.conf that limit replies and make cookies: `mod-rrl`, `mod-cookies`.

use crate::ledger::Coverage;
use crate::model::Section;
use crate::network::Network;
use crate::rates;
use crate::source_rates::{Lengths, SourceRates};
use crate::tree::Statement;
use crate::units;
use crate::work::Work;

/// Keys that `mod-rrl` has since Knot DNS 3.4, where it counts as nomen does.
const NEW: [&str; 5] = ["instant-limit", "log-period", "dry-run", "time-rate-limit", "time-instant-limit"];
/// Multiples of an address's limit for its networks since 3.4.
const MULTIPLES: ([u64; 3], [u64; 3]) = ([32, 256, 768], [2, 3, 4]);
/// Limits of `mod-rrl` since 3.4, without keys for them.
const USUAL_RATE: u64 = 50;
const USUAL_INSTANT: u64 = 125;

/// Whether a word of `module` names one of these modules, or another one that is moved.
pub(super) fn is_module(word: &str) -> bool {
    const MOVED: [&str; 4] = ["mod-rrl", "mod-cookies", "mod-dnstap", "mod-queryacl"];
    MOVED.contains(&word.split('/').next().unwrap_or_default())
}

/// Converts the modules that a zone or a template has. nomen has them for all zones together.
pub(super) fn convert(work: &mut Work, sections: &[Statement]) {
    let of = |key: &str| {
        let key = key.to_owned();
        sections.iter().filter(move |section| section.key() == key).flat_map(|section| section.block())
    };
    let entries = of("template").chain(of("zone")).flat_map(|item| item.block());
    let named: Vec<&str> = entries
        .filter(|entry| ["module", "global-module"].contains(&entry.key()))
        .flat_map(Statement::values)
        .map(|word| word.text.as_str())
        .collect();
    for (key, convert) in [("mod-rrl", limits as fn(&mut Work, &Statement)), ("mod-cookies", cookies)] {
        for item in of(key) {
            let id = item.find("id").map_or("", Statement::value);
            match named.contains(&format!("{key}/{id}").as_str()) {
                true => convert(work, item),
                false => work.ledger.unneeded(item, "no zone of this configuration has it"),
            }
        }
    }
}

fn limits(work: &mut Work, item: &Statement) {
    work.ledger.open(item);
    let get = |key: &str| item.find(key).and_then(|found| units::size(found.value()));
    let is_new = NEW.iter().any(|key| item.find(key).is_some());
    // 0 is no limit.
    let rate = Some(get("rate-limit").unwrap_or(USUAL_RATE)).filter(|rate| *rate > 0);
    let lengths = match is_new {
        true => Lengths { ipv4: 32, ipv6: 128 },
        false => Lengths { ipv4: 24, ipv6: 56 },
    };
    let mut out = SourceRates::of_networks([rate; 4], get("slip").unwrap_or(1), lengths);
    if is_new {
        out.factors = MULTIPLES;
        let instant = get("instant-limit").unwrap_or(USUAL_INSTANT);
        out.burst = instant.saturating_mul(1000) / rate.unwrap_or(1);
    }
    out.dry_run = item.find("dry-run").is_some_and(|found| units::switch(found.value()) == Some(true));
    for entry in item.block() {
        match entry.key() {
            "id" | "comment" => work.ledger.translated(entry, "[rate-limits]"),
            "rate-limit" => work.in_key(entry, Section::RateLimits, "answers-per-second"),
            "instant-limit" => work.in_key(entry, Section::RateLimits, "burst"),
            "slip" => work.in_key(entry, Section::RateLimits, "slip"),
            "dry-run" => work.in_key(entry, Section::RateLimits, "dry-run"),
            "whitelist" => {
                let all: Option<Vec<Vec<Network>>> =
                    entry.values().map(|word| Network::parse_range(&word.text)).collect();
                match all {
                    Some(all) => {
                        out.exempt = all.concat().iter().map(ToString::to_string).collect();
                        work.in_key(entry, Section::RateLimits, "exempt");
                    }
                    None => work.not_understood(entry),
                }
            }
            "table-size" | "log-period" => {
                work.ledger.unneeded(entry, "nomen has its own: see `table-size` and `top` of [rate-limits]");
            }
            _ => work.ledger.missing(entry, "nomen limits replies, not the time that clients take"),
        }
    }
    if !is_new {
        let words = "it has no key of Knot DNS 3.4 or later: its rate is taken for that of a /24 or a /56, as in \
                     earlier versions";
        work.ledger.part(&item.span, &item.title(), Coverage::Differs, words);
    }
    rates::write(work, out, item);
}

fn cookies(work: &mut Work, item: &Statement) {
    work.ledger.open(item);
    for entry in item.block() {
        match entry.key() {
            "secret" => {
                let all: Vec<String> = entry.values().map(|word| word.text.clone()).collect();
                rates::secrets_of(work, entry, &all);
            }
            "badcookie-slip" if entry.value() != "1" => {
                work.ledger.differs(entry, "nomen answers queries with a wrong cookie, under [rate-limits]");
            }
            _ => work
                .ledger
                .unneeded(entry, "nomen answers cookies, and replaces a random secret at each start"),
        }
    }
}
