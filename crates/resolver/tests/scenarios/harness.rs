//! Reads and runs scenarios; `scenarios.rs` explains the language.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::shown::{duration, show, wire_form};
use resolver::{
    ChaCha, ClientPrefix, ForwardConfig, ForwardRule, ForwardStats, IterateRule, LookupFailure,
    LookupOutcome, LookupRequest, LookupSink, Partition, QueryKey, Reach, Resolver, ResolverRequest, Trace,
    Upstream, UpstreamTransport,
};
use transport::{
    Action, Core, Counter, Encryption, EncryptionFault, Event, Link, TargetKeyServer, Transport,
};
use wire::edns::{Edns, OptWriter, OptionCode};
use wire::message::{Builder, Compressor, Header, Owner, Parser, Section};
use wire::{Class, NameBuf, Rcode, Ttl, Type};

/// Runs all scenarios of a file.
pub(crate) fn run(file: &str, text: &str) {
    let mut play: Option<Play> = None;
    let mut count = 0;
    for (number, line) in text.lines().enumerate() {
        let line =
            line.split('#').next().filter(|_| line.trim_start().starts_with('#')).unwrap_or(line).trim();
        if line.is_empty() {
            continue;
        }
        if let Some(name) = line.strip_prefix("scenario ") {
            if let Some(before) = play.take() {
                before.finish();
            }
            count += 1;
            play = Some(Play::new(format!("{file}: {name}")));
            continue;
        }
        let play = play.as_mut().expect("a scenario has a name first");
        play.at = format!("{} (line {}: {line})", play.name, number + 1);
        play.line(line);
    }
    play.expect("a scenario").finish();
    assert!(count > 0);
}

type Outcomes = Arc<Mutex<VecDeque<(u32, LookupOutcome)>>>;

/// Collects outcomes, and checks that a lookup is reported once, before its clients.
struct Collector {
    outcomes: Outcomes,
    ended: Arc<Mutex<Vec<String>>>,
}

impl LookupSink for Collector {
    type Waiter = u32;

    fn ended(&mut self, query_key: &QueryKey, outcome: &LookupOutcome, _: Instant) {
        self.ended.lock().expect("one thread").push(show(outcome));
        let LookupOutcome::Answered(answer) = outcome else { return };
        let (_, mut parser) = Parser::new(&answer.message).expect("a header");
        let question = parser.question().expect("a question");
        assert_eq!(question.name.as_wire(), query_key.name.as_name().as_wire(), "the question in lower case");
    }

    fn settle(&mut self, waiter: u32, outcome: LookupOutcome, _: Instant) {
        self.outcomes.lock().expect("one thread").push_back((waiter, outcome));
    }
}

/// A query sent to a server.
#[derive(Clone)]
struct Query {
    server: String,
    link: Link,
    transport: UpstreamTransport,
    message: Vec<u8>,
    sent: Instant,
    /// It is the first on its link.
    first: bool,
}

struct Play {
    name: String,
    at: String,
    config: ForwardConfig,
    servers: Vec<(String, Upstream)>,
    core: Option<(Resolver<Collector, ChaCha>, Arc<ForwardStats>)>,
    outcomes: Outcomes,
    ended: Arc<Mutex<Vec<String>>>,
    now: Instant,
    /// The trace of each client, and the number of its steps checked so far.
    traces: HashMap<String, (Trace, usize)>,
    links: HashMap<Link, (String, UpstreamTransport)>,
    used: HashSet<Link>,
    sent: VecDeque<Query>,
    closed: VecDeque<(String, UpstreamTransport, Instant)>,
    /// The IDs of cancelled queries, by server.
    cancelled: VecDeque<(String, u16)>,
    /// Links to targets that were opened to fetch a key, and servers whose links go on after that.
    fetching: VecDeque<(String, Link)>,
    resumed: VecDeque<String>,
    /// The expected queries of each server.
    taken: HashMap<String, Vec<Query>>,
}

