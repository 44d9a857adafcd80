//! Zones for the challenge dns-01 (RFC 8555 §8.4): the zone that a record of a challenge belongs into, and
//! its changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serving::issuing::{ChallengePlace, ChallengeRecord, ChallengeZones, ChangeEnd};
use tokio::sync::oneshot;
use wire::{LowerName, Name, NameBuf, Ttl, Type, ViewName, ZoneName};
use zone::Zone;
use zone_plan::ZoneText;

use crate::changes::{ChangeAuthor, Changes, EditEnd, EditFault, RrsetEdit, RrsetEditKind, ZoneEdit};

/// Most aliases that lead from the name of a challenge to its record.
const MAX_ALIASES: usize = 8;
/// TTL of a record of a challenge. CAs ask the servers of the zone, and their resolvers forget soon.
const RECORD_TTL: Ttl = Ttl::from_secs(60);

/// A zone of this server, as far as challenges need it.
#[derive(Debug, Clone)]
pub struct ChallengeZone {
    /// Where its records come from.
    pub text: ZoneText,
    /// Whether the configuration allows its changes.
    pub takes_changes: bool,
    /// Its records; `None` if they are not known.
    pub zone: Option<Arc<Zone>>,
}

/// Why a record of a challenge belongs into no zone that this server can change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlaceFault {
    /// No zone of this server contains the name.
    NoZone(Box<NameBuf>),
    /// The zone delegates this name to other servers.
    Delegated(ZoneName, Box<NameBuf>),
    /// The zone comes from its primaries. Whether its records are known.
    Secondary(ZoneName, bool),
    /// The server generates the zone.
    Generated(ZoneName),
    /// The configuration does not allow changes of the zone.
    TakesNoChanges(ZoneName),
    /// There are too many aliases, from this name on.
    Aliases(Box<NameBuf>),
}

impl PlaceFault {
    /// Returns what an operator can do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoZone(_) => "add a [[zone]] that contains the name, or use another `challenge`",
            Self::TakesNoChanges(_) => {
                "set `api = true` in the zone or its template, or make the name an alias (CNAME) of a name in \
                 another zone that takes changes"
            }
            Self::Delegated(..) | Self::Secondary(..) | Self::Generated(_) => {
                "make the name an alias (CNAME) of a name in another zone of this server, one that takes \
                 changes"
            }
            Self::Aliases(_) => "shorten the chain of CNAME records",
        }
    }
}

impl fmt::Display for PlaceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoZone(name) => write!(f, "no zone of this server contains {name}"),
            Self::Delegated(zone, cut) => write!(f, "the zone {zone} delegates {cut} to other servers"),
            Self::Secondary(zone, _) => write!(f, "the zone {zone} comes from its primaries"),
            Self::Generated(zone) => write!(f, "nomen generates the records of the zone {zone}"),
            Self::TakesNoChanges(zone) => {
                write!(
                    f,
                    "the zone {zone} takes no changes: it has no `api`, `allow-update` or `update-policy`"
                )
            }
            Self::Aliases(name) => write!(f, "more than {MAX_ALIASES} aliases lead on from {name}"),
        }
    }
}

impl std::error::Error for PlaceFault {}

/// Returns a zone of this server.
pub type FindZone<'f> = dyn Fn(&ZoneName) -> Option<ChallengeZone> + 'f;

/// Returns where the record of a challenge belongs for clients of a view, or outside views: at `owner`, or at
/// the end of its aliases.
///
/// # Errors
/// [`PlaceFault`].
pub fn place_of(
    owner: &NameBuf,
    view: Option<&ViewName>,
    find: &FindZone<'_>,
) -> Result<ChallengePlace, PlaceFault> {
    let mut name = *owner;
    for _ in 0..=MAX_ALIASES {
        let (apex, found) = zone_of(&name, view, find).ok_or_else(|| PlaceFault::NoZone(name.into()))?;
        if let Some(zone) = &found.zone {
            if let Some(cut) = delegation(zone, name.as_name()) {
                return Err(PlaceFault::Delegated(apex, cut.into()));
            }
            if let Some(target) = alias(zone, name.as_name()) {
                name = target;
                continue;
            }
        }
        return match found.text {
            ZoneText::Primaries => Err(PlaceFault::Secondary(apex, found.zone.is_some())),
            ZoneText::Produced | ZoneText::BuiltIn(_) => Err(PlaceFault::Generated(apex)),
            ZoneText::File(_) | ZoneText::Disputed(_) | ZoneText::Database if found.takes_changes => {
                Ok(ChallengePlace { zone: apex, owner: name })
            }
            ZoneText::File(_) | ZoneText::Disputed(_) | ZoneText::Database => {
                Err(PlaceFault::TakesNoChanges(apex))
            }
        };
    }
    Err(PlaceFault::Aliases((*owner).into()))
}

