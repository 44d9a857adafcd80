//! Header sections (QPACK, RFC 9204), with the static table alone.

use super::code::{H3Code, H3Fault};
use super::huffman;
use super::static_table::STATIC_TABLE;

/// Most bytes of a header section: of names and values, and 32 for each field (RFC 9114 §4.2.2).
pub(crate) const MAX_FIELDS: usize = 16 * 1024;
/// Bytes that a field counts beside its name and value.
const FIELD_OVERHEAD: usize = 32;

/// Indexes of the static table that responses need.
const CONTENT_LENGTH: usize = 4;
const STATUS: usize = 24;
const CACHE_CONTROL: usize = 36;
const CONTENT_TYPE: usize = 44;

/// A header section that cannot be read.
const FAILED: H3Fault = H3Fault::connection(H3Code::Decompression, "a header section cannot be decompressed");
/// A header section that refers to the dynamic table, which has no entries.
const DYNAMIC: H3Fault =
    H3Fault::connection(H3Code::Decompression, "a header section refers to the dynamic table");
/// A header section that is longer than the limit.
pub(super) const TOO_LARGE: H3Fault =
    H3Fault::stream(H3Code::ExcessiveLoad, "the header section is too large");

/// A name and a value.
pub(super) type Field = (Vec<u8>, Vec<u8>);

/// Reads a header section.
///
/// # Errors
/// The fault of the client.
pub(super) fn fields(section: &[u8]) -> Result<Vec<Field>, H3Fault> {
    let mut rest = section;
    // Required Insert Count and Delta Base: there is nothing that can be required.
    if integer(&mut rest, 8)? != 0 {
        return Err(DYNAMIC);
    }
    let is_negative = rest.first().is_some_and(|byte| byte & 0x80 != 0);
    integer(&mut rest, 7)?;
    if is_negative {
        return Err(FAILED);
    }
    let (mut fields, mut size) = (Vec::new(), 0);
    while let Some(&first) = rest.first() {
        let most = MAX_FIELDS - size;
        let (name, value) = match first {
            0x80.. => {
                let (name, value) = entry(&mut rest, 6, first & 0x40 != 0)?;
                (name.as_bytes().to_vec(), value.as_bytes().to_vec())
            }
            0x40.. => {
                let (name, _) = entry(&mut rest, 4, first & 0x10 != 0)?;
                (name.as_bytes().to_vec(), string(&mut rest, 7, most)?)
            }
            0x20.. => {
                let name = string(&mut rest, 3, most)?;
                (name, string(&mut rest, 7, most)?)
            }
            _ => return Err(DYNAMIC),
        };
        size += name.len() + value.len() + FIELD_OVERHEAD;
        if size > MAX_FIELDS {
            return Err(TOO_LARGE);
        }
        fields.push((name, value));
    }
    Ok(fields)
}

/// Reads an index of a table, in the last `prefix` bits of the first byte.
fn entry(rest: &mut &[u8], prefix: u32, is_static: bool) -> Result<(&'static str, &'static str), H3Fault> {
    let index = integer(rest, prefix)?;
    if !is_static {
        return Err(DYNAMIC);
    }
    usize::try_from(index).ok().and_then(|index| STATIC_TABLE.get(index)).copied().ok_or(FAILED)
}

