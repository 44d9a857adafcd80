//! Random zones that are small enough to collide in every interesting way.

use wire::{NameBuf, Ttl, Type};

use crate::choices::Choices;
use crate::data::{HASHES, HOUR, nsec3, rrsig, soa};
use crate::{Chain, ModelRecord, name, sign};

/// Maximum number of records of all zones together, not counting those that signing adds.
const MAX_RECORDS: usize = 80;

/// Zones that are served together: some below others, with cuts between them by chance.
pub(crate) const APEXES: [&[&str]; 6] = [
    &["Com."],
    &["."],
    &["eXample.com.", "a.example.com."],
    &["example.com.", "com."],
    &["a.b.com.", "com.", "host.elsewhere.net."],
    &[".", "a.", "b.a."],
];

/// Makes one to three zones that are served together, each with a complete chain or unsigned. Adds records
/// while the choices last.
pub fn zones(choices: &mut Choices<'_>) -> Vec<(NameBuf, Vec<ModelRecord>)> {
    let apexes: Vec<NameBuf> = choices.pick(&APEXES).iter().map(|apex| name(apex)).collect();
    let chains: Vec<Option<Chain>> = apexes.iter().map(|_| chain(choices)).collect();
    let mut records = vec![Vec::new(); apexes.len()];
    for _ in 0..MAX_RECORDS {
        if choices.is_over() {
            break;
        }
        let zone = choices.below(apexes.len());
        records[zone].push(record(choices, apexes[zone]));
    }
    for (apex, records) in apexes.iter().zip(&mut records) {
        let rdata = soa(apex.as_name(), 1);
        records.push(ModelRecord { owner: *apex, rtype: Type::SOA, ttl: HOUR, rdata });
    }
    let zones = apexes.into_iter().zip(records).zip(chains);
    zones.map(|((apex, records), chain)| (apex, settle(apex, records, chain.as_ref()))).collect()
}

/// Chooses how non-existence is proved; `None` for unsigned zones.
pub(crate) fn chain(choices: &mut Choices<'_>) -> Option<Chain> {
    let nsec3 = |opt_out, salt: &[u8]| Some(Chain::Nsec3 { opt_out, iterations: 1, salt: salt.to_vec() });
    match choices.below(5) {
        0 => None,
        1 | 2 => Some(Chain::Nsec),
        3 => nsec3(false, b""),
        _ => nsec3(true, b"\xab\xcd"),
    }
}

/// Signs the records with `chain`; without one, removes signatures over SOA, so that the zone counts as
/// unsigned.
pub(crate) fn settle(
    apex: NameBuf,
    mut records: Vec<ModelRecord>,
    chain: Option<&Chain>,
) -> Vec<ModelRecord> {
    match chain {
        Some(chain) => sign(apex.as_name(), &records, chain),
        None => {
            let signs_soa =
                |r: &ModelRecord| r.rtype == Type::RRSIG && r.rdata[..2] == Type::SOA.0.to_be_bytes();
            records.retain(|record| !signs_soa(record));
            records
        }
    }
}

/// Makes a record at or below `apex`, sometimes outside. NSEC3 records are mostly at hash owners.
pub(crate) fn record(choices: &mut Choices<'_>, apex: NameBuf) -> ModelRecord {
    let (rtype, rdata) = data(choices, apex);
    let of_nsec3 = rtype == Type::NSEC3 || rtype == Type::RRSIG && rdata[..2] == Type::NSEC3.0.to_be_bytes();
    let owner = match choices.byte() {
        0..8 => name("elsewhere.net."),
        8.. if of_nsec3 => {
            NameBuf::prepend(choices.pick::<&[u8; 32]>(&HASHES), apex.as_name()).unwrap_or(apex)
        }
        _ => name_below(choices, apex),
    };
    ModelRecord { owner, rtype, ttl: Ttl::from_secs(choices.pick(&[60, 0, 3600])), rdata }
}

/// Makes a name at or below `apex`, mostly near it, sometimes deep.
fn name_below(choices: &mut Choices<'_>, apex: NameBuf) -> NameBuf {
    let labels = if choices.one_in(12) { choices.below(40) } else { choices.below(4) };
    let mut name = apex;
    for _ in 0..labels {
        name = NameBuf::prepend(&label(choices), name.as_name()).unwrap_or(name);
    }
    name
}

