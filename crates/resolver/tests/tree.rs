//! A random tree of zones with good and consistent servers: iteration finds for every query what a search of
//! the whole tree finds, within the budget.

use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use resolver::{
    Budget, BudgetLimits, ForwardConfig, IterateConfig, IterateRule, LookupOutcome, Minimisation,
    Opportunistic, Partition, QueryKey, StartServer,
};
use transport::{Encryption, EncryptionFault};
use wire::message::Parser;
use wire::{Class, LowerNameBuf, Name, NameBuf, Rcode, Type};

mod internet;
use internet::{Host, Internet, Rr, Zone};

/// A zone below another.
#[derive(Clone, Debug)]
struct Branch {
    /// Its parent zone, among those before it.
    parent: Index,
    /// Its name relative to the parent.
    labels: Vec<&'static str>,
    /// Its servers: a name in itself with glue, or one in an earlier zone, maybe without glue.
    servers: Vec<Option<Index>>,
    /// The hosts that serve it.
    hosts: Vec<Index>,
}

/// A record in a zone.
#[derive(Clone, Debug)]
struct Leaf {
    zone: Index,
    labels: Vec<&'static str>,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Address(u8),
    Text(u8),
    Alias(Index, Vec<&'static str>),
}

const LABELS: [&str; 5] = ["a", "b", "c", "www", "ns"];
const HOSTS: u8 = 6;
/// What hosts do over encrypted connections.
const ENCRYPTED_WAYS: [&str; 12] = [
    "dot",
    "dot",
    "dot",
    "dot",
    "doq",
    "no-tls",
    "encrypted-hangs",
    "encrypted-mute",
    "encrypted-slow=200",
    "encrypted-resets",
    "encrypted-refused",
    "encrypted-cache",
];

/// Possible faults of a server: see `iterate.rs`.
const WAYS: [&str; 22] = [
    "silent",
    "slow=700",
    "slow=9000",
    "refused",
    "servfail",
    "upward",
    "empty",
    "cache",
    "no-aa",
    "tc",
    "always-tc",
    "no-tcp",
    "refuses-tcp",
    "formerr",
    "badvers",
    "always-formerr",
    "badcookie",
    "always-badcookie",
    "denies-ents",
    "refuses-ents",
    "refer-to=a.",
    "refer-to=www.a.b.",
];

fn labels(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<&'static str>> {
    vec(select(&LABELS[..]), count)
}

fn branch() -> impl Strategy<Value = Branch> {
    let servers = vec(proptest::option::of(any::<Index>()), 1..4);
    (any::<Index>(), labels(1..3), servers, vec(any::<Index>(), 1..3))
        .prop_map(|(parent, labels, servers, hosts)| Branch { parent, labels, servers, hosts })
}

fn leaf() -> impl Strategy<Value = Leaf> {
    let what = prop_oneof![
        any::<u8>().prop_map(What::Address),
        any::<u8>().prop_map(What::Text),
        (any::<Index>(), labels(0..3)).prop_map(|(zone, labels)| What::Alias(zone, labels)),
    ];
    (any::<Index>(), labels(1..4), what).prop_map(|(zone, labels, what)| Leaf { zone, labels, what })
}

fn below(labels: &[&str], zone: &NameBuf) -> NameBuf {
    labels
        .iter()
        .rev()
        .fold(*zone, |name, label| NameBuf::prepend(label.as_bytes(), name.as_name()).expect("short"))
}

fn wire_of(name: &NameBuf) -> Vec<u8> {
    name.as_name().as_wire().to_vec()
}

/// The zones, each with the hosts that serve it.
struct Tree {
    zones: Vec<(Zone, Vec<u8>)>,
}

fn host_address(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, host + 1)
}

