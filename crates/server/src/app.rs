//! The running server as its parts see it: engine, zones, listeners, settings; and the reload that changes them
//! together. Starting and stopping is in `serve`, questions about it in `control` and `metrics`.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use arc_swap::ArcSwap;
use engine::{Engine, Zones};
use net::{Running, TcpLimits};
use tracing::{info, warn};
use wire::hash::HashKey;
use zone::catalog::Catalog;

use crate::builtin;
use crate::config::log::LoggedQueries;
use crate::config::{self, Accepted, PendingKey, Rejected, Settings};
use crate::handler::Accounts;
use crate::logging::Logging;
use crate::querylog::QueryLogger;
use crate::zones::images::Images;
use crate::zones::load::catalog;
use crate::zones::reload::{Reloader, Summary, load_all};
use crate::zones::{Apex, ZoneSpec, ZoneTable, resolve};

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
}

impl ConfigSource {
    /// Reads and checks the configuration, and finds its zones.
    pub fn prepare(&self) -> Result<Prepared, Rejected> {
        match self {
            Self::File(path) => {
                let Accepted { config, sources } = config::load(path)?;
                match resolve(&config) {
                    Ok(specs) => Ok(Prepared { settings: config.settings, specs }),
                    Err(faults) => Err(Rejected { sources, faults }),
                }
            }
            Self::BuiltIn => Ok(Prepared { settings: Settings::default(), specs: builtin::zones() }),
        }
    }
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
    /// The configuration in force: of keys that wait for the next start, the values since the last one.
    pub settings: ArcSwap<Settings>,
    /// The keys that wait for the next start, as of the last configuration that was read.
    pub pending_keys: Mutex<Vec<PendingKey>>,
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
        let result = self.source.prepare().map_err(|rejected| rejected.to_string()).map(|prepared| {
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

    /// Takes over what can change while the server runs, and reports what cannot.
    pub fn adopt(&self, new: Settings) {
        let mut settings = Settings::clone(&self.settings.load());
        let pending = settings.adopt(new);
        for key in &pending {
            warn!("{key}");
        }
        self.engine.set_config(settings.engine_config());
        let zones_config = settings.zones_config();
        self.engine.change_memory(|zones| zones.config = zones_config);
        let (connections, per_client) = settings.server.tcp.limits();
        self.tcp_limits.set(connections, per_client);
        self.tcp_limits.set_times(&settings.server.tcp.times());
        self.logging.set_level(*settings.log.level);
        self.apply_query_log(&settings);
        self.settings.store(Arc::new(settings));
        *lock(&self.pending_keys) = pending;
    }

    /// Turns the query log on or off.
    pub fn apply_query_log(&self, settings: &Settings) {
        let log: Option<Arc<dyn engine::QueryLog>> = match *settings.log.queries {
            LoggedQueries::None => None,
            LoggedQueries::All => Some(Arc::new(self.query_logger.tap(1.0))),
            LoggedQueries::Share(share) => Some(Arc::new(self.query_logger.tap(share))),
        };
        self.engine.set_query_log(log);
    }
}
