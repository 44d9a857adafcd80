//! Datagrams: the same script with both back ends, over both families.

use std::collections::HashSet;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use net::{BindFault, Context, Listener, ListenerConfig, Spread, UdpBackend, UdpConfig, WorkerFaultKind};
use socket2::SockRef;
use transport::Transport;

use crate::script::*;

fn config(workers: usize, backend: UdpBackend) -> ListenerConfig {
    let idle_wake = Duration::from_millis(50);
    ListenerConfig {
        workers,
        udp: UdpConfig { backend, idle_wake, ..UdpConfig::default() },
        ..ListenerConfig::default()
    }
}

fn fast(workers: usize) -> ListenerConfig {
    config(workers, UdpBackend::Mmsg)
}

/// Every combination of back end and family.
fn everywhere(mut test: impl FnMut(ListenerConfig, &str)) {
    for backend in [UdpBackend::Mmsg, UdpBackend::Plain] {
        for addr in ["127.0.0.1:0", "[::1]:0"] {
            test(config(1, backend), addr);
        }
    }
}

#[test]
fn both_back_ends_answer_the_same() {
    let mut asks = Vec::new();
    for len in [17, 18, 40, 512, 1232, 4095, 4096] {
        asks.extend(
            [Order::Echo, Order::Drop, Order::Undecided, Order::Later, Order::Stream(3)]
                .map(|ask| (ask, len)),
        );
    }
    asks.extend(
        [
            Order::Large(1),
            Order::Large(12),
            Order::Large(4096),
            Order::Overlong,
            Order::Forget,
            Order::LaterOverlong,
        ]
        .map(|a| (a, 30)),
    );
    let mut results = Vec::new();
    everywhere(|config, addr| {
        let server = ScriptedServer::start(addr, Transport::Udp, &config);
        let client = udp_client(server.addr());
        let mut replies = HashSet::new();
        let mut expected = 0;
        for (id, (ask, len)) in asks.iter().enumerate() {
            client.send(&query(id as u16, *ask, *len)).unwrap();
            expected += usize::from(matches!(ask, Order::Echo | Order::Later | Order::Large(_)));
        }
        // Not queries: too short, too long, empty.
        client.send(&[1; 11]).unwrap();
        client.send(&[1; 4097]).unwrap();
        client.send(&[]).unwrap();
        for _ in 0..expected {
            replies.insert(receive(&client));
        }
        assert_eq!(replies.len(), expected);
        silent(&client);
        let totals = server.stop();
        assert_eq!((totals.runts, totals.too_long), (2, 1));
        assert_eq!((totals.dropped, totals.streams_refused, totals.bad_replies), (15, 7, 2));
        assert_eq!((totals.pending, totals.late_replies), (9, 7));
        assert_eq!(totals.replies, expected as u64);
        assert_eq!(totals.queries, asks.len() as u64);
        results.push(replies);
    });
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn replies_leave_from_the_address_asked() {
    // 127.0.0.2 is local, but never the default source address.
    for (bind, asked) in [("0.0.0.0:0", "127.0.0.2"), ("[::]:0", "::1")] {
        let server = ScriptedServer::start(bind, Transport::Udp, &fast(1));
        let asked = SocketAddr::new(asked.parse().unwrap(), server.addr().port());
        let client = udp_client(asked);
        for ask in [Order::Echo, Order::Later] {
            let q = query(7, ask, 30);
            client.send(&q).unwrap();
            assert_eq!(receive(&client), echoed(&q));
        }
        client.send(&query(8, Order::Hold, 30)).unwrap();
        let (promise, q) = server.next_held();
        assert_eq!(promise.client().local, asked);
        assert_eq!(promise.client().peer.port(), client.local_addr().unwrap().port());
        promise.send(&q);
        assert_eq!(receive(&client), q);
        server.stop();
    }
}

#[test]
fn full_batches_come_back_whole() {
    let bound = Listener::bind("127.0.0.1:0".parse().unwrap(), Transport::Udp, &fast(1)).unwrap();
    let client = udp_client(bound.local_addr());
    // Sent before the server starts, so that few calls receive them.
    let queries: Vec<_> = (0..200).map(|id| query(id, Order::Echo, 20 + usize::from(id))).collect();
    for q in &queries {
        client.send(q).unwrap();
    }
    let server = ScriptedServer::serve(bound, &Context::default());
    let replies: Vec<_> = queries.iter().map(|_| receive(&client)).collect();
    assert_eq!(replies, queries.iter().map(|q| echoed(q)).collect::<Vec<_>>());
    let totals = server.stop();
    assert_eq!((totals.queries, totals.batches), (200, 4));
    let bytes: usize = queries.iter().map(Vec::len).sum();
    assert_eq!((totals.bytes_in, totals.bytes_out), (bytes as u64, bytes as u64));
}

#[test]
fn one_client_meets_every_worker_or_just_one() {
    for (spread, all) in [(Spread::Random, true), (Spread::Hash, false)] {
        let server =
            ScriptedServer::start("127.0.0.1:0", Transport::Udp, &ListenerConfig { spread, ..fast(4) });
        let client = udp_client(server.addr());
        for id in 0..400 {
            client.send(&query(id, Order::Echo, 30)).unwrap();
            receive(&client);
        }
        let busy = server.running.stats().per_worker().filter(|totals| totals.queries > 0).count();
        assert_eq!(busy, if all { 4 } else { 1 }, "{spread:?}");
        server.stop();
    }
}

#[test]
fn spread_by_cpu_serves() {
    let config = ListenerConfig { spread: Spread::Cpu, pin_cpus: true, ..fast(2) };
    let server = ScriptedServer::start("127.0.0.1:0", Transport::Udp, &config);
    let client = udp_client(server.addr());
    for id in 0..20 {
        client.send(&query(id, Order::Echo, 30)).unwrap();
        receive(&client);
    }
    assert_eq!(server.stop().replies, 20);
}

#[test]
fn what_was_received_is_answered_before_the_end() {
    everywhere(|config, addr| {
        let bound = Listener::bind(addr.parse().unwrap(), Transport::Udp, &config).unwrap();
        let client = udp_client(bound.local_addr());
        for id in 0..150 {
            client.send(&query(id, Order::Echo, 30)).unwrap();
        }
        let server = ScriptedServer::serve(bound, &Context::default());
        assert_eq!(server.stop().replies, 150);
        for _ in 0..150 {
            receive(&client);
        }
    });
}

#[test]
fn stopping_takes_no_longer_than_the_drain_time_under_load() {
    let config = ListenerConfig { drain: Duration::from_millis(100), ..fast(1) };
    let server = ScriptedServer::start("127.0.0.1:0", Transport::Udp, &config);
    let client = udp_client(server.addr());
    let stopped = Arc::new(AtomicUsize::new(0));
    let flag = Arc::clone(&stopped);
    let load = std::thread::spawn(move || {
        let q = query(1, Order::Drop, 30);
        while flag.load(Ordering::Relaxed) == 0 {
            let _ = client.send(&q);
        }
    });
    server.wait_for("load", |totals| totals.queries > 100);
    server.running.stop();
    // While the load goes on: the queue never runs dry.
    wait_until("the end", || server.running.is_finished());
    stopped.store(1, Ordering::Relaxed);
    load.join().unwrap();
}

#[test]
fn a_reply_the_system_refuses_does_not_cost_the_others() {
    let mut config = fast(1);
    config.udp.max_reply = 70_000;
    let bound = Listener::bind("127.0.0.1:0".parse().unwrap(), Transport::Udp, &config).unwrap();
    let client = udp_client(bound.local_addr());
    let mut expected = HashSet::new();
    for id in 0..60 {
        // No UDP datagram over IPv4 holds more than 65,507 bytes.
        let ask = if id % 3 == 0 { Order::Large(66_000) } else { Order::Echo };
        let q = query(id, ask, 30);
        client.send(&q).unwrap();
        if id % 3 != 0 {
            expected.insert(echoed(&q));
        }
    }
    let server = ScriptedServer::serve(bound, &Context::default());
    let replies: HashSet<_> = (0..40).map(|_| receive(&client)).collect();
    assert_eq!(replies, expected);
    let totals = server.stop();
    assert_eq!((totals.replies, totals.send_too_big, totals.batches), (40, 20, 1));
}

/// Sends queries of two lengths before the server starts, so that they make deep batches. Returns the replies
/// of each of two clients, and the counters.
fn deep_batches(socket: UdpSocket) -> (Vec<Vec<Vec<u8>>>, net::Totals) {
    let bound = Listener::from_udp(vec![socket], &fast(1)).unwrap();
    let clients = [(); 2].map(|()| udp_client(bound.local_addr()));
    let queries: Vec<_> = (0..160).map(|id| query(id, Order::Echo, 30 + usize::from(id % 2))).collect();
    for (i, q) in queries.iter().enumerate() {
        clients[i / 3 % 2].send(q).unwrap();
    }
    let server = ScriptedServer::serve(bound, &Context::default());
    let mut replies = Vec::new();
    for (k, client) in clients.iter().enumerate() {
        let own = queries.iter().enumerate().filter(|(i, _)| i / 3 % 2 == k);
        let expected: HashSet<_> = own.map(|(_, q)| echoed(q)).collect();
        let mut came: Vec<_> = (0..expected.len()).map(|_| receive(client)).collect();
        assert_eq!(came.iter().cloned().collect::<HashSet<_>>(), expected);
        came.sort();
        replies.push(came);
    }
    let totals = server.stop();
    let bytes: usize = queries.iter().map(Vec::len).sum();
    assert_eq!((totals.replies, totals.bytes_out), (160, bytes as u64));
    (replies, totals)
}

#[test]
fn equally_long_replies_leave_together() {
    for addr in ["127.0.0.1:0", "[::1]:0"] {
        let (joined, totals) = deep_batches(UdpSocket::bind(addr).unwrap());
        // All, unless two groups had the same place in the table.
        assert!(totals.joined > 80, "{}", totals.joined);
        if addr.starts_with('[') {
            continue;
        }
        // The kernel supports no groups on a socket that writes no checksums.
        let socket = UdpSocket::bind(addr).unwrap();
        let one: libc::c_int = 1;
        let len = size_of_val(&one) as libc::socklen_t;
        let value = (&raw const one).cast();
        // SAFETY: a live number and its length.
        let rc =
            unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, value, len) };
        assert_eq!(rc, 0);
        let (alone, totals) = deep_batches(socket);
        assert_eq!((totals.joined, totals.send_other), (0, 0));
        assert_eq!(joined, alone);
    }
    // From the destination address, also when the kernel selects it.
    let (_, totals) = deep_batches(UdpSocket::bind("0.0.0.0:0").unwrap());
    assert!(totals.joined > 80, "{}", totals.joined);
}

