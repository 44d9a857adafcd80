//! The RFCs' rules on ranks, denials, failures, stale answers and TTLs.

use cache::{Answer, CacheConfig, Credibility, Flush, Freshness, Key, Lifetime, Lookup, Refused};
use wire::message::Section;
use wire::{Class, Rcode, Type};

use crate::support::*;

const W: &str = "www.example.";

#[test]
fn ttls_count_down() {
    let cache = cache_of(1 << 20);
    let message =
        response(W, Type::A, Rcode::NOERROR, &[a(W, 300, 1), a(W, 300, 2), soa("example.", 900, 60)]);
    insert(&cache, Answer::of(&message, &terms(Credibility::Answer, None)).expect("an answer"), 10)
        .expect("kept");
    let (hit, body) = get(&cache, "WWW.example.", Type::A, 110).expect("a hit");
    assert_eq!((hit.freshness, hit.counts, hit.rcode), (Freshness::Fresh(200), [2, 1, 0], Rcode::NOERROR));
    let ttls: Vec<u32> = seen(&reply(W, Type::A, &hit, &body)).into_iter().map(|record| record.3).collect();
    assert_eq!(ttls, [200, 200, 800]);
    assert_eq!(freshness(&cache, W, 309), Some(Freshness::Fresh(1)));
    assert_eq!(freshness(&cache, W, 310), Some(Freshness::Stale(0)));
}

#[test]
fn the_letter_case_is_that_of_the_question() {
    let cache = cache_of(1 << 20);
    insert(&cache, address("wWw.ExAmPlE.", 300, 1, Credibility::Answer), 0).expect("kept");
    let (hit, body) = get(&cache, W, Type::A, 0).expect("a hit");
    assert_eq!(seen(&reply("WWW.EXAMPLE.", Type::A, &hit, &body))[0].1, "WWW.EXAMPLE.");
}

#[test]
fn ttl_zero_is_not_kept_even_if_short_ones_are_raised() {
    let cache = cache_with(CacheConfig {
        bytes: 1 << 20,
        positive: Lifetime { min: 60, max: 3600 },
        negative: Lifetime { min: 60, max: 3600 },
        ..CacheConfig::default()
    });
    assert_eq!(insert(&cache, address(W, 0, 1, Credibility::Answer), 0), Err(Refused::ZeroTtl));
    assert_eq!(insert(&cache, nxdomain(W, Type::A, 0, Credibility::Answer), 0), Err(Refused::ZeroTtl));
    insert(&cache, address(W, 5, 1, Credibility::Answer), 0).expect("kept");
    let (hit, body) = get(&cache, W, Type::A, 10).expect("a hit");
    assert_eq!(addresses(W, &hit, &body), [(1, 50)]);
    insert(&cache, address(W, 100_000, 2, Credibility::Answer), 0).expect("kept");
    let (hit, body) = get(&cache, W, Type::A, 0).expect("a hit");
    assert_eq!(addresses(W, &hit, &body), [(2, 3600)]);
}

#[test]
fn a_ttl_with_its_highest_bit_set_is_zero() {
    let mut message = response(W, Type::A, Rcode::NOERROR, &[a(W, 300, 1)]);
    let ttl = message.len() - 10;
    message[ttl] = 0x80;
    let answer = Answer::of(&message, &terms(Credibility::Answer, None)).expect("an answer");
    assert_eq!(insert(&cache_of(1 << 20), answer, 0), Err(Refused::ZeroTtl));
}

#[test]
fn lower_ranks_do_not_replace_fresh_higher_ones() {
    let cache = cache_of(1 << 20);
    for (low, high) in Credibility::ALL.iter().zip(&Credibility::ALL[1..]) {
        cache.flush(&Flush {
            name: name(".").as_name().to_lower().as_lower(),
            tree: true,
            qtype: None,
            view: None,
        });
        insert(&cache, address(W, 100, 1, *high), 0).expect("kept");
        assert_eq!(insert(&cache, address(W, 100, 2, *low), 99), Err(Refused::Credibility));
        assert_eq!(insert(&cache, nxdomain(W, Type::A, 100, *low), 99), Err(Refused::Credibility));
        let (hit, body) = get(&cache, W, Type::A, 99).expect("a hit");
        assert_eq!((addresses(W, &hit, &body), hit.rank), (vec![(1, 1)], *high));
        insert(&cache, address(W, 100, 3, *high), 99).expect("the same rank replaces");
        insert(&cache, address(W, 100, 4, *low), 199).expect("what has expired has no rank");
        assert_eq!(get(&cache, W, Type::A, 199).map(|(hit, _)| hit.rank), Some(*low));
    }
    assert_eq!(cache.stats().refused_rank, 2 * 4);
}

