//! What is kept of a reply: the records that answer the question, and nothing else.
//!
//! Answer section: the chain of CNAME and DNAME from the name that was asked to the name that answers, and
//! the RRset asked for there. Authority section: of a negative answer its SOA, and the records that prove
//! what is not there, all of a zone that the chain passes through. Signatures go with what they sign. Nothing
//! is kept of the additional section, of another class, or from outside the domain that the servers were
//! asked for. `referral` reads what is no answer but leads to other servers.

mod chain;
mod records;
mod referral;

use wire::message::{Builder, Compressor, Full, Header, MAX_MESSAGE, Offset, Owner, Section};
use wire::rdata::view::Soa;
use wire::{LowerNameBuf, Name, NameBuf, Rcode, Ttl, Type};

use crate::query_key::{AnsweredBy, QueryKey, ReportAgent};
use chain::{Chain, End};
use records::{Kept, Records};

pub use referral::{Referral, ReferralScope, priming, referral};
pub(crate) use referral::{address, may_be_asked};

/// An answer fit to be kept and passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The message, rebuilt: ID 0, QR, RD and RA set, the question in lower case at offset 12, no OPT. Owners
    /// and names in data are compressed.
    pub message: Box<[u8]>,
    /// Its response code, with the bits that OPT carried.
    pub rcode: Rcode,
    /// AD: the upstream server says that it has validated the answer (RFC 4035 §3.2.3).
    pub authentic: bool,
    /// AA: the upstream server is authoritative for the name that was asked (RFC 1035 §4.1.1). The message
    /// has AA clear, since it comes out of a cache.
    pub authoritative: bool,
    /// How long a negative answer may be kept: the lesser of the SOA's TTL and its MINIMUM (RFC 2308 §5),
    /// within our bounds. `None` if the answer is positive, or negative without an SOA, which may not be
    /// kept.
    pub negative_ttl: Option<Ttl>,
    /// Where the answer ends early: the chain leads to this name, which is outside the domain that the
    /// servers were asked for, or which the reply does not cover.
    pub leads_to: Option<LowerNameBuf>,
    /// Who it is from; `None` if it comes from this process.
    pub by: Option<AnsweredBy>,
    /// That server's error-reporting agent, for a bogus answer (RFC 9567). Only authoritative servers are
    /// believed: none that is forwarded to.
    pub agent: Option<Box<ReportAgent>>,
    /// What the referrals on the way to it said of DS, from the root down. Only collected for questions with
    /// DO and CD.
    pub referrals: Vec<ReferralProof>,
}

/// What a referral says of the DS of the zone that it leads to: the DS RRset, or the NSEC or NSEC3 records
/// that prove that there is none (RFC 4035 §3.1.4). It is not validated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferralProof {
    /// The zone that the referral leads to.
    pub zone: LowerNameBuf,
    /// A response to the question for the zone's DS, with nothing but those records and their signatures, all
    /// in the authority section.
    pub message: Box<[u8]>,
}

/// Why a reply that fits its query cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyFault {
    /// It breaks off, or a record that would be kept is not well formed.
    Malformed,
    /// An RRset has too many records, or there are too many RRsets.
    SetTooLarge,
    /// It is a referral to other servers, not an answer: no recursion is offered.
    Referral,
    /// The server does not serve the zone that it was asked about: it refers upwards or elsewhere, answers
    /// from a cache, or has nothing to say.
    Lame,
    /// The chain of CNAME and DNAME is too long, or a loop.
    Chain,
    /// Its response code is an error: this one.
    Rcode(Rcode),
    /// Its response code, this one, and its records cannot be true together.
    Contradiction(Rcode),
    /// Truncated over a stream, too.
    Truncated,
}

/// What the scrubber may keep.
#[derive(Clone, Debug)]
pub struct Scope<'a> {
    /// Nothing from outside this domain is kept.
    pub domain: Name<'a>,
    /// The name as it was sent. Letters of it that came back by compression get their lower case again.
    pub sent: Name<'a>,
    /// Most records of one RRset.
    pub records_per_set: usize,
    /// The most a positive answer may be kept, in seconds.
    pub max_ttl: u32,
    /// The most a negative one may.
    pub max_negative_ttl: u32,
}

/// Scrubs the reply to `query_key`, whose response code with the bits of OPT is `rcode`.
///
/// # Errors
/// [`ReplyFault`]: nothing of the reply can be used.
pub fn scrub(
    message: &[u8],
    query_key: &QueryKey,
    rcode: Rcode,
    scope: &Scope<'_>,
) -> Result<Answer, ReplyFault> {
    let mut records = Records::read(message, query_key.qclass, scope.sent)?;
    let mut kept = Kept::new(scope, query_key.dnssec_ok);
    let mut chain = Chain::follow(&mut records, query_key, scope, &mut kept)?;
    if chain.breaks_off(query_key) && rcode == Rcode::NOERROR {
        // A server of a zone need not know what its aliases lead to (RFC 1034 §4.3.2): that is asked for by
        // itself.
        let end = chain.end.as_name();
        chain.leads_to = records.soa(end, scope.domain).is_none().then(|| end.to_lower());
    }
    let rcode = chain.rcode(rcode)?;
    let negative = chain.leads_to.is_none() && matches!(chain.ends, End::Nothing | End::TooLong);
    let mut negative_ttl = None;
    if negative {
        kept.lower_max_ttl(scope.max_negative_ttl);
        match records.soa(chain.end.as_name(), scope.domain) {
            Some(at) => {
                let rdata = records.rdata(at)?;
                let minimum = Soa::read(&rdata).map_err(|_| ReplyFault::Malformed)?.numbers.minimum;
                kept.lower_max_ttl(minimum);
                negative_ttl = Some(kept.set(&mut records, at)?);
            }
            None if rcode == Rcode::NOERROR && records.is_referral(own_zones(message, &chain, scope)) => {
                return Err(ReplyFault::Referral);
            }
            None => {}
        }
    }
    if query_key.dnssec_ok {
        kept.proofs(&mut records)?;
    }
    write(query_key, message, rcode, &kept, negative_ttl)
        .map(|answer| Answer { leads_to: chain.leads_to, ..answer })
        .map_err(|Full| ReplyFault::Malformed)
}

