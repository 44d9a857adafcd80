//! Servers of one zone that answer differently, and DS from referrals.

use std::sync::Mutex;

use resolver::QueryKey;
use testkit::answers::Line;
use testkit::name;
use testkit::tree::{TreeReply, covered};
use wire::{Rcode, Type};

use crate::support::ask;
use crate::validation::{Server, TREE, Validated, forged};

/// Breaks the signatures over one type.
fn badly_signed(query_key: &QueryKey, mut reply: TreeReply, rtype: Type) -> Option<TreeReply> {
    if query_key.qtype == rtype {
        let lines = reply.lines_mut().filter(|line| covered(line) == Some(rtype));
        lines.for_each(|line| *line.rdata.last_mut().expect("data") ^= 1);
    }
    Some(reply)
}

fn again_and_mended(with: &Validated) -> [u64; 2] {
    let stats = &with.world.service.stats().validation;
    [&stats.again, &stats.mended].map(|count| count.get())
}

#[test]
fn one_bad_server_does_not_make_a_zone_bogus() {
    let bad: [Server; 4] = [
        |query_key, reply| forged(query_key, reply, Type::A),
        |query_key, reply| badly_signed(query_key, reply, Type::A),
        |query_key, reply| match query_key.qtype {
            Type::A => Some(reply.without(|line| line.rtype == Type::RRSIG)),
            _ => Some(reply),
        },
        |query_key, reply| match query_key.qtype {
            Type::A => Some(reply.without(|line| line.rtype == Type::A)),
            _ => Some(reply),
        },
    ];
    for server in bad {
        let mut with = Validated { second: Some(|_, reply| Some(reply)), ..Validated::of(server) };
        assert_eq!(with.says("www.nsec.test. A do"), "NOERROR rd ra ad");
        assert_eq!((with.counts(), again_and_mended(&with)), ([1, 0, 0, 0], [1, 1]));
        assert_eq!(with.world.hit(&ask("www.nsec.test. A do")).says(), "NOERROR rd ra ad", "it is kept");
        let once = with.asked.iter().filter(|asked| *asked == "!www.nsec.test. A do cd");
        assert_eq!(once.count(), 1, "{:?}", with.asked);
    }
}

#[test]
fn neither_do_its_keys_or_those_that_lead_there() {
    let bad: [Server; 2] = [
        |query_key, reply| badly_signed(query_key, reply, Type::DNSKEY),
        |query_key, reply| badly_signed(query_key, reply, Type::DS),
    ];
    for server in bad {
        let mut with = Validated { second: Some(|_, reply| Some(reply)), ..Validated::of(server) };
        assert_eq!(with.says("www.nsec.test. A do"), "NOERROR rd ra ad", "{:?}", with.asked);
        assert_eq!(with.counts(), [1, 0, 0, 0]);
        assert!(again_and_mended(&with)[0] >= 2, "for test. and nsec.test.");
    }
}

