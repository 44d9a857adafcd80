//! Folders of zones: a problem of one file only affects the zone of that name, and nothing disappears
//! silently.

use std::fs;
use std::os::unix::fs::symlink;

use crate::support::{APEX, Server, run, text};

fn state(server: &Server, zone: &str) -> String {
    server.ctl_json(&["zone", "status", zone])["state"].as_str().expect("a word").to_owned()
}

fn is_served(server: &Server, zone: &str) -> bool {
    server.query(&[zone, "SOA"]).contains("status: NOERROR")
}

/// Returns names of zones, one file each.
fn names(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("z{i}.test")).collect()
}

fn remove(server: &Server, names: &[String]) {
    names
        .iter()
        .for_each(|name| fs::remove_file(server.path(&format!("zones/{name}.zone"))).expect("removed"));
}

#[test]
fn a_link_that_leads_nowhere_took_its_zone_out_of_service() {
    let server = Server::start_with_folder(&["a.test", "b.test"], "");
    fs::remove_file(server.path("zones/a.test.zone")).expect("removed");
    symlink("/nowhere/a.test.zone", server.path("zones/a.test.zone")).expect("linked");
    let report = server.reload_badly();
    assert_eq!((&report["failed"], &report["removed"]), (&1.into(), &0.into()), "{report}");
    assert!(is_served(&server, "a.test"));
    assert_eq!(state(&server, "a.test"), "old");
}

#[test]
fn zones_were_removed_without_a_word() {
    let server = Server::start_with_folder(&["a.test", "b.test"], "");
    remove(&server, &["a.test".into()]);
    assert_eq!(server.reload()["removed"], 1);
    assert!(!is_served(&server, "a.test") && is_served(&server, "b.test"));
    server.wait_for_log("WARN zone a.test. is removed: zones/a.test.zone is no longer a zone here", 1);
}

#[test]
fn an_empty_folder_took_all_its_zones_out_of_service() {
    let all = names(12);
    let server = Server::start_with_folder(&all.iter().map(String::as_str).collect::<Vec<_>>(), "");
    remove(&server, &all);
    // The same for repeated reloads.
    for _ in 0..2 {
        let report = server.reload_badly();
        assert_eq!((&report["removed"], &report["held_back"]), (&0.into(), &12.into()), "{report}");
        assert_eq!(report["held"], serde_json::json!([{"folder": "zones", "gone": 12, "of": 12}]));
        assert!(all.iter().all(|name| is_served(&server, name)));
    }
    server.wait_for_log("folder zones: no files any more for 12 of 12 zones", 2);
    let held = server.ctl_json(&["status"])["held_back"].clone();
    assert!(held[0].as_str().is_some_and(|text| text.contains("12 of 12 zones")), "{held}");
    // Zones with their own `[[zone]]`, and other folders, are not held back with it.
    fs::remove_file(server.path("example.zone")).expect("removed");
    assert_eq!(server.reload_badly()["removed"], 1);
    let report = server.ctl_json(&["reload", "--force"]);
    assert_eq!((&report["removed"], &report["held_back"]), (&12.into(), &0.into()), "{report}");
    assert!(!is_served(&server, &all[0]));
    assert_eq!(server.ctl_json(&["status"])["held_back"], serde_json::json!([]));
}

#[test]
fn zones_that_were_held_back_go_on_when_their_files_are_back() {
    let all = names(12);
    let server = Server::start_with_folder(&all.iter().map(String::as_str).collect::<Vec<_>>(), "");
    fs::rename(server.path("zones"), server.path("elsewhere")).expect("moved");
    fs::create_dir(server.path("zones")).expect("made");
    server.reload_badly();
    fs::remove_dir(server.path("zones")).expect("removed");
    fs::rename(server.path("elsewhere"), server.path("zones")).expect("moved");
    let report = server.reload();
    assert_eq!((&report["unchanged"], &report["held_back"]), (&13.into(), &0.into()), "{report}");
}

