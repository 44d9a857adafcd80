//! Zones served here, as recursive service sees them: names that they delegate are resolved from the name
//! servers of the delegation, and targets of aliases that are made here are answered from them.

use std::cell::RefCell;
use std::sync::{Arc, Weak};
use std::time::Instant;

use authority::{AnswerLocation, Ask, HashingLimit, PASSES, Scratch, Unanswered, answer};
use query_path::{Engine, HasZones, QueryTraits, Refusal, Zones};
use recursion::{AliasTarget, AliasTargets, TargetAnswer};
use resolver::ServedZones;
use wire::hash::HashedName;
use wire::message::{Builder, Compressor, MAX_MESSAGE};
use wire::{Class, Header, LowerName, LowerNameBuf, Name, Opcode, Type};
use zone::catalog::{Catalog, ZoneEntry};

use crate::frontend::Served;

/// Most CNAME and DNAME links that a response follows, as in an authoritative server.
const MAX_CHAIN: u8 = 16;

/// The zones of an engine, as long as it exists.
pub(crate) struct OfEngine(pub(crate) Weak<Engine<Served>>);

impl ServedZones for OfEngine {
    fn refer(&self, name: LowerName<'_>, message: &mut Vec<u8>) -> Option<LowerNameBuf> {
        let catalog = self.0.upgrade()?.catalog();
        let mut qname = HashedName::new();
        qname.set(catalog.key(), name.as_name());
        let located = AnswerLocation::find(&catalog, &qname, Type::A, false)?.located();
        let zone = catalog.entry(located)?.name().as_name().to_lower();
        respond(&catalog, name.as_name(), Type::A, false, message).then_some(zone)
    }
}

/// The zones of an engine, as targets of aliases.
pub(crate) struct TargetsOfEngine(pub(crate) Weak<Engine<Served>>);

/// What a thread answers targets with, again and again. The scratch limits the hashing of names, as that of a
/// worker does.
struct TargetBuffers {
    scratch: Scratch,
    message: Vec<u8>,
    names: Compressor,
}

thread_local! {
    static BUFFERS: RefCell<TargetBuffers> = RefCell::new(TargetBuffers {
        scratch: Scratch::new(),
        message: vec![0; MAX_MESSAGE],
        names: Compressor::large(),
    });
}

impl AliasTargets for TargetsOfEngine {
    fn has(&self, target: &AliasTarget<'_>) -> bool {
        let has = |engine: Arc<Engine<Served>>| {
            engine.with_memory(|memory| {
                let catalog = catalog_for(memory.zones(), target);
                let mut qname = HashedName::new();
                qname.set(catalog.key(), target.name.as_name());
                AnswerLocation::find(catalog, &qname, target.qtype, target.dnssec_ok).is_some()
            })
        };
        self.0.upgrade().is_some_and(has)
    }

    fn answer(&self, target: &AliasTarget<'_>) -> TargetAnswer {
        let Some(engine) = self.0.upgrade() else { return TargetAnswer::Elsewhere };
        let answer = |buffers: &mut TargetBuffers| {
            engine.with_memory(|memory| answer_target(memory.zones(), target, buffers))
        };
        BUFFERS.with_borrow_mut(answer)
    }
}

/// Returns the zones that the client of a target gets answers from.
fn catalog_for<'z>(zones: &'z Zones, target: &AliasTarget<'_>) -> &'z Catalog {
    let of_view = zones.views.as_ref().and_then(|views| {
        let view = views.clients().of(target.client, target.key);
        views.catalog(view)
    });
    of_view.unwrap_or(&zones.catalog)
}

fn answer_target(zones: &Zones, target: &AliasTarget<'_>, buffers: &mut TargetBuffers) -> TargetAnswer {
    let AliasTarget { name, qtype, dnssec_ok, client, key } = *target;
    let catalog = catalog_for(zones, target);
    let (name, mut qname) = (name.as_name(), HashedName::new());
    qname.set(catalog.key(), name);
    let Some(location) = AnswerLocation::find(catalog, &qname, qtype, dnssec_ok) else {
        return TargetAnswer::Elsewhere;
    };
    let traits = QueryTraits { client, key, opcode: Opcode::QUERY, qtype: Some(qtype) };
    let may_enter =
        |entry: &ZoneEntry| zones.access.as_ref().is_none_or(|access| access.allows(entry, &traits));
    if !catalog.entry(location.located()).is_some_and(may_enter) {
        return TargetAnswer::Withheld;
    }
    let TargetBuffers { scratch, message, names } = buffers;
    let mut b = Builder::new(message, MAX_MESSAGE, Header::query(0).reply(), names);
    if b.question(name, qtype, Class::IN).is_err() {
        return TargetAnswer::Elsewhere;
    }
    let ask = Ask {
        name,
        qname: &qname,
        qtype,
        dnssec_ok,
        compact_ok: &|| false,
        catalog,
        key: catalog.key(),
        resolves: &|| true,
        may_enter: &may_enter,
        max_chain: zones.config.max_chain,
        hashing: HashingLimit { now: Instant::now(), rounds_per_second: zones.config.nsec3_rounds },
    };
    let leads_to = match answer(&ask, &location, &mut b, scratch) {
        Ok(leads_to) => leads_to.map(|name| name.as_lower().to_buf()),
        Err(Unanswered::Delegated) => return TargetAnswer::Elsewhere,
        Err(Unanswered::NotLoaded) => return TargetAnswer::Withheld,
        Err(Unanswered::Hashing) => return TargetAnswer::Refused(Refusal::TOO_MANY_ITERATIONS),
        Err(Unanswered::SigningLimit) => return TargetAnswer::Refused(Refusal::TOO_MANY_SIGNATURES),
        Err(Unanswered::NoSignature) => return TargetAnswer::Refused(Refusal::NO_SIGNATURE),
        Err(Unanswered::MetaType) => return TargetAnswer::Refused(Refusal::META_TYPE),
    };
    let len = b.finish();
    TargetAnswer::Answer(message[..len].to_vec(), leads_to)
}

/// Writes the response of these zones to a query into `message`. Returns whether it is complete.
pub(crate) fn respond(
    catalog: &Catalog,
    name: Name<'_>,
    qtype: Type,
    dnssec_ok: bool,
    message: &mut Vec<u8>,
) -> bool {
    let key = catalog.key();
    let mut qname = HashedName::new();
    qname.set(key, name);
    let Some(mut location) = AnswerLocation::find(catalog, &qname, qtype, dnssec_ok) else { return false };
    for pass in 0..PASSES {
        if !location.prefetch(catalog, pass, &qname) {
            break;
        }
    }
    message.resize(MAX_MESSAGE, 0);
    let mut names = Compressor::large();
    let mut b = Builder::new(message, MAX_MESSAGE, Header::query(0).reply(), &mut names);
    if b.question(name, qtype, Class::IN).is_err() {
        return false;
    }
    let hashing = HashingLimit::at(Instant::now());
    let (qname, max_chain, resolves, may_enter) = (&qname, MAX_CHAIN, &|| false, &|_: &ZoneEntry| true);
    let compact_ok = &|| false;
    let ask = Ask {
        name,
        qname,
        qtype,
        dnssec_ok,
        compact_ok,
        catalog,
        key,
        resolves,
        may_enter,
        max_chain,
        hashing,
    };
    let answered = answer(&ask, &location, &mut b, &mut Scratch::new()).is_ok() && !b.header().truncated();
    let len = b.finish();
    message.truncate(len);
    answered
}
