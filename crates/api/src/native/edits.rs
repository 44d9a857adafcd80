//! Changes of zones: edits of records, creation of zones, and the history of both.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderValue, IF_MATCH, LOCATION};
use serde::Deserialize;
use serde_json::{Value, json};
use wire::{NameBuf, Serial, Ttl, Type, UnixTime, ZoneName};
use zone::store::ChangeSet;

use config::api::ApiRight;
use control::commands::record_text::{RecordText, set_record};
use control::commands::{create_zone, recorded_changes, remove_zone};
use database::RecordedChange;
use zone_manager::changes::{ChangeAuthor, Changes, EditFault, RrsetEdit, RrsetEditKind, ZoneEdit};
use zone_manager::shown_change::{IgnoredParts, Sign, merged};
use zone_manager::zones::created::{CreatedRecord, CreationSource, ZoneCreation};

use super::BASE;
use super::arguments::{Arguments, name_of, zone_of};
use super::faults::fault_of;
use super::route::Answering;
use super::zones::{limit_of, no_such_zone, on_server, with_serial};
use crate::audit::edit_zone;
use crate::parts::ApiParts;
use crate::reply::{ApiFault, Reply};
use crate::request::ApiRequest;
use crate::rights::{Caller, Scope};

/// Most records of a change that a reply shows.
const MAX_SHOWN: usize = 10_000;
/// TTL of records of a new zone that have none.
const NEW_TTL: Ttl = Ttl::from_secs(3600);

/// An entry of `edits`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EditEntry {
    op: EditOp,
    name: String,
    #[serde(rename = "type")]
    rtype: String,
    ttl: Option<u32>,
    #[serde(default)]
    records: Vec<String>,
}

/// What an entry does with its RRset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EditOp {
    Replace,
    Delete,
    Add,
    Remove,
}

