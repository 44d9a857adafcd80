//! Dispatches commands: each goes to the file for its part of the server, and is answered with JSON.

mod explain;
mod log;
mod record_text;
mod recursion;
mod stats;
mod status;
mod transactions;
mod zones;

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::metrics::figures;
use crate::parts::ServerParts;
use crate::protocol::{AnswerLine, ControlCommand, True};
use serving::frontend::Frontend;
use serving::recursive::Recursive;
use transactions::TransactionVerb;
use zone_manager::managed::Apex;
use zone_manager::secondaries::ZoneOrder;
use zone_manager::zones::manager::{ReloadFault, Reloaded, Removal, RoundReport};

/// The answer to commands on recursive service if it is off.
const OFF: &str = "recursive service is off: the configuration has no [resolver]";

/// Starts answering a command; the channel closes after the last line.
pub(super) fn answer(parts: &Arc<ServerParts>, command: ControlCommand, lines: mpsc::Sender<AnswerLine>) {
    let parts = Arc::clone(parts);
    match command {
        ControlCommand::Reload { force } => {
            let removal = if force { Removal::Force } else { Removal::HoldBack };
            drop(tokio::spawn(finish_reload(parts.manager.reload(removal), lines)));
        }
        ControlCommand::ZoneReload { name, force } => match zones::apex(&name) {
            Ok(apex) if force => drop(tokio::spawn(take_file(parts, apex, lines))),
            Ok(apex) => {
                let result = parts.manager.reload_zone(apex.clone(), false);
                drop(tokio::spawn(finish_zone(parts, apex, result, lines)));
            }
            Err(error) => send(&lines, Err(error)),
        },
        ControlCommand::ZoneAccept { name, from } => finish(zones::accept(parts, name, from), lines),
        ControlCommand::ZoneThaw { name } => finish(zones::thaw(parts, name), lines),
        ControlCommand::ZoneAdd { name, template, file, primaries, catalog, group } => {
            let keys = [
                ("template", template),
                ("file", file),
                ("catalog-member", catalog),
                ("catalog-group", group),
            ];
            let text = zones::block(&name, keys, &primaries);
            drop(tokio::spawn(finish_reload(parts.manager.add_zone(text), lines)));
        }
        ControlCommand::ZoneRemove { name } => match zones::apex(&name) {
            Ok(apex) => {
                let result = parts.manager.remove_zone(apex.clone());
                drop(tokio::spawn(finish_zone(parts, apex, result, lines)));
            }
            Err(error) => send(&lines, Err(error)),
        },
        ControlCommand::ZoneDump { name } => {
            tokio::task::spawn_blocking(move || zones::dump(&parts.table, &name, &lines));
        }
        ControlCommand::Stop => send(&lines, Ok(json!("stopping"))),
        ControlCommand::CacheDump => {
            tokio::task::spawn_blocking(move || match &parts.recursive {
                Some(recursive) => recursion::dump(recursive, &lines),
                None => send(&lines, Err(OFF.into())),
            });
        }
        ControlCommand::Explain { name, rtype, dnssec } => {
            tokio::task::spawn_blocking(move || {
                let max_chain = parts.in_force.settings().server.answers.max_chain.0;
                let (engine, recursive) = (&parts.frontend.engine, parts.recursive.as_deref());
                send(&lines, explain::explain(engine, recursive, max_chain, &name, &rtype, dnssec));
            });
        }
        ControlCommand::ZoneBegin { name } => transact(parts, name, lines, TransactionVerb::Begin),
        ControlCommand::ZoneSet { name, record } => {
            transact(parts, name, lines, TransactionVerb::Set(record))
        }
        ControlCommand::ZoneUnset { name, record } => {
            transact(parts, name, lines, TransactionVerb::Unset(record))
        }
        ControlCommand::ZoneDiff { name } => transact(parts, name, lines, TransactionVerb::Diff),
        ControlCommand::ZoneCommit { name } => transact(parts, name, lines, TransactionVerb::Commit),
        ControlCommand::ZoneAbort { name } => transact(parts, name, lines, TransactionVerb::Abort),
        // Listing a million zones takes long, so it runs on a blocking thread: this one handles signals.
        other => {
            tokio::task::spawn_blocking(move || {
                let result = now(&parts, &other);
                send(&lines, result);
            });
        }
    }
}

