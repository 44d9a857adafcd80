//! Frame Streams: length-prefixed data frames between control frames.
//!
//! ```text
//! data frame      length (4, above 0)   data
//! control frame   0 (4)   length (4)   kind (4)   fields: kind (4)   length (4)   content type
//! ```
//!
//! All numbers are big-endian. A file has START, the data, STOP. On a socket the sender starts with READY,
//! which lists its content types; the collector answers ACCEPT with those it takes; START, data and STOP
//! follow, and the collector answers FINISH once it has all of it.

use std::fmt;
use std::io::{self, Read};

/// The content type of dnstap.
pub const CONTENT_TYPE: &[u8] = b"protobuf:dnstap.Dnstap";

/// Most bytes of a control frame behind its length.
pub const MAX_CONTROL: usize = 512;

/// Most bytes of a data frame that is accepted: two messages and their metadata fit.
pub const MAX_FRAME: usize = 256 * 1024;

/// Most bytes of the name of a content type.
const MAX_CONTENT_TYPE: usize = 256;

/// The only field type of control frames.
const CONTENT_TYPE_FIELD: u32 = 1;

/// The kinds of control frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlKind {
    /// The content types that the receiver takes; any if there are none.
    Accept = 1,
    /// Data of this content type follow.
    Start = 2,
    /// No more data follow.
    Stop = 3,
    /// The content types that the sender has.
    Ready = 4,
    /// The receiver has all data.
    Finish = 5,
}

/// A control frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlFrame {
    /// Its kind.
    pub kind: ControlKind,
    /// The content types that it lists.
    pub content_types: Vec<Vec<u8>>,
}

/// Why a stream or control frame is invalid.
#[derive(Debug)]
pub enum FrameFault {
    /// Reading failed, or it is truncated.
    Io(io::Error),
    /// A data frame instead of a control frame.
    NotControl,
    /// A control frame of this invalid length.
    Length(u32),
    /// A control frame of this unknown kind.
    Kind(u32),
    /// The fields of a control frame are malformed, or do not fit its kind.
    Fields,
    /// Another kind of control frame than this one.
    Expected(ControlKind),
    /// The content type is not that of dnstap.
    ContentType,
}

impl fmt::Display for FrameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(fault) => fault.fmt(f),
            Self::NotControl => f.write_str("a data frame came where a control frame should"),
            Self::Length(len) => write!(f, "a control frame has {len} bytes"),
            Self::Kind(kind) => write!(f, "a control frame is of the unknown kind {kind}"),
            Self::Fields => f.write_str("the fields of a control frame cannot be read"),
            Self::Expected(kind) => write!(f, "another control frame came than {kind:?}"),
            Self::ContentType => f.write_str("the content type is not that of dnstap"),
        }
    }
}

impl std::error::Error for FrameFault {}

impl From<io::Error> for FrameFault {
    fn from(fault: io::Error) -> Self {
        Self::Io(fault)
    }
}

impl ControlKind {
    fn of(number: u32) -> Option<Self> {
        [Self::Accept, Self::Start, Self::Stop, Self::Ready, Self::Finish]
            .into_iter()
            .find(|kind| *kind as u32 == number)
    }

    /// Returns the most content types that a frame of this kind lists.
    fn most_content_types(self) -> usize {
        match self {
            Self::Accept | Self::Ready => usize::MAX,
            Self::Start => 1,
            Self::Stop | Self::Finish => 0,
        }
    }
}

impl ControlFrame {
    /// Reads exactly one control frame.
    ///
    /// # Errors
    /// [`FrameFault`]: all but `Expected` and `ContentType`.
    pub fn read(from: &mut impl Read) -> Result<Self, FrameFault> {
        if read_number(from)? != 0 {
            return Err(FrameFault::NotControl);
        }
        Self::read_behind_escape(from)
    }

    /// Reads a control frame, behind the zero length that announces it.
    fn read_behind_escape(from: &mut impl Read) -> Result<Self, FrameFault> {
        let length = read_number(from)?;
        let len = usize::try_from(length).unwrap_or(usize::MAX);
        if !(4..=MAX_CONTROL).contains(&len) {
            return Err(FrameFault::Length(length));
        }
        let mut body = vec![0; len];
        from.read_exact(&mut body)?;
        let mut body = body.as_slice();
        let number = read_number(&mut body)?;
        let kind = ControlKind::of(number).ok_or(FrameFault::Kind(number))?;
        let mut content_types = Vec::new();
        while !body.is_empty() {
            content_types.push(read_field(&mut body).ok_or(FrameFault::Fields)?);
        }
        if content_types.len() > kind.most_content_types() {
            return Err(FrameFault::Fields);
        }
        Ok(ControlFrame { kind, content_types })
    }

