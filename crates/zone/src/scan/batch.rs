//! Records in batches: the scanner runs on a thread of its own, and the caller's thread takes the records.
//!
//! Batches are compact and reused. Only a few are in flight at a time, so memory stays small, and the faster
//! side waits for the other.

use super::entry::Scanner;
use super::fault::{Fault, FaultKind, Severity};
use super::{Place, Record, Rejection, ScanConfig, ScanProgress, ScanReport, Sink, TextSource};
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use wire::Ttl;
use wire::name::Name;
use wire::rr::{Class, Type};

/// Size in bytes at which a batch is sent.
const FULL_BATCH_BYTES: usize = 128 * 1024;
/// Most batches in flight.
const IN_FLIGHT: usize = 4;
/// Bytes before each record: owner length (0: as before), flags, type, RDLENGTH, TTL, file, line.
const HEADER: usize = 18;

/// Records in one buffer.
#[derive(Clone, Debug)]
pub struct RecordBatch {
    bytes: Vec<u8>,
    class: Class,
    progress: ScanProgress,
}

impl RecordBatch {
    fn new(class: Class) -> Self {
        RecordBatch {
            bytes: Vec::with_capacity(FULL_BATCH_BYTES + 4096),
            class,
            progress: ScanProgress::default(),
        }
    }

    fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Whether it holds no records.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the progress of the scan when the batch was sent.
    pub fn progress(&self) -> ScanProgress {
        self.progress
    }

    /// Appends a record; its class is the batch's.
    fn push(&mut self, record: &Record<'_>) {
        // The first record of a batch has its owner even if the record before, in another batch, had the
        // same.
        let owner = if record.same_owner && !self.bytes.is_empty() { &[] } else { record.owner.as_wire() };
        let mut header = [0; HEADER];
        header[0] = owner.len() as u8;
        header[1] = u8::from(record.same_owner);
        header[2..4].copy_from_slice(&record.rtype.0.to_le_bytes());
        header[4..6].copy_from_slice(&(record.rdata.len() as u16).to_le_bytes());
        header[6..10].copy_from_slice(&record.ttl.to_be_bytes());
        header[10..14].copy_from_slice(&record.place.file.to_le_bytes());
        header[14..].copy_from_slice(&record.place.line.to_le_bytes());
        self.bytes.extend_from_slice(&header);
        self.bytes.extend_from_slice(owner);
        self.bytes.extend_from_slice(record.rdata);
    }

    /// Returns the records, in the order they were read.
    pub fn records(&self) -> Records<'_> {
        Records { rest: &self.bytes, owner: Name::ROOT, class: self.class }
    }
}

/// The records of a [`RecordBatch`].
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    owner: Name<'a>,
    class: Class,
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    #[inline]
    fn next(&mut self) -> Option<Record<'a>> {
        let (header, rest) = self.rest.split_first_chunk::<HEADER>()?;
        let [owner_len, same, t0, t1, l0, l1, ttl @ .., f0, f1, f2, f3, n0, n1, n2, n3] = *header;
        let (owner, rest) = rest.split_at_checked(owner_len.into())?;
        let (rdata, rest) = rest.split_at_checked(u16::from_le_bytes([l0, l1]).into())?;
        self.rest = rest;
        if owner_len > 0 {
            self.owner = Name::from_wire(owner).ok()?;
        }
        Some(Record {
            owner: self.owner,
            same_owner: same == 1,
            ttl: Ttl::from_be_bytes(ttl),
            class: self.class,
            rtype: Type(u16::from_le_bytes([t0, t1])),
            rdata,
            place: Place {
                file: u32::from_le_bytes([f0, f1, f2, f3]),
                line: u32::from_le_bytes([n0, n1, n2, n3]),
            },
        })
    }
}

/// The scanner's side: fills batches and sends them.
struct Filler {
    batch: RecordBatch,
    full: SyncSender<RecordBatch>,
    empty: Receiver<RecordBatch>,
    /// The receiver has been dropped, so no more records are needed.
    gone: bool,
}

impl Filler {
    fn send(&mut self) {
        let class = self.batch.class;
        let next = self.empty.try_recv().unwrap_or_else(|_| RecordBatch::new(class));
        let batch = std::mem::replace(&mut self.batch, next);
        self.batch.progress = batch.progress;
        self.gone |= self.full.send(batch).is_err();
    }
}

