//! DNS cookies (RFC 7873, RFC 9018) of the whole server: over UDP and TCP, from zones and forwarded, required
//! of some clients, and with one secret on two servers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};

use crate::support::{APEX, Server, TEST_TIMEOUT, written};

const CLIENT: &[u8] = b"\x01\x02\x03\x04\x05\x06\x07\x08";
const SECRET: &str = "cookie-secrets = [\"e5e973e5a6b2a43f48e7dc849e37bfcf\"]\n";

/// A query for the addresses of `ns1.example` with this COOKIE option, if any.
fn query(cookie: Option<&[u8]>) -> Vec<u8> {
    let question = b"\x03ns1\x07example\0\0\x01\0\x01".as_slice();
    [&b"\x12\x34\x01\0\0\x01\0\0\0\0\0\x01"[..], question, &opt(cookie)].concat()
}

fn opt(cookie: Option<&[u8]>) -> Vec<u8> {
    let option =
        cookie.map(|data| [&b"\0\x0a\0"[..], &[data.len() as u8], data].concat()).unwrap_or_default();
    [&b"\0\0\x29\x04\xd0\0\0\0\0\0"[..], &[option.len() as u8], &option].concat()
}

/// A reply: its response code with that of OPT, TC, its number of answers, and its COOKIE option.
#[derive(Debug, PartialEq)]
struct Reply {
    rcode: u16,
    truncated: bool,
    answers: u16,
    cookie: Option<Vec<u8>>,
}

fn read(reply: &[u8]) -> Reply {
    // OPT is the last record, without other options here.
    let at = reply.windows(5).rposition(|five| five == b"\0\0\x29\x04\xd0");
    let opt = at.map_or(&[][..], |at| &reply[at + 5..]);
    let high = u16::from(opt.first().copied().unwrap_or_default());
    let option = opt.get(6..).filter(|option| option.starts_with(b"\0\x0a\0"));
    Reply {
        rcode: high << 4 | u16::from(reply[3] & 15),
        truncated: reply[2] & 2 != 0,
        answers: u16::from_be_bytes([reply[6], reply[7]]),
        cookie: option.map(|option| option[4..4 + usize::from(option[3])].to_vec()),
    }
}

fn ask_from(from: &str, server: SocketAddr, message: &[u8]) -> Reply {
    let socket = UdpSocket::bind((from, 0)).expect("an address");
    socket.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    socket.send_to(message, server).expect("sent");
    let mut reply = [0; 1500];
    let len = socket.recv(&mut reply).expect("a reply");
    read(&reply[..len])
}

fn ask(server: SocketAddr, cookie: Option<&[u8]>) -> Reply {
    ask_from("127.0.0.1", server, &query(cookie))
}

fn ask_over_tcp(server: SocketAddr, cookie: Option<&[u8]>) -> Reply {
    let mut stream = TcpStream::connect(server).expect("a connection");
    let message = query(cookie);
    stream.write_all(&[&(message.len() as u16).to_be_bytes(), &message[..]].concat()).expect("sent");
    let mut len = [0; 2];
    stream.read_exact(&mut len).expect("a length");
    let mut reply = vec![0; u16::from_be_bytes(len).into()];
    stream.read_exact(&mut reply).expect("a reply");
    read(&reply)
}

/// The replies with a cookie so far: valid, client cookie only, invalid.
fn counts(server: &Server) -> [u64; 3] {
    ["valid", "client-only", "invalid"]
        .map(|standing| server.counter(&format!("nomen_cookies_total{{cookie=\"{standing}\"}}")))
}

/// A server of zone `example.` with these keys and sections.
fn start(keys: &str, more: &str) -> Server {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("example.zone"), APEX).expect("written");
    Server::start_in(folder, keys, more)
}

#[test]
fn a_client_gets_a_cookie_and_shows_it() {
    let server = start("", "");
    let at = server.address;
    assert_eq!(ask(at, None).cookie, None);
    let first = ask(at, Some(CLIENT));
    let cookie = first.cookie.clone().expect("a cookie");
    assert_eq!((first.rcode, first.answers, cookie.len(), &cookie[..8]), (0, 1, 24, CLIENT));
    assert_eq!(ask(at, Some(&cookie)).cookie, Some(cookie.clone()));
    assert_eq!(ask_over_tcp(at, Some(&cookie)).cookie, Some(cookie.clone()));
    // The address of the client is in it.
    let elsewhere = ask_from("127.0.0.2", at, &query(Some(&cookie)));
    assert_eq!((elsewhere.rcode, elsewhere.answers), (0, 1));
    assert_ne!(elsewhere.cookie, Some(cookie.clone()));
    assert_eq!(counts(&server), [2, 1, 1]);
    // A query for a cookie alone (RFC 7873 §5.4), and malformed ones (§5.2.2).
    let alone = |cookie: &[u8]| [&b"\x12\x34\0\0\0\0\0\0\0\0\0\x01"[..], &opt(Some(cookie))].concat();
    let reply = ask_from("127.0.0.1", at, &alone(&cookie));
    assert_eq!((reply.rcode, reply.answers, reply.cookie), (0, 0, Some(cookie)));
    for len in [0, 7, 9, 15, 41] {
        assert_eq!(ask(at, Some(&vec![1; len])).rcode, 1, "{len}");
    }
    assert_eq!(ask_from("127.0.0.1", at, &alone(&[1; 9])).rcode, 1);
}

