//! Tests of catalog zone members, over versions and restarts.

use std::fs;
use std::sync::Arc;

use config::zones::pattern::PathPattern;
use proptest::prelude::*;
use wire::hash::HashKey;
use wire::{Ttl, Type};
use zone::ZoneBuilder;
use zone_plan::{CatalogPlan, DifferenceRule, MemberTemplate, TextRules};

use super::*;

fn apex(text: &str) -> ZoneName {
    apex_of(text).expect("a name")
}

/// Returns a version of a catalog zone. `lines`: an owner below it, and a name, or a text in quotes.
fn version(catalog: &str, lines: &[(&str, &str)]) -> Zone {
    let at: NameBuf = catalog.parse().expect("a name");
    let mut builder = ZoneBuilder::new(at.as_name(), &HashKey::new([1, 2, 3]));
    let mut add = |owner: &str, rtype: Type, rdata: &[u8]| {
        let owner: NameBuf = owner.parse().expect("a name");
        builder.add(owner.as_name(), rtype, Ttl::ZERO, rdata).expect("a record");
    };
    add(catalog, Type::SOA, &[&[0, 0][..], &[0, 0, 0, 1], &[0; 16]].concat());
    add(&format!("version.{catalog}"), Type::TXT, b"\x012");
    for (owner, data) in lines {
        let owner = format!("{owner}.zones.{catalog}");
        match data.strip_prefix('"') {
            Some(text) => add(&owner, Type::TXT, &[&[text.len() as u8], text.as_bytes()].concat()),
            None => add(&owner, Type::PTR, apex(data).as_wire()),
        }
    }
    builder.finish().expect("a zone")
}

fn template(folder: &str) -> Arc<MemberTemplate> {
    let file = PathPattern::parse(&format!("{folder}/{{zone}}"), Path::new("/")).expect("a pattern");
    let differences = DifferenceRule::default();
    Arc::new(MemberTemplate {
        file: Some(file),
        peers: None,
        grants: None,
        queries: None,
        updates: None,
        differences,
        rules: TextRules::default(),
        listing: None,
    })
}

fn plan(catalog: &str) -> CatalogPlan {
    CatalogPlan {
        apex: apex(catalog),
        template: template("plain"),
        groups: HashMap::from([(b"gold"[..].into(), template("gold"))]),
        max_removed: 0.2,
        answers: false,
    }
}

fn membership(catalogs: &[&str], state: Option<&Path>) -> Membership {
    let mut membership = Membership::open(state);
    membership.configure(catalogs.iter().map(|catalog| plan(catalog)).collect());
    membership
}

/// Returns the steps as words: `- zone`, `0 zone` for a reset one, `+ zone file`.
fn words(steps: &MemberSteps) -> Vec<String> {
    let removed = steps.removed.iter().map(|zone| format!("- {}", zone));
    let reset = steps.reset.iter().map(|zone| format!("0 {}", zone));
    let wanted = steps.wanted.iter().map(|zone| format!("+ {} {}", zone.spec.apex, zone.spec.text));
    removed.chain(reset).chain(wanted).collect()
}

fn settled(membership: &mut Membership) -> Vec<String> {
    words(&membership.settle(|zone| *zone == apex("configured."), Removal::HoldBack))
}

fn read(membership: &mut Membership, catalog: &str, lines: &[(&str, &str)]) -> Vec<String> {
    let (name, _) = ViewName::split(catalog).expect("a name");
    membership.read(&apex(catalog), &version(name, lines));
    settled(membership)
}

#[test]
fn members_come_change_and_go() {
    let mut of = membership(&["cat."], None);
    let gold = [("x", "a."), ("y", "b."), ("group.y", "\"gold")];
    assert_eq!(read(&mut of, "cat.", &gold), ["+ a. /plain/a", "+ b. /gold/b"]);
    assert!(read(&mut of, "cat.", &gold).is_empty());
    // Another group means another template, but the same zone.
    assert_eq!(read(&mut of, "cat.", &[("x", "a."), ("y", "b.")]), ["+ b. /plain/b"]);
    // Another label means another zone of the same name.
    assert_eq!(read(&mut of, "cat.", &[("z", "a."), ("y", "b.")]), ["0 a.", "+ a. /plain/a"]);
    assert_eq!(read(&mut of, "cat.", &[("y", "b.")]), ["- a."]);
    of.configure(Vec::new());
    assert_eq!(settled(&mut of), ["- b."]);
}

