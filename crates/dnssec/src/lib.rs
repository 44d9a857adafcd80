//! DNSSEC: what is computed from names, records and keys, and validating responses by it.
//!
//! What lives here: what RFC 4034, 4035 and 5155 say of a response by itself. No sockets, no clock, no cache:
//! messages, keys and the time are passed in. What does not: which proof an answer needs (`authority`), where
//! records are kept (`zone`, `cache`), whom to ask (`resolver`).
//!
//! | module | holds |
//! |---|---|
//! | [`algorithm`], [`key`], [`nsec3`], [`verify`] | algorithms, key tags and DS digests, NSEC3 hashes, single signatures |
//! | [`anchors`] | trust anchors, negative ones too |
//! | [`rollover`] | trust anchors that follow their zones (RFC 5011) |
//! | [`trust`] | what is known of zones: their keys, their DS, or that they have none |
//! | [`denials`] | what is known not to be there, for names that have not been asked for |
//! | [`response`] | a response as RRsets with their signatures |
//! | `signatures`, `denial`, `delegation` | whether an RRset, an absence, a zone's keys are proven |
//! | [`budget`], [`outcome`] | how much work may be done; what it comes to, and why |
//! | [`validator`] | one response: validated, or what has to be asked for first |
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
