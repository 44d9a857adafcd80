//! Compares the responses with the model, names the reason of each difference, and counts.

use super::model::{Ask, Hit, Model, Outcome, Seen, Ttls};
use super::rules::{Action, TRIGGERS, Trigger};
use super::variants::{
    AFTER_ALIAS, ANSWER_CUT, KNOWN, Known, OTHER_ADDRESS, OTHER_RULE, OVERRIDE_LEFT_OUT, Often, Variant,
    Variants,
};
use super::{Extent, Reply, decoded, variants};
use crate::answer::{Answer, flag, render};
use crate::name::Name;
use crate::query::rtype;
use crate::servers::Kind;
use std::collections::BTreeMap;

/// Largest number of changes that a server has sometimes and that explain one response together.
const MAX_ALONE: usize = 3;
/// The same where another rule decides than in the model.
const MAX_WITH_OTHER_RULE: usize = 3;
const NOERROR: u16 = 0;
const SERVFAIL: u16 = 2;
/// Changes that concern only the marks of a rewritten response; they do not count for [`MAX_ALONE`].
const MARKS: [Variant; 2] = [Variant::Authoritative, Variant::NoSoa];

/// Counts of one server.
#[derive(Debug, Default)]
struct Count {
    cases: usize,
    as_model: usize,
    explained: BTreeMap<&'static str, usize>,
    unexplained: usize,
    /// Rounds in which it died.
    died: usize,
    /// Responses that were SERVFAIL at first, and not when the query was sent again.
    failed_at_first: usize,
}

/// The comparison.
#[derive(Debug)]
pub(crate) struct Judge {
    extent: Extent,
    number: usize,
    counts: BTreeMap<Kind, Count>,
    /// Number of cases by trigger and action of the rule that decides.
    decided: BTreeMap<(usize, &'static str), usize>,
    undecided: usize,
}

impl Judge {
    /// Creates a comparison without cases.
    pub(crate) fn new(extent: Extent) -> Self {
        Self { extent, number: 0, counts: BTreeMap::new(), decided: BTreeMap::new(), undecided: 0 }
    }

    /// Compares the responses to one query.
    pub(crate) fn case(&mut self, model: &Model<'_>, ask: &Ask, replies: &[(Kind, Reply)], round: u64) {
        self.number += 1;
        let (expected, hit) = model.predict(ask, &Variants::default());
        match &hit {
            Some(hit) => {
                let kind = TRIGGERS.iter().position(|kind| *kind == hit.trigger.kind()).unwrap_or(0);
                *self.decided.entry((kind, hit.action.label())).or_default() += 1;
            }
            None => self.undecided += 1,
        }
        let seen: Vec<(Kind, Result<Outcome, String>)> =
            replies.iter().map(|(kind, reply)| (*kind, outcome(ask, model, *kind, reply))).collect();
        let mut verdicts = Vec::new();
        let mut is_new = false;
        for (kind, seen) in &seen {
            let count = self.counts.entry(*kind).or_default();
            count.cases += 1;
            let verdict = match seen {
                Ok(seen) if expected.predicts(seen) => {
                    count.as_model += 1;
                    "as the model".to_owned()
                }
                Ok(seen) => match explain(model, ask, *kind, seen) {
                    Some(reasons) => {
                        for reason in &reasons {
                            *count.explained.entry(reason.id).or_default() += 1;
                        }
                        reasons.iter().map(|reason| reason.id).collect::<Vec<_>>().join(" + ")
                    }
                    None => {
                        count.unexplained += 1;
                        is_new |= count.unexplained <= self.extent.show;
                        "UNEXPLAINED".to_owned()
                    }
                },
                Err(error) => {
                    count.unexplained += 1;
                    is_new |= count.unexplained <= self.extent.show;
                    format!("UNEXPLAINED, malformed: {error}")
                }
            };
            verdicts.push(verdict);
        }
        let shown = self.extent.reproduce.map_or(is_new, |number| number == self.number);
        if shown {
            self.show(model, ask, (&expected, hit.as_ref()), replies, &verdicts, round);
        }
    }

    /// Notes that a server has died in a round, with the line of its log that says why.
    pub(crate) fn died(&mut self, kind: Kind, round: u64, log: &str) {
        self.counts.entry(kind).or_default().died += 1;
        let why =
            log.lines().find(|line| ["INSIST", "REQUIRE", "assert"].iter().any(|word| line.contains(word)));
        println!(
            "round {round} is without {}, which died: {}",
            kind.label(),
            why.unwrap_or("its log is silent")
        );
    }

