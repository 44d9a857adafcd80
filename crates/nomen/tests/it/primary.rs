//! Transfers to other servers: access control, signatures, limits; and BIND, NSD and Knot as secondaries.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use transfer::incoming::{AskedFor, IncomingTransfer, Received, SentRequest, TransferFault, TransferLimits};
use transfer::tsig::{ResponseError, TsigKey, TsigRcode, read_keys, sign_request};
use wire::hash::HashKey;
use wire::{NameBuf, Rcode, UnixTime};
use zone::Zone;

use crate::support::{APEX, Server, TEST_TIMEOUT, eventually, free_address, message, text};

const AXFR: u16 = 252;
pub(crate) const KEY_FILE: &str = "key \"transfer.example\" {\n\talgorithm hmac-sha256;\n\
                                   \tsecret \"3q2+7wABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhs=\";\n};\n";
const AUDIT: &str = "[log]\naudit-file = \"audit.log\"\n";
const KEY: &str = "key-files = [\"transfer.key\"]\n";

fn now() -> UnixTime {
    SystemTime::now().into()
}

fn key() -> Arc<TsigKey> {
    Arc::new(read_keys(KEY_FILE).expect("a key file").remove(0))
}

/// Starts a server of `example.` with this text, whose zones these clients may transfer, and with more keys
/// of `[transfers]`.
pub(crate) fn primary(zone: &str, allow: &str, keys: &str) -> Server {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), zone).expect("written");
    fs::write(folder.path().join("transfer.key"), KEY_FILE).expect("written");
    Server::start_in(folder, "", &format!("allow-transfer = [{allow}]\n[transfers]\n{KEY}{keys}"))
}

pub(crate) fn connect(server: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(TEST_TIMEOUT))?;
    Ok(stream)
}

pub(crate) fn send(stream: &mut TcpStream, message: &[u8]) -> io::Result<()> {
    let len = u16::try_from(message.len()).expect("a message");
    stream.write_all(&[&len.to_be_bytes()[..], message].concat())
}

pub(crate) fn receive(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut len = [0; 2];
    stream.read_exact(&mut len)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(len))];
    stream.read_exact(&mut message)?;
    Ok(message)
}

/// Transfers a zone from nomen, which never aborts a connection.
pub(crate) fn transfer(
    server: SocketAddr,
    zone: &str,
    key: Option<&Arc<TsigKey>>,
) -> Result<Zone, TransferFault> {
    try_transfer(server, zone, key).expect("a connection that holds")
}

/// Transfers a zone. The connection may fail: NSD ends the processes with the old zone when it loads a new
/// one.
pub(crate) fn try_transfer(
    server: SocketAddr,
    zone: &str,
    key: Option<&Arc<TsigKey>>,
) -> io::Result<Result<Zone, TransferFault>> {
    let mut request = message(7, zone, AXFR);
    let mut verifier = None;
    if let Some(key) = key {
        let len = request.len();
        request.resize(len + 300, 0);
        let (len, theirs) = sign_request(key, &mut request, len, now()).expect("there is room");
        request.truncate(len);
        verifier = Some(theirs);
    }
    let apex: NameBuf = format!("{zone}.").parse().expect("a name");
    let sent = SentRequest { id: 7, apex, asked: AskedFor::Axfr, datagram: false };
    let hash_key = HashKey::new([1, 2, 3]);
    let mut incoming = IncomingTransfer::new(sent, &hash_key, TransferLimits::default(), verifier);
    let mut stream = connect(server)?;
    send(&mut stream, &request)?;
    loop {
        match incoming.message(&receive(&mut stream)?, now()) {
            Ok(Some(Received::Zone(zone))) => return Ok(zone.build()),
            Ok(Some(other)) => panic!("{other:?}"),
            Ok(None) => {}
            Err(fault) => return Ok(Err(fault)),
        }
    }
}

