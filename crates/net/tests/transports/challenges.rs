//! Handshakes of the challenge tls-alpn-01: while one is pending, and never besides.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use net::TcpTimes;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};
use transport::Transport;

use crate::script::*;
use crate::tls::{Identity, config};

/// The object identifier of the extension (RFC 8737 §6.1) with the digest of the tests.
const EXTENSION: [u8; 8] = [0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x01, 0x1f];
const DIGEST: [u8; 32] = [7; 32];

/// Accepts every certificate, as a CA does.
#[derive(Debug)]
struct AcceptAll;

impl ServerCertVerifier for AcceptAll {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        tls::provider().signature_verification_algorithms.supported_schemes()
    }
}

/// What a client gets that offers these protocols for this name.
struct Outcome {
    protocol: Option<Vec<u8>>,
    /// Its certificate is that of the challenge.
    is_challenge: bool,
    /// What came after a query.
    replied: Vec<u8>,
}

fn connect(server: SocketAddr, name: &str, offered: &[&str]) -> Result<Outcome, String> {
    let builder = ClientConfig::builder_with_provider(tls::provider());
    let builder = builder.with_safe_default_protocol_versions().unwrap().dangerous();
    let mut config = builder.with_custom_certificate_verifier(Arc::new(AcceptAll)).with_no_client_auth();
    config.alpn_protocols = offered.iter().map(|one| one.as_bytes().to_vec()).collect();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream: TcpStream = TcpClient::connect(server).0;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream).map_err(|error| error.to_string())?;
    }
    let protocol = connection.alpn_protocol().map(<[u8]>::to_vec);
    let certificate = connection.peer_certificates().unwrap()[0].to_vec();
    let has = |bytes: &[u8]| certificate.windows(bytes.len()).any(|part| part == bytes);
    let is_challenge = has(&EXTENSION) && has(&DIGEST);
    let mut stream = StreamOwned::new(connection, stream);
    let mut replied = Vec::new();
    if protocol.as_deref() != Some(b"h2") {
        // The server may have closed the connection.
        let _ = stream.write_all(&framed(&[query(1, Order::Echo, 40)]));
        stream.conn.send_close_notify();
        let _ = stream.flush();
        let _ = stream.read_to_end(&mut replied);
    }
    Ok(Outcome { protocol, is_challenge, replied })
}

#[test]
fn a_pending_challenge_is_answered_and_nothing_behind_it() {
    let identity = Identity::new();
    identity.challenges.set(Some(tls::challenge_config(&[("dns.test".into(), DIGEST)]).unwrap()));
    for transport in [Transport::Tls, Transport::Https] {
        let server = ScriptedServer::start_with(
            "127.0.0.1:0",
            transport,
            &config(),
            &identity.context(TcpTimes::default()),
        );
        let outcome = connect(server.addr(), "DNS.test", &["acme-tls/1"]).unwrap();
        assert_eq!(outcome.protocol.as_deref(), Some(&b"acme-tls/1"[..]));
        assert!(outcome.is_challenge && outcome.replied.is_empty());
        let refused = connect(server.addr(), "other.test", &["acme-tls/1"]).err();
        assert!(refused.as_ref().is_some_and(|why| why.contains("AccessDenied")), "{refused:?}");
    }
}

#[test]
fn other_handshakes_are_the_same_while_a_challenge_is_pending_and_it_ends() {
    let identity = Identity::new();
    let server = ScriptedServer::start_with(
        "127.0.0.1:0",
        Transport::Tls,
        &config(),
        &identity.context(TcpTimes::default()),
    );
    let at = server.addr();
    let challenge = tls::challenge_config(&[("dns.test".into(), DIGEST)]).unwrap();
    for pending in [None, Some(challenge), None] {
        identity.challenges.set(pending.clone());
        for offered in [&["dot"][..], &["acme-tls/1", "dot"], &["dot", "acme-tls/1"], &[]] {
            let outcome = connect(at, "dns.test", offered).unwrap();
            let expected = (!offered.is_empty()).then(|| b"dot".to_vec());
            assert_eq!((outcome.protocol, outcome.is_challenge), (expected, false), "{offered:?}");
            assert_eq!(outcome.replied, framed(&[echoed(&query(1, Order::Echo, 40))]), "{offered:?}");
        }
        for offered in [&["h2"][..], &["acme-tls/1", "h2"], &["acme-tls/1"]] {
            let outcome = connect(at, "dns.test", offered);
            if offered == ["acme-tls/1"] && pending.is_some() {
                assert!(outcome.unwrap().is_challenge);
                continue;
            }
            let refused = outcome.err();
            assert!(refused.as_ref().is_some_and(|why| why.contains("NoApplicationProtocol")), "{refused:?}");
        }
    }
}
