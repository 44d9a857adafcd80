//! Limits on replies over UDP, of the whole server: floods from addresses and networks of loopback, which is
//! not exempt here. Counters drain by one unit per second, so a flood is admitted one more for each second
//! that a test takes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Instant;

use crate::support::{APEX, Server, TEST_TIMEOUT, eventually, message, text, written};

/// Limits of ten replies of any size, which refill one by one in ten seconds; the others are short.
const TEN: &str = "exempt = []\nanswers-per-second = 1\nreferrals-per-second = 1\nnxdomains-per-second = 1\n\
                   errors-per-second = 1\nburst = \"10s\"\nunit = 1000\nshort-replies-per-second = 0\n";
/// Queries of a flood.
const FLOOD: usize = 40;

/// A server of zone `example.`, with one UDP worker and these keys of `[rate-limits]`.
fn start(limits: &str) -> Server {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("example.zone"), APEX).expect("written");
    Server::start_in(folder, "", &format!("[rate-limits]\n{limits}"))
}

/// A query with this ID for `NAME.example`, and this COOKIE option.
fn query(id: u16, label: &str, cookie: Option<&[u8]>) -> Vec<u8> {
    let option =
        cookie.map(|data| [&b"\0\x0a\0"[..], &[data.len() as u8], data].concat()).unwrap_or_default();
    let mut message = id.to_be_bytes().to_vec();
    message.extend(b"\x01\0\0\x01\0\0\0\0\0\x01");
    message.push(label.len() as u8);
    message.extend(label.as_bytes());
    message.extend(b"\x07example\0\0\x01\0\x01\0\0\x29\x04\xd0\0\0\0\0\0");
    message.push(option.len() as u8);
    message.extend(option);
    message
}

/// What came back.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Replies {
    answers: usize,
    name_errors: usize,
    truncated: usize,
    bad_cookies: usize,
}

/// A client.
struct Client {
    socket: UdpSocket,
    /// The COOKIE option that a reply has given it.
    cookie: Vec<u8>,
}

impl Client {
    fn new(address: &str, server: SocketAddr) -> Self {
        let socket = UdpSocket::bind((address, 0)).expect("an address");
        socket.connect(server).expect("connected");
        socket.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
        Client { socket, cookie: Vec::new() }
    }

    /// Asks once; returns the reply.
    fn ask(&self, label: &str, cookie: Option<&[u8]>) -> Vec<u8> {
        self.socket.send(&query(1, label, cookie)).expect("sent");
        self.receive()
    }

    /// Asks over TCP, from an address that loopback chooses: the first one.
    fn ask_over_tcp(&self, label: &str) -> Vec<u8> {
        let server = self.socket.peer_addr().expect("connected");
        let mut stream = TcpStream::connect(server).expect("a connection");
        let message = query(1, label, None);
        stream.write_all(&[&(message.len() as u16).to_be_bytes(), &message[..]].concat()).expect("sent");
        let mut len = [0; 2];
        stream.read_exact(&mut len).expect("a length");
        let mut reply = vec![0; u16::from_be_bytes(len).into()];
        stream.read_exact(&mut reply).expect("a reply");
        reply
    }

    fn receive(&self) -> Vec<u8> {
        let mut reply = [0; 1500];
        let len = self.socket.recv(&mut reply).expect("a reply");
        reply[..len].to_vec()
    }

    /// Gets a cookie, which takes one answer.
    fn with_cookie(mut self) -> Self {
        let reply = self.ask("ns1", Some(b"AAAAAAAA"));
        self.cookie = reply[reply.len() - 24..].to_vec();
        self
    }

    /// Asks many times; limits that drop nothing give a reply to each query.
    fn flood(&self, label: impl Fn(usize) -> String, cookie: Option<&[u8]>) -> Replies {
        let mut replies = Replies::default();
        for n in 0..FLOOD {
            let reply = self.ask(&label(n), cookie);
            let of = match (reply[2] & 2 != 0, reply[3] & 15) {
                (true, _) => &mut replies.truncated,
                (false, 0) => &mut replies.answers,
                (false, 3) => &mut replies.name_errors,
                // The lower bits of BADCOOKIE.
                (false, 7) => &mut replies.bad_cookies,
                (false, rcode) => panic!("response code {rcode}"),
            };
            *of += 1;
        }
        replies
    }
}

fn limited(server: &Server, kind: &str, action: &str) -> u64 {
    server.counter(&format!("nomen_rate_limited_total{{kind=\"{kind}\",action=\"{action}\"}}"))
}

/// Returns the range of replies that a limit of `burst` admits since then.
fn admitted(burst: usize, since: Instant) -> std::ops::RangeInclusive<usize> {
    burst..=burst + since.elapsed().as_secs() as usize + 1
}

