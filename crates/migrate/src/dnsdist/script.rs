//! dnsdist.conf: the calls of its Lua script.

use std::collections::HashSet;

use super::lua::{self, LuaItem, LuaValue};
use super::{Action, Balancer, Selector, SourceServer, https_fault, identity};
use crate::ledger::Coverage;
use crate::model::{Keys, Section};
use crate::network::Network;
use crate::source_rates::Lengths;
use crate::text::{SyntaxFault, Texts};
use crate::tree::Statement;
use crate::work::{NamedRule, Rule, SECOND, Work, domain, rule};

const TUNING: Rule = Rule::Unneeded("nomen decides this by itself");
const CONSOLE: Rule = Rule::Unneeded("`nomen ctl` talks to a local socket that [control] has by default");
const PAGE: Rule = Rule::Missing("[metrics] has figures, [api] a web page; they have their own keys");
const CACHE: Rule = Rule::Unneeded("nomen has one cache: `cache-size` of [resolver] is in bytes");
const SUBNETS: Rule = Rule::Missing("nomen passes no addresses of clients on to other servers");
const CHOICE: Rule = Rule::Missing("nomen chooses the fastest server that answers");

/// Calls with one argument, or without a counterpart.
pub(super) const CALLS: &[NamedRule] = &[
    ("setMaxTCPConnectionsPerClient", Rule::Limit(Section::Server, "tcp-connections-per-client")),
    ("setTCPRecvTimeout", Rule::Time(Section::Server, "tcp-idle-timeout", SECOND)),
    ("setTCPSendTimeout", Rule::Time(Section::Server, "tcp-write-timeout", SECOND)),
    ("setStaleCacheEntriesTTL", Rule::Time(Section::Resolver, "serve-stale", SECOND)),
    ("setServerPolicy", CHOICE),
    ("setServerPolicyLua", CHOICE),
    ("setPoolServerPolicy", CHOICE),
    ("setRoundRobinFailOnNoServer", CHOICE),
    ("setWeightedBalancingFactor", CHOICE),
    ("setConsistentHashingBalancingFactor", CHOICE),
    ("setWHashedPertubation", CHOICE),
    ("setServFailWhenNoServer", TUNING),
    ("newPacketCache", CACHE),
    ("getPool", TUNING),
    (":setCache", CACHE),
    (":unsetCache", CACHE),
    ("controlSocket", CONSOLE),
    ("setKey", CONSOLE),
    ("setConsoleACL", CONSOLE),
    ("addConsoleACL", CONSOLE),
    ("setConsoleConnectionsLogging", CONSOLE),
    ("setConsoleMaximumConcurrentConnections", CONSOLE),
    ("setConsoleOutputMaxMsgSize", CONSOLE),
    ("webserver", PAGE),
    ("setWebserverConfig", PAGE),
    ("setAPIWritable", PAGE),
    ("setECSOverride", SUBNETS),
    ("setECSSourcePrefixV4", SUBNETS),
    ("setECSSourcePrefixV6", SUBNETS),
    ("carbonServer", Rule::Missing("[metrics] has figures for Prometheus")),
    ("snmpAgent", Rule::Missing("[metrics] has figures for Prometheus")),
    ("newFrameStreamUnixLogger", Rule::Missing("write [dnstap]")),
    ("newFrameStreamTcpLogger", Rule::Missing("[dnstap] writes to a Unix socket or a file")),
    ("newRemoteLogger", Rule::Missing("write [dnstap]")),
    ("setMaxUDPOutstanding", TUNING),
    ("setMaxTCPClientThreads", TUNING),
    ("setMaxTCPQueuedConnections", TUNING),
    ("setMaxTCPQueriesPerConnection", TUNING),
    ("setMaxTCPConnectionDuration", TUNING),
    ("setMaxCachedTCPConnectionsPerDownstream", TUNING),
    ("setMaxIdleTCPConnectionsPerDownstream", TUNING),
    ("setUDPTimeout", TUNING),
    ("setUDPMultipleMessagesVectorSize", TUNING),
    ("setUDPSocketBufferSizes", TUNING),
    ("setRandomizedIdsOverUDP", TUNING),
    ("setRandomizedOutgoingSockets", TUNING),
    ("setTCPInternalPipeBufferSize", TUNING),
    ("setTCPFastOpenKey", TUNING),
    ("setCacheCleaningDelay", TUNING),
    ("setCacheCleaningPercentage", TUNING),
    ("setRingBuffersSize", TUNING),
    ("setRingBuffersLockRetries", TUNING),
    ("setRingBuffersOptions", TUNING),
    ("setVerbose", TUNING),
    ("setVerboseHealthChecks", TUNING),
    ("setSyslogFacility", TUNING),
    ("setStructuredLogging", Rule::Missing("write `format = \"json\"` into [log]")),
    ("setSecurityPollSuffix", TUNING),
    ("setSecurityPollInterval", TUNING),
    ("setDynBlocksAction", TUNING),
    ("setDynBlocksPurgeInterval", TUNING),
    ("dynBlockRulesGroup", TUNING),
    (":setQuiet", TUNING),
    (":apply", TUNING),
    ("setDefaultBPFFilter", TUNING),
    ("newBPFFilter", Rule::Missing("nomen loads no filters into the kernel, but for AF_XDP")),
    ("setAllowEmptyResponse", TUNING),
    ("setDropEmptyQueries", TUNING),
    ("fixupCase", TUNING),
    ("truncateTC", TUNING),
];

