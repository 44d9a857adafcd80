//! The thread with parental servers on loopback addresses, and its decisions alone.

use std::net::UdpSocket;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};

use query_path::{EngineConfig, Sources, Zones};
use testkit::{ModelRecord, build, key, name};
use wire::message::{Builder as MessageBuilder, Compressor, Header, Opcode, Owner, Parser, Section};
use wire::{Class, NameBuf, Ttl, Type};
use zone::catalog::{Catalog, Change};

use super::*;

const DS: &[u8] = &[0, 1, 8, 2, 0xab];
const HOUR: Duration = Duration::from_secs(3600);
/// Longer than any test takes: no outcome depends on it.
const LONG: Duration = Duration::from_secs(60);

fn apex(text: &str) -> ZoneName {
    name(text).as_name().into()
}

/// A server that sends what comes through its channel: `true` is a DS set for the zone of the query, `false`
/// a refusal. Returns its address, the channel, and the queries.
fn server() -> (SocketAddr, Sender<bool>, Receiver<Vec<u8>>) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = socket.local_addr().expect("bound");
    let (answers, to_send) = channel::<bool>();
    let (received, queries) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((len, client)) = socket.recv_from(&mut buffer) {
            let query = buffer[..len].to_vec();
            let _ = received.send(query.clone());
            let Ok(has_ds) = to_send.recv() else { return };
            socket.send_to(&response(&query, has_ds), client).expect("sent");
        }
    });
    (address, answers, queries)
}

/// A server that has the DS set of each zone.
fn ready_server() -> SocketAddr {
    let (address, answers, queries) = server();
    (0..100).for_each(|_| answers.send(true).expect("a server"));
    std::thread::spawn(move || while queries.recv().is_ok() {});
    address
}

fn response(query: &[u8], has_ds: bool) -> Vec<u8> {
    let (header, mut parser) = Parser::new(query).expect("a query");
    let question = parser.question().expect("a question");
    let (mut buffer, mut names) = ([0; 512], Compressor::small());
    let mut header = header.reply();
    header.set_rcode(if has_ds { wire::Rcode::NOERROR } else { wire::Rcode::REFUSED });
    let mut b = MessageBuilder::new(&mut buffer, 512, header, &mut names);
    b.question(question.name, question.qtype, Class::IN).expect("room");
    if has_ds && question.qtype == Type::DS {
        let owner = Owner::Name(question.name);
        b.record(Section::Answer, owner, Type::DS, Class::IN, Ttl::from_secs(300), DS).expect("room");
    }
    let len = b.finish();
    buffer[..len].to_vec()
}

/// Parents with the reports of their rounds.
fn parents(engine: Weak<Engine<Served>>) -> (Arc<Parents>, Receiver<(ZoneName, ParentReport)>) {
    let (reports, taken) = channel();
    let report = move |apex: &ZoneName, report| {
        assert!(apex != &self::apex("panics.example."), "a panic of the test");
        let _ = reports.send((apex.clone(), report));
    };
    let timing = ParentalTiming { timeout: LONG, ..ParentalTiming::default() };
    (Parents::timed(ParentalHosts::new(None), engine, report, timing), taken)
}

fn count(counter: &AtomicU64) -> u64 {
    counter.load(Relaxed)
}

#[test]
fn a_round_is_reported_stored_and_counted() {
    let (parents, reports) = parents(Weak::new());
    let (refusing, answers, _queries) = server();
    answers.send(false).expect("a server");
    let (zone, has_ds) = (apex("child.example."), ready_server());
    assert_eq!(parents.last(&zone), None);
    parents.watch(&zone, [has_ds, refusing].into(), HOUR);
    let (of, report) = reports.recv_timeout(LONG).expect("a report");
    assert_eq!((&of, parents.last(&zone)), (&zone, Some(report.clone())));
    let found: Vec<bool> = report.servers.iter().map(|answer| answer.found.is_ok()).collect();
    assert_eq!(found, [true, false]);
    let counts = parents.counts();
    let counted = [&counts.rounds, &counts.unknown, &counts.answers, &counts.faults].map(count);
    assert_eq!(counted, [1, 0, 1, 1]);
    parents.forget(&zone);
    assert_eq!(parents.last(&zone), None);
}

