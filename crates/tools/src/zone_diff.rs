//! `nomen zone diff`: prints the differences between two versions of a zone.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use journal::{RealDisk, StoreContents, StoreFolder};
use serde::Serialize;
use wire::hash::HashKey;
use wire::{Name, Serial};
use zone::scan::TextSource;
use zone::store::{ChangeSet, diff};
use zone::{LoadConfig, LoadError, Zone};
use zone_plan::{DifferenceRule, Origin, TextRules, ZoneSpec, ZoneText};

use super::ctl::connect;
use super::judge::text_of;
use super::printed;
use crate::args::ZoneDiffArgs;
use config;
use config::exit_status::{EXIT_FAULTS, EXIT_OK, EXIT_OUTSIDE, EXIT_USAGE};
use config::zone_name::zone_name;
use control::protocol::{self, AnswerLine, ControlCommand};
use wording::reason;
use zone_manager::changes;
use zone_manager::secondaries;
use zone_manager::shown_change::{IgnoredParts, ShownChange, lines};
use zone_manager::zones::text::{Meter, examine};

/// The difference, as JSON.
#[derive(Serialize)]
struct DiffReport<'d> {
    zone: String,
    same: bool,
    before: VersionReport<'d>,
    after: VersionReport<'d>,
    changes: ShownChange<'d>,
}

/// A version, as JSON.
#[derive(Serialize)]
struct VersionReport<'d> {
    source: &'d str,
    serial: u32,
}

/// Runs the verb; returns the exit code.
pub fn run(args: &ZoneDiffArgs) -> u8 {
    let name = match zone_name(&args.origin) {
        Ok(name) => name,
        Err(fault) => {
            eprintln!("nomen: {fault}");
            return EXIT_USAGE;
        }
    };
    let key = HashKey::random();
    let read = |source: &str| read(args, name.as_name(), source, &key);
    let zones = read(&args.before).and_then(|before| Ok((before, read(&args.after)?)));
    let (before, after) = match zones {
        Ok(zones) => zones,
        Err(message) => {
            eprintln!("{}", message.trim_end());
            return EXIT_OUTSIDE;
        }
    };
    let ignored = IgnoredParts { serial: args.ignore_serial, dnssec: args.ignore_dnssec };
    let change = ignored.without(&diff(&before, &after));
    let code = if change.is_empty() { EXIT_OK } else { EXIT_FAULTS };
    printed(print(args, &before, &after, &change), code)
}

fn print(args: &ZoneDiffArgs, before: &Zone, after: &Zone, change: &ChangeSet) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    if args.json {
        let version = |source, Serial(serial)| VersionReport { source, serial };
        let report = DiffReport {
            zone: before.apex().to_string(),
            same: change.is_empty(),
            before: version(&args.before, before.serial()),
            after: version(&args.after, after.serial()),
            changes: ShownChange(change),
        };
        serde_json::to_writer_pretty(&mut out, &report)?;
        writeln!(out)?;
    } else if !change.is_empty() {
        writeln!(out, "--- {}, serial {}", args.before, before.serial())?;
        writeln!(out, "+++ {}, serial {}", args.after, after.serial())?;
        let mut written = Ok(());
        lines(change, &mut |line| {
            written = writeln!(out, "{line}");
            written.is_ok()
        });
        written?;
    }
    out.flush()
}

/// Returns the version of a zone that an argument names.
fn read(args: &ZoneDiffArgs, apex: Name<'_>, source: &str, key: &HashKey) -> Result<Zone, String> {
    match source {
        "@served" => served(args, apex, key),
        "@stored" => stored(args, apex, key),
        path => {
            let spec = ZoneSpec {
                differences: DifferenceRule::default(),
                rules: TextRules::of_command_line(),
                signed: false,
                apex: apex.into(),
                text: ZoneText::File(PathBuf::from(path).into()),
                origin: Origin::Configuration,
            };
            let examined = examine(&spec, key, 20, &Meter::default());
            let faults = || text_of(&spec, &examined);
            let faults = if examined.zone.is_none() { faults() } else { String::new() };
            examined.zone.ok_or(faults)
        }
    }
}

