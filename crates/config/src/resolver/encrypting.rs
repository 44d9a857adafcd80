//! Keys of `[resolver]` about encryption between nomen and authoritative servers (RFC 9539).

use resolver::Opportunistic;
use tls::client::{ClientSettings, ServerIdentity};
use transport::Encryption;

use crate::report::Diagnostic;
use crate::table::keys;
use crate::table::read::At;
use crate::table::value::{Int, Time, Word, list};

/// An encrypted transport to authoritative servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthoritativeTransport {
    /// DNS over TLS.
    Tls,
    /// DNS over QUIC.
    Quic,
}

impl Word for AuthoritativeTransport {
    const WORDS: &'static [(&'static str, Self)] = &[("dot", Self::Tls), ("doq", Self::Quic)];

    fn kind() -> String {
        format!("transport ({})", list(Self::WORDS.iter().map(|(word, _)| *word)))
    }
}

keys! {
    /// Keys about encryption of queries to authoritative servers.
    pub struct Encrypting {
        /// Transports by which authoritative servers are queried if they offer them, "dot" (TLS) and "doq"
        /// (QUIC), the preferred one first (RFC 9539). Each server that is queried is probed at port 853
        /// beside the query in the clear, which does not wait; later queries go over the first transport that
        /// works, and in the clear if it fails or is late. Servers are not authenticated. It is for iterative
        /// resolution: servers of rules, and those at loopback addresses or other ports than 53, are queried
        /// as before. Unset: none. [ENCRYPTED-DNS.md](ENCRYPTED-DNS.md) explains it.
        live "encrypt-to-authoritative" transports: Option<Vec<At<AuthoritativeTransport>>> = None,
            example ["dot", "doq"];
        /// Most probes of encrypted transports in flight; beyond that none begins, and queries go in the
        /// clear.
        live "encryption-probes" probes: Int<usize, 1, 10_000> = Int(50), example 20;
        /// Longest time until a connection to an authoritative server over TLS or QUIC is open, and until the
        /// reply to a probe.
        live "encryption-timeout" timeout: Time<100, 60_000> = Time::secs(4), example "2s";
        /// Time after the last reply over an encrypted transport until the server is probed again.
        live "encryption-persistence" persistence: Time<1_000, 2_592_000_000> = Time::secs(259_200),
            example "1d";
        /// Time after a failure of an encrypted transport until it is probed again.
        live "encryption-damping" damping: Time<1_000, 2_592_000_000> = Time::secs(86_400), example "6h";
    }
}

impl Encrypting {
    /// Returns the settings of the resolver.
    pub(super) fn config(&self) -> Opportunistic {
        let transports = self.transports.value.iter().flatten().map(|transport| transport.value);
        Opportunistic {
            encryptions: transports.filter_map(encryption).collect(),
            persistence: self.persistence.0,
            damping: self.damping.0,
            timeout: self.timeout.0,
            probes: self.probes.0,
        }
    }

    /// Reports a transport that is named twice.
    pub(super) fn check(&self, faults: &mut Vec<Diagnostic>) {
        let mut seen = Vec::new();
        for transport in self.transports.value.iter().flatten() {
            if seen.contains(&transport.value) {
                let message = "this transport is named twice in `encrypt-to-authoritative`";
                faults.push(Diagnostic::at(transport.place.as_ref(), message));
            }
            seen.push(transport.value);
        }
    }
}

/// Returns the encryption of a transport, which accepts any server; `None` if the cryptography does not allow
/// it.
fn encryption(transport: AuthoritativeTransport) -> Option<Encryption> {
    let settings = ClientSettings { many_servers: true, ..ClientSettings::default() };
    let identity = ServerIdentity::Opportunistic;
    let made = match transport {
        AuthoritativeTransport::Tls => tls::client::encryption(&identity, &settings),
        AuthoritativeTransport::Quic => tls::over_quic(&identity, &settings),
    };
    made.ok()
}
