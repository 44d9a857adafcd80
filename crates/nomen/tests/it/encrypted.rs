//! DNS over TLS and over HTTPS with real clients: what TCP has, encrypted; certificates that change; faults
//! in them.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P384_SHA384};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};
use tempfile::TempDir;

use crate::support::{APEX, Server, TEST_TIMEOUT, eventually, free_address, nomen, run, text, written};

/// The key `k.example`, and its block.
pub(crate) const SECRET: &str = "3q2+7wABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhs=";
pub(crate) const KEY: &str =
    "[[tsig-key]]\nname = \"k.example\"\nsecret = \"3q2+7wABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhs=\"\n";

pub(crate) const CERTIFICATE: &str = "[[certificate]]\nchain = \"chain.pem\"\nkey = \"key.pem\"\n";

/// A server with a TLS listener.
struct TlsServer {
    server: Server,
    /// The address of the listener.
    at: SocketAddr,
}

/// Starts a server of `example.` in this folder, with a listener of these transports, whose address it
/// returns.
pub(crate) fn start_over(
    proto: &str,
    folder: TempDir,
    keys: &str,
    zone: &str,
    more: &str,
) -> (Server, SocketAddr) {
    let address = free_address();
    fs::write(folder.path().join("example.zone"), format!("{APEX}www A 192.0.2.1\nlong TXT {}\n", long()))
        .expect("written");
    let sections = format!(
        "[[listen]]\naddr = [{}]\nproto = [{proto}]\n[[zone]]\nname = \"example\"\nfile = \"example.zone\"\n{zone}{more}",
        written(address)
    );
    // The folder of other tests has a template that would serve the file as well.
    (Server::start_in(folder, keys, &sections), address)
}

/// Runs kdig and returns its output.
pub(crate) fn kdig(at: SocketAddr, words: &[&str]) -> String {
    let mut command = Command::new("kdig");
    command.arg(format!("@{}", at.ip())).args(["-p", &at.port().to_string(), "+retry=0"]);
    command.arg(format!("+timeout={}", TEST_TIMEOUT.as_secs()));
    let output = command.args(words).output().expect("kdig runs");
    text(&output.stdout) + &text(&output.stderr)
}

fn start_in(folder: TempDir, keys: &str, zone: &str, more: &str) -> TlsServer {
    let (server, at) = start_over("\"tls\"", folder, keys, zone, more);
    TlsServer { server, at }
}

fn start(keys: &str, zone: &str, more: &str) -> TlsServer {
    start_in(tempfile::tempdir().expect("a folder"), keys, zone, more)
}

/// TXT data of 4,000 bytes.
pub(crate) fn long() -> String {
    format!("\"{}\" ", "x".repeat(200)).repeat(20)
}

/// Writes a certificate for this name and its key as `chain.pem` and `key.pem`. Returns the certificate.
pub(crate) fn write_certificate(folder: &Path, name: &str) -> String {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).expect("a key");
    let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("signed");
    let chain = testkit::pem("CERTIFICATE", certificate.der());
    for (file, contents) in
        [("chain.pem", &chain), ("key.pem", &testkit::pem("PRIVATE KEY", &key.serialize_der()))]
    {
        fs::write(folder.join("fresh"), contents).expect("written");
        fs::set_permissions(folder.join("fresh"), fs::Permissions::from_mode(0o600)).expect("changed");
        fs::rename(folder.join("fresh"), folder.join(file)).expect("moved");
    }
    chain
}

/// A client that trusts this certificate alone.
fn trusting(certificate: &str) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM")).expect("a certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Arc::new(config.expect("versions").with_root_certificates(roots).with_no_client_auth())
}

impl TlsServer {
    /// Runs kdig over TLS and returns its output. These words are of its command line.
    fn kdig(&self, words: &[&str]) -> String {
        kdig(self.at, &[&["+tls"], words].concat())
    }

    /// Sends a message over TLS and returns the reply.
    fn exchange(&self, certificate: &str, name: &str, message: &[u8]) -> Vec<u8> {
        self.exchange_by(&trusting(certificate), name, message).0
    }

