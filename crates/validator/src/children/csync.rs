//! Requests of a child for the NS records and the glue of its delegation: CSYNC records (RFC 7477), and
//! whether they are accepted.
//!
//! The servers of the child are asked for SOA, CSYNC and DNSKEY ([`CsyncAnswers`]), then for what is to be
//! copied and for the SOA again ([`CsyncContent`]). If the delegation is to change, the servers of the new
//! one are asked for the same records ([`NewServerAnswers`]).

use std::cmp::Ordering;

use wire::rdata::view::{Csync, Ns, Soa};
use wire::{Name, NameBuf, Serial, Type, UnixTime};

use super::answers::{ChildRrset, ChildServerFault, ServerAnswer, agreed, all};
use super::cds::DelegationSigners;
use super::proof::{Proof, keys_of};
use super::refusal::{ChildRefusal, RefusalReason};
use crate::delegation::delegated;
use crate::settings::ValidationSettings;
use crate::trust::Trust;

/// Most NS records of a delegation that are set.
pub const MAX_NAME_SERVERS: usize = 26;
/// Most glue records of a delegation that are set.
const MAX_GLUE: usize = 64;
/// RRsets of the child besides glue: SOA twice, CSYNC, NS.
const SETS: usize = 4;

/// What one server of a child has at first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsyncAnswers {
    /// The SOA RRset.
    pub soa: ChildRrset,
    /// The CSYNC RRset.
    pub csync: ChildRrset,
    /// The DNSKEY RRset.
    pub dnskey: ChildRrset,
}

/// The addresses of a name server at one server of the child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildGlue {
    /// The name server, which is in the child zone.
    pub host: NameBuf,
    /// A or AAAA.
    pub rtype: Type,
    /// The RRset.
    pub set: ChildRrset,
}

/// All that one server of a child has of what is to be copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsyncContent {
    /// What it had at first.
    pub start: CsyncAnswers,
    /// The NS RRset.
    pub ns: ChildRrset,
    /// The addresses of name servers, in the order of [`CsyncRequest::hosts`].
    pub glue: Vec<ChildGlue>,
    /// The SOA RRset after all others.
    pub end: ChildRrset,
}

impl CsyncContent {
    /// Joins the answers of servers: those before, the NS RRset, and then one for each of `hosts` and the
    /// SOA. All are of the same servers in the same order.
    ///
    /// # Errors
    /// An address of a name server in the child zone is not in this zone at one of its servers.
    pub fn joined(
        starts: Vec<ServerAnswer<CsyncAnswers>>,
        ns: Vec<ServerAnswer<ChildRrset>>,
        rest: Vec<ServerAnswer<Vec<ChildRrset>>>,
        hosts: &[(NameBuf, Type)],
    ) -> Result<Vec<ServerAnswer<CsyncContent>>, ChildRefusal> {
        let mut joined = Vec::new();
        for ((start, ns), rest) in starts.into_iter().zip(ns).zip(rest) {
            let server = start.server;
            let is_elsewhere =
                matches!(rest.found, Err(ChildServerFault::NotAuthoritative | ChildServerFault::Alias));
            if start.found.is_ok() && ns.found.is_ok() && is_elsewhere {
                let text = format!(
                    "name server {server}: a name server below the child's name has its addresses in another zone, \
                     or is an alias"
                );
                return Err(ChildRefusal::new(RefusalReason::Glue, text));
            }
            let content = || {
                let (start, ns, mut rest) = (start.found?, ns.found?, rest.found?);
                // A server that has answered has answered each question.
                let end = rest.pop().ok_or(ChildServerFault::Malformed)?;
                let glue = hosts.iter().zip(rest);
                let glue = glue.map(|((host, rtype), set)| ChildGlue { host: *host, rtype: *rtype, set });
                Ok(CsyncContent { start, ns, glue: glue.collect(), end })
            };
            joined.push(ServerAnswer { found: content(), server });
        }
        Ok(joined)
    }
}

