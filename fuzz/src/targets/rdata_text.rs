//! Text of RDATA of every type, text → wire → text → wire. The first two bytes are the type.
//!
//! RFC 1035 §5.1: "\DDD" is "the octet corresponding to the decimal number described by DDD" and "is not
//! checked for special meaning": an accepted text yields RDATA that is valid for its type, and the text
//! written for that reads back as the same RDATA.

use wire::rdata::{parse_text, validate, write_text};
use wire::text::tokens;
use wire::{Name, Type};

pub(crate) fn run(data: &[u8]) {
    let Some(([high, low], text)) = data.split_first_chunk::<2>() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let rtype = Type(u16::from_be_bytes([*high, *low]));
    let origin = Name::from_wire(b"\x07example\x03com\0").expect("a name");

    let before = vec![0xaa; 3];
    let mut out = before.clone();
    let list: Vec<_> = tokens(text).collect();
    if parse_text(rtype, &list, Some(origin), &mut out).is_err() {
        assert_eq!(out, before, "a text that is refused leaves nothing behind");
        return;
    }
    let rdata = out.split_off(before.len());
    assert_eq!(out, before);
    assert_eq!(validate(rtype, &rdata), Ok(()), "{rtype} {text}");

    let mut written = String::new();
    write_text(rtype, &rdata, &mut written).expect("a String takes everything");
    let mut again = Vec::new();
    let list: Vec<_> = tokens(&written).collect();
    assert_eq!(parse_text(rtype, &list, None, &mut again), Ok(()), "{rtype} {written}");
    assert_eq!(again, rdata, "{rtype} {written}");
}
