//! `nomen serve`: from configuration to sockets, from root to an ordinary user, from zones to answers, and the
//! orderly end. The order matters: sockets first, then privileges, then everything that reads foreign data.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use engine::{Engine, Sources, Zones};
use exchange::Transport;
use net::{Bound, Context, Listener, Running, TcpLimits, XdpConfig};
use tokio::runtime::Runtime;
use tracing::{error, info, warn};
use wire::hash::HashKey;
use zone::catalog::Catalog;

use crate::app::{App, ConfigSource, Prepared, lock};
use crate::cli::{EXIT_FAULTS, EXIT_OK, EXIT_OUTSIDE, ServeArgs};
use crate::config::Settings;
use crate::control::{self, Socket};
use crate::handler::{Accounts, Workers};
use crate::logging::Logging;
use crate::querylog::QueryLogger;
use crate::signals::Signals;
use crate::zones::images::{self, Images, StateFolder};
use crate::zones::reload::{self, Reloader};
use crate::zones::{ZoneSpec, ZoneTable};
use crate::{builtin, logging, metrics, privileges, signals};

/// Longest wait for the query log at the end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Why the server did not start: words for the operator and the exit code.
struct Refusal(String, u8);

/// Runs the server until it is told to stop; returns the exit code.
pub fn run(args: &ServeArgs) -> u8 {
    match start(args) {
        Ok(()) => EXIT_OK,
        Err(Refusal(message, code)) => {
            eprintln!("nomen: {}", message.trim_end());
            code
        }
    }
}

fn outside(message: String) -> Refusal {
    Refusal(message, EXIT_OUTSIDE)
}

fn start(args: &ServeArgs) -> Result<(), Refusal> {
    let started_at = Instant::now();
    let source = match &args.config {
        Some(path) => ConfigSource::File(path.clone()),
        None => ConfigSource::BuiltIn,
    };
    let Prepared { settings, specs } = source
        .prepare()
        .map_err(|text| Refusal(format!("the configuration cannot be used\n\n{text}"), EXIT_FAULTS))?;
    let built_in = matches!(source, ConfigSource::BuiltIn);
    let sockets = Sockets::open(&settings, built_in).map_err(outside)?;
    // Lives to the end of this function, so that the last words are written.
    let (logging, _log_writer) = logging::start(&settings.log).map_err(outside)?;
    sockets.notes.iter().for_each(|note| warn!("{note}"));
    let (reloader, jobs) = Reloader::new();
    let (key, images) = open_state(&settings, built_in);
    let app = make_app(settings, source, (key, images), (logging, reloader), started_at).map_err(outside)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(8)
        .build()
        .map_err(|e| outside(format!("cannot start the administration thread: {e}")))?;
    let no_signals = |e| outside(format!("cannot catch signals: {e}"));
    let mut signals = runtime.block_on(async { Signals::catch_hangup() }).map_err(no_signals)?;

    load_first(&app, specs, args.strict)?;
    serve_all(&app, sockets.dns).map_err(outside)?;
    let worker_app = Arc::clone(&app);
    std::thread::Builder::new()
        .name("reload".into())
        .spawn(move || reload::work(&worker_app, &jobs))
        .map_err(|e| outside(format!("cannot start the reload thread: {e}")))?;
    runtime.block_on(async { signals.catch_stop() }).map_err(no_signals)?;
    signals::tell_ready();
    info!(version = env!("CARGO_PKG_VERSION"), pid = std::process::id(), "serving");
    if built_in {
        let addresses: Vec<_> = lock(&app.listeners).iter().map(Running::local_addr).collect();
        print!("{}", builtin::greeting(&addresses));
    }
    attend(&app, runtime, signals, sockets.control, sockets.metrics).map_err(outside)
}

