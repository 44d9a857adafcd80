//! One connection of HTTP/3, after its handshake: its control streams, and the ends that faults of its
//! requests lead to.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use quinn::{Connection, ReadError, RecvStream, SendStream, VarInt};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{timeout, timeout_at};
use transport::HandlerFactory;

use super::client::QuicClient;
use super::drive::{StreamService, drive};
use super::end::{End, lost};
use super::request::{self, RequestFault, code};
use crate::http3::{self, ControlStreams, H3Code, H3Fault, UniStream};
use crate::tcp::{Close, ConnectionEvent};

/// Most bytes of a unidirectional stream that are read at once.
const CONTROL_STEP: usize = 4096;
/// Longest wait until the last frame of the control stream is on its way.
const FAREWELL: Duration = Duration::from_millis(50);

/// HTTP/3, for the streams of one connection.
#[derive(Clone)]
struct Requests {
    /// The client's control streams.
    open: Rc<RefCell<ControlStreams>>,
    /// The server's control stream; it stays open until the connection ends.
    control: Rc<RefCell<Option<SendStream>>>,
}

impl StreamService for Requests {
    const NO_ERROR: VarInt = code(H3Code::NoError);
    const EXCESSIVE_LOAD: VarInt = code(H3Code::ExcessiveLoad);
    const TAKES_LATE_STREAMS: bool = false;

    async fn serve<F: HandlerFactory>(
        self,
        quic: Rc<QuicClient<F>>,
        to_client: SendStream,
        from_client: RecvStream,
    ) -> Result<(), End> {
        request::serve(&quic, to_client, from_client).await.map_err(end_of)
    }

    async fn follow(self, from_client: RecvStream) -> Result<(), End> {
        follow(from_client, &self.open).await.map_err(|fault| end_of(RequestFault::Protocol(fault)))
    }

    async fn announce_end(&self, next: u64) {
        let Some(mut control) = self.control.take() else { return };
        let _ = timeout(FAREWELL, control.write_all(&http3::goaway(next))).await;
        self.control.replace(Some(control));
    }
}

/// Takes streams until the connection ends.
pub(super) async fn serve<F: HandlerFactory>(
    connection: &Connection,
    quic: &Rc<QuicClient<F>>,
    events: &mut UnboundedReceiver<ConnectionEvent>,
) -> End {
    let first = Instant::now() + quic.times().first_message;
    let control = match timeout_at(first.into(), begin(connection)).await {
        Ok(Ok(control)) => control,
        Ok(Err(())) => return lost_end(connection),
        Err(_) => return (Close::First, code(H3Code::StreamCreation), "no stream for settings is allowed"),
    };
    let control = Rc::new(RefCell::new(Some(control)));
    drive(connection, quic, events, Requests { open: Rc::default(), control }).await
}

/// Opens the server's control stream, and sends the settings.
async fn begin(connection: &Connection) -> Result<SendStream, ()> {
    let mut control = connection.open_uni().await.map_err(|_| ())?;
    control.write_all(&http3::opening()).await.map_err(|_| ())?;
    Ok(control)
}

/// Returns the end of a connection that this side did not close.
fn lost_end(connection: &Connection) -> End {
    let close = connection.close_reason().map_or(Close::Error, |error| lost(&error));
    (close, code(H3Code::NoError), "")
}

/// Reads a unidirectional stream of the client until it ends.
async fn follow(mut from_client: RecvStream, open: &RefCell<ControlStreams>) -> Result<(), H3Fault> {
    let mut stream = UniStream::default();
    loop {
        match from_client.read_chunk(CONTROL_STEP, true).await {
            Ok(Some(chunk)) => {
                if !stream.read(&chunk.bytes, &mut open.borrow_mut())? {
                    let _ = from_client.stop(code(H3Code::StreamCreation));
                    return Ok(());
                }
            }
            Ok(None) | Err(ReadError::Reset(_)) => return stream.end(),
            // The connection is lost.
            Err(_) => return Ok(()),
        }
    }
}

/// Returns the end of a connection by one of its streams.
fn end_of(fault: RequestFault) -> End {
    match fault {
        RequestFault::Protocol(fault) => (Close::Protocol, code(fault.code), fault.reason),
        RequestFault::Write => (Close::Write, code(H3Code::ExcessiveLoad), "answers are not read"),
    }
}
