//! Rules about clients: access control of recursion, groups of clients, views.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use transport::{Client, TRANSPORTS, Transport};
use wire::{LowerName, LowerNameBuf, Prefix};

use crate::prefix::{LOOPBACK, PRIVATE, PrefixMasks};

/// Most rules: each has a bit in a mask.
pub const MAX_RULES: usize = 64;

/// What happens to a client's query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessAction {
    /// The query is answered.
    Allow,
    /// The query is refused (RFC 8914 §4.19).
    Refuse,
}

/// A condition on clients and an action. All conditions must hold; the first rule that matches counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRule {
    /// The action.
    pub action: AccessAction,
    /// The client's address is in one of these prefixes.
    pub from: Vec<Prefix>,
    /// The query arrived at one of these local addresses; `None` for any.
    pub local: Option<Vec<LocalAddress>>,
    /// The query arrived by one of these transports; `None` for any.
    pub transports: Option<Vec<Transport>>,
}

/// An address of this server that queries are sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalAddress {
    /// The address.
    pub address: IpAddr,
    /// The port; `None` for any.
    pub port: Option<u16>,
}

impl LocalAddress {
    /// Returns the same address, as IPv4 if it is IPv4-mapped.
    fn to_canonical(self) -> Self {
        LocalAddress { address: self.address.to_canonical(), ..self }
    }
}

impl From<IpAddr> for LocalAddress {
    /// Returns the address with any port.
    fn from(address: IpAddr) -> Self {
        LocalAddress { address, port: None }
    }
}

/// More than the 64 possible rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyRules {
    /// Number of rules.
    pub rules: usize,
}

impl fmt::Display for TooManyRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} access rules, and there can be {MAX_RULES}", self.rules)
    }
}
impl std::error::Error for TooManyRules {}

/// Which rules name each TSIG key, bit 0 for the first rule.
#[derive(Clone, Debug, Default)]
pub struct KeyMasks(
    /// The names of keys in wire form and lower case, sorted.
    Box<[(Box<[u8]>, u64)]>,
);

impl KeyMasks {
    /// Compiles the keys of each rule, in the order of the rules. Rules beyond the 64th are left out.
    pub fn new<'k>(rules: impl IntoIterator<Item = &'k [LowerNameBuf]>) -> Self {
        let mut masks: BTreeMap<&[u8], u64> = BTreeMap::new();
        for (number, keys) in rules.into_iter().take(MAX_RULES).enumerate() {
            keys.iter().for_each(|key| *masks.entry(key.as_lower().as_wire()).or_default() |= 1 << number);
        }
        KeyMasks(masks.into_iter().map(|(key, mask)| (key.into(), mask)).collect())
    }

    /// Returns the rules that name this key. Queries are signed rarely.
    #[cold]
    pub fn mask(&self, key: LowerName<'_>) -> u64 {
        let found = self.0.binary_search_by_key(&key.as_wire(), |(own, _)| own);
        found.ok().and_then(|at| self.0.get(at)).map_or(0, |(_, mask)| *mask)
    }
}

/// Compiled access rules: for every condition a mask of the rules that it does not rule out, bit 0 for the
/// first rule. The lowest bit set in all masks is the rule that counts.
///
/// IPv4-mapped IPv6 addresses are IPv4, in rules as in clients.
#[derive(Clone, Debug)]
pub struct Access {
    from: PrefixMasks,
    by_transport: [u64; TRANSPORTS],
    /// Rules that name local addresses.
    with_local: u64,
    /// For each local address the rules that name it, sorted by address and port.
    by_local: Box<[(LocalAddress, u64)]>,
    /// Rules that allow.
    allow: u64,
}

