//! dnstap: which messages are logged, and to which sink. nomen has one `[dnstap]` section.

use std::path::Path;

use crate::files::join;
use crate::model::{Keys, Section};
use crate::tree::Statement;
use crate::units;
use crate::work::{Work, path_text};

/// A sink that nomen does not support.
const NO_NETWORK: &str = "nomen writes to a Unix socket or a file, not over the network";

/// Sets the server's identity or version in frames: a text, or hidden.
fn named(keys: &mut Keys, key: &'static str, shown: bool, text: Option<&str>) {
    match (shown, text.filter(|text| !text.is_empty())) {
        (false, _) => keys.text(key, "hide"),
        (true, Some(text)) => keys.text(key, text),
        (true, None) => {}
    }
}

fn write(work: &mut Work, keys: Keys) {
    *work.nomen.section(Section::Dnstap) = keys;
}

/// Converts the section `dnstap` of Unbound and NSD.
pub(crate) fn of_section(work: &mut Work, section: &Statement, base: &Path) {
    work.ledger.open(section);
    let last = |key: &str| section.block().iter().rev().find(|statement| statement.key() == key);
    let text = |key: &str| last(key).map(Statement::value).filter(|text| !text.is_empty());
    let on = |key: &str| last(key).is_some_and(|found| units::switch(found.value()) == Some(true));
    let all = |work: &mut Work, why: &str| {
        let others = section.block().iter().filter(|statement| statement.key() != "dnstap-ip");
        others.for_each(|statement| work.ledger.unneeded(statement, why));
    };
    if !on("dnstap-enable") {
        return all(work, "`dnstap-enable` is off");
    }
    if let Some(found) = last("dnstap-ip").filter(|found| !found.value().is_empty()) {
        work.ledger.missing(found, NO_NETWORK);
        return all(work, "there is nowhere to write to");
    }
    let Some(socket) = text("dnstap-socket-path") else {
        work.ledger.missing(
            section,
            "write `socket` of [dnstap]: the path that is built into the other program is not known",
        );
        return;
    };
    let mut keys = Keys::default();
    keys.text("socket", path_text(&join(base, socket)));
    for (theirs, ours) in [
        // A client's message may be of either kind in nomen: about a local zone, or about another name.
        ("client-query", &["client-query", "auth-query"][..]),
        ("client-response", &["client-response", "auth-response"]),
        ("auth-query", &["auth-query"]),
        ("auth-response", &["auth-response"]),
        ("resolver-query", &["resolver-query"]),
        ("resolver-response", &["resolver-response"]),
        ("forwarder-query", &["forwarder-query"]),
        ("forwarder-response", &["forwarder-response"]),
    ] {
        if on(&format!("dnstap-log-{theirs}-messages")) {
            ours.iter().for_each(|kind| keys.add("messages", *kind));
        }
    }
    if keys.members("messages").is_empty() {
        return all(work, "no kind of message is copied");
    }
    named(&mut keys, "identity", on("dnstap-send-identity"), text("dnstap-identity"));
    named(&mut keys, "version", on("dnstap-send-version"), text("dnstap-version"));
    write(work, keys);
    for statement in section.block() {
        match statement.key() {
            "dnstap-sample-rate" if statement.value() == "0" => {
                work.ledger.unneeded(statement, "nomen does so anyway");
            }
            "dnstap-sample-rate" => {
                work.number(statement, Section::Dnstap, "sample", statement.value().parse().ok());
            }
            "dnstap-bidirectional" => work.ledger.unneeded(statement, "nomen does so anyway"),
            key if key.starts_with("dnstap-tls") || key == "dnstap-ip" => {
                work.ledger.unneeded(statement, "it is about a collector in the network");
            }
            key if key.starts_with("dnstap-") => work.ledger.translated(statement, "[dnstap]"),
            _ => {}
        }
    }
}

