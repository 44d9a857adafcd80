//! Referrals: replies that name the servers of a zone below (RFC 1034 §4.3.2 step 3b, RFC 9471).

use std::net::IpAddr;

use wire::message::{Parser, RawRecord, Section};
use wire::{Class, LowerNameBuf, Name, Type, rdata};

use super::ReplyFault;

/// Most server names that are read; of these, servers with glue are kept first.
const LOOKED_AT: usize = 64;

/// The servers of a zone, as named by a parent's server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referral {
    /// The zone.
    pub zone: LowerNameBuf,
    /// TTL in seconds.
    pub ttl: u32,
    /// The servers with their glue. Those with glue come first.
    pub servers: Vec<(LowerNameBuf, Vec<IpAddr>)>,
    /// Addresses of servers whose names are outside the queried zone, which is not authoritative for them.
    pub outside: Vec<(LowerNameBuf, IpAddr)>,
}

/// Limits on what a referral may contain.
#[derive(Clone, Copy, Debug)]
pub struct ReferralScope<'a> {
    /// The zone whose servers were queried: glue may be for names in it.
    pub zone: Name<'a>,
    /// QNAME: the referral must lead towards it.
    pub name: Name<'a>,
    /// QCLASS.
    pub class: Class,
    /// Most servers.
    pub servers: usize,
    /// Most addresses of one server.
    pub addresses: usize,
    /// Whether loopback addresses may be glue.
    pub loopback: bool,
    /// Highest TTL in seconds.
    pub max_ttl: u32,
}

/// Returns the referral of a reply, if it is one: NS records in the authority section, of one zone below the
/// queried zone and at or above QNAME, and an empty answer section.
///
/// # Errors
/// [`ReplyFault::Malformed`]: a record is malformed.
pub fn referral(message: &[u8], scope: &ReferralScope<'_>) -> Result<Option<Referral>, ReplyFault> {
    let leads_down = |owner: Name<'_>| {
        scope.name.is_at_or_below(owner) && owner.is_at_or_below(scope.zone) && owner != scope.zone
    };
    servers_in(message, scope, Section::Authority, leads_down)
}

/// Returns the servers of the queried zone itself, with their addresses, from the reply to a query for its NS
/// records: a priming response (RFC 8109 §4).
///
/// # Errors
/// [`ReplyFault::Malformed`]: a record is malformed.
pub fn priming(message: &[u8], scope: &ReferralScope<'_>) -> Result<Option<Referral>, ReplyFault> {
    servers_in(message, scope, Section::Answer, |owner| owner == scope.zone)
}

fn servers_in(
    message: &[u8],
    scope: &ReferralScope<'_>,
    wanted: Section,
    fits: impl Fn(Name<'_>) -> bool,
) -> Result<Option<Referral>, ReplyFault> {
    let malformed = |_| ReplyFault::Malformed;
    let (header, mut parser) = Parser::new(message).map_err(malformed)?;
    let [questions, answers, authorities, additional] = header.counts();
    for _ in 0..questions {
        parser.question().map_err(malformed)?;
    }
    let mut found: Option<Referral> = None;
    for (section, count) in [(Section::Answer, answers), (Section::Authority, authorities)] {
        for _ in 0..count {
            let record = parser.record().map_err(malformed)?;
            if record.class != scope.class || record.rtype.is_meta() {
                continue;
            }
            if section == Section::Answer && wanted == Section::Authority {
                return Ok(None);
            }
            let denies = section == Section::Authority && record.rtype == Type::SOA;
            if denies && wanted == Section::Authority {
                return Ok(None);
            }
            let owner = parser.name_at(record.owner_at).map_err(malformed)?;
            if section != wanted || record.rtype != Type::NS || !fits(owner.as_name()) {
                continue;
            }
            let server =
                Name::from_wire(&data(&mut parser, &record)?).map_err(|_| ReplyFault::Malformed)?.to_lower();
            let zone = owner.as_name().to_lower();
            let ttl = record.ttl().as_secs().min(scope.max_ttl);
            let referral =
                found.get_or_insert(Referral { zone, ttl, servers: Vec::new(), outside: Vec::new() });
            if referral.zone != zone {
                continue;
            }
            referral.ttl = referral.ttl.min(ttl);
            let known = referral.servers.iter().any(|(known, _)| *known == server);
            if !known && referral.servers.len() < LOOKED_AT {
                referral.servers.push((server, Vec::new()));
            }
        }
    }
    let Some(mut referral) = found else { return Ok(None) };
    for _ in 0..additional {
        // Malformed records are not used as glue; the delegation is valid without.
        let Ok(record) = parser.record() else { break };
        if record.class == scope.class && matches!(record.rtype, Type::A | Type::AAAA) {
            add_glue(&mut parser, &record, scope, &mut referral);
        }
    }
    referral.servers.sort_by_key(|(_, glue)| glue.is_empty());
    referral.servers.truncate(scope.servers);
    let kept = |name: &LowerNameBuf| referral.servers.iter().any(|(server, _)| server == name);
    referral.outside.retain(|(name, _)| kept(name));
    Ok(Some(referral))
}

/// Returns the RDATA of a record, decompressed and validated.
fn data(parser: &mut Parser<'_>, record: &RawRecord) -> Result<Vec<u8>, ReplyFault> {
    let mut data = Vec::new();
    parser.expand_rdata(record, &mut data).map_err(|_| ReplyFault::Malformed)?;
    rdata::validate(record.rtype, &data).map_err(|_| ReplyFault::Malformed)?;
    Ok(data)
}

/// Adds an address to its server: as glue only if the server's name is in the queried zone.
fn add_glue(parser: &mut Parser<'_>, record: &RawRecord, scope: &ReferralScope<'_>, referral: &mut Referral) {
    let Ok(owner) = parser.name_at(record.owner_at) else { return };
    let mut servers = referral.servers.iter_mut();
    let Some((name, glue)) = servers.find(|(name, _)| name.as_name() == owner.as_name()) else { return };
    let Ok(data) = data(parser, record) else { return };
    let usable = address(&data).filter(|address| may_be_asked(*address, scope.loopback));
    let Some(address) = usable else { return };
    if owner.as_name().is_at_or_below(scope.zone) {
        if glue.len() < scope.addresses && !glue.contains(&address) {
            glue.push(address);
        }
        return;
    }
    let outside = &mut referral.outside;
    let of_server = outside.iter().filter(|(known, _)| known == name).count();
    if of_server < scope.addresses && !outside.contains(&(*name, address)) {
        outside.push((*name, address));
    }
}

/// Parses the address in RDATA of A or AAAA.
pub(crate) fn address(data: &[u8]) -> Option<IpAddr> {
    match *data {
        [a, b, c, d] => Some(IpAddr::from([a, b, c, d])),
        _ => <[u8; 16]>::try_from(data).ok().map(IpAddr::from),
    }
}

/// Whether a server may have this address: unicast, not this host itself, and no IPv4-mapped IPv6.
pub fn may_be_asked(address: IpAddr, loopback: bool) -> bool {
    let hidden = matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
    let nowhere = match address {
        IpAddr::V4(v4) => v4.octets()[0] == 0 || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unspecified(),
    };
    !hidden && !nowhere && !address.is_multicast() && (loopback || !address.is_loopback())
}
