//! Groups of clients: a client is in the first group that it matches, by its address, by the TSIG key of its
//! query, by an EDNS option that a trusted forwarder has added, or by the name that it has written for itself
//! in the server name of TLS or in the path of HTTP; each of them alone or together with the address of this
//! server that the query was sent to.
//!
//! Three kinds of options are known: the MAC address of a host (dnsmasq's `add-mac`: 65001, or 65073 as text
//! or base64), the identifier of a device (dnsmasq's `add-cpe-id`: 65074), and EDNS-CLIENT-TAG
//! (draft-bellis-dnsop-edns-tags: 16). Any client can send them, so they have an effect in
//! queries from listed networks only.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use transport::Client;
use wire::edns::OptionCode;
use wire::{LowerName, LowerNameBuf, Prefix};

use crate::access::{Access, AccessRule, KeyMasks, TooManyRules};
use crate::prefix::PrefixMasks;

/// What an EDNS option says about a client.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientId {
    /// The MAC address of the host.
    Mac([u8; 6]),
    /// The identifier of the device, as the forwarder writes it, or the client itself; that of a client is in
    /// lower case.
    Device(Box<[u8]>),
    /// The client tag.
    Tag(u16),
}

impl ClientId {
    /// Returns the kind as a number, and the bytes that an option has.
    fn parts(&self) -> (u8, Box<[u8]>) {
        match self {
            ClientId::Mac(address) => (MAC, Box::new(*address)),
            ClientId::Device(name) => (DEVICE, name.clone()),
            ClientId::Tag(tag) => (TAG, Box::new(tag.to_be_bytes())),
        }
    }
}

/// The kinds of [`ClientId`].
const MAC: u8 = 0;
const DEVICE: u8 = 1;
const TAG: u8 = 2;

/// The options of a query's OPT, if one of them may say something about the client: RDATA of OPT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientIds<'q>(pub(crate) &'q [u8]);

impl<'q> ClientIds<'q> {
    /// Returns options that were stored by [`as_bytes`](Self::as_bytes).
    pub fn of_bytes(bytes: &'q [u8]) -> Self {
        ClientIds(bytes)
    }

    /// The options as in the message.
    pub fn as_bytes(self) -> &'q [u8] {
        self.0
    }

    /// Whether an option of this code may say something about a client.
    #[inline]
    pub(crate) fn is_known(code: OptionCode) -> bool {
        matches!(
            code,
            OptionCode::CLIENT_TAG | OptionCode::DEVICE_MAC | OptionCode::DEVICE_ID | OptionCode::CPE_ID
        )
    }

    /// Returns a hash of the options that say something about the client.
    pub(crate) fn hash(self, seed: u8) -> u64 {
        let mut hasher = DefaultHasher::new();
        seed.hash(&mut hasher);
        let known = self.options().filter(|(code, _)| Self::is_known(*code));
        known.for_each(|(code, data)| (code.0, data).hash(&mut hasher));
        hasher.finish()
    }

    /// Returns the codes and data of all options.
    fn options(self) -> impl Iterator<Item = (OptionCode, &'q [u8])> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (head, behind) = rest.split_first_chunk::<4>()?;
            let [code, len] = [[head[0], head[1]], [head[2], head[3]]].map(u16::from_be_bytes);
            let (data, next) = behind.split_at_checked(usize::from(len))?;
            rest = next;
            Some((OptionCode(code), data))
        })
    }
}

/// A client, as groups see it.
#[derive(Clone, Copy, Debug)]
pub struct GroupClient<'q> {
    /// Its address and transport.
    pub client: &'q Client,
    /// The TSIG key that signed its query.
    pub key: Option<LowerName<'q>>,
    /// The options of its query that may say more about it.
    pub ids: Option<ClientIds<'q>>,
    /// The name that it has written for itself, in lower case.
    pub name: Option<&'q Arc<str>>,
}

impl<'q> GroupClient<'q> {
    /// Returns a client whose query has neither TSIG nor options about it.
    pub fn by_address(client: &'q Client) -> Self {
        GroupClient { client, key: None, ids: None, name: None }
    }
}

/// The conditions on the clients of a group. A client is in the group if it matches one of the parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupRule {
    /// The parts; one suffices unless members of the group name addresses of this server.
    pub parts: Vec<GroupPart>,
}

