//! The line a query goes down, for one worker and one batch at a time.
//!
//! A [`Worker`] pins one version of memory, sources and settings for the batch, and takes its queries through
//! three stages, up to [`BATCH`] together.
//!
//! - Read: `Request::read` notes lengths and flags, and copies nothing. The route, and before it the gate,
//!   follow at once, so a query that may not be asked goes no further. QNAME is lower-cased and all its
//!   suffixes are hashed; what finding it will read is prefetched.
//! - Find: memory finds an aim for each question: the zone and where in it the answer will be looked for, or,
//!   for a client that may recurse, the entry of the cache. Passes go over all aims; each reads what the pass
//!   before has prefetched and prefetches what the next one reads.
//! - Answer, query by query: the tail writes header and question and leaves room for OPT, memory or a source
//!   writes the sections, and the tail adds what every reply has, counts and logs.
//!
//! A source that answers later takes a [`Responder`]; its answer comes back by [`Handler::late`] and goes
//! through the same tail. A source with many messages returns a `MessageStream`, from which the transport
//! pulls messages as the client takes them.
//!
//! While answers from memory are among many datagrams received together, queries that other servers have to
//! be asked about are put off: they stay as they came in the [`WorkerState`], up to a bound, and
//! [`Handler::resume`] goes on with a few at a time once the batch has left. So a cached answer does not wait
//! for the misses that came before it.
//!
//! If a handler panics, the transport makes a new one and offers it the undecided queries one by one: a panic
//! costs one query.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use exchange::{Batch, Client, Handler, LateReplies, Outcome, Queries, Query, Replies, ReturnAddress};
use wire::hash::HashedName;
use wire::message::{Builder, Compressor, HEADER_LEN, Mark};
use wire::{Name, NameBuf, Opcode, Rcode, Type};

use crate::asked::Asked;
use crate::chaos;
use crate::gate::Stopped;
use crate::late::{Deferred, Ready, Responder, Settled, Waiting, WorkerState};
use crate::log::{FailureLog, LoggedQuery, LoggedReply, QueryLog, Role};
use crate::memory::{Found, LookupKey, Memory};
use crate::refusal::{Answered, Refusal};
use crate::request::Request;
use crate::route::Route;
use crate::settings::{Engine, Shared};
use crate::signature::Signature;
use crate::source::{Operation, Responders, SourceReply};
use crate::stats::Stats;
use crate::tail::{FinishedReply, ReplyFrame};
use crate::zone_facts::ZoneFacts;

/// The most queries that go through the passes together; larger batches go in parts.
pub const BATCH: usize = 64;
const _: () = assert!(BATCH <= u8::MAX as usize, "routes number aims in a byte");

/// What a worker keeps of one query between the passes.
struct Case {
    request: Request,
    qname: HashedName,
    route: Route,
    /// Whether the client may have others asked.
    may_recurse: bool,
    /// Of the last signed query in this place.
    signature: Option<Box<Signature>>,
}

impl Case {
    /// What became of the query's signature, if it has one.
    #[inline]
    fn signed(&self) -> Option<&Signature> {
        self.request.tsig_at.and(self.signature.as_deref())
    }

    /// The same, if the reply is signed because of it.
    #[inline]
    fn seal(&self) -> Option<&Signature> {
        self.signed().filter(|signature| self.route.is_signed_for(signature))
    }
}

/// The aim of the case of that number.
struct Aimed<A> {
    case: u8,
    aim: A,
}

/// One thread's way through the engine, with everything it reuses.
pub struct Worker<M: Memory> {
    engine: Arc<Engine<M>>,
    account: Arc<WorkerState>,
    /// Held for the length of a batch.
    shared: Arc<Shared<M>>,
    cases: Box<[Case]>,
    /// Of the cases that memory answers; packed closely, while the cases are far apart.
    aims: Vec<Aimed<M::Aim>>,
    names: Compressor,
    scratch: M::Scratch,
}

