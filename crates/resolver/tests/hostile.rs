//! Servers that lie, break and die, off-path attackers, and many clients at once.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use resolver::{ForwardConfig, ForwardRule, LookupOutcome, Upstream};
use transport::{Event, Link, Transport};
use wire::NameBuf;
use wire::message::Header;

mod world;
use world::World;

const TEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The address in every good answer, and the one in every forged answer.
const GOOD: [u8; 4] = [192, 0, 2, 80];
const FORGED: [u8; 4] = [203, 0, 113, 66];

/// A server's reaction to a query.
#[derive(Clone)]
enum Reaction {
    Reply(Vec<u8>),
    Break(ErrorKind),
}
use Reaction::{Break, Reply};

/// Takes the server, the transport, the time and the query; returns the reactions, each after a number of
/// milliseconds.
type Behaviour = Box<dyn FnMut(u8, Transport, Instant, &[u8]) -> Vec<(u64, Reaction)>>;

/// A world with servers in it.
struct Servers {
    world: World,
    behaviour: Behaviour,
    seen: usize,
    due: Vec<(Instant, Link, Reaction)>,
}

impl Servers {
    fn new(count: u8, behaviour: Behaviour) -> Self {
        Servers { world: World::new(config(count), 1), behaviour, seen: 0, due: Vec::new() }
    }

    /// Advances the time in steps of 5 ms.
    fn run(&mut self, time: Duration) {
        let end = self.world.now + time;
        while self.world.now < end {
            self.receive();
            let now = self.world.now;
            let (due, later) = std::mem::take(&mut self.due).into_iter().partition(|(at, ..)| *at <= now);
            self.due = later;
            let due: Vec<_> = due;
            for (_, link, reaction) in due {
                match reaction {
                    Reply(message) if self.world.open.contains_key(&link) => {
                        self.world.event(Event::Message { link, message: &message });
                    }
                    Break(error) if self.world.open.remove(&link).is_some() => {
                        self.world.event(Event::Ended { link, error });
                    }
                    _ => {}
                }
                self.receive();
            }
            self.world.wait(Duration::from_millis(5));
        }
    }

    /// Delivers queries to the servers. Connections open at once.
    fn receive(&mut self) {
        while let Some((link, query)) = self.world.queries.get(self.seen).cloned() {
            self.seen += 1;
            let Some(&(to, transport)) = self.world.open.get(&link) else { continue };
            if transport.is_stream() {
                self.world.event(Event::Opened { link });
            }
            let SocketAddr::V4(to) = to else { panic!("{to}") };
            let now = self.world.now;
            for (after, reaction) in (self.behaviour)(to.ip().octets()[3], transport, now, &query) {
                self.due.push((now + Duration::from_millis(after), link, reaction));
            }
        }
    }

    /// Returns the outcomes since the last call: client, and whether the answer is the good one.
    fn outcomes(&mut self) -> Vec<(usize, bool)> {
        let outcomes = std::mem::take(&mut *self.world.outcomes.0.lock().expect("one thread"));
        outcomes.into_iter().map(|(client, outcome)| (client, is_good(&outcome))).collect()
    }

    fn assert_nothing_left(&mut self) {
        self.run(Duration::from_secs(30));
        assert!(self.world.core.is_idle() && self.world.open.is_empty());
    }
}

fn config(servers: u8) -> ForwardConfig {
    let upstreams = (1..=servers).map(|n| Upstream::new(([192, 0, 2, n], 53).into())).collect();
    let rules = vec![ForwardRule::new(NameBuf::ROOT, upstreams)];
    ForwardConfig { rules, explore: 0, ..Default::default() }
}

fn is_good(outcome: &LookupOutcome) -> bool {
    let LookupOutcome::Answered(answer) = outcome else { return false };
    assert!(!answer.message.windows(4).any(|four| four == FORGED), "a forged answer");
    answer.message.ends_with(&GOOD)
}

/// Returns the end of the question.
fn question_end(query: &[u8]) -> usize {
    let mut at = 12;
    while query[at] != 0 {
        at += 1 + usize::from(query[at]);
    }
    at + 5
}

