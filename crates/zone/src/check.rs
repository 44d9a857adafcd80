//! Faults of a zone as a whole, which no single record shows (RFC 1034 §3.6.2 and §4.2.1, RFC 1912, RFC 2181
//! §10.3, RFC 6672 §2.3).
//!
//! Faults of single records and RRsets are reported while reading and building ([`crate::scan`],
//! [`crate::store`]). A zone with a flaw of [`Severity::Error`] can be served, but does not work for some
//! clients; `nomen zone check` rejects it.

use std::fmt;

use wire::rdata::view::Soa;
use wire::{Name, NameBuf, Type};

use crate::scan::{RemarkAt, Severity, ends_twice_in};
use crate::store::{Node, NodeFlags, Rdata, RrSet, Zone};
use crate::zonemd::{self, ZonemdFault};

/// A fault at one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// The kind of fault.
    pub kind: FlawKind,
    /// The owner of the faulty records.
    pub owner: NameBuf,
    /// Their type.
    pub rtype: Type,
    /// The other name concerned, such as a host without addresses.
    pub other: Option<NameBuf>,
}

/// Kinds of [`Flaw`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlawKind {
    /// The zone's NS names a host in the zone that has no address.
    NsWithoutAddress,
    /// A cut's NS names a host at or below the cut, and there is no glue.
    MissingGlue,
    /// MX, SRV or another record names a host in the zone that has no address.
    HostWithoutAddress,
    /// NS, MX, SRV or another record names a host that is a CNAME (RFC 2181 §10.3).
    HostIsCname,
    /// DS at a name that is no zone cut.
    DsWithoutNs,
    /// DS at the apex: it belongs to the parent.
    DsAtApex,
    /// Records that no query returns: below a cut and not glue, or below a DNAME.
    Occluded,
    /// NS at a wildcard (RFC 4592 §4.2).
    WildcardNs,
    /// DNAME at a wildcard (RFC 4592 §4.4).
    WildcardDname,
    /// SOA timers that cannot work: expire is not above refresh plus retry (RFC 1912 §2.2).
    SoaTimers,
    /// Only one name server (RFC 1034 §4.1 requires two).
    SingleNs,
    /// NSEC3 with iterations or salt (RFC 9276 §3.1).
    Nsec3Parameters,
    /// Type SPF, which is obsolete (RFC 7208 §3.1).
    SpfType,
    /// A name in RDATA ends in the zone's name twice: most likely its final dot is missing.
    OriginTwice,
    /// A CNAME that leads back to itself, in one step or several.
    CnameLoop,
    /// A CNAME to a name in the zone that does not exist.
    DanglingCname,
    /// RNAME has an `@`, where DNS has a dot (RFC 1035 §8).
    AtInRname,
    /// NS, MX or SRV names a host with an underscore, which no host name has (RFC 1123 §2.1).
    UnderscoreHost,
    /// The digest of a DS does not have the length of its digest type.
    DsDigestLength,
    /// A host name with characters other than letters, digits and hyphen (RFC 952, RFC 1123 §2.1).
    HostName,
    /// The zone has ZONEMD, and none of its digests is right (RFC 8976): a server that verifies it rejects
    /// the zone.
    Digest(ZonemdFault),
}

impl FlawKind {
    /// Returns the severity.
    pub fn severity(self) -> Severity {
        match self {
            Self::NsWithoutAddress | Self::HostIsCname | Self::DsAtApex => Severity::Error,
            // Verifiers that do not support a digest ignore it, too.
            Self::Digest(fault) if fault != ZonemdFault::Unknown => Severity::Error,
            _ => Severity::Warning,
        }
    }
}