#[test]
fn a_flood_gets_its_burst_and_then_short_replies_and_its_neighbours_lose_nothing() {
    let server = start(&format!("{TEN}slip = 1\n"));
    let begun = Instant::now();
    let client = Client::new("127.0.0.1", server.address).with_cookie();
    let replies = client.flood(|_| "ns1".into(), None);
    // One was for the cookie.
    assert!(admitted(9, begun).contains(&replies.answers), "{replies:?}");
    let over = FLOOD - replies.answers;
    assert_eq!(replies.truncated, over, "{replies:?}");
    let counts = ["truncated", "dropped"].map(|action| limited(&server, "answer", action));
    assert_eq!(counts, [over as u64, 0]);
    // Queries for names that do not exist are counted apart, the address and its network as well.
    let names = client.flood(|n| format!("x{n}"), None);
    assert!(admitted(10, begun).contains(&names.name_errors), "{names:?}");
    let neighbour = Client::new("127.0.0.2", server.address);
    let networks = Client::new("127.0.1.1", server.address);
    for other in [&neighbour, &networks] {
        assert_eq!(other.ask("ns1", None)[6..8], [0, 1]);
    }
    // Over TCP there is no limit.
    assert!((0..12).all(|_| client.ask_over_tcp("ns1")[6..8] == [0, 1]));
}

#[test]
fn which_networks_are_limited_is_counted_and_logged() {
    let server = start(&format!("{TEN}slip = 1\n"));
    let client = Client::new("127.0.0.1", server.address).with_cookie();
    let over = FLOOD - client.flood(|_| "ns1".into(), None).answers;
    server.wait_for_log("replies to 127.0.0.1/32 are limited: answer", 1);
    let top = || server.ctl_json(&["limits", "top"]);
    // A flood in a moment is passed on in part; what was left out counts with the next one.
    eventually("the flood is counted", &server, || top()["top"][0]["network"] == "127.0.0.1/32");
    let counted = top()["replies"].as_u64().expect("a number");
    assert!((1..=over as u64).contains(&counted), "{counted} of {over}");
    assert_eq!(server.ctl_json(&["limits", "top", "--hour", "1"])["replies"], counted);
    let said = text(&server.ctl(&["limits", "top"]).stdout);
    assert_eq!(said, format!("{counted} replies over a limit since the start\n{counted}  127.0.0.1/32\n"));
    server.reconfigure("[rate-limits]", "[rate-limits]\ntop = 0");
    server.reload();
    assert!(text(&server.ctl(&["limits", "top"]).stderr).contains("`top` of [rate-limits] is 0"));
}

#[test]
fn a_client_with_a_cookie_of_its_own_gets_one_of_the_server_when_it_is_limited() {
    let server = start(&format!("{TEN}slip = 1\n"));
    let begun = Instant::now();
    let client = Client::new("127.0.0.1", server.address).with_cookie();
    let replies = client.flood(|_| "ns1".into(), Some(b"BBBBBBBB"));
    assert!(admitted(9, begun).contains(&replies.answers), "{replies:?}");
    assert_eq!(replies.bad_cookies, FLOOD - replies.answers);
    // The cookie in that reply is good for an answer.
    let refused = client.ask("ns1", Some(b"CCCCCCCC"));
    assert_eq!((refused[3] & 15, &refused[6..8]), (7, &[0, 0][..]), "BADCOOKIE is 23");
    assert_eq!(client.ask("ns1", Some(&refused[refused.len() - 24..]))[6..8], [0, 1]);
}

#[test]
fn a_network_has_a_limit_of_its_own_and_an_address_gets_short_replies_for_sure() {
    let keys = "exempt = [\"127.0.7.0/24\"]\nanswers-per-second = 1\nburst = \"10s\"\nslip = 0\n\
                ipv4-factors = [2, 0, 0]\n";
    let server = start(keys);
    let begun = Instant::now();
    let ask = |from: String| Client::new(&from, server.address).ask("ns1", None);
    let replies = (1..=40).map(|n| ask(format!("127.0.0.{n}")));
    let answered = replies.filter(|reply| reply[6..8] == [0, 1]).count();
    // The network refills twice as fast as an address; who gets no answer gets its short reply.
    assert!((20..=22 + 2 * begun.elapsed().as_secs() as usize).contains(&answered), "{answered}");
    assert_eq!(limited(&server, "answer", "truncated"), 40 - answered as u64);
    assert!((0..40).all(|_| ask("127.0.7.1".into())[6..8] == [0, 1]), "an exempt network");
}

#[test]
fn a_reload_keeps_the_counters_and_a_dry_run_sends_all() {
    let server = start(&format!("dry-run = true\n{TEN}slip = 1\n"));
    let client = Client::new("127.0.0.1", server.address).with_cookie();
    let all = Replies { answers: FLOOD, ..Replies::default() };
    assert_eq!(client.flood(|_| "ns1".into(), None), all);
    let counted = limited(&server, "answer", "dry-run");
    assert!((1..=31).contains(&counted), "{counted}");
    let full = Instant::now();
    server.reconfigure("dry-run = true", "dry-run = false");
    server.reload();
    let replies = client.flood(|_| "ns1".into(), None);
    assert!(
        replies.answers <= full.elapsed().as_secs() as usize + 1,
        "the counter is still full: {replies:?}"
    );
    assert_eq!(limited(&server, "answer", "truncated"), (FLOOD - replies.answers) as u64);
    server.reconfigure("dry-run = false", "dry-run = false\nenable = false");
    server.reload();
    assert_eq!(client.flood(|_| "ns1".into(), None), all);
}

