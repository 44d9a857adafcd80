//! Random behaviour of servers, links and clients in any order: every client gets one outcome in time, no
//! lookup exceeds its budget, and nothing is left behind.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;
use resolver::{ForwardConfig, ForwardLimits, ForwardRule, Reach, ResolverRequest, Upstream};
use transport::{Core, Encryption, EncryptionFault, Event};
use wire::message::Header;
use wire::{NameBuf, Rcode};

mod world;
use world::World;

/// A random event.
#[derive(Clone, Debug)]
enum Happening {
    /// A client queries one of a few names.
    Ask { name: u8, prefix: u8, patience: u16 },
    /// New settings: the servers of both rules as bits.
    Configure(u8, u8),
    /// Milliseconds that pass.
    Wait(u16),
    /// A query is answered, by some kind of reply.
    Reply { query: prop::sample::Index, kind: u8 },
    /// A link opens.
    Open(prop::sample::Index),
    /// A link ends.
    End(prop::sample::Index, bool),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => (0..6u8, 0..3u8, 1..9000u16)
            .prop_map(|(name, prefix, patience)| Happening::Ask { name, prefix, patience }),
        1 => (0..8u8, 0..8u8).prop_map(|(all, some)| Happening::Configure(all, some)),
        4 => (0..1500u16).prop_map(Happening::Wait),
        2 => (0..30u16).prop_map(Happening::Wait),
        8 => (any::<prop::sample::Index>(), 0..16u8).prop_map(|(query, kind)| Happening::Reply { query, kind }),
        2 => any::<prop::sample::Index>().prop_map(Happening::Open),
        2 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(link, refused)| Happening::End(link, refused)),
    ]
}

/// A world with random events.
struct Chaos {
    world: World,
    /// Each client's deadline.
    asked: BTreeMap<usize, Instant>,
}

const TRIES: u8 = 5;

/// Settings with the servers whose bits are set: for all names, and for two of them.
fn config(all: u8, some: u8) -> ForwardConfig {
    let encryption =
        Encryption::new("dns.example".into(), "dns.example".into(), |_| Err(EncryptionFault::Protocol));
    let servers = [(1, Reach::UdpThenTcp), (2, Reach::Tcp), (3, Reach::Encrypted(encryption))];
    let upstreams = |bits: u8| {
        let picked = servers.iter().filter(|(n, _)| bits >> (n - 1) & 1 == 1);
        picked
            .map(|(n, reach)| Upstream {
                address: SocketAddr::from(([192, 0, 2, *n], 53)),
                reach: reach.clone(),
            })
            .collect()
    };
    let domains = [".", "n1.example.", "n2.example."].map(|name| name.parse::<NameBuf>().expect("a name"));
    let rules =
        domains.iter().zip([all, some, some]).filter(|(domain, bits)| **domain == NameBuf::ROOT || *bits > 0);
    ForwardConfig {
        rules: rules.map(|(domain, bits)| ForwardRule::new(*domain, upstreams(bits))).collect(),
        limits: ForwardLimits { tries: TRIES, connections: 2, pipeline: 2, pulse: 1, ..Default::default() },
        explore: 3,
        ..Default::default()
    }
}

impl Chaos {
    fn new(seed: u8) -> Self {
        Chaos { world: World::new(config(0b111, 0), seed), asked: BTreeMap::new() }
    }

    /// The clients with an outcome.
    fn settled(&self) -> Vec<usize> {
        self.world.outcomes.0.lock().expect("one thread").iter().map(|(client, _)| *client).collect()
    }

