//! Authoritative answers from a reference model: finds each name by walking down from the apex, and each
//! RRset by scanning the whole zone. Tests compare the server's answers with it.
//!
//! Sections are lists of records without a size limit; messages are encoded elsewhere.

use std::collections::BTreeSet;

use wire::{Name, NameBuf, Rcode, Ttl, Type};

use crate::model::{ModelSet, ModelZone, canonical, longest_match};

/// One record of a section. Owners compare without letter case.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    /// Owner.
    pub owner: NameBuf,
    /// Type.
    pub rtype: Type,
    /// TTL.
    pub ttl: Ttl,
    /// RDATA, uncompressed, in canonical form.
    pub rdata: Vec<u8>,
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {} ", self.owner, self.ttl, self.rtype)?;
        wire::rdata::write_text(self.rtype, &self.rdata, f)
    }
}

impl Line {
    /// Returns the record with the names in its RDATA in lower case, for comparison.
    pub fn canonical(&self) -> Line {
        Line { rdata: canonical(self.rtype, &self.rdata), ..self.clone() }
    }
}

/// The zones that answers are made from.
#[derive(Clone, Debug)]
pub struct ModelZones {
    /// The zones.
    pub zones: Vec<ModelZone>,
    /// Apexes of zones that are configured but not loaded.
    pub unloaded: Vec<NameBuf>,
    /// Maximum number of CNAME and DNAME links followed.
    pub max_chain: usize,
}

/// Why no zone answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// No zone holds the name.
    NoZone,
    /// The zone that holds the name is not loaded.
    NotLoaded,
}

/// What a response must contain.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Response code.
    pub rcode: Rcode,
    /// AA.
    pub authoritative: bool,
    /// Answer section, without the records of `one_of`.
    pub answer: Vec<Line>,
    /// If not empty, the answer section also contains exactly one of these RRsets (RFC 8482 §4.1).
    pub one_of: Vec<Vec<Line>>,
    /// Authority.
    pub authority: Vec<Line>,
    /// Additional section, if all of it fits.
    pub additional: Vec<Line>,
    /// The cut of a referral: glue at or below it is required (RFC 9471 §3.1).
    pub cut: Option<NameBuf>,
    /// Whether TTLs of signatures are ignored: the model does not keep the TTL of an RRSIG that covers no
    /// RRset.
    pub sig_ttls_unknown: bool,
}

impl Expected {
    /// No record in any section.
    pub fn nothing(rcode: Rcode) -> Self {
        Expected {
            rcode,
            authoritative: false,
            answer: Vec::new(),
            one_of: Vec::new(),
            authority: Vec::new(),
            additional: Vec::new(),
            cut: None,
            sig_ttls_unknown: false,
        }
    }

    /// Compares the sections of a response with the expected ones; the error says what differs.
    pub fn compare(&self, sections: &[Vec<Line>; 3]) -> Result<(), String> {
        let answers = match &self.one_of[..] {
            [] => vec![self.answer.clone()],
            sets => sets.iter().map(|set| [&self.answer[..], set].concat()).collect(),
        };
        let expected = [answers, vec![self.authority.clone()], vec![self.additional.clone()]];
        for ((section, expected), got) in
            ["answer", "authority", "additional"].iter().zip(expected).zip(sections)
        {
            let got = self.comparable(got);
            if expected.iter().all(|expected| self.comparable(expected) != got) {
                return Err(format!("{section} {got:#?}, expected {expected:#?}"));
            }
        }
        Ok(())
    }

    /// Returns the records in canonical form, in a fixed order.
    pub fn comparable(&self, lines: &[Line]) -> Vec<Line> {
        let mut lines: Vec<Line> = lines.iter().map(Line::canonical).collect();
        for line in lines.iter_mut().filter(|line| self.sig_ttls_unknown && line.rtype == Type::RRSIG) {
            line.ttl = Ttl::ZERO;
        }
        lines.sort();
        lines
    }
}

