//! DNS on the wire and as text: names, types, messages, EDNS and record data.
//!
//! What lives here: everything that can be said about bytes alone. No sockets, no files, no clock, no
//! zone or cache, and no allocation while parsing. What does not: what an answer should be
//! (`authority`), how a record is signed (`dnssec`), where a record is kept (`zone`).
//!
//! | module | holds |
//! |---|---|
//! | [`bytes`] | short pieces of memory, copied and compared |
//! | [`name`] | domain names in wire form, their order, their text; those known to be in lower case |
//! | [`hash`] | one pass over a name: lower case, label offsets, the keyed hash of every suffix |
//! | [`rr`] | record types and classes with their mnemonics |
//! | `serial`, `ttl` | numbers with an arithmetic of their own: [`Serial`], [`Ttl`] |
//! | `malformed` | what is wrong with bytes that cannot be read: [`Malformed`] |
//! | [`message`] | layout, header, parser, builder with compression |
//! | [`edns`] | OPT: sizes, flags, options, extended errors |
//! | [`rdata`] | one file per record type: layout, validation, text; views of the types that others look into |
//! | `escape` | escapes in text, resolved and written |
//! | [`text`] | tokens, escapes, numbers, addresses, base64 and hex |
//!
//! This crate has no dependency, reads no clock and does no I/O.
#![forbid(unsafe_code)]

pub mod bytes;
pub mod edns;
mod escape;
pub mod hash;
mod malformed;
pub mod message;
pub mod name;
pub mod rdata;
pub mod rr;
mod serial;
pub mod text;
mod ttl;

pub use hash::NameHash;
pub use malformed::Malformed;
pub use message::{Header, Opcode, Rcode};
pub use name::{LowerName, LowerNameBuf, Name, NameBuf};
pub use rr::{Class, Type};
pub use serial::Serial;
pub use ttl::Ttl;
