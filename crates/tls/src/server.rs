//! TLS settings of the listeners: the certificate for the name that a client asks for, session tickets, and
//! the application protocol. Certificates can be replaced while connections are open.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use transport::ClientCertificate;

use crate::certificate::ServerCertificate;
use crate::clients::{ClientCertificates, ClientIdentifier};
use crate::provider;
use crate::tickets::{TicketKeys, Tickets};

/// The application protocol of DNS over TLS (RFC 7858, RFC 9103 §7.1).
const DOT: &[u8] = b"dot";

/// The application protocols of DNS over HTTPS, the preferred one first.
const HTTPS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The application protocol of the HTTP API.
const API: &[u8] = b"http/1.1";

/// The application protocol of DNS over QUIC (RFC 9250 §4.1.1).
const DOQ: &[u8] = b"doq";

/// The certificates in use.
type Certificates = Arc<ArcSwap<Vec<Arc<ServerCertificate>>>>;

/// TLS settings that listeners share.
pub struct ServerTls {
    certificates: Certificates,
    tickets: Arc<Tickets>,
    dot: Arc<ServerConfig>,
    https: Arc<ServerConfig>,
    quic: Arc<ServerConfig>,
    api: Arc<ServerConfig>,
    clients: Arc<ClientIdentifier>,
}

impl ServerTls {
    /// Returns settings without a certificate: every handshake fails until there is one.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new() -> Result<Self, rustls::Error> {
        let certificates = Certificates::default();
        let chooser = Arc::new(Chooser(Arc::clone(&certificates)));
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(chooser);
        // The state of a session is in its ticket, so that clients take no memory after their connections.
        let tickets = Arc::new(Tickets::new()?);
        config.ticketer = Arc::clone(&tickets) as _;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.alpn_protocols = vec![DOT.to_vec()];
        let mut https = config.clone();
        https.alpn_protocols = HTTPS.map(<[u8]>::to_vec).into();
        let mut quic = config.clone();
        quic.alpn_protocols = vec![DOQ.to_vec()];
        let mut api = config.clone();
        api.alpn_protocols = vec![API.to_vec()];
        let clients = Arc::new(ClientIdentifier::new());
        let [dot, https, quic, api] = [asking(&clients, config)?, https, quic, api].map(Arc::new);
        Ok(ServerTls { certificates, tickets, dot, https, quic, api, clients })
    }

    /// Uses these settings of certificates of clients from now on.
    ///
    /// # Errors
    /// The CA certificates are of no use to the verifier; the settings before stay.
    pub fn set_clients(&self, settings: ClientCertificates) -> Result<(), rustls::Error> {
        self.clients.set(settings)
    }

    /// Returns the function that identifies clients by the certificates that they show.
    pub fn identify(&self) -> impl Fn(&[CertificateDer<'_>]) -> Option<Arc<ClientCertificate>> + use<> {
        let clients = Arc::clone(&self.clients);
        move |chain| clients.identify(chain)
    }

    /// Uses these certificates for handshakes from now on. The first is the one of clients that name no
    /// server, or one that is unknown.
    pub fn set(&self, certificates: Vec<Arc<ServerCertificate>>) {
        self.certificates.store(Arc::new(certificates));
    }

    /// Returns the certificates in use.
    pub fn certificates(&self) -> Arc<Vec<Arc<ServerCertificate>>> {
        self.certificates.load_full()
    }

    /// Uses these keys of session tickets from now on: the first makes tickets, all read them. With none,
    /// this process makes keys of its own and replaces them every six hours.
    pub fn share_tickets(&self, keys: Vec<Arc<TicketKeys>>) {
        self.tickets.share(keys);
    }

    /// Returns the shared keys of session tickets in use.
    pub fn ticket_keys(&self) -> Arc<Vec<Arc<TicketKeys>>> {
        self.tickets.shared()
    }

    /// Returns the settings of DNS over TLS.
    pub fn dot(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.dot)
    }

    /// Returns the settings of DNS over HTTPS.
    pub fn https(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.https)
    }

    /// Returns the settings of DNS over QUIC, which uses TLS 1.3 of them (RFC 9001 §4.2). Without early data
    /// (0-RTT), which an attacker could send again.
    pub fn quic(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.quic)
    }

    /// Returns the settings of the HTTP API.
    pub fn api(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.api)
    }
}

/// Returns the same settings for handshakes in which clients may be asked for a certificate.
fn asking(clients: &Arc<ClientIdentifier>, settings: ServerConfig) -> Result<ServerConfig, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(Arc::clone(clients) as Arc<dyn ClientCertVerifier>)
        .with_cert_resolver(Arc::clone(&settings.cert_resolver));
    config.ticketer = settings.ticketer;
    config.session_storage = settings.session_storage;
    config.alpn_protocols = settings.alpn_protocols;
    Ok(config)
}

/// Chooses the certificate of a handshake.
struct Chooser(Certificates);

impl fmt::Debug for Chooser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Chooser")
    }
}

impl ResolvesServerCert for Chooser {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let certificates = self.0.load();
        let schemes = hello.signature_schemes();
        let fits = |certificate: &&Arc<ServerCertificate>| {
            certificate.certified.key.choose_scheme(schemes).is_some()
        };
        let mut of_name = certificates
            .iter()
            .filter(|certificate| hello.server_name().is_some_and(|n| certificate.is_for(n)));
        let chosen = of_name.find(fits).or_else(|| certificates.iter().find(fits))?;
        Some(Arc::clone(&chosen.certified))
    }
}
