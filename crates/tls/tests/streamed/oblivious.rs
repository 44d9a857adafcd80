//! Sessions of Oblivious DoH: one server is the proxy and the target behind it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tls::{
    OBLIVIOUS_MESSAGE, ObliviousConfig, ObliviousFault, ObliviousKeys, ObliviousSeed, TargetKeySource,
};
use transport::{Encryption, EncryptionFault, StreamedEvent};

use super::{Client, in_thread, named, query, respond, response, server, whole};

const HOUR: Duration = Duration::from_secs(3600);

/// What the proxy does with a message for the target.
#[derive(Clone, Copy)]
enum Passing {
    /// The target answers with the query.
    Echo,
    /// It responds with this status, this type and so many bytes of a body.
    Responds(u16, &'static str, usize),
}

/// What the target does with a request for its configurations.
#[derive(Clone, Copy)]
enum Publishing {
    /// It sends those of its key.
    Current,
    /// It responds with this status and so many bytes.
    Responds(u16, usize),
}

/// The state of a proxy and its target, which a test changes.
struct Both {
    keys: Mutex<ObliviousKeys>,
    passing: Mutex<Passing>,
    publishing: Mutex<Publishing>,
    /// How often the configurations were requested.
    fetches: Mutex<usize>,
}

impl Both {
    /// Starts the server, whose target has the key of this seed.
    fn start(seed: u8) -> (Arc<Both>, SocketAddr) {
        let both = Arc::new(Both {
            keys: Mutex::new(keys(seed)),
            passing: Mutex::new(Passing::Echo),
            publishing: Mutex::new(Publishing::Current),
            fetches: Mutex::default(),
        });
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        listener.set_nonblocking(true).expect("set");
        let shared = Arc::clone(&both);
        in_thread(move || async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            let acceptor = tokio_rustls::TlsAcceptor::from(server(b"h2"));
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, shared) = (acceptor.clone(), Arc::clone(&shared));
                tokio::spawn(async move {
                    // A client may end the handshake.
                    if let Ok(stream) = acceptor.accept(stream).await {
                        let _ = shared.serve(stream).await;
                    }
                });
            }
        });
        (both, address)
    }

    fn set_key(&self, seed: u8) {
        *self.keys.lock().expect("set") = keys(seed);
    }

    fn fetches(&self) -> usize {
        *self.fetches.lock().expect("read")
    }

    async fn serve<S>(&self, stream: S) -> Result<(), h2::Error>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    {
        let mut connection = h2::server::handshake(stream).await?;
        while let Some(accepted) = connection.accept().await {
            let (request, mut responder) = accepted?;
            if request.method() == http::Method::GET {
                assert_eq!(request.uri().path(), "/.well-known/odohconfigs");
                let (status, body) = self.published();
                respond(&mut responder, status, "application/octet-stream", body);
                continue;
            }
            let path = request.uri().path_and_query().expect("a path").to_string();
            assert_eq!(path, "/p?targethost=dns.example&targetpath=%2Fdns-query");
            assert_eq!(request.headers()["content-type"], OBLIVIOUS_MESSAGE);
            let message = whole(&mut connection, request.into_body()).await;
            let (status, of_type, body) = self.passed(&message);
            respond(&mut responder, status, of_type, body);
        }
        Ok(())
    }

    fn published(&self) -> (u16, Vec<u8>) {
        *self.fetches.lock().expect("counted") += 1;
        match *self.publishing.lock().expect("read") {
            Publishing::Current => (200, self.keys.lock().expect("keys").configs().to_vec()),
            Publishing::Responds(status, len) => (status, vec![7; len]),
        }
    }

    fn passed(&self, message: &[u8]) -> (u16, &'static str, Vec<u8>) {
        assert!(!message.windows(10).any(|part| part == [0x77; 10]), "the query is not to be seen");
        if let Passing::Responds(status, of_type, len) = *self.passing.lock().expect("read") {
            return (status, of_type, vec![7; len]);
        }
        match self.keys.lock().expect("keys").open(message) {
            Ok(opened) => {
                assert_eq!(opened.message[..2], [0, 0], "the message ID");
                let sealed = opened.sealer.seal(&opened.message).expect("sealed");
                (200, OBLIVIOUS_MESSAGE, sealed)
            }
            Err(ObliviousFault::UnknownKey) => (401, "text/plain", Vec::new()),
            Err(fault) => panic!("{fault}"),
        }
    }
}