#[test]
fn nxdomain_holds_for_every_type_and_nodata_for_one() {
    let cache = cache_of(1 << 20);
    insert(&cache, nxdomain(W, Type::A, 300, Credibility::Answer), 0).expect("kept");
    let (hit, body) = get(&cache, W, Type::TXT, 100).expect("denied for every type");
    assert_eq!((hit.rcode, hit.freshness), (Rcode::NXDOMAIN, Freshness::Fresh(200)));
    assert_eq!(seen(&reply(W, Type::TXT, &hit, &body))[0].3, 200, "the SOA counts down with it");

    let message = response("nodata.example.", Type::A, Rcode::NOERROR, &[soa("example.", 900, 300)]);
    let answer = Answer::of(&message, &terms(Credibility::Answer, Some(300))).expect("an answer");
    insert(&cache, answer, 0).expect("kept");
    assert_eq!(get(&cache, "nodata.example.", Type::A, 0).map(|(hit, _)| hit.rcode), Some(Rcode::NOERROR));
    assert_eq!(get(&cache, "nodata.example.", Type::TXT, 0), None);
}

#[test]
fn nxdomain_behind_a_cname_is_of_another_name() {
    let cache = cache_of(1 << 20);
    let target = name("nothing.example.").as_name().as_wire().to_vec();
    let cname = Record(Section::Answer, W, Type::CNAME, 600, target);
    let message = response(W, Type::A, Rcode::NXDOMAIN, &[cname, soa("example.", 300, 300)]);
    insert(&cache, Answer::of(&message, &terms(Credibility::Answer, Some(300))).expect("an answer"), 0)
        .expect("kept");
    assert_eq!(get(&cache, W, Type::A, 0).map(|(hit, _)| hit.rcode), Some(Rcode::NXDOMAIN));
    assert_eq!(get(&cache, W, Type::TXT, 0), None, "the name exists, it has a CNAME");
    let below = hashed("below.www.example.");
    assert_eq!(cache.nxdomain_above(&key(&below, Type::A), at(0), &mut [0; 512]), Lookup::Miss);
}

#[test]
fn nxdomain_for_ds_is_the_word_of_the_zone_above_and_holds_for_ds_alone() {
    let cache = cache_of(1 << 20);
    insert(&cache, nxdomain(W, Type::DS, 300, Credibility::Answer), 0).expect("kept");
    assert_eq!(get(&cache, W, Type::DS, 100).map(|(hit, _)| hit.rcode), Some(Rcode::NXDOMAIN));
    assert_eq!(get(&cache, W, Type::SOA, 100), None, "the zone at the name may be served");
    let below = hashed("below.www.example.");
    assert_eq!(cache.nxdomain_above(&key(&below, Type::A), at(0), &mut [0; 512]), Lookup::Miss);
    // Nor does it contradict an NXDOMAIN of the name, whichever came first.
    insert(&cache, nxdomain(W, Type::A, 300, Credibility::Answer), 100).expect("kept");
    insert(&cache, nxdomain(W, Type::DS, 300, Credibility::Answer), 100).expect("kept");
    assert_eq!(freshness(&cache, W, 100), Some(Freshness::Fresh(300)));
}

#[test]
fn a_name_that_a_dname_makes_too_long_is_kept_like_data() {
    let cache = cache_of(1 << 20);
    let dname = Record(Section::Answer, "example.", Type::DNAME, 600, b"\x04long\0".to_vec());
    let message = response(W, Type::A, Rcode::YXDOMAIN, &[dname]);
    insert(&cache, Answer::of(&message, &terms(Credibility::Answer, None)).expect("an answer"), 0)
        .expect("kept");
    let (hit, body) = get(&cache, W, Type::A, 100).expect("a hit");
    assert_eq!((hit.rcode, hit.negative, hit.freshness), (Rcode::YXDOMAIN, false, Freshness::Fresh(500)));
    assert_eq!(seen(&reply(W, Type::A, &hit, &body)).len(), 1);
}

