//! `rpzFile` and `rpzPrimary` in the Lua configuration of the Recursor.

use std::path::Path;

use super::recursor_yaml::{self, text};
use crate::files::join;
use crate::ledger::Coverage;
use crate::model::{Keys, Zone};
use crate::policy;
use crate::text::Texts;
use crate::tree::Statement;
use crate::units;
use crate::upstream::{Upstream, parse};
use crate::work::{Work, domain, path_text};

/// Most nested tables.
const MAX_DEPTH: usize = 10;

/// A value of Lua.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    Text(String),
    /// A number or a word, such as `true` or `Policy.Drop`.
    Word(String),
    Table(Vec<(String, Value)>),
}

impl Value {
    fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Word(text) => text,
            Self::Table(_) => "",
        }
    }
}

/// Converts all policy zones of a Lua file. Refuses recursion if the file cannot be read, or one of them
/// cannot be moved.
pub(super) fn convert(work: &mut Work, texts: &Texts<'_>, found: &Statement, path: &Path) {
    let Ok(bytes) = texts.files.read(path) else {
        return work.refuse_recursion(found, "it cannot be read, and may have policy lists (RPZ)");
    };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let tokens = tokens(&text);
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        if !token.to_ascii_lowercase().starts_with("rpz") {
            continue;
        }
        let call = token.as_str();
        let arguments = match tokens.get(at).map(String::as_str) {
            Some("(") => values(&tokens, &mut at, ")", 0),
            _ => None,
        };
        let arguments: Option<Vec<Value>> =
            arguments.map(|all| all.into_iter().map(|(_, value)| value).collect());
        let moved = arguments.is_some_and(|arguments| match call {
            "rpzFile" => of_file(work, texts, found, path, &arguments),
            "rpzPrimary" | "rpzMaster" => of_primary(work, found, &arguments),
            _ => false,
        });
        if !moved {
            work.refuse_recursion(found, "it has a policy list (RPZ) that cannot be moved");
        }
    }
}

/// Converts a member of `rpzs` in YAML. Returns whether it could be moved.
pub(super) fn of_yaml(work: &mut Work, texts: &Texts<'_>, found: &Statement, path: &Path) -> bool {
    let mut settings: Vec<(String, Value)> = Vec::new();
    for entry in found.block().iter().filter(|entry| !["name", "addresses", "tsig"].contains(&entry.key())) {
        let value = match entry.key() {
            "defpol" => format!("Policy.{}", entry.value()),
            _ => entry.value().to_owned(),
        };
        settings.push((entry.key().to_owned(), Value::Word(value)));
    }
    if let Some(tsig) = found.find("tsig") {
        for (key, of_lua) in [("name", "tsigname"), ("algo", "tsigalgo"), ("secret", "tsigsecret")] {
            settings.push((of_lua.to_owned(), Value::Text(text(tsig, key))));
        }
    }
    let name = Value::Text(text(found, "name"));
    match recursor_yaml::values(found.find("addresses")) {
        addresses if addresses.is_empty() => {
            of_file(work, texts, found, path, &[name, Value::Table(settings)])
        }
        addresses => {
            let addresses = addresses.into_iter().map(|text| (String::new(), Value::Text(text))).collect();
            of_primary(work, found, &[Value::Table(addresses), name, Value::Table(settings)])
        }
    }
}

/// The words, strings and marks of a text, without its comments. A string begins with `"`.
fn tokens(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    for line in text.lines() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            if rest.starts_with("--") {
                break;
            }
            let length = match first {
                '"' | '\'' => {
                    let end = rest[1..].find(first).unwrap_or(rest.len() - 1);
                    out.push(format!("\"{}", &rest[1..=end]));
                    rest = rest.get(end + 2..).unwrap_or("").trim_start();
                    continue;
                }
                c if is_word(c) => rest.find(|c: char| !is_word(c)).unwrap_or(rest.len()),
                c => c.len_utf8(),
            };
            out.push(rest[..length].to_owned());
            rest = rest[length..].trim_start();
        }
    }
    out
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '.' || c == ':'
}

