//! Makes the parts of the server and connects them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::database::DatabaseSettings;
use tracing::warn;
use wire::hash::HashKey;
use zone_plan::WantedZones;

use super::{StartFault, database, outside};
use crate::config_source::{ConfigSource, Prepared};
use api::documents::ZoneDocuments;
use config::Adopt;
use config::Settings;
use control::in_force::InForce;
use control::parts::ServerParts;
use control::rates::RateHistory;
use control::tokens::TokenTable;
use serving::frontend::Frontend;
use serving::issuing::Issuing;
use serving::parental::ParentalHosts;
use serving::recursive::{LocalRoot, PolicyZones, Recursive, plan};
use telemetry::dnstap::Dnstap;
use telemetry::logging::Logging;
use telemetry::process::Process;
use threads::background::Background;
use zone_manager::challenges::ZonesForChallenges;
use zone_manager::changes::Changes;
use zone_manager::secondaries::Secondaries;
use zone_manager::stores::differences::Differences;
use zone_manager::stores::produced::ProducedStores;
use zone_manager::transfers::{Histories, Transfers};
use zone_manager::zones::images::{Images, StateFolder};
use zone_manager::zones::manager::{
    AcceptZones, ZoneManager, ZoneManagerHandle, ZoneManagerInbox, ZoneManagerParts, ZoneTable,
};

/// All parts of the server, not serving yet.
pub(super) struct Assembled {
    pub(super) zones: ZoneManager,
    /// The zones to load first.
    pub(super) wanted: WantedZones,
    pub(super) parts: ServerParts,
    /// Documents about zones, for the API.
    pub(super) documents: Arc<ZoneDocuments>,
    /// The connection to start, if there is a database.
    pub(super) database: Option<DatabaseSettings>,
}

/// Makes the parts of the server and connects them.
pub(super) fn assemble(
    source: &ConfigSource,
    Prepared { settings, zones: wanted, sections: shared, .. }: Prepared,
    logging: Logging,
    process: Process,
) -> Result<Assembled, StartFault> {
    let state = settings.server.storage.folder().filter(|_| !source.is_built_in());
    let HashState { key, images } = open_state(&settings, state.as_deref());
    let frontend = start_frontend(&key, &settings, &logging)?;
    let (manager, inbox) = ZoneManagerHandle::new();
    let basis = Basis {
        settings: &settings,
        wanted: &wanted,
        state: state.as_deref(),
        frontend: &frontend,
        manager,
        table: Arc::default(),
        local_root: Arc::default(),
        policy_zones: Arc::default(),
        background: Background::new(),
    };
    let recursive = basis.start_recursive()?;
    let secondaries = basis.start_secondaries()?;
    let changes = basis.start_changes()?;
    let database = basis.open_database(changes.as_ref())?;
    secondaries.forward_updates(&frontend.engine);
    if let Some(changes) = &changes {
        changes.ask_parents_by(ParentalHosts::new(recursive.as_ref()));
        take_child_notifies(changes, &secondaries);
    }
    let differences = basis.open_differences();
    let Basis { manager, table, local_root, policy_zones, background, .. } = basis;
    let (logging, produced) = (Arc::new(logging), Arc::<ProducedStores>::default());
    let histories = histories(changes.as_ref(), differences.as_ref(), &secondaries, &produced);
    let transfers = Transfers::start(&frontend.engine, &settings, histories);
    let issuing = issuing(&settings, &frontend, recursive.as_ref(), changes.as_ref());
    // The frontend reads the stored certificate before its renewal is planned.
    let tokens = TokenTable::new(&settings);
    let rates = RateHistory::new(process.since, Arc::clone(&frontend), recursive.clone());
    let always: [Arc<dyn Adopt>; 4] = [frontend.clone(), issuing.clone(), logging.clone(), transfers.clone()];
    let always = always.into_iter().chain([secondaries.clone() as Arc<dyn Adopt>, tokens.clone()]);
    let adopting = adopting(always, changes.as_ref(), frontend.dnstap.as_ref(), recursive.as_ref());
    let sections = database::sections(&settings, state.as_deref(), shared);
    let in_force = Arc::new(InForce::new(source.to_string(), settings, adopting));
    let parts = ServerParts {
        frontend,
        issuing,
        table,
        manager,
        images,
        recursive,
        transfers,
        secondaries,
        changes,
        sections,
        differences,
        in_force,
        logging,
        rates,
        process,
        background,
        tokens,
        api_figures: Arc::default(),
        connections: Arc::default(),
    };
    let documents = Arc::new(ZoneDocuments::new(state.as_deref()));
    let (stored, copies) = ((state, Arc::clone(&documents)), (local_root, policy_zones));
    let zones = start_manager(&parts, source.clone(), inbox, copies, produced, stored)?;
    Ok(Assembled { zones, wanted, parts, documents, database })
}

