//! The running server as its parts see it: engine, zones, listeners, settings; and the reload that changes them
//! together. Starting and stopping is in `serve`, questions about it in `control` and `metrics`.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use arc_swap::ArcSwap;
use engine::{Engine, Sources, Zones};
use net::{Running, TcpLimits, TcpTimes};
use tracing::{info, warn};
use wire::hash::HashKey;
use zone::catalog::Catalog;

use crate::builtin;
use crate::config::schema::{Control, Listen, Log, Metrics, Server};
use crate::config::units::{Identity, QueryLog};
use crate::config::{self, Config, Loaded};
use crate::handler::Accounts;
use crate::logging::Logging;
use crate::querylog::QueryLogger;
use crate::zones::images::{self, Images};
use crate::zones::load::catalog;
use crate::zones::reload::{Reloader, Summary, load_all};
use crate::zones::{Apex, ZoneSpec, ZoneTable, resolve};

/// The configuration without its zones, of which there may be a million.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// `[server]`.
    pub server: Server,
    /// Every `[[listen]]`.
    pub listens: Vec<Listen>,
    /// `[control]`.
    pub control: Control,
    /// `[metrics]`.
    pub metrics: Option<Metrics>,
    /// `[log]`.
    pub log: Log,
}

/// Where the configuration comes from.
#[derive(Debug, Clone)]
pub enum ConfigSource {
    /// A file.
    File(PathBuf),
    /// The example that is part of the program.
    BuiltIn,
}

/// A configuration made ready for use.
pub struct Prepared {
    /// Everything but the zones.
    pub settings: Settings,
    /// The zones to serve.
    pub specs: Vec<ZoneSpec>,
    /// Warnings, as text for a log.
    pub warnings: String,
}

impl ConfigSource {
    /// Reads and checks the configuration, and finds its zones. The error is text for people.
    pub fn prepare(&self) -> Result<Prepared, String> {
        match self {
            Self::File(path) => {
                let Loaded { config, sources, warnings } = config::load(path).map_err(|e| e.to_string())?;
                let specs = resolve(&config).map_err(|faults| sources.render(&faults))?;
                Ok(Prepared { settings: settings(config), specs, warnings: sources.render(&warnings) })
            }
            Self::BuiltIn => {
                let loaded = config::load_text("built-in", String::new(), std::path::Path::new("/"))
                    .map_err(|e| e.to_string())?;
                let settings = settings(loaded.config);
                Ok(Prepared { settings, specs: builtin::zones(), warnings: String::new() })
            }
        }
    }
}

fn settings(config: Config) -> Settings {
    let Config { server, listens, control, metrics, log, zones: _, templates: _ } = config;
    Settings { server, listens, control, metrics, log }
}

/// How the last reload ended.
#[derive(Debug, Clone)]
pub struct LastReload {
    /// When it ended.
    pub at: SystemTime,
    /// What it did, or why it did nothing.
    pub result: Result<Summary, String>,
}

/// The running server.
pub struct App {
    /// The query path.
    pub engine: Arc<Engine<Zones>>,
    /// Accounts of the engine's workers, one for each thread that answers.
    pub accounts: Accounts,
    /// The listeners; emptied when the server stops.
    pub listeners: Mutex<Vec<Running>>,
    /// Limits over all TCP connections.
    pub tcp_limits: TcpLimits,
    /// Every zone.
    pub zones: ArcSwap<ZoneTable>,
    /// Catalogs that were replaced and that workers may still be reading.
    pub retired: Mutex<Vec<Arc<Catalog>>>,
    /// The configuration in force.
    pub settings: ArcSwap<Settings>,
    /// How the last reload ended.
    pub last_reload: Mutex<Option<LastReload>>,
    /// Asks for reloads.
    pub reloader: Reloader,
    /// The images of zones, if there is a place for them.
    pub images: Option<Images>,
    /// The log.
    pub logging: Logging,
    /// The query log's writer.
    pub query_logger: Arc<QueryLogger>,
    /// When the process started, by the calendar.
    pub started: SystemTime,
    /// When the process started, for durations.
    pub started_at: Instant,
    /// Where the configuration came from.
    pub source: ConfigSource,
}

