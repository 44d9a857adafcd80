//! `nomen ctl explain`: the steps to an answer, which `authority` tells, and the answer itself as the query path
//! makes it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use engine::{Packet, Transport, Verdict, Worker};
use serde_json::{Value, json};
use wire::name::NameBuf;
use wire::{Class, Type};

use crate::app::App;
use crate::config::zones::zone_name;
use crate::message::{QuerySpec, print};

/// Explains a question of class IN.
pub(super) fn explain(app: &Arc<App>, name: &str, rtype: &str, dnssec: bool) -> Result<Value, String> {
    let name = zone_name(name).map_err(|fault| fault.to_string())?;
    let rtype: Type = rtype.parse().map_err(|_| format!("`{rtype}` is no record type"))?;
    let max_chain = app.settings.load().server.answers.max_chain.0;
    let steps =
        authority::explain::explain(&app.engine.catalog(), app.key(), name.as_name(), rtype, max_chain);
    let steps: Vec<String> = steps.iter().map(ToString::to_string).collect();
    let answer = answer(app, name, rtype, dnssec)?;
    Ok(json!({"steps": steps, "answer": answer}))
}

/// The answer that the query path makes, as text; counted nowhere.
fn answer(app: &Arc<App>, name: NameBuf, qtype: Type, dnssec_ok: bool) -> Result<String, String> {
    let peer = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
    let wanted = QuerySpec { name, qtype, qclass: Class::IN, dnssec_ok, ..QuerySpec::default() };
    let query = wanted.message().map_err(|fault| fault.to_string())?;
    let packet = Packet { octets: &query, peer, transport: Transport::Tcp };
    let mut worker = Worker::new(Arc::clone(&app.engine), Arc::default());
    let mut out = vec![0; 65_535];
    worker.begin();
    worker.prepare(0, &packet);
    let verdict = worker.answer(0, &packet, &mut out, &mut || Box::new(Nobody));
    match verdict {
        Verdict::Reply(octets) => {
            print::full(&out[..octets]).map_err(|e| format!("the answer is broken: {e}"))
        }
        Verdict::Drop => Ok(";; no reply\n".into()),
        Verdict::Pending => Ok(";; the answer comes later\n".into()),
        Verdict::Stream(_) => Ok(";; the answer is a stream of messages\n".into()),
    }
}

/// Takes answers nobody waits for.
struct Nobody;

impl engine::Responder for Nobody {
    fn send(self: Box<Self>, _message: &[u8]) {}
}
