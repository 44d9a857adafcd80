//! Signed updates that come again: each is executed once, whatever fudge its sender chooses, also over a stop
//! and a crash of the server.

use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use transfer::tsig::{ResponseError, ResponseVerifier, TsigKey, TsigRcode, find, read_keys, sign_request};
use wire::UnixTime;

use crate::changes::{STATE, folder, record, socket, update_message};
use crate::primary::{KEY_FILE, connect};
use crate::support::{APEX, Server, TEST_TIMEOUT};

const ALLOWED: &str =
    "allow-update = [\"key:transfer.example\"]\n[transfers]\nkey-files = [\"transfer.key\"]\n";
const CLASS_IN: u16 = 1;
const CLASS_ANY: u16 = 255;

fn now() -> UnixTime {
    SystemTime::now().into()
}

fn key() -> TsigKey {
    read_keys(KEY_FILE).expect("a key file").remove(0)
}

/// A signed message, and what verifies its response.
struct Signed {
    message: Vec<u8>,
    verifier: ResponseVerifier,
}

fn sign(key: TsigKey, mut message: Vec<u8>, time: UnixTime) -> Signed {
    let len = message.len();
    message.resize(len + 512, 0);
    let (len, verifier) = sign_request(&Arc::new(key), &mut message, len, time).expect("there is room");
    message.truncate(len);
    Signed { message, verifier }
}

/// An update that adds a name.
fn adds(owner: &str) -> Vec<u8> {
    update_message(7, "example", &[record(owner, 1, CLASS_IN, 60, &[192, 0, 2, 80])])
}

/// An update that removes the addresses of a name.
fn removes(owner: &str) -> Vec<u8> {
    update_message(8, "example", &[record(owner, 1, CLASS_ANY, 0, &[])])
}

/// Sends a message over UDP. Returns the reply.
fn over_udp(server: SocketAddr, message: &[u8]) -> Vec<u8> {
    let socket = socket(server);
    socket.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    socket.send(message).expect("sent");
    let mut reply = vec![0; 4096];
    let len = socket.recv(&mut reply).expect("a reply");
    reply.truncate(len);
    reply
}

/// Sends a message over TCP. Returns the reply.
fn over_tcp(server: SocketAddr, message: &[u8]) -> Vec<u8> {
    let mut stream = connect(server).expect("a connection");
    let framed = [&(message.len() as u16).to_be_bytes(), message].concat();
    stream.write_all(&framed).expect("sent");
    let mut len = [0; 2];
    stream.read_exact(&mut len).expect("a reply");
    let mut reply = vec![0; usize::from(u16::from_be_bytes(len))];
    stream.read_exact(&mut reply).expect("all of it");
    reply
}

fn rcode(reply: &[u8]) -> u8 {
    reply[3] & 15
}

impl Signed {
    /// Returns what the client reads in a reply.
    fn verify(&mut self, reply: &[u8]) -> Result<(), ResponseError> {
        let tsig_at = find(reply).expect("a message");
        self.verifier.message(reply, tsig_at, now())
    }

    /// Asserts that a reply is signed, and refuses the request for its time.
    fn assert_bad_time(&mut self, reply: &[u8]) {
        assert_eq!(rcode(reply), 9, "NOTAUTH");
        let read = self.verify(reply);
        assert!(
            matches!(
                read,
                Err(ResponseError::Refused {
                    error: TsigRcode::BADTIME,
                    authentic: true,
                    server_time: Some(_)
                })
            ),
            "{read:?}"
        );
    }
}

fn serial(server: &Server) -> u64 {
    server.ctl_json(&["zone", "status", "example"])["serial"].as_u64().expect("a number")
}

fn resolves(server: &Server, name: &str) -> bool {
    server.query(&[name, "A", "+short"]).contains("192.0.2.80")
}

