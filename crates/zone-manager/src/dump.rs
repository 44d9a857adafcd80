//! Master-file text of a loaded zone, for `nomen ctl zone dump` and `nomen zone dump`.

use std::fmt::Write as _;

use wire::{Type, rdata};
use zone::Zone;
use zone::store::RrSet;

/// Writes a zone as master-file text, line by line in canonical order, SOA first. Returns false as soon as
/// `line` does.
pub fn dump_lines(zone: &Zone, line: &mut impl FnMut(&str) -> bool) -> bool {
    dump_chosen(zone, |_| true, line)
}

/// Writes the `chosen` RRsets in the same way, each with its signatures.
pub fn dump_chosen(
    zone: &Zone,
    chosen: impl Fn(&RrSet<'_>) -> bool,
    line: &mut impl FnMut(&str) -> bool,
) -> bool {
    let mut text = String::new();
    for node in zone.iter() {
        let owner = node.written_owner().to_string();
        let soa = node.rrset(Type::SOA);
        let rest = node.rrsets().filter(|set| set.rtype() != Type::SOA);
        for set in soa.into_iter().chain(rest).filter(|set| chosen(set)) {
            if !dump_set(&owner, &set, &mut text, line) {
                return false;
            }
        }
    }
    true
}

fn dump_set(owner: &str, set: &RrSet<'_>, text: &mut String, line: &mut impl FnMut(&str) -> bool) -> bool {
    let records = set.rdatas().map(|r| (set.rtype(), r));
    let sigs = set.sig_rdatas().map(|r| (Type::RRSIG, r));
    let mut data = Vec::new();
    for (rtype, record) in records.chain(sigs) {
        data.clear();
        record.copy_to(&mut data);
        text.clear();
        // Writing to a String cannot fail.
        let _ = write!(text, "{owner} {} IN {rtype} ", record.ttl());
        let _ = rdata::write_text(rtype, &data, text);
        if !line(text) {
            return false;
        }
    }
    true
}
