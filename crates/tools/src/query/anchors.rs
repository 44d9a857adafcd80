//! The trust anchors of `nomen query --chase`: DS and DNSKEY records in zone file syntax.

use std::fmt;

use validator::TrustAnchors;
use wire::{Name, Ttl, Type};
use zone::scan::{self, FaultKind, Record, Rejection, ScanConfig, Severity, Sink, TextSource};

use crate::args::QueryArgs;
use config::exit_status::{EXIT_OUTSIDE, EXIT_USAGE};

/// The source name of command-line anchors in faults.
const ARGUMENT: &str = "--anchor";

/// Why there are no anchors: the fault as text.
#[derive(Debug, PartialEq, Eq)]
pub enum AnchorsFault {
    /// A file cannot be read.
    Unreadable(String),
    /// The text has a record that is not an anchor, or none at all.
    Text(String),
}

impl AnchorsFault {
    /// The program's exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Unreadable(_) => EXIT_OUTSIDE,
            Self::Text(_) => EXIT_USAGE,
        }
    }
}

impl fmt::Display for AnchorsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(text) | Self::Text(text) => f.write_str(text),
        }
    }
}
impl std::error::Error for AnchorsFault {}

/// Adds the records of a text to the anchors.
struct Collector<'a>(&'a mut TrustAnchors);

impl Sink for Collector<'_> {
    fn record(&mut self, record: &Record<'_>) -> Result<(), Rejection> {
        let added = match record.rtype {
            Type::DS => self.0.add_ds(record.owner, record.rdata),
            Type::DNSKEY => self.0.add_dnskey(record.owner, record.rdata),
            other => {
                return Err(Rejection::error(format!("{other} is no trust anchor: write a DS or a DNSKEY")));
            }
        };
        added.map_err(|fault| Rejection::error(fault.to_string()))
    }
}

/// Returns the anchors of the command line, or the built-in ones of the root if it has none.
///
/// # Errors
/// [`AnchorsFault`] of the first text with a fault.
pub fn read(args: &QueryArgs) -> Result<TrustAnchors, AnchorsFault> {
    if args.anchor.is_empty() && args.anchor_file.is_none() {
        return Ok(TrustAnchors::root());
    }
    let mut anchors = TrustAnchors::none();
    for text in &args.anchor {
        collect(TextSource::bytes(ARGUMENT, text.as_bytes()), ARGUMENT, &mut anchors)?;
    }
    if let Some(path) = &args.anchor_file {
        collect(TextSource::any_file(path), &path.display().to_string(), &mut anchors)?;
    }
    Ok(anchors)
}

fn collect(source: TextSource<'_>, name: &str, anchors: &mut TrustAnchors) -> Result<(), AnchorsFault> {
    let config = ScanConfig { default_ttl: Some(Ttl::ZERO), ..ScanConfig::new(Name::ROOT) };
    let report = scan::read(source, &config, &mut Collector(anchors));
    match report.faults.iter().find(|fault| fault.severity == Severity::Error) {
        Some(fault) if fault.kind == FaultKind::CannotRead => {
            Err(AnchorsFault::Unreadable(fault.to_string()))
        }
        Some(fault) => Err(AnchorsFault::Text(fault.pretty().to_string())),
        None if report.records == 0 => Err(AnchorsFault::Text(format!("{name} has no trust anchor"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DS: &str = ". DS 20326 8 2 E06D44B80B8F1D39A95C0B0D7C65D08458E880409BBC683457104237C7F8EC8D";

    fn of(anchor: &[&str]) -> Result<TrustAnchors, AnchorsFault> {
        read(&QueryArgs {
            anchor: anchor.iter().map(|text| (*text).to_owned()).collect(),
            ..QueryArgs::default()
        })
    }

    #[test]
    fn those_of_the_command_line_take_the_place_of_the_built_in_ones() {
        assert_eq!(of(&[]), Ok(TrustAnchors::root()));
        let own = of(&[DS]).expect("an anchor");
        assert_eq!(own.ds(Name::ROOT).map(|all| all.len()), Some(1));
    }

    #[test]
    fn what_is_no_anchor_is_shown() {
        for (text, words) in [
            (". A 192.0.2.1", "A is no trust anchor"),
            (". DS 1 16 2 00", "not supported"),
            (". DS 1 8", "--anchor:1:9: error: DS record"),
            ("; nothing", "--anchor has no trust anchor"),
        ] {
            let fault = of(&[text]).expect_err(text);
            assert!(matches!(&fault, AnchorsFault::Text(said) if said.contains(words)), "{text}: {fault}");
        }
        let gone = QueryArgs { anchor_file: Some("/nowhere/anchors".into()), ..QueryArgs::default() };
        assert!(matches!(read(&gone), Err(AnchorsFault::Unreadable(_))));
    }
}
