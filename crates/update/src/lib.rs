//! Dynamic updates (RFC 2136): what a request says, whether it may be done, and what it changes in a zone.
//! Has no sockets and no clock: messages and the time are passed in, and a
//! [`ChangeSet`](zone::store::ChangeSet) comes out.
//!
//! ```text
//! message ─▶ UpdateRequest::read ─▶ Updater::apply ─▶ ChangeSet, one for each request that changes something
//!                                     ▲                   │
//!            UpdatePolicy::permission ┘   Updater::finish ┴▶ Zone, once for all of them
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `request.rs` | a request, read and checked as far as that needs no zone: [`UpdateRequest`] |
//! | `policy.rs` | who may change what: [`UpdatePolicy`], [`Permission`] |
//! | `serial.rs` | the serial number of the next version: [`SerialPolicy`] |
//! | `records.rs` | the records of one name while they change |
//! | `updater.rs` | prerequisites and changes, request by request: [`Updater`] |
//! | `fault.rs` | why a request is not done: [`UpdateFault`] |
//!
//! # Order
//!
//! A request is checked in this order, and the first fault is its answer: its form (FORMERR, NOTZONE),
//! whether the zone takes updates and the requester may make these (REFUSED), its prerequisites, and whether
//! the result fits a zone (REFUSED). RFC 2136 §3 has the prerequisites before the permission; as in BIND
//! since 9.18.11 they come after it, so that a client that may change no name does not learn from a
//! prerequisite which names there are.
//!
//! # DNSSEC
//!
//! Nothing here signs. In a zone that is signed elsewhere, each change would leave signatures and proofs that
//! do not fit the data any more, so that validating resolvers would take the zone for forged: such a zone
//! takes no update, REFUSED. RRSIG, NSEC, NSEC3 and NSEC3PARAM belong to the signer and are refused in every
//! zone; DNSKEY, CDS, CDNSKEY and DS are data as any others, so that keys can be announced before a zone is
//! signed.
//!
//! # Where BIND 9.18 decides otherwise
//!
//! - It refuses an update after which an NS record names a host of the zone that has no address
//!   (`check-integrity`), and ignores NS at a wildcard. RFC 2136 asks for neither, and both are done here.
//! - It takes NSEC3PARAM in unsigned zones, and RRSIG at the zone's name.
//! - Of a request with several faults of form it may find another one first.
//!
//! `tests/model.rs` has an interpreter of RFC 2136 on plain maps, with which everything must agree.
#![forbid(unsafe_code)]

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
pub use request::{Prerequisite, Update, UpdateLimits, UpdateRequest};
pub use serial::SerialPolicy;
pub use updater::{Updater, is_signed, is_signers};
