//! Other servers of each zone, from the configuration.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use transfer::secondary::SecondaryRules;
use transfer::tsig::{TsigKey, TsigKeys};
use transport::{ClientCertificate, Encryption, Transport};
use wire::ZoneName;

use config::addresses::SourceAddress;
use config::peer_tls::{PeerFiles, PeerTls};
use config::peers::{DsPushTarget, Peer, PeerKeys, ZonemdPolicy};
use config::report::Diagnostic;
use config::table::read::At;
use config::table::value::AddrPort;
use config::transfers::TransferGrant;

/// Another server, and the TSIG key for messages to and from it.
#[derive(Debug, Clone)]
pub struct PeerServer {
    /// Address and port of the server.
    pub address: SocketAddr,
    /// The key, if there is one.
    pub key: Option<Arc<TsigKey>>,
    /// Local address for connections to the server; `None`: any.
    pub source: Option<IpAddr>,
    /// Encryption of connections to the server, which then gets no message in the clear.
    pub encryption: Option<Encryption>,
}

impl PeerServer {
    /// Returns the transport of connections to the server.
    pub fn stream(&self) -> Transport {
        if self.encryption.is_some() { Transport::Tls } else { Transport::Tcp }
    }
}

impl PartialEq for PeerServer {
    fn eq(&self, other: &Self) -> bool {
        let name = |peer: &Self| peer.key.as_ref().map(|key| key.name().to_buf());
        self.address == other.address
            && self.source == other.source
            && self.encryption == other.encryption
            && name(self) == name(other)
    }
}

/// In the form of the configuration, without the key.
impl fmt::Display for PeerServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&AddrPort(self.address), f)?;
        self.encryption.as_ref().map_or(Ok(()), |encryption| write!(f, "#{encryption}"))
    }
}

/// The other servers of one zone, or of all zones of a folder.
#[derive(Debug, PartialEq)]
pub struct ZonePeers {
    /// The primaries in the order in which they are asked; empty if the zone is not a secondary zone.
    pub primaries: Box<[PeerServer]>,
    /// The targets of NOTIFY.
    pub notify: Box<[PeerServer]>,
    /// Who may send NOTIFY besides the primaries.
    allow_notify: Box<[TransferGrant]>,
    /// Clients whose updates are forwarded to the primaries.
    forward_updates: Box<[TransferGrant]>,
    /// When primaries are queried.
    pub rules: Arc<SecondaryRules>,
    /// How a version's digest decides whether it is accepted.
    pub zonemd: ZonemdPolicy,
    /// Limit of NSEC3 iterations of a version, if not the default.
    pub nsec3_max_iterations: Option<u16>,
}

impl ZonePeers {
    /// Whether a NOTIFY from `address`, signed by `key`, of a client with `certificate`, is accepted. `Some`
    /// has the sender's index among the primaries, if it is one by its address.
    pub fn takes_notify(
        &self,
        address: IpAddr,
        key: Option<&TsigKey>,
        certificate: Option<&ClientCertificate>,
    ) -> Option<Option<usize>> {
        let address = address.to_canonical();
        let by_address = self.primaries.iter().position(|peer| peer.address.ip() == address);
        let signs = |peer: &PeerServer| {
            peer.key.as_ref().zip(key).is_some_and(|(theirs, key)| theirs.name() == key.name())
        };
        let known = by_address.is_some()
            || self.primaries.iter().any(signs)
            || self.allow_notify.iter().any(|grant| grant.fits(address, key, certificate));
        known.then_some(by_address)
    }

    /// Whether updates from `address`, signed by `key` if that is known here, of a client with `certificate`,
    /// are forwarded to the primaries.
    pub fn forwards(
        &self,
        address: IpAddr,
        key: Option<&TsigKey>,
        certificate: Option<&ClientCertificate>,
    ) -> bool {
        let address = address.to_canonical();
        self.forward_updates.iter().any(|grant| grant.fits(address, key, certificate))
    }
}

/// Where the DS records of a zone are changed.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum DsPush {
    /// Nowhere.
    #[default]
    Off,
    /// In the zone above it, of this server.
    Here,
    /// At servers of the parent zone, in this order until one accepts the change.
    Servers(Arc<[PeerServer]>),
}

/// The other servers of all zones that have any.
#[derive(Debug, Clone, Default)]
pub struct PeerRules {
    zones: Arc<HashMap<ZoneName, Arc<ZonePeers>>>,
}

impl PeerRules {
    /// Returns the servers of one zone.
    pub fn get(&self, apex: &ZoneName) -> Option<&Arc<ZonePeers>> {
        self.zones.get(apex)
    }

    /// Whether any zone is a secondary zone.
    pub fn any_taken(&self) -> bool {
        self.zones.values().any(|peers| !peers.primaries.is_empty())
    }

    /// Sets the servers of one zone.
    pub fn set(&mut self, apex: &ZoneName, peers: Arc<ZonePeers>) {
        Arc::make_mut(&mut self.zones).insert(apex.clone(), peers);
    }

    /// Removes the servers of one zone.
    pub fn remove(&mut self, apex: &ZoneName) {
        if self.zones.contains_key(apex) {
            Arc::make_mut(&mut self.zones).remove(apex);
        }
    }

