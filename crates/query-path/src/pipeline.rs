//! The query path: one worker answers one batch at a time.
//!
//! A [`Worker`] pins one version of memory, sources and settings for the batch, and takes its queries through
//! three stages, up to [`BATCH`] together.
//!
//! - Read: `Request::read` stores lengths and flags, and copies nothing. The gate and the route follow at
//!   once, so a query that is refused goes no further. QNAME is lower-cased and all its suffixes are hashed;
//!   what finding it will read is prefetched.
//! - Find: memory finds the location of the data for each query: the zone and a place in it, or, for a client
//!   that may recurse, the entry of the cache. Passes go over all locations; each reads what the pass before
//!   has prefetched and prefetches what the next one reads.
//! - Answer, query by query: the tail writes header and question and reserves space for OPT, memory or a
//!   source writes the sections, and the tail adds the parts common to all replies, counts and logs.
//!
//! A source that answers later takes a [`Responder`]; the worker sends its answer in [`Handler::late`],
//! through the same tail. A source with many messages returns a `MessageStream`, from which the transport
//! pulls messages as the client reads them.
//!
//! Where datagrams are received in large batches, queries that memory does not answer are deferred: their
//! packets are stored in the [`WorkerState`], up to a bound, and [`Handler::resume`] answers a few at a time
//! once the replies of the batch are sent. So a cache hit does not wait for the misses before it.
//!
//! If a handler panics, the transport builds a new one and passes it the undecided queries one by one: a
//! panic costs one query.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use rate_limits::{PrefixHashes, Ticks};
use transfer::tsig::TsigKey;
use transport::{
    Batch, Client, ClientCertificate, Handler, LateReplies, MessageGuard, Outcome, Queries, Replies,
    ReplyRoute, ReturnAddress,
};
use wire::hash::HashedName;
use wire::message::{Builder, Compressor, Mark};
use wire::{Name, NameBuf, Opcode, Type, ZoneName};

use crate::asked::{Asked, QueryFacts};
use crate::chaos;
use crate::client_groups::GroupClient;
use crate::gate::{self, Stopped};
use crate::late::{Deferred, Ready, Responder, Settled, Waiting, WorkerState};
use crate::limiting::Limiter;
use crate::log::{LoggedQuery, QueryLog, Role};
use crate::memory::{LookupKey, Memory, MemoryResult};
use crate::noting::{Served, count_rule, log_withheld, logged, logged_reply, note_failure, to_note};
use crate::refusal::{Answered, Refusal};
use crate::reply_limits::ReplyLimits;
use crate::request::{QueryQuestion, Request};
use crate::route::Route;
use crate::rule_note::RuleNote;
use crate::settings::{Engine, Shared};
use crate::signature::Signature;
use crate::source::{Operation, Responders, SourceReply};
use crate::stats::QueryStats;
use crate::tail::{FinishedReply, FramedQuery, ReplyFrame};
use crate::views::ViewNumber;
use crate::zone_facts::ZoneFacts;

/// The most queries that go through the passes together; larger batches are split.
pub const BATCH: usize = 64;
const _: () = assert!(BATCH <= u8::MAX as usize, "routes number locations in a byte");

/// State of one query between the passes.
struct Case {
    request: Request,
    qname: HashedName,
    route: Route,
    /// Whether recursion is available to the client.
    may_recurse: bool,
    /// Set for each query if there are views, and otherwise that of no view.
    view: ViewNumber,
    /// Of the last query with TSIG in this slot of the batch.
    signature: Option<Box<Signature>>,
}

impl Case {
    /// Returns the result of the TSIG check, if the query has a TSIG record.
    #[inline]
    fn signed(&self) -> Option<&Signature> {
        self.request.tsig_at.and(self.signature.as_deref())
    }

    /// Decides what depends on the client, where anything does: whether access rules accept the message,
    /// whether it needs a cookie, whether it is over the limit of its group, and its view.
    #[inline(never)]
    fn decide_by_client<M: Memory>(
        &mut self,
        shared: &Shared<M>,
        packet: &[u8],
        client: &Client,
        received: Option<Instant>,
        name: Option<&Arc<str>>,
        stats: &QueryStats,
    ) {
        let signed = self.signed();
        let key = signed.and_then(Signature::verified).map(|verified| &**verified.key());
        let stopped = match gate::rules(&self.request, key, client, &shared.config, stats) {
            Some(Stopped::Silence) => Some(Stopped::Silence),
            by_rules => gate::cookie(&self.request, signed, packet, client, &shared.config).or(by_rules),
        };
        let stopped = match (stopped, &shared.group_limits, received) {
            (None, Some(limits), Some(now)) if self.route.is_query() => {
                let ids = self.request.edns.and_then(|edns| edns.client_ids(packet));
                let client = GroupClient { client, key: key.map(TsigKey::name), ids, name };
                gate::limit(limits, client, now)
            }
            (stopped, ..) => stopped,
        };
        self.view = shared.memory.view(client, key);
        if let Some(stopped) = stopped {
            self.route = Route::Stopped(stopped);
        }
    }
}

