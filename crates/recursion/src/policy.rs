//! What an operator has decided, made ready to be asked.
//!
//! It is replaced as a whole; a batch sees one version.

use std::time::Duration;

use dnssec::{TrustAnchors, ValidationLimits, ValidationSettings};
use wire::hash::HashKey;

use crate::access::{Access, AccessRule, TooManyRules};
use crate::cache_views::{Domain, Realms};
use crate::dns64::{Dns64, Dns64Config, Dns64Fault};
use crate::local::{LocalConfig, LocalNames};
use crate::private::{PrivateAddresses, PrivateConfig};

/// What an operator decides about recursive service.
#[derive(Clone, Debug)]
pub struct PolicyConfig {
    /// Who may ask: the first rule that fits counts, and no other client may.
    pub access: Vec<AccessRule>,
    /// Names answered on the spot.
    pub local: LocalConfig,
    /// Addresses that no answer from outside may hold.
    pub private: PrivateConfig,
    /// AAAA records made of A records, if wanted.
    pub dns64: Option<Dns64Config>,
    /// The domains of the rules.
    pub domains: Vec<Domain>,
    /// Whether answers that have expired are served where no server answers (RFC 8767); after how long a
    /// client gets one while servers are still asked (§5: 1.8 seconds).
    pub stale_after: Option<Duration>,
    /// Seconds after a failure in which expired answers are served at once and no server is asked (RFC 8767
    /// §5: the failure recheck timer). 0: each client waits for servers.
    pub stale_refresh: u32,
    /// Whether an NXDOMAIN denies all names below (RFC 8020).
    pub nxdomain_cut: bool,
    /// Whether what was proven not to be there denies other names, too (RFC 8198).
    pub aggressive_nsec: bool,
    /// Bytes of what was proven so, at the most.
    pub denials: usize,
    /// Whether popular answers are fetched anew before they expire.
    pub prefetch: bool,
    /// Links of a chain from one rule's names to another's, at the most.
    pub max_chain: u8,
    /// How answers are validated, for the [domains](Domain) that want it.
    pub validation: ValidationConfig,
    /// How much is reported of what cannot be resolved or validated (RFC 9567); `None`: nothing.
    pub reports: Option<ReportLimits>,
}

/// How much is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportLimits {
    /// Reports in one second, at the most.
    pub per_second: usize,
    /// Seconds between two reports of the same, at the least: the cache may hold the answer to the first one
    /// for longer.
    pub interval: u32,
}

/// How answers are validated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationConfig {
    /// What counts.
    pub settings: ValidationSettings,
    /// What one client's query may cost.
    pub limits: ValidationLimits,
    /// Where trust begins, and where it is not wanted.
    pub anchors: TrustAnchors,
    /// Whether clients can find out which keys are anchors of the root (RFC 8509).
    pub sentinel: bool,
    /// Names of which it is remembered what is known of their keys, at the most.
    pub names: usize,
    /// Clients whose answers wait to be validated, at the most.
    pub waiting: usize,
    /// Of these, clients of one network: an IPv4 /24 or an IPv6 /56.
    pub waiting_of_network: usize,
}

impl Default for ValidationConfig {
    /// With the root's anchors, for 20,000 names and 10,000 clients, of one network 1000. Of signatures a
    /// query may take what a chain of aliases through some ten zones needs when nothing is known yet.
    fn default() -> Self {
        ValidationConfig {
            settings: ValidationSettings::default(),
            limits: ValidationLimits { signatures: 48, ..ValidationLimits::default() },
            anchors: TrustAnchors::root(),
            sentinel: true,
            names: 20_000,
            waiting: 10_000,
            waiting_of_network: 1000,
        }
    }
}

/// Why it cannot be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyFault {
    /// There are too many access rules.
    Access(TooManyRules),
    /// DNS64 cannot be done so.
    Dns64(Dns64Fault),
}

impl std::fmt::Display for PolicyFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Access(fault) => fault.fmt(f),
            Self::Dns64(fault) => fault.fmt(f),
        }
    }
}
impl std::error::Error for PolicyFault {}

/// One version of it, made ready.
pub(crate) struct Policy {
    pub(crate) access: Access,
    pub(crate) local: LocalNames,
    pub(crate) private: Option<PrivateAddresses>,
    pub(crate) dns64: Option<Dns64>,
    pub(crate) cache_views: Realms,
    pub(crate) stale_after: Option<Duration>,
    pub(crate) stale_refresh: u32,
    pub(crate) nxdomain_cut: bool,
    pub(crate) aggressive_nsec: bool,
    pub(crate) denials: usize,
    pub(crate) prefetch: bool,
    pub(crate) max_chain: u8,
    pub(crate) validation: ValidationConfig,
    pub(crate) reports: Option<ReportLimits>,
}

impl Policy {
    pub(crate) fn new(config: &PolicyConfig, key: &HashKey) -> Result<Policy, PolicyFault> {
        let private = (!config.private.blocks.is_empty()).then(|| PrivateAddresses::new(&config.private));
        Ok(Policy {
            access: Access::new(&config.access).map_err(PolicyFault::Access)?,
            local: LocalNames::new(&config.local, key),
            private,
            dns64: config.dns64.as_ref().map(Dns64::new).transpose().map_err(PolicyFault::Dns64)?,
            cache_views: Realms::new(&config.domains, key, config.validation.anchors.fingerprint()),
            stale_after: config.stale_after,
            stale_refresh: config.stale_refresh,
            nxdomain_cut: config.nxdomain_cut,
            aggressive_nsec: config.aggressive_nsec,
            denials: config.denials,
            prefetch: config.prefetch,
            max_chain: config.max_chain,
            validation: config.validation.clone(),
            reports: config.reports,
        })
    }
}
