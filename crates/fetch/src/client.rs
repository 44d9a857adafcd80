//! One request for a document: redirects, conditions, limits of size and time, decompression.

use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, ETAG, HOST, HeaderMap, HeaderName, HeaderValue,
    IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, LOCATION, USER_AGENT,
};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;
use tokio::time::timeout;
use url::{Position, Url};

use crate::connection::{HostAddresses, connect};
use crate::fault::FetchFault;

/// Most redirects that are followed.
pub const MAX_REDIRECTS: usize = 5;
/// Most bytes of the head of a response.
pub(crate) const MAX_HEAD: usize = 64 * 1024;
/// Most bytes of an entity tag or a date that is kept.
const MAX_VALIDATOR: usize = 1024;
/// The first bytes of compressed data (RFC 1952 §2.3.1).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// What identifies a version of a document, as its server says (RFC 9110 §8.8).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validators {
    /// The entity tag.
    pub etag: Option<String>,
    /// The time of the last change.
    pub last_modified: Option<String>,
}

/// A document to fetch.
#[derive(Debug, Clone, Copy)]
pub struct FetchRequest<'r> {
    /// Its URL, of the scheme `https` or `http`.
    pub url: &'r Url,
    /// The version that the caller has; without validators if it has none.
    pub version: &'r Validators,
    /// Most bytes, compressed and decompressed.
    pub max_size: usize,
    /// Longest time of the whole transfer.
    pub timeout: Duration,
    /// PEM file of the CA certificates to trust, in place of those of the system.
    pub ca_file: Option<&'r Path>,
}

/// What a server replied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetched {
    /// The version that the caller has is the newest.
    NotModified,
    /// This version.
    Document {
        /// Its text, decompressed.
        text: Vec<u8>,
        /// What identifies it.
        validators: Validators,
    },
}

/// Fetches a document.
///
/// # Errors
/// [`FetchFault`].
pub async fn fetch(request: &FetchRequest<'_>, hosts: &impl HostAddresses) -> Result<Fetched, FetchFault> {
    let all = follow(request, hosts);
    timeout(request.timeout, all).await.unwrap_or(Err(FetchFault::Timeout(request.timeout)))
}

/// Requests the document, and follows redirects.
async fn follow(request: &FetchRequest<'_>, hosts: &impl HostAddresses) -> Result<Fetched, FetchFault> {
    let mut url = request.url.clone();
    for _ in 0..=MAX_REDIRECTS {
        let mut connection = Exchange::open(&url, request, hosts).await?;
        let response = connection.request(&url, request.version).await?;
        if !is_redirect(response.status()) {
            return document(response, request).await;
        }
        url = target(&url, response.headers())?;
    }
    Err(FetchFault::Redirects(MAX_REDIRECTS))
}

fn is_redirect(status: StatusCode) -> bool {
    use StatusCode as S;
    [S::MOVED_PERMANENTLY, S::FOUND, S::SEE_OTHER, S::TEMPORARY_REDIRECT, S::PERMANENT_REDIRECT]
        .contains(&status)
}

/// Returns the URL that a redirect leads to.
fn target(from: &Url, headers: &HeaderMap) -> Result<Url, FetchFault> {
    let text = headers.get(LOCATION).map(HeaderValue::as_bytes).unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    let bad = || FetchFault::BadRedirect(text.chars().filter(|c| !c.is_control()).take(200).collect());
    let to = from.join(&text).map_err(|_| bad())?;
    match (from.scheme(), to.scheme()) {
        _ if text.is_empty() => Err(bad()),
        (_, "https") | ("http", "http") => Ok(to),
        ("https", "http") => Err(FetchFault::Downgrade(Box::new(to))),
        _ => Err(bad()),
    }
}

/// A connection that one request uses. It ends when this is dropped.
struct Exchange {
    sender: http1::SendRequest<Empty<Bytes>>,
    _driver: JoinSet<()>,
}

