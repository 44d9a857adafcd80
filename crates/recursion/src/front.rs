//! What memory does not answer: who may ask, names answered on the spot, and the way to other servers.

use std::sync::Arc;

use engine::request::Question;
use engine::{Asked, Refusal, Source, Sourced, TicketOffice};
use wire::edns::ErrorInfo;
use wire::hash::HashedName;
use wire::message::{Builder, Compressor, Header, MAX_MESSAGE, Offset, Owner, Section};
use wire::{Class, LowerNameBuf, Name, Rcode, Ttl, Type};

use crate::cached::inquiry;
use crate::message::Wishes;
use crate::policy::Policy;
use crate::pursuit::{Pursuit, Step};
use crate::service::Service;
use crate::settler::Waiting;

/// The source of answers for names that are not in memory.
pub(crate) struct Front(pub(crate) Arc<Service>);

/// Whether other servers are asked for a type: no answer is made of meta types, ANY excepted (RFC 6895 §3.1).
fn is_askable(qtype: Type) -> bool {
    qtype == Type::ANY || !qtype.is_meta()
}

impl Source for Front {
    fn answer(&self, asked: &Asked<'_>, b: &mut Builder<'_>, tickets: TicketOffice<'_>) -> Sourced {
        let service = &self.0;
        let question = asked.question;
        if !asked.may_recurse {
            service.stats().refused.add();
            return Sourced::Refused(Refusal::PROHIBITED);
        }
        if question.qclass != Class::IN {
            return Sourced::Refused(Refusal::CLASS);
        }
        let policy = service.policy();
        let (empty, header) = (b.mark(), b.header());
        let local = policy.local.answer(asked.qname, asked.name(), question.qtype, question.qclass, b);
        let leads_to = match local {
            Some(answer) => {
                service.stats().local.add();
                let Some(target) = answer.leads_to else { return Sourced::Ready(None) };
                Some(target)
            }
            None => None,
        };
        if !asked.request.header.recursion_desired() {
            if leads_to.is_some() {
                return Sourced::Ready(None);
            }
            // A client without RD does not learn what others have asked (RFC 8914 §4.21).
            return Sourced::Refused(Refusal::NOT_AUTHORITATIVE);
        }
        if !is_askable(question.qtype) {
            return Sourced::Refused(Refusal::because(Rcode::NOTIMP, ErrorInfo::NOT_SUPPORTED));
        }
        let mut pursuit = Pursuit::new(&policy, inquiry(asked), asked.client.peer.ip());
        if let Some(target) = leads_to {
            pursuit = pursuit.behind(b.message(), target);
            b.rollback(empty);
            b.flags(|now| *now = header);
        } else if let Some(target) = ptr_target(&policy, asked) {
            let Some(link) = link(asked, target.as_name()) else {
                return Sourced::Refused(Refusal::ABANDONED);
            };
            pursuit = pursuit.behind(link, target);
        }
        self.go(pursuit, &policy, asked, b, tickets)
    }

    fn follow(
        &self,
        target: &HashedName,
        links: Vec<u8>,
        asked: &Asked<'_>,
        b: &mut Builder<'_>,
        tickets: TicketOffice<'_>,
    ) -> Sourced {
        let policy = self.0.policy();
        let target = target.as_lower().to_buf();
        let pursuit = Pursuit::new(&policy, inquiry(asked), asked.client.peer.ip()).behind(links, target);
        self.go(pursuit, &policy, asked, b, tickets)
    }
}

impl Front {
    /// Answers with what is known, or has the rest asked for.
    fn go(
        &self,
        mut pursuit: Pursuit,
        policy: &Policy,
        asked: &Asked<'_>,
        b: &mut Builder<'_>,
        tickets: TicketOffice<'_>,
    ) -> Sourced {
        let service = &self.0;
        let now = service.now(asked.received);
        match service.pursue(policy, &mut pursuit, now) {
            Step::Reply(reply) => Sourced::Ready(reply.write(Wishes::of(asked.request), b)),
            Step::Refuse(refusal) => Sourced::Refused(refusal),
            Step::Ask { stale } => {
                service.stats().misses.add();
                let (ticket, promise) = tickets.take();
                service.ask(policy, Box::new(Waiting { ticket, pursuit }), stale, now);
                Sourced::Pending(promise)
            }
        }
    }
}

/// The name that a PTR question below the DNS64 prefix is about (RFC 6147 §5.3.1).
fn ptr_target(policy: &Policy, asked: &Asked<'_>) -> Option<LowerNameBuf> {
    let dns64 = policy.dns64.as_ref().filter(|_| asked.question.qtype == Type::PTR)?;
    dns64.applies_to(asked.client.peer.ip()).then(|| dns64.ptr_target(asked.qname.as_lower()))?
}

/// How long a link made for DNS64 may be kept, in seconds: what it says never changes.
const LINK_TTL: u32 = 3600;

/// A message whose answer is a CNAME to `target`.
fn link(asked: &Asked<'_>, target: Name<'_>) -> Option<Vec<u8>> {
    let (mut room, mut names) = (vec![0; MAX_MESSAGE], Compressor::small());
    let header = Header::query(0).reply();
    let mut b = Builder::new(&mut room, MAX_MESSAGE, header, &mut names);
    let Question { qtype, qclass, .. } = asked.question;
    b.question(asked.qname.as_lower().as_name(), qtype, qclass).ok()?;
    let (owner, ttl) = (Owner::At(Offset::QNAME), Ttl::from_secs(LINK_TTL));
    b.record(Section::Answer, owner, Type::CNAME, qclass, ttl, target.as_wire()).ok()?;
    let len = b.finish();
    room.truncate(len);
    Some(room)
}
