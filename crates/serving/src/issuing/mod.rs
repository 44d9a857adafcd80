//! The certificate that this server orders from a CA by ACME, and renews: `[acme]`. The task [`run`] waits
//! until an order is due, shows the CA that the server has the names, and puts the certificate into use. What
//! is stored is in `state-dir`; a failure leaves the certificate before in use.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use acme::{
    AcmeOrder, AcmeSchedule, AcmeStore, AcmeTarget, CertificatePeriod, Challenges, DueReason, IssuedChain,
};
use config::acme::WantedCertificate;
use config::{Adopt, Settings};
use net::TlsChallenges;
use threads::sync::lock;
use tls::{ChallengeDigest, ServerCertificate};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tracing::{error, info, warn};
use transport::Counter;
use wire::UnixTime;

use crate::frontend::certificates::Certificates;
use crate::hosts::ServerHosts;
use crate::recursive::Recursive;

/// Longest sleep of the task, since the wall clock may be set.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// The certificate that a CA issues.
pub struct Issuing {
    certificates: Arc<Certificates>,
    hosts: Arc<ServerHosts>,
    /// `None` without a state folder.
    store: Option<AcmeStore>,
    state: Mutex<IssuingState>,
    changed: Notify,
    /// Certificates that the CA has issued.
    pub obtained: Counter,
    /// Orders that have failed.
    pub failed: Counter,
}

#[derive(Default)]
struct IssuingState {
    /// `None` without `[acme]`.
    wanted: Option<WantedCertificate>,
    schedule: AcmeSchedule,
    is_ordering: bool,
}

/// The state of the certificate that a CA issues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuingStatus {
    /// The names that are wanted.
    pub names: Vec<String>,
    /// The directory of the CA.
    pub directory: String,
    /// Whether an order is in progress.
    pub is_ordering: bool,
    /// When the next order is due.
    pub next: UnixTime,
    /// How many orders have failed since the last that was successful.
    pub failures: u32,
    /// Why the last order failed, if it has.
    pub fault: Option<String>,
    /// When the certificate that the CA has issued expires, if there is one.
    pub expires: Option<UnixTime>,
}

impl Issuing {
    /// Returns the state with what is stored. No order begins before [`run`].
    pub fn new(
        settings: &Settings,
        certificates: &Arc<Certificates>,
        recursive: Option<&Arc<Recursive>>,
    ) -> Arc<Self> {
        let store = settings.server.storage.folder().map(|state| AcmeStore::new(&state));
        let schedule = store.as_ref().filter(|_| settings.acme.is_some()).map(AcmeStore::schedule);
        let schedule = schedule.transpose().unwrap_or_else(|fault| {
            warn!("failed orders of certificates before this start are not known: {fault}");
            None
        });
        let state = IssuingState {
            wanted: settings.acme.as_ref().map(|section| section.wanted()),
            schedule: schedule.unwrap_or_default(),
            is_ordering: false,
        };
        Arc::new(Issuing {
            certificates: Arc::clone(certificates),
            hosts: Arc::new(ServerHosts::new(recursive.map(|recursive| recursive.hosts()))),
            store,
            state: Mutex::new(state),
            changed: Notify::new(),
            obtained: Counter::default(),
            failed: Counter::default(),
        })
    }

    /// Returns the state; `None` without `[acme]`, and if no listener has TLS.
    pub fn status(&self) -> Option<IssuingStatus> {
        let held = self.certificates.issued();
        let mut state = lock(&self.state);
        let wanted = state.wanted.clone().filter(|_| self.certificates.has_tls())?;
        let validity = held.as_deref().map(CertificatePeriod::of);
        let (_, next) = state.schedule.next(&target(&wanted), validity.as_ref(), SystemTime::now());
        let failure = state.schedule.failure();
        Some(IssuingStatus {
            names: wanted.names.into_iter().collect(),
            directory: wanted.directory.to_string(),
            is_ordering: state.is_ordering,
            next: UnixTime::from(next),
            failures: failure.map_or(0, |failure| failure.count),
            fault: failure.map(|failure| failure.fault.clone()),
            expires: held.map(|held| UnixTime::from(held.not_after)),
        })
    }

    /// Returns what to order now, and why.
    fn due(&self, now: SystemTime) -> Result<(WantedCertificate, DueReason), Duration> {
        let held = self.certificates.issued();
        let mut state = lock(&self.state);
        let wanted = state.wanted.clone().filter(|_| self.certificates.has_tls()).ok_or(LONGEST_SLEEP)?;
        let validity = held.as_deref().map(CertificatePeriod::of);
        let (reason, due) = state.schedule.next(&target(&wanted), validity.as_ref(), now);
        match due.duration_since(now) {
            Ok(wait) if !wait.is_zero() => Err(wait),
            _ => {
                state.is_ordering = true;
                Ok((wanted, reason))
            }
        }
    }

