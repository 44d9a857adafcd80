//! The configuration: a file for each feature declares its keys, checks that they are consistent, and
//! converts its values into the settings of the part it configures.
//!
//! | file | section | for |
//! |---|---|---|
//! | `privileges`, `confinement`, `storage` | `[server]` | the process |
//! | `threads`, `tcp`, `https`, `proxies`, `listen` | `[server]`, `[[listen]]` | `net` |
//! | `certificates` | `[[certificate]]`, `[server]` | `tls` |
//! | `acme` | `[acme]` | `issuing` of `serving` |
//! | `odoh` | `[odoh]` | `frontend` of `serving` |
//! | `answers` | `[server]` | `query-path` |
//! | `zones` | `[[zone]]`, `[template.X]` | `zones` of `zone-manager` |
//! | `rate_limits` | `[rate-limits]` | `query-path` |
//! | `views` | `[[view]]`, `[[zone]]` | `query-path`, `zones` of `zone-manager` |
//! | `peers` | `[[zone]]`, `[template.X]` | `secondaries` of `zone-manager` |
//! | `catalogs` | `[[zone]]` | `zones::membership` of `zone-manager` |
//! | `updates` | `[updates]`, `[[zone]]`, `[template.X]` | `changes` of `zone-manager` |
//! | `dnssec_policy`, `signing` | `[dnssec-policy.X]`, `[[zone]]`, `[template.X]` | `zone-plan` |
//! | `transfers` | `[transfers]`, `[[tsig-key]]` | `transfers` and `secondaries` of `zone-manager` |
//! | `discovery` | `[resolver]` | `recursion` |
//! | `resolver` | `[resolver]` and its blocks | `recursion`, `resolver`, `cache` |
//! | `lists`, `policy_zones`, `policy_groups` | `[policy]` and its blocks | `recursive` of `serving` |
//! | `control`, `metrics`, `log`, `dnstap` | their own | the modules of that name |
//! | `api` | `[api]`, `[[api.token]]` | `api` |
//! | `database` | `[database]` | `database` of `zone-manager` |
//!
//! `table` has the macros that declare keys, `files` reads the operator's files, `sections` has the tables
//! that nodes share over a database, `report` shows the faults of both, `named_paths` has the paths in them,
//! and `reference` prints the page of all keys. `zone_name` and
//! `addresses` parse values that several features have. `machine` and `interfaces` read the properties of
//! this machine that defaults and access lists use. To add a feature's keys to the configuration, add one
//! line: in `server` if they belong to `[server]`, else in [`Settings`], where the compiler then asks for the
//! rest.

#![forbid(unsafe_code)]
// `println!` panics when the reader has closed the pipe or the disk is full.
#![deny(clippy::print_stdout)]

pub mod acme;
pub mod addresses;
pub mod answers;
pub mod api;
pub mod catalogs;
pub mod certificates;
pub mod client_certificates;
pub mod client_names;
pub mod confinement;
pub mod control;
pub mod database;
pub mod discovery;
pub mod dnssec_policy;
pub mod dnstap;
pub mod exit_status;
pub mod files;
pub mod http_proxies;
mod https;
pub mod interfaces;
pub mod listen;
pub mod lists;
pub mod log;
pub mod machine;
pub mod metrics;
pub mod named_paths;
pub mod neighbours;
pub mod odoh;
pub mod peer_tls;
pub mod peers;
pub mod policy_groups;
pub mod policy_zones;
pub mod privileges;
pub mod proxies;
pub mod query_access;
pub mod rate_limits;
pub mod reference;
pub mod reloading;
pub mod report;
pub mod resolver;
pub mod sections;
pub mod server;
pub mod server_access;
pub mod signing;
pub mod storage;
pub mod table;
pub mod tcp;
pub mod threads;
pub mod transfers;
pub mod updates;
pub mod upstreams;
pub mod views;
pub mod zone_name;
pub mod zones;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

pub use files::{AcceptedConfig, read_files, read_service, read_text, read_with, read_zone};
pub use report::RejectedConfig;
pub use storage::Storage;
pub use table::pending::PendingKey;

use acme::AcmeSection;
use api::{ApiSection, ApiTokenBlock};
use certificates::CertificateBlock;
use control::ControlSection;
use database::DatabaseSection;
use dnssec_policy::DnssecPolicies;
use dnstap::DnstapSection;
pub use listen::ListenSocket;

