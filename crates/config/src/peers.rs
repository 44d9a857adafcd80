//! Keys of `[[zone]]` and `[template.X]` about other servers of the zone: its primaries and NOTIFY targets.

use std::fmt;
use std::path::PathBuf;

use toml::Spanned;
use toml::de::DeValue;
use transfer::secondary::SecondaryRules;
use wire::LowerNameBuf;
use zone::Zone;
use zone::zonemd::{self, ZonemdFault};

use super::addresses::{SourceAddress, check_sources};
use super::report::Diagnostic;
use super::table::Keys;
use super::table::keys;
use super::table::read::{At, Reader};
use super::table::value::{Int, Seconds, Value, Word, quote};
use super::transfers::TransferGrant;
use super::upstreams::{UpstreamFault, UpstreamServer, check_authorities};
use super::zone_name::{ZoneNameFault, zone_name};

/// A bound on a timer of an SOA record: 1 second to 68 years (RFC 2181 §8).
type Bound = Option<Seconds<1, 2_147_483_647>>;

keys! {
    /// Keys of zones and templates about other servers. The zone's keys take precedence.
    pub struct PeerKeys {
        /// Transfer the zone from these servers and keep it current (RFC 1034 §4.3.5); it then has no `file`.
        /// Each is an address, with a port and a TSIG key if needed: `192.0.2.1@53 key:NAME`. They are asked
        /// in this order: the next one if one does not answer. With `#` and what authenticates the server,
        /// written as in `servers` of `[[resolver.forward]]`, it is asked over TLS alone (RFC 9103), on port
        /// 853 by default. [ENCRYPTED-DNS.md](ENCRYPTED-DNS.md) explains it.
        live "primaries" primaries: Option<Vec<At<Peer>>> = None,
            example ["192.0.2.1#ns1.example.net key:transfer.example.com", "2001:db8::1@5353"];
        /// Servers that receive a NOTIFY (RFC 1996) for each change of the zone, written as in `primaries`.
        /// The zone's NS records are not used for this.
        live "notify" notify: Option<Vec<At<Peer>>> = None,
            example ["192.0.2.53", "2001:db8::53 key:transfer.example.com"];
        /// Where the DS records of a zone with `dnssec-policy` are changed when its CDS records ask for it:
        /// `here`, in the zone above it, which this server has and which takes changes; or servers of the
        /// parent zone, written as in `primaries`, each with a key or over TLS with `client-chain`, which are
        /// sent a dynamic update (RFC 2136), in this order: the next one if one does not accept it; `none`,
        /// nowhere although the template has something. Unset: nowhere; the parent reads CDS records, or an
        /// operator changes the DS records. [SIGNING.md](SIGNING.md#ds-records-pushed-to-the-parent) explains
        /// it.
        live "ds-push" ds_push: Option<Vec<At<DsPushTarget>>> = None,
            example ["192.0.2.1 key:transfer.example.com"];
        /// PEM file of the CA certificates that authenticate the servers in `primaries`, `notify` and
        /// `ds-push` that have a name (`#ns1.example.net`). It is read at the start and at each reload.
        /// Unset: the CA certificates of the system.
        live "ca-file" ca_file: Option<PathBuf> = None, example "/etc/ssl/company-ca.pem";
        /// PEM file of the certificate that nomen shows to the servers in `primaries` and `notify` that ask
        /// for one (mutual TLS), followed by the certificates that issued it. With `client-key` beside it.
        /// Both are read at the start and at each reload. Unset: none.
        live "client-chain" client_chain: Option<PathBuf> = None, example "/etc/nomen/tls/client.pem";
        /// PEM file of the private key of `client-chain`, without a passphrase.
        live "client-key" client_key: Option<PathBuf> = None, example "/etc/nomen/tls/client-key.pem";
        /// Source addresses of messages to other servers of the zone, one of each family at most: SOA
        /// queries, transfers, NOTIFY, forwarded updates. Unset: the system chooses.
        live "source" source: Option<Vec<At<SourceAddress>>> = None, example ["192.0.2.2", "2001:db8::2"];
        /// Clients that may send NOTIFY, besides the addresses and keys of `primaries`, written as in
        /// `allow-transfer`.
        live "allow-notify" allow_notify: Option<Vec<At<TransferGrant>>> = None, example ["192.0.2.0/24"];
        /// Clients whose dynamic updates are forwarded to the first reachable server of `primaries`, written
        /// as in `allow-transfer` (RFC 2136 §6). Updates are forwarded unchanged, with their signature, and
        /// the primary decides; other clients get REFUSED. Unset: none.
        live "forward-updates" forward_updates: Option<Vec<At<TransferGrant>>> = None,
            example ["192.0.2.0/24"];
        /// Ask primaries for the differences (IXFR, RFC 1995), and for the whole zone only if they do not
        /// have them. Unset: yes.
        live "ixfr" ixfr: Option<bool> = None, example false;
        /// Verification of digests (ZONEMD, RFC 8976): `verify` refuses a version whose digest is wrong,
        /// `require` also one without a supported digest, `off` verifies none. A refused version does not go
        /// into service. Versions made by updates are not verified. Unset: `verify` for versions from
        /// primaries, `off` for files.
        live "zonemd" zonemd: Option<ZonemdPolicy> = None, example "require";
        /// Most NSEC3 iterations of a version that goes into service. Each denial costs up to three hashes of
        /// as many rounds; RFC 9276 recommends 0. A version with more is refused like a bad file or transfer,
        /// also one from the state folder. The CPU time for zones with more than 100, or fewer and a long
        /// salt, is limited by `nsec3-rounds` of `[server]`. Unset: 500.
        live "nsec3-max-iterations" nsec3_max_iterations: Option<Int<u16, 0, 65535>> = None, example 100;
        /// Shortest time between two checks for a newer version, if REFRESH of the SOA record is shorter.
        /// Unset: `10s`.
        live "min-refresh" min_refresh: Bound = None, example "1m";
        /// Longest time between two checks for a newer version. Unset: `28d`.
        live "max-refresh" max_refresh: Bound = None, example "1h";
        /// Shortest time to the next check after one at which no primary answered. Unset: `10s`.
        live "min-retry" min_retry: Bound = None, example "30s";
        /// Longest time to the next check after one at which no primary answered. Unset: `14d`.
        live "max-retry" max_retry: Bound = None, example "10m";
        /// Shortest time without an answer of a primary after which the zone expires: queries get SERVFAIL.
        /// Unset: as the SOA record says.
        live "min-expire" min_expire: Bound = None, example "7d";
        /// Longest time without an answer of a primary after which the zone expires. Unset: as the SOA record
        /// says.
        live "max-expire" max_expire: Bound = None, example "30d";
    }
}

