//! One stream of a connection: the query is read, passed to the handler of the worker, and its answer is
//! written, until the client has acknowledged it.

use std::pin::pin;
use std::time::Instant;

use quinn::{ReadError, RecvStream, SendStream, VarInt, WriteError};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{timeout, timeout_at};
use transport::{HandlerFactory, MAX_MESSAGE, MessageStream, Next, Outcome};

use super::client::{Expected, QuicClient, Waiting};
use super::query::{MAX_STREAM, ProtocolFault, query};
use super::settings::DoqCode;
use crate::tcp::{ConnectionEvent, Late};

/// Bytes that a client must acknowledge or read within the write timeout.
const WRITE_PROGRESS: usize = 4096;

/// Why a stream ends its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamFault {
    /// The client broke the rules.
    Protocol(ProtocolFault),
    /// The query, or the end of its stream, did not come in time.
    Timeout,
    /// The client reads too slowly.
    Write,
}

/// Why an answer is not completed.
pub(super) enum Unanswered {
    /// The client does not want it any more.
    Cancelled,
    /// The connection has ended.
    Lost,
    /// Its stream ends with this error.
    Reset(VarInt),
    /// The client reads too slowly.
    TooSlow,
}

impl From<WriteError> for Unanswered {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Stopped(_) => Unanswered::Cancelled,
            _ => Unanswered::Lost,
        }
    }
}

/// Reads the query of a stream and answers it.
///
/// # Errors
/// Why the connection has to end.
pub(super) async fn serve<F: HandlerFactory>(
    quic: &QuicClient<F>,
    mut to_client: SendStream,
    from_client: RecvStream,
) -> Result<(), StreamFault> {
    let active = quic.active();
    let bytes = match timeout(quic.times().message, read(quic, from_client)).await {
        Ok(Ok(Some(bytes))) => bytes,
        Ok(Ok(None)) => {
            quic.stats.quic_cancelled.add(1);
            let _ = to_client.reset(DoqCode::Cancelled.value());
            return Ok(());
        }
        Ok(Err(fault)) => return Err(StreamFault::Protocol(fault)),
        Err(_) => return Err(StreamFault::Timeout),
    };
    let message = query(&bytes, quic.keepalive).map_err(StreamFault::Protocol)?;
    quic.greeted();
    quic.room_for_answer().await;
    let outcome = answer(quic, message, &mut to_client).await;
    drop(bytes);
    let outcome = match outcome {
        Ok(unsent) => {
            // The answer is on its way: the client may have the next query answered.
            drop(active);
            acknowledged(quic, &to_client, &unsent).await
        }
        Err(unanswered) => Err(unanswered),
    };
    match outcome {
        Ok(()) | Err(Unanswered::Lost) => Ok(()),
        Err(Unanswered::Cancelled) => {
            quic.stats.quic_cancelled.add(1);
            let _ = to_client.reset(DoqCode::Cancelled.value());
            Ok(())
        }
        Err(Unanswered::Reset(code)) => {
            let _ = to_client.reset(code);
            Ok(())
        }
        Err(Unanswered::TooSlow) => Err(StreamFault::Write),
    }
}

/// Reads all that the client sends on a stream; `None` if it cancels the query.
async fn read<F: HandlerFactory>(
    quic: &QuicClient<F>,
    mut from_client: RecvStream,
) -> Result<Option<Vec<u8>>, ProtocolFault> {
    let (mut bytes, mut partial) = (Vec::new(), quic.partial());
    loop {
        match from_client.read_chunk(MAX_STREAM, true).await {
            Ok(Some(chunk)) => {
                if bytes.len() + chunk.bytes.len() > MAX_STREAM {
                    return Err(ProtocolFault::Trailing);
                }
                bytes.extend_from_slice(&chunk.bytes);
                partial.set(bytes.len());
            }
            Ok(None) => return Ok(Some(bytes)),
            Err(ReadError::Reset(_) | ReadError::ConnectionLost(_)) => return Ok(None),
            // The stream is not of the kinds that these are about.
            Err(ReadError::ClosedStream | ReadError::IllegalOrderedRead | ReadError::ZeroRttRejected) => {
                return Ok(None);
            }
        }
    }
}

