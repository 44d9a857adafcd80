//! `[[policy.zone]]` and the keys of `[policy]` about response policy zones. Reads no zone.

use std::collections::HashMap;

use policy::{NameKeys, PolicyRecord, RpzAction, RpzReport, RuleBuilder, SourceId};
use recursion::{RpzOptions, RpzOverride};
use toml::Spanned;
use toml::de::DeValue;
use wire::edns::ErrorInfo;
use wire::hash::HashKey;
use wire::{LowerName, NameBuf, Ttl, Type, ZoneName};
use zone::{Node, Zone};

use super::report::Diagnostic;
use super::signing::effective;
use super::table::keys;
use super::table::read::{At, Reader};
use super::table::value::{Int, Seconds, Value, Word, list as quoted, quote};
use super::zone_name::zone_name;
use super::zones::{ConfiguredZone, Templates};

keys! {
    /// Keys about all response policy zones.
    pub struct PolicyZoneOptions {
        /// Whether signed answers are rewritten for clients that set DO. Such a client discards a rewritten
        /// answer if it validates.
        live "break-dnssec" break_dnssec: bool = false, example true;
        /// Whether a name that has a rule is looked up before its rule applies, so that its servers cannot
        /// see that it has one.
        live "qname-wait-recurse" qname_wait_recurse: bool = false, example true;
        /// Whether a query waits until the name servers of a name are known, if there are rules about them
        /// (NSDNAME, NSIP). Otherwise the rules match only servers that are in the cache.
        live "ns-wait-recurse" ns_wait_recurse: bool = true, example false;
        /// Name servers of domains with fewer dots are not compared with rules.
        live "min-ns-dots" min_ns_dots: Int<u8, 0, 126> = Int(1), example 2;
        /// Most lookups of name servers and their addresses for one query, for rules about them. Servers
        /// beyond it are compared only if they are in the cache.
        live "ns-lookups" ns_lookups: Int<u16, 0, 1000> = Int(48), example 20;
    }
}

keys! {
    /// A response policy zone (RPZ): a zone whose records are rules. The first zone that has a rule about a
    /// query decides, before all lists. The zone itself is a `[[zone]]` of this server, with a file or with
    /// primaries, or is in the database of `[database]`. [RPZ.md](RPZ.md) explains it.
    pub struct PolicyZoneBlock in "[[policy.zone]]" {
        /// Name of the zone.
        live "name" name: NameBuf, example "rpz.example.com";
        /// What its rules do: what the zone says ("given"), nothing but count ("disabled"), another action
        /// ("passthru", "nxdomain", "nodata", "drop", "tcp-only"), or an alias to a name with a final dot.
        live "action" action: RpzOverride = RpzOverride::Given, example "nxdomain";
        /// Longest TTL of its records in answers.
        live "max-ttl" max_ttl: Seconds<0, 604_800> = Seconds(604_800), example "5m";
        /// Whether answers that it rewrites have its SOA record in the additional section.
        live "add-soa" add_soa: bool = true, example false;
        /// Extended error of rewritten answers (RFC 8914): "blocked", "censored", "filtered", "prohibited",
        /// "forged", or "none".
        live "extended-error" extended_error: RewriteError = RewriteError::Blocked, example "filtered";
        /// Whether the query log, dnstap and the stream of queries have the rules that decide queries.
        /// Metrics count them in any case.
        live "log" log: bool = true, example false;
        /// Whether clients get answers from the zone itself, and transfers if `allow-transfer` says so.
        live "answers" answers: bool = false, example true;
    }
}

/// Passes each owner of a policy zone's version with its records to `each`, which is its rule if it is one.
pub fn each_owner<'z>(zone: &'z Zone, mut each: impl FnMut(LowerName<'z>, &[PolicyRecord<'_>])) {
    let mut data = OwnerData::default();
    for node in zone.stored_from(None) {
        data.read(Some(node));
        let records = data.records();
        if !records.is_empty() {
            each(node.owner(), &records);
        }
    }
}

