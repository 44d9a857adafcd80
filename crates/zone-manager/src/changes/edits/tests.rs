//! Edits beside a model, and beside other jobs of a zone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::ops::ControlFlow;
use std::sync::mpsc::sync_channel;

use proptest::prelude::*;
use update::{SerialPolicy, UpdateLimits, UpdateRequest};
use wire::hash::HashKey;
use zone::LoadConfig;
use zone::scan::TextSource;
use zone::store::diff;

use super::*;
use crate::changes::Job;
use crate::changes::group::{ChangeJob, Course, Decided};
use crate::changes::transactions::CommitOrder;

const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);

fn name(text: &str) -> NameBuf {
    text.parse().expect("a name")
}

fn zone(more: &str) -> Arc<Zone> {
    let text = format!("$TTL 60\n@ SOA ns1 admin 7 2 3 4 5\n@ NS ns1\nns1 A 192.0.2.1\n{more}");
    let (key, source) = (HashKey::new([1, 2, 3]), TextSource::bytes("test", text.as_bytes()));
    let config = LoadConfig::default();
    let apex = name("example.");
    let loaded = zone::load::load(source, apex.as_name(), &key, &config, |_| ControlFlow::Continue(()));
    Arc::new(loaded.expect("a zone").zone)
}

fn by() -> ChangeAuthor {
    ChangeAuthor::Program { token: "test".into(), address: Ipv4Addr::LOCALHOST.into() }
}

fn edit(edits: Vec<RrsetEdit>) -> ZoneEdit {
    ZoneEdit { edits, at_serial: None, by: by() }
}

fn of(owner: &str, rtype: Type, kind: RrsetEditKind) -> RrsetEdit {
    RrsetEdit { owner: name(owner), rtype, kind }
}

fn replace(owner: &str, rtype: Type, ttl: u32, rdatas: &[&[u8]]) -> RrsetEdit {
    let rdatas = rdatas.iter().map(|rdata| rdata.to_vec()).collect();
    of(owner, rtype, RrsetEditKind::Replace { ttl: Ttl::from_secs(ttl), rdatas })
}

fn address(owner: &str, last: u8) -> RrsetEdit {
    replace(owner, Type::A, 60, &[&[192, 0, 2, last]])
}

pub(in super::super) fn job(edit: ZoneEdit, rules: ZoneUpdates) -> ChangeJob {
    let (rules, reply) = (Arc::new(rules), Box::new(|_| ()));
    ChangeJob::Edit(Box::new(EditOrder { edit, rules, reply, _waiting: None }))
}

/// Decides an edit of a zone. Returns the version after it, if it changes something.
fn make(zone: &Arc<Zone>, edit: ZoneEdit) -> Result<Option<Arc<Zone>>, EditFault> {
    let mut course = Course::of(zone, &[job(edit, ZoneUpdates::default())], None, NOW).expect("a course");
    match course.decided.pop() {
        Some(Decided::Edit(Ok(None))) => {
            assert!(course.steps.is_empty() && Arc::ptr_eq(&course.zone, zone), "nothing is stored");
            Ok(None)
        }
        Some(Decided::Edit(Ok(Some((change, records))))) => {
            assert!(change.is_difference_sequence());
            assert_eq!(records, course.zone.record_count());
            assert!(diff(&zone.apply(&change).expect("a version"), &course.zone).is_empty());
            Ok(Some(course.zone))
        }
        Some(Decided::Edit(Err(fault))) => {
            assert!(course.steps.is_empty() && Arc::ptr_eq(&course.zone, zone), "{fault}: nothing is stored");
            Err(fault)
        }
        _ => panic!("an edit"),
    }
}

fn soa(zone: &Zone) -> (Ttl, String) {
    let (ttl, rdata) = soa_of(zone).expect("an SOA");
    let mut text = String::new();
    rdata::write_text(Type::SOA, &rdata, &mut text).expect("text");
    (ttl, text)
}

