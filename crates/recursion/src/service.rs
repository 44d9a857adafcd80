//! State of recursive service that the query path, the source and the resolver's threads share.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use arc_swap::ArcSwap;
use cache::{Answer, Cache, Credibility, Flush, Freshness, Hit, Key, Lookup, Now, Terms};
use dnssec::{BogusReason, ProvenDenials};
use engine::Source;
use resolver::{Budget, ClientPrefix, LookupRequest, QueryKey};
use wire::edns::ErrorInfo;
use wire::hash::HashedName;
use wire::{Header, LowerName, LowerNameBuf, Name, Rcode, Ttl, Type};

use crate::cache_views::CacheView;
use crate::cached::Cached;
use crate::completion::{LookupCompletion, Waiter};
use crate::failures::FailureCause;
use crate::front::RecursiveSource;
use crate::message::Message;
use crate::policy::{Policy, PolicyConfig, PolicyFault};
use crate::query_state::QueryState;
use crate::reports::Reports;
use crate::sentinel;
use crate::stalled::StalledRefreshes;
use crate::stats::RecursionStats;
use crate::validation::bogus::BogusAnswers;
use crate::validation::denied;
use crate::validation::queue::Queue;
use crate::validation::quota::ValidationQuota;
use crate::validation::repeats::Repeats;
use crate::validation::{State, Unchecked, Validations, wall};

/// Passes requests to the resolver.
pub trait Lookups: Send + Sync {
    /// Queues a request, or returns it if the queue is full. If the resolver has stopped, the request is
    /// dropped, which notifies its client.
    fn request(&self, request: LookupRequest<Waiter>) -> Option<LookupRequest<Waiter>>;
}

/// Recursive service: cache, policy, and the connection to the resolver.
pub struct Service {
    cache: Cache,
    /// Time 0 of the cache's clock.
    start: Instant,
    stats: RecursionStats,
    policy: ArcSwap<Policy>,
    lookups: OnceLock<Box<dyn Lookups>>,
    report: OnceLock<Box<FailureReport>>,
    last_resort: OnceLock<Box<LastResortReport>>,
    /// Answers queued for the validation threads.
    pub(crate) unvalidated: Queue,
    /// Validations in progress, and the cached keys of zones.
    pub(crate) validating: Mutex<State>,
    /// Reasons of cached failures that are due to bogus answers.
    pub(crate) bogus: BogusAnswers,
    /// Proven denials (RFC 8198).
    pub(crate) denials: ProvenDenials,
    /// Recent queries answered from `denials`.
    pub(crate) made: Repeats,
    /// Reports sent recently.
    pub(crate) reports: Reports,
    /// Queries whose stale answers were served because their servers failed.
    pub(crate) stalled: StalledRefreshes,
}

