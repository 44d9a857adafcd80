//! Executes commands: each is executed by the file for its part of the server, and answered with JSON.

mod access;
mod asking;
mod block_lists;
mod database;
mod delegations;
mod discovery;
mod explain;
mod keys;
mod limits;
mod log;
pub mod record_text;
mod recursion;
mod stats;
mod status;
mod transactions;
mod zones;

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use wire::ZoneName;

use crate::fault::CommandFault;
use crate::metrics::figures;
use crate::parts::ServerParts;
use crate::protocol::{AnswerLine, ControlCommand, True};
use asking::QueryClient;
use explain::ExplainedQuery;
use recursion::{NewRule, RecursiveParts};
use transactions::TransactionVerb;
use zone_manager::secondaries::ZoneOrder;
use zone_manager::zones::created::ZoneCreation;
use zone_manager::zones::manager::{ReloadFault, Reloaded, Removal, RoundReport};
use zones::NewZone;

pub use database::recorded_changes;

/// Size of the pieces of a long output, in bytes.
const PIECE_BYTES: usize = 64 * 1024;

/// The author of changes on the control socket.
const OPERATOR: &str = "operator";

/// The result of a command.
pub type CommandResult = Result<Value, CommandFault>;

/// Starts answering a command; the channel closes after the last line.
pub(crate) fn answer(parts: &Arc<ServerParts>, command: ControlCommand, lines: mpsc::Sender<AnswerLine>) {
    let parts = Arc::clone(parts);
    drop(tokio::spawn(async move {
        let last = match execute(&parts, command, &lines).await {
            Ok(data) => AnswerLine::Done { ok: True, data },
            Err(fault) => fault.into(),
        };
        // The client may have disconnected.
        let _ = lines.send(last).await;
    }));
}

/// Executes a command and returns its result as JSON. Sends a long output in pieces, as
/// [`AnswerLine::Text`], before it returns; waits while they are not received, and omits the rest if the
/// channel is closed.
///
/// # Errors
/// [`CommandFault`]; [`CommandFault::data`] has what was done nevertheless.
pub async fn execute(
    parts: &Arc<ServerParts>,
    command: ControlCommand,
    lines: &mpsc::Sender<AnswerLine>,
) -> CommandResult {
    use ControlCommand as Verb;
    match command {
        Verb::Status => blocking(parts, |parts| Ok(status::status(parts))).await,
        Verb::Stats => blocking(parts, |parts| Ok(stats::stats(parts, &figures(parts)))).await,
        Verb::Reload { force } => reload(parts, force).await,
        Verb::ZoneReload { name, force } => reload_zone(parts, zones::apex(&name)?, force).await,
        Verb::ZoneAccept { name, from } => zones::accept(parts, name, from).await,
        Verb::ZoneThaw { name } => zones::thaw(parts, name).await,
        verb @ (Verb::ZoneList { .. }
        | Verb::ZoneStatus { .. }
        | Verb::ZoneFreeze { .. }
        | Verb::ZoneWrite { .. }
        | Verb::DelegationList { .. }
        | Verb::DelegationCheck { .. }) => blocking(parts, move |parts| about_zones(parts, verb)).await,
        verb @ (Verb::ZoneBegin { .. }
        | Verb::ZoneSet { .. }
        | Verb::ZoneUnset { .. }
        | Verb::ZoneDiff { .. }
        | Verb::ZoneCommit { .. }
        | Verb::ZoneAbort { .. }) => about_transaction(parts, verb).await,
        Verb::ZoneRefresh { name } => order(parts, name, ZoneOrder::Refresh).await,
        Verb::ZoneRetransfer { name } => order(parts, name, ZoneOrder::Retransfer).await,
        Verb::ZoneNotify { name } => order(parts, name, ZoneOrder::Notify).await,
        verb @ Verb::ZoneAdd { .. } => added(parts, verb).await,
        Verb::ZoneRemove { name } => remove_zone(parts, zones::apex(&name)?, OPERATOR).await,
        verb @ (Verb::ZoneSign { .. }
        | Verb::KeyList { .. }
        | Verb::KeyTimeline { .. }
        | Verb::KeyRoll { .. }
        | Verb::KeyRetire { .. }
        | Verb::KeyDsPublished { .. }
        | Verb::KeyDsWithdrawn { .. }
        | Verb::KeyPregenerate { .. }
        | Verb::KeyRequest { .. }
        | Verb::KeyImportResponse { .. }
        | Verb::KeyExportDs { .. }) => blocking(parts, move |parts| keys::act(parts, &verb)).await,
        Verb::ZoneDump { name } => dump(parts, name, Pieces::new(lines)).await,
        verb @ Verb::Explain { .. } => explained(parts, verb).await,
        verb @ (Verb::CacheStats
        | Verb::CacheFlush { .. }
        | Verb::CacheDump
        | Verb::CacheSave { .. }
        | Verb::CacheLoad { .. }) => about_cache(parts, verb, Pieces::new(lines)).await,
        verb @ (Verb::ForwardList | Verb::ForwardAdd { .. } | Verb::ForwardRemove { .. }) => {
            about_forwarding(parts, verb).await
        }
        verb @ (Verb::EncryptionList | Verb::TrustAnchorList) => of_resolver(parts, &verb).await,
        verb @ (Verb::NtaList | Verb::NtaAdd { .. } | Verb::NtaRemove { .. }) => nta(parts, verb).await,
        verb @ (Verb::PolicyStatus
        | Verb::PolicyRefresh { .. }
        | Verb::PolicyPause { .. }
        | Verb::PolicyTop { .. }
        | Verb::PolicyTest { .. }) => policy(parts, verb).await,
        verb @ (Verb::LimitsTop { .. }
        | Verb::CookiesRotate
        | Verb::Discovery
        | Verb::LogReopen
        | Verb::LogLevel { .. }
        | Verb::LogQueries { .. }) => blocking(parts, move |parts| frontend(parts, &verb)).await,
        Verb::TokenList => Ok(parts.tokens.list()),
        Verb::Database => database::report(parts).await,
        Verb::HandOver | Verb::Stop => Ok(json!("stopping")),
    }
}

