//! Difference of two versions of a zone, for people and programs: `nomen zone diff` and transactions.

use std::cmp::Ordering;
use std::fmt;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use update::is_signers;
use wire::rdata::view::Soa;
use wire::{Type, rdata};
use zone::store::{ChangeSet, ChangedRecord, ChangedRecords};

/// The parts of a difference to ignore.
#[derive(Debug, Clone, Copy, Default)]
pub struct IgnoredParts {
    /// The serial number: SOAs that differ in nothing else are equal.
    pub serial: bool,
    /// Record types that signers make: RRSIG, NSEC, NSEC3, NSEC3PARAM.
    pub dnssec: bool,
}

impl IgnoredParts {
    /// Returns the change without the ignored parts. Its serial numbers stay.
    pub fn without(self, change: &ChangeSet) -> ChangeSet {
        let same_soa = self.serial && is_soa_but_for_serial(change);
        let counts = |record: &ChangedRecord<'_>| match record.rtype {
            Type::SOA => !same_soa,
            rtype => !self.dnssec || !is_signers(rtype),
        };
        let left = |records: &ChangedRecords| {
            let mut left = ChangedRecords::default();
            let counting = records.iter().filter(counts);
            counting.for_each(|record| left.push(record.owner, record.rtype, record.ttl, record.rdata));
            left
        };
        ChangeSet { removed: left(&change.removed), added: left(&change.added), ..*change }
    }
}

/// Whether the removed SOA and the added one differ in their serial numbers only.
fn is_soa_but_for_serial(change: &ChangeSet) -> bool {
    let soa_of = |records: &'_ ChangedRecords| {
        let soa = records.iter().find(|record| record.rtype == Type::SOA)?;
        // Letter case counts, as in any difference.
        let names = soa.rdata.len().checked_sub(SOA_NUMBERS)?;
        let numbers = Soa::read(soa.rdata).ok()?.numbers;
        let times = (numbers.refresh, numbers.retry, numbers.expire, numbers.minimum);
        Some((soa.ttl, soa.rdata.get(..names)?.to_vec(), times))
    };
    match (soa_of(&change.removed), soa_of(&change.added)) {
        (Some(old), Some(new)) => old == new,
        _ => false,
    }
}

/// Bytes of the five numbers at the end of an SOA (RFC 1035 §3.3.13).
const SOA_NUMBERS: usize = 20;

/// Whether a record is removed or added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// The record is removed.
    Removed,
    /// The record is added.
    Added,
}

/// A record of a change in one line of master-file text.
pub struct ShownRecord<'c>(pub ChangedRecord<'c>);

impl fmt::Display for ShownRecord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ChangedRecord { owner, rtype, ttl, rdata } = self.0;
        write!(f, "{owner} {ttl} IN {rtype} ")?;
        // Data that are invalid for their type are written as bytes, so that this does not fail.
        rdata::write_text(rtype, rdata, f)
    }
}

/// A change as a JSON list, serialized record by record in the order of [`merged`]: each record has `change`
/// (`removed` or `added`), `name`, `ttl`, `type` and `data`.
pub struct ShownChange<'c>(pub &'c ChangeSet);

impl Serialize for ShownChange<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(merged(self.0).map(|(sign, record)| ShownStep(sign, record)))
    }
}

/// A removed or added record.
struct ShownStep<'c>(Sign, ShownRecord<'c>);

impl Serialize for ShownStep<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ChangedRecord { owner, rtype, ttl, rdata } = self.1.0;
        let mut data = String::new();
        // Data that are invalid for their type are written as bytes, so that this does not fail.
        let _ = rdata::write_text(rtype, rdata, &mut data);
        let mut record = serializer.serialize_struct("record", 5)?;
        let change = if self.0 == Sign::Removed { "removed" } else { "added" };
        record.serialize_field("change", change)?;
        record.serialize_field("name", &owner.to_string())?;
        record.serialize_field("ttl", &ttl.as_secs())?;
        record.serialize_field("type", &rtype.to_string())?;
        record.serialize_field("data", &data)?;
        record.end()
    }
}

/// Returns removed and added records in one sequence: in the order of [`zone::store::diff()`], and per RRset
/// the removed ones first.
pub fn merged(change: &ChangeSet) -> impl Iterator<Item = (Sign, ShownRecord<'_>)> {
    let (mut removed, mut added) = (change.removed.iter().peekable(), change.added.iter().peekable());
    std::iter::from_fn(move || {
        let first = match (removed.peek(), added.peek()) {
            (None, None) => return None,
            (Some(_), None) => Sign::Removed,
            (None, Some(_)) => Sign::Added,
            (Some(old), Some(new)) if order(old, new).is_le() => Sign::Removed,
            _ => Sign::Added,
        };
        let record = if first == Sign::Removed { removed.next() } else { added.next() };
        record.map(|record| (first, ShownRecord(record)))
    })
}

