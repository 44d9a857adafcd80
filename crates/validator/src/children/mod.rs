//! What child zones ask of their delegations, for a parent zone: DS sets by CDS and CDNSKEY (RFC 7344, 8078,
//! 9615), NS records and glue by CSYNC (RFC 7477). Answers of the child's servers in, decisions out; without
//! sockets and clock.
//!
//! | module | holds |
//! |---|---|
//! | `refusal` | why a request is not accepted |
//! | `answers` | the RRset of a child at one of its servers |
//! | `proof` | signatures of such an RRset |
//! | `cds` | requests for a DS set, and whether they are accepted |
//! | `csync` | requests for NS records and glue, and whether they are accepted |
//!
//! A DS set is accepted only if the child stays valid with it: see [`CdsRequest::judge`].

mod answers;
mod cds;
mod csync;
mod proof;
mod refusal;
#[cfg(test)]
mod testing;

pub use answers::{ChildRrset, ChildServerFault, ServerAnswer};
pub use cds::{CdsAnswers, CdsDecision, CdsRequest, ChildKeys, DelegationSigners, SignalAnswer};
pub use csync::{
    ChildGlue, CsyncAnswers, CsyncContent, CsyncDecision, CsyncRequest, MAX_NAME_SERVERS, NewServerAnswers,
    ParentalRecords, RrsetOfDelegation,
};
pub use refusal::{ChildRefusal, RefusalReason};
