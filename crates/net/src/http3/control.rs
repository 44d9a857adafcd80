//! The unidirectional streams of a client (RFC 9114 §6.2): its control stream, and those of QPACK (RFC 9204
//! §4.2), which carry nothing as long as there is no dynamic table.

use super::code::{H3Code, H3Fault};
use super::frames::{self, CONTROL_STREAM, FrameHead, SETTINGS, is_of_http2, varint};

/// Types of streams beside the control stream.
const PUSH_STREAM: u64 = 1;
const ENCODER_STREAM: u64 = 2;
const DECODER_STREAM: u64 = 3;
/// Most bytes of a frame on the control stream.
const MAX_FRAME: u64 = 4096;
/// Most bytes of an integer behind its first one.
const MAX_INTEGER: u32 = 8;

/// Which of the streams that a connection has once are open.
#[derive(Default)]
pub(crate) struct ControlStreams {
    control: bool,
    encoder: bool,
    decoder: bool,
}

/// What a unidirectional stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Control,
    Encoder,
    Decoder,
}

/// One unidirectional stream of a client.
#[derive(Default)]
pub(crate) struct UniStream {
    kind: StreamKind,
    purpose: Option<Purpose>,
    head: FrameHead,
    /// The frame that is being read: its type and the bytes that are missing of it.
    frame: Option<(u64, u64)>,
    payload: Vec<u8>,
    has_settings: bool,
    /// How many more bytes the integer in an instruction of a decoder may have; 0 between instructions.
    integer: u32,
}

/// The type of a stream, which is being read.
#[derive(Default)]
struct StreamKind {
    bytes: [u8; 8],
    len: usize,
}

/// The fault of a client whose control stream has an ID of a push or a request.
const WRONG_ID: H3Fault = H3Fault::connection(H3Code::Id, "a frame with a wrong number");
/// The fault of a frame with a wrong layout.
const WRONG_FRAME: H3Fault = H3Fault::connection(H3Code::Frame, "a frame of the control stream is malformed");

impl UniStream {
    /// Takes the next bytes of the stream. Returns whether more of them are wanted: a stream of an unknown
    /// type is not read.
    ///
    /// # Errors
    /// The fault of the client, which ends the connection.
    pub(crate) fn read(&mut self, mut input: &[u8], open: &mut ControlStreams) -> Result<bool, H3Fault> {
        while self.purpose.is_none() {
            let Some((&byte, rest)) = input.split_first() else { return Ok(true) };
            input = rest;
            // The integer is complete after 8 bytes.
            self.kind.bytes[self.kind.len] = byte;
            self.kind.len += 1;
            if let Some((kind, _)) = varint(&self.kind.bytes[..self.kind.len]) {
                match open.open(kind)? {
                    Some(purpose) => self.purpose = Some(purpose),
                    None => return Ok(false),
                }
            }
        }
        match self.purpose {
            Some(Purpose::Control) => self.control(input)?,
            Some(Purpose::Encoder) => encoder(input)?,
            Some(Purpose::Decoder) => self.decoder(input)?,
            None => {}
        }
        Ok(true)
    }

    /// Notes the end of the stream.
    ///
    /// # Errors
    /// The connection needs the stream.
    pub(crate) fn end(&self) -> Result<(), H3Fault> {
        match self.purpose {
            None => Ok(()),
            Some(_) => {
                Err(H3Fault::connection(H3Code::ClosedCriticalStream, "a stream that is needed has ended"))
            }
        }
    }

    fn control(&mut self, mut input: &[u8]) -> Result<(), H3Fault> {
        loop {
            let (kind, missing) = match self.frame {
                Some(frame) => frame,
                None => match self.head.read(&mut input) {
                    Some((kind, length)) => {
                        self.begin(kind, length)?;
                        (kind, length)
                    }
                    None => return Ok(()),
                },
            };
            let len = usize::try_from(missing).unwrap_or(usize::MAX).min(input.len());
            let (part, rest) = input.split_at(len);
            input = rest;
            if is_known(kind) {
                self.payload.extend_from_slice(part);
            }
            let missing = missing - len as u64;
            self.frame = Some((kind, missing));
            if missing > 0 {
                return Ok(());
            }
            self.frame = None;
            let payload = std::mem::take(&mut self.payload);
            self.whole(kind, &payload)?;
        }
    }

