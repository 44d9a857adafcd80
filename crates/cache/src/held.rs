//! Copies of single entries.

use wire::{Class, Header, LowerNameBuf, Name, Rcode, Type};

use crate::answer::AnswerKind;
use crate::clock::Now;
use crate::credibility::Credibility;
use crate::entry::{self, Head};
use crate::flags::Flags;
use crate::key::EVERY_TYPE;
use crate::lines::LINE;
use crate::lookup::Freshness;
use crate::message::message;
use crate::shard::Shard;

/// A copy of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    name: LowerNameBuf,
    head: Head,
    body: Vec<u8>,
    /// Whether it is fresh or expired.
    pub freshness: Freshness,
    /// Seconds since it was stored.
    pub age: u32,
}

impl Held {
    /// Returns the name, in lower case.
    pub fn name(&self) -> &LowerNameBuf {
        &self.name
    }

    /// Returns the type of the query that was answered; an NXDOMAIN holds for every type.
    pub fn asked(&self) -> Type {
        self.head.asked
    }

    /// Whether it holds for every type of the name: NXDOMAIN (RFC 2308 §5).
    pub fn is_for_every_type(&self) -> bool {
        self.head.subject.qtype == EVERY_TYPE
    }

    /// Returns the class.
    pub fn qclass(&self) -> Class {
        self.head.subject.qclass
    }

    /// Returns the number of the view or rule that it belongs to.
    pub fn view(&self) -> u32 {
        self.head.subject.view
    }

    /// DO of the query that was answered.
    pub fn dnssec_ok(&self) -> bool {
        self.head.flags.dnssec_ok()
    }

    /// CD of the query that was answered.
    pub fn checking_disabled(&self) -> bool {
        self.head.flags.checking_disabled()
    }

    /// Returns the credibility.
    pub fn rank(&self) -> Credibility {
        self.head.rank
    }

    /// Returns the response code.
    pub fn rcode(&self) -> Rcode {
        self.head.rcode
    }

    /// Returns whether it is positive, negative or a failure.
    pub fn kind(&self) -> AnswerKind {
        match self.head.flags {
            flags if flags.is_failure() => AnswerKind::Failure,
            flags if flags.is_negative() => AnswerKind::Negative,
            _ => AnswerKind::Positive,
        }
    }

    /// Returns the bytes that it takes in the cache.
    pub fn bytes(&self) -> usize {
        self.head.lines() * LINE
    }

    /// Returns its lifetime in seconds from the time when it was stored.
    pub fn lifetime(&self) -> u32 {
        self.head.lifetime()
    }

    /// Returns the response as stored, with TTLs not aged, and a question with the name in lower case. The
    /// header has the lower four bits of the response code.
    pub fn message(&self) -> Vec<u8> {
        let Head { rcode, asked, counts, subject, flags, .. } = self.head;
        let mut message = message(rcode, self.name.as_lower(), asked, subject.qclass, counts, &self.body);
        if let Some(mut header) = Header::of(&message) {
            header.set_authoritative(flags.authoritative());
            header.set_authentic_data(flags.authentic());
            message[..header.as_bytes().len()].copy_from_slice(header.as_bytes());
        }
        message
    }

    pub(crate) fn flags(&self) -> Flags {
        self.head.flags
    }
}

impl Shard {
    /// Returns a copy of a slot's entry, if it may be served.
    pub(crate) fn held(&self, slot: usize, now: Now, max_stale: u32) -> Option<Held> {
        let held = self.index.load(&self.lines, slot);
        if held.is_empty() {
            return None;
        }
        let log = self.log(held.which());
        let words = log.words(&self.lines, held.at());
        let head = Head::read(words)?;
        let (mut name, mut body) = ([0; 255], vec![0; head.body_len as usize]);
        let name = name.get_mut(..head.name_len as usize)?;
        entry::copy(words, entry::HEAD, name);
        entry::copy(words, head.body_at(), &mut body);
        if !log.holds(held.at()) {
            return None;
        }
        let freshness = head.freshness(now, max_stale)?;
        let name = Name::from_wire(name).ok()?.to_lower();
        Some(Held { name, head, body, freshness, age: now.since(head.stored) })
    }
}
