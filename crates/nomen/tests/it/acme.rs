//! Certificates by ACME, from Pebble, the test server of Let's Encrypt: the first one, restarts, renewals,
//! and what goes wrong.

use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair, SanType};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};

use crate::support::{APEX, Server, TEST_TIMEOUT, eventually, free_address, run, text, written};

/// A running Pebble; killed when dropped.
struct Pebble(Child);

impl Drop for Pebble {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The addresses of a CA, of the server that orders, and the files of the CA.
struct Setup {
    /// Folder of the CA.
    folder: tempfile::TempDir,
    directory: SocketAddr,
    management: SocketAddr,
    /// Of the server: DNS over UDP and TCP, and over TLS.
    dns: SocketAddr,
    tls: SocketAddr,
}

impl Setup {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let [directory, management, dns, tls] = [(); 4].map(|()| free_address());
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::IpAddress(directory.ip())];
        let certificate = params.self_signed(&key).expect("signed");
        let at = folder.path();
        fs::write(at.join("ca.pem"), testkit::pem("CERTIFICATE", certificate.der())).expect("written");
        fs::write(at.join("ca.key"), testkit::pem("PRIVATE KEY", &key.serialize_der())).expect("written");
        Setup { folder, directory, management, dns, tls }
    }

    /// Starts the CA, which connects to this port for challenges and asks the server for addresses.
    fn start_ca(&self, challenge_port: u16, validity: u64) -> Pebble {
        let config = json!({"pebble": {
            "listenAddress": self.directory.to_string(),
            "managementListenAddress": self.management.to_string(),
            "certificate": "ca.pem",
            "privateKey": "ca.key",
            "httpPort": challenge_port,
            "tlsPort": challenge_port,
            "certificateValidityPeriod": validity,
        }});
        fs::write(self.folder.path().join("pebble.json"), config.to_string()).expect("written");
        let mut command = Command::new("pebble");
        command.args(["-config", "pebble.json", "-dnsserver", &self.dns.to_string()]);
        command.envs([("PEBBLE_VA_NOSLEEP", "1"), ("PEBBLE_AUTHZREUSE", "0")]);
        // It rejects some by chance: a test must not depend on that.
        command.env("PEBBLE_WFE_NONCEREJECT", "0").current_dir(self.folder.path());
        let log = fs::File::create(self.folder.path().join("log")).expect("a log");
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("the log")).stderr(log);
        let pebble = Pebble(command.spawn().expect("pebble starts"));
        let until = std::time::Instant::now() + TEST_TIMEOUT;
        while TcpStream::connect(self.directory).is_err() || TcpStream::connect(self.management).is_err() {
            assert!(std::time::Instant::now() < until, "pebble does not listen");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        pebble
    }

    /// Starts the server in this folder.
    fn start_server(&self, folder: tempfile::TempDir, names: &str, path: &str) -> Server {
        let zone = format!("{APEX}dns A {0}\nother A {0}\nwww A 192.0.2.9\n", self.tls.ip());
        fs::write(folder.path().join("example.zone"), zone).expect("written");
        let more = format!(
            "[[listen]]\naddr = [{}]\nproto = [\"tls\"]\n\
             [acme]\nnames = [{names}]\naccept-terms = true\ndirectory = \"https://{}/{path}\"\n\
             contact = [\"mailto:dns@example.net\"]\nca-file = \"{}\"\n",
            written(self.tls),
            self.directory,
            self.folder.path().join("ca.pem").display(),
        );
        Server::start_at(self.dns, folder, "state-dir = \"state\"\n", &more)
    }

    /// Writes the root certificate of the CA to a file.
    fn fetch_root(&self, to: &Path) {
        let url = format!("https://{}/roots/0", self.management);
        let output = Command::new("curl").args(["--silent", "--insecure", "--noproxy", "*", &url]).output();
        fs::write(to, output.expect("curl runs").stdout).expect("written");
    }

    /// Whether kdig accepts the server's certificate for this name.
    fn is_trusted(&self, server: &Server, name: &str) -> bool {
        let file = server.path("root.pem");
        self.fetch_root(&file);
        let mut command = Command::new("kdig");
        command.arg(format!("@{}", self.tls.ip())).args(["-p", &self.tls.port().to_string(), "+retry=0"]);
        command.arg(format!("+timeout={}", TEST_TIMEOUT.as_secs()));
        command.arg(format!("+tls-ca={}", file.display())).arg(format!("+tls-hostname={name}"));
        let output = command.args(["www.example", "A", "+short"]).output().expect("kdig runs");
        text(&output.stdout) == "192.0.2.9\n"
    }

    /// Returns why a handshake fails in which the client offers these application protocols.
    fn handshake(&self, offered: &[&[u8]]) -> Result<(), String> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut roots = RootCertStore::empty();
        let ca = fs::read(self.folder.path().join("ca.pem")).expect("read");
        roots.add(CertificateDer::from_pem_slice(&ca).expect("PEM")).expect("a certificate");
        let mut config = config.expect("versions").with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = offered.iter().map(|one| one.to_vec()).collect();
        let name = ServerName::try_from("dns.example").expect("a name");
        let connection = ClientConnection::new(Arc::new(config), name).expect("good");
        let stream = TcpStream::connect(self.tls).expect("connected");
        stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
        let mut stream = StreamOwned::new(connection, stream);
        stream.read(&mut [0]).map(drop).map_err(|error| error.to_string())
    }
}

