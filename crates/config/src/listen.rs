//! `[[listen]]`: the listening addresses, and the AF_XDP front before them.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use net::{XdpAttach, XdpConfig, XdpCopy};
use transport::{TRANSPORTS, Transport};

use super::report::{ConfigPlace, Diagnostic};
use super::table::keys;
use super::table::read::At;
use super::table::value::{AddrPort, Int, Word};

/// Port of the built-in configuration: an unprivileged one.
const BUILTIN_PORT: u16 = 5300;

keys! {
    /// Addresses to answer on, in any number of blocks. Without a block nomen listens on 127.0.0.1 and ::1 at
    /// port 5300, or on the sockets that systemd passes. With blocks, a passed socket is used for its
    /// address, and the other addresses are opened. [UPGRADES.md](UPGRADES.md) explains passed sockets.
    pub struct Listen in "[[listen]]" {
        /// Addresses and ports, such as `0.0.0.0@53` or `[::]@53`.
        restart "addr" addr: Vec<At<AddrPort>> = builtin_addresses(),
            example ["192.0.2.1@53", "[2001:db8::1]@53"];
        /// Transports to open on each address. "tls" is DNS over TLS (RFC 7858), whose usual port is 853,
        /// "https" DNS over HTTPS (RFC 8484), whose usual port is 443, and "quic" DNS over QUIC (RFC 9250),
        /// whose usual port is 853 of UDP. "http" is DNS over HTTP in clear text, for reverse proxies alone
        /// (`http-proxies-from`), which have the TLS. "h3" is DNS over HTTP/3 (RFC 9114), whose usual port is
        /// 443 of UDP, beside "https". A port has one of "tcp", "tls", "https" and "http", and one of "udp"
        /// and "quic"; "h3" can share the address and port of "quic".
        /// [ENCRYPTED-DNS.md](ENCRYPTED-DNS.md) explains them.
        restart "proto" proto: Vec<At<Transport>> =
            [Transport::Udp, Transport::Tcp].map(At::unwritten).into(),
            example ["udp", "tcp"];
        /// Whether nomen also listens on addresses that no interface has yet, such as those of VRRP or of
        /// containers: queries are answered as soon as an interface has the address, and the start logs a
        /// warning. With false, such an address is an error at the start. A wildcard address such as
        /// `[::]@53` needs no `freebind`.
        restart "freebind" freebind: bool = true, example false;
        /// Network interface, such as "eth0", whose UDP queries to these addresses AF_XDP receives before the
        /// kernel's network stack, so that its firewall does not apply. Where the kernel, the driver or
        /// missing rights prevent it, nomen logs why and answers through its sockets. Needs root at the
        /// start. Unset: AF_XDP is off. [AF_XDP.md](AF_XDP.md) explains it.
        restart "xdp" xdp: Option<String> = None, example "eth0";
        /// Where AF_XDP intercepts queries: "driver" is the card's driver, "generic" the kernel's receive
        /// path, which works with any driver and saves less. "auto": in the driver if it supports that.
        restart "xdp-attach" xdp_attach: XdpAttach = XdpAttach::Auto, example "driver";
        /// How packets reach nomen and leave it: with "zero-copy" the card uses nomen's memory, with "copy"
        /// the kernel copies them. "auto": zero-copy if the driver supports it.
        restart "xdp-copy" xdp_copy: XdpCopy = XdpCopy::Auto, example "copy";
        /// Number of receive queues of the interface, from the first one on, that AF_XDP serves, with one
        /// thread each; queries on other queues go through the sockets. Unset: all.
        restart "xdp-queues" xdp_queues: Option<Int<u32, 1, 1024>> = None, example 4;
    }
}

fn builtin_addresses() -> Vec<At<AddrPort>> {
    [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)]
        .map(|ip| At::unwritten(AddrPort(SocketAddr::new(ip, BUILTIN_PORT))))
        .into()
}

