//! Answers of zones that are signed while answering: the version has the data, and signatures at its apex.
//! All other signatures, and the NSEC records of denials, are made for the answer (RFC 4470, RFC 9824).
//!
//! Such an answer differs from that of a zone with a chain:
//!
//! - A name that a wildcard matches is signed as if it were in the zone: there is nothing to prove about the
//!   wildcard (RFC 9824 §3.3).
//! - The NSEC record of a name of the zone ends right after it, and lists its types.
//! - With compact denial, a name that does not exist has such a record with the type NXNAME, and the response
//!   code is NOERROR, unless the client accepts NXDOMAIN with it (RFC 9824 §5). With minimal denial, two
//!   records cover the next closer name and the wildcard, and no other name.
//! - Addresses of hosts in the additional section are left out, except glue: each would need a signature.
//!
//! This path allocates, and takes short locks of the signer's cache. Answers without DNSSEC records are those
//! of any other zone.

use dnssec::nsec;
use wire::message::{Full, Offset, Owner, Section};
use wire::name::MAX_NAME;
use wire::rdata::canonical;
use wire::{LowerName, NameBuf, Rcode, Ttl, Type};
use zone::catalog::{AnswerSet, AnswerSignatures, AnswerSigner, AnswerUnsigned, OnlineDenial};
use zone::store::{Node, NodeFlags, RrSet};

use crate::ask::Ask;
use crate::chain::{Chase, Step};
use crate::here::Here;
use crate::lookup::{self, LookupResult};
use crate::reply::{Placed, Reply};
use crate::unanswered::Unanswered;

/// The types of an NSEC record without others.
const NO_TYPES: [Type; 2] = [Type::RRSIG, Type::NSEC];
/// Those at a name that does not exist (RFC 9824 §3.1).
const NO_NAME: [Type; 3] = [Type::RRSIG, Type::NSEC, Type::NXNAME];

/// Answers one name of a zone without a chain; `None`: its answers are not signed here, or the client
/// requests no DNSSEC records.
#[cold]
#[inline(never)]
pub(crate) fn step<'z>(ask: &Ask<'_>, here: &Here<'_, 'z>, reply: &mut Reply<'_, '_, 'z>) -> Option<Step> {
    let signer = ask.catalog.get(here.zone.apex().as_name())?.signer()?;
    if ask.qtype == Type::NXNAME {
        return Some(Err(reply.refuse(Unanswered::MetaType)));
    }
    if !ask.dnssec_ok {
        return None;
    }
    Some(Live { ask, here, signer: &**signer }.step(reply))
}

/// A name that is answered, and what signs the answer.
struct Live<'l, 'z> {
    ask: &'l Ask<'l>,
    here: &'l Here<'l, 'z>,
    signer: &'l dyn AnswerSigner,
}

/// An NSEC record to be made.
struct Denial<'d> {
    owner: LowerName<'d>,
    /// The owner as it is written.
    written: Owner<'d>,
    next: Vec<u8>,
    /// Ascending.
    types: Vec<Type>,
    is_of_zone: bool,
}

