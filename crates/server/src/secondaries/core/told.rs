//! Who is told of a change, and when (RFC 1996 §3.6).

use std::collections::VecDeque;
use std::net::SocketAddr;

use transfer::secondary::NotifySender;
use wire::{Rcode, Serial};

use super::{Moment, Published, SecondaryCore, Surroundings, sender};
use crate::zones::Apex;
use resolver::Random;

/// One who is told of changes, while something is on its way to it.
#[derive(Default)]
pub(super) struct ToldPeer {
    /// NOTIFY whose replies are waited for.
    in_flight: usize,
    /// What is to be sent to it after them: zones, and its place in their lists.
    waiting: VecDeque<(Apex, usize)>,
}

/// What is known of the telling of one zone.
pub(super) struct ToldZone {
    sender: NotifySender,
    /// Whom it waits for, by their places: too much is on its way to them.
    waiting: Vec<bool>,
    /// The version in service, once there was one, and the data of its SOA.
    soa: Option<(Serial, Box<[u8]>)>,
    /// When it is in [`SecondaryCore::telling`] for.
    due: Option<u64>,
    /// The error that each answered last.
    pub(super) declined: Vec<Option<Rcode>>,
}

impl ToldZone {
    pub(super) fn new(peers: usize) -> Self {
        ToldZone {
            sender: sender(peers),
            waiting: vec![false; peers],
            soa: None,
            due: None,
            declined: vec![None; peers],
        }
    }

    /// Others are to be told from now on.
    pub(super) fn replace(&mut self, peers: usize) {
        *self = ToldZone { soa: self.soa.take(), ..ToldZone::new(peers) };
    }

    pub(super) fn due(&self) -> Option<u64> {
        self.due
    }

    /// The data of the SOA of the version in service.
    pub(super) fn soa(&self) -> Option<Box<[u8]>> {
        self.soa.as_ref().map(|(_, soa)| soa.clone())
    }

    /// One has replied, whatever it said.
    pub(super) fn replied(&mut self, peer: usize) {
        self.sender.replied(peer);
        self.set_waiting(peer, false);
    }

    /// Notes whether something waits for a peer. Returns whether it did before.
    fn set_waiting(&mut self, peer: usize, waits: bool) -> bool {
        self.waiting.get_mut(peer).is_some_and(|waiting| std::mem::replace(waiting, waits))
    }
}

impl<S: Surroundings, R: Random> SecondaryCore<S, R> {
    /// A version went into service: others are told, unless it is the one they were told of.
    pub(super) fn published(&mut self, Published { apex, serial, soa }: Published, at: &Moment<'_>) {
        let now = self.unix(at.now);
        let Some(zone) = self.zones.get_mut(&apex) else { return };
        if zone.told.soa.as_ref().is_some_and(|(told, _)| *told == serial) {
            return;
        }
        zone.told.soa = Some((serial, soa));
        zone.told.sender.changed(now);
        self.see_to(&apex);
    }

    /// The operator wants others to be told again. Returns whether there is somebody, and something to be told.
    pub(super) fn tell_again(&mut self, apex: &Apex, at: &Moment<'_>) -> bool {
        let now = self.unix(at.now);
        let Some(zone) = self.zones.get_mut(apex) else { return false };
        if zone.told.soa.is_none() || zone.peers.notify.is_empty() {
            return false;
        }
        zone.told.sender.changed(now);
        self.see_to(apex);
        true
    }

    /// Tells whoever is to be told now, while not too many replies are waited for. One from whom too many are waited for is
    /// told later, and keeps nobody else waiting.
    pub(super) fn tell(&mut self, at: &mut Moment<'_>) {
        let now = self.unix(at.now);
        while self.in_flight < self.limits.notify {
            let Some((due, apex)) = self.telling.first().cloned() else { return };
            if due > now {
                return;
            }
            self.telling.pop_first();
            let SecondaryCore { zones, random, .. } = self;
            let Some(zone) = zones.get_mut(&apex) else { continue };
            zone.told.due = None;
            if let Some(peer) = zone.told.sender.poll(now, &mut || random.next_u32())
                && let Some(to) = zone.peers.notify.get(peer).map(|server| server.address)
            {
                let is_full =
                    self.told.get(&to).is_some_and(|told| told.in_flight >= self.limits.notify_each);
                if is_full {
                    self.put_off_telling(&apex, peer, to);
                } else if self.send_notify(&apex, peer, at) {
                    self.in_flight += 1;
                    self.told.entry(to).or_default().in_flight += 1;
                    self.zones.get_mut(&apex).map(|zone| zone.told.set_waiting(peer, false));
                } else {
                    self.take_up_telling(to);
                }
            }
            self.see_to(&apex);
        }
    }

    fn put_off_telling(&mut self, apex: &Apex, peer: usize, to: SocketAddr) {
        let Some(zone) = self.zones.get_mut(apex) else { return };
        zone.told.sender.put_off(peer);
        if !zone.told.set_waiting(peer, true) {
            self.told.entry(to).or_default().waiting.push_back((apex.clone(), peer));
        }
    }

    /// The reply of a secondary is waited for no longer.
    pub(super) fn told_end(&mut self, to: SocketAddr) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(told) = self.told.get_mut(&to) {
            told.in_flight = told.in_flight.saturating_sub(1);
        }
        self.take_up_telling(to);
    }

    /// Has what waits longest for a secondary sent to it, if there is room.
    fn take_up_telling(&mut self, to: SocketAddr) {
        let most = self.limits.notify_each;
        while let Some(told) = self.told.get_mut(&to).filter(|told| told.in_flight < most) {
            let Some((apex, peer)) = told.waiting.pop_front() else {
                if told.in_flight == 0 {
                    self.told.remove(&to);
                }
                return;
            };
            // The zone may have gone, or have others who are told.
            let zone = self.zones.get_mut(&apex);
            let zone =
                zone.filter(|zone| zone.peers.notify.get(peer).is_some_and(|server| server.address == to));
            if let Some(zone) = zone
                && zone.told.set_waiting(peer, false)
            {
                zone.told.sender.take_up(peer);
                return self.see_to(&apex);
            }
        }
    }

    /// Notes when a zone has somebody to be told.
    pub(super) fn see_to(&mut self, apex: &Apex) {
        let Some(zone) = self.zones.get_mut(apex) else { return };
        let due = zone.told.sender.due();
        if zone.told.due == due {
            return;
        }
        if let Some(before) = std::mem::replace(&mut zone.told.due, due) {
            self.telling.remove(&(before, apex.clone()));
        }
        self.telling.extend(due.map(|due| (due, apex.clone())));
    }
}
