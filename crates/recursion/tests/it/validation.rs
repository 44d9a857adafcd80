//! Validation before clients get answers, with the signed zones of [`testkit::tree`].

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use recursion::{Domain, PolicyConfig, SpecialOff, Validations};
use resolver::{
    AnsweredBy, LookupFailure, LookupOutcome, Partition, QueryKey, ReferralProof, ReportAgent, Scope,
    referral_proof, scrub,
};
use testkit::name;
use testkit::tree::{NOW, Tree, TreeReply, covered};
use validator::{InsecureReason, TrustAnchors};
use wire::{Name, Rcode, Ttl, Type, UnixTime};

use crate::support::{Ask, Reply, World, ask, query_key, show_inquiry};

pub(crate) static TREE: LazyLock<Tree> = LazyLock::new(Tree::new);

/// Changes the honest reply to a query; `None`: no reply.
pub(crate) type Server = fn(&QueryKey, TreeReply) -> Option<TreeReply>;

/// A world that validates all names, and the servers of the tree.
pub(crate) struct Validated {
    pub(crate) world: World,
    pub(crate) validations: Validations,
    pub(crate) server: Server,
    /// Another server of the same zones, if there is one.
    pub(crate) second: Option<Server>,
    /// The agent that the servers name, and its zone.
    pub(crate) agent: Option<[&'static str; 2]>,
    /// Makes the referral to a zone, if answers come with the referrals that led to them.
    pub(crate) referral: Option<fn(TreeReply) -> TreeReply>,
    /// The lookups so far; a `!` in front: at the second server.
    pub(crate) asked: Vec<String>,
    pub(crate) wall: u64,
}

/// The zones of the tree.
const ZONES: [&str; 6] =
    ["test.", "nsec.test.", "child.nsec.test.", "bare.nsec.test.", "hash.test.", "plain.test."];

/// Validates all names from the tree's root down.
fn validating(policy: &mut PolicyConfig) {
    policy.domains = vec![validated(".")];
    policy.local.special_off = SpecialOff::All;
    policy.validation.anchors = TREE.anchors();
}

fn validated(domain: &str) -> Domain {
    Domain { name: name(domain), partition: Partition::SHARED, trust_ad: false, validate: true }
}

impl Validated {
    pub(crate) fn new(change: impl FnOnce(&mut PolicyConfig)) -> Self {
        let world = World::new(|policy| {
            validating(policy);
            change(policy);
        });
        let validations = world.service.validations();
        Validated {
            world,
            validations,
            server: |_, reply| Some(reply),
            second: None,
            agent: None,
            referral: None,
            asked: Vec::new(),
            wall: NOW.into(),
        }
    }

    pub(crate) fn of(server: Server) -> Self {
        Validated { server, ..Validated::new(|_| {}) }
    }

    /// Returns the server's outcome of a lookup.
    pub(crate) fn outcome(&self, query_key: &QueryKey) -> LookupOutcome {
        self.outcome_of(query_key, None)
    }

    /// Returns the outcome at a server other than `other_than`.
    fn outcome_of(&self, query_key: &QueryKey, other_than: Option<AnsweredBy>) -> LookupOutcome {
        let honest = TREE.reply(query_key.name.into(), query_key.qtype);
        let server = match (other_than, self.second) {
            (None, _) => self.server,
            (Some(_), Some(second)) => second,
            (Some(_), None) => return LookupOutcome::Failed(LookupFailure::NoOtherServer),
        };
        let Some(reply) = server(query_key, honest) else {
            return LookupOutcome::Failed(LookupFailure::NoReply);
        };
        let covers = |domain: &&Domain| query_key.name.as_name().is_at_or_below(domain.name.as_name());
        let rules = self.world.policy.domains.iter().filter(covers);
        let domain = rules.max_by_key(|domain| domain.name.as_name().label_count()).expect("a rule");
        let (domain, sent) = (domain.name.as_name(), query_key.name.as_name());
        let scope = Scope {
            domain,
            sent,
            records_per_set: 256,
            max_ttl: 86_400,
            max_negative_ttl: 10_800,
            border: None,
        };
        match scrub(&reply.message(), query_key, reply.rcode, &scope) {
            Ok(answer) => {
                let last = if other_than.is_some() { 2 } else { 1 };
                let by = Some(AnsweredBy::Server(([192, 0, 2, last], 53).into()));
                let (agent, referrals) = (self.agent(), self.referrals(query_key));
                LookupOutcome::Answered(Arc::new(resolver::ScrubbedAnswer { by, agent, referrals, ..answer }))
            }
            // After a useless reply the resolver tries the next server in the same lookup.
            Err(_) if other_than.is_none() && self.second.is_some() => {
                self.outcome_of(query_key, Some(AnsweredBy::Server(([192, 0, 2, 1], 53).into())))
            }
            Err(fault) => LookupOutcome::Failed(LookupFailure::BadReply(fault)),
        }
    }

    fn agent(&self) -> Option<Box<ReportAgent>> {
        let [domain, zone] = self.agent?.map(|text| name(text).as_name().to_lower());
        Some(Box::new(ReportAgent { domain, zone }))
    }

