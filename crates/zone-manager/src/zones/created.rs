//! Zones that programs create at run time: what is asked for, and the files of their first records.
//!
//! The file of a zone is `created/NAME.zone` in the state folder, or `views/VIEW/created/NAME.zone`; NAME is
//! that of its store. It is complete on the disk before the list of added zones has the zone. While a zone is
//! removed, the empty file `NAME.removed` is beside it. So a crash leaves one of these:
//!
//! | list | files | state |
//! |---|---|---|
//! | has the zone | `NAME.zone` | the zone exists |
//! | has the zone | both | the zone exists: its removal had not begun |
//! | does not | `NAME.zone` | the creation was not complete: the next start removes the rest |
//! | does not | both, or `NAME.removed` | the removal was not complete: the next start completes it |

use std::fmt::Write as _;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::table::value::quote;
use journal::{Disk, zone_file_name, zone_of_file_name};
use update::is_signers;
use wire::name::LowerName;
use wire::rdata::{self, view::Soa};
use wire::{Name, NameBuf, Serial, Ttl, Type, ViewName, ZoneName};

/// Name of the folder in the state folder.
pub const FOLDER: &str = "created";

/// A zone to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneCreation {
    /// The name of the zone, and its view.
    pub apex: ZoneName,
    /// The template whose keys apply.
    pub template: Option<String>,
    /// Its `dnssec-policy`; `None`: that of the template.
    pub dnssec_policy: Option<String>,
    /// Where its records come from.
    pub source: CreationSource,
}

/// Where the records of a created zone come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreationSource {
    /// These are its first records; from then on programs edit it. Without an SOA record it gets one, whose
    /// primary server is that of its first NS record.
    Records(Vec<CreatedRecord>),
    /// It is transferred from these servers, written as in `primaries` of `[[zone]]`.
    Primaries(Vec<String>),
}

/// A record of a zone to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedRecord {
    /// The owner.
    pub owner: NameBuf,
    /// The type.
    pub rtype: Type,
    /// The TTL.
    pub ttl: Ttl,
    /// The data, uncompressed.
    pub rdata: Vec<u8>,
}

/// Numbers of the SOA record that a zone gets: refresh, retry, expire, TTL of negative answers, in seconds.
const SOA_TIMES: [u32; 4] = [10_800, 3600, 604_800, 3600];
/// TTL of that record.
const SOA_TTL: Ttl = Ttl::from_secs(3600);
/// Extensions of the file of a zone, of one that is being written, and of the mark of a removal.
const ZONE: &str = ".zone";
const UNFINISHED: &str = ".new";
const REMOVED: &str = ".removed";
/// The folder of all views in the state folder.
const VIEWS: &str = "views";

impl ZoneCreation {
    /// Returns the `[[zone]]` block of the zone, with this file if it has one.
    pub(super) fn block(&self, file: &Path) -> String {
        let mut text = format!("[[zone]]\nname = {}\n", quote(&self.apex.as_name().to_string()));
        let mut put = |key: &str, value: String| {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{key} = {value}");
        };
        self.apex.view().into_iter().for_each(|view| put("view", quote(view)));
        self.template.iter().for_each(|template| put("template", quote(template)));
        self.dnssec_policy.iter().for_each(|policy| put("dnssec-policy", quote(policy)));
        match &self.source {
            CreationSource::Records(_) => {
                put("file", quote(&file.to_string_lossy()));
                put("api", "true".into());
            }
            CreationSource::Primaries(primaries) => {
                let all: Vec<String> = primaries.iter().map(|primary| quote(primary)).collect();
                put("primaries", format!("[{}]", all.join(", ")));
            }
        }
        text
    }

