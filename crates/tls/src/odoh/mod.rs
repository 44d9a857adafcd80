//! Oblivious DNS over HTTPS (RFC 9230), without HTTP: a target's keys, which decrypt queries and encrypt
//! responses, and the same for a client. `message` has the formats, `hpke` the encryption to a public key.

mod hpke;
mod message;

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use aws_lc_rs::agreement::PrivateKey;
use aws_lc_rs::rand;
use wire::text::{Base64, write_base64};

use crate::files::{RandomKeyFault, RandomKeys, is_random, read_keys};
use hpke::{CryptoFault, ENCAPSULATED, HASH, HpkeContext, KEY, SEED, TAG};
use message::{BadFormat, Direction, Message};

/// The media type of messages.
pub const OBLIVIOUS_MESSAGE: &str = "application/oblivious-dns-message";
/// Where a target has its configurations. RFC 9230 leaves the place open; clients in use take this one.
pub const OBLIVIOUS_CONFIGS: &str = "/.well-known/odohconfigs";

/// The purposes of what is derived (RFC 9230 §6.2).
const INFO_QUERY: &[u8] = b"odoh query";
const INFO_KEY_ID: &[u8] = b"odoh key id";
const INFO_RESPONSE: &[u8] = b"odoh response";
const INFO_KEY: &[u8] = b"odoh key";
const INFO_NONCE: &[u8] = b"odoh nonce";
/// Length of the nonce of a response: the longer of key and nonce of the AEAD.
const RESPONSE_NONCE: usize = 16;
/// The lengths that queries and responses are padded to (RFC 8467 §4.1).
const QUERY_BLOCK: usize = 128;
const RESPONSE_BLOCK: usize = 468;
/// Most bytes that an encrypted part may have.
const MAX_ENCRYPTED: usize = u16::MAX as usize;

/// Why a message cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObliviousFault {
    /// The query is encrypted to another key than those of the target.
    UnknownKey,
    /// It does not have the format, or it was not encrypted with the key, or changed since.
    Malformed,
    /// The DNS message is too long to be encrypted.
    TooLong,
    /// The system has no random numbers.
    Random,
}

impl fmt::Display for ObliviousFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownKey => "it is encrypted to another key",
            Self::Malformed => "it is malformed, or encrypted with another key",
            Self::TooLong => "it is too long for Oblivious DoH",
            Self::Random => "the system has no random numbers",
        })
    }
}
impl std::error::Error for ObliviousFault {}

impl From<BadFormat> for ObliviousFault {
    fn from(BadFormat: BadFormat) -> Self {
        Self::Malformed
    }
}

impl From<CryptoFault> for ObliviousFault {
    fn from(CryptoFault: CryptoFault) -> Self {
        Self::Malformed
    }
}

/// A random seed of a target's key pair. All servers with the same seed have the same key pair.
#[derive(Clone, PartialEq, Eq)]
pub struct ObliviousSeed([u8; SEED]);

impl fmt::Debug for ObliviousSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ObliviousSeed")
    }
}

impl ObliviousSeed {
    /// Returns a new seed.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn random() -> Result<Self, ObliviousFault> {
        random().map(ObliviousSeed)
    }

    /// Returns the seed with these bytes; `None` if they are all equal, as in a file that was made but not
    /// filled.
    pub fn new(bytes: [u8; SEED]) -> Option<Self> {
        is_random(&bytes).then_some(ObliviousSeed(bytes))
    }

    /// Returns its bytes, which are secret.
    pub fn secret_bytes(&self) -> &[u8; SEED] {
        &self.0
    }
}

/// The seeds in one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObliviousSeeds {
    /// The seeds, at least one.
    pub seeds: Vec<ObliviousSeed>,
    /// Whether users other than the owner and the group of the file may read it.
    pub is_public: bool,
}

impl ObliviousSeeds {
    /// Reads a file of seeds, each of 32 random bytes.
    ///
    /// # Errors
    /// What is wrong, with the file.
    pub fn read(path: &Path) -> Result<Self, RandomKeyFault> {
        let RandomKeys { keys, is_public } = read_keys::<SEED>(path, "Oblivious DoH")?;
        Ok(ObliviousSeeds { seeds: keys.into_iter().map(ObliviousSeed).collect(), is_public })
    }
}

/// A key pair of a target.
struct TargetKey {
    private: PrivateKey,
    public: [u8; ENCAPSULATED],
    id: [u8; HASH],
}

/// Returns the identifier of a public key (RFC 9230 §6.2).
fn key_id(public: &[u8; ENCAPSULATED]) -> [u8; HASH] {
    hpke::expand(&hpke::extract(b"", &[&message::contents(public)]), &[INFO_KEY_ID])
}