    /// The referrals' proofs about DS on the way to an answer.
    fn referrals(&self, query_key: &QueryKey) -> Vec<ReferralProof> {
        let Some(made) = self.referral else { return Vec::new() };
        let from = match query_key.qtype {
            Type::DS => query_key.name.as_name().parent().unwrap_or(Name::ROOT),
            _ => query_key.name.as_name(),
        };
        let zones = ZONES.into_iter().filter(|zone| from.is_at_or_below(name(zone).as_name()));
        let proof = |zone| {
            let message = made(TREE.referral(name(zone))).message();
            let parent = name(zone).as_name().parent().expect("not the root").to_buf();
            let (domain, sent) = (parent.as_name(), query_key.name.as_name());
            let scope = Scope {
                domain,
                sent,
                records_per_set: 256,
                max_ttl: 86_400,
                max_negative_ttl: 10_800,
                border: None,
            };
            referral_proof(&message, &name(zone).as_name().to_lower(), query_key, &scope)
        };
        zones.filter_map(proof).collect()
    }

    fn work(&mut self) {
        self.world.wall.store(self.wall, Relaxed);
        self.validations.work(self.world.now(), UnixTime::from_secs(self.wall));
    }

    /// Answers lookups until none is pending.
    pub(crate) fn run(&mut self) {
        loop {
            self.work();
            if !self.answer_one() {
                break;
            }
        }
    }

    /// Answers the oldest lookup; returns whether there was one.
    pub(crate) fn answer_one(&mut self) -> bool {
        let noted = self.world.noted.0.lock().expect("one thread");
        let next = noted.first().map(|request| (request.query_key, request.other_than));
        drop(noted);
        let Some((query_key, other_than)) = next else { return false };
        let mark = if other_than.is_some() { "!" } else { "" };
        self.asked.push(format!("{mark}{}", show_inquiry(&query_key)));
        let outcome = self.outcome_of(&query_key, other_than);
        self.world.wall.store(self.wall, Relaxed);
        self.world.end(&query_key, &outcome);
        true
    }

    /// Returns the answer to a query, at once or later.
    pub(crate) fn resolve(&mut self, question: &str) -> Reply {
        match self.world.ask(&ask(question)) {
            Some(reply) => reply,
            None => {
                self.run();
                self.world.later()
            }
        }
    }

    /// Returns the answer in short.
    pub(crate) fn says(&mut self, question: &str) -> String {
        self.resolve(question).says()
    }

