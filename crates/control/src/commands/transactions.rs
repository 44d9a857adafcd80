//! `nomen ctl zone begin`, `set`, `unset`, `diff`, `commit`, `abort`: transactions.

use std::sync::Arc;

use serde_json::{Value, json};
use zone::store::ChangeSet;

use super::CommandResult;
use super::record_text::{RecordText, set_record, unset_records};
use super::zones::find;
use crate::fault::CommandFault;
use crate::parts::ServerParts;
use zone_manager::changes::Changes;
use zone_manager::managed::ZoneStatus;
use zone_manager::shown_change::ShownChange;

/// A command on a transaction.
#[derive(Debug)]
pub(super) enum TransactionVerb {
    /// Begin a transaction.
    Begin,
    /// Set the record of this text.
    Set(String),
    /// Unset the records of this text.
    Unset(String),
    /// Show what the transaction changes.
    Diff,
    /// Commit it to the zone.
    Commit,
    /// Abort it.
    Abort,
}

/// Executes a command on the transaction of a zone.
pub(super) fn transact(parts: &ServerParts, name: &str, verb: &TransactionVerb) -> CommandResult {
    let state = find(&parts.table, name)?;
    let changes = parts.changes.as_ref().filter(|changes| changes.takes_any(&state.spec.apex));
    act(changes.ok_or(CommandFault::NoTransactions)?, &state, verb)
}

fn act(changes: &Arc<Changes>, state: &ZoneStatus, verb: &TransactionVerb) -> CommandResult {
    let (apex, name) = (&state.spec.apex, state.spec.name());
    let fault = |fault| CommandFault::Transaction { zone: apex.to_string(), fault };
    let mut answer = json!({"zone": apex.to_string()});
    match verb {
        TransactionVerb::Begin => {
            let not_loaded = || CommandFault::NotLoaded(apex.to_string());
            let served = state.zone.as_ref().ok_or_else(not_loaded)?;
            answer["serial"] = changes.begin(apex, served).map_err(fault)?.0.into();
        }
        TransactionVerb::Set(text) => {
            let RecordText { record, warnings } = set_record(text, name)?;
            put_change(&mut answer, &changes.set(apex, &record).map_err(fault)?);
            answer["warnings"] = warnings.into();
        }
        TransactionVerb::Unset(text) => {
            let records = unset_records(text, name)?;
            put_change(&mut answer, &changes.unset(apex, &records).map_err(fault)?);
        }
        TransactionVerb::Diff => put_change(&mut answer, &changes.difference(apex).map_err(fault)?),
        TransactionVerb::Commit => {
            let step = changes.commit(apex).map_err(fault)?;
            answer["changed"] = step.is_some().into();
            if let Some(step) = step {
                answer["from"] = step.from.0.into();
                answer["to"] = step.to.0.into();
                answer["removed"] = step.removed.into();
                answer["added"] = step.added.into();
            }
        }
        TransactionVerb::Abort => {
            changes.abort(apex).map_err(fault)?;
            answer["aborted"] = true.into();
        }
    }
    Ok(answer)
}

fn put_change(answer: &mut Value, change: &ChangeSet) {
    answer["changes"] = json!(ShownChange(change));
}
