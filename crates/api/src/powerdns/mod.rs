//! `/api/v1`: the API of PowerDNS Authoritative Server, for its clients.
//!
//! | file | holds |
//! |---|---|
//! | `fault` | refusals in the JSON form of PowerDNS |
//! | `fields` | fields of JSON objects |
//! | `names` | names, ids and variants of zones |
//! | `content` | the content of a record as text |
//! | `rrsets` | RRsets in requests |
//! | `view` | zones and RRsets in replies |
//! | `patch` | what a PATCH changes in a zone |
//! | `serials` | the next serial number by `soa_edit_api` |
//! | `metadata` | metadata of zones |
//! | `zones` | reading zones, and orders for them |
//! | `create`, `change` | new zones; requests that change zones |
//! | `keys` | DNSSEC keys of zones |
//! | `pattern`, `search` | search |
//! | `server` | the server: settings, statistics, TSIG keys, views |

mod change;
mod content;
mod create;
mod fault;
mod fields;
mod keys;
mod metadata;
mod names;
mod patch;
mod pattern;
mod rrsets;
mod search;
mod serials;
mod server;
mod view;
mod zones;

use std::sync::Arc;

use config::api::ApiRight;
use serde_json::json;

use fault::Refused;

use crate::parts::ApiParts;
use crate::reply::{ApiFault, Reply};
use crate::request::ApiRequest;
use crate::rights::Scope;

/// Answers a request whose path begins with `/api/v1`, or is `/api`.
pub(crate) async fn answer(api: &ApiParts, request: ApiRequest) -> Result<Reply, ApiFault> {
    let request = Arc::new(request);
    route(api, &request).await.map_err(Refused::into_fault)
}

async fn route(api: &ApiParts, request: &Arc<ApiRequest>) -> Result<Reply, Refused> {
    let segments = request.segments();
    let (method, path) = (request.method.as_str(), segments.get(1..).unwrap_or_default());
    match (method, path) {
        ("GET", []) => Ok(Reply::ok(json!([{"url": "/api/v1", "version": 1}]))),
        ("GET", ["v1"]) => {
            Ok(Reply::ok(json!([{"api_features": [], "server_url": "/api/v1/servers{/server}"}])))
        }
        ("GET", ["v1", "servers"]) => Ok(Reply::ok(json!([server::description()]))),
        (_, [] | ["v1"] | ["v1", "servers"]) => Err(Refused::method()),
        (method, ["v1", "servers", "localhost", rest @ ..]) => of_server(api, request, method, rest).await,
        _ => Err(Refused::not_found()),
    }
}

/// Answers a request below `/servers/localhost`.
async fn of_server(
    api: &ApiParts,
    request: &Arc<ApiRequest>,
    method: &str,
    rest: &[&str],
) -> Result<Reply, Refused> {
    let caller = &request.caller;
    match (method, rest) {
        ("GET", []) => Ok(Reply::ok(server::description())),
        ("GET", ["config"]) => {
            caller.must(ApiRight::Read, Scope::Server).map_err(zones::forbidden)?;
            blocking(api, request, |api, _| Ok(Reply::ok(server::settings(api)))).await
        }
        ("GET", ["statistics"]) => {
            caller.must(ApiRight::Read, Scope::Server).map_err(zones::forbidden)?;
            blocking(api, request, |api, request| server::statistics(api, request).map(Reply::ok)).await
        }
        ("GET", ["search-data"]) => {
            listing(api, request, |api, request| search::results(api, request).map(Reply::ok)).await
        }
        ("PUT", ["cache", "flush"]) => blocking(api, request, server::flush).await,
        ("GET", ["zones"]) => listing(api, request, zones::list).await,
        ("POST", ["zones"]) => change::create(api, request).await,
        (_, ["zones", id, rest @ ..]) => of_zone(api, request, method, id, rest).await,
        (_, ["tsigkeys"]) => server::tsig_keys(api, request, None),
        (_, ["tsigkeys", id]) => server::tsig_keys(api, request, Some(id)),
        (_, ["autoprimaries", rest @ ..]) if rest.len() != 1 => server::autoprimaries(request, rest),
        (_, ["views", rest @ ..]) => server::views(api, request, rest),
        (_, ["networks", rest @ ..]) => server::networks(api, request, rest),
        (_, [] | ["config" | "statistics" | "search-data" | "zones"] | ["cache", "flush"]) => {
            Err(Refused::method())
        }
        _ => Err(Refused::not_found()),
    }
}

