//! A random tree of zones, most of them signed for real, the servers of each, and the true answers.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use testkit::answers::{Line, ModelZones};
use testkit::keys::SigningKey;
use testkit::model::ModelZone;
use testkit::random::soa;
use testkit::sign::sign_by;
use testkit::tree::VALID;
use testkit::{Chain, ModelRecord, name};
use validator::TrustAnchors;
use wire::{Name, NameBuf, Rcode, Ttl, Type};

/// Random numbers that follow from a seed.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x6e6f_6d65_6e73_696d)
    }

    /// SplitMix64.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// Returns true with a probability of `percent` / 100.
    pub(super) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[self.below(of.len())]
    }
}

/// Number of servers of zones; one more serves lies only.
pub(super) const HOSTS: usize = 5;
/// The address in false data.
pub(super) const EVIL: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 66);

/// The address of a server.
pub(super) fn address(host: usize) -> IpAddr {
    if host == HOSTS { EVIL.into() } else { Ipv4Addr::new(192, 0, 2, host as u8 + 1).into() }
}

/// A zone's properties that matter for its answers.
pub(super) struct Site {
    pub(super) apex: NameBuf,
    /// A chain of trust leads to it.
    pub(super) secure: bool,
    /// Its proofs leave insecure delegations out (opt-out).
    pub(super) opt_out: bool,
    /// A liar can influence its answers: a server of the zone itself, of a zone above, or of a zone with the
    /// name of one of its servers.
    pub(super) influenced: bool,
}

/// The plan of a zone.
struct Plan {
    apex: NameBuf,
    parent: usize,
    chain: Option<Chain>,
    has_ds: bool,
    hosts: Vec<usize>,
    /// Names of its servers and the indices of the zones that these are in.
    servers: Vec<(NameBuf, usize)>,
    ttl: Ttl,
}

/// All zones.
pub(super) struct Zones {
    pub(super) sites: Vec<Site>,
    all: ModelZones,
    /// The zones that each server serves.
    pub(super) hosts: Vec<ModelZones>,
    pub(super) anchors: TrustAnchors,
}

/// Whether a record is false, by its data.
pub(super) fn is_evil(line: &Line) -> bool {
    line.rtype == Type::A && line.rdata == EVIL.octets()
}

fn below(labels: &str, apex: &NameBuf) -> NameBuf {
    NameBuf::from_text(labels.as_bytes(), Some(apex.as_name())).expect("short")
}

fn wire_of(name: &NameBuf) -> Vec<u8> {
    name.as_name().as_wire().to_vec()
}

/// The key that signs all records of a zone.
fn key(zone: usize) -> SigningKey {
    SigningKey::new(zone as u16 + 1, SigningKey::KSK)
}

impl Zones {
    /// Builds a tree. `liars` are the servers that do not answer what their zones hold.
    pub(super) fn grow(dice: &mut Dice, liars: &BTreeSet<usize>) -> Zones {
        let plans = plan(dice);
        let mut sites: Vec<Site> = Vec::new();
        for (at, plan) in plans.iter().enumerate() {
            let above = (at > 0).then(|| &sites[plan.parent]);
            let lied_of = plan.hosts.iter().any(|host| liars.contains(host));
            // Servers' names are in earlier zones, or in the zone itself.
            let named = plan.servers.iter().any(|(_, zone)| sites.get(*zone).is_some_and(|s| s.influenced));
            sites.push(Site {
                apex: plan.apex,
                secure: plan.chain.is_some() && plan.has_ds && above.is_none_or(|site| site.secure),
                opt_out: matches!(plan.chain, Some(Chain::Nsec3 { opt_out: true, .. })),
                influenced: lied_of || named || above.is_some_and(|site| site.influenced),
            });
        }
        let zones: Vec<ModelZone> = (0..plans.len()).map(|at| zone(&plans, at, dice)).collect();
        let served = |zones| ModelZones { zones, unloaded: Vec::new(), max_chain: 12 };
        let of_host = |host| {
            let serves = |at: &usize| plans[*at].hosts.contains(&host);
            served((0..plans.len()).filter(serves).map(|at| zones[at].clone()).collect())
        };
        let mut anchors = TrustAnchors::none();
        anchors.add_ds(Name::ROOT, &key(0).ds(Name::ROOT)).expect("an anchor");
        Zones { sites, hosts: (0..HOSTS).map(of_host).collect(), all: served(zones), anchors }
    }

