//! Response policy zones in service: their settings, what their rules order, and how often they did.

use std::sync::Arc;

use policy::{DataId, Match, Rewrites, RpzAction, RuleEffect, TriggerKind};
use query_path::{RuleAction, RuleTrigger};
use wire::edns::ErrorInfo;
use wire::{Name, NameBuf, Rcode, Ttl};

use crate::count::SharedCount;

/// What the operator orders in place of the actions of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "there are few")]
pub enum RpzOverride {
    /// The zone's own actions.
    Given,
    /// Matches are counted, and nothing else.
    Disabled,
    /// This action.
    Action(RpzAction),
    /// An alias to this name.
    Cname(NameBuf),
}

/// Options that hold for all response policy zones; each as in BIND.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RpzOptions {
    /// Whether signed answers are rewritten for clients that set DO.
    pub break_dnssec: bool,
    /// Whether a name with a rule is resolved before its rule is applied.
    pub qname_wait_recurse: bool,
    /// Whether a query waits for lookups of name servers; otherwise only cached ones are compared with rules.
    pub ns_wait_recurse: bool,
    /// Name servers of domains with fewer dots are not compared with rules.
    pub min_ns_dots: u8,
    /// Most lookups of name servers for one query.
    pub ns_lookups: u16,
}

impl Default for RpzOptions {
    fn default() -> Self {
        RpzOptions {
            break_dnssec: false,
            qname_wait_recurse: false,
            ns_wait_recurse: true,
            min_ns_dots: 1,
            ns_lookups: 48,
        }
    }
}

/// A response policy zone that is in force.
#[derive(Debug)]
pub struct PolicyZone {
    /// Its name.
    pub name: NameBuf,
    /// What the operator orders in place of its actions.
    pub instead: RpzOverride,
    /// Longest TTL of its records in answers.
    pub max_ttl: Ttl,
    /// TTL and RDATA of the SOA record that rewritten answers carry in the additional section.
    pub soa: Option<(Ttl, Box<[u8]>)>,
    /// The extended error of rewritten answers.
    pub info: Option<ErrorInfo>,
    /// Whether logs of queries have its rules.
    pub is_logged: bool,
    /// Numbers of queries by action.
    pub counts: Arc<RewriteCounts>,
}

/// Kinds of actions, as counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewriteKind {
    /// NXDOMAIN.
    NxDomain,
    /// NODATA.
    NoData,
    /// The answer stays as it is.
    Passthru,
    /// No reply.
    Drop,
    /// Truncated over UDP.
    TcpOnly,
    /// Records of the zone, or an alias.
    LocalData,
    /// A rule of a disabled zone.
    Disabled,
}

impl RewriteKind {
    /// Every kind with its label.
    pub const ALL: [(RewriteKind, &str); 7] = [
        (RewriteKind::NxDomain, "nxdomain"),
        (RewriteKind::NoData, "nodata"),
        (RewriteKind::Passthru, "passthru"),
        (RewriteKind::Drop, "drop"),
        (RewriteKind::TcpOnly, "tcp-only"),
        (RewriteKind::LocalData, "local-data"),
        (RewriteKind::Disabled, "disabled"),
    ];
}

/// Numbers of queries by action.
#[derive(Debug, Default)]
pub struct RewriteCounts([SharedCount; RewriteKind::ALL.len()]);

impl RewriteCounts {
    /// Returns the counter of a kind.
    pub fn of(&self, kind: RewriteKind) -> &SharedCount {
        let [nxdomain, nodata, passthru, drop, tcp_only, local_data, disabled] = &self.0;
        match kind {
            RewriteKind::NxDomain => nxdomain,
            RewriteKind::NoData => nodata,
            RewriteKind::Passthru => passthru,
            RewriteKind::Drop => drop,
            RewriteKind::TcpOnly => tcp_only,
            RewriteKind::LocalData => local_data,
            RewriteKind::Disabled => disabled,
        }
    }
}

/// What a rule does, with the operator's override.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RpzOrder<'a> {
    NxDomain,
    NoData,
    Passthru,
    Drop,
    TcpOnly,
    Data(DataId),
    Cname(&'a NameBuf),
    /// The answer of lists.
    Rewrites(&'a Rewrites),
}

impl RpzOrder<'_> {
    pub(crate) fn kind(self) -> RewriteKind {
        match self {
            RpzOrder::NxDomain => RewriteKind::NxDomain,
            RpzOrder::NoData => RewriteKind::NoData,
            RpzOrder::Passthru => RewriteKind::Passthru,
            RpzOrder::Drop => RewriteKind::Drop,
            RpzOrder::TcpOnly => RewriteKind::TcpOnly,
            RpzOrder::Data(_) | RpzOrder::Cname(_) | RpzOrder::Rewrites(_) => RewriteKind::LocalData,
        }
    }
}

