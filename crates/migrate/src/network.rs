//! Networks, set differences of networks, and client lists with refusals.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::Prefix;

/// A network prefix; one of a single address is printed as that address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Network(Prefix);

impl Network {
    /// The network with this prefix length that contains an address.
    pub(crate) fn of(address: IpAddr, len: u8) -> Option<Self> {
        Prefix::of(address, len).map(Self)
    }

    /// All addresses of both families.
    pub(crate) fn all() -> [Self; 2] {
        [Prefix::ALL_V4, Prefix::ALL_V6].map(Self)
    }

    /// The addresses of any host itself.
    pub(crate) fn loopback() -> [Self; 2] {
        [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()].map(|address| Self(Prefix::single(address)))
    }

    /// All addresses outside these networks; `None` if that takes too many networks.
    pub(crate) fn complement(networks: &[Self]) -> Option<Vec<Self>> {
        let left = without(&Self::all(), networks);
        // At the limit, networks may have been dropped.
        (left.len() < MAX_PASSES).then_some(left)
    }

    pub(crate) fn covers(self, other: Self) -> bool {
        self.0.covers(&other.0)
    }

    /// The prefix length.
    pub(crate) fn length(self) -> u8 {
        self.0.len()
    }

    /// Whether it is within IPv4 addresses mapped into IPv6, which nomen treats as the IPv4 addresses. The
    /// other programs do not.
    pub(crate) fn is_mapped(self) -> bool {
        self.0.to_canonical() != self.0
    }

    /// Its first address.
    pub(crate) fn first(self) -> IpAddr {
        self.0.address()
    }

    /// Its last address.
    pub(crate) fn last(self) -> IpAddr {
        self.0.last()
    }

    /// The network of IPv4 addresses that a network of mapped addresses is for; other networks unchanged.
    pub(crate) fn unmapped(self) -> Self {
        Self(self.0.to_canonical())
    }

    /// The address, if there is only one.
    pub(crate) fn single(self) -> Option<IpAddr> {
        self.0.is_single().then(|| self.0.address())
    }

    /// The two networks that are one bit longer; none of a single address.
    fn halves(self) -> impl Iterator<Item = Self> {
        let ends = [self.0.address(), self.0.last()];
        ends.into_iter().filter_map(move |end| Self::of(end, self.0.len() + 1))
    }

    /// Appends the rest of the network without another one.
    fn without(self, other: Self, out: &mut Vec<Self>) {
        if other.covers(self) {
        } else if self.covers(other) {
            self.halves().for_each(|half| half.without(other, out));
        } else {
            out.push(self);
        }
    }

    /// Parses `address`, `address/length`, or an IPv4 address with fewer parts before the `/`, as in `10/8`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, len) = text.split_once('/').map_or((text, None), |(a, len)| (a, Some(len)));
        let address: IpAddr = match address.parse() {
            Ok(address) => address,
            Err(_) if len.is_some() && address.bytes().all(|b| b.is_ascii_digit() || b == b'.') => {
                let parts = address.trim_end_matches('.').split('.').count();
                let padded = (parts..4).fold(address.trim_end_matches('.').to_owned(), |text, _| text + ".0");
                padded.parse().ok()?
            }
            Err(_) => return None,
        };
        match len {
            None => Some(Self(Prefix::single(address))),
            Some(len) if len.bytes().all(|byte| byte.is_ascii_digit()) => {
                Self::of(address, len.parse().ok()?)
            }
            Some(_) => None,
        }
    }

    /// Parses the input of [`parse`](Self::parse), `first-last`, or `address&mask`, as networks that cover
    /// the same addresses.
    pub(crate) fn parse_range(text: &str) -> Option<Vec<Self>> {
        if let Some((first, last)) = text.split_once('-') {
            return Self::range(first.trim().parse().ok()?, last.trim().parse().ok()?);
        }
        if let Some((address, mask)) = text.split_once('&') {
            let (address, mask): (Ipv4Addr, Ipv4Addr) = (address.parse().ok()?, mask.parse().ok()?);
            let len = u32::from(mask).leading_ones();
            let plain = u32::from(mask).count_ones() == len;
            return plain
                .then(|| Self::of(address.into(), u8::try_from(len).ok()?))
                .flatten()
                .map(|n| vec![n]);
        }
        Self::parse(text).map(|network| vec![network])
    }

    /// The networks that cover the addresses from `first` to `last`.
    pub(crate) fn range(first: IpAddr, last: IpAddr) -> Option<Vec<Self>> {
        if first.is_ipv4() != last.is_ipv4() || first > last {
            return None;
        }
        let (mut out, mut next) = (Vec::new(), Some(first));
        while let Some(first) = next {
            // The largest network that starts here and ends within the range.
            let fits = |network: &Prefix| network.address() == first && network.last() <= last;
            let largest = (0..=128).filter_map(|len| Prefix::of(first, len)).find(fits)?;
            out.push(Self(largest));
            next = after(largest.last()).filter(|next| *next <= last);
        }
        Some(out)
    }
}