#[test]
fn data_and_nxdomain_take_each_others_place() {
    let cache = cache_of(1 << 20);
    insert(&cache, nxdomain(W, Type::TXT, 300, Credibility::Answer), 0).expect("kept");
    insert(&cache, address(W, 300, 1, Credibility::Answer), 1).expect("kept");
    assert_eq!(get(&cache, W, Type::TXT, 1), None, "the name exists after all");
    insert(&cache, nxdomain(W, Type::A, 300, Credibility::Answer), 2).expect("kept");
    assert_eq!(get(&cache, W, Type::A, 2).map(|(hit, _)| hit.rcode), Some(Rcode::NXDOMAIN));
    assert_eq!(cache.stats().entries, 1);
}

#[test]
fn a_fresh_denial_is_better_than_stale_data() {
    let cache = cache_of(1 << 20);
    insert(&cache, address(W, 100, 1, Credibility::Answer), 0).expect("kept");
    insert(&cache, nxdomain(W, Type::TXT, 300, Credibility::Answer), 100).expect("kept");
    assert_eq!(get(&cache, W, Type::A, 99).map(|(hit, _)| hit.rcode), Some(Rcode::NOERROR));
    assert_eq!(get(&cache, W, Type::A, 100).map(|(hit, _)| hit.rcode), Some(Rcode::NXDOMAIN));
    assert_eq!(freshness(&cache, W, 400), Some(Freshness::Stale(300)), "both stale: the data");
}

#[test]
fn nxdomain_denies_what_lies_below() {
    let cache = cache_of(1 << 20);
    insert(&cache, nxdomain("gone.example.", Type::A, 300, Credibility::Answer), 0).expect("kept");
    let below = hashed("A.b.gone.example.");
    let mut room = [0; 512];
    let Lookup::Hit(hit) = cache.nxdomain_above(&key(&below, Type::MX), at(100), &mut room) else {
        panic!("the ancestor does not exist");
    };
    let records = seen(&reply("A.b.gone.example.", Type::MX, &hit, &room[..hit.len]));
    assert_eq!((hit.rcode, hit.freshness), (Rcode::NXDOMAIN, Freshness::Fresh(200)));
    assert_eq!((records[0].0, records[0].1.as_str(), records[0].3), (2, "example.", 200));
    assert!(matches!(cache.nxdomain_above(&key(&below, Type::MX), at(100), &mut [0; 9]), Lookup::TooLong(_)));

    let miss = |name: &str, now| {
        let hashed = hashed(name);
        cache.nxdomain_above(&key(&hashed, Type::MX), at(now), &mut [0; 512]) == Lookup::Miss
    };
    assert!(miss("a.b.gone.example.", 300), "stale denials deny nothing else");
    assert!(miss("gone.example.", 0), "the name itself is not above itself");
    assert!(miss("notgone.example.", 0));
}

#[test]
fn failures_are_kept_beside_answers() {
    let cache = cache_of(1 << 20);
    let name = hashed(W);
    let failed = |now| cache.failure(&key(&name, Type::A), at(now), &mut [0; 512]);
    insert(&cache, address(W, 100, 1, Credibility::Answer), 0).expect("kept");
    insert(&cache, failure(W, None), 200).expect("kept");
    assert_eq!(freshness(&cache, W, 200), Some(Freshness::Stale(100)), "the stale answer is still there");
    assert_eq!(
        failed(201).hit().map(|hit| (hit.rcode, hit.freshness)),
        Some((Rcode::SERVFAIL, Freshness::Fresh(1)))
    );
    assert_eq!(failed(202), Lookup::Miss, "2 seconds, and no stale failures");
    insert(&cache, failure(W, Some(1)), 300).expect("kept");
    assert_eq!(
        failed(301).hit().map(|hit| hit.freshness),
        Some(Freshness::Fresh(1)),
        "raised to the shortest time"
    );
    insert(&cache, failure(W, Some(10_000)), 400).expect("kept");
    assert_eq!(
        failed(400).hit().map(|hit| hit.freshness),
        Some(Freshness::Fresh(300)),
        "RFC 9520: no more than 5 minutes"
    );
}

#[test]
fn stale_answers_have_their_own_ttl_and_end() {
    let config = CacheConfig { bytes: 1 << 20, max_stale: 1000, stale_ttl: 30, ..CacheConfig::default() };
    let cache = cache_with(config.clone());
    insert(&cache, address(W, 100, 1, Credibility::Answer), 0).expect("kept");
    let (hit, body) = get(&cache, W, Type::A, 1099).expect("stale");
    assert_eq!((hit.freshness, addresses(W, &hit, &body)), (Freshness::Stale(999), vec![(1, 30)]));
    assert_eq!(get(&cache, W, Type::A, 1100), None);
    let none = cache_with(CacheConfig { max_stale: 0, ..config });
    insert(&none, address(W, 100, 1, Credibility::Answer), 0).expect("kept");
    assert_eq!(freshness(&none, W, 99), Some(Freshness::Fresh(1)));
    assert_eq!(get(&none, W, Type::A, 100), None);
}

