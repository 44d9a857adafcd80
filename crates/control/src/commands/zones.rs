//! `nomen ctl zone`: the state of zones, and their records.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use serde_json::{Value, json};
use transport::unix_now;
use wire::{Serial, UnixTime, ViewName, ZoneName};
use zone_plan::{Origin, ZoneText};

use super::keys::SigningSummary;
use super::{CommandResult, Pieces, ended};
use crate::fault::{ArgumentFault, CommandFault, ThawFault};
use crate::parts::ServerParts;
use crate::protocol::AcceptedVersion;
use config::table::value::quote;
use config::zone_name::zone_name;
use wording::did_you_mean;
use zone::Zone;
use zone::catalog::OnlineDenial;
use zone_manager::changes::{Accepted, Changes, CurrentFile, FileFault, FileState, TakeEnd, TakenFile};
use zone_manager::dump::dump_lines;
use zone_manager::managed::examination::FlawText;
use zone_manager::managed::{FileStamp, ZoneStatus};
use zone_manager::secondaries::ZoneOrder;
use zone_manager::written;
use zone_manager::zones::examiner;
use zone_manager::zones::manager::ZoneTable;
use zone_manager::zones::places;
use zone_manager::zones::text::{self, Meter, ZoneFinding};

/// Returns the apex of the zone that a command names, as `ZONE` or `ZONE@VIEW`.
pub(super) fn apex(text: &str) -> Result<ZoneName, ArgumentFault> {
    let (name, view) = ViewName::split(text).map_err(|fault| ArgumentFault::View(text.to_owned(), fault))?;
    let name = zone_name(name).map_err(ArgumentFault::Name)?;
    Ok(ZoneName::in_view(name.as_name().to_lower().as_lower(), view.as_ref()))
}

/// Returns the state of the zone that a command names. If it does not exist, searches all names for a similar
/// one.
pub(super) fn find(table: &ZoneTable, name: &str) -> Result<Arc<ZoneStatus>, CommandFault> {
    let apex = apex(name)?;
    table.get(&apex).ok_or_else(|| no_such_zone(table, &apex))
}

/// Returns the fault for a zone that does not exist, with the most similar name.
pub(super) fn no_such_zone(table: &ZoneTable, apex: &ZoneName) -> CommandFault {
    let name = apex.to_string();
    let names: Vec<String> = table.all().iter().map(|state| state.spec.apex.to_string()).collect();
    let near = did_you_mean(&name, names.iter().map(String::as_str)).map(str::to_owned);
    CommandFault::NoSuchZone { name, near }
}

/// Returns every zone, or those whose newest file version is not in service.
pub(super) fn list(parts: &ServerParts, only_failed: bool) -> Value {
    let mut states = parts.table.all();
    states.retain(|state| !only_failed || state.word() != "ok");
    states.sort_by(|a, b| (a.spec.name(), a.spec.apex.view()).cmp(&(b.spec.name(), b.spec.apex.view())));
    let rows = states.iter().map(|state| {
        let mut row = json!({
            "name": state.spec.apex.to_string(),
            "state": state.word(),
            "serial": state.zone.as_ref().map(|z| z.serial().0),
            "records": state.zone.as_ref().map(|z| z.record_count()),
            "signed": state.zone.as_ref().map(|_| state.is_signed()),
        });
        if let Some(view) = state.spec.apex.view() {
            row["view"] = view.into();
        }
        row
    });
    Value::Array(rows.collect())
}

/// The state of a zone in short.
struct Standing {
    word: &'static str,
    serial: Option<Serial>,
    /// The fault of its newest version.
    fault: Option<String>,
}

