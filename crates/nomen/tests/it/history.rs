//! IXFR from zones that change by their files: differences where they are known, the whole zone otherwise.

use std::fs;
use std::net::UdpSocket;

use tempfile::TempDir;

use crate::support::{APEX, Server, TEST_TIMEOUT, eventually, free_address, message};

const STATE: &str = "state-dir = \"state\"\n";
const SHARED: &str = "allow-transfer = [\"any\"]\n";
const WITH_DIFFERENCES: &str = "allow-transfer = [\"any\"]\nixfr-from-differences = true\n";

/// Returns a version with this serial and number of hosts; one record is only in this version.
fn version(serial: u32, hosts: usize) -> String {
    let apex = APEX.replace("admin 1 ", &format!("admin {serial} "));
    let hosts: String =
        (0..hosts).map(|n| format!("host-with-a-long-name-{n} A 192.0.2.{}\n", n % 250)).collect();
    format!("{apex}{hosts}version-{serial} A 192.0.2.9\n")
}

fn folder(zone: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), zone).expect("written");
    folder
}

/// Puts another version into service.
fn change(server: &Server, zone: &str) {
    server.write("example.zone", zone);
    server.reload();
}

/// Returns the number of records in the answer to IXFR from a version.
fn since(server: &Server, serial: u32, more: &[&str]) -> usize {
    let said = server.query(&[&["example", &format!("IXFR={serial}")], more].concat());
    let size = said.split("XFR size: ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
    size.unwrap_or_else(|| panic!("{said}\n{}", server.log()))
}

/// Number of records of a difference: both SOAs, and per step two SOAs, one removed and one added record.
const fn steps(number: usize) -> usize {
    2 + 4 * number
}

/// Number of records of a whole zone, with the SOA twice.
const fn whole(hosts: usize) -> usize {
    5 + hosts + 1 + 1
}

#[test]
fn what_changed_in_a_file_is_had_by_ixfr_and_survives_restarts() {
    const HOSTS: usize = 50;
    let server = Server::start_in(folder(&version(1, HOSTS)), STATE, WITH_DIFFERENCES);
    for serial in 2..5 {
        change(&server, &version(serial, HOSTS));
    }
    assert_eq!([1, 2, 3, 4].map(|from| since(&server, from, &[])), [steps(3), steps(2), steps(1), 1]);
    let said = server.query(&["example", "IXFR=3"]);
    assert!(said.contains("version-3.example.") && said.contains("version-4.example."), "{said}");
    // A reload of an unchanged file, and of a broken one, changes nothing.
    server.reload();
    server.write("example.zone", "nonsense");
    server.reload_badly();
    assert_eq!(since(&server, 1, &[]), steps(3));
    server.write("example.zone", &version(4, HOSTS));
    let (address, left) = (server.address, server.stop());
    let server = Server::start_at(address, left, STATE, WITH_DIFFERENCES);
    assert_eq!(since(&server, 1, &[]), steps(3), "after a restart");
    change(&server, &version(5, HOSTS));
    assert_eq!(since(&server, 1, &[]), steps(4));
    let left = server.kill();
    let server = Server::start_at(address, left, STATE, WITH_DIFFERENCES);
    assert_eq!(since(&server, 1, &[]), steps(4), "after a crash");
    // The file changes while the server is down: the version served before is in an image.
    let has_image = || [": from image", "image written to"].iter().any(|words| server.log().contains(words));
    eventually("its image is current", &server, has_image);
    let left = server.stop();
    fs::write(left.path().join("example.zone"), version(7, HOSTS)).expect("written");
    let server = Server::start_at(address, left, STATE, WITH_DIFFERENCES);
    assert_eq!([1, 5].map(|from| since(&server, from, &[])), [steps(5), steps(1)]);
    change(&server, &version(8, HOSTS));
    assert_eq!([5, 7].map(|from| since(&server, from, &[])), [steps(2), steps(1)]);
    // Without the image the change is unknown, and the stored differences end at a version that is not in
    // service.
    let left = server.stop();
    fs::remove_file(left.path().join("state/images/example.image")).expect("an image");
    fs::write(left.path().join("example.zone"), version(9, HOSTS)).expect("written");
    let server = Server::start_at(address, left, STATE, WITH_DIFFERENCES);
    assert_eq!([7, 8].map(|from| since(&server, from, &[])), [whole(HOSTS); 2]);
    change(&server, &version(10, HOSTS));
    assert_eq!([8, 9].map(|from| since(&server, from, &[])), [whole(HOSTS), steps(1)]);
}

#[test]
fn a_serial_that_stood_for_two_versions_leads_nowhere() {
    let server = Server::start_in(folder(&version(1, 9)), STATE, WITH_DIFFERENCES);
    change(&server, &version(2, 9));
    assert_eq!(since(&server, 1, &[]), steps(1));
    change(&server, &format!("{}again A 192.0.2.7\n", version(2, 9)));
    assert_eq!(since(&server, 1, &[]), whole(10));
    change(&server, &version(3, 9));
    assert_eq!([1, 2].map(|from| since(&server, from, &[])), [whole(9); 2]);
    change(&server, &version(4, 9));
    assert_eq!([2, 3].map(|from| since(&server, from, &[])), [whole(9), steps(1)]);
    // An older version is restored from a backup.
    change(&server, &version(3, 9));
    assert_eq!(since(&server, 2, &[]), whole(9));
}

#[test]
fn differences_are_kept_of_large_zones_that_somebody_may_have() {
    // More than a thousand records justify it; the file is large enough to be applied as a difference.
    const HOSTS: usize = 12_000;
    let server = Server::start_in(folder(&version(1, HOSTS)), STATE, SHARED);
    change(&server, &version(2, HOSTS));
    change(&server, &version(3, HOSTS));
    assert_eq!(since(&server, 1, &[]), steps(2));
    // More has changed than is left.
    change(&server, &version(4, HOSTS / 3));
    assert_eq!(since(&server, 3, &[]), whole(HOSTS / 3));
    change(&server, &version(5, HOSTS / 3));
    assert_eq!([3, 4].map(|from| since(&server, from, &[])), [whole(HOSTS / 3), steps(1)]);
    // It is turned off, and nothing is left on the disk.
    server.reconfigure(SHARED, &format!("{SHARED}ixfr-from-differences = false\n"));
    server.reload();
    assert_eq!(since(&server, 4, &[]), whole(HOSTS / 3));
    let left = server.stop();
    let files = walk(&left.path().join("state/differences"));
    assert!(files.iter().all(|name| name == "lock"), "{files:?}");
}

#[test]
fn small_zones_and_those_that_nobody_may_have_leave_no_files() {
    let server = Server::start_in(folder(&version(1, 900)), STATE, SHARED);
    change(&server, &version(2, 900));
    assert_eq!(since(&server, 1, &[]), whole(900));
    let left = server.stop();
    assert!(walk(&left.path().join("state/differences")).iter().all(|name| name == "lock"));
    let server = Server::start_in(folder(&version(1, 1100)), STATE, "");
    change(&server, &version(2, 1100));
    let left = server.stop();
    assert!(walk(&left.path().join("state/differences")).iter().all(|name| name == "lock"));
}

#[test]
fn a_zone_that_begins_to_take_updates_goes_on() {
    let server = Server::start_at(free_address(), folder(&version(1, 9)), STATE, WITH_DIFFERENCES);
    change(&server, &version(2, 9));
    assert_eq!(since(&server, 1, &[]), steps(1));
    server.reconfigure("ixfr-from-differences", "allow-update = [\"any\"]\nixfr-from-differences");
    server.reload();
    let script = server.path("script");
    let (ip, port) = (server.address.ip(), server.address.port());
    fs::write(
        &script,
        format!("server {ip} {port}\nzone example\nupdate add new.example 60 A 192.0.2.3\nsend\n"),
    )
    .expect("written");
    let done = crate::support::run(server.folder.path(), &["update", "script"]);
    assert!(done.status.success(), "{}", crate::support::text(&done.stderr));
    // The SOAs, and the added record.
    assert_eq!([1, 2].map(|from| since(&server, from, &[])), [whole(10), 5]);
}

/// Returns the answer to IXFR in a datagram, whose header must be that of a normal answer. `opt` is appended
/// to the query.
fn by_datagram(server: &Server, serial: u32, opt: &[u8]) -> Vec<u8> {
    let mut query = message(7, "example", 251);
    query[9] = 1;
    query[11] = u8::from(!opt.is_empty());
    query.extend([0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 0, 0, 22, 0, 0]);
    query.extend([&serial.to_be_bytes()[..], &[0; 16], opt].concat());
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    socket.send_to(&query, server.address).expect("sent");
    let mut reply = [0; 4096];
    let (len, _) = socket.recv_from(&mut reply).expect("a reply");
    // A response with AA, without TC, NOERROR; at most 512 bytes for a client without EDNS.
    assert_eq!((&reply[..4], len <= 512), (&[0, 7, 0x84, 0][..], true), "{:?}", &reply[..len]);
    reply[..len].to_vec()
}

/// Returns the number of records of such an answer.
fn count_by_datagram(server: &Server, serial: u32) -> u16 {
    let reply = by_datagram(server, serial, &[]);
    u16::from_be_bytes([reply[6], reply[7]])
}

#[test]
fn an_answer_that_came_late_did_not_say_when_the_zone_expires() {
    let server = Server::start_in(folder(&version(1, 3)), STATE, WITH_DIFFERENCES);
    change(&server, &version(2, 3));
    // EXPIRE and ZONEVERSION are requested (RFC 7314, RFC 9660).
    const ASKED: &[u8] = b"\0\0\x29\x02\0\0\0\0\0\0\x08\0\x09\0\0\0\x13\0\0";
    let said =
        [b"\0\x09\0\x04".as_slice(), &86_400_u32.to_be_bytes(), b"\0\x13\0\x06\x01\0\0\0\0\x02"].concat();
    // Differences are read from the disk; that nothing changed is known without reading.
    for (serial, records) in [(1, steps(1)), (2, 1)] {
        let reply = by_datagram(&server, serial, ASKED);
        assert_eq!(usize::from(reply[7]), records);
        assert!(reply.ends_with(&said), "IXFR={serial}: {reply:?}");
    }
}

#[test]
fn a_datagram_has_what_changed_if_it_fits_and_the_serial_if_not() {
    let server = Server::start_in(folder(&version(1, 100)), STATE, WITH_DIFFERENCES);
    assert_eq!(count_by_datagram(&server, 1), 1);
    change(&server, &version(2, 100));
    assert_eq!([1, 2, 3].map(|from| count_by_datagram(&server, from)), [steps(1) as u16, 1, 1]);
    change(&server, &version(3, 50));
    assert_eq!([1, 2, 3].map(|from| count_by_datagram(&server, from)), [1; 3], "fifty records do not fit");
    change(&server, &version(4, 50));
    assert_eq!([2, 3].map(|from| count_by_datagram(&server, from)), [1, steps(1) as u16]);
    // A serial alone is no transfer: the second log line is that of the last difference.
    server.wait_for_log("kind=\"IXFR\" messages=1", 2);
    assert!(
        server
            .log()
            .contains("serial=4 peer=127.0.0.1 transport=\"udp\" key=\"none\" asked=\"IXFR\" kind=\"IXFR\""),
        "{}",
        server.log()
    );
    server.reconfigure("\"any\"", "\"192.0.2.1\"");
    server.reload();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    socket.send_to(&message(7, "example", 251), server.address).expect("sent");
    let mut reply = [0; 512];
    socket.recv_from(&mut reply).expect("a reply");
    assert_eq!(reply[3] & 15, 5);
}

/// Returns the names of the files below a folder.
fn walk(folder: &std::path::Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        match entry.file_type().expect("a kind").is_dir() {
            true => names.extend(walk(&entry.path())),
            false => names.push(entry.file_name().to_string_lossy().into_owned()),
        }
    }
    names
}
