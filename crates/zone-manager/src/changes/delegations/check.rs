//! One check of a delegation: the name servers of the child are asked, and what they have is judged.

use std::net::IpAddr;
use std::sync::Weak;

use query_path::Engine;
use serving::frontend::Served;
use serving::parental::{ChildHost, ChildServers, ParentalHosts, ParentalTiming, bootstrap_signals};
use transport::unix_now;
use validator::ValidationSettings;
use validator::children::{
    CdsAnswers, CdsDecision, CdsRequest, ChildKeys, ChildRefusal, ChildRrset, DelegationSigners, ServerAnswer,
};
use wire::{Name, NameBuf, Serial, Ttl, Type, ZoneName};
use zone::Zone;
use zone::store::NodeFlags;
use zone_plan::DelegationRules;

use super::csync::converted;
use super::schedule::ChildOf;
use crate::changes::rrsets::records;

/// Longest TTL of a DS RRset where there was none: a shorter one makes the next rollover faster.
const MAX_NEW_DS_TTL: Ttl = Ttl::from_secs(3600);

/// A delegation as a version of the parent zone has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Delegation {
    pub(super) servers: Vec<ChildHost>,
    /// The data of the DS records, in order.
    pub(in super::super) ds: Vec<Vec<u8>>,
    /// The TTL that a DS RRset has or gets.
    pub(in super::super) ds_ttl: Ttl,
}

impl Delegation {
    /// Reads the delegation of a child; `None` if the zone does not delegate the name.
    pub(in super::super) fn read(zone: &Zone, child: Name<'_>) -> Option<Delegation> {
        let flags = zone.find_name(child)?.flags();
        if !flags.contains(NodeFlags::CUT) || flags.contains(NodeFlags::OCCLUDED) {
            return None;
        }
        let ns = records(zone, child, Type::NS);
        let names = ns.iter().filter_map(|(_, rdata)| Name::from_wire(rdata).ok());
        let mut servers: Vec<ChildHost> = names
            .map(|name| {
                let is_here = name.is_at_or_below(zone.apex().as_name());
                let glue = if is_here { addresses(zone, name) } else { Vec::new() };
                ChildHost { name: name.to_buf(), glue }
            })
            .collect();
        servers.sort_by_key(|server| server.name);
        let ds = records(zone, child, Type::DS);
        let of_ns = ns.first().map_or(MAX_NEW_DS_TTL, |(ttl, _)| (*ttl).min(MAX_NEW_DS_TTL));
        let ds_ttl = ds.first().map_or(of_ns, |(ttl, _)| *ttl);
        let mut ds: Vec<Vec<u8>> = ds.into_iter().map(|(_, rdata)| rdata).collect();
        ds.sort_unstable();
        Some(Delegation { servers, ds, ds_ttl })
    }
}

/// Returns the addresses of a name in a zone.
pub(super) fn addresses(zone: &Zone, name: Name<'_>) -> Vec<IpAddr> {
    let six = records(zone, name, Type::AAAA).into_iter();
    let six = six.filter_map(|(_, rdata)| <[u8; 16]>::try_from(rdata).ok().map(IpAddr::from));
    let four = records(zone, name, Type::A).into_iter();
    let four = four.filter_map(|(_, rdata)| <[u8; 4]>::try_from(rdata).ok().map(IpAddr::from));
    six.chain(four).collect()
}

/// What a check has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// The zone does not delegate the name, or is not in service.
    NotDelegated,
    /// The delegation is unsigned, and first DS records are not accepted.
    Unsigned,
    /// The delegation is signed, and DS records are not accepted.
    NotAccepted,
    /// The child asks for nothing.
    Nothing,
    /// The zone has what the child asks for, signed at this time.
    Unchanged(Option<Serial>),
    /// The DS RRset of the delegation is to hold these records.
    Change { delegation: Box<Delegation>, ds: Vec<Vec<u8>>, inception: Serial },
    /// The request is not accepted.
    Refused(ChildRefusal),
}

/// How children are asked.
pub(super) struct Checking {
    pub(super) hosts: ParentalHosts,
    pub(super) engine: Weak<Engine<Served>>,
    pub(super) timing: ParentalTiming,
}

impl Checking {
    /// Returns the version of a zone in service.
    pub(super) fn zone(&self, apex: &ZoneName) -> Option<std::sync::Arc<Zone>> {
        self.engine.upgrade()?.zone_entry(apex)?.zone().cloned()
    }

    /// Asks the name servers of a child, and judges what they have. `last` is when its last accepted request
    /// was signed.
    pub(super) async fn check(&self, of: &ChildOf, rules: DelegationRules, last: Option<Serial>) -> Found {
        let (apex, child) = of;
        let read = self.zone(apex).and_then(|zone| Delegation::read(&zone, child.as_name()));
        let Some(delegation) = read else { return Found::NotDelegated };
        match delegation.ds.is_empty() {
            true if !rules.bootstrap => return Found::Unsigned,
            false if !rules.cds => return Found::NotAccepted,
            _ => {}
        }
        match self.judged(of, &delegation, last).await {
            Ok(None) => Found::Nothing,
            Ok(Some(CdsDecision::Unchanged { inception })) => Found::Unchanged(inception),
            Ok(Some(CdsDecision::Change { ds, inception })) => {
                Found::Change { delegation: Box::new(delegation), ds, inception }
            }
            Err(refusal) => Found::Refused(refusal),
        }
    }