    /// Returns the text of the zone's file; `None` for a zone that comes from its primaries. A zone without
    /// an SOA record gets one with this serial number.
    ///
    /// # Errors
    /// Why the records make no zone. Loading the file finds further faults.
    pub(super) fn text(&self, serial: Serial) -> Result<Option<String>, String> {
        let CreationSource::Records(records) = &self.source else { return Ok(None) };
        let apex = self.apex.as_name();
        for CreatedRecord { owner, rtype, .. } in records {
            if !owner.as_name().is_at_or_below(apex) {
                return Err(format!("{owner} {rtype}: not in the zone {apex}"));
            }
            if is_signers(*rtype) {
                return Err(format!("{owner} {rtype}: the signer of a zone makes such records"));
            }
        }
        let soa = records.iter().position(|record| record.rtype == Type::SOA);
        let made = match soa {
            Some(at) if Soa::read(&records[at].rdata).is_err() => {
                return Err("the SOA record is malformed".into());
            }
            Some(_) => None,
            None => Some(first_soa(apex, records, serial)?),
        };
        // The SOA comes first, as usual.
        let first = soa.map(|at| &records[at]).or(made.as_ref());
        let others = records.iter().enumerate().filter(|(at, _)| Some(*at) != soa).map(|(_, record)| record);
        let mut text =
            "; Created by a program. `nomen ctl zone write` writes the current version.\n".to_owned();
        for CreatedRecord { owner, rtype, ttl, rdata } in first.into_iter().chain(others) {
            // Writing to a string does not fail.
            let _ = write!(text, "{owner} {ttl} IN {rtype} ");
            let _ = rdata::write_text(*rtype, rdata, &mut text);
            text.push('\n');
        }
        Ok(Some(text))
    }
}

/// Returns the SOA record of a zone that comes without one.
fn first_soa(apex: Name<'_>, records: &[CreatedRecord], serial: Serial) -> Result<CreatedRecord, String> {
    let is_ns = |record: &&CreatedRecord| record.rtype == Type::NS && record.owner.as_name() == apex;
    let primary =
        records.iter().find(is_ns).ok_or("the zone has no NS record at its name, and no SOA record")?;
    let mailbox = NameBuf::prepend(b"hostmaster", apex).map_err(|_| "the zone's name is too long")?;
    let numbers = [serial.0].into_iter().chain(SOA_TIMES).flat_map(u32::to_be_bytes);
    let rdata =
        primary.rdata.iter().copied().chain(mailbox.as_name().as_wire().iter().copied()).chain(numbers);
    Ok(CreatedRecord { owner: apex.to_buf(), rtype: Type::SOA, ttl: SOA_TTL, rdata: rdata.collect() })
}

/// What a crash has left of a zone that is not in the list of added zones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Leftover {
    pub(super) apex: ZoneName,
    /// Whether the zone was being removed; otherwise it was being created.
    pub(super) was_removed: bool,
}

/// The files of created zones.
#[derive(Clone)]
pub(super) struct CreatedFiles {
    disk: Arc<dyn Disk>,
    state: PathBuf,
}

impl CreatedFiles {
    /// Returns the files in a state folder.
    pub(super) fn of(disk: Arc<dyn Disk>, state: &Path) -> Self {
        // The block of a zone has this path, and is not read from the folder in which the server runs.
        let state = std::path::absolute(state).unwrap_or_else(|_| state.to_owned());
        CreatedFiles { disk, state }
    }

    /// The path of a zone's file.
    pub(super) fn path(&self, apex: &ZoneName) -> PathBuf {
        self.beside(apex, ZONE)
    }

    /// Whether a path is that of a zone's file.
    pub(super) fn has(&self, apex: &ZoneName, path: &Path) -> bool {
        std::path::absolute(path).is_ok_and(|path| path == self.path(apex))
    }

    fn folder(&self, apex: &ZoneName) -> PathBuf {
        match apex.view() {
            Some(view) => self.state.join(VIEWS).join(view).join(FOLDER),
            None => self.state.join(FOLDER),
        }
    }

    fn beside(&self, apex: &ZoneName, extension: &str) -> PathBuf {
        let name: LowerName<'_> = apex.as_lower();
        self.folder(apex).join(format!("{}{extension}", zone_file_name(name)))
    }

