//! Address prefixes, and a table that maps an address to the prefixes that contain it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An address prefix such as `192.0.2.0/24` or `2001:db8::/32`. Bits behind the length are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix {
    address: IpAddr,
    len: u8,
}

/// Why a text is not a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixFault {
    /// The part before the slash is not an IP address.
    Address,
    /// The part after the slash is not a valid prefix length for the address.
    Length,
    /// Bits behind the length are set; the prefix without them is given.
    HostBits(Prefix),
}

impl fmt::Display for PrefixFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address => f.write_str("not an IP address"),
            Self::Length => f.write_str("the length is not a number of bits that the address has"),
            Self::HostBits(meant) => write!(f, "there are bits behind the length; the network is {meant}"),
        }
    }
}
impl std::error::Error for PrefixFault {}

impl Prefix {
    /// Returns the prefix of length `len` that contains `address`. IPv4-mapped IPv6 addresses stay IPv6.
    pub fn of(address: IpAddr, len: u8) -> Option<Prefix> {
        let cut = |bits: u128, width: u8| {
            let host = width.checked_sub(len)?;
            Some(if len == 0 { 0 } else { bits >> host << host })
        };
        let address = match address {
            IpAddr::V4(v4) => IpAddr::V4((cut(v4.to_bits().into(), 32)? as u32).into()),
            IpAddr::V6(v6) => IpAddr::V6(cut(v6.to_bits(), 128)?.into()),
        };
        Some(Prefix { address, len })
    }

    /// Returns the IPv4 prefix if this is an IPv4-mapped IPv6 prefix (RFC 4291 §2.5.5.2):
    /// `::ffff:192.0.2.0/120` becomes `192.0.2.0/24`. Other prefixes are unchanged, also those that contain
    /// more than mapped addresses.
    pub fn to_canonical(self) -> Prefix {
        match (self.address.to_canonical(), self.len.checked_sub(MAPPED_LEN)) {
            (address @ IpAddr::V4(_), Some(len)) if self.address.is_ipv6() => Prefix { address, len },
            _ => self,
        }
    }

    /// Whether it contains every address of `other`.
    pub fn covers(&self, other: &Prefix) -> bool {
        self.len <= other.len && self.contains(other.address)
    }

    /// Its first address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Its length in bits.
    pub fn len(&self) -> u8 {
        self.len
    }

    /// Whether it contains every address of its family (length 0).
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it contains `address`. Addresses of the other family never match.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && Prefix::of(address, self.len) == Some(*self)
    }
}

impl FromStr for Prefix {
    type Err = PrefixFault;

    /// Parses `ADDRESS/LENGTH`, or an address alone.
    fn from_str(text: &str) -> Result<Self, PrefixFault> {
        let (address, len) = text.split_once('/').map_or((text, None), |(address, len)| (address, Some(len)));
        let address: IpAddr = address.parse().map_err(|_| PrefixFault::Address)?;
        let whole = if address.is_ipv4() { 32 } else { 128 };
        let len = match len {
            None => whole,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().map_err(|_| PrefixFault::Length)?
            }
            Some(_) => return Err(PrefixFault::Length),
        };
        let prefix = Prefix::of(address, len).ok_or(PrefixFault::Length)?;
        if prefix.address == address { Ok(prefix) } else { Err(PrefixFault::HostBits(prefix)) }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

/// Private prefixes: RFC 1918, carriers' shared space (RFC 6598), link-local (RFC 3927, RFC 4291 §2.5.6) and
/// unique local (RFC 4193).
pub(crate) const PRIVATE: [Prefix; 7] = [
    v4([10, 0, 0, 0], 8),
    v4([100, 64, 0, 0], 10),
    v4([169, 254, 0, 0], 16),
    v4([172, 16, 0, 0], 12),
    v4([192, 168, 0, 0], 16),
    v6(0xfc00, 7),
    v6(0xfe80, 10),
];

/// Loopback addresses (RFC 1122 §3.2.1.3, RFC 4291 §2.5.3).
pub(crate) const LOOPBACK: [Prefix; 2] =
    [v4([127, 0, 0, 0], 8), Prefix { address: IpAddr::V6(Ipv6Addr::LOCALHOST), len: 128 }];

/// Length in bits of the prefix of IPv4-mapped IPv6 addresses (RFC 4291 §2.5.5.2).
const MAPPED_LEN: u8 = 96;

/// Makes an IPv4 prefix. No bit behind the length may be set.
pub(crate) const fn v4(address: [u8; 4], len: u8) -> Prefix {
    let [a, b, c, d] = address;
    Prefix { address: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), len }
}

