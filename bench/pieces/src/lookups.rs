//! Lookups by themselves: a name's node in a zone, its kind, and its zone. 64 names each time.

use std::hint::black_box;
use std::rc::Rc;
use std::sync::Arc;

use authority::lookup::{LookupResult, find};
use wire::hash::{HashKey, HashedName};
use wire::{NameBuf, Ttl};
use zone::{Catalog, Change, Zone};

use crate::zones::{changed, zone};
use crate::{Piece, name};

/// The TTL of every record.
const HOUR: Ttl = Ttl::from_secs(3600);

/// Checks the result of a lookup.
type Test = fn(&LookupResult<'_>) -> bool;

/// Number of names looked up each time.
const NAMES: usize = 64;
/// Number of zones in the catalog.
const ZONES: usize = 1000;

fn hashed(key: &HashKey, names: impl Iterator<Item = NameBuf>) -> Vec<HashedName> {
    let one = |name: NameBuf| {
        let mut hashed = HashedName::new();
        hashed.set(key, name.as_name());
        hashed
    };
    names.map(one).collect()
}

fn numbered(pattern: &str) -> impl Iterator<Item = NameBuf> {
    // Far apart, so that consecutive lookups are not of neighbours in the zone.
    (0..NAMES).map(move |i| name(&pattern.replace('#', &(i * 13).to_string())))
}

pub(crate) fn pieces(key: &HashKey) -> Vec<Piece> {
    let plain = Rc::new(zone(key, "plain.", None));
    // With pending changes of other names.
    let moved = Rc::new(changed(key, "moved."));
    let mut pieces = Vec::new();
    let kinds = [
        ("hit", &plain, "h#.plain.", true),
        ("miss", &plain, "x#.plain.", false),
        ("changed/hit", &moved, "h#.moved.", true),
        ("changed/miss", &moved, "x#.moved.", false),
    ];
    for (kind, zone, pattern, there) in kinds {
        let (zone, names) = (Rc::clone(zone), hashed(key, numbered(pattern)));
        let probe =
            move || names.iter().filter(|n| black_box(&zone).find(n.suffix(0), n.hash(0)).is_some()).count();
        assert_eq!(probe(), if there { NAMES } else { 0 });
        pieces.push(Piece::new(format!("zone-find/{kind}"), probe));
    }
    let is: [(&str, &str, Test); 9] = [
        ("changed/exact", "h#.moved.", |found| matches!(found, LookupResult::Exact(_))),
        ("changed/cut", "www.d#.moved.", |found| matches!(found, LookupResult::Cut { .. })),
        ("changed/miss", "x#.moved.", |found| matches!(found, LookupResult::Nothing { .. })),
        ("exact", "h#.plain.", |found| matches!(found, LookupResult::Exact(_))),
        ("deep-exact", "h#.e.d.c.b.deep.plain.", |found| matches!(found, LookupResult::Exact(_))),
        ("cut", "www.d#.plain.", |found| matches!(found, LookupResult::Cut { .. })),
        ("wildcard", "any#.w.plain.", |found| matches!(found, LookupResult::Wildcard { .. })),
        ("miss", "x#.plain.", |found| matches!(found, LookupResult::Nothing { .. })),
        ("deep-miss", "a.b.c.d.x#.c.b.deep.plain.", |found| matches!(found, LookupResult::Nothing { .. })),
    ];
    for (kind, pattern, right) in is {
        let zone = if kind.starts_with("changed") { &moved } else { &plain };
        let (zone, names) = (Rc::clone(zone), hashed(key, numbered(pattern)));
        let lookup = looking(*key, zone, names, right);
        assert_eq!(lookup(), NAMES, "{kind}");
        pieces.push(Piece::new(format!("lookup/{kind}"), lookup));
    }
    pieces.extend(catalog(key));
    pieces
}

fn looking(key: HashKey, zone: Rc<Zone>, names: Vec<HashedName>, right: Test) -> impl Fn() -> usize {
    move || {
        let is_right = |name: &&HashedName| {
            let below = name.label_count() - 1;
            right(&find(black_box(&zone), &key, name, below, false))
        };
        names.iter().filter(is_right).count()
    }
}

/// Finds which of a thousand zones contains a name, or that none does.
fn catalog(key: &HashKey) -> Vec<Piece> {
    let apexes = (0..ZONES).map(|i| name(&format!("z{i}.example.")));
    let empty = |apex: NameBuf| {
        let soa = testkit::random::soa(apex.as_name(), 1);
        let ns = apex.as_name().as_wire().to_vec();
        let records = [(wire::Type::SOA, soa), (wire::Type::NS, ns)]
            .map(|(rtype, rdata)| testkit::ModelRecord { owner: apex, rtype, ttl: HOUR, rdata });
        Change::Serve(Arc::new(testkit::build(apex.as_name(), key, &records)))
    };
    let catalog = Rc::new(Catalog::new(key).with(apexes.map(empty)).expect("zones of one key"));
    let kinds = [("hit", "www.z#.example.", NAMES), ("miss", "a.b.x#.example.", 0)];
    let one = |(kind, pattern, there)| {
        let (catalog, names) = (Rc::clone(&catalog), hashed(key, numbered(pattern)));
        let locate = move || names.iter().filter(|n| black_box(&catalog).locate(n, 0).is_some()).count();
        assert_eq!(locate(), there, "{kind}");
        Piece::new(format!("catalog/{kind}"), locate)
    };
    kinds.map(one).into()
}
