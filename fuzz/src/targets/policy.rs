//! Block lists and response policy zones: any text and any owner name is read or refused.
//!
//! docs/BLOCKING.md: "A line that cannot be used is skipped: the other lines are in force", and what a list
//! blocks is what its lines say: a line is found for every decision. Rules that are kept decide as before.

use std::net::IpAddr;

use policy::{
    ListFormat, NameKeys, PolicyQuery, PolicyRecord, RpzReport, RuleBuilder, RuleChanges, SourceId,
    SourceMask, line_of,
};
use wire::hash::{HashKey, HashedName};
use wire::{LowerName, Name, NameBuf, Ttl, Type};

const FORMATS: [ListFormat; 5] =
    [ListFormat::Auto, ListFormat::Hosts, ListFormat::Domains, ListFormat::Adblock, ListFormat::Rpz];
/// The apex `rpz.`
const APEX: &[u8] = b"\x03rpz\0";

pub(crate) fn run(data: &[u8]) {
    let Some((first, text)) = data.split_first() else { return };
    let text = text.get(..2048).unwrap_or(text);
    // A regular expression takes up to 10 ms to compile, and with the sanitizers 30 times as long.
    if text.split(|byte| *byte == b'\n').filter(|line| line.contains(&b'/')).count() > 8 {
        return;
    }
    let key = HashKey::new([1, 2, 3]);
    let keys = NameKeys::new(key);
    let mut builder = RuleBuilder::new(keys);
    let (format, exempts) = (FORMATS[usize::from(first % 5)], first & 128 != 0);
    let listed = builder.list(SourceId(0), format, text, exempts);

    // The same bytes as owner names below the apex, each with a CNAME.
    let names: Vec<NameBuf> = text
        .split(|byte| *byte == b'\n')
        .filter_map(|line| Name::parse(line).ok())
        .filter_map(|name| NameBuf::replace_suffix(name, 0, Name::from_wire(APEX).ok()?).ok())
        .collect();
    let lower: Vec<_> = names.iter().map(|name| name.as_name().to_lower()).collect();
    let apex = LowerName::new(Name::from_wire(APEX).expect("a name")).expect("in lower case");
    let (rtype, ttl) = (Type::CNAME, Ttl::from_secs(60));
    let rdata = text.get(..text.len().min(8)).unwrap_or_default();
    let mut report = RpzReport::default();
    for owner in &lower {
        let record = PolicyRecord { rtype, ttl, rdata };
        builder.rpz(SourceId(1), apex, owner.as_lower(), &[record], &mut report);
    }
    assert!(report.rules + report.faults <= lower.len());

    let rules = builder.build();
    let mut again = RuleBuilder::new(keys);
    again.keep(SourceId(0), &rules, SourceId(0));
    let kept = again.build();
    // What changes when half of the text is read, and then all of it, is as if it were compiled.
    let half = text.get(..text.len() / 2).unwrap_or_default();
    let mut builder = RuleBuilder::new(keys);
    let half = builder.list(SourceId(0), format, half, exempts);
    let base = builder.build();
    let next = || {
        let mut changes = RuleChanges::new(&base);
        let is_taken = matches!(changes.list(SourceId(0), format, text, exempts), Ok(Ok(_)));
        is_taken.then(|| changes.finish().expect("few names"))
    };
    let changed = half.ok().and_then(|_| next()).unwrap_or_else(|| kept.clone());
    let mut hashed = HashedName::new();
    for line in text.split(|byte| *byte == b'\n').take(64) {
        let Ok(name) = NameBuf::from_text(line, Some(Name::ROOT)) else { continue };
        hashed.set(&key, name.as_name());
        let client = IpAddr::from([127, 0, 0, 1]);
        let query = PolicyQuery { name: &hashed, qtype: Type::A, client: Some(client), group: None };
        let decision = rules.of_query(&query, &SourceMask::ALL);
        let kept = kept.of_query(&query, &SourceMask::ALL).list;
        let effect = |found: policy::Match| found.rule.effect;
        assert_eq!(kept.map(effect), decision.list.map(effect), "{name}");
        let changed = changed.of_query(&query, &SourceMask::ALL).list;
        assert_eq!(changed.map(effect), decision.list.map(effect), "{name}");
        let Some(found) = decision.list else { continue };
        assert!(listed.is_ok(), "a list that is refused has no rule");
        assert!(line_of(text, format, hashed.suffix(found.skip)).is_some(), "{name}: a line has the rule");
    }
}
