//! Carries out the actions that the states of zones return. Every action is a message to another thread or an
//! entry in a queue: nothing here waits.
//!
//! Callers hold the lock of the zone table, so that the actions of a zone leave in the order of its events,
//! whichever thread reported them.

use std::collections::HashSet;
use std::sync::mpsc::Sender;
use std::sync::{Arc, RwLock};
use wire::ZoneName;

use tracing::{debug, error, info, warn};
use zone::catalog::Change;

use super::examiner::Examiner;
use super::manager::Message;
use crate::changes::Changes;
use crate::managed::publishing::Publishing;
use crate::managed::state::{Load, Notice, VersionStep, ZoneAction};
use crate::secondaries::Secondaries;
use crate::stores::differences::Differences;
use serving::recursive::PolicyZones;
use threads::background::Background;
use threads::sync::{read, write};

/// Zones that are handled otherwise than by serving them.
#[derive(Debug, Default)]
pub(super) struct SpecialZones {
    /// Catalog zones that this server reads (RFC 9432).
    pub(super) catalogs: HashSet<ZoneName>,
    /// Catalog zones and response policy zones that clients get no answers from.
    pub(super) hidden: HashSet<ZoneName>,
    /// The root zone is a copy for the resolver (RFC 8806), and clients get no answers from it.
    pub(super) copies_root: bool,
    /// The response policy zones.
    pub(super) policy: HashSet<ZoneName>,
}

/// Work for the caller after it has released the lock.
#[derive(Debug, Default)]
pub(super) struct Decided {
    /// Loads to order.
    pub(super) loads: Vec<Load>,
    /// Log messages for the operator.
    pub(super) notices: Vec<Notice>,
}

/// Carries out the actions of zones; shared by the threads that report events to them.
pub(super) struct Executor {
    pub(super) publishing: Sender<Publishing>,
    pub(super) manager: Sender<Message>,
    /// `None` if the system refused a thread.
    pub(super) examiner: Option<Examiner>,
    pub(super) secondaries: Option<Arc<Secondaries>>,
    pub(super) changes: Option<Arc<Changes>>,
    pub(super) differences: Option<Arc<Differences>>,
    /// Runs folds.
    pub(super) background: Arc<Background>,
    pub(super) special: RwLock<SpecialZones>,
    /// The versions of response policy zones, for recursive service.
    pub(super) policy_zones: Option<Arc<PolicyZones>>,
}

impl Executor {
    /// Carries out the actions of one zone, in their order.
    pub(super) fn carry_out(&self, apex: &ZoneName, actions: Vec<ZoneAction>) -> Decided {
        let mut decided = Decided::default();
        for action in actions {
            match action {
                ZoneAction::Load(load) => decided.loads.push(load),
                ZoneAction::Report(notice) => decided.notices.push(notice),
                ZoneAction::Publish(change) => self.publish(apex, change, false),
                ZoneAction::PublishNow(change) => self.publish(apex, change, true),
                ZoneAction::WriteImage(order) => self.send(Publishing::Image(order)),
                ZoneAction::Examine(zone) => {
                    if let Some(examiner) = &self.examiner {
                        examiner.order(apex.clone(), zone);
                    }
                }
                ZoneAction::Fold(job) => {
                    let (publishing, apex) = (self.publishing.clone(), apex.clone());
                    job.run(&self.background, move |number, zone| {
                        // A send error means that the server is stopping.
                        let _ = publishing.send(Publishing::Folded(apex, number, zone));
                    });
                }
                ZoneAction::Begin(kept) => {
                    if let Some(secondaries) = &self.secondaries {
                        secondaries.begin(apex.clone(), kept);
                    }
                }
                ZoneAction::Take(zone, file, when) => {
                    if let Some(changes) = &self.changes {
                        changes.take(apex.clone(), zone, file, when);
                    }
                }
                ZoneAction::Maintain => {
                    if let Some(changes) = &self.changes {
                        changes.maintain(apex);
                    }
                }
                ZoneAction::KeepDifference(change, bytes) => {
                    if let Some(differences) = &self.differences {
                        differences.keep(apex, change, bytes);
                    }
                }
                ZoneAction::ContinueDifferences(change, bytes) => {
                    if let Some(differences) = &self.differences {
                        differences.go_on(apex, change, bytes);
                    }
                }
                ZoneAction::ForgetDifferences => {
                    if let Some(differences) = &self.differences {
                        differences.forget(apex);
                    }
                }
            }
        }
        decided
    }