/// Returns the zone with the longest name that contains a name; of two with one name that of the view.
fn zone_of(
    name: &NameBuf,
    view: Option<&ViewName>,
    find: &FindZone<'_>,
) -> Option<(ZoneName, ChallengeZone)> {
    let lower = name.as_name().to_lower();
    let mut ancestors = std::iter::successors(Some(lower.as_lower()), |name| LowerName::parent(*name));
    ancestors.find_map(|apex| {
        let in_view = view.map(|view| ZoneName::in_view(apex, Some(view)));
        let all = in_view.into_iter().chain([ZoneName::from(apex)]);
        all.into_iter().find_map(|apex| find(&apex).map(|found| (apex, found)))
    })
}

/// Returns the name at or above `name` that a zone delegates.
fn delegation(zone: &Zone, name: Name<'_>) -> Option<NameBuf> {
    let apex = zone.apex().as_name();
    let inside = name.ancestors().take_while(|at| *at != apex);
    let is_cut = |at: &Name<'_>| zone.find_name(*at).is_some_and(|node| node.rrset(Type::NS).is_some());
    inside.filter(is_cut).last().map(Name::to_buf)
}

/// Returns the target of the alias at a name.
fn alias(zone: &Zone, name: Name<'_>) -> Option<NameBuf> {
    let node = zone.find_name(name)?;
    let mut target = Vec::new();
    node.rrset(Type::CNAME)?.rdatas().next()?.copy_to(&mut target);
    Name::from_wire(&target).ok().map(Name::to_buf)
}

/// The zones that this server changes for challenges.
pub struct ZonesForChallenges(Arc<Changes>);

impl ZonesForChallenges {
    /// Returns the zones that `changes` changes.
    pub fn new(changes: &Arc<Changes>) -> Self {
        ZonesForChallenges(Arc::clone(changes))
    }

    /// Returns a zone.
    fn zone(&self, apex: &ZoneName) -> Option<ChallengeZone> {
        let state = self.0.zone_status(apex)?;
        let (text, zone) = (state.spec.text.clone(), state.zone.clone());
        Some(ChallengeZone { text, takes_changes: self.0.takes_any(apex), zone })
    }

    /// Whether a record is in the version in service of its zone, as far as that is known.
    fn may_have(&self, record: &ChallengeRecord) -> bool {
        let Some(zone) = self.zone(&record.place.zone).and_then(|found| found.zone) else { return true };
        let node = zone.find_name(record.place.owner.as_name());
        let set = node.and_then(|node| node.rrset(Type::TXT));
        let (data, mut own) = (text_data(&record.value), Vec::new());
        set.iter().flat_map(|set| set.rdatas()).any(|rdata| {
            own.clear();
            rdata.copy_to(&mut own);
            own == data
        })
    }

    /// Queues the changes of all zones that have these records.
    fn queue(
        &self,
        records: &[ChallengeRecord],
        kind: impl Fn(Vec<Vec<u8>>) -> RrsetEditKind,
    ) -> Vec<(ZoneName, oneshot::Receiver<EditEnd>)> {
        let mut zones: BTreeMap<ZoneName, BTreeMap<NameBuf, Vec<Vec<u8>>>> = BTreeMap::new();
        for ChallengeRecord { place, value } in records {
            let of_zone = zones.entry(place.zone.clone()).or_default();
            of_zone.entry(place.owner).or_default().push(text_data(value));
        }
        let queue = |(apex, owners): (ZoneName, BTreeMap<NameBuf, Vec<Vec<u8>>>)| {
            let edit = |(owner, rdatas)| RrsetEdit { owner, rtype: Type::TXT, kind: kind(rdatas) };
            let edits = owners.into_iter().map(edit).collect();
            let end = self.0.edit(&apex, ZoneEdit { edits, at_serial: None, by: ChangeAuthor::Acme });
            (apex, end)
        };
        zones.into_iter().map(queue).collect()
    }
}