#[test]
fn loopback_has_no_limit_by_default() {
    let server = start("answers-per-second = 1\nburst = \"1s\"\n");
    let client = Client::new("127.0.0.1", server.address).with_cookie();
    assert_eq!(client.flood(|_| "ns1".into(), None).answers, FLOOD);
}

#[test]
fn clients_that_may_recurse_have_limits_where_they_are_wanted_also_on_late_answers() {
    let upstream = Server::start(APEX, "");
    let forward = format!("[[resolver.forward]]\nservers = [{}]\n", written(upstream.address));
    let folder = tempfile::tempdir().expect("a folder");
    let limits = format!("[rate-limits]\n{TEN}slip = 1\n[resolver]\nvalidate = false\n{forward}");
    let server = Server::start_in(folder, "", &limits);
    let client = Client::new("127.0.0.1", server.address);
    let all = Replies { name_errors: FLOOD, ..Replies::default() };
    assert_eq!(client.flood(|n| format!("a{n}"), None), all);
    server.reconfigure("[rate-limits]\n", "[rate-limits]\nlimit-recursion = true\n");
    server.reload();
    let begun = Instant::now();
    // Each name is a new one, which is asked for upstream.
    let replies = client.flood(|n| format!("b{n}"), None);
    assert!(admitted(10, begun).contains(&replies.name_errors), "{replies:?}");
    assert_eq!(replies.truncated, FLOOD - replies.name_errors, "{replies:?}");
}

/// A key, and dig's option for it.
const KEY: &str =
    "[[tsig-key]]\nname = \"k.example\"\nsecret = \"3q2+7wABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhs=\"\n";
const SIGNED: [&str; 2] = ["-y", "hmac-sha256:k.example:3q2+7wABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhs="];

#[test]
fn signed_queries_and_acknowledged_notifies_have_no_limit() {
    let zone =
        "[[zone]]\nname = \"second\"\nprimaries = [\"127.0.0.1@9\"]\nallow-notify = [\"127.0.0.0/8\"]\n";
    let server = start(&format!("{TEN}slip = 1\n{KEY}{zone}"));
    let client = Client::new("127.0.0.1", server.address);
    assert!(client.flood(|_| "ns1".into(), None).truncated > 0);
    let (at, port) = (format!("@{}", server.address.ip()), server.address.port().to_string());
    let dig = || {
        let mut dig = std::process::Command::new("dig");
        dig.env("HOME", "/nonexistent").args([&at, "-p", &port, "-b", "127.0.0.1", "+ignore"]);
        dig.args(SIGNED).args(["+nocookie", "+tries=1", "+time=60", "ns1.example", "A"]);
        text(&dig.output().expect("dig runs").stdout)
    };
    assert!((0..3).all(|_| dig().contains("ANSWER: 1,")));
    let mut notify = message(7, "second", 6);
    notify[2] = 0x24;
    for _ in 0..FLOOD {
        client.socket.send(&notify).expect("sent");
        let reply = client.receive();
        assert_eq!((reply[2] & 2, reply[3] & 15), (0, 0), "NOERROR, and not truncated");
    }
    // A NOTIFY that is refused is an error.
    let other = message(7, "third", 6);
    let refused = [&other[..2], &[0x24], &other[3..]].concat();
    for _ in 0..FLOOD {
        client.socket.send(&refused).expect("sent");
        client.receive();
    }
    assert!(limited(&server, "error", "sent") > 0);
}

#[test]
fn a_reply_counts_by_its_size_and_one_that_does_not_fit_as_the_short_one_that_it_becomes() {
    let folder = tempfile::tempdir().expect("a folder");
    let large: String = (0..5).map(|n| format!("large TXT {n}{}\n", "x".repeat(200))).collect();
    std::fs::write(folder.path().join("example.zone"), format!("{APEX}{large}")).expect("written");
    let limits = TEN.replace("unit = 1000", "unit = 64");
    let server = Server::start_in(folder, "", &format!("[rate-limits]\n{limits}slip = 1\n"));
    let client = Client::new("127.0.0.1", server.address);
    for _ in 0..10 {
        client.socket.send(&message(7, "large.example", 16)).expect("sent");
        assert_eq!(client.receive()[2] & 2, 2, "truncated for its size");
    }
    assert_eq!(limited(&server, "answer", "truncated"), 0);
    // The SOA record and the name make it two units.
    let (begun, other) = (Instant::now(), Client::new("127.0.0.2", server.address));
    let replies = other.flood(|n| format!("{}{n}", "x".repeat(40)), None);
    assert!(admitted(5, begun).contains(&replies.name_errors), "{replies:?}");
}
