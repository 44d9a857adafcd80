//! Turns figures into rows, and rows into a table and JSON. Computes medians; charts are in `plot.rs`.

mod policy;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use serde::Serialize;

use crate::goals::{self, Goal};
use crate::load::Load;
use crate::measure::{Shares, Usage};
use crate::servers::{Kind, Startup};
pub(crate) use policy::PolicyFigures;

/// One measurement, per query where possible. A figure that is not available is absent, never 0.
#[derive(Clone, Debug, Default, Serialize, PartialEq)]
pub(crate) struct Figures {
    /// Answers per second.
    pub(crate) qps: Option<f64>,
    /// Latency in µs, mean.
    pub(crate) latency_mean_us: Option<f64>,
    /// Latency in µs, median.
    pub(crate) latency_p50_us: Option<f64>,
    /// Latency in µs, 99th percentile.
    pub(crate) latency_p99_us: Option<f64>,
    /// CPU µs of the server per answer.
    pub(crate) cpu_us: Option<f64>,
    /// The user-space part of `cpu_us`.
    pub(crate) user_us: Option<f64>,
    /// The kernel part of `cpu_us`.
    pub(crate) system_us: Option<f64>,
    /// Instructions per answer.
    pub(crate) instructions: Option<f64>,
    /// Instructions in user space per answer.
    pub(crate) user_instructions: Option<f64>,
    /// Cycles per answer.
    pub(crate) cycles: Option<f64>,
    /// Share of one CPU the server used, 0 to 1.
    pub(crate) busy: Option<f64>,
    /// Share of the time that the server was runnable while another process had its CPU; should be near 0.
    pub(crate) waiting: Option<f64>,
    /// Mean size of a response in bytes.
    pub(crate) response_size: Option<f64>,
    /// Percentage of queries without an answer.
    pub(crate) loss_percent: Option<f64>,
    /// Median latency in µs in addition to that of the upstream itself.
    pub(crate) added_p50_us: Option<f64>,
    /// 99th percentile of latency in µs in addition to that of the upstream itself.
    pub(crate) added_p99_us: Option<f64>,
    /// Percentage of answers without an upstream query: the client's, if there is one beside a load.
    pub(crate) hit_percent: Option<f64>,
    /// Percentage of the client's queries that were answered in time with NOERROR or NXDOMAIN.
    pub(crate) served_percent: Option<f64>,
    /// Percentage of answers to the load that were neither NOERROR nor NXDOMAIN.
    pub(crate) failed_percent: Option<f64>,
    /// Upstream queries per answer to the load.
    pub(crate) forwarded: Option<f64>,
    /// TCP connections to upstream per answer to the load.
    pub(crate) forwarded_tcp: Option<f64>,
    /// Seconds from the first query to the last answer, where each name is queried once.
    pub(crate) wall_seconds: Option<f64>,
    /// Number of NOERROR answers, where each name is queried once.
    pub(crate) noerror: Option<f64>,
    /// Number of NXDOMAIN answers, where each name is queried once.
    pub(crate) nxdomain: Option<f64>,
    /// Number of SERVFAIL answers, where each name is queried once.
    pub(crate) servfail: Option<f64>,
    /// CPU milliseconds of the server per malicious query.
    pub(crate) attack_ms: Option<f64>,
    /// Queries per second that the load sent, where it did not wait for answers.
    pub(crate) offered_qps: Option<f64>,
    /// Queries per second that the load was to send.
    pub(crate) wanted_qps: Option<f64>,
    /// Highest resident size during the load, in bytes.
    pub(crate) peak_bytes: Option<f64>,
    /// Growth of the resident size since the start, as a share of the cache's limit.
    pub(crate) bound_share: Option<f64>,
    /// Figures of zone transfers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) moved: Option<Moved>,
    /// Figures of rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) policy: Option<PolicyFigures>,
    /// Resident size ten times per second, in bytes; of single rounds only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) resident: Vec<f64>,
    /// Use of the server's CPU during the load, by any process.
    pub(crate) server_cpu: Option<Shares>,
    /// Use of the generator's CPU during the load.
    pub(crate) generator_cpu: Option<Shares>,
}

