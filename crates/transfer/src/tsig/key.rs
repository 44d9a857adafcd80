//! Keys and their algorithms.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac;
use wire::text::Base64;
use wire::{LowerName, LowerNameBuf, Name};

use super::FUDGE;

/// The MAC algorithm (RFC 8945 §6). HMAC-MD5 and GSS-TSIG are not supported: a request with them gets BADKEY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TsigAlgorithm {
    /// HMAC-SHA1: 20 bytes.
    HmacSha1,
    /// HMAC-SHA224: 28 bytes.
    HmacSha224,
    /// HMAC-SHA256: 32 bytes.
    HmacSha256,
    /// HMAC-SHA384: 48 bytes.
    HmacSha384,
    /// HMAC-SHA512: 64 bytes.
    HmacSha512,
}

impl TsigAlgorithm {
    /// All of them.
    pub const ALL: [TsigAlgorithm; 5] =
        [Self::HmacSha1, Self::HmacSha224, Self::HmacSha256, Self::HmacSha384, Self::HmacSha512];

    /// Its name in wire form.
    pub fn wire_name(self) -> LowerName<'static> {
        LowerName::of_checked(match self {
            Self::HmacSha1 => b"\x09hmac-sha1\0".as_slice(),
            Self::HmacSha224 => b"\x0bhmac-sha224\0",
            Self::HmacSha256 => b"\x0bhmac-sha256\0",
            Self::HmacSha384 => b"\x0bhmac-sha384\0",
            Self::HmacSha512 => b"\x0bhmac-sha512\0",
        })
    }

    /// Parses a name such as `hmac-sha256`, in any letter case, with or without the final dot.
    pub fn from_text(text: &str) -> Option<TsigAlgorithm> {
        let text = text.strip_suffix('.').unwrap_or(text);
        Self::ALL.into_iter().find(|algorithm| algorithm.text().eq_ignore_ascii_case(text))
    }

    /// Its name as text, without the final dot.
    pub fn text(self) -> &'static str {
        match self {
            Self::HmacSha1 => "hmac-sha1",
            Self::HmacSha224 => "hmac-sha224",
            Self::HmacSha256 => "hmac-sha256",
            Self::HmacSha384 => "hmac-sha384",
            Self::HmacSha512 => "hmac-sha512",
        }
    }

    /// Bytes of a full MAC.
    pub fn mac_len(self) -> usize {
        match self {
            Self::HmacSha1 => 20,
            Self::HmacSha224 => 28,
            Self::HmacSha256 => 32,
            Self::HmacSha384 => 48,
            Self::HmacSha512 => 64,
        }
    }

    /// Fewest bytes of a truncated MAC: 10, and half of the full length (RFC 8945 §5.2.2.1).
    pub fn least_mac_len(self) -> usize {
        (self.mac_len() / 2).max(10)
    }

    fn hmac(self) -> hmac::Algorithm {
        match self {
            Self::HmacSha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Self::HmacSha224 => hmac::HMAC_SHA224,
            Self::HmacSha256 => hmac::HMAC_SHA256,
            Self::HmacSha384 => hmac::HMAC_SHA384,
            Self::HmacSha512 => hmac::HMAC_SHA512,
        }
    }
}

impl fmt::Display for TsigAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// Why a key is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TsigKeyError {
    /// The secret is not base64.
    NotBase64,
    /// The secret is empty.
    NoSecret,
    /// A MAC cannot be truncated to this many bits: more than the algorithm has, fewer than RFC 8945 §5.2.2.1
    /// allows, or not a whole number of bytes.
    Truncation,
}

impl fmt::Display for TsigKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotBase64 => "the secret is not base64",
            Self::NoSecret => "the secret is empty",
            Self::Truncation => "the MAC cannot be cut to this many bits",
        })
    }
}
impl std::error::Error for TsigKeyError {}

/// A shared secret with its name and algorithm. Debug output omits the secret.
#[derive(Clone)]
pub struct TsigKey {
    name: LowerNameBuf,
    algorithm: TsigAlgorithm,
    /// Bytes of the MACs sent, and fewest bytes of those accepted.
    mac_len: usize,
    /// Seconds that the clocks of both sides may differ.
    fudge: u16,
    secret: hmac::Key,
}

