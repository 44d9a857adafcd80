//! New texts of lists, where the rules in force can be changed: a text that is the same changes nothing, and
//! of others the names that differ are changed. So the lists that have not changed cost nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use fetch::checksum;
use policy::{ListReport, RuleChanges, SourceId};
use tracing::{debug, error, info};
use transport::unix_now;

use super::fetched_lists::{FetchedText, random};
use super::lists::{FileState, ListStatus, Lists, Loaded, ReadList, state_of, warn_of};
use config::lists::{ListConfig, ListSource};
use wording::reason;

/// What is found in a new text of a list.
enum NewText {
    /// The text of the version in force.
    Same,
    /// Another version, which is in force now.
    Changed(ListReport, [u8; 32]),
    /// None that can be used: the version in force stays.
    Fault(String),
}

impl Lists {
    /// Returns the lists with new texts of some: of lists with a file, what the file has now. Returns `None`
    /// if all rules are to be compiled: a list has no version in force, or too much has changed.
    pub(super) fn with_texts(old: &Loaded, texts: &BTreeMap<String, Option<FetchedText>>) -> Option<Loaded> {
        let began = Instant::now();
        let in_force = old.in_force.as_deref()?;
        let mut changes = RuleChanges::new(in_force.rules());
        let mut found = Vec::new();
        for (at, list) in old.lists.iter().enumerate() {
            let config = &list.status.config;
            let Some(fetched) = texts.get(&config.name) else { continue };
            let state = file_state(config);
            let text = match (&config.source, fetched) {
                // A fault that is known is not logged again.
                (ListSource::File(_), _) if state.is_some() && state == list.state => continue,
                (ListSource::File(file), _) => {
                    config.file_text(file).map(Cow::Owned).map_err(|fault| reason(&fault))
                }
                // What was fetched for another URL is of no use.
                (ListSource::Url(of), Some(text)) if text.fetching.url == of.url => {
                    Ok(Cow::Borrowed(&text.text[..]))
                }
                (ListSource::Url(_), _) => continue,
            };
            list.status.report.as_ref()?;
            let source = SourceId(u8::try_from(in_force.zones().len() + at).ok()?);
            let new = compared(&mut changes, source, &list.status, text)?;
            found.push((at, state, new));
        }
        let has_changed = found.iter().any(|(.., new)| matches!(new, NewText::Changed(..)));
        let changed = match has_changed {
            true => Some(changes.finish().inspect_err(|why| debug!("all rules are compiled: {why:?}")).ok()?),
            false => None,
        };
        let mut lists = old.lists.clone();
        for (at, state, new) in found {
            let list = lists.get_mut(at)?;
            list.state = state;
            let fetched = texts.get(&list.status.config.name).and_then(Option::as_ref);
            take(list, fetched, new);
        }
        let in_force = match changed {
            None => old.in_force.clone(),
            Some(rules) => {
                let milliseconds = began.elapsed().as_millis() as u64;
                let (names, overlaid) = (rules.len(), rules.overlaid());
                info!(lists = texts.len(), names, overlaid, milliseconds, "policy rules are changed");
                Some(Arc::new(in_force.with_rules(rules)))
            }
        };
        Some(Loaded { lists, in_force, ..old.clone() })
    }
}

fn file_state(config: &ListConfig) -> Option<FileState> {
    match &config.source {
        ListSource::File(file) => state_of(file),
        ListSource::Url(_) => None,
    }
}

/// Compares a text with the version in force; `None` if all rules are to be compiled.
fn compared(
    changes: &mut RuleChanges<'_>,
    source: SourceId,
    status: &ListStatus,
    text: Result<Cow<'_, [u8]>, String>,
) -> Option<NewText> {
    let text = match text {
        Ok(text) => text,
        Err(fault) => return Some(NewText::Fault(fault)),
    };
    let sum = checksum(&text);
    if status.sum == Some(sum) {
        return Some(NewText::Same);
    }
    if let Err(fault) = status.config.check_lines(&text) {
        return Some(NewText::Fault(fault));
    }
    let ListConfig { name, format, exempts, .. } = &status.config;
    let read = changes.list(source, *format, &text, *exempts);
    match read.inspect_err(|why| debug!("all rules are compiled: list {name}: {why:?}")).ok()? {
        Ok(report) => Some(NewText::Changed(report, sum)),
        Err(fault) => Some(NewText::Fault(fault.to_string())),
    }
}

/// Notes and logs what is found in a new text of a list.
fn take(list: &mut ReadList, fetched: Option<&FetchedText>, new: NewText) {
    let (now, status) = (unix_now(), &mut list.status);
    let ListStatus { config, report, read, fault, fetches, sum } = status;
    let fetches = config.source.fetching().zip(fetched).zip(fetches.as_mut());
    match new {
        NewText::Same => {
            *fault = None;
            debug!(list = config.name, "the text of the list is the same");
            if let Some(((fetching, text), fetches)) = fetches {
                fetches.sent_again(text.validators.clone(), now, fetching.refresh, random());
            }
        }
        NewText::Changed(new_report, new_sum) => {
            warn_of(config, &new_report);
            (*read, *fault, *sum) = (Some(now), None, Some(new_sum));
            if let Some(((fetching, text), fetches)) = fetches {
                info!(list = config.name, rules = new_report.rules, "the list is fetched");
                fetches.updated(text.validators.clone(), now, fetching.refresh, random());
            }
            *report = Some(new_report);
        }
        NewText::Fault(why) => {
            let from = &config.source;
            error!(list = config.name, "the list keeps its last good version: {from}: {why}");
            *fault = Some(why);
            if let Some(((fetching, _), fetches)) = fetches {
                fetches.refused(now, fetching.refresh);
            }
        }
    }
}
