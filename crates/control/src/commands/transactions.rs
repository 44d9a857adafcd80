//! `nomen ctl zone begin`, `set`, `unset`, `diff`, `commit`, `abort`: transactions.

use std::sync::Arc;

use serde_json::{Value, json};
use zone::store::ChangeSet;

use super::record_text::{set_record, unset_records};
use super::zones::find;
use crate::parts::ServerParts;
use zone_manager::changes::{Changes, TransactionFault};
use zone_manager::managed::ZoneStatus;
use zone_manager::shown_change::ShownChange;

/// Why a command failed, and details.
pub(super) type CommandFault = (String, Option<Value>);

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
pub(super) fn transact(
    parts: &ServerParts,
    name: &str,
    verb: &TransactionVerb,
) -> Result<Value, CommandFault> {
    let plain = |fault: String| (fault, None);
    let state = find(&parts.table, name).map_err(plain)?;
    let changes = parts.changes.as_ref().filter(|changes| changes.takes_any(&state.spec.apex));
    let changes = changes.ok_or_else(|| {
        plain("the zone takes no changes: it has neither `allow-update` nor `update-policy`".into())
    })?;
    let done = act(changes, &state, verb);
    done.map_err(|fault| match fault {
        ActFault::Text(text) => (text, None),
        ActFault::Transaction(TransactionFault::Conflict(meanwhile)) => {
            let details = json!({"zone": state.spec.name().to_string(), "changes": ShownChange(&meanwhile)});
            (TransactionFault::Conflict(meanwhile).to_string(), Some(details))
        }
        ActFault::Transaction(fault) => (fault.to_string(), None),
    })
}

/// Why a command was not executed.
enum ActFault {
    /// The text of the record has a fault.
    Text(String),
    Transaction(TransactionFault),
}

impl From<TransactionFault> for ActFault {
    fn from(fault: TransactionFault) -> Self {
        Self::Transaction(fault)
    }
}

fn act(changes: &Arc<Changes>, state: &ZoneStatus, verb: &TransactionVerb) -> Result<Value, ActFault> {
    let (apex, name) = (&state.spec.apex, state.spec.name());
    let mut answer = json!({"zone": name.to_string()});
    match verb {
        TransactionVerb::Begin => {
            let not_loaded = || ActFault::Text(format!("zone {name} is not loaded"));
            let served = state.zone.as_ref().ok_or_else(not_loaded)?;
            answer["serial"] = changes.begin(apex, served)?.0.into();
        }
        TransactionVerb::Set(text) => {
            let (record, warnings) = set_record(text, name).map_err(ActFault::Text)?;
            put_change(&mut answer, &changes.set(apex, &record)?);
            answer["warnings"] = warnings.into();
        }
        TransactionVerb::Unset(text) => {
            let records = unset_records(text, name).map_err(ActFault::Text)?;
            put_change(&mut answer, &changes.unset(apex, &records)?);
        }
        TransactionVerb::Diff => put_change(&mut answer, &changes.difference(apex)?),
        TransactionVerb::Commit => {
            let step = changes.commit(apex)?;
            answer["changed"] = step.is_some().into();
            if let Some(step) = step {
                answer["from"] = step.from.0.into();
                answer["to"] = step.to.0.into();
                answer["removed"] = step.removed.into();
                answer["added"] = step.added.into();
            }
        }
        TransactionVerb::Abort => {
            changes.abort(apex)?;
            answer["aborted"] = true.into();
        }
    }
    Ok(answer)
}

fn put_change(answer: &mut Value, change: &ChangeSet) {
    answer["changes"] = json!(ShownChange(change));
}
