//! Text to wire: the fields of a type read from tokens, and the generic form of RFC 3597.

use super::bitmap;
use super::fault::{TextFault, TextFaultKind};
use super::field::{Field, Kind};
use super::mnemonic;
use super::{MAX_RDATA, layout, validate};
use crate::name::Name;
use crate::rr::Type;
use crate::text::{self, Base32Hex, Base64, Hex, Token};

/// The tokens of a record's RDATA, and the read position.
///
/// A fault is at the token taken last; all methods maintain this.
pub struct Cursor<'t, 'a> {
    tokens: &'t [Token<'a>],
    next: usize,
    origin: Option<Name<'t>>,
}

impl<'t, 'a> Cursor<'t, 'a> {
    /// Whether all tokens have been taken.
    #[inline]
    pub fn at_end(&self) -> bool {
        self.next == self.tokens.len()
    }

    /// Index of the next token.
    pub(super) fn position(&self) -> usize {
        self.next
    }

    /// Moves back to the token at `position`.
    pub(super) fn go_back_to(&mut self, position: usize) {
        self.next = position;
    }

    /// Takes a token, quoted or not.
    #[inline]
    pub fn token(&mut self) -> Result<Token<'a>, TextFaultKind> {
        let token = *self.tokens.get(self.next).ok_or(TextFaultKind::Missing)?;
        self.next += 1;
        Ok(token)
    }

    /// Takes a token that must not be quoted.
    #[inline]
    pub fn word(&mut self) -> Result<&'a [u8], TextFaultKind> {
        let token = self.token()?;
        if token.quoted { Err(TextFaultKind::Quoted) } else { Ok(token.bytes) }
    }

    /// Takes a decimal number up to `max`.
    #[inline]
    pub fn number(&mut self, max: u64) -> Result<u64, TextFaultKind> {
        let word = self.word()?;
        match text::decimal(word) {
            Some(value) if value <= max => Ok(value),
            None if word.is_empty() || !word.iter().all(u8::is_ascii_digit) => Err(TextFaultKind::NotANumber),
            _ => Err(TextFaultKind::OutOfRange { min: 0, max }),
        }
    }

    /// Takes a record type's mnemonic or `TYPEn`.
    #[inline]
    pub fn rtype(&mut self) -> Result<Type, TextFaultKind> {
        Type::from_text(self.word()?).map_err(|_| TextFaultKind::BadType)
    }

    /// Takes a domain name and appends it.
    #[inline]
    pub fn name(&mut self, out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
        text::name(self.word()?, self.origin, out).map_err(TextFaultKind::Name)
    }

    /// Takes a character-string and appends it with its length byte.
    #[inline]
    pub fn string(&mut self, out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
        let token = self.token()?;
        if !token.quoted && token.bytes.last() == Some(&b'"') && has_stray_quote(token.bytes) {
            return Err(TextFaultKind::StrayQuote);
        }
        let start = out.len();
        out.push(0);
        text::unescape(token.bytes, out)?;
        out[start] = u8::try_from(out.len() - start - 1).map_err(|_| TextFaultKind::StringTooLong)?;
        Ok(())
    }

    /// Takes all remaining tokens as one base64 text of at least `least` bytes.
    #[inline]
    pub fn base64_to_end(&mut self, least: usize, out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
        let start = out.len();
        let mut reader = Base64::default();
        while !self.at_end() {
            reader.feed(self.word()?, out).map_err(|_| TextFaultKind::BadBase64)?;
        }
        reader.finish().map_err(|_| TextFaultKind::BadBase64)?;
        if out.len() - start < least { Err(TextFaultKind::Missing) } else { Ok(()) }
    }

    /// Takes all remaining tokens as one hex text of at least `least` bytes.
    #[inline]
    pub fn hex_to_end(&mut self, least: usize, out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
        let start = out.len();
        let mut reader = Hex::default();
        while !self.at_end() {
            reader.feed(self.word()?, out)?;
        }
        reader.finish()?;
        if out.len() - start < least { Err(TextFaultKind::Missing) } else { Ok(()) }
    }

    /// Takes one token of hex and appends it after a length byte; `-` means none.
    fn sized_hex(&mut self, out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
        let word = self.word()?;
        let start = out.len();
        out.push(0);
        if word != b"-" {
            hex_word(word, out)?;
        }
        out[start] = u8::try_from(out.len() - start - 1).map_err(|_| TextFaultKind::StringTooLong)?;
        Ok(())
    }

    /// Takes one token of base32hex and appends it after a length byte.
    fn sized_base32(&mut self, out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
        let word = self.word()?;
        let start = out.len();
        out.push(0);
        Base32Hex::decode(word, out).map_err(|_| TextFaultKind::BadBase32)?;
        if word.is_empty() {
            return Err(TextFaultKind::BadBase32);
        }
        out[start] = u8::try_from(out.len() - start - 1).map_err(|_| TextFaultKind::StringTooLong)?;
        Ok(())
    }

    /// Takes a length and, unless it is 0, a token of base64 with that many bytes.
    fn sized_base64(&mut self, out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
        let size = self.number(u16::MAX as u64)?;
        out.extend_from_slice(&(size as u16).to_be_bytes());
        if size == 0 {
            return Ok(());
        }
        let start = out.len();
        let mut reader = Base64::default();
        reader.feed(self.word()?, out).map_err(|_| TextFaultKind::BadBase64)?;
        reader.finish().map_err(|_| TextFaultKind::BadBase64)?;
        let fits = out.len() - start == size as usize;
        if fits { Ok(()) } else { Err(TextFaultKind::BadForm("as long as the length in front of it")) }
    }

    /// Takes hex digits in groups of `group` bytes, `bytes` in total.
    fn grouped(
        &mut self,
        bytes: usize,
        group: usize,
        separator: u8,
        out: &mut Vec<u8>,
    ) -> Result<(), TextFaultKind> {
        let word = self.word()?;
        let start = out.len();
        for part in word.split(|&byte| byte == separator) {
            if part.len() != group * 2 {
                return Err(TextFaultKind::BadHex);
            }
            hex_word(part, out)?;
        }
        if out.len() - start == bytes { Ok(()) } else { Err(TextFaultKind::BadHex) }
    }
}