/// Makes an IPv6 prefix from the first 16 bits of its addresses.
const fn v6(first: u16, len: u8) -> Prefix {
    Prefix { address: IpAddr::V6(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0)), len }
}

/// Prefixes numbered 0 to 63; one search finds all that contain an address.
///
/// The address space is cut into ranges whose addresses are in the same prefixes. Each range has a mask: bit
/// `n` is set if a prefix with the number `n` contains it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PrefixMasks {
    v4: Ranges<u32>,
    v6: Ranges<u128>,
}

impl PrefixMasks {
    /// Compiles prefixes. Numbers above 63 are left out.
    pub(crate) fn new<'p>(networks: impl Iterator<Item = (u8, &'p Prefix)>) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (number, prefix) in networks.filter(|(number, _)| *number < 64) {
            match prefix.address {
                IpAddr::V4(first) => {
                    let host = u32::MAX.checked_shr(prefix.len.into()).unwrap_or(0);
                    v4.push((first.to_bits(), (first.to_bits() | host).checked_add(1), number));
                }
                IpAddr::V6(first) => {
                    let host = u128::MAX.checked_shr(prefix.len.into()).unwrap_or(0);
                    v6.push((first.to_bits(), (first.to_bits() | host).checked_add(1), number));
                }
            }
        }
        PrefixMasks { v4: Ranges::new(v4), v6: Ranges::new(v6) }
    }

    /// Compiles prefixes without numbers: the mask of an address in any of them is not 0.
    pub(crate) fn any<'p>(networks: impl IntoIterator<Item = &'p Prefix>) -> Self {
        PrefixMasks::new(networks.into_iter().map(|prefix| (0, prefix)))
    }

    /// Returns the mask of the prefixes that contain `address`. IPv4-mapped addresses count as IPv6 here.
    #[inline]
    pub(crate) fn mask(&self, address: IpAddr) -> u64 {
        match address {
            IpAddr::V4(v4) => self.v4.mask(v4.to_bits()),
            IpAddr::V6(v6) => self.v6.mask(v6.to_bits()),
        }
    }

    /// Whether any prefix contains `address`.
    #[inline]
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
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
            let edges = networks.iter().map(|(_, prefix)| prefix.address);
            for address in edges.chain([probe]) {
                let fits = networks.iter().filter(|(_, prefix)| prefix.contains(address));
                let walked = fits.fold(0, |mask, (number, _)| mask | 1u64 << number);
                prop_assert_eq!(masks.mask(address), walked);
            }
        }
    }

    #[test]
    fn mapped_networks_are_those_of_ipv4() {
        let canonical = |text: &str| text.parse::<Prefix>().expect("a network").to_canonical().to_string();
        assert_eq!(canonical("::ffff:192.0.2.0/120"), "192.0.2.0/24");
        assert_eq!(canonical("::ffff:0:0/96"), "0.0.0.0/0");
        assert_eq!(canonical("::fffe:0:0/95"), "::fffe:0:0/95");
        assert_eq!(canonical("::/0"), "::/0");
        assert_eq!(canonical("192.0.2.0/24"), "192.0.2.0/24");
    }

    #[test]
    fn text_is_a_network_or_says_what_is_wrong() {
        let read = |text: &str| text.parse::<Prefix>().map(|prefix| prefix.to_string());
        assert_eq!(read("192.0.2.0/24"), Ok("192.0.2.0/24".into()));
        assert_eq!(read("192.0.2.1"), Ok("192.0.2.1/32".into()));
        assert_eq!(read("::/0"), Ok("::/0".into()));
        assert_eq!(read("2001:db8::/32"), Ok("2001:db8::/32".into()));
        assert_eq!(read("192.0.2/24"), Err(PrefixFault::Address));
        assert_eq!(read("192.0.2.0/33"), Err(PrefixFault::Length));
        assert_eq!(read("192.0.2.0/+8"), Err(PrefixFault::Length));
        assert_eq!(read("192.0.2.0/"), Err(PrefixFault::Length));
        let meant = Prefix::of([192, 0, 2, 0].into(), 24).expect("a network");
        assert_eq!("192.0.2.1/24".parse(), Err::<Prefix, _>(PrefixFault::HostBits(meant)));
    }

    #[test]
    fn addresses_of_the_other_family_are_in_no_network() {
        let all: Prefix = "0.0.0.0/0".parse().expect("a network");
        assert!(all.contains([192, 0, 2, 1].into()));
        assert!(!all.contains("2001:db8::1".parse().expect("an address")));
        let net: Prefix = "2001:db8::/33".parse().expect("a network");
        assert!(net.contains("2001:db8:7fff::".parse().expect("an address")));
        assert!(!net.contains("2001:db8:8000::".parse().expect("an address")));
    }
}
