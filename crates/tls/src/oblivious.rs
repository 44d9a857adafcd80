//! Oblivious DoH to a target behind a proxy (RFC 9230), by HTTP/2 over TLS, without sockets.
//!
//! Each query is encrypted to the key of the target and POSTed to the proxy, which passes it on. The key is
//! configured, or a session of its own fetches it from the target: a proxy that passed it on could replace it
//! by its own key and read all queries. `target_key` has the rules about its age, `http2` the connection.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{AGE, CACHE_CONTROL};
use http::response::Parts;
use http::{HeaderMap, Method, Request, StatusCode, Uri, Version};
use rustls::{ClientConnection, Error};
use transport::{Encryption, EncryptionFault, StreamedEvent, StreamedSession, TargetKeyServer, Transport};
use wire::text::write_base64;

use crate::client::{ClientSettings, ServerIdentity, Verifier, client_config, connection};
use crate::http2::{H2, HttpConnection, HttpEvent, HttpTag};
use crate::https::{is_of_type, post, responded, status_fault, without_id};
use crate::odoh::{OBLIVIOUS_MESSAGE, ObliviousConfig, ResponseOpener};
use crate::target_key::{Fetched, KeyUse, TargetKey};
use crate::url::HttpsUrl;

/// Most bytes of a response: the fields of its format, a nonce of 16 bytes, and what is encrypted.
const MAX_RESPONSE: usize = 5 + 16 + 65_535;
/// Most bytes of the configurations of a target; one takes 44.
const MAX_CONFIGS: usize = 8 * 1024;
/// The age that a key is used to if the target does not say it.
const DEFAULT_AGE: Duration = Duration::from_secs(60 * 60);

/// Where the key of a target comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetKeySource {
    /// The configuration has it.
    Configured(ObliviousConfig),
    /// It is fetched from the target, at this address and authenticated so.
    Fetched(SocketAddr, ServerIdentity),
}

/// Returns the encryption of queries to `target` through the proxy at the URL `proxy`, which is authenticated
/// by `identity`.
///
/// # Errors
/// The authorities are of no use to the verifier, or the URL of the proxy cannot have a target.
pub fn over_oblivious_https(
    identity: &ServerIdentity,
    proxy: &HttpsUrl,
    target: &HttpsUrl,
    source: &TargetKeySource,
) -> Result<Encryption, Error> {
    let (verifier, name) = Verifier::new(identity)?;
    let config = Arc::new(client_config(Arc::new(verifier), &ClientSettings::default(), H2)?);
    let url = proxy.to_target(target).map_err(|fault| Error::General(fault.to_string()))?;
    let mut described = format!("{} at {url} with the key ", identity.described());
    let key = Arc::new(match source {
        TargetKeySource::Configured(config) => {
            let _ = write_base64(config.id(), &mut described);
            TargetKey::configured(config.clone())
        }
        TargetKeySource::Fetched(address, identity) => {
            described += &format!("of {address}, {}", identity.described());
            TargetKey::fetched()
        }
    });
    let server = match source {
        TargetKeySource::Configured(_) => None,
        TargetKeySource::Fetched(address, identity) => {
            let encryption = fetching(identity, target, Arc::clone(&key))?;
            Some(TargetKeyServer { address: *address, encryption })
        }
    };
    let by = match identity.to_string() {
        // The identity is in the URL.
        identity if identity == proxy.host() => String::new(),
        identity => format!(", {identity}"),
    };
    let shown = format!("odoh://{}?proxy={proxy}{by}", target.without_scheme());
    let url = url.uri().clone();
    let begin = move |to: SocketAddr, _: Instant| {
        let tls = connection(&config, name.as_ref(), to)?;
        let session = ObliviousSession::new(tls, url.clone(), Arc::clone(&key));
        Ok(Box::new(session) as Box<dyn StreamedSession>)
    };
    Ok(Encryption::oblivious(described, shown, server, begin))
}

