//! `nomen ctl`: sends one command to the running server and prints the answer, as text or as JSON.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::args::{
    ClientTraits, CtlArgs, CtlCache, CtlCookies, CtlDelegation, CtlForward, CtlLimits, CtlLog, CtlNta,
    CtlPolicy, CtlToken, CtlVerb, CtlZone, TopWord,
};
use crate::ctl_database::database_text;
use crate::ctl_delegations::{about_delegations, checks_text, delegations_text};
use crate::ctl_keys::{about_keys, key_text, read_file, signer_text};
use crate::ctl_values::{flat, in_days, value_text};
use config::PendingKey;
use config::exit_status::{EXIT_FAULTS, EXIT_OK, EXIT_OUTSIDE};
use control::protocol::{self, AcceptedVersion, AnswerLine, ClientDetails, ControlCommand, TopKind};
use control::socket::default_paths;
use wording::reason;

/// Runs the command; returns the exit code.
pub fn run(args: &CtlArgs) -> u8 {
    let mut command = command(&args.verb);
    if let CtlVerb::Key(verb) = &args.verb
        && let Err(fault) = read_file(verb, &mut command)
    {
        eprintln!("nomen: {fault}");
        return EXIT_OUTSIDE;
    }
    let stream = match connect(args.socket.as_deref(), args.config.as_deref()) {
        Ok(stream) => stream,
        Err(message) => {
            eprintln!("nomen: {message}");
            return EXIT_OUTSIDE;
        }
    };
    match converse(stream, &command, args) {
        Ok(code) => code,
        Err(e) => {
            eprintln!("nomen: the server did not answer: {}", reason(&e));
            EXIT_OUTSIDE
        }
    }
}

fn command(verb: &CtlVerb) -> ControlCommand {
    match verb {
        CtlVerb::Status => ControlCommand::Status,
        CtlVerb::Stats => ControlCommand::Stats,
        CtlVerb::Database => ControlCommand::Database,
        CtlVerb::Reload { force } => ControlCommand::Reload { force: *force },
        CtlVerb::Token(CtlToken::List) => ControlCommand::TokenList,
        CtlVerb::Cookies(CtlCookies::Rotate) => ControlCommand::CookiesRotate,
        CtlVerb::Log(log) => about_log(log),
        CtlVerb::Zone(CtlZone::List { failed }) => ControlCommand::ZoneList { failed: *failed },
        CtlVerb::Zone(CtlZone::Status { name }) => ControlCommand::ZoneStatus { name: name.clone() },
        CtlVerb::Zone(CtlZone::Reload { name, force }) => {
            ControlCommand::ZoneReload { name: name.clone(), force: *force }
        }
        CtlVerb::Zone(CtlZone::Accept { name, journal, .. }) => {
            let from = if *journal { AcceptedVersion::Journal } else { AcceptedVersion::File };
            ControlCommand::ZoneAccept { name: name.clone(), from }
        }
        CtlVerb::Zone(CtlZone::Freeze { name }) => ControlCommand::ZoneFreeze { name: name.clone() },
        CtlVerb::Zone(CtlZone::Thaw { name }) => ControlCommand::ZoneThaw { name: name.clone() },
        CtlVerb::Zone(CtlZone::Begin { name }) => ControlCommand::ZoneBegin { name: name.clone() },
        CtlVerb::Zone(CtlZone::Set { name, record }) => {
            ControlCommand::ZoneSet { name: name.clone(), record: line_of(record) }
        }
        CtlVerb::Zone(CtlZone::Unset { name, record }) => {
            ControlCommand::ZoneUnset { name: name.clone(), record: line_of(record) }
        }
        CtlVerb::Zone(CtlZone::Diff { name }) => ControlCommand::ZoneDiff { name: name.clone() },
        CtlVerb::Zone(CtlZone::Commit { name }) => ControlCommand::ZoneCommit { name: name.clone() },
        CtlVerb::Zone(CtlZone::Abort { name }) => ControlCommand::ZoneAbort { name: name.clone() },
        CtlVerb::Zone(CtlZone::Write { name, to, force }) => {
            ControlCommand::ZoneWrite { name: name.clone(), to: whole(to), force: *force }
        }
        CtlVerb::Zone(CtlZone::Add { name, template, file, primaries, catalog, group }) => {
            ControlCommand::ZoneAdd {
                name: name.clone(),
                template: template.clone(),
                file: whole(file),
                primaries: primaries.clone(),
                catalog: catalog.clone(),
                group: group.clone(),
            }
        }
        CtlVerb::Zone(CtlZone::Remove { name }) => ControlCommand::ZoneRemove { name: name.clone() },
        CtlVerb::Zone(CtlZone::Refresh { name }) => ControlCommand::ZoneRefresh { name: name.clone() },
        CtlVerb::Zone(CtlZone::Retransfer { name }) => ControlCommand::ZoneRetransfer { name: name.clone() },
        CtlVerb::Zone(CtlZone::Notify { name }) => ControlCommand::ZoneNotify { name: name.clone() },
        CtlVerb::Zone(CtlZone::Sign { name }) => ControlCommand::ZoneSign { name: name.clone() },
        CtlVerb::Zone(CtlZone::Dump { name }) => ControlCommand::ZoneDump { name: name.clone() },
        CtlVerb::Key(key) => about_keys(key),
        CtlVerb::Delegation(delegation) => about_delegations(delegation),
        CtlVerb::Explain { name, rtype, dnssec, client, traits } => ControlCommand::Explain {
            name: name.clone(),
            rtype: rtype.clone(),
            dnssec: *dnssec,
            client: *client,
            key: traits.key.clone(),
            details: details(traits),
        },
        CtlVerb::Cache(cache) => about_cache(cache),
        CtlVerb::Forward(forward) => about_forward(forward),
        CtlVerb::Nta(nta) => about_nta(nta),
        CtlVerb::Limits(limits) => about_limits(limits),
        CtlVerb::Policy(policy) => about_policy(policy),
        CtlVerb::Discovery => ControlCommand::Discovery,
        CtlVerb::Encryption => ControlCommand::EncryptionList,
        CtlVerb::TrustAnchors => ControlCommand::TrustAnchorList,
        CtlVerb::Stop => ControlCommand::Stop,
    }
}

