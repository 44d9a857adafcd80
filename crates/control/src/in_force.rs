//! The configuration in force: its current values, and the parts that a reload updates.
//!
//! It may differ from the configuration read last: some keys take effect only at a start.

use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use tracing::warn;

use crate::tokens::TokenTable;
use config::api::ApiTokenBlock;
use config::table::read::At;
use config::{Adopt, PendingKey, Settings};
use threads::sync::lock;

/// The configuration in force.
pub struct InForce {
    /// Its source, as the status shows it.
    pub source: String,
    /// Its values; keys that wait for the next start have their values since the last start.
    settings: ArcSwap<Settings>,
    /// The keys that wait for the next start, from the last configuration that was read.
    pending: Mutex<Vec<PendingKey>>,
    parts: Vec<Arc<dyn Adopt>>,
}

impl InForce {
    /// Returns the configuration in force, with the parts that were made with `settings`.
    pub fn new(source: String, settings: Settings, parts: Vec<Arc<dyn Adopt>>) -> Self {
        InForce { source, settings: ArcSwap::from_pointee(settings), pending: Mutex::default(), parts }
    }

    /// Returns the settings in force.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    /// Returns the keys that wait for the next start.
    pub fn pending(&self) -> Vec<PendingKey> {
        lock(&self.pending).clone()
    }

    /// Replaces the tokens by those that `join` makes of the ones of the configuration file. It is called
    /// again if a reload stores other settings meanwhile.
    pub fn adopt_tokens(
        &self,
        table: &TokenTable,
        mut join: impl FnMut(Vec<At<ApiTokenBlock>>) -> Vec<At<ApiTokenBlock>>,
    ) {
        let is_shared =
            |block: &At<ApiTokenBlock>| block.place.as_ref().is_some_and(|place| place.is_shared());
        self.settings.rcu(|settings| {
            let mut settings = Settings::clone(settings);
            let (_, own) = std::mem::take(&mut settings.api_tokens).into_iter().partition(is_shared);
            settings.api_tokens = join(own);
            settings
        });
        table.adopt(&self.settings.load());
    }

    /// Updates every part with the keys that may change while the server runs, and reports the keys that may
    /// not.
    pub fn adopt(&self, new: Settings) {
        let mut settings = Settings::clone(&self.settings.load());
        let pending = settings.adopt(new);
        for key in &pending {
            warn!("{key}");
        }
        self.parts.iter().for_each(|part| part.adopt(&settings));
        self.settings.store(Arc::new(settings));
        *lock(&self.pending) = pending;
    }
}
