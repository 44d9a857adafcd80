//! The zones of the small Internet, from a seed: their names, how each is signed, how it is broken, its
//! servers, and their address families. The keys are new each time; no comparison depends on them.

use super::links::Links;
use crate::name::Name;
use crate::rng::Rng;
use crate::servers::Kind;
use crate::zones::{self, Zone};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

/// The authoritative servers, in the order of their networks: see [`addresses`].
pub(crate) const HOSTS: [Kind; 4] = [Kind::Nsd, Kind::Knot, Kind::Bind, Kind::Nomen];
/// Name of the root server.
const ROOT_SERVER: &str = "a.root-servers.one.";
/// Number of addresses per server and family.
const ADDRESSES: u8 = 4;
/// Prefix of the names of additional hosts; no other name has it.
pub(crate) const HOST: &str = "node";
/// Addresses without a server.
pub(crate) const UNUSED: [IpAddr; 2] = of_both(9, 9);
/// Addresses that receive packets and never answer, as if the packets were lost.
pub(crate) const SILENT: [IpAddr; 2] = of_both(9, 8);

/// Size of the small Internet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Number of zones below each top-level domain.
    pub per_tld: usize,
    /// Number of additional hosts: this many in all valid signed zones together, and as many in the unsigned
    /// ones.
    pub hosts: usize,
    /// Whether servers have only IPv4.
    pub only4: bool,
}

impl Default for Extent {
    fn default() -> Self {
        Self { per_tld: 9, hosts: 0, only4: false }
    }
}

impl Extent {
    /// Returns how a name server is reached, given how it would be with both families.
    fn reach(self, reach: Reach) -> Reach {
        if self.only4 { Reach::Only4 } else { reach }
    }
}

/// Returns the addresses at which a program serves its zones: IPv4, then IPv6.
pub(crate) fn addresses(kind: Kind) -> Vec<SocketAddr> {
    let by = |family: usize| (1..=ADDRESSES).map(move |n| SocketAddr::new(address(kind, n)[family], 53));
    by(0).chain(by(1)).collect()
}

/// Returns an IPv4 and an IPv6 address of a program.
fn address(kind: Kind, n: u8) -> [IpAddr; 2] {
    let network = HOSTS.iter().position(|k| *k == kind).map_or(0, |at| at as u8 + 1);
    of_both(network, n)
}

/// Returns the same host in the benchmarking networks of both families (RFC 2544, RFC 5180).
pub(crate) const fn of_both(network: u8, host: u8) -> [IpAddr; 2] {
    let v6 = Ipv6Addr::new(0x2001, 2, 0, network as u16, 0, 0, 0, host as u16);
    [IpAddr::V4(Ipv4Addr::new(198, 18, network, host)), IpAddr::V6(v6)]
}

/// How a name server can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Both,
    Only4,
    Only6,
    /// It has addresses of both families, and is silent by IPv4.
    Silent4,
    /// It has addresses of both families, and is silent by IPv6.
    Silent6,
}

impl Reach {
    fn pick(rng: &mut Rng) -> Self {
        match rng.below(100) {
            0..35 => Self::Both,
            35..55 => Self::Only4,
            55..75 => Self::Only6,
            75..88 => Self::Silent4,
            _ => Self::Silent6,
        }
    }

    /// Returns the addresses that a host's name has.
    fn of(self, [v4, v6]: [IpAddr; 2]) -> Vec<IpAddr> {
        match self {
            Self::Both => vec![v4, v6],
            Self::Only4 => vec![v4],
            Self::Only6 => vec![v6],
            Self::Silent4 => vec![SILENT[0], v6],
            Self::Silent6 => vec![v4, SILENT[1]],
        }
    }
}

/// Whether a resolver with only one address family reaches a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alone {
    /// All delegations on the way lead to servers that answer.
    Reached,
    /// Either not by the delegations, but a server of a parent zone serves the zone as well, and may be
    /// asked; or by the delegations, but one of them also leads to servers that do not answer, which may take
    /// all the available time.
    ByChance,
    /// It does not.
    Cut,
}

