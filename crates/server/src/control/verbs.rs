//! What the commands on the control socket do. Each gets the running server and answers with JSON.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use engine::stats::{LATENCY_BOUNDS, RCODES, SIZE_BOUNDS, TYPES, place_label};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use wire::Rcode;

use super::{Frame, Request, True, explain};
use crate::app::{App, ConfigSource, lock};
use crate::config::pattern::zone_name;
use crate::zones::reload::{Job, Summary};
use crate::zones::{Apex, Origin, ZoneState, load};

/// Size of the pieces a long output is sent in, in octets.
const PIECE: usize = 64 * 1024;

/// Begins to answer; the last frame is followed by the end of the channel.
pub(super) fn answer(app: &Arc<App>, request: Request, frames: mpsc::Sender<Frame>) {
    let app = Arc::clone(app);
    match request {
        Request::Reload => {
            let (reply, result) = oneshot::channel();
            let asked = app.reloader.ask(Job::All(Some(reply)));
            tokio::spawn(finish_reload(asked, result, frames));
        }
        Request::ZoneReload { name } => match apex(&name) {
            Ok(apex) => {
                let (reply, result) = oneshot::channel();
                let asked = app.reloader.ask(Job::Zone(apex, reply));
                tokio::spawn(finish_reload(asked, result, frames));
            }
            Err(error) => send(&frames, Err(error)),
        },
        Request::ZoneDump { name } => {
            tokio::task::spawn_blocking(move || dump(&app, &name, &frames));
        }
        Request::Stop => send(&frames, Ok(json!("stopping"))),
        // Listing a million zones takes a while: not on the thread that hears signals.
        other => {
            tokio::task::spawn_blocking(move || {
                let result = now(&app, &other);
                send(&frames, result);
            });
        }
    }
}

/// Commands that are answered from what is known.
fn now(app: &Arc<App>, request: &Request) -> Result<Value, String> {
    match request {
        Request::Status => Ok(status(app)),
        Request::Stats => Ok(stats(app)),
        Request::ZoneList { failed } => Ok(zone_list(app, *failed)),
        Request::ZoneStatus { name } => find(app, name).map(|state| zone_status(app, &state)),
        Request::Explain { name, rtype, dnssec } => explain::explain(app, name, rtype, *dnssec),
        Request::Reload | Request::ZoneReload { .. } | Request::ZoneDump { .. } | Request::Stop => {
            Ok(Value::Null)
        }
    }
}

fn send(frames: &mpsc::Sender<Frame>, result: Result<Value, String>) {
    // The channel is empty, so there is room; the client may have gone.
    let _ = frames.try_send(last(result));
}

fn last(result: Result<Value, String>) -> Frame {
    match result {
        Ok(data) => Frame::Done { ok: True, data },
        Err(error) => Frame::Fault { ok: false, error },
    }
}

async fn finish_reload(
    asked: bool,
    result: oneshot::Receiver<Result<Summary, String>>,
    frames: mpsc::Sender<Frame>,
) {
    let result = match (asked, result.await) {
        (true, Ok(result)) => result.map(|summary| json!(summary)),
        _ => Err("the server is stopping".into()),
    };
    let _ = frames.send(last(result)).await;
}

fn apex(name: &str) -> Result<Apex, String> {
    zone_name(name).map(|n| n.as_name().as_wire().into())
}

fn find(app: &App, name: &str) -> Result<Arc<ZoneState>, String> {
    let apex = apex(name)?;
    app.zones.load().get(&apex).cloned().ok_or_else(|| format!("there is no zone {name} here"))
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

fn status(app: &App) -> Value {
    let zones = app.zones.load();
    let count = |word| zones.values().filter(|z| z.word() == word).count();
    let listeners: Vec<Value> = app
        .net_totals()
        .iter()
        .map(|(addr, transport, totals)| {
            json!({"address": addr.to_string(), "transport": transport, "queries": totals.queries})
        })
        .collect();
    let last = lock(&app.last_reload).clone().map(|last| match last.result {
        Ok(summary) => json!({"at": seconds(last.at), "summary": summary}),
        Err(error) => json!({"at": seconds(last.at), "error": error}),
    });
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "started": seconds(app.started),
        "uptime_seconds": app.started_at.elapsed().as_secs(),
        "configuration": match &app.source {
            ConfigSource::File(path) => path.display().to_string(),
            ConfigSource::BuiltIn => "built in".into(),
        },
        "listeners": listeners,
        "workers": app.settings.load().server.workers.count(),
        "tcp_connections": app.tcp_limits.current(),
        "zones": {"ok": count("ok"), "old": count("old"), "failed": count("failed")},
        "memory_bytes": crate::metrics::resident_memory(),
        "last_reload": last,
    })
}

