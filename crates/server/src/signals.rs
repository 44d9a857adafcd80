//! Signals and the service manager: SIGHUP reloads and reopens log files, SIGTERM and SIGINT stop the server,
//! a second one stops it at once. Also feeds the service manager's watchdog.

use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};

use serving::frontend::Frontend;
use telemetry::dnstap::Dnstap;
use telemetry::logging::Logging;
use telemetry::systemd;
use zone_manager::zones::manager::ZoneManagerHandle;

/// Signals that are caught instead of ending the process.
pub struct Signals {
    hangup: Signal,
    /// Caught only once the server answers, so that these signals end a long start.
    stop: Option<StopSignals>,
}

/// The signals that stop the server.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    fn catch() -> std::io::Result<Self> {
        let (terminate, interrupt) = (SignalKind::terminate(), SignalKind::interrupt());
        Ok(Self { terminate: signal(terminate)?, interrupt: signal(interrupt)? })
    }

    /// Waits for one of them; returns its name.
    async fn recv(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

impl Signals {
    /// Catches SIGHUP: one that arrives during the start causes a reload after it. Also catches SIGXFSZ, so
    /// that a file at its size limit is a write error and does not end the process. Needs a runtime.
    ///
    /// # Errors
    /// If the signals cannot be caught.
    pub fn catch_hangup() -> std::io::Result<Self> {
        // Once caught, it never ends the process again, even if no task receives it.
        drop(signal(SignalKind::from_raw(nix::libc::SIGXFSZ))?);
        Ok(Self { hangup: signal(SignalKind::hangup())?, stop: None })
    }

    /// Catches the signals that stop the server. Must be called before the listeners start: until then a
    /// signal ends the process at once.
    ///
    /// # Errors
    /// If the signals cannot be caught.
    pub fn catch_stop(&mut self) -> std::io::Result<()> {
        self.stop = Some(StopSignals::catch()?);
        Ok(())
    }

    /// Handles signals until the first one that stops the server; returns its name.
    pub async fn until_stopped(
        mut self,
        manager: &ZoneManagerHandle,
        logging: &Logging,
        dnstap: Option<&Dnstap>,
    ) -> &'static str {
        loop {
            tokio::select! {
                _ = self.hangup.recv() => {
                    if let Err(fault) = logging.reopen() {
                        error!("the log file is not reopened: {fault}");
                    }
                    if let Some(Err(fault)) = dnstap.map(Dnstap::reopen) {
                        error!("the dnstap file is not reopened: {fault}");
                    }
                    info!("SIGHUP: reloading");
                    manager.reload_unheard();
                }
                name = stopped(&mut self.stop) => return name,
            }
        }
    }
}

async fn stopped(stop: &mut Option<StopSignals>) -> &'static str {
    match stop {
        Some(stop) => stop.recv().await,
        None => std::future::pending().await,
    }
}

/// Ends the process at the next SIGTERM or SIGINT, for operators who do not wait for the shutdown.
///
/// # Errors
/// If the signals cannot be caught.
pub async fn exit_at_next() -> std::io::Result<()> {
    StopSignals::catch()?.recv().await;
    warn!("second request to stop: stopping at once");
    std::process::exit(1);
}

/// Notifies the service manager periodically that the server is alive, if its watchdog is on, unless a
/// listener has ended without being stopped.
pub async fn feed_watchdog(frontend: Arc<Frontend>) {
    let Some(patience) = sd_notify::watchdog_enabled() else { return };
    let mut ticks = tokio::time::interval((patience / 3).max(Duration::from_millis(1)));
    loop {
        ticks.tick().await;
        if frontend.is_alive() {
            systemd::notify_alive();
        }
    }
}
