//! Keys of `[server]` about the threads that answer, the buffers of their sockets, and their shutdown.

use toml::Spanned;
use toml::de::DeValue;

use super::table::keys;
use super::table::read::Reader;
use super::table::value::{Int, Size, Time, Value, quote};

keys! {
    /// Keys about the threads that answer.
    pub struct Threads {
        /// Threads that answer queries; "auto" is one for each CPU the process may use. If systemd passes
        /// more sockets than that for an address, it is one for each socket.
        restart "workers" workers: WorkerCount = WorkerCount::Auto, example 4;
        /// Keep each worker on its own CPU.
        restart "pin-cpus" pin_cpus: bool = false, example true;
        /// Kernel receive and send buffer of each UDP socket. The kernel caps it at `net.core.rmem_max` and
        /// `net.core.wmem_max` unless nomen is started as root.
        restart "udp-buffer" udp_buffer: Size<4096, { 1 << 30 }> = Size(4 << 20), example "8MiB";
        /// While queries arrive over UDP faster than they are answered, drop those of the networks that send
        /// the most, so that the queries of others are answered soon. [RATE-LIMITS.md](RATE-LIMITS.md)
        /// explains it.
        restart "udp-fair-shares" fair_shares: bool = true, example false;
        /// Longest time after a signal or `nomen ctl stop` in which queries that have arrived are answered.
        restart "drain" drain: Time<0, 60_000> = Time::secs(2), example "5s";
    }
}

impl Threads {
    /// Returns the listeners' settings, except for TCP connections.
    pub fn config(&self) -> net::ListenerConfig {
        let buffer = Some(self.udp_buffer.0);
        net::ListenerConfig {
            workers: self.workers.count(),
            pin_cpus: *self.pin_cpus,
            drain: self.drain.0,
            udp: net::UdpConfig {
                batch: query_path::BATCH,
                receive_buffer: buffer,
                send_buffer: buffer,
                fair_shares: *self.fair_shares,
                ..net::UdpConfig::default()
            },
            ..net::ListenerConfig::default()
        }
    }
}

/// The number of threads that answer queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerCount {
    /// One for each CPU the process may run on.
    Auto,
    /// This many.
    Count(u16),
}

impl WorkerCount {
    /// Returns the number of threads to start.
    pub fn count(self) -> usize {
        match self {
            Self::Auto => std::thread::available_parallelism().map_or(1, usize::from),
            Self::Count(n) => usize::from(n),
        }
    }
}

impl Value for WorkerCount {
    fn kind() -> String {
        "\"auto\" or integer (1 to 1024)".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        if node.get_ref().is_str() {
            return reader.word(node, &[("auto", Self::Auto)]);
        }
        Int::<u16, 1, 1024>::read(node, reader).map(|count| Self::Count(count.0))
    }
    fn render(&self) -> Option<String> {
        Some(match self {
            Self::Auto => quote("auto"),
            Self::Count(n) => n.to_string(),
        })
    }
}
