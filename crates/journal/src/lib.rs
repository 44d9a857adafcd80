//! Zones on disk: for each zone the records of a version, the base, and what changed since, so that nothing
//! acknowledged is lost. What changed is the history of the zone, too, from which IXFR (RFC 1995) is
//! answered.
//!
//! A zone has one file. It is written beside the one in use, synced and renamed, so that it is there as a
//! whole or not at all; changes are then put at its end, where what a crash tears is cut off again.
//! docs/JOURNAL.md has its bytes.
//!
//! ```text
//! header │ history: changes up to the base │ base: all records │ changes since ──▶
//! ```
//!
//! What is not here: when a zone is stored and by which thread, and what is done about a fault
//! (`zone-manager`).
//! Nothing is kept open for a zone that does not change.
//!
//! | file | holds |
//! |---|---|
//! | `disk/` | what is needed of a disk: [`Disk`], [`DiskFile`], [`RealDisk`] |
//! | `fault.rs` | [`StoreFault`] |
//! | `names.rs` | what files are called |
//! | `header.rs` | the front of a file |
//! | `frame.rs` | pieces of a file, each with its length and checksums |
//! | `records.rs` | records and changes in such pieces |
//! | `marks.rs` | how far each zone was acknowledged, in a file beside the stores |
//! | `shared.rs` | what the stores of a folder share |
//! | `folder.rs` | the folder of all stores: [`ZoneFolder`] |
//! | `stored.rs` | what was found of a zone: [`Stored`] |
//! | `store.rs` | keeping what changes: [`ZoneStore`] |
//! | `history.rs` | what changed since a version: [`History`] |
//! | `replace.rs` | a new base: [`Replacement`] |
//!
//! One process has a folder at a time. While changes go on, a new base is written beside the file in use.
//! `testkit` has a disk that loses, tears and fails.
#![forbid(unsafe_code)]

mod disk;
mod fault;
mod folder;
mod frame;
mod header;
mod history;
mod marks;
mod names;
mod records;
mod replace;
mod shared;
mod store;
mod stored;

pub use disk::{Disk, DiskFile, RealDisk, WRITTEN_TOGETHER};
pub use fault::StoreFault;
pub use folder::ZoneFolder;
pub use history::History;
pub use replace::Replacement;
pub use store::{DEFAULT_HISTORY, StoreSize, ZoneStore};
pub use stored::{Stored, TornTail};
