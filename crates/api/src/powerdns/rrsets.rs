//! RRsets in requests: what a client wants to be changed, without a look at the zone.

use serde_json::Value;
use wire::rdata::is_same;
use wire::{NameBuf, Ttl, Type, ZoneName};

use super::fault::Refused;
use super::{content, fields, names};
use crate::documents::RrsetComment;

/// Largest TTL in seconds (RFC 2181 §8).
const MAX_TTL: u64 = i32::MAX as u64;

/// A record in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WantedRecord {
    pub(super) rdata: Vec<u8>,
    /// Whether it is stored and not served.
    pub(super) disabled: bool,
}

/// How an RRset changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WantedChange {
    /// The records, the comments or both are replaced; `None` leaves them as they are.
    Replace { ttl: Option<Ttl>, records: Option<Vec<WantedRecord>>, comments: Option<Vec<RrsetComment>> },
    /// Records and comments are deleted.
    Delete,
    /// A record is added.
    Extend { ttl: Ttl, record: WantedRecord },
    /// A record is removed.
    Prune { record: WantedRecord },
}

/// An RRset in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WantedRrset {
    pub(super) owner: NameBuf,
    pub(super) rtype: Type,
    pub(super) change: WantedChange,
}

impl WantedRrset {
    /// Returns the RRset in messages.
    pub(super) fn shown(&self) -> String {
        names::rrset(self.owner.as_name(), self.rtype)
    }
}

/// Returns the RRsets of a PATCH, in the order of the request; without deletions outside the zone, which
/// delete nothing. `now` is the time of comments that have none, in seconds since 1970.
///
/// # Errors
/// The first that cannot be used. `rrsets` must be an array.
pub(super) fn of_patch(body: &Value, apex: &ZoneName, now: u64) -> Result<Vec<WantedRrset>, Refused> {
    let given = fields::array_if(body, "rrsets");
    let given = given.ok_or_else(|| Refused::unfit("The request has no array 'rrsets'"))?;
    let mut all: Vec<(WantedRrset, String)> = Vec::with_capacity(given.len());
    for one in given {
        let verb = fields::text(one, "changetype")?.to_ascii_uppercase();
        let Some(wanted) = read_one(one, &verb, apex, now)? else { continue };
        all.push((wanted, verb));
    }
    refuse_repeated(&all)?;
    Ok(all.into_iter().map(|(wanted, _)| wanted).collect())
}

/// Refuses an RRset that is there twice with the same change, unless records are added or removed one by one.
fn refuse_repeated(all: &[(WantedRrset, String)]) -> Result<(), Refused> {
    let mut seen = std::collections::HashSet::new();
    for (wanted, verb) in all {
        let is_whole = matches!(wanted.change, WantedChange::Replace { .. } | WantedChange::Delete);
        if is_whole && !seen.insert((wanted.owner.as_name().to_lower(), wanted.rtype)) {
            return Err(Refused::unfit(format!("Duplicate {} with changetype: {verb}", wanted.shown())));
        }
    }
    Ok(())
}

/// Returns the RRsets of a new zone, or of one whose RRsets are all replaced; those with the same name and
/// type are joined.
///
/// # Errors
/// The first that cannot be used.
pub(super) fn of_zone(given: &[Value], apex: &ZoneName, now: u64) -> Result<Vec<WantedRrset>, Refused> {
    let mut all: Vec<WantedRrset> = Vec::with_capacity(given.len());
    let mut at = std::collections::HashMap::new();
    for one in given {
        let Some(wanted) = read_one(one, "REPLACE", apex, now)? else { continue };
        let index = *at.entry((wanted.owner.as_name().to_lower(), wanted.rtype)).or_insert(all.len());
        let Some(first) = all.get_mut(index) else {
            all.push(wanted);
            continue;
        };
        join(first, wanted)?;
    }
    Ok(all)
}

/// Adds an RRset's records and comments to those of another one.
fn join(first: &mut WantedRrset, other: WantedRrset) -> Result<(), Refused> {
    let shown = first.shown();
    let (
        WantedChange::Replace { records, comments, .. },
        WantedChange::Replace { records: more, comments: also, .. },
    ) = (&mut first.change, other.change)
    else {
        return Ok(());
    };
    records.get_or_insert_default().extend(more.into_iter().flatten());
    comments.get_or_insert_default().extend(also.into_iter().flatten());
    check_records(records.as_deref().unwrap_or_default(), first.rtype, &shown)
}

