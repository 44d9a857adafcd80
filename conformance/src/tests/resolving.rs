//! Tests of the rules for resolvers: for each a case that it excuses and a similar one that it must not.

use super::forwarding::{Says, pointing};
use super::{name, record, world};
use crate::compare::{self, Case, Facet, Resolving};
use crate::explained;
use crate::internet::links::Links;
use crate::internet::sites::Condition;
use crate::name::Name;
use crate::query::{Query, rtype};
use crate::servers::Kind;
use std::collections::BTreeMap;

/// AD, in the flag byte that contains the RCODE.
const AD: u8 = 0x20;

/// Returns the differences between the replies of nomen and of all peers, each with the rule that excuses it.
/// `sound.` is a valid zone, `broken.` has expired, `dead.` has no servers, and `leads.sound.` is a CNAME
/// into it.
fn judged(query: &Query, mine: &Says, theirs: &Says) -> BTreeMap<Facet, Option<&'static str>> {
    judged_again(query, mine, theirs, None)
}

/// Like [`judged`], with nomen's first reply.
fn judged_again(
    query: &Query,
    mine: &Says,
    theirs: &Says,
    first: Option<&Says>,
) -> BTreeMap<Facet, Option<&'static str>> {
    let earlier = first.map(|first| vec![(Kind::Nomen, first.reply(query))]).unwrap_or_default();
    let condition = |zone: &str, condition: Condition| (name(zone), condition);
    let conditions: BTreeMap<Name, Condition> =
        [("sound.", Condition::Secure), ("broken.", Condition::Expired), ("dead.", Condition::Dead)]
            .map(|(zone, is)| condition(zone, is))
            .into();
    let mut links = Links::default();
    links.add("leads.sound. 60 IN CNAME x.dead.");
    let world = world();
    let mut replies = vec![(Kind::Nomen, mine.reply(query))];
    let peers = [Kind::Bind, Kind::Unbound, Kind::Recursor];
    replies.extend(peers.map(|kind| (kind, theirs.reply(query))));
    let resolving = Some(Resolving { earlier, conditions: &conditions, links: &links });
    let case = Case { query, message: None, world: &world, replies, forwarding: None, resolving };
    let rule = |d: &compare::Difference| explained::explain(&case, Kind::Nomen, d).map(|r| r.id);
    compare::differences(&case, Kind::Nomen).iter().map(|d| (d.facet, rule(d))).collect()
}

