//! Oblivious DoH (RFC 9230): `nomen query` asks a server directly and through a proxy; refused messages, the
//! counters and the log.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::thread::{JoinHandle, spawn};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use crate::encrypted::{CERTIFICATE, start_over, write_certificate};
use crate::support::{TEST_TIMEOUT, eventually, free_address, run, text};

/// An oblivious proxy for one request, with the target's certificate. Returns the line of the request.
struct Proxy {
    at: SocketAddr,
    served: JoinHandle<String>,
}

impl Proxy {
    fn start(target: SocketAddr, certificate: &str, key: &str) -> Proxy {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM");
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
        let own = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let own = own.with_safe_default_protocol_versions().expect("versions").with_no_client_auth();
        let own = Arc::new(own.with_single_cert(vec![certificate.clone()], key).expect("settings"));
        let mut roots = RootCertStore::empty();
        roots.add(certificate).expect("added");
        let other = ClientConfig::builder_with_provider(provider);
        let other = other.with_safe_default_protocol_versions().expect("versions");
        let other = Arc::new(other.with_root_certificates(roots).with_no_client_auth());
        let listener = TcpListener::bind((target.ip(), 0)).expect("bound");
        let at = listener.local_addr().expect("an address");
        let served = spawn(move || {
            let stream = |stream: TcpStream| {
                stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
                stream
            };
            let client = stream(listener.accept().expect("a client").0);
            let mut client = StreamOwned::new(ServerConnection::new(own).expect("TLS"), client);
            let (head, body) = request(&mut client);
            let (line, fields) = head.split_once("\r\n").expect("a line");
            let name = ServerName::from(target.ip());
            let server = stream(TcpStream::connect(target).expect("connected"));
            let mut server = StreamOwned::new(ClientConnection::new(other, name).expect("TLS"), server);
            let passed = [b"POST /dns-query HTTP/1.1\r\n", fields.as_bytes(), &body].concat();
            server.write_all(&passed).expect("passed on");
            let mut response = Vec::new();
            server.read_to_end(&mut response).expect("a response");
            client.write_all(&response).expect("passed back");
            client.conn.send_close_notify();
            client.flush().expect("ended");
            line.to_owned()
        });
        Proxy { at, served }
    }
}

/// Reads a request of HTTP/1.1. Returns its head and its body.
fn request(client: &mut impl Read) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    let mut read = |bytes: &mut Vec<u8>| {
        let mut part = [0; 4096];
        let n = client.read(&mut part).expect("a request");
        assert!(n > 0, "a whole request");
        bytes.extend_from_slice(&part[..n]);
    };
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        read(&mut bytes);
    };
    let head = text(&bytes[..end]);
    let length = head.to_ascii_lowercase().lines().find_map(|line| {
        line.strip_prefix("content-length:").map(|length| length.trim().parse::<usize>().expect("a number"))
    });
    while bytes.len() < end + length.expect("a length") {
        read(&mut bytes);
    }
    (head, bytes.split_off(end))
}

