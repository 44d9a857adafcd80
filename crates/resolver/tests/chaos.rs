//! Whatever servers, links and clients do, and in whatever order: every client gets one outcome in time, no lookup sends
//! more than its budget, and nothing is left behind.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use exchange::{Action, Core, Event, Link};
use proptest::collection::vec;
use proptest::prelude::*;
use resolver::{
    ChaCha, ClientPrefix, ForwardConfig, ForwardLimits, ForwardRule, Forwarder, ForwarderRequest, Inquiry,
    LookupOutcome, LookupRequest, Outlet, Reach, Upstream,
};
use wire::message::Header;
use wire::{Class, NameBuf, Rcode, Type};

/// Something that happens.
#[derive(Clone, Debug)]
enum Happening {
    /// A client asks for one of a few names.
    Ask { name: u8, prefix: u8, patience: u16 },
    /// Other settings: the servers of both rules as bits.
    Configure(u8, u8),
    /// The time passes, in milliseconds.
    Wait(u16),
    /// A query that was sent is answered, or something like it.
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

#[derive(Clone, Default)]
struct Outcomes(Arc<Mutex<Vec<usize>>>);

impl Outlet for Outcomes {
    type Waiter = usize;
    fn ended(&mut self, _: &Inquiry, _: &LookupOutcome) {}
    fn settle(&mut self, waiter: usize, _: LookupOutcome) {
        self.0.lock().expect("one thread").push(waiter);
    }
}

struct World {
    core: Forwarder<Outcomes, ChaCha>,
    now: Instant,
    open: BTreeSet<Link>,
    queries: Vec<(Link, Vec<u8>)>,
    /// When each client's time is over.
    asked: BTreeMap<usize, Instant>,
    outcomes: Outcomes,
}

const TRIES: u8 = 5;

/// Settings with the servers whose bits are set for all names, and for two of them.
fn config(all: u8, some: u8) -> ForwardConfig {
    let servers = [(1, Reach::UdpThenTcp), (2, Reach::Tcp), (3, Reach::UdpThenTcp)];
    let upstreams = |bits: u8| {
        let picked = servers.iter().filter(|(n, _)| bits >> (n - 1) & 1 == 1);
        picked
            .map(|&(n, reach)| Upstream { address: SocketAddr::from(([192, 0, 2, n], 53)), reach })
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

impl World {
    fn new(seed: u8) -> Self {
        let config = config(0b111, 0);
        let outcomes = Outcomes::default();
        World {
            core: Forwarder::new(config, outcomes.clone(), ChaCha::new([seed; 32])),
            now: Instant::now(),
            open: BTreeSet::new(),
            queries: Vec::new(),
            asked: BTreeMap::new(),
            outcomes,
        }
    }

    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Open { link, .. } => assert!(self.open.insert(link), "a link in use"),
                Action::Close { link } => assert!(self.open.remove(&link), "a link closed twice"),
                Action::Send { link, message } => {
                    assert!(self.open.contains(&link), "sent on a link that is over");
                    self.queries.push((link, message));
                }
            }
        }
    }

    fn event(&mut self, event: Event<'_>) {
        let mut actions = Vec::new();
        self.core.event(event, self.now, &mut actions);
        self.act(actions);
    }

    fn wait(&mut self, by: Duration) {
        let end = self.now + by;
        while let Some(at) = self.core.deadline().filter(|at| *at <= end) {
            assert!(at >= self.now, "a deadline that has passed");
            self.now = at;
            let mut actions = Vec::new();
            self.core.timeout(at, &mut actions);
            assert!(self.core.deadline().is_none_or(|next| next > at), "it stands still");
            self.act(actions);
        }
        self.now = end;
    }

