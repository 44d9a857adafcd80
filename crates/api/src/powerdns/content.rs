//! The `content` of a record: text of its RDATA, with absolute names, as one line.

use wire::rdata::{self, embedded_names};
use wire::text::{Token, tokens};
use wire::{Name, Type};

use super::fault::Refused;

/// Returns the RDATA of a record's content.
///
/// # Errors
/// It is not in the format of the type, or has text that PowerDNS does not accept: an unquoted string in TXT,
/// or a target that is no host name.
pub(super) fn read(owner: Name<'_>, rtype: Type, content: &str) -> Result<Vec<u8>, Refused> {
    let refused = |why: &str| Refused::unfit(format!("Record {owner}/{rtype} '{content}': {why}"));
    let all: Vec<Token<'_>> = tokens(content).collect();
    let has_strings = matches!(rtype, Type::TXT | Type::SPF);
    let is_unquoted = |token: &Token<'_>| !token.quoted && !content.trim_start().starts_with("\\#");
    if content.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err(refused("Not in expected format (control characters are written as \\DDD)"));
    }
    if has_strings && (all.is_empty() || all.iter().any(is_unquoted)) {
        return Err(refused("Not in expected format (each string of the text is in quotation marks)"));
    }
    let mut out = Vec::new();
    rdata::parse_text(rtype, &all, None, &mut out).map_err(|fault| {
        let place = all.get(fault.token).map(|token| String::from_utf8_lossy(token.bytes).into_owned());
        let at = place.map(|place| format!(" at '{place}'")).unwrap_or_default();
        refused(&format!("Parsing record content: {fault}{at}"))
    })?;
    if matches!(rtype, Type::MX | Type::NS | Type::SRV) && !has_host_names(rtype, &out) {
        return Err(refused("non-hostname content"));
    }
    Ok(out)
}

/// Whether all names in RDATA have the characters of host names, `_` and `/` among them.
fn has_host_names(rtype: Type, rdata: &[u8]) -> bool {
    for name in embedded_names(rtype, rdata) {
        let wire = &rdata[name.start..name.start + name.len];
        let is_host = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'/');
        let labels = Name::from_wire(wire).map(|name| name.labels().all(|label| label.iter().all(is_host)));
        if labels != Ok(true) {
            return false;
        }
    }
    true
}

/// Returns the content of a record.
pub(super) fn shown(rtype: Type, rdata: &[u8]) -> String {
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    let _ = rdata::write_text(rtype, rdata, &mut text);
    match rtype {
        Type::SVCB | Type::HTTPS => without_quotes(&text),
        // Numbers and hexadecimal digits.
        Type::DS | Type::CDS | Type::DLV | Type::SSHFP | Type::TLSA | Type::SMIMEA => {
            text.to_ascii_lowercase()
        }
        // The generic form of RFC 3597.
        _ if text.starts_with("\\#") => text.to_ascii_lowercase(),
        _ => text,
    }
}

/// Returns the text of a service binding with quotation marks only around values that need them, as PowerDNS
/// writes it.
fn without_quotes(text: &str) -> String {
    let plain = |token: &Token<'_>| {
        let text = String::from_utf8_lossy(token.bytes).into_owned();
        match text.split_once("=\"").and_then(|(key, value)| Some((key, value.strip_suffix('"')?))) {
            Some((key, value)) if !value.is_empty() && value.bytes().all(is_plain) => {
                format!("{key}={value}")
            }
            _ => text,
        }
    };
    tokens(text).map(|token| plain(&token)).collect::<Vec<_>>().join(" ")
}

/// Whether a byte of a service parameter needs no quotation marks.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b",.:/-_+=[]".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::NameBuf;

    fn again(rtype: &str, content: &str) -> Result<String, Refused> {
        let owner: NameBuf = "x.example.".parse().expect("a name");
        let rtype: Type = Type::from_text(rtype.as_bytes()).expect("a type");
        read(owner.as_name(), rtype, content).map(|rdata| shown(rtype, &rdata))
    }

    #[test]
    fn contents_are_read_and_written_as_powerdns_writes_them() {
        for (rtype, content, expected) in [
            ("A", " 192.0.2.1", "192.0.2.1"),
            ("HTTPS", "1 . alpn=\"h2,h3\" port=443", "1 . alpn=h2,h3 port=443"),
            ("TLSA", "3 1 1 ABcd", "3 1 1 abcd"),
            ("SVCB", "0 a\\032b.", "0 a\\032b."),
            ("AAAA", "2001:DB8:0:0::1", "2001:db8::1"),
            ("MX", "10  mail.example. ", "10 mail.example."),
            ("TXT", "\"a b\" \"c\"", "\"a b\" \"c\""),
            ("CAA", "0 issue \"ca.example\"", "0 issue \"ca.example\""),
            ("SRV", "1 2 3 _t.example.", "1 2 3 _t.example."),
            (
                "NAPTR",
                r#"100 10 "u" "sip+E2U" "!^.*$!sip:a@b!" ."#,
                r#"100 10 "u" "sip+E2U" "!^.*$!sip:a@b!" ."#,
            ),
            ("SOA", "a. b@c. 1 2 3 4 5", "a. b\\@c. 1 2 3 4 5"),
            ("TYPE65280", "\\# 2 abcd", "\\# 2 abcd"),
        ] {
            assert_eq!(again(rtype, content).as_deref(), Ok(expected), "{rtype} {content}");
        }
    }

    #[test]
    fn contents_with_faults_are_refused() {
        for (rtype, content) in [
            ("A", "192.0.2.999"),
            ("A", ""),
            ("A", "192.0.2.1\n"),
            ("CNAME", "relative"),
            ("TXT", "unquoted"),
            ("TXT", ""),
            ("MX", "10 mail@example."),
            ("MX", "mail.example."),
        ] {
            assert_eq!(again(rtype, content).expect_err(content).status.as_u16(), 422, "{rtype} {content}");
        }
    }
}
