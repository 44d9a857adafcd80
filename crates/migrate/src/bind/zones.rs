//! Zones of named.conf.

use std::path::Path;

use super::encryption::TlsFiles;
use super::{Frame, access, acl, signing};
use crate::files::join;
use crate::ledger::Coverage;
use crate::model::{Keys, Section, Setting, Zone};
use crate::signing::{parents, report_parents};
use crate::text::SourceSpan;
use crate::tree::{Part, SourceWord, Statement};
use crate::units;
use crate::work::{Work, domain, path_text, server};

/// Zone statements that may also be in `options`.
pub(super) const INHERITED: &[&str] = &[
    "allow-query",
    "allow-query-on",
    "allow-transfer",
    "also-notify",
    "notify",
    "allow-notify",
    "allow-update",
    "allow-update-forwarding",
    "ixfr-from-differences",
    "min-refresh-time",
    "max-refresh-time",
    "min-retry-time",
    "max-retry-time",
    "request-ixfr",
    "serial-update-method",
    "max-journal-size",
    "masterfile-format",
    "transfer-source",
    "transfer-source-v6",
    "notify-source",
    "notify-source-v6",
    "dnssec-policy",
    "inline-signing",
    "key-directory",
    "parental-agents",
    "checkds",
];

/// Why zone files in other formats than text are not migrated.
const MASTERFILE: &str = "nomen reads zones as text; write it with named-compilezone -F text";

/// Converts one zone.
pub(super) fn zone(work: &mut Work, frame: &Frame<'_>, zone: &Statement) {
    let name = zone.value();
    let kind = zone.find("type").map_or("", Statement::value).to_ascii_lowercase();
    if frame.aside && UPSTREAM.contains(&kind.as_str()) {
        return work.ledger.unneeded(zone, "clients of its view do not recurse");
    }
    work.ledger.open(zone);
    let Some(plain) = domain(name) else {
        return work.ledger.missing(zone, "its name is not a domain name; in DNS, letters are ASCII");
    };
    let class = zone.words().nth(2).map_or("IN", |class| &class.text);
    if !class.eq_ignore_ascii_case("in") {
        return work.ledger.missing(zone, "nomen has zones of class IN alone");
    }
    let view = frame.view.as_deref();
    if work.nomen.zones.iter().any(|zone| zone.name == plain && zone.view() == view) {
        return work.ledger.missing(zone, "there is another zone of this name");
    }
    if let Some(other) = zone.find("in-view") {
        if let Err(why) = in_view(work, frame, other, &plain, &zone.span) {
            work.ledger.narrower(other, format!("{why}: it is left out"));
            refuse(work, frame, &plain);
        }
        return;
    }
    let finished = match kind.as_str() {
        "master" | "primary" => primary(work, frame, zone, &plain),
        "slave" | "secondary" => secondary(work, frame, zone, &plain),
        "forward" => forward(work, frame, zone, &plain),
        "stub" => stub(work, frame, zone, &plain, "primaries"),
        "static-stub" => stub(work, frame, zone, &plain, "server-addresses"),
        "hint" => hint(work, frame, zone),
        "mirror" if plain == "." => mirror(work, frame, zone),
        "mirror" => Err(
            "nomen has no mirror zones but of the root: it keeps no validated copy of another for recursion",
        ),
        "redirect" => Err("nomen has no redirect zones"),
        "delegation-only" => Err("nomen has no delegation-only zones"),
        _ => Err("its type is not one that is understood here"),
    };
    match finished {
        Err(why) => {
            work.ledger.missing(zone, why);
            // Its names must not be queried elsewhere if they were not before.
            let forwarded = zone.find("forwarders").is_some_and(|list| !list.block().is_empty());
            match kind.as_str() {
                "forward" if !forwarded => work.iterate_domain(&plain),
                kind if kind == "forward" || OWN.contains(&kind) => refuse(work, frame, &plain),
                _ => {}
            }
        }
        Ok(()) => {
            for key in ["type", "file"] {
                if let Some(statement) = zone.find(key) {
                    work.ledger.translated(statement, "[[zone]], or the rule for its names");
                }
            }
        }
    }
}

