//! Connections: pipelining, late answers, streams, limits, timeouts, slow and misbehaving clients.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::sync::atomic::Ordering;
use std::time::Duration;

use net::{BindFault, Context, Listener, ListenerConfig, TcpConfig, TcpLimits, TcpTimes};
use transport::Transport;

use crate::script::*;

fn config() -> ListenerConfig {
    ListenerConfig { workers: 1, ..ListenerConfig::default() }
}

fn with(tcp: TcpConfig) -> ListenerConfig {
    ListenerConfig { tcp, ..config() }
}

/// Limits that no test reaches, with these timeouts.
fn taking(times: TcpTimes) -> Context {
    Context::new(TcpLimits::new(1000, 1000, &times))
}

fn start_taking(times: TcpTimes) -> ScriptedServer {
    ScriptedServer::start_with("127.0.0.1:0", Transport::Tcp, &config(), &taking(times))
}

fn start() -> ScriptedServer {
    ScriptedServer::start("127.0.0.1:0", Transport::Tcp, &config())
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn pipelined_queries_are_answered_in_few_writes() {
    for addr in ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0", "[::]:0"] {
        let server = ScriptedServer::start(addr, Transport::Tcp, &config());
        let mut to = server.addr();
        if to.ip().is_unspecified() {
            to.set_ip(if to.is_ipv4() {
                [127, 0, 0, 1].into()
            } else {
                std::net::Ipv6Addr::LOCALHOST.into()
            });
        }
        let mut client = TcpClient::connect(to);
        let queries: Vec<_> = (0..100).map(|id| query(id, Order::Echo, 17 + usize::from(id))).collect();
        client.send(&queries);
        for q in &queries {
            assert_eq!(client.receive(), Some(echoed(q)));
        }
        let totals = server.stop();
        assert_eq!((totals.queries, totals.replies), (100, 100));
        assert!(totals.batches < 30, "{totals:?}");
        let bytes: usize = queries.iter().map(Vec::len).sum();
        assert_eq!((totals.bytes_in, totals.bytes_out), (bytes as u64, bytes as u64));
    }
}

#[test]
fn messages_of_any_size_arrive_in_any_pieces() {
    let server = start();
    let mut client = TcpClient::connect(server.addr());
    for len in [17, 500, 4096, 65_535] {
        let q = query(3, Order::Echo, len);
        client.send(std::slice::from_ref(&q));
        assert_eq!(client.receive(), Some(echoed(&q)));
    }
    // Every way of cutting two messages in two.
    let queries = [query(1, Order::Echo, 20), query(2, Order::Echo, 30)];
    let bytes = framed(&queries);
    for cut in 0..bytes.len() {
        client.0.write_all(&bytes[..cut]).unwrap();
        let before = server.totals().queries;
        let whole = u64::from(cut >= 22);
        if whole == 1 {
            assert_eq!(client.receive(), Some(echoed(&queries[0])));
        }
        client.0.write_all(&bytes[cut..]).unwrap();
        for q in &queries[whole as usize..] {
            assert_eq!(client.receive(), Some(echoed(q)));
        }
        assert!(server.totals().queries >= before);
    }
    // Byte by byte.
    let q = query(9, Order::Echo, 40);
    for byte in framed(std::slice::from_ref(&q)) {
        client.0.write_all(&[byte]).unwrap();
    }
    assert_eq!(client.receive(), Some(echoed(&q)));
    server.stop();
}

#[test]
fn answers_go_out_as_they_are_ready() {
    let server = start();
    let mut client = TcpClient::connect(server.addr());
    let asks = [
        Order::Hold,
        Order::Echo,
        Order::Forget,
        Order::Drop,
        Order::Undecided,
        Order::Overlong,
        Order::Later,
        Order::LaterOverlong,
    ];
    let queries: Vec<_> = asks.iter().enumerate().map(|(id, &ask)| query(id as u16, ask, 30)).collect();
    client.send(&queries);
    assert_eq!(client.receive(), Some(echoed(&queries[1])));
    assert_eq!(client.receive(), Some(echoed(&queries[6])));
    client.silent();
    let (promise, q) = server.held.lock().unwrap().pop().unwrap();
    assert_eq!(promise.client().transport, Transport::Tcp);
    promise.send(&q);
    assert_eq!(client.receive(), Some(q));
    drop(client);
    server.wait_for("the close", |totals| totals.tcp_closed_by_peer == 1);
    let totals = server.stop();
    assert_eq!((totals.pending, totals.dropped, totals.bad_replies), (4, 3, 2));
    assert_eq!((totals.replies, totals.late_replies, totals.late_lost), (3, 2, 0));
}