    pub(crate) fn counts(&self) -> [u64; 4] {
        let stats = &self.world.service.stats().validation;
        [&stats.secure, &stats.insecure, &stats.bogus, &stats.indeterminate].map(|count| count.get())
    }
}

/// Changes the last byte of RDATA of the queried records of one type.
pub(crate) fn forged(query_key: &QueryKey, mut reply: TreeReply, rtype: Type) -> Option<TreeReply> {
    if query_key.qtype == rtype {
        let lines = reply.answer.iter_mut().filter(|line| line.rtype == rtype);
        lines.for_each(|line| *line.rdata.last_mut().expect("data") ^= 1);
    }
    Some(reply)
}

fn has_signatures(reply: &Reply) -> bool {
    reply.answers().iter().chain(&reply.authorities()).any(|line| line.contains("RRSIG"))
}

#[test]
fn what_is_secure_is_said_to_those_who_understand_it() {
    let mut with = Validated::new(|_| {});
    let first = with.resolve("www.nsec.test. A");
    assert_eq!((first.says(), has_signatures(&first)), ("NOERROR rd ra".into(), false));
    let needs = ["test. DS", ". DNSKEY", "test. DNSKEY", "nsec.test. DS", "nsec.test. DNSKEY"];
    for need in needs {
        assert!(with.asked.iter().any(|asked| asked.starts_with(need)), "{need}: {:?}", with.asked);
    }
    assert!(with.asked.iter().all(|asked| asked.ends_with(" do cd")), "{:?}", with.asked);
    let signed = with.resolve("www.nsec.test. A do");
    assert_eq!((signed.says(), has_signatures(&signed)), ("NOERROR rd ra ad".into(), true));
    assert_eq!(with.asked.len(), 7, "keys are known by now: {:?}", with.asked);
    // From the cache.
    assert_eq!(with.world.hit(&ask("www.nsec.test. A")).says(), "NOERROR rd ra");
    let plain = with.world.hit(&ask("www.nsec.test. A ad"));
    assert_eq!((plain.says(), has_signatures(&plain)), ("NOERROR rd ra ad".into(), false));
    let signed = with.world.hit(&ask("www.nsec.test. A do"));
    assert_eq!((signed.says(), has_signatures(&signed)), ("NOERROR rd ra ad".into(), true));
    assert_eq!(with.counts(), [2, 0, 0, 0]);
}

#[test]
fn denials_and_wildcards_are_secure_with_what_proves_them() {
    for zone in ["nsec.test.", "hash.test."] {
        let mut with = Validated::new(|_| {});
        for (question, rcode) in [
            ("nothing.at.all.ZONE A", "NXDOMAIN"),
            ("www.ZONE AAAA", "NOERROR"),
            ("deep.ent.ZONE A", "NXDOMAIN"),
            ("x.wild.ZONE A", "NOERROR"),
            ("alias.ZONE A", "NOERROR"),
            ("gone.ZONE A", "NXDOMAIN"),
            ("x.moved.ZONE A", "NOERROR"),
        ] {
            let question = question.replace("ZONE", zone);
            let plain = with.resolve(&format!("{question} ad"));
            let rcode = if question.starts_with("deep") { plain.rcode().to_string() } else { rcode.into() };
            assert_eq!((plain.says(), has_signatures(&plain)), (format!("{rcode} rd ra ad"), false));
            let proofs = |reply: &Reply| reply.authorities().iter().any(|line| line.contains("NSEC"));
            assert!(!proofs(&plain), "{question}: {plain:?}");
            let signed = with.resolve(&format!("{question} do"));
            assert_eq!((signed.says(), has_signatures(&signed)), (format!("{rcode} rd ra ad"), true));
            let denied = signed.answers().is_empty() || question.starts_with("x.wild");
            assert!(!denied || proofs(&signed), "{question}: {signed:?}");
        }
        assert_eq!(with.counts()[1..], [0; 3]);
    }
}

#[test]
fn a_signed_denial_without_an_soa_is_secure() {
    for zone in ["nsec.test.", "hash.test."] {
        let mut with = Validated::of(|query_key, reply| {
            if query_key.qtype == Type::DS {
                return Some(reply);
            }
            Some(reply.without(|line| line.rtype == Type::SOA || covered(line) == Some(Type::SOA)))
        });
        assert_eq!(with.says(&format!("nothing.{zone} A do")), "NXDOMAIN rd ra ad");
        assert_eq!(with.says(&format!("www.{zone} AAAA do")), "NOERROR rd ra ad");
    }
}

#[test]
fn what_is_proven_not_to_be_signed_passes_without_ad() {
    let mut with = Validated::new(|_| {});
    let names = ["plain.test.", "bare.nsec.test.", "bare.hash.test.", "bare.opt.test.", "child.plain.test."];
    for zone in names {
        for question in
            [format!("www.{zone} A ad"), format!("www.{zone} A do"), format!("www.{zone} AAAA do")]
        {
            assert_eq!(with.says(&question), "NOERROR rd ra", "{question}");
            assert_eq!(with.world.hit(&ask(&question)).says(), "NOERROR rd ra", "{question}");
        }
    }
    assert_eq!(with.counts(), [0, 15, 0, 0]);
    assert_eq!(with.says("www.odd.test. A do"), "NOERROR rd ra EDE 1");
    assert_eq!(with.says("www.digest.test. A do"), "NOERROR rd ra EDE 2");
    assert_eq!(with.says("www.iter.test. AAAA do"), "NOERROR rd ra EDE 27");
}

/// Returns the reply if the answer is handed over where it arrives, without the validation threads; otherwise
/// `None`.
fn recalled(with: &mut Validated, question: &str) -> Option<Reply> {
    with.world.miss(&ask(question));
    assert!(with.answer_one());
    let reply = with.world.late().pop();
    if reply.is_some() {
        assert_eq!(with.world.service.unvalidated(), 0, "{question}");
        with.work();
        assert!(with.world.asked().is_empty() && with.world.late().is_empty(), "{question}");
    }
    reply
}

#[test]
fn what_is_known_to_be_insecure_wakes_nobody_and_is_what_it_is_otherwise() {
    let questions = [
        "www.plain.test. A do",
        "www.plain.test. TXT",
        "www.plain.test. AAAA ad",
        "nothing.plain.test. A do",
        "alias.plain.test. A",
        "www.child.plain.test. A do",
        "www.bare.nsec.test. A do",
        "nothing.bare.hash.test. A",
        "www.odd.test. A do",
    ];
    for question in questions {
        // The keys are cached by another name of the same zone.
        let mut with = Validated::new(|_| {});
        let (_, zone) = question.split(' ').next().and_then(|name| name.split_once('.')).expect("a name");
        assert!(recalled(&mut with, &format!("first.{zone} A do")).is_none(), "nothing is known yet");
        with.run();
        let first = with.world.later();
        let reply = recalled(&mut with, question).unwrap_or_else(|| panic!("{question} is handed over"));
        let mut fresh = Validated::new(|_| {});
        assert_eq!(format!("{reply:?}"), format!("{:?}", fresh.resolve(question)), "{question}");
        assert_eq!(with.world.hit(&ask(question)).rcode(), reply.rcode(), "{question}: from the cache");
        assert_eq!(reply.says().contains("EDE 1"), first.says().contains("EDE 1"), "{question}");
        assert_eq!((with.counts(), with.world.service.stats().validation.recalled.get()), ([0, 2, 0, 0], 1));
    }
}

#[test]
fn what_takes_a_signature_or_may_be_bogus_is_handed_over() {
    let mut with = Validated::new(|_| {});
    with.says("www.nsec.test. A do");
    with.says("www.hash.test. A do");
    let bare: Server = |_, mut reply| {
        for lines in [&mut reply.answer, &mut reply.authority] {
            lines.retain(|line| !matches!(line.rtype, Type::RRSIG | Type::NSEC | Type::NSEC3));
        }
        Some(reply)
    };
    for server in [bare, |_, reply| Some(reply)] {
        with.server = server;
        for question in ["www.nsec.test. TXT", "gone.nsec.test. A", "gone.hash.test. A", "www.hash.test. TXT"]
        {
            assert!(recalled(&mut with, question).is_none(), "{question}");
            with.run();
            with.world.later();
            with.world.after(100_000);
        }
    }
    assert_eq!(with.world.service.stats().validation.recalled.get(), 0);
}

#[test]
fn below_negative_anchors_and_without_any_anchor_nobody_is_woken() {
    let mut with =
        Validated::new(|policy| policy.validation.anchors.add_negative(name("nsec.test.").as_name()));
    // The data is signed, which does not matter there.
    let reply = recalled(&mut with, "www.nsec.test. A do").expect("it is known what it is");
    assert_eq!(reply.says(), "NOERROR rd ra");
    let mut with = Validated::new(|policy| policy.validation.anchors = TrustAnchors::none());
    let reply = recalled(&mut with, "www.hash.test. A do").expect("it is known what it is");
    assert_eq!((reply.says(), with.counts()), ("NOERROR rd ra".into(), [0, 0, 0, 1]));
}

#[test]
fn what_was_known_of_a_zone_is_not_recalled_when_it_is_over_or_flushed() {
    let mut with = Validated::new(|_| {});
    with.says("www.plain.test. A do");
    assert!(recalled(&mut with, "www.plain.test. TXT").is_some());
    with.world.service.flush(name("plain.test.").as_name().to_lower().as_lower(), true, None);
    assert!(recalled(&mut with, "www.plain.test. TXT").is_none(), "its DS are asked for anew");
    with.run();
    assert_eq!(with.world.later().says(), "NOERROR rd ra");
    assert!(recalled(&mut with, "www.plain.test. AAAA").is_some());
    with.wall += 86_400;
    assert!(recalled(&mut with, "alias.plain.test. A").is_none(), "that there are none was for a time");
}

#[test]
fn all_who_wait_for_an_answer_that_is_recalled_get_it_and_it_counts_once() {
    let mut with = Validated::new(|_| {});
    with.says("www.plain.test. A do");
    for id in 1..=3 {
        with.world.miss(&Ask { id, ..ask("www.plain.test. TXT do") });
    }
    let outcome = with.outcome(&query_key("www.plain.test. TXT do cd"));
    with.world.end(&query_key("www.plain.test. TXT do cd"), &outcome);
    assert_eq!(with.world.late().len(), 3);
    assert_eq!((with.counts(), with.world.service.stats().validation.recalled.get()), ([0, 2, 0, 0], 1));
}

#[test]
fn what_is_bogus_is_servfail_with_its_reason_also_from_memory() {
    let server: Server = |query_key, reply| forged(query_key, reply, Type::A);
    let mut with = Validated::of(server);
    assert_eq!(with.says("www.nsec.test. A"), "SERVFAIL rd ra EDE 6");
    assert_eq!(with.counts(), [0, 0, 1, 0]);
    let asked = with.asked.len();
    assert_eq!(with.world.hit(&ask("www.nsec.test. A do")).says(), "SERVFAIL rd ra EDE 6");
    assert_eq!(with.asked.len(), asked, "no server is asked again");
    // Other types of the name are not.
    assert_eq!(with.says("www.nsec.test. TXT do"), "NOERROR rd ra ad");
    // After a minute it is good again.
    with.server = |_, reply| Some(reply);
    with.world.after(61);
    assert_eq!(with.says("www.nsec.test. A do"), "NOERROR rd ra ad");
}

#[test]
fn each_fault_has_its_extended_error() {
    let unsigned: Server = |query_key, reply| match query_key.qtype {
        Type::A => Some(reply.without(|line| line.rtype == Type::RRSIG)),
        _ => Some(reply),
    };
    assert_eq!(Validated::of(unsigned).says("www.nsec.test. A"), "SERVFAIL rd ra EDE 10");
    let no_proof: Server = |query_key, reply| match query_key.qtype {
        Type::AAAA => Some(reply.without(|l| l.rtype == Type::NSEC || covered(l) == Some(Type::NSEC))),
        _ => Some(reply),
    };
    assert_eq!(Validated::of(no_proof).says("www.nsec.test. AAAA"), "SERVFAIL rd ra EDE 12");
    let no_keys: Server = |query_key, reply| match query_key.qtype {
        Type::DNSKEY if !query_key.name.as_name().is_root() => {
            Some(reply.without(|line| line.rtype == Type::DNSKEY || covered(line) == Some(Type::DNSKEY)))
        }
        _ => Some(reply),
    };
    assert_eq!(Validated::of(no_keys).says("www.nsec.test. A"), "SERVFAIL rd ra EDE 9");
    let mut late = Validated::new(|_| {});
    late.wall += 100_000;
    assert_eq!(late.says("www.nsec.test. A"), "SERVFAIL rd ra EDE 7");
    let mut early = Validated::new(|_| {});
    early.wall -= 100_000;
    assert_eq!(early.says("www.nsec.test. A"), "SERVFAIL rd ra EDE 8");
}

#[test]
fn who_sets_cd_gets_what_came_and_nobody_else_does() {
    let mut with = Validated::of(|query_key, reply| forged(query_key, reply, Type::A));
    assert_eq!(with.says("www.nsec.test. A do cd"), "NOERROR rd ra cd");
    assert_eq!(with.world.hit(&ask("www.nsec.test. A do cd")).says(), "NOERROR rd ra cd", "it is kept");
    let plain = with.resolve("www.nsec.test. A cd");
    assert_eq!((plain.says(), has_signatures(&plain)), ("NOERROR rd ra cd".into(), false));
    assert_eq!(with.counts(), [0; 4], "nothing was validated");
    assert_eq!(with.says("www.nsec.test. A do"), "SERVFAIL rd ra EDE 6");
    assert_eq!(with.says("www.nsec.test. A"), "SERVFAIL rd ra EDE 6");
    assert_eq!(with.world.hit(&ask("www.nsec.test. A do cd")).says(), "NOERROR rd ra cd");
}

#[test]
fn ad_of_servers_counts_for_nothing() {
    let mut with = Validated::new(|_| {});
    for question in ["www.plain.test. A do", "www.nsec.test. A do cd"] {
        with.world.miss(&ask(question));
        with.work();
        let mut next = query_key(question);
        (next.dnssec_ok, next.checking_disabled) = (true, true);
        let LookupOutcome::Answered(answer) = with.outcome(&next) else { panic!("an answer") };
        let mut message = answer.message.to_vec();
        message[3] |= 0x20;
        let answer =
            resolver::ScrubbedAnswer { authentic: true, message: message.into(), ..(*answer).clone() };
        with.world.end(&next, &LookupOutcome::Answered(Arc::new(answer)));
        with.run();
        assert!(!with.world.later().flags().contains("ad"), "{question}");
        assert!(!with.world.hit(&ask(question)).flags().contains("ad"), "{question}");
    }
}

#[test]
fn below_a_negative_anchor_nothing_is_validated() {
    let mut with = Validated::of(|query_key, reply| forged(query_key, reply, Type::A));
    assert_eq!(with.says("www.nsec.test. A do"), "SERVFAIL rd ra EDE 6");
    let nsec = name("nsec.test.");
    let mut without = TrustAnchors::none();
    with.world.change_policy(|policy| {
        without = policy.validation.anchors.clone();
        policy.validation.anchors.add_negative(nsec.as_name());
    });
    with.world.service.flush(nsec.as_name().to_lower().as_lower(), true, None);
    assert_eq!(with.says("www.nsec.test. A do"), "NOERROR rd ra");
    assert_eq!(with.says("www.hash.test. A do"), "SERVFAIL rd ra EDE 6");
    with.world.change_policy(|policy| policy.validation.anchors = without);
    with.world.service.flush(nsec.as_name().to_lower().as_lower(), true, None);
    assert_eq!(with.says("www.nsec.test. A do"), "SERVFAIL rd ra EDE 6");
}

#[test]
fn with_wrong_anchors_nothing_is_good_and_without_any_all_is() {
    let wrong = |policy: &mut PolicyConfig| {
        let mut anchors = TrustAnchors::none();
        let ds = TREE.keys(name("test."))[0].ds(Name::ROOT);
        anchors.add_ds(Name::ROOT, &ds).expect("an anchor");
        policy.validation.anchors = anchors;
    };
    let mut with = Validated::new(wrong);
    assert_eq!(with.says("www.nsec.test. A do"), "SERVFAIL rd ra EDE 9");
    assert_eq!(with.says("www.plain.test. A do"), "SERVFAIL rd ra EDE 9");
    with.world.change_policy(|policy| policy.validation.anchors = TrustAnchors::none());
    assert_eq!(with.says("www.nsec.test. A do"), "NOERROR rd ra");
    assert_eq!(with.counts(), [0, 0, 2, 1]);
    // Answers cached without anchors are not served with them.
    with.world.change_policy(|policy| policy.validation.anchors = TREE.anchors());
    assert_eq!(with.says("www.nsec.test. A do"), "NOERROR rd ra ad");
}

#[test]
fn one_query_may_cost_so_much_and_no_more() {
    let mut with = Validated::new(|policy| policy.validation.limits.signatures = 2);
    assert_eq!(with.says("www.nsec.test. A"), "SERVFAIL rd ra EDE 6");
    let stats = &with.world.service.stats().validation;
    assert_eq!((stats.overspent.get(), stats.signatures.get()), (1, 2));
    // The keys it validated are cached for the next one.
    with.world.after(3);
    for _ in 0..2 {
        with.says("www.nsec.test. A");
        with.world.after(3);
    }
    assert_eq!(with.says("www.nsec.test. A ad"), "NOERROR rd ra ad");
}

#[test]
fn a_chain_shares_one_budget_from_its_first_name_to_its_last() {
    let rules = |policy: &mut PolicyConfig| {
        policy.domains = [".", "nsec.test.", "hash.test."].map(validated).into();
    };
    let mut with = Validated::new(rules);
    assert_eq!(with.says("gone.nsec.test. A do"), "NXDOMAIN rd ra ad");
    assert_eq!(with.world.hit(&ask("gone.nsec.test. A do")).says(), "NXDOMAIN rd ra ad", "as a whole");
    assert_eq!(with.counts(), [2, 0, 0, 0], "link by link");
    let signatures = with.world.service.stats().validation.signatures.get();
    let mut poor = Validated::new(|policy| {
        rules(policy);
        policy.validation.limits.signatures = signatures as u32 - 1;
    });
    assert_eq!(poor.says("gone.nsec.test. A do"), "SERVFAIL rd ra EDE 6");
}

/// A world in which a query for `gone.nsec.test. A do`, an alias of `nothing.hash.test.`, needs one signature
/// more than the limit.
fn poor(change: impl Fn(&mut PolicyConfig)) -> (Validated, u64) {
    let rules = |policy: &mut PolicyConfig| {
        policy.domains = [".", "nsec.test.", "hash.test."].map(validated).into();
        change(policy);
    };
    let mut rich = Validated::new(rules);
    assert_eq!(rich.says("gone.nsec.test. A do"), "NXDOMAIN rd ra ad");
    let most = rich.world.service.stats().validation.signatures.get() - 1;
    let poor = Validated::new(|policy| {
        rules(policy);
        policy.validation.limits.signatures = most as u32;
    });
    (poor, most)
}

#[test]
fn what_a_query_has_spent_elsewhere_says_nothing_of_a_name_that_it_came_to() {
    let (mut with, _) = poor(|_| {});
    assert_eq!(with.says("gone.nsec.test. A do"), "SERVFAIL rd ra EDE 6");
    assert_eq!(with.says("nothing.hash.test. A do"), "NXDOMAIN rd ra ad", "no failure is cached for it");
    // The query name led to the cost.
    assert_eq!(with.world.hit(&ask("gone.nsec.test. A do")).says(), "SERVFAIL rd ra EDE 13");
}

#[test]
fn who_shares_a_validation_does_not_fail_with_what_another_has_spent_elsewhere() {
    let (mut with, _) = poor(|_| {});
    with.world.miss(&ask("gone.nsec.test. A do"));
    while !with.world.asked().iter().any(|asked| asked.starts_with("nothing.hash.test. A")) {
        with.work();
        assert!(with.answer_one(), "the alias leads on");
        with.work();
    }
    with.world.miss(&ask("nothing.hash.test. A do"));
    with.world.miss(&ask("nothing.hash.test. A ad"));
    with.run();
    let mut says: Vec<String> = with.world.late().iter().map(Reply::says).collect();
    says.sort();
    assert_eq!(says, ["NXDOMAIN rd ra ad", "NXDOMAIN rd ra ad", "SERVFAIL rd ra EDE 6"]);
    assert_eq!((with.counts(), with.world.service.unvalidated()), ([2, 0, 1, 0], 0));
}

#[test]
fn what_is_fetched_behind_an_old_answer_is_paid_by_the_same_query() {
    let stale = |policy: &mut PolicyConfig| policy.stale_after = Some(std::time::Duration::from_millis(1800));
    let (mut with, most) = poor(stale);
    with.world.change_policy(|policy| policy.validation.limits.signatures = 48);
    assert_eq!(with.says("gone.nsec.test. A do"), "NXDOMAIN rd ra ad");
    with.world.change_policy(|policy| policy.validation.limits.signatures = most as u32);
    with.world.after(4000);
    with.wall += 4000;
    let signatures = |with: &Validated| with.world.service.stats().validation.signatures.get();
    let before = signatures(&with);
    assert_eq!(with.says("gone.nsec.test. A do"), "SERVFAIL rd ra EDE 6");
    assert!(signatures(&with) - before <= most, "{} of {most}", signatures(&with) - before);
}

#[test]
fn links_of_our_own_are_not_validated() {
    let mut with = Validated::new(|policy| {
        let link = "out.home.example. 60 CNAME www.nsec.test.";
        policy.local.data = vec![link.parse().expect("a record")];
    });
    assert_eq!(with.says("www.nsec.test. A do"), "NOERROR rd ra ad");
    assert_eq!(with.says("out.home.example. A do"), "NOERROR aa rd ra");
}

#[test]
fn who_finds_no_place_in_the_queue_is_told() {
    let mut with = Validated::new(|policy| policy.validation.waiting = 1);
    with.world.miss(&ask("www.nsec.test. A"));
    with.world.miss(&ask("www.hash.test. A"));
    for question in ["www.nsec.test. A do cd", "www.hash.test. A do cd"] {
        let query_key = query_key(question);
        let outcome = with.outcome(&query_key);
        with.world.end(&query_key, &outcome);
    }
    assert_eq!(with.world.later().says(), "SERVFAIL rd ra EDE 0");
    assert_eq!((with.world.service.stats().validation.shed.get(), with.world.service.unvalidated()), (1, 1));
    with.run();
    assert_eq!(with.world.later().says(), "NOERROR rd ra");
    assert_eq!(with.world.service.unvalidated(), 0);
    assert_eq!(with.says("www.hash.test. A"), "NOERROR rd ra");
}

#[test]
fn one_network_cannot_take_all_places() {
    let mut with = Validated::new(|policy| policy.validation.waiting_of_network = 1);
    let questions = ["www.nsec.test. A", "www.hash.test. A", "www.plain.test. A"];
    for (question, from) in questions.into_iter().zip(["127.0.0.1", "127.0.0.2", "127.0.1.1"]) {
        with.world.miss(&ask(question).from(from));
        let query_key = query_key(&format!("{question} do cd"));
        let outcome = with.outcome(&query_key);
        with.world.end(&query_key, &outcome);
    }
    assert_eq!(with.world.later().says(), "SERVFAIL rd ra EDE 0", "the second of 127.0.0.0/24");
    assert_eq!(with.world.service.unvalidated(), 2);
    with.run();
    assert_eq!(with.world.late().len(), 2);
}

#[test]
fn where_keys_cannot_be_had_nobody_asks_for_them_again_at_once() {
    let mut with = Validated::of(|query_key, reply| {
        let silent = query_key.qtype == Type::DNSKEY && query_key.name.as_name().label_count() == 1;
        (!silent).then_some(reply)
    });
    assert_eq!(with.says("www.nsec.test. A"), "SERVFAIL rd ra EDE 22");
    assert_eq!(with.world.service.stats().validation.unfinished.get(), 1);
    assert_eq!(with.world.hit(&ask("www.nsec.test. A do")).says(), "SERVFAIL rd ra EDE 13");
    assert_eq!(with.says("www.hash.test. A"), "SERVFAIL rd ra EDE 22");
    let keys = |with: &Validated| with.asked.iter().filter(|asked| asked.starts_with("test. DNSKEY")).count();
    assert_eq!(keys(&with), 1);
    with.world.after(3);
    with.server = |_, reply| Some(reply);
    assert_eq!(with.says("www.nsec.test. A do"), "NOERROR rd ra ad");
    assert_eq!(keys(&with), 2);
}

#[test]
fn all_who_wait_share_one_validation_and_what_it_needs() {
    let mut with = Validated::new(|_| {});
    for question in
        ["www.nsec.test. A", "www.nsec.test. A do", "mail.nsec.test. MX do", "www.nsec.test. A ad"]
    {
        with.world.miss(&ask(question));
    }
    with.run();
    let mut says: Vec<String> = with.world.late().iter().map(Reply::says).collect();
    says.sort();
    assert_eq!(says, ["NOERROR rd ra", "NOERROR rd ra ad", "NOERROR rd ra ad", "NOERROR rd ra ad"]);
    assert_eq!(with.counts(), [2, 0, 0, 0]);
    let mut asked = with.asked.clone();
    asked.dedup();
    asked.sort();
    let all = asked.len();
    asked.dedup();
    assert_eq!(all, asked.len(), "nothing was asked twice: {asked:?}");
}

#[test]
fn what_is_in_use_is_validated_when_it_is_fetched_anew() {
    let mut with = Validated::new(|_| {});
    with.says("www.nsec.test. A");
    with.world.after(3300);
    for _ in 0..5 {
        with.world.hit(&ask("www.nsec.test. A"));
    }
    assert_eq!(with.world.asked(), ["www.nsec.test. A do cd"]);
    with.run();
    with.world.after(400);
    assert_eq!(with.world.hit(&ask("www.nsec.test. A ad")).says(), "NOERROR rd ra ad");
}

#[test]
fn old_data_is_served_where_nobody_answers_but_not_in_place_of_bogus() {
    let stale = |policy: &mut PolicyConfig| policy.stale_after = Some(std::time::Duration::from_millis(1800));
    let mut with = Validated::new(stale);
    assert_eq!(with.says("www.nsec.test. A ad"), "NOERROR rd ra ad");
    with.world.after(3700);
    with.server = |_, _| None;
    assert_eq!(with.says("www.nsec.test. A ad"), "NOERROR rd ra EDE 3");
    with.world.after(100);
    with.server = |query_key, reply| forged(query_key, reply, Type::A);
    assert_eq!(with.says("www.nsec.test. A ad"), "SERVFAIL rd ra EDE 6");
    assert_eq!(with.says("www.nsec.test. A ad"), "SERVFAIL rd ra EDE 6");
}

#[test]
fn nothing_is_kept_longer_than_its_signatures_are_good() {
    let mut with = Validated::new(|_| {});
    with.wall += 86_400 - 100;
    let reply = with.resolve("www.nsec.test. A do");
    assert_eq!(reply.says(), "NOERROR rd ra ad");
    assert!(reply.ttl().is_some_and(|ttl| ttl <= Ttl::from_secs(160)), "{reply:?}");
    let denied = with.resolve("nothing.nsec.test. A do");
    assert!(denied.ttl().is_some_and(|ttl| ttl <= Ttl::from_secs(160)), "{denied:?}");
    with.world.after(161);
    with.wall += 161;
    assert_eq!(with.says("www.nsec.test. A do"), "SERVFAIL rd ra EDE 7");
}

#[test]
fn a_rule_may_be_left_out() {
    let own =
        Domain { name: name("island.test."), partition: Partition::SHARED, trust_ad: false, validate: false };
    let mut with = Validated::of(|query_key, reply| forged(query_key, reply, Type::A));
    with.world.change_policy(|policy| policy.domains.push(own.clone()));
    assert_eq!(with.says("www.island.test. A"), "NOERROR rd ra");
    assert_eq!(with.asked, ["www.island.test. A"], "asked as the client did");
    assert_eq!(with.says("www.nsec.test. A"), "SERVFAIL rd ra EDE 6");
}

#[test]
fn what_was_kept_without_validating_is_not_served_where_it_is_wanted() {
    let mut with = Validated::of(|query_key, reply| forged(query_key, reply, Type::A));
    with.world.change_policy(|policy| policy.domains[0].validate = false);
    assert_eq!(with.says("www.nsec.test. A"), "NOERROR rd ra");
    // A lookup is pending while the policy changes.
    with.world.miss(&ask("www.hash.test. A"));
    with.world.change_policy(|policy| policy.domains[0].validate = true);
    with.run();
    assert_eq!(with.world.later().says(), "SERVFAIL rd ra EDE 6");
    assert_eq!(with.says("www.nsec.test. A"), "SERVFAIL rd ra EDE 6");
}

/// The next event.
#[derive(Clone, Debug)]
enum Event {
    /// A client's query.
    Ask { question: &'static str, dnssec_ok: bool, checking_disabled: bool },
    /// A pending lookup ends: with the honest answer, a forged one, or none.
    End { which: Index, how: Ending },
    /// The validation thread works.
    Work,
    /// Seconds that pass.
    After(u64),
}

#[derive(Clone, Copy, Debug)]
enum Ending {
    Honest,
    Forged,
    Failed,
}

/// Names with signed addresses, direct or behind an unsigned alias, and one with unsigned ones.
const QUESTIONS: [&str; 5] = [
    "www.nsec.test. A",
    "alias.hash.test. A",
    "x.wild.nsec.test. A",
    "far.plain.test. A",
    "www.plain.test. A",
];

fn event() -> impl Strategy<Value = Event> {
    let ask = (select(&QUESTIONS[..]), any::<bool>(), any::<bool>())
        .prop_map(|(question, dnssec_ok, cd)| Event::Ask { question, dnssec_ok, checking_disabled: cd });
    let how = prop_oneof![4 => Just(Ending::Honest), 2 => Just(Ending::Forged), 1 => Just(Ending::Failed)];
    let end = (any::<Index>(), how).prop_map(|(which, how)| Event::End { which, how });
    let after = select(vec![1, 3, 61, 3300, 4000]).prop_map(Event::After);
    prop_oneof![4 => ask, 6 => end, 3 => Just(Event::Work), 1 => after]
}

impl Validated {
    fn end_one(&mut self, which: Index, how: Ending) {
        let pending: Vec<QueryKey> =
            self.world.noted.0.lock().expect("one thread").iter().map(|request| request.query_key).collect();
        if pending.is_empty() {
            return;
        }
        self.server = match how {
            Ending::Honest => |_, reply| Some(reply),
            Ending::Forged => |query_key, reply| forged(query_key, reply, Type::A),
            Ending::Failed => |_, _| None,
        };
        let query_key = pending[which.index(pending.len())];
        let outcome = self.outcome(&query_key);
        self.world.end(&query_key, &outcome);
    }
}

/// No client without CD gets forged data of a signed zone, and only what is secure has AD.
fn check(reply: &Reply, cds: &[bool]) {
    let cd = cds[usize::from(reply.id())];
    let [answers, ..] = &reply.0.sections;
    let signed = |zone: &str, owner: &wire::NameBuf| owner.as_name().is_at_or_below(name(zone).as_name());
    let is_forged = answers.iter().filter(|line| line.rtype == Type::A).any(|line| {
        let honest = TREE.reply(line.owner, Type::A).answer;
        !honest.iter().any(|good| good.rtype == Type::A && good.rdata == line.rdata)
    });
    let is_signed = |owner| signed("nsec.test.", owner) || signed("hash.test.", owner);
    let concerned = answers.iter().any(|line| line.rtype == Type::A && is_signed(&line.owner));
    assert!(cd || !(is_forged && concerned), "{reply:?}");
    if reply.flags().contains("ad") {
        assert!(!cd && !is_forged && answers.iter().all(|line| is_signed(&line.owner)), "{reply:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_order_of_events_brings_forged_data_to_who_has_not_set_cd(events in vec(event(), 1..60)) {
        let mut with = Validated::new(|policy| {
            policy.stale_after = Some(std::time::Duration::from_millis(1800));
        });
        let mut cds: Vec<bool> = Vec::new();
        let mut answered = 0;
        for event in events {
            match event {
                Event::Ask { question, dnssec_ok, checking_disabled } => {
                    let id = cds.len() as u16;
                    cds.push(checking_disabled);
                    let ask = Ask { id, dnssec_ok, checking_disabled, ..ask(question) };
                    if let Some(reply) = with.world.ask(&ask) {
                        check(&reply, &cds);
                        answered += 1;
                    }
                }
                Event::End { which, how } => with.end_one(which, how),
                Event::Work => with.work(),
                Event::After(seconds) => {
                    with.world.after(seconds);
                    with.wall += seconds;
                }
            }
            let late = with.world.late();
            late.iter().for_each(|reply| check(reply, &cds));
            answered += late.len();
        }
        with.server = |_, reply| Some(reply);
        with.run();
        let late = with.world.late();
        late.iter().for_each(|reply| check(reply, &cds));
        prop_assert_eq!(answered + late.len(), cds.len(), "everybody is answered");
        prop_assert_eq!(with.world.service.unvalidated(), 0);
    }
}

#[test]
fn who_asks_in_the_program_is_told_what_was_found_and_what_it_took() {
    let mut with = Validated::new(|_| {});
    let (told, verdicts) = std::sync::mpsc::channel();
    for question in ["www.nsec.test. A", "www.plain.test. A"] {
        let told = told.clone();
        with.world.service.look_up(query_key(question), None, move |outcome, verdict| {
            assert!(matches!(outcome, LookupOutcome::Answered(answer) if answer.rcode == Rcode::NOERROR));
            told.send(verdict).expect("a listener");
        });
        with.run();
    }
    let found: Vec<recursion::Verdict> = verdicts.try_iter().flatten().collect();
    assert_eq!(found[0].security, validator::Security::Secure);
    assert_eq!(found[0].asked.len(), 5, "{found:?}");
    assert_eq!(found[1].security, validator::Security::Insecure(InsecureReason::Unsigned));
    assert!(found[1].asked.contains(&validator::Need::Ds(name("plain.test."))), "{found:?}");
}

/// RFC 8509.
#[test]
fn clients_find_out_which_keys_are_anchors_of_the_root() {
    let mut with = Validated::new(|_| {});
    let tag = TREE.keys(wire::NameBuf::ROOT)[0].tag();
    let other = tag.wrapping_add(1);
    let name = |word: &str, tag: u16| format!("root-key-sentinel-{word}-ta-{tag:05}.wild.nsec.test.");
    for (word, tag, is_true) in
        [("is", tag, true), ("not", tag, false), ("is", other, false), ("not", other, true)]
    {
        let name = name(word, tag);
        for flags in ["do", "ad"] {
            let question = format!("{name} A {flags}");
            let (first, again) = match is_true {
                true => ("NOERROR rd ra ad", "NOERROR rd ra ad"),
                false => ("SERVFAIL rd ra EDE 0", "SERVFAIL rd ra EDE 13"),
            };
            assert_eq!(with.says(&question), first, "{question}");
            assert_eq!(with.world.hit(&ask(&question)).says(), again, "{question}");
        }
        // A client that validates, or a query for another type, gets the plain answer.
        assert_eq!(with.says(&format!("{name} A do cd")), "NOERROR rd ra cd", "{name}");
        assert_eq!(with.says(&format!("{name} TXT do")), "NOERROR rd ra ad", "{name}");
    }
    // The sentinel does not apply to unsigned answers.
    let unsigned = format!("root-key-sentinel-is-ta-{other:05}.plain.test. A do");
    assert_eq!(with.says(&unsigned), "NXDOMAIN rd ra");
    let mut off = Validated::new(|policy| policy.validation.sentinel = false);
    assert_eq!(off.says(&format!("{} A do", name("is", other))), "NOERROR rd ra ad");
}
