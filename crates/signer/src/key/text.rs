//! The text of key files in the format of BIND: `K<zone>+<algorithm>+<tag>.private`, which holds the numbers
//! of the private key and the times of its events, and `.key`, which holds the DNSKEY record.

use std::fmt::{self, Write as _};

use wire::name::Name;
use wire::rdata::view::{Dnskey, SigAlgorithm};
use wire::text::{Base64, decimal, duration, time, write_base64, write_time};
use wire::{Class, NameBuf, Ttl, UnixTime};
use zeroize::Zeroizing;

use super::pair::{BadKey, PrivateKey, RSA_FIELDS, can_sign, is_rsa};
use super::times::{KeyEvent, KeyTimes};

/// The first field of every file with a private key.
const FORMAT: &str = "Private-key-format";
/// Fields of BIND that nomen reads over: counters and references between keys.
const PASSED_OVER: [&str; 12] = [
    "DNSKEYChange",
    "ZRRSIGChange",
    "KRRSIGChange",
    "DSChange",
    "Predecessor",
    "Successor",
    "MaxTTL",
    "RollPeriod",
    "Lifetime",
    "DSPubCount",
    "DSRemCount",
    "Revoked",
];
/// Longest number of a key in bytes: an RSA modulus of 8192 bits, which is refused with its size.
const MAX_NUMBER: usize = 1024;

/// A fault in the text of a key file, and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyTextFault {
    /// Counted from 1. For a fault of the whole file that of its last line.
    pub line: usize,
    /// The kind of fault.
    pub kind: KeyTextFaultKind,
}

impl fmt::Display for KeyTextFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.kind)
    }
}
impl std::error::Error for KeyTextFault {}