/// Has NOTIFYs for delegations lead to checks.
fn take_child_notifies(changes: &Changes, secondaries: &Secondaries) {
    if let Some(delegations) = changes.delegations().cloned() {
        let take = move |name: &_, rtype| delegations.notified(name, rtype);
        secondaries.take_child_notifies_by(Box::new(take));
    }
}

/// Returns the certificate that a CA issues. Its challenges change zones, if zones can be changed.
fn issuing(
    settings: &Settings,
    frontend: &Frontend,
    recursive: Option<&Arc<Recursive>>,
    changes: Option<&Arc<Changes>>,
) -> Arc<Issuing> {
    let issuing = Issuing::new(settings, &frontend.certificates, recursive, &frontend.engine);
    let zones = changes.map(ZonesForChallenges::new);
    zones.into_iter().for_each(|zones| issuing.change_zones_by(Arc::new(zones)));
    issuing
}

/// Returns where changes of zones are stored.
fn histories(
    changes: Option<&Arc<Changes>>,
    differences: Option<&Arc<Differences>>,
    secondaries: &Arc<Secondaries>,
    produced: &Arc<ProducedStores>,
) -> Histories {
    Histories {
        changes: changes.cloned(),
        differences: differences.cloned(),
        secondaries: Arc::clone(secondaries),
        produced: Arc::clone(produced),
    }
}

/// What several parts of the server are made with.
struct Basis<'b> {
    settings: &'b Settings,
    wanted: &'b WantedZones,
    /// The state folder, if there is one.
    state: Option<&'b Path>,
    frontend: &'b Frontend,
    manager: ZoneManagerHandle,
    table: Arc<ZoneTable>,
    local_root: Arc<LocalRoot>,
    policy_zones: Arc<PolicyZones>,
    background: Arc<Background>,
}

impl Basis<'_> {
    /// Starts recursive service, if it is on.
    fn start_recursive(&self) -> Result<Option<Arc<Recursive>>, StartFault> {
        let Some(plan) = plan(self.settings) else { return Ok(None) };
        let (frontend, local_root) = (self.frontend, Arc::clone(&self.local_root));
        let (dnstap, policy_zones) = (frontend.dnstap.clone(), Arc::clone(&self.policy_zones));
        let started = Recursive::start(plan, &frontend.engine, dnstap, self.state, local_root, policy_zones);
        started.map(Some).map_err(|fault| outside(fault.to_string()))
    }

    /// Starts secondary zones, which are stored in the state folder if there is one.
    fn start_secondaries(&self) -> Result<Arc<Secondaries>, StartFault> {
        let Self { settings, wanted, state, frontend, background, .. } = self;
        if state.is_none() && wanted.peers.any_taken() {
            warn!(
                "zones from primaries are not stored on disk, a restart transfers them again: set `state-dir` \
                in [server]"
            );
        }
        let (publishing, local_root) = (self.manager.publishing(), Arc::clone(&self.local_root));
        let started =
            Secondaries::start(&frontend.engine, settings, *state, background, publishing, local_root);
        started.map_err(|fault| outside(fault.to_string()))
    }

    /// Opens what the state folder has of the zones of the database, if there is one. Returns the settings of
    /// its connection.
    fn open_database(&self, changes: Option<&Arc<Changes>>) -> Result<Option<DatabaseSettings>, StartFault> {
        let Some(section) = &self.settings.database else { return Ok(None) };
        let settings = database::settings(section, self.frontend.engine.key(), self.state)?;
        database::open(self.state, changes, &self.background)?;
        Ok(Some(settings))
    }

    /// Starts dynamic updates if there is a state folder to store them in. An unusable folder is an error
    /// only if zones would be served without acknowledged updates, or allowed updates would be refused.
    fn start_changes(&self) -> Result<Option<Arc<Changes>>, StartFault> {
        let Self { settings, wanted, frontend, background, .. } = self;
        let Some(state) = self.state else { return Ok(None) };
        let (publishing, states) = (self.manager.publishing(), Arc::clone(self.table.states()));
        match Changes::start(&frontend.engine, settings, state, background, publishing, states) {
            Ok(changes) => {
                changes.allow(&wanted.updates);
                Ok(Some(changes))
            }
            Err(fault) if wanted.updates.is_empty() && !Changes::are_in(state) => {
                warn!("no dynamic updates: {fault}");
                Ok(None)
            }
            Err(fault) => Err(outside(fault.to_string())),
        }
    }

    /// Opens the store of the differences of zone files. Without it, changed zone files are transferred in
    /// full.
    fn open_differences(&self) -> Option<Arc<Differences>> {
        let opened = Differences::open(self.state?, &self.background);
        opened.inspect_err(|fault| warn!("differences of zone files are not stored for IXFR: {fault}")).ok()
    }
}

