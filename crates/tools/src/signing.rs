//! Signing the messages of the tools (TSIG, RFC 8945): the key of a command line, and the verification of
//! answers.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use transfer::tsig::{
    ResponseError, ResponseVerifier, TsigAlgorithm, TsigKey, TsigKeyError, TsigRcode, find, read_keys,
    sign_request,
};
use transport::unix_now;
use wire::message::{Full, MAX_MESSAGE};
use wire::name::NameTextError;
use wire::{Name, NameBuf, Rcode, UnixTime};

use crate::args::KeyArgs;
use config::exit_status::{EXIT_FAULTS, EXIT_OUTSIDE, EXIT_USAGE};
use message::print;
use wording::reason;

/// Why the command line has no usable key.
#[derive(Debug)]
pub enum KeyFault {
    /// It is not `[ALGORITHM:]NAME:SECRET`.
    Form,
    /// The algorithm is unknown or no longer safe.
    Algorithm(String),
    /// The name is not a domain name.
    Name(String, NameTextError),
    /// The secret is invalid.
    Secret(TsigKeyError),
    /// The file cannot be read.
    Unreadable(PathBuf, io::Error),
    /// The file is not a key file: the place and the fault.
    File(PathBuf, String),
    /// The file has this many keys, and none was selected.
    Several(PathBuf, usize),
    /// The file has no key of this name.
    NotThere(PathBuf, String),
}

impl KeyFault {
    /// The program's exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Form | Self::Algorithm(_) | Self::Name(..) | Self::Secret(_) => EXIT_USAGE,
            Self::Unreadable(..) => EXIT_OUTSIDE,
            Self::File(..) | Self::Several(..) | Self::NotThere(..) => EXIT_FAULTS,
        }
    }
}

impl fmt::Display for KeyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form => f.write_str(
                "--key: NAME:SECRET or ALGORITHM:NAME:SECRET is expected, or NAME beside --key-file",
            ),
            Self::Algorithm(text) => {
                write!(f, "--key: `{text}` is no algorithm that is known; try hmac-sha256")
            }
            Self::Name(text, fault) => write!(f, "--key: `{text}` is not a domain name: {fault}"),
            Self::Secret(fault) => write!(f, "--key: {fault}"),
            Self::Unreadable(path, e) => write!(f, "cannot read {}: {}", path.display(), reason(e)),
            Self::File(path, fault) => write!(f, "{}:{fault}", path.display()),
            Self::Several(path, count) => {
                write!(f, "{} has {count} keys; --key NAME says which is meant", path.display())
            }
            Self::NotThere(path, name) => write!(f, "{} has no key {name}", path.display()),
        }
    }
}
impl std::error::Error for KeyFault {}

/// Returns the key of the command line; `None` if it has none.
///
/// # Errors
/// [`KeyFault`].
pub fn key(args: &KeyArgs) -> Result<Option<Arc<TsigKey>>, KeyFault> {
    let key = match (&args.key, &args.key_file) {
        (None, None) => return Ok(None),
        (Some(text), None) => key_of_text(text)?,
        (name, Some(path)) => key_of_file(name.as_deref(), path)?,
    };
    Ok(Some(Arc::new(key)))
}

/// Parses `[ALGORITHM:]NAME:SECRET`, as in dig and nsupdate.
fn key_of_text(text: &str) -> Result<TsigKey, KeyFault> {
    let (front, secret) = text.rsplit_once(':').ok_or(KeyFault::Form)?;
    let (algorithm, name) = match front.split_once(':') {
        Some((algorithm, name)) => {
            let known = TsigAlgorithm::from_text(algorithm);
            (known.ok_or_else(|| KeyFault::Algorithm(algorithm.to_owned()))?, name)
        }
        None => (TsigAlgorithm::HmacSha256, front),
    };
    TsigKey::from_base64(name_of(name)?.as_name(), algorithm, secret).map_err(KeyFault::Secret)
}

