//! Zones that change: a version made by changes must equal the zone built whole from the same records.

use std::sync::Arc;

use wire::hash::HashedName;
use wire::{LowerName, NameBuf, Serial, Ttl, Type};
use zone::store::{ChangeError, ChangeSet, Node, NodeFlags, Zone, ZoneBuilder, diff};

use crate::choices::Choices;
use crate::data::{HASHES, HOUR, soa};
use crate::sign::MADE;
use crate::zones::{APEXES, chain, record, settle};
use crate::{Chain, ModelRecord, build, key, name};

/// Maximum number of changes of one zone.
const MAX_CHANGES: usize = 24;
/// Maximum number of initial records, not counting those that signing adds.
const MAX_RECORDS: usize = 40;

/// Removed and added records.
#[derive(Clone, Debug, Default)]
struct Step {
    removed: Vec<ModelRecord>,
    added: Vec<ModelRecord>,
}

/// Changes a zone step by step, as long as the choices last. Calls `check` for each step with the version and
/// the zone built whole from the same records, after comparing the two.
///
/// # Panics
/// If a version is not what it should be.
pub fn change_step_by_step(choices: &mut Choices<'_>, check: &mut dyn FnMut(&Arc<Zone>, &Arc<Zone>)) {
    let apex = name(choices.pick(&APEXES)[0]);
    let mut chain = chain(choices);
    let mut unsigned = first_records(choices, apex);
    let served = settle(apex, unsigned.clone(), chain.as_ref());
    let mut whole = Arc::new(build(apex.as_name(), &key(), &served));
    let mut version = Arc::clone(&whole);
    for _ in 0..MAX_CHANGES {
        if choices.is_over() {
            return;
        }
        let records = records(&whole);
        let step = match choices.below(4) {
            0 => random_step(choices, apex, &records),
            kind => {
                if kind == 1 && choices.one_in(8) {
                    chain = self::chain(choices);
                }
                signed_step(choices, apex, &mut unsigned, &records, chain.as_ref())
            }
        };
        let Some((next, made)) = take(&version, &whole, &step) else { continue };
        (version, whole) = (Arc::new(next), Arc::new(made));
        assert_same(&version, &whole);
        if choices.one_in(6) {
            version = Arc::new(version.folded().expect("a zone"));
            assert_eq!(version.overlay_size().nodes, 0);
            assert_same(&version, &whole);
        }
        check(&version, &whole);
    }
}

/// Makes the records of a zone, unsigned ones and others.
fn first_records(choices: &mut Choices<'_>, apex: NameBuf) -> Vec<ModelRecord> {
    let mut records = vec![
        ModelRecord { owner: apex, rtype: Type::SOA, ttl: HOUR, rdata: soa(apex.as_name(), 1) },
        ModelRecord {
            owner: apex,
            rtype: Type::NS,
            ttl: HOUR,
            rdata: name("ns.elsewhere.").as_name().as_wire().to_vec(),
        },
    ];
    for _ in 0..choices.below(MAX_RECORDS) {
        let new = record(choices, apex);
        if is_sound(apex, [&records[..], std::slice::from_ref(&new)].concat()) {
            records.push(new);
        }
    }
    records
}

/// Makes a zone without the records that signing makes.
pub fn unsigned_zone(choices: &mut Choices<'_>) -> Zone {
    let apex = name(choices.pick(&APEXES)[0]);
    let mut records = first_records(choices, apex);
    records.retain(|record| !MADE.contains(&record.rtype));
    build(apex.as_name(), &key(), &records)
}

/// Makes a change of an unsigned zone, which may add records that signing makes. Returns it with the version
/// that it leads to without these; `None` if there is none.
pub fn unsigned_change(choices: &mut Choices<'_>, zone: &Zone) -> Option<(ChangeSet, Zone)> {
    let apex = zone.apex_node().written_owner();
    let mut step = random_step(choices, apex, &records(zone));
    let (odd, other_minimum) = (choices.one_in(10), choices.one_in(2));
    for soa in step.added.iter_mut().filter(|record| odd && record.rtype == Type::SOA) {
        match soa.rdata.last_mut() {
            Some(minimum) if other_minimum => *minimum ^= 1,
            _ => soa.ttl = Ttl::from_secs(soa.ttl.as_secs() ^ 4000),
        }
    }
    let change = step.change(zone.serial());
    step.added.retain(|record| !MADE.contains(&record.rtype));
    let next = zone.apply(&step.change(zone.serial())).ok()?;
    Some((change, next))
}

