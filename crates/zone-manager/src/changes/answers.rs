//! Results of jobs that may change a zone: the response, and the lines in the log and the audit file.

use std::sync::atomic::Ordering::Relaxed;

use query_path::Refusal;
use tracing::{debug, info};
use transport::wake_together;
use wire::{Rcode, Serial, ZoneName};

use super::edits::{AuditedAuthor, EditEnd, EditFault, EditOrder, SendEnd, ZoneEdit};
use super::group::{Decided, KeepFault, TakenStep};
use super::signing::SignEnd;
use super::transactions::{CommitEnd, TransactionFault};
use super::{Job, NOT_KEPT, Reply, SendAnswer, Shared, refusal};
use telemetry::repeated::log_repeated;
use telemetry::trail::audit;

/// A finished job and its response.
pub(super) enum Settled {
    Update(SendAnswer, Result<(), Refusal>),
    Commit(Reply<CommitEnd>, CommitEnd),
    Edit(SendEnd, EditEnd),
    Sign(Reply<SignEnd>, SignEnd),
}

/// Sends responses. Those that are ready together are sent together.
pub(super) fn send_answers(settled: Vec<Settled>) {
    let each = |settled| match settled {
        Settled::Update(answer, result) => answer(result),
        // The requester may have timed out.
        Settled::Commit(reply, end) => drop(reply.try_send(end)),
        Settled::Edit(reply, end) => reply(end),
        Settled::Sign(reply, end) => drop(reply.try_send(end)),
    };
    wake_together(|| settled.into_iter().for_each(each));
}

/// The result of a request, for the audit line.
pub(super) enum Outcome {
    /// The zone already was as the request wants it.
    Unchanged,
    /// The zone changed.
    Changed { from: Serial, to: Serial, removed: usize, added: usize },
    /// Nothing changed, for this reason.
    Refused(Refusal, String),
}

impl Outcome {
    /// Returns the result of a decided job; `None`: its change is not stored.
    pub(super) fn of(decided: Option<Decided>) -> Self {
        match decided {
            Some(Decided::Update(Ok(None))) => Self::Unchanged,
            Some(Decided::Update(Ok(Some(change)))) => Self::Changed {
                from: change.before,
                to: change.after,
                removed: change.removed.len(),
                added: change.added.len(),
            },
            Some(Decided::Update(Err(fault))) => Self::Refused(refusal(&fault), fault.to_string()),
            Some(Decided::Commit(_) | Decided::Edit(_) | Decided::File(_) | Decided::Sign(_)) | None => {
                Self::Refused(NOT_KEPT, "it cannot be kept".into())
            }
        }
    }
}

/// Returns the result of a transaction. `None`: its change is not stored, for this fault.
pub(super) fn commit_end(apex: &ZoneName, decided: Option<Decided>, fault: &str) -> CommitEnd {
    let Some(Decided::Commit(decided)) = decided else { return Err(not_kept(fault)) };
    let Some((change, records)) = decided? else { return Ok(None) };
    let step = TakenStep::of(&change, records);
    let (zone, TakenStep { from, to, removed, added, .. }) = (apex, step);
    info!(removed, added, "zone {zone}: a transaction is committed, serial {from} -> {to}");
    audit!(%zone, removed, added, serial_before = %from, serial = %to, "transaction committed");
    Ok(Some(step))
}

/// Returns the fault of an edit that is refused like an update.
pub(super) fn edit_fault(refusal: Refusal, reason: &str) -> EditFault {
    match refusal {
        Refusal::PROHIBITED => EditFault::Frozen,
        Refusal::NOT_LOADED => EditFault::NotInService,
        _ => EditFault::NotKept(reason.to_owned()),
    }
}

/// Logs and counts the end of an edit, and returns its reply. `decided` is `None` if its change is not
/// stored, for this fault; `serial` is the zone's serial number before the edit.
pub(super) fn edited(
    shared: &Shared,
    apex: &ZoneName,
    order: EditOrder,
    decided: Option<Decided>,
    fault: Option<&KeepFault>,
    serial: Serial,
) -> Settled {
    let end = match decided {
        Some(Decided::Edit(decided)) => decided,
        _ => Err(match fault {
            Some(KeepFault::Database(why)) => EditFault::Database(why.clone()),
            Some(fault) => EditFault::NotKept(format!("the change cannot be kept: {fault}")),
            None => EditFault::NotKept("the change cannot be kept".into()),
        }),
    };
    let (change, records) = match end {
        Ok(Some(changed)) => changed,
        Ok(None) => {
            shared.counts.edits_unchanged.fetch_add(1, Relaxed);
            let (zone, by) = (apex, &order.edit.by);
            debug!(%zone, %by, "edit changes nothing");
            return Settled::Edit(order.reply, Ok(None));
        }
        Err(fault) => return edit_refused(shared, apex, order, fault, Some(serial)),
    };
    shared.counts.edits_made.fetch_add(1, Relaxed);
    let TakenStep { from, to, removed, added, .. } = TakenStep::of(&change, records);
    let (zone, by) = (apex, &order.edit.by);
    log_repeated!(
        info,
        INFO,
        ("zone edited", &format!("{zone} {by}")),
        "zone {zone}: edited by {by}, removed={removed} added={added} serial {from} -> {to}"
    );
    let AuditedAuthor { token, client, by, child, why } = by.audited();
    audit!(%zone, client, token, by, child, why, removed, added, serial_before = %from, serial = %to, "zone edited");
    Settled::Edit(order.reply, Ok(Some(change)))
}

