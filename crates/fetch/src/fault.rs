//! Why there is no document, with the texts that operators see.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use hyper::StatusCode;
use tls::{AuthoritiesFault, failure_text};
use url::Url;
use wording::reason;

/// Why a document was not fetched.
#[derive(Debug)]
pub enum FetchFault {
    /// The name of the server has no address, for this reason.
    Host(String, String),
    /// No connection to the server; this attempt was the last.
    Connect(SocketAddr, io::Error),
    /// No connection within this time.
    ConnectTimeout(Duration),
    /// TLS failed, or the server's certificate is not valid.
    Tls(io::Error),
    /// There are no CA certificates.
    Authorities(AuthoritiesFault),
    /// TLS is not possible with this name or these settings.
    Setup(String),
    /// The transfer took longer than this.
    Timeout(Duration),
    /// The server sent something other than a valid HTTP response, or closed the connection.
    Http(hyper::Error),
    /// The server did not reply with a document.
    Status(StatusCode),
    /// More redirects than this, of which no more are followed.
    Redirects(usize),
    /// A redirect without a usable URL.
    BadRedirect(String),
    /// A redirect from HTTPS to this URL, which is not HTTPS.
    Downgrade(Box<Url>),
    /// The document has more bytes than this.
    TooLarge(usize),
    /// The document is compressed in a way that was not asked for.
    Encoding(String),
    /// The compressed document is damaged or truncated.
    Gzip(io::Error),
    /// "Not modified", although no version was named.
    NotAsked,
}

impl fmt::Display for FetchFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(name, why) => write!(f, "the address of {name} cannot be resolved: {why}"),
            Self::Connect(address, error) => write!(f, "no connection to {address}: {}", reason(error)),
            Self::ConnectTimeout(time) => write!(f, "no connection within {} s", time.as_secs()),
            Self::Tls(error) => write!(f, "TLS with the server failed: {}", failure_text(error)),
            Self::Authorities(fault) => fault.fmt(f),
            Self::Setup(why) => write!(f, "TLS is not possible: {why}"),
            Self::Timeout(time) => write!(f, "the transfer took longer than {} s", time.as_secs_f64()),
            Self::Http(error) => write!(f, "the transfer failed: {}", innermost(error)),
            Self::Status(status) => write!(f, "the server replied {status}"),
            Self::Redirects(most) => write!(f, "more than {most} redirects"),
            Self::BadRedirect(to) => {
                write!(f, "a redirect to `{to}`, which is not a URL that can be fetched")
            }
            Self::Downgrade(to) => write!(f, "a redirect from HTTPS to {to}, which is not secure"),
            Self::TooLarge(most) => write!(f, "larger than the limit of {most} bytes"),
            Self::Encoding(encoding) => write!(f, "the server compressed it with `{encoding}`, not gzip"),
            Self::Gzip(error) => write!(f, "the compressed text cannot be read: {}", reason(error)),
            Self::NotAsked => {
                f.write_str("the server replied 304 Not Modified to a request without a version")
            }
        }
    }
}
impl std::error::Error for FetchFault {}

/// Returns the text of the first cause of an error.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.downcast_ref::<io::Error>().map_or_else(|| error.to_string(), failure_text)
}
