//! Reads and writes, as plain bytes, the socket addresses and packet-information control messages that the
//! kernel exchanges with `recvmsg` and `sendmsg`. No system calls and no `unsafe` here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use libc::c_int;

/// Room for a `sockaddr_in` or a `sockaddr_in6`, aligned for either.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct SocketName(pub(crate) [u8; NAME_LEN]);

/// Bytes of a `sockaddr_in6`, the larger of the two.
pub(crate) const NAME_LEN: usize = size_of::<libc::sockaddr_in6>();

/// Room for one packet-information control message, aligned for its header.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct ControlBytes(pub(crate) [u8; CONTROL_LEN]);

/// Bytes of control data requested.
pub(crate) const CONTROL_LEN: usize = 64;

/// Bytes of a control message header: length, level, type.
const HEADER: usize = size_of::<libc::cmsghdr>();
/// Bytes of its length field.
const LENGTH: usize = size_of::<usize>();

impl SocketName {
    /// Returns the address that the kernel wrote here.
    #[inline]
    pub(crate) fn decode(&self) -> Option<SocketAddr> {
        let b = &self.0;
        let family = c_int::from(u16::from_ne_bytes([b[0], b[1]]));
        let port = u16::from_be_bytes([b[2], b[3]]);
        if family == libc::AF_INET {
            let ip = Ipv4Addr::new(b[4], b[5], b[6], b[7]);
            return Some(SocketAddr::V4(SocketAddrV4::new(ip, port)));
        }
        if family == libc::AF_INET6 {
            let flow = u32::from_ne_bytes([b[4], b[5], b[6], b[7]]);
            let mut ip = [0; 16];
            ip.copy_from_slice(&b[8..24]);
            let scope = u32::from_ne_bytes([b[24], b[25], b[26], b[27]]);
            return Some(SocketAddr::V6(SocketAddrV6::new(ip.into(), port, flow, scope)));
        }
        None
    }
}

impl SocketName {
    /// Returns an address as the kernel expects it, and its length in bytes.
    pub(crate) fn encode(addr: SocketAddr) -> (SocketName, usize) {
        let mut name = SocketName([0; NAME_LEN]);
        let b = &mut name.0;
        b[2..4].copy_from_slice(&addr.port().to_be_bytes());
        let (family, len) = match addr {
            SocketAddr::V4(v4) => {
                b[4..8].copy_from_slice(&v4.ip().octets());
                (libc::AF_INET, size_of::<libc::sockaddr_in>())
            }
            SocketAddr::V6(v6) => {
                b[4..8].copy_from_slice(&v6.flowinfo().to_ne_bytes());
                b[8..24].copy_from_slice(&v6.ip().octets());
                b[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
                (libc::AF_INET6, size_of::<libc::sockaddr_in6>())
            }
        };
        b[..2].copy_from_slice(&(family as u16).to_ne_bytes());
        (name, len)
    }
}

impl ControlBytes {
    pub(crate) const EMPTY: ControlBytes = ControlBytes([0; CONTROL_LEN]);

    /// Reads the destination of a datagram from the first `len` bytes, and changes the control message for
    /// use with the reply: it keeps the address, so the reply leaves from there, but not the interface, which
    /// would bypass the routing table (link-local addresses keep it, since they are valid only with it). Also
    /// returns the length of the control data for the reply, which excludes anything else that the system
    /// reported.
    ///
    /// `None` if there is no packet information, as on a socket that did not request it.
    pub(crate) fn take_local(&mut self, len: usize, port: u16) -> Option<(SocketAddr, usize)> {
        let b = self.0.get_mut(..len)?;
        let (level, kind) = header(b)?;
        let data = b.get_mut(HEADER..)?;
        if (level, kind) == (libc::IPPROTO_IP, libc::IP_PKTINFO) && data.len() >= 12 {
            // in_pktinfo: interface index, local address of the packet, destination in its header. The reply
            // uses the second, which differs from the third only for broadcast and multicast.
            data[..4].fill(0);
            let ip = Ipv4Addr::new(data[4], data[5], data[6], data[7]);
            return Some((SocketAddr::from((ip, port)), space(12)));
        }
        if (level, kind) == (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) && data.len() >= 20 {
            // in6_pktinfo: address, interface index.
            let mut bytes = [0; 16];
            bytes.copy_from_slice(&data[..16]);
            let ip = Ipv6Addr::from(bytes);
            let mut scope = 0;
            if ip.is_unicast_link_local() {
                scope = u32::from_ne_bytes([data[16], data[17], data[18], data[19]]);
            } else {
                data[16..20].fill(0);
            }
            return Some((SocketAddr::V6(SocketAddrV6::new(ip, port, 0, scope)), space(20)));
        }
        None
    }

