//! Removing all that is stored of a zone that does not exist any more.

use std::path::PathBuf;
use std::sync::mpsc::sync_channel;

use journal::StoreFault;
use wire::ZoneName;
use wording::reason;

use super::queue::Entry;
use super::signing::remove_keys;
use super::{Changes, THREAD_REPLY_TIMEOUT};
use threads::sync::lock;

/// What happens to what is stored of a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leavings {
    /// The journal is renamed, and the keys stay.
    SetAside,
    /// The journal is removed, and the keys stay.
    Remove,
    /// Everything is removed.
    RemoveWithKeys,
}

impl Changes {
    /// Removes what is stored of a zone that is not served: its journal, notes, transaction and, if
    /// `leavings` says so, its keys. Returns the new path of a journal that was set aside. Waits for the
    /// thread and the disk.
    ///
    /// # Errors
    /// Why something stays, as text for people.
    pub fn forget(&self, apex: &ZoneName, leavings: Leavings) -> Result<Option<PathBuf>, String> {
        let (reply, replied) = sync_channel(1);
        self.queue(apex, Entry::Forget(reply));
        if replied.recv_timeout(THREAD_REPLY_TIMEOUT).is_err() {
            return Err("the thread that changes zones does not answer".into());
        }
        self.transactions.forget(apex);
        let aside = self.stores.exclusively(apex, |folder| folder.forget(apex.as_name()));
        let aside = aside.map_err(|fault: StoreFault| fault.to_string())?;
        let shared = &self.shared;
        lock(&shared.stored).remove(apex);
        lock(&shared.damaged).remove(apex);
        lock(&shared.zones).remove(apex);
        lock(&shared.frozen).remove(apex);
        lock(&shared.signing).remove(apex);
        lock(&shared.origins).forget(apex);
        let noted = lock(&shared.notes).forget(apex);
        noted.map_err(|fault| format!("the notes of zones cannot be written: {}", reason(&fault)))?;
        if leavings == Leavings::RemoveWithKeys {
            remove_keys(&self.state, apex).map_err(|fault| fault.to_string())?;
        }
        let Some(aside) = aside else { return Ok(None) };
        if leavings == Leavings::SetAside {
            return Ok(Some(aside));
        }
        let removed = std::fs::remove_file(&aside);
        removed.map_err(|fault| format!("{} cannot be removed: {}", aside.display(), reason(&fault)))?;
        Ok(None)
    }
}
