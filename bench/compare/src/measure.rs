//! Measures the resources that a server uses: CPU time, in user space and in the kernel, instructions and
//! cycles, memory. Reads /proc and the kernel's event counters, for all threads of all processes of the
//! server's process group.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::sys::{self, Event, HardwareCounter, UserClock};

/// The fields of `/proc/PID/stat` that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    /// Process group.
    pub(crate) group: u32,
    /// Clock ticks in user space, all threads.
    pub(crate) user: u64,
    /// Clock ticks in the kernel, all threads.
    pub(crate) system: u64,
}

/// Reads a `stat` line; `None` if it is not one.
pub(crate) fn parse_stat(text: &str) -> Option<Stat> {
    // The command name may contain spaces and parentheses; the fields begin after the last one.
    let mut fields = text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace();
    let group = fields.nth(2)?.parse().ok()?;
    let user = fields.nth(8)?.parse().ok()?;
    let system = fields.next()?.parse().ok()?;
    Some(Stat { group, user, system })
}

/// Returns the value of a `Name:  123 kB` line, in bytes.
pub(crate) fn parse_kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.split(':').next() == Some(name))?;
    let value: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(value * 1024)
}

/// Returns the nanoseconds on a CPU and the nanoseconds waiting for one, from a `schedstat` line.
pub(crate) fn parse_schedstat(text: &str) -> Option<(u64, u64)> {
    let mut fields = text.split_ascii_whitespace();
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

fn numbered(path: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the processes of a group.
pub(crate) fn processes(group: u32) -> Vec<u32> {
    let in_group = |pid: &u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        parse_stat(&text).is_some_and(|stat| stat.group == group)
    };
    numbered("/proc").into_iter().filter(in_group).collect()
}

/// Returns the threads of these processes.
pub(crate) fn threads(processes: &[u32]) -> Vec<u32> {
    processes.iter().flat_map(|pid| numbered(&format!("/proc/{pid}/task"))).collect()
}

/// CPU time used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CpuTime {
    /// Seconds on a CPU, with nanosecond resolution where the kernel has schedstat.
    pub(crate) total: f64,
    /// Seconds runnable while another thread had the CPU.
    pub(crate) waiting: f64,
    /// Seconds in user space, by the timer tick.
    pub(crate) user_ticks: f64,
    /// Seconds in the kernel, by the timer tick.
    pub(crate) system_ticks: f64,
}

impl CpuTime {
    /// Returns the seconds including those of threads that have ended, as loaders do.
    pub(crate) fn with_ended_threads(&self) -> f64 {
        settle(self.total, self.user_ticks + self.system_ticks).0
    }
}

/// Clock ticks per second in /proc; 100 on every Linux architecture.
const TICKS: f64 = 100.0;

/// Returns the CPU time of these processes up to now.
pub(crate) fn cpu_time(processes: &[u32]) -> CpuTime {
    let mut sum = CpuTime::default();
    let mut nanoseconds = 0;
    let mut waiting = 0;
    for pid in processes {
        for thread in numbered(&format!("/proc/{pid}/task")) {
            let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")).unwrap_or_default();
            let (ran, waited) = parse_schedstat(&text).unwrap_or_default();
            nanoseconds += ran;
            waiting += waited;
        }
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if let Some(stat) = parse_stat(&text) {
            sum.user_ticks += stat.user as f64 / TICKS;
            sum.system_ticks += stat.system as f64 / TICKS;
        }
    }
    sum.waiting = waiting as f64 / 1e9;
    sum.total = if nanoseconds > 0 { nanoseconds as f64 / 1e9 } else { sum.user_ticks + sum.system_ticks };
    sum
}

/// Whether less than a twentieth of the machine's memory is available.
pub(crate) fn memory_is_short() -> bool {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    match (parse_kilobytes(&text, "MemAvailable"), parse_kilobytes(&text, "MemTotal")) {
        (Some(available), Some(total)) => available < total / 20,
        _ => false,
    }
}

/// Use of one CPU, as shares of the time from 0 to 1, by the timer tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Shares {
    /// In user space.
    pub(crate) user: f64,
    /// In the kernel, for a process.
    pub(crate) system: f64,
    /// In the kernel, for interrupts: packets are received here, on the CPU that sent them over loopback or
    /// veth.
    pub(crate) interrupts: f64,
    /// Idle.
    pub(crate) idle: f64,
    /// Taken away by the hypervisor.
    pub(crate) stolen: f64,
}

/// Ticks of one CPU: user with nice, system, both kinds of interrupts, idle with waiting for disks, stolen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTicks([u64; 5]);

impl CpuTicks {
    /// Returns the ticks of a CPU since the machine started.
    pub(crate) fn now(cpu: usize) -> CpuTicks {
        parse_ticks(&fs::read_to_string("/proc/stat").unwrap_or_default(), cpu).unwrap_or_default()
    }

