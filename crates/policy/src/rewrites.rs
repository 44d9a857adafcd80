//! Rules of lists that give an answer of their own: `$dnsrewrite` of AdGuard's syntax.
//!
//! | form | answer |
//! |---|---|
//! | `NXDOMAIN`, `REFUSED`, `SERVFAIL`, `NOERROR`; `RCODE;;` | this response code, without records |
//! | an address | A or AAAA |
//! | a name | CNAME |
//! | `NOERROR;TYPE;VALUE` | this record: A, AAAA, CNAME, HTTPS, MX, PTR, SRV, SVCB or TXT |
//!
//! All records for one query are one answer. A response code comes before an alias, and that before other
//! records.

use std::fmt;
use std::net::IpAddr;

use wire::rdata::parse_text;
use wire::text::Token;
use wire::{Name, NameBuf, Rcode, Ttl, Type};

use crate::local_data::{DataId, LocalDataTable, PolicyRecord, Rewriting};
use crate::rule::SourceId;

/// Most rules whose records are one answer.
pub const MAX_REWRITES: usize = 16;

/// The value of `$dnsrewrite`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RewriteText {
    /// None: of an exception, all values.
    All,
    Code(Rcode),
    Record(Type, Vec<u8>),
}

/// Why a value of `$dnsrewrite` cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RewriteFault {
    /// There is no such response code.
    Rcode(String),
    /// Records of this type are not possible.
    Type(String),
    /// The value is not one of its type.
    Value(String),
    /// A rule that is no exception has no value.
    NoValue,
    /// `$badfilter` cannot disable such a rule.
    Badfilter,
}

impl fmt::Display for RewriteFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("$dnsrewrite: ")?;
        match self {
            Self::Rcode(text) => write!(f, "{text:?} is not a response code"),
            Self::Type(text) => write!(f, "{text:?} is not a type that it can have"),
            Self::Value(text) => write!(f, "{text:?} is not a value of its type"),
            Self::NoValue => f.write_str("it has no value"),
            Self::Badfilter => f.write_str("$badfilter cannot disable it"),
        }
    }
}

/// Response codes that a value can have alone.
const WORDS: [(&[u8], Rcode); 4] = [
    (b"NOERROR", Rcode::NOERROR),
    (b"NXDOMAIN", Rcode::NXDOMAIN),
    (b"REFUSED", Rcode::REFUSED),
    (b"SERVFAIL", Rcode::SERVFAIL),
];

/// Types of records that a value can have.
const TYPES: [(&[u8], Type); 9] = [
    (b"A", Type::A),
    (b"AAAA", Type::AAAA),
    (b"CNAME", Type::CNAME),
    (b"HTTPS", Type::HTTPS),
    (b"MX", Type::MX),
    (b"PTR", Type::PTR),
    (b"SRV", Type::SRV),
    (b"SVCB", Type::SVCB),
    (b"TXT", Type::TXT),
];

/// Reads a value.
pub(crate) fn read(value: Option<&[u8]>) -> Result<RewriteText, RewriteFault> {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(RewriteText::All) };
    let mut fields = value.splitn(3, |byte| *byte == b';');
    match (fields.next(), fields.next(), fields.next()) {
        (Some(code), Some(rtype), Some(value)) => full(code, rtype, value),
        (Some(value), None, None) => short(value),
        _ => Err(RewriteFault::Value(shown(value))),
    }
}

/// Reads `RCODE;TYPE;VALUE`.
fn full(code: &[u8], rtype: &[u8], value: &[u8]) -> Result<RewriteText, RewriteFault> {
    let known = WORDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(code));
    let (_, code) = known.ok_or_else(|| RewriteFault::Rcode(shown(code)))?;
    if *code != Rcode::NOERROR || (rtype.is_empty() && value.is_empty()) {
        return Ok(RewriteText::Code(*code));
    }
    let known = TYPES.iter().find(|(word, _)| word.eq_ignore_ascii_case(rtype));
    let (_, rtype) = known.ok_or_else(|| RewriteFault::Type(shown(rtype)))?;
    record(*rtype, value)
}

/// Reads a response code, an address or a name.
fn short(value: &[u8]) -> Result<RewriteText, RewriteFault> {
    if let Some((_, code)) = WORDS.iter().find(|(word, _)| *word == value) {
        return Ok(RewriteText::Code(*code));
    }
    // Other words in capital letters are response codes that are not supported.
    if value.iter().all(u8::is_ascii_uppercase) {
        return Err(RewriteFault::Rcode(shown(value)));
    }
    match std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()) {
        Some(IpAddr::V4(_)) => record(Type::A, value),
        Some(IpAddr::V6(_)) => record(Type::AAAA, value),
        None => record(Type::CNAME, value),
    }
}