    fn happens(&mut self, what: &Happening) {
        match what {
            Happening::Wait(ms) => self.wait(Duration::from_millis(u64::from(*ms))),
            Happening::Configure(all, some) => {
                let mut actions = Vec::new();
                let config = ForwarderRequest::Configure(Box::new(config(*all, *some)));
                self.core.request(config, self.now, &mut actions);
                self.act(actions);
            }
            Happening::Ask { name, prefix, patience } => {
                let client = self.asked.len();
                let patience = Duration::from_millis(u64::from(*patience));
                self.asked.insert(client, self.now + patience.min(Duration::from_secs(5)));
                let name: NameBuf = format!("n{name}.example.").parse().expect("a name");
                let inquiry = Inquiry {
                    name: name.as_name().to_lower(),
                    qtype: Type::A,
                    qclass: Class::IN,
                    dnssec_ok: false,
                    checking_disabled: false,
                };
                let mut actions = Vec::new();
                let client = LookupRequest {
                    inquiry,
                    recursion_desired: true,
                    client: ClientPrefix::of([10, 0, *prefix, 1].into()),
                    patience: Some(patience),
                    trace: None,
                    waiter: client,
                };
                self.core.request(ForwarderRequest::Lookup(client), self.now, &mut actions);
                self.act(actions);
            }
            Happening::Reply { query, kind } if !self.queries.is_empty() => {
                let (link, query) = query.get(&self.queries).clone();
                if self.open.contains(&link) {
                    self.event(Event::Message { link, message: &reply(&query, *kind) });
                }
            }
            Happening::Open(link) if !self.open.is_empty() => {
                let link = *self.open.iter().nth(link.index(self.open.len())).expect("one");
                self.event(Event::Opened { link });
            }
            Happening::End(link, refused) if !self.open.is_empty() => {
                let link = *self.open.iter().nth(link.index(self.open.len())).expect("one");
                self.open.remove(&link);
                let error = if *refused { ErrorKind::ConnectionRefused } else { ErrorKind::UnexpectedEof };
                self.event(Event::Ended { link, error });
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
        let mut world = World::new(seed);
        for what in &happenings {
            world.happens(what);
            let settled = world.outcomes.0.lock().expect("one thread").clone();
            for (client, at) in &world.asked {
                prop_assert!(settled.contains(client) || world.now < *at);
            }
        }
        world.wait(Duration::from_secs(30));
        let mut settled = world.outcomes.0.lock().expect("one thread").clone();
        settled.sort_unstable();
        prop_assert_eq!(settled, world.asked.keys().copied().collect::<Vec<_>>());
        prop_assert!(world.open.is_empty(), "{:?}", world.open);
        prop_assert_eq!(world.core.deadline(), None);
        prop_assert!(world.core.is_idle());
        let stats = world.core.stats();
        prop_assert_eq!(stats.in_flight.get(), 0);
        prop_assert!(world.queries.len() as u64 <= u64::from(TRIES) * stats.lookups.get());
        prop_assert_eq!(stats.answered.get() + stats.failed.get(), stats.lookups.get());
        let sent: u64 = stats.upstreams().iter().map(|server| server.udp.get() + server.tcp.get()).sum();
        // What servers that are gone had counted is gone, too.
        prop_assert!(sent <= world.queries.len() as u64);
        if !happenings.iter().any(|what| matches!(what, Happening::Configure(..))) {
            prop_assert_eq!(sent, world.queries.len() as u64);
        }
    }
}

/// IDs and ports are what a forger has to guess: no two queries of a lookup share both, and no ID is favoured.
#[test]
fn every_try_has_a_link_and_an_id_of_its_own() {
    let mut world = World::new(1);
    for name in 0..6 {
        world.happens(&Happening::Ask { name, prefix: 0, patience: 5000 });
    }
    world.wait(Duration::from_secs(4));
    let mut ids: HashMap<u16, usize> = HashMap::new();
    for (_, query) in &world.queries {
        *ids.entry(Header::of(query).expect("a header").id()).or_default() += 1;
    }
    assert!(world.queries.len() >= 20);
    assert!(ids.values().all(|&n| n == 1), "{ids:?}");
}
