//! Response policy zones as lists: files as providers publish them, and random ones against a matcher that
//! compares texts.

use policy::{
    LineFault, ListFault, ListFormat, ListReport, NameKeys, PolicyQuery, RuleBuilder, RuleEffect, Rules,
    SourceId, SourceMask, ZoneTextFault, check_list, line_of,
};
use proptest::prelude::*;
use wire::hash::HashedName;
use wire::{LowerNameBuf, NameBuf, Rcode, Type};

use super::{decide, key};

/// What a client gets for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Plain,
    Blocked,
    Exempt,
    NoData,
    Record(Type),
}

fn of(rules: &Rules, name: &str) -> Outcome {
    let mut hashed = HashedName::new();
    hashed.set(&key(), name.parse::<NameBuf>().expect("a name").as_name());
    let query = PolicyQuery { name: &hashed, qtype: Type::A, client: None, group: None };
    if let Some(found) = rules.rewrites_of(&query, &SourceMask::ALL) {
        if let Some(code) = found.code {
            assert_eq!(code, Rcode::NOERROR);
            return Outcome::NoData;
        }
        let mut types = found.records().flat_map(|data| rules.local_data(data)).map(|record| record.rtype);
        return Outcome::Record(types.next().expect("a record"));
    }
    match decide(rules, name, Type::A, None).list.map(|found| found.rule.effect) {
        None => Outcome::Plain,
        Some(RuleEffect::Block { .. }) => Outcome::Blocked,
        Some(RuleEffect::Allow { .. }) => Outcome::Exempt,
        Some(other) => panic!("{other:?}"),
    }
}

fn read(format: ListFormat, text: &str) -> (Rules, Result<ListReport, ListFault>) {
    let mut builder = RuleBuilder::new(NameKeys::new(key()));
    let report = builder.list(SourceId(0), format, text.as_bytes(), false);
    (builder.build(), report)
}

/// Rules of a text that is detected to be a zone.
fn rules(text: &str) -> Rules {
    let (rules, report) = read(ListFormat::Auto, text);
    let report = report.expect("a list");
    assert_eq!((report.faults, report.ignored), (0, 0), "{report:?}");
    rules
}

/// In the form that the lists of HaGeZi and URLhaus have: no name of the zone, relative owners.
#[test]
fn a_published_zone_is_detected_and_its_rules_are_in_force() {
    let text = "$TTL 300\n@ SOA localhost. root.localhost. 1700000000 43200 3600 259200 300\n  NS  localhost.\n;\n\
        ; Title: a list\n; Number of entries: 4\n;\nads.example CNAME .\n*.ads.example CNAME .\n\
        0-2.dyn.example CNAME . ; Malware download (2024-11-29), see https://urlhaus.abuse.ch/host/\n\
        Empty.example 60 IN CNAME *.\n*.ok.ads.example CNAME rpz-passthru.\n";
    let rules = rules(text);
    for (name, outcome) in [
        ("ads.example.", Outcome::Blocked),
        ("a.ads.example.", Outcome::Blocked),
        ("0-2.dyn.example.", Outcome::Blocked),
        ("x.dyn.example.", Outcome::Plain),
        ("x.0-2.dyn.example.", Outcome::Plain),
        ("empty.example.", Outcome::NoData),
        ("ok.ads.example.", Outcome::Blocked),
        ("x.ok.ads.example.", Outcome::Exempt),
        ("localhost.", Outcome::Plain),
    ] {
        assert_eq!(of(&rules, name), outcome, "{name}");
    }
    let name = |text: &str| -> LowerNameBuf { text.parse::<NameBuf>().expect("a name").as_name().to_lower() };
    let line = |of: &str| line_of(text.as_bytes(), ListFormat::Auto, name(of).as_lower());
    assert_eq!((line("0-2.dyn.example."), line("x.dyn.example.")), (Some(10), None));
    assert_eq!(check_list(text.as_bytes(), ListFormat::Rpz).map(|report| report.rules), Ok(5));
}

#[test]
fn owners_are_relative_to_the_origin_and_triggers_to_the_zone() {
    let soa = "SOA ns. root. 1 2 3 4 5";
    for text in [
        format!("@ {soa}\n@ NS ns.\nbad.test CNAME .\n"),
        format!("$ORIGIN RPZ.example.\n@ {soa}\nbad.test CNAME .\n"),
        format!("$ORIGIN rpz.example.\n@ {soa}\nbad.test.rpz.example. CNAME .\n"),
        format!("rpz.example. IN {soa}\nbad.test CNAME .\n"),
        format!("rpz.example. 3600 IN {soa}\nbad.test.rpz.Example. IN 60 CNAME .\n"),
        format!("$ORIGIN example.\nrpz {soa}\nbad.test.rpz CNAME .\n"),
        format!("rpz.example. {soa}\n$ORIGIN test.rpz.example.\nbad CNAME .\n"),
        format!(
            "; a comment\n\n$TTL 1h\n@ IN {}\nbad.test ( CNAME\n . )\n",
            soa.replace("1 2", "(\n 1 ; serial\n 2") + "\n )"
        ),
        format!("@ {soa}\r\n\r\nbad.test 1d IN CNAME .\r\n"),
    ] {
        let rules = rules(&text);
        assert_eq!((of(&rules, "bad.test."), rules.len()), (Outcome::Blocked, 1), "{text}");
    }
    let absolute =
        read(ListFormat::Rpz, &format!("@ {soa}\ngood.test CNAME .\nbad.test.rpz.example. CNAME .\n"));
    assert_eq!(absolute.1.expect("a list").first, [(3, LineFault::Zone(ZoneTextFault::Origin))]);
    // The owner of the record before.
    let rules = rules(&format!("@ {soa}\na.test A 192.0.2.1\n AAAA 2001:db8::1\nb.test CNAME c.test.\n"));
    assert_eq!(rules.len(), 2);
    assert_eq!(of(&rules, "a.test."), Outcome::Record(Type::A));
    assert_eq!(of(&rules, "b.test."), Outcome::Record(Type::CNAME));
}

