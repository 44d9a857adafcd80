//! `nomen zone sign`: prints one zone's file with DNSSEC signatures.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use authority::audit::{audit_chain, audit_signatures};
use signer::denial::{DenialMethod, Nsec3Settings};
use signer::files::{KeyFolderFault, KeyFolderFaultKind, read_key, read_zone_keys};
use signer::key::ZoneKey;
use signer::keyset::ZoneKeys;
use signer::parallel::parts;
use signer::rrset::SignaturePeriod;
use signer::zone::{SignedZone, SigningPolicy, sign_zone};
use transport::unix_now;
use update::SerialPolicy;
use wire::hash::HashKey;
use wire::rdata::view::Dnskey;
use wire::text::Hex;
use wire::{Type, UnixTime};
use wording::{moment, reason};
use zone::Zone;
use zone::store::Node;
use zone::zonemd::{self, ZonemdHash};
use zone_manager::dump::dump_lines;
use zone_manager::zones::text::{Meter, examine};

use super::audited::AuditSum;
use super::judge::text_of;
use super::{printed, zone_spec};
use crate::key_args::{SerialRule, ZoneSignArgs};
use config::exit_status::{EXIT_FAULTS, EXIT_OK, EXIT_OUTSIDE, EXIT_USAGE};

/// Most iterations of NSEC3 with which all validators in use treat a zone as secure.
const MAX_ITERATIONS: u16 = 50;

/// Names whose signatures are verified as one part.
const NODES_OF_PART: usize = 512;
/// Most faults and warnings of the file that are printed.
const MAX_FINDINGS: usize = 100;

/// A message, and the exit code.
type Refusal = (String, u8);

/// Runs the verb; returns the exit code.
pub fn run(args: &ZoneSignArgs) -> u8 {
    let begun = Instant::now();
    let now = args.at.map_or_else(unix_now, |seconds| UnixTime::from_secs(seconds.into()));
    let zone = match read(args) {
        Ok(zone) => zone,
        Err(code) => return code,
    };
    match signed(args, &zone, now) {
        Ok((signed, keys, period)) => {
            let code = write(args, &signed.zone);
            if code == EXIT_OK {
                let verified = if args.no_verify { "; not verified" } else { "" };
                eprintln!("{}{verified}", summary(&signed, &keys, &period, begun));
            }
            code
        }
        Err((message, code)) => {
            eprintln!("nomen: zone {} is not signed: {}", zone.apex(), message.trim_end());
            code
        }
    }
}

/// Reads the zone. Prints faults and warnings to standard error. A name outside of the zone, which a server
/// leaves out, is a fault here: the file is of another zone, or `$ORIGIN` is wrong.
///
/// # Errors
/// The exit code.
fn read(args: &ZoneSignArgs) -> Result<Zone, u8> {
    let spec = zone_spec(&args.origin, &args.file).map_err(|fault| {
        eprintln!("nomen: {fault}");
        EXIT_USAGE
    })?;
    let mut examined = examine(&spec, &HashKey::random(), MAX_FINDINGS, &Meter::default());
    eprint!("{}", text_of(&spec, &examined));
    let Some(zone) = examined.zone.take() else {
        return Err(if examined.unread() { EXIT_OUTSIDE } else { EXIT_FAULTS });
    };
    let owners = examined.findings.iter().filter_map(|finding| finding.about.as_deref());
    let outside = owners.filter(|(owner, _)| !owner.as_name().is_at_or_below(spec.name())).count();
    let fault = match (outside, examined.hidden) {
        (0, 0) => return Ok(zone),
        (0, _) => format!("the file has more than {MAX_FINDINGS} warnings: mend them first"),
        (outside, _) => format!("{outside} names of the file are outside of the zone"),
    };
    eprintln!("nomen: zone {} is not signed: {fault}", zone.apex());
    Err(EXIT_FAULTS)
}