#[test]
fn a_forwarded_answer_has_the_cookie_too() {
    let upstream = start("", "");
    let server = start(
        "",
        &format!(
            "[resolver]\nvalidate = false\nclient-timeout = \"60s\"\n[[resolver.forward]]\nservers = [{}]\n\
             [[resolver.access]]\nfrom = [\"loopback\"]\n",
            written(upstream.address)
        ),
    );
    // The zone is served here as well: the name of another one is forwarded, and refused there.
    let question = b"\x03ns1\x05other\0\0\x01\0\x01".as_slice();
    let message = [&b"\x12\x34\x01\0\0\x01\0\0\0\0\0\x01"[..], question, &opt(Some(CLIENT))].concat();
    let reply = ask_from("127.0.0.1", server.address, &message);
    let cookie = reply.cookie.expect("a cookie");
    assert_eq!((reply.rcode, &cookie[..8]), (2, CLIENT));
    assert_eq!(ask(server.address, Some(&cookie)).cookie, Some(cookie));
}

#[test]
fn networks_that_need_a_cookie_get_no_answer_without() {
    let server = start("cookies-required-from = [\"127.0.0.2/32\"]\n", "");
    let at = server.address;
    let from = |address: &str, cookie: Option<&[u8]>| ask_from(address, at, &query(cookie));
    // Another client is not concerned.
    assert_eq!(from("127.0.0.1", None), Reply { rcode: 0, truncated: false, answers: 1, cookie: None });
    let none = from("127.0.0.2", None);
    assert_eq!(none, Reply { rcode: 0, truncated: true, answers: 0, cookie: None });
    let refused = from("127.0.0.2", Some(CLIENT));
    assert_eq!((refused.rcode, refused.answers), (23, 0), "BADCOOKIE");
    let cookie = refused.cookie.expect("the cookie to ask again with");
    assert_eq!(
        from("127.0.0.2", Some(&cookie)),
        Reply { rcode: 0, truncated: false, answers: 1, cookie: Some(cookie.clone()) }
    );
    let mut forged = cookie;
    forged[20] ^= 1;
    assert_eq!(from("127.0.0.2", Some(&forged)).rcode, 23);
    // TCP shows the address as well.
    server.reconfigure("127.0.0.2/32", "127.0.0.0/8");
    server.reload();
    assert!(ask(at, None).truncated);
    assert_eq!(ask_over_tcp(at, None).answers, 1);
}

#[test]
fn servers_with_one_secret_accept_each_others_cookies() {
    let (one, two, other) = (start(SECRET, ""), start(SECRET, ""), start("", ""));
    let cookie = ask(one.address, Some(CLIENT)).cookie.expect("a cookie");
    assert_eq!(ask(two.address, Some(&cookie)).cookie, Some(cookie.clone()));
    assert_ne!(ask(other.address, Some(&cookie)).cookie, Some(cookie.clone()));

    // A random secret is replaced on command; one of the configuration is not.
    let random = ask(other.address, Some(CLIENT)).cookie.expect("a cookie");
    other.ctl_json(&["cookies", "rotate"]);
    let renewed = ask(other.address, Some(&random)).cookie.expect("a cookie");
    assert_ne!(renewed, random);
    assert_eq!(ask(other.address, Some(&renewed)).cookie, Some(renewed));
    let refused = one.ctl(&["cookies", "rotate"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");

    // The new secret behind the old one, then before it: no client has to begin again.
    let next = "\"445536bcd2513298075a5d379663c962\"";
    two.reconfigure("bfcf\"]", &format!("bfcf\", {next}]"));
    two.reload();
    assert_eq!(ask(two.address, Some(&cookie)).cookie, Some(cookie.clone()));
    two.reconfigure(&format!("[\"e5e973e5a6b2a43f48e7dc849e37bfcf\", {next}]"), &format!("[{next}]"));
    two.reload();
    assert_ne!(ask(two.address, Some(&cookie)).cookie, Some(cookie));
    // Without the key, the secret is the random one of this start.
    let configured = ask(two.address, Some(CLIENT)).cookie.expect("a cookie");
    two.reconfigure(&format!("cookie-secrets = [{next}]\n"), "");
    two.reload();
    let random = ask(two.address, Some(&configured)).cookie.expect("a cookie");
    assert_ne!(random[16..], configured[16..]);
    two.reconfigure("workers = 2\n", "workers = 2\ncookies = false\n");
    two.reload();
    assert_eq!(ask(two.address, Some(CLIENT)).cookie, None);
}