/// Logs and counts a refused edit, and returns its reply.
pub(super) fn edit_refused(
    shared: &Shared,
    apex: &ZoneName,
    order: EditOrder,
    fault: EditFault,
    serial: Option<Serial>,
) -> Settled {
    note_refused(shared, apex, &order.edit, &fault, serial);
    Settled::Edit(order.reply, Err(fault))
}

/// Logs and counts a refused edit.
pub(super) fn note_refused(
    shared: &Shared,
    apex: &ZoneName,
    edit: &ZoneEdit,
    fault: &EditFault,
    serial: Option<Serial>,
) {
    shared.counts.edits_refused.fetch_add(1, Relaxed);
    let (zone, by, edits) = (apex, &edit.by, edit.edits.len());
    let reason = fault.to_string();
    log_repeated!(
        info,
        INFO,
        ("edit refused", &format!("{zone} {by}")),
        "zone {zone}: edit refused, by {by}, reason={reason:?} edits={edits}"
    );
    let AuditedAuthor { token, client, by, child, why } = by.audited();
    let serial = serial.map(|serial| serial.0);
    audit!(%zone, client, token, by, child, why, %reason, edits, serial, "edit refused");
}

pub(super) fn not_kept(fault: &str) -> TransactionFault {
    TransactionFault::NotKept(format!("the change cannot be kept: {fault}"))
}

/// Counts and logs a response: one line per client, key and zone, and then their number. `serial` is the
/// zone's serial number before the request.
pub(super) fn answer(shared: &Shared, job: Job, outcome: &Outcome, serial: Option<Serial>) -> Settled {
    let (zone, client) = (&job.apex, job.client);
    let key = job.key.as_ref().map_or_else(|| "none".into(), |key| key.to_string());
    let certificate = job.certificate.as_ref().map(ToString::to_string);
    let cert = certificate.as_deref();
    let object = format!("{zone} {client} {key}");
    let key_and_certificate = match cert {
        Some(cert) => format!("{key} cert={cert:?}"),
        None => key.clone(),
    };
    let result = match outcome {
        Outcome::Refused(refusal, _) => Err(*refusal),
        Outcome::Unchanged | Outcome::Changed { .. } => Ok(()),
    };
    shared.counts.answered(result.err().map_or(Rcode::NOERROR, |refusal| refusal.rcode));
    let (prerequisites, updates) = (job.request.prerequisites().len(), job.request.updates().len());
    let serial = serial.map(|serial| serial.0);
    match outcome {
        Outcome::Changed { from, to, removed, added } => log_repeated!(
            info,
            INFO,
            ("update accepted", &object),
            "zone {zone}: update accepted client={client} key={key_and_certificate} removed={removed} added={added} serial \
             {from} -> {to}"
        ),
        Outcome::Refused(refusal, why) => log_repeated!(
            info,
            INFO,
            ("update refused", &object),
            "zone {zone}: update refused client={client} key={key_and_certificate} rcode={} reason={why:?} \
             prerequisites={prerequisites} updates={updates} serial={}",
            refusal.rcode,
            serial.map_or("none".into(), |serial| serial.to_string())
        ),
        Outcome::Unchanged => debug!(%zone, %client, key, cert, "update changes nothing"),
    }
    match outcome {
        Outcome::Changed { from, to, removed, added } => {
            audit!(
                %zone, %client, key, cert, removed, added, serial_before = %from, serial = %to, "update accepted"
            );
        }
        Outcome::Refused(refusal, reason) => {
            let rcode = refusal.rcode;
            audit!(%zone, %client, key, cert, %rcode, %reason, prerequisites, updates, serial, "update refused");
        }
        Outcome::Unchanged => {
            audit!(%zone, %client, key, cert, prerequisites, updates, serial, "update changes nothing");
        }
    }
    Settled::Update(job.answer, result)
}
