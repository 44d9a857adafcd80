//! `nomen zone digest`: prints one zone's file with a digest of the zone (ZONEMD, RFC 8976), added or
//! renewed.

use std::fmt::Write as _;
use std::io::{self, Write};

use wire::{Ttl, Type, rdata};
use zone::Zone;
use zone::store::RrSet;
use zone::zonemd::{self, ZonemdHash};

use super::{printed, read_zone};
use crate::args::{DigestHash, ZoneDigestArgs};
use config::exit_status::EXIT_OK;
use zone_manager::dump::dump_chosen;

/// Runs the verb; returns the exit code.
pub fn run(args: &ZoneDigestArgs) -> u8 {
    let zone = match read_zone(&args.origin, &args.file) {
        Ok(zone) => zone,
        Err(code) => return code,
    };
    let mut hashes: Vec<ZonemdHash> = args.hash.iter().map(|hash| hash.meant()).collect();
    hashes.dedup();
    let digests = digest_lines(&zone, &hashes);
    if zone.is_signed() {
        eprintln!(
            "nomen: zone {} is signed: the digest is to be signed, too, and nothing else changed",
            zone.apex()
        );
    }
    printed(print(&zone, &digests, &mut io::BufWriter::new(io::stdout().lock())), EXIT_OK)
}

impl DigestHash {
    fn meant(self) -> ZonemdHash {
        match self {
            Self::Sha384 => ZonemdHash::Sha384,
            Self::Sha512 => ZonemdHash::Sha512,
        }
    }
}

/// Returns the ZONEMD records as text, with the TTL of the SOA (RFC 8976 §2).
fn digest_lines(zone: &Zone, hashes: &[ZonemdHash]) -> Vec<String> {
    let owner = zone.apex_node().written_owner();
    let ttl = zone.apex_node().rrset(Type::SOA).map_or(Ttl::ZERO, |soa| soa.ttl());
    let line = |data: Vec<u8>| {
        let mut text = format!("{owner} {ttl} IN ZONEMD ");
        // Writing to a String cannot fail.
        let _ = rdata::write_text(Type::ZONEMD, &data, &mut text);
        text
    };
    zonemd::records(zone, hashes).into_iter().map(line).collect()
}

/// Prints the zone in canonical order, with these digests after the SOA in place of its old ones.
fn print(zone: &Zone, digests: &[String], out: &mut impl Write) -> io::Result<()> {
    let chosen = |set: &RrSet<'_>| set.rtype() != Type::ZONEMD || set.node().owner() != zone.apex();
    let (mut digests, mut done) = (Some(digests), Ok(()));
    dump_chosen(zone, chosen, &mut |line| {
        let mut text = format!("{line}\n");
        // The SOA is the first line.
        for digest in digests.take().into_iter().flatten() {
            let _ = writeln!(text, "{digest}");
        }
        done = out.write_all(text.as_bytes());
        done.is_ok()
    });
    done.and_then(|()| out.flush())
}