    /// Checks that it has this kind, and lists the content type of dnstap or none.
    ///
    /// # Errors
    /// `Expected` or `ContentType`.
    pub fn expect(&self, kind: ControlKind) -> Result<(), FrameFault> {
        if self.kind != kind {
            return Err(FrameFault::Expected(kind));
        }
        // "If the control frame has no content type fields, it matches any content type" (fstrm).
        match self.content_types.is_empty() || self.content_types.iter().any(|of| of == CONTENT_TYPE) {
            true => Ok(()),
            false => Err(FrameFault::ContentType),
        }
    }
}

fn read_number(from: &mut impl Read) -> Result<u32, FrameFault> {
    let mut bytes = [0; 4];
    from.read_exact(&mut bytes)?;
    Ok(u32::from_be_bytes(bytes))
}

/// Returns the content type of a field; `None` if it is malformed.
fn read_field(body: &mut &[u8]) -> Option<Vec<u8>> {
    let kind = read_number(body).ok()?;
    let len = usize::try_from(read_number(body).ok()?).ok()?;
    let (content_type, rest) = body.split_at_checked(len)?;
    *body = rest;
    (kind == CONTENT_TYPE_FIELD && len <= MAX_CONTENT_TYPE).then(|| content_type.to_vec())
}

/// Appends a control frame. Kinds that list content types list that of dnstap.
pub fn append_control(kind: ControlKind, out: &mut Vec<u8>) {
    let named = kind.most_content_types() > 0;
    let length = if named { 12 + CONTENT_TYPE.len() as u32 } else { 4 };
    for number in [0, length, kind as u32] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    if named {
        for number in [CONTENT_TYPE_FIELD, CONTENT_TYPE.len() as u32] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.extend_from_slice(CONTENT_TYPE);
    }
}

/// Appends a data frame with the bytes that `write` appends: at least one, at most [`MAX_FRAME`].
pub fn append_frame(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let len = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&len.to_be_bytes());
}

/// Returns the length of the first data frame, its length field included; `None` if there is no complete one.
pub fn first_frame(frames: &[u8]) -> Option<usize> {
    let (length, rest) = frames.split_first_chunk()?;
    let len = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    (len > 0 && len <= rest.len()).then_some(4 + len)
}