impl Access {
    /// Compiles rules. Clients that match no rule are refused, so an empty list refuses all.
    ///
    /// # Errors
    /// There are more than 64.
    pub fn new(rules: &[AccessRule]) -> Result<Access, TooManyRules> {
        if rules.len() > MAX_RULES {
            return Err(TooManyRules { rules: rules.len() });
        }
        let numbered = || (0u8..).zip(rules);
        let those = |fits: &dyn Fn(&AccessRule) -> bool| {
            numbered().filter(|(_, rule)| fits(rule)).fold(0, |mask, (number, _)| mask | 1u64 << number)
        };
        let from: Vec<(u8, Prefix)> = numbered()
            .flat_map(|(number, rule)| rule.from.iter().map(move |prefix| (number, prefix.to_canonical())))
            .collect();
        let mut by_transport = [0; TRANSPORTS];
        for (mask, transport) in by_transport.iter_mut().zip(Transport::ALL) {
            *mask = those(&|rule| rule.transports.as_ref().is_none_or(|all| all.contains(transport)));
        }
        let named = rules.iter().flat_map(|rule| rule.local.iter().flatten());
        let mut locals: Vec<LocalAddress> = named.map(|local| local.to_canonical()).collect();
        locals.sort_unstable();
        locals.dedup();
        let names = |rule: &AccessRule, local: &LocalAddress| {
            rule.local.iter().flatten().any(|named| named.to_canonical() == *local)
        };
        Ok(Access {
            from: PrefixMasks::new(from.iter().map(|(number, prefix)| (*number, prefix))),
            by_transport,
            with_local: those(&|rule| rule.local.is_some()),
            by_local: locals.into_iter().map(|local| (local, those(&|rule| names(rule, &local)))).collect(),
            allow: those(&|rule| rule.action == AccessAction::Allow),
        })
    }

    /// Returns the action for a client's query.
    #[inline]
    pub fn of(&self, client: &Client) -> AccessAction {
        if self.deciding(client, 0) & self.allow != 0 { AccessAction::Allow } else { AccessAction::Refuse }
    }

    /// Returns the number of the first rule that a client's query matches. The address of the client is
    /// in the prefixes of the rules in `known_otherwise`, too: a bit for each.
    #[inline]
    pub fn first(&self, client: &Client, known_otherwise: u64) -> Option<usize> {
        let first = self.deciding(client, known_otherwise);
        (first != 0).then_some(first.trailing_zeros() as usize)
    }

    /// Returns the bit of the first rule that a client's query matches; 0 if it matches none.
    #[inline]
    fn deciding(&self, client: &Client, known_otherwise: u64) -> u64 {
        let fits = self.fitting_or(client, known_otherwise);
        fits & fits.wrapping_neg()
    }

    /// Returns the rules that a client's query matches, bit 0 for the first one. The condition on its address
    /// holds for the rules in `known_otherwise`, too.
    #[inline]
    pub(crate) fn fitting_or(&self, client: &Client, known_otherwise: u64) -> u64 {
        self.limited(client, self.from.mask(client.peer.ip().to_canonical()) | known_otherwise)
    }

    /// Returns the rules that a client's query matches, bit 0 for the first one.
    #[inline]
    pub(crate) fn fitting(&self, client: &Client) -> u64 {
        self.fitting_or(client, 0)
    }

    /// Returns the rules whose conditions hold, except for that on the client's address.
    pub(crate) fn fitting_elsewhere(&self, client: &Client) -> u64 {
        self.limited(client, u64::MAX)
    }

    /// Returns which of the rules `from` hold as far as local address and transport are concerned.
    #[inline]
    fn limited(&self, client: &Client, from: u64) -> u64 {
        let mut fits = from & self.by_transport.get(client.transport.index()).copied().unwrap_or(0);
        if fits & self.with_local != 0 {
            fits &= !self.with_local | self.naming(client.local);
        }
        fits
    }

    /// Returns the rules that name this local address, with its port or with any.
    fn naming(&self, local: SocketAddr) -> u64 {
        let any_port = LocalAddress::from(local.ip().to_canonical());
        let with_port = LocalAddress { port: Some(local.port()), ..any_port };
        let of = |local: LocalAddress| {
            let found = self.by_local.binary_search_by_key(&local, |(named, _)| *named).ok();
            found.and_then(|at| self.by_local.get(at)).map_or(0, |(_, mask)| *mask)
        };
        of(any_port) | of(with_port)
    }