fn label(choices: &mut Choices<'_>) -> Vec<u8> {
    const PLAIN: [&[u8]; 12] = [b"a", b"b", b"A", b"ns", b"Ns1", b"*", b"c", b"a", b"b", b"*", b"ns", b"c"];
    match choices.below(16) {
        12 => (0..1 + choices.below(3)).map(|_| choices.byte()).collect(),
        13 => vec![b'x' + (choices.byte() & 1); 20 + choices.below(44)],
        14 => choices.pick::<&[u8; 32]>(&HASHES).to_vec(),
        15 => choices.pick::<&[u8; 32]>(&HASHES).to_ascii_uppercase(),
        plain => PLAIN[plain].to_vec(),
    }
}

/// Makes a name in the zone or elsewhere.
fn target(choices: &mut Choices<'_>, apex: NameBuf) -> NameBuf {
    match choices.below(10) {
        0..7 => name_below(choices, apex),
        7 | 8 => name_below(choices, name("host.elsewhere.Net.")),
        _ => NameBuf::ROOT,
    }
}

fn data(choices: &mut Choices<'_>, apex: NameBuf) -> (Type, Vec<u8>) {
    match choices.below(32) {
        0..5 => (Type::A, vec![192, 0, 2, choices.byte() & 3]),
        5 | 6 => (Type::AAAA, vec![choices.byte() & 1; 16]),
        7 => (Type::TXT, [&[1][..], &[b'a' + (choices.byte() & 1)]].concat()),
        8 => (Type(65_280), vec![choices.byte(); 3]),
        9 | 10 => (Type::DS, [&[0, choices.byte() & 3, 13, 2][..], &[7; 32]].concat()),
        11..14 => {
            let covered = choices.pick(&[1, 2, 5, 6, 15, 16, 47, 50, 51, 46, 43]);
            (Type::RRSIG, rrsig(Type(covered), choices.byte() & 3))
        }
        14 | 15 => (Type::NSEC3, nsec3(choices.one_in(2), choices.byte() & 3)),
        16..20 => (Type::NS, named(choices, apex, &[])),
        20..23 => (Type::CNAME, named(choices, apex, &[])),
        23 => (Type::PTR, named(choices, apex, &[])),
        24..26 => (Type::DNAME, named(choices, apex, &[])),
        26..28 => {
            let n = choices.byte() & 1;
            (Type::MX, named(choices, apex, &[0x41 + 0x20 * n, n]))
        }
        28 | 29 => (Type::SRV, named(choices, apex, &[0, 1, 0, 0, 0, 53])),
        30 => (Type::SVCB, named(choices, apex, &[0, 1])),
        _ => (Type::NSEC, [&named(choices, apex, &[]), &b"\0\x01\x40"[..]].concat()),
    }
}

/// Makes RDATA of `front` followed by a name.
fn named(choices: &mut Choices<'_>, apex: NameBuf, front: &[u8]) -> Vec<u8> {
    [front, target(choices, apex).as_name().as_wire()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelZone;
    use crate::tld::mix;

    #[test]
    fn no_bytes_make_one_zone_of_one_record() {
        let zones = zones(&mut Choices::new(&[]));
        assert_eq!(zones.iter().map(|(_, records)| records.len()).collect::<Vec<_>>(), [1]);
    }

    /// Callers rely on this: every kind of zone occurs.
    #[test]
    fn every_kind_of_zone_is_made() {
        let (mut unsigned, mut nsec, mut nsec3, mut cuts, mut dnames, mut wildcards) = (0, 0, 0, 0, 0, 0);
        for i in 0..400 {
            let bytes: Vec<u8> = (0..500).map(|at| mix(at + i * 500) as u8).collect();
            for (apex, records) in zones(&mut Choices::new(&bytes)) {
                let zone = ModelZone::new(apex.as_name(), &records);
                let names = zone.all();
                let has = |rtype| {
                    names.iter().filter(|n| **n != apex && zone.has(n.as_name(), rtype)).count().min(1)
                };
                unsigned += !zone.is_signed() as usize;
                nsec3 += (zone.is_signed() && zone.nsec3_chain().is_some()) as usize;
                nsec += (zone.is_signed() && zone.nsec3_chain().is_none()) as usize;
                cuts += has(Type::NS);
                dnames += has(Type::DNAME);
                wildcards += names.iter().any(|n| n.as_name().is_wildcard()) as usize;
            }
        }
        let all = [unsigned, nsec, nsec3, cuts, dnames, wildcards];
        assert!(all.iter().all(|&n| n > 80), "{all:?}");
    }
}
