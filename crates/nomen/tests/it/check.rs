//! `nomen check`: warnings, with positions, about configurations that are allowed but probably not intended.

use std::fs;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::Path;

use crate::activation;
use crate::support::{APEX, Server, free_address, run, text, written};

/// Returns the warnings of a check of this configuration, which must be valid.
fn warnings(folder: &Path, config: &str) -> String {
    fs::write(folder.join("nomen.toml"), config).expect("written");
    let output = run(folder, &["check", "nomen.toml"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{config}{said}");
    said
}

const ANY: &str = "[resolver]\n[[resolver.access]]\nfrom = [\"any\"]\n";

#[test]
fn recursion_open_to_any_address_is_a_warning_with_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |config: &str| warnings(folder.path(), config);
    let said = check(&format!("[[listen]]\naddr = [\"192.0.2.1@53\"]\n{ANY}"));
    assert!(said.starts_with("warning: recursion is open to any address: attackers can use"), "{said}");
    assert!(
        said.contains("--> nomen.toml:5:9") && said.contains("name the networks of the clients"),
        "{said}"
    );
    assert_eq!(check(&format!("[[listen]]\naddr = [\"127.0.0.1@53\"]\n{ANY}")), "");
    // Without [[listen]] the server listens on the sockets of systemd, if there are any.
    let said = check(ANY);
    assert!(said.contains("open to any address, on the sockets that systemd passes: attackers"), "{said}");
    assert_eq!(check("[resolver]\n"), "");
}

#[test]
fn recursion_open_on_passed_sockets_was_not_warned_of_at_the_start() {
    let address = free_address();
    let sockets: [OwnedFd; 2] =
        [UdpSocket::bind(address).expect("bound").into(), TcpListener::bind(address).expect("bound").into()];
    let folder = activation::folder(&[], ANY);
    let command = activation::passing(sockets, "$$", &["serve", "--config", "nomen.toml"]);
    let server = Server::start_by(command, address, folder);
    server.wait_for_log("recursion is open to any address, on the sockets that systemd passes", 1);
}

/// A configuration with a rule of each kind for domains in the zone `corp.example`, with these additional
/// records.
fn rules(folder: &Path, listen: SocketAddr, zone: &str) -> String {
    fs::write(folder.join("corp.zone"), format!("{APEX}www A 192.0.2.80\n{zone}")).expect("written");
    format!(
        "[[listen]]\naddr = [{}]\n[control]\nsocket = \"ctl.sock\"\n\
         [[zone]]\nname = \"corp.example\"\nfile = \"corp.zone\"\n[resolver]\n\
         [[resolver.forward]]\ndomain = \"a.dept.corp.example\"\nservers = [\"192.0.2.1\"]\n\
         [[resolver.stub]]\ndomain = \"lab.corp.example\"\nservers = [\"192.0.2.2\"]\n",
        written(listen)
    )
}

#[test]
fn a_rule_inside_a_zone_that_does_not_delegate_it_never_applied_in_silence() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |zone: &str| warnings(folder.path(), &rules(folder.path(), free_address(), zone));
    let idle = |domain: &str| format!("warning: {domain} is in the zone corp.example., which is served here");
    let said = check("lab A 192.0.2.81\n");
    assert!(
        said.contains(&idle("a.dept.corp.example.")) && said.contains(&idle("lab.corp.example.")),
        "{said}"
    );
    assert!(said.contains("has no delegation for it: the rule never applies"), "{said}");
    assert!(
        said.contains("--> nomen.toml:10:10") && said.contains("delegate the domain by NS records"),
        "{said}"
    );
    // A cut above the first domain, and one at the second.
    assert_eq!(check("dept NS ns.elsewhere.\nlab NS ns.elsewhere.\n"), "");
    // A cut at the first domain, and one below the second.
    assert_eq!(check("a.dept NS ns.elsewhere.\nx.lab NS ns.elsewhere.\n"), "");
    // The closest zone counts.
    fs::write(folder.path().join("inner.zone"), format!("{APEX}x NS ns.elsewhere.\n")).expect("written");
    let inner = "[[zone]]\nname = \"dept.corp.example\"\nfile = \"inner.zone\"\n";
    let config = rules(folder.path(), free_address(), "dept NS ns1\nlab NS ns.elsewhere.\n");
    let said = warnings(folder.path(), &config.replace("[resolver]\n", &format!("{inner}[resolver]\n")));
    assert!(said.contains("a.dept.corp.example. is in the zone dept.corp.example., which"), "{said}");
    assert!(!said.contains("lab.corp.example."), "{said}");
}

#[test]
fn a_rule_that_never_applies_is_logged_at_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let address = free_address();
    let config = rules(folder.path(), address, "lab NS ns.elsewhere.\n");
    fs::write(folder.path().join("nomen.toml"), config).expect("written");
    let log = fs::File::create(folder.path().join("log")).expect("a log");
    let mut command = crate::support::nomen(&["serve", "--config", "nomen.toml"]);
    command.stdout(log.try_clone().expect("the log")).stderr(log);
    let server = Server::start_by(command, address, folder);
    server.wait_for_log("a.dept.corp.example. is in the zone corp.example.", 1);
    assert!(!server.log().contains("lab.corp.example. is in"), "{}", server.log());
}
