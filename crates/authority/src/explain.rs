//! Explains an answer: the zone, the node, the rule and the proofs, step by step, for people and programs.
//!
//! Uses the same lookup as answering does; only the steps are its own.

mod proof;

use std::fmt;

use wire::hash::{HashKey, HashedName};
use wire::rdata::view::{Rrsig, SigAlgorithm};
use wire::text::write_time;
use wire::{Name, NameBuf, Serial, Ttl, Type};
use zone::catalog::{Catalog, OnlineDenial, ZoneEntry};
use zone::store::{Node, NodeFlags, Rdata, Zone};

use crate::lookup::{self, LookupResult, zone_for};
use proof::Prover;
pub use proof::{DenialClaim, Proof};

/// One step of the explanation of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The name that the step is about.
    pub name: NameBuf,
    /// The result or action.
    pub kind: StepKind,
}

/// A signature in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignatureUse {
    /// The tag of its key.
    pub tag: u16,
    /// The algorithm of its key.
    pub algorithm: SigAlgorithm,
    /// When it expires, in seconds since 1970 modulo 2^32.
    pub expiration: Serial,
}

impl fmt::Display for SignatureUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {}/{} until ", self.tag, self.algorithm)?;
        write_time(self.expiration.0, f)
    }
}

/// A result for a name, or an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// AXFR and IXFR request a zone, not a name: there is no lookup to explain.
    Transfer(Type),
    /// No zone in service covers the name.
    NoZone,
    /// The zone that answers: the closest to the name.
    Zone,
    /// The same, and the zone is of the client's view.
    ZoneOfView,
    /// The zone's access rules do not allow the query.
    Barred,
    /// The zone is not loaded.
    NotLoaded,
    /// The zone's version.
    Snapshot {
        /// Its serial.
        serial: Serial,
        /// Number of records.
        records: u64,
        /// Whether answers can carry proofs.
        signed: bool,
        /// How answers deny names and types, if they are signed while answering.
        online: Option<OnlineDenial>,
    },
    /// The name is in the zone, with these types; an empty non-terminal has none.
    Exists(Vec<Type>),
    /// The name is not in the zone, and this wildcard matches it.
    Wildcard(NameBuf),
    /// The name is a zone cut, with these types.
    Cut(Vec<Type>),
    /// The answer is a referral to the name servers of this name.
    Referral,
    /// This name has a DNAME, and QNAME is below it.
    Dname,
    /// A CNAME to this name is synthesized.
    MadeCname(NameBuf),
    /// The name that the DNAME yields would be too long.
    TooLong,
    /// The name does not exist, nor does a wildcard at its closest encloser, which is this name.
    NotThere(NameBuf),
    /// The answer is NXDOMAIN, with this negative TTL.
    NxDomain(Ttl),
    /// The answer is this RRset.
    Answer {
        /// Its type.
        rtype: Type,
        /// Number of its records.
        count: u16,
        /// Their TTL.
        ttl: Ttl,
        /// Its signatures.
        signatures: Vec<SignatureUse>,
    },
    /// The answer is all signatures at the name; their number.
    Signatures(u64),
    /// The answer is one of the RRsets at the name.
    AnyOne,
    /// The name has a CNAME: the answer continues with this name.
    Cname(NameBuf),
    /// The answer is NODATA for this type, with this negative TTL.
    NoData(Type, Ttl),
    /// The chain has been at this name before, and ends.
    Loop,
    /// The chain has reached the limit of links, and ends.
    LastLink(u8),
    /// A record that proves part of the answer, sent to clients that set DO.
    Proof(Proof),
}

