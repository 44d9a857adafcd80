//! Response policy zones: their rules, made from a seed so that they overlap, and their text.

use super::data::{Data, DataZones, name, under};
use crate::internet::sites::of_both;
use crate::name::Name;
use crate::rng::Rng;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses of the clients.
pub(crate) const CLIENTS: [IpAddr; 6] = [
    of_both(210, 1)[0],
    of_both(210, 2)[0],
    of_both(211, 5)[0],
    of_both(220, 77)[0],
    of_both(210, 1)[1],
    of_both(211, 5)[1],
];
/// TTL of rules.
pub(crate) const RULE_TTL: u32 = 300;

/// Kind of trigger, in the order in which rules of one zone are considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum TriggerKind {
    /// Address of the client.
    ClientIp,
    /// Name that is asked for, or the target of an alias.
    Qname,
    /// Address in the response.
    Ip,
    /// Name of a name server.
    Nsdname,
    /// Address of a name server.
    Nsip,
}

/// All kinds of triggers, in the order of [`TriggerKind`].
pub(crate) const TRIGGERS: [TriggerKind; 5] =
    [TriggerKind::ClientIp, TriggerKind::Qname, TriggerKind::Ip, TriggerKind::Nsdname, TriggerKind::Nsip];

impl TriggerKind {
    /// Returns the name as printed.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::ClientIp => "CLIENT-IP",
            Self::Qname => "QNAME",
            Self::Ip => "IP",
            Self::Nsdname => "NSDNAME",
            Self::Nsip => "NSIP",
        }
    }
}

/// An address prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Prefix {
    /// Its first address.
    pub first: IpAddr,
    /// Its length in bits.
    pub len: u8,
}

impl Prefix {
    /// Creates the prefix of this length that contains `ip`.
    pub(crate) fn of(ip: IpAddr, len: u8) -> Self {
        let first = match ip {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
                Ipv4Addr::from(u32::from(ip) & mask).into()
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
                Ipv6Addr::from(u128::from(ip) & mask).into()
            }
        };
        Self { first, len }
    }

    /// Whether the prefix contains `ip`.
    pub(crate) fn contains(self, ip: IpAddr) -> bool {
        ip.is_ipv4() == self.first.is_ipv4() && Self::of(ip, self.len) == self
    }

    /// Returns the length as if IPv4 addresses were mapped into IPv6.
    pub(crate) fn bits(self) -> u8 {
        if self.first.is_ipv4() { self.len + 96 } else { self.len }
    }

    /// Returns the labels of [`Self::text`], each after its length.
    pub(crate) fn labels(self) -> Vec<(usize, String)> {
        self.text().split('.').map(|label| (label.len(), label.to_owned())).collect()
    }

    /// Returns the labels of a trigger as text, without the label of its kind: the length, then the address
    /// backwards.
    fn text(self) -> String {
        match self.first {
            IpAddr::V4(ip) => {
                let [a, b, c, d] = ip.octets();
                format!("{}.{d}.{c}.{b}.{a}", self.len)
            }
            IpAddr::V6(ip) => {
                // The longest run of zeros is `zz`, as `::` in text.
                let text = ip.to_string();
                let (head, tail) = text.split_once("::").unwrap_or((text.as_str(), "-"));
                let words = |part: &str| part.split(':').rev().map(str::to_owned).collect::<Vec<_>>();
                let mut labels = vec![self.len.to_string()];
                match tail {
                    "-" => {}
                    "" => labels.push("zz".to_owned()),
                    tail => labels.extend(words(tail).into_iter().chain(["zz".to_owned()])),
                }
                if !head.is_empty() {
                    labels.extend(words(head));
                }
                labels.join(".")
            }
        }
    }
}

/// What a rule matches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trigger {
    ClientIp(Prefix),
    /// The name; a wildcard matches all names below its parent.
    Qname(Name),
    Ip(Prefix),
    Nsdname(Name),
    Nsip(Prefix),
}

