//! An independent model of response policy zones (draft-vixie-dnsop-dns-rpz-00, and BIND where that leaves
//! a choice): predicts the response to a query, and which rule decides. Naive: looks at every rule of every
//! zone.

use super::data::{Data, DataZone, DataZones, Found, NameServer};
use super::rules::{Action, Override, Policy, PolicyZone, Prefix, RULE_TTL, Trigger, TriggerKind};
use super::variants::{Variant, Variants};
use crate::name::Name;
use crate::query::{Transport, rtype};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::rc::Rc;

/// Labels of the highest names whose name servers are looked at without `min-ns-dots`.
const MIN_NS_LABELS: usize = 2;
/// TTL of blocked answers in nomen, `block-ttl`.
const BLOCK_TTL: u32 = 60;
/// TTL in BIND of a rule without records of the QTYPE, `DNS_RPZ_TTL_DEFAULT`.
const SHORT_TTL: u32 = 5;
/// Maximum number of aliases in a chain.
const MAX_CHAIN: usize = 20;

/// What a client sends.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub name: Name,
    pub qtype: u16,
    pub client: IpAddr,
    pub dnssec_ok: bool,
    pub ad: bool,
    pub cd: bool,
    pub transport: Transport,
}

/// The compared parts of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// No response.
    Silence,
    /// TC without AA; nothing else counts.
    Truncated,
    /// A whole response.
    Reply(Seen),
}

/// The contents of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub rcode: u16,
    pub aa: bool,
    /// AD; `None` where CD is set, as servers differ then without any policy.
    pub ad: Option<bool>,
    /// Owners, types and RDATA of the answer section, without RRSIG.
    pub answer: BTreeSet<(Name, u16, Vec<u8>)>,
    /// The policy zone whose SOA record is in the additional section.
    pub soa: Option<Name>,
    /// TTLs of RRsets in the answer section: of a prediction, those that rules make; `None` where they are
    /// not compared.
    pub ttls: Option<Ttls>,
}

/// TTLs of RRsets, by owner and type.
pub(crate) type Ttls = BTreeMap<(Name, u16), u32>;

impl Outcome {
    /// Changes the marks of a rewritten response, as [`Variant::Authoritative`] and [`Variant::NoSoa`] do.
    pub(crate) fn marked(mut self, marks: &[Variant]) -> Self {
        if let Self::Reply(seen) = &mut self {
            seen.aa |= seen.soa.is_some() && marks.contains(&Variant::Authoritative);
            seen.soa = seen.soa.take().filter(|_| !marks.contains(&Variant::NoSoa));
        }
        self
    }

    /// Whether a response is as predicted.
    pub(crate) fn predicts(&self, response: &Self) -> bool {
        let (Self::Reply(this), Self::Reply(other)) = (self, response) else { return self == response };
        let ttls = other.ttls.clone();
        let has_ttl = |(key, ttl): (&(Name, u16), &u32)| {
            other.ttls.as_ref().is_none_or(|ttls| ttls.get(key) == Some(ttl))
        };
        this.ttls.iter().flatten().all(has_ttl) && Seen { ttls, ..this.clone() } == *other
    }
}

/// The rule that decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    /// Index of the policy zone.
    pub zone: usize,
    /// What matched.
    pub trigger: Trigger,
    /// The action, after the override.
    pub action: Action,
    /// Number of aliases before the name.
    pub position: usize,
}

/// RCODEs.
mod rcode {
    pub(super) const NOERROR: u16 = 0;
    pub(super) const SERVFAIL: u16 = 2;
    pub(super) const NXDOMAIN: u16 = 3;
    pub(super) const UNASSIGNED: u16 = 14;
    pub(super) const YXDOMAIN: u16 = 6;
}

/// A rule that matches: its kind, how well it fits, and itself.
type Matching = (TriggerKind, Fit, Hit);

/// A name, and whether each of the changes is there on which the rules that match depend.
type MatchingKey = (Name, [bool; 7]);

/// What has been found out for one query.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    found: RefCell<HashMap<Name, Rc<Found>>>,
    matching: RefCell<HashMap<MatchingKey, Rc<Vec<Matching>>>>,
}

