//! The zones of the small Internet, from a seed: which there are, how each is signed, what is wrong with it, and who serves
//! it. Their keys are made anew each time; nothing that is compared depends on them.

use crate::name::Name;
use crate::rng::Rng;
use crate::servers::Kind;
use crate::zones::{self, Zone};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

/// Those that serve zones, in the order of their networks: see [`addresses`].
pub(crate) const HOSTS: [Kind; 4] = [Kind::Nsd, Kind::Knot, Kind::Bind, Kind::Nomen];
/// Addresses of each of them.
const ADDRESSES: u8 = 4;
/// What the names of additional hosts begin with, and no other name does.
pub(crate) const HOST: &str = "node";
/// Nobody listens here.
const NOBODY: Ipv4Addr = Ipv4Addr::new(198, 18, 9, 9);

/// How large the small Internet is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Zones below each top-level domain.
    pub per_tld: usize,
    /// Hosts beyond those of every zone: so many in all sound zones with signatures together, and in those without.
    pub hosts: usize,
}

impl Default for Extent {
    fn default() -> Self {
        Self { per_tld: 9, hosts: 0 }
    }
}

/// Where a program serves its zones.
pub(crate) fn addresses(kind: Kind) -> Vec<SocketAddr> {
    (1..=ADDRESSES).map(|n| SocketAddr::from((address(kind, n), 53))).collect()
}

fn address(kind: Kind, n: u8) -> Ipv4Addr {
    let network = HOSTS.iter().position(|k| *k == kind).map_or(0, |at| at as u8 + 1);
    Ipv4Addr::new(198, 18, network, n)
}

/// How it is with a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Condition {
    /// Signed, with DS.
    Secure,
    /// Not signed.
    Unsigned,
    /// Signed, without DS.
    Island,
    /// Signed, and its DS names an algorithm that nobody has.
    UnknownAlgorithm,
    /// Signed, and its DS has a digest of a type that nobody has.
    UnknownDigest,
    /// Signed with 100 iterations of NSEC3.
    Iterations,
    /// Signed, and the time of all signatures is over.
    Expired,
    /// Signed, and its DS is that of another key.
    WrongDs,
    /// Signed, and the data of one name changed afterwards.
    Tampered,
    /// With DS, and served without signatures.
    Stripped,
    /// Signed, and served without NSEC or NSEC3.
    Unproven,
    /// Its servers refuse to answer for it.
    Lame,
    /// Its servers are not there.
    Dead,
}

/// The conditions of zones below top-level domains, one after the other.
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

/// How absence is proven.
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
    /// One key for everything (RFC 6781, section 3.1: a single-type signing scheme).
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
    /// Its name servers, with addresses where they are names in it.
    servers: Vec<(String, Option<Ipv4Addr>)>,
    /// Records of it that other zones need: addresses of name servers.
    more: String,
}

/// The small Internet.
#[derive(Debug)]
pub(crate) struct Sites {
    /// Its zones. Each says which programs it is not served by.
    pub zones: Vec<Zone>,
    /// How it is with each, by apex.
    pub conditions: BTreeMap<Name, Condition>,
    /// DS of the root's key, as text: tag, algorithm, digest type, digest.
    pub anchor: String,
    /// The root server.
    pub root: Ipv4Addr,
}

impl Sites {
    /// Plans, writes and signs all zones in `dir`.
    pub(crate) fn make(dir: &Path, seed: u64, extent: Extent) -> Result<Self, String> {
        let mut rng = Rng::new(seed ^ 0x1237_0000);
        let plans = plan(&mut rng, extent.per_tld);
        let mut texts: Vec<String> = (0..plans.len()).map(|at| text(&plans, at, &mut rng)).collect();
        let conditions = conditions(&plans)?;
        for own in [Condition::Secure, Condition::Unsigned] {
            more_hosts(&mut texts, &plans, &conditions, own, extent.hosts)?;
        }
        let mut zones = Vec::new();
        let mut anchor = String::new();
        // Children first: the DS of each goes into the zone above.
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
        Ok(Self { zones, conditions, anchor, root: address(Kind::Nsd, 1) })
    }

