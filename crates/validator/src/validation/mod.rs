//! [`Validator`]: validates a response, and requests the DS and DNSKEY that this needs.
//!
//! A [`Validator`] has a stack with the response to validate, and above it those it had to request. It does
//! no I/O:
//!
//! ```text
//!                         ┌──────── receive(response) or give_up() ◀───────┐
//!                         ▼                                                │
//!     answer(response) ─▶ step ─▶ Progress::Need(DS or DNSKEY of a zone) ──┘
//!                           └───▶ Progress::Done(Validated)
//! ```
//!
//! The signatures determine whose keys are needed. Only for data without a valid signature, the chain is
//! followed down from the anchor, zone cut by zone cut, to find out whether the data is insecure.
//!
//! | file | does |
//! |---|---|
//! | `answer.rs` | validates an answer along CNAME and DNAME |
//! | `link.rs` | follows the chain from zone to zone: DS, DNSKEY, or neither |
//! | `work.rs` | validates one RRset, or one absence |
//!
//! Trust states found on the way are stored in a [`TrustTable`], where later lookups find them. DS, or the
//! proof that there are none, need not be requested if a referral contained them:
//! [`Validator::receive_referral`].
//!
//! One server of a zone may be broken while the others are not. So before DS or DNSKEY count as bogus, they
//! are requested from another server, if there is one: [`Progress::Again`].

mod answer;
mod link;
mod work;

use wire::{Name, NameBuf, Ttl, UnixTime};

use crate::anchors::TrustAnchors;
use crate::budget::{ValidationBudget, ValidationLimits};
use crate::outcome::{BogusReason, Security};
use crate::response::Response;
use crate::settings::ValidationSettings;
use crate::trust::{Need, Standing, Trust, TrustTable};
use work::{Examined, Halt, Work};

/// The inputs of validation, except for cached trust states.
#[derive(Clone, Copy, Debug)]
pub struct Validation<'a> {
    /// The operator's settings.
    pub settings: &'a ValidationSettings,
    /// The trust anchors.
    pub anchors: &'a TrustAnchors,
    /// The current time.
    pub now: UnixTime,
}

impl Validation<'_> {
    /// Whether the zone that contains a name is known to have no chain of trust, so that
    /// [`Validator::recall`] most likely decides its servers' responses. Takes a few lookups in the table.
    pub fn knows_insecure(&self, name: Name<'_>, table: &TrustTable) -> bool {
        matches!(self.work_of(table, self.now).zone_of(name), Ok(Standing::Insecure(..) | Standing::NoAnchor))
    }
}

/// The result of validating a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validated {
    /// The combined state of all that it covers: the worst one.
    pub security: Security,
    /// The longest time for which it may be cached: over all that it covers, the minimum of the received
    /// TTLs, the original TTL and the remaining validity of the signature (RFC 4035 §5.3.3). For bogus data
    /// the [`bogus_ttl`](ValidationSettings::bogus_ttl).
    pub ttl: Ttl,
    /// The name whose records decided: where the chain is broken, or where it is insecure.
    pub at: NameBuf,
    /// The RRsets that it covers, as ascending indexes of [`Response::sets`]: the chain of CNAME and DNAME
    /// from QNAME, the answer at its end, and the proofs of nonexistence. The state of others is unknown, and
    /// they must not be cached.
    pub covers: Vec<usize>,
    /// The target of the chain, if the response does not cover it: it has to be queried and validated
    /// separately.
    pub leads_to: Option<NameBuf>,
}

/// The progress of validation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time, on its way to the caller")]
pub enum Progress {
    /// These records are needed. The response goes to [`Validator::receive`].
    Need(Need),
    /// The response for this need is bogus. A response from another server of the same zone goes to
    /// [`Validator::receive`]; [`Validator::give_up`] keeps the first result.
    Again(Need),
    /// Validation is finished.
    Done(Validated),
}

/// The purpose of validating a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// To answer the client's question.
    Answer,
    /// To determine from the answer section whether its name is that of a signed zone.
    Ds,
    /// To determine the same for the zone that it refers to, from the authority section.
    Referral,
    /// To determine the keys of the queried zone.
    Keys,
}

