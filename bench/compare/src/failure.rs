//! The only error type of the benchmark: a message for the user. Callers decide what to do: they skip a row
//! with a message, or stop the run.

use std::fmt;
use std::io;

/// An error message, outermost context first.
#[derive(Debug)]
pub(crate) struct Failure(String);

/// Result type of this crate.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// Creates a failure with this message.
    pub(crate) fn new(message: impl Into<String>) -> Failure {
        Failure(message.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure(error.to_string())
    }
}

/// Adds context to an error.
pub(crate) trait Context<T> {
    /// Turns the error into a `Failure` that begins with `what()`.
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: fmt::Display> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Failure(format!("{}: {error}", what())))
    }
}

impl<T> Context<T> for Option<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.ok_or_else(|| Failure(what()))
    }
}
