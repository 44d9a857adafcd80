//! The access rules of the server, on the machine that it runs on.

use std::sync::Arc;

use config::Settings;
use config::interfaces::Interfaces;
use query_path::QueryAccess;
use tracing::warn;
use wording::reason;

/// Returns the access rules of these settings; `None` if there are none.
pub(super) fn access_rules(settings: &Settings) -> Option<Arc<QueryAccess>> {
    if settings.query_access.is_empty() {
        return None;
    }
    let interfaces = Interfaces::of_this_machine().unwrap_or_else(|e| {
        warn!(
            "no block of [[server.access]] matches by `interface` or \"attached\": the system does not list them: {}",
            reason(&e)
        );
        Interfaces::default()
    });
    for name in settings.access_interfaces_without_address(&interfaces) {
        warn!("[[server.access]]: there is no interface {name}, or it has no address");
    }
    settings.query_access(&interfaces).map(Arc::new)
}
