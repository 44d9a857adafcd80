//! `nomen key sign-request`: signs the key sets of a zone ahead of time, on the machine that has its KSK.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::time::Duration;

use signer::files::read_zone_keys;
use signer::key::{KeyRole, ZoneKey};
use signer::rollover::offline::{KeySigningRequest, SignedKeyResponse, SlotSigning, sign_request};
use transport::unix_now;
use wire::NameBuf;
use wording::{moment, reason};

use crate::key_args::{KeySignRequestArgs, KeyTime};
use crate::zone_sign::key_fault;
use config::exit_status::{EXIT_FAULTS, EXIT_OK, EXIT_OUTSIDE, EXIT_USAGE};

/// Largest request that is read, in bytes.
const MAX_REQUEST: u64 = 16 * 1024 * 1024;

/// A message, and the exit code.
type Refusal = (String, u8);

/// Signs a request; returns the exit code.
pub(crate) fn run(args: &KeySignRequestArgs, zone: &NameBuf) -> Result<u8, Refusal> {
    let refused = |text: String| (text, EXIT_FAULTS);
    let path = args.file.display();
    let text =
        read_text(&args.file).map_err(|fault| (format!("{path}: {}", reason(&fault)), EXIT_OUTSIDE))?;
    let request = KeySigningRequest::parse(&text, zone.as_name());
    let request = request.map_err(|fault| refused(format!("{path}:{fault}")))?;
    let keys = read_zone_keys(&args.keys, zone.as_name()).map_err(|fault| key_fault(&fault))?;
    let is_ksk = |key: &ZoneKey| key.role() == KeyRole::KeySigning;
    if !keys.iter().any(is_ksk) {
        return Err(refused(format!(
            "{}: the folder has no key-signing key of the zone",
            args.keys.display()
        )));
    }
    let start = request.slots.first().map(|slot| slot.inception).unwrap_or_default();
    let until = match (args.until, request.until) {
        (Some(KeyTime::At(time)), _) => time,
        (Some(KeyTime::Span(span)), _) => start.saturating_add(span),
        (None, Some(until)) => until,
        (None, None) => {
            let text = "the request has no end of its last slot: give it with --until";
            return Err((text.into(), EXIT_USAGE));
        }
    };
    let seconds = |seconds: u32| Duration::from_secs(seconds.into());
    let mut digests: Vec<u8> = args.digest.iter().map(|digest| digest.code()).collect();
    digests.dedup();
    let how = SlotSigning {
        validity: seconds(args.validity),
        refresh: seconds(args.refresh),
        inception_offset: seconds(args.inception_offset),
        until,
        digests: if args.no_cds { Vec::new() } else { digests },
    };
    let response = sign_request(zone.as_name(), &request, &keys, &how);
    let response = response.map_err(|fault| refused(format!("{path}: {fault}")))?;
    let text = response.write(zone.as_name(), unix_now());
    match &args.output {
        Some(output) => {
            let failed =
                |fault| (format!("cannot write {}: {}", output.display(), reason(&fault)), EXIT_OUTSIDE);
            write_file(output, &text).map_err(failed)?;
        }
        None => crate::print_out(&text),
    }
    eprintln!("nomen: {}", summary(zone, &response));
    Ok(EXIT_OK)
}

/// Returns what was signed, on one line.
fn summary(zone: &NameBuf, response: &SignedKeyResponse) -> String {
    let (slots, start) = (&response.slots, response.slots.first());
    let signers: Vec<String> =
        start.iter().flat_map(|slot| slot.signers()).map(|key| key.to_string()).collect();
    let start = start.map(|slot| moment(slot.inception)).unwrap_or_default();
    let end = response.end().map(moment).unwrap_or_default();
    let by = signers.join(", ");
    format!("zone {zone}: {} slots signed by {by}, from {start} until {end}", slots.len())
}

/// Reads a text file; `-` is standard input.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    match path == Path::new("-") {
        true => io::stdin().lock().take(MAX_REQUEST).read_to_string(&mut text)?,
        false => zone::regular::open(path)?.take(MAX_REQUEST).read_to_string(&mut text)?,
    };
    Ok(text)
}

/// Writes a file beside its place, and renames it once it is on the disk.
fn write_file(path: &Path, text: &str) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let mut options = OpenOptions::new();
    let mut file =
        zone::regular::open_with(options.write(true).create(true).truncate(true), Path::new(&beside))?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // The fault that is reported is that of writing.
        let _ = fs::remove_file(&beside);
    }
    written?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
