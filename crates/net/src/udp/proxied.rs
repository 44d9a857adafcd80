//! Datagrams that proxies pass on: takes the headers off, so that a batch has the clients that they name, and
//! keeps the ways of the replies. Without proxies it costs two branches a batch.

use std::net::IpAddr;
use std::sync::Arc;

use transport::{Client, Envelope, MIN_MESSAGE, ProxyHeader, ProxyHeaderFault, ReplyRoute};

use crate::proxies::{Proxies, ProxyRules, ProxyView, fault_counter};
use crate::stats::WorkerStats;

/// The headers of one batch after another.
pub(crate) struct ProxiedDatagrams {
    view: ProxyView,
    stats: Arc<WorkerStats>,
    /// The way of the reply to each query of the batch; empty unless a proxy passed on one of them.
    routes: Vec<ReplyRoute>,
}

impl ProxiedDatagrams {
    pub(crate) fn new(proxies: &Proxies, stats: Arc<WorkerStats>) -> Self {
        ProxiedDatagrams { view: proxies.view(), stats, routes: Vec::new() }
    }

    /// Takes the headers off a batch that has just been received: the envelopes in `input` then have the
    /// messages behind the headers and the clients that these name. Removes those of proxies without a valid
    /// header.
    #[inline]
    pub(crate) fn take_off(&mut self, input: &[u8], envelopes: &mut Vec<Envelope>) {
        if let Some(rules) = self.view.rules() {
            take_off_all(rules, &self.stats, input, envelopes, &mut self.routes);
        }
    }

    /// Returns the ways of the replies of the batch, see [`transport::Queries::routes`].
    #[inline]
    pub(crate) fn routes(&self) -> &[ReplyRoute] {
        &self.routes
    }

    /// Keeps the queries of the batch whose clients' addresses pass.
    pub(crate) fn retain(&mut self, envelopes: &mut Vec<Envelope>, passes: &mut dyn FnMut(IpAddr) -> bool) {
        for envelope in &mut *envelopes {
            if !passes(envelope.client.peer.ip()) {
                // No query is as short.
                envelope.len = 0;
            }
        }
        let mut at = 0;
        self.routes.retain(|_| {
            at += 1;
            envelopes[at - 1].len > 0
        });
        envelopes.retain(|envelope| envelope.len > 0);
    }

    /// Puts the ends of the datagrams back into the envelopes of an answered batch, for sending.
    #[inline]
    pub(crate) fn restore(&mut self, envelopes: &mut [Envelope]) {
        if !self.routes.is_empty() {
            for (envelope, route) in envelopes.iter_mut().zip(self.routes.drain(..)) {
                let Client { peer, local, .. } = &mut envelope.client;
                (*peer, *local) = (route.to, route.from);
            }
        }
    }
}

#[inline(never)]
fn take_off_all(
    rules: &ProxyRules,
    stats: &WorkerStats,
    input: &[u8],
    envelopes: &mut Vec<Envelope>,
    routes: &mut Vec<ReplyRoute>,
) {
    routes.clear();
    let mut any = false;
    envelopes.retain_mut(|envelope| {
        let Client { peer, local, .. } = envelope.client;
        if rules.has(peer.ip()) {
            any = true;
            match take_off_one(envelope, input, rules.longest()) {
                Ok(()) if envelope.len >= MIN_MESSAGE => {}
                Ok(()) => {
                    stats.runts.add(1);
                    return false;
                }
                Err(fault) => {
                    fault_counter(stats, fault).add(1);
                    return false;
                }
            }
        }
        routes.push(ReplyRoute { to: peer, from: local });
        true
    });
    if !any {
        routes.clear();
    }
}

