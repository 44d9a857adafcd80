//! `nomen serve`: opens sockets, gives up root, loads zones, answers, and shuts down in order. The order
//! matters: sockets first, then privileges, then everything that reads untrusted data.
//!
//! `assemble` makes the parts and connects them; `database` starts the connection to the database;
//! `opening` has the listeners answer;
//! `confinement` finds what the sandbox lets them read; `trial` checks what a start needs of the system;
//! `passed` finds the listener of each socket that systemd or the previous server passes.

mod assemble;
pub mod confinement;
mod database;
mod opening;
mod passed;
mod sockets;
mod take_over;
pub mod trial;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::SystemTime;

use query_path::Engine;
use tokio::runtime::Runtime;
use tracing::{info, warn};
use zone_plan::WantedZones;

use crate::builtin;
use crate::config_source::ConfigSource;
use crate::heap;
use crate::signals::{self, Signals};
use api::documents::ZoneDocuments;
use api::parts::ApiParts;
use assemble::{Assembled, assemble};
use config::Settings;
use config::exit_status::{EXIT_FAULTS, EXIT_OK, EXIT_OUTSIDE};
use config::report::exit_code;
use config::resolver::InnerRules;
use config::table::value::AddrPort;
use control::challenges;
use control::http::{self, HttpService};
use control::listener;
use control::metrics::figures;
use control::parts::ServerParts;
use control::readiness::lacks_first_zones;
use control::socket::Socket;
use opening::{Opening, announce};
use passed::PassedSockets;
use serving::descriptors;
use serving::frontend::{Served, certificates, oblivious};
use serving::issuing;
use sockets::Sockets;
use telemetry::logging;
use telemetry::process::Process;
use telemetry::repeated;
use zone_manager::zones::manager::ZoneManager;

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

/// Why the server did not start.
struct StartFault {
    /// The text for the operator.
    message: String,
    /// The exit code.
    code: u8,
}

/// Runs the server until it is stopped; returns the exit code.
pub fn run(options: &ServeOptions) -> u8 {
    // Before any thread starts, since each thread would occupy huge pages in part.
    heap::use_small_pages();
    match start(options) {
        Ok(()) => EXIT_OK,
        Err(StartFault { message, code }) => {
            eprintln!("nomen: {}", message.trim_end());
            code
        }
    }
}

fn outside(message: String) -> StartFault {
    StartFault { message, code: EXIT_OUTSIDE }
}

/// Returns the sockets that systemd or the previous server passes.
fn passed_sockets(options: &ServeOptions, settings: &Settings) -> Result<PassedSockets, StartFault> {
    let taken = match options.take_over {
        true => take_over::take_over(settings.control.socket.value.as_deref())
            .map_err(|fault| outside(fault.to_string()))?,
        false => None,
    };
    PassedSockets::take(settings, taken).map_err(|fault| outside(fault.with_hint()))
}

/// Starts the zone manager's thread.
fn keep_zones(zones: ZoneManager) -> Result<(), StartFault> {
    let thread = std::thread::Builder::new().name("zones".into());
    let started = thread.spawn(move || zones.work()).map(drop);
    started.map_err(|e| outside(format!("cannot start the thread that manages zones: {e}")))
}

fn start(options: &ServeOptions) -> Result<(), StartFault> {
    let process = Process::start();
    let source = &options.source;
    let prepared = source.prepare(None, None).map_err(|rejected| {
        let message = format!("the configuration cannot be used\n\n{rejected}");
        StartFault { message, code: exit_code(&rejected.faults) }
    })?;
    let passed = passed_sockets(options, &prepared.settings)?;
    let stores_sockets = options.store_sockets && !passed.by_manager();
    let sockets = Sockets::open(&prepared, source.is_built_in(), passed);
    let mut sockets = sockets.map_err(|fault| outside(fault.to_string()))?;
    // Dropped at the end of this function, so that the last log lines are written.
    let (logging, _log_writers) =
        logging::start(&prepared.settings.log).map_err(|fault| outside(fault.to_string()))?;
    sockets.notes.iter().for_each(|note| warn!("{note}"));
    threads::starter::Starter::begin()
        .map_err(|e| outside(format!("cannot start the thread that starts others: {e}")))?;
    let inner_rules = warn_of(&prepared.settings, &prepared.zones, sockets.are_passed);
    let Assembled { mut zones, wanted, parts, documents, database } =
        assemble(source, prepared, logging, process)?;
    let runtime = runtime()?;
    let no_signals = |e| outside(format!("cannot catch signals: {e}"));
    let mut signals = runtime.block_on(async { Signals::catch_hangup() }).map_err(no_signals)?;

    load_first(&mut zones, wanted, options.strict)?;
    // No query is answered without the rules of the zones that have been loaded.
    parts.recursive.iter().for_each(|recursive| recursive.settle_rules());
    let frontend = &parts.frontend;
    warn_of_idle_rules(&frontend.engine, &inner_rules);
    // From the first query on, a stop is in order: clients that wait are answered, sockets are stored.
    runtime.block_on(async { signals.catch_stop() }).map_err(no_signals)?;
    let mut opening = Some(Opening { sockets: std::mem::take(&mut sockets.dns), stores_sockets });
    if let Some(opening) = opening.take_if(|_| !lacks_first_zones(&parts)) {
        opening.open(frontend).map_err(outside)?;
    }
    keep_zones(zones)?;
    if let Some(settings) = database {
        database::start(&parts, source, settings)?;
    }
    if opening.is_none() {
        announce(&parts);
        greet(source, &frontend.addresses());
    }
    let Sockets { control, metrics, api, acme, .. } = sockets;
    attend(parts, (runtime, signals), control, metrics, ((api, documents), acme), opening).map_err(outside)
}