#[test]
fn a_watch_is_repeated_and_two_zones_are_independent() {
    let (parents, reports) = parents(Weak::new());
    let has_ds = ready_server();
    parents.watch(&apex("often.example."), [has_ds].into(), Duration::ZERO);
    parents.watch(&apex("panics.example."), [has_ds].into(), HOUR);
    parents.watch(&apex("once.example."), [has_ds].into(), HOUR);
    let mut often = 0;
    let mut once = 0;
    while often < 2 || once < 1 {
        let (of, _) = reports.recv_timeout(LONG).expect("a report");
        *(if of == apex("often.example.") { &mut often } else { &mut once }) += 1;
    }
    assert_eq!(once, 1);
}

#[test]
fn a_round_of_a_replaced_watch_is_not_reported() {
    let (parents, reports) = parents(Weak::new());
    let (slow, answers, queries) = server();
    let (zone, other) = (apex("child.example."), apex("other.example."));
    parents.watch(&zone, [slow].into(), HOUR);
    queries.recv_timeout(LONG).expect("the query of the first watch");
    let quick = ready_server();
    parents.watch(&zone, [quick].into(), HOUR);
    let (_, report) = reports.recv_timeout(LONG).expect("a report");
    assert_eq!(report.servers[0].server, quick.to_string());
    // The first round ends before that of the other zone, which the same server answers next.
    [true, true].iter().for_each(|answer| answers.send(*answer).expect("a server"));
    parents.watch(&other, [slow].into(), HOUR);
    assert_eq!(reports.recv_timeout(LONG).expect("a report").0, other);
    assert_eq!(parents.last(&zone), Some(report), "the report of the second watch");
}

#[test]
fn nothing_is_left_after_the_end() {
    let (parents, reports) = parents(Weak::new());
    let (silent, _answers, queries) = server();
    parents.watch(&apex("child.example."), [silent].into(), HOUR);
    queries.recv_timeout(LONG).expect("a query");
    drop(parents);
    assert_eq!(
        reports.recv_timeout(LONG),
        Err(RecvTimeoutError::Disconnected),
        "the thread keeps nothing, though a round is in progress"
    );
    let (parents, reports) = self::parents(Weak::new());
    parents.stop();
    parents.watch(&apex("child.example."), [ready_server()].into(), HOUR);
    drop(parents);
    assert_eq!(reports.recv_timeout(LONG), Err(RecvTimeoutError::Disconnected));
}

#[test]
fn notify_goes_to_the_target_of_the_parent_zone_here() {
    let (target, answers, queries) = server();
    [true, false].iter().for_each(|answer| answers.send(*answer).expect("a server"));
    let wire = |text: &str| name(text).as_name().as_wire().to_vec();
    let dsync = [&[0, 59, 1][..], &target.port().to_be_bytes(), &wire("target.parent.example.")].concat();
    let records = [
        ("parent.example.", Type::SOA, [wire("ns.test."), wire("host.test."), vec![0; 20]].concat()),
        ("parent.example.", Type::NS, wire("ns.test.")),
        ("_dsync.parent.example.", Type::DSYNC, dsync),
        ("target.parent.example.", Type::A, vec![127, 0, 0, 1]),
    ];
    let record = |(owner, rtype, rdata): &(&str, Type, Vec<u8>)| {
        let (owner, rtype, rdata): (NameBuf, _, _) = (name(owner), *rtype, rdata.clone());
        ModelRecord { owner, rtype, ttl: Ttl::from_secs(300), rdata }
    };
    let records: Vec<ModelRecord> = records.iter().map(record).collect();
    let zone = Arc::new(build(name("parent.example.").as_name(), &key(), &records));
    let catalog = Catalog::new(&key()).with([Change::Serve(zone)]).expect("a zone of the key");
    let zones = serving::frontend::serving(Zones::new(Arc::new(catalog)));
    let engine = Arc::new(Engine::new(zones, Sources::default(), EngineConfig::default()));
    let (parents, _reports) = parents(Arc::downgrade(&engine));
    parents.notify(&apex("child.parent.example."), Type::CDS);
    let query = queries.recv_timeout(LONG).expect("NOTIFY");
    let question = Parser::new(&query).expect("a message").1.question().expect("a question");
    assert_eq!((question.name.to_string().as_str(), question.qtype), ("child.parent.example.", Type::CDS));
    assert_eq!(Header::of(&query).map(|header| header.opcode()), Some(Opcode::NOTIFY));
    let counts = parents.counts();
    wait_for(|| count(&counts.notified) == 1);
    parents.notify(&apex("child.parent.example."), Type::CDS);
    queries.recv_timeout(LONG).expect("NOTIFY");
    wait_for(|| count(&counts.not_notified) == 1);
    assert_eq!(count(&counts.notified), 1);
}