/// A response on the stack.
#[derive(Clone, Debug)]
struct Task {
    purpose: Purpose,
    /// The name that it is about.
    name: NameBuf,
    examined: Examined,
    second: Second,
}

/// State of a second response to replace a bogus one.
#[derive(Clone, Debug)]
enum Second {
    /// It was not requested.
    NotAsked,
    /// It was requested; this is the result of the first.
    Asked(Learned),
    /// It was received.
    Came,
    /// There is none, so the result of the first holds.
    None(Learned),
}

impl Task {
    fn new(purpose: Purpose, name: NameBuf, response: Response) -> Self {
        Task { purpose, name, examined: Examined::new(response), second: Second::NotAsked }
    }

    /// The records to request once more after this result; `None` unless the response itself is at fault.
    fn again(&self, learned: &Learned, table: &TrustTable, now: UnixTime) -> Option<Need> {
        let above = self.name.as_name().parent();
        let own = matches!((&learned.trust, &self.second), (Trust::Bogus(_), Second::NotAsked))
            && above.is_none_or(|above| !table.is_broken(above, now));
        match self.purpose {
            Purpose::Ds if own => Some(Need::Ds(self.name)),
            Purpose::Keys if own => Some(Need::Dnskey(self.name)),
            _ => None,
        }
    }

    /// Whether its result is cached by now.
    fn is_known(&self, table: &TrustTable, now: UnixTime) -> bool {
        table.get(self.name.as_name(), now).is_some_and(|trust| match self.purpose {
            Purpose::Keys => !matches!(trust, Trust::Delegated(_)),
            _ => true,
        })
    }
}

fn done(validated: Validated) -> Progress {
    Progress::Done(validated)
}

/// The trust state found for a zone.
#[derive(Clone, Debug)]
struct Learned {
    trust: Trust,
    by: Option<NameBuf>,
    ttl: Ttl,
    covers: Vec<usize>,
}

/// Validates a response.
#[derive(Clone, Debug)]
pub struct Validator {
    stack: Vec<Task>,
    need: Option<Need>,
    /// When it was first called; what expires later may be used until it is finished.
    begun: Option<UnixTime>,
}

impl Validator {
    /// Creates a validator for the answer to a question.
    pub fn answer(response: Response) -> Self {
        let name = response.name.into();
        Validator { stack: vec![Task::new(Purpose::Answer, name, response)], need: None, begun: None }
    }

    /// Creates a validator for the DS in a referral to the servers of `child`, to fill the [`TrustTable`]. If
    /// the referral has neither DS nor a proof, nothing is stored, and the DS are requested when they are
    /// needed.
    pub fn referral(response: Response, child: Name<'_>) -> Self {
        let task = Task::new(Purpose::Referral, child.to_buf(), response);
        Validator { stack: vec![task], need: None, begun: None }
    }

    /// Processes a referral to the servers of a zone instead of a response to the DS query that it
    /// [needs](Progress::Need). If the referral proves nothing, the DS are still needed.
    pub fn receive_referral(&mut self, response: Response) {
        if let Some(Need::Ds(name)) = self.need {
            self.need = None;
            self.stack.push(Task::new(Purpose::Referral, name, response));
        }
    }

    /// The response being validated, not those requested for it.
    pub fn response(&self) -> Option<&Response> {
        self.stack.first().map(|task| &task.examined.response)
    }

    /// Returns the result if the cached trust states alone decide it: requests nothing, verifies no
    /// signature, hashes no name, and spends no budget. The result equals that of [`step`](Self::step), which
    /// has to be called if this returns `None`.
    pub fn recall(&mut self, by: &Validation<'_>, table: &TrustTable) -> Option<Validated> {
        let begun = *self.begun.get_or_insert(by.now);
        let [Task { purpose: Purpose::Answer, examined, .. }] = self.stack.as_mut_slice() else {
            return None;
        };
        let mut budget = ValidationBudget::new(ValidationLimits::default());
        examined.answer(&mut Work { by, table, budget: &mut budget, begun, computes: false }).ok()
    }

