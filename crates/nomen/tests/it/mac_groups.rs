//! A group of clients by MAC address, on a link between two network namespaces. Needs root, and is skipped
//! without it. Nothing outside the new namespaces changes.

use std::fs;
use std::process::Command;

use crate::support::text;

/// The server's end of the link has 10.77.0.1, the client's end this MAC address and two addresses, of which
/// the server knows the first when it starts.
const MAC: &str = "02:00:5e:10:00:ff";

/// Status of the script if the system has no such links.
const NO_LINKS: i32 = 77;

/// Makes the link, starts the server, and prints what the client gets. The server ends with the script.
const SCRIPT: &str = r#"
set -e
ip link set lo up
unshare -n sleep 60 & P=$!
N=
trap 'kill $P $N' EXIT
while [ "$(readlink /proc/$P/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do sleep 0.01; done
ip link add v0 type veth peer name v1 || { trap - EXIT; kill $P; exit 77; }
ip link set v1 netns $P
ip addr add 10.77.0.1/24 dev v0
ip link set v0 up
in_client() { nsenter -n -t $P "$@"; }
in_client ip link set v1 address $MAC
in_client ip addr add 10.77.0.2/24 dev v1
in_client ip addr add 10.77.0.3/24 dev v1
in_client ip link set v1 up
ask() { in_client dig +tries=1 +time=60 -b $1 @10.77.0.1 -p $2 blocked.example; }
in_client dig +tries=1 +time=1 -b 10.77.0.2 @10.77.0.1 -p 9 example > nothing || true
$NOMEN serve -c nomen.toml > log 2>&1 & N=$!
i=0
until $NOMEN ctl --socket ctl.sock status > nothing 2>&1; do i=$((i+1)); [ $i -lt 1200 ]; sleep 0.05; done
ask 10.77.0.2 5300
ask 10.77.0.3 5300
$NOMEN ctl --socket ctl.sock policy status
$NOMEN ctl --socket ctl.sock explain host.corp.example --client 10.77.0.2
"#;

#[test]
fn a_host_on_an_attached_link_is_in_the_group_of_its_mac_address() {
    let can = Command::new("unshare").args(["-n", "true"]).output();
    if !can.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: network namespaces need root and the program `unshare`");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let config = format!(
        "[[listen]]\naddr = [\"10.77.0.1@5300\"]\n[control]\nsocket = \"ctl.sock\"\n\
         [resolver]\nlocal-root = false\n[[resolver.access]]\nfrom = [\"10.77.0.0/24\"]\n\
         [[resolver.forward]]\nservers = [\"127.0.0.1@1\"]\n\
         [[resolver.forward]]\ndomain = \"corp.example\"\ngroups = [\"phones\"]\nservers = [\"127.0.0.1@2\"]\n\
         [[policy.list]]\nname = \"blocked\"\nfile = \"blocked\"\n[policy]\nlists = []\n\
         [[policy.group]]\nname = \"phones\"\nfrom = [\"mac:{MAC}\"]\n"
    );
    for (name, contents) in [("nomen.toml", config.as_str()), ("blocked", "blocked.example\n")] {
        fs::write(folder.path().join(name), contents).expect("written");
    }
    let output = Command::new("unshare")
        .args(["-n", "sh", "-c", SCRIPT])
        .current_dir(folder.path())
        .env("NOMEN", env!("CARGO_BIN_EXE_nomen"))
        .env("MAC", MAC)
        .output()
        .expect("the script runs");
    let (said, fault) = (text(&output.stdout), text(&output.stderr));
    if output.status.code() == Some(NO_LINKS) {
        eprintln!("skipped: links of the type veth are not possible here: {fault}");
        return;
    }
    assert!(output.status.success(), "{said}{fault}");
    let answers: Vec<&str> =
        said.matches("status: NXDOMAIN").chain(said.matches("status: SERVFAIL")).collect();
    assert_eq!(answers, ["status: NXDOMAIN", "status: SERVFAIL"], "{said}");
    let [blocked, failed] = ["NXDOMAIN", "SERVFAIL"].map(|code| said.find(code).expect("an answer"));
    assert!(blocked < failed, "the address that the server knows is in the group: {said}");
    assert!(said.contains("group phones; hosts: 10.77.0.2\n"), "{said}");
    assert!(said.contains("the rule of phones for corp.example. covers it"), "{said}");
}