/// Returns the runtime for control, metrics and signals.
fn runtime() -> Result<Runtime, StartFault> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(8)
        .build()
        .map_err(|e| outside(format!("cannot start the administration thread: {e}")))
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
    // A rule also applies to clients of no view, and to those of others.
    let outside = || wanted.specs.iter().filter(|spec| !spec.apex.is_in_view());
    let names = || outside().map(|spec| spec.name());
    let shadowed = settings.shadowed_rules(names());
    let of_certificates = settings.encryption_warnings(SystemTime::now());
    let all = settings.warnings(passed).into_iter().chain(shadowed).chain(of_certificates);
    all.for_each(|warning| warn!("{}", warning.message));
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
        Some(complaint) if strict => {
            Err(StartFault { message: format!("{complaint} (--strict)"), code: EXIT_FAULTS })
        }
        _ => Ok(()),
    }
}

/// Serves the HTTP API, if there are listening sockets for it, and samples the counters of the last minutes.
fn serve_api(
    parts: &ServerParts,
    (sockets, documents): (Vec<TcpListener>, Arc<ZoneDocuments>),
) -> Result<(), String> {
    tokio::spawn(Arc::clone(&parts.rates).watch());
    if sockets.is_empty() {
        return Ok(());
    }
    let api = ApiParts::new(Arc::new(parts.clone()), documents);
    for socket in sockets {
        let address = socket.local_addr().map(AddrPort);
        let listener = tokio::net::TcpListener::from_std(socket);
        let listener = listener.map_err(|e| format!("cannot use a socket of the API: {e}"))?;
        if let Ok(address) = address {
            info!("listening on {address} for the API");
        }
        tokio::spawn(api::listener::serve(api.clone(), listener));
    }
    Ok(())
}

/// Serves metrics and health, if there is a listening socket for them.
fn serve_metrics(parts: &ServerParts, socket: Option<TcpListener>) -> Result<(), String> {
    let Some(socket) = socket else { return Ok(()) };
    let listener = tokio::net::TcpListener::from_std(socket);
    let listener = listener.map_err(|e| format!("cannot use the metrics socket: {e}"))?;
    let (figures, in_force) = (figures(parts), Arc::clone(&parts.in_force));
    let connections = Arc::clone(&parts.connections.metrics);
    let service = HttpService { figures, parts: parts.clone(), in_force, connections };
    tokio::spawn(http::serve(service, listener));
    Ok(())
}

/// Has listeners answer that wait for the zones of the database. Returns only if that fails, with the reason.
async fn open_with_zones(opening: Option<Opening>, parts: ServerParts) -> String {
    match opening {
        Some(opening) => opening.open_with_zones(parts).await,
        None => std::future::pending().await,
    }
}

/// Answers a CA's requests for challenges, if there are listening sockets for it.
fn serve_challenges(parts: &ServerParts, sockets: Vec<TcpListener>) -> Result<(), String> {
    let shared = Arc::new(parts.clone());
    for socket in sockets {
        let address = socket.local_addr().map(AddrPort);
        let listener = tokio::net::TcpListener::from_std(socket);
        let listener = listener.map_err(|e| format!("cannot use a socket of [acme]: {e}"))?;
        if let Ok(address) = address {
            info!("listening on {address} for the challenge http-01");
        }
        tokio::spawn(challenges::serve(Arc::clone(&shared), listener));
    }
    Ok(())
}

/// Serves control and metrics, handles signals, and shuts the service down in order. `opening`: listeners
/// that wait for the zones of the database.
fn attend(
    parts: ServerParts,
    (runtime, signals): (Runtime, Signals),
    control: Option<Socket>,
    metrics: Option<TcpListener>,
    (api, acme): ((Vec<TcpListener>, Arc<ZoneDocuments>), Vec<TcpListener>),
    opening: Option<Opening>,
) -> Result<(), String> {
    let path = control.as_ref().map(|c| c.path.clone());
    let ServerParts { frontend, manager, recursive, secondaries, changes, differences, logging, .. } =
        parts.clone();
    let result = runtime.block_on(async {
        let (stop, mut stopped) = tokio::sync::mpsc::channel(1);
        serve_metrics(&parts, metrics)?;
        serve_api(&parts, api)?;
        serve_challenges(&parts, acme)?;
        let opened = open_with_zones(opening, parts.clone());
        tokio::spawn(issuing::run(Arc::clone(&parts.issuing)));
        if let Some(socket) = control {
            let listener = socket.into_tokio().map_err(|e| format!("cannot use the control socket: {e}"))?;
            tokio::spawn(listener::serve(Arc::new(parts), listener, stop));
        }
        let (of_resolver, of_zones) = (recursive.clone(), Arc::clone(&secondaries));
        tokio::spawn(descriptors::watch(move || {
            let of_resolver =
                of_resolver.as_ref().map_or(0, |recursive| recursive.link_counts().exhausted.get());
            of_resolver + of_zones.link_counts().exhausted.get()
        }));
        tokio::spawn(certificates::watch(Arc::clone(&frontend.certificates)));
        tokio::spawn(oblivious::watch(Arc::clone(&frontend.oblivious)));
        tokio::spawn(signals::feed_watchdog(Arc::clone(&frontend)));
        let why = tokio::select! {
            signal = signals.until_stopped(&manager, &logging, frontend.dnstap.as_deref()) => signal,
            Some(why) = stopped.recv() => why,
            fault = opened => return Err(fault),
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
            let database = changes.as_ref().and_then(|changes| changes.database());
            changes.iter().for_each(|changes| changes.stop());
            database.iter().for_each(|database| database.stop());
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
