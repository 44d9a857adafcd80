//! DNS over QUIC: one stream of a connection is one query and its answer.

use std::rc::Rc;

use quinn::{RecvStream, SendStream, VarInt};
use tokio::time::timeout;
use transport::{HandlerFactory, MAX_MESSAGE, MessageStream, Next};

use super::answers::{
    Answer, StreamCodes, TooSlow, Unanswered, Withdrawn, answer, cancel, chunk, end, write_bytes,
};
use super::client::{QuicClient, Waiting};
use super::drive::StreamService;
use super::end::End;
use super::query::{MAX_STREAM, ProtocolFault, query};
use super::settings::DoqCode;
use crate::tcp::Close;

const CODES: StreamCodes = StreamCodes {
    cancelled: DoqCode::Cancelled.value(),
    internal: DoqCode::Internal.value(),
    no_answer: DoqCode::Unspecified.value(),
};

/// DNS over QUIC, for the streams of its connections.
#[derive(Clone, Debug)]
pub(super) struct DoqStreams;

impl StreamService for DoqStreams {
    const NO_ERROR: VarInt = DoqCode::NoError.value();
    const EXCESSIVE_LOAD: VarInt = DoqCode::ExcessiveLoad.value();
    const TAKES_LATE_STREAMS: bool = true;

    async fn serve<F: HandlerFactory>(
        self,
        quic: Rc<QuicClient<F>>,
        to_client: SendStream,
        from_client: RecvStream,
    ) -> Result<(), End> {
        serve(&quic, to_client, from_client).await.map_err(end_of)
    }

    async fn follow(self, _from_client: RecvStream) -> Result<(), End> {
        Err(end_of(StreamFault::Protocol(ProtocolFault::Unidirectional)))
    }

    async fn announce_end(&self, _next: u64) {}
}

/// Why a stream ends its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamFault {
    /// The client broke the rules.
    Protocol(ProtocolFault),
    /// The query, or the end of its stream, did not come in time.
    Timeout,
    /// The client reads too slowly.
    Write,
}

/// Returns the end of a connection by one of its streams.
fn end_of(fault: StreamFault) -> End {
    match fault {
        StreamFault::Protocol(fault) => (Close::Protocol, DoqCode::Protocol.value(), fault.reason()),
        StreamFault::Timeout => (
            Close::Message,
            DoqCode::Protocol.value(),
            "a query or the end of its stream did not come in time",
        ),
        StreamFault::Write => (Close::Write, DoqCode::ExcessiveLoad.value(), "answers are not read"),
    }
}

/// Reads the query of a stream and answers it.
///
/// # Errors
/// Why the connection has to end.
async fn serve<F: HandlerFactory>(
    quic: &QuicClient<F>,
    mut to_client: SendStream,
    from_client: RecvStream,
) -> Result<(), StreamFault> {
    let active = quic.active();
    let bytes = match timeout(quic.times().message, read(quic, from_client)).await {
        Ok(Ok(Some(bytes))) => bytes,
        Ok(Ok(None)) => {
            cancel(quic, &mut to_client, &CODES);
            return Ok(());
        }
        Ok(Err(fault)) => return Err(StreamFault::Protocol(fault)),
        Err(_) => return Err(StreamFault::Timeout),
    };
    let message = query(&bytes, quic.keepalive).map_err(StreamFault::Protocol)?;
    quic.greeted();
    quic.room_for_answer().await;
    let written = match answer(quic, message, None, &mut to_client, &CODES).await {
        Ok(Answer::Message(message)) => write_last(quic, &mut to_client, &message).await,
        Ok(Answer::Stream(stream)) => write_stream(quic, &mut to_client, stream).await,
        Err(unanswered) => Err(unanswered),
    };
    drop(bytes);
    end(quic, &mut to_client, written, active, &CODES).await.map_err(|TooSlow| StreamFault::Write)
}

/// Reads all that the client sends on a stream; `None` if it cancels the query.
async fn read<F: HandlerFactory>(
    quic: &QuicClient<F>,
    mut from_client: RecvStream,
) -> Result<Option<Vec<u8>>, ProtocolFault> {
    let (mut bytes, mut partial) = (Vec::new(), quic.partial());
    loop {
        match chunk(&mut from_client, MAX_STREAM).await {
            Ok(Some(chunk)) => {
                if bytes.len() + chunk.bytes.len() > MAX_STREAM {
                    return Err(ProtocolFault::Trailing);
                }
                bytes.extend_from_slice(&chunk.bytes);
                partial.set(bytes.len());
            }
            Ok(None) => return Ok(Some(bytes)),
            Err(Withdrawn) => return Ok(None),
        }
    }
}

/// Writes the only message of an answer, and ends the stream.
async fn write_last<'q, F: HandlerFactory>(
    quic: &'q QuicClient<F>,
    to_client: &mut SendStream,
    message: &[u8],
) -> Result<Waiting<'q>, Unanswered> {
    let unsent = quic.unsent(2 + message.len());
    write(quic, to_client, message).await?;
    let _ = to_client.finish();
    Ok(unsent)
}

/// Writes the messages of an answer as the client reads them, and ends the stream.
async fn write_stream<'q, F: HandlerFactory>(
    quic: &'q QuicClient<F>,
    to_client: &mut SendStream,
    mut stream: Box<dyn MessageStream>,
) -> Result<Waiting<'q>, Unanswered> {
    let mut message = vec![0; MAX_MESSAGE];
    let mut unsent = quic.unsent(0);
    loop {
        match stream.next(&mut message) {
            Next::Message(len) if (1..=MAX_MESSAGE).contains(&len) => {
                quic.stats.replies.add(1);
                quic.stats.bytes_out.add(len as u64);
                unsent.set((unsent.len() + 2 + len).min(quic.config.tcp.max_unsent));
                write(quic, to_client, &message[..len]).await?;
            }
            Next::End => {
                let _ = to_client.finish();
                return Ok(unsent);
            }
            // The client cannot take the messages so far for the whole answer.
            Next::Message(_) | Next::Abort => {
                quic.stats.tcp_stream_failed.add(1);
                return Err(Unanswered::Reset(DoqCode::Internal.value()));
            }
        }
    }
}

/// Writes a message behind its length.
async fn write<F: HandlerFactory>(
    quic: &QuicClient<F>,
    to_client: &mut SendStream,
    message: &[u8],
) -> Result<(), Unanswered> {
    write_bytes(quic, to_client, &[&(message.len() as u16).to_be_bytes(), message].concat()).await
}