/// Returns one RRset; `None` for a deletion outside the zone.
fn read_one(one: &Value, verb: &str, apex: &ZoneName, now: u64) -> Result<Option<WantedRrset>, Refused> {
    let owner = names::absolute(fields::text(one, "name")?)?;
    let text = fields::text(one, "type")?;
    let prefix = || format!("RRset {owner} IN {text}");
    let rtype =
        names::rtype(text).ok_or_else(|| Refused::unfit(format!("{}: unknown type given", prefix())))?;
    let is_inside = owner.as_name().is_at_or_below(apex.as_name());
    if verb == "DELETE" {
        let wanted = WantedRrset { owner, rtype, change: WantedChange::Delete };
        return Ok(is_inside.then_some(wanted));
    }
    if rtype.is_meta() {
        return Err(Refused::unfit(format!("{}: invalid type given", prefix())));
    }
    if !is_inside {
        return Err(Refused::unfit(format!("{}: Name is out of zone", prefix())));
    }
    if rtype == Type::SOA && owner.as_name() != apex.as_name() {
        return Err(Refused::unfit(format!("{}: is only allowed at apex", prefix())));
    }
    let change = match verb {
        "REPLACE" => replacement(one, &owner, rtype, now)?,
        "EXTEND" => {
            let (ttl, record) = single(one, &owner, rtype)?;
            WantedChange::Extend { ttl, record }
        }
        "PRUNE" => WantedChange::Prune { record: single(one, &owner, rtype)?.1 },
        _ => return Err(Refused::unfit(format!("Changetype '{verb}' is not a valid value"))),
    };
    Ok(Some(WantedRrset { owner, rtype, change }))
}

/// Returns what replaces an RRset.
fn replacement(one: &Value, owner: &NameBuf, rtype: Type, now: u64) -> Result<WantedChange, Refused> {
    let shown = names::rrset(owner.as_name(), rtype);
    let comments = fields::array_if(one, "comments");
    let comments = comments.map(|all| all.iter().map(|one| comment(one, now)).collect()).transpose()?;
    let given = fields::array_if(one, "records");
    if given.is_none() && comments.is_none() {
        return Err(Refused::unfit(format!("No change for {shown}: it has no records and no comments")));
    }
    let ttl = match given.is_some_and(|given| !given.is_empty()) {
        true => Some(ttl(one)?),
        false => None,
    };
    let records = given.map(|all| all.iter().map(|one| record(one, owner, rtype)).collect()).transpose()?;
    let records: Option<Vec<WantedRecord>> = records;
    check_records(records.as_deref().unwrap_or_default(), rtype, &shown)?;
    Ok(WantedChange::Replace { ttl, records, comments })
}

/// Refuses duplicates, and several records of a type of which a name has one.
fn check_records(records: &[WantedRecord], rtype: Type, shown: &str) -> Result<(), Refused> {
    let canonical = |record: &WantedRecord| {
        let mut rdata = record.rdata.clone();
        wire::rdata::canonical(rtype, &mut rdata);
        rdata
    };
    let mut seen = std::collections::HashSet::new();
    if let Some(twice) = records.iter().find(|record| !seen.insert(canonical(record))) {
        let content = content::shown(rtype, &twice.rdata);
        return Err(Refused::unfit(format!("{shown}: duplicate record with content \"{content}\"")));
    }
    let is_single = matches!(rtype, Type::CNAME | Type::DNAME | Type::SOA);
    match is_single && records.len() > 1 {
        true => Err(Refused::unfit(format!("{shown}: only one such record allowed"))),
        false => Ok(()),
    }
}

/// Returns the TTL and the only record of an RRset to extend or to prune.
fn single(one: &Value, owner: &NameBuf, rtype: Type) -> Result<(Ttl, WantedRecord), Refused> {
    match fields::array_if(one, "records") {
        Some([only]) => Ok((ttl(one)?, record(only, owner, rtype)?)),
        _ => Err(Refused::unfit("EXTEND and PRUNE take exactly one record")),
    }
}

/// Returns the TTL of an RRset.
fn ttl(one: &Value) -> Result<Ttl, Refused> {
    let seconds = fields::number(one, "ttl", MAX_TTL)?;
    // The number has at most 31 bits.
    Ok(Ttl::from_secs(u32::try_from(seconds).unwrap_or(0)))
}

fn record(one: &Value, owner: &NameBuf, rtype: Type) -> Result<WantedRecord, Refused> {
    if fields::flag_if(one, "set-ptr") == Some(true) {
        return Err(Refused::unfit("'set-ptr' is not supported: change the PTR record in its own zone"));
    }
    let rdata = content::read(owner.as_name(), rtype, fields::text(one, "content")?)?;
    Ok(WantedRecord { rdata, disabled: fields::flag_if(one, "disabled").unwrap_or(false) })
}

fn comment(one: &Value, now: u64) -> Result<RrsetComment, Refused> {
    let modified_at = fields::number_if(one, "modified_at", u64::from(u32::MAX))?;
    Ok(RrsetComment {
        content: fields::text(one, "content")?.to_owned(),
        account: fields::text(one, "account")?.to_owned(),
        modified_at: modified_at.unwrap_or(now),
    })
}