/// Actions that change neither which queries are answered, nor by which server.
const HARMLESS: [&str; 16] = [
    "LogAction",
    "DnstapLogAction",
    "RemoteLogAction",
    "SNMPTrapAction",
    "NoneAction",
    "SetTagAction",
    "SetSkipCacheAction",
    "SkipCacheAction",
    "SetDisableECSAction",
    "DisableECSAction",
    "SetDisableValidationAction",
    "SetMaxReturnedTTLAction",
    "SetNoRecurseAction",
    "NoRecurseAction",
    "SetAdditionalProxyProtocolValueAction",
    "TeeAction",
];

/// Reads a script.
pub(super) fn read(
    texts: &mut Texts<'_>,
    number: usize,
    work: &mut Work,
    found: &mut Balancer,
) -> Result<Vec<Statement>, SyntaxFault> {
    let items = lua::parse(texts, number)?;
    let mut masks = Lengths { ipv4: 32, ipv6: 128 };
    for item in &items {
        match item {
            LuaItem::Call(statement, name, arguments) => {
                call(work, found, statement, name, arguments, &mut masks);
            }
            LuaItem::Name(statement) => work.ledger.translated(statement, "its value, wherever it is named"),
            LuaItem::Code(statement, words) => code(work, statement, words),
        }
    }
    Ok(items.into_iter().map(|item| item.statement().clone()).collect())
}

/// Reports code that is not executed. It may have rules, unless it only applies dynamic ones.
fn code(work: &mut Work, statement: &Statement, words: &[String]) {
    const PLAIN: [&str; 9] = ["function", "maintenance", "(", ")", ":", "apply", "end", "local", ";"];
    let mut unknown: HashSet<&str> = words.iter().map(String::as_str).collect();
    unknown.retain(|word| !PLAIN.contains(word));
    let is_maintenance = words.iter().any(|word| word == "maintenance") && unknown.len() <= 1;
    match is_maintenance {
        true => work.ledger.unneeded(statement, "the limits of dynamic rules hold always"),
        false => work.refuse_recursion(statement, "code is not executed, and may have rules"),
    }
}

