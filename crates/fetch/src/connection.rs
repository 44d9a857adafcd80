//! Connections to servers: TCP to the address that answers first, and TLS.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use url::{Host, Url};

use crate::fault::FetchFault;

/// Longest time to connect, TLS included.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between the attempts to connect to two addresses (RFC 8305 §5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Most addresses of a name that are tried.
const MAX_ADDRESSES: usize = 8;

/// How the names of servers are resolved.
pub trait HostAddresses {
    /// Returns the addresses of a name, preferred ones first, or why there are none.
    fn addresses(&self, host: &str) -> impl Future<Output = Result<Vec<IpAddr>, String>> + Send;
}

/// A connection, with or without TLS.
pub(crate) enum Connection {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Connects to the server of a URL.
pub(crate) async fn connect(
    url: &Url,
    ca_file: Option<&Path>,
    hosts: &impl HostAddresses,
) -> Result<Connection, FetchFault> {
    let no_host = || FetchFault::Setup("the URL has no server".into());
    let (host, port) = (url.host().ok_or_else(no_host)?, url.port_or_known_default().unwrap_or(443));
    let (addresses, name) = match host {
        Host::Ipv4(address) => (vec![IpAddr::from(address)], ServerName::from(IpAddr::from(address))),
        Host::Ipv6(address) => (vec![IpAddr::from(address)], ServerName::from(IpAddr::from(address))),
        Host::Domain(name) => {
            let of_host = |why| FetchFault::Host(name.to_owned(), why);
            let addresses = hosts.addresses(name).await.map_err(of_host)?;
            let server = ServerName::try_from(name.to_owned());
            (addresses, server.map_err(|fault| FetchFault::Setup(fault.to_string()))?)
        }
    };
    let open = async {
        let stream = first_connection(url, &addresses, port).await?;
        if url.scheme() != "https" {
            return Ok(Connection::Plain(stream));
        }
        let connector = TlsConnector::from(Arc::new(client_config(ca_file)?));
        let stream = connector.connect(name, stream).await.map_err(FetchFault::Tls)?;
        Ok(Connection::Tls(Box::new(stream)))
    };
    timeout(CONNECT_TIMEOUT, open).await.unwrap_or(Err(FetchFault::ConnectTimeout(CONNECT_TIMEOUT)))
}

/// Connects to these addresses, each a little later than the one before, and returns the first connection.
async fn first_connection(url: &Url, addresses: &[IpAddr], port: u16) -> Result<TcpStream, FetchFault> {
    let mut attempts = JoinSet::new();
    for (number, address) in (0_u32..).zip(addresses.iter().take(MAX_ADDRESSES)) {
        let address = SocketAddr::new(*address, port);
        attempts.spawn(async move {
            sleep(ATTEMPT_DELAY * number).await;
            TcpStream::connect(address).await.map_err(|error| FetchFault::Connect(address, error))
        });
    }
    let mut fault = FetchFault::Host(url.host_str().unwrap_or_default().to_owned(), "it has none".into());
    while let Some(ended) = attempts.join_next().await {
        match ended {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(of_address)) => fault = of_address,
            // An attempt has no code that panics.
            Err(_) => {}
        }
    }
    Err(fault)
}

/// Returns the settings of TLS, with the CA certificates of the file or else of the system.
fn client_config(ca_file: Option<&Path>) -> Result<ClientConfig, FetchFault> {
    let roots = tls::authorities(ca_file).map_err(FetchFault::Authorities)?;
    let builder = ClientConfig::builder_with_provider(tls::provider()).with_safe_default_protocol_versions();
    let builder = builder.map_err(|fault| FetchFault::Setup(fault.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
