//! `nomen serve`: opens sockets, gives up root, loads zones, answers, and shuts down in order. The order
//! matters: sockets first, then privileges, then everything that reads untrusted data.
//!
//! `trial` checks what a start needs of the system; `passed` finds the listener of each socket that systemd
//! or the previous server passes.

mod passed;
mod sockets;
mod take_over;
pub mod trial;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::Engine;
use tokio::runtime::Runtime;
use tracing::{info, warn};
use wire::hash::HashKey;

use crate::builtin;
use crate::control::{self, Socket};
use crate::heap;
use crate::in_force::{ConfigSource, InForce, Prepared};
use crate::metrics::{self, Shown, figures};
use crate::page::StatusPage;
use crate::parts::Parts;
use crate::signals::{self, Signals};
use config::Adopt;
use config::Settings;
use config::exit_status::{EXIT_FAULTS, EXIT_OK, EXIT_OUTSIDE};
use config::report::exit_code;
use config::resolver::InnerRules;
use passed::PassedSockets;
use serving::descriptors;
use serving::frontend::{Frontend, Served};
use serving::recursive::{LocalRoot, Recursive, plan};
use sockets::Sockets;
use telemetry::dnstap::Dnstap;
use telemetry::logging::{self, Logging};
use telemetry::process::Process;
use telemetry::repeated;
use threads::background::Background;
use zone_manager::changes::Changes;
use zone_manager::managed::publishing::PublishHandle;
use zone_manager::managed::table::ZoneStates;
use zone_manager::secondaries::Secondaries;
use zone_manager::stores::differences::Differences;
use zone_manager::stores::produced::ProducedStores;
use zone_manager::transfers::{Histories, Transfers};
use zone_manager::zones::images::{Images, StateFolder};
use zone_manager::zones::manager::{
    AcceptZones, ZoneManager, ZoneManagerHandle, ZoneManagerInbox, ZoneManagerParts, ZoneTable,
};
use zone_manager::zones::resolve::WantedZones;

/// How a server is started.
#[derive(Debug)]
pub struct ServeOptions {
    /// The configuration.
    pub source: ConfigSource,
    /// Do not start unless every zone loads.
    pub strict: bool,
    /// Take the listening sockets of the server that runs with this configuration.
    pub take_over: bool,
    /// Store the listening sockets with systemd.
    pub store_sockets: bool,
}

/// Why the server did not start: a text for the operator and the exit code.
struct StartFault(String, u8);

/// Runs the server until it is stopped; returns the exit code.
pub fn run(options: &ServeOptions) -> u8 {
    // Before any thread starts, since each thread would occupy huge pages in part.
    heap::use_small_pages();
    match start(options) {
        Ok(()) => EXIT_OK,
        Err(StartFault(message, code)) => {
            eprintln!("nomen: {}", message.trim_end());
            code
        }
    }
}

fn outside(message: String) -> StartFault {
    StartFault(message, EXIT_OUTSIDE)
}

/// Returns the sockets that systemd or the previous server passes.
fn passed_sockets(options: &ServeOptions, settings: &Settings) -> Result<PassedSockets, StartFault> {
    let taken = match options.take_over {
        true => take_over::take_over(settings.control.socket.value.as_deref()).map_err(outside)?,
        false => None,
    };
    PassedSockets::take(settings, taken).map_err(|fault| outside(fault.with_hint()))
}

/// Starts the zone manager's thread.
fn keep_zones(zones: ZoneManager) -> Result<(), StartFault> {
    let thread = std::thread::Builder::new().name("zones".into());
    let started = thread.spawn(move || zones.work()).map(drop);
    started.map_err(|e| outside(format!("cannot start the thread that keeps zones: {e}")))
}

