//! `nomen database import`: zones into a database, one transaction each.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use ::database::{DatabaseAdmin, DatabaseFault, ListedZone, NewZone, ZoneKeySet};
use config::exit_status::{EXIT_FAULTS, EXIT_OK, EXIT_OUTSIDE};
use serde_json::json;
use wire::ZoneName;
use wire::hash::HashKey;
use zone::Zone;
use zone::store::diff;

use super::Failure;
use super::args::DatabaseImportArgs;
use super::keys;
use super::progress::ZoneProgress;
use super::sources::{self, ReadZone};
use super::target::open_own;

/// What the history names as the author.
const AUTHOR: &str = "nomen database import";

/// Most refused zones that are shown.
const MOST_SHOWN: usize = 1000;

/// What becomes of a zone.
#[derive(Debug, PartialEq, Eq)]
enum ImportEnd {
    /// The database did not have it.
    New,
    /// The database had another version.
    Replaced,
    /// The database has this version.
    Same,
    /// It is not imported, with the reason.
    Refused(String),
}

impl ImportEnd {
    fn word(&self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Replaced => "replaced",
            Self::Same => "same",
            Self::Refused(_) => "refused",
        }
    }
}

/// An import in progress.
struct Import<'a> {
    args: &'a DatabaseImportArgs,
    admin: DatabaseAdmin,
    present: HashMap<ZoneName, ListedZone>,
    progress: ZoneProgress,
    rows: Vec<serde_json::Value>,
    counts: HashMap<&'static str, u64>,
    /// Refused zones so far.
    shown: usize,
}

/// Runs the verb.
pub(super) fn import(args: &DatabaseImportArgs) -> Result<u8, Failure> {
    let begun = Instant::now();
    let source = sources::source(args, &mut |note| eprintln!("{note}"))?;
    let admin = open_own(&args.target)?;
    let differences = admin.compare_schema().map_err(outside)?.differences;
    if let Some(first) = differences.first() {
        let message = format!("nomen: {}: {first}: `nomen database check` has all faults", admin.host());
        return Err((message, EXIT_FAULTS));
    }
    let listed = admin.is_usable().and_then(|()| admin.zones()).map_err(outside)?;
    let present = listed.into_iter().map(|zone| (zone.apex.clone(), zone)).collect();
    let progress = ZoneProgress::new("importing", source.len());
    let mut import =
        Import { args, admin, present, progress, rows: Vec::new(), counts: HashMap::new(), shown: 0 };
    source.read(&HashKey::random(), &mut |zone| import.take(zone))?;
    Ok(import.end(begun))
}

fn outside(fault: impl std::fmt::Display) -> Failure {
    (format!("nomen: {fault}"), EXIT_OUTSIDE)
}

