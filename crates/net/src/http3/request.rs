//! A request (RFC 9114 §4.1): the frames of its stream, its fields, and the rules about them.

use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request as HttpRequest, Uri};

use super::code::{H3Code, H3Fault};
use super::frames;
use super::frames::{DATA, FrameHead, HEADERS, is_of_http2};
use super::qpack::{self, Field, MAX_FIELDS, TOO_LARGE};

/// Most bytes of a request beside its header section and body: heads of frames, trailers and unknown frames.
const MAX_OTHER: usize = 16 * 1024;

/// A whole request.
#[derive(Debug)]
pub(crate) struct Request {
    /// Method, URL and the fields that DNS over HTTPS needs.
    pub(crate) head: Parts,
    /// The body; `None` if it is longer than the limit.
    pub(crate) body: Option<Vec<u8>>,
}

/// Puts a request together from the bytes of its stream.
pub(crate) struct RequestReader {
    longest: usize,
    frame: Frame,
    head: FrameHead,
    /// The header section that is being read.
    section: Vec<u8>,
    fields: Option<Parts>,
    /// What `content-length` announces.
    announced: Option<u64>,
    body: Vec<u8>,
    /// Bytes of the body, also of those that were not kept.
    received: u64,
    has_trailers: bool,
    /// Bytes that are neither of the header section nor of the body.
    other: usize,
}

/// The frame that is being read, and the bytes that are missing of it.
#[derive(Clone, Copy)]
enum Frame {
    Between,
    Headers(u64),
    Body(u64),
    /// Trailers, or a frame of a type that is not known.
    Skipped(u64),
}

impl RequestReader {
    /// Returns the state of a new stream, whose body may have `longest` bytes.
    pub(crate) fn new(longest: usize) -> Self {
        RequestReader {
            longest,
            frame: Frame::Between,
            head: FrameHead::default(),
            section: Vec::new(),
            fields: None,
            announced: None,
            body: Vec::new(),
            received: 0,
            has_trailers: false,
            other: 0,
        }
    }

    /// Returns the bytes that are kept.
    pub(crate) fn kept(&self) -> usize {
        self.section.len() + self.body.len()
    }

    /// Takes the next bytes of the stream.
    ///
    /// # Errors
    /// The fault of the client.
    pub(crate) fn read(&mut self, mut input: &[u8]) -> Result<(), H3Fault> {
        while !input.is_empty() {
            match &mut self.frame {
                Frame::Between => {
                    let before = input.len();
                    let begun = self.head.read(&mut input);
                    self.count_other(before - input.len())?;
                    if let Some((kind, length)) = begun {
                        self.frame = self.begin(kind, length)?;
                    }
                }
                Frame::Headers(missing) => {
                    self.section.extend_from_slice(take(&mut input, missing));
                }
                Frame::Body(missing) => {
                    let part = take(&mut input, missing);
                    self.received += part.len() as u64;
                    if self.received <= self.longest as u64 {
                        self.body.extend_from_slice(part);
                    }
                    if self.received > (self.longest + MAX_OTHER) as u64 {
                        return Err(H3Fault::stream(H3Code::ExcessiveLoad, "the body is too long"));
                    }
                    if self.announced.is_some_and(|announced| self.received > announced) {
                        return Err(WRONG_LENGTH);
                    }
                }
                Frame::Skipped(missing) => {
                    let skipped = take(&mut input, missing).len();
                    self.count_other(skipped)?;
                }
            }
            self.end_of_frame()?;
        }
        Ok(())
    }

    fn count_other(&mut self, bytes: usize) -> Result<(), H3Fault> {
        self.other += bytes;
        match self.other > MAX_OTHER {
            true => {
                Err(H3Fault::stream(H3Code::ExcessiveLoad, "too many bytes beside header section and body"))
            }
            false => Ok(()),
        }
    }

