//! EXPIRE (RFC 7314) and ZONEVERSION (RFC 9660) of a zone, for clients that request them in OPT: how much
//! longer the zone may be served, and its serial. Ordinary queries do not call this.

use transport::unix_now;
use wire::edns::OptionCode;
use wire::{Serial, Type};
use zone::Zone;
use zone::catalog::ZoneEntry;

use crate::request::ClientEdns;

/// Bytes of an option before its data.
const OPTION_HEAD: usize = 4;
/// Bytes of EXPIRE's data.
const EXPIRE: usize = 4;
/// Bytes of ZONEVERSION's data: label count, type, serial number.
const ZONEVERSION: usize = 6;

/// Serial and expiry of a zone, for the options of its replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneFacts {
    /// Labels of the zone's name, without the root.
    pub labels: u8,
    /// The zone's serial.
    pub serial: Serial,
    /// Seconds for which a secondary zone may still be served without contact to a primary; for other zones,
    /// EXPIRE of the SOA (RFC 7314 §3.1, §3.2).
    pub expire: u32,
    /// Whether QNAME is the zone's apex.
    pub at_apex: bool,
}

impl ZoneFacts {
    /// Returns the facts of the zone of `entry`. `at_apex`: QNAME is the zone's apex, not a name below.
    pub fn of(entry: &ZoneEntry, zone: &Zone, at_apex: bool) -> ZoneFacts {
        let most = zone.soa().expire;
        let expire = entry.expires().map_or(most, |at| {
            u32::try_from(at.saturating_duration_since(unix_now()).as_secs())
                .map_or(most, |left| left.min(most))
        });
        let labels = entry.name().label_count() as u8;
        ZoneFacts { labels, serial: zone.serial(), expire, at_apex }
    }

    /// Returns the data of EXPIRE, if the client requests it in a query for a zone's SOA or in a transfer.
    pub fn expire_option(&self, client: ClientEdns, qtype: Type) -> Option<[u8; EXPIRE]> {
        let takes = matches!(qtype, Type::SOA | Type::AXFR | Type::IXFR);
        (client.expire() && takes && self.at_apex).then(|| self.expire.to_be_bytes())
    }

    /// Returns the data of ZONEVERSION, of type SOA-SERIAL (RFC 9660 §2.1), if the client requests it.
    pub fn version_option(&self, client: ClientEdns) -> Option<[u8; ZONEVERSION]> {
        let [a, b, c, d] = self.serial.0.to_be_bytes();
        client.zone_version().then_some([self.labels, 0, a, b, c, d])
    }

    /// Returns the options for this client, each with its data.
    pub fn options(
        &self,
        client: ClientEdns,
        qtype: Type,
    ) -> impl Iterator<Item = (OptionCode, Vec<u8>)> + use<> {
        let expire = self.expire_option(client, qtype).map(|data| (OptionCode::EXPIRE, data.to_vec()));
        let version = self.version_option(client).map(|data| (OptionCode::ZONEVERSION, data.to_vec()));
        expire.into_iter().chain(version)
    }
}

/// Returns the most bytes that the options for this client take.
#[inline]
pub(crate) fn room(client: ClientEdns) -> usize {
    let expire = if client.expire() { OPTION_HEAD + EXPIRE } else { 0 };
    let version = if client.zone_version() { OPTION_HEAD + ZONEVERSION } else { 0 };
    expire + version
}