/// Returns its records, as text that shows every difference except letter case: NSD keeps names in lower
/// case.
pub(crate) fn records(zone: &Zone) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut rdata = Vec::new();
    for node in zone {
        for set in node.rrsets() {
            let records = set.rdatas().map(|record| (set.rtype().to_string(), record));
            for (rtype, record) in records.chain(set.sig_rdatas().map(|sig| ("RRSIG".into(), sig))) {
                rdata.clear();
                record.copy_to(&mut rdata);
                rdata.make_ascii_lowercase();
                all.insert(format!("{} {} {rtype} {rdata:02x?}", node.owner().as_name(), record.ttl()));
            }
        }
    }
    all
}

/// Returns the error that a client without access gets.
fn refused(server: &Server, key: Option<&Arc<TsigKey>>) -> TransferFault {
    transfer(server.address, "example", key).expect_err("refused")
}

#[test]
fn a_zone_goes_to_whom_it_is_meant_for_and_to_nobody_else() {
    let server = primary(APEX, "\"key:transfer.example\"", "");
    let zone = transfer(server.address, "example", Some(&key())).expect("the zone");
    // SOA, two NS, two addresses.
    assert_eq!((zone.record_count(), records(&zone).len()), (5, 5));
    assert_eq!(refused(&server, None), TransferFault::Rcode(Rcode::REFUSED));
    let other: NameBuf = "other.example.".parse().expect("a name");
    let other = TsigKey::new(other.as_name(), key().algorithm(), &[1]).expect("a key");
    let unknown = ResponseError::Refused { error: TsigRcode::BADKEY, authentic: false, server_time: None };
    assert_eq!(refused(&server, Some(&Arc::new(other))), TransferFault::Tsig(unknown));
    let wrong = TsigKey::new(key().name().as_name(), key().algorithm(), &[1]).expect("a key");
    let forged = ResponseError::Refused { error: TsigRcode::BADSIG, authentic: false, server_time: None };
    assert_eq!(refused(&server, Some(&Arc::new(wrong))), TransferFault::Tsig(forged));
    eventually("the one transfer is counted", &server, || server.log().contains("transfer sent"));
    assert!(!server.log().contains("3q2+"), "the secret is in the log");
}

