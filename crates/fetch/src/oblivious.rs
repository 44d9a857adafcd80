//! Oblivious DoH (RFC 9230) as its clients do it: the configurations of a target, and queries that go to it,
//! through a proxy or directly.

use std::fmt;

use hyper::body::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tls::{OBLIVIOUS_CONFIGS, OBLIVIOUS_MESSAGE, ObliviousConfig, ObliviousConfigsFault, ObliviousFault};
use url::Url;

use crate::connection::HostAddresses;
use crate::exchange::{ExchangeOptions, exchange};
use crate::fault::FetchFault;

/// The end of a URI template of a proxy (RFC 9230 §4.1).
const TEMPLATE: &str = "{?targethost,targetpath}";

/// A target of Oblivious DoH, and the proxy that queries to it go through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObliviousRoute {
    target: Url,
    /// Where queries are sent: the proxy, or else the target.
    to: Url,
}

/// What is wrong with the URLs of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObliviousRouteFault {
    /// It is not a URL that begins with `https://`.
    NoUrl(String),
    /// A target's URL has a query, which a proxy does not pass on.
    Query(String),
}

impl fmt::Display for ObliviousRouteFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoUrl(text) => write!(f, "`{text}` is not a URL such as https://dns.example.net/dns-query"),
            Self::Query(text) => write!(f, "`{text}` has a `?`, which the URL of a target has not"),
        }
    }
}
impl std::error::Error for ObliviousRouteFault {}

impl ObliviousRoute {
    /// Returns the route to the URL of a target through a proxy, or directly.
    ///
    /// # Errors
    /// [`ObliviousRouteFault`].
    pub fn new(target: &str, proxy: Option<&str>) -> Result<Self, ObliviousRouteFault> {
        let https = |text: &str| {
            let url = Url::parse(text).ok().filter(|url| url.scheme() == "https" && url.has_host());
            url.ok_or_else(|| ObliviousRouteFault::NoUrl(text.to_owned()))
        };
        let parsed = https(target)?;
        if parsed.query().is_some() {
            return Err(ObliviousRouteFault::Query(target.to_owned()));
        }
        let Some(proxy) = proxy else { return Ok(ObliviousRoute { to: parsed.clone(), target: parsed }) };
        let mut to = https(proxy.strip_suffix(TEMPLATE).unwrap_or(proxy))?;
        let host = parsed.host_str().unwrap_or_default();
        let host = parsed.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        to.query_pairs_mut().append_pair("targethost", &host).append_pair("targetpath", parsed.path());
        Ok(ObliviousRoute { target: parsed, to })
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub enum ObliviousExchangeFault {
    /// The configurations were not fetched.
    NoConfigs(FetchFault),
    /// The target has no configurations: this status came in their place.
    ConfigsStatus(StatusCode),
    /// The configurations cannot be used.
    Configs(ObliviousConfigsFault),
    /// The query cannot be encrypted.
    Query(ObliviousFault),
    /// The query was not exchanged.
    Fetch(FetchFault),
    /// The target does not have the key, although its configurations do.
    UnknownKey,
    /// The proxy or the target answered with this status.
    Status(StatusCode),
    /// The body of the response is of another type.
    MediaType,
    /// The response cannot be decrypted.
    Response(ObliviousFault),
}

impl fmt::Display for ObliviousExchangeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoConfigs(fault) => write!(f, "no configurations of Oblivious DoH: {fault}"),
            Self::ConfigsStatus(status) => {
                write!(f, "the target has no configurations at {OBLIVIOUS_CONFIGS}: status {status}")
            }
            Self::Configs(fault) => write!(f, "the target's configurations cannot be used: {fault}"),
            Self::Query(fault) => write!(f, "the query cannot be sent: {fault}"),
            Self::Fetch(fault) => fault.fmt(f),
            Self::UnknownKey => f.write_str("the target does not have the key of its configurations"),
            Self::Status(status) => write!(f, "the proxy or the target refuses the query: status {status}"),
            Self::MediaType => write!(f, "the response is not of the type {OBLIVIOUS_MESSAGE}"),
            Self::Response(fault) => write!(f, "the response cannot be decrypted: {fault}"),
        }
    }
}
impl std::error::Error for ObliviousExchangeFault {}

