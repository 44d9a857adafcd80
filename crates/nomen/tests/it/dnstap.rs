//! dnstap output, decoded: from a file, and from a socket by a collector.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, SystemTime};

use dnstap::{
    ControlFrame, ControlKind, DnstapFrame, DnstapKind, DnstapMessage, append_control, first_frame,
};
use prost::Message;
use tempfile::TempDir;

use crate::metrics::http;
use crate::support::{APEX, Server, TEST_TIMEOUT, eventually, free_address, nomen, text, written};

const FILE: &str = "[dnstap]\nfile = \"tap\"\nidentity = \"ams1\"\n";
const SOCKET: &str = "[dnstap]\nsocket = \"tap.sock\"\n";

/// Returns the frames of a file, which must be a complete stream.
fn frames(path: &Path) -> Vec<DnstapFrame> {
    let bytes = fs::read(path).expect("the file");
    let mut rest = bytes.as_slice();
    ControlFrame::read(&mut rest).expect("a control frame").expect(ControlKind::Start).expect("START");
    let mut frames = Vec::new();
    while let Some(len) = first_frame(rest) {
        let (frame, behind) = rest.split_at(len);
        frames.push(DnstapFrame::decode(&frame[4..]).expect("a frame of dnstap"));
        rest = behind;
    }
    ControlFrame::read(&mut rest).expect("a control frame").expect(ControlKind::Stop).expect("STOP");
    assert!(rest.is_empty(), "behind STOP stands {rest:?}");
    frames
}

fn messages(path: &Path) -> Vec<DnstapMessage> {
    frames(path).into_iter().map(|frame| *frame.message.expect("a message")).collect()
}

fn kinds(path: &Path) -> Vec<DnstapKind> {
    let mut kinds: Vec<DnstapKind> = messages(path).iter().map(DnstapMessage::kind).collect();
    kinds.sort();
    kinds
}

/// The type, action and match of a policy, by their numbers in `dnstap.proto`.
pub(crate) type TappedPolicy = (String, i32, i32);

/// Returns the query name and the text of `extra` of each frame with a response.
pub(crate) fn extras(path: &Path) -> Vec<(String, Option<String>)> {
    let extra = |frame: DnstapFrame| {
        let message = frame.message.expect("a message").response_message?;
        let end = message[12..].iter().position(|byte| *byte == 0).expect("a root label");
        let name = wire::Name::from_wire(&message[12..=12 + end]).expect("a name").to_string();
        Some((name, frame.extra.map(|extra| String::from_utf8(extra).expect("text"))))
    };
    frames(path).into_iter().filter_map(extra).collect()
}

/// Returns the query name of each response, with the policy that decided it.
pub(crate) fn policies(path: &Path) -> Vec<(String, Option<TappedPolicy>)> {
    let policy = |message: DnstapMessage| {
        let bytes = behind_header(&message.response_message);
        let end = bytes.iter().position(|byte| *byte == 0).expect("a root label");
        let name = wire::Name::from_wire(&bytes[..=end]).expect("a name").to_string();
        let of = message.policy.map(|policy| {
            let of = policy.of.clone().unwrap_or_default();
            (of, policy.action.unwrap_or_default(), policy.matched.unwrap_or_default())
        });
        (name, of)
    };
    messages(path).into_iter().map(policy).collect()
}

/// Returns a message from the question's name on.
fn behind_header(message: &Option<Vec<u8>>) -> &[u8] {
    &message.as_deref().expect("a message")[12..]
}