/// How a version's digest (ZONEMD, RFC 8976) affects its acceptance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ZonemdPolicy {
    /// The digest is not verified.
    Off,
    /// A version with a wrong digest is refused.
    #[default]
    Verify,
    /// Only a version with a correct digest is accepted.
    Require,
}

impl ZonemdPolicy {
    /// Returns why a version is refused.
    pub fn objection(self, zone: &Zone) -> Option<ZonemdFault> {
        if self == Self::Off {
            return None;
        }
        match zonemd::verify(zone).err()? {
            ZonemdFault::Absent | ZonemdFault::Unknown if self == Self::Verify => None,
            fault => Some(fault),
        }
    }
}

/// Default of the largest number of NSEC3 iterations.
pub const MOST_NSEC3_ITERATIONS: u16 = 500;

/// Returns why a version with too many NSEC3 iterations is refused; `most` is the configured limit.
pub fn too_many_iterations(zone: &Zone, most: Option<u16>) -> Option<String> {
    let most = most.unwrap_or(MOST_NSEC3_ITERATIONS);
    let iterations = zone.nsec3().map(|chain| chain.iterations()).filter(|iterations| *iterations > most)?;
    Some(format!("NSEC3 has {iterations} iterations, and `nsec3-max-iterations` is {most}"))
}

