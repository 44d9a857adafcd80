//! `response-ip` of unbound.conf, as a response policy zone with rules about addresses in answers.
//!
//! In Unbound the longest network that has an address of the answer decides, as in a policy zone. Tags of
//! networks have an effect by the actions of `access-control-tag-action` alone.

use std::net::IpAddr;

use crate::ledger::Coverage;
use crate::model::{Keys, Zone};
use crate::network::Network;
use crate::policy::absolute;
use crate::tree::{Statement, last};
use crate::work::{Work, domain, path_text};

/// The name of the policy zone.
const ZONE: &str = "response-ip.rpz.invalid";
/// The name of its file.
const FILE: &str = "response-ip";

/// Converts all statements about addresses in answers.
pub(super) fn convert(work: &mut Work, all: &[&Statement]) {
    let of = |key: &'static str| all.iter().copied().filter(move |statement| statement.key() == key);
    let has_module = last(all, "module-config").is_some_and(|found| found.value().contains("respip"));
    if !has_module {
        for key in ["response-ip", "response-ip-data", "response-ip-tag"] {
            of(key).for_each(|found| work.ledger.unneeded(found, "`module-config` has no respip"));
        }
        return;
    }
    let data: Vec<(Network, &Statement)> =
        of("response-ip-data").filter_map(|found| Some((Network::parse(found.value())?, found))).collect();
    let mut seen: Vec<Network> = Vec::new();
    for statement in of("response-ip") {
        let Some(network) = Network::parse(statement.value()).filter(|network| !network.is_mapped()) else {
            work.refuse_recursion(statement, "its network is not understood here");
            continue;
        };
        if seen.contains(&network) {
            work.ledger.unneeded(statement, "there is another `response-ip` of this network, which counts");
            continue;
        }
        seen.push(network);
        rule(work, statement, network, &data);
    }
    for (network, statement) in &data {
        if !seen.contains(network) {
            work.ledger.unneeded(statement, "there is no `response-ip` of this network");
        }
    }
    for statement in of("response-ip-data").filter(|found| Network::parse(found.value()).is_none()) {
        work.not_understood(statement);
    }
    tags(work, all);
}

/// Converts the action for a network.
fn rule(work: &mut Work, statement: &Statement, network: Network, data: &[(Network, &Statement)]) {
    let own = || data.iter().filter(|(of, _)| *of == network).map(|(_, statement)| *statement);
    let to = "[[policy.zone]] of `response-ip`";
    let action = statement.argument(1).map_or("", |word| &word.text);
    let rdata = match action {
        "always_nxdomain" => "CNAME .",
        "always_nodata" => "CNAME *.",
        "always_transparent" => "CNAME rpz-passthru.",
        "deny" | "always_deny" | "inform_deny" | "always_refuse" => "CNAME rpz-drop.",
        "inform" => {
            work.ledger.missing(statement, "nomen answers as without it, and has no log of addresses alone");
            return own().for_each(|found| work.ledger.unneeded(found, "its `response-ip` is no redirect"));
        }
        "redirect" | "inform_redirect" => {
            return redirected(work, statement, network, &own().collect::<Vec<_>>());
        }
        _ => {
            let why = "a policy zone of nomen has no such action for addresses in answers";
            own().for_each(|found| work.ledger.missing(found, "its `response-ip` is not moved"));
            return work.refuse_recursion(statement, why);
        }
    };
    line(work, network, rdata);
    match action {
        "always_refuse" => work.ledger.differs(statement, "nomen sends no reply, it does not answer REFUSED"),
        "inform_deny" => {
            work.ledger.differs(statement, "`queries` of [log] turns on the log, which has the rule")
        }
        _ => work.ledger.translated(statement, to),
    }
    own().for_each(|found| work.ledger.unneeded(found, "its `response-ip` is no redirect"));
}

