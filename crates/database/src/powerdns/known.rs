//! The domains as this node knows them: what is listed, created, removed and to be read. Without I/O.

use std::collections::HashMap;

use wire::{Serial, ZoneName};

use super::statements::DomainRow;
use super::zone_rows::{RowSum, Signing, soa_serial, zone_name};
use crate::interface::{ListedZone, ZoneId};

/// A domain as last seen.
struct KnownDomain {
    apex: ZoneName,
    /// Serial of the SOA row when the domain was listed, or of the zone when it was read.
    serial: Serial,
    /// Whether it had an SOA row of its name when it was listed.
    has_soa: bool,
    signing: Signing,
    /// The rows when they were read; `None`: they are to be read.
    sum: Option<RowSum>,
    /// Whether the rows were no zone.
    unfit: bool,
    /// The round that the domain was last listed in.
    round: u64,
    /// The comparison of sums that it was last part of.
    compared: u64,
}

/// All domains that have zones.
#[derive(Default)]
pub(super) struct KnownDomains {
    domains: HashMap<i64, KnownDomain>,
    ids: HashMap<ZoneName, i64>,
    round: u64,
    comparison: u64,
    /// Domains of this round that have no usable name, or that of another one.
    pub(super) misnamed: u64,
}

/// What a round of [`KnownDomains`] found.
#[derive(Default)]
pub(super) struct DomainChanges {
    /// Domains that were not there before.
    pub(super) created: Vec<ListedZone>,
    /// Domains that are gone, or that have another name now.
    pub(super) removed: Vec<(ZoneId, ZoneName)>,
}

impl KnownDomains {
    /// Begins a round, in which every domain is listed.
    pub(super) fn begin(&mut self) {
        self.round += 1;
        self.misnamed = 0;
    }

    /// Takes a domain as it is listed. A second row of the same domain, which has a second SOA row, is left
    /// out: the rows show it as a fault when they are read.
    pub(super) fn list(&mut self, row: &DomainRow<'_>, changes: &mut DomainChanges) {
        let is_secondary = matches!(row.kind, b"SLAVE" | b"SECONDARY" | b"CONSUMER");
        // A secondary zone that was never transferred.
        if row.soa.is_none() && is_secondary {
            return;
        }
        let Some(apex) = zone_name(row.name) else {
            self.misnamed += 1;
            return;
        };
        if self.ids.get(&apex).is_some_and(|other| {
            *other != row.id && self.domains.get(other).is_some_and(|other| other.round == self.round)
        }) {
            self.misnamed += 1;
            return;
        }
        let (has_soa, serial) = (row.soa.is_some(), row.soa.map_or(Serial(0), soa_serial));
        let signing = match (row.kind, row.presigned, row.keys) {
            (b"PRODUCER", ..) => Signing::Generated,
            (_, true, _) => Signing::Presigned,
            (_, false, true) => Signing::Live,
            (_, false, false) => Signing::Unsigned,
        };
        if let Some(known) = self.domains.get_mut(&row.id) {
            if known.round == self.round {
                return;
            }
            if known.apex == apex {
                known.round = self.round;
                let is_same = (known.signing, known.has_soa) == (signing, has_soa);
                // Without the SOA row, the serial at hand is that of the zone as it was read.
                if !is_same || has_soa && known.serial != serial {
                    (known.signing, known.has_soa, known.serial, known.sum) =
                        (signing, has_soa, serial, None);
                }
                return;
            }
            changes.removed.push((ZoneId(row.id), known.apex.clone()));
            self.ids.remove(&known.apex);
        }
        let listed = ListedZone { id: ZoneId(row.id), apex: apex.clone(), template: None, serial };
        changes.created.push(listed);
        self.ids.insert(apex.clone(), row.id);
        let domain = KnownDomain {
            apex,
            serial,
            has_soa,
            signing,
            sum: None,
            unfit: false,
            round: self.round,
            compared: 0,
        };
        self.domains.insert(row.id, domain);
    }

