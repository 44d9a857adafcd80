//! Trust anchors of resolvers, from statements and from files. Anchors of the public root are not written:
//! nomen has them built in, and does not follow their rollover if its configuration lists them.

use std::path::Path;

use crate::files::{expand, is_pattern, join};
use crate::ledger::Coverage;
use crate::model::Section;
use crate::named_conf;
use crate::text::Texts;
use crate::tree::{Statement, last};
use crate::units;
use crate::work::{Anchor, Anchors, Work, domain, is_base64};

/// Signature algorithms that nomen supports (IANA's numbers).
const ALGORITHMS: [u8; 7] = [5, 7, 8, 10, 13, 14, 15];
/// Digest types that nomen supports, with their length in bytes (RFC 4034 §5.1.4, RFC 4509, RFC 6605).
const DIGESTS: [(u16, usize); 3] = [(1, 20), (2, 32), (4, 48)];
/// The public root's anchors: the digest of each DS, and the unique start of each public key.
const ROOT: [[&str; 2]; 2] = [
    [
        "E06D44B80B8F1D39A95C0B0D7C65D08458E880409BBC683457104237C7F8EC8D",
        "AwEAAaz/tAm8yTn4Mfeh5eyI96WSVexTBAvkMgJzkKTOiW1vkIbzxeF3",
    ],
    [
        "683D2D0ACB8C9B712A1948B27F741219298D0A450D612C483AF444A4C0FB2B16",
        "AwEAAa96jeuknZlaeSrvyAJj6ZHv28hhOKkx3rLGXVaC6rXTsDc449/c",
    ],
];
/// The same anchors in nomen's configuration format, written if other anchors are written.
const ROOT_LINES: [&str; 2] = [
    ". DS 20326 8 2 E06D44B80B8F1D39A95C0B0D7C65D08458E880409BBC683457104237C7F8EC8D",
    ". DS 38696 8 2 683D2D0ACB8C9B712A1948B27F741219298D0A450D612C483AF444A4C0FB2B16",
];
/// Statements that give Unbound its anchors. Without any, Unbound does not validate.
const ANCHORS: [&str; 4] =
    ["trust-anchor", "trust-anchor-file", "auto-trust-anchor-file", "trusted-keys-file"];
const OF_ROOT: &str = "nomen has the keys of the public root";
const NO_ANCHOR: &str = "it is no trust anchor: a DS or DNSKEY record of a key that signs zones";

/// Adds an anchor. Returns whether it is one of the public root.
pub(crate) fn add(
    work: &mut Work,
    owner: &str,
    kind: &str,
    data: &[&str],
    followed: bool,
) -> Result<bool, &'static str> {
    let owner = domain(owner).ok_or("its name is not a domain name")?;
    let (numbers, rest) = data.split_at_checked(3).ok_or(NO_ANCHOR)?;
    let rest: String = rest.concat().split_whitespace().collect();
    let number = |n: usize| numbers[n].parse::<u16>().map_err(|_| NO_ANCHOR);
    let (first, second, third) = (number(0)?, number(1)?, number(2)?);
    let (good, algorithm) = match kind {
        "DS" => {
            let len = DIGESTS.iter().find(|(digest, _)| *digest == third).map(|(_, len)| 2 * len);
            let len = len.ok_or("nomen does not know this type of digest")?;
            (rest.len() == len && rest.bytes().all(|byte| byte.is_ascii_hexdigit()), second)
        }
        // The Zone Key flag is set, and REVOKE is not (RFC 4034 §2.1.1, RFC 5011 §7).
        _ => (first & 0x180 == 0x100 && second == 3 && is_base64(&rest), third),
    };
    if !good {
        return Err(NO_ANCHOR);
    }
    if !ALGORITHMS.iter().any(|known| u16::from(*known) == algorithm) {
        return Err("nomen does not verify signatures of this algorithm");
    }
    let known = |[digest, key]: &[&str; 2]| match kind {
        "DS" => rest.eq_ignore_ascii_case(digest),
        _ => rest.starts_with(key),
    };
    let root = owner == "." && ROOT.iter().any(known);
    let dot = if owner == "." { "" } else { "." };
    let line = format!("{owner}{dot} {kind} {first} {second} {third} {rest}");
    work.anchors.found.push(Anchor { line, root, followed });
    Ok(root)
}