    /// Checks instructions of a decoder (RFC 9204 §4.4): without a dynamic table, it has streams to cancel
    /// alone.
    fn decoder(&mut self, input: &[u8]) -> Result<(), H3Fault> {
        for &byte in input {
            self.integer = match (self.integer, byte) {
                (0, 0x7f) => MAX_INTEGER,
                (0, 0x40..0x7f) => 0,
                (2.., 0x80..) => self.integer - 1,
                (1.., 0..0x80) => 0,
                _ => {
                    let reason = "an instruction for a dynamic table of QPACK";
                    return Err(H3Fault::connection(H3Code::DecoderStream, reason));
                }
            };
        }
        Ok(())
    }

    /// Checks the head of a frame.
    fn begin(&mut self, kind: u64, length: u64) -> Result<(), H3Fault> {
        match kind {
            _ if !self.has_settings && kind != SETTINGS => {
                Err(H3Fault::connection(H3Code::MissingSettings, "the first frame is not SETTINGS"))
            }
            SETTINGS if self.has_settings => {
                Err(H3Fault::connection(H3Code::FrameUnexpected, "a second frame SETTINGS"))
            }
            frames::DATA | frames::HEADERS | frames::PUSH_PROMISE => Err(H3Fault::connection(
                H3Code::FrameUnexpected,
                "a frame of a request on the control stream",
            )),
            kind if is_of_http2(kind) => {
                Err(H3Fault::connection(H3Code::FrameUnexpected, "a frame of HTTP/2"))
            }
            kind if is_known(kind) && length > MAX_FRAME => {
                Err(H3Fault::connection(H3Code::ExcessiveLoad, "a frame of the control stream is too long"))
            }
            _ => Ok(()),
        }
    }

    /// Handles a whole frame.
    fn whole(&mut self, kind: u64, payload: &[u8]) -> Result<(), H3Fault> {
        match kind {
            SETTINGS => {
                self.has_settings = true;
                settings(payload)
            }
            // The number of a push; the server promises none, so that none can be cancelled.
            frames::CANCEL_PUSH => number(payload).and(Err(WRONG_ID)),
            frames::GOAWAY | frames::MAX_PUSH_ID => number(payload).map(|_| ()),
            _ => Ok(()),
        }
    }
}

impl ControlStreams {
    /// Notes a stream of this type. Returns what it is for; `None` for an unknown type, which is no error.
    fn open(&mut self, kind: u64) -> Result<Option<Purpose>, H3Fault> {
        let (is_open, purpose) = match kind {
            CONTROL_STREAM => (&mut self.control, Purpose::Control),
            ENCODER_STREAM => (&mut self.encoder, Purpose::Encoder),
            DECODER_STREAM => (&mut self.decoder, Purpose::Decoder),
            PUSH_STREAM => {
                return Err(H3Fault::connection(H3Code::StreamCreation, "a client opened a push stream"));
            }
            _ => return Ok(None),
        };
        match std::mem::replace(is_open, true) {
            false => Ok(Some(purpose)),
            true => Err(H3Fault::connection(
                H3Code::StreamCreation,
                "a second stream of a type that is there once",
            )),
        }
    }
}

/// Whether the payload of a frame of this type is read.
fn is_known(kind: u64) -> bool {
    matches!(kind, SETTINGS | frames::CANCEL_PUSH | frames::GOAWAY | frames::MAX_PUSH_ID)
}

/// Checks settings (RFC 9114 §7.2.4): what a client allows is of no use to this server.
fn settings(mut payload: &[u8]) -> Result<(), H3Fault> {
    let mut seen = Vec::new();
    while !payload.is_empty() {
        let (id, rest) = varint(payload).ok_or(WRONG_FRAME)?;
        let (_, rest) = varint(rest).ok_or(WRONG_FRAME)?;
        payload = rest;
        // Those of HTTP/2, and one that stands twice.
        if matches!(id, 2..=5) || seen.contains(&id) {
            return Err(H3Fault::connection(
                H3Code::Settings,
                "a setting that is not allowed, or is there twice",
            ));
        }
        if seen.len() < MAX_SETTINGS {
            seen.push(id);
        }
    }
    Ok(())
}

/// Most settings that are compared with each other.
const MAX_SETTINGS: usize = 64;