/// Takes the header off one datagram.
fn take_off_one(envelope: &mut Envelope, input: &[u8], longest: usize) -> Result<(), ProxyHeaderFault> {
    let datagram = &input[envelope.start..envelope.start + envelope.len];
    // A datagram that ends within its header is not continued.
    let header = ProxyHeader::read(datagram, longest)?.ok_or(ProxyHeaderFault::Malformed)?;
    envelope.start += header.len;
    envelope.len -= header.len;
    if let Some(ends) = header.ends {
        (envelope.client.peer, envelope.client.local) = (ends.source, ends.destination);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use transport::Transport;

    use super::*;

    const PROXY: &str = "192.0.2.1:4000";
    const LOCAL: &str = "198.51.100.53:53";
    const QUERY: [u8; 20] = [9; 20];

    fn addr(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    /// Returns a header of 203.0.113.9 port 1000, to 203.0.113.53 port 53.
    fn header(command: u8) -> Vec<u8> {
        let mut header = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
        header.extend([command, 0x12, 0, 12, 203, 0, 113, 9, 203, 0, 113, 53, 0x03, 0xe8, 0, 53]);
        header
    }

    struct Trial {
        proxied: ProxiedDatagrams,
        input: Vec<u8>,
        envelopes: Vec<Envelope>,
    }

    impl Trial {
        fn new() -> Trial {
            let proxies = Proxies::default();
            proxies.set([(addr(PROXY).ip(), 32)], 512);
            let proxied = ProxiedDatagrams::new(&proxies, Arc::default());
            Trial { proxied, input: Vec::new(), envelopes: Vec::new() }
        }

        fn datagram(mut self, from: &str, parts: &[&[u8]]) -> Trial {
            let (start, message) = (self.input.len(), parts.concat());
            let client = Client { peer: addr(from), local: addr(LOCAL), transport: Transport::Udp };
            let envelope = Envelope { start, len: message.len(), client, raw: self.envelopes.len() };
            self.envelopes.push(envelope);
            self.input.extend(message);
            self
        }

        /// Takes the headers off; returns peer, address sent to, message and index of each query.
        fn take_off(&mut self) -> Vec<(String, String, Vec<u8>, usize)> {
            self.proxied.take_off(&self.input, &mut self.envelopes);
            let of = |e: &Envelope| {
                let message = self.input[e.start..e.start + e.len].to_vec();
                (e.client.peer.to_string(), e.client.local.to_string(), message, e.raw)
            };
            self.envelopes.iter().map(of).collect()
        }
    }

    #[test]
    fn a_header_names_the_client_and_the_reply_goes_to_the_proxy() {
        let mut trial = Trial::new()
            .datagram("192.0.2.2:5000", &[&QUERY])
            .datagram(PROXY, &[&header(0x21), &QUERY])
            .datagram(PROXY, &[&QUERY])
            .datagram(PROXY, &[&header(0x20), &QUERY[..12]])
            .datagram("192.0.2.2:5000", &[&header(0x21), &QUERY]);
        let query = |peer: &str, local: &str, message: &[u8], raw| {
            (peer.to_owned(), local.to_owned(), message.to_vec(), raw)
        };
        let others = [&header(0x21)[..], &QUERY].concat();
        let expected = [
            query("192.0.2.2:5000", LOCAL, &QUERY, 0),
            query("203.0.113.9:1000", "203.0.113.53:53", &QUERY, 1),
            query(PROXY, LOCAL, &QUERY[..12], 3),
            query("192.0.2.2:5000", LOCAL, &others, 4),
        ];
        assert_eq!(trial.take_off(), expected);
        assert_eq!(trial.proxied.stats.proxy_missing.get(), 1);
        let routes = trial.proxied.routes().to_vec();
        assert_eq!(routes[1], ReplyRoute { to: addr(PROXY), from: addr(LOCAL) });
        assert_eq!(routes.len(), 4);
        trial.proxied.restore(&mut trial.envelopes);
        assert!(trial.proxied.routes().is_empty());
        for (envelope, route) in trial.envelopes.iter().zip(routes) {
            assert_eq!((envelope.client.peer, envelope.client.local), (route.to, route.from));
        }
    }

    #[test]
    fn a_header_without_a_message_is_dropped_and_so_is_a_part_of_one() {
        let whole = header(0x21);
        let mut trial = Trial::new();
        for cut in 12..whole.len() {
            trial = trial.datagram(PROXY, &[&whole[..cut]]);
        }
        trial = trial.datagram(PROXY, &[&whole]).datagram(PROXY, &[&whole, &QUERY[..11]]);
        assert_eq!(trial.take_off(), []);
        let stats = &trial.proxied.stats;
        assert_eq!((stats.proxy_malformed.get(), stats.runts.get()), (16, 2));
    }

    #[test]
    fn a_batch_without_proxies_has_no_routes() {
        let mut trial = Trial::new().datagram("192.0.2.2:5000", &[&QUERY]);
        assert_eq!(trial.take_off().len(), 1);
        assert!(trial.proxied.routes().is_empty());
    }
}