/// Receives each query that gets SERVFAIL and the cause. Must not block.
pub type FailureReport = dyn Fn(&QueryKey, FailureCause<'_>) + Send + Sync;

/// Receives the zone, server and query of an answer accepted from a server that is not authoritative. Must
/// not block.
pub type LastResortReport = dyn Fn(Name<'_>, SocketAddr, &QueryKey) + Send + Sync;

/// A response, or the part of one up to a link of a chain.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) message: Message,
    pub(crate) rcode: Rcode,
    /// It is secure: validated here, or by servers that are trusted to validate.
    pub(crate) authentic: bool,
    /// How long a negative answer may be cached.
    pub(crate) negative_ttl: Option<Ttl>,
    /// It has expired.
    pub(crate) stale: bool,
    /// The extended error to send with it.
    pub(crate) info: Option<ErrorInfo>,
    /// The server that sent it for this query, unless it was cached.
    pub(crate) upstream: Option<SocketAddr>,
}

/// The result of answering a query from local state.
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub(crate) enum Known {
    /// An answer.
    Answer(Piece),
    /// An alias and its target.
    Link(Piece, LowerNameBuf),
    /// A cached failure: no server answered a short time ago; with a stale answer, if there is one.
    Failure(Option<Piece>),
    /// The answer was bogus a short time ago. A stale answer does not help then.
    Bogus(BogusReason),
    /// No answer, or only a stale one.
    Nothing(Option<Piece>),
    /// No rule covers the name.
    NoRule,
}

impl Service {
    /// Creates the service with a cache whose clock began at `start`. Lookups need [`connect`](Self::connect)
    /// first.
    ///
    /// # Errors
    /// The policy is invalid.
    pub fn new(cache: Cache, start: Instant, policy: &PolicyConfig) -> Result<Arc<Service>, PolicyFault> {
        let policy = Policy::new(policy, cache.key())?;
        let (denials, policy) = (denied::denials(&policy), Arc::new(policy));
        Ok(Arc::new(Service {
            cache,
            start,
            stats: RecursionStats::default(),
            validating: Mutex::new(State::new(Arc::clone(&policy))),
            policy: ArcSwap::new(policy),
            lookups: OnceLock::new(),
            report: OnceLock::new(),
            last_resort: OnceLock::new(),
            unvalidated: Queue::default(),
            bogus: BogusAnswers::default(),
            denials,
            made: Repeats::default(),
            reports: Reports::default(),
            stalled: StalledRefreshes::default(),
        }))
    }

    /// Sets the resolver; only the first call has an effect.
    pub fn connect(&self, lookups: Box<dyn Lookups>) {
        let _ = self.lookups.set(lookups);
    }

    /// Sets the callback for failures; only the first call has an effect.
    pub fn report_failures(&self, report: Box<FailureReport>) {
        let _ = self.report.set(report);
    }

    /// Sets the callback for last-resort answers; only the first call has an effect.
    pub fn report_last_resorts(&self, report: Box<LastResortReport>) {
        let _ = self.last_resort.set(report);
    }

    /// Reports an answer accepted from a server that is not authoritative for the zone.
    pub(crate) fn took_recursive(&self, zone: Name<'_>, server: SocketAddr, query_key: &QueryKey) {
        if let Some(report) = self.last_resort.get() {
            report(zone, server, query_key);
        }
    }

    /// Counts and reports a query that gets SERVFAIL.
    pub(crate) fn failed(&self, query_key: &QueryKey, cause: FailureCause<'_>) {
        self.stats.failures.add(cause);
        if let Some(report) = self.report.get() {
            report(query_key, cause);
        }
    }

    /// Replaces the policy. Handles from [`memory`](Self::memory) keep the one they were created with.
    ///
    /// # Errors
    /// The policy is invalid; the old one stays.
    pub fn set_policy(&self, policy: &PolicyConfig) -> Result<(), PolicyFault> {
        let policy = Arc::new(Policy::new(policy, self.cache.key())?);
        self.policy.store(Arc::clone(&policy));
        self.forget_denials(&policy);
        self.drop_unfit();
        Ok(())
    }

    /// Drops cached answers that the policy forbids: local names, and answers with private addresses. Call it
    /// after a change of policy and after loading a cache file.
    pub fn drop_unfit(&self) {
        let (policy, mut unfit) = (self.policy.load(), HashSet::new());
        let mut hashed = HashedName::new();
        // The age of an answer does not matter here.
        self.cache.for_each(Now::since_start(0), |held| {
            let name = held.name();
            hashed.set(self.cache.key(), name.as_name());
            let local = policy.local.is_local(&hashed, held.asked(), held.qclass());
            if local || policy.private.as_ref().is_some_and(|private| private.offends(&held.message())) {
                unfit.insert(*name);
            }
        });
        if !unfit.is_empty() {
            self.cache.flush_names(|name| unfit.contains(&name.to_buf()));
        }
    }

    /// Returns a handle of the cache for the query path, with the current policy.
    pub fn memory(self: &Arc<Self>) -> Cached {
        Cached::new(Arc::clone(self), self.policy.load_full())
    }

    /// Returns the source that answers cache misses.
    pub fn source(self: &Arc<Self>) -> Arc<dyn Source> {
        Arc::new(RecursiveSource(Arc::clone(self)))
    }

    /// Returns the sink for lookup outcomes.
    pub fn completion(self: &Arc<Self>) -> LookupCompletion {
        self.settler_by(|_| wall())
    }

    /// Like [`completion`](Self::completion), with `wall` as the validation clock (Unix seconds).
    pub fn settler_by(self: &Arc<Self>, wall: impl Fn(Instant) -> u64 + Send + 'static) -> LookupCompletion {
        LookupCompletion::new(Arc::clone(self), Box::new(wall))
    }

    /// Returns the validator of answers, to be run on threads of its own.
    pub fn validations(self: &Arc<Self>) -> Validations {
        Validations::new(Arc::clone(self))
    }

    /// Stops validation: [`Validations::run`] returns, and every waiter is notified.
    pub fn stop_validating(&self) {
        self.unvalidated.close();
    }

    /// Returns the number of clients whose answers wait for validation.
    pub fn unvalidated(&self) -> usize {
        self.unvalidated.clients()
    }

    /// Drops cached answers and keys of a name and, if `tree` is set, all names below; of one type or of all
    /// types. Returns the number of answers.
    pub fn flush(&self, name: LowerName<'_>, tree: bool, qtype: Option<Type>) -> usize {
        self.forget_keys(name.as_name());
        self.denials.forget(name.as_name(), tree);
        self.cache.flush(&Flush { name, tree, qtype, view: None })
    }

    /// The cache.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Returns the number and bytes of cached denials that are also used for other names.
    pub fn proven_denials(&self) -> (usize, usize) {
        (self.denials.len(), self.denials.bytes())
    }

    /// The counters.
    pub fn stats(&self) -> &RecursionStats {
        &self.stats
    }

    /// Returns the cache's time at `at`.
    #[inline]
    pub fn now(&self, at: Instant) -> Now {
        let seconds = at.saturating_duration_since(self.start).as_secs();
        Now::since_start(u32::try_from(seconds).unwrap_or(u32::MAX))
    }

    pub(crate) fn policy(&self) -> Arc<Policy> {
        self.policy.load_full()
    }

    /// Sends a request to the resolver. Returns it if the queue is full. If no resolver is connected, the
    /// waiter is dropped, and the drop reports that no answer comes.
    ///
    /// Where answers are validated, clients without CD get answers validated here, and the upstream queries
    /// have CD set, so that servers return data that they consider bogus, too (RFC 6840 §5.9).
    pub(crate) fn request(&self, mut request: LookupRequest<Waiter>) -> Option<LookupRequest<Waiter>> {
        let asked = request.query_key;
        let validates =
            self.cache_view(&self.policy.load(), &asked).is_some_and(|cache_view| cache_view.validates);
        if validates && !asked.checking_disabled {
            let budget = request.budget.get_or_insert_default().clone();
            let (client, quota) = (request.client, request.waiter.quota());
            request.waiter.unchecked = Some(Box::new(Unchecked { query_key: asked, client, budget, quota }));
            request.query_key = QueryKey { dnssec_ok: true, checking_disabled: true, ..asked };
        }
        let shed = self.lookups.get()?.request(request);
        if shed.is_some() {
            self.stats.shed.add();
        }
        shed
    }

    /// Starts a lookup for the cache alone, charged to the client's query that benefits.
    #[cold]
    pub(crate) fn fetch(
        &self,
        query_key: QueryKey,
        client: ClientPrefix,
        budget: Option<Budget>,
        quota: ValidationQuota,
    ) {
        let waiter = Waiter::unattended(quota);
        let (patience, other_than, trace) = (None, None, None);
        // A shed request is sent again for the next client that needs it.
        let _ = self.request(LookupRequest {
            query_key,
            recursion_desired: true,
            client,
            patience,
            budget,
            other_than,
            trace,
            waiter,
        });
    }

    /// Refreshes a popular answer.
    #[cold]
    pub(crate) fn prefetch(&self, query_key: QueryKey, client: ClientPrefix) {
        self.stats.prefetched.add();
        self.fetch(query_key, client, None, ValidationQuota::default());
    }

    /// Answers a query from local state. Refreshes a popular answer before it expires if a client asked.
    pub(crate) fn known(
        &self,
        policy: &Policy,
        query_key: &QueryKey,
        client: Option<ClientPrefix>,
        now: Now,
    ) -> Known {
        let mut hashed = HashedName::new();
        hashed.set(self.cache.key(), query_key.name.as_name());
        let Some(cache_view) = policy.cache_views.of(&hashed, query_key.qtype) else { return Known::NoRule };
        let key = key(query_key, &hashed, cache_view);
        // Nearly every answer fits.
        let mut room = vec![0; 2048];
        let found = fetch_all(query_key, cache_view, &mut room, |room| self.cache.lookup(&key, now, room));
        let stale = match found {
            Some((piece, hit)) if matches!(hit.freshness, Freshness::Fresh(_)) => {
                if let Some(client) = client.filter(|_| hit.prefetch && policy.prefetch) {
                    self.prefetch(*query_key, client);
                }
                return Known::Answer(piece);
            }
            found => found.map(|(piece, _)| Piece { stale: true, ..piece }),
        };
        let stale = stale.filter(|_| policy.stale_after.is_some());
        if fetch_all(query_key, cache_view, &mut room, |room| self.cache.failure(&key, now, room)).is_some() {
            let validated = cache_view.validates && !query_key.checking_disabled;
            if let Some(reason) = self.bogus.reason(query_key, now).filter(|_| validated) {
                return Known::Bogus(reason);
            }
            return Known::Failure(stale);
        }
        if policy.nxdomain_cut
            && let Some((piece, _)) =
                fetch_all(query_key, cache_view, &mut room, |room| self.cache.nxdomain_above(&key, now, room))
        {
            self.stats.nxdomain_above.add();
            return Known::Answer(piece);
        }
        match self.made(policy, query_key, cache_view, now) {
            Some((piece, None)) => Known::Answer(piece),
            Some((piece, Some(target))) => Known::Link(piece, target),
            None => Known::Nothing(stale),
        }
    }

    /// Returns the cache view of the rule that covers a query.
    pub(crate) fn cache_view(&self, policy: &Policy, query_key: &QueryKey) -> Option<CacheView> {
        policy.cache_views.of_name(self.cache.key(), query_key.name.as_lower(), query_key.qtype)
    }

    /// Whether a failure of the query's servers is cached.
    pub(crate) fn has_failed(&self, policy: &Policy, query_key: &QueryKey, now: Now) -> bool {
        let mut hashed = HashedName::new();
        hashed.set(self.cache.key(), query_key.name.as_name());
        policy.cache_views.of(&hashed, query_key.qtype).is_some_and(|cache_view| {
            let found = self.cache.failure(&key(query_key, &hashed, cache_view), now, &mut []);
            found.hit().is_some()
        })
    }

    /// Returns an answer to send although the lookup failed: a fresh one by now, or a stale one.
    pub(crate) fn stale(&self, policy: &Policy, query_state: &QueryState, now: Now) -> Option<Piece> {
        match self.known(policy, &query_state.next, Some(query_state.client), now) {
            Known::Answer(piece) => Some(piece),
            Known::Failure(stale) | Known::Nothing(stale) => stale,
            Known::Link(..) | Known::Bogus(_) | Known::NoRule => None,
        }
    }

    /// Caches a server's answer, or its replacement. Where answers are validated, only clients with CD get
    /// it, and its AD is cleared.
    pub(crate) fn keep_received(
        &self,
        policy: &Policy,
        query_key: &QueryKey,
        answer: &resolver::ScrubbedAnswer,
        now: Now,
    ) {
        let validates = self.cache_view(policy, query_key).is_some_and(|cache_view| cache_view.validates);
        match (validates, query_key.checking_disabled) {
            (true, false) => {}
            (true, true) => {
                let message = with_ad(&answer.message, false);
                self.keep(policy, query_key, &message, answer.negative_ttl, now);
            }
            (false, _) => self.keep(policy, query_key, &answer.message, answer.negative_ttl, now),
        }
    }

    /// Caches a response. Does nothing if it is uncacheable, its TTL is 0, or the query is for a local name
    /// by now.
    pub(crate) fn keep(
        &self,
        policy: &Policy,
        query_key: &QueryKey,
        message: &[u8],
        ttl: Option<Ttl>,
        now: Now,
    ) {
        let mut hashed = HashedName::new();
        hashed.set(self.cache.key(), query_key.name.as_name());
        let Some(cache_view) = policy.cache_views.of(&hashed, query_key.qtype) else { return };
        if policy.local.is_local(&hashed, query_key.qtype, query_key.qclass) {
            return;
        }
        let is_secure =
            cache_view.validates && Header::of(message).is_some_and(|header| header.authentic_data());
        if is_secure && sentinel::lies(&policy.validation, query_key) {
            return;
        }
        let terms = Terms {
            view: cache_view.number,
            dnssec_ok: query_key.dnssec_ok,
            checking_disabled: query_key.checking_disabled,
            rank: Credibility::Answer,
            ttl,
        };
        if let Ok(answer) = Answer::of(message, &terms) {
            let _ = self.cache.insert(answer, now);
        }
    }

    /// Caches that no server could answer a query (RFC 9520). Where answers are validated, the failure counts
    /// for clients with and without CD.
    pub(crate) fn keep_failure_of_servers(&self, policy: &Policy, query_key: &QueryKey, now: Now) {
        self.keep_failure(policy, query_key, None, now);
        if query_key.checking_disabled
            && self.cache_view(policy, query_key).is_some_and(|cache_view| cache_view.validates)
        {
            for dnssec_ok in [false, true] {
                let query_key = QueryKey { dnssec_ok, checking_disabled: false, ..*query_key };
                self.keep_failure(policy, &query_key, None, now);
            }
        }
    }

    /// Caches a failure to answer a query (RFC 9520), for `ttl` or else the cache's default time.
    pub(crate) fn keep_failure(&self, policy: &Policy, query_key: &QueryKey, ttl: Option<Ttl>, now: Now) {
        let message = cache::message(
            Rcode::SERVFAIL,
            query_key.name.as_lower(),
            query_key.qtype,
            query_key.qclass,
            [0; 3],
            &[],
        );
        self.keep(policy, query_key, &message, ttl, now);
    }
}

/// Returns the response with AD set or cleared.
pub(crate) fn with_ad(message: &[u8], authentic: bool) -> Vec<u8> {
    let mut message = message.to_vec();
    if let (Some(mut header), Some(front)) = (Header::of(&message), message.first_chunk_mut()) {
        header.set_authentic_data(authentic);
        *front = *header.as_bytes();
    }
    message
}

/// Returns the cache key of a query.
pub(crate) fn key<'n>(query_key: &QueryKey, hashed: &'n HashedName, cache_view: CacheView) -> Key<'n> {
    Key {
        name: hashed,
        qtype: query_key.qtype,
        qclass: query_key.qclass,
        view: cache_view.number,
        dnssec_ok: query_key.dnssec_ok,
        checking_disabled: query_key.checking_disabled,
    }
}

/// Copies a cached response of any length into a message.
fn fetch_all(
    query_key: &QueryKey,
    cache_view: CacheView,
    room: &mut Vec<u8>,
    mut lookup: impl FnMut(&mut [u8]) -> Lookup,
) -> Option<(Piece, Hit)> {
    let hit = loop {
        match lookup(room) {
            Lookup::Miss => return None,
            Lookup::Hit(hit) => break hit,
            // A longer one may replace it in between.
            Lookup::TooLong(hit) => room.resize(hit.len, 0),
        }
    };
    let body = room.get(..hit.len)?;
    let message = cache::message(
        hit.rcode,
        query_key.name.as_lower(),
        query_key.qtype,
        query_key.qclass,
        hit.counts,
        body,
    );
    let negative_ttl = match hit.freshness {
        Freshness::Fresh(left) if hit.negative => Some(Ttl::from_secs(left)),
        _ => None,
    };
    let piece = Piece {
        message: Message::Own(message.into()),
        rcode: hit.rcode,
        authentic: hit.authentic && cache_view.passes_ad,
        negative_ttl,
        stale: false,
        info: None,
        upstream: None,
    };
    Some((piece, hit))
}