#[test]
fn a_target_answers_its_clients_through_a_proxy_and_directly() {
    let folder = tempfile::tempdir().expect("a folder");
    let ip = free_address().ip();
    let certificate = write_certificate(folder.path(), &ip.to_string());
    let key = std::fs::read_to_string(folder.path().join("key.pem")).expect("read");
    let more = format!("{CERTIFICATE}[odoh]\noverlap = \"10m\"\n[log]\nqueries = true\n");
    let (server, at) = start_over("\"https\"", folder, "state-dir = \"state\"\n", "", &more);
    let ask = |words: &[&str]| {
        let (to, time) = (format!("@{ip}@{}", at.port()), format!("+time={}", TEST_TIMEOUT.as_secs()));
        let common = ["query", &to, &time, "+tls-ca=chain.pem"];
        let output = run(&server.path(""), &[&common, words].concat());
        text(&output.stdout) + &text(&output.stderr)
    };
    assert_eq!(ask(&["+odoh", "www.example", "A", "+short"]), "192.0.2.1\n");
    let proxy = Proxy::start(at, &certificate, &key);
    let url = format!("+odoh=https://{}/proxy{{?targethost,targetpath}}", proxy.at);
    let long = ask(&[&url, "long.example", "TXT"]);
    assert!(long.matches("xxxx\"").count() == 20 && long.contains("(HTTPS)"), "{long}");
    let line = proxy.served.join().expect("served");
    let port = at.port();
    assert_eq!(line, format!("POST /proxy?targethost={ip}%3A{port}&targetpath=%2Fdns-query HTTP/1.1"));
    let other = tempfile::tempdir().expect("a folder");
    write_certificate(other.path(), &ip.to_string());
    let (to, ca) =
        (format!("@{ip}@{}", at.port()), format!("+tls-ca={}", other.path().join("chain.pem").display()));
    let untrusted = run(&server.path(""), &["query", &to, &ca, "+odoh", "www.example", "A"]);
    let untrusted = text(&untrusted.stdout) + &text(&untrusted.stderr);
    let words = "TLS with the server failed: the server's certificate cannot be accepted (bad signature)\n";
    assert!(untrusted.contains(words), "{untrusted}");
    let wrong = ask(&["+odoh", "+odoh-path=/other", "www.example", "A"]);
    assert!(wrong.contains("status 404"), "{wrong}");
    let curl = |message: &[u8], path: &str, more: &[&str]| {
        std::fs::write(server.path("message"), message).expect("written");
        let mut command = Command::new("curl");
        command.args(["--silent", "--include", "--output", "-", "--noproxy", "*", "--cacert", "chain.pem"]);
        command.args(["--max-time", &TEST_TIMEOUT.as_secs().to_string()]).args(more);
        command.arg(format!("https://{at}{path}")).current_dir(server.path(""));
        String::from_utf8_lossy(&command.output().expect("curl runs").stdout).into_owned()
    };
    let configs = curl(b"", "/.well-known/odohconfigs", &[]);
    assert!(
        configs.starts_with("HTTP/2 200") && configs.contains("cache-control: max-age=600\r\n"),
        "{configs}"
    );
    let post = ["--data-binary", "@message", "--header", "content-type: application/oblivious-dns-message"];
    let unknown = [&[1, 0, 32][..], &[7; 32], &[0, 1, 9]].concat();
    let refused = curl(&unknown, "/dns-query", &post);
    assert!(refused.starts_with("HTTP/2 401") && refused.contains("www-authenticate: ODoH\r\n"), "{refused}");
    let refused = curl(b"half", "/dns-query", &post);
    assert!(refused.starts_with("HTTP/2 400"), "{refused}");
    let counter = |name: &str| {
        server.counter(&format!("nomen_net_{name}_total{{listen=\"{at}\",transport=\"https\"}}"))
    };
    assert_eq!((counter("odoh_queries"), counter("odoh_unknown_key"), counter("odoh_malformed")), (2, 1, 1));
    assert_eq!((counter("queries"), counter("https_bad_requests")), (2, 3));
    eventually("a line of the query", &server, || {
        server.log().lines().any(|line| line.contains("long.example") && line.contains("transport=\"https\""))
    });
    // Malformed messages of a client have a limit.
    server.reconfigure("overlap = \"10m\"\n", "overlap = \"10m\"\nmalformed-per-second = 1\n");
    server.reload();
    let refused = curl(b"half", "/dns-query?n=[1-200]", &post);
    assert!(refused.contains("HTTP/2 429") && refused.contains("retry-after: 1\r\n"), "{refused}");
    assert!(counter("odoh_limited") > 0);
    server.reconfigure("malformed-per-second = 1\n", "");
    // Off at a reload, as if there had never been any.
    server.reconfigure("[odoh]\noverlap = \"10m\"\n", "");
    server.reload();
    assert!(curl(b"", "/.well-known/odohconfigs", &[]).starts_with("HTTP/2 404"));
    assert!(curl(&unknown, "/dns-query", &post).starts_with("HTTP/2 415"));
}
