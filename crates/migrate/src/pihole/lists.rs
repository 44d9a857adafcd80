//! Pi-hole's lists, domains and local records in files beside its configuration.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::gravity::{self, Row};
use super::{Hole, alias, host};
use crate::ledger::Coverage;
use crate::model::{Keys, Setting};
use crate::network::{Network, disjoint};
use crate::policy::{BY_MAC, Effect, MAX_GROUPS, at_and_below, mac};
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

/// Numbers of groups that are on: those of an entry, or of a client.
type GroupIds = BTreeSet<i64>;

/// A list of one or more entries with the same groups.
struct Counted {
    name: Option<Setting>,
    groups: GroupIds,
    allows: bool,
}

/// The rows of the database, by table.
struct Tables<'r>(&'r [Row]);

impl<'r> Tables<'r> {
    fn of(&self, table: &'static str) -> impl Iterator<Item = &'r Row> {
        self.0.iter().filter(move |row| row.table == table)
    }

    /// The groups of an entry or a client that are on. Without a table of them, there is one of all clients.
    fn groups(&self, row: &Row, table: &'static str, column: &str) -> GroupIds {
        let id = row.number("id").filter(|_| self.of(table).next().is_some());
        let links = self.of(table).filter(|link| id.is_some() && link.number(column) == id);
        let all = links.filter_map(|link| link.number("group_id"));
        let usual = id.is_none().then_some(0);
        all.chain(usual).filter(|group| self.is_on(*group)).collect()
    }

    fn is_on(&self, group: i64) -> bool {
        !self.of("group").any(|row| row.number("id") == Some(group) && row.get("enabled") == Some("0"))
    }

    /// The names of groups.
    fn title(&self, groups: &GroupIds) -> String {
        let is_one = |row: &&Row| row.number("id").is_some_and(|id| groups.contains(&id));
        let names: Vec<&str> = self.of("group").filter(is_one).filter_map(|row| row.get("name")).collect();
        if names.is_empty() { "no group".to_owned() } else { names.join(" + ") }
    }
}

/// Clients by their groups.
struct Clients {
    /// The groups that clients in no `[[policy.group]]` may have: first those of clients in no table.
    others: Vec<GroupIds>,
    /// Those of `[[policy.group]]`, first those by network.
    moved: Vec<Moved>,
}

/// How a group of clients is known. Pi-hole looks for a client in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum KnownBy {
    Network,
    Mac,
    /// The network interface that its queries arrive at.
    Interface,
}

/// Clients with the same groups.
struct Moved {
    known_by: KnownBy,
    groups: GroupIds,
    /// Members of `from`; names of interfaces.
    from: Vec<String>,
}

/// Converts all rows.
fn all(work: &mut Work, rows: &[Row], hole: &Hole) {
    let tables = Tables(rows);
    let clients = clients(work, &tables);
    let mut counted: Vec<Counted> = Vec::new();
    for row in tables.of("adlist").chain(tables.of("domainlist")) {
        let is_list = row.table == "adlist";
        let kind = row.get("type").unwrap_or_default();
        let allows = if is_list { kind == "1" } else { ["0", "2"].contains(&kind) };
        let groups = match is_list {
            true => tables.groups(row, "adlist_by_group", "adlist_id"),
            false => tables.groups(row, "domainlist_by_group", "domainlist_id"),
        };
        if !applies(work, row, &groups, &clients) {
            continue;
        }
        let before = work.nomen.policy_lists.len();
        let effect = if allows { Effect::Allow } else { hole.effect() };
        match is_list {
            true => address(work, row, &effect),
            false => name(work, row, &effect, ["2", "3"].contains(&kind), &groups),
        }
        let new = work.nomen.policy_lists[before..].iter();
        counted.extend(new.map(|list| Counted {
            name: list.get("name").cloned(),
            groups: groups.clone(),
            allows,
        }));
    }
    let others = selection(work, &counted, &clients.others);
    work.nomen.policy.0.extend(others.0);
    for Moved { known_by, groups, from } in clients.moved.iter().filter(|moved| !moved.from.is_empty()) {
        let mut lists = selection(work, &counted, std::slice::from_ref(groups));
        match known_by {
            KnownBy::Network | KnownBy::Mac => work.group_of(&tables.title(groups), from.clone(), lists),
            KnownBy::Interface => {
                lists.0.insert(0, ("interface", Setting::Texts(from.clone())));
                work.group_of(&tables.title(groups), vec!["any".to_owned()], lists);
            }
        }
    }
}

/// How a client is known, and what the configuration names it by.
type Known = (KnownBy, Vec<String>);

/// Returns how a client is known, and what the configuration names it by. A name of a host has no use.
fn known(row: &Row) -> Option<Known> {
    let text = row.get("ip")?;
    let is_interface = |name: &&str| !name.is_empty() && !name.contains(char::is_whitespace);
    let interface = text.strip_prefix(':').filter(is_interface);
    match (Network::parse(text), mac(text), interface) {
        (Some(_), ..) => Some((KnownBy::Network, Vec::new())),
        (None, Some(mac), _) => Some((KnownBy::Mac, vec![mac])),
        (None, None, Some(name)) => Some((KnownBy::Interface, vec![name.to_owned()])),
        (None, None, None) => None,
    }
}