#[test]
fn what_a_list_cannot_express_is_reported_with_its_line() {
    let good: String = (0..20).map(|n| format!("n{n} CNAME .\n")).collect();
    let fault = |line: &str| {
        let text = format!("$ORIGIN rpz.\n@ SOA a. b. 1 2 3 4 5\n{line}\n{good}");
        let report = read(ListFormat::Rpz, &text).1.expect("a list");
        assert_eq!((report.rules, report.faults), (20, 1), "{line}");
        let [(3, fault)] = &report.first[..] else { panic!("{report:?}") };
        fault.to_string()
    };
    for (line, words) in [
        ("32.1.2.0.192.rpz-ip CNAME .", "no rules of the kind rpz-ip: use the zone as a [[policy.zone]]"),
        ("32.1.2.0.192.rpz-client-ip CNAME .", "rpz-client-ip: use"),
        ("32.1.2.0.192.rpz-nsip CNAME .", "rpz-nsip: use"),
        ("ns.test.rpz-nsdname CNAME .", "rpz-nsdname: use"),
        ("x.rpz-ip CNAME .", "the length of a prefix"),
        ("a CNAME rpz-drop.", "no action rpz-drop.: use"),
        ("a CNAME rpz-tcp-only.", "no action rpz-tcp-only.: use"),
        ("a CNAME *.garden.test.", "an alias to a wildcard: use"),
        ("a TXT \"a ; b\"", "records of type TXT: use"),
        ("a.test. CNAME .", "not a name in the zone"),
        ("$INCLUDE other", "$INCLUDE is not supported"),
        ("$GENERATE 1-9 a$ CNAME .", "$GENERATE is not supported"),
        ("a CNAME", "not a record"),
        ("a NOSUCH x", "not a record"),
        ("a A 192.0.2", "not a record"),
        ("a ) CNAME .", "not a record"),
        ("a..b CNAME .", "not a domain name"),
    ] {
        let fault = fault(line);
        assert!(fault.contains(words), "{line}: {fault}");
    }
    let open =
        read(ListFormat::Rpz, &format!("a CNAME .\nb ( CNAME .\n{}c CNAME .\n", "x CNAME .\n".repeat(500)));
    let report = open.1.expect("a list");
    assert_eq!(report.first, [(2, LineFault::Zone(ZoneTextFault::TooLong))]);
    let page = read(ListFormat::Rpz, "<html>\n<body>\nSorry\n").1;
    assert!(matches!(page, Err(ListFault::NoList(_))), "{page:?}");
}

/// A random record: owner, and its action.
#[derive(Clone, Debug)]
struct Record {
    is_wildcard: bool,
    name: String,
    target: &'static str,
    is_absolute: bool,
}

fn record() -> impl Strategy<Value = Record> {
    let name = prop::collection::vec("[ab]", 1..4).prop_map(|labels| labels.join("."));
    let target =
        prop_oneof![4 => Just("."), 2 => Just("*."), 2 => Just("rpz-passthru."), 1 => Just("garden.x.")];
    (any::<bool>(), name, target, any::<bool>()).prop_map(|(is_wildcard, name, target, is_absolute)| Record {
        is_wildcard,
        name,
        target,
        is_absolute,
    })
}

impl Record {
    fn line(&self) -> String {
        let Record { is_wildcard, name, target, is_absolute } = self;
        let (star, apex) = (if *is_wildcard { "*." } else { "" }, if *is_absolute { ".rpz.x." } else { "" });
        format!("{star}{name}{apex} CNAME {target}\n")
    }

    fn covers(&self, name: &str) -> bool {
        if self.is_wildcard { name.ends_with(&format!(".{}", self.name)) } else { name == self.name }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]
    #[test]
    fn a_zone_decides_as_its_records_say(
        records in prop::collection::vec(record(), 0..8),
        names in prop::collection::vec(prop::collection::vec("[ab]", 1..5), 1..12),
    ) {
        let lines: String = records.iter().map(Record::line).collect();
        let rules = rules(&format!("$ORIGIN rpz.x.\n@ SOA a. b. 1 2 3 4 5\n{lines}"));
        for labels in names {
            let name = labels.join(".");
            let has = |target: &str| records.iter().any(|record| record.target == target && record.covers(&name));
            // An exempt name is exempt from all; answers come before blocks, and those without records first.
            let wanted = match () {
                () if has("rpz-passthru.") => Outcome::Exempt,
                () if has("*.") => Outcome::NoData,
                () if has("garden.x.") => Outcome::Record(Type::CNAME),
                () if has(".") => Outcome::Blocked,
                () => Outcome::Plain,
            };
            prop_assert_eq!(of(&rules, &format!("{name}.")), wanted, "{} in\n{}", name, lines);
        }
    }
}