/// The key of the target with this seed.
fn keys(seed: u8) -> ObliviousKeys {
    let mut bytes = [seed; 32];
    bytes[0] = 1;
    ObliviousKeys::new([&ObliviousSeed::new(bytes).expect("a seed")], HOUR)
}

fn encryption(source: &TargetKeySource) -> Encryption {
    let url = |text: &str| text.parse().expect("a URL");
    let (proxy, target) = (url("https://dns.example/p"), url("https://dns.example/dns-query"));
    tls::over_oblivious_https(&named("dns.example"), &proxy, &target, source).expect("settings")
}

/// The encryption whose key is fetched from the target at this address.
fn fetched(at: SocketAddr) -> Encryption {
    encryption(&TargetKeySource::Fetched(at, named("dns.example")))
}

/// Fetches the key as the resolver does. Returns the event that ends it.
fn fetch(encryption: &Encryption) -> StreamedEvent {
    let server = encryption.key_server().expect("a server");
    let mut target = Client::new(&server.encryption, server.address);
    let is_end = |event: &StreamedEvent| {
        matches!(
            event,
            StreamedEvent::Response(_) | StreamedEvent::Failed { .. } | StreamedEvent::Insecure(_)
        )
    };
    target.until(is_end).pop().expect("an end")
}

/// Sends a query, fetches the key when the session wants it, and returns the event about the query.
fn ask(client: &mut Client, encryption: &Encryption, id: u16) -> StreamedEvent {
    client.send(id);
    loop {
        let is_next = |event: &StreamedEvent| {
            matches!(
                event,
                StreamedEvent::KeyWanted | StreamedEvent::Response(_) | StreamedEvent::Failed { .. }
            )
        };
        match client.until(is_next).pop().expect("an event") {
            StreamedEvent::KeyWanted => {
                fetch(encryption);
                client.session.resume(Instant::now());
            }
            event => return event,
        }
    }
}

#[test]
fn queries_wait_for_the_key_and_the_proxy_sees_none_of_them() {
    let (both, at) = Both::start(7);
    let encryption = fetched(at);
    let mut client = Client::new(&encryption, at);
    client.send(1);
    client.send(2);
    let events = client.until(|event| matches!(event, StreamedEvent::Established { .. }));
    let established = StreamedEvent::Established { resumed: false };
    assert_eq!(events, [StreamedEvent::KeyWanted, established], "it is wanted once");
    client.session.cancel(2, Instant::now());
    assert_eq!(fetch(&encryption), StreamedEvent::Response(Vec::new()));
    client.session.resume(Instant::now());
    assert_eq!(client.until(|event| *event == response(1)), [response(1)]);
    // The key is there for every connection.
    let mut other = Client::new(&encryption, at);
    assert_eq!(ask(&mut other, &encryption, 3), response(3));
    assert_eq!(both.fetches(), 1);
}

#[test]
fn a_key_that_the_target_has_replaced_is_fetched_again_at_once() {
    let (both, at) = Both::start(7);
    let encryption = fetched(at);
    let mut client = Client::new(&encryption, at);
    assert_eq!(ask(&mut client, &encryption, 1), response(1));
    both.set_key(8);
    assert_eq!(ask(&mut client, &encryption, 2), response(2));
    assert_eq!(both.fetches(), 2);
    // A target that does not have the key that it publishes is asked for it once more.
    *both.passing.lock().expect("set") = Passing::Responds(401, "text/plain", 0);
    let failed = |id| StreamedEvent::Failed { id, fault: Some(EncryptionFault::ObliviousKey) };
    assert_eq!(ask(&mut client, &encryption, 3), failed(3));
    assert_eq!(both.fetches(), 3);
}

