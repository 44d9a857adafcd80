//! Ethernet frames with one UDP datagram: parses queries, and builds a reply's headers around its payload.
//! Bytes only: no rings, no system calls, no `unsafe`.
//!
//! Supports what the program in the kernel lets through: Ethernet, at most one 802.1Q tag, unfragmented IPv4
//! without options (RFC 791) or IPv6 without extension headers (RFC 8200), UDP (RFC 768). Frames bypass the
//! kernel's own checks on this path, so they are repeated here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Bytes reserved before the payload of a reply; the headers end where the payload begins.
pub(super) const HEADROOM: usize = 128;

const TAG: usize = 4;
pub(super) const IPV4: usize = 20;
pub(super) const IPV6: usize = 40;
pub(super) const UDP: usize = 8;

pub(super) const TYPE_TAG: u16 = 0x8100;
pub(super) const TYPE_IPV4: u16 = 0x0800;
pub(super) const TYPE_IPV6: u16 = 0x86dd;
/// Protocol number of UDP.
pub(super) const PROTOCOL_UDP: u8 = 17;
/// Time to live, or hop limit, of replies.
const TTL: u8 = 64;

/// The link layer of a query, as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkLayer {
    destination: [u8; 6],
    source: [u8; 6],
    /// Bytes of the 802.1Q tag after its type.
    tag: Option<[u8; 2]>,
}

/// A parsed query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parsed<'a> {
    pub(super) link: LinkLayer,
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    pub(super) payload: &'a [u8],
}

/// The reason why a frame is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameFault {
    /// The checksum of the IPv4 header or of the datagram is wrong, or missing over IPv6.
    Checksum,
    /// Inconsistent lengths, or an impossible source address.
    Malformed,
}

/// Properties of the interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Senders on this host leave the checksum to a card that does not exist, so a datagram may hold the sum
    /// of the pseudo header alone, where the card would read it.
    pub(super) unfinished_checksums: bool,
    /// Index of the interface: the scope of link-local addresses.
    pub(super) interface: u32,
}

/// Returns the sum of 16-bit words of RFC 1071, not yet folded. It is in the byte order of this machine,
/// which that sum allows: the folded value written in the same order is right. `bytes` must start at an even
/// offset of the summed data.
#[inline]
fn sum(bytes: &[u8], start: u64) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let (mut low, mut high) = (start, 0);
    for word in words {
        let word = u64::from_ne_bytes(*word);
        low += word & 0xffff_ffff;
        high += word >> 32;
    }
    let mut total = low + high;
    let (words, rest) = rest.as_chunks::<4>();
    if let [word] = words {
        total += u64::from(u32::from_ne_bytes(*word));
    }
    let (words, rest) = rest.as_chunks::<2>();
    if let [word] = words {
        total += u64::from(u16::from_ne_bytes(*word));
    }
    if let [last] = rest {
        total += u64::from(u16::from_ne_bytes([*last, 0]));
    }
    total
}

/// Folds a sum to 16 bits.
#[inline]
fn fold(total: u64) -> u16 {
    let total = (total & 0xffff_ffff) + (total >> 32);
    let total = (total & 0xffff_ffff) + (total >> 32);
    let total = (total & 0xffff) + (total >> 16);
    let total = (total & 0xffff) + (total >> 16);
    total as u16
}

/// Returns the sum of the pseudo header (RFC 768; RFC 8200 §8.1, whose wider fields have the same sum).
#[inline]
fn pseudo_header(source: &[u8], destination: &[u8], udp_len: u16) -> u64 {
    let [high, low] = udp_len.to_be_bytes();
    sum(destination, sum(source, sum(&[0, PROTOCOL_UDP, high, low], 0)))
}

#[inline]
fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Parses and checks a frame.
///
/// # Errors
/// [`FrameFault`] if it must not be answered.
#[inline]
pub(super) fn parse(frame: &[u8], rules: Rules) -> Result<Parsed<'_>, FrameFault> {
    let LinkPayload { link, kind, packet } = parse_link(frame).ok_or(FrameFault::Malformed)?;
    match kind {
        TYPE_IPV4 => parse_ipv4(link, packet, rules),
        TYPE_IPV6 => parse_ipv6(link, packet, rules),
        _ => Err(FrameFault::Malformed),
    }
}

