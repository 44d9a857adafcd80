//! Cases of RFC 4035 §4 and §5, RFC 8198, RFC 8767 and RFC 9520 that are easy to get wrong. `peers.rs` runs
//! them against other resolvers, too.

use std::time::Duration;

use resolver::QueryKey;
use testkit::tree::{TreeReply, covered};
use wire::{Rcode, Ttl, Type};

use crate::support::{Reply, ask};
use crate::validation::{Server, Validated, forged};

/// Servers of a tree of zones, their faults over time, and the expected replies.
pub(crate) struct Case {
    pub(crate) title: &'static str,
    /// Serve-stale is on.
    pub(crate) stale: bool,
    pub(crate) steps: &'static [Step],
}

/// A step of a case.
pub(crate) enum Step {
    /// The servers' behaviour from now on. At first they are honest.
    Server(Server),
    /// Seconds that pass.
    After(u64),
    /// A query and its expected reply: response code, flags, extended error.
    Ask(&'static str, &'static str),
}

use Step::{After, Ask};

const fn case(title: &'static str, steps: &'static [Step]) -> Case {
    Case { title, stale: false, steps }
}

const fn stale(title: &'static str, steps: &'static [Step]) -> Case {
    Case { title, stale: true, steps }
}

/// No server replies.
const SILENT: Step = Step::Server(|_, _| None);
/// All servers answer honestly.
const HONEST: Step = Step::Server(|_, reply| Some(reply));
/// The TTLs are one second.
const BRIEF: Step = Step::Server(|_, reply| Some(lasting(reply, 1)));
/// The servers reply with errors.
const FAILING: Step = Step::Server(|_, reply| Some(error(reply, Rcode::SERVFAIL)));
const REFUSING: Step = Step::Server(|_, reply| Some(error(reply, Rcode::REFUSED)));

fn lasting(mut reply: TreeReply, seconds: u32) -> TreeReply {
    reply.lines_mut().for_each(|line| line.ttl = Ttl::from_secs(seconds));
    reply
}

fn error(reply: TreeReply, rcode: Rcode) -> TreeReply {
    TreeReply { rcode, ..reply.without(|_| true) }
}

/// Changes the RDATA of the signatures over `rtype` in replies to queries for that type.
fn signatures(
    query_key: &QueryKey,
    mut reply: TreeReply,
    rtype: Type,
    change: fn(&mut Vec<u8>),
) -> Option<TreeReply> {
    if query_key.qtype == rtype {
        let lines = reply.lines_mut().filter(|line| covered(line) == Some(rtype));
        lines.for_each(|line| change(&mut line.rdata));
    }
    Some(reply)
}

/// Replaces the signer in a signature.
fn signed_by(rdata: &mut Vec<u8>, signer: &str) {
    let end = 18 + wire::Name::parse(&rdata[18..]).expect("a signer").len();
    rdata.splice(18..end, testkit::name(signer).as_name().as_wire().iter().copied());
}

