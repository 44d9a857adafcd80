//! DNS over QUIC: answers on streams, the errors of RFC 9250, limits and timeouts, against a client of quinn.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use net::{Context, Listener, ListenerConfig, TcpConfig, TcpLimits, TcpTimes, Totals};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, IdleTimeout, ReadError, ReadToEndError, RecvStream,
    SendStream, TransportConfig, VarInt,
};
use tokio::runtime::Runtime;
use transport::Transport;

use crate::script::*;
use crate::tls::Identity;

/// The error codes of RFC 9250 §8.4.
const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 1;
const PROTOCOL_ERROR: u32 = 2;
const REQUEST_CANCELLED: u32 = 3;
const EXCESSIVE_LOAD: u32 = 4;
const UNSPECIFIED_ERROR: u32 = 5;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn start(context: &Context) -> ScriptedServer {
    ScriptedServer::start_with("127.0.0.1:0", Transport::Quic, &crate::tls::config(), context)
}

/// Returns the context of a server with these limits.
fn limited(identity: &Identity, max: usize, per_client: usize) -> Context {
    // Idle connections stay, also when the limit is reached.
    let times = TcpTimes { idle_min: TEST_TIMEOUT, idle: TEST_TIMEOUT, ..TcpTimes::default() };
    let mut context = identity.context(times);
    context.tcp = TcpLimits::new(max, per_client, &times);
    context
}

/// A client: the endpoint has to stay while its connection is used.
struct Client {
    endpoint: Endpoint,
    connection: Connection,
}

/// Returns the settings of a client that accepts the certificate of the server.
fn settings(identity: &Identity, protocol: &[u8]) -> ClientConfig {
    let tls = (*identity.client_of(protocol)).clone();
    ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()))
}

impl Client {
    async fn connect(server: SocketAddr, identity: &Identity) -> Result<Client, ConnectionError> {
        Client::with(server, settings(identity, b"doq")).await
    }

    async fn with(server: SocketAddr, config: ClientConfig) -> Result<Client, ConnectionError> {
        let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        let connection = endpoint.connect_with(config, server, "dns.test").unwrap().await?;
        Ok(Client { endpoint, connection })
    }

    /// Sends bytes on a new stream, and ends it.
    async fn send(&self, bytes: &[u8]) -> (SendStream, RecvStream) {
        let (mut to, from) = self.connection.open_bi().await.unwrap();
        // The server may have closed the connection meanwhile.
        if to.write_all(bytes).await.is_ok() {
            let _ = to.finish();
        }
        (to, from)
    }

    /// Returns all that answers a query.
    async fn ask(&self, query: &[u8]) -> Result<Vec<Vec<u8>>, ReadToEndError> {
        let (_to, mut from) = self.send(&framed(&[query.to_vec()])).await;
        Ok(messages(&from.read_to_end(10 << 20).await?))
    }

    /// Asserts that a query is answered.
    async fn echo(&self) {
        let q = query(0, Order::Echo, 40);
        assert_eq!(self.ask(&q).await.unwrap(), [echoed(&q)]);
    }

    /// Waits until the server has closed the connection, and returns the error code.
    async fn closed(&self) -> u32 {
        match tokio::time::timeout(TEST_TIMEOUT, self.connection.closed()).await.expect("a close") {
            ConnectionError::ApplicationClosed(close) => code(close.error_code),
            other => panic!("{other:?}"),
        }
    }
}

fn code(code: VarInt) -> u32 {
    u32::try_from(code.into_inner()).unwrap()
}

/// Splits the messages of a stream, which must be whole.
fn messages(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while let Some((prefix, rest)) = bytes.split_first_chunk::<2>() {
        let (message, rest) = rest.split_at(usize::from(u16::from_be_bytes(*prefix)));
        all.push(message.to_vec());
        bytes = rest;
    }
    assert!(bytes.is_empty());
    all
}

/// Returns the code that a stream was reset with.
fn reset(result: Result<Vec<Vec<u8>>, ReadToEndError>) -> u32 {
    match result {
        Err(ReadToEndError::Read(ReadError::Reset(reset))) => code(reset),
        other => panic!("{other:?}"),
    }
}