impl Trigger {
    /// Returns its kind.
    pub(crate) fn kind(&self) -> TriggerKind {
        match self {
            Self::ClientIp(_) => TriggerKind::ClientIp,
            Self::Qname(_) => TriggerKind::Qname,
            Self::Ip(_) => TriggerKind::Ip,
            Self::Nsdname(_) => TriggerKind::Nsdname,
            Self::Nsip(_) => TriggerKind::Nsip,
        }
    }

    /// Returns the name that it matches, for triggers that are names.
    pub(crate) fn name(&self) -> Option<&Name> {
        if let Self::Qname(name) | Self::Nsdname(name) = self { Some(name) } else { None }
    }

    /// Returns the owner name, relative to the policy zone.
    pub(crate) fn owner(&self) -> String {
        let relative = |name: &Name| name.to_string().trim_end_matches('.').to_owned();
        match self {
            Self::ClientIp(prefix) => format!("{}.rpz-client-ip", prefix.text()),
            Self::Qname(name) => relative(name),
            Self::Ip(prefix) => format!("{}.rpz-ip", prefix.text()),
            Self::Nsdname(name) => format!("{}.rpz-nsdname", relative(name)),
            Self::Nsip(prefix) => format!("{}.rpz-nsip", prefix.text()),
        }
    }
}

/// What a rule does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Nxdomain,
    Nodata,
    Passthru,
    Drop,
    TcpOnly,
    /// These records.
    Local(Vec<Data>),
    /// An alias.
    Cname(Name),
    /// An alias to the name that is asked for, followed by this one.
    WildCname(Name),
}

impl Action {
    /// Returns the name as printed.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Nxdomain => "NXDOMAIN",
            Self::Nodata => "NODATA",
            Self::Passthru => "PASSTHRU",
            Self::Drop => "DROP",
            Self::TcpOnly => "TCP-only",
            Self::Local(_) => "data",
            Self::Cname(_) => "CNAME",
            Self::WildCname(_) => "*.CNAME",
        }
    }

    /// Returns the RDATA with types.
    pub(crate) fn records(&self) -> Vec<String> {
        let cname = |target: &str| vec![format!("CNAME {target}")];
        match self {
            Self::Nxdomain => cname("."),
            Self::Nodata => cname("*."),
            Self::Passthru => cname("rpz-passthru."),
            Self::Drop => cname("rpz-drop."),
            Self::TcpOnly => cname("rpz-tcp-only."),
            Self::Local(data) => data.iter().map(ToString::to_string).collect(),
            Self::Cname(target) => cname(&target.to_string()),
            Self::WildCname(suffix) => cname(&format!("*.{suffix}")),
        }
    }
}

/// What the configuration says about a policy zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Override {
    /// The action of each rule holds.
    Given,
    /// No rule holds.
    Disabled,
    /// This action holds for all rules.
    With(Action),
}

/// A response policy zone.
#[derive(Clone, Debug)]
pub(crate) struct PolicyZone {
    /// Its name.
    pub name: Name,
    /// Its configuration.
    pub given: Override,
    /// The longest TTL of its records in responses.
    pub max_ttl: u32,
    /// Its rules.
    pub rules: BTreeMap<Trigger, Action>,
}

impl PolicyZone {
    /// Returns the zone file. With `action`, all rules have that one.
    pub(crate) fn text(&self, action: Option<&Action>) -> String {
        let mut out = format!(
            "$TTL {RULE_TTL}\n$ORIGIN {}\n@ SOA localhost. root.localhost. 1 3600 600 86400 300\n@ NS localhost.\n",
            self.name
        );
        for (trigger, own) in &self.rules {
            for record in action.unwrap_or(own).records() {
                let _ = writeln!(out, "{} {record}", trigger.owner());
            }
        }
        out
    }
}

/// How the policy zones are applied in a round.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    /// The zones, in order of precedence.
    pub zones: Vec<PolicyZone>,
    /// Whether answers with signatures are rewritten for clients that set DO.
    pub break_dnssec: bool,
    /// Whether a rule about the name waits for the name's own answer.
    pub qname_wait: bool,
    /// Dots of the highest names whose name servers are compared.
    pub min_ns_dots: usize,
}