    /// Default rules: loopback and the private ones of the attached networks (RFC 1918, RFC 6598, RFC 3927,
    /// RFC 4193, and link-local ones of IPv6) are allowed. All others are refused: an open resolver serves
    /// attacks on others (RFC 5358).
    pub fn default_rules(attached: &[Prefix]) -> Vec<AccessRule> {
        let attached = attached.iter().map(|network| network.to_canonical());
        let private = attached.filter(|network| PRIVATE.iter().any(|block| block.covers(network)));
        let from = LOOPBACK.into_iter().chain(private).collect();
        vec![AccessRule { action: AccessAction::Allow, from, local: None, transports: None }]
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::prefix::tests::{address, prefix};

    fn client(peer: &str, local: &str, transport: Transport) -> Client {
        let at = |text: &str| SocketAddr::new(text.parse().expect("an address"), 53);
        Client { peer: at(peer), local: at(local), transport }
    }

    fn rule(action: AccessAction, from: &[&str]) -> AccessRule {
        let from = from.iter().map(|text| text.parse().expect("a network")).collect();
        AccessRule { action, from, local: None, transports: None }
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rules = [
            rule(AccessAction::Refuse, &["192.0.2.128/25"]),
            rule(AccessAction::Allow, &["192.0.2.0/24", "2001:db8::/32"]),
            rule(AccessAction::Refuse, &["2001:db8:1::/48"]),
        ];
        let access = Access::new(&rules).expect("few rules");
        for (peer, action) in [
            ("192.0.2.127", AccessAction::Allow),
            ("192.0.2.128", AccessAction::Refuse),
            ("192.0.3.0", AccessAction::Refuse),
            ("::ffff:192.0.2.1", AccessAction::Allow),
            ("2001:db8:1::1", AccessAction::Allow),
            ("2001:db9::", AccessAction::Refuse),
        ] {
            assert_eq!(access.of(&client(peer, "127.0.0.1", Transport::Udp)), action, "{peer}");
        }
    }

    #[test]
    fn all_conditions_of_a_rule_must_hold() {
        let mut only = rule(AccessAction::Allow, &["192.0.2.0/24"]);
        only.local = Some(vec!["::ffff:198.51.100.1".parse::<IpAddr>().expect("an address").into()]);
        only.transports = Some(vec![Transport::Tcp]);
        let access = Access::new(&[only]).expect("few rules");
        for (local, transport, action) in [
            ("198.51.100.1", Transport::Tcp, AccessAction::Allow),
            ("198.51.100.1", Transport::Udp, AccessAction::Refuse),
            ("198.51.100.2", Transport::Tcp, AccessAction::Refuse),
        ] {
            assert_eq!(access.of(&client("192.0.2.1", local, transport)), action, "{local} {transport}");
        }
    }

    #[test]
    fn a_local_address_has_any_port_or_one() {
        let at = |address: &str, port| {
            let address = address.parse().expect("an address");
            let local = Some(vec![LocalAddress { address, port }]);
            AccessRule { local, ..rule(AccessAction::Allow, &["192.0.2.0/24"]) }
        };
        let rules = [at("198.51.100.1", Some(5353)), at("198.51.100.1", None), at("::1", Some(5353))];
        let access = Access::new(&rules).expect("few rules");
        let first = |local: &str| {
            let (peer, local) = (([192, 0, 2, 1], 1).into(), local.parse().expect("an address"));
            access.first(&Client { peer, local, transport: Transport::Tls }, 0)
        };
        assert_eq!(first("198.51.100.1:5353"), Some(0));
        assert_eq!(first("198.51.100.1:53"), Some(1));
        assert_eq!(first("[::1]:5353"), Some(2));
        assert_eq!((first("[::1]:53"), first("198.51.100.2:5353")), (None, None));
    }

    #[test]
    fn there_are_rules_for_as_many_bits_as_a_mask_has() {
        let mut rules = vec![rule(AccessAction::Refuse, &["192.0.2.0/24"]); 63];
        rules.push(rule(AccessAction::Allow, &["192.0.0.0/16"]));
        let access = Access::new(&rules).expect("as many as there can be");
        let of = |peer| access.of(&client(peer, "127.0.0.1", Transport::Udp));
        assert_eq!((of("192.0.1.1"), of("192.0.2.1")), (AccessAction::Allow, AccessAction::Refuse));
        rules.push(rule(AccessAction::Allow, &[]));
        assert_eq!(Access::new(&rules).err(), Some(TooManyRules { rules: 65 }));
    }

    #[test]
    fn by_default_this_machine_and_private_networks_of_it_may_ask() {
        let attached = [
            "192.168.7.0/24",
            "198.51.100.0/24",
            "fe80::/64",
            "fd12:3456::/64",
            "2001:db8::/64",
            "10.0.0.0/7",
        ];
        let attached: Vec<Prefix> = attached.iter().map(|text| text.parse().expect("a network")).collect();
        let access = Access::new(&Access::default_rules(&attached)).expect("few rules");
        let may = |peer| access.of(&client(peer, "192.168.7.1", Transport::Udp)) == AccessAction::Allow;
        assert!(["127.0.0.1", "::1", "192.168.7.9", "fe80::1", "fd12:3456::9"].into_iter().all(may));
        assert!(
            !["192.168.8.1", "198.51.100.9", "2001:db8::9", "fd00::1", "10.1.1.1", "8.8.8.8"]
                .into_iter()
                .any(may)
        );
    }

    /// The rules evaluated one after the other.
    fn walk(rules: &[AccessRule], client: &Client) -> AccessAction {
        let (peer, local) = (client.peer.ip().to_canonical(), client.local.ip().to_canonical());
        let at = |named: &LocalAddress| {
            named.address.to_canonical() == local && named.port.is_none_or(|port| port == client.local.port())
        };
        let fits = |rule: &&AccessRule| {
            rule.from.iter().any(|prefix| prefix.to_canonical().contains(peer))
                && rule.local.as_ref().is_none_or(|all| all.iter().any(at))
                && rule.transports.as_ref().is_none_or(|all| all.contains(&client.transport))
        };
        rules.iter().find(fits).map_or(AccessAction::Refuse, |rule| rule.action)
    }

    pub(crate) fn local_address() -> impl Strategy<Value = LocalAddress> {
        let port = prop::option::of(prop::sample::select(vec![53u16, 5353]));
        (address(), port).prop_map(|(address, port)| LocalAddress { address, port })
    }

    fn any_rule() -> impl Strategy<Value = AccessRule> {
        let action = prop_oneof![Just(AccessAction::Allow), Just(AccessAction::Refuse)];
        let from = prop::collection::vec(prefix(), 0..4);
        let local = prop::option::of(prop::collection::vec(local_address(), 0..3));
        let transports = prop::option::of(prop::sample::subsequence(Transport::ALL, 0..=TRANSPORTS));
        (action, from, local, transports).prop_map(|(action, from, local, transports)| AccessRule {
            action,
            from,
            local,
            transports,
        })
    }

    proptest! {
        #[test]
        fn compiled_rules_decide_as_a_walk_over_them(
            rules in prop::collection::vec(any_rule(), 0..10),
            peer in address(),
            at in (any::<prop::sample::Index>(), address()),
            transport in prop::sample::select(Transport::ALL),
        ) {
            let named: Vec<IpAddr> =
                rules.iter().flat_map(|rule| rule.local.iter().flatten()).map(|named| named.address).collect();
            let local = if named.is_empty() { at.1 } else { *at.0.get(&named) };
            let edges = rules.iter().flat_map(|rule| &rule.from).map(Prefix::address);
            let access = Access::new(&rules).expect("few rules");
            for (peer, local) in edges.chain([peer]).flat_map(|peer| [(peer, local), (peer, at.1)]) {
                let client = Client { peer: (peer, 1).into(), local: (local, 53).into(), transport };
                prop_assert_eq!(access.of(&client), walk(&rules, &client));
            }
        }
    }
}