impl Word for ZonemdPolicy {
    const WORDS: &'static [(&'static str, Self)] =
        &[("off", Self::Off), ("verify", Self::Verify), ("require", Self::Require)];
}

/// Another server of a zone: a primary or a NOTIFY target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its address, and how it is authenticated over TLS.
    pub server: UpstreamServer,
    /// The name of the key that signs messages between it and this server.
    pub key: Option<LowerNameBuf>,
}

/// The word for the parent zone of this server.
const HERE: &str = "here";
/// The word for no place, although the template of the zone has one.
const NOWHERE: &str = "none";

/// Where the DS RRset of a zone is changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DsPushTarget {
    /// Nowhere, although the template of the zone has a place.
    Nowhere,
    /// In the zone above it, which this server has.
    Here,
    /// At a server of the parent zone, by dynamic update.
    Server(Box<Peer>),
}

impl DsPushTarget {
    /// Returns the server, if it is one.
    pub fn server(&self) -> Option<&Peer> {
        match self {
            Self::Nowhere | Self::Here => None,
            Self::Server(peer) => Some(&**peer),
        }
    }
}

impl std::str::FromStr for DsPushTarget {
    type Err = PeerFault;

    fn from_str(text: &str) -> Result<Self, PeerFault> {
        match text.trim() {
            HERE => Ok(Self::Here),
            NOWHERE => Ok(Self::Nowhere),
            server => server.parse().map(|peer| Self::Server(Box::new(peer))),
        }
    }
}

impl fmt::Display for DsPushTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nowhere => f.write_str(NOWHERE),
            Self::Here => f.write_str(HERE),
            Self::Server(peer) => peer.server.fmt(f),
        }
    }
}

impl Value for DsPushTarget {
    fn kind() -> String {
        format!("\"{HERE}\", \"{NOWHERE}\" or {}", Peer::kind())
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "\"here\" or an address such as \"192.0.2.1 key:NAME\"", str::parse)
    }
    fn render(&self) -> Option<String> {
        match self {
            Self::Nowhere => Some(quote(NOWHERE)),
            Self::Here => Some(quote(HERE)),
            Self::Server(peer) => peer.render(),
        }
    }
}

/// What is wrong with the text of a [`Peer`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerFault {
    /// It has no address.
    NoAddress,
    /// It has two addresses, or two keys.
    Twice,
    /// This is not the name of a key.
    Key(ZoneNameFault),
    /// This is not the address of a server, or not the identity of one over TLS.
    Server(UpstreamFault),
}

impl fmt::Display for PeerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAddress => f.write_str("no address; write one, followed by \"key:NAME\" if it has a key"),
            Self::Twice => f.write_str("one address and one key at most; write further ones as list members"),
            Self::Key(fault) => write!(f, "the name of the key: {fault}"),
            Self::Server(fault) => fault.fmt(f),
        }
    }
}

impl std::str::FromStr for Peer {
    type Err = PeerFault;

    fn from_str(text: &str) -> Result<Self, PeerFault> {
        let (mut server, mut key) = (None, None);
        for word in text.split_whitespace() {
            let twice = match word.strip_prefix("key:") {
                Some(name) => {
                    let name = zone_name(name).map_err(PeerFault::Key)?;
                    key.replace(name.as_name().to_lower()).is_some()
                }
                None => {
                    let parsed = UpstreamServer::parse(word).and_then(UpstreamServer::with_zones);
                    server.replace(parsed.map_err(PeerFault::Server)?).is_some()
                }
            };
            if twice {
                return Err(PeerFault::Twice);
            }
        }
        server.map(|server| Peer { server, key }).ok_or(PeerFault::NoAddress)
    }
}

impl Value for Peer {
    fn kind() -> String {
        "server `ip`, `ip@port`, `ip#name` or `ip@port#name`, with or without `key:NAME`".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "an address such as \"192.0.2.1\"", str::parse)
    }
    fn render(&self) -> Option<String> {
        let key = self.key.as_ref().map(|key| format!(" key:{}", key.as_name())).unwrap_or_default();
        // The port of a server in the clear is written, so that each is read again as it was.
        Some(quote(&format!("{}{key}", self.server)))
    }
}