/// Returns the version after a step, and the zone built whole; `None` if the step makes no valid zone.
fn take(version: &Zone, whole: &Zone, step: &Step) -> Option<(Zone, Zone)> {
    let change = step.change(version.serial());
    let after = step.applied(&records(whole));
    let mut builder = ZoneBuilder::new(whole.apex().as_name(), &key());
    for record in &after {
        builder.add(record.owner.as_name(), record.rtype, record.ttl, &record.rdata).expect("it fits a zone");
    }
    let made = builder.finish();
    let result = version.apply(&change);
    let Ok(made) = made else {
        // If several errors apply, any of them may be reported.
        assert!(matches!(result, Err(ChangeError::NoSoa | ChangeError::Fault(_))), "{result:?}");
        return None;
    };
    if builder.first_error().is_some() {
        let Err(ChangeError::Fault(fault)) = result else { panic!("not refused: {:?}", builder.notes()) };
        let known = |note: &zone::store::Note| {
            (note.kind, note.owner, note.rtype) == (fault.kind, fault.owner, fault.rtype)
        };
        assert!(builder.notes().iter().any(known), "{fault} is not among {:?}", builder.notes());
        return None;
    }
    let next = result.unwrap_or_else(|error| panic!("{error}: {step:?}"));
    assert_refused(version, step);
    let found = diff(version, &next);
    assert_eq!(found, diff(whole, &made), "what changed");
    assert!(found.before == found.after || found.is_difference_sequence(), "{found:?}");
    let again = version.apply(&found).unwrap_or_else(|error| panic!("{error}: {found:?}"));
    assert!(diff(&next, &again).is_empty());
    let unmade = next.apply(&diff(&next, version)).expect("what was done can be undone");
    assert!(diff(version, &unmade).is_empty());
    Some((next, made))
}

/// Checks that changes that do not belong to this version are refused.
fn assert_refused(version: &Zone, step: &Step) {
    let change = step.change(version.serial());
    let other = ChangeSet { before: Serial(change.before.0.wrapping_add(1)), ..change.clone() };
    assert_eq!(version.apply(&other).err(), Some(ChangeError::OtherVersion(version.serial())));
    let other = ChangeSet { after: Serial(change.after.0.wrapping_add(1)), ..change.clone() };
    assert_eq!(version.apply(&other).err(), Some(ChangeError::OtherResult(change.after)));
    let mut twice = change.clone();
    let Some(ModelRecord { owner, rtype, ttl, rdata }) = step.removed.first().or(step.added.first()) else {
        return;
    };
    match step.removed.is_empty() {
        false => twice.removed.push(owner.as_name(), *rtype, *ttl, rdata),
        true => twice.added.push(owner.as_name(), *rtype, *ttl, rdata),
    }
    let key = match version.apply(&twice) {
        Err(ChangeError::NotThere(key) | ChangeError::AlreadyThere(key)) => key,
        other => panic!("not refused: {other:?}"),
    };
    assert_eq!((key.owner, key.rtype), (*owner, *rtype));
}

impl Step {
    fn change(&self, before: Serial) -> ChangeSet {
        let mut change = ChangeSet { before, after: before, ..ChangeSet::default() };
        for ModelRecord { owner, rtype, ttl, rdata } in &self.removed {
            change.removed.push(owner.as_name(), *rtype, *ttl, rdata);
        }
        for ModelRecord { owner, rtype, ttl, rdata } in &self.added {
            change.added.push(owner.as_name(), *rtype, *ttl, rdata);
            if let (Type::SOA, [.., a, b, c, d, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _]) =
                (*rtype, &rdata[..])
            {
                change.after = Serial(u32::from_be_bytes([*a, *b, *c, *d]));
            }
        }
        change
    }

    /// Returns `records` with this step applied.
    fn applied(&self, records: &[ModelRecord]) -> Vec<ModelRecord> {
        let mut after = records.to_vec();
        for gone in &self.removed {
            let at = after.iter().position(|record| same(record, gone)).expect("what goes is there");
            after.remove(at);
        }
        after.extend_from_slice(&self.added);
        after
    }
}

/// Whether two records are equal except for letter case and TTL.
fn same(a: &ModelRecord, b: &ModelRecord) -> bool {
    let canonical = |record: &ModelRecord| {
        let mut rdata = record.rdata.clone();
        wire::rdata::canonical(record.rtype, &mut rdata);
        rdata
    };
    a.owner == b.owner && a.rtype == b.rtype && canonical(a) == canonical(b)
}

