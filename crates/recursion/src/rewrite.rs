//! Applies the rules of response policy zones to a query and its answer (draft-vixie-dnsop-dns-rpz-00, §5).
//!
//! The names of a chain of aliases are taken in their order. About each name, the first zone that has a rule
//! decides; within a zone, rules about the client come first, then those about the name, the addresses, and
//! the names and the addresses of its name servers. A rule about the name is applied before the name is
//! looked up, unless a rule of an earlier zone may match the answer.

use std::net::IpAddr;

use cache::Now;
use policy::{Match, PolicyQuery, SourceMask};
use query_path::{Refusal, RuleNote};
use resolver::{Partition, QueryKey};
use wire::edns::ErrorInfo;
use wire::hash::HashedName;
use wire::message::{Builder, Compressor, MAX_MESSAGE, Parser};
use wire::{Header, LowerName, LowerNameBuf, Malformed, Rcode, Type};

use crate::groups::GroupView;
use crate::known::Known;
use crate::message::{Message, Piece, Reply, join, links_to};
use crate::policy_rules::PolicyRules;
use crate::query_state::{QueryState, in_partition};
use crate::rewrite_state::{HeldAnswer, ServerFacts, address};
use crate::rpz::{PolicyZone, RpzOrder, TargetTooLong};
use crate::service::{DelegatedServer, Service};
use crate::settings::{Gate, Policy};
use crate::waiter::Waiting;

/// What becomes of a query by its rules.
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub(crate) enum Rewritten {
    /// This step is next.
    Step(RewriteStep),
    /// An alias leads to the name that is answered next.
    Next,
    /// The answer stays as it is.
    Kept(Piece, Option<LowerNameBuf>),
}

/// The step that a rule makes next.
pub(crate) enum RewriteStep {
    /// The client gets this reply.
    Reply(Reply),
    /// The client gets no reply.
    NoReply,
    /// The query is refused.
    Refuse(Refusal),
    /// The query waits for a lookup of name servers.
    Ask,
}

/// The names of an answer's chain of aliases, and the addresses at its end.
struct Chain {
    names: Vec<ChainName>,
    addresses: Vec<IpAddr>,
}

struct ChainName {
    name: LowerNameBuf,
    /// Whether records of the name, or the denial of such, are signed.
    is_signed: bool,
}

/// The parts of the answer cannot be joined.
const UNJOINABLE: Refusal = Refusal::because(Rcode::SERVFAIL, ErrorInfo::OTHER);

impl Service {
    /// Applies the rules about the next name before it is looked up. `None`: it is to be looked up.
    pub(crate) fn gate(&self, policy: &Policy, query_state: &mut QueryState) -> Option<Rewritten> {
        let lists = policy.lists.as_deref()?;
        if query_state.rewrite.is_over {
            return None;
        }
        let QueryKey { name, qtype, qclass, dnssec_ok, .. } = query_state.next;
        let mut hashed = HashedName::new();
        hashed.set(self.cache().key(), name.as_name());
        let GroupView { sources, facts } = lists.group_of(query_state.rewrite.rule_client());
        let query = query_state.policy_query(&hashed, qtype, facts);
        let is_asked = name == query_state.asked.name;
        lists.count_disabled(&query);
        match policy.gate(&query, sources, query_state.partition, qclass) {
            Gate::Open => None,
            Gate::Rpz(rule) if lists.must_wait(&rule, sources, dnssec_ok) => None,
            Gate::Rpz(rule) => self.apply(lists, query_state, &rule, name, None),
            // Lists give answers to query names alone, and block the targets of aliases when all are known.
            Gate::Rewrite(_) if !is_asked => None,
            Gate::Rewrite(rewrites) => {
                lists.count_rewrite(&rewrites);
                let (order, note) = (RpzOrder::Rewrites(&rewrites), lists.note_rewrite(&rewrites));
                self.apply_order(lists, query_state, (lists.rewriter(), order, note), name, None)
            }
            Gate::Blocked(blocked) => {
                if !is_asked && self.is_exempt(lists, query_state) {
                    return None;
                }
                let blocked = if is_asked { blocked } else { blocked.of_alias() };
                query_state.rewrite.rule = lists.note_blocked(blocked);
                let reply = blocked_reply(lists, blocked, &query_state.asked)?;
                Some(Rewritten::Step(RewriteStep::Reply(reply)))
            }
        }
    }

