//! The content of one row of PowerDNS's table `records`, as RDATA in wire format.
//!
//! Content is the text of RDATA with these differences, which the Authoritative Server 4.7 and 5.1 agree on
//! where both accept the row:
//!
//! - Every name is absolute, with or without its final dot, and `@` is a letter.
//! - MX and SRV have their first number in the column `prio`. If that is NULL, the content has all numbers.
//! - TXT that does not begin with a quotation mark is one quoted string.
//! - A string of more than 255 bytes is several strings.
//! - There are neither comments nor parentheses.

use wire::text::{self, Token};
use wire::{Name, Type, rdata};

/// Bytes of one character-string (RFC 1035 §3.3).
const MAX_STRING: usize = 255;

/// Appends the RDATA of a row with this type, content and `prio`.
///
/// # Errors
/// Why the content is not the text of such a record.
pub(super) fn record_data(
    rtype: Type,
    content: &[u8],
    prio: Option<i64>,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    match (rtype, prio) {
        (Type::TXT | Type::SPF, _) => strings(rtype, content, out),
        (Type::MX | Type::SRV, Some(prio)) => {
            let whole = [prio.to_string().as_bytes(), b" ", content].concat();
            fields(rtype, &whole, out)
        }
        _ => fields(rtype, content, out),
    }
}

/// Content of all types but TXT and SPF.
fn fields(rtype: Type, content: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let content = std::str::from_utf8(content).map_err(|_| "the content is not UTF-8".to_owned())?;
    let tokens: Vec<Token<'_>> = text::tokens(content)
        .map(|token| if token.bytes == b"@" { Token { bytes: b"\\@", ..token } } else { token })
        .collect();
    if matches!(rtype, Type::SVCB | Type::HTTPS)
        && tokens.iter().any(|token| token.bytes == b"ipv4hint=auto" || token.bytes == b"ipv6hint=auto")
    {
        return Err("PowerDNS makes the hint `auto` from address records: write the addresses here".into());
    }
    rdata::parse_text(rtype, &tokens, Some(Name::ROOT), out).map_err(|fault| fault.to_string())
}

/// Content of TXT and SPF: strings, each in quotation marks or up to the next white space.
fn strings(rtype: Type, content: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    if content.trim_ascii_start().starts_with(b"\\#") {
        return fields(rtype, content, out);
    }
    let is_bare = rtype == Type::TXT && content.first() != Some(&b'"');
    let whole = if is_bare { [b"\"", content, b"\""].concat() } else { content.to_vec() };
    let (mut rest, mut one, start) = (whole.trim_ascii_start(), Vec::new(), out.len());
    while let Some(first) = rest.first() {
        let quoted = *first == b'"';
        let inner = if quoted { &rest[1..] } else { rest };
        let end = string_end(inner, quoted);
        if quoted && end == inner.len() {
            return Err("a string without its closing quotation mark".into());
        }
        one.clear();
        text::unescape(&inner[..end], &mut one)
            .map_err(|_| "bad escape (\\ needs a character or three digits up to 255)".to_owned())?;
        let mut chunks = one.chunks(MAX_STRING);
        let mut next = Some(chunks.next().unwrap_or_default());
        while let Some(chunk) = next {
            out.push(chunk.len() as u8);
            out.extend_from_slice(chunk);
            next = chunks.next();
        }
        rest = inner.get(end + usize::from(quoted)..).unwrap_or_default().trim_ascii_start();
    }
    if out.len() == start { Err("no string".into()) } else { Ok(()) }
}

