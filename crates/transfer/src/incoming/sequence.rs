//! The sequence of a transfer's records (RFC 5936 §2.2, RFC 1995 §4).
//!
//! ```text
//! AXFR   SOA₃  all other records                                                   SOA₃
//! IXFR   SOA₃  SOA₁ removed…  SOA₂ added…   SOA₂ removed…  SOA₃ added…             SOA₃
//! ```
//!
//! A response to IXFR may have either form; the second record decides which.

use std::cmp::Ordering;

use wire::hash::HashKey;
use wire::rdata::view::Soa;
use wire::{Name, NameBuf, Serial, Ttl, Type, rdata};
use zone::ZoneBuilder;
use zone::store::ChangeSet;

use super::fault::{TransferFault, TransferLimit, TransferLimits};
use super::{AskedFor, Received, ReceivedZone, SentRequest};

/// Bytes of a stored difference record beside owner and RDATA: length, type, TTL and its index.
const KEPT_BESIDE: usize = 15;

/// The SOA that a transfer begins and ends with.
struct FirstSoa {
    serial: Serial,
    ttl: Ttl,
    rdata: Vec<u8>,
    /// RDATA with names in lower case.
    canonical: Vec<u8>,
}

/// What the next record may be.
enum Expected {
    FirstSoa,
    /// The record that decides between whole zone and differences.
    Second,
    /// Records of the whole zone, or the SOA at its end.
    Whole(Box<ZoneBuilder>),
    /// Records that a difference removes, then its second SOA.
    Removed(ChangeSet),
    /// Records that a difference adds, then the first SOA of the next one, or the end.
    Added(ChangeSet),
    End,
}

/// Processes the records of a transfer in their order.
pub(super) struct Sequence {
    apex: NameBuf,
    key: HashKey,
    asked: AskedFor,
    datagram: bool,
    /// Limit for the memory of a whole zone, in bytes.
    most_memory: u64,
    most_differences: u64,
    /// Bytes of differences that may still be received, and bytes received.
    difference_bytes: u64,
    taken_bytes: u64,
    /// A whole zone must not be older than this version.
    held: Option<Serial>,
    first: Option<FirstSoa>,
    expected: Expected,
    differences: Vec<ChangeSet>,
    received: Option<Received>,
}

impl Sequence {
    pub(super) fn new(request: &SentRequest, key: &HashKey, limits: TransferLimits) -> Self {
        Sequence {
            apex: request.apex,
            key: *key,
            asked: request.asked,
            datagram: request.datagram,
            most_memory: limits.bytes,
            most_differences: limits.differences,
            difference_bytes: limits.difference_bytes,
            taken_bytes: 0,
            held: match request.asked {
                AskedFor::Axfr => None,
                AskedFor::Ixfr(held) => Some(held),
            },
            first: None,
            expected: Expected::FirstSoa,
            differences: Vec::new(),
            received: None,
        }
    }

    pub(super) fn not_older_than(&mut self, held: Option<Serial>) {
        self.held = held.or(self.held);
    }

    /// Processes the next record, which is of class IN, in the zone, with valid RDATA.
    #[inline]
    pub(super) fn record(
        &mut self,
        owner: Name<'_>,
        t: Type,
        ttl: Ttl,
        rdata: &[u8],
    ) -> Result<(), TransferFault> {
        if let Expected::Whole(builder) = &mut self.expected
            && t != Type::SOA
        {
            return builder.add(owner, t, ttl, rdata).map_err(|_| TransferFault::Malformed);
        }
        self.change(owner, t, ttl, rdata)
    }

    fn change(&mut self, owner: Name<'_>, t: Type, ttl: Ttl, rdata: &[u8]) -> Result<(), TransferFault> {
        let soa = match t {
            // An SOA elsewhere in the zone is not part of the sequence; the zone that contains it will be
            // rejected.
            Type::SOA if owner == self.apex.as_name() => {
                Some(Soa::read(rdata).map_err(|_| TransferFault::Malformed)?.numbers.serial)
            }
            _ => None,
        };
        if let Expected::Removed(_) | Expected::Added(_) = &self.expected {
            self.count_difference(owner, rdata)?;
        }
        match (std::mem::replace(&mut self.expected, Expected::End), soa) {
            (Expected::FirstSoa, Some(serial)) => return self.first_soa(serial, ttl, rdata),
            (Expected::FirstSoa, None) => return Err(TransferFault::NoSoa),
            (Expected::Second, soa) => return self.second(owner, t, ttl, rdata, soa),
            (Expected::Whole(mut builder), None) => {
                builder.add(owner, t, ttl, rdata).map_err(|_| TransferFault::Malformed)?;
                self.expected = Expected::Whole(builder);
            }
            (Expected::Whole(builder), Some(serial)) => {
                self.is_last(rdata)?;
                self.received = Some(Received::Zone(ReceivedZone { builder, serial }));
            }
            (Expected::Removed(mut change), None) => {
                change.removed.push(owner, t, ttl, rdata);
                self.expected = Expected::Removed(change);
            }
            (Expected::Removed(mut change), Some(serial)) => {
                if change.before.compare(serial) != Some(Ordering::Less) {
                    return Err(TransferFault::BrokenChain { reached: change.before, found: serial });
                }
                change.after = serial;
                change.added.push(owner, t, ttl, rdata);
                self.expected = Expected::Added(change);
            }
            (Expected::Added(mut change), None) => {
                change.added.push(owner, t, ttl, rdata);
                self.expected = Expected::Added(change);
            }
            (Expected::Added(change), Some(serial)) => {
                return self.end_of_difference(change, beginning(serial, owner, ttl, rdata), rdata);
            }
            (Expected::End, _) => return Err(TransferFault::AfterEnd),
        }
        Ok(())
    }

