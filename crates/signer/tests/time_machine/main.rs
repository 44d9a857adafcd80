//! A time machine: servers, parents, caches and operators on virtual time, without cryptography. After each
//! change, every combination of what caches may have validates; in the end, each rollover finishes.
//!
//! `NOMEN_YEARS=10000 cargo test -p signer --test time_machine -- --ignored` simulates as many years;
//! `NOMEN_SEED` begins with another scenario.

mod parent;
mod random;
mod server;
mod world;

use std::time::Duration;

use signer::policy::{DnssecPolicy, KeyAlgorithm, KeyLayout, SigningGoal};
use signer::rollover::{KeyGoal, KeyPurpose, ManagedKey, RecordTrack, RollTarget};
use wire::Ttl;
use wire::rdata::view::SigAlgorithm;

use parent::{Parent, ParentKind};
use random::Random;
use server::Server;
use world::{World, ZoneVersion};

const HOUR: u64 = 3_600;
const DAY: u64 = 86_400;
const YEAR: u64 = 365 * DAY;
/// 2026-01-01.
const START: u64 = 1_767_225_600;
const ALGORITHMS: [KeyAlgorithm; 4] = [
    KeyAlgorithm { algorithm: SigAlgorithm::ECDSAP256SHA256, bits: 0 },
    KeyAlgorithm { algorithm: SigAlgorithm::ED25519, bits: 0 },
    KeyAlgorithm { algorithm: SigAlgorithm::RSASHA256, bits: 2048 },
    KeyAlgorithm { algorithm: SigAlgorithm::RSASHA256, bits: 3072 },
];
const TTLS: [u64; 5] = [60, 300, HOUR, DAY, 2 * DAY];
const DATA_TTLS: [u64; 5] = [60, 300, HOUR, DAY, 7 * DAY];

/// One zone with its parent and its operator.
struct Scenario {
    seed: u64,
    random: Random,
    world: World,
    server: Server,
    parent: Parent,
    /// Mean time between two acts of the operator.
    pace: u64,
    /// The greatest error of the server's clock.
    clock_error: i64,
    crashes: bool,
    log: Vec<String>,
    rolls: u64,
    /// Standby keys that have taken over.
    emergencies: u64,
}

fn policy(random: &mut Random) -> DnssecPolicy {
    let seconds = Duration::from_secs;
    let algorithm = random.pick(&ALGORITHMS);
    let days = |days: u64| Some(seconds(days * DAY));
    DnssecPolicy {
        layout: random.pick(&[KeyLayout::Combined, KeyLayout::Split]),
        ksk: algorithm,
        zsk: algorithm,
        ksk_lifetime: random.pick(&[None, None, days(60), days(365)]),
        zsk_lifetime: random.pick(&[None, days(7), days(30), days(90)]),
        standby_ksk: random.one_in(2),
        standby_zsk: random.one_in(2),
        dnskey_ttl: Ttl::from_secs(random.pick(&TTLS) as u32),
        publish_safety: seconds(random.pick(&[120, HOUR, DAY])),
        retire_safety: seconds(random.pick(&[120, HOUR, DAY])),
        zone_propagation_delay: seconds(random.pick(&[0, 10, 300, 2 * HOUR])),
        parent_propagation_delay: seconds(random.pick(&[0, 300, HOUR, DAY])),
        parent_ds_ttl: Ttl::from_secs(random.pick(&[HOUR, DAY, 2 * DAY]) as u32),
        purge_keys: random.pick(&[None, days(0), days(30)]),
        ..DnssecPolicy::default()
    }
}

