//! TLS settings: the certificates of this server, the CA certificates that other servers are authenticated
//! with, TLS to other DNS servers (`client`), and the cryptography of all TLS connections. Without sockets:
//! `net` and `fetch` have the connections.
#![forbid(unsafe_code)]

mod authorities;
mod certificate;
pub mod client;
mod clients;
mod pin;
mod server;

use std::sync::{Arc, LazyLock};

pub use authorities::{AuthoritiesFault, authorities};
pub use certificate::{CertificateFault, ServerCertificate};
pub use clients::ClientCertificates;
use rustls::crypto::CryptoProvider;
pub use server::ServerTls;

/// The cryptography of every TLS connection, made once.
static PROVIDER: LazyLock<Arc<CryptoProvider>> =
    LazyLock::new(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()));

/// Returns the cryptography of TLS connections.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::clone(&PROVIDER)
}