    /// Whether an exception of a list covers the client's query, and so all of its aliases.
    fn is_exempt(&self, lists: &PolicyRules, query_state: &QueryState) -> bool {
        let QueryState { asked, rewrite, .. } = query_state;
        let mut hashed = HashedName::new();
        hashed.set(self.cache().key(), asked.name.as_name());
        let client = Some(rewrite.client.peer.ip());
        let GroupView { sources, facts: group } = lists.group_of(rewrite.rule_client());
        lists.exempts(&PolicyQuery { name: &hashed, qtype: asked.qtype, client, group }, sources)
    }

    /// Applies the rules about an answer to the next query, or about a part of it that leads to another name.
    pub(crate) fn rewrite(
        &self,
        policy: &Policy,
        query_state: &mut QueryState,
        piece: Piece,
        leads_to: Option<LowerNameBuf>,
        now: Now,
    ) -> Rewritten {
        let (piece, leads_to) = match query_state.rewrite.held.take() {
            None => (piece, leads_to),
            Some(held) => {
                let QueryKey { name, qtype, .. } = query_state.next;
                let facts = ServerFacts::read(name, qtype, piece.message.bytes());
                query_state.rewrite.servers.push(facts);
                query_state.next = held.next;
                (held.piece, held.leads_to)
            }
        };
        let Some(lists) = policy.lists.as_deref().filter(|lists| !lists.zones().is_empty()) else {
            return Rewritten::Kept(piece, leads_to);
        };
        if query_state.rewrite.is_over {
            return Rewritten::Kept(piece, leads_to);
        }
        let next = query_state.next;
        let Ok(chain) = Chain::read(piece.message.bytes(), &next) else {
            return Rewritten::Kept(piece, leads_to);
        };
        match self.find_rule(policy, lists, query_state, &chain, leads_to.is_some(), now) {
            Finding::None => Rewritten::Kept(piece, leads_to),
            Finding::Rule(rule, name) => {
                let links = links_to(piece.message.bytes(), name.as_lower());
                let Ok(links) = links else { return refuse(UNJOINABLE) };
                let links = (name != next.name).then_some(links);
                let applied = self.apply(lists, query_state, &rule, name, links);
                applied.unwrap_or(Rewritten::Kept(piece, leads_to))
            }
            Finding::Ask(needed) => {
                let held = HeldAnswer { next, piece, leads_to };
                query_state.rewrite.held = Some(Box::new(held));
                query_state.next = *needed;
                Rewritten::Step(RewriteStep::Ask)
            }
        }
    }

    /// Continues a query whose lookup of name servers failed, as if there were none.
    pub(crate) fn resume_without_servers(&self, policy: &Policy, mut waiting: Box<Waiting>, now: Now) {
        let query_state = &mut waiting.query_state;
        let Some(held) = query_state.rewrite.held.take() else { return };
        let QueryKey { name, qtype, .. } = query_state.next;
        query_state.rewrite.servers.push(ServerFacts::none(name, qtype));
        query_state.next = held.next;
        self.resume(policy, waiting, held.piece, held.leads_to, now);
    }