    /// Returns these `used` bytes of control data followed by the message that makes the kernel split a send
    /// into datagrams of `len` bytes, and the length of both.
    pub(crate) fn segmented(&self, used: usize, len: u16) -> (ControlBytes, usize) {
        let mut control = *self;
        let b = &mut control.0[used..];
        b[..LENGTH].copy_from_slice(&(HEADER + 2).to_ne_bytes());
        b[HEADER - 8..HEADER - 4].copy_from_slice(&libc::SOL_UDP.to_ne_bytes());
        b[HEADER - 4..HEADER].copy_from_slice(&libc::UDP_SEGMENT.to_ne_bytes());
        b[HEADER..HEADER + 2].copy_from_slice(&len.to_ne_bytes());
        (control, used + space(2))
    }

    /// Returns a control message that sends from `local`, and its length.
    pub(crate) fn source(local: SocketAddr) -> (ControlBytes, usize) {
        let mut control = ControlBytes::EMPTY;
        let b = &mut control.0;
        let (level, kind, used) = match local.ip() {
            IpAddr::V4(ip) => {
                b[HEADER + 4..HEADER + 8].copy_from_slice(&ip.octets());
                (libc::IPPROTO_IP, libc::IP_PKTINFO, 12)
            }
            IpAddr::V6(ip) => {
                b[HEADER..HEADER + 16].copy_from_slice(&ip.octets());
                if let SocketAddr::V6(v6) = local {
                    b[HEADER + 16..HEADER + 20].copy_from_slice(&v6.scope_id().to_ne_bytes());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, 20)
            }
        };
        b[..LENGTH].copy_from_slice(&(HEADER + used).to_ne_bytes());
        b[HEADER - 8..HEADER - 4].copy_from_slice(&level.to_ne_bytes());
        b[HEADER - 4..HEADER].copy_from_slice(&kind.to_ne_bytes());
        (control, space(used))
    }
}

/// Returns the bytes that a control message with this much data takes, padding included.
const fn space(data: usize) -> usize {
    (HEADER + data).next_multiple_of(LENGTH)
}

/// Returns level and type of the control message at the start of `b`, if it is complete.
fn header(b: &[u8]) -> Option<(c_int, c_int)> {
    let head = b.get(..HEADER)?;
    let mut length = [0; LENGTH];
    length.copy_from_slice(&head[..LENGTH]);
    if usize::from_ne_bytes(length) > b.len() {
        return None;
    }
    let level =
        c_int::from_ne_bytes([head[HEADER - 8], head[HEADER - 7], head[HEADER - 6], head[HEADER - 5]]);
    let kind = c_int::from_ne_bytes([head[HEADER - 4], head[HEADER - 3], head[HEADER - 2], head[HEADER - 1]]);
    Some((level, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_reads_back() {
        for addr in ["192.0.2.7:53", "[2001:db8::7]:53", "[fe80::1%3]:53"] {
            let addr: SocketAddr = addr.parse().unwrap();
            let (mut control, len) = ControlBytes::source(addr);
            assert_eq!(control.take_local(len, 53), Some((addr, len)));
            // Other control data after it is not returned.
            assert_eq!(control.take_local(CONTROL_LEN, 53), Some((addr, len)));
        }
    }

    #[test]
    fn interface_is_forgotten_unless_link_local() {
        let global: SocketAddr = "[2001:db8::7%9]:53".parse().unwrap();
        let (mut control, len) = ControlBytes::source(global);
        assert_eq!(control.take_local(len, 53), Some(("[2001:db8::7]:53".parse().unwrap(), len)));
        assert_eq!(control.0[HEADER + 16..HEADER + 20], [0; 4]);
    }

    #[test]
    fn the_length_of_segments_follows_the_source() {
        for addr in ["192.0.2.7:53", "[2001:db8::7]:53"] {
            let addr: SocketAddr = addr.parse().unwrap();
            let (control, used) = ControlBytes::source(addr);
            let (mut both, len) = control.segmented(used, 1232);
            assert!(len <= CONTROL_LEN);
            let second = &both.0[used..len];
            assert_eq!(header(second), Some((libc::SOL_UDP, libc::UDP_SEGMENT)));
            assert_eq!(second[HEADER..HEADER + 2], 1232_u16.to_ne_bytes());
            assert_eq!(both.take_local(len, 53), Some((addr, used)));
        }
        let (alone, len) = ControlBytes::EMPTY.segmented(0, 40);
        assert_eq!(header(&alone.0[..len]), Some((libc::SOL_UDP, libc::UDP_SEGMENT)));
    }

    #[test]
    fn cut_control_data_is_none() {
        let (control, len) = ControlBytes::source("192.0.2.7:53".parse().unwrap());
        for cut in 0..len - 4 {
            assert_eq!({ control }.take_local(cut, 53), None, "{cut}");
        }
        assert_eq!({ control }.take_local(CONTROL_LEN + 1, 53), None);
    }

    #[test]
    fn names_read_back() {
        for (text, len) in [("192.0.2.7:53", 16), ("[2001:db8::7]:5353", 28), ("[fe80::1%3]:53", 28)] {
            let addr: SocketAddr = text.parse().unwrap();
            let (name, used) = SocketName::encode(addr);
            assert_eq!((name.decode(), used), (Some(addr), len));
        }
    }

    #[test]
    fn names_of_other_families_are_none() {
        assert_eq!(SocketName([0; NAME_LEN]).decode(), None);
    }
}
