//! The frontend: the engine, its workers and their state, the listeners, the query log and dnstap. `workers`
//! connects `net` and `query-path`.

mod access_rules;
pub mod certificates;
mod freshness;
mod keepalive;
pub mod oblivious;
mod reply_counters;
mod server_cookies;
mod workers;

use std::fmt::Write;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use net::{Bound, Context, HttpProxies, Proxies, Running, ServeError, TcpLimits};
use query_path::{
    Both, Engine, EngineConfig, FailureLog, LimitLog, LoggedQuery, LoggedReply, QueryLog, RuleNote, Sources,
    Zones,
};
use recursion::Cached;
use tracing::{error, info};
use wire::hash::HashKey;
use zone::catalog::Catalog;

use crate::descriptors::DescriptorShares;
use certificates::Certificates;
use config::Adopt;
use config::Settings;
use config::log::LoggedQueries;
use oblivious::ObliviousService;
use reply_counters::ReplyCounters;
use server_cookies::ServerCookies;
use telemetry::audit::FailureLines;
use telemetry::dnstap::Dnstap;
use telemetry::limits_top::LimitsTop;
use telemetry::logging::QueryFile;
use telemetry::policy_top::PolicyTop;
use telemetry::querylog::{QueryLogger, QueryObserver};
use telemetry::repeated::log_repeated;
use threads::sync::lock;

pub use server_cookies::CookieFault;
pub use workers::Accounts;
use workers::Workers;

/// Longest wait for workers to stop reading, which they check every 200 ms, and the interval of the check
/// whether they have.
const LET_GO: Duration = Duration::from_secs(1);
const LET_GO_STEP: Duration = Duration::from_millis(2);

/// Longest wait at the end for the query log, and for dnstap.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The sources that answer at once: zones, and for other names the cache of recursive service.
pub type Served = Both<Zones, Cached>;

/// Returns the sources for zones alone.
pub fn serving(zones: Zones) -> Served {
    let key = *zones.catalog.key();
    Served { first: zones, then: Cached::off(key) }
}

/// Answers queries.
pub struct Frontend {
    /// The query path.
    pub engine: Arc<Engine<Served>>,
    /// State of the engine's workers, one for each thread that answers.
    pub accounts: Accounts,
    /// The secrets of server cookies.
    cookies: ServerCookies,
    /// The certificates of TLS listeners.
    pub certificates: Arc<Certificates>,
    /// The keys of Oblivious DoH.
    pub oblivious: Arc<ObliviousService>,
    /// The listeners; emptied when the server stops.
    listeners: Mutex<Vec<Running>>,
    /// Limits over all TCP and QUIC connections.
    pub tcp_limits: TcpLimits,
    /// The proxies that name their clients.
    proxies: Proxies,
    /// The proxies that pass requests on by HTTP.
    http_proxies: HttpProxies,
    /// Whether queries that made a worker panic are logged.
    panic_messages: Arc<AtomicBool>,
    /// The query log's writer.
    pub query_logger: QueryLogger,
    /// Which queries are logged. Locked while the engine's log is replaced.
    logged: Mutex<LoggedQueries>,
    /// What rules of policies block most.
    pub policy_top: PolicyTop,
    /// The counters of the limits on replies.
    counters: ReplyCounters,
    /// Which networks are limited most.
    pub limits_top: LimitsTop,
    /// Copies of messages for a collector, if there is one.
    pub dnstap: Option<Arc<Dnstap>>,
}

/// Most bytes of a message in the log.
const MOST_LOGGED: usize = 4096;

