//! The steps of one client's query: cache lookups, chains across rules, DNS64. Each step runs the same way
//! whether its answer came from the cache or from another server.

use cache::Now;
use query_path::Refusal;
use validator::BogusReason;
use wire::edns::ErrorInfo;
use wire::{Header, LowerNameBuf, Rcode, Type};

use crate::failures::FailureCause;
use crate::known::Known;
use crate::message::{Message, Piece, Reply, Unjoinable, join};
use crate::query_state::QueryState;
use crate::rewrite::{RewriteStep, Rewritten, blocked_reply};
use crate::sentinel;
use crate::service::Service;
use crate::settings::Policy;
use crate::stalled::Refresh;
use crate::targets::{AliasTarget, TargetAnswer};

/// What to do next.
pub(crate) enum Step {
    /// Send the reply.
    Reply(Reply),
    /// Start a lookup.
    Ask {
        /// A stale answer is available.
        stale: bool,
    },
    /// Refuse the query.
    Refuse(Refusal),
    /// Send no reply.
    NoReply,
}

/// The chain is too long or a loop, or its parts cannot be joined.
const CHAIN: Refusal = Refusal::because(Rcode::SERVFAIL, ErrorInfo::OTHER);
/// The name's statement about a key is false (RFC 8509 §3.2).
const SENTINEL: Refusal = Refusal::because(Rcode::SERVFAIL, ErrorInfo::OTHER);
/// A cached failure: no server answered a short time ago.
const REMEMBERED: Refusal = Refusal::because(Rcode::SERVFAIL, ErrorInfo::CACHED_ERROR);

impl Service {
    /// Answers from cached data as far as possible, and returns the next step.
    pub(crate) fn next_step(&self, policy: &Policy, query_state: &mut QueryState, now: Now) -> Step {
        loop {
            if std::mem::take(&mut query_state.is_led_here)
                && let Some(step) = self.zone_step(policy, query_state, now)
            {
                return step;
            }
            match self.gate(policy, query_state) {
                None => {}
                Some(Rewritten::Step(step)) => return step.into(),
                // A rule has made an alias, whose target is the next name.
                Some(Rewritten::Next | Rewritten::Kept(..)) => continue,
            }
            query_state.place_next(policy);
            let QueryState { next, partition, client, .. } = &*query_state;
            let (piece, leads_to) = match self.known(policy, next, *partition, Some(*client), now) {
                Known::Answer(piece) => (piece, None),
                // Further links are looked up together with their targets, as many as one server follows.
                Known::Link(..) if query_state.links.is_some() => return Step::Ask { stale: false },
                Known::Link(piece, target) => {
                    // In that case the first link does not count either.
                    query_state.chain_left = query_state.chain_left.saturating_add(1);
                    (piece, Some(target))
                }
                Known::Failure(Some(stale)) => (stale, None),
                Known::Failure(None) => {
                    self.stats().remembered_failures.add();
                    self.failed(&query_state.next, FailureCause::Remembered);
                    return Step::Refuse(REMEMBERED);
                }
                Known::Bogus(reason) => {
                    self.stats().remembered_failures.add();
                    self.failed(&query_state.next, FailureCause::RememberedBogus(reason));
                    return Step::Refuse(refusal_of(reason));
                }
                Known::Nothing(None) => return Step::Ask { stale: false },
                Known::Nothing(Some(stale)) => match self.refresh(policy, query_state, now) {
                    Refresh::Wait => return Step::Ask { stale: true },
                    Refresh::Behind => {
                        let QueryState { next, client, budget, quota, .. } = &*query_state;
                        self.fetch(*next, *client, Some(budget.clone()), quota.clone());
                        (stale, None)
                    }
                    Refresh::Later => (stale, None),
                },
                Known::NoRule => {
                    let alone = query_state.links_alone().map(Step::Reply);
                    return alone.unwrap_or(Step::Refuse(Refusal::NOT_AUTHORITATIVE));
                }
            };
            if let Some(step) = self.take(policy, query_state, piece, leads_to, now) {
                return step;
            }
        }
    }

    /// Answers the next query from a zone served here. Returns `None` if rules and other servers answer it,
    /// or the name that the answer of the zone leads to.
    #[cold]
    fn zone_step(&self, policy: &Policy, query_state: &mut QueryState, now: Now) -> Option<Step> {
        let QueryState { next, rewrite, .. } = &*query_state;
        let target = AliasTarget {
            name: next.name.as_lower(),
            qtype: next.qtype,
            dnssec_ok: next.dnssec_ok,
            client: &rewrite.client,
            key: rewrite.rule_client().key,
        };
        let reply = match self.zones.get()?.answer(&target) {
            TargetAnswer::Elsewhere => return None,
            TargetAnswer::Withheld => {
                let info = query_state.info;
                query_state.links_alone().map(|reply| Reply { info, ..reply })
            }
            TargetAnswer::Refused(refusal) => return Some(Step::Refuse(refusal)),
            // AAAA records are made of these A records.
            TargetAnswer::Answer(message, leads_to) if query_state.without.is_some() => {
                return self.take(policy, query_state, Piece::made(message, Rcode::NOERROR), leads_to, now);
            }
            TargetAnswer::Answer(message, None) => query_state.with_end(&message).ok(),
            TargetAnswer::Answer(message, Some(leads_to)) => {
                let led = query_state.lead_on(&Piece::made(message, Rcode::NOERROR), leads_to);
                return led.err().map(|Unjoinable| self.no_chain(query_state));
            }
        };
        Some(reply.map_or_else(|| self.no_chain(query_state), Step::Reply))
    }

