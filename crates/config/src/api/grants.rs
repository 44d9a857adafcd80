//! Rights of tokens: what a token may do, in which zones, and with which records.

use std::fmt;
use std::str::FromStr;

use toml::Spanned;
use toml::de::DeValue;
use update::NameRelation;
use wire::name::BadViewName;
use wire::{Name, NameBuf, Type, ViewName, ZoneName};

use crate::report::Diagnostic;
use crate::table::keys;
use crate::table::read::{At, Reader};
use crate::table::value::{Value, Word, quote};
use crate::zone_name::{ZoneNameFault, zone_name};

/// What a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ApiRight {
    /// Read the state of the server, of zones, caches and policies.
    Read,
    /// Change records of zones.
    Change,
    /// Create and delete zones; change their metadata, keys and signatures.
    Manage,
    /// Control block lists, policy zones and groups of clients.
    Policy,
    /// Control the server: configuration, cache, forwarding, trust anchors; observe queries.
    Server,
    /// Everything.
    All,
}

impl Word for ApiRight {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("read", Self::Read),
        ("change", Self::Change),
        ("manage", Self::Manage),
        ("policy", Self::Policy),
        ("server", Self::Server),
        ("all", Self::All),
    ];
}

keys! {
    /// One right of a token.
    pub struct ApiGrant in "a right" {
        /// What it allows.
        live "right" right: ApiRight, example "change";
        /// The zones; unset: all.
        live "zones" zones: Option<Vec<At<ZonePattern>>> = None, example ["example.com"];
        /// The owner names of records; unset: all.
        live "names" names: Option<Vec<At<NamePattern>>> = None, example ["_acme-challenge.*"];
        /// The types of records; unset: all.
        live "types" types: Option<Vec<At<Type>>> = None, example ["TXT"];
    }
}

impl Value for ApiGrant {
    fn kind() -> String {
        "right `{ right, zones, names, types }`".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        let Some(table) = node.get_ref().as_table() else {
            reader.wrong_type(node, "a right such as { right = \"read\" }");
            return None;
        };
        // Blocks are those of [api] while its tokens are read.
        let blocks = std::mem::take(&mut reader.blocks);
        let grant = reader.section::<Self>(table, node.span());
        reader.blocks = blocks;
        grant
    }
    fn render(&self) -> Option<String> {
        let keys = [
            ("right", self.right.value.render()),
            ("zones", self.zones.value.render()),
            ("names", self.names.value.render()),
            ("types", self.types.value.render()),
        ];
        let set = keys.iter().filter_map(|(key, value)| Some(format!("{key} = {}", value.as_ref()?)));
        Some(format!("{{ {} }}", set.collect::<Vec<_>>().join(", ")))
    }
}

impl ApiGrant {
    /// Reports keys that the right does not use.
    pub(super) fn check(&self, faults: &mut Vec<Diagnostic>) {
        use ApiRight::{All, Change, Manage, Read};
        let word = self.right.value.render().unwrap_or_default();
        let of_zones = matches!(*self.right, Read | Change | Manage | All);
        let of_records = matches!(*self.right, Read | Change);
        for (key, is_set, place, is_used) in [
            ("zones", self.zones.is_some(), &self.zones.place, of_zones),
            ("names", self.names.is_some(), &self.names.place, of_records),
            ("types", self.types.is_some(), &self.types.place, of_records),
        ] {
            if is_set && !is_used {
                let message = format!("`{key}` has no effect with right = {word}");
                let hint = match key {
                    "zones" => "rights \"read\", \"change\", \"manage\" and \"all\" may be limited to zones",
                    _ => "rights \"read\" and \"change\" may be limited to names and types",
                };
                faults.push(Diagnostic::at(place.as_ref(), message).hint(hint));
            }
        }
    }

    /// Returns whether the grant covers a zone.
    pub fn covers_zone(&self, zone: &ZoneName) -> bool {
        self.zones.value.as_ref().is_none_or(|all| all.iter().any(|pattern| pattern.value.covers(zone)))
    }

    /// Returns whether the grant covers records of this type at a name.
    pub fn covers_records(&self, owner: Name<'_>, rtype: Type) -> bool {
        let names = self.names.value.as_ref();
        let types = self.types.value.as_ref();
        names.is_none_or(|all| all.iter().any(|pattern| pattern.value.covers(owner)))
            && types.is_none_or(|all| all.iter().any(|one| one.value == rtype))
    }

    /// Returns whether the grant covers all records of its zones.
    pub fn covers_all_records(&self) -> bool {
        self.names.is_none() && self.types.is_none()
    }
}

/// Why a text names no zones or no owner names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RightFault {
    /// This is no domain name.
    Name(ZoneNameFault),
    /// The text behind the `@` is no name of a view.
    View(BadViewName),
    /// The last label is `*` and the first is not: patterns of zones have no such form.
    OpenZone,
}

impl fmt::Display for RightFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(fault) => fault.fmt(f),
            Self::View(fault) => fault.fmt(f),
            Self::OpenZone => {
                f.write_str("zones are named as `example.com`, or `*.example.com` for all below it")
            }
        }
    }
}

impl std::error::Error for RightFault {}

