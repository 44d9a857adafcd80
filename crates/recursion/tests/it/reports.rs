//! Reports of failed lookups and validations to the agents that the zones' servers name (RFC 9567).

use recursion::{PolicyConfig, ReportLimits, SpecialOff, Unreported, Waiter};
use resolver::{ClientPrefix, LookupRequest};
use wire::{Type, UnixTime};

use crate::support::{QUEUE, ask, query_key};
use crate::validation::{Server, Validated, forged};

const AGENT: [&str; 2] = ["agent.plain.test.", "nsec.test."];
/// The report that `www.nsec.test. A` is bogus.
const REPORT: &str = "_er.1.www.nsec.test.6._er.agent.plain.test. TXT do cd";

fn reporting(policy: &mut PolicyConfig) {
    policy.reports = Some(ReportLimits { per_second: 2, interval: 300 });
}

/// Servers that forge A records in zones with this agent.
fn lying() -> Validated {
    let server: Server = |query_key, reply| forged(query_key, reply, Type::A);
    Validated { server, agent: Some(AGENT), ..Validated::new(reporting) }
}

/// The reports among the upstream queries.
fn reports(with: &Validated) -> Vec<&str> {
    let is_report = |asked: &&str| asked.starts_with("_er.") && asked.contains(" TXT ");
    with.asked.iter().map(String::as_str).filter(is_report).collect()
}

