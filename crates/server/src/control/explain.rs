//! `nomen ctl explain`: the steps to an answer, which `authority` finds, and the answer itself as the query path
//! makes it.

use std::sync::Arc;
use std::task::Waker;

use engine::{Account, Engine, Worker, Zones};
use exchange::{MAX_MESSAGE, Outcome, Packets, Transport};
use serde_json::{Value, json};
use wire::name::NameBuf;
use wire::{Class, Type};

use crate::config::zones::zone_name;
use crate::message::{QuerySpec, print};

/// Explains a question of class IN.
pub(super) fn explain(
    engine: &Arc<Engine<Zones>>,
    max_chain: u8,
    name: &str,
    rtype: &str,
    dnssec: bool,
) -> Result<Value, String> {
    let name = zone_name(name).map_err(|fault| fault.to_string())?;
    let rtype: Type = rtype.parse().map_err(|_| format!("`{rtype}` is no record type"))?;
    let steps =
        authority::explain::explain(&engine.catalog(), &engine.key(), name.as_name(), rtype, max_chain);
    let steps: Vec<String> = steps.iter().map(ToString::to_string).collect();
    let answer = answer(engine, name, rtype, dnssec)?;
    Ok(json!({"steps": steps, "answer": answer}))
}

/// The answer that the query path makes, as text; counted nowhere.
fn answer(
    engine: &Arc<Engine<Zones>>,
    name: NameBuf,
    qtype: Type,
    dnssec_ok: bool,
) -> Result<String, String> {
    let spec = QuerySpec { name, qtype, qclass: Class::IN, dnssec_ok, ..QuerySpec::default() };
    let mut worker = Worker::new(Arc::clone(engine), Arc::new(Account::new(Waker::noop().clone())));
    let mut packets = Packets::new(Transport::Tcp, MAX_MESSAGE);
    packets.push(&spec.message().map_err(|fault| fault.to_string())?);
    packets.ask(&mut worker);
    if let Some(reply) = packets.reply(0) {
        return print::full(reply).map_err(|e| format!("the answer is broken: {e}"));
    }
    Ok(match packets.take_outcome(0) {
        Some(Outcome::Pending) => ";; the answer comes later\n".into(),
        Some(Outcome::Stream(_)) => ";; the answer is a stream of messages\n".into(),
        _ => ";; no reply\n".into(),
    })
}
