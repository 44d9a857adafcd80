//! Answers one request: checks limits, host name and token, reads the body, and passes the request to the
//! handlers of its path.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{
    AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderName,
    HeaderValue, REFERRER_POLICY, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode};
use transport::unix_now;

use config::api::ApiSection;
use control::api_figures::ApiLimit;
use control::hosts;

use crate::audit::{AuditedRequest, token_refused};
use crate::body::{ReplyBody, StreamBody};
use crate::native;
use crate::page;
use crate::parts::ApiParts;
use crate::path;
use crate::powerdns;
use crate::reply::{ApiFault, Reply};
use crate::request::{ApiRequest, ChangeNote};
use crate::rights::Caller;

/// The header of a token, as PowerDNS has it.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// The media type of JSON.
const JSON: &str = "application/json";
/// The most bytes that a refused request may still send; connections of longer ones are closed.
const DRAINED: u64 = 64 * 1024;

/// Answers a request of a client.
pub(crate) async fn answer(
    api: &ApiParts,
    client: IpAddr,
    request: Request<Incoming>,
) -> Response<ReplyBody> {
    let figures = Arc::clone(&api.server.api_figures);
    let is_long = request.body().size_hint().upper().is_none_or(|bytes| bytes > DRAINED);
    let outcome = decide(api, client, request).await;
    let is_fault = outcome.is_err();
    let mut response = match outcome {
        Ok(reply) => respond(reply),
        Err(fault) => respond_fault(&fault),
    };
    if is_fault && is_long {
        // The body, which may not have been read, is not the next request.
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    figures.responded(response.status().as_u16());
    response
}

/// Answers a request, or refuses it.
async fn decide(api: &ApiParts, client: IpAddr, request: Request<Incoming>) -> Result<Reply, ApiFault> {
    let (bounds, figures) = (api.bounds(), &api.server.api_figures);
    if !hosts::may_ask(&request, bounds.hosts.value.as_deref().unwrap_or_default()) {
        figures.refused_by(ApiLimit::Host);
        let message = "the API is not available under this host name: use an IP address, or add the name to `hosts` \
                       of [api]";
        return Err(ApiFault::new(StatusCode::MISDIRECTED_REQUEST, message));
    }
    if let Err(seconds) = api.limits.admit(client, bounds.per_second.0, Instant::now()) {
        figures.refused_by(ApiLimit::Rate);
        let message = format!("more than {} requests per second", bounds.per_second.0);
        return Err(ApiFault::too_many(message, seconds));
    }
    let path = request.uri().path().to_owned();
    if let Some(open) = open_reply(&request, &path) {
        return open;
    }
    let caller = caller(api, client, &request, &bounds)?;
    let segments = path::segments(&path).map_err(ApiFault::bad_request)?;
    let query = path::parameters(request.uri().query().unwrap_or_default());
    let (head, body) = request.into_parts();
    let until = tokio::time::Instant::now() + bounds.request.0;
    let body = read_body(api, body, &bounds).await?;
    let note = Arc::new(ChangeNote::default());
    let request = ApiRequest {
        method: head.method.clone(),
        path: segments,
        query,
        headers: head.headers,
        body,
        caller: caller.clone(),
        note: Arc::clone(&note),
    };
    // A command that takes longer than the client waits is executed nevertheless, and has its audit line.
    let work = tokio::spawn(execute(api.clone(), request, (head.method, path)));
    match tokio::time::timeout_at(until, work).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => {
            Err(ApiFault::new(StatusCode::INTERNAL_SERVER_ERROR, "the request could not be answered"))
        }
        Err(_) => {
            figures.refused_by(ApiLimit::Time);
            let message =
                "the command takes longer than `request-timeout` of [api], and is executed nevertheless";
            Err(ApiFault::new(StatusCode::GATEWAY_TIMEOUT, message))
        }
    }
}

/// Executes a request, and writes its line to the audit file if it may change something and has none yet.
async fn execute(
    api: ApiParts,
    request: ApiRequest,
    (method, path): (Method, String),
) -> Result<Reply, ApiFault> {
    let (caller, note) = (request.caller.clone(), Arc::clone(&request.note));
    let outcome = dispatch(&api, request).await;
    if let Err(fault) = &outcome
        && fault.status == StatusCode::FORBIDDEN
    {
        api.server.api_figures.forbidden.fetch_add(1, Relaxed);
    }
    if method != Method::GET && method != Method::HEAD && !note.noted().is_logged {
        let (status, reason) = match &outcome {
            Ok(reply) => (reply.status(), None),
            Err(fault) => (fault.status, Some(fault.message.as_str())),
        };
        let (token, client) = (&*caller.token, caller.address);
        AuditedRequest { token, client, method: &method, path: &path, note: &note }.log(status, reason);
    }
    outcome
}

/// Passes a request to the handlers of its path.
async fn dispatch(api: &ApiParts, request: ApiRequest) -> Result<Reply, ApiFault> {
    match request.segments()[..] {
        ["api", "nomen", ..] => native::answer(api, request).await,
        ["api"] | ["api", "v1", ..] => powerdns::answer(api, request).await,
        _ => Err(no_such_path(&format!("/{}", request.path.join("/")))),
    }
}

fn no_such_path(path: &str) -> ApiFault {
    ApiFault::not_found(format!(
        "{path}: there is no such path; the API is described at {}",
        native::DOCUMENT_PATH
    ))
}

