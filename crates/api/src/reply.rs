//! Replies to requests, and faults with their HTTP status.

use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

pub(crate) use self::ApiReply as Reply;

/// A reply.
#[derive(Debug)]
pub enum ApiReply {
    /// JSON.
    Json(StatusCode, Value),
    /// Text with its media type.
    Text(StatusCode, &'static str, String),
    /// A file of the web page: its media type, its contents and its `Content-Security-Policy`.
    Asset(&'static str, &'static [u8], &'static str),
    /// No body.
    Empty(StatusCode),
    /// A body of unknown length with its media type and status 200, in pieces; the channel closes at its end.
    Stream(&'static str, mpsc::Receiver<Bytes>),
    /// A reply with further header fields.
    With(Vec<(HeaderName, HeaderValue)>, Box<Reply>),
}

impl Reply {
    /// Returns JSON with status 200.
    pub fn ok(value: Value) -> Reply {
        Reply::Json(StatusCode::OK, value)
    }

    /// Returns its status.
    pub fn status(&self) -> StatusCode {
        match self {
            Reply::Json(status, _) | Reply::Text(status, ..) | Reply::Empty(status) => *status,
            Reply::Asset(..) | Reply::Stream(..) => StatusCode::OK,
            Reply::With(_, reply) => reply.status(),
        }
    }

    /// Adds a header field.
    #[must_use]
    pub fn with(self, name: HeaderName, value: HeaderValue) -> Reply {
        match self {
            Reply::With(mut fields, reply) => {
                fields.push((name, value));
                Reply::With(fields, reply)
            }
            reply => Reply::With(vec![(name, value)], Box::new(reply)),
        }
    }
}

/// Why a request is not executed, or only in part.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiFault {
    /// The HTTP status.
    pub status: StatusCode,
    /// The reason, for `error` in the body.
    pub message: String,
    /// Further members of the body, such as `field`.
    pub members: Map<String, Value>,
    /// Seconds after which the request may be repeated, for `Retry-After`.
    pub retry_after: Option<u64>,
}

impl ApiFault {
    /// Returns a fault.
    pub fn new(status: StatusCode, message: impl Into<String>) -> ApiFault {
        ApiFault { status, message: message.into(), members: Map::new(), retry_after: None }
    }

    /// Returns the fault of a request that is malformed (400).
    pub fn bad_request(message: impl Into<String>) -> ApiFault {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// Returns the fault of a request for something that does not exist (404).
    pub fn not_found(message: impl Into<String>) -> ApiFault {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    /// Returns the fault of a token without the right for a request (403).
    pub fn forbidden(message: impl Into<String>) -> ApiFault {
        Self::new(StatusCode::FORBIDDEN, message)
    }

    /// Returns the fault of a client that sends too many requests (429), with the seconds after which it may
    /// send the next.
    pub fn too_many(message: impl Into<String>, seconds: u64) -> ApiFault {
        let retry_after = Some(seconds);
        ApiFault { retry_after, ..Self::new(StatusCode::TOO_MANY_REQUESTS, message) }
    }

    /// Names the field of the body or the parameter that is at fault.
    #[must_use]
    pub fn field(self, field: impl Into<String>) -> ApiFault {
        self.member("field", Value::String(field.into()))
    }

    /// Adds a member to the body.
    #[must_use]
    pub fn member(mut self, name: &str, value: Value) -> ApiFault {
        self.members.insert(name.to_owned(), value);
        self
    }

    /// Returns the body: `{"error": …}` with the further members.
    pub fn body(&self) -> Value {
        let mut body = self.members.clone();
        body.insert("error".to_owned(), Value::String(self.message.clone()));
        Value::Object(body)
    }
}
