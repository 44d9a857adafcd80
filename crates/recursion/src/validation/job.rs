//! One answer on its way through validation.

use std::sync::Arc;

use dnssec::{BogusReason, Need, Response, Validated, ValidationBudget, Validator};
use resolver::{Answer, AnsweredBy, Inquiry, LookupFailure, ReplyFault};
use wire::Rcode;

use super::Turn;
use super::queue::Candidate;

/// An answer being validated.
pub(super) struct Job {
    /// The answer, or the second one.
    pub(super) answer: Arc<Answer>,
    /// The question, with CD clear.
    pub(super) inquiry: Inquiry,
    pub(super) validator: Validator,
    pub(super) budget: ValidationBudget,
    pub(super) asked: Vec<Need>,
    /// What it needs could not be had for somebody else, who had no more time or means.
    pub(super) outlived: bool,
    /// Who DS and DNSKEY came from.
    heard: Vec<(Need, AnsweredBy)>,
    /// What the first answer was found to be, if there is a second one, or is to be.
    pub(super) first: Option<Validated>,
    /// Why the first answer is bogus, if it is.
    pub(super) fault: Option<BogusReason>,
    /// Signatures verified when it began, and those of them that were not good.
    before: [u32; 2],
    /// What referrals brought and was not looked at: an answer, and which of its referrals.
    referrals: Vec<(Arc<Answer>, usize)>,
}

/// A job whose answer is not read yet.
pub(super) struct Unread {
    answer: Arc<Answer>,
    inquiry: Inquiry,
    budget: ValidationBudget,
}

impl Unread {
    /// Reads the answer.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn read(self) -> Result<Box<Job>, LookupFailure> {
        let Unread { answer, inquiry, budget } = self;
        let response = Response::read(&answer.message, answer.rcode)
            .map_err(|_| LookupFailure::BadReply(ReplyFault::Malformed))?;
        let mut job = Job {
            answer: Arc::clone(&answer),
            inquiry,
            validator: Validator::answer(response),
            before: [budget.signatures(), budget.failures()],
            budget,
            asked: Vec::new(),
            outlived: false,
            heard: Vec::new(),
            first: None,
            fault: None,
            referrals: Vec::new(),
        };
        job.note_referrals(&answer);
        Ok(Box::new(job))
    }
}

impl Job {
    /// A job for what a candidate brings, with what is left of the work that its query may cost.
    pub(super) fn of(candidate: &Candidate, budget: ValidationBudget) -> Unread {
        Unread { answer: Arc::clone(&candidate.answer), inquiry: candidate.inquiry, budget }
    }

    /// Begins again with a second answer, if that can be read.
    pub(super) fn begin_again(&mut self, answer: Arc<Answer>) -> bool {
        let Ok(response) = Response::read(&answer.message, answer.rcode) else { return false };
        self.validator = Validator::answer(response);
        self.note_referrals(&answer);
        self.answer = answer;
        true
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

    /// Signatures that it has verified, and those of them that were not good.
    pub(super) fn spent(&self) -> (u32, u32) {
        let [signatures, failures] = self.before;
        let (all, bad) = (self.budget.signatures(), self.budget.failures());
        (all.saturating_sub(signatures), bad.saturating_sub(failures))
    }

    /// Whether it may be for the server that answered that this is bogus, so that another one may know better: not if the
    /// chain is broken above, and not if it was too much work.
    pub(super) fn is_at_fault(&self, reason: BogusReason, validated: &Validated, turn: &Turn<'_>) -> bool {
        let own = !matches!(reason, BogusReason::Limit(_) | BogusReason::Unreachable);
        let broken = || turn.basis.table.is_broken(validated.at.as_name(), turn.at.wall);
        own && self.answer.by.is_some() && !broken()
    }
}