/// A location, with the index of its case.
struct LocatedCase<A> {
    case: u8,
    location: A,
}

/// The engine's handler in one worker thread, with the buffers that it reuses.
pub struct Worker<M: Memory> {
    engine: Arc<Engine<M>>,
    account: Arc<WorkerState>,
    /// Pinned for the length of a batch.
    shared: Arc<Shared<M>>,
    cases: Box<[Case]>,
    /// For each case the prefixes that its reply is counted in, if the client has limits. Apart from the
    /// cases, so that nothing of it is loaded where limits are off; set only where they are on.
    limited_as: Box<[Option<PrefixHashes>]>,
    /// Of the cases that memory answers; stored next to each other, while the cases are far apart.
    locations: Vec<LocatedCase<M::Location>>,
    names: Compressor,
    scratch: M::Scratch,
}

impl<M: Memory> Handler for Worker<M> {
    fn batch(&mut self, batch: &mut Batch<'_>) {
        let (received, may_put_off) = (batch.received(), batch.may_put_off());
        let (certificate, name) = (batch.certificate(), batch.client_name());
        let terms = BatchTerms { received, may_put_off, certificate, name };
        self.pin();
        let (queries, replies) = batch.split();
        for from in (0..queries.len()).step_by(BATCH) {
            let count = (queries.len() - from).min(BATCH);
            self.read(&queries, from, count, terms);
            self.find(count);
            self.answer(&queries, from, count, terms, replies);
        }
        self.account.stats.batch(batch.elapsed(), batch.len());
    }

    fn late(&mut self, replies: &mut LateReplies<'_>) -> bool {
        self.pin();
        let now = replies.now();
        while let Some(out) = replies.buffer() {
            let Some(ready) = self.account.ready.pop() else { return false };
            let (to, outcome) = self.answer_late(ready, now, out);
            replies.push(to, outcome);
        }
        !self.account.ready.is_empty()
    }

    fn resume(&mut self, replies: &mut LateReplies<'_>, most: usize) -> bool {
        self.pin();
        for _ in 0..most {
            let Some(out) = replies.buffer() else { return true };
            let Some(Deferred { packet, to, received }) = self.account.take_put_off() else { return false };
            let _guard = MessageGuard::new(&to.client, &packet);
            // Its client's limit has counted it.
            self.read_one(0, &packet, || to.client, None, None);
            // The answer to another client's query may be in the cache by now.
            self.find(1);
            let Worker { account, shared, cases, limited_as, locations, names, scratch, .. } = self;
            let ReturnAddress { connection, route, .. } = &to;
            let (connection, routes, ticks) = (*connection, route.as_slice(), shared.config.ticks(received));
            // The answer to a query for a name depends on no certificate, and a datagram has no name.
            let terms = BatchTerms { received, may_put_off: false, certificate: None, name: None };
            let round = Round { shared, account, locations, ticks, terms, connection, routes };
            let line = round.context((&cases[0], &limited_as[0]), &packet, &to.client, 0);
            let outcome = line.answer(names, scratch, out);
            if !matches!(outcome, Outcome::Pending) {
                replies.push(to, outcome);
            }
        }
        self.account.has_put_off()
    }

    /// Releases versions that have been replaced since the last batch.
    fn idle(&mut self) {
        self.pin();
    }
}

impl<M: Memory> Worker<M> {
    /// Returns a worker with `account` as its state.
    pub fn new(engine: Arc<Engine<M>>, account: Arc<WorkerState>) -> Self {
        let route = || Route::Stopped(Stopped::Silence);
        let case = |_| Case {
            request: Request::read(&[]),
            qname: HashedName::new(),
            route: route(),
            may_recurse: false,
            view: ViewNumber::OUTSIDE,
            signature: None,
        };
        let shared = engine.shared().load_full();
        let cases = (0..BATCH).map(case).collect();
        let locations = Vec::with_capacity(BATCH);
        Worker {
            engine,
            account,
            shared,
            cases,
            limited_as: vec![None; BATCH].into(),
            locations,
            names: Compressor::small(),
            scratch: M::Scratch::default(),
        }
    }

