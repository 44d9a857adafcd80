//! Commands on the limits on replies.

use serde_json::json;

use super::CommandResult;
use crate::fault::CommandFault;
use crate::parts::ServerParts;
use telemetry::heavy::TopList;

/// Most networks in one answer.
const MOST_TOP: usize = 100_000;

/// Returns which networks are limited most.
pub(super) fn top(
    ServerParts { frontend, .. }: &ServerParts,
    count: usize,
    last_hour: bool,
) -> CommandResult {
    if frontend.limits_top.size() == 0 {
        return Err(CommandFault::NoLimitsTop);
    }
    let found = frontend.limits_top.list(last_hour, count.clamp(1, MOST_TOP));
    let TopList { total, entries, others } = found.ok_or(CommandFault::Stopping)?;
    let entry = |(network, replies, error)| json!({"network": network, "replies": replies, "error": error});
    Ok(json!({
        "by": "network",
        "period": if last_hour { "hour" } else { "start" },
        "replies": total,
        "top": entries.into_iter().map(entry).collect::<Vec<_>>(),
        "others_at_most": others,
        "dropped": frontend.limits_top.dropped(),
    }))
}