/// Converts `dnstap` of BIND and related statements, which `get` looks up.
pub(crate) fn of_bind<'s>(work: &mut Work, directory: &Path, get: &dyn Fn(&str) -> Option<&'s Statement>) {
    let Some(list) = get("dnstap") else {
        for key in ["dnstap-output", "dnstap-identity", "dnstap-version"] {
            if let Some(found) = get(key) {
                work.ledger.unneeded(found, "`dnstap` names no messages");
            }
        }
        return;
    };
    let output = get("dnstap-output");
    let place = output.and_then(|found| match (found.value(), found.argument(1)) {
        ("unix", Some(path)) => Some(("socket", path)),
        ("file", Some(path)) => Some(("file", path)),
        _ => None,
    });
    let (Some(output), Some((key, path))) = (output, place) else {
        return work.ledger.missing(list, "it has no `dnstap-output` of a file or a Unix socket");
    };
    let mut keys = Keys::default();
    keys.text(key, path_text(&join(directory, &path.text)));
    if !list.block().iter().any(|member| member.key() == "all" && member.argument(0).is_none()) {
        for (member, kinds) in list.block().iter().flat_map(|member| Some((member, kinds(member.key())?))) {
            for kind in kinds.iter().filter(|kind| kind.ends_with(member.value())) {
                keys.add("messages", *kind);
            }
        }
    }
    for (theirs, ours) in [("dnstap-identity", "identity"), ("dnstap-version", "version")] {
        let Some(found) = get(theirs) else { continue };
        let own = !["hostname", "none"].contains(&found.value());
        named(&mut keys, ours, found.value() != "none", Some(found.value()).filter(|_| own));
        work.in_key(found, Section::Dnstap, ours);
    }
    write(work, keys);
    work.ledger.translated(list, "`messages` of [dnstap]");
    match output.words().count() > 3 {
        true => work.ledger.differs(output, "files are rotated by logrotate; packaging/nomen.logrotate does"),
        false => work.in_key(output, Section::Dnstap, key),
    }
}

/// The message types for a word of BIND's.
fn kinds(word: &str) -> Option<&'static [&'static str]> {
    Some(match word {
        "auth" => &["auth-query", "auth-response"],
        "client" => &["client-query", "client-response"],
        "resolver" => &["resolver-query", "resolver-response"],
        "forwarder" => &["forwarder-query", "forwarder-response"],
        "update" => &["update-query", "update-response"],
        "all" => &[
            "auth-query",
            "auth-response",
            "client-query",
            "client-response",
            "resolver-query",
            "resolver-response",
            "forwarder-query",
            "forwarder-response",
            "update-query",
            "update-response",
        ],
        _ => return None,
    })
}

/// Converts an item of Knot's `mod-dnstap`, for all zones.
pub(crate) fn of_knot(work: &mut Work, item: &Statement) {
    work.ledger.open(item);
    let text = |key: &str| item.find(key).map(Statement::value).filter(|text| !text.is_empty());
    let off = |key: &str| item.find(key).is_some_and(|found| units::switch(found.value()) == Some(false));
    let sink = text("sink").unwrap_or_default();
    let mut keys = Keys::default();
    match sink.strip_prefix("unix:") {
        Some(path) => keys.text("socket", path),
        None if sink.starts_with('/') => keys.text("file", sink),
        None => return work.ledger.missing(item, NO_NETWORK),
    }
    for (switch, kinds) in [
        ("log-queries", ["auth-query", "update-query"]),
        ("log-responses", ["auth-response", "update-response"]),
    ] {
        kinds.iter().filter(|_| !off(switch)).for_each(|kind| keys.add("messages", *kind));
    }
    if keys.members("messages").is_empty() {
        return work.ledger.unneeded(item, "no kind of message is copied");
    }
    named(&mut keys, "identity", true, text("identity"));
    named(&mut keys, "version", true, text("version"));
    write(work, keys);
    for entry in item.block() {
        match entry.key() {
            "responses-with-queries" => work.ledger.unneeded(entry, "nomen copies each message by itself"),
            _ => work.ledger.translated(entry, "[dnstap]"),
        }
    }
}
