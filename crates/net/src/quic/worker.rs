//! The worker: one thread with a single-threaded runtime and one socket, on which an endpoint of QUIC serves
//! connections.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use quinn::{Endpoint, Incoming, ServerConfig, TokioRuntime};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior};
use transport::{Client, HandlerFactory};

use super::client::{QuicClient, QuicState};
use super::connection;
use super::settings::QuicShared;
use super::socket;
use crate::config::ListenerConfig;
use crate::fault::WorkerFaultKind;
use crate::job::Job;
use crate::proxies::ProxyView;
use crate::stats::WorkerStats;
use crate::tcp::{
    ConnectionEvent, Events, SharedBuffers, TcpLimits, count_close, on_thread, refusal_counter,
};

/// Interval of [`transport::Handler::idle`].
const IDLE_TICK: Duration = Duration::from_secs(1);
/// First and longest pause before a failed socket is opened again.
const REBIND_PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));
/// Longest wait until the ends of connections have left a worker that stops.
const FAREWELL: Duration = Duration::from_millis(200);

/// Starts a worker thread on `socket`.
pub(crate) fn spawn<F: HandlerFactory>(
    socket: UdpSocket,
    factory: Arc<F>,
    job: Job,
    (limits, shared): (TcpLimits, QuicShared),
) -> io::Result<JoinHandle<()>> {
    let tls = job.tls.clone().ok_or(io::ErrorKind::InvalidInput)?;
    let kind = (job.id.transport, &job.config);
    let server = shared.server(&tls.config, kind, &job.stats).map_err(io::Error::other)?;
    on_thread(
        format!("quic-{}-{}", job.id.local.port(), job.id.index),
        factory,
        job,
        move |job, buffers, events| {
            let worker = Worker {
                buffers,
                config: Rc::new(job.config.clone()),
                stats: Arc::clone(&job.stats),
                connections: JoinSet::new(),
                events,
                next_id: Rc::new(Cell::new(1)),
                limits,
                proxies: job.proxies.view(),
                shared,
                server,
                job,
            };
            worker.run(socket)
        },
    )
}

/// Admits connections and keeps track of them.
struct Worker<F: HandlerFactory> {
    buffers: Rc<RefCell<SharedBuffers<F>>>,
    config: Rc<ListenerConfig>,
    stats: Arc<WorkerStats>,
    connections: JoinSet<()>,
    /// The event sender of each connection and each pending query.
    events: Events,
    next_id: Rc<Cell<u64>>,
    limits: TcpLimits,
    proxies: ProxyView,
    shared: QuicShared,
    server: ServerConfig,
    job: Job,
}

