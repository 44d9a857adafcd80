//! Key files, in the format of BIND's tools:
//!
//! ```text
//! key "transfer.example" {
//!     algorithm hmac-sha256;
//!     secret "c2VjcmV0IG9mIHRoZSBtYW51YWw=";
//! };
//! ```
//!
//! Quotation marks around names are optional; comments are those of C, C++ and the shell.

use std::fmt;

use wire::NameBuf;

use super::key::{TsigAlgorithm, TsigKey, TsigKeyError};

/// A fault in the text of a key file, and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyFileFault {
    /// Counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
    /// The kind of fault.
    pub kind: KeyFileFaultKind,
}

impl fmt::Display for KeyFileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.kind)
    }
}
impl std::error::Error for KeyFileFault {}

/// Kinds of [`KeyFileFault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFileFaultKind {
    /// Something else is expected here.
    Expected(&'static str),
    /// The text ends in the middle of a key, a comment or a string.
    Unfinished,
    /// The algorithm is unknown.
    UnknownAlgorithm,
    /// The algorithm is insecure or needs more than a secret: HMAC-MD5, GSS-TSIG.
    UnsupportedAlgorithm,
    /// RFC 8945 does not allow truncation to the number of bits after the algorithm.
    BadTruncation,
    /// The name of the key is not a domain name.
    BadName,
    /// The secret is not base64, or empty.
    BadSecret,
    /// A statement occurs twice in one key.
    Repeated(&'static str),
    /// A key lacks this statement.
    Missing(&'static str),
}

impl fmt::Display for KeyFileFaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expected(what) => write!(f, "expected {what}"),
            Self::Unfinished => f.write_str("the file ends in the middle of something"),
            Self::UnknownAlgorithm => f.write_str("unknown algorithm"),
            Self::UnsupportedAlgorithm => f.write_str(
                "this algorithm is not supported; use hmac-sha256 (or hmac-sha1, -sha224, -sha384, -sha512)",
            ),
            Self::BadTruncation => f.write_str("the MAC cannot be cut to this many bits"),
            Self::BadName => f.write_str("not a domain name"),
            Self::BadSecret => f.write_str("the secret is not base64, or empty"),
            Self::Repeated(what) => write!(f, "a second {what} in one key"),
            Self::Missing(what) => write!(f, "this key has no {what}"),
        }
    }
}

/// Parses a file of one or more keys. Accepts several keys with one name;
/// [`TsigKeys::new`](super::TsigKeys::new) rejects them.
pub fn read_keys(text: &str) -> Result<Vec<TsigKey>, KeyFileFault> {
    let mut words = Words { text, at: 0 };
    let mut keys = Vec::new();
    while let Some(word) = words.next()? {
        if !word.is("key") {
            return Err(words.fault(word, KeyFileFaultKind::Expected("`key`")));
        }
        keys.push(read_key(&mut words, word)?);
    }
    match keys.is_empty() {
        true => Err(words.fault(Word { at: text.len(), ..Word::NONE }, KeyFileFaultKind::Expected("`key`"))),
        false => Ok(keys),
    }
}

/// Parses a key after its first word.
fn read_key<'t>(words: &mut Words<'t>, first: Word<'t>) -> Result<TsigKey, KeyFileFault> {
    let name = words.value("a name")?;
    words.sign(b'{', "`{`")?;
    let (mut algorithm, mut secret) = (None, None);
    loop {
        let word = words.some()?;
        let (what, value) = match word {
            _ if word.is("}") => break,
            _ if word.is("algorithm") => ("algorithm", &mut algorithm),
            _ if word.is("secret") => ("secret", &mut secret),
            _ => {
                let kind = KeyFileFaultKind::Expected("`algorithm`, `secret` or `}`");
                return Err(words.fault(word, kind));
            }
        };
        if value.replace(words.value("a value")?).is_some() {
            return Err(words.fault(word, KeyFileFaultKind::Repeated(what)));
        }
        words.sign(b';', "`;`")?;
    }
    words.sign(b';', "`;`")?;
    let missing = |what| words.fault(first, KeyFileFaultKind::Missing(what));
    let algorithm = algorithm.ok_or_else(|| missing("algorithm"))?;
    let secret = secret.ok_or_else(|| missing("secret"))?;
    make_key(words, name, algorithm, secret)
}

fn make_key(
    words: &Words<'_>,
    name: Word<'_>,
    algorithm: Word<'_>,
    secret: Word<'_>,
) -> Result<TsigKey, KeyFileFault> {
    let owner: NameBuf = name.text.parse().map_err(|_| words.fault(name, KeyFileFaultKind::BadName))?;
    let (known, bits) = read_algorithm(algorithm.text).map_err(|kind| words.fault(algorithm, kind))?;
    let key = TsigKey::from_base64(owner.as_name(), known, secret.text).and_then(|key| match bits {
        Some(bits) => key.truncated_to(bits),
        None => Ok(key),
    });
    key.map_err(|error| match error {
        TsigKeyError::Truncation => words.fault(algorithm, KeyFileFaultKind::BadTruncation),
        TsigKeyError::NotBase64 | TsigKeyError::NoSecret => words.fault(secret, KeyFileFaultKind::BadSecret),
    })
}

