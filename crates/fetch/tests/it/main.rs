//! Fetching from a server on the loopback address.

mod server;

use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fetch::{FetchFault, FetchRequest, Fetched, HostAddresses, Validators, fetch};
use flate2::Compression;
use flate2::write::GzEncoder;
use server::{Reply, TestServer};
use url::Url;

/// The names of the tests.
struct Names;

impl HostAddresses for Names {
    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        match host {
            "lists.example" | "other.example" => Ok(vec![[127, 0, 0, 1].into()]),
            "empty.example" => Ok(vec![]),
            _ => Err("there is no such name".into()),
        }
    }
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// A transfer that must not end by its time limit.
const LONG: Duration = Duration::from_secs(60);

struct Asked {
    url: String,
    version: Validators,
    max_size: usize,
    timeout: Duration,
    ca: PathBuf,
}

impl Asked {
    fn of(url: String) -> Self {
        Asked { url, version: Validators::default(), max_size: 1000, timeout: LONG, ca: data("ca.pem") }
    }

    fn fetch(&self) -> Result<Fetched, FetchFault> {
        let url = Url::parse(&self.url).expect("a URL");
        let Asked { version, max_size, timeout, ca, .. } = self;
        let (max_size, timeout, ca_file) = (*max_size, *timeout, Some(ca.as_path()));
        let request = FetchRequest { url: &url, version, max_size, timeout, ca_file };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(fetch(&request, &Names))
    }

    fn fault(&self) -> String {
        self.fetch().expect_err("a fault").to_string()
    }
}

fn text(fetched: Result<Fetched, FetchFault>) -> String {
    match fetched {
        Ok(Fetched::Document { text, .. }) => String::from_utf8(text).expect("text"),
        other => panic!("{other:?}"),
    }
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text).expect("compressed");
    encoder.finish().expect("compressed")
}

#[test]
fn a_document_is_fetched_once_and_confirmed_then() {
    let server = TestServer::secure(|request, _| match request.contains("if-none-match: \"v1\"\r\n") {
        true => Reply::new("304 Not Modified", "", b""),
        false => {
            let about = "ETag: \"v1\"\r\nLast-Modified: Mon, 02 Nov 2026 10:00:00 GMT\r\n";
            Reply::new("200 OK", about, b"a.example\n")
        }
    });
    let mut asked = Asked::of(server.url("https", "lists.example", "/ads.txt?a=b"));
    let Ok(Fetched::Document { text, validators }) = asked.fetch() else { panic!("no document") };
    assert_eq!(text, b"a.example\n");
    assert_eq!(validators.etag.as_deref(), Some("\"v1\""));
    assert_eq!(validators.last_modified.as_deref(), Some("Mon, 02 Nov 2026 10:00:00 GMT"));
    asked.version = validators;
    assert!(matches!(asked.fetch(), Ok(Fetched::NotModified)));
    let requests = server.requests();
    let port = server.address.port();
    assert!(requests[0].starts_with("GET /ads.txt?a=b HTTP/1.1\r\n"), "{}", requests[0]);
    for line in [&format!("host: lists.example:{port}\r\n"), "accept-encoding: gzip\r\n"] {
        assert!(requests[0].contains(line), "{}", requests[0]);
    }
    assert!(requests[1].contains("if-modified-since: Mon, 02 Nov 2026 10:00:00 GMT\r\n"), "{}", requests[1]);
}

#[test]
fn a_confirmation_of_no_version_is_a_fault() {
    let server = TestServer::plain(|_, _| Reply::new("304 Not Modified", "", b""));
    let fault = Asked::of(server.url("http", "lists.example", "/")).fault();
    assert!(fault.contains("304 Not Modified"), "{fault}");
}

