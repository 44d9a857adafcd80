//! Why there is no certificate, with the texts that operators see.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use instant_acme::{Error, Problem};
use wording::reason;

/// Most characters of a text of the CA that are shown.
const MAX_TEXT: usize = 500;

/// Why the CA has not issued a certificate.
#[derive(Debug)]
pub struct AcmeFault {
    /// The text for the operator.
    pub message: String,
    /// How long the CA asks to wait.
    pub retry_after: Option<Duration>,
    /// The CA does not have the account, any more.
    pub(crate) lost_account: bool,
}

impl AcmeFault {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        AcmeFault { message: message.into(), retry_after: None, lost_account: false }
    }

    /// The fault of a step of the protocol.
    pub(crate) fn of(doing: &str, error: &Error) -> Self {
        let lost_account = matches!(error, Error::Api(problem) if is_lost_account(problem));
        let message = match error {
            Error::Api(problem) => format!("{doing}: the CA replied: {}", problem_text(problem)),
            Error::Other(cause) => format!("{doing}: {cause}"),
            Error::Json(_) => format!("{doing}: the response is not that of an ACME server"),
            Error::Timeout(_) => format!("{doing}: the CA has not finished in time"),
            Error::Str(text) => format!("{doing}: {text}"),
            other => format!("{doing}: {other}"),
        };
        AcmeFault { message, retry_after: None, lost_account }
    }
}

impl fmt::Display for AcmeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
impl std::error::Error for AcmeFault {}

fn is_lost_account(problem: &Problem) -> bool {
    problem.r#type.as_deref() == Some("urn:ietf:params:acme:error:accountDoesNotExist")
}

/// Returns the text of a problem document (RFC 7807), and of those inside (RFC 8555 §6.7.1).
pub(crate) fn problem_text(problem: &Problem) -> String {
    let kind = |kind: &Option<String>| {
        let kind = kind.as_deref().unwrap_or_default();
        kind.strip_prefix("urn:ietf:params:acme:error:").unwrap_or(kind).to_owned()
    };
    let mut text = problem.detail.clone().unwrap_or_else(|| "an error".to_owned());
    text += &format!(" ({})", kind(&problem.r#type));
    for inner in &problem.subproblems {
        let detail = inner.detail.as_deref().unwrap_or("an error");
        text += &format!("; {detail} ({})", kind(&inner.r#type));
    }
    // The CA chooses it.
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_TEXT).collect()
}

/// Why what is stored cannot be read or written.
#[derive(Debug)]
pub enum AcmeStoreFault {
    /// The file cannot be read.
    Read(PathBuf, io::Error),
    /// The file cannot be written.
    Write(PathBuf, io::Error),
    /// The contents of the file are not those that this program writes.
    Foreign(PathBuf),
}

impl fmt::Display for AcmeStoreFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path, error) => write!(f, "cannot read {}: {}", path.display(), reason(error)),
            Self::Write(path, error) => write!(f, "cannot write {}: {}", path.display(), reason(error)),
            Self::Foreign(path) => {
                write!(f, "{} is damaged, or not of this version of nomen", path.display())
            }
        }
    }
}
impl std::error::Error for AcmeStoreFault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_document_is_shown_on_one_line_with_its_parts() {
        let text = r#"{"type": "urn:ietf:params:acme:error:rejectedIdentifier", "detail": "Two\nlines",
            "subproblems": [{"type": "urn:ietf:params:acme:error:dns", "detail": "no address"}]}"#;
        let problem: Problem = serde_json::from_str(text).expect("JSON");
        assert_eq!(problem_text(&problem), "Two lines (rejectedIdentifier); no address (dns)");
        let fault = AcmeFault::of("the order", &Error::Api(problem));
        assert!(fault.message.starts_with("the order: the CA replied: Two lines") && !fault.lost_account);
        let long = Problem { detail: Some("x".repeat(2000)), ..serde_json::from_str("{}").expect("JSON") };
        assert_eq!(problem_text(&long).len(), MAX_TEXT);
    }
}