/// Returns the reply to a request that needs no token: the web page, and the description of the API.
fn open_reply(request: &Request<Incoming>, path: &str) -> Option<Result<Reply, ApiFault>> {
    let reads = request.method() == Method::GET || request.method() == Method::HEAD;
    if path == native::DOCUMENT_PATH && reads {
        return Some(Ok(Reply::ok(native::document())));
    }
    if path == "/api" || path.starts_with("/api/") {
        return None;
    }
    Some(match page::asset(path) {
        Some(asset) if reads && asset.is_known(request.headers()) => {
            Ok(Reply::With(asset.fields(), Box::new(Reply::Empty(StatusCode::NOT_MODIFIED))))
        }
        Some(asset) if reads => {
            let file = Reply::Asset(asset.media_type, asset.content, asset.policy);
            Ok(Reply::With(asset.fields(), Box::new(file)))
        }
        Some(_) => Err(ApiFault::new(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are possible here")),
        None => Err(no_such_path(path)),
    })
}

/// Returns the token of a request.
fn caller<B>(
    api: &ApiParts,
    client: IpAddr,
    request: &Request<B>,
    bounds: &ApiSection,
) -> Result<Caller, ApiFault> {
    let (figures, now) = (&api.server.api_figures, Instant::now());
    let unauthorized = |message: &str| ApiFault::new(StatusCode::UNAUTHORIZED, message);
    let Some(secret) = secret(request.headers()) else {
        let message = "a token is needed: send it as `X-API-Key: TOKEN` or `Authorization: Bearer TOKEN`; `nomen \
                       token NAME` makes one";
        return Err(unauthorized(message));
    };
    if let Some(seconds) = api.limits.locked_out(client, bounds.wrong_tokens.0, now) {
        figures.refused_by(ApiLimit::WrongTokens);
        return Err(ApiFault::too_many("too many wrong tokens from this address", seconds));
    }
    match api.server.tokens.find(secret, unix_now()) {
        Some(token) if !token.is_expired => {
            api.server.tokens.used(&token.name, client);
            Ok(Caller::new(token.name, client, token.grants))
        }
        found => {
            figures.wrong_tokens.fetch_add(1, Relaxed);
            api.limits.wrong_token(client, secret, now);
            token_refused(client, request.uri().path(), found.as_ref().map(|token| &*token.name));
            Err(unauthorized(if found.is_some() { "the token has expired" } else { "the token is wrong" }))
        }
    }
}

/// Returns the secret of a request's token.
fn secret(headers: &HeaderMap) -> Option<&[u8]> {
    if let Some(key) = headers.get(API_KEY) {
        return Some(key.as_bytes());
    }
    let (scheme, secret) = headers.get(AUTHORIZATION)?.as_bytes().split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(secret.trim_ascii())
}

/// Reads the body of a request within the limits of size and time.
async fn read_body(api: &ApiParts, body: Incoming, bounds: &ApiSection) -> Result<Bytes, ApiFault> {
    let (most, figures) = (bounds.body.0, &api.server.api_figures);
    let too_large = || {
        figures.refused_by(ApiLimit::Body);
        let message = format!("the body has more than {most} bytes (`body-size` of [api])");
        ApiFault::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    };
    if body.size_hint().lower() > most as u64 {
        return Err(too_large());
    }
    let limit: Duration = bounds.request.0;
    match tokio::time::timeout(limit, Limited::new(body, most).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(fault)) if fault.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(fault)) => Err(ApiFault::bad_request(format!("the body cannot be read: {fault}"))),
        Err(_) => {
            figures.refused_by(ApiLimit::Time);
            let message = "the body did not arrive within `request-timeout` of [api]";
            Err(ApiFault::new(StatusCode::REQUEST_TIMEOUT, message))
        }
    }
}

/// Returns the response with a reply.
fn respond(reply: Reply) -> Response<ReplyBody> {
    let with_type = |status, media_type: &'static str, body: ReplyBody| {
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        response
    };
    match reply {
        Reply::Json(status, value) => {
            let mut text = value.to_string();
            text.push('\n');
            with_type(status, JSON, ReplyBody::whole(text))
        }
        Reply::Text(status, media_type, text) => with_type(status, media_type, ReplyBody::whole(text)),
        Reply::Asset(media_type, content, policy) => {
            let body = ReplyBody::whole(Bytes::from_static(content));
            let mut response = with_type(StatusCode::OK, media_type, body);
            response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
            response
        }
        Reply::Empty(status) => {
            let mut response = Response::new(ReplyBody::whole(Bytes::new()));
            *response.status_mut() = status;
            response
        }
        Reply::Stream(media_type, pieces) => {
            with_type(StatusCode::OK, media_type, ReplyBody::Stream(StreamBody::new(pieces)))
        }
        Reply::With(fields, reply) => {
            let mut response = respond(*reply);
            let headers = response.headers_mut();
            // Each replaces the field of that name, such as `Cache-Control` of JSON.
            fields.into_iter().for_each(|(name, value)| drop(headers.insert(name, value)));
            response
        }
    }
}

/// Returns the response with a fault.
fn respond_fault(fault: &ApiFault) -> Response<ReplyBody> {
    let mut response = respond(Reply::Json(fault.status, fault.body()));
    let headers = response.headers_mut();
    if let Some(seconds) = fault.retry_after {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    if fault.status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_is_in_one_of_two_headers() {
        let found = |name: HeaderName, value: &'static str| {
            let headers = HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
            secret(&headers).map(|secret| String::from_utf8_lossy(secret).into_owned())
        };
        assert_eq!(found(API_KEY, "abc").as_deref(), Some("abc"));
        assert_eq!(found(AUTHORIZATION, "Bearer abc").as_deref(), Some("abc"));
        assert_eq!(found(AUTHORIZATION, "bearer abc ").as_deref(), Some("abc"));
        assert_eq!(found(AUTHORIZATION, "Basic abc"), None);
        assert_eq!(found(AUTHORIZATION, "Bear"), None);
    }
}
