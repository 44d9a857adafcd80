//! Connections: the hosts of a URL in order, the first that accepts writes; sockets, TLS, the settings of a
//! session.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::pki_types::ServerName;
use serde::{Deserialize, Serialize};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::Host;
use tokio_postgres::tls::{ChannelBinding, NoTls, TlsConnect, TlsStream};
use tokio_postgres::{AsyncMessage, Client, Config, Connection};
use tokio_rustls::TlsConnector;

use crate::settings::DatabaseSettings;

/// The port of PostgreSQL.
const DEFAULT_PORT: u16 = 5432;
/// Most addresses of a name that are tried.
const MAX_ADDRESSES: usize = 8;
/// The oldest version of PostgreSQL that has all that is used.
const OLDEST_SERVER: i32 = 130_000;
/// Probes of idle connections.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// Longest time of a statement that reads whole zones.
const READ_TIMEOUT: Duration = Duration::from_secs(600);

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkUse {
    /// Following changes and reading zones: statements may take long; what it writes may be lost in a crash.
    Read,
    /// Commits: durable, each within the timeout.
    Write,
    /// An operator's command: durable, and statements may take long.
    Admin,
    /// Reading the tables of PowerDNS, also from a replica: statements may take long.
    PowerDns,
}

/// A place where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServerPlace {
    Tcp { host: String, address: SocketAddr },
    Unix(PathBuf),
}

impl fmt::Display for ServerPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, address } if address.ip().to_string() == *host => address.fmt(f),
            Self::Tcp { host, address } => write!(f, "{host}:{} ({})", address.port(), address.ip()),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// A connection, and the task that drives it, which ends with it.
pub(crate) struct Link {
    pub(crate) client: Client,
    driver: JoinHandle<()>,
    signals: Arc<LinkSignals>,
    /// Version of the server.
    pub(crate) server: String,
    /// What identifies the session on the server: its process, and when that began.
    pub(crate) session: (i32, String),
    /// The timeline that the server writes, if it has this notion.
    pub(crate) timeline: Option<Timeline>,
}

/// The history that a server writes. A replica that is promoted begins a new one, with a higher number, and
/// its old primary keeps the number that it had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Timeline {
    /// What a server and its replicas have in common.
    pub(crate) system: String,
    pub(crate) number: i32,
}