    /// Begins a frame.
    fn begin(&mut self, kind: u64, length: u64) -> Result<Frame, H3Fault> {
        let unexpected = |reason| Err(H3Fault::connection(H3Code::FrameUnexpected, reason));
        match kind {
            DATA if self.fields.is_none() || self.has_trailers => {
                unexpected("a frame DATA outside the body of a request")
            }
            DATA => Ok(Frame::Body(length)),
            HEADERS if self.has_trailers => unexpected("a frame HEADERS behind the trailers"),
            HEADERS if length > MAX_FIELDS as u64 => Err(TOO_LARGE),
            HEADERS if self.fields.is_some() => {
                self.has_trailers = true;
                Ok(Frame::Skipped(length))
            }
            HEADERS => Ok(Frame::Headers(length)),
            frames::CANCEL_PUSH
            | frames::SETTINGS
            | frames::PUSH_PROMISE
            | frames::GOAWAY
            | frames::MAX_PUSH_ID => unexpected("a frame that is not allowed on the stream of a request"),
            kind if is_of_http2(kind) => unexpected("a frame of HTTP/2"),
            _ => Ok(Frame::Skipped(length)),
        }
    }

    /// Ends the frame, if it is complete.
    fn end_of_frame(&mut self) -> Result<(), H3Fault> {
        match self.frame {
            Frame::Headers(0) => {
                let (head, announced) = checked(qpack::fields(&std::mem::take(&mut self.section))?)?;
                (self.fields, self.announced) = (Some(head), announced);
            }
            Frame::Body(0) | Frame::Skipped(0) => {}
            _ => return Ok(()),
        }
        self.frame = Frame::Between;
        Ok(())
    }

    /// Returns the request, whose stream has ended.
    ///
    /// # Errors
    /// The fault of the client.
    pub(crate) fn end(self) -> Result<Request, H3Fault> {
        if !matches!(self.frame, Frame::Between) || !self.head.is_empty() {
            return Err(H3Fault::connection(H3Code::Frame, "a stream ended within a frame"));
        }
        let Some(head) = self.fields else {
            return Err(H3Fault::stream(H3Code::RequestIncomplete, "a stream ended without a request"));
        };
        if self.announced.is_some_and(|announced| announced != self.received) {
            return Err(WRONG_LENGTH);
        }
        let is_kept = self.received <= self.longest as u64;
        Ok(Request { head, body: is_kept.then_some(self.body) })
    }
}

/// A body that has not the length of the field `content-length`.
const WRONG_LENGTH: H3Fault = malformed("the body has not the length that the request announced");

const fn malformed(reason: &'static str) -> H3Fault {
    H3Fault::stream(H3Code::Message, reason)
}

/// Takes up to `missing` bytes from the start of `input`.
fn take<'i>(input: &mut &'i [u8], missing: &mut u64) -> &'i [u8] {
    let len = usize::try_from(*missing).unwrap_or(usize::MAX).min(input.len());
    let (part, rest) = input.split_at(len);
    *input = rest;
    *missing -= len as u64;
    part
}

/// Checks the fields of a request (RFC 9114 §4.1.2 to §4.3.1). Returns what is needed of them, and the length
/// of the body that they announce.
fn checked(fields: Vec<Field>) -> Result<(Parts, Option<u64>), H3Fault> {
    let (mut method, mut path, mut scheme, mut authority) = (None, None, None, None);
    let (mut host, mut kind, mut announced) = (false, None, None);
    let mut is_regular = false;
    for (name, value) in fields {
        let pseudo = match &name[..] {
            b":method" => &mut method,
            b":path" => &mut path,
            b":scheme" => &mut scheme,
            b":authority" => &mut authority,
            [b':', ..] | [] => return Err(malformed("an unknown pseudo-header field")),
            name => {
                is_regular = true;
                if name.iter().any(|byte| byte.is_ascii_uppercase() || !byte.is_ascii_graphic()) {
                    return Err(malformed("the name of a field has other characters than allowed"));
                }
                match name {
                    b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding"
                    | b"upgrade" => {
                        return Err(malformed("a field about a connection of HTTP/1.1"));
                    }
                    b"te" if value != b"trailers" => return Err(malformed("a field TE")),
                    b"host" => host = true,
                    b"content-type" => kind = kind.or(Some(value)),
                    b"content-length" => {
                        let length = str::from_utf8(&value).ok().and_then(|text| text.parse().ok());
                        let length: u64 = length.ok_or(malformed("a wrong content-length"))?;
                        if announced.replace(length).is_some_and(|before| before != length) {
                            return Err(malformed("two fields content-length"));
                        }
                    }
                    _ => {}
                }
                continue;
            }
        };
        if is_regular || pseudo.replace(value).is_some() {
            return Err(malformed("a pseudo-header field twice, or behind other fields"));
        }
    }
    let (Some(method), Some(path), Some(_)) = (method, path, scheme) else {
        return Err(malformed("a pseudo-header field is missing"));
    };
    if authority.is_none_or(|authority| authority.is_empty()) && !host {
        return Err(malformed("the request has no host"));
    }
    Ok((parts(&method, path, kind, announced)?, announced))
}

