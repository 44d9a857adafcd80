//! Sessions to other DNS servers, against a server in memory: which servers are accepted, and how sessions
//! begin, resume and end.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion};
use tls::client::{Authorities, ClientSettings, KeyPin, ServerIdentity};
use transport::{EncryptedSession, Encryption, EncryptionFault, SessionState};

/// Returns the encryption without other settings.
fn encryption(identity: &ServerIdentity) -> Result<Encryption, rustls::Error> {
    tls::client::encryption(identity, &ClientSettings::default())
}

/// The pins of the certificates, as openssl prints them:
/// `openssl x509 -pubkey | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64`.
const SERVER_PIN: &str = "4Bk+iD5DaeLmvEE3T0l6f1cyQgIOp3jmqnNj3oC3VqE=";
const SELF_PIN: &str = "FnXh1YnQwt+FtZSYk+Z/oNS8Giph+k2HD69ffUY+Usg=";

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn certificate(name: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(data(&format!("{name}.pem"))).expect("a certificate")
}

/// A server with this certificate.
fn server(name: &str, versions: &[&'static SupportedProtocolVersion]) -> Arc<ServerConfig> {
    let key = PrivateKeyDer::from_pem_file(data(&format!("{name}.key"))).expect("a key");
    let builder = ServerConfig::builder_with_provider(tls::provider()).with_protocol_versions(versions);
    let builder = builder.expect("versions").with_no_client_auth();
    let mut config = builder.with_single_cert(vec![certificate(name)], key).expect("settings");
    config.alpn_protocols = vec![b"dot".to_vec()];
    config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().expect("a ticketer");
    Arc::new(config)
}

/// A server that is authenticated by this name, by the authorities of this file, and by these pins.
fn identity(name: Option<(&str, &str)>, pins: &[&str]) -> ServerIdentity {
    let name = name.map(|(name, file)| {
        let roots = tls::authorities(Some(&data(file))).expect("authorities");
        (name.parse().expect("a name"), Authorities::new(roots))
    });
    ServerIdentity::Authenticated { name, pins: pins.iter().map(|pin| pin.parse().expect("a pin")).collect() }
}

/// Both ends of a connection.
struct Ends {
    client: Box<dyn EncryptedSession>,
    server: ServerConnection,
    plain: Vec<u8>,
}

impl Ends {
    fn new(encryption: &Encryption, server: &Arc<ServerConfig>) -> Self {
        let client = encryption.begin(([192, 0, 2, 1], 853).into()).expect("a session");
        let server = ServerConnection::new(Arc::clone(server)).expect("a connection");
        Ends { client, server, plain: Vec::new() }
    }

    /// Carries bytes both ways, in pieces of this size, until there are no more. Returns the client's state.
    fn carry(&mut self, piece: usize) -> Result<SessionState, EncryptionFault> {
        let mut state = SessionState::Handshake;
        loop {
            let mut bytes = Vec::new();
            self.client.output(&mut bytes);
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                self.server.read_tls(&mut rest).expect("memory");
                // It refuses what a client refuses.
                let _ = self.server.process_new_packets();
            }
            let mut answer = Vec::new();
            while self.server.wants_write() {
                self.server.write_tls(&mut answer).expect("memory");
            }
            if answer.is_empty() {
                return Ok(state);
            }
            for piece in answer.chunks(piece) {
                state = self.client.receive(piece, &mut self.plain)?;
            }
        }
    }
}

/// Returns the outcome of a handshake with the server of this certificate.
fn outcome(identity: &ServerIdentity, certificate: &str) -> Result<SessionState, EncryptionFault> {
    let encryption = encryption(identity).expect("settings");
    let mut states = [&rustls::version::TLS13, &rustls::version::TLS12]
        .map(|version| Ends::new(&encryption, &server(certificate, &[version])).carry(usize::MAX));
    assert_eq!(states[0], states[1], "both versions have one outcome");
    std::mem::replace(&mut states[0], Ok(SessionState::Closed))
}

const ACCEPTED: Result<SessionState, EncryptionFault> = Ok(SessionState::Established { resumed: false });