/// Condition of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Condition {
    /// Signed, with DS.
    Secure,
    /// Not signed.
    Unsigned,
    /// Signed, without DS.
    Island,
    /// Signed; its DS has an unknown algorithm.
    UnknownAlgorithm,
    /// Signed; its DS has an unknown digest type.
    UnknownDigest,
    /// Signed with 50 iterations of NSEC3: the most that BIND's signer accepts and all resolvers support.
    Iterations,
    /// Signed; all signatures have expired.
    Expired,
    /// Signed; its DS is that of another key.
    WrongDs,
    /// Signed; the data of one name was changed afterwards.
    Tampered,
    /// With DS, but served without signatures.
    Stripped,
    /// Signed, but served without NSEC or NSEC3.
    Unproven,
    /// Its servers refuse to answer for it.
    Lame,
    /// Its servers do not exist.
    Dead,
}

/// The conditions of zones below top-level domains, assigned in turn.
const CONDITIONS: [Condition; 20] = [
    Condition::Secure,
    Condition::Unsigned,
    Condition::Secure,
    Condition::Expired,
    Condition::Secure,
    Condition::Unsigned,
    Condition::Tampered,
    Condition::Secure,
    Condition::Island,
    Condition::Unsigned,
    Condition::Secure,
    Condition::WrongDs,
    Condition::UnknownAlgorithm,
    Condition::Secure,
    Condition::Stripped,
    Condition::UnknownDigest,
    Condition::Lame,
    Condition::Iterations,
    Condition::Unproven,
    Condition::Dead,
];

/// How non-existence is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chain {
    Nsec,
    Nsec3 { iterations: u16, salt: &'static str, opt_out: bool },
}

/// How a zone is signed.
#[derive(Clone, Copy, Debug)]
struct Signing {
    algorithm: &'static str,
    chain: Chain,
    /// Whether one key signs everything (RFC 6781, section 3.1: single-type signing scheme).
    one_key: bool,
}

const ALGORITHMS: [&str; 5] = ["ECDSAP256SHA256", "ED25519", "RSASHA256", "ECDSAP384SHA384", "RSASHA512"];
const CHAINS: [Chain; 5] = [
    Chain::Nsec,
    Chain::Nsec3 { iterations: 0, salt: "-", opt_out: false },
    Chain::Nsec3 { iterations: 0, salt: "-", opt_out: true },
    Chain::Nsec3 { iterations: 5, salt: "ab12", opt_out: false },
    Chain::Nsec3 { iterations: 1, salt: "5a17", opt_out: true },
];

/// A zone before it is written.
#[derive(Debug)]
struct Plan {
    name: String,
    parent: usize,
    condition: Condition,
    signing: Signing,
    /// The programs that serve it.
    hosts: Vec<Kind>,
    /// Its name servers.
    servers: Vec<NameServer>,
    /// Records that other zones need in it: addresses of name servers.
    more: String,
}

/// A name server of a zone.
#[derive(Clone, Debug)]
struct NameServer {
    name: String,
    addresses: Vec<IpAddr>,
    /// The program at these addresses.
    kind: Kind,
    /// The zone with its addresses, if that is another one; there is no glue then.
    home: Option<usize>,
}

/// The small Internet.
#[derive(Debug)]
pub(crate) struct Sites {
    /// Its zones, each with the programs that do not serve it.
    pub zones: Vec<Zone>,
    /// The condition of each zone, by apex.
    pub conditions: BTreeMap<Name, Condition>,
    /// The links between names.
    pub links: Links,
    /// Whether resolvers with only IPv4, and with only IPv6, reach each zone, by apex.
    pub alone: BTreeMap<Name, [Alone; 2]>,
    /// DS of the root's key in presentation format: tag, algorithm, digest type, digest.
    pub anchor: String,
    /// The root server's addresses.
    pub root: Vec<IpAddr>,
}