impl Play {
    fn new(name: String) -> Self {
        Play {
            at: name.clone(),
            name,
            config: ForwardConfig { explore: 0, ..Default::default() },
            servers: Vec::new(),
            core: None,
            outcomes: Outcomes::default(),
            ended: Arc::default(),
            now: Instant::now(),
            traces: HashMap::new(),
            links: HashMap::new(),
            used: HashSet::new(),
            sent: VecDeque::new(),
            closed: VecDeque::new(),
            cancelled: VecDeque::new(),
            fetching: VecDeque::new(),
            resumed: VecDeque::new(),
            taken: HashMap::new(),
        }
    }

    fn line(&mut self, line: &str) {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let words: Vec<&str> = rest.split_whitespace().collect();
        match verb {
            "upstream" => self.upstream(&words),
            "rule" => self.rule(&words),
            "set" => self.set(words[0], words[1]),
            "ask" => self.ask(&words),
            "at" => self.advance(duration(words[0].trim_start_matches('+'))),
            "query" => self.query(&words),
            "reply" => self.reply(rest),
            "settings" => self.config.rules.clear(),
            "configure" => {
                let config = Box::new(self.config.clone());
                self.request(ResolverRequest::Configure(config));
            }
            "ended" => {
                let ended = std::mem::take(&mut *self.ended.lock().expect("one thread"));
                assert_eq!(ended.last().map_or("nothing", String::as_str), rest, "{}", self.at);
            }
            "servers" => {
                let (_, stats) = self.core.as_ref().expect("started");
                let name = |upstream: &Upstream| self.servers.iter().find(|(_, known)| known == upstream);
                let shown: Vec<String> = stats
                    .upstreams()
                    .iter()
                    .map(|stats| {
                        let (name, _) = name(&stats.upstream).expect("a server");
                        let rtt =
                            stats.smoothed_rtt().map_or("-".into(), |rtt| format!("{}us", rtt.as_micros()));
                        format!("{name} {rtt}{}", if stats.is_failing() { " failing" } else { "" })
                    })
                    .collect();
                assert_eq!(shown.join(", "), rest, "{}", self.at);
            }
            "step" => {
                let (client, wanted) = rest.split_once(' ').expect("a client and a step");
                let (trace, taken) = self.traces.get_mut(client).expect("a client");
                let steps = trace.steps();
                assert_eq!(
                    steps.get(*taken).map(ToString::to_string).as_deref(),
                    Some(wanted),
                    "{}",
                    self.at
                );
                *taken += 1;
            }
            "steps" => {
                let (trace, taken) = &self.traces[words[0]];
                assert_eq!(trace.steps().len(), *taken, "{}: {:?}", self.at, trace.steps().last());
            }
            "message" => {
                let query = self.query_of(words[0]);
                let bytes = (0..words[1].len()).step_by(2);
                let message: Vec<u8> =
                    bytes.map(|i| u8::from_str_radix(&words[1][i..i + 2], 16).expect("hex")).collect();
                self.event(Event::Message { link: query.link, message: &message });
            }
            "opened" => {
                let link = self.query_of(words[0]).link;
                self.event(Event::Opened { link });
            }
            "secured" => {
                let link = self.query_of(words[0]).link;
                self.event(Event::Secured { link, resumed: words.contains(&"resumed") });
            }
            "insecure" => {
                let link = self.query_of(words[0]).link;
                let fault = EncryptionFault::ALL.iter().find(|fault| fault.label() == words[1]);
                assert!(self.links.remove(&link).is_some(), "{}: it is closed already", self.at);
                self.event(Event::Insecure { link, fault: *fault.expect("a fault") });
            }
            "unanswered" => {
                let query = self.query_of(words[0]);
                let id = Header::of(&query.message).expect("a header").id();
                let fault = EncryptionFault::ALL.iter().find(|fault| fault.label() == words[1]).copied();
                assert!(fault.is_some() || words[1] == "unprocessed", "{}: a fault", self.at);
                self.event(Event::Failed { link: query.link, id, fault });
            }
            "draining" => {
                let link = self.query_of(words[0]).link;
                self.event(Event::Draining { link });
            }
            "wants" => {
                let link = self.query_of(words[0]).link;
                self.event(Event::KeyWanted { link });
            }
            "fetches" => {
                let (server, link) = self.fetching.pop_front().expect("a link to a target");
                assert_eq!(server, words[0], "{}", self.at);
                let (server, transport, message) =
                    (format!("{server}/key"), UpstreamTransport::Https, vec![0; 12]);
                let query =
                    Query { server: server.clone(), link, transport, message, sent: self.now, first: true };
                self.taken.entry(server).or_default().push(query);
            }
            "fetched" => {
                let link = self.query_of(&format!("{}/key", words[0])).link;
                self.event(Event::Message { link, message: &[] });
            }
            "resumes" => {
                assert_eq!(self.resumed.pop_front().as_deref(), Some(words[0]), "{}", self.at);
            }
            "cancels" => {
                let query = self.query_of(words[0]);
                let id = Header::of(&query.message).expect("a header").id();
                let server = words[0].split('#').next().expect("a server").to_owned();
                assert_eq!(self.cancelled.pop_front(), Some((server, id)), "{}", self.at);
            }
            "closed" => self.end(words[0], ErrorKind::UnexpectedEof),
            "refused" => self.end(words[0], ErrorKind::ConnectionRefused),
            "answer" => self.answer(rest),
            "failed" => self.failed(words[0], &words[1..].join(" ")),
            "drops" => {
                let closed = self.closed.iter().position(|(server, transport, at)| {
                    server == words[0] && transport.to_string() == words[1] && *at == self.now
                });
                let closed = closed.unwrap_or_else(|| panic!("{}: no such link was closed now", self.at));
                self.closed.remove(closed);
            }
            "count" => {
                let n: u64 = words[1].parse().expect("a number");
                let (_, stats) = self.core.as_ref().expect("started");
                let counted = count(stats, &self.servers, words[0]);
                assert_eq!(counted, n, "{}", self.at);
            }
            _ => panic!("{}: no such line", self.at),
        }
    }