    /// Orders a certificate, and puts it into use.
    async fn order(&self, store: &AcmeStore, wanted: &WantedCertificate, reason: DueReason) {
        let names = wanted.names.iter().cloned().collect::<Vec<_>>().join(", ");
        info!(directory = %wanted.directory, "ordering a certificate for {names}: {}", reason_text(reason));
        let order = AcmeOrder {
            names: &wanted.names,
            directory: &wanted.directory,
            contacts: &wanted.contacts,
            ca_file: wanted.ca_file.clone(),
            store,
        };
        let shown = Shown(self.certificates.challenges());
        let outcome = order.obtain(&self.hosts, &shown).await;
        drop(shown);
        let (issued, asked) = match outcome {
            Ok(chain) => (keep(store, chain).await, None),
            Err(fault) => (Err(fault.message), fault.retry_after),
        };
        let (target, now) = (target(wanted), SystemTime::now());
        match issued {
            Ok(certificate) => {
                self.obtained.add(1);
                let until = wording::moment(UnixTime::from(certificate.not_after));
                self.certificates.issue(certificate);
                lock(&self.state).schedule.obtained(&target);
                info!("the certificate for {names} was obtained and is in use, valid until {until}");
            }
            Err(fault) => {
                self.failed.add(1);
                let held = self.certificates.issued().as_deref().map(CertificatePeriod::of);
                let mut state = lock(&self.state);
                state.schedule.failed(&target, held.as_ref(), fault.clone(), asked, now);
                let (_, next) = state.schedule.next(&target, held.as_ref(), now);
                let next = wording::moment(UnixTime::from(next));
                error!("no certificate for {names}: {fault}; the next attempt is at {next}");
            }
        }
        let schedule = {
            let mut state = lock(&self.state);
            state.is_ordering = false;
            state.schedule.clone()
        };
        if let Err(fault) = blocking(store, move |store| store.keep_schedule(&schedule)).await {
            error!("when the next certificate is ordered is lost at a restart: {fault}");
        }
    }
}

impl Adopt for Issuing {
    fn adopt(&self, settings: &Settings) {
        lock(&self.state).wanted = settings.acme.as_ref().map(|section| section.wanted());
        self.changed.notify_one();
    }
}

/// Orders certificates when they are due, for as long as the server runs.
pub async fn run(issuing: Arc<Issuing>) {
    let Some(store) = issuing.store.clone() else { return };
    loop {
        let wait = match issuing.due(SystemTime::now()) {
            Ok((wanted, reason)) => {
                issuing.order(&store, &wanted, reason).await;
                continue;
            }
            Err(wait) => wait.min(LONGEST_SLEEP),
        };
        // The configuration has changed, or the time is over.
        let _ = timeout(wait, issuing.changed.notified()).await;
    }
}

fn target(wanted: &WantedCertificate) -> AcmeTarget {
    AcmeTarget { directory: wanted.directory.to_string(), names: wanted.names.clone() }
}

fn reason_text(reason: DueReason) -> &'static str {
    match reason {
        DueReason::First => "there is none",
        DueReason::Changed => "the one in use is for other names, or from another CA",
        DueReason::Renewal => "a third of the lifetime of the one in use is left",
    }
}

/// Stores a certificate.
async fn keep(store: &AcmeStore, chain: IssuedChain) -> Result<ServerCertificate, String> {
    blocking(store, move |store| store.keep_certificate(&chain)).await
}

/// Runs work that waits for the disk.
async fn blocking<T: Send + 'static, E: ToString + Send + 'static>(
    store: &AcmeStore,
    work: impl FnOnce(&AcmeStore) -> Result<T, E> + Send + 'static,
) -> Result<T, String> {
    let store = store.clone();
    match spawn_blocking(move || work(&store)).await {
        Ok(done) => done.map_err(|fault| fault.to_string()),
        // The hook reports a panic.
        Err(fault) => Err(fault.to_string()),
    }
}

/// The challenges of one order, which end with it.
struct Shown<'s>(&'s TlsChallenges);

impl Challenges for Shown<'_> {
    fn show(&self, digests: &[(String, ChallengeDigest)]) -> Result<(), String> {
        self.0.set(Some(tls::challenge_config(digests)?));
        Ok(())
    }
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}
