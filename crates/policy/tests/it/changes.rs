//! Changes of single rules of response policy zones: whatever changes, a snapshot decides as one that was
//! compiled as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use policy::{
    AnswerSources, ChangedOwner, Decision, ListFormat, MAX_FAULTS, Match, NameKeys, NeedsBuild, OwnerFault,
    PolicyQuery, PolicyRecord, Rewrites, RpzAction, RpzReport, RuleBuilder, RuleChanges, RuleEffect,
    RuleReach, Rules, SourceId, SourceMask, TriggerKind,
};
use proptest::prelude::*;
use wire::hash::HashedName;
use wire::{LowerNameBuf, NameBuf, Ttl, Type};

use crate::key;

/// The response policy zones come before safe search and the lists.
const ZONES: [&str; 3] = ["one.rpz.", "two.rpz.", "three.rpz."];

/// A record: its type, TTL and data.
type Record = (Type, u32, Vec<u8>);
/// The owners of a zone, below its name, with their records.
type Owners = BTreeMap<String, Vec<Record>>;

fn lower(text: &str) -> LowerNameBuf {
    text.parse::<NameBuf>().expect("a name").as_name().to_lower()
}

/// Any name of few labels. Names are suffixes of each other.
fn name() -> impl Strategy<Value = String> {
    prop::collection::vec("[ab]", 1..4).prop_map(|labels| labels.join("."))
}

/// Addresses in few networks that contain each other, in several forms.
fn address() -> impl Strategy<Value = String> {
    prop_oneof![
        (0..3u8, 0..3u8, prop_oneof![Just((32, 3)), Just((24, 2)), Just((16, 1)), Just((8, 0))]).prop_map(
            |(b, c, (len, octets))| {
                let octet = |at, value| if octets >= at { value } else { 0 };
                format!("{len}.{}.{}.{}.10", octet(3, 1), octet(2, c), octet(1, b))
            }
        ),
        (0..3u8).prop_map(|c| format!("120.0.{:x}.ffff.zz", 0xa00 + u16::from(c))),
        Just("128.1.zz.2001".to_owned()),
        Just("128.1.0.0.0.0.0.0.2001".to_owned()),
        Just("16.zz.2001".to_owned()),
        Just("32.zz.2.2001".to_owned()),
        // No prefixes.
        Just("33.1.0.0.10".to_owned()),
        Just("8.1.0.0.10".to_owned()),
    ]
}

fn owner() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => name(),
        3 => name().prop_map(|name| format!("*.{name}")),
        1 => Just("*".to_owned()),
        3 => address().prop_map(|address| format!("{address}.rpz-ip")),
        2 => address().prop_map(|address| format!("{address}.rpz-nsip")),
        2 => address().prop_map(|address| format!("{address}.rpz-client-ip")),
        2 => name().prop_map(|name| format!("{name}.rpz-nsdname")),
        1 => name().prop_map(|name| format!("*.{name}.rpz-nsdname")),
        1 => Just("rpz-nsdname".to_owned()),
        1 => "[a-z]".prop_map(|label| format!("{label}.rpz-ip")),
    ]
}

fn cname(target: &str) -> Record {
    (Type::CNAME, 60, lower(target).as_name().as_wire().to_vec())
}

fn records() -> impl Strategy<Value = Vec<Record>> {
    prop_oneof![
        Just(vec![cname(".")]),
        Just(vec![cname("*.")]),
        Just(vec![cname("rpz-passthru.")]),
        Just(vec![cname("rpz-drop.")]),
        Just(vec![cname("rpz-tcp-only.")]),
        Just(vec![cname("a.b.")]),
        (0..4u8).prop_map(|last| vec![(Type::A, 60, vec![192, 0, 2, last])]),
        (0..4u8, 0..2u32).prop_map(|(last, ttl)| vec![
            (Type::A, ttl, vec![192, 0, 2, last]),
            (Type::TXT, ttl, vec![1, b'x']),
        ]),
        // No rule.
        Just(vec![(Type::NSEC, 60, vec![0, 0, 1, 2])]),
    ]
}

/// The changes of one version: the zone, the owner, its new records if it has any.
type Step = Vec<(usize, String, Option<Vec<Record>>)>;

fn step() -> impl Strategy<Value = Step> {
    let change = (0..ZONES.len(), owner(), prop::option::weighted(0.6, records()));
    prop::collection::vec(change, 1..8)
}

fn views(records: &[Record]) -> Vec<PolicyRecord<'_>> {
    records
        .iter()
        .map(|(rtype, ttl, rdata)| PolicyRecord { rtype: *rtype, ttl: Ttl::from_secs(*ttl), rdata })
        .collect()
}