impl<M: Memory> Handler for Worker<M> {
    fn batch(&mut self, batch: &mut Batch<'_>) {
        let received = batch.received();
        let may_put_off = batch.may_put_off();
        self.pin();
        let (queries, replies) = batch.split();
        for from in (0..queries.len()).step_by(BATCH) {
            let count = (queries.len() - from).min(BATCH);
            self.read(&queries, from, count);
            self.find(count);
            self.answer(&queries, from, count, (received, may_put_off), replies);
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
            let query = Query { packet: &packet, client: to.client };
            self.read_one(0, &packet, || to.client);
            // The query of another client may have brought the answer since.
            self.find(1);
            let outcome = self.answer_one(0, query, (received, false), out, &|| to);
            if !matches!(outcome, Outcome::Pending) {
                replies.push(to, outcome);
            }
        }
        self.account.has_put_off()
    }

    /// Lets go of what was replaced meanwhile.
    fn idle(&mut self) {
        self.pin();
    }
}

impl<M: Memory> Worker<M> {
    /// A worker that counts and waits in `account`.
    pub fn new(engine: Arc<Engine<M>>, account: Arc<WorkerState>) -> Self {
        let route = || Route::Stopped(Stopped::Silence);
        let case = |_| Case {
            request: Request::read(&[]),
            qname: HashedName::new(),
            route: route(),
            may_recurse: false,
            signature: None,
        };
        let shared = engine.shared().load_full();
        let cases = (0..BATCH).map(case).collect();
        let aims = Vec::with_capacity(BATCH);
        Worker {
            engine,
            account,
            shared,
            cases,
            aims,
            names: Compressor::small(),
            scratch: M::Scratch::default(),
        }
    }

    /// The worker's counters.
    pub fn stats(&self) -> &Stats {
        &self.account.stats
    }

    /// Pins the version of everything that the next batch is answered from.
    #[inline]
    fn pin(&mut self) {
        let now = self.engine.shared().load();
        // Taking a reference writes to a line all workers share; nearly always there is nothing new.
        if !Arc::ptr_eq(&now, &self.shared) {
            self.shared = arc_swap::Guard::into_inner(now);
        }
    }

    /// First pass: reads `count` queries from `from` on, and sends each as far on its way as the query alone
    /// shows.
    #[inline]
    fn read(&mut self, queries: &Queries<'_>, from: usize, count: usize) {
        for i in 0..count {
            let packet = queries.packet(from + i);
            self.read_one(i, packet, || queries.client(from + i));
            let request = &self.cases[i].request;
            let qtype = request.question.map(|question| question.qtype);
            self.account.stats.query(queries.transport, qtype, packet.len(), request.dnssec_ok());
        }
    }

    /// Reads the query of one case.
    #[inline]
    fn read_one(&mut self, case: usize, packet: &[u8], client: impl FnOnce() -> Client) {
        let Worker { shared, cases, .. } = self;
        let case = &mut cases[case];
        case.request = Request::read(packet);
        if let Some(at) = case.request.tsig_at {
            case.signature = Some(Box::new(Signature::of(packet, at, &shared.keys)));
        }
        case.route = Route::of(&case.request, case.signed(), &shared.sources);
        case.may_recurse = shared.memory.offers_recursion(client);
        if let Some(question) = case.request.question {
            case.qname.set(shared.memory.key(), question.name(packet));
            if case.route.question().is_some() {
                shared.memory.prefetch_find(&case.qname);
            }
        }
    }

    /// The passes between: finds where each answer will be looked for, and prefetches what it will be made
    /// of.
    #[inline]
    fn find(&mut self, count: usize) {
        let Worker { shared, cases, aims, .. } = self;
        let memory = &shared.memory;
        aims.clear();
        // There are few cases, and not more aims: their numbers fit.
        for (case, Case { request, qname, route, may_recurse, .. }) in cases[..count].iter_mut().enumerate() {
            let Some(question) = route.question() else { continue };
            let lookup_key = LookupKey { request, question, qname, may_recurse: *may_recurse };
            let Some(aim) = memory.find(&lookup_key) else { continue };
            *route = Route::Memory(aims.len() as u8, question);
            aims.push(Aimed { case: case as u8, aim });
        }
        for pass in 0..M::PASSES {
            let mut more = false;
            for Aimed { case, aim } in &mut *aims {
                more |= memory.prefetch(pass, aim, &cases[usize::from(*case)].qname);
            }
            if !more {
                break;
            }
        }
    }

