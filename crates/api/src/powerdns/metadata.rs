//! Metadata of zones. Kinds that are facts of nomen's configuration are read from it and cannot be set here;
//! `X-` kinds and a few more are stored.

use std::sync::Arc;

use config::api::ApiRight;
use hyper::StatusCode;
use serde_json::{Value, json};
use transfer::tsig::TsigKey;
use update::SerialPolicy;
use wire::ZoneName;
use zone_manager::managed::ZoneStatus;

use super::fault::Refused;
use super::{fields, view, zones};
use crate::documents::ZoneDocument;
use crate::parts::ApiParts;
use crate::reply::Reply;
use crate::request::ApiRequest;
use crate::rights::Scope;

/// The kind that says how the API raises serial numbers.
pub(super) const SOA_EDIT_API: &str = "SOA-EDIT-API";
/// Most values of one kind.
const MAX_VALUES: usize = 1000;

/// Kinds of PowerDNS, each with the key of nomen's configuration that has its meaning.
const CONFIGURED: &[(&str, &str)] = &[
    ("ALLOW-AXFR-FROM", "allow-transfer"),
    ("ALLOW-DNSUPDATE-FROM", "allow-update"),
    ("ALSO-NOTIFY", "notify"),
    ("AXFR-MASTER-TSIG", "primaries"),
    ("AXFR-SOURCE", "source"),
    ("FORWARD-DNSUPDATE", "forward-updates"),
    ("GSS-ACCEPTOR-PRINCIPAL", "allow-update"),
    ("GSS-ALLOW-AXFR-PRINCIPAL", "allow-transfer"),
    ("IXFR", "ixfr"),
    ("LUA-AXFR-SCRIPT", "primaries"),
    ("NOTIFY-DNSUPDATE", "notify"),
    ("NSEC3NARROW", "nsec3"),
    ("NSEC3PARAM", "nsec3"),
    ("PRESIGNED", "dnssec-policy"),
    ("PUBLISH-CDNSKEY", "cds"),
    ("PUBLISH-CDS", "cds"),
    ("SLAVE-RENOTIFY", "notify"),
    ("SOA-EDIT-DNSUPDATE", "serial-policy"),
    ("TSIG-ALLOW-AXFR", "allow-transfer"),
    ("TSIG-ALLOW-DNSUPDATE", "allow-update"),
];
/// Kinds that are stored and have a field of the zone, which is how they are set.
const OF_ZONE: &[&str] = &["API-RECTIFY", SOA_EDIT_API];

/// What may be done with a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KindUse {
    /// It is stored.
    Stored,
    /// It is stored, and set by the zone's fields only.
    OfZone,
    /// It is read from this key of the configuration.
    Configured(&'static str),
}

/// Returns what may be done with a kind.
///
/// # Errors
/// There is no such kind.
fn use_of(kind: &str) -> Result<KindUse, Refused> {
    if kind.starts_with("X-") || kind == "SOA-EDIT" {
        return Ok(KindUse::Stored);
    }
    if OF_ZONE.contains(&kind) {
        return Ok(KindUse::OfZone);
    }
    let key = CONFIGURED.iter().find(|(name, _)| *name == kind).map(|(_, key)| *key);
    key.map(KindUse::Configured).ok_or_else(|| Refused::unfit(format!("Unsupported metadata kind '{kind}'")))
}

/// Returns the values of a kind that the configuration has.
fn configured(api: &ApiParts, state: &ZoneStatus, kind: &str) -> Vec<String> {
    let apex = &state.spec.apex;
    let peers = || api.server.secondaries.peers(apex);
    let grants = || api.server.transfers.grants(apex);
    match kind {
        "ALSO-NOTIFY" => {
            let peers = peers();
            peers.iter().flat_map(|peers| peers.notify.iter()).map(|peer| peer.address.to_string()).collect()
        }
        "ALLOW-AXFR-FROM" => {
            let grants = grants();
            let open = grants.iter().flat_map(|all| all.iter()).filter(|grant| grant.key().is_none());
            open.map(|grant| grant.from().map_or_else(|| grant.words(), |from| from.to_string())).collect()
        }
        "TSIG-ALLOW-AXFR" => transfer_keys(api, apex),
        "AXFR-MASTER-TSIG" => primary_keys(api, apex),
        "NSEC3PARAM" => {
            let text = state.zone.as_deref().map(view::nsec3param).unwrap_or_default();
            Some(text).filter(|text| !text.is_empty()).into_iter().collect()
        }
        "PRESIGNED" => {
            let is_signed = state.zone.as_ref().is_some_and(|zone| zone.is_signed());
            if is_signed && !state.spec.signed { vec!["1".to_owned()] } else { Vec::new() }
        }
        _ => Vec::new(),
    }
}

