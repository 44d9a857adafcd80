//! Requests that change zones: PATCH, PUT, POST and DELETE.
//!
//! The records of a PATCH are one edit of the zone, which is on the disk and in service before the reply. The
//! zone's document is stored after it, so a crash in between leaves comments as they were, and never loses a
//! change of records. A request that may change a document waits for others of the same zone.

use std::collections::HashSet;
use std::sync::Arc;

use config::api::ApiRight;
use config::dnssec_policy::DEFAULT_POLICY;
use control::commands::{create_zone, remove_zone};
use control::fault::CommandFault;
use database::DatabaseFault;
use hyper::StatusCode;
use serde_json::Value;
use transport::unix_now;
use wire::{Serial, Type, ZoneName};
use zone::Zone;
use zone_manager::changes::{ChangeAuthor, Changes, EditFault, RrsetEdit, RrsetEditKind, ZoneEdit};
use zone_manager::managed::ZoneStatus;
use zone_manager::zones::created::ZoneCreation;
use zone_manager::zones::manager::ReloadFault;
use zone_plan::ZoneText;

use super::create::{self, WantedZone, ZoneKind};
use super::fault::Refused;
use super::metadata::SOA_EDIT_API;
use super::patch::{self, PatchPlan};
use super::rrsets::{self, WantedChange, WantedRrset};
use super::serials::SoaEditApi;
use super::{blocking, fields, metadata, names, view, zones};
use crate::audit::edit_zone;
use crate::documents::ZoneDocument;
use crate::parts::ApiParts;
use crate::reply::Reply;
use crate::request::ApiRequest;
use crate::rights::Scope;

/// Changes RRsets of a zone.
///
/// # Errors
/// The request cannot be used, or the change cannot be made; then nothing is changed.
pub(super) async fn patch(api: &ApiParts, request: &Arc<ApiRequest>, id: &str) -> Result<Reply, Refused> {
    let read = {
        let id = id.to_owned();
        blocking(api, request, move |api, request| {
            let state = zones::find(api, &request.caller, &id)?;
            let apex = &state.spec.apex;
            request.note.zone(apex);
            let wanted = rrsets::of_patch(&fields::body(&request.body)?, apex, unix_now().as_secs())?;
            may_change(request, apex, &wanted)?;
            Ok((apex.clone(), wanted))
        })
        .await?
    };
    let (apex, wanted) = read;
    apply(api, request, apex, wanted).await?;
    Ok(Reply::Empty(StatusCode::NO_CONTENT))
}

/// Makes the changes of RRsets, and stores comments and disabled records after them.
async fn apply(
    api: &ApiParts,
    request: &Arc<ApiRequest>,
    apex: ZoneName,
    wanted: Vec<WantedRrset>,
) -> Result<(), Refused> {
    let stores = wanted.iter().any(changes_document) || !api.documents.get(&apex).rrsets().is_empty();
    let _turn = match stores {
        true => Some(api.documents.turn(&apex).await),
        false => None,
    };
    let planned = {
        let apex = apex.clone();
        blocking(api, request, move |api, request| prepare(api, request, &apex, &wanted)).await?
    };
    let PreparedEdit { edit, document } = planned;
    if let Some(edit) = edit {
        let changes = api.server.changes.as_ref().ok_or_else(no_changes)?;
        edit_zone(changes, &apex, edit, &request.note).await.map_err(refusal)?;
    }
    let Some(document) = document else { return Ok(()) };
    blocking(api, request, move |api, _| {
        api.documents.put(&apex, document).map_err(|fault| {
            let refused = Refused::of_document(&fault);
            let error = format!("the records are changed, comments and disabled records are not: {refused}");
            Refused { error, ..refused }
        })
    })
    .await
}

/// Whether an RRset in a request has comments or disabled records.
fn changes_document(wanted: &WantedRrset) -> bool {
    match &wanted.change {
        WantedChange::Replace { records, comments, .. } => {
            comments.is_some() || records.iter().flatten().any(|record| record.disabled)
        }
        WantedChange::Extend { record, .. } | WantedChange::Prune { record } => record.disabled,
        WantedChange::Delete => false,
    }
}

/// An edit that is ready to be made.
struct PreparedEdit {
    /// `None`: no served record changes.
    edit: Option<ZoneEdit>,
    /// `None`: the document stays as it is.
    document: Option<ZoneDocument>,
}