impl Scenario {
    fn new(seed: u64) -> Scenario {
        let mut random = Random::new(seed);
        let mut policy = policy(&mut random);
        let data_ttl = random.pick(&DATA_TTLS);
        let first = ZoneVersion { dnskey_ttl: HOUR, data_ttl, ..ZoneVersion::default() };
        let [zone, parent] =
            [policy.zone_propagation_delay, policy.parent_propagation_delay].map(|d| d.as_secs());
        let world = World::new(START, zone, parent, policy.parent_ds_ttl.as_secs().into(), first);
        let kind = random.pick(&[ParentKind::FollowsCds, ParentKind::FollowsCds, ParentKind::ByHand]);
        policy.sync = kind == ParentKind::FollowsCds || random.one_in(2);
        // Without CDS the operator must see the parent, or say what it has.
        let sees = kind == ParentKind::FollowsCds || random.one_in(2);
        let behind = random.up_to(parent / 2);
        let clock_error = policy.publish_safety.min(policy.retire_safety).as_secs() as i64 / 2;
        let server = Server::new(policy, data_ttl, sees.then_some([0, behind]));
        let interval = random.pick(&[6 * HOUR, DAY, 5 * DAY]);
        let parent = Parent::new(kind, interval, random.one_in(3), START);
        let pace = random.pick(&[DAY, 10 * DAY, 60 * DAY, 20 * YEAR]);
        let crashes = random.one_in(2);
        let clock_error = if random.one_in(2) { clock_error } else { 0 };
        Scenario {
            seed,
            random,
            world,
            server,
            parent,
            pace,
            clock_error,
            crashes,
            log: Vec::new(),
            rolls: 0,
            emergencies: 0,
        }
    }

    /// Runs for this time, with the operator's acts or without.
    fn run(&mut self, seconds: u64, is_quiet: bool) -> Result<(), String> {
        let end = self.world.now + seconds;
        let soon =
            |scenario: &mut Scenario, mean: u64| scenario.world.now + 1 + scenario.random.up_to(2 * mean);
        let mut step = self.world.now;
        let mut act = soon(self, self.pace);
        while self.world.now < end {
            let mut next = step.min(self.parent.due()).min(end);
            if !is_quiet {
                next = next.min(act);
            }
            self.world.now = next.max(self.world.now);
            let now = self.world.now;
            if !is_quiet && act <= now {
                self.operate();
                act = soon(self, self.pace);
                step = now;
            }
            if self.parent.due() <= now {
                self.parent.run(&mut self.world, &mut self.server, &mut self.random)?;
                if self.world.ds.last().is_some_and(|version| version.from == now) {
                    // The server does not see it at once.
                    step = step.min(now + self.random.up_to(HOUR));
                }
            }
            if step <= now {
                step = self.step(is_quiet)?;
            }
        }
        Ok(())
    }

    /// Lets the server run once. Returns when it runs next.
    fn step(&mut self, is_quiet: bool) -> Result<u64, String> {
        let now = self.world.now;
        if self.crashes && !is_quiet && self.random.one_in(8) {
            self.server.crash_in = Some(self.random.up_to(8));
        }
        if self.clock_error > 0 && self.random.one_in(10) {
            let error = self.random.up_to(2 * self.clock_error as u64) as i64 - self.clock_error;
            self.server.skew = error;
        }
        self.server.is_slow = !is_quiet && self.random.one_in(2);
        let polls = now + 1 + self.random.up_to(5 * DAY);
        match self.server.run(&mut self.world, &mut self.random)? {
            Ok((wake, is_late)) => {
                let wake = wake.map_or(u64::MAX, |wake| self.server.real_time(wake));
                let signing = if is_late { now + 1 + self.random.up_to(12 * HOUR) } else { u64::MAX };
                // Exactly when something is due: no time is left to what is in caches.
                Ok(wake.min(polls).min(signing).max(now + 1))
            }
            Err(_) => {
                self.server.restart();
                Ok(now + 1 + self.random.up_to(HOUR))
            }
        }
    }

