//! The little of HTTP/3 (RFC 9114) that a client of DNS over HTTPS needs, without a dynamic table (RFC 9204).

/// What a control stream begins with: its type, and settings that are all defaults.
pub(crate) const CONTROL: [u8; 3] = [0, 4, 0];

const DATA: u64 = 0;
const HEADERS: u64 = 1;

/// Lines of the static table: `:method POST`, `:scheme https`; `accept` and `content-type` of DNS messages.
const PSEUDO_LINES: [u8; 2] = [0xc0 | 20, 0xc0 | 23];
const WHOLE_LINES: [u8; 2] = [0xc0 | 30, 0xc0 | 44];
/// Names of the static table, before their values: `:authority`, `:path`, `content-length`.
const AUTHORITY: u8 = 0x50;
const PATH: u8 = 0x50 | 1;
const CONTENT_LENGTH: u8 = 0x50 | 4;

/// Returns a POST request for `/dns-query` with this message.
pub(crate) fn request(authority: &str, message: &[u8]) -> Vec<u8> {
    // No entry of the dynamic table is needed. Pseudo-header fields come first (RFC 9114 §4.3).
    let mut section = vec![0, 0];
    section.extend(PSEUDO_LINES);
    put_line(&mut section, AUTHORITY, authority);
    put_line(&mut section, PATH, "/dns-query");
    section.extend(WHOLE_LINES);
    put_line(&mut section, CONTENT_LENGTH, &message.len().to_string());
    let mut request = Vec::new();
    for (kind, payload) in [(HEADERS, &section[..]), (DATA, message)] {
        put(&mut request, kind);
        put(&mut request, payload.len() as u64);
        request.extend_from_slice(payload);
    }
    request
}

/// Appends a line whose name is in the static table, without Huffman code. All values are shorter than 127
/// bytes.
fn put_line(section: &mut Vec<u8>, name: u8, value: &str) {
    section.extend([name, value.len() as u8]);
    section.extend_from_slice(value.as_bytes());
}

/// Returns the body of a response; `None` if it is not whole.
pub(crate) fn body(mut response: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    while !response.is_empty() {
        let (kind, length) = (take(&mut response)?, usize::try_from(take(&mut response)?).ok()?);
        let (payload, rest) = response.split_at_checked(length)?;
        if kind == DATA {
            body.extend_from_slice(payload);
        }
        response = rest;
    }
    Some(body)
}

/// Appends a number in its shortest form (RFC 9000 §16), which is two bytes at most here.
fn put(bytes: &mut Vec<u8>, number: u64) {
    match number {
        0..64 => bytes.push(number as u8),
        _ => bytes.extend_from_slice(&(0x4000 | number as u16).to_be_bytes()),
    }
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let first = *bytes.first()?;
    let (number, rest) = bytes.split_at_checked(1 << (first >> 6))?;
    *bytes = rest;
    let value = number[1..].iter().fold(u64::from(first & 0x3f), |value, byte| value << 8 | u64::from(*byte));
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_a_header_section_and_the_message() {
        let request = request("dns.test", &[7; 100]);
        let (headers, data) = request.split_at(2 + usize::from(request[1]));
        assert_eq!(headers[..8], [1, request[1], 0, 0, 0xd4, 0xd7, 0x50, 8]);
        assert_eq!(headers[8..], *b"dns.test\x51\x0a/dns-query\xde\xec\x54\x03100");
        assert_eq!(data[..3], [0, 0x40, 100]);
        assert_eq!(data[3..], [7; 100]);
    }

    #[test]
    fn a_body_is_what_its_frames_hold() {
        // A frame of an unknown type with a length of four bytes, headers, two frames of data.
        let response = [0x21, 0x80, 0, 0, 1, 9, 1, 1, 0xd9, 0, 2, b'a', b'b', 0, 1, b'c'];
        assert_eq!(body(&response), Some(b"abc".to_vec()));
        assert_eq!(body(&response[..response.len() - 1]), None);
        assert_eq!(body(&[0x40]), None);
        assert_eq!(body(&[]), Some(Vec::new()));
    }
}
