//! Incoming NOTIFY (RFC 1996): who may send it, and what it triggers. It is answered at once; its content is
//! only a hint.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;

use query_path::{Asked, Refusal, Responders, Source, SourceReply};
use tracing::debug;
use transfer::secondary::read_notify;
use wire::message::Builder;
use wire::{Class, Rcode, Type, ZoneName};

use super::Secondaries;
use super::core::SecondaryRequest;
use telemetry::audit::RefusalLog;
use threads::sync::{lock, read};

/// Log of refused NOTIFYs.
static REFUSED: RefusalLog = RefusalLog::new("NOTIFY");

/// Zones with an accepted NOTIFY that is not handled yet: further ones add no information.
#[derive(Debug, Default)]
pub(super) struct Unread(Mutex<HashSet<ZoneName>>);

impl Unread {
    /// Adds a zone. Returns whether it was not there yet.
    fn add(&self, apex: &ZoneName) -> bool {
        let mut zones = lock(&self.0);
        !zones.contains(apex) && zones.insert(apex.clone())
    }

    /// Removes a zone: its NOTIFY is being handled.
    pub(super) fn looked(&self, apex: &ZoneName) {
        lock(&self.0).remove(apex);
    }
}

/// Takes a NOTIFY of another type than SOA, for the child zone of a delegation (RFC 9859).
pub type TakeChildNotify = Box<dyn Fn(&ZoneName, Type) -> ChildNotify + Send + Sync>;

/// What becomes of a NOTIFY for a delegation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildNotify {
    /// No zone here takes NOTIFY of this type in this place.
    NotTaken,
    /// The zone does not delegate the name.
    NotDelegated,
    /// The delegation is checked soon.
    Taken,
    /// Too many checks wait: it is left to the next scan.
    Full,
}

impl Secondaries {
    /// Has NOTIFYs for delegations taken. Of two calls, the second has no effect.
    pub fn take_child_notifies_by(&self, take: TakeChildNotify) {
        let _ = self.children.set(take);
    }

    /// Accepts a NOTIFY of another type than SOA. It is only a hint, so anyone may send it.
    fn take_of_child(&self, asked: &Asked<'_>) -> Result<(), Refusal> {
        let taken = self
            .children
            .get()
            .map_or(ChildNotify::NotTaken, |take| take(&asked.apex(), asked.question.qtype));
        match taken {
            ChildNotify::Taken | ChildNotify::Full => Ok(()),
            ChildNotify::NotDelegated => {
                REFUSED.refused(asked, "the zone does not delegate the name");
                Err(Refusal::PROHIBITED)
            }
            ChildNotify::NotTaken => {
                REFUSED.refused(asked, "the type is not SOA, and no zone here takes it for delegations");
                Err(Refusal::plain(Rcode::NOTIMP))
            }
        }
    }

    /// Accepts a NOTIFY for a secondary zone from a sender that the zone allows.
    fn take_notify(&self, asked: &Asked<'_>) -> Result<(), Refusal> {
        if asked.question.qclass != Class::IN {
            REFUSED.refused(asked, "the class is not IN");
            return Err(Refusal::CLASS);
        }
        if asked.question.qtype != Type::SOA {
            return self.take_of_child(asked);
        }
        let (apex, counts) = (self.notified(asked), &self.counts);
        let peers = read(&self.rules).get(&apex).cloned();
        let peers = peers.filter(|peers| !peers.primaries.is_empty());
        let Some(peers) = peers else {
            let is_ours = self.engine.upgrade().is_some_and(|engine| engine.zone_entry(&apex).is_some());
            let (count, refusal) = match is_ours {
                true => (&counts.notify_refused, Refusal::PROHIBITED),
                false => (&counts.notify_unknown, Refusal::NOT_AUTH),
            };
            count.fetch_add(1, Relaxed);
            REFUSED.refused(
                asked,
                if is_ours { "the zone has no `primaries`" } else { "the zone is not served here" },
            );
            return Err(refusal);
        };
        let (peer, key) = (asked.client.peer.ip(), asked.verified.map(|verified| &**verified.key()));
        let Some(primary) = peers.takes_notify(peer, key, asked.certificate().map(|shown| &**shown)) else {
            counts.notify_refused.fetch_add(1, Relaxed);
            REFUSED.refused(asked, "neither `primaries` nor `allow-notify` names the client");
            return Err(Refusal::PROHIBITED);
        };
        let said = read_notify(asked.packet).map_err(|_| {
            REFUSED.refused(asked, "the message is malformed");
            Refusal::MALFORMED
        })?;
        counts.notify_taken.fetch_add(1, Relaxed);
        match self.unread.add(&apex) {
            true => {
                debug!(zone = %apex, %peer, serial = ?said.serial.map(|serial| serial.0), "NOTIFY");
                self.request(SecondaryRequest::Notified(apex, primary, said.serial));
            }
            false => {
                counts.notify_joined.fetch_add(1, Relaxed);
            }
        }
        Ok(())
    }
}

impl Secondaries {
    /// Returns the zone that a NOTIFY is about. A catalog zone in a view is not among the zones that the view
    /// answers from, unless it has `catalog-answers`.
    fn notified(&self, asked: &Asked<'_>) -> ZoneName {
        let is_secondary = |apex: &ZoneName| read(&self.rules).get(apex).is_some();
        asked.apex_in_view().filter(is_secondary).unwrap_or_else(|| asked.apex())
    }
}

impl Source for Secondaries {
    fn answer(&self, asked: &Asked<'_>, b: &mut Builder<'_>, _: Responders<'_>) -> SourceReply {
        match self.take_notify(asked) {
            Ok(()) => {
                b.flags(|header| header.set_authoritative(true));
                SourceReply::Ready(None)
            }
            Err(refusal) => SourceReply::Refused(refusal),
        }
    }
}
