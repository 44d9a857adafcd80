//! Limits on replies over UDP, applied to one reply: its kind and length are known, and it is not yet sent.
//!
//! A reply that is over a limit is dropped. Some clients get a short one instead, no longer than their query:
//! BADCOOKIE if the query has a client cookie (RFC 7873 §5.2.3), else a truncated one. A client whose address
//! is not forged then asks again, with the cookie or over TCP, which have no limit.

use rate_limits::{PrefixHashes, Ticks};
use wire::edns::OPT_LEN;
use wire::message::{Builder, Mark, Section};
use wire::{Opcode, Rcode};

use crate::refusal::{Answered, Refusal};
use crate::reply_limits::{LimitAction, LimitPace, LimitedReplies, ReplyKind, ReplyLimits};
use crate::signature::Signature;
use crate::stats::QueryStats;
use crate::tail::ReplyFrame;

/// The limits on replies to one client, and the counters of its worker.
pub(crate) struct Limiter<'a> {
    pub(crate) limits: &'a ReplyLimits,
    pub(crate) hashes: &'a PrefixHashes,
    pub(crate) pace: &'a LimitPace,
    pub(crate) stats: &'a QueryStats,
    pub(crate) now: Ticks,
}

impl Limiter<'_> {
    /// Counts the reply that `b` holds, and shortens it if it is over a limit. Returns `None` if it is
    /// dropped.
    #[inline]
    pub(crate) fn apply(
        &self,
        frame: &ReplyFrame<'_>,
        b: &mut Builder<'_>,
        question_only: Mark,
        answered: Answered,
    ) -> Option<Answered> {
        let is_cut = b.header().truncated();
        let kind = match answered {
            Ok(_) if is_cut => ReplyKind::Answer,
            Ok(_) => kind_of(b.rcode(), b.count(Section::Answer)),
            Err(_) => ReplyKind::Error,
        };
        // The rest of a truncated reply, or of one with an error, is not sent.
        let len = if is_cut || answered.is_err() { 0 } else { b.len() + OPT_LEN };
        match self.decide(frame, kind, len)? {
            LimitAction::Truncated => {
                frame.clear(b, question_only);
                b.flags(|header| header.set_truncated(true));
                Some(Ok(None))
            }
            LimitAction::BadCookie => Some(Err(Refusal::plain(Rcode::BADCOOKIE))),
            LimitAction::Dropped => None,
            LimitAction::Sent | LimitAction::DryRun => Some(answered),
        }
    }

    /// Counts a reply, and decides what happens to it: [`LimitAction::Sent`] also if it is within the limits.
    /// `None` if it is dropped.
    #[inline]
    fn decide(&self, frame: &ReplyFrame<'_>, kind: ReplyKind, len: usize) -> Option<LimitAction> {
        if is_exempt(frame, kind) {
            return Some(LimitAction::Sent);
        }
        match self.limits.charge(self.hashes, kind, len, self.now) {
            None => Some(LimitAction::Sent),
            Some(level) => self.over(frame, kind, level),
        }
    }

    /// Decides about a reply that is over a limit, and counts it.
    #[cold]
    fn over(&self, frame: &ReplyFrame<'_>, kind: ReplyKind, level: usize) -> Option<LimitAction> {
        let now = self.now;
        let action = if self.limits.dry_run {
            LimitAction::DryRun
        } else if !self.limits.replies_shortly(self.hashes, self.pace, now) {
            LimitAction::Dropped
        } else if kind == ReplyKind::Error {
            LimitAction::Sent
        } else if frame.checked_cookie().is_some() {
            LimitAction::BadCookie
        } else {
            LimitAction::Truncated
        };
        self.stats.limited(kind, action);
        let client = frame.client.peer.ip().to_canonical();
        self.limits.note(self.pace, LimitedReplies { client, level, kind, count: 1 }, now);
        (action != LimitAction::Dropped).then_some(action)
    }
}

/// Whether the client has shown that its address is its own, by a TSIG or a cookie, or a server that sends
/// NOTIFY or UPDATE is answered without an error.
#[inline]
fn is_exempt(frame: &ReplyFrame<'_>, kind: ReplyKind) -> bool {
    let is_known = frame.signed.is_some_and(|signature: &Signature| signature.verified().is_some());
    let has_cookie = frame.request.edns.is_some_and(|edns| edns.has_cookie());
    let is_order = frame.request.header.opcode() != Opcode::QUERY && kind != ReplyKind::Error;
    is_known || is_order || has_cookie && frame.has_valid_cookie()
}

/// Returns the kind of a reply with this response code and number of answers.
#[inline]
fn kind_of(rcode: Rcode, answers: u16) -> ReplyKind {
    match rcode {
        Rcode::NOERROR if answers > 0 => ReplyKind::Answer,
        Rcode::NOERROR => ReplyKind::Referral,
        Rcode::NXDOMAIN => ReplyKind::NxDomain,
        _ => ReplyKind::Error,
    }
}