impl ChallengeZones for ZonesForChallenges {
    fn places(&self, owner: &NameBuf) -> Result<Vec<ChallengePlace>, String> {
        let find = |apex: &ZoneName| self.zone(apex);
        let outside = place_of(owner, None, &find);
        let views: Vec<ViewName> = self.0.changing_views();
        let inside = views.iter().filter_map(|view| place_of(owner, Some(view), &find).ok());
        let places: BTreeSet<ChallengePlace> = outside.clone().into_iter().chain(inside).collect();
        match outside {
            Err(fault) if places.is_empty() => Err(format!("{owner}: {fault}; {}", fault.hint())),
            Ok(_) | Err(_) => Ok(places.into_iter().collect()),
        }
    }

    fn add(&self, records: Vec<ChallengeRecord>) -> ChangeEnd<'_> {
        let ttl = Some(RECORD_TTL);
        let queued = self.queue(&records, |rdatas| RrsetEditKind::Extend { ttl, rdatas });
        Box::pin(async move {
            for (apex, end) in queued {
                let end = end.await.unwrap_or(Err(EditFault::Stopping));
                end.map_err(|fault| format!("zone {apex}: {fault}"))?;
            }
            Ok(())
        })
    }

    fn remove(&self, mut records: Vec<ChallengeRecord>) -> ChangeEnd<'_> {
        // A zone that has refused a record, since it is frozen for example, need not be changed.
        records.retain(|record| self.may_have(record));
        let queued = self.queue(&records, |rdatas| RrsetEditKind::Prune { rdatas });
        Box::pin(async move {
            let mut faults = Vec::new();
            for (apex, end) in queued {
                match end.await.unwrap_or(Err(EditFault::Stopping)) {
                    // Without the zone there is no record.
                    Ok(_) | Err(EditFault::NoSuchZone) => {}
                    Err(fault) => faults.push(format!("zone {apex}: {fault}")),
                }
            }
            if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
        })
    }
}