    /// Last pass: answers each query into its buffer.
    #[inline]
    fn answer(
        &mut self,
        queries: &Queries<'_>,
        from: usize,
        count: usize,
        (received, may_put_off): (Instant, bool),
        replies: &mut Replies<'_>,
    ) {
        for (case, i) in (from..from + count).enumerate() {
            let to = || queries.return_address(i);
            let outcome =
                self.answer_one(case, queries.get(i), (received, may_put_off), replies.buffer(i), &to);
            replies.set(i, outcome);
        }
    }

    #[inline]
    fn answer_one(
        &mut self,
        case: usize,
        Query { packet, client }: Query<'_>,
        (received, may_put_off): (Instant, bool),
        out: &mut [u8],
        to: &dyn Fn() -> ReturnAddress,
    ) -> Outcome {
        let Worker { account, shared, cases, aims, names, scratch, .. } = self;
        let (signed, seal) = (cases[case].signed(), cases[case].seal());
        let Case { request, qname, route, may_recurse, .. } = &cases[case];
        if matches!(route, Route::Stopped(Stopped::Silence)) {
            return count(Outcome::Drop, &account.stats);
        }
        let (may_recurse, stats, elsewhere) = (*may_recurse, &account.stats, Cell::new(false));
        let (config, agent) = (&*shared.config, agent(shared, route, aims));
        let frame = ReplyFrame { request, packet, client, may_recurse, config, signed: seal, agent };
        let (mut b, question_only) = frame.begin(out, names);
        let resolves = || resolves(&shared.memory, route, request, qname, may_recurse);
        let asked = |question| Asked {
            packet,
            client,
            received,
            request,
            question,
            qname,
            may_recurse,
            resolves: &resolves,
            verified: signed.and_then(Signature::verified),
            stats,
        };
        let served = || Served::of(route, aims, shared, elsewhere.get());
        let known = || zone_facts(&shared.memory, *route, aims, request, qname);
        let facts = || if request.asks_of_zone() && !elsewhere.get() { known() } else { None };
        let waits = || may_put_off && put_off(&frame, to, received, account);
        let mut issue = || responder(&frame, to(), received, (served(), facts()), account);
        let responders = Responders { issue: &mut issue };
        let answered = match *route {
            Route::Memory(aim, question) => {
                let (asked, aim) = (asked(question), &aims[usize::from(aim)].aim);
                match shared.memory.answer(aim, &asked, &mut b, scratch) {
                    Ok(Found::Answer(info)) => Ok(Ok(info)),
                    Ok(Found::LeadsTo(to)) => {
                        follow(shared, &frame, question_only, to, &asked, &mut b, responders)
                    }
                    Ok(Found::Nothing) if waits() => return Outcome::Pending,
                    Ok(Found::Nothing) => {
                        elsewhere.set(true);
                        frame.clear(&mut b, question_only);
                        beyond(shared, Operation::Query, &asked, &mut b, responders)
                    }
                    Err(refusal) => Ok(Err(refusal)),
                }
            }
            Route::Stopped(stopped) => stop(stopped, signed, shared, || logged(&frame, received, served())),
            Route::Chaos(asks) => Ok(chaos::answer(&config.identity, qname.as_lower(), asks.qtype, &mut b)),
            Route::Source(Operation::Query, _) if waits() => return Outcome::Pending,
            Route::Source(of, question) => beyond(shared, of, &asked(question), &mut b, responders),
            Route::Unverified(refusal, question) => unverified(shared, refusal, &asked(question), responders),
        };
        let answered = match answered {
            Ok(answered) => noted(answered, signed, (stats, shared), || logged(&frame, received, served())),
            Err(other) => return unanswered(other, stats, shared, || logged(&frame, received, served())),
        };
        let reply = frame.end(b, question_only, answered, facts());
        let reply = frame.seal(reply, out);
        frame.account(reply, stats);
        log_both(shared, || logged(&frame, received, served()), reply, out);
        Outcome::Reply(reply.len)
    }