impl StepKind {
    /// Returns a keyword for programs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Transfer(_) => "transfer",
            Self::NoZone => "no-zone",
            Self::Zone | Self::ZoneOfView => "zone",
            Self::Barred => "barred",
            Self::NotLoaded => "not-loaded",
            Self::Snapshot { .. } => "snapshot",
            Self::Exists(types) if types.is_empty() => "empty-non-terminal",
            Self::Exists(_) => "exists",
            Self::Wildcard(_) => "wildcard",
            Self::Cut(_) => "cut",
            Self::Referral => "referral",
            Self::Dname => "dname",
            Self::MadeCname(_) => "made-cname",
            Self::TooLong => "yxdomain",
            Self::NotThere(_) => "not-there",
            Self::NxDomain(_) => "nxdomain",
            Self::Answer { .. } => "answer",
            Self::Signatures(_) => "signatures",
            Self::AnyOne => "any",
            Self::Cname(_) => "cname",
            Self::NoData(..) => "nodata",
            Self::Loop => "loop",
            Self::LastLink(_) => "last-link",
            Self::Proof(_) => "proof",
        }
    }

    /// Returns the section of the RFC with the rule for this step, if there is one.
    pub fn rule(&self) -> Option<&'static str> {
        Some(match self {
            Self::Transfer(_) => "RFC 5936 §2.1, RFC 1995 §2",
            Self::Zone | Self::ZoneOfView => "RFC 1034 §4.3.2 step 2",
            Self::Wildcard(_) => "RFC 4592 §3.3",
            Self::Cut(_) => "RFC 1034 §4.3.2 step 3b",
            Self::Dname => "RFC 6672 §3.2",
            Self::MadeCname(_) => "RFC 6672 §3.1",
            Self::TooLong => "RFC 6672 §2.2",
            Self::NxDomain(_) => "RFC 2308 §2.1",
            Self::AnyOne => "RFC 8482 §4.1",
            Self::Cname(_) => "RFC 1034 §4.3.2 step 3a",
            Self::NoData(..) => "RFC 2308 §2.2",
            Self::Loop => "RFC 1034 §3.6.2",
            Self::Proof(proof) if proof.rtype == Type::NSEC => "RFC 4035 §3.1.3",
            Self::Proof(_) => "RFC 5155 §7.2",
            _ => return None,
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_step(self.name, &self.kind, f)?;
        self.kind.rule().map_or(Ok(()), |rule| write!(f, " [{rule}]"))
    }
}

fn write_step(name: NameBuf, kind: &StepKind, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match kind {
        StepKind::Transfer(qtype) => {
            write!(f, "{qtype} asks for the whole zone {name}, not for a name: there is nothing to look up")
        }
        StepKind::NoZone => {
            write!(f, "no zone here holds {name}: REFUSED, or the chain ends for the client to follow")
        }
        StepKind::Zone => write!(f, "zone {name} is the closest that holds the name"),
        StepKind::ZoneOfView => {
            write!(f, "zone {name} of the client's view is the closest that holds the name")
        }
        StepKind::Barred => write!(
            f,
            "`allow-query` of zone {name} does not allow the query: REFUSED, or the chain ends with the alias"
        ),
        StepKind::NotLoaded => write!(f, "zone {name} is not loaded: SERVFAIL"),
        StepKind::Snapshot { serial, records, signed, online } => {
            write!(f, "snapshot: serial {serial}, {records} records, ")?;
            match online {
                Some(denial) => write!(f, "signed while answering ({} denial)", denial.word()),
                None => f.write_str(if *signed { "signed" } else { "not signed" }),
            }
        }
        StepKind::Exists(types) if types.is_empty() => {
            write!(f, "{name} is in the zone: an empty non-terminal")
        }
        StepKind::Exists(types) => write!(f, "{name} is in the zone: {}", words(types)),
        StepKind::Wildcard(wildcard) => write!(f, "{name} is not there, {wildcard} matches it"),
        StepKind::Cut(types) => write!(f, "{name} is a zone cut: {}", words(types)),
        StepKind::Referral => write!(f, "referral to the name servers of {name}"),
        StepKind::Dname => write!(f, "the name lies below the DNAME at {name}"),
        StepKind::MadeCname(target) => write!(f, "a CNAME from {name} to {target} is made"),
        StepKind::TooLong => write!(f, "YXDOMAIN: the name made of {name} would be too long"),
        StepKind::NotThere(encloser) => {
            write!(f, "{name} is not there; its closest encloser is {encloser}, without a wildcard")
        }
        StepKind::NxDomain(ttl) => write!(f, "NXDOMAIN, negative TTL {ttl} s"),
        StepKind::Answer { rtype, count, ttl, signatures } => {
            write!(f, "answer: {count} {rtype}, TTL {ttl}, signatures {}", signatures.len())?;
            signatures.iter().try_for_each(|signature| write!(f, ", {signature}"))
        }
        StepKind::Signatures(count) => write!(f, "answer: {count} signatures"),
        StepKind::AnyOne => f.write_str("answer: one RRset of those there"),
        StepKind::Cname(target) => write!(f, "CNAME: goes on at {target}"),
        StepKind::NoData(qtype, ttl) => write!(f, "no {qtype} there: NODATA, negative TTL {ttl} s"),
        StepKind::Loop => write!(f, "a loop: the chain has been at {name} before, and ends here"),
        StepKind::LastLink(most) => write!(f, "stop: more than {most} links"),
        StepKind::Proof(proof) => write_proof(name, proof, f),
    }
}

