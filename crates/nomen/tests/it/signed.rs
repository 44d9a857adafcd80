//! Signed queries and transfers of `nomen query` (TSIG).

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::Output;

use crate::primary::{KEY_FILE, connect, primary, receive, send};
use crate::support::{APEX, Server, run, text};

const ALLOWED: &str = "\"key:transfer.example\"";

/// Queries a server with `nomen query` and these arguments, in a folder with the key file.
fn ask(server: SocketAddr, words: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("transfer.key"), KEY_FILE).expect("written");
    ask_in(folder.path(), server, words)
}

fn ask_in(folder: &Path, server: SocketAddr, words: &[&str]) -> Output {
    let at = format!("@{}@{}", server.ip(), server.port());
    run(folder, &[&["query", &at, "+tries=1"], words].concat())
}

fn signed(server: SocketAddr, words: &[&str]) -> Output {
    ask(server, &[&["-k", "transfer.key"], words].concat())
}

#[test]
fn signed_queries_are_verified() {
    let server = primary(APEX, ALLOWED, "");
    let refused = ask(server.address, &["example", "AXFR"]);
    assert_eq!(refused.status.code(), Some(1), "without the key");
    let output = signed(server.address, &["example", "SOA"]);
    let printed = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(printed.contains(";; TSIG: verified, key transfer.example. (hmac-sha256)\n"), "{printed}");
    let json = text(&signed(server.address, &["example", "SOA", "+json"]).stdout);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&json["tsig"]["verified"], &json["tsig"]["fault"]), (&true.into(), &serde_json::Value::Null));
    let output = signed(server.address, &["example", "IXFR=1", "+short"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn what_the_server_says_of_a_signature_is_named() {
    let server = primary(APEX, ALLOWED, "");
    for (key, fault) in [
        ("transfer.example:c2VjcmV0", "BADSIG"),
        ("other.example:c2VjcmV0", "BADKEY"),
        ("hmac-sha512:transfer.example:c2VjcmV0", "BADKEY"),
    ] {
        for words in [["example", "SOA"], ["example", "AXFR"], ["example", "IXFR=1"]] {
            let output = ask(server.address, &[&["-y", key], &words[..]].concat());
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(said.contains("refuses the signature") && said.contains(fault), "{words:?}: {said}");
        }
    }
}

/// Starts a relay between the client and the server that changes the messages of one connection.
fn between(server: SocketAddr, change: impl Fn(usize, &mut Vec<u8>) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        let mut server = connect(server).expect("a connection");
        let request = receive(&mut client).expect("a request");
        send(&mut server, &request).expect("sent");
        // Until either end closes the connection.
        for number in 0.. {
            let Ok(mut message) = receive(&mut server) else { return };
            change(number, &mut message);
            let Ok(()) = send(&mut client, &message) else { return };
        }
    });
    address
}

/// Starts a server of a zone whose transfer takes several messages.
fn several_messages() -> Server {
    let names: String = (0..2_000).map(|n| format!("host-number-{n} A 192.0.2.1\n")).collect();
    primary(&format!("{APEX}{names}"), ALLOWED, "")
}

#[test]
fn nothing_of_a_transfer_is_printed_that_no_signature_proves() {
    let server = several_messages();
    let good = signed(server.address, &["example", "AXFR"]);
    let whole = text(&good.stdout);
    assert!(good.status.success() && whole.contains("TSIG: verified, key transfer.example."), "{whole}");
    let lines =
        |output: &Output| text(&output.stdout).lines().filter(|line| line.contains("192.0.2.1")).count();
    assert_eq!(lines(&good), 2_001);
    // One bit in the second message.
    let forger = between(server.address, |number, message| {
        if number == 1 {
            let middle = message.len() / 2;
            message[middle] ^= 1;
        }
    });
    let output = signed(forger, &["example", "AXFR"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("cannot be trusted"), "{said}");
    assert!((1..2_001).contains(&lines(&output)), "what the first message proved is printed");
    // Messages without a signature prove nothing, and the first must have one.
    let stripper = between(server.address, |_, message| {
        // TSIG is the last record: with the key's name, ten bytes, and its RDATA.
        let tsig = 18 + 10 + 13 + 16 + 32;
        message.truncate(message.len() - tsig);
        message[11] -= 1;
    });
    let output = signed(stripper, &["example", "AXFR", "+short"]);
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(3), ""), "{said}");
    assert!(said.contains("NOERROR, not signed where it must be"), "{said}");
}

#[test]
fn an_answer_without_a_signature_is_not_believed() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("bound");
    let peer = std::thread::spawn(move || {
        let mut query = [0; 512];
        let (size, from) = socket.recv_from(&mut query).expect("a query");
        query[2] |= 0x80;
        // Without its last record, the signature.
        query[11] -= 1;
        let tsig = 18 + 10 + 13 + 16 + 32;
        socket.send_to(&query[..size - tsig], from).expect("sent");
    });
    let output = signed(address, &["example", "SOA", "+short"]);
    peer.join().expect("asked");
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(3), ""));
    assert!(
        text(&output.stderr).contains("NOERROR, not signed where it must be"),
        "{}",
        text(&output.stderr)
    );
}
