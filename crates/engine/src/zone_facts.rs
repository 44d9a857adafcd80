//! What a zone says of itself in OPT, to clients who ask for it there: how much longer it may be served
//! (RFC 7314), and which version it is (RFC 9660). Ordinary queries do not come here.

use exchange::unix_seconds;
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

/// What a zone says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneFacts {
    /// Labels of its name, without the root.
    pub labels: u8,
    /// Its version.
    pub serial: Serial,
    /// Seconds for which it may still be served without hearing of a primary: of a zone that has none, EXPIRE
    /// of its SOA (RFC 7314 §3.1, §3.2).
    pub expire: u32,
    /// Whether the name asked for is the zone's.
    pub at_apex: bool,
}

impl ZoneFacts {
    /// What the zone of this entry says, asked for its own name or one below.
    pub fn of(entry: &ZoneEntry, zone: &Zone, at_apex: bool) -> ZoneFacts {
        let most = zone.soa().expire;
        let expire = entry.expires().map_or(most, |at| {
            u32::try_from(at.saturating_sub(unix_seconds())).map_or(most, |left| left.min(most))
        });
        let labels = entry.name().label_count() as u8;
        ZoneFacts { labels, serial: zone.serial(), expire, at_apex }
    }

    /// The data of EXPIRE, if this client asks for it with a question of this type: for a zone's SOA, or the
    /// zone.
    pub fn expire_option(&self, client: ClientEdns, qtype: Type) -> Option<[u8; EXPIRE]> {
        let takes = matches!(qtype, Type::SOA | Type::AXFR | Type::IXFR);
        (client.expire() && takes && self.at_apex).then(|| self.expire.to_be_bytes())
    }

    /// The data of ZONEVERSION, if this client asks for it: of type SOA-SERIAL (RFC 9660 §2.1).
    pub fn version_option(&self, client: ClientEdns) -> Option<[u8; ZONEVERSION]> {
        let [a, b, c, d] = self.serial.0.to_be_bytes();
        client.zone_version().then_some([self.labels, 0, a, b, c, d])
    }

    /// The options for this client, each with its data.
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

/// Bytes that the options for this client take at the most.
#[inline]
pub(crate) fn room(client: ClientEdns) -> usize {
    let expire = if client.expire() { OPTION_HEAD + EXPIRE } else { 0 };
    let version = if client.zone_version() { OPTION_HEAD + ZONEVERSION } else { 0 };
    expire + version
}