/// A reply with one address, without OPT.
fn answer(query: &[u8], address: [u8; 4]) -> Vec<u8> {
    let mut reply = query[..question_end(query)].to_vec();
    reply[2] |= 0x80;
    reply[6..12].copy_from_slice(&[0, 1, 0, 0, 0, 0]);
    reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
    reply.extend(address);
    reply
}

fn good(query: &[u8]) -> Reaction {
    Reply(answer(query, GOOD))
}

/// Makes a malformed reply, of one of 22 kinds. The record begins at `at`.
fn malformed(kind: usize, query: &[u8]) -> Vec<u8> {
    let (mut reply, at) = (answer(query, GOOD), question_end(query));
    let rdata = |reply: &mut Vec<u8>, rtype: u8, data: &[u8]| {
        reply.truncate(at + 10);
        reply[at + 3] = rtype;
        reply.extend([0, data.len() as u8]);
        reply.extend(data);
    };
    match kind {
        0 => reply.clear(),
        1 => reply.truncate(11),
        2 => reply.truncate(12),
        3 => reply.truncate(at - 3),
        4 => reply.truncate(at + 1),
        5 => reply.truncate(at + 11),
        6 => reply.truncate(at + 14),
        7 => reply[at + 11] = 200,
        8 => {
            reply[at + 11] = 3;
            reply.pop();
        }
        9 => reply[at + 1] = at as u8,
        10 => reply[at + 1] = at as u8 + 20,
        11 => reply[at] = 0x40,
        12 => reply[5] = 0,
        13 => reply[5] = 2,
        14 => reply[6..8].fill(0xff),
        15 => reply[9] = 1,
        16 => reply[2] &= 0x7f,
        17 => reply[2] |= 0x28,
        // OPT with an option that is longer than OPT, and is cut off.
        18 => {
            reply[11] = 1;
            reply.extend([0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 40, 0, 10, 0, 30]);
        }
        // CNAME: no name, itself, beyond its length.
        19 => rdata(&mut reply, 5, &[9, b'x']),
        20 => rdata(&mut reply, 5, &[0xc0, 12]),
        _ => rdata(&mut reply, 5, &[1, b'x', 0, 0]),
    }
    reply
}

#[test]
fn a_thousand_clients_with_one_question_send_one_query() {
    let mut servers = Servers::new(3, Box::new(|_, _, _, query| vec![(30, good(query))]));
    for client in 0..1000 {
        servers.world.ask(client, "unknown.example.", [10, 0, (client % 4) as u8, 1].into(), TEST_TIMEOUT);
    }
    servers.run(Duration::from_millis(50));
    assert_eq!(servers.outcomes(), (0..1000).map(|client| (client, true)).collect::<Vec<_>>());
    assert_eq!(servers.world.queries.len(), 1);
    servers.assert_nothing_left();
}

/// The attacker knows address, port and question, and mostly even the ID, but neither letter case nor cookie.
#[test]
fn a_million_forged_replies_and_none_is_believed() {
    let mut world = World::new(config(1), 1);
    let (mut client, mut next, mut sent) = (0, 0u32, 0);
    while sent < 1_000_000 {
        let udp = world.open.iter().find(|(_, (_, transport))| !transport.is_stream()).map(|(link, _)| *link);
        let Some(link) = udp else {
            // The lookup continues over TCP, which fails, too.
            let tcp = world.open.keys().next().copied();
            match tcp {
                Some(link) => {
                    world.open.remove(&link);
                    world.event(Event::Ended { link, error: ErrorKind::ConnectionRefused });
                    world.wait(Duration::from_millis(100));
                }
                None if world.core.is_idle() => {
                    client += 1;
                    world.ask(
                        client,
                        &format!("a-name-of-many-letters-{client}.example."),
                        [10, 0, 0, 1].into(),
                        TEST_TIMEOUT,
                    );
                }
                None => world.wait(Duration::from_millis(100)),
            }
            continue;
        };
        let (_, query) = world.queries.iter().rfind(|(on, _)| *on == link).expect("sent");
        if query[12] == 0 {
            // A health check of the resolver, for the root: its reply is not an answer for a client.
            world.wait(Duration::from_millis(100));
            continue;
        }
        next = next.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let mut forged = answer(query, FORGED);
        match next >> 29 {
            // Any ID: an attacker that does not know the ID does not know the letter case either.
            0 => {
                forged[12..].make_ascii_lowercase();
                forged[..2].copy_from_slice(&(next as u16).to_be_bytes());
            }
            // Wrong letter case.
            1 => forged[12..].make_ascii_lowercase(),
            // Wrong question.
            2..=4 => forged[13] ^= 3,
            // Wrong cookie.
            _ => {
                let opt = query[question_end(query)..].to_vec();
                forged[11] = 1;
                forged.extend(opt);
                let last = forged.len() - 1;
                forged[last] ^= 1;
            }
        }
        world.event(Event::Message { link, message: &forged });
        sent += 1;
        world.queries.drain(..world.queries.len().saturating_sub(16));
    }
    let stats = world.core.stats();
    let suspects = &stats.suspects;
    let counted = [&suspects.id, &suspects.case, &suspects.question, &suspects.cookie].map(|n| n.get());
    assert_eq!((counted.iter().sum::<u64>(), stats.answered.get()), (1_000_000, 0));
    assert!(counted.iter().all(|&n| n > 100_000), "{counted:?}");
}

