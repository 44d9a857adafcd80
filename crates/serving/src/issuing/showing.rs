//! The challenges of one order, which end with it.

use acme::{ChallengeKind, ChallengeProof, Challenges};
use config::acme::ChallengeMethod;
use net::TlsChallenges;

use super::http::HttpChallenges;
use super::zones::OrderRecords;

/// Shows a CA the proofs of one order, until it is dropped. Records in zones stay: they are removed by
/// [`withdraw`](super::zones::withdraw).
pub(super) struct Shown<'s> {
    pub(super) method: ChallengeMethod,
    pub(super) tls: &'s TlsChallenges,
    pub(super) http: &'s HttpChallenges,
    /// `None`: zones cannot be changed.
    pub(super) records: Option<OrderRecords<'s>>,
}

impl Challenges for Shown<'_> {
    fn kind(&self) -> ChallengeKind {
        match self.method {
            ChallengeMethod::TlsAlpn01 => ChallengeKind::TlsAlpn01,
            ChallengeMethod::Http01 => ChallengeKind::Http01,
            ChallengeMethod::Dns01 => ChallengeKind::Dns01,
        }
    }

    async fn show(&self, proofs: Vec<ChallengeProof>) -> Result<(), String> {
        match self.method {
            ChallengeMethod::TlsAlpn01 => {
                let digests: Vec<_> = proofs.into_iter().map(|proof| (proof.name, proof.digest)).collect();
                self.tls.set(Some(tls::challenge_config(&digests)?));
            }
            ChallengeMethod::Http01 => self.http.show(proofs),
            ChallengeMethod::Dns01 => match &self.records {
                Some(records) => records.show(&proofs).await?,
                None => return Err("zones cannot be changed: see the log of the start".to_owned()),
            },
        }
        Ok(())
    }
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        self.tls.set(None);
        self.http.show(Vec::new());
    }
}
