//! What the records of a transfer mean, one after the other (RFC 5936 §2.2, RFC 1995 §4).
//!
//! ```text
//! AXFR   SOA₃  all other records                                                   SOA₃
//! IXFR   SOA₃  SOA₁ removed…  SOA₂ added…   SOA₂ removed…  SOA₃ added…             SOA₃
//! ```
//!
//! IXFR may be answered in either form; the second record says which.

use std::cmp::Ordering;

use wire::hash::HashKey;
use wire::rdata::view::Soa;
use wire::{Name, NameBuf, Serial, Ttl, Type, rdata};
use zone::ZoneBuilder;
use zone::store::ChangeSet;

use super::fault::{TransferFault, TransferLimit, TransferLimits};
use super::{AskedFor, Received, ReceivedZone, SentRequest};

/// Bytes that a record of a difference takes beside its owner and data: length, type and TTL, and its place
/// in the list.
const KEPT_BESIDE: usize = 15;

/// The SOA that a transfer begins and ends with.
struct FirstSoa {
    serial: Serial,
    ttl: Ttl,
    rdata: Vec<u8>,
    /// With its names in lower case.
    canonical: Vec<u8>,
}

/// What the next record may be.
enum Expected {
    FirstSoa,
    /// What decides whether this is the whole zone or differences.
    Second,
    /// Records of the whole zone, or its end.
    Whole(Box<ZoneBuilder>),
    /// What a difference removes, then its second SOA.
    Removed(ChangeSet),
    /// What a difference adds, then the first SOA of the next one, or the end.
    Added(ChangeSet),
    End,
}

/// Takes the records of a transfer in their order.
pub(super) struct Sequence {
    apex: NameBuf,
    key: HashKey,
    asked: AskedFor,
    datagram: bool,
    /// Bytes of memory that a whole zone may take.
    most_memory: u64,
    most_differences: u64,
    /// Bytes of differences that may still come, and that came.
    difference_bytes: u64,
    taken_bytes: u64,
    /// A whole zone is not to be older than this version.
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

    /// Takes the next record: of class IN, in the zone, with valid data.
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
            // An SOA elsewhere in the zone is no part of the sequence; the zone that it is in will be
            // refused.
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

    /// Counts a record of a difference as it is kept.
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

    /// Says that a message has ended. Returns what was received, if that is complete.
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
            // A datagram that holds only the beginning is as good as one that was cut.
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

    /// The zone with its SOA, for the records to come.
    fn whole(&self) -> Result<Expected, TransferFault> {
        let sent = self.first.as_ref().map(|first| first.serial);
        if let Some((sent, held)) = sent.zip(self.held)
            && sent.compare(held) == Some(Ordering::Less)
        {
            return Err(TransferFault::Older { sent, held });
        }
        let mut builder = Box::new(ZoneBuilder::new(self.apex.as_name(), &self.key));
        if let Some(first) = &self.first {
            // An SOA is no meta type, and short.
            let _ = builder.add(self.apex.as_name(), Type::SOA, first.ttl, &first.rdata);
        }
        Ok(Expected::Whole(builder))
    }

    /// The second record: an SOA of the version that the client has begins the differences, anything else is
    /// of the whole zone (RFC 1995 §4).
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

    /// A difference has ended, with the SOA of the end, or with the one that `next` begins with; `rdata` is
    /// of that SOA.
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

    /// Whether an SOA is the one at the beginning.
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