impl ModelZones {
    /// Returns the apex of the zone that answers the question, loaded or not (RFC 1034 §4.3.2 step 2). The
    /// parent answers for DS (RFC 4035 §3.1.4.1).
    pub fn apex_for(&self, name: Name<'_>, qtype: Type) -> Option<NameBuf> {
        let ModelZones { zones, unloaded, .. } = self;
        let apexes: Vec<NameBuf> = zones.iter().map(|z| z.apex().to_buf()).chain(unloaded.clone()).collect();
        let own = longest_match(&apexes, name)?;
        let others: Vec<NameBuf> = apexes.into_iter().filter(|apex| apex.as_name() != name).collect();
        let above = longest_match(&others, name).filter(|_| qtype == Type::DS);
        Some(above.unwrap_or(own))
    }

    /// Returns the expected answer to a question.
    pub fn answer(&self, qname: Name<'_>, qtype: Type, dnssec_ok: bool) -> Result<Expected, NoAnswer> {
        let sig_ttls_unknown = !self.zones.iter().all(ModelZone::is_signed);
        let expected = Expected { sig_ttls_unknown, ..Expected::nothing(Rcode::NOERROR) };
        let mut out = Out { served: self, qtype, dnssec_ok, expected, proofs: Vec::new() };
        let mut name = qname.to_buf();
        let mut seen = vec![name];
        let mut zone = out.zone_for(name.as_name())?;
        loop {
            let next = out.step(zone, name.as_name(), seen.len() == 1);
            match next.filter(|next| seen.len() <= self.max_chain && !seen.contains(next)) {
                Some(next) => name = next,
                None => break,
            }
            match out.zone_for(name.as_name()) {
                Ok(next) => zone = next,
                Err(_) => break,
            }
            seen.push(name);
        }
        let (mut expected, proofs) = (out.expected, out.proofs);
        expected.authority.extend(proofs.into_iter().flat_map(|(_, lines)| lines));
        Ok(expected)
    }
}

/// Result of looking a name up in a zone.
enum LookupResult {
    /// The owner of the records: the name itself, or the wildcard that matches it.
    Node(NameBuf),
    Cut(NameBuf),
    Dname(NameBuf),
    Nothing,
}

struct Out<'a> {
    served: &'a ModelZones,
    qtype: Type,
    dnssec_ok: bool,
    expected: Expected,
    /// NSEC or NSEC3 records for the authority section, by owner.
    proofs: Vec<(NameBuf, Vec<Line>)>,
}

/// Returns the name in the RDATA of the RRset's first record.
fn first_name(set: &ModelSet) -> NameBuf {
    Name::from_wire(&set.rdatas[0]).expect("a name").to_buf()
}

/// Returns the names from the apex down to `name`.
fn way_down(zone: &ModelZone, name: Name<'_>) -> Vec<NameBuf> {
    let inside = |n: &Name<'_>| n.is_at_or_below(zone.apex());
    let mut way: Vec<NameBuf> = name.ancestors().take_while(inside).map(Name::to_buf).collect();
    way.reverse();
    way
}

/// Returns the closest encloser, and the next closer name unless `name` itself exists.
fn encloser(zone: &ModelZone, name: Name<'_>) -> (NameBuf, Option<NameBuf>) {
    let way = way_down(zone, name);
    let there = way.iter().take_while(|n| zone.exists(n.as_name())).count();
    (way[there - 1], way.get(there).copied())
}

fn star(name: NameBuf) -> Option<NameBuf> {
    NameBuf::prepend(b"*", name.as_name()).ok()
}

