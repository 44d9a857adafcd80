//! The commands of `nomen ctl`.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use crate::support::{APEX, Server, TEST_TIMEOUT, free_address, text, written};

fn server() -> Server {
    let names = "www CNAME ns1\n*.wild TXT \"w\"\nsub NS ns.sub\nns.sub A 192.0.2.9\nloop1 CNAME loop2\n\
                 loop2 CNAME loop1\n";
    Server::start(&format!("{APEX}{names}"), "")
}

#[test]
fn status_and_stats() {
    let server = server();
    server.query(&["www.example"]);
    let status = server.ctl_json(&["status"]);
    assert_eq!(status["zones"]["ok"], 1);
    assert_eq!(status["listeners"].as_array().map(Vec::len), Some(2));
    let stats = text(&server.ctl(&["stats"]).stdout);
    let line = stats.lines().find(|l| l.starts_with("udp.type.A ")).expect("counted");
    assert!(line.ends_with(" 1"), "{line}");
}

#[test]
fn zones_are_listed_dumped_and_reloaded() {
    let server = server();
    let list = text(&server.ctl(&["zone", "list"]).stdout);
    assert!(list.lines().nth(1).is_some_and(|l| l.starts_with("example.  ok")), "{list}");
    assert_eq!(text(&server.ctl(&["zone", "list", "--failed"]).stdout).lines().count(), 1);
    let dump = text(&server.ctl(&["zone", "dump", "example"]).stdout);
    assert!(
        dump.starts_with("example. 60 IN SOA ns1.example. admin.example. 1 3600 600 86400 60\n"),
        "{dump}"
    );
    // The dump is a zone file: it reads back to itself.
    std::fs::write(server.path("dumped"), &dump).expect("written");
    let again = crate::support::run(server.folder.path(), &["zone", "dump", "example", "dumped"]);
    assert_eq!(text(&again.stdout), dump);
    assert!(server.ctl(&["zone", "reload", "example"]).status.success());
    let unknown = server.ctl(&["zone", "status", "nosuch"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert_eq!(text(&unknown.stderr), "nomen: there is no zone nosuch. here\n");
}

#[test]
fn a_misspelt_zone_is_asked_back_for_by_every_command_that_names_one() {
    let server = Server::start_with_folder(&["example.test", "example.org"], "");
    let record = ["set", "WRONG", "x", "A", "192.0.2.1"];
    let all = [
        "status", "reload", "freeze", "thaw", "begin", "diff", "commit", "abort", "write", "remove",
        "refresh",
    ]
    .into_iter()
    .chain(["retransfer", "notify", "dump"]);
    let mut commands: Vec<Vec<&str>> = all.map(|verb| vec![verb, "WRONG"]).collect();
    commands.extend([record.to_vec(), vec!["unset", "WRONG", "x"], vec!["reload", "--force", "WRONG"]]);
    for (wrong, near) in [("Exmaple.test", "example.test."), ("www.example.org.", "example.org.")] {
        for command in &commands {
            let words: Vec<&str> =
                command.iter().map(|word| if *word == "WRONG" { wrong } else { word }).collect();
            let output = server.ctl(&[&["zone"], &words[..]].concat());
            let name = format!("{}.", wrong.trim_end_matches('.').to_lowercase());
            let wanted = format!("nomen: there is no zone {name} here; did you mean \"{near}\"?\n");
            assert_eq!((text(&output.stderr), output.status.code()), (wanted, Some(1)), "{words:?}");
        }
    }
}

#[test]
fn explain_reports_the_steps_and_then_what_a_client_would_get() {
    let server = server();
    // The output of the steps, the response code, and the number of answer records.
    let cases = [
        ("www.example", "A", "CNAME: goes on at ns1.example.", "NOERROR", 2),
        ("a.wild.example", "TXT", "*.wild.example. matches it", "NOERROR", 1),
        ("x.sub.example", "A", "sub.example. is a zone cut", "NOERROR", 0),
        ("nosuch.example", "A", "NXDOMAIN", "NXDOMAIN", 0),
        ("wild.example", "A", "empty non-terminal", "NOERROR", 0),
        ("example", "MX", "NODATA", "NOERROR", 0),
        ("elsewhere.test", "A", "no zone here holds elsewhere.test.", "REFUSED", 0),
        ("loop1.example", "A", "a loop: the chain has been at loop1.example. before", "NOERROR", 2),
        ("example", "AXFR", "a query for it gets REFUSED", "REFUSED", 0),
    ];
    for (name, rtype, step, rcode, answers) in cases {
        let said = text(&server.ctl(&["explain", name, rtype]).stdout);
        assert!(said.contains(step), "{name} {rtype}: {said}");
        assert!(said.contains(&format!("status: {rcode},")), "{name} {rtype}: {said}");
        assert!(said.contains(&format!("ANSWER: {answers},")), "{name} {rtype}: {said}");
        let asked = server.query(&[name, rtype, "+tcp"]);
        let sections = |text: &str| -> Vec<String> {
            let records = text.lines().filter(|line| !line.starts_with(';') && !line.trim().is_empty());
            records
                .filter(|line| line.contains(" IN ") || line.contains("\tIN\t"))
                .map(str::to_owned)
                .collect()
        };
        assert_eq!(sections(&said), sections(&asked), "{name} {rtype}: explained and asked");
    }
}

#[test]
fn bad_requests_are_answered_and_the_server_lives() {
    let server = server();
    for bad in [
        "nonsense\n",
        "{\"verb\":\"fly\"}\n",
        "{\"verb\":\"zone-status\"}\n",
        "\n",
        "{\"verb\":\"explain\",\"name\":\"a..b\",\"rtype\":\"A\"}\n",
    ] {
        let mut stream = UnixStream::connect(server.path("ctl.sock")).expect("connected");
        stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
        stream.write_all(bad.as_bytes()).expect("sent");
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).expect("answered");
        assert!(line.contains("\"ok\":false"), "{bad:?}: {line}");
    }
    let mut stream = UnixStream::connect(server.path("ctl.sock")).expect("connected");
    // Too long a line ends the connection, at the latest when the server has read its limit.
    let _ = stream.write_all(&vec![b'x'; 1 << 20]);
    assert!(server.ctl(&["status"]).status.success());
}

#[test]
fn a_second_server_does_not_take_the_socket() {
    let server = server();
    let config =
        format!("[[listen]]\naddr = [{}]\n[control]\nsocket = \"ctl.sock\"\n", written(free_address()));
    std::fs::write(server.path("second.toml"), config).expect("written");
    let second = crate::support::run(server.folder.path(), &["serve", "--config", "second.toml"]);
    assert_eq!(second.status.code(), Some(3));
    assert!(text(&second.stderr).contains("another nomen already listens"), "{}", text(&second.stderr));
    assert!(server.ctl(&["status"]).status.success());
}

#[test]
fn stop_stops() {
    let mut server = server();
    assert!(server.ctl(&["stop"]).status.success());
    assert!(server.wait().success());
}

#[test]
fn held_control_connections_locked_the_operator_out() {
    let server = Server::start(APEX, "");
    let held: Vec<UnixStream> =
        (0..100).map(|_| UnixStream::connect(server.path("ctl.sock")).expect("connected")).collect();
    let status = server.ctl(&["status"]);
    assert!(status.status.success(), "{}", text(&status.stderr));
    // Connections that were idle for longest are closed; a busy one stays.
    let mut first = &held[0];
    first.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    assert_eq!(std::io::Read::read(&mut first, &mut [0]).expect("the end"), 0);
}
