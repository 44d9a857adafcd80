//! Validation of responses (RFC 4035, 5155): chains of trust from trust anchors to the data.
//!
//! Validates a single response, without sockets, clock or cache: callers pass in messages and the time. Other
//! crates verify signatures and hash names (`dnssec`), store answers (`cache`), and select servers
//! (`resolver`).
//!
//! | module | holds |
//! |---|---|
//! | `settings` | the operator's settings |
//! | `budget` | limits of work |
//! | `outcome` | the result, with its reason |
//! | `response` | a response as RRsets with their signatures |
//! | `signatures` | proof of an RRset |
//! | `denial` | proof of nonexistence |
//! | `anchors` | trust anchors, including negative ones |
//! | `trust` | the trust state of zones: keys, DS, or proven absence of DS |
//! | `delegation` | proof of a zone's keys |
//! | `validation` | validates one response, and returns the records that are needed first |
//! | `denials` | proven denials, used for further names |
//! | `rollover` | trust anchors that follow their zones (RFC 5011) |
//! | [`children`] | what child zones ask of their delegations: CDS, CDNSKEY, CSYNC |
//!
//! A module uses only those above it.
#![forbid(unsafe_code)]

mod anchors;
mod budget;
pub mod children;
mod delegation;
mod denial;
mod denials;
mod outcome;
mod response;
mod rollover;
mod settings;
mod signatures;
mod trust;
mod validation;

pub use anchors::{AnchorFault, TrustAnchors};
pub use budget::{ValidationBudget, ValidationLimit, ValidationLimits};
pub use denials::{DenialWork, ProvenDenial, ProvenDenials, ProvenRedirect, ProvenWildcard};
pub use outcome::{BogusReason, InsecureReason, Security};
pub use response::{ReceivedSet, ReceivedSignature, Response};
pub use rollover::{
    AnchorChange, AnchorEvent, AnchorKey, AnchorReport, AnchorState, HOLD_DOWN, TrustPoint, TrustPoints,
    TrustTextFault,
};
pub use settings::ValidationSettings;
pub use trust::{Need, Trust, TrustTable};
pub use validation::{Progress, Validated, Validation, Validator};