/// Whether a token that did not start with a quotation mark has an unescaped one, as in `key="value"`.
#[cold]
fn has_stray_quote(mut text: &[u8]) -> bool {
    loop {
        text = match text {
            [] => return false,
            [b'"', ..] => return true,
            [b'\\', _, rest @ ..] | [_, rest @ ..] => rest,
        }
    }
}

/// Appends the bytes of one complete hex text.
pub(super) fn hex_word(word: &[u8], out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
    let mut reader = Hex::default();
    reader.feed(word, out)?;
    Ok(reader.finish()?)
}

/// Parses a record's RDATA; `out` may have grown on an error.
#[inline]
pub(super) fn record_data(
    t: Type,
    tokens: &[Token<'_>],
    origin: Option<Name<'_>>,
    out: &mut Vec<u8>,
) -> Result<(), TextFault> {
    let start = out.len();
    let mut cursor = Cursor { tokens, next: 0, origin };
    if let [Token { bytes: b"\\#", quoted: false }, ..] = tokens {
        return generic(t, &mut cursor, out);
    }
    let whole = |token, kind| TextFault { token, field: "", kind };
    let layout = layout(t).ok_or(whole(0, TextFaultKind::OnlyGeneric))?;
    for field in layout.fields {
        parse_field(field, &mut cursor, out).map_err(|kind| fault(field.name, &cursor, kind))?;
    }
    if !cursor.at_end() {
        return Err(whole(cursor.next, TextFaultKind::Extra));
    }
    if out.len() - start > MAX_RDATA {
        return Err(whole(tokens.len().saturating_sub(1), TextFaultKind::TooLong));
    }
    if let Some(check) = layout.check {
        check(&out[start..])
            .map_err(|rule| whole(tokens.len().saturating_sub(1), TextFaultKind::Rule(rule)))?;
    }
    Ok(())
}

/// A fault at the token taken last, or at the end if a token is missing.
#[cold]
fn fault(field: &'static str, cursor: &Cursor<'_, '_>, kind: TextFaultKind) -> TextFault {
    let token = if kind == TextFaultKind::Missing { cursor.next } else { cursor.next.saturating_sub(1) };
    TextFault { token, field, kind }
}

#[inline]
fn parse_field(field: &Field, cursor: &mut Cursor<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
    match field.kind {
        Kind::Name(_) => cursor.name(out)?,
        Kind::Ipv4 => out.extend_from_slice(&text::ipv4(cursor.word()?).ok_or(TextFaultKind::BadIpv4)?),
        Kind::Ipv6 => out.extend_from_slice(&text::ipv6(cursor.word()?).ok_or(TextFaultKind::BadIpv6)?),
        Kind::U8 => out.push(cursor.number(u8::MAX as u64)? as u8),
        Kind::U16 => out.extend_from_slice(&(cursor.number(u16::MAX as u64)? as u16).to_be_bytes()),
        Kind::U32 => out.extend_from_slice(&(cursor.number(u32::MAX as u64)? as u32).to_be_bytes()),
        Kind::U64 => out.extend_from_slice(&cursor.number(u64::MAX)?.to_be_bytes()),
        Kind::String => cursor.string(out)?,
        Kind::Strings => {
            cursor.string(out)?;
            while !cursor.at_end() {
                cursor.string(out)?;
            }
        }
        Kind::Duration => {
            let seconds = text::duration(cursor.word()?).ok_or(TextFaultKind::BadDuration)?;
            out.extend_from_slice(&seconds.to_be_bytes());
        }
        Kind::Time => {
            let seconds = text::time(cursor.word()?).ok_or(TextFaultKind::BadTime)?;
            out.extend_from_slice(&seconds.to_be_bytes());
        }
        Kind::Type => out.extend_from_slice(&cursor.rtype()?.0.to_be_bytes()),
        Kind::TypeBitmap => bitmap::parse(cursor, out)?,
        Kind::Base64(least) => cursor.base64_to_end(least, out)?,
        Kind::Hex(least) => cursor.hex_to_end(least, out)?,
        Kind::SizedHex => cursor.sized_hex(out)?,
        Kind::SizedBase32 => cursor.sized_base32(out)?,
        Kind::Mnemonic8(list) | Kind::Mnemonic8Named(list) => {
            out.push(mnemonic::parse(cursor, list, u8::MAX as u64)? as u8)
        }
        Kind::Mnemonic16(list) => {
            let number = mnemonic::parse(cursor, list, u16::MAX as u64)?;
            out.extend_from_slice(&(number as u16).to_be_bytes());
        }
        _ => return parse_rare_field(field, cursor, out),
    }
    Ok(())
}

fn parse_rare_field(
    field: &Field,
    cursor: &mut Cursor<'_, '_>,
    out: &mut Vec<u8>,
) -> Result<(), TextFaultKind> {
    match field.kind {
        Kind::Names(_) => {
            while !cursor.at_end() {
                cursor.name(out)?;
            }
        }
        Kind::OptionalString if cursor.at_end() => {}
        Kind::OptionalString => cursor.string(out)?,
        Kind::Tag => {
            let word = cursor.word()?;
            if word.is_empty() || !word.iter().all(u8::is_ascii_alphanumeric) {
                return Err(TextFaultKind::BadForm("letters and digits only"));
            }
            out.push(u8::try_from(word.len()).map_err(|_| TextFaultKind::StringTooLong)?);
            out.extend_from_slice(word);
        }
        Kind::LongString(least) => {
            let start = out.len();
            text::unescape(cursor.token()?.bytes, out)?;
            if out.len() - start < least {
                return Err(TextFaultKind::BadForm("a string with anything in it"));
            }
        }
        Kind::Base64OrDash => {
            let start = cursor.position();
            if cursor.word()? != b"-" {
                cursor.go_back_to(start);
                cursor.base64_to_end(1, out)?;
            }
        }
        Kind::SizedBase64 => cursor.sized_base64(out)?,
        Kind::Grouped { bytes, group, separator } => cursor.grouped(bytes, group, separator, out)?,
        Kind::Special(special) => special.parse(cursor, out)?,
        _ => {
            cursor.token()?;
            return Err(TextFaultKind::OnlyGeneric);
        }
    }
    Ok(())
}

/// `\# length hex…` (RFC 3597 §5), for every type; RDATA of known types must be valid.
#[cold]
fn generic(t: Type, cursor: &mut Cursor<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextFault> {
    let start = out.len();
    cursor.next = 1;
    let declared = cursor.number(u64::MAX).map_err(|kind| fault("length", cursor, kind))?;
    if declared > MAX_RDATA as u64 {
        return Err(fault("length", cursor, TextFaultKind::OutOfRange { min: 0, max: MAX_RDATA as u64 }));
    }
    cursor.hex_to_end(0, out).map_err(|kind| fault("data", cursor, kind))?;
    let found = out.len() - start;
    if found as u64 != declared {
        return Err(fault("length", cursor, TextFaultKind::GenericLength { declared, found }));
    }
    validate(t, &out[start..]).map_err(|_| fault("data", cursor, TextFaultKind::GenericMalformed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::NameTextError;
    use crate::rdata::testing::{both, parse_at, reads};

    #[test]
    fn generic_form_serves_known_and_unknown_types() {
        // RFC 3597 §5's examples.
        both(Type(731), r"\# 6 ABCDEF012345", &[0xab, 0xcd, 0xef, 0x01, 0x23, 0x45]);
        reads(Type(731), r"\# 6 abcd ef01 23 45", &[0xab, 0xcd, 0xef, 0x01, 0x23, 0x45]);
        both(Type(731), r"\# 0", b"");
        reads(Type::A, r"\# 4 0A000001", &[10, 0, 0, 1]);
        let fault = |text| parse_at(Type::A, text).map_err(|(_, kind)| kind);
        assert_eq!(fault(r"\# 3 0A0000"), Err(TextFaultKind::GenericMalformed));
        assert_eq!(fault(r"\# 4 0A0000"), Err(TextFaultKind::GenericLength { declared: 4, found: 3 }));
        assert_eq!(fault(r"\# 4 0A00000"), Err(TextFaultKind::BadHex));
        assert_eq!(fault(r"\#"), Err(TextFaultKind::Missing));
        assert_eq!(fault(r"\# 65536 00"), Err(TextFaultKind::OutOfRange { min: 0, max: 65_535 }));
        assert_eq!(parse_at(Type(731), "x"), Err((0, TextFaultKind::OnlyGeneric)));
    }

    #[test]
    fn faults_name_their_token() {
        assert_eq!(parse_at(Type::MX, "10"), Err((1, TextFaultKind::Missing)));
        assert_eq!(parse_at(Type::MX, "10 a b"), Err((2, TextFaultKind::Extra)));
        assert_eq!(parse_at(Type::MX, "x a"), Err((0, TextFaultKind::NotANumber)));
        assert_eq!(parse_at(Type::MX, "-1 a"), Err((0, TextFaultKind::NotANumber)));
        assert_eq!(
            parse_at(Type::MX, "65536 a"),
            Err((0, TextFaultKind::OutOfRange { min: 0, max: 65_535 }))
        );
        assert_eq!(parse_at(Type::MX, "1 \"a\""), Err((1, TextFaultKind::Quoted)));
        assert_eq!(parse_at(Type::MX, "1 a..b"), Err((1, TextFaultKind::Name(NameTextError::EmptyLabel))));
        let long = ["\"x\""; 40_000].join(" ");
        assert_eq!(parse_at(Type::TXT, &long), Err((39_999, TextFaultKind::TooLong)));
    }
}