#[test]
fn an_answer_to_a_closed_connection_is_counted_as_lost() {
    let server = start();
    let mut client = TcpClient::connect(server.addr());
    client.send(&[query(1, Order::Hold, 30)]);
    let (promise, q) = server.next_held();
    // A reset, not just the end of the client's side.
    socket2::SockRef::from(&client.0).set_linger(Some(Duration::ZERO)).unwrap();
    drop(client);
    server.wait_for("the reset", |totals| totals.tcp_closed == 1);
    promise.send(&q);
    server.wait_for("the loss", |totals| totals.late_lost == 1);
    assert_eq!(server.stop().late_replies, 0);
}

#[test]
fn half_closed_connections_get_all_answers() {
    let server = start();
    let mut client = TcpClient::connect(server.addr());
    let mut queries: Vec<_> = (0..60).map(|id| query(id, Order::Echo, 500)).collect();
    queries.push(query(60, Order::Hold, 30));
    queries.push(query(61, Order::Stream(3), 30));
    client.send(&queries);
    client.0.shutdown(Shutdown::Write).unwrap();
    for q in &queries[..60] {
        assert_eq!(client.receive(), Some(echoed(q)));
    }
    for _ in 0..3 {
        assert_eq!(client.receive().unwrap().len(), 1000);
    }
    client.silent();
    let (promise, q) = server.held.lock().unwrap().pop().unwrap();
    promise.send(&q);
    assert_eq!(client.receive(), Some(q));
    client.closed();
    assert_eq!(server.stop().tcp_closed_by_peer, 1);
}

#[test]
fn streams_come_in_order_beside_other_answers() {
    for ask in [Order::Stream(2000), Order::LaterStream(2000)] {
        let server = start();
        let mut client = TcpClient::connect(server.addr());
        let beside = query(2, Order::Echo, 30);
        client.send(&[query(1, ask, 30), beside.clone()]);
        let (mut next, mut echoes) = (0_u32, 0);
        while next < 2000 || echoes < 1 {
            let message = client.receive().unwrap();
            if message.len() == 30 {
                assert_eq!(message, echoed(&beside));
                echoes += 1;
            } else {
                assert_eq!(message[..4], next.to_be_bytes());
                next += 1;
            }
        }
        client.echo(3);
        assert_eq!(server.stop().streams, 1);
    }
}

#[test]
fn a_failed_stream_closes_the_connection() {
    let server = start();
    let mut client = TcpClient::connect(server.addr());
    client.send(&[query(1, Order::Abort, 30)]);
    while client.receive().is_some() {}
    assert_eq!(server.stop().tcp_stream_failed, 1);
}

#[test]
fn slow_readers_hold_back_only_themselves_and_are_cut() {
    let server = start_taking(TcpTimes { write: ms(400), ..TcpTimes::default() });
    let mut stream = TcpClient::connect(server.addr());
    stream.send(&[query(1, Order::Stream(u32::MAX), 30)]);
    let mut large = TcpClient::connect(server.addr());
    // Sends queries without reading, until the server stops reading from it and in the end closes the
    // connection.
    let asking = std::thread::spawn(move || {
        let queries = framed(&[query(1, Order::Large(60_000), 30)]);
        while large.0.write_all(&queries).is_ok() {}
    });
    let mut other = TcpClient::connect(server.addr());
    for id in 0..100 {
        other.echo(id);
    }
    server.wait_for("the cut", |totals| totals.tcp_timeout_write == 2);
    other.echo(1);
    asking.join().unwrap();
    // The server has built far fewer answers than queries sent: what the system buffers, and one batch.
    let totals = server.stop();
    assert!(totals.bytes_out < 40 << 20, "{totals:?}");
}

#[test]
fn a_message_too_short_closes_after_the_answers_before_it() {
    let server = start();
    let mut client = TcpClient::connect(server.addr());
    let q = query(1, Order::Echo, 30);
    let mut bytes = framed(std::slice::from_ref(&q));
    bytes.extend_from_slice(&[0, 11]);
    bytes.extend_from_slice(&framed(&[query(2, Order::Echo, 30)]));
    client.0.write_all(&bytes).unwrap();
    assert_eq!(client.receive(), Some(echoed(&q)));
    client.closed();
    let totals = server.stop();
    assert_eq!((totals.tcp_bad_framing, totals.runts, totals.queries), (1, 1, 1));
}