/// The values from an opening mark to its end, with their keys; `None` if they are more than literals.
fn values(tokens: &[String], at: &mut usize, end: &str, depth: usize) -> Option<Vec<(String, Value)>> {
    *at += 1;
    let mut out = Vec::new();
    loop {
        let token = tokens.get(*at).filter(|_| depth < MAX_DEPTH)?.as_str();
        if token == end {
            *at += 1;
            return Some(out);
        }
        let key = match tokens.get(*at + 1).map(String::as_str) {
            Some("=") => {
                *at += 2;
                token.to_owned()
            }
            _ => String::new(),
        };
        let token = tokens.get(*at)?.as_str();
        let value = match token {
            "{" => Value::Table(values(tokens, at, "}", depth + 1)?),
            _ => {
                *at += 1;
                match token.strip_prefix('"') {
                    Some(text) => Value::Text(text.to_owned()),
                    None if token.chars().all(is_word) => Value::Word(token.to_owned()),
                    None => return None,
                }
            }
        };
        out.push((key, value));
        match tokens.get(*at)?.as_str() {
            "," | ";" => *at += 1,
            mark if mark == end => {}
            _ => return None,
        }
    }
}

/// Converts `rpzFile(FILE, {SETTINGS})`. Returns whether it could be moved.
fn of_file(work: &mut Work, texts: &Texts<'_>, found: &Statement, lua: &Path, arguments: &[Value]) -> bool {
    let (file, settings) = match arguments {
        [Value::Text(file)] => (file, &[][..]),
        [Value::Text(file), Value::Table(settings)] => (file, settings.as_slice()),
        _ => return false,
    };
    let path = join(lua.parent().unwrap_or(Path::new("")), file);
    let Ok(bytes) = texts.files.read(&path) else { return false };
    let Some(name) = origin(&String::from_utf8_lossy(&bytes), settings, work) else { return false };
    let zone = Zone {
        name: name.clone(),
        file: Some(path_text(&path)),
        template: None,
        keys: Keys::default(),
        span: None,
    };
    add(work, found, zone, &format!("rpzFile {file}"), settings)
}

/// The name of the zone in a file: its `$ORIGIN`, or the owner of its SOA record. A file without either can
/// have any name.
fn origin(text: &str, settings: &[(String, Value)], work: &Work) -> Option<String> {
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some(word) if word.eq_ignore_ascii_case("$origin") => {
                return domain(words.next()?).filter(|name| name != ".");
            }
            Some(owner) if words.any(|word| word.eq_ignore_ascii_case("soa")) && owner.ends_with('.') => {
                return domain(owner).filter(|name| name != ".");
            }
            _ => {}
        }
    }
    let named = get(settings, "policyName").and_then(|name| domain(name.text()));
    named.or_else(|| Some(format!("rpz-{}.invalid", work.nomen.policy_zones.len() + 1)))
}

/// Converts `rpzPrimary(ADDRESSES, NAME, {SETTINGS})`. Returns whether it could be moved.
fn of_primary(work: &mut Work, found: &Statement, arguments: &[Value]) -> bool {
    let (addresses, name, settings) = match arguments {
        [addresses, Value::Text(name)] => (addresses, name, &[][..]),
        [addresses, Value::Text(name), Value::Table(settings)] => (addresses, name, settings.as_slice()),
        _ => return false,
    };
    let Some(name) = domain(name) else { return false };
    let addresses = match addresses {
        Value::Table(all) => all.iter().map(|(_, address)| address.text()).collect(),
        one => vec![one.text()],
    };
    let key = match key(work, found, settings) {
        Ok(key) => key.map(|key| format!(" key:{key}")).unwrap_or_default(),
        Err(()) => return false,
    };
    let mut keys = Keys::default();
    for address in addresses {
        match parse(address) {
            Upstream::Plain { server, .. } => keys.add("primaries", format!("{server}{key}")),
            _ => return false,
        }
    }
    if let Some(refresh) = get(settings, "refresh").and_then(|value| value.text().parse::<u64>().ok()) {
        let refresh = units::duration(refresh.max(1).saturating_mul(1000));
        keys.text("min-refresh", refresh.clone());
        keys.text("max-refresh", refresh);
    }
    if let Some(local) = get(settings, "localAddress") {
        keys.add("source", local.text());
    }
    work.keep_state();
    let zone = Zone { name: name.clone(), file: None, template: None, keys, span: None };
    add(work, found, zone, &format!("rpzPrimary {name}"), settings)
}