/// The zones that the server of an authoritative reply may serve: NS records of one of them beside an empty
/// answer are those of the zone itself. Such a reply means that there is no data, though it lacks the SOA
/// (RFC 2308 §2.2). A referral has AA clear (RFC 1034 §4.3.2 step 3b); where the servers of a zone above set
/// it all the same, [`referral()`] has taken it before.
fn own_zones<'a>(message: &[u8], chain: &'a Chain, scope: &Scope<'a>) -> Option<OwnZones<'a>> {
    let is_authoritative = Header::of(message).is_some_and(|header| header.authoritative());
    is_authoritative.then_some(OwnZones { name: chain.end.as_name(), domain: scope.domain })
}

/// All zones that a name may be in, at or below a domain.
#[derive(Clone, Copy)]
struct OwnZones<'a> {
    name: Name<'a>,
    domain: Name<'a>,
}

impl OwnZones<'_> {
    fn has(self, zone: Name<'_>) -> bool {
        self.name.is_at_or_below(zone) && zone.is_at_or_below(self.domain)
    }
}

/// What a referral to the servers of `zone` says of its DS, if it says anything. `query_key` is what was
/// asked, and the domain of the scope the zone whose servers were: it may speak of nothing outside.
pub fn referral_proof(
    message: &[u8],
    zone: &LowerNameBuf,
    query_key: &QueryKey,
    scope: &Scope<'_>,
) -> Option<ReferralProof> {
    let mut records = Records::read(message, query_key.qclass, scope.sent).ok()?;
    let mut kept = Kept::new(scope, true);
    kept.passes(zone.as_name());
    kept.in_zone(scope.domain);
    match records.authority(zone.as_name(), Type::DS) {
        Some(at) => drop(kept.set(&mut records, at).ok()?),
        None => kept.lower_max_ttl(scope.max_negative_ttl),
    }
    kept.proofs(&mut records).ok()?;
    if kept.records() == 0 {
        return None;
    }
    let asked = QueryKey { name: *zone, qtype: Type::DS, ..*query_key };
    let written = write(&asked, message, Rcode::NOERROR, &kept, None).ok()?;
    Some(ReferralProof { zone: *zone, message: written.message })
}

/// So many records have hardly more names than a small table takes.
const FEW_RECORDS: usize = 16;

/// Builds the message.
fn write(
    query_key: &QueryKey,
    reply: &[u8],
    rcode: Rcode,
    kept: &Kept,
    negative_ttl: Option<Ttl>,
) -> Result<Answer, Full> {
    let flags = Header::of(reply);
    let authentic = flags.is_some_and(|header| header.authentic_data());
    let authoritative = flags.is_some_and(|header| header.authoritative());
    let mut header = Header::query(0);
    header.set_response(true);
    header.set_recursion_desired(true);
    header.set_recursion_available(true);
    header.set_authentic_data(authentic);
    header.set_checking_disabled(query_key.checking_disabled);
    header.set_rcode(rcode);
    // Rebuilt it may be longer than it came, where others compress more; so there is room for twice as much.
    let room = (kept.len() * 2 + reply.len() + 512).min(MAX_MESSAGE);
    let mut names = if kept.records() <= FEW_RECORDS { Compressor::small() } else { Compressor::large() };
    let mut buf = vec![0; room];
    let mut b = Builder::new(&mut buf, room, header, &mut names);
    b.question(query_key.name.as_name(), query_key.qtype, query_key.qclass)?;
    b.learn(query_key.name.as_name(), Offset::QNAME);
    let (mut owner, mut owner_at): (Option<NameBuf>, _) = (None, Offset::QNAME);
    for record in kept.iter() {
        let at = b.end();
        let by = match &owner {
            _ if record.owner.as_wire() == query_key.name.as_name().as_wire() => Owner::At(Offset::QNAME),
            Some(last) if last.as_name().as_wire() == record.owner.as_wire() => Owner::At(owner_at),
            _ => {
                (owner, owner_at) = (Some(record.owner.to_buf()), at);
                Owner::Name(record.owner)
            }
        };
        b.record(record.section, by, record.rtype, query_key.qclass, record.ttl, record.rdata)?;
    }
    let len = b.finish();
    let message = buf.get(..len).unwrap_or_default().into();
    let (leads_to, by, agent, referrals) = (None, None, None, Vec::new());
    Ok(Answer { message, rcode, authentic, authoritative, negative_ttl, leads_to, by, agent, referrals })
}

/// A record that is kept.
#[derive(Clone, Copy, Debug)]
struct KeptRecord<'k> {
    section: Section,
    owner: Name<'k>,
    rtype: Type,
    ttl: Ttl,
    rdata: &'k [u8],
}
