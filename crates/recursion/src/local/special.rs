//! Special-use names: answered here and never resolved in the public DNS.
//!
//! Registries: "Special-Use Domain Names" (RFC 6761) and "Locally-Served DNS Zones" (RFC 6303). `example.`
//! and its like are not in the table: they are resolved as any other name (RFC 6761 §6.5).

use wire::{LowerNameBuf, Name, NameBuf};

use super::record::LocalRecord;

/// A special-use name: the apex of a zone that is served locally as in RFC 6303 §3. The zone has an SOA
/// record, an NS record that names the apex itself, and few others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecialName {
    /// The name, in lower case with its final dot.
    pub domain: &'static str,
    /// The zone's other records, each a line of master-file text. Owners are at or below `domain`.
    pub records: &'static [&'static str],
    /// The answer for names below the apex that the zone does not contain.
    pub below: Below,
    /// The RFC and section that define it.
    pub source: &'static str,
}

/// The answer for names below a special-use name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Below {
    /// NXDOMAIN.
    Nothing,
    /// The records of the name itself.
    Same,
}

impl SpecialName {
    /// Returns every special-use name.
    pub fn all() -> impl Iterator<Item = &'static SpecialName> {
        TABLES.iter().copied().flatten()
    }

    /// Returns the closest special-use name at or above `name`.
    pub fn above(name: Name<'_>) -> Option<&'static SpecialName> {
        let above = SpecialName::all()
            .filter(|special| special.name().is_some_and(|special| name.is_at_or_below(special.as_name())));
        above.max_by_key(|special| special.domain.len())
    }

    /// The apex as a name.
    pub fn name(&self) -> Option<LowerNameBuf> {
        self.domain.parse().ok().map(|name: NameBuf| name.as_name().to_lower())
    }

    /// The zone's records except SOA and NS.
    pub(super) fn parsed_records(&self) -> impl Iterator<Item = LocalRecord> {
        self.records.iter().filter_map(|line| line.parse().ok())
    }

    /// Whether the public DNS has the name: below `arpa`, queries for DS have an answer at the parent.
    pub(super) fn is_delegated(&self) -> bool {
        self.domain.ends_with(".arpa.")
    }
}

/// All tables.
const TABLES: [&[SpecialName]; 4] = [NAMES, REVERSE, &RFC1918_172, &RFC6598];

/// A zone without further records.
const fn empty(domain: &'static str, source: &'static str) -> SpecialName {
    SpecialName { domain, records: &[], below: Below::Nothing, source }
}

