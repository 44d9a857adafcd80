//! The part of a check that is about NS records and glue: the servers of the child are asked for its CSYNC
//! record (RFC 7477) and for what it names, and those of the new delegation for the same.

use std::net::IpAddr;
use std::sync::Arc;

use serving::parental::{ChildHost, ChildServers};
use transport::unix_now;
use validator::ValidationSettings;
use validator::children::{
    ChildRefusal, ChildRrset, ChildServerFault, CsyncAnswers, CsyncContent, CsyncDecision, CsyncRequest,
    DelegationSigners, NewServerAnswers, ParentalRecords, RrsetOfDelegation, ServerAnswer,
};
use wire::{Name, Serial, Ttl, Type};
use zone::Zone;
use zone::store::NodeFlags;

use super::check::{Checking, Delegation, addresses};
use super::schedule::ChildOf;
use crate::changes::edits::{RrsetEdit, RrsetEditKind};
use crate::changes::rrsets::records;

/// The NS records and the glue of a delegation, as a version of the parent zone has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DelegatedServers {
    pub(super) delegation: Delegation,
    /// The data of the NS records, in canonical form and order.
    ns: Vec<Vec<u8>>,
    ns_ttl: Ttl,
    /// The addresses of name servers in the child, with their TTLs.
    glue: Vec<RrsetOfDelegation>,
    glue_ttls: Vec<Ttl>,
}

impl DelegatedServers {
    /// Reads the delegation of a child; `None` if the zone does not delegate the name.
    pub(super) fn read(zone: &Zone, child: Name<'_>) -> Option<DelegatedServers> {
        let delegation = Delegation::read(zone, child)?;
        let ns_set = records(zone, child, Type::NS);
        let ns_ttl = ns_set.first().map_or(Ttl::ZERO, |(ttl, _)| *ttl);
        let lower =
            |rdata: &Vec<u8>| Some(Name::from_wire(rdata).ok()?.to_lower().as_name().as_wire().to_vec());
        let mut ns: Vec<Vec<u8>> = ns_set.iter().filter_map(|(_, rdata)| lower(rdata)).collect();
        ns.sort_unstable();
        let (mut glue, mut glue_ttls) = (Vec::new(), Vec::new());
        for host in ns.iter().filter_map(|rdata| Name::from_wire(rdata).ok()) {
            for rtype in [Type::A, Type::AAAA].into_iter().filter(|_| host.is_at_or_below(child)) {
                let set = records(zone, host, rtype);
                let Some((ttl, _)) = set.first() else { continue };
                glue_ttls.push(*ttl);
                let mut rdatas: Vec<Vec<u8>> = set.into_iter().map(|(_, rdata)| rdata).collect();
                rdatas.sort_unstable();
                glue.push(RrsetOfDelegation { owner: host.to_buf(), rtype, rdatas });
            }
        }
        Some(DelegatedServers { delegation, ns, ns_ttl, glue, glue_ttls })
    }

