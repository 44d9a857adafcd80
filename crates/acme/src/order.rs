//! One order: the account, the challenge of each name, the request with a new key, and the chain that the CA
//! issues.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use fetch::HostAddresses;
use instant_acme::{
    Account, AuthorizationStatus, Error, ExternalAccountKey, Identifier, NewAccount, NewOrder, Order,
    OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use url::Url;

use crate::challenge::{ChallengeProof, Challenges};
use crate::client::{AcmeClient, RetryAfter};
use crate::fault::{AcmeFault, AcmeStoreFault, problem_text};
use crate::issued::IssuedChain;
use crate::renewal::{RenewalSuggestion, identifier};
use crate::store::{AcmeStore, StoredAccount};

/// Longest time that the CA may take to verify the challenges, and to issue the certificate.
const STEP_TIMEOUT: Duration = Duration::from_secs(300);
/// Wait before the first query of the state of an order.
const FIRST_POLL: Duration = Duration::from_millis(500);
/// Factor of the waits after it.
const POLL_FACTOR: f32 = 1.5;

/// What is ordered, and where.
#[derive(Clone)]
pub struct AcmeOrder<'o> {
    /// The names in lower case.
    pub names: &'o BTreeSet<String>,
    /// The directory of the CA.
    pub directory: &'o Url,
    /// How the CA reaches the owner of the account.
    pub contacts: &'o [String],
    /// PEM file of the CA certificates that the directory's server is verified with.
    pub ca_file: Option<PathBuf>,
    /// Where the account is stored.
    pub store: &'o AcmeStore,
    /// The external account that a new account is bound to.
    pub external: Option<&'o ExternalAccount>,
    /// The certificate that is renewed, as DER.
    pub replaces: Option<&'o [u8]>,
}

/// An account outside ACME that an account at the CA is bound to (RFC 8555 §7.3.4).
#[derive(Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    /// Its identifier.
    pub id: String,
    /// The key of its HMAC.
    pub key: Vec<u8>,
}

