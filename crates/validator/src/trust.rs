//! [`TrustTable`]: the trust state of zones, and the chain of trust from an anchor to a name (RFC 4035 §5).
//!
//! All lookups on all threads share one [`TrustTable`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use wire::{Name, NameBuf, Ttl, Type, UnixTime};

use crate::anchors::{Nearest, TrustAnchors};
use crate::outcome::{BogusReason, InsecureReason};

/// RDATA of several records, shared.
pub(crate) type SharedData = Arc<[Vec<u8>]>;

/// The trust state of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// A zone begins here with these keys: RDATA of the DNSKEY records that may sign.
    Secure(Arc<[Vec<u8>]>),
    /// A zone begins here with DS: RDATA of the supported ones. Its keys are not known yet.
    Delegated(Arc<[Vec<u8>]>),
    /// A zone begins here or above that is proven to have no supported DS.
    Insecure(InsecureReason),
    /// No zone begins here: the name belongs to the zone of its parent.
    NoCut,
    /// Data about this name is bogus, so nothing at or below it can be trusted.
    Bogus(BogusReason),
}

/// Records that have to be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The DS of this name, from the servers of the zone above it.
    Ds(NameBuf),
    /// The DNSKEY of this zone, from its servers.
    Dnskey(NameBuf),
}

impl Need {
    /// The name to query.
    pub fn name(&self) -> Name<'_> {
        match self {
            Need::Ds(name) | Need::Dnskey(name) => name.as_name(),
        }
    }

    /// The type to query.
    pub fn rtype(&self) -> Type {
        match self {
            Need::Ds(_) => Type::DS,
            Need::Dnskey(_) => Type::DNSKEY,
        }
    }
}

/// How a zone is known to be delegated securely, or anchored.
pub(crate) struct SecureDelegation {
    /// DS RDATA that the zone's keys have to match.
    pub(crate) ds: SharedData,
    /// The zone that proves them; `None`: an anchor.
    pub(crate) by: Option<NameBuf>,
    /// Their remaining lifetime.
    pub(crate) left: Ttl,
}

/// A cached trust state.
#[derive(Clone, Debug)]
struct Known {
    trust: Trust,
    /// The zone that proves it; `None` for a trust anchor, or without a particular zone.
    by: Option<NameBuf>,
    /// When it expires, for validations that begin from then on.
    until: UnixTime,
    /// When it expires for those that began before.
    kept: UnixTime,
}

impl Known {
    /// Its remaining lifetime.
    fn ttl(&self, now: UnixTime) -> Ttl {
        Ttl::from_secs(
            u32::try_from(self.until.saturating_duration_since(now).as_secs()).unwrap_or(Ttl::MAX.as_secs()),
        )
    }

    /// Whether it means that a zone begins here.
    fn is_cut(&self) -> bool {
        matches!(self.trust, Trust::Secure(_) | Trust::Delegated(_) | Trust::Insecure(_))
    }
}

/// A cache of trust states with their lifetimes. Bounded: the entry that expires first is evicted first.
///
/// All lookups on all threads share one table. It is locked only to find or store one name, never during
/// verification. It must be discarded when trust anchors or settings change.
#[derive(Debug)]
pub struct TrustTable {
    entries: RwLock<Entries>,
    capacity: usize,
}

/// The content of a [`TrustTable`].
#[derive(Clone, Debug, Default)]
struct Entries {
    known: BTreeMap<NameBuf, Arc<Known>>,
    ends: BTreeSet<(UnixTime, NameBuf)>,
}

impl Entries {
    fn remove(&mut self, name: &NameBuf) {
        if let Some(known) = self.known.remove(name) {
            self.ends.remove(&(known.kept, *name));
        }
    }
}

impl Clone for TrustTable {
    fn clone(&self) -> Self {
        TrustTable { entries: RwLock::new(self.read().clone()), capacity: self.capacity }
    }
}

impl TrustTable {
    /// Shortest lifetime of an entry. Data with TTL 0 are for the lookup that requested them (RFC 1035
    /// §3.2.1), and for those that begin in the same second.
    const MIN_LIFETIME: Ttl = Ttl::from_secs(1);
    /// Shortest lifetime of an entry for a validation that began before its TTL ended: it has to fetch other
    /// records meanwhile, and would otherwise fetch this one again and again.
    const MIN_KEPT: Ttl = Ttl::from_secs(10);

    /// Creates an empty table for this many names; at least 64, as one lookup needs several at a time.
    pub fn new(capacity: usize) -> Self {
        TrustTable { entries: RwLock::default(), capacity: capacity.max(64) }
    }