#[test]
fn a_folder_that_is_gone_changes_nothing() {
    let server = Server::start_with_folder(&["a.test"], "");
    fs::rename(server.path("zones"), server.path("elsewhere")).expect("moved");
    let output = server.ctl(&["reload"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("cannot read the folder zones") && said.contains("nomen.toml:"), "{said}");
    assert!(is_served(&server, "a.test"));
}

#[test]
fn few_zones_or_a_small_share_of_them_are_removed_as_ever() {
    let all = names(100);
    let refs: Vec<&str> = all.iter().map(String::as_str).collect();
    let server = Server::start_with_folder(&refs, "max-removed = 0.5\n");
    remove(&server, &all[..40]);
    assert_eq!(server.reload()["removed"], 40);
    // Nine of sixty, then thirty-one of fifty-one.
    remove(&server, &all[40..49]);
    assert_eq!(server.reload()["removed"], 9);
    remove(&server, &all[49..80]);
    assert_eq!(server.reload_badly()["held_back"], 31);
}

#[test]
fn a_file_without_a_zone_name_stopped_the_server() {
    let server = Server::start_with_folder(&["a.test", "bad..name"], "");
    assert!(is_served(&server, "a.test"));
    server.wait_for_log("zones/bad..name.zone is not served: `bad..name` is not a domain name", 1);
    server.write("zones/b.test.zone", APEX);
    let report = server.reload_badly();
    assert_eq!((&report["loaded"], &report["refused"]), (&1.into(), &1.into()), "{report}");
    assert_eq!(report["faults"][0]["file"], "zones/bad..name.zone");
    assert!(is_served(&server, "b.test"));
    let status = server.ctl_json(&["status"]);
    assert!(status["refused"][0].as_str().is_some_and(|text| text.contains("bad..name.zone")), "{status}");
    let checked = run(server.folder.path(), &["check", "nomen.toml"]);
    assert_eq!(checked.status.code(), Some(1));
    assert!(
        text(&checked.stderr).contains("zones/bad..name.zone is not served"),
        "{}",
        text(&checked.stderr)
    );
}

#[test]
fn two_files_for_one_zone_stopped_the_server() {
    let server = Server::start_with_folder(&["a.test", "b.test"], "");
    server.write("zones/A.test.zone", APEX);
    let report = server.reload_badly();
    assert_eq!((&report["unchanged"], &report["failed"]), (&2.into(), &1.into()), "{report}");
    let fault = report["faults"][0]["fault"].as_str().expect("text");
    assert!(fault.contains("zones/A.test.zone and zones/a.test.zone"), "{fault}");
    assert!(is_served(&server, "a.test") && is_served(&server, "b.test"));
    assert_eq!(state(&server, "a.test"), "old");
    fs::remove_file(server.path("zones/A.test.zone")).expect("removed");
    server.reload();
    assert_eq!(state(&server, "a.test"), "ok");
}

#[test]
fn what_editors_leave_behind_became_zones() {
    let server = Server::start_with_folder(&["a.test"], "pattern = \"db.{zone}\"\n");
    for left in
        ["db.a.test", "db.a.test~", "db.a.test.bak", "db.a.test.jnl", "db.a.test.signed", ".db.a.test.swp"]
    {
        server.write(&format!("zones/{left}"), APEX);
    }
    assert_eq!(server.reload()["zones"], 2);
    assert!(is_served(&server, "a.test"));
}

#[test]
fn names_that_are_hardly_meant_are_warned_of_once() {
    let server = Server::start_with_folder(&["backup", "a.test.2024"], "");
    for zone in ["backup", "a.test.2024"] {
        server.wait_for_log(&format!("WARN zone {zone}. comes from the file zones/{zone}.zone"), 1);
    }
    server.reload();
    server.wait_for_log("reloaded", 1);
    assert_eq!(server.log().matches("comes from the file zones/").count(), 2);
}
