//! Starting and stopping.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};

use nix::sys::signal::Signal;

use crate::support::{APEX, PATIENCE, Server, free_port, message, run, text};

#[test]
fn answers_over_udp_and_tcp() {
    let server = Server::start(APEX, "");
    assert_eq!(server.query(&["ns1.example", "A", "+short"]), "192.0.2.1\n");
    assert_eq!(server.query(&["ns1.example", "A", "+short", "+tcp"]), "192.0.2.1\n");
    assert!(server.query(&["nosuch.example"]).contains("status: NXDOMAIN"));
    assert!(server.query(&["elsewhere.test"]).contains("status: REFUSED"));
}

#[test]
fn a_bad_zone_is_servfail_and_others_are_served() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("good.zone"), APEX).expect("written");
    fs::write(folder.path().join("bad.zone"), "@ A nonsense\n").expect("written");
    let server = Server::start_in(folder, "", &[]);
    assert!(server.query(&["good", "SOA"]).contains("status: NOERROR"));
    let answer = server.query(&["bad", "SOA"]);
    assert!(answer.contains("status: SERVFAIL") && answer.contains("EDE: 14 (Not Ready)"), "{answer}");
    assert!(server.log().contains("zone bad. is bad"), "{}", server.log());
}

#[test]
fn strict_refuses_to_start_with_a_bad_zone() {
    let folder = tempfile::tempdir().expect("a folder");
    let port = free_port();
    fs::write(folder.path().join("bad.zone"), "@ A nonsense\n").expect("written");
    let config = format!(
        "[[listen]]\naddr = [\"127.0.0.1@{port}\"]\n[control]\nenable = false\n[template.t]\ndirectory = \".\"\n"
    );
    fs::write(folder.path().join("nomen.toml"), config).expect("written");
    let output = run(folder.path(), &["serve", "--strict", "--config", "nomen.toml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("1 of 1 zones are bad"), "{}", text(&output.stderr));
}

#[test]
fn a_port_in_use_is_one_sentence_with_a_hint() {
    let folder = tempfile::tempdir().expect("a folder");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("its address").port();
    let config =
        format!("[[listen]]\naddr = [\"127.0.0.1@{port}\"]\nproto = [\"tcp\"]\n[control]\nenable = false\n");
    fs::write(folder.path().join("nomen.toml"), config).expect("written");
    let output = run(folder.path(), &["serve", "--config", "nomen.toml"]);
    assert_eq!(output.status.code(), Some(3));
    let said = text(&output.stderr);
    assert!(said.contains(&format!("127.0.0.1:{port}")) && said.contains("hint: "), "{said}");
}

#[test]
fn sigterm_answers_what_arrived_and_ends_well() {
    const QUERIES: u16 = 200;
    let mut server = Server::start(APEX, "");
    let mut stream = TcpStream::connect(server.address).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut framed = Vec::new();
    for id in 0..QUERIES {
        let query = message(id, "ns1.example", 1);
        framed.extend(u16::try_from(query.len()).expect("short").to_be_bytes());
        framed.extend(query);
    }
    stream.write_all(&framed).expect("sent");
    // The first answer shows that the connection was accepted; the signal comes while others are under way.
    let mut head = [0; 2];
    stream.read_exact(&mut head).expect("an answer");
    server.signal(Signal::SIGTERM);
    let mut answers = head.to_vec();
    stream.read_to_end(&mut answers).expect("the rest");
    let mut ids = Vec::new();
    let mut rest = answers.as_slice();
    while let Some((length, more)) = rest.split_first_chunk::<2>() {
        let (answer, more) = more.split_at(usize::from(u16::from_be_bytes(*length)));
        ids.push(u16::from_be_bytes([answer[0], answer[1]]));
        rest = more;
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..QUERIES).collect::<Vec<_>>(), "{}", server.log());
    assert!(server.wait().success());
    assert!(server.log().ends_with("stopped\n"), "{}", server.log());
    assert!(!server.path("ctl.sock").exists(), "the control socket was left behind");
}

#[test]
fn the_built_in_configuration_is_served_without_arguments() {
    // Its port is fixed: where it is taken the start must fail with a sentence, elsewhere it must work.
    let folder = tempfile::tempdir().expect("a folder");
    let free = UdpSocket::bind("127.0.0.1:5300").is_ok() && TcpListener::bind("127.0.0.1:5300").is_ok();
    let mut child = crate::support::nomen(&["serve"])
        .current_dir(folder.path())
        .env("XDG_RUNTIME_DIR", folder.path())
        .env("TMPDIR", folder.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("nomen starts");
    let mut said = String::new();
    let mut out = child.stdout.take().expect("its output");
    if free {
        let mut buf = [0; 4096];
        while !said.contains("Stop with Ctrl-C") {
            let n = out.read(&mut buf).expect("its words");
            assert!(n > 0, "it ended: {said}");
            said += &text(&buf[..n]);
        }
        let answer = run(folder.path(), &["query", "www.example.com", "@127.0.0.1", "-p", "5300", "+short"]);
        child.kill().expect("killed");
        assert_eq!(text(&answer.stdout), "example.com.\n192.0.2.1\n");
        assert!(said.contains("nomen query www") && said.contains("dig @"), "{said}");
    }
    child.wait().expect("ended");
}

#[test]
fn without_its_interface_af_xdp_is_told_and_the_sockets_answer() {
    let more = format!(
        "[[listen]]\naddr = [\"127.0.0.1@{}\"]\nproto = [\"udp\"]\nxdp = \"no-such-card\"\n",
        free_port()
    );
    let server = Server::start(APEX, &more);
    assert_eq!(server.query(&["ns1.example", "A", "+short"]), "192.0.2.1\n");
    let log = server.log();
    assert!(log.contains("no AF_XDP on no-such-card, its queries go through the sockets"), "{log}");
}