/// Clients of a group that have the same conditions on the local address. One of address, key and option must
/// match, and all of the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPart {
    /// Conditions on the client's address, on the local address and on the transport. Its action does not
    /// matter.
    pub clients: AccessRule,
    /// Keys: a query that one of them has signed fulfills the condition on the client's address.
    pub keys: Vec<LowerNameBuf>,
    /// Options: a query from a trusted network with one of them does. A client that has written an identifier
    /// for itself does as well.
    pub ids: Vec<ClientId>,
}

impl From<GroupPart> for GroupRule {
    fn from(part: GroupPart) -> Self {
        GroupRule { parts: vec![part] }
    }
}

impl GroupRule {
    /// Adds the addresses of the hosts that it names by MAC address.
    pub fn add_hosts<'a, A: IntoIterator<Item = &'a IpAddr>>(&mut self, addresses: impl Fn([u8; 6]) -> A) {
        for GroupPart { clients, ids, .. } in &mut self.parts {
            let macs = ids.iter().filter_map(|id| match id {
                ClientId::Mac(address) => Some(*address),
                ClientId::Device(_) | ClientId::Tag(_) => None,
            });
            clients.from.extend(macs.flat_map(&addresses).map(|address| Prefix::single(*address)));
        }
    }
}

/// Networks whose clients are trusted to say in options for which client they ask.
pub type TrustedForwarders = Arc<[Prefix]>;

/// The rules that name an option.
#[derive(Clone, Debug)]
struct IdMask {
    kind: u8,
    bytes: Box<[u8]>,
    mask: u64,
}

/// Which rules name each option.
#[derive(Clone, Debug)]
struct IdMasks {
    trusted: PrefixMasks,
    /// Sorted by kind and bytes.
    masks: Box<[IdMask]>,
}

impl IdMasks {
    /// Compiles the options of parts; `None` if none has any effect.
    fn new(parts: &[&GroupPart], trusted: &[Prefix]) -> Option<Self> {
        let mut masks: BTreeMap<(u8, Box<[u8]>), u64> = BTreeMap::new();
        for (number, part) in parts.iter().enumerate() {
            part.ids.iter().for_each(|id| *masks.entry(id.parts()).or_default() |= 1 << number);
        }
        let one = |((kind, bytes), mask)| IdMask { kind, bytes, mask };
        let masks: Box<_> = masks.into_iter().map(one).collect();
        let has_effect = !masks.is_empty() && !trusted.is_empty();
        has_effect.then(|| IdMasks { trusted: PrefixMasks::any(trusted), masks })
    }

    fn get(&self, kind: u8, bytes: &[u8]) -> u64 {
        let found = self.masks.binary_search_by(|own| (own.kind, &*own.bytes).cmp(&(kind, bytes)));
        found.ok().and_then(|at| self.masks.get(at)).map_or(0, |own| own.mask)
    }

    /// Returns the rules that name one of the options. Few queries have any.
    #[cold]
    fn mask(&self, client: &Client, ids: ClientIds<'_>) -> u64 {
        if !self.trusted.contains(client.peer.ip().to_canonical()) {
            return 0;
        }
        let one = |(code, data): (OptionCode, &[u8])| match code {
            OptionCode::CLIENT_TAG => self.get(TAG, data),
            OptionCode::DEVICE_MAC => self.get(MAC, data),
            OptionCode::DEVICE_ID => {
                let by_mac = mac_of_text(data).map_or(0, |address| self.get(MAC, &address));
                by_mac | self.get(DEVICE, data)
            }
            OptionCode::CPE_ID => self.get(DEVICE, data),
            _ => 0,
        };
        ids.options().map(one).fold(0, |all, mask| all | mask)
    }
}

/// Which rules name each identifier, in lower case, sorted by it.
type NameMasks = Box<[(Box<[u8]>, u64)]>;

fn name_masks(parts: &[&GroupPart]) -> NameMasks {
    let mut masks: BTreeMap<Box<[u8]>, u64> = BTreeMap::new();
    for (number, part) in parts.iter().enumerate() {
        for id in &part.ids {
            if let ClientId::Device(name) = id {
                *masks.entry(name.to_ascii_lowercase().into()).or_default() |= 1 << number;
            }
        }
    }
    masks.into_iter().collect()
}

/// Returns the MAC address that dnsmasq writes as text (`add-mac=text`) or in base64 (`add-mac=base64`).
fn mac_of_text(data: &[u8]) -> Option<[u8; 6]> {
    let mut address = [0; 6];
    if let Ok(base64) = <[u8; 8]>::try_from(data) {
        let digit = |digit: u8| {
            Some(match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            })
        };
        let mut bits = 0u64;
        for byte in base64 {
            bits = bits << 6 | u64::from(digit(byte)?);
        }
        address.copy_from_slice(&bits.to_be_bytes()[2..]);
        return Some(address);
    }
    let text = std::str::from_utf8(data).ok().filter(|text| text.len() == 17)?;
    let mut parts = text.split([':', '-']);
    for byte in &mut address {
        // `from_str_radix` takes a sign, too.
        let is_pair = |part: &&str| part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit());
        let part = parts.next().filter(is_pair)?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    Some(address)
}

