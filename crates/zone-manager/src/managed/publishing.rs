//! Messages to the thread that puts versions into service (`zones::publishing`), and claims of zones.

use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender};

use query_path::ViewClients;
use wire::{UnixTime, ZoneName};
use zone::Zone;
use zone::catalog::Change;

use super::FileStamp;
use super::examination::Examination;
use super::state::{ImageOrder, SecondaryNews};
use crate::fold::FoldNumber;
use zone_plan::{QueryGrants, ZoneQueries};

/// Runs once a version is in service.
pub type OncePublished = Box<dyn FnOnce() + Send>;
/// Receives the reply to a claim.
pub type ClaimReply = Box<dyn FnOnce(Option<ClaimedZone>) + Send>;

/// A message to the publishing thread.
pub(crate) enum Publishing {
    /// A step to the next catalog.
    Step { apex: ZoneName, change: Change, at_once: bool },
    /// Which clients are in which view from the next catalog on; `None`: there are no views.
    Views(Option<Arc<ViewClients>>),
    /// Who may query which zone, of all zones; a zone that not every client could query keeps its rules until
    /// `SettledQueries`.
    Queries(ZoneQueries),
    /// The steps of all zones that are removed have been sent.
    SettledQueries,
    /// Who may query these zones; `None`: every client.
    ChangedQueries(Vec<(ZoneName, Option<QueryGrants>)>),
    /// An image to write once the steps before it are in service.
    Image(ImageOrder),
    /// Updates have made this version; the function runs once the version is in service.
    Changed(ZoneName, Arc<Zone>, OncePublished),
    /// The function runs once the steps before it are in service.
    Once(OncePublished),
    /// An event of a secondary zone.
    News(ZoneName, SecondaryNews),
    /// When a secondary zone expires.
    Expires(ZoneName, Option<UnixTime>),
    /// Updates change this zone from now on.
    Claim(ZoneName, ClaimReply),
    /// The claim of this zone has ended.
    Unclaim(ZoneName),
    /// The zone file was written with the version that updates have made.
    Wrote(ZoneName, FileStamp),
    /// Result of examining a version.
    Examined(ZoneName, Arc<Zone>, Arc<Examination>),
    /// The end of a job that folds a version; `None` if it failed.
    Folded(ZoneName, FoldNumber, Option<Arc<Zone>>),
    /// Publishes the steps before it. The reply has the reason if steps failed since the last such message.
    Flush(SyncSender<Option<Arc<str>>>),
    /// Publishes the steps before it, and ends the thread.
    Stop,
}

/// A zone that updates change, as it is when the claim begins.
pub struct ClaimedZone {
    /// The version in service.
    pub version: Arc<Zone>,
    /// Whether it is a version of a zone of the database.
    pub of_database: bool,
    /// Its file as it was when last read.
    pub file: Option<FileStamp>,
    /// Ends the claim when dropped.
    pub claim: Claim,
}

/// A zone's claim: updates change the zone, its file does not. Dropping the claim has the zone load from its
/// file again, unless [kept](Self::keep) or the zone was claimed before.
pub struct Claim {
    apex: ZoneName,
    /// Receives the end of the claim; `None` if the claim does not end.
    ends_at: Option<Sender<Publishing>>,
}

impl Claim {
    /// Returns a claim of this zone. When dropped, it sends [`Publishing::Unclaim`] to `ends_at`, if given.
    pub(crate) fn new(apex: ZoneName, ends_at: Option<Sender<Publishing>>) -> Self {
        Claim { apex, ends_at }
    }

    /// Makes the claim permanent: updates of the zone are stored.
    pub fn keep(&mut self) {
        self.ends_at = None;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(messages) = self.ends_at.take() {
            // A send error means that the server is stopping.
            let _ = messages.send(Publishing::Unclaim(self.apex.clone()));
        }
    }
}

/// Reports new versions to the publishing thread; cheap to clone.
#[derive(Clone)]
pub struct PublishHandle(pub(crate) Sender<Publishing>);

impl PublishHandle {
    /// Claims a zone: from now on updates change it, and its file does not. `reply` gets the version in
    /// service, or `None`; it is dropped if the server is stopping.
    pub fn claim(&self, apex: ZoneName, reply: ClaimReply) {
        // A send error means that the server is stopping.
        let _ = self.0.send(Publishing::Claim(apex, reply));
    }

    /// Reports that the file of a claimed zone was written with the version that updates have made.
    pub fn wrote(&self, apex: ZoneName, file: FileStamp) {
        let _ = self.0.send(Publishing::Wrote(apex, file));
    }

    /// Reports a version that updates have made; `done` runs once it is in service.
    pub fn changed(&self, apex: ZoneName, zone: Arc<Zone>, done: OncePublished) {
        let _ = self.0.send(Publishing::Changed(apex, zone, done));
    }

    /// Reports an event of a secondary zone.
    pub fn news(&self, apex: ZoneName, news: SecondaryNews) {
        // A send error means that the server is stopping.
        let _ = self.0.send(Publishing::News(apex, news));
    }

    /// Reports when a secondary zone expires.
    pub fn expires(&self, apex: ZoneName, at: Option<UnixTime>) {
        // As above.
        let _ = self.0.send(Publishing::Expires(apex, at));
    }
}