    fn records(&self) -> ParentalRecords<'_> {
        ParentalRecords { ns: &self.ns, glue: &self.glue }
    }

    /// Returns what an RRset holds now.
    fn of(&self, set: &RrsetOfDelegation) -> &[Vec<u8>] {
        if set.rtype == Type::NS {
            return &self.ns;
        }
        let same = self.glue.iter().find(|glue| (glue.owner, glue.rtype) == (set.owner, set.rtype));
        same.map_or(&[], |glue| &glue.rdatas)
    }

    /// Returns the TTL that an RRset has or gets.
    fn ttl_of(&self, set: &RrsetOfDelegation) -> Ttl {
        let same = self.glue.iter().position(|glue| (glue.owner, glue.rtype) == (set.owner, set.rtype));
        same.and_then(|at| self.glue_ttls.get(at)).copied().unwrap_or(self.ns_ttl)
    }

    /// Returns the edits that make RRsets hold these records.
    fn edits(&self, sets: &[RrsetOfDelegation]) -> Vec<RrsetEdit> {
        let edit = |set: &RrsetOfDelegation| {
            let kind = match set.rdatas.is_empty() {
                true => RrsetEditKind::Delete,
                false => RrsetEditKind::Replace { ttl: self.ttl_of(set), rdatas: set.rdatas.clone() },
            };
            RrsetEdit { owner: set.owner, rtype: set.rtype, kind }
        };
        sets.iter().map(edit).collect()
    }

    /// Returns what RRsets hold now and then, for operators.
    fn shown(&self, sets: &[RrsetOfDelegation]) -> String {
        let all = |rtype, rdatas: &[Vec<u8>]| match rdatas {
            [] => "none".to_owned(),
            rdatas => rdatas.iter().map(|rdata| shown(rtype, rdata)).collect::<Vec<_>>().join(" "),
        };
        let one = |set: &RrsetOfDelegation| {
            let of = if set.rtype == Type::NS { String::new() } else { format!("{} ", set.owner) };
            format!("{of}{} {} -> {}", set.rtype, all(set.rtype, self.of(set)), all(set.rtype, &set.rdatas))
        };
        sets.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// Returns the name servers of the delegation with these RRsets.
    fn hosts_with(&self, zone: &Zone, child: Name<'_>, sets: &[RrsetOfDelegation]) -> Vec<ChildHost> {
        let ns = sets.iter().find(|set| set.rtype == Type::NS).map_or(&self.ns, |set| &set.rdatas);
        let host = |name: Name<'_>| {
            let glue = match name.is_at_or_below(child) {
                true => self.addresses_with(name, sets),
                false if name.is_at_or_below(zone.apex().as_name()) => addresses(zone, name),
                false => Vec::new(),
            };
            ChildHost { name: name.to_buf(), glue }
        };
        ns.iter().filter_map(|rdata| Name::from_wire(rdata).ok()).map(host).collect()
    }

    fn addresses_with(&self, host: Name<'_>, sets: &[RrsetOfDelegation]) -> Vec<IpAddr> {
        let of_type = |rtype| {
            let set = RrsetOfDelegation { owner: host.to_buf(), rtype, rdatas: Vec::new() };
            let new = sets.iter().find(|new| (new.owner, new.rtype) == (set.owner, rtype));
            new.map_or_else(|| self.of(&set).to_vec(), |new| new.rdatas.clone())
        };
        let all = [Type::AAAA, Type::A].into_iter().flat_map(of_type);
        all.filter_map(|rdata| address(&rdata)).collect()
    }
}

/// Returns the address of A or AAAA data.
fn address(rdata: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(rdata).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(rdata).map(IpAddr::from)).ok()
}

/// Returns the data of a record of a delegation as text.
fn shown(rtype: Type, rdata: &[u8]) -> String {
    let name = || Name::from_wire(rdata).map(|name| name.to_string()).ok();
    let text = if rtype == Type::NS { name() } else { address(rdata).map(|address| address.to_string()) };
    text.unwrap_or_else(|| "?".to_owned())
}

/// Whether a name is a name server of the zone or of another of its delegations.
fn is_named_elsewhere(zone: &Zone, child: Name<'_>, host: Name<'_>) -> bool {
    let has_servers = |flags: NodeFlags| flags.contains(NodeFlags::CUT) || flags.contains(NodeFlags::APEX);
    let others = zone.iter().filter(|node| has_servers(node.flags()) && node.owner().as_name() != child);
    let mut rdata = Vec::new();
    others.filter_map(|node| node.rrset(Type::NS)).any(|set| {
        set.rdatas().any(|record| {
            rdata.clear();
            record.copy_to(&mut rdata);
            Name::from_wire(&rdata).is_ok_and(|name| name == host)
        })
    })
}

/// What a check of a CSYNC record has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CsyncFound {
    /// The zone does not delegate the name, or is not in service.
    NotDelegated,
    /// The delegation is unsigned, so nothing proves a CSYNC record.
    Unsigned,
    /// The child asks for nothing.
    Nothing,
    /// The zone has what the child asks for, in the version of the child with this serial number.
    Unchanged(Serial),
    /// The delegation is to change.
    Change { servers: Box<DelegatedServers>, edits: Vec<RrsetEdit>, shown: String, serial: Serial },
    /// The request is not accepted.
    Refused(ChildRefusal),
}

impl Checking {
    /// Asks the name servers of a child for its CSYNC record and what it names, and judges that. `last` is
    /// the serial number of the version of the child whose request was accepted last.
    pub(super) async fn check_csync(&self, of: &ChildOf, last: Option<Serial>) -> CsyncFound {
        let (apex, child) = of;
        let Some(zone) = self.zone(apex) else { return CsyncFound::NotDelegated };
        let Some(servers) = DelegatedServers::read(&zone, child.as_name()) else {
            return CsyncFound::NotDelegated;
        };
        if servers.delegation.ds.is_empty() {
            return CsyncFound::Unsigned;
        }
        let decision = match self.judged_csync(of, &servers, last).await {
            Ok(None) => return CsyncFound::Nothing,
            Ok(Some(decision)) => decision,
            Err(refusal) => return CsyncFound::Refused(refusal),
        };
        let (mut sets, serial) = match &decision {
            CsyncDecision::Unchanged { serial } => return CsyncFound::Unchanged(*serial),
            CsyncDecision::Change { sets, serial } => (sets.clone(), *serial),
        };
        if let Err(refusal) = self.new_servers_checked(of, &zone, &servers, &decision, &sets).await {
            return CsyncFound::Refused(refusal);
        }
        // Glue that the delegation no longer needs stays if another one needs it.
        sets.retain(|set| {
            !set.rdatas.is_empty() || !is_named_elsewhere(&zone, child.as_name(), set.owner.as_name())
        });
        if sets.is_empty() {
            return CsyncFound::Unchanged(serial);
        }
        let (edits, shown) = (servers.edits(&sets), servers.shown(&sets));
        CsyncFound::Change { servers: Box::new(servers), edits, shown, serial }
    }