/// RFC 4035 §4 and §5.
const VALIDATION: [Case; 9] = [
    case(
        "what clients receive for data that is secure, insecure and bogus",
        &[
            Step::Server(|query_key, reply| match query_key.name.to_string().ends_with("hash.test.") {
                true => forged(query_key, reply, Type::A),
                false => Some(reply),
            }),
            Ask("www.nsec.test. A", "NOERROR rd ra"),
            Ask("www.nsec.test. A ad", "NOERROR rd ra ad"),
            Ask("www.nsec.test. A do", "NOERROR rd ra ad"),
            Ask("www.plain.test. A", "NOERROR rd ra"),
            Ask("www.plain.test. A ad", "NOERROR rd ra"),
            Ask("www.plain.test. A do", "NOERROR rd ra"),
            Ask("www.hash.test. A", "SERVFAIL rd ra EDE 6"),
            Ask("www.hash.test. A ad", "SERVFAIL rd ra EDE 6"),
            Ask("www.hash.test. A do", "SERVFAIL rd ra EDE 6"),
        ],
    ),
    case(
        "CD has a client get what is bogus, and no other client",
        &[
            Step::Server(|query_key, reply| forged(query_key, reply, Type::A)),
            Ask("www.hash.test. A cd", "NOERROR rd ra cd"),
            Ask("www.hash.test. A", "SERVFAIL rd ra EDE 6"),
            Ask("www.hash.test. A do cd", "NOERROR rd ra cd"),
            Ask("www.hash.test. A do", "SERVFAIL rd ra EDE 6"),
            Ask("www.hash.test. A cd", "NOERROR rd ra cd"),
        ],
    ),
    case(
        "a signature with more labels than its owner has",
        &[
            Step::Server(|query_key, reply| signatures(query_key, reply, Type::A, |rdata| rdata[3] += 1)),
            Ask("www.nsec.test. A do", "SERVFAIL rd ra EDE 6"),
        ],
    ),
    case(
        "a signature by the zone above",
        &[
            Step::Server(|query_key, reply| {
                signatures(query_key, reply, Type::A, |rdata| signed_by(rdata, "test."))
            }),
            Ask("www.nsec.test. A do", "SERVFAIL rd ra EDE 6"),
        ],
    ),
    case(
        "a signature by a zone beside",
        &[
            Step::Server(|query_key, reply| {
                signatures(query_key, reply, Type::A, |rdata| signed_by(rdata, "hash.test."))
            }),
            Ask("www.nsec.test. A do", "SERVFAIL rd ra EDE 10"),
        ],
    ),
    case(
        "a signature that is not good beside one that is",
        &[
            Step::Server(|query_key, mut reply| {
                if query_key.qtype == Type::A {
                    let good = reply.answer.iter().find(|line| covered(line) == Some(Type::A)).cloned();
                    let mut bad = good.expect("a signature");
                    *bad.rdata.last_mut().expect("data") ^= 1;
                    reply.answer.insert(0, bad);
                }
                Some(reply)
            }),
            Ask("www.nsec.test. A do", "NOERROR rd ra ad"),
        ],
    ),
    case(
        "zones whose DS have no algorithm or digest type that is supported",
        &[
            Ask("www.odd.test. A do", "NOERROR rd ra EDE 1"),
            Ask("www.digest.test. A do", "NOERROR rd ra EDE 2"),
            Ask("nothing.odd.test. A do", "NXDOMAIN rd ra EDE 1"),
        ],
    ),
    case(
        "a DNSKEY RRset with a key that its signature does not cover",
        &[
            Step::Server(|query_key, mut reply| {
                if query_key.qtype == Type::DNSKEY && query_key.name.to_string() == "nsec.test." {
                    let mut more = reply.answer.iter().find(|line| line.rtype == Type::DNSKEY).cloned();
                    let more = more.as_mut().expect("a key");
                    *more.rdata.last_mut().expect("data") ^= 1;
                    reply.answer.push(more.clone());
                }
                Some(reply)
            }),
            Ask("www.nsec.test. A do", "SERVFAIL rd ra EDE 6"),
            Ask("www.hash.test. A do", "NOERROR rd ra ad"),
        ],
    ),
    case(
        "signatures that are asked for by themselves are not signed",
        &[Ask("www.nsec.test. RRSIG do", "NOERROR rd ra"), Ask("www.nsec.test. RRSIG", "NOERROR rd ra")],
    ),
];

/// RFC 8198: cached proofs are used while no server replies.
const AGGRESSIVE: [Case; 9] = [
    case(
        "a denial of a name denies names beside it, and none that is there",
        &[
            Ask("nothing.nsec.test. A do", "NXDOMAIN rd ra ad"),
            SILENT,
            Ask("nothing0.nsec.test. A do", "NXDOMAIN rd ra ad"),
            Ask("mail.nsec.test. MX do", "SERVFAIL rd ra EDE 22"),
        ],
    ),
    case(
        "the NSEC of a delegation denies no name below it",
        &[
            Ask("childx.nsec.test. A do", "NXDOMAIN rd ra ad"),
            SILENT,
            Ask("childxx.nsec.test. A do", "NXDOMAIN rd ra ad"),
            Ask("www.child.nsec.test. A do", "SERVFAIL rd ra EDE 22"),
        ],
    ),
    case(
        "the NSEC of a DNAME denies no name below it",
        &[
            Ask("movedx.nsec.test. A do", "NXDOMAIN rd ra ad"),
            SILENT,
            Ask("movedxx.nsec.test. A do", "NXDOMAIN rd ra ad"),
            Ask("x.moved.nsec.test. A do", "SERVFAIL rd ra EDE 22"),
        ],
    ),
    case(
        "a wildcard covers names beside the one that was asked for, and none that is there",
        &[
            Ask("x.wild.nsec.test. A do", "NOERROR rd ra ad"),
            SILENT,
            Ask("y.x.wild.nsec.test. A do", "NOERROR rd ra ad"),
            Ask("here.wild.nsec.test. A do", "SERVFAIL rd ra EDE 22"),
            Ask("*.wild.nsec.test. A do", "SERVFAIL rd ra EDE 22"),
        ],
    ),
    case(
        "a name between has no type, and is there",
        &[
            Ask("ent.nsec.test. A do", "NOERROR rd ra ad"),
            SILENT,
            Ask("ent.nsec.test. TXT do", "NOERROR rd ra ad"),
            Ask("a.deep.ent.nsec.test. A do", "SERVFAIL rd ra EDE 22"),
        ],
    ),
    case(
        "a denial of a type denies all that the name has not",
        &[
            Ask("www.nsec.test. AAAA do", "NOERROR rd ra ad"),
            SILENT,
            Ask("www.nsec.test. MX do", "NOERROR rd ra ad"),
            Ask("www.nsec.test. TXT do", "SERVFAIL rd ra EDE 22"),
        ],
    ),
    case(
        "a span with opt-out denies nothing",
        &[
            Ask("nothing.opt.test. A do", "NXDOMAIN rd ra"),
            SILENT,
            Ask("nosuch.opt.test. A do", "SERVFAIL rd ra EDE 22"),
        ],
    ),
    case(
        "a denial is used no longer than it may be kept",
        &[
            BRIEF,
            Ask("nothing.nsec.test. A do", "NXDOMAIN rd ra ad"),
            After(2),
            SILENT,
            Ask("nothing0.nsec.test. A do", "SERVFAIL rd ra EDE 22"),
        ],
    ),
    case(
        "a denial of DS is not one of the zone",
        &[
            Ask("bare.nsec.test. DS do", "NOERROR rd ra ad"),
            SILENT,
            Ask("bare.nsec.test. A do", "SERVFAIL rd ra EDE 22"),
            Ask("www.bare.nsec.test. A do", "SERVFAIL rd ra EDE 22"),
        ],
    ),
];

