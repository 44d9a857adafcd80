//! [`UpdatePolicy`]: access rules for updates. The first matching rule decides, as with BIND's
//! `update-policy`; without a match, the update is denied.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use transport::{CertificateRule, CertificateRuleFault, ClientCertificate};
use wire::{LowerName, Name, NameBuf, Prefix, PrefixFault, Type};

/// The effect of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantOrDeny {
    /// The rule permits.
    Grant,
    /// The rule forbids.
    Deny,
}

/// The clients that a rule matches: all if no field is set, otherwise those that match each set field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleClient {
    /// The name of the TSIG key that signs the request.
    pub key: Option<NameBuf>,
    /// The network of the client's address. An IPv4-mapped IPv6 address counts as IPv4.
    pub network: Option<Prefix>,
    /// The certificate that the client has shown over TLS.
    pub certificate: Option<CertificateRule>,
}

/// The owner names that a rule matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameRelation {
    /// This name.
    Name(NameBuf),
    /// This name and all below it.
    Subdomain(NameBuf),
    /// The name of the TSIG key; matches nothing for a request without a key.
    SelfName,
    /// The name of the TSIG key, and all names below it.
    SelfSub,
    /// Names that this wildcard covers, below its parent (RFC 4592); BIND's `wildcard`.
    Wildcard(NameBuf),
    /// Names that match this pattern: a label `*` matches any label, and as the last label one or more.
    Pattern(NameBuf),
    /// All names of the zone.
    Zone,
}

/// The record types that a rule matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RuleTypes {
    /// All except NS, SOA, and the signer's RRSIG, SIG, NSEC, NSEC3. As in BIND for a rule without types.
    #[default]
    Usual,
    /// All types.
    All,
    /// These types.
    Only(Vec<Type>),
}

/// One rule of an [`UpdatePolicy`].
///
/// In text form: `grant` or `deny`, the clients (`key:NAME`, `cert:NAME`, a network, several of these, or
/// `any`), the names (`name NAME`, `subdomain NAME`, `wildcard *.NAME`, `pattern FORM`, `self`, `selfsub`,
/// `zone`), and the types, of which `ANY` means all:
///
/// ```text
/// deny  any                          name     www.example.
/// grant key:dhcp.example             subdomain dyn.example. A AAAA DHCID
/// grant 192.0.2.0/24 key:host.example selfsub
/// grant key:acme.example             pattern  _acme-challenge.* TXT
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRule {
    /// The effect.
    pub action: GrantOrDeny,
    /// The clients.
    pub client: RuleClient,
    /// The owner names.
    pub names: NameRelation,
    /// The record types.
    pub types: RuleTypes,
}

/// The client that sent a request.
#[derive(Clone, Copy, Debug)]
pub struct Requester<'a> {
    /// The name of the key whose signature was verified, if any.
    pub key: Option<LowerName<'a>>,
    /// The client's address.
    pub address: IpAddr,
    /// The certificate that the client has shown over TLS, if any.
    pub certificate: Option<&'a ClientCertificate>,
}

/// The rules of a zone. Immutable; a lookup skips rules that name another key than the request's.
#[derive(Clone, Debug, Default)]
pub struct UpdatePolicy {
    rules: Box<[PolicyRule]>,
    /// Indexes of the rules that name a key, by key.
    of_key: HashMap<NameBuf, Vec<usize>>,
    /// Indexes of the other rules.
    of_all: Vec<usize>,
}

/// The permissions of one client: the rules that match it, in order.
#[derive(Clone, Debug)]
pub struct Permission<'p> {
    rules: Vec<&'p PolicyRule>,
    key: Option<NameBuf>,
}

impl UpdatePolicy {
    /// Creates a policy from rules in their order.
    pub fn new(rules: impl IntoIterator<Item = PolicyRule>) -> UpdatePolicy {
        let rules: Box<[PolicyRule]> = rules.into_iter().collect();
        let mut policy = UpdatePolicy { rules, ..UpdatePolicy::default() };
        for (number, rule) in policy.rules.iter().enumerate() {
            match &rule.client.key {
                Some(key) => policy.of_key.entry(*key).or_default().push(number),
                None => policy.of_all.push(number),
            }
        }
        policy
    }

