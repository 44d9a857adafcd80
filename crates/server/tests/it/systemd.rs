//! What the service manager hears and does, and the packaged files it does it with.

use std::fs;
use std::path::Path;

use crate::support::{APEX, Server, free_address, run, text};

/// A file of `packaging`.
fn packaged(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name);
    fs::read_to_string(path).expect("a packaged file")
}

#[test]
fn the_service_manager_hears_how_many_zones_there_are() {
    let server = Server::start_with_folder(&["a.test"], "");
    server.write("zones/a.test.zone", "@ A nonsense\n");
    server.signal(nix::sys::signal::Signal::SIGHUP);
    server.wait_for_state("STATUS=serving 2 zones, 1 bad");
    server.write("zones/a.test.zone", APEX);
    server.signal(nix::sys::signal::Signal::SIGHUP);
    server.wait_for_state("STATUS=serving 2 zones");
    server.reconfigure("workers", "wrokers");
    server.signal(nix::sys::signal::Signal::SIGHUP);
    let words = "STATUS=serving 2 zones; the configuration cannot be used, the one before stays";
    server.wait_for_state(words);
}

#[test]
fn the_service_manager_hears_that_the_server_stops() {
    let server = Server::start(APEX, "");
    server.signal(nix::sys::signal::Signal::SIGTERM);
    server.wait_for_state("STATUS=stopping: answering what has arrived");
}

#[test]
fn a_watchdog_is_fed() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), APEX).expect("written");
    let variables = [("WATCHDOG_USEC", "60000")];
    let server = Server::start_with_environment(free_address(), folder, "", "", &variables);
    for _ in 0..3 {
        server.wait_for_state("WATCHDOG=1");
    }
}

#[test]
fn the_packaged_configuration_failed_its_own_check_on_a_new_system() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("nomen.toml"), packaged("nomen.toml")).expect("written");
    // systemd makes these folders before it runs anything.
    let unit = packaged("nomen.service");
    let made = unit.lines().find_map(|line| line.strip_prefix("ConfigurationDirectory=")).expect("folders");
    for name in made.split(' ').filter_map(|path| path.strip_prefix("nomen/")) {
        fs::create_dir(folder.path().join(name)).expect("made");
    }
    let check =
        unit.lines().find_map(|line| line.strip_prefix("ExecStartPre=/usr/bin/nomen ")).expect("a check");
    let arguments: Vec<&str> = check.split(' ').map(|word| word.trim_start_matches("/etc/nomen/")).collect();
    let output = run(folder.path(), &arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn reloading_the_service_succeeded_with_a_bad_zone() {
    let unit = packaged("nomen.service");
    let reload =
        unit.lines().find_map(|line| line.strip_prefix("ExecReload=/usr/bin/nomen ctl ")).expect("nomen ctl");
    let arguments: Vec<&str> = reload.split(' ').collect();
    let server = Server::start_with_folder(&["a.test"], "");
    assert!(server.ctl(&arguments).status.success());
    server.write("zones/a.test.zone", "@ A nonsense\n");
    assert_eq!(server.ctl(&arguments).status.code(), Some(1));
}
