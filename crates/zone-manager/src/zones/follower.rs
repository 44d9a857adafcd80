//! What the database sends, passed on: which zones it has to the zone manager, their records to the thread
//! that changes zones, and sections of the configuration to the server.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Sender, sync_channel};

use ::database::{DatabaseSink, KeySetVersion, ListedZone, SectionSet, ZoneContent, ZoneId, ZoneKeySet};
use wire::{Serial, ZoneName};

use super::manager::{DatabaseNews, Message, ZoneManagerHandle};
use crate::changes::Changes;

/// Is called with all sections of the database, and whether they were listed after a connection.
pub type OnSections = Box<dyn Fn(SectionSet, bool) + Send + Sync>;

/// Receives what a database sends.
pub struct DatabaseFollower {
    messages: Sender<Message>,
    changes: Arc<Changes>,
    sections: OnSections,
}

impl DatabaseFollower {
    /// Returns the receiver for these parts of the server.
    pub fn new(
        manager: &ZoneManagerHandle,
        changes: Arc<Changes>,
        sections: OnSections,
    ) -> Arc<DatabaseFollower> {
        Arc::new(DatabaseFollower { messages: manager.messages(), changes, sections })
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
            self.changes.follow(apex, zone, content);
        }
    }

    fn keys_listed(&self, versions: &HashMap<ZoneId, KeySetVersion>) -> Vec<ZoneId> {
        self.changes.database().map_or_else(Vec::new, |database| database.compare_keys(versions))
    }

    fn keys(&self, zone: ZoneId, apex: &ZoneName, keys: ZoneKeySet) {
        self.changes.follow_keys(apex, zone, &Arc::new(keys));
    }

    fn has_zones_to_sign(&self) -> bool {
        self.changes.has_shared_zones_to_sign()
    }

    fn signs(&self, signs: bool) {
        self.changes.set_signs(signs);
    }

    fn sections(&self, set: SectionSet, listed: bool) {
        (self.sections)(set, listed);
    }
}

#[cfg(test)]
mod tests;