impl<'a> Out<'a> {
    fn zone_for(&self, name: Name<'_>) -> Result<&'a ModelZone, NoAnswer> {
        let apex = self.served.apex_for(name, self.qtype).ok_or(NoAnswer::NoZone)?;
        self.served.zones.iter().find(|zone| zone.apex() == apex.as_name()).ok_or(NoAnswer::NotLoaded)
    }

    /// Looks `name` up from the apex down, label by label (RFC 1034 §4.3.2 step 3).
    fn find(&self, zone: &ModelZone, name: Name<'_>) -> LookupResult {
        for at in way_down(zone, name) {
            if at.as_name() != zone.apex() && zone.has(at.as_name(), Type::NS) {
                // The DS RRset of the cut itself belongs to this zone.
                if at.as_name() == name && self.qtype == Type::DS {
                    return LookupResult::Node(at);
                }
                return LookupResult::Cut(at);
            }
            if at.as_name() != name && zone.has(at.as_name(), Type::DNAME) {
                return LookupResult::Dname(at);
            }
        }
        match encloser(zone, name) {
            (there, None) => LookupResult::Node(there),
            (there, Some(_)) => match star(there).filter(|star| zone.exists(star.as_name())) {
                Some(star) => LookupResult::Node(star),
                None => LookupResult::Nothing,
            },
        }
    }

    fn lines(&self, owner: Name<'_>, t: Type, set: &ModelSet) -> Vec<Line> {
        let line = |rtype, ttl, rdata: &Vec<u8>| Line {
            owner: owner.to_buf(),
            rtype,
            ttl,
            rdata: canonical(rtype, rdata),
        };
        let mut lines: Vec<Line> = set.rdatas.iter().map(|rdata| line(t, set.ttl, rdata)).collect();
        if self.dnssec_ok {
            lines.extend(set.sigs.iter().map(|rdata| line(Type::RRSIG, set.sig_ttl, rdata)));
        }
        lines
    }

    fn step(&mut self, zone: &ModelZone, name: Name<'_>, first: bool) -> Option<NameBuf> {
        let found = self.find(zone, name);
        self.expected.authoritative |= first && !matches!(found, LookupResult::Cut(_));
        let proving = self.dnssec_ok && zone.is_signed();
        match found {
            LookupResult::Cut(cut) => {
                self.expected.cut = Some(cut);
                self.referral(zone, name, cut, proving);
                None
            }
            LookupResult::Dname(owner) => self.dname(zone, name, owner),
            LookupResult::Node(node) => self.data(zone, name, node, proving),
            LookupResult::Nothing => {
                self.expected.rcode = Rcode::NXDOMAIN;
                self.soa(zone);
                if proving {
                    self.no_name(zone, name);
                }
                None
            }
        }
    }

    fn data(&mut self, zone: &ModelZone, name: Name<'_>, node: NameBuf, proving: bool) -> Option<NameBuf> {
        let mut sets = zone.sets(node.as_name());
        // NSEC3 records at this owner name belong to the chain, not to the name (RFC 5155 §7.2.8).
        sets.remove(&Type::NSEC3);
        let mut next = None;
        let answered = match self.qtype {
            Type::ANY => {
                let all = sets.iter().map(|(t, set)| self.lines(name, *t, set)).collect::<Vec<_>>();
                self.expected.one_of = all;
                !sets.is_empty()
            }
            Type::RRSIG => {
                let dnssec_ok = std::mem::replace(&mut self.dnssec_ok, true);
                let lines: Vec<Line> = sets.iter().flat_map(|(t, set)| self.lines(name, *t, set)).collect();
                self.dnssec_ok = dnssec_ok;
                let before = self.expected.answer.len();
                self.expected.answer.extend(lines.into_iter().filter(|line| line.rtype == Type::RRSIG));
                self.expected.answer.len() > before
            }
            qtype => match (sets.get(&qtype), sets.get(&Type::CNAME)) {
                (Some(set), _) => {
                    let lines = self.lines(name, qtype, set);
                    self.expected.answer.extend(lines);
                    if [Type::NS, Type::MX, Type::SRV, Type::SVCB, Type::HTTPS].contains(&qtype) {
                        self.hosts(zone, name, node, qtype, set);
                    }
                    true
                }
                (None, Some(set)) => {
                    let lines = self.lines(name, Type::CNAME, set);
                    self.expected.answer.extend(lines);
                    next = Some(first_name(set));
                    true
                }
                (None, None) => false,
            },
        };
        if !answered {
            self.soa(zone);
        }
        if proving {
            self.prove_data(zone, name, node, answered);
        }
        next
    }

    /// Follows a DNAME (RFC 6672 §3.2). The TTL of the synthesized CNAME is that of the DNAME (§3.1).
    fn dname(&mut self, zone: &ModelZone, name: Name<'_>, owner: NameBuf) -> Option<NameBuf> {
        let set = &zone.sets(owner.as_name())[&Type::DNAME];
        for line in self.lines(owner.as_name(), Type::DNAME, set) {
            if !self.expected.answer.contains(&line) {
                self.expected.answer.push(line);
            }
        }
        let keep = name.label_count() - owner.as_name().label_count();
        let mut made = Vec::new();
        for label in name.labels().take(keep) {
            made.push(label.len() as u8);
            made.extend_from_slice(label);
        }
        made.extend_from_slice(first_name(set).as_name().as_wire());
        let Ok(made) = Name::from_wire(&made).map(Name::to_buf) else {
            self.expected.rcode = Rcode::YXDOMAIN;
            return None;
        };
        let rdata = canonical(Type::CNAME, made.as_name().as_wire());
        self.expected.answer.push(Line { owner: name.to_buf(), rtype: Type::CNAME, ttl: set.ttl, rdata });
        (!matches!(self.qtype, Type::CNAME | Type::ANY)).then_some(made)
    }

    fn referral(&mut self, zone: &ModelZone, name: Name<'_>, cut: NameBuf, proving: bool) {
        let sets = zone.sets(cut.as_name());
        let dnssec_ok = std::mem::replace(&mut self.dnssec_ok, false);
        let lines = self.lines(cut.as_name(), Type::NS, &sets[&Type::NS]);
        self.dnssec_ok = dnssec_ok;
        self.expected.authority.extend(lines);
        self.hosts(zone, name, cut, Type::NS, &sets[&Type::NS]);
        if proving {
            match sets.get(&Type::DS) {
                Some(ds) => {
                    let lines = self.lines(cut.as_name(), Type::DS, ds);
                    self.expected.authority.extend(lines);
                }
                None => self.prove_absence_at(zone, cut.as_name()),
            }
        }
    }

    /// Adds the addresses of the hosts that an RRset names, as far as this zone has them, by name or by
    /// wildcard.
    fn hosts(&mut self, zone: &ModelZone, name: Name<'_>, node: NameBuf, t: Type, set: &ModelSet) {
        let at = match t {
            Type::MX | Type::SVCB | Type::HTTPS => 2,
            Type::SRV => 6,
            _ => 0,
        };
        let mut seen = BTreeSet::new();
        for rdata in &set.rdatas {
            let target = Name::parse(&rdata[at..]).expect("a name");
            // `.` in ServiceMode means the owner name, here the name that was asked for (RFC 9460 §2.5.2).
            let own = matches!(t, Type::SVCB | Type::HTTPS) && target.is_root() && rdata[..2] != [0, 0];
            let (owner, target) = if own { (name, node.as_name()) } else { (target, target) };
            if !seen.insert(target.to_buf()) {
                continue;
            }
            let there = zone.exists(target);
            let mut types = vec![Type::A, Type::AAAA];
            // SVCB records of another target name are added, too (RFC 9460 §4.1).
            if matches!(t, Type::SVCB | Type::HTTPS) && there && target != node.as_name() {
                types.push(t);
            }
            let sets = match there || !target.is_at_or_below(zone.apex()) {
                true => zone.sets(target),
                false => match self.find(zone, target) {
                    LookupResult::Node(star) => zone.sets(star.as_name()),
                    _ => continue,
                },
            };
            for t in types {
                let lines = sets.get(&t).map(|set| self.lines(owner, t, set));
                self.expected.additional.extend(lines.into_iter().flatten());
            }
        }
    }

    /// Adds the SOA record with the lesser of its TTL and MINIMUM as TTL (RFC 2308 §3).
    fn soa(&mut self, zone: &ModelZone) {
        let set = &zone.sets(zone.apex())[&Type::SOA];
        let minimum = set.rdatas[0].last_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        let ttl = Ttl::from_secs(set.ttl.as_secs().min(minimum));
        let mut lines = self.lines(zone.apex(), Type::SOA, set);
        lines.iter_mut().for_each(|line| line.ttl = ttl);
        self.expected.authority.extend(lines);
    }
}

/// Proofs: RFC 4035 §3.1.3 and RFC 5155 §7.2.
impl Out<'_> {
    fn prove_data(&mut self, zone: &ModelZone, name: Name<'_>, node: NameBuf, answered: bool) {
        let (_, next_closer) = encloser(zone, name);
        let nsec3 = zone.nsec3_chain().is_some();
        match (next_closer, answered) {
            (None, true) => {}
            (None, false) => self.prove_absence_at(zone, name),
            // RFC 5155 §7.2.6, RFC 4035 §3.1.3.3.
            (Some(next_closer), true) if nsec3 => self.cover(zone, next_closer.as_name()),
            (Some(_), true) => self.nsec(zone, name),
            // RFC 5155 §7.2.5, RFC 4035 §3.1.3.4.
            (Some(_), false) if nsec3 => {
                self.closest_provable(zone, name);
                self.matching(zone, node.as_name());
            }
            (Some(_), false) => {
                self.nsec(zone, name);
                self.nsec(zone, node.as_name());
            }
        }
    }

