//! Transfers a whole zone from a server (AXFR, RFC 5936) as fast as possible: counts it, and checks as much
//! as costs next to nothing. Its contents can be summed up, to be compared with the expected ones.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use wire::message::{Parser, RawRecord};
use wire::{Malformed, Rcode, Type, rdata};

use crate::failure::{Context, Failure, Result};
use crate::message::{Edns, each_answer, serial_of, write_query};
use crate::{sys, tcp};

/// Size of one read from the kernel, in bytes.
const BUFFER: usize = 1 << 20;
/// Longest time without data.
const SILENCE: Duration = Duration::from_secs(60);
/// The ID of the request.
const ID: [u8; 2] = [0x4e, 0x6f];

/// Counts of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Taken {
    /// Messages.
    pub(crate) messages: u64,
    /// Records, including the SOA record at the end.
    pub(crate) records: u64,
    /// Bytes over TCP, including the length fields.
    pub(crate) bytes: u64,
    /// Serial of the zone.
    pub(crate) serial: u32,
    /// Seconds from the request to the last byte.
    pub(crate) seconds: f64,
}

/// A connection to a server. Closing it is not part of the transfer that is measured.
pub(crate) struct Connection(tcp::Connection);

impl Connection {
    /// Connects.
    pub(crate) fn open(server: SocketAddr) -> Result<Connection> {
        let connection = tcp::Connection::open(server, SILENCE, BUFFER);
        Ok(Connection(connection.context(|| format!("cannot reach {server}"))?))
    }

    /// Transfers a zone; calls `each` with every message after checking it.
    pub(crate) fn take(
        &mut self,
        zone: &str,
        patience: Duration,
        mut each: impl FnMut(&[u8]),
    ) -> Result<Taken> {
        let mut query = Vec::new();
        write_query(&mut query, zone, Type::AXFR, Edns::None);
        query[..2].copy_from_slice(&ID);
        let began = Instant::now();
        self.0.send(&query)?;
        let (mut taken, mut ends) = (Taken::default(), Ends::default());
        let mut message = Vec::with_capacity(usize::from(u16::MAX));
        while !ends.is_whole() {
            self.0.receive(&mut message).context(|| "the transfer broke off".to_string())?;
            taken.messages += 1;
            taken.bytes += 2 + message.len() as u64;
            ends.add(&message).map_err(Failure::new)?;
            each(&message);
            if sys::interrupted() || began.elapsed() > patience {
                return Err(Failure::new(if sys::interrupted() { "interrupted" } else { "took too long" }));
            }
        }
        let (records, serial) = (ends.records, ends.first.unwrap_or(0));
        Ok(Taken { records, serial, seconds: began.elapsed().as_secs_f64(), ..taken })
    }
}

/// State of a transfer: it begins and ends with the same SOA record (RFC 5936 §2.2).
#[derive(Debug, Default)]
struct Ends {
    records: u64,
    first: Option<u32>,
    last: Option<u32>,
}

impl Ends {
    fn is_whole(&self) -> bool {
        self.last.is_some()
    }

    fn add(&mut self, message: &[u8]) -> Result<(), String> {
        let (header, _) = Parser::new(message).map_err(|_| "a message is shorter than a header")?;
        if message[..2] != ID || !header.is_response() {
            return Err("a message is no response to the request".to_string());
        }
        if header.rcode() != Rcode::NOERROR {
            return Err(format!("refused with RCODE {}", header.rcode().0));
        }
        let mut fault = None;
        let read = each_answer(message, |parser, record| {
            fault = fault.or(self.record(parser, record).err());
        });
        read.map_err(|_| "a message is malformed")?;
        fault.map_or(Ok(()), |fault| Err(fault.to_string()))
    }

