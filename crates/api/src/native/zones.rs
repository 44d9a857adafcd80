//! `/zones`: lists of zones, and the state of one.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{ETAG, HeaderValue};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use transport::unix_now;
use wire::{UnixTime, ZoneName};

use config::api::ApiRight;
use control::commands::execute;
use control::parts::ServerParts;
use control::protocol::ControlCommand;
use zone_manager::changes::{ChangeAuthor, ZoneEdit};
use zone_manager::managed::ZoneStatus;
use zone_plan::ZoneText;

use super::arguments::{Arguments, contains, zone_of};
use super::edits::{changes_of, edit_fault};
use super::faults::fault_of;
use super::route::Answering;
use crate::parts::ApiParts;
use crate::reply::{ApiFault, Reply};
use crate::request::ApiRequest;
use crate::rights::{Caller, Scope};

/// Entries of a page, unless the request has `limit`.
const DEFAULT_LIMIT: u64 = 100;
/// Most entries of a page.
const MAX_LIMIT: u64 = 1000;

/// Returns the number of entries of a page.
///
/// # Errors
/// Status 400 if it is out of range.
pub(super) fn limit_of(arguments: &Arguments) -> Result<usize, ApiFault> {
    match arguments.number("limit").unwrap_or(DEFAULT_LIMIT) {
        limit @ 1..=MAX_LIMIT => Ok(limit as usize),
        limit => {
            Err(ApiFault::bad_request(format!("{limit} is out of range: 1 to {MAX_LIMIT}")).field("limit"))
        }
    }
}

