//! Layout of an entry in a log, as words, so that threads can share it.
//!
//! ```text
//! word 0   hash of name and view
//!      1   stored at (low half), good until (high half)
//!      2   qtype, qclass, view
//!      3   length of the body, number of TTLs, length of the name, response code, rank, flags
//!      4   records in the answer, authority and additional section; the queried type
//!      5.. name in lower case, wire form
//!          body: the response behind its question, without OPT
//!          offsets of the TTLs in the body, four 16-bit numbers in a word
//! ```
//!
//! Name, body and TTLs each begin with a word; the rest of the last word is zero. Numbers and bytes are
//! stored from the low end of a word. All that is read without the mutex may be words of several entries,
//! until [`Log::holds`] has ruled that out: no function here fails on such words, it only returns nonsense.
//!
//! [`Log::holds`]: crate::log::Log::holds

use std::ops::Range;

use wire::{Class, Rcode, Type};

use crate::atomic::{AtomicU64, Ordering};
use crate::clock::Now;
use crate::credibility::Credibility;
use crate::flags::Flags;
use crate::key::Subject;
use crate::lines::WORDS;

/// Number of words in front of the name.
pub(crate) const HEAD: usize = 5;

/// The head of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) subject: Subject,
    /// The flags of the key and the answer.
    pub(crate) flags: Flags,
    pub(crate) stored: Now,
    /// Time of expiry: the first moment at which the entry is no longer fresh.
    pub(crate) until: Now,
    pub(crate) rank: Credibility,
    pub(crate) rcode: Rcode,
    /// Records in the answer, authority and additional sections.
    pub(crate) counts: [u16; 3],
    /// The type of the query that was answered.
    pub(crate) asked: Type,
    pub(crate) name_len: u8,
    pub(crate) ttls: u16,
    pub(crate) body_len: u16,
}

impl Head {
    /// Returns the words of the head.
    pub(crate) fn words(&self) -> [u64; HEAD] {
        let subject = &self.subject;
        let [answer, authority, additional] = self.counts.map(u64::from);
        [
            subject.hash,
            self.stored.bits() as u64 | (self.until.bits() as u64) << 32,
            subject.qtype.0 as u64 | (subject.qclass.0 as u64) << 16 | (subject.view as u64) << 32,
            self.body_len as u64
                | (self.ttls as u64) << 16
                | (self.name_len as u64) << 32
                | (self.rcode.0 as u64 & 0xfff) << 40
                | (self.rank as u64) << 52
                | (self.flags.0 as u64) << 56,
            answer | authority << 16 | additional << 32 | (self.asked.0 as u64) << 48,
        ]
    }

    /// Reads the head from the words of an entry.
    #[inline]
    pub(crate) fn read(words: &[AtomicU64]) -> Option<Head> {
        let words = words.first_chunk::<HEAD>()?;
        let word = |i: usize| words[i].load(Ordering::Relaxed);
        let (times, about, lengths, counts) = (word(1), word(2), word(3), word(4));
        let flags = Flags((lengths >> 56) as u8);
        let subject = Subject {
            hash: word(0),
            qtype: Type(about as u16),
            qclass: Class((about >> 16) as u16),
            view: (about >> 32) as u32,
            flags: flags.of_key(),
        };
        Some(Head {
            subject,
            flags,
            stored: Now::of_bits(times as u32),
            until: Now::of_bits((times >> 32) as u32),
            rank: Credibility::of((lengths >> 52) as u8 & 0xf),
            rcode: Rcode((lengths >> 40) as u16 & 0xfff),
            counts: [counts as u16, (counts >> 16) as u16, (counts >> 32) as u16],
            asked: Type((counts >> 48) as u16),
            name_len: (lengths >> 32) as u8,
            ttls: (lengths >> 16) as u16,
            body_len: lengths as u16,
        })
    }

    /// Returns the first word of the body.
    #[inline]
    pub(crate) fn body_at(&self) -> usize {
        HEAD + (self.name_len as usize).div_ceil(8)
    }

    /// Returns the first word of the TTL offsets.
    #[inline]
    pub(crate) fn ttls_at(&self) -> usize {
        self.body_at() + (self.body_len as usize).div_ceil(8)
    }

    /// Returns the number of lines of the entry.
    pub(crate) fn lines(&self) -> usize {
        (self.ttls_at() + (self.ttls as usize).div_ceil(4)).div_ceil(WORDS)
    }

    /// Returns the lifetime in seconds.
    #[inline]
    pub(crate) fn lifetime(&self) -> u32 {
        self.until.since(self.stored)
    }
}

/// Returns the words of an entry.
pub(crate) fn words<'a>(
    head: &Head,
    name: &'a [u8],
    body: &'a [u8],
    ttls: &'a [u16],
) -> impl Iterator<Item = u64> + 'a {
    let places = ttls.chunks(4).map(|four| four.iter().rev().fold(0, |word, at| word << 16 | *at as u64));
    head.words()
        .into_iter()
        .chain(name.chunks(8).map(word_of))
        .chain(body.chunks(8).map(word_of))
        .chain(places)
}

