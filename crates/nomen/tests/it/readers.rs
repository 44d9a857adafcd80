//! Output whose reader has closed it, as with `nomen zone dump … | head`: tools end as `cat` does, the server
//! continues.

use std::fs;
use std::io::{PipeWriter, Write, pipe};
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::thread;

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::Signal;

use crate::support::{APEX, Server, free_address, nomen, text, written};

/// Returns a full pipe whose reader is closed: a write does not end before the last copy of its other end is
/// closed, which a child process of another test has until it runs its program.
fn unread() -> PipeWriter {
    let (reader, mut writer) = pipe().expect("a pipe");
    let size = fcntl(&writer, FcntlArg::F_SETPIPE_SZ(1)).expect("set");
    writer.write_all(&vec![0; usize::try_from(size).expect("a size")]).expect("written");
    drop(reader);
    writer
}

const PIPE: Option<i32> = Some(Signal::SIGPIPE as i32);

#[test]
fn tools_whose_output_nobody_reads_end_as_others_do() {
    let server = Server::start(APEX, "");
    let config = "zone \"example\" { type primary; file \"example.zone\"; };\n";
    fs::write(server.path("named.conf"), config).expect("written");
    fs::write(server.path("other.zone"), APEX.replace("admin 1", "admin 2")).expect("written");
    fs::write(server.path("script"), "zone example\nupdate delete x\nshow\n").expect("written");
    let at = format!("@{}@{}", server.address.ip(), server.address.port());
    let all: [&[&str]; 21] = [
        &["check", "nomen.toml"],
        &["check", "--no-zones", "nomen.toml"],
        &["check", "--defaults"],
        &["check", "--print-reference"],
        &["zone", "check", "example", "example.zone"],
        &["zone", "check", "--json", "example", "example.zone"],
        &["zone", "check", "--dnssec", "example", "example.zone"],
        &["zone", "dump", "example", "example.zone"],
        &["zone", "digest", "example", "example.zone"],
        &["zone", "diff", "example", "example.zone", "other.zone"],
        &["query", &at, "example", "SOA"],
        &["query", &at, "example", "SOA", "+short"],
        &["query", &at, "example", "SOA", "+json"],
        &["migrate", "named.conf"],
        &["migrate", "--json", "named.conf"],
        &["update", "script"],
        &["completions", "bash"],
        &["man"],
        &["ctl", "--socket", "ctl.sock", "status"],
        &["ctl", "--socket", "ctl.sock", "zone", "dump", "example"],
        &["ctl", "--socket", "ctl.sock", "explain", "example", "SOA"],
    ];
    for arguments in all {
        let mut command = nomen(arguments);
        let output = command.current_dir(server.folder.path()).stdout(unread()).output().expect("it runs");
        let said = text(&output.stderr);
        assert_eq!(output.status.signal(), PIPE, "{arguments:?}: {:?} {said}", output.status);
        assert!(!said.contains("panicked") && !said.contains("nomen:"), "{arguments:?}: {said}");
    }
}

#[test]
fn tools_whose_errors_nobody_reads_end_as_well() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("bad.zone"), "@ A nonsense\n").expect("written");
    for arguments in [&["zone", "check", "example", "bad.zone"][..], &["ctl", "--socket", "none", "status"]] {
        let mut command = nomen(arguments);
        command.current_dir(folder.path()).stdout(Stdio::null()).stderr(unread());
        assert_eq!(command.status().expect("it runs").signal(), PIPE, "{arguments:?}");
    }
}

#[test]
fn output_that_cannot_be_written_is_a_fault() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), APEX).expect("written");
    fs::write(folder.path().join("nsd.conf"), "zone:\n  name: example\n  zonefile: example.zone\n")
        .expect("written");
    for arguments in [
        &["check", "--defaults"][..],
        &["zone", "check", "example", "example.zone"],
        &["zone", "dump", "example", "example.zone"],
        &["migrate", "nsd.conf"],
        &["completions", "bash"],
        &["man"],
    ] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("opened");
        let output = nomen(arguments).current_dir(folder.path()).stdout(full).output().expect("it runs");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {said}");
        assert!(said.contains("cannot write"), "{arguments:?}: {said}");
    }
}

#[test]
fn a_server_whose_log_nobody_reads_goes_on() {
    let (address, folder) = (free_address(), tempfile::tempdir().expect("a folder"));
    let config = format!(
        "[[listen]]\naddr = [{}]\n[control]\nsocket = \"ctl.sock\"\n[log]\ntarget = \"stdout\"\n\
         queries = true\n[template.folder]\ndirectory = \".\"\n",
        written(address)
    );
    fs::write(folder.path().join("nomen.toml"), config).expect("written");
    fs::write(folder.path().join("example.zone"), APEX).expect("written");
    let mut command = nomen(&["serve", "--config", "nomen.toml"]);
    command.stdin(Stdio::null()).stdout(unread()).stderr(unread());
    let server = Server::start_by(command, address, folder);
    for _ in 0..3 {
        assert_eq!(server.query(&["ns1.example", "A", "+short"]), "192.0.2.1\n");
        server.reload();
    }
    server.stop();
}

#[test]
fn a_server_that_hangs_up_on_ctl_is_no_success() {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = UnixListener::bind(folder.path().join("ctl.sock")).expect("bound");
    // Whether the request still arrives is chance; that there is no answer is not.
    const TIMES: usize = 20;
    let hanging_up =
        thread::spawn(move || (0..TIMES).for_each(|_| drop(listener.accept().expect("a client"))));
    for _ in 0..TIMES {
        let output = crate::support::run(folder.path(), &["ctl", "--socket", "ctl.sock", "status"]);
        let said = text(&output.stderr);
        assert!(
            output.status.code() == Some(3) && said.contains("did not answer"),
            "{:?}: {said}",
            output.status
        );
    }
    hanging_up.join().expect("all were there");
}