    fn upstream(&mut self, words: &[&str]) {
        let number = self.servers.len() as u8 + 1;
        let address = SocketAddr::from(([192, 0, 2, number], 53));
        let reach = match words.get(1) {
            Some(&"tcp") => Reach::Tcp,
            Some(&"tls") => Reach::Encrypted(encryption(words.get(2).unwrap_or(&"dns.example"))),
            Some(&"https") => Reach::Encrypted(streamed(Transport::Https)),
            Some(&"quic") => Reach::Encrypted(streamed(Transport::Quic)),
            Some(&"odoh") => Reach::Encrypted(oblivious(SocketAddr::from(([198, 51, 100, number], 443)))),
            _ => Reach::UdpThenTcp,
        };
        self.servers.push((words[0].to_owned(), Upstream { address, reach }));
    }

    fn rule(&mut self, words: &[&str]) {
        let find = |name: &&str| self.servers.iter().find(|(n, _)| n == name).expect("an upstream").1.clone();
        let upstreams =
            words[1..].iter().filter(|word| !["norec", "first"].contains(word)).map(find).collect();
        let rule = ForwardRule::new(words[0].parse().expect("a name"), upstreams);
        let recursion_desired = !words.contains(&"norec");
        // From a root without servers.
        let root = IterateRule { domain: NameBuf::ROOT, servers: Vec::new(), prime: false, copy: None };
        let instead = words.contains(&"first").then_some(root);
        self.config.rules.push(ForwardRule { recursion_desired, instead, ..rule });
    }

