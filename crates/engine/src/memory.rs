//! Data in memory that is answered from at once: zones, and whatever else is found by a question's name. A worker knows
//! its type, so that nothing lies between the line and the data.
//!
//! A batch goes through the data in passes, so that its waits for memory overlap: each pass prefetches what the next
//! one reads, for all questions, before any of them is answered. What that is, only the data's own crate can know; the
//! line sees to the order.
//!
//! ```text
//! for each question   prefetch_spot   what `find` will read
//! for each question   find            where its answer will be looked for: a spot
//! PASSES times        prefetch        what `answer` will read, for all spots of the batch
//! for each question   answer
//! ```

use wire::edns::ErrorInfo;
use wire::hash::{HashKey, HashedName};
use wire::message::Builder;

use crate::request::Question;
use crate::source::{Asked, Refusal};

/// What a question is answered with from memory.
pub type Answered = Result<Option<ErrorInfo>, Refusal>;

/// Data in memory. Cloned when any of it is replaced, so it is made of references.
pub trait Memory: Clone + Send + Sync + 'static {
    /// Where the answer to a question will be looked for. Borrows nothing; good for this version of the data only.
    type Spot: Copy + Send;
    /// What the passes keep of one question, closely packed.
    type Aim: Send;
    /// What answering reuses from one question to the next.
    type Scratch: Default + Send;

    /// Passes of [`prefetch`](Self::prefetch) over the batch.
    const PASSES: usize;

    /// The key under which names are looked up. The same for the life of an engine.
    fn key(&self) -> &HashKey;

    /// Prefetches what [`find`](Self::find) will most likely read.
    fn prefetch_spot(&self, qname: &HashedName);

    /// Where the answer to this question will be looked for; `None` if these data say nothing about it.
    fn find(&self, qname: &HashedName, question: &Question) -> Option<Self::Spot>;

    /// What the passes need to know of a question.
    fn aim(&self, spot: Self::Spot, qname: &HashedName, question: &Question, dnssec_ok: bool) -> Self::Aim;

    /// Prefetches what pass `pass + 1`, or else answering, will read. Passes are numbered from 0.
    fn prefetch(&self, pass: usize, aims: &mut [Self::Aim]);

    /// Answers into `b`: sections, flags and response code. Returns an extended error to go with it, if any; if it is
    /// refused, what was written does not count.
    fn answer(
        &self,
        spot: Self::Spot,
        asked: &Asked<'_>,
        b: &mut Builder<'_>,
        scratch: &mut Self::Scratch,
    ) -> Answered;
}

/// Two kinds of data: what `first` says nothing about is looked for in `then`.
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
    type Spot = Either<A::Spot, B::Spot>;
    type Aim = Either<A::Aim, B::Aim>;
    type Scratch = (A::Scratch, B::Scratch);

    const PASSES: usize = if A::PASSES > B::PASSES { A::PASSES } else { B::PASSES };

    fn key(&self) -> &HashKey {
        self.first.key()
    }

    #[inline]
    fn prefetch_spot(&self, qname: &HashedName) {
        self.first.prefetch_spot(qname);
        self.then.prefetch_spot(qname);
    }

    #[inline]
    fn find(&self, qname: &HashedName, question: &Question) -> Option<Self::Spot> {
        let first = self.first.find(qname, question).map(Either::First);
        first.or_else(|| self.then.find(qname, question).map(Either::Then))
    }

    #[inline]
    fn aim(&self, spot: Self::Spot, qname: &HashedName, question: &Question, dnssec_ok: bool) -> Self::Aim {
        match spot {
            Either::First(spot) => Either::First(self.first.aim(spot, qname, question, dnssec_ok)),
            Either::Then(spot) => Either::Then(self.then.aim(spot, qname, question, dnssec_ok)),
        }
    }

    #[inline]
    fn prefetch(&self, pass: usize, aims: &mut [Self::Aim]) {
        for aim in aims {
            match aim {
                Either::First(aim) if pass < A::PASSES => {
                    self.first.prefetch(pass, std::slice::from_mut(aim))
                }
                Either::Then(aim) if pass < B::PASSES => self.then.prefetch(pass, std::slice::from_mut(aim)),
                _ => {}
            }
        }
    }

    #[inline]
    fn answer(
        &self,
        spot: Self::Spot,
        asked: &Asked<'_>,
        b: &mut Builder<'_>,
        scratch: &mut Self::Scratch,
    ) -> Answered {
        match spot {
            Either::First(spot) => self.first.answer(spot, asked, b, &mut scratch.0),
            Either::Then(spot) => self.then.answer(spot, asked, b, &mut scratch.1),
        }
    }
}
