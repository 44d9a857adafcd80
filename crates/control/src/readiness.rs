//! Whether the server is ready: `/readyz`.

use crate::parts::ServerParts;

/// Largest number of zones that are named.
const MAX_ZONES: usize = 20;

/// Returns why the server is not ready, with the names of some zones that have no version in service; `None`
/// if every zone has one, even an old one.
pub(crate) fn unready(parts: &ServerParts) -> Option<String> {
    let zones = parts.table.all();
    let mut silent: Vec<_> = zones.iter().filter(|zone| zone.zone.is_none()).collect();
    if silent.is_empty() {
        return None;
    }
    let count = silent.len();
    silent.sort_by(|a, b| a.spec.name().cmp(&b.spec.name()));
    let mut out = format!("not ready: {count} of {} zones are not answered\n", zones.len());
    silent.iter().take(MAX_ZONES).for_each(|zone| out += &format!("{} {}\n", zone.spec.apex, zone.word()));
    Some(out)
}