/// Runs a function on a blocking thread: the thread of the runtime handles signals.
///
/// # Errors
/// Those of the function; status 503 if the server is stopping.
pub(super) async fn on_server(
    api: &ApiParts,
    work: impl FnOnce(&ServerParts) -> Result<Reply, ApiFault> + Send + 'static,
) -> Result<Reply, ApiFault> {
    let server = Arc::clone(&api.server);
    // The semaphore is never closed.
    let _place = api.lists.acquire().await;
    let stopping = |_| Err(ApiFault::new(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping"));
    tokio::task::spawn_blocking(move || work(&server)).await.unwrap_or_else(stopping)
}

/// A zone in the order of lists: by name, then by view.
struct Listed(Arc<ZoneStatus>);

impl Listed {
    fn compare(&self, apex: &ZoneName) -> Ordering {
        let own = &self.0.spec.apex;
        (own.as_name(), own.view()).cmp(&(apex.as_name(), apex.view()))
    }
}

impl Ord for Listed {
    fn cmp(&self, other: &Self) -> Ordering {
        self.compare(&other.0.spec.apex)
    }
}
impl PartialOrd for Listed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Listed {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Listed {}

/// The first entries of a list, and the number of all.
struct Page<T> {
    entries: Vec<T>,
    total: usize,
    has_more: bool,
}

/// Returns the `limit` smallest of those entries that are `behind` the page before, in order. Sorts only
/// these: time grows with the number of all entries, memory with `limit`.
fn page<T: Ord>(all: impl Iterator<Item = T>, limit: usize, behind: impl Fn(&T) -> bool) -> Page<T> {
    let (mut heap, mut total, mut has_more) = (BinaryHeap::with_capacity(limit + 1), 0, false);
    for entry in all {
        total += 1;
        if !behind(&entry) {
            continue;
        }
        let is_full = heap.len() >= limit;
        has_more |= is_full;
        if is_full && heap.peek().is_some_and(|largest| *largest <= entry) {
            continue;
        }
        heap.push(entry);
        if is_full {
            heap.pop();
        }
    }
    Page { entries: heap.into_sorted_vec(), total, has_more }
}

/// Lists zones that the caller may read.
pub(super) fn list(api: ApiParts, request: ApiRequest, arguments: Arguments) -> Answering {
    Box::pin(async move {
        let limit = limit_of(&arguments)?;
        let after = arguments.text("after").map(|after| zone_of(&after, "after")).transpose()?;
        on_server(&api, move |server| {
            let (search, state) = (arguments.given("search"), arguments.text("state"));
            let signatures = arguments.text("signatures");
            let search = search.trim_end_matches('.');
            let fits = |zone: &Arc<ZoneStatus>| {
                state.as_deref().is_none_or(|state| zone.word() == state)
                    && signatures.as_deref().is_none_or(|age| signatures_of(zone) == Some(age))
                    && (search.is_empty() || contains(&zone.spec.apex.to_string(), search))
                    && request.caller.may(ApiRight::Read, Scope::Zone(&zone.spec.apex))
            };
            let all = server.table.all().into_iter().filter(fits).map(Listed);
            let behind = |zone: &Listed| after.as_ref().is_none_or(|after| zone.compare(after).is_gt());
            let Page { entries, total, has_more } = page(all, limit, behind);
            let next = entries.last().filter(|_| has_more).map(|zone| zone.0.spec.apex.to_string());
            let zones: Vec<Value> = entries.iter().map(|zone| row(&zone.0)).collect();
            Ok(Reply::ok(json!({"zones": zones, "next": next, "total": total})))
        })
        .await
    })
}

/// Returns whether the signatures of a zone are valid, expire soon or have expired, as a word; `None` if it
/// has none.
fn signatures_of(state: &ZoneStatus) -> Option<&'static str> {
    let first = state.examined.as_ref()?.signatures?;
    Some(first.age(unix_now()).word())
}

/// Returns the row of a zone in a list.
fn row(state: &ZoneStatus) -> Value {
    let zone = state.zone.as_ref();
    json!({
        "name": state.spec.apex.to_string(),
        "view": state.spec.apex.view(),
        "state": state.word(),
        "role": if state.spec.text == ZoneText::Primaries { "secondary" } else { "primary" },
        "from": state.spec.origin.to_string(),
        "serial": zone.map(|zone| zone.serial().0),
        "records": zone.map(|zone| zone.record_count()),
        "signed": zone.map(|_| state.is_signed()),
        "warnings": state.warnings,
        "fault": state.fault.as_deref().map(ToString::to_string),
        "loaded": state.loaded.map(|at| UnixTime::from(at).as_secs()),
        "signatures": signatures_of(state),
    })
}

/// Returns the state of one zone, with its serial as the entity tag.
pub(super) fn status(api: ApiParts, request: ApiRequest, arguments: Arguments) -> Answering {
    Box::pin(async move {
        let (lines, _) = mpsc::channel(1);
        let command = ControlCommand::ZoneStatus { name: arguments.zone_text() };
        let mut shown = execute(&api.server, command, &lines).await.map_err(fault_of)?;
        let refused = arguments.zone.and_then(|apex| edits_refused(&api, &apex, &request.caller));
        shown["edits_refused"] = refused.into();
        let serial = shown["serial"].as_u64();
        Ok(with_serial(Reply::ok(shown), serial))
    })
}

/// Returns why edits of a zone's records are refused; `None` if they are accepted.
fn edits_refused(api: &ApiParts, apex: &ZoneName, caller: &Caller) -> Option<String> {
    let by = ChangeAuthor::Program { token: Arc::clone(&caller.token), address: caller.address };
    // An edit that names no RRset changes nothing, and is refused as any other.
    let nothing = ZoneEdit { edits: Vec::new(), at_serial: None, by };
    let found = changes_of(api)
        .and_then(|changes| changes.preview(apex, &nothing).map_err(|fault| edit_fault(&fault)));
    found.err().map(|fault| fault.message)
}

/// Adds the serial of a zone as the entity tag, for `If-Match`.
pub(super) fn with_serial(reply: Reply, serial: Option<u64>) -> Reply {
    let tag = serial.and_then(|serial| HeaderValue::from_str(&format!("\"{serial}\"")).ok());
    tag.into_iter().fold(reply, |reply, tag| reply.with(ETAG, tag))
}

/// Returns the fault of a request for a zone that does not exist.
pub(super) fn no_such_zone(zone: &ZoneName) -> ApiFault {
    ApiFault::not_found(format!("there is no zone {zone} here"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_join_to_the_whole_list_in_order() {
        // In no particular order, as the zone table has them.
        let all: Vec<u32> = (0..1000).map(|number| number * 7919 % 1000).collect();
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let behind = |entry: &u32| after.is_none_or(|after| *entry > after);
            let Page { entries, total, has_more } = page(all.iter().copied(), 300, behind);
            assert_eq!(total, 1000);
            after = entries.last().copied();
            found.extend(entries);
            if !has_more {
                break;
            }
        }
        assert_eq!(found, (0..1000).collect::<Vec<_>>());
        let Page { entries, has_more, .. } = page(0..3, 3, |_| true);
        assert_eq!((entries, has_more), (vec![0, 1, 2], false), "an exact page is the last one");
    }
}
