//! The line a query goes down, for one worker and one batch at a time.

use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use authority::{Ask, Scratch};
use wire::edns::ErrorInfo;
use wire::hash::{HashKey, HashedName};
use wire::message::{Builder, Compressor, HEADER_LEN};
use wire::{Class, NameHash, Rcode};
use zone::catalog::{Catalog, Located};
use zone::store::{NodeAhead, Zone};

use crate::chaos::{self, Identity};
use crate::pending::{Responder, Ticket};
use crate::render::{self, ServerEdns};
use crate::request::{Question, Request};
use crate::route::{self, Route};
use crate::screen::{self, Screened};
use crate::source::{Asked, MessageStream, Source, Sourced};
use crate::stats::Stats;
use crate::tsig;

/// The most packets a worker takes in one batch.
pub const BATCH: usize = 64;

/// How a query came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A datagram.
    Udp = 0,
    /// A message on a stream.
    Tcp = 1,
}

/// Settings of the query path.
#[derive(Clone, Debug)]
pub struct Config {
    /// The UDP payload taken and sent at the most, in octets; 1232 keeps clear of fragments.
    pub max_udp_size: u16,
    /// NSID, empty for none.
    pub nsid: Box<[u8]>,
    /// Idle timeout of streams in units of 100 ms, told to clients that ask.
    pub keepalive: u16,
    /// What CHAOS names tell.
    pub identity: Identity,
    /// CNAME and DNAME links followed for one query, at the most.
    pub max_chain: u8,
    /// Whether queries are counted per zone.
    pub count_per_zone: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            max_udp_size: 1232,
            nsid: Box::default(),
            keepalive: 100,
            identity: Identity::default(),
            max_chain: 16,
            count_per_zone: false,
        }
    }
}

/// One query with what is known of its way here.
pub struct Packet<'p> {
    /// The message.
    pub octets: &'p [u8],
    /// Who sent it.
    pub peer: SocketAddr,
    /// How it came.
    pub transport: Transport,
}

/// What the transport is to do.
pub enum Verdict {
    /// Nothing: no reply is due.
    Drop,
    /// Send this many octets of the output buffer.
    Reply(usize),
    /// Nothing now; the answer comes through the responder.
    Pending,
    /// Send these messages, as fast as the client takes them.
    Stream(Box<dyn MessageStream>),
}

/// One answered query, as a query log sees it.
pub struct LogEntry<'a> {
    /// The query as it was read.
    pub request: &'a Request,
    /// The query's octets.
    pub packet: &'a Packet<'a>,
    /// The reply's response code; `None` if there is no reply yet.
    pub rcode: Option<Rcode>,
    /// Octets of the reply.
    pub octets: usize,
}

/// Takes entries of the query log; must neither block nor fail.
pub trait QueryLog: Send + Sync {
    /// Takes one entry.
    fn log(&self, entry: &LogEntry<'_>);
}

/// What all workers share. Everything in it can be replaced while queries are answered.
pub struct Engine {
    key: HashKey,
    snapshot: ArcSwap<Snapshot>,
    fallback: Option<Arc<dyn Source>>,
}

/// Everything that can change from one batch to the next, pinned as one.
#[derive(Clone)]
struct Snapshot {
    catalog: Arc<Catalog>,
    config: Arc<Config>,
    edns: Arc<ServerEdns>,
    log: Option<Arc<dyn QueryLog>>,
}

fn server_edns(config: &Config) -> Arc<ServerEdns> {
    let Config { max_udp_size: udp_size, keepalive, .. } = *config;
    Arc::new(ServerEdns { udp_size, nsid: config.nsid.clone(), keepalive })
}

impl Engine {
    /// An engine that serves `catalog`, whose zones were built under `key`. `fallback` is asked for names
    /// that no zone holds; without one they are refused.
    pub fn new(
        key: HashKey,
        catalog: Arc<Catalog>,
        config: Config,
        fallback: Option<Arc<dyn Source>>,
    ) -> Self {
        let edns = server_edns(&config);
        let snapshot = Snapshot { catalog, config: Arc::new(config), edns, log: None };
        Engine { key, snapshot: ArcSwap::from_pointee(snapshot), fallback }
    }

    fn change(&self, change: impl Fn(&mut Snapshot)) {
        self.snapshot.rcu(|old| {
            let mut new = Snapshot::clone(old);
            change(&mut new);
            new
        });
    }

    /// Serves another set of zones from the next batch on.
    pub fn set_catalog(&self, catalog: &Arc<Catalog>) {
        self.change(|s| s.catalog = Arc::clone(catalog));
    }

    /// The zones served now.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.snapshot.load().catalog)
    }

    /// Uses other settings from the next batch on.
    pub fn set_config(&self, config: Config) {
        let (edns, config) = (server_edns(&config), Arc::new(config));
        self.change(|s| (s.edns, s.config) = (Arc::clone(&edns), Arc::clone(&config)));
    }