impl Sites {
    /// Plans, writes and signs all zones in `dir`.
    pub(crate) fn make(dir: &Path, seed: u64, extent: Extent) -> Result<Self, String> {
        let mut rng = Rng::new(seed ^ 0x1237_0000);
        let plans = plan(&mut rng, extent);
        let mut texts: Vec<String> = (0..plans.len()).map(|at| text(&plans, at, &mut rng)).collect();
        let conditions = conditions(&plans)?;
        for own in [Condition::Secure, Condition::Unsigned] {
            more_hosts(&mut texts, &plans, &conditions, own, extent.hosts)?;
        }
        let mut zones = Vec::new();
        let mut anchor = String::new();
        // Children first: the DS of each is added to its parent zone.
        for (at, plan) in plans.iter().enumerate().rev() {
            let (zone, ds) = write(dir, plan, &texts[at])?;
            zones.push(zone);
            match ds {
                Some(ds) if at == 0 => anchor = ds,
                Some(ds) => {
                    let _ = writeln!(texts[plan.parent], "{} 3600 DS {ds}", plan.name);
                }
                None => {}
            }
        }
        zones.reverse();
        let links = Links::read(&zones)?;
        let alone = zones.iter().zip(alone(&plans)).map(|(z, alone)| (z.name.clone(), alone)).collect();
        Ok(Self {
            zones,
            conditions,
            links,
            alone,
            anchor,
            root: extent.reach(Reach::Both).of(address(Kind::Nsd, 1)),
        })
    }

    /// Returns the zones below top-level domains in condition [`Condition::Secure`] or
    /// [`Condition::Unsigned`] with no worse zone above.
    pub(crate) fn sound(&self, own: Condition) -> Vec<&Zone> {
        self.zones.iter().filter(|zone| is_sound(&self.conditions, &zone.name, own)).collect()
    }
}

fn conditions(plans: &[Plan]) -> Result<BTreeMap<Name, Condition>, String> {
    let named = |plan: &Plan| {
        let name = Name::from_text(&plan.name).ok_or_else(|| format!("{}: not a name", plan.name))?;
        Ok((name, plan.condition))
    };
    plans.iter().map(named).collect()
}

fn is_sound(conditions: &BTreeMap<Name, Condition>, name: &Name, own: Condition) -> bool {
    let no_worse = |above: Condition| above == Condition::Secure || above == own;
    let mut above = conditions.iter().filter(|(apex, _)| name.is_under(apex) && *apex != name);
    name.0.len() > 1 && conditions.get(name) == Some(&own) && above.all(|(_, condition)| no_worse(*condition))
}

/// Adds `count` hosts to the sound zones in a condition, evenly. Their names begin with [`HOST`].
fn more_hosts(
    texts: &mut [String],
    plans: &[Plan],
    conditions: &BTreeMap<Name, Condition>,
    own: Condition,
    count: usize,
) -> Result<(), String> {
    let is_one =
        |plan: &Plan| Name::from_text(&plan.name).is_some_and(|name| is_sound(conditions, &name, own));
    let chosen: Vec<usize> = (0..plans.len()).filter(|at| is_one(&plans[*at])).collect();
    if chosen.is_empty() {
        return Err(format!("the small Internet has no sound zone that is {own:?}"));
    }
    let each = count.div_ceil(chosen.len());
    for at in chosen {
        for host in 0..each {
            let _ = writeln!(texts[at], "{HOST}{host} A 192.0.2.{}", host % 256);
        }
    }
    Ok(())
}

/// Returns for each zone whether resolvers with only IPv4, and with only IPv6, reach it.
fn alone(plans: &[Plan]) -> Vec<[Alone; 2]> {
    let [v4, v6] = [IpAddr::is_ipv4, IpAddr::is_ipv6].map(|is_mine: fn(&IpAddr) -> bool| {
        let (reached, near) = (reached(plans, is_mine, false), reached(plans, is_mine, true));
        let sure = without_detours(plans, &reached);
        let each = sure.into_iter().zip(reached.into_iter().zip(near)).map(|each| match each {
            (true, _) => Alone::Reached,
            (_, (false, false)) => Alone::Cut,
            _ => Alone::ByChance,
        });
        each.collect::<Vec<_>>()
    });
    v4.into_iter().zip(v6).map(|(v4, v6)| [v4, v6]).collect()
}

/// Returns which reached zones have no name server whose address is in an unreachable zone. A resolver that
/// looks such an address up may have no time left for the other server.
fn without_detours(plans: &[Plan], reached: &[bool]) -> Vec<bool> {
    let mut all = reached.to_vec();
    for _ in 0..plans.len() {
        for (at, plan) in plans.iter().enumerate() {
            all[at] &= all[plan.parent]
                && plan.servers.iter().all(|server| server.home.is_none_or(|home| all[home]));
        }
    }
    all
}

