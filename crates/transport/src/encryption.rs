//! Encryption of connections to other servers, without I/O: what the decider of a link, its driver and the
//! cryptography pass to each other. `tls` has the cryptography; neither a core nor `net` depends on it.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// Begins the session of one connection to this address.
type Begin = dyn Fn(SocketAddr) -> Result<Box<dyn EncryptedSession>, EncryptionFault> + Send + Sync;

/// How connections to a server are encrypted, and how the server is authenticated. Clones share one state,
/// such as tickets for resumption.
///
/// Two are equal if they encrypt and authenticate in the same way, which their [identity](Self::identity)
/// describes completely.
#[derive(Clone)]
pub struct Encryption(Arc<Inner>);

struct Inner {
    identity: String,
    shown: String,
    begin: Box<Begin>,
}

impl Encryption {
    /// Returns the encryption whose sessions `begin` makes. `identity` describes all that decides which
    /// servers a session accepts, and `shown` the same for operators, in a few words.
    pub fn new(
        identity: String,
        shown: String,
        begin: impl Fn(SocketAddr) -> Result<Box<dyn EncryptedSession>, EncryptionFault> + Send + Sync + 'static,
    ) -> Self {
        Encryption(Arc::new(Inner { identity, shown, begin: Box::new(begin) }))
    }

    /// Returns the description that equality is about.
    pub fn identity(&self) -> &str {
        &self.0.identity
    }

    /// Begins the session of one connection to `to`. The handshake starts with its [output].
    ///
    /// # Errors
    /// The settings cannot be used for this address.
    ///
    /// [output]: EncryptedSession::output
    pub fn begin(&self, to: SocketAddr) -> Result<Box<dyn EncryptedSession>, EncryptionFault> {
        (self.0.begin)(to)
    }
}

impl PartialEq for Encryption {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.identity == other.0.identity
    }
}
impl Eq for Encryption {}

impl Hash for Encryption {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.identity.hash(state);
    }
}

impl fmt::Debug for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Encryption").field(&self.0.identity).finish()
    }
}

/// How the server is authenticated: `dns.example.net`, or `opportunistic`.
impl fmt::Display for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.shown)
    }
}

/// The encryption of one connection. Its user moves bytes between it and a socket.
pub trait EncryptedSession: Send {
    /// Processes bytes received from the socket, and appends what they decrypt to.
    ///
    /// # Errors
    /// The session has ended. What was decrypted before has been appended; [`output`](Self::output) may have
    /// an alert for the server.
    fn receive(&mut self, received: &[u8], plain: &mut Vec<u8>) -> Result<SessionState, EncryptionFault>;

    /// Encrypts bytes. Before the handshake is complete they wait for its end.
    fn send(&mut self, plain: &[u8]);

    /// Appends the bytes that the socket has to send now.
    fn output(&mut self, bytes: &mut Vec<u8>);

    /// Ends the session in order: the output then has the alert for the server.
    fn close(&mut self);
}

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// The handshake is not complete: nothing has been authenticated, and no message can be sent.
    Handshake,
    /// The server is authenticated, and messages can be exchanged.
    Established {
        /// Whether an earlier session was resumed.
        resumed: bool,
    },
    /// The server has ended the session in order.
    Closed,
}

macro_rules! faults {
    ($($(#[doc = $doc:literal])* $name:ident { $label:literal, $text:literal })*) => {
        /// Why there is no encrypted connection to a server.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum EncryptionFault { $($(#[doc = $doc])* $name,)* }

        impl EncryptionFault {
            /// Every fault, in the order of [`index`](Self::index).
            pub const ALL: &[EncryptionFault] = &[$(EncryptionFault::$name,)*];

            /// Returns the fault's label in metrics.
            pub const fn label(self) -> &'static str {
                match self { $(EncryptionFault::$name => $label,)* }
            }

            /// Returns the fault in words that name TLS, for operators and for the clients of a query.
            pub const fn text(self) -> &'static str {
                match self { $(EncryptionFault::$name => $text,)* }
            }
        }
    };
}