#[test]
fn a_certificate_must_be_of_a_trusted_ca_and_of_the_server() {
    let server = TestServer::secure(|_, _| Reply::new("200 OK", "", b"a.example\n"));
    let mut asked = Asked::of(server.url("https", "127.0.0.1", "/"));
    assert_eq!(text(asked.fetch()), "a.example\n", "the certificate has the address");
    asked.ca = data("other-ca.pem");
    assert!(
        asked.fault().contains("the server's certificate is from an unknown issuer"),
        "{}",
        asked.fault()
    );
    let asked = Asked::of(server.url("https", "other.example", "/"));
    assert!(asked.fault().contains("certificate does not match its name"), "{}", asked.fault());
    for (ca, words) in [("server.key", "no CA certificate in "), ("none", "there is no such file")] {
        let asked = Asked { ca: data(ca), ..Asked::of(server.url("https", "lists.example", "/")) };
        assert!(asked.fault().contains(words), "{ca}: {}", asked.fault());
    }
    assert_eq!(server.requests().len(), 1, "a server without a good certificate gets no request");
}

#[test]
fn a_compressed_document_is_decompressed() {
    let list = "a.example\n".repeat(50);
    for about in ["Content-Encoding: gzip\r\n", "Content-Type: application/gzip\r\n"] {
        let body = gzip(list.as_bytes());
        let server = TestServer::plain(move |_, _| Reply::new("200 OK", about, &body));
        assert_eq!(text(Asked::of(server.url("http", "lists.example", "/")).fetch()), list, "{about}");
    }
    let half = gzip(list.as_bytes())[..20].to_vec();
    for (about, body, words) in [
        ("Content-Encoding: gzip\r\n", half, "truncated"),
        ("Content-Encoding: gzip\r\n", b"a.example\n".to_vec(), "cannot be read: invalid gzip header"),
        ("Content-Encoding: br\r\n", b"a.example\n".to_vec(), "compressed it with `br`"),
    ] {
        let server = TestServer::plain(move |_, _| Reply::new("200 OK", about, &body));
        let fault = Asked::of(server.url("http", "lists.example", "/")).fault();
        assert!(fault.contains(words), "{fault}");
    }
}

#[test]
fn a_document_is_not_larger_than_allowed() {
    let sent = |about: &'static str, body: Vec<u8>| {
        let server = TestServer::plain(move |_, _| Reply::new("200 OK", about, &body));
        Asked::of(server.url("http", "lists.example", "/")).fetch().map(drop)
    };
    assert!(sent("", vec![b'a'; 1000]).is_ok());
    let zip = "Content-Encoding: gzip\r\n";
    assert!(sent(zip, gzip(&[b'a'; 1000])).is_ok());
    // Its compressed size is within the limit.
    let bomb = gzip(&vec![0; 900_000]);
    assert!(bomb.len() < 1000, "{}", bomb.len());
    for (about, body) in [("", vec![b'a'; 1001]), (zip, bomb), (zip, gzip(&[b'a'; 1001]))] {
        let fault = sent(about, body).expect_err("too large");
        assert!(matches!(fault, FetchFault::TooLarge(1000)), "{fault}");
    }
    // Without a length, the limit ends the transfer, although the server would go on.
    let endless = TestServer::plain(|_, _| {
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        Reply { bytes: [head, b"3e9\r\n".to_vec(), vec![b'a'; 1001], b"\r\n".to_vec()].concat(), holds: true }
    });
    let fault = Asked::of(endless.url("http", "lists.example", "/")).fetch().expect_err("too large");
    assert!(matches!(fault, FetchFault::TooLarge(1000)), "{fault}");
}