    /// Notes that a query has failed at first, and not when it was sent again.
    pub(crate) fn failed_at_first(&mut self, kind: Kind) {
        self.counts.entry(kind).or_default().failed_at_first += 1;
    }

    fn show(
        &self,
        model: &Model<'_>,
        ask: &Ask,
        expected: (&Outcome, Option<&Hit>),
        replies: &[(Kind, Reply)],
        verdicts: &[String],
        round: u64,
    ) {
        let policy = model.policy;
        println!("\ncase {} (round {round}): {} from {}", self.number, ask.query().to_dig(), ask.client);
        println!(
            "  break-dnssec {}, qname-wait-recurse {}, min-ns-dots {}",
            policy.break_dnssec, policy.qname_wait, policy.min_ns_dots
        );
        for (at, zone) in policy.zones.iter().enumerate() {
            println!("  {}: {:?}, {} rules", zone.name, zone.given, zone.rules.len());
            for (trigger, position) in model.matching(ask, at) {
                let records = zone.rules[&trigger].records().join(", ");
                println!("    at {position}: {} {records}", trigger.owner());
            }
        }
        match expected.1 {
            Some(hit) => println!("  the model: {} decides", describe(model, hit)),
            None => println!("  the model: no rule decides"),
        }
        print!("{}", text(expected.0));
        for ((kind, reply), verdict) in replies.iter().zip(verdicts) {
            println!("  {}: {verdict}", kind.label());
            match reply {
                Some(wire) => print!("{}", render(wire)),
                None => println!("    no response"),
            }
        }
    }