#[test]
fn who_may_have_zones_and_which_keys_there_are_changes_at_a_reload() {
    let server = primary(APEX, "\"192.0.2.1\"", "");
    assert_eq!(refused(&server, Some(&key())), TransferFault::Rcode(Rcode::REFUSED));
    server.reconfigure("\"192.0.2.1\"", "\"192.0.2.1\", \"127.0.0.0/8 key:transfer.example\"");
    server.reload();
    transfer(server.address, "example", Some(&key())).expect("the zone");
    assert_eq!(refused(&server, None), TransferFault::Rcode(Rcode::REFUSED));
    // A missing key is a fault of the configuration, and everything stays unchanged.
    server.reconfigure(KEY, "");
    let output = server.ctl(&["reload"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(said.contains("there is no key transfer.example"), "{said}");
    transfer(server.address, "example", Some(&key())).expect("the zone");
}

#[test]
fn a_key_file_that_cannot_be_read_is_reported_with_its_place() {
    let server = primary(APEX, "\"key:transfer.example\"", "");
    server.write("transfer.key", &KEY_FILE.replace("secret \"", "secret \"?"));
    let output = server.ctl(&["reload"]);
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(said.contains("transfer.key:3:9: the secret is not base64"), "{said}");
    transfer(server.address, "example", Some(&key())).expect("the keys stay");
}

/// Returns a zone that fills the buffers of a connection, so that its transfer cannot end before it is read.
fn large() -> String {
    let names: String = (0..400_000).map(|n| format!("host-number-{n} A 192.0.2.1\n")).collect();
    format!("{APEX}{names}")
}

#[test]
fn of_transfers_only_so_many_are_under_way() {
    let limits = "outgoing = 2\noutgoing-per-network = 2\noutgoing-stall = \"10m\"\n";
    let server = primary(&large(), "\"any\"", &format!("{limits}{AUDIT}"));
    let mut held: Vec<TcpStream> = (0..2).map(|_| connect(server.address).expect("a connection")).collect();
    for stream in &mut held {
        send(stream, &message(1, "example", AXFR)).expect("sent");
        assert_eq!(receive(stream).expect("a reply")[3] & 15, 0);
    }
    assert_eq!(refused(&server, None), TransferFault::Rcode(Rcode::SERVFAIL));
    // Other queries are answered meanwhile.
    assert!(server.query(&["host-number-7.example"]).contains("192.0.2.1"));
    drop(held.pop());
    eventually("there is a place again", &server, || transfer(server.address, "example", None).is_ok());
    server.wait_for_log("transfer broken off", 1);
    let audit = || fs::read_to_string(server.path("audit.log")).unwrap_or_default();
    let refused = "transfer refused zone=example. client=127.0.0.1 key=\"none\" reason=\"too many transfers \
                   are under way\"";
    eventually("the refused one is in the audit file", &server, || audit().contains(refused));
    eventually("so is the one broken off", &server, || audit().contains("transfer broken off zone="));
}

#[test]
fn clients_that_do_not_read_left_no_place_for_others() {
    // Without `outgoing-stall`, transfer slots would be free only after this timeout.
    let keys = "tcp-write-timeout = \"10m\"\n";
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), large()).expect("written");
    let limits = "[transfers]\noutgoing = 8\noutgoing-stall = \"50ms\"\n";
    let server = Server::start_in(folder, keys, &format!("allow-transfer = [\"any\"]\n{limits}{AUDIT}"));
    let mut held: Vec<TcpStream> = (0..8).map(|_| connect(server.address).expect("a connection")).collect();
    for stream in &mut held {
        send(stream, &message(1, "example", AXFR)).expect("sent");
        assert_eq!(receive(stream).expect("a reply")[3] & 15, 0);
    }
    eventually("one of them gives up its place", &server, || {
        transfer(server.address, "example", None).is_ok()
    });
    drop(held);
    server.wait_for_log("another needed its place", 1);
    let audit = || fs::read_to_string(server.path("audit.log")).unwrap_or_default();
    let evicted = "transfer broken off: it had stalled, and another needed its place zone=";
    eventually("the audit file has it", &server, || audit().contains(evicted));
}

#[test]
fn clients_that_read_slowly_left_no_place_for_others() {
    let limits = "outgoing = 8\noutgoing-stall = \"10m\"\noutgoing-min-rate = 1_000_000_000\n";
    let server = primary(&large(), "\"any\"", limits);
    let mut held: Vec<TcpStream> = (0..8).map(|_| connect(server.address).expect("a connection")).collect();
    for stream in &mut held {
        send(stream, &message(1, "example", AXFR)).expect("sent");
        assert_eq!(receive(stream).expect("a reply")[3] & 15, 0);
    }
    let mut read = 0;
    eventually("one of them gives up its place", &server, || {
        read += 1;
        if read < 50 {
            held.iter_mut().for_each(|stream| drop(receive(stream).expect("a message")));
        }
        transfer(server.address, "example", None).is_ok()
    });
    drop(held);
    server.wait_for_log("it was slower than `outgoing-min-rate`, and another needed its place", 1);
}

#[test]
fn clients_who_may_not_have_a_zone_use_up_nothing() {
    let server = primary(APEX, "\"key:transfer.example\"", "outgoing = 1\noutgoing-per-client = 1\n");
    let mut strangers: Vec<TcpStream> =
        (0..20).map(|_| connect(server.address).expect("a connection")).collect();
    for stranger in &mut strangers {
        send(stranger, &message(1, "example", AXFR)).expect("sent");
        assert_eq!(receive(stranger).expect("a reply")[3] & 15, 5);
        // It repeats the request, and stays connected.
        send(stranger, &message(2, "example", AXFR)).expect("sent");
    }
    let wrong = TsigKey::new(key().name().as_name(), key().algorithm(), &[1]).expect("a key");
    let wrong = Arc::new(wrong);
    for _ in 0..3 {
        refused(&server, Some(&wrong));
        transfer(server.address, "example", Some(&key())).expect("the one place is free");
    }
}

