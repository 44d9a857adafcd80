//! What a PATCH changes: edits of the served records, and the zone's document with comments and disabled
//! records. The edits are made first; the document is stored after them.

use std::collections::{BTreeMap, BTreeSet};

use wire::{Name, NameBuf, Ttl, Type};
use zone::Zone;
use zone_manager::changes::{RrsetEdit, RrsetEditKind};

use super::content;
use super::fault::Refused;
use super::rrsets::{WantedChange, WantedRecord, WantedRrset, are_same};
use crate::documents::{RrsetComment, ZoneDocument};

/// What a request changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PatchPlan {
    /// Changes of served records.
    pub(super) edits: Vec<RrsetEdit>,
    /// The document to store; `None`: it stays as it is.
    pub(super) document: Option<ZoneDocument>,
}

/// Returns what RRsets in a request change in a version of a zone and its document.
///
/// # Errors
/// The result would have a CNAME beside other records, or no SOA; a TTL differs from that of its RRset.
pub(super) fn plan(
    zone: &Zone,
    document: &ZoneDocument,
    wanted: &[WantedRrset],
) -> Result<PatchPlan, Refused> {
    let mut planner = Planner { zone, document: document.clone(), edits: Vec::new(), types: BTreeMap::new() };
    for rrset in wanted {
        planner.take(rrset)?;
    }
    planner.check_names()?;
    let Planner { document: new, edits, .. } = planner;
    Ok(PatchPlan { edits, document: Some(new).filter(|new| new != document) })
}

/// Collects changes.
struct Planner<'z> {
    zone: &'z Zone,
    document: ZoneDocument,
    edits: Vec<RrsetEdit>,
    /// The types at each name that is changed, as they will be.
    types: BTreeMap<NameBuf, BTreeSet<Type>>,
}

