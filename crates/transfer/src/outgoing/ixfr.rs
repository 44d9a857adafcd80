//! Differences between versions (RFC 1995 §4).

use std::cmp::Ordering;
use std::sync::Arc;

use transport::MessageStream;
use wire::message::{Builder, Full, Offset, Owner, Section};
use wire::{Class, Serial, Type};
use zone::Zone;
use zone::store::{ChangeSet, ChangedRecord};

use super::axfr::{SoaRecord, ZoneRecords, put_soa};
use super::frame::TransferFrame;
use super::message::{RecordNames, TransferMessage};
use super::stream::{RecordSource, TransferStream};

/// The form of the answer to IXFR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IxfrAnswer {
    /// The SOA alone: the client has this version, or a later one (RFC 1995 §2).
    UpToDate,
    /// The differences between the client's version and this one.
    Differences,
    /// The whole zone: the differences are not available (RFC 1995 §4), or one lacks an SOA.
    Whole,
}

/// Returns the form of the answer for a client with version `client`, if the zone is at `current`.
pub fn ixfr_answer(current: Serial, client: Serial, differences: &[Arc<ChangeSet>]) -> IxfrAnswer {
    if matches!(client.compare(current), Some(Ordering::Equal | Ordering::Greater)) {
        return IxfrAnswer::UpToDate;
    }
    let mut version = client;
    for difference in differences {
        if difference.before != version || !difference.is_difference_sequence() {
            return IxfrAnswer::Whole;
        }
        version = difference.after;
    }
    if version == current { IxfrAnswer::Differences } else { IxfrAnswer::Whole }
}

/// Answers IXFR over a stream, for a client with version `client`. `differences` lead from that version to
/// the zone's, in order; if they do not, or there are none, the answer is the whole zone.
pub fn ixfr(
    zone: Arc<Zone>,
    client: Serial,
    differences: Vec<Arc<ChangeSet>>,
    frame: TransferFrame,
) -> Box<dyn MessageStream> {
    let apex = zone.apex().to_buf();
    match ixfr_answer(zone.serial(), client, &differences) {
        IxfrAnswer::UpToDate => Box::new(TransferStream::new(frame, apex, SoaRecord(zone))),
        IxfrAnswer::Differences => {
            Box::new(TransferStream::new(frame, apex, DifferenceSequences::new(zone, differences)))
        }
        IxfrAnswer::Whole => Box::new(TransferStream::new(frame, apex, ZoneRecords::new(zone))),
    }
}

/// Writes the answer to IXFR in a datagram, after its question, and sets AA. The answer is the differences if
/// they fit, otherwise the SOA alone, from which the client sees whether to retry over a stream (RFC 1995
/// §2). Returns which.
///
/// # Errors
/// [`Full`] if not even the SOA fits.
pub fn ixfr_datagram(
    zone: &Zone,
    client: Serial,
    differences: &[Arc<ChangeSet>],
    b: &mut Builder<'_>,
) -> Result<IxfrAnswer, Full> {
    b.flags(|header| header.set_authoritative(true));
    let start = b.mark();
    if ixfr_answer(zone.serial(), client, differences) == IxfrAnswer::Differences
        && put_differences(zone, differences, b).is_ok()
    {
        return Ok(IxfrAnswer::Differences);
    }
    b.rollback(start);
    put_apex_soa(zone, b).map(|()| IxfrAnswer::UpToDate)
}

fn put_differences(zone: &Zone, differences: &[Arc<ChangeSet>], b: &mut Builder<'_>) -> Result<(), Full> {
    put_apex_soa(zone, b)?;
    let changes = differences.iter().flat_map(|change| change.removed.iter().chain(change.added.iter()));
    for ChangedRecord { owner, rtype, ttl, rdata } in changes {
        b.record(Section::Answer, Owner::Name(owner), rtype, Class::IN, ttl, rdata)?;
    }
    put_apex_soa(zone, b)
}

fn put_apex_soa(zone: &Zone, b: &mut Builder<'_>) -> Result<(), Full> {
    let soa = zone.apex_node().rrset(Type::SOA);
    let record = soa.as_ref().and_then(|soa| soa.rdatas().next()).ok_or(Full)?;
    let mut rdata = Vec::new();
    record.copy_to(&mut rdata);
    let owner = Owner::At(Offset::QNAME);
    b.record(Section::Answer, owner, Type::SOA, Class::IN, record.ttl(), &rdata).map(drop)
}

/// The position of the next record.
enum ChangePlace {
    FirstSoa,
    /// Index of the difference, whether among its added records, and index of the record there.
    Change(usize, bool, usize),
    LastSoa,
}

/// The newest SOA, the removed and added records of each difference, and the SOA again.
struct DifferenceSequences {
    zone: Arc<Zone>,
    differences: Vec<Arc<ChangeSet>>,
    place: ChangePlace,
}

impl DifferenceSequences {
    fn new(zone: Arc<Zone>, differences: Vec<Arc<ChangeSet>>) -> Self {
        DifferenceSequences { zone, differences, place: ChangePlace::FirstSoa }
    }
}

impl RecordSource for DifferenceSequences {
    fn fill(&mut self, message: &mut TransferMessage<'_>) -> bool {
        let mut names = RecordNames::new();
        if let ChangePlace::FirstSoa = self.place {
            if !put_soa(&self.zone, message, &mut names) {
                return false;
            }
            self.place = ChangePlace::Change(0, false, 0);
        }
        while let ChangePlace::Change(number, is_added, at) = self.place {
            self.place = match self.differences.get(number) {
                None => ChangePlace::LastSoa,
                Some(difference) => {
                    let records = if is_added { &difference.added } else { &difference.removed };
                    match records.get(at) {
                        None => ChangePlace::Change(number + is_added as usize, !is_added, 0),
                        Some(record) => {
                            let put = message.record(record.owner, record.rtype, record.ttl, record.rdata);
                            if put.is_err() {
                                return false;
                            }
                            ChangePlace::Change(number, is_added, at + 1)
                        }
                    }
                }
            };
        }
        put_soa(&self.zone, message, &mut names)
    }
}

