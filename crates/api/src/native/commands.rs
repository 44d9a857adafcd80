//! Executes commands of the control socket, with their result or their text as the reply.

use std::sync::Arc;

use hyper::body::Bytes;
use serde_json::json;
use tokio::sync::mpsc;

use control::api_figures::ApiLimit;
use control::commands::execute;
use control::protocol::{AnswerLine, ControlCommand};

use super::faults::fault_of;
use crate::parts::ApiParts;
use crate::reply::{ApiFault, Reply};

/// Seconds after which a client may ask again for a dump if there are too many.
const RETRY_SECONDS: u64 = 10;
/// Pieces of a long output that wait for the client.
const WAITING_PIECES: usize = 4;

/// Executes a command without a long output. A result that is a text is the member `result` of the reply.
pub(super) async fn run(api: &ApiParts, command: ControlCommand) -> Result<Reply, ApiFault> {
    let (lines, _) = mpsc::channel(1);
    let result = execute(&api.server, command, &lines).await.map_err(fault_of)?;
    Ok(Reply::ok(if result.is_string() { json!({"result": result}) } else { result }))
}

/// Executes a command whose output is text. The status is that of the command if it fails before its first
/// piece. The output ends if the client does not read for `request-timeout`.
pub(super) async fn text(api: &ApiParts, command: ControlCommand) -> Result<Reply, ApiFault> {
    let Ok(place) = Arc::clone(&api.dumps).try_acquire_owned() else {
        api.server.api_figures.refused_by(ApiLimit::Dumps);
        return Err(ApiFault::too_many("as many dumps are being sent as may be", RETRY_SECONDS));
    };
    let (lines, mut pieces) = mpsc::channel(WAITING_PIECES);
    let server = api.server.clone();
    let work = tokio::spawn(async move { execute(&server, command, &lines).await });
    let Some(first) = pieces.recv().await else {
        return match work.await {
            Ok(Ok(_)) => Ok(Reply::Text(hyper::StatusCode::OK, TEXT, String::new())),
            Ok(Err(fault)) => Err(fault_of(fault)),
            Err(_) => Err(ApiFault::new(hyper::StatusCode::INTERNAL_SERVER_ERROR, "the command has failed")),
        };
    };
    let (out, body) = mpsc::channel(WAITING_PIECES);
    let longest = api.bounds().request.0;
    tokio::spawn(async move {
        let mut next = Some(first);
        while let Some(AnswerLine::Text { text }) = next {
            if !matches!(tokio::time::timeout(longest, out.send(Bytes::from(text))).await, Ok(Ok(()))) {
                break;
            }
            next = pieces.recv().await;
        }
        // The command ends before its place is free.
        drop(pieces);
        let _ = work.await;
        drop(place);
    });
    Ok(Reply::Stream(TEXT, body))
}

/// The media type of text.
const TEXT: &str = "text/plain; charset=utf-8";