/// Returns the next address.
fn after(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(v4) => v4.to_bits().checked_add(1).map(|bits| Ipv4Addr::from_bits(bits).into()),
        IpAddr::V6(v6) => v6.to_bits().checked_add(1).map(|bits| Ipv6Addr::from_bits(bits).into()),
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.single() {
            Some(address) => address.fmt(f),
            None => self.0.fmt(f),
        }
    }
}

/// A member of a client list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Client {
    Networks(Vec<Network>),
    Key(String),
    /// A nested list: the clients that it permits match; for others the outer list continues.
    List(Vec<Member>),
    /// All addresses of the host.
    Own,
    /// The networks that the host is attached to.
    Attached,
    /// The clients cannot be determined.
    Unknown,
}

/// A member of a list in which the first match decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) deny: bool,
    pub(crate) client: Client,
}

/// Clients that pass: those in the network and with the key, if these are set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pass {
    pub(crate) network: Option<Network>,
    pub(crate) key: Option<String>,
}

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.network, &self.key) {
            (None, None) => f.write_str("any"),
            (Some(network), None) => network.fmt(f),
            (None, Some(key)) => write!(f, "key:{key}"),
            (Some(network), Some(key)) => write!(f, "{network} key:{key}"),
        }
    }
}

/// Most members of a list without refusals. A longer list is not intended.
const MAX_PASSES: usize = 2000;

/// Converts a client list to a list without refusals. `None` if that is not possible: no client then passes,
/// which is narrower.
pub(crate) fn passes(members: &[Member]) -> Option<Vec<Pass>> {
    let (mut out, mut denied) = (Vec::new(), Vec::new());
    collect(members, &mut denied, &mut out)?;
    Some(out)
}

fn collect(members: &[Member], denied: &mut Vec<Network>, out: &mut Vec<Pass>) -> Option<()> {
    for member in members {
        match (&member.client, member.deny) {
            (Client::Networks(networks), true) => denied.extend(networks),
            (Client::List(inner), true) => denied.extend(refusals(inner)?),
            (Client::Networks(_) | Client::Own, false) => {
                let left = match &member.client {
                    Client::Networks(networks) => without(networks, denied),
                    _ => without(&Network::loopback(), denied),
                };
                let whole = Network::all().iter().all(|all| left.contains(all));
                match whole {
                    true => push(out, Pass { network: None, key: None }),
                    false => left.into_iter().for_each(|n| push(out, Pass { network: Some(n), key: None })),
                }
            }
            (Client::Key(key), false) => {
                let key = Some(key.clone());
                match denied.is_empty() {
                    true => push(out, Pass { network: None, key }),
                    false => without(&Network::all(), denied)
                        .into_iter()
                        .for_each(|n| push(out, Pass { network: Some(n), key: key.clone() })),
                }
            }
            (Client::List(inner), false) => collect(inner, &mut denied.clone(), out)?,
            (Client::Attached | Client::Unknown, false) => {}
            (Client::Key(_) | Client::Own | Client::Attached | Client::Unknown, true) => return None,
        }
        if out.len() > MAX_PASSES {
            return None;
        }
    }
    Some(())
}