fn full_owner(zone: usize, owner: &str) -> LowerNameBuf {
    lower(&format!("{owner}.{}", ZONES[zone]))
}

const LIST: &str = "||a.b^\n@@b.b\nb.a\n*b*\n||a^$client=10.1.1.1\n\
    ||b^$dnsrewrite=192.0.2.9\n||a.a^$dnsrewrite=NOERROR;TXT;x\n||b.a^$dnsrewrite=REFUSED\n@@||a.b^$dnsrewrite\n";

/// Compiles everything.
fn build(keys: NameKeys, zones: &[Owners]) -> (Rules, Vec<RpzReport>) {
    let mut builder = RuleBuilder::new(keys);
    let mut reports = Vec::new();
    for (number, owners) in zones.iter().enumerate() {
        let mut report = RpzReport::default();
        let apex = lower(ZONES[number]);
        // As zones are read: in no order.
        for (owner, records) in owners.iter().rev() {
            let (owner, source) = (full_owner(number, owner), SourceId(number as u8));
            builder.rpz(source, apex.as_lower(), owner.as_lower(), &views(records), &mut report);
        }
        reports.push(report);
    }
    builder.safe_search(SourceId(3), Ttl::from_secs(300));
    builder.list(SourceId(4), ListFormat::Auto, LIST.as_bytes(), false).expect("a list");
    (builder.build(), reports)
}

/// Changes a snapshot and the reports by the differences of two versions.
fn change(
    rules: &Rules,
    reports: &mut [RpzReport],
    (old, new): (&[Owners], &[Owners]),
) -> Result<Rules, NeedsBuild> {
    let mut changes = RuleChanges::new(rules);
    for (number, report) in reports.iter_mut().enumerate() {
        let apex = lower(ZONES[number]);
        let owners: BTreeSet<&String> = old[number].keys().chain(new[number].keys()).collect();
        for owner in owners {
            let [before, after] = [old, new]
                .map(|zones| zones[number].get(owner).map(|records| views(records)).unwrap_or_default());
            // The caller may pass owners that have not changed, too.
            if before == after && !owner.starts_with('a') {
                continue;
            }
            let full = full_owner(number, owner);
            let owner = ChangedOwner { owner: full.as_lower(), before: &before, after: &after };
            changes.rpz(SourceId(number as u8), apex.as_lower(), owner, report)?;
        }
    }
    changes.finish()
}

/// What a rule says, without numbers that differ between snapshots.
type Said = (SourceId, RuleReach, u8, usize, TriggerKind, RuleEffect, Vec<Record>);

fn said(rules: &Rules, found: Option<Match>) -> Option<Said> {
    found.map(|Match { rule, skip, trigger }| {
        let (mut effect, mut data) = (rule.effect, Vec::new());
        if let RuleEffect::Rpz(RpzAction::LocalData(number)) = effect {
            let records = rules.local_data(number);
            data =
                records.map(|record| (record.rtype, record.ttl.as_secs(), record.rdata.to_vec())).collect();
            assert!(!data.is_empty(), "local data without records");
            effect = RuleEffect::Rpz(RpzAction::Drop);
        }
        (rule.source, rule.reach, rule.prefix_len, skip, trigger, effect, data)
    })
}

/// The answer that lists give.
fn rewritten(rules: &Rules, found: &Rewrites) -> Said {
    let records = found.records().flat_map(|data| rules.local_data(data));
    let mut data: Vec<Record> =
        records.map(|record| (record.rtype, record.ttl.as_secs(), record.rdata.to_vec())).collect();
    let code = found.code.map(|code| (Type::ANY, 0, code.to_string().into_bytes()));
    data.extend(code);
    assert!(!data.is_empty(), "an answer without records and code");
    (found.source, RuleReach::Name, 0, 0, TriggerKind::Qname, RuleEffect::Rpz(RpzAction::Drop), data)
}

/// All that a snapshot says about these names and addresses.
fn all_said(rules: &Rules, names: &[HashedName], addresses: &[IpAddr]) -> Vec<Option<Said>> {
    let mut all = Vec::new();
    let masks = [SourceMask::ALL, SourceMask::default().with(SourceId(1)).with(SourceId(4))];
    let some = masks[1].with(SourceId(2));
    for sources in [masks[0], masks[1], some] {
        for address in addresses {
            all.push(said(rules, rules.of_client(*address, &sources)));
            all.push(said(rules, rules.of_answer(*address, &sources)));
            all.push(said(rules, rules.of_server_address(*address, &sources)));
        }
        for name in names {
            all.push(said(rules, rules.of_server_name(name, &sources)));
            for client in [None, Some(IpAddr::from([10, 1, 1, 1]))] {
                for qtype in [Type::A, Type::TXT] {
                    let query = PolicyQuery { name, qtype, client, group: None };
                    let Decision { rpz, list } = rules.of_query(&query, &sources);
                    all.extend([said(rules, rpz), said(rules, list)]);
                    all.push(rules.rewrites_of(&query, &sources).map(|found| rewritten(rules, &found)));
                }
            }
        }
    }
    all
}