/// Connects from an address of the loopback network.
fn connect_from(server: &ScriptedServer, from: &str) -> TcpClient {
    use socket2::{Domain, SockAddr, Socket, Type};
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SockAddr::from(std::net::SocketAddr::new(from.parse().unwrap(), 0))).unwrap();
    let to = std::net::SocketAddr::from(([127, 0, 0, 1], server.addr().port()));
    socket.connect(&SockAddr::from(to)).unwrap();
    let stream: std::net::TcpStream = socket.into();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    TcpClient(stream)
}

/// One network opened all connections, and the longest idle ones were those of others.
#[test]
fn a_network_that_takes_all_connections_does_not_keep_others_out() {
    let context = Context::new(TcpLimits::new(30, 30, &TcpTimes::default()));
    context.tcp.set_per_network(29);
    let server = ScriptedServer::start_with("0.0.0.0:0", Transport::Tcp, &config(), &context);
    let mut first = connect_from(&server, "127.9.9.9");
    first.echo(1);
    let mut flood: Vec<_> = (0..29).map(|_| connect_from(&server, "127.1.2.3")).collect();
    flood.iter_mut().for_each(|client| client.echo(1));
    connect_from(&server, "127.1.2.4").closed();
    assert_eq!(server.totals().tcp_refused_network, 1);
    let mut others: Vec<_> = (1..=10).map(|n| connect_from(&server, &format!("127.2.{n}.1"))).collect();
    others.iter_mut().chain([&mut first]).for_each(|client| client.echo(2));
    let totals = server.totals();
    assert_eq!((totals.tcp_evicted, totals.tcp_refused_full), (10, 0));
    assert_eq!(context.tcp.current(), 30);
    drop((first, flood, others));
    wait_until("all gone", || context.tcp.current() == 0);
    server.stop();
}

/// Clients that read nothing of their answers held their connections for the whole write timeout.
#[test]
fn a_client_that_reads_nothing_gives_way_and_one_that_reads_does_not() {
    let times = TcpTimes { write: Duration::from_secs(600), ..TcpTimes::default() };
    let context = Context::new(TcpLimits::new(2, 2, &times));
    let server = ScriptedServer::start_with("0.0.0.0:0", Transport::Tcp, &config(), &context);
    let endless = [query(1, Order::Stream(u32::MAX), 30)];
    let (mut deaf, mut reader) = (connect_from(&server, "127.1.2.3"), connect_from(&server, "127.1.2.3"));
    deaf.send(&endless);
    reader.send(&endless);
    let reading = std::thread::spawn(move || {
        let mut buffer = [0; 65_536];
        while reader.0.read(&mut buffer).is_ok_and(|n| n > 0) {}
    });
    let mut other = None;
    wait_until("room", || {
        let mut client = connect_from(&server, "127.2.2.2");
        let _ = client.0.write_all(&framed(&[query(7, Order::Echo, 40)]));
        let is_served = client.receive().is_some();
        other = Some(client);
        is_served
    });
    server.wait_for("the end of one", |totals| totals.tcp_evicted == 1);
    assert_eq!((context.tcp.current(), server.totals().tcp_closed), (2, 1));
    assert!(!reading.is_finished(), "it was not the one that reads");
    drop(deaf);
    server.stop();
    reading.join().unwrap();
}

/// Answers that are not read took as much memory as there were connections.
#[test]
fn too_many_bytes_that_wait_end_connections_that_read_nothing() {
    let times = TcpTimes { write: Duration::from_secs(600), ..TcpTimes::default() };
    let context = Context::new(TcpLimits::new(10, 10, &times));
    let server = ScriptedServer::start_with("0.0.0.0:0", Transport::Tcp, &config(), &context);
    let mut deaf: Vec<_> = (0..2).map(|_| connect_from(&server, "127.1.2.3")).collect();
    deaf.iter_mut().for_each(|client| client.send(&[query(1, Order::Stream(u32::MAX), 30)]));
    wait_until("bytes that wait", || context.tcp.waiting() > 64 << 10);
    let mut other = connect_from(&server, "127.2.2.2");
    other.echo(1);
    assert_eq!(server.totals().tcp_evicted, 0, "they are fewer than may wait");
    // How many bytes are left when the system takes no more depends on when it took them: one at least.
    context.tcp.set_waiting(0);
    wait_until("their end", || {
        other.echo(1);
        server.totals().tcp_evicted == 2
    });
    wait_until("no bytes wait", || context.tcp.waiting() == 0);
    other.echo(2);
    drop(deaf);
    server.stop();
}

