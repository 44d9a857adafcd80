//! Keys of `[server]` about TCP connections: their number, timeouts and buffers.

use std::time::Duration;

use super::report::Diagnostic;
use super::table::keys;
use super::table::value::{Int, Size, Time};

keys! {
    /// Keys about TCP connections.
    pub struct Tcp {
        /// Most open connections of all clients, over TCP, TLS, HTTPS and QUIC. When there are as many, a new
        /// one closes one of the network with the most: that which has been idle for longest, or whose
        /// client reads nothing.
        live "tcp-connections" connections: Int<usize, 1, 1_000_000> = Int(10_000), example 20000;
        /// Most open TCP connections of one client: an IPv4 address or an IPv6 /64.
        live "tcp-connections-per-client" per_client: Int<usize, 1, 1_000_000> = Int(100), example 50;
        /// Most open TCP connections of one network: an IPv4 /24 or an IPv6 /56. Unset: half of
        /// `tcp-connections`, at least `tcp-connections-per-client`.
        live "tcp-connections-per-network" per_network: Option<Int<usize, 1, 1_000_000>> = None, example 1000;
        /// Longest time from the opening of a TCP connection to its first whole query.
        live "tcp-first-timeout" first: Time<100, 600_000> = Time::secs(5), example "3s";
        /// Time without a query after which a TCP connection is closed (RFC 7766 §6.2.3). It becomes shorter
        /// when more than half of `tcp-connections` are open. Clients that ask for it receive it (RFC 7828).
        live "tcp-idle-timeout" idle: Time<200, 3_600_000> = Time::secs(10), example "30s";
        /// The same when `tcp-connections` are open, so that idle connections make room for new ones. From
        /// half as many on, the time falls in proportion from `tcp-idle-timeout` to this one, which is not
        /// longer; if both are equal, it does not fall. `nomen_tcp_idle_timeout_seconds` is the present time.
        live "tcp-idle-timeout-full" idle_full: Time<10, 3_600_000> = Time(Duration::from_millis(200)), example "1s";
        /// Longest time from the first to the last byte of one query over TCP.
        live "tcp-message-timeout" message: Time<100, 600_000> = Time::secs(2), example "3s";
        /// Longest time in which a client must read 4 KiB, or all, of the bytes sent to it over TCP.
        live "tcp-write-timeout" write: Time<100, 600_000> = Time::secs(5), example "10s";
        /// Most unanswered queries of one TCP connection; while there are as many, no further ones are read.
        restart "tcp-pipeline" pipeline: Int<usize, 1, 1024> = Int(32), example 64;
        /// Bytes of answers that the client has not read yet, above which no more queries of its TCP
        /// connection are read.
        restart "tcp-write-buffer" write_buffer: Size<4096, { 16 << 20 }> = Size(128 << 10), example "256KiB";
        /// Bytes that wait in all TCP connections: answers that clients have not read, and messages that are
        /// not complete. While there are more, each connection gets one answer at a time, and those whose
        /// clients have read nothing for a second are closed.
        live "tcp-memory" memory: Size<{ 1 << 20 }, { 1 << 40 }> = Size(64 << 20), example "256MiB";
    }
}

impl Tcp {
    /// Returns the listeners' settings for TCP connections.
    pub fn config(&self) -> net::TcpConfig {
        net::TcpConfig {
            max_in_flight: self.pipeline.0,
            max_unsent: self.write_buffer.0,
            ..net::TcpConfig::default()
        }
    }

    /// Returns the timeouts of TCP connections.
    pub fn times(&self) -> net::TcpTimes {
        net::TcpTimes {
            first_message: self.first.0,
            idle: self.idle.0,
            idle_min: self.idle_full.0,
            message: self.message.0,
            write: self.write.0,
        }
    }

    /// Returns the largest number of connections, in all and per client.
    pub fn limits(&self) -> (usize, usize) {
        (self.connections.0, self.per_client.0)
    }

    /// Returns the largest number of connections of one network, of at most `connections` in all.
    pub fn per_network(&self, connections: usize) -> usize {
        let unset = (connections / 2).max(self.per_client.0);
        self.per_network.value.map_or(unset, |most| most.0)
    }

    /// Returns the idle timeout in units of 100 ms, as sent to clients (RFC 7828 §3.1).
    pub fn keepalive(&self) -> u16 {
        const KEEPALIVE_UNIT: Duration = Duration::from_millis(100);
        u16::try_from(self.idle.0.as_millis() / KEEPALIVE_UNIT.as_millis()).unwrap_or(u16::MAX)
    }

    pub(super) fn check(&self, faults: &mut Vec<Diagnostic>) {
        let (all, one) = (&self.connections, &self.per_client);
        if one.0 > all.0 {
            let message = format!(
                "`tcp-connections-per-client` is {}, more than the {} of `tcp-connections`",
                one.0, all.0
            );
            faults.push(Diagnostic::at(one.place.as_ref().or(all.place.as_ref()), message));
        }
        let (idle, full) = (&self.idle, &self.idle_full);
        if full.0 > idle.0 {
            let message = "`tcp-idle-timeout-full` is longer than `tcp-idle-timeout`";
            faults.push(Diagnostic::at(full.place.as_ref().or(idle.place.as_ref()), message));
        }
        let network = &self.per_network;
        if let Some(most) = network.value
            && most.0 < one.0
        {
            let message = format!(
                "`tcp-connections-per-network` is {}, less than the {} of `tcp-connections-per-client`",
                most.0, one.0
            );
            faults.push(Diagnostic::at(network.place.as_ref(), message));
        }
    }
}
