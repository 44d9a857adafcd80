//! Response policy zones: triggers in owner names, actions in records (draft-vixie-dnsop-dns-rpz-00).
//!
//! | owner, without the zone's name | trigger |
//! |---|---|
//! | `www.example.com`, `*.example.com` | QNAME: the query name, or one at the end of an alias |
//! | `24.0.2.0.192.rpz-ip` | IP: an address in the answer |
//! | `32.zz.db8.2001.rpz-client-ip` | CLIENT-IP: the address of the client |
//! | `ns.example.com.rpz-nsdname` | NSDNAME: the name of a server that is authoritative for the name |
//! | `32.1.2.0.192.rpz-nsip` | NSIP: an address of such a server |

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::{LowerName, Name, NameBuf, Prefix, Type};

use crate::local_data::PolicyRecord;
use crate::rule::{MAX_FAULTS, RpzAction, RuleReach};

/// A trigger, as an owner name has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// The query name.
    Qname(TriggerName),
    /// The client's address.
    ClientIp(Prefix),
    /// An address in the answer.
    Ip(Prefix),
    /// The name of a name server.
    NsDname(TriggerName),
    /// An address of a name server.
    NsIp(Prefix),
}

/// The name of a trigger and the names that it covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TriggerName {
    /// Wire form, lower case, ending in the root.
    wire: Vec<u8>,
    pub(crate) reach: RuleReach,
}

impl TriggerName {
    /// The name; for a wildcard, the name below which it covers all.
    pub(crate) fn name(&self) -> LowerName<'_> {
        LowerName::of_checked(&self.wire)
    }
}

/// Why an owner name is not a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OwnerFault {
    /// The name is not in the zone.
    Outside,
    /// The first label is not the length of a prefix, or the length is not one that the address has.
    Length,
    /// The labels are not an address in reverse.
    Address,
    /// The address has bits behind the prefix.
    HostBits,
    /// A name server has no name.
    NoName,
}

impl fmt::Display for OwnerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Outside => "not a name in the zone",
            Self::Length => "the first label is not the length of a prefix of the address",
            Self::Address => "the labels are not an address in reverse, with \"zz\" for \"::\"",
            Self::HostBits => "the address has bits behind the length of its prefix",
            Self::NoName => "no name of a server before \"rpz-nsdname\"",
        })
    }
}
impl std::error::Error for OwnerFault {}

/// The rules, and the owners that are not triggers, of one zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RpzReport {
    /// Number of rules.
    pub rules: usize,
    /// Number of owner names that are not triggers.
    pub faults: usize,
    /// The first of them in canonical order, with the reasons.
    pub first: Vec<SkippedRecord>,
}

impl RpzReport {
    /// Adds an owner that is not a trigger.
    pub(crate) fn add_fault(&mut self, owner: LowerName<'_>, fault: OwnerFault) {
        self.faults += 1;
        let at = self.first.partition_point(|skipped| skipped.owner.as_name() < owner.as_name());
        if at < MAX_FAULTS {
            self.first.truncate(MAX_FAULTS - 1);
            self.first.insert(at, SkippedRecord { owner: owner.to_buf().into(), fault });
        }
    }

    /// Removes an owner that is not a trigger. Returns `false` if it was one of the first, and the one that
    /// follows them is not known.
    pub(crate) fn remove_fault(&mut self, owner: LowerName<'_>) -> bool {
        let is_known = self.faults == self.first.len();
        self.faults = self.faults.saturating_sub(1);
        match self.first.iter().position(|skipped| skipped.owner.as_name() == owner.as_name()) {
            Some(at) => {
                self.first.remove(at);
                is_known
            }
            None => true,
        }
    }
}

/// An owner name that is not a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedRecord {
    /// The owner name.
    pub owner: NameBuf,
    /// The reason.
    pub fault: OwnerFault,
}

