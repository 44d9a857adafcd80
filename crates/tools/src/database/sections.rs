//! `nomen database set`, `get` and `unset`: sections of the configuration that all nodes share.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

use ::database::{DatabaseAdmin, SectionEdit, SectionEvent, SectionSet, StoredSection};
use config::exit_status::{EXIT_FAULTS, EXIT_OK, EXIT_OUTSIDE, EXIT_USAGE};
use config::machine::host_name;
use config::sections::split::split;
use config::sections::{KeptSections, SectionKind, SectionState, SectionUse, SharedSection};
use serde_json::json;
use wording::{did_you_mean, reason, rfc3339};
use zone_manager::zones::resolve::resolve;

use super::Failure;
use super::args::{DatabaseGetArgs, DatabaseSetArgs, DatabaseTargetArgs, DatabaseUnsetArgs};
use super::target::open_own;

/// Largest text with sections, in bytes.
const MAX_TEXT: u64 = 16 << 20;
/// Most changes that `get --history` shows.
const MAX_HISTORY: usize = 1000;
/// Most characters of the host's name in the name of an author.
const MAX_HOST: usize = 100;

/// Runs `nomen database set`.
pub(super) fn set(args: &DatabaseSetArgs) -> Result<u8, Failure> {
    let mut wanted: Vec<SharedSection> = Vec::new();
    for path in &args.files {
        let (name, text) = read(path)?;
        let sections = split(&name, &text).map_err(|rejected| (rejected.to_string(), EXIT_FAULTS))?;
        for section in sections {
            if wanted.iter().any(|other| other.is(&section)) {
                return Err((format!("{name}: {} is set twice", section.title()), EXIT_FAULTS));
            }
            wanted.push(section);
        }
    }
    if wanted.is_empty() {
        return Err(("nomen: the text has no sections".into(), EXIT_FAULTS));
    }
    let (admin, before) = opened(&args.target)?;
    let mut edits: Vec<SectionEdit> = Vec::new();
    for (place, section) in (0..).zip(&wanted) {
        let SharedSection { kind, name, text } = section.clone();
        edits.push(SectionEdit { kind, name, text: Some(text), place: args.only.then_some(place) });
    }
    if args.only {
        let is_gone = |stored: &&StoredSection| {
            let of_kind = |section: &&SharedSection| section.kind == stored.kind;
            wanted.iter().any(|section| of_kind(&section))
                && !wanted.iter().any(|section| of_kind(&section) && section.name == stored.name)
        };
        edits.extend(before.sections.iter().filter(is_gone).map(removal));
    }
    make(&admin, &before, &edits, &args.target, args.dry_run)
}

/// Runs `nomen database unset`.
pub(super) fn unset(args: &DatabaseUnsetArgs) -> Result<u8, Failure> {
    let kind = kind(&args.kind)?;
    let (admin, before) = opened(&args.target)?;
    let name = canonical(kind, &args.name);
    let stored = before.sections.iter().find(|section| section.kind == kind && section.name == name);
    let Some(stored) = stored else { return Err(unknown(&before, kind, &name)) };
    make(&admin, &before, &[removal(stored)], &args.target, args.dry_run)
}

/// Runs `nomen database get`.
pub(super) fn get(args: &DatabaseGetArgs) -> Result<u8, Failure> {
    let kind = args.kind.as_deref().map(kind).transpose()?;
    let name = args.name.as_deref().zip(kind).map(|(name, kind)| canonical(kind, name));
    let (admin, set) = opened(&args.target)?;
    if args.history {
        let events = admin.section_history(kind, name.as_deref(), MAX_HISTORY).map_err(outside)?;
        match args.json {
            true => say!("{:#}", json!(events.iter().map(event_json).collect::<Vec<_>>())),
            false => events.iter().for_each(|event| say!("{}", event_line(event))),
        }
        return Ok(EXIT_OK);
    }
    let is_asked = |section: &&StoredSection| {
        kind.is_none_or(|kind| section.kind == kind) && name.as_ref().is_none_or(|name| section.name == *name)
    };
    let found: Vec<&StoredSection> = set.sections.iter().filter(is_asked).collect();
    if let (true, Some(kind), Some(name)) = (found.is_empty(), kind, &name) {
        return Err(unknown(&set, kind, name));
    }
    match args.json {
        true => say!("{:#}", json!(found.iter().map(|section| section_json(section)).collect::<Vec<_>>())),
        false => crate::print_out(&text_of(&found)),
    }
    Ok(EXIT_OK)
}

/// Returns sections as one text, which `nomen database set` takes.
pub(super) fn text_of(sections: &[&StoredSection]) -> String {
    let mut out = String::new();
    for StoredSection { text, author, at, change, .. } in sections {
        if !out.is_empty() {
            out.push('\n');
        }
        // The empty line keeps the comment out of the section.
        let _ = write!(out, "# change {change}, {}, by {author}\n\n{text}", rfc3339(*at));
    }
    out
}

