//! [`CatalogZone::read`]: parses the entries of a catalog zone.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use wire::{LowerName, NameBuf, Type, ViewName, ZoneName};
use zone::{Node, RrSet, Zone};

use super::{GROUP, NEW_OWNER, SCHEMA, VERSION, ZONES};

/// The entries of a catalog zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatalogZone {
    /// Member zones by name.
    pub members: BTreeMap<ZoneName, Member>,
    /// Ignored entries, in canonical order.
    pub warnings: Vec<CatalogWarning>,
}

/// An entry of a catalog zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// The member's label in the catalog zone, in lower case. If it changes, the member is another zone of
    /// the same name (RFC 9432 §5.4).
    pub id: Box<[u8]>,
    /// Its groups, in the order of the records (RFC 9432 §4.3.2). The operator defines their meaning.
    pub groups: Vec<Box<[u8]>>,
    /// The catalog zone that the member is passed to (RFC 9432 §4.3.1).
    pub new_owner: Option<ZoneName>,
}

/// Why a catalog zone is not processed; the previous members stay (RFC 9432 §5.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogFault {
    /// There is not exactly one TXT record at `version`.
    NoVersion,
    /// The schema has this version, which is not 2.
    OtherVersion(Box<[u8]>),
    /// This name has several PTR records.
    SeveralNames(ZoneName),
    /// A record is malformed.
    Malformed(ZoneName),
}

impl fmt::Display for CatalogFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoVersion => f.write_str("there is not exactly one TXT record at its name `version`"),
            Self::OtherVersion(version) => {
                write!(f, "its version is \"{}\"; only version \"2\" is known", version.escape_ascii())
            }
            Self::SeveralNames(at) => write!(f, "{at} has more than one PTR record"),
            Self::Malformed(at) => write!(f, "a record of {at} cannot be read"),
        }
    }
}
impl std::error::Error for CatalogFault {}

/// A reason to ignore an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogWarning {
    /// A zone is listed under two labels; the first one counts.
    ListedTwice {
        /// The zone.
        zone: ZoneName,
        /// The ignored label.
        id: Box<[u8]>,
    },
    /// The catalog zone lists itself.
    ListsItself,
}

impl fmt::Display for CatalogWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ListedTwice { zone, id } => {
                write!(f, "{zone} is listed twice; label {} does not count", id.escape_ascii())
            }
            Self::ListsItself => f.write_str("it lists itself"),
        }
    }
}

impl CatalogZone {
    /// Parses a version of a catalog zone. Ignores unknown properties (RFC 9432 §3).
    pub fn read(zone: &Zone) -> Result<CatalogZone, CatalogFault> {
        check_version(zone)?;
        let apex = zone.apex();
        let mut entries: BTreeMap<Box<[u8]>, (Option<ZoneName>, Member)> = BTreeMap::new();
        for node in zone {
            let Some((id, property)) = place(node.owner(), apex) else { continue };
            let of = |entries: &mut BTreeMap<_, (Option<ZoneName>, Member)>, change: &dyn Fn(&mut _)| {
                change(entries.entry(id.into()).or_default());
            };
            match property {
                None => {
                    if let Some(name) = only_name(node)? {
                        of(&mut entries, &|entry| entry.0 = Some(name.clone()));
                    }
                }
                Some(NEW_OWNER) => {
                    if let Some(name) = only_name(node)? {
                        of(&mut entries, &|entry| entry.1.new_owner = Some(name.clone()));
                    }
                }
                Some(GROUP) => {
                    let groups = texts(node)?;
                    of(&mut entries, &|entry| entry.1.groups.clone_from(&groups));
                }
                Some(_) => {}
            }
        }
        Ok(CatalogZone::of(entries, apex))
    }

    /// Returns the same entries for zones in a view: that of the catalog zone.
    pub fn in_view(self, view: Option<&ViewName>) -> CatalogZone {
        if view.is_none() {
            return self;
        }
        let place = |zone: &ZoneName| ZoneName::in_view(zone.as_lower(), view);
        let member = |(zone, member): (ZoneName, Member)| {
            let new_owner = member.new_owner.as_ref().map(place);
            (place(&zone), Member { new_owner, ..member })
        };
        CatalogZone { members: self.members.into_iter().map(member).collect(), ..self }
    }

    /// Builds the catalog from entries by label. Entries without a PTR record only have properties and are
    /// ignored.
    fn of(entries: BTreeMap<Box<[u8]>, (Option<ZoneName>, Member)>, apex: LowerName<'_>) -> CatalogZone {
        let mut catalog = CatalogZone::default();
        for (id, (zone, member)) in entries {
            let Some(zone) = zone else { continue };
            if zone.as_lower() == apex {
                catalog.warnings.push(CatalogWarning::ListsItself);
                continue;
            }
            match catalog.members.entry(zone) {
                Entry::Vacant(place) => {
                    place.insert(Member { id, ..member });
                }
                Entry::Occupied(first) => {
                    let zone = first.key().clone();
                    catalog.warnings.push(CatalogWarning::ListedTwice { zone, id });
                }
            }
        }
        catalog
    }
}

fn check_version(zone: &Zone) -> Result<(), CatalogFault> {
    let name = NameBuf::prepend(VERSION, zone.apex().as_name()).map_err(|_| CatalogFault::NoVersion)?;
    let node = zone.find_name(name.as_name()).ok_or(CatalogFault::NoVersion)?;
    match &texts(node)?[..] {
        [version] if **version == *SCHEMA => Ok(()),
        [version] => Err(CatalogFault::OtherVersion(version.clone())),
        _ => Err(CatalogFault::NoVersion),
    }
}

/// The member's label of an owner name, and the property's label if it has one: `ID.zones.APEX` or
/// `PROPERTY.ID.zones.APEX`.
fn place<'a>(owner: LowerName<'a>, apex: LowerName<'_>) -> Option<(&'a [u8], Option<&'a [u8]>)> {
    if !owner.is_at_or_below(apex) {
        return None;
    }
    let mut labels = owner.labels();
    let below = owner.label_count() - apex.label_count();
    let property = match below {
        2 => None,
        3 => Some(labels.next()?),
        _ => return None,
    };
    let id = labels.next()?;
    (labels.next()? == ZONES).then_some((id, property))
}

/// The name in a node's only PTR record; `None` if it has no PTR record.
fn only_name(node: Node<'_>) -> Result<Option<ZoneName>, CatalogFault> {
    let Some(set) = node.rrset(Type::PTR) else { return Ok(None) };
    let owner = || ZoneName::from(node.owner());
    if set.count() != 1 {
        return Err(CatalogFault::SeveralNames(owner()));
    }
    let name = set.rdatas().next().and_then(|record| record.name());
    name.map(|name| Some(ZoneName::from(name.as_name()))).ok_or_else(|| CatalogFault::Malformed(owner()))
}

/// The texts of a node's TXT records, each with its strings concatenated.
fn texts(node: Node<'_>) -> Result<Vec<Box<[u8]>>, CatalogFault> {
    let set: Option<RrSet<'_>> = node.rrset(Type::TXT);
    let text = |record: zone::store::Rdata<'_>| {
        let (mut text, mut rest) = (Vec::new(), record.compiled());
        while let Some((&len, strings)) = rest.split_first() {
            let (string, after) = strings.split_at_checked(len as usize)?;
            text.extend_from_slice(string);
            rest = after;
        }
        Some(text.into_boxed_slice())
    };
    let all = set.iter().flat_map(|set| set.rdatas());
    all.map(|record| text(record).ok_or_else(|| CatalogFault::Malformed(ZoneName::from(node.owner()))))
        .collect()
}