#[test]
fn a_server_is_accepted_by_its_name_only_with_a_valid_certificate_of_a_known_issuer() {
    let named = |name| identity(Some((name, "ca.pem")), &[]);
    assert_eq!(outcome(&named("dns.example"), "server"), ACCEPTED);
    assert_eq!(outcome(&named("DNS.Example."), "server"), ACCEPTED);
    assert_eq!(outcome(&named("127.0.0.1"), "server"), ACCEPTED, "an address of the certificate");
    assert_eq!(outcome(&named("dns.example"), "renewed"), ACCEPTED, "another key of the same name");
    assert_eq!(outcome(&named("dns.example.net"), "server"), Err(EncryptionFault::WrongName));
    assert_eq!(outcome(&named("192.0.2.1"), "server"), Err(EncryptionFault::WrongName));
    assert_eq!(outcome(&named("dns.example"), "expired"), Err(EncryptionFault::CertificateExpired));
    assert_eq!(outcome(&named("dns.example"), "future"), Err(EncryptionFault::CertificateNotYetValid));
    assert_eq!(outcome(&named("self.example"), "self"), Err(EncryptionFault::UnknownIssuer));
    let by_other = identity(Some(("dns.example", "self.pem")), &[]);
    assert_eq!(outcome(&by_other, "server"), Err(EncryptionFault::UnknownIssuer));
}

#[test]
fn a_certificate_of_a_ca_was_refused_without_the_reason() {
    let mut params = rcgen::CertificateParams::new(vec!["dns.example".into()]).expect("a name");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("signed").der().clone();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone()).expect("a root");
    let builder = ServerConfig::builder_with_provider(tls::provider()).with_safe_default_protocol_versions();
    let builder = builder.expect("versions").with_no_client_auth();
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let server = Arc::new(builder.with_single_cert(vec![certificate], key).expect("settings"));
    let name = Some(("dns.example".parse().expect("a name"), Authorities::new(roots)));
    let identity = ServerIdentity::Authenticated { name, pins: Vec::new() };
    let ended = Ends::new(&encryption(&identity).expect("settings"), &server).carry(usize::MAX);
    assert_eq!(ended, Err(EncryptionFault::CaCertificate));
}

#[test]
fn a_server_is_accepted_by_its_key_whatever_else_its_certificate_says() {
    let pinned = |pins: &[&str]| identity(None, pins);
    assert_eq!(outcome(&pinned(&[SERVER_PIN]), "server"), ACCEPTED);
    assert_eq!(outcome(&pinned(&[SELF_PIN, SERVER_PIN]), "server"), ACCEPTED, "one of them");
    assert_eq!(outcome(&pinned(&[SELF_PIN]), "self"), ACCEPTED, "its own issuer");
    assert_eq!(outcome(&pinned(&[SERVER_PIN]), "renewed"), Err(EncryptionFault::WrongPin));
    assert_eq!(outcome(&pinned(&[SERVER_PIN]), "self"), Err(EncryptionFault::WrongPin));
}

#[test]
fn with_a_name_and_a_pin_both_must_hold() {
    let both = |name| identity(Some((name, "ca.pem")), &[SERVER_PIN]);
    assert_eq!(outcome(&both("dns.example"), "server"), ACCEPTED);
    assert_eq!(outcome(&both("dns.example"), "renewed"), Err(EncryptionFault::WrongPin));
    assert_eq!(outcome(&both("other.example"), "server"), Err(EncryptionFault::WrongName));
}

#[test]
fn an_opportunistic_connection_is_encrypted_to_any_server() {
    for certificate in ["server", "expired", "future", "self"] {
        assert_eq!(outcome(&ServerIdentity::Opportunistic, certificate), ACCEPTED, "{certificate}");
    }
}

/// A certificate is public: a server that has it without its key proves nothing.
#[test]
fn a_server_without_the_key_of_its_certificate_is_not_accepted() {
    let key = PrivateKeyDer::from_pem_file(data("renewed.key")).expect("a key");
    let key = tls::provider().key_provider.load_private_key(key).expect("a key");
    let resolver = Arc::new(rustls::sign::SingleCertAndKey::from(rustls::sign::CertifiedKey::new(
        vec![certificate("server")],
        key,
    )));
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let builder = ServerConfig::builder_with_provider(tls::provider()).with_protocol_versions(&[version]);
        let builder = builder.expect("versions").with_no_client_auth();
        let thief = Arc::new(builder.with_cert_resolver(Arc::clone(&resolver) as _));
        let all = [
            identity(Some(("dns.example", "ca.pem")), &[]),
            identity(None, &[SERVER_PIN]),
            ServerIdentity::Opportunistic,
        ];
        for identity in all {
            let encryption = encryption(&identity).expect("settings");
            let outcome = Ends::new(&encryption, &thief).carry(usize::MAX);
            assert_eq!(outcome, Err(EncryptionFault::BadCertificate), "{identity}");
        }
    }
}