/// Reads a payload that is one number.
fn number(payload: &[u8]) -> Result<u64, H3Fault> {
    match varint(payload) {
        Some((number, [])) => Ok(number),
        _ => Err(WRONG_FRAME),
    }
}

/// Checks instructions of an encoder (RFC 9204 §4.3): with a capacity of 0, the only one is to set it so.
fn encoder(input: &[u8]) -> Result<(), H3Fault> {
    match input.iter().all(|&byte| byte == 0x20) {
        true => Ok(()),
        false => {
            Err(H3Fault::connection(H3Code::EncoderStream, "an instruction for a dynamic table of QPACK"))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads streams of one connection, and returns the first fault.
    fn fault(streams: &[&[u8]]) -> Option<H3Code> {
        let mut open = ControlStreams::default();
        streams.iter().find_map(|bytes| UniStream::default().read(bytes, &mut open).err()).map(|f| f.code)
    }

    #[test]
    fn the_streams_of_a_client_are_followed() {
        // SETTINGS with QPACK_MAX_TABLE_CAPACITY, GOAWAY, MAX_PUSH_ID, and a frame of an unknown type.
        let control = b"\0\x04\x03\x01\x50\0\x07\x01\0\x0d\x01\x07\x21\x02xy";
        let mut open = ControlStreams::default();
        let mut stream = UniStream::default();
        for byte in control {
            assert_eq!(stream.read(&[*byte], &mut open), Ok(true));
        }
        assert_eq!(stream.end().map_err(|fault| fault.code), Err(H3Code::ClosedCriticalStream));
        for bytes in [&b"\x02\x20"[..], b"\x03\x41\x7f\x90\x01\x44"] {
            assert_eq!(UniStream::default().read(bytes, &mut open), Ok(true));
        }
        let mut unknown = UniStream::default();
        assert_eq!(unknown.read(b"\x40", &mut open), Ok(true));
        assert_eq!((unknown.read(b"\x54rest", &mut open), unknown.end()), (Ok(false), Ok(())));
    }

    #[test]
    fn what_is_not_allowed_ends_the_connection() {
        for (streams, expected) in [
            (&[&b"\x01"[..]][..], H3Code::StreamCreation),
            (&[b"\0\x04\0", b"\0"], H3Code::StreamCreation),
            (&[b"\x02", b"\x02"], H3Code::StreamCreation),
            (&[b"\0\x07\x01\0"], H3Code::MissingSettings),
            (&[b"\0\x04\0\x04\0"], H3Code::FrameUnexpected),
            (&[b"\0\x04\0\0\x01x"], H3Code::FrameUnexpected),
            (&[b"\0\x04\0\x01\0"], H3Code::FrameUnexpected),
            (&[b"\0\x04\0\x02\0"], H3Code::FrameUnexpected),
            (&[b"\0\x04\x02\x04\x01"], H3Code::Settings),
            (&[b"\0\x04\x04\x01\0\x01\0"], H3Code::Settings),
            (&[b"\0\x04\x01\x01"], H3Code::Frame),
            (&[b"\0\x04\x60\0"], H3Code::ExcessiveLoad),
            (&[b"\0\x04\0\x07\x02\0\0"], H3Code::Frame),
            (&[b"\0\x04\0\x03\x01\0"], H3Code::Id),
            (&[b"\x02\x21"], H3Code::EncoderStream),
            (&[b"\x02\xc0\x01a"], H3Code::EncoderStream),
            (&[b"\x03\x81"], H3Code::DecoderStream),
            (&[b"\x03\x01"], H3Code::DecoderStream),
            (&[b"\x03\x7f\x80\x80\x80\x80\x80\x80\x80\x80\x80"], H3Code::DecoderStream),
        ] {
            assert_eq!(fault(streams), Some(expected), "{streams:x?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_alike(bytes in prop::collection::vec(any::<u8>(), 0..60), cut in 0..60_usize) {
            let whole = UniStream::default().read(&bytes, &mut ControlStreams::default());
            let (mut open, mut stream) = (ControlStreams::default(), UniStream::default());
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            let parts = match stream.read(first, &mut open) {
                Ok(true) => stream.read(second, &mut open),
                ended => ended,
            };
            prop_assert_eq!(whole, parts);
            prop_assert!(stream.payload.len() as u64 <= MAX_FRAME);
        }
    }
}
