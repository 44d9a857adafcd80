//! Listeners, as `net` counts.

use std::fmt;
use std::sync::Arc;

use prometheus_client::metrics::MetricType;

use super::{Figures, Printer};
use crate::frontend::Frontend;
use crate::in_force::InForce;

/// What listeners count; names of counters are `net`'s.
pub struct ListenerFigures {
    /// Whose listeners.
    pub frontend: Arc<Frontend>,
    /// For the limits.
    pub in_force: Arc<InForce>,
}

impl Figures for ListenerFigures {
    fn print(&self, out: &mut Printer<'_>) -> fmt::Result {
        let listeners = self.frontend.listeners();
        let names: Vec<&'static str> = net::Totals::default().iter().map(|(name, _)| name).collect();
        for (i, name) in names.iter().enumerate() {
            let series = listeners.iter().map(|listener| {
                let value = listener.totals.iter().nth(i).map_or(0, |(_, value)| value);
                let listen = listener.local.to_string().into();
                ([("listen", listen), ("transport", listener.carrier.into())], value)
            });
            let help = format!("Counter `{name}` of a listener");
            out.family(&format!("net_{name}"), &help, MetricType::Counter, series)?;
        }
        let open = self.frontend.tcp_limits.current();
        out.gauge("tcp_connections", "TCP connections open now", open as f64)?;
        let limit = self.in_force.settings().server.tcp.connections.0;
        out.gauge("tcp_connections_limit", "Most TCP connections there may be", limit as f64)
    }
}