    /// Answers a query that has waited.
    fn answer_late(&mut self, ready: Ready, now: Instant, out: &mut [u8]) -> (ReturnAddress, Outcome) {
        let Worker { account, shared, names, .. } = self;
        let Waiting { request, head, to, received, may_recurse, role, zone, facts, signature, upstream } =
            &*ready.waiting;
        let stats = &account.stats;
        stats.late.add(1);
        stats.batch(now.saturating_duration_since(*received), 1);
        let (fill, message) = match ready.settled {
            Settled::Sections(fill) => (Some(fill), Vec::new()),
            Settled::Message(message) => (None, message),
            Settled::Stream(messages) => return (*to, count(Outcome::Stream(messages), stats)),
        };
        let (client, may_recurse) = (to.client, *may_recurse);
        let (config, signed) = (&*shared.config, signature.as_deref());
        let frame = ReplyFrame { request, packet: head, client, may_recurse, config, signed, agent: None };
        let served = || Served { role: *role, zone: zone.as_deref().map(NameBuf::as_name) };
        let passed_on = if fill.is_none() { frame.pass_on(&message, out) } else { None };
        let reply = passed_on.unwrap_or_else(|| {
            let (mut b, question_only) = frame.begin(out, names);
            let answered = fill.map_or(Err(Refusal::ABANDONED), |fill| fill(&mut b));
            let answered = noted(answered, signed, (stats, shared), || logged(&frame, *received, served()));
            let reply = frame.end(b, question_only, answered, *facts);
            frame.seal(reply, out)
        });
        frame.account(reply, stats);
        if let Some(log) = &shared.log {
            let reply = logged_reply(reply, out, *upstream);
            log.reply(&logged(&frame, *received, served()), &reply);
        }
        (*to, Outcome::Reply(reply.len))
    }
}

/// What the zone says of itself that a question went to: for an answer, or as the one that may be
/// transferred.
#[cold]
fn zone_facts<M: Memory>(
    memory: &M,
    route: Route,
    aims: &[Aimed<M::Aim>],
    request: &Request,
    qname: &HashedName,
) -> Option<ZoneFacts> {
    match route {
        Route::Memory(aim, _) => memory.zone_facts(&aims.get(usize::from(aim))?.aim),
        Route::Source(Operation::Transfer, question) => {
            let lookup_key = LookupKey { request, question, qname, may_recurse: false };
            memory.zone_facts(&memory.find(&lookup_key)?)
        }
        _ => None,
    }
}

/// The agent for reports of what fails in the zone that a query went to (RFC 9567 §6.2): none that is in the
/// zone itself (§8.1).
#[inline]
fn agent<'s, M: Memory>(shared: &'s Shared<M>, route: &Route, aims: &[Aimed<M::Aim>]) -> Option<Name<'s>> {
    let agent = shared.config.report_channel.as_ref()?.as_name();
    let Route::Memory(aim, _) = route else { return None };
    let zone = shared.memory.zone(&aims.get(usize::from(*aim))?.aim)?;
    (!agent.is_at_or_below(zone)).then_some(agent)
}

/// Whether a name that a zone in memory delegates is resolved for the client.
#[cold]
fn resolves<M: Memory>(
    memory: &M,
    route: &Route,
    request: &Request,
    qname: &HashedName,
    may_recurse: bool,
) -> bool {
    let Route::Memory(_, question) = *route else { return false };
    let lookup_key = LookupKey { request, question, qname, may_recurse };
    may_recurse && request.header.recursion_desired() && memory.resolves(&lookup_key)
}

/// Asks the source beyond memory that does this. Returns as an error what is no answer at once.
#[cold]
fn beyond<M>(
    shared: &Shared<M>,
    operation: Operation,
    asked: &Asked<'_>,
    b: &mut Builder<'_>,
    responders: Responders<'_>,
) -> Result<Answered, Outcome> {
    let Some(source) = shared.sources.of(operation) else { return Ok(Err(Refusal::NOT_AUTHORITATIVE)) };
    answered(source.answer(asked, b, responders))
}