/// The order of two RRsets in a change.
fn order(one: &ChangedRecord<'_>, other: &ChangedRecord<'_>) -> Ordering {
    let rank = |record: &ChangedRecord<'_>| (record.rtype != Type::SOA, record.rtype);
    one.owner.canonical_cmp(other.owner).then_with(|| rank(one).cmp(&rank(other)))
}

/// Writes a change as lines: `-` and a removed record, or `+` and an added one. Returns false as soon as
/// `line` does.
pub fn lines(change: &ChangeSet, line: &mut impl FnMut(&str) -> bool) -> bool {
    merged(change).all(|(sign, record)| {
        let sign = if sign == Sign::Removed { '-' } else { '+' };
        line(&format!("{sign}{record}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::ControlFlow;
    use wire::NameBuf;
    use wire::hash::HashKey;
    use zone::scan::TextSource;
    use zone::store::diff;
    use zone::{LoadConfig, Zone};

    const APEX: &str = "$TTL 60\n@ SOA ns1 admin 1 2 3 4 5\n@ NS ns1\nns1 A 192.0.2.1\n";

    fn zone(text: &str) -> Zone {
        let apex: NameBuf = "example.".parse().expect("a name");
        let (key, source) = (HashKey::random(), TextSource::bytes("test", text.as_bytes()));
        let loaded = zone::load::load(source, apex.as_name(), &key, &LoadConfig::default(), |_| {
            ControlFlow::Continue(())
        });
        loaded.expect("a zone").zone
    }

    fn shown(old: &str, new: &str, ignored: IgnoredParts) -> Vec<String> {
        let mut all = Vec::new();
        lines(&ignored.without(&diff(&zone(old), &zone(new))), &mut |line| {
            all.push(line.to_owned());
            true
        });
        all
    }

    #[test]
    fn what_goes_stands_in_front_of_what_comes_rrset_by_rrset() {
        let old = format!("{APEX}b A 192.0.2.2\na TXT x\n");
        let new = format!("{APEX}b A 192.0.2.3\na TXT x y\nc MX 1 ns1\n").replace("admin 1", "admin 2");
        let expected = [
            "-example. 60 IN SOA ns1.example. admin.example. 1 2 3 4 5",
            "+example. 60 IN SOA ns1.example. admin.example. 2 2 3 4 5",
            "-a.example. 60 IN TXT \"x\"",
            "+a.example. 60 IN TXT \"x\" \"y\"",
            "-b.example. 60 IN A 192.0.2.2",
            "+b.example. 60 IN A 192.0.2.3",
            "+c.example. 60 IN MX 1 ns1.example.",
        ];
        assert_eq!(shown(&old, &new, IgnoredParts::default()), expected);
    }

    #[test]
    fn a_serial_number_is_ignored_and_nothing_else_of_an_soa() {
        let ignored = IgnoredParts { serial: true, dnssec: false };
        assert!(shown(APEX, &APEX.replace("admin 1", "admin 7"), ignored).is_empty());
        for other in ["admin 7 2 3 4 6", "admin 7 9 3 4 5", "Admin 7 2 3 4 5", "other 7 2 3 4 5"] {
            let new = APEX.replace("admin 1 2 3 4 5", other);
            assert_eq!(shown(APEX, &new, ignored).len(), 2, "{other}");
        }
        let ttl = APEX.replace("@ SOA", "@ 61 SOA").replace("admin 1", "admin 7");
        assert_eq!(shown(APEX, &ttl, ignored).len(), 2);
    }

    #[test]
    fn what_signers_make_is_ignored_and_their_keys_are_not() {
        let signed = format!(
            "{APEX}@ NSEC ns1 NS SOA RRSIG NSEC\n@ NSEC3PARAM 1 0 0 -\n\
             @ RRSIG SOA 13 1 60 20300101000000 20200101000000 1 @ c2ln\n@ DNSKEY 256 3 13 a2V5\n"
        );
        let ignored = IgnoredParts { serial: false, dnssec: true };
        assert_eq!(shown(APEX, &signed, ignored), ["+example. 60 IN DNSKEY 256 3 13 a2V5"]);
        assert_eq!(shown(APEX, &signed, IgnoredParts::default()).len(), 4);
    }

    #[test]
    fn a_record_is_an_object_in_json() {
        let change = diff(&zone(APEX), &zone(&format!("{APEX}w 5 TXT \"a b\"\n")));
        let json = serde_json::to_value(ShownChange(&change)).expect("JSON");
        let expected = serde_json::json!([
            {"change": "added", "name": "w.example.", "ttl": 5, "type": "TXT", "data": "\"a b\""}
        ]);
        assert_eq!(json, expected);
    }
}
