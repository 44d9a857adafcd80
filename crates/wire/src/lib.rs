//! DNS in wire format and as text: names, types, messages, EDNS and RDATA.
//!
//! This crate covers everything that depends on bytes alone, without zones or caches, and parses without
//! allocating. Other crates determine answers (`authority`), verify signatures (`dnssec`) and store records
//! (`zone`).
//!
//! | module | holds |
//! |---|---|
//! | [`bytes`] | copying and comparing short byte slices |
//! | [`name`] | domain names in wire form, their order, their text; names in lower case, names of zones |
//! | [`hash`] | one pass over a name: lower case, label offsets, the keyed hash of every suffix |
//! | [`rr`] | record types and classes with their mnemonics |
//! | `serial`, `ttl`, `unix_time` | numbers with special arithmetic: [`Serial`], [`Ttl`], [`UnixTime`] |
//! | `malformed` | the parse error [`Malformed`] |
//! | `prefix` | address prefixes: [`Prefix`] |
//! | [`message`] | layout, header, parser, builder with compression |
//! | [`edns`] | OPT: sizes, flags, options, extended errors |
//! | [`rdata`] | one file per record type: layout, validation, text; views of the types that other crates use |
//! | `escape` | escapes in text |
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
mod prefix;
pub mod rdata;
pub mod rr;
mod serial;
pub mod text;
mod ttl;
mod unix_time;

pub use hash::NameHash;
pub use malformed::Malformed;
pub use message::{Header, Opcode, Rcode};
pub use name::{LowerName, LowerNameBuf, Name, NameBuf, ViewName, ZoneName};
pub use prefix::{Prefix, PrefixFault};
pub use rr::{Class, Type};
pub use serial::Serial;
pub use ttl::Ttl;
pub use unix_time::UnixTime;