fn record(rtype: Type, value: &[u8]) -> Result<RewriteText, RewriteFault> {
    let fault = || RewriteFault::Value(shown(value));
    let mut rdata = Vec::new();
    if rtype == Type::TXT {
        // The whole value is one text, with spaces in it.
        let [len] = u8::try_from(value.len()).map_err(|_| fault())?.to_be_bytes();
        rdata.push(len);
        rdata.extend_from_slice(value);
        return Ok(RewriteText::Record(rtype, rdata));
    }
    let words = value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let tokens: Vec<Token<'_>> = words.map(|bytes| Token { bytes, quoted: false }).collect();
    parse_text(rtype, &tokens, Some(Name::ROOT), &mut rdata).map_err(|_| fault())?;
    if rtype == Type::CNAME {
        // A text with a typing error, such as `A:NOERROR:127.0.0.1`, is a name in a zone file as well.
        let is_plain = value.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte));
        let name = NameBuf::from_text(value, Some(Name::ROOT)).map_err(|_| fault())?;
        let last =
            value.trim_ascii_end().strip_suffix(b".").unwrap_or(value).rsplit(|byte| *byte == b'.').next();
        let is_address = last.is_some_and(|label| label.iter().all(u8::is_ascii_digit));
        if !is_plain || is_address || name.as_name().is_root() {
            return Err(fault());
        }
    }
    Ok(RewriteText::Record(rtype, rdata))
}

impl RewriteText {
    /// Returns the answer of a rule; `None` for all of them. The TTL of its record is bounded where it is
    /// written.
    pub(crate) fn number(&self, data: &mut LocalDataTable) -> Option<Rewriting> {
        match self {
            RewriteText::All => None,
            RewriteText::Code(code) => Some(Rewriting::Code(*code)),
            RewriteText::Record(rtype, rdata) => {
                let record = PolicyRecord { rtype: *rtype, ttl: Ttl::MAX, rdata };
                Some(Rewriting::Record(data.number(&[record])))
            }
        }
    }
}

/// What the rules of lists answer to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewrites {
    /// The list whose rule comes first.
    pub source: SourceId,
    /// The response code, without records.
    pub code: Option<Rcode>,
    records: [DataId; MAX_REWRITES],
    len: u8,
}

impl Rewrites {
    /// The records; an alias comes alone.
    pub fn records(&self) -> impl Iterator<Item = DataId> + '_ {
        self.records.iter().take(usize::from(self.len)).copied()
    }
}

/// The rules for one query, as they are found.
#[derive(Default)]
pub(crate) struct RewritesFound {
    found: [Option<(SourceId, Rewriting, bool)>; MAX_REWRITES],
    kept: [Option<(Option<Rewriting>, bool)>; MAX_REWRITES],
}

impl RewritesFound {
    /// Adds a rule. Those beyond the most possible are left out, and an exception beyond it keeps all
    /// answers.
    pub(crate) fn add(&mut self, source: SourceId, to: Rewriting, important: bool) {
        if let Some(place) = self.found.iter_mut().find(|place| place.is_none()) {
            *place = Some((source, to, important));
        }
    }

    /// Adds an exception.
    pub(crate) fn keep(&mut self, of: Option<Rewriting>, important: bool) {
        match self.kept.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some((of, important)),
            None => self.kept[0] = Some((None, true)),
        }
    }

    /// Returns the answer. `is_alias` says which records are aliases.
    pub(crate) fn answer(&self, is_alias: impl Fn(DataId) -> bool) -> Option<Rewrites> {
        let is_kept = |to: &Rewriting, important: bool| {
            let mut kept = self.kept.iter().flatten();
            kept.any(|(of, strong)| (*strong || !important) && of.is_none_or(|of| of == *to))
        };
        let left = || self.found.iter().flatten().filter(|(_, to, important)| !is_kept(to, *important));
        let source = left().map(|(source, ..)| *source).min()?;
        let code = left().find_map(|(_, to, _)| match to {
            Rewriting::Code(code) => Some(*code),
            Rewriting::Record(_) => None,
        });
        let mut rewrites = Rewrites { source, code, records: [DataId(0); MAX_REWRITES], len: 0 };
        if code.is_some() {
            return Some(rewrites);
        }
        let records = || {
            left().filter_map(|(_, to, _)| match to {
                Rewriting::Record(data) => Some(*data),
                Rewriting::Code(_) => None,
            })
        };
        match records().find(|data| is_alias(*data)) {
            Some(alias) => (rewrites.records[0], rewrites.len) = (alias, 1),
            None => {
                for data in records() {
                    if rewrites.records().all(|own| own != data) {
                        rewrites.records[usize::from(rewrites.len)] = data;
                        rewrites.len += 1;
                    }
                }
            }
        }
        Some(rewrites)
    }
}

