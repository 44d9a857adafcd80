//! What the service manager hears and does, and the packaged files it does it with.

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;

use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use crate::iterate::{in_a_network, inside, ip};
use crate::support::{APEX, PATIENCE, Server, free_address, run, text};

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

/// Applies the address families of a unit to this thread and the processes that it starts, as systemd does: to make a socket of
/// another one fails with EAFNOSUPPORT.
fn restrict_address_families(unit: &str) {
    let families = unit.lines().filter_map(|line| line.strip_prefix("RestrictAddressFamilies="));
    let number = |name| match name {
        "AF_INET" => libc::AF_INET,
        "AF_INET6" => libc::AF_INET6,
        "AF_NETLINK" => libc::AF_NETLINK,
        "AF_UNIX" => libc::AF_UNIX,
        "AF_XDP" => libc::AF_XDP,
        name => panic!("unknown address family {name}"),
    };
    let is_not = |name| {
        let family = u64::try_from(number(name)).expect("a number");
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family).expect("a condition")
    };
    let is_none: Vec<_> = families.flat_map(|names| names.split(' ')).map(is_not).collect();
    assert!(!is_none.is_empty(), "the unit restricts no address families");
    let rule = SeccompRule::new(is_none).expect("a rule");
    let refuse = SeccompAction::Errno(u32::try_from(libc::EAFNOSUPPORT).expect("a number"));
    let arch = std::env::consts::ARCH.try_into().expect("an architecture with filters");
    let rules = BTreeMap::from([(libc::SYS_socket, vec![rule])]);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).expect("a filter");
    let program: BpfProgram = filter.try_into().expect("a program");
    seccompiler::apply_filter(&program).expect("applied");
}

#[test]
fn clients_of_attached_networks_were_refused_under_the_packaged_unit() {
    in_a_network("systemd::inside_clients_of_attached_networks_are_answered_under_the_packaged_unit");
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_clients_of_attached_networks_are_answered_under_the_packaged_unit() {
    inside();
    // On loopback, all addresses of a network are this machine's, and it is attached to that network.
    ip("address add 10.53.7.1/24 dev lo");
    // Without a network, and no longer there when the server reads its interfaces: a client from elsewhere.
    ip("route add local 10.53.8.9/32 dev lo");
    restrict_address_families(&packaged("nomen.service"));
    let folder = tempfile::tempdir().expect("a folder");
    let keys = "[resolver]\nvalidate = false\nroot-servers = [\"10.53.7.2\"]\n";
    let server = Server::start_at(SocketAddr::from(([10, 53, 7, 1], 53)), folder, "", keys);
    let rcode_for = |client: [u8; 4]| {
        let socket = UdpSocket::bind(SocketAddr::from((client, 0))).expect("a socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        let question = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x09localhost\0\0\x01\0\x01";
        socket.send_to(question, server.address).expect("sent");
        let mut reply = [0; 512];
        socket.recv(&mut reply).expect("a reply");
        reply[3] & 15
    };
    assert_eq!(rcode_for([10, 53, 7, 9]), 0, "a client of an attached network");
    assert_eq!(rcode_for([10, 53, 8, 9]), 5, "a client from elsewhere");
}