impl Listen {
    /// Whether a transport of it has TLS.
    pub fn has_tls(&self) -> bool {
        self.proto.iter().any(|proto| proto.value.is_encrypted())
    }

    /// Returns the AF_XDP front that is configured before these addresses.
    pub fn xdp_config(&self) -> Option<XdpConfig> {
        let interface = self.xdp.value.as_deref()?;
        Some(XdpConfig {
            queues: self.xdp_queues.value.map(|queues| queues.0),
            attach: *self.xdp_attach,
            copy: *self.xdp_copy,
            ..XdpConfig::new(interface)
        })
    }
}

/// A socket, or one for each worker, that the configuration asks for.
#[derive(Clone, Copy)]
pub struct ListenSocket<'s> {
    /// Its block.
    pub listen: &'s Listen,
    /// Its address.
    pub addr: &'s At<AddrPort>,
    /// Its transport.
    pub transport: Transport,
    /// HTTP/3 is at the same address: over QUIC on this socket, of HTTPS beside it.
    pub with_h3: bool,
}

/// Returns the sockets of these blocks. Where QUIC and HTTP/3 have the same address, one has both.
pub(super) fn sockets(listens: &[At<Listen>]) -> Vec<ListenSocket<'_>> {
    let all = || {
        listens.iter().flat_map(|listen| {
            let addresses =
                listen.addr.iter().flat_map(|addr| listen.proto.iter().map(move |proto| (addr, proto)));
            addresses.map(move |(addr, proto)| (&listen.value, addr, proto.value))
        })
    };
    let has = |wanted: Transport, at: &At<AddrPort>| {
        all().any(|(_, addr, transport)| transport == wanted && addr.0 == at.0)
    };
    let own = all().filter(|(_, addr, transport)| *transport != Transport::H3 || !has(Transport::Quic, addr));
    own.map(|(listen, addr, transport)| {
        let with_h3 = matches!(transport, Transport::Quic | Transport::Https) && has(Transport::H3, addr);
        ListenSocket { listen, addr, transport, with_h3 }
    })
    .collect()
}

/// Every transport with its label.
const TRANSPORT_WORDS: [(&str, Transport); TRANSPORTS] = {
    let (mut words, mut i) = ([("", Transport::Udp); TRANSPORTS], 0);
    while i < TRANSPORTS {
        words[i] = (Transport::ALL[i].label(), Transport::ALL[i]);
        i += 1;
    }
    words
};

impl Word for Transport {
    const WORDS: &'static [(&'static str, Self)] = &TRANSPORT_WORDS;

    fn kind() -> String {
        let labels: Vec<String> = Self::ALL.iter().map(|t| format!("\"{t}\"")).collect();
        format!("transport ({})", labels.join(", "))
    }
}

impl Word for XdpAttach {
    const WORDS: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("driver", Self::Driver), ("generic", Self::Generic)];
}

impl Word for XdpCopy {
    const WORDS: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("zero-copy", Self::ZeroCopy), ("copy", Self::Copy)];
}

/// A listening address, and its place in the configuration.
pub(super) struct Opened {
    transport: Transport,
    addr: SocketAddr,
    place: Option<ConfigPlace>,
}

impl Opened {
    /// Returns the first address that conflicts with another socket. IPv6 sockets are for IPv6 only.
    fn clash(opened: &[Self], transport: Transport, addr: SocketAddr) -> Option<&Self> {
        let shares = |other: Transport| {
            matches!((other, transport), (Transport::Quic, Transport::H3) | (Transport::H3, Transport::Quic))
        };
        opened.iter().find(|o| {
            o.transport.socket() == transport.socket()
                && !(shares(o.transport) && o.addr == addr)
                && o.addr.port() == addr.port()
                && o.addr.is_ipv4() == addr.is_ipv4()
                && (o.addr.ip() == addr.ip() || o.addr.ip().is_unspecified() || addr.ip().is_unspecified())
        })
    }