/// Returns the state of a zone. For a copy of the root zone this is the version that the resolver uses, which
/// may differ from the version in the zone table.
fn standing(parts: &ServerParts, state: &ZoneStatus) -> Standing {
    let copy = parts.recursive.as_ref().filter(|_| state.spec.origin == Origin::LocalRoot);
    let copy = copy.and_then(|recursive| recursive.local_root.status());
    let (word, serial) = match &copy {
        Some(copy) if copy.word == "refused" => (copy.word, copy.serial),
        Some(copy) if copy.word == "ok" => (state.word(), copy.serial),
        _ => (state.word(), state.zone.as_ref().map(|zone| zone.serial())),
    };
    let fault = state.fault.as_deref().map(ToString::to_string);
    let fault = fault.or_else(|| copy.filter(|copy| copy.word != "missing")?.fault);
    Standing { word, serial, fault }
}

/// Returns how the answers of a zone deny names and types, if they are signed while answering.
fn online_denial(
    zone: Option<&Arc<Zone>>,
    changes: Option<&Changes>,
    apex: &ZoneName,
) -> Option<&'static str> {
    let status = zone.filter(|zone| zone.is_chainless()).and_then(|_| changes?.signing(apex))?;
    status.online.map(OnlineDenial::word)
}

/// Returns the state of one zone.
pub(super) fn status(parts: &ServerParts, name: &str) -> CommandResult {
    let ServerParts { frontend, table, secondaries, changes, in_force, .. } = parts;
    let changes = changes.as_deref();
    let (engine, state) = (&frontend.engine, find(table, name)?);
    let name = &state.spec.apex;
    let zone = state.zone.as_ref();
    let examined = state.examined.as_deref();
    let first = examined.and_then(|found| found.signatures);
    let catalog = table.catalogs().into_iter().find(|catalog| catalog.zone == name.to_string());
    let per_zone = in_force.settings().counts_per_zone();
    let online = online_denial(zone, changes, name);
    let file = state.spec.text.file();
    let known = changes.zip(file).and_then(|(changes, file)| changes.file_state(&state.spec.apex, file));
    let Standing { word, serial, fault } = standing(parts, &state);
    let push = changes.and_then(|changes| changes.ds_push(name));
    let summary = changes.and_then(|changes| changes.signing(name));
    let summary = summary.map(|of| SigningSummary::of(&of, push.as_ref()));
    let SigningSummary { signing, keys, waits } = summary.unwrap_or_default();
    Ok(json!({
        "name": name.to_string(),
        "view": name.view(),
        "state": word,
        "role": if state.spec.text == ZoneText::Primaries { "secondary" } else { "primary" },
        "file": state.spec.text.to_string(),
        "file_serial": known.and_then(|known| match known {
            FileState::Known(serial) => Some(serial.0),
            FileState::Missing | FileState::Edited => None,
        }),
        "file_edited": known.filter(|known| *known == FileState::Edited).map(|_| true),
        "from": state.spec.origin.to_string(),
        "loaded": state.loaded.map(|at| UnixTime::from(at).as_secs()),
        "serial": serial.map(|serial| serial.0),
        "records": zone.map(|z| z.record_count()),
        "names": zone.map(|z| z.node_count()),
        "memory_bytes": zone.map(|z| z.memory()),
        "negative_ttl": zone.map(|z| z.negative_ttl().as_secs()),
        "signed": zone.map(|_| state.is_signed()),
        "denial": zone.filter(|z| z.is_signed()).map(|z| if z.nsec3().is_some() { "NSEC3" } else { "NSEC" }).or(online),
        "warnings": state.warnings,
        "fault": fault,
        "journal": changes.and_then(|changes| changes.damage(&state.spec.apex)),
        "findings": examined.map(|found| findings(&state, &found.findings)),
        "more_findings": examined.map(|found| found.more).filter(|more| *more > 0),
        "signatures": first.map(|first| first.age(unix_now()).word()),
        "signatures_end": first.map(|first| first.at.as_secs()),
        "signing": signing,
        "signing_keys": keys,
        "signing_waits": waits,
        "catalog": catalog,
        "transfers": secondaries.status(&state.spec.apex),
        "updates": changes.and_then(|changes| changes.status(&state.spec.apex)),
        "transaction": changes.and_then(|changes| changes.transaction(&state.spec.apex)),
        "frozen": changes.map(|changes| changes.is_frozen(&state.spec.apex)).filter(|frozen| *frozen),
        "queries": per_zone.then(|| engine.zone_entry(name).map(|e| e.queries())).flatten(),
    }))
}