#[test]
fn a_popular_entry_near_its_end_is_reported_once() {
    let cache = cache_of(1 << 20);
    let wanted = |now| get(&cache, W, Type::A, now).map(|(hit, _)| hit.prefetch);
    insert(&cache, address(W, 100, 1, Credibility::Answer), 0).expect("kept");
    assert_eq!(wanted(95), Some(false), "it had not been asked for before");
    assert_eq!(wanted(89), Some(false), "more than a tenth is left");
    assert_eq!(
        [wanted(90), wanted(90), wanted(99), wanted(100)],
        [Some(true), Some(false), Some(false), Some(false)]
    );
    insert(&cache, address(W, 100, 2, Credibility::Answer), 100).expect("kept");
    assert_eq!(
        [wanted(189), wanted(190), wanted(191)],
        [Some(false), Some(true), Some(false)],
        "as popular as before"
    );
}

#[test]
fn a_busy_entry_is_reported_although_its_uses_are_no_longer_counted() {
    let cache = cache_of(1 << 20);
    insert(&cache, address(W, 100, 1, Credibility::Answer), 0).expect("kept");
    (0..10).for_each(|_| assert!(get(&cache, W, Type::A, 0).is_some()));
    assert_eq!(get(&cache, W, Type::A, 95).map(|(hit, _)| hit.prefetch), Some(true));
    assert_eq!(get(&cache, W, Type::A, 95).map(|(hit, _)| hit.prefetch), Some(false));
}

#[test]
fn every_part_of_a_key_tells_answers_apart() {
    let cache = cache_of(1 << 20);
    let name = hashed(W);
    let base = key(&name, Type::A);
    let keys = [
        base,
        Key { dnssec_ok: true, ..base },
        Key { checking_disabled: true, ..base },
        Key { view: 1, ..base },
        Key { qclass: Class::CH, ..base },
        Key { qtype: Type::AAAA, ..base },
    ];
    for (i, key) in keys.iter().enumerate() {
        for other in &keys[i..] {
            assert_eq!(get_key(&cache, other, 0), None);
        }
        let mut message = response(W, key.qtype, Rcode::NOERROR, &[a(W, 300, i as u32)]);
        let class = question_end(&message) - 1;
        message[class] = key.qclass.0 as u8;
        let terms = cache::Terms {
            view: key.view,
            dnssec_ok: key.dnssec_ok,
            checking_disabled: key.checking_disabled,
            ..terms(Credibility::Answer, None)
        };
        insert(&cache, Answer::of(&message, &terms).expect("an answer"), 0).expect("kept");
    }
    for (i, key) in keys.iter().enumerate() {
        let (hit, body) = get_key(&cache, key, 0).expect("a hit");
        assert_eq!(addresses(W, &hit, &body), [(i as u32, 300)]);
    }
}

#[test]
fn what_has_no_room_is_not_copied() {
    let cache = cache_of(1 << 20);
    insert(&cache, address(W, 300, 1, Credibility::Answer), 0).expect("kept");
    let name = hashed(W);
    let mut room = [0xee; 15];
    let lookup = cache.lookup(&key(&name, Type::A), at(0), &mut room);
    assert!(matches!(lookup, Lookup::TooLong(hit) if hit.len == 16));
    assert_eq!(room, [0xee; 15]);
    assert!(matches!(cache.lookup(&key(&name, Type::A), at(0), &mut [0; 16]), Lookup::Hit(_)));
}