    /// Counts a record of a difference.
    fn count_difference(&mut self, owner: Name<'_>, rdata: &[u8]) -> Result<(), TransferFault> {
        let bytes = (owner.len() + rdata.len() + KEPT_BESIDE) as u64;
        let left = self.difference_bytes.checked_sub(bytes);
        self.difference_bytes = left.ok_or(TransferFault::Limit(TransferLimit::Differences))?;
        self.taken_bytes += bytes;
        Ok(())
    }

    /// Bytes of memory that the records take.
    pub(super) fn memory(&self) -> u64 {
        match (&self.expected, &self.received) {
            (Expected::Whole(builder), _) => builder.memory() as u64,
            (_, Some(Received::Zone(zone))) => zone.builder.memory() as u64,
            _ => self.taken_bytes,
        }
    }

    /// Ends a message. Returns the content if it is complete.
    pub(super) fn end_of_message(&mut self) -> Result<Option<Received>, TransferFault> {
        if let Expected::Whole(builder) = &self.expected
            && builder.memory() as u64 > self.most_memory
        {
            return Err(TransferFault::Limit(TransferLimit::Bytes));
        }
        if let (Expected::Second, Some(first), AskedFor::Ixfr(ours)) =
            (&self.expected, &self.first, self.asked)
        {
            let not_newer = matches!(first.serial.compare(ours), Some(Ordering::Less | Ordering::Equal));
            if self.datagram || not_newer {
                let serial = first.serial;
                self.expected = Expected::End;
                return Ok(Some(Received::SoaOnly(serial)));
            }
        }
        match self.received.take() {
            // A datagram with only the beginning is equivalent to a truncated one.
            None if self.datagram => Err(TransferFault::Truncated),
            received => Ok(received),
        }
    }

    fn first_soa(&mut self, serial: Serial, ttl: Ttl, rdata: &[u8]) -> Result<(), TransferFault> {
        let mut canonical = rdata.to_vec();
        rdata::canonical(Type::SOA, &mut canonical);
        self.first = Some(FirstSoa { serial, ttl, rdata: rdata.to_vec(), canonical });
        self.expected = match self.asked {
            AskedFor::Axfr => self.whole()?,
            AskedFor::Ixfr(_) => Expected::Second,
        };
        Ok(())
    }

    /// A builder with the zone's SOA, for the records that follow.
    fn whole(&self) -> Result<Expected, TransferFault> {
        let sent = self.first.as_ref().map(|first| first.serial);
        if let Some((sent, held)) = sent.zip(self.held)
            && sent.compare(held) == Some(Ordering::Less)
        {
            return Err(TransferFault::Older { sent, held });
        }
        let mut builder = Box::new(ZoneBuilder::new(self.apex.as_name(), &self.key));
        if let Some(first) = &self.first {
            // An SOA is not a meta-type, and is short.
            let _ = builder.add(self.apex.as_name(), Type::SOA, first.ttl, &first.rdata);
        }
        Ok(Expected::Whole(builder))
    }

    /// Processes the second record. An SOA of the client's version begins the differences; anything else
    /// belongs to the whole zone (RFC 1995 §4).
    fn second(
        &mut self,
        owner: Name<'_>,
        t: Type,
        ttl: Ttl,
        rdata: &[u8],
        soa: Option<Serial>,
    ) -> Result<(), TransferFault> {
        if let (Some(found), AskedFor::Ixfr(ours)) = (soa, self.asked)
            && self.is_last(rdata).is_err()
        {
            if found != ours {
                return Err(TransferFault::BrokenChain { reached: ours, found });
            }
            self.expected = Expected::Removed(beginning(found, owner, ttl, rdata));
            return Ok(());
        }
        self.expected = self.whole()?;
        self.change(owner, t, ttl, rdata)
    }

    /// Ends a difference, at the last SOA or at the one that `next` begins with; `rdata` is of that SOA.
    fn end_of_difference(
        &mut self,
        change: ChangeSet,
        next: ChangeSet,
        rdata: &[u8],
    ) -> Result<(), TransferFault> {
        if self.differences.len() as u64 >= self.most_differences {
            return Err(TransferFault::Limit(TransferLimit::Differences));
        }
        let (reached, found) = (change.after, next.before);
        self.differences.push(change);
        if found != reached {
            return Err(TransferFault::BrokenChain { reached, found });
        }
        if self.first.as_ref().is_some_and(|first| first.serial == reached) {
            self.is_last(rdata)?;
            self.received = Some(Received::Differences(std::mem::take(&mut self.differences)));
        } else {
            self.expected = Expected::Removed(next);
        }
        Ok(())
    }

    /// Checks that an SOA equals the first one.
    fn is_last(&self, rdata: &[u8]) -> Result<(), TransferFault> {
        let mut canonical = rdata.to_vec();
        rdata::canonical(Type::SOA, &mut canonical);
        match &self.first {
            Some(first) if first.canonical == canonical => Ok(()),
            _ => Err(TransferFault::OtherLastSoa),
        }
    }
}

/// A difference that begins with this SOA.
fn beginning(before: Serial, owner: Name<'_>, ttl: Ttl, rdata: &[u8]) -> ChangeSet {
    let mut change = ChangeSet { before, ..ChangeSet::default() };
    change.removed.push(owner, Type::SOA, ttl, rdata);
    change
}
