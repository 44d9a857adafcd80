//! Notifications to the service manager (sd_notify): the state of the server, and sockets to store.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use sd_notify::NotifyState;
use tracing::warn;

/// Descriptors per message to the service manager; the kernel allows 253.
const STORED_AT_ONCE: usize = 64;

/// Notifies the service manager that the server answers, with a status text.
pub fn notify_ready(status: &str) {
    notify(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Notifies the service manager that a reload has begun.
pub fn notify_reloading() {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        notify(&[NotifyState::Reloading, now]);
    }
}

/// Stores these descriptors with the service manager under `name`, in place of all stored under that name.
/// Returns whether there is a service manager.
///
/// # Errors
/// The system's error if the service manager cannot be reached.
pub fn store(name: &str, descriptors: &[OwnedFd]) -> std::io::Result<bool> {
    if std::env::var_os("NOTIFY_SOCKET").is_none() {
        return Ok(false);
    }
    sd_notify::notify(&[NotifyState::FdStoreRemove, NotifyState::FdName(name)])?;
    let descriptors: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
    for part in descriptors.chunks(STORED_AT_ONCE) {
        sd_notify::notify_with_fds(&[NotifyState::FdStore, NotifyState::FdName(name)], part)?;
    }
    Ok(true)
}

/// Notifies the service manager that zones are being read, before the server answers.
pub fn notify_loading() {
    notify(&[NotifyState::Status("loading zones")]);
}

/// Notifies the service manager that the server is about to end.
pub fn notify_stopping() {
    notify(&[NotifyState::Stopping, NotifyState::Status("stopping: answering what has arrived")]);
}

/// Notifies the service manager that the server is alive.
pub fn notify_alive() {
    notify(&[NotifyState::Watchdog]);
}

fn notify(state: &[NotifyState<'_>]) {
    // Without a service manager this does nothing; a failure does not affect clients.
    if let Err(e) = sd_notify::notify(state) {
        warn!("the service manager cannot be notified: {e}");
    }
}