/// Largest number of records of a zone whose text is read again to locate findings. Reading that many takes
/// about half a second.
const READ_AGAIN: u64 = 1_000_000;

/// Returns the findings of the version in service, with their places in the zone file if these are found
/// quickly.
fn findings(state: &ZoneStatus, known: &[FlawText]) -> Value {
    let placed: Vec<ZoneFinding> = match &state.zone {
        Some(zone) if !known.is_empty() && zone.record_count() <= READ_AGAIN => {
            places::flaws(&state.spec, zone, examiner::FINDINGS_KEPT)
        }
        _ => {
            let known = known.iter();
            known.map(|flaw| places::without_place(&state.spec, flaw.error, flaw.message.clone())).collect()
        }
    };
    let rows = placed.iter().map(|finding| {
        let mut row = finding.json();
        row["text"] = finding.pretty.clone().into();
        row
    });
    Value::Array(rows.collect())
}

/// A zone to add, with the keys that are given.
pub(super) struct NewZone {
    /// Its name, as `ZONE` or `ZONE@VIEW`.
    pub(super) name: String,
    pub(super) template: Option<String>,
    pub(super) file: Option<String>,
    pub(super) primaries: Vec<String>,
    /// The catalog zone that lists it.
    pub(super) catalog: Option<String>,
    /// Its group in the catalog zone.
    pub(super) group: Option<String>,
}

impl NewZone {
    /// Returns its `[[zone]]` block.
    pub(super) fn block(&self) -> String {
        // The reader of the block reports a view whose name cannot be one.
        let (name, view) = self
            .name
            .rsplit_once('@')
            .filter(|_| ViewName::split(&self.name).map_or(true, |(_, view)| view.is_some()))
            .map_or((&*self.name, None), |(name, view)| (name, Some(view)));
        let mut text = format!("[[zone]]\nname = {}\n", quote(name));
        text += &view.map(|view| format!("view = {}\n", quote(view))).unwrap_or_default();
        let keys = [
            ("template", &self.template),
            ("file", &self.file),
            ("catalog-member", &self.catalog),
            ("catalog-group", &self.group),
        ];
        for (key, value) in keys {
            text += &value.as_ref().map(|value| format!("{key} = {}\n", quote(value))).unwrap_or_default();
        }
        if !self.primaries.is_empty() {
            let all: Vec<String> = self.primaries.iter().map(|peer| quote(peer)).collect();
            text += &format!("primaries = [{}]\n", all.join(", "));
        }
        text
    }
}

/// Orders a refresh, a retransfer or a NOTIFY of a zone.
pub(super) fn order(parts: &ServerParts, name: &str, order: ZoneOrder) -> CommandResult {
    let state = find(&parts.table, name)?;
    let apex = &state.spec.apex;
    let is_read_again = order != ZoneOrder::Notify
        && parts
            .changes
            .as_ref()
            .is_some_and(|changes| changes.read_again(apex, order == ZoneOrder::Retransfer));
    if !is_read_again {
        parts.secondaries.order(apex, order).map_err(CommandFault::Order)?;
    }
    let ordered = match order {
        ZoneOrder::Refresh => "refresh",
        ZoneOrder::Retransfer => "retransfer",
        ZoneOrder::Notify => "notify",
    };
    Ok(json!({"zone": state.spec.apex.to_string(), "ordered": ordered}))
}