/// Figures of zones sent to another server, or received from one.
#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq)]
pub(crate) struct Moved {
    /// Seconds: for a sent zone from the request to the last byte; for a received one from the NOTIFY to the
    /// first answer with the new serial.
    pub(crate) seconds: Option<f64>,
    /// CPU seconds of the server.
    pub(crate) cpu: Option<f64>,
    /// CPU seconds in user space.
    pub(crate) user: Option<f64>,
    /// CPU seconds in the kernel.
    pub(crate) system: Option<f64>,
    /// Bytes over TCP, including the length fields.
    pub(crate) bytes: Option<f64>,
    /// Messages.
    pub(crate) messages: Option<f64>,
    /// Records, including the SOA record at the end.
    pub(crate) records: Option<f64>,
    /// For a received zone: seconds from the request to the last byte.
    pub(crate) sending: Option<f64>,
    /// For a received zone: seconds from the last byte to the first answer with the new serial.
    pub(crate) after: Option<f64>,
    /// With very many zones: their number. `seconds` is then the time until all are answered in their newest
    /// version, or the time that they were watched.
    pub(crate) zones: Option<f64>,
    /// With very many zones: the number of transfers.
    pub(crate) transfers: Option<f64>,
    /// Resident bytes once the server was idle; pages shared between its processes count once.
    pub(crate) resident: Option<f64>,
    /// Queries that the primary received while zones were watched.
    pub(crate) questions: Option<f64>,
    /// Zones with a query more than a second later than their refresh time.
    pub(crate) late: Option<f64>,
    /// Seconds by which the latest query was late; negative if all were early.
    pub(crate) latest: Option<f64>,
}

impl Moved {
    /// Returns figures with a server's resource use only.
    pub(crate) fn used(usage: &Usage) -> Moved {
        Moved {
            cpu: Some(usage.cpu),
            user: Some(usage.user),
            system: Some(usage.cpu - usage.user),
            ..Moved::default()
        }
    }

    /// Returns the median of each figure over the rounds that have it; `None` without rounds.
    fn median(rounds: &[Moved]) -> Option<Moved> {
        let of = |pick: fn(&Moved) -> Option<f64>| median(rounds.iter().filter_map(pick).collect());
        (!rounds.is_empty()).then(|| Moved {
            seconds: of(|m| m.seconds),
            cpu: of(|m| m.cpu),
            user: of(|m| m.user),
            system: of(|m| m.system),
            bytes: of(|m| m.bytes),
            messages: of(|m| m.messages),
            records: of(|m| m.records),
            sending: of(|m| m.sending),
            after: of(|m| m.after),
            zones: of(|m| m.zones),
            transfers: of(|m| m.transfers),
            resident: of(|m| m.resident),
            questions: of(|m| m.questions),
            late: of(|m| m.late),
            latest: of(|m| m.latest),
        })
    }
}

impl Figures {
    /// Computes the figures from the generator's results and the server's resource use.
    pub(crate) fn new(load: &Load, usage: &Usage) -> Figures {
        let answered = load.answered as f64;
        let served = (load.answered + load.probed) as f64;
        let per_answer = |amount: f64| (load.answered > 0).then(|| amount / served);
        let events = |count: Option<u64>| count.and_then(|count| per_answer(count as f64));
        Figures {
            qps: (load.seconds > 0.0).then(|| answered / load.seconds),
            latency_mean_us: load.latency.mean,
            latency_p50_us: load.latency.p50,
            latency_p99_us: load.latency.p99,
            cpu_us: per_answer(usage.cpu * 1e6),
            user_us: per_answer(usage.user * 1e6),
            system_us: per_answer((usage.cpu - usage.user) * 1e6),
            instructions: events(usage.counts.instructions),
            user_instructions: events(usage.counts.user_instructions),
            cycles: events(usage.counts.cycles),
            busy: (load.seconds > 0.0).then(|| usage.cpu / load.seconds),
            waiting: (load.seconds > 0.0).then(|| usage.waiting / load.seconds),
            response_size: load.response_size,
            loss_percent: (load.sent > 0).then(|| 100.0 * (1.0 - answered / load.sent as f64)),
            ..Figures::default()
        }
    }