impl Planner<'_> {
    fn take(&mut self, rrset: &WantedRrset) -> Result<(), Refused> {
        match &rrset.change {
            WantedChange::Replace { ttl, records, comments } => {
                if let Some(records) = records {
                    self.replace(rrset, ttl.unwrap_or(Ttl::ZERO), records)?;
                }
                if let Some(comments) = comments {
                    self.comment(rrset, comments);
                }
                Ok(())
            }
            WantedChange::Delete => self.replace(rrset, Ttl::ZERO, &[]),
            WantedChange::Extend { ttl, record } => self.extend(rrset, *ttl, record),
            WantedChange::Prune { record } => self.prune(rrset, record),
        }
    }

    /// Replaces all records of an RRset. Without records its comments are removed as well.
    fn replace(&mut self, rrset: &WantedRrset, ttl: Ttl, records: &[WantedRecord]) -> Result<(), Refused> {
        let enabled: Vec<Vec<u8>> =
            records.iter().filter(|record| !record.disabled).map(|record| record.rdata.clone()).collect();
        if rrset.rtype == Type::SOA && enabled.is_empty() {
            let shown = rrset.shown();
            return Err(Refused::unfit(format!("{shown}: nomen serves no zone without its SOA record")));
        }
        let serves = !enabled.is_empty();
        let kind = match serves {
            false => RrsetEditKind::Delete,
            true => RrsetEditKind::Replace { ttl, rdatas: enabled },
        };
        self.edit(rrset, kind);
        let disabled = records.iter().filter(|record| record.disabled);
        let disabled = disabled.map(|record| content::shown(rrset.rtype, &record.rdata)).collect();
        self.document.change(rrset.owner.as_name(), rrset.rtype, |set| {
            set.set_disabled(ttl, disabled);
            if records.is_empty() {
                set.comments.clear();
            }
        });
        self.set_type(rrset, serves);
        Ok(())
    }

    fn comment(&mut self, rrset: &WantedRrset, comments: &[RrsetComment]) {
        self.document.change(rrset.owner.as_name(), rrset.rtype, |set| set.comments = comments.to_vec());
    }

    /// Adds a record.
    fn extend(&mut self, rrset: &WantedRrset, ttl: Ttl, record: &WantedRecord) -> Result<(), Refused> {
        let (owner, rtype) = (rrset.owner.as_name(), rrset.rtype);
        let of_rrset = self.ttl(owner, rtype);
        if of_rrset.is_some_and(|of_rrset| of_rrset != ttl) {
            let shown = rrset.shown();
            return Err(Refused::unfit(format!(
                "{shown}: uses a different TTL value than the rest of the RRset"
            )));
        }
        let is_single = matches!(rtype, Type::CNAME | Type::DNAME | Type::SOA);
        if is_single && of_rrset.is_some() && !self.serves(owner, rtype, &record.rdata) {
            return Err(Refused::unfit(format!("{}: only one such record allowed", rrset.shown())));
        }
        let rdata = record.rdata.clone();
        match record.disabled {
            true => {
                self.edit(rrset, RrsetEditKind::Prune { rdatas: vec![rdata.clone()] });
                self.document.change(owner, rtype, |set| {
                    let mut all = set.disabled_rdata();
                    all.retain(|old| !are_same(rtype, old, &rdata));
                    all.push(rdata);
                    set.set_disabled(ttl, all.iter().map(|rdata| content::shown(rtype, rdata)).collect());
                });
            }
            false => {
                self.document.change(owner, rtype, |set| set.enable(&rdata));
                self.edit(rrset, RrsetEditKind::Extend { ttl: Some(ttl), rdatas: vec![rdata] });
            }
        }
        if !record.disabled {
            self.set_type(rrset, true);
        }
        Ok(())
    }

    /// Removes a record.
    fn prune(&mut self, rrset: &WantedRrset, record: &WantedRecord) -> Result<(), Refused> {
        if rrset.rtype == Type::SOA {
            return Err(Refused::unfit(format!(
                "{}: nomen serves no zone without its SOA record",
                rrset.shown()
            )));
        }
        self.edit(rrset, RrsetEditKind::Prune { rdatas: vec![record.rdata.clone()] });
        self.document.change(rrset.owner.as_name(), rrset.rtype, |set| set.enable(&record.rdata));
        Ok(())
    }

    fn edit(&mut self, rrset: &WantedRrset, kind: RrsetEditKind) {
        self.edits.push(RrsetEdit { owner: rrset.owner, rtype: rrset.rtype, kind });
    }

    /// Returns the TTL of the records of an RRset, disabled ones included; `None` if there are none.
    fn ttl(&self, owner: Name<'_>, rtype: Type) -> Option<Ttl> {
        let served = self.zone.find_name(owner).and_then(|node| node.rrset(rtype)).map(|set| set.ttl());
        let disabled = || {
            let stored = self.document.rrset(owner, rtype).filter(|set| !set.disabled.is_empty())?;
            Some(Ttl::from_secs(stored.ttl))
        };
        served.or_else(disabled)
    }

    fn serves(&self, owner: Name<'_>, rtype: Type, rdata: &[u8]) -> bool {
        let set = self.zone.find_name(owner).and_then(|node| node.rrset(rtype));
        set.is_some_and(|set| {
            set.rdatas().any(|record| {
                let mut old = Vec::new();
                record.copy_to(&mut old);
                are_same(rtype, &old, rdata)
            })
        })
    }

    /// Notes whether an RRset is served afterwards.
    fn set_type(&mut self, rrset: &WantedRrset, is_there: bool) {
        let owner = rrset.owner.as_name();
        if !self.types.contains_key(&rrset.owner) {
            let types = self.types_now(owner);
            self.types.insert(rrset.owner, types);
        }
        let Some(types) = self.types.get_mut(&rrset.owner) else { return };
        match is_there {
            true => types.insert(rrset.rtype),
            false => types.remove(&rrset.rtype),
        };
    }

    /// Returns the types at a name before the request. Disabled records conflict with nothing.
    fn types_now(&self, owner: Name<'_>) -> BTreeSet<Type> {
        let node = self.zone.find_name(owner);
        node.iter().flat_map(|node| node.rrsets()).map(|set| set.rtype()).collect()
    }

    /// Refuses a CNAME beside other records.
    fn check_names(&self) -> Result<(), Refused> {
        for (owner, types) in &self.types {
            let other = types.iter().find(|rtype| **rtype != Type::CNAME && !rtype.may_be_beside_cname());
            if let Some(other) = other.filter(|_| types.contains(&Type::CNAME)) {
                return Err(Refused::unfit(format!(
                    "RRset {owner} IN CNAME: Conflicts with pre-existing RRset of type {other}"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use wire::ZoneName;

    use super::super::{names, rrsets};

    fn apex() -> ZoneName {
        names::zone("example.").expect("a zone")
    }

    fn zone() -> Zone {
        let text = "@ 60 SOA a. b. 1 2 3 4 5\n@ 60 NS a.\nwww 60 A 192.0.2.1\ncn 60 CNAME a.\n";
        let source = zone::scan::TextSource::bytes("test", text.as_bytes());
        let (key, config) = (wire::hash::HashKey::new([1, 2, 3]), zone::load::LoadConfig::default());
        let loaded =
            zone::load::load(
                source,
                apex().as_name(),
                &key,
                &config,
                |_| std::ops::ControlFlow::Continue(()),
            );
        loaded.expect("a zone").zone
    }

    fn planned(document: &ZoneDocument, given: Value) -> Result<PatchPlan, Refused> {
        let wanted = rrsets::of_patch(&json!({"rrsets": given}), &apex(), 7)?;
        plan(&zone(), document, &wanted)
    }

    fn rrset(change: &str, name: &str, rtype: &str, records: Value) -> Value {
        json!({"changetype": change, "name": name, "type": rtype, "ttl": 60, "records": records})
    }

    #[test]
    fn disabled_records_go_to_the_document_and_enabled_ones_to_the_zone() {
        let empty = ZoneDocument::of(&apex());
        let both = json!([{"content": "192.0.2.1"}, {"content": "192.0.2.2", "disabled": true}]);
        let PatchPlan { edits, document } =
            planned(&empty, json!([rrset("REPLACE", "x.example.", "A", both)])).expect("a plan");
        let [RrsetEdit { kind: RrsetEditKind::Replace { rdatas, .. }, .. }] = &edits[..] else {
            panic!("{edits:?}")
        };
        assert_eq!(rdatas, &[vec![192, 0, 2, 1]]);
        let document = document.expect("a document");
        assert_eq!(document.rrsets()[0].disabled, ["192.0.2.2"]);
        // Enabled again.
        let one = json!([rrset("EXTEND", "x.example.", "A", json!([{"content": "192.0.2.2"}]))]);
        let PatchPlan { edits, document: after } = planned(&document, one).expect("a plan");
        assert!(matches!(&edits[..], [RrsetEdit { kind: RrsetEditKind::Extend { .. }, .. }]), "{edits:?}");
        assert_eq!(after, Some(empty));
    }

    #[test]
    fn comments_alone_change_no_record() {
        let empty = ZoneDocument::of(&apex());
        let comment = json!([{"changetype": "REPLACE", "name": "www.example.", "type": "A",
            "comments": [{"content": "c", "account": "a"}]}]);
        let PatchPlan { edits, document } = planned(&empty, comment).expect("a plan");
        assert!(edits.is_empty());
        let document = document.expect("a document");
        // Records keep the comments, and their deletion removes them.
        let records = json!([rrset("REPLACE", "www.example.", "A", json!([{"content": "192.0.2.3"}]))]);
        assert_eq!(planned(&document, records).expect("a plan").document, None);
        let gone = json!([rrset("DELETE", "www.example.", "A", json!([]))]);
        assert_eq!(planned(&document, gone).expect("a plan").document, Some(empty));
    }

    #[test]
    fn a_cname_stands_alone() {
        let empty = ZoneDocument::of(&apex());
        let cname = |change, name| rrset(change, name, "CNAME", json!([{"content": "a."}]));
        let address = |change, name| rrset(change, name, "A", json!([{"content": "192.0.2.1"}]));
        for bad in [
            json!([cname("REPLACE", "www.example.")]),
            json!([cname("EXTEND", "www.example.")]),
            json!([address("REPLACE", "cn.example.")]),
            json!([address("REPLACE", "new.example."), cname("REPLACE", "new.example.")]),
            json!([cname("REPLACE", "example.")]),
        ] {
            assert!(planned(&empty, bad.clone()).is_err(), "{bad}");
        }
        for good in [
            json!([cname("REPLACE", "new.example.")]),
            json!([address("DELETE", "www.example."), cname("REPLACE", "www.example.")]),
            json!([rrset("DELETE", "cn.example.", "CNAME", json!([])), address("REPLACE", "cn.example.")]),
        ] {
            assert!(planned(&empty, good.clone()).is_ok(), "{good}");
        }
    }

    #[test]
    fn an_rrset_has_one_ttl_and_a_zone_an_soa_record() {
        let empty = ZoneDocument::of(&apex());
        let mut other = rrset("EXTEND", "www.example.", "A", json!([{"content": "192.0.2.2"}]));
        assert!(planned(&empty, json!([other])).is_ok());
        other["ttl"] = 61.into();
        assert!(planned(&empty, json!([other])).is_err());
        assert!(planned(&empty, json!([rrset("DELETE", "example.", "SOA", json!([]))])).is_err());
        let disabled = json!([{"content": "a. b. 1 2 3 4 5", "disabled": true}]);
        assert!(planned(&empty, json!([rrset("REPLACE", "example.", "SOA", disabled)])).is_err());
    }
}