fn start(options: &ServeOptions) -> Result<(), StartFault> {
    let process = Process::start();
    let source = options.source.clone();
    let prepared = source.prepare(None).map_err(|rejected| {
        StartFault(format!("the configuration cannot be used\n\n{rejected}"), exit_code(&rejected.faults))
    })?;
    let passed = passed_sockets(options, &prepared.settings)?;
    let stores_sockets = options.store_sockets && !passed.by_manager();
    let sockets = Sockets::open(&prepared.settings, source.is_built_in(), passed).map_err(outside)?;
    // Dropped at the end of this function, so that the last log lines are written.
    let (logging, _log_writers) =
        logging::start(&prepared.settings.log).map_err(|fault| outside(fault.to_string()))?;
    sockets.notes.iter().for_each(|note| warn!("{note}"));
    let inner_rules = warn_of(&prepared.settings, &prepared.zones, sockets.are_passed);
    let Assembled { mut zones, wanted, parts } = assemble(source, prepared, logging, process)?;
    let runtime = runtime()?;
    let no_signals = |e| outside(format!("cannot catch signals: {e}"));
    let mut signals = runtime.block_on(async { Signals::catch_hangup() }).map_err(no_signals)?;

    load_first(&mut zones, wanted, options.strict)?;
    let frontend = &parts.frontend;
    warn_of_idle_rules(&frontend.engine, &inner_rules);
    // From the first query on, a stop is in order: clients that wait are answered, sockets are stored.
    runtime.block_on(async { signals.catch_stop() }).map_err(no_signals)?;
    frontend.serve(sockets.dns).map_err(|e| outside(e.to_string()))?;
    if stores_sockets {
        store_sockets(frontend);
    }
    keep_zones(zones)?;
    telemetry::systemd::notify_ready(&parts.table.in_words());
    info!(version = env!("CARGO_PKG_VERSION"), pid = std::process::id(), "serving");
    greet(&parts.in_force.source, &frontend.addresses());
    attend(parts, runtime, signals, sockets.control, sockets.metrics).map_err(outside)
}

/// All parts of the server, not serving yet.
struct Assembled {
    zones: ZoneManager,
    /// The zones to load first.
    wanted: WantedZones,
    parts: Parts,
}

/// Makes the parts of the server and connects them.
fn assemble(
    source: ConfigSource,
    Prepared { settings, zones: wanted }: Prepared,
    logging: Logging,
    process: Process,
) -> Result<Assembled, StartFault> {
    let built_in = source.is_built_in();
    let (key, images) = open_state(&settings, built_in);
    let frontend = start_frontend(&key, &settings, &logging)?;
    let state = settings.server.storage.folder().filter(|_| !built_in);
    let (local_root, background) = (Arc::new(LocalRoot::default()), Background::new());
    let recursive = start_recursive(&frontend, &settings, state.as_deref(), &local_root)?;
    let ((manager, inbox), table) = (ZoneManagerHandle::new(), Arc::<ZoneTable>::default());
    let of_secondaries = (state.as_deref(), &background, (manager.publishing(), Arc::clone(&local_root)));
    let secondaries = start_secondaries(&frontend, &settings, &wanted, of_secondaries)?;
    let of_changes = (&background, (manager.publishing(), Arc::clone(table.states())));
    let changes = start_changes(&frontend, &settings, &wanted, built_in, of_changes)?;
    secondaries.forward_updates(&frontend.engine);
    let differences = state.as_deref().and_then(|state| open_differences(state, &background));
    let produced = Arc::<ProducedStores>::default();
    let histories = Histories {
        changes: changes.clone(),
        differences: differences.clone(),
        secondaries: Arc::clone(&secondaries),
        produced: Arc::clone(&produced),
    };
    let transfers = Transfers::start(&frontend.engine, &settings, histories);
    let logging = Arc::new(logging);
    let always: [Arc<dyn Adopt>; 4] =
        [frontend.clone(), logging.clone(), transfers.clone(), secondaries.clone()];
    let adopting = adopting(always, changes.as_ref(), frontend.dnstap.as_ref(), recursive.as_ref());
    let in_force = Arc::new(InForce::new(source, settings, adopting));
    let parts = Parts {
        frontend,
        table,
        manager,
        images,
        recursive,
        transfers,
        secondaries,
        changes,
        differences,
        in_force,
        logging,
        process,
        background,
        connections: Arc::default(),
    };
    let zones = start_manager(&parts, inbox, (local_root, produced, state))?;
    Ok(Assembled { zones, wanted, parts })
}