fn about_log(log: &CtlLog) -> ControlCommand {
    match log {
        CtlLog::Reopen => ControlCommand::LogReopen,
        CtlLog::Level { level } => ControlCommand::LogLevel { level: level.clone() },
        CtlLog::Queries { share } => {
            let part = Some(*share).filter(|share| *share > 0.0 && *share < 1.0);
            ControlCommand::LogQueries { on: *share > 0.0, share: part }
        }
    }
}

/// Joins the words of a record into a line. The shell has removed the quotation marks: a word that needs them
/// is quoted again, unless it is the whole line.
fn line_of(words: &[String]) -> String {
    let quoted = |word: &String| {
        let needs = word.is_empty() || word.contains([' ', '\t', ';']) && !word.contains('"');
        if needs && words.len() > 1 { format!("\"{word}\"") } else { word.clone() }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// Returns an absolute path: the server may have another working folder.
fn whole(file: &Option<PathBuf>) -> Option<String> {
    let path = file.as_ref().map(|file| std::path::absolute(file).unwrap_or_else(|_| file.clone()));
    path.map(|path| path.display().to_string())
}

fn about_forward(verb: &CtlForward) -> ControlCommand {
    match verb {
        CtlForward::List => ControlCommand::ForwardList,
        CtlForward::Add { domain, servers, stub } => {
            let servers = servers.iter().map(ToString::to_string).collect();
            ControlCommand::ForwardAdd { domain: domain.clone(), servers, stub: *stub }
        }
        CtlForward::Remove { domain } => ControlCommand::ForwardRemove { domain: domain.clone() },
    }
}

fn about_nta(verb: &CtlNta) -> ControlCommand {
    match verb {
        CtlNta::List => ControlCommand::NtaList,
        CtlNta::Add { domain, time } => ControlCommand::NtaAdd { domain: domain.clone(), time: time.clone() },
        CtlNta::Remove { domain } => ControlCommand::NtaRemove { domain: domain.clone() },
    }
}

fn about_limits(verb: &CtlLimits) -> ControlCommand {
    let CtlLimits::Top { hour, count } = verb;
    ControlCommand::LimitsTop { count: *count as usize, hour: *hour }
}

fn about_policy(verb: &CtlPolicy) -> ControlCommand {
    match verb {
        CtlPolicy::Status => ControlCommand::PolicyStatus,
        CtlPolicy::Refresh { list } => ControlCommand::PolicyRefresh { list: list.clone() },
        CtlPolicy::Pause { group, time } => {
            ControlCommand::PolicyPause { group: group.clone(), time: Some(time.clone()) }
        }
        CtlPolicy::Resume { group } => ControlCommand::PolicyPause { group: group.clone(), time: None },
        CtlPolicy::Top { by, hour, count } => {
            let by = match by {
                TopWord::Name => TopKind::Name,
                TopWord::Client => TopKind::Client,
                TopWord::RuleSource => TopKind::RuleSource,
            };
            ControlCommand::PolicyTop { by, count: *count as usize, hour: *hour }
        }
        CtlPolicy::Test { name, client, traits, rtype } => ControlCommand::PolicyTest {
            name: name.clone(),
            client: *client,
            key: traits.key.clone(),
            details: details(traits),
            rtype: Some(rtype.clone()),
        },
    }
}

/// Returns what decides about a client's group besides its address and key.
fn details(traits: &ClientTraits) -> ClientDetails {
    ClientDetails {
        on: traits.on.clone(),
        proto: traits.proto.clone(),
        mac: traits.mac.clone(),
        client_id: traits.client_id.clone(),
        edns_tag: traits.edns_tag,
    }
}

fn about_cache(verb: &CtlCache) -> ControlCommand {
    match verb {
        CtlCache::Stats => ControlCommand::CacheStats,
        CtlCache::Flush { name, tree, rtype } => {
            ControlCommand::CacheFlush { name: name.clone(), tree: *tree, rtype: rtype.clone() }
        }
        CtlCache::Dump => ControlCommand::CacheDump,
        CtlCache::Save { file } => ControlCommand::CacheSave { file: whole(file) },
        CtlCache::Load { file } => ControlCommand::CacheLoad { file: whole(file) },
    }
}

/// Connects to the socket named on the command line, in the configuration, or at one of the default paths.
pub(super) fn connect(socket: Option<&Path>, config: Option<&Path>) -> Result<UnixStream, String> {
    let configured = match config {
        Some(file) => {
            config::read_files(file).map_err(|e| e.to_string())?.config.settings.control.value.socket.value
        }
        None => None,
    };
    let paths: Vec<PathBuf> = match socket.map(Path::to_owned).or(configured) {
        Some(path) => vec![path],
        None => default_paths(),
    };
    let mut fault = None;
    for path in &paths {
        match UnixStream::connect(path) {
            Ok(stream) => return Ok(stream),
            Err(e) => {
                let denied = e.kind() == io::ErrorKind::PermissionDenied;
                if fault.is_none() || denied {
                    fault = Some(explain_failure(path, &e));
                }
            }
        }
    }
    let looked = paths.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ");
    Err(match fault {
        Some(fault) if paths.len() == 1 => fault,
        Some(fault) if fault.contains("permission") => fault,
        _ => format!("no running server found (looked at {looked}); use --socket or --config"),
    })
}

fn explain_failure(path: &Path, e: &io::Error) -> String {
    let path = path.display();
    match e.kind() {
        io::ErrorKind::NotFound => format!("there is no control socket {path}: is the server running?"),
        io::ErrorKind::ConnectionRefused => format!("no server listens on the control socket {path}"),
        io::ErrorKind::PermissionDenied => {
            format!(
                "permission to open the control socket {path} denied: try as root or as the server's user"
            )
        }
        _ => format!("cannot open the control socket {path}: {}", reason(e)),
    }
}

fn converse(mut stream: UnixStream, command: &ControlCommand, args: &CtlArgs) -> io::Result<u8> {
    let patience = Some(Duration::from_secs(args.timeout.max(1)));
    stream.set_read_timeout(patience)?;
    stream.set_write_timeout(patience)?;
    stream.write_all(&protocol::line(command)?)?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    for line in BufReader::new(stream).lines() {
        let line = line?;
        let answer: AnswerLine = serde_json::from_str(&line).map_err(io::Error::other)?;
        match answer {
            // Pieces are JSON already, one object per line.
            AnswerLine::Text { .. } if args.json => writeln!(out, "{line}")?,
            AnswerLine::Text { text } => out.write_all(text.as_bytes())?,
            AnswerLine::Done { data, .. } => {
                if args.json {
                    writeln!(out, "{data:#}")?;
                } else if !matches!(
                    args.verb,
                    CtlVerb::Zone(CtlZone::Dump { .. }) | CtlVerb::Cache(CtlCache::Dump)
                ) {
                    out.write_all(human(&args.verb, &data).as_bytes())?;
                }
                out.flush()?;
                return Ok(EXIT_OK);
            }
            AnswerLine::Fault { error, data, .. } => {
                if args.json {
                    let mut answer = data.unwrap_or_else(|| serde_json::json!({}));
                    answer["error"] = error.into();
                    writeln!(out, "{answer:#}")?;
                    out.flush()?;
                } else {
                    if let Some(data) = &data {
                        out.write_all(human(&args.verb, data).as_bytes())?;
                    }
                    out.flush()?;
                    eprintln!("nomen: {}", error.trim_end());
                }
                return Ok(EXIT_FAULTS);
            }
        }
    }
    Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended before the answer did"))
}

/// Returns an answer as text.
fn human(verb: &CtlVerb, data: &Value) -> String {
    match (verb, data) {
        (CtlVerb::Zone(CtlZone::List { failed: true }), Value::Array(rows)) if rows.is_empty() => {
            "every zone is served in the newest version of its file\n".into()
        }
        (CtlVerb::Zone(CtlZone::List { .. }), Value::Array(rows)) => zone_table(rows),
        (CtlVerb::Key(verb), said @ Value::Object(_)) => key_text(verb, said),
        (CtlVerb::Zone(CtlZone::Sign { .. }), said @ Value::Object(_)) => signer_text(said),
        (CtlVerb::Delegation(CtlDelegation::List { .. }), list @ Value::Object(_)) => delegations_text(list),
        (CtlVerb::Delegation(_), found @ Value::Object(_)) => checks_text(found),
        (CtlVerb::Forward(CtlForward::List), Value::Array(rules)) => rules.iter().map(rule_text).collect(),
        (CtlVerb::Token(CtlToken::List), Value::Array(tokens)) if tokens.is_empty() => {
            "there are no tokens of the HTTP API\n".into()
        }
        (CtlVerb::Token(CtlToken::List), Value::Array(tokens)) => tokens.iter().map(token_text).collect(),
        (CtlVerb::Nta(CtlNta::List), Value::Array(anchors)) => anchors.iter().map(anchor_text).collect(),
        (CtlVerb::Policy(CtlPolicy::Status), Value::Array(lists)) if lists.is_empty() => {
            "there are no block lists\n".into()
        }
        (CtlVerb::Policy(CtlPolicy::Status), Value::Array(lists)) => lists.iter().map(source_text).collect(),
        (CtlVerb::Policy(CtlPolicy::Refresh { .. }), Value::Object(map)) => {
            match map.get("lists").and_then(Value::as_array) {
                Some(lists) if !lists.is_empty() => lists.iter().map(refreshed_text).collect(),
                _ => "there are no block lists\n".into(),
            }
        }
        (CtlVerb::Policy(CtlPolicy::Top { .. }), top @ Value::Object(_)) => {
            top_text(top, "queries", "blocked queries")
        }
        (CtlVerb::Limits(CtlLimits::Top { .. }), top @ Value::Object(_)) => {
            top_text(top, "replies", "replies over a limit")
        }
        (CtlVerb::Policy(CtlPolicy::Test { .. }), Value::Object(map)) => {
            format!("{}\n", map.get("text").map(flat).unwrap_or_default())
        }
        (CtlVerb::Database, state @ Value::Object(_)) => database_text(state),
        (CtlVerb::Discovery, found @ Value::Object(_)) => discovery_text(found),
        (CtlVerb::Encryption, Value::Array(servers)) => encryption_list(servers),
        (CtlVerb::TrustAnchors, Value::Array(anchors)) => anchors.iter().map(trust_anchor_text).collect(),
        (CtlVerb::Explain { .. }, Value::Object(map)) => {
            let lines = |key| map.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
            let mut out = String::new();
            for (i, step) in lines("steps").iter().enumerate() {
                let said = step.get("text").and_then(Value::as_str).unwrap_or_default();
                out += &format!("{:>2}. {said}\n", i + 1);
            }
            out.push('\n');
            out += map.get("answer").and_then(Value::as_str).unwrap_or_default();
            out
        }
        (
            CtlVerb::Reload { .. }
            | CtlVerb::Zone(CtlZone::Reload { .. } | CtlZone::Add { .. } | CtlZone::Remove { .. }),
            Value::Object(map),
        ) => reload_text(map),
        (
            CtlVerb::Zone(
                CtlZone::Set { .. } | CtlZone::Unset { .. } | CtlZone::Diff { .. } | CtlZone::Commit { .. },
            ),
            Value::Object(map),
        ) if map.contains_key("changes") => change_text(map),
        (_, Value::Object(map)) => pairs(map),
        (_, other) => format!("{}\n", flat(other)),
    }
}

/// Returns an object as text, one key on each line; of a list, one line for each member.
fn pairs(map: &Map<String, Value>) -> String {
    let mut out = String::new();
    let width = map.keys().map(String::len).max().unwrap_or(0);
    for (key, value) in map {
        match value {
            Value::Null => {}
            Value::Array(rows) => rows.iter().for_each(|row| out += &pair(key, &row_text(row), width)),
            _ => out += &pair(key, &value_text(key, value), width),
        }
    }
    out
}

/// Returns a token of the HTTP API as text.
fn token_text(token: &Value) -> String {
    let mut out = flat(&token["name"]);
    match (&token["expires"], token["expired"] == Value::Bool(true)) {
        (Value::Null, _) => {}
        (expires, true) => out += &format!(", expired on {}", flat(expires)),
        (expires, false) => out += &format!(", expires on {}", flat(expires)),
    }
    match &token["last_used"] {
        Value::Null => out += ", not used since the start",
        used => {
            let [requests, client] = ["requests", "last_client"].map(|key| flat(&token[key]));
            out += &format!(", {requests} requests, last {} from {client}", value_text("last_used", used));
        }
    }
    out.push('\n');
    for right in token["rights"].as_array().into_iter().flatten() {
        let list = |key: &str| -> Option<String> {
            let words = right[key].as_array()?.iter().map(flat);
            Some(format!("; {key}: {}", words.collect::<Vec<_>>().join(", ")))
        };
        let limits = ["zones", "names", "types"].map(|key| list(key).unwrap_or_default());
        out += &format!("    {}{}\n", flat(&right["right"]), limits.concat());
    }
    out
}

/// Returns the state of a response policy zone or a block list as text.
fn source_text(source: &Value) -> String {
    match source["kind"].as_str() {
        Some("policy-zone") => policy_zone_text(source),
        Some("group") => {
            let until = value_text("paused_until", &source["paused_until"]);
            let paused = if source["paused_until"].is_null() {
                String::new()
            } else {
                format!(": paused until {until}")
            };
            let hosts = source["host_addresses"].as_array().into_iter().flatten();
            let hosts: Vec<String> = hosts.map(flat).collect();
            let hosts =
                if hosts.is_empty() { String::new() } else { format!("; hosts: {}", hosts.join(", ")) };
            let over = match source["over_limit"].as_u64() {
                None | Some(0) => String::new(),
                Some(over) => format!("; {over} queries over the limit"),
            };
            format!("group {}{paused}{hosts}{over}\n", flat(&source["name"]))
        }
        _ => list_text(source),
    }
}

/// Returns the state of a response policy zone as text.
fn policy_zone_text(zone: &Value) -> String {
    let [name, rules] = ["name", "rules"].map(|key| flat(&zone[key]));
    let mut out = match zone["serial"].as_u64() {
        Some(serial) => format!("{name}: {rules} rules, serial {serial}"),
        None => format!("{name}: no rules; there is no version of the zone"),
    };
    let queries = zone["queries"].as_object().into_iter().flatten();
    let queries = queries.filter(|(_, number)| number.as_u64() != Some(0));
    let queries: Vec<String> = queries.map(|(action, number)| format!("{} {action}", flat(number))).collect();
    if !queries.is_empty() {
        out += &format!("; queries: {}", queries.join(", "));
    }
    out.push('\n');
    let unusable = zone["owners_unusable"].as_u64().unwrap_or(0);
    if unusable > 0 {
        out += &format!("    {unusable} owners are no triggers; the first:\n");
    }
    let first = zone["first_unusable"].as_array().into_iter().flatten();
    first.for_each(|line| out += &format!("    {}\n", flat(line)));
    out
}

/// Returns how clients discover the encrypted listeners as text.
fn discovery_text(found: &Value) -> String {
    let lines =
        |key: &str| -> Vec<String> { found[key].as_array().into_iter().flatten().map(flat).collect() };
    let name = flat(&found["name"]);
    let mut out = format!("Clients expect {name} in the certificate.\n\n");
    out += "Answered here, for clients that know the address of this resolver (RFC 9462 §4):\n";
    lines("answered").iter().for_each(|line| out += &format!("    {line}\n"));
    out += &format!("\nFor the zone of {name}, for clients that know its name (RFC 9462 §5):\n");
    lines("records").iter().for_each(|line| out += &format!("    {line}\n"));
    out += "\nFor DHCP servers and routers (RFC 9463), each in hexadecimal digits:\n";
    out += &format!("    DHCPv4, option 162\n        {}\n", flat(&found["dhcpv4"]));
    out += "    DHCPv6, option 144, one for each line\n";
    lines("dhcpv6").iter().for_each(|line| out += &format!("        {line}\n"));
    out += "    router advertisement, option 144 with type and length, one for each line\n";
    lines("router").iter().for_each(|line| out += &format!("        {line}\n"));
    for address in found["addresses"].as_array().into_iter().flatten() {
        let is = |key: &str| address[key] == Value::Bool(true);
        let effect = match (is("certificate"), is("private")) {
            (true, _) => "is in the certificate: clients that know it verify the listeners (RFC 9462 §4.2)",
            (false, true) => {
                "is not in the certificate: clients that know it use a listener at the same address only (RFC 9462 \
                 §4.3)"
            }
            (false, false) => {
                "is not in the certificate: clients that know it and verify certificates stay without encryption \
                 (RFC 9462 §4.2)"
            }
        };
        out += &format!("\n{} {effect}\n", flat(&address["address"]));
    }
    out
}

/// Returns what is blocked most as text.
fn top_text(top: &Value, counted: &str, words: &str) -> String {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let period = if top["period"] == "hour" { "in the last hour" } else { "since the start" };
    let mut out = format!("{} {words} {period}\n", number(&top[counted]));
    let by = top["by"].as_str().unwrap_or_default();
    let entries = top["top"].as_array().map(Vec::as_slice).unwrap_or_default();
    let width = entries.first().map_or(0, |first| flat(&first[counted]).len());
    for entry in entries {
        let error = match number(&entry["error"]) {
            0 => String::new(),
            error => format!(" (at most {error} too many)"),
        };
        out += &format!("{:>width$}  {}{error}\n", flat(&entry[counted]), flat(&entry[by]));
    }
    let dropped = number(&top["dropped"]);
    if dropped > 0 {
        out += &format!("{dropped} {counted} were not counted: their queue was full\n");
    }
    out
}

/// Returns the state of a block list as text.
fn list_text(list: &Value) -> String {
    let [name, kind, blocked] = ["name", "kind", "blocked"].map(|key| flat(&list[key]));
    let source = list["file"].as_str().or(list["url"].as_str()).unwrap_or_default();
    let effect = if kind == "allow" { "exempts names".into() } else { format!("blocked {blocked} queries") };
    let mut out = match list["rules"].as_u64() {
        Some(rules) => {
            let loaded = value_text("loaded", &list["loaded"]);
            format!("{name}: {rules} rules, {effect}; {source}, loaded {loaded}\n")
        }
        None => format!("{name}: no rules; {source}\n"),
    };
    if list["url"].is_string() {
        let time = |key: &str, never: &str| match &list[key] {
            Value::Null => never.to_owned(),
            time => value_text(key, time),
        };
        let (confirmed, next) = (time("confirmed", "never"), time("next_attempt", "never"));
        let attempted = time("attempted", "none since the start");
        out += &format!("    fetched or confirmed: {confirmed}; last attempt: {attempted}; next: {next}\n");
    }
    if let Some(fault) = list["fault"].as_str() {
        let what =
            if list["url"].is_string() { "the last attempt failed" } else { "the file cannot be used" };
        out += &format!("    {what}: {fault}\n");
    }
    let unusable = list["lines_unusable"].as_u64().unwrap_or(0);
    if unusable > 0 {
        out += &format!("    {unusable} lines cannot be used; the first:\n");
    }
    let first = list["first_unusable"].as_array().into_iter().flatten();
    first.for_each(|line| out += &format!("    {}\n", flat(line)));
    out
}

/// Returns the outcome of the refresh of a block list as text.
fn refreshed_text(list: &Value) -> String {
    let [name, result, rules] = ["name", "result", "rules"].map(|key| flat(&list[key]));
    match list["fault"].as_str() {
        Some(fault) => format!("{name}: {result}: {fault}\n"),
        None => format!("{name}: {result}, {rules} rules\n"),
    }
}

/// Returns the changes of a zone, one line per record, after the warnings.
fn change_text(map: &Map<String, Value>) -> String {
    let rows = |key| map.get(key).and_then(Value::as_array).into_iter().flatten();
    let mut out: String = rows("warnings").map(|warning| format!("{}\n", flat(warning))).collect();
    for row in rows("changes") {
        let [change, name, ttl, rtype, data] =
            ["change", "name", "ttl", "type", "data"].map(|key| flat(row.get(key).unwrap_or(&Value::Null)));
        let sign = if change == "removed" { '-' } else { '+' };
        out += &format!("{sign}{name} {ttl} IN {rtype} {data}\n");
    }
    out
}

/// Returns the report of a reload: one line for each zone that changed or has a fault, then the counts.
fn reload_text(report: &Map<String, Value>) -> String {
    let rows = |key| report.get(key).and_then(Value::as_array).into_iter().flatten();
    let cell = |row: &Value, key: &str| flat(row.get(key).unwrap_or(&Value::Null));
    let mut out = String::new();
    for row in rows("changed") {
        let [zone, from, to, records, took] =
            ["zone", "from", "to", "records", "milliseconds"].map(|key| cell(row, key));
        let from = if from == "-" { "new, serial ".into() } else { format!("serial {from} -> ") };
        out += &format!("zone {zone}: {from}{to}, {records} records, {took} ms\n");
    }
    for row in rows("faults") {
        let [zone, file, line, column, fault] =
            ["zone", "file", "line", "column", "fault"].map(|key| cell(row, key));
        let place = match (file.as_str(), line.as_str()) {
            ("", _) => String::new(),
            (_, "0") => format!("{file}: "),
            (_, _) => format!("{file}:{line}:{column}: "),
        };
        let zone = if zone == "-" { String::new() } else { format!("zone {zone}: ") };
        out += &format!("{place}{zone}{fault}\n");
    }
    for row in rows("held") {
        let [folder, gone, of] = ["folder", "gone", "of"].map(|key| cell(row, key));
        out +=
            &format!("{folder}: {gone} of {of} zones have no file any more and stay in service (--force)\n");
    }
    rows("dropped").for_each(|record| out += &format!("-{}\n", flat(record)));
    if let Some(more) = report.get("more_dropped") {
        out += &format!("{more} more records are dropped\n");
    }
    let numbers = NUMBERS.iter().filter_map(|key| Some((key, report.get(*key)?)));
    let mut numbers: Vec<String> =
        numbers.map(|(key, value)| format!("{} {value}", key.replace('_', " "))).collect();
    numbers.extend(report.get("milliseconds").map(|took| format!("{took} ms")));
    out + &numbers.join(", ") + "\n"
}

/// The counts of a reload, in order of importance.
const NUMBERS: [&str; 8] =
    ["zones", "loaded", "unchanged", "failed", "refused", "removed", "held_back", "not_taken"];

/// Returns one of several values under the same key: its `text` field if it has one.
fn row_text(row: &Value) -> String {
    if let Some(text) = row.get("text").and_then(Value::as_str) {
        return text.to_owned();
    }
    PendingKey::deserialize(row).map_or_else(|_| flat(row), |key| key.to_string())
}

fn pair(key: &str, value: &str, width: usize) -> String {
    format!("{key:width$}  {}\n", value.trim_end().replace('\n', &format!("\n{:width$}  ", "")))
}

/// Returns a forwarding rule, with a line for each of its servers.
fn rule_text(rule: &Value) -> String {
    let field = |value: &Value, key: &str| flat(value.get(key).unwrap_or(&Value::Null));
    let groups = rule.get("groups").map(|groups| format!(", for {}", flat(groups))).unwrap_or_default();
    let mut out = format!("{} {}{groups}\n", field(rule, "domain"), field(rule, "kind"));
    for server in rule.get("servers").and_then(Value::as_array).into_iter().flatten() {
        let [address, state, rtt] = ["server", "state", "rtt_us"].map(|key| field(server, key));
        let rtt = if rtt == "-" { "never measured".into() } else { format!("{rtt} us") };
        let counts = ["udp", "tcp", "tls", "https", "quic", "odoh", "timeouts", "failures", "bad_replies"];
        let counts = counts.map(|key| format!("{key} {}", field(server, key))).join(", ");
        let fault = match field(server, "tls_fault") {
            none if none == "-" => String::new(),
            fault => format!("; {fault}"),
        };
        out += &format!("  {address}  {state}, {rtt}, {counts}{fault}\n");
    }
    out
}

fn anchor_text(anchor: &Value) -> String {
    let domain = flat(anchor.get("domain").unwrap_or(&Value::Null));
    match anchor.get("seconds_left").and_then(Value::as_u64) {
        Some(left) => format!("{domain}  {left} s left\n"),
        None => format!("{domain}  of the configuration\n"),
    }
}

/// Returns the states of encrypted transports of authoritative servers.
fn encryption_list(servers: &[Value]) -> String {
    match servers {
        [] => "no authoritative server was probed for encryption (encrypt-to-authoritative)\n".into(),
        _ => servers.iter().map(encryption_text).collect(),
    }
}

/// Returns the state of an encrypted transport of an authoritative server, on one line.
fn encryption_text(server: &Value) -> String {
    let field = |key: &str| flat(server.get(key).unwrap_or(&Value::Null));
    let time = |key: &str| server.get(key).and_then(Value::as_u64).map(in_days);
    let mut out = format!("{}  {}  {}", field("server"), field("transport"), field("state"));
    if server.get("probing") == Some(&Value::Bool(true)) {
        out += ", is probed now";
    }
    if let Some(time) = time("seconds_since_probe") {
        out += &format!(", probed {time} ago");
    }
    if let Some(time) = time("seconds_since_reply") {
        out += &format!(", last reply {time} ago");
    }
    out + &format!(", queries {}\n", field("queries"))
}

/// Returns a trust anchor, or a key that may become one, on one line.
fn trust_anchor_text(anchor: &Value) -> String {
    let field = |key: &str| flat(anchor.get(key).unwrap_or(&Value::Null));
    let days = |key: &str| anchor.get(key).and_then(Value::as_u64).map(in_days);
    let mut out =
        format!("{}  {}  algorithm {}  {}", field("zone"), field("tag"), field("algorithm"), field("state"));
    if let Some(time) = days("seconds_in_state") {
        out += &format!(" for {time}");
    }
    if let Some(time) = days("seconds_to_trust") {
        out += &format!(", trusted in {time}");
    }
    out += match (days("seconds_since_seen"), anchor.get("followed") == Some(&Value::Bool(true))) {
        (_, false) => "; not followed\n".into(),
        (None, true) => "; its zone's keys were not seen yet\n".into(),
        (Some(seen), true) => {
            let next = days("seconds_to_next").unwrap_or_default();
            format!("; its zone's keys seen {seen} ago, next in {next}\n")
        }
    }
    .as_str();
    out
}

fn zone_table(rows: &[Value]) -> String {
    if rows.is_empty() {
        return "no zones are served\n".into();
    }
    let cell = |row: &Value, key: &str| flat(row.get(key).unwrap_or(&Value::Null));
    let width = rows.iter().map(|row| cell(row, "name").chars().count()).max().unwrap_or(0).max(4);
    let mut out = format!("{:width$}  {:6}  {:>10}  {:>10}  SIGNED\n", "ZONE", "STATE", "SERIAL", "RECORDS");
    for row in rows {
        let [name, state, serial, records] = ["name", "state", "serial", "records"].map(|key| cell(row, key));
        let signed = if row.get("signed") == Some(&Value::Bool(true)) { "yes" } else { "no" };
        out += &format!("{name:width$}  {state:6}  {serial:>10}  {records:>10}  {signed}\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use wire::UnixTime;

    use super::*;
    use crate::ctl_values::moment_and_age;

    #[test]
    fn times_inside_an_answer_were_seconds_since_1970() {
        let (now, unix) = (1_795_369_660, UnixTime::from_secs);
        assert_eq!(moment_and_age(unix(now - 192), unix(now)), "2026-11-22 17:44:28 UTC (3m12s ago)");
        assert_eq!(moment_and_age(unix(now + 90_000), unix(now)), "2026-11-23 18:47:40 UTC (in 1d1h)");
        let status = serde_json::json!({"transfers": {"confirmed": now, "expires": 4_000_000_000_u64, "fault":
            {"at": now, "fault": "no answer"}, "serial": 7}});
        let verb = CtlVerb::Zone(CtlZone::Status { name: "example".into() });
        let said = human(&verb, &status);
        assert_eq!(said.matches("2026-11-22 17:47:40 UTC (").count(), 2, "{said}");
        assert!(said.contains("expires 2096-10-02 07:06:40 UTC (in ") && said.contains("serial 7"), "{said}");
        let status = serde_json::json!({"local_root": {"serial": 7, "signed_until": 4_000_000_000_u64}});
        let said = human(&CtlVerb::Status, &status);
        assert!(said.contains("signed_until 2096-10-02 07:06:40 UTC (in "), "{said}");
    }

    #[test]
    fn a_reload_is_summed_up_in_the_order_of_interest() {
        let report = serde_json::json!({"failed": 1, "held_back": 2, "loaded": 3, "milliseconds": 4, "refused": 5, "removed": 6, "unchanged": 7, "zones": 8});
        let Value::Object(report) = report else { panic!("an object") };
        let said = "zones 8, loaded 3, unchanged 7, failed 1, refused 5, removed 6, held back 2, 4 ms\n";
        assert_eq!(reload_text(&report), said);
    }

    #[test]
    fn a_list_of_no_zones_says_so() {
        let said = |failed| human(&CtlVerb::Zone(CtlZone::List { failed }), &Value::Array(Vec::new()));
        assert_eq!(said(true), "every zone is served in the newest version of its file\n");
        assert_eq!(said(false), "no zones are served\n");
    }
}
