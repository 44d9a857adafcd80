//! A response decoded for comparison by the `domain` crate, independently of the server's own wire code.
//! Names are in lower case and RDATA in canonical form, so only significant differences remain.

use crate::name::Name;
use crate::query::rtype;
use domain::base::iana::Rtype;
use domain::base::name::ToLabelIter;
use domain::base::rdata::ComposeRecordData;
use domain::base::record::ParsedRecord;
use domain::base::{Message, ParsedName};
use domain::rdata::AllRecordData;
use std::collections::BTreeSet;

/// One record in comparable form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Record {
    /// Owner, lower case.
    pub owner: Name,
    /// TYPE.
    pub rtype: u16,
    /// CLASS.
    pub class: u16,
    /// TTL in seconds.
    pub ttl: u32,
    /// Uncompressed RDATA with names in lower case; raw bytes when it cannot be parsed.
    pub rdata: Vec<u8>,
}

impl Record {
    /// Returns the type that an RRSIG covers.
    pub(crate) fn covers(&self) -> Option<u16> {
        (self.rtype == rtype::RRSIG).then_some(())?;
        Some(u16::from_be_bytes([*self.rdata.first()?, *self.rdata.get(1)?]))
    }

    /// Whether this is a record of type `wanted` or a signature over one.
    pub(crate) fn is_or_covers(&self, wanted: u16) -> bool {
        self.rtype == wanted || self.covers() == Some(wanted)
    }
}

/// The comparable parts of a response's OPT record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OptRecord {
    /// Responder's UDP payload size, in bytes.
    pub size: u16,
    /// EDNS version.
    pub version: u8,
    /// DO bit.
    pub dnssec_ok: bool,
    /// The other flag bits, which must be zero.
    pub z: u16,
    /// Option codes, in order.
    pub codes: Vec<u16>,
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// RCODE with its EDNS upper bits.
    pub rcode: u16,
    /// OPCODE.
    pub opcode: u8,
    /// Header bits as in bytes 2 and 3 of the message, RCODE and OPCODE cleared.
    pub flags: u16,
    /// The questions: QNAME, QTYPE and QCLASS.
    pub question: Vec<(Name, u16, u16)>,
    /// Answer, authority and additional section, without OPT.
    pub sections: [BTreeSet<Record>; 3],
    /// Number of records that occur twice in one section.
    pub duplicates: usize,
    /// The OPT record.
    pub opt: Option<OptRecord>,
    /// Size of the message in bytes.
    pub len: usize,
}

/// Header bits in `Answer::flags`.
pub(crate) mod flag {
    #![allow(missing_docs)]
    pub(crate) const QR: u16 = 0x8000;
    pub(crate) const AA: u16 = 0x0400;
    pub(crate) const TC: u16 = 0x0200;
    pub(crate) const RD: u16 = 0x0100;
    pub(crate) const RA: u16 = 0x0080;
    pub(crate) const Z: u16 = 0x0040;
    pub(crate) const AD: u16 = 0x0020;
    pub(crate) const CD: u16 = 0x0010;
}

impl Answer {
    /// Decodes a response. The error says what is malformed.
    pub(crate) fn parse(wire: &[u8]) -> Result<Self, String> {
        let message = Message::from_octets(wire).map_err(|_| "shorter than a header".to_owned())?;
        let word = u16::from_be_bytes([wire[2], wire[3]]);
        let mut answer = Self {
            rcode: word & 15,
            opcode: ((word >> 11) & 15) as u8,
            flags: word & 0x87f0,
            question: Vec::new(),
            sections: Default::default(),
            duplicates: 0,
            opt: None,
            len: wire.len(),
        };
        for question in message.question() {
            let question = question.map_err(|e| format!("question: {e}"))?;
            let name = own_name(question.qname());
            answer.question.push((name, question.qtype().to_int(), question.qclass().to_int()));
        }
        let mut section = Some(message.answer().map_err(|e| format!("answer section: {e}"))?);
        let mut end = 0;
        for index in 0..3 {
            let Some(mut records) = section.take() else { break };
            for record in records.by_ref() {
                let record = record.map_err(|e| format!("section {index}: {e}"))?;
                if record.rtype() == Rtype::OPT {
                    answer.take_opt(&record, index)?;
                } else if !answer.sections[index].insert(own_record(&record)) {
                    answer.duplicates += 1;
                }
            }
            end = records.pos();
            section = records.next_section().map_err(|e| format!("after section {index}: {e}"))?;
        }
        if end != wire.len() {
            return Err(format!("{} bytes after the last record", wire.len().saturating_sub(end)));
        }
        Ok(answer)
    }

    /// Whether header bit `bit` is set.
    pub(crate) fn has(&self, bit: u16) -> bool {
        self.flags & bit != 0
    }

