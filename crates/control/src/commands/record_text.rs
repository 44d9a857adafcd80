//! Parses the text of `nomen ctl zone set` and `unset`: a record in zone file syntax. Faults are shown as for
//! a zone file, with the column and a caret.

use wire::text::{Token, tokens};
use wire::{Name, NameBuf, Ttl, Type};
use zone::scan::{
    self, Excerpt, Fault, FaultKind, Limits, Record, Rejection, ScanConfig, Severity, Sink, TextSource,
};

use crate::fault::ArgumentFault;
use zone_manager::changes::{SetRecord, UnsetRecords};

/// The source's name in faults.
const SOURCE: &str = "record";

/// The single record of a text.
#[derive(Default)]
struct OneRecord(Option<SetRecord>);

impl Sink for OneRecord {
    fn record(&mut self, record: &Record<'_>) -> Result<(), Rejection> {
        if self.0.is_some() {
            return Err(Rejection::stop("one record at a time"));
        }
        let (owner, rdata) = (record.owner.to_buf(), record.rdata.to_vec());
        self.0 = Some(SetRecord { owner, rtype: record.rtype, ttl: Some(record.ttl), rdata });
        Ok(())
    }
}

/// What the text of a record says.
pub struct RecordText {
    /// The record.
    pub record: SetRecord,
    /// Warnings about it.
    pub warnings: Vec<String>,
}

/// Parses `OWNER [TTL] [CLASS] TYPE DATA`; a relative owner name is below `apex`.
///
/// # Errors
/// The first fault of the text.
pub fn set_record(text: &str, apex: Name<'_>) -> Result<RecordText, ArgumentFault> {
    match scan_one(text, apex, None) {
        Ok(Scanned { mut record, mut warnings }) => {
            // In a zone file, an SOA without a TTL gets its MINIMUM; here it keeps its current TTL.
            record.ttl.take_if(|_| warnings.iter().any(|fault| fault.kind == FaultKind::TtlFromSoa));
            warnings.retain(|fault| fault.kind != FaultKind::TtlFromSoa);
            Ok(RecordText { record, warnings: shown(&warnings) })
        }
        Err(fault) if fault.kind == FaultKind::NoTtl => {
            let Scanned { record, warnings } =
                scan_one(text, apex, Some(Ttl::ZERO)).map_err(ArgumentFault::Record)?;
            Ok(RecordText { record: SetRecord { ttl: None, ..record }, warnings: shown(&warnings) })
        }
        Err(fault) => Err(ArgumentFault::Record(fault)),
    }
}

fn shown(faults: &[Fault]) -> Vec<String> {
    faults.iter().map(|fault| fault.pretty().to_string()).collect()
}

/// Parses `OWNER`, `OWNER TYPE`, or a whole record, whose TTL is ignored.
///
/// # Errors
/// As for [`set_record`].
pub(super) fn unset_records(text: &str, apex: Name<'_>) -> Result<UnsetRecords, ArgumentFault> {
    let words: Vec<Token<'_>> = tokens(text).collect();
    let (owner, rtype) = match words[..] {
        [owner] => (owner, None),
        [owner, rtype] => (owner, Some(rtype)),
        _ => {
            let SetRecord { owner, rtype, rdata, .. } = set_record(text, apex)?.record;
            return Ok(UnsetRecords { owner, rtype: Some(rtype), rdata: Some(rdata) });
        }
    };
    let bad = |fault| ArgumentFault::Record(Box::new(fault));
    let name = match owner {
        Token { bytes: b"@", quoted: false } => Ok(apex.to_buf()),
        Token { bytes, .. } => NameBuf::from_text(bytes, Some(apex)),
    };
    let name = name.map_err(|fault| {
        let message = format!("not a domain name: {fault}");
        bad(fault_at(text, owner, FaultKind::BadOwner(fault), message))
    })?;
    let Some(word) = rtype else { return Ok(UnsetRecords { owner: name, rtype: None, rdata: None }) };
    let unknown = || {
        let text_of = String::from_utf8_lossy(word.bytes);
        bad(fault_at(text, word, FaultKind::UnknownType, format!("unknown record type `{text_of}`")))
    };
    let rtype = Type::from_text(word.bytes).ok().filter(|rtype| !rtype.is_meta()).ok_or_else(unknown)?;
    Ok(UnsetRecords { owner: name, rtype: Some(rtype), rdata: None })
}

/// The record of a text, as it was scanned.
struct Scanned {
    record: SetRecord,
    warnings: Vec<Fault>,
}

/// Returns the record of a text with warnings, or the first error.
fn scan_one(text: &str, apex: Name<'_>, ttl: Option<Ttl>) -> Result<Scanned, Box<Fault>> {
    let limits = Limits { errors: 1, include_depth: 0, generated: 0, ..Limits::default() };
    let config = ScanConfig { default_ttl: ttl, limits, ..ScanConfig::new(apex) };
    let mut one = OneRecord::default();
    let report = scan::read(TextSource::bytes(SOURCE, text.as_bytes()), &config, &mut one);
    let mut faults = report.faults;
    if let Some(at) = faults.iter().position(|fault| fault.severity == Severity::Error) {
        return Err(Box::new(faults.swap_remove(at)));
    }
    let whole = Token { bytes: text.as_bytes(), quoted: false };
    let none = || {
        let message = "there is no record: OWNER [TTL] TYPE DATA".into();
        Box::new(fault_at(text, whole, FaultKind::MissingType, message))
    };
    one.0.map(|record| Scanned { record, warnings: faults }).ok_or_else(none)
}