    /// The operator does something, at a bad moment.
    fn operate(&mut self) {
        let facts = self.server.facts(&self.world);
        let random = &mut self.random;
        let server = &mut self.server;
        let seconds = Duration::from_secs;
        let what = random.up_to(17);
        match what {
            0..=2 => {
                let role = random.pick(&[KeyPurpose::Csk, KeyPurpose::Ksk, KeyPurpose::Zsk]);
                if server.ring.roll(&server.policy, RollTarget::Role(role), &facts).is_ok() {
                    self.rolls += 1;
                }
            }
            3 => {
                let keys: Vec<_> = server.ring.keys().iter().map(|key| key.id).collect();
                if !keys.is_empty() {
                    let _ = server.ring.retire(&server.policy, random.pick(&keys), &facts);
                }
            }
            4 => {
                server.policy.ksk = random.pick(&ALGORITHMS);
                server.policy.zsk = server.policy.ksk;
            }
            5 => server.policy.layout = random.pick(&[KeyLayout::Combined, KeyLayout::Split]),
            6 => server.policy.dnskey_ttl = Ttl::from_secs(random.pick(&TTLS) as u32),
            7 => server.data_ttl = random.pick(&DATA_TTLS),
            8 => {
                server.policy.zsk_lifetime =
                    random.pick(&[None, Some(seconds(7 * DAY)), Some(seconds(30 * DAY))])
            }
            9 => server.policy.ksk_lifetime = random.pick(&[None, Some(seconds(90 * DAY))]),
            10 if random.one_in(3) => server.policy.goal = SigningGoal::Insecure,
            10 | 11 => server.policy.goal = SigningGoal::Signed,
            12 if self.parent.kind == ParentKind::ByHand => server.policy.sync = !server.policy.sync,
            13 | 14 => {
                let role = RollTarget::Role(random.pick(&[KeyPurpose::Ksk, KeyPurpose::Zsk]));
                if server.ring.roll_at_once(&server.policy, role, &facts).is_ok() {
                    self.emergencies += 1;
                }
            }
            15 => server.policy.standby_ksk = random.one_in(2),
            16 => server.policy.standby_zsk = random.one_in(2),
            12 => self.parent.idle_until = self.world.now + random.up_to(60 * DAY),
            _ => server.restart(),
        }
        self.log.push(format!("{}: operator {what}", self.world.now - START));
    }

    /// Checks that all is as the policy wants it.
    fn check_rest(&self) -> Result<(), String> {
        let zone = self.world.zone_now();
        let policy = &self.server.policy;
        let keys = self.server.ring.keys();
        if policy.goal == SigningGoal::Insecure {
            let is_signed = !zone.dnskeys.is_empty() || zone.groups.iter().any(|group| !group.is_empty());
            return match is_signed || !self.world.ds_now().is_empty() {
                true => Err("the zone is not unsigned".into()),
                false => Ok(()),
            };
        }
        let roles: &[KeyPurpose] = match policy.layout {
            KeyLayout::Combined => &[KeyPurpose::Csk],
            KeyLayout::Split => &[KeyPurpose::Ksk, KeyPurpose::Zsk],
        };
        let is_split = policy.layout == KeyLayout::Split;
        let standby = [(KeyPurpose::Ksk, policy.standby_ksk), (KeyPurpose::Zsk, policy.standby_zsk)];
        let standby = standby.into_iter().filter(|(_, wanted)| *wanted && is_split).map(|(role, _)| role);
        let standby: Vec<KeyPurpose> = standby.collect();
        let current: Vec<_> = keys.iter().filter(|key| zone.dnskeys.contains(&key.id)).collect();
        let reserve: Vec<_> = current.iter().filter(|key| key.state.is_standby()).collect();
        let mut in_reserve: Vec<KeyPurpose> = reserve.iter().map(|key| key.state.role).collect();
        in_reserve.sort_unstable();
        let can_take_over = reserve.iter().all(|key| {
            key.state.can_take_over()
                && !zone.key_signers.contains(&key.id)
                && !zone.groups.iter().any(|group| group.contains(&key.id))
                && self.world.ds_now().contains(&key.id) == key.state.role.signs_keys()
        });
        let current: Vec<_> = current.into_iter().filter(|key| !key.state.is_standby()).collect();
        let mut found: Vec<KeyPurpose> = current.iter().map(|key| key.state.role).collect();
        found.sort_unstable();
        let mut wanted = roles.to_vec();
        wanted.sort_unstable();
        let fits = current.iter().all(|key| {
            key.id.algorithm == policy.ksk.algorithm
                && key.state.goal == KeyGoal::Omnipresent
                && key.state.dnskey.is_omnipresent()
                && key.state.zrrsig.is_omnipresent() == key.state.role.signs_zone()
                && key.state.ds.is_omnipresent() == key.state.role.signs_keys()
                && zone.groups.iter().all(|group| group.contains(&key.id) == key.state.role.signs_zone())
                && self.world.ds_now().contains(&key.id) == key.state.role.signs_keys()
        });
        let all_ds = 1 + standby.iter().filter(|role| role.signs_keys()).count();
        let is_at_rest = found == wanted
            && fits
            && in_reserve == standby
            && can_take_over
            && zone.dnskeys.len() == found.len() + standby.len()
            && self.world.ds_now().len() == all_ds;
        if !is_at_rest {
            return Err(format!("no rest: {zone:?} DS {:?} keys above", self.world.ds_now()));
        }
        Ok(())
    }