/// Loads the zones for the first time.
fn load_first(app: &App, specs: Vec<ZoneSpec>, strict: bool) -> Result<(), Refusal> {
    let summary = app.load_zones(specs, |_| false);
    info!(
        zones = summary.zones,
        loaded = summary.loaded,
        failed = summary.failed,
        milliseconds = summary.milliseconds,
        "zones loaded"
    );
    if strict && summary.failed > 0 {
        let message = format!("{} of {} zones are bad (--strict)", summary.failed, summary.zones);
        return Err(Refusal(message, EXIT_FAULTS));
    }
    Ok(())
}

fn make_app(
    settings: Settings,
    source: ConfigSource,
    (key, images): (HashKey, Option<Images>),
    (logging, reloader): (Logging, Reloader),
    started_at: Instant,
) -> Result<Arc<App>, String> {
    let query_logger = QueryLogger::start().map_err(|e| format!("cannot start the query log: {e}"))?;
    let catalog = Arc::new(Catalog::new(&key));
    let zones = Zones { catalog, config: settings.zones_config() };
    let (connections, per_client) = settings.server.tcp.limits();
    let app = App {
        engine: Arc::new(Engine::new(zones, Sources::default(), settings.engine_config())),
        accounts: Accounts::default(),
        listeners: Mutex::default(),
        tcp_limits: TcpLimits::new(connections, per_client, &settings.server.tcp.times()),
        zones: ArcSwap::from_pointee(ZoneTable::new()),
        retired: Mutex::default(),
        settings: ArcSwap::from_pointee(settings.clone()),
        pending_keys: Mutex::default(),
        last_reload: Mutex::default(),
        reloader,
        images,
        logging,
        query_logger: Arc::new(query_logger),
        started: SystemTime::now(),
        started_at,
        source,
    };
    app.apply_query_log(&settings);
    Ok(Arc::new(app))
}

/// The key of this process, and the images that were made under it if they are wanted. Without a state folder, or
/// with one that cannot be used, the key is a new one and there are no images.
fn open_state(settings: &Settings, built_in: bool) -> (HashKey, Option<Images>) {
    let storage = &settings.server.storage;
    let folder = storage.folder().filter(|_| *storage.images && !built_in);
    let Some(folder) = folder else { return (HashKey::random(), None) };
    let opened = StateFolder::open(&folder).and_then(|state| {
        let key = state.key;
        let images = Images::start(state, storage.image_min_records.0);
        images.map(|images| (key, Some(images))).map_err(|e| format!("cannot start a thread: {e}"))
    });
    opened.unwrap_or_else(|fault| {
        warn!("zones are read from text, their images are not used: {fault}");
        (HashKey::random(), None)
    })
}

/// Everything that is opened before privileges are given up, which is done by the time this exists.
struct Sockets {
    dns: Vec<Bound>,
    metrics: Option<TcpListener>,
    control: Option<Socket>,
    /// What the operator should know once there is a log.
    notes: Vec<String>,
}

impl Sockets {
    fn open(settings: &Settings, built_in: bool) -> Result<Self, String> {
        raise_descriptor_limit();
        let wanted = &settings.server.privileges;
        let identity = match wanted.user.as_deref() {
            Some(user) => Some(privileges::find(user, wanted.group.as_deref())?),
            None => None,
        };
        let mut notes = Vec::new();
        let dns = bind(settings, built_in, &mut notes)?;
        let metrics = bind_metrics(settings)?;
        let control = bind_control(settings, built_in, identity, &mut notes)?;
        make_state_folder(settings, built_in, identity, &mut notes);
        give_up_privileges(identity, &mut notes)?;
        Ok(Self { dns, metrics, control, notes })
    }
}

/// Makes the state folder while that is still allowed. Without it everything is read from text.
fn make_state_folder(
    settings: &Settings,
    built_in: bool,
    identity: Option<privileges::Identity>,
    notes: &mut Vec<String>,
) {
    let storage = &settings.server.storage;
    let folder = storage.folder().filter(|_| *storage.images && !built_in);
    let owner = identity.filter(|_| privileges::is_root()).map(|i| (i.uid, i.gid));
    notes.extend(folder.and_then(|folder| images::make_folder(&folder, owner).err()));
}

