//! Zone transfers over TLS (RFC 9103): from nomen, BIND, Knot and NSD, and when the connection cannot be
//! secured or breaks.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tempfile::TempDir;

use crate::metrics::http;
use crate::primary::{KEY_FILE, OtherServer, VARIED, other, records, transfer};
use crate::support::{APEX, Server, eventually, free_address, run, text, written};

const KEYS: &str = "[transfers]\nkey-files = [\"transfer.key\"]\n";
const CERTIFICATE: &str = "[[certificate]]\nchain = \"server.pem\"\nkey = \"server.key\"\n";

/// A CA that signs certificates of servers and of clients.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate and its key, as PEM.
pub(crate) struct Signed {
    pub(crate) chain: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        // Of two CAs with one name, a verifier would take the one for the other, and find a bad signature.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        params.distinguished_name.push(DnType::CommonName, format!("CA {number}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("signed");
        let pem = testkit::pem("CERTIFICATE", certificate.der());
        Authority { issuer: Issuer::new(params, key), pem }
    }

    /// Signs a certificate for a name, which has expired or not.
    pub(crate) fn sign(&self, name: &str, expired: bool) -> Signed {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(if expired { 2021 } else { 2100 }, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        let chain = testkit::pem("CERTIFICATE", certificate.der());
        Signed { chain, key: testkit::pem("PRIVATE KEY", &key.serialize_der()) }
    }

    /// Returns a folder with the certificate of the CA, and one for this name.
    pub(crate) fn folder(&self, name: &str) -> TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("transfer.key"), KEY_FILE).expect("written");
        self.write(folder.path(), &self.sign(name, false));
        folder
    }

    /// Writes the certificate of the CA, and that of a server or client.
    pub(crate) fn write(&self, folder: &Path, signed: &Signed) {
        fs::write(folder.join("ca.pem"), &self.pem).expect("written");
        fs::write(folder.join("server.pem"), &signed.chain).expect("written");
        fs::write(folder.join("server.key"), &signed.key).expect("written");
        let mode = fs::Permissions::from_mode(0o600);
        fs::set_permissions(folder.join("server.key"), mode).expect("changed");
    }
}

/// Returns a server as `primaries` names it.
pub(crate) fn over_tls(address: SocketAddr, identity: &str, more: &str) -> String {
    format!("\"{}#{identity}{more}\"", written(address).trim_matches('"'))
}

/// A primary of `example.` that answers over TLS.
struct Primary {
    server: Server,
    tls: SocketAddr,
    figures: SocketAddr,
}

/// Starts a primary with the certificate in this folder, and more keys of its zone and more sections.
fn primary(folder: TempDir, keys: &str, more: &str) -> Primary {
    primary_with(folder, "", keys, more)
}

/// Like [`primary`], with more keys of `[server]`.
fn primary_with(folder: TempDir, server: &str, keys: &str, more: &str) -> Primary {
    let [tls, figures] = [free_address(), free_address()];
    fs::write(folder.path().join("example.zone"), format!("{APEX}{VARIED}")).expect("written");
    let sections = format!(
        "[[zone]]\nname = \"example\"\nfile = \"example.zone\"\nixfr-from-differences = true\n{keys}\
         [[listen]]\naddr = [{}]\nproto = [\"tls\"]\n[metrics]\nlisten = {}\n{CERTIFICATE}{KEYS}{more}",
        written(tls),
        written(figures)
    );
    let sections = format!("{sections}[log]\naudit-file = \"audit.log\"\n");
    let server = Server::start_in(folder, &format!("state-dir = \"state\"\n{server}"), &sections);
    Primary { server, tls, figures }
}

/// Starts a secondary of `example.` at an address, with more keys of the zone.
fn secondary(address: SocketAddr, authority: &Authority, primaries: &str, keys: &str) -> Server {
    let zone = format!(
        "[[zone]]\nname = \"example\"\nprimaries = [{primaries}]\nallow-transfer = [\"any\"]\n{keys}{KEYS}"
    );
    Server::start_at(address, authority.folder("secondary.example"), "state-dir = \"state\"\n", &zone)
}

fn known(server: &Server, zone: &str) -> serde_json::Value {
    server.ctl_json(&["zone", "status", zone])["transfers"].clone()
}

fn fault(server: &Server) -> String {
    known(server, "example")["fault"]["fault"].as_str().unwrap_or_default().to_owned()
}

