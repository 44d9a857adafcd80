//! Refreshes of a resolver's rules at full speed: a list whose file changes, and a policy zone that its
//! primary changes. A client of cached names runs beside them, and a checker that looks for parts of a
//! version.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use wire::Type;

use crate::answers::{self, exchange};
use crate::client::Client;
use crate::failure::{Context, Failure, Result};
use crate::load::Load;
use crate::measure::Watch;
use crate::message::{Edns, write_query};
use crate::namespaces;
use crate::queries;
use crate::random::Random;
use crate::report::{Figures, PolicyFigures};
use crate::resolving::{CLIENT, CLIENT_RATE};
use crate::rules::POLICY_ZONE;
use crate::servers::Server;
use crate::session::Plan;
use crate::sys;
use crate::workloads::{FEW_NAMES, Refreshed};

/// Longest wait until a new version is in force.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest wait for the answers to a batch.
const BATCH_TIMEOUT: Duration = Duration::from_millis(200);
/// Pause between batches.
const BATCH_INTERVAL: Duration = Duration::from_millis(1);

/// A server whose rules are refreshed.
pub(crate) struct Refreshing<'a> {
    /// The plan of the run.
    pub(crate) plan: &'a Plan,
    /// The server.
    pub(crate) server: &'a Server,
    /// The primary of its policy zone.
    pub(crate) primary: SocketAddr,
    /// Its control socket.
    pub(crate) control: PathBuf,
    /// The file of its list.
    pub(crate) list: PathBuf,
    /// The part of the list that does not change.
    pub(crate) text: &'a str,
}

/// State that the refreshes and the checker share.
#[derive(Default)]
struct Progress {
    /// The version that comes into force; 0 before the first.
    wanted: AtomicU64,
    /// The newest version that is seen in force.
    seen: AtomicU64,
    /// Whether all refreshes are over.
    done: AtomicBool,
}

/// What the checker finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Findings {
    /// Batches that show one version.
    judged: u64,
    /// Those among them that show only a part of it.
    partial: u64,
    /// Batches without an answer to each query.
    lost: u64,
}

/// Returns one of the two names that this version blocks and no other.
fn marker(refreshed: Refreshed, version: u64, half: char) -> String {
    let kind = if refreshed == Refreshed::List { "list" } else { "zone" };
    format!("{half}{version}.{kind}.example.org")
}

fn query(name: &str, id: u16) -> Vec<u8> {
    let mut query = Vec::with_capacity(64);
    write_query(&mut query, name, Type::A, Edns::None);
    query[2] |= 1;
    query[..2].copy_from_slice(&id.to_be_bytes());
    query
}