/// A frame's link layer, and the packet in it.
struct LinkPayload<'a> {
    link: LinkLayer,
    /// EtherType of the packet.
    kind: u16,
    packet: &'a [u8],
}

#[inline]
fn parse_link(frame: &[u8]) -> Option<LinkPayload<'_>> {
    let (destination, rest) = frame.split_first_chunk::<6>()?;
    let (source, rest) = rest.split_first_chunk::<6>()?;
    let mut link = LinkLayer { destination: *destination, source: *source, tag: None };
    let (kind, mut packet) = rest.split_first_chunk::<2>()?;
    let mut kind = u16::from_be_bytes(*kind);
    if kind == TYPE_TAG {
        let (tag, after) = packet.split_first_chunk::<2>()?;
        link.tag = Some(*tag);
        let (inner, after) = after.split_first_chunk::<2>()?;
        (kind, packet) = (u16::from_be_bytes(*inner), after);
    }
    // A reply to a group address would reach many hosts.
    (link.source[0] & 1 == 0).then_some(LinkPayload { link, kind, packet })
}

#[inline]
fn parse_ipv4(link: LinkLayer, packet: &[u8], rules: Rules) -> Result<Parsed<'_>, FrameFault> {
    let header: &[u8; IPV4] = packet.first_chunk().ok_or(FrameFault::Malformed)?;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let fragmented = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    if header[0] != 0x45 || header[9] != PROTOCOL_UDP || fragmented {
        return Err(FrameFault::Malformed);
    }
    if fold(sum(header, 0)) != 0xffff {
        return Err(FrameFault::Checksum);
    }
    let datagram = packet.get(IPV4..total).ok_or(FrameFault::Malformed)?;
    let source = Ipv4Addr::new(header[12], header[13], header[14], header[15]);
    let destination = Ipv4Addr::new(header[16], header[17], header[18], header[19]);
    let impossible = source.octets()[0] == 0
        || source.is_loopback()
        || source.is_multicast()
        || source.is_broadcast()
        || source == destination;
    if impossible {
        return Err(FrameFault::Malformed);
    }
    let UdpPayload { from, to, payload } =
        parse_udp(datagram, &header[12..16], &header[16..20], true, rules)?;
    Ok(Parsed { link, peer: (source, from).into(), local: (destination, to).into(), payload })
}

#[inline]
fn parse_ipv6(link: LinkLayer, packet: &[u8], rules: Rules) -> Result<Parsed<'_>, FrameFault> {
    let header: &[u8; IPV6] = packet.first_chunk().ok_or(FrameFault::Malformed)?;
    let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
    if header[0] >> 4 != 6 || header[6] != PROTOCOL_UDP {
        return Err(FrameFault::Malformed);
    }
    let datagram = packet.get(IPV6..IPV6 + length).ok_or(FrameFault::Malformed)?;
    let address =
        |at: usize| header[at..].first_chunk().map_or(Ipv6Addr::UNSPECIFIED, |o: &[u8; 16]| (*o).into());
    let (source, destination) = (address(8), address(24));
    let impossible =
        source.is_unspecified() || source.is_loopback() || source.is_multicast() || source == destination;
    if impossible {
        return Err(FrameFault::Malformed);
    }
    let UdpPayload { from, to, payload } =
        parse_udp(datagram, &header[8..24], &header[24..40], false, rules)?;
    let scoped = |ip: Ipv6Addr, port| {
        let scope = if ip.is_unicast_link_local() { rules.interface } else { 0 };
        SocketAddr::V6(SocketAddrV6::new(ip, port, 0, scope))
    };
    Ok(Parsed { link, peer: scoped(source, from), local: scoped(destination, to), payload })
}

/// The ports of a datagram, and its payload.
struct UdpPayload<'a> {
    /// Source port.
    from: u16,
    /// Destination port.
    to: u16,
    payload: &'a [u8],
}