/// Answers a request about one zone.
async fn of_zone(
    api: &ApiParts,
    request: &Arc<ApiRequest>,
    method: &str,
    id: &str,
    rest: &[&str],
) -> Result<Reply, Refused> {
    let of_id = id.to_owned();
    match (method, rest) {
        ("GET", []) => listing(api, request, move |api, request| zones::get(api, request, &of_id)).await,
        ("PATCH", []) => change::patch(api, request, id).await,
        ("PUT", []) => change::put(api, request, id).await,
        ("DELETE", []) => change::delete(api, request, id).await,
        ("GET", ["export"]) => {
            listing(api, request, move |api, request| zones::export(api, request, &of_id)).await
        }
        ("PUT", ["notify"]) => {
            blocking(api, request, move |api, request| zones::notify(api, request, &of_id)).await
        }
        ("PUT", ["axfr-retrieve"]) => {
            blocking(api, request, move |api, request| zones::retrieve(api, request, &of_id)).await
        }
        ("PUT", ["rectify"]) => zones::rectify(api, request, id),
        (_, ["metadata"]) => of_metadata(api, request, id, None).await,
        (_, ["metadata", kind]) => of_metadata(api, request, id, Some((*kind).to_owned())).await,
        (_, ["cryptokeys"]) => {
            blocking(api, request, move |api, request| keys::answer(api, request, &of_id, None)).await
        }
        (_, ["cryptokeys", key]) => {
            let key = (*key).to_owned();
            blocking(api, request, move |api, request| keys::answer(api, request, &of_id, Some(&key))).await
        }
        (_, [] | ["export" | "notify" | "axfr-retrieve" | "rectify"]) => Err(Refused::method()),
        _ => Err(Refused::not_found()),
    }
}

/// Answers a request about the metadata of a zone; one that may change them waits for others of the zone.
async fn of_metadata(
    api: &ApiParts,
    request: &Arc<ApiRequest>,
    id: &str,
    kind: Option<String>,
) -> Result<Reply, Refused> {
    let _turn = match request.method.as_str() {
        "GET" => None,
        _ => Some(api.documents.turn(&names::zone_of_id(id)?).await),
    };
    let id = id.to_owned();
    blocking(api, request, move |api, request| metadata::answer(api, request, &id, kind.as_deref())).await
}

/// As [`blocking`], for what may list many zones or records: a few such lists are made at a time.
async fn listing(
    api: &ApiParts,
    request: &Arc<ApiRequest>,
    work: impl FnOnce(&ApiParts, &ApiRequest) -> Result<Reply, Refused> + Send + 'static,
) -> Result<Reply, Refused> {
    // The semaphore is never closed.
    let _place = api.lists.acquire().await;
    blocking(api, request, work).await
}

/// Does work that takes time on a thread where it may wait.
async fn blocking<T: Send + 'static>(
    api: &ApiParts,
    request: &Arc<ApiRequest>,
    work: impl FnOnce(&ApiParts, &ApiRequest) -> Result<T, Refused> + Send + 'static,
) -> Result<T, Refused> {
    let (api, request) = (api.clone(), Arc::clone(request));
    let done = tokio::task::spawn_blocking(move || work(&api, &request)).await;
    done.unwrap_or_else(|_| Err(Refused::internal("the request could not be answered")))
}