    /// Returns the zone that a name is in; for DS the one above.
    pub(super) fn site_of(&self, name: Name<'_>, qtype: Type) -> &Site {
        let holds = |site: &&Site| {
            let above = qtype == Type::DS && site.apex.as_name() == name && !name.is_root();
            name.is_at_or_below(site.apex.as_name()) && !above
        };
        let holding = self.sites.iter().filter(holds);
        holding.max_by_key(|site| site.apex.as_name().label_count()).expect("the root")
    }

    /// Returns the true answer: response code and records without signatures, and the zones they are from.
    pub(super) fn truth(&self, name: Name<'_>, qtype: Type) -> Truth<'_> {
        let expected = self.all.answer(name, qtype, false).expect("the root has all names");
        let mut at = name.to_buf();
        let mut names = vec![at];
        for line in expected.answer.iter().filter(|line| line.rtype == Type::CNAME) {
            if qtype != Type::CNAME && line.owner == at {
                at = Name::from_wire(&line.rdata).expect("a name").to_buf();
                names.push(at);
            }
        }
        let from = names.iter().map(|name| self.site_of(name.as_name(), qtype)).collect();
        let has_data = expected.answer.iter().any(|line| line.rtype == qtype);
        let proven = !has_data || names.iter().any(|name| !self.has(name, qtype));
        Truth { rcode: expected.rcode, records: records(&expected.answer), from, proven }
    }

    /// Whether a name exists, and not by a wildcard.
    pub(super) fn has(&self, name: &NameBuf, qtype: Type) -> bool {
        let apex = self.site_of(name.as_name(), qtype).apex;
        let zone = self.all.zones.iter().find(|zone| zone.apex() == apex.as_name());
        zone.is_some_and(|zone| zone.exists(name.as_name()))
    }
}

/// A true answer.
pub(super) struct Truth<'z> {
    pub(super) rcode: Rcode,
    pub(super) records: BTreeSet<(NameBuf, Type, Vec<u8>)>,
    /// The zones that it is from.
    pub(super) from: Vec<&'z Site>,
    /// It needs a denial: of the queried data, or of the name that a wildcard matches.
    pub(super) proven: bool,
}

/// Records without TTLs and signatures.
pub(super) fn records(lines: &[Line]) -> BTreeSet<(NameBuf, Type, Vec<u8>)> {
    let lines = lines.iter().filter(|line| line.rtype != Type::RRSIG).map(Line::canonical);
    lines.map(|line| (line.owner.as_name().to_lower().into(), line.rtype, line.rdata)).collect()
}

