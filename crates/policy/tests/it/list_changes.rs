//! Changes of lists: whatever texts follow each other, a snapshot decides as one that was compiled as a
//! whole.

use std::net::IpAddr;

use policy::{
    Decision, ListFault, ListFormat, ListReport, NameKeys, NeedsBuild, PolicyQuery, RuleBuilder, RuleChanges,
    Rules, SourceId, SourceMask,
};
use proptest::prelude::*;
use wire::hash::HashedName;
use wire::{NameBuf, Type};

use crate::{blocks, key};

/// The second list exempts names.
const EXEMPTS: [bool; 3] = [false, true, false];

fn lines() -> impl Strategy<Value = Vec<String>> {
    let name = || prop::collection::vec("[ab]", 1..4).prop_map(|labels| labels.join("."));
    let line = prop_oneof![
        6 => name(),
        4 => name().prop_map(|name| format!("||{name}^")),
        2 => name().prop_map(|name| format!("||*.{name}^")),
        2 => name().prop_map(|name| format!("@@||{name}^")),
        1 => name().prop_map(|name| format!("||{name}^$important")),
        1 => name().prop_map(|name| format!("||{name}^$badfilter")),
        1 => name().prop_map(|name| format!("0.0.0.0 {name} x.{name}")),
        1 => name().prop_map(|name| format!("||{name}^$client=10.1.1.1")),
        1 => name().prop_map(|name| format!("||{name}^$dnsrewrite=192.0.2.9")),
        1 => Just("*a*b".to_owned()),
        1 => Just("/^b+[.]a/".to_owned()),
        1 => Just("no name".to_owned()),
    ];
    prop::collection::vec(line, 0..12)
}

fn text(lines: &[String]) -> Vec<u8> {
    format!("# a list\n{}\n", lines.join("\n")).into_bytes()
}

fn build(keys: NameKeys, texts: &[Vec<u8>]) -> (Rules, Vec<Result<ListReport, ListFault>>) {
    let mut builder = RuleBuilder::new(keys);
    let add = |(number, text): (usize, &Vec<u8>)| {
        builder.list(SourceId(number as u8), ListFormat::Auto, text, EXEMPTS[number])
    };
    let reports = texts.iter().enumerate().map(add).collect();
    (builder.build(), reports)
}

