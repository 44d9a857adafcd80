//! Messages (RFC 1035 §4): the header, a parser that never allocates, and a builder with name compression.
//!
//! The builder never nests more compression pointers than readers follow, and rolls back a record that does
//! not fit.

mod build;
mod compress;
mod header;
mod layout;
mod parse;

pub use build::{Builder, Full, Mark, Owner, Section};
pub use compress::Compressor;
pub use header::{Header, Opcode, Rcode};
pub use layout::{
    HEADER_LEN, MAX_MESSAGE, MAX_POINTERS, Offset, POINTER, POINTER_LEN, QNAME_POINTER, QUESTION_TAIL,
    RDLENGTH_AT, RECORD_HEAD, TTL_AT, rdlength,
};
pub use parse::{MAX_POINTER_HOPS, Parser, Question, RawRecord};

pub use crate::malformed::Malformed;
