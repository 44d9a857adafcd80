//! Which targets get a NOTIFY, and when (RFC 1996 §3.6).

use std::collections::VecDeque;
use std::net::SocketAddr;

use transfer::secondary::NotifySender;
use wire::{Rcode, Serial, UnixTime, ZoneName};

use super::{CoreHost, Moment, PeeredZone, Published, SecondaryCore, sender};
use resolver::Random;
use zone_plan::ZonePeers;

/// A NOTIFY target with outstanding or waiting NOTIFYs.
#[derive(Default)]
pub(super) struct NotifyTarget {
    /// Number of outstanding NOTIFYs.
    in_flight: usize,
    /// NOTIFYs to send after them: the zone, and the target's index in its list.
    waiting: VecDeque<(ZoneName, usize)>,
}

/// NOTIFY state of one zone.
pub(super) struct NotifyState {
    sender: NotifySender,
    /// For each target, whether the zone's NOTIFY waits because too many others are outstanding.
    waiting: Vec<bool>,
    /// The version in service, if there was one, and the data of its SOA.
    soa: Option<(Serial, Box<[u8]>)>,
    /// Time of the zone's entry in [`SecondaryCore::notify_due`].
    due: Option<UnixTime>,
    /// The last reply of each target.
    pub(super) replies: Vec<PeerReply>,
}

/// The last reply of a secondary to NOTIFY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PeerReply {
    /// None yet.
    #[default]
    None,
    /// The secondary accepted the NOTIFY.
    Taken,
    /// The first reply was an error. The secondary may add the zone, from a catalog or by its operator, a
    /// little later than this server.
    NotYet,
    /// The secondary replied with this error after accepting one, or repeatedly.
    Declined(Rcode),
}

impl PeerReply {
    /// Returns the state after another reply.
    pub(super) fn after(self, rcode: Rcode) -> Self {
        match (self, rcode) {
            (_, Rcode::NOERROR) => Self::Taken,
            (Self::None, _) => Self::NotYet,
            (Self::Taken | Self::NotYet | Self::Declined(_), _) => Self::Declined(rcode),
        }
    }
}

impl NotifyState {
    /// Returns the state before the first NOTIFY; `None` without targets.
    pub(super) fn of(peers: &ZonePeers) -> Option<Box<Self>> {
        let peers = peers.notify.len();
        let notify = NotifyState {
            sender: sender(peers),
            waiting: vec![false; peers],
            soa: None,
            due: None,
            replies: vec![PeerReply::None; peers],
        };
        (peers > 0).then(|| Box::new(notify))
    }

    /// Takes over the version in service from the state before a change of the targets.
    pub(super) fn going_on(mut self: Box<Self>, before: Option<Box<Self>>) -> Box<Self> {
        self.soa = before.and_then(|before| before.soa);
        self
    }

    pub(super) fn due(&self) -> Option<UnixTime> {
        self.due
    }

    /// Returns the data of the SOA of the version in service.
    pub(super) fn soa(&self) -> Option<Box<[u8]>> {
        self.soa.as_ref().map(|(_, soa)| soa.clone())
    }

    /// Records a reply of a target, whatever its response code.
    pub(super) fn replied(&mut self, peer: usize) {
        self.sender.replied(peer);
        self.set_waiting(peer, false);
    }

    /// Sets whether a NOTIFY waits for a peer. Returns whether one did before.
    fn set_waiting(&mut self, peer: usize, waits: bool) -> bool {
        self.waiting.get_mut(peer).is_some_and(|waiting| std::mem::replace(waiting, waits))
    }
}

impl<S: CoreHost, R: Random> SecondaryCore<S, R> {
    /// Handles a version that went into service: makes NOTIFY due, unless the last NOTIFY was for this
    /// version.
    pub(super) fn published(&mut self, Published { apex, serial, soa }: Published, at: &Moment<'_>) {
        let now = self.unix(at.now);
        let Some(notify) = self.zones.get_mut(&apex).and_then(|zone| zone.notify.as_mut()) else { return };
        if notify.soa.as_ref().is_some_and(|(before, _)| *before == serial) {
            return;
        }
        notify.soa = Some((serial, soa));
        notify.sender.changed(now);
        self.see_to(&apex);
    }

    /// Sends NOTIFY again, by order of the operator. Returns whether there are targets and a version.
    pub(super) fn notify_again(&mut self, apex: &ZoneName, at: &Moment<'_>) -> bool {
        let now = self.unix(at.now);
        let notify = self.zones.get_mut(apex).and_then(|zone| zone.notify.as_mut());
        let Some(notify) = notify.filter(|notify| notify.soa.is_some()) else { return false };
        notify.sender.changed(now);
        self.see_to(apex);
        true
    }