/// Plans the changes on the version in service.
fn prepare(
    api: &ApiParts,
    request: &ApiRequest,
    apex: &ZoneName,
    wanted: &[WantedRrset],
) -> Result<PreparedEdit, Refused> {
    let state = api.server.table.get(apex).ok_or_else(Refused::not_found)?;
    let zone = state.zone.clone().ok_or_else(|| refusal(EditFault::NotInService))?;
    let document = api.documents.get(apex);
    let PatchPlan { edits, document: new } = patch::plan(&zone, &document, wanted)?;
    if let Some(new) = &new {
        api.documents.check(new).map_err(|fault| Refused::of_document(&fault))?;
    }
    if edits.is_empty() {
        return Ok(PreparedEdit { edit: None, document: new });
    }
    let changes = api.server.changes.as_ref().ok_or_else(no_changes)?;
    let by =
        ChangeAuthor::Program { token: Arc::clone(&request.caller.token), address: request.caller.address };
    let mut edit = ZoneEdit { edits, at_serial: None, by };
    raise_serial(changes, apex, &zone, &document, &mut edit)?;
    Ok(PreparedEdit { edit: Some(edit), document: new })
}

/// Gives an edit the serial number of the zone's `soa_edit_api`: in the SOA record of the request, or in one
/// that is added. The zone's `serial-policy` decides if a client has set no `soa_edit_api`. An edit that
/// changes nothing stays as it is.
fn raise_serial(
    changes: &Changes,
    apex: &ZoneName,
    zone: &Zone,
    document: &ZoneDocument,
    edit: &mut ZoneEdit,
) -> Result<(), Refused> {
    let word = document.metadata.get(SOA_EDIT_API).and_then(|words| words.first());
    let Some(policy) = word.and_then(|word| SoaEditApi::read(word).ok()) else { return Ok(()) };
    let now = unix_now();
    let mut has_soa = false;
    for one in edit.edits.iter_mut().filter(|one| one.rtype == Type::SOA) {
        if let RrsetEditKind::Replace { rdatas, .. } = &mut one.kind {
            rdatas.iter_mut().for_each(|rdata| policy.apply(rdata, now));
            has_soa = true;
        }
    }
    let Some(Serial(next)) = policy.next(zone.serial(), now).filter(|_| !has_soa) else { return Ok(()) };
    let change = changes.preview(apex, edit).map_err(refusal)?;
    if change.removed.is_empty() && change.added.is_empty() {
        return Ok(());
    }
    if let Some((ttl, rdata)) = view::soa_with(zone, next) {
        let kind = RrsetEditKind::Replace { ttl, rdatas: vec![rdata] };
        edit.edits.push(RrsetEdit { owner: apex.as_name().to_buf(), rtype: Type::SOA, kind });
    }
    Ok(())
}

/// Refuses RRsets that the token may not change.
fn may_change(request: &ApiRequest, apex: &ZoneName, wanted: &[WantedRrset]) -> Result<(), Refused> {
    wanted.iter().try_for_each(|rrset| {
        let scope = Scope::Records(apex, rrset.owner.as_name(), rrset.rtype);
        request.caller.must(ApiRight::Change, scope).map_err(zones::forbidden)
    })
}

/// Returns the refusal of an edit.
fn refusal(fault: EditFault) -> Refused {
    let status = match fault {
        EditFault::NoSuchZone => return Refused::not_found(),
        EditFault::OtherSerial(_) => StatusCode::CONFLICT,
        EditFault::TooMany(_) | EditFault::Database(_) | EditFault::Stopping => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        EditFault::NotKept(_) => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    };
    Refused::new(status, fault.to_string())
}

fn no_changes() -> Refused {
    Refused::configured("where changes are stored", "state-dir")
}

/// Creates a zone.
///
/// # Errors
/// The request cannot be used, the zone exists, or it cannot be created.
pub(super) async fn create(api: &ApiParts, request: &Arc<ApiRequest>) -> Result<Reply, Refused> {
    let WantedZone { apex, source, document, dnssec } = blocking(api, request, wanted_zone).await?;
    let _turn = api.documents.turn(&apex).await;
    let template = api.template_of(&source);
    let dnssec_policy = dnssec.then(|| DEFAULT_POLICY.to_owned());
    let zone = ZoneCreation { apex: apex.clone(), template, dnssec_policy, source };
    create_zone(&api.server, zone, request.caller.origin().to_string())
        .await
        .map_err(|fault| not_done(&fault))?;
    blocking(api, request, move |api, request| {
        api.documents.put(&apex, document).map_err(|fault| {
            let refused = Refused::of_document(&fault);
            Refused {
                error: format!("the zone is created without its comments and metadata: {refused}"),
                ..refused
            }
        })?;
        let state = api.server.table.get(&apex).ok_or_else(Refused::not_found)?;
        request.note.serials(None, state.zone.as_ref().map(|zone| zone.serial()));
        zones::shown(api, request, &state, StatusCode::CREATED)
    })
    .await
}