    /// Zones below top-level domains in this condition, [`Condition::Secure`] or [`Condition::Unsigned`], where nothing
    /// above is worse.
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

/// Adds so many hosts to the sound zones of a condition, to each the same number. Their names begin with [`HOST`].
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

/// Which zones there are.
fn plan(rng: &mut Rng, per_tld: usize) -> Vec<Plan> {
    let signing = |algorithm, chain| Signing { algorithm, chain, one_key: false };
    let mut plans = vec![Plan {
        name: ".".to_owned(),
        parent: 0,
        condition: Condition::Secure,
        signing: signing("RSASHA256", Chain::Nsec),
        hosts: vec![Kind::Nsd],
        servers: vec![("a.root-servers.one.".to_owned(), None)],
        more: String::new(),
    }];
    let tlds = [
        ("one.", Condition::Secure, signing("ECDSAP256SHA256", CHAINS[0]), Kind::Knot),
        ("two.", Condition::Secure, signing("RSASHA256", CHAINS[2]), Kind::Bind),
        ("three.", Condition::Secure, signing("ED25519", CHAINS[1]), Kind::Nomen),
        ("four.", Condition::Unsigned, signing("ED25519", CHAINS[0]), Kind::Knot),
        ("five.", Condition::Secure, signing("ECDSAP384SHA384", CHAINS[0]), Kind::Nomen),
        ("six.", Condition::Secure, signing("RSASHA512", CHAINS[4]), Kind::Knot),
    ];
    for (name, condition, signing, kind) in tlds {
        let servers = vec![(format!("ns.nic.{name}"), Some(address(kind, 1 + rng.below(4) as u8)))];
        let more = String::new();
        let name = name.to_owned();
        plans.push(Plan { name, parent: 0, condition, signing, hosts: vec![kind], servers, more });
    }
    // The root server's own name, which the root knows by glue alone.
    plans[1].more += &format!("a.root-servers 3600 A {}\n", address(Kind::Nsd, 1));
    for at in 0..per_tld * tlds.len() {
        let parent = 1 + at % tlds.len();
        // Each top-level domain has other conditions first.
        let condition = CONDITIONS[(at + at / tlds.len()) % CONDITIONS.len()];
        let name =
            format!("{}{at}.{}", rng.pick(&["ash", "birch", "cedar", "elm", "fir"]), plans[parent].name);
        add(&mut plans, name, parent, condition, rng);
        let below = plans.len() - 1;
        if rng.chance(50) {
            let condition =
                *rng.pick(&[Condition::Secure, Condition::Secure, Condition::Unsigned, Condition::Expired]);
            let label = *rng.pick(&["sub", "a.b", "child"]);
            let name = format!("{label}.{}", plans[below].name);
            add(&mut plans, name, below, condition, rng);
        }
    }
    plans
}

/// Adds a zone that somebody serves, with one or two name servers.
fn add(plans: &mut Vec<Plan>, name: String, parent: usize, condition: Condition, rng: &mut Rng) {
    let algorithm = *rng.pick(&ALGORITHMS);
    let signing = Signing {
        algorithm,
        chain: match condition {
            Condition::Iterations => Chain::Nsec3 { iterations: 100, salt: "-", opt_out: false },
            _ => *rng.pick(&CHAINS),
        },
        one_key: rng.chance(30),
    };
    // A parent's servers mostly do not serve the child: then there is a referral to follow.
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
        let at = match condition {
            Condition::Dead => NOBODY,
            _ => address(kind, 1 + rng.below(usize::from(ADDRESSES)) as u8),
        };
        let fits = |plan: &&mut Plan| {
            let sound = matches!(plan.condition, Condition::Secure | Condition::Unsigned) && plan.parent < 7;
            sound && plan.servers.iter().all(|(_, glue)| glue.is_some())
        };
        let elsewhere: Vec<&mut Plan> = plans.iter_mut().skip(1).filter(fits).collect();
        let chosen = rng.below(elsewhere.len());
        match elsewhere.into_iter().nth(chosen).filter(|_| rng.chance(25)) {
            // Without glue: the address has to be looked up.
            Some(other) => {
                let label = format!("ns{n}-{}", name.trim_end_matches('.').replace('.', "-"));
                let _ = writeln!(other.more, "{label} 3600 A {at}");
                servers.push((format!("{label}.{}", other.name), None));
            }
            None => servers.push((format!("ns{n}.{name}"), Some(at))),
        }
    }
    if condition == Condition::Lame {
        hosts.clear();
    }
    plans.push(Plan { name, parent, condition, signing, hosts, servers, more: String::new() });
}

/// The master file of a zone, without what signing adds and without DS.
fn text(plans: &[Plan], at: usize, rng: &mut Rng) -> String {
    let plan = &plans[at];
    let mut out = String::from("$TTL 3600\n");
    let first = &plan.servers[0].0;
    let _ = writeln!(out, "@ SOA {first} hostmaster.nic.one. 1 3600 600 86400 300");
    out += &plan.more;
    for (server, glue) in &plan.servers {
        let _ = writeln!(out, "@ NS {server}");
        if let Some(glue) = glue {
            let _ = writeln!(out, "{server} A {glue}");
        }
    }
    for (child, below) in plans.iter().enumerate().filter(|(child, p)| *child > 0 && p.parent == at) {
        debug_assert!(child > at, "parents come first");
        for (server, glue) in &below.servers {
            let _ = writeln!(out, "{} NS {server}", below.name);
            if let Some(glue) = glue {
                let _ = writeln!(out, "{server} A {glue}");
            }
        }
    }
    if at == 0 {
        let _ = writeln!(out, "a.root-servers.one. A {}", address(Kind::Nsd, 1));
    } else {
        contents(&mut out, plans, plan.parent == 0, rng);
    }
    out
}

/// What every zone but the root has.
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

/// Writes a zone, signed if it is, and returns it with the DS that the zone above has of it.
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

/// Makes the keys of a zone, and returns the DS of the one that signs keys.
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

/// The DS as the zone above has it, if it does.
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

/// Signs a zone, and does to it what its condition says.
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
            let plans = plan(&mut rng, per_tld);
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
        let plans = plan(&mut rng, 9);
        let texts: Vec<String> = (0..plans.len()).map(|at| text(&plans, at, &mut rng)).collect();
        assert!(texts.iter().all(|text| !text.lines().any(|line| line.starts_with(HOST))));
    }
}