/// Returns the update service, if the zone accepts updates.
fn changes_of<'p>(parts: &'p ServerParts, state: &ZoneStatus) -> Result<&'p Changes, CommandFault> {
    let changes = parts.changes.as_deref().filter(|changes| changes.changes_here(&state.spec.apex));
    changes.ok_or(CommandFault::NoUpdates)
}

/// Stops accepting updates for a zone, and writes its current version to its file.
pub(super) fn freeze(parts: &ServerParts, name: &str) -> CommandResult {
    let state = find(&parts.table, name)?;
    let file = changes_of(parts, &state)?.freeze(&state.spec.apex).map_err(CommandFault::NotFrozen)?;
    let mut answer = json!({"zone": state.spec.apex.to_string(), "frozen": true, "was": file.is_none()});
    if let Some(file) = file {
        put_file(&mut answer, &file);
    }
    Ok(answer)
}

fn put_file(answer: &mut Value, file: &CurrentFile) {
    answer["file"] = file.path.display().to_string().into();
    answer["serial"] = file.serial.0.into();
    answer["records"] = file.records.into();
    answer["written"] = file.written.into();
}

/// Loads a zone from its file, and accepts updates again.
pub(super) async fn thaw(parts: &Arc<ServerParts>, name: String) -> CommandResult {
    let table = Arc::clone(&parts.table);
    let found = tokio::task::spawn_blocking(move || find(&table, &name)).await;
    let state = found.map_err(|_| CommandFault::Stopping)??;
    let apex = &state.spec.apex;
    let mut answer = json!({"zone": state.spec.apex.to_string(), "frozen": false, "was": false});
    if !changes_of(parts, &state)?.is_frozen(apex) {
        return Ok(answer);
    }
    let stays = CommandFault::StaysFrozen;
    let held = on_changes(parts, apex, |changes, apex| changes.hold(apex)).await.unwrap_or(false);
    if !held && state.zone.is_some() {
        return Err(stays(ThawFault::NotHeld));
    }
    let reloaded = ended(parts.manager.reload_zone(apex.clone(), true)).await;
    let taken = taken(parts, apex).await;
    reloaded.map_err(|fault| stays(ThawFault::Reload(fault)))?;
    let taken = taken.transpose().map_err(|fault| stays(ThawFault::NotTaken(fault)))?.flatten();
    if let Some(TakenFile { step, dropped, more_dropped }) = taken {
        answer["dropped"] = dropped.into();
        answer["more_dropped"] = Some(more_dropped).filter(|more| *more > 0).into();
        answer["from"] = step.from.0.into();
        answer["to"] = step.to.0.into();
        answer["removed"] = step.removed.into();
        answer["added"] = step.added.into();
    }
    changes_of(parts, &state)?.thaw(apex).map_err(|fault| stays(ThawFault::File(fault)))?;
    answer["was"] = true.into();
    Ok(answer)
}

/// Accepts an older version of a zone whose journal is damaged, and puts it into service.
pub(super) async fn accept(parts: &Arc<ServerParts>, name: String, from: AcceptedVersion) -> CommandResult {
    let theirs = Arc::clone(parts);
    let accepted = tokio::task::spawn_blocking(move || {
        let state = find(&theirs.table, &name)?;
        accept_now(&theirs, &state, from).map(|accepted| (state, accepted))
    });
    let (state, accepted) = accepted.await.map_err(|_| CommandFault::Stopping)??;
    let reloaded = ended(parts.manager.reload_zone(state.spec.apex.clone(), false)).await;
    reloaded.map_err(CommandFault::Reload)?;
    // The client's working folder may differ from this process's.
    let aside =
        accepted.aside.as_ref().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()));
    Ok(json!({
        "zone": state.spec.apex.to_string(),
        "accepted": from,
        "accepted_serial": accepted.of.0,
        "acknowledged_serial": accepted.acknowledged.map(|serial| serial.0),
        "serial": accepted.serial.0,
        "records": accepted.records,
        "old_journal": aside.map(|path| path.display().to_string()),
    }))
}

