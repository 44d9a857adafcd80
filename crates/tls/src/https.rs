//! DNS over HTTPS to other servers (RFC 8484), by HTTP/2 over TLS, without sockets.
//!
//! Each query is a POST request with a stream of its own. Only a response with the status 200 and the type
//! `application/dns-message` is one; redirections are not followed. `http2` has the connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::response::Parts;
use http::{HeaderMap, Method, Request, StatusCode, Uri, Version};
use rustls::{ClientConnection, Error};
use transport::{Encryption, EncryptionFault, StreamedEvent, StreamedSession, Transport};

use crate::client::{ClientSettings, ServerIdentity, Verifier, client_config, connection};
use crate::http2::{H2, HttpConnection, HttpEvent, HttpTag};
use crate::url::HttpsUrl;

/// The type of a DNS message (RFC 8484 §6).
const DNS_MESSAGE: &str = "application/dns-message";
/// Bytes of a DNS message, at least and at most.
const HEADER_BYTES: usize = 12;
const MESSAGE_BYTES: usize = 65_535;

/// Returns the encryption of connections to a server over HTTPS that serves DNS at `url`.
///
/// # Errors
/// The authorities are of no use to the verifier.
pub fn over_https(identity: &ServerIdentity, url: &HttpsUrl) -> Result<Encryption, Error> {
    let (verifier, name) = Verifier::new(identity)?;
    let config = Arc::new(client_config(Arc::new(verifier), &ClientSettings::default(), H2)?);
    let described = format!("{} at {url}", identity.described());
    let shown = match identity.to_string() {
        // The identity is in the URL.
        identity if identity == url.host() => url.to_string(),
        identity => format!("{url}, {identity}"),
    };
    let url = url.uri().clone();
    let begin = move |to: SocketAddr, _: Instant| {
        let tls = connection(&config, name.as_ref(), to)?;
        Ok(Box::new(HttpsSession::new(tls, url.clone())) as Box<dyn StreamedSession>)
    };
    Ok(Encryption::streamed(Transport::Https, described, shown, begin))
}

/// A query in flight.
struct DnsRequest {
    /// The ID of the query.
    id: u16,
}

impl HttpTag for DnsRequest {
    fn head_fault(&self, head: &Parts) -> Option<EncryptionFault> {
        let is_message = || is_of_type(&head.headers, DNS_MESSAGE);
        status_fault(head.status).or_else(|| (!is_message()).then_some(EncryptionFault::HttpType))
    }

    fn body_limit(&self) -> (usize, EncryptionFault) {
        (MESSAGE_BYTES, EncryptionFault::HttpLength)
    }
}

/// One connection's session.
struct HttpsSession {
    http: HttpConnection<DnsRequest>,
    url: Uri,
}

impl HttpsSession {
    fn new(tls: ClientConnection, url: Uri) -> Self {
        HttpsSession { http: HttpConnection::new(tls), url }
    }
}

/// Returns a POST request with a body of this type and length.
pub(crate) fn post(url: &Uri, of_type: &'static str, len: usize) -> Request<()> {
    let mut request = Request::new(());
    *request.method_mut() = Method::POST;
    *request.uri_mut() = url.clone();
    *request.version_mut() = Version::HTTP_2;
    let headers = request.headers_mut();
    headers.insert(ACCEPT, HeaderValue::from_static(of_type));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(of_type));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(len));
    request
}

/// Whether a response is of this type. A type may have parameters.
pub(crate) fn is_of_type(headers: &HeaderMap, wanted: &str) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = value.and_then(|value| value.split(';').next()).map(str::trim);
    essence.is_some_and(|essence| essence.eq_ignore_ascii_case(wanted))
}

/// Returns why a response with this status has no message; `None` for 200.
pub(crate) fn status_fault(status: StatusCode) -> Option<EncryptionFault> {
    match status.as_u16() {
        200 => None,
        300..400 => Some(EncryptionFault::HttpRedirect),
        401 | 403 | 407 => Some(EncryptionFault::HttpForbidden),
        404 | 410 => Some(EncryptionFault::HttpNotFound),
        429 => Some(EncryptionFault::HttpTooMany),
        400..500 => Some(EncryptionFault::HttpRefused),
        500..600 => Some(EncryptionFault::HttpServer),
        _ => Some(EncryptionFault::HttpStatus),
    }
}

/// Returns the ID of a query, and the query with the ID 0; `None` if it is shorter than an ID.
pub(crate) fn without_id(query: &[u8]) -> Option<(u16, Vec<u8>)> {
    let (&id, rest) = query.split_first_chunk::<2>()?;
    let mut message = vec![0; 2];
    message.extend_from_slice(rest);
    Some((u16::from_be_bytes(id), message))
}

/// Returns the event of a response to the query with this ID.
pub(crate) fn responded(id: u16, mut message: Vec<u8>) -> StreamedEvent {
    if message.len() < HEADER_BYTES {
        return StreamedEvent::Failed { id, fault: Some(EncryptionFault::HttpLength) };
    }
    message[..2].copy_from_slice(&id.to_be_bytes());
    StreamedEvent::Response(message)
}

impl StreamedSession for HttpsSession {
    fn send(&mut self, query: &[u8], _: Instant) {
        let Some((id, message)) = without_id(query) else { return };
        let message = Bytes::from(message);
        self.http.send(DnsRequest { id }, post(&self.url, DNS_MESSAGE, message.len()), message);
    }

    fn cancel(&mut self, id: u16, _: Instant) {
        self.http.cancel(|request| request.id == id);
    }

    fn receive(&mut self, received: &[u8], _: Instant) {
        self.http.receive(received);
    }

    fn event(&mut self) -> Option<StreamedEvent> {
        self.http.event().map(|event| match event {
            HttpEvent::Established { resumed } => StreamedEvent::Established { resumed },
            HttpEvent::Response(DnsRequest { id }, _, message) => responded(id, message),
            HttpEvent::Failed(DnsRequest { id }, fault) => StreamedEvent::Failed { id, fault },
            HttpEvent::Draining => StreamedEvent::Draining,
            HttpEvent::Ended(error) => StreamedEvent::Ended(error),
            HttpEvent::Insecure(fault) => StreamedEvent::Insecure(fault),
        })
    }

    fn output(&mut self, bytes: &mut Vec<u8>, _: Instant) -> bool {
        self.http.output(bytes)
    }

    fn deadline(&mut self) -> Option<Instant> {
        None
    }

    fn timeout(&mut self, _: Instant) {}

    fn close(&mut self, _: Instant) {
        self.http.close();
    }
}
