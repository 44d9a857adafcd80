//! `[metrics]`: metrics over HTTP, served by `metrics` of `server`.

use std::net::{Ipv4Addr, SocketAddr};

use super::listen::Opened;
use super::report::Diagnostic;
use super::table::keys;
use super::table::value::{AddrPort, Int, Time};

keys! {
    /// Metrics for Prometheus over HTTP at `/metrics`, and `/healthz` and `/readyz` for load balancers. The
    /// section's presence turns it on.
    pub struct MetricsSection in "[metrics]" {
        /// Address to listen on. There is no access control: keep it on loopback or a management network. A
        /// socket that systemd passes for it is used.
        restart "listen" listen: AddrPort = AddrPort(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 9153)),
            example "[::1]@9153";
        /// Whether nomen also listens on an address that no interface has yet, as `freebind` of `[[listen]]`
        /// does for queries.
        restart "freebind" freebind: bool = true, example false;
        /// Also export, for each zone, the number of queries, its state, its serial, the time its version was
        /// loaded, and when its first signature expires: at most eleven series for each zone.
        live "per-zone" per_zone: bool = false, example true;
        /// Most connections at a time. One more replaces the connection that has been idle longest; a
        /// connection with an incomplete request is idle, one whose response is being built is not.
        live "connections" connections: Int<usize, 1, 10_000> = Int(64), example 200;
        /// Longest time in which the head of a request must arrive.
        live "head-timeout" head: Time<100, 600_000> = Time::secs(5), example "2s";
    }
}

impl MetricsSection {
    pub(super) fn check(&self, opened: &[Opened], faults: &mut Vec<Diagnostic>) {
        Opened::check_other(opened, &self.listen, faults);
    }
}