/// Asks the source of updates about one whose signature is not good here.
#[cold]
fn unverified<M>(
    shared: &Shared<M>,
    refusal: Refusal,
    asked: &Asked<'_>,
    responders: Responders<'_>,
) -> Result<Answered, Outcome> {
    let Some(source) = shared.sources.of(Operation::Update) else { return Ok(Err(refusal)) };
    answered(source.unverified(refusal, asked, responders))
}

/// Asks for the rest of a chain that leads out of memory, for a client that wants it and may.
#[cold]
fn follow<M>(
    shared: &Shared<M>,
    frame: &ReplyFrame<'_>,
    question_only: Mark,
    target: &HashedName,
    asked: &Asked<'_>,
    b: &mut Builder<'_>,
    responders: Responders<'_>,
) -> Result<Answered, Outcome> {
    let Some(source) = shared.sources.of(Operation::Query) else { return Ok(Ok(None)) };
    if !asked.may_recurse || !asked.request.header.recursion_desired() {
        return Ok(Ok(None));
    }
    let links = b.message();
    frame.clear(b, question_only);
    answered(source.follow(target, links, asked, b, responders))
}

/// What a source has done; as an error what is no answer at once.
fn answered(sourced: SourceReply) -> Result<Answered, Outcome> {
    match sourced {
        SourceReply::Ready(info) => Ok(Ok(info)),
        SourceReply::Refused(refusal) => Ok(Err(refusal)),
        SourceReply::Pending(_) => Err(Outcome::Pending),
        SourceReply::Stream(messages) => Err(Outcome::Stream(messages)),
    }
}

/// Counts an outcome that is no reply, and logs its query.
#[cold]
fn unanswered<'q, M>(
    outcome: Outcome,
    stats: &Stats,
    shared: &Shared<M>,
    query: impl FnOnce() -> LoggedQuery<'q>,
) -> Outcome {
    if let Some(log) = &shared.log {
        log.query(&query());
    }
    count(outcome, stats)
}

/// Counts an outcome that is no reply.
fn count(outcome: Outcome, stats: &Stats) -> Outcome {
    match outcome {
        Outcome::Pending => stats.pending.add(1),
        Outcome::Stream(_) => stats.streams.add(1),
        Outcome::Drop => stats.dropped.add(1),
        Outcome::Reply(_) => {}
    }
    outcome
}

/// As what a query is answered, and out of which zone.
struct Served<'a> {
    role: Role,
    zone: Option<Name<'a>>,
}

impl<'a> Served<'a> {
    /// What the route of a query says of that, and whether memory has left it to other servers.
    #[cold]
    fn of<M: Memory>(
        route: &Route,
        aims: &[Aimed<M::Aim>],
        shared: &'a Shared<M>,
        is_elsewhere: bool,
    ) -> Self {
        let zone = match route {
            _ if is_elsewhere => None,
            Route::Memory(aim, _) => shared.memory.zone(&aims[usize::from(*aim)].aim),
            _ => None,
        };
        let elsewhere = match route {
            Route::Memory(..) => zone.is_none(),
            Route::Source(Operation::Query, _) => shared.sources.elsewhere.is_some(),
            _ => false,
        };
        Served { role: if elsewhere { Role::Recursion } else { Role::Authority }, zone }
    }
}

/// A query for the query log.
fn logged<'a>(frame: &ReplyFrame<'a>, received: Instant, served: Served<'a>) -> LoggedQuery<'a> {
    let ReplyFrame { request, packet, client, signed, .. } = *frame;
    let key = signed.and_then(Signature::verified).map(|verified| &**verified.key());
    LoggedQuery { request, packet, client, received, role: served.role, zone: served.zone, key }
}

/// A reply for the query log. It lies at the start of `out`.
fn logged_reply(reply: FinishedReply, out: &[u8], upstream: Option<SocketAddr>) -> LoggedReply<'_> {
    let FinishedReply { rcode, truncated, info, len } = reply;
    LoggedReply { message: &out[..len], rcode, truncated, info, upstream }
}