#[test]
fn a_server_that_fails_for_keys_or_ds_does_not_end_the_answer() {
    type Change = fn(TreeReply) -> Option<TreeReply>;
    let bad: [(&str, Change); 8] = [
        ("empty", |reply| Some(reply.without(|_| true))),
        ("unsigned", |reply| Some(reply.without(|line| line.rtype == Type::RRSIG))),
        ("NXDOMAIN", |reply| Some(TreeReply { rcode: Rcode::NXDOMAIN, ..reply.without(|_| true) })),
        ("NXDOMAIN with it", |reply| Some(TreeReply { rcode: Rcode::NXDOMAIN, ..reply })),
        ("YXDOMAIN", |reply| Some(TreeReply { rcode: Rcode::YXDOMAIN, ..reply.without(|_| true) })),
        ("no RRset", |reply| Some(reply.without(|line| line.rtype != Type::RRSIG))),
        ("forged", |mut reply| {
            reply.answer.iter_mut().for_each(|line| *line.rdata.last_mut().expect("data") ^= 1);
            Some(reply)
        }),
        ("the zone's own denial", |_| Some(TREE.reply(name("nsec.test."), Type::TXT))),
    ];
    static CHANGE: Mutex<Option<(Type, Change)>> = Mutex::new(None);
    let mut wrong = Vec::new();
    for rtype in [Type::DNSKEY, Type::DS] {
        for (what, change) in bad {
            *CHANGE.lock().expect("one thread") = Some((rtype, change));
            let server: Server = |query_key, reply| {
                let (rtype, change) = CHANGE.lock().expect("one thread").expect("a change");
                if query_key.qtype == rtype { change(reply) } else { Some(reply) }
            };
            let mut with = Validated { second: Some(|_, reply| Some(reply)), ..Validated::of(server) };
            let says = with.says("www.nsec.test. A do");
            if says != "NOERROR rd ra ad" {
                wrong.push(format!("{rtype} {what}: {says}, asked {:?}", with.asked));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Spoils the part of a reply behind an alias; the function tells which records belong to it.
type BadTail = fn(TreeReply, fn(&Line) -> bool) -> TreeReply;

/// Links of every kind: owner and target.
const LINKS: [[&str; 2]; 3] = [["alias.", "www."], ["x.moved.", "x.wild."], ["x.walias.", "www."]];

#[test]
fn a_bad_tail_of_an_alias_chain_is_looked_up_by_itself() {
    static CASE: Mutex<Option<(BadTail, [String; 2])>> = Mutex::new(None);
    fn is_tail(line: &Line) -> bool {
        let case = CASE.lock().expect("one thread");
        let tail = case.as_ref().map(|(_, [_, tail])| name(tail));
        tail.is_some_and(|tail| line.owner == tail) || line.rtype == Type::SOA
    }
    let bad: [BadTail; 3] = [
        |mut reply, is_tail| {
            let tail = reply.lines_mut().filter(|line| is_tail(line));
            tail.for_each(|line| *line.rdata.last_mut().expect("data") ^= 1);
            reply
        },
        |reply, is_tail| reply.without(|line| is_tail(line) && line.rtype == Type::RRSIG),
        |reply, is_tail| reply.without(|line| is_tail(line) && line.rtype != Type::RRSIG),
    ];
    let server: Server = |query_key, reply| {
        let case = CASE.lock().expect("one thread").clone().expect("a case");
        let (change, [first, _]) = case;
        let is_first = query_key.name.to_string() == first;
        Some(if is_first { change(reply, is_tail) } else { reply })
    };
    let zones = ["nsec.test.", "hash.test."];
    let links = zones.iter().flat_map(|zone| LINKS.map(|link| link.map(|owner| format!("{owner}{zone}"))));
    for (n, change) in bad.into_iter().enumerate() {
        for (link, second) in links.clone().flat_map(|link| [(link.clone(), None), (link, Some(server))]) {
            *CASE.lock().expect("one thread") = Some((change, link.clone()));
            let [first, tail] = link;
            let mut with = Validated { second, ..Validated::of(server) };
            let reply = with.resolve(&format!("{first} A do"));
            assert_eq!(reply.says(), "NOERROR rd ra ad", "{n} {first}: {:?}", with.asked);
            let has = |owner: &str| reply.answers().iter().any(|line| line.starts_with(owner));
            assert!(has(&first) && has(&tail), "{n} {first}: {reply:?}");
            assert!(with.asked.iter().any(|asked| asked.starts_with(&tail)), "{n}: {:?}", with.asked);
            let again = with.world.hit(&ask(&format!("{first} A do")));
            assert_eq!(again.says(), "NOERROR rd ra ad", "{first} is kept");
        }
    }
}

/// The proof that a wildcard covers an alias is a part of the link.
#[test]
fn an_alias_of_a_wildcard_without_its_proof_is_bogus() {
    for zone in ["nsec.test.", "hash.test."] {
        let bad: Server = |query_key, reply| match query_key.name.to_string().starts_with("x.walias.") {
            true => Some(reply.without(|line| {
                let proofs = [Type::NSEC, Type::NSEC3];
                proofs.contains(&line.rtype) || covered(line).is_some_and(|rtype| proofs.contains(&rtype))
            })),
            false => Some(reply),
        };
        let mut with = Validated { second: Some(bad), ..Validated::of(bad) };
        assert_eq!(with.says(&format!("x.walias.{zone} A do")), "SERVFAIL rd ra EDE 12", "{:?}", with.asked);
        assert!(!with.asked.iter().any(|asked| asked.starts_with("www")), "{:?}", with.asked);
    }
}

#[test]
fn a_chain_whose_first_link_is_bad_is_bogus() {
    let bad: Server = |query_key, mut reply| {
        if query_key.name.to_string().starts_with("alias") {
            let link = reply.lines_mut().filter(|line| covered(line) == Some(Type::CNAME));
            link.for_each(|line| *line.rdata.last_mut().expect("data") ^= 1);
        }
        Some(reply)
    };
    let mut with = Validated::of(bad);
    assert_eq!(with.says("alias.nsec.test. A do"), "SERVFAIL rd ra EDE 6");
    assert!(!with.asked.iter().any(|asked| asked.starts_with("www")), "{:?}", with.asked);
    // The same if the target alone is bogus.
    let bad: Server = |query_key, reply| forged(query_key, reply, Type::A);
    let mut with = Validated::of(bad);
    assert_eq!(with.says("alias.nsec.test. A do"), "SERVFAIL rd ra EDE 6");
}

#[test]
fn where_both_are_bad_it_is_bogus_and_nobody_is_asked_a_third_time() {
    let bad: Server = |query_key, reply| forged(query_key, reply, Type::A);
    for second in [None, Some(bad)] {
        let mut with = Validated { second, ..Validated::of(bad) };
        assert_eq!(with.says("www.nsec.test. A do"), "SERVFAIL rd ra EDE 6");
        let again = u64::from(second.is_some());
        assert_eq!((with.counts(), again_and_mended(&with)), ([0, 0, 1, 0], [again, 0]));
        let of_it = with.asked.iter().filter(|asked| asked.contains("www.nsec.test. A")).count();
        assert_eq!(of_it, 2, "{:?}", with.asked);
        let asked = with.asked.len();
        assert_eq!(with.says("www.nsec.test. A"), "SERVFAIL rd ra EDE 6");
        assert_eq!(with.asked.len(), asked, "it is remembered");
    }
}

#[test]
fn the_first_verdict_is_told_if_the_second_is_no_better() {
    let unsigned: Server = |query_key, reply| match query_key.qtype {
        Type::A => Some(reply.without(|line| line.rtype == Type::RRSIG)),
        _ => Some(reply),
    };
    let second: Server = |query_key, reply| forged(query_key, reply, Type::A);
    let mut with = Validated { second: Some(second), ..Validated::of(unsigned) };
    assert_eq!(with.says("www.nsec.test. A do"), "SERVFAIL rd ra EDE 10");
}

#[test]
fn a_second_answer_is_not_sought_where_it_cannot_help() {
    // The keys of the zone are bogus at every server: another answer changes nothing.
    let bad: Server = |query_key, reply| badly_signed(query_key, reply, Type::DNSKEY);
    let mut with = Validated { second: Some(bad), ..Validated::of(bad) };
    assert_eq!(with.says("www.nsec.test. A do"), "SERVFAIL rd ra EDE 6");
    assert!(!with.asked.iter().any(|asked| asked.starts_with("!www")), "{:?}", with.asked);
    // A limit was reached already.
    let mut with = Validated::new(|policy| policy.validation.limits.signatures = 2);
    with.second = Some(|_, reply| Some(reply));
    assert_eq!(with.says("www.nsec.test. A do"), "SERVFAIL rd ra EDE 6");
    assert!(!with.asked.iter().any(|asked| asked.starts_with("!www")), "{:?}", with.asked);
}

#[test]
fn all_who_wait_share_the_second_answer_too() {
    let mut with = Validated {
        second: Some(|_, reply| Some(reply)),
        ..Validated::of(|query_key, reply| forged(query_key, reply, Type::A))
    };
    for question in ["www.nsec.test. A", "www.nsec.test. A do", "www.nsec.test. A ad"] {
        with.world.miss(&ask(question));
    }
    with.run();
    let mut says: Vec<String> = with.world.late().iter().map(crate::support::Reply::says).collect();
    says.sort();
    assert_eq!(says, ["NOERROR rd ra", "NOERROR rd ra ad", "NOERROR rd ra ad"]);
    assert_eq!((with.counts(), again_and_mended(&with)), ([1, 0, 0, 0], [1, 1]));
}

#[test]
fn ds_that_came_with_referrals_are_not_asked_for() {
    for (question, says, asked) in [
        ("www.nsec.test. A do", "NOERROR rd ra ad", &[". DNSKEY", "test. DNSKEY", "nsec.test. DNSKEY"][..]),
        ("www.child.nsec.test. A do", "NOERROR rd ra ad", &["child.nsec.test. DNSKEY"]),
        ("www.plain.test. A do", "NOERROR rd ra", &[". DNSKEY", "test. DNSKEY"]),
        ("www.bare.nsec.test. A do", "NOERROR rd ra", &["nsec.test. DNSKEY"]),
        ("nothing.hash.test. A do", "NXDOMAIN rd ra ad", &["hash.test. DNSKEY"]),
    ] {
        let mut with = Validated { referral: Some(|reply| reply), ..Validated::new(|_| {}) };
        assert_eq!(with.says(question), says);
        assert!(!with.asked.iter().any(|asked| asked.contains(" DS")), "{:?}", with.asked);
        for wanted in asked {
            assert!(with.asked.iter().any(|asked| asked.starts_with(wanted)), "{wanted}: {:?}", with.asked);
        }
        assert!(with.world.service.stats().validation.referrals.get() > 0);
    }
}

#[test]
fn a_referral_that_lies_is_not_believed() {
    let lies: [fn(TreeReply) -> TreeReply; 3] = [
        |reply| reply.without(|line| line.rtype == Type::RRSIG),
        |mut reply| {
            reply.lines_mut().filter(|line| line.rtype == Type::DS).for_each(|line| line.rdata[4] ^= 1);
            reply
        },
        |reply| reply.without(|line| line.rtype == Type::DS || covered(line) == Some(Type::DS)),
    ];
    for lie in lies {
        let mut with = Validated { referral: Some(lie), ..Validated::new(|_| {}) };
        assert_eq!(with.says("www.nsec.test. A do"), "NOERROR rd ra ad");
        assert!(with.asked.iter().any(|asked| asked.starts_with("nsec.test. DS")), "{:?}", with.asked);
    }
}