use listen::Listen;
use lists::{ListsConfig, PolicyList, PolicySection};
use log::LogSection;
use metrics::MetricsSection;
use odoh::OdohSection;
use policy_groups::{GroupsConfig, PolicyGroup, PolicySchedule};
use policy_zones::{PolicyZoneBlock, PolicyZonesConfig};
use rate_limits::RateLimitSection;
use report::Diagnostic;
use resolver::{AccessBlock, Forward, InnerRules, RecursiveConfig, ResolverSection, Stub};
use server::ServerSection;
use server_access::ServerAccessBlock;
use table::pending::{adopt, adopt_blocks, adopt_option};
use table::read::At;
use table::slot::SectionSlot;
use tls::{ServerCertificate, TicketKeys};
use transfers::{TransfersSection, TsigKeyBlock};
use updates::UpdatesSection;
use views::{ViewBlock, ViewRules};
use wire::Name;
use zones::{ConfiguredZone, SharedKeys, Templates};

/// A configuration that was read and checked.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Configuration {
    /// Everything except the zones.
    pub settings: Settings,
    /// Every `[[zone]]`, each with the place of its block.
    pub zones: Vec<At<ConfiguredZone>>,
    /// The zones that were added at run time.
    pub added: Vec<At<ConfiguredZone>>,
    /// Every `[template.X]` by its name.
    pub templates: Templates,
    /// Every `[dnssec-policy.X]` by its name.
    pub dnssec_policies: DnssecPolicies,
}

/// The configuration without its zones, of which there may be a million.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// `[server]`.
    pub server: At<ServerSection>,
    /// Every `[[server.access]]`.
    pub query_access: Vec<At<ServerAccessBlock>>,
    /// Every `[[listen]]`; the built-in addresses if there is none.
    pub listens: Vec<At<Listen>>,
    /// Every `[[certificate]]`.
    pub certificates: Vec<At<CertificateBlock>>,
    /// `[acme]`, if present.
    pub acme: Option<At<AcmeSection>>,
    /// `[odoh]`, if present.
    pub odoh: Option<At<OdohSection>>,
    /// Every `[[view]]`.
    pub views: Vec<At<ViewBlock>>,
    /// `[rate-limits]`.
    pub rate_limits: At<RateLimitSection>,
    /// `[transfers]`.
    pub transfers: At<TransfersSection>,
    /// Every `[[tsig-key]]`.
    pub tsig_keys: Vec<At<TsigKeyBlock>>,
    /// `[updates]`.
    pub updates: At<UpdatesSection>,
    /// `[resolver]`, if present.
    pub resolver: Option<At<ResolverSection>>,
    /// Every `[[resolver.forward]]`.
    pub forwards: Vec<At<Forward>>,
    /// Every `[[resolver.stub]]`.
    pub stubs: Vec<At<Stub>>,
    /// Every `[[resolver.access]]`.
    pub access: Vec<At<AccessBlock>>,
    /// `[policy]`.
    pub policy: At<PolicySection>,
    /// Every `[[policy.zone]]`.
    pub policy_zones: Vec<At<PolicyZoneBlock>>,
    /// Every `[[policy.list]]`.
    pub lists: Vec<At<PolicyList>>,
    /// Every `[[policy.group]]`.
    pub groups: Vec<At<PolicyGroup>>,
    /// Every `[[policy.schedule]]`.
    pub schedules: Vec<At<PolicySchedule>>,
    /// `[database]`, if present.
    pub database: Option<At<DatabaseSection>>,
    /// `[control]`.
    pub control: At<ControlSection>,
    /// `[metrics]`, if present.
    pub metrics: Option<At<MetricsSection>>,
    /// `[api]`, if present.
    pub api: Option<At<ApiSection>>,
    /// Every `[[api.token]]`.
    pub api_tokens: Vec<At<ApiTokenBlock>>,
    /// `[log]`.
    pub log: At<LogSection>,
    /// `[dnstap]`, if present.
    pub dnstap: Option<At<DnstapSection>>,
}

/// The settings of an empty configuration.
impl Default for Settings {
    fn default() -> Self {
        Self {
            server: At::default(),
            query_access: Vec::new(),
            listens: vec![At::default()],
            certificates: Vec::new(),
            acme: None,
            odoh: None,
            views: Vec::new(),
            rate_limits: At::default(),
            transfers: At::default(),
            tsig_keys: Vec::new(),
            updates: At::default(),
            resolver: None,
            forwards: Vec::new(),
            stubs: Vec::new(),
            access: Vec::new(),
            policy: At::default(),
            policy_zones: Vec::new(),
            lists: Vec::new(),
            groups: Vec::new(),
            schedules: Vec::new(),
            database: None,
            control: At::default(),
            metrics: None,
            api: None,
            api_tokens: Vec::new(),
            log: At::default(),
            dnstap: None,
        }
    }
}