/// Writes the anchors and `trust-anchor-rollover`: in nomen either all written anchors follow their zones, or
/// none.
pub(crate) fn write(work: &mut Work) {
    let Anchors { found, public_root, root_followed } = std::mem::take(&mut work.anchors);
    if found.iter().all(|anchor| anchor.root) {
        // nomen's built-in anchors follow their zone by default.
        if !found.is_empty() && !public_root && !found.iter().any(|anchor| anchor.followed) {
            work.recurse().text("trust-anchor-rollover", "off");
        }
        return;
    }
    let own_root = found.iter().any(|anchor| anchor.line.starts_with(". "));
    let root = ROOT_LINES.iter().filter(|_| public_root && !own_root);
    let root = root.map(|line| Anchor { line: (*line).to_owned(), root: true, followed: root_followed });
    let all: Vec<Anchor> = root.chain(found).collect();
    match (all.iter().all(|anchor| anchor.followed), all.iter().any(|anchor| anchor.followed)) {
        (true, _) => {
            work.recurse().text("trust-anchor-rollover", "all");
            work.keep_state();
        }
        (false, true) => work.ledger.unwritten(
            Coverage::Differs,
            "some trust anchors follow their zones (RFC 5011) and some do not; in nomen all that are named \
             do, or none: here none, see `trust-anchor-rollover`",
        ),
        (false, false) => {}
    }
    for anchor in all {
        work.recurse().add("trust-anchors", anchor.line);
    }
}

/// Reports the outcome of a statement with an anchor.
fn account(work: &mut Work, statement: &Statement, found: Result<bool, &'static str>) {
    match found {
        Ok(true) => work.ledger.unneeded(statement, OF_ROOT),
        Ok(false) => work.in_key(statement, Section::Resolver, "trust-anchors"),
        Err(why) => work.ledger.missing(statement, why),
    }
}

/// Converts `trust-anchors`, `managed-keys` and `trusted-keys` of BIND.
pub(crate) fn of_bind(work: &mut Work, list: &Statement) {
    work.ledger.open(list);
    for entry in list.block() {
        let found = bind_entry(work, entry);
        account(work, entry, found);
    }
}

/// Parses `NAME static-ds TAG ALGORITHM TYPE DIGEST`, `NAME static-key FLAGS PROTOCOL ALGORITHM KEY`, both
/// with `initial-`, and the latter without a keyword.
fn bind_entry(work: &mut Work, entry: &Statement) -> Result<bool, &'static str> {
    let words: Vec<&str> = entry.words().map(|word| word.text.as_str()).collect();
    match words[..] {
        [name, kind @ ("static-ds" | "initial-ds"), ref data @ ..] => {
            add(work, name, "DS", data, kind == "initial-ds")
        }
        [name, kind @ ("static-key" | "initial-key"), ref data @ ..] => {
            add(work, name, "DNSKEY", data, kind == "initial-key")
        }
        [name, ref data @ ..] => add(work, name, "DNSKEY", data, false),
        [] => Err(NO_ANCHOR),
    }
}

/// Converts a statement whose value is a record.
pub(crate) fn of_record(work: &mut Work, statement: &Statement) {
    let words: Vec<&str> = statement.value().split_whitespace().collect();
    let found = record(work, &words, false).unwrap_or(Err(NO_ANCHOR));
    account(work, statement, found);
}

/// Parses `NAME [TTL] [CLASS] TYPE DATA`; `None` for other types.
fn record(work: &mut Work, words: &[&str], followed: bool) -> Option<Result<bool, &'static str>> {
    let at =
        words.iter().take(4).position(|word| ["DS", "DNSKEY"].contains(&word.to_ascii_uppercase().as_str()));
    let (name, at) = (words.first()?, at.filter(|at| *at > 0)?);
    Some(add(work, name, &words[at].to_ascii_uppercase(), &words[at + 1..], followed))
}

/// Converts a statement that names a file of records, as written by Unbound and its `unbound-anchor`.
pub(crate) fn of_file(work: &mut Work, texts: &Texts<'_>, statement: &Statement, path: &Path) {
    let Ok(bytes) = texts.files.read(path) else { return unreadable(work, statement, path) };
    let text = String::from_utf8_lossy(&bytes);
    let followed = statement.key() == "auto-trust-anchor-file";
    let (mut words, mut open) = (Vec::new(), false);
    for line in text.lines() {
        let (data, comment) = line.split_once(';').unwrap_or((line, ""));
        // Keys that Unbound follows (RFC 5011) are followed by their state; 2 (valid) and 3 (missing) are
        // anchors.
        let state = comment.split_once("state=").and_then(|(_, state)| state.chars().next());
        open = data.chars().fold(open, |open, c| c == '(' || open && c != ')');
        words.extend(
            data.split(|c: char| c.is_whitespace() || "()".contains(c)).filter(|word| !word.is_empty()),
        );
        if open {
            continue;
        }
        let all = std::mem::take(&mut words);
        if state.is_none_or(|state| "23".contains(state))
            && let Some(Err(why)) = record(work, &all, followed)
        {
            let said = format!("{}: `{}`: {why}", path.display(), all.join(" "));
            work.ledger.part(&statement.span, &statement.title(), Coverage::Missing, said);
        }
    }
    work.in_key(statement, Section::Resolver, "trust-anchors");
}

