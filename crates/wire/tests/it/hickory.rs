//! `hickory-proto` as oracle.

use hickory_proto::rr::{Name, RData, RecordType};
use hickory_proto::serialize::binary::{BinDecoder, BinEncodable, BinEncoder, NameEncoding, Restrict};
use hickory_proto::serialize::txt::Parser;
use proptest::test_runner::{Config, TestRunner};
use wire::Type;

use crate::{arbitrary, known_types, read, written};

fn octets_of(data: &RData) -> Result<Vec<u8>, String> {
    let mut octets = Vec::new();
    let mut encoder = BinEncoder::new(&mut octets);
    encoder.set_name_encoding(NameEncoding::Uncompressed);
    data.emit(&mut encoder).map_err(|error| error.to_string())?;
    Ok(octets)
}

fn from_text(t: Type, text: &str) -> Result<Vec<u8>, String> {
    let line = format!("owner.example. 3600 IN {t} {text}\n");
    let (_, sets) = Parser::new(line, None, Some(Name::root())).parse().map_err(|error| error.to_string())?;
    let set = sets.values().next().ok_or("no record")?;
    let record = set.records_without_rrsigs().next().ok_or("no record")?;
    octets_of(&record.data)
}

fn from_wire(t: Type, rdata: &[u8]) -> Result<(Vec<u8>, String), String> {
    let mut decoder = BinDecoder::new(rdata);
    let data = RData::read(&mut decoder, RecordType::from(t.0), Restrict::new(rdata.len() as u16))
        .map_err(|e| e.to_string())?;
    Ok((octets_of(&data)?, data.to_string()))
}

#[test]
fn explore() {
    use proptest::test_runner::TestCaseError as E;
    for t in known_types() {
        for what in 0..3 {
            let mut runner =
                TestRunner::new(Config { cases: 60, failure_persistence: None, ..Config::default() });
            let result = runner.run(&arbitrary::rdata(t), |rdata| {
                let text = written(t, &rdata);
                if text.starts_with("\\#") {
                    return Ok(());
                }
                let (o, their) = from_wire(t, &rdata).map_err(E::fail)?;
                match what {
                    0 => {
                        if o != rdata {
                            return Err(E::fail(format!("wire {o:?} {rdata:?}")));
                        }
                    }
                    1 => {
                        let o = from_text(t, &text).map_err(|e| E::fail(format!("text {text}: {e}")))?;
                        if o != rdata {
                            return Err(E::fail(format!("text {text}: {o:?} {rdata:?}")));
                        }
                    }
                    _ => {
                        let o = read(t, &their);
                        if o.as_deref() != Ok(&rdata) {
                            return Err(E::fail(format!("their {their}: {o:?} {rdata:?}")));
                        }
                    }
                }
                Ok(())
            });
            match result {
                Ok(()) => println!("HOK {t} {what}"),
                Err(e) => println!("HBAD {t} {what}: {e}"),
            }
        }
    }
}
