//! Recursive service with a zone of its own, clients, and upstream servers whose answers the tests set.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::{Duration, Instant};

use cache::{Cache, Freshness};
use query_path::{Both, Engine, EngineConfig, Sources, Worker, WorkerState, Zones};
use recursion::{
    AccessAction, AccessRule, Cached, DelegatedServer, Domain, LocalConfig, LocalRecord, LookupCompletion,
    Lookups, PartitionsConfig, PolicyConfig, PrivateConfig, Service, ValidationConfig, Waiter,
};
use resolver::{LookupFailure, LookupOutcome, LookupRequest, LookupSink, Partition, QueryKey, Scope, scrub};
use testkit::decode::{Decoded, decode};
use testkit::tree::NOW;
use transport::{Clock, MAX_MESSAGE, Outcome, Packets, Transport};
use wire::message::{Builder, Compressor, Offset, Owner, Section};
use wire::{Class, Header, LowerName, LowerNameBuf, NameBuf, Rcode, Ttl, Type, UnixTime};
use zone::catalog::{Catalog, Change};

/// Number of requests that are recorded; the next one is returned.
pub(crate) const QUEUE: usize = 100;

/// Requests for lookups without an outcome, in order of arrival.
#[derive(Clone, Default)]
pub(crate) struct Noted(pub(crate) Arc<Mutex<Vec<LookupRequest<Waiter>>>>, pub(crate) Delegated);

/// The delegations that the resolver knows: zones with their servers.
pub(crate) type Delegated = Arc<Mutex<Vec<(LowerNameBuf, Vec<DelegatedServer>)>>>;

impl Lookups for Noted {
    fn request(&self, request: LookupRequest<Waiter>) -> Option<LookupRequest<Waiter>> {
        let mut noted = self.0.lock().expect("one thread");
        if noted.len() == QUEUE {
            return Some(request);
        }
        noted.push(request);
        None
    }

    fn delegated_servers(&self, zone: LowerName<'_>) -> Vec<DelegatedServer> {
        let delegated = self.1.lock().expect("one thread");
        let of_zone = delegated.iter().filter(|(own, _)| own.as_lower() == zone);
        of_zone.flat_map(|(_, servers)| servers.clone()).collect()
    }
}

/// The service with all parts around it.
pub(crate) struct World {
    pub(crate) service: Arc<Service>,
    pub(crate) noted: Noted,
    pub(crate) policy: PolicyConfig,
    pub(crate) completion: LookupCompletion,
    /// The validation clock, Unix time in seconds.
    pub(crate) wall: Arc<AtomicU64>,
    engine: Arc<Engine<Both<Zones, Cached>>>,
    worker: Worker<Both<Zones, Cached>>,
    now: Instant,
}

/// The zone `local.example.` of this server: aliases that lead out of it and one that does not.
const ZONE: [&str; 6] = [
    "local.example. 60 SOA ns.local.example. admin.local.example. 1 3600 600 86400 60",
    "local.example. 60 NS ns.local.example.",
    "ns.local.example. 60 A 192.0.2.53",
    "out.local.example. 60 CNAME www.example.",
    "in.local.example. 60 CNAME ns.local.example.",
    "hop.local.example. 60 CNAME out.local.example.",
];

/// SOA of `example.`: negative answers may be cached for 300 seconds.
pub(crate) const SOA: &str = "example. 900 SOA ns.example. admin.example. 1 3600 600 86400 300";

/// All clients on this machine may use recursion, and one rule covers all names.
pub(crate) fn policy() -> PolicyConfig {
    PolicyConfig {
        access: vec![AccessRule {
            action: AccessAction::Allow,
            from: vec!["127.0.0.0/8".parse().expect("a network")],
            local: None,
            transports: None,
        }],
        local: LocalConfig::default(),
        lists: None,
        private: PrivateConfig::default(),
        dns64: None,
        domains: vec![domain(".")],
        partitions: PartitionsConfig::default(),
        stale_after: None,
        stale_refresh: 30,
        nxdomain_cut: true,
        aggressive_nsec: false,
        denials: 1 << 20,
        prefetch: true,
        max_chain: 8,
        validation: ValidationConfig::default(),
        reports: None,
    }
}

/// A rule's domain; with a `+` in front its servers' AD is trusted.
pub(crate) fn domain(text: &str) -> Domain {
    let name = text.trim_start_matches('+');
    Domain {
        name: testkit::name(name),
        partition: Partition::SHARED,
        trust_ad: text.starts_with('+'),
        validate: false,
    }
}