/// Reads the zone to create.
fn wanted_zone(api: &ApiParts, request: &ApiRequest) -> Result<WantedZone, Refused> {
    zones::wants_rrsets(request)?;
    let body = fields::body(&request.body)?;
    let apex = names::zone(fields::text(&body, "name")?)?;
    request.note.zone(&apex);
    request.caller.must(ApiRight::Manage, Scope::Zone(&apex)).map_err(zones::forbidden)?;
    if api.server.table.get(&apex).is_some() {
        return Err(Refused::conflict());
    }
    let wanted = create::read(&body, apex, unix_now())?;
    api.documents.check(&wanted.document).map_err(|fault| Refused::of_document(&fault))?;
    Ok(wanted)
}

/// Returns the refusal of a zone that is not created or not removed.
fn not_done(fault: &CommandFault) -> Refused {
    match fault {
        CommandFault::NoSuchZone { .. } | CommandFault::Database(DatabaseFault::Gone) => Refused::not_found(),
        CommandFault::Reload(fault) => not_changed(fault),
        CommandFault::Database(DatabaseFault::Exists) => Refused::conflict(),
        CommandFault::Database(DatabaseFault::Refused(_)) | CommandFault::Incomplete(_) => {
            Refused::unfit(fault.to_string())
        }
        fault => Refused::new(StatusCode::SERVICE_UNAVAILABLE, fault.to_string()),
    }
}

fn not_changed(fault: &ReloadFault) -> Refused {
    match fault {
        ReloadFault::Served(_) => Refused::conflict(),
        ReloadFault::Stopping => Refused::new(StatusCode::SERVICE_UNAVAILABLE, fault.to_string()),
        ReloadFault::Unsaved(_) | ReloadFault::Unpublished(_) => Refused::internal(fault.to_string()),
        fault => Refused::unfit(fault.to_string()),
    }
}

/// Deletes a zone.
///
/// # Errors
/// There is no such zone, or the configuration names it.
pub(super) async fn delete(api: &ApiParts, request: &Arc<ApiRequest>, id: &str) -> Result<Reply, Refused> {
    let state = zones::manageable(api, &request.caller, id)?;
    let apex = state.spec.apex.clone();
    request.note.zone(&apex);
    request.note.serials(state.zone.as_ref().map(|zone| zone.serial()), None);
    let _turn = api.documents.turn(&apex).await;
    remove_zone(&api.server, apex, &request.caller.origin().to_string())
        .await
        .map_err(|fault| not_done(&fault))?;
    Ok(Reply::Empty(StatusCode::NO_CONTENT))
}

/// Changes the properties of a zone, or replaces all its RRsets.
///
/// # Errors
/// The request cannot be used, or asks for what only the configuration changes.
pub(super) async fn put(api: &ApiParts, request: &Arc<ApiRequest>, id: &str) -> Result<Reply, Refused> {
    let state = zones::find(api, &request.caller, id)?;
    let apex = state.spec.apex.clone();
    request.note.zone(&apex);
    let wanted = {
        let state = Arc::clone(&state);
        blocking(api, request, move |api, request| {
            let body = fields::body(&request.body)?;
            let wanted = replaced_rrsets(api, request, &state, &body)?;
            check_properties(api, request, &state, &body)?;
            Ok(wanted)
        })
        .await?
    };
    if let Some(wanted) = wanted {
        apply(api, request, apex.clone(), wanted).await?;
    }
    let _turn = api.documents.turn(&apex).await;
    blocking(api, request, move |api, request| {
        let body = fields::body(&request.body)?;
        let mut document = ZoneDocument::clone(&api.documents.get(&apex));
        create::properties(&body, &mut document)?;
        if let Some(Ok(ZoneKind::Primary(word))) = fields::text_if(&body, "kind").map(create::kind) {
            document.kind = Some(word.to_owned());
        }
        match document == *api.documents.get(&apex) {
            true => Ok(()),
            false => api.documents.put(&apex, document).map_err(|fault| Refused::of_document(&fault)),
        }
    })
    .await?;
    Ok(Reply::Empty(StatusCode::NO_CONTENT))
}