/// Reads the key of this name in a file; without a name, its only key.
fn key_of_file(name: Option<&str>, path: &Path) -> Result<TsigKey, KeyFault> {
    let name = match name {
        Some(text) if text.contains(':') => return Err(KeyFault::Form),
        Some(text) => Some(name_of(text)?),
        None => None,
    };
    let text = fs::read_to_string(path).map_err(|e| KeyFault::Unreadable(path.to_owned(), e))?;
    let keys = read_keys(&text).map_err(|fault| KeyFault::File(path.to_owned(), fault.to_string()))?;
    let Some(name) = name else {
        let only = <[TsigKey; 1]>::try_from(keys).map(|[key]| key);
        return only.map_err(|keys| KeyFault::Several(path.to_owned(), keys.len()));
    };
    let lower = name.as_name().to_lower();
    let found = keys.into_iter().find(|key| key.name() == lower.as_lower());
    found.ok_or_else(|| KeyFault::NotThere(path.to_owned(), name.to_string()))
}

fn name_of(text: &str) -> Result<NameBuf, KeyFault> {
    NameBuf::from_text(text.as_bytes(), Some(Name::ROOT))
        .map_err(|fault| KeyFault::Name(text.to_owned(), fault))
}

/// Signs a message, if there is a key, and returns the verifier of the answer.
///
/// # Errors
/// If there is no room for the signature; the message is then unchanged.
pub fn sign(key: Option<&Arc<TsigKey>>, message: &mut Vec<u8>) -> Result<Option<ResponseVerifier>, Full> {
    let Some(key) = key else { return Ok(None) };
    let len = message.len();
    message.resize(MAX_MESSAGE, 0);
    let signed = sign_request(key, message, len, unix_now());
    message.truncate(signed.as_ref().map_or(len, |(end, _)| *end));
    signed.map(|(_, verifier)| Some(verifier))
}

/// Why an answer to a signed message is not authentic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignatureFault {
    /// It cannot be parsed.
    Malformed,
    /// A required signature is missing. The response code is not authenticated.
    Unsigned(Rcode),
    /// A signature is bad: that of the answer, or in the server's view that of the request.
    Bad {
        /// The fault.
        error: ResponseError,
        /// The local time of the verification.
        now: UnixTime,
    },
}

impl SignatureFault {
    /// Returns whether the server refuses the signature of the request.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Bad { error: ResponseError::Refused { .. }, .. })
    }

    /// The program's exit code.
    pub fn exit_code(&self) -> u8 {
        if self.is_refusal() { EXIT_FAULTS } else { EXIT_OUTSIDE }
    }
}

impl fmt::Display for SignatureFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (error, now) = match self {
            Self::Malformed => return f.write_str("it cannot be read"),
            Self::Unsigned(rcode) => return write!(f, "{rcode}, not signed where it must be"),
            Self::Bad { error, now } => (error, *now),
        };
        match error {
            ResponseError::Refused { error, server_time, .. } => {
                write!(f, "{error}")?;
                match (*error, server_time) {
                    (TsigRcode::BADKEY, _) => f.write_str(", it knows no key of this name and algorithm"),
                    (TsigRcode::BADSIG, _) => f.write_str(", its key of this name has another secret"),
                    (TsigRcode::BADTRUNC, _) => f.write_str(", it takes no MAC that is cut so short"),
                    (_, Some(theirs)) => write!(f, ", {}", Clocks { theirs: *theirs, ours: now }),
                    (_, None) => Ok(()),
                }
            }
            ResponseError::BadTime(theirs) => {
                write!(f, "BADTIME, {}", Clocks { theirs: *theirs, ours: now })
            }
            other => write!(f, "{other}"),
        }
    }
}
impl std::error::Error for SignatureFault {}

/// The times of two clocks that disagree.
struct Clocks {
    theirs: UnixTime,
    ours: UnixTime,
}

impl fmt::Display for Clocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Clocks { theirs, ours } = self;
        let (apart, way) = (ours.abs_diff(*theirs).as_secs(), if ours > theirs { "ahead" } else { "behind" });
        write!(f, "its clock says {theirs} and ours {ours}: ours is {apart} seconds {way}")
    }
}

/// Verifies the next message of an answer. Returns whether it is signed: if not, a later signed message
/// authenticates it.
///
/// # Errors
/// [`SignatureFault`].
pub fn verify(verifier: &mut ResponseVerifier, message: &[u8]) -> Result<bool, SignatureFault> {
    let now = unix_now();
    let tsig_at = find(message).map_err(|_| SignatureFault::Malformed)?;
    verifier.message(message, tsig_at, now).map_err(|error| match error {
        ResponseError::Unsigned => unsigned(message),
        error => SignatureFault::Bad { error, now },
    })?;
    Ok(tsig_at.is_some())
}