fn call(
    work: &mut Work,
    found: &mut Balancer,
    statement: &Statement,
    name: &str,
    arguments: &[LuaValue],
    masks: &mut Lengths,
) {
    let first = arguments.first();
    let text = first.map(LuaValue::text).unwrap_or_default();
    match name {
        "addLocal" | "setLocal" => {
            found.listen(work, statement, text, "");
        }
        "addTLSLocal" | "addDOHLocal" | "addDOQLocal" | "addDOH3Local" => {
            let proto = match name {
                "addTLSLocal" => "tls",
                "addDOHLocal" => "https",
                "addDOH3Local" => "h3",
                _ => "quic",
            };
            encrypted(work, found, statement, arguments, proto);
        }
        "setACL" | "addACL" => match first.and_then(LuaValue::texts) {
            Some(all) => found.clients(work, statement, &all, name == "setACL"),
            None => work.refuse_recursion(statement, "its list cannot be read"),
        },
        "setProxyProtocolACL" => match first.and_then(LuaValue::texts) {
            Some(all) if all.iter().all(|text| Network::parse(text).is_some()) => {
                let networks = all.iter().filter_map(|text| Network::parse(text)).map(|one| one.to_string());
                work.nomen.server.texts("proxy-protocol-from", networks.collect());
                work.in_key(statement, Section::Server, "proxy-protocol-from");
            }
            _ => work.not_understood(statement),
        },
        "newServer" => found.server(work, statement, &server(first)),
        "addAction" => match arguments.get(1).map_or(Action::Unknown, action) {
            Action::QueriesPerSecond => found.rule(statement, Selector::TotalRate, Action::Drop),
            action => found.rule(statement, first.map_or(Selector::Unknown, selector), action),
        },
        ":setQueryRate" | ":setRCodeRate" | ":setResponseByteRate" | ":setQTypeRate" => {
            dynamic(found, work, statement, name, arguments, *masks);
        }
        ":setMasks" => match arguments.get(1..3).map(|all| all.iter().filter_map(number).collect::<Vec<_>>())
        {
            Some(all) if all.len() == 2 => {
                let short = |length: u64| u8::try_from(length).unwrap_or(0);
                *masks = Lengths { ipv4: short(all[0]), ipv6: short(all[1]) };
                work.in_key(statement, Section::RateLimits, "ipv4-factors");
            }
            _ => work.not_understood(statement),
        },
        ":excludeRange" => match arguments.get(1).and_then(LuaValue::texts) {
            Some(all) => {
                found.unlimited.extend(all.iter().filter_map(|text| Network::parse(text)));
                work.in_key(statement, Section::RateLimits, "exempt");
            }
            None => work.not_understood(statement),
        },
        name => other(work, statement, name, text),
    }
}

/// Converts a call that is about neither clients nor servers.
fn other(work: &mut Work, statement: &Statement, name: &str, text: &str) {
    const RULES: [&str; 6] = ["Action", "Rule", "ACL", "Block", "Filter", "include"];
    match rule(CALLS, name) {
        Some(rule @ (Rule::Unneeded(_) | Rule::Missing(_))) => work.apply(statement, rule),
        // The value of a call with one number or word.
        Some(rule) => {
            let mut plain = statement.clone();
            plain.parts.truncate(2);
            match text.is_empty() {
                true => work.not_understood(statement),
                false => work.apply(&plain, rule),
            }
        }
        // Functions of the language may change lists.
        None if RULES.iter().any(|word| name.contains(word)) || name.contains('.') => {
            work.refuse_recursion(statement, &format!("`{name}` is not moved"));
        }
        None => work.ledger.missing(statement, format!("nomen has nothing for `{name}`")),
    }
}