#[test]
fn redirects_are_followed_a_few_times() {
    let server = TestServer::plain(|request, _| match request.split(' ').nth(1) {
        Some("/4") => Reply::new("200 OK", "", b"a.example\n"),
        Some("/relative") => Reply::new("307 Temporary Redirect", "Location: 4\r\n", b""),
        Some("/loop") => Reply::new("301 Moved Permanently", "Location: /loop\r\n", b""),
        Some("/nowhere") => Reply::new("302 Found", "", b""),
        Some("/file") => Reply::new("302 Found", "Location: file:///etc/passwd\r\n", b""),
        Some(path) => {
            let next: u32 = path[1..].parse().expect("a number");
            Reply::new("302 Found", &format!("Location: /{}\r\n", next + 1), b"")
        }
        None => Reply::new("400 Bad Request", "", b""),
    });
    let asked = |path| Asked::of(server.url("http", "lists.example", path));
    assert_eq!(text(asked("/0").fetch()), "a.example\n");
    assert_eq!(text(asked("/relative").fetch()), "a.example\n");
    let before = server.requests().len();
    assert_eq!(asked("/loop").fault(), "more than 5 redirects");
    assert_eq!(server.requests().len() - before, 6);
    assert!(asked("/nowhere").fault().contains("a redirect to ``"), "{}", asked("/nowhere").fault());
    assert!(asked("/file").fault().contains("`file:///etc/passwd`"), "{}", asked("/file").fault());
}

#[test]
fn a_redirect_does_not_leave_https() {
    let plain = TestServer::plain(|_, _| Reply::new("200 OK", "", b"a.example\n"));
    let location = format!("Location: {}\r\n", plain.url("http", "lists.example", "/"));
    let secure = TestServer::secure(move |_, _| Reply::new("302 Found", &location, b""));
    let fault = Asked::of(secure.url("https", "lists.example", "/")).fault();
    assert!(fault.contains("a redirect from HTTPS to http://lists.example:"), "{fault}");
    assert_eq!(plain.requests().len(), 0);
}

#[test]
fn a_slow_server_is_given_up() {
    let server = TestServer::secure(|_, _| Reply {
        bytes: b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\na.exa".to_vec(),
        holds: true,
    });
    let timeout = Duration::from_millis(500);
    let asked = Asked { timeout, ..Asked::of(server.url("https", "lists.example", "/")) };
    assert_eq!(asked.fault(), "the transfer took longer than 0.5 s");
}

#[test]
fn a_truncated_document_is_a_fault() {
    let replies: [&[u8]; 3] = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\na.example\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\na.example\n\r\n",
        b"",
    ];
    for bytes in replies {
        let server = TestServer::plain(move |_, _| Reply { bytes: bytes.to_vec(), holds: false });
        let fault = Asked::of(server.url("http", "lists.example", "/")).fault();
        assert!(fault.starts_with("the transfer failed: "), "{fault}");
    }
    // Without a length, only TLS tells the end from a connection that was cut.
    let bytes = b"HTTP/1.1 200 OK\r\n\r\na.example\n".to_vec();
    let server = TestServer::cut(move |_, _| Reply { bytes: bytes.clone(), holds: false });
    let fault = Asked::of(server.url("https", "lists.example", "/")).fault();
    assert!(fault.contains("close_notify"), "{fault}");
}

#[test]
fn a_reply_without_a_document_is_a_fault() {
    for status in ["404 Not Found", "500 Internal Server Error", "204 No Content"] {
        let server = TestServer::plain(move |_, _| Reply::new(status, "", b""));
        let fault = Asked::of(server.url("http", "lists.example", "/")).fault();
        assert_eq!(fault, format!("the server replied {status}"));
    }
    let server =
        TestServer::plain(|_, _| Reply { bytes: b"220 mail.example ESMTP\r\n".to_vec(), holds: true });
    let fault = Asked::of(server.url("http", "lists.example", "/")).fault();
    assert!(fault.starts_with("the transfer failed: "), "{fault}");
}

#[test]
fn a_server_that_cannot_be_reached_is_a_fault() {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("its address").port()
    };
    let fault = Asked::of(format!("https://lists.example:{port}/")).fault();
    assert!(fault.contains(&format!("no connection to 127.0.0.1:{port}: Connection refused")), "{fault}");
    let fault = Asked::of("https://none.example/".into()).fault();
    assert!(fault.contains("none.example cannot be resolved: there is no such name"), "{fault}");
    let fault = Asked::of("https://empty.example/".into()).fault();
    assert!(fault.contains("empty.example cannot be resolved: it has none"), "{fault}");
}