fn has(server: &Server, name: &str, address: &str) -> bool {
    server.query(&[name, "A"]).contains(address)
}

/// Gives the primary's zone another serial and the name `new.example`.
fn change(primary: &Server, serial: u8) {
    let zone = APEX.replace("admin 1 ", &format!("admin {serial} "));
    primary.write("example.zone", &format!("{zone}{VARIED}new A 192.0.2.{serial}\n"));
    primary.reload();
}

#[test]
fn all_exchanges_with_a_primary_over_tls_are_over_tls() {
    let authority = Authority::new();
    let here = free_address();
    let notify = format!("allow-transfer = [\"key:transfer.example\"]\nnotify = [{}]\n", written(here));
    let first = primary(authority.folder("ns1.example"), &notify, "");
    let identity = over_tls(first.tls, "ns1.example", " key:transfer.example");
    let keys = "ca-file = \"ca.pem\"\nallow-notify = [\"127.0.0.0/8\"]\n";
    let second = secondary(here, &authority, &identity, keys);
    eventually("it is taken", &second, || known(&second, "example")["state"] == "fresh");
    change(&first.server, 2);
    eventually("it is announced and taken", &second, || has(&second, "new.example", "192.0.2.2"));
    let status = known(&second, "example");
    let shown = format!("{}@{}#ns1.example", first.tls.ip(), first.tls.port());
    assert_eq!(status["primaries"][0], shown.as_str());
    assert_eq!(
        (&status["last_transfer"]["kind"], &status["fault"]),
        (&"IXFR".into(), &serde_json::Value::Null)
    );
    second.wait_for_log("transfer received", 2);
    let log = second.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("transfer received")).collect();
    assert!(lines.len() == 2 && lines.iter().all(|line| line.contains("transport=\"tls\"")), "{log}");
    assert_eq!(
        records(&transfer(second.address, "example", None).expect("transferred")).len(),
        text(&first.server.ctl(&["zone", "dump", "example"]).stdout).lines().count()
    );
    // Every query of the secondary was one over TLS.
    let figures = http(first.figures, "GET /metrics");
    let count = |transport: &str| {
        let of = |line: &&str| {
            line.starts_with("nomen_queries_total") && line.contains(&format!("transport=\"{transport}\""))
        };
        figures
            .lines()
            .filter(of)
            .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
            .sum::<u64>()
    };
    assert!(count("tls") >= 3, "{figures}");
    assert_eq!(count("tcp"), 0, "{figures}");
}

/// Tries one identity and certificate of a primary whose zone a secondary has: its fault is named, and the
/// version before stays in service.
fn refused(authority: &Authority, signed: &Signed, identity: &str, ca_file: bool, expected: &str) {
    let first = primary(authority.folder("ns1.example"), "allow-transfer = [\"any\"]\n", "");
    let here = free_address();
    let good = over_tls(first.tls, "ns1.example", "");
    let second = secondary(here, authority, &good, "ca-file = \"ca.pem\"\n");
    eventually("it is taken", &second, || known(&second, "example")["state"] == "fresh");
    authority.write(first.server.folder.path(), signed);
    change(&first.server, 2);
    if !ca_file {
        second.reconfigure("ca-file = \"ca.pem\"\n", "");
    }
    second.reconfigure("#ns1.example", &format!("#{identity}"));
    second.reload();
    second.ctl_json(&["zone", "refresh", "example"]);
    eventually(expected, &second, || fault(&second) == expected);
    second.wait_for_log(&format!("#{identity}: {expected}"), 1);
    assert!(has(&second, "ns1.example", "192.0.2.1"));
    assert_eq!(known(&second, "example")["serial"], 1);
}

#[test]
fn a_primary_that_is_not_authenticated_is_not_used_and_its_fault_is_named() {
    let authority = Authority::new();
    let good = || authority.sign("ns1.example", false);
    let name = "TLS: the server's certificate does not match its name";
    refused(&authority, &good(), "ns2.example", true, name);
    let expired = authority.sign("ns1.example", true);
    refused(&authority, &expired, "ns1.example", true, "TLS: the server's certificate has expired");
    let pin = "sha256/AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    refused(&authority, &good(), pin, false, "TLS: the server's key matches no pin");
    let other = Authority::new().sign("ns1.example", false);
    refused(
        &authority,
        &other,
        "ns1.example",
        true,
        "TLS: the server's certificate is from an unknown issuer",
    );
}

