//! A small Internet on virtual time: servers with addresses, zones that they serve as in RFC 1034 §4.3.2, and
//! faults. A resolver queries them; every reply takes time.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use resolver::{
    AnsweredBy, Budget, ChaCha, ClientPrefix, ForwardConfig, LookupOutcome, LookupRequest, LookupSink,
    QueryKey, Resolver, ResolverRequest, Trace, ZoneCopy,
};
use transport::{Action, Core, EncryptionFault, Event, Link, Transport};
use wire::edns::{Edns, OptWriter, OptionCode};
use wire::message::{Builder, Compressor, Header, Offset, Owner, Parser, Question, Section};
use wire::{Class, LowerNameBuf, Name, NameBuf, Rcode, Ttl, Type};

/// Time from query to reply, by default.
const ROUND_TRIP: Duration = Duration::from_millis(10);

pub(crate) fn name(text: &str) -> NameBuf {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rr {
    pub(crate) owner: NameBuf,
    pub(crate) ttl: u32,
    pub(crate) rtype: Type,
    pub(crate) data: Vec<u8>,
}

/// A zone: all its records, with delegations and glue. Records outside it are added to referrals like glue,
/// as by a malicious server.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    pub(crate) apex: NameBuf,
    pub(crate) records: Vec<Rr>,
}

/// A server's answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    pub(crate) rcode: u16,
    pub(crate) authoritative: bool,
    pub(crate) records: Vec<(u8, Rr)>,
}

const ANSWER: u8 = 0;
const AUTHORITY: u8 = 1;
const ADDITIONAL: u8 = 2;

impl Zone {
    fn at(&self, owner: Name<'_>, rtype: Type) -> Vec<Rr> {
        let here = |rr: &&Rr| rr.rtype == rtype && rr.owner.as_name() == owner;
        self.records.iter().filter(here).cloned().collect()
    }

    fn soa(&self) -> Rr {
        let apex = self.apex.as_name().as_wire();
        let numbers = [1u32, 3600, 600, 86_400, 300].map(u32::to_be_bytes).concat();
        Rr { owner: self.apex, ttl: 300, rtype: Type::SOA, data: [apex, apex, &numbers].concat() }
    }

