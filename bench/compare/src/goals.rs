//! The performance goals of nomen, computed from the results of a run: each with its figure, met or not.
//! Goals are ratios and differences within one run, computed per round; the figure shown is their median.

use clap::ValueEnum;
use serde::Serialize;

use crate::report::{FROM_IMAGE, Figures, Loading, Moved, Results, aligned, median};
use crate::servers::Kind;
use crate::workloads::{MISS_RATES, Phase, miss_rate};

/// Required relation of a figure to the wanted value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Relation {
    /// Less or equal.
    AtMost,
    /// Greater or equal.
    AtLeast,
    /// Less.
    Below,
    /// Greater.
    Above,
}

impl Relation {
    fn holds(self, measured: f64, wanted: f64) -> bool {
        match self {
            Relation::AtMost => measured <= wanted,
            Relation::AtLeast => measured >= wanted,
            Relation::Below => measured < wanted,
            Relation::Above => measured > wanted,
        }
    }

    fn sign(self) -> &'static str {
        match self {
            Relation::AtMost => "≤",
            Relation::AtLeast => "≥",
            Relation::Below => "<",
            Relation::Above => ">",
        }
    }
}

/// Whether a goal is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// Met.
    Met,
    /// Missed.
    Missed,
    /// A measurement that it needs is missing.
    NotMeasured,
}

/// One goal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Goal {
    /// The compared quantity.
    pub(crate) goal: String,
    /// Workload and load.
    pub(crate) place: String,
    /// The figure: the median over the rounds.
    pub(crate) measured: Option<f64>,
    /// The required relation to `wanted`.
    pub(crate) relation: Relation,
    /// The wanted value.
    pub(crate) wanted: f64,
    /// Unit of both; `×` for ratios.
    pub(crate) unit: &'static str,
    /// Met or not.
    pub(crate) verdict: Verdict,
    /// Number of rounds that meet the goal.
    pub(crate) rounds_met: usize,
    /// Number of rounds.
    pub(crate) rounds: usize,
    /// The medians that the figure is computed from, as text.
    pub(crate) from: String,
}

/// Number of clients for goals that do not mention one.
const USUAL: &str = "fixed rate, 20 clients";
/// Minimum number of records of a zone for goals about 4 million records.
const BIG_ZONE_RECORDS: u64 = 4_000_000;
/// Minimum number of records of a zone for goals about 35 million records.
const LARGE: u64 = 35_000_000;
/// Minimum number of zones of a secondary for goals about very many zones.
const MANY_ZONES: f64 = 100_000.0;
/// Number of delegations that the goals are defined for.
const NAMES: &str = "1000000";
/// Number of names queried with empty caches that the goals are defined for.
const COLD: &str = "50000";
/// Number of names with a rule that the goals are defined for.
const RULES: &str = "1000000";
/// Ratio up to which two CPU times count as equal.
const EQUAL: f64 = 1.05;
/// Unsigned workloads over UDP.
const UNSIGNED: [&str; 5] = ["one-name", "delegations", "nxdomain", "zones-10k", "zones-100k"];

/// Numbers of clients in workloads with few cached names.
const CLIENT_COUNTS: [&str; 6] =
    ["1 client", "10 clients", "50 clients", "100 clients", "200 clients", "500 clients"];
/// Microseconds of user CPU that an answer with signatures may take in addition.
const LARGER: f64 = 0.1;
/// The loads over veth.
const SOCKETS: &str = "saturated over veth, sockets";
const XDP: &str = "saturated over veth, AF_XDP";
/// Resolvers that the goals for empty caches compare with.
const RIVALS: [&str; 2] = ["Unbound", "Recursor"];

/// Selects a figure of a measurement.
type Pick = fn(&Figures) -> Option<f64>;

/// One figure of one server, by round.
struct Series {
    server: String,
    values: Vec<f64>,
}

impl Series {
    fn middle(&self) -> f64 {
        median(self.values.clone()).unwrap_or(f64::NAN)
    }

    fn told(&self) -> String {
        format!("{} {}", self.server, figure(self.middle()))
    }
}

/// Combines nomen's figure and the other server's into a round's result.
type Combine = fn(f64, f64) -> f64;

const RATIO: Combine = |own, other| own / other;
const DIFFERENCE: Combine = |own, other| own - other;

/// Returns every goal, in a fixed order, whether or not it was measured.
pub(crate) fn evaluate(results: &Results) -> Vec<Goal> {
    let judge = Judge { results, goals: Vec::new() };
    judge.all()
}

struct Judge<'a> {
    results: &'a Results,
    goals: Vec<Goal>,
}