/// Returns the zone manager, whose thread does not run yet.
fn start_manager(
    parts: &Parts,
    inbox: ZoneManagerInbox,
    (local_root, produced, state): (Arc<LocalRoot>, Arc<ProducedStores>, Option<PathBuf>),
) -> Result<ZoneManager, StartFault> {
    let in_force = Arc::clone(&parts.in_force);
    let parts_of = ZoneManagerParts {
        engine: Arc::clone(&parts.frontend.engine),
        table: Arc::clone(&parts.table),
        prepare: Box::new(move |accept: &AcceptZones<'_>| in_force.renew(accept)),
        images: parts.images.clone(),
        secondaries: Some(Arc::clone(&parts.secondaries)),
        transfers: Some(Arc::clone(&parts.transfers)),
        changes: parts.changes.clone(),
        differences: parts.differences.clone(),
        local_root: Some(local_root),
        produced,
        state,
        background: Arc::clone(&parts.background),
    };
    let started = ZoneManager::start(&parts.manager, inbox, parts_of);
    started.map_err(|e| outside(format!("cannot start the thread that puts zones into service: {e}")))
}

/// Returns the parts that a reload updates.
fn adopting(
    always: [Arc<dyn Adopt>; 4],
    changes: Option<&Arc<Changes>>,
    dnstap: Option<&Arc<Dnstap>>,
    recursive: Option<&Arc<Recursive>>,
) -> Vec<Arc<dyn Adopt>> {
    let mut all = always.to_vec();
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

/// Starts recursive service, if it is on.
fn start_recursive(
    frontend: &Frontend,
    settings: &Settings,
    state: Option<&Path>,
    local_root: &Arc<LocalRoot>,
) -> Result<Option<Arc<Recursive>>, StartFault> {
    let Some(plan) = plan(settings) else { return Ok(None) };
    let local_root = Arc::clone(local_root);
    let started = Recursive::start(plan, &frontend.engine, frontend.dnstap.clone(), state, local_root);
    started.map(Some).map_err(|fault| outside(fault.to_string()))
}

/// Returns the runtime for control, metrics and signals.
fn runtime() -> Result<Runtime, StartFault> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(8)
        .build()
        .map_err(|e| outside(format!("cannot start the administration thread: {e}")))
}

/// Starts dynamic updates if there is a state folder to store them in. An unusable folder is an error only if
/// zones would be served without acknowledged updates, or allowed updates would be refused.
fn start_changes(
    frontend: &Frontend,
    settings: &Settings,
    wanted: &WantedZones,
    built_in: bool,
    (background, zones): (&Arc<Background>, (PublishHandle, Arc<ZoneStates>)),
) -> Result<Option<Arc<Changes>>, StartFault> {
    let Some(state) = settings.server.storage.folder().filter(|_| !built_in) else { return Ok(None) };
    match Changes::start(&frontend.engine, settings, &state, background, zones) {
        Ok(changes) => {
            changes.allow(&wanted.updates);
            Ok(Some(changes))
        }
        Err(fault) if wanted.updates.is_empty() && !Changes::are_in(&state) => {
            warn!("no dynamic updates: {fault}");
            Ok(None)
        }
        Err(fault) => Err(outside(fault.to_string())),
    }
}

/// Stores the listening sockets with the service manager, which passes them to the next server.
fn store_sockets(frontend: &Frontend) {
    match frontend.sockets().and_then(|sockets| telemetry::systemd::store(passed::STORED, &sockets)) {
        Ok(true) => frontend.leave_unread(),
        Ok(false) => {}
        Err(e) => warn!("a restart may lose queries: the service manager does not store the sockets: {e}"),
    }
}

/// Opens the store of the differences of zone files. Without it, changed zone files are transferred in full.
fn open_differences(state: &Path, background: &Arc<Background>) -> Option<Arc<Differences>> {
    let opened = Differences::open(state, background);
    opened.inspect_err(|fault| warn!("what changes in zone files is not kept for IXFR: {fault}")).ok()
}

/// Starts secondary zones, which are stored in the state folder if there is one.
fn start_secondaries(
    frontend: &Frontend,
    settings: &Settings,
    wanted: &WantedZones,
    (state, background, zones): (Option<&Path>, &Arc<Background>, (PublishHandle, Arc<LocalRoot>)),
) -> Result<Arc<Secondaries>, StartFault> {
    if state.is_none() && wanted.peers.any_taken() {
        warn!(
            "zones from primaries are not kept on disk, a restart transfers them again: set `state-dir` in \
            [server]"
        );
    }
    let started = Secondaries::start(&frontend.engine, settings, state, background, zones);
    started.map_err(|fault| outside(fault.to_string()))
}

/// Prints commands to try, if there is no configuration file.
fn greet(source: &ConfigSource, addresses: &[SocketAddr]) {
    let greeting = match source {
        ConfigSource::File(_) => return,
        ConfigSource::BuiltIn => builtin::greeting(addresses),
        ConfigSource::Forward(servers) => builtin::forwarder_greeting(addresses, servers),
        ConfigSource::Resolve => builtin::resolver_greeting(addresses),
    };
    // Standard output may be closed.
    let _ = io::stdout().write_all(greeting.as_bytes());
}

/// Logs what the configuration allows but probably does not intend. Returns the rules inside zones: which of
/// them never apply is known when the zones are loaded.
fn warn_of(settings: &Settings, wanted: &WantedZones, passed: bool) -> InnerRules {
    let names = || wanted.specs.iter().map(|spec| spec.name());
    let shadowed = settings.shadowed_rules(names());
    settings.warnings(passed).iter().chain(&shadowed).for_each(|warning| warn!("{}", warning.message));
    settings.inner_rules(names())
}

/// Logs which rules of recursive service never apply, since they are inside zones that do not delegate their
/// names.
fn warn_of_idle_rules(engine: &Engine<Served>, rules: &InnerRules) {
    let catalog = engine.catalog();
    let zones = rules.zones().filter_map(|zone| catalog.get(zone)?.zone());
    zones.flat_map(|zone| rules.idle(zone)).for_each(|warning| warn!("{}", warning.message));
}

/// Loads the zones for the first time.
fn load_first(zones: &mut ZoneManager, wanted: WantedZones, strict: bool) -> Result<(), StartFault> {
    telemetry::systemd::notify_loading();
    let summary = zones.load_first(wanted);
    info!(
        zones = summary.zones,
        loaded = summary.loaded,
        failed = summary.failed,
        refused = summary.refused,
        milliseconds = summary.milliseconds,
        "zones loaded"
    );
    match summary.complaint() {
        Some(complaint) if strict => Err(StartFault(format!("{complaint} (--strict)"), EXIT_FAULTS)),
        _ => Ok(()),
    }
}

/// Returns the hash key, and the images that were made under it if they are wanted. Without a usable state
/// folder the key is new and there are no images.
fn open_state(settings: &Settings, built_in: bool) -> (HashKey, Option<Arc<Images>>) {
    let storage = &settings.server.storage;
    let folder = storage.folder().filter(|_| *storage.images && !built_in);
    let Some(folder) = folder else { return (HashKey::random(), None) };
    let opened = StateFolder::open(&folder).map_err(|fault| fault.to_string()).and_then(|state| {
        let key = state.key;
        let images = Images::start(state, storage.image_min_records.0);
        images.map(|images| (key, Some(Arc::new(images)))).map_err(|e| format!("cannot start a thread: {e}"))
    });
    opened.unwrap_or_else(|fault| {
        warn!("zones are read from text, their images are not used: {fault}");
        (HashKey::random(), None)
    })
}

/// Serves control and metrics, handles signals, and shuts the service down in order.
fn attend(
    parts: Parts,
    runtime: Runtime,
    signals: Signals,
    control: Option<Socket>,
    metrics: Option<TcpListener>,
) -> Result<(), String> {
    let path = control.as_ref().map(|c| c.path.clone());
    let Parts { frontend, manager, recursive, secondaries, changes, differences, logging, .. } =
        parts.clone();
    let result = runtime.block_on(async {
        let (stop, mut stopped) = tokio::sync::mpsc::channel(1);
        if let Some(socket) = metrics {
            let listener = tokio::net::TcpListener::from_std(socket)
                .map_err(|e| format!("cannot use the metrics socket: {e}"))?;
            let page = StatusPage::new(parts.clone());
            tokio::spawn(Arc::clone(&page).watch());
            let (figures, in_force) = (figures(&parts), Arc::clone(&parts.in_force));
            let connections = Arc::clone(&parts.connections.metrics);
            tokio::spawn(metrics::serve(Shown { figures, page, in_force, connections }, listener));
        }
        if let Some(socket) = control {
            let listener = socket.into_tokio().map_err(|e| format!("cannot use the control socket: {e}"))?;
            tokio::spawn(control::serve(Arc::new(parts), listener, stop));
        }
        let (of_resolver, of_zones) = (recursive.clone(), Arc::clone(&secondaries));
        tokio::spawn(descriptors::watch(move || {
            let of_resolver =
                of_resolver.as_ref().map_or(0, |recursive| recursive.link_counts().exhausted.get());
            of_resolver + of_zones.link_counts().exhausted.get()
        }));
        tokio::spawn(signals::feed_watchdog(Arc::clone(&frontend)));
        let why = tokio::select! {
            signal = signals.until_stopped(&manager, &logging, frontend.dnstap.as_deref()) => signal,
            Some(why) = stopped.recv() => why,
        };
        info!("{why}: answering what has arrived, then stopping");
        telemetry::systemd::notify_stopping();
        tokio::spawn(signals::exit_at_next());
        // Joining blocks, and the second stop signal must still be handled.
        let drain = move || {
            // From here on, new packets on passed sockets are left for the next server, which can do all that
            // this one ceases to do.
            frontend.let_go();
            // Accepted updates are put into service, and their clients are answered.
            changes.iter().for_each(|changes| changes.stop());
            manager.stop();
            // Clients that wait for lookups are answered before the listeners end.
            recursive.iter().for_each(|recursive| recursive.stop());
            secondaries.stop();
            differences.iter().for_each(|differences| differences.flush());
            frontend.drain();
        };
        tokio::task::spawn_blocking(drain).await.map_err(|e| format!("stopping failed: {e}"))
    });
    if let Some(path) = path {
        // This user may not change the folder any more; a stale socket is replaced at the next start.
        let _ = std::fs::remove_file(path);
    }
    runtime.shutdown_background();
    repeated::log_all();
    info!("stopped");
    result
}