    /// Sends a message as this client and returns the reply, and whether the session is one from before.
    fn exchange_by(&self, client: &Arc<ClientConfig>, name: &str, message: &[u8]) -> (Vec<u8>, bool) {
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        let connection = ClientConnection::new(Arc::clone(client), name).expect("good");
        let stream = TcpStream::connect(self.at).expect("connected");
        stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
        let mut stream = StreamOwned::new(connection, stream);
        let framed = [&(message.len() as u16).to_be_bytes(), message].concat();
        stream.write_all(&framed).expect("sent");
        let mut len = [0; 2];
        stream.read_exact(&mut len).expect("a length");
        let mut reply = vec![0; u16::from_be_bytes(len).into()];
        stream.read_exact(&mut reply).expect("a reply");
        (reply, stream.conn.handshake_kind() == Some(HandshakeKind::Resumed))
    }

    /// Whether a client that trusts this certificate alone gets an answer as a client of this name.
    fn is_trusted(&self, certificate: &str, name: &str) -> bool {
        let file = self.server.path("trusted.pem");
        fs::write(&file, certificate).expect("written");
        let (ca, host) = (format!("+tls-ca={}", file.display()), format!("+tls-hostname={name}"));
        let said = self.kdig(&[&ca, &host, "www.example", "A", "+short"]);
        assert!(said == "192.0.2.1\n" || said.contains("Error in the certificate"), "{said}");
        said == "192.0.2.1\n"
    }
}

#[test]
fn what_tcp_answers_is_answered_over_tls() {
    let keys = "cookies = true\nnsid = \"here\"\n";
    let zone = "allow-transfer = [\"key:k.example\"]\n";
    let tls = start(keys, zone, KEY);
    let of = |words: &[&str]| tls.kdig(words);
    assert_eq!(of(&["www.example", "A", "+short"]), "192.0.2.1\n");
    let long = of(&["long.example", "TXT"]);
    assert!(
        long.contains("NOERROR") && long.matches("xxxx\"").count() == 20 && !long.contains(" tc"),
        "{long}"
    );
    let denied = of(&["no.example", "A"]);
    assert!(denied.contains("NXDOMAIN") && denied.contains("SOA"), "{denied}");
    let refused = of(&["www.test", "A"]);
    assert!(refused.contains("REFUSED") && refused.contains("EDE: 20 (Not Authoritative)"), "{refused}");
    let options = of(&["www.example", "A", "+nsid", "+cookie"]);
    assert!(options.contains("\"here\"") && options.contains("COOKIE"), "{options}");
    // Padded only for a query that is.
    let (padded, plain) = (of(&["www.example", "A", "+padding"]), of(&["www.example", "A", "+nopadding"]));
    assert!(padded.contains("Received 468 B") && plain.contains("Received 45 B"), "{padded}{plain}");
    // Zone transfers over TLS (RFC 9103), signed and not.
    let key = format!("hmac-sha256:k.example:{SECRET}");
    let zone = of(&["example", "AXFR", "-y", &key]);
    assert_eq!(zone.matches("SOA").count(), 2, "{zone}");
    assert!(zone.contains("192.0.2.1"), "{zone}");
    let refused = of(&["example", "AXFR"]);
    assert!(refused.contains("REFUSED") && !refused.contains("192.0.2.1"), "{refused}");
    let stats =
        |name: &str| tls.server.counter(&format!("{name}{{listen=\"{}\",transport=\"tls\"}}", tls.at));
    assert_eq!((stats("nomen_net_tls_handshakes_total"), stats("nomen_net_queries_total")), (9, 9));
    assert_eq!(tls.server.counter("nomen_queries_total{transport=\"tls\",type=\"A\"}"), 6);
}