/// Converts a statement that names files with `trusted-keys` of BIND.
pub(crate) fn of_bind_files(work: &mut Work, texts: &mut Texts<'_>, statement: &Statement, base: &Path) {
    let path = join(base, statement.value());
    let paths = if is_pattern(statement.value()) { expand(texts.files, &path) } else { vec![path] };
    for path in paths {
        let Ok(parsed) = named_conf::parse(texts, &path, base) else {
            unreadable(work, statement, &path);
            continue;
        };
        parsed.statements.iter().for_each(|list| of_bind(work, list));
    }
    work.in_key(statement, Section::Resolver, "trust-anchors");
}

fn unreadable(work: &mut Work, statement: &Statement, path: &Path) {
    // Most such files only have the public root's anchors.
    work.anchors.public_root = true;
    let how = format!(
        "{} cannot be read here; {OF_ROOT}, and those of other zones belong into `trust-anchors` of \
         [resolver]",
        path.display()
    );
    work.ledger.differs(statement, how);
}

/// Unbound validates if it has the module and at least one anchor, and does not run in permissive mode.
pub(crate) fn of_unbound(work: &mut Work, texts: &mut Texts<'_>, all: &[&Statement], directory: &Path) {
    let module = last(all, "module-config").is_none_or(|modules| modules.value().contains("validator"));
    let permissive =
        last(all, "val-permissive-mode").is_some_and(|found| units::switch(found.value()) == Some(true));
    let anchored = ANCHORS.iter().any(|key| last(all, key).is_some_and(|found| !found.value().is_empty()));
    if !module || !anchored || permissive {
        work.recurse().switch("validate", false);
        return;
    }
    for statement in all.iter().filter(|statement| !statement.value().is_empty()) {
        let path = join(directory, statement.value());
        match statement.key() {
            "trust-anchor" => of_record(work, statement),
            "trust-anchor-file" | "auto-trust-anchor-file" => of_file(work, texts, statement, &path),
            "trusted-keys-file" => of_bind_files(work, texts, statement, directory),
            "domain-insecure" => work.trust_nothing_below(statement, statement.value()),
            _ => {}
        }
    }
}

/// Converts the `addTA`, `addDS` and `addNTA` calls of a Lua configuration of the recursor. With `off`
/// nothing is validated, and all are ignored.
pub(crate) fn of_lua(work: &mut Work, texts: &Texts<'_>, statement: &Statement, path: &Path, off: bool) {
    let Ok(bytes) = texts.files.read(path) else { return unreadable(work, statement, path) };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let mut others = 0;
    // Open parentheses of a policy zone, which is converted elsewhere.
    let mut open = 0usize;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("--")) {
        if open > 0 || line.starts_with("rpz") {
            open = (open + line.matches('(').count()).saturating_sub(line.matches(')').count());
            continue;
        }
        let (call, rest) = line.split_once('(').unwrap_or((line, ""));
        let strings: Vec<&str> = rest.split(['"', '\'']).skip(1).step_by(2).collect();
        let found = match (call.trim(), &strings[..]) {
            ("addTA" | "addDS" | "addNTA", _) if off => continue,
            ("addNTA", [name, ..]) => {
                work.trust_nothing_below(statement, name);
                continue;
            }
            ("addTA" | "addDS", [name, data, ..]) => {
                add(work, name, "DS", &data.split_whitespace().collect::<Vec<_>>(), false)
            }
            _ => {
                others += 1;
                continue;
            }
        };
        if let Err(why) = found {
            work.ledger.part(
                &statement.span,
                &statement.title(),
                Coverage::Missing,
                format!("`{line}`: {why}"),
            );
        }
    }
    work.ledger.translated(
        statement,
        "its `addTA` and `addNTA`, in `trust-anchors` and `negative-trust-anchors` of [resolver]",
    );
    if others > 0 {
        let why =
            format!("nomen runs no scripts: of {}, {others} lines are about something else", path.display());
        work.ledger.missing(statement, why);
    }
}
