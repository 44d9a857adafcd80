//! Listeners for TLS, HTTPS, QUIC and HTTP/3, and their certificates; and those for HTTP without TLS.

use std::net::IpAddr;
use std::path::Path;

use crate::files::join;
use crate::ledger::Coverage;
use crate::model::Keys;
use crate::tree::{Statement, last};
use crate::work::{Work, path_text};

/// Addresses of encrypted listeners, by transport.
#[derive(Default)]
pub(crate) struct EncryptedListens(Vec<(&'static str, Keys)>);

impl EncryptedListens {
    /// Adds an address with its port.
    pub(crate) fn add(&mut self, proto: &'static str, address: String) {
        match self.0.iter_mut().find(|(of, _)| *of == proto) {
            Some((_, block)) => block.add("addr", address),
            None => {
                let mut block = Keys::default();
                block.add("addr", address);
                self.0.push((proto, block));
            }
        }
    }

    /// Adds a `[[listen]]` for each transport.
    pub(crate) fn finish(self, work: &mut Work) {
        for (proto, mut block) in self.0 {
            block.texts("proto", vec![proto.to_owned()]);
            work.nomen.listens.push(block);
        }
    }

    /// The blocks, for changes to their addresses.
    pub(crate) fn blocks(&mut self) -> impl Iterator<Item = &mut Keys> {
        self.0.iter_mut().map(|(_, block)| block)
    }
}

/// Why an address, with its port, for HTTP without TLS is not moved. Without a list of proxies nomen serves
/// this machine alone over it; other servers take every address for a proxy.
pub(crate) fn clear_http_fault(address: &str) -> Option<&'static str> {
    let ip = address.rsplit_once('@').map_or(address, |(ip, _)| ip).trim_matches(['[', ']']);
    let is_here = ip.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    (!is_here).then_some(
        "nomen serves HTTP without TLS to proxies alone, which are not named here: write their networks into \
         `http-proxies-from` of [server], and a [[listen]] with `proto = [\"http\"]`; see docs/PROXIES.md",
    )
}

/// Converts the file of a certificate and the file of its key.
pub(crate) fn certificate(work: &mut Work, base: &Path, chain: &Statement, key: &Statement) {
    let mut block = Keys::default();
    for (name, found) in [("chain", chain), ("key", key)] {
        block.text(name, path_text(&join(base, found.value())));
        if !work.ledger.is_seen(found) {
            work.ledger.translated(found, format!("`{name}` of [[certificate]]"));
        }
    }
    if !work.nomen.certificates.contains(&block) {
        work.nomen.certificates.push(block);
    }
}

/// Returns the certificate and the key that nsd.conf or unbound.conf names.
pub(crate) fn service<'t>(all: &[&'t Statement]) -> Option<(&'t Statement, &'t Statement)> {
    let set = |key: &str| last(all, key).filter(|found| !found.value().is_empty());
    let chain = set("tls-service-pem").or_else(|| set("ssl-service-pem"))?;
    Some((chain, set("tls-service-key").or_else(|| set("ssl-service-key"))?))
}

/// Reports that listeners for TLS have no certificate.
pub(crate) fn uncertified(work: &mut Work, statement: &Statement) {
    let how = "no certificate is configured here: nomen makes one at each start that clients cannot verify";
    work.ledger.part(&statement.span, &statement.title(), Coverage::Differs, how);
}
