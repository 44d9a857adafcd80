//! Opening the listeners: at once, or, on a node that has no zones of its database yet, once they are in
//! service. Until then clients wait as for a server that loads its zones: an answer that refuses zones which
//! come a moment later would be taken for the truth.

use std::sync::Arc;
use std::time::{Duration, Instant};

use control::parts::ServerParts;
use control::readiness::{FirstZones, first_zones};
use net::Bound;
use serving::frontend::Frontend;
use tracing::{info, warn};

use super::passed;

/// Longest wait for the first zones of the database; service managers wait for 90 seconds by default.
const FIRST_ZONES_TIMEOUT: Duration = Duration::from_secs(60);
/// How often the zones are looked at meanwhile.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Listeners that do not answer yet.
pub(super) struct Opening {
    pub(super) sockets: Vec<Bound>,
    /// Whether they are stored with the service manager.
    pub(super) stores_sockets: bool,
}

impl Opening {
    /// Has the listeners answer.
    ///
    /// # Errors
    /// The listener that cannot be served, and why.
    pub(super) fn open(self, frontend: &Frontend) -> Result<(), String> {
        frontend.serve(self.sockets).map_err(|e| e.to_string())?;
        if self.stores_sockets {
            store_sockets(frontend);
        }
        Ok(())
    }

    /// Has the listeners answer once the zones of the database are in service. Returns only if that fails,
    /// with the reason.
    pub(super) async fn open_with_zones(self, parts: ServerParts) -> String {
        info!("queries are answered once the zones of the database have been read");
        await_zones(&parts).await;
        let frontend = Arc::clone(&parts.frontend);
        match tokio::task::spawn_blocking(move || self.open(&frontend)).await {
            Ok(Ok(())) => {}
            Ok(Err(why)) => return why,
            Err(fault) => return format!("the listeners cannot be started: {fault}"),
        }
        announce(&parts);
        std::future::pending().await
    }
}

/// Waits for the first zones of the database. Ends early if it cannot be reached.
async fn await_zones(parts: &ServerParts) {
    let begun = Instant::now();
    while begun.elapsed() < FIRST_ZONES_TIMEOUT {
        match first_zones(parts) {
            FirstZones::InService => return,
            FirstZones::Awaited => tokio::time::sleep(LOOK_INTERVAL).await,
            FirstZones::OutOfReach => {
                return warn!("queries are answered without the zones of the database, which are refused");
            }
        }
    }
    warn!(
        "reading the zones of the database takes longer than {FIRST_ZONES_TIMEOUT:?}: queries are answered, and \
         those that have not been read are refused"
    );
}

/// Reports to the service manager and the log that queries are answered.
pub(super) fn announce(parts: &ServerParts) {
    telemetry::systemd::notify_ready(&parts.table.in_words());
    info!(version = env!("CARGO_PKG_VERSION"), pid = std::process::id(), "serving");
}

/// Stores the listening sockets with the service manager, which passes them to the next server.
fn store_sockets(frontend: &Frontend) {
    match frontend.sockets().and_then(|sockets| telemetry::systemd::store(passed::STORED, &sockets)) {
        Ok(true) => frontend.leave_unread(),
        Ok(false) => {}
        Err(e) => warn!("a restart may lose queries: the service manager does not store the sockets: {e}"),
    }
}