impl<F: HandlerFactory> Worker<F> {
    async fn run(mut self, socket: UdpSocket) {
        let mut stop = self.job.shutdown.subscribe();
        let mut tick = tokio::time::interval(IDLE_TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // A passed socket is kept, whatever error it reports.
        let kept = if self.job.passed { socket.try_clone().ok() } else { None };
        let taking = self.job.shutdown.take();
        let mut socket = Some(socket);
        while let Some(current) = socket.take() {
            let endpoint = match self.endpoint(current) {
                Ok(endpoint) => endpoint,
                Err(error) => {
                    socket = self.again(error, kept.as_ref(), &mut stop).await;
                    continue;
                }
            };
            if self.serve(&endpoint, &mut stop, &mut tick).await {
                drop(taking);
                return self.drain(&endpoint).await;
            }
            // The endpoint keeps its error to itself; the connections end with it.
            drop(endpoint);
            let error = io::Error::other("the endpoint of QUIC has ended");
            socket = self.again(error, kept.as_ref(), &mut stop).await;
        }
    }

    fn endpoint(&self, socket: UdpSocket) -> io::Result<Endpoint> {
        let server = Some(self.server.clone());
        Endpoint::new(self.shared.endpoint(), server, socket, Arc::new(TokioRuntime))
    }

    /// Admits connections until a stop is requested. Returns false if the endpoint has ended.
    async fn serve(
        &mut self,
        endpoint: &Endpoint,
        stop: &mut watch::Receiver<bool>,
        tick: &mut Interval,
    ) -> bool {
        loop {
            tokio::select! {
                biased;
                _ = stop.wait_for(|&stopped| stopped) => return true,
                _ = tick.tick() => self.buffers.borrow_mut().stage().guarded.idle(),
                Some(_) = self.connections.join_next() => {}
                incoming = endpoint.accept() => match incoming {
                    Some(incoming) => self.take_in(incoming),
                    None => return false,
                },
            }
        }
    }

    /// Starts serving a connection, if the limits allow it.
    fn take_in(&mut self, incoming: Incoming) {
        let (peer, own) = (incoming.remote_address(), &self.stats);
        if self.proxies.rules().is_some_and(|rules| rules.has(peer.ip())) {
            // There is no PROXY header before QUIC, and the address would be taken for the client's.
            own.proxy_missing.add(1);
            return incoming.refuse();
        }
        let unvalidated = match incoming.remote_address_validated() {
            true => None,
            false => match self.shared.begin_unvalidated(self.limits.per_client()) {
                Some(place) => Some(place),
                None => {
                    own.quic_retries.add(1);
                    // Possible for each client whose address is not validated.
                    let _ = incoming.retry();
                    return;
                }
            },
        };
        let (sender, receiver) = unbounded_channel();
        let permit = match self.limits.admit(peer, sender.clone()) {
            Ok(permit) => permit,
            Err(reason) => {
                refusal_counter(own, reason).add(1);
                return incoming.refuse();
            }
        };
        let bound = self.job.id.local;
        let local = match incoming.local_ip().filter(|_| bound.ip().is_unspecified()) {
            Some(ip) => SocketAddr::new(ip, bound.port()),
            None => bound,
        };
        let Ok(connecting) = incoming.accept() else {
            // The first packet was malformed.
            return own.tls_malformed.add(1);
        };
        own.tcp_accepted.add(1);
        let quic = QuicClient {
            buffers: Rc::clone(&self.buffers),
            config: Rc::clone(&self.config),
            stats: Arc::clone(&self.stats),
            events: Rc::clone(&self.events),
            next_id: Rc::clone(&self.next_id),
            client: Client { peer, local, transport: self.job.id.transport },
            keepalive: self.job.keepalive,
            fresh: self.job.fresh,
            oblivious: self.job.oblivious.clone(),
            name: None,
            state: QuicState::new(permit, Instant::now()),
        };
        let id = quic.number();
        self.events.borrow_mut().insert(id, sender);
        let (events, stats) = (Rc::clone(&self.events), Arc::clone(&self.stats));
        self.connections.spawn_local(async move {
            let close = connection::serve(connecting, unvalidated, quic, receiver).await;
            events.borrow_mut().remove(&id);
            count_close(&stats, close);
        });
    }

    /// Waits until all connections have ended. Packets of new ones are dropped: their clients send them
    /// again, to the server that takes over.
    async fn drain(&mut self, endpoint: &Endpoint) {
        for events in self.events.borrow().values() {
            let _ = events.send(ConnectionEvent::Drain);
        }
        loop {
            tokio::select! {
                biased;
                ended = self.connections.join_next() => if ended.is_none() {
                    break;
                },
                Some(incoming) = endpoint.accept() => incoming.ignore(),
            }
        }
        let _ = tokio::time::timeout(FAREWELL, endpoint.wait_idle()).await;
    }

    /// Returns the socket to go on with after an error: the passed one, or a new one for the same address,
    /// however long it takes; `None` once a stop is requested.
    async fn again(
        &mut self,
        error: io::Error,
        kept: Option<&UdpSocket>,
        stop: &mut watch::Receiver<bool>,
    ) -> Option<UdpSocket> {
        self.stats.receive_errors.add(1);
        let fault = if kept.is_some() { WorkerFaultKind::Passed } else { WorkerFaultKind::Socket };
        self.job.reporter.report(fault(error));
        let (mut pause, longest) = REBIND_PAUSE;
        let mut reported = false;
        if kept.is_none() {
            self.job.socket.clear();
        }
        loop {
            tokio::select! {
                biased;
                _ = stop.wait_for(|&stopped| stopped) => return None,
                () = tokio::time::sleep(if kept.is_some() { longest } else { pause }) => {}
            }
            if let Some(kept) = kept {
                return kept.try_clone().ok();
            }
            match socket::open(self.job.id.local, &self.config, true) {
                Ok(new) => {
                    self.stats.rebinds.add(1);
                    self.job.socket.set(&new);
                    self.job.reporter.report(WorkerFaultKind::Recovered);
                    return Some(new);
                }
                Err(refusal) if !reported => {
                    reported = true;
                    self.job.reporter.report(WorkerFaultKind::Rebind(refusal.cause));
                }
                Err(_) => {}
            }
            pause = (pause * 2).min(longest);
        }
    }
}