#[test]
fn a_signed_update_that_comes_again_was_executed_again() {
    let nomen = Server::start_in(folder(APEX), STATE, ALLOWED);
    let mut first = sign(key(), adds("new.example"), now());
    let reply = over_udp(nomen.address, &first.message);
    assert_eq!((rcode(&reply), first.verify(&reply)), (0, Ok(())));
    let second = sign(key(), removes("new.example"), now());
    assert_eq!(rcode(&over_udp(nomen.address, &second.message)), 0);
    let before = serial(&nomen);
    // A client sends it again because the reply was lost, an attacker because it was captured.
    let mut other_id = first.message.clone();
    other_id[..2].copy_from_slice(&[0xbe, 0xef]);
    let replies = [
        over_udp(nomen.address, &first.message),
        over_tcp(nomen.address, &first.message),
        over_udp(nomen.address, &other_id),
        over_tcp(nomen.address, &other_id),
    ];
    for reply in replies {
        assert_eq!(rcode(&reply), 0, "as the first");
    }
    assert_eq!(serial(&nomen), before);
    assert!(!resolves(&nomen, "new.example"));
    assert_eq!(nomen.counter("nomen_updates_repeated_total{result=\"answered\"}"), 4);
    assert_eq!(nomen.counter("nomen_updates_remembered"), 2);
    // The client can verify the reply to a repetition: it is signed for the same request.
    let mut again = sign(key(), adds("again.example"), now());
    assert_eq!(rcode(&over_tcp(nomen.address, &again.message)), 0);
    let reply = over_tcp(nomen.address, &again.message);
    assert_eq!(again.verify(&reply), Ok(()));
}

/// What was refused stays refused, also where it would be accepted later.
#[test]
fn a_refused_update_could_be_sent_again_once_it_was_allowed() {
    let nomen = Server::start_in(folder(APEX), STATE, ALLOWED);
    nomen.ctl_json(&["zone", "freeze", "example"]);
    let refused = sign(key(), adds("new.example"), now());
    assert_eq!(rcode(&over_udp(nomen.address, &refused.message)), 5);
    nomen.ctl_json(&["zone", "thaw", "example"]);
    assert_eq!(rcode(&over_udp(nomen.address, &refused.message)), 5);
    assert!(!resolves(&nomen, "new.example"));
    let fresh = sign(
        key(),
        update_message(9, "example", &[record("new.example", 1, CLASS_IN, 60, &[192, 0, 2, 80])]),
        now(),
    );
    assert_eq!(rcode(&over_udp(nomen.address, &fresh.message)), 0);
    assert!(resolves(&nomen, "new.example"));
}

#[test]
fn two_updates_signed_in_the_same_second_are_both_executed() {
    let nomen = Server::start_in(folder(APEX), STATE, ALLOWED);
    let time = now();
    for owner in ["a.example", "b.example"] {
        assert_eq!(rcode(&over_udp(nomen.address, &sign(key(), adds(owner), time).message)), 0);
    }
    assert!(resolves(&nomen, "a.example") && resolves(&nomen, "b.example"));
    assert_eq!(serial(&nomen), 3);
}

/// A client could choose for how long its message was accepted: up to 18 hours.
#[test]
fn the_server_bounds_the_fudge_of_clients() {
    let nomen = Server::start_in(folder(APEX), STATE, ALLOWED);
    let ago = |seconds| now().saturating_sub(Duration::from_secs(seconds));
    let send = |signed: &Signed| over_udp(nomen.address, &signed.message);
    let mut old = sign(key().with_fudge(u16::MAX), adds("old.example"), ago(400));
    old.assert_bad_time(&send(&old));
    let within = sign(key().with_fudge(u16::MAX), adds("within.example"), ago(100));
    assert_eq!(rcode(&send(&within)), 0);
    nomen.reconfigure("[transfers]\n", "[transfers]\ntsig-fudge = \"1h\"\n");
    nomen.reload();
    let wide = sign(key().with_fudge(u16::MAX), adds("wide.example"), ago(2000));
    assert_eq!(rcode(&send(&wide)), 0);
    // The server's own messages say so too.
    let reply = over_udp(nomen.address, &sign(key(), adds("wide.example"), now()).message);
    let fudge = find(&reply).expect("a message").expect("signed").index()
        + b"\x08transfer\x07example\0".len()
        + 10
        + b"\x0bhmac-sha256\0".len()
        + 6;
    assert_eq!(reply[fudge..fudge + 2], 3600_u16.to_be_bytes());
    // A client that allows less than the server gets that.
    let mut narrow = sign(key().with_fudge(60), adds("narrow.example"), ago(100));
    narrow.assert_bad_time(&send(&narrow));
    for (name, expected) in [("old", false), ("within", true), ("wide", true), ("narrow", false)] {
        assert_eq!(resolves(&nomen, &format!("{name}.example")), expected, "{name}");
    }
}