/// Fetches the configurations of a target, from itself. Returns the first that can be used.
///
/// # Errors
/// [`ObliviousExchangeFault`].
pub async fn oblivious_config(
    route: &ObliviousRoute,
    options: ExchangeOptions<'_>,
    hosts: &impl HostAddresses,
) -> Result<ObliviousConfig, ObliviousExchangeFault> {
    let mut url = route.target.clone();
    url.set_path(OBLIVIOUS_CONFIGS);
    let request = request(Method::GET, &url, Bytes::new()).map_err(ObliviousExchangeFault::NoConfigs)?;
    let response = exchange(request, options, hosts).await.map_err(ObliviousExchangeFault::NoConfigs)?;
    match response.status() {
        StatusCode::OK => ObliviousConfig::first(response.body()).map_err(ObliviousExchangeFault::Configs),
        status => Err(ObliviousExchangeFault::ConfigsStatus(status)),
    }
}

/// Sends a DNS message to a target whose configuration is known. Returns the answer.
///
/// # Errors
/// [`ObliviousExchangeFault`]; with [`ObliviousExchangeFault::UnknownKey`] a newer configuration is needed.
pub async fn oblivious_exchange(
    route: &ObliviousRoute,
    config: &ObliviousConfig,
    query: &[u8],
    options: ExchangeOptions<'_>,
    hosts: &impl HostAddresses,
) -> Result<Vec<u8>, ObliviousExchangeFault> {
    let (message, opener) = config.seal(query).map_err(ObliviousExchangeFault::Query)?;
    let request = request(Method::POST, &route.to, message.into()).map_err(ObliviousExchangeFault::Fetch)?;
    let response = exchange(request, options, hosts).await.map_err(ObliviousExchangeFault::Fetch)?;
    match response.status() {
        StatusCode::OK if !is_oblivious(&response) => Err(ObliviousExchangeFault::MediaType),
        StatusCode::OK => opener.open(response.body()).map_err(ObliviousExchangeFault::Response),
        StatusCode::UNAUTHORIZED => Err(ObliviousExchangeFault::UnknownKey),
        status => Err(ObliviousExchangeFault::Status(status)),
    }
}

/// Returns a request for this URL.
fn request(method: Method, url: &Url, body: Bytes) -> Result<Request<Bytes>, FetchFault> {
    let mut request = Request::new(body);
    let uri = url.as_str().parse();
    *request.uri_mut() = uri.map_err(|_| FetchFault::Setup(format!("{url} cannot be requested")))?;
    if method == Method::POST {
        let kind = HeaderValue::from_static(OBLIVIOUS_MESSAGE);
        request.headers_mut().insert(ACCEPT, kind.clone());
        request.headers_mut().insert(CONTENT_TYPE, kind);
    }
    *request.method_mut() = method;
    Ok(request)
}

fn is_oblivious(response: &Response<Bytes>) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(OBLIVIOUS_MESSAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_a_proxy_has_host_and_path_of_the_target() {
        let to = |target: &str, proxy| ObliviousRoute::new(target, proxy).map(|route| route.to.to_string());
        let target = "https://dns.example.net/dns-query";
        assert_eq!(to(target, None).as_deref(), Ok(target));
        let proxied = "https://proxy.example/p?targethost=dns.example.net&targetpath=%2Fdns-query";
        assert_eq!(to(target, Some("https://proxy.example/p")).as_deref(), Ok(proxied));
        let template = "https://proxy.example/p{?targethost,targetpath}";
        assert_eq!(to(target, Some(template)).as_deref(), Ok(proxied));
        assert_eq!(
            to("https://[2001:db8::1]:8443/a", Some("https://proxy.example/?key=1")).as_deref(),
            Ok("https://proxy.example/?key=1&targethost=%5B2001%3Adb8%3A%3A1%5D%3A8443&targetpath=%2Fa")
        );
        for (target, proxy) in [("http://a/b", None), ("a", None), ("https://a/b", Some("ftp://p"))] {
            assert!(matches!(to(target, proxy), Err(ObliviousRouteFault::NoUrl(_))), "{target}");
        }
        assert!(matches!(to("https://a/b?c", None), Err(ObliviousRouteFault::Query(_))));
    }
}
