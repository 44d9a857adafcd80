//! Messages as text: in the form of dig, short, or as JSON after RFC 8427.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use wire::edns::OptionCode;
use wire::message::Malformed;
use wire::{Rcode, Type};

use crate::decoded::{DecodedMessage, ShownQuestion, ShownRecord, edns_flags, flag_words, hex};
use crate::style::{self, Style};

/// Returns the response code, with the bits that EDNS adds.
///
/// # Errors
/// If the message cannot be parsed.
pub fn rcode(message: &[u8]) -> Result<Rcode, Malformed> {
    DecodedMessage::of(message).map(|parts| parts.rcode())
}

/// The parts of a message that are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageParts {
    /// Header, OPT and the titles of sections.
    pub comments: bool,
    /// The question.
    pub question: bool,
    /// Answer, authority, additional.
    pub sections: [bool; 3],
    /// Server, time and size of the response.
    pub stats: bool,
    /// The form of records.
    pub style: Style,
}

impl MessageParts {
    /// Everything.
    pub const ALL: Self =
        Self { comments: true, question: true, sections: [true; 3], stats: true, style: Style::PLAIN };
    /// Nothing.
    pub const NONE: Self =
        Self { comments: false, question: false, sections: [false; 3], stats: false, style: Style::PLAIN };
}

/// Returns every section of a message, in the form of dig.
///
/// # Errors
/// If the message cannot be parsed.
pub fn full(message: &[u8]) -> Result<String, Malformed> {
    chosen(message, MessageParts::ALL)
}

/// Returns some parts of a message, in the form of dig.
///
/// # Errors
/// If the message cannot be parsed.
pub fn chosen(message: &[u8], shown: MessageParts) -> Result<String, Malformed> {
    let parts = DecodedMessage::of(message)?;
    let mut out = if shown.comments { comments(&parts) } else { String::new() };
    if !parts.questions.is_empty() && shown.question && shown.comments {
        out += "\n;; QUESTION SECTION:\n";
    }
    for ShownQuestion { name, class, qtype } in parts.questions.iter().filter(|_| shown.question) {
        let _ = writeln!(out, ";{name}\t\t{class}\t{qtype}");
    }
    let titles = ["ANSWER", "AUTHORITY", "ADDITIONAL"];
    for ((title, section), shows) in titles.iter().zip(&parts.sections).zip(shown.sections) {
        if !section.is_empty() && shows && shown.comments {
            let _ = writeln!(out, "\n;; {title} SECTION:");
        }
        section.iter().filter(|_| shows).for_each(|record| out += &style::line(record, &shown.style));
    }
    Ok(out)
}

/// Returns the header and OPT.
fn comments(parts: &DecodedMessage<'_>) -> String {
    let header = &parts.header;
    let [qd, an, ns, ar] = header.counts();
    let mut out = format!(
        ";; ->>HEADER<<- opcode: {}, status: {}, id: {}\n\
         ;; flags:{}; QUERY: {qd}, ANSWER: {an}, AUTHORITY: {ns}, ADDITIONAL: {ar}\n",
        header.opcode(),
        parts.rcode(),
        header.id(),
        flag_words(header),
    );
    if let Some(opt) = &parts.opt {
        let flags = edns_flags(opt);
        let _ = write!(
            out,
            "\n;; OPT PSEUDOSECTION:\n; EDNS: version: {}, flags:{flags}; udp: {}\n",
            opt.version, opt.udp_size
        );
        for (code, data) in opt.options {
            let _ = writeln!(out, "; {}", parts.option_text(code, data));
        }
    }
    out
}

/// Returns the records of the answer section as text.
///
/// # Errors
/// If the message cannot be parsed.
pub fn answers(message: &[u8], shown: MessageParts) -> Result<String, Malformed> {
    Ok(DecodedMessage::of(message)?.sections[0]
        .iter()
        .map(|record| style::line(record, &shown.style))
        .collect())
}