/// RFC 8767.
const STALE: [Case; 7] = [
    stale(
        "data, a denial of a type and one of a name are served when no server replies",
        &[
            BRIEF,
            Ask("www.plain.test. A", "NOERROR rd ra"),
            Ask("www.plain.test. AAAA", "NOERROR rd ra"),
            Ask("nothing.plain.test. A", "NXDOMAIN rd ra"),
            After(2),
            SILENT,
            Ask("www.plain.test. A", "NOERROR rd ra EDE 3"),
            Ask("www.plain.test. AAAA", "NOERROR rd ra EDE 3"),
            Ask("nothing.plain.test. A", "NXDOMAIN rd ra EDE 19"),
            Ask("www.plain.test. TXT", "SERVFAIL rd ra EDE 22"),
        ],
    ),
    stale(
        "servers that fail are no better than servers that do not reply",
        &[
            BRIEF,
            Ask("www.plain.test. A", "NOERROR rd ra"),
            After(2),
            FAILING,
            Ask("www.plain.test. A", "NOERROR rd ra EDE 3"),
        ],
    ),
    stale(
        "nor are servers that refuse",
        &[
            BRIEF,
            Ask("www.plain.test. A", "NOERROR rd ra"),
            After(2),
            REFUSING,
            Ask("www.plain.test. A", "NOERROR rd ra EDE 3"),
        ],
    ),
    stale(
        "a denial takes the place of what has expired, and is served itself when it has",
        &[
            BRIEF,
            Ask("www.plain.test. A", "NOERROR rd ra"),
            After(2),
            Step::Server(|query_key, reply| match query_key.qtype {
                Type::A => {
                    let denied = TreeReply { answer: Vec::new(), rcode: Rcode::NXDOMAIN, ..reply };
                    Some(lasting(denied, 1))
                }
                // Keys have expired as well.
                _ => Some(reply),
            }),
            Ask("www.plain.test. A", "NXDOMAIN rd ra"),
        ],
    ),
    stale(
        "an alias that has expired, and what it leads to",
        &[
            BRIEF,
            Ask("alias.plain.test. A", "NOERROR rd ra"),
            After(2),
            SILENT,
            Ask("alias.plain.test. A", "NOERROR rd ra EDE 3"),
        ],
    ),
    stale(
        "records with a TTL of 0 are not served later",
        &[
            Step::Server(|_, reply| Some(lasting(reply, 0))),
            Ask("www.plain.test. A", "NOERROR rd ra"),
            After(2),
            SILENT,
            Ask("www.plain.test. A", "SERVFAIL rd ra EDE 22"),
        ],
    ),
    stale(
        "what has expired does not hide that an answer is bogus",
        &[
            Step::Server(|query_key, reply| match query_key.qtype {
                Type::A => Some(lasting(reply, 1)),
                _ => Some(reply),
            }),
            Ask("www.nsec.test. A do", "NOERROR rd ra ad"),
            After(2),
            Step::Server(|query_key, reply| forged(query_key, reply, Type::A)),
            Ask("www.nsec.test. A do", "SERVFAIL rd ra EDE 6"),
        ],
    ),
];

