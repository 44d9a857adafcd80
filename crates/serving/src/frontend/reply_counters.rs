//! The counters of the limits on replies, which outlive a reload, and the limits that the configuration has.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use config::Settings;
use query_path::{LimitLog, ReplyLimits};
use rate_limits::RateTable;
use threads::sync::lock;

/// The counters, and the size that the configuration gives them.
pub(super) struct ReplyCounters {
    keys: [u64; 4],
    in_use: Mutex<(usize, Arc<RateTable>)>,
}

impl ReplyCounters {
    /// Returns empty counters.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub(super) fn new(settings: &Settings) -> io::Result<Self> {
        let mut keys = [0; 4];
        for key in &mut keys {
            *key = getrandom::u64().map_err(io::Error::other)?;
        }
        let bytes = settings.rate_limits.table_size.0;
        let table = Arc::new(RateTable::new(bytes, keys, Instant::now()));
        Ok(ReplyCounters { keys, in_use: Mutex::new((bytes, table)) })
    }

    /// Returns the limits of the configuration. Another size of the table empties the counters.
    pub(super) fn limits(
        &self,
        settings: &Settings,
        log: Option<Arc<dyn LimitLog>>,
    ) -> Option<Arc<ReplyLimits>> {
        let bytes = settings.rate_limits.table_size.0;
        let mut in_use = lock(&self.in_use);
        if in_use.0 != bytes {
            *in_use = (bytes, Arc::new(RateTable::new(bytes, self.keys, Instant::now())));
        }
        settings.rate_limits.config(&in_use.1, log).map(Arc::new)
    }
}