    /// Returns the median of each figure over the rounds that have it.
    pub(crate) fn median(rounds: &[Figures]) -> Figures {
        let of = |pick: fn(&Figures) -> Option<f64>| median(rounds.iter().filter_map(pick).collect());
        Figures {
            qps: of(|f| f.qps),
            latency_mean_us: of(|f| f.latency_mean_us),
            latency_p50_us: of(|f| f.latency_p50_us),
            latency_p99_us: of(|f| f.latency_p99_us),
            cpu_us: of(|f| f.cpu_us),
            user_us: of(|f| f.user_us),
            system_us: of(|f| f.system_us),
            instructions: of(|f| f.instructions),
            user_instructions: of(|f| f.user_instructions),
            cycles: of(|f| f.cycles),
            busy: of(|f| f.busy),
            waiting: of(|f| f.waiting),
            response_size: of(|f| f.response_size),
            loss_percent: of(|f| f.loss_percent),
            added_p50_us: of(|f| f.added_p50_us),
            added_p99_us: of(|f| f.added_p99_us),
            hit_percent: of(|f| f.hit_percent),
            served_percent: of(|f| f.served_percent),
            failed_percent: of(|f| f.failed_percent),
            forwarded: of(|f| f.forwarded),
            forwarded_tcp: of(|f| f.forwarded_tcp),
            wall_seconds: of(|f| f.wall_seconds),
            noerror: of(|f| f.noerror),
            nxdomain: of(|f| f.nxdomain),
            servfail: of(|f| f.servfail),
            attack_ms: of(|f| f.attack_ms),
            offered_qps: of(|f| f.offered_qps),
            wanted_qps: of(|f| f.wanted_qps),
            peak_bytes: of(|f| f.peak_bytes),
            bound_share: of(|f| f.bound_share),
            moved: Moved::median(&rounds.iter().filter_map(|f| f.moved).collect::<Vec<_>>()),
            policy: PolicyFigures::median(&rounds.iter().filter_map(|f| f.policy).collect::<Vec<_>>()),
            resident: Vec::new(),
            server_cpu: shares(rounds.iter().filter_map(|f| f.server_cpu).collect()),
            generator_cpu: shares(rounds.iter().filter_map(|f| f.generator_cpu).collect()),
        }
    }
}

/// Returns the median of each share.
fn shares(rounds: Vec<Shares>) -> Option<Shares> {
    let of = |pick: fn(&Shares) -> f64| median(rounds.iter().map(pick).collect());
    Some(Shares {
        user: of(|s| s.user)?,
        system: of(|s| s.system)?,
        interrupts: of(|s| s.interrupts)?,
        idle: of(|s| s.idle)?,
        stolen: of(|s| s.stolen)?,
    })
}

/// Variation between the rounds of a row.
#[derive(Clone, Debug, Default, Serialize, PartialEq)]
pub(crate) struct Noise {
    /// CPU µs per answer, or CPU seconds of a zone transfer.
    pub(crate) cpu_us: Option<Spread>,
    /// The user-space part of it.
    pub(crate) user_us: Option<Spread>,
    /// Answers per second.
    pub(crate) qps: Option<Spread>,
    /// Median latency in µs.
    pub(crate) latency_p50_us: Option<Spread>,
    /// 99th percentile of latency in µs.
    pub(crate) latency_p99_us: Option<Spread>,
}

/// Minimum and maximum of several values.
#[derive(Clone, Copy, Debug, Serialize, PartialEq)]
pub(crate) struct Spread {
    /// Minimum.
    pub(crate) min: f64,
    /// Maximum.
    pub(crate) max: f64,
    /// Their difference in percent of the median.
    pub(crate) percent: f64,
}

impl Noise {
    /// Spread in percent above which the table marks a value.
    const MARKED: f64 = 15.0;

