//! `tls` blocks of BIND: how servers that are asked over TLS are authenticated.

use super::Frame;
use crate::files::join;
use crate::model::Keys;
use crate::tree::Statement;
use crate::work::{Work, domain, path_text};

/// The `tls` blocks that BIND has without a configuration.
const BUILT_IN: &[&str] = &["ephemeral"];

/// The files for TLS that a block of nomen's configuration has for all its servers.
#[derive(Default)]
pub(super) struct TlsFiles {
    /// The CA certificates of servers with a name; `Some(None)`: those of the system.
    authorities: Option<Option<String>>,
    /// The certificate and key of this server; `Some(None)`: a server that gets none.
    client: Option<Option<(String, String)>>,
    /// Whether the block has a key for CA certificates, and one for a certificate of its own.
    takes: [bool; 2],
}

impl TlsFiles {
    /// The files of a zone or template.
    pub(super) fn of_zone() -> Self {
        TlsFiles { takes: [true, true], ..TlsFiles::default() }
    }

    /// The files of a forward or stub rule.
    pub(super) fn of_rule() -> Self {
        TlsFiles { takes: [true, false], ..TlsFiles::default() }
    }

    /// Writes them.
    pub(super) fn write(self, keys: &mut Keys) {
        if let Some(Some(file)) = self.authorities {
            keys.text("ca-file", file);
        }
        if let Some(Some((chain, key))) = self.client {
            keys.text("client-chain", chain);
            keys.text("client-key", key);
        }
    }

    /// Returns what authenticates the server at `address` by the `tls` block of this name.
    ///
    /// # Errors
    /// Why nomen cannot ask the server.
    pub(super) fn identity(
        &mut self,
        work: &mut Work,
        frame: &Frame<'_>,
        name: &str,
        address: &str,
    ) -> Result<String, &'static str> {
        const OTHER: &str = "all servers of a zone or rule have one `ca-file` and one certificate";
        let Some(block) = frame.tls.get(name) else {
            return match BUILT_IN.contains(&name) {
                true => Ok("opportunistic".to_owned()),
                false => Err("there is no `tls` block of this name"),
            };
        };
        let get = |key| block.find(key).map(Statement::value).filter(|value| !value.is_empty());
        let path = |file: &str| path_text(&join(&frame.directory, file));
        // Without a name, BIND verifies the address.
        let (identity, authorities) = match (get("remote-hostname"), get("ca-file")) {
            (None, None) => ("opportunistic".to_owned(), None),
            (Some(host), file) => {
                let host = domain(host).ok_or("`remote-hostname` is not a name")?;
                (host.trim_end_matches('.').to_owned(), Some(file.map(path)))
            }
            (None, file) => (address.to_owned(), Some(file.map(path))),
        };
        let client = get("cert-file").zip(get("key-file")).map(|(chain, key)| (path(chain), path(key)));
        let [takes_authorities, takes_client] = self.takes;
        if !takes_authorities && matches!(authorities, Some(Some(_))) {
            return Err("`ca-file` is for the servers of zones and rules");
        }
        if !takes_client && client.is_some() {
            return Err("nomen shows a certificate to the servers of zones alone");
        }
        let same = |own: &Option<Option<String>>| own.is_none() || *own == authorities;
        if authorities.is_some() && !same(&self.authorities) {
            return Err(OTHER);
        }
        if self.client.as_ref().is_some_and(|before| *before != client) {
            return Err(OTHER);
        }
        self.authorities = authorities.or(self.authorities.take());
        self.client = Some(client);
        report(work, block);
        Ok(identity)
    }
}

fn report(work: &mut Work, block: &Statement) {
    work.ledger.open(block);
    for statement in block.block() {
        match statement.key() {
            "remote-hostname" => work.ledger.translated(statement, "the name after `#` of the servers"),
            "ca-file" => work.ledger.translated(statement, "`ca-file` of the zones and rules"),
            "cert-file" => work.ledger.translated(statement, "`client-chain` of the zones"),
            "key-file" => work.ledger.translated(statement, "`client-key` of the zones"),
            _ => work.ledger.unneeded(statement, "nomen decides this by itself"),
        }
    }
}
