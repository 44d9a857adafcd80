//! The error codes of HTTP/3 (RFC 9114 §8.1) and of QPACK (RFC 9204 §6), and faults of clients.

/// An error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum H3Code {
    /// H3_NO_ERROR: the connection or stream is not needed any more.
    NoError = 0x100,
    /// H3_INTERNAL_ERROR: the server cannot go on.
    Internal = 0x102,
    /// H3_STREAM_CREATION_ERROR: a stream that the other side does not take.
    StreamCreation = 0x103,
    /// H3_CLOSED_CRITICAL_STREAM: a stream that the connection needs has ended.
    ClosedCriticalStream = 0x104,
    /// H3_FRAME_UNEXPECTED: a frame that is not allowed here.
    FrameUnexpected = 0x105,
    /// H3_FRAME_ERROR: a frame with a wrong layout or size.
    Frame = 0x106,
    /// H3_EXCESSIVE_LOAD: the client takes more than there is room for.
    ExcessiveLoad = 0x107,
    /// H3_ID_ERROR: a wrong number of a stream or push.
    Id = 0x108,
    /// H3_SETTINGS_ERROR: a frame SETTINGS with an error in it.
    Settings = 0x109,
    /// H3_MISSING_SETTINGS: a control stream that does not begin with SETTINGS.
    MissingSettings = 0x10a,
    /// H3_REQUEST_CANCELLED: the request or its response is not needed any more.
    RequestCancelled = 0x10c,
    /// H3_REQUEST_INCOMPLETE: the stream ended before the request was complete.
    RequestIncomplete = 0x10d,
    /// H3_MESSAGE_ERROR: a malformed request.
    Message = 0x10e,
    /// QPACK_DECOMPRESSION_FAILED: a header section that cannot be read.
    Decompression = 0x200,
    /// QPACK_ENCODER_STREAM_ERROR: an instruction of the client's encoder that is not allowed.
    EncoderStream = 0x201,
    /// QPACK_DECODER_STREAM_ERROR: an instruction of the client's decoder that is not allowed.
    DecoderStream = 0x202,
}

/// How a client broke the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct H3Fault {
    /// The error that the client gets.
    pub(crate) code: H3Code,
    /// Whether it is one of the connection, not of a stream alone.
    pub(crate) ends_connection: bool,
    /// The reason in words.
    pub(crate) reason: &'static str,
}

impl H3Fault {
    /// An error that ends the connection.
    pub(super) const fn connection(code: H3Code, reason: &'static str) -> Self {
        H3Fault { code, ends_connection: true, reason }
    }

    /// An error that ends a stream.
    pub(super) const fn stream(code: H3Code, reason: &'static str) -> Self {
        H3Fault { code, ends_connection: false, reason }
    }
}
