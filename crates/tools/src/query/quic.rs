//! Queries over QUIC (RFC 9250): a connection with one query on one stream.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{
    ApplicationClose, ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, ReadError,
    RecvStream, SendStream, TokioRuntime, VarInt,
};
use tls::quic::QuicTls;
use tokio::runtime::{Builder, Runtime};

use super::secured::{TlsWanted, said};

/// Longest wait until the end of the connection has been sent.
const FAREWELL: Duration = Duration::from_millis(5);
/// The error codes of RFC 9250 §8.4.
const CODES: [&str; 6] = [
    "DOQ_NO_ERROR",
    "DOQ_INTERNAL_ERROR",
    "DOQ_PROTOCOL_ERROR",
    "DOQ_REQUEST_CANCELLED",
    "DOQ_EXCESSIVE_LOAD",
    "DOQ_UNSPECIFIED_ERROR",
];

/// A stream of a connection over QUIC. Flushing it ends what is sent, as the server expects after the query.
pub(super) struct QuicStream {
    endpoint: Endpoint,
    connection: Connection,
    to_server: SendStream,
    from_server: RecvStream,
    /// Longest time of one step.
    time: Duration,
    runtime: Runtime,
}

impl QuicStream {
    /// Connects to a server. `source`: the address to send from.
    pub(super) fn connect(
        server: SocketAddr,
        source: SocketAddr,
        wanted: &TlsWanted,
        time: Duration,
    ) -> io::Result<Self> {
        let tls = QuicTls::new(&wanted.identity(server).map_err(io::Error::other)?, server);
        let tls = tls.map_err(io::Error::other)?;
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let socket = UdpSocket::bind(source)?;
        let config = QuicClientConfig::try_from(Arc::clone(&tls.config)).map_err(io::Error::other)?;
        let (endpoint, connection, (to_server, from_server)) = runtime.block_on(async {
            let endpoint = Endpoint::new(EndpointConfig::default(), None, socket, Arc::new(TokioRuntime))?;
            let config = ClientConfig::new(Arc::new(config));
            let connecting =
                endpoint.connect_with(config, server, &tls.server_name).map_err(io::Error::other)?;
            let connection = match tokio::time::timeout(time, connecting).await {
                Ok(connected) => connected.map_err(|error| match tls.refusal() {
                    Some(refusal) => io::Error::other(said(refusal)),
                    None => lost(error),
                })?,
                Err(_) => return Err(io::ErrorKind::TimedOut.into()),
            };
            let opened = tokio::time::timeout(time, connection.open_bi()).await;
            let streams = opened.map_err(|_| io::ErrorKind::TimedOut)?.map_err(lost)?;
            Ok::<_, io::Error>((endpoint, connection, streams))
        })?;
        Ok(QuicStream { endpoint, connection, to_server, from_server, time, runtime })
    }
}

/// Returns the name of an error code.
fn named(code: VarInt) -> String {
    let known = usize::try_from(code.into_inner()).ok().and_then(|code| CODES.get(code));
    known.map_or_else(|| format!("error {code}"), |name| (*name).to_owned())
}

/// Returns why a connection has ended.
fn lost(error: ConnectionError) -> io::Error {
    match error {
        ConnectionError::TimedOut => io::ErrorKind::TimedOut.into(),
        ConnectionError::ApplicationClosed(ApplicationClose { error_code, reason }) => {
            let reason = String::from_utf8_lossy(&reason);
            // The reason is the server's: no control characters on the terminal.
            let reason = reason.escape_debug();
            let name = named(error_code);
            io::Error::other(format!("the server closed the connection: {name} ({reason})"))
        }
        ConnectionError::ConnectionClosed(close) => {
            io::Error::other(format!("the server closed the connection: {}", close.error_code))
        }
        other => io::Error::other(other),
    }
}

impl Read for QuicStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let from_server = &mut self.from_server;
        let time = self.time;
        let read = self.runtime.block_on(async { tokio::time::timeout(time, from_server.read(into)).await });
        match read.map_err(|_| io::ErrorKind::TimedOut)? {
            Ok(n) => Ok(n.unwrap_or(0)),
            Err(ReadError::Reset(code)) => {
                Err(io::Error::other(format!("the server does not answer: {}", named(code))))
            }
            Err(ReadError::ConnectionLost(error)) => Err(lost(error)),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

impl Write for QuicStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let to_server = &mut self.to_server;
        let time = self.time;
        let written =
            self.runtime.block_on(async { tokio::time::timeout(time, to_server.write(bytes)).await });
        written.map_err(|_| io::ErrorKind::TimedOut)?.map_err(io::Error::other)
    }

    fn flush(&mut self) -> io::Result<()> {
        // It fails after the first time, which does not matter.
        let _ = self.to_server.finish();
        Ok(())
    }
}

impl Drop for QuicStream {
    fn drop(&mut self) {
        self.connection.close(VarInt::from_u32(0), b"");
        let endpoint = &self.endpoint;
        let _ = self.runtime.block_on(async { tokio::time::timeout(FAREWELL, endpoint.wait_idle()).await });
    }
}
