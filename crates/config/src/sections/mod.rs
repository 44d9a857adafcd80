//! Sections of the configuration that nodes share over a database: tables such as `[[policy.list]]`, which
//! join those of a node's own configuration file. A section that a node cannot use never makes its
//! configuration unusable: the last good version of the section stays in force there, or none.
//!
//! | file | holds |
//! |---|---|
//! | `kind` | which tables can be shared, their blocks in a configuration |
//! | `split` | a text with several sections, one by one |
//! | `merge` | sections beside the blocks of a configuration file |
//! | `kept` | the file of a node's state folder with its sections |

pub mod kept;
pub mod kind;
pub mod merge;
pub mod split;

pub use kept::{KeptSections, SECTIONS_FILE};
pub use kind::SectionKind;
pub use merge::{MergedSections, SectionState, SectionUse};

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

/// A section: one table of the configuration, or all schedules of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedSection {
    /// The word of its kind. A newer version may have kinds that this one lacks.
    pub kind: String,
    /// Its name among those of its kind.
    pub name: String,
    /// The table in TOML, with its header.
    pub text: String,
}

impl SharedSection {
    /// Returns its kind, if it is one that this version knows.
    pub fn known_kind(&self) -> Option<SectionKind> {
        SectionKind::of(&self.kind)
    }

    /// Whether it has this kind and name.
    pub fn is(&self, other: &SharedSection) -> bool {
        self.kind == other.kind && self.name == other.name
    }

    /// Returns kind and name, for messages.
    pub fn title(&self) -> String {
        format!("{} \"{}\"", self.kind, self.name)
    }
}