#[test]
fn nomen_query_asks_over_tls_and_verifies_the_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let certificate = write_certificate(folder.path(), "one.example");
    fs::write(folder.path().join("trusted.pem"), certificate).expect("written");
    let tls = start_in(folder, "", "allow-transfer = [\"any\"]\n", CERTIFICATE);
    let query = |words: &[&str]| {
        let server = format!("@{}@{}", tls.at.ip(), tls.at.port());
        let time = format!("+time={}", TEST_TIMEOUT.as_secs());
        let output = run(tls.server.folder.path(), &[&["query", &server, &time], words].concat());
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let (code, said) = query(&["www.example", "+tls"]);
    assert!(code == Some(0) && said.contains("192.0.2.1") && said.contains(") (TLS)\n"), "{said}");
    let (_, zone) = query(&["example", "AXFR", "+tls"]);
    assert!(zone.contains(") (TLS)\n;; XFR size: 8 records"), "{zone}");
    let (_, json) = query(&["www.example", "+tls", "+json"]);
    assert!(json.contains("\"transport\": \"tls\""), "{json}");
    let pin = tls.server.ctl_json(&["status"])["certificates"][0]["pin"].as_str().expect("a pin").to_owned();
    let pin = format!("+tls-pin={pin}");
    let other = "+tls-pin=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let wrong = "the server's certificate does not match its name";
    for (words, expected) in [
        (&["+tls-ca=trusted.pem", "+tls-hostname=one.example"][..], "192.0.2.1\n"),
        (&["+tls-ca=trusted.pem", "+tls-hostname=one.example", &pin], "192.0.2.1\n"),
        (&[&pin], "192.0.2.1\n"),
        (&[other, &pin], "192.0.2.1\n"),
        (&["+tls-ca=trusted.pem", "+tls-hostname=two.example"], wrong),
        // Without a name it is that of the address.
        (&["+tls-ca=trusted.pem"], wrong),
        (&[other], "the server's key matches no pin"),
        (&["+tls-ca=none.pem"], "CA certificates cannot be read: none.pem: there is no such file"),
        (&["+tls-pin=abc"], "+tls-pin: it "),
        (&["+tls", "--trace"], "+tls is not supported: --trace and --chase ask many servers"),
    ] {
        let (code, said) = query(&[&["www.example", "+short"], words].concat());
        let is_good = expected == "192.0.2.1\n";
        assert_eq!(code == Some(0), is_good, "{words:?}: {said}");
        assert!(if is_good { said == expected } else { said.contains(expected) }, "{words:?}: {said}");
    }
    // A server without TLS.
    let plain = format!("@{}@{}", tls.server.address.ip(), tls.server.address.port());
    let output = run(tls.server.folder.path(), &["query", &plain, "www.example", "+tls", "+time=60"]);
    let said = text(&output.stderr);
    assert!(said.contains("over TLS: "), "{said}");
}

