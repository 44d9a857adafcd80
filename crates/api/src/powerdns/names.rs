//! Names of zones and records as PowerDNS writes them: absolute names, ids of zones in paths, and variants.
//!
//! The id of a zone is its name with every byte but letters, digits, `.` and `-` as `=XX`. A zone of a view
//! has the name `ZONE..VIEW`, which PowerDNS calls a variant.

use std::fmt::Write as _;

use wire::{Name, NameBuf, Type, ViewName, ZoneName};

use super::fault::Refused;

/// Returns the name in a text, which must be absolute and have only the characters that PowerDNS allows.
///
/// # Errors
/// It is relative, no name, or has other characters.
pub(super) fn absolute(text: &str) -> Result<NameBuf, Refused> {
    if !text.ends_with('.') {
        return Err(Refused::unfit(format!("DNS Name '{text}' is not canonical: it has no dot at the end")));
    }
    let name = NameBuf::from_text(text.as_bytes(), None)
        .map_err(|fault| Refused::unfit(format!("Unable to parse DNS Name '{text}': {fault}")))?;
    let rest = name.as_name();
    let rest = if rest.is_wildcard() { rest.parent().unwrap_or(rest) } else { rest };
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'/');
    match rest.labels().all(|label| label.iter().all(is_plain)) {
        true => Ok(name),
        false => Err(Refused::unfit(format!("Name '{name}' contains unsupported characters"))),
    }
}

/// Returns the zone that a text names, as `ZONE.` or `ZONE..VIEW`.
///
/// # Errors
/// As [`absolute`], and a text after `..` that cannot be the name of a view.
pub(super) fn zone(text: &str) -> Result<ZoneName, Refused> {
    let (name, view) = split(text);
    let view = match view {
        None => None,
        Some(view) => {
            let fault =
                || Refused::unfit(format!("Unable to parse Zone Name '{text}': no view has that name"));
            ViewName::split(&format!("x@{view}"))
                .ok()
                .and_then(|(_, view)| view)
                .ok_or_else(fault)
                .map(Some)?
        }
    };
    let name = absolute(name)?;
    Ok(ZoneName::in_view(name.as_name().to_lower().as_lower(), view.as_ref()))
}

/// Splits `ZONE..VIEW`; the name keeps its final dot.
fn split(text: &str) -> (&str, Option<&str>) {
    match text.rfind("..") {
        // `a..example.` has an empty label, and no view.
        Some(at) if !text[at + 2..].contains('.') && !text[at + 2..].is_empty() => {
            (&text[..=at], Some(&text[at + 2..]))
        }
        _ => (text, None),
    }
}

/// Returns the name of a zone in replies.
pub(super) fn shown(apex: &ZoneName) -> String {
    let name = apex.as_name().to_string();
    match apex.view() {
        Some(view) => format!("{name}.{view}"),
        None => name,
    }
}

/// Returns the id of a zone.
pub(super) fn id(apex: &ZoneName) -> String {
    id_of(&shown(apex))
}

/// Returns the id of the zone with a name as in replies.
pub(super) fn id_of(name: &str) -> String {
    if name == "." {
        return "=2E".to_owned();
    }
    let mut id = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' => id.push(byte.into()),
            // Writing to a `String` cannot fail.
            _ => drop(write!(id, "={byte:02X}")),
        }
    }
    id
}

/// Returns the name of a zone in an id from a path, whose percent-encoding is gone.
///
/// # Errors
/// [`Refused::bad_request`] if an escape is malformed, [`Refused::not_found`] if no zone has such an id.
pub(super) fn zone_of_id(id: &str) -> Result<ZoneName, Refused> {
    let mut bytes = Vec::with_capacity(id.len());
    let mut rest = id.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'=' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let value = digit().and_then(|high| Some(high * 16 + digit()?));
                bytes
                    .push(value.and_then(|value| u8::try_from(value).ok()).ok_or_else(Refused::bad_request)?);
            }
            byte => bytes.push(byte),
        }
    }
    let mut text = String::from_utf8(bytes).map_err(|_| Refused::not_found())?;
    if !text.ends_with('.') && !text.contains("..") {
        text.push('.');
    }
    zone(&text).map_err(|_| Refused::not_found())
}

/// Returns a name that this server has written.
pub(super) fn any(text: &str) -> Option<NameBuf> {
    NameBuf::from_text(text.as_bytes(), None).ok()
}

/// Returns the type in a text.
pub(super) fn rtype(text: &str) -> Option<Type> {
    Type::from_text(text.as_bytes()).ok()
}

/// Returns an RRset in messages.
pub(super) fn rrset(owner: Name<'_>, rtype: Type) -> String {
    format!("RRset {owner} IN {rtype}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_must_be_absolute_and_plain() {
        assert_eq!(absolute("*.Example.").expect("a name").to_string(), "*.Example.");
        assert!(absolute("foo/bar._x.example.").is_ok());
        assert!(absolute(".").is_ok());
        for bad in [
            "example",
            "",
            "a..b.",
            "a:b.example.",
            "a b.",
            "x.*.example.",
            "a@b.example.",
            "é.example.",
            r"a\.b.",
        ] {
            assert_eq!(absolute(bad).expect_err(bad).status.as_u16(), 422, "{bad}");
        }
    }

    #[test]
    fn ids_lead_back_to_their_zones() {
        for (name, expected) in [
            ("foo/Bar.example.", "foo=2Fbar.example."),
            (".", "=2E"),
            ("a_b.example..inside", "a=5Fb.example..inside"),
        ] {
            let apex = zone(name).expect("a zone");
            assert_eq!(id(&apex), expected);
            assert_eq!(zone_of_id(&id(&apex)), Ok(apex));
        }
        assert_eq!(zone_of_id("example.com"), zone("example.com."));
        for bad in ["a..b.", "a:b."] {
            assert_eq!(zone_of_id(bad), Err(Refused::not_found()), "{bad}");
        }
        for bad in ["=2", "=zz."] {
            assert_eq!(zone_of_id(bad), Err(Refused::bad_request()), "{bad}");
        }
    }

    #[test]
    fn variants_are_zones_of_views() {
        let apex = zone("example.com..inside").expect("a zone");
        assert_eq!(apex.view(), Some("inside"));
        assert_eq!(apex.as_name().to_string(), "example.com.");
        assert_eq!(shown(&apex), "example.com..inside");
    }
}
