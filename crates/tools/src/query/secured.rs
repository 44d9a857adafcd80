//! Queries over TLS (RFC 7858): how the server is authenticated, and its connection.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;

use tls::client::{Authorities, HostName, KeyPin, ServerIdentity};
use transport::{EncryptedSession, Encryption, EncryptionFault, SessionState};

/// How the server of a query is authenticated. By default it is not (RFC 8310 §5).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TlsWanted {
    /// Verify the certificate, for `name`.
    pub by_name: bool,
    /// The name of the server; `None`: its address.
    pub name: Option<HostName>,
    /// File of CA certificates; `None`: those of the system.
    pub ca_file: Option<PathBuf>,
    /// Keys of which the server must have one.
    pub pins: Vec<KeyPin>,
}

impl TlsWanted {
    /// Returns how this server is authenticated.
    pub(super) fn identity(&self, server: SocketAddr) -> Result<ServerIdentity, String> {
        let name = match (self.by_name, &self.name) {
            (false, _) => None,
            (true, Some(name)) => Some(name.clone()),
            (true, None) => server.ip().to_string().parse().ok(),
        };
        let name = match name {
            None => None,
            Some(name) => {
                let roots = tls::authorities(self.ca_file.as_deref()).map_err(|fault| fault.to_string())?;
                Some((name, Authorities::new(roots)))
            }
        };
        Ok(match name.is_none() && self.pins.is_empty() {
            true => ServerIdentity::Opportunistic,
            false => ServerIdentity::Authenticated { name, pins: self.pins.clone() },
        })
    }

    /// Returns the encryption of connections to this server.
    fn encryption(&self, server: SocketAddr) -> Result<Encryption, String> {
        tls::client::encryption(&self.identity(server)?).map_err(|fault| fault.to_string())
    }
}

/// A connection to a server with TLS. The first read or write that needs it does the handshake.
pub struct SecuredStream {
    stream: TcpStream,
    session: Box<dyn EncryptedSession>,
    /// Received and decrypted, and not read yet.
    plain: Vec<u8>,
    ended: bool,
}

impl SecuredStream {
    /// Begins TLS on a connection.
    pub fn begin(stream: TcpStream, wanted: &TlsWanted, server: SocketAddr) -> Result<Self, String> {
        let session = wanted.encryption(server)?.begin(server).map_err(said)?;
        Ok(SecuredStream { stream, session, plain: Vec::new(), ended: false })
    }

    fn send_output(&mut self) -> io::Result<()> {
        let mut bytes = Vec::new();
        self.session.output(&mut bytes);
        self.stream.write_all(&bytes)
    }

    /// Receives once, and decrypts.
    fn receive(&mut self) -> io::Result<()> {
        let mut buffer = [0; 4096];
        let n = self.stream.read(&mut buffer)?;
        let state = self.session.receive(&buffer[..n], &mut self.plain);
        // After a fault this is an alert, which the server may not take any more.
        let sent = self.send_output();
        match state {
            Err(fault) => return Err(io::Error::other(said(fault))),
            Ok(SessionState::Closed) => self.ended = true,
            Ok(_) => sent?,
        }
        self.ended |= n == 0;
        Ok(())
    }
}

/// Returns a fault in words that do not name TLS, which the message around them does.
pub(super) fn said(fault: EncryptionFault) -> String {
    fault.text().trim_start_matches("TLS: ").to_owned()
}

impl Read for SecuredStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.plain.is_empty() && !self.ended {
            self.receive()?;
        }
        let n = self.plain.len().min(into.len());
        into[..n].copy_from_slice(&self.plain[..n]);
        self.plain.drain(..n);
        Ok(n)
    }
}

impl Write for SecuredStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.session.send(bytes);
        self.send_output()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send_output()
    }
}

impl Drop for SecuredStream {
    fn drop(&mut self) {
        self.session.close();
        // The server may have closed the connection already.
        let _ = self.send_output();
    }
}
