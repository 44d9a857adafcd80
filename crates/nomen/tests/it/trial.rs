//! `nomen check --system`: the system's prerequisites of a start.

use std::fs;

use crate::support::{free_address, run, text, written};

#[test]
fn what_a_start_needs_of_the_system_is_tried() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = |user: &str, listen: std::net::SocketAddr, metrics: std::net::SocketAddr, log: &str| {
        format!(
            "[server]\n{user}[[listen]]\naddr = [{}]\n[control]\nsocket = \"ctl.sock\"\n[metrics]\n\
             listen = {}\n[log]\ntarget = \"{log}\"\n",
            written(listen),
            written(metrics)
        )
    };
    let check = |config: String| {
        fs::write(folder.path().join("nomen.toml"), config).expect("written");
        assert!(run(folder.path(), &["check", "nomen.toml"]).status.success(), "good in itself");
        let output = run(folder.path(), &["check", "--system", "nomen.toml"]);
        (output.status.code(), text(&output.stderr))
    };
    let free = free_address();
    let good = check(config("", free, free_address(), "nomen.log"));
    assert_eq!(good.0, Some(0), "{}", good.1);
    let _held = std::net::TcpListener::bind(free).expect("free");
    // By default an address may be added later.
    let absent = "192.0.2.77:5300".parse().expect("an address");
    let without_freebind =
        config("", absent, free_address(), "nomen.log").replace("[control]", "freebind = false\n[control]");
    for (config, words) in [
        (
            config("user = \"nosuchuser\"\n", free_address(), free_address(), "nomen.log"),
            "no user `nosuchuser`",
        ),
        (config("", free, free_address(), "nomen.log"), "another socket already listens"),
        (config("", free_address(), free, "nomen.log"), "for metrics"),
        (config("", free_address(), free_address(), "nowhere/nomen.log"), "log folder"),
        (without_freebind, "192.0.2.77"),
    ] {
        let (code, said) = check(config);
        assert!(code == Some(1) && said.contains(words) && said.contains("nomen.toml:"), "{words}: {said}");
    }
}
