//! DNSSEC: the NSEC3 hash, canonical form, signatures and the checks a signed zone must pass.
//!
//! What lives here: what RFC 4034, 4035 and 5155 compute from names, records and keys. What does not:
//! which proof an answer needs (`authority`), where records are kept (`zone`).
#![forbid(unsafe_code)]

pub mod nsec3;