    /// Returns the use of the CPU between `start` and now; `None` if no tick passed.
    pub(crate) fn since(self, start: CpuTicks) -> Option<Shares> {
        let mut part = [0.0; 5];
        for (part, (now, before)) in part.iter_mut().zip(self.0.into_iter().zip(start.0)) {
            *part = now.saturating_sub(before) as f64;
        }
        let sum: f64 = part.iter().sum();
        let [user, system, interrupts, idle, stolen] = part.map(|ticks| ticks / sum);
        (sum > 0.0).then_some(Shares { user, system, interrupts, idle, stolen })
    }
}

/// Watches several CPUs ten times per second until `done` is set, and returns the use of each in the
/// `seconds` in which they together were busiest: generators do other work before and after they send.
pub(crate) fn busiest(cpus: [usize; 2], seconds: f64, done: &AtomicBool) -> [Option<Shares>; 2] {
    const STEP: f64 = 0.1;
    let mut seen = vec![cpus.map(CpuTicks::now)];
    while !done.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_secs_f64(STEP));
        seen.push(cpus.map(CpuTicks::now));
    }
    window(&seen, (seconds / STEP).round().max(1.0) as usize)
}

/// Returns the use between the two readings `steps` apart with the least idle time.
fn window(seen: &[[CpuTicks; 2]], steps: usize) -> [Option<Shares>; 2] {
    let steps = steps.min(seen.len().saturating_sub(1)).max(1);
    let shares =
        |pair: (&[CpuTicks; 2], &[CpuTicks; 2])| [pair.1[0].since(pair.0[0]), pair.1[1].since(pair.0[1])];
    let idle = |shares: &[Option<Shares>; 2]| shares.iter().flatten().map(|share| share.idle).sum::<f64>();
    let windows = seen.iter().zip(seen.iter().skip(steps)).map(shares);
    windows
        .filter(|shares| shares[0].is_some())
        .min_by(|a, b| idle(a).total_cmp(&idle(b)))
        .unwrap_or_default()
}

/// Returns the number of CPUs of the machine, including those this process may not use.
pub(crate) fn cpus() -> usize {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    (0..).take_while(|cpu| parse_ticks(&text, *cpu).is_some()).count().max(1)
}

/// Parses the line of one CPU in `/proc/stat`.
fn parse_ticks(text: &str, cpu: usize) -> Option<CpuTicks> {
    let name = format!("cpu{cpu}");
    let line = text.lines().find(|line| line.split(' ').next() == Some(&name))?;
    let field: Vec<u64> =
        line.split_ascii_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    let [user, nice, system, idle, disk, hard, soft, stolen, ..] = field[..] else { return None };
    Some(CpuTicks([user + nice, system, hard + soft, idle + disk, stolen]))
}

/// Memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Resident now; pages shared between the processes count once.
    pub(crate) resident: u64,
    /// Highest resident size of any single process so far, and at least `resident`.
    pub(crate) peak: u64,
}

/// Returns the memory of these processes.
pub(crate) fn memory(processes: &[u32]) -> Memory {
    let mut memory = Memory::default();
    for pid in processes {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let shared_out = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let resident = parse_kilobytes(&shared_out, "Pss").or_else(|| parse_kilobytes(&status, "VmRSS"));
        memory.resident += resident.unwrap_or(0);
        memory.peak = memory.peak.max(parse_kilobytes(&status, "VmHWM").unwrap_or(0));
    }
    memory.peak = memory.peak.max(memory.resident);
    memory
}

/// Event counters for the threads that exist when it is created.
pub(crate) struct Counters {
    threads: Vec<u32>,
    clocks: Vec<UserClock>,
    /// Cycles, instructions, instructions in user space; empty where the machine has no counters.
    hardware: [Vec<HardwareCounter>; 3],
}

/// Counter values; `None` where the counter is not available.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    /// Seconds in user space, by sampling the CPU clock.
    pub(crate) user: Option<f64>,
    /// CPU cycles, user and kernel.
    pub(crate) cycles: Option<u64>,
    /// Instructions, user and kernel.
    pub(crate) instructions: Option<u64>,
    /// Instructions in user space.
    pub(crate) user_instructions: Option<u64>,
}

impl Counters {
    /// Starts counting.
    pub(crate) fn start(processes: &[u32]) -> Counters {
        let threads = threads(processes);
        let counters = |event, user_only| {
            let opened: std::io::Result<Vec<_>> =
                threads.iter().map(|thread| HardwareCounter::open(*thread, event, user_only)).collect();
            opened.unwrap_or_default()
        };
        let clocks: std::io::Result<Vec<_>> = threads.iter().map(|thread| UserClock::open(*thread)).collect();
        let hardware = [
            counters(Event::Cycles, false),
            counters(Event::Instructions, false),
            counters(Event::Instructions, true),
        ];
        Counters { clocks: clocks.unwrap_or_default(), hardware, threads }
    }

