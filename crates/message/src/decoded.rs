//! A decoded message: its records, flags and EDNS options as text.

use wire::edns::{Edns, ErrorInfo, OptionCode};
use wire::message::{Header, Malformed, Parser, RawRecord};
use wire::{Class, Name, NameBuf, Rcode, Ttl, Type, rdata};

use crate::lines;

/// A record as text.
pub(crate) struct ShownRecord {
    pub(crate) owner: String,
    pub(crate) ttl: Ttl,
    pub(crate) class: Class,
    pub(crate) rtype: Type,
    /// The data as text.
    pub(crate) rdata: String,
    /// The data in uncompressed wire form.
    pub(crate) data: Vec<u8>,
}

/// A question as text.
pub(crate) struct ShownQuestion {
    pub(crate) name: String,
    pub(crate) class: String,
    pub(crate) qtype: Type,
}

/// A decoded message.
pub(crate) struct DecodedMessage<'m> {
    pub(crate) header: Header,
    pub(crate) questions: Vec<ShownQuestion>,
    /// The name of the first question.
    qname: Option<NameBuf>,
    pub(crate) sections: [Vec<ShownRecord>; 3],
    pub(crate) opt: Option<Edns<'m>>,
}

impl<'m> DecodedMessage<'m> {
    pub(crate) fn of(message: &'m [u8]) -> Result<Self, Malformed> {
        let (header, mut parser) = Parser::new(message)?;
        let counts = header.counts();
        let (questions, sections) = (Vec::new(), Default::default());
        let mut parts = Self { header, questions, qname: None, sections, opt: None };
        for _ in 0..counts[0] {
            let q = parser.question()?;
            parts.qname = parts.qname.or(Some(q.name.to_buf()));
            let (name, class) = (q.name.to_string(), q.qclass.to_string());
            parts.questions.push(ShownQuestion { name, class, qtype: q.qtype });
        }
        for (section, count) in parts.sections.iter_mut().zip(&counts[1..]) {
            for _ in 0..*count {
                let record = parser.record()?;
                if record.rtype == Type::OPT {
                    parts.opt = Some(Edns::parse(message, &record)?);
                } else {
                    section.push(show(&mut parser, &record)?);
                }
            }
        }
        Ok(parts)
    }

    /// Returns an EDNS option as text.
    pub(crate) fn option_text(&self, code: OptionCode, data: &[u8]) -> String {
        match (code, data) {
            // SOA-SERIAL (RFC 9660 §2.1). The zone is the ancestor of the query name that has this many
            // labels.
            (OptionCode::ZONEVERSION, [labels, 0, a, b, c, d]) => {
                let serial = u32::from_be_bytes([*a, *b, *c, *d]);
                let mut ends = self.qname.iter().flat_map(|name| name.as_name().ancestors());
                let zone = ends.find(|end| end.label_count() == usize::from(*labels));
                let zone = zone.map_or(format!("of {labels} labels"), |zone| zone.to_string());
                format!("ZONEVERSION: SOA-SERIAL: {serial} (zone {zone})")
            }
            _ => option_text(code, data),
        }
    }

    pub(crate) fn rcode(&self) -> Rcode {
        let high = self.opt.map_or(0, |opt| u16::from(opt.extended_rcode));
        Rcode(high << 4 | self.header.rcode().0)
    }
}

fn show(parser: &mut Parser<'_>, record: &RawRecord) -> Result<ShownRecord, Malformed> {
    let (mut data, mut text) = (Vec::new(), String::new());
    parser.expand_rdata(record, &mut data)?;
    // Writing to a String cannot fail, here and below.
    let _ = rdata::write_text(record.rtype, &data, &mut text);
    Ok(ShownRecord {
        owner: parser.name_at(record.owner_at)?.to_string(),
        ttl: record.ttl(),
        class: record.class,
        rtype: record.rtype,
        rdata: text,
        data,
    })
}

/// Returns the flags that are set, each after a space.
pub(crate) fn flag_words(header: &Header) -> String {
    let flags = [
        ("qr", header.is_response()),
        ("aa", header.authoritative()),
        ("tc", header.truncated()),
        ("rd", header.recursion_desired()),
        ("ra", header.recursion_available()),
        ("ad", header.authentic_data()),
        ("cd", header.checking_disabled()),
    ];
    flags.iter().filter(|(_, on)| *on).map(|(word, _)| format!(" {word}")).collect()
}

/// Returns the flags of OPT that are set, each after a space.
pub(crate) fn edns_flags(opt: &Edns<'_>) -> String {
    let flags = [("do", opt.dnssec_ok), ("co", opt.compact_ok)];
    flags.iter().filter(|(_, on)| *on).map(|(word, _)| format!(" {word}")).collect()
}

/// Returns bytes as hexadecimal digits.
pub(crate) fn hex(data: &[u8]) -> String {
    data.iter().map(|b| format!("{b:02x}")).collect()
}

fn printable(data: &[u8]) -> String {
    data.iter().map(|&b| if (0x20..0x7f).contains(&b) { char::from(b) } else { '.' }).collect()
}

fn option_text(code: OptionCode, data: &[u8]) -> String {
    match (code, data) {
        (OptionCode::NSID, _) => format!("NSID: {} (\"{}\")", hex(data), printable(data)),
        (OptionCode::COOKIE, _) => format!("COOKIE: {}", hex(data)),
        (OptionCode::KEEPALIVE, [a, b]) => {
            let tenths = u16::from_be_bytes([*a, *b]);
            format!("TCP KEEPALIVE: {}.{} secs", tenths / 10, tenths % 10)
        }
        (OptionCode::KEEPALIVE, _) => "TCP KEEPALIVE".into(),
        (OptionCode::EXPIRE, [a, b, c, d]) => {
            let seconds = u32::from_be_bytes([*a, *b, *c, *d]);
            format!("EXPIRE: {seconds} ({})", lines::time(seconds.into()))
        }
        (OptionCode::EXPIRE, []) => "EXPIRE".into(),
        (OptionCode::ZONEVERSION, []) => "ZONEVERSION".into(),
        (OptionCode::REPORT_CHANNEL, name) if Name::from_wire(name).is_ok() => {
            format!("REPORT-CHANNEL: {}", Name::of_checked(name))
        }
        (OptionCode::PADDING, _) => format!("PADDING: {} bytes", data.len()),
        (OptionCode::EXTENDED_ERROR, [a, b, text @ ..]) => {
            let info = ErrorInfo(u16::from_be_bytes([*a, *b]));
            let text = String::from_utf8_lossy(text);
            let clean: String = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
            let clean = if clean.is_empty() { clean } else { format!(": {clean}") };
            format!("EDE: {} ({}){clean}", info.0, info.name())
        }
        _ => format!("OPT={}: {}", code.0, hex(data)),
    }
}