#[test]
fn clients_and_all_together_are_limited() {
    let context = Context::new(TcpLimits::new(6, 3, &TcpTimes::default()));
    let server = ScriptedServer::start_with("0.0.0.0:0", Transport::Tcp, &config(), &context);
    let connect = |from: &str| connect_from(&server, from);
    let mut first: Vec<_> = (0..3).map(|_| connect("127.0.0.1")).collect();
    for (id, client) in first.iter_mut().enumerate() {
        client.echo(id as u16);
    }
    connect("127.0.0.1").closed();
    assert_eq!(server.totals().tcp_refused_client, 1);
    let mut second: Vec<_> = (0..3).map(|_| connect("127.0.0.2")).collect();
    for (id, client) in second.iter_mut().enumerate() {
        client.echo(id as u16);
    }
    assert_eq!(context.tcp.current(), 6);
    // The longest idle one is evicted: not the first one accepted, which has just been used.
    std::thread::sleep(ms(5));
    first[0].echo(9);
    let mut third = connect("127.0.0.3");
    third.echo(1);
    first[1].closed();
    first[0].echo(10);
    // All are busy: there is no room for a new one.
    first.remove(1);
    for client in first.iter_mut().chain([&mut third]).chain(&mut second) {
        client.send(&[query(5, Order::Hold, 30)]);
    }
    wait_until("all queries", || server.held.lock().unwrap().len() == 6);
    let mut refused = connect("127.0.0.4");
    refused.closed();
    let totals = server.totals();
    assert_eq!((totals.tcp_evicted, totals.tcp_refused_full), (1, 1));
    for (promise, q) in server.held.lock().unwrap().drain(..) {
        promise.send(&q);
    }
    assert!(first[0].receive().is_some());
    drop((first, second, third, refused));
    wait_until("all gone", || context.tcp.current() == 0);
    let totals = server.stop();
    assert_eq!((totals.tcp_closed, totals.tcp_accepted), (7, 7));
}

#[test]
fn queries_in_flight_are_limited() {
    let server = ScriptedServer::start(
        "127.0.0.1:0",
        Transport::Tcp,
        &with(TcpConfig { max_in_flight: 2, ..TcpConfig::default() }),
    );
    let mut client = TcpClient::connect(server.addr());
    let queries: Vec<_> = (0..5).map(|id| query(id, Order::Hold, 30)).collect();
    client.send(&queries);
    for _ in 0..5 {
        wait_until("queries", || !server.held.lock().unwrap().is_empty());
        let mut held = server.held.lock().unwrap();
        assert!(held.len() <= 2);
        let (promise, q) = held.remove(0);
        drop(held);
        promise.send(&q);
        assert_eq!(client.receive(), Some(q));
    }
    assert_eq!(server.stop().pending, 5);
}

#[test]
fn what_was_received_is_answered_before_the_end() {
    let config = ListenerConfig { drain: ms(400), ..config() };
    let bound = Listener::bind("127.0.0.1:0".parse().unwrap(), Transport::Tcp, &config).unwrap();
    // Connected, but not accepted when the server is stopped.
    let mut clients: Vec<_> = (0..20).map(|_| TcpClient::connect(bound.local_addr())).collect();
    let queries: Vec<_> = (0..80).map(|id| query(id, Order::Echo, 100)).collect();
    for client in &mut clients {
        client.send(&queries);
    }
    clients[0].send(&[query(99, Order::Hold, 30)]);
    let server = ScriptedServer::serve(bound, &Context::default());
    server.running.stop();
    for client in &mut clients {
        for q in &queries {
            assert_eq!(client.receive(), Some(echoed(q)));
        }
    }
    let (promise, q) = server.held.lock().unwrap().pop().unwrap();
    promise.send(&q);
    assert_eq!(clients[0].receive(), Some(q));
    for client in &mut clients {
        client.closed();
    }
    assert_eq!(server.stop().tcp_stopped, 20);
}