/// Counters as one flat object: names are paths, so that text output can be searched.
fn stats(app: &App) -> Value {
    let mut all = Map::new();
    let mut put = |name: String, value: u64| {
        all.insert(name, value.into());
    };
    for (t, transport) in ["udp", "tcp"].iter().enumerate() {
        put(format!("{transport}.queries"), app.sum(|s| s.queries[t].iter().map(|c| c.get()).sum()));
        for place in 0..TYPES {
            let count = app.sum(|s| s.queries[t][place].get());
            if count > 0 {
                put(format!("{transport}.type.{}", place_label(place)), count);
            }
        }
        for rcode in 0..RCODES {
            let count = app.sum(|s| s.replies[t][rcode].get());
            if count > 0 {
                let label = u16::try_from(rcode).map_or_else(|_| "other".into(), |n| Rcode(n).to_string());
                put(format!("{transport}.rcode.{label}"), count);
            }
        }
        for i in 0..=SIZE_BOUNDS.len() {
            let label = SIZE_BOUNDS.get(i).map_or("more".into(), |b| b.to_string());
            put(format!("{transport}.size.{label}"), app.sum(|s| s.sizes[t][i].get()));
        }
        put(format!("{transport}.octets.in"), app.sum(|s| s.octets_in[t].get()));
        put(format!("{transport}.octets.out"), app.sum(|s| s.octets_out[t].get()));
    }
    for i in 0..=LATENCY_BOUNDS.len() {
        let label = LATENCY_BOUNDS.get(i).map_or("more".into(), |b| format!("{}us", b / 1000));
        put(format!("latency.{label}"), app.sum(|s| s.latency[i].get()));
    }
    put("truncated".into(), app.sum(|s| s.truncated.get()));
    put("unanswered".into(), app.sum(|s| s.dropped.get()));
    put("dnssec_ok".into(), app.sum(|s| s.dnssec_ok.get()));
    put("log.dropped".into(), app.logging.dropped() as u64);
    put("query_log.dropped".into(), app.query_logger.dropped());
    for (addr, transport, totals) in app.net_totals() {
        for (name, value) in totals.iter().filter(|(_, value)| *value > 0) {
            put(format!("net.{addr}.{transport}.{name}"), value);
        }
    }
    Value::Object(all)
}

fn zone_list(app: &App, only_failed: bool) -> Value {
    let zones = app.zones.load();
    let mut states: Vec<&Arc<ZoneState>> =
        zones.values().filter(|z| !only_failed || z.fault.is_some()).collect();
    states.sort_by(|a, b| a.spec.name().cmp(&b.spec.name()));
    let rows = states.iter().map(|state| {
        json!({
            "name": state.spec.name().to_string(),
            "state": state.word(),
            "serial": state.zone.as_ref().map(|z| z.serial().0),
            "records": state.zone.as_ref().map(|z| z.record_count()),
            "signed": state.zone.as_ref().map(|z| z.is_signed()),
        })
    });
    Value::Array(rows.collect())
}

fn zone_status(app: &App, state: &ZoneState) -> Value {
    let name = state.spec.name();
    let zone = state.zone.as_ref();
    let per_zone = app.settings.load().metrics.as_ref().is_some_and(|m| *m.per_zone);
    json!({
        "name": name.to_string(),
        "state": state.word(),
        "file": match &state.spec.origin {
            Origin::File(path) => path.display().to_string(),
            Origin::BuiltIn(_) => "built in".into(),
        },
        "loaded": state.loaded.map(seconds),
        "serial": zone.map(|z| z.serial().0),
        "records": zone.map(|z| z.record_count()),
        "names": zone.map(|z| z.node_count()),
        "memory_bytes": zone.map(|z| z.memory()),
        "negative_ttl": zone.map(|z| z.negative_ttl().as_secs()),
        "signed": zone.map(|z| z.is_signed()),
        "denial": zone.filter(|z| z.is_signed()).map(|z| if z.nsec3().is_some() { "NSEC3" } else { "NSEC" }),
        "warnings": state.warnings,
        "fault": state.fault.as_deref(),
        "queries": per_zone.then(|| app.engine.catalog().get(name).map(|e| e.queries())).flatten(),
    })
}

/// Sends a zone's records in pieces; waits for a client that reads slowly, and stops when it has gone.
fn dump(app: &App, name: &str, frames: &mpsc::Sender<Frame>) {
    let state = match find(app, name) {
        Ok(state) => state,
        Err(error) => return send(frames, Err(error)),
    };
    let Some(zone) = &state.zone else {
        return send(frames, Err(format!("zone {name} is not loaded")));
    };
    let mut piece = String::with_capacity(PIECE + 1024);
    let whole = load::dump(zone, &mut |line| {
        piece.push_str(line);
        piece.push('\n');
        piece.len() < PIECE || frames.blocking_send(Frame::Text { text: std::mem::take(&mut piece) }).is_ok()
    });
    if !whole {
        return;
    }
    if !piece.is_empty() && frames.blocking_send(Frame::Text { text: piece }).is_err() {
        return;
    }
    let data = json!({"zone": zone.apex().to_string(), "records": zone.record_count()});
    let _ = frames.blocking_send(last(Ok(data)));
}