/// Locks without caring whether another thread panicked while it held the lock: what is behind these locks is
/// whole after every statement.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl App {
    /// The key zones are built under.
    pub fn key(&self) -> HashKey {
        self.engine.key()
    }

    /// Counters of every listener, with its address and what carries its queries: an AF_XDP front has the address
    /// of the sockets behind it and is told apart as "xdp".
    pub fn net_totals(&self) -> Vec<(std::net::SocketAddr, &'static str, net::Totals)> {
        let listeners = lock(&self.listeners);
        let carrier = |l: &Running| match (l.xdp_mode(), l.transport()) {
            (Some(_), _) => "xdp",
            (None, transport) => transport.label(),
        };
        listeners.iter().map(|l| (l.local_addr(), carrier(l), l.stats().totals())).collect()
    }

    /// Reads the configuration and every changed zone; what is bad stays as it was. Runs on the reload thread.
    pub fn reload(&self) -> Result<Summary, String> {
        crate::signals::tell_reloading();
        let result = self.source.prepare().map(|prepared| {
            if !prepared.warnings.is_empty() {
                warn!("the configuration has warnings:\n{}", prepared.warnings.trim_end());
            }
            self.adopt(prepared.settings);
            self.load_zones(prepared.specs, |_| false)
        });
        match &result {
            Ok(s) => info!(
                zones = s.zones,
                loaded = s.loaded,
                unchanged = s.unchanged,
                failed = s.failed,
                removed = s.removed,
                milliseconds = s.milliseconds,
                "reloaded"
            ),
            Err(fault) => {
                tracing::error!("reload failed, the old configuration stays:\n{}", fault.trim_end())
            }
        }
        *lock(&self.last_reload) = Some(LastReload { at: SystemTime::now(), result: result.clone() });
        crate::signals::tell_ready();
        result
    }

    /// Reads one zone's file again. Runs on the reload thread.
    pub fn reload_zone(&self, apex: &Apex) -> Result<Summary, String> {
        let table = self.zones.load_full();
        if !table.contains_key(apex) {
            return Err("there is no such zone here".into());
        }
        // Every zone is looked at, so that the new table is whole; only this one is read whether changed or not.
        let specs = table.values().filter(|s| s.spec.apex == *apex).map(|s| s.spec.clone()).collect();
        let loaded = load_all(specs, &table, &self.key(), self.images.as_ref(), |_| true);
        let (one, mut summary) = (loaded.table, loaded.summary);
        summary.removed = 0;
        let mut new = ZoneTable::clone(&table);
        let fault = one.get(apex).and_then(|state| state.fault.clone());
        new.extend(one);
        self.serve_table(new);
        if let Some(images) = &self.images {
            images.write(loaded.orders);
        }
        match fault {
            Some(fault) => Err(fault.to_string()),
            None => Ok(summary),
        }
    }

    /// Loads zones and puts them into service.
    pub fn load_zones(&self, specs: Vec<ZoneSpec>, force: impl Fn(&Apex) -> bool + Sync) -> Summary {
        let old = self.zones.load_full();
        let loaded = load_all(specs, &old, &self.key(), self.images.as_ref(), force);
        self.serve_table(loaded.table);
        if let Some(images) = &self.images {
            images.keep(self.zones.load().values().map(|state| &state.spec));
            images.write(loaded.orders);
        }
        loaded.summary
    }

    fn serve_table(&self, table: ZoneTable) {
        let old = self.engine.catalog();
        let new = Arc::new(catalog(&old, &table));
        self.engine.set_catalog(&new);
        self.zones.store(Arc::new(table));
        lock(&self.retired).push(old);
    }

    /// Gives back the memory of replaced catalogs that no worker reads any more; false if there are others. Done
    /// on the reload thread, so that no query waits for it.
    pub fn release_retired(&self) -> bool {
        let mut retired = lock(&self.retired);
        retired.retain(|catalog| Arc::strong_count(catalog) > 1);
        retired.is_empty()
    }

    /// Takes over what can change while the server runs, and says what cannot.
    pub fn adopt(&self, new: Settings) {
        let old = self.settings.load_full();
        for section in needs_restart(&old, &new) {
            warn!("{section} changed; this takes effect at the next start");
        }
        self.engine.set_config(engine_config(&new));
        self.engine.change_memory(|zones| set_zones_config(zones, &new));
        self.tcp_limits.set(new.server.tcp_connections.as_usize(), new.server.tcp_per_client.as_usize());
        self.tcp_limits.set_times(&tcp_times(&new.server));
        self.logging.set_level(*new.log.level);
        self.apply_query_log(&new);
        self.settings.store(Arc::new(new));
    }

    /// Turns the query log on or off.
    pub fn apply_query_log(&self, settings: &Settings) {
        let log: Option<Arc<dyn engine::QueryLog>> = match *settings.log.queries {
            QueryLog::Off => None,
            QueryLog::On => Some(Arc::new(self.query_logger.tap(1.0))),
            QueryLog::Sample(share) => Some(Arc::new(self.query_logger.tap(share))),
        };
        self.engine.set_query_log(log);
    }
}