    fn set(&mut self, key: &str, value: &str) {
        let number = || value.parse::<usize>().expect("a number");
        let config = &mut self.config;
        match key {
            "explore" => config.explore = number() as u32,
            "mixed-case" => config.mixed_case = value == "on",
            "cookies" => config.cookies = value == "on",
            "tries" => config.limits.tries = number() as u8,
            "clients-per-prefix" => config.limits.clients_per_prefix = number(),
            "pulse" => config.limits.pulse = number(),
            "gather" => config.timing.gather = duration(value),
            "clients-per-lookup" => config.limits.clients_per_lookup = number(),
            "lookups-per-rule" => config.limits.lookups_per_rule = number(),
            "lookups" => config.limits.lookups = number(),
            "connections" => config.limits.connections = number(),
            "pipeline" => config.limits.pipeline = number(),
            "records-per-set" => config.limits.records_per_set = number(),
            "max-ttl" => config.max_ttl = number() as u32,
            "max-negative-ttl" => config.max_negative_ttl = number() as u32,
            "client-time" => config.timing.client = duration(value),
            "idle" => config.timing.tcp_idle = duration(value),
            _ => panic!("{}: no such setting", self.at),
        }
    }

    fn start(&mut self) {
        if self.core.is_none() {
            if self.config.rules.is_empty() && !self.servers.is_empty() {
                let upstreams = self.servers.iter().map(|(_, upstream)| upstream.clone()).collect();
                self.config.rules.push(ForwardRule::new(NameBuf::ROOT, upstreams));
            }
            let collector =
                Collector { outcomes: Arc::clone(&self.outcomes), ended: Arc::clone(&self.ended) };
            let core = Resolver::new(self.config.clone(), collector, ChaCha::new([1; 32]));
            let stats = core.stats();
            self.core = Some((core, stats));
        }
    }

    fn core(&mut self) -> &mut Resolver<Collector, ChaCha> {
        self.start();
        &mut self.core.as_mut().expect("started").0
    }

    fn ask(&mut self, words: &[&str]) {
        let name: NameBuf = words[1].parse().expect("a name");
        let query_key = QueryKey {
            name: name.as_name().to_lower(),
            qtype: Type::from_text(words[2].as_bytes()).expect("a type"),
            qclass: Class::IN,
            dnssec_ok: words.contains(&"do"),
            checking_disabled: words.contains(&"cd"),
            partition: Partition::SHARED,
        };
        let from = words.iter().find_map(|word| word.strip_prefix("from="));
        let from: IpAddr = from.map_or(Ipv4Addr::LOCALHOST.into(), |a| a.parse().expect("an address"));
        let trace = self.traces.entry(words[0].to_owned()).or_default().0.clone();
        let request = LookupRequest {
            query_key,
            recursion_desired: !words.contains(&"nord"),
            client: ClientPrefix::of(from),
            budget: None,
            other_than: None,
            trace: words.contains(&"trace").then(|| trace.clone()),
            patience: words.iter().find_map(|word| word.strip_prefix("for=")).map(duration),
            waiter: words[0].parse().expect("a number"),
        };
        self.request(ResolverRequest::Lookup(request));
    }

    fn request(&mut self, request: ResolverRequest<u32>) {
        let (now, mut actions) = (self.now, Vec::new());
        self.core().request(request, now, &mut actions);
        self.act(actions);
    }

