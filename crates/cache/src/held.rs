//! Entries shown as they are kept.

use wire::{Class, Header, LowerNameBuf, Name, Rcode, Type};

use crate::answer::AnswerKind;
use crate::clock::Now;
use crate::entry::{self, Head};
use crate::flags::Flags;
use crate::key::EVERY_TYPE;
use crate::lines::LINE;
use crate::lookup::Freshness;
use crate::message::message;
use crate::rank::Credibility;
use crate::shard::Shard;

/// A copy of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    name: LowerNameBuf,
    head: Head,
    body: Vec<u8>,
    /// Whether its time is up.
    pub freshness: Freshness,
    /// Seconds since it was stored.
    pub age: u32,
}

impl Held {
    /// The name, in lower case.
    pub fn name(&self) -> &LowerNameBuf {
        &self.name
    }

    /// The type that was asked for; an NXDOMAIN is kept for every type.
    pub fn asked(&self) -> Type {
        self.head.asked
    }

    /// Whether it holds for every type of the name: NXDOMAIN (RFC 2308 §5).
    pub fn is_for_every_type(&self) -> bool {
        self.head.subject.qtype == EVERY_TYPE
    }

    /// The class.
    pub fn qclass(&self) -> Class {
        self.head.subject.qclass
    }

    /// Whose answer it is.
    pub fn view(&self) -> u32 {
        self.head.subject.view
    }

    /// DO of the query that it answers.
    pub fn dnssec_ok(&self) -> bool {
        self.head.flags.dnssec_ok()
    }

    /// CD of that query.
    pub fn checking_disabled(&self) -> bool {
        self.head.flags.checking_disabled()
    }

    /// How far it is to be trusted.
    pub fn rank(&self) -> Credibility {
        self.head.rank
    }

    /// The response code.
    pub fn rcode(&self) -> Rcode {
        self.head.rcode
    }

    /// What it says.
    pub fn kind(&self) -> AnswerKind {
        match self.head.flags {
            flags if flags.is_failure() => AnswerKind::Failure,
            flags if flags.is_negative() => AnswerKind::Negative,
            _ => AnswerKind::Positive,
        }
    }

    /// Bytes that it takes in the cache.
    pub fn bytes(&self) -> usize {
        self.head.lines() * LINE
    }

    /// Seconds that it was good for when it was stored.
    pub fn lifetime(&self) -> u32 {
        self.head.lifetime()
    }

    /// The response as it was stored, its TTLs not aged, behind a question for its name in lower case. Of the
    /// response code it has the lower four bits.
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
    /// A copy of the entry that a slot leads to, if it may be served.
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
