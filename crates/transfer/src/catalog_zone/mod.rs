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

pub use membership::{Conflict, ListedIn, MemberIdentity, MemberOf, Settled, settle};
pub use produce::{base_records, member_label, record_change, version_step};
pub use read::{CatalogFault, CatalogWarning, CatalogZone, Member};

use std::sync::Arc;

use wire::Name;

/// The name of a zone, in lower case and wire form. Catalog zones list many: a `LowerNameBuf` takes 256
/// bytes, whereas all references to a zone share this.
pub type ZoneName = Arc<[u8]>;

/// Labels with a meaning in the schema, in lower case.
const VERSION: &[u8] = b"version";
const ZONES: &[u8] = b"zones";
const GROUP: &[u8] = b"group";
const NEW_OWNER: &[u8] = b"coo";
/// The only version of the schema (RFC 9432 §4.2.1).
const SCHEMA: &[u8] = b"2";

/// The name in lower case and wire form.
fn zone_name(name: Name<'_>) -> ZoneName {
    name.to_lower().as_lower().as_wire().into()
}

/// The name for display.
fn shown(zone: &[u8]) -> Name<'_> {
    Name::from_wire(zone).unwrap_or(Name::ROOT)
}