    /// Adds a step to the next catalog. Unless `at_once`, the step waits for others, one second at most.
    pub(super) fn step(&self, apex: &ZoneName, change: Change, at_once: bool) {
        self.send(Publishing::Step { apex: apex.clone(), change, at_once });
    }

    /// Publishes a step of a zone's state, unless clients get no answers from the zone. New versions of
    /// catalog zones, and of a root zone that is a copy, go to the manager thread; those of response policy
    /// zones to recursive service.
    fn publish(&self, apex: &ZoneName, change: Change, at_once: bool) {
        let special = read(&self.special);
        if special.copies_root && !apex.is_in_view() && apex.as_name().is_root() {
            return self.send_to_manager(Message::Root(change));
        }
        if let (true, Some(policy_zones)) = (special.policy.contains(apex), &self.policy_zones) {
            policy_zones.take(change.clone());
        }
        if matches!(change, Change::Remove(_)) {
            return self.step(apex, change, at_once);
        }
        let is_hidden = special.hidden.contains(apex);
        if let Change::Serve(zone) = &change {
            if special.catalogs.contains(apex) {
                self.send_to_manager(Message::CatalogVersion(apex.clone(), Arc::clone(zone)));
            }
            // NOTIFY targets of hidden zones get a NOTIFY as well.
            if let (true, Some(secondaries)) = (is_hidden, &self.secondaries) {
                secondaries.published(&[(apex.clone(), Arc::clone(zone))]);
            }
        }
        if !is_hidden {
            self.step(apex, change, at_once);
        }
    }

    /// Changes the set of special zones. The caller holds the lock of the zone table.
    pub(super) fn change_special(&self, change: impl FnOnce(&mut SpecialZones)) {
        change(&mut write(&self.special));
    }

    /// Makes the manager thread order these loads.
    pub(super) fn order_loads(&self, loads: Vec<Load>) {
        if !loads.is_empty() {
            self.send_to_manager(Message::Load(loads));
        }
    }

    pub(super) fn send(&self, message: Publishing) {
        // A send error means that the server is stopping.
        let _ = self.publishing.send(message);
    }

    fn send_to_manager(&self, message: Message) {
        // A send error means that the server is stopping.
        let _ = self.manager.send(message);
    }
}

/// Logs the messages about a zone. At the start all zones are new, and get no line each for that.
pub(super) fn log(apex: &ZoneName, notices: &[Notice], starting: bool) {
    let name = apex;
    for notice in notices {
        match notice {
            Notice::Warning(text) => warn!("zone {name}: {text}"),
            Notice::Bad(fault, Some(serial)) => {
                error!("zone {name} is bad, serial {serial} stays in service:\n{fault}");
            }
            Notice::Bad(fault, None) => {
                // A fault of one line is logged on one line.
                let gap = if fault.text.contains('\n') { '\n' } else { ' ' };
                error!("zone {name} is bad, no version of it is in service:{gap}{fault}");
            }
            Notice::Changed(VersionStep { from, to, records, took }) => {
                let (records, milliseconds) = (*records, took.as_millis() as u64);
                match from {
                    Some(from) => info!(records, milliseconds, "zone {name}: serial {from} -> {to}"),
                    None if starting => debug!(records, milliseconds, "zone {name}: serial {to}"),
                    None => info!(records, milliseconds, "zone {name}: new, serial {to}"),
                }
            }
            Notice::SerialBack(VersionStep { from, to, .. }) => {
                let from = from.unwrap_or(*to);
                warn!(
                    "zone {name}: the serial went back from {from} to {to}: secondaries will not transfer \
                    this version"
                );
            }
            Notice::SerialKept(VersionStep { to, .. }) => {
                warn!(
                    "zone {name}: the records changed, the serial is still {to}: secondaries will not \
                    transfer this version"
                );
            }
            Notice::FileNotTaken(serial) => {
                warn!(
                    "zone {name}: its file, with serial {serial}, is not taken, since updates have changed \
                    the zone: `nomen ctl zone reload --force` applies it"
                );
            }
        }
    }
}
