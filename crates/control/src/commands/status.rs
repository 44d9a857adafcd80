//! `nomen ctl status`: the state of the server.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tls::ServerCertificate;
use transport::unix_now;
use wire::UnixTime;

use crate::database_state::DatabaseState;
use crate::parts::ServerParts;
use telemetry::process::resident_memory;
use zone_manager::managed::ZoneStatus;
use zone_manager::managed::examination::SignatureAge;

/// Largest number of faults of the last reload, and of signing, that are shown.
const MAX_FAULTS: usize = 20;
/// Largest number of files shown whose names are not zone names.
const MAX_REFUSED_FILES: usize = 20;

/// Returns the state of the server.
pub(super) fn status(parts: &ServerParts) -> Value {
    let ServerParts { frontend, table, secondaries, recursive, in_force, logging, process, .. } = parts;
    let (zones, folders, now) = (table.all(), table.folders(), unix_now());
    let ages = || zones.iter().filter_map(|z| Some(z.examined.as_ref()?.signatures?.age(now)));
    let aged = |age| ages().filter(|one| *one == age).count();
    let count = |word| zones.iter().filter(|z| z.word() == word).count();
    let listeners: Vec<Value> = frontend
        .listeners()
        .iter()
        .map(|listener| {
            json!({
                "address": listener.local.to_string(),
                "transport": listener.carrier,
                "queries": listener.totals.queries,
            })
        })
        .collect();
    let last = table.last_reload().map(|last| match last.result {
        Ok(report) => json!({
            "at": UnixTime::from(last.at).as_secs(),
            "summary": report.summary,
            "complaint": report.complaint(),
            "faults": report.faults.iter().take(MAX_FAULTS).collect::<Vec<_>>(),
        }),
        Err(error) => json!({"at": UnixTime::from(last.at).as_secs(), "error": error.to_string()}),
    });
    let local_root = recursive.as_ref().and_then(|recursive| recursive.local_root.status());
    let local_root = local_root.map(|status| {
        json!({
            "state": status.word,
            "serial": status.serial.map(|serial| serial.0),
            "fault": status.fault,
            "signed_until": status.signed_until.map(UnixTime::as_secs),
        })
    });
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "started": UnixTime::from(process.started).as_secs(),
        "uptime_seconds": process.since.elapsed().as_secs(),
        "configuration": in_force.source,
        "listeners": listeners,
        "workers": in_force.settings().server.threads.workers.count(),
        "tcp_connections": frontend.tcp_limits.current(),
        "certificates": certificates(parts),
        "acme": acme(parts),
        "zones": ZoneStatus::WORDS.map(|word| (word, count(word))).into_iter().collect::<BTreeMap<_, _>>(),
        "secondary_zones": secondaries.states().words().into_iter().collect::<BTreeMap<_, _>>(),
        "signatures": {
            "expiring": aged(SignatureAge::Expiring),
            "expired": aged(SignatureAge::Expired),
        },
        "signing_faults": signing_faults(parts),
        "catalogs": table.catalogs(),
        "local_root": local_root,
        "held_back": folders.held.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "refused": folders.refused.iter().take(MAX_REFUSED_FILES).map(ToString::to_string).collect::<Vec<_>>(),
        "log": logging.target(),
        "memory_bytes": resident_memory(),
        "last_reload": last,
        "pending_keys": in_force.pending(),
        "database": DatabaseState::of(parts).map(|state| state.json()),
        "sandbox": sandbox(),
    })
}

/// Returns zones whose keys and signatures are not maintained, each with the reason.
fn signing_faults(parts: &ServerParts) -> Vec<Value> {
    let all = parts.changes.iter().flat_map(|changes| changes.all_signing());
    let faults = all.filter_map(|(apex, status)| {
        let fault = status.fault.as_ref()?;
        Some(json!({"zone": apex.to_string(), "fault": fault}))
    });
    faults.take(MAX_FAULTS).collect()
}

/// Returns the certificates of TLS listeners.
fn certificates(parts: &ServerParts) -> Vec<Value> {
    let of = |certificate: &ServerCertificate| {
        json!({
            "file": certificate.file.as_ref().map(|file| file.display().to_string()),
            "names": certificate.names,
            "expires": UnixTime::from(certificate.not_after).as_secs(),
            "pin": certificate.pin().map(|pin| pin.to_string()),
        })
    };
    parts.frontend.certificates.in_use().iter().map(|certificate| of(certificate)).collect()
}

/// Returns the state of the certificate that this server orders from a CA; null if it orders none.
fn acme(parts: &ServerParts) -> Option<Value> {
    let status = parts.issuing.status()?;
    let state = match (status.is_ordering, &status.fault, status.expires) {
        (true, ..) => "ordering",
        (false, Some(_), _) => "failed",
        (false, None, Some(_)) => "obtained",
        (false, None, None) => "waiting",
    };
    Some(json!({
        "names": status.names,
        "directory": status.directory,
        "state": state,
        "next_attempt": status.next.as_secs(),
        "failures": status.failures,
        "fault": status.fault,
        "expires": status.expires.map(UnixTime::as_secs),
        "challenge": status.challenge,
        "renewal": if status.is_suggested { "suggested" } else { "own" },
        "renewal_fault": status.renewal_fault,
        "records_left": status.has_records,
    }))
}

/// Returns what the sandbox takes away, part by part.
fn sandbox() -> Value {
    let Some(sandbox) = sandbox::current() else { return "off".into() };
    json!({
        "landlock": sandbox.landlock_version().map_or_else(|| json!("no"), Value::from),
        "seccomp": sandbox.calls.as_ref().map_or_else(|why| format!("no: {why}"), |()| "yes".into()),
        "no_new_privileges": sandbox.no_new_privileges,
        "capabilities": if sandbox.no_capabilities { "none" } else { "some" },
        "memory_readable_by_others": sandbox.dumpable,
        "memory_executable": sandbox.calls.is_err(),
    })
}