    /// Prints the counts, and returns the number of unexplained responses: of a short run, those of nomen.
    pub(crate) fn finish(&self) -> usize {
        println!("\n{} cases; no rule decides {} of them", self.number, self.undecided);
        for ((kind, action), count) in &self.decided {
            println!("  {:<9} {action:<8} {count:>6}", TRIGGERS[*kind].label());
        }
        let mut unexplained = 0;
        for (kind, count) in &self.counts {
            unexplained += count.unexplained;
            print!("{}: {} responses, {} as the model", kind.label(), count.cases, count.as_model);
            if count.died > 0 {
                print!(", died in {} rounds", count.died);
            }
            if count.failed_at_first > 0 {
                print!(", {} SERVFAIL only at first", count.failed_at_first);
            }
            println!(", {} unexplained", count.unexplained);
            for known in variants::all() {
                let Some(times) = count.explained.get(known.id) else { continue };
                println!("  explained {times:>6}  {}", known.id);
                if self.extent.reasons {
                    println!("             {}", known.why);
                }
            }
        }
        println!("{unexplained} unexplained");
        // What other servers do depends on their version and on the time that each query takes.
        let of_nomen = self.counts.get(&Kind::Nomen).map_or(0, |count| count.unexplained);
        if self.extent.quick { of_nomen } else { unexplained }
    }
}

/// Returns a response of the model, for printing.
fn text(outcome: &Outcome) -> String {
    let Outcome::Reply(seen) = outcome else { return format!("    {outcome:?}\n") };
    let mut out = format!("    rcode {}, aa {}, ad {:?}\n", seen.rcode, seen.aa, seen.ad);
    for (owner, rtype, rdata) in &seen.answer {
        let data = match *rtype {
            rtype::CNAME | rtype::DNAME => Name::from_wire(rdata).map(|(name, _)| name.to_string()),
            _ => None,
        };
        out += &format!("       {owner} TYPE{rtype} {}\n", data.unwrap_or_else(|| format!("{rdata:?}")));
    }
    if let Some(zone) = &seen.soa {
        out += &format!("    -- Additional\n       {zone} SOA\n");
    }
    out
}

fn describe(model: &Model<'_>, hit: &Hit) -> String {
    let zone = &model.policy.zones[hit.zone].name;
    format!("{} of {zone} after {} aliases, {}", hit.trigger.owner(), hit.position, hit.action.label())
}

/// Finds known changes of the model that together predict what a server sends: all that it always has, with
/// the fewest that it has sometimes; then leaves out those without which the prediction is the same.
fn explain(model: &Model<'_>, ask: &Ask, kind: Kind, seen: &Outcome) -> Option<Vec<&'static Known>> {
    let of = |often: Often| KNOWN.iter().filter(move |known| known.servers.contains(&often));
    let (marks, sometimes): (Vec<&Known>, Vec<&Known>) =
        of(Often::Sometimes(kind)).partition(|known| MARKS.contains(&known.variant));
    let chosen = of(Often::Always(kind)).collect();
    let mut search = Search { model, ask, seen, marks, forced: None, chosen };
    if let Some(found) = (0..=MAX_ALONE).find_map(|size| search.pick(&sometimes, size)) {
        return Some(search.least(found));
    }
    let general = Variants { set: vec![Variant::WithoutNsDots, Variant::NsOfTop], forced: None };
    let hits = model.candidates(ask, &general, kind == Kind::Unbound);
    if AFTER_ALIAS.servers.contains(&Often::Sometimes(kind)) && is_after_alias(model, ask, &hits, seen) {
        return Some(vec![&AFTER_ALIAS]);
    }
    let is_failure = match seen {
        Outcome::Reply(seen) => seen.rcode == SERVFAIL,
        Outcome::Truncated => kind == Kind::Recursor,
        Outcome::Silence => false,
    };
    if is_failure && model.keeps_from_asking(ask, &general) {
        let fails = |known: &&Known| known.variant == Variant::NsFails;
        return sometimes.into_iter().find(fails).map(|known| vec![known]);
    }
    if kind == Kind::Bind {
        return search.by_address(hits);
    }
    if !OTHER_RULE.servers.contains(&Often::Sometimes(kind)) {
        return None;
    }
    if is_cut(model, ask, kind, &hits, seen) {
        return Some(vec![&ANSWER_CUT]);
    }
    let mut hits: Vec<Option<Hit>> = hits.into_iter().map(Some).chain([None]).collect();
    let what = |hit: &Option<Hit>| hit.as_ref().map(|hit| (hit.action.clone(), hit.zone, hit.position));
    hits.dedup_by(|a, b| what(a) == what(b));
    for size in 0..=MAX_WITH_OTHER_RULE {
        for hit in &hits {
            search.forced = Some(hit.clone());
            if let Some(found) = search.pick(&sometimes, size) {
                let is_own = hit.as_ref().is_some_and(|hit| model.is_own(hit));
                let reason = if is_own { &OVERRIDE_LEFT_OUT } else { &OTHER_RULE };
                return Some(search.least(found).into_iter().chain([reason]).collect());
            }
        }
    }
    None
}

/// Whether a response has a part of the chain, or nothing but TC, where a rule matches that this server
/// loses.
fn is_cut(model: &Model<'_>, ask: &Ask, kind: Kind, hits: &[Hit], seen: &Outcome) -> bool {
    let is_lost = |hit: &Hit| match (kind, &hit.action) {
        (Kind::Unbound, action) => matches!(action, Action::Local(_)),
        (Kind::Recursor, action) => matches!(action, Action::Passthru | Action::TcpOnly | Action::Nodata),
        _ => false,
    };
    let has_chain = model.chain(ask).len() > 1;
    let is_part = match seen {
        Outcome::Silence => false,
        Outcome::Truncated => kind == Kind::Unbound,
        Outcome::Reply(seen) => {
            let is_plain = seen.rcode == NOERROR && seen.soa.is_none() && !seen.answer.is_empty();
            is_plain && is_without_more(model, ask, seen)
        }
    };
    has_chain && is_part && hits.iter().any(is_lost)
}

/// Whether a response has the alias of a rule that matches, or has failed where there is one.
fn is_after_alias(model: &Model<'_>, ask: &Ask, hits: &[Hit], seen: &Outcome) -> bool {
    let targets = hits.iter().filter_map(|hit| match &hit.action {
        Action::Cname(target) => Some(target.to_wire()),
        Action::WildCname(suffix) => Some(suffix.to_wire()),
        _ => None,
    });
    let mut targets = targets.map(|wire| wire.to_ascii_lowercase());
    match seen {
        Outcome::Silence => false,
        Outcome::Truncated => targets.next().is_some(),
        Outcome::Reply(seen) if seen.rcode == SERVFAIL => targets.next().is_some(),
        Outcome::Reply(seen) => targets.any(|target| {
            let is_alias =
                |(_, rtype, rdata): &(Name, u16, Vec<u8>)| *rtype == rtype::CNAME && rdata.ends_with(&target);
            seen.answer.iter().any(is_alias) || is_without_more(model, ask, seen)
        }),
    }
}

/// Whether a response has no other records than it would have without a rule.
fn is_without_more(model: &Model<'_>, ask: &Ask, seen: &Seen) -> bool {
    let without = Variants { forced: Some(None), ..Variants::default() };
    match model.predict(ask, &without).0 {
        Outcome::Reply(plain) => seen.answer.is_subset(&plain.answer),
        _ => false,
    }
}

/// A search for changes of the model.
struct Search<'a> {
    model: &'a Model<'a>,
    ask: &'a Ask,
    seen: &'a Outcome,
    /// Those of [`MARKS`] that the server has sometimes.
    marks: Vec<&'static Known>,
    forced: Option<Option<Hit>>,
    chosen: Vec<&'static Known>,
}

impl Search<'_> {
    fn predicts(&self, known: &[&Known]) -> bool {
        let set = known.iter().map(|known| known.variant).collect();
        let variants = Variants { set, forced: self.forced.clone() };
        self.model.predict(self.ask, &variants).0.predicts(self.seen)
    }

