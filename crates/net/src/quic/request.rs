//! One request of HTTP/3: it is read, its query is passed to the handler of the worker, and the response is
//! written, until the client has acknowledged it.

use std::sync::Arc;

use hyper::header::HeaderValue;
use hyper::{HeaderMap, Response};
use quinn::{RecvStream, SendStream, VarInt};
use tokio::time::timeout;
use transport::{HandlerFactory, MAX_MESSAGE};

use super::answers::{
    self, Answer, StreamCodes, TooSlow, Unanswered, Withdrawn, cancel, chunk, end, write_bytes,
};
use super::client::{QuicClient, Waiting};
use crate::http3::{self, H3Code, H3Fault, MAX_FIELDS, Request, RequestReader};
use crate::tcp::https::message::{self, Asked, BadRequest, Reply};

const CODES: StreamCodes = StreamCodes {
    cancelled: code(H3Code::RequestCancelled),
    internal: code(H3Code::Internal),
    no_answer: code(H3Code::RequestCancelled),
};

/// Why a request ends its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestFault {
    /// The client broke the rules.
    Protocol(H3Fault),
    /// The client reads too slowly.
    Write,
}

/// Why a request has no DNS message as its response.
enum NoReply {
    /// It gets another status.
    Status(BadRequest),
    /// Its stream ends.
    Unanswered(Unanswered),
}

/// Returns an error code for QUIC.
pub(super) const fn code(code: H3Code) -> VarInt {
    VarInt::from_u32(code as u32)
}

/// Reads a request and answers it.
///
/// # Errors
/// Why the connection has to end.
pub(super) async fn serve<F: HandlerFactory>(
    quic: &QuicClient<F>,
    mut to_client: SendStream,
    mut from_client: RecvStream,
) -> Result<(), RequestFault> {
    let active = quic.active();
    let asked = match timeout(quic.times().message, read(quic, &mut from_client)).await {
        Ok(Ok(Some(request))) => asked(quic, request),
        Ok(Ok(None)) => {
            cancel(quic, &mut to_client, &CODES);
            return Ok(());
        }
        Ok(Err(fault)) if fault.ends_connection => return Err(RequestFault::Protocol(fault)),
        Ok(Err(fault)) => {
            quic.stats.https_bad_requests.add(1);
            let _ = to_client.reset(code(fault.code));
            let _ = from_client.stop(code(fault.code));
            return Ok(());
        }
        Err(_) => Err(BadRequest::Timeout),
    };
    // What is left of a request is not read: the response does not depend on it.
    let _ = from_client.stop(code(H3Code::NoError));
    quic.greeted();
    quic.room_for_answer().await;
    let reply = match asked {
        Ok((asked, name)) => reply(quic, asked, name.as_ref(), &mut to_client).await,
        Err(fault) => Err(NoReply::Status(fault)),
    };
    let written = match reply {
        Ok((head, body)) => write(quic, &mut to_client, &head, &body).await,
        Err(NoReply::Status(fault)) => {
            quic.stats.https_bad_requests.add(1);
            write(quic, &mut to_client, &fault.head(), &[]).await
        }
        Err(NoReply::Unanswered(unanswered)) => Err(unanswered),
    };
    end(quic, &mut to_client, written, active, &CODES).await.map_err(|TooSlow| RequestFault::Write)
}

/// Reads a request; `None` if the client cancels it.
async fn read<F: HandlerFactory>(
    quic: &QuicClient<F>,
    from_client: &mut RecvStream,
) -> Result<Option<Request>, H3Fault> {
    let (mut reader, mut partial) = (RequestReader::new(MAX_MESSAGE), quic.partial());
    loop {
        match chunk(from_client, MAX_FIELDS).await {
            Ok(Some(chunk)) => {
                reader.read(&chunk.bytes)?;
                partial.set(reader.kept());
            }
            Ok(None) => return reader.end().map(Some),
            Err(Withdrawn) => return Ok(None),
        }
    }
}

/// Returns what a request asks for, and the name that the client has written for itself in its path.
fn asked<F: HandlerFactory>(
    quic: &QuicClient<F>,
    request: Request,
) -> Result<(Asked, Option<Arc<str>>), BadRequest> {
    let (source, name) = message::source(&request.head, &quic.config)?;
    let body = request.body.ok_or(BadRequest::TooLong);
    let (target, client) = (quic.oblivious.as_deref(), quic.client.peer.ip());
    Ok((message::asked(source, body, target, client, &quic.stats)?, name))
}

/// Returns the response to a request.
async fn reply<F: HandlerFactory>(
    quic: &QuicClient<F>,
    asked: Asked,
    name: Option<&Arc<str>>,
    to_client: &mut SendStream,
) -> Result<Reply, NoReply> {
    match asked {
        Asked::Query { message, seal } => {
            let reply = answer(quic, &message, name, to_client).await?;
            message::response(reply, seal, quic.fresh).map_err(NoReply::Status)
        }
        Asked::Configs(configs) => Ok(message::configs(configs)),
    }
}

/// Has the handler answer a query. Returns its reply: HTTP carries no more than one message.
async fn answer<F: HandlerFactory>(
    quic: &QuicClient<F>,
    message: &[u8],
    name: Option<&Arc<str>>,
    to_client: &mut SendStream,
) -> Result<Vec<u8>, NoReply> {
    match answers::answer(quic, message, name, to_client, &CODES).await.map_err(NoReply::Unanswered)? {
        Answer::Message(message) => Ok(message),
        Answer::Stream(stream) => message::only(stream).map_err(|fault| match fault {
            Some(fault) => NoReply::Status(fault),
            None => NoReply::Unanswered(Unanswered::Reset(CODES.internal)),
        }),
    }
}

/// Writes a response, and ends the stream. Returns the bytes that may not have reached the client yet.
async fn write<'q, F: HandlerFactory>(
    quic: &'q QuicClient<F>,
    to_client: &mut SendStream,
    head: &Response<()>,
    body: &[u8],
) -> Result<Waiting<'q>, Unanswered> {
    let fields = fields(head.headers());
    let section = http3::response(head.status().as_u16(), fields, body.len());
    let mut bytes = http3::data_head(&section, body.len());
    bytes.extend_from_slice(body);
    let unsent = quic.unsent(bytes.len());
    write_bytes(quic, to_client, &bytes).await?;
    let _ = to_client.finish();
    Ok(unsent)
}

fn fields(headers: &HeaderMap<HeaderValue>) -> impl Iterator<Item = (&str, &[u8])> {
    headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()))
}
