//! Sections beside a configuration file: precedence, faults and their places, last good versions.

use std::fs;
use std::path::Path;

use super::merge::join_tokens;
use super::*;
use crate::{AcceptedConfig, RejectedConfig, read_with};

/// A configuration file with a database and a resolver.
const FILE: &str =
    "[server]\nstate-dir = \"state\"\n[database]\nurl = \"postgresql://db/nomen\"\n[resolver]\n";

const ADS: &str = "[[policy.list]]\nname = \"ads\"\nfile = \"ads.txt\"\n";
const KIDS: &str = "[[policy.group]]\nname = \"kids\"\nfrom = [\"192.0.2.0/24\"]\nlists = [\"ads\"]\n";
const TOKEN: &str = "[[api.token]]\nname = \"t\"\nhash = \"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"\nrights = [{ right = \"all\" }]\n";

fn section(kind: &str, name: &str, text: &str) -> SharedSection {
    SharedSection { kind: kind.into(), name: name.into(), text: text.into() }
}

fn ads() -> SharedSection {
    section("policy.list", "ads", ADS)
}

fn kept(wanted: Vec<SharedSection>, earlier: Vec<SharedSection>) -> KeptSections {
    KeptSections { number: 1, wanted, earlier }
}

/// Reads a configuration file that ends with this text, as a reload does.
fn read(more: &str, sections: &KeptSections) -> Result<AcceptedConfig, RejectedConfig> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("nomen.toml");
    fs::write(&path, format!("{FILE}{more}")).expect("written");
    read_with(&path, Some(sections))
}

fn good(more: &str, sections: &KeptSections) -> AcceptedConfig {
    read(more, sections).unwrap_or_else(|fault| panic!("{fault}"))
}

/// Kind, name and use of each section.
fn uses(accepted: &AcceptedConfig) -> Vec<(String, SectionUse)> {
    accepted.sections.states().into_iter().map(|state| (state.section.title(), state.used)).collect()
}

/// The names of lists and groups in force.
fn in_force(accepted: &AcceptedConfig) -> Vec<&str> {
    let settings = &accepted.config.settings;
    let lists = settings.lists.iter().map(|list| list.name.value.as_str());
    lists.chain(settings.groups.iter().map(|group| group.name.value.as_str())).collect()
}

#[test]
fn sections_join_the_blocks_of_the_file_which_has_precedence() {
    let own = "[[policy.list]]\nname = \"ads\"\nfile = \"own.txt\"\n";
    let all = kept(vec![section("policy.group", "kids", KIDS), ads()], vec![]);
    let accepted = good("", &all);
    assert_eq!(in_force(&accepted), ["ads", "kids"]);
    let file = accepted.config.settings.lists[0].file.value.clone().expect("a file");
    assert!(file.is_absolute() && file.ends_with("ads.txt"), "{file:?}");
    let accepted = good(own, &all);
    assert!(
        accepted.config.settings.lists[0].file.value.as_ref().is_some_and(|file| file.ends_with("own.txt"))
    );
    assert_eq!(uses(&accepted)[0], ("policy.list \"ads\"".into(), SectionUse::OwnFile));
    assert_eq!(accepted.sources.paths().count(), 1, "sections are no files");
    // Without the resolver, sections about it have no effect.
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("nomen.toml");
    fs::write(&path, FILE.replace("[resolver]\n", "")).expect("written");
    let accepted = read_with(&path, Some(&all)).expect("good");
    assert!(uses(&accepted).iter().all(|(_, used)| *used == SectionUse::NoResolver), "{:?}", uses(&accepted));
}

#[test]
fn a_section_that_cannot_be_used_is_left_out_with_its_place() {
    let bad = section("policy.list", "bad", "# x\n[[policy.list]]\nname = \"bad\"\nurk = 1\n");
    let newer = section("policy.flavor", "x", "[[policy.flavor]]\n");
    let lost = section(
        "policy.group",
        "lost",
        "[[policy.group]]\nname = \"lost\"\nfrom = [\"192.0.2.0/24\"]\nlists = [\"bad\"]\n",
    );
    let accepted = good("", &kept(vec![bad, newer, lost, ads()], vec![]));
    assert_eq!(in_force(&accepted), ["ads"]);
    let faults: Vec<String> =
        uses(&accepted).iter().filter_map(|(_, used)| used.fault().map(str::to_owned)).collect();
    assert!(faults[0].starts_with(
        "database: policy.list \"bad\", line 4, column 1: unknown key `urk` in [[policy.list]]"
    ));
    assert!(faults[1].contains("policy.group \"lost\", line 4, column 10: there is no"), "{faults:?}");
    assert!(faults[2].contains("does not know sections of the kind policy.flavor"), "{faults:?}");
}

#[test]
fn the_last_good_version_stays_in_force() {
    let bad = section("policy.list", "ads", "[[policy.list]]\nname = \"ads\"\nurk = 1\n");
    let group = section("policy.group", "kids", KIDS);
    let accepted = good("", &kept(vec![bad.clone(), group], vec![ads()]));
    assert_eq!(in_force(&accepted), ["ads", "kids"]);
    assert!(matches!(&uses(&accepted)[0].1, SectionUse::LastGood(why) if why.contains("`urk`")));
    // A token does not.
    let token = section("api.token", "t", &TOKEN.replace("sha256:9f", "sha256:xx"));
    let accepted = good("[api]\n", &kept(vec![token], vec![section("api.token", "t", TOKEN)]));
    assert!(accepted.config.settings.api_tokens.is_empty());
    assert!(matches!(&uses(&accepted)[0].1, SectionUse::Unusable(_)));
}

#[test]
fn a_section_that_the_file_needs_stays_in_force_when_it_is_removed() {
    let file = "[policy]\nlists = [\"ads\"]\n";
    let other = section("policy.list", "other", &ADS.replace("ads", "other"));
    let accepted = good(file, &kept(vec![], vec![ads(), other]));
    assert_eq!(in_force(&accepted), ["ads"]);
    assert!(
        matches!(&uses(&accepted)[..], [(_, SectionUse::Needed(why))] if why.contains("nomen.toml:7:10"))
    );
    // Another section names it.
    let group = section("policy.group", "kids", KIDS);
    let accepted = good("", &kept(vec![group], vec![ads()]));
    assert_eq!(in_force(&accepted), ["ads", "kids"]);
    // A list whose name is a part of that name, or of a word of the message, is not brought back.
    let parts =
        ["ad", "ds", "is", "name"].map(|name| section("policy.list", name, &ADS.replace("ads", name)));
    let accepted = good(file, &kept(vec![], [vec![ads()], parts.into()].concat()));
    assert_eq!(in_force(&accepted), ["ads"]);
    // What keys, policies and templates are named by has other forms.
    for (fault, name) in [
        ("there is no key k.example.", "k.example"),
        ("there is no [dnssec-policy.p]", "p"),
        ("there is no template `t`", "t"),
        ("there is no [[zone]] named `rpz.`", "rpz"),
    ] {
        assert!(merge::is_about(fault, name), "{fault}");
    }
    // Nothing has such a list.
    let fault = read(file, &kept(vec![], vec![])).expect_err("no list").to_string();
    assert!(fault.contains("nomen.toml:7:10"), "{fault}");
}

#[test]
fn a_fault_of_the_file_is_not_hidden() {
    let fault = read("[policy]\ntop = -1\n", &kept(vec![ads()], vec![])).expect_err("bad").to_string();
    assert!(fault.contains("nomen.toml:7:7") && !fault.contains("database"), "{fault}");
}

#[test]
fn a_fault_that_a_section_causes_elsewhere_brings_the_earlier_version_back() {
    let zone = "[[zone]]\nname = \"a.example\"\ntemplate = \"x\"\n";
    let with = section("template", "x", "[template.x]\nfile = \"{zone}.zone\"\n");
    let without = section("template", "x", "[template.x]\nallow-transfer = [\"any\"]\n");
    let accepted = good(zone, &kept(vec![without.clone()], vec![with]));
    assert!(matches!(&uses(&accepted)[0].1, SectionUse::LastGood(why) if why.contains("nomen.toml")));
    // A reload is refused without an earlier version; a start goes without the section.
    assert!(read(zone, &kept(vec![without], vec![])).is_err());
}

#[test]
fn a_start_reads_the_file_of_the_state_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("nomen.toml");
    fs::write(&path, FILE).expect("written");
    fs::create_dir(folder.path().join("state")).expect("a folder");
    let read = || crate::read_files(&path);
    assert_eq!(in_force(&read().expect("good")), [""; 0]);
    kept(vec![ads()], vec![]).write(&folder.path().join("state")).expect("written");
    assert_eq!(in_force(&read().expect("good")), ["ads"]);
    assert!(read().expect("good").sections.damage().is_none());
    // A damaged file is as none, with a warning.
    fs::write(folder.path().join("state").join(SECTIONS_FILE), "{").expect("written");
    let accepted = read().expect("good without the sections");
    let damage = accepted.sections.damage().expect("a warning").message.clone();
    assert!(damage.contains("database-sections: it was cut or changed"), "{damage}");
    assert_eq!(in_force(&accepted), [""; 0]);
    // It is also the reason of a fault about what is missing.
    fs::write(&path, format!("{FILE}{KIDS}")).expect("written");
    let faults = read().expect_err("no such list").to_string();
    assert!(faults.contains("\"ads\"") && faults.contains("it was cut or changed"), "{faults}");
}

#[test]
fn tokens_are_joined_without_the_file() {
    let accepted = good("[api]\n", &kept(vec![section("api.token", "t", TOKEN)], vec![]));
    let own = accepted.config.settings.api_tokens.clone();
    let other = section("api.token", "u", &TOKEN.replace("\"t\"", "\"u\"").replace("9f86", "9f87"));
    let same_hash = section("api.token", "v", &TOKEN.replace("\"t\"", "\"v\""));
    let (tokens, states) = join_tokens(own, &kept(vec![other, same_hash, ads()], vec![]), Path::new("/"));
    let names: Vec<&str> = tokens.iter().map(|token| token.name.0.as_str()).collect();
    assert_eq!(names, ["t", "u"]);
    assert!(
        matches!(&states[1].used, SectionUse::Unusable(why) if why.contains("token \"v\", line")),
        "{states:?}"
    );
}