/// Returns the HTTP status of the fault of an edit, with its text.
pub(crate) fn edit_fault(fault: &EditFault) -> ApiFault {
    let status = match fault {
        EditFault::NoSuchZone => StatusCode::NOT_FOUND,
        EditFault::Secondary
        | EditFault::Generated
        | EditFault::NotAllowed
        | EditFault::TakesNoChanges
        | EditFault::TakesNoDs
        | EditFault::NotInService
        | EditFault::Frozen
        | EditFault::SignedElsewhere => StatusCode::CONFLICT,
        EditFault::OtherSerial(_) => StatusCode::PRECONDITION_FAILED,
        EditFault::BadData(_)
        | EditFault::SignersType(_)
        | EditFault::UnusedAlgorithm
        | EditFault::NotOneSoa
        | EditFault::Unfit(_) => StatusCode::UNPROCESSABLE_ENTITY,
        EditFault::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
        EditFault::TooMany(_) | EditFault::Database(_) | EditFault::Stopping => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        EditFault::NotKept(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let of_fault = ApiFault::new(status, fault.to_string());
    match fault {
        EditFault::OtherSerial(serial) => of_fault.member("serial", serial.0.into()),
        EditFault::TooMany(_) => ApiFault { retry_after: Some(1), ..of_fault },
        _ => of_fault,
    }
}

/// Returns the part of the server that changes zones.
pub(crate) fn changes_of(api: &ApiParts) -> Result<&Arc<Changes>, ApiFault> {
    let message = "zones are changed only with a state folder: set `state-dir` in [server]";
    api.server.changes.as_ref().ok_or_else(|| ApiFault::new(StatusCode::CONFLICT, message))
}

/// Returns the serial of `If-Match`, written as an entity tag or as a number; `None` for `*` and without the
/// header.
fn matched_serial(headers: &HeaderMap) -> Result<Option<Serial>, ApiFault> {
    let Some(tag) = headers.get(IF_MATCH) else { return Ok(None) };
    let text = tag.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(None);
    }
    let number = text.trim_start_matches("W/").trim_matches('"').parse();
    number.map(|number| Some(Serial(number))).map_err(|_| {
        ApiFault::new(
            StatusCode::PRECONDITION_FAILED,
            "`If-Match` is not the serial of a version, as in `ETag`",
        )
    })
}

/// Edits records of a zone.
pub(super) fn edit(api: ApiParts, request: ApiRequest, arguments: Arguments) -> Answering {
    Box::pin(async move {
        let apex = arguments.zone.clone().ok_or_else(|| ApiFault::bad_request("the path has no zone"))?;
        let (edits, warnings) = read_edits(&apex, &arguments, &request.caller)?;
        let given = arguments.number("at_serial").map(|serial| {
            u32::try_from(serial).map(Serial).map_err(|_| {
                ApiFault::bad_request(format!("{serial} is no serial number")).field("at_serial")
            })
        });
        let at_serial = match (given.transpose()?, matched_serial(&request.headers)?) {
            (Some(one), Some(other)) if one != other => {
                return Err(ApiFault::bad_request("`at_serial` and `If-Match` differ").field("at_serial"));
            }
            (one, other) => one.or(other),
        };
        let by = ChangeAuthor::Program {
            token: Arc::clone(&request.caller.token),
            address: request.caller.address,
        };
        let edit = ZoneEdit { edits, at_serial, by };
        let changes = Arc::clone(changes_of(&api)?);
        if arguments.flag("dry_run") {
            let found = on_server(&api, move |_| {
                let change = changes.preview(&apex, &edit).map_err(|fault| edit_fault(&fault))?;
                let serial = change.before.0;
                Ok(Reply::ok(edited(!change.is_empty(), (serial, serial), &change, &warnings)))
            });
            return found.await;
        }
        let change = edit_zone(&changes, &apex, edit, &request.note).await;
        let change = change.map_err(|fault| edit_fault(&fault))?;
        let now = || api.server.table.get(&apex).and_then(|state| Some(state.zone.as_ref()?.serial()));
        let (from, to) = match &change {
            Some(change) => (change.before, change.after),
            None => now().map(|serial| (serial, serial)).unwrap_or_default(),
        };
        let shown =
            change.as_deref().map(|change| IgnoredParts { serial: true, dnssec: true }.without(change));
        let reply = edited(change.is_some(), (from.0, to.0), &shown.unwrap_or_default(), &warnings);
        Ok(with_serial(Reply::ok(reply), Some(to.0.into())))
    })
}

/// Returns the reply to an edit.
fn edited(changed: bool, (from, to): (u32, u32), change: &ChangeSet, warnings: &[String]) -> Value {
    let mut reply = json!({"changed": changed, "from": from, "to": to, "warnings": warnings});
    put_changes(&mut reply, change);
    reply
}

/// Adds the records of a change to a reply: `changes`, and `more_changes` if there are too many.
fn put_changes(reply: &mut Value, change: &ChangeSet) {
    let rows = merged(change).take(MAX_SHOWN).map(|(sign, record)| {
        let sign = if sign == Sign::Removed { "-" } else { "+" };
        json!({"sign": sign, "record": record.to_string()})
    });
    reply["changes"] = rows.collect();
    let more = usize::try_from(change.record_count()).unwrap_or(usize::MAX).saturating_sub(MAX_SHOWN);
    if more > 0 {
        reply["more_changes"] = more.into();
    }
}

/// Reads the entries of `edits`, and checks that the caller may make each of them. Returns warnings about
/// records, too.
fn read_edits(
    apex: &ZoneName,
    arguments: &Arguments,
    caller: &Caller,
) -> Result<(Vec<RrsetEdit>, Vec<String>), ApiFault> {
    let list = arguments.value("edits").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let (mut edits, mut warnings) = (Vec::new(), Vec::new());
    for (number, entry) in list.iter().enumerate() {
        let field = |name: &str| format!("edits[{number}]{name}");
        let entry: EditEntry = EditEntry::deserialize(entry)
            .map_err(|fault| ApiFault::bad_request(format!("{}: {fault}", field(""))).field(field("")))?;
        let owner = match entry.name.as_str() {
            "@" => apex.as_name().to_buf(),
            name => name_of(name, &field(".name"))?,
        };
        let is_type = |rtype: &Type| !rtype.is_meta();
        let rtype: Type = entry.rtype.parse().ok().filter(is_type).ok_or_else(|| {
            ApiFault::bad_request(format!("`{}` is no record type", entry.rtype)).field(field(".type"))
        })?;
        if !owner.as_name().is_at_or_below(apex.as_name()) {
            let message = format!("{owner} is not in zone {apex}: names of edits are written in full");
            return Err(ApiFault::new(StatusCode::UNPROCESSABLE_ENTITY, message).field(field(".name")));
        }
        caller.must(ApiRight::Change, Scope::Records(apex, owner.as_name(), rtype))?;
        let kind = kind_of(&entry, (apex, &owner, rtype), &field, &mut warnings)?;
        edits.push(RrsetEdit { owner, rtype, kind });
    }
    if edits.is_empty() {
        return Err(ApiFault::bad_request("`edits` is empty").field("edits"));
    }
    Ok((edits, warnings))
}

/// Returns what an entry does with its RRset.
fn kind_of(
    entry: &EditEntry,
    (apex, owner, rtype): (&ZoneName, &NameBuf, Type),
    field: &dyn Fn(&str) -> String,
    warnings: &mut Vec<String>,
) -> Result<RrsetEditKind, ApiFault> {
    let needs_none = entry.op == EditOp::Delete;
    if needs_none != entry.records.is_empty() {
        let message = match needs_none {
            true => "an entry with op \"delete\" has no records: op \"remove\" removes some of an RRset",
            false => "`records` is missing or empty",
        };
        return Err(ApiFault::bad_request(message).field(field(".records")));
    }
    let ttl = match entry.ttl {
        Some(seconds) if seconds > Ttl::MAX.as_secs() => {
            return Err(ApiFault::bad_request(format!("{seconds} is no TTL")).field(field(".ttl")));
        }
        ttl => ttl.map(Ttl::from_secs),
    };
    let mut rdatas = Vec::new();
    for (number, data) in entry.records.iter().enumerate() {
        let text = format!("{owner} 0 IN {rtype} {data}");
        let place = || field(&format!(".records[{number}]"));
        let RecordText { record, warnings: found } = set_record(&text, apex.as_name()).map_err(|fault| {
            ApiFault::new(StatusCode::UNPROCESSABLE_ENTITY, fault.to_string()).field(place())
        })?;
        // Only the data is of the entry: the text before it was made here.
        if record.rtype != rtype || record.owner != *owner {
            let message = format!("`{data}` is not the data of one record");
            return Err(ApiFault::new(StatusCode::UNPROCESSABLE_ENTITY, message).field(place()));
        }
        rdatas.push(record.rdata);
        warnings.extend(found);
    }
    Ok(match entry.op {
        EditOp::Replace => {
            let missing = || ApiFault::bad_request("op \"replace\" needs `ttl`").field(field(".ttl"));
            RrsetEditKind::Replace { ttl: ttl.ok_or_else(missing)?, rdatas }
        }
        EditOp::Delete => RrsetEditKind::Delete,
        EditOp::Add => RrsetEditKind::Extend { ttl, rdatas },
        EditOp::Remove => RrsetEditKind::Prune { rdatas },
    })
}

/// Creates a zone with its first records, or one that comes from its primaries.
pub(super) fn create(api: ApiParts, request: ApiRequest, arguments: Arguments) -> Answering {
    Box::pin(async move {
        let apex = zone_of(&arguments.given("name"), "name")?;
        request.note.zone(&apex);
        request.caller.must(ApiRight::Manage, Scope::Zone(&apex))?;
        changes_of(&api)?;
        let (records, primaries) = (arguments.texts("records"), arguments.texts("primaries"));
        let source = match (records.is_empty(), primaries.is_empty()) {
            (false, false) => {
                let message = "a zone has `records`, or it comes from its `primaries`";
                return Err(ApiFault::bad_request(message).field("primaries"));
            }
            (true, true) => {
                let message = "a zone needs `records`, with an NS record at least, or `primaries`";
                return Err(ApiFault::bad_request(message).field("records"));
            }
            (true, false) => CreationSource::Primaries(primaries),
            (false, true) => CreationSource::Records(first_records(&apex, &records)?),
        };
        let template = arguments.text("template").or_else(|| api.template_of(&source));
        let zone = ZoneCreation { apex: apex.clone(), template, dnssec_policy: None, source };
        let report =
            create_zone(&api.server, zone, request.caller.origin().to_string()).await.map_err(fault_of)?;
        let serial = api.server.table.get(&apex).and_then(|state| Some(state.zone.as_ref()?.serial()));
        request.note.serials(None, serial);
        let reply = Reply::Json(StatusCode::CREATED, report);
        let location = HeaderValue::from_str(&format!("{BASE}/zones/{apex}"));
        Ok(location.into_iter().fold(reply, |reply, location| reply.with(LOCATION, location)))
    })
}

/// Reads the first records of a zone.
fn first_records(apex: &ZoneName, texts: &[String]) -> Result<Vec<CreatedRecord>, ApiFault> {
    let read = |(number, text): (usize, &String)| {
        let RecordText { record, .. } = set_record(text, apex.as_name()).map_err(|fault| {
            let message = fault.to_string();
            ApiFault::new(StatusCode::UNPROCESSABLE_ENTITY, message).field(format!("records[{number}]"))
        })?;
        let ttl = record.ttl.unwrap_or(NEW_TTL);
        Ok(CreatedRecord { owner: record.owner, rtype: record.rtype, ttl, rdata: record.rdata })
    };
    texts.iter().enumerate().map(read).collect()
}

/// Removes a zone that was added or created at run time.
pub(super) fn remove(api: ApiParts, request: ApiRequest, arguments: Arguments) -> Answering {
    Box::pin(async move {
        let apex = arguments.zone.clone();
        let state = apex.as_ref().and_then(|apex| api.server.table.get(apex));
        let serial = state.and_then(|state| Some(state.zone.as_ref()?.serial()));
        request.note.serials(serial, None);
        let apex = apex.ok_or_else(|| ApiFault::bad_request("the path has no zone"))?;
        let done =
            remove_zone(&api.server, apex, &request.caller.origin().to_string()).await.map_err(fault_of)?;
        Ok(Reply::ok(done))
    })
}

/// Returns the newest stored changes of a zone.
pub(super) fn history(api: ApiParts, _: ApiRequest, arguments: Arguments) -> Answering {
    Box::pin(async move {
        let limit = limit_of(&arguments)?;
        let apex = arguments.zone.ok_or_else(|| ApiFault::bad_request("the path has no zone"))?;
        let recorded = recorded_changes(&api.server, &apex, limit).await;
        on_server(&api, move |server| {
            let state = server.table.get(&apex).ok_or_else(|| no_such_zone(&apex))?;
            let serial = state.zone.as_ref().map(|zone| zone.serial().0);
            if let Some(recorded) = recorded {
                let versions: Vec<Value> = recorded.iter().map(recorded_version).collect();
                return Ok(Reply::ok(json!({"serial": serial, "versions": versions})));
            }
            let versions = server.transfers.histories().versions(&apex, limit);
            let rows = versions.iter().map(|step| {
                json!({
                    "from": step.before.0,
                    "to": step.after.0,
                    "removed": step.removed,
                    "added": step.added,
                    "at": step.origin.as_ref().map(|of| of.at.as_secs()),
                    "by": step.origin.as_ref().map(|of| of.origin.to_string()),
                })
            });
            Ok(Reply::ok(json!({"serial": serial, "versions": rows.collect::<Vec<_>>()})))
        })
        .await
    })
}

/// Returns a change of the database as a version in a history.
fn recorded_version(change: &RecordedChange) -> Value {
    // The records of a zone that is created, replaced or removed as a whole are not among them.
    let has_records = change.kind == "change";
    json!({
        "from": change.before.map(|serial| serial.0),
        "to": change.after.map(|serial| serial.0),
        "removed": has_records.then_some(change.removed.len()),
        "added": has_records.then_some(change.added.len()),
        "at": UnixTime::from(change.at).as_secs(),
        "by": change.author,
        "kind": change.kind,
        "node": change.node,
        "number": change.number,
    })
}

/// Returns the difference of two stored versions of a zone.
pub(super) fn difference(api: ApiParts, _: ApiRequest, arguments: Arguments) -> Answering {
    Box::pin(async move {
        let serial = |name: &str| {
            let number = arguments.number(name).and_then(|number| u32::try_from(number).ok());
            number
                .map(Serial)
                .ok_or_else(|| ApiFault::bad_request(format!("`{name}` is no serial number")).field(name))
        };
        let (from, to) = (serial("from")?, serial("to")?);
        let apex = arguments.zone.clone().ok_or_else(|| ApiFault::bad_request("the path has no zone"))?;
        on_server(&api, move |server| {
            server.table.get(&apex).ok_or_else(|| no_such_zone(&apex))?;
            let change = server.transfers.histories().between(&apex, from, to);
            let message = format!("the changes between {from} and {to} are not stored");
            let change = change.ok_or_else(|| ApiFault::not_found(message))?;
            let change = IgnoredParts { serial: false, dnssec: true }.without(&change);
            let mut reply = json!({"from": from.0, "to": to.0});
            put_changes(&mut reply, &change);
            Ok(Reply::ok(reply))
        })
        .await
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_serial_of_a_condition_is_an_entity_tag_or_a_number() {
        let of = |text: &'static str| {
            let headers = HeaderMap::from_iter([(IF_MATCH, HeaderValue::from_static(text))]);
            matched_serial(&headers).map(|serial| serial.map(|serial| serial.0)).map_err(|fault| fault.status)
        };
        assert_eq!(of("\"7\""), Ok(Some(7)));
        assert_eq!(of("7"), Ok(Some(7)));
        assert_eq!(of("W/\"7\""), Ok(Some(7)));
        assert_eq!(of("*"), Ok(None));
        assert_eq!(of("\"x\""), Err(StatusCode::PRECONDITION_FAILED));
        assert_eq!(matched_serial(&HeaderMap::new()).expect("none"), None);
    }

    #[test]
    fn data_of_an_entry_is_the_data_of_one_record_with_its_owner_and_type() {
        let apex = zone_of("example.com", "zone").expect("a name");
        let owner = name_of("www.example.com", "name").expect("a name");
        let read = |data: &str| {
            let entry = EditEntry {
                op: EditOp::Add,
                name: String::new(),
                rtype: "TXT".into(),
                ttl: None,
                records: vec![data.into()],
            };
            kind_of(&entry, (&apex, &owner, Type::TXT), &|name| name.to_owned(), &mut Vec::new())
        };
        assert!(
            matches!(read("\"a b\""), Ok(RrsetEditKind::Extend { ttl: None, rdatas }) if rdatas == [b"\x03a b"])
        );
        for bad in [
            "a\nother.example.com. 60 IN TXT b",
            "a\n$INCLUDE /etc/passwd",
            "( a",
            "\n@ 60 IN A 192.0.2.1",
            "",
        ] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
