//! What a node and its database pass to each other: zones, commits and how they end, content, faults.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use wire::{Serial, ZoneName};
use zone::Zone;
use zone::store::ChangeSet;

use crate::keys::{KeyCommit, KeySetVersion, ZoneKeySet};

/// The number of a zone in the database. A zone that is removed and created anew has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ZoneId(pub i64);

impl fmt::Display for ZoneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A zone of the database, without its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedZone {
    /// Its number.
    pub id: ZoneId,
    /// Its name, with its view.
    pub apex: ZoneName,
    /// The template that its settings are from; `None`: the default one.
    pub template: Option<String>,
    /// The serial of its version in the database.
    pub serial: Serial,
}

/// A zone to be created.
#[derive(Clone, Debug)]
pub struct NewZone {
    /// Its name, with its view.
    pub apex: ZoneName,
    /// The template that its settings are from; `None`: the default one.
    pub template: Option<String>,
    /// Its first version.
    pub content: Arc<Zone>,
    /// Who creates it, for the history.
    pub author: String,
}

/// The change of one zone, to be committed in the database.
#[derive(Clone, Debug)]
pub struct ZoneCommit {
    /// The zone.
    pub zone: ZoneId,
    /// Its name.
    pub apex: ZoneName,
    /// The version that the change was decided about.
    pub before: Arc<Zone>,
    /// The version to come. RRsets that the steps touch are written as it has them.
    pub after: Arc<Zone>,
    /// The steps from `before` to `after`, in order. None: the commit only ensures that `before` is the
    /// newest version.
    pub steps: Vec<CommitStep>,
    /// The keys that it was signed with, and what they become; `None`: the nodes do not sign the zone.
    pub keys: Option<KeyCommit>,
    /// When the change was tried first. A conflict `timeout` or more after that refuses the change.
    pub since: Instant,
}

/// One step of a [`ZoneCommit`].
#[derive(Clone, Debug)]
pub struct CommitStep {
    /// What changes.
    pub change: Arc<ChangeSet>,
    /// Who made it, for the history: a key, an address, a token's name.
    pub author: String,
}

/// Is called once, with the end of a commit. It must not block.
pub type OnCommit = Box<dyn FnOnce(CommitEnd) + Send>;

/// How a commit ended.
#[derive(Debug)]
pub enum CommitEnd {
    /// The database has it: it is durable.
    Committed,
    /// Not made: the zone or its keys were changed by another node. What the database has instead: steps from
    /// `before`, or the whole zone. [`DatabaseSink::keys`] was called with the keys before.
    Conflict(ZoneContent),
    /// Not made: the database has no such zone any more.
    Gone,
    /// Not made: the database does not accept it, with the reason. Another try would fail, too.
    Refused(String),
    /// Not made, since the database could not be reached or did not answer in time, with the reason.
    Unavailable(String),
    /// It is not known whether it was made: the connection was lost meanwhile, with the reason.
    Unclear(String),
}

/// Records of a zone, as the database has them.
#[derive(Clone, Debug)]
pub enum ZoneContent {
    /// The steps from one version to the next ones, in order.
    Steps(Vec<Arc<ChangeSet>>),
    /// The whole zone.
    Whole(Arc<Zone>),
    /// The records are no zone: which one, and why.
    Unfit(String),
}

/// Why something was not done in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseFault {
    /// There is a zone of this name already.
    Exists,
    /// There is no such zone.
    Gone,
    /// The database does not accept it, with the reason.
    Refused(String),
    /// The database cannot be reached, or does not answer in time, with the reason. Nothing was done.
    Unavailable(String),
    /// It is not known whether it was done, with the reason.
    Unclear(String),
}

impl fmt::Display for DatabaseFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists => f.write_str("the database has a zone of this name already"),
            Self::Gone => f.write_str("the database has no such zone"),
            Self::Refused(why) => write!(f, "the database does not accept it: {why}"),
            Self::Unavailable(why) => write!(f, "the database is not available: {why}"),
            Self::Unclear(why) => write!(f, "it is not known whether the database has done it: {why}"),
        }
    }
}
impl std::error::Error for DatabaseFault {}

