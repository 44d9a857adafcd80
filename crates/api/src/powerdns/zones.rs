//! Zones: their list, one of them, its properties, its removal, and orders for it.

use std::sync::Arc;

use config::api::ApiRight;
use hyper::StatusCode;
use hyper::header::ACCEPT;
use serde_json::json;
use zone_manager::dump::dump_lines;
use zone_manager::managed::ZoneStatus;
use zone_manager::secondaries::ZoneOrder;
use zone_plan::{ZonePeers, ZoneText};

use super::fault::Refused;
use super::view::{ListedZone, ShownParts, ShownZone, nsec3param, url};
use super::{metadata, names};
use crate::documents::ZoneDocument;
use crate::parts::ApiParts;
use crate::reply::Reply;
use crate::request::ApiRequest;
use crate::rights::{Caller, Scope};

/// Returns the zones that a token may read, always in the same order.
pub(super) fn readable(api: &ApiParts, caller: &Caller) -> Vec<Arc<ZoneStatus>> {
    let mut all = api.server.table.all();
    all.retain(|state| is_shown(state) && caller.may(ApiRight::Read, Scope::Zone(&state.spec.apex)));
    // By bytes, which is faster than the canonical order: there may be a million zones.
    all.sort_unstable_by(|a, b| a.spec.apex.as_key().cmp(b.spec.apex.as_key()));
    all
}

/// Whether a zone is one that operators manage: not one built into the program, nor the resolver's copy of
/// the root zone.
fn is_shown(state: &ZoneStatus) -> bool {
    !matches!(state.spec.text, ZoneText::BuiltIn(_)) && state.spec.origin != zone_plan::Origin::LocalRoot
}

/// Returns a zone that a token may read.
///
/// # Errors
/// [`Refused::not_found`], also for a zone that the token may not read.
pub(super) fn find(api: &ApiParts, caller: &Caller, id: &str) -> Result<Arc<ZoneStatus>, Refused> {
    let apex = names::zone_of_id(id)?;
    let state = api.server.table.get(&apex).filter(|state| is_shown(state));
    let state = state.filter(|state| caller.may(ApiRight::Read, Scope::Zone(&state.spec.apex)));
    state.ok_or_else(Refused::not_found)
}

/// Returns the list of zones.
///
/// # Errors
/// A parameter that cannot be used.
pub(super) fn list(api: &ApiParts, request: &ApiRequest) -> Result<Reply, Refused> {
    let dnssec = request.parameter("dnssec") != Some("false");
    let states = match request.parameter("zone") {
        None | Some("") => readable(api, &request.caller),
        Some(name) => {
            let apex = names::zone(name)?;
            let state = api.server.table.get(&apex).filter(|state| is_shown(state));
            state
                .filter(|state| request.caller.may(ApiRight::Read, Scope::Zone(&state.spec.apex)))
                .into_iter()
                .collect()
        }
    };
    let documents = api.documents.all();
    let mut zones: Vec<ListedZone> = Vec::with_capacity(states.len());
    for state in &states {
        let apex = &state.spec.apex;
        let empty = || Arc::new(ZoneDocument::of(apex));
        let document = documents.get(apex).cloned().unwrap_or_else(empty);
        zones.push(listed(api, state, &document, dnssec, states.len() == 1));
    }
    let text = serde_json::to_string(&zones).map_err(|error| Refused::internal(error.to_string()))?;
    Ok(Reply::Text(StatusCode::OK, "application/json", text))
}

/// Returns the facts about a zone that the list shows. `checked`: the time of the last check of its primaries
/// as well, which takes a message to another thread.
fn listed(
    api: &ApiParts,
    state: &ZoneStatus,
    document: &ZoneDocument,
    dnssec: bool,
    checked: bool,
) -> ListedZone {
    let apex = &state.spec.apex;
    let peers = api.server.secondaries.peers(apex);
    let serial = state.zone.as_ref().map_or(0, |zone| zone.serial().0);
    let notifies = peers.as_ref().is_some_and(|peers| !peers.notify.is_empty());
    let is_secondary = state.spec.text == ZoneText::Primaries;
    let name = names::shown(apex);
    let id = names::id_of(&name);
    let confirmed = || api.server.secondaries.status(apex)?.confirmed;
    ListedZone {
        account: document.account.clone(),
        catalog: catalog_of(state),
        dnssec: dnssec.then(|| is_signed(state)),
        edited_serial: dnssec.then_some(serial),
        url: url(&id),
        id,
        kind: kind(state, peers.as_deref(), document),
        last_check: Some(())
            .filter(|()| checked && is_secondary)
            .and_then(|()| confirmed())
            .map_or(0, |at| at.as_secs()),
        masters: peers.as_ref().map(|peers| masters(peers)).unwrap_or_default(),
        name,
        // NOTIFY is sent for each version when it goes into service.
        notified_serial: if notifies { serial } else { 0 },
        serial,
    }
}

