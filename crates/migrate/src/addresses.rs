//! Sets of addresses: unions, differences and intersections, and the networks that a set consists of.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::network::Network;

/// A set of addresses of both families.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct AddressSet {
    v4: Ranges,
    v6: Ranges,
}

/// First and last numbers of ranges, in order, with gaps between them.
type Ranges = Vec<(u128, u128)>;

const LAST_V4: u128 = u32::MAX as u128;

impl AddressSet {
    pub(crate) fn none() -> Self {
        Self::default()
    }

    pub(crate) fn all() -> Self {
        Self { v4: vec![(0, LAST_V4)], v6: vec![(0, u128::MAX)] }
    }

    /// The addresses of networks.
    pub(crate) fn of<'n>(networks: impl IntoIterator<Item = &'n Network>) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for network in networks {
            match (network.first(), network.last()) {
                (IpAddr::V4(first), IpAddr::V4(last)) => {
                    v4.push((first.to_bits().into(), last.to_bits().into()))
                }
                (IpAddr::V6(first), IpAddr::V6(last)) => v6.push((first.to_bits(), last.to_bits())),
                _ => {}
            }
        }
        Self { v4: joined(v4), v6: joined(v6) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    pub(crate) fn is_all(&self) -> bool {
        *self == Self::all()
    }

    pub(crate) fn or(&self, other: &Self) -> Self {
        let both = |own: &Ranges, other: &Ranges| joined(own.iter().chain(other).copied().collect());
        Self { v4: both(&self.v4, &other.v4), v6: both(&self.v6, &other.v6) }
    }

    pub(crate) fn minus(&self, other: &Self) -> Self {
        Self { v4: difference(&self.v4, &other.v4), v6: difference(&self.v6, &other.v6) }
    }

    pub(crate) fn and(&self, other: &Self) -> Self {
        self.minus(&Self::all().minus(other))
    }

    /// Whether each address of `other` is in this set.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        other.minus(self).is_empty()
    }

    /// The fewest networks that the set consists of.
    pub(crate) fn networks(&self) -> Vec<Network> {
        let v4 = |number: u128| u32::try_from(number).map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits))).ok();
        let v6 = |number: u128| Some(IpAddr::V6(Ipv6Addr::from_bits(number)));
        let mut out = Vec::new();
        for (first, last) in &self.v4 {
            out.extend(v4(*first).zip(v4(*last)).and_then(|(first, last)| Network::range(first, last)));
        }
        for (first, last) in &self.v6 {
            out.extend(v6(*first).zip(v6(*last)).and_then(|(first, last)| Network::range(first, last)));
        }
        out.into_iter().flatten().collect()
    }
}

/// Sorts ranges, and joins those that overlap or are adjacent.
fn joined(mut ranges: Ranges) -> Ranges {
    ranges.sort_unstable();
    let mut out: Ranges = Vec::new();
    for (first, last) in ranges {
        match out.last_mut() {
            Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
            _ => out.push((first, last)),
        }
    }
    out
}

fn difference(own: &Ranges, other: &Ranges) -> Ranges {
    let mut out = Vec::new();
    for (first, last) in own {
        let mut from = Some(*first);
        for (cut, end) in other.iter().filter(|(cut, end)| cut <= last && end >= first) {
            let Some(start) = from else { break };
            if *cut > start {
                out.push((start, cut - 1));
            }
            from = end.checked_add(1).filter(|next| next <= last);
        }
        out.extend(from.map(|from| (from, *last)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(texts: &[&str]) -> AddressSet {
        let networks: Vec<Network> =
            texts.iter().flat_map(|text| Network::parse_range(text).expect(text)).collect();
        AddressSet::of(&networks)
    }

    fn shown(set: &AddressSet) -> Vec<String> {
        set.networks().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn sets_are_the_fewest_networks() {
        assert_eq!(shown(&set(&["10.0.0.0/25", "10.0.0.128/25", "10.0.0.7", "::1"])), ["10.0.0.0/24", "::1"]);
        assert_eq!(shown(&AddressSet::all()), ["0.0.0.0/0", "::/0"]);
        let rest = AddressSet::all().minus(&set(&["128.0.0.0/1", "::/0"]));
        assert_eq!(shown(&rest), ["0.0.0.0/1"]);
        assert!(AddressSet::all().minus(&AddressSet::all()).is_empty());
        assert!(rest.or(&set(&["128.0.0.0/1", "::/0"])).is_all());
        let ends = set(&["255.255.255.255", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"]);
        assert_eq!(
            shown(&AddressSet::all().minus(&ends).and(&set(&["255.255.255.254/31"]))),
            ["255.255.255.254"]
        );
        assert!(AddressSet::all().covers(&ends) && !ends.covers(&rest));
    }

    proptest! {
        #[test]
        fn sets_have_the_addresses_that_they_should_have(
            own in prop::collection::vec((any::<u8>(), 24u8..=32), 0..5),
            other in prop::collection::vec((any::<u8>(), 24u8..=32), 0..5),
            at in any::<u8>(),
        ) {
            let network = |last: u8, len| Network::of(Ipv4Addr::new(10, 0, 0, last).into(), len).expect("a network");
            let of = |all: &[(u8, u8)]| all.iter().map(|(last, len)| network(*last, *len)).collect::<Vec<_>>();
            let (own, other, at) = (of(&own), of(&other), network(at, 32));
            let is_in = |all: &[Network]| all.iter().any(|one| one.covers(at));
            let (left, right) = (AddressSet::of(&own), AddressSet::of(&other));
            prop_assert_eq!(is_in(&left.or(&right).networks()), is_in(&own) || is_in(&other));
            prop_assert_eq!(is_in(&left.and(&right).networks()), is_in(&own) && is_in(&other));
            prop_assert_eq!(is_in(&left.minus(&right).networks()), is_in(&own) && !is_in(&other));
        }
    }
}