/// Returns the ports and payload of a datagram whose lengths and checksum are right.
#[inline]
fn parse_udp<'a>(
    datagram: &'a [u8],
    source: &[u8],
    destination: &[u8],
    may_omit: bool,
    rules: Rules,
) -> Result<UdpPayload<'a>, FrameFault> {
    let field = |at| u16_at(datagram, at).ok_or(FrameFault::Malformed);
    let (from, to, length) = (field(0)?, field(2)?, field(4)?);
    // Bytes after the datagram in its packet are ignored, as the kernel does.
    let datagram = datagram.get(..usize::from(length)).ok_or(FrameFault::Malformed)?;
    let payload = datagram.get(UDP..).ok_or(FrameFault::Malformed)?;
    if field(6)? == 0 {
        return if may_omit { Ok(UdpPayload { from, to, payload }) } else { Err(FrameFault::Checksum) };
    }
    let pseudo = pseudo_header(source, destination, length);
    let right = fold(sum(datagram, pseudo)) == 0xffff;
    if right || (rules.unfinished_checksums && datagram[6..UDP] == fold(pseudo).to_ne_bytes()) {
        Ok(UdpPayload { from, to, payload })
    } else {
        Err(FrameFault::Checksum)
    }
}

/// The addresses and ports of a reply.
#[derive(Clone, Copy)]
pub(super) struct ReplyAddresses {
    /// The server's, which the query was sent to.
    pub(super) from: SocketAddr,
    /// The client's.
    pub(super) to: SocketAddr,
}

/// Writes the headers of a reply before its payload, which is the `len` bytes of `frame` from [`HEADROOM`]
/// on, and returns the start of the frame. `link` is that of the query; the reply is sent back to its sender.
/// `id` identifies the fragments that a router may split an IPv4 packet into.
///
/// `None` if the payload is longer than `frame` or than a datagram can be, or the addresses are of two
/// families.
#[inline]
pub(super) fn build(
    frame: &mut [u8],
    link: &LinkLayer,
    ReplyAddresses { from, to }: ReplyAddresses,
    len: usize,
    id: u16,
) -> Option<usize> {
    let udp_len = u16::try_from(len + UDP).ok()?;
    let frame = frame.get_mut(..HEADROOM + len)?;
    let udp = HEADROOM - UDP;
    frame[udp..udp + 2].copy_from_slice(&from.port().to_be_bytes());
    frame[udp + 2..udp + 4].copy_from_slice(&to.port().to_be_bytes());
    frame[udp + 4..udp + 6].copy_from_slice(&udp_len.to_be_bytes());
    frame[udp + 6..udp + 8].fill(0);
    let (kind, ip, pseudo) = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let ip = udp - IPV4;
            write_ipv4(&mut frame[ip..udp], from, to, udp_len, id)?;
            (TYPE_IPV4, ip, pseudo_header(&from.octets(), &to.octets(), udp_len))
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let ip = udp - IPV6;
            let header = &mut frame[ip..udp];
            header[..4].copy_from_slice(&[0x60, 0, 0, 0]);
            header[4..6].copy_from_slice(&udp_len.to_be_bytes());
            header[6..8].copy_from_slice(&[PROTOCOL_UDP, TTL]);
            header[8..24].copy_from_slice(&from.octets());
            header[24..40].copy_from_slice(&to.octets());
            (TYPE_IPV6, ip, pseudo_header(&from.octets(), &to.octets(), udp_len))
        }
        _ => return None,
    };
    // Zero would mean that there is no checksum; the other zero of one's complement replaces it.
    let checksum = match !fold(sum(&frame[udp..], pseudo)) {
        0 => 0xffff,
        other => other,
    };
    frame[udp + 6..udp + 8].copy_from_slice(&checksum.to_ne_bytes());
    let start = write_link(frame, link, kind, ip);
    Some(start)
}

/// Writes an IPv4 header; `None` if the packet would be too long.
#[inline]
fn write_ipv4(header: &mut [u8], from: Ipv4Addr, to: Ipv4Addr, udp_len: u16, id: u16) -> Option<()> {
    let total = udp_len.checked_add(IPV4 as u16)?;
    // Like those of our sockets, the packet may be fragmented: the DF bit stays clear.
    header[..2].copy_from_slice(&[0x45, 0]);
    header[2..4].copy_from_slice(&total.to_be_bytes());
    header[4..6].copy_from_slice(&id.to_be_bytes());
    header[6..12].copy_from_slice(&[0, 0, TTL, PROTOCOL_UDP, 0, 0]);
    header[12..16].copy_from_slice(&from.octets());
    header[16..20].copy_from_slice(&to.octets());
    let checksum = !fold(sum(header, 0));
    header[10..12].copy_from_slice(&checksum.to_ne_bytes());
    Some(())
}