/// Opens every listening socket.
fn bind(settings: &Settings, built_in: bool, notes: &mut Vec<String>) -> Result<Vec<Bound>, String> {
    let config = settings.net_config();
    let mut bound = Vec::new();
    // Interfaces with an AF_XDP front, each with the listeners it stands before.
    let mut fronts: BTreeMap<String, (XdpConfig, Vec<usize>)> = BTreeMap::new();
    for listen in &settings.listens {
        let xdp = listen.xdp_config();
        for (addr, transport) in
            listen.addr.iter().flat_map(|a| listen.proto.iter().map(move |p| (a, p.value)))
        {
            match Listener::bind(addr.value.0, transport, &config) {
                Ok(socket) => {
                    if let (Transport::Udp, Some(xdp)) = (transport, &xdp) {
                        let front = || (xdp.clone(), Vec::new());
                        fronts.entry(xdp.interface.clone()).or_insert_with(front).1.push(bound.len());
                    }
                    bound.push(socket);
                }
                // The built-in configuration asks for IPv6 without knowing whether there is any.
                Err(e) if built_in && addr.value.0.is_ipv6() && is_missing(&e) => notes.push(e.to_string()),
                Err(e) => return Err(with_hint(&e)),
            }
        }
    }
    if bound.is_empty() {
        return Err("there is no address to listen on".into());
    }
    put_fronts(&fronts, &config, &mut bound, notes);
    Ok(bound)
}

/// Puts the AF_XDP fronts that were asked for before their listeners; where one cannot be had, the sockets do
/// its work and the operator is told.
fn put_fronts(
    fronts: &BTreeMap<String, (XdpConfig, Vec<usize>)>,
    config: &net::Config,
    bound: &mut Vec<Bound>,
    notes: &mut Vec<String>,
) {
    let mut opened = Vec::new();
    for (interface, (xdp, listeners)) in fronts {
        let behind: Vec<&Bound> = listeners.iter().filter_map(|&at| bound.get(at)).collect();
        match Listener::xdp(&behind, config, xdp) {
            Ok(front) => opened.push(front),
            Err(e) => {
                notes.push(format!("no AF_XDP on {interface}, its queries go through the sockets: {e}"))
            }
        }
    }
    // Fronts are stopped first, so that what they no longer take still finds its socket.
    bound.splice(0..0, opened);
}

fn is_missing(e: &net::BindError) -> bool {
    matches!(e.fault, net::BindFault::NoSuchAddress | net::BindFault::NoSuchFamily)
}

/// The error as one sentence, and what to do about it as another.
fn with_hint(e: &net::BindError) -> String {
    let port = e.addr.port();
    let hint = match e.fault {
        net::BindFault::AddressInUse => format!(
            "see what it is with `ss -lnp 'sport = :{port}'`, stop it, or choose another address in [[listen]]"
        ),
        net::BindFault::PermissionDenied => {
            "start nomen as root with `user` set in [server], or choose a port above 1023".into()
        }
        net::BindFault::NoSuchAddress => "see this machine's addresses with `ip address`".into(),
        _ => return e.to_string(),
    };
    format!("{e}\n  hint: {hint}")
}

fn bind_metrics(settings: &Settings) -> Result<Option<TcpListener>, String> {
    let Some(metrics) = &settings.metrics else { return Ok(None) };
    let addr = metrics.listen.value;
    TcpListener::bind(addr.0)
        .and_then(|socket| socket.set_nonblocking(true).map(|()| Some(socket)))
        .map_err(|e| format!("cannot listen on {addr} for metrics: {}", crate::words::reason(&e)))
}