    /// Whether all threads of these processes are counted.
    fn see_all(&self, processes: &[u32]) -> bool {
        threads(processes).iter().all(|thread| self.threads.contains(thread))
    }

    /// Returns the counts since the start.
    pub(crate) fn read(&self) -> Counts {
        let user: Option<u64> = self.clocks.iter().map(UserClock::nanoseconds).sum();
        let sum = |counters: &[HardwareCounter]| {
            let total: Option<u64> = counters.iter().map(|counter| counter.read().ok()).sum();
            total.filter(|_| !counters.is_empty())
        };
        let [cycles, instructions, user_instructions] = &self.hardware;
        Counts {
            user: user.filter(|_| !self.clocks.is_empty()).map(|nanoseconds| nanoseconds as f64 / 1e9),
            cycles: sum(cycles),
            instructions: sum(instructions),
            user_instructions: sum(user_instructions),
        }
    }
}

/// Resources used by a span of work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// CPU seconds.
    pub(crate) cpu: f64,
    /// CPU seconds in user space: sampled if the kernel permits it, else by the share of timer ticks.
    pub(crate) user: f64,
    /// Seconds runnable while another thread had the CPU: nearly 0 on a quiet machine.
    pub(crate) waiting: f64,
    /// Event counts.
    pub(crate) counts: Counts,
}

/// A span of work that is measured.
pub(crate) struct Watch {
    processes: Vec<u32>,
    counters: Counters,
    start: CpuTime,
}

impl Watch {
    /// Starts measuring a process group.
    pub(crate) fn start(group: u32) -> Watch {
        let processes = processes(group);
        let counters = Counters::start(&processes);
        let start = cpu_time(&processes);
        Watch { processes, counters, start }
    }

    /// Returns the resources used since.
    pub(crate) fn stop(&self) -> Usage {
        let end = cpu_time(&self.processes);
        let counts = self.counters.read();
        let user = end.user_ticks - self.start.user_ticks;
        let all = user + end.system_ticks - self.start.system_ticks;
        let (cpu, sampled) = settle(end.total - self.start.total, all);
        let by_tick = if all > 0.0 { cpu * user / all } else { 0.0 };
        let sampled = sampled && self.counters.see_all(&self.processes);
        let user = counts.user.filter(|_| sampled).unwrap_or(by_tick).min(cpu);
        Usage { cpu, user, waiting: end.waiting - self.start.waiting, counts }
    }
}

/// Longest wait for the work that a server continues after it answers.
pub(crate) const WORKING: Duration = Duration::from_secs(30);

/// Waits until a server has finished loading (Knot continues for a while after it answers), so that this work
/// is not counted in later measurements; waits for at most `most`.
pub(crate) fn until_idle(group: u32, most: Duration) -> Result<()> {
    let window = Duration::from_millis(100);
    let end = Instant::now() + most;
    while Instant::now() < end {
        let watch = Watch::start(group);
        std::thread::sleep(window);
        let used = watch.stop();
        // Waiting for its CPU means that there is work left.
        if used.cpu + used.waiting < 0.02 * window.as_secs_f64() {
            return Ok(());
        }
        if sys::interrupted() {
            return Err(Failure::new("interrupted"));
        }
    }
    Ok(())
}

/// CPU time and memory of a process group whose processes come and go, from periodic samples: what a process
/// did after its last sample is lost.
pub(crate) struct Ledger {
    group: u32,
    first: BTreeMap<u32, CpuTime>,
    last: BTreeMap<u32, CpuTime>,
    /// Highest memory sampled, all processes together, in bytes.
    pub(crate) peak: u64,
}

impl Ledger {
    /// Creates a ledger with a first sample: earlier CPU time does not count.
    pub(crate) fn open(group: u32) -> Ledger {
        let mut ledger = Ledger::of_all(group);
        ledger.look();
        ledger.first = ledger.last.clone();
        ledger
    }

    /// Creates a ledger of everything that the group has used since it was started.
    pub(crate) fn of_all(group: u32) -> Ledger {
        Ledger { group, first: BTreeMap::new(), last: BTreeMap::new(), peak: 0 }
    }

    /// Samples every existing process.
    pub(crate) fn look(&mut self) {
        let processes = processes(self.group);
        let seen = processes.iter().map(|pid| (*pid, cpu_time(&[*pid])));
        // A process that has ended since it was listed shows no time.
        self.last.extend(seen.filter(|(_, time)| time.total > 0.0));
        self.peak = self.peak.max(memory(&processes).peak);
    }