/// What a server of the new delegation has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewServerAnswers {
    /// The DNSKEY RRset.
    pub dnskey: ChildRrset,
    /// The NS RRset.
    pub ns: ChildRrset,
    /// The SOA RRset.
    pub soa: ChildRrset,
}

/// An RRset of a delegation in the parent zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RrsetOfDelegation {
    /// The child, or one of its name servers.
    pub owner: NameBuf,
    /// NS, A or AAAA.
    pub rtype: Type,
    /// The data of its records, in canonical form and order; empty: there is none.
    pub rdatas: Vec<Vec<u8>>,
}

/// The records of a delegation in the parent zone.
#[derive(Clone, Copy, Debug)]
pub struct ParentalRecords<'a> {
    /// The data of the NS records, in canonical form and order.
    pub ns: &'a [Vec<u8>],
    /// The addresses of name servers in the child zone.
    pub glue: &'a [RrsetOfDelegation],
}

/// What a child asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsyncRequest {
    /// The least serial number of the child that counts.
    minimum: Option<Serial>,
    ns: bool,
    a: bool,
    aaaa: bool,
}

/// The decision on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CsyncDecision {
    /// The delegation has these records already.
    Unchanged {
        /// The least serial number of the child at any server.
        serial: Serial,
    },
    /// RRsets of the delegation are to change.
    Change {
        /// Those that change, with what they are to hold.
        sets: Vec<RrsetOfDelegation>,
        /// The least serial number of the child at any server: later, no request of an older version is
        /// accepted.
        serial: Serial,
    },
}

impl CsyncRequest {
    /// Reads what the servers of a child ask for; `None`: nothing. All servers must have answered, with the
    /// same CSYNC record.
    ///
    /// # Errors
    /// [`ChildRefusal`].
    pub fn read(servers: &[ServerAnswer<CsyncAnswers>]) -> Result<Option<CsyncRequest>, ChildRefusal> {
        let answers = all(servers)?;
        let malformed = |text: &str| Err(ChildRefusal::new(RefusalReason::Malformed, text));
        let csync = match agreed(Type::CSYNC, answers.iter().map(|(server, found)| (*server, &found.csync)))?
        {
            [] => return Ok(None),
            [only] => only,
            // RFC 7477 §2.1: a child publishes one at most.
            _ => return malformed("the child has more than one CSYNC record"),
        };
        let Ok(csync) = Csync::read(csync) else {
            return malformed("the CSYNC record does not have the form of its type");
        };
        let unsupported = |text: String| Err(ChildRefusal::new(RefusalReason::UnsupportedCsync, text));
        if csync.flags & !(Csync::IMMEDIATE | Csync::SOA_MINIMUM) != 0 {
            return unsupported(format!("the CSYNC record has unknown flags, {:#06x} in all", csync.flags));
        }
        if let Some(other) = csync.types.iter().find(|t| !matches!(*t, Type::NS | Type::A | Type::AAAA)) {
            return unsupported(format!(
                "the CSYNC record has the type {other}: only NS, A and AAAA are copied"
            ));
        }
        let has = |rtype| csync.types.contains(rtype);
        let minimum = (csync.flags & Csync::SOA_MINIMUM != 0).then_some(csync.serial);
        let request = CsyncRequest { minimum, ns: has(Type::NS), a: has(Type::A), aaaa: has(Type::AAAA) };
        if !(request.ns || request.a || request.aaaa) {
            return Ok(None);
        }
        if csync.flags & Csync::IMMEDIATE == 0 {
            let text =
                "the CSYNC record does not have the flag `immediate`: it leaves the change to operators";
            return Err(ChildRefusal::new(RefusalReason::NotImmediate, text));
        }
        Ok(Some(request))
    }

