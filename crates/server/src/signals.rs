//! Signals and the service manager: SIGHUP reloads, SIGTERM and SIGINT stop, a second one stops at once; systemd
//! is told what goes on (sd_notify).

use sd_notify::NotifyState;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

use crate::zones::reload::{Job, Reloader};

/// Handles signals until the first one that stops the server.
pub async fn until_stopped(reloader: &Reloader) -> std::io::Result<&'static str> {
    let mut hangup = signal(SignalKind::hangup())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    loop {
        tokio::select! {
            _ = hangup.recv() => {
                info!("SIGHUP: reloading");
                reloader.ask(Job::All(None));
            }
            _ = terminate.recv() => return Ok("SIGTERM"),
            _ = interrupt.recv() => return Ok("SIGINT"),
        }
    }
}

/// Ends the process at the next signal that asks for it: for whoever does not want to wait for the end of service.
pub async fn exit_at_next() -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    warn!("asked again to stop: stopping at once");
    std::process::exit(1);
}

/// Tells the service manager that the server answers.
pub fn tell_ready() {
    tell(&[NotifyState::Ready]);
}

/// Tells the service manager that a reload has begun (systemd.service, `Type=notify-reload`).
pub fn tell_reloading() {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell(&[NotifyState::Reloading, now]);
    }
}

/// Tells the service manager that the server is about to end.
pub fn tell_stopping() {
    tell(&[NotifyState::Stopping]);
}

fn tell(state: &[NotifyState<'_>]) {
    // Without a service manager this does nothing; one that does not listen changes nothing for clients.
    if let Err(e) = sd_notify::notify(state) {
        warn!("the service manager cannot be told: {e}");
    }
}