    /// Computes the variation over the rounds of a row; empty for a single round.
    pub(crate) fn of(rounds: &[Figures]) -> Noise {
        let spread = |pick: fn(&Figures) -> Option<f64>| {
            let values: Vec<f64> = rounds.iter().filter_map(pick).collect();
            let middle = median(values.clone()).filter(|middle| *middle > 0.0 && values.len() > 1)?;
            let (min, max) =
                values.iter().fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(*v), high.max(*v)));
            Some(Spread { min, max, percent: 100.0 * (max - min) / middle })
        };
        Noise {
            cpu_us: spread(|f| f.cpu_us.or_else(|| f.moved?.cpu)),
            user_us: spread(|f| f.user_us),
            qps: spread(|f| f.qps),
            latency_p50_us: spread(|f| f.latency_p50_us),
            latency_p99_us: spread(|f| f.latency_p99_us),
        }
    }

    fn is_marked(&self) -> bool {
        self.cpu_us.is_some_and(|spread| spread.percent > Noise::MARKED)
    }
}

/// Returns the middle value, or the mean of the two middle values.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => values.get(middle).copied(),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

/// Label of starts from an image, which nomen may read with all CPUs; all other starts use one.
pub(crate) const FROM_IMAGE: &str = "nomen, from image (all CPUs)";

/// Start-up of a server with a workload's zones, medians over the rounds.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub(crate) struct Loading {
    /// Workload.
    pub(crate) workload: String,
    /// Server.
    pub(crate) server: String,
    /// The zones, with their size.
    pub(crate) zones: String,
    /// Number of records served.
    pub(crate) records: u64,
    /// Wall-clock seconds from the start until every probe was answered.
    pub(crate) seconds: Option<f64>,
    /// CPU seconds until then.
    pub(crate) cpu_seconds: Option<f64>,
    /// Highest resident size until then, in bytes.
    pub(crate) peak_bytes: Option<f64>,
    /// Resident size then, in bytes; shared pages count once.
    pub(crate) resident_bytes: Option<f64>,
    /// CPU use while idle, in percent of one CPU, if measured.
    pub(crate) idle_percent: Option<f64>,
    /// Growth in bytes per cached name, if there were enough.
    pub(crate) entry_bytes: Option<f64>,
    /// Every start, in seconds.
    pub(crate) samples: Vec<f64>,
    /// Why there are no figures, if so.
    pub(crate) note: Option<String>,
}

impl Loading {
    /// Computes medians over starts; `None` without any.
    pub(crate) fn new(
        workload: &str,
        server: &str,
        zones: &str,
        records: u64,
        starts: &[Startup],
    ) -> Option<Loading> {
        let of = |pick: fn(&Startup) -> f64| median(starts.iter().map(pick).collect());
        let idle = starts.iter().filter_map(|start| start.idle).map(|share| share * 100.0).collect();
        (!starts.is_empty()).then(|| Loading {
            workload: workload.to_string(),
            server: server.to_string(),
            zones: zones.to_string(),
            records,
            seconds: of(|start| start.seconds),
            cpu_seconds: of(|start| start.cpu),
            peak_bytes: of(|start| start.memory.peak as f64),
            resident_bytes: of(|start| start.memory.resident as f64),
            idle_percent: median(idle),
            entry_bytes: median(starts.iter().filter_map(|start| start.entry).collect()),
            samples: starts.iter().map(|start| start.seconds).collect(),
            note: None,
        })
    }

    /// Returns the row of a server that did not start.
    pub(crate) fn missing(workload: &str, server: &str, zones: &str, records: u64, why: &str) -> Loading {
        Loading {
            workload: workload.to_string(),
            server: server.to_string(),
            zones: zones.to_string(),
            records,
            seconds: None,
            cpu_seconds: None,
            peak_bytes: None,
            resident_bytes: None,
            idle_percent: None,
            entry_bytes: None,
            samples: Vec::new(),
            note: Some(why.to_string()),
        }
    }
}

/// One server under one kind of load.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub(crate) struct Row {
    /// Workload.
    pub(crate) workload: String,
    /// Kind of load.
    pub(crate) load: String,
    /// Server.
    pub(crate) server: String,
    /// Number of rounds measured.
    pub(crate) rounds: usize,
    /// Medians.
    pub(crate) figures: Figures,
    /// Variation between the rounds.
    pub(crate) noise: Noise,
    /// Every round's figures, in order.
    pub(crate) samples: Vec<Figures>,
    /// Answers by response code over all rounds.
    pub(crate) rcodes: BTreeMap<String, u64>,
    /// A problem of the row, if there is one.
    pub(crate) note: Option<String>,
}

