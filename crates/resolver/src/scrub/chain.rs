//! From the name that was asked to the one that answers, along CNAME and DNAME.

use wire::{LowerNameBuf, Name, NameBuf, Rcode, Type};

use super::records::{Kept, Records};
use super::{ReplyFault, Scope};
use crate::query_key::QueryKey;

/// Links followed, CNAME and DNAME together. Other resolvers stop at 11 to 16.
const LINKS: usize = 16;

/// Where a chain ended.
pub(super) struct Chain {
    /// The name it ended at.
    pub(super) end: NameBuf,
    /// What the reply has for that name.
    pub(super) ends: End,
    /// It leads out of the domain, to this name.
    pub(super) leads_to: Option<LowerNameBuf>,
}

/// What the answer section has for the last name of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The records asked for.
    Data,
    /// The CNAME that follows from a DNAME, as the answer to ANY. The response code may be that of its
    /// target.
    Alias,
    /// Nothing.
    Nothing,
    /// A DNAME that makes the name too long.
    TooLong,
}

impl Chain {
    /// Whether it is the beginning of a chain, with nothing at the name that it leads to.
    pub(super) fn breaks_off(&self, query_key: &QueryKey) -> bool {
        self.ends == End::Nothing && self.leads_to.is_none() && self.end.as_name() != query_key.name.as_name()
    }

    /// The response code of what is kept. `rcode` is the reply's, that of the last name of its chain (RFC
    /// 6604 §3), which is not kept where the chain leads on.
    ///
    /// # Errors
    /// [`ReplyFault::Contradiction`] if the records prove the response code wrong.
    pub(super) fn rcode(&self, rcode: Rcode) -> Result<Rcode, ReplyFault> {
        match (self.ends, rcode) {
            (_, Rcode::NOERROR | Rcode::NXDOMAIN | Rcode::YXDOMAIN) if self.leads_to.is_some() => {
                Ok(Rcode::NOERROR)
            }
            (End::Alias, Rcode::NOERROR | Rcode::NXDOMAIN | Rcode::YXDOMAIN) => Ok(Rcode::NOERROR),
            (End::Data, Rcode::NOERROR)
            | (End::Nothing, Rcode::NOERROR | Rcode::NXDOMAIN)
            // RFC 6672 §2.2: it is for this and nothing else.
            | (End::TooLong, Rcode::YXDOMAIN) => Ok(rcode),
            (_, Rcode::NOERROR | Rcode::NXDOMAIN | Rcode::YXDOMAIN) => Err(ReplyFault::Contradiction(rcode)),
            _ => Err(ReplyFault::Rcode(rcode)),
        }
    }

    /// Keeps the chain and what answers at its end.
    pub(super) fn follow(
        records: &mut Records<'_>,
        query_key: &QueryKey,
        scope: &Scope<'_>,
        kept: &mut Kept,
    ) -> Result<Chain, ReplyFault> {
        let mut end: NameBuf = query_key.name.into();
        for _ in 0..=LINKS {
            let name = end.as_name();
            kept.passes(name);
            if !name.is_at_or_below(scope.domain) {
                return Ok(Chain { end, ends: End::Nothing, leads_to: Some(name.to_lower()) });
            }
            if let Some(next) = dname(records, name, scope, kept)? {
                let Some(next) = next else { return Ok(Chain { end, ends: End::TooLong, leads_to: None }) };
                // ANY is answered by the CNAME that follows (RFC 1034 §4.3.2, step 3a). Some servers go on
                // all the same.
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

/// Keeps the DNAME above `name`, if there is one, and the CNAME that follows from it, whatever CNAME came
/// along (RFC 6672 §2.2, §3.1). Returns where it leads, or `Some(None)` if that name would be too long.
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

/// The name that RDATA of CNAME and DNAME is.
fn target(rdata: &[u8]) -> Result<NameBuf, ReplyFault> {
    Name::from_wire(rdata).map(Name::to_buf).map_err(|_| ReplyFault::Malformed)
}