/// The key pairs of a target.
pub struct ObliviousKeys {
    keys: Vec<TargetKey>,
    configs: Vec<u8>,
    max_age: Duration,
}

impl fmt::Debug for ObliviousKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObliviousKeys({})", self.keys.len())
    }
}

impl ObliviousKeys {
    /// Returns the key pairs of these seeds. Clients get the first one, to use for `max_age`; queries to any
    /// are decrypted.
    pub fn new<'s>(seeds: impl IntoIterator<Item = &'s ObliviousSeed>, max_age: Duration) -> Self {
        let of = |seed: &ObliviousSeed| {
            let (private, public) = hpke::key_pair(&hpke::derive_private(&seed.0)).ok()?;
            Some(TargetKey { private, public, id: key_id(&public) })
        };
        // X25519 has no bytes that are not a key.
        let keys: Vec<TargetKey> = seeds.into_iter().filter_map(of).collect();
        let published = keys.first().map(|key| message::contents(&key.public));
        ObliviousKeys { configs: message::configs(published.as_slice()), keys, max_age }
    }

    /// Returns the configurations for clients, which have the public key.
    pub fn configs(&self) -> &[u8] {
        &self.configs
    }

    /// Returns for how long clients may use the configurations.
    pub fn max_age(&self) -> Duration {
        self.max_age
    }

    /// Decrypts a query.
    ///
    /// # Errors
    /// [`ObliviousFault::UnknownKey`], which takes no cryptography, or [`ObliviousFault::Malformed`].
    pub fn open(&self, query: &[u8]) -> Result<OpenedQuery, ObliviousFault> {
        let Message { direction: Direction::Query, key_id, encrypted } = Message::read(query)? else {
            return Err(ObliviousFault::Malformed);
        };
        let key = self.keys.iter().find(|key| key.id == key_id).ok_or(ObliviousFault::UnknownKey)?;
        let (encapsulated, sealed) = encrypted.split_first_chunk().ok_or(ObliviousFault::Malformed)?;
        let additional = message::additional_data(Direction::Query, key_id).ok_or(BadFormat)?;
        let context = HpkeContext::receiver((&key.private, &key.public), encapsulated, INFO_QUERY)?;
        let secret = context.export(INFO_RESPONSE);
        let plain = context.open(&additional, sealed)?;
        let message = message::dns_message(&plain)?.to_vec();
        Ok(OpenedQuery { message, sealer: ResponseSealer(ResponseSecret { secret, plain }) })
    }
}

/// The keys of a target that are in use. They are replaced without a lock.
#[derive(Default)]
pub struct ObliviousKeysInUse(ArcSwapOption<ObliviousKeys>);

impl ObliviousKeysInUse {
    /// Uses these keys from now on; `None`: the target is off.
    pub fn set(&self, keys: Option<ObliviousKeys>) {
        self.0.store(keys.map(Arc::new));
    }

    /// Returns the keys.
    pub fn get(&self) -> Option<Arc<ObliviousKeys>> {
        self.0.load_full()
    }
}

/// A query that was decrypted.
pub struct OpenedQuery {
    /// The DNS message.
    pub message: Vec<u8>,
    /// Encrypts its response.
    pub sealer: ResponseSealer,
}

/// What both sides derive the key of the response from.
struct ResponseSecret {
    secret: [u8; KEY],
    /// What was encrypted in the query.
    plain: Vec<u8>,
}

impl ResponseSecret {
    /// Returns key and nonce of the response with this nonce (RFC 9230 §6.2, derive_secrets).
    fn derive(&self, nonce: &[u8; RESPONSE_NONCE]) -> ([u8; KEY], [u8; 12]) {
        let salt = [&self.plain[..], &(RESPONSE_NONCE as u16).to_be_bytes(), nonce].concat();
        let key = hpke::extract(&salt, &[&self.secret]);
        (hpke::expand(&key, &[INFO_KEY]), hpke::expand(&key, &[INFO_NONCE]))
    }
}

/// Encrypts the response to one query.
pub struct ResponseSealer(ResponseSecret);

impl ResponseSealer {
    /// Encrypts a DNS message, padded to a multiple of 468 bytes (RFC 8467).
    ///
    /// # Errors
    /// [`ObliviousFault::TooLong`] for more than 65,515 bytes, or [`ObliviousFault::Random`].
    pub fn seal(self, response: &[u8]) -> Result<Vec<u8>, ObliviousFault> {
        let padded = message::padded(response, RESPONSE_BLOCK, MAX_ENCRYPTED - TAG);
        self.seal_padded(padded.ok_or(ObliviousFault::TooLong)?, &random()?)
    }