impl Flaw {
    /// Returns the word to point at, in the entry of a record that [has the flaw](Self::is_of).
    pub fn at(&self) -> RemarkAt {
        match (self.kind, self.other) {
            (FlawKind::Occluded | FlawKind::WildcardNs | FlawKind::WildcardDname | FlawKind::HostName, _) => {
                RemarkAt::Owner
            }
            // EXPIRE is the sixth field of SOA (RFC 1035 §3.3.13), the digest the fourth of DS (RFC 4034
            // §5.3).
            (FlawKind::SoaTimers, _) => RemarkAt::Data(5),
            (FlawKind::DsDigestLength, _) => RemarkAt::Data(3),
            (_, Some(name)) => RemarkAt::Name(name),
            (_, None) => RemarkAt::Type,
        }
    }

    /// Whether a record of the faulty RRset with this RDATA has the flaw.
    pub fn is_of(&self, rdata: &[u8]) -> bool {
        match self.at() {
            RemarkAt::Name(name) => wire::rdata::embedded_names(self.rtype, rdata)
                .filter_map(|e| Name::from_wire(rdata.get(e.start..e.start + e.len)?).ok())
                .any(|named| named == name.as_name()),
            _ if self.kind == FlawKind::DsDigestLength => has_wrong_digest(rdata),
            _ => true,
        }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Flaw { owner, rtype, .. } = self;
        let other = self.other.unwrap_or(NameBuf::ROOT);
        match self.kind {
            FlawKind::NsWithoutAddress => {
                write!(f, "{owner} {rtype}: {other} has no address records in this zone")
            }
            FlawKind::MissingGlue => {
                write!(f, "{owner} {rtype}: {other} lies below the cut and has no glue (A or AAAA)")
            }
            FlawKind::HostWithoutAddress => {
                write!(f, "{owner} {rtype}: {other} has no address records in this zone")
            }
            FlawKind::HostIsCname => write!(f, "{owner} {rtype}: {other} is a CNAME, it must be a host"),
            FlawKind::DsWithoutNs => write!(f, "{owner} DS: there is no NS, so this is no zone cut"),
            FlawKind::DsAtApex => write!(f, "{owner} DS: the zone's own DS belongs to the parent zone"),
            FlawKind::Occluded => {
                write!(f, "{owner} {rtype}: cannot be seen, it lies below {other}, a zone cut or DNAME")
            }
            FlawKind::WildcardNs => write!(f, "{owner} NS: NS at a wildcard delegates nothing"),
            FlawKind::WildcardDname => write!(f, "{owner} DNAME: DNAME at a wildcard is not defined"),
            FlawKind::SoaTimers => {
                write!(f, "{owner} SOA: expire should be larger than refresh and retry together")
            }
            FlawKind::SingleNs => write!(f, "{owner} NS: only one name server, there should be two"),
            FlawKind::Nsec3Parameters => {
                write!(f, "{owner} NSEC3PARAM: iterations should be 0 and the salt empty (RFC 9276)")
            }
            FlawKind::SpfType => write!(f, "{owner} SPF: this type is obsolete, use TXT"),
            FlawKind::OriginTwice => {
                write!(f, "{owner} {rtype}: {other} ends in the zone's name twice, its final dot is missing")
            }
            FlawKind::CnameLoop => write!(f, "{owner} CNAME: the chain through {other} comes back here"),
            FlawKind::DanglingCname => write!(f, "{owner} CNAME: {other} is not in this zone"),
            FlawKind::AtInRname => {
                write!(f, "{owner} SOA: the mailbox {other} has an @, write a dot in its place")
            }
            FlawKind::UnderscoreHost => {
                write!(f, "{owner} {rtype}: {other} is not a host name, it has an underscore")
            }
            FlawKind::DsDigestLength => {
                write!(f, "{owner} DS: the digest has another length than its type makes")
            }
            FlawKind::HostName => {
                write!(f, "{owner} {rtype}: not a host name (letters, digits and hyphens)")
            }
            FlawKind::Digest(fault) => write!(f, "{owner} ZONEMD: {fault}"),
        }
    }
}