    /// The highest cut at or above `qname`.
    fn cut(&self, qname: Name<'_>, qtype: Type) -> Option<NameBuf> {
        let mut above: Vec<Name<'_>> =
            qname.ancestors().take_while(|name| *name != self.apex.as_name()).collect();
        above.reverse();
        let is_cut = |name: &&Name<'_>| {
            let asked_for_ds = **name == qname && qtype == Type::DS;
            !asked_for_ds && !self.at(**name, Type::NS).is_empty()
        };
        above.iter().find(is_cut).map(|name| name.to_buf())
    }

    /// Returns its answer to a query for a name in it.
    pub(crate) fn say(&self, qname: Name<'_>, qtype: Type) -> Said {
        let mut said = Said { authoritative: true, ..Said::default() };
        let mut at = qname.to_buf();
        for _ in 0..20 {
            if !at.as_name().is_at_or_below(self.apex.as_name()) {
                return said;
            }
            if let Some(cut) = self.cut(at.as_name(), qtype) {
                said.authoritative = !said.records.is_empty();
                self.refer(cut.as_name(), &mut said);
                return said;
            }
            if let Some(next) = self.dname(at.as_name(), &mut said) {
                at = next;
                continue;
            }
            let own = self.at(at.as_name(), qtype);
            let alias = self.at(at.as_name(), Type::CNAME);
            if own.is_empty()
                && let Some(cname) = alias.first()
            {
                said.records.push((ANSWER, cname.clone()));
                at = Name::from_wire(&cname.data).expect("a name").to_buf();
                continue;
            }
            let soa = || (AUTHORITY, self.soa());
            match own.is_empty() {
                false => {
                    said.records.extend(own.into_iter().map(|rr| (ANSWER, rr)));
                    if at == self.apex && qtype == Type::NS {
                        self.glue_of(at.as_name(), &mut said);
                    }
                }
                true if qtype == Type::SOA && at == self.apex => said.records.push((ANSWER, self.soa())),
                true if self.exists(at.as_name()) => said.records.push(soa()),
                true => {
                    said.rcode = 3;
                    said.records.push(soa());
                }
            }
            return said;
        }
        said
    }

    fn exists(&self, name: Name<'_>) -> bool {
        self.apex.as_name() == name || self.records.iter().any(|rr| rr.owner.as_name().is_at_or_below(name))
    }

    fn dname(&self, at: Name<'_>, said: &mut Said) -> Option<NameBuf> {
        let above = at.ancestors().skip(1).take_while(|name| name.is_at_or_below(self.apex.as_name()));
        let dname = above.flat_map(|name| self.at(name, Type::DNAME)).next()?;
        let target = Name::from_wire(&dname.data).expect("a name");
        let next = NameBuf::replace_suffix(at, dname.owner.as_name().label_count(), target).ok()?;
        let data = next.as_name().as_wire().to_vec();
        said.records.push((ANSWER, dname.clone()));
        said.records.push((ANSWER, Rr { owner: at.to_buf(), rtype: Type::CNAME, data, ..dname }));
        Some(next)
    }

    fn refer(&self, cut: Name<'_>, said: &mut Said) {
        said.records.extend(self.at(cut, Type::NS).into_iter().map(|rr| (AUTHORITY, rr)));
        said.records.extend(self.at(cut, Type::DS).into_iter().map(|rr| (AUTHORITY, rr)));
        self.glue_of(cut, said);
    }

    fn glue_of(&self, owner: Name<'_>, said: &mut Said) {
        for ns in self.at(owner, Type::NS) {
            let target = Name::from_wire(&ns.data).expect("a name");
            for rtype in [Type::A, Type::AAAA] {
                said.records.extend(self.at(target, rtype).into_iter().map(|rr| (ADDITIONAL, rr)));
            }
        }
    }
}

/// A server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Host {
    pub(crate) addresses: Vec<IpAddr>,
    /// The zones it serves, by index.
    pub(crate) zones: Vec<usize>,
    /// Its faults: see `tests/iterate.rs`.
    pub(crate) ways: BTreeSet<String>,
    /// It has offered recursion before.
    pub(crate) offered: bool,
}

impl Host {
    pub(crate) fn is(&self, way: &str) -> bool {
        self.ways.contains(way)
    }

    /// Returns the time it takes to reply, if unusual.
    pub(crate) fn delay(&self) -> Option<Duration> {
        let slow = self.ways.iter().find_map(|way| way.strip_prefix("slow="))?;
        Some(Duration::from_millis(slow.parse().expect("milliseconds")))
    }
}

/// A local copy of a zone.
#[allow(dead_code, reason = "one of the tests that share this has none")]
#[derive(Default)]
pub(crate) struct TestCopy {
    /// The zone, if there is a copy now.
    pub(crate) zone: Mutex<Option<Zone>>,
    /// Its fault, as of a server: "servfail", "tc", "empty" or nothing.
    pub(crate) way: Mutex<String>,
}

impl ZoneCopy for TestCopy {
    fn respond(&self, query_key: &QueryKey, message: &mut Vec<u8>) -> bool {
        let zone = self.zone.lock().expect("one thread");
        let Some(zone) = &*zone else { return false };
        let way = self.way.lock().expect("one thread").clone();
        let said = match way.as_str() {
            "servfail" => Said { rcode: 2, ..Said::default() },
            "empty" | "tc" => Said::default(),
            _ => zone.say(query_key.name.as_name(), query_key.qtype),
        };
        let mut header = Header::query(0).reply();
        header.set_rcode(Rcode(said.rcode));
        header.set_authoritative(said.authoritative);
        header.set_truncated(way == "tc");
        let (name, qtype, qclass) = (query_key.name.as_name(), query_key.qtype, query_key.qclass);
        *message = written(header, &Question { name, qtype, qclass }, &said, |_| ());
        true
    }
}

