//! The kernel's table of neighbours: which IP addresses the hosts on attached links have, by MAC address.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::str::FromStr;

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};

/// The MAC address of a network interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddress(pub [u8; 6]);

/// A text is not a MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMacAddress;

impl fmt::Display for NoMacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a MAC address such as 00:11:22:33:44:55")
    }
}
impl std::error::Error for NoMacAddress {}

impl FromStr for MacAddress {
    type Err = NoMacAddress;

    fn from_str(text: &str) -> Result<Self, NoMacAddress> {
        let separator = if text.contains('-') { '-' } else { ':' };
        let mut bytes = text.split(separator).map(|byte| match byte.len() {
            2 if byte.bytes().all(|digit| digit.is_ascii_hexdigit()) => u8::from_str_radix(byte, 16).ok(),
            _ => None,
        });
        let mut address = [0; 6];
        for byte in &mut address {
            *byte = bytes.next().flatten().ok_or(NoMacAddress)?;
        }
        if bytes.next().is_some() { Err(NoMacAddress) } else { Ok(MacAddress(address)) }
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Numbers of the netlink protocol (linux/netlink.h, linux/rtnetlink.h, linux/neighbour.h).
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_NEWNEIGH: u16 = 28;
const RTM_GETNEIGH: u16 = 30;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// Length of the header of a message, and of the fixed part of an entry behind it.
const HEADER: usize = 16;
const ENTRY: usize = 12;
/// States of entries with a valid address of the link: REACHABLE, STALE, DELAY, PROBE and PERMANENT.
const VALID_STATES: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x80;
/// Size of the buffer for replies: the kernel sends at most 32 KiB at a time.
const ROOM: usize = 64 * 1024;

/// Returns the neighbours of this machine. Does not block.
///
/// # Errors
/// The system's error, or a reply that is not understood.
pub fn neighbours() -> io::Result<Vec<(MacAddress, IpAddr)>> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
    let fd = socket.as_raw_fd();
    send(fd, &request(), MsgFlags::empty())?;
    let (mut room, mut found) = (vec![0; ROOM], Vec::new());
    // The kernel makes the next part of the table when the one before is read.
    loop {
        let len = recv(fd, &mut room, MsgFlags::empty())?;
        let part = room.get(..len).filter(|part| !part.is_empty()).unwrap_or_default();
        match read(part, &mut found) {
            Some(Part::Last) => return Ok(found),
            Some(Part::More) => {}
            None => return Err(io::Error::from(io::ErrorKind::InvalidData)),
        }
    }
}

/// Returns the request for the whole table, of both families.
fn request() -> Vec<u8> {
    let mut request = Vec::with_capacity(HEADER + ENTRY);
    request.extend(((HEADER + ENTRY) as u32).to_ne_bytes());
    request.extend(RTM_GETNEIGH.to_ne_bytes());
    request.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    request.resize(HEADER + ENTRY, 0);
    request
}

/// A part of the kernel's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    More,
    Last,
}

/// Reads a part of the reply: messages, one behind the other. Returns `None` if it is an error or malformed.
fn read(mut part: &[u8], found: &mut Vec<(MacAddress, IpAddr)>) -> Option<Part> {
    if part.is_empty() {
        return None;
    }
    while !part.is_empty() {
        let len = u32::from_ne_bytes(*part.first_chunk()?) as usize;
        let kind = u16::from_ne_bytes(*part.get(4..)?.first_chunk()?);
        let body = part.get(HEADER..len)?;
        match kind {
            NLMSG_DONE => return Some(Part::Last),
            NLMSG_ERROR => return None,
            RTM_NEWNEIGH => found.extend(entry(body)),
            _ => {}
        }
        part = part.get(aligned(len)..).unwrap_or_default();
    }
    Some(Part::More)
}

