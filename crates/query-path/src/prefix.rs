//! Special prefixes, and a table that maps an address to the prefixes that contain it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::Prefix;

/// Private prefixes: RFC 1918, carriers' shared space (RFC 6598), link-local (RFC 3927, RFC 4291 §2.5.6) and
/// unique local (RFC 4193).
pub const PRIVATE: [Prefix; 7] = [
    v4([10, 0, 0, 0], 8),
    v4([100, 64, 0, 0], 10),
    v4([169, 254, 0, 0], 16),
    v4([172, 16, 0, 0], 12),
    v4([192, 168, 0, 0], 16),
    v6(0xfc00, 7),
    v6(0xfe80, 10),
];

/// Loopback addresses (RFC 1122 §3.2.1.3, RFC 4291 §2.5.3).
pub const LOOPBACK: [Prefix; 2] = [v4([127, 0, 0, 0], 8), cut(IpAddr::V6(Ipv6Addr::LOCALHOST), 128)];

/// Returns the IPv4 prefix of an address, with at most 32 bits.
pub const fn v4(address: [u8; 4], len: u8) -> Prefix {
    let [a, b, c, d] = address;
    cut(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), len)
}

/// Returns an IPv6 prefix from the first 16 bits of its addresses.
const fn v6(first: u16, len: u8) -> Prefix {
    cut(IpAddr::V6(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0)), len)
}

/// Returns the prefix of an address. A length beyond the address is that of the whole address.
const fn cut(address: IpAddr, len: u8) -> Prefix {
    match Prefix::of(address, len) {
        Some(prefix) => prefix,
        None => Prefix::single(address),
    }
}

/// Prefixes numbered 0 to 63; one search finds all that contain an address.
///
/// The address space is cut into ranges whose addresses are in the same prefixes. Each range has a mask: bit
/// `n` is set if a prefix with the number `n` contains it.
#[derive(Clone, Debug, Default)]
pub struct PrefixMasks {
    v4: Ranges<u32>,
    v6: Ranges<u128>,
}

impl PrefixMasks {
    /// Compiles prefixes. Numbers above 63 are left out.
    pub fn new<'p>(networks: impl Iterator<Item = (u8, &'p Prefix)>) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (number, prefix) in networks.filter(|(number, _)| *number < 64) {
            match (prefix.address(), prefix.last()) {
                (IpAddr::V4(first), IpAddr::V4(last)) => {
                    v4.push((first.to_bits(), last.to_bits().checked_add(1), number));
                }
                (IpAddr::V6(first), IpAddr::V6(last)) => {
                    v6.push((first.to_bits(), last.to_bits().checked_add(1), number));
                }
                _ => {}
            }
        }
        PrefixMasks { v4: Ranges::new(v4), v6: Ranges::new(v6) }
    }

    /// Compiles prefixes without numbers: the mask of an address in any of them is not 0.
    pub fn any<'p>(networks: impl IntoIterator<Item = &'p Prefix>) -> Self {
        PrefixMasks::new(networks.into_iter().map(|prefix| (0, prefix)))
    }

    /// Returns the mask of the prefixes that contain `address`. IPv4-mapped addresses count as IPv6 here.
    #[inline]
    pub fn mask(&self, address: IpAddr) -> u64 {
        match address {
            IpAddr::V4(v4) => self.v4.mask(v4.to_bits()),
            IpAddr::V6(v6) => self.v6.mask(v6.to_bits()),
        }
    }

    /// Whether any prefix contains `address`.
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.mask(address) != 0
    }
}

/// Contiguous ranges from 0 on; each ends where the next one starts.
#[derive(Clone, Debug, Default)]
struct Ranges<T> {
    starts: Box<[T]>,
    masks: Box<[u64]>,
}

impl<T: Copy + Ord + Default> Ranges<T> {
    /// Builds ranges from spans (first, end, number). `end` is exclusive, `None` for up to the maximum;
    /// numbers are below 64.
    fn new(spans: Vec<(T, Option<T>, u8)>) -> Self {
        let mut edges = vec![(T::default(), None)];
        for (first, end, number) in spans {
            edges.push((first, Some((number, true))));
            edges.extend(end.map(|end| (end, Some((number, false)))));
        }
        edges.sort_unstable();
        let (mut starts, mut masks, mut open) = (Vec::new(), Vec::new(), [0u32; 64]);
        for edges in edges.chunk_by(|a, b| a.0 == b.0) {
            for (number, opens) in edges.iter().filter_map(|(_, edge)| *edge) {
                if let Some(open) = open.get_mut(usize::from(number)) {
                    *open = if opens { *open + 1 } else { open.saturating_sub(1) };
                }
            }
            let bits = open.iter().enumerate().filter(|(_, open)| **open > 0);
            let mask = bits.fold(0, |mask, (number, _)| mask | 1u64 << number);
            if let Some((start, _)) = edges.first().filter(|_| masks.last() != Some(&mask)) {
                starts.push(*start);
                masks.push(mask);
            }
        }
        Ranges { starts: starts.into(), masks: masks.into() }
    }

    #[inline]
    fn mask(&self, number: T) -> u64 {
        let behind = self.starts.partition_point(|start| *start <= number);
        self.masks.get(behind.wrapping_sub(1)).copied().unwrap_or(0)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Addresses from a small set, so that prefixes of them overlap.
    pub(crate) fn address() -> impl Strategy<Value = IpAddr> {
        prop_oneof![
            any::<[u8; 4]>().prop_map(|bytes| IpAddr::from(bytes.map(|byte| byte & 0x81))),
            any::<[u8; 16]>().prop_map(|bytes| IpAddr::from(bytes.map(|byte| byte & 0x81))),
            any::<[u8; 4]>()
                .prop_map(|bytes| Ipv4Addr::from(bytes.map(|byte| byte & 0x81)).to_ipv6_mapped().into()),
        ]
    }

    /// Prefixes of such addresses.
    pub(crate) fn prefix() -> impl Strategy<Value = Prefix> {
        (address(), 0..=128u8).prop_map(|(address, len)| {
            let len = if address.is_ipv4() { len / 4 } else { len };
            Prefix::of(address, len).expect("as many bits as there are")
        })
    }

    proptest! {
        #[test]
        fn masks_are_those_of_a_walk_over_all_networks(
            networks in prop::collection::vec((0..64u8, prefix()), 0..12),
            probe in address(),
        ) {
            let masks = PrefixMasks::new(networks.iter().map(|(number, prefix)| (*number, prefix)));
            let edges = networks.iter().map(|(_, prefix)| prefix.address());
            for address in edges.chain([probe]) {
                let fits = networks.iter().filter(|(_, prefix)| prefix.contains(address));
                let walked = fits.fold(0, |mask, (number, _)| mask | 1u64 << number);
                prop_assert_eq!(masks.mask(address), walked);
            }
        }
    }
}