    /// Whether there are no rules: no client may change anything.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the permissions of a client.
    pub fn permission(&self, requester: Requester<'_>) -> Permission<'_> {
        let key = requester.key.map(|key| key.as_name().to_buf());
        let of_key = key.as_ref().and_then(|key| self.of_key.get(key));
        let mut numbers: Vec<usize> = of_key.into_iter().flatten().chain(&self.of_all).copied().collect();
        numbers.sort_unstable();
        let address = requester.address.to_canonical();
        let from_there = |rule: &&PolicyRule| {
            let RuleClient { network, certificate, .. } = &rule.client;
            network.is_none_or(|network| network.to_canonical().contains(address))
                && certificate.as_ref().is_none_or(|wanted| wanted.fits(requester.certificate))
        };
        let rules = numbers.into_iter().filter_map(|number| self.rules.get(number)).filter(from_there);
        Permission { rules: rules.collect(), key }
    }
}

impl Permission<'_> {
    /// Whether the client may not change anything.
    pub fn is_none(&self) -> bool {
        self.rules.iter().all(|rule| rule.action == GrantOrDeny::Deny)
    }

    /// Whether records of this type may be added to a name and deleted from it.
    pub fn permits(&self, owner: Name<'_>, rtype: Type) -> bool {
        let key = self.key.as_ref().map(NameBuf::as_name);
        let fits = |rule: &&&PolicyRule| rule.names.covers(owner, key) && rule.types.has(rtype);
        self.rules.iter().find(fits).is_some_and(|rule| rule.action == GrantOrDeny::Grant)
    }

    /// Whether some rule grants a type at the name. Ignores deny rules.
    pub(crate) fn permits_some(&self, owner: Name<'_>) -> bool {
        let key = self.key.as_ref().map(NameBuf::as_name);
        self.rules.iter().any(|rule| rule.action == GrantOrDeny::Grant && rule.names.covers(owner, key))
    }
}

impl NameRelation {
    /// Returns whether it covers a name; `key`: the name of the client's TSIG key.
    pub fn covers(&self, owner: Name<'_>, key: Option<Name<'_>>) -> bool {
        match self {
            Self::Name(name) => owner == name.as_name(),
            Self::Subdomain(name) => owner.is_at_or_below(name.as_name()),
            Self::Wildcard(name) => {
                name.as_name().parent().is_some_and(|parent| owner.is_at_or_below(parent) && owner != parent)
            }
            Self::Pattern(form) => fits(owner, form.as_name()),
            Self::SelfName => key == Some(owner),
            Self::SelfSub => key.is_some_and(|key| owner.is_at_or_below(key)),
            Self::Zone => true,
        }
    }
}

/// Whether a name matches a pattern, label by label.
fn fits(owner: Name<'_>, form: Name<'_>) -> bool {
    let (labels, forms) = (owner.label_count(), form.label_count());
    let is_open = form.labels().last() == Some(b"*");
    if labels < forms || labels > forms && !is_open {
        return false;
    }
    let same = |(label, form): (&[u8], &[u8])| form == b"*" || label.eq_ignore_ascii_case(form);
    owner.labels().zip(form.labels()).all(same)
}

impl RuleTypes {
    fn has(&self, rtype: Type) -> bool {
        match self {
            Self::Usual => {
                let unusual = [Type::NS, Type::SOA, Type::RRSIG, Type::SIG, Type::NSEC, Type::NSEC3];
                !unusual.contains(&rtype)
            }
            Self::All => true,
            Self::Only(types) => types.contains(&rtype),
        }
    }
}

/// Why a rule's text is invalid, with the word concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleFault {
    /// It begins with neither `grant` nor `deny`.
    Action(String),
    /// It is neither a client nor a kind of names.
    Word(String),
    /// The clients are missing.
    NoClient,
    /// The names are missing.
    NoNames,
    /// It names no certificate.
    Certificate(CertificateRuleFault),
    /// It is not a domain name.
    Name(String),
    /// It is not a record type.
    Type(String),
    /// It is not a wildcard: its first label is not `*`.
    NoWildcard(String),
    /// It has no label `*`, so it is not a pattern.
    NoPattern(String),
}