fn soa_rdata(serial: u32, minimum: u32) -> Vec<u8> {
    let numbers = [serial, 2, 3, 4, minimum].map(u32::to_be_bytes).concat();
    [&b"\x03ns1\x07example\0"[..], b"\x05admin\x07example\0", &numbers].concat()
}

#[test]
fn an_edit_of_the_soa_sets_its_fields_and_the_serial_only_if_it_is_newer() {
    let before = zone("");
    let set = |serial, minimum, ttl| {
        let rdata = soa_rdata(serial, minimum);
        make(&before, edit(vec![replace("example.", Type::SOA, ttl, &[&rdata])])).expect("valid")
    };
    let shown = |zone: Option<Arc<Zone>>| zone.map(|zone| soa(&zone));
    let as_text =
        |ttl, text: &str| Some((Ttl::from_secs(ttl), format!("ns1.example. admin.example. {text}")));
    assert_eq!(shown(set(7, 5, 60)), None, "the same");
    assert_eq!(shown(set(3, 5, 60)), None, "an earlier serial alone changes nothing");
    assert_eq!(shown(set(9, 5, 60)), as_text(60, "9 2 3 4 5"));
    assert_eq!(shown(set(3, 6, 60)), as_text(60, "8 2 3 4 6"));
    assert_eq!(shown(set(20, 6, 61)), as_text(61, "20 2 3 4 6"));
    // With other data, an earlier serial is not taken either.
    let both = vec![replace("example.", Type::SOA, 60, &[&soa_rdata(1, 5)]), address("a.example.", 1)];
    assert_eq!(shown(make(&before, edit(both)).expect("valid")), as_text(60, "8 2 3 4 5"));
}

#[test]
fn what_makes_no_zone_is_refused_with_the_reason() {
    let before = zone("a A 192.0.2.1\nc CNAME a\nd DNAME other.\n");
    let rules = EditRules { updates: &ZoneUpdates::default(), signed_here: false, now: NOW };
    let two_soas = [soa_rdata(9, 5), soa_rdata(9, 6)];
    let two_soas: Vec<&[u8]> = two_soas.iter().map(Vec::as_slice).collect();
    let target: &[u8] = b"\x01x\0";
    let texts: Vec<Vec<u8>> = (0..=255).map(|first| [&[255, first][..], &[b'x'; 254]].concat()).collect();
    let large: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    for (edits, reason) in [
        (vec![replace("a.example.", Type::CNAME, 60, &[target])], "CNAME"),
        (vec![address("c.example.", 1)], "CNAME"),
        (vec![replace("e.example.", Type::CNAME, 60, &[target, b"\x01y\0"])], "CNAME"),
        (vec![replace("e.example.", Type::DNAME, 60, &[target, b"\x01y\0"])], "DNAME"),
        (vec![of("example.", Type::SOA, RrsetEditKind::Delete)], "one SOA"),
        (vec![replace("example.", Type::SOA, 60, &two_soas)], "one SOA"),
        (vec![replace("a.example.", Type::SOA, 60, &[&soa_rdata(9, 5)])], "one SOA"),
        (vec![replace("example.", Type::SOA, 60, &[b"x"])], "example. SOA: the data"),
        (vec![of("example.", Type::NS, RrsetEditKind::Delete)], "NS"),
        (vec![address("example.net.", 1)], "example.net. A: not in the zone"),
        (vec![replace("a.example.", Type::A, 60, &[&[1, 2, 3]])], "a.example. A: the data"),
        (vec![replace("b.example.", Type::TXT, 60, &large)], "does not fit into a message"),
        (vec![of("a.example.", Type::ANY, RrsetEditKind::Delete)], "a.example. ANY"),
        (vec![replace("a.example.", Type::ANY, 60, &[&[1]])], "a.example. ANY"),
        (vec![replace("a.example.", Type::NSEC, 60, &[&[0]])], "type NSEC are made by the signer"),
        (vec![of("a.example.", Type::RRSIG, RrsetEditKind::Delete)], "type RRSIG are made by the signer"),
        // One bad entry spoils all.
        (vec![address("b.example.", 1), address("example.net.", 1)], "not in the zone"),
    ] {
        let wanted = edit(edits);
        let previewed = wanted.preview(&before, rules).expect_err(reason).to_string();
        let fault = make(&before, wanted).expect_err(reason).to_string();
        assert!(fault.contains(reason), "{reason}: {fault}");
        assert_eq!(previewed, fault);
    }
    let other = ZoneEdit { at_serial: Some(Serial(6)), ..edit(vec![address("b.example.", 1)]) };
    assert!(matches!(make(&before, other), Err(EditFault::OtherSerial(Serial(7)))));
    let signed = zone("@ RRSIG SOA 13 1 60 20300101000000 20200101000000 1 @ c2ln\n");
    let fault = make(&signed, edit(vec![address("b.example.", 1)]));
    assert!(matches!(fault, Err(EditFault::SignedElsewhere)), "{fault:?}");
}