/// Returns which zones can be reached by one address family through delegations; with `near`, also through
/// servers of a parent zone that serve the zone as well.
fn reached(plans: &[Plan], is_mine: fn(&IpAddr) -> bool, near: bool) -> Vec<bool> {
    let mut all = vec![true; plans.len()];
    // A zone that depends on an unreachable one is unreachable; repeated until nothing changes.
    for _ in 0..plans.len() {
        for (at, plan) in plans.iter().enumerate() {
            let answers = |server: &NameServer| {
                let there = |at: &&IpAddr| !UNUSED.contains(at) && !SILENT.contains(at);
                server.home.is_none_or(|home| all[home]) && server.addresses.iter().filter(there).any(is_mine)
            };
            let delegated = all[plan.parent] && plan.servers.iter().any(answers);
            let mut above =
                std::iter::successors(Some(at), |at| (*at > 0).then(|| plans[*at].parent)).skip(1);
            let has_it = |above: &Plan| {
                above.servers.iter().any(|server| plan.hosts.contains(&server.kind) && answers(server))
            };
            let is_reached = delegated || near && above.any(|at| all[at] && has_it(&plans[at]));
            all[at] &= is_reached;
        }
    }
    all
}

/// Plans the zones.
fn plan(rng: &mut Rng, extent: Extent) -> Vec<Plan> {
    let root = extent.reach(Reach::Both).of(address(Kind::Nsd, 1));
    let signing = |algorithm, chain| Signing { algorithm, chain, one_key: false };
    let mut plans = vec![Plan {
        name: ".".to_owned(),
        parent: 0,
        condition: Condition::Secure,
        signing: signing("RSASHA256", Chain::Nsec),
        hosts: vec![Kind::Nsd],
        servers: vec![NameServer {
            name: ROOT_SERVER.to_owned(),
            addresses: root.clone(),
            kind: Kind::Nsd,
            home: None,
        }],
        more: String::new(),
    }];
    let tlds = [
        ("one.", Condition::Secure, signing("ECDSAP256SHA256", CHAINS[0]), Kind::Knot, Reach::Both),
        ("two.", Condition::Secure, signing("RSASHA256", CHAINS[2]), Kind::Bind, Reach::Silent6),
        ("three.", Condition::Secure, signing("ED25519", CHAINS[1]), Kind::Nomen, Reach::Both),
        ("four.", Condition::Unsigned, signing("ED25519", CHAINS[0]), Kind::Knot, Reach::Silent4),
        ("five.", Condition::Secure, signing("ECDSAP384SHA384", CHAINS[0]), Kind::Nomen, Reach::Only6),
        ("six.", Condition::Secure, signing("RSASHA512", CHAINS[4]), Kind::Knot, Reach::Only4),
    ];
    for (name, condition, signing, kind, reach) in tlds {
        let servers = vec![NameServer {
            name: format!("ns.nic.{name}"),
            addresses: extent.reach(reach).of(address(kind, 1 + rng.below(4) as u8)),
            kind,
            home: None,
        }];
        let more = String::new();
        let name = name.to_owned();
        plans.push(Plan { name, parent: 0, condition, signing, hosts: vec![kind], servers, more });
    }
    // The root server's own name, which the root has only as glue.
    plans[1].more += &lines(ROOT_SERVER, &root);
    for at in 0..extent.per_tld * tlds.len() {
        let parent = 1 + at % tlds.len();
        // Each top-level domain begins with another condition.
        let condition = CONDITIONS[(at + at / tlds.len()) % CONDITIONS.len()];
        let name =
            format!("{}{at}.{}", rng.pick(&["ash", "birch", "cedar", "elm", "fir"]), plans[parent].name);
        add(&mut plans, name, parent, condition, extent, rng);
        let below = plans.len() - 1;
        if rng.chance(50) {
            let condition =
                *rng.pick(&[Condition::Secure, Condition::Secure, Condition::Unsigned, Condition::Expired]);
            let label = *rng.pick(&["sub", "a.b", "child"]);
            let name = format!("{label}.{}", plans[below].name);
            add(&mut plans, name, below, condition, extent, rng);
        }
    }
    plans
}