#[test]
fn flushing_takes_a_name_a_tree_a_type_or_a_realm() {
    let names = ["example.", "www.example.", "a.www.example.", "other."];
    let filled = || {
        let cache = cache_of(1 << 20);
        names
            .iter()
            .for_each(|name| insert(&cache, address(name, 300, 1, Credibility::Answer), 0).expect("kept"));
        insert(&cache, nxdomain("no.www.example.", Type::TXT, 300, Credibility::Answer), 0).expect("kept");
        cache
    };
    let lower = name(W).as_name().to_lower();
    let flush = Flush { name: lower.as_lower(), tree: false, qtype: None, view: None };
    let left = |flush: &Flush<'_>| {
        let cache = filled();
        let dropped = cache.flush(flush);
        assert_eq!(cache.stats().entries as usize, 5 - dropped);
        let mut left: Vec<String> =
            names.iter().filter(|n| freshness(&cache, n, 0).is_some()).map(|n| n.to_string()).collect();
        left.extend(get(&cache, "no.www.example.", Type::A, 0).map(|_| "no".to_owned()));
        left
    };
    assert_eq!(left(&flush), ["example.", "a.www.example.", "other.", "no"]);
    assert_eq!(left(&Flush { tree: true, ..flush }), ["example.", "other."]);
    assert_eq!(
        left(&Flush { tree: true, qtype: Some(Type::TXT), ..flush }),
        ["example.", W, "a.www.example.", "other."]
    );
    assert_eq!(left(&Flush { view: Some(1), ..flush }).len(), 5);
}

#[test]
fn flushing_reaches_every_entry_of_a_large_shard() {
    let cache = cache_of(8 << 20);
    for i in 0..20_000 {
        insert(&cache, address(&format!("n{i}.example."), 300, 1, Credibility::Answer), 0).expect("kept");
    }
    let kept = cache.stats().entries;
    assert!(kept > 10_000, "more than are looked through at once: {kept}");
    let lower = name("example.").as_name().to_lower();
    let all = Flush { name: lower.as_lower(), tree: true, qtype: None, view: None };
    assert_eq!((cache.flush(&all) as u64, cache.stats().entries), (kept, 0));
}

#[test]
fn entries_larger_than_a_quarter_of_the_newcomers_room_are_refused() {
    let cache = cache_of(64 << 10);
    let text = [[255].as_slice(), &[b'x'; 255]].concat().repeat(8);
    let message = response(W, Type::TXT, Rcode::NOERROR, &[Record(Section::Answer, W, Type::TXT, 300, text)]);
    let answer = Answer::of(&message, &terms(Credibility::Answer, None)).expect("an answer");
    assert_eq!(insert(&cache, answer.clone(), 0), Err(Refused::TooLarge));
    assert_eq!(cache.stats().refused_size, 1);
    insert(&cache_of(1 << 20), answer, 0).expect("kept");
}

#[test]
fn the_default_cache_keeps_the_longest_message() {
    let text = [[255].as_slice(), &[b'x'; 255]].concat().repeat(250);
    let message = response(W, Type::TXT, Rcode::NOERROR, &[Record(Section::Answer, W, Type::TXT, 300, text)]);
    let cache = cache_with(CacheConfig::default());
    insert(&cache, Answer::of(&message, &terms(Credibility::Answer, None)).expect("an answer"), 0)
        .expect("kept");
    let (hit, body) = get(&cache, W, Type::TXT, 0).expect("a hit");
    assert_eq!(hit.len, 64_000 + 12);
    assert_eq!(body, message[question_end(&message)..]);
}

#[test]
fn all_bytes_are_within_the_bound_and_nearly_all_of_them_are_used() {
    for (bytes, shards) in [(64 << 10, 1), (1 << 20, 0), (1 << 20, 4), (100_000_000, 0), (256 << 20, 0)] {
        let cache = cache_with(CacheConfig { bytes, shards, ..CacheConfig::default() });
        assert!(cache.reserved() <= bytes, "{} of {bytes}", cache.reserved());
        assert!(cache.reserved() > bytes - bytes / 20, "{} of {bytes}", cache.reserved());
    }
}

#[test]
fn an_alias_that_leads_to_a_denial_keeps_its_own_ttl() {
    let cache = cache_of(1 << 20);
    let alias = Record(Section::Answer, W, Type::CNAME, 3600, b"\x02nx\x07example\0".to_vec());
    let message = response(W, Type::A, Rcode::NXDOMAIN, &[alias, soa("example.", 300, 300)]);
    let denial = Answer::of(&message, &terms(Credibility::Answer, Some(300))).expect("an answer");
    insert(&cache, denial, 0).expect("kept");
    let (hit, body) = get(&cache, W, Type::A, 100).expect("a hit");
    assert_eq!(hit.freshness, Freshness::Fresh(200), "no longer than the denial");
    assert!(hit.negative);
    let ttls: Vec<u32> = seen(&reply(W, Type::A, &hit, &body)).into_iter().map(|record| record.3).collect();
    assert_eq!(ttls, [3500, 200]);
}
