//! A server as secondary of very many small zones (`secondaries`): it starts with none of them, all change at
//! once, it restarts with what it stored, and all are due for a refresh again and again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::failure::{Failure, Result};
use crate::load::Load;
use crate::measure::{self, Ledger};
use crate::provider::{DUE, Provider, SmallZones};
use crate::report::{Figures, Moved};
use crate::servers::{self, Kind, Server, Settings};
use crate::session::Plan;
use crate::sweep::Sweep;
use crate::sys;
use crate::workloads::Phase;
use crate::zones::ZoneSet;

/// Interval of samples of the server.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);
/// Pause between two batches of queries if few of the zones were found.
const BATCH_PAUSE: Duration = Duration::from_millis(10);
/// Number of found zones in a batch above which the next one follows at once.
const FULL_BATCH_ZONES: usize = 32;
/// Longest wait for the work that a server continues after it serves all zones.
const WORKING: Duration = Duration::from_secs(120);
/// Zones due for a refresh per second, if there are enough.
const REFRESHES_PER_SECOND: u64 = 2000;
/// How often zones are due while they are watched.
const REFRESHES: u32 = 2;
/// Additional time of watching.
const MORE: Duration = Duration::from_secs(2);

/// Common data of all phases of a server's turn.
pub(crate) struct Secondaries<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) kind: Kind,
    pub(crate) settings: &'a Settings,
    pub(crate) set: &'a ZoneSet,
    pub(crate) zones: &'a SmallZones,
    pub(crate) provider: &'a Provider,
}

/// Returns the zones of a set, with a REFRESH that makes the load independent of their number, unless they
/// are few.
pub(crate) fn zones(plan: &Plan, set: &ZoneSet) -> Arc<SmallZones> {
    // Knot accepts no less than 2 seconds.
    let least = if plan.is_timed() { 10 } else { 2 };
    let refresh = (set.zones.len() as u64 / REFRESHES_PER_SECOND).clamp(least, 86_400) as u32;
    Arc::new(SmallZones::of(set, refresh))
}