/// Whether the name exists without such records.
fn has_nothing(said: &Said) -> bool {
    said.rcode == 0 && said.records.iter().all(|(section, rr)| *section != ANSWER && rr.rtype == Type::SOA)
}

/// Writes an answer as a message; `more` adds to it.
fn written(
    header: Header,
    question: &Question<'_>,
    said: &Said,
    more: impl FnOnce(&mut Builder<'_>),
) -> Vec<u8> {
    let (mut buf, mut names) = (vec![0; 65_535], Compressor::large());
    let mut b = Builder::new(&mut buf, 65_535, header, &mut names);
    b.question(question.name, question.qtype, question.qclass).expect("fits");
    b.learn(question.name, Offset::QNAME);
    for (section, rr) in &said.records {
        let section = [Section::Answer, Section::Authority, Section::Additional][usize::from(*section)];
        let ttl = Ttl::from_secs(rr.ttl);
        b.record(section, Owner::Name(rr.owner.as_name()), rr.rtype, Class::IN, ttl, &rr.data).expect("fits");
    }
    more(&mut b);
    let len = b.finish();
    buf.truncate(len);
    buf
}

/// A query sent to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) host: String,
    pub(crate) name: LowerNameBuf,
    pub(crate) qtype: Type,
    pub(crate) transport: Transport,
    pub(crate) edns: bool,
    pub(crate) dnssec_ok: bool,
    pub(crate) recursion_desired: bool,
    pub(crate) to: SocketAddr,
    pub(crate) at: Instant,
}

/// An event on its way to the resolver.
enum Coming {
    Message(Vec<u8>),
    Opened,
    Secured,
    Insecure(EncryptionFault),
    Ended(ErrorKind),
}

/// Collects outcomes.
#[derive(Clone, Default)]
pub(crate) struct Outcomes {
    pub(crate) settled: Arc<Mutex<Vec<(u32, LookupOutcome)>>>,
    pub(crate) ended: Arc<Mutex<Vec<(QueryKey, LookupOutcome)>>>,
}

impl LookupSink for Outcomes {
    type Waiter = u32;
    fn ended(&mut self, query_key: &QueryKey, outcome: &LookupOutcome, _: Instant) {
        self.ended.lock().expect("one thread").push((*query_key, outcome.clone()));
    }
    fn settle(&mut self, waiter: u32, outcome: LookupOutcome, _: Instant) {
        self.settled.lock().expect("one thread").push((waiter, outcome));
    }
}

pub(crate) struct Internet {
    pub(crate) hosts: BTreeMap<String, Host>,
    pub(crate) zones: Vec<Zone>,
    /// The excluded source for the next query.
    pub(crate) other_than: Option<AnsweredBy>,
    pub(crate) core: Resolver<Outcomes, ChaCha>,
    pub(crate) outcomes: Outcomes,
    pub(crate) now: Instant,
    /// All queries so far.
    pub(crate) log: Vec<Asked>,
    /// Address families without a route.
    pub(crate) no_way: [bool; 2],
    links: BTreeMap<Link, (SocketAddr, Transport)>,
    /// When encrypted connections are open.
    open_at: BTreeMap<Link, Instant>,
    coming: BTreeMap<(Instant, u64), (Link, Coming)>,
    count: u64,
}

impl Internet {
    pub(crate) fn new(config: ForwardConfig, seed: u8) -> Self {
        let outcomes = Outcomes::default();
        Internet {
            hosts: BTreeMap::new(),
            zones: Vec::new(),
            other_than: None,
            core: Resolver::new(config, outcomes.clone(), ChaCha::new([seed; 32])),
            outcomes,
            now: Instant::now(),
            log: Vec::new(),
            no_way: [false; 2],
            links: BTreeMap::new(),
            open_at: BTreeMap::new(),
            coming: BTreeMap::new(),
            count: 0,
        }
    }