/// Only requests of keys that may change the zone take up memory.
#[test]
fn forged_and_forbidden_requests_are_not_remembered() {
    let nomen = Server::start_in(folder(APEX), STATE, ALLOWED);
    let forger = TsigKey::new(key().name().as_name(), key().algorithm(), b"a guess").expect("a key");
    let (socket, mut reply): (UdpSocket, _) = (socket(nomen.address), [0; 4096]);
    socket.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    for number in 0..2000 {
        let forged = sign(forger.clone(), adds(&format!("n{number}.example")), now());
        socket.send(&forged.message).expect("sent");
        let len = socket.recv(&mut reply).expect("a reply");
        assert_eq!(rcode(&reply[..len]), 9);
    }
    assert_eq!(nomen.counter("nomen_updates_remembered"), 0);
    // A key that may change nothing here.
    nomen.reconfigure("key:transfer.example", "key:other.example");
    nomen.reconfigure(
        "[transfers]\n",
        "[[tsig-key]]\nname = \"other.example\"\nsecret = \"AAAA\"\n[transfers]\n",
    );
    nomen.reload();
    assert_eq!(rcode(&over_udp(nomen.address, &sign(key(), adds("new.example"), now()).message)), 5);
    assert_eq!(nomen.counter("nomen_updates_remembered"), 0);
}

#[test]
fn a_restart_does_not_forget_what_was_executed() {
    let nomen = Server::start_in(folder(APEX), STATE, ALLOWED);
    let first = sign(key(), adds("new.example"), now());
    assert_eq!(rcode(&over_udp(nomen.address, &first.message)), 0);
    assert_eq!(rcode(&over_udp(nomen.address, &sign(key(), removes("new.example"), now()).message)), 0);
    let nomen = Server::start_in(nomen.stop(), STATE, ALLOWED);
    assert_eq!(rcode(&over_udp(nomen.address, &first.message)), 0);
    assert!(!resolves(&nomen, "new.example"));
    assert_eq!(nomen.counter("nomen_updates_repeated_total{result=\"answered\"}"), 1);
    assert_eq!(nomen.counter("nomen_updates_remembered"), 2);
    // A client whose clock is behind is served.
    let behind = sign(key(), adds("behind.example"), now().saturating_sub(Duration::from_secs(60)));
    assert_eq!(rcode(&over_udp(nomen.address, &behind.message)), 0);
    // After a crash nothing is known about requests from before it.
    let mut first = first;
    let nomen = Server::start_in(nomen.kill(), STATE, ALLOWED);
    first.assert_bad_time(&over_udp(nomen.address, &first.message));
    assert!(!resolves(&nomen, "new.example"));
    assert_eq!(nomen.counter("nomen_updates_repeated_total{result=\"badtime\"}"), 1);
    nomen.wait_for_log("the last run did not stop in order", 1);
    let later = sign(key(), adds("later.example"), now().saturating_add(Duration::from_secs(5)));
    assert_eq!(rcode(&over_udp(nomen.address, &later.message)), 0);
}
