//! [`step`]: one step of a signed zone, from the change of its data to the change of everything.

use std::collections::{BTreeMap, BTreeSet};

use dnssec::nsec3::HASH_LEN;
use wire::rdata::view::{Nsec, Nsec3};
use wire::{LowerName, NameBuf, Ttl, Type};
use zone::Zone;
use zone::store::{ChangeError, ChangeSet, Node, NodeFlags, Nsec3Chain, RrSet};
use zone::zonemd;

use super::ledger::{Ledger, Renewal, Wanted};
use super::members::{Members, has_data};
use super::plain::{add_apex_sets, drop_emptied, filtered, joined, soa_ttl};
use super::relink::relink;
use super::{SignedStep, Signing};
use crate::denial::{DenialMethod, Nsec3Settings, nsec_record, nsec3_owner};
use crate::zone::{SignFault, SigningPolicy, canonical_rdatas, is_visible, listed_types};

/// Why a step does not lead to the next version.
pub(super) enum Obstacle {
    /// The zone has no complete chain of the wanted kind and TTL: everything must be signed.
    OtherChain,
    Fault(SignFault),
}

impl From<SignFault> for Obstacle {
    fn from(fault: SignFault) -> Self {
        Self::Fault(fault)
    }
}

impl From<ChangeError> for Obstacle {
    fn from(fault: ChangeError) -> Self {
        Self::Fault(fault.into())
    }
}

/// Returns the TTL of the zone's chain, if it is signed with the denial method of the policy.
pub(super) fn chain_ttl(zone: &Zone, policy: &SigningPolicy) -> Option<Ttl> {
    let apex = zone.apex_node();
    apex.rrset(Type::SOA).filter(|soa| soa.sig_count() > 0)?;
    let (nsec, params) = (apex.rrset(Type::NSEC), apex.rrset(Type::NSEC3PARAM));
    match &policy.denial {
        // It has no chain, so that its TTL is always right.
        DenialMethod::Online(_) => zone.is_chainless().then(|| zone.negative_ttl()),
        DenialMethod::Nsec if params.is_some() => None,
        DenialMethod::Nsec => nsec.map(|set| set.ttl()),
        DenialMethod::Nsec3(_) if nsec.is_some() => None,
        DenialMethod::Nsec3(settings) => {
            let wanted = settings.parameters();
            let is_wanted = params?.rdatas().map(|param| param.compiled()).eq([&wanted[..]]);
            let set = zone.nsec3()?.matching(&settings.hash(zone.apex()))?.rrset(Type::NSEC3)?;
            let is_opt_out = Nsec3::read(set.rdatas().next()?.compiled()).ok()?.is_opt_out();
            (is_wanted && is_opt_out == settings.opt_out).then(|| set.ttl())
        }
    }
}

/// Makes a step of a signed zone. `plain` has no records that signing makes.
pub(super) fn step(
    zone: &Zone,
    mut plain: ChangeSet,
    signing: &Signing<'_>,
    renewal: Option<Renewal<'_>>,
) -> Result<SignedStep, Obstacle> {
    let chain_ttl = chain_ttl(zone, signing.policy).ok_or(Obstacle::OtherChain)?;
    add_apex_sets(zone, signing, &mut plain);
    let (owners, dropped) = drop_emptied(zone, &mut plain);
    let next = zone.apply(&plain)?;
    let is_online = matches!(signing.policy.denial, DenialMethod::Online(_));
    if next.negative_ttl() != chain_ttl && !is_online {
        return Err(Obstacle::OtherChain);
    }
    let ledger = Ledger::new(signing, zone.apex(), chain_ttl, renewal);
    let touched = with_occluded(zone, &next, &owners);
    let renewed = renewal.map(|renewal| renewal.owners);
    let mut names = Names { zone, next: &next, owners: &owners, ledger };
    let all: BTreeSet<&NameBuf> = touched.iter().chain(renewed.into_iter().flatten()).collect();
    match &signing.policy.denial {
        DenialMethod::Online(_) => names.without_chain(&all),
        DenialMethod::Nsec => names.with_nsec(&touched, &all)?,
        DenialMethod::Nsec3(settings) => names.with_nsec3(settings, &touched, &all, renewed)?,
    }
    names.ledger.sign()?;
    let Ledger { change, mut counts, .. } = names.ledger;
    counts.dropped += dropped;
    let change = joined(&plain, &change);
    let signed = SignedStep { zone: zone.apply(&change)?, change, counts };
    match signing.policy.zonemd.is_empty() {
        true => Ok(signed),
        false => Ok(with_digests(zone, signed, signing)?),
    }
}

