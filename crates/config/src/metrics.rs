//! `[metrics]`: metrics over HTTP, served by `metrics` of `server`.

use std::net::{Ipv4Addr, SocketAddr};

use wire::NameBuf;

use super::listen::Opened;
use super::report::Diagnostic;
use super::table::keys;
use super::table::read::At;
use super::table::value::{AddrPort, Int, Time};

keys! {
    /// Figures for Prometheus over HTTP at `/metrics`, and a page for people at `/`. The section's presence
    /// turns it on.
    pub struct MetricsSection in "[metrics]" {
        /// Address to listen on. There is no access control: keep it on loopback or a management network. A
        /// socket that systemd passes for it is used.
        restart "listen" listen: AddrPort = AddrPort(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 9153)),
            example "[::1]@9153";
        /// Whether nomen also listens on an address that no interface has yet, as `freebind` of `[[listen]]`
        /// does for queries.
        restart "freebind" freebind: bool = true, example false;
        /// Also count queries for each zone, and show its state, its serial, since when its version is in
        /// service, and when its first signature ends. Nine series at the most for each zone.
        live "per-zone" per_zone: bool = false, example true;
        /// Most connections at a time. One more takes the place of the one that has been idle for longest,
        /// such as one whose request is not whole; a connection whose answer is made is not idle.
        live "connections" connections: Int<usize, 1, 10_000> = Int(64), example 200;
        /// Time that the head of a request may take.
        live "head-timeout" head: Time<100, 600_000> = Time::secs(5), example "2s";
        /// Names by which browsers may ask for the page, beside addresses, `localhost` and this machine's own
        /// name. With any other name in its address the page is refused, so that no foreign site can have a
        /// browser read it (DNS rebinding). `/metrics` has no such check, since scrapers know servers by all
        /// sorts of names. Unset: none.
        live "hosts" hosts: Option<Vec<At<NameBuf>>> = None, example ["dns.example.com"];
    }
}

impl MetricsSection {
    pub(super) fn check(&self, opened: &[Opened], faults: &mut Vec<Diagnostic>) {
        Opened::check_other(opened, &self.listen, faults);
    }
}
