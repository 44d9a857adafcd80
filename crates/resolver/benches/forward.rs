//! The cost of a forwarded lookup. `cargo bench -p resolver`; `-- core` or `-- loopback` runs one of the two.
//!
//! `core` is the resolver alone, without sockets: request, query, reply, outcome. `loopback` is the resolver
//! driven by `net`, with a server on loopback that answers at once: the CPU time of the resolver's thread per
//! lookup, in the program and in the kernel, with 1, 64 and 512 lookups in flight. Instructions:
//! `valgrind --tool=callgrind` on the built benchmark with `--bench core 20000`.

use std::hint::black_box;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use net::{Outgoing, OutgoingConfig};
use resolver::{
    ChaCha, ClientPrefix, ForwardConfig, ForwardRule, LookupOutcome, LookupRequest, LookupSink, Partition,
    QueryKey, Resolver, ResolverRequest, Upstream,
};
use transport::{Action, Core, Event, Link};
use wire::{Class, NameBuf, Type};

/// The thread of the resolver.
const THREAD: &str = "bench-forward";

/// Counts outcomes. It wakes no thread, whose cost would not be the resolver's.
#[derive(Clone, Default)]
struct Outcomes(Arc<AtomicUsize>);

impl LookupSink for Outcomes {
    type Waiter = ();
    fn ended(&mut self, _: &QueryKey, outcome: &LookupOutcome, _: Instant) {
        black_box(outcome);
    }
    fn settle(&mut self, (): (), outcome: LookupOutcome, _: Instant) {
        assert!(matches!(outcome, LookupOutcome::Answered(_)), "a lookup failed");
        self.0.fetch_add(1, Relaxed);
    }
}

fn config(server: SocketAddr) -> ForwardConfig {
    let rules = vec![ForwardRule::new(NameBuf::ROOT, vec![Upstream::new(server)])];
    ForwardConfig { rules, ..Default::default() }
}

fn request(n: usize) -> ResolverRequest<()> {
    let name: NameBuf = format!("host{n}.some-domain.example.").parse().expect("a name");
    ResolverRequest::Lookup(LookupRequest {
        query_key: QueryKey {
            name: name.as_name().to_lower(),
            qtype: Type::A,
            qclass: Class::IN,
            dnssec_ok: false,
            checking_disabled: false,
            partition: Partition::SHARED,
        },
        recursion_desired: true,
        client: ClientPrefix::of([10, 0, n as u8, 1].into()),
        patience: None,
        other_than: None,
        budget: None,
        trace: None,
        waiter: (),
    })
}

/// Turns a query into a reply with one address, and OPT without a cookie. Returns its length.
fn reply(message: &mut [u8]) -> usize {
    let mut at = 12;
    while message[at] != 0 {
        at += 1 + usize::from(message[at]);
    }
    at += 5;
    message[2] |= 0x80;
    message[6..12].copy_from_slice(&[0, 1, 0, 0, 0, 1]);
    let answer = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 80];
    let opt = [0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 0];
    message[at..at + 16].copy_from_slice(&answer);
    message[at + 16..at + 27].copy_from_slice(&opt);
    at + 27
}

/// The resolver alone.
fn core(lookups: usize) {
    let mut core =
        Resolver::new(config(([192, 0, 2, 1], 53).into()), Outcomes::default(), ChaCha::new([1; 32]));
    let requests: Vec<_> = (0..lookups).map(request).collect();
    let (mut actions, mut sent): (_, Vec<(Link, Vec<u8>)>) = (Vec::new(), Vec::new());
    let start = Instant::now();
    // As many in flight as a batch of queries.
    let mut requests = requests.into_iter().peekable();
    while requests.peek().is_some() {
        for request in requests.by_ref().take(64) {
            core.request(request, start, &mut actions);
        }
        for action in actions.drain(..) {
            if let Action::Send { link, message } = action {
                sent.push((link, message));
            }
        }
        let mut buf = [0; 512];
        for (link, message) in sent.drain(..) {
            buf[..message.len()].copy_from_slice(&message);
            let len = reply(&mut buf);
            core.event(Event::Message { link, message: &buf[..len] }, start, &mut actions);
        }
        actions.clear();
    }
    let took = start.elapsed();
    assert_eq!(core.stats().answered.get(), lookups as u64);
    println!("core      {:7.0} ns for a lookup", took.as_nanos() as f64 / lookups as f64);
}

/// A server on loopback.
fn server() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let at = socket.local_addr().expect("bound");
    std::thread::spawn(move || {
        let mut buf = [0; 512];
        while let Ok((_, from)) = socket.recv_from(&mut buf) {
            let len = reply(&mut buf);
            let _ = socket.send_to(&buf[..len], from);
        }
    });
    at
}

/// The CPU time of the resolver's thread: in the program, in the kernel. The system counts in ticks of 10 ms.
fn cpu() -> (Duration, Duration) {
    let find = || {
        let tasks = std::fs::read_dir("/proc/self/task").expect("a process").flatten();
        let mut stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
        stats.find(|stat| stat.contains(THREAD))
    };
    // A new thread may not have its name yet.
    let stat = std::iter::repeat_with(find).find_map(|stat| stat).expect("found in the end");
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let mut times = fields.split_whitespace().skip(11).map(|ticks| ticks.parse().expect("ticks"));
    let mut next = || Duration::from_millis(10 * times.next().unwrap_or(0u64));
    (next(), next())
}

/// The resolver and its sockets, with `window` lookups in flight.
fn loopback(lookups: usize, window: usize) {
    let outcomes = Outcomes::default();
    let core = Resolver::new(config(server()), outcomes.clone(), ChaCha::new([1; 32]));
    let outgoing = Outgoing::start(THREAD, core, &OutgoingConfig::default()).expect("a thread");
    let (user, system) = cpu();
    let mut asked = 0;
    loop {
        let answered = outcomes.0.load(Relaxed);
        if answered >= lookups {
            break;
        }
        while asked < lookups && asked < answered + window {
            assert!(outgoing.request(request(asked)));
            asked += 1;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    let now = cpu();
    let each = |time: Duration| time.as_nanos() as f64 / 1000.0 / lookups as f64;
    let (user, system) = (each(now.0 - user), each(now.1 - system));
    println!("loopback  {user:5.2} µs user, {system:5.2} µs system for a lookup; {window:3} at a time");
    outgoing.stop();
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = args.iter().find_map(|arg| arg.parse().ok());
    let lookups = number.unwrap_or(if args.iter().any(|arg| arg == "--bench") { 200_000 } else { 100 });
    let wants = |name: &str| {
        let mut named = args.iter().filter(|arg| ["core", "loopback"].contains(&arg.as_str())).peekable();
        named.peek().is_none() || named.any(|arg| arg == name)
    };
    if wants("core") {
        core(lookups);
    }
    if wants("loopback") {
        [1, 64, 512].into_iter().for_each(|window| loopback(lookups, window));
    }
}
