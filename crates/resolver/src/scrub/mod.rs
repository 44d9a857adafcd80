//! Scrubs replies: keeps the records that answer the query, and nothing else.
//!
//! Answer section: the chain of CNAME and DNAME from QNAME, and the queried RRset at its end. Authority
//! section: the SOA of a negative answer, and NSEC and NSEC3 records, all of zones that the chain passes
//! through. Signatures are kept with the RRsets they cover. Nothing is kept of the additional section, of
//! another class, or from outside the domain of the queried servers. `referral` reads referrals.

mod chain;
mod records;
mod referral;

use std::fmt;

use wire::message::{Builder, Compressor, Full, Header, MAX_MESSAGE, Offset, Owner, Section};
use wire::rdata::view::Soa;
use wire::{LowerName, LowerNameBuf, Name, NameBuf, Rcode, Ttl, Type};

use crate::query_key::{AnsweredBy, QueryKey, ReportAgent};
use chain::{Chain, End};
use records::{Kept, Records};

pub(crate) use referral::address;
pub use referral::{Referral, ReferralScope, may_be_asked, priming, referral};

/// A scrubbed answer, fit for the cache and for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrubbedAnswer {
    /// The message, rebuilt: ID 0, QR, RD and RA set, the question in lower case at offset 12, no OPT. Owners
    /// and names in RDATA are compressed.
    pub message: Box<[u8]>,
    /// The response code, with the bits of OPT.
    pub rcode: Rcode,
    /// AD: the upstream server has validated the answer (RFC 4035 §3.2.3).
    pub authentic: bool,
    /// AA: the upstream server is authoritative for QNAME (RFC 1035 §4.1.1). AA is clear in the message,
    /// since the answer will come from a cache.
    pub authoritative: bool,
    /// How long a negative answer may be cached: the lesser of the SOA's TTL and its MINIMUM (RFC 2308 §5),
    /// within our limits. `None` if the answer is positive, or negative without an SOA and so not cacheable.
    pub negative_ttl: Option<Ttl>,
    /// The name that the chain leads to, if it is outside the domain of the queried servers or beyond the
    /// [border](Scope::border), or if the reply does not cover it.
    pub leads_to: Option<LowerNameBuf>,
    /// Its source; `None` if it was made in this process.
    pub by: Option<AnsweredBy>,
    /// The server's error-reporting agent, for a bogus answer (RFC 9567). Only authoritative servers are
    /// believed, not forwarders.
    pub agent: Option<Box<ReportAgent>>,
    /// The proofs about DS in the referrals on the path, from the root down. Only collected for queries with
    /// DO and CD.
    pub referrals: Vec<ReferralProof>,
}

/// A referral's proof about the DS of its zone: the DS RRset, or the NSEC or NSEC3 records that prove its
/// absence (RFC 4035 §3.1.4). It is not validated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferralProof {
    /// The zone of the referral.
    pub zone: LowerNameBuf,
    /// A response to the query for the zone's DS with only those records and their signatures, all in the
    /// authority section.
    pub message: Box<[u8]>,
}

/// Why a reply that matches its query is useless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyFault {
    /// It is cut off, or a record to keep is malformed.
    Malformed,
    /// An RRset has too many records, or there are too many RRsets.
    SetTooLarge,
    /// It is a referral and not an answer: the server does not offer recursion.
    Referral,
    /// The server does not serve the queried zone: it refers upwards or elsewhere, answers from a cache, or
    /// has no records.
    Lame,
    /// The chain of CNAME and DNAME is too long, or a loop.
    Chain,
    /// Its response code is this error.
    Rcode(Rcode),
    /// Its response code contradicts its records.
    Contradiction(Rcode),
    /// It is truncated over a stream, too.
    Truncated,
}

/// Names about which an answer must not say anything, since other rules may be for them: a chain of aliases
/// ends before them.
#[derive(Clone, Copy)]
pub struct Border<'a>(&'a dyn Fn(LowerName<'_>) -> bool);

impl<'a> Border<'a> {
    /// The border in front of the names that `is_beyond` selects.
    pub fn new(is_beyond: &'a dyn Fn(LowerName<'_>) -> bool) -> Self {
        Border(is_beyond)
    }
}

impl fmt::Debug for Border<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Border")
    }
}

/// Limits on what the scrubber may keep.
#[derive(Clone, Debug)]
pub struct Scope<'a> {
    /// The domain; records outside are dropped.
    pub domain: Name<'a>,
    /// The name as sent. Where name compression repeats its letters, they become lower case again.
    pub sent: Name<'a>,
    /// Most records of one RRset.
    pub records_per_set: usize,
    /// Highest TTL of a positive answer, in seconds.
    pub max_ttl: u32,
    /// Highest TTL of a negative answer, in seconds.
    pub max_negative_ttl: u32,
    /// Where chains of aliases end, besides at the domain.
    pub border: Option<Border<'a>>,
}

impl Scope<'_> {
    /// Whether nothing may be kept of a name that a chain leads to.
    fn ends_before(&self, target: Name<'_>) -> bool {
        let is_beyond = |border: Border<'_>| (border.0)(target.to_lower().as_lower());
        !target.is_at_or_below(self.domain) || self.border.is_some_and(is_beyond)
    }
}

/// Scrubs the reply to `query_key`, whose response code with the bits of OPT is `rcode`.
///
/// # Errors
/// [`ReplyFault`]: the reply is useless.
pub fn scrub(
    message: &[u8],
    query_key: &QueryKey,
    rcode: Rcode,
    scope: &Scope<'_>,
) -> Result<ScrubbedAnswer, ReplyFault> {
    let mut records = Records::read(message, query_key.qclass, scope.sent)?;
    let mut kept = Kept::new(scope, query_key.dnssec_ok);
    let mut chain = Chain::follow(&mut records, query_key, scope, &mut kept)?;
    if chain.breaks_off(query_key) && rcode == Rcode::NOERROR {
        // A server of a zone need not know the targets of its aliases (RFC 1034 §4.3.2): the target needs a
        // lookup of its own.
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
        .map(|answer| ScrubbedAnswer { leads_to: chain.leads_to, ..answer })
        .map_err(|Full| ReplyFault::Malformed)
}

/// Returns the zones that the server of an authoritative reply may serve. NS records of one of them beside an
/// empty answer are the zone's own: the reply means NODATA, though it lacks the SOA (RFC 2308 §2.2). A
/// referral has AA clear (RFC 1034 §4.3.2 step 3b); a referral of a parent's servers with AA set was taken by
/// [`referral()`] before.
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

/// Returns a referral's proof about the DS of `zone`, if it has one. `query_key` is the query, and the
/// scope's domain is the zone whose servers were queried; records outside are dropped.
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

/// A message with at most this many records has few names, which fit a small compression table.
const FEW_RECORDS: usize = 16;

/// Builds the message.
fn write(
    query_key: &QueryKey,
    reply: &[u8],
    rcode: Rcode,
    kept: &Kept,
    negative_ttl: Option<Ttl>,
) -> Result<ScrubbedAnswer, Full> {
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
    // The rebuilt message may be longer, if the server compresses more; so the buffer has twice the size.
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
    Ok(ScrubbedAnswer {
        message,
        rcode,
        authentic,
        authoritative,
        negative_ttl,
        leads_to,
        by,
        agent,
        referrals,
    })
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