    /// Returns all zones that have other servers.
    pub fn iter(&self) -> impl Iterator<Item = (&ZoneName, &Arc<ZonePeers>)> {
        self.zones.iter()
    }
}

/// Makes the peers of zones.
pub(crate) struct PeerMaker<'t> {
    keys: Arc<TsigKeys>,
    tls: &'t mut PeerTls,
    /// Peers shared by many zones: those of a template, by the address of the template's keys.
    made: HashMap<(*const PeerKeys, bool), Arc<ZonePeers>>,
}

impl<'t> PeerMaker<'t> {
    /// Returns a maker with these keys. The caller has checked that all keys that are named exist.
    pub(crate) fn new(keys: &Arc<TsigKeys>, tls: &'t mut PeerTls) -> Self {
        PeerMaker { keys: Arc::clone(keys), tls, made: HashMap::new() }
    }

    /// Returns the faults of the files that peers over TLS needed.
    pub(crate) fn take_faults(&mut self) -> Vec<Diagnostic> {
        self.tls.take_faults()
    }

    /// Returns the peers of a zone, if it has any; its template's apply where it has none of its own.
    /// `taken`: it is a secondary zone.
    pub(crate) fn peers(
        &mut self,
        own: Option<&PeerKeys>,
        template: Option<&PeerKeys>,
        taken: bool,
    ) -> Option<Arc<ZonePeers>> {
        let nothing = PeerKeys::default();
        let silent = own.is_none_or(|own| *own == nothing);
        let shared = template.filter(|_| silent).map(|template| (std::ptr::from_ref(template), taken));
        let peers = match shared.and_then(|at| self.made.get(&at)) {
            Some(made) => Arc::clone(made),
            None => {
                let made = self.make(own.unwrap_or(&nothing), template.unwrap_or(&nothing), taken);
                shared.and_then(|at| self.made.insert(at, Arc::clone(&made)));
                made
            }
        };
        (!peers.primaries.is_empty() || !peers.notify.is_empty()).then_some(peers)
    }

    fn make(&mut self, own: &PeerKeys, template: &PeerKeys, taken: bool) -> Arc<ZonePeers> {
        let sources = own.source.value.as_ref().or(template.source.value.as_ref()).map_or(&[][..], |all| all);
        let files = PeerFiles::of(own, template);
        let mut all = |list: &At<Option<Vec<At<Peer>>>>, other: &At<Option<Vec<At<Peer>>>>| {
            let list = list.value.as_ref().or(other.value.as_ref());
            list.into_iter().flatten().map(|peer| self.server(peer, sources, files)).collect()
        };
        let grants = |list: &At<Option<Vec<At<TransferGrant>>>>,
                      other: &At<Option<Vec<At<TransferGrant>>>>| {
            let list = list.value.as_ref().or(other.value.as_ref());
            list.into_iter().flatten().map(|grant| grant.value.clone()).collect()
        };
        Arc::new(ZonePeers {
            primaries: if taken { all(&own.primaries, &template.primaries) } else { Box::default() },
            notify: all(&own.notify, &template.notify),
            allow_notify: grants(&own.allow_notify, &template.allow_notify),
            forward_updates: grants(&own.forward_updates, &template.forward_updates),
            rules: Arc::new(own.rules(template)),
            zonemd: own.zonemd.value.or(template.zonemd.value).unwrap_or_default(),
            nsec3_max_iterations: [own, template]
                .into_iter()
                .find_map(|keys| keys.nsec3_max_iterations.value.as_ref())
                .map(|most| most.0),
        })
    }

    /// Returns where the DS records of a zone with these keys and this template are changed.
    pub(crate) fn ds_push(&mut self, own: &PeerKeys, template: &PeerKeys) -> DsPush {
        let list = own.ds_push.value.as_ref().or(template.ds_push.value.as_ref());
        let targets = list.map_or(&[][..], |list| list);
        if targets.iter().any(|target| target.value == DsPushTarget::Here) {
            return DsPush::Here;
        }
        let sources = own.source.value.as_ref().or(template.source.value.as_ref()).map_or(&[][..], |all| all);
        let files = PeerFiles::of(own, template);
        let server = |target: &At<DsPushTarget>| {
            let peer = At { value: target.value.server()?.clone(), place: target.place.clone() };
            Some(self.server(&peer, sources, files))
        };
        let servers: Arc<[PeerServer]> = targets.iter().filter_map(server).collect();
        if servers.is_empty() { DsPush::Off } else { DsPush::Servers(servers) }
    }

    fn server(&mut self, at: &At<Peer>, sources: &[At<SourceAddress>], files: PeerFiles<'_>) -> PeerServer {
        let Peer { server, key } = &at.value;
        let address = server.address.0;
        let key = key.as_ref().and_then(|name| self.keys.get(name.as_lower())).cloned();
        let of_family = |source: &&At<SourceAddress>| source.value.0.is_ipv4() == address.is_ipv4();
        let source = sources.iter().find(of_family).map(|source| source.value.0);
        PeerServer { address, key, source, encryption: self.tls.encryption(at, files) }
    }
}
