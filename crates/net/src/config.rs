//! Settings of a listener: plain values with documented defaults. `server` reads them from its configuration
//! file.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use transport::ClientCertificate;

use crate::client_names::ClientNames;

/// How the kernel selects the worker for a datagram or connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// By a hash of both addresses and ports, the kernel's own method: one client socket always gets the same
    /// worker.
    Hash,
    /// By the CPU that received the packet. Suits a multi-queue network card and pinned workers.
    Cpu,
    /// At random for each datagram, so that one busy client uses every worker. TCP uses [`Spread::Hash`],
    /// since a connection stays with its worker.
    #[default]
    Random,
}

/// The system calls that move datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UdpBackend {
    /// `recvmmsg` and `sendmmsg`, many datagrams a call.
    #[default]
    Mmsg,
    /// `recvfrom` and `sendto`, one datagram a call, from the standard library: the reference in tests of
    /// [`UdpBackend::Mmsg`], and the fallback where a sandbox forbids the others. On a wildcard address the
    /// routing table selects the source address of replies.
    Plain,
}

/// Returns for how long HTTP caches may keep a reply, in seconds; `None` if they may not.
pub type HttpCacheTime = fn(&[u8]) -> Option<u32>;

/// Returns whether a query has the option edns-tcp-keepalive (RFC 7828).
pub type KeepaliveCheck = fn(&[u8]) -> bool;

/// Returns what is known of a client that has shown this chain of certificates.
pub type IdentifyClient = Arc<dyn Fn(&[CertificateDer<'_>]) -> Option<Arc<ClientCertificate>> + Send + Sync>;

/// Settings of one listener.
#[derive(Clone, Debug, PartialEq)]
pub struct ListenerConfig {
    /// Worker threads, each with its own socket. Default: one per CPU this process may use.
    pub workers: usize,
    /// Pin worker `i` to the `i`-th CPU this process may use. Default: no.
    pub pin_cpus: bool,
    /// How the kernel selects the worker. Default: [`Spread::Random`].
    pub spread: Spread,
    /// Bind to addresses that no interface has (yet). Default: no.
    pub freebind: bool,
    /// Bind even if another socket with `SO_REUSEPORT` is already bound to this address and port; without
    /// this, an address in use is an error, although the sockets could share it. Default: no.
    pub share_port: bool,
    /// Longest time for which a stopping worker still answers what it has received. Default: 2 s.
    pub drain: Duration,
    /// Settings of datagram listeners.
    pub udp: UdpConfig,
    /// Settings of TCP listeners.
    pub tcp: TcpConfig,
    /// Where HTTPS listeners serve DNS, such as `/dns-query`. Default: there.
    pub https_paths: Vec<String>,
    /// Where clients write names for themselves. Default: nowhere.
    pub client_names: ClientNames,
    /// Of a listener of QUIC: it also serves HTTP/3. Of one of HTTPS: HTTP/3 is at the same address and port,
    /// and responses say so (`alt-svc`, RFC 7838). Default: no.
    pub with_h3: bool,
}

impl Default for ListenerConfig {
    fn default() -> Self {
        ListenerConfig {
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            pin_cpus: false,
            spread: Spread::default(),
            freebind: false,
            share_port: false,
            drain: Duration::from_secs(2),
            udp: UdpConfig::default(),
            tcp: TcpConfig::default(),
            https_paths: vec!["/dns-query".to_owned()],
            client_names: ClientNames::default(),
            with_h3: false,
        }
    }
}

/// Settings of a datagram listener.
#[derive(Clone, Debug, PartialEq)]
pub struct UdpConfig {
    /// The system calls that move datagrams. Default: [`UdpBackend::Mmsg`].
    pub backend: UdpBackend,
    /// Send equally long replies of a batch to one destination together (`UDP_SEGMENT`), where the kernel
    /// supports it. Default: yes.
    pub segments: bool,
    /// Most datagrams in a batch, 1 to 1024. Default: 64.
    pub batch: usize,
    /// Longest query received, in bytes; a longer datagram is dropped and counted. Default: 4096.
    pub max_query: usize,
    /// Longest reply, in bytes. Default: 4096.
    pub max_reply: usize,
    /// Kernel receive buffer per socket, in bytes as given to `SO_RCVBUF`; `None` leaves the system's
    /// default. The kernel caps it at `net.core.rmem_max` unless the process may exceed it. Default: 4 MiB.
    pub receive_buffer: Option<usize>,
    /// Whether queries of the networks that send the most are dropped while the queue of a socket is long.
    /// Default: yes.
    pub fair_shares: bool,
    /// Kernel send buffer per socket, in bytes as given to `SO_SNDBUF`; `None` leaves the system's default.
    /// Default: 4 MiB.
    pub send_buffer: Option<usize>,
    /// Interval at which an idle worker wakes, checks whether it should stop, and calls
    /// [`transport::Handler::idle`]. Default: 200 ms.
    pub idle_wake: Duration,
}

impl Default for UdpConfig {
    fn default() -> Self {
        UdpConfig {
            backend: UdpBackend::default(),
            segments: true,
            batch: 64,
            max_query: 4096,
            max_reply: 4096,
            receive_buffer: Some(4 << 20),
            fair_shares: true,
            send_buffer: Some(4 << 20),
            idle_wake: Duration::from_millis(200),
        }
    }
}

/// Settings of a TCP listener. [`crate::TcpLimits`], which listeners share, has the limit of connections and
/// their timeouts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpConfig {
    /// Length of the kernel's queue of connections that are not accepted yet, capped by `net.core.somaxconn`.
    /// Default: 1024.
    pub backlog: u32,
    /// Most pending queries of one connection, streams included; at this limit the worker stops reading from
    /// it. Default: 32.
    pub max_in_flight: usize,
    /// Unsent bytes above which the worker stops reading from a connection. One batch of answers may exceed
    /// it. Default: 128 KiB.
    pub max_unsent: usize,
}

impl TcpConfig {
    /// Returns the settings while too many bytes wait in all connections: one answer at a time.
    pub(crate) fn crowded(self) -> Self {
        TcpConfig { max_in_flight: 1, max_unsent: 0, ..self }
    }
}

impl Default for TcpConfig {
    fn default() -> Self {
        TcpConfig { backlog: 1024, max_in_flight: 32, max_unsent: 128 * 1024 }
    }
}
