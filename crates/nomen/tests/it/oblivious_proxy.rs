//! An oblivious proxy (RFC 9230), which keeps all that it sees: HTTP/2 from clients, HTTP/1.1 to the target.

use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use hyper::http::Response;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::support::{TEST_TIMEOUT, free_address};

/// The type of its messages.
const MESSAGE: &str = "application/oblivious-dns-message";

/// A running proxy; its thread ends with the process.
pub(crate) struct ObliviousProxy {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

/// What the thread of a proxy shares with the test.
struct Shared {
    target: SocketAddr,
    /// The folder with the certificates of proxy and target.
    data: PathBuf,
    /// Path and body of each request, and the body of its response.
    seen: Mutex<Vec<[Vec<u8>; 3]>>,
    /// Whether a byte of each response is changed.
    tampers: Mutex<bool>,
}

impl ObliviousProxy {
    /// Starts a proxy of the target at this address. Both have the certificate of dns.example in the folder.
    pub(crate) fn start(target: SocketAddr, data: &Path) -> Self {
        let listener = std::net::TcpListener::bind(free_address()).expect("a port");
        let address = listener.local_addr().expect("its address");
        listener.set_nonblocking(true).expect("set");
        let data = data.to_owned();
        let shared = Arc::new(Shared { target, data, seen: Mutex::default(), tampers: Mutex::default() });
        let of_thread = Arc::clone(&shared);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(of_thread.accept(listener));
        });
        ObliviousProxy { address, shared }
    }

    /// Returns all bytes that it has seen so far: paths, requests and responses.
    pub(crate) fn seen(&self) -> Vec<[Vec<u8>; 3]> {
        self.shared.seen.lock().expect("read").clone()
    }

    /// Sets whether it changes responses.
    pub(crate) fn tamper(&self, tampers: bool) {
        *self.shared.tampers.lock().expect("set") = tampers;
    }
}

impl Shared {
    async fn accept(self: Arc<Self>, listener: std::net::TcpListener) {
        let listener = TcpListener::from_std(listener).expect("a listener");
        let acceptor = TlsAcceptor::from(self.server());
        while let Ok((stream, _)) = listener.accept().await {
            let (shared, acceptor) = (Arc::clone(&self), acceptor.clone());
            tokio::spawn(async move {
                // A client may end the handshake or the connection.
                if let Ok(stream) = acceptor.accept(stream).await {
                    let _ = shared.serve(stream).await;
                }
            });
        }
    }

    fn server(&self) -> Arc<ServerConfig> {
        let key = PrivateKeyDer::from_pem_file(self.data.join("server.key")).expect("a key");
        let certificate = CertificateDer::from_pem_file(self.data.join("server.pem")).expect("a certificate");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.expect("versions").with_no_client_auth();
        let mut config = builder.with_single_cert(vec![certificate], key).expect("settings");
        config.alpn_protocols = vec![b"h2".to_vec()];
        Arc::new(config)
    }

    async fn serve<S>(self: Arc<Self>, stream: S) -> Result<(), h2::Error>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    {
        let mut connection = h2::server::handshake(stream).await?;
        while let Some(accepted) = connection.accept().await {
            let (request, mut responder) = accepted?;
            let path = request.uri().path_and_query().expect("a path").to_string();
            let is_post = request.method() == hyper::Method::POST;
            let is_message = request.headers().get("content-type").is_some_and(|kind| kind == MESSAGE);
            assert!(is_post && is_message, "{request:?}");
            let (mut body, mut message) = (request.into_body(), Vec::<u8>::new());
            // The connection has to be polled while the body arrives.
            while let Some(Ok(data)) = poll_fn(|context| {
                let _ = connection.poll_closed(context);
                body.poll_data(context)
            })
            .await
            {
                message.extend_from_slice(&data);
            }
            let shared = Arc::clone(&self);
            tokio::spawn(async move {
                let passing = tokio::task::spawn_blocking(move || shared.pass(path, message));
                let (status, kind, body) = passing.await.expect("passed on");
                let head = Response::builder().status(status).header("content-type", kind).body(());
                // The query may have been cancelled.
                if let Ok(mut stream) = responder.send_response(head.expect("a head"), false) {
                    let _ = stream.send_data(Bytes::from(body), true);
                }
            });
        }
        Ok(())
    }

    /// Passes a request on. Returns status, type and body of the response; 502 if the target does not answer.
    fn pass(&self, path: String, message: Vec<u8>) -> (u16, String, Vec<u8>) {
        let (status, kind, mut body) =
            self.exchange(&message).unwrap_or_else(|_| (502, "text/plain".into(), Vec::new()));
        if *self.tampers.lock().expect("read")
            && let Some(last) = body.last_mut()
        {
            *last ^= 1;
        }
        self.seen.lock().expect("kept").push([path.into_bytes(), message, body.clone()]);
        (status, kind, body)
    }

    fn exchange(&self, message: &[u8]) -> std::io::Result<(u16, String, Vec<u8>)> {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_file(self.data.join("ca.pem")).expect("a certificate");
        roots.add(authority).expect("added");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.expect("versions").with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from("dns.example").expect("a name");
        let stream = TcpStream::connect(self.target)?;
        stream.set_read_timeout(Some(TEST_TIMEOUT))?;
        let tls = ClientConnection::new(Arc::new(config), name).expect("TLS");
        let mut stream = StreamOwned::new(tls, stream);
        let head = format!(
            "POST /dns-query HTTP/1.1\r\nhost: dns.example\r\ncontent-type: {MESSAGE}\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n",
            message.len()
        );
        stream.write_all(&[head.as_bytes(), message].concat())?;
        let mut response = Vec::new();
        stream.read_to_end(&mut response)?;
        let end = response.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        let head = String::from_utf8_lossy(&response[..end]).to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let kind = head.lines().find_map(|line| line.strip_prefix("content-type: ")).unwrap_or_default();
        Ok((status, kind.to_owned(), response.split_off(end)))
    }
}