impl fmt::Display for RuleFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Action(word) => write!(f, "`{word}`: a rule begins with `grant` or `deny`"),
            Self::Word(word) => write!(
                f,
                "`{word}` is neither a client (`key:NAME`, `cert:NAME`, a network, `any`) nor which names are meant \
                 (`name NAME`, `subdomain NAME`, `wildcard *.NAME`, `pattern FORM`, `self`, `selfsub`, \
                 `zone`)"
            ),
            Self::NoClient => {
                f.write_str("the rule does not say for whom: `key:NAME`, `cert:NAME`, a network, or `any`")
            }
            Self::NoNames => f.write_str(
                "the rule does not say which names: `name NAME`, `subdomain NAME`, `wildcard *.NAME`, \
                 `pattern FORM`, `self`, `selfsub` or `zone`",
            ),
            Self::Certificate(fault) => fault.fmt(f),
            Self::Name(word) => write!(f, "`{word}` is not a domain name"),
            Self::Type(word) => write!(f, "`{word}` is no record type"),
            Self::NoWildcard(word) => {
                write!(f, "`{word}` is no wildcard: it begins with `*.`; `pattern` takes a `*` anywhere")
            }
            Self::NoPattern(word) => write!(f, "`{word}` has no label `*`: write `name {word}`"),
        }
    }
}
impl std::error::Error for RuleFault {}

impl FromStr for PolicyRule {
    type Err = RuleFault;

    fn from_str(text: &str) -> Result<Self, RuleFault> {
        let mut words = text.split_whitespace();
        let action = match words.next().unwrap_or_default() {
            "grant" => GrantOrDeny::Grant,
            "deny" => GrantOrDeny::Deny,
            word => return Err(RuleFault::Action(word.to_owned())),
        };
        let (mut client, mut has_client) = (RuleClient::default(), false);
        let names = loop {
            let word = words.next().ok_or(RuleFault::NoNames)?;
            let mut named = || name(words.next().ok_or(RuleFault::NoNames)?);
            match word {
                "name" => break NameRelation::Name(named()?),
                "subdomain" => break NameRelation::Subdomain(named()?),
                "wildcard" => break NameRelation::Wildcard(starred(words.next(), true)?),
                "pattern" => break NameRelation::Pattern(starred(words.next(), false)?),
                "self" => break NameRelation::SelfName,
                "selfsub" => break NameRelation::SelfSub,
                "zone" => break NameRelation::Zone,
                "any" => {}
                _ => match word.strip_prefix("key:") {
                    Some(key) => client.key = Some(name(key)?),
                    None if word.starts_with("cert:") => {
                        let rule = word.trim_start_matches("cert:").parse();
                        client.certificate = Some(rule.map_err(RuleFault::Certificate)?);
                    }
                    None => client.network = Some(network(word).ok_or(RuleFault::Word(word.to_owned()))?),
                },
            }
            has_client = true;
        };
        let types: Vec<&str> = words.collect();
        let types = match types[..] {
            [] => RuleTypes::Usual,
            [all] if all.eq_ignore_ascii_case("ANY") => RuleTypes::All,
            _ => RuleTypes::Only(types.into_iter().map(one_type).collect::<Result<_, _>>()?),
        };
        if !has_client {
            return Err(RuleFault::NoClient);
        }
        Ok(PolicyRule { action, client, names, types })
    }
}

fn name(word: &str) -> Result<NameBuf, RuleFault> {
    NameBuf::from_text(word.as_bytes(), Some(Name::ROOT)).map_err(|_| RuleFault::Name(word.to_owned()))
}

/// Parses a name with a label `*`: as the first label, or anywhere.
fn starred(word: Option<&str>, first: bool) -> Result<NameBuf, RuleFault> {
    let word = word.ok_or(RuleFault::NoNames)?;
    let found = name(word)?;
    match (first, found.as_name().is_wildcard(), found.as_name().labels().any(|label| label == b"*")) {
        (true, false, _) => Err(RuleFault::NoWildcard(word.to_owned())),
        (false, _, false) => Err(RuleFault::NoPattern(word.to_owned())),
        _ => Ok(found),
    }
}

