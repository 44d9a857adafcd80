//! Messages to the thread that puts versions into service (`zones::publishing`), and claims of zones.

use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender};

use zone::Zone;
use zone::catalog::Change;

use super::examination::Examination;
use super::state::{ImageOrder, SecondaryNews};
use super::{Apex, FileStamp};

/// What is done once something is in service.
pub type OncePublished = Box<dyn FnOnce() + Send>;
/// Takes the reply to a claim.
pub type ClaimReply = Box<dyn FnOnce(Option<ClaimedZone>) + Send>;

/// A message to the thread.
pub(crate) enum Publishing {
    /// A step to the next catalog.
    Step { change: Change, at_once: bool },
    /// An image to be written once the steps before it are made.
    Image(ImageOrder),
    /// Updates have made this version; the function runs once it is in service.
    Changed(Apex, Arc<Zone>, OncePublished),
    /// The function runs once the steps before it are made.
    Once(OncePublished),
    /// What became of a zone that is taken from primaries.
    News(Apex, SecondaryNews),
    /// When a zone expires, in seconds since 1970.
    Expires(Apex, Option<u64>),
    /// A zone is changed by updates from now on.
    Claim(Apex, ClaimReply),
    /// And no longer.
    Unclaim(Apex),
    /// The file of a zone was written with what updates have made of the zone.
    Wrote(Apex, FileStamp),
    /// A version was examined.
    Examined(Apex, Arc<Zone>, Arc<Examination>),
    /// A version was folded into the second one.
    Folded(Apex, Arc<Zone>, Arc<Zone>),
    /// Makes the steps before it. The reply says why steps were not made since the last such message, if they
    /// were not.
    Flush(SyncSender<Option<Arc<str>>>),
    /// Makes the steps before it, and ends.
    Stop,
}

/// A zone that is changed by updates, as it is when that begins.
pub struct ClaimedZone {
    /// The version in service.
    pub version: Arc<Zone>,
    /// Its file, as it was when last read.
    pub file: Option<FileStamp>,
    /// Ends the claim when dropped.
    pub claim: Claim,
}

/// That a zone is changed by updates, and not by its file. Dropped, it lets the zone come from its file
/// again, unless [kept](Self::keep) or the zone was claimed before.
pub struct Claim {
    apex: Apex,
    /// Where it ends; `None` if it does not.
    ends_at: Option<Sender<Publishing>>,
}

impl Claim {
    /// A claim of this zone. When it ends, it sends [`Publishing::Unclaim`] to `ends_at`, if that is given.
    pub(crate) fn new(apex: Apex, ends_at: Option<Sender<Publishing>>) -> Self {
        Claim { apex, ends_at }
    }

    /// The zone stays claimed: updates of it are stored.
    pub fn keep(&mut self) {
        self.ends_at = None;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(messages) = self.ends_at.take() {
            // Otherwise the server is stopping.
            let _ = messages.send(Publishing::Unclaim(self.apex.clone()));
        }
    }
}

/// Reports new versions to the thread; cheap to clone.
#[derive(Clone)]
pub struct PublishHandle(pub(crate) Sender<Publishing>);

impl PublishHandle {
    /// From now on a zone is changed by updates, and not by its file. `reply` gets the version in service, if
    /// there is one; it is dropped if the server is stopping.
    pub fn claim(&self, apex: Apex, reply: ClaimReply) {
        // Without a receiver, the server is stopping.
        let _ = self.0.send(Publishing::Claim(apex, reply));
    }

    /// The file of a zone that was claimed was written with what updates have made of it.
    pub fn wrote(&self, apex: Apex, file: FileStamp) {
        let _ = self.0.send(Publishing::Wrote(apex, file));
    }

    /// Updates have made this version of a zone; `done` runs once it is in service.
    pub fn changed(&self, apex: Apex, zone: Arc<Zone>, done: OncePublished) {
        let _ = self.0.send(Publishing::Changed(apex, zone, done));
    }

    /// Reports what became of a zone that is taken from primaries.
    pub fn news(&self, apex: Apex, news: SecondaryNews) {
        // Without a receiver, the server is stopping.
        let _ = self.0.send(Publishing::News(apex, news));
    }

    /// Reports when a zone that is taken from primaries expires, in seconds since 1970.
    pub fn expires(&self, apex: Apex, at: Option<u64>) {
        // As above.
        let _ = self.0.send(Publishing::Expires(apex, at));
    }
}