/// Checks a whole zone. Calls `found` for each flaw, in canonical order of owners.
pub fn check(zone: &Zone, found: &mut dyn FnMut(Flaw)) {
    apex(zone, found);
    for node in zone.iter() {
        Checker { zone, node, found }.node();
    }
}

/// Reports flaws that only the apex can have.
fn apex(zone: &Zone, found: &mut dyn FnMut(Flaw)) {
    let node = zone.apex_node();
    let mut report =
        |kind, rtype| found(Flaw { kind, owner: node.owner().as_name().to_buf(), rtype, other: None });
    let soa = zone.soa();
    if soa.expire <= soa.refresh.saturating_add(soa.retry) {
        report(FlawKind::SoaTimers, Type::SOA);
    }
    if node.rrset(Type::NS).is_some_and(|ns| ns.count() < 2) {
        report(FlawKind::SingleNs, Type::NS);
    }
    if node.rrset(Type::DS).is_some() {
        report(FlawKind::DsAtApex, Type::DS);
    }
    if zone.nsec3().is_some_and(|chain| chain.iterations() > 0 || !chain.salt().is_empty()) {
        report(FlawKind::Nsec3Parameters, Type::NSEC3PARAM);
    }
    match zonemd::verify(zone) {
        Ok(_) | Err(ZonemdFault::Absent) => {}
        Err(fault) => report(FlawKind::Digest(fault), Type::ZONEMD),
    }
}

/// Checks one node.
struct Checker<'c, 'z> {
    zone: &'z Zone,
    node: Node<'z>,
    found: &'c mut dyn FnMut(Flaw),
}

