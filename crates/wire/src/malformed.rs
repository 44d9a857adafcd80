//! The one thing that can be wrong with bytes.

use std::fmt;

/// Bytes that do not have the form that an RFC asks for: a message, or the data of a record. Carries nothing:
/// on the query path the answer is FORMERR or silence, and elsewhere the caller knows what it was about to
/// read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("malformed message or record data")
    }
}
impl std::error::Error for Malformed {}
