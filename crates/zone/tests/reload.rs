//! Reads a zone file again after any change: the version made from the differences equals a load from
//! scratch, and the same errors are found at the same places.
//!
//! `PROPTEST_CASES=100000 cargo test -p zone --test reload` runs more cases.

use std::fmt::Write as _;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use proptest::prelude::*;
use testkit::choices::Choices;
use testkit::key;
use testkit::texts::{INCLUDED, Text, edit_step_by_step};
use testkit::versions::assert_same;
use wire::NameBuf;
use zone::load::{LoadError, Loaded, load, reload};
use zone::scan::{Fault, TextSource};
use zone::store::{Zone, diff};
use zone::{LoadConfig, NodeFlags};

/// More bytes than a zone file that is always built as a whole.
const LARGE: usize = 300_000;

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(200)
}

/// Number of cases of each kind.
#[derive(Debug, Default)]
struct Counts {
    good: usize,
    bad: usize,
    warned: usize,
    overlays: usize,
    stepless: usize,
    unchanged: usize,
    nsec3: usize,
    same_serial: usize,
}

fn read(path: &Path, apex: NameBuf, served: Option<&Zone>) -> Result<Loaded, LoadError> {
    let (source, config) = (TextSource::file(path), LoadConfig::default());
    let go_on = |_| ControlFlow::Continue(());
    match served {
        None => load(source, apex.as_name(), &key(), &config, go_on),
        Some(served) => reload(source, apex.as_name(), served, &config, go_on),
    }
}

fn in_words(faults: &[Fault]) -> Vec<String> {
    faults.iter().map(|fault| format!("{:?} {}", fault.severity, fault.pretty())).collect()
}

/// Loads a zone file from scratch and as the next version of `served`, and compares the results. Returns the
/// next version.
fn reloaded(path: &Path, apex: NameBuf, served: &Zone, counts: &mut Counts) -> Option<Zone> {
    match (read(path, apex, None), read(path, apex, Some(served))) {
        (Ok(whole), Ok(next)) => {
            assert_same(&next.zone, &whole.zone);
            assert_eq!(in_words(&next.warnings), in_words(&whole.warnings));
            assert_eq!(next.more_warnings, whole.more_warnings);
            assert_eq!((next.files, next.sources), (whole.files, whole.sources));
            let change = diff(served, &whole.zone);
            if let Some(step) = &next.step {
                assert_eq!(*step, change);
                let applied = served.apply(step).unwrap_or_else(|error| panic!("{error}: {step:?}"));
                assert!(diff(&applied, &whole.zone).is_empty());
            }
            counts.good += 1;
            counts.warned += usize::from(!next.warnings.is_empty());
            counts.stepless += usize::from(next.step.is_none());
            counts.unchanged += usize::from(change.is_empty());
            counts.overlays += usize::from(next.zone.overlay_size().nodes > 0);
            counts.nsec3 += usize::from(next.zone.nsec3().is_some());
            counts.same_serial += usize::from(!change.is_empty() && change.before == change.after);
            Some(next.zone)
        }
        (Err(whole), Err(next)) => {
            assert_eq!(in_words(&next.faults), in_words(&whole.faults));
            assert_eq!((next.more, next.to_string()), (whole.more, whole.to_string()));
            counts.bad += 1;
            None
        }
        (whole, next) => panic!("from scratch {whole:?}, as the next version {next:?}"),
    }
}

fn edit(bytes: &[u8], counts: &mut Counts) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("zone");
    let mut served: Option<Zone> = None;
    edit_step_by_step(&mut Choices::new(bytes), &mut |apex, Text { lines, included }| {
        let text = format!("{}\n;{}", lines.join("\n"), " ".repeat(LARGE));
        fs::write(&path, text).expect("written");
        fs::write(folder.path().join(INCLUDED), included.join("\n")).expect("written");
        let next = match &served {
            None => read(&path, apex, None).ok().map(|loaded| loaded.zone),
            Some(served) => reloaded(&path, apex, served, counts),
        };
        let is_good = next.is_some();
        served = next.or(served.take());
        is_good
    });
}

/// Checks that the property below covers every kind of edit.
#[test]
fn every_kind_of_edit_is_tried() {
    let (mut counts, mut state) = (Counts::default(), 1u64);
    for _ in 0..60 {
        let bytes: Vec<u8> = (0..900)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        edit(&bytes, &mut counts);
    }
    let Counts { good, bad, warned, overlays, stepless, unchanged, nsec3, same_serial } = counts;
    let met = [good, bad, warned, overlays, unchanged, nsec3, same_serial];
    assert!(met.iter().all(|&n| n > 10) && stepless == 0 && good > bad / 2, "{counts:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases()) })]
    #[test]
    fn a_text_read_again_makes_what_a_load_from_scratch_makes(
        bytes in prop_oneof![prop::collection::vec(any::<u8>(), 0..400), prop::collection::vec(any::<u8>(), 0..1200)],
    ) {
        edit(&bytes, &mut Counts::default());
    }
}

/// A zone with `count` hosts, of which those selected by `other` have another address; `order` sorts the
/// lines.
fn hosts(count: u32, serial: u32, other: impl Fn(u32) -> bool) -> Vec<String> {
    let host = |i: u32| format!("h{i:05} AAAA 2001:db8::{:x}\nh{i:05} A 192.0.2.{}", i, u32::from(other(i)));
    let front = format!("$TTL 60\n@ SOA ns admin {serial} 2 3 4 5\n@ NS ns.elsewhere.");
    std::iter::once(front).chain((0..count).map(host)).collect()
}

fn text_of(lines: &[String]) -> String {
    lines.iter().fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "{line}");
        text
    })
}

