//! The records of a reply, and the selection of records to keep.

use std::ops::Range;

use wire::message::{Parser, RawRecord, Section};
use wire::rdata::view::Rrsig;
use wire::rdata::{self, NameRule};
use wire::{Class, Name, NameBuf, Ttl, Type};

use super::{KeptRecord, OwnZones, ReplyFault, Scope};

/// Most RRsets kept at one name, or as proofs. Each link of a chain needs at most three proofs.
const MAX_SETS: usize = 64;

/// Initial capacity in bytes, enough for owners and RDATA of most answers.
const INITIAL_CAPACITY: usize = 512;

/// The records of the answer and authority sections that have the right class and are no meta types.
pub(super) struct Records<'m> {
    parser: Parser<'m>,
    all: Vec<SectionRecord>,
    /// The name as sent, if it had capital letters.
    sent: Option<NameBuf>,
}

struct SectionRecord {
    section: Section,
    owner: NameBuf,
    rtype: Type,
    raw: RawRecord,
    /// It was kept with its RRset, or dropped as surplus.
    taken: bool,
}

impl<'m> Records<'m> {
    /// Reads both sections. `sent` is the name as sent in the query.
    pub(super) fn read(message: &'m [u8], class: Class, sent: Name<'_>) -> Result<Self, ReplyFault> {
        let lower: NameBuf = sent.to_lower().into();
        let sent = Some(sent.to_buf()).filter(|sent| sent.as_name().has_upper_case());
        let malformed = |_| ReplyFault::Malformed;
        let (header, mut parser) = Parser::new(message).map_err(malformed)?;
        let [questions, answers, authorities, _] = header.counts();
        for _ in 0..questions {
            parser.question().map_err(malformed)?;
        }
        // A record takes at least eleven bytes, whatever the header counts.
        let most = message.len() / 11;
        let mut all = Vec::with_capacity(most.min(usize::from(answers) + usize::from(authorities)));
        for (section, count) in [(Section::Answer, answers), (Section::Authority, authorities)] {
            for _ in 0..count {
                let raw = parser.record().map_err(malformed)?;
                if raw.class != class || raw.rtype.is_meta() {
                    continue;
                }
                let mut owner = parser.name_at(raw.owner_at).map_err(malformed)?;
                if sent.as_ref().is_some_and(|sent| owner.as_name().as_wire() == sent.as_name().as_wire()) {
                    owner = lower;
                } else if let Some(sent) = &sent {
                    let mut wire = owner.as_name().as_wire().to_vec();
                    lower_what_was_sent(&mut wire, sent.as_name());
                    owner = Name::from_wire(&wire).map_or(owner, Name::to_buf);
                }
                all.push(SectionRecord { section, owner, rtype: raw.rtype, raw, taken: false });
            }
        }
        Ok(Records { parser, all, sent })
    }

    /// Returns the first record of this owner and type in the answer section.
    pub(super) fn answer(&self, owner: Name<'_>, rtype: Type) -> Option<usize> {
        self.all.iter().position(|found| {
            found.section == Section::Answer && found.rtype == rtype && found.owner.as_name() == owner
        })
    }

    /// Returns the first record of this owner and type in the authority section.
    pub(super) fn authority(&self, owner: Name<'_>, rtype: Type) -> Option<usize> {
        self.all.iter().position(|found| {
            found.section == Section::Authority && found.rtype == rtype && found.owner.as_name() == owner
        })
    }

    /// Returns the closest DNAME above `name` within `domain`, and its owner's label count. One pass: a name
    /// may have a hundred ancestors.
    pub(super) fn dname_above(&self, name: Name<'_>, domain: Name<'_>) -> Option<(usize, usize)> {
        let above = self.all.iter().enumerate().filter(|(_, found)| {
            let owner = found.owner.as_name();
            (found.section, found.rtype) == (Section::Answer, Type::DNAME)
                && name.len() > owner.len()
                && name.is_at_or_below(owner)
                && owner.is_at_or_below(domain)
        });
        let labels = above.map(|(at, found)| (at, found.owner.as_name().label_count()));
        // Of several at one owner the first.
        labels.rev().max_by_key(|(_, labels)| *labels)
    }