#[test]
fn only_the_result_counts_not_the_order_of_entries() {
    let before = zone("a A 192.0.2.1\nc CNAME a\n");
    let forward = vec![
        address("c.example.", 2),
        of("c.example.", Type::CNAME, RrsetEditKind::Delete),
        of("a.example.", Type::A, RrsetEditKind::Delete),
        replace("a.example.", Type::CNAME, 60, &[b"\x01x\0"]),
    ];
    let back: Vec<RrsetEdit> = forward.iter().rev().cloned().collect();
    let made = [forward, back].map(|edits| make(&before, edit(edits)).expect("valid").expect("changed"));
    assert!(diff(&made[0], &made[1]).is_empty());
    assert_eq!(records(&made[0], name("c.example.").as_name(), Type::A)[0].1, [192, 0, 2, 2]);
}

#[test]
fn edits_updates_and_transactions_of_one_group_see_each_other() {
    let before = zone("");
    let update = |last: u8| {
        let mut message = vec![0, 1, 0x28, 0, 0, 1, 0, 0, 0, 1, 0, 0];
        message.extend(b"\x07example\0\0\x06\0\x01");
        message.extend([&b"\x01u\x07example\0\0\x01\0\x01\0\0\0\x3c\0\x04"[..], &[192, 0, 2, last]].concat());
        let request = UpdateRequest::read(&message, UpdateLimits::default()).expect("a request");
        let policy = crate::changes::simulated::everything();
        let rules = Arc::new(ZoneUpdates { policy, ..ZoneUpdates::default() });
        ChangeJob::Update(Box::new(Job {
            apex: name("example.").as_name().into(),
            request,
            rules,
            key: None,
            client: Ipv4Addr::LOCALHOST.into(),
            certificate: None,
            answer: Box::new(|_| ()),
            _waiting: None,
        }))
    };
    let commit = |last: u8| {
        let work = crate::changes::transactions::work_with(&before, "t.example.", [192, 0, 2, last]);
        let (reply, _) = sync_channel(1);
        ChangeJob::Commit(Box::new(CommitOrder { work, rules: Arc::default(), reply }))
    };
    let edit_of = |edits, at: Option<u32>| {
        job(ZoneEdit { at_serial: at.map(Serial), ..edit(edits) }, ZoneUpdates::default())
    };
    let jobs = [
        update(1),
        update(2),
        edit_of(vec![address("u.example.", 3)], Some(9)),
        edit_of(vec![address("e.example.", 1)], Some(9)),
        commit(1),
        edit_of(vec![address("u.example.", 3)], None),
        edit_of(vec![of("t.example.", Type::A, RrsetEditKind::Delete)], Some(11)),
        update(3),
    ];
    let course = Course::of(&before, &jobs, None, NOW).expect("a course");
    let shown = |decided: &Decided| match decided {
        Decided::Edit(Err(fault)) => fault.to_string(),
        decided => decided.change().map_or("nothing".into(), |change| format!("to {}", change.after)),
    };
    let ends: Vec<String> = course.decided.iter().map(shown).collect();
    let other = "the zone has another serial number, 10";
    assert_eq!(ends, ["to 8", "to 9", "to 10", other, "to 11", "nothing", "to 12", "nothing"]);
    let at = |owner: &str| records(&course.zone, name(owner).as_name(), Type::A).len();
    assert_eq!((at("u.example."), at("e.example."), at("t.example.")), (1, 0, 0));
    assert_eq!(course.zone.serial(), Serial(12));
    // A store that fails after so many changes leaves the jobs before.
    let changes: Vec<(u32, u32)> = course.changes().map(|change| (change.before.0, change.after.0)).collect();
    assert_eq!(changes, [(7, 8), (8, 9), (9, 10), (10, 11), (11, 12)]);
    let before = [0, 1, 2, 3, 4, 5].map(|number| course.jobs_before_change(number));
    assert_eq!(before, [0, 1, 2, 4, 6, 8]);
}

