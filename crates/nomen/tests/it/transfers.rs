//! Zone transfers with `nomen query`, from a server that sends what a test wants.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Output;
use std::thread::JoinHandle;

use crate::support::{TEST_TIMEOUT, run, text};

/// A record of `example.`: its SOA with this serial, or an A record.
#[derive(Clone, Copy)]
enum Sent {
    Soa(u8),
    Address,
}

impl Sent {
    fn bytes(self) -> Vec<u8> {
        let (rtype, rdata) = match self {
            Self::Soa(serial) => (6, [&[0, 0, 0, 0, 0, serial][..], &[0; 16]].concat()),
            Self::Address => (1, vec![192, 0, 2, 1]),
        };
        let head = [0xc0, 12, 0, rtype, 0, 1, 0, 0, 0, 60, 0, rdata.len() as u8];
        [&head[..], &rdata].concat()
    }
}

/// Answers one query over TCP with these messages, then closes the connection.
fn peer(rcode: u8, messages: &'static [&'static [Sent]]) -> (SocketAddr, JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut length = [0; 2];
        stream.read_exact(&mut length).expect("a length");
        let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut query).expect("a query");
        let question = &query[12..12 + "example".len() + 2 + 4];
        for records in messages {
            let head = [query[0], query[1], 0x84, rcode, 0, 1, 0, records.len() as u8, 0, 0, 0, 0];
            let records: Vec<u8> = records.iter().flat_map(|record| record.bytes()).collect();
            let message = [&head[..], question, &records].concat();
            stream.write_all(&(message.len() as u16).to_be_bytes()).expect("sent");
            stream.write_all(&message).expect("sent");
        }
        query
    });
    (address, thread)
}

/// Queries such a server.
fn ask(words: &[&str], rcode: u8, messages: &'static [&'static [Sent]]) -> (Output, Vec<u8>) {
    let (address, thread) = peer(rcode, messages);
    let folder = tempfile::tempdir().expect("a folder");
    let at = format!("@{}@{}", address.ip(), address.port());
    let time = format!("+time={}", TEST_TIMEOUT.as_secs());
    let output = run(folder.path(), &[&["query", &at, &time, "example"], words].concat());
    (output, thread.join().expect("the query"))
}

use Sent::{Address, Soa};

#[test]
fn a_transfer_was_cut_after_its_first_message() {
    // Also without +tcp.
    let (output, _) =
        ask(&["AXFR"], 0, &[&[Soa(7), Address], &[Address, Address], &[Address], &[Address, Soa(7)]]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    assert_eq!(said.lines().filter(|line| line.starts_with("example.\t")).count(), 7, "{said}");
    assert!(said.contains(";; XFR size: 7 records (messages 4, bytes "), "{said}");
}

#[test]
fn an_incomplete_transfer_fails() {
    let (output, _) = ask(&["AXFR"], 0, &[&[Soa(7), Address], &[Address, Address]]);
    let faults = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{faults}");
    assert!(faults.contains("is incomplete after 4 records in 2 messages"), "{faults}");
    assert!(faults.contains("closed the connection"), "{faults}");
    assert!(!text(&output.stdout).contains("XFR size"));
}

#[test]
fn a_refused_transfer_fails_with_its_reason() {
    let (output, _) = ask(&["AXFR"], 5, &[&[]]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("the server refuses the transfer: REFUSED"));
}

#[test]
fn ixfr_sends_its_serial_and_reads_the_changes() {
    let (output, query) =
        ask(&["IXFR=5", "+noedns"], 0, &[&[Soa(7), Soa(5), Address], &[Soa(7), Address, Soa(7)]]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    assert!(said.contains(";; XFR size: 6 records"), "{said}");
    // RFC 1995 §3: an SOA with the serial, in the authority section.
    assert_eq!(query[8..10], [0, 1]);
    assert_eq!(query[query.len() - 20..query.len() - 16], [0, 0, 0, 5]);
}

#[test]
fn json_of_a_transfer_is_a_line_for_each_message_and_one_for_the_end() {
    let (output, _) = ask(&["AXFR", "+json"], 0, &[&[Soa(7), Address], &[Address]]);
    let said = text(&output.stdout);
    let lines: Vec<serde_json::Value> =
        said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 3, "{said}");
    assert_eq!((&lines[2]["complete"], &lines[2]["records"]), (&false.into(), &3.into()));
}
