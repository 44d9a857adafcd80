//! Data in memory that is answered from at once: zones, and whatever else is found by a question's name. A
//! worker knows its type, so that nothing lies between the line and the data.
//!
//! A batch goes through the data in passes, so that its waits for memory overlap: each pass prefetches what
//! the next one reads, for all questions, before any of them is answered. What that is, only the data's own
//! crate can know; the line sees to the order.
//!
//! ```text
//! for each question   prefetch_find   what `find` will read
//! for each question   find            where its answer will be looked for: an aim
//! PASSES times
//!   for each question prefetch        what the next pass, or `answer`, will read
//! for each question   answer          which may use what the passes have found out
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

/// What is looked for: a question before it is answered.
#[derive(Clone, Copy)]
pub struct LookupKey<'a> {
    /// The query as it was read.
    pub request: &'a Request,
    /// Its question.
    pub question: Question,
    /// QNAME in lower case, and the hash of each of its suffixes.
    pub qname: &'a HashedName,
    /// Whether the client may have others asked, as [`Memory::offers_recursion`] says.
    pub may_recurse: bool,
}

/// What answering has found.
pub enum Found<'s> {
    /// The sections are written and the flags set; an extended error may go with them.
    Answer(Option<ErrorInfo>),
    /// The same, but the sections are the links of a chain that leads to this name, which is not in these
    /// data.
    LeadsTo(&'s HashedName),
    /// There is no answer after all: it is left to other servers. What was written does not count.
    Nothing,
}

/// Data in memory. Cloned when any of it is replaced, so it is made of references.
pub trait Memory: Clone + Send + Sync + 'static {
    /// Where the answer to a question will be looked for, and what the passes find out about it. Borrows
    /// nothing; good for this version of the data only. Small: the aims of a batch lie closely packed.
    type Aim: Send;
    /// What answering reuses from one question to the next.
    type Scratch: Default + Send;

    /// Passes of [`prefetch`](Self::prefetch) over the batch.
    const PASSES: usize;

    /// The key under which names are looked up. The same for the life of an engine.
    fn key(&self) -> &HashKey;

    /// Whether questions of this client may go beyond data that are served to everybody: RA of its replies
    /// (RFC 1035 §4.1.1). `client` says who that is.
    #[inline]
    fn offers_recursion(&self, client: impl FnOnce() -> Client) -> bool {
        let _ = client;
        false
    }

    /// Whether questions for this name and type, that zones delegate to other servers, are resolved for
    /// clients that may have others asked. If not, they get the referral.
    fn resolves(&self, lookup_key: &LookupKey<'_>) -> bool {
        let _ = lookup_key;
        false
    }

    /// Prefetches what [`find`](Self::find) will most likely read.
    fn prefetch_find(&self, qname: &HashedName);

    /// Where the answer to this question will be looked for; `None` if these data say nothing about it.
    fn find(&self, lookup_key: &LookupKey<'_>) -> Option<Self::Aim>;

    /// Prefetches what pass `pass + 1`, or else answering, will read for the question that `aim` was found
    /// for. Passes are numbered from 0. Returns whether pass `pass + 1` has anything to do for it.
    fn prefetch(&self, pass: usize, aim: &mut Self::Aim, qname: &HashedName) -> bool;

    /// The name of the zone that an aim leads into; none if that is no zone. For the query log.
    fn zone(&self, aim: &Self::Aim) -> Option<Name<'_>> {
        let _ = aim;
        None
    }

    /// What the zone of this aim says of itself; `None` where there is no zone, or none that is loaded.
    fn zone_facts(&self, _aim: &Self::Aim) -> Option<ZoneFacts> {
        None
    }

    /// Answers into `b`: sections, flags and response code. If it is refused, what was written does not
    /// count.
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

/// Two kinds of data: what `first` does not have is looked for in `then`.
#[derive(Clone)]
pub struct Both<A, B> {
    /// Asked first.
    pub first: A,
    /// Asked for the rest.
    pub then: B,
}

/// Something of one of two kinds.
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

    /// The second kind says so: it has what lies beyond the first.
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