/// The zones and their policy, for one query.
#[derive(Debug)]
pub(crate) struct Model<'a> {
    /// The data zones.
    pub data: &'a DataZones,
    /// The policy.
    pub policy: &'a Policy,
    memo: Memo,
}

/// A response as it is made.
struct Making<'a> {
    ask: &'a Ask,
    variants: &'a Variants,
    answer: BTreeSet<(Name, u16, Vec<u8>)>,
    ttls: Ttls,
    secure: bool,
    /// The answer up to the alias of the first rule that makes one.
    kept: Option<BTreeSet<(Name, u16, Vec<u8>)>>,
    rewritten: Option<Hit>,
    /// The rule that ends rewriting.
    passed: Option<Hit>,
}

/// What comes after a name of the chain.
enum Step {
    /// The next name.
    On(Name),
    /// The end, with this RCODE.
    End(u16),
    /// A response without contents, or none.
    Other(Outcome, Hit),
}

impl<'a> Making<'a> {
    fn new(ask: &'a Ask, variants: &'a Variants) -> Self {
        let (answer, ttls) = (BTreeSet::new(), Ttls::new());
        Self { ask, variants, answer, ttls, secure: true, kept: None, rewritten: None, passed: None }
    }
}

impl Making<'_> {
    fn put(&mut self, owner: &Name, data: &Data) {
        // A chain that goes round comes to a name that has an alias already.
        let is_alias = matches!(data, Data::Cname(_)) && !self.variants.has(Variant::TwoAliases);
        if is_alias
            && self.answer.iter().any(|(name, rtype, _)| (name, *rtype) == (&owner.lower(), rtype::CNAME))
        {
            return;
        }
        self.answer.insert((owner.lower(), data.rtype(), data.to_wire()));
    }

    /// Adds a record that a rule makes.
    fn put_of_rule(&mut self, owner: &Name, data: &Data, zone: &PolicyZone, hit: &Hit) {
        let has_rdataset = match zone.rules.get(&hit.trigger) {
            Some(Action::Local(records)) => has(records, self.ask.qtype),
            _ => true,
        };
        let ttl = match zone.given {
            Override::With(_) if self.variants.has(Variant::OverrideBlockTtl) => BLOCK_TTL,
            Override::With(_) if self.variants.has(Variant::OverrideShortTtl) && !has_rdataset => SHORT_TTL,
            _ => RULE_TTL,
        };
        self.put(owner, data);
        self.ttls.insert((owner.lower(), data.rtype()), ttl.min(zone.max_ttl));
    }

    /// Whether rules apply to the next name.
    fn is_open(&self) -> bool {
        (self.passed.is_none() || self.variants.has(Variant::PassthruOnce))
            && (self.rewritten.is_none() || self.variants.has(Variant::RewritesAgain))
    }

    fn end(mut self, policy: &Policy, rcode: u16) -> (Outcome, Option<Hit>) {
        let ask = self.ask;
        if let Some(kept) = self.kept.filter(|_| self.variants.has(Variant::TargetLeftOut)) {
            self.answer = kept;
        }
        self.secure &= !self.variants.has(Variant::AdLost);
        let soa = self.rewritten.as_ref().map(|hit| policy.zones[hit.zone].name.clone());
        let seen = Seen {
            rcode,
            aa: soa.is_some() && self.variants.has(Variant::Authoritative),
            ad: (!ask.cd).then_some(self.secure && (ask.dnssec_ok || ask.ad)),
            ttls: Some(self.ttls).filter(|_| !self.answer.is_empty()),
            answer: self.answer,
            soa: soa.filter(|_| !self.variants.has(Variant::NoSoa)),
        };
        (Outcome::Reply(seen), self.rewritten.or(self.passed))
    }
}

impl<'a> Model<'a> {
    /// Creates a model for one query.
    pub(crate) fn new(data: &'a DataZones, policy: &'a Policy) -> Self {
        Self { data, policy, memo: Memo::default() }
    }