fn asked_names() -> Vec<HashedName> {
    let mut names = vec![String::new()];
    for _ in 0..4 {
        let longer: Vec<String> =
            names.iter().flat_map(|name| ["a", "b"].map(|label| format!("{label}.{name}"))).collect();
        names.extend(longer);
    }
    names.extend(["www.google.com.", "x.", "ns.x."].map(str::to_owned));
    names.retain(|name| !name.is_empty());
    names.sort();
    names.dedup();
    let hashed = |name: &String| {
        let mut hashed = HashedName::new();
        hashed.set(&key(), name.parse::<NameBuf>().expect("a name").as_name());
        hashed
    };
    names.iter().map(hashed).collect()
}

fn asked_addresses() -> Vec<IpAddr> {
    let mut all: Vec<IpAddr> = vec![[9, 255, 255, 255].into(), [11, 0, 0, 0].into(), [10, 255, 0, 0].into()];
    for b in 0..4 {
        for c in 0..4 {
            all.extend((0..3).map(|d| IpAddr::from([10, b, c, d])));
        }
    }
    let v6 = ["2001::1", "2001::2", "2001:2::1", "2001:3::", "2002::", "::ffff:10.0.1.1", "::"];
    all.extend(v6.map(|text| text.parse::<IpAddr>().expect("an address")));
    all
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]
    #[test]
    fn a_changed_snapshot_decides_as_one_that_is_compiled_as_a_whole(
        first in step(),
        steps in prop::collection::vec(step(), 1..12),
    ) {
        let keys = NameKeys::new(key());
        let (names, addresses) = (asked_names(), asked_addresses());
        let mut zones = vec![Owners::new(); ZONES.len()];
        let (mut rules, mut reports) = build(keys, &zones);
        for step in [first].iter().chain(&steps) {
            let old = zones.clone();
            for (zone, owner, records) in step {
                match records {
                    Some(records) => drop(zones[*zone].insert(owner.clone(), records.clone())),
                    None => drop(zones[*zone].remove(owner)),
                }
            }
            let (whole, wanted_reports) = build(keys, &zones);
            let changed = change(&rules, &mut reports, (&old, &zones));
            // Two forms of one address: which one counts is not for a change to decide.
            let (changed, is_whole) = match changed {
                Ok(changed) => (changed, false),
                Err(fault) => {
                    prop_assert_eq!(fault, NeedsBuild::SameTrigger);
                    let (whole, whole_reports) = build(keys, &zones);
                    reports = whole_reports;
                    (whole, true)
                }
            };
            rules = changed;
            prop_assert_eq!(&reports, &wanted_reports);
            prop_assert_eq!(rules.len(), whole.len());
            prop_assert_eq!(rules.of_answers(), whole.of_answers());
            prop_assert_eq!(rules.depends_on_client(), whole.depends_on_client());
            prop_assert_eq!(all_said(&rules, &names, &addresses), all_said(&whole, &names, &addresses));
            prop_assert!(!is_whole || rules.overlaid() == 0);
            // Lists are kept from a changed snapshot as from any other.
            let kept = |from: &Rules| {
                let mut builder = RuleBuilder::new(keys);
                builder.keep(SourceId(0), from, SourceId(4));
                builder.build()
            };
            let (of_changed, of_whole) = (kept(&rules), kept(&whole));
            prop_assert_eq!(of_changed.len(), of_whole.len());
            prop_assert_eq!(all_said(&of_changed, &names, &addresses), all_said(&of_whole, &names, &addresses));
        }
    }
}

fn zone(owners: &[(&str, &str)]) -> Vec<Owners> {
    let one = owners.iter().map(|(owner, target)| ((*owner).to_owned(), vec![cname(target)])).collect();
    vec![one, Owners::new(), Owners::new()]
}