/// The engine's settings out of the configuration.
pub fn engine_config(settings: &Settings) -> engine::Config {
    let server = &settings.server;
    let text = |identity: &Identity, auto: &dyn Fn() -> String| match identity {
        Identity::Hide => None,
        Identity::Auto => Some(auto().into_bytes().into_boxed_slice()),
        Identity::Text(text) => Some(text.as_bytes().into()),
    };
    let mut config = engine::Config {
        max_udp_size: u16::try_from(server.max_udp_size.0).unwrap_or(1232),
        nsid: server.nsid.value.as_ref().map(|n| n.0.clone().into_boxed_slice()).unwrap_or_default(),
        keepalive: u16::try_from(server.tcp_idle.0.as_millis() / 100).unwrap_or(u16::MAX),
        ..engine::Config::default()
    };
    config.identity.version = text(&server.version.value, &|| format!("nomen {}", env!("CARGO_PKG_VERSION")));
    config.identity.id = text(&server.id.value, &host_name);
    config
}

/// An engine that serves no zones yet.
pub fn make_engine(key: &HashKey, settings: &Settings) -> Arc<Engine<Zones>> {
    let mut zones = Zones::new(Arc::new(Catalog::new(key)));
    set_zones_config(&mut zones, settings);
    Arc::new(Engine::new(zones, Sources::default(), engine_config(settings)))
}

/// How zones are answered from, out of the configuration.
fn set_zones_config(zones: &mut Zones, settings: &Settings) {
    zones.max_chain = u8::try_from(settings.server.max_chain.0).unwrap_or(16);
    zones.count_per_zone = settings.metrics.as_ref().is_some_and(|m| m.per_zone.value);
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String = name.trim().chars().take(255).collect();
    if name.is_empty() { "nomen".into() } else { name }
}

/// `net`'s settings out of the configuration.
pub fn net_config(server: &Server) -> net::Config {
    let buffer = usize::try_from(server.udp_buffer.0).unwrap_or(usize::MAX);
    net::Config {
        workers: server.workers.count(),
        pin_cpus: *server.pin_cpus,
        drain: server.drain.0,
        udp: net::UdpConfig {
            batch: engine::BATCH,
            receive_buffer: Some(buffer),
            send_buffer: Some(buffer),
            ..net::UdpConfig::default()
        },
        tcp: net::TcpConfig {
            max_in_flight: server.tcp_pipeline.as_usize(),
            max_unsent: usize::try_from(server.tcp_write_buffer.0).unwrap_or(usize::MAX),
            ..net::TcpConfig::default()
        },
        ..net::Config::default()
    }
}

/// How long TCP connections may take, out of the configuration.
pub fn tcp_times(server: &Server) -> TcpTimes {
    TcpTimes {
        first_message: server.tcp_first.0,
        idle: server.tcp_idle.0,
        message: server.tcp_message.0,
        write: server.tcp_write.0,
        ..TcpTimes::default()
    }
}

/// What changed that only a restart puts into force.
fn needs_restart(old: &Settings, new: &Settings) -> Vec<&'static str> {
    let mut changed = Vec::new();
    let state = |s: &Server| (images::folder_of(s), *s.images, s.image_min_records.0);
    let fixed = |s: &Server| (s.user.clone(), s.group.clone(), net_config(s), state(s));
    if fixed(&old.server) != fixed(&new.server) {
        changed.push("a key of [server] about users, threads, buffers or images");
    }
    if old.listens != new.listens {
        changed.push("[[listen]]");
    }
    if old.control != new.control {
        changed.push("[control]");
    }
    if old.metrics.as_ref().map(|m| m.listen.value) != new.metrics.as_ref().map(|m| m.listen.value) {
        changed.push("`listen` of [metrics]");
    }
    if old.log.target != new.log.target || old.log.format != new.log.format {
        changed.push("`target` or `format` of [log]");
    }
    changed
}