impl PeerKeys {
    /// Returns every TSIG key that is named, with its place.
    pub fn keys(&self) -> impl Iterator<Item = At<LowerNameBuf>> {
        let peers = self.primaries.value.iter().chain(&self.notify.value).flatten();
        let of_peers = peers.map(|peer| (peer.value.key, peer.place.clone()));
        let pushed = self.ds_push.value.iter().flatten();
        let pushed = pushed.filter_map(|at| Some((at.value.server()?.key, at.place.clone())));
        let of_peers = of_peers.chain(pushed);
        let grants = self.allow_notify.value.iter().chain(&self.forward_updates.value).flatten();
        let of_grants = grants.map(|grant| (grant.value.key().copied(), grant.place.clone()));
        of_peers.chain(of_grants).filter_map(|(key, place)| key.map(|value| At { value, place }))
    }

    /// Returns the rules of a zone with these keys and this template.
    pub fn rules(&self, template: &PeerKeys) -> SecondaryRules {
        let SecondaryRules { refresh, retry, expire, .. } = SecondaryRules::default();
        let bound = |own: &At<Bound>, other: &At<Bound>, unset: &u32| {
            own.value.as_ref().or(other.value.as_ref()).map_or(*unset, |seconds| seconds.0)
        };
        let range = |low: u32, high: u32| low..=high.max(low);
        SecondaryRules {
            primaries: self
                .primaries
                .value
                .as_ref()
                .or(template.primaries.value.as_ref())
                .map_or(0, Vec::len),
            ixfr: self.ixfr.value.or(template.ixfr.value).unwrap_or(true),
            refresh: range(
                bound(&self.min_refresh, &template.min_refresh, refresh.start()),
                bound(&self.max_refresh, &template.max_refresh, refresh.end()),
            ),
            retry: range(
                bound(&self.min_retry, &template.min_retry, retry.start()),
                bound(&self.max_retry, &template.max_retry, retry.end()),
            ),
            expire: range(
                bound(&self.min_expire, &template.min_expire, expire.start()),
                bound(&self.max_expire, &template.max_expire, expire.end()),
            ),
        }
    }

    /// Reports a CA file that authenticates no server. `self` are all the keys that apply to a zone.
    pub(super) fn check_authorities(&self, faults: &mut Vec<Diagnostic>) {
        let servers = self.primaries.value.iter().chain(&self.notify.value).flatten();
        let pushed = self.ds_push.value.iter().flatten().filter_map(|target| target.value.server());
        let servers = servers.map(|peer| &peer.value).chain(pushed);
        check_authorities(servers.map(|peer| &peer.server), &self.ca_file, faults);
    }

    /// Returns the clients that these keys permit something.
    pub fn grants(&self) -> impl Iterator<Item = &At<TransferGrant>> {
        self.allow_notify.value.iter().chain(&self.forward_updates.value).flatten()
    }