/// Verifies an answer of one message.
///
/// # Errors
/// [`SignatureFault`].
pub fn verify_whole(mut verifier: ResponseVerifier, message: &[u8]) -> Result<(), SignatureFault> {
    verify(&mut verifier, message)?;
    end(&verifier, message)
}

/// Checks that an answer may end with this message.
///
/// # Errors
/// [`SignatureFault::Unsigned`].
pub fn end(verifier: &ResponseVerifier, last: &[u8]) -> Result<(), SignatureFault> {
    verifier.end().map_err(|_| unsigned(last))
}

fn unsigned(message: &[u8]) -> SignatureFault {
    print::rcode(message).map_or(SignatureFault::Malformed, SignatureFault::Unsigned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: Option<&str>, file: Option<&Path>) -> Result<Option<Arc<TsigKey>>, KeyFault> {
        key(&KeyArgs { key: text.map(str::to_owned), key_file: file.map(Path::to_owned) })
    }

    #[test]
    fn keys_of_the_command_line_have_two_or_three_parts() {
        let key = key_of_text("k.example:c2VjcmV0").expect("a key");
        assert_eq!(
            (key.name().to_string().as_str(), key.algorithm()),
            ("k.example.", TsigAlgorithm::HmacSha256)
        );
        let key = key_of_text("hmac-sha512:k:c2VjcmV0").expect("a key");
        assert_eq!(key.algorithm(), TsigAlgorithm::HmacSha512);
        assert!(matches!(key_of_text("k"), Err(KeyFault::Form)));
        assert!(
            matches!(key_of_text("hmac-md5:k:c2VjcmV0"), Err(KeyFault::Algorithm(text)) if text == "hmac-md5")
        );
        assert!(matches!(key_of_text("k:?"), Err(KeyFault::Secret(TsigKeyError::NotBase64))));
        assert!(matches!(key_of_text("a..b:c2VjcmV0"), Err(KeyFault::Name(..))));
    }

    #[test]
    fn of_several_keys_in_a_file_the_name_chooses() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("keys");
        let one = |name: &str| format!("key \"{name}\" {{ algorithm hmac-sha256; secret \"c2VjcmV0\"; }};\n");
        fs::write(&path, one("a.example") + &one("b.example")).expect("written");
        assert!(matches!(keys(None, Some(&path)), Err(KeyFault::Several(_, 2))));
        let key = keys(Some("B.example"), Some(&path)).expect("good").expect("a key");
        assert_eq!(key.name().to_string(), "b.example.");
        assert!(
            matches!(keys(Some("c.example"), Some(&path)), Err(KeyFault::NotThere(_, name)) if name == "c.example.")
        );
        assert!(matches!(keys(Some("b.example:c2VjcmV0"), Some(&path)), Err(KeyFault::Form)));
        assert!(matches!(keys(None, Some(&folder.path().join("gone"))), Err(KeyFault::Unreadable(..))));
        assert!(matches!(keys(None, None), Ok(None)));
    }

    #[test]
    fn both_clocks_are_named_where_they_disagree() {
        let refused = |error, server_time| SignatureFault::Bad {
            error: ResponseError::Refused { error, authentic: true, server_time },
            now: UnixTime::from_secs(1_000),
        };
        let fault = refused(TsigRcode::BADTIME, Some(UnixTime::from_secs(4_600)));
        assert_eq!(
            (fault.to_string().as_str(), fault.exit_code()),
            ("BADTIME, its clock says 4600 and ours 1000: ours is 3600 seconds behind", EXIT_FAULTS)
        );
        let fault = SignatureFault::Bad {
            error: ResponseError::BadTime(UnixTime::from_secs(400)),
            now: UnixTime::from_secs(1_000),
        };
        assert_eq!(
            (fault.to_string().as_str(), fault.exit_code()),
            ("BADTIME, its clock says 400 and ours 1000: ours is 600 seconds ahead", EXIT_OUTSIDE)
        );
        assert!(refused(TsigRcode::BADKEY, None).to_string().starts_with("BADKEY, "));
    }
}