    /// Starts or stops the query log.
    pub fn set_query_log(&self, log: Option<Arc<dyn QueryLog>>) {
        self.change(|s| s.log = log.clone());
    }

    /// The key under which zones are built.
    pub fn key(&self) -> &HashKey {
        &self.key
    }
}

/// What a worker keeps of one packet between the steps of a batch.
struct Slot {
    request: Request,
    qname: HashedName,
    route: Route,
}

/// One thread's way through the engine, with everything it reuses.
pub struct Worker {
    engine: Arc<Engine>,
    stats: Arc<Stats>,
    /// Held for the length of a batch.
    pinned: Arc<Snapshot>,
    slots: Box<[Slot]>,
    /// What to ask memory for, packed closely: the slots are far apart.
    aims: Vec<Aim>,
    names: Compressor,
    scratch: Scratch,
}

/// Where in which zone a query's answer will be looked for.
struct Aim {
    located: Located,
    /// Hashes of the name and of its parent, the usual cut or encloser, as far as they lie below the apex.
    hashes: [NameHash; PLACES],
    nodes: [Option<NodeAhead>; PLACES],
}

/// Places in a zone where an answer is looked for ahead.
const PLACES: usize = 2;

impl Aim {
    #[inline]
    fn hashes(&self) -> impl Iterator<Item = NameHash> {
        self.hashes.into_iter().take(self.located.below as usize)
    }

    #[inline]
    fn nodes_in(&self, zone: &Zone) -> [Option<NodeAhead>; PLACES] {
        let mut hashes = self.hashes();
        std::array::from_fn(|_| hashes.next().and_then(|hash| zone.ahead_node(hash)))
    }
}

impl Worker {
    /// A worker with counters of its own.
    pub fn new(engine: Arc<Engine>, stats: Arc<Stats>) -> Self {
        let route = Route::Elsewhere;
        let slot = |_| Slot { request: Request::read(&[]), qname: HashedName::new(), route };
        let pinned = engine.snapshot.load_full();
        let slots = (0..BATCH).map(slot).collect();
        let aims = Vec::with_capacity(BATCH);
        Worker { engine, stats, pinned, slots, aims, names: Compressor::small(), scratch: Scratch::new() }
    }

    /// The worker's counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Pins the snapshots that the next batch is answered from.
    #[inline]
    pub fn begin(&mut self) {
        let now = self.engine.snapshot.load();
        // Taking a reference writes to a line all workers share; nearly always there is nothing new.
        if !Arc::ptr_eq(&now, &self.pinned) {
            self.pinned = arc_swap::Guard::into_inner(now);
        }
    }

    /// First step, for each packet of a batch: read it and hash its name. `at` is its place in the batch, below
    /// [`BATCH`].
    #[inline]
    pub fn prepare(&mut self, at: usize, packet: &Packet<'_>) {
        let slot = &mut self.slots[at];
        slot.request = Request::read(packet.octets);
        let question = slot.request.question;
        self.stats.query(
            packet.transport,
            question.map(|q| q.qtype),
            packet.octets.len(),
            slot.request.dnssec_ok(),
        );
        slot.route = Route::Elsewhere;
        if let Some(question) = question {
            slot.qname.set(&self.engine.key, question.name(packet.octets));
            if self.pinned.catalog.is_large() {
                self.pinned.catalog.ahead(&slot.qname);
            }
        }
    }

    /// Second step, for the first `n` packets: find their way, and ask for the memory that their answers will be
    /// copied from. Each pass over the batch asks for what the next one reads, so that the whole batch waits for
    /// memory together.
    pub fn route(&mut self, n: usize) {
        let (catalog, slots) = (&*self.pinned.catalog, &mut self.slots[..n.min(BATCH)]);
        self.aims.clear();
        for slot in slots {
            let Some(question) = &slot.request.question else { continue };
            slot.route = route::route(catalog, question, &slot.qname);
            let Route::Zone(located) = slot.route else { continue };
            if catalog.is_large() {
                catalog.ahead_located(located);
            }
            let hashes = std::array::from_fn(|skip| slot.qname.hash(skip));
            self.aims.push(Aim { located, hashes, nodes: [None; PLACES] });
        }
        for aim in &self.aims {
            let Some(zone) = catalog.zone(aim.located) else { continue };
            aim.hashes().for_each(|hash| zone.ahead(hash));
        }
        for aim in &mut self.aims {
            let Some(zone) = catalog.zone(aim.located) else { continue };
            aim.nodes = aim.nodes_in(zone);
            zone.ahead_apex();
        }
        for aim in &self.aims {
            let Some(zone) = catalog.zone(aim.located) else { continue };
            aim.nodes.into_iter().flatten().for_each(|node| zone.ahead_glue(node));
        }
    }

