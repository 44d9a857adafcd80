//! Zone files: for any text the records are valid, do not depend on how the text is split, and read back
//! unchanged when written.
//!
//! RFC 1035 §5.1: "Parentheses are used to group data that crosses a line boundary. In effect, line
//! terminations are not recognized within parentheses." A record written on one line is therefore the same
//! record.

use std::fmt::Write as _;
use std::io::{self, Read};

use wire::rdata::{validate, write_text};
use wire::{Class, Name, Ttl, Type};
use zone::scan::{Limits, Record, Rejection, ScanConfig, ScanReport, Sink, TextSource, read};

/// A record; the owner keeps its letter case.
type ScannedRecord = (Vec<u8>, Ttl, Class, Type, Vec<u8>);

#[derive(Default, PartialEq, Debug)]
struct Records(Vec<ScannedRecord>);

impl Sink for Records {
    fn record(&mut self, record: &Record<'_>) -> Result<(), Rejection> {
        assert!(!record.rtype.is_meta());
        assert_eq!(validate(record.rtype, record.rdata), Ok(()));
        let owner = record.owner.as_wire().to_vec();
        let before = self.0.last().map(|r| r.0.as_slice());
        assert!(!record.same_owner || before == Some(owner.as_slice()));
        self.0.push((owner, record.ttl, record.class, record.rtype, record.rdata.to_vec()));
        Ok(())
    }
}

/// Returns its text in small pieces.
struct Trickle<'a> {
    text: &'a [u8],
    step: usize,
}

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.step = self.step % 7 + 1;
        let (now, later) = self.text.split_at(self.step.min(buffer.len()).min(self.text.len()));
        buffer[..now.len()].copy_from_slice(now);
        self.text = later;
        Ok(now.len())
    }
}

pub(crate) fn run(data: &[u8]) {
    let (records, report) = scan(TextSource::bytes("text", data));
    assert_eq!(report.records as usize, records.0.len());

    let step = data.len();
    let (trickled, other) = scan(TextSource::reader("text", Trickle { text: data, step }));
    assert_eq!(records, trickled);
    assert_eq!((report.errors, report.warnings), (other.errors, other.warnings));
    let told = |r: &ScanReport| r.faults.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(told(&report), told(&other));

    let text = written(&records);
    let (again, report) = scan(TextSource::bytes("written", text.as_bytes()));
    assert!(report.is_clean(), "{text}\n{:?}", report.faults);
    assert_eq!(records, again, "{text}");
}

fn scan(source: TextSource<'_>) -> (Records, ScanReport) {
    let mut config = ScanConfig::new(Name::from_wire(b"\x07example\x03com\0").expect("a name"));
    config.default_ttl = Some(Ttl::from_secs(3600));
    config.limits = Limits { generated: 500, errors: 50, ..Limits::default() };
    let mut records = Records::default();
    let report = read(source, &config, &mut records);
    (records, report)
}

fn written(records: &Records) -> String {
    let mut text = String::new();
    for (owner, ttl, class, rtype, rdata) in &records.0 {
        let owner = Name::from_wire(owner).expect("was a name");
        write!(text, "{owner} {ttl} {class} {rtype} ").expect("a String takes everything");
        write_text(*rtype, rdata, &mut text).expect("a String takes everything");
        text.push('\n');
    }
    text
}