fn excused(facets: &[Facet], rule: &'static str) -> BTreeMap<Facet, Option<&'static str>> {
    facets.iter().map(|facet| (*facet, Some(rule))).collect()
}

/// The DNAME at `moved.sound.` and the CNAME synthesized for the QNAME, signed.
fn moved(to: &str) -> [Vec<u8>; 2] {
    let target = format!("x.{to}");
    [pointing("moved.sound.", rtype::DNAME, to), pointing("x.moved.sound.", rtype::CNAME, &target)]
}

#[test]
fn the_way_to_a_zone_without_servers_may_take_others_longer_and_may_be_found_later() {
    let leads = Query::plain(name("leads.sound."), rtype::A);
    let other = Query::plain(name("other.sound."), rtype::A);
    let (fails, silent) = (Says::fails(2), Says::silence());
    assert_eq!(judged(&leads, &fails, &silent), excused(&[Facet::Reply], "resolve-without-end"));
    assert!(judged(&other, &fails, &silent).values().any(Option::is_none));
    let mut bogus = Query::plain(name("x.broken."), rtype::A);
    assert_eq!(judged(&bogus, &fails, &silent), excused(&[Facet::Reply], "resolve-without-end"));
    bogus.cd = true;
    assert!(judged(&bogus, &fails, &silent).values().any(Option::is_none));
    let found = Says::answer(&[pointing("leads.sound.", rtype::CNAME, "x.dead.")]);
    let again = judged_again(&leads, &found, &found, Some(&fails));
    assert_eq!(again, excused(&[Facet::Rcode, Facet::Answer], "resolve-found-since"));
    let found = Says::answer(&[pointing("other.sound.", rtype::CNAME, "x.sound.")]);
    assert!(judged_again(&other, &found, &found, Some(&fails)).values().any(Option::is_none));
}

#[test]
fn a_cname_that_a_dname_makes_is_what_was_asked_for_and_others_may_go_on() {
    const RULE: &str = "resolve-cname-of-dname";
    let query = Query::plain(name("x.moved.sound."), rtype::CNAME);
    let judge = |mine: &Says, theirs: &Says| judged(&query, mine, theirs);
    let mine = Says::answer(&moved("tree.sound."));
    let next = pointing("x.tree.sound.", rtype::CNAME, "end.sound.");
    let further = Says::answer(&[&moved("tree.sound.")[..], std::slice::from_ref(&next)].concat());
    assert_eq!(judge(&mine, &further), excused(&[Facet::Answer], RULE));
    assert_eq!(judge(&mine, &further.clone().rcode(3)), excused(&[Facet::Rcode, Facet::Answer], RULE));
    assert_eq!(judge(&mine, &Says::fails(2)), excused(&[Facet::Rcode, Facet::Answer], RULE));
    assert_eq!(judge(&mine.clone().rcode(AD), &further), excused(&[Facet::Ad, Facet::Answer], RULE));
    let is_bad = |mine: &Says, theirs: &Says| judge(mine, theirs).values().any(Option::is_none);
    assert!(is_bad(&mine, &further.clone().rcode(AD)), "AD that the subject lacks");
    assert!(is_bad(&mine, &further.clone().rcode(5)));
    assert!(is_bad(&further, &mine), "it is the subject that goes on");
    assert!(is_bad(&mine.clone().rcode(3), &further));
    let other = Says::answer(&[&moved("other.sound.")[..], &[next]].concat());
    assert!(is_bad(&mine, &other), "another target");
    assert!(is_bad(&Says::answer(&moved("tree.sound.")[..1]), &further), "without the CNAME");
    let query = Query::plain(name("x.moved.sound."), rtype::A);
    assert!(judged(&query, &mine, &further).values().any(Option::is_none), "another type");
}

#[test]
fn dname_below_a_dname_is_followed_or_not_and_fails_where_that_leads_to_a_broken_zone() {
    const RULE: &str = "resolve-dname-type";
    let query = Query::plain(name("x.moved.sound."), rtype::DNAME);
    let judge = |mine: &Says, theirs: &Says| judged(&query, mine, theirs);
    let itself = |to: &str| Says::answer(&moved(to)[..1]);
    let followed = Says::answer(&moved("tree.sound."));
    let answer = excused(&[Facet::Answer], RULE);
    assert_eq!(judge(&followed, &itself("tree.sound.")), answer);
    assert_eq!(judge(&followed, &Says::fails(2)), excused(&[Facet::Rcode, Facet::Answer], RULE));
    let unsigned = judge(&followed, &itself("tree.sound.").rcode(AD));
    assert_eq!(unsigned, excused(&[Facet::Ad, Facet::Answer], RULE), "where it leads nothing is signed");
    let failed = judge(&Says::fails(2), &itself("tree.broken."));
    assert_eq!(failed, excused(&[Facet::Rcode, Facet::Answer], RULE));
    let is_bad = |mine: &Says, theirs: &Says| judge(mine, theirs).values().any(Option::is_none);
    assert!(is_bad(&Says::fails(2), &itself("tree.sound.")), "nothing is broken there");
    assert!(is_bad(&itself("tree.sound."), &followed), "it is to be followed");
    assert!(is_bad(&followed, &itself("other.sound.")), "another target");
    assert!(is_bad(&followed, &Says::default()), "no DNAME");
    assert!(is_bad(&followed, &followed.clone().rcode(AD)), "the same with AD");
    let text = record("x.tree.sound.", rtype::TXT, 300, &[1, b'x']);
    let query = Query::plain(name("x.moved.sound."), rtype::TXT);
    let more = Says::answer(&[&moved("tree.sound.")[..], &[text]].concat());
    assert!(judged(&query, &followed, &more).values().any(Option::is_none), "another type");
}

#[test]
fn with_cd_what_is_broken_is_answered_unless_nobody_has_it() {
    let query = Query { cd: true, ..Query::plain(name("www.broken."), rtype::A) };
    let found = Says::answer(&[record("www.broken.", rtype::A, 300, &[192, 0, 2, 1])]);
    let facets = [Facet::Rcode, Facet::Answer];
    assert_eq!(judged(&query, &found, &Says::fails(2)), excused(&facets, "resolve-cd-bogus"));
    let is_bad = |query: &Query| judged(query, &found, &Says::fails(2)).values().any(Option::is_none);
    assert!(is_bad(&Query { cd: false, ..query.clone() }));
    assert!(is_bad(&Query { name: name("www.sound."), ..query }));
}