impl Configuration {
    /// Returns the top-level sections, in the order of the reference page.
    fn slots(&mut self) -> [&mut dyn SectionSlot; 30] {
        let Configuration { settings, zones, templates, dnssec_policies, .. } = self;
        let Settings {
            server,
            query_access,
            listens,
            certificates,
            acme,
            odoh,
            views,
            rate_limits,
            transfers,
            tsig_keys,
            updates,
            resolver,
            forwards,
            stubs,
            access,
            policy,
            policy_zones,
            lists,
            groups,
            schedules,
            database,
            control,
            metrics,
            api,
            api_tokens,
            log,
            dnstap,
        } = settings;
        [
            server,
            query_access,
            listens,
            certificates,
            acme,
            odoh,
            zones,
            templates,
            dnssec_policies,
            views,
            rate_limits,
            transfers,
            tsig_keys,
            updates,
            resolver,
            forwards,
            stubs,
            access,
            policy,
            policy_zones,
            lists,
            groups,
            schedules,
            database,
            control,
            metrics,
            api,
            api_tokens,
            log,
            dnstap,
        ]
    }

    /// Reports values that contradict each other.
    fn check(&self, faults: &mut Vec<Diagnostic>) {
        let Settings {
            server,
            query_access,
            listens,
            metrics,
            resolver,
            policy_zones,
            lists,
            groups,
            schedules,
            policy,
            views,
            ..
        } = &self.settings;
        server.privileges.check(faults);
        server.answers.check(faults);
        server_access::check(query_access, faults);
        server.tcp.check(faults);
        let opened = listen::check(listens, faults);
        server.http_proxies.check(listens, &server.proxies, faults);
        if let Some(metrics) = metrics {
            metrics.check(&opened, faults);
        }
        let of_metrics = metrics.as_ref().map(|metrics| &metrics.listen);
        let Settings { api, api_tokens, .. } = &self.settings;
        api::check(api.as_ref(), api_tokens, (&opened, of_metrics), &self.templates, faults);
        let of_zones = (&self.templates, &self.dnssec_policies);
        database::check(self.settings.database.as_ref(), server, of_zones, faults);
        if let Some(dnstap) = &self.settings.dnstap {
            dnstap::check(dnstap, faults);
        }
        if let Some(recursive) = self.settings.recursive() {
            recursive.check(&opened, faults);
            let served = self.zones.iter().chain(&self.added).map(|zone| &zone.name);
            recursive.resolver.root_copy.check_served(served, faults);
        }
        lists::check(lists, resolver.is_some(), faults);
        let served = self.zones.iter().chain(&self.added);
        let may_be_elsewhere = self.settings.database.is_some();
        let of_policy = policy_zones::PolicyZoneContext {
            templates: &self.templates,
            is_recursive: resolver.is_some(),
            may_be_elsewhere,
        };
        policy_zones::check(policy_zones, served, of_policy, faults);
        let known = policy_groups::Known {
            lists: lists.iter().map(|list| list.name.value.as_str()).collect(),
            zones: policy_zones.iter().map(|zone| zone.name.value).collect(),
            is_recursive: resolver.is_some(),
            has_client_names: server.client_names.places.is_some(),
        };
        policy_groups::check(&policy.others, groups, schedules, &known, faults);
        views::check(views, faults);
        let all = self.zones.iter().chain(&self.added);
        views::check_zones(views, all, &self.templates, policy_zones, faults);
        let has_state = server.storage.folder().is_some();
        if let Some(acme) = &self.settings.acme {
            AcmeSection::check(acme, has_state, faults);
            let metrics = self.settings.metrics.iter().map(|metrics| &metrics.value.listen);
            let api = self.settings.api.iter().flat_map(|api| api.listen.iter());
            acme.check_addresses(&opened, metrics.chain(api), faults);
        }
        if let Some(odoh) = &self.settings.odoh {
            odoh.check(faults);
        }
        self.check_signing_and_delegations(has_state, faults);
    }