/// A socket that accepts connections and answers none, and the datagrams that come to its port.
struct Silent {
    listener: TcpListener,
    datagrams: UdpSocket,
}

impl Silent {
    fn open() -> Self {
        let listener = TcpListener::bind(free_address()).expect("a port");
        let datagrams = UdpSocket::bind(listener.local_addr().expect("bound")).expect("a port");
        datagrams.set_nonblocking(true).expect("set");
        Silent { listener, datagrams }
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("bound")
    }
}

#[test]
fn a_handshake_that_does_not_end_is_a_fault_and_nothing_goes_in_the_clear() {
    let (authority, silent) = (Authority::new(), Silent::open());
    let identity = over_tls(silent.address(), "opportunistic", "");
    let second = secondary(free_address(), &authority, &identity, "");
    let (mut stream, _) = silent.listener.accept().expect("a connection");
    let mut record = [0; 2];
    stream.read_exact(&mut record).expect("a record");
    assert_eq!(record, [22, 3], "a handshake of TLS");
    eventually("it is a fault", &second, || fault(&second) == "TLS: handshake timeout");
    assert!(silent.datagrams.recv(&mut [0; 512]).is_err(), "a query in the clear");
    // A closed port.
    let closed = silent.address();
    drop(stream);
    drop(silent.listener);
    second.ctl_json(&["zone", "refresh", "example"]);
    eventually("it is a fault", &second, || fault(&second) == "TLS: connection refused");
    assert!(silent.datagrams.recv(&mut [0; 512]).is_err(), "a query in the clear to {closed}");
}

/// Ends TLS in front of a server: passes queries on over TCP, and at most so many bytes of answers back,
/// after which it resets the connection.
fn relay(signed: &Signed, to: SocketAddr, most: usize) -> SocketAddr {
    let chain = vec![CertificateDer::from_pem_slice(signed.chain.as_bytes()).expect("a certificate")];
    let key = PrivateKeyDer::from_pem_slice(signed.key.as_bytes()).expect("a key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.expect("versions").with_no_client_auth();
    let config = Arc::new(builder.with_single_cert(chain, key).expect("settings"));
    let listener = TcpListener::bind(free_address()).expect("a port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let connection = ServerConnection::new(Arc::clone(&config)).expect("a connection");
            let mut stream = StreamOwned::new(connection, stream);
            let mut exchange = || -> std::io::Result<()> {
                let mut len = [0; 2];
                stream.read_exact(&mut len)?;
                let mut query = vec![0; u16::from_be_bytes(len).into()];
                stream.read_exact(&mut query)?;
                let mut server = TcpStream::connect(to)?;
                server.write_all(&[&len[..], &query].concat())?;
                server.shutdown(std::net::Shutdown::Write)?;
                let mut answer = Vec::new();
                server.read_to_end(&mut answer)?;
                answer.truncate(most);
                stream.write_all(&answer)?;
                stream.flush()
            };
            // The client may have ended the connection.
            let _ = exchange();
        }
    });
    address
}

#[test]
fn a_primary_that_breaks_a_transfer_off_leaves_the_version_before_in_service() {
    let authority = Authority::new();
    let signed = authority.sign("ns1.example", false);
    let long: String = (0..2000).map(|n| format!("n{n} TXT \"{}\"\n", "x".repeat(60))).collect();
    let first = primary(authority.folder("ns1.example"), "allow-transfer = [\"any\"]\n", "");
    let broken = relay(&signed, first.server.address, 4000);
    let here = free_address();
    let second =
        secondary(here, &authority, &over_tls(first.tls, "ns1.example", ""), "ca-file = \"ca.pem\"\n");
    eventually("it is taken", &second, || known(&second, "example")["state"] == "fresh");
    let zone = APEX.replace("admin 1 ", "admin 2 ");
    first.server.write("example.zone", &format!("{zone}{long}"));
    first.server.reload();
    let port = |address: SocketAddr| format!("{}@{}#", address.ip(), address.port());
    second.reconfigure(&port(first.tls), &port(broken));
    second.reload();
    second.ctl_json(&["zone", "retransfer", "example"]);
    let expected = "it ended the connection before the transfer was over";
    eventually("it is a fault", &second, || fault(&second) == expected);
    assert!(has(&second, "ns1.example", "192.0.2.1"));
    assert_eq!(known(&second, "example")["serial"], 1);
}