/// Converts a listener with a certificate.
fn encrypted(
    work: &mut Work,
    found: &mut Balancer,
    statement: &Statement,
    arguments: &[LuaValue],
    proto: &'static str,
) {
    let Some(address) = arguments.first() else {
        return work.ledger.missing(statement, "it has no address");
    };
    let files = |number: usize| match arguments.get(number) {
        // None: HTTP without TLS.
        None => Some(Vec::new()),
        Some(value) if value.is_nil() => Some(Vec::new()),
        Some(value) => value.texts(),
    };
    let (proto, chains, keys) = match (files(1), files(2)) {
        (Some(chains), _) if proto == "https" && chains.iter().all(String::is_empty) => {
            ("http", Vec::new(), Vec::new())
        }
        (Some(chains), Some(keys)) if !chains.is_empty() && !keys.is_empty() => (proto, chains, keys),
        _ => return work.ledger.missing(statement, "it has no certificate in a file"),
    };
    if !found.listen(work, statement, address.text(), proto) {
        return;
    }
    for (chain, key) in chains.into_iter().zip(keys) {
        let mut block = Keys::default();
        block.text("chain", chain);
        block.text("key", key);
        if !work.nomen.certificates.contains(&block) {
            work.nomen.certificates.push(block);
        }
    }
    if let Some(paths) = arguments.get(3).and_then(LuaValue::texts).filter(|paths| !paths.is_empty()) {
        paths.into_iter().for_each(|path| work.nomen.server.add("https-paths", path));
    }
    let trusts = arguments.last().and_then(|options| options.get("trustForwardedForHeader"));
    if trusts.is_some_and(|trusts| trusts.text() == "true") {
        work.ledger.part(&statement.span, &statement.title(), Coverage::Missing, FORWARDED_FOR);
    }
}

/// What an operator has to do about headers that name the client.
pub(super) const FORWARDED_FOR: &str = "clients in X-Forwarded-For: write `http-client-header = \
    \"x-forwarded-for\"` and the proxies, `http-proxies-from`, into [server]; see docs/PROXIES.md";

/// Reads the argument of `newServer`.
fn server(value: Option<&LuaValue>) -> SourceServer {
    let Some(value) = value else { return SourceServer::default() };
    if let LuaValue::Text(address) = value {
        return SourceServer { address: address.clone(), ..SourceServer::default() };
    }
    let get = |key: &str| value.get(key);
    let text = |key: &str| get(key).map(LuaValue::text).unwrap_or_default();
    let address = text("address").to_owned();
    let validates = text("validateCertificates") != "false";
    let identity = get("tls").map(|_| identity(&address, text("subjectName"), validates));
    let path = get("dohPath").map(|path| path.text().to_owned());
    let fault = path.as_ref().and_then(|path| https_fault(identity.as_ref(), path));
    let fault = if fault.is_some() {
        fault
    } else if text("useProxyProtocol") == "true" {
        Some("nomen sends no PROXY headers")
    } else if get("pool").is_some_and(|pool| pool.texts().is_none()) {
        Some("its pools cannot be read")
    } else {
        None
    };
    let pools = get("pool").and_then(LuaValue::texts).unwrap_or_default();
    SourceServer { address, pools, identity, path, fault }
}

fn number(value: &LuaValue) -> Option<u64> {
    value.text().parse().ok()
}

/// Names and networks, as a rule has them without a function.
fn bare(all: &[String]) -> Selector {
    let networks: Option<Vec<Network>> = all.iter().map(|text| Network::parse(text)).collect();
    let names: Option<Vec<String>> = all.iter().map(|text| domain(text)).collect();
    match (networks, names) {
        (Some(networks), _) if !networks.is_empty() => Selector::Networks(networks),
        (_, Some(names)) if !names.is_empty() => Selector::Suffixes(names),
        _ => Selector::Unknown,
    }
}

