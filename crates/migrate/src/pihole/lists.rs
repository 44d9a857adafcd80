//! Pi-hole's lists, domains and local records in files beside its configuration.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::gravity::{self, Row};
use super::{Hole, alias, host};
use crate::ledger::Coverage;
use crate::policy::{Effect, at_and_below};
use crate::text::{SourceSpan, SyntaxFault, Texts};
use crate::tree::{Part, SourceWord, Statement};
use crate::work::{Work, domain};
use crate::yaml;

/// Lists that are made of domains and regular expressions.
const BLOCKED: &str = "pihole-blocked";
const ALLOWED: &str = "pihole-allowed";
/// Time after which a list is fetched again, in milliseconds: Pi-hole does so once a week.
const REFRESH: u64 = 7 * 86_400_000;

/// Files of an exported archive (Teleporter) of version 5: the table, and the type of its rows.
const EXPORTED: [(&str, &str, &str); 5] = [
    ("adlist.json", "adlist", "0"),
    ("whitelist.exact.json", "domainlist", "0"),
    ("blacklist.exact.json", "domainlist", "1"),
    ("whitelist.regex.json", "domainlist", "2"),
    ("blacklist.regex.json", "domainlist", "3"),
];

/// Converts what is in the folder.
pub(super) fn convert(
    work: &mut Work,
    texts: &mut Texts<'_>,
    folder: &Path,
    hole: &Hole,
) -> Result<(), SyntaxFault> {
    for (name, of_line) in [("custom.list", true), ("05-pihole-custom-cname.conf", false)] {
        for line in lines(texts, &folder.join(name))? {
            match (of_line, line.key().strip_prefix("cname=")) {
                (true, _) => host(work, &line, line.key(), hole),
                (false, Some(names)) => alias(work, &line, names),
                (false, None) => work.not_understood(&line),
            }
        }
    }
    let rows = rows(texts, folder)?;
    match rows {
        Some(_) if hole.inactive => {}
        Some(rows) => all(work, &rows, hole),
        None if hole.inactive => {}
        None => {
            let words = format!(
                "the lists are not here: write `pihole-FTL sqlite3 gravity.db .dump` into {}; recursion is \
                 refused to every client, so that none gets what they block",
                folder.join("gravity.sql").display()
            );
            work.ledger.unwritten(Coverage::Narrower, words);
            work.narrow.closed = true;
        }
    }
    Ok(())
}

/// Opens a text, if there is one.
fn open(texts: &mut Texts<'_>, path: &Path) -> Result<Option<usize>, SyntaxFault> {
    match texts.files.read(path) {
        Err(fault) if fault.kind() == ErrorKind::NotFound => Ok(None),
        _ => texts.open(path, None).map(Some),
    }
}

/// The lines of a file, without comments; none if there is no such file.
fn lines(texts: &mut Texts<'_>, path: &Path) -> Result<Vec<Statement>, SyntaxFault> {
    let Some(number) = open(texts, path)? else { return Ok(Vec::new()) };
    let text = texts.text(number);
    texts.close();
    let mut out = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let (start, word) = (at, line.trim_end());
        at += line.len();
        if word.trim_start().is_empty() || word.trim_start().starts_with('#') {
            continue;
        }
        let span = SourceSpan { text: number, range: start..start + word.len() };
        let word = SourceWord { text: word.trim_start().to_owned(), quoted: false, span: span.clone() };
        out.push(Statement { id: texts.number(), parts: vec![Part::Word(word)], span });
    }
    Ok(out)
}

