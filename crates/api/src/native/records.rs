//! `/zones/Z/records`: the records of a zone, page by page.

use serde_json::{Map, Value, json};
use wire::{NameBuf, Type, ZoneName, rdata};
use zone::Zone;
use zone::store::RrSet;

use config::api::ApiRight;

use super::arguments::{Arguments, contains, name_of};
use super::route::Answering;
use super::zones::{limit_of, no_such_zone, on_server, with_serial};
use crate::parts::ApiParts;
use crate::reply::{ApiFault, Reply};
use crate::request::ApiRequest;
use crate::rights::{Caller, Scope};

/// Most RRsets that one request looks at; a search in a large zone goes on with `next`.
const MAX_EXAMINED: usize = 200_000;

/// Which RRsets are listed.
struct Wanted {
    search: String,
    rtype: Option<Type>,
    after: Option<NameBuf>,
    limit: usize,
}

/// A page of RRsets.
#[derive(Default)]
struct RecordPage {
    rrsets: Vec<Value>,
    /// The last owner, if there are more behind it.
    next: Option<String>,
}

/// Lists the records of a zone in canonical order.
pub(super) fn list(api: ApiParts, request: ApiRequest, arguments: Arguments) -> Answering {
    Box::pin(async move {
        let wanted = Wanted {
            search: arguments.given("search"),
            rtype: arguments.parsed("type", "a record type")?,
            after: arguments.text("after").map(|after| name_of(&after, "after")).transpose()?,
            limit: limit_of(&arguments)?,
        };
        let apex = arguments.zone.ok_or_else(|| ApiFault::bad_request("the path has no zone"))?;
        on_server(&api, move |server| {
            let state = server.table.get(&apex).ok_or_else(|| no_such_zone(&apex))?;
            let not_loaded =
                || ApiFault::new(hyper::StatusCode::CONFLICT, format!("zone {apex} is not loaded"));
            let zone = state.zone.as_deref().ok_or_else(not_loaded)?;
            let RecordPage { rrsets, next } = page(zone, &apex, &request.caller, &wanted);
            let serial = zone.serial().0;
            let reply = Reply::ok(json!({"serial": serial, "rrsets": rrsets, "next": next}));
            Ok(with_serial(reply, Some(serial.into())))
        })
        .await
    })
}

/// Returns the RRsets behind an owner. All RRsets of one owner are on one page.
fn page(zone: &Zone, apex: &ZoneName, caller: &Caller, wanted: &Wanted) -> RecordPage {
    let from = wanted.after.as_ref().map_or(zone.apex().as_name(), |after| after.as_name());
    let behind = |owner: wire::Name<'_>| wanted.after.as_ref().is_none_or(|after| owner != after.as_name());
    let sees_all = caller.may(ApiRight::Read, Scope::AllRecords(apex));
    let (mut found, mut examined) = (RecordPage::default(), 0);
    let mut nodes = zone.iter_from(from).filter(|node| behind(node.owner().as_name())).peekable();
    while let Some(node) = nodes.next() {
        let owner = node.written_owner();
        for set in node.rrsets() {
            examined += 1;
            if wanted.rtype.is_some_and(|rtype| rtype != set.rtype()) {
                continue;
            }
            if !sees_all && !caller.may(ApiRight::Read, Scope::Records(apex, owner.as_name(), set.rtype())) {
                continue;
            }
            let shown = shown(&owner.to_string(), &set);
            if fits(&shown, &wanted.search) {
                found.rrsets.push(Value::Object(shown));
            }
        }
        let is_full = found.rrsets.len() >= wanted.limit || examined >= MAX_EXAMINED;
        if is_full && nodes.peek().is_some() {
            found.next = Some(owner.to_string());
            break;
        }
    }
    found
}

/// Returns an RRset as JSON.
fn shown(owner: &str, set: &RrSet<'_>) -> Map<String, Value> {
    let mut data = Vec::new();
    let records = set.rdatas().map(|record| {
        data.clear();
        record.copy_to(&mut data);
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = rdata::write_text(set.rtype(), &data, &mut text);
        Value::String(text)
    });
    let records: Vec<Value> = records.collect();
    let mut shown = Map::new();
    shown.insert("name".into(), owner.into());
    shown.insert("type".into(), set.rtype().to_string().into());
    shown.insert("ttl".into(), set.ttl().as_secs().into());
    shown.insert("records".into(), records.into());
    shown
}

/// Returns whether the owner or a record contains the text that is searched.
fn fits(shown: &Map<String, Value>, search: &str) -> bool {
    let has = |value: &Value| value.as_str().is_some_and(|text| contains(text, search));
    search.is_empty()
        || shown.get("name").is_some_and(has)
        || shown.get("records").and_then(Value::as_array).is_some_and(|records| records.iter().any(has))
}
