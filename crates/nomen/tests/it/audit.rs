//! The audit file: one line for each change, each transfer, and each refused request.

use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use crate::changes;
use crate::metrics::http;
use crate::primary::{self, KEY_FILE};
use crate::secondary::{peer, server};
use crate::support::{APEX, Server, TEST_TIMEOUT, eventually, free_address, message, run, text, written};

/// `[server]` keys and `[log]` with an audit file and a state folder.
const AUDIT: &str = "state-dir = \"state\"\n[log]\naudit-file = \"audit.log\"\n";
const NOTIFY: &[u8] = b"\0\x01\x24\0\0\x01\0\0\0\0\0\0\x07example\0\0\x06\0\x01";

fn read(server: &Server) -> String {
    fs::read_to_string(server.path("audit.log")).unwrap_or_default()
}

fn wait_for(server: &Server, words: &str) {
    let until = std::time::Instant::now() + TEST_TIMEOUT;
    while !read(server).contains(words) {
        assert!(std::time::Instant::now() < until, "no {words}\n{}\n{}", read(server), server.log());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns a socket at an address of this machine.
fn socket_at(client: [u8; 4], server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((IpAddr::from(client), 0)).expect("loopback has it");
    socket.connect(server).expect("an address");
    socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
    socket
}

/// Returns the message with another type and class.
fn with(message: &[u8], qtype: u16, qclass: u16) -> Vec<u8> {
    let mut message = message.to_vec();
    let end = message.len();
    message[end - 4..end - 2].copy_from_slice(&qtype.to_be_bytes());
    message[end - 2..].copy_from_slice(&qclass.to_be_bytes());
    message
}

#[test]
fn the_refused_request_of_one_client_hid_those_of_others_for_ten_seconds() {
    let server = Server::start_in(changes::folder(APEX), AUDIT, "");
    for client in [[127, 0, 0, 1], [127, 0, 0, 2], [127, 0, 0, 3]] {
        let socket = socket_at(client, server.address);
        assert_eq!(changes::answer(&socket, NOTIFY), Some(5));
        assert_eq!(changes::answer(&socket, NOTIFY), Some(5));
    }
    for (client, lines) in [("127.0.0.1", 2), ("127.0.0.2", 2), ("127.0.0.3", 2)] {
        let words = format!("NOTIFY refused zone=example. client={client} key=\"none\"");
        eventually("each has its lines", &server, || read(&server).matches(&words).count() == lines);
    }
}

#[test]
fn the_audit_file_of_a_flood_of_refused_requests_was_not_bounded() {
    let metrics = free_address();
    let more = format!("[metrics]\nlisten = {}\n", written(metrics));
    let log = format!("{AUDIT}audit-refusals = 3\nrepeat-interval = \"1h\"\n");
    let server = Server::start_in(changes::folder(APEX), &log, &more);
    let socket = changes::socket(server.address);
    (0..10).for_each(|_| assert_eq!(changes::answer(&socket, NOTIFY), Some(5)));
    let figures = http(metrics, "GET /metrics");
    assert!(figures.contains("nomen_audit_counted_total 7\n"), "{figures}");
    // A reload changes the limit.
    server.reconfigure("audit-refusals = 3", "audit-refusals = 4");
    server.reload();
    (0..2).for_each(|_| assert_eq!(changes::answer(&socket, NOTIFY), Some(5)));
    let folder = server.stop();
    let audit = fs::read_to_string(folder.path().join("audit.log")).expect("the file");
    assert_eq!(audit.matches("NOTIFY refused zone=example.").count(), 4, "{audit}");
    let count = "requests refused client=127.0.0.1 not_logged=8 last=\"NOTIFY\" seconds=3600";
    assert!(audit.contains(count), "{audit}");
}

#[test]
fn a_signature_that_is_refused_did_not_say_of_which_type_the_request_is() {
    let server = Server::start_in(changes::folder(APEX), AUDIT, "allow-transfer = [\"any\"]\n");
    let key = "hmac-sha256:nosuch.:c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0";
    let refused = server.query(&["example", "AXFR", "-y", key]);
    assert!(refused.contains("BADKEY"), "{refused}");
    let line = "signature refused opcode=QUERY name=example. type=\"AXFR\" client=127.0.0.1";
    wait_for(&server, line);
    server.wait_for_log(line, 1);
    server.query(&["ns1.example", "A", "-y", key]);
    wait_for(&server, "signature refused opcode=QUERY name=ns1.example. type=\"A\"");
}

#[test]
fn requests_of_a_wrong_class_type_or_form_left_no_line() {
    let log = format!("{AUDIT}repeat-interval = \"0s\"\n");
    let server = Server::start_in(changes::folder(APEX), &log, "allow-transfer = [\"any\"]\n");
    let (socket, axfr) = (changes::socket(server.address), message(3, "example", 252));
    let update = changes::update_message(7, "example", &[]);
    let cut = &changes::update_message(7, "example", &[changes::record("a.example", 1, 1, 60, &[])])[..40];
    let is_of = |what: &str, reason: &str| {
        let line = format!("{what} refused zone=example. client=127.0.0.1 key=\"none\" reason={reason:?}");
        wait_for(&server, &line);
        server.wait_for_log(&line, 1);
    };
    for (message, rcode, what, reason) in [
        (with(NOTIFY, 6, 3), 5, "NOTIFY", "the class is not IN"),
        (with(NOTIFY, 1, 1), 4, "NOTIFY", "the type is not SOA, and no zone here takes it for delegations"),
        (axfr.clone(), 1, "transfer", "AXFR needs TCP (RFC 5936, section 4.2)"),
        (with(&axfr, 252, 3), 5, "transfer", "the class is not IN"),
        // Requests that the query path itself refuses.
        (with(&update, 6, 4), 5, "update", "the class is not IN"),
        (cut.to_vec(), 1, "update", "the message is malformed"),
        ([&axfr[..], b"\0"].concat(), 1, "transfer", "the message is malformed"),
        ([NOTIFY, b"\0"].concat(), 1, "NOTIFY", "the message is malformed"),
    ] {
        assert_eq!(changes::answer(&socket, &message), Some(rcode), "{what} {reason}");
        is_of(what, reason);
    }
    // IXFR without the client's serial, and of an unknown zone.
    let mut stream = primary::connect(server.address).expect("a connection");
    primary::send(&mut stream, &message(4, "example", 251)).expect("sent");
    assert_eq!(primary::receive(&mut stream).expect("a reply")[3] & 15, 1);
    is_of("transfer", "the IXFR has no SOA with the client's serial (RFC 1995, section 3)");
}

#[test]
fn an_update_that_is_refused_did_not_say_what_it_asks_for_nor_the_zones_serial() {
    let server = Server::start_in(changes::folder(APEX), AUDIT, "allow-update = [\"127.0.0.1\"]\n");
    assert_eq!(changes::add(server.address, "example", "new.example"), Some(0));
    // A prerequisite: a name that must be in use (RFC 2136 §2.4.4).
    let condition = changes::record("nosuch.example", 255, 255, 0, b"");
    let mut unfit = changes::update_message(7, "example", &[condition]);
    unfit.swap(7, 9);
    assert_eq!(changes::answer(&changes::socket(server.address), &unfit), Some(3));
    let counts = "prerequisites=1 updates=0 serial=2";
    eventually("the audit file has it", &server, || {
        read(&server)
            .lines()
            .any(|line| line.contains("update refused zone=example.") && line.ends_with(counts))
    });
    eventually("the log has it", &server, || {
        server.log().lines().any(|line| {
            line.contains("zone example.: update refused")
                && line.contains("NXDOMAIN")
                && line.ends_with(counts)
        })
    });
    // Refused before the zone is read: another client, and an unknown zone.
    let added = changes::record("b.example", 1, 1, 60, &[192, 0, 2, 80]);
    let foreign = socket_at([127, 0, 0, 2], server.address);
    let update = changes::update_message(7, "example", &[added.clone(), added]);
    assert_eq!(changes::answer(&foreign, &update), Some(5));
    let line = "names the client\" prerequisites=0 updates=2 serial=2";
    wait_for(&server, line);
    server.wait_for_log(line, 1);
    assert_eq!(changes::add(server.address, "other", "new.other"), Some(9));
    wait_for(&server, "reason=\"the zone is not served here\" prerequisites=0 updates=1\n");
    // The zone is frozen when the request arrives.
    assert!(server.ctl(&["zone", "freeze", "example"]).status.success());
    assert_eq!(changes::add(server.address, "example", "c.example"), Some(5));
    wait_for(&server, "`nomen ctl zone thaw`\" prerequisites=0 updates=1 serial=2");
}

#[test]
fn an_update_that_the_full_queue_refuses_left_no_line() {
    let server =
        Server::start_in(changes::folder(APEX), AUDIT, "allow-update = [\"any\"]\n[updates]\nqueue = 1\n");
    let socket = changes::socket(server.address);
    let added = changes::record("b.example", 1, 1, 60, &[192, 0, 2, 80]);
    let update = changes::update_message(7, "example", &[added]);
    let line = "update refused zone=example. client=127.0.0.1 key=\"none\" reason=\"too many updates wait \
                already (`queue` of [updates])\" prerequisites=0 updates=1 serial=";
    // One waits for the disk, and the next ones arrive before it is answered.
    eventually("one finds the queue full", &server, || {
        (0..64).for_each(|_| assert!(socket.send(&update).is_ok()));
        read(&server).contains(line)
    });
    server.wait_for_log(line, 1);
}

#[test]
fn updates_that_are_passed_on_left_no_line() {
    let (first, own) = (free_address(), free_address());
    let folder = changes::folder(APEX);
    let grants = "allow-transfer = [\"127.0.0.0/8\"]\nallow-update = [\"key:transfer.example\"]\n\
                  [transfers]\nkey-files = [\"transfer.key\"]\n";
    let primary = Server::start_at(first, folder, changes::STATE, grants);
    // The secondary does not have the key.
    let zone = format!("[[zone]]\nname = \"example\"\nprimaries = [{}]\n", peer(first, false));
    let log = "[log]\naudit-file = \"audit.log\"\n";
    let secondary = server(own, log, &format!("{zone}forward-updates = [\"any\"]\n"));
    fs::write(secondary.path("transfer.key"), KEY_FILE).expect("written");
    let is_there = || secondary.query(&["ns1.example", "A"]).contains("192.0.2.1");
    eventually("it has the zone", &secondary, is_there);
    let at = format!("{}#{}", own.ip(), own.port());
    let send = |arguments: &[&str]| {
        secondary.write("script", "zone example\nadd new.example. 60 A 192.0.2.9\n");
        let arguments = [&["update", "--server", &at, "--timeout", "60", "script"], arguments].concat();
        text(&run(&secondary.path("."), &arguments).stderr)
    };
    assert_eq!(send(&["-k", "transfer.key"]), "");
    let key = "transfer.example. (not verified here)";
    wait_for(
        &secondary,
        &format!(
            "update passed on zone=example. client=127.0.0.1 key=\"{key}\" primary=\"{}@{}\" rcode=NOERROR \
             prerequisites=0 updates=1 serial=1",
            first.ip(),
            first.port()
        ),
    );
    let logged = format!("zone example.: update passed on client=127.0.0.1 key={key} primary=");
    secondary.wait_for_log(&logged, 1);
    assert!(send(&[]).contains("REFUSED"));
    wait_for(&secondary, "key=\"none\" primary=");
    wait_for(&secondary, "rcode=REFUSED prerequisites=0 updates=1");
    // The primary has stopped.
    drop(primary);
    assert!(send(&[]).contains("SERVFAIL"));
    wait_for(
        &secondary,
        "update not passed on zone=example. client=127.0.0.1 key=\"none\" reason=\"no connection to",
    );
    wait_for(&secondary, "onnection refused\" prerequisites=0 updates=1");
    secondary.wait_for_log("zone example.: update not passed on client=127.0.0.1 key=none", 1);
    // Updates of other clients are not forwarded.
    secondary.reconfigure("forward-updates = [\"any\"]", "forward-updates = [\"192.0.2.1\"]");
    secondary.reload();
    assert!(send(&[]).contains("REFUSED"));
    wait_for(
        &secondary,
        "update refused zone=example. client=127.0.0.1 key=\"none\" reason=\"`forward-updates` does",
    );
}

#[test]
fn what_the_operator_commits_was_not_in_the_audit_file() {
    let server = Server::start_in(changes::folder(APEX), AUDIT, "allow-update = [\"any\"]\n");
    for arguments in
        [&["begin", "example"][..], &["set", "example", "mail", "A", "192.0.2.25"], &["commit", "example"]]
    {
        assert!(server.ctl(&[&["zone"], arguments].concat()).status.success(), "{arguments:?}");
    }
    wait_for(&server, "transaction committed zone=example. removed=1 added=2 serial_before=1 serial=2");
    // A forced reload discards the changes made by updates.
    assert!(server.ctl(&["zone", "reload", "example", "--force"]).status.success());
    wait_for(&server, "zone file taken zone=example. removed=2 added=1 serial_before=2 serial=3");
    assert_eq!(server.ctl_json(&["log", "reopen"])["audit"], "audit.log");
}