fn accept_now(
    parts: &ServerParts,
    state: &ZoneStatus,
    from: AcceptedVersion,
) -> Result<Accepted, CommandFault> {
    let (apex, key) = (&state.spec.apex, parts.frontend.engine.key());
    let changes = parts.changes.as_deref().filter(|changes| changes.damage(apex).is_some());
    let changes = changes.ok_or(CommandFault::NotDamaged)?;
    let accepted = match from {
        AcceptedVersion::Journal => changes.accept_journal(apex, &key),
        AcceptedVersion::File => {
            let path = state.spec.text.file().ok_or(CommandFault::File(FileFault::NoFile))?;
            let stamp = FileStamp::of(path);
            let zone = text::build(&state.spec, &key, None, &Meter::default(), &AtomicU64::new(0))
                .map(|built| built.zone);
            let zone = zone.map_err(|fault| CommandFault::UnreadableFile(Box::new(fault)))?;
            if let Some(fault) = state.spec.objection(&zone) {
                return Err(CommandFault::UnfitFile(fault));
            }
            changes.accept_file(apex, zone, &stamp)
        }
    };
    accepted.map_err(CommandFault::NotAccepted)
}

/// Returns the result of loading a zone from its file; `None` if it was not loaded.
pub(super) async fn taken(parts: &Arc<ServerParts>, apex: &ZoneName) -> Option<TakeEnd> {
    on_changes(parts, apex, |changes, apex| changes.taken(apex)).await.flatten()
}

/// Calls the update service on a blocking thread, since it waits for its thread; `None` if there is none.
async fn on_changes<T: Send + 'static>(
    parts: &Arc<ServerParts>,
    apex: &ZoneName,
    ask: impl FnOnce(&Changes, &ZoneName) -> T + Send + 'static,
) -> Option<T> {
    let (changes, apex) = (parts.changes.clone()?, apex.clone());
    tokio::task::spawn_blocking(move || ask(&changes, &apex)).await.ok()
}

/// Writes a zone to its own file or to another file.
pub(super) fn write(parts: &ServerParts, name: &str, to: Option<&str>, force: bool) -> CommandResult {
    let state = find(&parts.table, name)?;
    let own = state.spec.text.file().filter(|_| matches!(state.spec.text, ZoneText::File(_)));
    let real = |path: &Path| path.canonicalize().ok();
    let to = to.map(Path::new).filter(|to| own.and_then(real).is_none_or(|own| real(to) != Some(own)));
    let file = match (to, parts.changes.as_deref()) {
        (None, Some(changes)) => changes.write_file(&state.spec.apex, force).map_err(CommandFault::File)?,
        (to, _) => {
            let zone = state.zone.as_deref().ok_or_else(|| CommandFault::NotLoaded(name.to_owned()))?;
            if let Some(to) = to {
                written::write(zone, to, force, |_| true).map_err(CommandFault::Write)?;
            }
            CurrentFile {
                path: to.or(own).ok_or(CommandFault::File(FileFault::NoFile))?.to_owned(),
                serial: zone.serial(),
                records: zone.record_count(),
                written: to.is_some(),
            }
        }
    };
    let mut answer = json!({"zone": state.spec.apex.to_string()});
    put_file(&mut answer, &file);
    Ok(answer)
}

/// Sends a zone's records in pieces; stops if the client has disconnected.
pub(super) fn dump(parts: &ServerParts, name: &str, mut pieces: Pieces) -> CommandResult {
    let state = find(&parts.table, name)?;
    let zone = state.zone.as_ref().ok_or_else(|| CommandFault::NotLoaded(name.to_owned()))?;
    dump_lines(zone, &mut |line| pieces.push(line));
    pieces.finish();
    Ok(json!({"zone": state.spec.apex.to_string(), "records": zone.record_count()}))
}