    /// The worker's counters.
    pub fn stats(&self) -> &QueryStats {
        &self.account.stats
    }

    /// Pins the current version of memory, sources and settings for the next batch.
    #[inline]
    fn pin(&mut self) {
        let now = self.engine.shared().load();
        // Taking a reference writes to a cache line that all workers share; nearly always nothing has
        // changed.
        if !Arc::ptr_eq(&now, &self.shared) {
            self.shared = arc_swap::Guard::into_inner(now);
            self.cases.iter_mut().for_each(|case| case.view = ViewNumber::OUTSIDE);
        }
    }

    /// First pass: reads `count` queries from index `from` on, and routes each as far as the query alone
    /// decides it.
    #[inline(never)]
    fn read(&mut self, queries: &Queries<'_>, from: usize, count: usize, terms: BatchTerms<'_>) {
        for i in 0..count {
            let packet = queries.packet(from + i);
            self.read_one(i, packet, || *queries.client(from + i), Some(terms.received), terms.name);
            let request = &self.cases[i].request;
            let qtype = request.question.map(|question| question.qtype);
            self.account.stats.query(queries.transport, qtype, packet.len(), request.dnssec_ok());
        }
    }

    /// Reads the query of one case. It counts for the limit of its client's group if `received` is set.
    #[inline]
    fn read_one(
        &mut self,
        case: usize,
        packet: &[u8],
        client: impl Fn() -> Client,
        received: Option<Instant>,
        name: Option<&Arc<str>>,
    ) {
        let Worker { shared, cases, limited_as, account, .. } = self;
        let (limited_as, case) = (&mut limited_as[case], &mut cases[case]);
        case.request.set(packet);
        if let Some(at) = case.request.tsig_at {
            case.signature = Some(Box::new(Signature::of(packet, at, &shared.keys)));
        }
        case.route = Route::of(&case.request, case.signed(), &shared.sources);
        if shared.by_client {
            case.decide_by_client(shared, packet, &client(), received, name, &account.stats);
        }
        case.may_recurse = shared.memory.offers_recursion(&client);
        if let Some(limits) = &shared.config.limits {
            *limited_as = limits.hashes(&client(), case.may_recurse);
        }
        if let Some(question) = case.request.question {
            case.qname.set(shared.memory.key(), question.name(packet));
            if case.route.is_for_memory() {
                shared.memory.prefetch_find(&case.qname);
            }
        }
    }

    /// The passes between: finds where each answer is looked up, and prefetches the data that it is written
    /// from.
    #[inline(never)]
    fn find(&mut self, count: usize) {
        let Worker { shared, cases, locations, .. } = self;
        let memory = &shared.memory;
        locations.clear();
        // There are at most `BATCH` cases, and no more locations: their indices fit into `u8`.
        for (case, Case { request, qname, route, may_recurse, view, .. }) in
            cases[..count].iter_mut().enumerate()
        {
            let (true, Some(question)) = (route.is_for_memory(), request.question) else { continue };
            let lookup_key = LookupKey { request, question, qname, may_recurse: *may_recurse, view: *view };
            let Some(location) = memory.find(&lookup_key) else { continue };
            *route = Route::Memory(locations.len() as u8);
            locations.push(LocatedCase { case: case as u8, location });
        }
        let mut pass = 0;
        while pass < M::PASSES && prefetch(memory, pass, cases, locations) {
            pass += 1;
        }
    }

    /// Last pass: answers each query into its buffer.
    #[inline(never)]
    fn answer(
        &mut self,
        queries: &Queries<'_>,
        from: usize,
        count: usize,
        terms: BatchTerms<'_>,
        replies: &mut Replies<'_>,
    ) {
        let Worker { account, shared, cases, limited_as, locations, names, scratch, .. } = self;
        let Queries { connection, routes, .. } = *queries;
        let ticks = shared.config.ticks(terms.received);
        let round = Round { shared, account, locations, ticks, terms, connection, routes };
        for (case, i) in cases[..count].iter().zip(&*limited_as).zip(from..) {
            let line = round.context(case, queries.packet(i), queries.client(i), i);
            let outcome = line.answer(names, scratch, replies.buffer(i));
            replies.set(i, outcome);
        }
    }

