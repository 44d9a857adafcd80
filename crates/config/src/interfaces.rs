//! The addresses of this machine's network interfaces, and their networks.

use std::io;
use std::net::IpAddr;

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::SockaddrStorage;
use wire::Prefix;

/// One address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedAddress {
    /// The interface's name, such as "eth0".
    pub interface: String,
    /// The address.
    pub address: IpAddr,
    /// The length of its network's prefix, in bits.
    pub prefix_len: u8,
}

/// The addresses of the interfaces at the time they were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interfaces(pub Vec<AttachedAddress>);

impl Interfaces {
    /// Returns the addresses of the interfaces that are up.
    ///
    /// # Errors
    /// The system's error.
    pub fn of_this_machine() -> io::Result<Self> {
        let up = getifaddrs()?.filter(|one| one.flags.contains(InterfaceFlags::IFF_UP));
        Ok(Interfaces(up.filter_map(|one| attached(&one)).collect()))
    }

    /// Returns the addresses of an interface; none if the interface does not exist.
    pub fn addresses_of(&self, interface: &str) -> impl Iterator<Item = IpAddr> {
        self.0.iter().filter(move |one| one.interface == interface).map(|one| one.address)
    }

    /// Returns the networks that this machine is attached to, once for each address in them.
    pub fn networks(&self) -> impl Iterator<Item = Prefix> {
        self.0.iter().filter_map(|one| Prefix::of(one.address, one.prefix_len))
    }
}

/// Returns `None` for addresses that are not IP, and for those without a network.
fn attached(one: &InterfaceAddress) -> Option<AttachedAddress> {
    let address = ip_of(one.address.as_ref()?)?;
    let prefix_len = match ip_of(one.netmask.as_ref()?)? {
        IpAddr::V4(mask) => mask.to_bits().leading_ones(),
        IpAddr::V6(mask) => mask.to_bits().leading_ones(),
    };
    let prefix_len = u8::try_from(prefix_len).ok().filter(|len| *len > 0)?;
    Some(AttachedAddress { interface: one.interface_name.clone(), address, prefix_len })
}

fn ip_of(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_loopback_interface() {
        let interfaces = Interfaces::of_this_machine().expect("the system says");
        let loopback = interfaces.0.iter().find(|one| one.address.is_loopback()).expect("an address");
        assert!(interfaces.addresses_of(&loopback.interface).any(|address| address == loopback.address));
        assert!(interfaces.networks().any(|network| network.contains(loopback.address)));
    }

    #[test]
    fn an_interface_that_is_not_there_has_no_address() {
        assert_eq!(Interfaces::default().addresses_of("eth0").count(), 0);
        let interfaces = Interfaces::of_this_machine().expect("the system says");
        assert_eq!(interfaces.addresses_of("no such interface").count(), 0);
    }
}