#[test]
fn kdig_and_curl_are_answered_over_https() {
    let web = free_address();
    let more = format!("[[listen]]\naddr = [{}]\nproto = [\"https\"]\n[log]\nqueries = true\n", written(web));
    let tls = start("https-paths = [\"/dns-query\", \"/other\"]\n", "", &more);
    let kdig = |words: &[&str]| kdig(web, words);
    for method in ["+https", "+https-get", "+https=/other"] {
        assert_eq!(kdig(&[method, "www.example", "A", "+short"]), "192.0.2.1\n", "{method}");
    }
    let wrong = kdig(&["+https=/none", "www.example", "A"]);
    assert!(wrong.contains("404"), "{wrong}");
    let long = kdig(&["+https", "long.example", "TXT"]);
    assert!(long.contains("HTTP/2-POST") && long.matches("xxxx\"").count() == 20, "{long}");
    // A negative answer is fresh for the minimum of its SOA record.
    let curl = |words: &[&str]| {
        let mut command = Command::new("curl");
        command.args(["--silent", "--insecure", "--include", "--noproxy", "*"]);
        command.args(["--max-time", &TEST_TIMEOUT.as_secs().to_string()]);
        let output = command.args(words).output().expect("curl runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    // no.example. A
    let negative = format!("https://{web}/dns-query?dns=AAABAAABAAAAAAAAAm5vB2V4YW1wbGUAAAEAAQ");
    for (version, line) in [("--http2", "HTTP/2 200"), ("--http1.1", "HTTP/1.1 200 OK")] {
        let said = curl(&[version, &negative]);
        assert!(said.starts_with(line) && said.contains("cache-control: max-age=60\r\n"), "{said}");
        assert!(said.contains("content-type: application/dns-message\r\n"), "{said}");
    }
    assert!(curl(&[&format!("https://{web}/")]).starts_with("HTTP/2 404"));
    eventually("a line of the query", &tls.server, || {
        tls.server.log().lines().any(|line| line.contains("no.example") && line.contains("https"))
    });
    let bad = tls
        .server
        .counter(&format!("nomen_net_https_bad_requests_total{{listen=\"{web}\",transport=\"https\"}}"));
    assert_eq!((bad, tls.server.counter("nomen_queries_total{transport=\"https\",type=\"A\"}")), (2, 5));
    // The connections of HTTP have timeouts of their own.
    let dig = |at: SocketAddr, over: &str| {
        let words =
            [&format!("@{}", at.ip()), "-p", &at.port().to_string(), over, "+keepalive", "www.example"];
        text(&Command::new("dig").args(words).output().expect("dig runs").stdout)
    };
    let [of_tls, of_https] = [dig(tls.at, "+tls"), dig(web, "+https")];
    assert!(of_tls.contains("NOERROR") && of_tls.contains("TCP KEEPALIVE"), "{of_tls}");
    assert!(of_https.contains("NOERROR") && !of_https.contains("KEEPALIVE"), "{of_https}");
}

#[test]
fn curl_resolves_names_over_https() {
    let (web, page) = (free_address(), free_address());
    let folder = tempfile::tempdir().expect("a folder");
    let certificate = write_certificate(folder.path(), "dns.test");
    fs::write(folder.path().join("trusted.pem"), &certificate).expect("written");
    let more = format!(
        "{CERTIFICATE}[[listen]]\naddr = [{}]\nproto = [\"https\"]\n[metrics]\nlisten = {}\n\
         [[zone]]\nname = \"web.test\"\nfile = \"web.txt\"\n",
        written(web),
        written(page)
    );
    fs::write(folder.path().join("web.txt"), format!("{APEX}@ A {}\n", page.ip())).expect("written");
    let tls = start_in(folder, "", "", &more);
    let output = Command::new("curl")
        .args(["--silent", "--noproxy", "*", "--max-time", &TEST_TIMEOUT.as_secs().to_string()])
        .args(["--doh-url", &format!("https://dns.test:{}/dns-query", web.port())])
        .args(["--resolve", &format!("dns.test:{}:{}", web.port(), web.ip()), "--cacert", "trusted.pem"])
        .arg(format!("http://web.test:{}/metrics", page.port()))
        .current_dir(tls.server.folder.path())
        .output()
        .expect("curl runs");
    assert!(text(&output.stdout).contains("nomen_build_info"), "{}", text(&output.stderr));
    assert!(tls.server.counter("nomen_queries_total{transport=\"https\",type=\"A\"}") > 0);
}

#[test]
fn updates_are_taken_over_tls() {
    let folder = tempfile::tempdir().expect("a folder");
    let certificate = write_certificate(folder.path(), "one.example");
    let tls = start_in(folder, "state-dir = \"state\"\n", "allow-update = [\"127.0.0.0/8\"]\n", CERTIFICATE);
    // example. SOA IN; new.example. 60 IN A 192.0.2.9
    let mut message = b"\0\x07\x28\0\0\x01\0\0\0\x01\0\0\x07example\0\0\x06\0\x01".to_vec();
    message.extend(b"\x03new\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x09");
    let reply = tls.exchange(&certificate, "one.example", &message);
    assert_eq!((reply[..2].to_vec(), reply[3] & 15), (vec![0, 7], 0), "{}", tls.server.log());
    assert_eq!(tls.kdig(&["new.example", "A", "+short"]), "192.0.2.9\n");
}

#[test]
fn rules_and_views_know_tls() {
    let more = "[[server.access]]\naction = \"refuse\"\nfrom = [\"any\"]\ntype = [\"TXT\"]\nproto = [\"tls\"]\n\
         [[view]]\nname = \"private\"\nfrom = [\"any\"]\nproto = [\"tls\"]\n\
         [[zone]]\nname = \"example\"\nview = \"private\"\nfile = \"private.txt\"\n";
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("private.txt"), format!("{APEX}www A 192.0.2.2\n")).expect("written");
    let tls = start_in(folder, "", "", more);
    assert_eq!(tls.kdig(&["www.example", "A", "+short"]), "192.0.2.2\n");
    assert!(tls.kdig(&["www.example", "TXT"]).contains("REFUSED"));
    assert!(tls.server.query(&["www.example", "A", "+tcp"]).contains("192.0.2.1"));
    assert!(tls.server.query(&["long.example", "TXT", "+tcp"]).contains("xxxx"));
}

#[test]
fn the_log_names_tls_and_the_status_the_certificate() {
    let tls = start("", "", "[log]\nqueries = true\n");
    assert_eq!(tls.kdig(&["www.example", "A", "+short"]), "192.0.2.1\n");
    eventually("a line of the query", &tls.server, || {
        tls.server.log().lines().any(|line| line.contains("www.example") && line.contains("tls"))
    });
    let status = tls.server.ctl_json(&["status"]);
    let certificate = &status["certificates"][0];
    let pin = certificate["pin"].as_str().expect("a pin");
    assert!(
        certificate["file"].is_null() && certificate["expires"].as_u64() > Some(1_700_000_000),
        "{status}"
    );
    // The start names the pin of a self-signed certificate.
    tls.server.wait_for_log(pin, 1);
    let pinned = tls.kdig(&[&format!("+tls-pin={pin}"), "www.example", "A", "+short"]);
    assert_eq!(pinned, "192.0.2.1\n");
    let other = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let refused = tls.kdig(&[&format!("+tls-pin={other}"), "www.example", "A", "+short"]);
    assert!(refused.contains("Error in the certificate"), "{refused}");
    // A reload keeps it, for clients that have pinned it.
    tls.server.reload();
    assert_eq!(tls.server.ctl_json(&["status"])["certificates"][0]["pin"].as_str(), Some(pin));
}

#[test]
fn a_reload_replaces_certificates_and_a_bad_one_replaces_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = write_certificate(folder.path(), "one.example");
    let tls = start_in(folder, "", "", CERTIFICATE);
    assert!(tls.is_trusted(&first, "one.example") && !tls.is_trusted(&first, "two.example"));
    let second = write_certificate(tls.server.folder.path(), "two.example");
    tls.server.reload();
    assert!(tls.is_trusted(&second, "two.example") && !tls.is_trusted(&first, "one.example"));
    // The key is not the one of the certificate.
    tls.server.write("chain.pem", &first);
    let report = tls.server.reload_badly().to_string();
    assert!(report.contains("key.pem is not the one of the certificate in"), "{report}");
    assert!(tls.is_trusted(&second, "two.example"));
    let status = tls.server.ctl_json(&["status"]);
    assert_eq!(status["certificates"][0]["names"][0], "two.example", "{status}");
}

