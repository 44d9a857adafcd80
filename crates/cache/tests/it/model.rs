//! Random inserts, lookups, flushes and time against a map that never evicts.

use std::collections::BTreeMap;

use cache::{Answer, Cache, CacheConfig, Credibility, Flush, Freshness, Key, Lookup, Refused, Terms};
use proptest::prelude::*;
use wire::message::Section;
use wire::{Class, Rcode, Ttl, Type};

use crate::support::*;

const TYPES: [Type; 3] = [Type::A, Type::AAAA, Type::TXT];

/// The key without name and type: view, DO and CD.
type Asker = (u32, bool, bool);

/// The subject of an entry: name, key and type; `None` means every type, and `Err` a failure.
type About = (String, Asker, Result<Option<u16>, u16>);

#[derive(Clone, Copy, Debug)]
enum What {
    Data,
    NoData,
    NxDomain,
    Failure,
}

#[derive(Clone, Debug)]
enum Step {
    Insert { name: usize, qtype: usize, asker: Asker, what: What, rank: usize, ttl: u32, bulk: usize },
    Lookup { name: usize, qtype: usize, asker: Asker },
    Wait(u32),
    Flush { name: usize, tree: bool, qtype: Option<usize>, view: Option<u32> },
}

struct Kept {
    id: u32,
    stored: u32,
    lifetime: u32,
    rank: Credibility,
    what: What,
}

struct Pair {
    cache: Cache,
    config: CacheConfig,
    map: BTreeMap<About, Kept>,
    now: u32,
    next_id: u32,
    /// Whether everything fits into the cache, so that it must not evict.
    roomy: bool,
}

fn owner(i: usize) -> String {
    // Some names lie below others.
    (0..=i % 3).rev().map(|depth| format!("n{}.", i / (depth + 1))).collect::<String>() + "example."
}

fn asker() -> impl Strategy<Value = Asker> {
    (0u32..2, prop::bool::weighted(0.2), prop::bool::weighted(0.1))
}

fn steps(names: usize, bulk: usize, count: usize) -> impl Strategy<Value = Vec<Step>> {
    let what = prop_oneof![
        6 => Just(What::Data), 1 => Just(What::NoData), 1 => Just(What::NxDomain), 1 => Just(What::Failure)
    ];
    let insert = (0..names, 0..3usize, asker(), what, 0..5usize, 1u32..200, 0..bulk).prop_map(
        |(name, qtype, asker, what, rank, ttl, bulk)| Step::Insert {
            name,
            qtype,
            asker,
            what,
            rank,
            ttl,
            bulk,
        },
    );
    let lookup =
        (0..names, 0..3usize, asker()).prop_map(|(name, qtype, asker)| Step::Lookup { name, qtype, asker });
    let flush = (0..names, any::<bool>(), prop::option::of(0..3usize), prop::option::of(0u32..2))
        .prop_map(|(name, tree, qtype, view)| Step::Flush { name, tree, qtype, view });
    let step = prop_oneof![20 => insert, 20 => lookup, 2 => (1u32..60).prop_map(Step::Wait), 1 => flush];
    prop::collection::vec(step, 1..count)
}

impl Pair {
    fn new(bytes: usize, roomy: bool) -> Pair {
        let config = CacheConfig { bytes, shards: 1, max_stale: 100, ..CacheConfig::default() };
        let cache = cache_with(config.clone());
        Pair { cache, config, map: BTreeMap::new(), now: 0, next_id: 0, roomy }
    }

    fn servable(&self, kept: &Kept) -> Option<Freshness> {
        let until = kept.stored + kept.lifetime;
        let stale = if matches!(kept.what, What::Failure) { 0 } else { self.config.max_stale };
        match self.now {
            now if now < until => Some(Freshness::Fresh(until - now)),
            now if now < until + stale => Some(Freshness::Stale(now - until)),
            _ => None,
        }
    }