/// Returns the records of a snapshot.
pub fn records(zone: &Zone) -> Vec<ModelRecord> {
    let mut records = Vec::new();
    for node in zone {
        let owner = node.written_owner();
        for set in node.rrsets() {
            let of_type = |rtype| move |rdata| (rtype, rdata);
            let rdatas = set.rdatas().map(of_type(set.rtype()));
            for (rtype, data) in rdatas.chain(set.sig_rdatas().map(of_type(Type::RRSIG))) {
                let mut rdata = Vec::new();
                zone::store::Rdata::copy_to(&data, &mut rdata);
                records.push(ModelRecord { owner, rtype, ttl: data.ttl(), rdata });
            }
        }
    }
    records
}

/// Whether the records make a zone without faults.
fn is_sound(apex: NameBuf, records: Vec<ModelRecord>) -> bool {
    let mut builder = ZoneBuilder::new(apex.as_name(), &key());
    let fits = records.iter().all(|r| builder.add(r.owner.as_name(), r.rtype, r.ttl, &r.rdata).is_ok());
    fits && builder.finish().is_ok() && builder.notes().is_empty()
}

/// Makes a random step: removes some records and adds others. The serial is incremented, most of the time.
fn random_step(choices: &mut Choices<'_>, apex: NameBuf, records: &[ModelRecord]) -> Step {
    let mut step = Step::default();
    let is_soa = |record: &ModelRecord| record.rtype == Type::SOA;
    for _ in 0..choices.below(6) {
        let record = &records[choices.below(records.len())];
        // Sometimes the step removes SOA or NS, which must be refused.
        if (!is_soa(record) || choices.one_in(4)) && !step.removed.iter().any(|gone| same(gone, record)) {
            step.removed.push(record.clone());
        }
    }
    for _ in 0..choices.below(6) {
        let new = match choices.below(4) {
            // A removed record may be added again, with another TTL and letter case.
            0 if !step.removed.is_empty() => {
                let mut again = step.removed[choices.below(step.removed.len())].clone();
                again.ttl = Ttl::from_secs(choices.pick(&[60, 0, 3600]));
                let upper = again.owner.as_name().as_wire().to_ascii_uppercase();
                again.owner = wire::Name::from_wire(&upper).map_or(again.owner, wire::Name::to_buf);
                again
            }
            _ => record(choices, apex),
        };
        let inside = new.owner.as_name().is_at_or_below(apex.as_name());
        let there = |records: &[ModelRecord]| records.iter().any(|record| same(record, &new));
        if inside && !is_soa(&new) && !there(&step.added) && (!there(records) || there(&step.removed)) {
            step.added.push(new);
        }
    }
    if !choices.one_in(4) && !step.removed.iter().any(is_soa) {
        count_up(&mut step, records);
    }
    step
}

/// Increments the serial of the SOA.
fn count_up(step: &mut Step, records: &[ModelRecord]) {
    let Some(old) = records.iter().find(|record| record.rtype == Type::SOA) else { return };
    let mut new = old.clone();
    let at = new.rdata.len() - 20;
    let serial = new.rdata[at..].first_chunk().map_or(0, |serial| u32::from_be_bytes(*serial));
    new.rdata[at..at + 4].copy_from_slice(&serial.wrapping_add(1).to_be_bytes());
    step.removed.push(old.clone());
    step.added.push(new);
}

/// Makes a step in which unsigned records change, and the whole zone is signed again.
fn signed_step(
    choices: &mut Choices<'_>,
    apex: NameBuf,
    unsigned: &mut Vec<ModelRecord>,
    records: &[ModelRecord],
    chain: Option<&Chain>,
) -> Step {
    let whole = build(apex.as_name(), &key(), unsigned);
    let plain = self::records(&whole);
    let after = random_step(choices, apex, &plain).applied(&plain);
    if is_sound(apex, after.clone()) {
        *unsigned = after;
    }
    let signed = build(apex.as_name(), &key(), &settle(apex, unsigned.clone(), chain));
    let signed = self::records(&signed);
    let exact = |a: &ModelRecord, b: &ModelRecord| {
        a.owner.as_name().as_wire() == b.owner.as_name().as_wire()
            && (a.rtype, a.ttl, &a.rdata) == (b.rtype, b.ttl, &b.rdata)
    };
    let without = |these: &[ModelRecord], those: &[ModelRecord]| -> Vec<ModelRecord> {
        these.iter().filter(|record| !those.iter().any(|other| exact(record, other))).cloned().collect()
    };
    Step { removed: without(records, &signed), added: without(&signed, records) }
}

