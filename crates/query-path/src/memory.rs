//! Data in memory that answers at once: zones, and any other data that is found by QNAME. A worker is generic
//! over its type, so calls are static.
//!
//! A batch goes through the data in passes, so that its waits for memory overlap: each pass prefetches what
//! the next one reads, for all queries, before any of them is answered. The data's own crate decides what to
//! prefetch; the pipeline keeps the order.
//!
//! ```text
//! for each query   prefetch_find   what `find` will read
//! for each query   find            where its answer is looked up: its location
//! PASSES times
//!   for each query prefetch        what the next pass, or `answer`, will read
//! for each query   answer          which may use results of the passes
//! ```

use transfer::tsig::TsigKey;
use transport::Client;
use wire::edns::ErrorInfo;
use wire::hash::{HashKey, HashedName};
use wire::message::Builder;
use wire::{Name, ViewName, ZoneName};

use crate::asked::Asked;
use crate::client_groups::GroupClient;
use crate::refusal::Refusal;
use crate::request::{QueryQuestion, Request};
use crate::views::ViewNumber;
use crate::zone_facts::ZoneFacts;

/// A query before it is answered.
#[derive(Clone, Copy)]
pub struct LookupKey<'a> {
    /// The parsed query.
    pub request: &'a Request,
    /// Its question.
    pub question: QueryQuestion,
    /// QNAME in lower case, and the hash of each of its suffixes.
    pub qname: &'a HashedName,
    /// Whether recursion is available to the client, as [`Memory::offers_recursion`] returns.
    pub may_recurse: bool,
    /// The view that the query is in, as [`Memory::view`] returns.
    pub view: ViewNumber,
}

/// The result of answering from memory.
pub enum MemoryResult<'s> {
    /// The sections are written and the flags set, with an optional extended error.
    Answer(Option<ErrorInfo>),
    /// The same, but the answer is a chain of aliases whose last target is this name, which is not in these
    /// data.
    LeadsTo(&'s HashedName),
    /// The client gets no reply.
    NoReply,
    /// No answer after all: other servers are asked. The caller discards what was written.
    Nothing,
}

/// Data in memory. Workers clone it when any of it is replaced, so it is made of references.
pub trait Memory: Clone + Send + Sync + 'static {
    /// Where the answer to a query is looked up, with the results of the passes. Borrows nothing; valid for
    /// this version of the data only. Small: the locations of a batch are stored next to each other.
    type Location: Send;
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

    /// Whether there are views. If not, no query is in one.
    fn has_views(&self) -> bool {
        false
    }

    /// Returns the view that a client's query is in. `key` has signed the query.
    fn view(&self, client: &Client, key: Option<&TsigKey>) -> ViewNumber {
        let _ = (client, key);
        ViewNumber::OUTSIDE
    }

    /// Returns the name of a view, for logs.
    fn view_name(&self, _view: ViewNumber) -> Option<&ViewName> {
        None
    }

    /// Returns the zone of this name that a query in this view is about.
    fn apex(&self, view: ViewNumber, qname: &HashedName) -> ZoneName {
        let _ = view;
        qname.as_lower().into()
    }

    /// Whether a query for a name that a zone delegates is resolved for a client that may recurse. Otherwise
    /// it gets the referral.
    fn resolves(&self, lookup_key: &LookupKey<'_>, client: GroupClient<'_>) -> bool {
        let _ = (lookup_key, client);
        false
    }

    /// Prefetches what [`find`](Self::find) will most likely read.
    fn prefetch_find(&self, qname: &HashedName);

    /// Returns where the answer to this query is looked up; `None` if these data do not cover its name.
    fn find(&self, lookup_key: &LookupKey<'_>) -> Option<Self::Location>;

    /// Prefetches what pass `pass + 1`, or else answering, will read for the query with this location. Passes
    /// are numbered from 0. Returns whether pass `pass + 1` has anything to do for it.
    fn prefetch(&self, pass: usize, location: &mut Self::Location, qname: &HashedName) -> bool;

    /// Returns the name of the zone that the location is in, for the query log; `None` if it is in no zone.
    fn zone(&self, location: &Self::Location) -> Option<Name<'_>> {
        let _ = location;
        None
    }

    /// Returns serial and expiry of the location's zone; `None` without a zone, or if it is not loaded.
    fn zone_facts(&self, _location: &Self::Location) -> Option<ZoneFacts> {
        None
    }

    /// Writes the answer into `b`: sections, flags and response code. On a refusal, the caller discards what
    /// was written.
    ///
    /// # Errors
    /// The refusal.
    fn answer<'s>(
        &self,
        location: &Self::Location,
        asked: &Asked<'_>,
        b: &mut Builder<'_>,
        scratch: &'s mut Self::Scratch,
    ) -> Result<MemoryResult<'s>, Refusal>;
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
    type Location = Either<A::Location, B::Location>;
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

    /// The first kind has the zones.
    fn has_views(&self) -> bool {
        self.first.has_views()
    }

    fn view(&self, client: &Client, key: Option<&TsigKey>) -> ViewNumber {
        self.first.view(client, key)
    }

    fn view_name(&self, view: ViewNumber) -> Option<&ViewName> {
        self.first.view_name(view)
    }

    fn apex(&self, view: ViewNumber, qname: &HashedName) -> ZoneName {
        self.first.apex(view, qname)
    }

    fn resolves(&self, lookup_key: &LookupKey<'_>, client: GroupClient<'_>) -> bool {
        self.then.resolves(lookup_key, client)
    }

    #[inline]
    fn prefetch_find(&self, qname: &HashedName) {
        self.first.prefetch_find(qname);
        self.then.prefetch_find(qname);
    }

    #[inline]
    fn find(&self, lookup_key: &LookupKey<'_>) -> Option<Self::Location> {
        let first = self.first.find(lookup_key).map(Either::First);
        first.or_else(|| self.then.find(lookup_key).map(Either::Then))
    }

    #[inline]
    fn prefetch(&self, pass: usize, location: &mut Self::Location, qname: &HashedName) -> bool {
        match location {
            Either::First(location) if pass < A::PASSES => self.first.prefetch(pass, location, qname),
            Either::Then(location) if pass < B::PASSES => self.then.prefetch(pass, location, qname),
            _ => false,
        }
    }

    fn zone(&self, location: &Self::Location) -> Option<Name<'_>> {
        match location {
            Either::First(location) => self.first.zone(location),
            Either::Then(location) => self.then.zone(location),
        }
    }

    fn zone_facts(&self, location: &Self::Location) -> Option<ZoneFacts> {
        match location {
            Either::First(location) => self.first.zone_facts(location),
            Either::Then(location) => self.then.zone_facts(location),
        }
    }

    #[inline]
    fn answer<'s>(
        &self,
        location: &Self::Location,
        asked: &Asked<'_>,
        b: &mut Builder<'_>,
        scratch: &'s mut Self::Scratch,
    ) -> Result<MemoryResult<'s>, Refusal> {
        match location {
            Either::First(location) => self.first.answer(location, asked, b, &mut scratch.0),
            Either::Then(location) => self.then.answer(location, asked, b, &mut scratch.1),
        }
    }
}
