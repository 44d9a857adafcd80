//! TLS settings: the certificates of this server, its session tickets, the challenges of a CA, the CA
//! certificates that other servers are authenticated with, connections to other DNS servers over TLS
//! (`client`), HTTPS (`https`), Oblivious DoH (`oblivious`) and QUIC (`doq`, and `quic` for one with tokio),
//! messages of Oblivious DoH (`odoh`), errors in words (`words`), and the cryptography of all TLS
//! connections. Without sockets: `net` and `fetch` have these.
#![forbid(unsafe_code)]

mod authorities;
mod certificate;
mod challenge;
pub mod client;
mod clients;
mod doq;
mod files;
mod http2;
mod https;
mod oblivious;
mod odoh;
mod pin;
pub mod quic;
mod server;
mod target_key;
mod tickets;
mod url;
mod words;

use std::sync::{Arc, LazyLock};

pub use authorities::{AuthoritiesFault, authorities, verifying_client};
pub use certificate::{CertificateFault, ServerCertificate};
pub use challenge::{ChallengeDigest, challenge_config};
pub use clients::ClientCertificates;
pub use doq::over_quic;
pub use files::RandomKeyFault;
pub use https::over_https;
pub use oblivious::{TargetKeySource, over_oblivious_https};
pub use odoh::{
    OBLIVIOUS_CONFIGS, OBLIVIOUS_MESSAGE, ObliviousConfig, ObliviousConfigsFault, ObliviousFault,
    ObliviousKeys, ObliviousKeysInUse, ObliviousSeed, ObliviousSeeds, OpenedQuery, ResponseOpener,
    ResponseSealer,
};
pub use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
pub use server::ServerTls;
pub use tickets::TicketKeys;
pub use url::{HttpsUrl, HttpsUrlFault};
pub use words::failure_text;

/// The cryptography of every TLS connection, made once.
static PROVIDER: LazyLock<Arc<CryptoProvider>> =
    LazyLock::new(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()));

/// Returns the cryptography of TLS connections.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::clone(&PROVIDER)
}
