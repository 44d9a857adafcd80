//! DNSSEC: the NSEC3 hash, key tags, verifying signatures.
//!
//! What lives here: what RFC 4034, 4035 and 5155 compute from names, records and keys. What does not:
//! which proof an answer needs (`authority`), where records are kept (`zone`).
#![forbid(unsafe_code)]

pub mod key;
pub mod nsec3;
pub mod verify;
