//! DNS over HTTP/3 with a client of the crate h3: answers, the rules that know the transport, the counters
//! and the log, and how clients find it.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use hyper::{Request, Response, StatusCode};
use quinn::crypto::rustls::QuicClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::encrypted::{CERTIFICATE, kdig, start_over, write_certificate};
use crate::support::{TEST_TIMEOUT, eventually, free_address, message, text, written};

/// A client of HTTP/3: the endpoint and the driver of the connection, and what sends requests.
pub(crate) struct Client {
    _endpoint: quinn::Endpoint,
    driver: tokio::task::JoinHandle<()>,
    requests: h3::client::SendRequest<h3_quinn::OpenStreams, Bytes>,
}

impl Client {
    /// Connects to a server with this certificate.
    pub(crate) async fn connect(at: SocketAddr, certificate: &str) -> Client {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM")).expect("added");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut tls = tls.expect("versions").with_root_certificates(roots).with_no_client_auth();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let settings = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).expect("TLS 1.3")));
        let endpoint = quinn::Endpoint::client("127.0.0.1:0".parse().expect("an address")).expect("bound");
        let connecting = endpoint.connect_with(settings, at, "dns.test").expect("a name");
        let connection = h3_quinn::Connection::new(connecting.await.expect("a handshake"));
        let (mut driver, requests) = h3::client::new(connection).await.expect("a connection");
        let driver = tokio::spawn(async move {
            let _ = std::future::poll_fn(|cx| driver.poll_close(cx)).await;
        });
        Client { _endpoint: endpoint, driver, requests }
    }

    /// Asks with POST, and returns the status, `cache-control`, and the reply.
    pub(crate) async fn ask(&mut self, message: Vec<u8>) -> (StatusCode, String, Vec<u8>) {
        let (response, body) = self.post("application/dns-message", message).await;
        (response.status(), header(&response, "cache-control"), body)
    }

    /// Sends a message of this type to the path of DNS, and returns the response with its body.
    async fn post(&mut self, kind: &str, message: Vec<u8>) -> (Response<()>, Vec<u8>) {
        let request = Request::post("https://dns.test/dns-query").header("content-type", kind);
        self.exchange(request.body(()).expect("a request"), message).await
    }

    async fn exchange(&mut self, request: Request<()>, message: Vec<u8>) -> (Response<()>, Vec<u8>) {
        let mut stream = self.requests.send_request(request).await.expect("sent");
        if !message.is_empty() {
            stream.send_data(message.into()).await.expect("sent");
        }
        stream.finish().await.expect("ended");
        let response = stream.recv_response().await.expect("a response");
        let mut body = Vec::new();
        while let Some(mut part) = stream.recv_data().await.expect("a body") {
            body.extend_from_slice(&part.copy_to_bytes(part.remaining()));
        }
        (response, body)
    }
}

/// Returns a header of a response; empty if it has none.
fn header(response: &Response<()>, name: &str) -> String {
    response.headers().get(name).map(|value| value.to_str().expect("text").to_owned()).unwrap_or_default()
}

#[test]
fn a_target_of_oblivious_doh_answers_over_http3() {
    const OBLIVIOUS: &str = "application/oblivious-dns-message";
    let folder = tempfile::tempdir().expect("a folder");
    let certificate = write_certificate(folder.path(), "dns.test");
    let more = format!("{CERTIFICATE}[odoh]\nmalformed-per-second = 1\n[log]\nqueries = true\n");
    let (server, at) = start_over("\"h3\"", folder, "", "", &more);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut client = Client::connect(at, &certificate).await;
        let request = Request::get("https://dns.test/.well-known/odohconfigs").body(()).expect("a request");
        let (response, configs) = client.exchange(request, Vec::new()).await;
        assert_eq!(
            (response.status(), header(&response, "cache-control")),
            (StatusCode::OK, "max-age=3600".into())
        );
        let config = tls::ObliviousConfig::first(&configs).expect("a configuration");
        let (query, opener) = config.seal(&message(0, "www.example", 1)).expect("sealed");
        let (response, answer) = client.post(OBLIVIOUS, query.clone()).await;
        let kind = header(&response, "content-type");
        assert_eq!(
            (response.status(), &*kind, header(&response, "cache-control")),
            (StatusCode::OK, OBLIVIOUS, "no-store".into())
        );
        assert!(opener.open(&answer).expect("an answer").ends_with(&[192, 0, 2, 1]));
        let mut unknown = query.clone();
        unknown[4] ^= 1;
        let (response, _) = client.post(OBLIVIOUS, unknown).await;
        assert_eq!(
            (response.status(), header(&response, "www-authenticate")),
            (StatusCode::UNAUTHORIZED, "ODoH".into())
        );
        let mut damaged = query;
        *damaged.last_mut().expect("bytes") ^= 1;
        let (response, _) = client.post(OBLIVIOUS, damaged.clone()).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        let mut refused = response;
        for _ in 0..200 {
            refused = client.post(OBLIVIOUS, damaged.clone()).await.0;
            if refused.status() == StatusCode::TOO_MANY_REQUESTS {
                break;
            }
        }
        assert_eq!(
            (refused.status(), header(&refused, "retry-after")),
            (StatusCode::TOO_MANY_REQUESTS, "1".into())
        );
        client.driver.abort();
    });
    let counter = |name: &str| {
        server.counter(&format!("nomen_net_odoh_{name}_total{{listen=\"{at}\",transport=\"h3\"}}"))
    };
    assert_eq!((counter("queries"), counter("unknown_key"), counter("limited")), (1, 1, 1));
    assert!(counter("malformed") >= 2);
    assert_eq!(server.counter("nomen_queries_total{transport=\"h3\",type=\"A\"}"), 1);
    eventually("a line of the query", &server, || {
        server.log().lines().any(|line| line.contains("www.example") && line.contains("transport=\"h3\""))
    });
}