/// The records of an owner in a policy zone.
#[derive(Default)]
pub struct OwnerData {
    /// The data, one behind the other.
    bytes: Vec<u8>,
    /// The type and the TTL of each record, and the end of its data.
    ends: Vec<(Type, Ttl, usize)>,
}

impl OwnerData {
    /// Takes the records of a node in place of those before; none without a node.
    pub fn read(&mut self, node: Option<Node<'_>>) {
        let OwnerData { bytes, ends } = self;
        bytes.clear();
        ends.clear();
        for rrset in node.into_iter().flat_map(Node::rrsets) {
            for rdata in rrset.rdatas() {
                rdata.copy_to(bytes);
                ends.push((rrset.rtype(), rrset.ttl(), bytes.len()));
            }
        }
    }

    /// The records.
    pub fn records(&self) -> Vec<PolicyRecord<'_>> {
        let mut start = 0;
        let records = self.ends.iter().map(|(rtype, ttl, end)| {
            let rdata = self.bytes.get(start..*end).unwrap_or_default();
            start = *end;
            PolicyRecord { rtype: *rtype, ttl: *ttl, rdata }
        });
        records.collect()
    }
}

/// Returns what a version of a policy zone holds, without its rules.
pub fn examined(zone: &Zone) -> RpzReport {
    let (mut report, apex) = (RpzReport::default(), zone.apex());
    let mut builder = RuleBuilder::new(NameKeys::new(HashKey::new([0; 3])));
    each_owner(zone, |owner, records| builder.rpz(SourceId(0), apex, owner, records, &mut report));
    report
}

/// The extended error of rewritten answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewriteError {
    /// Blocked.
    Blocked,
    /// Censored.
    Censored,
    /// Filtered.
    Filtered,
    /// Prohibited.
    Prohibited,
    /// Forged Answer.
    Forged,
    /// No extended error.
    None,
}

impl Word for RewriteError {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("blocked", Self::Blocked),
        ("censored", Self::Censored),
        ("filtered", Self::Filtered),
        ("prohibited", Self::Prohibited),
        ("forged", Self::Forged),
        ("none", Self::None),
    ];
}

impl RewriteError {
    fn info(self) -> Option<ErrorInfo> {
        match self {
            Self::Blocked => Some(ErrorInfo::BLOCKED),
            Self::Censored => Some(ErrorInfo::CENSORED),
            Self::Filtered => Some(ErrorInfo::FILTERED),
            Self::Prohibited => Some(ErrorInfo::PROHIBITED),
            Self::Forged => Some(ErrorInfo::FORGED_ANSWER),
            Self::None => None,
        }
    }
}

/// Words for what the rules of a zone do.
const ACTIONS: [(&str, RpzOverride); 7] = [
    ("given", RpzOverride::Given),
    ("disabled", RpzOverride::Disabled),
    ("passthru", RpzOverride::Action(RpzAction::Passthru)),
    ("nxdomain", RpzOverride::Action(RpzAction::NxDomain)),
    ("nodata", RpzOverride::Action(RpzAction::NoData)),
    ("drop", RpzOverride::Action(RpzAction::Drop)),
    ("tcp-only", RpzOverride::Action(RpzAction::TcpOnly)),
];

impl Value for RpzOverride {
    fn kind() -> String {
        format!("{} or name with a final dot", quoted(ACTIONS.iter().map(|(word, _)| *word)))
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        let text = node.get_ref().as_str().unwrap_or_default();
        if !text.contains('.') {
            return reader.word(node, &ACTIONS);
        }
        if !text.ends_with('.') || text == "." {
            reader.bad_value(node, format!("`{text}` is neither an action nor a name with a final dot"));
            return None;
        }
        reader.text(node, "a name with a final dot", zone_name).map(RpzOverride::Cname)
    }
    fn render(&self) -> Option<String> {
        match self {
            RpzOverride::Cname(target) => Some(quote(&target.to_string())),
            other => ACTIONS.iter().find(|(_, action)| action == other).map(|(word, _)| quote(word)),
        }
    }
}

