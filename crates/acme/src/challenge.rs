//! Challenges: how this server shows a CA that it has the names of an order (RFC 8555 §8, RFC 8737).

use std::future::Future;

use instant_acme::{ChallengeHandle, ChallengeType};
use tls::ChallengeDigest;

use crate::fault::AcmeFault;

/// How a CA verifies names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChallengeKind {
    /// By a handshake at port 443.
    TlsAlpn01,
    /// By a request at port 80.
    Http01,
    /// By a TXT record.
    Dns01,
}

impl ChallengeKind {
    pub(crate) fn of_protocol(self) -> ChallengeType {
        match self {
            Self::TlsAlpn01 => ChallengeType::TlsAlpn01,
            Self::Http01 => ChallengeType::Http01,
            Self::Dns01 => ChallengeType::Dns01,
        }
    }

    /// The name of the challenge.
    pub fn word(self) -> &'static str {
        match self {
            Self::TlsAlpn01 => "tls-alpn-01",
            Self::Http01 => "http-01",
            Self::Dns01 => "dns-01",
        }
    }
}

/// What the CA is shown for one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChallengeProof {
    /// The name in lower case, without the `*.` of a wildcard.
    pub name: String,
    /// The token, in the path of a request (RFC 8555 §8.3).
    pub token: String,
    /// The key authorization, in the response to that request.
    pub key_authorization: String,
    /// Its digest, in the certificate of a handshake (RFC 8737 §3).
    pub digest: ChallengeDigest,
    /// Its digest as the text of a TXT record (RFC 8555 §8.4).
    pub text: String,
}

impl ChallengeProof {
    pub(crate) fn of(name: &str, challenge: &ChallengeHandle<'_>) -> Result<Self, AcmeFault> {
        let authorization = challenge.key_authorization();
        let digest = authorization.digest().as_ref().try_into();
        Ok(ChallengeProof {
            name: name.strip_prefix("*.").unwrap_or(name).to_owned(),
            token: challenge.token.clone(),
            key_authorization: authorization.as_str().to_owned(),
            digest: digest.map_err(|_| AcmeFault::new("the digest has a wrong length"))?,
            text: authorization.dns_value(),
        })
    }
}

/// Shows a CA that this server has names.
pub trait Challenges: Sync {
    /// The challenge that is used for all names.
    fn kind(&self) -> ChallengeKind;

    /// Shows these proofs from now on, and no others. The CA can see them when this returns.
    ///
    /// # Errors
    /// Why they cannot be shown.
    fn show(&self, proofs: Vec<ChallengeProof>) -> impl Future<Output = Result<(), String>> + Send;
}