#[test]
fn updates_for_a_secondary_reach_its_primary_over_tls() {
    let authority = Authority::new();
    let keys = "allow-transfer = [\"key:transfer.example\"]\nallow-update = [\"key:transfer.example\"]\n";
    let first = primary(authority.folder("ns1.example"), keys, "");
    let here = free_address();
    let identity = over_tls(first.tls, "ns1.example", " key:transfer.example");
    let second =
        secondary(here, &authority, &identity, "ca-file = \"ca.pem\"\nforward-updates = [\"any\"]\n");
    eventually("it is taken", &second, || known(&second, "example")["state"] == "fresh");
    let script = format!(
        "server {} {}\nzone example\nupdate add up.example 60 A 192.0.2.77\nsend\n",
        here.ip(),
        here.port()
    );
    fs::write(second.path("script"), script).expect("written");
    let output = run(second.folder.path(), &["update", "--key-file", "transfer.key", "script"]);
    assert!(output.status.success(), "{}{}", text(&output.stderr), second.log());
    eventually("it is changed", &first.server, || has(&first.server, "up.example", "192.0.2.77"));
    second.wait_for_log("update passed on client=", 1);
    let figures = http(first.figures, "GET /metrics");
    let of_tcp = |line: &&str| {
        line.starts_with("nomen_queries_total") && line.contains("transport=\"tcp\"") && !line.ends_with(" 0")
    };
    assert_eq!(figures.lines().find(of_tcp), None);
}