    fn take_opt(&mut self, record: &ParsedRecord<'_, &[u8]>, section: usize) -> Result<(), String> {
        if section != 2 || self.opt.is_some() {
            return Err("OPT outside the additional section, or twice".to_owned());
        }
        if !own_name(&record.owner()).0.is_empty() {
            return Err("OPT not at the root".to_owned());
        }
        let ttl = record.ttl().as_secs();
        self.rcode |= ((ttl >> 24) as u16) << 4;
        let opt = record
            .to_record::<domain::base::opt::Opt<_>>()
            .map_err(|e| format!("OPT: {e}"))?
            .ok_or_else(|| "OPT does not parse".to_owned())?;
        let mut codes = Vec::new();
        for option in opt.data().iter::<domain::base::opt::UnknownOptData<_>>() {
            codes.push(option.map_err(|e| format!("EDNS option: {e}"))?.code().to_int());
        }
        self.opt = Some(OptRecord {
            size: record.class().to_int(),
            version: (ttl >> 16) as u8,
            dnssec_ok: ttl & 0x8000 != 0,
            z: (ttl & 0x7fff) as u16,
            codes,
        });
        Ok(())
    }
}

fn own_name<O: domain::dep::octseq::Octets>(name: &ParsedName<O>) -> Name {
    Name(name.iter_labels().filter(|l| !l.is_root()).map(|l| l.as_slice().to_vec()).collect())
}

fn own_record(record: &ParsedRecord<'_, &[u8]>) -> Record {
    let rtype = record.rtype().to_int();
    let mut rdata = Vec::new();
    match record.to_any_record::<AllRecordData<_, ParsedName<_>>>() {
        Ok(parsed) => {
            let _ = parsed.data().compose_canonical_rdata(&mut rdata);
        }
        Err(_) => rdata = b"unparsable".to_vec(),
    }
    lower_names(rtype, &mut rdata);
    Record {
        owner: own_name(&record.owner()).lower(),
        rtype,
        class: record.class().to_int(),
        ttl: record.ttl().as_secs(),
        rdata,
    }
}

/// Lowers the case of names in types whose canonical form keeps it (RFC 6840, section 5.1) or that `domain`
/// keeps as plain bytes: servers may or may not keep the zone file's letter case.
fn lower_names(rtype: u16, rdata: &mut [u8]) {
    let offset = match rtype {
        rtype::NSEC | 17 => 0,
        18 | 21 | 36 | rtype::SVCB | rtype::HTTPS | 107 | 26 => 2,
        rtype::RRSIG => 18,
        _ => return,
    };
    let Some(tail) = rdata.get_mut(offset..) else { return };
    let names = if matches!(rtype, 17 | 26) { 2 } else { 1 };
    let mut at = 0;
    for _ in 0..names {
        let Some((_, len)) = tail.get(at..).and_then(Name::from_wire) else { return };
        tail[at..at + len].make_ascii_lowercase();
        at += len;
    }
}

/// Returns a response as text, similar to dig's output.
pub(crate) fn render(wire: &[u8]) -> String {
    match Answer::parse(wire) {
        Err(error) => format!("    malformed: {error}: {wire:02x?}\n"),
        Ok(answer) => {
            let mut out = format!("    {}", answer.header_line());
            let Ok(message) = Message::from_octets(wire) else { return out };
            let mut last = None;
            for (record, section) in message.iter().flatten() {
                if record.rtype() == Rtype::OPT {
                    continue;
                }
                if last != Some(section) {
                    out += &format!("    -- {section:?}\n");
                    last = Some(section);
                }
                match record.to_any_record::<AllRecordData<_, ParsedName<_>>>() {
                    Ok(parsed) => {
                        let data = parsed.data();
                        let owner = own_name(&record.owner());
                        out +=
                            &format!("       {owner} {} {} {data}\n", record.ttl().as_secs(), record.rtype());
                    }
                    Err(_) => {
                        out +=
                            &format!("       {} {} unparsable\n", own_name(&record.owner()), record.rtype())
                    }
                }
            }
            out
        }
    }
}

impl Answer {
    fn header_line(&self) -> String {
        let names = [
            (flag::QR, "qr"),
            (flag::AA, "aa"),
            (flag::TC, "tc"),
            (flag::RD, "rd"),
            (flag::RA, "ra"),
            (flag::Z, "z"),
            (flag::AD, "ad"),
            (flag::CD, "cd"),
        ];
        let set: Vec<_> = names.iter().filter(|(bit, _)| self.has(*bit)).map(|(_, n)| *n).collect();
        let opt = match &self.opt {
            None => "no EDNS".to_owned(),
            Some(o) => {
                format!("EDNS v{} size {} do {} options {:?}", o.version, o.size, o.dnssec_ok, o.codes)
            }
        };
        let duplicates = if self.duplicates > 0 {
            format!(", {} duplicate records", self.duplicates)
        } else {
            String::new()
        };
        format!(
            "rcode {} opcode {} flags {}, {} bytes, {}, {} question(s){}\n",
            self.rcode,
            self.opcode,
            set.join(" "),
            self.len,
            opt,
            self.question.len(),
            duplicates
        )
    }
}