fn write_proof(
    name: NameBuf,
    Proof { owner, rtype, claim }: &Proof,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(f, "proof, with DO: {rtype} at {owner} says that ")?;
    match claim {
        DenialClaim::NoName => write!(f, "{name} does not exist"),
        DenialClaim::NoSignedName => write!(f, "{name} does not exist or is not signed (opt-out)"),
        DenialClaim::NoType(qtype) => write!(f, "{name} has no {qtype}"),
        DenialClaim::NoRecords => write!(f, "{name} has no records"),
        DenialClaim::Encloser => write!(f, "{name} exists, the closest encloser"),
    }
}

fn words(types: &[Type]) -> String {
    types.iter().map(Type::to_string).collect::<Vec<_>>().join(" ")
}

/// Returns the steps that explain the answer to a query for `qname` and `qtype`. Proofs follow the step
/// that needs them; otherwise the last step is the answer. `may_enter` returns whether the client may
/// query a zone.
pub fn explain(
    catalog: &Catalog,
    key: &HashKey,
    qname: Name<'_>,
    qtype: Type,
    max_chain: u8,
    may_enter: &dyn Fn(&ZoneEntry) -> bool,
) -> Vec<Step> {
    let mut steps = Vec::new();
    if matches!(qtype, Type::AXFR | Type::IXFR) {
        steps.push(Step { name: qname.to_buf(), kind: StepKind::Transfer(qtype) });
        return steps;
    }
    let mut name = qname.to_buf();
    let mut hashed = HashedName::new();
    let mut names = Vec::new();
    loop {
        hashed.set(key, name.as_name());
        if names.contains(&hashed.hash(0)) {
            steps.push(Step { name, kind: StepKind::Loop });
            break;
        }
        if names.len() > usize::from(max_chain) {
            steps.push(Step { name, kind: StepKind::LastLink(max_chain) });
            break;
        }
        names.push(hashed.hash(0));
        let asked = Asked { key, name: name.as_name(), hashed: &hashed, qtype, may_enter };
        match asked.explain(catalog, &mut steps) {
            Some(target) => name = target,
            None => break,
        }
    }
    steps
}

/// A name of the chain, with the query's type.
struct Asked<'a> {
    key: &'a HashKey,
    name: Name<'a>,
    hashed: &'a HashedName,
    qtype: Type,
    may_enter: &'a dyn Fn(&ZoneEntry) -> bool,
}