    /// Returns the name servers in the child zone whose addresses are to be asked for, with the types; `ns`
    /// is what the servers of the child have, which must be the same. `parental` has the NS records that
    /// stay, if these are not to change.
    ///
    /// # Errors
    /// [`ChildRefusal`].
    pub fn hosts(
        &self,
        child: Name<'_>,
        ns: &[ServerAnswer<ChildRrset>],
        parental: &ParentalRecords<'_>,
    ) -> Result<Vec<(NameBuf, Type)>, ChildRefusal> {
        let answers = all(ns)?;
        let of_child = agreed(Type::NS, answers.into_iter())?;
        let wanted = if self.ns { of_child } else { parental.ns };
        if self.ns && wanted.is_empty() {
            return Err(ChildRefusal::new(RefusalReason::NoNameServers, "the child has no NS records"));
        }
        if wanted.len() > MAX_NAME_SERVERS {
            let text =
                format!("the child has {} NS records, {MAX_NAME_SERVERS} at most are set", wanted.len());
            return Err(ChildRefusal::new(RefusalReason::TooMany, text));
        }
        let types = || self.address_types().collect::<Vec<_>>();
        let inside = hosts_in(child, wanted)?;
        Ok(inside.into_iter().flat_map(|host| types().into_iter().map(move |rtype| (host, rtype))).collect())
    }

    fn address_types(&self) -> impl Iterator<Item = Type> {
        [(Type::A, self.a), (Type::AAAA, self.aaaa)].into_iter().filter(|(_, is_on)| *is_on).map(|(t, _)| t)
    }

    /// Decides a request. `last` is the serial number of the version of the child whose request was accepted
    /// last.
    ///
    /// All that counts must be signed by keys of the child, whose DNSKEY RRset the DS set of the delegation
    /// proves, at each server; of glue that a name server does not have, the denial (RFC 7477 §3.1). The zone
    /// must not have changed meanwhile.
    ///
    /// # Errors
    /// [`ChildRefusal`].
    pub fn judge(
        &self,
        delegation: &DelegationSigners<'_>,
        parental: &ParentalRecords<'_>,
        last: Option<Serial>,
        servers: &[ServerAnswer<CsyncContent>],
        (settings, now): (&ValidationSettings, UnixTime),
    ) -> Result<CsyncDecision, ChildRefusal> {
        let answers = all(servers)?;
        let mut least: Option<Serial> = None;
        for (server, content) in &answers {
            let serial = self.serial_of(server, content, last)?;
            let is_less = least.is_none_or(|least| serial.compare(least) == Some(Ordering::Less));
            least = if is_less { Some(serial) } else { least };
        }
        let mut judged = Vec::new();
        for (server, content) in &answers {
            if !judged.contains(content) {
                prove(delegation, server, content, settings, now)?;
                judged.push(content);
            }
        }
        let sets = self.wanted(delegation.child, parental, &answers)?;
        let changed = |set: &RrsetOfDelegation| parental.of(delegation.child, set) != set.rdatas;
        let sets: Vec<_> = sets.into_iter().filter(changed).collect();
        // There is at least one answer.
        let serial = least.unwrap_or_default();
        Ok(match sets.is_empty() {
            true => CsyncDecision::Unchanged { serial },
            false => CsyncDecision::Change { sets, serial },
        })
    }