fn outside(fault: impl std::fmt::Display) -> Failure {
    (format!("nomen: {fault}"), EXIT_OUTSIDE)
}

/// Reads a file, or standard input for `-`; returns its name for messages, and the text.
fn read(path: &Path) -> Result<(String, String), Failure> {
    let name = if path == Path::new("-") { "standard input".into() } else { path.display().to_string() };
    let read = match path == Path::new("-") {
        true => {
            let mut text = String::new();
            std::io::stdin().take(MAX_TEXT + 1).read_to_string(&mut text).map(|_| text)
        }
        false => zone::regular::read_to_string(path, MAX_TEXT),
    };
    let text = read.map_err(|fault| outside(format!("cannot read {name}: {}", reason(&fault))))?;
    if text.len() as u64 > MAX_TEXT {
        return Err(outside(format!("{name} has more than {MAX_TEXT} bytes")));
    }
    Ok((name, text))
}

/// Connects, and reads all sections.
fn opened(target: &DatabaseTargetArgs) -> Result<(DatabaseAdmin, SectionSet), Failure> {
    let admin = open_own(target)?;
    let set = admin.is_usable().and_then(|()| admin.sections());
    let set = set.map_err(|fault| outside(format!("{}: {fault}", admin.host())))?;
    Ok((admin, set))
}

/// Returns the word of a kind, which may be written with the brackets of its header.
fn kind(word: &str) -> Result<&'static str, Failure> {
    let bare = word.trim_matches(['[', ']']);
    let words = || SectionKind::ALL.into_iter().map(SectionKind::word);
    words().find(|known| *known == bare).ok_or_else(|| {
        let near = did_you_mean(bare, words());
        let hint = match near {
            Some(near) => format!("did you mean {near}?"),
            None => format!("the kinds are {}", words().collect::<Vec<_>>().join(", ")),
        };
        (format!("nomen: there is no kind `{bare}` of sections: {hint}"), EXIT_USAGE)
    })
}

fn canonical(kind: &str, name: &str) -> String {
    SectionKind::of(kind).map_or_else(|| name.to_owned(), |kind| kind.canonical(name))
}

fn unknown(set: &SectionSet, kind: &str, name: &str) -> Failure {
    let names = set.sections.iter().filter(|section| section.kind == kind);
    let near = did_you_mean(name, names.map(|section| section.name.as_str()));
    let near = near.map_or_else(String::new, |near| format!("; did you mean \"{near}\"?"));
    (format!("nomen: the database has no {kind} \"{name}\"{near}"), EXIT_FAULTS)
}

fn removal(stored: &StoredSection) -> SectionEdit {
    SectionEdit { kind: stored.kind.clone(), name: stored.name.clone(), text: None, place: None }
}

/// Checks edits and makes them.
fn make(
    admin: &DatabaseAdmin,
    before: &SectionSet,
    edits: &[SectionEdit],
    target: &DatabaseTargetArgs,
    dry_run: bool,
) -> Result<u8, Failure> {
    if target.has_config() {
        let faults = faults_here(&target.config, before, edits)?;
        if !faults.is_empty() {
            let lines: Vec<String> = faults.iter().map(|fault| format!("error: {fault}")).collect();
            return Err((format!("{}\nnothing was changed", lines.join("\n")), EXIT_FAULTS));
        }
    }
    if !dry_run {
        let made = admin.change_sections(edits, Some(before.number), &author());
        match made.map_err(|fault| outside(format!("{}: {fault}", admin.host())))? {
            Some(_) => {}
            None => {
                let message = "nomen: sections have changed meanwhile, and nothing was done: run it again";
                return Err((message.into(), EXIT_FAULTS));
            }
        }
    }
    let dry = if dry_run { ", nothing is changed" } else { "" };
    for edit in edits {
        let stored = before.sections.iter().find(|one| one.kind == edit.kind && one.name == edit.name);
        let end = match (&edit.text, stored) {
            (None, _) => "removed",
            (Some(_), None) => "new",
            (Some(text), Some(stored)) if *text == stored.text => "the same already",
            (Some(_), Some(_)) => "changed",
        };
        say!("{} \"{}\": {end}{dry}", edit.kind, edit.name);
    }
    Ok(EXIT_OK)
}