/// Waits until a condition is met.
fn wait_for(is_met: impl Fn() -> bool) {
    let end = Instant::now() + LONG;
    while !is_met() {
        assert!(Instant::now() < end, "the condition is not met");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn watch(number: u64, due: Option<Instant>) -> ParentWatch {
    ParentWatch { number, servers: Arc::new([]), every: HOUR, due, last: None }
}

#[test]
fn what_is_due_for_the_longest_time_comes_first_and_the_number_is_bounded() {
    let now = Instant::now() + HOUR;
    let before = |seconds| Some(now - Duration::from_secs(seconds));
    let mut watches = Watches::default();
    watches.zones.insert(apex("a."), watch(1, before(1)));
    watches.zones.insert(apex("b."), watch(2, before(9)));
    watches.zones.insert(apex("c."), watch(3, Some(now + HOUR)));
    watches.zones.insert(apex("d."), watch(4, before(0)));
    watches.zones.insert(apex("e."), watch(5, None));
    watches.notify.insert((apex("n."), Type::CDS));
    let ask = |zone: &str, number| ParentWork::Ask(apex(zone), number, Arc::new([]));
    assert_eq!(watches.take_due(now, 2), [ParentWork::Notify(apex("n."), Type::CDS), ask("b.", 2)]);
    assert_eq!(watches.take_due(now, 0), []);
    assert_eq!(watches.take_due(now, 16), [ask("a.", 1), ask("d.", 4)]);
    assert_eq!(watches.take_due(now, 16), [], "none begins twice");
    assert_eq!(watches.next_due(), Some(now + HOUR));
}

#[test]
fn the_end_of_a_round_counts_for_its_own_watch_alone() {
    let now = Instant::now();
    let report = ParentReport { at: wire::UnixTime::EPOCH, parent: None, servers: Vec::new(), fault: None };
    let mut watches = Watches::default();
    watches.zones.insert(apex("a."), watch(2, None));
    assert!(!watches.end(&apex("a."), 1, Some(&report), now, 0), "of the watch before");
    assert!(!watches.end(&apex("b."), 2, Some(&report), now, 0), "of no watch");
    assert_eq!(watches.zones[&apex("a.")].due, None);
    assert!(watches.end(&apex("a."), 2, Some(&report), now, 0));
    let ended = &watches.zones[&apex("a.")];
    assert_eq!((ended.due, ended.last.as_ref()), (Some(now + HOUR * 9 / 10), Some(&report)));
    assert!(watches.end(&apex("a."), 2, None, now, 0));
    assert!(watches.zones[&apex("a.")].last.is_some(), "a round without a report leaves the last one");
}

#[test]
fn intervals_differ_by_a_tenth_at_most() {
    let of = |random| jittered(Duration::from_secs(1000), random);
    assert_eq!(of(0), Duration::from_secs(900));
    assert_eq!(of(u32::MAX), Duration::from_secs(1100));
    assert!(of(1 << 31).abs_diff(Duration::from_secs(1000)) < Duration::from_millis(1));
}
