//! Times, records and outcomes in the notation of scenarios.

use std::time::Duration;

use resolver::LookupOutcome;
use wire::message::Parser;
use wire::{Type, rdata};

/// `20ms`, `3s`, `5m` or `2h`.
pub(crate) fn duration(text: &str) -> Duration {
    let of = |unit: &str| text.strip_suffix(unit).map(|number| number.parse::<u64>().expect("a number"));
    let seconds = || of("s").or(of("m").map(|minutes| minutes * 60)).or(of("h").map(|hours| hours * 3600));
    match text.ends_with("ms") {
        true => Duration::from_millis(of("ms").expect("a number")),
        false => Duration::from_secs(seconds().expect("a unit")),
    }
}

/// RDATA of a record, uncompressed.
pub(crate) fn wire_form(rtype: Type, text: &str) -> Vec<u8> {
    let tokens: Vec<_> =
        text.split(' ').map(|word| wire::text::Token { bytes: word.as_bytes(), quoted: false }).collect();
    let mut data = Vec::new();
    rdata::parse_text(rtype, &tokens, None, &mut data).unwrap_or_else(|e| panic!("{text}: {e}"));
    data
}

/// An outcome in the notation of scenarios.
pub(crate) fn show(outcome: &LookupOutcome) -> String {
    let answer = match outcome {
        LookupOutcome::Answered(answer) => answer,
        LookupOutcome::Failed(failure) => return format!("{failure:?}"),
    };
    let (header, mut parser) = Parser::new(&answer.message).expect("a header");
    assert!(header.is_response() && header.recursion_available() && header.id() == 0);
    assert!(!header.truncated() && header.rcode().0 == answer.rcode.0 & 0xf);
    assert_eq!(header.authentic_data(), answer.authentic);
    parser.question().expect("a question");
    let mut head = String::new();
    assert!(!header.authoritative());
    if answer.authentic {
        head += "ad ";
    }
    if answer.authoritative {
        head += "aa ";
    }
    if let Some(ttl) = answer.negative_ttl {
        head += &format!("negative={ttl} ");
    }
    if let Some(name) = &answer.leads_to {
        head += &format!("leads-to={name} ");
    }
    let mut records = Vec::new();
    for (count, section) in header.counts()[1..].iter().zip(["", "auth ", "add "]) {
        for _ in 0..*count {
            let record = parser.record().expect("a record");
            let mut data = Vec::new();
            parser.expand_rdata(&record, &mut data).expect("data");
            let owner = parser.name_at(record.owner_at).expect("a name");
            let mut text = String::new();
            rdata::write_text(record.rtype, &data, &mut text).expect("text");
            records.push(format!("{section}{owner} {} {} {text}", record.ttl(), record.rtype));
        }
    }
    assert!(parser.at_end(), "nothing follows");
    let colon = if records.is_empty() { "" } else { ": " };
    format!("{head}{}{colon}{}", answer.rcode, records.join("; "))
}
