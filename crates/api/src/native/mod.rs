//! `/api/nomen/v1`: the API of nomen. One table of routes maps methods and paths to commands and handlers;
//! dispatch and the OpenAPI document are made from it.

mod arguments;
mod commands;
mod document;
mod edits;
mod faults;
mod queries;
mod records;
mod route;
mod schemas;
mod server;
mod table;
mod zones;

use hyper::header::{ALLOW, HeaderValue};
use hyper::{Method, StatusCode};

use crate::parts::ApiParts;
use crate::reply::{ApiFault, Reply};
use crate::request::ApiRequest;
use arguments::Arguments;
use route::{Route, Run};
use wording::did_you_mean;

pub(crate) use document::document;

/// The path before those of the routes.
const BASE: &str = "/api/nomen/v1";
/// The path of the OpenAPI document, which needs no token.
pub(crate) const DOCUMENT_PATH: &str = "/api/nomen/v1/openapi.json";

/// Answers a request whose path begins with `/api/nomen`.
pub(crate) async fn answer(api: &ApiParts, request: ApiRequest) -> Result<Reply, ApiFault> {
    let segments = request.segments();
    let Some(own) = segments.strip_prefix(&["api", "nomen", "v1"]) else {
        return Err(ApiFault::not_found(format!("paths of this API begin with {BASE}/")));
    };
    let of_path: Vec<&Route> = table::routes().filter(|route| route.matches(own)).collect();
    // HEAD is GET without the body, which the connection leaves out.
    let method = if request.method == Method::HEAD { "GET" } else { request.method.as_str() };
    let Some(route) = of_path.iter().find(|route| route.method == method) else {
        return no_route(&of_path, own);
    };
    let arguments = Arguments::read(route, own, &request)?;
    if let Some(zone) = &arguments.zone {
        request.note.zone(zone);
    }
    route.need.check(&request.caller, arguments.zone.as_ref())?;
    match route.run {
        Run::Command(command) => commands::run(api, command(&arguments)?).await,
        Run::Text(command) => commands::text(api, command(&arguments)?).await,
        Run::Handler(handler) => handler(api.clone(), request, arguments).await,
    }
}

/// Returns the reply to a request without a route: 405 if its path has others, or else 404 with a similar
/// path.
fn no_route(of_path: &[&Route], own: &[&str]) -> Result<Reply, ApiFault> {
    let methods: Vec<&str> = of_path.iter().map(|route| route.method).collect();
    if !methods.is_empty() {
        let fault =
            ApiFault::new(StatusCode::METHOD_NOT_ALLOWED, format!("possible here: {}", methods.join(", ")));
        let reply = Reply::Json(fault.status, fault.body());
        let allow = HeaderValue::from_str(&methods.join(", "));
        return Ok(allow.into_iter().fold(reply, |reply, allow| reply.with(ALLOW, allow)));
    }
    let wanted = format!("/{}", own.join("/"));
    let near = did_you_mean(&wanted, table::routes().map(|route| route.path));
    let hint =
        near.map_or_else(|| format!("see {DOCUMENT_PATH}"), |near| format!("did you mean {BASE}{near}?"));
    Err(ApiFault::not_found(format!("{BASE}{wanted}: there is no such path; {hint}")))
}