    /// Last step: answers the packet prepared at `at` into `out`. `responder` is called if the answer comes
    /// later.
    pub fn answer(
        &mut self,
        at: usize,
        packet: &Packet<'_>,
        out: &mut [u8],
        responder: &mut dyn FnMut() -> Box<dyn Responder>,
    ) -> Verdict {
        let Worker { engine, stats, pinned, slots, names, scratch, .. } = self;
        let Slot { request, qname, route } = &slots[at];
        let screened = screen::screen(request);
        if screened == Screened::Drop {
            stats.dropped.add(1);
            return Verdict::Drop;
        }
        let line = Line { engine, pinned, packet, request, qname, route: *route };
        let edns = &*pinned.edns;
        let limit = render::limit(request, packet.transport, edns);
        let mut b = render::start(request, packet.octets, out, limit, names, edns);
        let question_only = b.mark();
        let sourced = match screened {
            Screened::Reject(rcode, info) => Err((rcode, info)),
            _ => line.source(&mut b, scratch, &mut || line.ticket(limit, responder())),
        };
        let error = match sourced {
            Ok(Sourced::Ready) => None,
            Ok(Sourced::Pending) => {
                stats.pending.add(1);
                return Verdict::Pending;
            }
            Ok(Sourced::Stream(messages)) => {
                stats.streams.add(1);
                return Verdict::Stream(messages);
            }
            Err(error) => {
                b.rollback(question_only);
                Some(error)
            }
        };
        let truncated = b.header().truncated();
        if truncated {
            render::truncate(&mut b, question_only);
        }
        let rcode = error.map_or_else(|| b.rcode(), |e| e.0);
        render::add_opt(&mut b, request, packet.transport, edns, error);
        if let (Rcode::NOTAUTH, Some(at)) = (rcode, request.tsig_at) {
            tsig::refuse(&mut b, packet.octets, at);
        }
        let len = b.finish();
        stats.reply(packet.transport, rcode.0, truncated, len);
        line.log(rcode, len);
        Verdict::Reply(len)
    }
}

/// One query on its way: everything a step may look at.
struct Line<'a> {
    engine: &'a Engine,
    pinned: &'a Snapshot,
    packet: &'a Packet<'a>,
    request: &'a Request,
    qname: &'a HashedName,
    route: Route,
}

type Rejected = (Rcode, Option<ErrorInfo>);

impl Line<'_> {
    /// Routes the question and has its source answer.
    #[inline]
    fn source(
        &self,
        b: &mut Builder<'_>,
        scratch: &mut Scratch,
        ticket: &mut dyn FnMut() -> Ticket,
    ) -> Result<Sourced, Rejected> {
        let Some(question) = self.request.question else { return Err((Rcode::FORMERR, None)) };
        match self.route {
            Route::Zone(located) => self.authority(&question, located, b, scratch),
            Route::Chaos => {
                let identity = &self.pinned.config.identity;
                chaos::answer(identity, self.qname.as_lower(), question.qtype, b)?;
                Ok(Sourced::Ready)
            }
            Route::Elsewhere => {
                let refused = (Rcode::REFUSED, Some(ErrorInfo::NOT_AUTHORITATIVE));
                let source = self.engine.fallback.as_ref().ok_or(refused)?;
                let qname = question.name(self.packet.octets);
                let asked = Asked { request: self.request, qname, qtype: question.qtype };
                Ok(source.answer(&asked, b, ticket))
            }
            Route::Reject(rcode, info) => Err((rcode, info)),
        }
    }

    #[inline]
    fn authority(
        &self,
        question: &Question,
        located: Located,
        b: &mut Builder<'_>,
        scratch: &mut Scratch,
    ) -> Result<Sourced, Rejected> {
        let (config, catalog) = (&self.pinned.config, &self.pinned.catalog);
        if config.count_per_zone {
            catalog.entry(located).count_query();
        }
        let Some(zone) = catalog.zone(located) else {
            return Err((Rcode::SERVFAIL, Some(ErrorInfo::NOT_READY)));
        };
        let ask = Ask {
            name: question.name(self.packet.octets),
            qname: self.qname,
            qtype: question.qtype,
            dnssec_ok: self.request.dnssec_ok(),
            catalog,
            key: &self.engine.key,
            max_chain: config.max_chain,
        };
        authority::answer(&ask, zone, located.below as usize, b, scratch);
        if question.qclass == Class::ANY {
            // There may be more in classes not known here (RFC 1035 §6.2).
            b.flags(|h| h.set_authoritative(false));
        }
        Ok(Sourced::Ready)
    }

    /// What a source needs to answer later.
    #[cold]
    fn ticket(&self, limit: usize, responder: Box<dyn Responder>) -> Ticket {
        let head = self.request.question.map_or(0, |q| q.octets()) + HEADER_LEN;
        Ticket {
            request: self.request.clone(),
            head: self.packet.octets[..head.min(self.packet.octets.len())].into(),
            transport: self.packet.transport,
            limit,
            edns: Arc::clone(&self.pinned.edns),
            responder,
        }
    }

    #[inline]
    fn log(&self, rcode: Rcode, octets: usize) {
        if let Some(log) = &self.pinned.log {
            log.log(&LogEntry { request: self.request, packet: self.packet, rcode: Some(rcode), octets });
        }
    }
}