    fn event(&mut self, event: Event<'_>) {
        let (now, mut actions) = (self.now, Vec::new());
        self.core().event(event, now, &mut actions);
        self.act(actions);
    }

    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Open { link, transport, to, encryption, .. } if self.target(to).is_some() => {
                    let (server, target) = self.target(to).expect("a target");
                    assert_eq!(Some(&target.encryption), encryption.as_ref(), "{}: another link", self.at);
                    assert_eq!(transport, Transport::Https, "{}", self.at);
                    self.fetching.push_back((server.clone(), link));
                    self.links.insert(link, (format!("{server}/key"), UpstreamTransport::Https));
                }
                Action::Open { link, transport, to, encryption, .. } => {
                    let server = self.servers.iter().find(|(_, u)| u.address == to).expect("a server");
                    // Nothing to a server with encryption is in the clear, in any scenario.
                    assert_eq!(server.1.reach.encryption(), encryption.as_ref(), "{}: another link", self.at);
                    let transport = match (transport, encryption) {
                        (Transport::Udp, None) => UpstreamTransport::Udp,
                        (Transport::Tcp, None) => UpstreamTransport::Tcp,
                        (Transport::Tls, Some(_)) => UpstreamTransport::Tls,
                        (Transport::Https, Some(encryption)) if encryption.is_oblivious() => {
                            UpstreamTransport::Oblivious
                        }
                        (Transport::Https, Some(_)) => UpstreamTransport::Https,
                        (Transport::Quic, Some(_)) => UpstreamTransport::Quic,
                        other => panic!("{}: no such link: {other:?}", self.at),
                    };
                    let before = self.links.insert(link, (server.0.clone(), transport));
                    assert!(before.is_none(), "{}: link in use", self.at);
                }
                Action::Send { link, message } => {
                    let (server, transport) = self.links.get(&link).expect("an open link").clone();
                    let first = self.used.insert(link);
                    self.sent.push_back(Query { server, link, transport, message, sent: self.now, first });
                }
                Action::Cancel { link, id } => {
                    let (server, transport) = self.links.get(&link).expect("an open link").clone();
                    let has_streams = matches!(
                        transport,
                        UpstreamTransport::Https | UpstreamTransport::Quic | UpstreamTransport::Oblivious
                    );
                    assert!(has_streams, "{}: a link without streams", self.at);
                    self.cancelled.push_back((server, id));
                }
                Action::Resume { link } => {
                    let (server, transport) = self.links.get(&link).expect("an open link").clone();
                    assert_eq!(transport, UpstreamTransport::Oblivious, "{}", self.at);
                    self.resumed.push_back(server);
                }
                Action::Close { link } => {
                    let (server, transport) = self.links.remove(&link).expect("an open link");
                    self.closed.push_back((server, transport, self.now));
                }
            }
        }
    }

    /// Returns the server whose target has this address, and the target.
    fn target(&self, to: SocketAddr) -> Option<(String, TargetKeyServer)> {
        self.servers.iter().find_map(|(name, upstream)| {
            let target = upstream.reach.encryption()?.key_server().filter(|target| target.address == to)?;
            Some((name.clone(), target.clone()))
        })
    }

    /// Advances the time, with every deadline on the way. All earlier queries must have been expected.
    fn advance(&mut self, by: Duration) {
        self.all_expected();
        let end = self.now + by;
        self.start();
        while let Some(at) = self.core().deadline().filter(|at| *at <= end) {
            self.now = at.max(self.now);
            let (now, mut actions) = (self.now, Vec::new());
            self.core().timeout(now, &mut actions);
            self.act(actions);
        }
        self.now = end;
    }

    fn all_expected(&self) {
        let sent: Vec<_> = self.sent.iter().map(|query| query.show(self.now)).collect();
        assert!(sent.is_empty(), "{}: before this, unexpected: {sent:?}", self.at);
        let outcomes = self.outcomes.lock().expect("one thread");
        let open: Vec<_> = outcomes.iter().map(|(client, outcome)| (client, show(outcome))).collect();
        assert!(open.is_empty(), "{}: before this, unexpected: {open:?}", self.at);
    }

    fn query(&mut self, words: &[&str]) {
        let Some(query) = self.sent.pop_front() else { panic!("{}: nothing was sent", self.at) };
        let shown = query.show(self.now);
        let wanted = words[..4].join(" ");
        assert!(shown.starts_with(&wanted), "{}: sent was {shown}", self.at);
        for what in &words[4..] {
            let has = |word: &str| shown.split(' ').any(|shown| shown == word);
            match what.strip_prefix('!') {
                Some(what) => assert!(!has(what), "{}: sent was {shown}", self.at),
                None => assert!(has(what), "{}: sent was {shown}", self.at),
            }
        }
        assert_eq!(query.sent, self.now, "{}: sent earlier: {shown}", self.at);
        self.taken.entry(query.server.clone()).or_default().push(query);
    }

    /// Returns the query of `a` (the last one) or `a#1` (the first one).
    fn query_of(&self, text: &str) -> Query {
        let (server, number) = text.split_once('#').unwrap_or((text, ""));
        let queries = self.taken.get(server).unwrap_or_else(|| panic!("{}: never asked", self.at));
        let at = number.parse().map_or(queries.len(), |n: usize| n) - 1;
        queries[at].clone()
    }

    fn end(&mut self, server: &str, error: ErrorKind) {
        let link = self.query_of(server).link;
        assert!(self.links.remove(&link).is_some(), "{}: it is closed already", self.at);
        self.event(Event::Ended { link, error });
    }

    fn reply(&mut self, text: &str) {
        let (head, records) = text.split_once(':').unwrap_or((text, ""));
        let words: Vec<&str> = head.split_whitespace().collect();
        let query = self.query_of(words[0]);
        let message = reply(&query.message, &words[1..], records);
        if self.links.contains_key(&query.link) {
            self.event(Event::Message { link: query.link, message: &message });
        } else {
            panic!("{}: the link of that query is closed", self.at);
        }
    }

    fn outcome(&mut self, client: &str) -> LookupOutcome {
        let client: u32 = client.parse().expect("a number");
        let mut outcomes = self.outcomes.lock().expect("one thread");
        let at = outcomes.iter().position(|(number, _)| *number == client);
        let at = at.unwrap_or_else(|| panic!("{}: client {client} still waits", self.at));
        outcomes.remove(at).expect("found").1
    }

    fn answer(&mut self, text: &str) {
        let (client, wanted) = text.split_once(' ').expect("a client and an answer");
        let outcome = show(&self.outcome(client));
        assert_eq!(outcome, wanted.split_whitespace().collect::<Vec<_>>().join(" "), "{}", self.at);
    }

    fn failed(&mut self, client: &str, wanted: &str) {
        let LookupOutcome::Failed(failure) = self.outcome(client) else {
            panic!("{}: it was answered", self.at)
        };
        let shown = match failure {
            LookupFailure::BadReply(fault) => format!("BadReply {fault:?}"),
            LookupFailure::Shed(reason) => format!("Shed {reason:?}"),
            other => format!("{other:?}"),
        };
        assert_eq!(shown, wanted, "{}", self.at);
    }

    /// Checks that everything was expected, and nothing is left behind.
    fn finish(mut self) {
        self.all_expected();
        for _ in 0..10 {
            self.advance_to_end();
        }
        let left: Vec<_> = self.links.values().collect();
        assert!(left.is_empty(), "{}: links left open: {left:?}", self.name);
        assert!(self.fetching.is_empty() && self.resumed.is_empty(), "{}: unexpected links", self.name);
        assert_eq!(self.core().deadline(), None, "{}: a timer is left", self.name);
        assert!(self.core().is_idle(), "{}: something is left", self.name);
    }

    fn advance_to_end(&mut self) {
        self.sent.clear();
        self.outcomes.lock().expect("one thread").clear();
        self.advance(Duration::from_secs(3));
        self.sent.clear();
        self.outcomes.lock().expect("one thread").clear();
    }
}

