//! The proxies whose datagrams and connections begin with a header that names the client (PROXY protocol,
//! version 2), the longest header, and the proxies that pass requests on by HTTP. The rules can be changed
//! while listeners serve. `transport` reads headers; [`crate::udp`] and [`crate::tcp`] act on them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use transport::{Counter, ForwardedHeader, ProxyHeaderFault};

use crate::stats::WorkerStats;

/// Which addresses are those of proxies, shared by the listeners that have clones of it. By default none is.
#[derive(Clone, Default)]
pub struct Proxies {
    shared: Arc<SharedProxies>,
}

#[derive(Default)]
struct SharedProxies {
    /// The number of the present rules; 0 while no address is a proxy's.
    version: AtomicU64,
    rules: Mutex<Numbered>,
}

#[derive(Default)]
struct Numbered {
    version: u64,
    rules: Arc<ProxyRules>,
}

/// The networks of proxies, and the longest header in bytes.
#[derive(Default)]
pub(crate) struct ProxyRules {
    networks: Networks,
    longest: usize,
}

/// A set of addresses.
#[derive(Default)]
struct Networks {
    /// First and last address of each network, sorted, none of which overlap.
    ranges: Vec<(IpAddr, IpAddr)>,
}

/// The proxies that pass requests on by HTTP, shared by the listeners that have clones of it. By default
/// there is none.
#[derive(Clone, Default)]
pub struct HttpProxies(Arc<ArcSwap<HttpProxyRules>>);

/// The networks of proxies that pass requests on by HTTP, and the header in which they name clients.
#[derive(Default)]
pub(crate) struct HttpProxyRules {
    networks: Networks,
    /// `None`: such a proxy names no client, and is the client itself.
    pub(crate) header: Option<ForwardedHeader>,
}

impl HttpProxies {
    /// Sets the networks of proxies, each an address and the length of its prefix in bits, and the header in
    /// which they name clients. Applies to connections that are accepted from now on.
    pub fn set(&self, networks: impl IntoIterator<Item = (IpAddr, u8)>, header: Option<ForwardedHeader>) {
        self.0.store(Arc::new(HttpProxyRules { networks: Networks::new(networks), header }));
    }

    /// Returns the present rules.
    pub(crate) fn rules(&self) -> Arc<HttpProxyRules> {
        self.0.load_full()
    }
}

impl HttpProxyRules {
    /// Whether this address is a proxy's.
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        self.networks.has(address)
    }

    /// Whether there is no proxy.
    pub(crate) fn is_empty(&self) -> bool {
        self.networks.ranges.is_empty()
    }
}

impl Proxies {
    /// Sets the networks of proxies, each an address and the length of its prefix in bits, and the longest
    /// header that is accepted, in bytes. Applies to datagrams and connections that are received from now on.
    pub fn set(&self, networks: impl IntoIterator<Item = (IpAddr, u8)>, longest: usize) {
        let rules = Arc::new(ProxyRules::new(networks, longest));
        // No statement leaves the rules half changed, so a panic while they were locked does not matter.
        let mut numbered = self.shared.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let version = numbered.version + 1;
        let shown = if rules.networks.ranges.is_empty() { 0 } else { version };
        *numbered = Numbered { version, rules };
        self.shared.version.store(shown, Ordering::Release);
    }

    /// Returns the view of one worker.
    pub(crate) fn view(&self) -> ProxyView {
        ProxyView { proxies: self.clone(), version: 0, rules: Arc::default() }
    }
}

/// One worker's view of the rules. Reading it takes a lock only after a change.
pub(crate) struct ProxyView {
    proxies: Proxies,
    version: u64,
    rules: Arc<ProxyRules>,
}

impl ProxyView {
    /// Returns the present rules; `None` if no address is a proxy's.
    #[inline]
    pub(crate) fn rules(&mut self) -> Option<&ProxyRules> {
        let version = self.proxies.shared.version.load(Ordering::Acquire);
        if version == 0 {
            return None;
        }
        if version != self.version {
            self.refresh();
        }
        Some(&self.rules)
    }

    #[cold]
    fn refresh(&mut self) {
        let numbered = self.proxies.shared.rules.lock().unwrap_or_else(PoisonError::into_inner);
        self.version = numbered.version;
        self.rules = Arc::clone(&numbered.rules);
    }
}

impl ProxyRules {
    fn new(networks: impl IntoIterator<Item = (IpAddr, u8)>, longest: usize) -> Self {
        ProxyRules { networks: Networks::new(networks), longest }
    }

    /// Whether this address is a proxy's.
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        self.networks.has(address)
    }

    /// Returns the length of the longest header in bytes.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }
}

