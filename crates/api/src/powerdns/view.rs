//! Zones and RRsets in replies.

use std::collections::BTreeMap;

use config::api::ApiRight;
use serde::Serialize;
use wire::rdata::view::Soa;
use wire::{Name, NameBuf, Type, ZoneName};
use zone::Zone;
use zone::store::{Node, RrSet};

use super::content;
use crate::documents::{RrsetComment, RrsetDocument, ZoneDocument};
use crate::rights::{Caller, Scope};

/// A record in a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct ShownRecord {
    pub(super) content: String,
    pub(super) disabled: bool,
}

/// An RRset in a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct ShownRrset {
    pub(super) comments: Vec<RrsetComment>,
    pub(super) name: String,
    pub(super) records: Vec<ShownRecord>,
    pub(super) ttl: u32,
    #[serde(rename = "type")]
    pub(super) rtype: String,
}

/// What is stored about RRsets, by owner and type.
type StoredRrsets<'d> = BTreeMap<(NameBuf, Type), &'d RrsetDocument>;

/// Which RRsets of a zone are shown.
pub(super) struct ShownParts<'a> {
    pub(super) apex: &'a ZoneName,
    pub(super) caller: &'a Caller,
    /// Whether nomen signs the zone: the records that its signer makes are left out, as PowerDNS has none.
    pub(super) signed_here: bool,
    /// Only RRsets with this owner.
    pub(super) owner: Option<Name<'a>>,
    /// Only RRsets of this type.
    pub(super) rtype: Option<Type>,
    /// Whether disabled records are shown.
    pub(super) disabled: bool,
}

impl ShownParts<'_> {
    /// Returns the RRsets of a zone: `zone` has the served records, `document` comments and disabled ones.
    pub(super) fn rrsets(&self, zone: Option<&Zone>, document: &ZoneDocument) -> Vec<ShownRrset> {
        let mut all = Vec::new();
        self.each(zone, document, &mut |rrset| {
            all.push(rrset);
            true
        });
        all
    }

    /// Calls a function with each of these RRsets until it returns false.
    pub(super) fn each(
        &self,
        zone: Option<&Zone>,
        document: &ZoneDocument,
        sink: &mut dyn FnMut(ShownRrset) -> bool,
    ) {
        let mut stored: StoredRrsets<'_> = BTreeMap::new();
        for set in document.rrsets() {
            if let (Some(owner), Some(rtype)) = (set.owner(), set.rtype()) {
                stored.insert((owner, rtype), set);
            }
        }
        let nodes: Box<dyn Iterator<Item = Node<'_>>> = match (zone, self.owner) {
            (None, _) => Box::new(std::iter::empty()),
            (Some(zone), None) => Box::new(zone.iter()),
            (Some(zone), Some(owner)) => Box::new(zone.find_name(owner).into_iter()),
        };
        for node in nodes {
            if !self.node(node, &mut stored, sink) {
                return;
            }
        }
        // Of an RRset that is not served, comments and disabled records remain.
        for ((owner, rtype), set) in stored {
            if !self.wants(owner.as_name(), rtype) {
                continue;
            }
            let mut shown = ShownRrset::new(owner.to_string(), rtype);
            shown.add_stored(set, self.disabled);
            if (self.disabled || !shown.comments.is_empty()) && !sink(shown) {
                return;
            }
        }
    }

    fn node(
        &self,
        node: Node<'_>,
        stored: &mut StoredRrsets<'_>,
        sink: &mut dyn FnMut(ShownRrset) -> bool,
    ) -> bool {
        let owner = node.written_owner();
        let name = owner.to_string();
        let mut signatures = ShownRrset::new(name.clone(), Type::RRSIG);
        let shows = |rtype| self.wants(owner.as_name(), rtype) && !self.is_made(owner.as_name(), rtype);
        for set in node.rrsets() {
            let rtype = set.rtype();
            if set.sig_count() > 0 && shows(Type::RRSIG) {
                signatures.add_signatures(&set);
            }
            if !shows(rtype) {
                continue;
            }
            let mut shown = ShownRrset::new(name.clone(), rtype);
            shown.add(&set);
            if let Some(stored) = stored.remove(&(owner, rtype)) {
                shown.add_stored(stored, self.disabled);
            }
            if !sink(shown) {
                return false;
            }
        }
        signatures.records.is_empty() || sink(signatures)
    }

    /// Whether the signer of the zone makes the records of a type at a name.
    fn is_made(&self, owner: Name<'_>, rtype: Type) -> bool {
        let of_apex = matches!(rtype, Type::DNSKEY | Type::CDS | Type::CDNSKEY | Type::ZONEMD);
        self.signed_here && (update::is_signers(rtype) || of_apex && owner == self.apex.as_name())
    }

    fn wants(&self, owner: Name<'_>, rtype: Type) -> bool {
        self.owner.is_none_or(|wanted| wanted == owner)
            && self.rtype.is_none_or(|wanted| wanted == rtype)
            && self.caller.may(ApiRight::Read, Scope::Records(self.apex, owner, rtype))
    }
}