/// Packs up to eight bytes into a word.
#[inline]
fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// Whether an entry has this name. The caller has compared the length.
#[inline]
pub(crate) fn is_named(words: &[AtomicU64], name: &[u8]) -> bool {
    let (whole, rest) = name.as_chunks::<8>();
    let Some(words) = words.get(HEAD..HEAD + name.len().div_ceil(8)) else { return false };
    let is = |word: &AtomicU64, bytes: u64| word.load(Ordering::Relaxed) == bytes;
    words.iter().zip(whole).all(|(word, bytes)| is(word, u64::from_le_bytes(*bytes)))
        && (rest.is_empty() || words.last().is_some_and(|word| is(word, word_of(rest))))
}

/// Fills `to` with bytes of an entry from `word` on. Bytes beyond the end of the log are left unchanged.
#[inline]
pub(crate) fn copy(words: &[AtomicU64], word: usize, to: &mut [u8]) {
    let words = words.get(word..).unwrap_or_default();
    let (whole, rest) = to.as_chunks_mut::<8>();
    for (to, word) in whole.iter_mut().zip(words) {
        *to = word.load(Ordering::Relaxed).to_le_bytes();
    }
    if let Some(last) = words.get(whole.len()) {
        rest.copy_from_slice(&last.load(Ordering::Relaxed).to_le_bytes()[..rest.len()]);
    }
}

/// Returns the ranges of the TTLs of an entry in its body.
#[inline]
pub(crate) fn ttl_places(words: &[AtomicU64], head: &Head) -> impl Iterator<Item = Range<usize>> {
    let words = words.get(head.ttls_at()..).unwrap_or_default();
    (0..head.ttls as usize).map_while(move |i| {
        let four = words.get(i / 4)?.load(Ordering::Relaxed);
        let at = (four >> (16 * (i % 4))) as u16 as usize;
        Some(at..at + 4)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        fn heads()(
            hash: u64, times: (u32, u32), about: (u16, u16, u32), rcode in 0u16..4096, rank in 0usize..5,
            flags in 0u8..64, counts: [u16; 3], asked: u16, lengths: (u8, u16, u16),
        ) -> Head {
            let flags = Flags(flags);
            let (qtype, qclass, view) = (Type(about.0), Class(about.1), about.2);
            Head {
                subject: Subject { hash, qtype, qclass, view, flags: flags.of_key() },
                flags,
                stored: Now::of_bits(times.0),
                until: Now::of_bits(times.1),
                rank: Credibility::ALL[rank],
                rcode: Rcode(rcode),
                counts,
                asked: Type(asked),
                name_len: lengths.0,
                ttls: lengths.1,
                body_len: lengths.2,
            }
        }
    }

    proptest! {
        #[test]
        fn a_head_is_read_as_it_was_written(head in heads()) {
            let words = head.words().map(AtomicU64::new);
            prop_assert_eq!(Head::read(&words), Some(head));
        }

        #[test]
        fn an_entry_is_read_as_it_was_written(
            head in heads(),
            name in prop::collection::vec(any::<u8>(), 1..256),
            body in prop::collection::vec(any::<u8>(), 0..300),
            places in prop::collection::vec(any::<u16>(), 0..20),
        ) {
            let head = Head {
                name_len: name.len() as u8, body_len: body.len() as u16, ttls: places.len() as u16, ..head
            };
            let words: Vec<AtomicU64> = words(&head, &name, &body, &places).map(AtomicU64::new).collect();
            prop_assert_eq!(words.len().div_ceil(WORDS), head.lines());
            prop_assert!(is_named(&words, &name));
            let mut other = name.clone();
            other[name.len() / 2] ^= 1;
            prop_assert!(!is_named(&words, &other));
            let mut copied = vec![0; body.len()];
            copy(&words, head.body_at(), &mut copied);
            prop_assert_eq!(copied, body);
            let read: Vec<u16> = ttl_places(&words, &head).map(|at| at.start as u16).collect();
            prop_assert_eq!(read, places);
        }

        /// Words that a reader may see before it detects that the entry is gone.
        #[test]
        fn no_words_are_read_beyond_their_end(garbage in prop::collection::vec(any::<u64>(), 0..40), room in 0usize..400) {
            let words: Vec<AtomicU64> = garbage.into_iter().map(AtomicU64::new).collect();
            if let Some(head) = Head::read(&words) {
                is_named(&words, &vec![1; head.name_len as usize]);
                copy(&words, head.body_at(), &mut vec![0; room]);
                prop_assert!(ttl_places(&words, &head).count() <= 4 * words.len());
            }
        }
    }
}