/// Adds a zone.
async fn added(parts: &Arc<ServerParts>, verb: ControlCommand) -> CommandResult {
    let ControlCommand::ZoneAdd { name, template, file, primaries, catalog, group } = verb else {
        return Ok(Value::Null);
    };
    add_zone(parts, &NewZone { name, template, file, primaries, catalog, group }).await
}

/// Lists and changes negative trust anchors.
async fn nta(parts: &Arc<ServerParts>, verb: ControlCommand) -> CommandResult {
    recursive(parts, move |service| negative_anchors(service, &verb)).await
}

/// Sends a long output in pieces; waits while the client reads slowly.
struct Pieces {
    lines: mpsc::Sender<AnswerLine>,
    piece: String,
}

impl Pieces {
    fn new(lines: &mpsc::Sender<AnswerLine>) -> Self {
        Self { lines: lines.clone(), piece: String::new() }
    }

    /// Appends a line, or several without the last line feed. Returns whether the client is still connected.
    fn push(&mut self, text: &str) -> bool {
        self.piece.push_str(text);
        self.piece.push('\n');
        self.piece.len() < PIECE_BYTES || self.send()
    }

    /// Sends what is left.
    fn finish(mut self) {
        if !self.piece.is_empty() {
            self.send();
        }
    }

    fn send(&mut self) -> bool {
        self.lines.blocking_send(AnswerLine::Text { text: std::mem::take(&mut self.piece) }).is_ok()
    }
}

/// Executes a command on a blocking thread: listing a million zones takes long, and the thread of the runtime
/// handles signals.
async fn blocking(
    parts: &Arc<ServerParts>,
    work: impl FnOnce(&ServerParts) -> CommandResult + Send + 'static,
) -> CommandResult {
    let parts = Arc::clone(parts);
    tokio::task::spawn_blocking(move || work(&parts)).await.unwrap_or(Err(CommandFault::Stopping))
}