    /// Predicts the response, and the rule that decides.
    pub(crate) fn predict(&self, ask: &Ask, variants: &Variants) -> (Outcome, Option<Hit>) {
        let mut making = Making::new(ask, variants);
        let mut name = ask.name.clone();
        let mut seen = BTreeSet::new();
        for position in 0..MAX_CHAIN {
            if !seen.insert(name.lower()) && variants.has(Variant::LoopFails) {
                making.answer.clear();
                making.rewritten = None;
                making.secure = false;
                return making.end(self.policy, rcode::SERVFAIL);
            }
            let found = self.find(&name, ask.qtype);
            let decided = || match &variants.forced {
                Some(hit) => hit.clone().filter(|hit| hit.position == position),
                None => self.decide(ask, &name, &found, position, variants),
            };
            let decided = if making.is_open() { decided() } else { None };
            let applied = decided.filter(|hit| !loops(hit, ask, &making, variants));
            let step = applied.and_then(|hit| self.apply(&mut making, &name, hit));
            match step.unwrap_or_else(|| self.take(&mut making, &name, &found)) {
                Step::On(next) => name = next,
                Step::End(rcode) => return making.end(self.policy, rcode),
                Step::Other(outcome, hit) => return (outcome, Some(hit)),
            }
        }
        making.answer.clear();
        making.rewritten = None;
        making.end(self.policy, rcode::SERVFAIL)
    }

    /// Applies the rule that decides about a name; returns `None` if the name is not rewritten.
    fn apply(&self, making: &mut Making<'_>, name: &Name, hit: Hit) -> Option<Step> {
        let (ask, variants) = (making.ask, making.variants);
        let is_ns = matches!(hit.trigger.kind(), TriggerKind::Nsdname | TriggerKind::Nsip);
        if is_ns && variants.has(Variant::NsFails) {
            making.answer.clear();
            making.secure &= variants.has(Variant::AdKept);
            return Some(Step::End(rcode::SERVFAIL));
        }
        let again = || self.rule_about_data(making, name, &hit);
        if let Some(hit) = again().filter(|_| variants.has(Variant::OwnDataRewritten)) {
            return self.apply(making, name, hit);
        }
        match &hit.action {
            Action::Local(_) if is_ns && variants.has(Variant::NsDataLost) => {
                making.secure = false;
                return Some(Step::End(rcode::NOERROR));
            }
            Action::Local(data) if variants.has(Variant::DataOrAnswer) && !has(data, ask.qtype) => {
                making.rewritten = Some(hit);
                return None;
            }
            Action::Drop => return Some(Step::Other(Outcome::Silence, hit)),
            Action::TcpOnly if ask.transport == Transport::Udp => {
                return Some(Step::Other(Outcome::Truncated, hit));
            }
            Action::TcpOnly if variants.has(Variant::TcpOnlyLeaks) => {
                if variants.has(Variant::ChainDropped) {
                    making.answer.clear();
                }
                making.secure = false;
                return Some(Step::End(rcode::UNASSIGNED));
            }
            Action::TcpOnly if variants.has(Variant::TcpOnlyIsNodata) => {}
            Action::Cname(target) if variants.has(Variant::SelfAliasPasses) && *target == name.lower() => {
                making.passed = Some(hit);
                return None;
            }
            Action::TcpOnly | Action::Passthru => {
                making.passed = Some(hit);
                return None;
            }
            _ => {}
        }
        let is_secure = hit.trigger.kind() == TriggerKind::Qname || self.data.zone_of(name).signed;
        making.secure &= variants.has(Variant::AdKept) && is_secure;
        making.rewritten = Some(hit.clone());
        Some(match self.rewrite(making, name, &hit) {
            Err(rcode::YXDOMAIN) if variants.has(Variant::TooLongSilent) => {
                Step::Other(Outcome::Silence, hit)
            }
            Err(rcode) => {
                making.secure |= rcode == rcode::YXDOMAIN && variants.has(Variant::AdOfTooLong);
                Step::End(rcode)
            }
            Ok(next) => {
                making.kept.get_or_insert_with(|| making.answer.clone());
                making.secure = variants.has(Variant::AdOfTarget);
                Step::On(next)
            }
        })
    }