fn bind_control(
    settings: &Settings,
    built_in: bool,
    identity: Option<privileges::Identity>,
    notes: &mut Vec<String>,
) -> Result<Option<Socket>, String> {
    if !*settings.control.enable {
        return Ok(None);
    }
    let wanted = settings.control.socket.value.as_deref();
    match Socket::bind(wanted, identity) {
        Ok(socket) => Ok(Some(socket)),
        // Trying nomen out must not fail because another one is being tried out.
        Err(e) if built_in => {
            notes.push(format!("no control socket: {e}"));
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

fn give_up_privileges(identity: Option<privileges::Identity>, notes: &mut Vec<String>) -> Result<(), String> {
    match identity {
        Some(identity) if privileges::is_root() => privileges::become_user(identity)
            .map_err(|e| format!("refusing to run with privileges that cannot be given up: {e}")),
        Some(_) => {
            notes.push("`user` has no effect: nomen was not started as root".into());
            privileges::lock_down()
        }
        None if privileges::is_root() => {
            notes.push("running as root: set `user` in [server] so that root is given up".into());
            Ok(())
        }
        None => privileges::lock_down(),
    }
}

/// Many TCP connections need many descriptors: takes all the system allows.
fn raise_descriptor_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // A lower limit only means fewer connections, which are counted and told.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

fn serve_all(app: &Arc<App>, bound: Vec<Bound>) -> Result<(), String> {
    let mut context = Context::default().on_fault(|fault| match fault.kind {
        net::FaultKind::Recovered => info!("{fault}"),
        net::FaultKind::Pin(_) | net::FaultKind::OutOfDescriptors(_) => warn!("{fault}"),
        _ => error!("{fault}"),
    });
    context.tcp = app.tcp_limits.clone();
    for socket in bound {
        let (addr, transport) = (socket.local_addr(), socket.transport());
        let front = socket.xdp_mode();
        let workers = Workers::new(&app.engine, &app.accounts);
        let running = socket.serve(workers, &context).map_err(|e| e.to_string())?;
        match front {
            Some(mode) => info!(
                queues = mode.queues,
                driver = mode.driver,
                zero_copy = mode.zero_copy,
                "AF_XDP before {addr} {transport}"
            ),
            None => info!("listening on {addr} {transport}"),
        }
        lock(&app.listeners).push(running);
    }
    Ok(())
}

/// Answers control and metrics, handles signals, and ends the service in order.
fn attend(
    app: &Arc<App>,
    runtime: Runtime,
    signals: Signals,
    control: Option<Socket>,
    metrics: Option<TcpListener>,
) -> Result<(), String> {
    let path = control.as_ref().map(|c| c.path.clone());
    let result = runtime.block_on(async {
        let (stop, mut stopped) = tokio::sync::mpsc::channel(1);
        if let Some(socket) = control {
            let listener = socket.into_tokio().map_err(|e| format!("cannot use the control socket: {e}"))?;
            tokio::spawn(control::serve(Arc::clone(app), listener, stop));
        }
        if let Some(socket) = metrics {
            let listener = tokio::net::TcpListener::from_std(socket)
                .map_err(|e| format!("cannot use the metrics socket: {e}"))?;
            tokio::spawn(metrics::serve(Arc::clone(app), listener));
        }
        let why = tokio::select! {
            signal = signals.until_stopped(&app.reloader) => signal,
            Some(()) = stopped.recv() => "nomen ctl stop",
        };
        info!("{why}: answering what has arrived, then stopping");
        signals::tell_stopping();
        tokio::spawn(signals::exit_at_next());
        let app = Arc::clone(app);
        // Joining blocks; the signal that stops at once must still be heard.
        tokio::task::spawn_blocking(move || drain(&app)).await.map_err(|e| format!("stopping failed: {e}"))
    });
    if let Some(path) = path {
        // The folder may not be ours to change any more; a stale socket is replaced at the next start.
        let _ = std::fs::remove_file(path);
    }
    runtime.shutdown_background();
    app.query_logger.flush(LAST_WORDS);
    info!("stopped");
    result
}

/// Stops the listeners and waits until what arrived is answered.
fn drain(app: &App) {
    let listeners = std::mem::take(&mut *lock(&app.listeners));
    listeners.iter().for_each(Running::stop);
    for listener in listeners {
        listener.join();
    }
}