#[test]
fn members_are_in_the_view_of_their_catalog_zone() {
    let state = tempfile::tempdir().expect("a folder");
    let catalogs = ["cat.", "cat.@inside", "new.@inside"];
    let mut of = membership(&catalogs, Some(state.path()));
    assert_eq!(read(&mut of, "cat.@inside", &[("x", "a.")]), ["+ a.@inside /plain/a"]);
    // The same name outside views, and that of a zone that is configured there, are other zones.
    assert_eq!(read(&mut of, "cat.", &[("y", "a.")]), ["+ a. /plain/a"]);
    let both = [("x", "a."), ("c", "configured.")];
    assert_eq!(read(&mut of, "cat.@inside", &both), ["+ configured.@inside /plain/configured"]);
    assert!(of.status().iter().all(|one| one.conflicts == 0));
    // After a restart they are those of before, and not reset.
    let mut of = membership(&catalogs, Some(state.path()));
    assert!(settled(&mut of).is_empty());
    assert_eq!(of.all().filter(|zone| zone.spec.apex.is_in_view()).count(), 2);
    // A change of ownership is one within the view.
    assert!(read(&mut of, "new.@inside", &[("x", "a.")]).is_empty());
    let moved = read(&mut of, "cat.@inside", &[&both[..], &[("coo.x", "new.")]].concat());
    assert_eq!(moved, ["+ a.@inside /plain/a"]);
    assert_eq!(read(&mut of, "cat.@inside", &[]), ["- configured.@inside"]);
    assert_eq!(of.all().count(), 2);
}

#[test]
fn a_broken_version_changes_nothing_and_is_shown() {
    let mut of = membership(&["cat."], None);
    read(&mut of, "cat.", &[("x", "a.")]);
    assert!(read(&mut of, "cat.", &[("x", "a."), ("x", "b.")]).is_empty());
    let status = of.status().remove(0);
    assert!(status.members == 1 && status.fault.is_some_and(|fault| fault.contains("more than one PTR")));
    assert_eq!(read(&mut of, "cat.", &[("y", "b.")]), ["- a.", "+ b. /plain/b"]);
    assert_eq!(of.status().remove(0).fault, None);
}

#[test]
fn what_is_configured_and_what_another_has_is_listed_in_vain() {
    let mut of = membership(&["one.", "two."], None);
    assert_eq!(read(&mut of, "one.", &[("x", "a."), ("y", "configured.")]), ["+ a. /plain/a"]);
    assert!(read(&mut of, "two.", &[("x", "a.")]).is_empty());
    assert_eq!(of.status().iter().map(|one| one.conflicts).collect::<Vec<_>>(), [1, 1]);
    // When its owner gives the zone up, it moves; with the same label it is not reset.
    let moved = read(&mut of, "one.", &[("x", "a."), ("coo.x", "two.")]);
    assert_eq!(moved, ["+ a. /plain/a"]);
    assert_eq!(of.status().iter().map(|one| one.members).collect::<Vec<_>>(), [0, 1]);
    assert!(read(&mut of, "one.", &[]).is_empty());
}

#[test]
fn too_many_that_go_at_once_are_held_back() {
    let mut of = membership(&["cat."], None);
    let all: Vec<(String, String)> = (0..20).map(|i| (format!("m{i}"), format!("zone{i}."))).collect();
    let lines: Vec<(&str, &str)> = all.iter().map(|(id, zone)| (id.as_str(), zone.as_str())).collect();
    assert_eq!(read(&mut of, "cat.", &lines).len(), 20);
    assert!(read(&mut of, "cat.", &lines[..5]).is_empty());
    assert_eq!(of.status().remove(0).held_back, 15);
    // Members listed meanwhile are added nevertheless.
    assert_eq!(read(&mut of, "cat.", &[&lines[..5], &[("n", "new.")]].concat()), ["+ new. /plain/new"]);
    let forced = of.settle(|_| false, Removal::Force);
    assert_eq!((forced.removed.len(), of.status().remove(0).held_back), (15, 0));
    assert!(read(&mut of, "cat.", &[&lines[..5], &[("n", "new.")]].concat()).is_empty());
}

