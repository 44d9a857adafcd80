//! The client of an HTTPS connection: its queries are passed to the worker's handler one by one, and their
//! replies become responses.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{ALT_SVC, HeaderValue};
use hyper::http::request::Parts;
use hyper::service::Service;
use hyper::{Request, Response};
use tokio::sync::Notify;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::timeout;
use transport::{Client, HandlerFactory, MAX_MESSAGE, Outcome, ProxiedEnds};

use super::body::{ReplyBody, Unsent};
use super::message::{self, Asked, BadRequest, Reply};
use crate::config::{HttpCacheTime, ListenerConfig};
use crate::oblivious::ObliviousTarget;
use crate::proxies::{HttpProxyRules, fault_counter};
use crate::stats::WorkerStats;
use crate::tcp::connection::SharedBuffers;
use crate::tcp::event::{ConnectionEvent, Late};
use crate::tcp::life::Close;
use crate::tcp::limits::{Activity, Permit, TcpTimes, TurnedAway};
use crate::tcp::returns::Events;

/// A client, and what its worker shares with it.
pub(in crate::tcp) struct HttpClient<F: HandlerFactory> {
    pub(in crate::tcp) buffers: Rc<RefCell<SharedBuffers<F>>>,
    pub(in crate::tcp) config: Rc<ListenerConfig>,
    pub(in crate::tcp) stats: Arc<WorkerStats>,
    /// Where late answers are sent, by the number of their query.
    pub(in crate::tcp) events: Events,
    /// The number of the worker's next connection, or query over HTTPS.
    pub(in crate::tcp) next_id: Rc<Cell<u64>>,
    pub(in crate::tcp) client: Client,
    pub(in crate::tcp) fresh: Option<HttpCacheTime>,
    pub(in crate::tcp) oblivious: Option<Arc<dyn ObliviousTarget>>,
    /// Where HTTP/3 is, for responses (RFC 7838).
    pub(in crate::tcp) alt_svc: Option<HeaderValue>,
    /// The proxies that name the client in each request.
    pub(in crate::tcp) http_proxies: Arc<HttpProxyRules>,
    /// The name that the client has written for itself in the server name of TLS.
    pub(in crate::tcp) name: Option<Arc<str>>,
    pub(in crate::tcp) state: HttpState,
}

/// The state of a connection.
pub(in crate::tcp) struct HttpState {
    permit: RefCell<Permit>,
    unsent: Arc<Unsent>,
    /// Requests that are being read or answered.
    active: Cell<usize>,
    /// A request was received.
    greeted: Cell<bool>,
    /// The last time a request began or was answered.
    since: Cell<Instant>,
    /// The last time that replies were seen to leave, and how many bytes had left then.
    progress: Cell<(Instant, u64)>,
    /// Wakes the connection when its deadline may have come closer.
    changed: Notify,
}

impl HttpState {
    pub(in crate::tcp) fn new(permit: Permit, now: Instant) -> Self {
        HttpState {
            permit: RefCell::new(permit),
            unsent: Arc::default(),
            active: Cell::new(0),
            greeted: Cell::new(false),
            since: Cell::new(now),
            progress: Cell::new((now, 0)),
            changed: Notify::new(),
        }
    }

    /// Notes what the connection does, for the limits that all connections share.
    fn note(&self) {
        let unsent = self.unsent.waiting();
        let activity = match (self.active.get(), unsent) {
            (0, 0) => Activity::Idle,
            (_, 0) => Activity::Busy,
            _ => Activity::Unread(self.progress.get().0),
        };
        let mut permit = self.permit.borrow_mut();
        permit.note(activity);
        permit.note_waiting(unsent);
    }
}

/// A request that is being read or answered.
struct ActiveRequest<'s>(&'s HttpState);

impl<'s> ActiveRequest<'s> {
    fn begin(state: &'s HttpState) -> Self {
        if state.active.get() == 0 && state.unsent.waiting() == 0 {
            state.progress.set((Instant::now(), state.unsent.sent()));
            state.changed.notify_one();
        }
        state.active.set(state.active.get() + 1);
        state.greeted.set(true);
        state.since.set(Instant::now());
        state.note();
        ActiveRequest(state)
    }
}