/// The networks that a refused list covers. `None` if a member cannot be expressed exactly, or is a key.
pub(crate) fn refusals(list: &[Member]) -> Option<Vec<Network>> {
    fn is_exact(list: &[Member]) -> bool {
        list.iter().all(|member| match &member.client {
            Client::Networks(_) => true,
            Client::List(inner) => is_exact(inner),
            Client::Key(_) => member.deny,
            Client::Own | Client::Attached | Client::Unknown => false,
        })
    }
    if !is_exact(list) {
        return None;
    }
    let mut out = Vec::new();
    for pass in passes(list)? {
        match pass.network {
            Some(network) => out.push(network),
            None => out.extend(Network::all()),
        }
    }
    Some(out)
}

/// Whether a list permits every client.
pub(crate) fn is_for_all(members: &[Member]) -> bool {
    let Some(found) = passes(members) else { return false };
    let open: Vec<Option<Network>> =
        found.iter().filter(|pass| pass.key.is_none()).map(|pass| pass.network).collect();
    open.contains(&None) || Network::all().iter().all(|all| open.contains(&Some(*all)))
}

/// The permitted networks of a set in which the longest match decides, and of equal networks the last one.
/// `None` is a refusal with an unreadable network: no client then passes.
pub(crate) fn of_longest_match(members: &[(bool, Option<Network>)]) -> Vec<Network> {
    let mut set: Vec<(bool, Network)> = Vec::new();
    for (deny, network) in members {
        match (deny, network) {
            (true, None) => return Vec::new(),
            (false, None) => {}
            (_, Some(network)) => {
                set.retain(|(_, other)| other != network);
                set.push((*deny, *network));
            }
        }
    }
    let refused = |within: Network| -> Vec<Network> {
        let inside = set.iter().filter(|(deny, other)| *deny && within.covers(*other));
        inside.map(|(_, other)| *other).collect()
    };
    let allowed = set.iter().filter(|(deny, network)| !deny && !network.is_mapped());
    let mut out: Vec<Network> = Vec::new();
    for left in allowed.flat_map(|(_, network)| without(&[*network], &refused(*network))) {
        if !out.iter().any(|other| other.covers(left)) {
            out.push(left);
        }
    }
    out
}

/// For clients with networks, of which the longest match decides: those of each client, without the
/// networks of others inside them.
pub(crate) fn disjoint(clients: &[Vec<Network>]) -> Vec<Vec<Network>> {
    let of = |(own, networks): (usize, &Vec<Network>)| {
        let others: Vec<Network> = clients
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != own)
            .flat_map(|(_, all)| all)
            .copied()
            .collect();
        let left = |network: &Network| {
            let inside = others.iter().filter(|other| network.covers(**other) && *other != network);
            without(&[*network], &inside.copied().collect::<Vec<_>>())
        };
        networks.iter().flat_map(left).collect()
    };
    clients.iter().enumerate().map(of).collect()
}

fn push(out: &mut Vec<Pass>, pass: Pass) {
    if pass.network.is_some_and(Network::is_mapped) {
        return;
    }
    // Omits what a wider member already includes.
    let covered = |other: &Pass| match (other.network, pass.network) {
        _ if other.key.is_some() && other.key != pass.key => false,
        (None, _) => true,
        (Some(wide), Some(narrow)) => wide.covers(narrow),
        (Some(_), None) => false,
    };
    if !out.iter().any(covered) {
        out.push(pass);
    }
}