/// Returns the response code with the extended errors of the server, if it sent any (RFC 8914).
///
/// # Errors
/// If the message cannot be parsed.
pub fn refusal(message: &[u8]) -> Result<String, Malformed> {
    let parts = DecodedMessage::of(message)?;
    let mut out = parts.rcode().to_string();
    for (code, data) in parts.opt.iter().flat_map(|opt| opt.options) {
        if code == OptionCode::EXTENDED_ERROR {
            let _ = write!(out, ", {}", parts.option_text(code, data));
        }
    }
    Ok(out)
}

/// Returns the records of all sections, one per line, with TTLs reduced by `age` seconds.
///
/// # Errors
/// If the message cannot be parsed.
pub fn records(message: &[u8], age: u32) -> Result<String, Malformed> {
    let mut out = String::new();
    for record in DecodedMessage::of(message)?.sections.iter().flatten() {
        let ShownRecord { owner, ttl, class, rtype, rdata, .. } = record;
        let left = ttl.as_secs().saturating_sub(age);
        let _ = writeln!(out, "{owner} {left} {class} {rtype} {rdata}");
    }
    Ok(out)
}

/// Returns the data of the records in the answer section.
///
/// # Errors
/// If the message cannot be parsed.
pub fn short(message: &[u8], style: &Style) -> Result<Vec<String>, Malformed> {
    let parts = DecodedMessage::of(message)?;
    Ok(parts.sections[0].iter().map(|record| style::data(record, style)).collect())
}

/// Returns the data of the answer section without RRSIG records, unless the query is for them.
///
/// # Errors
/// If the message cannot be parsed.
pub fn short_unsigned(message: &[u8]) -> Result<String, Malformed> {
    let parts = DecodedMessage::of(message)?;
    let asked = parts.questions.iter().any(|question| question.qtype == Type::RRSIG);
    let shown = parts.sections[0].iter().filter(|record| asked || record.rtype != Type::RRSIG);
    Ok(shown.map(|record| format!("{}\n", record.rdata)).collect())
}

/// Returns a message as JSON, after RFC 8427.
///
/// # Errors
/// If the message cannot be parsed.
pub fn json(message: &[u8]) -> Result<Value, Malformed> {
    let parts = DecodedMessage::of(message)?;
    let header = &parts.header;
    let record = |r: &ShownRecord| {
        let mut one = Map::new();
        one.insert("NAME".into(), r.owner.clone().into());
        one.insert("TYPE".into(), r.rtype.0.into());
        one.insert("TYPEname".into(), r.rtype.to_string().into());
        one.insert("CLASSname".into(), r.class.to_string().into());
        one.insert("TTL".into(), r.ttl.as_secs().into());
        one.insert(format!("rdata{}", r.rtype), r.rdata.clone().into());
        Value::Object(one)
    };
    let section = |records: &[ShownRecord]| records.iter().map(record).collect::<Vec<_>>();
    let question = parts.questions.first();
    let edns = parts.opt.as_ref().map(|opt| {
        let options: Vec<Value> = opt
            .options
            .map(|(code, data)| json!({"code": code.0, "hex": hex(data), "text": parts.option_text(code, data)}))
            .collect();
        json!({"version": opt.version, "udp": opt.udp_size, "DO": u8::from(opt.dnssec_ok), "options": options})
    });
    Ok(json!({
        "ID": header.id(),
        "QR": u8::from(header.is_response()),
        "Opcode": header.opcode().0,
        "AA": u8::from(header.authoritative()),
        "TC": u8::from(header.truncated()),
        "RD": u8::from(header.recursion_desired()),
        "RA": u8::from(header.recursion_available()),
        "AD": u8::from(header.authentic_data()),
        "CD": u8::from(header.checking_disabled()),
        "RCODE": parts.rcode().0,
        "RCODEname": parts.rcode().to_string(),
        "QNAME": question.map(|q| q.name.clone()),
        "QCLASSname": question.map(|q| q.class.clone()),
        "QTYPE": question.map(|q| q.qtype.0),
        "QTYPEname": question.map(|q| q.qtype.to_string()),
        "EDNS": edns,
        "answerRRs": section(&parts.sections[0]),
        "authorityRRs": section(&parts.sections[1]),
        "additionalRRs": section(&parts.sections[2]),
        "bytes": message.len(),
    }))
}