    /// Ends a round: domains that were not listed are gone.
    pub(super) fn end(&mut self, changes: &mut DomainChanges) {
        let (round, ids) = (self.round, &mut self.ids);
        self.domains.retain(|id, domain| {
            let is_there = domain.round == round;
            if !is_there {
                changes.removed.push((ZoneId(*id), domain.apex.clone()));
                if ids.get(&domain.apex) == Some(id) {
                    ids.remove(&domain.apex);
                }
            }
            is_there
        });
    }

    /// All domains, for [`DatabaseSink::listed`](crate::DatabaseSink::listed).
    pub(super) fn listed(&self) -> Vec<ListedZone> {
        let listed = |(id, domain): (&i64, &KnownDomain)| ListedZone {
            id: ZoneId(*id),
            apex: domain.apex.clone(),
            template: None,
            serial: domain.serial,
        };
        self.domains.iter().map(listed).collect()
    }

    /// Takes the serial at hand of a listed domain: if it is another one, the rows are to be read.
    pub(super) fn at_hand(&mut self, id: ZoneId, serial: Option<Serial>) {
        if let Some(domain) = self.domains.get_mut(&id.0)
            && serial != Some(domain.serial)
            && !domain.unfit
        {
            domain.sum = None;
        }
    }

    /// Begins a comparison of the sums of all domains.
    pub(super) fn begin_sums(&mut self) {
        self.comparison += 1;
    }

    /// Takes the sum of a domain's rows as they are now: if it is another one, they are to be read.
    pub(super) fn compare(&mut self, id: i64, sum: RowSum) {
        if let Some(domain) = self.domains.get_mut(&id) {
            domain.compared = self.comparison;
            if domain.sum != Some(sum) {
                domain.sum = None;
            }
        }
    }

    /// Ends a comparison: domains without a sum have no rows.
    pub(super) fn end_sums(&mut self) {
        for domain in self.domains.values_mut() {
            if domain.compared != self.comparison && domain.sum != Some(RowSum::default()) {
                domain.sum = None;
            }
        }
    }

    /// The rows of this domain are to be read.
    pub(super) fn touch(&mut self, id: i64) {
        if let Some(domain) = self.domains.get_mut(&id) {
            domain.sum = None;
        }
    }

    /// Domains whose rows are to be read, in order of their ids.
    pub(super) fn due(&self) -> Vec<i64> {
        let due = self.domains.iter().filter(|(_, domain)| domain.sum.is_none());
        let mut due: Vec<i64> = due.map(|(id, _)| *id).collect();
        due.sort_unstable();
        due
    }

    /// Name and signing of a domain.
    pub(super) fn get(&self, id: i64) -> Option<(&ZoneName, Signing)> {
        self.domains.get(&id).map(|domain| (&domain.apex, domain.signing))
    }

    /// The rows of a domain were read: as a zone with this serial, or as none.
    pub(super) fn read(&mut self, id: i64, sum: RowSum, serial: Option<Serial>) {
        if let Some(domain) = self.domains.get_mut(&id) {
            domain.sum = Some(sum);
            domain.unfit = serial.is_none();
            domain.serial = serial.unwrap_or(domain.serial);
        }
    }

    /// Number of domains, and of those whose rows are no zone.
    pub(super) fn counts(&self) -> (u64, u64) {
        let unfit = self.domains.values().filter(|domain| domain.unfit).count();
        (self.domains.len() as u64, unfit as u64 + self.misnamed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row<'r>(id: i64, name: &'r str, kind: &'r str, soa: Option<&'r str>) -> DomainRow<'r> {
        let soa = soa.map(str::as_bytes);
        DomainRow { id, name: name.as_bytes(), kind: kind.as_bytes(), soa, presigned: false, keys: false }
    }

    const SEVEN: Option<&str> = Some("ns.a h.a 7 1 2 3 4");
    const EIGHT: Option<&str> = Some("ns.a h.a 8 1 2 3 4");

