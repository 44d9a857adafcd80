//! HTTP requests to a CA: each on a connection of its own, verified with the CA certificates of the
//! configuration or of the system.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use fetch::{ExchangeOptions, HostAddresses, exchange};
use http_body_util::{BodyExt, Full};
use hyper::header::{HeaderMap, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{Request, Response};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};

/// Most bytes of a response.
const MAX_RESPONSE: usize = 256 * 1024;
/// Longest time of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the CA asked to wait in its last response that was an error.
pub(crate) type RetryAfter = Arc<Mutex<Option<Duration>>>;

/// The client of a CA.
pub(crate) struct AcmeClient<H> {
    pub(crate) hosts: Arc<H>,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) retry_after: RetryAfter,
}

impl<H: HostAddresses + Send + Sync + 'static> HttpClient for AcmeClient<H> {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let (hosts, ca_file) = (Arc::clone(&self.hosts), self.ca_file.clone());
        let retry_after = Arc::clone(&self.retry_after);
        Box::pin(async move {
            let (mut head, body) = request.into_parts();
            let body = match body.collect().await {
                Ok(body) => body.to_bytes(),
                Err(never) => match never {},
            };
            let agent = concat!("nomen/", env!("CARGO_PKG_VERSION"));
            head.headers.insert(USER_AGENT, HeaderValue::from_static(agent));
            let options = ExchangeOptions {
                max_size: MAX_RESPONSE,
                timeout: REQUEST_TIMEOUT,
                ca_file: ca_file.as_deref(),
            };
            let sent = exchange(Request::from_parts(head, body), options, &*hosts).await;
            let response = sent.map_err(|fault| Error::Other(Box::new(fault)))?;
            if response.status().is_client_error() || response.status().is_server_error() {
                let wait = asked_wait(response.headers(), SystemTime::now());
                *retry_after.lock().unwrap_or_else(PoisonError::into_inner) = wait;
            }
            Ok(BytesResponse::from(Response::map(response, Full::new)))
        })
    }
}

/// Returns how long a response asks to wait (RFC 9110 §10.2.3).
fn asked_wait(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    httpdate::parse_http_date(text).ok()?.duration_since(now).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_a_number_of_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        for (text, expected) in [
            ("120", Some(120)),
            // 784111777 s after 1970 is Sun, 06 Nov 1994 08:49:37 GMT (RFC 9110 §5.6.7).
            ("Sun, 06 Nov 1994 08:50:07 GMT", Some(30)),
            ("Sun, 06 Nov 1994 08:49:07 GMT", None),
            ("soon", None),
            ("", None),
        ] {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(text))]);
            assert_eq!(asked_wait(&headers, now), expected.map(Duration::from_secs), "{text}");
        }
        assert_eq!(asked_wait(&HeaderMap::new(), now), None);
    }
}