impl Tree {
    /// The zones of some branches, with their records; contradictory ones are left out.
    fn grow(branches: &[Branch], leaves: &[Leaf]) -> Tree {
        let root = Zone { apex: NameBuf::ROOT, records: Vec::new() };
        let mut tree = Tree { zones: vec![(root, vec![0])] };
        for branch in branches {
            let parent = branch.parent.index(tree.zones.len());
            let apex = below(&branch.labels, &tree.zones[parent].0.apex);
            // The name may be in another zone by now.
            let parent = tree.zone_of(apex.as_name(), Type::DS);
            if tree.zones.iter().any(|(zone, _)| zone.apex.as_name().is_at_or_below(apex.as_name())) {
                continue;
            }
            let mut hosts: Vec<u8> =
                branch.hosts.iter().map(|host| host.index(usize::from(HOSTS)) as u8).collect();
            hosts.dedup();
            let mut zone = Zone { apex, records: Vec::new() };
            for (n, server) in branch.servers.iter().enumerate() {
                let host = hosts[n % hosts.len()];
                tree.add_server(parent, &mut zone, n, server.as_ref(), host);
            }
            tree.zones.push((zone, hosts));
        }
        for leaf in leaves {
            tree.add_leaf(leaf);
        }
        tree
    }

    fn add_server(&mut self, parent: usize, zone: &mut Zone, n: usize, elsewhere: Option<&Index>, host: u8) {
        let label = format!("ns{n}");
        let home = elsewhere.map(|index| index.index(self.zones.len()));
        // A server in an earlier zone, which is resolved without this one.
        let apex = home.map_or(zone.apex, |home| self.zones[home].0.apex);
        let tag = zone.apex.to_string().replace('.', "-");
        let own = NameBuf::prepend(format!("{label}{tag}").as_bytes(), apex.as_name()).expect("short");
        let rr = |owner, rtype, data| Rr { owner, ttl: 3600, rtype, data };
        let address = rr(own, Type::A, host_address(host).octets().to_vec());
        let ns = rr(zone.apex, Type::NS, wire_of(&own));
        zone.records.push(ns.clone());
        self.zones[parent].0.records.push(ns);
        match home {
            Some(home) => self.zones[home].0.records.push(address),
            None => {
                zone.records.push(address.clone());
                self.zones[parent].0.records.push(address);
            }
        }
    }

    fn add_leaf(&mut self, leaf: &Leaf) {
        let zone = leaf.zone.index(self.zones.len());
        let owner = below(&leaf.labels, &self.zones[zone].0.apex);
        let home = self.zone_of(owner.as_name(), Type::A);
        let (rtype, data) = match &leaf.what {
            What::Address(n) => (Type::A, vec![10, 0, 0, *n]),
            What::Text(n) => (Type::TXT, vec![1, *n]),
            What::Alias(zone, labels) => {
                let zone = zone.index(self.zones.len());
                (Type::CNAME, wire_of(&below(labels, &self.zones[zone].0.apex)))
            }
        };
        let zone = &mut self.zones[home].0;
        let others: Vec<Type> =
            zone.records.iter().filter(|rr| rr.owner == owner).map(|rr| rr.rtype).collect();
        let alias = rtype == Type::CNAME;
        let clash = others.contains(&Type::CNAME) || alias && (!others.is_empty() || owner == zone.apex);
        if !clash {
            zone.records.push(Rr { owner, ttl: 60, rtype, data });
        }
    }

    /// The zone that answers for a name.
    fn zone_of(&self, name: Name<'_>, qtype: Type) -> usize {
        let covers = |(_, (zone, _)): &(usize, &(Zone, Vec<u8>))| {
            name.is_at_or_below(zone.apex.as_name())
                && !(qtype == Type::DS && zone.apex.as_name() == name && !name.is_root())
        };
        let covering = self.zones.iter().enumerate().filter(covers);
        covering.max_by_key(|(_, (zone, _))| zone.apex.as_name().label_count()).expect("the root").0
    }