/// Adds a zone with one or two name servers.
fn add(
    plans: &mut Vec<Plan>,
    name: String,
    parent: usize,
    condition: Condition,
    extent: Extent,
    rng: &mut Rng,
) {
    let algorithm = *rng.pick(&ALGORITHMS);
    let signing = Signing {
        algorithm,
        chain: match condition {
            Condition::Iterations => Chain::Nsec3 { iterations: 50, salt: "-", opt_out: false },
            _ => *rng.pick(&CHAINS),
        },
        one_key: rng.chance(30),
    };
    // Most servers of a parent do not serve the child, so that there are referrals.
    let above = &plans[parent].hosts;
    let fit = |kind: &&Kind| condition == Condition::Unproven || !above.contains(kind);
    let mut apart: Vec<Kind> = HOSTS.iter().filter(fit).copied().collect();
    if rng.chance(10) {
        apart.extend(above.iter().filter(|_| condition != Condition::Unproven));
    }
    let first = if condition == Condition::Unproven { Kind::Nsd } else { *rng.pick(&apart) };
    let mut hosts = vec![first];
    let second = *rng.pick(&apart);
    if second != first && condition != Condition::Unproven && rng.chance(40) {
        hosts.push(second);
    }
    let mut servers = Vec::new();
    for (n, kind) in hosts.clone().into_iter().enumerate() {
        let addresses = extent.reach(Reach::pick(rng)).of(match condition {
            Condition::Dead => UNUSED,
            _ => address(kind, 1 + rng.below(usize::from(ADDRESSES)) as u8),
        });
        let fits = |(_, plan): &(usize, &mut Plan)| {
            let sound = matches!(plan.condition, Condition::Secure | Condition::Unsigned) && plan.parent < 7;
            sound && plan.servers.iter().all(|server| server.home.is_none())
        };
        let elsewhere: Vec<(usize, &mut Plan)> = plans.iter_mut().enumerate().skip(1).filter(fits).collect();
        let chosen = rng.below(elsewhere.len());
        match elsewhere.into_iter().nth(chosen).filter(|_| rng.chance(25)) {
            // Without glue: the address must be looked up.
            Some((home, other)) => {
                let label = format!("ns{n}-{}", name.trim_end_matches('.').replace('.', "-"));
                let name = format!("{label}.{}", other.name);
                other.more += &lines(&name, &addresses);
                servers.push(NameServer { name, addresses, kind, home: Some(home) });
            }
            None => servers.push(NameServer { name: format!("ns{n}.{name}"), addresses, kind, home: None }),
        }
    }
    if condition == Condition::Lame {
        hosts.clear();
    }
    plans.push(Plan { name, parent, condition, signing, hosts, servers, more: String::new() });
}

/// Returns the address records of a name server as lines.
fn lines(name: &str, addresses: &[IpAddr]) -> String {
    let line = |at: &IpAddr| format!("{name} 3600 {} {at}\n", if at.is_ipv4() { "A" } else { "AAAA" });
    addresses.iter().map(line).collect()
}

/// Returns a zone's NS records, with glue.
fn delegation(plan: &Plan) -> String {
    let of = |server: &NameServer| {
        let glue =
            if server.home.is_none() && server.name != ROOT_SERVER { &server.addresses[..] } else { &[] };
        format!("{} NS {}\n{}", plan.name, server.name, lines(&server.name, glue))
    };
    plan.servers.iter().map(of).collect()
}

/// Returns the zone file, without DS and the records that signing adds.
fn text(plans: &[Plan], at: usize, rng: &mut Rng) -> String {
    let plan = &plans[at];
    let mut out = String::from("$TTL 3600\n");
    let first = &plan.servers[0].name;
    let _ = writeln!(out, "@ SOA {first} hostmaster.nic.one. 1 3600 600 86400 300");
    out += &plan.more;
    out += &delegation(plan);
    for (child, below) in plans.iter().enumerate().filter(|(child, p)| *child > 0 && p.parent == at) {
        debug_assert!(child > at, "parents come first");
        out += &delegation(below);
    }
    if at == 0 {
        out += &lines(ROOT_SERVER, &address(Kind::Nsd, 1));
    } else {
        contents(&mut out, plans, plan.parent == 0, rng);
    }
    out
}