/// Returns the ids of the TSIG keys whose holders may transfer a zone.
pub(super) fn transfer_keys(api: &ApiParts, apex: &ZoneName) -> Vec<String> {
    let grants = api.server.transfers.grants(apex);
    let names = grants.iter().flat_map(|all| all.iter()).filter_map(|grant| grant.key());
    names.map(|name| name.as_name().to_string()).collect()
}

/// Returns the ids of the TSIG keys of a zone's primaries.
pub(super) fn primary_keys(api: &ApiParts, apex: &ZoneName) -> Vec<String> {
    let peers = api.server.secondaries.peers(apex);
    let keys = peers.iter().flat_map(|peers| peers.primaries.iter()).filter_map(|peer| peer.key.as_ref());
    let mut names: Vec<String> = keys.map(|key: &Arc<TsigKey>| key.name().as_name().to_string()).collect();
    names.dedup();
    names
}

/// Whether the first value of a kind is 1.
pub(super) fn is_set(document: &ZoneDocument, kind: &str) -> bool {
    first(document, kind) == "1"
}

/// Returns the first stored value of a kind; empty if there is none.
pub(super) fn first(document: &ZoneDocument, kind: &str) -> String {
    document.metadata.get(kind).and_then(|values| values.first()).cloned().unwrap_or_default()
}

/// Returns how the API raises the serial number of a zone: what a client has set, or else the word for the
/// zone's `serial-policy`.
pub(super) fn soa_edit_api(api: &ApiParts, apex: &ZoneName, document: &ZoneDocument) -> String {
    if let Some(values) = document.metadata.get(SOA_EDIT_API) {
        return values.first().cloned().unwrap_or_default();
    }
    let policy = api.server.changes.as_ref().and_then(|changes| changes.serial_policy(apex));
    match policy {
        Some(SerialPolicy::Date) => "DEFAULT",
        Some(SerialPolicy::UnixTime) => "EPOCH",
        Some(SerialPolicy::Increment) => "INCREASE",
        None => "",
    }
    .to_owned()
}

/// Returns one kind in a reply.
fn shown(kind: &str, values: &[String]) -> Value {
    json!({"type": "Metadata", "kind": kind, "metadata": values})
}

/// Returns the values of a kind.
fn values_of(api: &ApiParts, state: &ZoneStatus, document: &ZoneDocument, kind: &str) -> Vec<String> {
    match use_of(kind) {
        Ok(KindUse::Configured(_)) => configured(api, state, kind),
        _ if kind == SOA_EDIT_API => {
            let word = soa_edit_api(api, &state.spec.apex, document);
            Some(word).filter(|word| !word.is_empty()).into_iter().collect()
        }
        _ => document.metadata.get(kind).cloned().unwrap_or_default(),
    }
}