    /// Proves that an existing name does not have the type asked for, or DS.
    fn prove_absence_at(&mut self, zone: &ModelZone, name: Name<'_>) {
        if zone.nsec3_chain().is_none() {
            return self.nsec(zone, name);
        }
        if !self.matching(zone, name) {
            self.closest_provable(zone, name);
        }
    }

    fn no_name(&mut self, zone: &ModelZone, name: Name<'_>) {
        if zone.nsec3_chain().is_none() {
            self.nsec(zone, name);
            if let Some(star) = star(encloser(zone, name).0) {
                self.nsec(zone, star.as_name());
            }
            return;
        }
        if let Some(star) = star(self.closest_provable(zone, name)) {
            self.cover(zone, star.as_name());
        }
    }

    /// Proves and returns the closest provable encloser (RFC 5155 §7.2.1): opt-out may have left out names
    /// below it.
    fn closest_provable(&mut self, zone: &ModelZone, name: Name<'_>) -> NameBuf {
        let way = way_down(zone, name);
        let exists = way.iter().take_while(|n| zone.exists(n.as_name())).count().min(way.len() - 1);
        for at in (0..exists).rev() {
            if self.matching(zone, way[at].as_name()) {
                self.cover(zone, way[at + 1].as_name());
                return way[at];
            }
        }
        zone.apex().to_buf()
    }