impl Query {
    /// `a udp www.example. A` and the further properties.
    fn show(&self, now: Instant) -> String {
        let (header, mut parser) = Parser::new(&self.message).expect("a header");
        let question = parser.question().expect("a question");
        let name = question.name.to_lower();
        let mut out = format!("{} {} {name} {:?}", self.server, self.transport, Shown(question.qtype));
        if question.name.to_string() != name.to_string() {
            out += " mixed";
        }
        if header.recursion_desired() {
            out += " rd";
        }
        if header.checking_disabled() {
            out += " cd";
        }
        if let Ok(record) = parser.record() {
            let edns = Edns::parse(&self.message, &record).expect("OPT");
            out += &format!(" edns={}", edns.udp_size);
            if edns.dnssec_ok {
                out += " do";
            }
            if edns.option(OptionCode::PADDING).is_some() {
                out += &format!(" padded={}", self.message.len());
            }
            match edns.option(OptionCode::COOKIE) {
                None => {}
                Some(cookie) if cookie.len() == 8 => out += " cookie",
                Some(cookie) => out += &format!(" cookie server={}", cookie[8]),
            }
        } else {
            out += " plain";
        }
        assert!(parser.at_end(), "nothing follows OPT");
        if self.first && self.transport != UpstreamTransport::Udp {
            out += " new";
        }
        if self.sent != now {
            out += &format!(" (sent {:?} ago)", now - self.sent);
        }
        out
    }
}