pub(crate) fn record(line: &str) -> LocalRecord {
    line.parse().unwrap_or_else(|fault| panic!("{line}: {fault}"))
}

/// A small cache.
pub(crate) fn cache_config() -> cache::CacheConfig {
    cache::CacheConfig { bytes: 1 << 20, ..cache::CacheConfig::default() }
}

impl World {
    /// The usual policy with changes.
    pub(crate) fn new(change: impl FnOnce(&mut PolicyConfig)) -> World {
        World::with_cache(&cache_config(), change)
    }

    pub(crate) fn with_cache(config: &cache::CacheConfig, change: impl FnOnce(&mut PolicyConfig)) -> World {
        let (key, start) = (testkit::key(), Instant::now());
        let mut policy = policy();
        change(&mut policy);
        let cache = Cache::new(config, key).expect("a cache");
        let service = Service::new(cache, start, &policy).expect("a policy");
        let noted = Noted::default();
        service.connect(Box::new(noted.clone()));
        let records: Vec<testkit::ModelRecord> = ZONE.iter().map(|line| zone_record(line)).collect();
        let zone = testkit::build(testkit::name("local.example.").as_name(), &key, &records);
        let catalog = Catalog::new(&key).with([Change::Serve(Arc::new(zone))]).expect("one key");
        let memory = Both { first: Zones::new(Arc::new(catalog)), then: service.memory() };
        let sources = Sources { elsewhere: Some(service.source()), ..Sources::default() };
        let engine = Arc::new(Engine::new(memory, sources, EngineConfig::default()));
        let worker = Worker::new(Arc::clone(&engine), Arc::new(WorkerState::new(Waker::noop().clone())));
        let wall = Arc::new(AtomicU64::new(NOW.into()));
        let completion = completion(&service, &wall);
        World { service, noted, policy, completion, wall, engine, worker, now: start }
    }

    /// One more completion.
    pub(crate) fn completion(&self) -> LookupCompletion {
        completion(&self.service, &self.wall)
    }

    /// Applies another policy.
    pub(crate) fn change_policy(&mut self, change: impl FnOnce(&mut PolicyConfig)) {
        change(&mut self.policy);
        self.service.set_policy(&self.policy, || {}).expect("a policy");
        let memory = self.service.memory();
        self.engine.change_memory(|both| both.then = memory.clone());
    }

    /// The current time.
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// Sets the time.
    pub(crate) fn set_time(&mut self, now: Instant) {
        self.now = now;
    }

    /// Advances the time.
    pub(crate) fn after(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    /// Sends a query. `None`: the answer comes later.
    pub(crate) fn ask(&mut self, ask: &Ask) -> Option<Reply> {
        self.ask_or_drop(ask).expect("the query is not dropped")
    }

    /// Sends a query. `None`: it gets no reply; `Some(None)`: the answer comes later.
    pub(crate) fn ask_or_drop(&mut self, ask: &Ask) -> Option<Option<Reply>> {
        let mut packets = Packets::new(ask.transport, MAX_MESSAGE).clock(Clock::At(self.now));
        let local = SocketAddr::from(([127, 0, 0, 1], 53));
        packets.push_from(SocketAddr::new(ask.from, 5353), local, &ask.message());
        packets.ask(&mut self.worker);
        if let Some(reply) = packets.reply(0) {
            return Some(Some(Reply::read(reply)));
        }
        match packets.take_outcome(0) {
            Some(Outcome::Pending) => Some(None),
            Some(Outcome::Drop) => None,
            other => panic!("{other:?}"),
        }
    }

    /// Sends a query that is answered at once.
    pub(crate) fn hit(&mut self, ask: &Ask) -> Reply {
        self.ask(ask).expect("an answer at once")
    }

    /// Sends a query that needs a lookup.
    pub(crate) fn miss(&mut self, ask: &Ask) {
        if let Some(reply) = self.ask(ask) {
            panic!("answered at once: {reply:?}");
        }
    }

    /// Returns the late answers that are ready.
    pub(crate) fn late(&mut self) -> Vec<Reply> {
        let packets = Packets::new(Transport::Udp, MAX_MESSAGE).clock(Clock::At(self.now));
        let all = packets.late(&mut self.worker);
        all.into_iter().map(|late| Reply::read(&late.message)).collect()
    }

    /// Returns the late answers that are ready; `None` for a query that gets no reply.
    pub(crate) fn late_or_dropped(&mut self) -> Vec<Option<Reply>> {
        let packets = Packets::new(Transport::Udp, MAX_MESSAGE).clock(Clock::At(self.now));
        let all = packets.late(&mut self.worker);
        all.iter().map(|late| (!late.message.is_empty()).then(|| Reply::read(&late.message))).collect()
    }

    /// Sends a query, has a server answer another one, and returns the answer.
    pub(crate) fn learn_of(&mut self, question: &str, asked: &str, reply: &Upstream<'_>) -> Reply {
        self.miss(&ask(question));
        self.answered(asked, reply);
        self.later()
    }

    /// Returns the only late answer that is ready.
    pub(crate) fn later(&mut self) -> Reply {
        let mut late = self.late();
        assert_eq!(late.len(), 1, "{late:?}");
        late.remove(0)
    }

    /// Returns every pending request for a lookup, as text.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.noted.0.lock().expect("one thread").iter().map(show_request).collect()
    }

