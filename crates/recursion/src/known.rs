//! Answers from local state: cached answers and failures, and answers made from cached proofs.

use cache::{Freshness, Hit, Key, Lookup, Now};
use resolver::{ClientPrefix, Partition, QueryKey};
use validator::BogusReason;
use wire::hash::HashedName;
use wire::{LowerNameBuf, Ttl};

use crate::cache_views::CacheView;
use crate::kept::key;
use crate::message::{Message, Piece, response};
use crate::query_state::QueryState;
use crate::service::Service;
use crate::settings::Policy;

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
    /// Answers a query from local state, for clients of a partition. Refreshes a popular answer before it
    /// expires if a client asked.
    pub(crate) fn known(
        &self,
        policy: &Policy,
        query_key: &QueryKey,
        of_client: Partition,
        client: Option<ClientPrefix>,
        now: Now,
    ) -> Known {
        let mut hashed = HashedName::new();
        hashed.set(self.cache().key(), query_key.name.as_name());
        let Some(cache_view) = policy.cache_views.of_hashed(query_key, &hashed) else { return Known::NoRule };
        let across = policy.cache_views.across(of_client, query_key);
        let across = across.map(|across| key(query_key, &hashed, across));
        let key = key(query_key, &hashed, cache_view);
        // Nearly every answer fits.
        let mut room = vec![0; 2048];
        let mut lookup = |key: &Key<'_>| {
            fetch_all(query_key, cache_view, &mut room, |room| self.cache().lookup(key, now, room))
        };
        let freshness = |found: &(Piece, Hit)| match found.1.freshness {
            Freshness::Fresh(_) => i64::MAX,
            Freshness::Stale(ago) => -i64::from(ago),
        };
        // The chain of the answer may lead elsewhere by now, which need not be where partitions differ.
        let own =
            across.as_ref().and_then(&mut lookup).map(|(piece, hit)| (piece, Hit { prefetch: false, ..hit }));
        let found = own.into_iter().chain(lookup(&key)).max_by_key(freshness);
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
        let failed = |key: &Key<'_>| self.cache().failure(key, now, &mut []).hit().is_some();
        if failed(&key) || across.as_ref().is_some_and(failed) {
            let validated = cache_view.validates && !query_key.checking_disabled;
            if let Some(reason) = self.bogus.reason(query_key, now).filter(|_| validated) {
                return Known::Bogus(reason);
            }
            return Known::Failure(stale);
        }
        if policy.nxdomain_cut
            && let Some((piece, _)) = fetch_all(query_key, cache_view, &mut room, |room| {
                self.cache().nxdomain_above(&key, now, room)
            })
        {
            self.stats().nxdomain_above.add();
            return Known::Answer(piece);
        }
        match self.made(policy, query_key, cache_view, now) {
            Some((piece, None)) => Known::Answer(piece),
            Some((piece, Some(target))) => Known::Link(piece, target),
            None => Known::Nothing(stale),
        }
    }

    /// Returns an answer to send although the lookup failed: a fresh one by now, or a stale one.
    pub(crate) fn stale(&self, policy: &Policy, query_state: &QueryState, now: Now) -> Option<Piece> {
        let QueryState { next, partition, client, .. } = query_state;
        match self.known(policy, next, *partition, Some(*client), now) {
            Known::Answer(piece) => Some(piece),
            Known::Failure(stale) | Known::Nothing(stale) => stale,
            Known::Link(..) | Known::Bogus(_) | Known::NoRule => None,
        }
    }

    /// Whether a failure of the query's servers is cached.
    pub(crate) fn has_failed(&self, policy: &Policy, query_key: &QueryKey, now: Now) -> bool {
        let mut hashed = HashedName::new();
        hashed.set(self.cache().key(), query_key.name.as_name());
        policy.cache_views.of_hashed(query_key, &hashed).is_some_and(|cache_view| {
            let found = self.cache().failure(&key(query_key, &hashed, cache_view), now, &mut []);
            found.hit().is_some()
        })
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
    let message = response(query_key, hit.rcode, hit.counts, body);
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
