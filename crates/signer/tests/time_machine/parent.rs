//! The parent: it follows CDS records, or an operator adds and removes its DS records by hand; for a while it
//! does nothing, or something wrong.

use signer::rollover::{KeyGoal, KeyId, RecordState};
use wire::UnixTime;

use crate::random::Random;
use crate::server::Server;
use crate::world::World;

/// How DS records get to the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParentKind {
    /// It reads CDS records.
    FollowsCds,
    /// An operator adds and removes DS records, of which the server sees what it asks for.
    ByHand,
}

/// The parent.
#[derive(Debug)]
pub(crate) struct Parent {
    pub(crate) kind: ParentKind,
    /// Seconds between two looks at the zone.
    pub(crate) interval: u64,
    pub(crate) next: u64,
    /// A change that was decided, and when it comes to the primary of the parent.
    pending: Option<(u64, Vec<KeyId>)>,
    /// It does nothing before.
    pub(crate) idle_until: u64,
    /// Whether it does wrong things now and then.
    pub(crate) is_wrong: bool,
}

impl Parent {
    pub(crate) fn new(kind: ParentKind, interval: u64, is_wrong: bool, now: u64) -> Parent {
        Parent { kind, interval, next: now + interval, pending: None, idle_until: 0, is_wrong }
    }

    /// Returns when it acts next.
    pub(crate) fn due(&self) -> u64 {
        self.pending.as_ref().map_or(self.next, |(at, _)| self.next.min(*at))
    }

    pub(crate) fn run(
        &mut self,
        world: &mut World,
        server: &mut Server,
        random: &mut Random,
    ) -> Result<(), String> {
        if let Some((_, keys)) = self.pending.take_if(|(at, _)| *at <= world.now) {
            world.set_ds(keys)?;
        }
        if self.next > world.now {
            return Ok(());
        }
        self.next = world.now + self.interval / 2 + random.up_to(self.interval);
        if self.idle_until > world.now {
            return Ok(());
        }
        if self.pending.is_some() {
            return Ok(());
        }
        if server.parent_servers.is_none() {
            self.report(world, server);
        }
        if self.is_wrong && random.one_in(20) {
            return self.err(world, server, random);
        }
        let wanted = match self.kind {
            ParentKind::FollowsCds => self.by_cds(world, random),
            ParentKind::ByHand if !server.has_looked => None,
            ParentKind::ByHand => Some(by_hand(world, server, random)),
        };
        if let Some(mut keys) = wanted {
            keys.sort_unstable();
            if keys != *world.ds_now() {
                self.pending = Some((world.now + random.up_to(world.parent_delay), keys));
            }
        }
        Ok(())
    }

    /// Reads CDS as any server of the zone, or any cache, has it.
    fn by_cds(&self, world: &World, random: &mut Random) -> Option<Vec<KeyId>> {
        let held: Vec<usize> = (0..world.zone.len())
            .filter(|version| {
                let version = &world.zone[*version];
                let ttl = version.what.dnskey_ttl;
                version.until.is_none_or(|until| world.now < until + world.zone_delay + ttl)
            })
            .collect();
        let read = if random.one_in(3) { random.pick(&held) } else { world.zone.len() - 1 };
        let version = &world.zone[read].what;
        match (version.cds_delete, version.cds.is_empty()) {
            (true, _) => Some(Vec::new()),
            (false, false) => Some(version.cds.clone()),
            (false, true) => None,
        }
    }

    /// Does something wrong, but nothing that breaks the zone at once: it does not add DS records of keys
    /// that are gone.
    fn err(&mut self, world: &mut World, server: &Server, random: &mut Random) -> Result<(), String> {
        let with = |is: &dyn Fn(RecordState) -> bool| {
            let keys = server.ring.keys().iter().filter(|key| is(key.state.ds.state)).map(|key| key.id);
            let mut keys: Vec<KeyId> = keys.collect();
            keys.sort_unstable();
            keys
        };
        let keys = match random.up_to(2) {
            0 => Vec::new(),
            1 => with(&|state| state != RecordState::Hidden),
            _ => {
                // DS records of standby keys alone would lead nowhere.
                let mut keys = with(&|state| state == RecordState::Unretentive);
                keys.retain(|id| world.zone_now().key_signers.contains(id));
                keys
            }
        };
        if server.parent_servers.is_none() || keys == *world.ds_now() {
            return Ok(());
        }
        // It stays until the server has looked.
        self.next = world.now + 10_000;
        world.set_ds(keys)
    }

    /// The operator says what all servers have.
    fn report(&self, world: &World, server: &mut Server) {
        let (now, behind) = (world.ds_now().clone(), world.ds_behind(world.parent_delay / 2).clone());
        let when: UnixTime = server.clock(world);
        let keys: Vec<(KeyId, RecordState, KeyGoal)> =
            server.ring.keys().iter().map(|key| (key.id, key.state.ds.state, key.state.goal)).collect();
        for (id, state, goal) in keys {
            let is_there = now.contains(&id) && behind.contains(&id);
            let is_gone = !now.contains(&id) && !behind.contains(&id);
            // A refusal concerns a key without DS.
            if is_there && state == RecordState::Rumoured {
                let _ = server.ring.ds_published(id, when);
            } else if is_gone && state == RecordState::Unretentive && goal == KeyGoal::Hidden {
                let _ = server.ring.ds_withdrawn(id, when);
            }
        }
    }
}

/// The operator does what the states of the keys ask for: adding first, removing first, or both at once.
fn by_hand(world: &World, server: &Server, random: &mut Random) -> Vec<KeyId> {
    let states = server.ring.keys().iter().map(|key| (key.id, key.state.ds.state));
    let wanted = |state| matches!(state, RecordState::Rumoured | RecordState::Omnipresent);
    let new: Vec<KeyId> = states.filter(|(_, state)| wanted(*state)).map(|(id, _)| id).collect();
    let now = world.ds_now();
    let adds = new.iter().any(|id| !now.contains(id));
    match random.up_to(2) {
        0 if adds => {
            let mut both: Vec<KeyId> = new.iter().chain(now).copied().collect();
            both.sort_unstable();
            both.dedup();
            both
        }
        1 if adds => now.iter().copied().filter(|id| new.contains(id)).collect(),
        _ => new,
    }
}