/// Returns the zone manager, whose thread does not run yet.
fn start_manager(
    parts: &ServerParts,
    source: ConfigSource,
    inbox: ZoneManagerInbox,
    (local_root, policy_zones): (Arc<LocalRoot>, Arc<PolicyZones>),
    produced: Arc<ProducedStores>,
    (state, documents): (Option<PathBuf>, Arc<ZoneDocuments>),
) -> Result<ZoneManager, StartFault> {
    let in_force = Arc::clone(&parts.in_force);
    let shared = database::config_of(parts, &source);
    let parts_of = ZoneManagerParts {
        engine: Arc::clone(&parts.frontend.engine),
        table: Arc::clone(&parts.table),
        prepare: Box::new(move |accept: &AcceptZones<'_>| source.renew(&in_force, shared.as_ref(), accept)),
        images: parts.images.clone(),
        secondaries: Some(Arc::clone(&parts.secondaries)),
        transfers: Some(Arc::clone(&parts.transfers)),
        changes: parts.changes.clone(),
        differences: parts.differences.clone(),
        local_root: Some(local_root),
        policy_zones: Some(policy_zones),
        produced,
        state,
        documents: Some(documents),
        background: Arc::clone(&parts.background),
    };
    let started = ZoneManager::start(&parts.manager, inbox, parts_of);
    started.map_err(|e| outside(format!("cannot start the thread that puts zones into service: {e}")))
}

/// Returns the parts that a reload updates.
fn adopting(
    always: impl Iterator<Item = Arc<dyn Adopt>>,
    changes: Option<&Arc<Changes>>,
    dnstap: Option<&Arc<Dnstap>>,
    recursive: Option<&Arc<Recursive>>,
) -> Vec<Arc<dyn Adopt>> {
    let mut all: Vec<_> = always.collect();
    all.extend(changes.map(|part| Arc::clone(part) as Arc<dyn Adopt>));
    all.extend(dnstap.map(|part| Arc::clone(part) as Arc<dyn Adopt>));
    all.extend(recursive.map(|part| Arc::clone(part) as Arc<dyn Adopt>));
    all
}

/// Starts the frontend with its logs, without listeners.
fn start_frontend(
    key: &HashKey,
    settings: &Settings,
    logging: &Logging,
) -> Result<Arc<Frontend>, StartFault> {
    let dnstap = settings.dnstap.as_ref().and_then(|dnstap| dnstap.config()).map(Dnstap::start).transpose();
    let dnstap = dnstap.map_err(|fault| outside(fault.to_string()))?.map(Arc::new);
    let frontend = Frontend::new(key, settings, logging.query_file().cloned(), dnstap);
    frontend.map(Arc::new).map_err(|e| outside(format!("cannot start the query log: {e}")))
}

/// The hash key, and the images that were made under it if they are wanted.
struct HashState {
    key: HashKey,
    images: Option<Arc<Images>>,
}

/// Opens the state folder for images. Without a usable folder the key is new and there are no images.
fn open_state(settings: &Settings, state: Option<&Path>) -> HashState {
    let storage = &settings.server.storage;
    let without = || HashState { key: HashKey::random(), images: None };
    let Some(folder) = state.filter(|_| *storage.images) else { return without() };
    let opened = StateFolder::open(folder).map_err(|fault| fault.to_string()).and_then(|state| {
        let key = state.key;
        let images = Images::start(state, storage.image_min_records.0).map(Arc::new);
        images
            .map(|images| HashState { key, images: Some(images) })
            .map_err(|e| format!("cannot start a thread: {e}"))
    });
    opened.unwrap_or_else(|fault| {
        warn!("zones are read from text, their images are not used: {fault}");
        without()
    })
}
