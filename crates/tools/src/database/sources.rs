//! Where `nomen database import` takes zones from: zone files, folders of them, the zones of a configuration,
//! and PowerDNS's tables.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::database::{ListedZone, PowerDnsReader};
use config::exit_status::{EXIT_FAULTS, EXIT_OUTSIDE, EXIT_USAGE};
use config::report::exit_code;
use config::zone_name::zone_name;
use config::zones::pattern::FilePattern;
use journal::{RealDisk, StoreFolders};
use wire::ZoneName;
use wire::hash::HashKey;
use wording::reason;
use zone::Zone;
use zone_manager::changes;
use zone_manager::zones::resolve::resolve;
use zone_manager::zones::text::{Meter, examine};
use zone_plan::{DifferenceRule, Origin, TextRules, ZoneSpec, ZoneText};

use super::Failure;
use super::args::DatabaseImportArgs;
use super::target::{contents_of, open_powerdns};
use crate::judge::text_of;

/// Most faults of one zone that are shown.
const SHOWN_FAULTS: usize = 5;

/// The zones to import.
pub(super) enum ImportSource {
    /// Zone files, and for those of a configuration the folder with the versions after updates.
    Files { specs: Vec<ZoneSpec>, stores: Option<StoreFolders> },
    /// Domains of PowerDNS.
    PowerDns { reader: Box<PowerDnsReader>, domains: Vec<ListedZone> },
}

/// A zone as read from its source, or why it is none.
pub(super) type ReadZone = (ZoneName, Result<Arc<Zone>, String>);

/// Finds the zones of the arguments.
///
/// # Errors
/// What is wrong with the arguments, or cannot be read. Zones that are left out are reported to `note`.
pub(super) fn source(
    args: &DatabaseImportArgs,
    note: &mut dyn FnMut(String),
) -> Result<ImportSource, Failure> {
    if let Some(url) = &args.from_powerdns {
        let mut reader = open_powerdns(&args.target, url)?;
        let outside = |fault: String| (format!("nomen: {fault}"), EXIT_OUTSIDE);
        let domains = reader.zones().map_err(outside)?;
        if reader.misnamed() > 0 {
            note(format!(
                "{} domains are left out: they have no usable name, or the same one",
                reader.misnamed()
            ));
        }
        for name in reader.with_edited_serials().map_err(outside)? {
            note(format!(
                "zone {name}.: the serial is that of its row; PowerDNS answers with another one (SOA-EDIT)"
            ));
        }
        return Ok(ImportSource::PowerDns { reader: Box::new(reader), domains });
    }
    if let Some(file) = &args.from_config {
        return of_configuration(file, note);
    }
    let mut specs = Vec::new();
    match (&args.zone, args.paths.as_slice()) {
        (Some(name), [path]) => {
            let name = zone_name(name).map_err(|fault| (format!("nomen: {fault}"), EXIT_USAGE))?;
            specs.push(spec(ZoneName::from(&name), path));
        }
        (Some(_), _) => return Err(("nomen: --zone is for one file".into(), EXIT_USAGE)),
        (None, paths) => {
            for path in paths {
                find(path, &mut specs)?;
            }
        }
    }
    if specs.is_empty() {
        return Err((
            "nomen: there is no file NAME.zone; --zone names the zone of another file".into(),
            EXIT_FAULTS,
        ));
    }
    Ok(ImportSource::Files { specs, stores: None })
}

fn spec(apex: ZoneName, path: &Path) -> ZoneSpec {
    let (origin, differences) = (Origin::Configuration, DifferenceRule::default());
    let (text, rules) = (ZoneText::File(path.into()), TextRules::of_command_line());
    ZoneSpec { apex, text, origin, differences, rules, signed: false }
}