#[test]
fn a_configured_key_is_used_alone() {
    let (both, at) = Both::start(7);
    let config = ObliviousConfig::first(keys(7).configs()).expect("a key");
    let encryption = encryption(&TargetKeySource::Configured(config));
    assert!(encryption.key_server().is_none() && encryption.is_oblivious());
    let mut client = Client::new(&encryption, at);
    assert_eq!(ask(&mut client, &encryption, 1), response(1));
    both.set_key(8);
    let fault = Some(EncryptionFault::ObliviousKey);
    assert_eq!(ask(&mut client, &encryption, 2), StreamedEvent::Failed { id: 2, fault });
    assert_eq!(both.fetches(), 0);
}

#[test]
fn anything_but_an_encrypted_response_fails_the_query_alone() {
    let (both, at) = Both::start(7);
    let encryption = fetched(at);
    let mut client = Client::new(&encryption, at);
    let responds = Passing::Responds;
    for (id, (passing, fault)) in (1..).zip([
        (responds(200, OBLIVIOUS_MESSAGE, 40), EncryptionFault::ObliviousResponse),
        (responds(200, "application/dns-message", 40), EncryptionFault::ObliviousType),
        (responds(200, OBLIVIOUS_MESSAGE, 65_557), EncryptionFault::HttpLength),
        (responds(403, OBLIVIOUS_MESSAGE, 0), EncryptionFault::HttpForbidden),
        (responds(404, OBLIVIOUS_MESSAGE, 0), EncryptionFault::HttpNotFound),
        (responds(502, OBLIVIOUS_MESSAGE, 0), EncryptionFault::HttpServer),
    ]) {
        *both.passing.lock().expect("set") = passing;
        assert_eq!(ask(&mut client, &encryption, id), StreamedEvent::Failed { id, fault: Some(fault) });
    }
    *both.passing.lock().expect("set") = Passing::Echo;
    assert_eq!(ask(&mut client, &encryption, 77), response(77));
    assert_eq!(query(77).len(), 20);
}

#[test]
fn without_a_key_queries_fail_with_the_reason() {
    for (publishing, fault) in [
        (Publishing::Responds(404, 0), EncryptionFault::ObliviousNoConfigs),
        (Publishing::Responds(200, 40), EncryptionFault::ObliviousConfigs),
        (Publishing::Responds(200, 9000), EncryptionFault::ObliviousConfigs),
    ] {
        let (both, at) = Both::start(7);
        *both.publishing.lock().expect("set") = publishing;
        let encryption = fetched(at);
        let mut client = Client::new(&encryption, at);
        assert_eq!(ask(&mut client, &encryption, 1), StreamedEvent::Failed { id: 1, fault: Some(fault) });
        assert_eq!(both.fetches(), 1);
    }
    let (both, at) = Both::start(7);
    let encryption = encryption(&TargetKeySource::Fetched(at, named("dns2.example")));
    assert_eq!(fetch(&encryption), StreamedEvent::Insecure(EncryptionFault::WrongName));
    let mut client = Client::new(&encryption, at);
    let fault = Some(EncryptionFault::ObliviousTarget);
    assert_eq!(ask(&mut client, &encryption, 1), StreamedEvent::Failed { id: 1, fault });
    assert_eq!(both.fetches(), 0);
}

#[test]
fn a_connection_to_the_target_that_is_closed_ends_the_wait() {
    let (_, at) = Both::start(7);
    let encryption = fetched(at);
    let mut client = Client::new(&encryption, at);
    client.send(1);
    client.until(|event| *event == StreamedEvent::KeyWanted);
    assert!(client.session.deadline().is_some(), "the wait has an end");
    let server = encryption.key_server().expect("a server");
    let mut target = Client::new(&server.encryption, server.address);
    target.session.close(Instant::now());
    client.session.resume(Instant::now());
    let failed = StreamedEvent::Failed { id: 1, fault: Some(EncryptionFault::ObliviousTarget) };
    client.until(|event| *event == failed);
    assert_eq!(client.session.deadline(), None);
}