#[test]
fn a_file_has_what_was_asked_and_answered() {
    let server = Server::start(APEX, FILE);
    let before = SystemTime::now();
    server.query(&["Ns1.example", "A"]);
    server.query(&["nosuch.example", "AAAA", "+tcp"]);
    let address = server.address;
    let folder = server.stop();
    let all = frames(&folder.path().join("tap"));
    let version = format!("nomen {}", env!("CARGO_PKG_VERSION"));
    for frame in &all {
        assert_eq!(frame.identity.as_deref(), Some(b"ams1".as_slice()));
        assert_eq!(frame.version.as_deref(), Some(version.as_bytes()));
    }
    let all: Vec<DnstapMessage> = all.into_iter().map(|frame| *frame.message.expect("a message")).collect();
    // Workers have separate queues: only the messages of one worker are in order.
    let of = |kind, protocol| {
        let mut all =
            all.iter().filter(|message| message.kind() == kind && message.socket_protocol == Some(protocol));
        let one = all.next().unwrap_or_else(|| panic!("no {kind:?} by protocol {protocol}"));
        assert!(all.next().is_none());
        one
    };
    assert_eq!(all.len(), 4);
    let [query, response] = [DnstapKind::AuthQuery, DnstapKind::AuthResponse].map(|kind| of(kind, 1));
    assert!(behind_header(&query.query_message).starts_with(b"\x03Ns1\x07example\0\0\x01\0\x01"));
    assert!(behind_header(&response.response_message).starts_with(b"\x03Ns1\x07example\0\0\x01\0\x01"));
    assert!(query.response_message.is_none() && response.query_message.is_none());
    let at = Some((address.ip(), address.port()));
    for message in [query, response] {
        assert_eq!(
            (message.socket_family, message.query_zone.as_deref()),
            (Some(1), Some(&b"\x07example\0"[..]))
        );
        assert_eq!(end(&message.response_address, message.response_port), at);
        assert_eq!(
            end(&message.query_address, message.query_port).map(|(ip, _)| ip.is_loopback()),
            Some(true)
        );
        let asked = time(message.query_time_sec, message.query_time_nsec).expect("a time");
        assert!(before <= asked && asked <= SystemTime::now(), "{before:?} {asked:?}");
    }
    assert_eq!(query.query_port, response.query_port);
    let answered = time(response.response_time_sec, response.response_time_nsec).expect("a time");
    assert!(Some(answered) >= time(response.query_time_sec, response.query_time_nsec));
    assert_eq!(query.response_time_sec, None);
    // NXDOMAIN, over TCP.
    assert_eq!(of(DnstapKind::AuthResponse, 2).response_message.as_ref().expect("a message")[3] & 15, 3);
}

/// Returns one end of a message.
fn end(address: &Option<Vec<u8>>, port: Option<u32>) -> Option<(IpAddr, u16)> {
    let address: [u8; 4] = address.as_deref()?.try_into().expect("an IPv4 address");
    Some((Ipv4Addr::from(address).into(), u16::try_from(port?).expect("a port")))
}

fn time(seconds: Option<u64>, nanos: Option<u32>) -> Option<SystemTime> {
    Some(SystemTime::UNIX_EPOCH + Duration::new(seconds?, nanos?))
}

#[test]
fn a_file_is_gone_on_with_after_a_restart_and_after_a_crash() {
    let server = Server::start(APEX, FILE);
    server.query(&["ns1.example", "A"]);
    let folder = server.stop();
    let path = folder.path().join("tap");
    assert_eq!(messages(&path).len(), 2);
    let server = Server::start_in(folder, "", FILE);
    server.query(&["ns1.example", "A"]);
    eventually("the frames are written", &server, || server.counter("dnstap.written") == 2);
    let folder = server.kill();
    // A frame cut off by a power failure.
    let mut torn = fs::OpenOptions::new().append(true).open(&path).expect("the file");
    torn.write_all(b"\0\0\x01\0torn").expect("written");
    let server = Server::start_in(folder, "", FILE);
    server.query(&["ns1.example", "A"]);
    let folder = server.stop();
    assert_eq!(messages(&folder.path().join("tap")).len(), 6);
}

