//! A set of zones that answers queries.

use std::time::Instant;

use authority::explain::{Step, explain};
use authority::{AnswerLocation, Ask, HashingLimit, PASSES, Scratch, answer};
use testkit::decode::{Decoded, decode};
use testkit::key;
use wire::hash::HashedName;
use wire::message::{Builder, Compressor, Header};
use wire::{Class, NameBuf, Type};
use zone::store::Zone;
use zone::{Catalog, Change};

/// Zones served together.
pub(crate) struct Server {
    catalog: Catalog,
}

/// One query and the limits of its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query {
    pub(crate) name: NameBuf,
    pub(crate) qtype: Type,
    pub(crate) dnssec_ok: bool,
    pub(crate) size: usize,
    pub(crate) max_chain: u8,
    pub(crate) resolves: bool,
}

impl Query {
    pub(crate) fn new(name: NameBuf, qtype: Type) -> Self {
        Query { name, qtype, dnssec_ok: false, size: 65_535, max_chain: 16, resolves: false }
    }
}

impl Server {
    pub(crate) fn new(changes: impl IntoIterator<Item = Change>) -> Self {
        Server { catalog: Catalog::new(&key()).with(changes).expect("zones of one key") }
    }

    pub(crate) fn of(zones: impl IntoIterator<Item = Zone>) -> Self {
        Self::new(zones.into_iter().map(|zone| Change::Serve(zone.into())))
    }

    /// Returns the answer; `None` if no loaded zone covers the name. A truncated answer has no sections: they
    /// are invalid.
    pub(crate) fn ask(&self, query: &Query) -> Option<Decoded> {
        let (key, mut hashed) = (key(), HashedName::new());
        hashed.set(&key, query.name.as_name());
        let mut location = AnswerLocation::find(&self.catalog, &hashed, query.qtype, query.dnssec_ok)?;
        let _ = (0..PASSES).all(|pass| location.prefetch(&self.catalog, pass, &hashed));
        let (mut buf, mut names) = (vec![0; 65_535], Compressor::small());
        let mut b = Builder::new(&mut buf, query.size, Header::query(1).reply(), &mut names);
        b.question(query.name.as_name(), query.qtype, Class::IN).expect("the question fits");
        let question_only = b.mark();
        let ask = Ask {
            name: query.name.as_name(),
            qname: &hashed,
            qtype: query.qtype,
            dnssec_ok: query.dnssec_ok,
            compact_ok: &|| false,
            catalog: &self.catalog,
            key: &key,
            resolves: &|| query.resolves,
            may_enter: &|_| true,
            max_chain: query.max_chain,
            hashing: HashingLimit::at(Instant::now()),
        };
        answer(&ask, &location, &mut b, &mut Scratch::new()).ok()?;
        if b.header().truncated() {
            b.rollback(question_only);
        }
        let len = b.finish();
        buf.truncate(len);
        assert!(buf.len() <= query.size);
        let answer = decode(&buf);
        let asked = [&query.qtype.0.to_be_bytes()[..], &Class::IN.0.to_be_bytes()].concat();
        assert_eq!(answer.question, [query.name.as_name().as_wire(), &asked].concat());
        assert_eq!(answer.class.unwrap_or(Class::IN), Class::IN);
        Some(answer)
    }

    /// Returns the steps that explain the answer.
    pub(crate) fn explain(&self, query: &Query) -> Vec<Step> {
        explain(&self.catalog, &key(), query.name.as_name(), query.qtype, query.max_chain, &|_| true)
    }
}