/// RRsets by name and type: the TTL, and the data in canonical form.
type Model = BTreeMap<(NameBuf, Type), (Ttl, BTreeSet<Vec<u8>>)>;

fn model_of(zone: &Zone) -> Model {
    let mut model = Model::new();
    for node in zone {
        let owner = node.written_owner();
        for set in node.rrsets().filter(|set| set.rtype() != Type::SOA) {
            let all = records(zone, owner.as_name(), set.rtype());
            let data = all.iter().map(|(_, rdata)| rdata.to_ascii_lowercase()).collect();
            model.insert((owner, set.rtype()), (all[0].0, data));
        }
    }
    model
}

/// Makes an edit in the model. Returns whether the result is a valid zone.
fn edit_model(model: &mut Model, edits: &[RrsetEdit]) -> bool {
    for RrsetEdit { owner, rtype, kind } in edits {
        let of = (*owner, *rtype);
        let lowered = |rdatas: &[Vec<u8>]| rdatas.iter().map(|rdata| rdata.to_ascii_lowercase()).collect();
        match kind {
            RrsetEditKind::Replace { ttl, rdatas } => _ = model.insert(of, (*ttl, lowered(rdatas))),
            RrsetEditKind::Delete => _ = model.remove(&of),
            RrsetEditKind::Extend { rdatas, .. } if rdatas.is_empty() => {}
            RrsetEditKind::Extend { ttl, rdatas } => {
                let (known, data) = model.entry(of).or_insert((Ttl::from_secs(60), BTreeSet::new()));
                // That of the SOA, or of the RRset.
                *known = ttl.unwrap_or(*known);
                if *rtype == Type::CNAME {
                    data.clear();
                    data.extend(rdatas.last().map(|rdata| rdata.to_ascii_lowercase()));
                } else {
                    data.extend(lowered(rdatas));
                }
            }
            RrsetEditKind::Prune { rdatas } => {
                let gone: BTreeSet<Vec<u8>> = lowered(rdatas);
                model.entry(of).and_modify(|(_, data)| data.retain(|rdata| !gone.contains(rdata)));
            }
        }
        if model.get(&of).is_some_and(|(_, data)| data.is_empty()) {
            model.remove(&of);
        }
    }
    let is_alone = |(owner, rtype): &(NameBuf, Type)| {
        *rtype != Type::CNAME || model.keys().filter(|(other, _)| other == owner).count() == 1
    };
    model.contains_key(&(name("example."), Type::NS))
        && model.keys().all(is_alone)
        && model.iter().all(|((_, rtype), (_, data))| *rtype != Type::CNAME || data.len() == 1)
        && !model.contains_key(&(name("example."), Type::CNAME))
}