/// Has the handler answer a query, and writes what it answers. Returns the bytes that may not have reached
/// the client yet.
async fn answer<'q, F: HandlerFactory>(
    quic: &'q QuicClient<F>,
    message: &[u8],
    to_client: &mut SendStream,
) -> Result<Waiting<'q>, Unanswered> {
    let id = quic.number();
    let (sender, mut late) = unbounded_channel();
    let _expected = Expected::new(&quic.events, id, sender);
    let stats = &quic.stats;
    stats.batches.add(1);
    stats.queries.add(1);
    stats.bytes_in.add(message.len() as u64);
    let (outcome, reply) = quic.buffers.borrow_mut().stage().answer_one(message, quic.client, id);
    match outcome {
        Outcome::Reply(len) if (1..=MAX_MESSAGE).contains(&len) => {
            stats.replies.add(1);
            stats.bytes_out.add(len as u64);
            write_last(quic, to_client, &reply).await
        }
        Outcome::Reply(_) => {
            stats.bad_replies.add(1);
            Err(Unanswered::Reset(DoqCode::Internal.value()))
        }
        Outcome::Drop => {
            stats.dropped.add(1);
            Err(Unanswered::Reset(DoqCode::Unspecified.value()))
        }
        Outcome::Stream(stream) => {
            stats.streams.add(1);
            write_stream(quic, to_client, stream).await
        }
        Outcome::Pending => {
            stats.pending.add(1);
            match settled(&mut late, to_client, DoqCode::Cancelled.value()).await? {
                Late::Message(message) => write_last(quic, to_client, &message).await,
                Late::Stream(stream) => write_stream(quic, to_client, stream).await,
                Late::Nothing => Err(Unanswered::Reset(DoqCode::Unspecified.value())),
            }
        }
    }
}

/// Waits until a pending query is settled. One that the client cancels meanwhile counts as being answered
/// until then: else a client could have any number of queries answered at a time. Its stream is reset with
/// the code `cancelled`.
pub(super) async fn settled(
    late: &mut UnboundedReceiver<ConnectionEvent>,
    to_client: &mut SendStream,
    cancelled: VarInt,
) -> Result<Late, Unanswered> {
    let mut stopped = pin!(to_client.stopped());
    let mut is_cancelled = false;
    let late = loop {
        tokio::select! {
            event = late.recv() => match event {
                Some(ConnectionEvent::Late(late)) => break late,
                None => break Late::Nothing,
                // These are for connections.
                Some(ConnectionEvent::Evict | ConnectionEvent::Drain) => {}
            },
            code = &mut stopped, if !is_cancelled => match code {
                Ok(_) => {
                    is_cancelled = true;
                    let _ = to_client.reset(cancelled);
                }
                Err(_) => return Err(Unanswered::Lost),
            },
        }
    };
    if is_cancelled { Err(Unanswered::Cancelled) } else { Ok(late) }
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

/// Writes bytes. Returns once QUIC has them all in its buffer, whose size is bounded.
pub(super) async fn write_bytes<F: HandlerFactory>(
    quic: &QuicClient<F>,
    to_client: &mut SendStream,
    framed: &[u8],
) -> Result<(), Unanswered> {
    let (mut rest, mut since, mut progress) = (framed, Instant::now(), 0);
    while !rest.is_empty() {
        let written = timeout_at((since + quic.times().write).into(), to_client.write(rest)).await;
        let n = written.map_err(|_| Unanswered::TooSlow)??;
        rest = &rest[n..];
        progress += n;
        if progress >= WRITE_PROGRESS {
            (since, progress) = (Instant::now(), 0);
            quic.progressed();
        }
    }
    Ok(())
}

/// Waits until the client has acknowledged an answer that is in the buffer of QUIC.
pub(super) async fn acknowledged<F: HandlerFactory>(
    quic: &QuicClient<F>,
    to_client: &SendStream,
    unsent: &Waiting<'_>,
) -> Result<(), Unanswered> {
    let steps = 1 + u32::try_from(unsent.len() / WRITE_PROGRESS).unwrap_or(u32::MAX);
    match timeout(quic.times().write.saturating_mul(steps), to_client.stopped()).await {
        Ok(Ok(None)) => {
            quic.progressed();
            Ok(())
        }
        Ok(Ok(Some(_))) => Err(Unanswered::Cancelled),
        Ok(Err(_)) => Err(Unanswered::Lost),
        Err(_) => Err(Unanswered::TooSlow),
    }
}