/// Returns a message in the form of the log.
fn hexadecimal(message: &[u8]) -> String {
    let mut text = String::from(": ");
    for byte in &message[..message.len().min(MOST_LOGGED)] {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    if message.len() > MOST_LOGGED {
        let _ = write!(text, "… ({} bytes)", message.len());
    }
    text
}

/// Logs to both the query log and dnstap.
struct BothLogs(Arc<dyn QueryLog>, Arc<dyn QueryLog>);

impl QueryLog for BothLogs {
    fn query(&self, query: &LoggedQuery<'_>) {
        self.0.query(query);
        self.1.query(query);
    }

    fn reply(&self, query: &LoggedQuery<'_>, reply: &LoggedReply<'_>) {
        self.0.reply(query, reply);
        self.1.reply(query, reply);
    }

    fn withheld(&self, query: &LoggedQuery<'_>, rule: Option<&RuleNote>) {
        self.0.withheld(query, rule);
        self.1.withheld(query, rule);
    }
}

/// An observer of queries, which sees no more of them when this is dropped.
pub struct Observation {
    frontend: Arc<Frontend>,
    number: u64,
}

impl Drop for Observation {
    fn drop(&mut self) {
        self.frontend.query_logger.remove_observer(self.number);
        let logged = lock(&self.frontend.logged);
        self.frontend.put_log(*logged);
    }
}

/// Counters of one listener.
pub struct ListenerTotals {
    /// Its address.
    pub local: SocketAddr,
    /// The carrier of its queries: the transport's label, or "xdp" for an AF_XDP front, whose address is that
    /// of the sockets behind it.
    pub carrier: &'static str,
    /// The counters.
    pub totals: net::Totals,
}

impl Frontend {
    /// Returns an engine without zones and without listeners. Query log lines go to the file, if there is
    /// one.
    ///
    /// # Errors
    /// The system's error if it refuses a thread for the query log.
    pub fn new(
        key: &HashKey,
        settings: &Settings,
        query_file: Option<QueryFile>,
        dnstap: Option<Arc<Dnstap>>,
    ) -> std::io::Result<Frontend> {
        let zones = Zones { config: settings.zones_config(), ..Zones::new(Arc::new(Catalog::new(key))) };
        let (_, per_client) = settings.server.tcp.limits();
        let connections = DescriptorShares::with_warning(settings).tcp;
        let tcp_limits = TcpLimits::new(connections, per_client, &settings.server.tcp.times());
        tcp_limits.set_per_network(settings.server.tcp.per_network(connections));
        tcp_limits.set_waiting(settings.server.tcp.memory.0);
        let (proxies, http_proxies) = (Proxies::default(), HttpProxies::default());
        set_proxies((&proxies, &http_proxies), settings);
        let cookies = ServerCookies::new(settings)?;
        let frontend = Frontend {
            engine: Arc::new(Engine::new(serving(zones), Sources::default(), EngineConfig::default())),
            cookies,
            certificates: Arc::new(Certificates::new(settings)?),
            oblivious: Arc::new(ObliviousService::new(settings)?),
            accounts: Accounts::default(),
            listeners: Mutex::default(),
            tcp_limits,
            proxies,
            http_proxies,
            panic_messages: Arc::new(AtomicBool::new(*settings.log.panic_messages)),
            query_logger: QueryLogger::start(query_file)?,
            logged: Mutex::new(LoggedQueries::None),
            policy_top: PolicyTop::default(),
            counters: ReplyCounters::new(settings)?,
            limits_top: LimitsTop::default(),
            dnstap,
        };
        let limit_log = frontend.limits_top.resize(settings.rate_limits.top.0)?;
        frontend.engine.set_config(frontend.engine_config(settings, limit_log));
        let failures: Arc<dyn FailureLog> = Arc::new(FailureLines::default());
        frontend.engine.set_failure_log(&failures);
        frontend.log_queries(*settings.log.queries);
        frontend.engine.set_rule_log(frontend.policy_top.resize(settings.policy_top())?);
        Ok(frontend)
    }

    /// Returns the engine's settings, with the secrets of cookies and the counters of limits.
    fn engine_config(&self, settings: &Settings, log: Option<Arc<dyn LimitLog>>) -> EngineConfig {
        let limits = self.counters.limits(settings, log);
        EngineConfig { limits, ..self.cookies.engine_config(settings) }
    }

    /// Makes server cookies with a new random secret from now on; those of the one before are still accepted.
    ///
    /// # Errors
    /// Why the secret stays.
    pub fn rotate_cookies(&self) -> Result<(), CookieFault> {
        self.cookies.rotate()
    }

    /// Turns the query log on or off.
    pub fn log_queries(&self, queries: LoggedQueries) {
        let mut logged = lock(&self.logged);
        *logged = queries;
        self.put_log(queries);
    }

    /// Passes every query to an observer from now on, until the result is dropped. Without observers, the
    /// query path does nothing for them.
    pub fn observe_queries(self: &Arc<Self>, observer: Arc<dyn QueryObserver>) -> Observation {
        let number = self.query_logger.add_observer(observer);
        let logged = lock(&self.logged);
        self.put_log(*logged);
        Observation { frontend: Arc::clone(self), number }
    }

    /// Sets the engine's query log, with these queries logged.
    fn put_log(&self, queries: LoggedQueries) {
        let share = match queries {
            LoggedQueries::None => 0.0,
            LoggedQueries::All => 1.0,
            LoggedQueries::Share(share) => share,
        };
        let log = self.query_logger.tap(share).map(|tap| Arc::new(tap) as Arc<dyn QueryLog>);
        let dnstap = self.dnstap.clone().map(|dnstap| dnstap as Arc<dyn QueryLog>);
        self.engine.set_query_log(match (log, dnstap) {
            (Some(log), Some(dnstap)) => Some(Arc::new(BothLogs(log, dnstap))),
            (log, dnstap) => log.or(dnstap),
        });
    }

    /// Starts the workers of these sockets.
    ///
    /// # Errors
    /// If the system refuses a thread; workers already started continue.
    pub fn serve(&self, bound: Vec<Bound>) -> Result<(), ServeError> {
        let panic_messages = Arc::clone(&self.panic_messages);
        let mut context = Context::default().on_fault(move |fault| {
            // A query that makes a handler panic may be sent again, and shortages recur.
            let about = ("worker", &*fault.to_string());
            match &fault.kind {
                net::WorkerFaultKind::QueryPanicked(suspect) => {
                    let message = if panic_messages.load(Relaxed) {
                        hexadecimal(&suspect.message)
                    } else {
                        String::new()
                    };
                    // Clients choose their addresses and messages.
                    let about = ("panic", "");
                    log_repeated!(error, ERROR, about, "{fault}{message}; this is a bug in nomen");
                }
                net::WorkerFaultKind::Recovered => log_repeated!(info, INFO, about, "{fault}"),
                net::WorkerFaultKind::Pin(_) | net::WorkerFaultKind::OutOfDescriptors(_) => {
                    log_repeated!(warn, WARN, about, "{fault}");
                }
                _ => log_repeated!(error, ERROR, about, "{fault}"),
            }
        });
        context.tcp = self.tcp_limits.clone();
        context.proxies = self.proxies.clone();
        context.http_proxies = self.http_proxies.clone();
        context.tls = self.certificates.listener_tls();
        context.fresh = Some(freshness::freshness);
        context.oblivious = Some(Arc::clone(&self.oblivious) as Arc<dyn net::ObliviousTarget>);
        context.keepalive = Some(keepalive::has_keepalive);
        for socket in bound {
            let (addr, transport) = (socket.local_addr(), socket.transport());
            let (front, passed) = (socket.xdp_mode(), socket.passed());
            let running = socket.serve(Workers::new(&self.engine, &self.accounts), &context)?;
            match (front, passed) {
                (Some(mode), _) => info!(
                    queues = mode.queues,
                    driver = mode.driver,
                    zero_copy = mode.zero_copy,
                    "AF_XDP before {addr} {transport}"
                ),
                (None, Some(passed)) => info!(passed, "listening on {addr} {transport}"),
                (None, None) => info!("listening on {addr} {transport}"),
            }
            lock(&self.listeners).push(running);
        }
        Ok(())
    }

    /// Returns the addresses of the listeners.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        lock(&self.listeners).iter().map(Running::local_addr).collect()
    }

    /// Returns whether every listener that was started and not stopped is running.
    pub fn is_alive(&self) -> bool {
        !lock(&self.listeners)
            .iter()
            .any(|listener| listener.is_finished() && !listener.shutdown().triggered())
    }

    /// Returns the counters of every listener.
    pub fn listeners(&self) -> Vec<ListenerTotals> {
        let of = |listener: &Running| ListenerTotals {
            local: listener.local_addr(),
            carrier: listener.xdp_mode().map_or(listener.transport().label(), |_| "xdp"),
            totals: listener.stats().totals(),
        };
        lock(&self.listeners).iter().map(of).collect()
    }

    /// Returns descriptors of all listening sockets, for the server that takes over.
    ///
    /// # Errors
    /// The system's error if it refuses descriptors.
    pub fn sockets(&self) -> std::io::Result<Vec<OwnedFd>> {
        let mut sockets = Vec::new();
        for listener in lock(&self.listeners).iter() {
            sockets.extend(listener.sockets()?);
        }
        Ok(sockets)
    }

    /// Makes all listeners leave unread data in their sockets when they stop: the next server has the same
    /// sockets.
    pub fn leave_unread(&self) {
        lock(&self.listeners).iter().for_each(Running::leave_unread);
    }

    /// Stops reading on passed sockets, and on AF_XDP fronts, whose packets may be meant for passed sockets:
    /// packets then wait in the sockets. Returns once the listeners have stopped reading, or after one
    /// second. Queries already read are still answered.
    pub fn let_go(&self) {
        let listeners = lock(&self.listeners);
        if !listeners.iter().any(Running::leaves_unread) {
            return;
        }
        let going = || listeners.iter().filter(|one| one.leaves_unread() || one.xdp_mode().is_some());
        going().for_each(Running::stop);
        let until = Instant::now() + LET_GO;
        while Instant::now() < until && going().any(Running::is_taking) {
            std::thread::sleep(LET_GO_STEP);
        }
    }

    /// Stops the listeners and waits until received queries are answered and logged.
    pub fn drain(&self) {
        let listeners = std::mem::take(&mut *lock(&self.listeners));
        listeners.iter().for_each(Running::stop);
        for listener in listeners {
            listener.join();
        }
        self.query_logger.flush(FLUSH_TIMEOUT);
        if let Some(dnstap) = &self.dnstap {
            dnstap.finish(FLUSH_TIMEOUT);
        }
    }
}