    /// Ends the lookup of this query key with this outcome, for all its waiters.
    pub(crate) fn end(&mut self, query_key: &QueryKey, outcome: &LookupOutcome) {
        self.completion.ended(query_key, outcome, self.now);
        self.settle(query_key, outcome);
    }

    /// Delivers the outcome to the waiters, some time after the lookup has ended.
    pub(crate) fn settle(&mut self, query_key: &QueryKey, outcome: &LookupOutcome) {
        // At once: validation threads may send requests meanwhile.
        let theirs: Vec<LookupRequest<Waiter>> = {
            let mut noted = self.noted.0.lock().expect("no panic");
            noted.extract_if(.., |request| request.query_key == *query_key).collect()
        };
        assert!(!theirs.is_empty(), "no client waits for {}", show_inquiry(query_key));
        for request in theirs {
            self.completion.settle(request.waiter, outcome.clone(), self.now);
        }
    }

    /// Ends the wait of the clients that have a stale answer, while the lookup continues.
    pub(crate) fn run_out(&mut self) {
        let gone: Vec<LookupRequest<Waiter>> = {
            let mut noted = self.noted.0.lock().expect("no panic");
            noted.extract_if(.., |request| request.patience.is_some()).collect()
        };
        assert!(!gone.is_empty(), "no client is in a hurry");
        for request in gone {
            let failed = LookupOutcome::Failed(LookupFailure::TimedOut);
            self.completion.settle(request.waiter, failed, self.now);
        }
    }

    /// Ends the lookup, for example of `www.example. A`, with this answer.
    pub(crate) fn answered(&mut self, question: &str, reply: &Upstream<'_>) {
        let query_key = query_key(question);
        let outcome = self.outcome(&query_key, reply);
        self.end(&query_key, &outcome);
    }

    /// Returns the outcome of a server's reply to a query key by the rule for its name.
    pub(crate) fn outcome(&self, query_key: &QueryKey, reply: &Upstream<'_>) -> LookupOutcome {
        let name = query_key.name.as_name();
        let covers = |domain: &&Domain| name.is_at_or_below(domain.name.as_name());
        let rules = self.policy.domains.iter().filter(covers);
        let rule = rules.max_by_key(|domain| domain.name.as_name().label_count()).expect("a rule");
        let (domain, sent) = (rule.name.as_name(), name);
        let scope = Scope {
            domain,
            sent,
            records_per_set: 256,
            max_ttl: 86_400,
            max_negative_ttl: 10_800,
            border: None,
        };
        match scrub(&reply.message(query_key), query_key, reply.rcode, &scope) {
            Ok(answer) => LookupOutcome::Answered(Arc::new(answer)),
            Err(fault) => LookupOutcome::Failed(LookupFailure::BadReply(fault)),
        }
    }

    /// Fails the lookup.
    pub(crate) fn failed(&mut self, question: &str, failure: LookupFailure) {
        self.end(&query_key(question), &LookupOutcome::Failed(failure));
    }

    /// Sends a query and has a server answer it.
    pub(crate) fn learn(&mut self, question: &str, reply: &Upstream<'_>) -> Reply {
        self.miss(&ask(question));
        self.answered(question, reply);
        self.later()
    }