/// Sends the result of a command when it has ended.
fn finish(
    command: impl Future<Output = Result<Value, String>> + Send + 'static,
    lines: mpsc::Sender<AnswerLine>,
) {
    drop(tokio::spawn(async move {
        let result = command.await;
        let _ = lines.send(last(result)).await;
    }));
}

/// Executes the commands that are answered at once.
fn now(parts: &ServerParts, command: &ControlCommand) -> Result<Value, String> {
    let ServerParts { frontend, table, images, recursive, logging, .. } = parts;
    match command {
        ControlCommand::Status => Ok(status::status(parts)),
        ControlCommand::Stats => {
            let counters = stats::stats(frontend, images.as_deref(), recursive.as_deref(), logging);
            Ok(stats::with_figures(counters, &figures(parts)))
        }
        ControlCommand::ZoneList { failed } => Ok(zones::list(table, *failed)),
        ControlCommand::ZoneStatus { name } => zones::status(parts, name),
        ControlCommand::ZoneRefresh { name } => zones::order(parts, name, ZoneOrder::Refresh),
        ControlCommand::ZoneRetransfer { name } => zones::order(parts, name, ZoneOrder::Retransfer),
        ControlCommand::ZoneFreeze { name } => zones::freeze(parts, name),
        ControlCommand::ZoneWrite { name, to, force } => zones::write(parts, name, to.as_deref(), *force),
        ControlCommand::ZoneNotify { name } => zones::order(parts, name, ZoneOrder::Notify),
        ControlCommand::LogReopen => log::reopen(logging, frontend.dnstap.as_deref()),
        ControlCommand::LogLevel { level } => log::set_level(logging, level),
        ControlCommand::LogQueries { on, share } => log::set_queries(frontend, *on, *share),
        ControlCommand::Reload { .. }
        | ControlCommand::ZoneReload { .. }
        | ControlCommand::ZoneAccept { .. }
        | ControlCommand::ZoneThaw { .. }
        | ControlCommand::ZoneAdd { .. }
        | ControlCommand::ZoneRemove { .. }
        | ControlCommand::ZoneDump { .. }
        | ControlCommand::ZoneBegin { .. }
        | ControlCommand::ZoneSet { .. }
        | ControlCommand::ZoneUnset { .. }
        | ControlCommand::ZoneDiff { .. }
        | ControlCommand::ZoneCommit { .. }
        | ControlCommand::ZoneAbort { .. }
        | ControlCommand::CacheDump
        | ControlCommand::Explain { .. }
        | ControlCommand::HandOver
        | ControlCommand::Stop => Ok(Value::Null),
        other => about_recursion(recursive.as_ref().ok_or(OFF)?, frontend, other),
    }
}

/// Executes a command on recursive service.
fn about_recursion(
    recursive: &Arc<Recursive>,
    frontend: &Frontend,
    command: &ControlCommand,
) -> Result<Value, String> {
    match command {
        ControlCommand::CacheStats => Ok(recursion::cache_stats(recursive, frontend)),
        ControlCommand::CacheFlush { name, tree, rtype } => {
            recursion::flush(recursive, name, *tree, rtype.as_deref())
        }
        ControlCommand::CacheSave { file } => recursion::save(recursive, file.as_deref()),
        ControlCommand::CacheLoad { file } => recursion::load(recursive, file.as_deref()),
        ControlCommand::ForwardList => Ok(recursion::forward_list(recursive)),
        ControlCommand::ForwardAdd { domain, servers, stub } => {
            recursion::forward_add(recursive, &frontend.addresses(), domain, servers, *stub)
        }
        ControlCommand::ForwardRemove { domain } => recursion::forward_remove(recursive, domain),
        ControlCommand::TrustAnchorList => Ok(recursion::trust_anchor_list(recursive)),
        ControlCommand::NtaList => Ok(recursion::anchor_list(recursive)),
        ControlCommand::NtaAdd { domain, time } => recursion::anchor_add(recursive, domain, time),
        ControlCommand::NtaRemove { domain } => recursion::anchor_remove(recursive, domain),
        _ => Ok(Value::Null),
    }
}

