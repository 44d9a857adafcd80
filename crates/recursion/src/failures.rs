//! Causes of SERVFAIL in recursive service, and their counters.

use std::fmt;

use resolver::LookupFailure;
use validator::BogusReason;
use wire::NameBuf;

use crate::count::SharedCount;

/// Why a client gets SERVFAIL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureCause<'a> {
    /// A lookup failed.
    Lookup(LookupFailure),
    /// The answer is bogus.
    Bogus {
        /// The name where validation failed.
        at: &'a NameBuf,
        /// The reason.
        reason: BogusReason,
    },
    /// A cached failure of an earlier lookup (RFC 9520).
    Remembered,
    /// A cached failure of an earlier bogus answer.
    RememberedBogus(BogusReason),
    /// The chain of CNAME and DNAME is too long or a loop.
    AliasChain,
    /// The sentinel name's statement about a trust anchor is false (RFC 8509).
    Sentinel,
}

/// The labels of all causes, in the order of their counters.
const LABELS: [&str; 13] = [
    "no-reply",
    "timed-out",
    "network",
    "no-servers",
    "bad-reply",
    "no-other-server",
    "shed",
    "overspent",
    "bogus",
    "remembered",
    "remembered-bogus",
    "alias-chain",
    "sentinel",
];

impl FailureCause<'_> {
    /// Number of causes that are counted separately.
    pub const COUNT: usize = LABELS.len();

    /// Returns its index below [`COUNT`](Self::COUNT); `None` for causes of REFUSED.
    pub fn place(self) -> Option<usize> {
        Some(match self {
            FailureCause::Lookup(LookupFailure::NoRecursion | LookupFailure::NoRule) => return None,
            FailureCause::Lookup(LookupFailure::NoReply) => 0,
            FailureCause::Lookup(LookupFailure::TimedOut) => 1,
            FailureCause::Lookup(LookupFailure::Network(_)) => 2,
            FailureCause::Lookup(LookupFailure::NoServers) => 3,
            FailureCause::Lookup(LookupFailure::BadReply(_)) => 4,
            FailureCause::Lookup(LookupFailure::NoOtherServer) => 5,
            FailureCause::Lookup(LookupFailure::Shed(_)) => 6,
            FailureCause::Lookup(LookupFailure::Overspent(_)) => 7,
            FailureCause::Bogus { .. } => 8,
            FailureCause::Remembered => 9,
            FailureCause::RememberedBogus(_) => 10,
            FailureCause::AliasChain => 11,
            FailureCause::Sentinel => 12,
        })
    }
}

impl fmt::Display for FailureCause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FailureCause::Lookup(failure) => failure.fmt(f),
            FailureCause::Bogus { at, reason } => write!(f, "bogus at {at}: {reason}"),
            FailureCause::Remembered => f.write_str("an earlier lookup failed, which is remembered"),
            FailureCause::RememberedBogus(reason) => {
                write!(f, "an earlier answer was bogus, which is remembered: {reason}")
            }
            FailureCause::AliasChain => f.write_str("the chain of aliases is too long or a loop"),
            FailureCause::Sentinel => f.write_str("the name asks for another state of a trust anchor"),
        }
    }
}

/// Clients that got SERVFAIL, by cause.
#[derive(Debug, Default)]
pub struct FailureCounts([SharedCount; LABELS.len()]);

impl FailureCounts {
    /// Counts one failure.
    pub(crate) fn add(&self, cause: FailureCause<'_>) {
        if let Some(count) = cause.place().and_then(|place| self.0.get(place)) {
            count.add();
        }
    }

    /// Returns the sum over all causes.
    pub fn total(&self) -> u64 {
        self.0.iter().map(SharedCount::get).sum()
    }

    /// Returns each cause's label and count.
    pub fn by_cause(&self) -> impl Iterator<Item = (&'static str, u64)> {
        LABELS.into_iter().zip(self.0.iter().map(SharedCount::get))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_counted_under_its_own_label() {
        let at = wire::Name::ROOT.to_buf();
        let causes = [
            FailureCause::Lookup(LookupFailure::NoReply),
            FailureCause::Lookup(LookupFailure::TimedOut),
            FailureCause::Lookup(LookupFailure::Network(resolver::NetworkFault::Refused)),
            FailureCause::Lookup(LookupFailure::NoServers),
            FailureCause::Lookup(LookupFailure::BadReply(resolver::ReplyFault::Malformed)),
            FailureCause::Lookup(LookupFailure::NoOtherServer),
            FailureCause::Lookup(LookupFailure::Shed(resolver::ShedReason::Rule)),
            FailureCause::Lookup(LookupFailure::Overspent(resolver::Overspent::Queries)),
            FailureCause::Bogus { at: &at, reason: BogusReason::Unsigned },
            FailureCause::Remembered,
            FailureCause::RememberedBogus(BogusReason::Unsigned),
            FailureCause::AliasChain,
            FailureCause::Sentinel,
        ];
        let counts = FailureCounts::default();
        for cause in causes {
            counts.add(cause);
        }
        assert!(counts.by_cause().all(|(_, count)| count == 1), "{counts:?}");
        assert_eq!(causes.map(|cause| cause.place()), std::array::from_fn(Some));
        counts.add(FailureCause::Lookup(LookupFailure::NoRule));
        assert_eq!(counts.total(), LABELS.len() as u64);
    }
}