/// A change of any size results in a version, or in a zone built as a whole without reading the file again.
#[test]
fn much_that_changes_at_once_is_built_whole() {
    let (folder, apex) = (tempfile::tempdir().expect("a folder"), testkit::name("example."));
    let path = folder.path().join("zone");
    let count = 20_000;
    fs::write(&path, text_of(&hosts(count, 1, |_| false))).expect("written");
    let served = read(&path, apex, None).expect("a zone").zone;
    let mut counts = Counts::default();
    for (share, is_version) in [(1000, true), (5, true), (4, false), (1, false)] {
        let mut lines = hosts(count, 2, |i| i % share == 0);
        // One name occurs again, after its other records.
        lines.push("h00003 A 192.0.2.77".to_owned());
        fs::write(&path, text_of(&lines)).expect("written");
        let next = reloaded(&path, apex, &served, &mut counts).expect("a zone");
        assert_eq!(next.overlay_size().nodes > 0, is_version, "one of {share}");
    }
    assert_eq!(counts.stepless, 2);
    // The same lines in reverse order, so that each name has to be looked up.
    let mut lines = hosts(count, 1, |_| false);
    lines[1..].reverse();
    fs::write(&path, text_of(&lines)).expect("written");
    let next = read(&path, apex, Some(&served)).expect("a zone");
    assert_eq!((next.step.expect("a step").is_empty(), next.zone.overlay_size().nodes), (true, 0));
    // Most of the zone is removed.
    fs::write(&path, text_of(&hosts(9_000, 2, |_| false))).expect("written");
    reloaded(&path, apex, &served, &mut counts).expect("a zone");
}

/// A small zone file is built as a whole and compared afterwards.
#[test]
fn any_difference_counts_but_the_order() {
    let apex = testkit::name("example.");
    let read = |records: &str, served: Option<&Zone>| {
        let text = format!("$TTL 60\n@ SOA ns1 admin 1 2 3 4 5\n@ NS ns1\n{records}");
        let (source, config) = (TextSource::bytes("test", text.as_bytes()), LoadConfig::default());
        let go_on = |_| ControlFlow::Continue(());
        match served {
            None => load(source, apex.as_name(), &key(), &config, go_on),
            Some(served) => reload(source, apex.as_name(), served, &config, go_on),
        }
        .expect("a zone")
    };
    let served = read("a A 192.0.2.1\na A 192.0.2.2\nb MX 1 a\n", None).zone;
    let step = |text| read(text, Some(&served)).step.expect("a step");
    assert!(step("b MX 1 a\na A 192.0.2.2\na A 192.0.2.1\n").is_empty());
    for (other, gone, come) in [
        ("a A 192.0.2.1\na A 192.0.2.3\nb MX 1 a\n", 1, 1),
        ("a 61 A 192.0.2.1\na 61 A 192.0.2.2\nb MX 1 a\n", 2, 2),
        ("a A 192.0.2.1\na A 192.0.2.2\nb MX 2 a\n", 1, 1),
        ("a A 192.0.2.1\na A 192.0.2.2\nc MX 1 a\n", 1, 1),
        ("a A 192.0.2.1\na A 192.0.2.2\nB MX 1 a\n", 1, 1),
        ("a A 192.0.2.1\na A 192.0.2.2\nb MX 1 A\n", 1, 1),
        ("a A 192.0.2.1\na A 192.0.2.2\n", 1, 0),
    ] {
        let step = step(other);
        assert_eq!((step.removed.len(), step.added.len()), (gone, come), "{other}");
    }
}

/// All names have the same records, with another order within each RRset: too much differs, but nothing
/// changed.
#[test]
fn records_in_another_order_are_no_change() {
    let (folder, apex) = (tempfile::tempdir().expect("a folder"), testkit::name("example."));
    let path = folder.path().join("zone");
    let text = |one: u8, other: u8| {
        let host = |i| format!("h{i} A 192.0.2.{one}\nh{i} A 192.0.2.{other}");
        let front = "$TTL 60\n@ SOA ns admin 1 2 3 4 5\n@ NS ns.elsewhere.".to_owned();
        text_of(&std::iter::once(front).chain((0..9_000).map(host)).collect::<Vec<_>>())
    };
    fs::write(&path, text(1, 2)).expect("written");
    let served = read(&path, apex, None).expect("a zone").zone;
    fs::write(&path, text(2, 1)).expect("written");
    let next = read(&path, apex, Some(&served)).expect("a zone");
    assert!(next.step.expect("a step").is_empty());
    assert_same(&next.zone, &read(&path, apex, None).expect("a zone").zone);
    assert!(!next.zone.iter().any(|node| node.flags().contains(NodeFlags::OCCLUDED)));
}
