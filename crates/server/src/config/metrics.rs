//! `[metrics]`: figures over HTTP, which `crate::metrics` makes.

use std::net::{Ipv4Addr, SocketAddr};

use super::listen::Opened;
use super::report::Diagnostic;
use super::table::keys;
use super::table::value::AddrPort;

keys! {
    /// Figures for Prometheus over HTTP at `/metrics`, and a page for people at `/`. The section's presence turns it on.
    pub struct Metrics in "[metrics]" {
        /// Address to listen on. There is no access control: keep it on loopback or a management network. A socket that
        /// systemd passes for it is used.
        restart "listen" listen: AddrPort = AddrPort(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 9153)),
            example "[::1]@9153";
        /// Also count queries for each zone, and show its state, its serial, since when its version is in service, and when
        /// its first signature ends. Nine series at the most for each zone.
        live "per-zone" per_zone: bool = false, example true;
    }
}

impl Metrics {
    pub(super) fn check(&self, opened: &[Opened], faults: &mut Vec<Diagnostic>) {
        Opened::check_other(opened, &self.listen, faults);
    }
}
