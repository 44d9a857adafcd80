//! From the rows of one domain to a zone: [`DomainRows`]. Also the sum of its rows, by which a later look at
//! the table finds out whether they have changed.

use std::fmt::Write as _;
use std::sync::Arc;

use wire::hash::HashKey;
use wire::text::{self, write_quoted};
use wire::{Name, NameBuf, Serial, Ttl, Type, ZoneName, rdata};
use zone::ZoneBuilder;

use super::content::record_data;
use crate::interface::ZoneContent;

/// The TTL of rows that have none: the default of PowerDNS's setting `default-ttl`.
const DEFAULT_TTL: u32 = 3600;
/// Most bytes of a row's content; PowerDNS's column has fewer. The text of 65,535 bytes, all escaped, fits.
pub(super) const MAX_CONTENT: i32 = 1 << 18;
/// Bytes of a content that a message shows.
const SHOWN_CONTENT: usize = 60;

/// How the records of a domain are signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Signing {
    /// They are not. Signatures among the rows are not served, as PowerDNS does not serve them.
    #[default]
    Unsigned,
    /// The rows have the signatures: the metadata PRESIGNED is set.
    Presigned,
    /// PowerDNS signs the answers, with keys of the table `cryptokeys`.
    Live,
    /// PowerDNS makes them: a catalog zone that it produces.
    Generated,
}

/// A row of the table `records`, as it is stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordRow<'r> {
    pub(super) id: i64,
    pub(super) name: Option<&'r [u8]>,
    pub(super) rtype: Option<&'r [u8]>,
    /// NULL also if it is longer than [`MAX_CONTENT`].
    pub(super) content: Option<&'r [u8]>,
    pub(super) ttl: Option<i64>,
    pub(super) prio: Option<i64>,
    pub(super) disabled: bool,
    /// A hash of all these columns, made by the database.
    pub(super) hash: i64,
}

/// The number of rows of a domain, and the sum of their hashes: whether two readings are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RowSum {
    pub(super) rows: i64,
    pub(super) hashes: i128,
}

/// What was read of a domain.
pub(super) struct DomainRead {
    pub(super) content: ZoneContent,
    pub(super) sum: RowSum,
}

/// Takes the rows of one domain, in any order.
pub(super) struct DomainRows {
    signing: Signing,
    builder: ZoneBuilder,
    sum: RowSum,
    /// The first fault, and the number of those after it.
    fault: Option<String>,
    more: u64,
    /// Reused from row to row.
    owner: Vec<u8>,
    rdata: Vec<u8>,
}

impl DomainRows {
    pub(super) fn new(apex: &ZoneName, signing: Signing, key: &HashKey) -> Self {
        let builder = ZoneBuilder::new(apex.as_name(), key);
        let (owner, rdata) = (Vec::new(), Vec::new());
        DomainRows { signing, builder, sum: RowSum::default(), fault: None, more: 0, owner, rdata }
    }

    /// Takes a row.
    pub(super) fn add(&mut self, row: &RecordRow<'_>) {
        self.sum.rows += 1;
        self.sum.hashes += i128::from(row.hash);
        if matches!(self.signing, Signing::Live | Signing::Generated) {
            return;
        }
        if let Err(why) = self.take(row) {
            let fault = format!("{}: {why}", place(row));
            match self.fault {
                Some(_) => self.more += 1,
                None => self.fault = Some(fault),
            }
        }
    }

    fn take(&mut self, row: &RecordRow<'_>) -> Result<(), String> {
        // Rows without a type are PowerDNS's empty non-terminals.
        let Some(rtype) = row.rtype.filter(|rtype| !rtype.is_empty() && !row.disabled) else { return Ok(()) };
        let rtype = type_of(rtype)?;
        if rtype == Type::RRSIG && self.signing != Signing::Presigned {
            return Ok(());
        }
        let name = row.name.ok_or("the name is NULL")?;
        self.owner.clear();
        text::name(&absolute(name), Some(Name::ROOT), &mut self.owner)
            .map_err(|fault| format!("name: {fault}"))?;
        let owner = Name::from_wire(&self.owner).map_err(|_| "not a name".to_owned())?;
        let content =
            row.content.ok_or_else(|| format!("the content is NULL or has more than {MAX_CONTENT} bytes"))?;
        let ttl = u32::try_from(row.ttl.unwrap_or(DEFAULT_TTL.into()))
            .ok()
            .filter(|ttl| *ttl <= i32::MAX as u32)
            .ok_or("the TTL is not within 0 and 2147483647")?;
        self.rdata.clear();
        record_data(rtype, content, row.prio, &mut self.rdata)
            .map_err(|why| format!("{why}; its content is {}", shown(content)))?;
        self.builder
            .add_from(owner, rtype, Ttl::from_secs(ttl), &self.rdata, row.id as u64)
            .map_err(|fault| fault.to_string())
    }