    /// A response that carries `id` in its records.
    fn answer(&self, step: &Step) -> (Answer, About) {
        let Step::Insert { name, qtype, asker, what, rank, ttl, bulk } = *step else { panic!("no insert") };
        let (owner, qtype) = (owner(name), TYPES[qtype]);
        let mark = |section| Record(section, "id.", Type::A, ttl, self.next_id.to_be_bytes().to_vec());
        let text = || [&[bulk as u8], vec![b'x'; bulk].as_slice()].concat();
        let bulky = |section| Record(section, &owner, Type::TXT, ttl + 7, text());
        let (rcode, section) = match what {
            What::Data => (Rcode::NOERROR, Section::Answer),
            What::NoData => (Rcode::NOERROR, Section::Authority),
            What::NxDomain => (Rcode::NXDOMAIN, Section::Authority),
            What::Failure => (Rcode::SERVFAIL, Section::Additional),
        };
        let message = response(&owner, qtype, rcode, &[mark(section), bulky(section)]);
        let terms = Terms {
            view: asker.0,
            dnssec_ok: asker.1,
            checking_disabled: asker.2,
            rank: Credibility::ALL[rank],
            ttl: if matches!(what, What::Data) { None } else { Some(Ttl::from_secs(ttl)) },
        };
        let about = match what {
            What::NxDomain => Ok(None),
            What::Failure => Err(qtype.0),
            _ => Ok(Some(qtype.0)),
        };
        (Answer::of(&message, &terms).expect("an answer"), (owner, asker, about))
    }

    fn insert(&mut self, step: &Step) {
        let Step::Insert { qtype, what, rank, ttl, .. } = *step else { return };
        let (answer, about) = self.answer(step);
        let rank = Credibility::ALL[rank];
        let rival = match about.2 {
            Ok(None) => Some((about.0.clone(), about.1, Ok(Some(TYPES[qtype].0)))),
            Ok(Some(_)) => Some((about.0.clone(), about.1, Ok(None))),
            Err(_) => None,
        };
        let outranked = |about: &About| {
            let kept = self.map.get(about);
            kept.is_some_and(|kept| self.now < kept.stored + kept.lifetime && kept.rank > rank)
        };
        let refused = outranked(&about) || rival.as_ref().is_some_and(outranked);
        let done = self.cache.insert(answer, at(self.now));
        match done {
            Ok(()) => assert!(!refused || !self.roomy, "a lower rank replaced a higher one"),
            Err(refusal) => {
                assert_eq!(refusal, Refused::Credibility);
                assert!(refused, "nothing of higher rank is there");
                return;
            }
        }
        let failure = self.config.failure;
        let lifetime = if matches!(what, What::Failure) { ttl.clamp(failure.min, failure.max) } else { ttl };
        let kept = Kept { id: self.next_id, stored: self.now, lifetime, rank, what };
        self.next_id += 1;
        rival.map(|rival| self.map.remove(&rival));
        self.map.insert(about, kept);
    }

    fn lookup(&self, name: usize, qtype: usize, asker: Asker) {
        let (text, qtype) = (owner(name), TYPES[qtype]);
        let hashed = hashed(&text);
        let (view, dnssec_ok, checking_disabled) = asker;
        let key = Key { name: &hashed, qtype, qclass: Class::IN, view, dnssec_ok, checking_disabled };
        let of = |about| {
            let kept = self.map.get(&(text.clone(), asker, about))?;
            Some((kept, self.servable(kept)?))
        };
        let (exact, denial) = (of(Ok(Some(qtype.0))), of(Ok(None)));
        let fresh = |found: &(&Kept, Freshness)| matches!(found.1, Freshness::Fresh(_));
        let best = exact.filter(fresh).or(denial.filter(fresh)).or(exact).or(denial);
        let mut room = [0; 1024];
        let copied = self.cache.lookup(&key, at(self.now), &mut room);
        self.check(&text, qtype, copied, &room, &[best, exact, denial]);
        let failed = self.cache.failure(&key, at(self.now), &mut room);
        let failure = of(Err(qtype.0));
        self.check(&text, qtype, failed, &room, &[failure]);
    }

