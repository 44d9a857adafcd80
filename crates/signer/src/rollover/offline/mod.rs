//! Zones whose KSK is kept offline: the machine with the KSK signs the DNSKEY, CDS and CDNSKEY RRsets ahead
//! of time.
//!
//! 1. The server has ZSKs for a span of time, with the times at which each is published, signs and is
//!    removed ([`schedule`]).
//! 2. A key signing request (KSR) lists the DNSKEY records of the ZSKs for each slot of time ([`request`]).
//! 3. The machine with the KSK adds the DNSKEY records of KSKs and signs the sets of each slot, again each
//!    time before its signatures expire ([`signing`]). The result is a signed key response (SKR,
//!    [`response`]).
//! 4. The server checks the response as a whole ([`check`]), and publishes the sets of each slot at its time,
//!    with the signatures of the response.
//!
//! The texts of KSR and SKR are those of `dnssec-ksr` of BIND 9.20.

pub mod check;
mod lines;
pub mod request;
pub mod response;
pub mod schedule;
pub mod signing;

pub use check::{ResponseFault, ResponseFaultKind, ResponseTerms};
pub use lines::{ExchangeFault, ExchangeFaultKind};
pub use request::{KeySigningRequest, RequestSlot};
pub use response::{ResponseSlot, SignedKeyResponse};
pub use schedule::{KeySchedule, OfflineKeys, ScheduleFault, ScheduleTimes};
pub use signing::{RequestFault, SlotSigning, sign_request};

#[cfg(test)]
mod tests;