/// Adds the zone of a file, or those of a folder.
fn find(path: &Path, specs: &mut Vec<ZoneSpec>) -> Result<(), Failure> {
    let fault = |fault: &std::io::Error| {
        (format!("nomen: cannot read {}: {}", path.display(), reason(fault)), EXIT_OUTSIDE)
    };
    let pattern = FilePattern::default();
    let zone_of = |path: &Path| pattern.zone_of(path.file_name()?.to_str()?);
    let bad =
        |path: &Path, why: &dyn std::fmt::Display| (format!("nomen: {}: {why}", path.display()), EXIT_FAULTS);
    if !std::fs::metadata(path).map_err(|error| fault(&error))?.is_dir() {
        let named = zone_of(path)
            .ok_or_else(|| bad(path, &"its name is not NAME.zone: --zone names the zone"))?
            .map_err(|why| bad(path, &why))?;
        specs.push(spec(ZoneName::from(named.as_name()), path));
        return Ok(());
    }
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(path).map_err(|error| fault(&error))? {
        files.push(entry.map_err(|error| fault(&error))?.path());
    }
    files.sort();
    for file in files.iter().filter(|file| !file.is_dir()) {
        let Some(named) = zone_of(file) else { continue };
        let named = named.map_err(|why| bad(file, &why))?;
        specs.push(spec(ZoneName::from(named.as_name()), file));
    }
    Ok(())
}

/// The zones of a configuration that have files. Those from primaries have their truth elsewhere, and the
/// keys of those that this server signs are files.
fn of_configuration(file: &Path, note: &mut dyn FnMut(String)) -> Result<ImportSource, Failure> {
    let mut accepted =
        config::read_files(file).map_err(|rejected| (rejected.to_string(), exit_code(&rejected.faults)))?;
    let read = accepted.config.settings.read_named_files();
    let wanted = read
        .and_then(|()| resolve(&accepted.config))
        .map_err(|found| (accepted.sources.render(&found), exit_code(&found)))?;
    let mut specs = Vec::new();
    for spec in wanted.specs {
        let why = match &spec.text {
            _ if spec.signed => {
                "is signed by this server (`dnssec-policy`): `nomen ctl zone write` and `--keys` move it"
            }
            ZoneText::File(_) | ZoneText::Disputed(_) => {
                specs.push(spec);
                continue;
            }
            ZoneText::Primaries => "comes from primaries",
            ZoneText::Produced => "is a catalog zone that this server produces",
            ZoneText::BuiltIn(_) | ZoneText::Database => continue,
        };
        note(format!("zone {}: left out, it {why}", spec.apex));
    }
    specs.sort_by(|a, b| a.apex.cmp(&b.apex));
    let state = accepted.config.settings.server.storage.folder();
    let stores = state.filter(|state| state.join(changes::FOLDER).is_dir()).map(|state| {
        let opened = StoreFolders::open(Arc::new(RealDisk), &state, changes::FOLDER, Some(changes::MARKS));
        opened.map_err(|fault| {
            let hint = match fault {
                journal::StoreFault::Locked(_) => "; stop the server that uses it, so that no change is lost",
                _ => "",
            };
            (format!("nomen: {fault}{hint}"), EXIT_OUTSIDE)
        })
    });
    Ok(ImportSource::Files { specs, stores: stores.transpose()? })
}

impl ImportSource {
    /// Number of zones.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Files { specs, .. } => specs.len(),
            Self::PowerDns { domains, .. } => domains.len(),
        }
    }

    /// Reads one zone after the other.
    ///
    /// # Errors
    /// The source fails as a whole, or what `each` returned.
    pub(super) fn read(
        self,
        key: &HashKey,
        each: &mut dyn FnMut(ReadZone) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match self {
            Self::Files { specs, stores } => {
                for spec in specs {
                    let zone = read_file(&spec, stores.as_ref(), key).map(Arc::new);
                    each((spec.apex, zone))?;
                }
                Ok(())
            }
            Self::PowerDns { reader, domains } => {
                let mut done = Ok(());
                let read = contents_of(&reader, &domains, &mut |apex, zone| {
                    if done.is_ok() {
                        done = each((apex.clone(), zone));
                    }
                });
                read.map_err(|fault| (format!("nomen: {fault}"), EXIT_OUTSIDE))?;
                done
            }
        }
    }
}

/// Reads a zone: the version after its last update if there is one, else its file.
fn read_file(spec: &ZoneSpec, stores: Option<&StoreFolders>, key: &HashKey) -> Result<Zone, String> {
    if let Some(folders) = stores {
        let stored = folders.of(&spec.apex).and_then(|folder| folder.zone(spec.name()));
        let (_store, stored) = stored.map_err(|fault| fault.to_string())?;
        if let Some(stored) = stored {
            return stored.load(key).map_err(|fault| fault.to_string());
        }
    }
    let mut examined = examine(spec, key, SHOWN_FAULTS, &Meter::default());
    examined.zone.take().ok_or_else(|| text_of(spec, &examined).trim_end().to_owned())
}