impl ShownRrset {
    fn new(name: String, rtype: Type) -> ShownRrset {
        ShownRrset { comments: Vec::new(), name, records: Vec::new(), ttl: 0, rtype: rtype.to_string() }
    }

    fn add(&mut self, set: &RrSet<'_>) {
        self.ttl = set.ttl().as_secs();
        let mut rdata = Vec::new();
        for record in set.rdatas() {
            rdata.clear();
            record.copy_to(&mut rdata);
            self.records.push(ShownRecord { content: content::shown(set.rtype(), &rdata), disabled: false });
        }
    }

    fn add_signatures(&mut self, set: &RrSet<'_>) {
        let mut rdata = Vec::new();
        for record in set.sig_rdatas() {
            rdata.clear();
            record.copy_to(&mut rdata);
            self.ttl = record.ttl().as_secs();
            self.records.push(ShownRecord { content: content::shown(Type::RRSIG, &rdata), disabled: false });
        }
    }

    fn add_stored(&mut self, stored: &RrsetDocument, disabled: bool) {
        self.comments.clone_from(&stored.comments);
        if !disabled || stored.disabled.is_empty() {
            return;
        }
        if self.records.is_empty() {
            self.ttl = stored.ttl;
        }
        for content in &stored.disabled {
            // A crash between a change of records and that of the document may leave a record in both.
            if !self.records.iter().any(|record| record.content == *content) {
                self.records.push(ShownRecord { content: content.clone(), disabled: true });
            }
        }
    }
}

/// A zone in the list of zones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct ListedZone {
    pub(super) account: String,
    pub(super) catalog: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dnssec: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) edited_serial: Option<u32>,
    pub(super) id: String,
    pub(super) kind: String,
    pub(super) last_check: u64,
    pub(super) masters: Vec<String>,
    pub(super) name: String,
    pub(super) notified_serial: u32,
    pub(super) serial: u32,
    pub(super) url: String,
}

/// A zone by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct ShownZone {
    #[serde(flatten)]
    pub(super) listed: ListedZone,
    pub(super) api_rectify: bool,
    pub(super) master_tsig_key_ids: Vec<String>,
    pub(super) nsec3narrow: bool,
    pub(super) nsec3param: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rrsets: Option<Vec<ShownRrset>>,
    pub(super) slave_tsig_key_ids: Vec<String>,
    pub(super) soa_edit: String,
    pub(super) soa_edit_api: String,
}

/// Returns the NSEC3PARAM record of a zone as text; empty if it has none.
pub(super) fn nsec3param(zone: &Zone) -> String {
    let set = zone.apex_node().rrset(Type::NSEC3PARAM);
    let record = set.as_ref().and_then(|set| set.rdatas().next());
    record.map_or_else(String::new, |record| {
        let mut rdata = Vec::new();
        record.copy_to(&mut rdata);
        content::shown(Type::NSEC3PARAM, &rdata)
    })
}

/// Returns the SOA record of a zone with another serial number.
pub(super) fn soa_with(zone: &Zone, serial: u32) -> Option<(wire::Ttl, Vec<u8>)> {
    let set = zone.apex_node().rrset(Type::SOA)?;
    let record = set.rdatas().next()?;
    let mut rdata = Vec::new();
    record.copy_to(&mut rdata);
    Soa::read(&rdata).ok()?;
    // The serial number is the first of five numbers of four bytes at the end.
    let at = rdata.len().checked_sub(20)?;
    rdata.get_mut(at..at + 4)?.copy_from_slice(&serial.to_be_bytes());
    Some((record.ttl(), rdata))
}

/// Returns the URL of the zone with this id.
pub(super) fn url(id: &str) -> String {
    format!("/api/v1/servers/localhost/zones/{id}")
}
