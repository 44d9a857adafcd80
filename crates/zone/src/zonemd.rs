//! Digests of whole zones (RFC 8976): the scheme SIMPLE with SHA-384 and SHA-512.
//!
//! All records are hashed in canonical order, including those that no query reaches, except ZONEMD at the
//! apex and its signatures. They are read from the snapshot one name at a time, in the order of
//! [`Zone::iter`], so only the records of one name are copied at a time, whatever the size of the zone.
//!
//! DNSSEC validation of the ZONEMD record itself (RFC 8976 §4, steps 1 and 2) is not done here.

use std::fmt;
use std::ops::Range;

use aws_lc_rs::digest;
use wire::{Class, Serial, Ttl, Type, rdata};

use crate::store::{Node, Rdata, RrSet, Zone};

/// The only scheme defined (RFC 8976 §2.2.2).
const SIMPLE: u8 = 1;
/// Bytes of ZONEMD RDATA before the digest: serial number, scheme, hash algorithm.
const HEAD: usize = 6;
/// Bytes collected before they are hashed.
const HASHED_BYTES: usize = 64 * 1024;

/// A hash algorithm of ZONEMD (RFC 8976 §2.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZonemdHash {
    /// SHA-384, which every verifier supports.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl ZonemdHash {
    /// All supported hash algorithms.
    pub const ALL: [ZonemdHash; 2] = [Self::Sha384, Self::Sha512];

    /// Its number in the record.
    pub fn code(self) -> u8 {
        match self {
            Self::Sha384 => 1,
            Self::Sha512 => 2,
        }
    }

    /// Its name as text.
    pub fn text(self) -> &'static str {
        match self {
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
        }
    }

    fn algorithm(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha384 => &digest::SHA384,
            Self::Sha512 => &digest::SHA512,
        }
    }
}

impl fmt::Display for ZonemdHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// Why no digest of a zone was verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZonemdFault {
    /// The zone has no ZONEMD.
    Absent,
    /// No ZONEMD has a supported scheme and hash algorithm.
    Unknown,
    /// Several ZONEMD have the same scheme and hash algorithm, so none of them is used (RFC 8976 §2).
    Repeated,
    /// The serial of ZONEMD is not that of the SOA.
    OtherSerial,
    /// The digest does not match the zone.
    Mismatch,
}

impl fmt::Display for ZonemdFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "the zone has no ZONEMD",
            Self::Unknown => "no ZONEMD is of a scheme and a hash algorithm that are known",
            Self::Repeated => "several ZONEMD are of the same scheme and hash algorithm",
            Self::OtherSerial => "ZONEMD is of another serial number than the SOA",
            Self::Mismatch => "the digest in ZONEMD is not that of the zone: it was damaged, or changed without a new digest",
        })
    }
}
impl std::error::Error for ZonemdFault {}

/// A ZONEMD that the zone's digest can be compared with.
struct Candidate {
    hash: ZonemdHash,
    digest: Vec<u8>,
}

/// Verifies the zone (RFC 8976 §4, from step 3). Returns the hash of a digest that matches; one is enough.
///
/// # Errors
/// [`ZonemdFault`].
pub fn verify(zone: &Zone) -> Result<ZonemdHash, ZonemdFault> {
    let candidates = candidates(zone)?;
    let hashes: Vec<ZonemdHash> = candidates.iter().map(|candidate| candidate.hash).collect();
    let right = digests(zone, &hashes).into_iter().zip(&candidates).find(|(digest, c)| **digest == *c.digest);
    right.map(|(_, candidate)| candidate.hash).ok_or(ZonemdFault::Mismatch)
}