impl<'z> Checker<'_, 'z> {
    fn report(&mut self, kind: FlawKind, rtype: Type, other: Option<Name<'_>>) {
        let owner = self.node.owner().as_name().to_buf();
        (self.found)(Flaw { kind, owner, rtype, other: other.map(Name::to_buf) });
    }

    fn node(&mut self) {
        let flags = self.node.flags();
        if flags.intersects(NodeFlags::NSEC3_ONLY | NodeFlags::EMPTY) {
            return;
        }
        if flags.contains(NodeFlags::OCCLUDED) {
            return self.occluded();
        }
        if flags.contains(NodeFlags::WILDCARD | NodeFlags::CUT) {
            self.report(FlawKind::WildcardNs, Type::NS, None);
        }
        if flags.contains(NodeFlags::WILDCARD | NodeFlags::DNAME) {
            self.report(FlawKind::WildcardDname, Type::DNAME, None);
        }
        let plain = !flags.intersects(NodeFlags::CUT | NodeFlags::APEX);
        if plain && self.node.rrset(Type::DS).is_some() {
            self.report(FlawKind::DsWithoutNs, Type::DS, None);
        }
        for set in self.node.rrsets() {
            match set.rtype() {
                Type::SPF => self.report(FlawKind::SpfType, Type::SPF, None),
                Type::A | Type::AAAA | Type::MX if !is_host_name(self.node.owner().as_name()) => {
                    self.report(FlawKind::HostName, set.rtype(), None);
                }
                Type::NS | Type::MX | Type::SRV => self.hosts(set),
                Type::CNAME => self.cname(set),
                Type::PTR | Type::DNAME => self.targets(set, &mut |_, _| {}),
                Type::SOA => {
                    self.targets(set, &mut |_, _| {});
                    self.rname(set);
                }
                Type::DS => self.digests(set),
                _ => {}
            }
        }
    }

    /// Reports records below a cut or a DNAME. Below a cut, addresses count as glue; other records are never
    /// returned.
    fn occluded(&mut self) {
        let above = self.cut_above();
        for set in self.node.rrsets() {
            if !matches!(set.rtype(), Type::A | Type::AAAA) || above.is_none() {
                self.report(FlawKind::Occluded, set.rtype(), above.or(self.node.owner().as_name().parent()));
            }
        }
    }

    /// Returns the cut above an occluded node; `None` if it is below a DNAME.
    fn cut_above(&self) -> Option<Name<'z>> {
        let apex = self.zone.apex().as_name();
        let between = self.node.owner().as_name().ancestors().skip(1).take_while(|name| *name != apex);
        let mut cuts = between.filter(|name| {
            self.zone.find_name(*name).is_some_and(|node| node.flags().contains(NodeFlags::CUT))
        });
        cuts.next()
    }

    /// Checks the hosts that an RRset names.
    fn hosts(&mut self, set: RrSet<'z>) {
        self.targets(set, &mut |checker, host| {
            if host.labels().any(|label| label.contains(&b'_')) {
                checker.report(FlawKind::UnderscoreHost, set.rtype(), Some(host));
            }
            checker.host(set.rtype(), host);
        });
    }

    /// Calls `take` with the first name in each record of a set. A name without its final dot is reported
    /// instead.
    fn targets(&mut self, set: RrSet<'z>, take: &mut dyn FnMut(&mut Self, Name<'_>)) {
        let mut rdata = Vec::new();
        for record in set.rdatas() {
            rdata.clear();
            record.copy_to(&mut rdata);
            let embedded = wire::rdata::embedded_names(set.rtype(), &rdata).next();
            let target = embedded.and_then(|e| rdata.get(e.start..e.start + e.len));
            let Some(target) = target.and_then(|wire| Name::from_wire(wire).ok()) else { continue };
            let twice = ends_twice_in(target, self.zone.apex().as_name());
            match twice && self.zone.find_name(target).is_none() && !self.elsewhere(target) {
                true => self.report(FlawKind::OriginTwice, set.rtype(), Some(target)),
                false => take(self, target),
            }
        }
    }

    /// Follows a CNAME within this zone.
    fn cname(&mut self, set: RrSet<'z>) {
        self.targets(set, &mut |checker, target| {
            let (zone, owner) = (checker.zone, checker.node.owner().as_name());
            let mut at = target.to_buf();
            for _ in 0..MAX_CHAIN {
                if at.as_name() == owner {
                    return checker.report(FlawKind::CnameLoop, Type::CNAME, Some(target));
                }
                let next = zone.find_name(at.as_name()).and_then(|node| node.rrset(Type::CNAME));
                let Some(next) = next.and_then(|set| set.rdatas().next()?.name()) else { break };
                at = next;
            }
            let inside = target.is_at_or_below(zone.apex().as_name());
            if inside && zone.find_name(target).is_none() && !checker.elsewhere(target) {
                checker.report(FlawKind::DanglingCname, Type::CNAME, Some(target));
            }
        });
    }

    /// Whether a name that is not in the zone is answered otherwise: by a cut or DNAME above it, or a
    /// wildcard.
    fn elsewhere(&self, name: Name<'_>) -> bool {
        let encloser = name.ancestors().skip(1).find_map(|name| self.zone.find_name(name));
        encloser.is_none_or(|node| {
            let hides = NodeFlags::CUT | NodeFlags::DNAME | NodeFlags::OCCLUDED;
            let wildcard = NameBuf::prepend(b"*", node.owner().as_name());
            node.flags().intersects(hides)
                || wildcard.is_ok_and(|name| self.zone.find_name(name.as_name()).is_some())
        })
    }

    /// Checks the zone's mailbox.
    fn rname(&mut self, set: RrSet<'z>) {
        let mut rdata = Vec::new();
        if let Some(record) = set.rdatas().next() {
            record.copy_to(&mut rdata);
        }
        if let Ok(soa) = Soa::read(&rdata)
            && soa.rname.labels().any(|label| label.contains(&b'@'))
        {
            self.report(FlawKind::AtInRname, Type::SOA, Some(soa.rname));
        }
    }

    fn digests(&mut self, set: RrSet<'z>) {
        if set.rdatas().any(|record: Rdata<'_>| has_wrong_digest(record.compiled())) {
            self.report(FlawKind::DsDigestLength, Type::DS, None);
        }
    }

    fn host(&mut self, rtype: Type, host: Name<'_>) {
        // Hosts of other zones cannot be checked. In MX and SRV the root means no host (RFC 7505 §3, RFC
        // 2782).
        if !host.is_at_or_below(self.zone.apex().as_name()) || (host.is_root() && rtype != Type::NS) {
            return;
        }
        let node = self.zone.find_name(host);
        let has = |t: Type| node.is_some_and(|n| n.rrset(t).is_some());
        if has(Type::CNAME) {
            return self.report(FlawKind::HostIsCname, rtype, Some(host));
        }
        if has(Type::A) || has(Type::AAAA) || (node.is_none() && self.wildcard_covers(host)) {
            return;
        }
        let below_cut = self.delegated(host);
        let at_cut = self.node.flags().contains(NodeFlags::CUT);
        let own = at_cut && host.is_at_or_below(self.node.owner().as_name());
        match rtype {
            Type::NS if own => self.report(FlawKind::MissingGlue, rtype, Some(host)),
            // Other zones answer for names below other cuts.
            _ if below_cut => {}
            Type::NS => self.report(FlawKind::NsWithoutAddress, rtype, Some(host)),
            _ => self.report(FlawKind::HostWithoutAddress, rtype, Some(host)),
        }
    }

    /// Whether `host`, which is in the zone, is at or below a cut.
    fn delegated(&self, host: Name<'_>) -> bool {
        let apex = self.zone.apex().as_name();
        host.ancestors()
            .take_while(|name| *name != apex)
            .any(|name| self.zone.find_name(name).is_some_and(|node| node.flags().contains(NodeFlags::CUT)))
    }

    /// Whether a wildcard yields an address for `host`, which does not exist in the zone.
    fn wildcard_covers(&self, host: Name<'_>) -> bool {
        let encloser = host.ancestors().skip(1).find_map(|name| self.zone.find_name(name));
        let wildcard = encloser.and_then(|node| NameBuf::prepend(b"*", node.owner().as_name()).ok());
        let node = wildcard.and_then(|name| self.zone.find_name(name.as_name()));
        node.is_some_and(|n| [Type::A, Type::AAAA].iter().any(|&t| n.rrset(t).is_some()))
    }
}