/// Executes a command on recursive service, which may be off.
async fn recursive(
    parts: &Arc<ServerParts>,
    work: impl FnOnce(RecursiveParts<'_>) -> CommandResult + Send + 'static,
) -> CommandResult {
    let of_service = |parts: &ServerParts| {
        let recursive = parts.recursive.as_deref().ok_or(CommandFault::NotRecursive)?;
        work(RecursiveParts { recursive, frontend: &parts.frontend })
    };
    blocking(parts, of_service).await
}

/// Sends the records of a zone.
async fn dump(parts: &Arc<ServerParts>, name: String, pieces: Pieces) -> CommandResult {
    blocking(parts, move |parts| zones::dump(parts, &name, pieces)).await
}

/// Explains how a query would be answered.
async fn explained(parts: &Arc<ServerParts>, verb: ControlCommand) -> CommandResult {
    let ControlCommand::Explain { name, rtype, dnssec, client, key, details } = verb else {
        return Err(CommandFault::Stopping);
    };
    let client = QueryClient::read(parts, client, key.as_deref(), &details)?;
    let question = ExplainedQuery::read(&name, &rtype, dnssec, client)?;
    blocking(parts, move |parts| explain::explain(parts, &question)).await
}

/// Executes a command on the cache.
async fn about_cache(parts: &Arc<ServerParts>, verb: ControlCommand, pieces: Pieces) -> CommandResult {
    use ControlCommand as Verb;
    match verb {
        Verb::CacheFlush { name, tree, rtype } => {
            recursive(parts, move |service| recursion::flush(service, &name, tree, rtype.as_deref())).await
        }
        Verb::CacheDump => recursive(parts, |service| recursion::dump(service, pieces)).await,
        Verb::CacheSave { file } => recursive(parts, |service| recursion::save(service, file)).await,
        Verb::CacheLoad { file } => recursive(parts, |service| recursion::load(service, file)).await,
        _ => recursive(parts, recursion::cache_stats).await,
    }
}

/// Lists what the resolver has found out: encrypted transports of servers, or trust anchors.
async fn of_resolver(parts: &Arc<ServerParts>, verb: &ControlCommand) -> CommandResult {
    match verb {
        ControlCommand::EncryptionList => recursive(parts, recursion::encryption_list).await,
        _ => recursive(parts, recursion::trust_anchor_list).await,
    }
}

/// Executes a command on forwarding rules.
async fn about_forwarding(parts: &Arc<ServerParts>, verb: ControlCommand) -> CommandResult {
    use ControlCommand as Verb;
    match verb {
        Verb::ForwardAdd { domain, servers, stub } => {
            let rule = NewRule { domain, servers, stub };
            recursive(parts, move |service| recursion::forward_add(service, &rule)).await
        }
        Verb::ForwardRemove { domain } => {
            recursive(parts, move |service| recursion::forward_remove(service, &domain)).await
        }
        _ => recursive(parts, recursion::forward_list).await,
    }
}

/// Executes a command on negative trust anchors.
fn negative_anchors(service: RecursiveParts<'_>, verb: &ControlCommand) -> CommandResult {
    use ControlCommand as Verb;
    match verb {
        Verb::NtaAdd { domain, time } => recursion::anchor_add(service, domain, time),
        Verb::NtaRemove { domain } => recursion::anchor_remove(service, domain),
        _ => recursion::anchor_list(service),
    }
}

/// Executes a command on limits, cookies, listeners or logs.
fn frontend(parts: &ServerParts, verb: &ControlCommand) -> CommandResult {
    use ControlCommand as Verb;
    match verb {
        Verb::LogLevel { level } => log::set_level(parts, level),
        Verb::LogQueries { on, share } => log::set_queries(parts, *on, *share),
        Verb::CookiesRotate => log::rotate_cookies(parts),
        Verb::Discovery => discovery::discovery(parts),
        Verb::LimitsTop { count, hour } => limits::top(parts, *count, *hour),
        _ => log::reopen(parts),
    }
}

/// Executes a command on policy zones, lists and groups.
async fn policy(parts: &Arc<ServerParts>, verb: ControlCommand) -> CommandResult {
    use ControlCommand as Verb;
    match verb {
        Verb::PolicyRefresh { list } => block_lists::refresh(parts, list.as_deref()).await,
        Verb::PolicyPause { group, time } => {
            recursive(parts, move |service| block_lists::pause(service, &group, time.as_deref())).await
        }
        Verb::PolicyTop { by, count, hour } => {
            recursive(parts, move |service| block_lists::top(service, by, count, hour)).await
        }
        Verb::PolicyTest { name, client, key, details, rtype } => {
            let rtype = rtype.unwrap_or_default();
            let client = QueryClient::read(parts, client, key.as_deref(), &details)?;
            recursive(parts, move |service| block_lists::test(service, &name, &client, &rtype)).await
        }
        _ => recursive(parts, block_lists::status).await,
    }
}

/// Executes a command on zones that takes some time.
fn about_zones(parts: &ServerParts, verb: ControlCommand) -> CommandResult {
    use ControlCommand as Verb;
    match verb {
        Verb::ZoneStatus { name } => zones::status(parts, &name),
        Verb::ZoneFreeze { name } => zones::freeze(parts, &name),
        Verb::ZoneWrite { name, to, force } => zones::write(parts, &name, to.as_deref(), force),
        Verb::DelegationList { name } => delegations::list(parts, &name),
        Verb::DelegationCheck { name, child } => delegations::check(parts, &name, &child),
        verb => Ok(zones::list(parts, matches!(verb, Verb::ZoneList { failed: true }))),
    }
}

/// Executes a command on a transaction.
async fn about_transaction(parts: &Arc<ServerParts>, verb: ControlCommand) -> CommandResult {
    use ControlCommand as Verb;
    let (name, verb) = match verb {
        Verb::ZoneBegin { name } => (name, TransactionVerb::Begin),
        Verb::ZoneSet { name, record } => (name, TransactionVerb::Set(record)),
        Verb::ZoneUnset { name, record } => (name, TransactionVerb::Unset(record)),
        Verb::ZoneCommit { name } => (name, TransactionVerb::Commit),
        Verb::ZoneAbort { name } => (name, TransactionVerb::Abort),
        Verb::ZoneDiff { name } => (name, TransactionVerb::Diff),
        _ => return Err(CommandFault::NoTransactions),
    };
    blocking(parts, move |parts| transactions::transact(parts, &name, &verb)).await
}

/// Orders a refresh, a retransfer or a NOTIFY of a zone.
async fn order(parts: &Arc<ServerParts>, name: String, order: ZoneOrder) -> CommandResult {
    blocking(parts, move |parts| zones::order(parts, &name, order)).await
}

/// Reads the configuration and changed zones again.
async fn reload(parts: &ServerParts, force: bool) -> CommandResult {
    let removal = if force { Removal::Force } else { Removal::HoldBack };
    let round = report(ended(parts.manager.reload(removal)).await)?;
    settle_rules(parts).await;
    let recursive = parts.recursive.as_deref();
    match recursive.and_then(block_lists::fault) {
        Some(fault) => Err(fault),
        None => Ok(round),
    }
}

/// Adds a zone.
async fn add_zone(parts: &ServerParts, new: &NewZone) -> CommandResult {
    report(ended(parts.manager.add_zone(new.block())).await)
}

/// Creates a zone, in the database if there is one, and returns what was done as JSON. `author` is for the
/// history of the database.
///
/// # Errors
/// [`CommandFault`].
pub async fn create_zone(parts: &Arc<ServerParts>, zone: ZoneCreation, author: String) -> CommandResult {
    match database::creates(parts, &zone) {
        Some(zones) => database::create(parts, zones, zone, author).await,
        None => report(ended(parts.manager.create_zone(zone)).await),
    }
}

/// Reads one zone again; with `force`, from its file although updates have changed the zone.
async fn reload_zone(parts: &Arc<ServerParts>, apex: ZoneName, force: bool) -> CommandResult {
    if force {
        return take_file(parts, apex).await;
    }
    let result = ended(parts.manager.reload_zone(apex.clone(), false)).await;
    settle_rules(parts).await;
    report_zone(parts, apex, result).await
}

/// Removes a zone that was added, or from the database a zone that it has. `author` is for the history of
/// the database.
///
/// # Errors
/// [`CommandFault`].
pub async fn remove_zone(parts: &Arc<ServerParts>, apex: ZoneName, author: &str) -> CommandResult {
    if let Some((zones, id)) = database::has(parts, &apex) {
        return database::remove(parts, zones, (&apex, id), author.to_owned()).await;
    }
    let result = ended(parts.manager.remove_zone(apex.clone())).await;
    report_zone(parts, apex, result).await
}

/// Reloads a zone from its file although updates have changed the zone.
async fn take_file(parts: &Arc<ServerParts>, apex: ZoneName) -> CommandResult {
    let result = ended(parts.manager.reload_zone(apex.clone(), true)).await;
    match (result, zones::taken(parts, &apex).await) {
        (Ok(_), Some(Err(fault))) => Err(CommandFault::NotTaken(fault)),
        (Ok(round), Some(Ok(Some(taken)))) => {
            let mut round = RoundReport::clone(&round);
            round.taken(&apex, taken);
            report(Ok(Arc::new(round)))
        }
        (result, _) => report_zone(parts, apex, result).await,
    }
}

/// Waits until the rules of response policy zones that a reload has read are in force.
async fn settle_rules(parts: &ServerParts) {
    if let Some(recursive) = parts.recursive.clone() {
        // An error means that the server is stopping.
        let _ = tokio::task::spawn_blocking(move || recursive.settle_rules()).await;
    }
}

/// Waits for the result of a reload.
async fn ended(result: oneshot::Receiver<Reloaded>) -> Reloaded {
    ended_with(result).await
}

/// Waits for a result of the zone manager.
async fn ended_with<T>(result: oneshot::Receiver<Result<T, ReloadFault>>) -> Result<T, ReloadFault> {
    // The zone manager drops a request without a reply only while the server stops.
    result.await.unwrap_or(Err(ReloadFault::Stopping))
}

/// Reports the result of a request about one zone, which may not exist.
async fn report_zone(parts: &Arc<ServerParts>, apex: ZoneName, result: Reloaded) -> CommandResult {
    match result {
        Err(ReloadFault::NoSuchZone) => {
            blocking(parts, move |parts| Err(zones::no_such_zone(&parts.table, &apex))).await
        }
        result => report(result),
    }
}

fn report(result: Reloaded) -> CommandResult {
    match result {
        Ok(round) if round.complaint().is_some() => Err(CommandFault::Incomplete(round)),
        Ok(round) => Ok(json!(*round)),
        Err(fault) => Err(CommandFault::Reload(fault)),
    }
}