    /// Reports values about signing, and about what child zones may change.
    fn check_signing_and_delegations(&self, has_state: bool, faults: &mut Vec<Diagnostic>) {
        let Settings { database, resolver, .. } = &self.settings;
        dnssec_policy::check(&self.dnssec_policies, faults);
        let shared = SharedKeys { templates: &self.templates, policies: &self.dnssec_policies, has_state };
        zones::check(self.zones.iter().chain(&self.added), shared, database.is_some(), faults);
        let of_templates = self.templates.values().map(|template| &template.updates);
        let all = self.zones.iter().chain(&self.added).map(|zone| &*zone.updates).chain(of_templates);
        let validates = resolver.as_ref().is_some_and(|own| own.validating.validate.value);
        updates::check_bootstrap(all, validates, faults);
    }
}

impl Settings {
    /// Takes over the values that may change while the server runs, so that these settings stay those in
    /// force. Returns the keys whose change waits for the next start.
    pub fn adopt(&mut self, new: Settings) -> Vec<PendingKey> {
        let mut pending = Vec::new();
        let Settings {
            server,
            query_access,
            listens,
            certificates,
            acme,
            odoh,
            views,
            rate_limits,
            transfers,
            tsig_keys,
            updates,
            resolver,
            forwards,
            stubs,
            access,
            policy,
            policy_zones,
            lists,
            groups,
            schedules,
            database,
            control,
            metrics,
            api,
            api_tokens,
            log,
            dnstap,
        } = new;
        adopt(&mut self.server, server, &mut pending);
        adopt_blocks(&mut self.query_access, query_access, &mut pending);
        adopt_blocks(&mut self.listens, listens, &mut pending);
        adopt_blocks(&mut self.certificates, certificates, &mut pending);
        adopt_option(&mut self.acme, acme, &mut pending);
        adopt_option(&mut self.odoh, odoh, &mut pending);
        adopt_blocks(&mut self.views, views, &mut pending);
        adopt(&mut self.rate_limits, rate_limits, &mut pending);
        adopt(&mut self.transfers, transfers, &mut pending);
        adopt_blocks(&mut self.tsig_keys, tsig_keys, &mut pending);
        adopt(&mut self.updates, updates, &mut pending);
        // A feature that runs until the next start needs its blocks until then.
        if self.resolver.is_some() == resolver.is_some() {
            adopt_blocks(&mut self.forwards, forwards, &mut pending);
            adopt_blocks(&mut self.stubs, stubs, &mut pending);
            adopt_blocks(&mut self.access, access, &mut pending);
            adopt(&mut self.policy, policy, &mut pending);
            adopt_blocks(&mut self.policy_zones, policy_zones, &mut pending);
            adopt_blocks(&mut self.lists, lists, &mut pending);
            adopt_blocks(&mut self.groups, groups, &mut pending);
            adopt_blocks(&mut self.schedules, schedules, &mut pending);
        }
        adopt_option(&mut self.resolver, resolver, &mut pending);
        adopt_option(&mut self.database, database, &mut pending);
        adopt(&mut self.control, control, &mut pending);
        adopt_option(&mut self.metrics, metrics, &mut pending);
        adopt_option(&mut self.api, api, &mut pending);
        // Even if the section is gone and the listeners stay until the next start: its tokens are refused.
        adopt_blocks(&mut self.api_tokens, api_tokens, &mut pending);
        adopt(&mut self.log, log, &mut pending);
        adopt_option(&mut self.dnstap, dnstap, &mut pending);
        pending
    }

    /// Returns whether the configuration has a `[[listen]]` block.
    pub fn names_addresses(&self) -> bool {
        self.listens.iter().any(|listen| listen.place.is_some())
    }

