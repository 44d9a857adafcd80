//! [`ValidationSettings`]: the operator's settings for validation.

use dnssec::algorithm;
use dnssec::key::digest_len;
use wire::Ttl;
use wire::rdata::view::{Ds, SigAlgorithm};

/// The operator's settings for validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidationSettings {
    /// Allowed clock skew in seconds: a signature is valid this long before its inception and after its
    /// expiration.
    pub skew: u32,
    /// Whether RSA with SHA-1 is a supported algorithm. By default it is not, and zones with nothing better
    /// are insecure, as RFC 9905 §2 requires.
    pub sha1_signatures: bool,
    /// Whether SHA-1 is a supported digest type of DS. It is always ignored beside a better one (RFC 4509
    /// §3).
    pub sha1_digests: bool,
    /// Most NSEC3 iterations; proofs with more are insecure (RFC 9276 §3.2).
    pub max_nsec3_iterations: u16,
    /// How long a bogus DS or DNSKEY RRset is cached.
    pub bogus_ttl: Ttl,
}

impl Default for ValidationSettings {
    fn default() -> Self {
        ValidationSettings {
            skew: 60,
            sha1_signatures: false,
            sha1_digests: true,
            max_nsec3_iterations: 50,
            bogus_ttl: Ttl::from_secs(60),
        }
    }
}

impl ValidationSettings {
    /// Whether signatures of this algorithm are accepted.
    pub(crate) fn takes_algorithm(&self, algorithm: SigAlgorithm) -> bool {
        algorithm::is_supported(algorithm) && (self.sha1_signatures || !algorithm::uses_sha1(algorithm))
    }

    /// Whether DS of this digest type are accepted.
    pub(crate) fn takes_digest(&self, digest_type: u8) -> bool {
        digest_len(digest_type).is_some() && (self.sha1_digests || digest_type != Ds::SHA1)
    }
}
