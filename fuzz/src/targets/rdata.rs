//! RDATA of every type, wire → text → wire. The first two bytes are the type.
//!
//! RFC 3597 §3: "name servers and resolvers MUST handle RRs of unknown type transparently", and §5 defines a
//! text for any RDATA; so RDATA that is valid for its type has a text, which reads back as the same bytes.

use wire::rdata::{MAX_RDATA, canonical, embedded_names, parse_text, validate, write_text};
use wire::text::tokens;
use wire::{Name, Type};

pub(crate) fn run(data: &[u8]) {
    let Some(([high, low], rdata)) = data.split_first_chunk::<2>() else { return };
    if rdata.len() > MAX_RDATA {
        return;
    }
    let rtype = Type(u16::from_be_bytes([*high, *low]));
    let good = validate(rtype, rdata).is_ok();

    let mut text = String::new();
    write_text(rtype, rdata, &mut text).expect("a String takes everything");
    let list: Vec<_> = tokens(&text).collect();
    let mut again = Vec::new();
    let read = parse_text(rtype, &list, None, &mut again);
    if !good {
        return;
    }
    assert_eq!(read, Ok(()), "{rtype} {text}");
    assert_eq!(again, rdata, "{rtype} {text}");

    let mut end = 0;
    for name in embedded_names(rtype, rdata) {
        assert!(name.start >= end, "names come in order and do not overlap");
        end = name.start + name.len;
        assert!(Name::from_wire(&rdata[name.start..end]).is_ok());
    }

    // RFC 4034 §6.2: the canonical form only changes letters in names.
    let mut form = rdata.to_vec();
    canonical(rtype, &mut form);
    assert!(form.eq_ignore_ascii_case(rdata));
    assert_eq!(validate(rtype, &form), Ok(()));
    let once = form.clone();
    canonical(rtype, &mut form);
    assert_eq!(form, once);
}
