//! Domain names between wire format and text.
//!
//! RFC 4343 §2.1: "an escape is needed for the byte value for period (0x2E, ".") and all octet values outside
//! of the inclusive range from 0x21 ("!") to 0x7E ("~")": with it every name has a text that reads back as
//! the same bytes. RFC 4034 §6.1: "owner names are ordered by treating individual labels as unsigned
//! left-justified octet strings", from the right, and "uppercase US-ASCII letters are treated as if they were
//! lowercase US-ASCII letters".

use wire::name::{MAX_LABEL, MAX_NAME, Name, NameBuf};

pub(crate) fn run(data: &[u8]) {
    if let Ok(name) = Name::parse(data) {
        well_formed(name);
        let text = name.to_string();
        let again = NameBuf::from_text(text.as_bytes(), None).expect("our own text is absolute and reads");
        assert_eq!(again.as_name().as_wire(), name.as_wire(), "{text}");

        if let Ok(second) = Name::parse(&data[name.len()..]) {
            assert_eq!(name.canonical_cmp(second), reference_key(name).cmp(&reference_key(second)));
            assert_eq!(name == second, reference_key(name) == reference_key(second));
            let below = reference_key(name).starts_with(&reference_key(second));
            assert_eq!(name.is_at_or_below(second), below);
        }
    }
    if let Ok(name) = NameBuf::from_text(data, Some(Name::ROOT)) {
        well_formed(name.as_name());
        let again = NameBuf::from_text(name.to_string().as_bytes(), None).expect("our own text reads");
        assert_eq!(again.as_name().as_wire(), name.as_name().as_wire());
    }
}

/// RFC 1035 §2.3.4: labels of 63 octets or less, names of 255 octets or less.
fn well_formed(name: Name<'_>) {
    assert!(name.len() <= MAX_NAME);
    assert!(name.labels().all(|label| (1..=MAX_LABEL).contains(&label.len())));
    let bytes: usize = name.labels().map(|label| label.len() + 1).sum();
    assert_eq!(bytes + 1, name.len());
}

/// A sort key with the order of RFC 4034 §6.1.
fn reference_key(name: Name<'_>) -> Vec<Vec<u8>> {
    let mut labels: Vec<Vec<u8>> = name.labels().map(<[u8]>::to_ascii_lowercase).collect();
    labels.reverse();
    labels
}
