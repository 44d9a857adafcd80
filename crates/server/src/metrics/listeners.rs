//! Listeners, as `net` counts.

use std::fmt;
use std::sync::Arc;

use super::{Figures, MetricType, Printer};
use crate::in_force::InForce;
use serving::frontend::{Frontend, ListenerTotals};

/// What listeners count, and the limits they share.
pub struct ListenerFigures {
    /// Whose listeners.
    pub frontend: Arc<Frontend>,
    /// For the limits.
    pub in_force: Arc<InForce>,
}

impl Figures for ListenerFigures {
    fn print(&self, out: &mut Printer<'_>) -> fmt::Result {
        ListenerReport(self.frontend.listeners()).print(out)?;
        let open = self.frontend.tcp_limits.current();
        out.gauge("tcp_connections", "TCP connections open now, over all listeners", open as f64)?;
        let limit = self.in_force.settings().server.tcp.connections.0;
        out.gauge("tcp_connections_limit", "Most TCP connections that may be open at a time", limit as f64)
    }
}

/// What listeners have counted; names and words of counters are `net`'s.
pub struct ListenerReport(pub Vec<ListenerTotals>);

impl Figures for ListenerReport {
    fn print(&self, out: &mut Printer<'_>) -> fmt::Result {
        for (i, (counter, doc)) in net::Totals::DESCRIBED.iter().enumerate() {
            let series =
                self.0.iter().filter(|listener| is_counted(counter, listener.carrier)).map(|listener| {
                    let value = listener.totals.iter().nth(i).map_or(0, |(_, value)| value);
                    let listen = listener.local.to_string().into();
                    ([("listen", listen), ("transport", listener.carrier.into())], value)
                });
            let help = doc.trim().trim_end_matches('.').replace('`', "");
            out.family(&format!("net_{}", name(counter)), &help, MetricType::Counter, series)?;
        }
        Ok(())
    }
}

/// Whether listeners of a kind count this at all.
fn is_counted(counter: &str, carrier: &str) -> bool {
    let own = ["tcp", "xdp"].into_iter().find(|kind| counter.starts_with(kind));
    own.is_none_or(|kind| kind == carrier)
}

/// The name of a counter: its unit comes last.
fn name(counter: &str) -> &str {
    match counter {
        "bytes_in" => "received_bytes",
        "bytes_out" => "sent_bytes",
        other => other,
    }
}
