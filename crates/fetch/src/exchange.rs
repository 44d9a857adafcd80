//! One HTTP request with any method and body, and the whole response: for protocols over HTTPS. Follows no
//! redirect.

use std::path::Path;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, HeaderValue};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;
use tokio::time::timeout;
use url::{Position, Url};

use crate::client::MAX_HEAD;
use crate::connection::{HostAddresses, connect};
use crate::fault::FetchFault;

/// Limits of an exchange, and how the server is verified.
#[derive(Debug, Clone, Copy)]
pub struct ExchangeOptions<'o> {
    /// Most bytes of the body of the response.
    pub max_size: usize,
    /// Longest time of the whole exchange.
    pub timeout: Duration,
    /// PEM file of the CA certificates to trust, in place of those of the system.
    pub ca_file: Option<&'o Path>,
}

/// Sends a request to its URL on a connection of its own, and returns the response, whatever its status is.
///
/// # Errors
/// [`FetchFault`].
pub async fn exchange(
    request: Request<Bytes>,
    options: ExchangeOptions<'_>,
    hosts: &impl HostAddresses,
) -> Result<Response<Bytes>, FetchFault> {
    let whole = complete(request, options, hosts);
    timeout(options.timeout, whole).await.unwrap_or(Err(FetchFault::Timeout(options.timeout)))
}

async fn complete(
    request: Request<Bytes>,
    options: ExchangeOptions<'_>,
    hosts: &impl HostAddresses,
) -> Result<Response<Bytes>, FetchFault> {
    let mut request = request.map(Full::new);
    let url = Url::parse(&request.uri().to_string()).map_err(|fault| FetchFault::Setup(fault.to_string()))?;
    let path = url[Position::BeforePath..Position::AfterQuery].parse();
    *request.uri_mut() = path.map_err(|_| FetchFault::Setup(format!("{url} has no path")))?;
    let host = HeaderValue::from_str(&url[Position::BeforeHost..Position::AfterPort]);
    let host = host.map_err(|_| FetchFault::Setup(format!("{url} has no server")))?;
    request.headers_mut().insert(HOST, host);
    request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    let stream = connect(&url, options.ca_file, hosts).await?;
    let mut builder = http1::Builder::new();
    let handshake = builder.max_buf_size(MAX_HEAD).handshake(TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.map_err(FetchFault::Http)?;
    // Ends the connection when it is dropped.
    let mut driver = JoinSet::new();
    driver.spawn(async move {
        // The request reports the fault.
        let _ = connection.await;
    });
    let (head, mut body) = sender.send_request(request).await.map_err(FetchFault::Http)?.into_parts();
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(FetchFault::Http)?;
        let data = frame.data_ref().map(Bytes::as_ref).unwrap_or_default();
        if bytes.len() + data.len() > options.max_size {
            return Err(FetchFault::TooLarge(options.max_size));
        }
        bytes.extend_from_slice(data);
    }
    Ok(Response::from_parts(head, bytes.into()))
}