/// Who makes a change, for the history.
fn author() -> String {
    let user = ["SUDO_USER", "USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    format!("{} on {}", user.unwrap_or_else(|| "a user".into()), host_name(MAX_HOST))
}

/// Returns what a node with this configuration file could not use after the edits, and can use before them.
fn faults_here(config: &Path, before: &SectionSet, edits: &[SectionEdit]) -> Result<Vec<String>, Failure> {
    let shared = |section: &StoredSection| SharedSection {
        kind: section.kind.clone(),
        name: section.name.clone(),
        text: section.text.clone(),
    };
    let wanted: Vec<SharedSection> = before.sections.iter().map(shared).collect();
    let mut edited = wanted.clone();
    for edit in edits {
        let is_it = |section: &SharedSection| section.kind == edit.kind && section.name == edit.name;
        let Some(text) = edit.text.clone() else {
            edited.retain(|section| !is_it(section));
            continue;
        };
        match edited.iter_mut().find(|section| is_it(section)) {
            Some(section) => section.text = text,
            None => edited.push(SharedSection { kind: edit.kind.clone(), name: edit.name.clone(), text }),
        }
    }
    let known = states(config, &wanted, &[]).unwrap_or_default();
    let is_known = |state: &SectionState| {
        known.iter().any(|before| before.section == state.section && before.used.fault().is_some())
    };
    // What is removed counts as in force, so that a configuration file that needs it is found.
    let now = states(config, &edited, &wanted).map_err(|text| (text, EXIT_FAULTS))?;
    let mut faults = Vec::new();
    for state in &now {
        let title = state.section.title();
        match &state.used {
            SectionUse::OwnFile => {
                eprintln!("note: {title}: {} has its own, which counts here", config.display())
            }
            SectionUse::NoResolver => {
                eprintln!("note: {title} has no effect here: {} has no [resolver]", config.display());
            }
            used => faults.extend(used.fault().filter(|_| !is_known(state)).map(str::to_owned)),
        }
    }
    Ok(faults)
}

/// Returns what a node with this configuration file does with sections, or why it cannot use the file.
fn states(
    config: &Path,
    wanted: &[SharedSection],
    earlier: &[SharedSection],
) -> Result<Vec<SectionState>, String> {
    let is_gone = |section: &&SharedSection| !wanted.iter().any(|other| other.is(section));
    let earlier = earlier.iter().filter(is_gone).cloned().collect();
    let kept = KeptSections { number: 0, wanted: wanted.to_vec(), earlier };
    let mut accepted = config::read_with(config, Some(&kept)).map_err(|rejected| rejected.to_string())?;
    loop {
        let read = accepted.config.settings.read_named_files();
        let faults = read.and_then(|()| resolve(&accepted.config).map(drop)).err().unwrap_or_default();
        if faults.is_empty() {
            return Ok(accepted.sections.states());
        }
        accepted.mend(faults).map_err(|faults| accepted.sources.render(&faults))?;
    }
}

/// Returns the sections that cannot be used, each with the reason: by this version, or by a node with this
/// configuration file.
pub(super) fn faults(set: &SectionSet, config: Option<&Path>) -> Result<Vec<String>, Failure> {
    if let Some(config) = config {
        let nothing = SectionSet { number: set.number, sections: Vec::new() };
        let edit = |section: &StoredSection| SectionEdit {
            kind: section.kind.clone(),
            name: section.name.clone(),
            text: Some(section.text.clone()),
            place: None,
        };
        let edits: Vec<SectionEdit> = set.sections.iter().map(edit).collect();
        return faults_here(config, &nothing, &edits);
    }
    let fault = |section: &StoredSection| {
        let title = format!("database: {} \"{}\"", section.kind, section.name);
        split(&title, &section.text).err().map(|rejected| rejected.to_string())
    };
    Ok(set.sections.iter().filter_map(fault).collect())
}

fn section_json(section: &StoredSection) -> serde_json::Value {
    json!({
        "kind": section.kind,
        "name": section.name,
        "toml": section.text,
        "by": section.author,
        "node": section.node,
        "at": rfc3339(section.at),
        "change": section.change,
    })
}

fn event_word(event: &SectionEvent) -> &'static str {
    match (&event.before, &event.after) {
        (None, Some(_)) => "new",
        (Some(_), Some(_)) => "changed",
        (Some(_), None) => "removed",
        // Texts with secrets are not in the history.
        (None, None) => "set or removed",
    }
}

fn event_line(event: &SectionEvent) -> String {
    let SectionEvent { number, kind, name, author, node, at, .. } = event;
    format!("{number:>8}  {}  {kind} \"{name}\": {} by {author} ({node})", rfc3339(*at), event_word(event))
}

fn event_json(event: &SectionEvent) -> serde_json::Value {
    json!({
        "change": event.number,
        "kind": event.kind,
        "name": event.name,
        "before": event.before,
        "after": event.after,
        "by": event.author,
        "node": event.node,
        "at": rfc3339(event.at),
    })
}
