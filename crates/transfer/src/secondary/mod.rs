//! When a secondary asks its primaries, and when a primary tells its secondaries: decisions on passed-in
//! time.
//!
//! | file | holds |
//! |---|---|
//! | `zone.rs` | the timers of one zone: [`SecondaryZone`] |
//! | `scheduler.rs` | many zones, and how many may be under way: [`SecondaryScheduler`] |
//! | `notify.rs` | NOTIFY to the secondaries of a zone: [`NotifySender`] |
//! | `queries.rs` | the messages of all this |

mod notify;
mod queries;
mod scheduler;
#[cfg(test)]
mod tests;
mod zone;

pub use notify::{NotifyRules, NotifySender};
pub use queries::{
    AskExpire, Notification, SoaReply, notify_query, notify_reply, read_notify, read_soa_reply, soa_query,
    transfer_query,
};
pub use scheduler::{PrimaryId, SecondaryId, SecondaryLimits, SecondaryScheduler};
pub use zone::{
    SecondaryAction, SecondaryEvent, SecondaryFault, SecondaryRules, SecondaryState, SecondaryZone,
};

/// Numbers that cannot be guessed, one at each call.
pub type RandomNumbers<'r> = &'r mut dyn FnMut() -> u32;

/// So many seconds less up to a tenth, so that what began together does not stay together.
fn with_jitter(seconds: u64, random: RandomNumbers<'_>) -> u64 {
    seconds - random() as u64 % (seconds / 10 + 1)
}