#[test]
fn what_a_passed_socket_holds_is_for_the_next_server() {
    for backend in [UdpBackend::Mmsg, UdpBackend::Plain] {
        let passed = UdpSocket::bind("127.0.0.1:0").unwrap();
        let serve = || {
            let sockets = vec![passed.try_clone().unwrap()];
            let config = ListenerConfig { drain: TEST_TIMEOUT, ..config(1, backend) };
            let bound = Listener::from_udp(sockets, &config).unwrap();
            assert_eq!(bound.passed(), Some(1));
            ScriptedServer::serve(bound, &Context::default())
        };
        let first = serve();
        let client = udp_client(first.addr());
        let (held, left) = (query(1, Order::Hold, 30), query(2, Order::Echo, 30));
        client.send(&held).unwrap();
        wait_until("the query", || !first.held.lock().unwrap().is_empty());
        assert!(first.running.is_taking());
        first.running.stop();
        wait_until("the end of taking", || !first.running.is_taking());
        client.send(&left).unwrap();
        let (promise, q) = first.held.lock().unwrap().pop().unwrap();
        promise.send(&q);
        assert_eq!(receive(&client), held);
        assert_eq!(first.stop().queries, 1);
        let second = serve();
        assert_eq!(receive(&client), echoed(&left));
        assert_eq!(second.stop().queries, 1);
    }
}