/// Whether two records of a type are the same.
pub(super) fn are_same(rtype: Type, a: &[u8], b: &[u8]) -> bool {
    is_same(rtype, a, b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn apex() -> ZoneName {
        names::zone("example.").expect("a zone")
    }

    fn patch(rrsets: Value) -> Result<Vec<WantedRrset>, Refused> {
        of_patch(&json!({"rrsets": rrsets}), &apex(), 7)
    }

    fn rrset(change: &str, name: &str, rtype: &str, contents: &[&str]) -> Value {
        let records: Vec<Value> = contents.iter().map(|content| json!({"content": content})).collect();
        json!({"changetype": change, "name": name, "type": rtype, "ttl": 60, "records": records})
    }

    #[test]
    fn an_rrset_is_read_with_its_records_and_comments() {
        let given = json!([{"changetype": "replace", "name": "www.example.", "type": "a", "ttl": "60",
            "records": [{"content": "192.0.2.1"}, {"content": "192.0.2.2", "disabled": true}],
            "comments": [{"content": "hello", "account": "me"}]}]);
        let all = patch(given).expect("RRsets");
        let [WantedRrset { change: WantedChange::Replace { ttl, records, comments }, .. }] = &all[..] else {
            panic!("{all:?}");
        };
        assert_eq!(*ttl, Some(Ttl::from_secs(60)));
        let records = records.as_deref().expect("records");
        assert_eq!(records.iter().map(|record| record.disabled).collect::<Vec<_>>(), [false, true]);
        let expected = RrsetComment { content: "hello".into(), account: "me".into(), modified_at: 7 };
        assert_eq!(comments.as_deref(), Some(&[expected][..]));
    }

    #[test]
    fn rrsets_with_faults_are_refused() {
        let no_ttl = json!({"changetype": "REPLACE", "name": "a.example.", "type": "A", "records": [{"content": "192.0.2.1"}]});
        let set_ptr = json!({"changetype": "REPLACE", "name": "a.example.", "type": "A", "ttl": 1,
            "records": [{"content": "192.0.2.1", "set-ptr": true}]});
        let mut large = no_ttl.clone();
        large["ttl"] = (MAX_TTL + 1).into();
        for bad in [
            json!({"name": "a.example.", "type": "A", "ttl": 1, "records": []}),
            rrset("NOPE", "a.example.", "A", &["192.0.2.1"]),
            rrset("REPLACE", "a.example", "A", &["192.0.2.1"]),
            rrset("REPLACE", "a.example.", "FAFAFA", &["192.0.2.1"]),
            rrset("REPLACE", "a.example.", "OPT", &["192.0.2.1"]),
            rrset("REPLACE", "a.other.", "A", &["192.0.2.1"]),
            rrset("REPLACE", "a.example.", "A", &["192.0.2.1", "192.0.2.1"]),
            rrset("REPLACE", "a.example.", "CNAME", &["a.", "b."]),
            rrset("REPLACE", "a.example.", "SOA", &["a. b. 1 2 3 4 5"]),
            rrset("EXTEND", "a.example.", "A", &["192.0.2.1", "192.0.2.2"]),
            rrset("PRUNE", "a.example.", "A", &[]),
            json!({"changetype": "REPLACE", "name": "a.example.", "type": "A", "ttl": 1}),
            json!("x"),
            no_ttl,
            set_ptr,
            large,
        ] {
            assert_eq!(patch(json!([bad])).expect_err("a refusal").status.as_u16(), 422, "{bad}");
        }
        for bad in [json!({}), json!([]), json!({"rrsets": {}})] {
            assert!(of_patch(&bad, &apex(), 7).is_err(), "{bad}");
        }
    }

    #[test]
    fn one_rrset_is_changed_once() {
        let one = rrset("REPLACE", "a.example.", "A", &["192.0.2.1"]);
        let other = rrset("REPLACE", "A.example.", "A", &["192.0.2.2"]);
        assert!(patch(json!([one, other])).is_err());
        let extend = |content| rrset("EXTEND", "a.example.", "A", &[content]);
        assert_eq!(patch(json!([extend("192.0.2.1"), extend("192.0.2.2")])).map(|all| all.len()), Ok(2));
    }

    #[test]
    fn a_deletion_outside_the_zone_deletes_nothing() {
        assert_eq!(patch(json!([rrset("DELETE", "a.other.", "A", &[])])), Ok(Vec::new()));
    }

    #[test]
    fn rrsets_of_a_new_zone_are_joined() {
        let given =
            [rrset("", "a.example.", "A", &["192.0.2.1"]), rrset("", "a.example.", "A", &["192.0.2.2"])];
        let all = of_zone(&given, &apex(), 7).expect("RRsets");
        let [WantedRrset { change: WantedChange::Replace { records: Some(records), .. }, .. }] = &all[..]
        else {
            panic!("{all:?}");
        };
        assert_eq!(records.len(), 2);
        let twice = [given[0].clone(), given[0].clone()];
        assert!(of_zone(&twice, &apex(), 7).is_err());
    }
}