    /// Returns the zone, or why the rows are none.
    pub(super) fn finish(mut self) -> DomainRead {
        let content = match self.zone() {
            Ok(zone) => ZoneContent::Whole(Arc::new(zone)),
            Err(why) => ZoneContent::Unfit(why),
        };
        DomainRead { content, sum: self.sum }
    }

    fn zone(&mut self) -> Result<zone::Zone, String> {
        if self.signing == Signing::Live {
            return Err(
                "PowerDNS signs its answers with keys that are in the table cryptokeys, which are not \
                used here: make it a secondary zone of PowerDNS, or remove the keys by `pdnsutil \
                disable-dnssec`"
                    .into(),
            );
        }
        if self.signing == Signing::Generated {
            return Err(
                "it is a catalog zone whose members PowerDNS takes from the table domains: make it a \
                secondary zone of PowerDNS, or produce it with `catalog-member` of this server"
                    .into(),
            );
        }
        if let Some(fault) = self.fault.take() {
            return Err(match self.more {
                0 => fault,
                more => format!("{fault} (and {more} more faults)"),
            });
        }
        let built = self.builder.finish().map_err(|fault| fault.to_string())?;
        if let Some(note) = self.builder.first_error() {
            let row =
                if note.source > 0 { format!(" (row {} of records)", note.source) } else { String::new() };
            return Err(format!("{note}{row}"));
        }
        if self.signing == Signing::Presigned && !built.is_signed() {
            return Err("its metadata has PRESIGNED, and the rows have no complete chain of NSEC or NSEC3 \
                records, which PowerDNS does not store: make it a secondary zone of its primary"
                .into());
        }
        Ok(built)
    }
}

/// The type of a row.
fn type_of(text: &[u8]) -> Result<Type, String> {
    for (special, why) in [
        ("ALIAS", "PowerDNS answers ALIAS with addresses that it looks up: write A and AAAA records instead"),
        ("LUA", "PowerDNS answers LUA with what a program returns: write records instead"),
    ] {
        if text.eq_ignore_ascii_case(special.as_bytes()) {
            return Err(why.into());
        }
    }
    Type::from_text(text).map_err(|_| "the type is not known".into())
}

/// A name as PowerDNS stores it, with its final dot. The root is `.` or empty.
fn absolute(name: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    match name {
        [] | b"." => b".".into(),
        b"@" => b"\\@".into(),
        _ => name.into(),
    }
}

/// The name of a domain; `None` if it is none.
pub(super) fn zone_name(name: &[u8]) -> Option<ZoneName> {
    let name = NameBuf::from_text(&absolute(name), Some(Name::ROOT)).ok()?;
    Some(name.as_name().into())
}

/// The serial in the content of an SOA row; 0 if there is none.
pub(super) fn soa_serial(content: &[u8]) -> Serial {
    let mut wire = Vec::new();
    let read = record_data(Type::SOA, content, None, &mut wire).ok();
    let soa = read.and_then(|()| rdata::view::Soa::read(&wire).ok());
    soa.map_or(Serial(0), |soa| soa.numbers.serial)
}

/// Where a fault is: name and type as stored, and the number of the row.
fn place(row: &RecordRow<'_>) -> String {
    let word = |bytes: Option<&[u8]>| match bytes {
        Some(bytes) if !bytes.is_empty() && bytes.iter().all(|byte| byte.is_ascii_graphic()) => {
            String::from_utf8_lossy(&bytes[..bytes.len().min(255)]).into_owned()
        }
        Some(bytes) => shown(bytes),
        None => "NULL".into(),
    };
    format!("{} {} (row {} of records)", word(row.name), word(row.rtype), row.id)
}