impl Networks {
    fn new(networks: impl IntoIterator<Item = (IpAddr, u8)>) -> Self {
        let mut all: Vec<_> = networks.into_iter().map(|(address, len)| range(address, len)).collect();
        all.sort_unstable();
        let mut ranges: Vec<(IpAddr, IpAddr)> = Vec::with_capacity(all.len());
        for (first, last) in all {
            match ranges.last_mut() {
                // Networks overlap only if one contains the other.
                Some(before) if first <= before.1 => before.1 = before.1.max(last),
                _ => ranges.push((first, last)),
            }
        }
        Networks { ranges }
    }

    fn has(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let behind = self.ranges.partition_point(|&(first, _)| first <= address);
        behind.checked_sub(1).is_some_and(|at| address <= self.ranges[at].1)
    }
}

/// Returns the first and the last address of a network.
fn range(address: IpAddr, len: u8) -> (IpAddr, IpAddr) {
    match address {
        IpAddr::V4(v4) => {
            let host = u32::MAX.checked_shr(len.into()).unwrap_or(0);
            let of = |bits| IpAddr::from(Ipv4Addr::from_bits(bits));
            (of(v4.to_bits() & !host), of(v4.to_bits() | host))
        }
        IpAddr::V6(v6) => {
            let host = u128::MAX.checked_shr(len.into()).unwrap_or(0);
            let of = |bits| IpAddr::from(Ipv6Addr::from_bits(bits));
            (of(v6.to_bits() & !host), of(v6.to_bits() | host))
        }
    }
}

/// Returns the counter of messages or connections with this fault.
pub(crate) fn fault_counter(stats: &WorkerStats, fault: ProxyHeaderFault) -> &Counter {
    match fault {
        ProxyHeaderFault::Missing => &stats.proxy_missing,
        ProxyHeaderFault::Malformed => &stats.proxy_malformed,
        ProxyHeaderFault::TooLong => &stats.proxy_too_long,
        ProxyHeaderFault::NoAddress => &stats.proxy_no_address,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn networks_have_their_addresses_and_no_others() {
        let networks = [("192.0.2.0", 25), ("192.0.2.64", 26), ("198.51.100.7", 32), ("2001:db8::", 32)];
        let rules = ProxyRules::new(networks.map(|(address, len)| (ip(address), len)), 512);
        assert_eq!(rules.networks.ranges.len(), 3, "one contains another");
        for inside in ["192.0.2.0", "192.0.2.127", "198.51.100.7", "::ffff:192.0.2.1", "2001:db8:ffff::1"] {
            assert!(rules.has(ip(inside)), "{inside}");
        }
        for outside in ["192.0.1.255", "192.0.2.128", "198.51.100.6", "::1", "2001:db9::", "2001:db7::"] {
            assert!(!rules.has(ip(outside)), "{outside}");
        }
        let all_v6 = ProxyRules::new([(ip("::"), 0)], 512);
        assert!(all_v6.has(ip("2001:db8::1")) && !all_v6.has(ip("192.0.2.1")));
        let all_v4 = ProxyRules::new([(ip("0.0.0.0"), 0)], 512);
        assert!(all_v4.has(ip("255.255.255.255")) && !all_v4.has(ip("::")));
    }

    #[test]
    fn a_worker_sees_each_change() {
        let proxies = Proxies::default();
        let mut view = proxies.view();
        let mut sees = |address| view.rules().is_some_and(|rules| rules.has(ip(address)));
        assert!(!sees("192.0.2.1"));
        proxies.set([(ip("192.0.2.0"), 24)], 512);
        assert!(sees("192.0.2.1"));
        proxies.set([(ip("198.51.100.0"), 24)], 600);
        assert!(!sees("192.0.2.1") && sees("198.51.100.1"));
        proxies.set([], 512);
        assert!(!sees("198.51.100.1"));
        proxies.set([(ip("192.0.2.0"), 24)], 512);
        assert!(sees("192.0.2.1"), "again, after there was none");
        assert_eq!(view.rules().map(ProxyRules::longest), Some(512));
    }

    proptest! {
        /// The search finds what a look at each network finds.
        #[test]
        fn has_is_what_a_look_at_each_network_says(
            networks in prop::collection::vec((0..64_u32, 24..=32_u8), 0..12), address in 0..64_u32,
        ) {
            let of = |bits: u32| Ipv4Addr::from_bits(0xc000_0200 | bits << 2);
            let rules = ProxyRules::new(networks.iter().map(|&(bits, len)| (of(bits).into(), len)), 512);
            let is_in = |&(bits, len): &(u32, u8)| {
                let mask = u32::MAX << (32 - u32::from(len));
                of(bits).to_bits() & mask == of(address).to_bits() & mask
            };
            prop_assert_eq!(rules.has(of(address).into()), networks.iter().any(is_in));
        }
    }
}