#[test]
fn a_file_that_was_moved_away_is_ended_and_another_begun() {
    let server = Server::start(APEX, FILE);
    server.query(&["ns1.example", "A"]);
    fs::rename(server.path("tap"), server.path("tap.1")).expect("moved");
    assert_eq!(server.ctl_json(&["log", "reopen"])["dnstap"], "tap");
    assert_eq!(messages(&server.path("tap.1")).len(), 2, "what was asked before is in the old one");
    server.query(&["ns2.example", "A"]);
    fs::rename(server.path("tap"), server.path("tap.2")).expect("moved");
    server.hang_up();
    assert_eq!(messages(&server.path("tap.2")).len(), 2);
    // The file was not moved, so it is continued.
    server.query(&["ns2.example", "A"]);
    assert!(server.ctl(&["log", "reopen"]).status.success());
    server.query(&["ns2.example", "A"]);
    fs::rename(server.path("tap"), server.path("tap.3")).expect("moved");
    fs::create_dir(server.path("tap")).expect("made");
    let failed = server.ctl(&["log", "reopen"]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(text(&failed.stderr).contains("cannot open the dnstap file"), "{}", text(&failed.stderr));
    server.query(&["ns2.example", "A"]);
    let folder = server.stop();
    assert_eq!(messages(&folder.path().join("tap.3")).len(), 6);
}

#[test]
fn a_file_of_something_else_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("tap"), "options {}").expect("written");
    let config =
        format!("[[listen]]\naddr = [{}]\n[control]\nsocket = \"ctl.sock\"\n{FILE}", written(free_address()));
    fs::write(folder.path().join("nomen.toml"), config).expect("written");
    let mut serve = nomen(&["serve", "--config", "nomen.toml"]);
    let output = serve.current_dir(folder.path()).output().expect("nomen runs");
    assert!(!output.status.success());
    assert!(
        text(&output.stderr).contains("is no dnstap file, and is left alone"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(fs::read_to_string(folder.path().join("tap")).expect("the file"), "options {}");
}

#[test]
fn messages_and_sample_choose_what_is_copied() {
    let chosen = format!("{FILE}messages = [\"auth-response\"]\nsample = 1\n");
    let server = Server::start(APEX, &chosen);
    server.query(&["ns1.example", "A"]);
    server.reconfigure("\"auth-response\"", "\"auth-query\", \"auth-response\"");
    server.reconfigure("sample = 1\n", "sample = 4\n");
    server.reload();
    for _ in 0..200 {
        let sent = crate::support::message(rand(), "ns1.example", 1);
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
        socket.send_to(&sent, server.address).expect("sent");
        socket.recv(&mut [0; 512]).expect("an answer");
    }
    let folder = server.stop();
    let all = messages(&folder.path().join("tap"));
    let ids = |kind: DnstapKind, message: fn(&DnstapMessage) -> &Option<Vec<u8>>| {
        let all = all.iter().filter(|one| one.kind() == kind);
        let mut ids: Vec<(u32, Vec<u8>)> = all
            .map(|one| {
                (one.query_port.expect("a port"), message(one).as_ref().expect("a message")[..2].to_vec())
            })
            .collect();
        ids.sort();
        ids
    };
    let queries = ids(DnstapKind::AuthQuery, |one| &one.query_message);
    let responses = ids(DnstapKind::AuthResponse, |one| &one.response_message);
    // Of 200, one in four: 50 with a margin that chance hardly ever exceeds.
    assert!((15..=95).contains(&queries.len()), "{}", queries.len());
    assert_eq!(responses.len(), queries.len() + 1, "and the one of before");
    assert!(queries.iter().all(|query| responses.contains(query)), "each with its response");
}

/// Returns 16 random bits.
fn rand() -> u16 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0) as u16
}

/// Accepts a connection as a collector, including the handshake.
fn accept(listener: &UnixListener) -> UnixStream {
    let (mut stream, _) = listener.accept().expect("a connection");
    stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    let read = |stream: &mut UnixStream| ControlFrame::read(stream).expect("a control frame");
    read(&mut stream).expect(ControlKind::Ready).expect("READY");
    let mut accept = Vec::new();
    append_control(ControlKind::Accept, &mut accept);
    stream.write_all(&accept).expect("written");
    read(&mut stream).expect(ControlKind::Start).expect("START");
    stream
}