impl<'z> Live<'_, 'z> {
    fn step(&self, reply: &mut Reply<'_, '_, 'z>) -> Step {
        let (ask, here) = (self.ask, self.here);
        let parent_side = ask.qtype == Type::DS && here.below > 0;
        let found = lookup::find(here.zone, ask.key, here.hashed, here.below, parent_side);
        if let LookupResult::Cut { node, skip } = found {
            if (ask.resolves)() {
                reply.set_delegated();
                return Ok(None);
            }
            return self.referral(node, skip, reply).map(|()| None);
        }
        reply.set_authoritative();
        match found {
            LookupResult::Exact(node) => self.data(node, true, reply),
            LookupResult::Wildcard { node, .. } => self.data(node, false, reply),
            LookupResult::Dname { node, skip } => self.dname(node, skip, reply),
            LookupResult::Nothing { skip } => self.nothing(skip, reply).map(|()| None),
            LookupResult::Cut { .. } => Ok(None),
        }
    }

    /// Answers a name from a node: its own, or that of a wildcard that matches it.
    fn data(&self, node: Node<'z>, is_own: bool, reply: &mut Reply<'_, '_, 'z>) -> Step {
        let here = self.here;
        let set = match self.ask.qtype {
            // One RRset is an answer to ANY (RFC 8482 §4.1).
            Type::ANY => data_sets(node).next(),
            Type::RRSIG => return self.signatures(node, is_own, reply).map(|()| None),
            Type::NSEC => {
                return self.put_nsec(Section::Answer, &self.own(node, is_own), reply).map(|()| None);
            }
            qtype => node.rrset(qtype).filter(|set| is_data(set.rtype())),
        };
        if let Some(set) = set {
            self.put(Section::Answer, set, here.at, is_own, reply)?;
            return Ok(None);
        }
        if let Some(set) = node.rrset(Type::CNAME).filter(|_| self.ask.qtype != Type::ANY) {
            let placed = self.put(Section::Answer, set, here.at, is_own, reply)?;
            let Some(target) = set.rdatas().next().and_then(|rdata| rdata.name()) else { return Ok(None) };
            reply.compare_case(set);
            return Ok(reply.target_at(set, &placed).map(|at| Chase { target, at, dname: None }));
        }
        self.put_soa(reply)?;
        self.put_nsec(Section::Authority, &self.own(node, is_own), reply)?;
        Ok(None)
    }

    /// Answers QTYPE RRSIG with the signatures of the apex, or of one RRset (RFC 8482 §4.1).
    fn signatures(&self, node: Node<'z>, is_own: bool, reply: &mut Reply<'_, '_, 'z>) -> Result<(), Full> {
        let at = self.here.at;
        if is_own && reply.put_sigs(node, at)? {
            return Ok(());
        }
        let Some(set) = data_sets(node).next() else {
            let denial = self.own(node, is_own);
            let (rdata, ttl) = (nsec::record(LowerName::of_checked(&denial.next), &denial.types), self.ttl());
            let made = self.sign(denial.owner, Type::NSEC, ttl, &[rdata], denial.is_of_zone, reply)?;
            return put_signatures(Section::Answer, Owner::At(at), ttl, &made, reply);
        };
        let made = self.sign_set(set, self.here.hashed.as_lower(), is_own, reply)?;
        put_signatures(Section::Answer, Owner::At(at), set.ttl(), &made, reply)
    }

    /// Writes the DNAME, with the CNAME synthesized from it (RFC 6672 §3.1).
    fn dname(&self, node: Node<'z>, skip: usize, reply: &mut Reply<'_, '_, 'z>) -> Step {
        let (ask, here) = (self.ask, self.here);
        let Some(set) = node.rrset(Type::DNAME) else { return Ok(None) };
        let owner = here.hashed.hash(skip);
        if !here.dnames.contains(&owner) {
            let placed = reply.put(Section::Answer, set, here.ancestor_at(skip))?;
            self.put_set_signatures(Section::Answer, set, node.owner(), true, &placed, reply)?;
        }
        let Some(suffix) = set.rdatas().next().and_then(|rdata| rdata.name()) else { return Ok(None) };
        let labels = here.hashed.label_count() - skip;
        let Ok(target) = NameBuf::replace_suffix(here.name, labels, suffix.as_name()) else {
            reply.set_rcode(Rcode::YXDOMAIN);
            return Ok(None);
        };
        let at = reply.put_made(here.at, Type::CNAME, set.ttl(), target.as_name().as_wire())?;
        if ask.qtype == Type::CNAME || ask.qtype == Type::ANY {
            return Ok(None);
        }
        Ok(Some(Chase { target, at, dname: Some(owner) }))
    }

    /// Answers a name that does not exist, and for which no record is synthesized.
    fn nothing(&self, skip: usize, reply: &mut Reply<'_, '_, 'z>) -> Result<(), Full> {
        let here = self.here;
        if self.signer.denial() == OnlineDenial::Minimal {
            reply.set_rcode(Rcode::NXDOMAIN);
            self.put_soa(reply)?;
            return self.cover(skip, reply);
        }
        let denial = self.at_name(NO_NAME.to_vec(), false);
        match self.ask.qtype {
            // The name seems to exist, and its NSEC record says that it has one.
            Type::NSEC => return self.put_nsec(Section::Answer, &denial, reply),
            Type::RRSIG => {
                let (rdata, ttl) =
                    (nsec::record(LowerName::of_checked(&denial.next), &denial.types), self.ttl());
                let made = self.sign(denial.owner, Type::NSEC, ttl, &[rdata], false, reply)?;
                return put_signatures(Section::Answer, Owner::At(here.at), ttl, &made, reply);
            }
            _ => {}
        }
        // The response code is about the end of the chain (RFC 6604 §3).
        if (self.ask.compact_ok)() {
            reply.set_rcode(Rcode::NXDOMAIN);
        }
        self.put_soa(reply)?;
        self.put_nsec(Section::Authority, &denial, reply)
    }

    /// Adds the records that cover the next closer name, and the wildcard of the closest encloser `skip`
    /// labels up (RFC 4470 §3).
    fn cover(&self, skip: usize, reply: &mut Reply<'_, '_, 'z>) -> Result<(), Full> {
        let hashed = self.here.hashed;
        let next_closer = hashed.suffix(skip.saturating_sub(1));
        self.cover_name(next_closer, reply)?;
        let mut buf = [0; MAX_NAME];
        // If the wildcard's name would be too long, no such wildcard can exist.
        match hashed.suffix(skip).wildcard(&mut buf) {
            Ok(wildcard) if wildcard != next_closer => self.cover_name(wildcard, reply),
            _ => Ok(()),
        }
    }

    /// Adds the NSEC record that covers a name and those below it.
    fn cover_name(&self, name: LowerName<'_>, reply: &mut Reply<'_, '_, 'z>) -> Result<(), Full> {
        let zone = self.here.zone;
        let before = nsec::predecessor(name);
        let owner = LowerName::of_checked(&before);
        // The name before one with the label `\000` is its parent.
        let types = zone.find_name(owner.as_name()).map_or(NO_TYPES.to_vec(), types_at);
        let denial = Denial {
            owner,
            written: Owner::Name(owner.as_name()),
            next: nsec::after_below(name, zone.apex()),
            types,
            is_of_zone: false,
        };
        self.put_nsec(Section::Authority, &denial, reply)
    }

    /// Answers a name of a delegated zone: NS of the cut, DS or the proof that there is none, glue.
    fn referral(&self, cut: Node<'z>, skip: usize, reply: &mut Reply<'_, '_, 'z>) -> Result<(), Full> {
        let Some(ns) = cut.rrset(Type::NS) else { return Ok(()) };
        let at = self.here.ancestor_at(skip);
        let placed = reply.put_unsigned(ns, at)?;
        match cut.rrset(Type::DS) {
            Some(ds) => {
                let placed = reply.put(Section::Authority, ds, at)?;
                self.put_set_signatures(Section::Authority, ds, cut.owner(), true, &placed, reply)?;
            }
            None => {
                let written = cut.written_owner();
                let denial = Denial {
                    owner: cut.owner(),
                    written: Owner::Name(written.as_name()),
                    next: nsec::successor(cut.owner(), self.here.zone.apex()),
                    types: types_at(cut),
                    is_of_zone: true,
                };
                self.put_nsec(Section::Authority, &denial, reply)?;
            }
        }
        reply.put_hosts(self.here.zone, ns, &placed, Some(cut))
    }

    /// Returns the NSEC record of the name, which has the types of `node`.
    fn own(&self, node: Node<'_>, is_own: bool) -> Denial<'_> {
        self.at_name(types_at(node), is_own)
    }

    /// Returns the NSEC record of the name with these types.
    fn at_name(&self, types: Vec<Type>, is_of_zone: bool) -> Denial<'_> {
        let (owner, apex) = (self.here.hashed.as_lower(), self.here.zone.apex());
        let next = nsec::successor(owner, apex);
        Denial { owner, written: Owner::At(self.here.at), next, types, is_of_zone }
    }

    fn put_soa(&self, reply: &mut Reply<'_, '_, 'z>) -> Result<(), Full> {
        let Here { zone, below, .. } = *self.here;
        reply.put_soa(zone.apex_node(), self.here.ancestor_at(below), zone.negative_ttl())
    }

    /// TTL of NSEC records (RFC 9077 §3).
    fn ttl(&self) -> Ttl {
        self.here.zone.negative_ttl()
    }

    /// Writes an NSEC record with its signatures.
    fn put_nsec(
        &self,
        section: Section,
        denial: &Denial<'_>,
        reply: &mut Reply<'_, '_, 'z>,
    ) -> Result<(), Full> {
        let (rdata, ttl) = (nsec::record(LowerName::of_checked(&denial.next), &denial.types), self.ttl());
        let made =
            self.sign(denial.owner, Type::NSEC, ttl, std::slice::from_ref(&rdata), denial.is_of_zone, reply)?;
        reply.put_extra(section, denial.written, Type::NSEC, ttl, &rdata)?;
        put_signatures(section, denial.written, ttl, &made, reply)
    }

    /// Writes an RRset with the name at an offset as its owner, and its signatures.
    fn put(
        &self,
        section: Section,
        set: RrSet<'z>,
        at: Offset,
        is_own: bool,
        reply: &mut Reply<'_, '_, 'z>,
    ) -> Result<Placed, Full> {
        let placed = reply.put_at(section, set, at)?;
        self.put_set_signatures(section, set, self.here.hashed.as_lower(), is_own, &placed, reply)?;
        Ok(placed)
    }

    /// Writes the signatures of an RRset that was just written, unless the version has them.
    fn put_set_signatures(
        &self,
        section: Section,
        set: RrSet<'z>,
        owner: LowerName<'_>,
        is_of_zone: bool,
        placed: &Placed,
        reply: &mut Reply<'_, '_, 'z>,
    ) -> Result<(), Full> {
        if set.sig_count() > 0 {
            return Ok(());
        }
        let made = self.sign_set(set, owner, is_of_zone, reply)?;
        put_signatures(section, Owner::At(placed.owner()), set.ttl(), &made, reply)
    }

    fn sign_set(
        &self,
        set: RrSet<'_>,
        owner: LowerName<'_>,
        is_of_zone: bool,
        reply: &mut Reply<'_, '_, 'z>,
    ) -> Result<AnswerSignatures, Full> {
        self.sign(owner, set.rtype(), set.ttl(), &canonical_rdatas(set), is_of_zone, reply)
    }

    fn sign(
        &self,
        owner: LowerName<'_>,
        rtype: Type,
        ttl: Ttl,
        rdatas: &[Vec<u8>],
        is_of_zone: bool,
        reply: &mut Reply<'_, '_, 'z>,
    ) -> Result<AnswerSignatures, Full> {
        let set = AnswerSet { owner, rtype, ttl, rdatas, is_of_zone };
        let made = self.signer.sign(&set, self.ask.hashing.now);
        made.map_err(|fault| {
            reply.refuse(match fault {
                AnswerUnsigned::Limit => Unanswered::SigningLimit,
                AnswerUnsigned::NoKeys | AnswerUnsigned::Failed => Unanswered::NoSignature,
            })
        })
    }
}