/// Pearson's chi-square statistic over each byte of the ID: 255 degrees of freedom.
#[test]
fn ids_are_spread_evenly() {
    const SAMPLES: usize = 256 * 200;
    let mut world = World::new(config(1), 7);
    let mut bytes = [[0u32; 256]; 2];
    for client in 0..SAMPLES {
        world.ask(client, &format!("n{client}.example."), [10, 0, 0, 1].into(), TEST_TIMEOUT);
        let (link, query) = world.queries.pop().expect("sent");
        let id = Header::of(&query).expect("a header").id().to_be_bytes();
        bytes.iter_mut().zip(id).for_each(|(counts, byte)| counts[usize::from(byte)] += 1);
        world.event(Event::Message { link, message: &answer(&query, GOOD) });
    }
    for counts in bytes {
        let expected = (SAMPLES / 256) as f64;
        let statistic: f64 = counts.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
        // Even IDs exceed 400 once in more than ten million runs; one missing value adds 200, and a constant
        // bit 50,000.
        assert!(statistic < 400.0, "{statistic}");
    }
}

#[test]
fn malformed_replies_of_22_kinds_keep_nobody_from_the_good_one() {
    for kind in 0..22 {
        let behaviour: Behaviour = Box::new(move |server, _, _, query| match server {
            1 => vec![(10, Reply(malformed(kind, query)))],
            _ => vec![(20, good(query))],
        });
        let mut servers = Servers::new(2, behaviour);
        for client in 0..5 {
            servers.world.ask(client, &format!("n{client}.example."), [10, 0, 0, 1].into(), TEST_TIMEOUT);
            servers.run(TEST_TIMEOUT);
            assert_eq!(servers.outcomes(), [(client, true)], "kind {kind}");
        }
        servers.assert_nothing_left();
    }
}

/// A message that does not match is ignored: the good one that follows on the same link counts.
#[test]
fn of_one_server_the_good_reply_counts_after_messages_that_do_not_fit() {
    for kind in [0, 1, 3, 12, 13, 16, 17] {
        let mut servers = Servers::new(
            1,
            Box::new(move |_, _, _, query| vec![(10, Reply(malformed(kind, query))), (20, good(query))]),
        );
        servers.world.ask(1, "www.example.", [10, 0, 0, 1].into(), TEST_TIMEOUT);
        servers.run(Duration::from_millis(30));
        assert_eq!(servers.outcomes(), [(1, true)], "kind {kind}");
        assert_eq!(servers.world.queries.len(), 1);
    }
}