#[test]
fn stopping_takes_no_longer_than_the_drain_time() {
    let server =
        ScriptedServer::start("127.0.0.1:0", Transport::Tcp, &ListenerConfig { drain: ms(200), ..config() });
    let mut endless = TcpClient::connect(server.addr());
    endless.send(&[query(1, Order::Stream(u32::MAX), 30)]);
    let mut waiting = TcpClient::connect(server.addr());
    waiting.send(&[query(1, Order::Hold, 30)]);
    wait_until("the query", || !server.held.lock().unwrap().is_empty());
    // One answer never ends, the other never comes.
    server.running.stop();
    wait_until("the end", || server.running.is_finished());
    assert_eq!(server.stop().tcp_stopped, 2);
}

#[test]
fn a_panic_costs_one_query() {
    let server = start();
    let mut client = TcpClient::connect(server.addr());
    let asks = [Order::Echo, Order::Panic, Order::Echo];
    let queries: Vec<_> = asks.iter().enumerate().map(|(id, &ask)| query(id as u16, ask, 30)).collect();
    client.send(&queries);
    for id in [0, 2] {
        assert_eq!(client.receive(), Some(echoed(&queries[id])));
    }
    assert_eq!(server.stop().dropped, 1);
}

#[test]
fn connections_spread_over_workers_and_sockets_of_others_serve() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = ListenerConfig { workers: 2, ..config() };
    let passed = ScriptedServer::serve(
        Listener::from_tcp(vec![listener], Transport::Tcp, &config).unwrap(),
        &Context::default(),
    );
    let own = ScriptedServer::start("127.0.0.1:0", Transport::Tcp, &config);
    for server in [passed, own] {
        let mut clients: Vec<_> = (0..40).map(|_| TcpClient::connect(server.addr())).collect();
        for client in &mut clients {
            client.echo(1);
        }
        assert_eq!(server.totals().tcp_accepted, 40);
        assert_eq!(server.running.stats().per_worker().count(), 2);
        server.stop();
    }
}

#[test]
fn connections_wait_in_a_passed_socket_for_the_next_server() {
    let passed = TcpListener::bind("127.0.0.1:0").unwrap();
    let serve = || {
        let config = ListenerConfig { drain: TEST_TIMEOUT, ..config() };
        let bound = Listener::from_tcp(vec![passed.try_clone().unwrap()], Transport::Tcp, &config).unwrap();
        assert_eq!(bound.passed(), Some(1));
        ScriptedServer::serve(bound, &Context::default())
    };
    let first = serve();
    let mut early = TcpClient::connect(first.addr());
    early.send(&[query(1, Order::Hold, 30)]);
    wait_until("the query", || !first.held.lock().unwrap().is_empty());
    first.running.stop();
    wait_until("the end of taking", || !first.running.is_taking());
    let mut late = TcpClient::connect(first.addr());
    let left = query(2, Order::Echo, 30);
    late.send(std::slice::from_ref(&left));
    let (promise, q) = first.held.lock().unwrap().pop().unwrap();
    promise.send(&q);
    assert_eq!(early.receive(), Some(q));
    early.closed();
    assert_eq!(first.stop().tcp_accepted, 1);
    let second = serve();
    assert_eq!(late.receive(), Some(echoed(&left)));
    assert_eq!(second.stop().tcp_accepted, 1);
}

#[test]
fn an_address_in_use_is_an_error_also_for_sharing_sockets() {
    let server = start();
    let error = Listener::bind(server.addr(), Transport::Tcp, &config()).err().unwrap();
    assert_eq!(error.fault, BindFault::AddressInUse);
    let mut client = TcpClient::connect(server.addr());
    client.echo(1);
    let addr = server.addr();
    server.stop();
    client.closed();
    // Connections in TIME_WAIT do not block the address.
    let again = Listener::bind(addr, Transport::Tcp, &config()).unwrap();
    assert_eq!(again.local_addr(), addr);
}

#[test]
fn the_idle_hook_runs() {
    let server = start();
    wait_until("the idle hook", || server.idles.load(Ordering::Relaxed) > 0);
    let mut rude = TcpClient::connect(server.addr());
    rude.0.write_all(&[0, 200, 1, 2]).unwrap();
    rude.0.shutdown(Shutdown::Write).unwrap();
    assert_eq!(rude.0.read(&mut [0; 10]).unwrap(), 0);
    assert_eq!(server.stop().tcp_closed_by_peer, 1);
}