/// Writes RRSIG records.
fn put_signatures(
    section: Section,
    owner: Owner<'_>,
    ttl: Ttl,
    made: &AnswerSignatures,
    reply: &mut Reply<'_, '_, '_>,
) -> Result<(), Full> {
    for rdata in made.iter() {
        reply.put_extra(section, owner, Type::RRSIG, ttl, rdata)?;
    }
    Ok(())
}

/// Whether records of a type are data of the zone.
fn is_data(rtype: Type) -> bool {
    !matches!(rtype, Type::RRSIG | Type::NSEC | Type::NSEC3)
}

/// The RRsets of a name that are signed.
fn data_sets(node: Node<'_>) -> impl Iterator<Item = RrSet<'_>> {
    let is_cut = node.flags().contains(NodeFlags::CUT);
    node.rrsets().filter(move |set| is_data(set.rtype()) && (!is_cut || set.rtype() == Type::DS))
}

/// Returns the types that the NSEC record of a name lists, ascending: at a cut those of the parent's side
/// (RFC 4035 §2.3).
fn types_at(node: Node<'_>) -> Vec<Type> {
    let is_cut = node.flags().contains(NodeFlags::CUT);
    let is_listed = |t: &Type| is_data(*t) && (!is_cut || matches!(*t, Type::NS | Type::DS));
    let mut types: Vec<Type> = node.rrsets().map(|set| set.rtype()).filter(is_listed).collect();
    types.extend(NO_TYPES);
    types.sort_unstable();
    types
}

/// Returns the RDATA of a set in canonical form and order (RFC 4034 §6.2, §6.3).
fn canonical_rdatas(set: RrSet<'_>) -> Vec<Vec<u8>> {
    let copy = |record: zone::store::Rdata<'_>| {
        let mut rdata = Vec::new();
        record.copy_to(&mut rdata);
        canonical(set.rtype(), &mut rdata);
        rdata
    };
    let mut rdatas: Vec<Vec<u8>> = set.rdatas().map(copy).collect();
    rdatas.sort_unstable();
    rdatas
}
