//! The client's side for one purpose: replacing the DS RRset of a delegation at a server of the parent zone.
//! Three messages: which zone the server has ([`read_zone_reply`]), what DS RRset the delegation has
//! ([`read_ds_reply`]), and the update ([`ds_update`]).

use wire::message::{
    Builder, Compressor, Full, HEADER_LEN, Header, Malformed, Offset, Opcode, Owner, Parser, RawRecord,
    Section,
};
use wire::rdata::view::Soa;
use wire::{Class, Name, NameBuf, Rcode, Ttl, Type};

/// A DS RRset: the RDATA of its records in order, each once, and its TTL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DsRrset {
    /// The RDATA of the records; empty if there is no RRset.
    pub rdatas: Vec<Vec<u8>>,
    /// The TTL; `None` if there is no RRset.
    pub ttl: Option<Ttl>,
}

/// Why a response of a server of the parent zone cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DsReplyFault {
    /// It is malformed, or of another request.
    Malformed,
    /// The server responds with this code.
    Rcode(Rcode),
    /// The server is not authoritative for the parent zone.
    NotAuthoritative,
}

impl From<Malformed> for DsReplyFault {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

impl std::fmt::Display for DsReplyFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed => f.write_str("the response is malformed"),
            Self::Rcode(rcode) => write!(f, "the response is {rcode}"),
            Self::NotAuthoritative => f.write_str("the server is not authoritative for the parent zone"),
        }
    }
}
impl std::error::Error for DsReplyFault {}

/// Writes a query without recursion and EDNS to `buf`, and returns its length.
///
/// # Errors
/// [`Full`].
pub fn plain_query(buf: &mut [u8], id: u16, name: Name<'_>, qtype: Type) -> Result<usize, Full> {
    message(buf, Header::query(id), name, qtype, |_| Ok(()))
}

/// Writes an update of `zone` to `buf` that replaces the DS RRset `old` of the delegation `child` by records
/// with the RDATA `new` and this TTL; without any, the RRset is deleted. Returns its length.
///
/// The update has an effect only if `child` is delegated, and its DS RRset is `old`: so it can be sent again
/// when it is not known whether it was executed.
///
/// # Errors
/// [`Full`].
pub fn ds_update(
    buf: &mut [u8],
    id: u16,
    (zone, child): (Name<'_>, Name<'_>),
    old: &[Vec<u8>],
    (new, ttl): (&[Vec<u8>], Ttl),
) -> Result<usize, Full> {
    let mut header = *Header::query(id).as_bytes();
    header[2] = Opcode::UPDATE.0 << 3;
    let header = Header::of(&header).ok_or(Full)?;
    message(buf, header, zone, Type::SOA, |b| {
        let mut put = |section, rtype, class, ttl, rdata: &[u8]| {
            b.record(section, Owner::Name(child), rtype, class, ttl, rdata).map(drop)
        };
        // The prerequisites are in the section of answers (RFC 2136 §2).
        put(Section::Answer, Type::NS, Class::ANY, Ttl::ZERO, &[])?;
        if old.is_empty() {
            put(Section::Answer, Type::DS, Class::NONE, Ttl::ZERO, &[])?;
        }
        for rdata in old {
            put(Section::Answer, Type::DS, Class::IN, Ttl::ZERO, rdata)?;
        }
        put(Section::Authority, Type::DS, Class::ANY, Ttl::ZERO, &[])?;
        for rdata in new {
            put(Section::Authority, Type::DS, Class::IN, ttl, rdata)?;
        }
        Ok(())
    })
}