/// The rows of the lists: from a dump, or from exported files. `None` if there is neither.
fn rows(texts: &mut Texts<'_>, folder: &Path) -> Result<Option<Vec<Row>>, SyntaxFault> {
    if let Some(number) = open(texts, &folder.join("gravity.sql"))? {
        let rows = gravity::parse(texts, number);
        texts.close();
        // Every database has a group of all clients, so a text without rows is no dump.
        return Ok(Some(rows).filter(|rows| !rows.is_empty()));
    }
    let mut rows = Vec::new();
    let mut found = false;
    for (name, table, kind) in EXPORTED {
        let Some(number) = open(texts, &folder.join(name))? else { continue };
        found = true;
        // JSON is YAML as well.
        for entry in yaml::parse(texts, number)? {
            let get = |key: &str| entry.find(key).map_or("", Statement::value);
            let kind = if get("type").is_empty() { kind } else { get("type") };
            let values = [
                ("id", get("id")),
                ("address", get("address")),
                ("domain", get("domain")),
                ("enabled", get("enabled")),
                ("type", kind),
            ];
            rows.push(Row::of(table, &values, entry.clone()));
        }
        texts.close();
    }
    for line in lines(texts, &folder.join("adlists.list"))? {
        found = true;
        rows.push(Row::of("adlist", &[("address", line.key()), ("enabled", "1")], line.clone()));
    }
    Ok(found.then_some(rows))
}

/// The groups that an entry is for.
enum Groups {
    /// That of all clients, perhaps among others.
    Default,
    /// Others alone.
    Others,
    /// None that is on.
    Nothing,
}

/// Converts all rows.
fn all(work: &mut Work, rows: &[Row], hole: &Hole) {
    let of = |table: &'static str| rows.iter().filter(move |row| row.table == table);
    let off: Vec<i64> = of("group")
        .filter(|row| row.get("enabled") == Some("0"))
        .filter_map(|row| row.number("id"))
        .collect();
    let groups = |row: &Row, table: &'static str, column: &str| {
        if of(table).next().is_none() || row.number("id").is_none() {
            return Groups::Default;
        }
        let all = of(table).filter(|link| link.number(column) == row.number("id"));
        let on: Vec<i64> =
            all.filter_map(|link| link.number("group_id")).filter(|group| !off.contains(group)).collect();
        match on.is_empty() {
            true => Groups::Nothing,
            false if on.contains(&0) => Groups::Default,
            false => Groups::Others,
        }
    };
    for row in of("adlist") {
        let groups = groups(row, "adlist_by_group", "adlist_id");
        if let Some(effect) = applies(work, row, &groups, row.get("type") == Some("1"), hole) {
            address(work, row, &effect);
        }
    }
    for row in of("domainlist") {
        let groups = groups(row, "domainlist_by_group", "domainlist_id");
        let kind = row.get("type").unwrap_or_default();
        if let Some(effect) = applies(work, row, &groups, ["0", "2"].contains(&kind), hole) {
            name(work, row, &effect, ["2", "3"].contains(&kind));
        }
    }
    for row in of("client") {
        let links = of(gravity::CLIENT_BY_GROUP).filter(|link| link.number("client_id") == row.number("id"));
        let groups: Vec<i64> = links.filter_map(|link| link.number("group_id")).collect();
        match groups[..] {
            [0] | [] => work.ledger.unneeded(&row.statement, "it has the lists of all clients"),
            _ => work.ledger.narrower(
                &row.statement,
                "nomen has no groups of clients: the lists are for this client as for all others",
            ),
        }
    }
}

/// The effect of an entry; `None` if it has none here.
fn applies(work: &mut Work, row: &Row, groups: &Groups, allows: bool, hole: &Hole) -> Option<Effect> {
    if row.get("enabled") == Some("0") || matches!(groups, Groups::Nothing) {
        work.ledger.unneeded(&row.statement, "it is off");
        return None;
    }
    match (groups, allows) {
        (Groups::Others, true) => {
            work.ledger.narrower(&row.statement, "nomen has no groups of clients: it is left out");
            None
        }
        (Groups::Others, false) => {
            let why = "nomen has no groups of clients: it is for every client";
            work.ledger.part(&row.statement.span, &row.statement.title(), Coverage::Narrower, why);
            Some(hole.effect())
        }
        (_, true) => Some(Effect::Allow),
        (_, false) => Some(hole.effect()),
    }
}