/// Waits on another thread, so that the client goes on meanwhile.
async fn wait_for(server: &Arc<ScriptedServer>, what: &'static str, condition: fn(&Totals) -> bool) {
    let server = Arc::clone(server);
    tokio::task::spawn_blocking(move || server.wait_for(what, condition)).await.unwrap();
}

fn stop(server: Arc<ScriptedServer>) -> Totals {
    Arc::into_inner(server).expect("the only owner").stop()
}

#[test]
fn each_stream_has_a_query_and_its_answer() {
    let identity = Identity::new();
    let server = start(&identity.context(TcpTimes::default()));
    runtime().block_on(async {
        let client = Client::connect(server.addr(), &identity).await.unwrap();
        for len in [17, 500, 4096, 65_535] {
            let q = query(0, Order::Echo, len);
            assert_eq!(client.ask(&q).await.unwrap(), [echoed(&q)], "{len}");
        }
        let q = query(0, Order::Later, 30);
        assert_eq!(client.ask(&q).await.unwrap(), [echoed(&q)]);
        assert_eq!(client.ask(&query(0, Order::Large(65_535), 30)).await.unwrap(), [vec![0; 65_535]]);
        // Zone transfers.
        for order in [Order::Stream(1), Order::Stream(700), Order::LaterStream(300)] {
            let expected = match order {
                Order::Stream(n) | Order::LaterStream(n) => n,
                _ => unreachable!(),
            };
            let all = client.ask(&query(0, order, 30)).await.unwrap();
            assert_eq!(all.len(), expected as usize);
            for (number, message) in (0_u32..).zip(&all) {
                assert_eq!((message.len(), &message[..4]), (1000, &number.to_be_bytes()[..]));
            }
        }
        // A query without an answer costs its stream alone.
        for (order, expected) in [
            (Order::Drop, UNSPECIFIED_ERROR),
            (Order::Undecided, UNSPECIFIED_ERROR),
            (Order::Forget, UNSPECIFIED_ERROR),
            (Order::Panic, UNSPECIFIED_ERROR),
            (Order::LaterOverlong, UNSPECIFIED_ERROR),
            (Order::Overlong, INTERNAL_ERROR),
            (Order::Abort, INTERNAL_ERROR),
        ] {
            assert_eq!(reset(client.ask(&query(0, order, 30)).await), expected, "{order:?}");
        }
        client.echo().await;
    });
    let totals = server.stop();
    assert_eq!(
        (totals.queries, totals.tls_handshakes, totals.tcp_accepted, totals.tcp_closed),
        (17, 1, 1, 1)
    );
    assert_eq!((totals.streams, totals.tcp_stream_failed, totals.panics), (4, 1, 2));
}

#[test]
fn many_queries_are_answered_at_a_time_as_they_are_ready() {
    let identity = Identity::new();
    let server = Arc::new(start(&identity.context(TcpTimes::default())));
    runtime().block_on(async {
        let client = Arc::new(Client::connect(server.addr(), &identity).await.unwrap());
        let held = {
            let client = Arc::clone(&client);
            tokio::spawn(async move { client.ask(&query(0, Order::Hold, 30)).await })
        };
        let mut all = tokio::task::JoinSet::new();
        for number in 0..400_u32 {
            let client = Arc::clone(&client);
            all.spawn(async move {
                let order = [Order::Echo, Order::Later, Order::Large(10_000 + number)][number as usize % 3];
                let q = query(0, order, 30 + number as usize);
                let answer = client.ask(&q).await.unwrap();
                match number % 3 {
                    2 => assert_eq!(answer[0].len(), 10_000 + number as usize),
                    _ => assert_eq!(answer, [echoed(&q)]),
                }
            });
        }
        while let Some(done) = all.join_next().await {
            done.unwrap();
        }
        let (promise, q) = server.next_held();
        assert_eq!(promise.client().transport, Transport::Quic);
        assert_eq!(promise.client().peer.port(), client.endpoint.local_addr().unwrap().port());
        assert_eq!(promise.client().local, server.addr());
        promise.send(&q);
        assert_eq!(held.await.unwrap().unwrap(), [q]);
    });
    let totals = stop(server);
    assert_eq!((totals.queries, totals.replies, totals.late_lost), (401, 401, 0));
}

