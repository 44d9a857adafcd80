//! `[[api.token]]`: names, hashes, expiry and rights of tokens.

use std::collections::HashMap;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use toml::Spanned;
use toml::de::DeValue;
use wire::UnixTime;
use wording::reason;

use super::grants::ApiGrant;
use crate::report::{ConfigPlace, Diagnostic};
use crate::table::keys;
use crate::table::read::{At, Reader};
use crate::table::value::{Value, quote};

/// Length of a hash in bytes.
const HASH_BYTES: usize = 32;
/// The word before the digits of a hash.
const HASH_WORD: &str = "sha256:";
/// Most characters of a token's name.
const MAX_NAME: usize = 64;
/// Largest file of a hash, in bytes.
const MAX_HASH_FILE: u64 = 4096;
/// The write permissions of a file's group and of all others.
const OTHERS_WRITE: u32 = 0o022;

keys! {
    /// A token of the HTTP API, in any number of blocks. `nomen token NAME` makes one: it prints the secret
    /// once, and the block with its hash.
    pub struct ApiTokenBlock in "[[api.token]]" {
        /// Its name, in log lines and the audit file: letters, digits, `.`, `_` and `-`.
        live "name" name: TokenName, example "octodns";
        /// SHA-256 of the secret, as `nomen token` prints it. Not the secret itself. This or `hash-file` must
        /// be set.
        live "hash" hash: Option<TokenHash> = None,
            example "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        /// File whose only line is the hash. It is read at the start and at each reload.
        live "hash-file" hash_file: Option<HashFile> = None, example "/etc/nomen/tokens/octodns";
        /// Time from which on the token is refused, as a date (from 0:00 UTC) or an RFC 3339 time. Unset: it
        /// does not expire.
        live "expires" expires: Option<Expiry> = None, example "2030-01-01";
        /// What it may do, in any number of rights, each `{ right = …, zones = […], names = […],
        /// types = […] }`.
        /// `right` is "read" (state, zones and their records), "change" (records), "manage" (create and
        /// delete zones; their metadata and keys), "policy" (block lists, policy zones, pauses), "server"
        /// (reload, cache, forwarding, trust anchors, the stream of queries) or "all". `zones` limits it to
        /// zones: `example.com`, `*.example.com` for those below it, with `@VIEW` of a view. `names` and
        /// `types` limit "read" and "change" to records: names as in `zones`, or patterns as in
        /// `update-policy` (`_acme-challenge.*`). "change" and "manage" include reading what they cover.
        live "rights" rights: Vec<At<ApiGrant>>,
            example [{ right = "change", zones = ["example.com"] }];
    }
}

impl ApiTokenBlock {
    /// Returns the hash; `None` if its file was not read.
    pub fn token_hash(&self) -> Option<TokenHash> {
        self.hash.value.or(self.hash_file.value.as_ref().and_then(|file| file.read))
    }
}

/// The name of a token.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TokenName(pub String);

impl FromStr for TokenName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        match (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(fits) {
            true => Ok(TokenName(text.to_owned())),
            false => Err(format!(
                "the name of a token has 1 to {MAX_NAME} characters out of letters, digits, \".\", \"_\" and \"-\""
            )),
        }
    }
}

impl fmt::Display for TokenName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Value for TokenName {
    fn kind() -> String {
        "name".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "a name in quotes", str::parse)
    }
    fn render(&self) -> Option<String> {
        Some(quote(&self.0))
    }
}

/// The SHA-256 hash of a token's secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenHash(pub [u8; HASH_BYTES]);

/// Why a text is no hash of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenHashFault {
    /// It does not begin with `sha256:`.
    Word,
    /// It does not have 64 hexadecimal digits.
    Digits,
}

impl fmt::Display for TokenHashFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Word => {
                "a hash begins with `sha256:`; `nomen token NAME` makes a secret and its hash, and \
                 `printf %s SECRET | sha256sum` the digits for a secret"
            }
            Self::Digits => "a hash is `sha256:` and 64 hexadecimal digits, as `nomen token NAME` prints it",
        })
    }
}

