//! The transports, one line each. All that the rest of the program needs to know of a transport is a property
//! here, so that a new transport is one more line.

use std::fmt;

macro_rules! transports {
    ($($(#[cfg($cfg:meta)])? $name:ident $doc:literal { label: $label:literal, stream: $stream:literal })*) => {
        /// The transport of a query.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Transport { $($(#[cfg($cfg)])? #[doc = $doc] $name,)* }

        impl Transport {
            /// Every transport, in the order of [`index`](Self::index).
            pub const ALL: &[Transport] = &[$($(#[cfg($cfg)])? Transport::$name,)*];

            /// Returns the transport's label in metrics, logs and messages.
            pub const fn label(self) -> &'static str {
                match self { $($(#[cfg($cfg)])? Transport::$name => $label,)* }
            }

            /// Whether this is a stream transport: messages of up to 65,535 bytes, many to an answer, from a
            /// client whose address cannot be forged. On other transports a query is a datagram.
            pub const fn is_stream(self) -> bool {
                match self { $($(#[cfg($cfg)])? Transport::$name => $stream,)* }
            }
        }
    };
}

transports! {
    Udp "Datagrams over IPv4 or IPv6 (RFC 1035 §4.2.1)." { label: "udp", stream: false }
    Tcp "A TCP connection, two bytes of length before each message (RFC 7766)." { label: "tcp", stream: true }
    Tls "A TLS connection over TCP, framed as TCP is (RFC 7858)." { label: "tls", stream: true }
    Https "A request over HTTP/2 or HTTP/1.1 with TLS (RFC 8484)." { label: "https", stream: true }
    Quic "A stream of QUIC, with one query and its answer (RFC 9250)." { label: "quic", stream: true }
    H3 "A request over HTTP/3 (RFC 9114, RFC 8484)." { label: "h3", stream: true }
    Http "A request over HTTP/2 or HTTP/1.1 in clear text, which a proxy passes on." { label: "http", stream: true }
    #[cfg(feature = "fictitious")]
    Pigeon "Avian carriers (RFC 1149): no listener has any; tests send queries by it." { label: "pigeon", stream: false }
}

/// The number of transports: the length of tables with one entry per transport.
pub const TRANSPORTS: usize = Transport::ALL.len();

impl Transport {
    /// Returns the transport that has the same kind of socket: a listening socket does not show whether its
    /// messages are encrypted.
    pub const fn socket(self) -> Transport {
        match self {
            Transport::Tls | Transport::Https | Transport::Http => Transport::Tcp,
            Transport::Quic | Transport::H3 => Transport::Udp,
            other => other,
        }
    }

    /// Whether messages are encrypted, so that an observer sees their lengths and times alone.
    pub const fn is_encrypted(self) -> bool {
        matches!(self, Transport::Tls | Transport::Https | Transport::Quic | Transport::H3)
    }

    /// Whether clients can write a name for themselves: in the server name of TLS, or in the path of HTTP.
    pub const fn has_client_names(self) -> bool {
        self.is_encrypted() || matches!(self, Transport::Http)
    }

    /// Whether replies to padded queries are padded (RFC 8467): messages are encrypted, at least between the
    /// client and a proxy that passes them on by HTTP.
    pub const fn is_padded(self) -> bool {
        self.is_encrypted() || matches!(self, Transport::Http)
    }

    /// Returns the transport's index in tables of [`TRANSPORTS`] entries.
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.label())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transport_has_a_place_and_a_label_of_its_own() {
        let labels: std::collections::HashSet<_> = Transport::ALL.iter().map(|t| t.label()).collect();
        assert_eq!(labels.len(), TRANSPORTS);
        assert!(Transport::ALL.iter().enumerate().all(|(place, t)| t.index() == place));
    }
}
