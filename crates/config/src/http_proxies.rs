//! Keys of `[server]` about reverse proxies that pass requests on by HTTP, and the rule that HTTP in clear
//! text needs a list of proxies.

use std::net::IpAddr;

use transport::{ForwardedHeader, Transport};
use wire::Prefix;

use super::listen::Listen;
use super::proxies::ProxyProtocol;
use super::report::Diagnostic;
use super::table::keys;
use super::table::read::At;
use super::table::value::{AddrPort, Word};

keys! {
    /// Keys about reverse proxies that pass requests on by HTTP.
    pub struct HttpProxyKeys {
        /// Networks of reverse proxies, such as nginx, whose requests come by HTTP. A listener with `proto`
        /// "http" serves these networks and those of `proxy-protocol-from`, and closes other connections at
        /// once. [PROXIES.md](PROXIES.md) explains it. Unset: none.
        live "http-proxies-from" from: Option<Vec<At<Prefix>>> = None,
            example ["192.0.2.10", "2001:db8:10::/64"];
        /// Header in which these proxies name the client of each request: "x-forwarded-for", or "forwarded"
        /// (RFC 7239). The client is the last address in it that is not one of `http-proxies-from`, and all
        /// rules apply to it; a request without gets the status 400. From all other networks the header is
        /// not read. Unset: such a proxy is itself the client.
        live "http-client-header" header: Option<ForwardedHeader> = None, example "x-forwarded-for";
    }
}

impl Word for ForwardedHeader {
    const WORDS: &'static [(&'static str, Self)] =
        &[(Self::XForwardedFor.name(), Self::XForwardedFor), (Self::Forwarded.name(), Self::Forwarded)];
}

impl HttpProxyKeys {
    /// Returns the networks of proxies, each as an address and the length of its prefix.
    pub fn networks(&self) -> impl Iterator<Item = (IpAddr, u8)> {
        let networks = self.from.value.iter().flatten().map(|network| network.value.to_canonical());
        networks.map(|network| (network.address(), network.len()))
    }

    /// Reports a header that no proxy sends, and listeners for HTTP in clear text that any host could reach.
    pub(super) fn check(
        &self,
        listens: &[At<Listen>],
        proxies: &ProxyProtocol,
        faults: &mut Vec<Diagnostic>,
    ) {
        let is_listed = self.networks().next().is_some();
        if self.header.is_some() && !is_listed {
            let message = "`http-client-header` has no effect without `http-proxies-from`";
            let hint = "list the proxies that send this header";
            faults.push(Diagnostic::at(self.header.place.as_ref(), message).hint(hint));
        }
        if is_listed || proxies.networks().next().is_some() {
            return;
        }
        for listen in listens {
            let Some(proto) = listen.proto.iter().find(|proto| proto.value == Transport::Http) else {
                continue;
            };
            for addr in listen.addr.iter().filter(|addr| !addr.0.ip().to_canonical().is_loopback()) {
                let message = format!(
                    "{} over http would serve clients without TLS: there is no list of proxies",
                    AddrPort(addr.0)
                );
                let fault = Diagnostic::at(addr.place.as_ref(), message)
                    .hint("set `http-proxies-from` or `proxy-protocol-from` of [server] to the addresses of the proxies, or listen on a loopback address");
                faults.push(fault.also(proto.place.as_ref(), "HTTP in clear text"));
            }
        }
    }

    /// Returns a warning if every address may name any client.
    pub(super) fn warnings(&self) -> Option<Diagnostic> {
        let is_all = |network: &&At<Prefix>| matches!(network.value.to_canonical().len(), 0);
        let all = self.from.value.iter().flatten().find(is_all)?;
        let message = "`http-proxies-from` has every address: any sender can name any client, so no rule about \
                       addresses holds";
        Some(Diagnostic::at(all.place.as_ref(), message).hint("name the addresses of the proxies"))
    }
}
