//! Who is told of a change, and when (RFC 1996 §3.6).

use transfer::secondary::NotifySender;
use wire::{Rcode, Serial};

use super::{Moment, Published, SecondaryCore, Surroundings, sender};
use crate::zones::Apex;
use resolver::Random;

/// What is known of the telling of one zone.
pub(super) struct ToldZone {
    sender: NotifySender,
    /// The version in service, once there was one, and the data of its SOA.
    soa: Option<(Serial, Box<[u8]>)>,
    /// When it is in [`SecondaryCore::telling`] for.
    due: Option<u64>,
    /// The error that each answered last.
    pub(super) declined: Vec<Option<Rcode>>,
}

impl ToldZone {
    pub(super) fn new(peers: usize) -> Self {
        ToldZone { sender: sender(peers), soa: None, due: None, declined: vec![None; peers] }
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

    /// Tells whoever is to be told now, while not too many replies are waited for.
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
            if let Some(peer) = zone.told.sender.poll(now, &mut || random.next_u32()) {
                self.send_notify(&apex, peer, at);
            }
            self.see_to(&apex);
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