#[test]
fn a_vanished_client_does_not_disturb_the_others() {
    let server = ScriptedServer::start("127.0.0.1:0", Transport::Udp, &fast(1));
    let client = udp_client(server.addr());
    for round in 0..50 {
        // The reply to this one reaches a closed port.
        let gone = udp_client(server.addr());
        gone.send(&query(round, Order::Hold, 30)).unwrap();
        wait_until("the query", || !server.held.lock().unwrap().is_empty());
        drop(gone);
        let (promise, q) = server.held.lock().unwrap().pop().unwrap();
        promise.send(&q);
        let q = query(round, Order::Echo, 30);
        client.send(&q).unwrap();
        assert_eq!(receive(&client), echoed(&q));
    }
    assert_eq!(server.stop().rebinds, 0);
}

#[test]
fn a_panic_costs_one_query() {
    let bound = Listener::bind("127.0.0.1:0".parse().unwrap(), Transport::Udp, &fast(1)).unwrap();
    let client = udp_client(bound.local_addr());
    let asks = |id| if id % 5 == 2 { Order::Panic } else { Order::Echo };
    for id in 0..50 {
        client.send(&query(id, asks(id), 30)).unwrap();
    }
    let (panics, suspects) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (seen, found, from) = (Arc::clone(&panics), Arc::clone(&suspects), client.local_addr().unwrap());
    let context = Context::default().on_fault(move |fault| match &fault.kind {
        WorkerFaultKind::HandlerPanicked => drop(seen.fetch_add(1, Ordering::Relaxed)),
        WorkerFaultKind::QueryPanicked(suspect) => {
            assert_eq!(suspect.client.peer, from);
            found.lock().unwrap().push(suspect.message.clone());
        }
        other => panic!("{other:?}"),
    });
    let server = ScriptedServer::serve(bound, &context);
    let replies: HashSet<_> = (0..40).map(|_| receive(&client)).collect();
    assert_eq!(replies.len(), 40);
    silent(&client);
    let totals = server.stop();
    assert_eq!(totals.replies, 40);
    // Once in the batch, and once each alone.
    assert_eq!((totals.panics, panics.load(Ordering::Relaxed)), (11, 11));
    // Each is reported with its message, and no other.
    let expected: Vec<_> = (0..50).filter(|id| id % 5 == 2).map(|id| query(id, Order::Panic, 30)).collect();
    assert_eq!(*suspects.lock().unwrap(), expected);
}

