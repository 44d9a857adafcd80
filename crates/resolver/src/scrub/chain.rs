//! From the name that was asked to the one that answers, along CNAME and DNAME.

use wire::{LowerNameBuf, Name, NameBuf, Type};

use super::records::{Kept, Records};
use super::{ReplyFault, Scope};
use crate::inquiry::Inquiry;

/// Links followed, CNAME and DNAME together. Other resolvers stop at 11 to 16.
const LINKS: usize = 16;

/// Where a chain ended.
pub(super) struct Chain {
    /// The name it ended at.
    pub(super) end: NameBuf,
    /// The records asked for were there.
    pub(super) found: bool,
    /// It leads out of the domain, to this name.
    pub(super) leads_to: Option<LowerNameBuf>,
}

impl Chain {
    /// Whether it is the beginning of a chain, with nothing at the name that it leads to.
    pub(super) fn breaks_off(&self, inquiry: &Inquiry) -> bool {
        !self.found && self.leads_to.is_none() && self.end.as_name() != inquiry.name.as_name()
    }

    /// Keeps the chain and what answers at its end.
    pub(super) fn follow(
        records: &mut Records<'_>,
        inquiry: &Inquiry,
        scope: &Scope<'_>,
        kept: &mut Kept,
    ) -> Result<Chain, ReplyFault> {
        let mut end: NameBuf = inquiry.name.into();
        for _ in 0..=LINKS {
            let name = end.as_name();
            kept.passes(name);
            if !name.is_at_or_below(scope.domain) {
                return Ok(Chain { end, found: false, leads_to: Some(name.to_lower()) });
            }
            if let Some(next) = dname(records, name, scope, kept)? {
                let Some(next) = next else { return Ok(Chain { end, found: false, leads_to: None }) };
                // ANY is answered by the CNAME that follows (RFC 1034 §4.3.2, step 3a). Some servers go on all the same.
                let target = next.as_name();
                let ends = kept.has_passed(target) || !records.tells_of(target, scope.domain);
                if inquiry.qtype == Type::CNAME || inquiry.qtype == Type::ANY && ends {
                    return Ok(Chain { end, found: true, leads_to: None });
                }
                end = next;
                continue;
            }
            if inquiry.qtype == Type::ANY {
                let found = kept.all_at(records, name)?;
                return Ok(Chain { end, found, leads_to: None });
            }
            if let Some(at) = records.answer(name, inquiry.qtype) {
                kept.set(records, at)?;
                return Ok(Chain { end, found: true, leads_to: None });
            }
            let Some(at) = records.answer(name, Type::CNAME) else {
                return Ok(Chain { end, found: false, leads_to: None });
            };
            end = target(&records.rdata(at)?)?;
            kept.set(records, at)?;
        }
        Err(ReplyFault::Chain)
    }
}

/// Keeps the DNAME above `name`, if there is one, and the CNAME that follows from it, whatever CNAME came along
/// (RFC 6672 §2.2, §3.1). Returns where it leads, or `Some(None)` if there is no such name.
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