/// Parses an algorithm, optionally with the number of bits to truncate to: `hmac-sha256-128`.
fn read_algorithm(text: &str) -> Result<(TsigAlgorithm, Option<u16>), KeyFileFaultKind> {
    if let Some(algorithm) = TsigAlgorithm::from_text(text) {
        return Ok((algorithm, None));
    }
    let lower = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    if ["hmac-md5", "gss-tsig"].iter().any(|unsupported| lower.starts_with(unsupported)) {
        return Err(KeyFileFaultKind::UnsupportedAlgorithm);
    }
    let (front, bits) = text.rsplit_once('-').ok_or(KeyFileFaultKind::UnknownAlgorithm)?;
    let algorithm = TsigAlgorithm::from_text(front).ok_or(KeyFileFaultKind::UnknownAlgorithm)?;
    let bits = bits.parse().map_err(|_| KeyFileFaultKind::BadTruncation)?;
    Ok((algorithm, Some(bits)))
}

/// A word, a string without its quotation marks, or one of `{`, `}` and `;`.
#[derive(Clone, Copy)]
struct Word<'t> {
    text: &'t str,
    quoted: bool,
    /// Byte offset in the file.
    at: usize,
}

impl Word<'_> {
    const NONE: Word<'static> = Word { text: "", quoted: false, at: 0 };

    /// Whether this is the keyword or sign `text`.
    fn is(self, text: &str) -> bool {
        !self.quoted && self.text == text
    }
}

/// The words of a file.
struct Words<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Words<'t> {
    /// Returns the next word; `None` at the end.
    fn next(&mut self) -> Result<Option<Word<'t>>, KeyFileFault> {
        self.skip()?;
        let (rest, at) = (self.rest(), self.at);
        let Some(&first) = rest.as_bytes().first() else { return Ok(None) };
        let len = match first {
            b'{' | b'}' | b';' => 1,
            b'"' => {
                let inside = &rest[1..];
                let len = inside.find(['"', '\n']).filter(|&end| inside.as_bytes()[end] == b'"');
                let len = len.ok_or_else(|| self.fault_at(at, KeyFileFaultKind::Unfinished))?;
                self.at += len + 2;
                return Ok(Some(Word { text: &inside[..len], quoted: true, at }));
            }
            _ => rest.find(|c: char| c.is_whitespace() || "{};\"#".contains(c)).unwrap_or(rest.len()).max(1),
        };
        self.at += len;
        Ok(Some(Word { text: &rest[..len], quoted: false, at }))
    }

    /// Returns the next word, or a fault at the end.
    fn some(&mut self) -> Result<Word<'t>, KeyFileFault> {
        self.next()?.ok_or_else(|| self.fault_at(self.text.len(), KeyFileFaultKind::Unfinished))
    }

    /// Returns the next word, which must be a value.
    fn value(&mut self, what: &'static str) -> Result<Word<'t>, KeyFileFault> {
        let word = self.some()?;
        match !word.quoted && ["{", "}", ";"].contains(&word.text) {
            true => Err(self.fault(word, KeyFileFaultKind::Expected(what))),
            false => Ok(word),
        }
    }

    /// Checks that the next word is `sign`.
    fn sign(&mut self, sign: u8, what: &'static str) -> Result<(), KeyFileFault> {
        let word = self.some()?;
        match !word.quoted && word.text.as_bytes() == [sign] {
            true => Ok(()),
            false => Err(self.fault(word, KeyFileFaultKind::Expected(what))),
        }
    }

    /// Skips white space and comments.
    fn skip(&mut self) -> Result<(), KeyFileFault> {
        loop {
            let rest = self.rest().trim_start();
            self.at = self.text.len() - rest.len();
            if rest.starts_with('#') || rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if let Some(comment) = rest.strip_prefix("/*") {
                let end = comment.find("*/");
                let end = end.ok_or_else(|| self.fault_at(self.at, KeyFileFaultKind::Unfinished))?;
                self.at += end + 4;
            } else {
                return Ok(());
            }
        }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn fault(&self, word: Word<'_>, kind: KeyFileFaultKind) -> KeyFileFault {
        self.fault_at(word.at, kind)
    }

    fn fault_at(&self, at: usize, kind: KeyFileFaultKind) -> KeyFileFault {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        let line = 1 + before.bytes().filter(|&byte| byte == b'\n').count();
        KeyFileFault { line, column: 1 + before[line_start..].chars().count(), kind }
    }
}
