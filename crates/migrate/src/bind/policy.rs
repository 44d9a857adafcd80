//! `response-policy` of named.conf: response policy zones.

use super::Frame;
use crate::ledger::Coverage;
use crate::model::{Keys, Setting};
use crate::policy;
use crate::tree::{Part, SourceWord, Statement};
use crate::units;
use crate::work::{Work, domain};

/// Parameters that a zone may have of its own, and for all zones.
const OF_ZONES: [&str; 8] = [
    "max-policy-ttl",
    "add-soa",
    "ede",
    "log",
    "min-update-interval",
    "recursive-only",
    "nsip-enable",
    "nsdname-enable",
];
/// Parameters of all zones together.
const OF_ALL: [&str; 6] = [
    "break-dnssec",
    "min-ns-dots",
    "nsip-wait-recurse",
    "nsdname-wait-recurse",
    "qname-wait-recurse",
    "dnsrps-enable",
];

/// Converts `response-policy`, once the zones are known.
pub(super) fn response_policy(work: &mut Work, frame: &Frame<'_>) {
    let Some(found) = frame.global("response-policy") else { return };
    if work.nomen.resolver.is_none() {
        return work
            .ledger
            .unneeded(found, "recursion is off, and nomen applies policies to recursion alone");
    }
    let common: Vec<(&str, &SourceWord)> = parameters(after_block(found));
    for (key, value) in &common {
        if *key == "dnsrps-enable" && units::switch(&value.text) == Some(true) {
            return work.refuse_recursion(found, "nomen loads no policy provider (DNSRPS)");
        }
    }
    work.ledger.open(found);
    for entry in found.block() {
        zone(work, entry, &common);
    }
    of_all(work, &common);
    let words = "[policy] and [[policy.zone]]; names of zones that nomen serves, `local-data` and special-use \
                 names keep their own answers";
    work.ledger.part(&found.span, "response-policy", Coverage::Differs, words);
}

/// The words after the block of zones.
fn after_block(found: &Statement) -> Vec<&SourceWord> {
    let parts = found.parts.iter().skip_while(|part| matches!(part, Part::Word(_))).skip(1);
    parts.filter_map(|part| if let Part::Word(word) = part { Some(word) } else { None }).collect()
}

/// Pairs of a parameter and its value.
fn parameters(words: Vec<&SourceWord>) -> Vec<(&str, &SourceWord)> {
    words.chunks(2).filter_map(|pair| Some((pair.first()?.text.as_str(), *pair.get(1)?))).collect()
}

/// Converts `zone NAME [policy ACTION] [PARAMETER VALUE]…`.
fn zone(work: &mut Work, entry: &Statement, common: &[(&str, &SourceWord)]) {
    let Some(name) = domain(entry.value()).filter(|_| entry.key() == "zone") else {
        return work.refuse_recursion(entry, "it is not the name of a policy zone");
    };
    let mut words: Vec<&SourceWord> = entry.words().skip(2).collect();
    let Some(action) = action(&mut words) else {
        return work.refuse_recursion(entry, "its policy is not one that is understood here");
    };
    let own = parameters(words);
    let value = |key: &str| own.iter().chain(common).find(|(name, _)| *name == key).map(|(_, word)| *word);
    let mut keys = Keys::default();
    keys.text("name", policy::absolute(&name));
    if action != "given" {
        keys.text("action", action);
    }
    // The default is 5 s.
    let ttl = value("max-policy-ttl").map_or(Some(5), |word| units::seconds(&word.text));
    let Some(ttl) = ttl else {
        return work.refuse_recursion(entry, "its `max-policy-ttl` is not a time");
    };
    policy::max_ttl(work, entry, &mut keys, ttl);
    if value("add-soa").is_some_and(|word| units::switch(&word.text) == Some(false)) {
        keys.switch("add-soa", false);
    }
    if value("log").is_some_and(|word| units::switch(&word.text) == Some(false)) {
        keys.switch("log", false);
    }
    let error = value("ede").map_or("none", |word| &word.text);
    if !["none", "forged", "blocked", "censored", "filtered", "prohibited"].contains(&error) {
        work.ledger.part(&entry.span, &entry.title(), Coverage::Missing, "nomen has no such extended error");
    } else if error != "blocked" {
        keys.text("extended-error", error);
    }
    for (key, word) in &own {
        parameter(work, key, word, true);
    }
    if policy::zone(work, entry, &name, keys) {
        work.ledger.translated(entry, "[[policy.zone]]");
    }
}

