//! Oblivious DoH (RFC 9230) at HTTP listeners: what decrypts queries and encrypts responses. The
//! cryptography is the caller's.

use std::net::IpAddr;

/// The keys of a target, as listeners use them. Several threads call it.
pub trait ObliviousTarget: Send + Sync {
    /// Returns the configurations for clients; `None` while the target is off.
    fn configs(&self) -> Option<PublishedConfigs>;

    /// Decrypts a query of a client, which may be a proxy.
    ///
    /// # Errors
    /// Why it is refused.
    fn open(&self, message: &[u8], client: IpAddr) -> Result<ObliviousQuery, ObliviousRefusal>;
}

/// The configurations of a target, which have its public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedConfigs {
    /// As clients get them.
    pub bytes: Vec<u8>,
    /// For how long clients may use them, in seconds.
    pub max_age: u32,
}

/// Encrypts the response to one query; `None` if it is too long.
pub type SealResponse = Box<dyn FnOnce(&[u8]) -> Option<Vec<u8>>>;

/// A query that was decrypted.
pub struct ObliviousQuery {
    /// The DNS message.
    pub message: Vec<u8>,
    /// Encrypts its response.
    pub seal: SealResponse,
}

/// Why a query is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObliviousRefusal {
    /// The target is off.
    Off,
    /// The query is encrypted to a key that the target does not have, or not any more.
    UnknownKey,
    /// It cannot be read or decrypted.
    Malformed,
    /// The client has sent too many that could not be read or decrypted; this one was not decrypted.
    TooMany,
}