/// Types of zones that are for recursion alone.
const UPSTREAM: [&str; 6] = ["forward", "stub", "static-stub", "hint", "mirror", "redirect"];

/// Types of zones whose names belong to the server, or to servers that the zone names.
const OWN: [&str; 6] = ["master", "primary", "slave", "secondary", "stub", "static-stub"];

/// Converts `in-view`: the zone is that of another view.
///
/// # Errors
/// Why it is left out.
fn in_view(
    work: &mut Work,
    frame: &Frame<'_>,
    other: &Statement,
    name: &str,
    span: &SourceSpan,
) -> Result<(), &'static str> {
    let named = frame.view_names.iter().find(|(title, _)| title == other.value());
    let view = named.and_then(|(_, view)| view.as_deref()).ok_or("there is no zone of this view here")?;
    let found = work.nomen.zones.iter().find(|zone| zone.name == name && zone.view() == Some(view));
    let mut zone = found.cloned().ok_or("there is no zone of this view here")?;
    if ["allow-update", "update-policy"].iter().any(|key| zone.keys.get(key).is_some()) {
        return Err("in nomen each view has a zone of its own, and an update would change one of them");
    }
    zone.span = Some(span.clone());
    frame.view.iter().for_each(|view| zone.keys.text("view", view.clone()));
    work.nomen.zones.push(zone);
    work.ledger.differs(other, "a [[zone]] of its own with the same content, which is loaded twice");
    Ok(())
}

/// Refuses upstream queries for the names of a zone that is left out, if clients of its view recurse.
fn refuse(work: &mut Work, frame: &Frame<'_>, name: &str) {
    if !frame.aside {
        work.refuse_domain(name);
    }
}

