//! `nomen ctl explain`: the steps to an answer, which `authority` finds, and the answer itself as the query path
//! makes it.

use std::sync::{Arc, mpsc};
use std::task::{Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use cache::Freshness;

use engine::{Account, Engine, Worker};
use exchange::{MAX_MESSAGE, Outcome, Packets, Transport};
use recursion::{CachedAnswer, Inspection};
use resolver::{Inquiry, LookupOutcome, Trace};
use serde_json::{Value, json};
use wire::hash::HashedName;
use wire::name::NameBuf;
use wire::{Class, Type};

use crate::config::zones::zone_name;
use crate::frontend::Served;
use crate::message::{QuerySpec, print};
use crate::recursive::Recursive;

/// Longest wait for the answer of other servers; they are given up earlier.
const PATIENCE: Duration = Duration::from_secs(30);

/// Explains a question of class IN.
pub(super) fn explain(
    engine: &Arc<Engine<Served>>,
    recursive: Option<&Recursive>,
    max_chain: u8,
    name: &str,
    rtype: &str,
    dnssec: bool,
) -> Result<Value, String> {
    let name = zone_name(name).map_err(|fault| fault.to_string())?;
    let rtype: Type = rtype.parse().map_err(|_| format!("`{rtype}` is no record type"))?;
    let mut hashed = HashedName::new();
    hashed.set(&engine.key(), name.as_name());
    if let Some(recursive) = recursive
        && authority::lookup::zone_for(&engine.catalog(), &hashed, rtype).is_none()
    {
        return beyond(engine, recursive, name, rtype, dnssec);
    }
    let steps =
        authority::explain::explain(&engine.catalog(), &engine.key(), name.as_name(), rtype, max_chain);
    let steps: Vec<String> = steps.iter().map(ToString::to_string).collect();
    let answer = answer(engine, name, rtype, dnssec)?;
    Ok(json!({"steps": steps, "answer": answer}))
}

/// Explains a question that no zone here answers: what is known, or else what other servers say now.
fn beyond(
    engine: &Arc<Engine<Served>>,
    recursive: &Recursive,
    name: NameBuf,
    qtype: Type,
    dnssec_ok: bool,
) -> Result<Value, String> {
    let service = &recursive.service;
    let lower = name.as_name().to_lower();
    let inquiry = Inquiry { name: lower, qtype, qclass: Class::IN, dnssec_ok, checking_disabled: false };
    let Inspection { local, rule, cached, failure } = service.inspect(&inquiry, service.now(Instant::now()));
    let mut steps = vec!["no zone here holds the name".to_owned()];
    if local {
        steps.push("it is a special-use name, or local data: answered here".into());
        return Ok(json!({"steps": steps, "answer": answer(engine, name, qtype, dnssec_ok)?}));
    }
    let Some(rule) = rule else {
        steps.push("no rule says whom to ask".into());
        return Ok(json!({"steps": steps, "answer": answer(engine, name, qtype, dnssec_ok)?}));
    };
    steps.push(format!("the rule for {} covers it", rule.as_name()));
    match cached {
        Some(CachedAnswer { freshness: Freshness::Fresh(left), above, message, .. }) => {
            steps.push(match above {
                true => format!("it is in the cache that a name above does not exist, for {left} s more"),
                false => format!("it is in the cache, for {left} s more"),
            });
            return Ok(json!({"steps": steps, "answer": text(&message)?}));
        }
        Some(CachedAnswer { freshness: Freshness::Stale(ago), .. }) => {
            steps.push(format!("it is in the cache, but expired {ago} s ago: served if nobody answers"));
        }
        None => steps.push("it is not in the cache".into()),
    }
    if let Some(left) = failure {
        steps.push(format!("that nobody could answer it is remembered for {left} s; asked all the same"));
    }
    let (told, outcome) = mpsc::channel();
    let trace = Trace::default();
    service.look_up(inquiry, Some(trace.clone()), move |outcome| drop(told.send(outcome)));
    let outcome = outcome.recv_timeout(PATIENCE);
    steps.extend(trace.steps().iter().map(ToString::to_string));
    let answer = match outcome {
        Ok(LookupOutcome::Answered(answer)) => {
            if service.withholds(&answer.message) {
                steps.push("private addresses are in it: clients get an answer without records".into());
            }
            text(&answer.message)?
        }
        Ok(LookupOutcome::Failed(failure)) => format!(";; no answer: {failure}\n"),
        Err(_) => ";; no answer: nobody can be asked\n".into(),
    };
    Ok(json!({"steps": steps, "answer": answer}))
}

fn text(message: &[u8]) -> Result<String, String> {
    print::full(message).map_err(|e| format!("the answer is broken: {e}"))
}

/// Wakes a thread that waits for an answer.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The answer that other servers were asked for.
fn late(packets: &Packets, worker: &mut Worker<Served>) -> Result<String, String> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Some((_, _, message)) = packets.late(worker).pop() {
            return text(&message);
        }
        std::thread::park_timeout(until.saturating_duration_since(Instant::now()));
    }
    Ok(";; no answer: nobody can be asked\n".into())
}

/// The answer that the query path makes, as text; counted nowhere.
fn answer(
    engine: &Arc<Engine<Served>>,
    name: NameBuf,
    qtype: Type,
    dnssec_ok: bool,
) -> Result<String, String> {
    let spec = QuerySpec { name, qtype, qclass: Class::IN, dnssec_ok, ..QuerySpec::default() };
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut worker = Worker::new(Arc::clone(engine), Arc::new(Account::new(waker)));
    let mut packets = Packets::new(Transport::Tcp, MAX_MESSAGE);
    packets.push(&spec.message().map_err(|fault| fault.to_string())?);
    packets.ask(&mut worker);
    if let Some(reply) = packets.reply(0) {
        return text(reply);
    }
    Ok(match packets.take_outcome(0) {
        Some(Outcome::Pending) => late(&packets, &mut worker)?,
        Some(Outcome::Stream(_)) => ";; the answer is a stream of messages\n".into(),
        _ => ";; no reply\n".into(),
    })
}