    async fn judged(
        &self,
        (apex, child): &ChildOf,
        delegation: &Delegation,
        last: Option<Serial>,
    ) -> Result<Option<CdsDecision>, ChildRefusal> {
        let (hosts, timing) = (&self.hosts, &self.timing);
        let mut servers = ChildServers::find(hosts, &self.engine, apex, &delegation.servers, timing).await;
        let questions = [(*child, Type::CDS), (*child, Type::CDNSKEY)];
        let found = servers.ask(hosts, &questions, timing).await;
        let cds: Vec<ServerAnswer<CdsAnswers>> =
            found.into_iter().map(|one| converted(one, cds_of)).collect();
        let request = CdsRequest::read(child.as_name(), &cds)?;
        let is_unsigned = delegation.ds.is_empty();
        if request == CdsRequest::None || is_unsigned && request == CdsRequest::Delete {
            return Ok(None);
        }
        let questions = [(*child, Type::DNSKEY), (*child, Type::SOA)];
        let keys =
            servers.ask(hosts, &questions, timing).await.into_iter().map(|one| converted(one, keys_of));
        let answers: Vec<_> = cds.into_iter().zip(keys).map(|(cds, keys)| joined(cds, keys)).collect();
        let settings = ValidationSettings::default();
        let of = DelegationSigners { child: child.as_name(), ds: &delegation.ds, last };
        let decision = if is_unsigned {
            let signals = bootstrap_signals(hosts, child.as_name(), &delegation.servers).await;
            request.judge_bootstrap(&of, &answers, &signals, &settings, unix_now())
        } else {
            request.judge(&of, &answers, &settings, unix_now())
        };
        decision.map(Some)
    }
}

fn cds_of([cds, cdnskey]: [ChildRrset; 2]) -> CdsAnswers {
    CdsAnswers { cds, cdnskey }
}

fn keys_of([dnskey, soa]: [ChildRrset; 2]) -> ChildKeys {
    ChildKeys { dnskey, soa }
}

/// Joins two answers of one server.
fn joined(
    cds: ServerAnswer<CdsAnswers>,
    keys: ServerAnswer<ChildKeys>,
) -> ServerAnswer<(CdsAnswers, ChildKeys)> {
    ServerAnswer { server: cds.server, found: cds.found.and_then(|cds| Ok((cds, keys.found?))) }
}

/// Returns the name servers of a delegation and its DS set as text, for operators.
pub(in super::super) fn tags(ds: &[Vec<u8>]) -> String {
    if ds.is_empty() {
        return "none".to_owned();
    }
    let tag = |rdata: &Vec<u8>| match rdata.first_chunk::<2>() {
        Some(tag) => u16::from_be_bytes(*tag).to_string(),
        None => "?".to_owned(),
    };
    let mut tags: Vec<String> = ds.iter().map(tag).collect();
    tags.dedup();
    tags.join(" ")
}

/// Returns the lower-case form of a child's name, by which it is known.
pub(super) fn canonical(child: Name<'_>) -> NameBuf {
    child.to_lower().as_name().to_buf()
}

#[cfg(test)]
mod tests {
    use testkit::{ModelRecord, build, key, name};

    use super::*;

    fn record(owner: &str, rtype: Type, ttl: u32, rdata: &[u8]) -> ModelRecord {
        ModelRecord { owner: name(owner), rtype, ttl: Ttl::from_secs(ttl), rdata: rdata.to_vec() }
    }

    #[test]
    fn a_delegation_has_its_servers_their_glue_and_its_ds_set() {
        let wire = |text: &str| name(text).as_name().as_wire().to_vec();
        let ds = [&[0, 7, 13, 2][..], &[1; 32]].concat();
        let records = [
            record("example", Type::SOA, 60, &[wire("ns.test"), wire("host.test"), vec![0; 20]].concat()),
            record("example", Type::NS, 60, &wire("ns.test")),
            record("child.example", Type::NS, 7200, &wire("ns.child.example")),
            record("child.example", Type::NS, 7200, &wire("ns.other.test")),
            record("child.example", Type::DS, 300, &ds),
            record("ns.child.example", Type::A, 60, &[192, 0, 2, 1]),
            record("below.child.example", Type::NS, 60, &wire("ns.test")),
            record("new.example", Type::NS, 7200, &wire("ns.test")),
            record("www.example", Type::A, 60, &[192, 0, 2, 2]),
        ];
        let zone = build(name("example").as_name(), &key(), &records);
        let read = |child: &str| Delegation::read(&zone, name(child).as_name());
        let host = |text: &str, glue: &[[u8; 4]]| ChildHost {
            name: name(text),
            glue: glue.iter().map(|address| IpAddr::from(*address)).collect(),
        };
        let child = read("child.example").expect("a delegation");
        assert_eq!((child.ds.clone(), child.ds_ttl), (vec![ds], Ttl::from_secs(300)));
        let mut servers = vec![host("ns.child.example", &[[192, 0, 2, 1]]), host("ns.other.test", &[])];
        servers.sort_by_key(|server| server.name);
        assert_eq!(child.servers, servers);
        let new = read("new.example").expect("a delegation");
        assert_eq!((new.ds.len(), new.ds_ttl), (0, MAX_NEW_DS_TTL));
        for other in ["example", "www.example", "below.child.example", "ns.child.example", "none.example"] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn tags_are_those_of_the_ds_set() {
        let ds = |tag: u8, digest: u8| vec![0, tag, 13, digest, 1];
        assert_eq!(tags(&[ds(7, 2), ds(7, 4), ds(9, 2)]), "7 9");
        assert_eq!(tags(&[]), "none");
    }
}