/// The groups of all clients, compiled.
#[derive(Clone, Debug)]
pub struct GroupMatcher {
    clients: Access,
    keys: KeyMasks,
    ids: Option<IdMasks>,
    names: NameMasks,
    /// The group of each part; `None` if each group has one part.
    groups: Option<Box<[usize]>>,
}

impl GroupMatcher {
    /// Compiles the rules of groups. Options count in queries from `trusted` networks.
    ///
    /// # Errors
    /// Their parts are more than 64.
    pub fn new(rules: &[GroupRule], trusted: &[Prefix]) -> Result<Self, TooManyRules> {
        let numbered = rules.iter().enumerate();
        let (groups, parts): (Vec<usize>, Vec<&GroupPart>) =
            numbered.flat_map(|(group, rule)| rule.parts.iter().map(move |part| (group, part))).unzip();
        let clients: Vec<AccessRule> = parts.iter().map(|part| part.clients.clone()).collect();
        let clients = Access::new(&clients)?;
        let keys = KeyMasks::new(parts.iter().map(|part| &*part.keys));
        let is_each_one = groups.iter().copied().eq(0..groups.len());
        let groups = (!is_each_one).then(|| groups.into());
        let (ids, names) = (IdMasks::new(&parts, trusted), name_masks(&parts));
        Ok(GroupMatcher { clients, keys, ids, names, groups })
    }

    /// Returns the number of the first group that a client matches.
    #[inline]
    pub fn first(&self, GroupClient { client, key, ids, name }: GroupClient<'_>) -> Option<usize> {
        let by_key = key.map_or(0, |key| self.keys.mask(key));
        let by_id = match (&self.ids, ids) {
            (Some(own), Some(ids)) => own.mask(client, ids),
            _ => 0,
        };
        let by_name = name.map_or(0, |name| self.by_name(name));
        let part = self.clients.first(client, by_key | by_id | by_name)?;
        match &self.groups {
            None => Some(part),
            Some(groups) => groups.get(part).copied(),
        }
    }

