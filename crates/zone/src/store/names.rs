//! Where names stand in RDATA, for the types whose names may be compressed.

use wire::{Name, Type};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NameRule {
    Compress,
    Lower,
}

pub(super) struct EmbeddedName {
    pub(super) start: usize,
    pub(super) len: usize,
    pub(super) rule: NameRule,
}

pub(super) fn embedded_names(t: Type, rdata: &[u8]) -> impl Iterator<Item = EmbeddedName> {
    let (skip, names, rule) = match t {
        Type::NS | Type::CNAME | Type::PTR | Type::MB | Type::MG | Type::MR => (0, 1, NameRule::Compress),
        Type::SOA | Type::MINFO => (0, 2, NameRule::Compress),
        Type::MX => (2, 1, NameRule::Compress),
        Type::DNAME => (0, 1, NameRule::Lower),
        Type::RP => (0, 2, NameRule::Lower),
        Type::KX | Type::AFSDB | Type::RT => (2, 1, NameRule::Lower),
        Type::SRV => (6, 1, NameRule::Lower),
        _ => (0, 0, NameRule::Lower),
    };
    let mut at = skip;
    (0..names).map_while(move |_| {
        let len = Name::parse(rdata.get(at..)?).ok()?.len();
        let start = at;
        at += len;
        Some(EmbeddedName { start, len, rule })
    })
}

pub(super) fn canonical(t: Type, rdata: &mut [u8]) {
    let names: Vec<_> = embedded_names(t, rdata).map(|n| n.start..n.start + n.len).collect();
    names.into_iter().for_each(|range| rdata[range].make_ascii_lowercase());
}
