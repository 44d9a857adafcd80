//! One answer on its way through validation.

use std::sync::Arc;

use dnssec::{BogusReason, Need, Progress, Response, Security, Validated, Validator};
use resolver::{Answer, AnsweredBy, Budget, LookupFailure, QueryKey, ReplyFault};
use wire::Rcode;

use super::link::first_link;
use super::queue::Candidate;
use super::quota::{Spent, ValidationQuota};
use super::{Basis, Turn};

/// An answer being validated.
pub(super) struct Job {
    /// The answer, or the second one.
    pub(super) answer: Arc<Answer>,
    /// The question, with CD clear.
    pub(super) query_key: QueryKey,
    pub(super) validator: Validator,
    /// Whose query pays, and from what.
    pub(super) payer: Budget,
    quota: ValidationQuota,
    /// What was spent on it.
    spent: Spent,
    pub(super) asked: Vec<Need>,
    /// What it needs could not be had for another query, which had no more time or means.
    pub(super) outlived: bool,
    /// Who DS and DNSKEY came from.
    heard: Vec<(Need, AnsweredBy)>,
    /// What the first answer was found to be, if there is a second one, or is to be.
    pub(super) first: Option<Validated>,
    /// Why the first answer is bogus, if it is.
    pub(super) fault: Option<BogusReason>,
    /// The answer is the first link of the chain that came.
    is_cut: bool,
    /// What referrals brought and was not looked at: an answer, and which of its referrals.
    referrals: Vec<(Arc<Answer>, usize)>,
}

/// A job whose answer is not read yet.
pub(super) struct Unread {
    answer: Arc<Answer>,
    query_key: QueryKey,
    payer: Budget,
    quota: ValidationQuota,
}

impl Unread {
    /// Reads the answer.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn read(self) -> Result<Box<Job>, LookupFailure> {
        let Unread { answer, query_key, payer, quota } = self;
        let response = Response::read(&answer.message, answer.rcode)
            .map_err(|_| LookupFailure::BadReply(ReplyFault::Malformed))?;
        let mut job = Job {
            answer: Arc::clone(&answer),
            query_key,
            validator: Validator::answer(response),
            payer,
            quota,
            spent: Spent::default(),
            asked: Vec::new(),
            outlived: false,
            heard: Vec::new(),
            first: None,
            fault: None,
            is_cut: false,
            referrals: Vec::new(),
        };
        job.note_referrals(&answer);
        Ok(Box::new(job))
    }
}

impl Job {
    /// A job for what a candidate brings, whose query pays.
    pub(super) fn of(candidate: &Candidate) -> Unread {
        Unread {
            answer: Arc::clone(&candidate.answer),
            query_key: candidate.query_key,
            payer: candidate.budget.clone(),
            quota: candidate.quota.clone(),
        }
    }

    /// Goes on as far as it can be gone.
    pub(super) fn step(&mut self, turn: &Turn<'_>) -> Progress {
        let Basis { config, table } = turn.basis;
        let validator = &mut self.validator;
        self.quota.pay(config.limits, &mut self.spent, |budget| validator.step(&turn.by(), table, budget))
    }

    /// What was spent on it.
    pub(super) fn spent(&self) -> Spent {
        self.spent
    }

    /// Whether this was too much work for the query that pays only because that has spent something on other
    /// answers.
    pub(super) fn is_spent_elsewhere(&self, reason: BogusReason) -> bool {
        matches!(reason, BogusReason::Limit(limit) if limit.is_of_query())
            && self.quota.is_more_than(self.spent)
    }

    /// Begins again with a second answer, if that can be read.
    pub(super) fn begin_again(&mut self, answer: Arc<Answer>) -> bool {
        let Ok(response) = Response::read(&answer.message, answer.rcode) else { return false };
        self.validator = Validator::answer(response);
        self.note_referrals(&answer);
        self.answer = answer;
        true
    }

    /// Begins again with the first link of the chain, if there is more behind it and that is not too much
    /// work. The answer was found to be `bogus`, which stands if this link is bogus, too.
    pub(super) fn begin_with_first_link(&mut self, bogus: &Validated) -> bool {
        let Security::Bogus(reason) = bogus.security else { return false };
        if self.is_cut || matches!(reason, BogusReason::Limit(_) | BogusReason::Unreachable) {
            return false;
        }
        let Some(link) = first_link(&self.answer) else { return false };
        self.is_cut = self.begin_again(Arc::new(link));
        if self.is_cut {
            self.first = Some(bogus.clone());
        }
        self.is_cut
    }

    /// Takes note of who had what was needed, and of what came with it.
    pub(super) fn hear(&mut self, need: Need, answer: &Arc<Answer>) {
        self.heard.retain(|(known, _)| *known != need);
        self.heard.extend(answer.by.map(|by| (need, by)));
        self.note_referrals(answer);
    }

    /// Who had it.
    pub(super) fn heard_from(&self, need: &Need) -> Option<AnsweredBy> {
        self.heard.iter().find(|(known, _)| known == need).map(|(_, by)| *by)
    }

    fn note_referrals(&mut self, answer: &Arc<Answer>) {
        self.referrals.extend((0..answer.referrals.len()).map(|at| (Arc::clone(answer), at)));
    }

    /// What a referral says of the DS that are needed. Each is looked at once.
    pub(super) fn take_referral(&mut self, need: &Need) -> Option<Response> {
        let Need::Ds(name) = need else { return None };
        let of = |(answer, at): &(Arc<Answer>, usize)| {
            answer.referrals.get(*at).is_some_and(|proof| proof.zone.as_name() == name.as_name())
        };
        let (answer, at) = self.referrals.swap_remove(self.referrals.iter().position(of)?);
        Response::read(&answer.referrals.get(at)?.message, Rcode::NOERROR).ok()
    }

    /// Whether it may be for the server that answered that this is bogus, so that another one may know
    /// better: not if the chain is broken above, and not if it was too much work.
    pub(super) fn is_at_fault(&self, reason: BogusReason, validated: &Validated, turn: &Turn<'_>) -> bool {
        let own = !matches!(reason, BogusReason::Limit(_) | BogusReason::Unreachable);
        let broken = || turn.basis.table.is_broken(validated.at.as_name(), turn.at.wall);
        own && self.answer.by.is_some() && !broken()
    }
}