/// Replaces the ZONEMD records without a digest by those of the version. Reads the whole version.
fn with_digests(zone: &Zone, step: SignedStep, signing: &Signing<'_>) -> Result<SignedStep, SignFault> {
    let SignedStep { zone: signed, mut change, mut counts } = step;
    let apex = signed.apex_node().written_owner();
    change.added =
        filtered(&change.added, |record| record.rtype != Type::ZONEMD || record.owner != apex.as_name());
    let mut rdatas = zonemd::records(&signed, &signing.policy.zonemd);
    rdatas.sort_unstable();
    rdatas.dedup();
    let ttl = soa_ttl(&signed);
    for rdata in &rdatas {
        change.added.push(apex.as_name(), Type::ZONEMD, ttl, rdata);
    }
    let mut ledger = Ledger::new(signing, zone.apex(), ttl, None);
    let set = Wanted {
        owner: apex,
        rtype: Type::ZONEMD,
        ttl,
        is_apex: true,
        is_signed: true,
        is_same: false,
        rdatas: &|| rdatas.clone(),
    };
    ledger.cover(&set, std::iter::empty());
    ledger.sign()?;
    change.added.append(&ledger.change.added);
    counts.signatures += ledger.counts.signatures;
    Ok(SignedStep { zone: zone.apply(&change)?, change, counts })
}

/// Returns the names that a change touches: `owners`, and the names that came below a cut or a DNAME or no
/// longer are below one.
fn with_occluded(zone: &Zone, next: &Zone, owners: &BTreeSet<NameBuf>) -> BTreeSet<NameBuf> {
    let mut touched = owners.clone();
    for owner in owners {
        let name = owner.as_name();
        // Otherwise all names below it are new or gone, and so are in `owners`.
        let (Some(old), Some(new)) = (zone.find_name(name), next.find_name(name)) else { continue };
        let hides = |node: Node<'_>| node.flags().intersects(NodeFlags::CUT | NodeFlags::DNAME);
        let is_seen = is_visible(&old) || is_visible(&new);
        if hides(old) == hides(new) || !is_seen {
            continue;
        }
        let below =
            next.iter_from(name).skip(1).take_while(|node| node.owner().as_name().is_at_or_below(name));
        for node in below.filter(|node| !node.flags().contains(NodeFlags::NSEC3_ONLY)) {
            let was = zone.find_name(node.owner().as_name());
            if was.is_some_and(|was| is_visible(&was) != is_visible(&node)) {
                touched.insert(node.owner().as_name().to_buf());
            }
        }
    }
    touched
}

/// Returns the NSEC set of a name, if it is in the chain.
fn nsec_of<'a>(node: Option<Node<'a>>) -> Option<RrSet<'a>> {
    node.filter(is_visible)?.rrset(Type::NSEC)
}

/// Returns the next name in an NSEC set.
fn next_name(set: RrSet<'_>) -> Option<NameBuf> {
    let nsec = set.rdatas().next()?;
    Nsec::read(nsec.compiled()).ok().map(|nsec| nsec.next.to_buf())
}

/// Returns the next hash in an NSEC3 set.
fn next_hash(node: Node<'_>) -> Option<[u8; HASH_LEN]> {
    let nsec3 = node.rrset(Type::NSEC3)?.rdatas().next()?;
    Nsec3::read(nsec3.compiled()).ok()?.next_hash.try_into().ok()
}

/// The names of a step.
struct Names<'a> {
    /// The version before.
    zone: &'a Zone,
    /// The version after the change of the data: signatures and chain are those of the version before, but
    /// names without data have none.
    next: &'a Zone,
    /// The names whose data change.
    owners: &'a BTreeSet<NameBuf>,
    ledger: Ledger<'a>,
}

