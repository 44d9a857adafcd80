//! Dynamic updates (RFC 2136): parses requests, checks permission, and computes the changes to a zone. Has no
//! sockets and no clock: takes messages and the time, and returns a [`ChangeSet`](zone::store::ChangeSet).
//!
//! ```text
//! message ─▶ UpdateRequest::read ─▶ Updater::apply ─▶ ChangeSet, one for each request that changes something
//!                                     ▲                   │
//!            UpdatePolicy::permission ┘   Updater::finish ┴▶ Zone, once for all of them
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `request.rs` | a request, parsed and checked as far as possible without the zone: [`UpdateRequest`] |
//! | `policy.rs` | access rules: [`UpdatePolicy`], [`Permission`] |
//! | `serial.rs` | the serial number of the next version: [`SerialPolicy`] |
//! | `records.rs` | the records of one name during an update |
//! | `updater.rs` | prerequisites and changes, request by request: [`Updater`] |
//! | `fault.rs` | why a request is rejected: [`UpdateFault`] |
//! | `ds.rs` | the client's side: replacing the DS RRset of a delegation |
//!
//! # Order
//!
//! A request is checked in this order, and the first fault determines the response: its form (FORMERR,
//! NOTZONE), whether the zone accepts updates and the client may make these (REFUSED), its prerequisites, and
//! whether a zone can hold the result (REFUSED). RFC 2136 §3 checks prerequisites before the permission. As
//! in BIND since 9.18.11 they are checked after it here, so that a client without permission cannot use
//! prerequisites to find out which names exist.
//!
//! # DNSSEC
//!
//! This crate does not sign. In a zone that is signed elsewhere, a change would leave signatures and proofs
//! that no longer match the data, so that validating resolvers would treat the zone as bogus: updates of such
//! a zone are REFUSED. RRSIG, NSEC, NSEC3 and NSEC3PARAM belong to the signer and are refused in every zone.
//! DNSKEY, CDS, CDNSKEY and DS are ordinary data, so that keys can be published before a zone is signed.
//!
//! # Differences from BIND 9.18
//!
//! - BIND refuses an update after which an NS record names a host of the zone without an address
//!   (`check-integrity`), and ignores NS at a wildcard. RFC 2136 requires neither, and this crate accepts
//!   both.
//! - BIND accepts NSEC3PARAM in unsigned zones, and RRSIG at the apex.
//! - For a request with several faults of form, BIND may report another one first.
//!
//! `tests/model.rs` has an interpreter of RFC 2136 on plain maps, and compares all results with it.
#![forbid(unsafe_code)]

pub mod ds;
mod fault;
mod policy;
mod records;
mod request;
mod serial;
mod updater;

pub use fault::{UpdateFault, UpdateFaultKind};
pub use policy::{
    GrantOrDeny, NameRelation, Permission, PolicyRule, Requester, RuleClient, RuleFault, RuleTypes,
    UpdatePolicy,
};
pub use records::is_signers;
pub use request::{Prerequisite, Update, UpdateLimits, UpdateRequest};
pub use serial::SerialPolicy;
pub use updater::{Updater, is_signed};