/// Converts the condition of a rule.
fn selector(value: &LuaValue) -> Selector {
    let LuaValue::Call(name, arguments) = value else {
        return value.texts().map_or(Selector::Unknown, |all| bare(&all));
    };
    let first = arguments.first();
    let count = |at: usize| arguments.get(at).and_then(number);
    let texts = || first.and_then(LuaValue::texts);
    match name.as_str() {
        "AllRule" => Selector::All,
        "makeRule" | "SuffixMatchNodeRule" | "QNameSuffixRule" => match (texts(), first) {
            (Some(all), _) => bare(&all),
            // A set that was made before: `newSuffixMatchNode`, `newNMG`.
            _ => Selector::Unknown,
        },
        // The second argument is whether it is about the source; the third, whether it is quiet.
        "NetmaskGroupRule" if arguments.len() == 1 || arguments[1].text() == "true" => match texts() {
            Some(all) => match bare(&all) {
                Selector::Networks(networks) => Selector::Networks(networks),
                _ => Selector::Unknown,
            },
            None => Selector::Unknown,
        },
        "MaxQPSIPRule" => match count(0).filter(|rate| *rate > 0) {
            Some(rate) => {
                let length =
                    |at, usual: u8| count(at).and_then(|one| u8::try_from(one).ok()).unwrap_or(usual);
                let lengths = Lengths { ipv4: length(1, 32), ipv6: length(2, 64) };
                Selector::ClientRate { rate, burst: count(3).unwrap_or(rate), lengths }
            }
            None => Selector::Unknown,
        },
        "MaxQPSRule" => Selector::TotalRate,
        "AndRule" => match first {
            Some(LuaValue::Table(all)) if !all.is_empty() => {
                Selector::Every(all.iter().map(|(_, one)| selector(one)).collect())
            }
            _ => Selector::Unknown,
        },
        "OrRule" => match first {
            Some(LuaValue::Table(all)) => either(all.iter().map(|(_, one)| selector(one)).collect()),
            _ => Selector::Unknown,
        },
        _ => Selector::Unknown,
    }
}

/// Conditions of one kind, one of which suffices.
pub(super) fn either(all: Vec<Selector>) -> Selector {
    let (mut networks, mut names) = (Vec::new(), Vec::new());
    for one in all {
        match one {
            Selector::Networks(some) => networks.extend(some),
            Selector::Suffixes(some) => names.extend(some),
            _ => return Selector::Unknown,
        }
    }
    match (networks.is_empty(), names.is_empty()) {
        (false, true) => Selector::Networks(networks),
        (true, false) => Selector::Suffixes(names),
        _ => Selector::Unknown,
    }
}

/// Converts the action of a rule.
fn action(value: &LuaValue) -> Action {
    let LuaValue::Call(name, arguments) = value else { return Action::Unknown };
    let first = arguments.first().map(LuaValue::text).unwrap_or_default();
    match name.as_str() {
        "AllowAction" => Action::Allow,
        "DropAction" => Action::Drop,
        "DelayAction" => Action::Delay,
        "QPSAction" => Action::QueriesPerSecond,
        "TCAction" => Action::Truncate,
        "RCodeAction" | "ERCodeAction" if !first.ends_with("NOERROR") && first != "0" => Action::Refuse,
        "NegativeAndSOAAction" => Action::Refuse,
        // A pool that ends the evaluation, as by default.
        "PoolAction" if arguments.get(1).is_none_or(|stops| stops.text() == "true") => {
            Action::Pool(first.to_owned())
        }
        name if HARMLESS.contains(&name) => Action::Harmless,
        _ => Action::Unknown,
    }
}

/// Converts a limit of dynamic rules. A client beyond it loses the replies beyond it, not all of them.
fn dynamic(
    found: &mut Balancer,
    work: &mut Work,
    statement: &Statement,
    name: &str,
    arguments: &[LuaValue],
    masks: Lengths,
) {
    // The first argument is the group.
    let at = if name == ":setRCodeRate" || name == ":setQTypeRate" { 2 } else { 1 };
    let Some(rate) = arguments.get(at).and_then(number).filter(|rate| *rate > 0) else {
        return work.not_understood(statement);
    };
    let kind = arguments.get(1).map(LuaValue::text).unwrap_or_default();
    found.dynamic(work, statement, (name.trim_start_matches(':'), kind), rate, masks);
}