/// Reads an entry. Returns `None` if it has no MAC address, or none that is valid.
fn entry(body: &[u8]) -> Option<(MacAddress, IpAddr)> {
    let state = u16::from_ne_bytes(*body.get(8..)?.first_chunk()?);
    let (mut mac, mut address) = (None, None);
    let mut rest = body.get(ENTRY..)?;
    while rest.len() >= 4 {
        let len = usize::from(u16::from_ne_bytes(*rest.first_chunk()?));
        let kind = u16::from_ne_bytes(*rest.get(2..)?.first_chunk()?);
        let value = rest.get(4..len)?;
        match kind {
            NDA_LLADDR => mac = <[u8; 6]>::try_from(value).ok().map(MacAddress),
            NDA_DST => {
                let v4 = <[u8; 4]>::try_from(value).ok().map(|v4| IpAddr::from(Ipv4Addr::from(v4)));
                let v6 = || <[u8; 16]>::try_from(value).ok().map(|v6| IpAddr::from(Ipv6Addr::from(v6)));
                address = v4.or_else(v6);
            }
            _ => {}
        }
        rest = rest.get(aligned(len)..).unwrap_or_default();
    }
    let is_valid = state & VALID_STATES != 0;
    Some((mac?, address?)).filter(|(MacAddress(mac), _)| is_valid && *mac != [0; 6])
}

/// Returns a length with what fills it up to a multiple of four.
fn aligned(len: usize) -> usize {
    len.next_multiple_of(4)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAC: MacAddress = MacAddress([0, 0x11, 0x22, 0x33, 0x44, 0x55]);

    /// A message of a kind with this body.
    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut message = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        message.extend(kind.to_ne_bytes());
        message.resize(HEADER, 0);
        message.extend(body);
        message.resize(aligned(message.len()), 0);
        message
    }

    fn neighbour(state: u16, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = vec![0; ENTRY];
        body[8..10].copy_from_slice(&state.to_ne_bytes());
        for (kind, value) in attributes {
            body.extend(((value.len() + 4) as u16).to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend_from_slice(value);
            body.resize(aligned(body.len()), 0);
        }
        message(RTM_NEWNEIGH, &body)
    }

    #[test]
    fn valid_entries_with_both_addresses_are_read() {
        let (v4, v6): (&[u8], Ipv6Addr) = (&[192, 0, 2, 1], "fe80::1".parse().expect("an address"));
        let part = [
            neighbour(0x02, &[(NDA_DST, v4), (3, &[1, 2, 3]), (NDA_LLADDR, &MAC.0)]),
            neighbour(0x04, &[(NDA_LLADDR, &MAC.0), (NDA_DST, &v6.octets())]),
            neighbour(0x20, &[(NDA_DST, v4), (NDA_LLADDR, &MAC.0)]),
            neighbour(0x40, &[(NDA_DST, v4), (NDA_LLADDR, &MAC.0)]),
            neighbour(0x02, &[(NDA_DST, v4)]),
            neighbour(0x02, &[(NDA_DST, v4), (NDA_LLADDR, &[0; 6])]),
            neighbour(0x02, &[(NDA_DST, v4), (NDA_LLADDR, &[1; 8])]),
        ];
        let mut found = Vec::new();
        assert_eq!(read(&part.concat(), &mut found), Some(Part::More));
        assert_eq!(found, [(MAC, IpAddr::from([192, 0, 2, 1])), (MAC, v6.into())]);
        assert_eq!(read(&message(NLMSG_DONE, &[0; 4]), &mut found), Some(Part::Last));
        assert_eq!(read(&message(NLMSG_ERROR, &[0; 4]), &mut found), None);
        assert_eq!(read(&part[0][..20], &mut found), None, "cut");
        assert_eq!(read(&[], &mut found), None);
    }

    #[test]
    fn this_machine_has_a_table() {
        // It may be empty.
        neighbours().expect("the system says");
    }

    #[test]
    fn mac_addresses_are_read_and_written() {
        let of = |text: &str| text.parse::<MacAddress>();
        assert_eq!([of("00:11:22:33:44:55"), of("00-11-22-33-44-55")], [Ok(MAC), Ok(MAC)]);
        assert_eq!(of("0A:0b:0C:0d:0E:0f").expect("an address").to_string(), "0a:0b:0c:0d:0e:0f");
        for text in [
            "",
            "00:11:22:33:44",
            "00:11:22:33:44:55:66",
            "0:11:22:33:44:55",
            "00:11:22:33:44:5g",
            "+1:11:22:33:44:55",
        ] {
            assert_eq!(of(text), Err(NoMacAddress), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_reply_is_read_beyond_its_end(part in prop::collection::vec(any::<u8>(), 0..200), kind in 0..40u16) {
            let mut found = Vec::new();
            read(&part, &mut found);
            read(&message(kind, &part), &mut found);
        }
    }
}
