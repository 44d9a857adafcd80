//! The server itself: its description, settings, statistics, TSIG keys, views and networks.

use config::api::ApiRight;
use config::table::value::{Value as _, Word};
use hyper::StatusCode;
use query_path::stats::{RCODES, SIZE_BOUNDS, TYPES, place_label};
use serde_json::{Value, json};
use transfer::tsig::{TsigAlgorithm, TsigKeys};
use transport::Transport;
use wire::{NameBuf, Rcode};

use super::fault::Refused;
use super::{names, zones};
use crate::parts::ApiParts;
use crate::reply::Reply;
use crate::request::ApiRequest;
use crate::rights::Scope;

/// The version of PowerDNS whose API this is; clients choose their behaviour by it.
const COMPATIBLE_VERSION: &str = "5.0.0";

/// Returns the description of the server.
pub(super) fn description() -> Value {
    json!({
        "autoprimaries_url": "/api/v1/servers/localhost/autoprimaries{/autoprimary}",
        "config_url": "/api/v1/servers/localhost/config{/config_setting}",
        "daemon_type": "authoritative",
        "id": "localhost",
        "type": "Server",
        "url": "/api/v1/servers/localhost",
        "version": COMPATIBLE_VERSION,
        "zones_url": "/api/v1/servers/localhost/zones{/zone}",
    })
}

/// Returns the settings of PowerDNS that a client may ask for and nomen has an answer to.
pub(super) fn settings(api: &ApiParts) -> Value {
    let setting = |name: &str, value: String| json!({"name": name, "type": "ConfigSetting", "value": value});
    let mut listens: Vec<String> =
        api.server.frontend.listeners().iter().map(|listener| listener.local.to_string()).collect();
    listens.sort_unstable();
    listens.dedup();
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    json!([
        setting("api", yes(true)),
        setting("daemon", yes(true)),
        setting("default-soa-edit", String::new()),
        setting("dnsupdate", yes(api.server.changes.is_some())),
        setting("launch", "nomen".to_owned()),
        setting("local-address", listens.join(",")),
        setting("primary", yes(true)),
        setting("secondary", yes(true)),
        setting("version-string", format!("nomen {}", env!("CARGO_PKG_VERSION"))),
    ])
}

/// Returns the statistics, or the one that the parameter `statistic` names.
///
/// # Errors
/// There is no statistic of that name.
pub(super) fn statistics(api: &ApiParts, request: &ApiRequest) -> Result<Value, Refused> {
    let mut items: Vec<Value> = counters(api)
        .into_iter()
        .map(|(name, value)| json!({"name": name, "type": "StatisticItem", "value": value.to_string()}))
        .collect();
    items.extend(maps(api));
    if let Some(name) = request.parameter("statistic") {
        items.retain(|item| item["name"] == name);
        if items.is_empty() {
            return Err(Refused::unfit(format!("there is no statistic named '{name}'")));
        }
    }
    Ok(Value::Array(items))
}

/// Returns the counters under their names in PowerDNS.
fn counters(api: &ApiParts) -> Vec<(&'static str, u64)> {
    let accounts = &api.server.frontend.accounts;
    let of = |wanted: &dyn Fn(Transport) -> bool, figure: &dyn Fn(&query_path::QueryStats, usize) -> u64| {
        let transports = Transport::ALL.iter().enumerate().filter(|(_, transport)| wanted(**transport));
        transports.map(|(at, _)| accounts.sum(|stats| figure(stats, at))).sum::<u64>()
    };
    let queries = |stats: &query_path::QueryStats, at: usize| stats.queries[at].iter().map(|c| c.get()).sum();
    let answers = |stats: &query_path::QueryStats, at: usize| stats.replies[at].iter().map(|c| c.get()).sum();
    let bytes = |stats: &query_path::QueryStats, at: usize| stats.bytes_out[at].get();
    let all = |_: Transport| true;
    let (udp, tcp) = (|t: Transport| !t.is_stream(), |t: Transport| t.is_stream());
    let rcode = |code: Rcode| {
        of(&all, &|stats, at| stats.replies[at].get(usize::from(code.0)).map_or(0, |c| c.get()))
    };
    let signatures = api.server.changes.iter().flat_map(|changes| changes.all_signing());
    vec![
        ("corrupt-packets", rcode(Rcode::FORMERR)),
        ("fd-usage", telemetry::process::open_descriptors().unwrap_or(0)),
        ("noerror-packets", rcode(Rcode::NOERROR)),
        ("nxdomain-packets", rcode(Rcode::NXDOMAIN)),
        ("real-memory-usage", telemetry::process::resident_memory().unwrap_or(0)),
        ("servfail-packets", rcode(Rcode::SERVFAIL)),
        ("signatures", signatures.map(|(_, status)| status.signatures).sum()),
        ("tcp-answers", of(&tcp, &answers)),
        ("tcp-answers-bytes", of(&tcp, &bytes)),
        ("tcp-queries", of(&tcp, &queries)),
        ("udp-answers", of(&udp, &answers)),
        ("udp-answers-bytes", of(&udp, &bytes)),
        ("udp-do-queries", accounts.sum(|stats| stats.dnssec_ok.get())),
        ("udp-queries", of(&udp, &queries)),
        ("unauth-packets", rcode(Rcode::REFUSED)),
        ("uptime", api.server.process.since.elapsed().as_secs()),
        ("zone-cache-size", api.server.table.all().len() as u64),
    ]
}