    /// Returns the rule that decides about an answer, and the name of its chain that the rule is applied to.
    fn find_rule(
        &self,
        policy: &Policy,
        lists: &PolicyRules,
        query_state: &QueryState,
        chain: &Chain,
        leads_on: bool,
        now: Now,
    ) -> Finding {
        let QueryKey { qtype, qclass, dnssec_ok, .. } = query_state.next;
        let keeps_signed = dnssec_ok && !lists.options().break_dnssec;
        let GroupView { sources, facts } = lists.group_of(query_state.rewrite.rule_client());
        let mut hashed = HashedName::new();
        // The target that a part of a chain leads to is looked up next.
        let count = chain.names.len() - usize::from(leads_on && chain.names.len() > 1);
        for (at, ChainName { name, is_signed }) in chain.names.iter().take(count).enumerate() {
            if keeps_signed && *is_signed {
                continue;
            }
            hashed.set(self.cache().key(), name.as_name());
            if policy.local(query_state.partition).is_local(&hashed, qtype, qclass) {
                continue;
            }
            let query = query_state.policy_query(&hashed, qtype, facts);
            let mut best = lists.decide(&query, sources).rpz.map(Candidate::of);
            if at + 1 == chain.names.len() {
                for address in &chain.addresses {
                    best = first(best, lists.rules().of_answer(*address, sources).map(Candidate::of));
                }
            }
            match self.of_servers(policy, lists, query_state, name.as_lower(), best, now) {
                Finding::None => {}
                found => return found,
            }
        }
        Finding::None
    }

    /// Returns the rule that decides about a name: `best`, or one of an earlier zone about its name servers.
    fn of_servers(
        &self,
        policy: &Policy,
        lists: &PolicyRules,
        query_state: &QueryState,
        name: LowerName<'_>,
        mut best: Option<Candidate>,
        now: Now,
    ) -> Finding {
        let decided = |best: Option<Candidate>| match best {
            Some(Candidate { rule, .. }) => Finding::Rule(rule, name.to_buf()),
            None => Finding::None,
        };
        let of_answers = *lists.rules().of_answers();
        let sources = lists.sources_of(query_state.rewrite.rule_client());
        let may_match = |having: &SourceMask, best: Option<Candidate>| match best {
            Some(Candidate { rule, .. }) => having.has_before(rule.rule.source, sources),
            None => having.meets(sources),
        };
        if !may_match(&of_answers.ns_names, best) && !may_match(&of_answers.ns_ips, best) {
            return decided(best);
        }
        let mut lookups = ServerLookups { service: self, policy, lists, query_state, now, glue: Vec::new() };
        let servers = match lookups.servers_of(name) {
            Ok(servers) => servers,
            Err(needed) => return Finding::Ask(needed),
        };
        let mut hashed = HashedName::new();
        for server in &servers {
            hashed.set(self.cache().key(), server.as_name());
            let rule = lists.rules().of_server_name(&hashed, sources);
            let labels = |rule: Match| (server.as_lower().label_count() - rule.skip) as u8;
            best = first(best, rule.map(|rule| Candidate { rule, length: labels(rule) }));
        }
        if !may_match(&of_answers.ns_ips, best) {
            return decided(best);
        }
        let mut addresses = std::mem::take(&mut lookups.glue);
        for (server, rtype) in servers.iter().flat_map(|server| [(server, Type::A), (server, Type::AAAA)]) {
            match lookups.facts(*server, rtype) {
                Ok(facts) => addresses.extend(facts.addresses),
                Err(needed) => return Finding::Ask(needed),
            }
        }
        sort_addresses(&mut addresses);
        for address in addresses {
            best = first(best, lists.rules().of_server_address(address, sources).map(Candidate::of));
        }
        decided(best)
    }

    /// Applies a rule to a name; `links` are the aliases of the last answer that lead to it. Returns `None`
    /// if the rule exempts the query.
    fn apply(
        &self,
        lists: &PolicyRules,
        query_state: &mut QueryState,
        rule: &Match,
        name: LowerNameBuf,
        links: Option<Vec<u8>>,
    ) -> Option<Rewritten> {
        let zone = lists.zone(rule)?;
        let order = zone.order(rule);
        zone.counts.of(order.kind()).add();
        self.apply_order(lists, query_state, (zone, order, lists.note_order(rule, order)), name, links)
    }

