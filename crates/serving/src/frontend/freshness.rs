//! How long HTTP caches may keep a reply of DNS over HTTPS.

use wire::message::Parser;
use wire::{Rcode, Type};

/// Returns the time in seconds: the smallest TTL of the answer (RFC 8484 §5.1), of a negative one that of its
/// SOA record (RFC 2308 §5). `None`: no cache may keep it.
pub(super) fn freshness(reply: &[u8]) -> Option<u32> {
    let (header, mut parser) = Parser::new(reply).ok()?;
    let [questions, answers, authorities, _] = header.counts();
    if !matches!(header.rcode(), Rcode::NOERROR | Rcode::NXDOMAIN) || header.truncated() {
        return None;
    }
    for _ in 0..questions {
        parser.question().ok()?;
    }
    let mut least: Option<u32> = None;
    for number in 0..u32::from(answers) + u32::from(authorities) {
        let record = parser.record().ok()?;
        let ttl = record.ttl().as_secs();
        let time = match number < u32::from(answers) {
            true => Some(ttl),
            false if record.rtype == Type::SOA => {
                let minimum = reply.get(record.rdata)?.last_chunk::<4>()?;
                Some(ttl.min(u32::from_be_bytes(*minimum)))
            }
            false => None,
        };
        least = least.into_iter().chain(time).min();
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reply for `a.` with these flags and records: section counts, and type, TTL and data of each.
    fn reply(flags: [u8; 2], counts: [u8; 2], records: &[(u8, u32, &[u8])]) -> Vec<u8> {
        let mut out = vec![0, 7, flags[0], flags[1], 0, 1, 0, counts[0], 0, counts[1], 0, 0];
        out.extend(b"\x01a\0\0\x01\0\x01");
        for (rtype, ttl, data) in records {
            out.extend([0xc0, 12, 0, *rtype, 0, 1]);
            out.extend(ttl.to_be_bytes());
            out.extend((data.len() as u16).to_be_bytes());
            out.extend(*data);
        }
        out
    }

    #[test]
    fn a_reply_is_fresh_for_its_smallest_ttl() {
        const A: u8 = 1;
        const SOA: &[u8] = b"\0\0\0\0\0\x01\0\0\0\x02\0\0\0\x03\0\0\0\x04\0\0\0\x3c";
        let (good, none, failed) = ([0x81, 0x80], [0x81, 0x83], [0x81, 0x82]);
        let address = &[192, 0, 2, 1][..];
        for (reply, expected) in [
            (reply(good, [2, 0], &[(A, 300, address), (A, 60, address)]), Some(60)),
            (reply(good, [1, 1], &[(A, 300, address), (2, 10, b"\0")]), Some(300)),
            (reply(none, [0, 1], &[(6, 300, SOA)]), Some(60)),
            (reply(none, [0, 1], &[(6, 30, SOA)]), Some(30)),
            (reply(none, [1, 1], &[(5, 20, b"\0"), (6, 300, SOA)]), Some(20)),
            (reply(good, [1, 0], &[(A, 0, address)]), Some(0)),
            // RFC 2181 §8: a TTL with the highest bit set is 0.
            (reply(good, [1, 0], &[(A, 0x8000_0000, address)]), Some(0)),
            (reply(good, [0, 1], &[(2, 10, b"\0")]), None),
            (reply(good, [0, 0], &[]), None),
            (reply(failed, [0, 0], &[]), None),
            (reply([0x83, 0x80], [1, 0], &[(A, 300, address)]), None),
            (reply(good, [2, 0], &[(A, 300, address)]), None),
            (vec![0; 5], None),
        ] {
            assert_eq!(freshness(&reply), expected, "{reply:?}");
        }
    }
}