    /// Returns the serial number of the child at a server.
    fn serial_of(
        &self,
        server: &str,
        content: &CsyncContent,
        last: Option<Serial>,
    ) -> Result<Serial, ChildRefusal> {
        let refused =
            |reason, text: String| Err(ChildRefusal::new(reason, format!("name server {server}: {text}")));
        let [start, end] = [&content.start.soa, &content.end].map(soa_serial);
        let Some((start, end)) = start.zip(end) else {
            return refused(RefusalReason::Malformed, "it has no SOA record".to_owned());
        };
        if start != end {
            let text = format!("the zone has changed during the check, serial {start} -> {end}");
            return refused(RefusalReason::SerialChanged, text);
        }
        let is_below =
            |bound: Serial| !matches!(start.compare(bound), Some(Ordering::Equal | Ordering::Greater));
        if let Some(minimum) = self.minimum.filter(|minimum| is_below(*minimum)) {
            let text = format!("the serial number {start} is below {minimum}, that of the CSYNC record");
            return refused(RefusalReason::BelowMinimum, text);
        }
        if let Some(last) = last.filter(|last| is_below(*last)) {
            let text =
                format!("the serial number {start} is below {last}, that of the last accepted request");
            return refused(RefusalReason::OlderSerial, text);
        }
        Ok(start)
    }

    /// Returns what the RRsets of the delegation are to hold.
    fn wanted(
        &self,
        child: Name<'_>,
        parental: &ParentalRecords<'_>,
        answers: &[(&str, &CsyncContent)],
    ) -> Result<Vec<RrsetOfDelegation>, ChildRefusal> {
        let mut sets = Vec::new();
        let ns = agreed(Type::NS, answers.iter().map(|(server, content)| (*server, &content.ns)))?;
        let ns = if self.ns { ns } else { parental.ns };
        let inside = hosts_in(child, ns)?;
        if self.ns {
            sets.push(RrsetOfDelegation { owner: child.to_buf(), rtype: Type::NS, rdatas: ns.to_vec() });
            // Glue of name servers that the delegation has no more.
            let gone = parental.glue.iter().filter(|glue| !inside.contains(&glue.owner));
            sets.extend(gone.map(|glue| RrsetOfDelegation { rdatas: Vec::new(), ..glue.clone() }));
        }
        for host in inside {
            let mut addresses = 0;
            for rtype in [Type::A, Type::AAAA] {
                let of_host = |content: &&CsyncContent| {
                    content.glue.iter().position(|glue| glue.host == host && glue.rtype == rtype)
                };
                let at = answers.first().and_then(|(_, content)| of_host(content));
                let mut set = RrsetOfDelegation { owner: host, rtype, rdatas: Vec::new() };
                if let Some(at) = at {
                    let found = answers
                        .iter()
                        .filter_map(|(server, content)| Some((*server, &content.glue.get(at)?.set)));
                    set.rdatas = agreed(rtype, found)?.to_vec();
                    addresses += set.rdatas.len();
                    sets.push(set);
                } else {
                    addresses += parental.of(child, &set).len();
                }
            }
            if addresses == 0 {
                let text = format!("the name server {host} is in the child zone, and would have no address");
                return Err(ChildRefusal::new(RefusalReason::Glue, text));
            }
        }
        let glue: usize = sets.iter().filter(|set| set.rtype != Type::NS).map(|set| set.rdatas.len()).sum();
        if glue > MAX_GLUE {
            let text = format!("the child has {glue} addresses of name servers, {MAX_GLUE} at most are set");
            return Err(ChildRefusal::new(RefusalReason::TooMany, text));
        }
        Ok(sets)
    }
}

impl CsyncDecision {
    /// Checks the servers of the new delegation: each must have the zone with its new NS records, not in an
    /// older version than the judged one, and signed as the DS set says.
    ///
    /// # Errors
    /// [`ChildRefusal`].
    pub fn check_new_servers(
        &self,
        delegation: &DelegationSigners<'_>,
        servers: &[ServerAnswer<NewServerAnswers>],
        (settings, now): (&ValidationSettings, UnixTime),
    ) -> Result<(), ChildRefusal> {
        let Self::Change { sets, serial } = self else { return Ok(()) };
        let refused = |text: String| ChildRefusal::new(RefusalReason::NewServers, text);
        let of_new = |fault: ChildRefusal| refused(format!("of the new delegation, {fault}"));
        let ns = sets.iter().find(|set| set.rtype == Type::NS);
        for (server, found) in all(servers).map_err(of_new)? {
            if ns.is_some_and(|ns| found.ns.rdatas() != &ns.rdatas[..]) {
                return Err(refused(format!("the new name server {server} has other NS records")));
            }
            let is_older = |found: Serial| found.compare(*serial) == Some(Ordering::Less);
            if soa_serial(&found.soa).is_none_or(is_older) {
                let text = format!("the new name server {server} has a version of the zone before {serial}");
                return Err(refused(text));
            }
            let mut proof = Proof::new(delegation.child, server, settings, now);
            let keys = zone_keys(&mut proof, delegation, &found.dnskey).map_err(of_new)?;
            for (set, rtype) in [(&found.soa, Type::SOA), (&found.ns, Type::NS)] {
                proof.check_set(set, (delegation.child, rtype), &keys).map_err(of_new)?;
            }
        }
        Ok(())
    }
}

