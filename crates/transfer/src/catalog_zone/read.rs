//! [`CatalogZone::read`]: what a catalog zone lists.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use wire::{LowerName, NameBuf, Type};
use zone::{Node, RrSet, Zone};

use super::{GROUP, NEW_OWNER, SCHEMA, VERSION, ZONES, ZoneName, shown, zone_name};

/// What a catalog zone lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatalogZone {
    /// Its members by their names.
    pub members: BTreeMap<ZoneName, Member>,
    /// Entries that are left out, in canonical order.
    pub warnings: Vec<CatalogWarning>,
}

/// An entry of a catalog zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// The label that the catalog zone has for it, in lower case. Where it changes, the member is another
    /// zone of the same name (RFC 9432 §5.4).
    pub id: Box<[u8]>,
    /// Its groups, in the order of the records (RFC 9432 §4.3.2). What they mean is the operator's decision.
    pub groups: Vec<Box<[u8]>>,
    /// The catalog zone that it is to go to (RFC 9432 §4.3.1).
    pub new_owner: Option<ZoneName>,
}

/// Why a catalog zone is not processed: the members from before stay (RFC 9432 §5.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogFault {
    /// There is not exactly one TXT record at `version`.
    NoVersion,
    /// It is of this version, which is not 2.
    OtherVersion(Box<[u8]>),
    /// This name has more than one PTR record.
    SeveralNames(ZoneName),
    /// A record cannot be read.
    Malformed(ZoneName),
}

impl fmt::Display for CatalogFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoVersion => f.write_str("there is not exactly one TXT record at its name `version`"),
            Self::OtherVersion(version) => {
                write!(f, "its version is \"{}\"; only version \"2\" is known", version.escape_ascii())
            }
            Self::SeveralNames(at) => write!(f, "{} has more than one PTR record", shown(at)),
            Self::Malformed(at) => write!(f, "a record of {} cannot be read", shown(at)),
        }
    }
}
impl std::error::Error for CatalogFault {}

/// An entry that is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogWarning {
    /// The same zone is listed under two labels; the one that comes first counts.
    ListedTwice {
        /// The zone.
        zone: ZoneName,
        /// The label that does not count.
        id: Box<[u8]>,
    },
    /// The catalog zone lists itself.
    ListsItself,
}

impl fmt::Display for CatalogWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ListedTwice { zone, id } => {
                write!(f, "{} is listed twice; label {} does not count", shown(zone), id.escape_ascii())
            }
            Self::ListsItself => f.write_str("it lists itself"),
        }
    }
}

impl CatalogZone {
    /// Reads a version of a catalog zone. Properties that are not known here are passed over (RFC 9432 §3).
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

    /// Of entries by their labels; those without a zone's name are properties of nothing.
    fn of(entries: BTreeMap<Box<[u8]>, (Option<ZoneName>, Member)>, apex: LowerName<'_>) -> CatalogZone {
        let mut catalog = CatalogZone::default();
        for (id, (zone, member)) in entries {
            let Some(zone) = zone else { continue };
            if *zone == *apex.as_wire() {
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

/// The label of the member that a name belongs to, and of its property if it is one's: `ID.zones.APEX` or
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

/// The one name that a node's PTR record has; `None` if it has no PTR record.
fn only_name(node: Node<'_>) -> Result<Option<ZoneName>, CatalogFault> {
    let Some(set) = node.rrset(Type::PTR) else { return Ok(None) };
    let owner = || zone_name(node.owner().as_name());
    if set.count() != 1 {
        return Err(CatalogFault::SeveralNames(owner()));
    }
    let name = set.rdatas().next().and_then(|record| record.name());
    name.map(|name| Some(zone_name(name.as_name()))).ok_or_else(|| CatalogFault::Malformed(owner()))
}

/// What the TXT records of a node say, each its strings in a row.
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
    all.map(|record| text(record).ok_or_else(|| CatalogFault::Malformed(zone_name(node.owner().as_name()))))
        .collect()
}