/// Returns the descriptor of this process's only socket that is bound to this address.
fn descriptor_at(addr: SocketAddr) -> RawFd {
    let is_there = |fd: &RawFd| {
        // SAFETY: only inspected, not kept; for a number that is no socket, or no longer one, the system
        // returns an error.
        let socket = unsafe { BorrowedFd::borrow_raw(*fd) };
        SockRef::from(&socket).local_addr().is_ok_and(|at| at.as_socket() == Some(addr))
    };
    (3..4096).find(is_there).unwrap()
}

/// A server of one socket that fails. Returns its reports and counters.
fn failing(bound: net::Bound) -> (Vec<String>, net::Totals) {
    let faults = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&faults);
    let context = Context::default().on_fault(move |fault| seen.lock().unwrap().push(fault.to_string()));
    let fd = descriptor_at(bound.local_addr());
    let server = ScriptedServer::serve(bound, &context);
    wait_until("the worker", || server.running.is_taking());
    let null = std::fs::File::open("/dev/null").unwrap();
    // SAFETY: puts another open file behind the worker's descriptor, which the worker still owns and closes.
    assert_eq!(unsafe { libc::dup2(null.as_raw_fd(), fd) }, fd);
    wait_until("a fault", || !faults.lock().unwrap().is_empty());
    let client = udp_client(server.addr());
    let q = query(1, Order::Echo, 30);
    // No socket receives before there is a new one.
    client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    wait_until("a reply", || client.send(&q).is_ok() && client.recv(&mut [0; 64]).is_ok());
    let totals = server.stop();
    assert_eq!(totals.receive_errors, 9);
    let faults = faults.lock().unwrap().clone();
    (faults, totals)
}

#[test]
fn a_socket_that_fails_is_made_anew() {
    let bound = Listener::bind("127.0.0.1:0".parse().unwrap(), Transport::Udp, &fast(1)).unwrap();
    let (faults, totals) = failing(bound);
    assert_eq!(totals.rebinds, 1);
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(faults[0].contains("failed") && faults[1].contains("again"), "{faults:?}");
}

#[test]
fn a_passed_socket_that_fails_is_kept() {
    let passed = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (faults, totals) = failing(Listener::from_udp(vec![passed], &fast(1)).unwrap());
    assert_eq!(totals.rebinds, 0);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].contains("it is tried again"), "{faults:?}");
}

#[test]
fn sockets_of_others_are_served_by_all_workers() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server =
        ScriptedServer::serve(Listener::from_udp(vec![socket], &fast(3)).unwrap(), &Context::default());
    assert_eq!(server.running.stats().per_worker().count(), 3);
    let client = udp_client(server.addr());
    for id in 0..30 {
        client.send(&query(id, Order::Echo, 30)).unwrap();
        receive(&client);
    }
    assert_eq!(server.stop().replies, 30);
    assert_eq!(Listener::from_udp(vec![], &fast(1)).err().map(|e| e.fault), Some(BindFault::Sockets));
    let two = ["127.0.0.1:0", "127.0.0.1:0"].map(|addr| UdpSocket::bind(addr).unwrap());
    assert_eq!(Listener::from_udp(two.into(), &fast(1)).err().map(|e| e.fault), Some(BindFault::Sockets));
}