    /// Returns the true answer: the response code and data at the end of the aliases; `None` if they form a
    /// loop.
    fn truth(&self, name: &NameBuf, qtype: Type) -> Option<(Rcode, Vec<Vec<u8>>)> {
        let mut at = *name;
        for _ in 0..10 {
            let zone = &self.zones[self.zone_of(at.as_name(), qtype)].0;
            let own = |rtype| {
                let here = zone.records.iter().filter(move |rr| rr.owner == at && rr.rtype == rtype);
                here.map(|rr| rr.data.clone()).collect::<Vec<_>>()
            };
            if let Some(target) = own(Type::CNAME).first() {
                at = Name::from_wire(target).expect("a name").to_buf();
                continue;
            }
            let mut data = own(qtype);
            data.sort();
            data.dedup();
            let exists = zone.apex == at
                || zone.records.iter().any(|rr| rr.owner.as_name().is_at_or_below(at.as_name()));
            return Some((if exists { Rcode::NOERROR } else { Rcode::NXDOMAIN }, data));
        }
        None
    }

    fn internet(&self, minimisation: Minimisation, encryptions: Vec<Encryption>, seed: u8) -> Internet {
        let servers =
            vec![StartServer { name: None, addresses: vec![SocketAddr::new(host_address(0).into(), 53)] }];
        let rule = IterateRule { domain: NameBuf::ROOT, servers, prime: false, copy: None };
        let opportunistic = Opportunistic { encryptions, ..Default::default() };
        let iterate = IterateConfig { rules: vec![rule], minimisation, opportunistic, ..Default::default() };
        let mut net = Internet::new(ForwardConfig { iterate, ..Default::default() }, seed);
        net.zones = self.zones.iter().map(|(zone, _)| zone.clone()).collect();
        for host in 0..HOSTS {
            let zones = (0..self.zones.len()).filter(|&at| self.zones[at].1.contains(&host)).collect();
            let addresses = vec![host_address(host).into()];
            net.hosts.insert(format!("h{host}"), Host { addresses, zones, ..Host::default() });
        }
        net
    }
}

