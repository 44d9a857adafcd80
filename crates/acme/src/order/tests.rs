//! What a CA on a loopback address suggests about renewal.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener};
use std::time::SystemTime;

use data_encoding::BASE64URL_NOPAD;
use rcgen::{BasicConstraints, IsCa, Issuer, KeyIdMethod, SanType};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;
use tempfile::TempDir;

use super::*;

/// Hosts that have no addresses: those of URLs in tests are addresses.
struct NoHosts;

impl HostAddresses for NoHosts {
    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        Err(format!("{host} is asked for"))
    }
}

/// A CA with a directory and renewal information, whose thread ends with the test, and the store of a client.
struct TestCa {
    folder: TempDir,
    directory: Url,
    store: AcmeStore,
}

impl TestCa {
    /// Starts a CA whose responses to requests for renewal information have this head and body; `None`: it
    /// has none.
    fn start(renewal: Option<(&'static str, &'static str)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let origin = format!("https://{}", listener.local_addr().expect("bound"));
        let folder = tempfile::tempdir().expect("a folder");
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::IpAddress("127.0.0.1".parse().expect("an address"))];
        let own = params.self_signed(&key).expect("signed");
        std::fs::write(folder.path().join("ca.pem"), own.pem()).expect("written");
        let secret = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.expect("versions").with_no_client_auth();
        let config = Arc::new(config.with_single_cert(vec![own.der().clone()], secret).expect("fits"));
        let mut directory = json!({
            "newNonce": format!("{origin}/nonce"),
            "newAccount": format!("{origin}/account"),
            "newOrder": format!("{origin}/order"),
        });
        if renewal.is_some() {
            directory["renewalInfo"] = json!(format!("{origin}/renewal"));
        }
        let directory = directory.to_string();
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let connection = ServerConnection::new(Arc::clone(&config)).expect("a connection");
                let mut stream = StreamOwned::new(connection, stream);
                let mut request = Vec::new();
                let mut byte = [0];
                while !request.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                    request.push(byte[0]);
                }
                let own = b"GET /renewal/aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE ";
                let (head, body) = match renewal {
                    _ if request.starts_with(b"GET /dir ") => ("200 OK", directory.as_str()),
                    Some(renewal) if request.starts_with(own) => renewal,
                    Some(_) | None => ("404 Not Found", ""),
                };
                let length = body.len();
                let response = format!("HTTP/1.1 {head}\r\nContent-Length: {length}\r\n\r\n{body}");
                let _ = stream.write_all(response.as_bytes());
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        });
        let directory = Url::parse(&format!("{origin}/dir")).expect("a URL");
        let store = AcmeStore::new(folder.path());
        TestCa { folder, directory, store }
    }

    /// Stores an account.
    fn with_account(self) -> Self {
        let key = KeyPair::generate().expect("a key");
        let credentials = json!({
            "id": "https://ca.example/account/1",
            "key_pkcs8": BASE64URL_NOPAD.encode(&key.serialize_der()),
            "directory": self.directory.as_str(),
        });
        let credentials = serde_json::from_value(credentials).expect("credentials");
        let account = StoredAccount { contacts: Vec::new(), bound_to: None, credentials };
        self.store.keep_account(&self.directory, &account).expect("stored");
        self
    }

    async fn suggestion(&self, certificate: &[u8]) -> Result<Option<RenewalSuggestion>, AcmeFault> {
        let order = AcmeOrder {
            names: &BTreeSet::new(),
            directory: &self.directory,
            contacts: &[],
            ca_file: Some(self.folder.path().join("ca.pem")),
            store: &self.store,
            external: None,
            replaces: None,
        };
        order.suggestion(&Arc::new(NoHosts), certificate).await
    }
}

/// The certificate of the example in RFC 9773 §4.1.
fn certificate() -> Vec<u8> {
    let mut of_ca = CertificateParams::default();
    of_ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = [
        0x69, 0x88, 0x5b, 0x6b, 0x87, 0x46, 0x40, 0x41, 0xe1, 0xb3, 0x7b, 0x84, 0x7b, 0xa0, 0xae, 0x2c, 0xde,
        0x01, 0xc8, 0xd4,
    ];
    of_ca.key_identifier_method = KeyIdMethod::PreSpecified(key.to_vec());
    let issuer = Issuer::new(of_ca, KeyPair::generate().expect("a key"));
    let mut params = CertificateParams::new(vec!["dns.example".to_owned()]).expect("a name");
    params.serial_number = Some(vec![0x87, 0x65, 0x43, 0x21].into());
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().expect("a key");
    params.signed_by(&key, &issuer).expect("signed").der().to_vec()
}

#[tokio::test]
async fn a_ca_is_asked_for_the_certificate_by_its_identifier() {
    let window = r#"{"suggestedWindow": {"start": "2026-01-02T03:04:05Z", "end": "2026-01-03T03:04:05Z"}}"#;
    let window = ("200 OK\r\nRetry-After: 21600", window);
    let ca = TestCa::start(Some(window));
    assert_eq!(ca.suggestion(&certificate()).await.expect("no account"), None, "none is made for it");
    let ca = ca.with_account();
    let suggestion = ca.suggestion(&certificate()).await.expect("an answer").expect("a window");
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_323_045);
    assert_eq!((suggestion.start, suggestion.end), (start, start + Duration::from_secs(86_400)));
    assert!(suggestion.ask_after > Duration::from_secs(21_000), "{suggestion:?}");
    assert_eq!(ca.suggestion(b"no certificate").await.expect("no identifier"), None);
}

#[tokio::test]
async fn a_ca_that_makes_no_suggestions_is_none_that_fails() {
    let without = TestCa::start(None).with_account();
    assert_eq!(without.suggestion(&certificate()).await.expect("not supported"), None);
    let problem = r#"{"type": "urn:ietf:params:acme:error:malformed", "detail": "no such certificate"}"#;
    let problem = ("404 Not Found\r\nRetry-After: 60", problem);
    let failing = TestCa::start(Some(problem)).with_account();
    let fault = failing.suggestion(&certificate()).await.expect_err("a problem").message;
    assert!(fault.starts_with("the time of renewal: the CA replied: no such certificate"), "{fault}");
}

#[test]
fn only_faults_about_the_replaced_certificate_are_followed_by_another_order() {
    let api = |kind: &str| {
        let text = format!("{{\"type\": \"urn:ietf:params:acme:error:{kind}\"}}");
        Error::Api(serde_json::from_str(&text).expect("JSON"))
    };
    assert!(is_about_replacing(&api("alreadyReplaced")) && is_about_replacing(&api("malformed")));
    assert!(is_about_replacing(&Error::Unsupported("ARI")));
    for kind in ["rateLimited", "accountDoesNotExist", "rejectedIdentifier", "badNonce"] {
        assert!(!is_about_replacing(&api(kind)), "{kind}");
    }
    assert!(!is_about_replacing(&Error::Other("no connection".into())));
}