/// Answers a request about the metadata of a zone: all kinds, or the one in the path.
///
/// # Errors
/// There is no such zone or kind; the kind is set in the configuration; the token may not manage the zone.
pub(super) fn answer(
    api: &ApiParts,
    request: &ApiRequest,
    id: &str,
    kind: Option<&str>,
) -> Result<Reply, Refused> {
    let state = zones::find(api, &request.caller, id)?;
    let document = api.documents.get(&state.spec.apex);
    match (request.method.as_str(), kind) {
        ("GET", None) => Ok(Reply::ok(all(api, &state, &document))),
        ("GET", Some(kind)) => {
            use_of(kind)?;
            Ok(Reply::ok(shown(kind, &values_of(api, &state, &document, kind))))
        }
        ("POST", None) => {
            let body = fields::body(&request.body)?;
            let kind = fields::text(&body, "kind")?;
            let mut values = document.metadata.get(kind).cloned().unwrap_or_default();
            values.extend(given(&body)?);
            set(api, request, &state, kind, Some(values))?;
            let stored = api.documents.get(&state.spec.apex);
            Ok(Reply::Json(StatusCode::CREATED, shown(kind, &values_of(api, &state, &stored, kind))))
        }
        ("PUT", Some(kind)) => {
            let values = given(&fields::body(&request.body)?)?;
            set(api, request, &state, kind, Some(values.clone()))?;
            Ok(Reply::ok(shown(kind, &values)))
        }
        ("DELETE", Some(kind)) => {
            set(api, request, &state, kind, None)?;
            Ok(Reply::Empty(StatusCode::NO_CONTENT))
        }
        _ => Err(Refused::method()),
    }
}

/// Returns all kinds that have values.
fn all(api: &ApiParts, state: &ZoneStatus, document: &ZoneDocument) -> Value {
    let stored = document.metadata.keys().map(String::as_str);
    let configured = CONFIGURED.iter().map(|(kind, _)| *kind);
    let mut kinds: Vec<&str> = stored.chain(configured).chain([SOA_EDIT_API]).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let rows = kinds.into_iter().filter_map(|kind| {
        let values = values_of(api, state, document, kind);
        (!values.is_empty()).then(|| shown(kind, &values))
    });
    rows.collect()
}

/// Returns the values in a body.
fn given(body: &Value) -> Result<Vec<String>, Refused> {
    let fault = || Refused::unfit("Key 'metadata' is missing or not an array of strings");
    let values = fields::texts_if(body, "metadata").map_err(|_| fault())?.ok_or_else(fault)?;
    match values.len() > MAX_VALUES {
        true => Err(Refused::unfit(format!("a kind of metadata has at most {MAX_VALUES} values"))),
        false => Ok(values),
    }
}

/// Sets the values of a kind that is stored, or removes them.
fn set(
    api: &ApiParts,
    request: &ApiRequest,
    state: &ZoneStatus,
    kind: &str,
    values: Option<Vec<String>>,
) -> Result<(), Refused> {
    let apex = &state.spec.apex;
    request.caller.must(ApiRight::Manage, Scope::Zone(apex)).map_err(zones::forbidden)?;
    match use_of(kind)? {
        KindUse::Configured(key) => return Err(Refused::configured(&format!("Metadata '{kind}'"), key)),
        KindUse::OfZone => {
            return Err(Refused::unfit(format!(
                "Unsupported metadata kind '{kind}': set the zone's field instead"
            )));
        }
        KindUse::Stored => {}
    }
    request.note.zone(apex);
    let changed = api.documents.change(apex, |document| match values {
        Some(values) if !values.is_empty() => drop(document.metadata.insert(kind.to_owned(), values)),
        _ => drop(document.metadata.remove(kind)),
    });
    changed.map_err(|fault| Refused::of_document(&fault))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_stored_or_name_a_key_of_the_configuration() {
        assert_eq!(use_of("X-NOTE"), Ok(KindUse::Stored));
        assert_eq!(use_of("ALLOW-AXFR-FROM"), Ok(KindUse::Configured("allow-transfer")));
        assert_eq!(use_of("SOA-EDIT-API"), Ok(KindUse::OfZone));
        assert_eq!(use_of("NOPE").expect_err("no kind").status.as_u16(), 422);
    }

    #[test]
    fn every_named_key_is_one_of_a_zone_or_of_a_policy() {
        let page = config::reference::markdown();
        for (kind, key) in CONFIGURED {
            assert!(page.contains(&format!("### `{key}`")), "{kind}: {key}");
        }
    }

    #[test]
    fn values_must_be_strings_and_not_too_many() {
        assert_eq!(given(&json!({"metadata": ["a"]})), Ok(vec!["a".to_owned()]));
        assert!(given(&json!({"metadata": "a"})).is_err());
        assert!(given(&json!({})).is_err());
        assert!(given(&json!({"metadata": vec!["a"; MAX_VALUES + 1]})).is_err());
    }
}
