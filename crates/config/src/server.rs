//! `[server]`, whose keys come from several features.

use super::answers::Answers;
use super::certificates::Tickets;
use super::client_certificates::ClientCertificateKeys;
use super::client_names::ClientNameKeys;
use super::confinement::Confinement;
use super::http_proxies::HttpProxyKeys;
use super::https::Https;
use super::privileges::Privileges;
use super::proxies::ProxyProtocol;
use super::reloading::Reloading;
use super::storage::Storage;
use super::table::section;
use super::tcp::Tcp;
use super::threads::Threads;

section! {
    /// Settings of the whole process.
    pub struct ServerSection in "[server]" {
        /// The user and group to change to.
        privileges: Privileges;
        /// The sandbox.
        confinement: Confinement;
        /// State stored between runs.
        storage: Storage;
        /// Loading zones, and reloads.
        reloading: Reloading;
        /// The threads that answer.
        threads: Threads;
        /// TCP connections.
        tcp: Tcp;
        /// DNS over HTTPS.
        https: Https;
        /// Identifiers that clients write for themselves.
        client_names: ClientNameKeys;
        /// Sessions of TLS.
        tickets: Tickets;
        /// Certificates of clients.
        client_certificates: ClientCertificateKeys;
        /// Proxies that name their clients.
        proxies: ProxyProtocol;
        /// Proxies that pass requests on by HTTP.
        http_proxies: HttpProxyKeys;
        /// Answers and the server's identity.
        answers: Answers;
    }
}

impl ServerSection {
    /// Returns the settings of the listeners.
    pub fn net_config(&self) -> net::ListenerConfig {
        net::ListenerConfig {
            tcp: self.tcp.config(),
            https_paths: self.https.paths(),
            client_names: self.client_names.names(),
            ..self.threads.config()
        }
    }
}
