//! DNSSEC signing, without sockets and without a clock: callers pass in records, keys and the time.
//!
//! | module | holds |
//! |---|---|
//! | [`key`] | private keys, their DNSKEY records, the text of their files |
//! | [`files`] | the files of keys on disk; the only module that opens files |
//! | [`keyset`] | the keys of a zone: which are published, which sign what |
//! | [`rrset`] | signatures over single RRsets |
//! | [`denial`] | NSEC and NSEC3 records, type bitmaps |
//! | [`zone`](mod@crate::zone) | signing whole zones |
//! | [`parallel`] | parts of a zone on several threads |
//!
//! Numbers of private keys are in [`key`] alone, and are erased when their memory is freed. Time is always an
//! argument, so a result depends on the arguments alone, except that ECDSA signatures are random.
//!
//! To sign again after a change, [`sign_rrset`](rrset::sign_rrset) makes the signatures of one RRset, and
//! [`denial`] the records of one name; [`sign_zone`](crate::zone::sign_zone) is made of the same functions.
#![forbid(unsafe_code)]

pub mod denial;
pub mod files;
pub mod key;
pub mod keyset;
pub mod parallel;
pub mod rrset;
pub mod zone;
