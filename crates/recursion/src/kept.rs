//! What goes into the cache, and under which keys.

use cache::{Answer, Credibility, Key, Now, Terms};
use resolver::QueryKey;
use wire::hash::HashedName;
use wire::{Header, Rcode, Ttl};

use crate::cache_views::CacheView;
use crate::message::response;
use crate::query_state::QueryState;
use crate::sentinel;
use crate::service::Service;
use crate::settings::Policy;

impl Service {
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

    /// Caches a response. Does nothing if it is uncacheable, its TTL is 0, the query is for a local name by
    /// now, or the answer depends on the client although the query name does not.
    pub(crate) fn keep(
        &self,
        policy: &Policy,
        query_key: &QueryKey,
        message: &[u8],
        ttl: Option<Ttl>,
        now: Now,
    ) {
        if let Some(cache_view) = self.cache_view(policy, query_key)
            && !policy.cache_views.is_answer_across(query_key, message)
        {
            self.keep_in(policy, query_key, cache_view, message, ttl, now);
        }
    }

    /// Caches the answer to a client's query, joined from the parts of its chain.
    pub(crate) fn keep_chain(
        &self,
        policy: &Policy,
        query_state: &QueryState,
        message: &[u8],
        ttl: Option<Ttl>,
        now: Now,
    ) {
        let QueryState { asked, partition, is_mixed, .. } = query_state;
        let cache_views = &policy.cache_views;
        if *is_mixed {
            return;
        }
        match cache_views.across(*partition, asked) {
            Some(across) if cache_views.is_answer_across(asked, message) => {
                self.keep_in(policy, asked, across, message, ttl, now);
            }
            _ => self.keep(policy, asked, message, ttl, now),
        }
    }

    fn keep_in(
        &self,
        policy: &Policy,
        query_key: &QueryKey,
        cache_view: CacheView,
        message: &[u8],
        ttl: Option<Ttl>,
        now: Now,
    ) {
        let mut hashed = HashedName::new();
        hashed.set(self.cache().key(), query_key.name.as_name());
        if policy.local(query_key.partition).is_local(&hashed, query_key.qtype, query_key.qclass) {
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
            let _ = self.cache().insert(answer, now);
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

    /// Caches a failure to answer a client's query (RFC 9520), which one of the names of its chain caused.
    pub(crate) fn keep_failure_of_query(&self, policy: &Policy, query_state: &QueryState, now: Now) {
        let QueryState { asked, partition, is_mixed, .. } = query_state;
        match policy.cache_views.across(*partition, asked) {
            _ if *is_mixed => {}
            Some(across) if query_state.is_across(policy) => {
                let message = response(asked, Rcode::SERVFAIL, [0; 3], &[]);
                self.keep_in(policy, asked, across, &message, None, now);
            }
            _ => self.keep_failure(policy, asked, None, now),
        }
    }

    /// Caches a failure to answer a query (RFC 9520), for `ttl` or else the cache's default time.
    pub(crate) fn keep_failure(&self, policy: &Policy, query_key: &QueryKey, ttl: Option<Ttl>, now: Now) {
        let message = response(query_key, Rcode::SERVFAIL, [0; 3], &[]);
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