    /// Applies what a zone or lists order to a name, as [`apply`](Self::apply).
    fn apply_order(
        &self,
        lists: &PolicyRules,
        query_state: &mut QueryState,
        (zone, order, note): (&PolicyZone, RpzOrder<'_>, Option<RuleNote>),
        name: LowerNameBuf,
        links: Option<Vec<u8>>,
    ) -> Option<Rewritten> {
        query_state.rewrite.is_over = true;
        query_state.rewrite.rule = note;
        let is_exempt = match order {
            RpzOrder::Passthru => true,
            RpzOrder::TcpOnly => query_state.rewrite.client.transport.is_stream(),
            // An alias of a name to itself, as the old form of rpz-passthru: it would be a loop.
            _ => lists
                .alias(order, name.as_name(), Type::A)
                .is_some_and(|target| target.is_ok_and(|target| target.as_name() == name.as_name())),
        };
        if is_exempt {
            return None;
        }
        query_state.rewrite.is_rewritten = true;
        query_state.authentic = false;
        query_state.info = zone.info;
        let asked = query_state.asked;
        let before = match (&query_state.links, links) {
            (Some(before), Some(links)) => join(&before.message, &links, false),
            (Some(before), None) => Ok(before.message.clone()),
            (None, Some(links)) => Ok(links),
            (None, None) => Ok(question(&asked)),
        };
        let Ok(before) = before else { return Some(refuse(UNJOINABLE)) };
        Some(match order {
            RpzOrder::Drop => Rewritten::Step(RewriteStep::NoReply),
            RpzOrder::TcpOnly => reply(Reply {
                message: Message::Own(before.into()),
                rcode: Rcode::NOERROR,
                authoritative: false,
                authentic: false,
                info: zone.info,
                truncated: true,
            }),
            _ => answer(lists, zone, order, query_state, name, &before),
        })
    }
}

fn reply(reply: Reply) -> Rewritten {
    Rewritten::Step(RewriteStep::Reply(reply))
}

fn refuse(refusal: Refusal) -> Rewritten {
    Rewritten::Step(RewriteStep::Refuse(refusal))
}

/// Returns the reply with the records that a rule makes of a name, behind the aliases that lead to it; or
/// what follows if the rule makes an alias.
fn answer(
    lists: &PolicyRules,
    zone: &PolicyZone,
    order: RpzOrder<'_>,
    query_state: &mut QueryState,
    name: LowerNameBuf,
    before: &[u8],
) -> Rewritten {
    let asked = query_state.asked;
    let made = made(lists, zone, order, name.as_lower(), asked.qtype, before);
    let Some((message, rcode)) = made else { return refuse(UNJOINABLE) };
    match lists.alias(order, name.as_name(), asked.qtype) {
        Some(Ok(target)) => {
            let piece = Piece::made(message, rcode);
            query_state.rewrite.soa = zone.soa.clone().map(|(ttl, soa)| (zone.name, ttl, soa));
            // The message has all links.
            let from_zone = query_state.links.take().is_some_and(|links| links.from_zone);
            let led = query_state.lead_on(&piece, target.as_name().to_lower());
            if let Some(links) = &mut query_state.links {
                links.from_zone = from_zone;
            }
            query_state.is_led_here = true;
            led.map_or(refuse(UNJOINABLE), |()| Rewritten::Next)
        }
        // The response code is YXDOMAIN if the target is too long.
        Some(Err(TargetTooLong)) | None => {
            let authoritative = query_state.links.as_ref().is_some_and(|links| links.from_zone);
            let (message, info) = (Message::Own(message.into()), zone.info);
            reply(Reply { message, rcode, authoritative, authentic: false, info, truncated: false })
        }
    }
}

/// Writes the records that a rule makes of a name behind the answer section of `before`.
fn made(
    lists: &PolicyRules,
    zone: &PolicyZone,
    order: RpzOrder<'_>,
    name: LowerName<'_>,
    qtype: Type,
    before: &[u8],
) -> Option<(Vec<u8>, Rcode)> {
    let header = Header::of(before)?;
    let [_, answers, ..] = header.counts();
    let end = end_of_answer(before).ok()?;
    let (mut room, mut names) = (vec![0; MAX_MESSAGE], Compressor::small());
    let mut b = Builder::new(&mut room, MAX_MESSAGE, Header::query(0).reply(), &mut names);
    b.append(before.get(b.len()..end)?).ok()?;
    b.add_question();
    b.add_count(wire::message::Section::Answer, answers);
    lists.write_order(zone, order, name.as_name(), qtype, &mut b).ok()?;
    let rcode = b.rcode();
    let len = b.finish();
    room.truncate(len);
    Some((room, rcode))
}

/// Returns where the answer section of a message ends.
fn end_of_answer(message: &[u8]) -> Result<usize, Malformed> {
    let (header, mut parser) = Parser::new(message)?;
    parser.question()?;
    let [_, answers, ..] = header.counts();
    for _ in 0..answers {
        parser.record()?;
    }
    Ok(message.len() - parser.rest().len())
}

/// Returns a response to a query without records.
fn question(asked: &QueryKey) -> Vec<u8> {
    crate::message::response(asked, Rcode::NOERROR, [0; 3], &[])
}

/// Returns the query for name servers or their addresses.
fn server_query(name: LowerNameBuf, qtype: Type) -> QueryKey {
    QueryKey {
        name,
        qtype,
        qclass: wire::Class::IN,
        dnssec_ok: false,
        checking_disabled: false,
        partition: Partition::SHARED,
    }
}

/// Returns the reply to a blocked query. If the name on the way is another one, the query name gets the
/// answer.
pub(crate) fn blocked_reply(
    lists: &PolicyRules,
    blocked: crate::policy_rules::Blocked,
    asked: &QueryKey,
) -> Option<Reply> {
    let (message, rcode) = lists.message(blocked, asked)?;
    Some(Reply {
        message: Message::Own(message.into()),
        rcode,
        authoritative: false,
        authentic: false,
        info: Some(ErrorInfo::BLOCKED),
        truncated: false,
    })
}

/// The result of a search for rules.
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
enum Finding {
    None,
    /// This rule decides, about this name.
    Rule(Match, LowerNameBuf),
    /// This lookup of name servers is needed.
    Ask(Box<QueryKey>),
}

/// A rule that matches, and the length of its name in labels or of its prefix in bits.
#[derive(Clone, Copy)]
struct Candidate {
    rule: Match,
    length: u8,
}

impl Candidate {
    /// A rule about an address, or the only one about a name.
    fn of(rule: Match) -> Self {
        Candidate { rule, length: rule.rule.prefix_len }
    }
}

/// Sorts addresses: of rules with prefixes of one length, that with the smallest address decides (draft,
/// §5.6).
fn sort_addresses(addresses: &mut [IpAddr]) {
    addresses.sort_unstable_by_key(|address| match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => *v6,
    });
}