/// Returns the head of a request.
fn parts(method: &[u8], path: Vec<u8>, kind: Option<Vec<u8>>, length: Option<u64>) -> Result<Parts, H3Fault> {
    let mut request = HttpRequest::new(());
    *request.method_mut() = Method::from_bytes(method).map_err(|_| malformed("a wrong method"))?;
    *request.uri_mut() = Uri::try_from(path).map_err(|_| malformed("a wrong path"))?;
    if let Some(kind) = kind.and_then(|kind| HeaderValue::from_bytes(&kind).ok()) {
        request.headers_mut().insert(CONTENT_TYPE, kind);
    }
    if let Some(length) = length {
        request.headers_mut().insert(CONTENT_LENGTH, length.into());
    }
    Ok(request.into_parts().0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::frames::put_varint;
    use super::*;

    const LONGEST: usize = 1000;

    fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, kind);
        put_varint(&mut bytes, payload.len() as u64);
        [&bytes[..], payload].concat()
    }

    /// Returns a header section of literal fields.
    fn section(fields: &[(&str, &str)]) -> Vec<u8> {
        let mut section = vec![0, 0];
        for (name, value) in fields {
            assert!(name.len() < 127 + 7 && value.len() < 127);
            match name.len() {
                len @ ..7 => section.push(0x20 | len as u8),
                len => section.extend([0x27, len as u8 - 7]),
            }
            section.extend(name.bytes());
            section.push(value.len() as u8);
            section.extend(value.bytes());
        }
        section
    }

    const POST: [(&str, &str); 5] = [
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", "dns.test"),
        (":path", "/dns-query"),
        ("content-type", "application/dns-message"),
    ];

    fn post(more: &[(&str, &str)]) -> Vec<u8> {
        frame(HEADERS, &section(&[&POST, more].concat()))
    }

    fn read(bytes: &[u8]) -> Result<Request, H3Fault> {
        let mut reader = RequestReader::new(LONGEST);
        reader.read(bytes)?;
        reader.end()
    }

    fn code(bytes: &[u8]) -> (H3Code, bool) {
        let fault = read(bytes).expect_err("a fault");
        (fault.code, fault.ends_connection)
    }

    #[test]
    fn a_request_is_read_whatever_frames_are_between() {
        let grease = frame(0x21 + 0x1f * 5, b"anything");
        let trailers = frame(HEADERS, &section(&[("a", "b")]));
        let bytes = [
            &grease[..],
            &post(&[("content-length", "6")]),
            &frame(DATA, b"one"),
            &grease,
            &frame(DATA, b""),
            &frame(DATA, b"two"),
            &trailers,
            &grease,
        ]
        .concat();
        let whole = read(&bytes).expect("good");
        assert_eq!((whole.head.method.as_str(), whole.head.uri.path()), ("POST", "/dns-query"));
        assert_eq!(whole.head.headers[CONTENT_TYPE], "application/dns-message");
        assert_eq!(whole.body.as_deref(), Some(&b"onetwo"[..]));
        // Byte by byte.
        let mut reader = RequestReader::new(LONGEST);
        bytes.iter().for_each(|byte| reader.read(&[*byte]).expect("good"));
        assert_eq!(reader.end().expect("good").body.as_deref(), Some(&b"onetwo"[..]));
    }

    #[test]
    fn bodies_are_as_long_as_they_may_be() {
        let with = |len: usize| read(&[post(&[]), frame(DATA, &vec![7; len])].concat());
        assert_eq!(with(LONGEST).expect("good").body.map(|body| body.len()), Some(LONGEST));
        assert!(with(LONGEST + 1).expect("good").body.is_none());
        let far = [post(&[]), frame(DATA, &vec![7; LONGEST + MAX_OTHER + 1])].concat();
        assert_eq!(code(&far), (H3Code::ExcessiveLoad, false));
        let other = [frame(0x21, &vec![7; MAX_OTHER]), post(&[])].concat();
        assert_eq!(code(&other), (H3Code::ExcessiveLoad, false));
        assert_eq!(code(&frame(HEADERS, &vec![0; MAX_FIELDS + 1])), (H3Code::ExcessiveLoad, false));
    }

    #[test]
    fn frames_in_the_wrong_place_end_the_connection() {
        let trailers = frame(HEADERS, &section(&[]));
        for bytes in [
            frame(DATA, b"x"),
            [&post(&[])[..], &trailers, &frame(DATA, b"x")].concat(),
            [&post(&[])[..], &trailers, &trailers].concat(),
            frame(frames::SETTINGS, b""),
            frame(frames::GOAWAY, b"\0"),
            frame(frames::MAX_PUSH_ID, b"\0"),
            frame(frames::CANCEL_PUSH, b"\0"),
            frame(frames::PUSH_PROMISE, b"\0"),
            frame(2, b""),
            frame(9, b""),
        ] {
            assert_eq!(code(&bytes), (H3Code::FrameUnexpected, true), "{bytes:x?}");
        }
        let whole = [post(&[]), frame(DATA, b"body")].concat();
        for len in 1..whole.len() {
            let expected = match len {
                // Between the frames.
                len if len == post(&[]).len() => continue,
                _ => (H3Code::Frame, true),
            };
            assert_eq!(code(&whole[..len]), expected, "{len}");
        }
        assert_eq!(code(b""), (H3Code::RequestIncomplete, false));
    }

    #[test]
    fn malformed_requests_are_refused() {
        let without = |name: &str| {
            let fields: Vec<_> = POST.into_iter().filter(|(field, _)| *field != name).collect();
            frame(HEADERS, &section(&fields))
        };
        let doubled = |field| frame(HEADERS, &section(&[&[field], &POST[..]].concat()));
        for bytes in [
            without(":method"),
            without(":path"),
            without(":scheme"),
            without(":authority"),
            doubled((":path", "/other")),
            post(&[(":status", "200")]),
            post(&[(":path", "/other")]),
            post(&[("Upper", "x")]),
            post(&[("a b", "x")]),
            post(&[("connection", "close")]),
            post(&[("te", "gzip")]),
            post(&[("content-length", "x")]),
            post(&[("content-length", "-1")]),
            post(&[("content-length", "1")]),
            frame(
                HEADERS,
                &section(&[(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/a b")]),
            ),
            [post(&[("content-length", "1")]), frame(DATA, b"xy")].concat(),
        ] {
            assert_eq!(code(&bytes), (H3Code::Message, false), "{bytes:x?}");
        }
        let host = [without(":authority"), Vec::new()].concat();
        assert_eq!(code(&host), (H3Code::Message, false));
        let fields: Vec<_> = POST.into_iter().filter(|(field, _)| *field != ":authority").collect();
        assert!(read(&frame(HEADERS, &section(&[&fields[..], &[("host", "dns.test")]].concat()))).is_ok());
        assert!(read(&post(&[("te", "trailers")])).is_ok());
    }

    proptest! {
        /// However the bytes are cut, the result is the same, and what is kept is bounded.
        #[test]
        fn any_bytes_are_read_alike(
            frames in prop::collection::vec(
                (prop_oneof![0..16_u64, Just(0x21)], prop::collection::vec(any::<u8>(), 0..30)), 0..4,
            ),
            begins in any::<bool>(),
            cut in 0..200_usize,
        ) {
            let mut bytes = if begins { post(&[]) } else { Vec::new() };
            frames.iter().for_each(|(kind, payload)| bytes.extend(frame(*kind, payload)));
            let whole = read(&bytes).map(|request| request.body);
            let mut reader = RequestReader::new(LONGEST);
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            let parts = reader.read(first).and_then(|()| reader.read(second));
            prop_assert!(reader.kept() <= LONGEST + MAX_FIELDS);
            let parts = parts.and_then(|()| reader.end()).map(|request| request.body);
            prop_assert_eq!(whole, parts);
        }
    }
}
