//! The format of a record: which fields a line has, and how TTL and data are written.

use std::fmt::Write as _;

use wire::rdata::view::Dnskey;
use wire::{Ttl, Type};

use crate::decoded::ShownRecord;
use crate::lines;

/// The format of records, as dig's options of the same names select it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Long records span several lines, with comments.
    pub multiline: bool,
    /// The TTL is shown.
    pub ttl: bool,
    /// The TTL has units: `1h30m`.
    pub ttl_units: bool,
    /// The class is shown.
    pub class: bool,
    /// Keys, digests and signatures are shown.
    pub crypto: bool,
    /// Length of the pieces that keys, digests and signatures are cut into, in characters.
    pub split: Option<usize>,
    /// A comment after each key states its role, algorithm and tag; on by default with `multiline`.
    pub comments: Option<bool>,
    /// Class, type and data are in the form of unknown types (RFC 3597 §5).
    pub generic: bool,
    /// IPv6 addresses are written with all digits.
    pub full_addresses: bool,
}

impl Style {
    /// One line per record, with all fields.
    pub const PLAIN: Self = Self {
        multiline: false,
        ttl: true,
        ttl_units: false,
        class: true,
        crypto: true,
        split: None,
        comments: None,
        generic: false,
        full_addresses: false,
    };
}

impl Default for Style {
    fn default() -> Self {
        Self::PLAIN
    }
}

/// Returns a record as one line, or as several.
pub(crate) fn line(record: &ShownRecord, style: &Style) -> String {
    let mut out = record.owner.clone();
    // Writing to a String cannot fail, here and below.
    if style.ttl {
        let _ = match style.ttl_units {
            true => write!(out, "\t{}", units(record.ttl)),
            false => write!(out, "\t{}", record.ttl),
        };
    }
    if style.class {
        let _ = match style.generic {
            true => write!(out, "\tCLASS{}", record.class.0),
            false => write!(out, "\t{}", record.class),
        };
    }
    let _ = match style.generic {
        true => write!(out, "\tTYPE{}", record.rtype.0),
        false => write!(out, "\t{}", record.rtype),
    };
    let data = data(record, style);
    let several = if style.multiline && !style.generic { lines::of(record.rtype, &data) } else { None };
    let comment = if style.comments.unwrap_or(style.multiline) { comment(record) } else { String::new() };
    let _ = writeln!(out, "\t{}{comment}", several.as_deref().unwrap_or(&data));
    out
}

/// Returns the data of a record.
pub(crate) fn data(record: &ShownRecord, style: &Style) -> String {
    if style.generic {
        return generic(&record.data);
    }
    if style.full_addresses
        && record.rtype == Type::AAAA
        && let Ok(octets) = <[u8; 16]>::try_from(&record.data[..])
    {
        let groups: Vec<String> = octets.chunks(2).map(|c| format!("{:02x}{:02x}", c[0], c[1])).collect();
        return groups.join(":");
    }
    if !style.crypto && has_crypto(record.rtype) {
        return without_crypto(record);
    }
    match style.split.filter(|_| lines::ends_in_one_value(record.rtype)) {
        Some(width) => split(&record.rdata, width),
        None => record.rdata.clone(),
    }
}

/// Returns data in the form of unknown types (RFC 3597 §5).
fn generic(data: &[u8]) -> String {
    let mut out = format!("\\# {}", data.len());
    for (at, byte) in data.iter().enumerate() {
        let _ = write!(out, "{}{byte:02X}", if at == 0 { " " } else { "" });
    }
    out
}

/// Returns whether the data of a type ends in a key, a digest or a signature.
fn has_crypto(rtype: Type) -> bool {
    let types = ["DNSKEY", "CDNSKEY", "KEY", "RRSIG", "SIG", "DS", "CDS", "DLV", "TLSA", "SMIMEA", "ZONEMD"];
    types.iter().filter_map(|text| text.parse::<Type>().ok()).any(|t| t == rtype)
}

fn is_key(rtype: Type) -> bool {
    rtype == Type::DNSKEY || rtype == Type::CDNSKEY
}

/// Returns the data with the key replaced by its tag, and a digest or signature by `[omitted]`.
fn without_crypto(record: &ShownRecord) -> String {
    let mut fields = lines::fields(&record.rdata);
    fields.pop();
    let tag =
        Dnskey::read(&record.data).ok().filter(|_| is_key(record.rtype)).map(|key| dnssec::key::tag(&key));
    let rest = tag.map_or("[omitted]".to_owned(), |tag| format!("[key id = {tag}]"));
    fields.push(&rest);
    fields.join(" ")
}