/// Adds the names that every zone except the root has.
fn contents(out: &mut String, plans: &[Plan], is_tld: bool, rng: &mut Rng) {
    let other = |rng: &mut Rng| loop {
        let name = &rng.pick(plans).name;
        if name != "." {
            return name.clone();
        }
    };
    let n = rng.byte();
    let _ = write!(
        out,
        "www A 192.0.2.{n}\nwww A 192.0.2.1\nwww AAAA 2001:db8::{n:x}\ntxt TXT \"some text\" \"{n}\"\n\
         mail MX 10 www\nalias CNAME www\nchain CNAME alias\na.deep.ent A 192.0.2.{n}\n\
         _sip._tcp SRV 0 0 5060 www\n"
    );
    if is_tld {
        return;
    }
    let _ = write!(
        out,
        "@ MX 10 mail\n@ TXT \"v=spf1 -all\"\n@ A 192.0.2.{n}\nmail MX 20 www.{}\nfar CNAME www.{}\n\
         further CNAME far.{}\ngone CNAME nothing.{}\nloop CNAME pool\npool CNAME loop\n\
         *.wild A 192.0.2.{n}\n*.wild TXT wild\nhere.wild TXT here\n*.walias CNAME www.{}\n\
         moved DNAME tree.{}\nx.tree A 192.0.2.{n}\ny.tree TXT y\n*.stars.tree A 192.0.2.{n}\n\
         caa CAA 0 issue \"ca.example\"\nsvc HTTPS 1 . alpn=h2\n",
        other(rng),
        other(rng),
        other(rng),
        other(rng),
        other(rng),
        other(rng)
    );
    for host in 0..6 + rng.below(20) {
        let _ = writeln!(out, "h{host} A 192.0.2.{host}");
    }
}

/// Writes a zone, signs it unless it is unsigned, and returns it with its DS for the parent.
fn write(dir: &Path, plan: &Plan, text: &str) -> Result<(Zone, Option<String>), String> {
    let mut zone = zones::plain(dir, &plan.name, text)?;
    zone.source = zone.full.clone();
    let mut ds = None;
    if plan.condition != Condition::Unsigned {
        let keys = dir.join(format!("{}.keys", zones::file_stem(&plan.name)));
        let secure_entry = make_keys(&keys, plan)?;
        if plan.condition != Condition::Stripped {
            sign(&mut zone, &keys, plan)?;
        }
        ds = ds_of(&secure_entry, plan.condition);
    }
    zone.refused_by = HOSTS.into_iter().filter(|kind| !plan.hosts.contains(kind)).collect();
    Ok((zone, ds))
}

/// Makes a zone's keys, and returns the DS of the key-signing key.
fn make_keys(keys: &Path, plan: &Plan) -> Result<String, String> {
    fs::create_dir_all(keys).map_err(|e| format!("{}: {e}", keys.display()))?;
    let mut ds = String::new();
    for flags in [&["-f", "KSK"][..], &[]] {
        if flags.is_empty() && plan.signing.one_key {
            continue;
        }
        let mut keygen = Command::new("dnssec-keygen");
        keygen.args(["-q", "-a", plan.signing.algorithm]).args(flags).arg("-K").arg(keys);
        if plan.signing.algorithm.starts_with("RSA") {
            keygen.args(["-b", "1280"]);
        }
        let name = zones::output(keygen.arg(&plan.name))?;
        if !flags.is_empty() {
            let mut of_key = Command::new("dnssec-dsfromkey");
            let line = zones::output(of_key.arg("-2").arg(keys.join(format!("{}.key", name.trim()))))?;
            ds = line.split_once(" DS ").map(|(_, ds)| ds.trim().to_owned()).unwrap_or_default();
        }
    }
    Ok(ds)
}

