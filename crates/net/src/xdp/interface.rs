//! Properties of a network interface: index, link address, MTU, queues, driver; and the addresses of the
//! host. Read once, when a front is opened.

use std::ffi::CString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;

/// Bytes of an interface's name, including the terminating zero.
const NAME: usize = libc::IFNAMSIZ;

/// `struct ifreq`: a name and up to 24 bytes of data.
#[repr(C, align(8))]
struct Request {
    name: [u8; NAME],
    data: [u8; 24],
}

/// Commands of `SIOCETHTOOL`.
const GET_DRIVER: u32 = 0x03;
const GET_CHANNELS: u32 = 0x3c;
const GET_FLAGS: u32 = 0x25;
/// Flag in the result of `GET_FLAGS`: the card strips 802.1Q tags from received frames.
const TAKES_TAGS_OFF: u32 = 1 << 8;

/// Drivers whose senders may leave a checksum unfinished, since there is no wire in between.
const UNFINISHED_CHECKSUM_DRIVERS: [&str; 3] = ["veth", "virtio_net", "tun"];

/// A network interface that carries Ethernet frames.
#[derive(Clone, Debug)]
pub(super) struct Interface {
    pub(super) index: u32,
    /// The link address.
    pub(super) link: [u8; 6],
    /// Longest packet in bytes, link layer not counted.
    pub(super) mtu: usize,
    /// Number of receive queues.
    pub(super) queues: u32,
    /// Frames may have unfinished checksums; see [`super::frame::Rules`].
    pub(super) unfinished_checksums: bool,
    /// There are VLAN interfaces on top, and the tags of their frames are stripped before the front receives
    /// them.
    pub(super) hides_tags: bool,
}

impl Interface {
    /// Looks up the interface of this name in the network namespace of `socket`.
    ///
    /// # Errors
    /// `ENODEV` if there is none; `Unsupported` if it carries no Ethernet frames.
    pub(super) fn find(socket: &impl AsRawFd, name: &str) -> io::Result<Interface> {
        let missing = || io::Error::from_raw_os_error(libc::ENODEV);
        if name.is_empty() || name.len() >= NAME || CString::new(name).is_err() {
            return Err(missing());
        }
        let number = |request: Request| u32::from_ne_bytes([0, 1, 2, 3].map(|i: usize| request.data[i]));
        let index = number(ask(socket, name, libc::SIOCGIFINDEX)?);
        let hardware = ask(socket, name, libc::SIOCGIFHWADDR)?.data;
        // A `sockaddr`: the family is the kind of link, the address follows.
        if u16::from_ne_bytes([hardware[0], hardware[1]]) != libc::ARPHRD_ETHER {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the interface carries no Ethernet frames",
            ));
        }
        let mut link = [0; 6];
        link.copy_from_slice(&hardware[2..8]);
        let mtu = number(ask(socket, name, libc::SIOCGIFMTU)?) as usize;
        let unfinished_checksums =
            driver(socket, name).is_ok_and(|d| UNFINISHED_CHECKSUM_DRIVERS.contains(&d.as_str()));
        let queues = queues(socket, name).unwrap_or(1).max(1);
        let hides_tags = takes_tags_off(socket, name).unwrap_or(false) && has_vlans(name);
        Ok(Interface { index, link, mtu, queues, unfinished_checksums, hides_tags })
    }
}

fn empty_request(name: &str) -> Request {
    let mut request = Request { name: [0; NAME], data: [0; 24] };
    for (to, from) in request.name[..NAME - 1].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    request
}

/// Calls one of the ioctls that write to the request's own data.
fn ask(socket: &impl AsRawFd, name: &str, question: libc::c_ulong) -> io::Result<Request> {
    let mut request = empty_request(name);
    // SAFETY: `request` is laid out as `struct ifreq`, with its name ended by a zero, and lives; the ioctls
    // used here write within it.
    let rc = unsafe { libc::ioctl(socket.as_raw_fd(), question as _, &raw mut request) };
    if rc == 0 { Ok(request) } else { Err(io::Error::last_os_error()) }
}

/// `struct ethtool_drvinfo`, as 32-bit words.
const DRIVER_WORDS: usize = 49;
/// `struct ethtool_channels`, as 32-bit words.
const CHANNELS_WORDS: usize = 9;

/// Calls `SIOCETHTOOL`, whose result has `N` words, the first being the command.
fn ethtool<const N: usize>(socket: &impl AsRawFd, name: &str, question: u32) -> io::Result<[u32; N]> {
    let mut answer = [0_u32; N];
    answer[0] = question;
    let mut request = empty_request(name);
    request.data[..size_of::<usize>()].copy_from_slice(&(&raw mut answer).expose_provenance().to_ne_bytes());
    // SAFETY: `request` is laid out as `struct ifreq`, its data begins with a pointer to `answer`, and both
    // live. The callers give `answer` the size of the structure that their command writes.
    let rc = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    if rc == 0 { Ok(answer) } else { Err(io::Error::last_os_error()) }
}

