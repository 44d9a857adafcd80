//! `tls` and `http` blocks of BIND: how servers that are asked over TLS are authenticated, and listeners.

use super::Frame;
use crate::encrypted;
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

/// Returns the transport of a `listen-on`; `None` for UDP and TCP. Converts what its blocks name.
///
/// # Errors
/// Why nomen cannot listen so.
pub(super) fn listener(
    work: &mut Work,
    frame: &Frame<'_>,
    statement: &Statement,
) -> Result<Option<&'static str>, &'static str> {
    let tls = statement.word_after("tls").map(|word| word.text.as_str()).filter(|tls| *tls != "none");
    let http = statement.word_after("http").map(|word| word.text.as_str());
    let tls = match (tls, http) {
        (None, None) => return Ok(None),
        (None, Some(http)) => {
            paths(work, frame, http);
            return Ok(Some("http"));
        }
        (Some(tls), _) => tls,
    };
    match frame.tls.get(tls) {
        None if BUILT_IN.contains(&tls) => encrypted::uncertified(work, statement),
        None => return Err("there is no `tls` block of this name"),
        // A listener without that would answer clients that BIND does not.
        Some(block) if block.find("ca-file").is_some() => {
            return Err("nomen's listeners do not need certificates of all clients");
        }
        Some(block) => {
            let (Some(chain), Some(key)) = (block.find("cert-file"), block.find("key-file")) else {
                return Err("its `tls` block has no certificate with a key");
            };
            encrypted::certificate(work, &frame.directory, chain, key);
            report(work, block);
        }
    }
    let Some(http) = http else { return Ok(Some("tls")) };
    paths(work, frame, http);
    Ok(Some("https"))
}

/// Converts the paths of an `http` block.
fn paths(work: &mut Work, frame: &Frame<'_>, http: &str) {
    let endpoints = frame.http.get(http).and_then(|block| {
        work.ledger.open(block);
        block.find("endpoints")
    });
    match endpoints {
        Some(endpoints) => {
            if !work.ledger.is_seen(endpoints) {
                work.ledger.translated(endpoints, "`https-paths` of [server], for all listeners");
            }
            let paths = endpoints.block().iter().map(Statement::key);
            paths.for_each(|path| work.nomen.server.add("https-paths", path));
        }
        None => work.nomen.server.add("https-paths", "/dns-query"),
    }
}

fn report(work: &mut Work, block: &Statement) {
    work.ledger.open(block);
    for statement in block.block() {
        match statement.key() {
            "remote-hostname" => work.ledger.translated(statement, "the name after `#` of the servers"),
            "ca-file" => work.ledger.translated(statement, "`ca-file` of the zones and rules"),
            "cert-file" | "key-file" if work.ledger.is_seen(statement) => {}
            "cert-file" => work.ledger.translated(statement, "`client-chain` of the zones"),
            "key-file" => work.ledger.translated(statement, "`client-key` of the zones"),
            _ => work.ledger.unneeded(statement, "nomen decides this by itself"),
        }
    }
}