/// Returns the DS that the parent publishes, if it does.
fn ds_of(good: &str, condition: Condition) -> Option<String> {
    let mut words: Vec<String> = good.split(' ').map(str::to_owned).collect();
    match condition {
        Condition::Island => return None,
        Condition::UnknownAlgorithm => words[1] = "200".to_owned(),
        Condition::UnknownDigest => words[2] = "200".to_owned(),
        Condition::WrongDs => {
            let last = words.last_mut()?;
            let other = if last.ends_with('0') { "1" } else { "0" };
            last.replace_range(last.len() - 1.., other);
        }
        _ => {}
    }
    Some(words.join(" "))
}

/// Signs a zone, and breaks it according to its condition.
fn sign(zone: &mut Zone, keys: &Path, plan: &Plan) -> Result<(), String> {
    let out = zone.full.with_extension("signed");
    let mut signzone = Command::new("dnssec-signzone");
    signzone.args(["-q", "-P", "-S", "-d"]).arg(keys).arg("-K").arg(keys);
    signzone.args(["-o", &plan.name, "-f"]).arg(&out);
    signzone.arg(if plan.signing.one_key { "-z" } else { "-x" });
    signzone.args(match plan.condition {
        Condition::Expired => ["-s", "20250101000000", "-e", "20250201000000"],
        _ => ["-s", "20260101000000", "-e", "20380101000000"],
    });
    if let Chain::Nsec3 { iterations, salt, opt_out } = plan.signing.chain {
        signzone.args(["-3", salt, "-H", &iterations.to_string()]);
        if opt_out {
            signzone.arg("-A");
        }
    }
    zones::run(signzone.arg(&zone.full))?;
    zones::expand(&plan.name, &out, &zone.full)?;
    let text = fs::read_to_string(&zone.full).map_err(|e| e.to_string())?;
    let is = |line: &str, rtype: &str| line.split_ascii_whitespace().nth(3) == Some(rtype);
    let covers =
        |line: &str, rtype: &str| is(line, "RRSIG") && line.split_ascii_whitespace().nth(4) == Some(rtype);
    let text: String = match plan.condition {
        Condition::Tampered => {
            text.replace(" 192.0.2.1\n", " 192.0.2.250\n").replace("\t192.0.2.1\n", "\t192.0.2.250\n")
        }
        Condition::Unproven => {
            let proves =
                |line: &str| ["NSEC", "NSEC3", "NSEC3PARAM"].iter().any(|t| is(line, t) || covers(line, t));
            text.lines().filter(|line| !proves(line)).map(|line| line.to_owned() + "\n").collect()
        }
        _ => text,
    };
    fs::write(&zone.full, &text).map_err(|e| e.to_string())?;
    zone.signed = true;
    zone.nodes.clear();
    zones::read_nodes(zone, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sound_zones_share_the_hosts_and_have_nothing_worse_above_them() {
        for per_tld in [1, 9] {
            let mut rng = Rng::new(1);
            let plans = plan(&mut rng, Extent { per_tld, ..Extent::default() });
            let conditions = conditions(&plans).unwrap();
            assert_eq!(conditions.len(), plans.len(), "a name twice");
            let mut texts: Vec<String> = (0..plans.len()).map(|at| text(&plans, at, &mut rng)).collect();
            for own in [Condition::Secure, Condition::Unsigned] {
                let before = texts.clone();
                more_hosts(&mut texts, &plans, &conditions, own, 1000).unwrap();
                let mut all = 0;
                for (at, plan) in plans.iter().enumerate() {
                    let added = texts[at].matches(HOST).count() - before[at].matches(HOST).count();
                    let mut above = std::iter::successors(Some(plan), |plan| Some(&plans[plan.parent]));
                    let no_worse = |c: Condition| c == Condition::Secure || c == own;
                    let sound = plan.condition == own
                        && plan.parent > 0
                        && above.by_ref().take(4).all(|plan| no_worse(plan.condition));
                    assert_eq!(added > 0, sound, "{} {own:?}", plan.name);
                    all += added;
                }
                assert!((1000..1100).contains(&all), "{all}");
            }
        }
    }

    #[test]
    fn no_other_name_is_taken_for_a_host() {
        let mut rng = Rng::new(1);
        let plans = plan(&mut rng, Extent::default());
        let texts: Vec<String> = (0..plans.len()).map(|at| text(&plans, at, &mut rng)).collect();
        assert!(texts.iter().all(|text| !text.lines().any(|line| line.starts_with(HOST))));
    }
}
