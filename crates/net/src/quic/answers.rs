//! What streams of both protocols do: reading what has come, having the handler of the worker answer a query,
//! and writing, until the client has acknowledged the answer.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use quinn::{Chunk, ReadError, RecvStream, SendStream, VarInt, WriteError};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{timeout, timeout_at};
use transport::{HandlerFactory, MAX_MESSAGE, MessageStream, Outcome};

use super::client::{Expected, QuicClient, Waiting};
use crate::tcp::{ConnectionEvent, Late};

/// Bytes that a client must acknowledge or read within the write timeout.
const WRITE_PROGRESS: usize = 4096;

/// The error codes with which a protocol ends streams.
pub(super) struct StreamCodes {
    /// The client does not want the answer.
    pub(super) cancelled: VarInt,
    /// The server cannot complete an answer.
    pub(super) internal: VarInt,
    /// The query gets no answer.
    pub(super) no_answer: VarInt,
}

/// What the handler answers.
pub(super) enum Answer {
    /// One message.
    Message(Vec<u8>),
    /// Several.
    Stream(Box<dyn MessageStream>),
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

/// The client reads too slowly, which ends its connection.
pub(super) struct TooSlow;

/// The client cancels a query before it has sent it.
pub(super) struct Withdrawn;

impl From<WriteError> for Unanswered {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Stopped(_) => Unanswered::Cancelled,
            _ => Unanswered::Lost,
        }
    }
}

/// Reads what has come on a stream, `most` bytes at once; `None` at its end.
pub(super) async fn chunk(from_client: &mut RecvStream, most: usize) -> Result<Option<Chunk>, Withdrawn> {
    from_client.read_chunk(most, true).await.map_err(|error| match error {
        ReadError::Reset(_) | ReadError::ConnectionLost(_) => Withdrawn,
        // The stream is not of the kinds that these are about.
        ReadError::ClosedStream | ReadError::IllegalOrderedRead | ReadError::ZeroRttRejected => Withdrawn,
    })
}

/// Counts a query that its client cancels, and ends its stream.
pub(super) fn cancel<F: HandlerFactory>(
    quic: &QuicClient<F>,
    to_client: &mut SendStream,
    codes: &StreamCodes,
) {
    quic.stats.quic_cancelled.add(1);
    let _ = to_client.reset(codes.cancelled);
}

/// Has the handler answer a query. `name` is that which the client has written for itself in the query's
/// path.
pub(super) async fn answer<F: HandlerFactory>(
    quic: &QuicClient<F>,
    message: &[u8],
    name: Option<&Arc<str>>,
    to_client: &mut SendStream,
    codes: &StreamCodes,
) -> Result<Answer, Unanswered> {
    let name = name.or(quic.name.as_ref());
    let id = quic.number();
    let (sender, mut late) = unbounded_channel();
    let _expected = Expected::new(&quic.events, id, sender);
    let stats = &quic.stats;
    stats.batches.add(1);
    stats.queries.add(1);
    stats.bytes_in.add(message.len() as u64);
    let (outcome, reply) = quic.buffers.borrow_mut().stage().answer_one(message, quic.client, name, id);
    match outcome {
        Outcome::Reply(len) if (1..=MAX_MESSAGE).contains(&len) => {
            stats.replies.add(1);
            stats.bytes_out.add(len as u64);
            Ok(Answer::Message(reply))
        }
        Outcome::Reply(_) => {
            stats.bad_replies.add(1);
            Err(Unanswered::Reset(codes.internal))
        }
        Outcome::Drop => {
            stats.dropped.add(1);
            Err(Unanswered::Reset(codes.no_answer))
        }
        Outcome::Stream(stream) => {
            stats.streams.add(1);
            Ok(Answer::Stream(stream))
        }
        Outcome::Pending => {
            stats.pending.add(1);
            match settled(&mut late, to_client, codes.cancelled).await? {
                Late::Message(message) => Ok(Answer::Message(message)),
                Late::Stream(stream) => Ok(Answer::Stream(stream)),
                Late::Nothing => Err(Unanswered::Reset(codes.no_answer)),
            }
        }
    }
}

/// Waits until a pending query is settled. One that the client cancels meanwhile counts as being answered
/// until then: else a client could have any number of queries answered at a time. Its stream is reset with
/// the code `cancelled`.
async fn settled(
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

/// Ends a stream whose answer is in the buffer of QUIC once the client has acknowledged it, or at once if
/// there is none. `active` counts the query as being answered.
///
/// # Errors
/// [`TooSlow`].
pub(super) async fn end<F: HandlerFactory, A>(
    quic: &QuicClient<F>,
    to_client: &mut SendStream,
    written: Result<Waiting<'_>, Unanswered>,
    active: A,
    codes: &StreamCodes,
) -> Result<(), TooSlow> {
    let ended = match written {
        Ok(unsent) => {
            // The answer is on its way: the client may have the next query answered.
            drop(active);
            acknowledged(quic, to_client, &unsent).await
        }
        Err(unanswered) => Err(unanswered),
    };
    match ended {
        Ok(()) | Err(Unanswered::Lost) => {}
        Err(Unanswered::Cancelled) => cancel(quic, to_client, codes),
        Err(Unanswered::Reset(code)) => {
            let _ = to_client.reset(code);
        }
        Err(Unanswered::TooSlow) => return Err(TooSlow),
    }
    Ok(())
}

/// Waits until the client has acknowledged an answer that is in the buffer of QUIC.
async fn acknowledged<F: HandlerFactory>(
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