impl Sink for Filler {
    #[inline]
    fn record(&mut self, record: &Record<'_>) -> Result<(), Rejection> {
        self.batch.push(record);
        if self.batch.bytes.len() >= FULL_BATCH_BYTES {
            self.send();
        }
        Ok(())
    }

    fn progress(&mut self, progress: ScanProgress) -> ControlFlow<()> {
        self.batch.progress = progress;
        if self.gone { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Like [`super::read`], but the scanner has a thread of its own; `sink` runs on the caller's thread.
///
/// The faults are the same. Those of the sink have no column and no excerpt, and the report has all faults
/// sorted by file and line. The limits on errors and warnings apply to scanner and sink separately.
pub fn read_pipelined(source: TextSource<'_>, config: &ScanConfig, sink: &mut impl Sink) -> ScanReport {
    let (full, batches) = sync_channel(IN_FLIGHT);
    let (emptied, empty) = channel();
    let batch = RecordBatch::new(config.class);
    let mut filler = Filler { batch, full, empty, gone: false };
    let slot = Mutex::new(Some(source)); // kept here, in case the thread cannot be started
    let take = || slot.lock().ok().and_then(|mut slot| slot.take());
    let outcome = thread::scope(|scope| {
        let scanner = thread::Builder::new().name("zone-scan".into()).spawn_scoped(scope, move || {
            let report = take().map(|source| Scanner::new(config, &mut filler).run(source));
            filler.send();
            report
        });
        let scanner = scanner.ok()?;
        let taken = receive(batches, emptied, config, sink);
        match scanner.join() {
            Ok(report) => report.map(|report| (report, taken)),
            Err(panic) => resume_unwind(panic),
        }
    });
    match (outcome, slot.into_inner().ok().flatten()) {
        (Some((report, taken)), _) => taken.into_report(report),
        (None, Some(source)) => super::read(source, config, sink),
        (None, None) => ScanReport { stopped: true, ..ScanReport::default() },
    }
}

/// The sink's results.
#[derive(Default)]
struct Taken {
    records: u64,
    rejections: Vec<(Place, Rejection)>,
    errors: u64,
    warnings: u64,
    stopped: bool,
}

/// Passes the records of all batches to `sink`.
fn receive(
    batches: Receiver<RecordBatch>,
    emptied: Sender<RecordBatch>,
    config: &ScanConfig,
    sink: &mut impl Sink,
) -> Taken {
    let mut taken = Taken::default();
    for mut batch in batches {
        for record in batch.records() {
            match sink.record(&record) {
                Ok(()) => taken.records += 1,
                Err(rejection) => taken.rejected(record.place, rejection, config),
            }
            if taken.stopped {
                return taken;
            }
        }
        if sink.progress(ScanProgress { records: taken.records, ..batch.progress }).is_break() {
            taken.stopped = true;
            return taken;
        }
        batch.clear();
        let _ = emptied.send(batch); // the scanner may have ended
    }
    taken
}

impl Taken {
    #[cold]
    fn rejected(&mut self, place: Place, rejection: Rejection, config: &ScanConfig) {
        self.stopped |= rejection.stop;
        match rejection.severity {
            Severity::Error => {
                self.errors += 1;
                self.stopped |= self.errors >= config.limits.errors.max(1) as u64;
            }
            Severity::Warning => {
                self.warnings += 1;
                if self.warnings > config.limits.warnings as u64 {
                    return;
                }
            }
        }
        self.rejections.push((place, rejection));
    }

    /// Returns the scanner's report with the sink's results.
    fn into_report(self, mut report: ScanReport) -> ScanReport {
        report.records = self.records;
        report.errors += self.errors;
        report.warnings += self.warnings;
        report.stopped |= self.stopped;
        if self.rejections.is_empty() {
            return report;
        }
        let files = &report.files;
        report.faults.extend(self.rejections.into_iter().filter_map(|(place, rejection)| {
            Some(Fault {
                kind: FaultKind::Rejected,
                severity: rejection.severity,
                file: files.get(place.file as usize)?.clone(),
                line: place.line,
                column: 0,
                message: rejection.message.into_owned(),
                note: None,
                excerpt: None,
                about: None,
            })
        }));
        let number = |fault: &Fault| files.iter().position(|name| *name == fault.file);
        report.faults.sort_by_key(|fault| (number(fault), fault.line));
        report
    }
}