    /// Returns the first address that receives a message to `addr`, whatever its transport. The unspecified
    /// address is only known to include the loopback addresses.
    pub(super) fn of_own(opened: &[Self], addr: SocketAddr) -> Option<&Self> {
        opened.iter().find(|o| {
            let all = o.addr.ip().is_unspecified() && o.addr.is_ipv4() == addr.is_ipv4();
            o.addr.port() == addr.port() && (o.addr.ip() == addr.ip() || (all && addr.ip().is_loopback()))
        })
    }

    /// Returns its place; `None` for a default.
    pub(super) fn place(&self) -> Option<&ConfigPlace> {
        self.place.as_ref()
    }

    /// Reports another service's TCP address that conflicts with one of these.
    pub(super) fn check_other(opened: &[Self], other: &At<AddrPort>, faults: &mut Vec<Diagnostic>) {
        if let Some(first) = Self::clash(opened, Transport::Tcp, other.0) {
            let message = format!("{} overlaps with the DNS address {}", other.value, AddrPort(first.addr));
            let fault = Diagnostic::at(other.place.as_ref(), message);
            faults.push(fault.also(first.place.as_ref(), "listened on already"));
        }
    }
}

/// Reports an address and port used twice for one transport, and a wildcard address that covers another.
/// Returns the listening addresses.
pub(super) fn check(listens: &[At<Listen>], faults: &mut Vec<Diagnostic>) -> Vec<Opened> {
    check_fronts(listens, faults);
    let mut opened: Vec<Opened> = Vec::new();
    for listen in listens {
        for transport in listen.proto.iter().map(|proto| proto.value) {
            for addr in listen.addr.iter() {
                let Some(first) = Opened::clash(&opened, transport, addr.0) else {
                    opened.push(Opened { transport, addr: addr.0, place: addr.place.clone() });
                    continue;
                };
                let other =
                    if first.addr == addr.0 { "itself".into() } else { AddrPort(first.addr).to_string() };
                let carrier = match first.transport {
                    same if same == transport => String::new(),
                    other => format!(" over {other}: a port has one of them"),
                };
                let message = format!("{} over {transport} overlaps with {other}{carrier}", addr.value);
                let fault = Diagnostic::at(addr.place.as_ref(), message);
                faults.push(fault.also(first.place.as_ref(), "listened on already"));
            }
        }
    }
    opened
}

/// Reports AF_XDP settings without an interface, and different settings for one interface.
fn check_fronts(listens: &[At<Listen>], faults: &mut Vec<Diagnostic>) {
    let mut known: HashMap<&str, &Listen> = HashMap::new();
    for listen in listens {
        let places = [
            ("xdp-attach", &listen.xdp_attach.place),
            ("xdp-copy", &listen.xdp_copy.place),
            ("xdp-queues", &listen.xdp_queues.place),
        ];
        let Some(interface) = listen.xdp.as_deref() else {
            // Default values may be written explicitly.
            let set = [
                listen.xdp_attach.value != XdpAttach::Auto,
                listen.xdp_copy.value != XdpCopy::Auto,
                listen.xdp_queues.is_some(),
            ];
            for ((key, place), _) in places.into_iter().zip(set).filter(|(_, set)| *set) {
                faults.push(Diagnostic::at(place.as_ref(), format!("`{key}` has no effect without `xdp`")));
            }
            continue;
        };
        let first = *known.entry(interface).or_insert(listen);
        let same = [
            first.xdp_attach == listen.xdp_attach,
            first.xdp_copy == listen.xdp_copy,
            first.xdp_queues == listen.xdp_queues,
        ];
        for ((key, place), _) in places.into_iter().zip(same).filter(|(_, same)| !same) {
            let message = format!("`{key}` differs from another [[listen]] with xdp = \"{interface}\"");
            let fault = Diagnostic::at(place.as_ref().or(listen.xdp.place.as_ref()), message);
            faults.push(fault.also(first.xdp.place.as_ref(), "the other one"));
        }
    }
}
