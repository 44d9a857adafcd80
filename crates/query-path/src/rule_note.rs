//! The rule of a policy that decides a query, as logs receive it: what it does, what it is about, and the
//! name of the response policy zone or list that has it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// What a rule does to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RuleAction {
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
    /// Other records, or an alias.
    LocalData,
}

impl RuleAction {
    /// Every action, in the order of their numbers.
    pub const ALL: [RuleAction; 6] = [
        RuleAction::NxDomain,
        RuleAction::NoData,
        RuleAction::Passthru,
        RuleAction::Drop,
        RuleAction::TcpOnly,
        RuleAction::LocalData,
    ];

    /// Returns its number.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Its label.
    pub fn label(self) -> &'static str {
        match self {
            RuleAction::NxDomain => "nxdomain",
            RuleAction::NoData => "nodata",
            RuleAction::Passthru => "passthru",
            RuleAction::Drop => "drop",
            RuleAction::TcpOnly => "tcp-only",
            RuleAction::LocalData => "local-data",
        }
    }

    /// Whether the client does not get the answer that it would get without the rule.
    #[inline]
    pub fn blocks(self) -> bool {
        !matches!(self, RuleAction::Passthru | RuleAction::TcpOnly)
    }
}

/// What a rule is about (draft-vixie-dnsop-dns-rpz-00, §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RuleTrigger {
    /// The client.
    ClientIp,
    /// The query name, or a name that it is an alias of.
    Qname,
    /// An address in the answer.
    Ip,
    /// The name of a name server.
    NsDname,
    /// The address of a name server.
    NsIp,
}

impl RuleTrigger {
    /// Its label: the name of the trigger in lower case.
    pub fn label(self) -> &'static str {
        match self {
            RuleTrigger::ClientIp => "client-ip",
            RuleTrigger::Qname => "qname",
            RuleTrigger::Ip => "ip",
            RuleTrigger::NsDname => "nsdname",
            RuleTrigger::NsIp => "nsip",
        }
    }
}

/// The name of a response policy zone, of a list or of a group of clients. Equal names are stored once, for
/// the life of the process: a log needs no reference to the rules, and a query pays for no count of
/// references. There are as many as the operator has configured since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceName(&'static str);

impl SourceName {
    /// Returns the stored form of a name.
    pub fn new(name: &str) -> SourceName {
        static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
        // No statement leaves the set half changed.
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = names.get(name) {
            return SourceName(name);
        }
        let name: &'static str = Box::leak(name.into());
        names.insert(name);
        SourceName(name)
    }

    /// The name.
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for SourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The kind of the source of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SourceKind {
    /// A response policy zone.
    Zone,
    /// A list.
    List,
}

/// The rule that decides a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleNote {
    /// What it does.
    pub action: RuleAction,
    /// What it is about.
    pub trigger: RuleTrigger,
    /// Whether a zone or a list has it.
    pub kind: SourceKind,
    /// The name of the zone or list.
    pub source: SourceName,
    /// The name of the client's group, if there are groups.
    pub group: Option<SourceName>,
    /// Whether logs of queries have it. It is counted in any case.
    pub is_logged: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_are_stored_once() {
        let [a, b] = [SourceName::new("ads"), SourceName::new(&String::from("ads"))];
        assert!(std::ptr::eq(a.as_str(), b.as_str()));
        assert_ne!(a, SourceName::new("adult"));
    }
}