/// Signs the zone and verifies the result, unless the command line says not to.
fn signed(
    args: &ZoneSignArgs,
    zone: &Zone,
    now: UnixTime,
) -> Result<(SignedZone, ZoneKeys, SignaturePeriod), Refusal> {
    let period = SignaturePeriod {
        inception: args.inception.before(now),
        expiration: args.expiration.after(now),
        jitter: args.jitter,
    };
    period.check(now).map_err(refused)?;
    let denial = denial(args)?;
    let keys = zone_keys(args, zone, now)?;
    remark(zone, &keys);
    let renews_digest = args.zonemd || zone.apex_node().rrset(Type::ZONEMD).is_some();
    let policy = SigningPolicy {
        period,
        denial,
        serial: match args.serial {
            SerialRule::Keep => None,
            SerialRule::Increment => Some(SerialPolicy::Increment.next(zone.serial(), now)),
            SerialRule::Unixtime => Some(SerialPolicy::UnixTime.next(zone.serial(), now)),
        },
        dnskey_ttl: args.dnskey_ttl,
        sync: args.cds,
        zonemd: renews_digest.then_some(ZonemdHash::Sha384).into_iter().collect(),
    };
    let signed = sign_zone(zone, &keys, &policy, threads()).map_err(refused)?;
    if !args.no_verify {
        verify(&signed.zone, now, renews_digest)?;
    }
    Ok((signed, keys, period))
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn refused(fault: impl std::fmt::Display) -> Refusal {
    (fault.to_string(), EXIT_FAULTS)
}

fn denial(args: &ZoneSignArgs) -> Result<DenialMethod, Refusal> {
    if !args.nsec3 {
        return Ok(DenialMethod::Nsec);
    }
    let mut salt = Vec::new();
    if let Some(text) = args.salt.as_deref().filter(|text| *text != "-") {
        let mut decoder = Hex::default();
        let decoded = decoder.feed(text.as_bytes(), &mut salt);
        if decoded.is_err() || decoder.finish().is_err() {
            return Err(("--salt: not hexadecimal".into(), EXIT_USAGE));
        }
    }
    if args.iterations > 0 && !args.allow_iterations {
        return Err(refused(
            "--iterations makes the zone slower, and not safer: RFC 9276 says 0; --allow-iterations permits it",
        ));
    }
    if args.iterations > MAX_ITERATIONS {
        return Err(refused(format!(
            "with more than {MAX_ITERATIONS} NSEC3 iterations, validators treat the zone as insecure or bogus"
        )));
    }
    Ok(DenialMethod::Nsec3(Nsec3Settings { opt_out: args.opt_out, iterations: args.iterations, salt }))
}

/// Returns the exit code of a fault of key files.
pub fn key_fault(fault: &KeyFolderFault) -> Refusal {
    let code = match fault.kind {
        KeyFolderFaultKind::Io(_) => EXIT_OUTSIDE,
        _ => EXIT_FAULTS,
    };
    (fault.to_string(), code)
}

/// Reads the keys of the command line.
fn zone_keys(args: &ZoneSignArgs, zone: &Zone, now: UnixTime) -> Result<ZoneKeys, Refusal> {
    let apex = zone.apex().as_name();
    let mut keys: Vec<ZoneKey> = Vec::new();
    if let Some(folder) = &args.keys {
        keys.extend(read_zone_keys(folder, apex).map_err(|fault| key_fault(&fault))?);
        if keys.is_empty() && args.key.is_empty() {
            return Err(refused(format!("{}: the folder has no key of the zone", folder.display())));
        }
    }
    for path in &args.key {
        keys.push(read_key(path).map_err(|fault| key_fault(&fault))?);
    }
    let mut present = Vec::new();
    for record in zone.apex_node().rrset(Type::DNSKEY).iter().flat_map(|set| set.rdatas()) {
        let mut rdata = Vec::new();
        record.copy_to(&mut rdata);
        present.push(rdata);
    }
    ZoneKeys::by_times(apex, keys, present, now).map_err(refused)
}

/// Prints what an operator may not expect.
fn remark(zone: &Zone, keys: &ZoneKeys) {
    for rdata in keys.foreign() {
        let tag = Dnskey::read(rdata).map_or(0, |key| dnssec::key::tag(&key));
        eprintln!(
            "nomen: zone {}: DNSKEY {tag} of the file stays, and signs nothing: its private key is not here",
            zone.apex()
        );
    }
}

/// Checks the signed zone as `nomen zone check --dnssec` does. Prints warnings.
fn verify(zone: &Zone, now: UnixTime, has_digest: bool) -> Result<(), Refusal> {
    let mut sum = AuditSum::default();
    let nodes: Vec<Node<'_>> = zone.iter().collect();
    let part = |part: usize| {
        let nodes = nodes.iter().skip(part * NODES_OF_PART).take(NODES_OF_PART).copied();
        let mut found = Vec::new();
        audit_signatures(zone, nodes, now.to_serial(), &mut |finding| found.push(finding));
        Ok::<_, Refusal>(found)
    };
    let found = parts(threads(), nodes.len().div_ceil(NODES_OF_PART), part)?;
    found.into_iter().flatten().for_each(|finding| sum.add(finding));
    audit_chain(zone, now.to_serial(), &mut |finding| sum.add(finding));
    let mut errors = String::new();
    sum.tell(&mut |finding, message| match finding.kind.is_error() {
        true => errors += &format!("\n{message}"),
        false => eprintln!("nomen: zone {}: {message}", zone.apex()),
    });
    if has_digest && let Err(fault) = zonemd::verify(zone) {
        errors += &format!("\n{fault}");
    }
    match errors.is_empty() {
        true => Ok(()),
        false => Err(refused(format!("the result does not validate:{errors}"))),
    }
}

/// Writes the zone to its place; returns the exit code.
fn write(args: &ZoneSignArgs, zone: &Zone) -> u8 {
    let Some(path) = &args.output else {
        return printed(print(zone, &mut BufWriter::new(io::stdout().lock())), EXIT_OK);
    };
    match write_file(path, zone) {
        Ok(()) => EXIT_OK,
        Err(error) => {
            eprintln!("nomen: cannot write {}: {}", path.display(), reason(&error));
            EXIT_OUTSIDE
        }
    }
}

fn print(zone: &Zone, out: &mut impl Write) -> io::Result<()> {
    let mut done = Ok(());
    dump_lines(zone, &mut |line| {
        done = writeln!(out, "{line}");
        done.is_ok()
    });
    done.and_then(|()| out.flush())
}

/// Writes a file beside its place, with the mode of the file there, and renames it once it is on the disk.
fn write_file(path: &Path, zone: &Zone) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let mut options = OpenOptions::new();
    let file = zone::regular::open_with(options.write(true).create(true).truncate(true), &beside)?;
    let written = (|| {
        if let Ok(about) = fs::metadata(path) {
            file.set_permissions(about.permissions())?;
        }
        print(zone, &mut BufWriter::new(&file))?;
        file.sync_all()?;
        fs::rename(&beside, path)
    })();
    if written.is_err() {
        // The fault that is reported is that of writing.
        let _ = fs::remove_file(&beside);
    }
    written?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Returns the last line: what was done.
fn summary(signed: &SignedZone, keys: &ZoneKeys, period: &SignaturePeriod, begun: Instant) -> String {
    let SignedZone { zone, counts } = signed;
    let tags = |of: Type| {
        let tags: Vec<String> = keys.signers(of).map(|key| key.tag().to_string()).collect();
        tags.join(", ")
    };
    let chain = if zone.nsec3().is_some() { "NSEC3" } else { "NSEC" };
    let first = UnixTime::from_secs(period.expiration.as_secs().saturating_sub(period.jitter.into()));
    let dropped = match counts.dropped {
        0 => String::new(),
        dropped => format!(", {dropped} old ones dropped"),
    };
    format!(
        "zone {}: signed, serial {}, {} records, {} signatures, {} {chain}{dropped}; DNSKEY by {}, the rest by \
         {}; valid until {}; {:.2} s",
        zone.apex(),
        zone.serial(),
        zone.record_count(),
        counts.signatures,
        counts.denials,
        tags(Type::DNSKEY),
        tags(Type::SOA),
        moment(first),
        begun.elapsed().as_secs_f64()
    )
}