/// Executes a command on a transaction.
fn transact(parts: Arc<ServerParts>, name: String, lines: mpsc::Sender<AnswerLine>, verb: TransactionVerb) {
    tokio::task::spawn_blocking(move || {
        let line = match transactions::transact(&parts, &name, &verb) {
            Ok(data) => last(Ok(data)),
            Err((error, data)) => AnswerLine::Fault { ok: false, error, data },
        };
        // The channel is empty, so there is room; the client may have disconnected.
        let _ = lines.try_send(line);
    });
}

/// Sends a one-line answer.
pub(super) fn send(lines: &mpsc::Sender<AnswerLine>, result: Result<Value, String>) {
    // The channel is empty, so there is room; the client may have disconnected.
    let _ = lines.try_send(last(result));
}

/// Returns the last line of an answer.
pub(super) fn last(result: Result<Value, String>) -> AnswerLine {
    match result {
        Ok(data) => AnswerLine::Done { ok: True, data },
        Err(error) => AnswerLine::Fault { ok: false, error, data: None },
    }
}

async fn finish_reload(result: oneshot::Receiver<Reloaded>, lines: mpsc::Sender<AnswerLine>) {
    report_reload(ended(result).await, lines).await;
}

/// Waits for the result of a reload.
async fn ended(result: oneshot::Receiver<Reloaded>) -> Reloaded {
    // The zone manager drops a request without a reply only while the server stops.
    result.await.unwrap_or(Err(ReloadFault::Stopping))
}

/// Reports the result of a request about one zone, which may not exist.
async fn finish_zone(
    parts: Arc<ServerParts>,
    apex: Apex,
    result: oneshot::Receiver<Reloaded>,
    lines: mpsc::Sender<AnswerLine>,
) {
    report_zone(parts, apex, ended(result).await, lines).await;
}

async fn report_zone(parts: Arc<ServerParts>, apex: Apex, result: Reloaded, lines: mpsc::Sender<AnswerLine>) {
    match result {
        Err(ReloadFault::NoSuchZone) => {
            let looked = move || send(&lines, Err(zones::no_such_zone(&parts.table, &apex)));
            drop(tokio::task::spawn_blocking(looked));
        }
        result => report_reload(result, lines).await,
    }
}

/// Reloads a zone from its file although updates have changed the zone.
async fn take_file(parts: Arc<ServerParts>, apex: Apex, lines: mpsc::Sender<AnswerLine>) {
    let result = ended(parts.manager.reload_zone(apex.clone(), true)).await;
    match (result, zones::taken(&parts, &apex).await) {
        (Ok(_), Some(Err(fault))) => drop(lines.send(last(Err(fault))).await),
        (Ok(report), Some(Ok(Some(taken)))) => {
            let mut report = RoundReport::clone(&report);
            report.taken(&apex, taken);
            report_reload(Ok(Arc::new(report)), lines).await;
        }
        (result, _) => report_zone(parts, apex, result, lines).await,
    }
}

async fn report_reload(result: Reloaded, lines: mpsc::Sender<AnswerLine>) {
    let line = match result {
        Ok(report) => {
            let data = json!(*report);
            match report.complaint() {
                Some(error) => AnswerLine::Fault { ok: false, error, data: Some(data) },
                None => last(Ok(data)),
            }
        }
        Err(fault) => last(Err(fault.to_string())),
    };
    let _ = lines.send(line).await;
}