fn set_proxies((proxies, http): (&Proxies, &HttpProxies), settings: &Settings) {
    let server = &settings.server;
    proxies.set(server.proxies.networks(), server.proxies.longest_header());
    http.set(server.http_proxies.networks(), *server.http_proxies.header);
}

impl Adopt for Frontend {
    fn adopt(&self, settings: &Settings) {
        self.cookies.adopt(settings);
        self.certificates.adopt(settings);
        self.oblivious.adopt(settings);
        let limit_log = self.limits_top.resize(settings.rate_limits.top.0).unwrap_or_else(|fault| {
            error!("which networks are limited is not counted: {}", wording::reason(&fault));
            None
        });
        self.engine.set_config(self.engine_config(settings, limit_log));
        let zones_config = settings.zones_config();
        self.engine.change_memory(|served| served.first.config = zones_config);
        let (_, per_client) = settings.server.tcp.limits();
        let connections = DescriptorShares::with_warning(settings).tcp;
        self.tcp_limits.set(connections, per_client);
        self.tcp_limits.set_per_network(settings.server.tcp.per_network(connections));
        self.tcp_limits.set_waiting(settings.server.tcp.memory.0);
        self.tcp_limits.set_times(&settings.server.tcp.times());
        set_proxies((&self.proxies, &self.http_proxies), settings);
        self.panic_messages.store(*settings.log.panic_messages, Relaxed);
        self.log_queries(*settings.log.queries);
        match self.policy_top.resize(settings.policy_top()) {
            Ok(log) => self.engine.set_rule_log(log),
            Err(fault) => {
                self.engine.set_rule_log(None);
                error!("what is blocked most is not counted: {}", wording::reason(&fault));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_in_the_log_have_a_bounded_length() {
        assert_eq!(hexadecimal(&[0x00, 0x7f, 0xff]), ": 007fff");
        assert_eq!(hexadecimal(&[1; MOST_LOGGED]).len(), 2 + 2 * MOST_LOGGED);
        let long = hexadecimal(&[1; 65_535]);
        assert_eq!(long, format!(": {}… (65535 bytes)", "01".repeat(MOST_LOGGED)));
    }
}
