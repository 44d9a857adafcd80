//! Keys of `[resolver]` about a local copy of the root zone, which is queried in place of the root servers
//! (RFC 8806).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use wire::NameBuf;

use super::iterating::Iterating;
use crate::peers::{Peer, PeerKeys, ZonemdPolicy};
use crate::report::Diagnostic;
use crate::table::keys;
use crate::table::read::At;
use crate::upstreams::UpstreamServer;

keys! {
    /// Keys about the local copy of the root zone.
    pub struct RootCopy {
        /// Use a local copy of the root zone in place of the root servers (RFC 8806). It serves resolution
        /// only: clients get the same validated answers as from the root servers. A version is used if its
        /// digest (ZONEMD, RFC 8976) is right and signed by keys that chain to the trust anchors; without
        /// one, or after it has expired, the root servers are queried. It comes from `local-root-primaries`
        /// or `local-root-file`.
        live "local-root" wanted: bool = false, example true;
        /// Servers that the copy is transferred from and refreshed, written as `primaries` of `[[zone]]`.
        /// Unset: the public ones of RFC 8806 appendix A: b, c, f, g and k.root-servers.net and ICANN's at
        /// two sites, over the address families that `iterate-ipv4` and `iterate-ipv6` allow.
        live "local-root-primaries" primaries: Option<Vec<At<Peer>>> = None,
            example ["192.0.2.55", "2001:db8::55@5353"];
        /// File that the copy is read from, in place of servers. It is read again at a reload, and is used
        /// until its signatures expire.
        live "local-root-file" file: Option<PathBuf> = None, example "/var/lib/nomen/root.zone";
    }
}

/// Servers that transfer the root zone to any client (RFC 8806 appendix A, as far as they still do): b, c, f,
/// g, k.root-servers.net, xfr.cjr and xfr.lax.dns.icann.org.
const PUBLIC: [(Ipv4Addr, Ipv6Addr); 7] = [
    (Ipv4Addr::new(170, 247, 170, 2), Ipv6Addr::new(0x2801, 0x1b8, 0x10, 0, 0, 0, 0, 0xb)),
    (Ipv4Addr::new(192, 33, 4, 12), Ipv6Addr::new(0x2001, 0x500, 2, 0, 0, 0, 0, 0xc)),
    (Ipv4Addr::new(192, 5, 5, 241), Ipv6Addr::new(0x2001, 0x500, 0x2f, 0, 0, 0, 0, 0xf)),
    (Ipv4Addr::new(192, 112, 36, 4), Ipv6Addr::new(0x2001, 0x500, 0x12, 0, 0, 0, 0, 0xd0d)),
    (Ipv4Addr::new(193, 0, 14, 129), Ipv6Addr::new(0x2001, 0x7fd, 0, 0, 0, 0, 0, 1)),
    (Ipv4Addr::new(192, 0, 47, 132), Ipv6Addr::new(0x2620, 0, 0x2830, 0x202, 0, 0, 0, 0x132)),
    (Ipv4Addr::new(192, 0, 32, 132), Ipv6Addr::new(0x2620, 0, 0x2d0, 0x202, 0, 0, 0, 0x132)),
];

/// The source of the copy.
#[derive(Debug, Clone, PartialEq)]
pub struct RootSource {
    /// Its file; `None` if it is transferred from primaries.
    pub file: Option<PathBuf>,
    /// The primaries, if any, and how versions are verified.
    pub peers: PeerKeys,
}

impl RootCopy {
    /// Returns the source of the copy, if a copy is configured.
    pub(super) fn source(&self, iterating: &Iterating) -> Option<RootSource> {
        if !*self.wanted {
            return None;
        }
        let file = self.file.value.clone();
        let primaries = match (&file, &self.primaries.value) {
            (Some(_), _) => None,
            (None, Some(own)) => Some(own.clone()),
            (None, None) => Some(public(*iterating.ipv4, *iterating.ipv6)),
        };
        let zonemd = At::unwritten(Some(ZonemdPolicy::Require));
        Some(RootSource {
            file,
            peers: PeerKeys { primaries: At::unwritten(primaries), zonemd, ..PeerKeys::default() },
        })
    }

    /// Returns the peers whose keys sign transfers of the copy.
    pub(super) fn peers(&self) -> PeerKeys {
        PeerKeys { primaries: self.primaries.clone(), ..PeerKeys::default() }
    }

    /// Reports faults of these keys; `iterates`: names are iterated from the root servers down.
    pub(super) fn check(&self, iterating: &Iterating, iterates: bool, faults: &mut Vec<Diagnostic>) {
        let (primaries, file) = (&self.primaries, &self.file);
        let sources = [
            ("local-root-primaries", primaries.is_some(), &primaries.place),
            ("local-root-file", file.is_some(), &file.place),
        ];
        if !*self.wanted {
            for (key, _, place) in sources.into_iter().filter(|(_, is_set, _)| *is_set) {
                let message = format!("`{key}` has no effect without `local-root = true`");
                faults.push(Diagnostic::at(place.as_ref(), message));
            }
            return;
        }
        let place = self.wanted.place.as_ref();
        if !iterates {
            let message = "`local-root` has no effect: no name is resolved from the root servers down";
            faults.push(Diagnostic::at(place, message));
        }
        if primaries.is_some() && file.is_some() {
            let message = "[resolver] has `local-root-file` and `local-root-primaries`";
            let fault = Diagnostic::at(primaries.place.as_ref(), message);
            faults.push(fault.also(file.place.as_ref(), "the copy comes from one or the other"));
        }
        if iterating.root_servers.is_some() && primaries.is_none() && file.is_none() {
            let message =
                "`local-root` would be a copy of the public root, but `root-servers` names other servers";
            let fault = Diagnostic::at(place, message);
            let fault = fault.also(iterating.root_servers.place.as_ref(), "the root servers");
            faults.push(fault.hint("set its source: `local-root-primaries` or `local-root-file`"));
        }
    }

    /// Reports a root zone that is also served to clients: the copy is for the resolver alone.
    pub(crate) fn check_served<'z>(
        &self,
        mut served: impl Iterator<Item = &'z At<NameBuf>>,
        faults: &mut Vec<Diagnostic>,
    ) {
        if !*self.wanted {
            return;
        }
        if let Some(root) = served.find(|name| name.as_name().is_root()) {
            let message = "`local-root` has no effect: the root zone is served here";
            let fault = Diagnostic::at(self.wanted.place.as_ref(), message);
            faults.push(fault.also(root.place.as_ref(), "names are answered from this zone"));
        }
    }
}

/// Returns the public servers, by these address families.
fn public(ipv4: bool, ipv6: bool) -> Vec<At<Peer>> {
    let v4 = PUBLIC.iter().map(|(v4, _)| IpAddr::from(*v4)).filter(|_| ipv4);
    let v6 = PUBLIC.iter().map(|(_, v6)| IpAddr::from(*v6)).filter(|_| ipv6);
    let peer =
        |ip| At::unwritten(Peer { server: UpstreamServer::in_clear(SocketAddr::new(ip, 53)), key: None });
    v4.chain(v6).map(peer).collect()
}