    /// Lists these rows. Returns the names created and the names removed.
    fn round(known: &mut KnownDomains, rows: &[DomainRow<'_>]) -> (Vec<String>, Vec<String>) {
        let mut changes = DomainChanges::default();
        known.begin();
        rows.iter().for_each(|row| known.list(row, &mut changes));
        known.end(&mut changes);
        let created = changes.created.iter().map(|zone| zone.apex.to_string()).collect();
        (created, changes.removed.iter().map(|(_, apex)| apex.to_string()).collect())
    }

    fn sum(hashes: i128) -> RowSum {
        RowSum { rows: 1, hashes }
    }

    #[test]
    fn domains_come_and_go() {
        let mut known = KnownDomains::default();
        let both = [row(1, "a", "NATIVE", SEVEN), row(2, "b", "MASTER", SEVEN)];
        assert_eq!(round(&mut known, &both), (vec!["a.".into(), "b.".into()], vec![]));
        assert_eq!(known.listed().len(), 2);
        assert_eq!(round(&mut known, &both), (vec![], vec![]));
        assert_eq!(round(&mut known, &both[1..]), (vec![], vec!["a.".into()]));
        assert_eq!(
            round(&mut known, &[row(2, "c", "MASTER", SEVEN)]),
            (vec!["c.".into()], vec!["b.".into()])
        );
        // A domain that was deleted and created again has another id.
        assert_eq!(
            round(&mut known, &[row(3, "c", "MASTER", SEVEN)]),
            (vec!["c.".into()], vec!["c.".into()])
        );
        assert_eq!(round(&mut known, &[row(3, "c", "MASTER", SEVEN)]), (vec![], vec![]));
    }

    #[test]
    fn a_domain_is_read_when_it_differs() {
        let mut known = KnownDomains::default();
        round(&mut known, &[row(1, "a", "NATIVE", SEVEN)]);
        assert_eq!(known.due(), [1]);
        known.read(1, sum(5), Some(Serial(7)));
        assert_eq!(known.due(), [0; 0]);
        known.compare(1, sum(5));
        assert_eq!(known.due(), [0; 0]);
        known.compare(1, sum(6));
        assert_eq!(known.due(), [1]);
        known.read(1, sum(6), Some(Serial(7)));
        round(&mut known, &[row(1, "a", "NATIVE", EIGHT)]);
        assert_eq!(known.due(), [1]);
        known.read(1, sum(6), Some(Serial(8)));
        round(&mut known, &[DomainRow { keys: true, ..row(1, "a", "NATIVE", EIGHT) }]);
        assert_eq!((known.due(), known.get(1).map(|(_, signing)| signing)), (vec![1], Some(Signing::Live)));
        known.read(1, sum(6), None);
        assert_eq!((known.due(), known.counts()), (vec![], (1, 1)));
        known.at_hand(ZoneId(1), None);
        assert_eq!(known.due(), [0; 0], "what is no zone has no serial at hand");
    }

    /// The names of a domain and of its rows may differ in letter case, so that its SOA row is not found.
    #[test]
    fn a_domain_without_its_soa_row_is_read_once() {
        let mut known = KnownDomains::default();
        round(&mut known, &[row(1, "A", "NATIVE", None)]);
        known.read(1, sum(5), Some(Serial(7)));
        round(&mut known, &[row(1, "A", "NATIVE", None)]);
        assert_eq!(known.due(), [0; 0]);
        round(&mut known, &[row(1, "A", "NATIVE", SEVEN)]);
        assert_eq!(known.due(), [1]);
    }

    #[test]
    fn a_domain_that_lost_all_rows_has_no_sum() {
        let mut known = KnownDomains::default();
        round(&mut known, &[row(1, "a", "NATIVE", None), row(2, "b", "NATIVE", None)]);
        known.read(1, sum(5), None);
        known.read(2, RowSum::default(), None);
        known.begin_sums();
        known.end_sums();
        assert_eq!(known.due(), [1]);
    }

    #[test]
    fn odd_domains() {
        let mut known = KnownDomains::default();
        let rows = [
            row(1, "a", "NATIVE", SEVEN),
            row(1, "a", "NATIVE", EIGHT),
            row(2, "A.", "NATIVE", SEVEN),
            row(3, "x..y", "NATIVE", SEVEN),
            row(4, "s", "SLAVE", None),
            row(5, "p", "PRODUCER", SEVEN),
            row(6, ".", "NATIVE", SEVEN),
        ];
        let (created, _) = round(&mut known, &rows);
        assert_eq!(created, ["a.", "p.", "."]);
        assert_eq!(known.misnamed, 2);
        assert_eq!(known.get(5).map(|(_, signing)| signing), Some(Signing::Generated));
    }
}