    /// Returns the configuration of recursive service, if it is on.
    pub fn recursive(&self) -> Option<RecursiveConfig<'_>> {
        let Settings { server, forwards, stubs, access, groups, schedules, .. } = self;
        let (resolver, storage) = (self.resolver.as_ref()?, &server.storage);
        let designated = self.encrypted_service().map(|service| service.records()).unwrap_or_default();
        let schedules = schedules.iter().filter_map(|schedule| schedule.named()).collect();
        let trusted = policy_groups::trusted(&self.policy.others);
        Some(RecursiveConfig {
            resolver,
            forwards,
            stubs,
            access,
            groups,
            schedules,
            trusted,
            storage,
            designated,
        })
    }

    /// Returns the encrypted listeners as clients discover them (RFC 9462); `None` if they discover none.
    pub fn encrypted_service(&self) -> Option<discovery::EncryptedService> {
        let keys = &self.resolver.as_ref()?.value.discovery;
        let ordered = self.acme.as_ref().and_then(|acme| acme.first_name());
        discovery::service(keys, &self.listens, &self.certificates, ordered, &self.server.https)
    }

    /// Returns the warning about keys of the discovery that have no effect.
    fn discovery_warning(&self) -> Option<Diagnostic> {
        let has_tls = self.listens.iter().any(|listen| listen.has_tls());
        discovery::warning(&self.resolver.as_ref()?.value.discovery, has_tls)
    }

    /// Returns the settings of block lists.
    pub fn lists(&self) -> ListsConfig {
        lists::config(&self.policy, &self.lists)
    }

    /// Returns the settings of groups on a machine with these interfaces.
    pub fn policy_groups(&self, interfaces: &interfaces::Interfaces) -> GroupsConfig {
        policy_groups::config(&self.policy.others, &self.groups, &self.schedules, interfaces)
    }

    /// Whether clients of this transport can write identifiers for themselves.
    pub fn has_client_names(&self, transport: transport::Transport) -> bool {
        transport.has_client_names() && self.server.client_names.places.is_some()
    }

    /// Returns the server's access rules on a machine with these interfaces; `None` if there are none.
    pub fn query_access(&self, interfaces: &interfaces::Interfaces) -> Option<query_path::QueryAccess> {
        server_access::compiled(&self.query_access, interfaces)
    }

    /// Returns the interfaces that the server's access rules name and that have no address.
    pub fn access_interfaces_without_address<'s>(
        &'s self,
        interfaces: &interfaces::Interfaces,
    ) -> impl Iterator<Item = &'s str> {
        let named = self.query_access.iter().flat_map(|block| block.interface.iter().flatten());
        named.map(|name| name.value.as_str()).filter(|name| interfaces.addresses_of(name).next().is_none())
    }

    /// Returns the TSIG keys that the server's access rules name, with their places.
    pub fn access_keys(&self) -> impl Iterator<Item = (&wire::LowerNameBuf, Option<&report::ConfigPlace>)> {
        self.query_access.iter().flat_map(|block| block.keys())
    }

    /// Returns the TSIG keys that groups of clients name, with their places.
    pub fn group_keys(&self) -> impl Iterator<Item = (wire::LowerNameBuf, Option<&report::ConfigPlace>)> {
        self.groups.iter().flat_map(|group| group.keys())
    }

    /// Returns the size of the tables of what policies block most; 0 without recursive service.
    pub fn policy_top(&self) -> usize {
        if self.resolver.is_some() { self.policy.top.0 } else { 0 }
    }

    /// Returns the rules of views on a machine with these interfaces.
    pub fn view_rules(&self, interfaces: &interfaces::Interfaces) -> ViewRules {
        views::rules(&self.views, interfaces)
    }

    /// Returns the settings of response policy zones.
    pub fn policy_zones(&self) -> PolicyZonesConfig {
        policy_zones::config(&self.policy.zones, &self.policy_zones)
    }

    /// Reads the files that `[resolver]` with its rules, `[[certificate]]`, `[odoh]`, `client-ca-file`,
    /// `[[api.token]]` and `[database]` name, and those of session tickets.
    ///
    /// # Errors
    /// All faults in them, with file, line and column.
    pub fn read_named_files(&mut self) -> Result<(), Vec<Diagnostic>> {
        let mut faults = Vec::new();
        if let Some(resolver) = &mut self.resolver {
            faults.extend(resolver.value.read_files().err().unwrap_or_default());
            faults.extend(resolver::asking::read_authorities(&mut self.forwards, &mut self.stubs));
        }
        faults.extend(certificates::read_files(&mut self.certificates));
        faults.extend(self.server.value.tickets.read_files());
        faults.extend(self.odoh.iter_mut().flat_map(|odoh| odoh.value.read_files()));
        faults.extend(self.server.value.client_certificates.read_file());
        faults.extend(api::read_hash_files(&mut self.api_tokens));
        faults.extend(self.database.as_mut().and_then(|database| database.value.read_file()));
        faults.extend(self.acme.as_mut().and_then(|acme| acme.value.read_file()));
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    /// Returns the certificates that were read.
    pub fn certificates(&self) -> Vec<Arc<ServerCertificate>> {
        certificates::of(&self.certificates)
    }

    /// Returns the files of certificates and keys, in pairs.
    pub fn certificate_files(&self) -> Vec<(PathBuf, PathBuf)> {
        certificates::files(&self.certificates)
    }

    /// Returns the keys of session tickets that were read; none if they are random.
    pub fn ticket_keys(&self) -> Vec<Arc<TicketKeys>> {
        self.server.tickets.keys()
    }

    /// Returns the files of the keys of session tickets.
    pub fn ticket_key_files(&self) -> Vec<PathBuf> {
        self.server.tickets.paths()
    }

    /// Returns the files of the keys of Oblivious DoH.
    fn oblivious_key_files(&self) -> impl Iterator<Item = PathBuf> {
        self.odoh.iter().flat_map(|odoh| odoh.paths())
    }

    /// Whether a listener of DNS or of the API has TLS.
    pub fn has_tls(&self) -> bool {
        self.listens.iter().any(|listen| listen.has_tls()) || self.api.iter().any(|api| api.has_tls())
    }

    /// Returns a warning for each certificate that has expired or soon will, is not valid yet, or has a key
    /// that all users may read, the same about keys of session tickets, and one for each
    /// of these settings that no listener uses.
    pub fn encryption_warnings(&self, now: SystemTime) -> Vec<Diagnostic> {
        let mut warnings = certificates::warnings(&self.certificates, self.has_tls(), now);
        warnings.extend(self.server.tickets.warnings(self.has_tls()));
        warnings.extend(self.odoh.iter().flat_map(|odoh| OdohSection::warnings(odoh, &self.listens)));
        warnings.extend(self.acme.iter().filter_map(|acme| AcmeSection::warning(acme, &self.listens)));
        warnings.extend(self.discovery_warning());
        warnings
    }

    /// Returns the settings of the listeners.
    pub fn net_config(&self) -> net::ListenerConfig {
        self.server.net_config()
    }

    /// Returns the settings of the engine.
    pub fn engine_config(&self) -> query_path::EngineConfig {
        query_path::EngineConfig { keepalive: self.server.tcp.keepalive(), ..self.server.answers.config() }
    }

    /// Returns the settings for answers from zones.
    pub fn zones_config(&self) -> query_path::ZonesConfig {
        query_path::ZonesConfig {
            max_chain: self.server.answers.max_chain.0,
            count_per_zone: self.counts_per_zone(),
            nsec3_rounds: self.server.answers.nsec3_rounds.0,
        }
    }

    /// Returns a warning for each resolver rule whose domain is one of these zones.
    pub fn shadowed_rules<'z>(&self, zones: impl Iterator<Item = Name<'z>>) -> Vec<Diagnostic> {
        match &self.resolver {
            Some(_) => resolver::shadowed(&self.forwards, &self.stubs, zones),
            None => Vec::new(),
        }
    }

    /// Returns the rules of recursive service whose domains are inside these zones.
    pub fn inner_rules<'z>(&self, zones: impl Iterator<Item = Name<'z>>) -> InnerRules {
        match &self.resolver {
            Some(_) => InnerRules::of(&self.forwards, &self.stubs, zones),
            None => InnerRules::default(),
        }
    }

    /// Returns warnings about settings that are allowed but probably not intended. `passed`: sockets are, or
    /// may be, passed to the server, which listens on them if the configuration has no address; other
    /// machines may reach them.
    pub fn warnings(&self, passed: bool) -> Vec<Diagnostic> {
        let mut addresses = self.listens.iter().flat_map(|listen| listen.addr.iter());
        let reached_by = match self.names_addresses() {
            true => addresses.any(|addr| !addr.value.0.ip().is_loopback()).then_some(""),
            false => passed.then_some(", on the sockets that systemd passes"),
        };
        let mut warnings = match (&self.resolver, reached_by) {
            (Some(_), Some(reached_by)) => resolver::access_warnings(&self.access, reached_by),
            _ => Vec::new(),
        };
        if self.resolver.is_some() {
            warnings.extend(resolver::asking::warnings(&self.forwards, &self.stubs));
        }
        warnings.extend(self.server.proxies.warnings());
        warnings.extend(self.server.http_proxies.warnings());
        warnings.extend(lists::warnings(&self.lists, self.server.storage.folder().is_some()));
        warnings
    }

    /// Returns the sockets to listen on.
    pub fn sockets(&self) -> Vec<ListenSocket<'_>> {
        listen::sockets(&self.listens)
    }

    /// Returns whether queries are counted for each zone.
    pub fn counts_per_zone(&self) -> bool {
        self.metrics.as_ref().is_some_and(|metrics| *metrics.per_zone)
    }
}

/// A part of the server that a reload updates.
pub trait Adopt: Send + Sync {
    /// Takes over the settings, all of which are now in force.
    fn adopt(&self, settings: &Settings);
}

#[cfg(test)]
mod tests;