/// Returns the next frame; `None` at STOP.
fn next(stream: &mut UnixStream) -> Option<DnstapMessage> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).expect("a length");
    if length == [0; 4] {
        let mut stop = [0; 8];
        stream.read_exact(&mut stop).expect("a control frame");
        assert_eq!(stop, *b"\0\0\0\x04\0\0\0\x03");
        return None;
    }
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame).expect("a frame");
    Some(*DnstapFrame::decode(frame.as_slice()).expect("a frame of dnstap").message.expect("a message"))
}

#[test]
fn a_collector_that_goes_and_comes_back_misses_nothing_meanwhile() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), APEX).expect("written");
    let path = folder.path().join("tap.sock");
    let metrics = free_address();
    let more = format!("{SOCKET}[metrics]\nlisten = {}\n", written(metrics));
    let server = Server::start_in(folder, "", &more);
    server.wait_for_log("dnstap: cannot write to tap.sock, trying again", 1);
    server.query(&["ns1.example", "A"]);
    let listener = UnixListener::bind(&path).expect("a socket");
    let mut collector = accept(&listener);
    let name = |message: DnstapMessage| {
        let bytes = message.query_message.or(message.response_message).expect("a message");
        String::from_utf8_lossy(&bytes[13..16]).into_owned()
    };
    let names = |collector: &mut UnixStream| [(); 2].map(|()| name(next(collector).expect("a frame")));
    assert_eq!(names(&mut collector), ["ns1", "ns1"], "what was asked before it came");
    server.query(&["ns2.example", "A"]);
    assert_eq!(names(&mut collector), ["ns2", "ns2"]);
    // Frames are counted after they are written, so the collector may be faster.
    eventually("they are counted", &server, || {
        let figures = http(metrics, "GET /metrics");
        ["nomen_dnstap_connected 1", "nomen_dnstap_frames_total 4", "nomen_dnstap_dropped_total 0"]
            .iter()
            .all(|figure| figures.lines().any(|line| line == *figure))
    });
    drop((collector, listener));
    fs::remove_file(&path).expect("removed");
    server.query(&["www.example", "A"]);
    let listener = UnixListener::bind(&path).expect("a socket");
    let mut collector = accept(&listener);
    assert_eq!(names(&mut collector), ["www", "www"], "what was asked while it was away");
    assert_eq!(server.counter("dnstap.dropped"), 0);
    let stopping = std::thread::spawn(move || server.stop());
    assert_eq!(next(&mut collector), None);
    let mut finish = Vec::new();
    append_control(ControlKind::Finish, &mut finish);
    collector.write_all(&finish).expect("written");
    let folder = stopping.join().expect("stopped");
    let log = fs::read_to_string(folder.path().join("log")).expect("the log");
    assert!(!log.contains("was not closed properly"), "{log}");
}

#[test]
fn what_speaks_no_frame_streams_is_no_collector() {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = UnixListener::bind(folder.path().join("tap.sock")).expect("a socket");
    let server = Server::start_in(folder, "", SOCKET);
    let (mut stream, _) = listener.accept().expect("a connection");
    stream.write_all(b"HTTP/1.1 400 Bad Request\r\n").expect("written");
    server.wait_for_log("a data frame came where a control frame should", 1);
    drop(stream);
    accept(&listener);
}