    /// Returns the cached answers: query, response code and seconds left, sorted.
    pub(crate) fn cached(&self) -> Vec<String> {
        let mut all = Vec::new();
        self.service.cache().for_each(self.service.now(self.now), |held| {
            let left = match held.freshness {
                Freshness::Fresh(left) => left.to_string(),
                Freshness::Stale(ago) => format!("-{ago}"),
            };
            let qtype = if held.is_for_every_type() { "*".into() } else { held.asked().to_string() };
            let bits = [(held.dnssec_ok(), " do"), (held.checking_disabled(), " cd")];
            let bits: String = bits.into_iter().filter(|(set, _)| *set).map(|(_, word)| word).collect();
            all.push(format!("{} {qtype}{bits} {} {left}", held.name(), held.rcode()));
        });
        all.sort();
        all
    }
}

fn completion(service: &Arc<Service>, wall: &Arc<AtomicU64>) -> LookupCompletion {
    let wall = Arc::clone(wall);
    service.completion_by(move |_| UnixTime::from_secs(wall.load(Relaxed)))
}

fn zone_record(line: &str) -> testkit::ModelRecord {
    let LocalRecord { owner, rtype, ttl, rdata } = record(line);
    testkit::ModelRecord { owner, rtype, ttl, rdata }
}

/// A query key such as `www.example. A do cd`.
pub(crate) fn query_key(text: &str) -> QueryKey {
    let words: Vec<&str> = text.split(' ').collect();
    let name: NameBuf = words[0].parse().expect("a name");
    QueryKey {
        name: name.as_name().to_lower(),
        qtype: words[1].parse().expect("a type"),
        qclass: Class::IN,
        dnssec_ok: words.contains(&"do"),
        checking_disabled: words.contains(&"cd"),
        partition: Partition::SHARED,
    }
}

pub(crate) fn show_inquiry(query_key: &QueryKey) -> String {
    let bits = [(query_key.dnssec_ok, " do"), (query_key.checking_disabled, " cd")];
    let bits: String = bits.into_iter().filter(|(set, _)| *set).map(|(_, word)| word).collect();
    format!("{} {}{bits}", query_key.name, query_key.qtype)
}

fn show_request(request: &LookupRequest<Waiter>) -> String {
    let patience = request.patience.map_or(String::new(), |time| format!(" within {} ms", time.as_millis()));
    assert!(request.recursion_desired && request.trace.is_none());
    show_inquiry(&request.query_key) + &patience
}

/// A client's query.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) id: u16,
    pub(crate) name: NameBuf,
    pub(crate) qtype: Type,
    pub(crate) qclass: Class,
    pub(crate) recursion_desired: bool,
    pub(crate) dnssec_ok: bool,
    pub(crate) checking_disabled: bool,
    pub(crate) authentic: bool,
    /// UDP payload size in OPT, if there is one.
    pub(crate) edns: Option<u16>,
    pub(crate) from: IpAddr,
    pub(crate) transport: Transport,
}

/// A query such as `www.example. A do cd ad`: with EDNS and RD, from this machine by UDP.
pub(crate) fn ask(question: &str) -> Ask {
    let QueryKey { qtype, dnssec_ok, checking_disabled, .. } = query_key(question);
    let (name, _) = question.split_once(' ').expect("a type");
    Ask {
        id: 0x1234,
        name: testkit::name(name),
        qtype,
        qclass: Class::IN,
        recursion_desired: true,
        dnssec_ok,
        checking_disabled,
        authentic: question.ends_with(" ad"),
        edns: Some(1232),
        from: [127, 0, 0, 1].into(),
        transport: Transport::Udp,
    }
}

impl Ask {
    pub(crate) fn from(self, from: &str) -> Ask {
        Ask { from: from.parse().expect("an address"), ..self }
    }

    fn message(&self) -> Vec<u8> {
        let mut header = Header::query(self.id);
        header.set_recursion_desired(self.recursion_desired);
        header.set_checking_disabled(self.checking_disabled);
        header.set_authentic_data(self.authentic);
        header.set_counts([1, 0, 0, u16::from(self.edns.is_some())]);
        let (qtype, qclass) = (self.qtype.0.to_be_bytes(), self.qclass.0.to_be_bytes());
        let question = [self.name.as_name().as_wire(), &qtype, &qclass].concat();
        let mut message = [header.as_bytes().as_slice(), &question].concat();
        if let Some(size) = self.edns {
            let [high, low] = size.to_be_bytes();
            message.extend([0, 0, 41, high, low, 0, 0, if self.dnssec_ok { 0x80 } else { 0 }, 0, 0, 0]);
        }
        message
    }

    /// The question section.
    pub(crate) fn question(&self) -> Vec<u8> {
        [self.name.as_name().as_wire(), &self.qtype.0.to_be_bytes(), &self.qclass.0.to_be_bytes()].concat()
    }
}