#[test]
fn most_changes_need_no_build() {
    let keys = NameKeys::new(key());
    let old = zone(&[("a", "."), ("24.0.1.0.10.rpz-ip", ".")]);
    let new = zone(&[("a", "*."), ("*.a", "."), ("24.0.2.0.10.rpz-ip", "."), ("b.rpz-nsdname", ".")]);
    let (rules, mut reports) = build(keys, &old);
    let changed = change(&rules, &mut reports, (&old, &new)).expect("a change");
    // The name of both owners, the prefix that is gone, the new one, and the server.
    assert_eq!((changed.overlaid(), changed.len()), (4, rules.len() + 1));
    let answers = |rules: &Rules| {
        let AnswerSources { ip, ns_names, ns_ips } = *rules.of_answers();
        [ip, ns_names, ns_ips].map(|mask| mask.contains(SourceId(0)))
    };
    assert_eq!((answers(&rules), answers(&changed)), ([true, false, false], [true, true, false]));
    let back = change(&changed, &mut reports, (&new, &old)).expect("a change");
    assert_eq!((back.overlaid(), back.len()), (0, rules.len()), "what is as in the base again");
    assert_eq!(reports, build(keys, &old).1);
}

#[test]
fn two_owners_with_one_trigger_need_a_build() {
    let keys = NameKeys::new(key());
    let old = zone(&[("24.0.1.0.10.rpz-ip", ".")]);
    let both = zone(&[("24.0.1.0.10.rpz-ip", "."), ("120.100.a00.ffff.zz.rpz-ip", ".")]);
    let (rules, mut reports) = build(keys, &old);
    let added = change(&rules, &mut reports, (&old, &both)).map(|rules| rules.len());
    assert_eq!(added, Err(NeedsBuild::SameTrigger));
    let (rules, mut reports) = build(keys, &both);
    let removed = change(&rules, &mut reports, (&both, &old)).map(|rules| rules.len());
    assert_eq!(removed, Err(NeedsBuild::SameTrigger));
}

#[test]
fn the_first_faults_are_known_as_long_as_they_are_all_or_stay() {
    let keys = NameKeys::new(key());
    let faults = |numbers: &[usize]| {
        let owners: Vec<String> = numbers.iter().map(|number| format!("n{number:02}.rpz-ip")).collect();
        zone(&owners.iter().map(|owner| (owner.as_str(), ".")).collect::<Vec<_>>())
    };
    let ten: Vec<usize> = (10..20).collect();
    let with = |more: &[usize]| faults(&[&ten[..], more].concat());
    let check = |old: &[Owners], new: &[Owners]| {
        let (rules, mut reports) = build(keys, old);
        change(&rules, &mut reports, (old, new)).map(|_| {
            assert_eq!(reports, build(keys, new).1);
            assert_eq!(reports[0].first.len(), reports[0].faults.min(MAX_FAULTS));
            assert_eq!(reports[0].first[0].fault, OwnerFault::Length);
        })
    };
    assert_eq!(check(&with(&[]), &with(&[5])), Ok(()), "one before them");
    assert_eq!(check(&with(&[]), &with(&[30])), Ok(()), "one behind them");
    assert_eq!(check(&with(&[]), &faults(&ten[1..])), Ok(()), "one less of ten");
    assert_eq!(check(&with(&[30]), &with(&[])), Ok(()), "the last of eleven");
    assert_eq!(check(&with(&[5]), &with(&[])), Err(NeedsBuild::UnknownFault), "the first of eleven");
}

#[test]
fn an_overlay_that_outgrows_its_share_of_the_base_is_not_made() {
    let keys = NameKeys::new(key());
    let many = |count: usize, target: &str| {
        let owners: Vec<String> = (0..count).map(|number| format!("n{number}")).collect();
        zone(&owners.iter().map(|owner| (owner.as_str(), target)).collect::<Vec<_>>())
    };
    let (rules, mut reports) = build(keys, &many(10, "."));
    let grown = change(&rules, &mut reports.clone(), (&many(10, "."), &many(1034, "."))).expect("a change");
    assert_eq!(grown.overlaid(), 1024);
    let too_much = change(&grown, &mut reports.clone(), (&many(1034, "."), &many(1035, ".")));
    assert_eq!(too_much.map(|rules| rules.len()), Err(NeedsBuild::Outgrown));
    let at_once = change(&rules, &mut reports, (&many(10, "."), &many(1035, ".")));
    assert_eq!(at_once.map(|rules| rules.len()), Err(NeedsBuild::Outgrown));
    // Of a base of 100,000 names a 32nd may differ.
    let (rules, reports) = build(keys, &many(100_000, "."));
    let with = |changed: usize| {
        let mut zones = many(100_000, ".");
        zones[0].extend(many(changed, "*.").swap_remove(0));
        change(&rules, &mut reports.clone(), (&many(100_000, "."), &zones)).map(|rules| rules.overlaid())
    };
    assert_eq!(with(3000), Ok(3000));
    assert_eq!(with(4000), Err(NeedsBuild::Outgrown));
}