impl Drop for ActiveRequest<'_> {
    fn drop(&mut self) {
        self.0.active.set(self.0.active.get() - 1);
        self.0.since.set(Instant::now());
        self.0.note();
    }
}

/// A query that late answers may be sent to, for as long as this exists.
struct ExpectedAnswer<'e> {
    events: &'e Events,
    id: u64,
}

impl Drop for ExpectedAnswer<'_> {
    fn drop(&mut self) {
        self.events.borrow_mut().remove(&self.id);
    }
}

/// A query that gets no reply: HTTP/2 resets its stream, HTTP/1.1 closes the connection.
#[derive(Debug)]
pub(super) struct NoReply;

impl fmt::Display for NoReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the query gets no reply")
    }
}
impl std::error::Error for NoReply {}

impl<F: HandlerFactory> HttpClient<F> {
    /// Counts the connection, until now a proxy's, as the client's that it names.
    pub(super) fn pass_to(&mut self, ends: ProxiedEnds) -> Result<(), TurnedAway> {
        self.state.permit.borrow_mut().pass_to(ends.source.ip())?;
        (self.client.peer, self.client.local) = (ends.source, ends.destination);
        Ok(())
    }

    pub(super) fn times(&self) -> TcpTimes {
        self.state.permit.borrow().times()
    }

    /// Returns the longest time for which requests are answered after a stop.
    pub(super) fn drain(&self) -> Duration {
        self.config.drain
    }

    /// Returns when the connection is to be closed, as it is now, and why. Replies of which none leaves
    /// within the write timeout are noticed within twice that time.
    pub(super) fn deadline(&self) -> (Instant, Close) {
        let (times, state) = (self.times(), &self.state);
        state.note();
        if state.unsent.waiting() > 0 {
            let (mut since, sent) = state.progress.get();
            if state.unsent.sent() != sent {
                since = Instant::now();
                state.progress.set((since, state.unsent.sent()));
            }
            return (since + times.write, Close::Write);
        }
        if state.active.get() > 0 {
            // Each request has its own time limit; this is when to look again.
            return (Instant::now() + times.write, Close::Message);
        }
        let idle = times.idle_at(state.permit.borrow().load());
        match state.greeted.get() {
            false => (state.since.get() + times.first_message.min(idle), Close::First),
            true => (state.since.get() + idle, Close::Idle),
        }
    }

    /// Waits until the deadline may have come closer.
    pub(super) async fn changed(&self) {
        self.state.changed.notified().await;
    }

    /// Returns the service of the connection.
    pub(super) fn service(self: &Rc<Self>) -> HttpService<F> {
        HttpService(Rc::clone(self))
    }

    /// Answers a request.
    async fn respond(&self, request: Request<Incoming>) -> Result<Response<ReplyBody>, NoReply> {
        let _active = ActiveRequest::begin(&self.state);
        let reply = match self.read(request).await {
            Ok((client, name, asked)) => {
                self.reply(asked, client, name.as_ref().or(self.name.as_ref())).await
            }
            Err(fault) => Err(Some(fault)),
        };
        match reply {
            Ok((head, body)) => {
                let body = ReplyBody::new(body, &self.state.unsent);
                self.state.changed.notify_one();
                let mut response = head.map(|()| body);
                if let Some(place) = &self.alt_svc {
                    response.headers_mut().insert(ALT_SVC, place.clone());
                }
                Ok(response)
            }
            Err(Some(fault)) => {
                self.stats.https_bad_requests.add(1);
                if let BadRequest::Client(_, fault) = fault {
                    fault_counter(&self.stats, fault).add(1);
                }
                Ok(fault.response(&self.state.unsent))
            }
            Err(None) => Err(NoReply),
        }
    }

    /// Returns the client of a request: that of the connection, or the one that a proxy names.
    fn client_of(&self, head: &Parts) -> Result<Client, BadRequest> {
        let proxies = &self.http_proxies;
        let Some(header) = proxies.header.filter(|_| proxies.has(self.client.peer.ip())) else {
            return Ok(self.client);
        };
        let peer = message::client(head, header, |ip| proxies.has(ip))?;
        Ok(Client { peer, ..self.client })
    }