impl Exchange {
    async fn open(
        url: &Url,
        request: &FetchRequest<'_>,
        hosts: &impl HostAddresses,
    ) -> Result<Self, FetchFault> {
        let stream = connect(url, request.ca_file, hosts).await?;
        let mut builder = http1::Builder::new();
        let handshake = builder.max_buf_size(MAX_HEAD).handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(FetchFault::Http)?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            // The request reports the fault.
            let _ = connection.await;
        });
        Ok(Exchange { sender, _driver: driver })
    }

    async fn request(&mut self, url: &Url, version: &Validators) -> Result<Response<Incoming>, FetchFault> {
        let mut request = Request::new(Empty::new());
        let uri = url[Position::BeforePath..Position::AfterQuery].parse();
        *request.uri_mut() = uri.map_err(|_| FetchFault::Setup(format!("{url} has no path")))?;
        let headers = request.headers_mut();
        let host = &url[Position::BeforeHost..Position::AfterPort];
        let agent = concat!("nomen/", env!("CARGO_PKG_VERSION"));
        let conditions = [(IF_NONE_MATCH, &version.etag), (IF_MODIFIED_SINCE, &version.last_modified)];
        let conditions = conditions.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
        let fixed = [(HOST, host), (USER_AGENT, agent), (ACCEPT_ENCODING, "gzip"), (CONNECTION, "close")];
        for (name, value) in fixed.into_iter().chain(conditions) {
            // A value that is not allowed in a header cannot be one that a server sent.
            headers.extend(HeaderValue::from_str(value).ok().map(|value| (name, value)));
        }
        self.sender.send_request(request).await.map_err(FetchFault::Http)
    }
}

/// Reads the document in a response.
async fn document(response: Response<Incoming>, request: &FetchRequest<'_>) -> Result<Fetched, FetchFault> {
    let (head, mut body) = response.into_parts();
    let most = request.max_size;
    match head.status {
        StatusCode::OK => {}
        StatusCode::NOT_MODIFIED if *request.version == Validators::default() => {
            return Err(FetchFault::NotAsked);
        }
        StatusCode::NOT_MODIFIED => return Ok(Fetched::NotModified),
        status => return Err(FetchFault::Status(status)),
    }
    let encoding = head.headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes).unwrap_or(b"identity");
    let encoding = String::from_utf8_lossy(encoding).trim().to_ascii_lowercase();
    if !["identity", "", "gzip", "x-gzip"].contains(&encoding.as_str()) {
        return Err(FetchFault::Encoding(encoding));
    }
    if body.size_hint().lower() > most as u64 {
        return Err(FetchFault::TooLarge(most));
    }
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(FetchFault::Http)?;
        let data = frame.data_ref().map(Bytes::as_ref).unwrap_or_default();
        if bytes.len() + data.len() > most {
            return Err(FetchFault::TooLarge(most));
        }
        bytes.extend_from_slice(data);
    }
    // Some servers have compressed files, and send them as files of another type.
    let text = match encoding.ends_with("gzip") || bytes.starts_with(&GZIP_MAGIC) {
        true => decompressed(&bytes, most)?,
        false => bytes,
    };
    let [etag, last_modified] = [ETAG, LAST_MODIFIED].map(|name| validator(&head.headers, &name));
    Ok(Fetched::Document { text, validators: Validators { etag, last_modified } })
}

/// Decompresses a text of at most `most` bytes.
fn decompressed(bytes: &[u8], most: usize) -> Result<Vec<u8>, FetchFault> {
    let mut text = Vec::new();
    let mut decoder = MultiGzDecoder::new(bytes).take(most as u64 + 1);
    match decoder.read_to_end(&mut text) {
        Ok(_) if text.len() > most => Err(FetchFault::TooLarge(most)),
        Ok(_) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err(FetchFault::Gzip(io::Error::other("it is truncated")))
        }
        Err(error) => Err(FetchFault::Gzip(error)),
    }
}

fn validator(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let text = headers.get(name)?.to_str().ok()?;
    (!text.is_empty() && text.len() <= MAX_VALIDATOR).then(|| text.to_owned())
}