impl Import<'_> {
    /// Imports one zone.
    fn take(&mut self, (apex, zone): ReadZone) -> Result<(), Failure> {
        let records = zone.as_ref().map_or(0, |zone| zone.record_count());
        let serial = zone.as_ref().ok().map(|zone| zone.serial().0);
        let end = match zone {
            Ok(zone) => self.put(&apex, zone)?,
            Err(why) => ImportEnd::Refused(why),
        };
        *self.counts.entry(end.word()).or_default() += 1;
        self.progress.step();
        if let ImportEnd::Refused(why) = &end {
            if self.shown < MOST_SHOWN {
                self.progress.report(&format!("error: zone {apex}: {why}"));
            }
            self.shown += 1;
        } else if self.args.dry_run && !self.args.json {
            let serial = serial.unwrap_or_default();
            say!("zone {apex}: {}, serial {serial}, {records} records", end.word());
        }
        if self.args.json {
            let why = if let ImportEnd::Refused(why) = &end { Some(why) } else { None };
            let name = apex.to_string();
            self.rows.push(json!({ "zone": name, "outcome": end.word(), "serial": serial, "records": records, "why": why }));
        }
        Ok(())
    }

    /// Puts a zone into the database, unless it has it.
    fn put(&mut self, apex: &ZoneName, zone: Arc<Zone>) -> Result<ImportEnd, Failure> {
        let new = NewZone {
            apex: apex.clone(),
            template: self.args.template.clone(),
            content: zone,
            author: AUTHOR.into(),
        };
        let folder = self.args.keys.as_deref();
        let keys = folder.map(|folder| keys::read(folder, apex, new.content.serial())).transpose();
        let keys = match keys {
            Ok(keys) => keys.flatten(),
            Err(why) => return Ok(ImportEnd::Refused(why)),
        };
        let Some(present) = self.present.get(apex).cloned() else { return self.create(&new, keys) };
        if keys.is_some() {
            let why = "the database has it already, and keys come with new zones only";
            return Ok(ImportEnd::Refused(why.into()));
        }
        if !self.args.replace {
            return Ok(ImportEnd::Refused("the database has it already: --replace replaces it".into()));
        }
        let stored = self.admin.zone(present.id, apex).map_err(outside)?;
        let Some(stored) = stored else { return Ok(ImportEnd::Refused(DatabaseFault::Gone.to_string())) };
        let is_other_template = new.template.is_some() && new.template != present.template;
        // Records that are no zone are replaced by any version.
        let is_same = match &stored {
            Err(_) => false,
            Ok(stored) => diff(stored, &new.content).is_empty(),
        };
        if is_same && !is_other_template {
            return Ok(ImportEnd::Same);
        }
        let (before, after) = (present.serial, new.content.serial());
        // Nodes and secondaries never go back to an older version.
        if stored.is_ok() && !is_same && before.compare(after) != Some(Ordering::Less) {
            return Ok(ImportEnd::Refused(format!(
                "its serial {after} is not newer than {before}, which the database has: raise it"
            )));
        }
        // Its nodes would serve the records without signatures until one of them has signed them.
        if !is_same && self.admin.is_signed_by_nodes(present.id).map_err(outside)? {
            let why = "the nodes sign it (`dnssec-policy`), and without signatures validators would reject it: \
                change it on a node, by updates, the API or `nomen ctl zone begin`";
            return Ok(ImportEnd::Refused(why.into()));
        }
        if self.args.dry_run {
            return Ok(ImportEnd::Replaced);
        }
        let mut done = Ok(());
        if is_other_template {
            done = self.admin.set_template(present.id, new.template.as_deref(), AUTHOR);
        }
        if !is_same {
            let replaced = || self.admin.replace(present.id, Some(before), &new.content, AUTHOR);
            done = done.and_then(|()| replaced());
        }
        ended(done, ImportEnd::Replaced)
    }

    /// Creates a zone, with its keys if there are some.
    fn create(&self, new: &NewZone, keys: Option<ZoneKeySet>) -> Result<ImportEnd, Failure> {
        if let Some(keys) = &keys {
            self.progress.report(&format!("zone {}: with {} keys", new.apex, keys.keys.len()));
        }
        if self.args.dry_run {
            return Ok(ImportEnd::New);
        }
        let made = match &keys {
            Some(keys) => self.admin.create_with_keys(new, keys),
            None => self.admin.create(std::slice::from_ref(new)).map(|made| made.first().copied().flatten()),
        };
        let made = made.and_then(|made| made.map(|_| ()).ok_or(DatabaseFault::Exists));
        ended(made, ImportEnd::New)
    }

    /// Prints the summary; returns the exit code.
    fn end(self, begun: Instant) -> u8 {
        let Import { args, admin, progress, rows, counts, shown, .. } = self;
        drop(progress);
        if shown > MOST_SHOWN {
            eprintln!("{} more refused zones are not shown: --json has all", shown - MOST_SHOWN);
        }
        let count = |word| counts.get(word).copied().unwrap_or(0);
        let [new, replaced, same, refused] = ["new", "replaced", "same", "refused"].map(count);
        if args.json {
            let report = json!({ "database": admin.host(), "dry_run": args.dry_run, "zones": rows });
            say!("{report:#}");
        } else {
            let dry = if args.dry_run { "nothing is changed; " } else { "" };
            say!(
                "{}: {dry}zones: {new} new, {replaced} replaced, {same} the same already, {refused} refused, {:.2} s",
                admin.host(),
                begun.elapsed().as_secs_f64()
            );
        }
        if refused > 0 { EXIT_FAULTS } else { EXIT_OK }
    }
}

/// The end of a zone that the database has answered for. A database that cannot be reached ends the import.
fn ended(done: Result<(), DatabaseFault>, end: ImportEnd) -> Result<ImportEnd, Failure> {
    match done {
        Ok(()) => Ok(end),
        Err(fault @ (DatabaseFault::Exists | DatabaseFault::Gone | DatabaseFault::Refused(_))) => {
            Ok(ImportEnd::Refused(fault.to_string()))
        }
        Err(fault @ (DatabaseFault::Unavailable(_) | DatabaseFault::Unclear(_))) => Err(outside(fault)),
    }
}
