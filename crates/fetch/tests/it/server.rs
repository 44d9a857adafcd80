//! An HTTP server on the loopback address, with replies that tests choose.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::data;

/// What the server sends, and then.
pub(crate) struct Reply {
    /// The bytes that it sends.
    pub(crate) bytes: Vec<u8>,
    /// Whether it leaves the connection open until the client closes it.
    pub(crate) holds: bool,
}

impl Reply {
    /// A response with a length.
    pub(crate) fn new(status: &str, headers: &str, body: &[u8]) -> Self {
        let length = match status.starts_with("304") || status.starts_with("204") {
            true => String::new(),
            false => format!("Content-Length: {}\r\n", body.len()),
        };
        let head = format!("HTTP/1.1 {status}\r\n{headers}{length}\r\n");
        Reply { bytes: [head.as_bytes(), body].concat(), holds: false }
    }
}

/// The server; its threads end with the test.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl TestServer {
    /// A server without TLS. `reply` gets a request and its number.
    pub(crate) fn plain(reply: impl Fn(&str, usize) -> Reply + Send + 'static) -> Self {
        Self::start(reply, |stream, talk| {
            let mut stream = stream;
            talk(&mut stream);
            let _ = stream.shutdown(Shutdown::Both);
        })
    }

    /// A server with TLS.
    pub(crate) fn secure(reply: impl Fn(&str, usize) -> Reply + Send + 'static) -> Self {
        Self::tls(reply, true)
    }

    /// A server with TLS, whose connections end without an alert.
    pub(crate) fn cut(reply: impl Fn(&str, usize) -> Reply + Send + 'static) -> Self {
        Self::tls(reply, false)
    }

    fn tls(reply: impl Fn(&str, usize) -> Reply + Send + 'static, says_end: bool) -> Self {
        let certificate = CertificateDer::from_pem_file(data("server.pem")).expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(data("server.key")).expect("a key");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.expect("versions").with_no_client_auth();
        let config = Arc::new(builder.with_single_cert(vec![certificate], key).expect("settings"));
        Self::start(reply, move |stream, talk| {
            let connection = ServerConnection::new(Arc::clone(&config)).expect("a connection");
            let mut stream = StreamOwned::new(connection, stream);
            talk(&mut stream);
            if says_end {
                stream.conn.send_close_notify();
            }
            let _ = stream.flush();
            let _ = stream.sock.shutdown(Shutdown::Both);
        })
    }

    fn start(
        reply: impl Fn(&str, usize) -> Reply + Send + 'static,
        serve: impl Fn(TcpStream, &mut dyn FnMut(&mut dyn ReadWrite)) + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&requests);
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                serve(stream, &mut |stream| {
                    let Some(request) = request(stream) else { return };
                    let number = {
                        let mut seen = seen.lock().expect("no panic");
                        seen.push(request.clone());
                        seen.len() - 1
                    };
                    let Reply { bytes, holds } = reply(&request, number);
                    let _ = stream.write_all(&bytes).and_then(|()| stream.flush());
                    if holds {
                        let _ = stream.read_to_end(&mut Vec::new());
                    }
                });
            }
        });
        TestServer { address, requests }
    }

    /// The URL of a path, by this name or address of the server.
    pub(crate) fn url(&self, scheme: &str, host: &str, path: &str) -> String {
        format!("{scheme}://{host}:{}{path}", self.address.port())
    }

    /// All requests so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no panic").clone()
    }
}

/// A stream, with or without TLS.
trait ReadWrite: Read + Write {}
impl<S: Read + Write> ReadWrite for S {}

/// Reads the head of a request; `None` if the client closes the connection before its end.
fn request(stream: &mut dyn ReadWrite) -> Option<String> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        request.push(byte[0]);
    }
    String::from_utf8(request).ok()
}