fn message(
    buf: &mut [u8],
    header: Header,
    name: Name<'_>,
    qtype: Type,
    records: impl FnOnce(&mut Builder<'_>) -> Result<(), Full>,
) -> Result<usize, Full> {
    if buf.len() < HEADER_LEN {
        return Err(Full);
    }
    let (mut names, limit) = (Compressor::small(), buf.len());
    let mut b = Builder::new(buf, limit, header, &mut names);
    b.question(name, qtype, Class::IN)?;
    b.learn(name, Offset::QNAME);
    records(&mut b)?;
    Ok(b.finish())
}

/// Reads the response to an SOA query for the name above `child`: returns the name of the zone, which the
/// server is authoritative for.
///
/// # Errors
/// [`DsReplyFault`].
pub fn read_zone_reply(reply: &[u8], child: Name<'_>) -> Result<NameBuf, DsReplyFault> {
    let mut zone = None;
    let is_authoritative = each_record(reply, &[Rcode::NOERROR, Rcode::NXDOMAIN], |_, owner, record| {
        if record.rtype == Type::SOA && owner != child && child.is_at_or_below(owner) {
            zone = Some(owner.to_buf());
        }
        Ok(())
    })?;
    zone.filter(|_| is_authoritative).ok_or(DsReplyFault::NotAuthoritative)
}

/// Reads the response to a DS query for `child`, a name in `zone`.
///
/// # Errors
/// [`DsReplyFault`].
pub fn read_ds_reply(reply: &[u8], (zone, child): (Name<'_>, Name<'_>)) -> Result<DsRrset, DsReplyFault> {
    let (mut found, mut is_of_zone) = (DsRrset::default(), false);
    let is_authoritative = each_record(reply, &[Rcode::NOERROR], |parser, owner, record| {
        match record.rtype {
            Type::DS if owner == child => {
                let mut rdata = Vec::new();
                parser.expand_rdata(record, &mut rdata)?;
                found.rdatas.push(rdata);
                found.ttl = Some(record.ttl());
            }
            // Without DS records, the SOA record says whose answer it is: that of the child has none either.
            Type::SOA => {
                let mut rdata = Vec::new();
                parser.expand_rdata(record, &mut rdata)?;
                is_of_zone |= Soa::read(&rdata).is_ok() && owner == zone;
            }
            _ => {}
        }
        Ok(())
    })?;
    found.rdatas.sort_unstable();
    found.rdatas.dedup();
    match is_authoritative && (is_of_zone || !found.rdatas.is_empty()) {
        true => Ok(found),
        false => Err(DsReplyFault::NotAuthoritative),
    }
}

/// Reads the records of the answer and authority sections of a response with one of these codes. Returns
/// whether the server is authoritative.
fn each_record(
    reply: &[u8],
    rcodes: &[Rcode],
    mut take: impl FnMut(&mut Parser<'_>, Name<'_>, &RawRecord) -> Result<(), Malformed>,
) -> Result<bool, DsReplyFault> {
    let (header, mut parser) = Parser::new(reply)?;
    if !rcodes.contains(&header.rcode()) {
        return Err(DsReplyFault::Rcode(header.rcode()));
    }
    let [questions, answers, authorities, _] = header.counts();
    for _ in 0..questions {
        parser.question()?;
    }
    for _ in 0..u32::from(answers) + u32::from(authorities) {
        let record = parser.record()?;
        let owner = parser.name_at(record.owner_at)?;
        if record.class == Class::IN {
            take(&mut parser, owner.as_name(), &record)?;
        }
    }
    Ok(header.authoritative())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Prerequisite, Update, UpdateLimits, UpdateRequest};

    fn name(text: &str) -> NameBuf {
        text.parse().expect("a name")
    }

    fn ds(tag: u8) -> Vec<u8> {
        [&[0, tag, 13, 2][..], &[tag; 32]].concat()
    }

    /// Returns the update as the receiving side reads it.
    fn update(old: &[Vec<u8>], new: &[Vec<u8>]) -> UpdateRequest {
        let (zone, child, mut buf) = (name("example"), name("child.example"), [0; 1024]);
        let ttl = Ttl::from_secs(300);
        let names = (zone.as_name(), child.as_name());
        let len = ds_update(&mut buf, 7, names, old, (new, ttl)).expect("it fits");
        UpdateRequest::read(&buf[..len], UpdateLimits::default()).expect("a good update")
    }

    #[test]
    fn an_update_replaces_the_rrset_that_was_seen_at_a_delegation() {
        let child = name("child.example");
        let has = |rdata| Prerequisite::RrsetHas { owner: child, rtype: Type::DS, rdata };
        let add = |rdata| Update::Add { owner: child, rtype: Type::DS, ttl: Ttl::from_secs(300), rdata };
        let is_delegated = Prerequisite::RrsetExists(child, Type::NS);
        let replaced = update(&[ds(1), ds(2)], &[ds(3)]);
        assert_eq!(replaced.zone(), name("example").as_name().to_lower().as_lower());
        assert_eq!(replaced.prerequisites(), [is_delegated.clone(), has(ds(1)), has(ds(2))]);
        assert_eq!(replaced.updates(), [Update::DeleteRrset(child, Type::DS), add(ds(3))]);
        let first = update(&[], &[ds(1)]);
        assert_eq!(first.prerequisites(), [is_delegated.clone(), Prerequisite::NoRrset(child, Type::DS)]);
        let removed = update(&[ds(1)], &[]);
        assert_eq!(removed.prerequisites(), [is_delegated, has(ds(1))]);
        assert_eq!(removed.updates(), [Update::DeleteRrset(child, Type::DS)]);
    }

    /// Returns a response with these records.
    fn reply(rcode: Rcode, authoritative: bool, records: &[(Section, &str, Type, Vec<u8>)]) -> Vec<u8> {
        let mut header = Header::query(7).reply();
        header.set_authoritative(authoritative);
        header.set_rcode(rcode);
        let mut buf = [0; 1024];
        let len = message(&mut buf, header, name("child.example").as_name(), Type::DS, |b| {
            records.iter().try_for_each(|(section, owner, rtype, rdata)| {
                let (owner, ttl) = (name(owner), Ttl::from_secs(60));
                b.record(*section, Owner::Name(owner.as_name()), *rtype, Class::IN, ttl, rdata).map(drop)
            })
        });
        buf[..len.expect("it fits")].to_vec()
    }

    fn soa() -> Vec<u8> {
        [name("ns.test").as_name().as_wire(), name("host.test").as_name().as_wire(), &[0; 20]].concat()
    }

    #[test]
    fn the_zone_is_the_one_above_the_child_that_the_server_has() {
        let (child, noerror) = (name("child.example"), Rcode::NOERROR);
        let read = |reply: &[u8]| read_zone_reply(reply, child.as_name());
        let of = |section, owner, authoritative, rcode| {
            read(&reply(rcode, authoritative, &[(section, owner, Type::SOA, soa())]))
        };
        assert_eq!(of(Section::Answer, "example", true, noerror), Ok(name("example")));
        assert_eq!(of(Section::Authority, "example", true, Rcode::NXDOMAIN), Ok(name("example")));
        let none = Err(DsReplyFault::NotAuthoritative);
        assert_eq!(of(Section::Answer, "example", false, noerror), none, "from a cache");
        assert_eq!(of(Section::Answer, "child.example", true, noerror), none, "the child itself");
        assert_eq!(of(Section::Answer, "test", true, noerror), none, "another zone");
        assert_eq!(
            of(Section::Answer, "example", true, Rcode::REFUSED),
            Err(DsReplyFault::Rcode(Rcode::REFUSED))
        );
        assert_eq!(read(&[0; 5]), Err(DsReplyFault::Malformed));
    }

    #[test]
    fn the_ds_rrset_is_that_of_the_parent() {
        let (zone, child) = (name("example"), name("child.example"));
        let read = |reply: &[u8]| read_ds_reply(reply, (zone.as_name(), child.as_name()));
        let answer = |owner, tag| (Section::Answer, owner, Type::DS, ds(tag));
        let records = [answer("child.example", 2), answer("child.example", 1), answer("other.example", 3)];
        let found = DsRrset { rdatas: vec![ds(1), ds(2)], ttl: Some(Ttl::from_secs(60)) };
        assert_eq!(read(&reply(Rcode::NOERROR, true, &records)), Ok(found));
        let none = |owner| reply(Rcode::NOERROR, true, &[(Section::Authority, owner, Type::SOA, soa())]);
        assert_eq!(read(&none("example")), Ok(DsRrset::default()));
        // A server that has the child, and not the parent, denies the DS RRset as well.
        assert_eq!(read(&none("child.example")), Err(DsReplyFault::NotAuthoritative));
        assert_eq!(read(&reply(Rcode::NOERROR, false, &records)), Err(DsReplyFault::NotAuthoritative));
        assert_eq!(read(&reply(Rcode::SERVFAIL, true, &[])), Err(DsReplyFault::Rcode(Rcode::SERVFAIL)));
    }
}