/// Returns the data with its last field split into pieces of `width` characters.
fn split(rdata: &str, width: usize) -> String {
    let (front, last) = rdata.rsplit_once(' ').unwrap_or(("", rdata));
    let mut out = front.to_owned();
    for (at, c) in last.chars().enumerate() {
        if at % width == 0 && !out.is_empty() {
            out.push(' ');
        }
        out.push(c);
    }
    out
}

/// Returns the comment after a key, in the form of dig.
fn comment(record: &ShownRecord) -> String {
    let Some(key) = Dnskey::read(&record.data).ok().filter(|_| is_key(record.rtype)) else {
        return String::new();
    };
    let role = match (key.is_revoked(), key.is_sep()) {
        (true, true) => "revoked KSK",
        (true, false) => "revoked ZSK",
        (false, true) => "KSK",
        (false, false) => "ZSK",
    };
    format!("  ; {role}; alg = {} ; key id = {}", key.algorithm, dnssec::key::tag(&key))
}

/// Returns a TTL with units, as zone files accept it: `1w2d3h4m5s`.
fn units(ttl: Ttl) -> String {
    let mut rest = ttl.as_secs();
    let mut out = String::new();
    for (length, unit) in [(604_800, 'w'), (86_400, 'd'), (3_600, 'h'), (60, 'm'), (1, 's')] {
        if rest >= length {
            let _ = write!(out, "{}{unit}", rest / length);
            rest %= length;
        }
    }
    if out.is_empty() { "0s".to_owned() } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Class;

    const KEY: &str =
        "257 3 13 mdsswUyr3DPW132mOi8V9xESWE8jTo0dxCjjnopKl+GqJxpVXckHAeF+KkxLbxILfDLUT0rAK9iUzy1L53eKGQ==";

    fn shown(rtype: Type, rdata: &str) -> ShownRecord {
        let mut data = Vec::new();
        let words: Vec<_> = wire::text::tokens(rdata).collect();
        wire::rdata::parse_text(rtype, &words, None, &mut data).expect("good data");
        let owner = "a.".to_owned();
        ShownRecord {
            owner,
            ttl: Ttl::from_secs(86_399),
            class: Class::IN,
            rtype,
            rdata: rdata.to_owned(),
            data,
        }
    }

    #[test]
    fn fields_are_left_out_and_units_written() {
        let record = shown(Type::A, "192.0.2.1");
        let of = |style| line(&record, &style);
        assert_eq!(of(Style::PLAIN), "a.\t86399\tIN\tA\t192.0.2.1\n");
        assert_eq!(of(Style { ttl_units: true, ..Style::PLAIN }), "a.\t23h59m59s\tIN\tA\t192.0.2.1\n");
        assert_eq!(of(Style { ttl: false, class: false, ..Style::PLAIN }), "a.\tA\t192.0.2.1\n");
        assert_eq!(of(Style { generic: true, ..Style::PLAIN }), "a.\t86399\tCLASS1\tTYPE1\t\\# 4 C0000201\n");
        assert_eq!(units(Ttl::ZERO), "0s");
    }

    #[test]
    fn keys_are_left_out_cut_or_commented() {
        let record = shown(Type::DNSKEY, KEY);
        let of = |style| line(&record, &style);
        assert_eq!(
            of(Style { crypto: false, ..Style::PLAIN }),
            "a.\t86399\tIN\tDNSKEY\t257 3 13 [key id = 2371]\n"
        );
        let commented = of(Style { comments: Some(true), ..Style::PLAIN });
        assert!(commented.ends_with("GQ==  ; KSK; alg = ECDSAP256SHA256 ; key id = 2371\n"), "{commented}");
        let cut = data(&record, &Style { split: Some(44), ..Style::PLAIN });
        assert_eq!(cut.split(' ').map(str::len).collect::<Vec<_>>(), [3, 1, 2, 44, 44]);
        assert_eq!(cut.replace(' ', ""), KEY.replace(' ', ""));
        let ds = shown(Type::DS, "12345 13 2 0001020304050607");
        assert_eq!(data(&ds, &Style { crypto: false, ..Style::PLAIN }), "12345 13 2 [omitted]");
        let text = shown(Type::TXT, "\"a b\"");
        assert_eq!(data(&text, &Style { crypto: false, split: Some(4), ..Style::PLAIN }), "\"a b\"");
    }

    #[test]
    fn addresses_have_all_their_digits() {
        let record = shown(Type::AAAA, "2001:db8::1");
        let style = Style { full_addresses: true, ..Style::PLAIN };
        assert_eq!(data(&record, &style), "2001:0db8:0000:0000:0000:0000:0000:0001");
    }
}
