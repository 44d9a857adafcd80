//! What TLS handshakes are made with: the settings for clients, and those for the challenges of a CA, which
//! come and go.

use std::sync::Arc;

use arc_swap::ArcSwapOption;

/// Settings of handshakes whose only application protocol is that of the challenge tls-alpn-01 (RFC 8737).
/// Clones are the same settings. Without settings, as long as no challenge is pending, such handshakes are
/// refused like all others of an unknown protocol.
#[derive(Clone, Default)]
pub struct TlsChallenges(Arc<ArcSwapOption<rustls::ServerConfig>>);

impl TlsChallenges {
    /// Uses these settings for connections from now on.
    pub fn set(&self, config: Option<Arc<rustls::ServerConfig>>) {
        self.0.store(config);
    }

    /// Returns the settings, if a challenge is pending.
    pub(crate) fn pending(&self) -> Option<Arc<rustls::ServerConfig>> {
        self.0.load_full()
    }
}

/// What the handshakes of one transport are made with.
#[derive(Clone)]
pub(crate) struct HandshakeSettings {
    /// For those of clients.
    pub(crate) config: Arc<rustls::ServerConfig>,
    /// For those of a CA.
    pub(crate) challenges: TlsChallenges,
}