/// RFC 9250 §4.3.3.
#[test]
fn clients_that_break_the_rules_are_closed() {
    let identity = Identity::new();
    let mut context = identity.context(TcpTimes::default());
    context.keepalive = Some(|message| message.ends_with(b"keepalive"));
    let server = start(&context);
    let whole = framed(&[query(0, Order::Echo, 30)]);
    let mut keepalive = query(0, Order::Echo, 30);
    keepalive.extend(b"keepalive");
    let cases: [(&str, Vec<u8>, &[u8]); 7] = [
        (
            "an ID that is not 0",
            framed(&[query(7, Order::Echo, 30)]),
            b"the message ID of the query is not 0",
        ),
        ("nothing", Vec::new(), b"the stream ended before the query was complete"),
        ("half", whole[..20].to_vec(), b"the stream ended before the query was complete"),
        ("two messages", [&whole[..], &whole].concat(), b"more bytes follow the query on its stream"),
        ("too many bytes", vec![0xff; 70_000], b"more bytes follow the query on its stream"),
        ("eleven bytes", framed(&[vec![0; 11]]), b"the query is shorter than a DNS header"),
        ("keepalive", framed(&[keepalive]), b"the query has the option edns-tcp-keepalive"),
    ];
    runtime().block_on(async {
        for (what, bytes, reason) in &cases {
            let client = Client::connect(server.addr(), &identity).await.unwrap();
            client.echo().await;
            let _streams = client.send(bytes).await;
            assert_eq!(client.closed().await, PROTOCOL_ERROR, "{what}");
            match client.connection.close_reason() {
                Some(ConnectionError::ApplicationClosed(close)) => {
                    assert_eq!(close.reason, *reason, "{what}")
                }
                other => panic!("{what}: {other:?}"),
            }
        }
        let client = Client::connect(server.addr(), &identity).await.unwrap();
        let mut stream = client.connection.open_uni().await.unwrap();
        stream.write_all(&whole).await.unwrap();
        assert_eq!(client.closed().await, PROTOCOL_ERROR, "a unidirectional stream");
    });
    let totals = server.stop();
    assert_eq!((totals.quic_protocol_errors, totals.queries), (8, 7));
}

#[test]
fn a_stream_whose_end_does_not_come_is_not_waited_for() {
    let identity = Identity::new();
    let times = TcpTimes { message: Duration::from_millis(300), ..TcpTimes::default() };
    let server = start(&identity.context(times));
    runtime().block_on(async {
        let whole = framed(&[query(0, Order::Echo, 30)]);
        for bytes in [&whole[..], &whole[..10]] {
            let client = Client::connect(server.addr(), &identity).await.unwrap();
            let (mut to, mut from) = client.connection.open_bi().await.unwrap();
            to.write_all(bytes).await.unwrap();
            assert!(from.read_to_end(100).await.is_err());
            assert_eq!(client.closed().await, PROTOCOL_ERROR);
        }
    });
    let totals = server.stop();
    assert_eq!((totals.tcp_timeout_message, totals.queries), (2, 0));
}

#[test]
fn cancelled_queries_get_no_answer_and_the_connection_stays() {
    let identity = Identity::new();
    let server = Arc::new(start(&identity.context(TcpTimes::default())));
    runtime().block_on(async {
        let client = Client::connect(server.addr(), &identity).await.unwrap();
        // Before the query is complete.
        let (mut to, mut from) = client.connection.open_bi().await.unwrap();
        to.write_all(&[0, 30, 0, 0]).await.unwrap();
        to.reset(VarInt::from_u32(REQUEST_CANCELLED)).unwrap();
        match from.read_to_end(100).await {
            Err(ReadToEndError::Read(ReadError::Reset(found))) => assert_eq!(code(found), REQUEST_CANCELLED),
            other => panic!("{other:?}"),
        }
        // While it is answered.
        let (to, mut from) = client.send(&framed(&[query(0, Order::Hold, 30)])).await;
        wait_for(&server, "the query", |totals| totals.pending == 1).await;
        from.stop(VarInt::from_u32(REQUEST_CANCELLED)).unwrap();
        drop((to, from));
        client.echo().await;
        // An answer that comes later is dropped.
        let (promise, q) = server.next_held();
        promise.send(&q);
        wait_for(&server, "the end", |totals| totals.quic_cancelled == 2).await;
        // While it is written.
        let (to, mut from) = client.send(&framed(&[query(0, Order::Stream(100_000), 30)])).await;
        let mut some = [0; 100];
        from.read_exact(&mut some).await.unwrap();
        from.stop(VarInt::from_u32(REQUEST_CANCELLED)).unwrap();
        wait_for(&server, "the end", |totals| totals.quic_cancelled == 3).await;
        drop(to);
        client.echo().await;
    });
    assert!(stop(server).replies < 100_000);
}