    /// Adds the NSEC record at the name or, if it has none, the one before it.
    fn nsec(&mut self, zone: &ModelZone, name: Name<'_>) {
        if let Some(owner) = zone.nsec_covering(name) {
            self.prove(zone, owner, Type::NSEC);
        }
    }

    fn hash_text(&self, zone: &ModelZone, name: Name<'_>) -> Vec<u8> {
        let param = &zone.sets(zone.apex())[&Type::NSEC3PARAM].rdatas[0];
        let iterations = u16::from_be_bytes([param[2], param[3]]);
        let hash = dnssec::nsec3::hash(name.to_lower().as_lower(), &param[5..], iterations);
        base32hex(&hash)
    }

    fn matching(&mut self, zone: &ModelZone, name: Name<'_>) -> bool {
        let found = zone.nsec3_chain().and_then(|chain| chain.get(&self.hash_text(zone, name)).copied());
        if let Some(owner) = found {
            self.prove(zone, owner, Type::NSEC3);
        }
        found.is_some()
    }

    /// Adds the NSEC3 record with the greatest hash that is at most that of the name, or else the last one.
    fn cover(&mut self, zone: &ModelZone, name: Name<'_>) {
        let (chain, hash) = (zone.nsec3_chain().expect("a chain"), self.hash_text(zone, name));
        let before = chain.iter().rfind(|(text, _)| **text <= hash);
        if let Some((_, owner)) = before.or(chain.iter().next_back()) {
            self.prove(zone, *owner, Type::NSEC3);
        }
    }

    fn prove(&mut self, zone: &ModelZone, owner: NameBuf, t: Type) {
        if self.proofs.iter().all(|(known, _)| *known != owner) {
            let lines = self.lines(owner.as_name(), t, &zone.sets(owner.as_name())[&t]);
            self.proofs.push((owner, lines));
        }
    }
}

/// Encodes in Base 32 with the extended hex alphabet in lower case (RFC 4648 §7). The length must be a
/// multiple of 5 bytes.
pub fn base32hex(bytes: &[u8]) -> Vec<u8> {
    let bit = |i: usize| bytes[i / 8] >> (7 - i % 8) & 1;
    let digit = |d: usize| (0..5).fold(0, |value, i| value << 1 | bit(5 * d + i));
    let digits = (0..bytes.len() * 8 / 5).map(|d| digit(d) as usize);
    digits.map(|digit| b"0123456789abcdefghijklmnopqrstuv"[digit]).collect()
}