    /// Returns the IP rule that matches the addresses of a rule.
    fn rule_about_data(&self, making: &Making<'_>, name: &Name, hit: &Hit) -> Option<Hit> {
        let Action::Local(data) = &hit.action else { return None };
        if hit.trigger.kind() == TriggerKind::Ip {
            return None;
        }
        let wanted = data.iter().filter(|data| data.rtype() == making.ask.qtype).cloned().collect();
        let found = Found::Records(wanted);
        let zones = self.policy.zones.iter().enumerate();
        zones.filter(|(_, policy)| policy.given != Override::Disabled).find_map(|(zone, policy)| {
            let rules = policy.rules.iter().filter(|(trigger, _)| trigger.kind() == TriggerKind::Ip);
            let fit =
                |trigger: &Trigger| self.fit(policy, trigger, making.ask, name, &found, making.variants);
            let best = rules.filter_map(|(trigger, own)| Some((fit(trigger)?, trigger, own)));
            let (_, trigger, own) = best.min_by(|a, b| a.0.cmp(&b.0))?;
            let action = given(policy, own);
            Some(Hit { zone, trigger: trigger.clone(), action, position: hit.position })
        })
    }

    /// Takes what is found at a name into the answer.
    fn take(&self, making: &mut Making<'_>, name: &Name, found: &Found) -> Step {
        making.secure &= self.data.zone_of(name).signed;
        match found {
            Found::Records(records) => {
                records.iter().for_each(|data| making.put(name, data));
                Step::End(rcode::NOERROR)
            }
            Found::Alias { dname, target } => {
                let variants = making.variants;
                if let Some((owner, target)) = dname.as_ref().filter(|_| !variants.has(Variant::DnameLeftOut))
                {
                    making.put(owner, &Data::Dname(target.clone()));
                }
                making.put(name, &Data::Cname(target.clone()));
                let after_rule = making.rewritten.is_some() && variants.has(Variant::TargetOneStep);
                let ends = making.ask.qtype == rtype::CNAME || after_rule;
                if ends { Step::End(rcode::NOERROR) } else { Step::On(target.clone()) }
            }
            Found::NoData => Step::End(rcode::NOERROR),
            Found::NxDomain => Step::End(rcode::NXDOMAIN),
            Found::TooLong => Step::End(rcode::YXDOMAIN),
        }
    }

    /// Returns the hits of all rules that match somewhere on the chain, each as if it decided; with `own`,
    /// also with its own action where an override makes an alias.
    pub(crate) fn candidates(&self, ask: &Ask, variants: &Variants, own: bool) -> Vec<Hit> {
        let mut out = Vec::new();
        for (position, (name, found)) in self.chain(ask).into_iter().enumerate() {
            for (zone, policy) in self.policy.zones.iter().enumerate() {
                if policy.given == Override::Disabled {
                    continue;
                }
                let fits =
                    |trigger: &Trigger| self.fit(policy, trigger, ask, &name, &found, variants).is_some();
                let matching = policy.rules.iter().filter(|(trigger, _)| fits(trigger));
                for (trigger, action) in matching {
                    let hit = |action| Hit { zone, trigger: trigger.clone(), action, position };
                    out.push(hit(given(policy, action)));
                    if own && matches!(policy.given, Override::With(Action::Cname(_))) {
                        out.push(hit(action.clone()));
                    }
                }
            }
        }
        out
    }

    /// Whether a hit has the rule's own action in spite of an override.
    pub(crate) fn is_own(&self, hit: &Hit) -> bool {
        let zone = &self.policy.zones[hit.zone];
        zone.rules.get(&hit.trigger).is_some_and(|own| given(zone, own) != hit.action)
    }

    /// Returns the names of the chain without any policy, with what is found at each.
    pub(crate) fn chain(&self, ask: &Ask) -> Vec<(Name, Found)> {
        let mut out = Vec::new();
        let mut next = Some(ask.name.clone());
        while let Some(name) = next.take().filter(|_| out.len() < MAX_CHAIN) {
            let found = self.data.find(&name, ask.qtype);
            if let Found::Alias { target, .. } = &found {
                next = Some(target.clone());
            }
            out.push((name, found));
        }
        out
    }