/// Returns the encryption of connections that fetch the key of a target from itself.
fn fetching(identity: &ServerIdentity, target: &HttpsUrl, key: Arc<TargetKey>) -> Result<Encryption, Error> {
    let (verifier, name) = Verifier::new(identity)?;
    let config = Arc::new(client_config(Arc::new(verifier), &ClientSettings::default(), H2)?);
    let no_url = || Error::General("the target has no URL for its configurations".into());
    let url = target.configs().ok_or_else(no_url)?;
    let (described, shown) = (format!("{} at {url}", identity.described()), url.to_string());
    let begin = move |to: SocketAddr, _: Instant| {
        let tls = connection(&config, name.as_ref(), to)?;
        Ok(Box::new(FetchSession::new(tls, &url, Arc::clone(&key))) as Box<dyn StreamedSession>)
    };
    Ok(Encryption::streamed(Transport::Https, described, shown, begin))
}

/// A query that is not answered.
struct PendingQuery {
    /// Its ID.
    id: u16,
    /// The message, with the ID 0.
    message: Vec<u8>,
    /// The target has refused the key that it was encrypted to before.
    again: bool,
}

/// A query in flight, and what decrypts its response.
struct ObliviousRequest {
    query: PendingQuery,
    key: Arc<ObliviousConfig>,
    opener: ResponseOpener,
}

impl HttpTag for ObliviousRequest {
    fn head_fault(&self, head: &Parts) -> Option<EncryptionFault> {
        match head.status {
            StatusCode::UNAUTHORIZED => Some(EncryptionFault::ObliviousKey),
            status => status_fault(status).or_else(|| {
                (!is_of_type(&head.headers, OBLIVIOUS_MESSAGE)).then_some(EncryptionFault::ObliviousType)
            }),
        }
    }

    fn body_limit(&self) -> (usize, EncryptionFault) {
        (MAX_RESPONSE, EncryptionFault::HttpLength)
    }
}

/// One connection's session with a proxy.
struct ObliviousSession {
    http: HttpConnection<ObliviousRequest>,
    url: Uri,
    key: Arc<TargetKey>,
    /// Queries that wait for the key.
    waiting: VecDeque<PendingQuery>,
    events: VecDeque<StreamedEvent>,
}

impl ObliviousSession {
    fn new(tls: ClientConnection, url: Uri, key: Arc<TargetKey>) -> Self {
        let (waiting, events) = (VecDeque::new(), VecDeque::new());
        ObliviousSession { http: HttpConnection::new(tls), url, key, waiting, events }
    }

    /// Sends the queries that wait, and handles what the connection reports.
    fn drive(&mut self, now: Instant) {
        loop {
            self.send_waiting(now);
            let Some(event) = self.http.event() else { return };
            let event = match event {
                HttpEvent::Established { resumed } => StreamedEvent::Established { resumed },
                HttpEvent::Response(request, _, body) => self.respond(request, &body),
                HttpEvent::Failed(request, fault) => match self.failed(request, fault) {
                    Some(event) => event,
                    None => continue,
                },
                HttpEvent::Draining => StreamedEvent::Draining,
                HttpEvent::Ended(error) => StreamedEvent::Ended(error),
                HttpEvent::Insecure(fault) => StreamedEvent::Insecure(fault),
            };
            self.events.push_back(event);
        }
    }

    /// Sends the queries that wait for the key, if there is one.
    fn send_waiting(&mut self, now: Instant) {
        while !self.waiting.is_empty() {
            let (key, fetch) = match self.key.next_use(now) {
                KeyUse::Ready { key, fetch } => (Ok(key), fetch),
                KeyUse::Failed(fault) => (Err(fault), false),
                KeyUse::Wait { fetch } => {
                    self.events.extend(fetch.then_some(StreamedEvent::KeyWanted));
                    return;
                }
            };
            self.events.extend(fetch.then_some(StreamedEvent::KeyWanted));
            let Some(query) = self.waiting.pop_front() else { return };
            let id = query.id;
            let sent = key.and_then(|key| self.post(query, key));
            self.events.extend(sent.err().map(|fault| StreamedEvent::Failed { id, fault: Some(fault) }));
        }
    }