impl ParentalRecords<'_> {
    /// Returns what the parent zone has of an RRset.
    fn of(&self, child: Name<'_>, set: &RrsetOfDelegation) -> &[Vec<u8>] {
        if set.rtype == Type::NS && set.owner.as_name() == child {
            return self.ns;
        }
        let same = self.glue.iter().find(|glue| (glue.owner, glue.rtype) == (set.owner, set.rtype));
        same.map_or(&[], |glue| &glue.rdatas)
    }
}

/// Checks the signatures of all that one server has.
fn prove(
    delegation: &DelegationSigners<'_>,
    server: &str,
    content: &CsyncContent,
    settings: &ValidationSettings,
    now: UnixTime,
) -> Result<(), ChildRefusal> {
    let proof = Proof::new(delegation.child, server, settings, now);
    let mut proof = proof.for_sets(SETS + content.glue.len());
    let keys = zone_keys(&mut proof, delegation, &content.start.dnskey)?;
    let of_child = [
        (&content.start.soa, Type::SOA),
        (&content.start.csync, Type::CSYNC),
        (&content.ns, Type::NS),
        (&content.end, Type::SOA),
    ];
    for (set, rtype) in of_child {
        proof.check_set(set, (delegation.child, rtype), &keys)?;
    }
    for glue in &content.glue {
        proof.check_set(&glue.set, (glue.host.as_name(), glue.rtype), &keys)?;
    }
    Ok(())
}

/// Returns the keys of the child, after its DNSKEY RRset was proven by the DS set.
fn zone_keys(
    proof: &mut Proof<'_>,
    delegation: &DelegationSigners<'_>,
    dnskey: &ChildRrset,
) -> Result<Vec<Vec<u8>>, ChildRefusal> {
    let Trust::Delegated(usable) = delegated(delegation.ds, proof.settings) else {
        let text = "no record of the DS set has an algorithm and a digest type that are supported here";
        return Err(ChildRefusal::new(RefusalReason::WrongSigner, text));
    };
    proof.check_keys(dnskey, &usable).map_err(|reason| proof.refusal(Type::DNSKEY, reason))?;
    Ok(keys_of(dnskey, |_| true))
}

fn soa_serial(soa: &ChildRrset) -> Option<Serial> {
    soa.rdatas().first().and_then(|soa| Soa::read(soa).ok()).map(|soa| soa.numbers.serial)
}

/// Returns the names of NS records that are in the child zone.
fn hosts_in(child: Name<'_>, ns: &[Vec<u8>]) -> Result<Vec<NameBuf>, ChildRefusal> {
    let mut hosts = Vec::new();
    for rdata in ns {
        let Ok(ns) = Ns::read(rdata) else {
            let text = "an NS record does not have the form of its type";
            return Err(ChildRefusal::new(RefusalReason::Malformed, text));
        };
        if ns.nsdname.is_at_or_below(child) {
            hosts.push(ns.nsdname.to_buf());
        }
    }
    Ok(hosts)
}

#[cfg(test)]
mod tests;