    fn read(&self) -> RwLockReadGuard<'_, Entries> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Entries> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of names with an entry, including expired ones.
    pub fn len(&self) -> usize {
        self.read().known.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.read().known.is_empty()
    }

    /// The trust state of a name at `now`.
    pub fn get(&self, name: Name<'_>, now: UnixTime) -> Option<Trust> {
        self.known(name, now, now).map(|known| known.trust.clone())
    }

    /// Whether the chain of trust is broken at `name` or above it, so that nothing there can be secure,
    /// whatever its servers respond.
    pub fn is_broken(&self, name: Name<'_>, now: UnixTime) -> bool {
        let bogus =
            |name| self.known(name, now, now).is_some_and(|known| matches!(known.trust, Trust::Bogus(_)));
        name.ancestors().any(bogus)
    }

    /// Removes the entries of a name and of all names below it: its servers sent bad responses, or the
    /// operator flushes it.
    pub fn forget(&self, name: Name<'_>) {
        let mut entries = self.write();
        let below = |n: &&NameBuf| n.as_name().is_at_or_below(name);
        let gone: Vec<NameBuf> = entries.known.keys().filter(below).copied().collect();
        gone.iter().for_each(|name| entries.remove(name));
    }

    /// Returns the entry of a name at `now`, for a validation that began at `begun`.
    fn known(&self, name: Name<'_>, now: UnixTime, begun: UnixTime) -> Option<Arc<Known>> {
        let is_usable = |known: &&Arc<Known>| begun < known.until && now < known.kept;
        self.read().known.get(&name.to_buf()).filter(is_usable).cloned()
    }

    /// Stores the trust state of a name, proven by the zone `by` or by an anchor.
    pub(crate) fn learn(&self, name: Name<'_>, trust: Trust, by: Option<NameBuf>, ttl: Ttl, now: UnixTime) {
        let name = name.to_buf();
        let [until, kept] = [Self::MIN_LIFETIME, Self::MIN_KEPT]
            .map(|shortest| now.saturating_add(shortest.max(ttl).as_duration()));
        let mut entries = self.write();
        entries.remove(&name);
        while entries.known.len() >= self.capacity {
            let Some((_, first)) = entries.ends.pop_first() else { break };
            entries.known.remove(&first);
        }
        entries.ends.insert((kept, name));
        entries.known.insert(name, Arc::new(Known { trust, by, until, kept }));
    }
}

/// The result of following the chain of trust to a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The name belongs to this zone, which is signed with these keys.
    Secure(SharedData),
    /// The name is proven to belong to a zone without a chain of trust, for this long.
    Insecure(InsecureReason, Ttl),
    /// The chain of trust is broken at or above it.
    Bogus(BogusReason),
    /// The name is not the name of a zone; only returned if a zone was requested.
    NoZone,
    /// No trust anchor is above it.
    NoAnchor,
}

impl Standing {
    const NEGATIVE: Standing = Standing::Insecure(InsecureReason::NegativeAnchor, Ttl::MAX);
}

/// Follows chains of trust from the anchors.
#[derive(Clone, Copy)]
pub(crate) struct Ways<'a> {
    pub(crate) anchors: &'a TrustAnchors,
    pub(crate) table: &'a TrustTable,
    pub(crate) now: UnixTime,
    /// When the validation began.
    pub(crate) begun: UnixTime,
}