/// RFC 9520.
const FAILURES: [Case; 4] = [
    case(
        "a failure is one of its question alone",
        &[
            Step::Server(|query_key, reply| (query_key.qtype != Type::A).then_some(reply)),
            Ask("www.plain.test. A", "SERVFAIL rd ra EDE 22"),
            Ask("www.plain.test. TXT", "NOERROR rd ra"),
            Ask("www.plain.test. AAAA", "NOERROR rd ra"),
        ],
    ),
    case(
        "a failure is forgotten",
        &[
            SILENT,
            Ask("www.plain.test. A", "SERVFAIL rd ra EDE 22"),
            HONEST,
            After(6),
            Ask("www.plain.test. A", "NOERROR rd ra"),
        ],
    ),
    case(
        "keys that cannot be had are a failure of their zone alone",
        &[
            Step::Server(|query_key, reply| {
                let is_key = query_key.qtype == Type::DNSKEY && query_key.name.to_string() == "nsec.test.";
                (!is_key).then_some(reply)
            }),
            Ask("www.nsec.test. A do", "SERVFAIL rd ra EDE 22"),
            Ask("www.hash.test. A do", "NOERROR rd ra ad"),
            Ask("www.plain.test. A do", "NOERROR rd ra"),
        ],
    ),
    case(
        "what an alias leads to fails, and the alias does not",
        &[
            Step::Server(|query_key, reply| match query_key.name.to_string().as_str() {
                "www.plain.test." => None,
                "alias.plain.test." => Some(reply.without(|line| line.rtype != Type::CNAME)),
                _ => Some(reply),
            }),
            Ask("alias.plain.test. A", "SERVFAIL rd ra EDE 22"),
            Ask("alias.plain.test. CNAME", "NOERROR rd ra"),
            Ask("mail.plain.test. MX", "NOERROR rd ra"),
        ],
    ),
];

/// All cases.
pub(crate) fn cases() -> impl Iterator<Item = &'static Case> {
    static ALL: [&[Case]; 4] = [&VALIDATION, &AGGRESSIVE, &STALE, &FAILURES];
    ALL.into_iter().flatten()
}

fn with(case: &Case) -> Validated {
    Validated::new(|policy| {
        policy.aggressive_nsec = true;
        policy.stale_after = case.stale.then_some(Duration::from_millis(1800));
    })
}

#[test]
fn clients_get_what_the_cases_say() {
    let mut wrong = Vec::new();
    for case in cases() {
        let mut with = with(case);
        for step in case.steps {
            match step {
                Step::Server(server) => with.server = *server,
                After(seconds) => {
                    with.world.after(*seconds);
                    with.wall += seconds;
                }
                Ask(question, says) => {
                    let said = with.says(question);
                    if said != *says {
                        wrong.push(format!("{}: {question}: {said}, and not {says}", case.title));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// RFC 4035 §5.3.3: at most the signed original TTL, and at most the rest of the signature's validity.
#[test]
fn a_ttl_that_was_raised_on_the_way_is_that_which_is_signed() {
    let mut with = Validated::of(|_, reply| Some(lasting(reply, 80_000)));
    let ttl = |reply: &Reply| reply.ttl().map(|ttl| ttl.as_secs());
    let reply = with.resolve("www.nsec.test. A do");
    assert_eq!((reply.says(), ttl(&reply)), ("NOERROR rd ra ad".into(), Some(3600)));
    let denied = with.resolve("nothing.nsec.test. A do");
    assert!(ttl(&denied) <= Some(3600), "{denied:?}");
    // Unsigned records have no such limit.
    let plain = with.resolve("www.plain.test. A");
    assert_eq!(ttl(&plain), Some(80_000));
    with.wall += 86_400 - 3000;
    let brief = with.resolve("mail.nsec.test. MX do");
    assert!(ttl(&brief) <= Some(3060), "{brief:?}");
}

/// RFC 9520 §3.2: at most five minutes. An operator can flush it before.
#[test]
fn a_failure_that_is_remembered_can_be_flushed() {
    let mut with = Validated::of(|_, _| None);
    assert_eq!(with.says("www.plain.test. A"), "SERVFAIL rd ra EDE 22");
    assert_eq!(with.world.hit(&ask("www.plain.test. A")).says(), "SERVFAIL rd ra EDE 13");
    with.server = |_, reply| Some(reply);
    let name = testkit::name("plain.test.").as_name().to_lower();
    with.world.service.flush(name.as_lower(), true, None);
    assert_eq!(with.says("www.plain.test. A"), "NOERROR rd ra");
}