impl Refreshing<'_> {
    /// Queries the names that versions will block, so that each later query of them is answered at once.
    pub(crate) fn warm(&self) -> Result<()> {
        let versions = 0..=self.plan.sizes.refreshes;
        let names = versions.flat_map(|version| {
            [Refreshed::List, Refreshed::Zone]
                .into_iter()
                .flat_map(move |refreshed| ['a', 'b'].map(|half| marker(refreshed, version, half)))
        });
        let queries: Vec<Vec<u8>> = names.map(|name| query(&name, 0)).collect();
        let given = answers::ask(None, self.server.address, &queries)?.summaries;
        let good = given.iter().flatten().filter(|summary| summary.rcode == 0).count();
        if good < queries.len() {
            return Err(Failure::new(format!("{good} of {} names are answered", queries.len())));
        }
        Ok(())
    }

    /// Measures a client of cached names beside these refreshes; without any, for three times the duration of
    /// a measurement.
    pub(crate) fn measure(&self, refreshed: Refreshed) -> Result<(Load, Figures)> {
        let progress = Progress::default();
        let (address, seed) = (self.server.address, self.plan.seed);
        let failed = |what: &'static str| move |_| Err(Failure::new(what));
        let (load, findings, refreshes, usage) = std::thread::scope(|scope| {
            let goes_on = |_: Duration| !progress.done.load(Ordering::Relaxed);
            let client = scope.spawn(move || {
                let mut random = Random::new(seed);
                let next = |out: &mut Vec<u8>| queries::write_known(out, seed, random.below(FEW_NAMES));
                Client { source: CLIENT, rate: CLIENT_RATE }.ask_while(address, goes_on, next)
            });
            let checker = scope.spawn(|| check(address, refreshed, &progress));
            let watch = Watch::start(self.server.group());
            let refreshes = self.refresh(refreshed, &progress);
            let usage = watch.stop();
            progress.done.store(true, Ordering::Relaxed);
            let client = client.join().unwrap_or_else(failed("the client failed"));
            let checker = checker.join().unwrap_or_else(|_| Err(Failure::new("the checker failed")));
            (client, checker, refreshes, usage)
        });
        let (load, findings, milliseconds) = (load?, findings?, refreshes?);
        if findings.lost * 100 > findings.judged {
            let (lost, judged) = (findings.lost, findings.judged);
            return Err(Failure::new(format!("{lost} batches are not answered, {judged} are")));
        }
        let count = milliseconds.len() as f64;
        let some = (count > 0.0).then_some(());
        let policy = PolicyFigures {
            refreshes: some.map(|()| count),
            refresh_ms: some.map(|()| milliseconds.iter().sum::<f64>() / count),
            refresh_cpu_ms: some.map(|()| usage.cpu * 1e3 / count),
            judged: some.map(|()| findings.judged as f64),
            partial: some.map(|()| findings.partial as f64),
            ..PolicyFigures::default()
        };
        // CPU per answer would be that of the refreshes.
        let (cpu_us, user_us, system_us) = (None, None, None);
        let figures = Figures::new(&load, &usage);
        let (instructions, user_instructions, cycles) = (None, None, None);
        let policy = Some(policy);
        Ok((
            load,
            Figures {
                cpu_us,
                user_us,
                system_us,
                instructions,
                user_instructions,
                cycles,
                policy,
                ..figures
            },
        ))
    }

    /// Makes all refreshes, each as soon as the one before is in force; returns the milliseconds of each.
    fn refresh(&self, refreshed: Refreshed, progress: &Progress) -> Result<Vec<f64>> {
        if refreshed == Refreshed::None {
            std::thread::sleep(Duration::from_secs_f64(3.0 * self.plan.seconds));
            return Ok(Vec::new());
        }
        let mut times = Vec::new();
        for version in 1..=self.plan.sizes.refreshes {
            progress.wanted.store(version, Ordering::SeqCst);
            let began = match refreshed {
                Refreshed::Zone => self.update(version)?,
                _ => self.reload(version)?,
            };
            while progress.seen.load(Ordering::SeqCst) < version {
                if sys::interrupted() || began.elapsed() > REFRESH_TIMEOUT {
                    return Err(Failure::new(format!("version {version} does not come into force")));
                }
                std::thread::sleep(Duration::from_micros(500));
            }
            times.push(began.elapsed().as_secs_f64() * 1e3);
        }
        Ok(times)
    }

    /// Writes a version of the list, and has the server read it; returns the time of the command.
    fn reload(&self, version: u64) -> Result<Instant> {
        let [a, b] = ['a', 'b'].map(|half| marker(Refreshed::List, version, half));
        let unfinished = self.list.with_added_extension("unfinished");
        // One name before the rest, one behind it.
        fs::write(&unfinished, format!("{a}\n{}{b}\n", self.text))?;
        fs::rename(&unfinished, &self.list)?;
        let began = Instant::now();
        let mut command = Command::new(&self.plan.programs.nomen);
        command.arg("ctl").arg("--socket").arg(&self.control).arg("reload").stdin(Stdio::null());
        let output = command.output().context(|| "nomen ctl reload".to_string())?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).trim_end().to_string();
            return Err(Failure::new(format!("nomen ctl reload: {text}")));
        }
        Ok(began)
    }

    /// Changes the zone at the primary by one dynamic update; returns the time of that.
    fn update(&self, version: u64) -> Result<Instant> {
        let socket = namespaces::socket(None, self.primary)?;
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        let began = Instant::now();
        let answer = exchange(&socket, &update_message(version), version as u16);
        match answer.and_then(|answer| Some(answer.get(3)? & 15)) {
            Some(0) => Ok(began),
            code => Err(Failure::new(format!("the primary answers an update with {code:?}"))),
        }
    }
}

/// Returns the update that replaces the names of the version before by those of this one.
fn update_message(version: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    write_query(&mut out, POLICY_ZONE, Type::SOA, Edns::None);
    // Opcode UPDATE; the question is the zone section (RFC 2136 §2).
    out[2] = 0x28;
    out[9] = if version > 1 { 4 } else { 2 };
    let mut record = |version: u64, half: char, rest: &[u8]| {
        for label in marker(Refreshed::Zone, version, half).split('.') {
            out.push(label.len() as u8);
            out.extend_from_slice(label.as_bytes());
        }
        out.extend_from_slice(&[0xc0, 12, 0, Type::CNAME.0 as u8]);
        out.extend_from_slice(rest);
    };
    for half in ['a', 'b'] {
        if version > 1 {
            // Class ANY, no TTL, no RDATA: the whole RRset (§2.5.2).
            record(version - 1, half, &[0, 255, 0, 0, 0, 0, 0, 0]);
        }
        record(version, half, &[0, 1, 0, 0, 0, 60, 0, 1, 0]);
    }
    out
}

/// Queries the names of the wanted version and of the one before, batch after batch, until all is done.
fn check(server: SocketAddr, refreshed: Refreshed, progress: &Progress) -> Result<Findings> {
    let socket = namespaces::socket(None, server)?;
    let (mut findings, mut id) = (Findings::default(), 0u16);
    while !progress.done.load(Ordering::Relaxed) {
        std::thread::sleep(BATCH_INTERVAL);
        let version = progress.wanted.load(Ordering::SeqCst);
        if version == 0 {
            continue;
        }
        id = id.wrapping_add(BATCH as u16);
        let batch = batch(&socket, refreshed, version, id)?;
        // If the next version was wanted meanwhile, the batch may show neither of the two.
        if progress.wanted.load(Ordering::SeqCst) != version {
            continue;
        }
        let Some(blocked) = batch else {
            findings.lost += 1;
            continue;
        };
        if let Some(whole) = is_whole(version, blocked) {
            findings.judged += 1;
            findings.partial += u64::from(!whole);
        }
        if blocked[0] {
            progress.seen.store(version, Ordering::SeqCst);
        }
    }
    Ok(findings)
}

