//! HTTP/3 (RFC 9114) as far as a server of DNS over HTTPS needs it, without I/O: `frames` reads the frames of
//! streams, `qpack` and `huffman` read header sections and write those of responses, `control` follows the
//! unidirectional streams of a client, `request` puts a request together, `code` has the error codes.
//!
//! The dynamic table of QPACK has a capacity of 0 (RFC 9204 §3.2.3), so that a header section never waits for
//! another stream and takes no memory of the connection. There is no push.

mod code;
mod control;
mod frames;
mod huffman;
mod qpack;
mod request;
mod static_table;

pub(crate) use code::{H3Code, H3Fault};
pub(crate) use control::{ControlStreams, UniStream};
pub(crate) use frames::{data_head, goaway, opening};
pub(crate) use qpack::{MAX_FIELDS, response};
pub(crate) use request::{Request, RequestReader};