    /// Returns the SOA that denies `name`: of a zone at or above it, within `domain`.
    pub(super) fn soa(&self, name: Name<'_>, domain: Name<'_>) -> Option<usize> {
        self.all.iter().position(|found| {
            let owner = found.owner.as_name();
            found.section == Section::Authority
                && found.rtype == Type::SOA
                && name.is_at_or_below(owner)
                && owner.is_at_or_below(domain)
        })
    }

    /// Whether the reply answers or denies `name`.
    pub(super) fn tells_of(&self, name: Name<'_>, domain: Name<'_>) -> bool {
        let here = |found: &SectionRecord| found.section == Section::Answer && found.owner.as_name() == name;
        self.all.iter().any(here) || self.soa(name, domain).is_some()
    }

    /// Whether the authority section has a referral and no SOA. NS records of `own`, the zones that the
    /// server may be authoritative for, are no referral.
    pub(super) fn is_referral(&self, own: Option<OwnZones<'_>>) -> bool {
        let authority = || self.all.iter().filter(|found| found.section == Section::Authority);
        let refers = |found: &SectionRecord| {
            found.rtype == Type::NS && !own.is_some_and(|own| own.has(found.owner.as_name()))
        };
        authority().any(refers) && authority().all(|found| found.rtype != Type::SOA)
    }

    /// Returns the RDATA of a record, decompressed and validated.
    pub(super) fn rdata(&mut self, at: usize) -> Result<Vec<u8>, ReplyFault> {
        let found = self.all.get(at).ok_or(ReplyFault::Malformed)?;
        let mut out = Vec::new();
        self.parser.expand_rdata(&found.raw, &mut out).map_err(|_| ReplyFault::Malformed)?;
        rdata::validate(found.rtype, &out).map_err(|_| ReplyFault::Malformed)?;
        if let Some(sent) = &self.sent {
            let names: Vec<_> = rdata::embedded_names(found.rtype, &out)
                .filter(|name| name.rule == NameRule::Compress)
                .map(|name| name.start..name.start + name.len)
                .collect();
            for range in names {
                if let Some(name) = out.get_mut(range) {
                    lower_what_was_sent(name, sent.as_name());
                }
            }
        }
        Ok(out)
    }

    /// Returns the records that match `wanted` and are not taken.
    fn pick(&self, wanted: impl Fn(&SectionRecord) -> bool) -> Vec<usize> {
        let open = self.all.iter().enumerate().filter(|(_, found)| !found.taken && wanted(found));
        open.map(|(at, _)| at).collect()
    }
}

/// The records that are kept, in the order of writing.
#[derive(Default)]
pub(super) struct Kept {
    bytes: Vec<u8>,
    records: Vec<Place>,
    /// The names of the chain.
    passed: Vec<NameBuf>,
    /// The known zones of these names.
    zones: Vec<NameBuf>,
    settings: Settings,
}

/// The position of a kept record's bytes.
struct Place {
    section: Section,
    owner: Range<usize>,
    rtype: Type,
    ttl: Ttl,
    rdata: Range<usize>,
}

#[derive(Default)]
struct Settings {
    domain: Option<NameBuf>,
    signatures: bool,
    records_per_set: usize,
    max_ttl: u32,
}

impl Kept {
    /// No records yet. Signatures are kept only if `signatures` is set.
    pub(super) fn new(scope: &Scope<'_>, signatures: bool) -> Self {
        let settings = Settings {
            domain: Some(scope.domain.to_buf()),
            signatures,
            records_per_set: scope.records_per_set,
            max_ttl: scope.max_ttl,
        };
        Kept {
            settings,
            bytes: Vec::with_capacity(INITIAL_CAPACITY),
            records: Vec::with_capacity(8),
            ..Kept::default()
        }
    }

    /// Lowers the highest TTL of the records kept from now on, in seconds.
    pub(super) fn lower_max_ttl(&mut self, seconds: u32) {
        self.settings.max_ttl = self.settings.max_ttl.min(seconds);
    }