    /// Returns the rules that name a client by what it has written for itself.
    #[cold]
    fn by_name(&self, name: &str) -> u64 {
        let found = self.names.binary_search_by(|(own, _)| (**own).cmp(name.as_bytes())).ok();
        found.and_then(|at| self.names.get(at)).map_or(0, |(_, mask)| *mask)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use transport::Transport;

    use super::*;
    use crate::access::{AccessAction, LocalAddress};

    fn rule(from: &str, ids: Vec<ClientId>) -> GroupRule {
        let from = from.split_whitespace().map(|text| text.parse().expect("a network")).collect();
        let clients = AccessRule { action: AccessAction::Allow, from, local: None, transports: None };
        GroupPart { clients, keys: Vec::new(), ids }.into()
    }

    /// Options with these codes and data.
    fn options(all: &[(u16, &[u8])]) -> Vec<u8> {
        let one = |(code, data): &(u16, &[u8])| {
            [&code.to_be_bytes()[..], &(data.len() as u16).to_be_bytes(), data].concat()
        };
        all.iter().flat_map(one).collect()
    }

    fn first(peer: [u8; 4], all: &[(u16, &[u8])]) -> Option<usize> {
        let mac = [0x02, 0, 0x5e, 0x10, 0, 0xff];
        let rules = [
            rule("", vec![ClientId::Mac(mac), ClientId::Device(b"tablet".as_slice().into())]),
            rule("", vec![ClientId::Tag(100)]),
            rule("192.0.2.0/24", Vec::new()),
        ];
        let trusted = ["192.0.2.1".parse().expect("a network")];
        let matcher = GroupMatcher::new(&rules, &trusted).expect("few");
        let client =
            Client { peer: (peer, 1).into(), local: ([192, 0, 2, 53], 53).into(), transport: Transport::Udp };
        let bytes = options(all);
        matcher.first(GroupClient { client: &client, key: None, ids: Some(ClientIds(&bytes)), name: None })
    }

    #[test]
    fn options_of_a_trusted_forwarder_select_the_group() {
        let (mac, forwarder) = (b"\x02\0\x5e\x10\0\xff".as_slice(), [192, 0, 2, 1]);
        for (code, data) in [
            (65001, mac),
            (65073, b"02:00:5e:10:00:ff"),
            (65073, b"02:00:5E:10:00:FF"),
            (65073, b"AgBeEAD/"),
            (65073, b"tablet"),
            (65074, b"tablet"),
        ] {
            assert_eq!(first(forwarder, &[(code, data)]), Some(0), "{code} {data:?}");
            assert_eq!(first([192, 0, 2, 9], &[(code, data)]), Some(2), "not trusted: {code}");
            assert_eq!(first([198, 51, 100, 1], &[(code, data)]), None, "not trusted: {code}");
        }
        assert_eq!(first(forwarder, &[(16, b"\0\x64")]), Some(1));
        assert_eq!(first(forwarder, &[(3, b""), (16, b"\0\x64"), (65074, b"tablet")]), Some(0), "the first");
    }

    #[test]
    fn a_part_counts_at_its_local_address_alone() {
        let at = |from: &str, ids: Vec<ClientId>, local: &str, port| {
            let mut rule = rule(from, ids);
            let address = local.parse().expect("an address");
            rule.parts[0].clients.local = Some(vec![LocalAddress { address, port }]);
            rule.parts
        };
        let tag = vec![ClientId::Tag(100)];
        let parts = [
            at("10.0.0.0/8", Vec::new(), "192.0.2.53", None),
            rule("198.51.100.0/24", Vec::new()).parts,
            at("0.0.0.0/0", tag, "192.0.2.54", Some(853)),
        ];
        let rules =
            [GroupRule { parts: parts.concat() }, rule("0.0.0.0/0", Vec::new()), GroupRule::default()];
        let trusted = ["192.0.2.1".parse().expect("a network")];
        let matcher = GroupMatcher::new(&rules, &trusted).expect("few");
        let bytes = options(&[(16, b"\0\x64")]);
        let first = |peer: &str, local: &str| {
            let [peer, local] = [peer, local].map(|text| text.parse().expect("an address"));
            let client = Client { peer, local, transport: Transport::Tls };
            matcher.first(GroupClient {
                client: &client,
                key: None,
                ids: Some(ClientIds(&bytes)),
                name: None,
            })
        };
        assert_eq!(first("10.0.0.1:1", "192.0.2.53:53"), Some(0));
        assert_eq!(first("10.0.0.1:1", "192.0.2.54:53"), Some(1), "another address");
        assert_eq!(first("198.51.100.1:1", "192.0.2.54:53"), Some(0), "at any address");
        assert_eq!(first("203.0.113.1:1", "[::ffff:192.0.2.54]:853"), Some(0));
        assert_eq!(first("203.0.113.1:1", "192.0.2.54:53"), Some(1), "another port");
        let many = vec![GroupRule { parts: vec![rules[1].parts[0].clone(); 13] }; 5];
        assert_eq!(GroupMatcher::new(&many, &[]).err(), Some(TooManyRules { rules: 65 }));
    }

    #[test]
    fn hosts_are_added_to_the_part_that_names_them() {
        let mac = [0x02, 0, 0x5e, 0x10, 0, 0xff];
        let parts = [rule("192.0.2.0/24", Vec::new()).parts, rule("", vec![ClientId::Mac(mac)]).parts];
        let mut rule = GroupRule { parts: parts.concat() };
        let address = IpAddr::from([198, 51, 100, 7]);
        rule.add_hosts(|named| (named == mac).then_some(&address));
        let from = rule.parts.iter().map(|part| part.clients.from.len()).collect::<Vec<_>>();
        assert_eq!((from, rule.parts[1].clients.from[0]), (vec![1, 1], Prefix::single(address)));
    }

    /// Returns whether an option names a client, by the forms that the page on groups has.
    fn names(id: &ClientId, code: u16, data: &[u8]) -> bool {
        let text = String::from_utf8_lossy(data);
        match id {
            ClientId::Tag(tag) => code == 16 && data == tag.to_be_bytes(),
            ClientId::Device(name) => (code == 65073 || code == 65074) && *data == **name,
            ClientId::Mac(mac) => {
                let forms = |mark: &str| mac.map(|byte| format!("{byte:02x}")).join(mark);
                let base64 = [[0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1]].iter().position(|known| known == mac);
                let base64 = base64.map(|at| ["AAAAAAAA", "AAAAAAAB"][at]);
                (code == 65001 && data == mac)
                    || (code == 65073 && (text == forms(":") || text == forms("-") || Some(&*text) == base64))
            }
        }
    }

    fn id() -> impl Strategy<Value = ClientId> {
        prop_oneof![
            (0u8..2).prop_map(|last| ClientId::Mac([0, 0, 0, 0, 0, last])),
            "[ab]{1,2}".prop_map(|name| ClientId::Device(name.into_bytes().into())),
            (0u16..2).prop_map(ClientId::Tag),
        ]
    }

    fn option() -> impl Strategy<Value = (u16, Vec<u8>)> {
        let text = || {
            let forms = ["00:00:00:00:00:0[01]", "00-00-00-00-00-0[01]", "AAAAAAA[ABC=]", "[ab]{0,2}"];
            proptest::strategy::Union::new(forms).prop_map(String::into_bytes)
        };
        let code = prop_oneof![Just(16), Just(65001), Just(65073), Just(65074), Just(3)];
        let data = prop_oneof![
            (0u8..3).prop_map(|last| vec![0, 0, 0, 0, 0, last]),
            (0u8..3).prop_map(|tag| vec![0, tag]),
            text(),
            proptest::collection::vec(any::<u8>(), 0..20),
        ];
        prop_oneof![(Just(65073), text()), (code, data)]
    }

    proptest! {
        #[test]
        fn options_select_as_a_walk_over_rules_and_options_does(
            ids in proptest::collection::vec(proptest::collection::vec(id(), 0..4), 1..6),
            all in proptest::collection::vec(option(), 0..4),
            cut in 0usize..8,
        ) {
            let rules: Vec<GroupRule> = ids.iter().map(|ids| rule("", ids.clone())).collect();
            let trusted = ["192.0.2.1".parse().expect("a network")];
            let matcher = GroupMatcher::new(&rules, &trusted).expect("few");
            let peer = ([192, 0, 2, 1], 1).into();
            let client = Client { peer, local: ([192, 0, 2, 53], 53).into(), transport: Transport::Udp };
            // An option that is cut off at its end is none.
            let given: Vec<(u16, &[u8])> = all.iter().map(|(code, data)| (*code, &data[..])).collect();
            let mut bytes = options(&given);
            let len = bytes.len().saturating_sub(cut);
            bytes.truncate(len);
            let mut end = 0;
            let whole = given.iter().take_while(|(_, data)| { end += 4 + data.len(); end <= len });
            let whole: Vec<_> = whole.collect();
            let is_named = |id: &ClientId| whole.iter().any(|(code, data)| names(id, *code, data));
            let expected = ids.iter().position(|ids| ids.iter().any(is_named));
            let found = matcher.first(GroupClient { client: &client, key: None, ids: Some(ClientIds(&bytes)), name: None });
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_name_of_the_client_itself_selects_the_group_from_anywhere() {
        let device = |name: &str| vec![ClientId::Device(name.as_bytes().into())];
        let rules = [rule("", device("Tablet")), rule("", device("phone")), rule("192.0.2.0/24", Vec::new())];
        let matcher = GroupMatcher::new(&rules, &[]).expect("few");
        let first = |peer: [u8; 4], name: &str| {
            let (peer, local) = ((peer, 1).into(), ([192, 0, 2, 53], 853).into());
            let client = Client { peer, local, transport: Transport::Tls };
            let name = Some(&Arc::from(name));
            matcher.first(GroupClient { client: &client, key: None, ids: None, name })
        };
        assert_eq!([first([198, 51, 100, 1], "tablet"), first([192, 0, 2, 1], "phone")], [Some(0), Some(1)]);
        assert_eq!([first([198, 51, 100, 1], "tv"), first([192, 0, 2, 1], "tv")], [None, Some(2)]);
    }

    #[test]
    fn other_options_and_malformed_ones_select_none() {
        let forwarder = [192, 0, 2, 1];
        for (code, data) in [
            (65001, b"tablet".as_slice()),
            (65001, b"\x02\0\x5e\x10\0"),
            (65074, b"\x02\0\x5e\x10\0\xff"),
            (65073, b"02:00:5e:10:00:f"),
            (65073, b"02:00:5e:10:0:0ff"),
            (65073, b"+2:+0:5e:10:+0:ff"),
            (65073, b"AgBeEAD="),
            (65074, b"Tablet"),
            (16, b"\x64"),
            (16, b"\0\x64\0"),
            (17, b"\0\x64"),
        ] {
            assert_eq!(first(forwarder, &[(code, data)]), Some(2), "{code} {data:?}");
        }
        assert_eq!(first(forwarder, &[]), Some(2));
    }
}