/// Resolves a name and its aliases like the resolver's clients; returns response code and data at the end.
fn resolve(
    net: &mut Internet,
    client: &mut u32,
    name: &NameBuf,
    qtype: Type,
    budget: &Budget,
) -> Result<(Rcode, Vec<Vec<u8>>), String> {
    let mut at: LowerNameBuf = name.as_name().to_lower();
    loop {
        *client += 1;
        let me = *client;
        let query_key = QueryKey {
            name: at,
            qtype,
            qclass: Class::IN,
            dnssec_ok: false,
            checking_disabled: false,
            partition: Partition::SHARED,
        };
        net.ask(me, query_key, Some(budget.clone()), None);
        net.run(net.now + Duration::from_secs(60), |net| net.is_settled(me));
        let settled = std::mem::take(&mut *net.outcomes.settled.lock().expect("one thread"));
        let Some((_, outcome)) = settled.into_iter().find(|(settled, _)| *settled == me) else {
            return Err(format!("{at} has no outcome"));
        };
        let answer = match outcome {
            LookupOutcome::Answered(answer) => answer,
            LookupOutcome::Failed(failure) => return Err(format!("{at} {qtype}: {failure}")),
        };
        if let Some(target) = answer.leads_to {
            at = target;
            continue;
        }
        let (header, mut parser) = Parser::new(&answer.message).expect("a header");
        parser.question().expect("a question");
        let mut found = Vec::new();
        for _ in 0..header.counts()[1] {
            let record = parser.record().expect("a record");
            let mut data = Vec::new();
            parser.expand_rdata(&record, &mut data).expect("data");
            if record.rtype == qtype {
                found.push(data);
            }
        }
        found.sort();
        return Ok((answer.rcode, found));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_found_step_by_step_is_what_the_tree_has(
        branches in vec(branch(), 0..10),
        leaves in vec(leaf(), 0..30),
        questions in vec((any::<Index>(), labels(0..4), select(vec![Type::A, Type::TXT, Type::NS, Type::DS])), 1..12),
        minimisation in select(vec![Minimisation::Off, Minimisation::Relaxed, Minimisation::Strict]),
        encrypted in vec(vec(select(&ENCRYPTED_WAYS[..]), 0..3), usize::from(HOSTS)),
        seed: u8,
    ) {
        let tree = Tree::grow(&branches, &leaves);
        let any = |_| Err(EncryptionFault::Protocol);
        let mut net = tree.internet(minimisation, vec![Encryption::new("any".into(), "any".into(), any)], seed);
        for (host, ways) in net.hosts.values_mut().zip(&encrypted) {
            host.ways = ways.iter().map(ToString::to_string).collect();
        }
        let (mut client, limits) = (0, BudgetLimits::default());
        for (zone, labels, qtype) in &questions {
            let name = below(labels, &tree.zones[zone.index(tree.zones.len())].0.apex);
            let budget = Budget::default();
            let found = resolve(&mut net, &mut client, &name, *qtype, &budget);
            match tree.truth(&name, *qtype) {
                Some(truth) => prop_assert_eq!(found, Ok(truth), "{} {}", name, qtype),
                None => prop_assert!(found.is_err(), "{} {} goes round: {:?}", name, qtype, found),
            }
            prop_assert!(budget.queries() <= limits.queries && budget.bytes() <= limits.bytes);
        }
        net.finish();
    }

    #[test]
    fn whatever_is_wrong_with_servers_and_delegations_each_query_ends_within_its_budget(
        branches in vec(branch(), 1..8),
        leaves in vec(leaf(), 0..20),
        // Records of any zone: delegations to servers in any other zone, also circular ones.
        strays in vec((any::<Index>(), labels(1..3), any::<Index>(), labels(1..3)), 0..12),
        ways in vec(vec(select(&WAYS[..]), 0..2), usize::from(HOSTS)),
        questions in vec((any::<Index>(), labels(0..5), any::<bool>()), 1..10),
        no_way in select(vec![[false, false], [false, true], [true, false]]),
        seed: u8,
    ) {
        let mut tree = Tree::grow(&branches, &leaves);
        for (zone, labels, elsewhere, server) in &strays {
            let at = zone.index(tree.zones.len());
            let owner = below(labels, &tree.zones[at].0.apex);
            let target = below(server, &tree.zones[elsewhere.index(tree.zones.len())].0.apex);
            tree.zones[at].0.records.push(Rr { owner, ttl: 60, rtype: Type::NS, data: wire_of(&target) });
        }
        let mut net = tree.internet(Minimisation::Relaxed, Vec::new(), seed);
        net.no_way = no_way;
        for (host, ways) in net.hosts.values_mut().zip(&ways) {
            host.ways = ways.iter().map(ToString::to_string).collect();
        }
        let limits = BudgetLimits::default();
        let mut budgets = Vec::new();
        for (client, (zone, labels, at_once)) in questions.iter().enumerate() {
            let name = below(labels, &tree.zones[zone.index(tree.zones.len())].0.apex);
            let (budget, start, before) = (Budget::default(), net.now, net.log.len());
            let name = name.as_name().to_lower();
            let query_key =
                QueryKey { name, qtype: Type::A, qclass: Class::IN, dnssec_ok: false, checking_disabled: false, partition: Partition::SHARED };
            net.ask(client as u32, query_key, Some(budget.clone()), None);
            budgets.push(budget);
            if !at_once {
                net.run(start + limits.time, |net| net.is_settled(client as u32));
                prop_assert!(net.is_settled(client as u32), "it still waits");
                // It can only spend its own budget, and what pending lookups of others have.
                let most = budgets.len() * usize::from(limits.queries);
                prop_assert!(net.log.len() - before <= most);
            }
        }
        net.run(net.now + limits.time, |_| false);
        prop_assert_eq!(net.outcomes.settled.lock().expect("one thread").len(), questions.len());
        for budget in &budgets {
            prop_assert!(budget.queries() <= limits.queries, "{} queries", budget.queries());
        }
        let sent: usize = budgets.iter().map(|budget| usize::from(budget.queries())).sum();
        prop_assert_eq!(net.log.len(), sent, "every query is paid for");
        net.finish();
    }
}