#[test]
fn a_client_has_no_more_queries_answered_at_a_time_by_cancelling_them() {
    let identity = Identity::new();
    let config = ListenerConfig {
        tcp: TcpConfig { max_in_flight: 4, ..TcpConfig::default() },
        ..crate::tls::config()
    };
    let context = identity.context(TcpTimes::default());
    let server = Arc::new(ScriptedServer::start_with("127.0.0.1:0", Transport::Quic, &config, &context));
    runtime().block_on(async {
        let client = Client::connect(server.addr(), &identity).await.unwrap();
        let mut streams = Vec::new();
        for _ in 0..20 {
            streams.push(client.send(&framed(&[query(0, Order::Hold, 30)])).await);
        }
        wait_for(&server, "four queries", |totals| totals.pending == 4).await;
        for (_, from) in &mut streams {
            from.stop(VarInt::from_u32(REQUEST_CANCELLED)).unwrap();
        }
        // The cancelled ones are reset, and go on to count.
        for (to, _) in &streams[..4] {
            assert!(to.stopped().await.is_ok());
        }
        tokio::time::sleep(SILENCE).await;
        assert_eq!(server.totals().pending, 4);
        // Each that is settled makes room for one more.
        for pending in 5..=20_u64 {
            let (promise, q) = server.next_held();
            promise.send(&q);
            let server = Arc::clone(&server);
            let more = move || server.wait_for("one more", |totals| totals.pending >= pending);
            tokio::task::spawn_blocking(more).await.unwrap();
        }
        assert!(server.held.lock().unwrap().len() <= 4);
    });
    assert_eq!(stop(server).pending, 20);
}

#[test]
fn streams_and_bytes_of_a_connection_are_bounded() {
    let identity = Identity::new();
    // Queries that may be answered at a time: more than streams may be open, and one.
    for (max_in_flight, answered) in [(1000, 100), (1, 1)] {
        let tcp = TcpConfig { max_in_flight, ..TcpConfig::default() };
        let config = ListenerConfig { tcp, ..crate::tls::config() };
        let context = identity.context(TcpTimes::default());
        let server = Arc::new(ScriptedServer::start_with("127.0.0.1:0", Transport::Quic, &config, &context));
        runtime().block_on(async {
            let client = Client::connect(server.addr(), &identity).await.unwrap();
            let mut held = Vec::new();
            for _ in 0..answered {
                held.push(client.send(&framed(&[query(0, Order::Hold, 30)])).await);
            }
            {
                let server = Arc::clone(&server);
                let all = move || server.wait_for("the queries", |totals| totals.pending == answered);
                tokio::task::spawn_blocking(all).await.unwrap();
            }
            if answered == 100 {
                // QUIC announces room for further streams once several have ended.
                assert!(tokio::time::timeout(SILENCE, client.connection.open_bi()).await.is_err());
                for _ in 0..20 {
                    let (promise, q) = server.next_held();
                    promise.send(&q);
                }
            } else {
                // A stream that is not read yet takes 16 KiB.
                let (mut to, _from) = client.connection.open_bi().await.unwrap();
                assert!(tokio::time::timeout(SILENCE, to.write_all(&[0; 16 * 1024])).await.is_ok());
                assert!(tokio::time::timeout(SILENCE, to.write_all(&[0; 1])).await.is_err());
                to.reset(VarInt::from_u32(REQUEST_CANCELLED)).unwrap();
            }
            assert!(client.connection.open_bi().await.is_ok());
        });
        stop(server);
    }
}