    /// Explains a response by another IP rule that matches.
    fn by_address(&mut self, hits: Vec<Hit>) -> Option<Vec<&'static Known>> {
        hits.into_iter().filter(|hit| matches!(hit.trigger, Trigger::Ip(_))).find_map(|hit| {
            self.forced = Some(Some(hit));
            let found = self.marked()?;
            Some(self.least(found).into_iter().chain([&OTHER_ADDRESS]).collect())
        })
    }

    /// Returns the chosen changes and the marks with which they predict the response.
    fn marked(&self) -> Option<Vec<&'static Known>> {
        let set = self.chosen.iter().map(|known| known.variant).collect();
        let variants = Variants { set, forced: self.forced.clone() };
        let plain = self.model.predict(self.ask, &variants).0;
        let subsets = 0..1_usize << self.marks.len();
        let mut marks = subsets.map(|bits| {
            let is_in = |at: &usize| bits & (1 << at) != 0;
            (0..self.marks.len()).filter(is_in).map(|at| self.marks[at]).collect::<Vec<_>>()
        });
        let marks = marks.find(|marks| {
            let marks: Vec<Variant> = marks.iter().map(|known| known.variant).collect();
            plain.clone().marked(&marks).predicts(self.seen)
        })?;
        Some(self.chosen.iter().copied().chain(marks).collect())
    }

    fn pick(&mut self, from: &[&'static Known], size: usize) -> Option<Vec<&'static Known>> {
        if size == 0 {
            return self.marked();
        }
        for (at, known) in from.iter().enumerate() {
            self.chosen.push(known);
            let found = self.pick(&from[at + 1..], size - 1);
            self.chosen.pop();
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Leaves out the changes without which the prediction is the same.
    fn least(&self, mut found: Vec<&'static Known>) -> Vec<&'static Known> {
        for known in found.clone() {
            let without: Vec<&Known> = found.iter().filter(|other| other.id != known.id).copied().collect();
            if self.predicts(&without) {
                found = without;
            }
        }
        found
    }
}

/// Returns the compared parts of a response.
fn outcome(ask: &Ask, model: &Model<'_>, kind: Kind, reply: &Reply) -> Result<Outcome, String> {
    let Some(answer) = decoded(reply)? else { return Ok(Outcome::Silence) };
    if answer.has(flag::TC) {
        return Ok(Outcome::Truncated);
    }
    let is_policy = |name: &Name| model.policy.zones.iter().any(|zone| zone.name == *name);
    let soa = answer.sections[2].iter().find(|record| record.rtype == rtype::SOA && is_policy(&record.owner));
    Ok(Outcome::Reply(Seen {
        rcode: answer.rcode,
        aa: answer.has(flag::AA),
        ad: (!ask.cd).then(|| answer.has(flag::AD)),
        answer: contents(&answer),
        // Unbound and PowerDNS have no such setting, and count TTLs of rules down.
        ttls: matches!(kind, Kind::Nomen | Kind::Bind).then(|| ttls(&answer)),
        soa: soa.map(|record| record.owner.clone()),
    }))
}

fn contents(answer: &Answer) -> std::collections::BTreeSet<(Name, u16, Vec<u8>)> {
    let records = answer.sections[0].iter().filter(|record| record.rtype != rtype::RRSIG);
    records.map(|record| (record.owner.clone(), record.rtype, record.rdata.clone())).collect()
}

fn ttls(answer: &Answer) -> Ttls {
    let records = answer.sections[0].iter();
    records.map(|record| ((record.owner.clone(), record.rtype), record.ttl)).collect()
}

impl Model<'_> {
    /// Returns the rules of one policy zone that match somewhere on the chain, with the number of aliases
    /// before.
    fn matching(&self, ask: &Ask, zone: usize) -> Vec<(Trigger, usize)> {
        let mut out = Vec::new();
        for (position, (name, found)) in self.chain(ask).into_iter().enumerate() {
            let zone = &self.policy.zones[zone];
            for trigger in zone.rules.keys() {
                if self.fits(zone, trigger, ask, &name, &found) {
                    out.push((trigger.clone(), position));
                }
            }
        }
        out
    }
}