impl Judge<'_> {
    fn all(mut self) -> Vec<Goal> {
        self.user();
        self.floor();
        self.veth();
        self.round_trips();
        self.starts();
        self.signed();
        self.tcp();
        self.idle();
        self.cached();
        self.cached_over_veth();
        self.validated();
        self.misses();
        self.flood();
        self.cold();
        self.attacks();
        self.transfers();
        self.secondaries();
        self.updates();
        self.rules();
        self.starts_with_rules();
        self.refreshes();
        self.goals
    }

    fn user(&mut self) {
        let pick: Pick = |f| f.user_us;
        for workload in UNSIGNED {
            let wanted = if workload == "one-name" { 0.25 } else { 0.5 };
            let own = self.own(workload, USUAL, pick);
            let saturated = self.own(workload, "saturated, 20 clients", pick);
            self.plain("user CPU per query", (workload, USUAL), Relation::AtMost, wanted, "µs", own);
            // The goal applies to unsaturated servers; on saturated ones batches make queries cheaper.
            if let (Some(goal), Some(saturated)) = (self.goals.last_mut(), saturated) {
                goal.from += &format!(" (saturated {})", figure(saturated.middle()));
            }
        }
        for workload in &UNSIGNED[1..] {
            self.best_peer("user CPU", (workload, USUAL), pick, Relation::AtMost, 0.25);
        }
    }

    fn floor(&mut self) {
        for workload in UNSIGNED {
            for clients in ["1 client", "20 clients", "100 clients", "500 clients"] {
                let load = format!("fixed rate, {clients}");
                self.reflector("CPU above the reflector", (workload, &load), |f| f.cpu_us, 0.4);
            }
        }
    }

    fn veth(&mut self) {
        let pick: Pick = |f| f.qps;
        let own = self.own("veth", SOCKETS, pick);
        let reflector = self.series("veth", SOCKETS, "reflector", pick);
        self.combined("rate to the reflector's", ("veth", SOCKETS), (own, reflector), RATIO, at_least(0.95));
        self.best_peer_of("rate", ("veth", SOCKETS), pick, f64::max, at_least(1.25));
        let (own, knot) = (self.own("veth", XDP, pick), self.series("veth", XDP, "Knot", pick));
        self.combined("rate to Knot's AF_XDP", ("veth", XDP), (own, knot), RATIO, at_least(1.3));
        let (own, plain) = (self.own("veth", XDP, pick), self.own("veth", SOCKETS, pick));
        self.combined("rate to its own sockets'", ("veth", XDP), (own, plain), RATIO, at_least(1.6));
    }

    fn round_trips(&mut self) {
        let load = "one outstanding";
        for workload in ["one-name", "delegations"] {
            let percentiles: [(&str, Pick); 2] =
                [("p50", |f| f.latency_p50_us), ("p99", |f| f.latency_p99_us)];
            for (name, pick) in percentiles {
                self.reflector(&format!("{name} above the reflector"), (workload, load), pick, 2.0);
                self.best_peer(name, (workload, load), pick, Relation::Below, 1.0);
            }
        }
    }

    fn starts(&mut self) {
        let seconds: fn(&Loading) -> Vec<f64> = |loading| loading.samples.clone();
        let resident: fn(&Loading) -> Vec<f64> =
            |loading| loading.resident_bytes.map(|b| b / 1e6).into_iter().collect();
        for (what, pick, wanted) in [("load seconds", seconds, 0.25), ("RSS in MB", resident, 0.5)] {
            let own = self.start("nomen", false, pick);
            let peers = self.peers_starts(false, pick);
            let best = best(peers, f64::min);
            let name = format!("{what} to the best peer's");
            self.combined(&name, ("load", "4M records"), (own, best), RATIO, at_most(wanted, "×"));
        }
        let peak: fn(&Loading) -> Vec<f64> =
            |loading| loading.peak_bytes.map(|b| b / 1e9).into_iter().collect();
        let own = self.start("nomen", true, peak);
        self.plain("peak memory", ("load-large", "35M records"), Relation::Below, 3.0, "GB", own);
        for (large, place, wanted) in [(false, "4M records", 0.2), (true, "35M records", 1.0)] {
            let own = self.start(FROM_IMAGE, large, seconds);
            self.plain("start from an image", ("restart", place), Relation::AtMost, wanted, "s", own);
        }
    }

    fn signed(&mut self) {
        for workload in ["signed-nsec", "signed-nsec3"] {
            let place = (workload, USUAL);
            self.best_peer("user CPU", place, |f| f.user_us, Relation::AtMost, 1.0 / 3.0);
            self.reflector("CPU above the reflector, same sizes", place, |f| f.cpu_us, 0.6);
        }
    }

    fn tcp(&mut self) {
        // Queries per CPU second are the inverse of the CPU time per query.
        for load in ["TCP pipelined, 20 clients", "TCP one query a connection, 8 clients"] {
            let rate: Pick = |f| f.cpu_us.filter(|cpu| *cpu > 0.0).map(|cpu| 1e6 / cpu);
            let above = (Relation::Above, 1.0, "×");
            self.best_peer_of("queries per CPU second", ("tcp", load), rate, f64::max, above);
        }
    }

    fn idle(&mut self) {
        for zones in ["one-name", "delegations", "zones-100k"] {
            let row = self.results.loading.iter().find(|loading| {
                let base = loading.zones.starts_with(zones)
                    || (zones == "zones-100k" && loading.workload == "zones-100k");
                loading.server == "nomen" && base && loading.records < LARGE
            });
            let own = row.and_then(|row| row.idle_percent);
            let own = own.map(|percent| Series { server: "nomen".to_string(), values: vec![percent] });
            self.plain("CPU when idle", (zones, "nothing asked"), Relation::AtMost, 0.5, "%", own);
        }
    }

    /// Goals for cached answers of a forwarder.
    fn cached(&mut self) {
        for (workload, counts) in [("cached-100", &CLIENT_COUNTS[..]), ("cached-200k", &["20 clients"])] {
            self.cached_answers(workload, counts, 0.0);
        }
    }

    /// Goals for the same answers with signatures, validated: being larger, they may take a little more user
    /// CPU.
    fn validated(&mut self) {
        for (workload, plain, counts) in [
            ("validated-100", "cached-100", &CLIENT_COUNTS[..]),
            ("validated-200k", "cached-200k", &["20 clients"]),
        ] {
            self.cached_answers(workload, counts, LARGER);
            for clients in counts {
                self.larger((workload, &format!("saturated, {clients}")), plain);
            }
        }
    }

    /// Compares the additional user CPU for signatures with that of the reflector.
    fn larger(&mut self, (workload, load): (&str, &str), plain: &str) {
        let above = |workload: &str| {
            let user: Pick = |f| f.user_us;
            let floor = self.series(workload, load, "reflector", user)?;
            let mut own = self.own(workload, load, user)?;
            own.values = own.values.iter().zip(&floor.values).map(|(own, floor)| own - floor).collect();
            Some(own)
        };
        let both = (above(workload), above(plain));
        let goal = format!("user CPU above the reflector, above that of {plain}");
        self.combined(&goal, (workload, load), both, DIFFERENCE, at_most(LARGER, "µs"));
    }

    /// Goals for answers from a cache; user CPU may be higher by `more` microseconds.
    fn cached_answers(&mut self, workload: &str, counts: &[&str], more: f64) {
        for clients in counts {
            let load = format!("saturated, {clients}");
            let place = (workload, load.as_str());
            self.best_peer_of("rate", place, |f| f.qps, f64::max, (Relation::Above, 1.0, "×"));
            self.best_peer("mean latency", place, |f| f.latency_mean_us, Relation::Below, 1.0);
            self.best_peer("p99", place, |f| f.latency_p99_us, Relation::Below, 1.0);
            self.best_peer("CPU", place, |f| f.cpu_us, Relation::AtMost, 0.55);
            let own = self.own(workload, &load, |f| f.user_us);
            self.plain("user CPU per query", place, Relation::AtMost, 0.35 + more, "µs", own);
        }
        self.reflector("CPU above the reflector", (workload, USUAL), |f| f.cpu_us, 0.5 + more);
    }

    /// Goals for cached answers to a generator that receives packets before the kernel's stack, so that less
    /// of its work is done on the server's CPU. For AF_XDP the best peer may use it or not.
    fn cached_over_veth(&mut self) {
        self.answers_over_veth("cached-veth", 0.0);
        self.answers_over_veth("validated-veth", LARGER);
        for load in [SOCKETS, XDP] {
            self.larger(("validated-veth", load), "cached-veth");
        }
    }

    fn answers_over_veth(&mut self, workload: &str, more: f64) {
        let cpu: Pick = |f| f.cpu_us;
        for load in [SOCKETS, XDP] {
            for (what, pick, better, wanted) in [
                ("rate", (|f| f.qps) as Pick, f64::max as fn(f64, f64) -> f64, (Relation::Above, 1.0, "×")),
                ("CPU", cpu, f64::min, at_most(0.55, "×")),
            ] {
                let mut peers = self.peers(workload, SOCKETS, pick);
                if load == XDP {
                    peers.extend(self.peers(workload, XDP, pick));
                }
                let peer = best(peers, better);
                let both = (self.own(workload, load, pick), peer);
                self.combined(&format!("{what} to the best peer's"), (workload, load), both, RATIO, wanted);
            }
        }
        let own = self.own(workload, SOCKETS, |f| f.user_us);
        self.plain("user CPU per query", (workload, SOCKETS), Relation::AtMost, 0.35 + more, "µs", own);
        self.reflector("CPU above the reflector", (workload, XDP), cpu, 0.5 + more);
    }

    /// Goals for cache misses of a forwarder.
    fn misses(&mut self) {
        let alone = ("misses", "one outstanding");
        self.best_peer("added p50", alone, |f| f.added_p50_us, Relation::AtMost, 1.0);
        let saturated = ("misses", "saturated, 20 clients");
        for peer in ["Unbound", "dnsdist"] {
            let own = self.own(saturated.0, saturated.1, |f| f.cpu_us);
            let other = self.series(saturated.0, saturated.1, peer, |f| f.cpu_us);
            let goal = format!("CPU per forwarded query to {peer}'s");
            self.combined(&goal, saturated, (own, other), RATIO, at_most(0.7, "×"));
        }
        // dnsdist reuses its ports, so that its costs are no measure for the others.
        for rate in MISS_RATES {
            let load = miss_rate(rate, 20);
            let own = self.own("misses", &load, |f| f.cpu_us);
            let peers =
                Kind::value_variants().iter().filter(|kind| is_peer(kind) && kind.takes_fresh_ports());
            let peers = peers.filter_map(|kind| self.series("misses", &load, kind.name(), |f| f.cpu_us));
            let best = best(peers.collect(), f64::min);
            let goal = "CPU a miss to the best peer's that takes fresh ports";
            self.combined(goal, ("misses", &load), (own, best), RATIO, at_most(0.9, "×"));
        }
    }

    fn flood(&mut self) {
        let place = ("flood", "client beside a flood");
        let own = self.own(place.0, place.1, |f| f.bound_share);
        self.plain("memory grown, to the cache's bound", place, Relation::AtMost, 1.15, "×", own);
        let p99: Pick = |f| f.latency_p99_us;
        let (beside, alone) = (self.own(place.0, place.1, p99), self.own(place.0, "client alone", p99));
        self.combined("cached p99 to that without a flood", place, (beside, alone), RATIO, at_most(2.0, "×"));
        let hits: Pick = |f| f.hit_percent;
        let both = (self.own(place.0, place.1, hits), self.series(place.0, place.1, "Unbound", hits));
        self.combined("hit rate to Unbound's", place, both, RATIO, at_least(1.0));
        let place = ("overload", "client beside twice the capacity");
        let own = self.own(place.0, place.1, |f| f.served_percent);
        self.plain("cached queries answered", place, Relation::AtLeast, 99.0, "%", own);
    }

    /// Goals for empty caches.
    fn cold(&mut self) {
        let (wall, cpu, asked): (Pick, Pick, Pick) = (|f| f.wall_seconds, |f| f.cpu_us, |f| f.forwarded);
        for load in ["unsigned zones", "signed zones"] {
            let place = ("cold", load);
            for peer in RIVALS {
                for (what, pick) in [("wall time", wall), ("CPU", cpu)] {
                    let both = (self.own("cold", load, pick), self.series("cold", load, peer, pick));
                    let below = (Relation::Below, 1.0, "×");
                    self.combined(&format!("{what} to {peer}'s"), place, both, RATIO, below);
                }
            }
            let rivals = RIVALS.iter().filter_map(|peer| self.series("cold", load, peer, asked)).collect();
            let both = (self.own("cold", load, asked), best(rivals, f64::min));
            let goal = "upstream queries to the fewer of Unbound's and Recursor's";
            self.combined(goal, place, both, RATIO, at_most(1.2, "×"));
        }
    }

    /// Goals for queries that use up the CPU.
    fn attacks(&mut self) {
        let p99: Pick = |f| f.latency_p99_us;
        for load in ["client beside KeyTrap", "client beside NSEC3 hashes"] {
            let place = ("attacks", load);
            let own = self.own(place.0, load, |f| f.attack_ms);
            self.plain("CPU per malicious query", place, Relation::AtMost, 5.0, "ms", own);
            let own = self.own(place.0, load, |f| f.served_percent);
            self.plain("benign queries answered", place, Relation::AtLeast, 99.9, "%", own);
            let both = (self.own(place.0, load, p99), self.own(place.0, "client alone", p99));
            self.combined("cached p99 to that without an attack", place, both, RATIO, at_most(2.0, "×"));
        }
    }

    /// Goals for whole zones, sent and received; only large ones count.
    fn transfers(&mut self) {
        let (out, taken) = (("axfr-out", "whole zone"), ("axfr-in", "whole zone"));
        let cpu: Pick = |f| big(f)?.cpu;
        let own = self.own(out.0, out.1, cpu);
        self.plain("CPU of the primary, 4M records", out, Relation::AtMost, 0.3, "s", own);
        // Independent of the machine: Knot takes 1.08 s where 0.3 s are wanted.
        self.best_peer("CPU of the primary", out, cpu, Relation::AtMost, 0.3 / 1.08);
        self.best_peer("bytes", out, |f| big(f)?.bytes, Relation::AtMost, 1.0);
        let after: Pick = |f| Some(big(f)?.after? / big(f)?.sending?);
        let own = self.own(taken.0, taken.1, after);
        let goal = "time to serve after the last byte, to the transfer's";
        self.plain(goal, taken, Relation::AtMost, 0.05, "×", own);
    }

    /// Goals for very many zones; only runs with enough of them count.
    fn secondaries(&mut self) {
        let seconds: Pick = |f| many(f)?.seconds;
        for phase in [Phase::Start, Phase::Change, Phase::Restart] {
            self.rivals("seconds until all are served", phase, seconds);
        }
        self.rivals("peak of memory", Phase::Start, |f| f.peak_bytes.filter(|_| many(f).is_some()));
        self.rivals("memory at rest", Phase::Start, |f| many(f)?.resident);
        let place = ("secondaries", Phase::Refresh.name());
        let own = self.own(place.0, place.1, |f| many(f)?.late);
        self.plain("zones asked for too late", place, Relation::AtMost, 0.0, "", own);
    }

    /// Compares with the better of Knot and NSD.
    fn rivals(&mut self, what: &str, phase: Phase, pick: Pick) {
        let place = ("secondaries", phase.name());
        let rivals = ["Knot", "NSD"].iter().filter_map(|peer| self.series(place.0, place.1, peer, pick));
        let both = (self.own(place.0, place.1, pick), best(rivals.collect(), f64::min));
        let goal = format!("{what}, to the less of Knot's and NSD's");
        self.combined(&goal, place, both, RATIO, at_most(1.0, "×"));
    }

    fn updates(&mut self) {
        for way in ["UDP", "TCP"] {
            for (clients, wanted) in [("1 client", 1.0), ("64 clients", 10.0)] {
                let load = format!("updates over {way}, {clients}");
                self.best_peer_of("rate", ("update", &load), |f| f.qps, f64::max, at_least(wanted));
            }
        }
    }

    /// Goals for answers of a resolver with rules.
    fn rules(&mut self) {
        let above: Pick = |f| f.policy?.user_us;
        for load in ["cached names, RPZ", "cached names, list"] {
            let own = self.own("policy", load, above);
            let goal = "user CPU above that without rules";
            self.plain(goal, ("policy", load), Relation::AtMost, 0.1, "µs", own);
        }
        // A peer that is no slower with rules than without has no cost to compare with.
        let cost: Pick = |f| f.policy?.user_us.filter(|cost| *cost > 0.0);
        for load in ["cached names, RPZ", "cached names, list"] {
            let peer = best(self.peers("policy", "cached names, RPZ", cost), f64::min);
            let both = (self.own("policy", load, above), peer);
            let goal = "user CPU above that without rules, to the best peer's with RPZ";
            self.combined(goal, ("policy", load), both, RATIO, at_most(0.1, "×"));
        }
        let user: Pick = |f| f.user_us;
        for load in ["cached names", "names with a rule"] {
            let (wild, exact) = (format!("{load}, wildcard list"), format!("{load}, exact list"));
            let both = (self.own("policy", &wild, user), self.own("policy", &exact, user));
            let goal = "user CPU to that with exact rules";
            self.combined(goal, ("policy", &wild), both, RATIO, at_most(EQUAL, "×"));
        }
    }

    /// Goals for starts of a resolver with rules.
    fn starts_with_rules(&mut self) {
        let place = |load| ("policy-start", load);
        let figure = |judge: &Self, load, pick: Pick| judge.own("policy-start", load, pick);
        let compiled: Pick = |f| Some(f.policy?.compile_ms? / 1e3);
        let bytes: Pick = |f| f.policy?.bytes_per_rule;
        for load in ["start, RPZ", "start, list"] {
            let own = figure(self, load, compiled);
            self.plain("compiling all rules", place(load), Relation::AtMost, 1.0, "s", own);
            let own = figure(self, load, bytes);
            self.plain("memory per rule", place(load), Relation::AtMost, 20.0, "bytes", own);
        }
        let own = figure(self, "start, list", |f| f.policy?.start_cpu_above);
        let goal = "CPU of the start above that without rules";
        self.plain(goal, place("start, list"), Relation::AtMost, 1.0, "s", own);
        let load = "start, ten lists";
        let first: Pick = |f| f.policy?.first;
        let both = (figure(self, load, first), figure(self, "start, no rules", first));
        let goal = "first answer, after that without rules";
        self.combined(goal, place(load), both, DIFFERENCE, at_most(0.1, "s"));
        let own = figure(self, load, |f| f.policy?.unruled);
        self.plain("answers before rules are in force", place(load), Relation::AtMost, 0.0, "", own);
        let own = figure(self, load, |f| f.policy?.fresh);
        self.plain("newest lists in force", place(load), Relation::AtMost, 2.0, "s", own);
    }

    /// Goals for refreshes of rules.
    fn refreshes(&mut self) {
        let p99: Pick = |f| f.latency_p99_us;
        for load in ["client beside reloads of a list", "client beside IXFRs of a policy zone"] {
            let place = ("policy-updates", load);
            let own = self.own(place.0, load, |f| f.policy?.partial);
            self.plain("batches that show a part of a version", place, Relation::AtMost, 0.0, "", own);
            let both = (self.own(place.0, load, p99), self.own(place.0, "client alone", p99));
            let goal = "cached p99 to that without refreshes";
            self.combined(goal, place, both, RATIO, at_most(1.2, "×"));
        }
    }

    /// Adds a goal for a figure of nomen alone.
    fn plain(
        &mut self,
        goal: &str,
        place: (&str, &str),
        relation: Relation,
        wanted: f64,
        unit: &'static str,
        own: Option<Series>,
    ) {
        let from = own.as_ref().map(Series::told).unwrap_or_default();
        let values = own.map(|own| own.values).unwrap_or_default();
        self.add(goal, place, values, (relation, wanted, unit), from);
    }

    /// Adds a goal for a figure of nomen and another server's, combined by round.
    fn combined(
        &mut self,
        goal: &str,
        place: (&str, &str),
        both: (Option<Series>, Option<Series>),
        combine: Combine,
        wanted: (Relation, f64, &'static str),
    ) {
        let told = |series: &Option<Series>, name: &str| {
            series.as_ref().map_or_else(|| format!("{name} not measured"), Series::told)
        };
        let from = format!("{}, {}", told(&both.0, "nomen"), told(&both.1, "the other"));
        let values = match both {
            (Some(own), Some(other)) => {
                own.values.iter().zip(&other.values).map(|(a, b)| combine(*a, *b)).collect()
            }
            _ => Vec::new(),
        };
        self.add(goal, place, values, wanted, from);
    }

    /// Adds a goal: at most `wanted` microseconds more than the reflector.
    fn reflector(&mut self, goal: &str, place: (&str, &str), pick: Pick, wanted: f64) {
        let own = self.own(place.0, place.1, pick);
        let floor = self.series(place.0, place.1, "reflector", pick);
        self.combined(goal, place, (own, floor), DIFFERENCE, at_most(wanted, "µs"));
    }

    /// Adds a goal: the ratio to the best peer, where less is better.
    fn best_peer(&mut self, what: &str, place: (&str, &str), pick: Pick, relation: Relation, wanted: f64) {
        self.best_peer_of(what, place, pick, f64::min, (relation, wanted, "×"));
    }

    fn best_peer_of(
        &mut self,
        what: &str,
        place: (&str, &str),
        pick: Pick,
        better: fn(f64, f64) -> f64,
        wanted: (Relation, f64, &'static str),
    ) {
        let own = self.own(place.0, place.1, pick);
        let peer = best(self.peers(place.0, place.1, pick), better);
        self.combined(&format!("{what} to the best peer's"), place, (own, peer), RATIO, wanted);
    }

    fn add(
        &mut self,
        goal: &str,
        place: (&str, &str),
        values: Vec<f64>,
        (relation, wanted, unit): (Relation, f64, &'static str),
        from: String,
    ) {
        let values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        let (rounds, rounds_met) =
            (values.len(), values.iter().filter(|value| relation.holds(**value, wanted)).count());
        let measured = median(values);
        let verdict = match measured {
            None => Verdict::NotMeasured,
            Some(measured) if relation.holds(measured, wanted) => Verdict::Met,
            Some(_) => Verdict::Missed,
        };
        let (goal, place) = (goal.to_string(), format!("{}, {}", place.0, place.1));
        self.goals.push(Goal {
            goal,
            place,
            measured,
            relation,
            wanted,
            unit,
            verdict,
            rounds_met,
            rounds,
            from,
        });
    }

    fn own(&self, workload: &str, load: &str, pick: Pick) -> Option<Series> {
        self.series(workload, load, "nomen", pick)
    }

    /// Returns a figure of a server by round, unless its answers were wrong or a round lacks it.
    fn series(&self, workload: &str, load: &str, server: &str, pick: Pick) -> Option<Series> {
        let mut rows = self.results.rows.iter();
        let row = rows.find(|row| {
            row.workload == workload && row.load == load && row.server == server && row.note.is_none()
        })?;
        let values: Option<Vec<f64>> = row.samples.iter().map(pick).collect();
        let values = values.filter(|values| !values.is_empty())?;
        Some(Series { server: server.to_string(), values })
    }

    fn peers(&self, workload: &str, load: &str, pick: Pick) -> Vec<Series> {
        peers().filter_map(|peer| self.series(workload, load, peer, pick)).collect()
    }

    /// Returns a figure of the start with the big or the large zone.
    fn start(&self, server: &str, large: bool, pick: fn(&Loading) -> Vec<f64>) -> Option<Series> {
        let mut starts = self.results.loading.iter();
        let row = starts.find(|loading| {
            let sizes = if large { LARGE..u64::MAX } else { BIG_ZONE_RECORDS..LARGE };
            loading.zones.starts_with("delegations-")
                && sizes.contains(&loading.records)
                && loading.server == server
        })?;
        let values = Some(pick(row)).filter(|values| !values.is_empty())?;
        Some(Series { server: server.to_string(), values })
    }

    fn peers_starts(&self, large: bool, pick: fn(&Loading) -> Vec<f64>) -> Vec<Series> {
        peers().filter_map(|peer| self.start(peer, large, pick)).collect()
    }
}

/// Returns the transfer figures of very many zones.
fn many(figures: &Figures) -> Option<Moved> {
    figures.moved.filter(|moved| moved.zones.is_some_and(|zones| zones >= MANY_ZONES))
}

/// Returns the transfer figures of a big zone.
fn big(figures: &Figures) -> Option<Moved> {
    figures.moved.filter(|moved| moved.records.is_some_and(|records| records >= BIG_ZONE_RECORDS as f64))
}

fn is_peer(kind: &Kind) -> bool {
    kind.answers() && *kind != Kind::Nomen
}

/// Returns all servers that nomen is compared with, including their second configurations.
fn peers() -> impl Iterator<Item = &'static str> {
    Kind::value_variants().iter().filter(|kind| is_peer(kind)).map(|kind| kind.name())
}

const fn at_most(wanted: f64, unit: &'static str) -> (Relation, f64, &'static str) {
    (Relation::AtMost, wanted, unit)
}

const fn at_least(wanted: f64) -> (Relation, f64, &'static str) {
    (Relation::AtLeast, wanted, "×")
}

/// Returns the best value of several servers in each round, labelled with the server of the best median.
fn best(peers: Vec<Series>, better: fn(f64, f64) -> f64) -> Option<Series> {
    let rounds = peers.iter().map(|peer| peer.values.len()).max()?;
    let round = |round: usize| peers.iter().filter_map(|peer| peer.values.get(round).copied()).reduce(better);
    let values: Vec<f64> = (0..rounds).filter_map(round).collect();
    let top = peers.iter().reduce(|a, b| if better(a.middle(), b.middle()) == a.middle() { a } else { b })?;
    Some(Series { server: top.server.clone(), values })
}

/// Formats a figure with as many digits as make sense.
fn figure(value: f64) -> String {
    match value.abs() {
        huge if huge >= 1e7 => format!("{:.0}M", value / 1e6),
        big if big >= 1e4 => format!("{:.0}k", value / 1e3),
        large if large >= 100.0 => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    }
}

/// Returns the goals as a table with a summary line; empty without goals.
pub(crate) fn table(results: &Results) -> String {
    let goals = &results.goals;
    if goals.is_empty() {
        return String::new();
    }
    let count = |verdict: Verdict| goals.iter().filter(|goal| goal.verdict == verdict).count();
    let mut lines =
        vec![["goal", "where", "from", "measured", "wanted", "verdict"].map(String::from).to_vec()];
    for goal in goals {
        let unit = if goal.unit == "×" { "×".to_string() } else { format!(" {}", goal.unit) };
        let torn = goal.rounds_met > 0 && goal.rounds_met < goal.rounds;
        let verdict = match goal.verdict {
            Verdict::Met => "met",
            Verdict::Missed => "missed",
            Verdict::NotMeasured => "not measured",
        };
        let rounds = format!(" ({} of {} rounds)", goal.rounds_met, goal.rounds);
        lines.push(vec![
            goal.goal.clone(),
            goal.place.clone(),
            goal.from.clone(),
            goal.measured.map_or_else(|| "–".to_string(), |measured| format!("{measured:.2}{unit}")),
            format!("{} {:.2}{unit}", goal.relation.sign(), goal.wanted),
            verdict.to_string() + if torn { &rounds } else { "" },
        ]);
    }
    let other = |(key, wanted): (&str, &str)| results.settings.get(key).is_some_and(|value| value != wanted);
    let small = [("names", NAMES), ("cold names", COLD), ("rules", RULES)].into_iter().any(other);
    format!(
        "\n## goals — {} met, {} missed, {} not measured\n\n{}{}",
        count(Verdict::Met),
        count(Verdict::Missed),
        count(Verdict::NotMeasured),
        if small {
            "The zones, or the names asked for, are not as many as the goals speak of: nothing here \
             counts.\n\n"
        } else {
            ""
        },
        aligned(&lines, 3)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Noise, PolicyFigures, Row};
    use std::collections::BTreeMap;

    fn row(workload: &str, load: &str, server: &str, samples: Vec<Figures>) -> Row {
        Row {
            workload: workload.to_string(),
            load: load.to_string(),
            server: server.to_string(),
            rounds: samples.len(),
            figures: Figures::median(&samples),
            noise: Noise::of(&samples),
            samples,
            rcodes: BTreeMap::new(),
            note: None,
        }
    }

    fn cpu(values: &[f64]) -> Vec<Figures> {
        values
            .iter()
            .map(|cpu| Figures { cpu_us: Some(*cpu), user_us: Some(cpu / 10.0), ..Figures::default() })
            .collect()
    }

    fn found<'a>(goals: &'a [Goal], goal: &str, place: &str) -> &'a Goal {
        goals.iter().find(|candidate| candidate.goal == goal && candidate.place == place).unwrap()
    }

    fn start(server: &str, records: u64, samples: Vec<f64>, megabytes: f64) -> Loading {
        let mut row = Loading::missing("load", server, "delegations-1000000", records, "");
        row.seconds = median(samples.clone());
        row.samples = samples;
        row.resident_bytes = Some(megabytes * 1e6);
        row.peak_bytes = row.resident_bytes;
        row.note = None;
        row
    }

    #[test]
    fn differences_are_taken_round_by_round() {
        // The medians differ by 1.0, the rounds by 0.3: the machine drifted, for both servers alike.
        let rows = vec![
            row("one-name", USUAL, "nomen", cpu(&[4.3, 5.3, 9.0])),
            row("one-name", USUAL, "reflector", cpu(&[4.0, 5.0, 4.3])),
        ];
        let mut results = Results { rows, ..Results::default() };
        let goals = evaluate(&results);
        let goal = found(&goals, "CPU above the reflector", "one-name, fixed rate, 20 clients");
        assert!((goal.measured.unwrap() - 0.3).abs() < 1e-9, "{goal:?}");
        assert_eq!((goal.verdict, goal.rounds_met, goal.rounds), (Verdict::Met, 2, 3));
        results.goals = goals;
        assert!(table(&results).contains("met (2 of 3 rounds)"));
        assert!(!table(&results).contains("nothing here counts"));
        results.settings.insert("names".to_string(), "500".to_string());
        assert!(table(&results).contains("nothing here counts"));
        results.settings.insert("names".to_string(), NAMES.to_string());
        results.settings.insert("cold names".to_string(), COLD.to_string());
        assert!(!table(&results).contains("nothing here counts"));
        results.settings.insert("cold names".to_string(), "300".to_string());
        assert!(table(&results).contains("nothing here counts"));
    }

    #[test]
    fn the_best_peer_is_the_best_of_each_round() {
        let mut rows = vec![
            row("delegations", USUAL, "nomen", cpu(&[2.0, 2.0])),
            row("delegations", USUAL, "NSD", cpu(&[10.0, 6.0])),
            row("delegations", USUAL, "Knot", cpu(&[8.0, 9.0])),
            row("delegations", USUAL, "BIND", cpu(&[1.0, 1.0])),
        ];
        // A server with wrong answers is no peer.
        rows[3].note = Some("wrong".to_string());
        let goals = evaluate(&Results { rows, ..Results::default() });
        let goal = found(&goals, "user CPU to the best peer's", "delegations, fixed rate, 20 clients");
        assert!((goal.measured.unwrap() - (2.0 / 8.0 + 2.0 / 6.0) / 2.0).abs() < 1e-9, "{goal:?}");
        assert_eq!(goal.verdict, Verdict::Missed);
        assert!(goal.from.contains("nomen 0.20"), "{}", goal.from);
    }

    /// A forwarder has different peers in each workload: it is compared with the best of each row.
    #[test]
    fn a_forwarder_is_held_to_the_best_of_its_peers_and_to_itself() {
        let cell = |qps: f64, p99: f64| {
            vec![Figures { qps: Some(qps), latency_p99_us: Some(p99), ..Figures::default() }]
        };
        let rows = vec![
            row("cached-100", "saturated, 10 clients", "nomen", cell(150.0, 300.0)),
            row("cached-100", "saturated, 10 clients", "Unbound", cell(140.0, 900.0)),
            row("cached-100", "saturated, 10 clients", "kresd", cell(100.0, 200.0)),
            row("flood", "client alone", "nomen", cell(1.0, 100.0)),
            row("flood", "client beside a flood", "nomen", cell(1.0, 450.0)),
        ];
        let goals = evaluate(&Results { rows, ..Results::default() });
        let verdict = |goal: &str, place: &str| found(&goals, goal, place).verdict;
        let place = "cached-100, saturated, 10 clients";
        assert_eq!(verdict("rate to the best peer's", place), Verdict::Met);
        assert_eq!(verdict("p99 to the best peer's", place), Verdict::Missed);
        let flood = found(&goals, "cached p99 to that without a flood", "flood, client beside a flood");
        assert_eq!((flood.measured, flood.verdict), (Some(4.5), Verdict::Missed));
    }

    #[test]
    fn a_miss_is_held_to_the_best_peer_that_takes_fresh_ports_at_every_rate() {
        let (slow, fast) = (miss_rate(1_000, 20), miss_rate(40_000, 20));
        let rows = vec![
            row("misses", &slow, "nomen", cpu(&[90.0])),
            row("misses", &slow, "Unbound", cpu(&[110.0])),
            row("misses", &slow, "kresd", cpu(&[105.0])),
            row("misses", &slow, "kresd, as advised", cpu(&[100.0])),
            // dnsdist reuses its ports.
            row("misses", &slow, "dnsdist", cpu(&[50.0])),
            row("misses", &slow, "dnsdist, as advised", cpu(&[40.0])),
            // The floor is no peer.
            row("misses", &slow, "relay", cpu(&[30.0])),
            row("misses", &fast, "nomen", cpu(&[46.0])),
            row("misses", &fast, "Unbound", cpu(&[50.0])),
        ];
        let goals = evaluate(&Results { rows, ..Results::default() });
        let goal = "CPU a miss to the best peer's that takes fresh ports";
        let all: Vec<&Goal> = goals.iter().filter(|candidate| candidate.goal == goal).collect();
        let verdicts: Vec<Verdict> = all.iter().map(|goal| goal.verdict).collect();
        let not = Verdict::NotMeasured;
        assert_eq!(verdicts, [Verdict::Met, not, not, not, Verdict::Missed]);
        assert_eq!((all[0].measured, all[4].measured), (Some(0.9), Some(0.92)));
        assert!(all[0].from.contains("kresd, as advised"), "{}", all[0].from);
    }

    #[test]
    fn a_peer_is_held_at_its_best_whichever_column_that_is() {
        let rows = vec![
            row("delegations", USUAL, "nomen", cpu(&[2.0])),
            row("delegations", USUAL, "NSD", cpu(&[10.0])),
            row("delegations", USUAL, "NSD, defaults", cpu(&[8.0])),
        ];
        let goals = evaluate(&Results { rows, ..Results::default() });
        let goal = found(&goals, "user CPU to the best peer's", "delegations, fixed rate, 20 clients");
        assert_eq!(goal.measured, Some(0.25));
        assert!(goal.from.contains("NSD, defaults"), "{}", goal.from);
    }

    #[test]
    fn behind_af_xdp_the_best_peer_is_one_with_it_or_without() {
        let rows = vec![
            row("cached-veth", SOCKETS, "nomen", cpu(&[3.0])),
            row("cached-veth", SOCKETS, "Unbound", cpu(&[4.0])),
            row("cached-veth", SOCKETS, "dnsdist", cpu(&[5.0])),
            row("cached-veth", XDP, "nomen", cpu(&[2.0])),
            row("cached-veth", XDP, "kresd", cpu(&[3.2])),
            row("cached-veth", XDP, "reflector", cpu(&[1.4])),
        ];
        let goals = evaluate(&Results { rows, ..Results::default() });
        let at = |goal: &str, load: &str| found(&goals, goal, &format!("cached-veth, {load}")).measured;
        assert_eq!(at("CPU to the best peer's", SOCKETS), Some(0.75));
        assert_eq!(at("CPU to the best peer's", XDP), Some(2.0 / 3.2));
        let above = at("CPU above the reflector", XDP).expect("measured");
        assert!((above - 0.6).abs() < 1e-9, "{above}");
    }

    #[test]
    fn what_signatures_cost_behind_af_xdp_is_what_they_cost_beyond_the_reflector_there() {
        let user = |us: f64| vec![Figures { user_us: Some(us), ..Figures::default() }];
        let rows = vec![
            row("cached-veth", XDP, "nomen", user(0.4)),
            row("cached-veth", XDP, "reflector", user(0.1)),
            row("validated-veth", XDP, "nomen", user(0.6)),
            row("validated-veth", XDP, "reflector", user(0.15)),
            // Over sockets the difference is another.
            row("validated-veth", SOCKETS, "reflector", user(0.6)),
        ];
        let goals = evaluate(&Results { rows, ..Results::default() });
        let goal = "user CPU above the reflector, above that of cached-veth";
        let goal = found(&goals, goal, "validated-veth, saturated over veth, AF_XDP");
        assert!((goal.measured.expect("measured") - 0.15).abs() < 1e-9, "{goal:?}");
        assert_eq!(goal.verdict, Verdict::Missed);
    }

    #[test]
    fn cold_names_are_held_to_the_two_that_are_named_and_to_the_fewer_of_their_queries() {
        let cell = |wall: f64, cpu: f64, asked: f64| {
            let (wall_seconds, cpu_us, forwarded) = (Some(wall), Some(cpu), Some(asked));
            vec![Figures { wall_seconds, cpu_us, forwarded, ..Figures::default() }]
        };
        let rows = vec![
            row("cold", "signed zones", "nomen", cell(2.0, 90.0, 1.3)),
            row("cold", "signed zones", "Unbound", cell(3.0, 80.0, 1.1)),
            row("cold", "signed zones", "Recursor", cell(2.0, 100.0, 1.0)),
            // No goal is about BIND.
            row("cold", "signed zones", "BIND", cell(1.0, 1.0, 0.1)),
        ];
        let goals = evaluate(&Results { rows, ..Results::default() });
        let verdict = |goal: &str| found(&goals, goal, "cold, signed zones").verdict;
        assert_eq!(verdict("wall time to Unbound's"), Verdict::Met);
        assert_eq!(verdict("wall time to Recursor's"), Verdict::Missed, "not less");
        assert_eq!(verdict("CPU to Unbound's"), Verdict::Missed);
        assert_eq!(verdict("CPU to Recursor's"), Verdict::Met);
        let asked =
            found(&goals, "upstream queries to the fewer of Unbound's and Recursor's", "cold, signed zones");
        assert_eq!((asked.measured, asked.verdict), (Some(1.3), Verdict::Missed));
        assert!(asked.from.contains("Recursor 1.00"), "{}", asked.from);
    }

    #[test]
    fn a_malicious_query_has_its_bounds() {
        let cell = |attack_ms: Option<f64>, served: f64, p99: f64| {
            let (served_percent, latency_p99_us) = (Some(served), Some(p99));
            vec![Figures { attack_ms, served_percent, latency_p99_us, ..Figures::default() }]
        };
        let rows = vec![
            row("attacks", "client alone", "nomen", cell(None, 100.0, 100.0)),
            row("attacks", "client beside KeyTrap", "nomen", cell(Some(4.9), 99.95, 200.0)),
            row("attacks", "client beside NSEC3 hashes", "nomen", cell(Some(5.1), 99.8, 201.0)),
        ];
        let goals = evaluate(&Results { rows, ..Results::default() });
        let wanted =
            ["CPU per malicious query", "benign queries answered", "cached p99 to that without an attack"];
        for goal in wanted {
            let verdict = |load: &str| found(&goals, goal, &format!("attacks, client beside {load}")).verdict;
            assert_eq!(
                (verdict("KeyTrap"), verdict("NSEC3 hashes")),
                (Verdict::Met, Verdict::Missed),
                "{goal}"
            );
        }
    }

    #[test]
    fn signatures_cost_what_is_left_above_the_reflector() {
        let user = |value: f64| vec![Figures { user_us: Some(value), ..Figures::default() }];
        let load = "saturated, 20 clients";
        let rows = vec![
            row("cached-200k", load, "nomen", user(0.30)),
            row("cached-200k", load, "reflector", user(0.05)),
            row("validated-200k", load, "nomen", user(0.50)),
            row("validated-200k", load, "reflector", user(0.20)),
        ];
        let goals = evaluate(&Results { rows, ..Results::default() });
        let goal = "user CPU above the reflector, above that of cached-200k";
        let goal = found(&goals, goal, "validated-200k, saturated, 20 clients");
        assert!((goal.measured.unwrap() - 0.05).abs() < 1e-9, "{goal:?}");
        assert_eq!(goal.verdict, Verdict::Met);
    }

    #[test]
    fn no_goal_is_hidden_when_it_was_not_measured() {
        let nothing = evaluate(&Results::default());
        let rows = vec![row("one-name", USUAL, "nomen", cpu(&[4.0]))];
        let something = evaluate(&Results { rows, ..Results::default() });
        assert_eq!(nothing.len(), something.len());
        assert!(nothing.iter().all(|goal| goal.verdict == Verdict::NotMeasured));
        let lone = found(&something, "CPU above the reflector", "one-name, fixed rate, 20 clients");
        assert_eq!(lone.verdict, Verdict::NotMeasured);
        assert!(lone.from.contains("the other not measured"));
        assert!(table(&Results { goals: nothing, ..Results::default() }).contains("0 met, 0 missed"));
    }

    #[test]
    fn a_zone_that_moves_counts_if_it_is_big_and_updates_by_their_rate() {
        let moved = |records: f64, cpu: f64, bytes: f64| {
            let moved = Moved {
                cpu: Some(cpu),
                bytes: Some(bytes),
                records: Some(records),
                sending: Some(2.0),
                after: Some(0.08),
                ..Moved::default()
            };
            vec![Figures { moved: Some(moved), ..Figures::default() }]
        };
        let rate = |qps: f64| vec![Figures { qps: Some(qps), ..Figures::default() }];
        let (many, single) = ("updates over TCP, 64 clients", "updates over TCP, 1 client");
        let mut rows = vec![
            row("axfr-out", "whole zone", "nomen", moved(4e6, 0.25, 101.0)),
            row("axfr-out", "whole zone", "Knot", moved(4e6, 0.9, 100.0)),
            row("axfr-out", "whole zone", "BIND", moved(4e6, 1.9, 110.0)),
            row("axfr-in", "whole zone", "nomen", moved(4e6, 1.0, 1.0)),
            row("update", many, "nomen", rate(900.0)),
            row("update", many, "BIND", rate(100.0)),
            row("update", single, "nomen", rate(100.0)),
            row("update", single, "BIND", rate(100.0)),
        ];
        let goals = evaluate(&Results { rows: rows.clone(), ..Results::default() });
        let verdict = |goal: &str, place: &str| found(&goals, goal, place).verdict;
        assert_eq!(verdict("CPU of the primary, 4M records", "axfr-out, whole zone"), Verdict::Met);
        assert_eq!(verdict("bytes to the best peer's", "axfr-out, whole zone"), Verdict::Missed);
        let served =
            found(&goals, "time to serve after the last byte, to the transfer's", "axfr-in, whole zone");
        assert_eq!((served.measured, served.verdict), (Some(0.04), Verdict::Met));
        assert_eq!(verdict("rate to the best peer's", &format!("update, {many}")), Verdict::Missed);
        assert_eq!(verdict("rate to the best peer's", &format!("update, {single}")), Verdict::Met);
        rows[0].samples = moved(2e3, 0.001, 1.0);
        let goals = evaluate(&Results { rows, ..Results::default() });
        let small = found(&goals, "CPU of the primary, 4M records", "axfr-out, whole zone");
        assert_eq!(small.verdict, Verdict::NotMeasured);
    }

    #[test]
    fn a_secondary_of_very_many_zones_is_held_to_knot_and_nsd_and_to_its_timers() {
        let moved = |zones: f64, seconds: f64, late: Option<f64>| {
            let (resident, peak_bytes) = (Some(seconds * 1e7), Some(seconds * 2e7));
            let (zones, seconds) = (Some(zones), Some(seconds));
            let moved = Some(Moved { zones, seconds, resident, late, ..Moved::default() });
            vec![Figures { moved, peak_bytes, ..Figures::default() }]
        };
        let (start, due) = (Phase::Start.name(), Phase::Refresh.name());
        let rows = |zones: f64, late: f64| {
            vec![
                row("secondaries", start, "nomen", moved(zones, 12.0, None)),
                row("secondaries", start, "NSD", moved(zones, 11.0, None)),
                row("secondaries", start, "Knot", moved(zones, 20.0, None)),
                // No goal is about BIND.
                row("secondaries", start, "BIND", moved(zones, 1.0, None)),
                row("secondaries", due, "nomen", moved(zones, 102.0, Some(late))),
            ]
        };
        let goals = evaluate(&Results { rows: rows(1e5, 0.0), ..Results::default() });
        let place = format!("secondaries, {start}");
        for what in ["seconds until all are served", "peak of memory", "memory at rest"] {
            let goal = found(&goals, &format!("{what}, to the less of Knot's and NSD's"), &place);
            assert!((goal.measured.unwrap() - 12.0 / 11.0).abs() < 1e-9, "{goal:?}");
            assert_eq!(goal.verdict, Verdict::Missed);
        }
        let late = |zones: f64, late: f64| {
            let goals = evaluate(&Results { rows: rows(zones, late), ..Results::default() });
            found(&goals, "zones asked for too late", &format!("secondaries, {due}")).verdict
        };
        assert_eq!((late(1e5, 0.0), late(1e5, 1.0)), (Verdict::Met, Verdict::Missed));
        assert_eq!(late(1e4, 0.0), Verdict::NotMeasured);
    }

    #[test]
    fn starts_are_told_apart_by_size_and_image() {
        let loading = vec![
            start("nomen", 4_000_005, vec![2.0, 3.0], 270.0),
            start(FROM_IMAGE, 4_000_005, vec![0.1, 0.15], 270.0),
            start("NSD", 4_000_005, vec![11.0, 12.0], 880.0),
            start("Knot", 4_000_005, vec![10.0, 13.0], 930.0),
            start("nomen", 35_000_005, vec![20.0], 3300.0),
            start("BIND", 35_000_005, vec![1.0], 1.0),
            // Too small to count.
            start("Knot", 2_005, vec![0.01], 1.0),
            start(FROM_IMAGE, 2_005, vec![9.0], 1.0),
        ];
        let goals = evaluate(&Results { loading, ..Results::default() });
        let load = found(&goals, "load seconds to the best peer's", "load, 4M records");
        assert!((load.measured.unwrap() - 0.225).abs() < 1e-9, "{load:?}");
        assert_eq!(load.verdict, Verdict::Met);
        assert_eq!(found(&goals, "RSS in MB to the best peer's", "load, 4M records").verdict, Verdict::Met);
        assert_eq!(found(&goals, "peak memory", "load-large, 35M records").verdict, Verdict::Missed);
        assert_eq!(found(&goals, "start from an image", "restart, 4M records").verdict, Verdict::Met);
        assert_eq!(
            found(&goals, "start from an image", "restart, 35M records").verdict,
            Verdict::NotMeasured
        );
    }

    #[test]
    fn rates_want_more_and_queries_per_cpu_second_want_less_cpu() {
        let rate = |qps: f64| vec![Figures { qps: Some(qps), ..Figures::default() }];
        let pipelined = "TCP pipelined, 20 clients";
        let rows = vec![
            row("veth", SOCKETS, "nomen", rate(100.0)),
            row("veth", SOCKETS, "reflector", rate(102.0)),
            row("veth", SOCKETS, "NSD", rate(90.0)),
            row("veth", SOCKETS, "Knot", rate(60.0)),
            row("tcp", pipelined, "nomen", cpu(&[4.0])),
            row("tcp", pipelined, "NSD", cpu(&[5.0])),
        ];
        let goals = evaluate(&Results { rows, ..Results::default() });
        let place = format!("veth, {SOCKETS}");
        assert_eq!(found(&goals, "rate to the reflector's", &place).verdict, Verdict::Met);
        let peer = found(&goals, "rate to the best peer's", &place);
        assert_eq!(peer.verdict, Verdict::Missed);
        assert!(peer.from.contains("NSD"), "{}", peer.from);
        let tcp = found(&goals, "queries per CPU second to the best peer's", &format!("tcp, {pipelined}"));
        assert_eq!(tcp.verdict, Verdict::Met);
        assert!((tcp.measured.unwrap() - 1.25).abs() < 1e-9);
    }
    #[test]
    fn rules_cost_what_they_add_and_a_tenth_of_the_best_peer_at_most() {
        let costs = |values: &[f64]| -> Vec<Figures> {
            let policy =
                |user_us: &f64| PolicyFigures { user_us: Some(*user_us), ..PolicyFigures::default() };
            values.iter().map(|cost| Figures { policy: Some(policy(cost)), ..Figures::default() }).collect()
        };
        let load = "cached names, RPZ";
        let rows = vec![
            row("policy", load, "nomen", costs(&[0.02, -0.01])),
            row("policy", load, "Unbound", costs(&[0.8, 0.9])),
            row("policy", load, "BIND", costs(&[2.0, 0.6])),
            row("policy", load, "Recursor", costs(&[-0.1, 0.1])),
        ];
        let goals = evaluate(&Results { rows, ..Results::default() });
        let place = "policy, cached names, RPZ";
        let above = found(&goals, "user CPU above that without rules", place);
        assert_eq!((above.verdict, above.wanted), (Verdict::Met, 0.1));
        let ratio = found(&goals, "user CPU above that without rules, to the best peer's with RPZ", place);
        // 0.02 to 0.8, and -0.01 to 0.6: Recursor has no cost in one round.
        assert!((ratio.measured.unwrap() - (0.025 - 0.01 / 0.6) / 2.0).abs() < 1e-9, "{ratio:?}");
    }

    #[test]
    fn a_part_of_a_version_is_a_missed_goal() {
        let rows = |partial: f64, p99: f64| {
            let figures = |p99: f64, policy: Option<PolicyFigures>| {
                vec![Figures { latency_p99_us: Some(p99), policy, ..Figures::default() }]
            };
            let policy = PolicyFigures { partial: Some(partial), ..PolicyFigures::default() };
            let load = "client beside reloads of a list";
            vec![
                row("policy-updates", "client alone", "nomen", figures(100.0, None)),
                row("policy-updates", load, "nomen", figures(p99, Some(policy))),
            ]
        };
        for (partial, p99, parts, latency) in
            [(0.0, 119.0, Verdict::Met, Verdict::Met), (1.0, 130.0, Verdict::Missed, Verdict::Missed)]
        {
            let goals = evaluate(&Results { rows: rows(partial, p99), ..Results::default() });
            let place = "policy-updates, client beside reloads of a list";
            assert_eq!(found(&goals, "batches that show a part of a version", place).verdict, parts);
            assert_eq!(found(&goals, "cached p99 to that without refreshes", place).verdict, latency);
        }
    }
}