/// Kinds of [`KeyTextFault`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyTextFaultKind {
    /// The first field is not `Private-key-format: v1.`
    Format,
    /// The line is not `field: value`.
    NoField,
    /// A field of this name is unknown, or belongs to another algorithm.
    UnknownField(String),
    /// The field occurs twice.
    Repeated(&'static str),
    /// The field is missing.
    Missing(&'static str),
    /// The value of this field is not a time `YYYYMMDDHHmmSS`.
    BadTime(&'static str),
    /// The value of this field is not base64, or is too long.
    BadNumber(&'static str),
    /// The value of `Algorithm` is not a number.
    BadAlgorithm,
    /// The key is in a hardware module.
    Hardware,
    /// There is no DNSKEY record, or more than one.
    NoRecord,
    /// The record is not `NAME [TTL] [IN] DNSKEY FLAGS 3 ALGORITHM KEY`.
    BadRecord(&'static str),
    /// The key itself is wrong.
    Key(BadKey),
}

impl fmt::Display for KeyTextFaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format => write!(f, "not a private key: the first line is not `{FORMAT}: v1.3`"),
            Self::NoField => f.write_str("expected `field: value`"),
            Self::UnknownField(name) => write!(f, "unknown field `{name}`"),
            Self::Repeated(name) => write!(f, "a second `{name}`"),
            Self::Missing(name) => write!(f, "there is no `{name}`"),
            Self::BadTime(name) => write!(f, "the value of `{name}` is not a time YYYYMMDDHHmmSS"),
            Self::BadNumber(name) => write!(f, "the value of `{name}` is not base64, or too long"),
            Self::BadAlgorithm => f.write_str("the value of `Algorithm` is not the number of an algorithm"),
            Self::Hardware => f.write_str("the key is in a hardware module, which nomen does not use"),
            Self::NoRecord => f.write_str("expected one DNSKEY record"),
            Self::BadRecord(what) => write!(f, "not a DNSKEY record: {what}"),
            Self::Key(bad) => bad.fmt(f),
        }
    }
}

/// The contents of a file with a private key.
#[derive(Debug)]
pub struct PrivateText {
    /// The key.
    pub key: PrivateKey,
    /// The times of its events.
    pub times: KeyTimes,
}

/// The fields of a file so far.
#[derive(Default)]
struct Fields {
    algorithm: Option<SigAlgorithm>,
    /// The numbers, by their place in [`RSA_FIELDS`].
    rsa: [Option<Zeroizing<Vec<u8>>>; 8],
    number: Option<Zeroizing<Vec<u8>>>,
    times: KeyTimes,
}

impl PrivateText {
    /// Parses the text of a `.private` file, of version 1.2 without times or 1.3 with them.
    ///
    /// # Errors
    /// The first fault.
    pub fn parse(text: &str) -> Result<PrivateText, KeyTextFault> {
        let mut fields = Fields::default();
        let mut lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
        let at = |line: usize| move |kind: KeyTextFaultKind| KeyTextFault { line, kind };
        let (first, line) = lines.next().ok_or(at(1)(KeyTextFaultKind::Format))?;
        let minor = format_minor(first).ok_or(at(line)(KeyTextFaultKind::Format))?;
        let mut last = line;
        for (text, line) in lines {
            let (name, value) = text.split_once(':').ok_or(at(line)(KeyTextFaultKind::NoField))?;
            let (name, value) = (name.trim(), value.trim());
            let known = fields.read(name, value).map_err(at(line))?;
            // Later versions may have more fields (BIND: dst_parse.c).
            if !known && minor <= 3 {
                return Err(at(line)(KeyTextFaultKind::UnknownField(shown(name))));
            }
            last = line;
        }
        fields.finish().map_err(at(last))
    }
}

/// Returns at most 40 characters of a field's name, without control characters.
fn shown(name: &str) -> String {
    name.chars().take(40).map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Returns the minor version of the format, 2 and greater; the major version must be 1.
fn format_minor(line: &str) -> Option<u64> {
    let (name, value) = line.split_once(':')?;
    let version = value.trim().strip_prefix("v1.")?;
    decimal(version.as_bytes()).filter(|minor| name.trim() == FORMAT && *minor >= 2)
}

impl Fields {
    /// Reads one field. Returns whether it is known.
    fn read(&mut self, name: &str, value: &str) -> Result<bool, KeyTextFaultKind> {
        if name == "Algorithm" {
            let number = value.split_whitespace().next().unwrap_or_default();
            let number = decimal(number.as_bytes()).and_then(|n| u8::try_from(n).ok());
            let algorithm = SigAlgorithm(number.ok_or(KeyTextFaultKind::BadAlgorithm)?);
            if !can_sign(algorithm) {
                return Err(KeyTextFaultKind::Key(BadKey::Algorithm(algorithm)));
            }
            return once(&mut self.algorithm, algorithm, "Algorithm");
        }
        if matches!(name, "Engine" | "Label") {
            return Err(KeyTextFaultKind::Hardware);
        }
        // The other fields belong to the algorithm, which comes first.
        let algorithm = self.algorithm.ok_or(KeyTextFaultKind::Missing("Algorithm"))?;
        if let Some(event) = KeyEvent::ALL.into_iter().find(|event| event.field() == name) {
            if self.times.get(event).is_some() {
                return Err(KeyTextFaultKind::Repeated(event.field()));
            }
            let seconds = (value.len() == 14).then(|| time(value.as_bytes())).flatten();
            let seconds = seconds.ok_or(KeyTextFaultKind::BadTime(event.field()))?;
            self.times.set(event, UnixTime::from_secs(seconds.into()));
            return Ok(true);
        }
        if PASSED_OVER.contains(&name) {
            return Ok(true);
        }
        if is_rsa(algorithm) {
            let Some((slot, name)) = self.rsa.iter_mut().zip(RSA_FIELDS).find(|(_, field)| *field == name)
            else {
                return Ok(false);
            };
            return once(slot, number(value, name)?, name);
        }
        match name {
            "PrivateKey" => once(&mut self.number, number(value, "PrivateKey")?, "PrivateKey"),
            _ => Ok(false),
        }
    }

    fn finish(self) -> Result<PrivateText, KeyTextFaultKind> {
        let Fields { algorithm, rsa, number, times } = self;
        let algorithm = algorithm.ok_or(KeyTextFaultKind::Missing("Algorithm"))?;
        let key = if is_rsa(algorithm) {
            let mut numbers = [&[][..]; 8];
            for ((to, from), name) in numbers.iter_mut().zip(&rsa).zip(RSA_FIELDS) {
                *to = from.as_ref().ok_or(KeyTextFaultKind::Missing(name))?;
            }
            PrivateKey::of_rsa(algorithm, &numbers)
        } else {
            PrivateKey::of_number(algorithm, &number.ok_or(KeyTextFaultKind::Missing("PrivateKey"))?)
        };
        Ok(PrivateText { key: key.map_err(KeyTextFaultKind::Key)?, times })
    }
}

/// Stores the value of a field that occurs once.
fn once<T>(slot: &mut Option<T>, value: T, name: &'static str) -> Result<bool, KeyTextFaultKind> {
    match slot.replace(value) {
        None => Ok(true),
        Some(_) => Err(KeyTextFaultKind::Repeated(name)),
    }
}

fn number(value: &str, name: &'static str) -> Result<Zeroizing<Vec<u8>>, KeyTextFaultKind> {
    // The memory is erased, so it must not be moved by growing.
    let mut out = Zeroizing::new(Vec::with_capacity(MAX_NUMBER + 3));
    let mut decoder = Base64::default();
    let fits = value.len() <= MAX_NUMBER / 3 * 4;
    let decoded = fits && decoder.feed(value.as_bytes(), &mut out).is_ok() && decoder.finish().is_ok();
    if decoded && !out.is_empty() { Ok(out) } else { Err(KeyTextFaultKind::BadNumber(name)) }
}

/// Writes the text of a `.private` file.
///
/// # Errors
/// The library does not yield the numbers of the key.
pub fn private_text(key: &PrivateKey, times: &KeyTimes) -> Result<Zeroizing<String>, BadKey> {
    // The memory is erased, so it must not be moved by growing: 8 numbers of 512 bytes, and short lines.
    let mut out = Zeroizing::new(String::with_capacity(8 * 1024));
    let algorithm = key.algorithm();
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(out, "{FORMAT}: v1.3\nAlgorithm: {} ({algorithm})", algorithm.0);
    key.fields(|name, number| {
        let _ = write!(out, "{name}: ");
        let _ = write_base64(number, &mut *out);
        out.push('\n');
    })?;
    for event in KeyEvent::ALL {
        if let Some(time) = times.get(event) {
            let _ = write!(out, "{}: ", event.field());
            let _ = write_time(time.to_serial().0, &mut *out);
            out.push('\n');
        }
    }
    Ok(out)
}

/// The contents of a `.key` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicText {
    /// The zone.
    pub zone: NameBuf,
    /// TTL of the DNSKEY record, if the file has one.
    pub ttl: Option<Ttl>,
    /// Flags of the DNSKEY record (RFC 4034 §2.1.1).
    pub flags: u16,
    /// Algorithm of the key.
    pub algorithm: SigAlgorithm,
    /// The public key, in the format of the algorithm.
    pub public_key: Vec<u8>,
}

impl PublicText {
    /// Returns the RDATA of the DNSKEY record.
    pub fn dnskey(&self) -> Vec<u8> {
        let head = [&self.flags.to_be_bytes()[..], &[Dnskey::DNSSEC, self.algorithm.0]].concat();
        [&head[..], &self.public_key].concat()
    }

    /// Parses the text of a `.key` file: one DNSKEY record on one line, and comments.
    ///
    /// # Errors
    /// The first fault.
    pub fn parse(text: &str) -> Result<PublicText, KeyTextFault> {
        let mut found = None;
        let mut last = 1;
        for (text, line) in text.lines().zip(1..) {
            let record = text.split(';').next().unwrap_or_default();
            if record.trim().is_empty() {
                continue;
            }
            last = line;
            let at = |kind| KeyTextFault { line, kind };
            let parsed = public_record(record).map_err(at)?;
            if found.replace(parsed).is_some() {
                return Err(at(KeyTextFaultKind::NoRecord));
            }
        }
        found.ok_or(KeyTextFault { line: last, kind: KeyTextFaultKind::NoRecord })
    }
}

fn public_record(record: &str) -> Result<PublicText, KeyTextFaultKind> {
    let bad = KeyTextFaultKind::BadRecord;
    let mut words = record.split_whitespace().peekable();
    let owner = words.next().unwrap_or_default();
    let zone =
        NameBuf::from_text(owner.as_bytes(), Some(Name::ROOT)).map_err(|_| bad("the owner is no name"))?;
    let mut ttl = None;
    while let Some(word) = words.next_if(|word| !word.eq_ignore_ascii_case("DNSKEY")) {
        match duration(word.as_bytes()) {
            Some(seconds) if ttl.is_none() => ttl = Some(Ttl::from_secs(seconds)),
            _ if word.eq_ignore_ascii_case(&Class::IN.to_string()) => {}
            _ => return Err(bad("expected a TTL, the class IN or the type DNSKEY")),
        }
    }
    if words.next().is_none() {
        return Err(bad("the type DNSKEY is missing"));
    }
    let mut number = |what, most: u64| {
        let value = words.next().and_then(|word| decimal(word.as_bytes()));
        value.filter(|value| *value <= most).ok_or(bad(what))
    };
    let flags = number("the flags are not a number below 65536", u16::MAX.into())? as u16;
    if number("the protocol is not 3", Dnskey::DNSSEC.into())? != u64::from(Dnskey::DNSSEC) {
        return Err(bad("the protocol is not 3"));
    }
    let algorithm = SigAlgorithm(number("the algorithm is not a number below 256", u8::MAX.into())? as u8);
    let (mut public_key, mut decoder) = (Vec::new(), Base64::default());
    let decoded = words.try_for_each(|word| decoder.feed(word.as_bytes(), &mut public_key));
    if decoded.is_err() || decoder.finish().is_err() || public_key.is_empty() {
        return Err(bad("the key is not base64"));
    }
    Ok(PublicText { zone, ttl, flags, algorithm, public_key })
}
