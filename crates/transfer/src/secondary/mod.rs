//! Timing of a secondary's queries and of a primary's NOTIFY. Callers pass in the time.
//!
//! | file | holds |
//! |---|---|
//! | `zone.rs` | the timers of one zone: [`SecondaryZone`] |
//! | `scheduler.rs` | many zones, with limits on concurrent queries: [`SecondaryScheduler`] |
//! | `notify.rs` | NOTIFY to the secondaries of a zone: [`NotifySender`] |
//! | `queries.rs` | the messages |

mod notify;
mod queries;
mod scheduler;
#[cfg(test)]
mod tests;
mod zone;

use std::time::Duration;

pub use notify::{NotifyRules, NotifySender};
pub use queries::{
    AskExpire, Notification, SoaReply, notify_query, notify_reply, read_notify, read_soa_reply, soa_query,
    transfer_query,
};
pub use scheduler::{PrimaryId, SecondaryId, SecondaryLimits, SecondaryScheduler};
pub use zone::{
    LastFault, SecondaryAction, SecondaryEvent, SecondaryFault, SecondaryRules, SecondaryState, SecondaryZone,
};

/// Returns an unpredictable random number on each call.
pub type RandomNumbers<'r> = &'r mut dyn FnMut() -> u32;

/// `wait` in whole seconds, less up to a tenth at random, so that zones that began together spread out.
fn with_jitter(wait: Duration, random: RandomNumbers<'_>) -> Duration {
    let seconds = wait.as_secs();
    Duration::from_secs(seconds - random() as u64 % (seconds / 10 + 1))
}