/// Returns the data of a TXT record with this text, which has 43 characters.
fn text_data(text: &str) -> Vec<u8> {
    let text = &text.as_bytes()[..text.len().min(255)];
    [&[text.len() as u8], text].concat()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::ops::ControlFlow;
    use std::path::Path;

    use wire::hash::HashKey;
    use zone::LoadConfig;
    use zone::scan::TextSource;

    use super::*;

    fn name(text: &str) -> NameBuf {
        text.parse().expect("a name")
    }

    fn zone(apex: &str, more: &str) -> Arc<Zone> {
        let text = format!("$TTL 60\n@ SOA ns1 admin 7 2 3 4 5\n@ NS ns.test.\n{more}");
        let (key, source) = (HashKey::new([1, 2, 3]), TextSource::bytes("test", text.as_bytes()));
        let (config, apex) = (LoadConfig::default(), name(apex));
        let loaded = zone::load::load(source, apex.as_name(), &key, &config, |_| ControlFlow::Continue(()));
        Arc::new(loaded.expect("a zone").zone)
    }

    /// Zones: the name with its view, whether it takes changes, and its records.
    #[derive(Default)]
    struct Zones(HashMap<ZoneName, ChallengeZone>);

    impl Zones {
        fn with(mut self, apex: &str, takes_changes: bool, more: &str) -> Self {
            let text = ZoneText::File(Path::new("a.zone").into());
            self.insert(apex, ChallengeZone { text, takes_changes, zone: Some(zone(outside(apex), more)) });
            self
        }

        fn insert(&mut self, apex: &str, found: ChallengeZone) {
            let (apex, view) = apex.split_once('/').unwrap_or((apex, ""));
            let view: Option<ViewName> = view.parse().ok();
            let apex = name(apex).as_name().to_lower();
            self.0.insert(ZoneName::in_view(apex.as_lower(), view.as_ref()), found);
        }

        /// Returns the zone and the owner.
        fn place(&self, owner: &str, view: Option<&str>) -> Result<(String, String), PlaceFault> {
            let view: Option<ViewName> = view.map(|view| view.parse().expect("a view"));
            let found = place_of(&name(owner), view.as_ref(), &|apex| self.0.get(apex).cloned());
            let shown = |zone: &ZoneName| match zone.view() {
                Some(view) => format!("{}/{view}", zone.as_name()),
                None => zone.as_name().to_string(),
            };
            found.map(|place| (shown(&place.zone), place.owner.to_string()))
        }
    }

    fn outside(apex: &str) -> &str {
        apex.split_once('/').map_or(apex, |(apex, _)| apex)
    }

    fn at(zone: &str, owner: &str) -> Result<(String, String), PlaceFault> {
        Ok((zone.into(), owner.into()))
    }

    #[test]
    fn the_zone_with_the_longest_name_has_the_record() {
        let zones = Zones::default().with("example.", true, "").with("sub.example.", true, "");
        let own = "_acme-challenge.dns.example.";
        assert_eq!(zones.place(own, None), at("example.", own));
        let upper = "_ACME-CHALLENGE.dns.EXAMPLE.";
        assert_eq!(zones.place(upper, None), at("example.", upper));
        let below = "_acme-challenge.sub.example.";
        assert_eq!(zones.place(below, None), at("sub.example.", below));
        assert_eq!(
            zones.place("_acme-challenge.test.", None),
            Err(PlaceFault::NoZone(name("_acme-challenge.test.").into()))
        );
    }

    #[test]
    fn aliases_are_followed_through_zones_that_take_no_changes() {
        let zones = Zones::default()
            .with(
                "example.",
                false,
                "_acme-challenge.a CNAME b\nb CNAME c.challenges.test.\nx CNAME y\ny CNAME x\n",
            )
            .with("challenges.test.", true, "");
        assert_eq!(
            zones.place("_acme-challenge.a.example.", None),
            at("challenges.test.", "c.challenges.test.")
        );
        let unchanged = zones.place("_acme-challenge.other.example.", None);
        assert_eq!(unchanged, Err(PlaceFault::TakesNoChanges(name("example.").as_name().into())));
        assert_eq!(zones.place("x.example.", None), Err(PlaceFault::Aliases(name("x.example.").into())));
        let away = Zones::default().with("example.", true, "_acme-challenge.a CNAME a.elsewhere.test.\n");
        let fault = away.place("_acme-challenge.a.example.", None);
        assert_eq!(fault, Err(PlaceFault::NoZone(name("a.elsewhere.test.").into())));
    }

    #[test]
    fn names_of_other_servers_and_zones_from_elsewhere_have_no_record() {
        let mut zones = Zones::default().with("example.", true, "sub NS ns.test.\nns.sub A 192.0.2.1\n");
        let apex = |text: &str| ZoneName::from(name(text).as_name());
        let delegated = Err(PlaceFault::Delegated(apex("example."), name("sub.example.").into()));
        assert_eq!(zones.place("_acme-challenge.a.sub.example.", None), delegated);
        let secondary = |zone| ChallengeZone { text: ZoneText::Primaries, takes_changes: false, zone };
        zones.insert("unknown.", secondary(None));
        zones.insert("taken.", secondary(Some(zone("taken.", "_acme-challenge.a CNAME a.example.\n"))));
        zones.insert("made.", ChallengeZone { text: ZoneText::Produced, ..secondary(None) });
        zones.insert("shared.", ChallengeZone { text: ZoneText::Database, takes_changes: true, zone: None });
        let place = |apex: &str| zones.place(&format!("_acme-challenge.{apex}"), None);
        assert_eq!(place("unknown."), Err(PlaceFault::Secondary(apex("unknown."), false)));
        assert_eq!(place("taken."), Err(PlaceFault::Secondary(apex("taken."), true)));
        assert_eq!(place("made."), Err(PlaceFault::Generated(apex("made."))));
        assert_eq!(place("shared."), at("shared.", "_acme-challenge.shared."));
        assert_eq!(place("a.taken."), at("example.", "a.example."), "an alias of a secondary zone");
    }

    #[test]
    fn a_view_has_zones_of_its_own_and_those_outside_views() {
        let zones = Zones::default()
            .with("example.", true, "")
            .with("example./inside", true, "")
            .with("other.", true, "");
        let (own, other) = ("_acme-challenge.example.", "_acme-challenge.other.");
        assert_eq!(zones.place(own, None), at("example.", own));
        assert_eq!(zones.place(own, Some("inside")), at("example./inside", own));
        assert_eq!(zones.place(own, Some("office")), at("example.", own));
        assert_eq!(zones.place(other, Some("inside")), at("other.", other));
    }

    #[test]
    fn a_text_is_one_string() {
        assert_eq!(text_data("abc"), b"\x03abc");
        assert_eq!(text_data(&"x".repeat(300)).len(), 256);
    }
}
