//! Tests of lists as operators write them, and of changes of rules, by the public interface.

mod adguard;
mod changes;
mod list_changes;
mod naive;
mod zone_text;

use std::net::IpAddr;

use policy::{
    Decision, ListFormat, NameKeys, PolicyQuery, RuleBuilder, RuleEffect, Rules, SourceId, SourceMask,
};
use wire::hash::{HashKey, HashedName};
use wire::{NameBuf, Type};

fn key() -> HashKey {
    HashKey::new([1, 2, 3])
}

/// Rules of lists with these texts, the first of the lowest number.
fn rules(texts: &[&str]) -> Rules {
    let mut builder = RuleBuilder::new(NameKeys::new(key()));
    for (source, text) in (0..).zip(texts) {
        let report = builder.list(SourceId(source), ListFormat::Auto, text.as_bytes(), false);
        let report = report.expect("a list");
        assert_eq!((report.faults, report.ignored), (0, 0), "{text}: {report:?}");
    }
    builder.build()
}

/// The decision about a query.
fn decide(rules: &Rules, name: &str, qtype: Type, client: Option<IpAddr>) -> Decision {
    let mut hashed = HashedName::new();
    hashed.set(&key(), name.parse::<NameBuf>().expect("a name").as_name());
    rules.of_query(&PolicyQuery { name: &hashed, qtype, client, group: None }, &SourceMask::ALL)
}

/// Whether a query is blocked.
fn blocks(rules: &Rules, name: &str, qtype: Type, client: Option<IpAddr>) -> bool {
    let found = decide(rules, name, qtype, client).list;
    found.is_some_and(|found| matches!(found.rule.effect, RuleEffect::Block { .. }))
}