fn decisions(rules: &Rules) -> Vec<(Decision, bool)> {
    let mut all = Vec::new();
    let mut hashed = HashedName::new();
    for number in 0..(1 << 5) {
        let labels: String = (0..4).map(|bit| if number >> bit & 1 == 1 { "a." } else { "b." }).collect();
        let name: NameBuf = labels[2 * (number >> 4)..].parse().expect("a name");
        hashed.set(&key(), name.as_name());
        for client in [None, Some(IpAddr::from([10, 1, 1, 1]))] {
            for sources in [SourceMask::ALL, SourceMask::default().with(SourceId(2))] {
                let query = PolicyQuery { name: &hashed, qtype: Type::A, client, group: None };
                let mut decision = rules.of_query(&query, &sources);
                // Numbers of conditions differ between snapshots.
                for found in [&mut decision.rpz, &mut decision.list].into_iter().flatten() {
                    found.rule.condition = Default::default();
                }
                all.push((decision, rules.rewrites_of(&query, &sources).is_some()));
            }
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]
    #[test]
    fn a_changed_list_decides_as_one_that_is_compiled(
        first in prop::collection::vec(lines(), EXEMPTS.len()),
        steps in prop::collection::vec((0..EXEMPTS.len(), lines(), any::<bool>()), 1..8),
    ) {
        let keys = NameKeys::new(key());
        let mut texts: Vec<Vec<u8>> = first.iter().map(|lines| text(lines)).collect();
        let mut rules = build(keys, &texts).0;
        for (number, lines, appends) in steps {
            let mut new = text(&lines);
            if appends {
                // Little changes.
                new = [&texts[number][..], new.get(9..40).unwrap_or_default(), b"\n"].concat();
            }
            let old = std::mem::replace(&mut texts[number], new);
            let (whole, reports) = build(keys, &texts);
            let mut changes = RuleChanges::new(&rules);
            match changes.list(SourceId(number as u8), ListFormat::Auto, &texts[number], EXEMPTS[number]) {
                Ok(Ok(report)) => {
                    prop_assert_eq!(&reports[number], &Ok(report));
                    rules = changes.finish().expect("few names");
                }
                Ok(Err(fault)) => {
                    // The last good version stays.
                    prop_assert_eq!(&reports[number], &Err(fault));
                    texts[number] = old;
                    let unchanged = changes.finish().expect("few names");
                    prop_assert_eq!(decisions(&unchanged), decisions(&rules));
                    continue;
                }
                Err(reason) => {
                    prop_assert_eq!(reason, NeedsBuild::OtherKinds);
                    rules = whole.clone();
                }
            }
            prop_assert_eq!(rules.len(), whole.len());
            prop_assert_eq!(decisions(&rules), decisions(&whole));
            // Lists are kept from a changed snapshot as from any other.
            let mut kept = RuleBuilder::new(keys);
            (0..3).for_each(|source| kept.keep(SourceId(source), &rules, SourceId(source)));
            let kept = kept.build();
            prop_assert_eq!(kept.len(), whole.len());
            prop_assert_eq!(decisions(&kept), decisions(&whole));
        }
    }
}

/// Changes the first list of a snapshot.
fn change(rules: &Rules, text: &str) -> Result<Rules, NeedsBuild> {
    let mut changes = RuleChanges::new(rules);
    changes.list(SourceId(0), ListFormat::Auto, text.as_bytes(), false)?.expect("a list");
    changes.finish()
}

#[test]
fn names_that_differ_are_changed_and_no_others() {
    let rules = build(NameKeys::new(key()), &[b"a.b\nb.b\n||c^\nc\n".to_vec(), b"b.b\n".to_vec()]).0;
    let same = change(&rules, "||c^\nc\nc\nb.b\n# in another order\na.b\n").expect("a change");
    assert_eq!(same.overlaid(), 0);
    let changed = change(&rules, "b.b\n||c^\nnew.example\n").expect("a change");
    assert_eq!((changed.overlaid(), changed.len()), (3, 3), "a.b is gone, c changed, new.example is new");
    let is_blocked = |name| blocks(&changed, name, Type::A, None);
    assert!(is_blocked("new.example.") && is_blocked("x.c.") && !is_blocked("a.b."));
    let back = change(&changed, "a.b\nb.b\n||c^\nc\n").expect("a change");
    assert_eq!((back.overlaid(), back.len()), (0, 3), "what is as in the base again");
}

#[test]
fn patterns_conditions_and_answers_change_with_all_rules() {
    let text = "a.b\n*ads*\n||c^$dnstype=A\n||d^$dnsrewrite=192.0.2.1\n";
    let rules = build(NameKeys::new(key()), &[text.as_bytes().to_vec()]).0;
    let with = |more: &str| change(&rules, &format!("{text}{more}\n")).map(|rules| rules.overlaid());
    assert_eq!(with("e"), Ok(1));
    assert_eq!(with("||e^$dnstype=A"), Ok(1), "a known condition");
    for more in ["*tracker*", "||e^$dnstype=AAAA", "||e^$dnsrewrite=192.0.2.2", "||e^$dnsrewrite=192.0.2.1"] {
        assert_eq!(with(more), Err(NeedsBuild::OtherKinds), "{more}");
    }
    assert_eq!(change(&rules, "a.b\n||c^$dnstype=A\n").map(|rules| rules.len()), Err(NeedsBuild::OtherKinds));
    let mut changes = RuleChanges::new(&rules);
    let exempting = changes.list(SourceId(0), ListFormat::Auto, text.as_bytes(), true);
    assert_eq!(exempting, Err(NeedsBuild::OtherKinds));
}

#[test]
fn many_changes_need_a_build() {
    let many = |count: usize| (0..count).map(|n| format!("n{n}.example\n")).collect::<String>();
    let rules = build(NameKeys::new(key()), &[many(10).into_bytes()]).0;
    assert_eq!(change(&rules, &many(1034)).map(|rules| rules.overlaid()), Ok(1024));
    assert_eq!(change(&rules, &many(1035)).map(|rules| rules.overlaid()), Err(NeedsBuild::Outgrown));
    let rules = build(NameKeys::new(key()), &[many(2000).into_bytes()]).0;
    assert_eq!(change(&rules, &many(976)).map(|rules| rules.len()), Ok(976));
    assert_eq!(change(&rules, &many(975)).map(|rules| rules.len()), Err(NeedsBuild::Outgrown));
}

/// Names are looked up in groups, of few kinds of rules each.
#[test]
fn large_lists_and_many_kinds_of_rules_are_compared_whole() {
    let many = |from: usize| (from..from + 70_000).map(|n| format!("n{n}.example\n")).collect::<String>();
    let rules = build(NameKeys::new(key()), &[many(0).into_bytes()]).0;
    let changed = change(&rules, &many(1000)).expect("a change");
    assert_eq!((changed.overlaid(), changed.len()), (2000, 70_000));
    let kinds = |first: &str| {
        let lines = (0..200).map(|n| format!("||n{n}.example^$client=192.0.2.{n}\n"));
        format!("{first}\n{}", lines.collect::<String>())
    };
    let rules = build(NameKeys::new(key()), &[kinds("a.example").into_bytes()]).0;
    let changed = change(&rules, &kinds("b.example")).expect("a change");
    assert_eq!((changed.overlaid(), changed.len()), (2, 201));
    assert!(blocks(&changed, "n199.example.", Type::A, Some(IpAddr::from([192, 0, 2, 199]))));
}