    /// Runs for some years, and then until all must have come to rest.
    fn live(&mut self, years: u64) -> Result<(), String> {
        self.run(years * YEAR, false)?;
        let policy = &mut self.server.policy;
        (policy.ksk_lifetime, policy.zsk_lifetime) = (None, None);
        self.parent.is_wrong = false;
        self.parent.idle_until = 0;
        self.run(300 * DAY, true)?;
        self.check_rest()
    }

    fn report(&self, fault: &str) -> String {
        let keys: Vec<String> =
            self.server.ring.keys().iter().filter(|key| !key.state.is_hidden()).map(show).collect();
        let last = self.log.len().saturating_sub(15);
        let served: Vec<String> = self
            .world
            .zone
            .iter()
            .map(|version| {
                let (from, until) = (version.from - START, version.until.map(|until| until - START));
                let what = &version.what;
                let tags =
                    |keys: &[signer::rollover::KeyId]| keys.iter().map(|key| key.tag).collect::<Vec<_>>();
                let groups = what.groups.each_ref().map(|group| tags(group));
                format!(
                    "{from}..{until:?} {:?} {groups:?} {} {}",
                    tags(&what.dnskeys),
                    what.dnskey_ttl,
                    what.data_ttl
                )
            })
            .collect();
        format!(
            "seed {} at {} s, {} steps, {} crashes: {fault}\n{:?}\nparent {:?} {:?}\n{}\n{}\n{}",
            self.seed,
            self.world.now - START,
            self.server.steps,
            self.server.crashes,
            self.server.policy,
            self.parent,
            self.server.parent_servers,
            self.log[last..].join("\n"),
            keys.join("\n"),
            served.join("\n")
        )
    }
}

/// Returns the state of a key on one line.
fn show(key: &ManagedKey) -> String {
    let state = &key.state;
    let time = |time: Option<wire::UnixTime>| time.map_or(-1, |time| time.as_secs() as i64 - START as i64);
    let track = |name: &str, track: &RecordTrack| format!("{name} {:?} {}", track.state, time(track.since));
    format!(
        "{} {} {:?} {:?} from {:?} to {:?} bits {} {} {} {} {} ds_publish {} ds_removed {}",
        key.id,
        state.role,
        state.goal,
        state.duty,
        state.predecessor.map(|key| key.tag),
        state.successor.map(|key| key.tag),
        state.bits,
        track("DNSKEY", &state.dnskey),
        track("zrrsig", &state.zrrsig),
        track("krrsig", &state.krrsig),
        track("DS", &state.ds),
        time(state.dates.ds_publish),
        time(state.dates.ds_removed)
    )
}

/// Years of a scenario without the rest at its end.
const YEARS: u64 = 3;

/// Simulates scenarios from a seed on. Returns what they did in sum.
fn simulate(first: u64, years: u64) -> Result<[u64; 5], String> {
    let mut sums = [0; 5];
    for seed in first..first + years.div_ceil(YEARS) {
        let mut scenario = Scenario::new(seed);
        if let Err(fault) = scenario.live(YEARS) {
            return Err(scenario.report(&fault));
        }
        let server = &scenario.server;
        let of =
            [server.steps, server.generated, server.crashes, scenario.world.checked, scenario.emergencies];
        for (sum, value) in sums.iter_mut().zip(of) {
            *sum += value;
        }
    }
    Ok(sums)
}

#[test]
fn hundreds_of_years_pass_without_a_bogus_answer() {
    let [steps, keys, crashes, checked, emergencies] =
        simulate(1, 160).unwrap_or_else(|fault| panic!("{fault}"));
    println!(
        "{steps} steps, {keys} keys, {emergencies} emergencies, {crashes} crashes, {checked} combinations"
    );
    assert!(keys > 1_000 && crashes > 500 && checked > 10_000, "the time machine stands still");
    assert!(emergencies > 20, "hardly any standby key takes over: {emergencies}");
}

#[test]
#[ignore = "minutes"]
fn thousands_of_years_pass_without_a_bogus_answer() {
    let number =
        |name: &str, default| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let sums = simulate(number("NOMEN_SEED", 1_000), number("NOMEN_YEARS", 10_000));
    let [steps, keys, crashes, checked, emergencies] = sums.unwrap_or_else(|fault| panic!("{fault}"));
    println!(
        "{steps} steps, {keys} keys, {emergencies} emergencies, {crashes} crashes, {checked} combinations"
    );
}