    /// Whether a rule matches for the name or the address of a server that is asked for the chain.
    pub(crate) fn keeps_from_asking(&self, ask: &Ask, variants: &Variants) -> bool {
        let active = |zone: &&PolicyZone| zone.given != Override::Disabled;
        let rules = || self.policy.zones.iter().filter(active).flat_map(|zone| zone.rules.keys());
        self.chain(ask).iter().flat_map(|(name, _)| self.servers(name, variants)).any(|(_, server)| {
            let all = self.matching_at(ask, &server.name, &Found::NoData, variants);
            let is_in = |prefix: &Prefix| server.addresses.iter().any(|ip| prefix.contains(*ip));
            all.iter().any(|(kind, ..)| !matches!(kind, TriggerKind::ClientIp | TriggerKind::Ip))
                || rules().any(|rule| matches!(rule, Trigger::Ip(prefix) if is_in(prefix)))
        })
    }

    /// Whether a rule matches at one name of the chain.
    pub(crate) fn fits(
        &self,
        zone: &PolicyZone,
        trigger: &Trigger,
        ask: &Ask,
        name: &Name,
        found: &Found,
    ) -> bool {
        self.fit(zone, trigger, ask, name, found, &Variants::default()).is_some()
    }

    /// Applies a rule: returns the name at which resolution goes on, or the RCODE.
    fn rewrite(&self, making: &mut Making<'_>, name: &Name, hit: &Hit) -> Result<Name, u16> {
        let action = &hit.action;
        let zone = &self.policy.zones[hit.zone];
        let is_override = zone.given != Override::Given;
        if making.variants.has(Variant::ChainDropped)
            && !matches!(action, Action::Cname(_) | Action::WildCname(_))
        {
            making.answer.clear();
        }
        let name = if making.variants.has(Variant::AtQueryName) { &making.ask.name.clone() } else { name };
        let is_wildcard = matches!(action, Action::WildCname(_));
        let is_kept =
            [Variant::WildcardKept, Variant::WildcardNotFound].iter().any(|v| making.variants.has(*v));
        let target = match action {
            Action::Nxdomain => return Err(rcode::NXDOMAIN),
            Action::Local(data) => {
                let qtype = making.ask.qtype;
                let most = if making.variants.has(Variant::OneRecord) { 1 } else { usize::MAX };
                let wanted = data.iter().rev().filter(|data| data.rtype() == qtype).take(most);
                wanted.for_each(|data| making.put_of_rule(name, data, zone, hit));
                return Err(rcode::NOERROR);
            }
            Action::Cname(target) => target.clone(),
            Action::WildCname(suffix) if is_kept => suffix.child(b"*"),
            Action::WildCname(suffix) => Name(name.0.iter().chain(&suffix.0).cloned().collect()),
            _ => return Err(rcode::NOERROR),
        };
        if !target.is_legal() {
            return Err(rcode::YXDOMAIN);
        }
        making.put_of_rule(name, &Data::Cname(target.clone()), zone, hit);
        let is_record = matches!(action, Action::Cname(_)) && !is_override;
        let follows = !is_record && making.variants.has(Variant::CnameTypeFollowed)
            || making.variants.has(Variant::CnameTypeOneStep);
        let stops = making.ask.qtype == rtype::CNAME && !follows || making.variants.has(Variant::CnameAlone);
        if is_wildcard && making.variants.has(Variant::WildcardNotFound) {
            return Err(rcode::NXDOMAIN);
        }
        if stops { Err(rcode::NOERROR) } else { Ok(target) }
    }

    /// Returns the rule that decides about one name of the chain.
    fn decide(
        &self,
        ask: &Ask,
        name: &Name,
        found: &Found,
        position: usize,
        variants: &Variants,
    ) -> Option<Hit> {
        let kept = ask.dnssec_ok && !self.policy.break_dnssec && self.data.zone_of(name).signed;
        if kept && !variants.has(Variant::RewritesSigned) {
            return None;
        }
        let is_tried = |(kind, ..): &&Matching| match kind {
            TriggerKind::Nsdname | TriggerKind::Nsip => !variants.has(Variant::WithoutNs),
            TriggerKind::Ip => !variants.has(Variant::AddressesTooLate),
            _ => true,
        };
        let matching = self.matching_at(ask, name, found, variants);
        let best = matching
            .iter()
            .filter(is_tried)
            .min_by_key(|(kind, fit, hit)| (stage(*kind, variants), hit.zone, *kind, fit));
        best.map(|(_, _, hit)| Hit { position, ..hit.clone() })
    }

