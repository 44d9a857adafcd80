//! Records as the tables have them: in presentation form, with absolute names. Both ways: from a zone's
//! nodes and changes to text ([`RrsetText`], [`StepText`]), and from text to a zone ([`ZoneReader`]) or to
//! a change ([`change_set`]).

use std::collections::BTreeMap;

use serde::Serialize;
use wire::hash::HashKey;
use wire::rdata::view::Rrsig;
use wire::{LowerNameBuf, Name, NameBuf, Serial, Ttl, Type, ViewName, ZoneName, rdata, text};
use zone::store::{ChangeSet, ChangedRecords};
use zone::{Node, Zone, ZoneBuilder};

/// An RRset as a row has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct RrsetText {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) rtype: String,
    /// The type that RRSIG records cover; empty for other types.
    pub(crate) covers: String,
    pub(crate) ttl: u32,
    pub(crate) data: Vec<String>,
}

/// The key of an RRset: its type, and the type that it covers if it is of type RRSIG.
pub(crate) type RrsetKey = (Type, Option<Type>);

/// Returns the text of RDATA.
fn rdata_text(rtype: Type, rdata: &[u8]) -> String {
    let mut text = String::new();
    // A `String` accepts all that is written.
    let _ = rdata::write_text(rtype, rdata, &mut text);
    text
}

/// The key of the RRset that a record belongs to.
pub(crate) fn key_of(rtype: Type, rdata: &[u8]) -> RrsetKey {
    let covers = (rtype == Type::RRSIG).then(|| Rrsig::read_type_covered(rdata).unwrap_or(Type::RRSIG));
    (rtype, covers)
}

/// Returns the RRsets of a node, those of RRSIG by the types that they cover.
pub(crate) fn rrsets_of(node: Node<'_>) -> BTreeMap<RrsetKey, RrsetText> {
    let owner = node.written_owner().to_string();
    let mut rows: BTreeMap<RrsetKey, RrsetText> = BTreeMap::new();
    let mut wire = Vec::new();
    for set in node.rrsets() {
        let records = set.rdatas().map(|record| (set.rtype(), record));
        for (rtype, record) in records.chain(set.sig_rdatas().map(|record| (Type::RRSIG, record))) {
            wire.clear();
            record.copy_to(&mut wire);
            let key = key_of(rtype, &wire);
            let row = rows.entry(key).or_insert_with(|| RrsetText {
                name: owner.clone(),
                rtype: rtype.to_string(),
                covers: key.1.map(|covered| covered.to_string()).unwrap_or_default(),
                ttl: record.ttl().as_secs(),
                data: Vec::new(),
            });
            row.data.push(rdata_text(rtype, &wire));
        }
    }
    rows
}

/// Returns all RRsets of a zone.
pub(crate) fn rrsets_of_zone(zone: &Zone) -> impl Iterator<Item = RrsetText> + '_ {
    zone.into_iter().flat_map(|node| rrsets_of(node).into_values())
}

/// The node of a name, those of NSEC3 records included.
pub(crate) fn node_of<'z>(zone: &'z Zone, name: Name<'_>) -> Option<Node<'z>> {
    zone.find_name(name).or_else(|| {
        let node = zone.iter_from(name).next()?;
        (node.owner().as_name() == name).then_some(node)
    })
}

/// One step as a row of the changes has it.
#[derive(Debug, Serialize)]
pub(crate) struct StepText<'a> {
    pub(crate) before: u32,
    pub(crate) after: u32,
    pub(crate) removed: Vec<String>,
    pub(crate) added: Vec<String>,
    pub(crate) author: &'a str,
}

/// Returns records as the rows of changes have them: owner, TTL, type, data.
pub(crate) fn lines(records: &ChangedRecords) -> Vec<String> {
    let line = |record: zone::store::ChangedRecord<'_>| {
        let data = rdata_text(record.rtype, record.rdata);
        format!("{} {} {} {data}", record.owner, record.ttl.as_secs(), record.rtype)
    };
    records.iter().map(line).collect()
}

/// Returns the name of a zone from its row.
pub(crate) fn zone_name(view: &str, name: &str) -> Result<ZoneName, String> {
    let apex: NameBuf = absolute(name)?;
    let view = match view {
        "" => None,
        view => Some(view.parse::<ViewName>().map_err(|fault| format!("view {view:?}: {fault}"))?),
    };
    Ok(ZoneName::in_view(apex.as_name().to_lower().as_lower(), view.as_ref()))
}

/// Returns the texts of a zone's name for its row: view and name.
pub(crate) fn zone_texts(apex: &ZoneName) -> (&str, String) {
    (apex.view().unwrap_or_default(), apex.as_name().to_string())
}