/// Another server; killed when dropped.
pub(crate) struct OtherServer {
    kind: &'static str,
    pub(crate) address: SocketAddr,
    pub(crate) child: Child,
    pub(crate) folder: tempfile::TempDir,
}

impl OtherServer {
    /// Returns the zone, once this server has it and can transfer it.
    pub(crate) fn zone(&self, name: &str) -> Option<Zone> {
        try_transfer(self.address, name, None).ok()?.ok()
    }
}

impl Drop for OtherServer {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts the server, if it is installed, with these arguments followed by the path of its configuration.
/// Where everything must be installed, its absence is a failure.
pub(crate) fn other(
    kind: &'static str,
    program: &str,
    arguments: &[&str],
    config: impl Fn(SocketAddr, &Path) -> String,
) -> Option<OtherServer> {
    let arguments: Vec<&str> = arguments.iter().copied().chain(["config"]).collect();
    other_in_folder(kind, program, &arguments, config)
}

/// Like [`other`], with these arguments only: it runs in a folder in which its configuration is the file
/// `config`.
pub(crate) fn other_in_folder(
    kind: &'static str,
    program: &str,
    arguments: &[&str],
    config: impl Fn(SocketAddr, &Path) -> String,
) -> Option<OtherServer> {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let found = path.split(':').any(|folder| Path::new(folder).join(program).exists());
    if !found {
        testkit::left_out(&format!("{program} is missing, and with it {kind}"));
        return None;
    }
    // BIND only listens on addresses of interfaces.
    let address = match kind {
        "BIND" => TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port"),
        _ => free_address(),
    };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("config");
    fs::write(&file, config(address, folder.path())).expect("written");
    let child = Command::new(program)
        .args(arguments)
        .env("PATH", path)
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(folder.path().join("log")).expect("a log"))
        .spawn()
        .expect("it starts");
    Some(OtherServer { kind, address, child, folder })
}

fn bind(primary: SocketAddr) -> impl Fn(SocketAddr, &Path) -> String {
    move |own, folder| {
        let folder = folder.display();
        format!(
            "{KEY_FILE}options {{ directory \"{folder}\"; pid-file none; session-keyfile none; \
             lock-file none;\n\
             listen-on port {} {{ {}; }}; listen-on-v6 {{ none; }}; recursion no; notify no;\n\
             allow-transfer {{ any; }}; }};\ncontrols {{ }};\n\
             zone \"example\" {{ type secondary; file \"example.zone\";\n\
             primaries {{ {} port {} key transfer.example; }}; }};\n",
            own.port(),
            own.ip(),
            primary.ip(),
            primary.port()
        )
    }
}

fn nsd(primary: SocketAddr) -> impl Fn(SocketAddr, &Path) -> String {
    move |own, folder| {
        let folder = folder.display();
        format!(
            "server:\n ip-address: {}@{}\n username: \"\"\n chroot: \"\"\n zonesdir: \"{folder}\"\n \
             database: \"\"\n\
             pidfile: \"\"\n xfrdfile: \"\"\n xfrdir: \"{folder}\"\n zonelistfile: \"{folder}/zone.list\"\n\
             remote-control:\n control-enable: no\n\
             key:\n name: transfer.example\n algorithm: hmac-sha256\n secret: \"{}\"\n\
             zone:\n name: example\n zonefile: example.zone\n request-xfr: AXFR {}@{} transfer.example\n\
             provide-xfr: 0.0.0.0/0 NOKEY\n",
            own.ip(),
            own.port(),
            secret(),
            primary.ip(),
            primary.port()
        )
    }
}

