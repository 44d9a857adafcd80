//! `nomen ctl explain`: the steps to an answer, from `authority`, and the answer itself from the query path.

use std::sync::{Arc, Mutex, mpsc};
use std::task::{Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use authority::explain::{DenialClaim, Proof, SignatureUse, Step, StepKind};
use cache::Freshness;

use query_path::{Engine, RuleAction, RuleLog, RuleNote, SourceKind, Worker, WorkerState};
use recursion::{CachedAnswer, Dns64Made, Inspection, Service, Verdict};
use resolver::{LookupFailure, LookupOutcome, Partition, QueryKey, Trace};
use serde_json::{Value, json};
use threads::sync::lock;
use transport::{Client, MAX_MESSAGE, Outcome, Packets, Transport, unix_now};
use validator::{Need, Security};
use wire::hash::HashedName;
use wire::message::Parser;
use wire::name::{Name, NameBuf};
use wire::{Class, Type};
use zone::catalog::{Catalog, ZoneEntry};

use super::asking::QueryClient;
use super::{CommandResult, access, block_lists};
use crate::fault::{ArgumentFault, CommandFault};
use crate::parts::ServerParts;
use config::policy_groups::DEFAULT_GROUP;
use config::zone_name::zone_name;
use message::{QuerySpec, print};
use serving::frontend::Served;
use serving::recursive::Recursive;

/// Longest wait for the answer of other servers; the resolver gives up earlier.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(30);

/// The transport of the explained query unless the operator names one: its answer is not truncated.
const TRANSPORT: Transport = Transport::Tcp;

/// The query to explain, of class IN.
#[derive(Clone)]
pub(super) struct ExplainedQuery {
    name: NameBuf,
    qtype: Type,
    dnssec_ok: bool,
    /// The client.
    client: QueryClient,
}

impl ExplainedQuery {
    /// Parses the query name and type.
    ///
    /// # Errors
    /// If one of them is invalid.
    pub(super) fn read(
        name: &str,
        qtype: &str,
        dnssec_ok: bool,
        client: QueryClient,
    ) -> Result<Self, ArgumentFault> {
        let name = zone_name(name).map_err(ArgumentFault::Name)?;
        let qtype = qtype.parse().map_err(|_| ArgumentFault::Type(qtype.to_owned()))?;
        Ok(Self { name, qtype, dnssec_ok, client: client.over(TRANSPORT) })
    }

    fn key(&self) -> QueryKey {
        let Self { name, qtype, dnssec_ok, .. } = *self;
        let name = name.as_name().to_lower();
        QueryKey {
            name,
            qtype,
            qclass: Class::IN,
            dnssec_ok,
            checking_disabled: false,
            partition: Partition::SHARED,
        }
    }
}

/// Explains a query.
pub(super) fn explain(parts: &ServerParts, question: &ExplainedQuery) -> CommandResult {
    let engine = &Arc::new(parts.frontend.engine.for_operator(Arc::new(FoundRule::default())));
    let &ExplainedQuery { name, qtype, ref client, .. } = question;
    let recursive = parts.recursive.as_deref();
    let max_chain = parts.in_force.settings().server.answers.max_chain.0;
    if let Some(step) = access::stopped(&parts.in_force.settings(), client, qtype) {
        return Ok(json!({"steps": [step], "answer": answer(engine, question)?.text()?}));
    }
    let mut hashed = HashedName::new();
    hashed.set(&engine.key(), name.as_name());
    let (catalog, mut steps) = catalog_of(engine, client);
    if let Some(recursive) = recursive
        && authority::lookup::zone_for(&catalog, &hashed, qtype).is_none()
    {
        return beyond(engine, recursive, question, steps);
    }
    let rules = engine.with_memory(|served| served.first.access.clone());
    let traits = access::traits(client, qtype);
    let may_enter = |entry: &ZoneEntry| rules.as_ref().is_none_or(|rules| rules.allows(entry, &traits));
    let key = engine.key();
    let found = authority::explain::explain(&catalog, &key, name.as_name(), qtype, max_chain, &may_enter);
    steps.extend(found.iter().map(json_of));
    if let (Some(recursive), Some(target)) = (recursive, delegated(&found, name))
        && let Some(resolved) =
            resolved(engine, recursive, &ExplainedQuery { name: target, ..question.clone() }, &mut steps)?
    {
        // If a CNAME chain in a zone here leads to the target, the answer includes that chain.
        let answer = match target == name {
            true => resolved,
            false => answer(engine, question)?.text()?,
        };
        return Ok(json!({"steps": steps, "answer": answer}));
    }
    let answer = answer(engine, question)?;
    if is_transfer(qtype) {
        let outcome = match &answer {
            Answered::Message(message) => format!("a query for it gets {}", rcode(message)?),
            _ => "a query for it gets the zone".into(),
        };
        steps.push(said("transfer-outcome", outcome));
    }
    let answer = answer.text()?;
    Ok(json!({"steps": steps, "answer": answer}))
}

/// Returns the zones for a client's queries, and the step that shows its view, if there are views.
fn catalog_of(engine: &Engine<Served>, client: &QueryClient) -> (Arc<Catalog>, Vec<Value>) {
    let Some(views) = engine.views() else { return (engine.catalog(), Vec::new()) };
    let number = views.clients().of(client.client(), client.key_name());
    let who = client.client().peer.ip();
    let by_key = client.key_name().map_or(String::new(), |key| format!(" with the key {}", key.as_name()));
    match views.get(number) {
        Some((view, catalog)) => {
            let step = said("view", format!("the client {who}{by_key} is in view `{view}`"));
            (Arc::clone(catalog), vec![with(step, "view", view.as_str())])
        }
        None => (engine.catalog(), vec![said("view", format!("the client {who}{by_key} is in no view"))]),
    }
}

/// Returns the name that a zone here delegates, if these steps from `name` on end in a referral.
fn delegated(steps: &[Step], name: NameBuf) -> Option<NameBuf> {
    let is_referral = |step: &&Step| matches!(step.kind, StepKind::Referral);
    steps.iter().find(is_referral)?;
    let target = steps.iter().rev().find_map(|step| match &step.kind {
        StepKind::Cname(target) | StepKind::MadeCname(target) => Some(*target),
        _ => None,
    });
    Some(target.unwrap_or(name))
}

/// Explains what clients that may recurse receive for a name that a zone here delegates. Returns the answer;
/// `None` if no rule covers the name, so that all clients receive the referral.
fn resolved(
    engine: &Engine<Served>,
    recursive: &Recursive,
    question: &ExplainedQuery,
    steps: &mut Vec<Value>,
) -> Result<Option<String>, CommandFault> {
    let service = &recursive.service;
    let partition = service.partition_of(question.client.of_groups());
    let (inspection, inquiry) = service.inspect(partition, question.key(), service.now(Instant::now()));
    if inspection.local || inspection.rule.is_none() {
        return Ok(None);
    }
    let who =
        "clients who may recurse, and ask for it (RD), get the resolved answer, all others the referral";
    steps.push(said("delegated", who));
    let answered = by_rule(recursive, partition, inquiry, inspection, steps)?;
    rewritten(engine, recursive, question, answered, steps)?.text().map(Some)
}

/// Explains a query that no zone here answers: from the cache, or else from a lookup now.
fn beyond(
    engine: &Arc<Engine<Served>>,
    recursive: &Recursive,
    question: &ExplainedQuery,
    mut steps: Vec<Value>,
) -> CommandResult {
    let service = &recursive.service;
    let partition = service.partition_of(question.client.of_groups());
    let (inspection, inquiry) = service.inspect(partition, question.key(), service.now(Instant::now()));
    steps.push(said("no-zone", "no zone here holds the name"));
    if inspection.local {
        steps.push(said("local", "it is a special-use name, or local data: answered here"));
        return Ok(json!({"steps": steps, "answer": answer(engine, question)?.text()?}));
    }
    let (name, client, qtype) = (question.name.as_name(), &question.client, question.qtype);
    steps.extend(block_lists::group_of(recursive, client).map(|group| group_step(client, group.as_deref())));
    if let Some(step) = block_lists::decided(recursive, name, client, qtype) {
        let goes_on = ["exempt", "passthru"].iter().any(|result| step["result"] == *result);
        let kind = if step["zone"].is_null() { "list" } else { "policy-zone" };
        steps.push(with(step, "kind", kind));
        if !goes_on {
            return Ok(json!({"steps": steps, "answer": answer(engine, question)?.text()?}));
        }
    }
    if inspection.rule.is_none() {
        steps.push(said("no-rule", "no rule names servers for it"));
        return Ok(json!({"steps": steps, "answer": answer(engine, question)?.text()?}));
    }
    let answered = by_rule(recursive, partition, inquiry, inspection, &mut steps)?;
    let answer = rewritten(engine, recursive, question, answered, &mut steps)?;
    Ok(json!({"steps": steps, "answer": answer.text()?}))
}

/// Returns the step that shows a client's group.
fn group_step(client: &QueryClient, group: Option<&str>) -> Value {
    let who = client.client().peer.ip();
    let text = match group {
        Some(group) => format!("the client {who} is in group `{group}`"),
        None => format!("the client {who} is in no group"),
    };
    with(said("group", text), "group", group.unwrap_or(DEFAULT_GROUP))
}

/// The rule that decides a query in the query path.
#[derive(Default)]
struct FoundRule(Mutex<Option<RuleNote>>);

impl RuleLog for FoundRule {
    fn decided(&self, _: &Client, _: Name<'_>, rule: &RuleNote) {
        *lock(&self.0) = Some(*rule);
    }
}

/// Adds the rule about a resolved answer that gives the client another one, if there is one: about the target
/// of an alias, an address or a name server. Returns the answer that the client gets.
fn rewritten(
    engine: &Engine<Served>,
    recursive: &Recursive,
    question: &ExplainedQuery,
    resolved: Answered,
    steps: &mut Vec<Value>,
) -> Result<Answered, CommandFault> {
    let Answered::Message(message) = &resolved else { return Ok(resolved) };
    if recursive.lists.in_force().is_none() {
        return Ok(resolved);
    }
    let found = Arc::new(FoundRule::default());
    let answered = answer(&Arc::new(engine.for_operator(Arc::clone(&found) as _)), question)?;
    let found = *lock(&found.0);
    let Some(rule) = found.filter(|rule| rule.action != RuleAction::Passthru) else { return Ok(resolved) };
    let (kind, what) = match rule.kind {
        SourceKind::Zone => ("policy-zone", "zone"),
        SourceKind::List => ("list", "list"),
    };
    let of_alias = |target: NameBuf| {
        let mut step = block_lists::decided(recursive, target.as_name(), &question.client, Type::CNAME)?;
        let is_it = step[what].as_str() == Some(rule.source.as_str());
        step["text"] = format!("it is an alias of {target}: {}", step["text"].as_str()?).into();
        is_it.then_some(step)
    };
    let of_answer = || {
        let (source, trigger, action) = (rule.source.as_str(), rule.trigger.label(), rule.action.label());
        let text = format!(
            "the {} {source} decides about the answer: {trigger} rule, {action}",
            kind.replace('-', " ")
        );
        json!({"text": text, what: source, "trigger": trigger, "result": action})
    };
    let step = targets(message).into_iter().find_map(of_alias).unwrap_or_else(of_answer);
    steps.push(with(step, "kind", kind));
    Ok(answered)
}

/// Returns the targets of the aliases at the start of an answer.
fn targets(message: &[u8]) -> Vec<NameBuf> {
    let mut found = Vec::new();
    let Ok((header, mut parser)) = Parser::new(message) else { return found };
    if parser.question().is_err() {
        return found;
    }
    for _ in 0..header.counts()[1] {
        let Ok(record) = parser.record() else { break };
        let mut target = Vec::new();
        if record.rtype == Type::CNAME && parser.expand_rdata(&record, &mut target).is_ok() {
            found.extend(Name::from_wire(&target).map(|name| name.to_buf()));
        }
    }
    found
}

/// Explains what recursive service answers by a rule: from the cache, or else from a lookup now. Returns the
/// answer.
fn by_rule(
    recursive: &Recursive,
    partition: Partition,
    inquiry: QueryKey,
    inspection: Inspection,
    steps: &mut Vec<Value>,
) -> Result<Answered, CommandFault> {
    let service = &*recursive.service;
    let Inspection { rule, validates, cached, failure, bogus, .. } = inspection;
    if let Some(rule) = rule {
        let groups = match inquiry.partition.is_shared() {
            true => Vec::new(),
            false => recursive.groups_of(inquiry.partition),
        };
        let of_groups = if groups.is_empty() { String::new() } else { format!(" of {}", groups.join(", ")) };
        let covers = said("rule", format!("the rule{of_groups} for {rule} covers it"));
        let covers = with(covers, "name", rule.to_string());
        steps.push(if groups.is_empty() { covers } else { with(covers, "groups", groups) });
    }
    if !validates {
        steps.push(said("not-validated", "answers of its servers are not validated"));
    }
    match cached {
        Some(CachedAnswer { freshness: Freshness::Fresh(left), above, message, authentic, .. }) => {
            let found = match above {
                true => format!("NXDOMAIN of a name above is cached for {left} s more"),
                false => format!("it is in the cache, for {left} s more"),
            };
            steps.push(with(said("cached", found), "ttl", left));
            if validates {
                let found = if authentic { "it was found secure" } else { "it was found not to be signed" };
                steps.push(with(said("security", found), "secure", authentic));
            }
            dns64(service, partition, &inquiry, &message, steps);
            return Ok(Answered::Message(message));
        }
        Some(CachedAnswer { freshness: Freshness::Stale(ago), .. }) => {
            let found = format!("it is in the cache, but expired {ago} s ago: served if no server answers");
            steps.push(with(said("stale", found), "expired", ago));
        }
        None => steps.push(said("not-cached", "it is not in the cache")),
    }
    if let (Some(left), Some(reason)) = (failure, bogus) {
        let found = format!("cached as bogus for {left} s more ({reason}); asked anyway");
        steps.push(with(said("bogus-before", found), "ttl", left));
    } else if let Some(left) = failure {
        let found = format!("failure cached for {left} s: no server answered; asked anyway");
        steps.push(with(said("failed-before", found), "ttl", left));
    }
    let answered = live(service, inquiry, steps);
    if let Answered::Message(message) = &answered {
        dns64(service, partition, &inquiry, message, steps);
    }
    Ok(answered)
}

/// Adds the AAAA records that clients receive if none exist (DNS64), if the service synthesizes any.
fn dns64(
    service: &Service,
    partition: Partition,
    inquiry: &QueryKey,
    message: &[u8],
    steps: &mut Vec<Value>,
) {
    if inquiry.qtype != Type::AAAA || !service.wants_dns64(message) {
        return;
    }
    steps.push(said("dns64", "it has no AAAA records: DNS64 synthesizes them from its A records"));
    let of_a = QueryKey { qtype: Type::A, ..*inquiry };
    let (inspection, of_a) = service.inspect(partition, of_a, service.now(Instant::now()));
    let fresh = inspection.cached;
    let cached = fresh.filter(|cached| matches!(cached.freshness, Freshness::Fresh(_)));
    let answered = match cached {
        Some(cached) => Answered::Message(cached.message),
        None => live(service, of_a, steps),
    };
    let Answered::Message(addresses) = answered else { return };
    for (address, made) in service.dns64_made(&addresses) {
        let (kind, text) = match made {
            Dns64Made::Address(made) => ("dns64-made", format!("{made} is synthesized from {address}")),
            Dns64Made::Excluded => {
                ("dns64-left-out", format!("no AAAA record for {address}: `dns64-exclude-v4` has it"))
            }
            Dns64Made::NotGlobal => (
                "dns64-left-out",
                format!(
                    "no AAAA record for {address}: it is not global, and `dns64-prefix` is for global \
                    addresses alone (RFC 6052, section 3.1); `dns64-non-global` changes that"
                ),
            ),
        };
        steps.push(with(said(kind, text), "address", address.to_string()));
    }
}

/// Runs a lookup now; adds its steps to `steps`.
fn live(service: &Service, inquiry: QueryKey, steps: &mut Vec<Value>) -> Answered {
    let (told, outcome) = mpsc::channel();
    let trace = Trace::default();
    service.look_up(inquiry, Some(trace.clone()), move |outcome, verdict| {
        drop(told.send((outcome, verdict)));
    });
    let told = outcome.recv_timeout(LOOKUP_TIMEOUT);
    steps.extend(
        trace
            .steps()
            .iter()
            .map(|step| with(said("lookup", step.to_string()), "microseconds", step.at.as_micros() as u64)),
    );
    let (outcome, verdict) = match told {
        Ok((outcome, verdict)) => (Ok(outcome), verdict),
        Err(fault) => (Err(fault), None),
    };
    steps.extend(verdict.iter().flat_map(found));
    match outcome {
        Ok(LookupOutcome::Answered(answer)) => {
            if service.withholds(&answer.message) {
                let withheld = "private addresses are in it: clients get an answer without records";
                steps.push(said("withheld", withheld));
            }
            if let Some(agent) = &answer.agent {
                let domain = agent.domain.to_string();
                let wanted = format!("its servers announce the agent domain {domain} (RFC 9567)");
                steps.push(with(said("report-channel", wanted), "agent", domain));
            }
            Answered::Message(answer.message.to_vec())
        }
        Ok(LookupOutcome::Failed(failure)) => Answered::Failed(failure),
        Err(_) => Answered::NoServer,
    }
}

/// Returns the queries and the result of a validation as steps.
fn found(verdict: &Verdict) -> Vec<Value> {
    let asked = |need: &Need| {
        let (rtype, name) = (need.rtype(), need.name());
        let step = said("proof", format!("asked for the {rtype} of {name}"));
        with(with(step, "name", name.to_string()), "type", rtype.to_string())
    };
    let at = &verdict.at;
    let (word, text) = match verdict.security {
        Security::Secure => {
            ("secure", "it is secure: a chain of signatures leads there from a trust anchor".into())
        }
        Security::Insecure(reason) => ("insecure", format!("it is insecure at {at}: {reason}")),
        Security::Bogus(reason) => {
            let code = reason.extended_error().0;
            let text =
                format!("it is bogus at {at}: {reason}; clients get SERVFAIL with extended error {code}");
            ("bogus", text)
        }
        Security::Indeterminate => {
            ("indeterminate", "no trust anchor is for it, or it cannot be signed".into())
        }
    };
    let verdict_step = with(with(said("security", text), "security", word), "name", at.to_string());
    verdict.asked.iter().map(asked).chain([verdict_step]).collect()
}

/// Returns a step that has text only.
fn said(kind: &str, text: impl Into<String>) -> Value {
    json!({"kind": kind, "text": text.into()})
}

fn with(mut step: Value, key: &str, value: impl Into<Value>) -> Value {
    step[key] = value.into();
    step
}

/// Returns a step as fields and as text.
fn json_of(step: &Step) -> Value {
    let mut out = said(step.kind.word(), step.to_string());
    let mut put = |key: &str, value: Value| out[key] = value;
    put("name", step.name.to_string().into());
    if let Some(rule) = step.kind.rule() {
        put("rule", rule.into());
    }
    match &step.kind {
        StepKind::Transfer(qtype) => put("type", qtype.to_string().into()),
        StepKind::Snapshot { serial, records, signed, online } => {
            put("serial", serial.0.into());
            put("records", (*records).into());
            put("signed", (*signed || online.is_some()).into());
            if let Some(denial) = online {
                put("online", denial.word().into());
            }
        }
        StepKind::Exists(types) | StepKind::Cut(types) => {
            put("types", types.iter().map(ToString::to_string).collect());
        }
        StepKind::Wildcard(wildcard) => put("wildcard", wildcard.to_string().into()),
        StepKind::MadeCname(target) | StepKind::Cname(target) => put("target", target.to_string().into()),
        StepKind::NotThere(encloser) => put("encloser", encloser.to_string().into()),
        StepKind::NxDomain(ttl) => put("ttl", ttl.as_secs().into()),
        StepKind::Answer { rtype, count, ttl, signatures } => {
            put("type", rtype.to_string().into());
            put("count", (*count).into());
            put("ttl", ttl.as_secs().into());
            put("signatures", signatures.len().into());
            put("signed_by", signatures.iter().map(signature_json).collect());
        }
        StepKind::Signatures(count) => put("signatures", (*count).into()),
        StepKind::NoData(qtype, ttl) => {
            put("type", qtype.to_string().into());
            put("ttl", ttl.as_secs().into());
        }
        StepKind::LastLink(most) => put("links", (*most).into()),
        StepKind::Proof(proof) => put("proof", json_of_proof(proof)),
        StepKind::NoZone
        | StepKind::Zone
        | StepKind::ZoneOfView
        | StepKind::Barred
        | StepKind::NotLoaded
        | StepKind::Referral
        | StepKind::Dname
        | StepKind::TooLong
        | StepKind::AnyOne
        | StepKind::Loop => {}
    }
    out
}

fn signature_json(signature: &SignatureUse) -> Value {
    let SignatureUse { tag, algorithm, expiration } = signature;
    let expiration = unix_now().nearest(*expiration).as_secs();
    json!({"tag": tag, "algorithm": algorithm.to_string(), "expiration": expiration})
}

fn json_of_proof(Proof { owner, rtype, claim }: &Proof) -> Value {
    let (claim, denied) = match claim {
        DenialClaim::NoName => ("no-name", None),
        DenialClaim::NoSignedName => ("no-signed-name", None),
        DenialClaim::NoType(qtype) => ("no-type", Some(qtype.to_string())),
        DenialClaim::NoRecords => ("no-records", None),
        DenialClaim::Encloser => ("encloser", None),
    };
    json!({"owner": owner.to_string(), "type": rtype.to_string(), "claim": claim, "denied": denied})
}

fn text(message: &[u8]) -> Result<String, CommandFault> {
    print::full(message).map_err(CommandFault::Answer)
}

/// Wakes the thread that waits for an answer.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The outcome of a query in the query path, or of a lookup.
enum Answered {
    /// A response.
    Message(Vec<u8>),
    /// No response: the lookup failed.
    Failed(LookupFailure),
    /// A stream of messages: a zone.
    Stream,
    /// No response: no reachable name server.
    NoServer,
    /// No response, on purpose.
    Silence,
}

impl Answered {
    fn text(&self) -> Result<String, CommandFault> {
        Ok(match self {
            Self::Message(message) => return text(message),
            Self::Failed(failure) => format!(";; no answer: {failure}\n"),
            Self::Stream => ";; the answer is a stream of messages\n".into(),
            Self::NoServer => ";; no answer: no reachable name server\n".into(),
            Self::Silence => ";; no reply\n".into(),
        })
    }
}

fn rcode(message: &[u8]) -> Result<String, CommandFault> {
    print::refusal(message).map_err(CommandFault::Answer)
}

/// Waits for the deferred answer of a lookup.
fn late(packets: &Packets, worker: &mut Worker<Served>) -> Answered {
    let until = Instant::now() + LOOKUP_TIMEOUT;
    while Instant::now() < until {
        if let Some(late) = packets.late(worker).pop() {
            return Answered::Message(late.message);
        }
        std::thread::park_timeout(until.saturating_duration_since(Instant::now()));
    }
    Answered::NoServer
}

/// Returns the answer of the query path, without counting the query.
fn answer(engine: &Arc<Engine<Served>>, question: &ExplainedQuery) -> Result<Answered, CommandFault> {
    let &ExplainedQuery { name, qtype, dnssec_ok, ref client } = question;
    let options = client.options().to_vec();
    let spec = QuerySpec { name, qtype, qclass: Class::IN, dnssec_ok, options, ..QuerySpec::default() };
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut worker = Worker::new(Arc::clone(engine), Arc::new(WorkerState::new(waker)));
    let mut packets = Packets::new(client.client().transport, MAX_MESSAGE).client_name(client.name());
    let mut message = spec.message().map_err(CommandFault::Query)?;
    if let Some(key) = client.key_name() {
        message = engine.sign_query(key, message).ok_or(CommandFault::Stopping)?;
    }
    packets.push_from(client.client().peer, client.client().local, &message);
    packets.ask(&mut worker);
    if let Some(reply) = packets.reply(0) {
        return Ok(Answered::Message(reply.to_vec()));
    }
    Ok(match packets.take_outcome(0) {
        Some(Outcome::Pending) => late(&packets, &mut worker),
        Some(Outcome::Stream(_)) => Answered::Stream,
        _ => Answered::Silence,
    })
}

fn is_transfer(qtype: Type) -> bool {
    matches!(qtype, Type::AXFR | Type::IXFR)
}