/// What the task of a connection tells.
#[derive(Default)]
struct LinkSignals {
    notified: Notify,
    fault: Mutex<Option<String>>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Link {
    /// Waits for a notification.
    pub(crate) async fn notified(&self) {
        self.signals.notified.notified().await;
    }

    /// Whether the server has an earlier timeline than the newest one that is known of it and its replicas.
    fn is_of_old_primary(&self, newest: Option<&Timeline>) -> bool {
        let (Some(here), Some(newest)) = (&self.timeline, newest) else { return false };
        here.system == newest.system && here.number < newest.number
    }

    /// Returns the reason of a fault: of this one, or why the connection ended.
    pub(crate) fn reason(&self, fault: &tokio_postgres::Error) -> String {
        let ended = self.signals.fault.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ended.filter(|_| fault.is_closed()).unwrap_or_else(|| fault_text(fault))
    }
}

/// Returns the text of a fault for operators: what the server says, with its hint.
pub(crate) fn fault_text(fault: &tokio_postgres::Error) -> String {
    if let Some(said) = fault.as_db_error() {
        let mut text = said.message().to_owned();
        for more in [said.detail(), said.hint()].into_iter().flatten() {
            text += ": ";
            text += more.trim_end_matches('.');
        }
        return text;
    }
    match std::error::Error::source(fault) {
        Some(source) => match source.downcast_ref::<io::Error>() {
            Some(error) => tls::failure_text(error),
            None => source.to_string(),
        },
        None if fault.is_closed() => "the connection was closed".into(),
        None => fault.to_string(),
    }
}

/// Connects to the first host that accepts writes. A host is passed over if it has an earlier timeline than
/// the newest one that is known: it is a primary from before a failover, and what it commits is lost.
///
/// # Errors
/// Why none does, host by host.
pub(crate) async fn connect_any(
    settings: &DatabaseSettings,
    of: LinkUse,
    newest: Option<&Timeline>,
) -> Result<(Link, ServerPlace), String> {
    let mut faults = Vec::new();
    for (number, host) in settings.url.hosts().enumerate() {
        let port = settings.url.port(number).unwrap_or(DEFAULT_PORT);
        let places = match host {
            Host::Unix(folder) => Ok(vec![ServerPlace::Unix(folder.join(format!(".s.PGSQL.{port}")))]),
            Host::Tcp(name) => addresses(settings, name, port).await,
        };
        match places {
            Err(fault) => faults.push(fault),
            Ok(places) => {
                for place in places {
                    match connect_to(settings, &place, of).await {
                        Ok(link) if link.is_of_old_primary(newest) => {
                            faults.push(format!("{place}: {}", old_primary(&link, newest)));
                        }
                        Ok(link) => return Ok((link, place)),
                        Err(fault) => faults.push(format!("{place}: {fault}")),
                    }
                }
            }
        }
    }
    Err(faults.join("; "))
}

/// Why a host with an earlier timeline is passed over.
fn old_primary(link: &Link, newest: Option<&Timeline>) -> String {
    let number = |timeline: Option<&Timeline>| timeline.map_or(0, |timeline| timeline.number);
    format!(
        "it is a primary from before a failover: its timeline is {}, and this node has followed timeline {}",
        number(link.timeline.as_ref()),
        number(newest)
    )
}

/// Returns the places of a host.
async fn addresses(settings: &DatabaseSettings, name: &str, port: u16) -> Result<Vec<ServerPlace>, String> {
    let found = match (name.parse::<IpAddr>(), &settings.hosts) {
        (Ok(address), _) => Ok(vec![address]),
        (Err(_), Some(hosts)) => {
            timed(settings.timeout, hosts(name.to_owned())).await.and_then(|found| found)
        }
        (Err(_), None) => {
            let found = timed(settings.timeout, tokio::net::lookup_host((name, port))).await;
            found.and_then(|found| {
                found
                    .map(|all| all.map(|address| address.ip()).collect())
                    .map_err(|error| wording::reason(&error))
            })
        }
    };
    let found = found.map_err(|fault| format!("{name}: {fault}"))?;
    if found.is_empty() {
        return Err(format!("{name}: no address"));
    }
    let place = |ip| ServerPlace::Tcp { host: name.to_owned(), address: SocketAddr::new(ip, port) };
    Ok(found.into_iter().take(MAX_ADDRESSES).map(place).collect())
}

/// Waits this long at most.
async fn timed<T>(limit: Duration, work: impl Future<Output = T>) -> Result<T, String> {
    timeout(limit, work).await.map_err(|_| format!("no answer within {limit:?}"))
}

/// Connects to one place, which must accept writes.
pub(crate) async fn connect_to(
    settings: &DatabaseSettings,
    place: &ServerPlace,
    of: LinkUse,
) -> Result<Link, String> {
    timed(settings.timeout, open(settings, place, of)).await?
}

async fn open(settings: &DatabaseSettings, place: &ServerPlace, of: LinkUse) -> Result<Link, String> {
    let tls = settings.tls.as_ref().filter(|_| matches!(place, ServerPlace::Tcp { .. }));
    let mut config = settings.url.config(tls.is_some());
    config.application_name(format!("nomen {}", settings.node));
    let signals = Arc::new(LinkSignals::default());
    let reason = |error: io::Error| wording::reason(&error);
    let (client, driver) = match place {
        ServerPlace::Unix(path) => {
            let stream = UnixStream::connect(path).await.map_err(reason)?;
            start(&config, stream, NoTls, &signals).await?
        }
        ServerPlace::Tcp { host, address } => {
            let stream = TcpStream::connect(address).await.map_err(reason)?;
            prepare_socket(&stream, settings.timeout).map_err(reason)?;
            match tls {
                None => start(&config, stream, NoTls, &signals).await?,
                Some(tls) => {
                    let name = ServerName::try_from(host.clone()).map_err(|fault| fault.to_string())?;
                    let tls = RustlsConnect { connector: TlsConnector::from(Arc::clone(tls)), name };
                    start(&config, stream, tls, &signals).await?
                }
            }
        }
    };
    let mut link =
        Link { client, driver, signals, server: String::new(), session: (0, String::new()), timeline: None };
    begin_session(settings, &mut link, of).await?;
    Ok(link)
}

/// Probes of idle connections, and how long data may stay without an acknowledgement.
fn prepare_socket(stream: &TcpStream, limit: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let probes = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 3).with_retries(3);
    socket.set_tcp_keepalive(&probes)?;
    socket.set_tcp_user_timeout(Some(limit))
}

