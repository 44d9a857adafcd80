//! [`Malformed`]: the parse error.

use std::fmt;

/// The bytes do not have the format that an RFC requires of a message or of RDATA. Carries no details: on the
/// query path the response is FORMERR or none, and elsewhere the caller knows what it was parsing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("malformed message or record data")
    }
}
impl std::error::Error for Malformed {}