/// Server 1 misbehaves for ever; server 2 is good. Every client gets an answer.
#[test]
fn whatever_one_server_does_for_ever_the_other_answers() {
    fn flagged(query: &[u8], byte: usize, bits: u8) -> Reaction {
        let mut reply = answer(query, FORGED);
        reply[byte] ^= bits;
        Reply(reply)
    }
    type One = fn(Transport, &[u8]) -> Vec<(u64, Reaction)>;
    let ways: [(&str, One); 10] = [
        ("silent", |_, _| vec![]),
        ("refused", |_, _| vec![(0, Break(ErrorKind::ConnectionRefused))]),
        ("reset", |_, _| vec![(5, Break(ErrorKind::ConnectionReset))]),
        ("closes every connection", |_, _| vec![(5, Break(ErrorKind::UnexpectedEof))]),
        ("truncates", |_, query| vec![(5, flagged(query, 2, 0x02))]),
        ("another ID", |_, query| vec![(5, flagged(query, 1, 0x01))]),
        ("another question", |_, query| vec![(5, flagged(query, 13, 0x03))]),
        ("SERVFAIL", |_, query| vec![(5, flagged(query, 3, 0x02))]),
        ("late by ten seconds", |_, query| vec![(10_000, good(query))]),
        ("connections that never reply", |transport, query| match transport.is_stream() {
            true => vec![],
            false => vec![(5, flagged(query, 2, 0x02))],
        }),
    ];
    for (way, one) in ways {
        let behaviour: Behaviour = Box::new(move |server, transport, _, query| match server {
            1 => one(transport, query),
            // Twice, and out of order: between 20 and 36 ms.
            _ => (0..2).map(|n| (20 + n * 4 + u64::from(query[1] % 13), good(query))).collect(),
        });
        let mut servers = Servers::new(2, behaviour);
        for client in 0..500 {
            servers.world.ask(client, &format!("n{client}.example."), [10, 0, 0, 1].into(), TEST_TIMEOUT);
            servers.run(Duration::from_millis(10));
        }
        servers.run(TEST_TIMEOUT);
        let outcomes = servers.outcomes();
        assert_eq!(outcomes.len(), 500, "{way}");
        assert!(outcomes.iter().all(|(_, good)| *good), "{way}");
        // It is probed now and then, not again and again.
        assert!(servers.world.queries.len() < 750, "{way}: {} queries", servers.world.queries.len());
        servers.assert_nothing_left();
    }
}

/// A client queries every 10 ms. The server is down from second 2 to second 12.
#[test]
fn after_death_and_return_in_mid_load_all_is_well_within_five_seconds() {
    let start = Instant::now();
    let (dies, returns) = (start + Duration::from_secs(2), start + Duration::from_secs(12));
    for count in [1, 2] {
        let dead = move |server: u8, now| server == 1 && (dies..returns).contains(&now);
        let behaviour: Behaviour = Box::new(move |server, _, now, query| match dead(server, now) {
            true => vec![],
            // The first server is the faster one.
            false => vec![(10 * u64::from(server), good(query))],
        });
        let mut servers = Servers::new(count, behaviour);
        servers.world.now = start;
        let mut asked = Vec::new();
        while servers.world.now < returns + Duration::from_secs(8) {
            servers.world.ask(
                asked.len(),
                &format!("n{}.example.", asked.len()),
                [10, 0, 0, 1].into(),
                TEST_TIMEOUT,
            );
            asked.push(servers.world.now);
            servers.run(Duration::from_millis(10));
        }
        let before = servers.outcomes();
        let well = returns + TEST_TIMEOUT;
        for (client, at) in
            asked.iter().enumerate().filter(|(_, at)| **at < servers.world.now - TEST_TIMEOUT || **at >= well)
        {
            let answered = before.contains(&(client, true));
            let due = servers.world.now - *at > Duration::from_millis(50);
            // A failing server is probed once a second.
            let back = returns + Duration::from_secs(1);
            assert!(answered || !due || (count == 1 && *at < back), "client {client} at {:?}", *at - start);
        }
        // The first server gets all queries again.
        let first = servers.world.core.stats().upstreams()[0].udp.get();
        servers.world.ask(asked.len(), "last.example.", [10, 0, 0, 1].into(), TEST_TIMEOUT);
        assert_eq!(servers.world.core.stats().upstreams()[0].udp.get(), first + 1);
        servers.assert_nothing_left();
    }
}