/// Returns the name of the interface's driver.
fn driver(socket: &impl AsRawFd, name: &str) -> io::Result<String> {
    let answer: [u32; DRIVER_WORDS] = ethtool(socket, name, GET_DRIVER)?;
    let name = answer[1..9].iter().flat_map(|word| word.to_ne_bytes()).take_while(|&byte| byte != 0);
    Ok(name.map(char::from).collect())
}

/// Returns the number of receive queues that the interface uses.
fn queues(socket: &impl AsRawFd, name: &str) -> io::Result<u32> {
    let answer: [u32; CHANNELS_WORDS] = ethtool(socket, name, GET_CHANNELS)?;
    // Channels that only receive, and combined ones.
    Ok(answer[5].saturating_add(answer[8]))
}

/// Whether tags are stripped from frames before programs get them (`rxvlan` of ethtool).
fn takes_tags_off(socket: &impl AsRawFd, name: &str) -> io::Result<bool> {
    let [_, flags]: [u32; 2] = ethtool(socket, name, GET_FLAGS)?;
    Ok(flags & TAKES_TAGS_OFF != 0)
}

/// Whether there are VLAN interfaces on top, in this thread's network namespace.
fn has_vlans(name: &str) -> bool {
    // Kernels without VLANs do not have the file.
    std::fs::read_to_string("/proc/thread-self/net/vlan/config").is_ok_and(|text| lists_vlans(&text, name))
}

/// Whether the kernel's list of VLAN interfaces has one on top of `name`. After two lines of headings each
/// line is a name, a number and the interface below, separated by bars.
fn lists_vlans(text: &str, name: &str) -> bool {
    text.lines().skip(2).any(|line| line.rsplit('|').next().is_some_and(|below| below.trim() == name))
}

/// Returns the host's addresses that are reachable from other hosts. Link-local ones only of the interface of
/// this index.
///
/// # Errors
/// The system's.
pub(super) fn addresses(interface: u32) -> io::Result<Vec<IpAddr>> {
    let mut list = std::ptr::null_mut();
    // SAFETY: the call writes a pointer to a list it allocates.
    if unsafe { libc::getifaddrs(&mut list) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next = list;
    while !next.is_null() {
        // SAFETY: `next` is an entry of the list, which is freed only below.
        let entry = unsafe { &*next };
        // SAFETY: `ifa_addr` is null or points to an address that lives as long as the list.
        if let Some(ip) = unsafe { read_address(entry.ifa_addr, interface) } {
            found.push(ip);
        }
        next = entry.ifa_next;
    }
    // SAFETY: the list came from `getifaddrs`, and nothing borrowed from it is used after this.
    unsafe { libc::freeifaddrs(list) };
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Reads an address of an interface; `None` if it is a loopback address or not of this interface's scope.
///
/// # Safety
/// `address` is null or points to a socket address of the size of its family.
unsafe fn read_address(address: *const libc::sockaddr, interface: u32) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: not null, so valid as the caller promises; every socket address begins with its family.
    match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: by its family it is a `sockaddr_in`; read without assuming its alignment.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            (!ip.is_loopback()).then_some(ip.into())
        }
        libc::AF_INET6 => {
            // SAFETY: by its family it is a `sockaddr_in6`; read without assuming its alignment.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let elsewhere = ip.is_unicast_link_local() && v6.sin6_scope_id != interface;
            (!ip.is_loopback() && !elsewhere).then_some(ip.into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn what_is_no_ethernet_interface_is_refused() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for name in ["", "no-such", "a-name-much-too-long-for-an-interface", "a\0b"] {
            let error = Interface::find(&socket, name).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ENODEV), "{name:?}");
        }
        assert_eq!(Interface::find(&socket, "lo").unwrap_err().kind(), io::ErrorKind::Unsupported);
    }

    #[test]
    fn vlan_interfaces_are_found_by_what_they_stand_on() {
        let text = "VLAN Dev name    | VLAN ID\nName-Type: VLAN_NAME_TYPE_RAW_PLUS_VID_NO_PAD\n\
                    eth0.7         | 7  | eth0\nup             | 100  | ens3f0np0\n";
        assert!(lists_vlans(text, "eth0") && lists_vlans(text, "ens3f0np0"));
        for other in ["eth0.7", "up", "7", "eth", "ens3f0", "VLAN ID", ""] {
            assert!(!lists_vlans(text, other), "{other}");
        }
    }

    #[test]
    fn loopback_addresses_are_not_for_others() {
        assert!(addresses(0).unwrap().iter().all(|ip| !ip.is_loopback()));
    }
}