/// Returns a fault at a word of a one-line text.
fn fault_at(text: &str, word: Token<'_>, kind: FaultKind, message: String) -> Fault {
    // `word.bytes` points into `text`.
    let at = (word.bytes.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize).min(text.len());
    let from = String::from_utf8_lossy(&text.as_bytes()[..at]).chars().count();
    let width = String::from_utf8_lossy(word.bytes).chars().count().max(1);
    let shown: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    Fault {
        kind,
        severity: Severity::Error,
        file: SOURCE.into(),
        line: 1,
        column: at as u32 + 1,
        message,
        note: None,
        excerpt: Some(Excerpt { text: shown, from, width }),
        about: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apex() -> NameBuf {
        "example.".parse().expect("a name")
    }

    fn set(text: &str) -> Result<String, String> {
        let RecordText { record, warnings } =
            set_record(text, apex().as_name()).map_err(|fault| fault.to_string())?;
        let SetRecord { owner, rtype, ttl, rdata } = record;
        let mut data = String::new();
        wire::rdata::write_text(rtype, &rdata, &mut data).expect("written");
        let ttl = ttl.map_or("-".into(), |ttl| ttl.to_string());
        Ok(format!("{owner} {ttl} {rtype} {data} {}", warnings.len()).trim_end().to_owned())
    }

    fn unset(text: &str) -> Result<String, String> {
        let unset = unset_records(text, apex().as_name()).map_err(|fault| fault.to_string());
        let UnsetRecords { owner, rtype, rdata } = unset?;
        Ok(format!("{owner} {} {}", rtype.map_or("-".into(), |rtype| rtype.to_string()), rdata.is_some()))
    }

    #[test]
    fn a_record_is_written_as_in_a_zone_file() {
        for (text, expected) in [
            ("www A 192.0.2.1", "www.example. - A 192.0.2.1 0"),
            ("www 300 IN A 192.0.2.1", "www.example. 300 A 192.0.2.1 0"),
            ("@ 1h MX 10 mail", "example. 3600 MX 10 mail.example. 0"),
            ("www.example. TXT \"a b\" c", "www.example. - TXT \"a b\" \"c\" 0"),
            ("www.example A 192.0.2.1", "www.example.example. - A 192.0.2.1 0"),
            ("@ SOA ns1 admin 1 2 3 4 5", "example. - SOA ns1.example. admin.example. 1 2 3 4 5 0"),
            ("@ 9 SOA ns1 admin 1 2 3 4 5", "example. 9 SOA ns1.example. admin.example. 1 2 3 4 5 0"),
        ] {
            assert_eq!(set(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_shown_with_its_column() {
        let fault = set("www 300 A 192.0.2.300").expect_err("no address");
        assert!(fault.starts_with("record:1:11: error: "), "{fault}");
        assert!(fault.ends_with("\n1 | www 300 A 192.0.2.300\n  |           ^^^^^^^^^^^"), "{fault}");
        for (text, message) in [
            ("www 300 AA 192.0.2.3", "unknown record type"),
            ("www", "error"),
            ("$INCLUDE /etc/passwd", "error"),
            ("$GENERATE 1-2 a$ A 192.0.2.1", "error"),
            ("$ORIGIN com.", "there is no record"),
            ("; nothing", "there is no record"),
            (" A 192.0.2.1", "error"),
            ("a A 192.0.2.1\nb A 192.0.2.1", "one record at a time"),
            ("www CH A 192.0.2.1", "error"),
        ] {
            let fault = set(text).expect_err(text);
            assert!(fault.contains(message) && fault.starts_with("record:"), "{text}: {fault}");
        }
    }

    #[test]
    fn what_goes_is_a_name_a_type_or_a_record() {
        assert_eq!(unset("www").as_deref(), Ok("www.example. - false"));
        assert_eq!(unset("@ mx").as_deref(), Ok("example. MX false"));
        assert_eq!(unset("www 300 A 192.0.2.1").as_deref(), Ok("www.example. A true"));
        assert_eq!(unset("www A 192.0.2.1").as_deref(), Ok("www.example. A true"));
        let fault = unset("www.example. AX").expect_err("no type");
        let expected =
            "record:1:14: error: unknown record type `AX`\n  |\n1 | www.example. AX\n  |              ^^";
        assert_eq!(fault, expected);
        assert!(unset("a..b").expect_err("no name").starts_with("record:1:1: error: not a domain name"));
        assert!(unset("www ANY").expect_err("no type").contains("ANY"));
        assert!(unset("").expect_err("nothing").starts_with("record:"));
    }
}