/// A type by its mnemonic.
struct Shown(Type);

impl std::fmt::Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// An encryption that differs from others by its name.
fn encryption(name: &str) -> Encryption {
    Encryption::new(name.into(), name.into(), |_| Err(EncryptionFault::Protocol))
}

/// An encryption with streams.
fn streamed(transport: Transport) -> Encryption {
    let name = "dns.example".to_owned();
    Encryption::streamed(transport, name.clone(), name, |_, _| Err(EncryptionFault::Protocol))
}

/// The encryption to a proxy whose target has its key at this address.
fn oblivious(target: SocketAddr) -> Encryption {
    let (name, encryption) = (format!("target {target}"), streamed(Transport::Https));
    let keys = Some(TargetKeyServer { address: target, encryption });
    Encryption::oblivious(name.clone(), name, keys, |_, _| Err(EncryptionFault::Protocol))
}

/// Writes a reply to `query`.
fn reply(query: &[u8], words: &[&str], records: &str) -> Vec<u8> {
    let has = |word: &str| words.contains(&word);
    let value = |key: &str| words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    let (asked, mut parser) = Parser::new(query).expect("a header");
    let question = parser.question().expect("a question");
    let edns = parser.record().ok().map(|record| Edns::parse(query, &record).expect("OPT"));
    let rcode = words.iter().find_map(|word| (0..24).map(Rcode).find(|code| code.to_string() == **word));
    let rcode = rcode.expect("a response code");
    let mut header = asked.reply();
    if has("id") {
        header = Header::query(asked.id() ^ 1).reply();
    }
    header.set_rcode(rcode);
    header.set_recursion_available(true);
    header.set_authentic_data(has("ad"));
    header.set_authoritative(has("aa"));
    header.set_truncated(has("tc"));
    let (mut buf, mut names) = (vec![0; 65_535], Compressor::large());
    let mut b = Builder::new(&mut buf, 65_535, header, &mut names);
    let lower = question.name.to_lower();
    let other = value("question").map(|name| name.parse::<NameBuf>().expect("a name"));
    let name = match &other {
        Some(other) => other.as_name(),
        None if has("lower") => lower.as_name(),
        None => question.name,
    };
    if !has("bare") {
        b.question(name, question.qtype, question.qclass).expect("fits");
        b.learn(name, wire::message::Offset::QNAME);
    }
    for record in records.split(';').map(str::trim).filter(|record| !record.is_empty()) {
        let labels =
            (1..=9).map(|n| (format!("@{n}"), name.skip(name.label_count().saturating_sub(n)).to_string()));
        let record = labels.fold(record.to_owned(), |record, (mark, end)| record.replace(&mark, &end));
        write_record(&mut b, &record);
    }
    if edns.is_some() && !has("noopt") || has("opt") {
        let mut opt = OptWriter::begin(&mut b, 1232, (rcode.0 >> 4) as u8, false).expect("fits");
        let ours = edns.and_then(|edns| edns.option(OptionCode::COOKIE)).map(|cookie| cookie[..8].to_vec());
        if let (Some(ours), Some(n)) = (ours, value("cookie")) {
            let server = [n.parse::<u8>().expect("a number"); 16];
            let ours = if has("alien") { vec![0x55; 8] } else { ours };
            opt.option(&mut b, OptionCode::COOKIE, &[&ours, &server]).expect("fits");
        }
    }
    let len = b.finish();
    let cut = value("cut").map_or(0, |n| n.parse().expect("a number"));
    buf[..len - cut].to_vec()
}

