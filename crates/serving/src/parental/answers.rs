//! The response of a parental server to a query for DS, judged: what it proves about the DS set.

use wire::message::{Malformed, Parser};
use wire::{Class, Header, Name, NameBuf, Rcode, Ttl, Type};

use super::DsAtServer;
use crate::hosts::exchange::MALFORMED;

/// The records of a response that matter.
#[derive(Default)]
struct DsRecords {
    rdatas: Vec<Vec<u8>>,
    ttl: Option<Ttl>,
    is_alias: bool,
    /// The owner of the SOA in the authority section.
    soa: Option<NameBuf>,
    has_authority_ns: bool,
}

/// Returns what a response to the query for the DS set of `zone` proves. `parent` is the apex of the parent
/// zone, if it is known.
///
/// A response proves that there is no DS only if it is authoritative and has the SOA of the parent zone: a
/// server that has only the child zone answers from it that there is none (RFC 4035 §3.1.4.1).
///
/// # Errors
/// Why it proves nothing.
pub(super) fn judge(message: &[u8], zone: Name<'_>, parent: Option<Name<'_>>) -> Result<DsAtServer, String> {
    let header = Header::of(message).ok_or(MALFORMED)?;
    if !matches!(header.rcode(), Rcode::NOERROR | Rcode::NXDOMAIN) {
        return Err(format!("the response is {}", header.rcode()));
    }
    let DsRecords { mut rdatas, ttl, is_alias, soa, has_authority_ns } =
        read(message, zone).map_err(|Malformed| MALFORMED)?;
    if is_alias {
        return Err("the zone's name is an alias there".to_owned());
    }
    if header.rcode() == Rcode::NOERROR && !rdatas.is_empty() {
        rdatas.sort_unstable();
        rdatas.dedup();
        return Ok(DsAtServer { rdatas, ttl });
    }
    if !header.authoritative() {
        let what = if has_authority_ns { "a referral" } else { "not authoritative" };
        return Err(format!("the response is {what}: the server does not have the parent zone"));
    }
    let Some(soa) = soa else { return Err("the negative response has no SOA".to_owned()) };
    let is_parent = |apex: Name<'_>| apex != zone && zone.is_at_or_below(apex);
    match parent {
        _ if soa.as_name() == zone => {
            Err("the server has the zone itself, and does not have the parent zone".to_owned())
        }
        Some(parent) if soa.as_name() != parent => {
            Err(format!("the response is from the zone {soa}, and the parent zone is {parent}"))
        }
        None if !is_parent(soa.as_name()) => {
            Err(format!("the response is from the zone {soa}, which is not a parent"))
        }
        _ => Ok(DsAtServer { rdatas: Vec::new(), ttl: None }),
    }
}

fn read(message: &[u8], zone: Name<'_>) -> Result<DsRecords, Malformed> {
    let (header, mut parser) = Parser::new(message)?;
    let [questions, answers, authorities, _] = header.counts();
    for _ in 0..questions {
        parser.question()?;
    }
    let mut found = DsRecords::default();
    for _ in 0..answers {
        let record = parser.record()?;
        if record.class != Class::IN || parser.name_at(record.owner_at)?.as_name() != zone {
            continue;
        }
        match record.rtype {
            Type::DS => {
                let rdata = message.get(record.rdata.clone()).ok_or(Malformed)?;
                found.rdatas.push(rdata.to_vec());
                found.ttl = found.ttl.max(Some(record.ttl()));
            }
            Type::CNAME => found.is_alias = true,
            _ => {}
        }
    }
    for _ in 0..authorities {
        let record = parser.record()?;
        match record.rtype {
            Type::SOA => found.soa = Some(parser.name_at(record.owner_at)?),
            Type::NS => found.has_authority_ns = true,
            _ => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::testing::{Response, name};

    const ZONE: &str = "child.parent.example";
    const DS: &[u8] = &[0, 1, 8, 2, 0xab];
    const OTHER: &[u8] = &[0, 2, 8, 2, 0xcd];

    fn judged(response: &Response, parent: Option<&str>) -> Result<DsAtServer, String> {
        let parent = parent.map(name);
        judge(&response.message(), name(ZONE).as_name(), parent.as_ref().map(NameBuf::as_name))
    }

    fn fault(response: &Response, parent: Option<&str>) -> String {
        judged(response, parent).expect_err("a fault")
    }

    #[test]
    fn a_ds_set_is_taken_in_order_with_its_largest_ttl() {
        let response = Response::to(ZONE, Type::DS)
            .answer(ZONE, Type::DS, 60, OTHER)
            .answer(ZONE, Type::DS, 3600, DS)
            .answer(ZONE, Type::DS, 60, OTHER)
            .answer("other.example", Type::DS, 9999, b"\0\x09\x08\x02\x01");
        let found = DsAtServer { rdatas: vec![DS.into(), OTHER.into()], ttl: Some(Ttl::from_secs(3600)) };
        assert_eq!(judged(&response, None), Ok(found.clone()), "without AA, too");
        assert_eq!(judged(&response.authoritative(), Some("parent.example")), Ok(found));
    }

    #[test]
    fn absence_is_proved_by_the_parent_zone_alone() {
        let none = Ok(DsAtServer { rdatas: Vec::new(), ttl: None });
        let of = |apex: &str| Response::to(ZONE, Type::DS).authoritative().soa(apex);
        assert_eq!(judged(&of("parent.example"), None), none);
        assert_eq!(judged(&of("parent.example"), Some("parent.example")), none);
        assert_eq!(judged(&of("parent.example").rcode(Rcode::NXDOMAIN), None), none);
        assert_eq!(judged(&of("."), None), none);
        assert!(fault(&of("example"), Some("parent.example")).contains("from the zone example."));
        assert!(fault(&of(ZONE), None).contains("the zone itself"));
        assert!(fault(&of(ZONE), Some("parent.example")).contains("the zone itself"));
        assert!(fault(&of("else.example"), None).contains("not a parent"));
        assert!(fault(&of("a.child.parent.example"), None).contains("not a parent"));
        assert!(fault(&Response::to(ZONE, Type::DS).authoritative(), None).contains("no SOA"));
    }

    #[test]
    fn lame_servers_prove_nothing() {
        let response = || Response::to(ZONE, Type::DS);
        let referral = response().authority("parent.example", Type::NS, 60, b"\x01n\0");
        assert!(fault(&referral, None).contains("a referral"));
        assert!(fault(&response().soa("parent.example"), None).contains("not authoritative"));
        for rcode in [Rcode::SERVFAIL, Rcode::REFUSED, Rcode::NOTIMP] {
            let refused = response().authoritative().answer(ZONE, Type::DS, 60, DS).rcode(rcode);
            assert_eq!(fault(&refused, None), format!("the response is {rcode}"));
        }
        let alias = response().authoritative().answer(ZONE, Type::CNAME, 60, b"\x01n\0").soa(".");
        assert!(fault(&alias, None).contains("an alias"));
        let mut cut = response().answer(ZONE, Type::DS, 60, DS).message();
        cut.pop();
        assert_eq!(judge(&cut, name(ZONE).as_name(), None), Err(MALFORMED.to_owned()));
    }
}