fn plan(dice: &mut Dice) -> Vec<Plan> {
    let nsec3 = |opt_out, iterations, salt: &[u8]| Chain::Nsec3 { opt_out, iterations, salt: salt.to_vec() };
    let chains = [
        None,
        Some(Chain::Nsec),
        Some(Chain::Nsec),
        Some(nsec3(false, 0, b"")),
        Some(nsec3(true, 0, b"")),
        Some(nsec3(false, 2, b"\xab")),
    ];
    let mut plans = vec![Plan {
        apex: NameBuf::ROOT,
        parent: 0,
        chain: Some(Chain::Nsec),
        has_ds: true,
        hosts: vec![0],
        servers: vec![(name("ns0.root."), 0)],
        ttl: Ttl::from_secs(3600),
    }];
    for at in 1..3 + dice.below(5) {
        let parent = dice.below(plans.len());
        let labels = format!("{}{at}", dice.pick(&["z", "z", "e.z"]));
        let apex = below(&labels, &plans[parent].apex);
        let mut hosts = vec![dice.below(HOSTS)];
        if dice.percent(50) {
            hosts.push(dice.below(HOSTS));
        }
        let servers = (0..hosts.len()).map(|n| {
            // In the zone itself, with glue, or in an earlier one, mostly without.
            let home = if dice.percent(70) { at } else { dice.below(plans.len()) };
            let apex = plans.get(home).map_or(apex, |plan| plan.apex);
            (below(&format!("ns{n}-{at}"), &apex), home)
        });
        let servers = servers.collect();
        let chain = dice.pick(&chains).clone();
        let has_ds = chain.is_some() && dice.percent(85);
        let ttl = Ttl::from_secs(*dice.pick(&[5, 60, 3600]));
        plans.push(Plan { apex, parent, chain, has_ds, hosts, servers, ttl });
    }
    plans
}

/// A zone as it is served.
fn zone(plans: &[Plan], at: usize, dice: &mut Dice) -> ModelZone {
    let plan = &plans[at];
    let apex = plan.apex;
    let record = |owner: NameBuf, rtype, rdata| ModelRecord { owner, rtype, ttl: plan.ttl, rdata };
    let mut all = vec![record(apex, Type::SOA, soa(apex.as_name(), 1))];
    for (below, child) in plans.iter().enumerate().filter(|(n, child)| *n == at || child.parent == at) {
        for ((server, home), host) in child.servers.iter().zip(child.hosts.iter().cycle()) {
            all.push(record(child.apex, Type::NS, wire_of(server)));
            let IpAddr::V4(v4) = address(*host) else { continue };
            if below == at || server.as_name().is_at_or_below(child.apex.as_name()) {
                all.push(record(*server, Type::A, v4.octets().to_vec()));
            }
            debug_assert!(*home <= below, "no circles");
        }
        if below != at && child.has_ds {
            all.push(record(child.apex, Type::DS, key(below).ds(child.apex.as_name())));
        }
    }
    // Addresses of other zones' servers with names here.
    for child in plans {
        for ((server, home), host) in child.servers.iter().zip(child.hosts.iter().cycle()) {
            if let (true, IpAddr::V4(v4)) = (*home == at, address(*host)) {
                all.push(record(*server, Type::A, v4.octets().to_vec()));
            }
        }
    }
    // Addresses outside the zone would be glue that no referral needs.
    all.retain(|r| r.owner.as_name().is_at_or_below(apex.as_name()));
    let mut other = || plans[dice.below(plans.len())].apex;
    let aliases = [("alias", "www"), ("far", "www"), ("further", "alias"), ("gone", "nothing")];
    all.extend(
        aliases.map(|(owner, target)| {
            record(below(owner, &apex), Type::CNAME, wire_of(&below(target, &other())))
        }),
    );
    all.push(record(below("moved", &apex), Type::DNAME, wire_of(&below("tree", &other()))));
    let place = [10, 0, at as u8, 1];
    for owner in ["www", "*.wild", "a.deep.ent", "x.tree", "*.tree"] {
        all.push(record(below(owner, &apex), Type::A, place.to_vec()));
    }
    all.push(record(below("www", &apex), Type::TXT, b"\x04text".to_vec()));
    if let Some(chain) = &plan.chain {
        let key = key(at);
        all.push(record(apex, Type::DNSKEY, key.dnskey.clone()));
        let sign = |owner, rtype, ttl, rdatas: &[Vec<u8>]| {
            vec![key.sign(apex.as_name(), owner, rtype, ttl, rdatas, VALID)]
        };
        all = sign_by(apex.as_name(), &all, chain, &sign);
    }
    ModelZone::new(apex.as_name(), &all)
}
