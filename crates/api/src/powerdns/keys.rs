//! `cryptokeys`: the DNSSEC keys of a zone that nomen signs. nomen makes and rolls keys by the zone's
//! `dnssec-policy`; a client sees them, and may have one replaced.

use config::api::ApiRight;
use hyper::StatusCode;
use serde_json::{Value, json};
use signer::rollover::KeyGoal;
use wire::Type;
use wire::rdata::view::Dnskey;
use zone_manager::changes::{Changes, SignCommand, ZoneKeyStatus};
use zone_manager::managed::ZoneStatus;

use super::fault::Refused;
use super::{content, fields, zones};
use crate::parts::ApiParts;
use crate::reply::Reply;
use crate::request::ApiRequest;
use crate::rights::Scope;

/// Digest types of DS records that are shown: SHA-256 and SHA-384.
const DIGESTS: [u8; 2] = [2, 4];

/// Answers a request about the keys of a zone, or the one in the path.
///
/// # Errors
/// There is no such zone or key; the request would do what only the policy does.
pub(super) fn answer(
    api: &ApiParts,
    request: &ApiRequest,
    id: &str,
    key: Option<&str>,
) -> Result<Reply, Refused> {
    let state = zones::find(api, &request.caller, id)?;
    let keys = keys_of(api, &state);
    let found = match key {
        None => None,
        Some(text) => {
            let number: u64 = text.parse().map_err(|_| Refused::not_found())?;
            Some(keys.iter().find(|one| key_id(one) == number).ok_or_else(Refused::not_found)?)
        }
    };
    let must_manage =
        || request.caller.must(ApiRight::Manage, Scope::Zone(&state.spec.apex)).map_err(zones::forbidden);
    match (request.method.as_str(), found) {
        ("GET", None) if key.is_none() => Ok(Reply::ok(keys.iter().map(|one| shown(&state, one)).collect())),
        ("GET", Some(found)) => Ok(Reply::ok(shown(&state, found))),
        ("POST", None) if key.is_none() => {
            must_manage()?;
            Err(no_new_key(&state, &fields::body(&request.body)?))
        }
        ("PUT", Some(found)) => {
            must_manage()?;
            let body = fields::body(&request.body)?;
            let active = fields::flag_if(&body, "active");
            let active = active.ok_or_else(|| Refused::unfit("Key 'active' is missing or not a boolean"))?;
            let published = fields::flag_if(&body, "published").unwrap_or(is_published(found));
            switch(found, active, published)
        }
        ("DELETE", Some(found)) => {
            must_manage()?;
            retire(api, &state, found)
        }
        _ => Err(Refused::method()),
    }
}

/// Returns the keys of a zone; none if nomen does not sign it.
fn keys_of(api: &ApiParts, state: &ZoneStatus) -> Vec<ZoneKeyStatus> {
    let changes: Option<&Changes> = api.server.changes.as_deref().filter(|_| state.spec.signed);
    let status = changes.and_then(|changes| changes.signing(&state.spec.apex));
    status.map(|status| status.keys.clone()).unwrap_or_default()
}

/// Returns the number of a key: its algorithm and its tag.
fn key_id(key: &ZoneKeyStatus) -> u64 {
    u64::from(key.id.algorithm.0) << 16 | u64::from(key.id.tag)
}

fn is_active(key: &ZoneKeyStatus) -> bool {
    key.state.goal == KeyGoal::Omnipresent
        || key.state.zrrsig.is_in_service()
        || key.state.krrsig.is_in_service()
}

fn is_published(key: &ZoneKeyStatus) -> bool {
    key.state.dnskey.is_in_service()
}

/// Returns a key in a reply, without its private part.
fn shown(state: &ZoneStatus, key: &ZoneKeyStatus) -> Value {
    let apex = state.spec.apex.as_name();
    let dnskey = Dnskey::read(&key.dnskey);
    let flags = dnskey.as_ref().map_or(0, |dnskey| dnskey.flags);
    let ds: Vec<String> = match &dnskey {
        Ok(dnskey) if key.state.role.signs_keys() => {
            let records = DIGESTS.iter().filter_map(|digest| dnssec::key::ds(apex, dnskey, *digest));
            records.map(|rdata| content::shown(Type::DS, &rdata)).collect()
        }
        _ => Vec::new(),
    };
    let mut out = json!({
        "active": is_active(key),
        "algorithm": key.id.algorithm.to_string(),
        "bits": key.state.bits,
        "dnskey": content::shown(Type::DNSKEY, &key.dnskey),
        "flags": flags,
        "id": key_id(key),
        "keytype": key.state.role.to_string().to_lowercase(),
        "published": is_published(key),
        "type": "Cryptokey",
    });
    if key.state.role.signs_keys() {
        out["cds"] = if key.wants_ds { json!(ds) } else { json!([]) };
        out["ds"] = json!(ds);
    }
    out
}

/// Returns why no key is made.
fn no_new_key(state: &ZoneStatus, body: &Value) -> Refused {
    match fields::text(body, "keytype") {
        Err(refused) => return refused,
        Ok("ksk" | "zsk" | "csk") => {}
        Ok(other) => return Refused::unfit(format!("Invalid keytype {other}")),
    }
    match state.spec.signed {
        true => Refused::unfit(
            "nomen makes keys by the zone's `dnssec-policy`: `nomen ctl key roll` replaces one, and \
             `nomen key import` takes one from elsewhere",
        ),
        false => Refused::configured("signing", "dnssec-policy"),
    }
}

/// Answers an order to switch a key on or off. nomen changes keys only in the steps of a rollover.
fn switch(key: &ZoneKeyStatus, active: bool, published: bool) -> Result<Reply, Refused> {
    if active == is_active(key) && published == is_published(key) {
        return Ok(Reply::Empty(StatusCode::NO_CONTENT));
    }
    Err(Refused::unfit(
        "nomen publishes, uses and removes keys in the steps of a rollover, so that no validator rejects the \
         zone: DELETE, or `nomen ctl key retire`, removes a key once another one has replaced it",
    ))
}

/// Has a key removed as soon as no cache needs it.
fn retire(api: &ApiParts, state: &ZoneStatus, key: &ZoneKeyStatus) -> Result<Reply, Refused> {
    let changes = api.server.changes.as_deref().ok_or_else(Refused::not_found)?;
    match changes.command_signer(&state.spec.apex, SignCommand::Retire(key.id)) {
        Ok(_) => Ok(Reply::Empty(StatusCode::NO_CONTENT)),
        Err(why) => Err(Refused::unfit(format!("Could not DELETE {}: {why}", key_id(key)))),
    }
}