/// A workload as it ran.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub(crate) struct Group {
    /// Workload.
    pub(crate) workload: String,
    /// Description in one line.
    pub(crate) title: String,
    /// Answers compared before timing, by server: the number of the sample that differs from the majority.
    pub(crate) answers: Vec<Agreement>,
}

/// Comparison of one server's answers to the sample with the majority's.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub(crate) struct Agreement {
    /// Server.
    pub(crate) server: String,
    /// Number of queries sent.
    pub(crate) asked: usize,
    /// Number of answers that differ.
    pub(crate) differ: usize,
    /// One of them.
    pub(crate) example: Option<String>,
}

/// The machine, without identifying names.
#[derive(Clone, Debug, Default, Serialize, PartialEq)]
pub(crate) struct Machine {
    /// CPU model.
    pub(crate) cpu: String,
    /// CPU family, model and stepping, since virtual machines often hide the name.
    pub(crate) family: String,
    /// Online CPUs.
    pub(crate) cpus: usize,
    /// Kernel release.
    pub(crate) kernel: String,
    /// Memory in bytes.
    pub(crate) memory: u64,
    /// Hypervisor, if any.
    pub(crate) hypervisor: Option<String>,
    /// Whether hardware counters could be read.
    pub(crate) counters: bool,
}

/// All results of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Results {
    /// Day of the run, UTC.
    pub(crate) date: String,
    /// The machine.
    pub(crate) machine: Machine,
    /// Versions by program.
    pub(crate) versions: BTreeMap<String, String>,
    /// Seconds per measurement, rounds, seed, rate and sizes.
    pub(crate) settings: BTreeMap<String, String>,
    /// Workloads.
    pub(crate) groups: Vec<Group>,
    /// Rows, grouped by workload and load.
    pub(crate) rows: Vec<Row>,
    /// Start-ups.
    pub(crate) loading: Vec<Loading>,
    /// The goals of nomen, with the measured figures.
    pub(crate) goals: Vec<Goal>,
    /// What was skipped, and why.
    pub(crate) skipped: Vec<String>,
    /// The part of `skipped` that concerns nomen itself: the run then fails, so that CI reports it.
    #[serde(skip)]
    pub(crate) faults: Vec<String>,
}

impl Results {
    /// Records that a server was left out of a workload, or of the whole run.
    pub(crate) fn skip(&mut self, kind: Kind, text: String) {
        if kind == Kind::Nomen {
            self.faults.push(text.clone());
        }
        self.skipped.push(text);
    }
}

impl Machine {
    /// Describes this machine.
    pub(crate) fn here() -> Machine {
        let output =
            Command::new("lscpu").env("LC_ALL", "C").output().map(|output| output.stdout).unwrap_or_default();
        let text = String::from_utf8_lossy(&output).into_owned();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Machine {
            memory: crate::measure::parse_kilobytes(&memory, "MemTotal").unwrap_or(0),
            kernel: release_number(kernel.trim()),
            counters: false,
            ..Machine::from_lscpu(&text)
        }
    }

    fn from_lscpu(text: &str) -> Machine {
        let field = |name: &str| {
            text.lines().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                (key.trim() == name).then(|| value.trim().to_string())
            })
        };
        let number = |name: &str| field(name).unwrap_or_else(|| "?".to_string());
        Machine {
            cpu: field("Model name").unwrap_or_else(|| "unknown".to_string()),
            family: format!("{}/{}/{}", number("CPU family"), number("Model"), number("Stepping")),
            cpus: field("CPU(s)").and_then(|count| count.parse().ok()).unwrap_or(1),
            hypervisor: field("Hypervisor vendor"),
            ..Machine::default()
        }
    }

    /// Returns a few words for a folder name: CPU model and number of CPUs.
    pub(crate) fn slug(&self) -> String {
        let words =
            format!("{}-{}cpu", self.cpu, self.cpus).replace("(R)", "").replace("(TM)", "").to_lowercase();
        let plain: String = words.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        plain.split('-').filter(|word| !word.is_empty() && *word != "processor").collect::<Vec<_>>().join("-")
    }
}