    fn seal_padded(self, plain: Vec<u8>, nonce: &[u8; RESPONSE_NONCE]) -> Result<Vec<u8>, ObliviousFault> {
        let (key, iv) = self.0.derive(nonce);
        let additional = message::additional_data(Direction::Response, nonce).ok_or(BadFormat)?;
        let encrypted = hpke::seal(&key, iv, &additional, plain)?;
        let message = Message { direction: Direction::Response, key_id: nonce, encrypted: &encrypted };
        message.write().ok_or(ObliviousFault::TooLong)
    }
}

/// Why the configurations of a target cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObliviousConfigsFault {
    /// The text is not base64.
    NoBase64,
    /// They do not have the format.
    Malformed,
    /// All are of another version than 1, or have another ciphersuite than X25519 with HKDF-SHA256 and
    /// AES-128-GCM.
    Unsupported,
}

impl fmt::Display for ObliviousConfigsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoBase64 => "they are not in base64",
            Self::Malformed => "they are malformed",
            Self::Unsupported => {
                "none is of version 1 with X25519, HKDF-SHA256 and AES-128-GCM, which this client has"
            }
        })
    }
}
impl std::error::Error for ObliviousConfigsFault {}

/// The public key of a target, as a client has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObliviousConfig {
    public: [u8; ENCAPSULATED],
    id: [u8; HASH],
}

impl ObliviousConfig {
    /// Reads the first configuration that this client supports.
    ///
    /// # Errors
    /// [`ObliviousConfigsFault`].
    pub fn first(configs: &[u8]) -> Result<Self, ObliviousConfigsFault> {
        let public = message::public_key(configs).map_err(|BadFormat| ObliviousConfigsFault::Malformed)?;
        let public = public.ok_or(ObliviousConfigsFault::Unsupported)?;
        Ok(ObliviousConfig { public, id: key_id(&public) })
    }

    /// Returns the identifier of the key.
    pub(crate) fn id(&self) -> &[u8; HASH] {
        &self.id
    }

    /// Encrypts a DNS message, padded to a multiple of 128 bytes (RFC 8467). Returns the message for the
    /// target, and what decrypts the response.
    ///
    /// # Errors
    /// [`ObliviousFault`]: the message is too long, the target's key is none, or the system has no random
    /// numbers.
    pub fn seal(&self, query: &[u8]) -> Result<(Vec<u8>, ResponseOpener), ObliviousFault> {
        let most = MAX_ENCRYPTED - ENCAPSULATED - TAG;
        let plain = message::padded(query, QUERY_BLOCK, most).ok_or(ObliviousFault::TooLong)?;
        let (context, encapsulated) = HpkeContext::sender(&random()?, &self.public, INFO_QUERY)?;
        let secret = context.export(INFO_RESPONSE);
        let additional = message::additional_data(Direction::Query, &self.id).ok_or(BadFormat)?;
        let sealed = context.seal(&additional, plain.clone())?;
        let encrypted = [&encapsulated[..], &sealed].concat();
        let message = Message { direction: Direction::Query, key_id: &self.id, encrypted: &encrypted };
        let message = message.write().ok_or(ObliviousFault::TooLong)?;
        Ok((message, ResponseOpener(ResponseSecret { secret, plain })))
    }
}

/// The configurations of a target in base64, with one key alone.
impl fmt::Display for ObliviousConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_base64(&message::configs(&[message::contents(&self.public)]), f)
    }
}

impl FromStr for ObliviousConfig {
    type Err = ObliviousConfigsFault;

    /// Reads the configurations of a target in base64.
    fn from_str(text: &str) -> Result<Self, ObliviousConfigsFault> {
        let (mut decoder, mut bytes) = (Base64::default(), Vec::new());
        decoder.feed(text.as_bytes(), &mut bytes).map_err(|_| ObliviousConfigsFault::NoBase64)?;
        decoder.finish().map_err(|_| ObliviousConfigsFault::NoBase64)?;
        ObliviousConfig::first(&bytes)
    }
}

/// Decrypts the response to one query.
pub struct ResponseOpener(ResponseSecret);

impl ResponseOpener {
    /// Returns the DNS message of a response.
    ///
    /// # Errors
    /// [`ObliviousFault::Malformed`]: it is not the response of the target to this query.
    pub fn open(self, response: &[u8]) -> Result<Vec<u8>, ObliviousFault> {
        let Message { direction: Direction::Response, key_id, encrypted } = Message::read(response)? else {
            return Err(ObliviousFault::Malformed);
        };
        let nonce = key_id.try_into().map_err(|_| ObliviousFault::Malformed)?;
        let (key, iv) = self.0.derive(nonce);
        let additional = message::additional_data(Direction::Response, nonce).ok_or(BadFormat)?;
        let plain = hpke::open(&key, iv, &additional, encrypted)?;
        Ok(message::dns_message(&plain)?.to_vec())
    }
}

fn random<const N: usize>() -> Result<[u8; N], ObliviousFault> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).map_err(|_| ObliviousFault::Random)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