#[test]
fn messages_of_clients_and_of_other_servers_are_told_apart() {
    let upstream = Server::start(&format!("{APEX}www A 192.0.2.80\n"), "");
    let folder = tempfile::tempdir().expect("a folder");
    let resolver = format!(
        "[resolver]\nvalidate = false\nfirst-timeout = \"10s\"\nmin-timeout = \"10s\"\n\
         max-timeout = \"60s\"\nclient-timeout = \"60s\"\n[[resolver.forward]]\nservers = [{}]\n{FILE}",
        written(upstream.address)
    );
    let server = Server::start_in(folder, "", &resolver);
    server.query(&["www.example", "A"]);
    server.query(&["www.example", "A"]);
    let folder = server.stop();
    let path = folder.path().join("tap");
    use DnstapKind::*;
    assert_eq!(
        kinds(&path),
        [ClientQuery, ClientQuery, ClientResponse, ClientResponse, ForwarderQuery, ForwarderResponse]
    );
    let all = messages(&path);
    let of = |kind| all.iter().find(|message| message.kind() == kind).expect("one of this kind");
    let [query, response] = [ForwarderQuery, ForwarderResponse].map(of);
    let at = (upstream.address.ip(), upstream.address.port());
    for message in [query, response] {
        assert_eq!(end(&message.response_address, message.response_port), Some(at));
        assert!(message.query_time_sec.is_some());
    }
    let sent = behind_header(&query.query_message);
    assert!(sent.to_ascii_lowercase().starts_with(b"\x03www\x07example\0"), "{sent:?}");
    // The query that had to wait is complete, with its OPT.
    let additional = |message: &Option<Vec<u8>>| message.as_ref().expect("a message")[11];
    let client: Vec<u8> = all
        .iter()
        .filter(|one| one.kind() == ClientQuery)
        .map(|one| additional(&one.query_message))
        .collect();
    assert_eq!(client, [1, 1]);
    assert_eq!(of(ClientResponse).query_zone, None);
}

#[test]
fn messages_to_other_servers_did_not_have_the_servers_own_address_and_port() {
    // So large that the query is repeated over TCP.
    let long: String = (0..8).map(|i| format!("long TXT \"{i}{}\"\n", "x".repeat(250))).collect();
    let upstream = Server::start(&format!("{APEX}{long}"), FILE);
    let folder = tempfile::tempdir().expect("a folder");
    let resolver = format!(
        "[resolver]\nvalidate = false\nfirst-timeout = \"10s\"\nmin-timeout = \"10s\"\n\
         max-timeout = \"60s\"\nclient-timeout = \"60s\"\n[[resolver.forward]]\nservers = [{}]\n{FILE}",
        written(upstream.address)
    );
    let server = Server::start_in(folder, "", &resolver);
    assert!(server.query(&["long.example", "TXT", "+tcp", "+short"]).contains("\"7xxx"));
    // The upstream's file shows where each query came from.
    let of = |folder: TempDir, kind: DnstapKind| {
        let all = messages(&folder.path().join("tap"));
        let all = all.iter().filter(|message| message.kind() == kind);
        let mut ends: Vec<_> = all
            .map(|message| (message.socket_protocol, end(&message.query_address, message.query_port)))
            .collect();
        ends.sort();
        (folder, ends)
    };
    let (folder, asked) = of(server.stop(), DnstapKind::ForwarderQuery);
    let (_, answered) = of(folder, DnstapKind::ForwarderResponse);
    let (_, came) = of(upstream.stop(), DnstapKind::AuthQuery);
    assert_eq!(
        asked.iter().map(|(protocol, _)| *protocol).collect::<Vec<_>>(),
        [Some(1), Some(2)],
        "{asked:?}"
    );
    assert!(asked.iter().all(|(_, end)| end.is_some()), "{asked:?}");
    assert_eq!((&asked, &answered), (&came, &came));
}

#[test]
fn a_place_for_frames_must_be_given_and_only_one() {
    for (dnstap, words) in [
        ("[dnstap]\n", "[dnstap] has no `socket` and no `file` to write to"),
        ("[dnstap]\nfile = \"a\"\nsocket = \"b\"\n", "frames go to `socket` or to `file`, not to both"),
        ("[dnstap]\nfile = \"a\"\nmessages = [\"auth\"]\n", "auth-query"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("nomen.toml"), dnstap).expect("written");
        let output = crate::support::run(folder.path(), &["check", "nomen.toml"]);
        assert!(!output.status.success());
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(said.contains(words), "{said}");
    }
}