impl AcmeOrder<'_> {
    /// Obtains a certificate with a new key. The caller ends the challenges.
    ///
    /// # Errors
    /// [`AcmeFault`].
    pub async fn obtain<H>(
        &self,
        hosts: &Arc<H>,
        challenges: &impl Challenges,
    ) -> Result<IssuedChain, AcmeFault>
    where
        H: HostAddresses + Send + Sync + 'static,
    {
        let retry_after = RetryAfter::default();
        let mut outcome = self.attempt(hosts, challenges, &retry_after).await;
        if outcome.as_ref().is_err_and(|fault| fault.lost_account) {
            self.store.forget_account(self.directory).map_err(|fault| of_store(&fault))?;
            outcome = self.attempt(hosts, challenges, &retry_after).await;
        }
        let asked = retry_after.lock().unwrap_or_else(PoisonError::into_inner).take();
        outcome.map_err(|fault| AcmeFault { retry_after: asked, ..fault })
    }

    async fn attempt<H>(
        &self,
        hosts: &Arc<H>,
        challenges: &impl Challenges,
        retry_after: &RetryAfter,
    ) -> Result<IssuedChain, AcmeFault>
    where
        H: HostAddresses + Send + Sync + 'static,
    {
        let client = || AcmeClient {
            hosts: Arc::clone(hosts),
            ca_file: self.ca_file.clone(),
            retry_after: Arc::clone(retry_after),
        };
        let account = self.account(client).await?;
        let ordered = self.new_order(&account).await;
        let mut order = ordered.map_err(|error| AcmeFault::of("the order", &error))?;
        self.answer_challenges(&mut order, challenges).await?;
        let policy = RetryPolicy::new().initial_delay(FIRST_POLL).backoff(POLL_FACTOR).timeout(STEP_TIMEOUT);
        match order.poll_ready(&policy).await {
            Ok(OrderStatus::Invalid) | Err(Error::Api(_)) => return Err(refused(&mut order).await),
            Ok(_) => {}
            Err(error) => return Err(AcmeFault::of("the challenges", &error)),
        }
        let (key, csr) = self.request()?;
        let of_request = |error| AcmeFault::of("the certificate request", &error);
        order.finalize_csr(&csr).await.map_err(of_request)?;
        let chain = order.poll_certificate(&policy).await;
        let chain = chain.map_err(|error| AcmeFault::of("the certificate", &error))?;
        Ok(IssuedChain { names: self.names.clone(), chain, key: key.serialize_pem() })
    }

    /// Returns what the CA suggests about the renewal of a certificate, as DER; `None` if the CA makes no
    /// suggestions.
    ///
    /// # Errors
    /// [`AcmeFault`].
    pub async fn suggestion<H>(
        &self,
        hosts: &Arc<H>,
        certificate: &[u8],
    ) -> Result<Option<RenewalSuggestion>, AcmeFault>
    where
        H: HostAddresses + Send + Sync + 'static,
    {
        let Some(identifier) = identifier(certificate) else { return Ok(None) };
        let stored = self.store.account(self.directory).map_err(|fault| of_store(&fault))?;
        let Some(StoredAccount { credentials, .. }) = stored else { return Ok(None) };
        let (hosts, ca_file) = (Arc::clone(hosts), self.ca_file.clone());
        let client = AcmeClient { hosts, ca_file, retry_after: RetryAfter::default() };
        let builder = Account::builder_with_http(Box::new(client));
        let asked = match builder.from_credentials(credentials).await {
            Ok(account) => account.renewal_info(&identifier).await,
            Err(error) => Err(error),
        };
        match asked {
            Ok((info, after)) => Ok(Some(RenewalSuggestion::of(info, after))),
            Err(Error::Unsupported(_)) => Ok(None),
            Err(error) => Err(AcmeFault::of("the time of renewal", &error)),
        }
    }

    /// Orders. A CA that refuses to replace a certificate gets an order that replaces none.
    async fn new_order(&self, account: &Account) -> Result<Order, Error> {
        let identifiers: Vec<Identifier> = self.names.iter().cloned().map(Identifier::Dns).collect();
        if let Some(replaced) = self.replaces.and_then(identifier) {
            match account.new_order(&NewOrder::new(&identifiers).replaces(replaced)).await {
                Err(error) if is_about_replacing(&error) => {}
                ordered => return ordered,
            }
        }
        account.new_order(&NewOrder::new(&identifiers)).await
    }

    /// Returns the account at the CA, which is made if there is none.
    async fn account<H>(&self, client: impl Fn() -> AcmeClient<H>) -> Result<Account, AcmeFault>
    where
        H: HostAddresses + Send + Sync + 'static,
    {
        let of_account = |error| AcmeFault::of("the account", &error);
        let contacts: Vec<&str> = self.contacts.iter().map(String::as_str).collect();
        let builder = Account::builder_with_http(Box::new(client()));
        let bound_to = self.external.map(|external| external.id.clone());
        let stored = self.store.account(self.directory).map_err(|fault| of_store(&fault))?;
        // An account cannot be bound to another external account.
        let stored = stored.filter(|stored| bound_to.is_none() || stored.bound_to == bound_to);
        if let Some(mut stored) = stored {
            let before = std::mem::replace(&mut stored.contacts, self.contacts.to_vec());
            let StoredAccount { credentials, .. } = stored;
            let account = builder.from_credentials(credentials).await.map_err(of_account)?;
            if before != self.contacts {
                account.update_contacts(&contacts).await.map_err(of_account)?;
                // The credentials cannot be copied.
                let stored = self.store.account(self.directory).map_err(|fault| of_store(&fault))?;
                if let Some(stored) = stored {
                    self.keep_account(StoredAccount { contacts: self.contacts.to_vec(), ..stored })?;
                }
            }
            return Ok(account);
        }
        let new =
            NewAccount { contact: &contacts, terms_of_service_agreed: true, only_return_existing: false };
        let external = self.external.map(|of| ExternalAccountKey::new(of.id.clone(), &of.key));
        let made = builder.create(&new, self.directory.to_string(), external.as_ref()).await;
        let (account, credentials) = made.map_err(of_account)?;
        self.keep_account(StoredAccount { contacts: self.contacts.to_vec(), bound_to, credentials })?;
        Ok(account)
    }

    fn keep_account(&self, account: StoredAccount) -> Result<(), AcmeFault> {
        self.store.keep_account(self.directory, &account).map_err(|fault| of_store(&fault))
    }

    /// Shows the proof of each name that the CA has not verified yet, and asks it to verify them.
    async fn answer_challenges(
        &self,
        order: &mut Order,
        challenges: &impl Challenges,
    ) -> Result<(), AcmeFault> {
        let of_names = |error| AcmeFault::of("the names", &error);
        let kind = challenges.kind();
        let mut proofs = Vec::new();
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization.map_err(of_names)?;
            let name = authorization.identifier().to_string().to_ascii_lowercase();
            match authorization.status {
                AuthorizationStatus::Valid => continue,
                AuthorizationStatus::Pending => {}
                status => {
                    let word = format!("{status:?}").to_ascii_lowercase();
                    return Err(AcmeFault::new(format!("{name}: the authorization is {word}")));
                }
            }
            let Some(challenge) = authorization.challenge(kind.of_protocol()) else {
                let word = kind.word();
                return Err(AcmeFault::new(format!("{name}: the CA does not offer the challenge {word}")));
            };
            proofs.push(ChallengeProof::of(&name, &challenge)?);
        }
        if proofs.is_empty() {
            return Ok(());
        }
        challenges.show(proofs).await.map_err(AcmeFault::new)?;
        let mut is_refused = false;
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization.map_err(of_names)?;
            if authorization.status == AuthorizationStatus::Pending
                && let Some(mut challenge) = authorization.challenge(kind.of_protocol())
            {
                match challenge.set_ready().await {
                    Ok(()) => {}
                    // The CA has verified the name before it replied, and the reply has the fault.
                    Err(Error::Api(_)) => {
                        is_refused = true;
                        break;
                    }
                    Err(error) => return Err(AcmeFault::of("the challenges", &error)),
                }
            }
        }
        if is_refused { Err(refused(order).await) } else { Ok(()) }
    }

    /// Makes a key and the request for a certificate.
    fn request(&self) -> Result<(KeyPair, Vec<u8>), AcmeFault> {
        let fault = |why: rcgen::Error| AcmeFault::new(format!("no certificate request: {why}"));
        let key = KeyPair::generate().map_err(fault)?;
        let names: Vec<String> = self.names.iter().cloned().collect();
        let mut params = CertificateParams::new(names).map_err(fault)?;
        params.distinguished_name = DistinguishedName::new();
        let csr = params.serialize_request(&key).map_err(fault)?;
        Ok((key, csr.der().to_vec()))
    }
}