    /// Proceeds as far as possible. If called again without a response, returns the same need; if called
    /// again when finished, returns the same result.
    pub fn step(
        &mut self,
        by: &Validation<'_>,
        table: &TrustTable,
        budget: &mut ValidationBudget,
    ) -> Progress {
        let begun = *self.begun.get_or_insert(by.now);
        loop {
            let is_last = self.stack.len() <= 1;
            let Some(task) = self.stack.last_mut() else { return done(by.unreachable()) };
            let name = task.name;
            if let (Second::Asked(_), Some(need)) = (&task.second, self.need) {
                if !task.is_known(table, by.now) {
                    return Progress::Again(need);
                }
                // Another validation has stored the result.
                self.need = None;
                self.stack.pop();
                continue;
            }
            let mut work = Work { by, table, budget, begun, computes: true };
            let learned = match (&task.second, task.purpose) {
                (Second::None(learned), _) => Ok(Some(learned.clone())),
                (_, Purpose::Answer) => match task.examined.answer(&mut work) {
                    Ok(validated) => return done(validated),
                    Err(halt) => Err(halt),
                },
                (_, Purpose::Ds) => task.examined.ds(&mut work).map(Some),
                (_, Purpose::Referral) => task.examined.referral(name.as_name(), &mut work),
                (_, Purpose::Keys) => Ok(task.examined.keys(&mut work)),
            };
            match learned {
                // Does not occur, since everything may be computed here.
                Err(Halt::Computing) => return done(by.unreachable()),
                Err(Halt::Need(need)) if self.need == Some(*need) => return Progress::Need(*need),
                Err(Halt::Need(need)) => match budget.take_fetch() {
                    Ok(()) => {
                        self.need = Some(*need);
                        return Progress::Need(*need);
                    }
                    Err(limit) => return done(by.bogus(limit.into(), name)),
                },
                Ok(learned) => {
                    let validated = by.of_learned(learned.as_ref(), name);
                    // If the budget of one query was too small, the data is not known to be bogus: others may
                    // try again.
                    if let Security::Bogus(BogusReason::Limit(limit)) = validated.security
                        && limit.is_of_query()
                    {
                        return done(validated);
                    }
                    let again = learned.as_ref().and_then(|learned| task.again(learned, table, by.now));
                    if let (Some(need), Some(learned)) = (again, &learned)
                        && budget.take_fetch().is_ok()
                    {
                        task.second = Second::Asked(learned.clone());
                        self.need = Some(need);
                        return Progress::Again(need);
                    }
                    if let Some(Learned { trust, by: zone, ttl, .. }) = learned {
                        table.learn(name.as_name(), trust, zone, ttl, by.now);
                    }
                    if is_last {
                        return done(validated);
                    }
                    self.stack.pop();
                }
            }
        }
    }

    /// Processes the response to the needed query. A response to another question counts as none.
    pub fn receive(&mut self, response: Response, by: &Validation<'_>, table: &TrustTable) {
        let Some(need) = self.need else { return };
        let fits = response.name.as_name() == need.name() && response.qtype == need.rtype();
        if !fits || response.qclass != wire::Class::IN {
            return self.give_up(by, table);
        }
        let purpose = match need {
            Need::Ds(_) => Purpose::Ds,
            Need::Dnskey(_) => Purpose::Keys,
        };
        self.need = None;
        match self.stack.last_mut() {
            Some(task) if matches!(task.second, Second::Asked(_)) => {
                (task.examined, task.second) = (Examined::new(response), Second::Came);
            }
            _ => self.stack.push(Task::new(purpose, response.name.into(), response)),
        }
    }

    /// Reports that the needed records cannot be fetched: no server responds, or no response can be parsed.
    pub fn give_up(&mut self, by: &Validation<'_>, table: &TrustTable) {
        if let Some(need) = self.need.take() {
            if let Some(task) = self.stack.last_mut()
                && let Second::Asked(learned) = &task.second
            {
                task.second = Second::None(learned.clone());
                return;
            }
            let begun = *self.begun.get_or_insert(by.now);
            let zone = by.work_of(table, begun).delegation(need.name()).and_then(|known| known.by);
            let bogus = Trust::Bogus(BogusReason::Unreachable);
            table.learn(need.name(), bogus, zone, by.settings.bogus_ttl, by.now);
        }
    }
}