#[test]
fn messages_pass_both_ways_in_any_pieces_and_what_is_sent_early_waits_for_the_handshake() {
    let encryption = encryption(&identity(Some(("dns.example", "ca.pem")), &[])).expect("settings");
    let both: &[&'static SupportedProtocolVersion] = &[&rustls::version::TLS13, &rustls::version::TLS12];
    for piece in [1, 7, usize::MAX] {
        let mut ends = Ends::new(&encryption, &server("server", both));
        ends.client.send(b"early");
        ends.carry(piece).expect("accepted");
        ends.client.send(b" and late");
        ends.carry(piece).expect("open");
        let mut got = [0; 14];
        ends.server.reader().read_exact(&mut got).expect("all of it");
        assert_eq!(&got, b"early and late");
        let answer = vec![7; 70_000];
        ends.server.set_buffer_limit(None);
        ends.server.writer().write_all(&answer).expect("memory");
        ends.carry(piece).expect("open");
        assert_eq!(ends.plain, answer);
        ends.plain.clear();
        ends.server.writer().write_all(b"last").expect("memory");
        ends.server.send_close_notify();
        assert_eq!(ends.carry(usize::MAX), Ok(SessionState::Closed));
        assert_eq!(ends.plain, b"last", "what comes before the end is not lost");
    }
}

#[test]
fn a_second_connection_resumes_the_session_but_not_with_another_key_of_the_server() {
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let encryption =
            encryption(&identity(Some(("dns.example", "ca.pem")), &[SERVER_PIN])).expect("settings");
        let same = server("server", &[version]);
        assert_eq!(Ends::new(&encryption, &same).carry(usize::MAX), ACCEPTED);
        let again = Ends::new(&encryption, &same).carry(usize::MAX);
        assert_eq!(again, Ok(SessionState::Established { resumed: true }), "{version:?}");
        // A server with another key cannot decrypt the ticket: it must show its certificate.
        let other = Ends::new(&encryption, &server("renewed", &[version])).carry(usize::MAX);
        assert_eq!(other, Err(EncryptionFault::WrongPin));
    }
}

#[test]
fn what_is_no_tls_is_told_from_a_refusal() {
    let encryption = encryption(&ServerIdentity::Opportunistic).expect("settings");
    let receive = |bytes: &[u8]| {
        let mut session = encryption.begin(([192, 0, 2, 1], 853).into()).expect("a session");
        session.receive(bytes, &mut Vec::new())
    };
    assert_eq!(receive(b"HTTP/1.1 400 Bad Request\r\n\r\n"), Err(EncryptionFault::NotTls));
    assert_eq!(
        receive(&[0, 40, 0xab, 0xcd, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]),
        Err(EncryptionFault::NotTls)
    );
    // A fatal alert: handshake_failure.
    assert_eq!(receive(&[21, 3, 3, 0, 2, 2, 40]), Err(EncryptionFault::Alert));
    assert_eq!(receive(&[]), Ok(SessionState::Handshake));
}

#[test]
fn the_end_of_a_session_is_told_to_the_server() {
    let encryption = encryption(&ServerIdentity::Opportunistic).expect("settings");
    let mut ends = Ends::new(&encryption, &server("server", &[&rustls::version::TLS13]));
    ends.carry(usize::MAX).expect("accepted");
    ends.client.close();
    ends.carry(usize::MAX).expect("carried");
    assert_eq!(ends.server.reader().read(&mut [0; 10]).expect("the end"), 0);
}

#[test]
fn what_decides_about_servers_is_in_the_identity() {
    let of = |identity: &ServerIdentity| encryption(identity).expect("settings");
    let named = identity(Some(("dns.example", "ca.pem")), &[]);
    let pinned = identity(Some(("dns.example", "ca.pem")), &[SERVER_PIN]);
    let other_authority = identity(Some(("dns.example", "self.pem")), &[]);
    assert_eq!(of(&named), of(&named.clone()), "read again, it is the same");
    assert_ne!(of(&named), of(&pinned));
    assert_ne!(of(&named), of(&other_authority));
    assert_ne!(of(&named), of(&ServerIdentity::Opportunistic));
    assert_eq!(of(&pinned).to_string(), format!("dns.example,sha256/{SERVER_PIN}"));
    assert_eq!(of(&ServerIdentity::Opportunistic).to_string(), "opportunistic");
    assert_eq!(KeyPin::of(&certificate("server")).expect("a key").to_string(), SERVER_PIN);
}