    /// Returns the files that these keys name, for TLS.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        let all = [&self.ca_file, &self.client_chain, &self.client_key];
        all.into_iter().filter_map(|file| file.value.clone())
    }

    /// Reports reversed bounds, two sources of one family, and a certificate without its key.
    pub(super) fn check(&self, faults: &mut Vec<Diagnostic>) {
        check_sources(&self.source, faults);
        for (name, file, other_name, other) in [
            ("client-chain", &self.client_chain, "client-key", &self.client_key),
            ("client-key", &self.client_key, "client-chain", &self.client_chain),
        ] {
            if file.is_some() && other.is_none() {
                let message = format!("`{name}` needs `{other_name}` beside it");
                faults.push(Diagnostic::at(file.place.as_ref(), message));
            }
        }
        for (names, low, high) in [
            (["min-refresh", "max-refresh"], &self.min_refresh, &self.max_refresh),
            (["min-retry", "max-retry"], &self.min_retry, &self.max_retry),
            (["min-expire", "max-expire"], &self.min_expire, &self.max_expire),
        ] {
            let [low_name, high_name] = names;
            if let (Some(least), Some(most)) = (&low.value, &high.value)
                && least.0 > most.0
            {
                let message = format!("`{low_name}` is longer than `{high_name}`");
                let fault = Diagnostic::at(low.place.as_ref(), message);
                faults.push(fault.also(high.place.as_ref(), format!("`{high_name}`")));
            }
        }
    }

    /// Reports keys that have no effect because the zone has no primaries.
    pub(super) fn check_without_primaries(&self, faults: &mut Vec<Diagnostic>) {
        let all = self.values();
        let places = [
            ("allow-notify", &self.allow_notify.place),
            ("forward-updates", &self.forward_updates.place),
            ("ixfr", &self.ixfr.place),
            ("min-refresh", &self.min_refresh.place),
            ("max-refresh", &self.max_refresh.place),
            ("min-retry", &self.min_retry.place),
            ("max-retry", &self.max_retry.place),
            ("min-expire", &self.min_expire.place),
            ("max-expire", &self.max_expire.place),
        ];
        for (name, place) in places {
            if all.iter().any(|key| key.key == name && key.value.is_some()) {
                let message = format!("`{name}` has no effect without `primaries`");
                faults.push(Diagnostic::at(place.as_ref(), message));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addresses::ServerFault;
    use crate::table::value::AddrPortFault;

    #[test]
    fn a_peer_is_an_address_with_or_without_port_and_key() {
        for (text, address, key) in [
            ("192.0.2.1", "192.0.2.1:53", None),
            ("192.0.2.1@5353", "192.0.2.1:5353", None),
            ("2001:db8::1", "[2001:db8::1]:53", None),
            ("[2001:db8::1]@54 key:K.example", "[2001:db8::1]:54", Some("k.example.")),
            ("key:k.example 192.0.2.1", "192.0.2.1:53", Some("k.example.")),
        ] {
            let peer: Peer = text.parse().expect(text);
            assert_eq!(peer.server.address.0, address.parse().expect("an address"), "{text}");
            assert_eq!(peer.key.map(|key| key.as_name().to_string()).as_deref(), key, "{text}");
        }
    }

    #[test]
    fn a_peer_with_an_identity_is_asked_over_tls_on_port_853() {
        for (text, shown) in [
            ("192.0.2.1#ns1.example key:k", "\"192.0.2.1@853#ns1.example key:k.\""),
            ("192.0.2.1@8853#opportunistic", "\"192.0.2.1@8853#opportunistic\""),
        ] {
            let peer: Peer = text.parse().expect(text);
            assert!(peer.server.is_encrypted(), "{text}");
            assert_eq!(peer.render().as_deref(), Some(shown), "{text}");
        }
    }

    #[test]
    fn what_is_no_peer_is_refused() {
        let fault = |text: &str| text.parse::<Peer>().expect_err(text);
        assert_eq!(fault("key:k"), PeerFault::NoAddress);
        assert_eq!(fault("192.0.2.1 192.0.2.2"), PeerFault::Twice);
        assert_eq!(fault("192.0.2.1 key:a key:b"), PeerFault::Twice);
        assert!(matches!(fault("192.0.2.1 key:a..b"), PeerFault::Key(_)));
        assert!(matches!(
            fault("ns1"),
            PeerFault::Server(UpstreamFault::Address(ServerFault::AddrPort(AddrPortFault::NoAddress(_))))
        ));
        let no_server = fault("0.0.0.0");
        assert!(matches!(no_server, PeerFault::Server(UpstreamFault::Address(ServerFault::NoServer(_)))));
        assert_eq!(fault("192.0.2.1#"), PeerFault::Server(UpstreamFault::NoIdentity));
        assert_eq!(fault("quic://192.0.2.1#opportunistic"), PeerFault::Server(UpstreamFault::OnlyTls));
    }
}
