//! Refusals of this API: an HTTP status and one or more messages, in the JSON form of PowerDNS.

use std::fmt;

use hyper::StatusCode;

use crate::documents::DocumentFault;
use crate::reply::ApiFault;

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    /// The HTTP status.
    pub(super) status: StatusCode,
    /// The main message.
    pub(super) error: String,
    /// All messages, if there is more than one.
    pub(super) errors: Vec<String>,
}

impl Refused {
    /// Returns the refusal of a request whose content cannot be executed.
    pub(super) fn unfit(error: impl Into<String>) -> Refused {
        Refused::new(StatusCode::UNPROCESSABLE_ENTITY, error)
    }

    /// Returns a refusal with one message.
    pub(super) fn new(status: StatusCode, error: impl Into<String>) -> Refused {
        Refused { status, error: error.into(), errors: Vec::new() }
    }

    /// Returns the refusal for something that does not exist, or that the caller may not see.
    pub(super) fn not_found() -> Refused {
        Refused::new(StatusCode::NOT_FOUND, "Not Found")
    }

    /// Returns the refusal of a change that collides with what exists.
    pub(super) fn conflict() -> Refused {
        Refused::new(StatusCode::CONFLICT, "Conflict")
    }

    /// Returns the refusal of a method that the resource does not have.
    pub(super) fn method() -> Refused {
        Refused::new(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed")
    }

    /// Returns the refusal of a body that is not JSON.
    pub(super) fn bad_request() -> Refused {
        Refused::new(StatusCode::BAD_REQUEST, "Bad Request")
    }

    /// Returns the refusal of a change that only the configuration can make.
    pub(super) fn configured(what: &str, key: &str) -> Refused {
        Refused::unfit(format!("{what} is part of nomen's configuration: edit `{key}` and reload"))
    }

    /// Returns the refusal for a fault of this server.
    pub(super) fn internal(error: impl Into<String>) -> Refused {
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, error)
    }

    /// Returns the refusal of a request whose document is not stored.
    pub(super) fn of_document(fault: &DocumentFault) -> Refused {
        match fault {
            DocumentFault::NoFolder | DocumentFault::TooLarge => Refused::unfit(fault.to_string()),
            DocumentFault::Disk(_) => Refused::internal(fault.to_string()),
        }
    }

    /// Returns the fault, whose body has `error`, and `errors` if there are several.
    pub(super) fn into_fault(self) -> ApiFault {
        let fault = ApiFault::new(self.status, self.error);
        if self.errors.is_empty() { fault } else { fault.member("errors", self.errors.into()) }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.error)
    }
}

impl std::error::Error for Refused {}