    pub(crate) fn request(&mut self, request: ResolverRequest<u32>) {
        let mut actions = Vec::new();
        self.core.request(request, self.now, &mut actions);
        self.act(actions);
    }

    pub(crate) fn ask(
        &mut self,
        client: u32,
        query_key: QueryKey,
        budget: Option<Budget>,
        trace: Option<Trace>,
    ) {
        // Each client has a network of its own.
        let from = IpAddr::from([10, (client >> 8) as u8, client as u8, 1]);
        let (client_at, patience) = (ClientPrefix::of(from), None);
        self.request(ResolverRequest::Lookup(LookupRequest {
            query_key,
            recursion_desired: true,
            client: client_at,
            patience,
            budget,
            other_than: self.other_than,
            trace,
            waiter: client,
        }));
    }

    /// Whether a server offers recursion.
    #[allow(dead_code, reason = "one of the tests that share this does not ask")]
    pub(crate) fn offers_recursion(&self, host: &str) -> bool {
        self.hosts.get(host).is_some_and(|host| host.offered)
    }

    pub(crate) fn is_settled(&self, client: u32) -> bool {
        self.outcomes.settled.lock().expect("one thread").iter().any(|(settled, _)| *settled == client)
    }

    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Open { link, transport, to, .. } => {
                    assert!(self.links.insert(link, (to, transport)).is_none(), "a link in use");
                    let host = self.host_at(to).map(|(_, host)| host.clone()).unwrap_or_default();
                    let no_route = host.is("no-route") || transport.is_stream() && host.is("no-route-tcp");
                    if no_route || self.no_way[usize::from(to.is_ipv6())] {
                        self.comes(Duration::ZERO, link, Coming::Ended(ErrorKind::NetworkUnreachable));
                    } else if matches!(transport, Transport::Tls | Transport::Quic) {
                        self.encrypt(link, transport, &host);
                    } else if transport.is_stream() {
                        if host.is("refuses-tcp") || host.is("closed") {
                            self.comes(ROUND_TRIP, link, Coming::Ended(ErrorKind::ConnectionRefused));
                        } else if !host.is("no-tcp") {
                            self.comes(ROUND_TRIP, link, Coming::Opened);
                        }
                    }
                }
                Action::Cancel { link, .. } => {
                    let transport = self.links.get(&link).map(|(_, transport)| *transport);
                    assert_eq!(transport, Some(Transport::Quic), "links have no streams");
                }
                Action::Resume { .. } => panic!("no server has a target behind it"),
                Action::Close { link } => {
                    assert!(self.links.remove(&link).is_some(), "a link closed twice");
                    self.open_at.remove(&link);
                    self.coming.retain(|_, (other, _)| *other != link);
                }
                Action::Send { link, message } => self.deliver(link, &message),
            }
        }
    }

    /// Begins an encrypted connection, which is open after two round trips, or one over QUIC.
    fn encrypt(&mut self, link: Link, transport: Transport, host: &Host) {
        let (offered, round_trips) = if transport == Transport::Quic { ("doq", 1) } else { ("dot", 2) };
        let after = ROUND_TRIP * round_trips;
        if host.is("encrypted-hangs") || host.addresses.is_empty() {
            return;
        }
        if host.is("no-tls") {
            self.comes(after, link, Coming::Insecure(EncryptionFault::NotTls));
        } else if !host.is(offered) {
            self.comes(ROUND_TRIP, link, Coming::Ended(ErrorKind::ConnectionRefused));
        } else {
            self.open_at.insert(link, self.now + after);
            self.comes(after, link, Coming::Secured);
        }
    }

    fn comes(&mut self, after: Duration, link: Link, what: Coming) {
        self.count += 1;
        self.coming.insert((self.now + after, self.count), (link, what));
    }

    pub(crate) fn host_at(&self, to: SocketAddr) -> Option<(&String, &Host)> {
        self.hosts.iter().find(|(_, host)| host.addresses.contains(&to.ip()))
    }

    fn deliver(&mut self, link: Link, query: &[u8]) {
        let (to, transport) = *self.links.get(&link).expect("sent on an open link");
        let (header, mut parser) = Parser::new(query).expect("a header");
        let question = parser.question().expect("a question");
        let opt = parser.record().ok();
        let edns = opt.as_ref().map(|opt| Edns::parse(query, opt).expect("OPT"));
        let recursion_desired = header.recursion_desired();
        let (name, host) = self
            .host_at(to)
            .map_or(("nowhere".into(), Host::default()), |(name, host)| (name.clone(), host.clone()));
        self.log.push(Asked {
            host: name,
            name: question.name.to_lower(),
            qtype: question.qtype,
            transport,
            edns: edns.is_some(),
            dnssec_ok: edns.as_ref().is_some_and(|edns| edns.dnssec_ok),
            recursion_desired,
            to,
            at: self.now,
        });
        if matches!(transport, Transport::Tls | Transport::Quic) {
            let opt = edns.as_ref().expect("OPT");
            assert!(opt.option(OptionCode::PADDING).is_some() && query.len().is_multiple_of(128), "padded");
            assert!(opt.option(OptionCode::COOKIE).is_none() && !recursion_desired);
            let name = question.name.to_string();
            assert_eq!(name, name.to_lowercase(), "in lower case");
            return self.deliver_encrypted(link, &host, query, transport);
        }
        if host.is("closed") {
            return self.comes(ROUND_TRIP, link, Coming::Ended(ErrorKind::ConnectionRefused));
        }
        let reached = !self.no_way[usize::from(to.is_ipv6())];
        if !reached
            || host.addresses.is_empty()
            || self.is_mute(&host, question.name, question.qtype, transport)
        {
            return;
        }
        let message = self.reply(&host, query, transport);
        self.comes(host.delay().unwrap_or(ROUND_TRIP), link, Coming::Message(message));
    }

    /// Has a host reply over an encrypted connection, which may not be open yet.
    fn deliver_encrypted(&mut self, link: Link, host: &Host, query: &[u8], transport: Transport) {
        let Some(open_at) = self.open_at.get(&link).copied() else { return };
        let opens = open_at.saturating_duration_since(self.now);
        if host.is("encrypted-resets") {
            return self.comes(opens + ROUND_TRIP, link, Coming::Ended(ErrorKind::ConnectionReset));
        }
        if host.is("encrypted-mute") {
            return;
        }
        let mut other = host.clone();
        for (way, same) in [("encrypted-refused", "refused"), ("encrypted-cache", "cache")] {
            if host.is(way) {
                other.ways.insert(same.into());
            }
        }
        let message = self.reply(&other, query, transport);
        let slow = host.ways.iter().find_map(|way| way.strip_prefix("encrypted-slow="));
        let slow = slow.map(|slow| Duration::from_millis(slow.parse().expect("milliseconds")));
        self.comes(opens + slow.unwrap_or(ROUND_TRIP), link, Coming::Message(message));
    }

    /// Whether a host does not reply to a query.
    pub(crate) fn is_mute(&self, host: &Host, qname: Name<'_>, qtype: Type, transport: Transport) -> bool {
        host.is("silent")
            || transport.is_stream() && host.is("no-tcp")
            || host.is("silent-ents") && has_nothing(&self.said(host, qname, qtype))
    }

    /// Returns a host's reply to a query.
    pub(crate) fn reply(&self, host: &Host, query: &[u8], transport: Transport) -> Vec<u8> {
        let (asked, mut parser) = Parser::new(query).expect("a header");
        let question = parser.question().expect("a question");
        let opt = parser.record().ok();
        let edns = opt.as_ref().map(|opt| Edns::parse(query, opt).expect("OPT"));
        let cookie = edns.as_ref().and_then(|edns| edns.option(OptionCode::COOKIE)).map(<[u8]>::to_vec);
        let mut said = match host.is("recursor") && asked.recursion_desired() {
            true => self.resolved(question.name, question.qtype),
            false => self.said(host, question.name, question.qtype),
        };
        let (mut with_opt, mut truncated) = (edns.is_some(), false);
        let udp = !transport.is_stream();
        if edns.is_some() && (host.is("formerr") || host.is("notimp")) {
            said = Said { rcode: if host.is("formerr") { 1 } else { 4 }, ..Said::default() };
            with_opt = false;
        }
        if edns.is_some() && host.is("badvers") {
            said = Said { rcode: 16, ..Said::default() };
        }
        if host.is("badcookie") && cookie.as_ref().is_some_and(|cookie| cookie.len() == 8) {
            said = Said { rcode: 23, ..Said::default() };
        }
        if host.is("always-badcookie") && edns.is_some() {
            said = Said { rcode: 23, ..Said::default() };
        }
        if host.is("always-formerr") {
            (said, with_opt) = (Said { rcode: 1, ..Said::default() }, false);
        }
        if host.is("tc") && udp || host.is("always-tc") {
            (said, truncated) = (Said::default(), true);
        }
        let mut header = asked.reply();
        header.set_rcode(Rcode(said.rcode & 0xf));
        let recursive = ["cache", "recursor"].iter().any(|way| host.is(way));
        header.set_authoritative(said.authoritative && !host.is("no-aa") && !recursive);
        header.set_recursion_available(recursive);
        header.set_truncated(truncated);
        written(header, &question, &said, |b| {
            if with_opt {
                let mut opt = OptWriter::begin(b, 1232, (said.rcode >> 4) as u8, false).expect("fits");
                if let Some(cookie) = cookie.filter(|_| host.is("badcookie") || host.is("cookies")) {
                    opt.option(b, OptionCode::COOKIE, &[&cookie[..8], &[7; 16]]).expect("fits");
                }
                if let Some(agent) = host.ways.iter().find_map(|way| way.strip_prefix("agent=")) {
                    let agent = name(agent);
                    opt.option(b, OptionCode::REPORT_CHANNEL, &[agent.as_name().as_wire()]).expect("fits");
                }
            }
        })
    }

    /// Returns the answer of a name's zone, at any server.
    fn resolved(&self, qname: Name<'_>, qtype: Type) -> Said {
        let zones = self.zones.iter().filter(|zone| qname.is_at_or_below(zone.apex.as_name()));
        let zone = zones.max_by_key(|zone| zone.apex.as_name().label_count()).expect("the root at least");
        zone.say(qname, qtype)
    }

    /// Returns a host's answer, by its zones and its faults.
    fn said(&self, host: &Host, qname: Name<'_>, qtype: Type) -> Said {
        let error = |rcode| Said { rcode, ..Said::default() };
        let served = host.zones.iter().map(|&at| &self.zones[at]);
        let covering = served.filter(|zone| {
            let parents = qtype == Type::DS && zone.apex.as_name() == qname && !qname.is_root();
            qname.is_at_or_below(zone.apex.as_name()) && !parents
        });
        let zone = covering.max_by_key(|zone| zone.apex.as_name().label_count());
        if host.is("refused") || host.is("recursor") {
            return error(5);
        }
        if host.is("servfail") {
            return error(2);
        }
        if host.is("upward") {
            let data = name("root.").as_name().as_wire().to_vec();
            let ns = Rr { owner: NameBuf::ROOT, ttl: 3600, rtype: Type::NS, data };
            return Said { records: vec![(AUTHORITY, ns)], ..Said::default() };
        }
        if let Some(zone) = host.ways.iter().find_map(|way| way.strip_prefix("refer-to=")) {
            let data = name("ns.elsewhere.").as_name().as_wire().to_vec();
            let ns = Rr { owner: name(zone), ttl: 3600, rtype: Type::NS, data };
            return Said { records: vec![(AUTHORITY, ns)], ..Said::default() };
        }
        if host.is("empty") {
            return Said::default();
        }
        let Some(zone) = zone else { return error(5) };
        let mut said = zone.say(qname, qtype);
        if has_nothing(&said) {
            if host.is("refuses-ents") {
                return error(5);
            }
            if host.is("servfail-ents") {
                return error(2);
            }
            said.rcode = if host.is("denies-ents") { 3 } else { 0 };
        }
        let glueless = host.is("no-glue") && !qname.to_string().starts_with("ns");
        said.records.retain(|(section, _)| *section != ADDITIONAL || !glueless);
        if host.is("no-soa") || host.is("own-ns") {
            said.records.retain(|(section, rr)| (*section, rr.rtype) != (AUTHORITY, Type::SOA));
        }
        if host.is("own-ns") && !said.records.iter().any(|(_, rr)| rr.rtype == Type::NS) {
            let own = zone.at(zone.apex.as_name(), Type::NS);
            said.records.extend(own.into_iter().map(|rr| (AUTHORITY, rr)));
        }
        for (key, section, rtype) in
            [("adds-authority=", AUTHORITY, Type::NS), ("adds-answer=", ANSWER, Type::A)]
        {
            if let Some(owner) = host.ways.iter().find_map(|way| way.strip_prefix(key)) {
                let data = match rtype {
                    Type::NS => name("ns.evil.com.").as_name().as_wire().to_vec(),
                    _ => vec![192, 0, 2, 66],
                };
                said.records.push((section, Rr { owner: name(owner), ttl: 86_400, rtype, data }));
                said.records.sort_by_key(|(section, _)| *section);
            }
        }
        said
    }

    /// Returns what is known of encrypted transports: `192.0.2.1 tls works, …`.
    #[allow(dead_code, reason = "one of the tests that share this does not ask")]
    pub(crate) fn encryption(&mut self) -> String {
        let (sender, receiver) = std::sync::mpsc::channel();
        self.request(ResolverRequest::Encryption(sender));
        let all = receiver.recv().expect("it replies at once").into_iter();
        let shown = all.map(|one| {
            let probing = if one.probing { " probing" } else { "" };
            format!("{} {} {}{probing}", one.address.ip(), one.transport, one.status.word())
        });
        let shown: Vec<_> = shown.collect();
        if shown.is_empty() { "none".into() } else { shown.join(", ") }
    }

    /// Advances the time, with all events on the way, to `until` or until `done`.
    pub(crate) fn run(&mut self, until: Instant, done: impl Fn(&Self) -> bool) {
        while !done(self) {
            let deadline = self.core.deadline();
            let coming = self.coming.first_key_value().map(|(&(at, _), _)| at);
            let next = deadline.into_iter().chain(coming).min().filter(|at| *at <= until);
            let Some(at) = next else {
                self.now = until;
                return;
            };
            self.now = self.now.max(at);
            let mut actions = Vec::new();
            if coming == Some(at) {
                let (_, (link, what)) = self.coming.pop_first().expect("something comes");
                match what {
                    Coming::Message(message) => {
                        let event = Event::Message { link, message: &message };
                        self.core.event(event, self.now, &mut actions);
                    }
                    Coming::Secured => {
                        self.core.event(Event::Secured { link, resumed: false }, self.now, &mut actions);
                    }
                    Coming::Insecure(fault) => {
                        self.links.remove(&link);
                        self.core.event(Event::Insecure { link, fault }, self.now, &mut actions);
                    }
                    Coming::Opened => self.core.event(Event::Opened { link }, self.now, &mut actions),
                    Coming::Ended(error) => {
                        self.links.remove(&link);
                        self.core.event(Event::Ended { link, error }, self.now, &mut actions);
                    }
                }
            } else {
                self.core.timeout(self.now, &mut actions);
            }
            self.act(actions);
        }
    }

    /// Checks that nothing is left behind.
    pub(crate) fn finish(&mut self) {
        self.run(self.now + Duration::from_secs(60), |_| false);
        assert!(self.links.is_empty(), "links left open: {:?}", self.links);
        assert_eq!(self.core.deadline(), None, "a timer is left");
        assert!(self.core.is_idle(), "something is left");
        let stats = self.core.stats();
        assert_eq!(stats.answered.get() + stats.failed.get(), stats.lookups.get());
    }
}