#[test]
fn the_certificate_is_the_one_of_the_server_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = write_certificate(folder.path(), "one.example");
    for file in ["chain", "key"] {
        let from = folder.path().join(format!("{file}.pem"));
        fs::rename(from, folder.path().join(format!("{file}1.pem"))).expect("moved");
    }
    let second = write_certificate(folder.path(), "*.two.example");
    let both = format!("[[certificate]]\nchain = \"chain1.pem\"\nkey = \"key1.pem\"\n{CERTIFICATE}");
    let tls = start_in(folder, "", "", &both);
    assert!(tls.is_trusted(&first, "one.example") && tls.is_trusted(&second, "a.two.example"));
    assert!(!tls.is_trusted(&second, "one.example") && !tls.is_trusted(&first, "a.two.example"));
}

#[test]
fn what_is_wrong_with_certificates_and_listeners_is_shown_at_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    write_certificate(folder.path(), "one.example");
    let check = |text: &str| {
        fs::write(folder.path().join("nomen.toml"), text).expect("written");
        let output = run(folder.path(), &["check", "nomen.toml"]);
        (output.status.code(), crate::support::text(&output.stderr))
    };
    let listen = "[[listen]]\naddr = [\"127.0.0.1@8853\"]\nproto = [\"tls\"]\n";
    let (code, said) = check(&format!("{listen}{CERTIFICATE}"));
    assert_eq!((code, said.as_str()), (Some(0), ""));
    let (code, said) = check(CERTIFICATE);
    assert!(
        code == Some(0) && said.contains("warning: no listener uses the certificates\n --> nomen.toml:1:1\n"),
        "{said}"
    );
    let missing = CERTIFICATE.replace("key.pem", "no.pem");
    let (code, said) = check(&format!("{listen}{missing}"));
    assert!(code != Some(0) && said.contains("no.pem: there is no such file"), "{said}");
    let (code, said) = check(&format!("{listen}[[certificate]]\nchain = \"chain.pem\"\n"));
    assert!(code == Some(1) && said.contains("`key`"), "{said}");
    let (code, said) = check("[[listen]]\naddr = [\"127.0.0.1@853\"]\nproto = [\"tcp\", \"tls\"]\n");
    assert!(
        code == Some(1)
            && said.contains("127.0.0.1@853 over tls overlaps with itself over tcp: a port has one of them"),
        "{said}"
    );
}