/// Panics if two snapshots differ in anything that affects an answer.
pub fn assert_same(version: &Zone, whole: &Zone) {
    let numbers = |zone: &Zone| {
        let counts = (zone.record_count(), zone.node_count(), zone.iter().count());
        (counts, zone.soa(), zone.negative_ttl(), zone.is_signed(), zone.has_wildcards())
    };
    assert_eq!(numbers(version), numbers(whole));
    let owners: Vec<LowerName<'_>> = whole.iter().map(Node::owner).collect();
    let mut hashed = HashedName::new();
    for (node, other) in version.iter().zip(whole) {
        assert_same_node(version, node, other);
        let owner = other.owner().as_name();
        for label in [None, Some(&b"*"[..]), Some(b"a"), Some(b"zz"), Some(b"\0")] {
            let name = label.map_or(Ok(owner.to_buf()), |label| NameBuf::prepend(label, owner));
            let Ok(name) = name else { continue };
            hashed.set(&key(), name.as_name());
            let find = |zone: &Zone| zone.find(hashed.suffix(0), hashed.hash(0)).map(|node| node.flags());
            assert_eq!(find(version), find(whole), "{name}");
            let [ours, theirs] = [version, whole].map(|zone| {
                zone.nsec().map(|chain| chain.covering(hashed.as_lower()).map(|node| node.owner()))
            });
            assert_eq!(ours, theirs, "{name}");
            // A few of the names that follow: all of them for each name would take the square of their
            // number.
            let at = owners.partition_point(|owner| owner.as_name() < name.as_name());
            let rest = owners[at..].iter().copied().take(3);
            assert!(version.iter_from(name.as_name()).map(Node::owner).take(3).eq(rest), "from {name} on");
        }
    }
    assert_same_hashes(version, whole);
}

fn assert_same_node(version: &Zone, node: Node<'_>, other: Node<'_>) {
    let [ours, theirs] = [node, other].map(|node| (node.owner(), node.flags(), node.rrset_count()));
    assert_eq!(ours, theirs);
    let [ours, theirs] = [node, other].map(Node::written_owner);
    assert_eq!(ours.as_name().as_wire(), theirs.as_name().as_wire(), "letter case");
    for (set, other) in node.rrsets().zip(other.rrsets()) {
        let [ours, theirs] = [set, other].map(|set| {
            let fixups: Vec<_> = set.fixups().collect();
            let targets = set.targets().map(|target| (target.name_at, target.node.map(Node::owner)));
            let hosts = set.hosts().map(|(at, node)| (at, node.owner()));
            let lists = (fixups, targets.collect::<Vec<_>>(), hosts.collect::<Vec<_>>());
            (set.rtype(), set.count(), set.sig_count(), set.has_cased_targets(), lists)
        });
        assert_eq!(ours, theirs, "{node:?}");
        assert_eq!(set.records_and_sigs(), other.records_and_sigs(), "{set:?}");
        for host in set.targets().filter_map(|target| target.node) {
            assert_eq!(Some(host), version.find_name(host.owner().as_name()), "the node in force");
        }
    }
    let hidden = node.flags().contains(NodeFlags::NSEC3_ONLY);
    assert_eq!(version.find_name(node.owner().as_name()), (!hidden).then_some(node));
}

fn assert_same_hashes(version: &Zone, whole: &Zone) {
    let (Some(chain), Some(other)) = (version.nsec3(), whole.nsec3()) else {
        return assert_eq!(version.nsec3().is_some(), whole.nsec3().is_some());
    };
    assert_eq!((chain.iterations(), chain.salt()), (other.iterations(), other.salt()));
    let owners = whole.iter().filter_map(|node| node.owner().labels().next().map(<[u8]>::to_vec));
    for text in owners.chain(HASHES.map(|hash| hash.to_vec())) {
        let Some(hash) = crate::sign::from_base32hex(&text) else { continue };
        let mut near = [hash, hash, hash, [0; 20]];
        near[1][19] ^= 1;
        near[2][0] ^= 0x80;
        for hash in near {
            let [ours, theirs] = [chain, other]
                .map(|chain| (chain.covering(&hash).owner(), chain.matching(&hash).map(Node::owner)));
            assert_eq!(ours, theirs, "{hash:?}");
        }
    }
}
