//! What is asked of a source of answers.

use std::time::Instant;

use exchange::Client;
use transfer::tsig::Verified;
use wire::Name;
use wire::hash::HashedName;

use crate::request::{Question, Request};
use crate::stats::Stats;

/// What is asked of a source, memory or other: all that later stages need to know of a query.
pub struct Asked<'a> {
    /// The query as it came.
    pub packet: &'a [u8],
    /// Who asks, and how.
    pub client: &'a Client,
    /// When the batch was received.
    pub received: Instant,
    /// The query as it was read.
    pub request: &'a Request,
    /// Its question: QNAME's length, QTYPE, QCLASS. Of an update, the zone (RFC 2136 §2.3).
    pub question: Question,
    /// QNAME in lower case, and the hash of each of its suffixes.
    pub qname: &'a HashedName,
    /// Whether the client may have others asked.
    pub may_recurse: bool,
    /// Says whether the name is resolved for the client where a zone in memory delegates it.
    pub resolves: &'a dyn Fn() -> bool,
    /// Who signed the query, if it was signed.
    pub verified: Option<&'a Verified>,
    /// The counters of the worker that answers.
    pub stats: &'a Stats,
}

impl<'a> Asked<'a> {
    /// QNAME as the client wrote it.
    #[inline]
    pub fn name(&self) -> Name<'a> {
        self.question.name(self.packet)
    }
}