/// The rest of networks without others.
fn without(networks: &[Network], denied: &[Network]) -> Vec<Network> {
    denied.iter().fold(networks.to_vec(), |left, deny| {
        let mut out = Vec::new();
        left.into_iter().take(MAX_PASSES).for_each(|network| network.without(*deny, &mut out));
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn member(deny: bool, text: &str) -> Member {
        let client = match text.strip_prefix("key:") {
            Some(key) => Client::Key(key.into()),
            None if text == "any" => Client::Networks(Network::all().into()),
            None => Client::Networks(Network::parse_range(text).expect(text)),
        };
        Member { deny, client }
    }

    fn shown(members: &[Member]) -> Option<Vec<String>> {
        Some(passes(members)?.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn refusals_are_taken_out_of_what_follows() {
        let list = [member(true, "10.0.0.128/25"), member(false, "10.0.0.0/24"), member(false, "key:k")];
        let found = shown(&list).expect("it can be said");
        assert_eq!(found[0], "10.0.0.0/25");
        assert!(found[1..].iter().all(|pass| pass.ends_with("key:k")));
        assert_eq!(shown(&[member(true, "key:k"), member(false, "any")]), None);
    }

    /// `!{ !10/8; any; }; key k;` is BIND's notation for a network and a key.
    #[test]
    fn a_network_and_a_key() {
        let inner = vec![member(true, "10.0.0.0/8"), member(false, "any")];
        let list = [Member { deny: true, client: Client::List(inner) }, member(false, "key:k")];
        assert_eq!(shown(&list), Some(vec!["10.0.0.0/8 key:k".into()]));
    }

    #[test]
    fn the_longest_of_overlapping_networks_has_its_addresses_alone() {
        let networks = |texts: &[&str]| texts.iter().filter_map(|text| Network::parse(text)).collect();
        let found = disjoint(&[
            networks(&["10.0.0.0/30", "10.0.0.1"]),
            networks(&["10.0.0.2", "10.0.0.0/31"]),
            networks(&["10.0.0.2"]),
        ]);
        let shown: Vec<Vec<String>> =
            found.iter().map(|all| all.iter().map(ToString::to_string).collect()).collect();
        assert_eq!(shown, [vec!["10.0.0.3", "10.0.0.1"], vec!["10.0.0.2", "10.0.0.0"], vec!["10.0.0.2"]]);
    }

    #[test]
    fn ranges_and_masks_are_networks() {
        let shown = |text| -> Vec<String> {
            Network::parse_range(text).expect(text).iter().map(ToString::to_string).collect()
        };
        assert_eq!(shown("10.0.0.1-10.0.0.4"), ["10.0.0.1", "10.0.0.2/31", "10.0.0.4"]);
        assert_eq!(shown("0.0.0.0-255.255.255.255"), ["0.0.0.0/0"]);
        assert_eq!(shown("10.1.0.0&255.255.0.0"), ["10.1.0.0/16"]);
        assert_eq!(shown("10/8"), ["10.0.0.0/8"]);
        assert_eq!(shown("::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), ["::/0"]);
        assert_eq!(shown("192.0.2.7/24"), ["192.0.2.0/24"]);
        for bad in ["10.0.0.2-10.0.0.1", "10.0.0.0/33", "::1-10.0.0.1", "x", "10.0.0.0&255.0.255.0", "10"] {
            assert_eq!(Network::parse_range(bad), None, "{bad}");
        }
    }

    proptest! {
        /// The first match decides, and the list without refusals decides equally.
        #[test]
        fn a_list_without_refusals_lets_the_same_pass(
            list in prop::collection::vec((any::<bool>(), 0u8..=255, 24u8..=32), 0..6),
            client in 0u8..=255,
        ) {
            let network = |last: u8, len| Network::of(Ipv4Addr::new(10, 0, 0, last).into(), len).expect("a network");
            let client = network(client, 32);
            let expected = list
                .iter()
                .find(|(_, last, len)| network(*last, *len).covers(client))
                .is_some_and(|(deny, ..)| !deny);
            let members: Vec<Member> = list
                .iter()
                .map(|(deny, last, len)| Member { deny: *deny, client: Client::Networks(vec![network(*last, *len)]) })
                .collect();
            let found = passes(&members).expect("there are no keys");
            let fits = |pass: &Pass| pass.network.is_none_or(|network| network.covers(client));
            prop_assert_eq!(found.iter().any(fits), expected);
        }
    }
}