    /// Answers a query whose late answer is ready.
    fn answer_late(&mut self, ready: Ready, now: Instant, out: &mut [u8]) -> (ReturnAddress, Outcome) {
        let Worker { account, shared, names, .. } = self;
        let Waiting { request, head, to, received, may_recurse, role, zone, view, facts, signature, .. } =
            &*ready.waiting;
        let Waiting { upstream, rule, error_text, .. } = *ready.waiting;
        let _guard = MessageGuard::new(&to.client, head);
        let stats = &account.stats;
        stats.late.add(1);
        stats.batch(now.saturating_duration_since(*received), 1);
        let (client, may_recurse) = (&to.client, *may_recurse);
        let (config, signed) = (&*shared.config, signature.as_deref());
        let frame =
            ReplyFrame::new(FramedQuery { request, packet: head, client }, may_recurse, config, signed, None);
        let zone = zone.as_deref().map(NameBuf::as_name);
        let served = || Served { role: *role, zone, view: view.as_ref() };
        if let Some(rule) = &rule {
            count_rule(shared, &frame, rule);
        }
        let (fill, message) = match ready.settled {
            Settled::Sections(fill) => (Some(fill), Vec::new()),
            Settled::Message(message) => (None, message),
            Settled::Stream(messages) => return (*to, count(Outcome::Stream(messages), stats)),
            Settled::NoReply => {
                if let (Some(log), Some(rule)) = (&shared.log, &rule) {
                    log_withheld(&**log, &logged(&frame, *received, served()), rule);
                }
                return (*to, count(Outcome::Drop, stats));
            }
        };
        let passed_on = if fill.is_none() { frame.pass_on(&message, out) } else { None };
        let reply = passed_on.or_else(|| {
            let mut b = frame.begin(out, names);
            let question_only = b.mark();
            let answered = fill.map_or(Err(Refusal::ABANDONED), |fill| fill(&mut b));
            if let Some(refusal) = to_note(answered, signed) {
                note_failure(refusal, signed, stats, shared, || logged(&frame, *received, served()));
            }
            let answered = limit_late(&frame, account, now, &mut b, question_only, answered)?;
            let reply = frame.end_saying(&mut b, question_only, answered, error_text, stats, || *facts);
            Some(frame.seal(reply, out))
        });
        let Some(reply) = reply else { return (*to, count(Outcome::Drop, stats)) };
        frame.account(reply, stats);
        if let Some(log) = &shared.log {
            let reply = logged_reply(reply, out, upstream, rule);
            log.reply(&logged(&frame, *received, served()), &reply);
        }
        (*to, Outcome::Reply(reply.len))
    }
}

/// Counts a late reply, as [`QueryContext::limit`].
#[cold]
fn limit_late(
    frame: &ReplyFrame<'_>,
    account: &WorkerState,
    now: Instant,
    b: &mut Builder<'_>,
    question_only: Mark,
    answered: Answered,
) -> Option<Answered> {
    let Some(limits) = &frame.config.limits else { return Some(answered) };
    let Some(hashes) = &limits.hashes(frame.client, frame.may_recurse) else { return Some(answered) };
    let now = limits.table.ticks(now);
    let limiter = Limiter { limits, hashes, pace: &account.limit_pace, stats: &account.stats, now };
    limiter.apply(frame, b, question_only, answered)
}

/// Runs one prefetch pass over all locations. Returns whether the next pass has work.
#[inline(never)]
fn prefetch<M: Memory>(
    memory: &M,
    pass: usize,
    cases: &[Case],
    locations: &mut [LocatedCase<M::Location>],
) -> bool {
    let mut more = false;
    for LocatedCase { case, location } in locations {
        more |= memory.prefetch(pass, location, &cases[usize::from(*case)].qname);
    }
    more
}

/// Properties of a batch that its queries share.
#[derive(Clone, Copy)]
struct BatchTerms<'a> {
    received: Instant,
    /// Whether queries that memory does not answer may be deferred.
    may_put_off: bool,
    /// See [`Batch::certificate`].
    certificate: Option<&'a Arc<ClientCertificate>>,
    /// See [`Batch::client_name`].
    name: Option<&'a Arc<str>>,
}

