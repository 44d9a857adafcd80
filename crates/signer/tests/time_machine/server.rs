//! The server of the zone: it steps, generates keys, signs, publishes and writes states, and crashes between
//! any two of these.

use std::collections::BTreeMap;

use signer::key::times::{KeyEvent, KeyTimes};
use signer::keyset::KeyUse;
use signer::policy::DnssecPolicy;
use signer::rollover::{
    Facts, KeyId, KeyPlan, KeyPurpose, KeyState, Keyring, ManagedKey, NewKey, ParentView,
};
use wire::{Ttl, UnixTime};

use crate::random::Random;
use crate::world::{World, ZoneVersion};

/// The files of a key.
#[derive(Clone, Debug)]
struct KeyFiles {
    role: KeyPurpose,
    bits: usize,
    generated: UnixTime,
    state: Option<KeyState>,
}

/// The server crashes.
pub(crate) struct Crash;

/// The server, with its disk.
pub(crate) struct Server {
    pub(crate) policy: DnssecPolicy,
    pub(crate) ring: Keyring,
    disk: BTreeMap<KeyId, KeyFiles>,
    /// By how much the clock is ahead, in seconds.
    pub(crate) skew: i64,
    /// TTL of all data but DNSKEY.
    pub(crate) data_ttl: u64,
    /// How far behind the servers of the parent are that the server asks; `None`: it does not ask them.
    pub(crate) parent_servers: Option<[u64; 2]>,
    /// After how many more writes the server crashes.
    pub(crate) crash_in: Option<u64>,
    /// The server signs one group at a time.
    pub(crate) is_slow: bool,
    next_tag: u16,
    /// It has looked at the zone since the start: before, it does not say what the parent is to have.
    pub(crate) has_looked: bool,
    /// Keys that were generated.
    pub(crate) generated: u64,
    pub(crate) crashes: u64,
    pub(crate) steps: u64,
}

fn ids(plan: &KeyPlan, is: impl Fn(&KeyUse) -> bool) -> Vec<KeyId> {
    let mut ids: Vec<KeyId> = plan.uses.iter().filter(|(_, used)| is(used)).map(|(id, _)| *id).collect();
    ids.sort_unstable();
    ids
}

impl Server {
    pub(crate) fn new(policy: DnssecPolicy, data_ttl: u64, parent_servers: Option<[u64; 2]>) -> Server {
        Server {
            policy,
            ring: Keyring::new(Vec::new()),
            disk: BTreeMap::new(),
            skew: 0,
            data_ttl,
            parent_servers,
            crash_in: None,
            is_slow: false,
            next_tag: 1,
            has_looked: false,
            generated: 0,
            crashes: 0,
            steps: 0,
        }
    }

    /// Returns the time by the clock of the server.
    pub(crate) fn clock(&self, world: &World) -> UnixTime {
        UnixTime::from_secs(world.now.saturating_add_signed(self.skew))
    }

    /// Returns when the world has this time of the server's clock.
    pub(crate) fn real_time(&self, time: UnixTime) -> u64 {
        time.as_secs().saturating_add_signed(-self.skew)
    }

    pub(crate) fn facts(&self, world: &World) -> Facts {
        let now = self.clock(world);
        let zone = world.zone_now();
        let data_ttl_before = match zone.dnskeys.is_empty() {
            true => world.zone.iter().map(|version| version.what.data_ttl).max().unwrap_or(0),
            false => world.ttls_before.1,
        };
        let known: Vec<KeyId> = self.ring.keys().iter().map(|key| key.id).collect();
        let ours = |ids: &[KeyId]| ids.iter().copied().filter(|id| known.contains(id)).collect::<Vec<_>>();
        let signs = |id: &&KeyId| zone.groups.iter().all(|group| group.contains(id));
        let signs_some = |id: &&KeyId| zone.groups.iter().any(|group| group.contains(id));
        let parent = self.parent_servers.map(|delays| {
            let [one, other] = delays.map(|delay| world.ds_behind(delay));
            let union: Vec<KeyId> = one.iter().chain(other).copied().collect();
            ParentView {
                checked: now,
                everywhere: ours(one).into_iter().filter(|id| other.contains(id)).collect(),
                somewhere: ours(&union),
                ds_ttl: Ttl::from_secs(if union.is_empty() { 0 } else { world.ds_ttl as u32 }),
                any_other_ds: union.iter().any(|id| !known.contains(id)),
            }
        });
        Facts {
            now,
            zone: None,
            dnskey_ttl: Ttl::from_secs(if zone.dnskeys.is_empty() { 0 } else { zone.dnskey_ttl as u32 }),
            largest_ttl: Ttl::from_secs(zone.data_ttl as u32),
            dnskey_ttl_before: Ttl::from_secs(world.ttls_before.0 as u32),
            largest_ttl_before: Ttl::from_secs(data_ttl_before as u32),
            published: ours(&zone.dnskeys),
            key_signers: ours(&zone.key_signers),
            complete: known.iter().filter(signs).copied().collect(),
            present: known.iter().filter(signs_some).copied().collect(),
            cds: ours(&zone.cds),
            foreign: Vec::new(),
            parent,
        }
    }

