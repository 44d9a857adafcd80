//! DNSSEC signing, without sockets and without a clock: callers pass in records, keys and the time.
//!
//! | module | holds |
//! |---|---|
//! | [`key`] | private keys, their DNSKEY records, the text of their files |
//! | [`files`] | the files of keys on disk; the only module that opens files |
//! | [`keyset`] | the keys of a zone: which are published, which sign what |
//! | [`policy`] | how keys and signatures are maintained |
//! | [`rollover`] | key states and rollovers: which keys a zone has at a time (RFC 7583) |
//! | [`rrset`] | signatures over single RRsets |
//! | [`denial`] | NSEC and NSEC3 records, type bitmaps |
//! | [`scan`] | which keys have signed a version, and until when |
//! | [`zone`](mod@crate::zone) | signing whole zones |
//! | [`incremental`] | signing changes of zones, renewing signatures |
//! | [`online`] | signatures of answers, made when they are asked for |
//! | [`parallel`] | parts of a zone on several threads |
//!
//! Numbers of private keys are in [`key`] alone, and are erased when their memory is freed. Time is always an
//! argument, so a result depends on the arguments alone, except that ECDSA signatures are random.
//!
//! [`sign_zone`](crate::zone::sign_zone) signs a zone as a whole; [`incremental`] then signs what changes.
#![forbid(unsafe_code)]

pub mod denial;
pub mod files;
pub mod incremental;
pub mod key;
pub mod keyset;
pub mod online;
pub mod parallel;
pub mod policy;
pub mod rollover;
pub mod rrset;
pub mod scan;
pub mod zone;