faults! {
    /// The certificate has expired.
    CertificateExpired { "certificate-expired", "TLS: the server's certificate has expired" }
    /// The certificate is not valid yet.
    CertificateNotYetValid { "certificate-not-yet-valid", "TLS: the server's certificate is not valid yet" }
    /// The certificate is for other names.
    WrongName { "wrong-name", "TLS: the server's certificate does not match its name" }
    /// No known authority has issued the certificate.
    UnknownIssuer { "unknown-issuer", "TLS: the server's certificate is from an unknown issuer" }
    /// The certificate is one of a CA, which servers must not have as their own (RFC 5280 §4.2.1.9).
    CaCertificate { "ca-certificate", "TLS: the server's certificate is one of a CA, not of a server" }
    /// The certificate has another key than those that are pinned.
    WrongPin { "wrong-pin", "TLS: the server's key matches no pin" }
    /// Another fault of the certificate, or of the signature with its key.
    BadCertificate { "bad-certificate", "TLS: the server's certificate cannot be accepted" }
    /// The server has refused the handshake or ended the session with an alert.
    Alert { "alert", "TLS: the server sent an alert" }
    /// The server has sent bytes that are not TLS.
    NotTls { "not-tls", "TLS: the server does not speak TLS" }
    /// The server has violated the protocol, or has no version and cipher in common with us.
    Protocol { "protocol", "TLS: no common protocol with the server" }
    /// The handshake has taken too long.
    HandshakeTimeout { "handshake-timeout", "TLS: handshake timeout" }
    /// The server has closed or reset the connection during the handshake.
    HandshakeClosed { "handshake-closed", "TLS: the server closed the connection during the handshake" }
    /// No server listens at the port.
    ConnectionRefused { "connection-refused", "TLS: connection refused" }
    /// There is no route to the server.
    Unreachable { "unreachable", "TLS: the server is unreachable" }
}

/// The number of faults: the length of tables with one entry per fault.
pub const ENCRYPTION_FAULTS: usize = EncryptionFault::ALL.len();

impl EncryptionFault {
    /// Returns the fault of an encrypted connection that ended with this error before it was open; `None` if
    /// the error is none of the network.
    pub const fn before_open(error: io::ErrorKind) -> Option<Self> {
        use io::ErrorKind::{
            BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable,
            NetworkUnreachable, NotConnected, TimedOut, UnexpectedEof,
        };
        Some(match error {
            ConnectionRefused => Self::ConnectionRefused,
            HostUnreachable | NetworkUnreachable => Self::Unreachable,
            TimedOut => Self::HandshakeTimeout,
            BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | UnexpectedEof => {
                Self::HandshakeClosed
            }
            _ => return None,
        })
    }

    /// Returns the fault's index in tables of [`ENCRYPTION_FAULTS`] entries.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether the server has completed its part of the handshake, and is not the one that is wanted: another
    /// attempt soon would end in the same way.
    pub const fn is_of_identity(self) -> bool {
        use EncryptionFault::{
            BadCertificate, CaCertificate, CertificateExpired, CertificateNotYetValid, UnknownIssuer,
            WrongName, WrongPin,
        };
        matches!(
            self,
            CertificateExpired
                | CertificateNotYetValid
                | WrongName
                | UnknownIssuer
                | CaCertificate
                | WrongPin
                | BadCertificate
        )
    }
}

impl fmt::Display for EncryptionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}
impl std::error::Error for EncryptionFault {}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_fault_has_an_index_and_a_label_of_its_own_and_its_text_names_tls() {
        let labels: HashSet<_> = EncryptionFault::ALL.iter().map(|fault| fault.label()).collect();
        assert_eq!(labels.len(), ENCRYPTION_FAULTS);
        for (index, fault) in EncryptionFault::ALL.iter().enumerate() {
            assert_eq!(fault.index(), index);
            assert!(fault.text().starts_with("TLS: "), "{fault:?}");
        }
    }

    #[test]
    fn two_are_equal_if_they_authenticate_in_the_same_way() {
        let of = |identity: &str| {
            Encryption::new(identity.into(), identity.into(), |_| Err(EncryptionFault::Protocol))
        };
        assert_eq!(of("dns.example"), of("dns.example"));
        assert_ne!(of("dns.example"), of("dns.example.net"));
    }
}
