//! The chain of CNAME and DNAME from QNAME to the name of the answer.

use wire::{LowerNameBuf, Name, NameBuf, Rcode, Type};

use super::records::{Kept, Records};
use super::{ReplyFault, Scope};
use crate::query_key::QueryKey;

/// Links followed, CNAME and DNAME together. Other resolvers stop at 11 to 16.
const MAX_LINKS: usize = 16;

/// The end of a chain.
pub(super) struct Chain {
    /// The name at the end.
    pub(super) end: NameBuf,
    /// The records that the reply has for that name.
    pub(super) ends: End,
    /// The name outside the domain, beyond the border or not in the reply, that the chain leads to.
    pub(super) leads_to: Option<LowerNameBuf>,
}

/// The records in the answer section for the last name of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Records of the queried type.
    Data,
    /// The CNAME synthesized from a DNAME, as the answer to ANY. The response code may be that of its target.
    Alias,
    /// Nothing.
    Nothing,
    /// A DNAME that makes the name too long.
    TooLong,
}

impl Chain {
    /// Whether it has a link, but no records for the name that the last link leads to.
    pub(super) fn breaks_off(&self, query_key: &QueryKey) -> bool {
        self.ends == End::Nothing && self.leads_to.is_none() && self.end.as_name() != query_key.name.as_name()
    }

    /// Returns the response code to store. `rcode` is the reply's, which is that of the chain's last name
    /// (RFC 6604 §3) and is dropped if the chain leads on.
    ///
    /// # Errors
    /// [`ReplyFault::Contradiction`] if the records contradict the response code.
    pub(super) fn rcode(&self, rcode: Rcode) -> Result<Rcode, ReplyFault> {
        match (self.ends, rcode) {
            (_, Rcode::NOERROR | Rcode::NXDOMAIN | Rcode::YXDOMAIN) if self.leads_to.is_some() => {
                Ok(Rcode::NOERROR)
            }
            (End::Alias, Rcode::NOERROR | Rcode::NXDOMAIN | Rcode::YXDOMAIN) => Ok(Rcode::NOERROR),
            (End::Data, Rcode::NOERROR)
            | (End::Nothing, Rcode::NOERROR | Rcode::NXDOMAIN)
            // RFC 6672 §2.2: YXDOMAIN means this only.
            | (End::TooLong, Rcode::YXDOMAIN) => Ok(rcode),
            (_, Rcode::NOERROR | Rcode::NXDOMAIN | Rcode::YXDOMAIN) => Err(ReplyFault::Contradiction(rcode)),
            _ => Err(ReplyFault::Rcode(rcode)),
        }
    }

    /// Keeps the chain and the records at its end.
    pub(super) fn follow(
        records: &mut Records<'_>,
        query_key: &QueryKey,
        scope: &Scope<'_>,
        kept: &mut Kept,
    ) -> Result<Chain, ReplyFault> {
        let mut end: NameBuf = query_key.name.into();
        for _ in 0..=MAX_LINKS {
            let name = end.as_name();
            kept.passes(name);
            if scope.ends_before(name) {
                return Ok(Chain { end, ends: End::Nothing, leads_to: Some(name.to_lower()) });
            }
            if let Some(next) = dname(records, name, scope, kept)? {
                let Some(next) = next else { return Ok(Chain { end, ends: End::TooLong, leads_to: None }) };
                // ANY is answered by the synthesized CNAME (RFC 1034 §4.3.2, step 3a). Some servers follow it
                // nevertheless.
                let target = next.as_name();
                let ends = kept.has_passed(target) || !records.tells_of(target, scope.domain);
                match query_key.qtype {
                    Type::CNAME => return Ok(Chain { end, ends: End::Data, leads_to: None }),
                    Type::ANY if ends => return Ok(Chain { end, ends: End::Alias, leads_to: None }),
                    _ => {}
                }
                end = next;
                continue;
            }
            if query_key.qtype == Type::ANY {
                let ends = if kept.all_at(records, name)? { End::Data } else { End::Nothing };
                return Ok(Chain { end, ends, leads_to: None });
            }
            if let Some(at) = records.answer(name, query_key.qtype) {
                kept.set(records, at)?;
                return Ok(Chain { end, ends: End::Data, leads_to: None });
            }
            let Some(at) = records.answer(name, Type::CNAME) else {
                return Ok(Chain { end, ends: End::Nothing, leads_to: None });
            };
            end = target(&records.rdata(at)?)?;
            kept.set(records, at)?;
        }
        Err(ReplyFault::Chain)
    }
}

/// Keeps the DNAME above `name`, if there is one, and its synthesized CNAME, ignoring the CNAME in the reply
/// (RFC 6672 §2.2, §3.1). Returns its target, or `Some(None)` if the target is too long.
fn dname(
    records: &mut Records<'_>,
    name: Name<'_>,
    scope: &Scope<'_>,
    kept: &mut Kept,
) -> Result<Option<Option<NameBuf>>, ReplyFault> {
    let Some((at, labels)) = records.dname_above(name, scope.domain) else { return Ok(None) };
    let suffix = target(&records.rdata(at)?)?;
    let ttl = kept.set(records, at)?;
    let Ok(next) = NameBuf::replace_suffix(name, labels, suffix.as_name()) else {
        return Ok(Some(None));
    };
    kept.synthesized(name, next.as_name(), ttl);
    Ok(Some(Some(next)))
}

/// Parses the target in RDATA of CNAME or DNAME.
fn target(rdata: &[u8]) -> Result<NameBuf, ReplyFault> {
    Name::from_wire(rdata).map(Name::to_buf).map_err(|_| ReplyFault::Malformed)
}