fn knot(primary: SocketAddr) -> impl Fn(SocketAddr, &Path) -> String {
    move |own, folder| {
        let folder = folder.display();
        format!(
            "server:\n  rundir: \"{folder}\"\n  listen: {}@{}\ndatabase:\n  storage: \"{folder}\"\n\
             key:\n  - id: transfer.example\n    algorithm: hmac-sha256\n    secret: {}\n\
             remote:\n  - id: nomen\n    address: {}@{}\n    key: transfer.example\n\
             acl:\n  - id: all\n    address: 0.0.0.0/0\n    action: transfer\n\
             zone:\n  - domain: example\n    storage: \"{folder}\"\n    master: nomen\n    acl: all\n",
            own.ip(),
            own.port(),
            secret(),
            primary.ip(),
            primary.port()
        )
    }
}

pub(crate) fn secret() -> &'static str {
    KEY_FILE.split('"').nth(3).expect("a secret")
}

/// Records of many types, wildcards, delegations with glue, letter case, long TXT.
pub(crate) const VARIED: &str = "*.wild 300 TXT \"a\" \"b\"\nsub NS ns.sub\nsub NS ns1\nns.sub A 192.0.2.3\n\
                                 ns.sub AAAA 2001:db8::3\n\
                                 MiXed.Case 5 MX 10 Mail.Elsewhere.NET.\nservice SRV 1 2 53 ns1\n\
                                 alias CNAME MiXed.Case\nd DNAME elsewhere.net.\n\
                                 caa CAA 0 issue \"ca.example.net\"\nodd TYPE65280 \\# 3 010203\n\
                                 https HTTPS 1 . alpn=h2,h3 ipv4hint=192.0.2.9\n";

#[test]
fn bind_nsd_and_knot_take_a_zone_and_have_all_of_it() {
    let hosts: String = (0..5_000).map(|n| format!("host-{n} A 192.0.2.{}\n", n % 250)).collect();
    let primary = primary(&format!("{APEX}{VARIED}{hosts}"), "\"key:transfer.example\"", "");
    let wanted = records(&transfer(primary.address, "example", Some(&key())).expect("the zone"));
    assert_eq!(wanted.len(), 5_017);
    let peers = [
        other("BIND", "named", &["-g", "-c"], bind(primary.address)),
        other("NSD", "nsd", &["-d", "-c"], nsd(primary.address)),
        other("Knot", "knotd", &["-c"], knot(primary.address)),
    ];
    for peer in peers.into_iter().flatten() {
        let until = Instant::now() + TEST_TIMEOUT;
        let taken = loop {
            if let Some(zone) = peer.zone("example") {
                break zone;
            }
            assert!(Instant::now() < until, "{} has no zone\n{}", peer.kind, primary.log());
            std::thread::sleep(std::time::Duration::from_millis(50));
        };
        let taken = records(&taken);
        let differences: Vec<_> = taken.symmetric_difference(&wanted).take(5).collect();
        assert!(differences.is_empty(), "{}: {differences:#?}", peer.kind);
    }
}

#[test]
fn ixfr_that_finds_nothing_was_a_transfer_and_a_whole_zone_was_called_ixfr() {
    let server = Server::start(
        APEX,
        "[[zone]]\nname = \"example\"\nfile = \"example.zone\"\nallow-transfer = [\"any\"]\n",
    );
    let ask = |serial: &str| {
        let output = server.query(&["example", &format!("IXFR={serial}"), "+tcp", "+short"]);
        assert!(output.starts_with("ns1.example. admin.example. 1 "), "{output}");
    };
    ask("1");
    ask("0");
    eventually("both are over", &server, || server.log().contains("transfer sent"));
    let log = server.log();
    let sent: Vec<&str> = log.lines().filter(|line| line.contains("transfer sent")).collect();
    assert_eq!(sent.len(), 1, "{log}");
    assert!(sent[0].contains("from=\"0\"") && sent[0].contains("asked=\"IXFR\" kind=\"AXFR\""), "{log}");
}