/// The TSIG key of a primary, if there is one.
fn key(work: &mut Work, found: &Statement, settings: &[(String, Value)]) -> Result<Option<String>, ()> {
    let Some(name) = get(settings, "tsigname") else { return Ok(None) };
    let text = |key: &str| get(settings, key).map(|value| value.text().to_owned()).unwrap_or_default();
    match work.tsig_key(found, name.text(), &text("tsigalgo"), &text("tsigsecret")) {
        true => Ok(domain(name.text())),
        false => Err(()),
    }
}

fn get<'v>(settings: &'v [(String, Value)], key: &str) -> Option<&'v Value> {
    settings.iter().find(|(name, _)| name == key).map(|(_, value)| value)
}

/// Adds a zone and its policy. Returns whether both could be moved.
fn add(work: &mut Work, found: &Statement, zone: Zone, title: &str, settings: &[(String, Value)]) -> bool {
    let name = zone.name.clone();
    if work.nomen.zones.iter().any(|other| other.name == name) {
        return false;
    }
    let mut keys = Keys::default();
    keys.text("name", policy::absolute(&name));
    let text = |key: &str| get(settings, key).map_or("", Value::text);
    match text("defpol") {
        "" => {}
        "Policy.Custom" => match domain(text("defcontent")) {
            Some(target) => keys.text("action", policy::absolute(&target)),
            None => return false,
        },
        "Policy.Drop" => keys.text("action", "drop"),
        "Policy.NXDOMAIN" => keys.text("action", "nxdomain"),
        "Policy.NODATA" => keys.text("action", "nodata"),
        "Policy.Truncate" => keys.text("action", "tcp-only"),
        "Policy.NoAction" => keys.text("action", "passthru"),
        _ => return false,
    }
    // By default, the Recursor bounds no TTLs of policy zones, and adds no SOA records.
    match text("maxTTL").parse() {
        Ok(seconds) => policy::max_ttl(work, found, &mut keys, seconds),
        Err(_) => keys.text("max-ttl", "7d"),
    }
    if text("includeSOA") != "true" {
        keys.switch("add-soa", false);
    }
    let error = match text("extendedErrorCode") {
        "4" => "forged",
        "15" => "blocked",
        "16" => "censored",
        "17" => "filtered",
        "18" => "prohibited",
        _ => "none",
    };
    if error != "blocked" {
        keys.text("extended-error", error);
    }
    work.nomen.zones.push(zone);
    // The Recursor answers no client from it.
    work.serve_without_answers(&name);
    if !policy::zone(work, found, &name, keys) {
        return false;
    }
    let part = |work: &mut Work, outcome, words: String| work.ledger.part(&found.span, title, outcome, words);
    part(work, Coverage::Translated, format!("{title}: [[zone]] and [[policy.zone]]"));
    for (key, value) in settings {
        let words = match (key.as_str(), value.text()) {
            ("defpolOverrideLocalData", "false") if !text("defpol").is_empty() => {
                "`action` of [[policy.zone]] is for records in the zone, too"
            }
            ("defttl", _) => "the TTL of an answer by `action` is nomen's",
            ("extendedErrorExtra", _) => "nomen adds no text of the operator's to an extended error",
            ("extendedErrorCode", _) if error == "none" => "nomen has no such `extended-error`",
            _ => continue,
        };
        part(work, Coverage::Differs, format!("{title}, {key}: {words}"));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_read_and_expressions_are_not() {
        let read = |text: &str| values(&tokens(text), &mut 0, ")", 0);
        let text = |text: &str| (String::new(), Value::Text(text.into()));
        let found = read("('a -- b', {x=1, y = Policy.Drop} -- c\n)").expect("literals");
        let table =
            vec![("x".into(), Value::Word("1".into())), ("y".into(), Value::Word("Policy.Drop".into()))];
        assert_eq!(found, [text("a -- b"), (String::new(), Value::Table(table))]);
        assert_eq!(read("({'a', \"b\"},)").map(|found| found.len()), Some(1));
        for bad in ["(a .. 'b')", "(f(x))", "('a'", "({'a')", "(a b)"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