impl std::error::Error for TokenHashFault {}

impl FromStr for TokenHash {
    type Err = TokenHashFault;

    fn from_str(text: &str) -> Result<Self, TokenHashFault> {
        let digits = text.strip_prefix(HASH_WORD).ok_or(TokenHashFault::Word)?.as_bytes();
        if digits.len() != 2 * HASH_BYTES {
            return Err(TokenHashFault::Digits);
        }
        let mut hash = [0; HASH_BYTES];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks(2)) {
            let value = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
            let [high, low] = [0, 1].map(|at| pair.get(at).copied().and_then(value));
            *byte = high.zip(low).map(|(high, low)| high << 4 | low).ok_or(TokenHashFault::Digits)?;
        }
        Ok(TokenHash(hash))
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HASH_WORD)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Value for TokenHash {
    fn kind() -> String {
        "hash `sha256:HEX`".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "a hash such as \"sha256:9f86…\"", str::parse)
    }
    fn render(&self) -> Option<String> {
        Some(quote(&self.to_string()))
    }
}

/// A file with the hash of a token, and what was read from it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HashFile {
    path: PathBuf,
    /// `None` until the file is read.
    read: Option<TokenHash>,
}

impl Value for HashFile {
    fn kind() -> String {
        "path".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        PathBuf::read(node, reader).map(|path| HashFile { path, read: None })
    }
    fn render(&self) -> Option<String> {
        self.path.render()
    }
}

/// Reads the files of hashes. Returns the faults in them.
pub(crate) fn read_files(blocks: &mut [At<ApiTokenBlock>]) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    for block in blocks {
        let place = block.hash_file.place.clone();
        let Some(file) = &mut block.value.hash_file.value else { continue };
        match read_file(&file.path, place.as_ref()) {
            Ok(read) => file.read = Some(read),
            Err(fault) => faults.push(fault),
        }
    }
    faults
}

/// Returns the files of hashes.
pub(crate) fn files(blocks: &[At<ApiTokenBlock>]) -> impl Iterator<Item = PathBuf> {
    blocks.iter().filter_map(|block| Some(block.hash_file.value.as_ref()?.path.clone()))
}

fn read_file(path: &Path, place: Option<&ConfigPlace>) -> Result<TokenHash, Diagnostic> {
    let shown = path.display();
    // Other users who can write the file can replace the token by one of their own.
    if std::fs::metadata(path).is_ok_and(|about| about.mode() & OTHERS_WRITE != 0) {
        let message = format!(
            "the hash file {shown} is not used: users other than its owner may write it; run `chmod go-w`"
        );
        return Err(Diagnostic::at(place, message).outside());
    }
    let text = zone::regular::read_to_string(path, MAX_HASH_FILE)
        .map_err(|e| Diagnostic::at(place, format!("cannot read {shown}: {}", reason(&e))).outside())?;
    let hash = text.trim().parse();
    hash.map_err(|fault: TokenHashFault| Diagnostic::at(place, format!("{shown}:1:1: {fault}")).outside())
}

/// The time from which on a token is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expiry {
    /// The time.
    pub at: UnixTime,
    /// As it is written.
    pub text: String,
}

impl FromStr for Expiry {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let date = text.parse::<Date>().ok().map(|date| date.to_datetime(jiff::civil::Time::midnight()));
        let utc = |time: DateTime| time.to_zoned(TimeZone::UTC).ok().map(|time| time.timestamp());
        let is_date = text.len() == "2030-01-01".len();
        let found = date.filter(|_| is_date).and_then(utc).or_else(|| text.parse::<Timestamp>().ok());
        let seconds = found.and_then(|time| u64::try_from(time.as_second()).ok());
        match seconds {
            Some(seconds) => Ok(Expiry { at: UnixTime::from_secs(seconds), text: text.to_owned() }),
            None => {
                Err(format!("`{text}` is no time; write a date such as 2030-01-01, or 2030-01-01T12:00:00Z"))
            }
        }
    }
}