/// Returns the rule that comes first: by zone, then by trigger, then by the longest name or prefix; of equal
/// ones `best`.
fn first(best: Option<Candidate>, other: Option<Candidate>) -> Option<Candidate> {
    let order =
        |Candidate { rule, length }: &Candidate| (rule.rule.source, rule.trigger, std::cmp::Reverse(*length));
    match (best, other) {
        (Some(a), Some(b)) => Some(if order(&b) < order(&a) { b } else { a }),
        (a, b) => a.or(b),
    }
}

/// Finds name servers for one query.
struct ServerLookups<'a> {
    service: &'a Service,
    policy: &'a Policy,
    lists: &'a PolicyRules,
    query_state: &'a QueryState,
    now: Now,
    /// Addresses of servers from delegations.
    glue: Vec<IpAddr>,
}

impl ServerLookups<'_> {
    /// Returns the names of the name servers of a name's domains: those that its parent names as well as its
    /// own, which the servers of a domain may keep to themselves. `Err`: this lookup is needed.
    fn servers_of(&mut self, name: LowerName<'_>) -> Result<Vec<LowerNameBuf>, Box<QueryKey>> {
        let mut servers = Vec::new();
        let (labels, least) = (name.label_count(), usize::from(self.lists.options().min_ns_dots));
        // A denial may name any zone above: its SOA record is no reason to leave a domain out.
        for skip in 0..labels.saturating_sub(least) {
            let domain = name.as_name().skip(skip).to_lower();
            let facts = self.facts(domain, Type::NS)?;
            let (names, glue): (Vec<_>, Vec<_>) = self.delegated(domain).into_iter().unzip();
            self.glue.extend(glue.into_iter().flatten());
            for server in facts.names.into_iter().chain(names) {
                if !servers.contains(&server) {
                    servers.push(server);
                }
            }
        }
        Ok(servers)
    }

    /// Returns the servers that the parent of a domain names. A group that asks others for the domain may
    /// have another one of this name.
    fn delegated(&self, domain: LowerNameBuf) -> Vec<DelegatedServer> {
        let query = in_partition(self.policy, self.query_state.partition, server_query(domain, Type::NS));
        if query.partition != Partition::SHARED {
            return Vec::new();
        }
        self.service.delegated_servers(domain.as_lower())
    }

    /// Returns what is known about name servers or their addresses. `Err`: this lookup is needed.
    fn facts(&mut self, name: LowerNameBuf, rtype: Type) -> Result<ServerFacts, Box<QueryKey>> {
        let ServerLookups { service, policy, lists, query_state, now, .. } = *self;
        let rewrite = &query_state.rewrite;
        if let Some(facts) = rewrite.servers.iter().find(|facts| facts.name == name && facts.rtype == rtype) {
            return Ok(facts.clone());
        }
        let query = in_partition(policy, query_state.partition, server_query(name, rtype));
        match service.known(policy, &query, query_state.partition, None, now) {
            Known::Answer(piece) => Ok(ServerFacts::read(name, rtype, piece.message.bytes())),
            Known::Nothing(_) if rewrite.servers.len() >= usize::from(lists.options().ns_lookups) => {
                service.stats().ns_lookups_refused.add();
                Ok(ServerFacts::none(name, rtype))
            }
            Known::Nothing(_) => {
                if lists.options().ns_wait_recurse {
                    return Err(Box::new(query));
                }
                let QueryState { client, rewrite, quota, .. } = query_state;
                service.fetch(query, *client, Some(rewrite.budget.clone()), quota.clone());
                Ok(ServerFacts::none(name, rtype))
            }
            Known::Link(..) | Known::Failure(_) | Known::Bogus(_) | Known::NoRule => {
                Ok(ServerFacts::none(name, rtype))
            }
        }
    }
}