/// Whether a zone is signed, here or elsewhere.
fn is_signed(state: &ZoneStatus) -> bool {
    state.is_signed()
}

/// The catalog zone that lists a zone here; empty if none does.
fn catalog_of(state: &ZoneStatus) -> String {
    match &state.spec.origin {
        zone_plan::Origin::Catalog(catalog) => names::shown(catalog),
        _ => String::new(),
    }
}

/// The kind of a zone in the words of PowerDNS.
pub(super) fn kind(state: &ZoneStatus, peers: Option<&ZonePeers>, document: &ZoneDocument) -> String {
    let word = match state.spec.text {
        ZoneText::Primaries => "Slave",
        ZoneText::Produced => "Producer",
        ZoneText::Database => "Native",
        _ => match &document.kind {
            Some(kind) => kind,
            None if peers.is_some_and(|peers| !peers.notify.is_empty()) => "Master",
            None => "Native",
        },
    };
    word.to_owned()
}

/// The addresses of primaries; the port only if it is not 53.
fn masters(peers: &ZonePeers) -> Vec<String> {
    let one = |address: std::net::SocketAddr| match address.port() {
        53 => address.ip().to_string(),
        _ => address.to_string(),
    };
    peers.primaries.iter().map(|peer| one(peer.address)).collect()
}

/// Returns one zone.
///
/// # Errors
/// There is no such zone, or a parameter cannot be used.
pub(super) fn get(api: &ApiParts, request: &ApiRequest, id: &str) -> Result<Reply, Refused> {
    let state = find(api, &request.caller, id)?;
    shown(api, request, &state, StatusCode::OK)
}

/// Returns a reply with a zone, and its RRsets unless the parameter `rrsets` is false.
///
/// # Errors
/// A parameter cannot be used.
pub(super) fn shown(
    api: &ApiParts,
    request: &ApiRequest,
    state: &ZoneStatus,
    status: StatusCode,
) -> Result<Reply, Refused> {
    let with_rrsets = wants_rrsets(request)?;
    let (apex, document) = (&state.spec.apex, api.documents.get(&state.spec.apex));
    let owner = request.parameter("rrset_name").map(|name| {
        let text = if name.ends_with('.') { name.to_owned() } else { format!("{name}.") };
        names::absolute(&text)
    });
    // A name or type that cannot be has no RRsets.
    let impossible = matches!(owner, Some(Err(_)));
    let owner = owner.and_then(Result::ok);
    let rtype = request.parameter("rrset_type").filter(|_| owner.is_some()).map(names::rtype);
    let impossible = impossible || rtype == Some(None);
    let parts = ShownParts {
        apex,
        caller: &request.caller,
        signed_here: state.spec.signed,
        owner: owner.as_ref().map(|owner| owner.as_name()),
        rtype: rtype.flatten(),
        disabled: request.parameter("include_disabled") != Some("false"),
    };
    let rrsets = match (with_rrsets, impossible) {
        (false, _) => None,
        (true, true) => Some(Vec::new()),
        (true, false) => Some(parts.rrsets(state.zone.as_deref(), &document)),
    };
    let zone = ShownZone {
        listed: listed(api, state, &document, true, true),
        api_rectify: metadata::is_set(&document, "API-RECTIFY"),
        master_tsig_key_ids: metadata::transfer_keys(api, apex),
        nsec3narrow: false,
        nsec3param: state.zone.as_deref().map(nsec3param).unwrap_or_default(),
        rrsets,
        slave_tsig_key_ids: metadata::primary_keys(api, apex),
        soa_edit: metadata::first(&document, "SOA-EDIT"),
        soa_edit_api: metadata::soa_edit_api(api, apex, &document),
    };
    let text = serde_json::to_string(&zone).map_err(|error| Refused::internal(error.to_string()))?;
    Ok(Reply::Text(status, "application/json", text))
}

