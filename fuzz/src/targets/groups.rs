//! Groups of clients by EDNS options: any options are read, and a client is in the first group that one of
//! them names.
//!
//! docs/GROUPS.md: "A client is in the first group whose `from`, `interface` and `proto` it matches", and
//! nomen "regards these options in queries from the networks of `client-ids-from` alone".

use query_path::access::{AccessAction, AccessRule};
use query_path::{ClientId, ClientIds, GroupClient, GroupMatcher, GroupPart, GroupRule};
use transport::{Client, Transport};

/// Most rules of a matcher.
const MAX_RULES: usize = 64;

pub(crate) fn run(data: &[u8]) {
    // Options that make the groups, and those of the query.
    let Some((len, data)) = data.split_first() else { return };
    let (of_groups, of_query) = data.split_at(data.len().min(usize::from(*len)));
    let groups: Vec<Vec<ClientId>> =
        options(of_groups).iter().map(named).filter(|ids| !ids.is_empty()).collect();
    let rules: Vec<GroupRule> = groups.iter().map(|ids| rule(ids.clone())).collect();
    let trusted = ["192.0.2.1/32".parse().expect("a network")];
    let Ok(matcher) = GroupMatcher::new(&rules, &trusted) else {
        assert!(rules.len() > MAX_RULES);
        return;
    };
    assert!(rules.len() <= MAX_RULES);

    let first = |last: u8| {
        let peer = ([192, 0, 2, last], 4000).into();
        let client = Client { peer, local: ([192, 0, 2, 53], 53).into(), transport: Transport::Udp };
        let ids = Some(ClientIds::of_bytes(of_query));
        matcher.first(GroupClient { client: &client, key: None, ids, name: None })
    };
    let ids: Vec<ClientId> = options(of_query).iter().flat_map(named).collect();
    let expected = groups.iter().position(|group| group.iter().any(|id| ids.contains(id)));
    assert_eq!(first(1), expected, "{ids:?} of {groups:?}");
    assert_eq!(first(2), None, "the client is not trusted");
}

/// A group of the clients that these options name, and of no address.
fn rule(ids: Vec<ClientId>) -> GroupRule {
    let clients = AccessRule { action: AccessAction::Allow, from: Vec::new(), local: None, transports: None };
    GroupPart { clients, keys: Vec::new(), ids }.into()
}

/// An option: its code and its data.
type OptionParts<'o> = (u16, &'o [u8]);

/// Returns the whole options at the start of RDATA of OPT.
fn options(bytes: &[u8]) -> Vec<OptionParts<'_>> {
    let (mut all, mut at) = (Vec::new(), 0);
    while let Some(&[c0, c1, l0, l1]) = bytes.get(at..at + 4) {
        let end = at + 4 + usize::from(u16::from_be_bytes([l0, l1]));
        let Some(data) = bytes.get(at + 4..end) else { break };
        all.push((u16::from_be_bytes([c0, c1]), data));
        at = end;
    }
    all
}

/// Returns the clients that an option names, by the table of docs/GROUPS.md.
fn named((code, data): &OptionParts<'_>) -> Vec<ClientId> {
    let device = || ClientId::Device((*data).into());
    match (*code, *data) {
        (16, &[high, low]) => vec![ClientId::Tag(u16::from_be_bytes([high, low]))],
        (65001, &[a, b, c, d, e, f]) => vec![ClientId::Mac([a, b, c, d, e, f])],
        (65073, data) => mac(data).map(ClientId::Mac).into_iter().chain([device()]).collect(),
        (65074, _) => vec![device()],
        _ => Vec::new(),
    }
}

/// Reads the MAC address of a text: six pairs of hexadecimal digits, or base64.
fn mac(text: &[u8]) -> Option<[u8; 6]> {
    const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bits = Vec::new();
    let mut add = |value: usize, count: u32| (0..count).rev().for_each(|bit| bits.push(value >> bit & 1));
    match text.len() {
        8 => {
            for digit in text {
                add(BASE64.iter().position(|known| known == digit)?, 6);
            }
        }
        17 => {
            for (at, byte) in text.iter().enumerate() {
                match at % 3 {
                    2 if matches!(byte, b':' | b'-') => {}
                    2 => return None,
                    _ => add(char::from(*byte).to_digit(16)? as usize, 4),
                }
            }
        }
        _ => return None,
    }
    let bytes = bits.chunks(8).map(|byte| byte.iter().fold(0, |all, bit| all << 1 | *bit as u8));
    bytes.collect::<Vec<_>>().try_into().ok()
}