    /// Returns the rules that match at one name.
    fn matching_at(&self, ask: &Ask, name: &Name, found: &Found, variants: &Variants) -> Rc<Vec<Matching>> {
        let decisive = [
            Variant::WildcardOfZone,
            Variant::PrefixesByLabels,
            Variant::PrefixLengthLost,
            Variant::NsOfZone,
            Variant::WithoutNsDots,
            Variant::NsOfTop,
            Variant::NsWildcardFirst,
        ];
        let key = (name.lower(), decisive.map(|variant| variants.has(variant)));
        if let Some(known) = self.memo.matching.borrow().get(&key) {
            return Rc::clone(known);
        }
        let mut all = Vec::new();
        for (zone, policy) in self.policy.zones.iter().enumerate() {
            if policy.given == Override::Disabled {
                continue;
            }
            for (trigger, own) in &policy.rules {
                let Some(fit) = self.fit(policy, trigger, ask, name, found, variants) else { continue };
                let hit = Hit { zone, trigger: trigger.clone(), action: given(policy, own), position: 0 };
                all.push((trigger.kind(), fit, hit));
            }
        }
        let all = Rc::new(all);
        self.memo.matching.borrow_mut().insert(key, Rc::clone(&all));
        all
    }

    /// Looks one name up.
    fn find(&self, name: &Name, qtype: u16) -> Rc<Found> {
        let mut known = self.memo.found.borrow_mut();
        let found = known.entry(name.clone()).or_insert_with(|| Rc::new(self.data.find(name, qtype)));
        Rc::clone(found)
    }

    /// Whether a rule matches, and how well among those of its zone and kind: lower is better.
    fn fit(
        &self,
        zone: &PolicyZone,
        trigger: &Trigger,
        ask: &Ask,
        name: &Name,
        found: &Found,
        variants: &Variants,
    ) -> Option<Fit> {
        let by_prefix = |prefix: Prefix, among: &[IpAddr]| {
            let is_in = among.iter().any(|ip| prefix.contains(*ip));
            let order = if variants.has(Variant::PrefixesByLabels) {
                Order::Labels(prefix.labels())
            } else {
                Order::Address(prefix.first)
            };
            let bits = if variants.has(Variant::PrefixLengthLost) { 0 } else { prefix.bits() };
            is_in.then_some(Fit::Bits(Reverse(bits), order))
        };
        let by_name = |of_rule: &Name, name: &Name| {
            let is_hidden = || {
                variants.has(Variant::WildcardOfZone)
                    && of_rule.is_wildcard()
                    && closest(zone, trigger.kind(), name) != of_rule.parent()
            };
            by_name(of_rule, name).filter(|_| !is_hidden())
        };
        match trigger {
            Trigger::ClientIp(prefix) => by_prefix(*prefix, &[ask.client]),
            Trigger::Qname(of_rule) => by_name(of_rule, name),
            Trigger::Ip(prefix) => {
                let Found::Records(records) = found else { return None };
                by_prefix(*prefix, &records.iter().filter_map(Data::address).collect::<Vec<_>>())
            }
            Trigger::Nsdname(of_rule) => {
                let fit = |(zone, server): (&DataZone, &NameServer)| {
                    let fit = by_name(of_rule, &server.name)?.of_servers(zone);
                    Some(if variants.has(Variant::NsWildcardFirst) { fit.wildcard_first() } else { fit })
                };
                self.servers(name, variants).filter_map(fit).min()
            }
            Trigger::Nsip(prefix) => {
                let servers = self.servers(name, variants);
                by_prefix(
                    *prefix,
                    &servers.flat_map(|(_, server)| server.addresses.clone()).collect::<Vec<_>>(),
                )
            }
        }
    }