/// Returns the counters by type, size and response code.
fn maps(api: &ApiParts) -> [Value; 3] {
    let accounts = &api.server.frontend.accounts;
    let map = |name: &str, all: Vec<(String, u64)>| {
        let used = all.into_iter().filter(|(_, count)| *count > 0);
        let rows: Vec<Value> =
            used.map(|(name, count)| json!({"name": name, "value": count.to_string()})).collect();
        json!({"name": name, "type": "MapStatisticItem", "value": rows})
    };
    let transports = 0..Transport::ALL.len();
    let sum = |figure: &dyn Fn(&query_path::QueryStats, usize) -> u64| {
        transports.clone().map(|at| accounts.sum(|stats| figure(stats, at))).sum::<u64>()
    };
    let types = (0..TYPES)
        .map(|place| (place_label(place).to_string(), sum(&|stats, at| stats.queries[at][place].get())));
    let sizes = SIZE_BOUNDS.iter().enumerate();
    let sizes =
        sizes.map(|(place, bound)| (bound.to_string(), sum(&|stats, at| stats.sizes[at][place].get())));
    let rcodes = (0..RCODES).filter_map(|rcode| {
        let name = Rcode(u16::try_from(rcode).ok()?).to_string();
        Some((name, sum(&|stats, at| stats.replies[at][rcode].get())))
    });
    [
        map("response-by-qtype", types.collect()),
        map("response-sizes", sizes.collect()),
        map("response-by-rcode", rcodes.collect()),
    ]
}

/// Answers an order to flush a name from the cache. Answers from zones are not cached, so only recursive
/// service has something to flush.
///
/// # Errors
/// The name is not absolute, or the token may not control the server.
pub(super) fn flush(api: &ApiParts, request: &ApiRequest) -> Result<Reply, Refused> {
    let name = names::absolute(request.parameter("domain").unwrap_or_default())?;
    request.caller.must(ApiRight::Server, Scope::Server).map_err(zones::forbidden)?;
    let count =
        api.server.recursive.as_ref().map_or(0, |recursive| {
            recursive.service.flush(name.as_name().to_lower().as_lower(), false, None)
        });
    Ok(Reply::ok(json!({"count": count, "result": "Flushed cache."})))
}

/// Answers a request about TSIG keys, which the configuration has.
///
/// # Errors
/// There is no such key; the request would change one; the token may not read the server.
pub(super) fn tsig_keys(api: &ApiParts, request: &ApiRequest, id: Option<&str>) -> Result<Reply, Refused> {
    request.caller.must(ApiRight::Read, Scope::Server).map_err(zones::forbidden)?;
    let keys = api.server.transfers.keys();
    if let Some(id) = id
        && find_key(&keys, id).is_none()
    {
        let error = format!("TSIG key with name '{}' not found", id.trim_end_matches('.'));
        return Err(Refused::new(StatusCode::NOT_FOUND, error));
    }
    match (request.method.as_str(), id) {
        ("GET", None) => {
            let mut all: Vec<String> = keys.iter().map(|key| key.name().as_name().to_string()).collect();
            all.sort_unstable();
            Ok(Reply::ok(all.iter().filter_map(|id| tsig_key(api, &keys, id, false)).collect()))
        }
        ("GET", Some(id)) => {
            let with_secret = request.caller.may(ApiRight::All, Scope::Server);
            Ok(Reply::ok(tsig_key(api, &keys, id, with_secret).unwrap_or_default()))
        }
        ("POST", None) | ("PUT" | "DELETE", Some(_)) => {
            Err(Refused::configured("a TSIG key", "[[tsig-key]]"))
        }
        _ => Err(Refused::method()),
    }
}

