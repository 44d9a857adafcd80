//! The protocol with the service manager, and the packaged unit files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;

use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use crate::iterate::{in_a_network, inside, ip};
use crate::support::{APEX, Server, TEST_TIMEOUT, free_address, run, text};

/// Returns a file of `packaging`.
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
    // systemd creates these folders before it runs anything.
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

/// Applies the address families of a unit to this thread and its child processes, as systemd does: creating a
/// socket of another family fails with EAFNOSUPPORT.
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

/// Returns the system calls of a group, whose name begins with `@`; any other name is a system call.
fn calls_of(name: &str) -> Vec<String> {
    if !name.starts_with('@') {
        return vec![name.to_owned()];
    }
    let mut lines = include_str!("system-calls.txt").lines().skip_while(|line| *line != name);
    assert!(lines.next().is_some(), "unknown group {name}");
    let names = lines.take_while(|line| line.starts_with(' ')).flat_map(str::split_whitespace);
    names.flat_map(calls_of).collect()
}

/// Applies a unit's system call filter to this thread and its child processes, as systemd does: all other
/// calls fail.
fn restrict_system_calls(unit: &str) {
    assert!(
        unit.contains("\nSystemCallErrorNumber=EPERM\n"),
        "the error number of the filter is another one"
    );
    let mut allowed = BTreeSet::from_iter(calls_of("@default"));
    for line in unit.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
        match line.strip_prefix('~') {
            Some(taken) => {
                let taken: Vec<String> = taken.split(' ').flat_map(calls_of).collect();
                allowed.retain(|call| !taken.contains(call));
            }
            None => allowed.extend(line.split(' ').flat_map(calls_of)),
        }
    }
    let compiled = |calls: &[&String]| {
        let rules: Vec<_> = calls.iter().map(|call| serde_json::json!({"syscall": call})).collect();
        let errno = serde_json::json!({"errno": libc::EPERM});
        let filter = serde_json::json!({"unit": {
            "mismatch_action": errno, "match_action": "allow", "filter": rules,
        }});
        let arch = std::env::consts::ARCH.try_into().expect("an architecture with filters");
        seccompiler::compile_from_json(filter.to_string().as_bytes(), arch)
    };
    // The rest are calls of other architectures.
    let known: Vec<&String> = allowed.iter().filter(|call| compiled(&[call]).is_ok()).collect();
    assert!(known.len() > 200, "the unit allows {} system calls", known.len());
    let programs = compiled(&known).expect("a filter");
    seccompiler::apply_filter(&programs["unit"]).expect("applied");
}

#[test]
fn clients_of_attached_networks_were_refused_under_the_packaged_unit() {
    in_a_network("systemd::inside_clients_of_attached_networks_are_answered_under_the_packaged_unit");
}

#[test]
#[ignore = "runs in a network namespace, which the test without `inside_` makes"]
fn inside_clients_of_attached_networks_are_answered_under_the_packaged_unit() {
    inside();
    // On loopback, all addresses of a network belong to this machine, and it is attached to that network.
    ip("address add 10.53.7.1/24 dev lo");
    // Without a network, and removed before the server reads its interfaces: a client from elsewhere.
    ip("route add local 10.53.8.9/32 dev lo");
    // Also belongs to this machine, but to no interface.
    ip("route add local 10.53.9.0/24 dev lo");
    let unit = packaged("nomen.service");
    restrict_address_families(&unit);
    restrict_system_calls(&unit);
    let resolver = "[resolver]\nvalidate = false\nroot-servers = [\"10.53.7.2\"]\n";
    let rcode_for = |client: [u8; 4], server: [u8; 4]| {
        let socket = UdpSocket::bind(SocketAddr::from((client, 0))).expect("a socket");
        socket.set_read_timeout(Some(TEST_TIMEOUT)).expect("set");
        let question = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x09localhost\0\0\x01\0\x01";
        socket.send_to(question, SocketAddr::from((server, 53))).expect("sent");
        let mut reply = [0; 512];
        socket.recv(&mut reply).expect("a reply");
        reply[3] & 15
    };
    let start = |more: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        Server::start_at(SocketAddr::from(([10, 53, 7, 1], 53)), folder, "", &format!("{resolver}{more}"))
    };
    let server = start("");
    assert_eq!(rcode_for([10, 53, 7, 9], [10, 53, 7, 1]), 0, "a client of an attached network");
    assert_eq!(rcode_for([10, 53, 8, 9], [10, 53, 7, 1]), 5, "a client from elsewhere");
    let inside = &server.ctl_json(&["status"])["sandbox"];
    assert!(inside["landlock"].is_u64() && inside["seccomp"] == "yes", "{inside}");
    drop(server.stop());
    // By the interface on which the query arrives.
    let _server = start(
        "[[resolver.access]]\nfrom = [\"any\"]\ninterface = [\"lo\"]\n[[listen]]\n\
         addr = [\"10.53.9.1@53\"]\n",
    );
    assert_eq!(rcode_for([10, 53, 8, 9], [10, 53, 7, 1]), 0, "an address of the interface");
    assert_eq!(rcode_for([10, 53, 8, 9], [10, 53, 9, 1]), 5, "an address of no interface");
}