/// `www.example. 60 A 192.0.2.1`, after `auth` or `add` if it is not an answer; `CH` in front of the type for
/// class CHAOS; `*N` in front of all repeats it with the last number counted up.
fn write_record(b: &mut Builder<'_>, text: &str) {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let repeat = words[0].strip_prefix('*').map(|n| n.parse::<u32>().expect("a number"));
    if repeat.is_some() {
        words.remove(0);
    }
    let section = match words[0] {
        "auth" => Section::Authority,
        "add" => Section::Additional,
        _ => Section::Answer,
    };
    if section != Section::Answer {
        words.remove(0);
    }
    let owner: NameBuf = words[0].parse().expect("a name");
    let seconds: u32 = words[1].parse().expect("seconds");
    let class = if words[2] == "CH" { Class(3) } else { Class::IN };
    if class != Class::IN {
        words.remove(2);
    }
    let rtype = Type::from_text(words[2].as_bytes()).expect("a type");
    let text = words[3..].join(" ");
    for n in 0..repeat.unwrap_or(1) {
        let mut data = Vec::new();
        match text.strip_prefix("HEX ") {
            Some(hex) => {
                let bytes = (0..hex.len()).step_by(2);
                data.extend(bytes.map(|i| u8::from_str_radix(&hex[i..i + 2], 16).expect("hex")));
            }
            None => data = wire_form(rtype, &text),
        }
        if let Some(last) = data.last_chunk_mut::<2>().filter(|_| repeat.is_some()) {
            *last = (n as u16).to_be_bytes();
        }
        let ttl = seconds.to_be_bytes();
        let owner = Owner::Name(owner.as_name());
        let at = b.record(section, owner, rtype, class, Ttl::ZERO, &data).expect("fits").index();
        b.written_mut()[at - 6..at - 2].copy_from_slice(&ttl);
    }
}

fn count(stats: &ForwardStats, servers: &[(String, Upstream)], name: &str) -> u64 {
    if let Some((server, name)) =
        name.split_once('.').filter(|(first, _)| !matches!(*first, "suspects" | "shed"))
    {
        let server = &servers.iter().find(|(n, _)| n == server).expect("an upstream").1;
        let upstreams = stats.upstreams();
        let stats = upstreams.iter().find(|s| s.upstream == *server).expect("counted");
        let counter = match name {
            "udp" => &stats.udp,
            "tcp" => &stats.tcp,
            "tls" => &stats.tls,
            "https" => &stats.https,
            "quic" => &stats.quic,
            "odoh" => &stats.odoh,
            "no-configs" => &stats.encryption_faults[EncryptionFault::ObliviousNoConfigs.index()],
            "odoh-timeout" => &stats.encryption_faults[EncryptionFault::ObliviousTimeout.index()],
            "wrong-name" => &stats.encryption_faults[EncryptionFault::WrongName.index()],
            "refused" => &stats.encryption_faults[EncryptionFault::ConnectionRefused.index()],
            "http-server" => &stats.encryption_faults[EncryptionFault::HttpServer.index()],
            "handshakes" => &stats.handshakes,
            "resumptions" => &stats.resumptions,
            "expired" => &stats.encryption_faults[EncryptionFault::CertificateExpired.index()],
            "handshake-timeout" => &stats.encryption_faults[EncryptionFault::HandshakeTimeout.index()],
            "probes" => &stats.probes,
            "timeouts" => &stats.timeouts,
            "failures" => &stats.failures,
            "bad-replies" => &stats.bad_replies,
            "rtt-20ms" => &stats.rtt[4],
            "rtt-sum-us" => &stats.rtt_sum,
            _ => panic!("no such counter"),
        };
        return counter.get();
    }
    let counter: &Counter = match name {
        "lookups" => &stats.lookups,
        "in-flight" => &stats.in_flight,
        "joined" => &stats.joined,
        "answered" => &stats.answered,
        "failed" => &stats.failed,
        "timed-out" => &stats.timed_out,
        "dead" => &stats.dead,
        "shed.prefix" => &stats.shed[0],
        "shed.clients" => &stats.shed[1],
        "shed.rule" => &stats.shed[2],
        "shed.lookups" => &stats.shed[3],
        "suspects.id" => &stats.suspects.id,
        "suspects.question" => &stats.suspects.question,
        "suspects.case" => &stats.suspects.case,
        "suspects.cookie" => &stats.suspects.cookie,
        "suspects.unreadable" => &stats.suspects.unreadable,
        _ => panic!("no such counter"),
    };
    counter.get()
}
