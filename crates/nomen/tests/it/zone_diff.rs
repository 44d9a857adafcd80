//! `nomen zone diff`.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::support::{APEX, Server, run, text};

/// Returns the exit code and the output.
fn diff(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = run(folder, &[&["zone", "diff"], arguments].concat());
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn two_files_are_compared_record_by_record() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
    write("a", &format!("{APEX}www A 192.0.2.80\n"));
    // The same records, written differently.
    write(
        "same",
        &format!(
            "{}www.EXAMPLE. 60 IN A 192.0.2.80\n",
            APEX.replace("@ NS ns1\n@ NS ns2\n", "@ NS ns2\n@ NS ns1\n")
        ),
    );
    write("b", &format!("{}www A 192.0.2.81\n", APEX.replace("admin 1", "admin 2")));
    write("bad", &format!("{APEX}www A 192.0.2.800\n"));
    let diff = |arguments: &[&str]| diff(folder.path(), arguments);
    assert_eq!(diff(&["example", "a", "a"]), (Some(0), String::new(), String::new()));
    let letters = "--- a, serial 1\n+++ same, serial 1\n-www.example. 60 IN A 192.0.2.80\n\
                   +www.EXAMPLE. 60 IN A 192.0.2.80\n";
    assert_eq!(diff(&["example", "a", "same"]), (Some(1), letters.into(), String::new()));
    let expected = "--- a, serial 1\n+++ b, serial 2\n\
                    -example. 60 IN SOA ns1.example. admin.example. 1 3600 600 86400 60\n\
                    +example. 60 IN SOA ns1.example. admin.example. 2 3600 600 86400 60\n\
                    -www.example. 60 IN A 192.0.2.80\n+www.example. 60 IN A 192.0.2.81\n";
    assert_eq!(diff(&["example", "a", "b"]), (Some(1), expected.into(), String::new()));
    let (code, printed, _) = diff(&["example", "a", "b", "--ignore-serial", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    let record = |change, data| json!({"change": change, "name": "www.example.", "ttl": 60, "type": "A", "data": data});
    let expected = json!({
        "zone": "example.", "same": false,
        "before": {"source": "a", "serial": 1}, "after": {"source": "b", "serial": 2},
        "changes": [record("removed", "192.0.2.80"), record("added", "192.0.2.81")],
    });
    assert_eq!((code, report), (Some(1), expected));
    let (code, _, said) = diff(&["example", "a", "bad"]);
    assert!(code == Some(3) && said.contains("bad:7:7: error"), "{code:?} {said}");
    let (code, _, said) = diff(&["example", "a", "nosuch"]);
    assert!(code == Some(3) && said.contains("nosuch"), "{code:?} {said}");
    assert_eq!(diff(&["exa..mple", "a", "b"]).0, Some(2));
    assert_eq!(diff(&["example", "a"]).0, Some(2));
    let (code, _, said) = diff(&["example", "a", "@stored"]);
    assert!(code == Some(3) && said.contains("--config"), "{said}");
}

#[test]
fn a_file_is_compared_with_what_is_served_and_with_what_is_stored() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), APEX).expect("written");
    let server = Server::start_in(folder, "state-dir = \"state\"\n", "allow-update = [\"127.0.0.0/8\"]\n");
    let served =
        |zone: &str| diff(server.folder.path(), &[zone, "example.zone", "@served", "--socket", "ctl.sock"]);
    assert_eq!(served("example").0, Some(0));
    let (code, _, said) = served("elsewhere");
    assert!(code == Some(3) && said.contains("there is no zone elsewhere. here"), "{said}");
    let script = format!(
        "server {}@{}\nzone example\nadd new.example. 5 A 192.0.2.9\n",
        server.address.ip(),
        server.address.port()
    );
    fs::write(server.path("script"), script.replace('@', " ")).expect("written");
    let updated = run(server.folder.path(), &["update", "script"]);
    assert!(updated.status.success(), "{}", text(&updated.stderr));
    let (code, printed, said) = served("example");
    assert!(code == Some(1) && printed.ends_with("+new.example. 5 IN A 192.0.2.9\n"), "{printed}{said}");
    let stored = |folder: &Path| diff(folder, &["example", "example.zone", "@stored", "-c", "nomen.toml"]);
    let (code, _, said) = stored(server.folder.path());
    assert!(code == Some(3) && said.contains("@served"), "{said}");
    let folder = server.stop();
    let (code, again, said) = stored(folder.path());
    assert_eq!((code, again.replace("@stored", "@served")), (Some(1), printed), "{said}");
}
