//! What was found of delegations, for operators.

use std::collections::{BTreeMap, HashMap};

use validator::children::RefusalReason;
use wire::{NameBuf, UnixTime, ZoneName};

use super::schedule::ChildOf;

/// Most delegations whose last check is remembered. Beyond it, those without a fault and without a change are
/// not.
const MAX_REMEMBERED: usize = 200_000;

/// The records by which a child asks for a change of its delegation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChildRequestKind {
    /// CDS and CDNSKEY: the DS RRset.
    Cds,
    /// CSYNC: NS records and glue.
    Csync,
}

impl ChildRequestKind {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Cds => "cds",
            Self::Csync => "csync",
        }
    }
}

/// The outcome of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckOutcome {
    /// The zone does not delegate the name.
    NotDelegated,
    /// The delegation is unsigned: first DS records are not accepted, and nothing proves a CSYNC record.
    Unsigned,
    /// The delegation is signed, and later DS records are not accepted.
    NotAccepted,
    /// The child asks for nothing.
    Nothing,
    /// The zone has what the child asks for.
    Unchanged,
    /// The zone was changed: key tags of the old and the new DS records, or the old and the new NS records
    /// and glue.
    Changed(String),
    /// The same, but the zone is not changed (`delegation-dry-run`).
    WouldChange(String),
    /// The request is not accepted, for this reason.
    Refused(RefusalReason, String),
    /// The request is accepted, and the zone could not be changed.
    Failed(String),
}

impl CheckOutcome {
    /// The word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::NotDelegated => "not-delegated",
            Self::Unsigned => "unsigned",
            Self::NotAccepted => "not-accepted",
            Self::Nothing => "nothing",
            Self::Unchanged => "unchanged",
            Self::Changed(_) => "changed",
            Self::WouldChange(_) => "would-change",
            Self::Refused(..) => "refused",
            Self::Failed(_) => "failed",
        }
    }

    /// Returns why a request is not accepted.
    pub fn reason(&self) -> Option<RefusalReason> {
        match self {
            Self::Refused(reason, _) => Some(*reason),
            _ => None,
        }
    }

    /// Returns what is to be said beside the word.
    pub fn detail(&self) -> Option<&str> {
        match self {
            Self::Changed(text) | Self::WouldChange(text) | Self::Refused(_, text) | Self::Failed(text) => {
                Some(text)
            }
            _ => None,
        }
    }

    /// Whether a later check may end otherwise, though child and parent stay as they are.
    pub(super) fn is_failed(&self) -> bool {
        matches!(self, Self::Refused(..) | Self::Failed(_))
    }
}

/// The last check of a delegation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelegationStatus {
    /// The child zone.
    pub child: NameBuf,
    /// What it was asked for.
    pub kind: ChildRequestKind,
    /// When its name servers were asked.
    pub checked: UnixTime,
    /// The outcome.
    pub outcome: CheckOutcome,
    /// When the zone was last changed because of a request, since the start.
    pub changed: Option<UnixTime>,
    /// When it is checked next, if that is known; else within the interval of the scan.
    pub next: Option<UnixTime>,
}

/// The last checks of the delegations of all zones.
#[derive(Debug, Default)]
pub(super) struct Statuses {
    zones: HashMap<ZoneName, BTreeMap<(NameBuf, ChildRequestKind), DelegationStatus>>,
    count: usize,
}

impl Statuses {
    /// Notes a check. Returns whether its outcome differs from that of the check before.
    pub(super) fn note(
        &mut self,
        (zone, child): &ChildOf,
        kind: ChildRequestKind,
        outcome: &CheckOutcome,
        at: UnixTime,
    ) -> bool {
        let known = self.zones.get(zone).and_then(|children| children.get(&(*child, kind)));
        let (before, changed) =
            (known.map(|status| status.outcome.clone()), known.and_then(|status| status.changed));
        let changed = if matches!(outcome, CheckOutcome::Changed(_)) { Some(at) } else { changed };
        let is_silent = match outcome {
            CheckOutcome::NotDelegated
            | CheckOutcome::Unsigned
            | CheckOutcome::NotAccepted
            | CheckOutcome::Nothing => changed.is_none(),
            CheckOutcome::Unchanged => before.is_none() && self.count >= MAX_REMEMBERED,
            _ => false,
        };
        if is_silent || matches!(outcome, CheckOutcome::NotDelegated) {
            self.forget_child(zone, (*child, kind));
            return before.is_some();
        }
        let (outcome, child) = (outcome.clone(), *child);
        let is_other = before.as_ref() != Some(&outcome);
        let status = DelegationStatus { child, kind, checked: at, outcome, changed, next: None };
        if self.zones.entry(zone.clone()).or_default().insert((child, kind), status).is_none() {
            self.count += 1;
        }
        is_other
    }

    fn forget_child(&mut self, zone: &ZoneName, child: (NameBuf, ChildRequestKind)) {
        let removed = self.zones.get_mut(zone).and_then(|children| children.remove(&child));
        self.count -= usize::from(removed.is_some());
    }

    /// Forgets the delegations of a zone.
    pub(super) fn forget(&mut self, zone: &ZoneName) {
        let removed = self.zones.remove(zone).map_or(0, |children| children.len());
        self.count -= removed;
    }

    /// The remembered delegations of a zone, in order.
    pub(super) fn of(&self, zone: &ZoneName) -> Vec<DelegationStatus> {
        self.zones.get(zone).into_iter().flat_map(|children| children.values().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_of_interest_is_remembered() {
        let name = |text: &str| -> NameBuf { text.parse().expect("a name") };
        let of = (ZoneName::from(&name("example")), name("child.example"));
        let (mut statuses, kind) = (Statuses::default(), ChildRequestKind::Cds);
        let at = UnixTime::from_secs;
        assert!(!statuses.note(&of, kind, &CheckOutcome::Nothing, at(1)));
        assert_eq!(statuses.of(&of.0), []);
        let refused = CheckOutcome::Refused(RefusalReason::Lame, "why".to_owned());
        assert!(statuses.note(&of, kind, &refused, at(2)), "it is logged");
        assert!(!statuses.note(&of, kind, &refused, at(3)), "once");
        assert!(statuses.note(&of, kind, &CheckOutcome::Changed("1 -> 2".to_owned()), at(4)));
        assert!(statuses.note(&of, kind, &CheckOutcome::Unchanged, at(5)));
        let all = statuses.of(&of.0);
        assert_eq!((all[0].checked, all[0].changed, statuses.count), (at(5), Some(at(4)), 1));
        assert!(statuses.note(&of, kind, &CheckOutcome::NotDelegated, at(6)));
        assert_eq!((statuses.of(&of.0).len(), statuses.count), (0, 0));
        statuses.note(&of, kind, &refused, at(7));
        statuses.note(&of, ChildRequestKind::Csync, &CheckOutcome::Unchanged, at(7));
        assert_eq!(statuses.of(&of.0).len(), 2, "one for each kind of request");
        statuses.forget(&of.0);
        assert_eq!(statuses.count, 0);
    }
}
