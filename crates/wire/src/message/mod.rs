//! Messages (RFC 1035 §4): the header, a parser that never allocates, a builder that compresses names.

mod build;
mod compress;
mod header;
mod parse;

pub use build::{Builder, Full, Mark, Owner, Section};
pub use compress::Compressor;
pub use header::{HEADER_LEN, Header, Opcode, Rcode};
pub use parse::{MAX_POINTER_HOPS, Malformed, Parser, Question, RawRecord};

/// The most octets one message can have over a stream, and so at all (RFC 1035 §4.2.2).
pub const MAX_MESSAGE: usize = 65_535;