    /// Sends a query that is encrypted to this key.
    fn post(&mut self, query: PendingQuery, key: Arc<ObliviousConfig>) -> Result<(), EncryptionFault> {
        let sealed = key.seal(&query.message).map_err(|_| EncryptionFault::ObliviousQuery)?;
        let (message, opener) = (Bytes::from(sealed.0), sealed.1);
        let request = post(&self.url, OBLIVIOUS_MESSAGE, message.len());
        self.http.send(ObliviousRequest { query, key, opener }, request, message);
        Ok(())
    }

    /// Returns the event of a response.
    fn respond(&mut self, request: ObliviousRequest, body: &[u8]) -> StreamedEvent {
        let ObliviousRequest { query, opener, .. } = request;
        match opener.open(body) {
            Ok(message) => {
                self.key.worked();
                responded(query.id, message)
            }
            Err(_) => StreamedEvent::Failed { id: query.id, fault: Some(EncryptionFault::ObliviousResponse) },
        }
    }

    /// Handles a query without a response. Returns its event, or `None` if it is sent again with another key.
    fn failed(&mut self, request: ObliviousRequest, fault: Option<EncryptionFault>) -> Option<StreamedEvent> {
        let ObliviousRequest { query, key, .. } = request;
        let is_refused = fault == Some(EncryptionFault::ObliviousKey);
        if is_refused && self.key.refuse(&key) && !query.again {
            self.waiting.push_front(PendingQuery { again: true, ..query });
            return None;
        }
        Some(StreamedEvent::Failed { id: query.id, fault })
    }
}

impl StreamedSession for ObliviousSession {
    fn send(&mut self, query: &[u8], now: Instant) {
        let Some((id, message)) = without_id(query) else { return };
        self.waiting.push_back(PendingQuery { id, message, again: false });
        self.drive(now);
    }

    fn cancel(&mut self, id: u16, now: Instant) {
        self.waiting.retain(|query| query.id != id);
        self.http.cancel(|request| request.query.id == id);
        self.drive(now);
    }

    fn receive(&mut self, received: &[u8], now: Instant) {
        self.http.receive(received);
        self.drive(now);
    }

    fn event(&mut self) -> Option<StreamedEvent> {
        self.events.pop_front()
    }

    fn output(&mut self, bytes: &mut Vec<u8>, _: Instant) -> bool {
        self.http.output(bytes)
    }

    fn deadline(&mut self) -> Option<Instant> {
        if self.waiting.is_empty() { None } else { self.key.wait_ends() }
    }

    fn timeout(&mut self, now: Instant) {
        self.drive(now);
    }

    fn resume(&mut self, now: Instant) {
        self.key.end_fetch(now);
        self.drive(now);
    }

    fn close(&mut self, _: Instant) {
        self.waiting.clear();
        self.http.close();
    }
}

/// The request for the configurations of a target.
struct ConfigsRequest;

impl HttpTag for ConfigsRequest {
    fn head_fault(&self, head: &Parts) -> Option<EncryptionFault> {
        (head.status != StatusCode::OK).then_some(EncryptionFault::ObliviousNoConfigs)
    }

    fn body_limit(&self) -> (usize, EncryptionFault) {
        (MAX_CONFIGS, EncryptionFault::ObliviousConfigs)
    }
}

/// One connection's session with a target, which fetches its key.
struct FetchSession {
    http: HttpConnection<ConfigsRequest>,
    key: Arc<TargetKey>,
    /// The end of the fetch is recorded.
    settled: bool,
    events: VecDeque<StreamedEvent>,
}

impl FetchSession {
    fn new(tls: ClientConnection, url: &Uri, key: Arc<TargetKey>) -> Self {
        let mut request = Request::new(());
        *request.method_mut() = Method::GET;
        *request.uri_mut() = url.clone();
        *request.version_mut() = Version::HTTP_2;
        let mut http = HttpConnection::new(tls);
        http.send(ConfigsRequest, request, Bytes::new());
        FetchSession { http, key, settled: false, events: VecDeque::new() }
    }

    fn settle(&mut self, fetched: Fetched, now: Instant) {
        if !std::mem::replace(&mut self.settled, true) {
            self.key.settle(fetched, now);
        }
    }