    fn record(&mut self, parser: &mut Parser<'_>, record: &RawRecord) -> Result<(), &'static str> {
        self.records += 1;
        let soa = (record.rtype == Type::SOA).then(|| serial_of(parser, record)).transpose();
        let soa = soa.map_err(|_| "an SOA record is malformed")?;
        match (self.first, self.last, soa) {
            (None, _, Some(_)) => self.first = soa,
            (None, _, None) => return Err("the first record is no SOA record"),
            (Some(_), Some(_), _) => return Err("records follow the last one"),
            (Some(first), None, Some(serial)) if serial != first => return Err("two SOA records differ"),
            (Some(_), None, _) => self.last = soa,
        }
        Ok(())
    }
}

/// A sum over a zone's records, independent of their order, their distribution over messages, and name
/// compression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content(u64);

impl Content {
    /// Adds the records of a checked message.
    pub(crate) fn add(&mut self, message: &[u8]) {
        let mut sum = self.0;
        let each = |parser: &mut Parser<'_>, record: &RawRecord| {
            sum = sum.wrapping_add(digest(parser, record).unwrap_or(0));
        };
        // If the message is malformed further on, the sum differs.
        let _ = each_answer(message, each);
        self.0 = sum;
    }
}

/// Hashes (FNV-1a) a record with uncompressed names in lower case, without the length of its RDATA.
fn digest(parser: &mut Parser<'_>, record: &RawRecord) -> Result<u64, Malformed> {
    let owner = parser.name_at(record.owner_at)?.as_name().to_lower();
    let mut bytes = owner.as_lower().as_wire().to_vec();
    bytes.extend(record.rtype.0.to_be_bytes());
    bytes.extend(record.class.0.to_be_bytes());
    bytes.extend(record.ttl_field);
    let start = bytes.len();
    parser.expand_rdata(record, &mut bytes)?;
    rdata::canonical(record.rtype, &mut bytes[start..]);
    Ok(bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of a transfer with these records, as owner, type and RDATA.
    fn message(records: &[(&[u8], Type, &[u8])]) -> Vec<u8> {
        let mut out = vec![ID[0], ID[1], 0x84, 0, 0, 0, 0, records.len() as u8, 0, 0, 0, 0];
        for (owner, kind, rdata) in records {
            out.extend_from_slice(owner);
            out.extend_from_slice(&kind.0.to_be_bytes());
            out.extend_from_slice(&[0, 1, 0, 0, 0, 9, 0, rdata.len() as u8]);
            out.extend_from_slice(rdata);
        }
        out
    }

    fn soa(serial: u8) -> [u8; 22] {
        let mut rdata = [0; 22];
        rdata[5] = serial;
        rdata
    }

    fn ends(messages: &[Vec<u8>]) -> Result<Ends, String> {
        let mut ends = Ends::default();
        messages.iter().try_for_each(|message| ends.add(message)).map(|()| ends)
    }

    #[test]
    fn a_transfer_ends_with_the_soa_record_it_began_with() {
        let (start, a) = ((&b"\x01z\0"[..], Type::SOA, &soa(7)[..]), (&b"\x01a\0"[..], Type::A, &[1; 4][..]));
        let begun = ends(&[message(&[start, a])]).unwrap();
        assert!(!begun.is_whole());
        let whole = ends(&[message(&[start, a]), message(&[a, start])]).unwrap();
        assert_eq!((whole.is_whole(), whole.records, whole.last), (true, 4, Some(7)));
        let other = (&b"\x01z\0"[..], Type::SOA, &soa(8)[..]);
        for bad in [&[message(&[a, start])][..], &[message(&[start, other])], &[message(&[start, start, a])]]
        {
            assert!(ends(bad).is_err(), "{bad:?}");
        }
        let mut refused = message(&[]);
        refused[3] = 5;
        assert_eq!(ends(&[refused]).unwrap_err(), "refused with RCODE 5");
    }

    #[test]
    fn content_depends_on_neither_order_nor_compression_but_on_every_byte() {
        let of = |messages: &[Vec<u8>]| {
            let mut content = Content::default();
            messages.iter().for_each(|message| content.add(message));
            content
        };
        let (a, ns) = ((&b"\x01a\0"[..], Type::A, &[1; 4][..]), (&b"\x01A\0"[..], Type::NS, &b"\x01a\0"[..]));
        let pointed = (&b"\xc0\x0c"[..], Type::NS, &b"\xc0\x0c"[..]);
        let sum = of(&[message(&[a, ns])]);
        assert_eq!(of(&[message(&[ns]), message(&[a])]), sum);
        assert_eq!(of(&[message(&[a, pointed])]), sum);
        assert_ne!(of(&[message(&[a])]), sum);
        assert_ne!(of(&[message(&[(a.0, a.1, &[1, 1, 1, 2]), ns])]), sum);
    }
}