/// Makes policies.
#[derive(Debug)]
pub(crate) struct Maker<'d> {
    names: Vec<Name>,
    addresses: Vec<IpAddr>,
    servers: Vec<super::data::NameServer>,
    data: &'d DataZones,
}

impl<'d> Maker<'d> {
    /// Creates a maker for these zones.
    pub(crate) fn new(data: &'d DataZones) -> Self {
        let servers = data.zones[3..].iter().flat_map(|zone| zone.servers.iter().cloned()).collect();
        let names = data.names().iter().map(|name| instance(name, b"some")).collect();
        Self { names, addresses: data.addresses(), servers, data }
    }

    /// Makes the policy of a round.
    pub(crate) fn policy(&self, rng: &mut Rng) -> Policy {
        let count = 1 + rng.below(5);
        let overrides = rng.chance(40);
        let zones = (1..=count).map(|n| self.zone(n, overrides, rng)).collect();
        let min_ns_dots = if rng.chance(25) { 2 } else { 1 };
        Policy { zones, break_dnssec: rng.chance(35), qname_wait: rng.chance(50), min_ns_dots }
    }

    fn zone(&self, number: usize, overrides: bool, rng: &mut Rng) -> PolicyZone {
        let given = if overrides && rng.chance(50) { self.given(rng) } else { Override::Given };
        let mut rules = BTreeMap::new();
        // A zone has rules of one to three kinds, so that all pairs of kinds come up between zones.
        let mut kinds: Vec<TriggerKind> = (0..1 + rng.below(3)).map(|_| *rng.pick(&TRIGGERS)).collect();
        kinds.sort();
        kinds.dedup();
        for kind in kinds {
            // Rules about clients and name servers match much at once.
            let count = match kind {
                TriggerKind::ClientIp => 1,
                TriggerKind::Qname => 25 + rng.below(40),
                TriggerKind::Ip => 8 + rng.below(25),
                TriggerKind::Nsdname | TriggerKind::Nsip => 1 + rng.below(4),
            };
            for _ in 0..count {
                let trigger = self.trigger(kind, rng);
                let action = self.action(rng);
                rules.insert(trigger, action);
            }
        }
        let max_ttl = *rng.pick(&[5, 60, 3600]);
        PolicyZone { name: name(&format!("rpz{number}.test.")), given, max_ttl, rules }
    }

    fn given(&self, rng: &mut Rng) -> Override {
        match rng.below(8) {
            0 => Override::Disabled,
            1 => Override::With(Action::Passthru),
            2 => Override::With(Action::Nxdomain),
            3 => Override::With(Action::Nodata),
            4 => Override::With(Action::Drop),
            5 => Override::With(Action::TcpOnly),
            _ => Override::With(Action::Cname(self.target(rng))),
        }
    }

    fn trigger(&self, kind: TriggerKind, rng: &mut Rng) -> Trigger {
        match kind {
            TriggerKind::ClientIp => {
                let ip = *rng.pick(&CLIENTS);
                let len = *rng.pick(if ip.is_ipv4() { &[32, 32, 30, 24] } else { &[128, 128, 64, 48] });
                Trigger::ClientIp(Prefix::of(ip, len))
            }
            TriggerKind::Qname => Trigger::Qname(self.qname(rng)),
            TriggerKind::Ip => {
                let ip = *rng.pick(&self.addresses);
                let len =
                    *rng.pick(if ip.is_ipv4() { &[32, 32, 30, 28, 24] } else { &[128, 128, 124, 64, 48] });
                Trigger::Ip(Prefix::of(ip, len))
            }
            TriggerKind::Nsdname => {
                let server = &rng.pick(&self.servers).name;
                Trigger::Nsdname(if rng.chance(60) { server.clone() } else { server.parent().child(b"*") })
            }
            TriggerKind::Nsip => {
                let server = rng.pick(&self.servers);
                let ip = *rng.pick(&server.addresses);
                let len = *rng.pick(if ip.is_ipv4() { &[32, 32, 31, 30] } else { &[128, 127, 126] });
                Trigger::Nsip(Prefix::of(ip, len))
            }
        }
    }