/// A server's reply.
pub(crate) struct Upstream<'s> {
    pub(crate) rcode: Rcode,
    pub(crate) authentic: bool,
    pub(crate) answers: &'s [&'s str],
    pub(crate) authorities: &'s [&'s str],
}

/// A reply with these records in the answer section.
pub(crate) fn data<'s>(answers: &'s [&'s str]) -> Upstream<'s> {
    Upstream { rcode: Rcode::NOERROR, authentic: false, answers, authorities: &[] }
}

/// NXDOMAIN or NODATA in `example.`.
pub(crate) fn denial(rcode: Rcode) -> Upstream<'static> {
    Upstream { rcode, authentic: false, answers: &[], authorities: &[SOA] }
}

impl Upstream<'_> {
    pub(crate) fn message(&self, query_key: &QueryKey) -> Vec<u8> {
        let mut header = Header::query(7).reply();
        header.set_authentic_data(self.authentic);
        header.set_rcode(self.rcode);
        let (mut buf, mut names) = (vec![0; MAX_MESSAGE], Compressor::small());
        let mut b = Builder::new(&mut buf, MAX_MESSAGE, header, &mut names);
        b.question(query_key.name.as_name(), query_key.qtype, query_key.qclass).expect("there is room");
        b.learn(query_key.name.as_name(), Offset::QNAME);
        let answers = self.answers.iter().map(|line| (Section::Answer, line));
        let authorities = self.authorities.iter().map(|line| (Section::Authority, line));
        for (section, line) in answers.chain(authorities) {
            let LocalRecord { owner, rtype, ttl, rdata } = record(line);
            let owner = Owner::Name(owner.as_name());
            b.record(section, owner, rtype, Class::IN, ttl, &rdata).expect("there is room");
        }
        let len = b.finish();
        buf.truncate(len);
        buf
    }
}

/// A reply as a client reads it. [`decode`] has checked that it is well formed.
pub(crate) struct Reply(pub(crate) Decoded);

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [answers, authorities, _] = self.sections();
        write!(f, "{} {} {answers:?} {authorities:?} {:?}", self.rcode(), self.flags(), self.error())
    }
}

impl Reply {
    fn read(message: &[u8]) -> Reply {
        Reply(decode(message))
    }

    pub(crate) fn id(&self) -> u16 {
        self.0.header.id()
    }

    pub(crate) fn rcode(&self) -> Rcode {
        self.0.rcode
    }

    /// The flags that are set, in the order of the header: `aa tc rd ra ad cd`.
    pub(crate) fn flags(&self) -> String {
        let header = &self.0.header;
        assert!(header.is_response());
        let all = [
            (header.authoritative(), "aa"),
            (header.truncated(), "tc"),
            (header.recursion_desired(), "rd"),
            (header.recursion_available(), "ra"),
            (header.authentic_data(), "ad"),
            (header.checking_disabled(), "cd"),
        ];
        all.into_iter().filter(|(set, _)| *set).map(|(_, word)| word).collect::<Vec<_>>().join(" ")
    }

    /// The extended error.
    pub(crate) fn error(&self) -> Option<u16> {
        let options: HashMap<u16, Vec<u8>> = self.0.opt.iter().flat_map(|opt| opt.options.clone()).collect();
        options.get(&15).map(|info| u16::from_be_bytes([info[0], info[1]]))
    }

    fn sections(&self) -> [Vec<String>; 3] {
        self.0.sections.clone().map(|lines| lines.iter().map(|line| format!("{line:?}")).collect())
    }

    pub(crate) fn answers(&self) -> Vec<String> {
        let [answers, ..] = self.sections();
        answers
    }

    pub(crate) fn authorities(&self) -> Vec<String> {
        let [_, authorities, _] = self.sections();
        authorities
    }

    pub(crate) fn additional(&self) -> Vec<String> {
        let [.., additional] = self.sections();
        additional
    }

    /// In short: the response code, the flags and, if there is one, the extended error.
    pub(crate) fn says(&self) -> String {
        let error = self.error().map_or(String::new(), |code| format!(" EDE {code}"));
        format!("{} {}{error}", self.rcode(), self.flags())
    }

    /// The lowest TTL of its records.
    pub(crate) fn ttl(&self) -> Option<Ttl> {
        self.0.sections.iter().flatten().map(|line| line.ttl).min()
    }
}