/// Returns the ZONEMD records of the zone that can be verified.
fn candidates(zone: &Zone) -> Result<Vec<Candidate>, ZonemdFault> {
    let set = zone.apex_node().rrset(Type::ZONEMD).ok_or(ZonemdFault::Absent)?;
    let mut known: Vec<(Serial, Candidate)> = Vec::new();
    for record in set.rdatas() {
        let mut data = Vec::new();
        record.copy_to(&mut data);
        let Some((&[a, b, c, d, SIMPLE, code], digest)) = data.split_first_chunk::<HEAD>() else { continue };
        let Some(hash) = ZonemdHash::ALL.into_iter().find(|hash| hash.code() == code) else { continue };
        // A truncated digest is ignored (RFC 8976 §2.2.4).
        if digest.len() == hash.algorithm().output_len() {
            let serial = Serial(u32::from_be_bytes([a, b, c, d]));
            known.push((serial, Candidate { hash, digest: digest.to_vec() }));
        }
    }
    if known.is_empty() {
        return Err(ZonemdFault::Unknown);
    }
    let count = |hash| known.iter().filter(|(_, candidate)| candidate.hash == hash).count();
    let repeated: Vec<ZonemdHash> = ZonemdHash::ALL.into_iter().filter(|hash| count(*hash) > 1).collect();
    known.retain(|(_, candidate)| !repeated.contains(&candidate.hash));
    if known.is_empty() {
        return Err(ZonemdFault::Repeated);
    }
    known.retain(|(serial, _)| *serial == zone.serial());
    if known.is_empty() {
        return Err(ZonemdFault::OtherSerial);
    }
    Ok(known.into_iter().map(|(_, candidate)| candidate).collect())
}

/// Returns the RDATA of the ZONEMD records for the zone, one for each hash.
pub fn records(zone: &Zone, hashes: &[ZonemdHash]) -> Vec<Vec<u8>> {
    let serial = zone.serial().0.to_be_bytes();
    let record =
        |(digest, hash): (Vec<u8>, &ZonemdHash)| [&serial[..], &[SIMPLE, hash.code()], &digest].concat();
    digests(zone, hashes).into_iter().zip(hashes).map(record).collect()
}

/// Computes the digests of the zone, in the order of `hashes`, in one pass over its records.
pub fn digests(zone: &Zone, hashes: &[ZonemdHash]) -> Vec<Vec<u8>> {
    let contexts = hashes.iter().map(|hash| digest::Context::new(hash.algorithm())).collect();
    let mut pass =
        Pass { contexts, piece: Vec::with_capacity(2 * HASHED_BYTES), set: Vec::new(), records: Vec::new() };
    for node in zone {
        pass.node(node, node.owner() == zone.apex());
    }
    pass.hash();
    pass.contexts.into_iter().map(|context| context.finish().as_ref().to_vec()).collect()
}

/// A pass over a zone.
struct Pass {
    contexts: Vec<digest::Context>,
    /// Bytes to be hashed next.
    piece: Vec<u8>,
    /// The RDATA of the records of one type at one name, in canonical form and concatenated.
    set: Vec<u8>,
    /// The records in `set`.
    records: Vec<RecordInSet>,
}

/// A record in [`Pass::set`].
struct RecordInSet {
    rdata: Range<usize>,
    ttl: Ttl,
}

impl Pass {
    /// Adds the records of a name by type (RFC 8976 §3.3.1); signatures are records of type RRSIG.
    fn node(&mut self, node: Node<'_>, is_apex: bool) {
        let mut sets: Vec<RrSet<'_>> = node.rrsets().collect();
        sets.sort_unstable_by_key(|set| set.rtype());
        let left_out = |set: &RrSet<'_>| is_apex && set.rtype() == Type::ZONEMD;
        let owner = node.owner();
        let owner = owner.as_wire();
        let (before, after) = sets.split_at(sets.partition_point(|set| set.rtype() < Type::RRSIG));
        for set in before {
            set.rdatas().for_each(|record| self.add(set.rtype(), record));
            self.end_of_set(owner, set.rtype());
        }
        for set in sets.iter().filter(|set| !left_out(set)) {
            set.sig_rdatas().for_each(|record| self.add(Type::RRSIG, record));
        }
        let (stray, after) = after.split_at(after.partition_point(|set| set.rtype() == Type::RRSIG));
        for record in stray.iter().flat_map(RrSet::rdatas) {
            let covers_digest = record.compiled().starts_with(&Type::ZONEMD.0.to_be_bytes());
            if !(is_apex && covers_digest) {
                self.add(Type::RRSIG, record);
            }
        }
        self.end_of_set(owner, Type::RRSIG);
        for set in after.iter().filter(|set| !left_out(set)) {
            set.rdatas().for_each(|record| self.add(set.rtype(), record));
            self.end_of_set(owner, set.rtype());
        }
    }

