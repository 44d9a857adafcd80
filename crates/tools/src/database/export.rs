//! `nomen database export`: the zones of a database as zone files, in a folder that [template.X] can serve.

use std::collections::HashSet;
use std::fs;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use ::database::{ListedZone, SectionSet};
use config::exit_status::{EXIT_FAULTS, EXIT_OK, EXIT_OUTSIDE, EXIT_USAGE};
use config::zone_name::zone_name;
use config::zones::pattern::PathPattern;
use serde_json::json;
use wire::{ViewName, ZoneName};
use wording::{did_you_mean, reason};
use zone::Zone;
use zone_manager::dump::dump_lines;

use super::Failure;
use super::args::DatabaseExportArgs;
use super::progress::ZoneProgress;
use super::sections;
use super::target::{OpenDatabase, open};

/// The file with the sections of the configuration.
const SECTIONS: &str = "sections.toml";

/// How an export went.
#[derive(Default)]
struct Export {
    written: u64,
    failed: u64,
    code: u8,
    rows: Vec<serde_json::Value>,
}

/// Runs the verb.
pub(super) fn export(args: &DatabaseExportArgs) -> Result<u8, Failure> {
    let mut database = open(&args.target, args.schema)?;
    let zones = chosen(database.zones()?, &args.zone)?;
    fs::create_dir_all(&args.folder).map_err(|fault| {
        (format!("nomen: cannot make {}: {}", args.folder.display(), reason(&fault)), EXIT_OUTSIDE)
    })?;
    let mut progress = ZoneProgress::new("exporting", zones.len());
    let mut export = Export { code: EXIT_OK, ..Export::default() };
    let read = database.contents(&zones, &mut |apex, zone| {
        let end = match zone {
            Ok(zone) => write_zone(args, apex, &zone),
            Err(why) => Err((why, EXIT_FAULTS)),
        };
        export.count(apex, end, &progress);
        progress.step();
    });
    drop(progress);
    read?;
    if let (OpenDatabase::Own(admin), true) = (&database, args.zone.is_empty()) {
        write_sections(args, &admin.sections().map_err(|fault| (format!("nomen: {fault}"), EXIT_OUTSIDE))?)?;
    }
    if args.json {
        let report = json!({ "database": database.host(), "zones": export.rows });
        say!("{report:#}");
    } else {
        let Export { written, failed, .. } = &export;
        say!(
            "{}: zones written to {}: {written}, not written: {failed}",
            database.host(),
            args.folder.display()
        );
    }
    Ok(export.code)
}

/// Writes the sections of the configuration, if there are any. They have secrets.
fn write_sections(args: &DatabaseExportArgs, set: &SectionSet) -> Result<(), Failure> {
    if set.sections.is_empty() {
        return Ok(());
    }
    let path = args.folder.join(SECTIONS);
    if !args.replace && path.exists() {
        return Err((format!("nomen: {} exists: --replace replaces it", path.display()), EXIT_FAULTS));
    }
    let text = sections::text_of(&set.sections.iter().collect::<Vec<_>>());
    zone::regular::replace(&path, text.as_bytes()).map_err(|fault| {
        (format!("nomen: cannot write {}: {}", path.display(), reason(&fault)), EXIT_OUTSIDE)
    })
}

/// The zones with these names; without names all.
fn chosen(zones: Vec<ListedZone>, names: &[String]) -> Result<Vec<ListedZone>, Failure> {
    if names.is_empty() {
        return Ok(zones);
    }
    let mut wanted = HashSet::new();
    for name in names {
        let usage = |fault: &dyn std::fmt::Display| (format!("nomen: {fault}"), EXIT_USAGE);
        let (name, view) = ViewName::split(name).map_err(|fault| usage(&fault))?;
        let name = zone_name(name).map_err(|fault| usage(&fault))?;
        let name = ZoneName::in_view(name.as_name().to_lower().as_lower(), view.as_ref());
        if !zones.iter().any(|zone| zone.apex == name) {
            let known: Vec<String> = zones.iter().map(|zone| zone.apex.to_string()).collect();
            let near = did_you_mean(&name.to_string(), known.iter().map(String::as_str));
            let near = near.map_or_else(String::new, |near| format!("; did you mean \"{near}\"?"));
            return Err((format!("nomen: the database has no zone {name}{near}"), EXIT_FAULTS));
        }
        wanted.insert(name);
    }
    Ok(zones.into_iter().filter(|zone| wanted.contains(&zone.apex)).collect())
}

impl Export {
    fn count(&mut self, apex: &ZoneName, end: Result<PathBuf, Failure>, progress: &ZoneProgress) {
        match end {
            Ok(path) => {
                self.written += 1;
                self.rows.push(json!({ "zone": apex.to_string(), "file": path.display().to_string() }));
            }
            Err((why, code)) => {
                self.failed += 1;
                self.code = self.code.max(code);
                progress.report(&format!("error: zone {apex}: {why}"));
                self.rows.push(json!({ "zone": apex.to_string(), "why": why }));
            }
        }
    }
}

/// Writes a zone to its file, which is complete or not there. Zones of a view have a folder of its name.
fn write_zone(args: &DatabaseExportArgs, apex: &ZoneName, zone: &Zone) -> Result<PathBuf, Failure> {
    let folder = apex.view().map_or_else(|| args.folder.clone(), |view| args.folder.join(view));
    let pattern =
        PathPattern::parse("{zone}.zone", &folder).map_err(|fault| (fault.to_string(), EXIT_OUTSIDE))?;
    let path = pattern.path(apex.as_name());
    if !args.replace && path.exists() {
        return Err((format!("{} exists: --replace replaces it", path.display()), EXIT_FAULTS));
    }
    let fault =
        |fault: io::Error| (format!("cannot write {}: {}", path.display(), reason(&fault)), EXIT_OUTSIDE);
    fs::create_dir_all(&folder).map_err(fault)?;
    let beside = path.with_extension("zone.new");
    let written = write_text(&beside, zone).and_then(|()| fs::rename(&beside, &path));
    written.map_err(|error| {
        let _ = fs::remove_file(&beside);
        fault(error)
    })?;
    Ok(path)
}

fn write_text(path: &Path, zone: &Zone) -> io::Result<()> {
    let mut out = BufWriter::new(fs::File::create(path)?);
    let mut done = Ok(());
    dump_lines(zone, &mut |line| {
        done = writeln!(out, "{line}");
        done.is_ok()
    });
    done?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}
