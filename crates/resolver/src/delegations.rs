//! Cached zone cuts: a zone's servers as its parent names them, the addresses of servers without glue, and
//! names without a zone cut.
//!
//! A cut is taken from the parent's servers only, and expires with their TTL or with the parent's own cut,
//! whichever is earlier: a child whose delegation is removed cannot prolong it (CVE-2012-1033,
//! CVE-2022-30698). Its glue is used for this cut only. Addresses found by lookups are stored by the server's
//! name.
//!
//! Names without a zone cut are cached, too, for the TTL of the answer that showed it, so that servers are
//! not asked again and again for the same part of a name (RFC 9156 §2.3). If a zone is created there, its
//! parent's servers refer to it when they get queries for longer names.
//!
//! A cut that has expired is not used, and stays until it is replaced or evicted: rules about name servers
//! apply to cached answers, too.
//!
//! All of it is bounded in bytes.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use wire::{LowerName, LowerNameBuf, Type};

use crate::bounded::Bounded;
use crate::config::StartServer;
use crate::scrub::Referral;

/// How long a failed lookup of an address is not repeated, at first; doubled after each further failure
/// (RFC 9520 §3.2).
const FIRST_FAILURE_PAUSE: Duration = Duration::from_secs(5);
/// Longest time that a failed lookup of an address is not repeated.
const FAILED_MOST: Duration = Duration::from_secs(300);

/// A zone and its servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) zone: LowerNameBuf,
    pub(crate) servers: Vec<CutServer>,
    /// Time of expiry; `None` for configured servers.
    pub(crate) expires: Option<Instant>,
    /// When the parent's servers were last queried for it; `None` for configured servers.
    pub(crate) checked: Option<Instant>,
}

/// One server of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CutServer {
    /// Its name in wire form, lower case. A configured server may have none.
    name: Option<Box<[u8]>>,
    /// Addresses from the delegation.
    pub(crate) glue: Vec<SocketAddr>,
    /// Addresses from the delegation by servers that are not authoritative for the server's name.
    pub(crate) outside: Vec<SocketAddr>,
}

impl CutServer {
    /// Returns its name.
    pub(crate) fn name(&self) -> Option<LowerName<'_>> {
        self.name.as_deref().map(LowerName::of_checked)
    }
}

impl Cut {
    /// A zone with configured servers.
    pub(crate) fn start(zone: LowerNameBuf, servers: &[StartServer]) -> Self {
        let server = |server: &StartServer| CutServer {
            name: server.name.map(|name| name.as_name().to_lower().as_lower().as_wire().into()),
            glue: server.addresses.clone(),
            outside: Vec::new(),
        };
        Cut { zone, servers: servers.iter().map(server).collect(), expires: None, checked: None }
    }

    /// The cut of a referral, valid for its TTL, at most until the parent's own cut expires.
    pub(crate) fn of(referral: &Referral, parent: Option<Instant>, now: Instant) -> Self {
        let end = now + Duration::from_secs(referral.ttl.into());
        let server = |(name, glue): &(LowerNameBuf, Vec<IpAddr>)| CutServer {
            name: Some(name.as_lower().as_wire().into()),
            glue: glue.iter().map(|&address| SocketAddr::new(address, 53)).collect(),
            outside: referral
                .outside
                .iter()
                .filter(|(owner, _)| owner == name)
                .map(|&(_, address)| SocketAddr::new(address, 53))
                .collect(),
        };
        let servers = referral.servers.iter().map(server).collect();
        let expires = Some(parent.map_or(end, |parent| parent.min(end)));
        Cut { zone: referral.zone, servers, expires, checked: Some(now) }
    }

    /// Returns the cut with more glue, or `None` if none of it is new.
    pub(crate) fn with_glue(&self, glue: &[(LowerNameBuf, IpAddr)]) -> Option<Self> {
        let mut cut = self.clone();
        for (owner, address) in glue {
            let address = SocketAddr::new(*address, 53);
            let of_owner = |server: &&mut CutServer| server.name() == Some(owner.as_lower());
            for server in cut.servers.iter_mut().filter(of_owner) {
                if !server.glue.contains(&address) {
                    server.glue.push(address);
                }
            }
        }
        (cut != *self).then_some(cut)
    }

    /// Whether it has all servers and glue of `newer`.
    pub(crate) fn covers(&self, newer: &Cut) -> bool {
        newer.servers.iter().all(|new| {
            let known = self.servers.iter().find(|old| old.name == new.name);
            known.is_some_and(|old| new.glue.iter().all(|address| old.glue.contains(address)))
        })
    }

    fn bytes(&self) -> usize {
        let server = |server: &CutServer| {
            size_of::<CutServer>()
                + server.name.as_ref().map_or(0, |name| name.len())
                + (server.glue.len() + server.outside.len()) * size_of::<SocketAddr>()
        };
        size_of::<Cut>() + self.servers.iter().map(server).sum::<usize>()
    }
}

/// The cached addresses of one family of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct CachedAddresses {
    pub(crate) addresses: Vec<IpAddr>,
    until: Option<Instant>,
    /// Failed lookups in a row.
    failures: u32,
}