fn any_edit() -> impl Strategy<Value = RrsetEdit> {
    let owner =
        prop::sample::select(vec!["example.", "a.example.", "A.example.", "b.a.example.", "c.example."]);
    let data = prop::sample::select(vec![(Type::A, 0), (Type::TXT, 1), (Type::CNAME, 2), (Type::NS, 3)]);
    let rdatas = prop::collection::vec(0..3_u8, 0..4);
    let ttl = prop::option::of(prop::sample::select(vec![60, 61]));
    (owner, data, 0..4, rdatas, ttl).prop_map(|(owner, (rtype, form), kind, numbers, ttl)| {
        let rdata = |number: &u8| match form {
            0 => vec![192, 0, 2, *number],
            1 => vec![1, b'0' + number],
            // The letter case of a name does not matter.
            _ => vec![1, [b'x', b'X', b'y'][usize::from(*number)], 0],
        };
        let rdatas: Vec<Vec<u8>> = numbers.iter().map(rdata).collect();
        let ttl = ttl.map(Ttl::from_secs);
        let kind = match kind {
            0 => RrsetEditKind::Replace { ttl: ttl.unwrap_or(Ttl::from_secs(5)), rdatas },
            1 => RrsetEditKind::Delete,
            2 => RrsetEditKind::Extend { ttl, rdatas },
            _ => RrsetEditKind::Prune { rdatas },
        };
        RrsetEdit { owner: name(owner), rtype, kind }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]
    #[test]
    fn random_edits_make_what_the_model_makes(
        all in prop::collection::vec(prop::collection::vec(any_edit(), 0..6), 1..8),
    ) {
        let mut served = zone("a A 192.0.2.1\na A 192.0.2.2\nb.a TXT x\nc CNAME a\n");
        for edits in all {
            let before = model_of(&served);
            let mut wanted = before.clone();
            let is_valid = edit_model(&mut wanted, &edits);
            match make(&served, edit(edits.clone())) {
                Ok(made) => {
                    prop_assert!(is_valid, "{edits:?}");
                    let version = made.as_ref().unwrap_or(&served);
                    prop_assert_eq!(&model_of(version), &wanted);
                    let steps = version.serial().0 - served.serial().0;
                    prop_assert_eq!(steps, u32::from(made.is_some()));
                    prop_assert!(made.is_some() || before == wanted);
                    served = Arc::clone(version);
                }
                Err(fault) => prop_assert!(!is_valid, "{fault}: {edits:?}"),
            }
        }
    }

    /// What a preview shows is what the edit changes, but for the serial number.
    #[test]
    fn a_preview_is_the_change_without_the_serial(edits in prop::collection::vec(any_edit(), 0..6)) {
        let served = zone("a A 192.0.2.1\na A 192.0.2.2\nb.a TXT x\nc CNAME a\n");
        let (wanted, updates) = (edit(edits), ZoneUpdates { serial: SerialPolicy::UnixTime, ..ZoneUpdates::default() });
        let rules = EditRules { updates: &updates, signed_here: false, now: NOW };
        let previewed = wanted.preview(&served, rules);
        match (make(&served, wanted), previewed) {
            (Ok(made), Ok(previewed)) => {
                let change = made.map(|made| diff(&served, &made)).unwrap_or_default();
                let data = |records: &zone::store::ChangedRecords| {
                    records.iter().filter(|record| record.rtype != Type::SOA).map(|record| (record.owner.to_buf(), record.rtype, record.ttl, record.rdata.to_vec())).collect::<BTreeSet<_>>()
                };
                prop_assert_eq!(data(&previewed.removed), data(&change.removed));
                prop_assert_eq!(data(&previewed.added), data(&change.added));
                prop_assert_eq!((previewed.before, previewed.after == served.serial()), (served.serial(), previewed.is_empty()));
            }
            (made, previewed) => prop_assert!(made.is_err() && previewed.is_err()),
        }
    }
}
