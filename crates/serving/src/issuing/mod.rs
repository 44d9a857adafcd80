//! The certificate that this server orders from a CA by ACME, and renews: `[acme]`. The task [`run`] waits
//! until an order is due, shows the CA that the server has the names, and puts the certificate into use. What
//! is stored is in `state-dir`; a failure leaves the certificate before in use.

//!
//! | file | holds |
//! |---|---|
//! | `records` | records of the challenge dns-01, and who changes zones |
//! | `propagation` | whether the servers of a zone have a record |
//! | `zones` | the records of an order, from the first to the last |
//! | `http` | responses for the challenge http-01 |
//! | `showing` | the challenges of one order |
//! | `stored` | work on the disk |

mod http;
mod propagation;
mod records;
mod showing;
mod stored;
mod zones;

use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use acme::{
    AcmeOrder, AcmeSchedule, AcmeStore, AcmeTarget, CertificatePeriod, DueReason, ExternalAccount,
    IssuedChain,
};
use config::acme::{ExternalAccountKey, WantedCertificate};
use config::{Adopt, Settings};
use query_path::Engine;
use threads::sync::lock;
use tls::ServerCertificate;
use tokio::sync::Notify;
use tokio::time::timeout;
use tracing::{error, info, warn};
use transport::Counter;
use wire::UnixTime;

use crate::frontend::Served;
use crate::frontend::certificates::Certificates;
use crate::hosts::ServerHosts;
use crate::recursive::Recursive;
pub use http::HttpChallenges;
use propagation::ZoneServers;
pub use records::{ChallengePlace, ChallengeRecord, ChallengeZones, ChangeEnd};
use showing::Shown;
use stored::blocking;
use zones::{OrderRecords, ServerWait, withdraw};

/// Longest sleep of the task, since the wall clock may be set.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);
/// Pause between attempts to remove records of challenges.
const WITHDRAW_PAUSE: Duration = Duration::from_secs(300);
/// How long the CA is not asked about renewal after it has not answered, or makes no suggestions.
const QUESTION_PAUSE: Duration = Duration::from_secs(3600);
const NO_SUGGESTION_PAUSE: Duration = Duration::from_secs(24 * 3600);

/// The certificate that a CA issues.
pub struct Issuing {
    certificates: Arc<Certificates>,
    hosts: Arc<ServerHosts>,
    /// The servers of the zones of challenges.
    servers: ZoneServers,
    /// Changes zones for the challenge dns-01, if they can be changed.
    zones: OnceLock<Arc<dyn ChallengeZones>>,
    /// Responses for the challenge http-01.
    pub http: HttpChallenges,
    /// `None` without a state folder.
    store: Option<AcmeStore>,
    state: Mutex<IssuingState>,
    changed: Notify,
    /// Certificates that the CA has issued.
    pub obtained: Counter,
    /// Orders that have failed.
    pub failed: Counter,
    /// Records of challenges that could not be removed from zones, by attempts.
    pub left_records: Counter,
    /// Questions to the CA about renewal that it has not answered.
    pub unanswered: Counter,
}

#[derive(Default)]
struct IssuingState {
    /// `None` without `[acme]`.
    wanted: Option<WantedCertificate>,
    schedule: AcmeSchedule,
    is_ordering: bool,
    /// Why the CA did not answer the last question about renewal.
    question_fault: Option<String>,
    /// Whether records of challenges are left in zones.
    has_records: bool,
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
    /// How the CA verifies the names.
    pub challenge: &'static str,
    /// Whether the next order is at the time that the CA suggests.
    pub is_suggested: bool,
    /// Why the CA did not answer the last question about renewal, if it has not.
    pub renewal_fault: Option<String>,
    /// Whether records of challenges are left in zones, since they could not be removed.
    pub has_records: bool,
}

