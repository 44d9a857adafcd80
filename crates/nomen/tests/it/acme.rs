//! Certificates by ACME, from Pebble, the test server of Let's Encrypt: the first one, restarts, renewals,
//! and what goes wrong.

use std::fs;
use std::io::{Read, Write};
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
        self.start_ca_with(challenge_port, validity, &json!({}))
    }

    /// Starts the CA with these keys of external accounts; it needs one if there are any.
    fn start_ca_with(&self, challenge_port: u16, validity: u64, accounts: &Value) -> Pebble {
        let config = json!({"pebble": {
            "externalAccountBindingRequired": accounts != &json!({}),
            "externalAccountMACKeys": accounts,
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

    /// Starts the server in this folder with zones that it can change: `example`, and `challenges.test`,
    /// which is signed. `keys`: those of [acme].
    fn start_with_zones(&self, folder: tempfile::TempDir, names: &str, keys: &str) -> Server {
        // Nothing is at port 53 of the address.
        let apex =
            format!("$TTL 60\n@ SOA ns1 admin 1 3600 600 86400 60\n@ NS ns1\nns1 A {}\n", self.dns.ip());
        let zone = format!(
            "{apex}dns A {0}\nalias A {0}\nwww A 192.0.2.9\n_acme-challenge.alias CNAME a.challenges.test.\n",
            self.tls.ip()
        );
        fs::write(folder.path().join("example.zone"), zone).expect("written");
        fs::write(folder.path().join("challenges.test.zone"), apex).expect("written");
        let more = format!(
            "[[listen]]\naddr = [{}]\nproto = [\"tls\"]\n\
             [[zone]]\nname = \"example\"\nfile = \"example.zone\"\napi = true\n\
             [[zone]]\nname = \"challenges.test\"\nfile = \"challenges.test.zone\"\napi = true\n\
             dnssec-policy = \"default\"\n\
             [acme]\nnames = [{names}]\naccept-terms = true\ndirectory = \"https://{}/dir\"\n\
             ca-file = \"{}\"\n{keys}",
            written(self.tls),
            self.directory,
            self.folder.path().join("ca.pem").display(),
        );
        Server::start_at(self.dns, folder, "state-dir = \"state\"\n", &more)
    }

    /// Returns the texts of the TXT records at a name.
    fn texts(&self, name: &str) -> Vec<String> {
        let mut command = Command::new("kdig");
        command.arg(format!("@{}", self.dns.ip())).args(["-p", &self.dns.port().to_string(), "+short"]);
        let output = command.args([name, "TXT"]).output().expect("kdig runs");
        text(&output.stdout).lines().map(str::to_owned).collect()
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
fn records_in_own_zones_prove_wildcards_and_aliases_and_are_removed() {
    let setup = Setup::new();
    let _ca = setup.start_ca(free_address().port(), 90 * 24 * 3600);
    let names = "\"dns.example\", \"*.dns.example\", \"alias.example\"";
    let server = setup.start_with_zones(folder(), names, "challenge = \"dns-01\"\n");
    await_certificates(&server, 1);
    assert!(
        ["dns.example", "www.dns.example", "alias.example"]
            .iter()
            .all(|name| setup.is_trusted(&server, name))
    );
    assert_eq!(status(&server)["challenge"], "dns-01");
    // Both values of the one name were there at once, and none is left.
    let added = "zone example.: edited by nomen for [acme], removed=1 added=3 serial 1 -> 2";
    server.wait_for_log(added, 1);
    eventually("the records are removed", &server, || {
        !server.path("state/acme/records.json").exists() && setup.texts("a.challenges.test").is_empty()
    });
    assert!(setup.texts("_acme-challenge.dns.example").is_empty());
    let serial = |zone: &str| server.ctl_json(&["zone", "status", zone])["serial"].clone();
    assert_eq!(serial("example"), 3);
    assert_eq!(server.counter("nomen_acme_left_records_total"), 0);
    // A zone that cannot be changed fails the order before the CA verifies anything.
    server.ctl_json(&["zone", "freeze", "challenges.test"]);
    server.reconfigure("\"dns.example\", \"*.dns.example\", ", "");
    server.reload();
    eventually("a failure", &server, || server.counter("nomen_acme_failures_total") == 1);
    let failed = status(&server);
    assert_eq!(
        (&failed["fault"], &failed["records_left"]),
        (&json!("zone challenges.test.: the zone is frozen: `nomen ctl zone thaw`"), &json!(false))
    );
    assert!(setup.is_trusted(&server, "www.dns.example"), "the certificate before is in use");
}

#[test]
fn a_start_after_a_crash_removes_the_records_of_the_order() {
    let setup = Setup::new();
    let _ca = setup.start_ca(free_address().port(), 90 * 24 * 3600);
    let keys = "challenge = \"dns-01\"\ndns-check = false\ndns-wait = \"1h\"\n";
    let server = setup.start_with_zones(folder(), "\"dns.example\"", keys);
    eventually("the record", &server, || setup.texts("_acme-challenge.dns.example").len() == 1);
    let before = setup.texts("_acme-challenge.dns.example");
    let folder = server.kill();
    assert!(folder.path().join("state/acme/records.json").exists());
    let server = setup.start_with_zones(folder, "\"dns.example\"", keys);
    eventually("the record of another order", &server, || {
        let now = setup.texts("_acme-challenge.dns.example");
        now.len() == 1 && now != before
    });
    // The wait of the order in progress ends with the server.
    let server = setup.start_with_zones(server.stop(), "\"dns.example\"", &keys.replace("1h", "0s"));
    await_certificates(&server, 1);
    eventually("no record is left", &server, || setup.texts("_acme-challenge.dns.example").is_empty());
}

#[test]
fn requests_at_a_listener_of_its_own_prove_names_for_an_external_account() {
    let setup = Setup::new();
    let http = free_address();
    let http = SocketAddr::new(setup.tls.ip(), http.port());
    let key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let _ca = setup.start_ca_with(http.port(), 90 * 24 * 3600, &json!({"kid-1": key}));
    let keys = format!("challenge = \"http-01\"\nhttp-listen = [{}]\n# eab\n# limits\n", written(http));
    let server = setup.start_with_zones(folder(), "\"dns.example\"", &keys);
    eventually("a failure", &server, || server.counter("nomen_acme_failures_total") == 1);
    let fault = status(&server)["fault"].as_str().expect("a fault").to_owned();
    assert!(fault.contains("(externalAccountRequired)"), "{fault}");
    fs::write(server.path("eab.key"), key).expect("written");
    fs::set_permissions(server.path("eab.key"), fs::Permissions::from_mode(0o600)).expect("set");
    server.reconfigure("# eab", "eab-key-id = \"kid-1\"\neab-key-file = \"eab.key\"");
    server.reload();
    await_certificates(&server, 1);
    assert!(setup.is_trusted(&server, "dns.example"));
    assert!(server.counter("nomen_acme_http_challenges_total") >= 1);
    let log = fs::read_to_string(setup.folder.path().join("log")).expect("the log of the CA");
    let path = log.split("/.well-known/acme-challenge/").nth(1).expect("a request of the CA");
    let token = path.split_whitespace().next().expect("a token");
    for path in
        [format!(".well-known/acme-challenge/{token}"), ".well-known/acme-challenge/".into(), String::new()]
    {
        let url = format!("http://{http}/{path}");
        let mut command = Command::new("curl");
        command.args([
            "--silent",
            "--noproxy",
            "*",
            "--output",
            "/dev/null",
            "--write-out",
            "%{http_code}",
            &url,
        ]);
        assert_eq!(text(&command.output().expect("curl runs").stdout), "404", "{url}");
    }
    assert_eq!(server.counter("nomen_acme_http_refused_total"), 3);
    // Connections are few, and the head of a request must arrive in time.
    server.reconfigure("# limits", "http-connections = 1\nhttp-head-timeout = \"100ms\"");
    server.reload();
    let connect = || {
        let stream = TcpStream::connect(http).expect("connected");
        stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
        stream
    };
    let (mut idle, mut next) = (connect(), connect());
    next.write_all(b"GET / HTTP/1.1\r\nHost: dns.example\r\nConnection: close\r\n\r\n").expect("sent");
    let mut response = String::new();
    next.read_to_string(&mut response).expect("a response");
    assert!(response.starts_with("HTTP/1.1 404 "), "{response}");
    assert_eq!(idle.read(&mut [0]).expect("the end"), 0, "it has made room, or was idle for too long");
    let mut slow = connect();
    slow.write_all(b"GET / HT").expect("sent");
    slow.read_to_end(&mut Vec::new()).expect("the end");
}

#[test]
fn the_check_finds_names_that_no_zone_can_prove() {
    let folder = folder();
    let zone = "$TTL 60\n@ SOA ns1 admin 1 3600 600 86400 60\n@ NS ns1\nns1 A 192.0.2.1\n";
    let alias = format!("{zone}_acme-challenge.alias CNAME a.open.test.\n");
    fs::write(folder.path().join("plain.zone"), alias).expect("written");
    fs::write(folder.path().join("open.zone"), zone).expect("written");
    let check = |names: &str| {
        let config = format!(
            "[server]\nstate-dir = \"state\"\n[[listen]]\naddr = [\"127.0.0.1@8853\"]\nproto = [\"tls\"]\n\
             [acme]\naccept-terms = true\nchallenge = \"dns-01\"\nnames = [{names}]\n\
             [[zone]]\nname = \"plain.test\"\nfile = \"plain.zone\"\n\
             [[zone]]\nname = \"open.test\"\nfile = \"open.zone\"\napi = true\n"
        );
        fs::write(folder.path().join("nomen.toml"), config).expect("written");
        let output = run(folder.path(), &["check", "nomen.toml"]);
        (output.status.success(), text(&output.stdout) + &text(&output.stderr))
    };
    let (good, said) = check("\"*.open.test\", \"dns.open.test\", \"alias.plain.test\"");
    assert!(good, "{said}");
    let (good, said) = check("\"dns.open.test\", \"dns.plain.test\", \"dns.else.test\"");
    for part in [
        "nomen.toml:9:27",
        "_acme-challenge.dns.plain.test. of the challenge dns-01: the zone plain.test. takes no changes",
        "nomen.toml:9:45",
        "_acme-challenge.dns.else.test. of the challenge dns-01: no zone of this server contains",
    ] {
        assert!(!good && said.contains(part), "{part}: {said}");
    }
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
    let (good, said) = check("[acme]\nnames = [\"*.dns.example\"]\naccept-terms = true\n");
    assert!(
        !good && said.contains("nomen.toml:6:10") && said.contains("`*.dns.example` is a wildcard"),
        "{said}"
    );
    let (good, said) = check("[acme]\nnames = [\"dns.example\"]\n");
    assert!(!good && said.contains("the terms of service of the CA are not accepted"), "{said}");
    let (good, said) = check("[acme]\nnames = [\"dns.example\"]\naccept-terms = true\n");
    assert!(good && said.contains("no listener uses the certificate of [acme]"), "{said}");
}