impl RpzOrder<'_> {
    /// Returns the action as logs receive it.
    pub(crate) fn noted(self) -> RuleAction {
        match self {
            RpzOrder::NxDomain => RuleAction::NxDomain,
            RpzOrder::NoData => RuleAction::NoData,
            RpzOrder::Passthru => RuleAction::Passthru,
            RpzOrder::Drop => RuleAction::Drop,
            RpzOrder::TcpOnly => RuleAction::TcpOnly,
            RpzOrder::Rewrites(Rewrites { code: Some(Rcode::NXDOMAIN), .. }) => RuleAction::NxDomain,
            RpzOrder::Rewrites(Rewrites { code: Some(Rcode::NOERROR), .. }) => RuleAction::NoData,
            RpzOrder::Data(_) | RpzOrder::Cname(_) | RpzOrder::Rewrites(_) => RuleAction::LocalData,
        }
    }
}

/// Returns what a rule is about, as logs receive it.
pub(crate) fn noted_trigger(of: TriggerKind) -> RuleTrigger {
    match of {
        TriggerKind::ClientIp => RuleTrigger::ClientIp,
        TriggerKind::Qname => RuleTrigger::Qname,
        TriggerKind::Ip => RuleTrigger::Ip,
        TriggerKind::NsDname => RuleTrigger::NsDname,
        TriggerKind::NsIp => RuleTrigger::NsIp,
    }
}

impl PolicyZone {
    /// Returns what stands in place of a zone for answers of lists, which have this TTL.
    pub(crate) fn of_lists(ttl: Ttl) -> Self {
        PolicyZone {
            name: NameBuf::ROOT,
            instead: RpzOverride::Given,
            max_ttl: ttl,
            soa: None,
            info: Some(ErrorInfo::FORGED_ANSWER),
            is_logged: true,
            counts: Arc::default(),
        }
    }

    /// Returns what a rule of the zone does.
    pub(crate) fn order(&self, of: &Match) -> RpzOrder<'_> {
        let action = match (&self.instead, of.rule.effect) {
            (RpzOverride::Cname(target), _) => return RpzOrder::Cname(target),
            (RpzOverride::Action(action), _) => *action,
            (_, RuleEffect::Rpz(action)) => action,
            // Lists have no rules in a zone.
            (_, _) => RpzAction::Passthru,
        };
        match action {
            RpzAction::NxDomain => RpzOrder::NxDomain,
            RpzAction::NoData => RpzOrder::NoData,
            RpzAction::Passthru => RpzOrder::Passthru,
            RpzAction::Drop => RpzOrder::Drop,
            RpzAction::TcpOnly => RpzOrder::TcpOnly,
            RpzAction::LocalData(data) => RpzOrder::Data(data),
        }
    }
}

/// The alias target of a rule cannot be made: its name is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TargetTooLong;

/// Returns the target of an alias: a wildcard takes the name in place of its first label (draft, §3.6).
pub(crate) fn substituted(name: Name<'_>, target: &NameBuf) -> Result<NameBuf, TargetTooLong> {
    let Some(below) = target.as_name().as_wire().strip_prefix(b"\x01*") else { return Ok(*target) };
    // Without its root.
    let own = name.as_wire().split_last().map(|(_root, own)| own).unwrap_or_default();
    let wire = [own, below].concat();
    Name::from_wire(&wire).map(|name| name.to_buf()).map_err(|_| TargetTooLong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> NameBuf {
        text.parse().expect("a name")
    }

    #[test]
    fn a_wildcard_target_takes_the_name_in_place_of_its_first_label() {
        let of = |qname: &str, target: &str| substituted(name(qname).as_name(), &name(target));
        assert_eq!(of("www.bad.example.", "*.garden.test."), Ok(name("www.bad.example.garden.test.")));
        assert_eq!(of("www.bad.example.", "garden.test."), Ok(name("garden.test.")));
        assert_eq!(of("www.bad.example.", "x.*.test."), Ok(name("x.*.test.")));
        assert_eq!(of(".", "*.garden.test."), Ok(name("garden.test.")));
        let label = "a".repeat(62);
        let long = format!("{label}.{label}.{label}.{}.", "b".repeat(50));
        assert_eq!(name(&long).as_name().as_wire().len(), 241);
        assert!(of(&long, "*.1234567890123.").is_ok(), "255 bytes");
        assert_eq!(of(&long, "*.12345678901234."), Err(TargetTooLong));
    }
}