    /// A place where the server may crash.
    fn write(&mut self) -> Result<(), Crash> {
        match &mut self.crash_in {
            Some(0) => Err(Crash),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Starts the server with what is on its disk.
    pub(crate) fn restart(&mut self) {
        self.crash_in = None;
        self.has_looked = false;
        self.crashes += 1;
        let keys = self.disk.iter().map(|(id, files)| {
            let mut times = KeyTimes::default();
            times.set(KeyEvent::Created, files.generated);
            let by_times = || KeyState::by_times(files.role, files.bits, &times, files.generated);
            ManagedKey { id: *id, dnskey: Vec::new(), state: files.state.clone().unwrap_or_else(by_times) }
        });
        self.ring = Keyring::new(keys.collect());
    }

    fn generate(&mut self, new: &NewKey, now: UnixTime) -> Result<(), Crash> {
        let bits = if new.bits == 0 { 256 } else { new.bits };
        let id = KeyId { algorithm: new.algorithm, tag: self.next_tag };
        self.next_tag = self.next_tag.wrapping_add(1).max(1);
        self.generated += 1;
        self.disk.insert(id, KeyFiles { role: new.role, bits, generated: now, state: None });
        self.write()?;
        self.ring.add(new, id, Vec::new(), bits, now);
        Ok(())
    }

    /// Returns the next version by a plan.
    fn version(&self, plan: &KeyPlan, world: &World, random: &mut Random) -> ZoneVersion {
        let zone = world.zone_now();
        let mut next = ZoneVersion {
            dnskeys: ids(plan, |used| used.publish),
            key_signers: ids(plan, |used| used.sign_keys),
            groups: zone.groups.clone(),
            dnskey_ttl: self.policy.dnskey_ttl.as_secs().into(),
            data_ttl: self.data_ttl,
            cds: ids(plan, |used| used.sync),
            cds_delete: plan.cds_delete,
        };
        let signers = ids(plan, |used| used.sign_zone);
        let stale: Vec<usize> =
            (0..next.groups.len()).filter(|group| next.groups[*group] != signers).collect();
        if !stale.is_empty() && self.is_slow && !plan.unsign {
            next.groups[random.pick(&stale)] = signers;
        } else {
            for group in stale {
                next.groups[group].clone_from(&signers);
            }
        }
        next
    }

    /// Does what is due. Returns when more is due, and whether signatures are outstanding.
    pub(crate) fn run(
        &mut self,
        world: &mut World,
        random: &mut Random,
    ) -> Result<Result<(Option<UnixTime>, bool), Crash>, String> {
        let mut faults = Ok(());
        let result = self.run_rounds(world, random, &mut faults);
        faults.map(|()| result)
    }

    fn run_rounds(
        &mut self,
        world: &mut World,
        random: &mut Random,
        faults: &mut Result<(), String>,
    ) -> Result<(Option<UnixTime>, bool), Crash> {
        let mut plan = KeyPlan::default();
        for _ in 0..8 {
            plan = self.step(world);
            self.write_states(&plan)?;
            if !plan.generate.is_empty() {
                for new in plan.generate.clone() {
                    self.generate(&new, self.clock(world))?;
                }
                continue;
            }
            let next = self.version(&plan, world, random);
            let is_changed = next != *world.zone_now();
            if is_changed {
                self.write()?;
                world.forget();
                *faults = self.inspect(&plan, &next, world).and_then(|()| world.publish(next));
                if faults.is_err() {
                    return Err(Crash);
                }
                self.write()?;
            }
            plan = self.step(world);
            self.write_states(&plan)?;
            for id in plan.purge.clone() {
                self.disk.remove(&id);
                self.write()?;
                self.ring.remove(id);
            }
            if !is_changed && plan.generate.is_empty() || self.is_slow {
                break;
            }
        }
        let signers = ids(&plan, |used| used.sign_zone);
        let is_late = world.zone_now().groups.iter().any(|group| *group != signers);
        Ok((plan.wake, is_late))
    }

    fn write_states(&mut self, plan: &KeyPlan) -> Result<(), Crash> {
        for id in plan.changed.clone() {
            let state = self.ring.key(id).expect("a key").state.clone();
            self.disk.get_mut(&id).expect("files").state = Some(state);
            self.ring.written(id);
            self.write()?;
        }
        Ok(())
    }

    fn step(&mut self, world: &World) -> KeyPlan {
        let facts = self.facts(world);
        self.steps += 1;
        self.has_looked = true;
        self.ring.step(&self.policy, &facts)
    }

    /// Checks what no validator sees.
    fn inspect(&self, plan: &KeyPlan, next: &ZoneVersion, world: &World) -> Result<(), String> {
        use signer::policy::SigningGoal::Signed;
        let before = world.zone_now();
        if self.policy.goal == Signed {
            if plan.unsign || plan.cds_delete {
                return Err("the zone would become insecure".into());
            }
            if self.policy.sync && next.cds.is_empty() && !before.cds.is_empty() {
                return Err("CDS is removed, and no other takes its place".into());
            }
        }
        if plan.unsign && world.ds.iter().any(|version| !version.what.is_empty()) {
            return Err("the zone becomes unsigned while caches may have its DS".into());
        }
        Ok(())
    }
}
