//! Keys of `[server]` about TCP connections: their number, timeouts and buffers.

use std::time::Duration;

use super::report::Diagnostic;
use super::table::keys;
use super::table::value::{Int, Size, Time};

keys! {
    /// Keys about TCP connections.
    pub struct Tcp {
        /// Most TCP connections at a time, over all clients.
        live "tcp-connections" connections: Int<usize, 1, 1_000_000> = Int(10_000), example 20000;
        /// Most TCP connections of one client: an IPv4 address or an IPv6 /64.
        live "tcp-connections-per-client" per_client: Int<usize, 1, 1_000_000> = Int(100), example 50;
        /// Time a new TCP connection may take until its first query is there.
        live "tcp-first-timeout" first: Time<100, 600_000> = Time::secs(5), example "3s";
        /// Time a TCP connection may stay without a query before it is closed (RFC 7766 §6.2.3). It shrinks
        /// as connections fill the second half of the limit. It is announced to clients that ask (RFC 7828).
        live "tcp-idle-timeout" idle: Time<200, 3_600_000> = Time::secs(10), example "30s";
        /// Time a client may take from the first to the last byte of one query over TCP.
        live "tcp-message-timeout" message: Time<100, 600_000> = Time::secs(2), example "3s";
        /// Time a client may take to read at least 4 KiB of what it was sent over TCP.
        live "tcp-write-timeout" write: Time<100, 600_000> = Time::secs(5), example "10s";
        /// Most queries of one TCP connection that wait for a later answer; further ones are not read until
        /// then.
        restart "tcp-pipeline" pipeline: Int<usize, 1, 1024> = Int(32), example 64;
        /// Unread answers of one TCP connection above which no more of its queries are read.
        restart "tcp-write-buffer" write_buffer: Size<4096, { 16 << 20 }> = Size(128 << 10), example "256KiB";
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
            message: self.message.0,
            write: self.write.0,
            ..net::TcpTimes::default()
        }
    }

    /// Returns the largest number of connections, in all and per client.
    pub fn limits(&self) -> (usize, usize) {
        (self.connections.0, self.per_client.0)
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
                "one client may open {} TCP connections, more than the {} there are in all",
                one.0, all.0
            );
            faults.push(Diagnostic::at(one.place.as_ref().or(all.place.as_ref()), message));
        }
    }
}