/// State that the queries of a batch share.
struct Round<'a, M: Memory> {
    shared: &'a Shared<M>,
    account: &'a Arc<WorkerState>,
    locations: &'a [LocatedCase<M::Location>],
    terms: BatchTerms<'a>,
    /// When it was received, for the counters of limits, if there are limits.
    ticks: Ticks,
    /// See [`ReturnAddress::connection`].
    connection: u64,
    /// See [`Queries::routes`].
    routes: &'a [ReplyRoute],
}

impl<'a, M: Memory> Round<'a, M> {
    #[inline]
    fn context(
        &'a self,
        (case, limited_as): (&'a Case, &'a Option<PrefixHashes>),
        packet: &'a [u8],
        client: &'a Client,
        number: usize,
    ) -> QueryContext<'a, M> {
        let (request, may_recurse, config) = (&case.request, case.may_recurse, &*self.shared.config);
        let (signed, agent) = (case.signed(), self.agent(case));
        let seal = signed.filter(|signature| case.route.is_signed_for(signature));
        let frame =
            ReplyFrame::new(FramedQuery { request, packet, client }, may_recurse, config, seal, agent);
        let (elsewhere, rule) = (Cell::new(false), Cell::new(None));
        QueryContext { frame, round: self, number, case, limited_as, signed, elsewhere, rule }
    }

    /// Returns the agent domain for error reports about the zone that answers (RFC 9567 §6.2), unless the
    /// agent is in the zone itself (§8.1).
    #[inline]
    fn agent(&self, case: &Case) -> Option<Name<'a>> {
        let agent = self.shared.config.report_channel.as_ref()?.as_name();
        let Route::Memory(index) = case.route else { return None };
        let zone = self.shared.memory.zone(&self.locations.get(usize::from(index))?.location)?;
        (!agent.is_at_or_below(zone)).then_some(agent)
    }
}

/// One query, with the state that its answer depends on.
struct QueryContext<'a, M: Memory> {
    frame: ReplyFrame<'a>,
    round: &'a Round<'a, M>,
    /// Its number in the batch.
    number: usize,
    case: &'a Case,
    /// See [`Worker::limited_as`].
    limited_as: &'a Option<PrefixHashes>,
    /// The result of the TSIG check, if the query has a TSIG record.
    signed: Option<&'a Signature>,
    /// Whether neither a zone nor the cache answers, so that a source was asked.
    elsewhere: Cell<bool>,
    /// The rule of a policy that decides the query, for logs.
    rule: Cell<Option<RuleNote>>,
}

/// The decision about a query.
enum Disposition {
    /// Send a reply.
    Reply(Answered),
    /// Drop the query, wait for a late answer, or send a stream of messages.
    Other(Outcome),
    /// The packet is stored; [`Handler::resume`] decides it.
    Deferred,
}

impl<M: Memory> QueryFacts for QueryContext<'_, M> {
    fn certificate(&self) -> Option<&Arc<ClientCertificate>> {
        self.round.terms.certificate
    }

    fn client_name(&self) -> Option<&Arc<str>> {
        self.round.terms.name
    }

    #[cold]
    fn resolves(&self) -> bool {
        let Case { request, qname, may_recurse, view, .. } = self.case;
        let (Route::Memory(_), Some(question)) = (self.case.route, request.question) else { return false };
        let lookup_key = LookupKey { request, question, qname, may_recurse: *may_recurse, view: *view };
        *may_recurse
            && request.header.recursion_desired()
            && self.round.shared.memory.resolves(&lookup_key, self.group_client())
    }

    #[cold]
    fn apex(&self) -> ZoneName {
        self.round.shared.memory.apex(self.case.view, &self.case.qname)
    }

    #[cold]
    fn apex_in_view(&self) -> Option<ZoneName> {
        let view = self.round.shared.memory.view_name(self.case.view)?;
        Some(ZoneName::in_view(self.case.qname.as_lower(), Some(view)))
    }
}