/// The first characters of a text, for a message.
fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &str) -> Result<RewriteText, RewriteFault> {
        read(Some(value.as_bytes()))
    }

    /// The values in AdGuard's documentation.
    #[test]
    fn the_documented_values_are_read() {
        let record = |rtype, rdata: &[u8]| Ok(RewriteText::Record(rtype, rdata.to_vec()));
        let net = b"\x07example\x03net\0";
        assert_eq!(of("1.2.3.4"), record(Type::A, &[1, 2, 3, 4]));
        let v6 = [0xab, 0xcd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34];
        assert_eq!(of("abcd::1234"), record(Type::AAAA, &v6));
        assert_eq!(of("example.net"), record(Type::CNAME, net));
        assert_eq!(of("REFUSED"), Ok(RewriteText::Code(Rcode::REFUSED)));
        assert_eq!(of("NOERROR;A;1.2.3.4"), record(Type::A, &[1, 2, 3, 4]));
        assert_eq!(of("NOERROR;AAAA;abcd::1234"), record(Type::AAAA, &v6));
        assert_eq!(of("NOERROR;CNAME;example.net"), record(Type::CNAME, net));
        assert_eq!(of("REFUSED;;"), Ok(RewriteText::Code(Rcode::REFUSED)));
        assert_eq!(of("NXDOMAIN;;"), Ok(RewriteText::Code(Rcode::NXDOMAIN)));
        assert_eq!(of("NOERROR;;"), Ok(RewriteText::Code(Rcode::NOERROR)));
        assert_eq!(of("NOERROR;PTR;example.net."), record(Type::PTR, net));
        assert_eq!(of("NOERROR;TXT;hello_world"), record(Type::TXT, b"\x0bhello_world"));
        assert_eq!(of("NOERROR;MX;32 example.mail"), record(Type::MX, b"\0\x20\x07example\x04mail\0"));
        let srv = b"\0\x0a\0\x3c\x1f\x90\x07example\x03com\0";
        assert_eq!(of("NOERROR;SRV;10 60 8080 example.com"), record(Type::SRV, srv));
        let https = b"\0\x20\x07example\x03com\0\0\x01\0\x03\x02h3";
        assert_eq!(of("NOERROR;HTTPS;32 example.com alpn=h3"), record(Type::HTTPS, https));
        assert_eq!(of("NOERROR;SVCB;32 example.com alpn=h3"), record(Type::SVCB, https));
        assert_eq!([read(None), read(Some(b""))], [Ok(RewriteText::All), Ok(RewriteText::All)]);
    }

    #[test]
    fn other_values_are_faults() {
        for (value, fault) in [
            ("NOTIMP", RewriteFault::Rcode("NOTIMP".into())),
            ("BAD;A;1.2.3.4", RewriteFault::Rcode("BAD".into())),
            ("NOERROR;NS;example.net", RewriteFault::Type("NS".into())),
            ("NOERROR;A;abcd::1", RewriteFault::Value("abcd::1".into())),
            ("NOERROR;A;", RewriteFault::Value(String::new())),
            ("NOERROR;A", RewriteFault::Value("NOERROR;A".into())),
            ("NOERROR;;x", RewriteFault::Type(String::new())),
            ("A:NOERROR:127.0.0.1", RewriteFault::Value("A:NOERROR:127.0.0.1".into())),
            ("NOERROR;MX;example.mail", RewriteFault::Value("example.mail".into())),
            ("a b", RewriteFault::Value("a b".into())),
        ] {
            assert_eq!(of(value), Err(fault), "{value}");
        }
        assert!(of(&format!("NOERROR;TXT;{}", "x".repeat(256))).is_err());
    }

    #[test]
    fn an_exception_keeps_one_answer_or_all() {
        let (a, b) = (Rewriting::Record(DataId(1)), Rewriting::Record(DataId(2)));
        let answer = |kept: &[(Option<Rewriting>, bool)], important| {
            let mut found = RewritesFound::default();
            found.add(SourceId(3), a, important);
            found.add(SourceId(2), b, important);
            kept.iter().for_each(|(of, strong)| found.keep(*of, *strong));
            let answer = found.answer(|_| false)?;
            Some((answer.source, answer.records().collect::<Vec<_>>()))
        };
        assert_eq!(answer(&[], false), Some((SourceId(2), vec![DataId(1), DataId(2)])));
        assert_eq!(answer(&[(Some(b), false)], false), Some((SourceId(3), vec![DataId(1)])));
        assert_eq!(answer(&[(None, false)], false), None);
        assert!(answer(&[(None, false)], true).is_some(), "an important rule");
        assert_eq!(answer(&[(None, true)], true), None);
        assert_eq!(answer(&[(Some(a), false); MAX_REWRITES + 1], false), None, "too many exceptions");
    }

    #[test]
    fn a_code_comes_before_an_alias_and_that_before_records() {
        let answer = |all: &[Rewriting]| {
            let mut found = RewritesFound::default();
            all.iter().for_each(|to| found.add(SourceId(0), *to, false));
            let answer = found.answer(|data| data == DataId(9)).expect("an answer");
            (answer.code, answer.records().map(|DataId(number)| number).collect::<Vec<_>>())
        };
        let record = |number| Rewriting::Record(DataId(number));
        let refused = Rewriting::Code(Rcode::REFUSED);
        assert_eq!(answer(&[record(1), record(9), refused]), (Some(Rcode::REFUSED), vec![]));
        assert_eq!(answer(&[record(1), record(9), record(2)]), (None, vec![9]));
        assert_eq!(answer(&[record(1), record(2), record(1)]), (None, vec![1, 2]));
        let many: Vec<Rewriting> = (0..40).filter(|number| *number != 9).map(record).collect();
        assert_eq!(answer(&many).1.len(), MAX_REWRITES);
    }
}