    /// Sends the NOTIFYs that are due, while not too many replies are outstanding. A target with too many
    /// outstanding replies gets its NOTIFY later, and delays no other target.
    pub(super) fn send_notifies(&mut self, at: &mut Moment<'_>) {
        let now = self.unix(at.now);
        while self.in_flight < self.limits.notify {
            let Some((due, apex)) = self.notify_due.first().cloned() else { return };
            if due > now {
                return;
            }
            self.notify_due.pop_first();
            let SecondaryCore { zones, random, .. } = self;
            let Some(PeeredZone { peers, notify: Some(notify), .. }) = zones.get_mut(&apex) else { continue };
            notify.due = None;
            if let Some(peer) = notify.sender.poll(now, &mut || random.next_u32())
                && let Some(to) = peers.notify.get(peer).map(|server| server.address)
            {
                let is_full =
                    self.targets.get(&to).is_some_and(|target| target.in_flight >= self.limits.notify_each);
                if is_full {
                    self.defer_notify(&apex, peer, to);
                } else if self.send_notify(&apex, peer, at) {
                    self.in_flight += 1;
                    self.targets.entry(to).or_default().in_flight += 1;
                    let notify = self.zones.get_mut(&apex).and_then(|zone| zone.notify.as_mut());
                    notify.map(|notify| notify.set_waiting(peer, false));
                } else {
                    self.resume_notify(to);
                }
            }
            self.see_to(&apex);
        }
    }

    fn defer_notify(&mut self, apex: &ZoneName, peer: usize, to: SocketAddr) {
        let Some(notify) = self.zones.get_mut(apex).and_then(|zone| zone.notify.as_mut()) else { return };
        notify.sender.put_off(peer);
        if !notify.set_waiting(peer, true) {
            self.targets.entry(to).or_default().waiting.push_back((apex.clone(), peer));
        }
    }

    /// Handles the end of an outstanding NOTIFY, with or without a reply.
    pub(super) fn notify_ended(&mut self, to: SocketAddr) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(target) = self.targets.get_mut(&to) {
            target.in_flight = target.in_flight.saturating_sub(1);
        }
        self.resume_notify(to);
    }

    /// Makes the NOTIFY that has waited longest for a secondary due, if there is room.
    fn resume_notify(&mut self, to: SocketAddr) {
        let most = self.limits.notify_each;
        while let Some(target) = self.targets.get_mut(&to).filter(|target| target.in_flight < most) {
            let Some((apex, peer)) = target.waiting.pop_front() else {
                if target.in_flight == 0 {
                    self.targets.remove(&to);
                }
                return;
            };
            // The zone may have been removed, or have other targets.
            let zone = self.zones.get_mut(&apex);
            let zone =
                zone.filter(|zone| zone.peers.notify.get(peer).is_some_and(|server| server.address == to));
            if let Some(notify) = zone.and_then(|zone| zone.notify.as_mut())
                && notify.set_waiting(peer, false)
            {
                notify.sender.take_up(peer);
                return self.see_to(&apex);
            }
        }
    }

    /// Updates when the next NOTIFY of a zone is due.
    pub(super) fn see_to(&mut self, apex: &ZoneName) {
        let Some(notify) = self.zones.get_mut(apex).and_then(|zone| zone.notify.as_mut()) else { return };
        let due = notify.sender.due();
        if notify.due == due {
            return;
        }
        if let Some(before) = std::mem::replace(&mut notify.due, due) {
            self.notify_due.remove(&(before, apex.clone()));
        }
        self.notify_due.extend(due.map(|due| (due, apex.clone())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_zone_was_a_warning_for_each_secondary_that_does_not_have_it_yet() {
        let of = |replies: &[Rcode]| replies.iter().fold(PeerReply::None, |reply, rcode| reply.after(*rcode));
        let (ok, not_auth, refused) = (Rcode::NOERROR, Rcode::NOTAUTH, Rcode::REFUSED);
        assert_eq!(of(&[not_auth]), PeerReply::NotYet);
        assert_eq!(of(&[not_auth, ok]), PeerReply::Taken);
        assert_eq!(of(&[not_auth, not_auth]), PeerReply::Declined(not_auth), "it still does not have it");
        assert_eq!(of(&[ok, refused]), PeerReply::Declined(refused), "it had it");
    }
}