fn find_key<'k>(keys: &'k TsigKeys, id: &str) -> Option<&'k transfer::tsig::TsigKey> {
    let id = if id.ends_with('.') { id.to_owned() } else { format!("{id}.") };
    let name: NameBuf = id.parse().ok()?;
    keys.get(name.as_name().to_lower().as_lower()).map(|key| &**key)
}

/// Returns a key in a reply. A secret is known of keys in `[[tsig-key]]`, and not of those in `key-files`.
fn tsig_key(api: &ApiParts, keys: &TsigKeys, id: &str, with_secret: bool) -> Option<Value> {
    let key = find_key(keys, id)?;
    let name = key.name().as_name().to_string();
    let settings = api.server.in_force.settings();
    let block = settings.tsig_keys.iter().find(|block| block.name.value.as_name() == key.name().as_name());
    let secret = block.filter(|_| with_secret).map(|block| block.secret.value.base64()).unwrap_or_default();
    let words = <TsigAlgorithm as Word>::WORDS;
    let algorithm =
        words.iter().find(|(_, algorithm)| *algorithm == key.algorithm()).map_or("", |(word, _)| word);
    let short = name.strip_suffix('.').unwrap_or(&name);
    Some(json!({"algorithm": algorithm, "id": name, "key": secret, "name": short, "type": "TSIGKey"}))
}

/// Answers a request about views, which the configuration has.
///
/// # Errors
/// There is no such view; the request would change one; the token may not read the server.
pub(super) fn views(api: &ApiParts, request: &ApiRequest, rest: &[&str]) -> Result<Reply, Refused> {
    request.caller.must(ApiRight::Read, Scope::Server).map_err(zones::forbidden)?;
    let settings = api.server.in_force.settings();
    match (request.method.as_str(), rest) {
        ("GET", []) => {
            let mut all: Vec<&str> = settings.views.iter().map(|view| view.name.as_str()).collect();
            all.sort_unstable();
            Ok(Reply::ok(json!({"views": all})))
        }
        ("GET", [view]) => {
            if !settings.views.iter().any(|block| block.name.as_str() == *view) {
                return Err(Refused::not_found());
            }
            let of_view = zones::readable(api, &request.caller).into_iter();
            let of_view = of_view.filter(|state| state.spec.apex.view() == Some(view));
            let all: Vec<String> = of_view.map(|state| names::shown(&state.spec.apex)).collect();
            Ok(Reply::ok(json!({"zones": all})))
        }
        ("POST", [_]) | ("DELETE", [_, _]) => Err(Refused::configured("the zones of a view", "view")),
        _ => Err(Refused::method()),
    }
}

/// Answers a request about the networks of views, which the configuration has.
///
/// # Errors
/// No view has that network; the request would change one; the token may not read the server.
pub(super) fn networks(api: &ApiParts, request: &ApiRequest, rest: &[&str]) -> Result<Reply, Refused> {
    request.caller.must(ApiRight::Read, Scope::Server).map_err(zones::forbidden)?;
    let settings = api.server.in_force.settings();
    let mut all: Vec<(String, String)> = Vec::new();
    for view in &settings.views {
        for from in view.from.iter() {
            let text = from.value.render().unwrap_or_default();
            all.push((text.trim_matches('"').to_owned(), view.name.as_str().to_owned()));
        }
    }
    let row = |(network, view): &(String, String)| json!({"network": network, "view": view});
    match (request.method.as_str(), rest) {
        ("GET", []) => Ok(Reply::ok(json!({"networks": all.iter().map(row).collect::<Vec<_>>()}))),
        ("GET", [address, length]) => {
            let wanted = format!("{address}/{length}");
            let found = all.iter().find(|(network, _)| *network == wanted);
            found.map(|found| Reply::ok(row(found))).ok_or_else(Refused::not_found)
        }
        ("PUT", [_, _]) => Err(Refused::configured("the networks of a view", "from")),
        _ => Err(Refused::method()),
    }
}

/// Answers a request about autoprimaries, which nomen replaces by catalog zones.
///
/// # Errors
/// The request would add or remove one.
pub(super) fn autoprimaries(request: &ApiRequest, rest: &[&str]) -> Result<Reply, Refused> {
    request.caller.must(ApiRight::Read, Scope::Server).map_err(zones::forbidden)?;
    match (request.method.as_str(), rest) {
        ("GET", []) => Ok(Reply::ok(json!([]))),
        ("POST", []) | ("DELETE", [_, _]) => {
            let text = "nomen has no autoprimaries: a catalog zone adds secondary zones (`catalog-template`)";
            Err(Refused::unfit(text))
        }
        _ => Err(Refused::method()),
    }
}
