//! Frames of HTTP/3 (RFC 9114 §7): their heads, read from bytes as they come, and those that the server
//! sends.

use super::qpack::MAX_FIELDS;

/// Types of frames.
pub(super) const DATA: u64 = 0;
pub(super) const HEADERS: u64 = 1;
pub(super) const CANCEL_PUSH: u64 = 3;
pub(super) const SETTINGS: u64 = 4;
pub(super) const PUSH_PROMISE: u64 = 5;
pub(super) const GOAWAY: u64 = 7;
pub(super) const MAX_PUSH_ID: u64 = 0xd;

/// The type of a control stream.
pub(super) const CONTROL_STREAM: u64 = 0;

/// Settings (RFC 9114 §7.2.4.1).
const MAX_FIELD_SECTION_SIZE: u64 = 6;

/// Whether HTTP/2 has this type of a frame and HTTP/3 has it not, which is an error (RFC 9114 §7.2.8).
pub(super) fn is_of_http2(kind: u64) -> bool {
    matches!(kind, 2 | 6 | 8 | 9)
}

/// Reads an integer of QUIC (RFC 9000 §16), and returns it with what follows; `None` if it is not complete.
pub(super) fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let len = 1 << (bytes.first()? >> 6);
    let (integer, rest) = bytes.split_at_checked(len)?;
    let value = integer.iter().fold(0, |value, &byte| value << 8 | u64::from(byte));
    Some((value & (u64::MAX >> (66 - 8 * len)), rest))
}

/// Adds an integer of QUIC.
pub(super) fn put_varint(bytes: &mut Vec<u8>, value: u64) {
    match value {
        ..0x40 => bytes.push(value as u8),
        0x40..0x4000 => bytes.extend((value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => bytes.extend((value as u32 | 0x8000_0000).to_be_bytes()),
        _ => bytes.extend((value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// The head of a frame that is being read: type and length.
#[derive(Default)]
pub(super) struct FrameHead {
    bytes: [u8; 16],
    len: usize,
}

impl FrameHead {
    /// Takes bytes from the start of `input` until the head is complete, and returns it.
    pub(super) fn read(&mut self, input: &mut &[u8]) -> Option<(u64, u64)> {
        while let Some((&byte, rest)) = input.split_first() {
            *input = rest;
            // Two integers have 16 bytes at most, and then they are complete.
            self.bytes[self.len] = byte;
            self.len += 1;
            let complete = varint(&self.bytes[..self.len]);
            if let Some((kind, length)) = complete.and_then(|(kind, rest)| Some((kind, varint(rest)?.0))) {
                self.len = 0;
                return Some((kind, length));
            }
        }
        None
    }

    /// Whether no part of a head has been read.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Adds a frame.
fn put_frame(bytes: &mut Vec<u8>, kind: u64, payload: &[u8]) {
    put_varint(bytes, kind);
    put_varint(bytes, payload.len() as u64);
    bytes.extend_from_slice(payload);
}

/// Returns the first bytes of the server's control stream: its type, and the settings. Those of QPACK are 0
/// unless they are sent (RFC 9204 §5).
pub(crate) fn opening() -> Vec<u8> {
    let mut settings = Vec::new();
    put_varint(&mut settings, MAX_FIELD_SECTION_SIZE);
    put_varint(&mut settings, MAX_FIELDS as u64);
    let mut bytes = Vec::new();
    put_varint(&mut bytes, CONTROL_STREAM);
    put_frame(&mut bytes, SETTINGS, &settings);
    bytes
}

/// Returns the frame after which requests on streams from this number on are not answered (RFC 9114 §5.2).
pub(crate) fn goaway(stream: u64) -> Vec<u8> {
    let (mut id, mut bytes) = (Vec::new(), Vec::new());
    put_varint(&mut id, stream);
    put_frame(&mut bytes, GOAWAY, &id);
    bytes
}

/// Returns a frame with the header section of a response, and the head of the frame with its body, if it has
/// one.
pub(crate) fn data_head(section: &[u8], body: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(section.len() + 16);
    put_frame(&mut bytes, HEADERS, section);
    if body > 0 {
        put_varint(&mut bytes, DATA);
        put_varint(&mut bytes, body as u64);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_examples_of_the_rfc_are_read() {
        // RFC 9000 §A.1.
        for (bytes, value) in [
            (&b"\xc2\x19\x7c\x5e\xff\x14\xe8\x8c"[..], 151_288_809_941_952_652),
            (b"\x9d\x7f\x3e\x7d", 494_878_333),
            (b"\x7b\xbd", 15_293),
            (b"\x25", 37),
            (b"\x40\x25", 37),
        ] {
            assert_eq!(varint(bytes), Some((value, &b""[..])));
            assert_eq!(varint(&bytes[..bytes.len() - 1]), None);
        }
        assert_eq!(opening(), b"\0\x04\x05\x06\x80\0\x40\0");
        assert_eq!(goaway(4), b"\x07\x01\x04");
    }

    proptest! {
        #[test]
        fn heads_come_back_however_they_are_cut(kind in 0..1_u64 << 62, length in 0..1_u64 << 62, cut in 0..16_usize) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, kind);
            put_varint(&mut bytes, length);
            let (mut first, mut second) = bytes.split_at(cut.min(bytes.len() - 1));
            let mut head = FrameHead::default();
            prop_assert_eq!(head.read(&mut first), None);
            prop_assert_eq!(head.read(&mut second), Some((kind, length)));
            prop_assert!(head.is_empty() && second.is_empty());
        }
    }
}
