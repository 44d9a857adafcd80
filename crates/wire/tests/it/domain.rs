//! The `domain` crate as oracle: it reads our text to the same octets, and we read its text.

use domain::base::rdata::ComposeRecordData;
use domain::base::zonefile_fmt::{DisplayKind, ZonefileFmt};
use domain::zonefile::inplace::{Entry, Zonefile};
use proptest::test_runner::{Config, TestRunner};
use wire::Type;

use crate::{arbitrary, known_types, read, written};

/// What `domain` makes of one record: its octets and its text.
fn theirs(t: Type, text: &str) -> Result<(Vec<u8>, String), String> {
    let line = format!("owner.example. 3600 IN {t} {text}\n");
    let entry =
        Zonefile::from(line.as_str()).allow_invalid().next_entry().map_err(|error| error.to_string())?;
    let Some(Entry::Record(record)) = entry else { return Err("no record".into()) };
    let mut octets = Vec::new();
    record.data().compose_rdata(&mut octets).map_err(|error| error.to_string())?;
    Ok((octets, record.data().display_zonefile(DisplayKind::Simple).to_string()))
}

#[test]
fn explore() {
    for t in known_types() {
        let mut runner =
            TestRunner::new(Config { cases: 60, failure_persistence: None, ..Config::default() });
        let result = runner.run(&arbitrary::rdata(t), |rdata| {
            let text = written(t, &rdata);
            if text.starts_with("\\#") {
                return Ok(());
            }
            let (octets, their) = theirs(t, &text)
                .map_err(|e| proptest::test_runner::TestCaseError::fail(format!("{text}: {e}")))?;
            if octets != rdata {
                return Err(proptest::test_runner::TestCaseError::fail(format!(
                    "octets {text}: {octets:?} {rdata:?}"
                )));
            }
            match read(t, &their) {
                Ok(back) if back == rdata => Ok(()),
                other => Err(proptest::test_runner::TestCaseError::fail(format!(
                    "back {their}: {other:?} {rdata:?}"
                ))),
            }
        });
        match result {
            Ok(()) => println!("OK {t}"),
            Err(e) => println!("BAD {t}: {e}"),
        }
    }
}
