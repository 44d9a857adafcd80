//! The validation of one answer.

use std::sync::Arc;

use resolver::{AnsweredBy, Budget, LookupFailure, QueryKey, ReplyFault, ScrubbedAnswer};
use validator::{BogusReason, Need, Progress, Response, Security, Validated, Validator};
use wire::Rcode;

use super::link::first_link;
use super::queue::Candidate;
use super::{Basis, Turn};
use crate::quota::{Spent, ValidationQuota};

/// A validation.
pub(crate) struct Job {
    /// The answer, or the second one.
    pub(crate) answer: Arc<ScrubbedAnswer>,
    /// The query, with CD clear.
    pub(crate) query_key: QueryKey,
    pub(crate) validator: Validator,
    /// The budget that its lookups are charged to.
    pub(crate) payer: Budget,
    quota: ValidationQuota,
    /// The work spent on it.
    spent: Spent,
    pub(crate) asked: Vec<Need>,
    /// A lookup that it needs failed for another query, which ran out of time or budget.
    pub(crate) outlived: bool,
    /// The source of each DS and DNSKEY.
    sources: Vec<(Need, AnsweredBy)>,
    /// The result for the first answer, if a second one is requested or in use.
    pub(crate) first: Option<Validated>,
    /// Why the first answer is bogus, if it is.
    pub(crate) fault: Option<BogusReason>,
    /// `answer` is the first link of the received chain.
    is_cut: bool,
    /// Unused proofs from referrals: an answer and an index into its referrals.
    referrals: Vec<(Arc<ScrubbedAnswer>, usize)>,
}

/// A job whose answer has not been parsed.
pub(crate) struct Unread {
    answer: Arc<ScrubbedAnswer>,
    query_key: QueryKey,
    payer: Budget,
    quota: ValidationQuota,
}

impl Unread {
    /// Parses the answer.
    ///
    /// # Errors
    /// The answer is malformed.
    pub(crate) fn read(self) -> Result<Box<Job>, LookupFailure> {
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
            sources: Vec::new(),
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
    /// Makes a job for a candidate's answer, charged to its query.
    pub(crate) fn of(candidate: &Candidate) -> Unread {
        Unread {
            answer: Arc::clone(&candidate.answer),
            query_key: candidate.query_key,
            payer: candidate.budget.clone(),
            quota: candidate.quota.clone(),
        }
    }

    /// Advances the validation until it needs data or ends.
    pub(crate) fn step(&mut self, turn: &Turn<'_>) -> Progress {
        let Basis { config, .. } = turn.basis;
        let table = turn.basis.table(self.query_key.partition);
        let validator = &mut self.validator;
        self.quota.pay(config.limits, &mut self.spent, |budget| validator.step(&turn.by(), table, budget))
    }

    /// Returns the work spent on it.
    pub(crate) fn spent(&self) -> Spent {
        self.spent
    }

    /// Whether the work exceeds the charged query's limit only because that query also paid for other
    /// answers.
    pub(crate) fn is_spent_elsewhere(&self, reason: BogusReason) -> bool {
        matches!(reason, BogusReason::Limit(limit) if limit.is_of_query())
            && self.quota.is_more_than(self.spent)
    }

    /// Restarts with a second answer, unless it is malformed.
    pub(crate) fn begin_again(&mut self, answer: Arc<ScrubbedAnswer>) -> bool {
        let Ok(response) = Response::read(&answer.message, answer.rcode) else { return false };
        self.validator = Validator::answer(response);
        self.note_referrals(&answer);
        self.answer = answer;
        true
    }

    /// Restarts with the first link of the chain, if there is more behind it and the reason is not a limit.
    /// The whole answer is `bogus`, which stands if the first link is bogus, too.
    pub(crate) fn begin_with_first_link(&mut self, bogus: &Validated) -> bool {
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

    /// Records the source of a DS or DNSKEY, and its referrals.
    pub(crate) fn record_source(&mut self, need: Need, answer: &Arc<ScrubbedAnswer>) {
        self.sources.retain(|(known, _)| *known != need);
        self.sources.extend(answer.by.map(|by| (need, by)));
        self.note_referrals(answer);
    }

    /// Returns the source of a DS or DNSKEY.
    pub(crate) fn source_of(&self, need: &Need) -> Option<AnsweredBy> {
        self.sources.iter().find(|(known, _)| known == need).map(|(_, by)| *by)
    }

    fn note_referrals(&mut self, answer: &Arc<ScrubbedAnswer>) {
        self.referrals.extend((0..answer.referrals.len()).map(|at| (Arc::clone(answer), at)));
    }

    /// Takes a referral's proof for the DS that is needed. Each is used once.
    pub(crate) fn take_referral(&mut self, need: &Need) -> Option<Response> {
        let Need::Ds(name) = need else { return None };
        let of = |(answer, at): &(Arc<ScrubbedAnswer>, usize)| {
            answer.referrals.get(*at).is_some_and(|proof| proof.zone.as_name() == name.as_name())
        };
        let (answer, at) = self.referrals.swap_remove(self.referrals.iter().position(of)?);
        Response::read(&answer.referrals.get(at)?.message, Rcode::NOERROR).ok()
    }

    /// Whether the answering server may be at fault, so that another may have a good answer: not if the chain
    /// of trust is broken above, and not if a limit was reached.
    pub(crate) fn is_at_fault(&self, reason: BogusReason, validated: &Validated, turn: &Turn<'_>) -> bool {
        let own = !matches!(reason, BogusReason::Limit(_) | BogusReason::Unreachable);
        let broken =
            || turn.basis.table(self.query_key.partition).is_broken(validated.at.as_name(), turn.at.wall);
        own && self.answer.by.is_some() && !broken()
    }
}