#[test]
fn nomen_update_sends_over_tls_to_an_authenticated_server_alone() {
    let authority = Authority::new();
    let first = primary(authority.folder("ns1.example"), "allow-update = [\"key:transfer.example\"]\n", "");
    let zone = "zone example\nupdate add up.example 60 A 192.0.2.78\nsend\n";
    fs::write(first.server.path("script"), zone).expect("written");
    let server = format!("{}#{}", first.tls.ip(), first.tls.port());
    let update = |options: &[&str]| {
        let words = ["update", "--key-file", "transfer.key", "--server", &server, "script"];
        run(first.server.folder.path(), &[&words[..], options].concat())
    };
    let wrong = update(&["+tls-ca=ca.pem", "+tls-hostname=ns2.example"]);
    let said = text(&wrong.stderr);
    assert!(said.contains("over TLS: the server's certificate does not match its name"), "{said}");
    assert!(!has(&first.server, "up.example", "192.0.2.78"));
    let output = update(&["+tls-ca=ca.pem", "+tls-hostname=ns1.example"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(has(&first.server, "up.example", "192.0.2.78"));
    let figures = http(first.figures, "GET /metrics");
    let of_update = |line: &&str| line.starts_with("nomen_net_queries_total") && line.contains("\"tls\"");
    assert!(figures.lines().filter(of_update).any(|line| !line.ends_with(" 0")), "{figures}");
    // An option that is none of TLS, and a second script.
    let unknown = update(&["+tlz"]);
    assert!(text(&unknown.stderr).contains("tls"), "{}", text(&unknown.stderr));
    assert!(text(&update(&["other"]).stderr).contains("one script at most"));
}

#[test]
fn a_secondary_is_notified_over_tls() {
    let authority = Authority::new();
    let [here, tls] = [free_address(), free_address()];
    let there = free_address();
    let listen = format!("[[listen]]\naddr = [{}]\nproto = [\"tls\"]\n{CERTIFICATE}", written(tls));
    let zone = format!(
        "[[zone]]\nname = \"example\"\nprimaries = [{}]\nallow-notify = [\"127.0.0.0/8\"]\n{listen}{KEYS}",
        written(there)
    );
    let second = Server::start_at(here, authority.folder("ns2.example"), "state-dir = \"state\"\n", &zone);
    let folder = authority.folder("ns1.example");
    fs::write(folder.path().join("example.zone"), APEX).expect("written");
    let identity = over_tls(tls, "ns2.example", "");
    let zone = format!(
        "[[zone]]\nname = \"example\"\nfile = \"example.zone\"\nallow-transfer = [\"any\"]\n\
         notify = [{identity}]\nca-file = \"ca.pem\"\n"
    );
    let first = Server::start_at(there, folder, "state-dir = \"state\"\n", &zone);
    eventually("it is taken", &second, || known(&second, "example")["state"] == "fresh");
    change(&first, 2);
    eventually("it is announced and taken", &second, || has(&second, "new.example", "192.0.2.2"));
    first.reconfigure("#ns2.example", "#ns3.example");
    first.reload();
    change(&first, 3);
    first.wait_for_log("NOTIFY not sent to ", 1);
    assert!(first.log().contains("TLS: the server's certificate does not match its name"), "{}", first.log());
}

const CLIENT: &str = "ca-file = \"ca.pem\"\nclient-chain = \"server.pem\"\nclient-key = \"server.key\"\n";

#[test]
fn a_certificate_of_the_client_decides_who_may_transfer() {
    let authority = Authority::new();
    let folder = authority.folder("ns1.example");
    let signed = |name: &str, expired| authority.sign(name, expired);
    let pinned = Authority::new().sign("any.example", false);
    let pin = Command::new("sh")
        .args(["-c", "openssl x509 -in \"$0\" -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64"])
        .arg({
            fs::write(folder.path().join("pinned.pem"), &pinned.chain).expect("written");
            folder.path().join("pinned.pem")
        })
        .output()
        .expect("openssl runs");
    let pin = text(&pin.stdout).trim().to_owned();
    let keys = format!("allow-transfer = [\"cert:NS2.example\", \"127.0.0.0/8 cert:sha256/{pin}\"]\n");
    let server = "client-ca-file = \"ca.pem\"\n";
    let first = primary_with(folder, server, &keys, "");
    let kdig = |signed: Option<&Signed>, words: &[&str]| {
        let mut command = Command::new("kdig");
        command.arg(format!("@{}", first.tls.ip())).args(["-p", &first.tls.port().to_string(), "+tls"]);
        let own = tempfile::tempdir().expect("a folder");
        if let Some(signed) = signed {
            authority.write(own.path(), signed);
            command.arg(format!("+tls-certfile={}", own.path().join("server.pem").display()));
            command.arg(format!("+tls-keyfile={}", own.path().join("server.key").display()));
        }
        let output = command.args(words).output().expect("kdig runs");
        text(&output.stdout) + &text(&output.stderr)
    };
    let transfers = |signed: Option<&Signed>| {
        let said = kdig(signed, &["example", "AXFR"]);
        assert!(said.contains("192.0.2.1") != said.contains("REFUSED"), "{said}");
        said.contains("192.0.2.1")
    };
    assert!(transfers(Some(&signed("ns2.example", false))));
    assert!(transfers(Some(&pinned)), "by its key");
    for (number, (certificate, shown)) in (1..).zip([
        (Some(signed("ns3.example", false)), "cert=\"ns3.example\""),
        (Some(signed("ns2.example", true)), "(the certificate has expired)"),
        (Some(Authority::new().sign("ns2.example", false)), "(the certificate is from an unknown issuer)"),
        (None, "key=\"none\" reason"),
    ]) {
        assert!(!transfers(certificate.as_ref()), "{shown}");
        // Each is another kind of line, and the log has not all of them.
        eventually("the line of the refusal", &first.server, || {
            let audit = fs::read_to_string(first.server.path("audit.log")).expect("the file");
            let refused: Vec<&str> = audit.lines().filter(|line| line.contains("transfer refused")).collect();
            refused.len() == number && refused[number - 1].contains(shown)
        });
    }
    // Queries need none, and one of no use is no fault.
    assert_eq!(kdig(None, &["ns1.example", "A", "+short"]), "192.0.2.1\n");
    assert_eq!(kdig(Some(&signed("x.example", true)), &["ns1.example", "A", "+short"]), "192.0.2.1\n");
}

#[test]
fn nomen_shows_its_certificate_to_nomen_and_bind() {
    let authority = Authority::new();
    let server = "client-ca-file = \"ca.pem\"\n";
    let keys = "allow-transfer = [\"cert:secondary.example\"]\nallow-update = [\"cert:secondary.example\"]\n";
    let first = primary_with(authority.folder("ns1.example"), server, keys, "");
    let tls = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
    let bind = other("BIND", "named", &["-g", "-c"], |own, folder| {
        authority.write(folder, &authority.sign("ns1.example", false));
        let ca_file = format!("tls own {{ ca-file \"{}/ca.pem\"; cert-file", folder.display());
        bind(tls)(own, folder).replace("tls own { cert-file", &ca_file)
    });
    let identity = over_tls(first.tls, "ns1.example", "");
    let mut zones = format!("[[zone]]\nname = \"example\"\nprimaries = [{identity}]\n{CLIENT}");
    if bind.is_some() {
        let retry = "min-retry = \"1s\"\nmax-retry = \"1s\"\n";
        let identity = over_tls(tls, "ns1.example", "");
        zones += &format!("[[zone]]\nname = \"bind\"\nprimaries = [{identity}]\n{retry}{CLIENT}");
    }
    let second = Server::start_in(authority.folder("secondary.example"), "state-dir = \"state\"\n", &zones);
    eventually("it is taken", &second, || known(&second, "example")["state"] == "fresh");
    first.server.wait_for_log("transport=\"tls\" key=\"none\" cert=\"secondary.example\"", 1);
    if bind.is_some() {
        eventually("it is taken", &second, || known(&second, "bind")["state"] == "fresh");
    }
    // nomen update and nomen query show one, too.
    fs::write(second.path("script"), "zone example\nupdate add up.example 60 A 192.0.2.78\nsend\n")
        .expect("written");
    let at = format!("{}@{}", first.tls.ip(), first.tls.port());
    let certificate = [
        "+tls-ca=ca.pem",
        "+tls-hostname=ns1.example",
        "+tls-certfile=server.pem",
        "+tls-keyfile=server.key",
    ];
    let words = [&["update", "--server", &at, "script"][..], &certificate].concat();
    let output = run(second.folder.path(), &words);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let asked = format!("@{at}");
    let words = [&["query", &asked, "example", "AXFR"][..], &certificate].concat();
    let output = text(&run(second.folder.path(), &words).stdout);
    assert!(output.contains("up.example.") && output.contains("192.0.2.78"), "{output}");
    let words = [&["update", "--server", &at, "script"][..], &certificate[..2]].concat();
    assert!(!run(second.folder.path(), &words).status.success(), "without a certificate");
    // Another certificate, after a reload.
    authority.write(second.folder.path(), &authority.sign("other.example", false));
    second.reload();
    second.ctl_json(&["zone", "retransfer", "example"]);
    eventually("it is refused", &second, || fault(&second).contains("REFUSED"));
}

#[test]
fn a_rule_about_certificates_that_no_client_is_asked_for_is_a_fault() {
    let folder = tempfile::tempdir().expect("a folder");
    let pin = "sha256/AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    for (rule, hint) in [("ns2.example", "set `client-ca-file`"), (pin, "set `client-certificates = true`")] {
        let zone =
            format!("[[zone]]\nname = \"example\"\nfile = \"e\"\nallow-transfer = [\"cert:{rule}\"]\n");
        fs::write(folder.path().join("nomen.toml"), zone).expect("written");
        let output = run(folder.path(), &["check", "--no-zones", "nomen.toml"]);
        let said = text(&output.stderr);
        assert!(
            !output.status.success() && said.contains("nomen.toml:4:19") && said.contains(hint),
            "{said}"
        );
    }
}

fn bind(tls: SocketAddr) -> impl Fn(SocketAddr, &Path) -> String {
    move |own, folder| {
        fs::write(folder.join("bind.zone"), format!("{APEX}{VARIED}")).expect("written");
        let at = folder.display();
        format!(
            "tls own {{ cert-file \"{at}/server.pem\"; key-file \"{at}/server.key\"; }};\n\
             options {{ directory \"{at}\"; pid-file none; session-keyfile none; lock-file none;\n\
             listen-on port {} {{ {}; }}; listen-on port {} tls own {{ {}; }}; listen-on-v6 {{ none; }};\n\
             recursion no; notify no; allow-transfer port {} transport tls {{ any; }}; }};\ncontrols {{ }};\n\
             zone \"bind\" {{ type primary; file \"bind.zone\"; }};\n",
            own.port(),
            own.ip(),
            tls.port(),
            tls.ip(),
            tls.port()
        )
    }
}

fn nsd(tls: SocketAddr) -> impl Fn(SocketAddr, &Path) -> String {
    move |own, folder| {
        fs::write(folder.join("nsd.zone"), format!("{APEX}{VARIED}")).expect("written");
        let at = folder.display();
        format!(
            "server:\n ip-address: {}@{}\n ip-address: {}@{}\n username: \"\"\n chroot: \"\"\n\
             \x20zonesdir: \"{at}\"\n tls-port: {}\n tls-service-key: \"{at}/server.key\"\n\
             \x20tls-service-pem: \"{at}/server.pem\"\n database: \"\"\n pidfile: \"\"\n xfrdfile: \"\"\n\
             remote-control:\n control-enable: no\nzone:\n name: nsd\n zonefile: nsd.zone\n\
             \x20provide-xfr: 127.0.0.0/8 NOKEY\n",
            own.ip(),
            own.port(),
            tls.ip(),
            tls.port(),
            tls.port()
        )
    }
}

fn knot(tls: SocketAddr) -> impl Fn(SocketAddr, &Path) -> String {
    move |own, folder| {
        fs::write(folder.join("knot.zone"), format!("{APEX}{VARIED}")).expect("written");
        let at = folder.display();
        format!(
            "server:\n  rundir: \"{at}\"\n  listen: {}@{}\n  listen-tls: {}@{}\n  cert-file: \"{at}/server.pem\"\n\
             \x20 key-file: \"{at}/server.key\"\ndatabase:\n  storage: \"{at}\"\n\
             acl:\n  - id: all\n    address: 127.0.0.0/8\n    protocol: tls\n    action: transfer\n\
             zone:\n  - domain: knot\n    storage: \"{at}\"\n    acl: [all]\n",
            own.ip(),
            own.port(),
            tls.ip(),
            tls.port()
        )
    }
}

/// Whether the Knot that is installed listens for TLS: from version 3.5 on.
fn knot_has_tls() -> bool {
    let Ok(output) = Command::new("knotd").arg("--version").output() else { return false };
    let version = text(&output.stdout);
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    let mut number = || numbers.next().and_then(|part| part.parse::<u32>().ok()).unwrap_or(0);
    (number(), number()) >= (3, 5)
}

/// Returns the configuration of another server, at an address and with files in a folder.
type Configure = dyn Fn(SocketAddr, &Path) -> String;

#[test]
fn zones_of_bind_nsd_and_knot_are_taken_over_tls() {
    let authority = Authority::new();
    let addresses = [(); 3]
        .map(|()| TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port"));
    let signed = authority.sign("ns1.example", false);
    let with = |config: Box<Configure>| {
        let authority = &authority;
        let signed = &signed;
        move |own: SocketAddr, folder: &Path| {
            authority.write(folder, signed);
            config(own, folder)
        }
    };
    // Before version 3.5, which Debian 12 does not have, Knot sends no zones over TLS.
    let knot =
        knot_has_tls().then(|| other("Knot", "knotd", &["-c"], with(Box::new(knot(addresses[2]))))).flatten();
    let peers = [
        ("bind", addresses[0], other("BIND", "named", &["-g", "-c"], with(Box::new(bind(addresses[0]))))),
        ("nsd", addresses[1], other("NSD", "nsd", &["-d", "-c"], with(Box::new(nsd(addresses[1]))))),
        ("knot", addresses[2], knot),
    ];
    let peers: Vec<(&str, SocketAddr, OtherServer)> =
        peers.into_iter().filter_map(|(zone, tls, peer)| peer.map(|peer| (zone, tls, peer))).collect();
    let zones: String = peers
        .iter()
        .map(|(zone, tls, _)| {
            format!(
                "[[zone]]\nname = \"{zone}\"\nprimaries = [{}]\nca-file = \"ca.pem\"\n\
                 allow-transfer = [\"any\"]\nmin-retry = \"1s\"\nmax-retry = \"1s\"\n",
                over_tls(*tls, "ns1.example", "")
            )
        })
        .collect();
    let nomen = Server::start_in(authority.folder("ns2.example"), "", &zones);
    for (zone, _, _) in &peers {
        eventually(zone, &nomen, || known(&nomen, zone)["state"] == "fresh");
        let found = records(&transfer(nomen.address, zone, None).expect("transferred"));
        assert!(found.len() > 10, "{zone}: {found:?}");
    }
    nomen.wait_for_log("transfer received", peers.len());
    let log = nomen.log();
    let count =
        log.lines().filter(|line| line.contains("transfer received") && line.contains("\"tls\"")).count();
    assert_eq!(count, peers.len(), "{log}");
}
