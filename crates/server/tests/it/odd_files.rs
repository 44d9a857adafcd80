//! Files that are no regular files: where a zone, or what the server keeps, should be.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::Command;

use crate::support::{APEX, Server, free_address, run, text, written};

fn make_fifo(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().expect("mkfifo runs");
    assert!(made.success(), "{}", path.display());
}

#[test]
fn a_zone_file_that_was_no_file_stopped_all_reloads() {
    let odd = "[[zone]]\nname = \"fifo.test\"\nfile = \"fifo\"\n[[zone]]\nname = \"zero.test\"\nfile = \"/dev/zero\"\n\
               [[zone]]\nname = \"sparse.test\"\nfile = \"sparse\"\n";
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), APEX).expect("written");
    make_fifo(&folder.path().join("fifo"));
    let sparse = fs::File::create(folder.path().join("sparse")).expect("made");
    sparse.set_len(10 << 30).expect("set");
    let server = Server::start_at(free_address(), folder, "", odd);
    let fault = |zone: &str| server.ctl_json(&["zone", "status", zone])["fault"].to_string();
    assert!(fault("fifo.test").contains("not a regular file: it is a FIFO"), "{}", fault("fifo.test"));
    assert!(fault("zero.test").contains("not a regular file: it is a device"), "{}", fault("zero.test"));
    assert!(fault("sparse.test").contains("no line ends here"), "{}", fault("sparse.test"));
    server.write("example.zone", &APEX.replace(" 1 ", " 2 "));
    let report = server.reload_badly();
    assert_eq!(report["failed"], 3, "{report}");
    let one = server.ctl(&["zone", "reload", "fifo.test"]);
    assert_eq!(one.status.code(), Some(1), "{}", text(&one.stderr));
    // It is read once it is a file.
    fs::remove_file(server.path("fifo")).expect("removed");
    server.write("fifo", APEX);
    assert!(server.ctl(&["zone", "reload", "fifo.test"]).status.success());
}

#[test]
fn a_zone_larger_than_its_limit_is_not_loaded() {
    let limited = "[[zone]]\nname = \"small.test\"\nfile = \"small\"\nfile-max-size = 1024\n";
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), APEX).expect("written");
    fs::write(folder.path().join("small"), APEX).expect("written");
    let server = Server::start_at(free_address(), folder, "", limited);
    server.write("small", &format!("{APEX}{}", "; a comment\n".repeat(100)));
    let refused = server.ctl(&["zone", "reload", "small.test"]);
    assert!(text(&refused.stderr).contains("the limit is 1024"), "{}", text(&refused.stderr));
    assert_eq!(server.ctl_json(&["zone", "status", "small.test"])["state"], "old");
    server.reconfigure("file-max-size = 1024", "file-max-size = 2048");
    server.reload();
    assert_eq!(server.ctl_json(&["zone", "status", "small.test"])["state"], "ok");
}

#[test]
fn a_fifo_in_the_state_folder_hung_the_start_or_the_stop() {
    let prepared = |name: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        let fifo = folder.path().join("state").join(name);
        let parent = fifo.parent().expect("a folder");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(parent).expect("made");
        fs::write(folder.path().join("example.zone"), APEX).expect("written");
        make_fifo(&fifo);
        folder
    };
    let keys = "state-dir = \"state\"\n";
    let cache = "[resolver]\nvalidate = false\ncache-file = \"state/cache\"\n[[resolver.forward]]\nservers = [\"192.0.2.1\"]\n";
    let locks = ["secondaries/lock", "differences/lock", "catalogs/lock"];
    for name in ["hash-key", "members.json", "cache", "cache.new"].into_iter().chain(locks) {
        let server = Server::start_at(free_address(), prepared(name), keys, cache);
        assert!(server.query(&["example", "SOA"]).contains("NOERROR"), "{name}");
        drop(server.stop());
    }
    // Without these, acknowledged changes or zones would be missing: the server does not start, and says why.
    for name in ["added.toml", "zone-notes", "changes/lock"] {
        let folder = prepared(name);
        let config = format!(
            "[server]\n{keys}[[listen]]\naddr = [{}]\n[control]\nsocket = \"ctl.sock\"\n[[zone]]\nname = \"example\"\n\
             file = \"example.zone\"\n",
            written(free_address())
        );
        fs::write(folder.path().join("nomen.toml"), config).expect("written");
        let output = run(folder.path(), &["serve", "--config", "nomen.toml"]);
        let said = text(&output.stderr);
        assert!(
            !output.status.success() && said.contains("not a regular file: it is a FIFO"),
            "{name}: {said}"
        );
    }
}
