//! Zones served here, as the resolver sees them: names that they delegate are resolved from the name servers
//! of the delegation.

use std::sync::Weak;
use std::time::Instant;

use authority::{AnswerLocation, Ask, HashingLimit, PASSES, Scratch, answer};
use query_path::Engine;
use resolver::ServedZones;
use wire::hash::HashedName;
use wire::message::{Builder, Compressor, MAX_MESSAGE};
use wire::{Class, Header, LowerName, LowerNameBuf, Name, Type};
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
    let ask = Ask { name, qname, qtype, dnssec_ok, catalog, key, resolves, may_enter, max_chain, hashing };
    let answered = answer(&ask, &location, &mut b, &mut Scratch::new()).is_ok() && !b.header().truncated();
    let len = b.finish();
    message.truncate(len);
    answered
}