fn status(server: &Server) -> Value {
    server.ctl_json(&["status"])["acme"].clone()
}

fn obtained(server: &Server) -> u64 {
    server.counter("nomen_acme_certificates_total")
}

fn await_certificates(server: &Server, number: u64) {
    eventually("a certificate of the CA", server, || obtained(server) >= number);
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn the_first_certificate_is_obtained_served_and_used_after_a_restart() {
    let setup = Setup::new();
    let ca = setup.start_ca(setup.tls.port(), 90 * 24 * 3600);
    let server = setup.start_server(folder(), "\"dns.example\", \"OTHER.example\"", "dir");
    await_certificates(&server, 1);
    assert!(setup.is_trusted(&server, "dns.example") && setup.is_trusted(&server, "other.example"));
    assert!(!setup.is_trusted(&server, "www.example"), "another name");
    let state = status(&server);
    assert_eq!(
        (&state["state"], &state["fault"], &state["failures"]),
        (&json!("obtained"), &Value::Null, &json!(0))
    );
    let lifetime =
        state["expires"].as_u64().expect("a time") - state["next_attempt"].as_u64().expect("a time");
    // A third of 90 days, and a thirtieth at most.
    assert!((30 * 86_400 - 5..=33 * 86_400).contains(&lifetime), "{state}");
    server.wait_for_log("the certificate for dns.example, other.example was obtained", 1);
    // No challenge is pending: its protocol is as unknown as others.
    let refused = setup.handshake(&[b"acme-tls/1"]).expect_err("refused");
    assert!(refused.contains("NoApplicationProtocol"), "{refused}");
    let mode = |name: &str| fs::metadata(server.path(name)).expect("there").permissions().mode() & 0o777;
    assert_eq!((mode("state/acme"), mode("state/acme/certificate.pem")), (0o700, 0o600));
    // The stored one is served by the next server, also without a CA.
    drop(ca);
    let before = server.ctl_json(&["status"])["certificates"][0]["pin"].clone();
    let server = setup.start_server(server.stop(), "\"dns.example\", \"OTHER.example\"", "dir");
    assert_eq!(server.ctl_json(&["status"])["certificates"][0]["pin"], before);
    assert_eq!((status(&server)["state"].clone(), obtained(&server)), (json!("obtained"), 0));
    assert_eq!(server.counter("nomen_acme_failures_total"), 0);
    assert!(!server.log().contains("ordering a certificate"), "{}", server.log());
}

#[test]
fn a_certificate_is_renewed_and_other_names_are_ordered_at_once() {
    let setup = Setup::new();
    let _ca = setup.start_ca(setup.tls.port(), 12);
    let server = setup.start_server(folder(), "\"dns.example\"", "dir");
    await_certificates(&server, 1);
    let first = server.ctl_json(&["status"])["certificates"][0].clone();
    eventually("a certificate that ends later, with another key", &server, || {
        let second = server.ctl_json(&["status"])["certificates"][0].clone();
        second["expires"].as_u64() > first["expires"].as_u64() && second["pin"] != first["pin"]
    });
    server.wait_for_log("a third of the lifetime of the one in use is left", 1);
    server.reconfigure("\"dns.example\"", "\"dns.example\", \"other.example\"");
    server.reload();
    eventually("a certificate with both names", &server, || {
        server.ctl_json(&["status"])["certificates"][0]["names"] == json!(["dns.example", "other.example"])
    });
}

#[test]
fn a_ca_that_is_down_is_asked_again_and_a_restart_does_not_shorten_the_wait() {
    let setup = Setup::new();
    let server = setup.start_server(folder(), "\"dns.example\"", "dir");
    eventually("a failure", &server, || server.counter("nomen_acme_failures_total") == 1);
    let failed = status(&server);
    let fault = failed["fault"].as_str().expect("a fault");
    assert!(fault.starts_with("the account: no connection to ") && failed["state"] == "failed", "{failed}");
    server.wait_for_log("no certificate for dns.example: the account: no connection to ", 1);
    // The self-signed certificate serves meanwhile.
    assert_eq!(server.ctl_json(&["status"])["certificates"][0]["file"], Value::Null);
    let _ca = setup.start_ca(setup.tls.port(), 90 * 24 * 3600);
    let server = setup.start_server(server.stop(), "\"dns.example\"", "dir");
    assert_eq!(status(&server), failed);
    // An hour later.
    let (folder, name) = (server.stop(), "state/acme/schedule.json");
    let text = fs::read_to_string(folder.path().join(name)).expect("read");
    let mut schedule: Value = serde_json::from_str(&text).expect("JSON");
    schedule["failure"]["at"] = json!(schedule["failure"]["at"].as_u64().expect("a time") - 3600);
    fs::write(folder.path().join(name), schedule.to_string()).expect("written");
    let server = setup.start_server(folder, "\"dns.example\"", "dir");
    await_certificates(&server, 1);
    assert!(setup.is_trusted(&server, "dns.example"));
    assert_eq!(status(&server)["failures"], 0);
}

#[test]
fn a_wrong_directory_is_reported_and_a_corrected_one_is_asked_at_once() {
    let setup = Setup::new();
    let _ca = setup.start_ca(setup.tls.port(), 90 * 24 * 3600);
    let server = setup.start_server(folder(), "\"dns.example\"", "nothing");
    eventually("a failure", &server, || server.counter("nomen_acme_failures_total") == 1);
    let failed = status(&server);
    let fault = failed["fault"].as_str().expect("a fault");
    assert!(fault.contains("the response is not that of an ACME server"), "{failed}");
    server.reconfigure("/nothing\"", "/dir\"");
    server.reload();
    await_certificates(&server, 1);
    assert!(setup.is_trusted(&server, "dns.example"));
}

#[test]
fn an_account_that_the_ca_has_lost_is_made_again() {
    let setup = Setup::new();
    let ca = setup.start_ca(setup.tls.port(), 90 * 24 * 3600);
    let server = setup.start_server(folder(), "\"dns.example\"", "dir");
    await_certificates(&server, 1);
    // It has nothing on disk.
    drop(ca);
    let _ca = setup.start_ca(setup.tls.port(), 90 * 24 * 3600);
    server.reconfigure("\"dns.example\"", "\"other.example\"");
    server.reload();
    await_certificates(&server, 2);
    assert!(setup.is_trusted(&server, "other.example") && !setup.is_trusted(&server, "dns.example"));
    assert_eq!(server.counter("nomen_acme_failures_total"), 0);
}

#[test]
fn a_challenge_that_fails_is_reported_with_the_name_and_the_detail() {
    let setup = Setup::new();
    // No server is at this port.
    let _ca = setup.start_ca(free_address().port(), 90 * 24 * 3600);
    let server = setup.start_server(folder(), "\"dns.example\"", "dir");
    eventually("a failure", &server, || server.counter("nomen_acme_failures_total") == 1);
    let fault = status(&server)["fault"].as_str().expect("a fault").to_owned();
    let is_whole =
        fault.starts_with("the CA refused the order: dns.example: ") && fault.contains("tls-alpn-01");
    assert!(is_whole, "{fault}");
    let refused = setup.handshake(&[b"acme-tls/1"]).expect_err("refused");
    assert!(refused.contains("NoApplicationProtocol"), "the challenge has ended: {refused}");
}

#[test]
fn the_check_finds_what_an_order_lacks() {
    let folder = folder();
    let check = |more: &str| {
        let config =
            format!("[server]\nstate-dir = \"state\"\n[[listen]]\naddr = [\"127.0.0.1@5353\"]\n{more}");
        fs::write(folder.path().join("nomen.toml"), config).expect("written");
        let output = run(folder.path(), &["check", "nomen.toml"]);
        (output.status.success(), text(&output.stdout) + &text(&output.stderr))
    };
    let (good, said) = check("[acme]\nnames = [\"*.example\"]\naccept-terms = true\n");
    assert!(
        !good && said.contains("nomen.toml:6:10") && said.contains("`*.example` is a wildcard"),
        "{said}"
    );
    let (good, said) = check("[acme]\nnames = [\"dns.example\"]\n");
    assert!(!good && said.contains("the terms of service of the CA are not accepted"), "{said}");
    let (good, said) = check("[acme]\nnames = [\"dns.example\"]\naccept-terms = true\n");
    assert!(good && said.contains("no listener uses the certificate of [acme]"), "{said}");
}
