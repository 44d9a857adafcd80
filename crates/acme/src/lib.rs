//! Certificates from a CA by ACME (RFC 8555): one order with its challenges, when the next one is due, and
//! what is stored. Without threads and listeners: callers run the orders and show the CA the challenges.
//!
//! | module | what it has |
//! |---|---|
//! | `order` | an order, from the account to the chain of certificates |
//! | `challenge` | how a CA is shown that this server has the names |
//! | `renewal` | when a CA suggests to renew a certificate |
//! | `client` | its HTTP requests |
//! | `schedule` | when an order is due: renewal, and waits after failures |
//! | `store` | accounts, the certificate and the schedule on disk |
//! | `issued` | the chain and the key that an order results in |
//! | `fault` | why there is no certificate |
//!
//! The messages and signatures of the protocol are those of the crate `instant-acme`.
#![forbid(unsafe_code)]

mod challenge;
mod client;
mod fault;
mod issued;
mod order;
mod renewal;
mod schedule;
mod store;

pub use challenge::{ChallengeKind, ChallengeProof, Challenges};
pub use fault::{AcmeFault, AcmeStoreFault};
pub use issued::IssuedChain;
pub use order::{AcmeOrder, ExternalAccount};
pub use renewal::RenewalSuggestion;
pub use schedule::{AcmeSchedule, AcmeTarget, CertificatePeriod, DueReason, LastFailure};
pub use store::{AcmeStore, StoredRecord};