#[cfg(test)]
mod tests {
    use testkit::{ModelRecord, build, key, name};
    use wire::Ttl;
    use zone::store::ChangedRecords;

    use super::super::tests::{Plain, frame_with_limit, messages, records, request};
    use super::*;

    fn zone(serial: u32) -> Arc<Zone> {
        let apex = name("example.");
        let rdata = testkit::random::soa(apex.as_name(), serial);
        let soa = ModelRecord { owner: apex, rtype: Type::SOA, ttl: Ttl::from_secs(60), rdata };
        Arc::new(build(apex.as_name(), &key(), &[soa]))
    }

    fn list(serial: u32, hosts: std::ops::Range<u8>) -> ChangedRecords {
        let (apex, minute) = (name("example."), Ttl::from_secs(60));
        let mut list = ChangedRecords::default();
        let soa = testkit::random::soa(apex.as_name(), serial);
        list.push(apex.as_name(), Type::SOA, minute, &soa);
        for n in hosts {
            let owner = name(&format!("host{n}.example."));
            list.push(owner.as_name(), Type::A, minute, &[192, 0, 2, n]);
        }
        list
    }

    fn step(from: u32, to: u32) -> Arc<ChangeSet> {
        let (removed, added) = (list(from, 0..3), list(to, 3..9));
        Arc::new(ChangeSet { before: Serial(from), after: Serial(to), removed, added })
    }

    fn plain(list: &ChangedRecords) -> Vec<Plain> {
        list.iter().map(|r| (r.owner.as_wire().to_vec(), r.rtype, r.ttl, r.rdata.to_vec())).collect()
    }

    #[test]
    fn serials_decide_what_the_answer_is() {
        let steps = [step(1, 2), step(2, 4)];
        let answer =
            |current, client, steps: &[Arc<ChangeSet>]| ixfr_answer(Serial(current), Serial(client), steps);
        assert_eq!(answer(4, 1, &steps), IxfrAnswer::Differences);
        assert_eq!(answer(4, 2, &steps[1..]), IxfrAnswer::Differences);
        for client in [4, 5, 4 + (1 << 31) - 1] {
            assert_eq!(answer(4, client, &steps), IxfrAnswer::UpToDate, "{client}");
        }
        for client in [3, 4 + (1 << 31), u32::MAX] {
            assert_eq!(answer(4, client, &steps), IxfrAnswer::Whole, "{client}");
        }
        assert_eq!(answer(5, 1, &steps), IxfrAnswer::Whole, "the last step is missing");
        assert_eq!(answer(4, 1, &[]), IxfrAnswer::Whole);
        assert_eq!(answer(4, 1, &[step(1, 2), step(3, 4)]), IxfrAnswer::Whole, "a step is missing");
        let bare = ChangeSet { before: Serial(1), after: Serial(4), ..ChangeSet::default() };
        assert_eq!(answer(4, 1, &[Arc::new(bare)]), IxfrAnswer::Whole, "no SOA");
    }

    /// RFC 1995 §4: new SOA; for each difference old SOA, removed, new SOA, added; new SOA.
    #[test]
    fn differences_go_out_step_by_step() {
        let steps = vec![step(1, 2), step(2, 4)];
        let newest = plain(&list(4, 0..0));
        let mut expected = newest.clone();
        for step in &steps {
            expected.extend(plain(&step.removed));
            expected.extend(plain(&step.added));
        }
        expected.extend(newest);
        let apex = name("example.");
        for limit in [150, 16_384] {
            let frame = frame_with_limit(apex.as_name(), Type::IXFR, limit);
            let all = messages(ixfr(zone(4), Serial(1), steps.clone(), frame));
            assert_eq!(records(&all, &request(apex.as_name(), Type::IXFR)[12..]), expected);
            assert_eq!(all.len() == 1, limit > 150);
        }
    }

    #[test]
    fn a_datagram_has_the_differences_or_the_soa_alone() {
        use wire::message::{Compressor, Header};
        let (apex, mut out, mut names) = (name("example."), vec![0; 1232], Compressor::small());
        let question = &request(apex.as_name(), Type::IXFR)[12..];
        let mut answer = |serial, steps: Vec<Arc<ChangeSet>>, limit| {
            let mut b = Builder::new(&mut out, limit, Header::query(0x4242).reply(), &mut names);
            b.question(apex.as_name(), Type::IXFR, Class::IN).expect("room");
            let answer = ixfr_datagram(&zone(4), Serial(serial), &steps, &mut b).ok()?;
            let len = b.finish();
            let all = records(&[out[..len].to_vec()], question);
            assert_eq!(answer == IxfrAnswer::Differences, all.len() > 1);
            if answer == IxfrAnswer::Differences {
                let soa = plain(&list(4, 0..0));
                let (removed, added) = (plain(&steps[0].removed), plain(&steps[0].added));
                assert_eq!(all, [soa.clone(), removed, added, soa].concat());
            }
            Some(all.len())
        };
        assert_eq!(answer(1, vec![step(1, 4)], 1232), Some(1 + 4 + 7 + 1));
        assert_eq!(answer(1, vec![step(1, 4)], 200), Some(1), "too large");
        assert_eq!(answer(1, vec![], 1232), Some(1), "the whole zone never leaves in a datagram");
        assert_eq!(answer(4, vec![], 1232), Some(1));
        assert_eq!(answer(4, vec![], 50), None);
    }
}