/// Returns the version in service.
fn served(args: &ZoneDiffArgs, apex: Name<'_>, key: &HashKey) -> Result<Zone, String> {
    let stream =
        connect(args.socket.as_deref(), args.config.as_deref()).map_err(|e| format!("nomen: {e}"))?;
    let answer = |e: io::Error| format!("nomen: the server did not answer: {}", reason(&e));
    let dump =
        DumpReader::begin(stream, apex, Duration::from_secs(args.timeout.max(1))).map_err(answer)??;
    let source = TextSource::reader("@served", dump);
    let config = LoadConfig::default();
    let loaded = zone::load::load(source, apex, key, &config, |_| ControlFlow::Continue(()));
    loaded.map(|loaded| loaded.zone).map_err(|LoadError { faults, .. }| {
        faults.iter().map(|fault| format!("{}\n", fault.pretty())).collect()
    })
}

/// Returns the version in the state folder: after the last update, or as transferred from its primaries.
fn stored(args: &ZoneDiffArgs, apex: Name<'_>, key: &HashKey) -> Result<Zone, String> {
    let Some(file) = &args.config else {
        return Err(
            "nomen: @stored needs the configuration, which says where the state folder is: --config".into()
        );
    };
    let settings = config::read_files(file).map_err(|rejected| rejected.to_string())?.config.settings;
    let Some(state) = settings.server.storage.folder() else {
        return Err("nomen: there is no state folder: set `state-dir` in [server]".into());
    };
    let marks = state.join(changes::MARKS);
    let folders = [(changes::FOLDER, Some(&marks)), (secondaries::FOLDER, None)];
    for (folder, marks) in folders.map(|(folder, marks)| (state.join(folder), marks)) {
        if !folder.is_dir() {
            continue;
        }
        let fault = |fault: journal::StoreFault| match fault {
            journal::StoreFault::Locked(_) => {
                format!("nomen: {fault}; while a server runs, @served is what it has of the zone")
            }
            _ => format!("nomen: {fault}"),
        };
        let opened = match marks {
            Some(marks) => StoreFolder::open_marked(Arc::new(RealDisk), &folder, marks),
            None => StoreFolder::open(Arc::new(RealDisk), &folder),
        };
        let folder = opened.map_err(fault)?;
        let (_store, found): (_, Option<StoreContents>) = folder.zone(apex).map_err(fault)?;
        if let Some(found) = found {
            return found.load(key).map_err(fault);
        }
    }
    Err(format!("nomen: the state folder {} has nothing of zone {apex}", state.display()))
}

/// Reads the text of a zone that the server sends in pieces.
struct DumpReader {
    lines: BufReader<UnixStream>,
    /// The current piece, and the number of bytes read from it.
    piece: (Vec<u8>, usize),
    ended: bool,
}

impl DumpReader {
    /// Requests a zone. The inner error is why the server does not send it.
    fn begin(mut stream: UnixStream, apex: Name<'_>, patience: Duration) -> io::Result<Result<Self, String>> {
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        stream.write_all(&protocol::line(&ControlCommand::ZoneDump { name: apex.to_string() })?)?;
        let mut dump = DumpReader { lines: BufReader::new(stream), piece: (Vec::new(), 0), ended: false };
        Ok(dump.next_piece()?.map(|()| dump).map_err(|error| format!("nomen: {error}")))
    }

    /// Reads the next piece, or the end.
    fn next_piece(&mut self) -> io::Result<Result<(), String>> {
        let mut line = String::new();
        if self.lines.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match serde_json::from_str(&line).map_err(io::Error::other)? {
            AnswerLine::Text { text } => self.piece = (text.into_bytes(), 0),
            AnswerLine::Done { .. } => self.ended = true,
            AnswerLine::Fault { error, .. } => return Ok(Err(error)),
        }
        Ok(Ok(()))
    }
}

impl Read for DumpReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let (text, taken) = &mut self.piece;
            let rest = text.get(*taken..).unwrap_or_default();
            if !rest.is_empty() {
                let count = rest.len().min(buf.len());
                buf[..count].copy_from_slice(&rest[..count]);
                *taken += count;
                return Ok(count);
            }
            if self.ended {
                return Ok(0);
            }
            self.next_piece()?.map_err(io::Error::other)?;
        }
    }
}