/// Converts the clients: of networks, the longest decides.
fn clients(work: &mut Work, tables: &Tables<'_>) -> Clients {
    let everyone: GroupIds = [0].into_iter().filter(|group| tables.is_on(*group)).collect();
    let rows: Vec<&Row> = tables.of("client").collect();
    let networks: Vec<Vec<Network>> =
        rows.iter().map(|row| row.get("ip").and_then(Network::parse).into_iter().collect()).collect();
    let rows: Vec<(&Row, GroupIds, Option<Known>)> = rows
        .into_iter()
        .zip(disjoint(&networks))
        .map(|(row, networks)| {
            let mut known = known(row);
            if let Some((KnownBy::Network, from)) = &mut known {
                *from = networks.iter().map(ToString::to_string).collect();
            }
            (row, tables.groups(row, gravity::CLIENT_BY_GROUP, "client_id"), known)
        })
        .collect();
    // A client with the groups of all needs one of its own only before others that it could be in.
    let last = rows.iter().filter(|(_, groups, _)| *groups != everyone);
    let last = last.filter_map(|(.., known)| known.as_ref().map(|(by, _)| *by)).max();
    let mut all = Clients { others: vec![everyone.clone()], moved: Vec::new() };
    for (row, groups, known) in rows {
        let is_before = known.as_ref().is_some_and(|(by, _)| Some(*by) < last);
        if groups == everyone && !is_before {
            work.ledger.unneeded(&row.statement, "it has the lists of all clients");
            continue;
        }
        let has_room = all.moved.len() < MAX_GROUPS;
        let same = |moved: &&mut Moved, by| moved.known_by == by && moved.groups == groups;
        match known {
            Some((known_by, from)) => match all.moved.iter_mut().find(|moved| same(moved, known_by)) {
                Some(moved) => moved.from.extend(from),
                None if has_room => all.moved.push(Moved { known_by, groups, from }),
                None => {
                    unmoved(work, row, "there can be 64 groups");
                    all.others.push(groups);
                    continue;
                }
            },
            None => {
                unmoved(
                    work,
                    row,
                    "nomen knows clients by their address, MAC address or interface, not by name",
                );
                all.others.push(groups);
                continue;
            }
        }
        work.ledger.translated(&row.statement, "[[policy.group]]");
    }
    all.moved.sort_by_key(|moved| moved.known_by);
    if all.moved.iter().any(|moved| moved.known_by == KnownBy::Mac) {
        work.ledger.unwritten(Coverage::Differs, BY_MAC);
    }
    all
}

/// Reports a client that is in no group.
fn unmoved(work: &mut Work, row: &Row, why: &str) {
    let words = format!(
        "{why}: what its groups block is blocked for all clients in no [[policy.group]], and these have no \
         exceptions but its own"
    );
    work.ledger.narrower(&row.statement, words);
}

/// Whether an entry has an effect on any client.
fn applies(work: &mut Work, row: &Row, groups: &GroupIds, clients: &Clients) -> bool {
    if row.get("enabled") == Some("0") || groups.is_empty() {
        work.ledger.unneeded(&row.statement, "it is off");
        return false;
    }
    let mut all = clients.others.iter().chain(clients.moved.iter().map(|moved| &moved.groups));
    let is_used = all.any(|of_client| !of_client.is_disjoint(groups));
    if !is_used {
        work.ledger.unneeded(&row.statement, "no client is in its groups");
    }
    is_used
}

/// The lists that count for clients which have one of these sets of groups: all that may block, and those
/// exceptions that each of them has.
fn selection(work: &Work, counted: &[Counted], sets: &[GroupIds]) -> Keys {
    let counts = |name: &Setting| {
        let Some(list) = counted.iter().find(|list| list.name.as_ref() == Some(name)) else { return true };
        let mut have = sets.iter().map(|set| !set.is_disjoint(&list.groups));
        if list.allows { have.all(|has| has) } else { have.any(|has| has) }
    };
    let mut names = Vec::new();
    for name in work.nomen.policy_lists.iter().filter_map(|list| list.get("name")) {
        if let Setting::Text(text) = name
            && counts(name)
        {
            names.push(text.clone());
        }
    }
    let mut keys = Keys::default();
    if names.len() < work.nomen.policy_lists.len() {
        keys.set("lists", Setting::Texts(names));
    }
    keys
}

/// Converts a list.
fn address(work: &mut Work, row: &Row, effect: &Effect) {
    let address = row.get("address").unwrap_or_default();
    let path = address.split("://").nth(1).unwrap_or(address).trim_end_matches('/');
    let title = path.rsplit('/').next().unwrap_or_default();
    match address.split_once("://") {
        Some(("https" | "http", _)) => work.list_of_url(title, address, Some(REFRESH), effect),
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

/// Converts a domain or a regular expression, to a line of the list of its groups.
fn name(work: &mut Work, row: &Row, effect: &Effect, is_regex: bool, groups: &GroupIds) {
    let text = row.get("domain").unwrap_or_default();
    let rule = match is_regex {
        true => regex(text),
        false => {
            let rule = domain(text).and_then(|name| at_and_below(&name));
            // One `|`: the name alone.
            rule.map(|rule| rule[1..].to_owned()).ok_or("it is not a name that a list can have")
        }
    };
    let mut list = if *effect == Effect::Allow { ALLOWED } else { BLOCKED }.to_owned();
    if groups.iter().ne(&[0]) {
        groups.iter().for_each(|group| list.push_str(&format!("-{group}")));
    }
    match (rule, effect) {
        (Ok(rule), _) => {
            work.list_line(&list, effect, rule);
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