    fn add(&mut self, rtype: Type, record: Rdata<'_>) {
        let start = self.set.len();
        record.copy_to(&mut self.set);
        rdata::canonical(rtype, &mut self.set[start..]);
        self.records.push(RecordInSet { rdata: start..self.set.len(), ttl: record.ttl() });
    }

    /// Writes the records of one type in canonical order (RFC 4034 §6.3).
    fn end_of_set(&mut self, owner: &[u8], rtype: Type) {
        let Pass { piece, set, records, .. } = self;
        if records.len() > 1 {
            records.sort_unstable_by(|a, b| set[a.rdata.clone()].cmp(&set[b.rdata.clone()]));
        }
        for RecordInSet { rdata, ttl } in records.drain(..) {
            piece.extend_from_slice(owner);
            piece.extend_from_slice(&rtype.0.to_be_bytes());
            piece.extend_from_slice(&Class::IN.0.to_be_bytes());
            piece.extend_from_slice(&ttl.as_secs().to_be_bytes());
            piece.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
            piece.extend_from_slice(&set[rdata]);
        }
        set.clear();
        if self.piece.len() >= HASHED_BYTES {
            self.hash();
        }
    }

    fn hash(&mut self) {
        self.contexts.iter_mut().for_each(|context| context.update(&self.piece));
        self.piece.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use proptest::prelude::*;
    use wire::NameBuf;
    use wire::hash::HashKey;

    use super::*;
    use crate::scan::TextSource;
    use crate::{LoadConfig, load};

    fn zone_of(apex: &str, text: &str) -> Zone {
        let apex: NameBuf = apex.parse().expect("a name");
        let (key, config) = (HashKey::new([1, 2, 3]), LoadConfig::default());
        let source = TextSource::bytes("test", text.as_bytes());
        let loaded = load::load(source, apex.as_name(), &key, &config, |_| ControlFlow::Continue(()));
        loaded.expect("a zone").zone
    }

    /// RFC 8976 appendix A.1.
    const SIMPLE_ZONE: &str = "
example. 86400 IN SOA ns1 admin 2018031900 1800 900 604800 86400
example. 86400 IN NS ns1
example. 86400 IN NS ns2
example. 86400 IN ZONEMD 2018031900 1 1 ( c68090d90a7aed716bc459f9340e3d7c1370d4d24b7e2fc3
    a1ddc0b9a87153b9a9713b3c9ae5cc27777f98b8e730044c )
ns1 3600 IN A 203.0.113.63
ns2 3600 IN AAAA 2001:db8::63
";

    /// RFC 8976 appendix A.2, without the record that is outside of the zone.
    const COMPLEX_ZONE: &str = "
example. 86400 IN SOA ns1 admin 2018031900 1800 900 604800 86400
example. 86400 IN NS ns1
example. 86400 IN NS ns2
example. 86400 IN ZONEMD 2018031900 1 1 ( a3b69bad980a3504e1cffcb0fd6397f93848071c93151f55
    2ae2f6b1711d4bd2d8b39808226d7b9db71e34b72077f8fe )
ns1 3600 IN A 203.0.113.63
NS2 3600 IN AAAA 2001:db8::63
occluded.sub 7200 IN TXT \"I'm occluded but must be digested\"
sub 7200 IN NS ns1
duplicate 300 IN TXT \"I must be digested just once\"
duplicate 300 IN TXT \"I must be digested just once\"
UPPERCASE 3600 IN TXT \"canonicalize uppercase owner names\"
* 777 IN PTR dont-forget-about-wildcards
mail 3600 IN MX 20 MAIL1
mail 3600 IN MX 10 Mail2.Example.
sortme 3600 IN AAAA 2001:db8::5:61
sortme 3600 IN AAAA 2001:db8::3:62
sortme 3600 IN AAAA 2001:db8::4:63
sortme 3600 IN AAAA 2001:db8::1:65
sortme 3600 IN AAAA 2001:db8::2:64
non-apex 900 IN ZONEMD 2018031900 1 1 ( 616c6c6f776564206275742069676e6f7265642e20616c6c
    6f776564206275742069676e6f7265642e20616c6c6f7765 )
";

    /// RFC 8976 appendix A.3.
    const SEVERAL_DIGESTS: &str = "
example. 86400 IN SOA ns1 admin 2018031900 1800 900 604800 86400
example. 86400 IN NS ns1.example.
example. 86400 IN NS ns2.example.
example. 86400 IN ZONEMD 2018031900 1 1 ( 62e6cf51b02e54b9b5f967d547ce43136792901f9f88e637
    493daaf401c92c279dd10f0edb1c56f8080211f8480ee306 )
example. 86400 IN ZONEMD 2018031900 1 2 ( 08cfa1115c7b948c4163a901270395ea226a930cd2cbcf2f
    a9a5e6eb85f37c8a4e114d884e66f176eab121cb02db7d652e0cc4827e7a3204f166b47e5613fd27 )
example. 86400 IN ZONEMD 2018031900 1 240 e2d523f654b9422a96c5a8f44607bbee
example. 86400 IN ZONEMD 2018031900 241 1 e1846540e33a9e4189792d18d5d131f605fc283e
ns1.example. 3600 IN A 203.0.113.63
ns2.example. 86400 IN TXT \"This example has multiple digests\"
NS2.EXAMPLE. 3600 IN AAAA 2001:db8::63
";

    #[test]
    fn the_examples_of_rfc_8976_verify() {
        for (name, text) in [("A.1", SIMPLE_ZONE), ("A.2", COMPLEX_ZONE), ("A.3", SEVERAL_DIGESTS)] {
            assert_eq!(verify(&zone_of("example.", text)), Ok(ZonemdHash::Sha384), "{name}");
        }
        let sha512 = SEVERAL_DIGESTS.replace("1 1 (", "1 3 (");
        assert_eq!(verify(&zone_of("example.", &sha512)), Ok(ZonemdHash::Sha512));
        // The computed records equal those of the examples.
        let zone = zone_of("example.", SEVERAL_DIGESTS);
        let set = zone.apex_node().rrset(Type::ZONEMD).expect("digests");
        for made in records(&zone, &ZonemdHash::ALL) {
            assert!(set.rdatas().any(|record| record.compiled() == made), "{made:02x?}");
        }
    }

    #[test]
    fn each_fault_has_its_name() {
        let fault = |text: &str| verify(&zone_of("example.", text)).expect_err("a fault");
        let simple = |from: &str, to: &str| fault(&SIMPLE_ZONE.replace(from, to));
        let without: Vec<String> =
            lines(SIMPLE_ZONE).into_iter().filter(|line| !line.contains("ZONEMD")).collect();
        assert_eq!(fault(&(without.join("\n") + "\n")), ZonemdFault::Absent);
        assert_eq!(simple("900 1 1 (", "900 1 3 ("), ZonemdFault::Unknown);
        assert_eq!(simple("900 1 1 (", "900 2 1 ("), ZonemdFault::Unknown);
        // A truncated digest.
        assert_eq!(simple("27777f98b8e730044c )", ")"), ZonemdFault::Unknown);
        assert_eq!(simple("SOA ns1 admin 2018031900", "SOA ns1 admin 2018031901"), ZonemdFault::OtherSerial);
        assert_eq!(simple("203.0.113.63", "203.0.113.64"), ZonemdFault::Mismatch);
        assert_eq!(simple("ns1 3600", "ns1 3601"), ZonemdFault::Mismatch);
        let other = format!("example. 86400 ZONEMD 2018031900 1 1 {}", "00".repeat(48));
        assert_eq!(fault(&format!("{SIMPLE_ZONE}{other}\n")), ZonemdFault::Repeated);
    }

    #[test]
    fn signatures_of_the_digest_do_not_count() {
        let sig = "ZONEMD 13 1 3600 20300101000000 20200101000000 1 example. AAAA";
        let signed = format!("{SIMPLE_ZONE}example. 86400 RRSIG {sig}\n");
        assert_eq!(verify(&zone_of("example.", &signed)), Ok(ZonemdHash::Sha384));
        // A signature without the records that it signs is not hashed, either.
        let unsigned: Vec<String> =
            lines(&signed).into_iter().filter(|line| !line.contains("IN ZONEMD")).collect();
        let (signed, plain) =
            (zone_of("example.", &(unsigned.join("\n") + "\n")), zone_of("example.", SIMPLE_ZONE));
        assert_eq!(digests(&signed, &ZonemdHash::ALL), digests(&plain, &ZonemdHash::ALL));
    }

    /// The digest computed as RFC 8976 §3.3 defines it: all records in one sorted list.
    fn plain_digest(zone: &Zone) -> Vec<u8> {
        let mut all = Vec::new();
        for node in zone.iter() {
            let labels: Vec<Vec<u8>> = node.owner().labels().map(<[u8]>::to_vec).collect();
            let owner: Vec<Vec<u8>> = labels.into_iter().rev().collect();
            for set in node.rrsets() {
                let records = set.rdatas().map(|record| (set.rtype(), record));
                for (rtype, record) in records.chain(set.sig_rdatas().map(|sig| (Type::RRSIG, sig))) {
                    let mut data = Vec::new();
                    record.copy_to(&mut data);
                    rdata::canonical(rtype, &mut data);
                    let covered = data.starts_with(&Type::ZONEMD.0.to_be_bytes());
                    let left_out = rtype == Type::ZONEMD || rtype == Type::RRSIG && covered;
                    if !(left_out && node.owner() == zone.apex()) {
                        all.push((owner.clone(), rtype, data, record.ttl(), node.owner().as_wire().to_vec()));
                    }
                }
            }
        }
        all.sort();
        let mut context = digest::Context::new(&digest::SHA384);
        for (_, rtype, data, ttl, owner) in all {
            let [a, b] = rtype.0.to_be_bytes();
            let head =
                [&owner[..], &[a, b, 0, 1], &ttl.as_secs().to_be_bytes(), &(data.len() as u16).to_be_bytes()];
            context.update(&[head.concat(), data].concat());
        }
        context.finish().as_ref().to_vec()
    }

    /// The records, one per line, without the empty first line.
    fn lines(text: &str) -> Vec<String> {
        text.replace("\n    ", " ").lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    proptest! {
        #[test]
        fn the_order_of_the_text_does_not_count(lines in Just(lines(COMPLEX_ZONE)).prop_shuffle()) {
            prop_assert_eq!(verify(&zone_of("example.", &(lines.join("\n") + "\n"))), Ok(ZonemdHash::Sha384));
        }

        /// Types on both sides of RRSIG, each with signatures.
        #[test]
        fn all_records_are_digested_in_canonical_order(
            records in prop::collection::vec((0..4u8, prop::sample::select(vec![1u16, 16, 28, 47, 63, 65_280]), 0..3u8, any::<bool>()), 0..40)
        ) {
            let mut text = SIMPLE_ZONE.to_owned();
            for (name, rtype, data, signs) in records {
                let owner = ["@", "Ns1", "a.b", "*"][usize::from(name)];
                let data = match rtype {
                    1 => format!("192.0.2.{data}"),
                    28 => format!("2001:db8::{data}"),
                    47 => "Z.example. A".into(),
                    63 => format!("{data} 1 1 {}", "0f".repeat(48)),
                    16 => format!("\"{data}\""),
                    _ => format!("\\# 1 0{data}"),
                };
                let covered = Type(rtype);
                text += &format!("{owner} 3600 {covered} {data}\n");
                if signs {
                    text += &format!("{owner} 3600 RRSIG {covered} 13 1 3600 20300101000000 20200101000000 1 Example. \
                         AAAA\n");
                }
            }
            let zone = zone_of("example.", &text);
            prop_assert_eq!(&digests(&zone, &[ZonemdHash::Sha384])[0], &plain_digest(&zone));
        }
    }
}