#[test]
fn too_many_that_are_others_under_their_names_are_held_back() {
    let mut of = membership(&["cat."], None);
    let all: Vec<(String, String)> = (0..20).map(|i| (format!("m{i}"), format!("zone{i}."))).collect();
    let lines: Vec<(&str, &str)> = all.iter().map(|(id, zone)| (id.as_str(), zone.as_str())).collect();
    read(&mut of, "cat.", &lines);
    // A catalog zone that was rebuilt without its old labels: all members would be reset.
    let made_anew: Vec<(String, &str)> = all.iter().map(|(id, zone)| (format!("n{id}"), &**zone)).collect();
    let made_anew: Vec<(&str, &str)> = made_anew.iter().map(|(id, zone)| (&**id, *zone)).collect();
    assert!(read(&mut of, "cat.", &made_anew).is_empty());
    assert_eq!(of.status().remove(0).held_back, 20);
    // Removed members and reset ones count together; new ones are added nevertheless.
    let mixed = [&made_anew[..6], &lines[6..15], &[("new", "new.")]].concat();
    assert_eq!(read(&mut of, "cat.", &mixed), ["+ new. /plain/new"]);
    assert_eq!(of.status().remove(0).held_back, 11);
    let forced = of.settle(|_| false, Removal::Force);
    assert_eq!((forced.removed.len(), forced.reset.len()), (5, 6));
    // The first labels would reset the members again, but they are few.
    let few = [&lines[..4], &made_anew[4..6], &lines[6..15], &[("new", "new.")]].concat();
    assert_eq!(read(&mut of, "cat.", &few).iter().filter(|word| word.starts_with('0')).count(), 4);
}

#[test]
fn a_restart_knows_who_has_which_zone() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = Some(folder.path());
    let mut of = membership(&["one.", "two."], state);
    read(&mut of, "two.", &[("x", "a."), ("group.x", "\"gold")]);
    read(&mut of, "one.", &[("x", "a."), ("y", "b.")]);
    let all =
        |of: &Membership| of.all().map(|zone| format!("{} {}", zone.spec.name(), zone.spec.origin)).collect();
    let before: Vec<String> = all(&of);
    assert_eq!(before, ["a. catalog two.", "b. catalog one."]);
    // Before any version is read, and whichever is read first.
    let mut of = membership(&["one.", "two."], state);
    assert!(settled(&mut of).is_empty());
    assert_eq!(all(&of), before);
    assert!(read(&mut of, "one.", &[("x", "a."), ("y", "b.")]).is_empty());
    // A label that changed in the meantime is detected.
    assert_eq!(read(&mut of, "two.", &[("z", "a."), ("group.z", "\"gold")]), ["0 a.", "+ a. /gold/a"]);
    fs::write(folder.path().join(FILE), "{\"zone\":\n").expect("written");
    let mut of = membership(&["one.", "two."], state);
    assert!(all(&of).is_empty());
    assert_eq!(read(&mut of, "one.", &[("y", "b.")]), ["+ b. /plain/b"], "nothing is reset");
}

fn bytes() -> impl Strategy<Value = Box<[u8]>> {
    prop::collection::vec(any::<u8>(), 1..63).prop_map(Vec::into_boxed_slice)
}

proptest! {
    /// A catalog zone may have any label and any group text.
    #[test]
    fn the_file_reads_back(
        id in bytes(),
        groups in prop::collection::vec(bytes(), 0..3),
        coo in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(FILE);
        let new_owner = coo.then(|| apex("other\\046.cat."));
        let of = MemberOf { catalog: apex("cat."), member: Member { id, groups, new_owner } };
        let members = BTreeMap::from([(apex("a\\000b."), of)]);
        save(&path, &members).expect("written");
        prop_assert_eq!(load(&path).expect("read"), members);
    }
}
