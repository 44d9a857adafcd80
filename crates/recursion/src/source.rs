//! The source for cache misses: access control, local names, lookups.

use std::sync::Arc;

use query_path::request::QueryQuestion;
use query_path::{Asked, Refusal, Responders, Source, SourceReply};
use wire::edns::ErrorInfo;
use wire::hash::HashedName;
use wire::message::{Builder, Compressor, Header, MAX_MESSAGE, Offset, Owner, Section};
use wire::{Class, LowerName, LowerNameBuf, Name, Rcode, Ttl, Type};

use crate::cached::query_key;
use crate::message::ReplyOptions;
use crate::query_state::QueryState;
use crate::service::Service;
use crate::settings::Policy;
use crate::steps::Step;
use crate::targets::AliasTarget;
use crate::waiter::Waiting;

/// The source of answers that are not in the cache.
struct RecursiveSource(Arc<Service>);

impl Service {
    /// Returns the source that answers cache misses.
    pub fn source(self: &Arc<Self>) -> Arc<dyn Source> {
        Arc::new(RecursiveSource(Arc::clone(self)))
    }
}

impl Service {
    /// Whether a zone that the client gets answers from has a name that an alias leads to.
    fn has_target(&self, name: LowerName<'_>, asked: &Asked<'_>) -> bool {
        let target = AliasTarget {
            name,
            qtype: asked.question.qtype,
            dnssec_ok: asked.request.dnssec_ok(),
            client: asked.client,
            key: asked.verified.map(|verified| verified.key().name()),
        };
        self.zones.get().is_some_and(|zones| zones.has(&target))
    }
}

/// Whether a type can be looked up: meta types have no records, ANY excepted (RFC 6895 §3.1).
fn is_askable(qtype: Type) -> bool {
    qtype == Type::ANY || !qtype.is_meta()
}

impl Source for RecursiveSource {
    fn answer(&self, asked: &Asked<'_>, b: &mut Builder<'_>, responders: Responders<'_>) -> SourceReply {
        let service = &self.0;
        let question = asked.question;
        if !asked.may_recurse {
            service.stats().refused.add();
            return SourceReply::Refused(Refusal::PROHIBITED);
        }
        if question.qclass != Class::IN {
            return SourceReply::Refused(Refusal::CLASS);
        }
        let policy = service.policy();
        let (empty, header) = (b.mark(), b.header());
        let names = policy.local(policy.partition_of(asked.group_client()));
        let is_served = |name: LowerName<'_>| service.has_target(name, asked);
        let local = names.answer(asked.qname, asked.name(), question.qtype, question.qclass, &is_served, b);
        let leads_to = match local {
            Some(answer) => {
                service.stats().local.add();
                let Some(target) = answer.leads_to else { return SourceReply::Ready(None) };
                Some(target)
            }
            None => None,
        };
        if !asked.request.header.recursion_desired() {
            if leads_to.is_some() {
                return SourceReply::Ready(None);
            }
            // A client without RD must not see which answers are cached (RFC 8914 §4.21).
            return SourceReply::Refused(Refusal::NOT_AUTHORITATIVE);
        }
        if !is_askable(question.qtype) {
            return SourceReply::Refused(Refusal::because(Rcode::NOTIMP, ErrorInfo::NOT_SUPPORTED));
        }
        let mut query_state = QueryState::new(&policy, query_key(asked), asked.group_client());
        if let Some(target) = leads_to {
            query_state = query_state.behind(b.message(), target);
            query_state.is_led_here = true;
            b.rollback(empty);
            b.flags(|now| *now = header);
        } else if let Some(target) = ptr_target(&policy, asked) {
            let Some(link) = link(asked, target.as_name()) else {
                return SourceReply::Refused(Refusal::ABANDONED);
            };
            query_state = query_state.behind(link, target);
            query_state.is_led_here = true;
        }
        self.go(query_state, &policy, asked, b, responders)
    }

    fn follow(
        &self,
        target: &HashedName,
        links: Vec<u8>,
        asked: &Asked<'_>,
        b: &mut Builder<'_>,
        responders: Responders<'_>,
    ) -> SourceReply {
        let policy = self.0.policy();
        let target = target.as_lower().to_buf();
        let query_state =
            QueryState::new(&policy, query_key(asked), asked.group_client()).behind(links, target);
        self.go(query_state, &policy, asked, b, responders)
    }
}

impl RecursiveSource {
    /// Answers from local state, or starts a lookup.
    fn go(
        &self,
        mut query_state: QueryState,
        policy: &Policy,
        asked: &Asked<'_>,
        b: &mut Builder<'_>,
        responders: Responders<'_>,
    ) -> SourceReply {
        let service = &self.0;
        let now = service.now(asked.received);
        let step = service.next_step(policy, &mut query_state, now);
        if !matches!(step, Step::Ask { .. }) {
            asked.rule.set(policy.counted(&query_state.rewrite));
        }
        match step {
            Step::Reply(reply) => SourceReply::Ready(reply.write(ReplyOptions::of(asked.request), b)),
            Step::Refuse(refusal) => SourceReply::Refused(refusal),
            Step::NoReply => SourceReply::NoReply,
            Step::Ask { stale } => {
                service.stats().misses.add();
                let (responder, promise) = responders.take();
                service.ask(policy, Box::new(Waiting { responder, query_state }), stale, now);
                SourceReply::Pending(promise)
            }
        }
    }
}

/// Returns the PTR owner name that a query below the DNS64 prefix maps to (RFC 6147 §5.3.1).
fn ptr_target(policy: &Policy, asked: &Asked<'_>) -> Option<LowerNameBuf> {
    let dns64 = policy.dns64.as_ref().filter(|_| asked.question.qtype == Type::PTR)?;
    dns64.applies_to(asked.client.peer.ip()).then(|| dns64.ptr_target(asked.qname.as_lower()))?
}

/// TTL of a CNAME made for DNS64, in seconds: its target never changes.
const LINK_TTL: u32 = 3600;

/// Returns a message whose answer is a CNAME to `target`.
fn link(asked: &Asked<'_>, target: Name<'_>) -> Option<Vec<u8>> {
    let (mut room, mut names) = (vec![0; MAX_MESSAGE], Compressor::small());
    let header = Header::query(0).reply();
    let mut b = Builder::new(&mut room, MAX_MESSAGE, header, &mut names);
    let QueryQuestion { qtype, qclass, .. } = asked.question;
    b.question(asked.qname.as_lower().as_name(), qtype, qclass).ok()?;
    let (owner, ttl) = (Owner::At(Offset::QNAME), Ttl::from_secs(LINK_TTL));
    b.record(Section::Answer, owner, Type::CNAME, qclass, ttl, target.as_wire()).ok()?;
    let len = b.finish();
    room.truncate(len);
    Some(room)
}