impl Secondaries<'_> {
    /// Starts the server, empty or with what it stored. Returns it with the figures until it had served all
    /// zones and was idle.
    pub(crate) fn start(&self, phase: Phase) -> Result<(Server, (Load, Figures))> {
        let (is_new, version) = match phase {
            Phase::Start => (true, 0),
            _ => (false, DUE - 1),
        };
        let settings = Settings { keeps: !is_new, ..self.settings.clone() };
        let began = Instant::now();
        let programs = &self.plan.programs;
        let server = servers::start(self.kind, programs, &settings, self.set, &[], self.plan.patience)?;
        let measured = self.measured(&server, Ledger::of_all(server.group()), true, || {
            // Zones that it has stored it can serve without a query.
            let can_be = |place| !is_new || self.provider.has_sent(place);
            self.served(&server, version, began, can_be)
        })?;
        Ok((server, measured))
    }

    /// Changes all zones at once, and sends the server a NOTIFY for each.
    pub(crate) fn change(&self, server: &Server) -> Result<(Load, Figures)> {
        self.measured(server, Ledger::open(server.group()), true, || self.renew(server, DUE - 1))
    }

    /// Ends the server as its operator would.
    pub(crate) fn end(&self, server: Server) -> Result<()> {
        servers::write_out(self.kind, &self.plan.programs, self.settings)?;
        measure::until_idle(server.group(), WORKING)?;
        server.end(self.plan.patience)
    }

    /// Watches the server while all zones are due several times.
    pub(crate) fn refresh(&self, server: &Server) -> Result<(Load, Figures)> {
        self.renew(server, DUE)?;
        self.provider.forget();
        let watched = Duration::from_secs(u64::from(self.zones.refresh() * REFRESHES)) + MORE;
        let (load, mut figures) = self.measured(server, Ledger::open(server.group()), false, || {
            let began = Instant::now();
            while began.elapsed() < watched {
                if sys::interrupted() {
                    return Err(Failure::new("interrupted"));
                }
                std::thread::sleep(SAMPLE_INTERVAL);
            }
            Ok(began.elapsed().as_secs_f64())
        })?;
        let found = self.provider.lateness();
        let moved = figures.moved.unwrap_or_default();
        figures.moved = Some(Moved {
            questions: Some(found.questions as f64),
            late: Some(found.late as f64),
            latest: Some(found.latest),
            ..moved
        });
        Ok((load, figures))
    }

    /// Sets a version at the primary, sends NOTIFYs, and waits until the server serves it. Returns the time
    /// in seconds.
    fn renew(&self, server: &Server, version: u32) -> Result<f64> {
        let over = AtomicBool::new(false);
        let address: SocketAddr = server.address;
        std::thread::scope(|scope| {
            let began = Instant::now();
            self.provider.renew(version);
            let announcing = scope.spawn(|| self.provider.announce(address, &over));
            let served = self.served(server, version, began, |place| self.provider.has_sent(place));
            over.store(true, Ordering::SeqCst);
            let announced = announcing.join().map_err(|_| Failure::new("nothing was announced"))?;
            // A server that refuses NOTIFY is slow for that reason.
            announced.and(served)
        })
    }

    /// Waits until the server serves a version of all zones. Returns the seconds since `began`.
    fn served(
        &self,
        server: &Server,
        version: u32,
        began: Instant,
        can_be: impl Fn(usize) -> bool,
    ) -> Result<f64> {
        let mut sweep = Sweep::new(server.address, self.zones, version)?;
        let mut looked = Instant::now();
        while sweep.left() > 0 {
            let found = sweep.ask(&can_be);
            if found < FULL_BATCH_ZONES {
                std::thread::sleep(BATCH_PAUSE);
            }
            if looked.elapsed() > SAMPLE_INTERVAL {
                // Threads that bind themselves to a CPU do so after the start.
                server.pin(self.settings.cpu);
                looked = Instant::now();
            }
            let failed = |what: &str| {
                let (left, all) = (sweep.left(), self.zones.len());
                Err(Failure::new(format!("{what}, with {left} of {all} zones not served")))
            };
            if sys::interrupted() {
                return failed("interrupted");
            }
            if began.elapsed() > self.plan.patience {
                return failed("took too long");
            }
            if measure::processes(server.group()).is_empty() {
                return failed(&format!("ended: {}", server.log().trim_end()));
            }
        }
        Ok((sweep.last() - began).as_secs_f64())
    }

    /// Runs `work`, which returns its duration in seconds, while sampling the server. With `ends`, work that
    /// the server continues afterwards counts as well.
    fn measured(
        &self,
        server: &Server,
        mut ledger: Ledger,
        ends: bool,
        work: impl FnOnce() -> Result<f64>,
    ) -> Result<(Load, Figures)> {
        let before = self.provider.transfers();
        let done = AtomicBool::new(false);
        let (took, ledger) = std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    ledger.look();
                    std::thread::sleep(SAMPLE_INTERVAL);
                }
                ledger.look();
                ledger
            });
            let took = work();
            let idle = if ends { measure::until_idle(server.group(), WORKING) } else { Ok(()) };
            done.store(true, Ordering::Relaxed);
            let ledger = looking.join().map_err(|_| Failure::new("the server was not watched"));
            (took.and_then(|took| idle.map(|()| took)), ledger)
        });
        let (took, ledger) = (took?, ledger?);
        let resident = measure::memory(&measure::processes(server.group())).resident;
        let zones = self.zones.len();
        let figures = Figures {
            moved: Some(Moved {
                seconds: Some(took),
                zones: Some(zones as f64),
                transfers: Some((self.provider.transfers() - before) as f64),
                resident: Some(resident as f64),
                ..Moved::used(&ledger.usage())
            }),
            peak_bytes: Some(ledger.peak as f64),
            ..Figures::default()
        };
        Ok((Load { answered: zones as u64, ..Load::default() }, figures))
    }
}
