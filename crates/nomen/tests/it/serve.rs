//! Starting and stopping.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;

use nix::sys::signal::Signal;

use crate::iterate::{in_a_network, inside, ip};
use crate::metrics::http;
use crate::support::{
    APEX, BUILT_IN_PORT, BuiltIn, Server, TEST_TIMEOUT, free_address, message, run, text, written,
};

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
    let server = Server::start_in(folder, "", "");
    assert!(server.query(&["good", "SOA"]).contains("status: NOERROR"));
    let answer = server.query(&["bad", "SOA"]);
    assert!(answer.contains("status: SERVFAIL") && answer.contains("EDE: 24 (Invalid Data)"), "{answer}");
    server.wait_for_log("zone bad. is bad", 1);
}

#[test]
fn strict_refuses_to_start_with_a_bad_zone() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("bad.zone"), "@ A nonsense\n").expect("written");
    let config = format!(
        "[[listen]]\naddr = [{}]\n[control]\nenable = false\n[template.t]\ndirectory = \".\"\n",
        written(free_address())
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
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), APEX).expect("written");
    let mut server = Server::start_in(folder, "drain = \"1m\"\n", "");
    let mut stream = TcpStream::connect(server.address).expect("connected");
    stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    let mut framed = Vec::new();
    for id in 0..QUERIES {
        let query = message(id, "ns1.example", 1);
        framed.extend(u16::try_from(query.len()).expect("short").to_be_bytes());
        framed.extend(query);
    }
    stream.write_all(&framed).expect("sent");
    // The first answer shows that the connection was accepted; the signal arrives while other queries are in
    // flight.
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
    assert!(!server.path("ctl.sock").exists(), "the control socket was left behind");
}

/// Its port is fixed: where another program uses it the start fails with an error, elsewhere it works.
#[test]
fn the_built_in_configuration_is_served_without_arguments() {
    let _port = BUILT_IN_PORT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(server) = BuiltIn::start(&[]) else { return };
    assert_eq!(server.query("www.example.com", &["+short"]), "example.com.\n192.0.2.1\n");
    let said = &server.greeting;
    assert!(said.contains("nomen query www") && said.contains("dig @"), "{said}");
}

#[test]
fn without_its_interface_af_xdp_is_reported_and_the_sockets_answer() {
    let more = format!(
        "[[listen]]\naddr = [{}]\nproto = [\"udp\"]\nxdp = \"no-such-card\"\n",
        written(free_address())
    );
    let server = Server::start(APEX, &more);
    assert_eq!(server.query(&["ns1.example", "A", "+short"]), "192.0.2.1\n");
    server.wait_for_log("no AF_XDP on no-such-card, its queries go through the sockets", 1);
}

#[test]
fn an_address_that_comes_later_ended_the_start() {
    in_a_network("serve::inside_an_address_that_comes_later_ended_the_start");
}

#[test]
#[ignore = "run in a network namespace by an_address_that_comes_later_ended_the_start"]
fn inside_an_address_that_comes_later_ended_the_start() {
    inside();
    let late = SocketAddr::from(([10, 53, 0, 9], 5300));
    let listen = |freebind| format!("[[listen]]\naddr = [{}]\n{freebind}", written(late));
    let figures = SocketAddr::from(([10, 53, 0, 9], 9153));
    let metrics = |freebind| format!("[metrics]\nlisten = {}\n{freebind}", written(figures));
    let server = Server::start(APEX, &(listen("") + &metrics("")));
    server.wait_for_log("which no interface has yet", 3);
    server.wait_for_log("listening on 10.53.0.9@9153 for metrics, which no interface has yet", 1);
    let ask = ["query", "@10.53.0.9#5300", "ns1.example", "+short", "+tries=1", "+time=60"];
    assert_eq!(run(Path::new("."), &ask).status.code(), Some(3), "there is no route to the address yet");
    ip("address add 10.53.0.9/32 dev lo");
    for more in [&["+notcp"][..], &["+tcp"]] {
        assert_eq!(text(&run(Path::new("."), &[&ask[..], more].concat()).stdout), "192.0.2.1\n");
    }
    assert!(http(figures, "GET /metrics").contains("nomen_build_info"));
    ip("address del 10.53.0.9/32 dev lo");
    let folder = server.stop();
    let config = fs::read_to_string(folder.path().join("nomen.toml")).expect("a configuration");
    let strict = config.replace(&listen(""), &listen("freebind = false\n"));
    assert_ne!(strict, config);
    fs::write(folder.path().join("nomen.toml"), strict).expect("written");
    let output = run(folder.path(), &["serve", "--config", "nomen.toml"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("no interface has this address") && said.contains("`freebind = true`"), "{said}");
    let strict = config.replace(&metrics(""), &metrics("freebind = false\n"));
    assert_ne!(strict, config);
    fs::write(folder.path().join("nomen.toml"), strict).expect("written");
    let output = run(folder.path(), &["serve", "--config", "nomen.toml"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("cannot listen on 10.53.0.9@9153 for metrics"), "{said}");
    assert!(said.contains("`freebind = true` in [metrics]"), "{said}");
}