/// The beginning of a text of any bytes, in quotation marks.
fn shown(content: &[u8]) -> String {
    let mut out = String::new();
    let _ = write_quoted(&content[..content.len().min(SHOWN_CONTENT)], &mut out);
    if content.len() > SHOWN_CONTENT {
        let _ = write!(out, " …");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row: name, type, content, TTL, prio.
    type Row<'r> = (&'r str, &'r str, &'r str, i64, Option<i64>);

    const APEX: [Row<'static>; 2] = [
        ("example.com", "SOA", "ns1.example.com h.example.com 7 10800 3600 604800 3600", 3600, Some(0)),
        ("example.com", "NS", "ns1.example.com", 3600, Some(0)),
    ];

    fn row<'r>(id: i64, (name, rtype, content, ttl, prio): Row<'r>) -> RecordRow<'r> {
        RecordRow {
            id,
            name: Some(name.as_bytes()),
            rtype: Some(rtype.as_bytes()),
            content: Some(content.as_bytes()),
            ttl: Some(ttl),
            prio,
            disabled: false,
            hash: id.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64),
        }
    }

    fn rows(signing: Signing) -> DomainRows {
        let apex = zone_name(b"example.com").expect("a name");
        DomainRows::new(&apex, signing, &HashKey::new([1, 2, 3]))
    }

    /// The zone with these rows beside the apex, as text: one record a line, sorted.
    fn read(signing: Signing, more: &[RecordRow<'_>]) -> Result<Vec<String>, String> {
        let mut domain = rows(signing);
        APEX.iter().enumerate().for_each(|(at, apex)| domain.add(&row(at as i64 + 1, *apex)));
        more.iter().for_each(|row| domain.add(row));
        let zone = match domain.finish().content {
            ZoneContent::Whole(zone) => zone,
            ZoneContent::Unfit(why) => return Err(why),
            ZoneContent::Steps(_) => panic!("no steps"),
        };
        let mut lines = Vec::new();
        for node in zone.iter() {
            for rrset in node.rrsets() {
                for rdata in rrset.rdatas().chain(rrset.sig_rdatas()) {
                    let mut wire = Vec::new();
                    rdata.copy_to(&mut wire);
                    let mut text =
                        format!("{} {} {} ", node.written_owner(), rrset.ttl().as_secs(), rrset.rtype());
                    rdata::write_text(rrset.rtype(), &wire, &mut text).expect("written");
                    lines.push(text);
                }
            }
        }
        Ok(lines)
    }

    fn is_unfit(rows: &[RecordRow<'_>], expected: &str) {
        let why = read(Signing::Unsigned, rows).expect_err("unfit");
        assert!(why.contains(expected), "{why}");
    }

    #[test]
    fn rows_are_a_zone() {
        let found = read(
            Signing::Unsigned,
            &[
                row(3, ("example.com", "MX", "mail.example.com", 60, Some(10))),
                row(4, ("*.W.example.com.", "a", "192.0.2.1", 60, None)),
                row(5, (r"a\.b\032c.example.com", "TXT", "text", 0, Some(0))),
            ],
        );
        let expected = [
            "example.com. 3600 NS ns1.example.com.",
            "example.com. 3600 SOA ns1.example.com. h.example.com. 7 10800 3600 604800 3600",
            "example.com. 60 MX 10 mail.example.com.",
            r#"a\.b\032c.example.com. 0 TXT "text""#,
            "*.W.example.com. 60 A 192.0.2.1",
        ];
        let mut found = found.expect("a zone");
        let mut expected = expected.map(str::to_owned);
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_powerdns_does_not_serve_is_left_out() {
        let a = row(3, ("x.example.com", "A", "192.0.2.1", 60, None));
        let left_out = [
            RecordRow { disabled: true, content: Some(b"nonsense"), ..a },
            RecordRow { rtype: None, content: None, ttl: None, ..a },
            RecordRow { rtype: Some(b""), content: Some(b""), ..a },
            row(
                6,
                (
                    "x.example.com",
                    "RRSIG",
                    "A 13 3 60 20300101000000 20200101000000 1 example.com AAAA",
                    60,
                    None,
                ),
            ),
            row(7, ("x.elsewhere", "A", "192.0.2.1", 60, None)),
        ];
        assert_eq!(read(Signing::Unsigned, &left_out).expect("a zone").len(), 2);
        let lacking = RecordRow { ttl: None, ..a };
        let found = read(Signing::Unsigned, &[lacking]).expect("a zone");
        assert!(found.contains(&"x.example.com. 3600 A 192.0.2.1".to_owned()), "{found:?}");
    }

    #[test]
    fn faults_name_the_row() {
        is_unfit(
            &[row(42, ("www.example.com", "A", "192.0.2.300", 60, None))],
            r#"www.example.com A (row 42 of records): "#,
        );
        let bad = row(42, ("www.example.com", "A", "192.0.2.300\u{1b}[31m", 60, None));
        is_unfit(&[bad], r#"its content is "192.0.2.300\027[31m""#);
        is_unfit(&[bad, row(43, ("y.example.com", "NOSUCH", "x", 60, None))], "(and 1 more faults)");
        let cname = row(9, ("www.example.com", "CNAME", "x.example.com", 60, None));
        is_unfit(&[cname, row(10, ("www.example.com", "A", "192.0.2.1", 60, None))], "CNAME and other data");
    }

    #[test]
    fn hostile_rows_are_faults() {
        let a = row(3, ("x.example.com", "A", "192.0.2.1", 60, None));
        for (row, expected) in [
            (RecordRow { name: None, ..a }, "the name is NULL"),
            (RecordRow { content: None, ..a }, "the content is NULL"),
            (RecordRow { ttl: Some(-5), ..a }, "TTL"),
            (RecordRow { ttl: Some(1 << 31), ..a }, "TTL"),
            (RecordRow { name: Some(b"a..example.com"), ..a }, "empty label"),
            (RecordRow { name: Some(&[b'a'; 64]), ..a }, "label longer than 63"),
            (RecordRow { name: Some(b"x\\"), ..a }, "bad escape"),
            (RecordRow { rtype: Some(b"\xff\n"), ..a }, "the type is not known"),
            (RecordRow { rtype: Some(b"OPT"), ..a }, ""),
            (RecordRow { rtype: Some(b"ANY"), ..a }, ""),
            (RecordRow { rtype: Some(b"ALIAS"), ..a }, "write A and AAAA records"),
            (RecordRow { rtype: Some(b"lua"), ..a }, "program"),
            (RecordRow { rtype: Some(b"SOA"), content: Some(b"a b 1 2 3 4 5"), ..a }, "SOA at a name"),
        ] {
            is_unfit(&[row], expected);
        }
        let mut domain = rows(Signing::Unsigned);
        domain.add(&row(2, APEX[1]));
        assert!(matches!(domain.finish().content, ZoneContent::Unfit(why) if why.contains("no SOA")));
    }

    #[test]
    fn zones_that_powerdns_signs_are_not_served_unsigned() {
        let why = read(Signing::Live, &[]).expect_err("unfit");
        assert!(why.contains("cryptokeys"), "{why}");
        let why = read(Signing::Presigned, &[]).expect_err("unfit");
        assert!(why.contains("PRESIGNED"), "{why}");
    }

    #[test]
    fn the_sum_does_not_depend_on_the_order() {
        let sum = |order: &[usize]| {
            let mut domain = rows(Signing::Unsigned);
            order.iter().for_each(|at| domain.add(&row(*at as i64, APEX[at % 2])));
            domain.finish().sum
        };
        assert_eq!(sum(&[1, 2, 3]), sum(&[3, 1, 2]));
        assert_ne!(sum(&[1, 2, 3]), sum(&[1, 2, 4]));
    }

    #[test]
    fn names_and_serials_of_domains() {
        assert_eq!(zone_name(b".").map(|name| name.to_string()).as_deref(), Some("."));
        assert_eq!(zone_name(b"Example.COM").map(|name| name.to_string()).as_deref(), Some("example.com."));
        assert_eq!(zone_name(b"a..b"), None);
        assert_eq!(soa_serial(b"ns1.a h.a 4294967295 1 2 3 4"), Serial(u32::MAX));
        assert_eq!(soa_serial(b"nonsense"), Serial(0));
    }
}
