//! Catalog zones (RFC 9432): zones whose records list other zones.
//!
//! | file | holds |
//! |---|---|
//! | `read.rs` | the entries of a catalog zone: [`CatalogZone`] |
//! | `membership.rs` | the member zones, where several catalog zones list them: [`settle`] |
//! | `produce.rs` | the records of a catalog zone that this server produces: [`base_records`], [`record_change`] |

mod membership;
mod produce;
mod read;
#[cfg(test)]
mod tests;

pub use membership::{Claim, Conflict, ListedIn, MemberOf, Settled, settle};
pub use produce::{base_records, member_label, record_change, version_step};
pub use read::{CatalogFault, CatalogWarning, CatalogZone, Member};

/// Labels with a meaning in the schema, in lower case.
const VERSION: &[u8] = b"version";
const ZONES: &[u8] = b"zones";
const GROUP: &[u8] = b"group";
const NEW_OWNER: &[u8] = b"coo";
/// The only version of the schema (RFC 9432 §4.2.1).
const SCHEMA: &[u8] = b"2";