/// Returns the changes that replace all RRsets of a zone; `None` if the request has no RRsets.
fn replaced_rrsets(
    api: &ApiParts,
    request: &ApiRequest,
    state: &ZoneStatus,
    body: &Value,
) -> Result<Option<Vec<WantedRrset>>, Refused> {
    let Some(given) = fields::array_if(body, "rrsets") else { return Ok(None) };
    let apex = &state.spec.apex;
    request.caller.must(ApiRight::Change, Scope::AllRecords(apex)).map_err(zones::forbidden)?;
    let mut wanted = rrsets::of_zone(given, apex, unix_now().as_secs())?;
    if !wanted.iter().any(|rrset| rrset.rtype == Type::SOA) {
        return Err(Refused::unfit("all RRsets are replaced: the SOA record of the zone must be among them"));
    }
    let kept: HashSet<_> =
        wanted.iter().map(|rrset| (rrset.owner.as_name().to_lower(), rrset.rtype)).collect();
    let parts = view::ShownParts {
        apex,
        caller: &request.caller,
        signed_here: state.spec.signed,
        owner: None,
        rtype: None,
        disabled: true,
    };
    parts.each(state.zone.as_deref(), &api.documents.get(apex), &mut |shown| {
        let owner = names::any(&shown.name);
        if let (Some(owner), Some(rtype)) = (owner, names::rtype(&shown.rtype))
            && !kept.contains(&(owner.as_name().to_lower(), rtype))
        {
            wanted.push(WantedRrset { owner, rtype, change: WantedChange::Delete });
        }
        true
    });
    Ok(Some(wanted))
}

/// Refuses changes of properties that only the configuration makes; those that are as they are may be named.
fn check_properties(
    api: &ApiParts,
    request: &ApiRequest,
    state: &ZoneStatus,
    body: &Value,
) -> Result<(), Refused> {
    let apex = &state.spec.apex;
    let is_secondary = state.spec.text == ZoneText::Primaries;
    if body.as_object().is_some_and(|fields| fields.keys().any(|key| key != "rrsets")) {
        request.caller.must(ApiRight::Manage, Scope::Zone(apex)).map_err(zones::forbidden)?;
    }
    if let Some(word) = fields::text_if(body, "kind") {
        match create::kind(word)? {
            ZoneKind::Primary(_) if is_secondary => {
                return Err(Refused::configured("where a zone comes from", "primaries"));
            }
            ZoneKind::Secondary if !is_secondary => {
                return Err(Refused::configured("where a zone comes from", "primaries"));
            }
            _ => {}
        }
    }
    if let Some(masters) = fields::texts_if(body, "masters")?.filter(|all| !all.is_empty()) {
        let wanted: Result<Vec<_>, _> = masters.iter().map(|text| create::primary(text)).collect();
        let peers = api.server.secondaries.peers(apex);
        let now: Vec<_> =
            peers.iter().flat_map(|peers| peers.primaries.iter()).map(|peer| peer.address).collect();
        if wanted? != now {
            return Err(Refused::configured("the list of primaries", "primaries"));
        }
    }
    check_signing(state, body)?;
    for (field, ids, key) in [
        ("master_tsig_key_ids", metadata::transfer_keys(api, apex), "allow-transfer"),
        ("slave_tsig_key_ids", metadata::primary_keys(api, apex), "primaries"),
    ] {
        if fields::texts_if(body, field)?.is_some_and(|wanted| wanted != ids) {
            return Err(Refused::configured(&format!("'{field}'"), key));
        }
    }
    Ok(())
}

/// Refuses changes of how a zone is signed.
fn check_signing(state: &ZoneStatus, body: &Value) -> Result<(), Refused> {
    let is_signed = state.spec.signed || state.zone.as_ref().is_some_and(|zone| zone.is_signed());
    if fields::flag_if(body, "dnssec").is_some_and(|wanted| wanted != is_signed) {
        return Err(Refused::configured("signing of a zone", "dnssec-policy"));
    }
    let param = state.zone.as_deref().map(view::nsec3param).unwrap_or_default();
    let wants_other = fields::text_if(body, "nsec3param").is_some_and(|wanted| wanted != param);
    if wants_other || fields::flag_if(body, "nsec3narrow") == Some(true) {
        return Err(Refused::configured("NSEC3", "nsec3"));
    }
    Ok(())
}