fn primary(work: &mut Work, frame: &Frame<'_>, zone: &Statement, name: &str) -> Result<(), &'static str> {
    let file =
        zone.find("file").ok_or("it has no file: nomen takes zones from master files and from primaries")?;
    if let Some(format) = frame.deciding(zone, "masterfile-format").filter(|format| format.value() != "text")
    {
        work.ledger.missing(format, MASTERFILE);
        return Err(MASTERFILE);
    }
    let mut keys = Keys::default();
    common(work, frame, zone, &mut keys, TlsFiles::of_zone());
    signing::zone(work, frame, zone, &mut keys, false);
    parental_servers(work, frame, zone, &mut keys);
    // If both are set, the policy counts.
    let policy = zone.find("update-policy");
    if let Some(found) = frame.deciding(zone, "allow-update").filter(|_| policy.is_none()) {
        let list = acl::grants(work, &frame.acls, found, found.block());
        keys.texts("allow-update", list);
        work.ledger.translated(found, "`allow-update` of the zone");
    }
    if let Some(policy) = policy {
        let rules = update_policy(work, policy);
        keys.texts("update-policy", rules);
    }
    let updated = keys.get("allow-update").is_some() || keys.get("update-policy").is_some();
    if let Some(method) = frame.deciding(zone, "serial-update-method") {
        match (method.value(), updated) {
            (word @ ("increment" | "unixtime" | "date"), true) => {
                keys.text("serial-policy", word);
                work.ledger.translated(method, "`serial-policy` of the zone");
            }
            (_, true) => work.not_understood(method),
            (_, false) => work.ledger.unneeded(method, "it is about updates, which the zone does not take"),
        }
    }
    kept(work, frame, zone, updated, &mut keys);
    if updated {
        let journal = join(&frame.directory, &format!("{}.jnl", file.value()));
        let how = format!(
            "updates that BIND has in {} are not read: run `rndc freeze` and `rndc sync -clean` before the \
             move",
            journal.display()
        );
        work.ledger.part(&zone.span, &zone.title(), Coverage::Differs, how);
    }
    let path = join(&frame.directory, file.value());
    work.zone_files.push((path.clone(), Some(frame.directory.clone())));
    add(work, frame, zone, name, Some(&path), keys);
    Ok(())
}

/// Converts the storage of differences, from updates or from the file, and its limits.
fn kept(work: &mut Work, frame: &Frame<'_>, zone: &Statement, updated: bool, keys: &mut Keys) {
    if let Some(found) = frame.deciding(zone, "ixfr-from-differences") {
        let on = match found.value() {
            "primary" | "master" => Some(true),
            "secondary" | "slave" => Some(false),
            word => units::switch(word),
        };
        match on {
            Some(on) => {
                keys.switch("ixfr-from-differences", on);
                work.ledger.translated(found, "`ixfr-from-differences` of the zone");
            }
            None => work.not_understood(found),
        }
    }
    let journal = updated
        || keys.get("ixfr-from-differences") == Some(&Setting::Switch(true))
        || keys.get("dnssec-policy").is_some();
    if journal {
        work.keep_state();
    }
    if let Some(size) = frame.deciding(zone, "max-journal-size") {
        match (size.value(), journal) {
            (_, false) => work.ledger.unneeded(size, "it is about changes, of which the zone keeps none"),
            ("default" | "unlimited", true) => work.ledger.missing(size, "write a size; here it is 16 MiB"),
            (value, true) => work.zone_number(size, keys, "journal-size", units::size(value)),
        }
    }
}

fn add(
    work: &mut Work,
    frame: &Frame<'_>,
    zone: &Statement,
    name: &str,
    file: Option<&Path>,
    mut keys: Keys,
) {
    if let Some(view) = &frame.view {
        keys.0.insert(0, ("view", Setting::Text(view.clone())));
    }
    let file = file.map(path_text);
    let span = Some(zone.span.clone());
    work.nomen.zones.push(Zone { name: name.to_owned(), file, template: None, keys, span });
}

fn secondary(work: &mut Work, frame: &Frame<'_>, zone: &Statement, name: &str) -> Result<(), &'static str> {
    let list = zone.find("primaries").or_else(|| zone.find("masters")).ok_or("it has no primaries")?;
    let mut files = TlsFiles::of_zone();
    let primaries = servers(work, frame, list, &mut files, 0);
    if primaries.is_empty() {
        return Err("none of its primaries can be asked by nomen");
    }
    work.ledger.translated(list, "`primaries` of the zone");
    let mut keys = Keys::default();
    keys.texts("primaries", primaries);
    common(work, frame, zone, &mut keys, files);
    signing::zone(work, frame, zone, &mut keys, true);
    parental_servers(work, frame, zone, &mut keys);
    if let Some(found) = frame.deciding(zone, "allow-notify") {
        let list = acl::grants(work, &frame.acls, found, found.block());
        keys.texts("allow-notify", list);
        work.ledger.translated(found, "`allow-notify` of the zone");
    }
    if let Some(found) = frame.deciding(zone, "allow-update-forwarding") {
        let list = acl::grants(work, &frame.acls, found, found.block());
        keys.texts("forward-updates", list);
        work.ledger.translated(found, "`forward-updates` of the zone");
    }
    if let Some(found) = frame.deciding(zone, "ixfr-from-differences") {
        match ["yes", "secondary", "slave"].contains(&found.value()) {
            true => work.ledger.differs(
                found,
                "the changes of a zone from primaries are those that they send (IXFR); none are made of \
                 whole zones",
            ),
            false => work.ledger.unneeded(found, "nomen does so anyway"),
        }
    }
    if let Some(found) = frame.deciding(zone, "request-ixfr") {
        match units::switch(found.value()) {
            Some(true) => work.ledger.unneeded(found, "nomen does so anyway"),
            Some(false) => {
                keys.switch("ixfr", false);
                work.ledger.translated(found, "`ixfr` of the zone");
            }
            None => work.not_understood(found),
        }
    }
    for (theirs, ours) in [
        ("min-refresh-time", "min-refresh"),
        ("max-refresh-time", "max-refresh"),
        ("min-retry-time", "min-retry"),
        ("max-retry-time", "max-retry"),
    ] {
        if let Some(found) = frame.deciding(zone, theirs) {
            let value = units::seconds(found.value()).and_then(|seconds| seconds.checked_mul(1000));
            work.zone_number(found, &mut keys, ours, value);
        }
    }
    if let Some(file) = zone.find("file") {
        work.ledger.unneeded(
            file,
            "nomen takes the zone from its primaries at the start, and keeps it in `state-dir`",
        );
    }
    for key in ["masterfile-format", "journal"] {
        if let Some(found) = zone.find(key) {
            work.ledger.unneeded(found, "nomen keeps zones from primaries in a form of its own");
        }
    }
    work.keep_state();
    add(work, frame, zone, name, None, keys);
    Ok(())
}

/// Converts the statements common to primaries and secondaries: outgoing transfers and NOTIFY.
fn common(work: &mut Work, frame: &Frame<'_>, zone: &Statement, keys: &mut Keys, mut files: TlsFiles) {
    access::queries(work, frame, Some(zone), keys);
    if let Some(found) = frame.deciding(zone, "allow-transfer") {
        // Port and transport in it mean encrypted transfers.
        if found.words().count() > 1 {
            work.ledger.missing(
                found,
                "`allow-transfer` is for any port and transport here; transfers over TLS alone are those of \
                 clients with `cert:NAME`",
            );
        } else {
            let list = acl::grants(work, &frame.acls, found, found.block());
            keys.texts("allow-transfer", list);
            work.ledger.translated(found, "`allow-transfer` of the zone");
        }
    }
    let notify = frame.deciding(zone, "notify");
    let silent = notify.is_some_and(|found| units::switch(found.value()) == Some(false));
    if let Some(found) = frame.deciding(zone, "also-notify") {
        if silent {
            work.ledger.unneeded(found, "`notify` is off");
        } else {
            let list = servers(work, frame, found, &mut files, 0);
            keys.texts("notify", list);
            work.ledger.translated(found, "`notify` of the zone");
        }
    }
    if let Some(found) = notify {
        match found.value() {
            "explicit" => work.ledger.unneeded(found, "nomen does so anyway"),
            _ if silent => work.ledger.unneeded(found, "nomen sends NOTIFY to the servers in `notify` alone"),
            _ => work.ledger.differs(
                found,
                "nomen sends NOTIFY to the servers in `notify` alone, not to those of NS records",
            ),
        }
    }
    files.write(keys);
    source(work, frame, zone, keys);
}

/// Converts the servers of the parent of a zone that is signed.
fn parental_servers(work: &mut Work, frame: &Frame<'_>, zone: &Statement, keys: &mut Keys) {
    if keys.get("dnssec-policy").is_none() {
        return;
    }
    let checks = frame.deciding(zone, "checkds");
    let is_off = checks.is_some_and(|found| units::switch(found.value()) == Some(false));
    if let Some(found) = checks {
        match is_off {
            true => work.ledger.differs(found, "nomen asks the servers of the parent for the DS records"),
            false => work.ledger.unneeded(found, "nomen does so anyway"),
        }
    }
    let Some(found) = frame.deciding(zone, "parental-agents") else { return };
    // Lists of `parental-agents` have names of their own.
    let mut lists = frame.servers.clone();
    lists.extend(frame.agents.iter().map(|(name, list)| (name.clone(), *list)));
    let all = servers(work, &Frame { servers: lists, ..frame.clone() }, found, &mut TlsFiles::default(), 0);
    let (all, is_less) = parents(&all);
    if all.is_empty() {
        return work
            .ledger
            .differs(found, "none of them can be asked by nomen: it asks the name servers of the parent");
    }
    keys.texts("parental-servers", all);
    report_parents(work, found, is_less);
}

/// Converts the source addresses for queries and NOTIFY to other servers of the zone.
fn source(work: &mut Work, frame: &Frame<'_>, zone: &Statement, keys: &mut Keys) {
    let (asks, tells) = (keys.get("primaries").is_some(), keys.get("notify").is_some());
    let mut sources = Vec::new();
    for [theirs, notify] in [["transfer-source", "notify-source"], ["transfer-source-v6", "notify-source-v6"]]
    {
        let of = |key: &str, used: bool| frame.deciding(zone, key).map(|found| (found, used));
        let named = |found: Option<(&Statement, bool)>| {
            let value = found.filter(|(_, used)| *used).map(|(found, _)| found.value().to_owned());
            value.filter(|value| value != "*")
        };
        let (asked, told) = (of(theirs, asks), of(notify, tells));
        // If there are sources for both, those for transfers count.
        let wanted = if asks { named(asked) } else { named(told) };
        let wanted = wanted.filter(|value| value.parse::<std::net::IpAddr>().is_ok());
        for (found, used) in [asked, told].into_iter().flatten() {
            let own = Some(found.value().to_owned()).filter(|value| value != "*");
            match (used, own == wanted) {
                (false, _) => work.ledger.unneeded(found, "the zone has no servers that it is for"),
                (true, _) if found.values().count() > 1 => {
                    work.ledger.differs(found, "`source` of the zone; the port is of the kernel's choice");
                }
                (true, true) if own.is_none() => work.ledger.unneeded(found, "nomen does so anyway"),
                (true, true) => work.ledger.translated(found, "`source` of the zone"),
                (true, false) => work
                    .ledger
                    .missing(found, "`source` of a zone is for questions, transfers and NOTIFY alike"),
            }
        }
        sources.extend(wanted);
    }
    keys.texts("source", sources);
}

/// Converts a list of servers with ports and keys, including named lists.
pub(super) fn servers(
    work: &mut Work,
    frame: &Frame<'_>,
    list: &Statement,
    files: &mut TlsFiles,
    depth: usize,
) -> Vec<String> {
    let port = list.word_after("port").map(|word| word.text.as_str());
    let tls = list.word_after("tls").map(|word| word.text.as_str());
    let block = list.blocks().last().unwrap_or_default();
    let mut out = Vec::new();
    for member in block {
        let text = member.key();
        if let Some(named) = frame.servers.get(text) {
            match depth < 16 {
                true => out.extend(servers(work, frame, named, files, depth + 1)),
                false => work.ledger.part(
                    &member.span,
                    text,
                    Coverage::Missing,
                    "lists stand too deep within each other",
                ),
            }
            continue;
        }
        let port = member.word_after("port").map(|word| word.text.as_str()).or(port);
        let tls = member.word_after("tls").map(|word| word.text.as_str()).or(tls);
        let encrypted = tls.filter(|tls| *tls != "none");
        // BIND's port of TLS is 853, too.
        let Some(mut address) = server(text, port.or(encrypted.map(|_| "853"))) else {
            let why = "there is no list of this name, and it is not the address of a server";
            work.ledger.part(&member.span, text, Coverage::Missing, why);
            continue;
        };
        if let Some(tls) = encrypted {
            match files.identity(work, frame, tls, text) {
                Ok(identity) => address = format!("{}#{identity}", with_port_53(address)),
                Err(why) => {
                    let why = format!("{why}; the server is left out");
                    work.ledger.part(&member.span, text, Coverage::Missing, why);
                    continue;
                }
            }
        }
        let own = member.word_after("key");
        let of_server =
            text.parse().ok().and_then(|ip: std::net::IpAddr| frame.server_keys.get(&ip.to_string()));
        match (own, of_server) {
            (Some(word), _) => {
                if let Some(key) = work.known_key(&word.span, &word.text) {
                    out.push(format!("{address} key:{key}"));
                }
            }
            (None, Some(key)) => out.push(format!("{address} key:{key}")),
            (None, None) => out.push(address),
        }
    }
    let mut seen = std::collections::HashSet::new();
    out.retain(|server| seen.insert(server.clone()));
    out
}

/// Returns a server with its port, which is 53 if none is written: that is not the default of TLS.
fn with_port_53(address: String) -> String {
    if address.contains('@') { address } else { format!("{address}@53") }
}

/// Addresses and ports without keys.
pub(super) fn addresses(
    work: &mut Work,
    frame: &Frame<'_>,
    list: &Statement,
    files: &mut TlsFiles,
) -> Vec<String> {
    let all = servers(work, frame, list, files, 0);
    all.into_iter().map(|server| server.split(" key:").next().unwrap_or_default().to_owned()).collect()
}

fn forward(work: &mut Work, frame: &Frame<'_>, zone: &Statement, name: &str) -> Result<(), &'static str> {
    const NONE: &str = "it names no servers; write a [[resolver.stub]] with the servers of this domain, to \
                        have it asked by itself";
    let list = zone.find("forwarders").ok_or(NONE)?;
    let mut files = TlsFiles::of_rule();
    let servers = addresses(work, frame, list, &mut files);
    if servers.is_empty() {
        return Err(if list.block().is_empty() {
            NONE
        } else {
            "nomen can ask none of its servers, and asks no others in their place"
        });
    }
    if !frame.recurses(work) {
        return Err("recursion is off");
    }
    work.ledger.translated(list, "[[resolver.forward]]");
    let mut rule = Keys::default();
    rule.text("domain", name);
    rule.texts("servers", servers);
    files.write(&mut rule);
    forward_mode(work, zone.find("forward"), &mut rule);
    work.nomen.forwards.push(rule);
    Ok(())
}

/// Converts the forward mode. The default is `forward first`: if the forwarders do not answer, the name's own
/// servers are queried.
pub(super) fn forward_mode(work: &mut Work, mode: Option<&Statement>, rule: &mut Keys) {
    match mode.map_or("first", Statement::value) {
        "first" => rule.switch("forward-first", true),
        "only" => {}
        _ => return mode.into_iter().for_each(|mode| work.not_understood(mode)),
    }
    if let Some(mode) = mode {
        work.ledger.translated(mode, "`forward-first` of the rule, which is off unless it is set");
    }
}

fn stub(
    work: &mut Work,
    frame: &Frame<'_>,
    zone: &Statement,
    name: &str,
    key: &str,
) -> Result<(), &'static str> {
    let list =
        zone.find(key).or_else(|| zone.find("masters")).ok_or("it names no servers by their addresses")?;
    let mut files = TlsFiles::of_rule();
    let servers = addresses(work, frame, list, &mut files);
    if servers.is_empty() {
        return Err("it names no servers by their addresses");
    }
    if name == "." {
        return Err("a stub cannot be for all names; write the servers into `root-servers` of [resolver]");
    }
    if !frame.recurses(work) {
        return Err("recursion is off");
    }
    match key {
        "primaries" => work
            .ledger
            .differs(list, "nomen asks these servers themselves, not those that they name in NS records"),
        _ => work.ledger.translated(list, "[[resolver.stub]]"),
    }
    let mut rule = Keys::default();
    rule.text("domain", name);
    rule.texts("servers", servers);
    files.write(&mut rule);
    work.nomen.stubs.push(rule);
    Ok(())
}

/// Converts a copy of the root zone for recursion (RFC 8806).
fn mirror(work: &mut Work, frame: &Frame<'_>, zone: &Statement) -> Result<(), &'static str> {
    if !frame.recurses(work) {
        return Err("recursion is off, and it is for nothing else");
    }
    if let Some(list) = zone.find("primaries").or_else(|| zone.find("masters")) {
        let primaries = servers(work, frame, list, &mut TlsFiles::default(), 0);
        if primaries.is_empty() {
            return Err("none of its primaries can be asked by nomen");
        }
        work.recurse().texts("local-root-primaries", primaries);
        work.in_key(list, Section::Resolver, "local-root-primaries");
    }
    let words = "`local-root` of [resolver]; no client is answered from the copy itself";
    work.ledger.part(&zone.span, &zone.title(), Coverage::Translated, words);
    work.recurse().switch("local-root", true);
    work.keep_state();
    Ok(())
}

/// Converts custom root servers; nomen has those of the public DNS built in.
fn hint(work: &mut Work, frame: &Frame<'_>, zone: &Statement) -> Result<(), &'static str> {
    if zone.value() != "." {
        return Err("hints are for the root alone");
    }
    let file = zone.find("file").ok_or("it has no file")?;
    work.hints.push((join(&frame.directory, file.value()), zone.span.clone()));
    Ok(())
}

fn update_policy(work: &mut Work, policy: &Statement) -> Vec<String> {
    let mut out = Vec::new();
    if policy.blocks().next().is_none() {
        work.ledger.missing(
            policy,
            "nomen has no session key; name a key and write a rule such as \"grant key:NAME zone\"",
        );
        return out;
    }
    work.ledger.translated(policy, "`update-policy` of the zone");
    for rule in policy.block() {
        let words: Vec<&SourceWord> = rule.words().collect();
        match policy_rule(work, rule, &words) {
            Some(texts) => out.extend(texts),
            None => {
                let why = "nomen has rules for `name`, `subdomain`, `wildcard`, `self`, `selfsub` and \
                           `zonesub`, of keys, without numbers of records";
                work.ledger.part(&rule.span, &rule.title(), Coverage::Missing, why);
                // Without this refusal, the rules after it would permit what it refuses.
                if rule.key() == "deny" {
                    break;
                }
            }
        }
    }
    out
}

fn policy_rule(work: &mut Work, rule: &Statement, words: &[&SourceWord]) -> Option<Vec<String>> {
    let [action, identity, kind, rest @ ..] = words else { return None };
    if !["grant", "deny"].contains(&action.text.as_str())
        || rule.parts.iter().any(|p| matches!(p, Part::Block(_)))
    {
        return None;
    }
    let clients: Vec<String> = match identity.text.as_str() {
        // A wildcard matches every client that signs, with any key.
        "*" => work.nomen.key_names().map(|name| format!("key:{name}")).collect(),
        name => vec![format!("key:{}", work.known_key(&identity.span, name)?)],
    };
    // `zonesub` has no name; the name of `self` and similar rules is a placeholder.
    let (names, types) = match (kind.text.as_str(), rest) {
        ("zonesub", types) => ("zone".to_owned(), types),
        (kind @ ("name" | "subdomain"), [name, types @ ..]) => {
            (format!("{kind} {}.", domain(&name.text)?.trim_end_matches('.')), types)
        }
        // Names below the parent of the wildcard.
        ("wildcard", [name, types @ ..]) => {
            let name = domain(&name.text).filter(|name| name == "*" || name.starts_with("*."))?;
            (format!("wildcard {name}."), types)
        }
        (kind @ ("self" | "selfsub"), [_, types @ ..]) => (kind.to_owned(), types),
        (kind @ ("self" | "selfsub"), []) => (kind.to_owned(), rest),
        _ => return None,
    };
    let mut of_types = String::new();
    for rtype in types {
        let known = rtype.text.parse::<wire::Type>().is_ok_and(|rtype| !rtype.is_meta());
        if !(known || types.len() == 1 && rtype.text.eq_ignore_ascii_case("any")) {
            return None;
        }
        of_types = of_types + " " + &rtype.text.to_ascii_uppercase();
    }
    Some(clients.iter().map(|client| format!("{} {client} {names}{of_types}", action.text)).collect())
}

/// Converts `catalog-zones`, after the zones themselves.
pub(super) fn catalogs(work: &mut Work, frame: &Frame<'_>) {
    let Some(found) = frame.global("catalog-zones") else { return };
    work.ledger.open(found);
    for entry in found.block() {
        let name = entry.value();
        let default = entry.parts.iter().position(|part| {
            matches!(part, Part::Word(word) if word.text == "default-primaries" || word.text == "default-masters")
        });
        let primaries = default.map(|at| Statement { parts: entry.parts[at..].to_vec(), ..entry.clone() });
        let mut files = TlsFiles::of_zone();
        let primaries = primaries.map(|list| servers(work, frame, &list, &mut files, 0)).unwrap_or_default();
        let Some(plain) = domain(name) else {
            work.not_understood(entry);
            continue;
        };
        let Some(zone) = work.nomen.zones.iter_mut().find(|zone| zone.name == plain) else {
            work.ledger.missing(entry, "there is no zone of this name");
            continue;
        };
        let template = format!("members-of-{plain}");
        zone.keys.text("catalog-template", template.clone());
        let mut keys = Keys::default();
        keys.texts("primaries", primaries);
        // Members without primaries of their own are transferred from those of the catalog zone.
        if keys.0.is_empty() {
            let own = zone.keys.members("primaries").to_vec();
            keys.texts("primaries", own);
            for key in ["ca-file", "client-chain", "client-key"] {
                if let Some(file) = zone.keys.get(key) {
                    keys.0.push((key, file.clone()));
                }
            }
        } else {
            files.write(&mut keys);
        }
        if keys.0.is_empty() {
            zone.keys.remove("catalog-template");
            work.ledger.missing(entry, "it has no primaries, so its members would come from nowhere");
            continue;
        }
        access::queries(work, frame, None, &mut keys);
        work.nomen.templates.push((template, keys));
        work.ledger.translated(entry, "`catalog-template` of the zone, and the template that it names");
    }
}
