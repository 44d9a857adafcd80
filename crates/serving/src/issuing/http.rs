//! Responses to the requests of the challenge http-01 (RFC 8555 §8.3), while an order is in progress.

use std::collections::HashMap;
use std::sync::RwLock;

use acme::ChallengeProof;
use threads::sync::{read, write};
use transport::Counter;

/// The folder of the paths of challenges.
const FOLDER: &str = "/.well-known/acme-challenge/";

/// What the CA gets at the paths of challenges.
#[derive(Default)]
pub struct HttpChallenges {
    /// The key authorization of each token.
    shown: RwLock<HashMap<String, String>>,
    /// Requests that got a key authorization.
    pub answered: Counter,
    /// Requests for anything else.
    pub refused: Counter,
}

impl HttpChallenges {
    /// Returns the response for a path; `None`: there is nothing.
    pub fn at(&self, path: &str) -> Option<String> {
        let found = path.strip_prefix(FOLDER).and_then(|token| read(&self.shown).get(token).cloned());
        match found {
            Some(_) => self.answered.add(1),
            None => self.refused.add(1),
        }
        found
    }

    /// Shows these proofs from now on, and no others.
    pub(super) fn show(&self, proofs: Vec<ChallengeProof>) {
        let shown = proofs.into_iter().map(|proof| (proof.token, proof.key_authorization));
        *write(&self.shown) = shown.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tokens_of_the_order_are_found_and_only_while_it_lasts() {
        let challenges = HttpChallenges::default();
        assert_eq!(challenges.at("/.well-known/acme-challenge/"), None);
        let proof = ChallengeProof {
            name: "dns.example".into(),
            token: "token".into(),
            key_authorization: "token.thumb".into(),
            digest: [0; 32],
            text: String::new(),
        };
        challenges.show(vec![proof]);
        assert_eq!(challenges.at("/.well-known/acme-challenge/token").as_deref(), Some("token.thumb"));
        for path in
            ["/.well-known/acme-challenge/toke", "/token", "/", "/.well-known/acme-challenge/token/", ""]
        {
            assert_eq!(challenges.at(path), None, "{path}");
        }
        challenges.show(Vec::new());
        assert_eq!(challenges.at("/.well-known/acme-challenge/token"), None);
        assert_eq!((challenges.answered.get(), challenges.refused.get()), (1, 7));
    }
}