/// Converts an action that answers with records.
fn redirected(work: &mut Work, statement: &Statement, network: Network, data: &[&Statement]) {
    let to = "[[policy.zone]] of `response-ip`";
    if data.is_empty() {
        line(work, network, "CNAME *.");
        return work.ledger.translated(statement, to);
    }
    for found in data {
        let text = found.argument(1).map_or("", |word| &word.text);
        match record(text) {
            Some(rdata) => {
                line(work, network, &rdata);
                work.ledger.translated(found, to);
            }
            None => {
                work.refuse_recursion(found, "its record is not understood here");
            }
        }
    }
    work.ledger.translated(statement, to);
}

/// The type and data of an `A`, `AAAA` or `CNAME` record.
fn record(text: &str) -> Option<String> {
    let mut words = text.split_whitespace().skip_while(|word| {
        word.eq_ignore_ascii_case("in") || word.bytes().all(|digit| digit.is_ascii_digit())
    });
    let (kind, value) = (words.next()?.to_ascii_uppercase(), words.next()?);
    let is_good = match kind.as_str() {
        "A" => value.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv4()),
        "AAAA" => value.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6()),
        "CNAME" => return domain(value).map(|name| format!("CNAME {}", absolute(&name))),
        _ => false,
    };
    (is_good && words.next().is_none()).then(|| format!("{kind} {value}"))
}

/// Adds a rule to the policy zone.
fn line(work: &mut Work, network: Network, rdata: &str) {
    let owner = format!("{}.rpz-ip", reversed(network));
    let is_new = !work.nomen.zones.iter().any(|zone| zone.name == ZONE);
    if let Some(path) = is_new.then(|| work.made_lists.add(FILE, "$TTL 60".to_owned())).flatten() {
        for line in ["@ SOA localhost. root.localhost. 1 3600 600 86400 60", "@ NS localhost."] {
            work.made_lists.add(FILE, line.to_owned());
        }
        let file = Some(path_text(&path));
        let zone = Zone { name: ZONE.to_owned(), file, template: None, keys: Keys::default(), span: None };
        work.nomen.zones.push(zone);
        let mut keys = Keys::default();
        keys.text("name", absolute(ZONE));
        work.nomen.policy_zones.push(keys);
        let words =
            "rules of `response-ip` come after those of `rpz` for all of a query, and `local-data` has none";
        work.ledger.unwritten(Coverage::Differs, words);
    }
    work.made_lists.add(FILE, format!("{owner} {rdata}"));
}

/// The length and the address of a network, as a policy zone names it.
fn reversed(network: Network) -> String {
    let parts: Vec<String> = match network.first() {
        IpAddr::V4(ip) => ip.octets().iter().rev().map(ToString::to_string).collect(),
        IpAddr::V6(ip) => ip.segments().iter().rev().map(|part| format!("{part:x}")).collect(),
    };
    format!("{}.{}", network.length(), parts.join("."))
}

/// Reports tags of networks. With an action for one of its tags, an address may be blocked for some clients.
fn tags(work: &mut Work, all: &[&Statement]) {
    let actions: Vec<(&str, &str)> = all
        .iter()
        .filter(|found| found.key() == "access-control-tag-action")
        .filter_map(|found| Some((found.argument(1)?.text.as_str(), found.argument(2)?.text.as_str())))
        .collect();
    for statement in all.iter().copied().filter(|found| found.key() == "response-ip-tag") {
        let of = statement.argument(1).map_or("", |word| &word.text);
        let mut own = actions.iter().filter(|(tag, _)| of.split_whitespace().any(|own| own == *tag));
        match own.find(|(_, action)| !action.ends_with("transparent") && *action != "inform") {
            None => work.ledger.unneeded(statement, "no `access-control-tag-action` blocks by its tags"),
            Some((tag, action)) => {
                let why = format!(
                    "nomen has no rules about addresses in answers for clients by tag, such as `{action}` for \
                     `{tag}`; write a policy zone, and name it in `zones` of a [[policy.group]]"
                );
                work.refuse_recursion(statement, &why);
            }
        }
    }
}