fn counts(with: &Validated) -> (u64, Vec<(&'static str, u64)>) {
    let stats = &with.world.service.stats().reports;
    let unreported = Unreported::ALL.map(|(why, word)| (word, stats.unreported(why).get()));
    (stats.sent.get(), unreported.into_iter().filter(|(_, count)| *count > 0).collect())
}

#[test]
fn what_is_bogus_is_reported_once_and_its_client_does_not_wait_for_that() {
    let mut with = lying();
    with.world.miss(&ask("www.nsec.test. A"));
    let mut answered = None;
    while answered.is_none() {
        with.validations.work(with.world.now(), UnixTime::from_secs(with.wall));
        answered = with.world.late().pop();
        assert!(answered.is_some() || with.answer_one(), "nothing is asked, and there is no answer");
    }
    assert_eq!(answered.map(|reply| reply.says()).as_deref(), Some("SERVFAIL rd ra EDE 6"));
    assert_eq!(with.world.asked(), [REPORT], "it is under way, and no client waits for it");
    with.run();
    assert_eq!(reports(&with), [REPORT]);
    assert_eq!(counts(&with), (1, vec![]));
    // The bogus result is cached for a minute, and then found once more.
    for seconds in [0, 61, 61, 61, 61] {
        with.world.after(seconds);
        with.wall += seconds;
        assert_eq!(with.says("www.nsec.test. A do"), "SERVFAIL rd ra EDE 6");
    }
    assert_eq!(reports(&with), [REPORT]);
    assert_eq!(counts(&with), (1, vec![("repeated", 4)]));
    // The zone plain.test. denies the report's name; the denial is cached. Then the report is sent again.
    with.world.after(7200);
    with.wall += 7200;
    assert_eq!(with.says("www.nsec.test. A do"), "SERVFAIL rd ra EDE 6");
    with.run();
    assert_eq!(reports(&with), [REPORT; 2]);
}

#[test]
fn nobody_is_told_unless_the_operator_wants_it() {
    let mut with = lying();
    with.world.change_policy(|policy| policy.reports = None);
    assert_eq!(with.says("www.nsec.test. A"), "SERVFAIL rd ra EDE 6");
    with.run();
    assert_eq!((reports(&with), counts(&with)), (vec![], (0, vec![])));
}

#[test]
fn one_server_that_lies_is_reported_although_another_does_not() {
    let mut with = Validated { second: Some(|_, reply| Some(reply)), ..lying() };
    assert_eq!(with.says("www.nsec.test. A do"), "NOERROR rd ra ad");
    with.run();
    assert_eq!(reports(&with), [REPORT]);
}

#[test]
fn what_comes_of_a_report_is_not_reported() {
    // The agent's answer is bogus, too, and its servers name an agent.
    let server: Server = |query_key, reply| {
        if query_key.qtype == Type::TXT {
            return Some(reply.without(|line| line.rtype == Type::RRSIG));
        }
        forged(query_key, reply, Type::A)
    };
    let agent = Some(["agent.hash.test.", "nsec.test."]);
    let mut with = Validated { server, agent, ..Validated::new(reporting) };
    with.says("www.nsec.test. A");
    with.run();
    assert_eq!(reports(&with).len(), 1, "{:?}", with.asked);
    assert_eq!(counts(&with), (1, vec![]));
    // A client's query for a report is not reported either.
    let question = "_er.1.www.nsec.test.7._er.agent.hash.test. TXT";
    assert!(with.says(question).starts_with("SERVFAIL rd ra EDE"));
    assert_eq!(counts(&with), (1, vec![("report", 1)]));
}

#[test]
fn what_must_not_be_sent_is_not() {
    let label = "x".repeat(60);
    let long: &str = format!("{label}.{label}.{label}.{label}.test.").leak();
    for (agent, reason) in [
        (["agent.nsec.test.", "nsec.test."], "agent"),
        (["nsec.test.", "nsec.test."], "agent"),
        ([long, "nsec.test."], "length"),
    ] {
        let mut with = Validated { agent: Some(agent), ..lying() };
        with.says("www.nsec.test. A");
        with.run();
        assert_eq!((reports(&with), counts(&with)), (vec![], (0, vec![(reason, 1)])), "{agent:?}");
    }
    let mut with = lying();
    let off = SpecialOff::These(vec![testkit::name("test.").as_name().to_lower()]);
    with.world.change_policy(|policy| policy.local.special_off = off);
    with.agent = Some(["agent.invalid.", "nsec.test."]);
    with.says("www.nsec.test. A");
    with.run();
    assert_eq!((reports(&with), counts(&with)), (vec![], (0, vec![("local", 1)])));
}

#[test]
fn there_are_so_many_in_a_second() {
    let mut with = lying();
    for zone in ["www.nsec.test.", "www.hash.test.", "www.child.nsec.test."] {
        with.says(&format!("{zone} A"));
    }
    with.run();
    assert_eq!((reports(&with).len(), counts(&with)), (2, (2, vec![("rate", 1)])));
}

#[test]
fn what_a_validator_cannot_have_is_reported_with_the_error_that_the_client_is_told() {
    let server: Server = |query_key, reply| (query_key.qtype != Type::DNSKEY).then_some(reply);
    let mut with = Validated { server, agent: Some(AGENT), ..Validated::new(reporting) };
    assert_eq!(with.says("www.nsec.test. A"), "SERVFAIL rd ra EDE 22");
    with.run();
    let report = "_er.1.www.nsec.test.22._er.agent.plain.test. TXT do cd";
    assert_eq!(reports(&with).first(), Some(&report));
}

/// A request that fills a place in the queue.
fn dummy() -> LookupRequest<Waiter> {
    LookupRequest {
        query_key: query_key("dummy. A"),
        recursion_desired: true,
        client: ClientPrefix::of([192, 0, 2, 1].into()),
        patience: None,
        budget: None,
        other_than: None,
        trace: None,
        waiter: Waiter::callback(|_, _| {}),
    }
}

#[test]
fn a_report_that_found_no_place_in_the_queue_was_never_sent_and_is_sent_the_next_time() {
    let mut with = lying();
    with.world.change_policy(|policy| policy.reports = None);
    assert_eq!(with.says("www.nsec.test. A do"), "SERVFAIL rd ra EDE 6", "keys are known now");
    with.world.change_policy(reporting);
    let later = |with: &mut Validated| {
        with.world.after(61);
        with.wall += 61;
    };
    later(&mut with);
    with.world.miss(&ask("www.nsec.test. A do"));
    assert!(with.answer_one());
    with.world.noted.0.lock().expect("one thread").extend(std::iter::repeat_with(dummy).take(QUEUE));
    with.validations.work(with.world.now(), UnixTime::from_secs(with.wall));
    with.world.noted.0.lock().expect("one thread").clear();
    assert_eq!(with.world.later().says(), "SERVFAIL rd ra EDE 6");
    assert_eq!(counts(&with), (0, vec![("queue", 1)]));
    later(&mut with);
    assert_eq!(with.says("www.nsec.test. A do"), "SERVFAIL rd ra EDE 6");
    with.run();
    assert_eq!((reports(&with), counts(&with)), (vec![REPORT], (1, vec![("queue", 1)])));
}