    async fn judged_csync(
        &self,
        (apex, child): &ChildOf,
        parental: &DelegatedServers,
        last: Option<Serial>,
    ) -> Result<Option<CsyncDecision>, ChildRefusal> {
        let (hosts, timing, delegation) = (&self.hosts, &self.timing, &parental.delegation);
        let mut servers = ChildServers::find(hosts, &self.engine, apex, &delegation.servers, timing).await;
        let questions = [Type::SOA, Type::CSYNC, Type::DNSKEY].map(|rtype| (*child, rtype));
        let starts = servers.ask(hosts, &questions, timing).await;
        let starts: Vec<_> = starts.into_iter().map(|one| converted(one, start_of)).collect();
        let Some(request) = CsyncRequest::read(&starts)? else { return Ok(None) };
        let ns = servers.ask(hosts, &[(*child, Type::NS)], timing).await;
        let ns: Vec<_> = ns.into_iter().map(|one| converted(one, |[ns]| ns)).collect();
        let wanted = request.hosts(child.as_name(), &ns, &parental.records())?;
        // The SOA comes last: it shows whether all before are of one version.
        let questions: Vec<_> = wanted.iter().copied().chain([(*child, Type::SOA)]).collect();
        let rest = servers.ask(hosts, &questions, timing).await;
        let contents = CsyncContent::joined(starts, ns, rest, &wanted)?;
        let (of, records) = (signers(child.as_name(), delegation), parental.records());
        let settings = ValidationSettings::default();
        request.judge(&of, &records, last, &contents, (&settings, unix_now())).map(Some)
    }

    /// Asks the servers of the new delegation.
    async fn new_servers_checked(
        &self,
        (apex, child): &ChildOf,
        zone: &Arc<Zone>,
        parental: &DelegatedServers,
        decision: &CsyncDecision,
        sets: &[RrsetOfDelegation],
    ) -> Result<(), ChildRefusal> {
        let (hosts, timing) = (&self.hosts, &self.timing);
        let new = parental.hosts_with(zone, child.as_name(), sets);
        let mut servers = ChildServers::find(hosts, &self.engine, apex, &new, timing).await;
        let questions = [Type::DNSKEY, Type::NS, Type::SOA].map(|rtype| (*child, rtype));
        let found = servers.ask(hosts, &questions, timing).await;
        let found: Vec<_> = found.into_iter().map(|one| converted(one, new_server_of)).collect();
        let of = signers(child.as_name(), &parental.delegation);
        decision.check_new_servers(&of, &found, (&ValidationSettings::default(), unix_now()))
    }
}

fn signers<'d>(child: Name<'d>, delegation: &'d Delegation) -> DelegationSigners<'d> {
    DelegationSigners { child, ds: &delegation.ds, last: None }
}

fn start_of([soa, csync, dnskey]: [ChildRrset; 3]) -> CsyncAnswers {
    CsyncAnswers { soa, csync, dnskey }
}

fn new_server_of([dnskey, ns, soa]: [ChildRrset; 3]) -> NewServerAnswers {
    NewServerAnswers { dnskey, ns, soa }
}

/// Converts the RRsets of a server. A server that has answered has answered each question.
pub(super) fn converted<T, const N: usize>(
    answer: ServerAnswer<Vec<ChildRrset>>,
    convert: fn([ChildRrset; N]) -> T,
) -> ServerAnswer<T> {
    let no_answer = |_| ChildServerFault::Malformed;
    let found = answer.found.and_then(|sets| <[ChildRrset; N]>::try_from(sets).map_err(no_answer));
    ServerAnswer { server: answer.server, found: found.map(convert) }
}

/// Returns why the NS records and the glue of a delegation are changed, for the audit file.
pub(super) fn csync_why(shown: &str, serial: Serial) -> Arc<str> {
    format!("CSYNC signed by keys of the child, its serial {serial}, {shown}").into()
}