/// Length of a string: up to an unescaped quotation mark; if it is not quoted, also up to white space.
fn string_end(text: &[u8], quoted: bool) -> usize {
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        if byte == b'"' || !quoted && byte.is_ascii_whitespace() {
            break;
        }
        at += if byte == b'\\' { 2 } else { 1 };
    }
    at.min(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The record as nomen writes it.
    fn read(rtype: Type, content: &str, prio: Option<i64>) -> Result<String, String> {
        let mut out = Vec::new();
        record_data(rtype, content.as_bytes(), prio, &mut out)?;
        assert_eq!(rdata::validate(rtype, &out), Ok(()), "{rtype} {content}");
        let mut text = String::new();
        rdata::write_text(rtype, &out, &mut text).expect("written");
        Ok(text)
    }

    fn is(rtype: Type, content: &str, prio: Option<i64>, expected: &str) {
        assert_eq!(read(rtype, content, prio).as_deref(), Ok(expected), "{rtype} {content}");
    }

    fn is_bad(rtype: Type, content: &str, prio: Option<i64>, expected: &str) {
        let fault = read(rtype, content, prio).expect_err(content);
        assert!(fault.contains(expected), "{rtype} {content}: {fault}");
    }

    #[test]
    fn names_are_absolute_with_or_without_the_final_dot() {
        is(Type::CNAME, "ns1.example.com", None, "ns1.example.com.");
        is(Type::NS, "ns1.example.com.", Some(0), "ns1.example.com.");
        is(Type::CNAME, ".", None, ".");
        is(Type::CNAME, "@", None, r"\@.");
        is(Type::PTR, r"a\.b\032c.example", None, r"a\.b\032c.example.");
        is(Type::NAPTR, r#"100 50 "s" "x" "" _sip._tcp"#, None, r#"100 50 "s" "x" "" _sip._tcp."#);
        is(Type::HTTPS, "1 . alpn=h2,h3 port=8443", None, r#"1 . alpn="h2,h3" port=8443"#);
        let soa = "ns1.example.com hostmaster.example.com 2024010101 10800 3600 604800 3600";
        is(
            Type::SOA,
            soa,
            None,
            "ns1.example.com. hostmaster.example.com. 2024010101 10800 3600 604800 3600",
        );
        is_bad(Type::CNAME, "", None, "missing");
        is_bad(Type::CNAME, "a..b", None, "empty label");
    }

    #[test]
    fn the_first_number_is_in_the_column_or_in_the_content() {
        is(Type::MX, "mail.example.com", Some(10), "10 mail.example.com.");
        is(Type::MX, "10 mail.example.com", None, "10 mail.example.com.");
        is(Type::SRV, "10 5060 sip.example.com", Some(5), "5 10 5060 sip.example.com.");
        is(Type::SRV, "5 10 5060 sip.example.com", None, "5 10 5060 sip.example.com.");
        is(Type::KX, "10 kx.example.com", Some(0), "10 kx.example.com.");
        is_bad(Type::MX, "10 mail.example.com", Some(0), "unexpected text");
        is_bad(Type::MX, "mail.example.com", None, "number");
        is_bad(Type::MX, "mail.example.com", Some(-1), "number");
        is_bad(Type::MX, "mail.example.com", Some(70_000), "65535");
    }

    #[test]
    fn text_is_quoted_as_powerdns_does() {
        is(Type::TXT, r#""v=spf1 -all" "b""#, None, r#""v=spf1 -all" "b""#);
        is(Type::TXT, "unquoted text; p=1", None, r#""unquoted text; p=1""#);
        is(Type::TXT, r#"he said "x" ok"#, None, r#""he said " "x" " ok""#);
        is(Type::TXT, r#""a""b""#, None, r#""a" "b""#);
        is(Type::TXT, "", None, r#""""#);
        is(Type::TXT, r#""\000\255 \"q\" \\ \;""#, None, r#""\000\255 \"q\" \\ ;""#);
        is(Type::SPF, "v=spf1 -all", None, r#""v=spf1" "-all""#);
        is(Type::TXT, r"\# 3 026162", None, r#""ab""#);
        is_bad(Type::TXT, r#""open"#, None, "closing quotation mark");
        is_bad(Type::TXT, r#""open \""#, None, "closing quotation mark");
        is_bad(Type::TXT, r#""\999""#, None, "bad escape");
        is_bad(Type::SPF, "", None, "no string");
    }

    #[test]
    fn long_strings_are_split() {
        let letters = "a".repeat(300);
        let expected = format!("\"{}\" \"{}\"", &letters[..255], &letters[255..]);
        is(Type::TXT, &format!("\"{letters}\""), None, &expected);
        is(Type::TXT, &letters, None, &expected);
        is(Type::TXT, &format!("\"{}\"", &letters[..255]), None, &format!("\"{}\"", &letters[..255]));
        let escaped = r"\195\164".repeat(200);
        assert_eq!(read(Type::TXT, &escaped, None).expect("a record").matches(r"\195").count(), 200);
    }

    #[test]
    fn other_content_is_read_as_in_zone_files() {
        is(Type::A, " 192.0.2.1 ", Some(0), "192.0.2.1");
        is(Type::CAA, r#"0 issue "ca.example; x=y""#, None, r#"0 issue "ca.example; x=y""#);
        is(Type(65333), r"\# 3 010203", None, r"\# 3 010203");
        is(Type::A, r"\# 4 c0000201", None, "192.0.2.1");
        is_bad(Type::A, "192.0.2.300", None, "IPv4");
        is_bad(Type::A, "192.0.2.1 extra", None, "unexpected text");
        is_bad(Type::A, "192.0.2.1 ; comment", None, "unexpected text");
        is_bad(Type::HTTPS, "1 . ipv4hint=auto", None, "auto");
        is_bad(Type::SOA, "ns1.example.com hostmaster.example.com 7", None, "missing");
        let mut out = Vec::new();
        assert!(record_data(Type::A, b"\xff\xfe", None, &mut out).is_err());
        assert_eq!(record_data(Type::TXT, b"\"\xe4\"", None, &mut out), Ok(()), "Latin-1 is bytes as others");
        assert_eq!(out, b"\x01\xe4");
    }

    proptest::proptest! {
        /// Any bytes are a record or a fault, and a record is valid.
        #[test]
        fn any_content_is_a_record_or_a_fault(
            rtype in 0..300u16,
            content in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..80),
            prio in proptest::option::of(proptest::prelude::any::<i64>()),
        ) {
            let mut out = vec![7];
            if let Ok(()) = record_data(Type(rtype), &content, prio, &mut out) {
                proptest::prop_assert!(rdata::validate(Type(rtype), &out[1..]).is_ok());
            }
        }
    }
}