    /// Reads the client of a request, the name in its path, and what it asks for.
    async fn read(
        &self,
        request: Request<Incoming>,
    ) -> Result<(Client, Option<Arc<str>>, Asked), BadRequest> {
        let (head, body) = request.into_parts();
        let first =
            self.client_of(&head).and_then(|client| Ok((client, message::source(&head, &self.config)?)));
        // The body is read before a refusal, too: otherwise HTTP/2 resets the stream behind the response, and
        // some clients (curl 7.88) then do not show the response.
        let body = self.body(body).await;
        let (client, (source, name)) = first?;
        let target = self.oblivious.as_deref();
        let asked = message::asked(source, body, target, client.peer.ip(), &self.stats)?;
        Ok((client, name, asked))
    }

    /// Returns what a request asks for; `Err(None)`: it gets none.
    async fn reply(
        &self,
        asked: Asked,
        client: Client,
        name: Option<&Arc<str>>,
    ) -> Result<Reply, Option<BadRequest>> {
        match asked {
            Asked::Query { message, seal } => {
                let reply = self.answer(&message, client, name).await?;
                message::response(reply, seal, self.fresh).map_err(Some)
            }
            Asked::Configs(configs) => Ok(message::configs(configs)),
        }
    }

    /// Reads the body of a request.
    async fn body(&self, body: Incoming) -> Result<Vec<u8>, BadRequest> {
        if body.is_end_stream() {
            return Ok(Vec::new());
        }
        let whole = timeout(self.times().message, Limited::new(body, MAX_MESSAGE).collect());
        match whole.await {
            Ok(Ok(whole)) => Ok(whole.to_bytes().to_vec()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(BadRequest::TooLong),
            Ok(Err(_)) => Err(BadRequest::NoMessage),
            Err(_) => Err(BadRequest::Timeout),
        }
    }

    /// Returns the reply to a DNS message; `Err(None)`: it gets none.
    async fn answer(
        &self,
        message: &[u8],
        client: Client,
        name: Option<&Arc<str>>,
    ) -> Result<Vec<u8>, Option<BadRequest>> {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        let (sender, mut late) = unbounded_channel();
        self.events.borrow_mut().insert(id, sender);
        let _expected = ExpectedAnswer { events: &self.events, id };
        let stats = &self.stats;
        stats.batches.add(1);
        stats.queries.add(1);
        stats.bytes_in.add(message.len() as u64);
        let (outcome, reply) = self.buffers.borrow_mut().stage().answer_one(message, client, name, id);
        match outcome {
            Outcome::Reply(len) if (1..=MAX_MESSAGE).contains(&len) => {
                stats.replies.add(1);
                stats.bytes_out.add(len as u64);
                Ok(reply)
            }
            Outcome::Reply(_) => {
                stats.bad_replies.add(1);
                Err(None)
            }
            Outcome::Drop => {
                stats.dropped.add(1);
                Err(None)
            }
            Outcome::Stream(stream) => {
                stats.streams.add(1);
                message::only(stream)
            }
            Outcome::Pending => {
                stats.pending.add(1);
                loop {
                    match late.recv().await {
                        Some(ConnectionEvent::Late(Late::Message(message))) => return Ok(message),
                        Some(ConnectionEvent::Late(Late::Stream(stream))) => return message::only(stream),
                        Some(ConnectionEvent::Late(Late::Nothing)) | None => return Err(None),
                        // These are for connections.
                        Some(ConnectionEvent::Evict | ConnectionEvent::Drain) => {}
                    }
                }
            }
        }
    }
}

/// The service of a connection.
pub(super) struct HttpService<F: HandlerFactory>(Rc<HttpClient<F>>);

impl<F: HandlerFactory> Service<Request<Incoming>> for HttpService<F> {
    type Response = Response<ReplyBody>;
    type Error = NoReply;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ReplyBody>, NoReply>>>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let client = Rc::clone(&self.0);
        Box::pin(async move { client.respond(request).await })
    }
}