/// Reads an integer (RFC 7541 §5.1) in the last `prefix` bits of the first byte and those that follow.
fn integer(rest: &mut &[u8], prefix: u32) -> Result<u64, H3Fault> {
    let mask = u8::try_from((1_u32 << prefix) - 1).unwrap_or(u8::MAX);
    let (&first, mut bytes) = rest.split_first().ok_or(FAILED)?;
    let mut value = u64::from(first & mask);
    if first & mask == mask {
        let mut shift = 0;
        loop {
            let (&byte, behind) = bytes.split_first().ok_or(FAILED)?;
            bytes = behind;
            // RFC 9204 §4.1.1: integers of up to 62 bits; what is used here is far shorter.
            if shift > 28 {
                return Err(FAILED);
            }
            value += u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    *rest = bytes;
    Ok(value)
}

/// Reads a string of up to `most` bytes, whose length is in the last `prefix` bits, behind the bit of the
/// Huffman code.
fn string(rest: &mut &[u8], prefix: u32, most: usize) -> Result<Vec<u8>, H3Fault> {
    let is_coded = rest.first().ok_or(FAILED)? >> prefix & 1 == 1;
    let len = usize::try_from(integer(rest, prefix)?).map_err(|_| FAILED)?;
    let (bytes, behind) = rest.split_at_checked(len).ok_or(FAILED)?;
    *rest = behind;
    match is_coded {
        _ if !is_coded && len > most => Err(TOO_LARGE),
        false => Ok(bytes.to_vec()),
        true => {
            let mut text = Vec::new();
            match huffman::decode(bytes, most, &mut text) {
                Some(()) => Ok(text),
                None if text.len() == most => Err(TOO_LARGE),
                None => Err(FAILED),
            }
        }
    }
}

/// Returns the header section of a response: its status, these fields, and the length of its body.
pub(crate) fn response<'f>(
    status: u16,
    fields: impl Iterator<Item = (&'f str, &'f [u8])>,
    body: usize,
) -> Vec<u8> {
    // Nothing is required of the dynamic table.
    let mut section = vec![0, 0];
    let digits = status.to_string();
    match STATIC_TABLE.iter().position(|field| *field == (":status", &*digits)) {
        Some(index) => put_integer(&mut section, 0xc0, 6, index),
        None => put_indexed_name(&mut section, STATUS, digits.as_bytes()),
    }
    for (name, value) in fields {
        match name {
            "content-type" if value == STATIC_TABLE[CONTENT_TYPE].1.as_bytes() => {
                put_integer(&mut section, 0xc0, 6, CONTENT_TYPE);
            }
            "content-type" => put_indexed_name(&mut section, CONTENT_TYPE, value),
            "cache-control" => put_indexed_name(&mut section, CACHE_CONTROL, value),
            name => {
                put_integer(&mut section, 0x20, 3, name.len());
                section.extend_from_slice(name.as_bytes());
                put_integer(&mut section, 0, 7, value.len());
                section.extend_from_slice(value);
            }
        }
    }
    put_indexed_name(&mut section, CONTENT_LENGTH, body.to_string().as_bytes());
    section
}

/// Adds a field whose name is in the static table.
fn put_indexed_name(section: &mut Vec<u8>, index: usize, value: &[u8]) {
    put_integer(section, 0x50, 4, index);
    put_integer(section, 0, 7, value.len());
    section.extend_from_slice(value);
}

/// Adds an integer in the last `prefix` bits of a byte that begins with `first`.
fn put_integer(section: &mut Vec<u8>, first: u8, prefix: u32, value: usize) {
    let most = (1_usize << prefix) - 1;
    if value < most {
        section.push(first | value as u8);
        return;
    }
    section.push(first | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        section.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    section.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(fields: Vec<Field>) -> Vec<(String, String)> {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        fields.into_iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    #[test]
    fn the_example_of_the_rfc_is_read() {
        // RFC 9204 Appendix B.1.
        let section = b"\0\0\x51\x0b/index.html";
        let read = texts(fields(section).expect("good"));
        assert_eq!(read, [(":path".to_owned(), "/index.html".to_owned())]);
    }

    #[test]
    fn every_form_of_a_field_is_read() {
        // Indexed (:method POST), a name of the table with a Huffman code, and a literal name.
        let section = b"\0\x05\xd4\x50\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff\x23a-b\x03xyz";
        let read = texts(fields(section).expect("good"));
        let expected = [(":method", "POST"), (":authority", "www.example.com"), ("a-b", "xyz")];
        assert_eq!(read, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        // Each end of the section but those between fields is a fault.
        let whole: Vec<usize> = (0..section.len()).filter(|&len| fields(&section[..len]).is_ok()).collect();
        assert_eq!(whole, [2, 3, 17]);
    }

    #[test]
    fn the_dynamic_table_is_empty() {
        for section in [&b"\x02\0"[..], b"\0\x80", b"\0\0\x80", b"\0\0\x40\x01a", b"\0\0\x10", b"\0\0\0\x01a"]
        {
            let fault = fields(section).expect_err("a fault");
            assert_eq!((fault.code, fault.ends_connection), (H3Code::Decompression, true), "{section:x?}");
        }
        // Beyond the static table, and an integer that does not end.
        for section in [&b"\0\0\xff\x24"[..], b"\0\0\xff\xff\xff\xff\xff\xff\xff\x7f"] {
            assert_eq!(fields(section), Err(FAILED));
        }
        assert_eq!(
            fields(b"\0\0\xff\x23").map(texts),
            Ok(vec![("x-frame-options".into(), "sameorigin".into())])
        );
    }

    #[test]
    fn large_sections_are_refused() {
        let field = |len: usize| {
            let mut section = vec![0, 0];
            put_integer(&mut section, 0x20, 3, 1);
            section.push(b'a');
            put_integer(&mut section, 0, 7, len);
            section.resize(section.len() + len, b'b');
            section
        };
        assert!(fields(&field(MAX_FIELDS - 33)).is_ok());
        assert_eq!(fields(&field(MAX_FIELDS - 32)), Err(TOO_LARGE));
        // Indexed fields are a byte each, and count as long as they are.
        assert_eq!(fields(&[&[0, 0][..], &[0xd1; 400]].concat()), Err(TOO_LARGE));
    }

    #[test]
    fn responses_are_read_back() {
        let given =
            [("content-type", "application/dns-message"), ("cache-control", "max-age=60"), ("allow", "GET")];
        for status in [200, 404, 400, 415] {
            let section =
                response(status, given.iter().map(|(name, value)| (*name, value.as_bytes())), 65_535);
            let read = texts(fields(&section).expect("good"));
            assert_eq!(read[0], (":status".to_owned(), status.to_string()));
            let rest = given.iter().chain([&("content-length", "65535")]);
            let rest: Vec<_> = rest.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            assert_eq!(read[1..], rest);
        }
    }

    proptest! {
        #[test]
        fn any_section_is_read_or_refused(section in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(fields) = fields(&section) {
                let size: usize = fields.iter().map(|(name, value)| name.len() + value.len() + 32).sum();
                prop_assert!(size <= MAX_FIELDS);
            }
        }

        #[test]
        fn integers_come_back(value in 0..1_usize << 28, prefix in 3..8_u32) {
            let mut bytes = Vec::new();
            put_integer(&mut bytes, 0, prefix, value);
            let mut rest = &bytes[..];
            prop_assert_eq!(integer(&mut rest, prefix), Ok(value as u64));
            prop_assert!(rest.is_empty());
        }
    }
}