#[test]
fn queries_are_answered_over_http3_beside_https_and_quic() {
    let folder = tempfile::tempdir().expect("a folder");
    let certificate = write_certificate(folder.path(), "dns.test");
    let shared = free_address();
    let more = format!(
        "{CERTIFICATE}[[listen]]\naddr = [{}]\nproto = [\"quic\", \"h3\"]\n[log]\nqueries = true\n\
         [resolver]\ndiscovery-name = \"dns.test\"\niterate = false\n\
         [[resolver.forward]]\nservers = [\"127.0.0.1@1\"]\n\
         [[server.access]]\naction = \"refuse\"\nfrom = [\"any\"]\ntype = [\"LOC\"]\nproto = [\"h3\"]\n",
        written(shared)
    );
    let (server, at) = start_over("\"https\", \"h3\"", folder, "", "", &more);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        for to in [at, shared] {
            let mut client = Client::connect(to, &certificate).await;
            let (status, fresh, reply) = client.ask(message(0, "www.example", 1)).await;
            assert_eq!((status, reply.ends_with(&[192, 0, 2, 1])), (StatusCode::OK, true));
            assert!(fresh.starts_with("max-age="), "{fresh}");
            let (_, _, long) = client.ask(message(0, "long.example", 16)).await;
            assert!(long.len() > 4000, "{}", long.len());
            let (_, fresh, refused) = client.ask(message(0, "www.example", 29)).await;
            assert_eq!((refused[3] & 15, &*fresh), (5, "no-store"));
            let (status, ..) = client.ask(b"short".to_vec()).await;
            assert_eq!(status, StatusCode::BAD_REQUEST);
            client.driver.abort();
        }
    });
    // DNS over QUIC is at the same port.
    assert_eq!(kdig(shared, &["+quic", "www.example", "A", "+short"]), "192.0.2.1\n");
    assert_eq!(server.counter("nomen_queries_total{transport=\"h3\",type=\"A\"}"), 2);
    for (listen, transport, queries) in [(at, "h3", 3), (shared, "quic", 4)] {
        let labels = format!("{{listen=\"{listen}\",transport=\"{transport}\"}}");
        assert_eq!(server.counter(&format!("nomen_net_queries_total{labels}")), queries);
        assert_eq!(server.counter(&format!("nomen_net_https_bad_requests_total{labels}")), 1);
        assert_eq!(server.counter(&format!("nomen_net_quic_protocol_errors_total{labels}")), 0);
    }
    eventually("a line of the query", &server, || {
        server.log().lines().any(|line| line.contains("long.example") && line.contains("transport=\"h3\""))
    });
    // HTTP/2 names it, and so does discovery.
    let output = Command::new("curl")
        .args(["--silent", "--insecure", "--include", "--noproxy", "*", "--output", "-"])
        .args(["--max-time", &TEST_TIMEOUT.as_secs().to_string()])
        .arg(format!("https://{at}/dns-query?dns=AAABAAABAAAAAAAAAm5vB2V4YW1wbGUAAAEAAQ"))
        .output()
        .expect("curl runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains(&format!("alt-svc: h3=\":{}\"; ma=3600\r\n", at.port())), "{said}");
    let found = kdig(server.address, &["_dns.resolver.arpa", "SVCB", "+short"]);
    for port in [at.port(), shared.port()] {
        assert!(found.contains(&format!("alpn=h3 port={port} ")), "{found}");
    }
    assert!(text(found.as_bytes()).contains("alpn=h2"), "{found}");
}