/// Reads an absolute name.
fn absolute(text: &str) -> Result<NameBuf, String> {
    NameBuf::from_text(text.as_bytes(), None)
        .map_err(|fault| format!("{text:?} is no absolute name: {fault}"))
}

/// Reads the RDATA of a record; `out` is replaced.
fn read_rdata(rtype: Type, data: &str, out: &mut Vec<u8>) -> Result<(), String> {
    out.clear();
    let tokens: Vec<text::Token<'_>> = text::tokens(data).collect();
    rdata::parse_text(rtype, &tokens, None, out).map_err(|fault| format!("{fault}: {}", shortened(data)))
}

/// A text for a message, not too long.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 80;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{:?}...", text.get(..end).unwrap_or_default()),
        None => format!("{text:?}"),
    }
}

/// Reads a TTL.
fn read_ttl(ttl: i64) -> Result<Ttl, String> {
    u32::try_from(ttl).map(Ttl::from_secs).map_err(|_| format!("the TTL {ttl} is no number below 2^32"))
}

/// Reads the records of a change.
///
/// # Errors
/// The record that cannot be read, and why.
pub(crate) fn change_set(
    before: Serial,
    after: Serial,
    removed: &[&str],
    added: &[&str],
) -> Result<ChangeSet, String> {
    let (removed, added) = (changed_records(removed)?, changed_records(added)?);
    Ok(ChangeSet { before, after, removed, added })
}

fn changed_records(lines: &[&str]) -> Result<ChangedRecords, String> {
    let mut records = ChangedRecords::default();
    let mut rdata = Vec::new();
    for line in lines {
        let mut words = line.splitn(4, ' ');
        let (owner, ttl, rtype) = (words.next(), words.next(), words.next());
        let (Some(owner), Some(ttl), Some(rtype)) = (owner, ttl, rtype) else {
            return Err(format!("{} is no record", shortened(line)));
        };
        let of_line = |fault: String| format!("{owner} {rtype}: {fault}");
        let name = absolute(owner).map_err(of_line)?;
        let ttl = read_ttl(ttl.parse().unwrap_or(-1)).map_err(of_line)?;
        let kind = read_type(rtype).map_err(of_line)?;
        read_rdata(kind, words.next().unwrap_or_default(), &mut rdata).map_err(of_line)?;
        records.push(name.as_name(), kind, ttl, &rdata);
    }
    Ok(records)
}

fn read_type(text: &str) -> Result<Type, String> {
    Type::from_text(text.as_bytes()).map_err(|_| format!("{text:?} is no type"))
}

/// Builds a zone from its rows.
pub(crate) struct ZoneReader {
    apex: LowerNameBuf,
    builder: ZoneBuilder,
    /// The owner of the last row, as text and as a name.
    owner: (String, NameBuf),
    rdata: Vec<u8>,
    records: u64,
    fault: Option<String>,
}

impl ZoneReader {
    pub(crate) fn new(apex: &ZoneName, key: &HashKey) -> ZoneReader {
        ZoneReader {
            apex: apex.as_name().to_lower(),
            builder: ZoneBuilder::new(apex.as_name(), key),
            owner: (String::new(), NameBuf::ROOT),
            rdata: Vec::new(),
            records: 0,
            fault: None,
        }
    }

    /// Number of records so far.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// Adds the RRset of a row. The first fault is kept, and what follows is left out.
    pub(crate) fn add(&mut self, name: &str, rtype: &str, ttl: i64, data: &[&str]) {
        if self.fault.is_none()
            && let Err(fault) = self.try_add(name, rtype, ttl, data)
        {
            self.fault = Some(format!("{} {}: {fault}", shortened(name).trim_matches('"'), rtype));
        }
    }

    fn try_add(&mut self, name: &str, rtype: &str, ttl: i64, data: &[&str]) -> Result<(), String> {
        if self.owner.0 != name {
            let owner = absolute(name)?;
            if !owner.as_name().is_at_or_below(self.apex.as_name()) {
                return Err("not in the zone".into());
            }
            self.owner = (name.to_owned(), owner);
        }
        let (kind, ttl) = (read_type(rtype)?, read_ttl(ttl)?);
        for data in data {
            read_rdata(kind, data, &mut self.rdata)?;
            let added = self.builder.add(self.owner.1.as_name(), kind, ttl, &self.rdata);
            added.map_err(|fault| fault.to_string())?;
            self.records += 1;
        }
        Ok(())
    }

    /// Returns the zone.
    ///
    /// # Errors
    /// What is wrong with the records.
    pub(crate) fn finish(mut self) -> Result<Zone, String> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let made = self.builder.finish().map_err(|fault| fault.to_string())?;
        match self.builder.first_error() {
            Some(note) => Err(note.to_string()),
            None => Ok(made),
        }
    }
}