/// Number of queries of a batch.
const BATCH: usize = 5;

/// Whether a batch shows a whole version; `None` if the version changes during the batch.
///
/// The server answers the queries in order, and versions follow each other. So if the first and the last
/// query, of the same name, have the same answer, one version is in force during all of them: this one or the
/// one before.
fn is_whole(version: u64, [first, other, old_other, old, last]: [bool; BATCH]) -> Option<bool> {
    // Before the first version there is none with names of its own.
    let old_fits = version == 1 || (old_other != first && old != first);
    (first == last).then_some(other == first && old_fits)
}

/// Sends a batch at once, and returns which of its names are blocked; `None` if an answer is missing.
fn batch(socket: &UdpSocket, refreshed: Refreshed, version: u64, id: u16) -> Result<Option<[bool; BATCH]>> {
    let names = [(version, 'a'), (version, 'b'), (version - 1, 'b'), (version - 1, 'a'), (version, 'a')];
    for (number, (version, half)) in names.into_iter().enumerate() {
        socket.send(&query(&marker(refreshed, version, half), id.wrapping_add(number as u16)))?;
    }
    let mut blocked = [None; BATCH];
    let mut buffer = [0; 4096];
    let end = Instant::now() + BATCH_TIMEOUT;
    while blocked.contains(&None) {
        let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        socket.set_read_timeout(Some(left))?;
        let received = socket.recv(&mut buffer);
        if let Ok(4..) = received {
            let number = u16::from_be_bytes([buffer[0], buffer[1]]).wrapping_sub(id);
            if let (Some(blocked), 0 | 3) = (blocked.get_mut(usize::from(number)), buffer[3] & 15) {
                *blocked = Some(buffer[3] & 15 == 3);
            }
        }
        if Instant::now() >= end {
            break;
        }
    }
    let all: Option<Vec<bool>> = blocked.into_iter().collect();
    Ok(all.and_then(|all| all.try_into().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_version_shows_and_a_change_during_a_batch_does_not() {
        let [yes, no] = [true, false];
        assert_eq!(is_whole(2, [yes, yes, no, no, yes]), Some(true), "this version");
        assert_eq!(is_whole(2, [no, no, yes, yes, no]), Some(true), "the version before");
        for partial in [
            [yes, no, no, no, yes],
            [yes, yes, yes, no, yes],
            [yes, yes, no, yes, yes],
            [no, yes, yes, yes, no],
            [no, no, no, yes, no],
            [no, no, yes, no, no],
        ] {
            assert_eq!(is_whole(2, partial), Some(false), "{partial:?}");
        }
        assert_eq!(is_whole(2, [no, no, no, no, yes]), None, "it changes");
        assert_eq!(is_whole(1, [no, no, no, no, no]), Some(true), "there is none before");
        assert_eq!(is_whole(1, [yes, no, no, no, yes]), Some(false));
    }

    #[test]
    fn an_update_replaces_the_names_of_the_version_before() {
        let first = update_message(1);
        assert_eq!((first[2], first[9]), (0x28, 2));
        let owner = b"\x02a1\x04zone\x07example\x03org\xc0\x0c\0\x05";
        let has = |message: &[u8], words: &[u8]| message.windows(words.len()).any(|part| part == words);
        assert!(has(&first, &[&owner[..], b"\0\x01\0\0\0\x3c\0\x01\0"].concat()));
        let second = update_message(2);
        assert_eq!(second[9], 4);
        assert!(has(&second, &[&owner[..], b"\0\xff\0\0\0\0\0\0"].concat()));
    }

    #[test]
    fn a_batch_needs_all_answers_in_any_order() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = namespaces::socket(None, server.local_addr().unwrap()).unwrap();
        // With `lost`, the second query has no answer.
        for (lost, expected) in [(false, Some([true, true, false, false, true])), (true, None)] {
            let found = std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut queries = Vec::new();
                    for _ in 0..BATCH {
                        let mut buffer = [0; 512];
                        let (length, peer) = server.recv_from(&mut buffer).unwrap();
                        queries.push((buffer[..length].to_vec(), peer));
                    }
                    for (number, (mut message, peer)) in queries.into_iter().enumerate().rev() {
                        // Names of version 7 are blocked.
                        message[3] = if message[14] == b'7' { 3 } else { 0 };
                        if !(lost && number == 1) {
                            server.send_to(&message, peer).unwrap();
                        }
                    }
                });
                batch(&socket, Refreshed::List, 7, 65_534).unwrap()
            });
            assert_eq!(found, expected);
        }
    }
}