/// Returns the trigger of an owner name; `None` at the apex, whose records are about the zone itself.
///
/// # Errors
/// The name is not a trigger.
pub(crate) fn trigger(owner: LowerName<'_>, apex: LowerName<'_>) -> Result<Option<Trigger>, OwnerFault> {
    if !owner.is_at_or_below(apex) {
        return Err(OwnerFault::Outside);
    }
    let own = owner.label_count() - apex.label_count();
    // Most rules are about a query name.
    let is_special = own > 0 && owner.labels().nth(own - 1).is_some_and(|last| last.starts_with(b"rpz-"));
    if !is_special {
        return Ok((own > 0).then(|| Trigger::Qname(trigger_name(owner.labels().take(own)))));
    }
    let labels: Vec<&[u8]> = owner.labels().take(own).collect();
    Ok(Some(match labels.as_slice() {
        [address @ .., b"rpz-client-ip"] => Trigger::ClientIp(prefix(address)?),
        [address @ .., b"rpz-ip"] => Trigger::Ip(prefix(address)?),
        [address @ .., b"rpz-nsip"] => Trigger::NsIp(prefix(address)?),
        [b"rpz-nsdname"] => return Err(OwnerFault::NoName),
        [name @ .., b"rpz-nsdname"] => Trigger::NsDname(trigger_name(name.iter().copied())),
        name => Trigger::Qname(trigger_name(name.iter().copied())),
    }))
}

fn trigger_name<'l>(labels: impl Iterator<Item = &'l [u8]>) -> TriggerName {
    let mut reach = RuleReach::Name;
    let mut wire = Vec::with_capacity(32);
    for (at, label) in labels.enumerate() {
        if at == 0 && label == b"*" {
            reach = RuleReach::Below;
            continue;
        }
        // A label has 63 bytes at most.
        wire.push(label.len() as u8);
        wire.extend_from_slice(label);
    }
    wire.push(0);
    TriggerName { wire, reach }
}

/// Returns the prefix of an address trigger: its length, then the address in reverse (draft, §4.1.1).
fn prefix(labels: &[&[u8]]) -> Result<Prefix, OwnerFault> {
    let (len, address) = labels.split_first().ok_or(OwnerFault::Length)?;
    let len: u8 = number(len, 10, 128).ok_or(OwnerFault::Length)? as u8;
    let address = v4(address).map(IpAddr::V4).or_else(|| v6(address).map(IpAddr::V6));
    let address = address.ok_or(OwnerFault::Address)?;
    let prefix = Prefix::of(address, len).filter(|_| len > 0).ok_or(OwnerFault::Length)?;
    if prefix.address() == address { Ok(prefix) } else { Err(OwnerFault::HostBits) }
}

fn v4(labels: &[&[u8]]) -> Option<Ipv4Addr> {
    let labels: &[&[u8]; 4] = labels.try_into().ok()?;
    let [d, c, b, a] = labels.map(|label| number(label, 10, 255).map(|number| number as u8));
    Some(Ipv4Addr::new(a?, b?, c?, d?))
}

/// Reads an IPv6 address: eight groups, or fewer and once "zz" for as many zeros as are missing.
fn v6(labels: &[&[u8]]) -> Option<Ipv6Addr> {
    let mut groups = [0u16; 8];
    let missing = match labels.iter().filter(|label| **label == b"zz").count() {
        0 if labels.len() == 8 => 0,
        1 if labels.len() <= 8 => 9 - labels.len(),
        _ => return None,
    };
    let mut places = groups.iter_mut();
    for label in labels.iter().rev() {
        if *label == b"zz" {
            places.nth(missing - 1)?;
            continue;
        }
        *places.next()? = number(label, 16, 0xffff)? as u16;
    }
    Some(Ipv6Addr::from(groups))
}

/// Reads a number of up to four digits that is at most `max`, without leading zeros.
fn number(label: &[u8], radix: u32, max: u32) -> Option<u32> {
    let digits = std::str::from_utf8(label).ok().filter(|digits| digits.len() <= 4)?;
    if digits.starts_with('+') || (digits.starts_with('0') && digits.len() > 1) {
        return None;
    }
    u32::from_str_radix(digits, radix).ok().filter(|number| *number <= max)
}

/// The effect that the records of an owner have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect<'r, 'z> {
    /// An action that a CNAME record encodes.
    Action(RpzAction),
    /// These records are the answer.
    Data(Vec<&'r PolicyRecord<'z>>),
}