/// The settings of one response policy zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyZoneConfig {
    /// Its name.
    pub name: NameBuf,
    /// What the operator orders in place of its actions.
    pub instead: RpzOverride,
    /// Longest TTL of its records in answers.
    pub max_ttl: Ttl,
    /// Whether rewritten answers have its SOA record.
    pub add_soa: bool,
    /// The extended error of rewritten answers.
    pub info: Option<ErrorInfo>,
    /// Whether the query log and dnstap have its rules.
    pub is_logged: bool,
}

/// The settings of all response policy zones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyZonesConfig {
    /// The zones, in the order of the configuration.
    pub zones: Vec<PolicyZoneConfig>,
    /// Options of all of them.
    pub options: RpzOptions,
}

impl PolicyZoneBlock {
    fn config(&self) -> PolicyZoneConfig {
        PolicyZoneConfig {
            name: self.name.value,
            instead: self.action.value,
            max_ttl: Ttl::from_secs(self.max_ttl.0),
            add_soa: *self.add_soa,
            info: self.extended_error.info(),
            is_logged: *self.log,
        }
    }
}

/// Returns the settings of all response policy zones.
pub(super) fn config(options: &PolicyZoneOptions, zones: &[At<PolicyZoneBlock>]) -> PolicyZonesConfig {
    let options = RpzOptions {
        break_dnssec: *options.break_dnssec,
        qname_wait_recurse: *options.qname_wait_recurse,
        ns_wait_recurse: *options.ns_wait_recurse,
        min_ns_dots: options.min_ns_dots.0,
        ns_lookups: options.ns_lookups.0,
    };
    PolicyZonesConfig { zones: zones.iter().map(|zone| zone.config()).collect(), options }
}

/// Most response policy zones.
const MAX_ZONES: usize = 64;

/// What response policy zones depend on in a configuration.
pub(super) struct PolicyZoneContext<'c> {
    pub(super) templates: &'c Templates,
    pub(super) is_recursive: bool,
    /// Whether a zone may come from elsewhere than the configuration: from a database.
    pub(super) may_be_elsewhere: bool,
}

/// Reports zones that are no zones of this server, zones that are signed, zones that are named twice, and too
/// many zones.
pub(super) fn check<'z>(
    zones: &[At<PolicyZoneBlock>],
    served: impl Iterator<Item = &'z At<ConfiguredZone>>,
    PolicyZoneContext { templates, is_recursive, may_be_elsewhere }: PolicyZoneContext<'_>,
    faults: &mut Vec<Diagnostic>,
) {
    let Some(first) = zones.first() else { return };
    if !is_recursive {
        let message = "[[policy.zone]] has no effect without [resolver]";
        faults.push(Diagnostic::at(first.place.as_ref(), message));
    }
    if let Some(more) = zones.get(MAX_ZONES) {
        let message = format!("{} response policy zones, and there can be {MAX_ZONES}", zones.len());
        faults.push(Diagnostic::at(more.place.as_ref(), message));
    }
    let served: HashMap<ZoneName, &ConfiguredZone> =
        served.filter(|zone| zone.view.is_none()).map(|zone| (zone.apex(), &zone.value)).collect();
    let mut seen: HashMap<ZoneName, &At<NameBuf>> = HashMap::new();
    for zone in zones {
        let apex = ZoneName::from(&zone.name.value);
        match served.get(&apex) {
            Some(served) => faults.extend(signed(served, templates, zone)),
            None if may_be_elsewhere => {}
            None => {
                let message = format!("there is no [[zone]] named `{}`", zone.name.value);
                faults.push(Diagnostic::at(zone.name.place.as_ref(), message));
            }
        }
        let first = *seen.entry(apex).or_insert(&zone.name);
        if !std::ptr::eq(first, &zone.name) {
            let message = format!("response policy zone `{}` is named twice", zone.name.value);
            let fault = Diagnostic::at(zone.name.place.as_ref(), message);
            faults.push(fault.also(first.place.as_ref(), "first here"));
        }
    }
}