/// Counts and notes a query that is refused with SERVFAIL or for its signature. Returns the answer.
#[inline]
fn noted<'q, M>(
    answered: Answered,
    signed: Option<&Signature>,
    shared: (&Stats, &Shared<M>),
    query: impl FnOnce() -> LoggedQuery<'q>,
) -> Answered {
    if let Err(refusal) = answered
        && (refusal.rcode == Rcode::SERVFAIL || signed.is_some())
    {
        note_failure(refusal, signed, shared, query);
    }
    answered
}

#[cold]
fn note_failure<'q, M>(
    Refusal { rcode, info }: Refusal,
    signed: Option<&Signature>,
    (stats, shared): (&Stats, &Shared<M>),
    query: impl FnOnce() -> LoggedQuery<'q>,
) {
    if rcode == Rcode::SERVFAIL {
        stats.failure(info);
    }
    match (&shared.failures, signed) {
        (Some(log), _) if rcode == Rcode::SERVFAIL => log.failed(&query(), info),
        (Some(log), Some(Signature::Bad(error))) if rcode == error.rcode() => {
            log.bad_signature(&query(), error);
        }
        _ => {}
    }
}

/// The answer to a query that the gate has stopped. A transfer, NOTIFY or update is noted, unless its
/// signature is the reason, which is noted elsewhere.
#[cold]
fn stop<'q, M>(
    stopped: Stopped,
    signed: Option<&Signature>,
    shared: &Shared<M>,
    query: impl FnOnce() -> LoggedQuery<'q>,
) -> Result<Answered, Outcome> {
    let refusal = stopped.refusal();
    if let Some(log) = &shared.failures
        && signed.and_then(Signature::refusal) != Some(refusal)
    {
        note_stopped(&**log, &query(), refusal);
    }
    Ok(Err(refusal))
}

fn note_stopped(log: &dyn FailureLog, query: &LoggedQuery<'_>, refusal: Refusal) {
    let qtype = query.request.question.map(|question| question.qtype);
    let is_noted = match query.request.header.opcode() {
        Opcode::NOTIFY | Opcode::UPDATE => true,
        Opcode::QUERY => matches!(qtype, Some(Type::AXFR | Type::IXFR)),
        _ => false,
    };
    if is_noted {
        log.stopped(query, refusal);
    }
}

/// Logs a query and its reply, if there is a log.
#[inline]
fn log_both<'q, M>(
    shared: &Shared<M>,
    query: impl FnOnce() -> LoggedQuery<'q>,
    reply: FinishedReply,
    out: &[u8],
) {
    #[cold]
    fn log_both(log: &dyn QueryLog, query: &LoggedQuery<'_>, reply: FinishedReply, out: &[u8]) {
        log.query(query);
        log.reply(query, &logged_reply(reply, out, None));
    }
    if let Some(log) = &shared.log {
        log_both(&**log, &query(), reply, out);
    }
}

/// Puts a query off that others have to be asked about, so that what memory answers does not wait for that.
/// Returns whether it is put off.
#[cold]
fn put_off(
    frame: &ReplyFrame<'_>,
    to: &dyn Fn() -> ReturnAddress,
    received: Instant,
    account: &WorkerState,
) -> bool {
    // Anything else is refused at once.
    let is_asked = frame.may_recurse && frame.request.header.recursion_desired() && frame.signed.is_none();
    is_asked && account.put_off(|| Deferred { packet: frame.packet.into(), to: to(), received })
}

/// What a source needs to answer later.
#[cold]
fn responder(
    frame: &ReplyFrame<'_>,
    to: ReturnAddress,
    received: Instant,
    (Served { role, zone }, facts): (Served<'_>, Option<ZoneFacts>),
    account: &Arc<WorkerState>,
) -> Responder {
    let ReplyFrame { packet, may_recurse, .. } = *frame;
    let request = frame.request.clone();
    let head = HEADER_LEN + request.question.map_or(0, |question| question.len_in_message());
    let head = packet[..head.min(packet.len())].into();
    let signature = frame.signed.cloned().map(Box::new);
    let zone = zone.map(|zone| Box::new(zone.to_buf()));
    let waiting =
        Waiting { request, head, to, received, may_recurse, role, zone, facts, signature, upstream: None };
    Responder::new(waiting, account)
}