/// A zone with further records.
const fn with(domain: &'static str, records: &'static [&'static str], source: &'static str) -> SpecialName {
    SpecialName { domain, records, below: Below::Nothing, source }
}

/// Names that users and programs look up.
const NAMES: &[SpecialName] = &[
    SpecialName {
        domain: "localhost.",
        records: &["localhost. 10800 A 127.0.0.1", "localhost. 10800 AAAA ::1"],
        below: Below::Same,
        source: "RFC 6761 §6.3",
    },
    empty("invalid.", "RFC 6761 §6.4"),
    empty("test.", "RFC 6761 §6.2"),
    empty("local.", "RFC 6762 §22.1"),
    empty("onion.", "RFC 7686 §2"),
    empty("alt.", "RFC 9476 §2"),
    empty("home.arpa.", "RFC 8375 §4"),
    empty("service.arpa.", "RFC 9665"),
    // Names below exist, so that clients see that there are no records (RFC 9462 §4).
    SpecialName { domain: "resolver.arpa.", records: &[], below: Below::Same, source: "RFC 9462 §6.4" },
    // DNS64 synthesizes the AAAA records.
    with(
        "ipv4only.arpa.",
        &["ipv4only.arpa. 10800 A 192.0.0.170", "ipv4only.arpa. 10800 A 192.0.0.171"],
        "RFC 8880 §7.1",
    ),
];

/// Reverse names of addresses that belong to no host or to every host.
const REVERSE: &[SpecialName] = &[
    with(
        "170.0.0.192.in-addr.arpa.",
        &["170.0.0.192.in-addr.arpa. 10800 PTR ipv4only.arpa."],
        "RFC 8880 §7.2",
    ),
    with(
        "171.0.0.192.in-addr.arpa.",
        &["171.0.0.192.in-addr.arpa. 10800 PTR ipv4only.arpa."],
        "RFC 8880 §7.2",
    ),
    empty("10.in-addr.arpa.", "RFC 6303 §4.1"),
    empty("168.192.in-addr.arpa.", "RFC 6303 §4.1"),
    empty("0.in-addr.arpa.", "RFC 6303 §4.2"),
    with("127.in-addr.arpa.", &["1.0.0.127.in-addr.arpa. 10800 PTR localhost."], "RFC 6303 §4.2"),
    empty("254.169.in-addr.arpa.", "RFC 6303 §4.2"),
    empty("2.0.192.in-addr.arpa.", "RFC 6303 §4.2"),
    empty("100.51.198.in-addr.arpa.", "RFC 6303 §4.2"),
    empty("113.0.203.in-addr.arpa.", "RFC 6303 §4.2"),
    empty("255.255.255.255.in-addr.arpa.", "RFC 6303 §4.2"),
    empty("0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa.", "RFC 6303 §4.3"),
    with(
        "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa.",
        &["1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa. 10800 PTR localhost."],
        "RFC 6303 §4.3",
    ),
    empty("d.f.ip6.arpa.", "RFC 6303 §4.4"),
    empty("8.e.f.ip6.arpa.", "RFC 6303 §4.5"),
    empty("9.e.f.ip6.arpa.", "RFC 6303 §4.5"),
    empty("a.e.f.ip6.arpa.", "RFC 6303 §4.5"),
    empty("b.e.f.ip6.arpa.", "RFC 6303 §4.5"),
    empty("8.b.d.0.1.0.0.2.ip6.arpa.", "RFC 6303 §4.6"),
];

/// Zones that differ in their first label, a number.
macro_rules! numbered {
    ($end:literal $source:literal $($number:literal)*) => {
        [$(empty(concat!($number, $end), $source)),*]
    };
}

/// 172.16.0.0/12.
const RFC1918_172: [SpecialName; 16] = numbered!(
    ".172.in-addr.arpa." "RFC 6303 §4.1"
    16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
);

/// 100.64.0.0/10, carriers' shared address space.
const RFC6598: [SpecialName; 64] = numbered!(
    ".100.in-addr.arpa." "RFC 7793 §2.1"
    64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79
    80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95
    96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111
    112 113 114 115 116 117 118 119 120 121 122 123 124 125 126 127
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_reads_and_stays_in_its_zone() {
        for special in SpecialName::all() {
            let name = special.name().expect(special.domain);
            assert_eq!(name.to_string(), special.domain);
            let records: Vec<LocalRecord> = special.parsed_records().collect();
            assert_eq!(records.len(), special.records.len(), "{}", special.domain);
            assert!(records.iter().all(|record| record.owner.as_name().is_at_or_below(name.as_name())));
        }
    }

    #[test]
    fn what_is_below_a_special_use_name_is_known() {
        let above = |text: &str| {
            let name: NameBuf = text.parse().expect("a name");
            SpecialName::above(name.as_name()).map(|special| special.domain)
        };
        assert_eq!(above("Home.ARPA."), Some("home.arpa."));
        assert_eq!(above("nas.home.arpa."), Some("home.arpa."));
        assert_eq!(above("1.168.192.in-addr.arpa."), Some("168.192.in-addr.arpa."));
        assert_eq!((above("arpa."), above("www.example.")), (None, None));
    }

    #[test]
    fn each_name_is_in_the_table_once() {
        let mut domains: Vec<&str> = SpecialName::all().map(|special| special.domain).collect();
        let all = domains.len();
        domains.sort_unstable();
        domains.dedup();
        assert_eq!((all, domains.len()), (all, 10 + 19 + 16 + 64));
        assert!(!domains.contains(&"example."));
    }

    #[test]
    fn all_private_ipv4_addresses_have_their_reverse_zones() {
        for prefix in query_path::prefix::PRIVATE.iter().filter(|prefix| prefix.address().is_ipv4()) {
            let std::net::IpAddr::V4(first) = prefix.address() else { continue };
            let last = first.to_bits() | u32::MAX >> prefix.len();
            for address in [first, last.into()] {
                let [a, b, c, d] = address.octets();
                let name: NameBuf = format!("{d}.{c}.{b}.{a}.in-addr.arpa.").parse().expect("a name");
                let zones = SpecialName::all().filter_map(SpecialName::name);
                assert_eq!(
                    zones.filter(|zone| name.as_name().is_at_or_below(zone.as_name())).count(),
                    1,
                    "{name}"
                );
            }
        }
    }
}
