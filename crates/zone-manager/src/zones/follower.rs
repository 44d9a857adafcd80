//! What the database sends, passed on: which zones it has to the zone manager, and their records to the
//! thread that changes zones.

use std::sync::Arc;
use std::sync::mpsc::{Sender, sync_channel};

use ::database::{DatabaseSink, ListedZone, ZoneContent, ZoneId};
use wire::{Serial, ZoneName};

use super::manager::{DatabaseNews, Message, ZoneManagerHandle};
use crate::changes::Changes;

/// Receives what a database sends.
pub struct DatabaseFollower {
    messages: Sender<Message>,
    changes: Arc<Changes>,
}

impl DatabaseFollower {
    /// Returns the receiver for these parts of the server.
    pub fn new(manager: &ZoneManagerHandle, changes: Arc<Changes>) -> Arc<DatabaseFollower> {
        Arc::new(DatabaseFollower { messages: manager.messages(), changes })
    }

    /// Sends news to the zone manager, and waits until the zone table has them.
    fn tell(&self, news: DatabaseNews) -> Option<Vec<Option<Serial>>> {
        let (done, ended) = sync_channel(1);
        // Without the manager, the server is stopping.
        self.messages.send(Message::Database(news, done)).ok()?;
        ended.recv().ok()
    }
}

impl DatabaseSink for DatabaseFollower {
    fn listed(&self, zones: Vec<ListedZone>) -> Vec<Option<Serial>> {
        let known: Vec<Option<Serial>> = zones.iter().map(|zone| Some(zone.serial)).collect();
        self.tell(DatabaseNews::Listed(zones)).unwrap_or(known)
    }

    fn created(&self, zone: ListedZone) {
        self.tell(DatabaseNews::Created(zone));
    }

    fn removed(&self, zone: ZoneId, apex: &ZoneName) {
        self.tell(DatabaseNews::Removed(zone, apex.clone()));
    }

    fn content(&self, zone: ZoneId, apex: &ZoneName, content: ZoneContent) {
        if self.changes.database().is_some_and(|database| database.id(apex) == Some(zone)) {
            self.changes.follow(apex, content);
        }
    }
}

#[cfg(test)]
mod tests;
