//! DNSSEC: computations on names, records and keys, and validation of responses.
//!
//! Implements RFC 4034, 4035 and 5155 for a single response, without sockets, clock or cache: callers pass in
//! messages, keys and the time. Other crates decide which proof an answer needs (`authority`), store records
//! (`zone`, `cache`), and select servers (`resolver`).
//!
//! | module | holds |
//! |---|---|
//! | [`algorithm`], [`key`], [`nsec3`], [`verify`] | algorithms, key tags and DS digests, NSEC3 hashes, single signatures |
//! | [`anchors`] | trust anchors, including negative ones |
//! | [`rollover`] | trust anchors that follow their zones (RFC 5011) |
//! | [`trust`] | the trust state of zones: keys, DS, or proven absence of DS |
//! | [`denials`] | proven denials, used for further names |
//! | [`response`] | a response as RRsets with their signatures |
//! | `signatures`, `denial`, `delegation` | proofs of an RRset, of nonexistence, of a zone's keys |
//! | [`budget`], [`outcome`] | limits of work; the result, with its reason |
//! | [`validator`] | validates one response, and returns the records that are needed first |
//!
//! `authority` uses the first row of the table; validation uses all of it.
#![forbid(unsafe_code)]

pub mod algorithm;
pub mod anchors;
pub mod budget;
mod delegation;
mod denial;
pub mod denials;
pub mod key;
pub mod nsec3;
pub mod outcome;
pub mod response;
pub mod rollover;
pub mod settings;
mod signatures;
pub mod trust;
pub mod validator;
pub mod verify;

pub use anchors::{AnchorFault, TrustAnchors};
pub use budget::{ValidationBudget, ValidationLimit, ValidationLimits};
pub use denials::{DenialWork, ProvenDenial, ProvenDenials, ProvenRedirect};
pub use outcome::{BogusReason, InsecureReason, Security};
pub use response::{ReceivedSet, ReceivedSignature, Response};
pub use rollover::{AnchorChange, AnchorEvent, AnchorKey, AnchorState, TrustPoint, TrustPoints};
pub use settings::ValidationSettings;
pub use trust::{Need, Trust, TrustTable};
pub use validator::{Progress, Validated, Validation, Validator};