/// Reads the parameter `rrsets`.
///
/// # Errors
/// It is neither true nor false.
pub(super) fn wants_rrsets(request: &ApiRequest) -> Result<bool, Refused> {
    match request.parameter("rrsets") {
        None | Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(other) => {
            Err(Refused::unfit(format!("'rrsets' request parameter value '{other}' is not supported")))
        }
    }
}

/// Returns all records of a zone as text: as JSON if the client prefers it.
///
/// # Errors
/// There is no such zone, or the token may not read all its records.
pub(super) fn export(api: &ApiParts, request: &ApiRequest, id: &str) -> Result<Reply, Refused> {
    let state = find(api, &request.caller, id)?;
    let apex = &state.spec.apex;
    request.caller.must(ApiRight::Read, Scope::AllRecords(apex)).map_err(forbidden)?;
    let mut text = String::new();
    if let Some(zone) = &state.zone {
        dump_lines(zone, &mut |line| {
            let fields = line.splitn(5, ' ').collect::<Vec<_>>();
            let is_made = state.spec.signed
                && fields.get(3).and_then(|rtype| names::rtype(rtype)).is_some_and(update::is_signers);
            if !is_made {
                text.push_str(&fields.join("\t"));
                text.push('\n');
            }
            true
        });
    }
    let accepted = request.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("*/*");
    let wants_text = accepted.starts_with("text/plain");
    Ok(match wants_text {
        true => Reply::Text(StatusCode::OK, "text/plain", text),
        false => Reply::ok(json!({"zone": text})),
    })
}

/// Orders NOTIFY of a zone.
///
/// # Errors
/// The zone has no NOTIFY targets, or there is none.
pub(super) fn notify(api: &ApiParts, request: &ApiRequest, id: &str) -> Result<Reply, Refused> {
    let state = manageable(api, &request.caller, id)?;
    let peers = api.server.secondaries.peers(&state.spec.apex);
    if peers.is_some_and(|peers| !peers.notify.is_empty()) {
        let ordered = api.server.secondaries.order(&state.spec.apex, ZoneOrder::Notify);
        ordered.map_err(|fault| Refused::unfit(fault.to_string()))?;
    }
    Ok(Reply::ok(json!({"result": "Notification queued"})))
}

/// Orders a transfer of a secondary zone.
///
/// # Errors
/// The zone is no secondary zone, or there is none.
pub(super) fn retrieve(api: &ApiParts, request: &ApiRequest, id: &str) -> Result<Reply, Refused> {
    let state = manageable(api, &request.caller, id)?;
    let name = names::shown(&state.spec.apex);
    if state.spec.text != ZoneText::Primaries {
        return Err(Refused::unfit(format!(
            "Domain '{name}' is not a secondary domain (or has no primary defined)"
        )));
    }
    let ordered = api.server.secondaries.order(&state.spec.apex, ZoneOrder::Retransfer);
    ordered.map_err(|fault| Refused::unfit(fault.to_string()))?;
    let peers = api.server.secondaries.peers(&state.spec.apex);
    let first = peers.and_then(|peers| masters(&peers).into_iter().next()).unwrap_or_default();
    Ok(Reply::ok(json!({"result": format!("Added retrieval request for '{name}' from primary {first}")})))
}

/// Answers an order to rectify a zone: nomen computes what PowerDNS rectifies with each change.
///
/// # Errors
/// There is no such zone, or it has no records yet.
pub(super) fn rectify(api: &ApiParts, request: &ApiRequest, id: &str) -> Result<Reply, Refused> {
    let state = manageable(api, &request.caller, id)?;
    match state.zone {
        Some(_) => Ok(Reply::ok(json!({"result": "Rectified"}))),
        None => {
            let name = names::shown(&state.spec.apex);
            Err(Refused::unfit(format!("Failed to rectify '{name}': no version of it is in service")))
        }
    }
}

/// Returns a zone that a token may manage.
///
/// # Errors
/// There is no such zone, or the token may read it and not manage it.
pub(super) fn manageable(api: &ApiParts, caller: &Caller, id: &str) -> Result<Arc<ZoneStatus>, Refused> {
    let state = find(api, caller, id)?;
    caller.must(ApiRight::Manage, Scope::Zone(&state.spec.apex)).map_err(forbidden)?;
    Ok(state)
}

/// Returns the refusal for a missing right.
pub(super) fn forbidden(fault: crate::reply::ApiFault) -> Refused {
    Refused::new(fault.status, format!("Forbidden: {}", fault.message))
}
