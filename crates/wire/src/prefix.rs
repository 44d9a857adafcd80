//! Address prefixes, as networks of clients and in client-subnet options.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Length in bits of the prefix of IPv4-mapped IPv6 addresses (RFC 4291 §2.5.5.2).
const MAPPED_LEN: u8 = 96;

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
    /// All IPv4 addresses.
    pub const ALL_V4: Prefix = Prefix { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), len: 0 };
    /// All IPv6 addresses.
    pub const ALL_V6: Prefix = Prefix { address: IpAddr::V6(Ipv6Addr::UNSPECIFIED), len: 0 };

    /// Returns the prefix of length `len` that contains `address`; `None` if the address has fewer bits.
    /// IPv4-mapped IPv6 addresses stay IPv6.
    pub const fn of(address: IpAddr, len: u8) -> Option<Prefix> {
        if len > width(address) {
            return None;
        }
        let host = host_bits(address, len);
        let address = match address {
            IpAddr::V4(v4) => IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & !(host as u32))),
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !host)),
        };
        Some(Prefix { address, len })
    }

    /// Returns the prefix that contains `address` alone.
    pub const fn single(address: IpAddr) -> Prefix {
        Prefix { address, len: width(address) }
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

    /// Its last address.
    pub const fn last(&self) -> IpAddr {
        let host = host_bits(self.address, self.len);
        match self.address {
            IpAddr::V4(v4) => IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() | host as u32)),
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() | host)),
        }
    }

    /// Whether it contains one address only.
    pub fn is_single(&self) -> bool {
        self.len == width(self.address)
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
        let len = match len {
            None => return Ok(Prefix::single(address)),
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

/// Returns how many bits an address has.
const fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Returns a mask of the bits behind the length.
const fn host_bits(address: IpAddr, len: u8) -> u128 {
    let host = (width(address) - len) as u32;
    if host == 128 { u128::MAX } else { (1 << host) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_network_ends_at_its_last_address() {
        let last = |text: &str| text.parse::<Prefix>().expect("a network").last().to_string();
        assert_eq!(last("0.0.0.0/0"), "255.255.255.255");
        assert_eq!(last("192.0.2.0/31"), "192.0.2.1");
        assert_eq!(last("192.0.2.1"), "192.0.2.1");
        assert_eq!(last("::/0"), "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
        assert_eq!(last("2001:db8::/125"), "2001:db8::7");
    }
}