/// Parses a name, a wildcard `*.NAME` for all names below it, or a pattern with labels `*`.
fn relation(text: &str) -> Result<NameRelation, RightFault> {
    let name = zone_name(text).map_err(RightFault::Name)?;
    let labels = name.as_name().labels().filter(|label| *label == b"*").count();
    Ok(match labels {
        0 => NameRelation::Name(name),
        1 if name.as_name().is_wildcard() && name.as_name().label_count() > 1 => NameRelation::Wildcard(name),
        _ => NameRelation::Pattern(name),
    })
}

/// Returns the text of a relation.
fn relation_text(relation: &NameRelation) -> String {
    let name: Option<&NameBuf> = match relation {
        NameRelation::Name(name) | NameRelation::Wildcard(name) | NameRelation::Pattern(name) => Some(name),
        NameRelation::Subdomain(_) | NameRelation::SelfName | NameRelation::SelfSub | NameRelation::Zone => {
            None
        }
    };
    name.map(ToString::to_string).unwrap_or_default()
}

/// Zones: `example.com`, or `*.example.com` for all zones below it; with `@VIEW` those of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZonePattern {
    names: NameRelation,
    /// `None`: zones outside views.
    view: Option<ViewName>,
}

impl ZonePattern {
    fn covers(&self, zone: &ZoneName) -> bool {
        zone.view() == self.view.as_ref().map(ViewName::as_str) && self.names.covers(zone.as_name(), None)
    }
}

impl FromStr for ZonePattern {
    type Err = RightFault;

    fn from_str(text: &str) -> Result<Self, RightFault> {
        let (name, view) = ViewName::split(text).map_err(RightFault::View)?;
        match relation(name)? {
            NameRelation::Pattern(_) => Err(RightFault::OpenZone),
            names => Ok(ZonePattern { names, view }),
        }
    }
}

impl fmt::Display for ZonePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&relation_text(&self.names))?;
        self.view.iter().try_for_each(|view| write!(f, "@{view}"))
    }
}

impl Value for ZonePattern {
    fn kind() -> String {
        "zone `NAME` or `*.NAME`".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "a zone such as \"example.com\" or \"*.example.com\"", str::parse)
    }
    fn render(&self) -> Option<String> {
        Some(quote(&self.to_string()))
    }
}

/// Owner names: a name, `*.NAME` for all names below it, or a pattern in which `*` is any label, and at the
/// end any labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern(NameRelation);

impl NamePattern {
    fn covers(&self, owner: Name<'_>) -> bool {
        self.0.covers(owner, None)
    }
}

impl FromStr for NamePattern {
    type Err = RightFault;

    fn from_str(text: &str) -> Result<Self, RightFault> {
        relation(text).map(NamePattern)
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&relation_text(&self.0))
    }
}

impl Value for NamePattern {
    fn kind() -> String {
        "name `NAME`, `*.NAME` or a pattern".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "a name such as \"www.example.com\" or \"_acme-challenge.*\"", str::parse)
    }
    fn render(&self) -> Option<String> {
        Some(quote(&self.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(text: &str) -> ZoneName {
        let (name, view) = ViewName::split(text).expect("a view");
        let name = zone_name(name).expect("a name");
        ZoneName::in_view(name.as_name().to_lower().as_lower(), view.as_ref())
    }

    #[test]
    fn a_pattern_covers_its_zones_and_no_others() {
        for (pattern, covered, others) in [
            ("example.com", &["example.com"][..], &["a.example.com", "com", "example.com@inside"][..]),
            ("*.example.com", &["a.example.com", "b.a.example.com"], &["example.com", "badexample.com"]),
            ("example.com@inside", &["example.com@inside"], &["example.com", "example.com@other"]),
            ("*.example.com@inside", &["a.example.com@inside"], &["a.example.com", "example.com@inside"]),
            ("EXAMPLE.com.", &["example.com"], &["example.net"]),
        ] {
            let parsed: ZonePattern = pattern.parse().expect(pattern);
            covered.iter().for_each(|text| assert!(parsed.covers(&zone(text)), "{pattern}: {text}"));
            others.iter().for_each(|text| assert!(!parsed.covers(&zone(text)), "{pattern}: {text}"));
        }
        assert_eq!("a.*".parse::<ZonePattern>(), Err(RightFault::OpenZone));
        assert!("a..b".parse::<ZonePattern>().is_err() && "a@B".parse::<ZonePattern>().is_err());
    }

    #[test]
    fn owner_names_are_those_of_update_policy() {
        for (pattern, covered, others) in [
            ("www.example", &["www.example", "WWW.Example"][..], &["a.www.example", "example"][..]),
            ("*.dyn.example", &["a.dyn.example", "b.a.dyn.example"], &["dyn.example"]),
            (
                "_acme-challenge.*",
                &["_acme-challenge.example", "_acme-challenge.a.b"],
                &["example", "x._acme-challenge.a"],
            ),
            ("*.dyn.*.example", &["h.dyn.site.example"], &["h.static.site.example"]),
        ] {
            let parsed: NamePattern = pattern.parse().expect(pattern);
            let name = |text: &str| text.parse::<NameBuf>().expect("a name");
            covered.iter().for_each(|text| {
                assert!(parsed.covers(name(&format!("{text}.")).as_name()), "{pattern}: {text}")
            });
            others.iter().for_each(|text| {
                assert!(!parsed.covers(name(&format!("{text}.")).as_name()), "{pattern}: {text}")
            });
        }
    }
}