/// Returns the position in a dnstap file where further frames belong: behind the last complete one, where
/// STOP is if the file was closed properly. Reads the file from its start; 0 if it is empty.
///
/// # Errors
/// Reading fails, or the file does not begin like a dnstap file.
pub fn resume(file: &mut impl Read) -> Result<u64, FrameFault> {
    let mut escape = [0; 4];
    match file.read(&mut escape)? {
        0 => return Ok(0),
        read => file.read_exact(&mut escape[read..])?,
    }
    if escape != [0; 4] {
        return Err(FrameFault::NotControl);
    }
    let start = ControlFrame::read_behind_escape(file)?;
    start.expect(ControlKind::Start)?;
    let names: usize = start.content_types.iter().map(|name| 8 + name.len()).sum();
    let mut end = 12 + names as u64;
    loop {
        let len = match read_number(file) {
            Ok(len) if len > 0 && len as usize <= MAX_FRAME => u64::from(len),
            Err(FrameFault::Io(fault)) if fault.kind() != io::ErrorKind::UnexpectedEof => {
                return Err(FrameFault::Io(fault));
            }
            // STOP, the end of the file, or a frame that was cut off.
            _ => return Ok(end),
        };
        if io::copy(&mut file.take(len), &mut io::sink())? < len {
            return Ok(end);
        }
        end += 4 + len;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const READY: &[u8] = b"\0\0\0\0\0\0\0\x22\0\0\0\x04\0\0\0\x01\0\0\0\x16protobuf:dnstap.Dnstap";
    const STOP: &[u8] = b"\0\0\0\0\0\0\0\x04\0\0\0\x03";

    fn control(kind: ControlKind) -> Vec<u8> {
        let mut out = Vec::new();
        append_control(kind, &mut out);
        out
    }

    fn read(mut bytes: &[u8]) -> Result<ControlFrame, FrameFault> {
        ControlFrame::read(&mut bytes)
    }

    /// A stream of these frames, with STOP.
    fn stream(frames: &[Vec<u8>]) -> Vec<u8> {
        let mut out = control(ControlKind::Start);
        for frame in frames {
            append_frame(&mut out, |out| out.extend_from_slice(frame));
        }
        append_control(ControlKind::Stop, &mut out);
        out
    }

    #[test]
    fn control_frames_have_the_bytes_of_the_specification() {
        assert_eq!(control(ControlKind::Ready), READY);
        assert_eq!(control(ControlKind::Stop), STOP);
        for kind in [ControlKind::Accept, ControlKind::Start, ControlKind::Ready] {
            let read = read(&control(kind)).expect("a control frame");
            assert_eq!(read, ControlFrame { kind, content_types: vec![CONTENT_TYPE.to_vec()] });
            assert!(read.expect(kind).is_ok());
        }
    }

    #[test]
    fn what_is_no_control_frame_is_named() {
        assert!(matches!(read(b"\0\0\0\x01x"), Err(FrameFault::NotControl)));
        assert!(matches!(read(b"\0\0\0\0\0\0\x02\x01"), Err(FrameFault::Length(513))));
        assert!(matches!(read(b"\0\0\0\0\0\0\0\x03abc"), Err(FrameFault::Length(3))));
        assert!(matches!(read(b"\0\0\0\0\0\0\0\x04\0\0\0\x06"), Err(FrameFault::Kind(6))));
        assert!(matches!(read(b"\0\0\0\0\0\0\0\x05\0\0\0\x01x"), Err(FrameFault::Fields)));
        let finish = [b"\0\0\0\0\0\0\0\x22\0\0\0\x05".as_slice(), &READY[12..]].concat();
        assert!(matches!(read(&finish), Err(FrameFault::Fields)), "FINISH names no content type");
        assert!(matches!(read(&READY[..20]), Err(FrameFault::Io(_))));
    }

    #[test]
    fn a_collector_takes_dnstap_or_anything() {
        let accept = |content_types| ControlFrame { kind: ControlKind::Accept, content_types };
        assert!(accept(vec![]).expect(ControlKind::Accept).is_ok());
        assert!(accept(vec![b"other".to_vec(), CONTENT_TYPE.to_vec()]).expect(ControlKind::Accept).is_ok());
        let other = accept(vec![b"other".to_vec()]);
        assert!(matches!(other.expect(ControlKind::Accept), Err(FrameFault::ContentType)));
        let expected = other.expect(ControlKind::Finish);
        assert!(matches!(expected, Err(FrameFault::Expected(ControlKind::Finish))));
    }

    #[test]
    fn a_file_of_something_else_is_not_gone_on_with() {
        assert!(matches!(resume(&mut b"options {".as_slice()), Err(FrameFault::NotControl)));
        assert!(matches!(resume(&mut { STOP }), Err(FrameFault::Expected(ControlKind::Start))));
        assert!(matches!(resume(&mut b"\0\0".as_slice()), Err(FrameFault::Io(_))));
        assert!(matches!(resume(&mut b"".as_slice()), Ok(0)));
    }

    proptest! {
        #[test]
        fn whatever_is_read_as_a_control_frame_says_the_same_when_it_is_written(
            bytes in prop::collection::vec(any::<u8>(), 0..64),
            kind in 0..7u32,
            fields in prop::collection::vec((0..3u32, 0..12u32, prop::collection::vec(any::<u8>(), 0..12)), 0..3),
        ) {
            let mut body = kind.to_be_bytes().to_vec();
            for (kind, len, bytes) in fields {
                body.extend([kind.to_be_bytes(), len.to_be_bytes()].concat());
                body.extend(bytes);
            }
            let frame = [&[0; 4], &(body.len() as u32).to_be_bytes()[..], &body].concat();
            for bytes in [bytes, frame] {
                let mut rest = bytes.as_slice();
                let Ok(ControlFrame { kind, content_types }) = ControlFrame::read(&mut rest) else { continue };
                let fields = content_types.iter().flat_map(|of| {
                    [&CONTENT_TYPE_FIELD.to_be_bytes(), &(of.len() as u32).to_be_bytes()[..], of].concat()
                });
                let body: Vec<u8> = (kind as u32).to_be_bytes().into_iter().chain(fields).collect();
                let len = (body.len() as u32).to_be_bytes();
                prop_assert_eq!([&[0; 4], &len[..], &body].concat(), &bytes[..bytes.len() - rest.len()]);
            }
        }

        #[test]
        fn a_file_goes_on_behind_its_last_whole_frame_wherever_it_was_cut(
            frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..20), 0..6),
            cut in any::<prop::sample::Index>(),
        ) {
            let whole = stream(&frames);
            let start = control(ControlKind::Start).len();
            let cut = start + cut.index(whole.len() - start + 1);
            let mut ends = vec![start];
            for frame in &frames {
                ends.push(ends[ends.len() - 1] + 4 + frame.len());
            }
            let last = ends.into_iter().rfind(|end| *end <= cut).expect("behind START");
            prop_assert_eq!(resume(&mut &whole[..cut]).expect("a file"), last as u64);
        }

        #[test]
        fn the_first_frame_is_found_when_all_of_it_is_there(
            frame in prop::collection::vec(any::<u8>(), 1..20), more in 0..9usize, less in 1..20usize,
        ) {
            let mut frames = Vec::new();
            append_frame(&mut frames, |out| out.extend_from_slice(&frame));
            let len = frames.len();
            frames.extend(vec![7; more]);
            prop_assert_eq!(first_frame(&frames), Some(len));
            prop_assert_eq!(first_frame(&frames[..len.saturating_sub(less)]), None);
        }
    }
}