/// Converts a list.
fn address(work: &mut Work, row: &Row, effect: &Effect) {
    let address = row.get("address").unwrap_or_default();
    let path = address.split("://").nth(1).unwrap_or(address).trim_end_matches('/');
    let title = path.rsplit('/').next().unwrap_or_default();
    match address.split_once("://") {
        Some(("https", _)) => work.list_of_url(title, address, Some(REFRESH), effect),
        Some(("http", rest)) => {
            work.list_of_url(title, &format!("https://{rest}"), Some(REFRESH), effect);
            let how = "its `url` is HTTPS here: nomen fetches no list in the clear";
            work.ledger.part(&row.statement.span, &row.statement.title(), Coverage::Differs, how);
        }
        Some(("file", path)) => work.list_of_file(title, &PathBuf::from(path), None, effect),
        _ => match effect {
            Effect::Allow => {
                return work.ledger.narrower(&row.statement, "its address is not understood here");
            }
            Effect::Block(_) => {
                return work.refuse_recursion(&row.statement, "its address is not understood here");
            }
        },
    }
    work.ledger.translated(&row.statement, "[[policy.list]]");
}

/// Converts a domain or a regular expression.
fn name(work: &mut Work, row: &Row, effect: &Effect, is_regex: bool) {
    let text = row.get("domain").unwrap_or_default();
    let rule = match is_regex {
        true => regex(text),
        false => {
            let rule = domain(text).and_then(|name| at_and_below(&name));
            // One `|`: the name alone.
            rule.map(|rule| rule[1..].to_owned()).ok_or("it is not a name that a list can have")
        }
    };
    let list = if *effect == Effect::Allow { ALLOWED } else { BLOCKED };
    match (rule, effect) {
        (Ok(rule), _) => {
            work.list_line(list, effect, rule);
            work.ledger.translated(&row.statement, format!("[[policy.list]] `{list}`"));
        }
        (Err(why), Effect::Allow) => work.ledger.narrower(&row.statement, why),
        (Err(why), Effect::Block(_)) => work.refuse_recursion(&row.statement, why),
    }
}

/// The rule for a regular expression, with its record types.
fn regex(text: &str) -> Result<String, &'static str> {
    let mut parts = text.split(';');
    let pattern = parts.next().unwrap_or_default();
    let mut types = String::new();
    for option in parts {
        match option.split_once('=') {
            Some(("querytype", list)) => {
                let (not, list) = list.strip_prefix('!').map_or(("", list), |list| ("~", list));
                let list: Vec<String> = list.split(',').map(|rtype| format!("{not}{rtype}")).collect();
                types = format!("$dnstype={}", list.join("|"));
            }
            _ => return Err("nomen has no such option of a regular expression"),
        }
    }
    let bytes = pattern.as_bytes();
    let refers = bytes.windows(2).any(|pair| pair[0] == b'\\' && pair[1].is_ascii_digit());
    if pattern.is_empty() || refers || pattern.contains(char::is_control) {
        return Err("nomen has no references in regular expressions");
    }
    let inner =
        ["(\\.|^)", "(^|\\.)"].iter().find_map(|start| pattern.strip_prefix(start)?.strip_suffix('$'));
    let plain = inner.map(|inner| inner.replace("\\.", "\n"));
    let plain = plain.filter(|inner| {
        inner.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_\n".contains(&byte)) && !inner.is_empty()
    });
    Ok(match plain {
        Some(name) => format!("||{}^{types}", name.replace('\n', ".")),
        None => format!("/{}/{types}", slashes(pattern)),
    })
}

/// A pattern with a backslash before each slash.
fn slashes(pattern: &str) -> String {
    let (mut out, mut escaped) = (String::new(), false);
    for c in pattern.chars() {
        if c == '/' && !escaped {
            out.push('\\');
        }
        escaped = c == '\\' && !escaped;
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regular_expressions_become_rules() {
        for (text, rule) in [
            (r"(\.|^)ads\.example$", "||ads.example^"),
            (r"(^|\.)ads\.example$;querytype=!A,AAAA", "||ads.example^$dnstype=~A|~AAAA"),
            (r"^ad[0-9]+\.", r"/^ad[0-9]+\./"),
            (r"a/b", r"/a\/b/"),
            (r"(\.|^)ads.example$", r"/(\.|^)ads.example$/"),
            (r"x;querytype=HTTPS", "/x/$dnstype=HTTPS"),
        ] {
            assert_eq!(regex(text).as_deref(), Ok(rule), "{text}");
        }
        for bad in [r"(a)\1", "x;invert", "x;reply=NXDOMAIN", ""] {
            assert!(regex(bad).is_err(), "{bad}");
        }
    }
}