impl CachedAddresses {
    /// Whether it is still valid.
    pub(crate) fn holds(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

/// A server's IPv4 and IPv6 addresses.
pub(crate) type Host = [CachedAddresses; 2];

/// A name without a zone cut: its zone's name has this many labels.
#[derive(Clone, Copy, Debug)]
struct Uncut {
    zone: usize,
    until: Instant,
}

/// The cached cuts. Other threads may read them.
#[derive(Default)]
pub struct ZoneCuts(Mutex<Bounded<Arc<Cut>>>);

impl ZoneCuts {
    /// Returns the servers of a zone that its parent's servers named last, each with its addresses from the
    /// delegation; nothing if the zone is not known to have a cut.
    pub fn servers_of(&self, zone: LowerName<'_>) -> Vec<(LowerNameBuf, Vec<IpAddr>)> {
        let Some(cut) = self.locked().peek(zone).map(Arc::clone) else { return Vec::new() };
        let named = cut.servers.iter().filter_map(|server| Some((server.name()?.to_buf(), server)));
        let addresses =
            |server: &CutServer| server.glue.iter().chain(&server.outside).map(SocketAddr::ip).collect();
        named.map(|(name, server)| (name, addresses(server))).collect()
    }

    fn locked(&self) -> MutexGuard<'_, Bounded<Arc<Cut>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All cached cuts, server addresses, and names without a cut.
#[derive(Default)]
pub(crate) struct Delegations {
    pub(crate) cuts: Arc<ZoneCuts>,
    hosts: Bounded<Host>,
    uncut: Bounded<Uncut>,
}

impl Delegations {
    /// Returns the closest cut at or above `name`, but not above `above`.
    pub(crate) fn closest(
        &mut self,
        name: LowerName<'_>,
        above: LowerName<'_>,
        now: Instant,
    ) -> Option<Arc<Cut>> {
        let names = std::iter::successors(Some(name), |name| name.parent());
        let mut cuts = self.cuts.locked();
        let holds = |cut: &Arc<Cut>| cut.expires.is_none_or(|end| now < end);
        let mut names = names.take_while(|name| name.is_at_or_below(above));
        let closest = names.find(|name| cuts.peek(*name).is_some_and(holds))?;
        cuts.get(closest).map(|cut| Arc::clone(cut))
    }

    /// Caches a cut.
    pub(crate) fn keep(&mut self, cut: &Arc<Cut>, most: usize) {
        self.cuts.locked().insert(cut.zone.as_lower(), Arc::clone(cut), cut.bytes(), most / 2);
    }

    /// Caches that a name has no zone cut and belongs to the zone of `cut`, for `ttl`, at most until `cut`
    /// expires.
    pub(crate) fn keep_uncut(
        &mut self,
        name: LowerName<'_>,
        cut: &Cut,
        ttl: Duration,
        now: Instant,
        most: usize,
    ) {
        let zone = cut.zone.as_lower().label_count();
        let until = cut.expires.map_or(now + ttl, |end| end.min(now + ttl));
        let known = self.uncut.peek(name).filter(|known| known.zone == zone).map(|known| known.until);
        if now < until && known.is_none_or(|known| known < until) {
            self.uncut.insert(name, Uncut { zone, until }, size_of::<Uncut>(), most / 4);
        }
    }

    /// Returns the label count of the longest name at or above `name` that is known to belong to `zone`.
    pub(crate) fn uncut(&mut self, name: LowerName<'_>, zone: LowerName<'_>, now: Instant) -> Option<usize> {
        let own = zone.label_count();
        let names = std::iter::successors(Some(name), |name| name.parent());
        for (name, labels) in names.zip((own + 1..=name.label_count()).rev()) {
            match self.uncut.peek(name).map(|known| (known.zone == own, known.until <= now)) {
                Some((_, true)) => self.uncut.remove(name),
                Some((true, false)) => return self.uncut.get(name).map(|_| labels),
                _ => {}
            }
        }
        None
    }

    /// Returns the cached addresses of one family of a server.
    pub(crate) fn host(&mut self, name: LowerName<'_>, qtype: Type) -> Option<&CachedAddresses> {
        self.hosts.get(name).map(|host| &host[family(qtype)])
    }

    /// Caches the result of a lookup of a server's addresses. `ttl` is `None` if it failed.
    pub(crate) fn keep_host(
        &mut self,
        name: LowerName<'_>,
        qtype: Type,
        addresses: Vec<IpAddr>,
        ttl: Option<Duration>,
        now: Instant,
        most: usize,
    ) {
        let mut host = self.hosts.peek(name).cloned().unwrap_or_default();
        let found = &mut host[family(qtype)];
        let failures = if ttl.is_some() { 0 } else { (found.failures + 1).min(16) };
        let pause = || FIRST_FAILURE_PAUSE.saturating_mul(1 << (failures - 1)).min(FAILED_MOST);
        *found = CachedAddresses { addresses, until: Some(now + ttl.unwrap_or_else(pause)), failures };
        let bytes = size_of::<Host>() + host.iter().map(|found| found.addresses.len() * 17).sum::<usize>();
        self.hosts.insert(name, host, bytes, most / 4);
    }

    /// Returns the bytes of all entries.
    pub(crate) fn bytes(&self) -> usize {
        self.cuts.locked().bytes() + self.hosts.bytes() + self.uncut.bytes()
    }
}

/// Returns the index of a family.
fn family(qtype: Type) -> usize {
    usize::from(qtype == Type::AAAA)
}

#[cfg(test)]
mod tests {
    use wire::NameBuf;

    use super::*;

    fn name(text: &str) -> LowerNameBuf {
        text.parse::<NameBuf>().expect("a name").as_name().to_lower()
    }

    fn referral(zone: &str, ttl: u32) -> Referral {
        Referral {
            zone: name(zone),
            ttl,
            servers: vec![(name("ns.example."), Vec::new())],
            outside: Vec::new(),
        }
    }

    const MAX_BYTES: usize = 1 << 20;

    #[test]
    fn the_closest_cut_counts_until_it_expires() {
        let (mut known, now) = (Delegations::default(), Instant::now());
        for (zone, ttl) in [("example.", 100), ("sub.example.", 10)] {
            known.keep(&Arc::new(Cut::of(&referral(zone, ttl), None, now)), MAX_BYTES);
        }
        let mut at = |of: &str, above: &str, after: u64| {
            let now = now + Duration::from_secs(after);
            let cut = known.closest(name(of).as_lower(), name(above).as_lower(), now);
            cut.map(|cut| cut.zone.to_string())
        };
        assert_eq!(at("a.sub.example.", ".", 9), Some("sub.example.".into()));
        assert_eq!(at("sub.example.", ".", 9), Some("sub.example.".into()));
        assert_eq!(at("xsub.example.", ".", 9), Some("example.".into()));
        assert_eq!(at("a.sub.example.", "sub.example.", 10), None);
        assert_eq!(at("a.sub.example.", ".", 99), Some("example.".into()));
        assert_eq!(at("a.sub.example.", ".", 100), None);
        let named = known.cuts.servers_of(name("sub.example.").as_lower());
        assert_eq!(named, [(name("ns.example."), Vec::new())], "rules still see it");
    }

    #[test]
    fn a_cut_ends_with_its_parents() {
        let now = Instant::now();
        let end = now + Duration::from_secs(7);
        assert_eq!(Cut::of(&referral("example.", 3600), Some(end), now).expires, Some(end));
        let own = Some(now + Duration::from_secs(3));
        assert_eq!(Cut::of(&referral("example.", 3), Some(end), now).expires, own);
    }

    #[test]
    fn a_name_without_a_cut_is_known_for_its_zone_alone_and_no_longer_than_that() {
        let (mut known, now) = (Delegations::default(), Instant::now());
        let cut = |zone, ttl| Cut::of(&referral(zone, ttl), None, now);
        let (example, sub) = (cut("example.", 100), cut("sub.example.", 100));
        let minute = Duration::from_secs(60);
        known.keep_uncut(name("b.c.example.").as_lower(), &example, minute, now, MAX_BYTES);
        known.keep_uncut(name("c.example.").as_lower(), &example, Duration::from_secs(1000), now, MAX_BYTES);
        known.keep_uncut(name("b.sub.example.").as_lower(), &sub, minute, now, MAX_BYTES);
        known.keep_uncut(name("zero.example.").as_lower(), &example, Duration::ZERO, now, MAX_BYTES);
        let mut labels = |of: &str, zone: &str, after: u64| {
            let now = now + Duration::from_secs(after);
            known.uncut(name(of).as_lower(), name(zone).as_lower(), now)
        };
        assert_eq!(labels("a.b.c.example.", "example.", 0), Some(3));
        assert_eq!(labels("c.example.", "example.", 0), Some(2));
        assert_eq!(labels("a.b.sub.example.", "example.", 0), None, "that is another zone's");
        assert_eq!(labels("a.b.sub.example.", "sub.example.", 59), Some(3));
        assert_eq!(labels("zero.example.", "example.", 0), None);
        assert_eq!(labels("example.", "example.", 0), None);
        assert_eq!(labels("a.b.c.example.", "example.", 60), Some(2));
        assert_eq!(labels("a.b.c.example.", "example.", 100), None, "its zone's cut has ended");
        assert_eq!(labels("a.b.sub.example.", "sub.example.", 60), None);
        assert_eq!(known.uncut.bytes(), 0, "what has expired is gone");
    }

    #[test]
    fn an_address_that_cannot_be_found_is_sought_less_and_less_often() {
        let (mut known, mut now) = (Delegations::default(), Instant::now());
        let ns = name("ns.example.");
        let mut pauses = Vec::new();
        for _ in 0..9 {
            known.keep_host(ns.as_lower(), Type::A, Vec::new(), None, now, MAX_BYTES);
            let start = now;
            while known.host(ns.as_lower(), Type::A).expect("known").holds(now) {
                now += Duration::from_secs(5);
            }
            pauses.push((now - start).as_secs());
        }
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
        assert!(!known.host(ns.as_lower(), Type::AAAA).expect("known").holds(now));
    }
}