/// Whether the digest of a DS does not have the length of its type: SHA-1, SHA-256, GOST R 34.11-94, SHA-384
/// (RFC 4034, 4509, 5933, 6605).
fn has_wrong_digest(ds: &[u8]) -> bool {
    match *ds {
        [_, _, _, kind, ref digest @ ..] => match kind {
            1 => digest.len() != 20,
            2 | 3 => digest.len() != 32,
            4 => digest.len() != 48,
            _ => false,
        },
        _ => true,
    }
}

/// The longest chain of CNAMEs that is followed to find a loop.
const MAX_CHAIN: usize = 32;

/// Whether every label may be one of a host name (RFC 1123 §2.1): letters, digits and hyphens. `*` is
/// allowed, since a wildcard may match hosts; so is `_`, since names with it are no host names but widely
/// have addresses all the same.
fn is_host_name(name: Name<'_>) -> bool {
    name.labels().all(|label| {
        label == b"*"
            || label.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    })
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use wire::hash::HashKey;

    use super::*;
    use crate::load::{LoadConfig, load};
    use crate::scan::TextSource;

    /// Returns the flaws of a zone `example.` with these records.
    fn flaws(records: &str) -> Vec<String> {
        let text = format!(
            "$TTL 60\n@ SOA ns1 admin 1 3600 600 86400 60\n@ NS ns1\n@ NS ns2\nns1 A 192.0.2.1\nns2 A 192.0.2.2\n{records}"
        );
        found("example.", &text)
    }

    fn found(apex: &str, text: &str) -> Vec<String> {
        let apex: NameBuf = apex.parse().expect("a name");
        let source = TextSource::bytes("test.zone", text.as_bytes());
        let go = |_| ControlFlow::Continue(());
        let loaded = load(source, apex.as_name(), &HashKey::new([1, 2, 3]), &LoadConfig::default(), go);
        let mut found = Vec::new();
        check(&loaded.expect("a zone").zone, &mut |flaw| {
            found.push(format!("{}: {flaw}", flaw.kind.severity()));
        });
        found
    }

    #[test]
    fn a_zone_that_others_load_was_bad_for_missing_glue() {
        let missing =
            "warning: sub.example. NS: ns.sub.example. lies below the cut and has no glue (A or AAAA)";
        assert_eq!(flaws("sub NS ns.sub\n"), [missing]);
    }

    #[test]
    fn ds_without_ns_was_an_error() {
        let digest = "00".repeat(32);
        assert_eq!(
            flaws(&format!("ds DS 1 8 2 {digest}\n")),
            ["warning: ds.example. DS: there is no NS, so this is no zone cut"]
        );
    }

    #[test]
    fn a_missing_dot_is_seen_in_what_it_makes() {
        let twice =
            |what: &str| format!("warning: {what} ends in the zone's name twice, its final dot is missing");
        assert_eq!(
            flaws("www CNAME host.example\nmx MX 10 mail.example\n"),
            [
                twice("mx.example. MX: mail.example.example."),
                twice("www.example. CNAME: host.example.example.")
            ]
        );
        // Such names may exist, or belong to another zone.
        assert!(flaws("a CNAME b.example\nb.example A 192.0.2.3\n").is_empty());
        assert!(flaws("a CNAME b.example\nexample NS ns.other.\n").is_empty());
        assert!(flaws("a CNAME notexample\nnotexample A 192.0.2.3\n").is_empty());
    }

    #[test]
    fn chains_of_cname_are_followed() {
        let said = |owner: &str, target: &str| {
            format!("warning: {owner}.example. CNAME: the chain through {target}.example. comes back here")
        };
        assert_eq!(
            flaws("a CNAME b\nb CNAME c\nc CNAME a\nself CNAME self\ninto CNAME a\n"),
            [said("a", "b"), said("b", "c"), said("c", "a"), said("self", "self")]
        );
        assert_eq!(
            flaws(
                "a CNAME gone\nb CNAME outside.test.\nc CNAME any.w\n*.w A 192.0.2.3\nd CNAME x.cut\ncut NS ns.test.\n"
            ),
            ["warning: a.example. CNAME: gone.example. is not in this zone"]
        );
    }

    #[test]
    fn hosts_and_mailboxes_are_names_of_their_kind() {
        let text = "$TTL 60\n@ SOA ns1 admin@example. 1 3600 600 86400 60\n@ NS ns_1\n@ NS ns2\nns_1 A 192.0.2.1\n\
                    ns2 A 192.0.2.2\n";
        assert_eq!(
            found("example.", text),
            [
                "warning: example. NS: ns_1.example. is not a host name, it has an underscore",
                "warning: example. SOA: the mailbox admin\\@example. has an @, write a dot in its place",
            ]
        );
    }

    #[test]
    fn digests_have_the_length_of_their_type() {
        let sub = |kind: u8, bytes: usize| {
            format!("s{kind}-{bytes} NS ns1\ns{kind}-{bytes} DS 1 8 {kind} {}\n", "00".repeat(bytes))
        };
        let good = [(1, 20), (2, 32), (4, 48), (9, 1)].map(|(kind, bytes)| sub(kind, bytes)).concat();
        assert!(flaws(&good).is_empty());
        for (kind, bytes) in [(1, 32), (2, 20), (4, 32)] {
            let said = flaws(&sub(kind, bytes));
            assert!(said.len() == 1 && said[0].contains("another length"), "{said:?}");
        }
    }
}