/// One row of the history of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedChange {
    /// Its number, which orders all changes of the database.
    pub number: i64,
    /// `create`, `change`, `replace`, `remove` or `properties`.
    pub kind: String,
    /// The serials before and after, as far as there were versions.
    pub before: Option<Serial>,
    /// See `before`.
    pub after: Option<Serial>,
    /// The removed records, as text. Empty if the zone changed as a whole.
    pub removed: Vec<String>,
    /// The added records, as text. Empty if the zone changed as a whole.
    pub added: Vec<String>,
    /// Who made it.
    pub author: String,
    /// The node that committed it.
    pub node: String,
    /// When it was committed, by the clock of the database.
    pub at: SystemTime,
}

/// Is called with rows of the history, the newest first.
pub type OnHistory = Box<dyn FnOnce(Result<Vec<RecordedChange>, DatabaseFault>) + Send>;

/// Is called with the table of nodes.
pub type OnNodes = Box<dyn FnOnce(Result<Vec<crate::counts::DatabaseNode>, DatabaseFault>) + Send>;

/// A section of the configuration that all nodes share, as the database has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSection {
    /// The header of its table, such as `policy.list`.
    pub kind: String,
    /// Its name among those of its kind.
    pub name: String,
    /// The table in TOML. It may have secrets.
    pub text: String,
    /// Who has set it.
    pub author: String,
    /// The node, or the command, that has stored it.
    pub node: String,
    /// When it was stored, by the clock of the database.
    pub at: SystemTime,
    /// The number of its last change.
    pub change: i64,
}

/// All sections of a database, by kind, and in the order of their places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SectionSet {
    /// The number of the last change of a section; 0: there was none.
    pub number: i64,
    /// The sections.
    pub sections: Vec<StoredSection>,
}

/// The change of one section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionEdit {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The table in TOML; `None`: the section is removed.
    pub text: Option<String>,
    /// Its place among those of its kind; `None`: the one that it has, or the last one.
    pub place: Option<i64>,
}

/// One row of the history of sections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionEvent {
    /// Its number among all changes of the database.
    pub number: i64,
    /// The kind of the section.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The TOML before; `None` if there was no such section, or if it has a secret.
    pub before: Option<String>,
    /// The TOML afterwards; `None` if the section was removed, or if it has a secret.
    pub after: Option<String>,
    /// Who made the change.
    pub author: String,
    /// The node, or the command, that has stored it.
    pub node: String,
    /// When it was stored, by the clock of the database.
    pub at: SystemTime,
}

/// Receives the zones of a database. For each zone, `created` comes before its content, and content comes
/// in the order of commits.
pub trait DatabaseSink: Send + Sync {
    /// All zones of the database, after each connection. Returns the serial at hand of each; `None` if
    /// there is no version. Content of those that differ follows. May block.
    fn listed(&self, zones: Vec<ListedZone>) -> Vec<Option<Serial>>;

    /// A zone was created, and its content follows; or its properties changed. May block.
    fn created(&self, zone: ListedZone);

    /// A zone was removed. It may be unknown here. May block.
    fn removed(&self, zone: ZoneId, apex: &ZoneName);

    /// Records of a zone. Changes that this node committed may or may not come as steps: steps that the
    /// version at hand has already are to be skipped. Must not block.
    fn content(&self, zone: ZoneId, apex: &ZoneName, content: ZoneContent);

    /// The versions of the keys of all zones that have some, after each connection and before any content.
    /// Returns the zones whose keys are wanted. Must not block.
    fn keys_listed(&self, versions: &HashMap<ZoneId, KeySetVersion>) -> Vec<ZoneId> {
        let _ = versions;
        Vec::new()
    }

    /// Keys of a zone, which may be older than those of a commit of this node. Must not block.
    fn keys(&self, zone: ZoneId, apex: &ZoneName, keys: ZoneKeySet) {
        let _ = (zone, apex, keys);
    }

    /// Whether this node has zones to sign, and so is to be the node that signs if no other one is. Must not
    /// block.
    fn has_zones_to_sign(&self) -> bool {
        false
    }

    /// This node is the one that signs, or no longer. Must not block.
    fn signs(&self, signs: bool) {
        let _ = signs;
    }

    /// All sections of the configuration, after each connection (`listed`) and after changes of them. May
    /// block.
    fn sections(&self, set: SectionSet, listed: bool) {
        let _ = (set, listed);
    }

    /// The database is connected, or no longer, with the reason. Must not block.
    fn reached(&self, connected: bool, why: Option<&str>) {
        let _ = (connected, why);
    }
}
