//! Which command is whose: each goes to the file that knows its part of the server, and is answered with JSON.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::parts::Parts;
use super::{Command, Frame, True, explain, stats, status, zones};
use crate::zones::keeping::{ReloadFault, Reloaded};

/// Begins to answer; the last frame is followed by the end of the channel.
pub(super) fn answer(parts: &Arc<Parts>, command: Command, frames: mpsc::Sender<Frame>) {
    let parts = Arc::clone(parts);
    match command {
        Command::Reload => drop(tokio::spawn(finish_reload(parts.keeping.reload(), frames))),
        Command::ZoneReload { name } => match zones::apex(&name) {
            Ok(apex) => drop(tokio::spawn(finish_reload(parts.keeping.reload_zone(apex), frames))),
            Err(error) => send(&frames, Err(error)),
        },
        Command::ZoneDump { name } => {
            tokio::task::spawn_blocking(move || zones::dump(&parts.kept, &name, &frames));
        }
        Command::Stop => send(&frames, Ok(json!("stopping"))),
        // Listing a million zones takes a while: not on the thread that hears signals.
        other => {
            tokio::task::spawn_blocking(move || {
                let result = now(&parts, &other);
                send(&frames, result);
            });
        }
    }
}

/// Commands that are answered from what is known.
fn now(parts: &Parts, command: &Command) -> Result<Value, String> {
    let Parts { frontend, kept, images, in_force, logging, process, .. } = parts;
    match command {
        Command::Status => Ok(status::status(frontend, kept, in_force, process)),
        Command::Stats => Ok(stats::stats(frontend, images.as_deref(), logging)),
        Command::ZoneList { failed } => Ok(zones::list(kept, *failed)),
        Command::ZoneStatus { name } => zones::status(kept, &frontend.engine, in_force, name),
        Command::Explain { name, rtype, dnssec } => {
            let max_chain = in_force.settings().server.answers.max_chain.0;
            explain::explain(&frontend.engine, max_chain, name, rtype, *dnssec)
        }
        Command::Reload | Command::ZoneReload { .. } | Command::ZoneDump { .. } | Command::Stop => {
            Ok(Value::Null)
        }
    }
}

/// Sends an answer of one frame.
pub(super) fn send(frames: &mpsc::Sender<Frame>, result: Result<Value, String>) {
    // The channel is empty, so there is room; the client may have gone.
    let _ = frames.try_send(last(result));
}

/// The last frame of an answer.
pub(super) fn last(result: Result<Value, String>) -> Frame {
    match result {
        Ok(data) => Frame::Done { ok: True, data },
        Err(error) => Frame::Fault { ok: false, error },
    }
}

async fn finish_reload(result: oneshot::Receiver<Reloaded>, frames: mpsc::Sender<Frame>) {
    // Whoever took the request and let go of it is stopping.
    let result = result.await.unwrap_or(Err(ReloadFault::Stopping));
    let result = result.map(|summary| json!(summary)).map_err(|fault| fault.to_string());
    let _ = frames.send(last(result)).await;
}