/// Returns the kernel's version without the distributor's suffix.
fn release_number(release: &str) -> String {
    release.split('-').next().unwrap_or(release).to_string()
}

fn cell(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(none, |value| format!("{value:.decimals$}"))
}

fn thousands(value: Option<f64>) -> String {
    let Some(value) = value else { return none() };
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Returns the table, as Markdown that also reads well in a terminal.
pub(crate) fn table(results: &Results) -> String {
    let mut out = String::new();
    let machine = &results.machine;
    let _ = writeln!(
        out,
        "{} · {} (family/model/stepping {}), {} CPUs, Linux {}{}",
        results.date,
        machine.cpu,
        machine.family,
        machine.cpus,
        machine.kernel,
        machine.hypervisor.as_ref().map_or_else(String::new, |name| format!(", virtual machine ({name})"))
    );
    let versions: Vec<String> =
        results.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let settings: Vec<String> =
        results.settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let _ = writeln!(out, "{}\n{}", versions.join(", "), settings.join(", "));
    for group in &results.groups {
        let _ = writeln!(out, "\n## {} — {}\n", group.workload, group.title);
        let rows: Vec<&Row> = results.rows.iter().filter(|row| row.workload == group.workload).collect();
        out.push_str(&load_table(&rows));
        for agreement in &group.answers {
            if agreement.differ > 0 {
                let example = agreement.example.as_deref().unwrap_or("");
                let (server, differ, asked) = (&agreement.server, agreement.differ, agreement.asked);
                let _ =
                    writeln!(out, "\n{server} answers {differ} of {asked} differently; not timed. {example}");
            }
        }
        let starts: Vec<&Loading> =
            results.loading.iter().filter(|loading| loading.workload == group.workload).collect();
        out.push_str(&start_table(&starts));
    }
    out.push_str(&goals::table(results));
    if !results.skipped.is_empty() {
        let _ = writeln!(out, "\n## Skipped\n\n- {}", results.skipped.join("\n- "));
    }
    out
}

/// Columns of a table of loads; those without a figure in any row are left out.
const LOAD_HEAD: [&str; 51] = [
    "load",
    "server",
    "wall s",
    "qps",
    "CPU µs",
    "user",
    "system",
    "mean µs",
    "p50",
    "p99",
    "busy",
    "wait",
    "softirq",
    "idle",
    "gen. softirq",
    "gen. idle",
    "instr",
    "user instr",
    "cycles",
    "bytes",
    "loss %",
    "failed %",
    "NOERROR",
    "NXDOMAIN",
    "SERVFAIL",
    "offered",
    "wanted",
    "fwd",
    "fwd TCP",
    "added p50",
    "added p99",
    "hit %",
    "served %",
    "ms/attack",
    "peak MB",
    "of bound",
    "s",
    "CPU s",
    "user s",
    "system s",
    "MB",
    "messages",
    "records",
    "sending s",
    "after s",
    "zones",
    "transfers",
    "rest MB",
    "questions",
    "late",
    "latest s",
];

fn load_table(rows: &[&Row]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let head = LOAD_HEAD.into_iter().chain(policy::HEAD).map(String::from);
    let mut lines = vec![head.collect()];
    lines.extend(rows.iter().map(|row| load_line(row)));
    let mut out = aligned(&without_empty(lines), 2);
    if rows.iter().any(|row| row.noise.is_marked()) {
        let _ = writeln!(out, "\n~ rounds differ by more than {} %", Noise::MARKED);
    }
    for row in rows.iter().filter(|row| row.note.is_some()) {
        let _ = writeln!(out, "\n(!) {}, {}: {}", row.server, row.load, row.note.as_deref().unwrap_or(""));
    }
    out
}

fn load_line(row: &Row) -> Vec<String> {
    let f = &row.figures;
    let mark = |cpu: Option<f64>| if cpu.is_some() && row.noise.is_marked() { " ~" } else { "" };
    let m = f.moved.unwrap_or_default();
    let percent = |share: Option<f64>| share.map_or_else(none, |share| format!("{:.0}%", share * 100.0));
    // Both CPUs matter over veth, where the server's packets are handled on the generator's CPU.
    let veth = row.load.contains("veth");
    let server = f.server_cpu.filter(|_| veth);
    let generator = f.generator_cpu.filter(|_| veth);
    let mut line = vec![
        row.load.clone(),
        row.server.clone() + row.note.as_ref().map_or("", |_| " (!)"),
        cell(f.wall_seconds, 2),
        thousands(f.qps),
        cell(f.cpu_us, 2) + mark(f.cpu_us),
        cell(f.user_us, 2),
        cell(f.system_us, 2),
        cell(f.latency_mean_us, 1),
        cell(f.latency_p50_us, 1),
        cell(f.latency_p99_us, 1),
        percent(f.busy),
        percent(f.waiting),
        percent(server.map(|cpu| cpu.interrupts)),
        percent(server.map(|cpu| cpu.idle)),
        percent(generator.map(|cpu| cpu.interrupts)),
        percent(generator.map(|cpu| cpu.idle)),
        thousands(f.instructions),
        thousands(f.user_instructions),
        thousands(f.cycles),
        cell(f.response_size, 0),
        cell(f.loss_percent, 2),
        cell(f.failed_percent, 2),
        thousands(f.noerror),
        thousands(f.nxdomain),
        thousands(f.servfail),
        thousands(f.offered_qps),
        thousands(f.wanted_qps),
        cell(f.forwarded, 2),
        cell(f.forwarded_tcp, 3),
        cell(f.added_p50_us, 1),
        cell(f.added_p99_us, 1),
        cell(f.hit_percent, 1),
        cell(f.served_percent, 2),
        cell(f.attack_ms, 2),
        cell(f.peak_bytes.map(|bytes| bytes / 1e6), 1),
        cell(f.bound_share, 2),
        cell(m.seconds, 3),
        cell(m.cpu, 3) + mark(m.cpu),
        cell(m.user, 3),
        cell(m.system, 3),
        cell(m.bytes.map(|bytes| bytes / 1e6), 2),
        thousands(m.messages),
        thousands(m.records),
        cell(m.sending, 3),
        cell(m.after, 4),
        thousands(m.zones),
        thousands(m.transfers),
        cell(m.resident.map(|bytes| bytes / 1e6), 1),
        thousands(m.questions),
        thousands(m.late),
        cell(m.latest, 1),
    ];
    line.extend(policy::cells(&f.policy.unwrap_or_default()));
    line
}

/// Placeholder for a missing figure.
fn none() -> String {
    "–".to_string()
}

/// Removes the columns that are empty in every line below the head.
fn without_empty(lines: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let told =
        |column: usize| lines.iter().skip(1).any(|line| line.get(column).is_some_and(|text| *text != none()));
    let kept: Vec<bool> = (0..columns).map(told).collect();
    let keep = |line: Vec<String>| {
        line.into_iter().zip(&kept).filter(|(_, kept)| **kept).map(|(text, _)| text).collect()
    };
    lines.into_iter().map(keep).collect()
}

fn start_table(starts: &[&Loading]) -> String {
    if starts.is_empty() {
        return String::new();
    }
    let head =
        ["server", "records", "load s", "load CPU s", "peak MB", "RSS MB", "idle CPU %", "bytes/entry"];
    let mut lines = vec![head.map(String::from).to_vec()];
    for start in starts {
        lines.push(vec![
            start.server.clone() + start.note.as_ref().map_or("", |_| " (!)"),
            thousands((start.records > 0).then_some(start.records as f64)),
            cell(start.seconds, 3),
            cell(start.cpu_seconds, 3),
            cell(start.peak_bytes.map(|bytes| bytes / 1e6), 1),
            cell(start.resident_bytes.map(|bytes| bytes / 1e6), 1),
            cell(start.idle_percent, 2),
            cell(start.entry_bytes, 0),
        ]);
    }
    let mut out = format!("\n{}", aligned(&without_empty(lines), 1));
    for start in starts.iter().filter(|start| start.note.is_some()) {
        let _ = writeln!(out, "\n(!) {} not finished: {}", start.server, start.note.as_deref().unwrap_or(""));
    }
    out
}

/// Returns a Markdown table with padded columns; the first `left` columns are left-aligned, the rest
/// right-aligned.
pub(crate) fn aligned(lines: &[Vec<String>], left: usize) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines
            .iter()
            .filter_map(|line| line.get(column))
            .map(|text| text.chars().count())
            .max()
            .unwrap_or(0)
            .max(2)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for (number, line) in lines.iter().enumerate() {
        for (column, text) in line.iter().enumerate() {
            let pad = " ".repeat(widths[column].saturating_sub(text.chars().count()));
            let _ = if column < left { write!(out, "| {text}{pad} ") } else { write!(out, "| {pad}{text} ") };
        }
        out.push_str("|\n");
        if number == 0 {
            for (column, width) in widths.iter().enumerate() {
                let dashes = "-".repeat(*width);
                let _ = if column < left { write!(out, "|-{dashes}-") } else { write!(out, "|-{dashes}:") };
            }
            out.push_str("|\n");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_ignore_what_is_absent() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
        assert_eq!(median(vec![]), None);
        let round = |qps: Option<f64>| Figures { qps, ..Figures::default() };
        assert_eq!(Figures::median(&[round(Some(1.0)), round(None), round(Some(3.0))]).qps, Some(2.0));
    }

    #[test]
    fn figures_are_per_answer() {
        let load = Load { sent: 200, answered: 100, seconds: 2.0, ..Load::default() };
        let usage = Usage { cpu: 0.001, user: 0.000_25, ..Usage::default() };
        let figures = Figures::new(&load, &usage);
        assert_eq!(figures.qps, Some(50.0));
        assert_eq!(figures.cpu_us, Some(10.0));
        assert_eq!((figures.user_us, figures.system_us), (Some(2.5), Some(7.5)));
        assert_eq!(figures.loss_percent, Some(50.0));
        assert_eq!(figures.cycles, None);
        assert_eq!(Figures::new(&Load::default(), &usage).cpu_us, None);
    }

    #[test]
    fn machine_is_described_without_naming_it() {
        let text = "CPU(s):   2\nOn-line CPU(s) list: 0,1\nModel name:  Intel(R) Xeon(R) Processor\n\
                    CPU family: 6\nModel: 143\nStepping: 8\nHypervisor vendor:  KVM\n";
        let machine = Machine::from_lscpu(text);
        assert_eq!(machine.slug(), "intel-xeon-2cpu");
        assert_eq!(machine.family, "6/143/8");
        assert_eq!(machine.hypervisor.as_deref(), Some("KVM"));
        assert_eq!(release_number("6.12.9-amd64-host5"), "6.12.9");
    }

    #[test]
    fn noise_is_the_distance_of_the_rounds() {
        let round = |cpu: f64| Figures { cpu_us: Some(cpu), ..Figures::default() };
        let noise = Noise::of(&[round(4.0), round(5.0), round(4.5)]);
        let spread = noise.cpu_us.unwrap();
        assert_eq!((spread.min, spread.max), (4.0, 5.0));
        assert!((spread.percent - 22.2).abs() < 0.1 && noise.is_marked());
        assert!(!Noise::of(&[round(4.0), round(4.1)]).is_marked());
        assert_eq!(Noise::of(&[round(4.0)]), Noise::default());
    }

    #[test]
    fn columns_without_figures_are_left_out() {
        let line = |words: [&str; 3]| words.map(String::from).to_vec();
        let lines = vec![line(["a", "b", "c"]), line(["1", "–", "–"]), line(["2", "–", "3"])];
        assert_eq!(without_empty(lines), [["a", "c"], ["1", "–"], ["2", "3"]]);
    }

    #[test]
    fn a_start_from_an_image_says_that_it_uses_every_cpu() {
        let startup = Startup { seconds: 0.1, ..Startup::default() };
        let row = Loading::new("load", FROM_IMAGE, "delegations-1", 9, &[startup]).unwrap();
        assert!(start_table(&[&row]).contains("nomen, from image (all CPUs)"));
    }

    #[test]
    fn table_lines_up() {
        assert_eq!(thousands(Some(1_234_567.4)), "1,234,567");
        let lines = [vec!["a".to_string(), "b".to_string()], vec!["long".to_string(), "1".to_string()]];
        assert_eq!(aligned(&lines, 1), "| a    |  b |\n|------|---:|\n| long |  1 |\n");
    }
}