/// Whether an order fails because of the certificate that it replaces (RFC 9773 §5).
fn is_about_replacing(error: &Error) -> bool {
    match error {
        Error::Unsupported(_) => true,
        Error::Api(problem) => {
            let kind = problem.r#type.as_deref().unwrap_or_default();
            let kind = kind.strip_prefix("urn:ietf:params:acme:error:").unwrap_or(kind);
            matches!(kind, "alreadyReplaced" | "malformed" | "unauthorized")
        }
        Error::Other(cause) => cause.to_string().starts_with("replaces field mismatch"),
        _ => false,
    }
}

/// Returns why the CA refused the order: the fault of each name that it could not verify, or else its own.
async fn refused(order: &mut Order) -> AcmeFault {
    let own = order.state().error.as_ref().map(problem_text);
    let mut faults = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        if authorization.refresh().await.is_err() {
            continue;
        }
        let name = authorization.identifier().to_string();
        let problems = authorization.challenges.iter().filter_map(|challenge| challenge.error.as_ref());
        faults.extend(problems.map(|problem| format!("{name}: {}", problem_text(problem))));
    }
    let texts = if faults.is_empty() { own.into_iter().collect() } else { faults };
    match texts.is_empty() {
        true => AcmeFault::new("the CA refused the order, without a reason"),
        false => AcmeFault::new(format!("the CA refused the order: {}", texts.join("; "))),
    }
}

fn of_store(fault: &AcmeStoreFault) -> AcmeFault {
    AcmeFault::new(fault.to_string())
}

#[cfg(test)]
mod tests;