    /// Creates the folder of a zone's files.
    fn make_folder(&self, apex: &ZoneName) -> io::Result<()> {
        let folder = self.folder(apex);
        let below = folder.strip_prefix(&self.state).unwrap_or(&folder);
        let mut path = self.state.clone();
        for part in below {
            let parent = path.clone();
            path.push(part);
            self.disk.make_folder(&path)?;
            self.disk.sync_folder(&parent)?;
        }
        Ok(())
    }

    /// Writes the file of a zone. When this returns, the disk has it as a whole.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn write(&self, apex: &ZoneName, text: &str) -> io::Result<()> {
        self.make_folder(apex)?;
        let (unfinished, path) = (self.beside(apex, UNFINISHED), self.path(apex));
        let file = self.disk.create(&unfinished)?;
        let (mut rest, mut at) = (text.as_bytes(), 0);
        while !rest.is_empty() {
            let written = file.write_at(rest, at)?;
            if written == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
            rest = rest.get(written..).unwrap_or_default();
            at += written as u64;
        }
        file.sync_data()?;
        self.disk.rename(&unfinished, &path)?;
        self.disk.sync_folder(&self.folder(apex))
    }

    /// Notes that the removal of a zone begins.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn begin_removal(&self, apex: &ZoneName) -> io::Result<()> {
        self.make_folder(apex)?;
        self.disk.create(&self.beside(apex, REMOVED))?;
        self.disk.sync_folder(&self.folder(apex))
    }

    /// Takes back the note: the zone stays.
    pub(super) fn cancel_removal(&self, apex: &ZoneName) {
        // If it stays, it has no effect as long as the list of added zones has the zone.
        let _ = self.disk.remove(&self.beside(apex, REMOVED));
    }

    /// Removes the files of a zone, the note last.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn remove(&self, apex: &ZoneName) -> io::Result<()> {
        for extension in [UNFINISHED, ZONE, REMOVED] {
            match self.disk.remove(&self.beside(apex, extension)) {
                Err(fault) if fault.kind() == ErrorKind::NotFound => continue,
                removed => removed?,
            }
            self.disk.sync_folder(&self.folder(apex))?;
        }
        Ok(())
    }

    /// Returns what a crash has left of zones that do not exist, according to `exists`. Notes of removals of
    /// zones that exist are removed.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn leftovers(&self, exists: impl Fn(&ZoneName) -> bool) -> io::Result<Vec<Leftover>> {
        let mut found: Vec<Leftover> = Vec::new();
        for view in self.views()? {
            let folder = match &view {
                Some(view) => self.state.join(VIEWS).join(view.as_str()).join(FOLDER),
                None => self.state.join(FOLDER),
            };
            for file in self.list(&folder)? {
                let (stem, was_removed) = match (file.strip_suffix(ZONE), file.strip_suffix(REMOVED)) {
                    (Some(stem), _) => (stem, false),
                    (None, Some(stem)) => (stem, true),
                    (None, None) => continue,
                };
                // A long name is not in the name of its file. What is left of such a zone stays.
                let Some(name) = zone_of_file_name(&format!("{stem}{ZONE}")) else { continue };
                let apex = ZoneName::in_view(name.as_lower(), view.as_ref());
                match (exists(&apex), found.iter_mut().find(|known| known.apex == apex)) {
                    (true, _) if was_removed => self.cancel_removal(&apex),
                    (true, _) => {}
                    (false, Some(known)) => known.was_removed |= was_removed,
                    (false, None) => found.push(Leftover { apex, was_removed }),
                }
            }
        }
        Ok(found)
    }

    /// Returns the views of the state folder, and `None` for the zones outside views.
    fn views(&self) -> io::Result<Vec<Option<ViewName>>> {
        let views = self.list(&self.state.join(VIEWS))?;
        let named = views.iter().filter_map(|view| view.parse::<ViewName>().ok()).map(Some);
        Ok([None].into_iter().chain(named).collect())
    }

    /// Returns the names in a folder; none if it does not exist.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        match self.disk.list(folder) {
            Err(fault) if fault.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            listed => Ok(listed?.into_iter().filter_map(|name| name.into_string().ok()).collect()),
        }
    }
}

#[cfg(test)]
mod tests;