#[test]
fn a_server_that_takes_over_continues_with_the_tls_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let certificate = write_certificate(folder.path(), "one.example");
    let TlsServer { server, at } = start_in(folder, "", "", CERTIFICATE);
    let log = fs::File::create(server.path("log")).expect("a log");
    let mut command = nomen(&["serve", "--config", "nomen.toml", "--take-over"]);
    command.stdin(Stdio::null()).stdout(log.try_clone().expect("the log")).stderr(log);
    let tls = TlsServer { server: server.taken_over_by(command), at };
    assert!(tls.is_trusted(&certificate, "one.example"));
    assert!(tls.server.log().contains("passed"), "{}", tls.server.log());
}

#[test]
fn a_session_is_resumed_at_another_server_with_the_same_ticket_keys() {
    let folder = || tempfile::tempdir().expect("a folder");
    let keys = |first: u8| (first..).take(80).collect::<Vec<u8>>();
    let (one, two) = (folder(), folder());
    let certificate = write_certificate(one.path(), "dns.example");
    for file in ["chain.pem", "key.pem"] {
        fs::copy(one.path().join(file), two.path().join(file)).expect("copied");
    }
    fs::write(one.path().join("tickets"), keys(1)).expect("written");
    fs::write(two.path().join("tickets"), [keys(2), keys(1)].concat()).expect("written");
    let shared = "tls-ticket-keys = [\"tickets\"]\n";
    let [one, two] = [one, two].map(|folder| start_in(folder, shared, "", CERTIFICATE));
    // www.example. A IN
    let query = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\0\0\x01\0\x01";
    let client = trusting(&certificate);
    let resumes = |server: &TlsServer| server.exchange_by(&client, "dns.example", query).1;
    assert!(!resumes(&one), "the first session");
    assert!(resumes(&two), "its second key is the other's");
    fs::write(one.server.path("tickets"), keys(3)).expect("written");
    one.server.reload();
    assert!(!resumes(&one), "the key was replaced");
    fs::write(one.server.path("tickets"), "short").expect("written");
    let said = one.server.reload_badly().to_string();
    assert!(said.contains("has 5 bytes; each key of session tickets has 80"), "{said}");
    assert!(resumes(&one), "the keys before stay in use");
}

#[test]
fn clients_discover_the_listeners_and_the_operator_what_others_need_for_it() {
    let folder = tempfile::tempdir().expect("a folder");
    write_certificate(folder.path(), "dns.example");
    let forward = "[[resolver.forward]]\nservers = [\"192.0.2.1\"]\n";
    let tls = start_in(folder, "", "", &format!("{CERTIFICATE}{forward}"));
    let (ip, port) = (tls.at.ip(), tls.at.port());
    let found = tls.kdig(&["_dns.resolver.arpa", "SVCB", "+short"]);
    let record = format!("1 dns.example. alpn=dot port={port} ipv4hint={ip}");
    assert_eq!(found.trim().replace('"', ""), record);
    let none = tls.kdig(&["_dns.resolver.arpa", "A"]);
    assert!(none.contains("NOERROR") && none.contains("ANSWER: 0"), "{none}");
    let shown = text(&tls.server.ctl(&["discovery"]).stdout);
    assert!(shown.contains(&format!("_dns.dns.example. 600 SVCB {record}")), "{shown}");
    assert!(shown.contains(":03:64:6e:73:07:65:78:61:6d:70:6c:65:00:"), "{shown}");
}
