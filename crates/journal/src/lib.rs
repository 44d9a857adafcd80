//! Zone storage on disk: for each zone a base (all records of one version) and the changes since, so that no
//! acknowledged change is lost. The changes are also the zone's history, from which IXFR (RFC 1995) is
//! answered.
//!
//! Each zone has one file. A new file is written beside the one in use, synced and renamed, so that it exists
//! as a whole or not at all. Changes are then appended; an append that a crash tore is cut off.
//! docs/JOURNAL.md describes the bytes.
//!
//! ```text
//! header │ history: changes up to the base │ base: all records │ changes since ──▶
//! ```
//!
//! When and on which thread a zone is stored, and how a fault is handled, is decided in `zone-manager`. A
//! zone that does not change has no open file.
//!
//! | file | holds |
//! |---|---|
//! | `disk/` | the operations a disk has to offer: [`Disk`], [`DiskFile`], [`RealDisk`] |
//! | `fault.rs` | [`StoreFault`] |
//! | `names.rs` | file names |
//! | `header.rs` | the first 512 bytes of a file |
//! | `frame.rs` | frames: pieces of a file, each with its length and checksums |
//! | `records.rs` | encoding of records and changes within frames |
//! | `marks.rs` | how far each zone was acknowledged, in a file beside the stores |
//! | `shared.rs` | state shared by the stores of a folder |
//! | `folder.rs` | the folder of all stores: [`StoreFolder`] |
//! | `folders.rs` | the folders of all views and of the zones outside: [`StoreFolders`] |
//! | `stored.rs` | what a store held when it was opened: [`StoreContents`] |
//! | `store.rs` | appends and acknowledges changes: [`ZoneStore`] |
//! | `history.rs` | the changes since a version: [`History`] |
//! | `replace.rs` | writes a new base: [`Replacement`] |
//!
//! One process uses a folder at a time. A new base can be written beside the file in use while changes are
//! appended. `testkit` has a disk that loses, tears and fails.
#![forbid(unsafe_code)]

mod disk;
mod fault;
mod folder;
mod folders;
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
pub use folder::StoreFolder;
pub use folders::{HeldStores, StoreFolders};
pub use history::History;
pub use names::{apex_of as zone_of_file_name, file_name as zone_file_name};
pub use replace::Replacement;
pub use store::{DEFAULT_HISTORY, StoreSize, ZoneStore};
pub use stored::{StoreContents, TornTail};