    /// Returns the name servers of all zones that contain a name, except for the highest ones.
    fn servers(&self, name: &Name, variants: &Variants) -> impl Iterator<Item = (&DataZone, &NameServer)> {
        let only = variants.has(Variant::NsOfZone).then(|| &self.data.zone_of(name).apex);
        let above = self.data.zones.iter().filter(move |zone| name.is_under(&zone.apex));
        let least = match () {
            () if variants.has(Variant::NsOfTop) => 0,
            () if variants.has(Variant::WithoutNsDots) => MIN_NS_LABELS,
            () => self.policy.min_ns_dots + 1,
        };
        let fits = move |zone: &&DataZone| only.is_none_or(|apex| *apex == zone.apex);
        above
            .filter(fits)
            .filter(move |zone| zone.apex.0.len() >= least)
            .flat_map(|zone| zone.servers.iter().map(move |server| (zone, server)))
    }
}

fn has(data: &[Data], qtype: u16) -> bool {
    data.iter().any(|data| data.rtype() == qtype)
}

/// Whether a rule makes an alias to a name that the chain has already, and the server leaves such rules out.
fn loops(hit: &Hit, ask: &Ask, making: &Making<'_>, variants: &Variants) -> bool {
    let Action::Cname(target) = &hit.action else { return false };
    let is_there = making.answer.iter().any(|(owner, ..)| *owner == target.lower());
    variants.has(Variant::LoopLeftOut) && (is_there || *target == ask.name)
}

/// Returns the stage of a kind: 0 for all, unless a server looks at kinds of all zones one after the other.
fn stage(kind: TriggerKind, variants: &Variants) -> usize {
    let clients = usize::from(variants.has(Variant::ClientsFirst) && kind != TriggerKind::ClientIp);
    let names = match kind {
        _ if !variants.has(Variant::NamesFirst) => 0,
        TriggerKind::ClientIp | TriggerKind::Qname => 0,
        TriggerKind::Nsdname | TriggerKind::Nsip => 1,
        TriggerKind::Ip => 2,
    };
    clients + names
}

/// How well a rule fits; lower is better.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// An exact name before wildcards, and of those the longest; of name servers, those of the zone that is
    /// nearest to the name.
    Name(bool, Reverse<usize>, Reverse<usize>),
    /// The longest prefix, and of those the first.
    Bits(Reverse<u8>, Order),
}

impl Fit {
    /// Returns it with wildcards before exact names.
    fn wildcard_first(self) -> Self {
        match self {
            Self::Name(is_wildcard, length, zone) => Self::Name(!is_wildcard, length, zone),
            other @ Self::Bits(..) => other,
        }
    }

    /// Returns it for the name of a server of this zone.
    fn of_servers(self, zone: &DataZone) -> Self {
        match self {
            Self::Name(is_wildcard, length, _) => Self::Name(is_wildcard, length, Reverse(zone.apex.0.len())),
            other @ Self::Bits(..) => other,
        }
    }
}

/// Order of prefixes of equal length.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    Address(IpAddr),
    Labels(Vec<(usize, String)>),
}

/// Returns the longest name that exists in a policy zone at or above a name, among triggers of a kind.
fn closest(zone: &PolicyZone, kind: TriggerKind, name: &Name) -> Name {
    let names: Vec<&Name> =
        zone.rules.keys().filter(|trigger| trigger.kind() == kind).filter_map(Trigger::name).collect();
    let mut name = name.lower();
    while !name.0.is_empty() && !names.iter().any(|owner| owner.is_under(&name)) {
        name = name.parent();
    }
    name
}

fn by_name(of_rule: &Name, name: &Name) -> Option<Fit> {
    let fits = match of_rule.is_wildcard() {
        true => name.0.len() >= of_rule.0.len() && name.is_under(&of_rule.parent()),
        false => name.lower() == of_rule.lower(),
    };
    fits.then(|| Fit::Name(of_rule.is_wildcard(), Reverse(of_rule.0.len()), Reverse(0)))
}

fn given(policy: &PolicyZone, own: &Action) -> Action {
    match &policy.given {
        Override::With(action) => action.clone(),
        _ => own.clone(),
    }
}