/// Reports a response policy zone that would be signed: its records are rules, which clients do not look up.
fn signed(zone: &ConfiguredZone, templates: &Templates, rules: &PolicyZoneBlock) -> Option<Diagnostic> {
    let template = zone.template.as_deref().and_then(|name| templates.get(name));
    let (_, place) = effective(&zone.signing, template.map(|template| &template.signing))?;
    let message = format!("the response policy zone {} has `dnssec-policy`", zone.name.value);
    let fault = Diagnostic::at(place, message).also(rules.name.place.as_ref(), "it is used here");
    Some(fault.hint("`dnssec-policy = \"none\"` in [[zone]] leaves it unsigned"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{AcceptedConfig, read_text};

    fn zones(text: &str) -> Result<PolicyZonesConfig, String> {
        let read = read_text("t.toml", text.to_owned(), Path::new("/zones"));
        read.map(|AcceptedConfig { config, .. }| config.settings.policy_zones())
            .map_err(|fault| fault.to_string())
    }

    const RPZ: &str = "[resolver]\n[[zone]]\nname = \"rpz.test\"\nfile = \"rpz\"\n[[policy.zone]]\n\
        name = \"RPZ.test.\"\n";

    #[test]
    fn an_action_is_a_word_or_a_name_with_a_final_dot() {
        let action = |key: &str| zones(&format!("{RPZ}{key}\n")).map(|zones| zones.zones[0].instead);
        assert_eq!(action(""), Ok(RpzOverride::Given));
        assert_eq!(action("action = \"tcp-only\""), Ok(RpzOverride::Action(RpzAction::TcpOnly)));
        let garden = RpzOverride::Cname("garden.test.".parse().expect("a name"));
        assert_eq!(action("action = \"garden.test.\""), Ok(garden));
        for (key, words) in [
            ("action = \"nxdomian\"", "did you mean \"nxdomain\"?"),
            ("action = \"garden.test\"", "name with a final dot"),
            ("action = \".\"", "name with a final dot"),
            ("action = \"a..b.\"", "t.toml:7:10"),
        ] {
            let fault = action(key).expect_err(key);
            assert!(fault.contains(words), "{key}: {fault}");
        }
    }

    #[test]
    fn a_policy_zone_is_a_zone_of_this_server() {
        assert_eq!(zones(RPZ).expect("good").zones[0].name.to_string(), "rpz.test.");
        let alone = zones(&RPZ.replace("[resolver]\n", "")).expect_err("no resolver");
        assert!(alone.contains("[[policy.zone]] has no effect without [resolver]"), "{alone}");
        let other = zones(&RPZ.replace("rpz.test\"\nfile", "other.test\"\nfile")).expect_err("no zone");
        assert!(other.contains("there is no [[zone]] named `rpz.test.`"), "{other}");
        let twice = format!("{RPZ}[[policy.zone]]\nname = \"rpz.TEST\"\n");
        let twice = zones(&twice).expect_err("twice");
        assert!(twice.contains("is named twice") && twice.contains("first here"), "{twice}");
    }

    #[test]
    fn options_are_those_of_bind() {
        let keys = "[policy]\nbreak-dnssec = true\nqname-wait-recurse = true\nns-wait-recurse = false\n\
            min-ns-dots = 3\nns-lookups = 20\n";
        let options = zones(&format!("{RPZ}{keys}")).expect("good").options;
        let wanted = RpzOptions {
            break_dnssec: true,
            qname_wait_recurse: true,
            ns_wait_recurse: false,
            min_ns_dots: 3,
            ns_lookups: 20,
        };
        assert_eq!(options, wanted);
        assert_eq!(zones(RPZ).expect("good").options, RpzOptions::default());
    }
}