impl TsigKey {
    /// Creates a key from a binary secret.
    pub fn new(name: Name<'_>, algorithm: TsigAlgorithm, secret: &[u8]) -> Result<TsigKey, TsigKeyError> {
        if secret.is_empty() {
            return Err(TsigKeyError::NoSecret);
        }
        let secret = hmac::Key::new(algorithm.hmac(), secret);
        Ok(TsigKey { name: name.to_lower(), algorithm, mac_len: algorithm.mac_len(), fudge: FUDGE, secret })
    }

    /// Creates a key from a base64 secret, as in key files and configurations; white space is ignored.
    pub fn from_base64(
        name: Name<'_>,
        algorithm: TsigAlgorithm,
        text: &str,
    ) -> Result<TsigKey, TsigKeyError> {
        let (mut decoder, mut secret) = (Base64::default(), Vec::new());
        for piece in text.split_ascii_whitespace() {
            decoder.feed(piece.as_bytes(), &mut secret).map_err(|_| TsigKeyError::NotBase64)?;
        }
        decoder.finish().map_err(|_| TsigKeyError::NotBase64)?;
        TsigKey::new(name, algorithm, &secret)
    }

    /// Truncates the key's MACs to this many bits, which is also the fewest it accepts: `hmac-sha256-128` in
    /// BIND's notation.
    pub fn truncated_to(self, bits: u16) -> Result<TsigKey, TsigKeyError> {
        let (len, rest) = (bits as usize / 8, bits % 8);
        let allowed = self.algorithm.least_mac_len()..=self.algorithm.mac_len();
        match rest == 0 && allowed.contains(&len) {
            true => Ok(TsigKey { mac_len: len, ..self }),
            false => Err(TsigKeyError::Truncation),
        }
    }

    /// Sets how many seconds the clocks of both sides may differ: as written into messages, and the most that
    /// is accepted, whatever a received message says. [`FUDGE`] unless set.
    pub fn with_fudge(self, fudge: u16) -> TsigKey {
        TsigKey { fudge, ..self }
    }

    /// Its name, in lower case.
    pub fn name(&self) -> LowerName<'_> {
        self.name.as_lower()
    }

    /// Its algorithm.
    pub fn algorithm(&self) -> TsigAlgorithm {
        self.algorithm
    }

    /// Bytes of the MACs that it creates, and the fewest that it accepts.
    pub fn mac_len(&self) -> usize {
        self.mac_len
    }

    /// Seconds that the clocks of both sides may differ.
    pub fn fudge(&self) -> u16 {
        self.fudge
    }

    /// Seconds that a received message with this fudge may be away from the time here: the sender's fudge,
    /// but no more than this side's. Otherwise a sender chooses for how long its message can be repeated.
    pub(super) fn fudge_of(&self, received: u16) -> Duration {
        Duration::from_secs(self.fudge.min(received).into())
    }

    pub(super) fn secret(&self) -> &hmac::Key {
        &self.secret
    }
}

impl fmt::Debug for TsigKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TsigKey({} {})", self.name, self.algorithm)
    }
}

/// Two keys have this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuplicateKey(pub Box<LowerNameBuf>);

impl fmt::Display for DuplicateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "two keys are named {}", self.0)
    }
}
impl std::error::Error for DuplicateKey {}

/// The keys of a server by name. Immutable; lookups do not allocate.
#[derive(Clone, Debug, Default)]
pub struct TsigKeys {
    /// Sorted by the wire form of their names.
    sorted: Box<[Arc<TsigKey>]>,
}

impl TsigKeys {
    /// Creates a set of keys with distinct names.
    pub fn new(keys: impl IntoIterator<Item = TsigKey>) -> Result<TsigKeys, DuplicateKey> {
        let mut sorted: Box<[Arc<TsigKey>]> = keys.into_iter().map(Arc::new).collect();
        sorted.sort_by(|a, b| a.name().as_wire().cmp(b.name().as_wire()));
        match sorted.windows(2).find(|pair| pair[0].name == pair[1].name) {
            Some(pair) => Err(DuplicateKey(pair[0].name.into())),
            None => Ok(TsigKeys { sorted }),
        }
    }

    /// The key with this name.
    pub fn get(&self, name: LowerName<'_>) -> Option<&Arc<TsigKey>> {
        let at = self.sorted.binary_search_by(|key| key.name().as_wire().cmp(name.as_wire())).ok()?;
        self.sorted.get(at)
    }

    /// All keys, in unspecified order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<TsigKey>> {
        self.sorted.iter()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }
}