    /// Returns the resources used between the first and the last sample.
    pub(crate) fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        for (pid, end) in &self.last {
            let start = self.first.get(pid).copied().unwrap_or_default();
            let user = end.user_ticks - start.user_ticks;
            let all = user + end.system_ticks - start.system_ticks;
            let cpu = settle(end.total - start.total, all).0;
            usage.cpu += cpu;
            usage.user += if all > 0.0 { cpu * user / all } else { 0.0 };
            usage.waiting += end.waiting - start.waiting;
        }
        usage
    }
}

/// Chooses between two CPU times in seconds: the sum over existing threads, which is exact, and that of the
/// process, which includes ended threads but has the resolution of a tick. Also returns whether it is the
/// former.
fn settle(threads: f64, process: f64) -> (f64, bool) {
    let ended = process - threads > 0.1 * process && process - threads > 4.0 / TICKS;
    // The times of ended threads are missing from the sum.
    if ended { (process, false) } else { (threads.max(0.0), true) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_survives_odd_command_names() {
        let line = "42 (a) b (c) S 1 77 42 0 -1 4194560 100 0 0 0 123 456 0 0 20 0 1 0 999 1000 10";
        assert_eq!(parse_stat(line), Some(Stat { group: 77, user: 123, system: 456 }));
        assert_eq!(parse_stat("42 (x"), None);
        assert_eq!(parse_stat("42 (x) S 1 2"), None);
    }

    #[test]
    fn kilobytes_match_whole_names() {
        let text = "VmHWMX:\t 1 kB\nVmHWM:\t  1234 kB\nVmRSS:\t 5 kB\n";
        assert_eq!(parse_kilobytes(text, "VmHWM"), Some(1234 * 1024));
        assert_eq!(parse_kilobytes(text, "Pss"), None);
    }

    #[test]
    fn schedstat_tells_running_and_waiting() {
        assert_eq!(parse_schedstat("175966 16371 2\n"), Some((175_966, 16_371)));
        assert_eq!(parse_schedstat(""), None);
    }

    #[test]
    fn a_ledger_adds_up_processes_that_come_and_go() {
        let time = |total: f64, user_ticks: f64| CpuTime { total, user_ticks, ..CpuTime::default() };
        let ledger = Ledger {
            group: 0,
            first: BTreeMap::from([(1, time(1.0, 1.0)), (2, time(2.0, 2.0))]),
            // The second process has ended since, the third is new.
            last: BTreeMap::from([(1, time(1.5, 1.5)), (2, time(2.25, 2.25)), (3, time(4.0, 4.0))]),
            peak: 0,
        };
        let usage = ledger.usage();
        assert_eq!((usage.cpu, usage.user), (4.75, 4.75));
    }

    #[test]
    fn a_cpu_line_is_split_into_shares() {
        let text = "cpu  1 1 1 1 1 1 1 1 0 0\ncpu1 10 10 40 20 10 5 5 0 0 0\ncpu10 9 9 9 9 9 9 9 9 0 0\n";
        let ticks = parse_ticks(text, 1).unwrap();
        assert_eq!(ticks, CpuTicks([20, 40, 10, 30, 0]));
        let shares = ticks.since(CpuTicks::default()).unwrap();
        assert_eq!((shares.system, shares.interrupts, shares.idle), (0.4, 0.1, 0.3));
        assert_eq!(ticks.since(ticks), None);
        assert_eq!(parse_ticks(text, 2), None);
    }

    #[test]
    fn the_busiest_window_is_found() {
        // Idle ticks of both CPUs, in steps of 100 ms: loading, sending for 200 ms, waiting.
        let at = |busy: u64, idle: u64| [CpuTicks([busy, 0, 0, idle, 0]), CpuTicks([0, busy, 0, idle, 0])];
        let seen = [at(0, 0), at(2, 8), at(11, 9), at(21, 9), at(21, 19), at(22, 28)];
        let [server, generator] = window(&seen, 2).map(Option::unwrap);
        assert_eq!((server.user, server.idle), (0.95, 0.05));
        assert_eq!(generator.system, 0.95);
        assert_eq!(window(&seen[..1], 2), [None, None]);
    }

    #[test]
    fn ended_threads_are_noticed_and_rounding_is_not() {
        assert_eq!(settle(1.0, 1.02), (1.0, true));
        assert_eq!(settle(0.001, 0.02), (0.001, true));
        assert_eq!(settle(0.01, 1.5), (1.5, false));
    }

    #[test]
    fn this_process_can_be_measured() {
        let own = [std::process::id()];
        assert!(memory(&own).resident > 100_000);
        assert!(memory(&own).peak >= memory(&own).resident);
        assert!(cpu_time(&own).total > 0.0);
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        let group = parse_stat(&stat).unwrap().group;
        assert!(processes(group).contains(&std::process::id()));
    }
}