impl Asked<'_> {
    /// Adds the steps for the name, and returns the target if the chain continues.
    fn explain(&self, catalog: &Catalog, steps: &mut Vec<Step>) -> Option<NameBuf> {
        let Asked { name, qtype, hashed, .. } = *self;
        let Some(located) = zone_for(catalog, hashed, qtype) else {
            say(steps, name, StepKind::NoZone);
            return None;
        };
        let (entry, below) = (catalog.entry(located)?, located.below());
        let apex = entry.name().as_name();
        say(steps, apex, if entry.is_in_view() { StepKind::ZoneOfView } else { StepKind::Zone });
        if !(self.may_enter)(entry) {
            say(steps, apex, StepKind::Barred);
            return None;
        }
        let Some(zone) = entry.zone() else {
            say(steps, apex, StepKind::NotLoaded);
            return None;
        };
        let (serial, records, signed) = (zone.serial(), zone.record_count(), zone.is_signed());
        let signer = entry.signer().filter(|_| zone.is_chainless());
        let online = signer.map(|signer| signer.denial());
        say(steps, apex, StepKind::Snapshot { serial, records, signed, online });
        let parent_side = qtype == Type::DS && below > 0;
        let found = lookup::find(zone, self.key, hashed, below, parent_side);
        let next = self.found(zone, found, steps);
        if signed {
            let found_proof = &mut |name: Name<'_>, proof| say(steps, name, StepKind::Proof(proof));
            let mut prover = Prover { zone, name: hashed, below, qtype, found: found_proof };
            match found {
                LookupResult::Exact(node) => prover.data(node, None, self.answers(node)),
                LookupResult::Wildcard { node, skip } => prover.data(node, Some(skip), self.answers(node)),
                LookupResult::Nothing { skip } => prover.no_name(skip),
                LookupResult::Cut { node, skip } if node.rrset(Type::DS).is_none() => {
                    prover.no_ds(node, skip)
                }
                LookupResult::Cut { .. } | LookupResult::Dname { .. } => {}
            }
        }
        next
    }

    fn found(&self, zone: &Zone, found: LookupResult<'_>, steps: &mut Vec<Step>) -> Option<NameBuf> {
        let name = self.name;
        match found {
            LookupResult::Exact(node) => {
                say(steps, name, StepKind::Exists(types(node)));
                self.at_node(zone, node, steps)
            }
            LookupResult::Wildcard { node, .. } => {
                say(steps, name, StepKind::Wildcard(node.owner().as_name().to_buf()));
                self.at_node(zone, node, steps)
            }
            LookupResult::Cut { node, .. } => {
                say(steps, node.owner().as_name(), StepKind::Cut(types(node)));
                say(steps, node.owner().as_name(), StepKind::Referral);
                None
            }
            LookupResult::Dname { node, .. } => {
                say(steps, node.owner().as_name(), StepKind::Dname);
                let target = first_name(node, Type::DNAME)?;
                let labels = node.owner().label_count();
                match NameBuf::replace_suffix(name, labels, target.as_name()) {
                    Ok(made) => {
                        say(steps, name, StepKind::MadeCname(made));
                        Some(made).filter(|_| !matches!(self.qtype, Type::CNAME | Type::ANY))
                    }
                    Err(_) => {
                        say(steps, name, StepKind::TooLong);
                        None
                    }
                }
            }
            LookupResult::Nothing { skip } => {
                say(steps, name, StepKind::NotThere(name.skip(skip).to_buf()));
                say(steps, name, StepKind::NxDomain(zone.negative_ttl()));
                None
            }
        }
    }

    /// Whether the node has records of QTYPE, or a CNAME.
    fn answers(&self, node: Node<'_>) -> bool {
        match self.qtype {
            Type::ANY => node.rrsets().any(|set| set.rtype() != Type::NSEC3),
            Type::RRSIG => signatures(node) > 0,
            Type::NSEC3 => node.rrset(Type::CNAME).is_some(),
            qtype => node.rrset(qtype).or_else(|| node.rrset(Type::CNAME)).is_some(),
        }
    }

    /// Adds the step for a node that was found. Returns the target of a CNAME that is followed.
    fn at_node(&self, zone: &Zone, node: Node<'_>, steps: &mut Vec<Step>) -> Option<NameBuf> {
        let Asked { name, qtype, .. } = *self;
        let kind = match qtype {
            _ if !self.answers(node) => StepKind::NoData(qtype, zone.negative_ttl()),
            Type::ANY => StepKind::AnyOne,
            Type::RRSIG => StepKind::Signatures(signatures(node)),
            _ => match node.rrset(qtype).filter(|_| qtype != Type::NSEC3) {
                Some(set) => StepKind::Answer {
                    rtype: qtype,
                    count: set.count(),
                    ttl: set.ttl(),
                    signatures: set.sig_rdatas().filter_map(|sig| signature_use(&sig)).collect(),
                },
                None => StepKind::Cname(first_name(node, Type::CNAME)?),
            },
        };
        let next = if let StepKind::Cname(target) = kind { Some(target) } else { None };
        say(steps, name, kind);
        next
    }
}

fn say(steps: &mut Vec<Step>, name: Name<'_>, kind: StepKind) {
    steps.push(Step { name: name.to_buf(), kind });
}

/// Returns key and expiration of a signature; `None` if it is malformed.
fn signature_use(sig: &Rdata<'_>) -> Option<SignatureUse> {
    let Rrsig { key_tag: tag, algorithm, expiration, .. } = Rrsig::read(sig.compiled()).ok()?;
    Some(SignatureUse { tag, algorithm, expiration })
}

/// Returns the number of signatures at a node.
fn signatures(node: Node<'_>) -> u64 {
    node.rrsets().map(|set| u64::from(set.sig_count())).sum()
}

/// Returns the types at a node; an empty non-terminal has none.
fn types(node: Node<'_>) -> Vec<Type> {
    if node.flags().contains(NodeFlags::EMPTY) {
        return Vec::new();
    }
    node.rrsets().map(|set| set.rtype()).collect()
}

/// Returns the name in the RDATA of the first record of a type.
fn first_name(node: Node<'_>, rtype: Type) -> Option<NameBuf> {
    node.rrset(rtype)?.rdatas().next()?.name()
}