    /// Returns an estimate of the bytes of all records.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() + 16 * self.records.len()
    }

    /// Returns the number of records.
    pub(super) fn records(&self) -> usize {
        self.records.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = KeptRecord<'_>> {
        self.records.iter().filter_map(|place| {
            Some(KeptRecord {
                section: place.section,
                owner: Name::from_wire(self.bytes.get(place.owner.clone())?).ok()?,
                rtype: place.rtype,
                ttl: place.ttl,
                rdata: self.bytes.get(place.rdata.clone())?,
            })
        })
    }

    /// Adds a name to the chain.
    pub(super) fn passes(&mut self, name: Name<'_>) {
        self.passed.push(name.to_buf());
    }

    /// Whether a name is in the chain.
    pub(super) fn has_passed(&self, name: Name<'_>) -> bool {
        self.passed.iter().any(|passed| passed.as_name() == name)
    }

    /// Keeps the RRset of the record at `at`, and its signatures. Returns its TTL, also if it was kept
    /// before.
    pub(super) fn set(&mut self, records: &mut Records<'_>, at: usize) -> Result<Ttl, ReplyFault> {
        let Some(found) = records.all.get(at) else { return Ok(Ttl::ZERO) };
        let (section, owner, rtype) = (found.section, found.owner, found.rtype);
        let same =
            |found: &SectionRecord| (found.section, found.rtype) == (section, rtype) && found.owner == owner;
        let members = records.pick(same);
        let mut data: Vec<(Vec<u8>, Ttl)> = Vec::with_capacity(members.len());
        let mut ttl = Ttl::from_secs(self.settings.max_ttl);
        if members.is_empty() {
            // A chain can pass the same DNAME more than once.
            let kept = self
                .iter()
                .find(|kept| (kept.section, kept.rtype) == (section, rtype) && kept.owner == owner.as_name());
            return Ok(kept.map_or(Ttl::ZERO, |kept| kept.ttl));
        }
        if members.len() > self.settings.records_per_set {
            return Err(ReplyFault::SetTooLarge);
        }
        for member in members {
            let rdata = records.rdata(member)?;
            let mut own = ttl;
            if let Some(found) = records.all.get_mut(member) {
                found.taken = true;
                own = own.min(found.raw.ttl());
            }
            // Signatures have the TTLs of the sets they cover, which differ (RFC 4034 §3).
            if rtype != Type::RRSIG {
                ttl = own;
            }
            // Only one alias, and only one SOA (RFC 2181 §10.1, RFC 6672 §2.4).
            let alone = matches!(rtype, Type::CNAME | Type::DNAME | Type::SOA);
            if !data.iter().any(|(known, _)| *known == rdata) && (data.is_empty() || !alone) {
                data.push((rdata, own));
            }
        }
        for (rdata, own) in data {
            self.push(section, owner.as_name(), rtype, ttl.min(own), &rdata);
        }
        if rtype == Type::SOA {
            self.in_zone(owner.as_name());
        }
        if self.settings.signatures && rtype != Type::RRSIG {
            self.signatures(records, section, owner.as_name(), rtype, ttl)?;
        }
        Ok(ttl)
    }

    /// Keeps the signatures of an RRset.
    fn signatures(
        &mut self,
        records: &mut Records<'_>,
        section: Section,
        owner: Name<'_>,
        covered: Type,
        ttl: Ttl,
    ) -> Result<(), ReplyFault> {
        let mut kept = 0;
        let of_owner = |found: &SectionRecord| {
            (found.section, found.rtype) == (section, Type::RRSIG) && found.owner.as_name() == owner
        };
        for at in records.pick(of_owner) {
            let rdata = records.rdata(at)?;
            let rrsig = Rrsig::read(&rdata).map_err(|_| ReplyFault::Malformed)?;
            if rrsig.type_covered != covered || !owner.is_at_or_below(rrsig.signer) {
                continue;
            }
            kept += 1;
            if kept > self.settings.records_per_set {
                return Err(ReplyFault::SetTooLarge);
            }
            if let Some(found) = records.all.get_mut(at) {
                found.taken = true;
            }
            self.in_zone(rrsig.signer);
            self.push(section, owner, Type::RRSIG, ttl, &rdata);
        }
        Ok(())
    }

    /// Records a zone, if the chain passes through it and it is in the domain.
    pub(super) fn in_zone(&mut self, zone: Name<'_>) {
        let within = self.settings.domain.is_some_and(|domain| zone.is_at_or_below(domain.as_name()));
        let passed = self.passed.iter().any(|name| name.as_name().is_at_or_below(zone));
        if within && passed && !self.zones.iter().any(|known| known.as_name() == zone) {
            self.zones.push(zone.to_buf());
        }
    }

    /// Keeps all RRsets of `owner` in the answer section. Returns whether there are any.
    pub(super) fn all_at(&mut self, records: &mut Records<'_>, owner: Name<'_>) -> Result<bool, ReplyFault> {
        let here = |found: &SectionRecord| found.section == Section::Answer && found.owner.as_name() == owner;
        let all = records.pick(here);
        self.sets(records, &all)?;
        Ok(!all.is_empty())
    }

    /// Keeps the NSEC and NSEC3 records of the chain's zones (RFC 4035 §3.1.3, RFC 5155 §7.2).
    pub(super) fn proofs(&mut self, records: &mut Records<'_>) -> Result<(), ReplyFault> {
        self.zones_of_proofs(records);
        let zones = self.zones.clone();
        let proves = |found: &SectionRecord| {
            let owner = found.owner.as_name();
            found.section == Section::Authority
                && zones.iter().any(|zone| match found.rtype {
                    Type::NSEC => owner.is_at_or_below(zone.as_name()),
                    Type::NSEC3 => owner.parent() == Some(zone.as_name()),
                    _ => false,
                })
        };
        let all = records.pick(proves);
        self.sets(records, &all)
    }

    /// Records the signers of NSEC and NSEC3 records: in a denial without an SOA nothing else names the zone.
    fn zones_of_proofs(&mut self, records: &mut Records<'_>) {
        let signs = |found: &SectionRecord| (found.section, found.rtype) == (Section::Authority, Type::RRSIG);
        for at in records.pick(signs) {
            let owner = records.all.get(at).map(|found| found.owner);
            let rdata = records.rdata(at).unwrap_or_default();
            let (Some(owner), Ok(rrsig)) = (owner, Rrsig::read(&rdata)) else { continue };
            let (owner, signer) = (owner.as_name(), rrsig.signer);
            let belongs = match rrsig.type_covered {
                Type::NSEC => owner.is_at_or_below(signer),
                Type::NSEC3 => owner.parent() == Some(signer),
                _ => false,
            };
            if belongs && records.authority(owner, rrsig.type_covered).is_some() {
                self.in_zone(signer);
            }
        }
    }

    /// Keeps the RRsets of these records.
    fn sets(&mut self, records: &mut Records<'_>, members: &[usize]) -> Result<(), ReplyFault> {
        let mut sets = 0;
        for &at in members {
            if records.all.get(at).is_some_and(|found| !found.taken) {
                sets += 1;
                if sets > MAX_SETS {
                    return Err(ReplyFault::SetTooLarge);
                }
                self.set(records, at)?;
            }
        }
        Ok(())
    }

    /// Adds the CNAME synthesized from a DNAME (RFC 6672 §3.1).
    pub(super) fn synthesized(&mut self, owner: Name<'_>, target: Name<'_>, ttl: Ttl) {
        self.push(Section::Answer, owner, Type::CNAME, ttl, target.as_wire());
    }

    fn push(&mut self, section: Section, owner: Name<'_>, rtype: Type, ttl: Ttl, rdata: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(owner.as_wire());
        let middle = self.bytes.len();
        self.bytes.extend_from_slice(rdata);
        let place = Place { section, owner: start..middle, rtype, ttl, rdata: middle..self.bytes.len() };
        self.records.push(place);
    }
}

/// Lowers the case of the longest end of a name that is, letter by letter, an end of the name as sent: a
/// server that compresses names repeats our random letter case there.
fn lower_what_was_sent(wire: &mut [u8], sent: Name<'_>) {
    let same = sent.ancestors().find(|end| ends_with_labels(wire, end.as_wire()));
    let len = same.map_or(0, |end| end.len());
    let at = wire.len() - len;
    wire[at..].make_ascii_lowercase();
}

/// Whether the labels of `end` are the last ones of the name in `wire`.
fn ends_with_labels(wire: &[u8], end: &[u8]) -> bool {
    let Ok(name) = Name::from_wire(wire) else { return false };
    name.ancestors().any(|ancestor| ancestor.as_wire() == end)
}
