//! `/self`, `/rates` and `/secondaries`.

use serde_json::{Value, json};

use config::api::ApiRight;
use control::tokens::shown_grant;

use super::arguments::Arguments;
use super::route::Answering;
use super::zones::{limit_of, on_server};
use crate::parts::ApiParts;
use crate::reply::Reply;
use crate::request::ApiRequest;
use crate::rights::Scope;

/// Returns the caller's token and rights.
pub(super) fn own(_: ApiParts, request: ApiRequest, _: Arguments) -> Answering {
    let caller = request.caller;
    let rights: Vec<Value> = caller.grants.iter().map(shown_grant).collect();
    let shown = json!({"token": &*caller.token, "address": caller.address.to_string(), "rights": rights});
    Box::pin(async move { Ok(Reply::ok(shown)) })
}

/// Returns the counts of the last minutes.
pub(super) fn rates(api: ApiParts, _: ApiRequest, _: Arguments) -> Answering {
    Box::pin(async move { Ok(Reply::ok(api.server.rates.shown())) })
}

/// Returns the zones with primaries or secondaries, those with faults first.
pub(super) fn secondaries(api: ApiParts, request: ApiRequest, arguments: Arguments) -> Answering {
    Box::pin(async move {
        let limit = limit_of(&arguments)?;
        on_server(&api, move |server| {
            // A token for some zones sees those of the worst ones that are its own.
            let worst = server.secondaries.worst(usize::MAX).into_iter();
            let may = |zone: &wire::ZoneName| request.caller.may(ApiRight::Read, Scope::Zone(zone));
            let mut rows = worst.filter(|(zone, _)| may(zone)).map(|(zone, status)| {
                let serial = server.table.get(&zone).and_then(|of| Some(of.zone.as_ref()?.serial().0));
                json!({"zone": zone.to_string(), "serial": serial, "transfers": status})
            });
            let zones: Vec<Value> = rows.by_ref().take(limit).collect();
            let more = rows.count();
            Ok(Reply::ok(json!({"zones": zones, "more": more})))
        })
        .await
    })
}