fn one_type(word: &str) -> Result<Type, RuleFault> {
    let found = word.parse().ok().filter(|rtype: &Type| !rtype.is_meta());
    found.ok_or_else(|| RuleFault::Type(word.to_owned()))
}

/// Parses an address, or an address and a prefix length. Bits behind the length are ignored.
fn network(word: &str) -> Option<Prefix> {
    match word.parse() {
        Ok(network) | Err(PrefixFault::HostBits(network)) => Some(network),
        Err(PrefixFault::Address | PrefixFault::Length) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(rules: &[&str]) -> UpdatePolicy {
        UpdatePolicy::new(rules.iter().map(|rule| rule.parse().unwrap_or_else(|e| panic!("{rule}: {e}"))))
    }

    fn permits(policy: &UpdatePolicy, key: Option<&str>, address: &str, owner: &str, rtype: Type) -> bool {
        let key = key.map(|key| key.parse::<NameBuf>().expect("a name").as_name().to_lower());
        let requester = Requester {
            key: key.as_ref().map(|key| key.as_lower()),
            address: address.parse().expect("an address"),
            certificate: None,
        };
        policy.permission(requester).permits(owner.parse::<NameBuf>().expect("a name").as_name(), rtype)
    }

    #[test]
    fn the_first_rule_that_fits_decides_and_without_one_nothing_is_permitted() {
        let rules = policy(&[
            "deny any name www.example.",
            "deny key:dhcp subdomain dyn.example. TXT",
            "grant key:dhcp subdomain dyn.example.",
            "grant key:dhcp name www.example.",
        ]);
        let ask = |key, owner, rtype| permits(&rules, key, "192.0.2.1", owner, rtype);
        assert!(ask(Some("DHCP."), "dyn.example.", Type::A));
        assert!(ask(Some("dhcp."), "a.b.DYN.example.", Type::AAAA));
        assert!(!ask(Some("dhcp."), "a.dyn.example.", Type::TXT), "denied before it is granted");
        assert!(!ask(Some("dhcp."), "www.example.", Type::A), "denied to everybody first");
        assert!(!ask(Some("dhcp."), "example.", Type::A), "no rule fits");
        assert!(!ask(Some("other."), "a.dyn.example.", Type::A));
        assert!(!ask(None, "a.dyn.example.", Type::A));
        assert!(!permits(&UpdatePolicy::default(), None, "::1", "example.", Type::A));
    }

    #[test]
    fn a_rule_without_types_leaves_out_what_makes_a_zone() {
        let rules = policy(&["grant key:a zone", "grant key:b zone ANY", "grant key:c zone NS TYPE65280"]);
        for (key, rtype, permitted) in [
            ("a.", Type::MX, true),
            ("a.", Type::NS, false),
            ("a.", Type::SOA, false),
            ("b.", Type::SOA, true),
            ("c.", Type::NS, true),
            ("c.", Type(65280), true),
            ("c.", Type::A, false),
        ] {
            assert_eq!(permits(&rules, Some(key), "::1", "x.example.", rtype), permitted, "{key} {rtype}");
        }
    }

    #[test]
    fn a_key_may_change_what_bears_its_name() {
        let rules = policy(&["grant any self A", "grant any selfsub TXT"]);
        let ask = |key, owner, rtype| permits(&rules, key, "::1", owner, rtype);
        assert!(ask(Some("host.example."), "HOST.example.", Type::A));
        assert!(!ask(Some("host.example."), "a.host.example.", Type::A));
        assert!(ask(Some("host.example."), "a.host.example.", Type::TXT));
        assert!(!ask(Some("host.example."), "nohost.example.", Type::TXT));
        assert!(!ask(None, "host.example.", Type::A));
    }

    #[test]
    fn one_key_could_not_have_the_challenges_of_all_names() {
        let rules = policy(&[
            "grant key:acme pattern _acme-challenge.* TXT",
            "grant key:one pattern _acme-challenge.*.example. TXT",
            "grant key:mid pattern *.dyn.*.example. A",
            "grant key:wild wildcard *.dyn.example. A",
        ]);
        for (key, owner, rtype, permitted) in [
            ("acme.", "_ACME-challenge.www.example.", Type::TXT, true),
            ("acme.", "_acme-challenge.example.", Type::TXT, true),
            ("acme.", "_acme-challenge.a.b.example.", Type::TXT, true),
            ("acme.", "_acme-challenge.", Type::TXT, false),
            ("acme.", "www.example.", Type::TXT, false),
            ("acme.", "x._acme-challenge.example.", Type::TXT, false),
            ("acme.", "_acme-challenge.www.example.", Type::A, false),
            ("one.", "_acme-challenge.www.example.", Type::TXT, true),
            ("one.", "_acme-challenge.example.", Type::TXT, false),
            ("one.", "_acme-challenge.a.b.example.", Type::TXT, false),
            ("one.", "_acme-challenge.www.other.", Type::TXT, false),
            ("mid.", "h.dyn.site.example.", Type::A, true),
            ("mid.", "h.static.site.example.", Type::A, false),
            ("wild.", "h.dyn.example.", Type::A, true),
            ("wild.", "a.b.dyn.example.", Type::A, true),
            ("wild.", "dyn.example.", Type::A, false),
        ] {
            assert_eq!(permits(&rules, Some(key), "::1", owner, rtype), permitted, "{key} {owner} {rtype}");
        }
    }

    #[test]
    fn key_and_network_must_both_fit_where_both_are_given() {
        let rules =
            policy(&["grant 192.0.2.0/24 key:a zone", "grant 2001:db8::1 zone TXT", "grant ::/0 zone MX"]);
        let ask = |key, address, rtype| permits(&rules, key, address, "x.example.", rtype);
        assert!(ask(Some("a."), "192.0.2.255", Type::A));
        assert!(ask(Some("a."), "::ffff:192.0.2.255", Type::A));
        assert!(!ask(Some("a."), "192.0.3.0", Type::A));
        assert!(!ask(None, "192.0.2.255", Type::A));
        assert!(ask(None, "2001:db8::1", Type::TXT));
        assert!(!ask(None, "2001:db8::2", Type::TXT));
        assert!(ask(None, "2001:db8::2", Type::MX));
        assert!(!ask(None, "192.0.2.1", Type::MX));
    }

    #[test]
    fn bits_behind_a_networks_length_are_ignored_and_mapped_networks_are_those_of_ipv4() {
        let rules = policy(&["grant 192.0.2.7/24 zone TXT", "grant ::ffff:198.51.100.0/120 zone TXT"]);
        let ask = |address| permits(&rules, None, address, "x.example.", Type::TXT);
        assert!(ask("192.0.2.1"));
        assert!(ask("198.51.100.9"));
        assert!(!ask("198.51.101.9"));
    }

    #[test]
    fn a_requester_without_a_grant_may_do_nothing() {
        let rules = policy(&["grant key:a zone", "deny any zone"]);
        let address = "::1".parse().expect("an address");
        assert!(rules.permission(Requester { key: None, address, certificate: None }).is_none());
        let key: NameBuf = "a.".parse().expect("a name");
        let key = key.as_name().to_lower();
        assert!(
            !rules.permission(Requester { key: Some(key.as_lower()), address, certificate: None }).is_none()
        );
    }

    #[test]
    fn a_fault_in_a_rule_names_the_word() {
        for (text, fault) in [
            ("permit any zone", RuleFault::Action("permit".into())),
            ("", RuleFault::Action(String::new())),
            ("grant zone", RuleFault::NoClient),
            ("grant key:a", RuleFault::NoNames),
            ("grant key:a name", RuleFault::NoNames),
            ("grant key:a..b zone", RuleFault::Name("a..b".into())),
            ("grant 192.0.2.0/33 zone", RuleFault::Word("192.0.2.0/33".into())),
            ("grant key:a below x.", RuleFault::Word("below".into())),
            ("grant key:a zone A AXFR", RuleFault::Type("AXFR".into())),
            ("grant key:a zone NOPE", RuleFault::Type("NOPE".into())),
            ("grant key:a wildcard a.*.b.", RuleFault::NoWildcard("a.*.b.".into())),
            ("grant key:a pattern a.b.", RuleFault::NoPattern("a.b.".into())),
            ("grant key:a pattern", RuleFault::NoNames),
        ] {
            assert_eq!(text.parse::<PolicyRule>(), Err(fault), "{text}");
        }
    }
}