    fn qname(&self, rng: &mut Rng) -> Name {
        let picked = rng.pick(&self.names).clone();
        match rng.below(100) {
            0..60 => picked,
            60..75 => picked.child(b"*"),
            75..90 => picked.parent().child(b"*"),
            90..96 => self.target(rng),
            _ => under(&picked.parent(), "gone"),
        }
    }

    fn action(&self, rng: &mut Rng) -> Action {
        match rng.below(100) {
            0..14 => Action::Nxdomain,
            14..27 => Action::Nodata,
            27..39 => Action::Passthru,
            39..46 => Action::Drop,
            46..56 => Action::TcpOnly,
            56..76 => Action::Local(local(rng)),
            76..90 => Action::Cname(self.target(rng)),
            _ => Action::WildCname(wild_target(rng)),
        }
    }

    /// Returns a name that an alias of a rule leads to.
    fn target(&self, rng: &mut Rng) -> Name {
        let garden = name("garden.bare.");
        match rng.below(10) {
            0..4 => under(&garden, rng.pick::<&str>(&["h0", "h1", "k1x0", "a.w"])),
            4 => under(&garden, "gone"),
            _ => rng.pick(&self.names).clone(),
        }
    }

    /// Returns a name to ask for: of the data, or of a rule.
    pub(crate) fn asked(&self, policy: &Policy, rng: &mut Rng) -> Name {
        let of_rules: Vec<&Name> =
            policy.zones.iter().flat_map(|zone| zone.rules.keys()).filter_map(named).collect();
        if !of_rules.is_empty() && rng.chance(30) {
            let long = b"a-label-that-is-so-long-that-a-name-with-it-is-easily-too-long";
            let label = if rng.chance(30) { &long[..] } else { b"any" };
            return instance(rng.pick::<&Name>(&of_rules), label);
        }
        match rng.below(100) {
            0..45 => rng.pick(&self.names).clone(),
            45..75 => {
                let apex = self.data.zones[3 + rng.below(self.data.zones.len() - 3)].apex.clone();
                under(&apex, &format!("k{}x{}", 1 + rng.below(4), rng.below(3)))
            }
            75..85 => {
                let apex = self.data.zones[3 + rng.below(self.data.zones.len() - 3)].apex.clone();
                let below =
                    ["x.moved", "y.moved", "b.stars.moved", "gone.moved", "c.walias", "d.w", "e.deep.w"];
                under(&apex, rng.pick::<&str>(&below))
            }
            85..95 => {
                let apex = &self.data.zones[3 + rng.below(self.data.zones.len() - 3)].apex;
                apex.child(format!("gone{}", rng.below(9)).as_bytes())
            }
            _ => rng.pick(&self.names).parent(),
        }
    }
}

fn named(trigger: &Trigger) -> Option<&Name> {
    if let Trigger::Qname(name) = trigger { Some(name) } else { None }
}

/// Returns a name that a wildcard matches; other names as they are.
fn instance(name: &Name, label: &[u8]) -> Name {
    if !name.is_wildcard() {
        return name.clone();
    }
    let instance = name.parent().child(label);
    if instance.is_legal() { instance } else { name.parent() }
}

fn local(rng: &mut Rng) -> Vec<Data> {
    let n = rng.byte();
    let a = Data::A(Ipv4Addr::new(192, 0, 2, n % 64));
    match rng.below(6) {
        0 => vec![Data::Aaaa(Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, n.into()))],
        1 => vec![Data::Txt(format!("policy {n}")), a],
        2 => vec![Data::Mx(5, name("h0.garden.bare.")), a],
        3 => vec![a, Data::A(Ipv4Addr::new(203, 0, 113, n))],
        _ => vec![a],
    }
}

/// Returns the name after the `*` of an alias; some names before it are too long together with it.
fn wild_target(rng: &mut Rng) -> Name {
    let long = "l".repeat(55);
    match rng.below(4) {
        0 => name(&format!("{long}.{long}.{long}.w.garden.bare.")),
        1 => name("gone.garden.bare."),
        _ => name("w.garden.bare."),
    }
}