    /// Takes the answer to the `next` query, which may lead into another rule's domain. Returns `None` if
    /// another query has to be answered.
    pub(crate) fn take(
        &self,
        policy: &Policy,
        query_state: &mut QueryState,
        piece: Piece,
        leads_to: Option<LowerNameBuf>,
        now: Now,
    ) -> Option<Step> {
        let (piece, leads_to) = match self.rewrite(policy, query_state, piece, leads_to, now) {
            Rewritten::Kept(piece, leads_to) => (piece, leads_to),
            Rewritten::Step(step) => return Some(step.into()),
            // A rule has made an alias, whose target is the next name.
            Rewritten::Next => return None,
        };
        query_state.stale |= piece.stale;
        query_state.info = piece.info.or(query_state.info);
        query_state.upstream = piece.upstream.or(query_state.upstream);
        query_state.authentic &= piece.authentic;
        if let Some(target) = leads_to {
            let led = query_state.lead_on(&piece, target);
            return led.err().map(|Unjoinable| self.no_chain(query_state));
        }
        let piece = match (query_state.without.take(), &policy.dns64) {
            // DNS64 was switched off since.
            (Some((without, links)), None) => {
                query_state.links = links;
                without
            }
            (Some((without, links)), Some(dns64)) => {
                let ttl = without.negative_ttl.map(|ttl| ttl.as_secs());
                match dns64.synthesize(piece.message.bytes(), ttl) {
                    Some(made) if piece.rcode == Rcode::NOERROR => {
                        self.stats().synthesized.add();
                        query_state.authentic = false;
                        Piece { message: Message::Own(made.into()), ..piece }
                    }
                    _ => {
                        query_state.links = links;
                        without
                    }
                }
            }
            (None, Some(dns64)) if query_state.dns64 && dns64.wants_synthesis(piece.message.bytes()) => {
                query_state.without = Some((piece, query_state.links.clone()));
                query_state.next.qtype = Type::A;
                return None;
            }
            (None, Some(dns64)) if query_state.dns64 => match dns64.without_excluded(piece.message.bytes()) {
                Some(usable) => Piece { message: Message::Own(usable.into()), authentic: false, ..piece },
                None => piece,
            },
            _ => piece,
        };
        if piece.stale {
            self.stats().stale.add();
        }
        Some(self.end(policy, query_state, piece, now))
    }

    /// Returns how to refresh the expired answer to the next query.
    fn refresh(&self, policy: &Policy, query_state: &QueryState, now: Now) -> Refresh {
        self.stalled.refresh(&query_state.next, now, policy.stale_refresh)
    }

    fn no_chain(&self, query_state: &QueryState) -> Step {
        self.failed(&query_state.asked, FailureCause::AliasChain);
        Step::Refuse(CHAIN)
    }

    /// Returns the reply to a query whose answer leads through an alias to a name that a list blocks.
    /// A query that a response policy zone exempts or has rewritten is exempt from lists as well.
    fn blocked_alias(&self, policy: &Policy, query_state: &mut QueryState, message: &[u8]) -> Option<Reply> {
        let lists = policy.lists.as_deref().filter(|_| !query_state.rewrite.is_over)?;
        let [_, answers, ..] = Header::of(message)?.counts();
        let QueryState { asked, rewrite, .. } = query_state;
        let blocked = lists.blocks_alias(self.cache().key(), rewrite.rule_client(), message, answers)?;
        rewrite.rule = lists.note_blocked(blocked);
        blocked_reply(lists, blocked, asked)
    }

    /// Completes the answer with its last piece.
    fn end(&self, policy: &Policy, query_state: &mut QueryState, piece: Piece, now: Now) -> Step {
        if query_state.authentic
            && !query_state.stale
            && sentinel::lies(&policy.validation, &query_state.asked)
        {
            let validates =
                self.cache_view(policy, &query_state.asked).is_some_and(|cache_view| cache_view.validates);
            if validates {
                self.keep_failure_of_query(policy, query_state, now);
                self.failed(&query_state.asked, FailureCause::Sentinel);
                return Step::Refuse(SENTINEL);
            }
        }
        let Some(links) = &query_state.links else {
            if let Some(reply) = self.blocked_alias(policy, query_state, piece.message.bytes()) {
                return Step::Reply(reply);
            }
            return Step::Reply(query_state.reply(piece.message, piece.rcode));
        };
        let authentic = query_state.authentic && !query_state.stale;
        let Ok(joined) = join(&links.message, piece.message.bytes(), authentic) else {
            return self.no_chain(query_state);
        };
        if !links.from_zone && !query_state.dns64 && !query_state.stale && !query_state.rewrite.is_rewritten {
            self.keep_chain(policy, query_state, &joined, piece.negative_ttl, now);
        }
        if let Some(reply) = self.blocked_alias(policy, query_state, &joined) {
            return Step::Reply(reply);
        }
        let message = query_state.rewrite.with_soa(joined);
        Step::Reply(query_state.reply(Message::Own(message.into()), piece.rcode))
    }
}

impl From<RewriteStep> for Step {
    fn from(step: RewriteStep) -> Step {
        match step {
            RewriteStep::Reply(reply) => Step::Reply(reply),
            RewriteStep::NoReply => Step::NoReply,
            RewriteStep::Refuse(refusal) => Step::Refuse(refusal),
            RewriteStep::Ask => Step::Ask { stale: false },
        }
    }
}

/// Returns the refusal for a bogus answer.
pub(crate) fn refusal_of(reason: BogusReason) -> Refusal {
    Refusal::because(Rcode::SERVFAIL, reason.extended_error())
}