/// Begins the protocol and starts the task that drives the connection.
async fn start<S, T>(
    config: &Config,
    stream: S,
    tls: T,
    signals: &Arc<LinkSignals>,
) -> Result<(Client, JoinHandle<()>), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: TlsConnect<S>,
    T::Stream: Send + 'static,
{
    let (client, connection) = config.connect_raw(stream, tls).await.map_err(|fault| fault_text(&fault))?;
    Ok((client, tokio::spawn(drive(connection, Arc::clone(signals)))))
}

/// Drives a connection until it ends.
async fn drive<S, T>(mut connection: Connection<S, T>, signals: Arc<LinkSignals>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let ended = loop {
        match std::future::poll_fn(|cx| connection.poll_message(cx)).await {
            Some(Ok(AsyncMessage::Notification(_))) => signals.notified.notify_one(),
            Some(Ok(_)) => {}
            Some(Err(fault)) => break fault_text(&fault),
            None => break "the connection was closed".into(),
        }
    };
    *signals.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
}

/// Sets the limits of a session, and checks that the server accepts writes.
async fn begin_session(settings: &DatabaseSettings, link: &mut Link, of: LinkUse) -> Result<(), String> {
    let (statement, durable) = match of {
        LinkUse::Read | LinkUse::PowerDns => (READ_TIMEOUT, "off"),
        // A server that does not wait for its disk acknowledges what it may lose.
        LinkUse::Write => (settings.timeout, "on"),
        LinkUse::Admin => (READ_TIMEOUT, "on"),
    };
    let (statement, lock) = (statement.as_millis(), settings.timeout.as_millis());
    let asked = format!(
        "SET statement_timeout = {statement}; SET lock_timeout = {lock}; \
         SET idle_in_transaction_session_timeout = {}; \
         SET default_transaction_isolation = 'read committed'; SET jit = off; \
         SELECT set_config('synchronous_commit', '{durable}', false) \
         WHERE '{durable}' = 'off' OR current_setting('synchronous_commit') = 'off'",
        2 * lock
    );
    let text = |fault| fault_text(&fault);
    link.client.batch_execute(&asked).await.map_err(text)?;
    let row = link.client.query_one(
        "SELECT current_setting('server_version'), current_setting('server_version_num')::int, \
         current_setting('transaction_read_only')::bool, pg_backend_pid(), \
         coalesce((SELECT extract(epoch FROM backend_start)::text FROM pg_stat_activity WHERE pid = pg_backend_pid()), '')",
        &[],
    );
    let row = row.await.map_err(text)?;
    let number: i32 = row.try_get(1).map_err(text)?;
    link.server = row.try_get(0).map_err(text)?;
    if number < OLDEST_SERVER {
        return Err(format!("PostgreSQL {} is too old: version 13 or newer is needed", link.server));
    }
    if of != LinkUse::PowerDns && row.try_get::<_, bool>(2).map_err(text)? {
        return Err("it is read only: a replica, or set so".into());
    }
    link.session = (row.try_get(3).map_err(text)?, row.try_get(4).map_err(text)?);
    if of != LinkUse::PowerDns {
        link.timeline = timeline(&link.client).await;
    }
    Ok(())
}

/// Returns the timeline that a server writes. Servers that only speak the protocol of PostgreSQL may have
/// none.
async fn timeline(client: &Client) -> Option<Timeline> {
    // The name of a file of the log begins with the number of the timeline.
    let asked = client.query_one(
        "SELECT system_identifier::text, \
         ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int4 FROM pg_control_system()",
        &[],
    );
    let row = asked.await.ok()?;
    Some(Timeline { system: row.try_get(0).ok()?, number: row.try_get(1).ok()? })
}

/// Begins TLS on a connection.
struct RustlsConnect {
    connector: TlsConnector,
    name: ServerName<'static>,
}

/// A connection with TLS.
struct RustlsStream(tokio_rustls::client::TlsStream<TcpStream>);

impl TlsConnect<TcpStream> for RustlsConnect {
    type Stream = RustlsStream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<RustlsStream>> + Send>>;

    fn connect(self, stream: TcpStream) -> Self::Future {
        Box::pin(async move { Ok(RustlsStream(self.connector.connect(self.name, stream).await?)) })
    }
}

impl TlsStream for RustlsStream {
    /// None: the server is authenticated by its certificate.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for RustlsStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_read(cx, buf)
    }
}

impl AsyncWrite for RustlsStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write(cx, buf)
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_flush(cx)
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(cx)
    }
}
