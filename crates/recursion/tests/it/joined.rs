//! Clients that share a lookup or validation, and their deadlines: on virtual time, with the real resolver.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use recursion::LookupCompletion;
use resolver::{ChaCha, ForwardConfig, ForwardRule, Resolver, ResolverRequest, Upstream};
use transport::{Action, Core, Event, Link};
use wire::message::Parser;
use wire::{NameBuf, UnixTime};

use crate::support::{Ask, ask};
use crate::validation::{TREE, Validated};

/// One server for all names of the tree.
struct Joined {
    with: Validated,
    resolver: Resolver<LookupCompletion, ChaCha>,
    /// The queries that it does not answer.
    silent: Vec<&'static str>,
    /// Unanswered queries.
    held: Vec<(Link, Vec<u8>)>,
    start: Instant,
}

impl Joined {
    fn new(silent: &[&'static str]) -> Joined {
        let with = Validated::new(|_| {});
        let server = Upstream::new(SocketAddr::from(([192, 0, 2, 1], 53)));
        let mut config = ForwardConfig {
            rules: vec![ForwardRule::new(NameBuf::ROOT, vec![server])],
            mixed_case: false,
            cookies: false,
            ..Default::default()
        };
        // So that the query's own deadline decides.
        config.timing.client = Duration::from_secs(60);
        config.limits.tries = 100;
        let resolver = Resolver::new(config, with.world.completion(), ChaCha::new([1; 32]));
        let start = with.world.now();
        Joined { with, resolver, silent: silent.to_vec(), held: Vec::new(), start }
    }

    fn ask(&mut self, id: u16, question: &str) {
        self.with.world.miss(&Ask { id, ..ask(question) });
        self.settle();
    }

    /// The server answers this query from now on, and those it holds.
    fn speak(&mut self, question: &str) {
        self.silent.retain(|silent| *silent != question);
        self.settle();
    }

    /// Does all work that is possible now.
    fn settle(&mut self) {
        loop {
            let now = self.with.world.now();
            self.with.validations.work(now, UnixTime::from_secs(self.with.wall));
            let noted = std::mem::take(&mut *self.with.world.noted.0.lock().expect("one thread"));
            let mut actions = Vec::new();
            for request in noted {
                self.resolver.request(ResolverRequest::Lookup(request), now, &mut actions);
            }
            self.act(actions);
            let is_silent = |query: &[u8]| self.silent.contains(&question(query).as_str());
            let Some(at) = self.held.iter().position(|(_, query)| !is_silent(query)) else { return };
            let (link, query) = self.held.remove(at);
            let mut actions = Vec::new();
            let message = reply(&query);
            self.resolver.event(Event::Message { link, message: &message }, now, &mut actions);
            self.act(actions);
        }
    }

    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Open { .. } => {}
                Action::Send { link, message } => self.held.push((link, message)),
                // No link here has streams.
                Action::Cancel { .. } | Action::Resume { .. } => {}
                Action::Close { link } => self.held.retain(|(held, _)| *held != link),
            }
        }
    }

    /// Advances the time to `millis` after the start, and returns the replies to clients with their times.
    fn until(&mut self, millis: u64) -> Vec<String> {
        let end = self.start + Duration::from_millis(millis);
        let mut told = Vec::new();
        loop {
            self.settle();
            let after = (self.with.world.now() - self.start).as_millis();
            told.extend(
                self.with
                    .world
                    .late()
                    .iter()
                    .map(|reply| format!("{} at {after} ms: {}", reply.id(), reply.says())),
            );
            let deadlines = [self.resolver.deadline(), self.with.validations.deadline()];
            let Some(next) = deadlines.into_iter().flatten().min().filter(|at| *at <= end) else { break };
            self.with.world.set_time(next);
            let mut actions = Vec::new();
            self.resolver.timeout(next, &mut actions);
            self.act(actions);
        }
        self.with.world.set_time(end);
        told
    }
}

/// The query as `www.example. A`.
fn question(query: &[u8]) -> String {
    let (_, mut parser) = Parser::new(query).expect("a header");
    let question = parser.question().expect("a question");
    format!("{} {}", question.name, question.qtype)
}

fn reply(query: &[u8]) -> Vec<u8> {
    let (_, mut parser) = Parser::new(query).expect("a header");
    let question = parser.question().expect("a question");
    let mut message = TREE.reply(question.name.to_buf(), question.qtype).message();
    message[..2].copy_from_slice(&query[..2]);
    message
}

const TEXT: &str = "www.nsec.test. TXT";
const ADDRESS: &str = "www.nsec.test. A";
const KEYS: &str = "nsec.test. DNSKEY";

#[test]
fn a_client_waits_no_longer_than_its_own_time_whatever_it_joins() {
    let mut joined = Joined::new(&[TEXT, KEYS]);
    joined.ask(1, "www.nsec.test. TXT do");
    assert!(joined.until(5_000).is_empty());
    joined.ask(2, "www.nsec.test. A do");
    assert!(joined.until(6_000).is_empty());
    // From now on the first client waits for the keys that the second one's query requested.
    joined.speak(TEXT);
    assert!(joined.until(9_999).is_empty());
    assert_eq!(joined.until(11_000), ["1 at 10000 ms: SERVFAIL rd ra EDE 22"]);
    joined.speak(KEYS);
    assert_eq!(joined.until(11_000), ["2 at 11000 ms: NOERROR rd ra ad"]);
}

#[test]
fn a_client_outlives_the_one_whose_question_for_keys_it_has_joined() {
    let mut joined = Joined::new(&[KEYS]);
    joined.ask(1, "www.nsec.test. TXT do");
    assert!(joined.until(5_000).is_empty());
    joined.ask(2, "www.nsec.test. A do");
    assert_eq!(joined.until(11_000), ["1 at 10000 ms: SERVFAIL rd ra EDE 22"]);
    joined.speak(KEYS);
    assert_eq!(joined.until(11_000), ["2 at 11000 ms: NOERROR rd ra ad"]);
}

#[test]
fn a_client_outlives_the_one_who_waits_for_the_same_answer() {
    let mut joined = Joined::new(&[ADDRESS, KEYS]);
    joined.ask(1, "www.nsec.test. A do");
    assert!(joined.until(5_000).is_empty());
    joined.ask(2, "www.nsec.test. A do");
    assert!(joined.until(6_000).is_empty());
    joined.speak(ADDRESS);
    assert_eq!(joined.until(11_000), ["1 at 10000 ms: SERVFAIL rd ra EDE 22"]);
    joined.speak(KEYS);
    assert_eq!(joined.until(11_000), ["2 at 11000 ms: NOERROR rd ra ad"]);
}

#[test]
fn who_waits_for_keys_in_vain_is_told_in_time_and_nothing_is_left() {
    let mut joined = Joined::new(&[KEYS]);
    joined.ask(1, "www.nsec.test. TXT do");
    joined.ask(2, "www.nsec.test. TXT");
    assert!(joined.until(3_000).is_empty());
    joined.ask(3, "www.nsec.test. A do");
    let told = joined.until(60_000);
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told.iter().all(|told| told.ends_with("SERVFAIL rd ra EDE 22")), "{told:?}");
    assert!(told.iter().take(2).all(|told| told.contains("at 10000 ms")), "{told:?}");
    assert_eq!(joined.with.world.service.unvalidated(), 0);
    assert_eq!(joined.with.validations.deadline(), None);
    assert!(joined.resolver.is_idle());
}