#[cfg(test)]
mod tests {
    use testkit::{ModelRecord, build, key, name};

    use super::*;

    fn wire(text: &str) -> Vec<u8> {
        name(text).as_name().as_wire().to_vec()
    }

    fn zone() -> Zone {
        let record = |owner: &str, rtype, ttl, rdata: &[u8]| ModelRecord {
            owner: name(owner),
            rtype,
            ttl: Ttl::from_secs(ttl),
            rdata: rdata.to_vec(),
        };
        let records = [
            record("example", Type::SOA, 60, &[wire("ns.test"), wire("host.test"), vec![0; 20]].concat()),
            record("example", Type::NS, 60, &wire("ns.test")),
            record("child.example", Type::NS, 7200, &wire("NS.child.example")),
            record("child.example", Type::NS, 7200, &wire("a.child.example")),
            record("child.example", Type::NS, 7200, &wire("ns.other.example")),
            record("ns.child.example", Type::A, 60, &[192, 0, 2, 1]),
            record("a.child.example", Type::A, 90, &[192, 0, 2, 2]),
            record("ns.other.example", Type::A, 60, &[192, 0, 2, 3]),
            record("second.example", Type::NS, 60, &wire("A.child.example")),
        ];
        build(name("example").as_name(), &key(), &records)
    }

    fn set(owner: &str, rtype: Type, rdatas: &[&[u8]]) -> RrsetOfDelegation {
        RrsetOfDelegation {
            owner: name(owner),
            rtype,
            rdatas: rdatas.iter().map(|one| one.to_vec()).collect(),
        }
    }

    #[test]
    fn a_delegation_has_its_records_in_canonical_form() {
        let (zone, child) = (zone(), name("child.example"));
        let servers = DelegatedServers::read(&zone, child.as_name()).expect("a delegation");
        assert_eq!(servers.ns, [wire("a.child.example"), wire("ns.child.example"), wire("ns.other.example")]);
        let glue = [
            set("a.child.example", Type::A, &[&[192, 0, 2, 2]]),
            set("ns.child.example", Type::A, &[&[192, 0, 2, 1]]),
        ];
        assert_eq!(servers.glue, glue, "that of other names is not part of it");
        assert_eq!(DelegatedServers::read(&zone, name("www.example").as_name()), None);
    }

    #[test]
    fn a_change_has_edits_text_and_servers() {
        let (zone, child) = (zone(), name("child.example"));
        let servers = DelegatedServers::read(&zone, child.as_name()).expect("a delegation");
        let sets = [
            set("child.example", Type::NS, &[&wire("ns.child.example"), &wire("ns.other.example")]),
            set("a.child.example", Type::A, &[]),
            set("ns.child.example", Type::A, &[&[192, 0, 2, 9]]),
            set("ns.child.example", Type::AAAA, &[&[0; 16]]),
        ];
        let kinds: Vec<RrsetEditKind> = servers.edits(&sets).into_iter().map(|edit| edit.kind).collect();
        let replaced = |ttl, set: &RrsetOfDelegation| RrsetEditKind::Replace {
            ttl: Ttl::from_secs(ttl),
            rdatas: set.rdatas.clone(),
        };
        let wanted = [
            replaced(7200, &sets[0]),
            RrsetEditKind::Delete,
            replaced(60, &sets[2]),
            replaced(7200, &sets[3]),
        ];
        assert_eq!(kinds, wanted, "a new RRset has the TTL of the NS records");
        let text = "a.child.example. A 192.0.2.2 -> none, ns.child.example. A 192.0.2.1 -> 192.0.2.9, \
                    ns.child.example. AAAA none -> ::";
        assert_eq!(servers.shown(&sets[1..]), text);
        let text =
            "NS a.child.example. ns.child.example. ns.other.example. -> ns.child.example. ns.other.example.";
        assert_eq!(servers.shown(&sets[..1]), text);
        let hosts = servers.hosts_with(&zone, child.as_name(), &sets[..3]);
        let glue: Vec<Vec<IpAddr>> = hosts.into_iter().map(|host| host.glue).collect();
        assert_eq!(glue, [[IpAddr::from([192, 0, 2, 9])], [IpAddr::from([192, 0, 2, 3])]]);
    }

    #[test]
    fn glue_that_another_delegation_needs_is_known() {
        let (zone, child) = (zone(), name("child.example"));
        let is_named = |host: &str| is_named_elsewhere(&zone, child.as_name(), name(host).as_name());
        assert!(is_named("a.child.example"));
        assert!(!is_named("ns.child.example"));
        assert!(is_named("ns.test"), "a name server of the zone itself");
    }
}
