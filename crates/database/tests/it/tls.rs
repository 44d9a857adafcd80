//! TLS to the database, with certificates that are verified, and passwords.

use std::sync::Arc;

use database::{DatabaseAdmin, DatabaseSettings};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use testkit::postgres::{PostgresDatabase, PostgresServer};

use crate::node::{Node, admin, settings, zone};

/// Only with TLS and a password for the user `app`; other users as in all tests.
const HBA: &str = "hostssl all app all scram-sha-256\nhost all app all reject\nhost all all all trust\nlocal all all trust\n";

/// A server with a certificate for `localhost`, and the certificate.
fn server() -> (PostgresServer, CertificateDer<'static>) {
    let key = KeyPair::generate().expect("a key");
    let parameters = CertificateParams::new(["localhost".to_owned()]).expect("names");
    let certificate = parameters.self_signed(&key).expect("a certificate");
    let server = PostgresServer::with_files(
        &["fsync=off", "ssl=on", "ssl_cert_file={}/cert", "ssl_key_file={}/key", "hba_file={}/hba"],
        &[
            ("cert", &testkit::pem("CERTIFICATE", certificate.der())),
            ("key", &testkit::pem("PRIVATE KEY", &key.serialize_der())),
            ("hba", HBA),
        ],
    );
    (server, certificate.der().clone())
}

/// Settings of TLS that trust this certificate.
fn trusting(certificate: &CertificateDer<'static>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).expect("a certificate");
    let builder = ClientConfig::builder_with_provider(tls::provider()).with_safe_default_protocol_versions();
    Arc::new(builder.expect("versions").with_root_certificates(roots).with_no_client_auth())
}

/// Settings for the user with a password.
fn with_password(database: &PostgresDatabase, host: &str, password: &str) -> DatabaseSettings {
    let url = database.url().replace("nomen@127.0.0.1", &format!("app:{password}@{host}"));
    settings(&url, "a")
}

#[test]
fn certificates_and_passwords_are_verified() {
    let (server, certificate) = server();
    let database = server.database();
    admin(&database).init().expect("a schema");
    database.sql(
        "CREATE ROLE app LOGIN PASSWORD 'geheim'; GRANT USAGE ON SCHEMA nomen TO app; \
         GRANT ALL ON ALL TABLES IN SCHEMA nomen TO app",
    );
    let trusted = Some(trusting(&certificate));
    let good = DatabaseSettings { tls: trusted.clone(), ..with_password(&database, "localhost", "geheim") };
    let node = Node::with(good, Arc::default());
    let first = zone("example.", 1, "");
    let id = node.create(&first).expect("made");
    node.sink.version(id, 1);
    let sessions =
        "SELECT bool_and(s.ssl) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) WHERE usename = 'app'";
    assert_eq!(database.sql(sessions), "t");

    let refusal = |settings: DatabaseSettings| DatabaseAdmin::connect(settings).err().expect("no connection");
    let wrong = DatabaseSettings { tls: trusted.clone(), ..with_password(&database, "localhost", "falsch") };
    let fault = refusal(wrong);
    assert!(fault.contains("password authentication failed") && !fault.contains("falsch"), "{fault}");
    // The certificate is for another name.
    let fault = refusal(DatabaseSettings { tls: trusted, ..with_password(&database, "127.0.0.1", "geheim") });
    assert!(fault.contains("the server's certificate does not match its name"), "{fault}");
    // It is not trusted.
    let stranger = KeyPair::generate().expect("a key");
    let parameters = CertificateParams::new(["localhost".to_owned()]).expect("names");
    let other = parameters.self_signed(&stranger).expect("a certificate");
    let fault = refusal(DatabaseSettings {
        tls: Some(trusting(other.der())),
        ..with_password(&database, "localhost", "geheim")
    });
    assert!(fault.contains("certificate"), "{fault}");
    // Without TLS.
    let fault = refusal(with_password(&database, "localhost", "geheim"));
    assert!(fault.contains("pg_hba.conf"), "{fault}");
    // A server without TLS is not used where TLS is wanted.
    let plain = PostgresServer::shared().existing("postgres");
    let fault =
        refusal(DatabaseSettings { tls: Some(trusting(&certificate)), ..settings(&plain.url(), "a") });
    assert!(fault.contains("TLS"), "{fault}");
}