#[test]
fn idle_workers_say_so() {
    everywhere(|config, addr| {
        let server = ScriptedServer::start(addr, Transport::Udp, &config);
        wait_until("the idle hook", || server.idles.load(Ordering::Relaxed) > 1);
        server.stop();
    });
}

#[test]
fn bind_errors_say_what_is_wrong() {
    let server = ScriptedServer::start("127.0.0.1:0", Transport::Udp, &fast(2));
    let bind = |addr: SocketAddr, config: &ListenerConfig| Listener::bind(addr, Transport::Udp, config);
    let error = bind(server.addr(), &fast(2)).err().unwrap();
    assert_eq!(error.fault, BindFault::AddressInUse);
    assert_eq!(
        error.to_string(),
        format!(
            "cannot listen on udp {}: another socket already listens on this address and port",
            server.addr()
        )
    );
    assert!(bind(server.addr(), &ListenerConfig { share_port: true, ..fast(2) }).is_ok());
    let nowhere = "192.0.2.1:0".parse().unwrap();
    assert_eq!(bind(nowhere, &fast(1)).err().unwrap().fault, BindFault::NoSuchAddress);
    assert!(bind(nowhere, &ListenerConfig { freebind: true, ..fast(1) }).is_ok());
    let denied = net::BindError {
        addr: "0.0.0.0:53".parse().unwrap(),
        transport: Transport::Udp,
        fault: BindFault::PermissionDenied,
        cause: std::io::ErrorKind::PermissionDenied.into(),
    };
    assert_eq!(
        denied.to_string(),
        "cannot listen on udp 0.0.0.0:53: permission denied: ports below 1024 need root or CAP_NET_BIND_SERVICE"
    );
}

#[test]
fn handing_over_to_another_listener_loses_nothing() {
    for spread in [Spread::Random, Spread::Hash] {
        let mut config = ListenerConfig { share_port: true, spread, ..fast(2) };
        config.udp.idle_wake = Duration::from_millis(5);
        let mut server = ScriptedServer::start("127.0.0.1:0", Transport::Udp, &config);
        let client = udp_client(server.addr());
        client.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let stopped = Arc::new(AtomicUsize::new(0));
        let flag = Arc::clone(&stopped);
        let load = std::thread::spawn(move || {
            let mut asked = 0;
            while flag.load(Ordering::Relaxed) == 0 {
                // Enough at once that some are always in transit.
                for id in 0..150 {
                    client.send(&query(id, Order::Echo, 30)).unwrap();
                }
                for _ in 0..150 {
                    receive(&client);
                }
                asked += 150;
            }
            asked
        });
        let mut answered = 0;
        for _ in 0..20 {
            let bound = Listener::bind(server.addr(), Transport::Udp, &config).unwrap();
            answered += server.stop().replies;
            server = ScriptedServer::serve(bound, &Context::default());
            server.wait_for("queries", |totals| totals.queries > 500);
        }
        if spread == Spread::Random {
            // The old listener, when it stopped, did not undo the new one's spread.
            let busy = server.running.stats().per_worker().filter(|totals| totals.queries > 0).count();
            assert_eq!(busy, 2);
        }
        stopped.store(1, Ordering::Relaxed);
        let asked = load.join().unwrap();
        assert_eq!(answered + server.stop().replies, asked);
    }
}

#[test]
fn stopping_waits_for_answers_promised() {
    everywhere(|mut config, addr| {
        // Far longer than any wait here.
        config.drain = 10 * TEST_TIMEOUT;
        let server = ScriptedServer::start(addr, Transport::Udp, &config);
        let client = udp_client(server.addr());
        let q = query(1, Order::Hold, 30);
        client.send(&q).unwrap();
        wait_until("the query", || !server.held.lock().unwrap().is_empty());
        server.running.stop();
        std::thread::sleep(2 * config.udp.idle_wake);
        assert!(!server.running.is_finished());
        let (promise, q) = server.held.lock().unwrap().pop().unwrap();
        promise.send(&q);
        assert_eq!(receive(&client), q);
        wait_until("the end, before the drain time is over", || server.running.is_finished());
        server.stop();
    });
}