#[test]
fn many_clients_are_answered_at_a_time() {
    let identity = Arc::new(Identity::new());
    let config = ListenerConfig { workers: 2, ..ListenerConfig::default() };
    let context = identity.context(TcpTimes::default());
    let server = ScriptedServer::start_with("127.0.0.1:0", Transport::Quic, &config, &context);
    let at = server.addr();
    runtime().block_on(async {
        let mut all = tokio::task::JoinSet::new();
        for _ in 0..60 {
            let identity = Arc::clone(&identity);
            all.spawn(async move {
                let client = Client::connect(at, &identity).await.unwrap();
                for len in [20, 200, 2000] {
                    let q = query(0, Order::Later, len);
                    assert_eq!(client.ask(&q).await.unwrap(), [echoed(&q)]);
                }
                client.connection.close(VarInt::from_u32(0), b"");
                client.endpoint.wait_idle().await;
            });
        }
        while let Some(done) = all.join_next().await {
            done.unwrap();
        }
    });
    let totals = server.stop();
    assert_eq!((totals.queries, totals.replies, totals.tls_handshakes), (180, 180, 60));
    assert_eq!((totals.tcp_accepted, totals.tcp_closed_by_peer), (60, 60));
}

#[test]
fn streams_that_are_reset_do_not_keep_a_connection() {
    let identity = Identity::new();
    let times = TcpTimes { first_message: Duration::from_millis(400), ..TcpTimes::default() };
    let server = start(&identity.context(times));
    runtime().block_on(async {
        let client = Client::connect(server.addr(), &identity).await.unwrap();
        let resets = async {
            while let Ok((mut to, _from)) = client.connection.open_bi().await {
                let _ = to.write_all(&[0]).await;
                let _ = to.reset(VarInt::from_u32(REQUEST_CANCELLED));
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            code = client.closed() => assert_eq!(code, NO_ERROR),
            () = resets => assert_eq!(client.closed().await, NO_ERROR),
        }
    });
    let totals = server.stop();
    assert_eq!((totals.tcp_timeout_first, totals.queries), (1, 0));
}

#[test]
fn a_client_that_reads_no_answers_is_closed() {
    let identity = Identity::new();
    let times = TcpTimes { write: Duration::from_millis(300), ..TcpTimes::default() };
    let server = start(&identity.context(times));
    runtime().block_on(async {
        // One answer that is larger than the window of the client, and many that are together.
        for orders in [vec![Order::Large(65_535)], vec![Order::Large(2_000); 20], vec![Order::Stream(1000)]] {
            let mut transport = TransportConfig::default();
            transport.receive_window(VarInt::from_u32(10_000));
            let mut config = settings(&identity, b"doq");
            config.transport_config(Arc::new(transport));
            let client = Client::with(server.addr(), config).await.unwrap();
            let mut unread = Vec::new();
            for order in orders {
                unread.push(client.send(&framed(&[query(0, order, 30)])).await);
            }
            // A client that acknowledges nothing either has no room for the close: a stateless reset.
            match tokio::time::timeout(TEST_TIMEOUT, client.connection.closed()).await.expect("a close") {
                ConnectionError::ApplicationClosed(close) => {
                    assert_eq!(code(close.error_code), EXCESSIVE_LOAD);
                }
                other => assert_eq!(other, ConnectionError::Reset),
            }
        }
    });
    assert_eq!(server.stop().tcp_timeout_write, 3);
}

#[test]
fn what_waits_for_slow_readers_is_bounded_and_counted() {
    let identity = Identity::new();
    let context = identity.context(TcpTimes::default());
    let limits = context.tcp.clone();
    let server = Arc::new(start(&context));
    runtime().block_on(async {
        let mut transport = TransportConfig::default();
        transport.receive_window(VarInt::from_u32(10_000));
        let mut config = settings(&identity, b"doq");
        config.transport_config(Arc::new(transport));
        let client = Client::with(server.addr(), config).await.unwrap();
        let mut unread = Vec::new();
        for _ in 0..50 {
            unread.push(client.send(&framed(&[query(0, Order::Large(65_535), 30)])).await);
        }
        // Queries are taken up to 128 KiB of answers.
        wait_for(&server, "the answers", |totals| totals.queries == 2).await;
        tokio::time::sleep(SILENCE).await;
        assert_eq!(server.totals().queries, 2);
        assert!((2 * 65_535..3 * 65_537).contains(&limits.waiting()), "{}", limits.waiting());
        client.connection.close(VarInt::from_u32(0), b"");
        wait_for(&server, "the close", |totals| totals.tcp_closed == 1).await;
    });
    wait_until("nothing to wait", || limits.waiting() == 0);
    assert_eq!(stop(server).tcp_closed_by_peer, 1);
}

#[test]
fn garbage_at_the_port_is_ignored() {
    let identity = Identity::new();
    let server = start(&identity.context(TcpTimes::default()));
    let socket = udp_client(server.addr());
    for len in [0, 1, 7, 20, 40, 1199, 1200, 1400] {
        for first in [0x00, 0x40, 0x7f, 0xc0, 0xc3, 0xd0, 0xe0, 0xf0, 0xff] {
            let mut bytes = vec![0x5a; len];
            if let Some(byte) = bytes.first_mut() {
                *byte = first;
            }
            if len > 6 {
                // Version 1, and an ID of 8 bytes.
                bytes[1..6].copy_from_slice(&[0, 0, 0, 1, 8]);
            }
            socket.send(&bytes).unwrap();
        }
    }
    runtime().block_on(async {
        Client::connect(server.addr(), &identity).await.unwrap().echo().await;
    });
    // Replies, such as stateless resets, are never longer than what they answer.
    socket.set_nonblocking(true).unwrap();
    let mut buffer = [0; 2000];
    while let Ok(n) = socket.recv(&mut buffer) {
        assert!(n <= 1400);
    }
    let totals = server.stop();
    assert_eq!((totals.queries, totals.tls_handshakes), (1, 1));
}

#[test]
fn connections_over_the_limits_are_refused() {
    let identity = Identity::new();
    let context = limited(&identity, 100, 3);
    let limits = context.tcp.clone();
    let server = start(&context);
    runtime().block_on(async {
        let mut open = Vec::new();
        for _ in 0..3 {
            let client = Client::connect(server.addr(), &identity).await.unwrap();
            client.echo().await;
            open.push(client);
        }
        for _ in 0..5 {
            match Client::connect(server.addr(), &identity).await {
                Err(ConnectionError::ConnectionClosed(close)) => {
                    assert_eq!(close.error_code, quinn::TransportErrorCode::CONNECTION_REFUSED);
                }
                other => panic!("{:?}", other.map(|_| ())),
            }
        }
        assert_eq!(limits.current(), 3);
        // A place becomes free as soon as a client closes its connection.
        open.pop().unwrap().connection.close(VarInt::from_u32(0), b"");
        let deadline = tokio::time::Instant::now() + TEST_TIMEOUT;
        while limits.current() == 3 && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Client::connect(server.addr(), &identity).await.unwrap().echo().await;
    });
    let totals = server.stop();
    assert_eq!((totals.tcp_refused_client, totals.tcp_accepted), (5, 4));
}

#[test]
fn an_idle_connection_makes_room_for_a_new_one() {
    let identity = Identity::new();
    let context = limited(&identity, 2, 100);
    let limits = context.tcp.clone();
    let server = start(&context);
    runtime().block_on(async {
        let mut open = Vec::new();
        for _ in 0..3 {
            let client = Client::connect(server.addr(), &identity).await.unwrap();
            client.echo().await;
            open.push(client);
            // A connection is idle once its answers are acknowledged, and the first one is so for longest.
            while limits.waiting() > 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(open[0].closed().await, EXCESSIVE_LOAD);
        open[2].echo().await;
    });
    assert_eq!(server.stop().tcp_evicted, 1);
}

#[test]
fn addresses_are_validated_first_while_many_handshakes_are_pending() {
    let identity = Identity::new();
    // Half of the limit of one client, at most 32, may be pending without.
    let server = start(&limited(&identity, 1000, 8));
    runtime().block_on(async {
        Client::connect(server.addr(), &identity).await.unwrap().echo().await;
        assert_eq!(server.totals().quic_retries, 0);
        // Clients whose handshakes stay pending: they drop what the server sends.
        let mut silent = Vec::new();
        for _ in 0..4 {
            silent.push(initial(&identity, server.addr()).await);
        }
        let server = &server;
        let deadline = tokio::time::Instant::now() + TEST_TIMEOUT;
        while server.totals().tcp_accepted < 5 && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Client::connect(server.addr(), &identity).await.unwrap().echo().await;
        assert_eq!(server.totals().quic_retries, 1);
    });
    server.stop();
}

/// Sends the first packet of a handshake from a socket that nothing reads, and returns the socket.
async fn initial(identity: &Identity, server: SocketAddr) -> UdpSocket {
    // Another socket takes the packet in the place of the server.
    let between = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let connecting =
        endpoint.connect_with(settings(identity, b"doq"), between.local_addr().unwrap(), "dns.test").unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    // A ClientHello with a key of ML-KEM has two packets.
    let mut packet = vec![0; 2000];
    for _ in 0..2 {
        let (n, _) = between.recv_from(&mut packet).await.unwrap();
        socket.send_to(&packet[..n], server).unwrap();
    }
    drop(connecting);
    socket
}

#[test]
fn clients_that_ask_nothing_are_closed_in_time() {
    let identity = Identity::new();
    let times = TcpTimes { first_message: Duration::from_secs(1), ..TcpTimes::default() };
    let server = start(&identity.context(times));
    runtime().block_on(async {
        let _silent = initial(&identity, server.addr()).await;
        let client = Client::connect(server.addr(), &identity).await.unwrap();
        assert_eq!(client.closed().await, NO_ERROR);
    });
    server.wait_for("both", |totals| totals.tcp_closed == 2);
    assert_eq!(server.stop().tcp_timeout_first, 2);
}

#[test]
fn idle_clients_are_closed_in_time() {
    let identity = Identity::new();
    let times = TcpTimes { idle: Duration::from_secs(1), ..TcpTimes::default() };
    let server = start(&identity.context(times));
    runtime().block_on(async {
        let client = Client::connect(server.addr(), &identity).await.unwrap();
        client.echo().await;
        assert_eq!(client.closed().await, NO_ERROR);
    });
    assert_eq!(server.stop().tcp_timeout_idle, 1);
}

#[test]
fn handshakes_that_fail_are_counted_by_reason() {
    let identity = Identity::new();
    let server = start(&identity.context(TcpTimes::default()));
    let other = Identity::new();
    runtime().block_on(async {
        assert!(Client::with(server.addr(), settings(&identity, b"h3")).await.is_err());
        let mut tls = (*identity.client_of(b"doq")).clone();
        tls.alpn_protocols.clear();
        let without = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
        assert!(Client::with(server.addr(), without).await.is_err());
        assert!(Client::with(server.addr(), settings(&other, b"doq")).await.is_err());
    });
    server.wait_for("all", |totals| totals.tcp_closed == 3);
    let totals = server.stop();
    assert_eq!((totals.tls_incompatible, totals.tls_refused, totals.tls_handshakes), (2, 1, 0));
}

#[test]
fn sessions_are_resumed_without_early_data() {
    let identity = Identity::new();
    let server = start(&identity.context(TcpTimes::default()));
    runtime().block_on(async {
        let config = settings(&identity, b"doq");
        let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        for resumed in 0..3 {
            let connecting = endpoint.connect_with(config.clone(), server.addr(), "dns.test").unwrap();
            let connection = match connecting.into_0rtt() {
                Err(connecting) => connecting.await.unwrap(),
                Ok(_) => panic!("the server offers early data"),
            };
            let client = Client { endpoint: endpoint.clone(), connection };
            client.echo().await;
            assert_eq!(server.totals().tls_resumed, resumed);
            client.connection.close(VarInt::from_u32(0), b"");
        }
    });
    assert_eq!(server.stop().tls_handshakes, 3);
}

#[test]
fn a_connection_stays_with_the_address_of_its_client() {
    let identity = Identity::new();
    let server = start(&identity.context(TcpTimes::default()));
    runtime().block_on(async {
        let mut transport = TransportConfig::default();
        transport.max_idle_timeout(Some(IdleTimeout::try_from(Duration::from_secs(1)).unwrap()));
        let mut config = settings(&identity, b"doq");
        config.transport_config(Arc::new(transport));
        let client = Client::with(server.addr(), config).await.unwrap();
        client.echo().await;
        client.endpoint.rebind(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        assert!(client.ask(&query(0, Order::Echo, 30)).await.is_err());
    });
    assert_eq!(server.stop().queries, 1);
}

#[test]
fn proxies_are_refused() {
    let identity = Identity::new();
    let context = identity.context(TcpTimes::default());
    context.proxies.set([([127, 0, 0, 1].into(), 32)], 512);
    let server = start(&context);
    runtime().block_on(async {
        assert!(Client::connect(server.addr(), &identity).await.is_err());
    });
    let totals = server.stop();
    assert_eq!((totals.proxy_missing, totals.tcp_accepted), (1, 0));
}

#[test]
fn queries_are_answered_while_the_listener_stops() {
    let identity = Identity::new();
    let server = Arc::new(start(&identity.context(TcpTimes::default())));
    runtime().block_on(async {
        let [client, idle] = [
            Client::connect(server.addr(), &identity).await.unwrap(),
            Client::connect(server.addr(), &identity).await.unwrap(),
        ];
        idle.echo().await;
        let (to, mut from) = client.send(&framed(&[query(0, Order::Hold, 30)])).await;
        wait_for(&server, "the query", |totals| totals.pending == 1).await;
        let (promise, q) = server.next_held();
        server.running.stop();
        assert_eq!(idle.closed().await, NO_ERROR);
        promise.send(&q);
        assert_eq!(messages(&from.read_to_end(100).await.unwrap()), [q]);
        assert_eq!(client.closed().await, NO_ERROR);
        drop(to);
    });
    let totals = stop(server);
    assert_eq!((totals.replies, totals.tcp_stopped, totals.late_lost), (2, 2, 0));
}

#[test]
fn a_socket_of_another_process_is_served() {
    let identity = Identity::new();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let kept = socket.try_clone().unwrap();
    for _ in 0..2 {
        let bound =
            Listener::from_quic(vec![kept.try_clone().unwrap()], Transport::Quic, &crate::tls::config())
                .unwrap();
        assert_eq!((bound.transport(), bound.passed()), (Transport::Quic, Some(1)));
        let server = ScriptedServer::serve(bound, &identity.context(TcpTimes::default()));
        runtime().block_on(async {
            Client::connect(server.addr(), &identity).await.unwrap().echo().await;
        });
        server.stop();
    }
}

#[test]
fn a_wildcard_socket_answers_from_the_address_that_was_asked() {
    let identity = Identity::new();
    for (bound, addresses) in [("0.0.0.0:0", ["127.0.0.1", "127.0.0.2"]), ("[::]:0", ["::1", "::1"])] {
        if UdpSocket::bind(bound).is_err() {
            // There is no IPv6 on this machine.
            continue;
        }
        let context = identity.context(TcpTimes::default());
        let server =
            Arc::new(ScriptedServer::start_with(bound, Transport::Quic, &crate::tls::config(), &context));
        runtime().block_on(async {
            for address in addresses {
                let at = SocketAddr::new(address.parse().unwrap(), server.addr().port());
                let any = if at.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let endpoint = Endpoint::client(any.parse().unwrap()).unwrap();
                let connecting = endpoint.connect_with(settings(&identity, b"doq"), at, "dns.test").unwrap();
                let client = Client { connection: connecting.await.unwrap(), endpoint };
                let (_to, mut from) = client.send(&framed(&[query(0, Order::Hold, 30)])).await;
                let held = {
                    let server = Arc::clone(&server);
                    move || server.next_held()
                };
                let (promise, q) = tokio::task::spawn_blocking(held).await.unwrap();
                assert_eq!(promise.client().local, at);
                promise.send(&q);
                assert_eq!(messages(&from.read_to_end(100).await.unwrap()), [q]);
            }
        });
        stop(server);
    }
}

#[test]
fn without_tls_nothing_is_served() {
    let bound =
        Listener::bind("127.0.0.1:0".parse().unwrap(), Transport::Quic, &crate::tls::config()).unwrap();
    let factory = |_: &transport::WorkerContext| -> Script { unreachable!() };
    assert!(bound.serve(factory, &Context::default()).is_err());
}