/// Returns the effect of an owner's records; `None` if there is none, as of signatures and proofs.
///
/// `trigger` is the owner without the zone's name: a CNAME to it is the old form of `rpz-passthru.`.
pub(crate) fn effect<'r, 'z>(trigger: Name<'_>, records: &'r [PolicyRecord<'z>]) -> Option<Effect<'r, 'z>> {
    if let Some(cname) = records.iter().find(|record| record.rtype == Type::CNAME) {
        return action(trigger, cname.rdata).map(|action| match action {
            Some(action) => Effect::Action(action),
            None => Effect::Data(vec![cname]),
        });
    }
    let data: Vec<_> = records.iter().filter(|record| is_data(record.rtype)).collect();
    (!data.is_empty()).then_some(Effect::Data(data))
}

/// Whether records of this type may be local data.
fn is_data(rtype: Type) -> bool {
    !matches!(
        rtype,
        Type::RRSIG | Type::NSEC | Type::NSEC3 | Type::NSEC3PARAM | Type::DNSKEY | Type::DS | Type::DNAME
    )
}

/// Returns the action that the target of a CNAME record encodes, if it encodes one; `None` if the target is
/// malformed.
fn action(trigger: Name<'_>, target: &[u8]) -> Option<Option<RpzAction>> {
    // Of most rules.
    if target == [0] {
        return Some(Some(RpzAction::NxDomain));
    }
    let target = Name::from_wire(target).ok()?.to_lower();
    let same = target.as_lower() == trigger.to_lower().as_lower();
    let mut labels = target.as_lower().labels();
    Some(match (labels.next(), labels.next()) {
        (None, _) => Some(RpzAction::NxDomain),
        (Some(b"*"), None) => Some(RpzAction::NoData),
        (Some(b"rpz-passthru"), None) => Some(RpzAction::Passthru),
        (Some(b"rpz-drop"), None) => Some(RpzAction::Drop),
        (Some(b"rpz-tcp-only"), None) => Some(RpzAction::TcpOnly),
        _ if same => Some(RpzAction::Passthru),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::{LowerNameBuf, NameBuf, Ttl};

    use super::*;

    fn lower(text: &str) -> LowerNameBuf {
        text.parse::<NameBuf>().expect("a name").as_name().to_lower()
    }

    fn of(owner: &str) -> Result<Option<Trigger>, OwnerFault> {
        trigger(lower(&format!("{owner}.rpz.example.")).as_lower(), lower("rpz.example.").as_lower())
    }

    fn named(text: &str, reach: RuleReach) -> TriggerName {
        TriggerName { wire: lower(text).as_lower().as_wire().to_vec(), reach }
    }

    #[test]
    fn owners_are_triggers() {
        let network = |text: &str| text.parse::<Prefix>().expect("a prefix");
        for (owner, wanted) in [
            ("www.Example.com", Trigger::Qname(named("www.example.com.", RuleReach::Name))),
            ("*.example.com", Trigger::Qname(named("example.com.", RuleReach::Below))),
            ("*", Trigger::Qname(named(".", RuleReach::Below))),
            ("a.*.com", Trigger::Qname(named("a.*.com.", RuleReach::Name))),
            ("rpz-ip.com", Trigger::Qname(named("rpz-ip.com.", RuleReach::Name))),
            ("ns.example.rpz-nsdname", Trigger::NsDname(named("ns.example.", RuleReach::Name))),
            ("*.example.rpz-nsdname", Trigger::NsDname(named("example.", RuleReach::Below))),
            ("24.0.2.0.192.rpz-ip", Trigger::Ip(network("192.0.2.0/24"))),
            ("32.255.2.0.192.rpz-client-ip", Trigger::ClientIp(network("192.0.2.255/32"))),
            ("8.0.0.0.10.rpz-nsip", Trigger::NsIp(network("10.0.0.0/8"))),
            ("32.zz.db8.2001.rpz-ip", Trigger::Ip(network("2001:db8::/32"))),
            ("128.1.zz.2001.rpz-ip", Trigger::Ip(network("2001::1/128"))),
            ("128.zz.rpz-ip", Trigger::Ip(network("::/128"))),
            ("128.1.zz.rpz-ip", Trigger::Ip(network("::1/128"))),
            ("48.0.0.0.0.0.3.db8.2001.rpz-ip", Trigger::Ip(network("2001:db8:3::/48"))),
            ("128.8.7.6.5.4.3.zz.1.rpz-ip", Trigger::Ip(network("1:0:3:4:5:6:7:8/128"))),
        ] {
            assert_eq!(of(owner), Ok(Some(wanted)), "{owner}");
        }
        assert_eq!(trigger(lower("rpz.example.").as_lower(), lower("rpz.example.").as_lower()), Ok(None));
    }

    #[test]
    fn owners_that_are_no_triggers_have_a_reason() {
        for (owner, wanted) in [
            ("24.1.2.0.192.rpz-ip", OwnerFault::HostBits),
            ("33.1.2.0.192.rpz-ip", OwnerFault::Length),
            ("129.zz.1.rpz-ip", OwnerFault::Length),
            ("0.0.0.0.0.rpz-ip", OwnerFault::Length),
            ("x.0.2.0.192.rpz-ip", OwnerFault::Length),
            ("rpz-ip", OwnerFault::Length),
            ("32.rpz-ip", OwnerFault::Address),
            ("32.256.2.0.192.rpz-ip", OwnerFault::Address),
            ("32.2.0.192.rpz-ip", OwnerFault::Address),
            ("32.01.2.0.192.rpz-ip", OwnerFault::Address),
            ("128.zz.1.zz.1.rpz-ip", OwnerFault::Address),
            ("128.1.1.1.1.1.1.1.1.1.rpz-ip", OwnerFault::Address),
            ("128.8.7.6.5.4.3.2.zz.1.rpz-ip", OwnerFault::Address),
            ("128.10000.zz.rpz-ip", OwnerFault::Address),
            ("rpz-nsdname", OwnerFault::NoName),
        ] {
            assert_eq!(of(owner), Err(wanted), "{owner}");
        }
        let outside = trigger(lower("a.example.").as_lower(), lower("rpz.example.").as_lower());
        assert_eq!(outside, Err(OwnerFault::Outside));
    }

    #[test]
    fn records_are_actions() {
        fn record(rtype: Type, rdata: &[u8]) -> PolicyRecord<'_> {
            PolicyRecord { rtype, ttl: Ttl::from_secs(60), rdata }
        }
        fn is(records: &[PolicyRecord<'_>], wanted: Option<Effect<'_, '_>>) {
            let trigger = lower("www.example.com.");
            assert_eq!(effect(trigger.as_name(), records), wanted, "{records:?}");
        }
        for (target, wanted) in [
            (".", Some(RpzAction::NxDomain)),
            ("*.", Some(RpzAction::NoData)),
            ("RPZ-passthru.", Some(RpzAction::Passthru)),
            ("www.EXAMPLE.com.", Some(RpzAction::Passthru)),
            ("rpz-drop.", Some(RpzAction::Drop)),
            ("rpz-tcp-only.", Some(RpzAction::TcpOnly)),
            ("rpz-drop.example.", None),
            ("*.garden.example.", None),
            ("garden.example.", None),
        ] {
            let target: NameBuf = target.parse().expect("a name");
            let cname = [record(Type::CNAME, target.as_name().as_wire())];
            let wanted = wanted.map_or_else(|| Effect::Data(cname.iter().collect()), Effect::Action);
            is(&cname, Some(wanted));
        }
        let [a, sig] = [record(Type::A, &[192, 0, 2, 1]), record(Type::RRSIG, &[])];
        is(&[sig, a], Some(Effect::Data(vec![&a])));
        is(&[sig], None);
        is(&[record(Type::CNAME, &[1])], None);
    }

    /// Writes a prefix as an owner, with `zz` for the zeros from group `from` to group `to`.
    fn owner_of(prefix: &Prefix, from: usize, to: usize) -> String {
        let mut labels: Vec<String> = match prefix.address() {
            IpAddr::V4(v4) => v4.octets().map(|octet| octet.to_string()).into(),
            IpAddr::V6(v6) => {
                let groups = v6.segments();
                let zeros = groups.get(from..to).is_some_and(|g| !g.is_empty() && g.iter().all(|g| *g == 0));
                let mut labels: Vec<String> = groups.map(|group| format!("{group:x}")).into();
                if zeros {
                    labels.splice(from..to, ["zz".into()]);
                }
                labels
            }
        };
        labels.push(prefix.len().to_string());
        labels.reverse();
        labels.join(".")
    }

    proptest! {
        #[test]
        fn every_prefix_is_read_back(
            groups: [prop::sample::Index; 8],
            v4: [u8; 4],
            is_v4: bool,
            len in 1..=128u8,
            from in 0..8usize,
            to in 0..=8usize,
        ) {
            let group = |index: prop::sample::Index| [0, 0, 0, 1, 0xdb8, 0xffff][index.index(6)];
            let address = if is_v4 { IpAddr::from(v4) } else { IpAddr::from(groups.map(group)) };
            let len = if is_v4 { len.div_ceil(4) } else { len };
            let prefix = Prefix::of(address, len).expect("as many bits as there are");
            let owner = owner_of(&prefix, from, to);
            prop_assert_eq!(of(&format!("{owner}.rpz-ip")), Ok(Some(Trigger::Ip(prefix))), "{}", owner);
        }
    }
}
