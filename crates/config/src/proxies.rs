//! Keys of `[server]` about proxies that name their clients.

use std::net::IpAddr;

use wire::Prefix;

use super::report::Diagnostic;
use super::table::keys;
use super::table::read::At;
use super::table::value::Int;

keys! {
    /// Keys about proxies that name their clients.
    pub struct ProxyProtocol {
        /// Networks of proxies, such as dnsdist or HAProxy, that send a header of the PROXY protocol,
        /// version 2, before what a client sent: in each datagram, and once at the start of each TCP
        /// connection. All rules apply to the client that the header names. From these networks messages
        /// without a valid header are dropped, and connections closed; from all others no header is read.
        /// [PROXIES.md](PROXIES.md) explains it. Unset: none.
        live "proxy-protocol-from" from: Option<Vec<At<Prefix>>> = None, example ["192.0.2.0/24", "2001:db8::1/128"];
        /// Longest header of the PROXY protocol that is accepted, with its extensions (TLVs), in bytes.
        live "proxy-protocol-maximum-size" longest: Int<usize, 52, 2048> = Int(512), example 256;
    }
}

impl ProxyProtocol {
    /// Returns the networks of proxies, each as an address and the length of its prefix.
    pub fn networks(&self) -> impl Iterator<Item = (IpAddr, u8)> {
        let networks = self.from.value.iter().flatten().map(|network| network.value.to_canonical());
        networks.map(|network| (network.address(), network.len()))
    }

    /// Returns the length of the longest header in bytes.
    pub fn longest_header(&self) -> usize {
        self.longest.0
    }

    /// Returns a warning if every address may name any client.
    pub(super) fn warnings(&self) -> Option<Diagnostic> {
        let is_all = |network: &&At<Prefix>| matches!(network.value.to_canonical().len(), 0);
        let all = self.from.value.iter().flatten().find(is_all)?;
        let message = "`proxy-protocol-from` has every address: any sender can name any client, so no rule about \
                       addresses holds";
        let hint = "name the addresses of the proxies";
        Some(Diagnostic::at(all.place.as_ref(), message).hint(hint))
    }
}
