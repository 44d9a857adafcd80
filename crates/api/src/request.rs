//! [`ApiRequest`]: a request as handlers read it, with the token's rights and the note for the audit file.

use std::sync::{Arc, Mutex, PoisonError};

use hyper::body::Bytes;
use hyper::header::HeaderMap;
use hyper::{Method, StatusCode};
use serde::de::DeserializeOwned;
use wire::{Serial, ZoneName};

use crate::reply::ApiFault;
use crate::rights::Caller;

/// A request whose token is valid and whose body has arrived.
#[derive(Debug, Clone)]
pub struct ApiRequest {
    /// The method.
    pub method: Method,
    /// The segments of the whole path, percent-decoded: `/api/v1/servers` is `["api", "v1", "servers"]`. The
    /// empty segment behind a final `/` is left out.
    pub path: Vec<String>,
    /// The parameters of the query string in their order, decoded.
    pub query: Vec<(String, String)>,
    /// The header fields.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The token that the request has.
    pub caller: Caller,
    /// What the request changes, for the audit file.
    pub note: Arc<ChangeNote>,
}

/// What a request changes, for its line in the audit file: filled in by the handler.
#[derive(Debug, Default)]
pub struct ChangeNote(Mutex<NotedChange>);

/// The contents of a [`ChangeNote`].
#[derive(Debug, Clone, Default)]
pub struct NotedChange {
    /// The zone that is changed.
    pub zone: Option<ZoneName>,
    /// Its serial before the change.
    pub before: Option<Serial>,
    /// Its serial after the change.
    pub after: Option<Serial>,
    /// Whether the part of the server that made or refused the change has logged it.
    pub is_logged: bool,
}

impl ChangeNote {
    /// Notes the zone that the request is about.
    pub fn zone(&self, zone: &ZoneName) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).zone = Some(zone.clone());
    }

    /// Notes that the change has been logged.
    pub fn logged(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_logged = true;
    }

    /// Notes the serial before and after the change.
    pub fn serials(&self, before: Option<Serial>, after: Option<Serial>) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (noted.before, noted.after) = (before, after);
    }

    /// Returns what was noted.
    pub fn noted(&self) -> NotedChange {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ApiRequest {
    /// Returns the first value of a parameter of the query string.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns the segments of the path as string slices, to match them.
    pub fn segments(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }

    /// Reads the body as JSON.
    ///
    /// # Errors
    /// Status 400 with the place of the fault: line and column.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, ApiFault> {
        serde_json::from_slice(&self.body)
            .map_err(|fault| ApiFault::new(StatusCode::BAD_REQUEST, format!("the body: {fault}")))
    }
}
