//! Data in memory that answers at once: zones, and any other data that is found by QNAME. A worker is generic
//! over its type, so calls are static.
//!
//! A batch goes through the data in passes, so that its waits for memory overlap: each pass prefetches what
//! the next one reads, for all queries, before any of them is answered. The data's own crate decides what to
//! prefetch; the pipeline keeps the order.
//!
//! ```text
//! for each query   prefetch_find   what `find` will read
//! for each query   find            where its answer is looked up: an aim
//! PASSES times
//!   for each query prefetch        what the next pass, or `answer`, will read
//! for each query   answer          which may use results of the passes
//! ```

use exchange::Client;
use wire::Name;
use wire::edns::ErrorInfo;
use wire::hash::{HashKey, HashedName};
use wire::message::Builder;

use crate::asked::Asked;
use crate::refusal::Refusal;
use crate::request::{Question, Request};
use crate::zone_facts::ZoneFacts;

/// A query before it is answered.
#[derive(Clone, Copy)]
pub struct LookupKey<'a> {
    /// The parsed query.
    pub request: &'a Request,
    /// Its question.
    pub question: Question,
    /// QNAME in lower case, and the hash of each of its suffixes.
    pub qname: &'a HashedName,
    /// Whether recursion is available to the client, as [`Memory::offers_recursion`] returns.
    pub may_recurse: bool,
}

/// The result of answering from memory.
pub enum Found<'s> {
    /// The sections are written and the flags set, with an optional extended error.
    Answer(Option<ErrorInfo>),
    /// The same, but the answer is a chain of aliases whose last target is this name, which is not in these
    /// data.
    LeadsTo(&'s HashedName),
    /// No answer after all: other servers are asked. The caller discards what was written.
    Nothing,
}

/// Data in memory. Workers clone it when any of it is replaced, so it is made of references.
pub trait Memory: Clone + Send + Sync + 'static {
    /// Where the answer to a query is looked up, with the results of the passes. Borrows nothing; valid for
    /// this version of the data only. Small: the aims of a batch are stored next to each other.
    type Aim: Send;
    /// Buffers that answering reuses from one query to the next.
    type Scratch: Default + Send;

    /// Number of passes of [`prefetch`](Self::prefetch) over the batch.
    const PASSES: usize;

    /// The hash key of names. It stays the same for the life of an engine.
    fn key(&self) -> &HashKey;

    /// Whether recursion is available to this client: RA of its replies (RFC 1035 §4.1.1). `client` returns
    /// its address and transport.
    #[inline]
    fn offers_recursion(&self, client: impl FnOnce() -> Client) -> bool {
        let _ = client;
        false
    }

    /// Whether a query for a name that a zone delegates is resolved for clients that may recurse. Otherwise
    /// they get the referral.
    fn resolves(&self, lookup_key: &LookupKey<'_>) -> bool {
        let _ = lookup_key;
        false
    }

    /// Prefetches what [`find`](Self::find) will most likely read.
    fn prefetch_find(&self, qname: &HashedName);

    /// Returns where the answer to this query is looked up; `None` if these data do not cover its name.
    fn find(&self, lookup_key: &LookupKey<'_>) -> Option<Self::Aim>;

    /// Prefetches what pass `pass + 1`, or else answering, will read for the query that `aim` was found for.
    /// Passes are numbered from 0. Returns whether pass `pass + 1` has anything to do for it.
    fn prefetch(&self, pass: usize, aim: &mut Self::Aim, qname: &HashedName) -> bool;

    /// Returns the name of the zone that the aim is in, for the query log; `None` if it is in no zone.
    fn zone(&self, aim: &Self::Aim) -> Option<Name<'_>> {
        let _ = aim;
        None
    }

    /// Returns serial and expiry of the aim's zone; `None` without a zone, or if it is not loaded.
    fn zone_facts(&self, _aim: &Self::Aim) -> Option<ZoneFacts> {
        None
    }

    /// Writes the answer into `b`: sections, flags and response code. On a refusal, the caller discards what
    /// was written.
    ///
    /// # Errors
    /// The refusal.
    fn answer<'s>(
        &self,
        aim: &Self::Aim,
        asked: &Asked<'_>,
        b: &mut Builder<'_>,
        scratch: &'s mut Self::Scratch,
    ) -> Result<Found<'s>, Refusal>;
}

/// Two kinds of data: names that `first` does not cover are looked up in `then`.
#[derive(Clone)]
pub struct Both<A, B> {
    /// Looked up first.
    pub first: A,
    /// Looked up for names that `first` does not cover.
    pub then: B,
}

/// A value of one of two types.
#[derive(Clone, Copy)]
pub enum Either<A, B> {
    /// Of [`Both::first`].
    First(A),
    /// Of [`Both::then`].
    Then(B),
}

impl<A: Memory, B: Memory> Memory for Both<A, B> {
    type Aim = Either<A::Aim, B::Aim>;
    type Scratch = (A::Scratch, B::Scratch);

    const PASSES: usize = if A::PASSES > B::PASSES { A::PASSES } else { B::PASSES };

    fn key(&self) -> &HashKey {
        self.first.key()
    }

    /// The second kind decides: it covers the names that the first does not.
    #[inline]
    fn offers_recursion(&self, client: impl FnOnce() -> Client) -> bool {
        self.then.offers_recursion(client)
    }

    fn resolves(&self, lookup_key: &LookupKey<'_>) -> bool {
        self.then.resolves(lookup_key)
    }

    #[inline]
    fn prefetch_find(&self, qname: &HashedName) {
        self.first.prefetch_find(qname);
        self.then.prefetch_find(qname);
    }

    #[inline]
    fn find(&self, lookup_key: &LookupKey<'_>) -> Option<Self::Aim> {
        let first = self.first.find(lookup_key).map(Either::First);
        first.or_else(|| self.then.find(lookup_key).map(Either::Then))
    }

    #[inline]
    fn prefetch(&self, pass: usize, aim: &mut Self::Aim, qname: &HashedName) -> bool {
        match aim {
            Either::First(aim) if pass < A::PASSES => self.first.prefetch(pass, aim, qname),
            Either::Then(aim) if pass < B::PASSES => self.then.prefetch(pass, aim, qname),
            _ => false,
        }
    }

    fn zone(&self, aim: &Self::Aim) -> Option<Name<'_>> {
        match aim {
            Either::First(aim) => self.first.zone(aim),
            Either::Then(aim) => self.then.zone(aim),
        }
    }

    fn zone_facts(&self, aim: &Self::Aim) -> Option<ZoneFacts> {
        match aim {
            Either::First(aim) => self.first.zone_facts(aim),
            Either::Then(aim) => self.then.zone_facts(aim),
        }
    }

    #[inline]
    fn answer<'s>(
        &self,
        aim: &Self::Aim,
        asked: &Asked<'_>,
        b: &mut Builder<'_>,
        scratch: &'s mut Self::Scratch,
    ) -> Result<Found<'s>, Refusal> {
        match aim {
            Either::First(aim) => self.first.answer(aim, asked, b, &mut scratch.0),
            Either::Then(aim) => self.then.answer(aim, asked, b, &mut scratch.1),
        }
    }
}
