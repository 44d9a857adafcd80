//! What the operator decides about validation.

use wire::Ttl;
use wire::rdata::view::{Ds, SigAlgorithm};

use crate::algorithm;
use crate::key::digest_len;

/// How responses are validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidationSettings {
    /// So many seconds clocks may differ: a signature is good so long before its inception and after its
    /// expiration.
    pub skew: u32,
    /// Whether RSA with SHA-1 counts as a supported algorithm. RFC 9905 §2 has operators take zones with
    /// nothing better for insecure, which is the default.
    pub sha1_signatures: bool,
    /// Whether SHA-1 counts as a supported digest type of DS. It never does beside a better one (RFC 4509
    /// §3).
    pub sha1_digests: bool,
    /// More iterations than this make what NSEC3 has to prove insecure (RFC 9276 §3.2).
    pub max_nsec3_iterations: u16,
    /// How long it is remembered that a zone's DS or DNSKEY are bogus.
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
    /// Whether signatures of this algorithm count.
    pub(crate) fn takes_algorithm(&self, algorithm: SigAlgorithm) -> bool {
        algorithm::is_supported(algorithm) && (self.sha1_signatures || !algorithm::uses_sha1(algorithm))
    }

    /// Whether DS of this digest type count.
    pub(crate) fn takes_digest(&self, digest_type: u8) -> bool {
        digest_len(digest_type).is_some() && (self.sha1_digests || digest_type != Ds::SHA1)
    }
}
