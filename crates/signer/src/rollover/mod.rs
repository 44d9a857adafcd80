//! Key states and rollovers (RFC 7583, RFC 6781): which keys a zone has, and what each of them does, now.
//!
//! Nothing here opens a file, sends a query or reads a clock. The thread that changes a zone
//!
//! 1. calls [`Keyring::step`] with [`Facts`] about the version in service, and gets a [`KeyPlan`];
//! 2. writes the states of the [`changed`](KeyPlan::changed) keys to their `.state` files ([`text`]);
//! 3. generates keys and calls `step` again, or signs, and commits and publishes the next version;
//! 4. calls `step` again, which observes what is in service now, and starts the waits from there; goes on
//!    at 2.
//!
//! States must be on disk before the next version is published: the step after a restart knows of the TTLs of
//! the version in service and of the one before, and of earlier ones by the states alone.
//!
//! A record changes its state only when the change is observed: a state never claims more than what was in
//! service, so a crash between two of these writes is harmless. The step after a restart observes the zone.
//!
//! | module | holds |
//! |---|---|
//! | [`state`] | the state of a key |
//! | [`facts`] | what is in service |
//! | [`plan`] | what a step decides |
//! | [`text`] | the text of `.state` files |
//! | [`ring`] | the keys of a zone, and a step |
//! | `parent` | what the servers of the parent say about the keys |
//! | `observe` | what facts and time do to states |
//! | `goals` | which keys are to stay, when a rollover starts |
//! | `rules` | which changes keep the chain of trust in every cache |
//! | `requests` | what operators ask for |
//! | `timeline` | events to come |
//! | [`offline`] | requests and responses of zones whose KSK is kept offline |
//! | `presigned` | which slot of a response a version has, and what its ZSKs do |
//!
//! # Rules
//!
//! A validator may have any version of the DS, DNSKEY and other RRsets that their TTLs allow, in any
//! combination. [Hidden](RecordState::Hidden) is in no such version,
//! [Omnipresent](RecordState::Omnipresent) in all, the two others in some. A change of the zone is decided
//! only if then
//!
//! - each DS RRset leads to a DNSKEY RRset: each key that may be in a DS RRset is in all DNSKEY RRsets and
//!   signs them, or one such key is in all DS RRsets of its algorithm;
//! - each RRset has a signature by a key that is in all DNSKEY RRsets, for each algorithm of DS records;
//! - each RRset has a signature of each algorithm that may be in a DNSKEY RRset (RFC 4035 §2.2): signatures
//!   of a new algorithm come first, then its DNSKEY records, then the DS; they go in the reverse order;
//! - DS records are never all withdrawn, unless the policy wants an unsigned zone.
//!
//! While no DS record can be in any cache, no validator looks at the zone, and all changes are made at once.

pub mod facts;
mod goals;
mod observe;
pub mod offline;
mod parent;
pub mod plan;
mod presigned;
mod requests;
pub mod ring;
mod rules;
pub mod state;
pub mod text;
mod timeline;

pub use facts::{Facts, ParentView};
pub use plan::{KeyPlan, KeyWait, NewKey, RollFault, SlotUse, WaitCause};
pub use requests::RollTarget;
pub use ring::{KeyStatus, Keyring};
pub use state::{
    KeyDates, KeyDuty, KeyGoal, KeyId, KeyPurpose, KeyState, ManagedKey, RecordState, RecordTrack,
};
pub use timeline::RolloverEvent;

#[cfg(test)]
mod tests;
