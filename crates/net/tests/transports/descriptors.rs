//! A server that runs out of file descriptors, in a process of its own.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use net::{Context, ListenerConfig, TcpLimits, TcpTimes};
use transport::Transport;

use crate::script::*;

const ROLE: &str = "NET_TEST_FEW_DESCRIPTORS";

/// Processor time this process has used.
fn processor_time() -> Duration {
    // SAFETY: an all-zero `rusage` is a value, and the call fills a live one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let of = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    of(usage.ru_utime) + of(usage.ru_stime)
}

/// The server's part. Does nothing unless run by the test below.
#[test]
fn server_with_few_descriptors() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let limit = libc::rlimit { rlim_cur: 40, rlim_max: 40 };
    // SAFETY: reads a live `rlimit`.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    let times = TcpTimes { first_message: Duration::from_secs(60), ..TcpTimes::default() };
    let config = ListenerConfig { workers: 1, ..ListenerConfig::default() };
    let context =
        Context::new(TcpLimits::new(10_000, 100, &times)).on_fault(|fault| println!("FAULT {fault}"));
    let server = ScriptedServer::start_with("127.0.0.1:0", Transport::Tcp, &config, &context);
    println!("\nADDR {}", server.addr());
    // Each line releases the held queries; the end of standard input ends the server.
    for _ in std::io::stdin().lines() {
        server.held.lock().unwrap().clear();
    }
    let busy = processor_time();
    println!("REFUSED {}", server.totals().tcp_refused_descriptors);
    println!("EVICTED {}", server.totals().tcp_evicted);
    println!("MILLIS {}", busy.as_millis());
    server.stop();
}

#[test]
fn running_out_of_descriptors_neither_crashes_nor_spins() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "descriptors::server_with_few_descriptors", "--nocapture"])
        .env(ROLE, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let addr = lines.find_map(|line| line.strip_prefix("ADDR ").map(str::to_owned)).expect("an address");
    let addr: SocketAddr = addr.parse().unwrap();

    // More idle connections than there are descriptors: each new one evicts the longest idle one.
    let mut idle: Vec<_> = (0..60).map(|_| TcpClient::connect(addr)).collect();
    for client in idle.iter_mut().skip(40) {
        client.echo(1);
    }
    // All descriptors are busy: new connections are refused meanwhile, without harm.
    let holding = framed(&[query(1, Order::Hold, 30), query(2, Order::Echo, 30)]);
    let mut busy = Vec::new();
    loop {
        let mut client = TcpClient::connect(addr);
        if client.0.write_all(&holding).is_err() || client.receive().is_none() {
            break;
        }
        busy.push(client);
        assert!(busy.len() < 40, "more connections than descriptors");
    }
    TcpClient::connect(addr).closed();
    for client in &mut busy {
        client.echo(3);
    }
    std::thread::sleep(Duration::from_millis(300));
    // Once connections are closed, all clients are served again.
    drop((idle, busy));
    let mut orders = child.stdin.take().unwrap();
    orders.write_all(b"release\n").unwrap();
    let q = query(7, Order::Echo, 40);
    wait_until("service", || {
        let mut client = TcpClient::connect(addr);
        client.0.write_all(&framed(std::slice::from_ref(&q))).is_ok() && client.receive().is_some()
    });

    drop(orders);
    let rest: Vec<String> = lines.collect();
    assert!(child.wait().unwrap().success(), "{rest:?}");
    let number = |name: &str| -> u64 {
        rest.iter().find_map(|line| line.strip_prefix(name)).expect(name).trim().parse().unwrap()
    };
    let faults = rest.iter().filter(|line| line.starts_with("FAULT"));
    assert!(faults.clone().all(|line| line.contains("no file descriptor")), "{rest:?}");
    assert_eq!(faults.count(), 1, "one shortage is reported once");
    assert!(number("EVICTED") > 10 && number("REFUSED") > 0, "{rest:?}");
    assert!(number("MILLIS") < 400, "{rest:?}");
    let _ = std::io::stdout().flush();
}