impl Issuing {
    /// Returns the state with what is stored. No order begins before [`run`].
    pub fn new(
        settings: &Settings,
        certificates: &Arc<Certificates>,
        recursive: Option<&Arc<Recursive>>,
        engine: &Arc<Engine<Served>>,
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
            ..IssuingState::default()
        };
        let hosts = Arc::new(ServerHosts::new(recursive.map(|recursive| recursive.hosts())));
        Arc::new(Issuing {
            certificates: Arc::clone(certificates),
            servers: ZoneServers::new(&hosts, engine),
            hosts,
            zones: OnceLock::new(),
            http: HttpChallenges::default(),
            store,
            state: Mutex::new(state),
            changed: Notify::new(),
            obtained: Counter::default(),
            failed: Counter::default(),
            left_records: Counter::default(),
            unanswered: Counter::default(),
        })
    }

    /// Sets what changes zones for challenges. Before that, they cannot be changed.
    pub fn change_zones_by(&self, zones: Arc<dyn ChallengeZones>) {
        // It is set once.
        let _ = self.zones.set(zones);
    }

    /// Returns the state; `None` without `[acme]`, and if no listener has TLS.
    pub fn status(&self) -> Option<IssuingStatus> {
        let held = self.certificates.issued();
        let mut state = lock(&self.state);
        let wanted = state.wanted.clone().filter(|_| self.certificates.has_tls())?;
        let validity = held.as_deref().map(CertificatePeriod::of);
        let (reason, next) = state.schedule.next(&target(&wanted), validity.as_ref(), SystemTime::now());
        let failure = state.schedule.failure();
        Some(IssuingStatus {
            names: wanted.names.into_iter().collect(),
            directory: wanted.directory.to_string(),
            is_ordering: state.is_ordering,
            next: UnixTime::from(next),
            failures: failure.map_or(0, |failure| failure.count),
            fault: failure.map(|failure| failure.fault.clone()),
            expires: held.map(|held| UnixTime::from(held.not_after)),
            challenge: wanted.challenge.word(),
            is_suggested: reason == DueReason::Suggested,
            renewal_fault: state.question_fault.clone(),
            has_records: state.has_records,
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

    /// Returns the certificate about whose renewal the CA is to be asked now, if there is one.
    fn question(&self, now: SystemTime) -> Option<(WantedCertificate, Arc<ServerCertificate>)> {
        let held = self.certificates.issued()?;
        let state = lock(&self.state);
        let wanted = state.wanted.clone().filter(|wanted| wanted.renewal_info)?;
        let period = CertificatePeriod::of(&held);
        let next = state.schedule.next_question(&target(&wanted), Some(&period), now)?;
        (next <= now).then_some((wanted, held))
    }

    /// Asks the CA when it suggests to renew a certificate.
    async fn ask(&self, store: &AcmeStore, wanted: &WantedCertificate, held: &ServerCertificate) {
        let external = wanted.external.as_ref().map(external);
        let order = order(wanted, store, external.as_ref(), None);
        let own = held.chain().first().map(|own| own.as_ref()).unwrap_or_default();
        let answer = order.suggestion(&self.hosts, own).await;
        let (period, now) = (CertificatePeriod::of(held), SystemTime::now());
        let schedule = {
            let mut state = lock(&self.state);
            let before = state.schedule.next(&target(wanted), Some(&period), now);
            state.question_fault = answer.as_ref().err().map(ToString::to_string);
            match &answer {
                Ok(Some(suggestion)) => {
                    let window = Some((suggestion.start, suggestion.end));
                    state.schedule.answered(&period, window, suggestion.ask_after, now);
                }
                Ok(None) => state.schedule.answered(&period, None, NO_SUGGESTION_PAUSE, now),
                Err(_) => state.schedule.unanswered(&period, QUESTION_PAUSE, now),
            }
            let after = state.schedule.next(&target(wanted), Some(&period), now);
            if let (Ok(Some(suggestion)), true) = (&answer, before != after) {
                let at = wording::moment(UnixTime::from(after.1));
                let why = suggestion.explanation.as_deref().map(|url| format!(", see {url}"));
                info!("the certificate is renewed at {at}, as the CA suggests{}", why.unwrap_or_default());
            }
            state.schedule.clone()
        };
        if let Err(fault) = answer {
            self.unanswered.add(1);
            warn!("the CA did not suggest a time of renewal, it is asked again in an hour: {fault}");
        }
        keep_schedule(store, schedule).await;
    }

    /// Removes records of challenges that are in zones.
    async fn withdraw(&self, store: &AcmeStore) {
        let is_done = withdraw(self.zones.get(), store).await;
        self.left_records.add(u64::from(!is_done));
        lock(&self.state).has_records = !is_done;
    }

    /// Orders a certificate, and puts it into use.
    async fn order(&self, store: &AcmeStore, wanted: &WantedCertificate, reason: DueReason) {
        let names = wanted.names.iter().cloned().collect::<Vec<_>>().join(", ");
        info!(directory = %wanted.directory, "ordering a certificate for {names}: {}", reason_text(reason));
        // What an order before has left does not get in the way of this one.
        self.withdraw(store).await;
        let held = self.certificates.issued();
        let is_renewal = matches!(reason, DueReason::Renewal | DueReason::Suggested);
        let held = held.as_ref().filter(|_| is_renewal && wanted.renewal_info);
        let replaces = held.and_then(|held| held.chain().first().map(|own| own.as_ref()));
        let external = wanted.external.as_ref().map(external);
        let order = order(wanted, store, external.as_ref(), replaces);
        let wait = ServerWait { is_checked: wanted.dns_check, longest: wanted.dns_wait };
        let records = |zones| OrderRecords { zones, store, servers: &self.servers, wait };
        let shown = Shown {
            method: wanted.challenge,
            tls: self.certificates.challenges(),
            http: &self.http,
            records: self.zones.get().map(records),
        };
        let outcome = order.obtain(&self.hosts, &shown).await;
        drop(shown);
        self.withdraw(store).await;
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
        keep_schedule(store, schedule).await;
    }
}

/// Stores when orders are due.
async fn keep_schedule(store: &AcmeStore, schedule: AcmeSchedule) {
    if let Err(fault) = blocking(store, move |store| store.keep_schedule(&schedule)).await {
        error!("when the next certificate is ordered is lost at a restart: {fault}");
    }
}

fn order<'o>(
    wanted: &'o WantedCertificate,
    store: &'o AcmeStore,
    external: Option<&'o ExternalAccount>,
    replaces: Option<&'o [u8]>,
) -> AcmeOrder<'o> {
    AcmeOrder {
        names: &wanted.names,
        directory: &wanted.directory,
        contacts: &wanted.contacts,
        ca_file: wanted.ca_file.clone(),
        store,
        external,
        replaces,
    }
}