/// Writes the link layer that ends before `end`; returns its start.
#[inline]
fn write_link(frame: &mut [u8], link: &LinkLayer, kind: u16, end: usize) -> usize {
    frame[end - 2..end].copy_from_slice(&kind.to_be_bytes());
    let mut at = end - 2;
    if let Some(tag) = link.tag {
        at -= TAG;
        frame[at..at + 2].copy_from_slice(&TYPE_TAG.to_be_bytes());
        frame[at + 2..at + TAG].copy_from_slice(&tag);
    }
    frame[at - 6..at].copy_from_slice(&link.destination);
    frame[at - 12..at - 6].copy_from_slice(&link.source);
    at - 12
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    const RULES: Rules = Rules { unfinished_checksums: false, interface: 7 };

    /// The sum of RFC 1071 as the RFC describes it, one 16-bit word in network order at a time.
    fn reference_sum(parts: &[&[u8]]) -> u16 {
        let bytes: Vec<u8> = parts.concat();
        let mut total: u32 = 0;
        for word in bytes.chunks(2) {
            total += u32::from(word[0]) << 8 | u32::from(word.get(1).copied().unwrap_or(0));
            if total > 0xffff {
                total -= 0xffff;
            }
        }
        total as u16
    }

    fn address(ip: IpAddr) -> Vec<u8> {
        match ip {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        }
    }

    /// A query frame built step by step, with checksums of the reference.
    pub(in super::super) fn frame(
        from: SocketAddr,
        to: SocketAddr,
        tag: Option<u16>,
        payload: &[u8],
    ) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        if let Some(tag) = tag {
            frame.extend([0x81, 0]);
            frame.extend(tag.to_be_bytes());
        }
        let udp_len = (payload.len() + 8) as u16;
        let mut udp = Vec::new();
        for field in [from.port(), to.port(), udp_len, 0] {
            udp.extend(field.to_be_bytes());
        }
        udp.extend(payload);
        let (source, destination) = (address(from.ip()), address(to.ip()));
        let pseudo = [&source[..], &destination, &[0, 17], &udp_len.to_be_bytes()].concat();
        let sum = match !reference_sum(&[&pseudo, &udp]) {
            0 => 0xffff,
            sum => sum,
        };
        udp[6..8].copy_from_slice(&sum.to_be_bytes());
        let mut ip;
        if from.is_ipv4() {
            ip = vec![0x45, 3];
            ip.extend((udp_len + 20).to_be_bytes());
            ip.extend([0x12, 0x34, 0x40, 0, 9, 17, 0, 0]);
            ip.extend(source.iter().chain(&destination));
            let sum = !reference_sum(&[&ip]);
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
            frame.extend([8, 0]);
        } else {
            ip = vec![0x61, 2, 3, 4];
            ip.extend(udp_len.to_be_bytes());
            ip.extend([17, 9]);
            ip.extend(source.iter().chain(&destination));
            frame.extend([0x86, 0xdd]);
        }
        frame.extend(ip);
        frame.extend(udp);
        frame
    }

    fn v4() -> (SocketAddr, SocketAddr) {
        ("192.0.2.1:4000".parse().unwrap(), "192.0.2.2:53".parse().unwrap())
    }

    fn v6() -> (SocketAddr, SocketAddr) {
        ("[2001:db8::1]:4000".parse().unwrap(), "[2001:db8::2]:53".parse().unwrap())
    }

    #[test]
    fn checksum_is_that_of_the_rfc() {
        // The example of RFC 1071 §3.
        let words = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum(&words, 0)).to_ne_bytes(), [0xdd, 0xf2]);
        assert_eq!(reference_sum(&[&words]), 0xddf2);
    }

    #[test]
    fn sums_of_any_length_are_those_of_the_reference() {
        let bytes: Vec<u8> = (0..200u32).map(|i| (i * i * 37 + 255) as u8).collect();
        for len in 0..=bytes.len() {
            let summed = u16::from_be_bytes(fold(sum(&bytes[..len], 0)).to_ne_bytes());
            assert_eq!(summed, reference_sum(&[&bytes[..len]]), "{len}");
        }
        // The largest words, so that each carries.
        let bytes = [0xff; 1500];
        assert_eq!(fold(sum(&bytes, 0)), 0xffff);
    }

    #[test]
    fn impossible_sources_are_malformed() {
        let to = v4().1;
        for from in ["0.1.2.3:9", "127.0.0.1:9", "224.0.0.1:9", "255.255.255.255:9", "192.0.2.2:9"] {
            let bytes = frame(from.parse().unwrap(), to, None, &[1; 20]);
            assert_eq!(parse(&bytes, RULES), Err(FrameFault::Malformed), "{from}");
        }
        let to = v6().1;
        for from in ["[::]:9", "[::1]:9", "[ff02::1]:9", "[2001:db8::2]:9"] {
            let bytes = frame(from.parse().unwrap(), to, None, &[1; 20]);
            assert_eq!(parse(&bytes, RULES), Err(FrameFault::Malformed), "{from}");
        }
        let mut group = frame(v4().0, v4().1, None, &[1; 20]);
        group[6] |= 1;
        assert_eq!(parse(&group, RULES), Err(FrameFault::Malformed));
    }

    #[test]
    fn what_the_program_passes_is_not_taken_either() {
        let good = frame(v4().0, v4().1, None, &[1; 20]);
        for (at, value) in [(14, 0x46), (20, 0x20), (21, 1), (23, 6), (12, 9)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(parse(&bad, RULES), Err(FrameFault::Malformed), "{at}");
        }
        let good = frame(v6().0, v6().1, None, &[1; 20]);
        for (at, value) in [(14, 0x40), (20, 44)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(parse(&bad, RULES), Err(FrameFault::Malformed), "{at}");
        }
        assert_eq!(parse(&frame(v4().0, v4().1, Some(5), &[])[..17], RULES), Err(FrameFault::Malformed));
    }

    #[test]
    fn a_checksum_may_be_left_out_over_ipv4_only() {
        let mut bytes = frame(v4().0, v4().1, None, &[1; 20]);
        bytes[40..42].fill(0);
        assert_eq!(parse(&bytes, RULES).map(|p| p.payload.len()), Ok(20));
        let mut bytes = frame(v6().0, v6().1, None, &[1; 20]);
        bytes[60..62].fill(0);
        assert_eq!(parse(&bytes, RULES), Err(FrameFault::Checksum));
    }

    #[test]
    fn a_checksum_may_be_unfinished_where_no_wire_lies_between() {
        for (from, to) in [v4(), v6()] {
            let mut bytes = frame(from, to, None, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]);
            let at = if from.is_ipv4() { 40 } else { 60 };
            let (source, destination) = (address(from.ip()), address(to.ip()));
            let pseudo = reference_sum(&[&source, &destination, &[0, 17, 0, 21]]);
            bytes[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
            assert_eq!(parse(&bytes, RULES), Err(FrameFault::Checksum));
            let lenient = Rules { unfinished_checksums: true, ..RULES };
            assert_eq!(parse(&bytes, lenient).map(|p| p.payload.len()), Ok(13));
            bytes[at] ^= 1;
            assert_eq!(parse(&bytes, lenient), Err(FrameFault::Checksum));
        }
    }

    #[test]
    fn link_local_addresses_keep_their_interface() {
        let (from, to) = ("[fe80::1]:4000".parse().unwrap(), "[fe80::2]:53".parse().unwrap());
        let bytes = frame(from, to, None, &[1; 20]);
        let parsed = parse(&bytes, RULES).unwrap();
        assert_eq!(parsed.peer, "[fe80::1%7]:4000".parse().unwrap());
        assert_eq!(parsed.local, "[fe80::2%7]:53".parse().unwrap());
    }

    #[test]
    fn replies_that_cannot_be_are_not_built() {
        let bytes = frame(v4().0, v4().1, None, &[1; 20]);
        let link = parse(&bytes, RULES).unwrap().link;
        let mut out = vec![0; 70_000];
        let ends = ReplyAddresses { from: v4().1, to: v4().0 };
        assert_eq!(build(&mut out[..HEADROOM + 10], &link, ends, 11, 0), None);
        assert!(build(&mut out[..HEADROOM + 10], &link, ends, 10, 0).is_some());
        assert!(build(&mut out, &link, ends, 65_507, 0).is_some());
        assert_eq!(build(&mut out, &link, ends, 65_508, 0), None);
        assert_eq!(build(&mut out, &link, ReplyAddresses { to: v6().0, ..ends }, 10, 0), None);
    }

    /// Two different addresses of one family, with ports.
    fn ends() -> impl Strategy<Value = (SocketAddr, SocketAddr)> {
        let v4 = (1..=126_u8, any::<[u8; 3]>(), any::<u16>());
        let v4 = v4.prop_map(|(a, [b, c, d], port)| SocketAddr::from(([a, b, c, d], port)));
        let v6 = (any::<[u8; 15]>(), any::<u16>()).prop_map(|(rest, port)| {
            let mut ip = [0x20; 16];
            ip[1..].copy_from_slice(&rest);
            SocketAddr::from((ip, port))
        });
        prop_oneof![(v4.clone(), v4), (v6.clone(), v6)]
            .prop_filter("two addresses", |(from, to)| from.ip() != to.ip())
    }

    proptest! {
        #[test]
        fn queries_come_apart_as_they_were_put_together(
            (from, to) in ends(),
            tag in any::<Option<u16>>(),
            payload in prop::collection::vec(any::<u8>(), 0..600),
            trailer in 0..30_usize,
        ) {
            let mut bytes = frame(from, to, tag, &payload);
            bytes.resize(bytes.len() + trailer, 0xee);
            let parsed = parse(&bytes, RULES).unwrap();
            prop_assert_eq!((parsed.peer, parsed.local, parsed.payload), (from, to, &payload[..]));
            prop_assert_eq!(parsed.link.tag, tag.map(u16::to_be_bytes));
        }

        #[test]
        fn a_flipped_bit_is_noticed(
            (from, to) in ends(),
            payload in prop::collection::vec(any::<u8>(), 0..100),
            at in any::<prop::sample::Index>(),
            bit in 0..8_u8,
        ) {
            let mut bytes = frame(from, to, None, &payload);
            // All bytes that a checksum covers; a cleared UDP checksum over IPv4 means that there is none.
            let covered = if from.is_ipv4() { 14..bytes.len() } else { 22..bytes.len() };
            let at = covered.start + at.index(covered.len());
            bytes[at] ^= 1 << bit;
            if from.is_ipv4() && bytes[40..42] == [0, 0] {
                return Ok(());
            }
            prop_assert!(parse(&bytes, RULES).is_err());
        }

        #[test]
        fn any_bytes_are_parsed_without_a_panic(
            (from, to) in ends(),
            cut in any::<prop::sample::Index>(),
            noise in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        ) {
            let mut bytes = frame(from, to, Some(1), &[7; 40]);
            for (at, value) in noise {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            bytes.truncate(cut.index(bytes.len() + 1));
            let _ = parse(&bytes, RULES);
        }

        #[test]
        fn replies_are_right_in_every_byte(
            (from, to) in ends(),
            tag in any::<Option<u16>>(),
            payload in prop::collection::vec(any::<u8>(), 0..1500),
            id in any::<u16>(),
        ) {
            let query = frame(from, to, tag, &[1; 30]);
            let link = parse(&query, RULES).unwrap().link;
            let mut out = vec![0xaa; 2048];
            out[HEADROOM..HEADROOM + payload.len()].copy_from_slice(&payload);
            let ends = ReplyAddresses { from: to, to: from };
            let start = build(&mut out, &link, ends, payload.len(), id).unwrap();
            // The same frame built step by step, then the fields in which a reply differs from such a query.
            let mut expected = frame(to, from, tag, &payload);
            expected[..6].copy_from_slice(&query[6..12]);
            expected[6..12].copy_from_slice(&query[..6]);
            let ip = if tag.is_some() { 18 } else { 14 };
            if from.is_ipv4() {
                expected[ip + 1] = 0;
                expected[ip + 4..ip + 6].copy_from_slice(&id.to_be_bytes());
                expected[ip + 6..ip + 9].copy_from_slice(&[0, 0, 64]);
                expected[ip + 10..ip + 12].fill(0);
                let sum = !reference_sum(&[&expected[ip..ip + 20]]);
                expected[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
            } else {
                expected[ip..ip + 4].copy_from_slice(&[0x60, 0, 0, 0]);
                expected[ip + 7] = 64;
            }
            prop_assert_eq!(&out[start..HEADROOM + payload.len()], &expected[..]);
            prop_assert!(out[..start].iter().all(|&byte| byte == 0xaa));
        }
    }
}