    /// Checks that the result is the first of the possible ones or, if the cache may have evicted that,
    /// another one.
    fn check(
        &self,
        owner: &str,
        qtype: Type,
        lookup: Lookup,
        room: &[u8],
        may: &[Option<(&Kept, Freshness)>],
    ) {
        let Lookup::Hit(hit) = lookup else {
            assert!(!self.roomy || may[0].is_none(), "a small working set is forgotten");
            return;
        };
        let records = seen(&reply(owner, qtype, &hit, &room[..hit.len]));
        let id = u32::from_be_bytes(records[0].4.clone().try_into().expect("the mark"));
        let may = if self.roomy { &may[..1] } else { may };
        let found = may.iter().flatten().find(|(kept, _)| kept.id == id);
        let Some((kept, freshness)) = found else {
            panic!("an answer that was replaced, flushed or has ended")
        };
        assert_eq!((hit.freshness, hit.rank), (*freshness, kept.rank));
        let age = self.now - kept.stored;
        let ttls = records.iter().map(|record| record.3).collect::<Vec<_>>();
        let expected = match (freshness, kept.what) {
            (Freshness::Stale(_), _) => [30, 30],
            (_, What::Data) => [kept.lifetime - age, kept.lifetime + 7 - age],
            _ => [kept.lifetime - age; 2],
        };
        assert_eq!(ttls, expected);
    }

    fn flush(&mut self, step: &Step) {
        let Step::Flush { name: i, tree, qtype, view } = *step else { return };
        let lower = name(&owner(i)).as_name().to_lower();
        let qtype = qtype.map(|qtype| TYPES[qtype]);
        self.cache.flush(&Flush { name: lower.as_lower(), tree, qtype, view });
        self.map.retain(|(owner, asker, about), _| {
            let owner = name(owner).as_name().to_lower();
            let named = if tree {
                owner.as_lower().is_at_or_below(lower.as_lower())
            } else {
                owner.as_lower() == lower.as_lower()
            };
            let typed = match (qtype, *about) {
                (None, _) | (_, Ok(None)) => true,
                (Some(qtype), Ok(Some(held)) | Err(held)) => qtype.0 == held,
            };
            !(named && typed && view.is_none_or(|view| view == asker.0))
        });
    }

    fn count(&self) {
        let (mut entries, mut bytes) = (0, 0);
        // At the start nothing has expired.
        self.cache.for_each(at(0), |held| {
            entries += 1;
            bytes += held.bytes() as u64;
        });
        let stats = self.cache.stats();
        assert_eq!((stats.entries, stats.bytes), (entries, bytes));
        assert!(stats.bytes <= self.config.bytes as u64 && self.cache.reserved() <= self.config.bytes);
        if self.roomy {
            assert_eq!((stats.entries as usize, stats.evictions), (self.map.len(), 0));
        }
    }

    fn run(&mut self, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Insert { .. } => self.insert(step),
                Step::Lookup { name, qtype, asker } => self.lookup(*name, *qtype, *asker),
                Step::Wait(seconds) => self.now += seconds,
                Step::Flush { .. } => self.flush(step),
            }
        }
        self.count();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_cache_with_room_forgets_nothing(steps in steps(24, 200, 400)) {
        Pair::new(2 << 20, true).run(&steps);
    }

    #[test]
    fn a_full_cache_may_forget_but_is_never_wrong(steps in steps(400, 255, 2500)) {
        let mut pair = Pair::new(64 << 10, false);
        pair.run(&steps);
    }
}

#[test]
fn a_working_set_that_fits_is_found_after_a_flood() {
    let cache = cache_of(1 << 20);
    // 500 names with repeated queries take some 60 KiB of a MiB.
    let names: Vec<String> = (0..500).map(|n| format!("set{n}.example.")).collect();
    for name in &names {
        insert(&cache, address(name, 3600, 1, Credibility::Answer), 0).expect("kept");
        assert!(freshness(&cache, name, 0).is_some());
    }
    let mut missed = 0;
    for n in 0..40_000u32 {
        insert(&cache, address(&format!("flood{n}.example."), 3600, n, Credibility::Answer), 0)
            .expect("kept");
        let name = &names[n as usize % names.len()];
        missed += usize::from(freshness(&cache, name, 0).is_none());
    }
    assert_eq!(missed, 0);
    assert!(cache.stats().evictions > 20_000);
}