    fn drive(&mut self, now: Instant) {
        while let Some(event) = self.http.event() {
            let (fetched, event) = match event {
                HttpEvent::Established { resumed } => {
                    self.events.push_back(StreamedEvent::Established { resumed });
                    continue;
                }
                HttpEvent::Response(_, headers, body) => match ObliviousConfig::first(&body) {
                    Ok(config) => (Ok((config, max_age(&headers))), StreamedEvent::Response(Vec::new())),
                    Err(_) => not_fetched(Some(EncryptionFault::ObliviousConfigs)),
                },
                HttpEvent::Failed(_, fault) => not_fetched(fault),
                HttpEvent::Draining => continue,
                HttpEvent::Ended(error) => {
                    (Err(EncryptionFault::ObliviousTarget), StreamedEvent::Ended(error))
                }
                HttpEvent::Insecure(fault) => {
                    (Err(EncryptionFault::ObliviousTarget), StreamedEvent::Insecure(fault))
                }
            };
            self.settle(fetched, now);
            self.events.push_back(event);
        }
    }
}

/// Returns the outcome and the event of a request without configurations.
fn not_fetched(fault: Option<EncryptionFault>) -> (Fetched, StreamedEvent) {
    let fault = fault.unwrap_or(EncryptionFault::ObliviousTarget);
    (Err(fault), StreamedEvent::Failed { id: 0, fault: Some(fault) })
}

/// Returns for how long a response may be used (RFC 9111 §4.2).
fn max_age(headers: &HeaderMap) -> Duration {
    let values = headers.get_all(CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    let mut age = None;
    for directive in values.flat_map(|value| value.split(',')).map(str::trim) {
        let lower = directive.to_ascii_lowercase();
        if matches!(lower.as_str(), "no-store" | "no-cache") {
            return Duration::ZERO;
        }
        let seconds = lower.strip_prefix("max-age=").map(|seconds| seconds.trim_matches('"'));
        age = age.or(seconds.and_then(|seconds| seconds.parse().ok()));
    }
    let old = headers.get(AGE).and_then(|value| value.to_str().ok()).and_then(|value| value.parse().ok());
    let old = Duration::from_secs(old.unwrap_or_default());
    age.map_or(DEFAULT_AGE, Duration::from_secs).saturating_sub(old)
}

impl StreamedSession for FetchSession {
    fn send(&mut self, _: &[u8], _: Instant) {}

    fn cancel(&mut self, _: u16, _: Instant) {}

    fn receive(&mut self, received: &[u8], now: Instant) {
        self.http.receive(received);
        self.drive(now);
    }

    fn event(&mut self) -> Option<StreamedEvent> {
        self.events.pop_front()
    }

    fn output(&mut self, bytes: &mut Vec<u8>, _: Instant) -> bool {
        self.http.output(bytes)
    }

    fn deadline(&mut self) -> Option<Instant> {
        None
    }

    fn timeout(&mut self, _: Instant) {}

    /// A connection that is closed before its end was refused, or has taken too long.
    fn close(&mut self, now: Instant) {
        self.settle(Err(EncryptionFault::ObliviousTarget), now);
        self.http.close();
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_key_is_used_as_long_as_its_target_says() {
        let of = |control: &[&str], age: Option<&str>| {
            let mut headers = HeaderMap::new();
            for value in control {
                headers.append(CACHE_CONTROL, HeaderValue::from_str(value).expect("a value"));
            }
            headers.extend(age.map(|age| (AGE, HeaderValue::from_str(age).expect("a value"))));
            max_age(&headers).as_secs()
        };
        assert_eq!(of(&[], None), 3600);
        assert_eq!(of(&["max-age=600"], None), 600);
        assert_eq!(of(&["public, Max-Age=\"600\"", "max-age=5"], Some("100")), 500);
        assert_eq!(of(&["max-age=600"], Some("601")), 0);
        assert_eq!(of(&["max-age=600, no-cache"], None), 0);
        assert_eq!(of(&["max-age=many"], Some("-1")), 3600);
    }
}