impl Chain {
    /// Reads the answer to a query. The aliases come first in it, in their order.
    fn read(message: &[u8], asked: &QueryKey) -> Result<Chain, Malformed> {
        let (header, mut parser) = Parser::new(message)?;
        parser.question()?;
        let [_, answers, authorities, _] = header.counts();
        let start = ChainName { name: asked.name, is_signed: false };
        let mut chain = Chain { names: vec![start], addresses: Vec::new() };
        let (mut rdata, mut answered) = (Vec::new(), false);
        for _ in 0..answers {
            let record = parser.record()?;
            rdata.clear();
            parser.expand_rdata(&record, &mut rdata)?;
            let owner = parser.name_at(record.owner_at)?.as_name().to_lower();
            let is_last = chain.names.last().is_some_and(|last| last.name == owner);
            match record.rtype {
                Type::RRSIG => {
                    // The signature of a DNAME record is that of the alias made of it.
                    let is_of = |link: &ChainName| link.name.as_lower().is_at_or_below(owner.as_lower());
                    let own = chain.names.iter().position(|link| link.name == owner);
                    let at = own.or_else(|| chain.names.iter().rposition(is_of));
                    if let Some(link) = at.and_then(|at| chain.names.get_mut(at)) {
                        link.is_signed = true;
                    }
                }
                Type::CNAME if is_last && !matches!(asked.qtype, Type::CNAME | Type::ANY) => {
                    let name = wire::Name::from_wire(&rdata).map_err(|_| Malformed)?.to_lower();
                    chain.names.push(ChainName { name, is_signed: false });
                }
                rtype if is_last => {
                    answered = true;
                    if rtype == asked.qtype || asked.qtype == Type::ANY {
                        chain.addresses.extend(address(rtype, &rdata));
                    }
                }
                _ => {}
            }
        }
        for _ in 0..authorities {
            let is_signature = parser.record()?.rtype == Type::RRSIG;
            if let Some(last) = chain.names.last_mut().filter(|_| is_signature && !answered) {
                last.is_signed = true;
            }
        }
        sort_addresses(&mut chain.addresses);
        Ok(chain)
    }
}