impl Names<'_> {
    /// Adds the NSEC chain, and the signatures of `all` names.
    fn with_nsec(&mut self, touched: &BTreeSet<NameBuf>, all: &BTreeSet<&NameBuf>) -> Result<(), Obstacle> {
        let (zone, next) = (self.zone, self.next);
        let chain = next.nsec().ok_or(Obstacle::OtherChain)?;
        let (mut came, mut gone) = (BTreeSet::new(), BTreeSet::new());
        for name in touched {
            let node = next.find_name(name.as_name());
            let is_linked = nsec_of(node).is_some();
            let is_member = node.is_some_and(|node| is_visible(&node) && has_data(node));
            if is_linked && !is_member {
                return Err(Obstacle::OtherChain);
            }
            if is_member && !is_linked {
                came.insert(*name);
            }
            if nsec_of(zone.find_name(name.as_name())).is_some() && !is_linked {
                gone.insert(*name);
            }
        }
        let before = |name: &NameBuf| {
            let node = chain.covering(name.as_name().to_lower().as_lower())?;
            Some(node.owner().as_name().to_buf())
        };
        let after = |name: &NameBuf| next_name(nsec_of(zone.find_name(name.as_name()))?);
        let links = relink(&came, &gone, before, after).ok_or(Obstacle::OtherChain)?;
        for name in all {
            if let Some(node) = next.find_name(name.as_name()) {
                self.data(node);
                self.nsec(node, &links)?;
            }
        }
        for name in links.keys().filter(|name| !all.contains(name)) {
            let node = next.find_name(name.as_name()).ok_or(Obstacle::OtherChain)?;
            self.nsec(node, &links)?;
        }
        Ok(())
    }

    /// Makes the signatures of `all` names.
    fn without_chain(&mut self, all: &BTreeSet<&NameBuf>) {
        let next = self.next;
        for node in all.iter().filter_map(|name| next.find_name(name.as_name())) {
            self.data(node);
        }
    }

    /// Makes the NSEC record of a name that of the new version.
    fn nsec(&mut self, node: Node<'_>, links: &BTreeMap<NameBuf, NameBuf>) -> Result<(), Obstacle> {
        let present = node.rrset(Type::NSEC);
        let mut wanted = None;
        if is_visible(&node) && has_data(node) {
            let linked = links.get(&node.owner().as_name().to_buf()).copied();
            let next = linked.or_else(|| next_name(present?)).ok_or(Obstacle::OtherChain)?;
            let next = next.as_name().to_lower();
            wanted = Some(nsec_record(next.as_lower(), &listed_types(node, Some(Type::NSEC))));
        }
        self.ledger.prove(node.written_owner(), present, Type::NSEC, wanted);
        Ok(())
    }

    /// Makes the signatures over the data of a name those of the new version.
    fn data(&mut self, node: Node<'_>) {
        let (zone, owner) = (self.zone, node.written_owner());
        let (is_apex, changes) = (node.flags().contains(NodeFlags::APEX), self.owners.contains(&owner));
        let old = zone.find_name(owner.as_name()).filter(|_| changes);
        for set in node.rrsets() {
            let (rtype, ttl) = (set.rtype(), set.ttl());
            match rtype {
                // Signatures over records that are gone.
                Type::RRSIG => set.rdatas().for_each(|sig| self.ledger.remove(owner, Type::RRSIG, &sig)),
                Type::NSEC | Type::NSEC3 => {}
                _ => {
                    // The digest and its signatures are made last.
                    let is_digest = is_apex && rtype == Type::ZONEMD;
                    let is_signed = self.ledger.signs(&node, rtype) && !is_digest;
                    let rdatas = || canonical_rdatas(set);
                    let old = old.and_then(|old| old.rrset(rtype));
                    let is_same = !changes || old.is_some_and(|old| canonical_rdatas(old) == rdatas());
                    let set = Wanted { owner, rtype, ttl, is_apex, is_signed, is_same, rdatas: &rdatas };
                    self.ledger.cover(&set, node.rrset(rtype).into_iter().flat_map(|set| set.sig_rdatas()));
                }
            }
        }
    }

    /// Adds the NSEC3 chain, and the signatures of `all` names.
    fn with_nsec3(
        &mut self,
        settings: &Nsec3Settings,
        touched: &BTreeSet<NameBuf>,
        all: &BTreeSet<&NameBuf>,
        renewed: Option<&BTreeSet<NameBuf>>,
    ) -> Result<(), Obstacle> {
        let next = self.next;
        let chain = next.nsec3().ok_or(Obstacle::OtherChain)?;
        let members = Members::of(self.zone, next, chain, settings, touched)?;
        let before =
            |hash: &[u8; HASH_LEN]| Nsec3Chain::owner_hash(chain.covering(&minus_one(*hash)).owner());
        let after = |hash: &[u8; HASH_LEN]| next_hash(chain.matching(hash)?);
        let links = relink(&members.came, &members.gone, before, after).ok_or(Obstacle::OtherChain)?;
        for name in all {
            if let Some(node) = next.find_name(name.as_name()) {
                self.data(node);
            }
        }
        let hashes: BTreeSet<&[u8; HASH_LEN]> =
            members.named.keys().chain(links.keys()).chain(&members.gone).collect();
        for hash in &hashes {
            let present = chain.matching(hash);
            let link =
                || links.get(*hash).copied().or_else(|| next_hash(present?)).ok_or(Obstacle::OtherChain);
            let wanted = match members.named.get(*hash) {
                Some(name) => {
                    let types = next.find_name(name.as_name()).map(|node| listed_types(node, None));
                    Some(settings.record(&link()?, &types.unwrap_or_default()))
                }
                None if members.gone.contains(*hash) => None,
                None => Some(with_next(present, settings, &link()?).ok_or(Obstacle::OtherChain)?),
            };
            self.nsec3(hash, present, wanted)?;
        }
        for name in renewed.into_iter().flatten() {
            let owner = name.as_name().to_lower();
            let hash = Nsec3Chain::owner_hash(owner.as_lower()).filter(|hash| !hashes.contains(hash));
            let Some((hash, node)) = hash.and_then(|hash| Some((hash, chain.matching(&hash)?))) else {
                continue;
            };
            let present = node.rrset(Type::NSEC3).and_then(|set| set.rdatas().next());
            self.nsec3(&hash, Some(node), present.map(|record| record.compiled().to_vec()))?;
        }
        Ok(())
    }

    /// Makes the NSEC3 record of a hash that of the new version.
    fn nsec3(
        &mut self,
        hash: &[u8; HASH_LEN],
        present: Option<Node<'_>>,
        wanted: Option<Vec<u8>>,
    ) -> Result<(), SignFault> {
        let owner = nsec3_owner(hash, self.apex().as_name()).map_err(|_| SignFault::LongApex)?;
        let present = present.and_then(|node| node.rrset(Type::NSEC3));
        self.ledger.prove(owner, present, Type::NSEC3, wanted);
        Ok(())
    }

    fn apex(&self) -> LowerName<'_> {
        self.zone.apex()
    }
}

/// Returns the RDATA of a node's NSEC3 record with another next hash.
fn with_next(node: Option<Node<'_>>, settings: &Nsec3Settings, next: &[u8; HASH_LEN]) -> Option<Vec<u8>> {
    let mut rdata = node?.rrset(Type::NSEC3)?.rdatas().next()?.compiled().to_vec();
    // The parameters as in NSEC3PARAM, and the length of the hash (RFC 5155 §3.2).
    let at = settings.parameters().len() + 1;
    rdata.get_mut(at..at + HASH_LEN)?.copy_from_slice(next);
    Some(rdata)
}

/// Returns `hash` minus one, modulo the number of hashes.
fn minus_one(mut hash: [u8; HASH_LEN]) -> [u8; HASH_LEN] {
    for byte in hash.iter_mut().rev() {
        let borrow = *byte == 0;
        *byte = byte.wrapping_sub(1);
        if !borrow {
            break;
        }
    }
    hash
}