impl Ways<'_> {
    fn known(&self, name: Name<'_>) -> Option<Arc<Known>> {
        self.table.known(name, self.now, self.begun)
    }

    /// The standing of a zone that signed a record. Requests its DS directly, whatever zones are above: the
    /// response is itself signed, which names the next zone.
    pub(crate) fn zone(&self, name: Name<'_>) -> Result<Standing, Box<Need>> {
        match self.anchors.nearest(name) {
            None => Ok(Standing::NoAnchor),
            Some(Nearest::Negative) => Ok(Standing::NEGATIVE),
            Some(Nearest::Positive(at)) if at == name => self.anchored(name),
            Some(Nearest::Positive(_)) => match self.known(name) {
                None => Err(Box::new(Need::Ds(name.to_buf()))),
                Some(known) => self.standing(name, &known),
            },
        }
    }

    /// The standing of a zone with an anchor of its own. Ignores data about it from zones above.
    fn anchored(&self, zone: Name<'_>) -> Result<Standing, Box<Need>> {
        match self.known(zone).filter(|known| known.by.is_none()) {
            None => Err(Box::new(Need::Dnskey(zone.to_buf()))),
            Some(known) => self.standing(zone, &known),
        }
    }

    fn standing(&self, name: Name<'_>, known: &Known) -> Result<Standing, Box<Need>> {
        match &known.trust {
            Trust::Secure(keys) => Ok(Standing::Secure(keys.clone())),
            Trust::Delegated(_) => Err(Box::new(Need::Dnskey(name.to_buf()))),
            Trust::Insecure(reason) => Ok(Standing::Insecure(*reason, known.ttl(self.now))),
            Trust::Bogus(reason) => Ok(Standing::Bogus(*reason)),
            Trust::NoCut => Ok(Standing::NoZone),
        }
    }

    /// The standing of the zone that contains a name, found by descending from the anchor, cut by cut.
    /// Determines whether data without a valid signature is insecure (RFC 4035 §5.2).
    pub(crate) fn zone_of(&self, name: Name<'_>) -> Result<Standing, Box<Need>> {
        let at = match self.anchors.nearest(name) {
            None => return Ok(Standing::NoAnchor),
            Some(Nearest::Negative) => return Ok(Standing::NEGATIVE),
            Some(Nearest::Positive(at)) => at,
        };
        let (mut zone, mut standing) = (at, self.anchored(at)?);
        while let Standing::Secure(..) = standing {
            let mut below: Vec<Name<'_>> = name.ancestors().take_while(|above| *above != zone).collect();
            below.reverse();
            let by_zone =
                |known: Arc<Known>| known.is_cut() && known.by.is_some_and(|by| by.as_name() == zone);
            // If this zone proves a cut further down, there is none in between.
            let cut = below.iter().find(|below| self.known(**below).is_some_and(by_zone));
            let next = match cut {
                Some(cut) => *cut,
                None => match below.iter().find(|below| !self.is_known_uncut(**below)) {
                    Some(next) => *next,
                    None => break,
                },
            };
            standing = match self.known(next) {
                Some(known) => self.standing(next, &known)?,
                None => return Err(Box::new(Need::Ds(next.to_buf()))),
            };
            zone = next;
        }
        Ok(standing)
    }

    fn is_known_uncut(&self, name: Name<'_>) -> bool {
        self.known(name).is_some_and(|known| known.trust == Trust::NoCut)
    }

    /// Whether a zone has an anchor of its own.
    pub(crate) fn is_anchored(&self, zone: Name<'_>) -> bool {
        matches!(self.anchors.nearest(zone), Some(Nearest::Positive(at)) if at == zone)
    }

    /// Returns how a zone is known to be delegated, or anchored.
    pub(crate) fn delegation(&self, zone: Name<'_>) -> Option<SecureDelegation> {
        match (self.anchors.nearest(zone), self.known(zone)) {
            (Some(Nearest::Positive(at)), _) if at == zone => {
                let anchored = |ds: Vec<_>| SecureDelegation { ds: ds.into(), by: None, left: Ttl::MAX };
                self.anchors.ds(zone).map(anchored)
            }
            (_, Some(known)) => match &known.trust {
                Trust::Delegated(ds) => {
                    Some(SecureDelegation { ds: ds.clone(), by: known.by, left: known.ttl(self.now) })
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether a name at or above `name`, and below `zone`, is known to be a zone that `zone` delegates.
    pub(crate) fn is_delegated(&self, zone: Name<'_>, name: Name<'_>) -> bool {
        let cut = |name: Name<'_>| {
            let known = self.known(name).filter(|known| known.is_cut());
            known.and_then(|known| known.by).is_some_and(|by| by.as_name() == zone)
        };
        name.ancestors().take_while(|above| *above != zone).any(cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> NameBuf {
        text.parse().expect("a name")
    }

    fn keys(text: &str) -> Trust {
        Trust::Secure(Arc::from([text.as_bytes().to_vec()]))
    }

    /// A table in which the root, com and example.com are signed, and a.b.example.com is not.
    fn table() -> TrustTable {
        let table = TrustTable::new(64);
        let ttl = Ttl::from_secs(100);
        table.learn(Name::ROOT, keys("root"), None, ttl, UnixTime::EPOCH);
        table.learn(name("com").as_name(), keys("com"), Some(NameBuf::ROOT), ttl, UnixTime::EPOCH);
        table.learn(name("example.com").as_name(), keys("example"), Some(name("com")), ttl, UnixTime::EPOCH);
        let insecure = Trust::Insecure(InsecureReason::Unsigned);
        table.learn(
            name("a.b.example.com").as_name(),
            insecure,
            Some(name("example.com")),
            ttl,
            UnixTime::EPOCH,
        );
        table
    }

    fn zone_of(table: &TrustTable, at: &str, now: u64) -> Result<Standing, Box<Need>> {
        zone_of_since(table, at, (now, now))
    }

    /// Returns the standing for a validation, by its present time and that of its beginning.
    fn zone_of_since(table: &TrustTable, at: &str, times: (u64, u64)) -> Result<Standing, Box<Need>> {
        let (now, begun) = (UnixTime::from_secs(times.0), UnixTime::from_secs(times.1));
        Ways { anchors: &TrustAnchors::root(), table, now, begun }.zone_of(name(at).as_name())
    }

    #[test]
    fn what_has_expired_is_for_validations_that_began_before() {
        let secure = || Ok(Standing::Secure(Arc::from([b"root".to_vec()])));
        let needed = || Err(Box::new(Need::Dnskey(NameBuf::ROOT)));
        // The TTL; the present time and that of the beginning; whether the keys are known.
        for (ttl, now, begun, is_known) in [
            (0, 100, 100, true),
            (0, 101, 101, false),
            (0, 109, 99, true),
            (0, 109, 101, false),
            (0, 110, 100, false),
            (5, 104, 104, true),
            (5, 105, 105, false),
            (5, 109, 104, true),
            (5, 110, 104, false),
            (100, 199, 199, true),
            (100, 200, 100, false),
        ] {
            let table = TrustTable::new(64);
            table.learn(Name::ROOT, keys("root"), None, Ttl::from_secs(ttl), UnixTime::from_secs(100));
            let expected = if is_known { secure() } else { needed() };
            assert_eq!(zone_of_since(&table, ".", (now, begun)), expected, "TTL {ttl}, {now} since {begun}");
        }
    }

    #[test]
    fn the_way_down_asks_for_what_is_not_known() {
        assert_eq!(zone_of(&table(), "www.example.com", 1), Err(Box::new(Need::Ds(name("www.example.com")))));
        let uncut = table();
        uncut.learn(name("www.example.com").as_name(), Trust::NoCut, None, Ttl::MAX, UnixTime::EPOCH);
        let example = Arc::from([b"example".to_vec()]);
        assert_eq!(zone_of(&uncut, "www.example.com", 1), Ok(Standing::Secure(example)));
        assert_eq!(
            zone_of(&table(), "example.com", 101),
            Err(Box::new(Need::Dnskey(NameBuf::ROOT))),
            "all is over"
        );
    }

    #[test]
    fn a_cut_that_the_zone_vouches_for_is_reached_without_asking_for_names_between() {
        let insecure = Ok(Standing::Insecure(InsecureReason::Unsigned, Ttl::from_secs(99)));
        assert_eq!(zone_of(&table(), "x.a.b.example.com", 1), insecure);
        let anchors = TrustAnchors::root();
        let table = table();
        let ways =
            Ways { anchors: &anchors, table: &table, now: UnixTime::from_secs(1), begun: UnixTime::EPOCH };
        assert!(ways.is_delegated(name("com").as_name(), name("www.example.com").as_name()));
        assert!(!ways.is_delegated(name("example.com").as_name(), name("www.example.com").as_name()));
    }

    #[test]
    fn what_ends_first_goes_first_and_forgetting_reaches_below() {
        let table = TrustTable::new(0);
        for i in 0..100u32 {
            let at = name(&format!("n{i}.example"));
            table.learn(at.as_name(), Trust::NoCut, None, Ttl::from_secs(1000 - i), UnixTime::EPOCH);
        }
        assert_eq!((table.len(), table.read().ends.len()), (64, 64));
        let knows = |at: &str| table.get(name(at).as_name(), UnixTime::from_secs(1)).is_some();
        assert_eq!(["n0.example", "n99.example", "n98.example"].map(knows), [true, true, false]);
        table.forget(name("example").as_name());
        assert!(table.is_empty() && table.read().ends.is_empty());
    }

    #[test]
    fn an_anchor_of_its_own_outweighs_what_the_zone_above_says() {
        let mut anchors = TrustAnchors::root();
        let ds = [&[0, 1, 13, 2][..], &[0; 32]].concat();
        anchors.add_ds(name("a.b.example.com").as_name(), &ds).expect("an anchor");
        let table = table();
        let ways =
            Ways { anchors: &anchors, table: &table, now: UnixTime::from_secs(1), begun: UnixTime::EPOCH };
        let at = name("a.b.example.com");
        assert_eq!(ways.zone_of(at.as_name()), Err(Box::new(Need::Dnskey(at))));
        assert_eq!(ways.zone(at.as_name()), Err(Box::new(Need::Dnskey(at))));
    }
}