/// Takes the action out of the words of a zone; `None` if it is unknown.
fn action(words: &mut Vec<&SourceWord>) -> Option<String> {
    let Some(at) = words.iter().position(|word| word.text == "policy") else {
        return Some("given".to_owned());
    };
    let action = words.get(at + 1)?.text.to_ascii_lowercase();
    let (taken, action) = match action.as_str() {
        "cname" => (3, policy::absolute(&domain(&words.get(at + 2)?.text)?)),
        "no-op" => (2, "passthru".to_owned()),
        "given" | "disabled" | "passthru" | "nxdomain" | "nodata" | "drop" | "tcp-only" => (2, action),
        _ => return None,
    };
    words.drain(at..at + taken);
    Some(action)
}

/// Converts the parameters after the block.
fn of_all(work: &mut Work, common: &[(&str, &SourceWord)]) {
    for (key, word) in common {
        parameter(work, key, word, false);
    }
    let on = |key: &str| {
        let found = common.iter().find(|(name, _)| *name == key);
        found.and_then(|(_, word)| units::switch(&word.text))
    };
    if on("break-dnssec") == Some(true) {
        work.nomen.policy.switch("break-dnssec", true);
    }
    // It is on by default in BIND, but not in nomen.
    work.nomen.policy.switch("qname-wait-recurse", on("qname-wait-recurse").unwrap_or(true));
    let waits = ["nsip-wait-recurse", "nsdname-wait-recurse"].map(|key| on(key).unwrap_or(true));
    if waits == [false, false] {
        work.nomen.policy.switch("ns-wait-recurse", false);
    }
    let dots = common.iter().find(|(key, _)| *key == "min-ns-dots").map(|(_, word)| word.text.parse::<u64>());
    if let Some(Ok(dots)) = dots.filter(|dots| *dots != Ok(1)) {
        work.nomen.policy.set("min-ns-dots", Setting::Number(dots));
    }
    if waits[0] != waits[1]
        && let Some((_, word)) =
            common.iter().find(|(key, _)| key.ends_with("-wait-recurse") && key.starts_with("ns"))
    {
        let how = "`ns-wait-recurse` of [policy] is for addresses and names of servers alike: nomen waits";
        work.ledger.part(&word.span, "nsip-wait-recurse, nsdname-wait-recurse", Coverage::Differs, how);
    }
}

/// Reports a parameter that is not moved as it is; those of one zone alone are `own`.
fn parameter(work: &mut Work, key: &str, word: &SourceWord, own: bool) {
    let (on, title) = (units::switch(&word.text), format!("{key} {}", word.text));
    let (outcome, why) = match (key, on) {
        ("recursive-only", Some(false)) => {
            (Coverage::Missing, "nomen applies policies to queries of recursive service alone")
        }
        ("nsip-enable" | "nsdname-enable", Some(false)) => (
            Coverage::Narrower,
            "nomen applies all rules of a policy zone, those about name servers too: they may block more",
        ),
        ("log", Some(true)) => {
            (Coverage::Differs, "`queries` of [log] turns on the log of queries, which has the rules")
        }
        ("recursive-only" | "nsip-enable" | "nsdname-enable", Some(true)) => {
            (Coverage::Unneeded, "nomen does so anyway")
        }
        ("min-update-interval", _) => {
            (Coverage::Unneeded, "nomen applies each version of a policy zone as it comes")
        }
        ("dnsrps-enable", Some(false)) => (Coverage::Unneeded, "nomen does so anyway"),
        ("add-soa" | "log" | "break-dnssec" | "qname-wait-recurse", None)
        | ("nsip-wait-recurse" | "nsdname-wait-recurse", None) => {
            (Coverage::Missing, "its value is not one that is understood here")
        }
        ("min-ns-dots", _) if word.text.parse::<u64>().is_err() => {
            (Coverage::Missing, "its value is not one that is understood here")
        }
        _ if OF_ZONES.contains(&key) || !own && OF_ALL.contains(&key) => {
            (Coverage::Translated, if own { "[[policy.zone]]" } else { "[policy] and [[policy.zone]]" })
        }
        _ => (Coverage::Missing, "nomen has nothing for it"),
    };
    work.ledger.part(&word.span, &title, outcome, why);
}
