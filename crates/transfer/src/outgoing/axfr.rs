//! Whole zones (RFC 5936 §2.2), and a zone's SOA alone.

use std::sync::Arc;

use transport::MessageStream;
use wire::Type;
use zone::Zone;
use zone::store::{NodeAddress, NodeFlags};

use super::frame::TransferFrame;
use super::message::{RecordNames, TransferMessage};
use super::stream::{RecordSource, TransferStream};

/// Streams a whole zone: SOA, all other records in the order in which they are stored, SOA. Includes glue,
/// data below zone cuts, and NSEC3 records (RFC 5936 §3). Holds the zone until the transfer ends.
pub fn axfr(zone: Arc<Zone>, frame: TransferFrame) -> Box<dyn MessageStream> {
    let apex = zone.apex().to_buf();
    Box::new(TransferStream::new(frame, apex, ZoneRecords::new(zone)))
}

/// Streams the zone's SOA alone. This is the answer to IXFR if the client is up to date, or if the
/// differences do not fit in a datagram (RFC 1995 §2, §4).
pub fn soa_only(zone: Arc<Zone>, frame: TransferFrame) -> Box<dyn MessageStream> {
    let apex = zone.apex().to_buf();
    Box::new(TransferStream::new(frame, apex, SoaRecord(zone)))
}

/// The position of the next record in the zone.
enum ZonePlace {
    FirstSoa,
    Node(NodePlace),
    LastSoa,
}

/// A position in a zone's nodes.
#[derive(Clone, Copy, Default)]
struct NodePlace {
    /// `None` for the first node.
    node: Option<NodeAddress>,
    /// Index of the node's RRset.
    set: usize,
    /// Index in the RRset's records and signatures.
    record: usize,
}

/// All records of a zone, SOA first and last.
pub(super) struct ZoneRecords {
    zone: Arc<Zone>,
    place: ZonePlace,
    names: RecordNames,
}

impl ZoneRecords {
    pub(super) fn new(zone: Arc<Zone>) -> Self {
        ZoneRecords { zone, place: ZonePlace::FirstSoa, names: RecordNames::new() }
    }

    /// Writes the nodes from a position on. `Err` has the position of what no longer fits. The records of a
    /// name and those below it that it occludes (a delegation and its glue) stay in one message where
    /// possible: in another message their names would have to be written again.
    fn nodes(&mut self, message: &mut TransferMessage<'_>, from: NodePlace) -> Result<(), NodePlace> {
        let NodePlace { node: first, set: mut set_from, record: mut at } = from;
        let mut together = None;
        for node in self.zone.stored_from(first) {
            let is_apex = node.flags().contains(NodeFlags::APEX);
            let is_cut = node.flags().contains(NodeFlags::CUT);
            match node.flags().intersects(NodeFlags::OCCLUDED) {
                true => message.next_below(node),
                false => {
                    message.next_owner();
                    together = Some((node.address(), message.mark()));
                }
            }
            for (number, set) in node.rrsets().enumerate().skip(set_from) {
                self.names.clear();
                let (records, all) = (set.records().len(), set.records_and_sigs().len());
                if at == 0 && is_apex && set.rtype() == Type::SOA {
                    at = records;
                }
                let hosts = at == 0 && is_cut && set.rtype() == Type::NS && !set.has_cased_targets();
                let mut hosts = hosts.then(|| set.target_nodes());
                while at < all {
                    match message.compiled(&set, at, &mut self.names) {
                        Ok(next) => {
                            at = next;
                            if let Some(host) = hosts.as_mut().and_then(Iterator::next).flatten() {
                                message.names_host(host);
                            }
                        }
                        Err(_) => {
                            let place = NodePlace { node: Some(node.address()), set: number, record: at };
                            let before = together.filter(|(_, mark)| message.take_back(*mark));
                            let start_of = |node| NodePlace { node: Some(node), ..NodePlace::default() };
                            return Err(before.map_or(place, |(node, _)| start_of(node)));
                        }
                    }
                }
                at = 0;
            }
            set_from = 0;
        }
        Ok(())
    }
}

impl RecordSource for ZoneRecords {
    fn fill(&mut self, message: &mut TransferMessage<'_>) -> bool {
        if let ZonePlace::FirstSoa = self.place {
            if !put_soa(&self.zone, message, &mut self.names) {
                return false;
            }
            self.place = ZonePlace::Node(NodePlace::default());
        }
        if let ZonePlace::Node(from) = self.place {
            if let Err(place) = self.nodes(message, from) {
                self.place = ZonePlace::Node(place);
                return false;
            }
            self.place = ZonePlace::LastSoa;
        }
        put_soa(&self.zone, message, &mut self.names)
    }
}

/// Writes the first record of the zone's SOA; `false` if it does not fit.
pub(super) fn put_soa(zone: &Zone, message: &mut TransferMessage<'_>, names: &mut RecordNames) -> bool {
    names.clear();
    message.next_owner();
    let soa = zone.apex_node().rrset(Type::SOA);
    soa.is_some_and(|soa| message.compiled(&soa, 0, names).is_ok())
}

/// Source of the zone's SOA alone.
pub(super) struct SoaRecord(pub(super) Arc<Zone>);

impl RecordSource for SoaRecord {
    fn fill(&mut self, message: &mut TransferMessage<'_>) -> bool {
        put_soa(&self.0, message, &mut RecordNames::new())
    }
}