impl<M: Memory> QueryContext<'_, M> {
    /// Decides the query, and finishes the reply: OPT, TSIG, counters, query log.
    #[inline]
    fn answer(&self, names: &mut Compressor, scratch: &mut M::Scratch, out: &mut [u8]) -> Outcome {
        let Round { shared, account, .. } = self.round;
        if matches!(self.case.route, Route::Stopped(Stopped::Silence)) {
            return count(Outcome::Drop, &account.stats);
        }
        let mut b = self.frame.begin(out, names);
        let question_only = b.mark();
        let answered = match self.decide(&mut b, question_only, scratch) {
            Disposition::Reply(answered) => answered,
            Disposition::Deferred => return Outcome::Pending,
            Disposition::Other(outcome) => return self.unanswered(outcome),
        };
        let answered = match &self.frame.config.limits {
            None => answered,
            Some(limits) => match self.limit(limits, &mut b, question_only, answered) {
                Some(answered) => answered,
                None => return self.unanswered(Outcome::Drop),
            },
        };
        if let Some(rule) = self.rule.get() {
            count_rule(shared, &self.frame, &rule);
        }
        self.note(answered);
        let reply = self.frame.end(&mut b, question_only, answered, &account.stats, || self.facts());
        let reply = self.frame.seal(reply, out);
        self.frame.account(reply, &account.stats);
        if let Some(log) = &shared.log {
            self.log(&**log, reply, out);
        }
        Outcome::Reply(reply.len)
    }

    /// Counts the reply where the client has limits, and shortens it if it is over them. Returns `None` if it
    /// is dropped.
    #[inline(never)]
    fn limit(
        &self,
        limits: &ReplyLimits,
        b: &mut Builder<'_>,
        question_only: Mark,
        answered: Answered,
    ) -> Option<Answered> {
        let Some(hashes) = self.limited_as else { return Some(answered) };
        let Round { account, ticks: now, .. } = *self.round;
        let limiter = Limiter { limits, hashes, pace: &account.limit_pace, stats: &account.stats, now };
        limiter.apply(&self.frame, b, question_only, answered)
    }

    /// Writes the answer into `b`, which holds the question only.
    #[inline]
    fn decide(&self, b: &mut Builder<'_>, question_only: Mark, scratch: &mut M::Scratch) -> Disposition {
        let (Route::Memory(index), Some(question)) = (self.case.route, self.frame.request.question) else {
            return self.decide_beyond(b);
        };
        let asked = self.asked(question);
        match self.round.shared.memory.answer(
            &self.round.locations[usize::from(index)].location,
            &asked,
            b,
            scratch,
        ) {
            Ok(MemoryResult::Answer(info)) => Disposition::Reply(Ok(info)),
            Ok(MemoryResult::LeadsTo(target)) => self.follow(question_only, target, &asked, b),
            Ok(MemoryResult::NoReply) => Disposition::Other(Outcome::Drop),
            Ok(MemoryResult::Nothing) if self.waits() => Disposition::Deferred,
            Ok(MemoryResult::Nothing) => {
                self.elsewhere.set(true);
                self.frame.clear(b, question_only);
                self.beyond(Operation::Query, &asked, b)
            }
            Err(refusal) => Disposition::Reply(Err(refusal)),
        }
    }

    /// Decides a query that neither a zone nor the cache covers. Without a resolver it is refused.
    #[inline]
    fn decide_beyond(&self, b: &mut Builder<'_>) -> Disposition {
        match self.case.route {
            Route::Source(Operation::Query) if self.waits() => Disposition::Deferred,
            Route::Source(Operation::Query) if self.round.shared.sources.elsewhere.is_none() => {
                Disposition::Reply(Err(Refusal::NOT_AUTHORITATIVE))
            }
            _ => self.decide_rare(b),
        }
    }

    /// Decides a query that the gate has refused, of class CH, or for a source.
    #[cold]
    #[inline(never)]
    fn decide_rare(&self, b: &mut Builder<'_>) -> Disposition {
        let asked = |question| self.asked(question);
        let answered = match (self.case.route, self.frame.request.question) {
            (Route::Stopped(Stopped::Truncated), _) => {
                b.flags(|header| header.set_truncated(true));
                Ok(None)
            }
            (Route::Stopped(stopped), _) => Err(self.stop(stopped)),
            // The gate refuses a query without a question, and `decide` handles memory.
            (_, None) | (Route::Memory(_), _) => Err(Refusal::OPCODE),
            (Route::Chaos, Some(question)) => {
                let identity = &self.frame.config.identity;
                chaos::answer(identity, self.case.qname.as_lower(), question.qtype, b)
            }
            (Route::Source(of), Some(question)) => return self.beyond(of, &asked(question), b),
            (Route::Unverified(refusal), Some(question)) => {
                return self.unverified(refusal, &asked(question));
            }
        };
        Disposition::Reply(answered)
    }

    /// Returns the client as groups see it.
    #[cold]
    fn group_client(&self) -> GroupClient<'_> {
        let ReplyFrame { request, packet, client, .. } = self.frame;
        let key = self.signed.and_then(Signature::verified).map(|verified| verified.key().name());
        let ids = request.edns.and_then(|edns| edns.client_ids(packet));
        GroupClient { client, key, ids, name: self.round.terms.name }
    }

    #[inline]
    fn asked(&self, question: QueryQuestion) -> Asked<'_> {
        let ReplyFrame { request, packet, client, may_recurse, .. } = self.frame;
        let verified = self.signed.and_then(Signature::verified);
        let Round { account, terms: BatchTerms { received, .. }, .. } = *self.round;
        let (stats, qname, rule) = (&account.stats, &self.case.qname, &self.rule);
        Asked {
            packet,
            client,
            received,
            request,
            question,
            qname,
            may_recurse,
            facts: self,
            verified,
            stats,
            rule,
        }
    }

    /// Defers a query that needs other servers, so that answers from zones and cache are sent first. Returns
    /// whether it is deferred.
    #[inline]
    fn waits(&self) -> bool {
        self.round.terms.may_put_off && self.put_off()
    }

    #[cold]
    fn put_off(&self) -> bool {
        let (frame, received) = (&self.frame, self.round.terms.received);
        // Any other query is refused at once.
        let is_asked =
            frame.may_recurse && frame.request.header.recursion_desired() && frame.signed.is_none();
        let deferred = || Deferred { packet: frame.packet.into(), to: self.way_back(), received };
        is_asked && self.round.account.put_off(deferred)
    }

    /// Passes the query to the source for this operation.
    #[cold]
    fn beyond(&self, operation: Operation, asked: &Asked<'_>, b: &mut Builder<'_>) -> Disposition {
        let Some(source) = self.round.shared.sources.of(operation) else {
            return Disposition::Reply(Err(Refusal::NOT_AUTHORITATIVE));
        };
        source.answer(asked, b, Responders { issue: &mut || self.responder() }).into()
    }

    /// Passes an update whose TSIG is not valid here to the source of updates.
    #[cold]
    fn unverified(&self, refusal: Refusal, asked: &Asked<'_>) -> Disposition {
        let Some(source) = self.round.shared.sources.of(Operation::Update) else {
            return Disposition::Reply(Err(refusal));
        };
        source.unverified(refusal, asked, Responders { issue: &mut || self.responder() }).into()
    }

    /// Passes the target of an alias to the resolver, for a client that may recurse and sets RD.
    #[cold]
    fn follow(
        &self,
        question_only: Mark,
        target: &HashedName,
        asked: &Asked<'_>,
        b: &mut Builder<'_>,
    ) -> Disposition {
        let Some(source) = self.round.shared.sources.of(Operation::Query) else {
            return Disposition::Reply(Ok(None));
        };
        if !asked.may_recurse || !asked.request.header.recursion_desired() {
            return Disposition::Reply(Ok(None));
        }
        let links = b.message();
        self.frame.clear(b, question_only);
        source.follow(target, links, asked, b, Responders { issue: &mut || self.responder() }).into()
    }

    /// Returns the refusal of a query that the gate has stopped. Logs a refused transfer, NOTIFY or update,
    /// unless its TSIG is the reason: [`note`](Self::note) logs that.
    #[cold]
    fn stop(&self, stopped: Stopped) -> Refusal {
        let refusal = stopped.refusal();
        if let Some(log) = &self.round.shared.failures
            && self.signed.and_then(Signature::refusal) != Some(refusal)
        {
            let request = self.frame.request;
            let qtype = request.question.map(|question| question.qtype);
            let is_noted = match request.header.opcode() {
                Opcode::NOTIFY | Opcode::UPDATE => true,
                Opcode::QUERY => matches!(qtype, Some(Type::AXFR | Type::IXFR)),
                _ => false,
            };
            if is_noted {
                log.stopped(&self.logged(), refusal);
            }
        }
        refusal
    }

    /// The client and the connection that a late answer is sent to, or the way to its proxy.
    fn way_back(&self) -> ReturnAddress {
        let route = self.round.routes.get(self.number).copied();
        ReturnAddress { client: *self.frame.client, connection: self.round.connection, route }
    }

    /// Returns a responder, with which a source answers later.
    #[cold]
    fn responder(&self) -> Responder {
        let ReplyFrame { packet, may_recurse, .. } = self.frame;
        let (Served { role, zone, view }, facts) = (self.served(), self.facts());
        let mut request = self.frame.request.clone();
        let head = request.head_of(packet);
        let signature = self.frame.signed.cloned().map(Box::new);
        let (zone, to, received) =
            (zone.map(|zone| Box::new(zone.to_buf())), self.way_back(), self.round.terms.received);
        let waiting = Waiting {
            request,
            head,
            to,
            received,
            may_recurse,
            role,
            zone,
            view: view.cloned(),
            facts,
            signature,
            upstream: None,
            rule: None,
            error_text: "",
        };
        Responder::new(waiting, self.round.account)
    }

    /// Returns EXPIRE and ZONEVERSION of the zone that answers or is transferred, if the client requests one
    /// of them.
    #[cold]
    fn facts(&self) -> Option<ZoneFacts> {
        let Case { request, qname, route, view, .. } = self.case;
        if !request.asks_of_zone() || self.elsewhere.get() {
            return None;
        }
        let memory = &self.round.shared.memory;
        match *route {
            Route::Memory(index) => {
                memory.zone_facts(&self.round.locations.get(usize::from(index))?.location)
            }
            Route::Source(Operation::Transfer) => {
                let question = request.question?;
                let lookup_key = LookupKey { request, question, qname, may_recurse: false, view: *view };
                memory.zone_facts(&memory.find(&lookup_key)?)
            }
            _ => None,
        }
    }

    /// Returns whether zones or the resolver answer the query, the zone, and the view of the query.
    #[cold]
    fn served(&self) -> Served<'_> {
        let zone = match self.case.route {
            _ if self.elsewhere.get() => None,
            Route::Memory(index) => {
                self.round.shared.memory.zone(&self.round.locations[usize::from(index)].location)
            }
            _ => None,
        };
        let elsewhere = match self.case.route {
            Route::Memory(..) => zone.is_none(),
            Route::Source(Operation::Query) => self.round.shared.sources.elsewhere.is_some(),
            _ => false,
        };
        let view = self.round.shared.memory.view_name(self.case.view);
        Served { role: if elsewhere { Role::Recursion } else { Role::Authority }, zone, view }
    }

    /// Returns the query as logs take it.
    #[cold]
    fn logged(&self) -> LoggedQuery<'_> {
        logged(&self.frame, self.round.terms.received, self.served())
    }

    /// Counts and logs a query that is refused with SERVFAIL or for its TSIG.
    #[inline]
    fn note(&self, answered: Answered) {
        if let Some(refusal) = to_note(answered, self.signed) {
            let Round { shared, account, .. } = *self.round;
            note_failure(refusal, self.signed, &account.stats, shared, || self.logged());
        }
    }

    /// Logs the query and its reply, which lies at the start of `out`.
    #[cold]
    fn log(&self, log: &dyn QueryLog, reply: FinishedReply, out: &[u8]) {
        let query = self.logged();
        log.query(&query);
        log.reply(&query, &logged_reply(reply, out, None, self.rule.get()));
    }

    /// Counts an outcome that is no reply, and logs its query.
    #[cold]
    fn unanswered(&self, outcome: Outcome) -> Outcome {
        if let Some(log) = &self.round.shared.log {
            log.query(&self.logged());
        }
        if let (Outcome::Drop, Some(rule)) = (&outcome, &self.rule.get()) {
            count_rule(self.round.shared, &self.frame, rule);
            if let Some(log) = &self.round.shared.log {
                log_withheld(&**log, &self.logged(), rule);
            }
        }
        count(outcome, &self.round.account.stats)
    }
}

impl From<SourceReply> for Disposition {
    fn from(reply: SourceReply) -> Self {
        match reply {
            SourceReply::Ready(info) => Disposition::Reply(Ok(info)),
            SourceReply::Refused(refusal) => Disposition::Reply(Err(refusal)),
            SourceReply::NoReply => Disposition::Other(Outcome::Drop),
            SourceReply::Pending(_) => Disposition::Other(Outcome::Pending),
            SourceReply::Stream(messages) => Disposition::Other(Outcome::Stream(messages)),
        }
    }
}

/// Counts an outcome that is no reply.
fn count(outcome: Outcome, stats: &QueryStats) -> Outcome {
    match outcome {
        Outcome::Pending => stats.pending.add(1),
        Outcome::Stream(_) => stats.streams.add(1),
        Outcome::Drop => stats.dropped.add(1),
        Outcome::Reply(_) => {}
    }
    outcome
}
