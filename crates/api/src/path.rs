//! Paths and query strings of URLs, decoded.

use url::form_urlencoded;

/// Returns the percent-decoded segments of a path. The empty segment behind a final `/` is left out.
///
/// # Errors
/// A segment is not UTF-8 after decoding, or has a `%` without two hexadecimal digits.
pub(crate) fn segments(path: &str) -> Result<Vec<String>, String> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    path.split('/').map(decode).collect()
}

/// Returns the decoded parameters of a query string, in their order.
pub(crate) fn parameters(query: &str) -> Vec<(String, String)> {
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

/// Decodes one segment (RFC 3986 §2.1).
fn decode(segment: &str) -> Result<String, String> {
    let fault = || format!("`{segment}` in the path is not percent-encoded UTF-8");
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else { return Err(fault()) };
        bytes.push(u8::try_from(high << 4 | low).map_err(|_| fault())?);
    }
    String::from_utf8(bytes).map_err(|_| fault())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_decoded_after_they_are_split() {
        let of = |path| segments(path).expect("a path");
        assert_eq!(of("/api/v1/zones/a.example./"), ["api", "v1", "zones", "a.example."]);
        assert_eq!(of("/zones/0%2F25.2.0.192.in-addr.arpa"), ["zones", "0/25.2.0.192.in-addr.arpa"]);
        assert_eq!(of("/zones/example.com%40inside"), ["zones", "example.com@inside"]);
        assert_eq!(of("/a+b"), ["a+b"]);
        assert_eq!(of("/"), [""]);
        for bad in ["/%", "/%4", "/%zz", "/%ff"] {
            assert!(segments(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn parameters_are_those_of_forms() {
        let of = parameters("name=a%2Eb&x=1+2&y");
        let expected = [("name", "a.b"), ("x", "1 2"), ("y", "")];
        assert_eq!(of, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