    fn happens(&mut self, what: &Happening) {
        let world = &mut self.world;
        match what {
            Happening::Wait(ms) => world.wait(Duration::from_millis(u64::from(*ms))),
            Happening::Configure(all, some) => {
                world.request(ResolverRequest::Configure(Box::new(config(*all, *some))));
            }
            Happening::Ask { name, prefix, patience } => {
                let client = self.asked.len();
                let patience = Duration::from_millis(u64::from(*patience));
                self.asked.insert(client, world.now + patience.min(Duration::from_secs(5)));
                world.ask(client, &format!("n{name}.example."), [10, 0, *prefix, 1].into(), patience);
            }
            Happening::Reply { query, kind } if !world.queries.is_empty() => {
                let (link, query) = query.get(&world.queries).clone();
                if world.open.contains_key(&link) {
                    world.event(Event::Message { link, message: &reply(&query, *kind) });
                }
            }
            Happening::Open(link) if !world.open.is_empty() => {
                let (&link, _) = world.open.iter().nth(link.index(world.open.len())).expect("one");
                world.event(Event::Opened { link });
            }
            Happening::End(link, refused) if !world.open.is_empty() => {
                let (&link, _) = world.open.iter().nth(link.index(world.open.len())).expect("one");
                world.open.remove(&link);
                let error = if *refused { ErrorKind::ConnectionRefused } else { ErrorKind::UnexpectedEof };
                world.event(Event::Ended { link, error });
            }
            _ => {}
        }
    }
}

/// A reply of one of sixteen kinds.
fn reply(query: &[u8], kind: u8) -> Vec<u8> {
    let mut message = query.to_vec();
    message[2] |= 0x80;
    let rcode = [Rcode::NOERROR, Rcode::SERVFAIL, Rcode::FORMERR, Rcode::NOTIMP, Rcode::REFUSED];
    match kind {
        0..5 => message[3] |= rcode[usize::from(kind)].0 as u8,
        5 => message[2] |= 0x02,
        6 => message[1] ^= 1,
        7 => message[12..].make_ascii_lowercase(),
        8 => message.truncate(20),
        9 => message = Header::of(query).expect("a header").reply().as_bytes().to_vec(),
        // FORMERR without OPT, which is the last record.
        10 => {
            message[3] |= 1;
            message[10..12].fill(0);
        }
        // BADVERS and BADCOOKIE: the upper bits are in OPT, whose owner is the root.
        11 | 12 => {
            let opt = message.windows(3).rposition(|three| three == [0, 0, 41]);
            if let Some(opt) = opt {
                message[opt + 5] = 1;
                message[3] |= if kind == 12 { 7 } else { 0 };
            }
        }
        _ => message[3] |= 3,
    }
    message
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_client_gets_one_outcome_in_time_and_nothing_is_left(
        seed: u8,
        happenings in vec(happening(), 1..80),
    ) {
        let mut chaos = Chaos::new(seed);
        for what in &happenings {
            chaos.happens(what);
            for (client, at) in &chaos.asked {
                prop_assert!(chaos.settled().contains(client) || chaos.world.now < *at);
            }
        }
        chaos.world.wait(Duration::from_secs(30));
        let mut settled = chaos.settled();
        let Chaos { world, asked } = chaos;
        settled.sort_unstable();
        prop_assert_eq!(settled, asked.keys().copied().collect::<Vec<_>>());
        prop_assert!(world.open.is_empty(), "{:?}", world.open);
        prop_assert_eq!(world.core.deadline(), None);
        prop_assert!(world.core.is_idle());
        let stats = world.core.stats();
        prop_assert_eq!(stats.in_flight.get(), 0);
        // Each lookup that fails may have the three servers checked.
        let checks = 3 * stats.failed.get();
        prop_assert!(world.queries.len() as u64 <= u64::from(TRIES) * stats.lookups.get() + checks);
        prop_assert_eq!(stats.answered.get() + stats.failed.get(), stats.lookups.get());
        let sent: u64 = stats.upstreams().iter().map(|server| server.udp.get() + server.tcp.get() + server.tls.get()).sum();
        // The counts of removed servers are gone, too.
        prop_assert!(sent <= world.queries.len() as u64);
        if !happenings.iter().any(|what| matches!(what, Happening::Configure(..))) {
            prop_assert_eq!(sent, world.queries.len() as u64);
        }
    }
}