fn external(key: &ExternalAccountKey) -> ExternalAccount {
    ExternalAccount { id: key.id.clone(), key: key.key.clone() }
}

impl Adopt for Issuing {
    fn adopt(&self, settings: &Settings) {
        {
            let mut state = lock(&self.state);
            let wanted = settings.acme.as_ref().map(|section| section.wanted());
            if wanted != state.wanted {
                state.schedule.end_wait();
                state.wanted = wanted;
            }
        }
        self.changed.notify_one();
    }
}

/// Orders certificates when they are due, for as long as the server runs.
pub async fn run(issuing: Arc<Issuing>) {
    let Some(store) = issuing.store.clone() else { return };
    issuing.withdraw(&store).await;
    let mut withdrawn = Instant::now();
    loop {
        if lock(&issuing.state).has_records && withdrawn.elapsed() >= WITHDRAW_PAUSE {
            issuing.withdraw(&store).await;
            withdrawn = Instant::now();
        }
        if let Some((wanted, held)) = issuing.question(SystemTime::now()) {
            issuing.ask(&store, &wanted, &held).await;
        }
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
        DueReason::Suggested => "the CA suggests to renew the one in use now",
    }
}

/// Stores a certificate.
async fn keep(store: &AcmeStore, chain: IssuedChain) -> Result<ServerCertificate, String> {
    blocking(store, move |store| store.keep_certificate(&chain)).await
}