#[test]
fn late_answers_wake_a_worker_that_would_sleep_for_a_minute() {
    everywhere(|mut config, addr| {
        config.udp.idle_wake = Duration::from_secs(60);
        config.drain = Duration::ZERO;
        let server = ScriptedServer::start(addr, Transport::Udp, &config);
        let client = udp_client(server.addr());
        let queries: Vec<_> = (0..100).map(|id| query(id, Order::Hold, 30)).collect();
        for q in &queries {
            client.send(q).unwrap();
        }
        wait_until("the queries", || server.held.lock().unwrap().len() == queries.len());
        for (promise, q) in server.held.lock().unwrap().drain(..) {
            promise.send(&q);
        }
        let replies: HashSet<_> = queries.iter().map(|_| receive(&client)).collect();
        assert_eq!(replies, queries.into_iter().collect());
        server.wait_for("the count", |totals| totals.late_replies == 100);
        server.running.stop();
        // One more query lets the worker check that it should stop.
        client.send(&query(1, Order::Drop, 30)).unwrap();
        wait_until("the end", || server.running.is_finished());
    });
}

#[test]
fn a_panic_costs_no_answer_that_is_due_later() {
    everywhere(|config, addr| {
        let server = ScriptedServer::start(addr, Transport::Udp, &config);
        let client = udp_client(server.addr());
        let held = query(1, Order::Hold, 30);
        client.send(&held).unwrap();
        client.send(&query(2, Order::Panic, 30)).unwrap();
        server.wait_for("the panic", |totals| totals.panics > 0);
        let (promise, q) = server.next_held();
        promise.send(&q);
        assert_eq!(receive(&client), held);
        server.stop();
    });
}

/// Returns a header of 192.0.2.`client` port 1000, to 198.51.100.53 port 53, and a message behind it.
fn behind_header(client: u8, message: &[u8]) -> Vec<u8> {
    let ends = [192, 0, 2, client, 198, 51, 100, 53, 0x03, 0xe8, 0, 53];
    [&b"\r\n\r\n\0\r\nQUIT\n\x21\x12\0\x0c"[..], &ends, message].concat()
}

#[test]
fn a_proxy_receives_the_replies_for_the_clients_that_it_names() {
    everywhere(|config, addr| {
        let bound = Listener::bind(addr.parse().unwrap(), Transport::Udp, &config).unwrap();
        let context = Context::default();
        let proxies = context.proxies.clone();
        let [client, other] = [(); 2].map(|()| udp_client(bound.local_addr()));
        proxies.set([(client.local_addr().unwrap().ip(), 32)], 512);
        // Sent before the server starts, so that they are in one batch if the back end has any. Equally
        // long replies to one client leave together, but not those that two proxies named it for. After a
        // panic the handler gets each query again alone, with its client and its way back.
        client.send(&behind_header(9, &query(30, Order::Panic, 30))).unwrap();
        let orders = [Order::Echo, Order::Later, Order::Large(40)];
        let queries: Vec<_> = (0..12).map(|id| query(id, orders[usize::from(id % 3)], 30)).collect();
        for (id, q) in queries.iter().enumerate() {
            for proxy in [&client, &other] {
                proxy.send(&behind_header(id as u8 % 2, q)).unwrap();
                proxy.send(q).unwrap();
            }
        }
        let server = ScriptedServer::serve(bound, &context);
        for proxy in [&client, &other] {
            let replies: HashSet<_> = queries.iter().map(|_| receive(proxy)[..2].to_vec()).collect();
            assert_eq!(replies.len(), queries.len());
        }
        for (id, ask) in [(31, Order::Later), (32, Order::Hold)] {
            client.send(&behind_header(9, &query(id, ask, 30))).unwrap();
        }
        assert_eq!(receive(&client)[..2], [0, 31]);
        wait_until("the query", || !server.held.lock().unwrap().is_empty());
        let (promise, _) = server.held.lock().unwrap().pop().unwrap();
        let waiting = promise.client();
        assert_eq!((waiting.peer.to_string(), waiting.local.to_string()), named(9));
        promise.send(&[7; 20]);
        assert_eq!(receive(&client), [7; 20]);
        // Without proxies nothing is parsed, from the next datagram on.
        proxies.set([], 512);
        let plain = query(40, Order::Echo, 30);
        client.send(&plain).unwrap();
        assert_eq!(receive(&client), echoed(&plain));
        silent(&client);
        silent(&other);
        let totals = server.stop();
        assert_eq!((totals.proxy_missing, totals.proxy_malformed, totals.runts), (24, 0, 0));
        assert_eq!((totals.queries, totals.late_replies), (28, 10));
    });
}

fn named(client: u8) -> (String, String) {
    (format!("192.0.2.{client}:1000"), "198.51.100.53:53".to_owned())
}