impl Value for Expiry {
    fn kind() -> String {
        "date or time".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        if let DeValue::Datetime(written) = node.get_ref() {
            return written.to_string().parse().map_err(|fault: String| reader.bad_value(node, fault)).ok();
        }
        reader.text(node, "a date such as \"2030-01-01\"", str::parse)
    }
    fn render(&self) -> Option<String> {
        Some(quote(&self.text))
    }
}

/// Reports tokens with one name or one hash, without a hash or with two, and keys of rights that have no
/// effect.
pub(super) fn check(blocks: &[At<ApiTokenBlock>], faults: &mut Vec<Diagnostic>) {
    let mut names: HashMap<&str, &At<TokenName>> = HashMap::new();
    let mut hashes: HashMap<TokenHash, &At<Option<TokenHash>>> = HashMap::new();
    for block in blocks {
        if let Some(first) = names.insert(&block.name.0, &block.name) {
            let message = format!("token `{}` is defined twice", block.name.value);
            let fault = Diagnostic::at(block.name.place.as_ref(), message);
            faults.push(fault.also(first.place.as_ref(), "first here"));
        }
        if let Some(hash) = block.hash.value
            && let Some(first) = hashes.insert(hash, &block.hash)
        {
            let message = "another token has the same hash: the requests of both would be those of one";
            let fault = Diagnostic::at(block.hash.place.as_ref(), message);
            faults.push(fault.also(first.place.as_ref(), "first here"));
        }
        match (block.hash.is_some(), block.hash_file.is_some()) {
            (true, true) => {
                let message = "`hash` and `hash-file` exclude each other";
                let fault = Diagnostic::at(block.hash_file.place.as_ref(), message);
                faults.push(fault.also(block.hash.place.as_ref(), "the other one"));
            }
            (false, false) => {
                let message = "[[api.token]] needs the key `hash` or `hash-file`";
                let hint = format!("`nomen token {}` makes a secret and its hash", block.name.value);
                faults.push(Diagnostic::at(block.place.as_ref(), message).hint(hint));
            }
            _ => {}
        }
        block.rights.iter().for_each(|grant| grant.value.check(faults));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expiry_is_a_date_in_utc_or_a_time() {
        let at = |text: &str| text.parse::<Expiry>().map(|expiry| expiry.at.as_secs()).ok();
        assert_eq!(at("2030-01-01"), Some(1_893_456_000));
        assert_eq!(at("2030-01-01T00:00:01Z"), Some(1_893_456_001));
        assert_eq!(at("2030-01-01T01:00:00+01:00"), Some(1_893_456_000));
        for bad in ["", "2030", "2030-13-01", "soon", "2030-01-01 ", "1969-01-01"] {
            assert_eq!(at(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_hash_is_read_as_it_is_written() {
        let text = format!("sha256:{}", "0aF9".repeat(16));
        let hash: TokenHash = text.parse().expect("a hash");
        assert_eq!(hash.to_string(), text.to_ascii_lowercase());
        for bad in ["", "sha256:", "nomen_AmrtDzaKZlz34ssbblsu41xZxUNPVYpx", &text[..70], &format!("{text}0")]
        {
            assert!(bad.parse::<TokenHash>().is_err(), "{bad}");
        }
        assert!(format!("sha256:{}", "+1".repeat(32)).parse::<TokenHash>().is_err());
    }

    #[test]
    fn a_hash_file_that_others_may_write_is_not_used() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("hash");
        std::fs::write(&path, format!("sha256:{}\n", "ab".repeat(32))).expect("written");
        for (mode, is_used) in [(0o600, true), (0o644, true), (0o664, false), (0o602, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("changed");
            assert_eq!(read_file(&path, None).is_ok(), is_used, "{mode:o}");
        }
    }
}
