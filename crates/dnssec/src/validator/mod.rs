//! Validating a response, and asking for the DS and DNSKEY that this takes.
//!
//! A [`Validator`] has a response to validate, and above it on a stack those that it had to ask for. It does
//! no I/O:
//!
//! ```text
//!                         ┌──────── receive(response) or give_up() ◀───────┐
//!                         ▼                                                │
//!     answer(response) ─▶ step ─▶ Progress::Need(DS or DNSKEY of a zone) ──┘
//!                           └───▶ Progress::Done(Validated)
//! ```
//!
//! The signatures say whose keys are needed. Only data without a good signature is followed down from the
//! anchor, zone cut by zone cut, to find out whether it is insecure.
//!
//! | file | does |
//! |---|---|
//! | `answer.rs` | validates an answer along CNAME and DNAME |
//! | `link.rs` | goes from zone to zone: DS, DNSKEY, or neither |
//! | `work.rs` | validates one RRset, or one absence |
//!
//! What is learned on the way goes into a [`TrustTable`], from where the next lookup takes it. DS, or the
//! proof that there are none, need not be asked for where a referral has brought them:
//! [`Validator::receive_referral`].
//!
//! One server of a zone may be broken while the others are well. So before DS or DNSKEY count as bogus they
//! are to be had from another one, if there is one: [`Progress::Again`].

mod answer;
mod link;
mod work;

use wire::{Name, NameBuf, Ttl};

use crate::anchors::TrustAnchors;
use crate::budget::{ValidationBudget, ValidationLimits};
use crate::outcome::{BogusReason, Security};
use crate::response::Response;
use crate::settings::ValidationSettings;
use crate::trust::{Need, Standing, Trust, TrustTable};
use work::{Examined, Halt, Work};

/// What validation goes by, but for what is learned.
#[derive(Clone, Copy, Debug)]
pub struct Validation<'a> {
    /// What the operator decides.
    pub settings: &'a ValidationSettings,
    /// Where trust begins.
    pub anchors: &'a TrustAnchors,
    /// The time in seconds since 1970.
    pub now: u64,
}

impl Validation<'_> {
    /// Whether it is known that no chain of trust leads to the zone that a name is in, so that what its
    /// servers answer is most likely for [`Validator::recall`]. It takes a few looks into the table.
    pub fn knows_insecure(&self, name: Name<'_>, table: &TrustTable) -> bool {
        matches!(self.work_of(table).zone_of(name), Ok(Standing::Insecure(..) | Standing::NoAnchor))
    }
}

/// What is known of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validated {
    /// The state of all that it covers together: that of its worst part.
    pub security: Security,
    /// The longest that it may be kept: over all that it covers the least of the TTLs received, the original
    /// TTL and the time that the signature has left (RFC 4035 §5.3.3). Of bogus data the
    /// [`bogus_ttl`](ValidationSettings::bogus_ttl).
    pub ttl: Ttl,
    /// The name whose records decided: where the chain broke, or where it is insecure.
    pub at: NameBuf,
    /// The RRsets that it covers, as places in [`Response::sets`], ascending: the chain of CNAME and DNAME
    /// from the name that was asked, the answer at its end, and what proves absences. Nothing is known of
    /// others, which must not be kept.
    pub covers: Vec<usize>,
    /// The chain leads to this name, which the response does not cover: it has to be asked for, and
    /// validated, by itself.
    pub leads_to: Option<NameBuf>,
}

/// How far validation came.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time, on its way to the caller")]
pub enum Progress {
    /// These records are needed. [`Validator::receive`] takes the response.
    Need(Need),
    /// What came for this need is bogus. [`Validator::receive`] takes what another server of the same zone
    /// says; [`Validator::give_up`] stays with what came.
    Again(Need),
    /// It is finished.
    Done(Validated),
}

/// What a response is validated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// To answer its question.
    Answer,
    /// To learn whether its name is that of a signed zone, from the answer section.
    Ds,
    /// To learn the same of the zone that it refers to, from the authority section.
    Referral,
    /// To learn the keys of the zone that it was asked for.
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

/// Whether there is a second response in place of one that was bogus.
#[derive(Clone, Debug)]
enum Second {
    /// It is not asked for.
    NotAsked,
    /// It is asked for; this was learned from the first.
    Asked(Learned),
    /// It came.
    Came,
    /// There is none, so this holds, which was learned from the first.
    None(Learned),
}

impl Task {
    fn new(purpose: Purpose, name: NameBuf, response: Response) -> Self {
        Task { purpose, name, examined: Examined::new(response), second: Second::NotAsked }
    }

    /// What is needed once more if this is what was learned from it: nothing unless that is the response's
    /// own fault.
    fn again(&self, learned: &Learned, table: &TrustTable, now: u64) -> Option<Need> {
        let above = self.name.as_name().parent();
        let own = matches!((&learned.trust, &self.second), (Trust::Bogus(_), Second::NotAsked))
            && above.is_none_or(|above| !table.is_broken(above, now));
        match self.purpose {
            Purpose::Ds if own => Some(Need::Ds(self.name)),
            Purpose::Keys if own => Some(Need::Dnskey(self.name)),
            _ => None,
        }
    }

    /// Whether what it is to say is known by now.
    fn is_known(&self, table: &TrustTable, now: u64) -> bool {
        table.get(self.name.as_name(), now).is_some_and(|trust| match self.purpose {
            Purpose::Keys => !matches!(trust, Trust::Delegated(_)),
            _ => true,
        })
    }
}

fn done(validated: Validated) -> Progress {
    Progress::Done(validated)
}

/// What a zone's DS or keys turned out to be.
#[derive(Clone, Debug)]
struct Learned {
    trust: Trust,
    by: Option<NameBuf>,
    ttl: Ttl,
    covers: Vec<usize>,
}

/// A response being validated.
#[derive(Clone, Debug)]
pub struct Validator {
    stack: Vec<Task>,
    need: Option<Need>,
}

impl Validator {
    /// Validates the answer to a question.
    pub fn answer(response: Response) -> Self {
        let name = response.name.into();
        Validator { stack: vec![Task::new(Purpose::Answer, name, response)], need: None }
    }

    /// Validates what a referral to the servers of `child` says of its DS, for the [`TrustTable`]. If it has
    /// neither DS nor a proof, nothing is learned, and its DS will be asked for when they are needed.
    pub fn referral(response: Response, child: Name<'_>) -> Self {
        Validator { stack: vec![Task::new(Purpose::Referral, child.to_buf(), response)], need: None }
    }

    /// Takes, in place of an answer to the question for DS that it [needs](Progress::Need), what a referral
    /// to the servers of that zone says. If that proves nothing, the DS are needed as before.
    pub fn receive_referral(&mut self, response: Response) {
        if let Some(Need::Ds(name)) = self.need {
            self.need = None;
            self.stack.push(Task::new(Purpose::Referral, name, response));
        }
    }

    /// The response that is validated, and not those asked for.
    pub fn response(&self) -> Option<&Response> {
        self.stack.first().map(|task| &task.examined.response)
    }

    /// What the answer is, if what is known of zones decides that by itself: nothing is asked for, no
    /// signature verified, no name hashed, and nothing taken from any budget. It is what [`step`](Self::step)
    /// would come to, which goes on where this returns `None`.
    pub fn recall(&mut self, by: &Validation<'_>, table: &TrustTable) -> Option<Validated> {
        let [Task { purpose: Purpose::Answer, examined, .. }] = self.stack.as_mut_slice() else {
            return None;
        };
        let mut budget = ValidationBudget::new(ValidationLimits::default());
        examined.answer(&mut Work { by, table, budget: &mut budget, computes: false }).ok()
    }

    /// Goes on as far as it can be gone. Called again without a response in between it asks for the same
    /// again; called again when it is done, it says the same again.
    pub fn step(
        &mut self,
        by: &Validation<'_>,
        table: &TrustTable,
        budget: &mut ValidationBudget,
    ) -> Progress {
        loop {
            let is_last = self.stack.len() <= 1;
            let Some(task) = self.stack.last_mut() else { return done(by.unreachable()) };
            let name = task.name;
            if let (Second::Asked(_), Some(need)) = (&task.second, self.need) {
                if !task.is_known(table, by.now) {
                    return Progress::Again(need);
                }
                // Another validation has settled it.
                self.need = None;
                self.stack.pop();
                continue;
            }
            let mut work = Work { by, table, budget, computes: true };
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
                // Never here, where whatever it takes is computed.
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
                    // What one query's budget did not suffice for is not known to be bogus: others may ask
                    // again.
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

    /// Takes the response to what was needed. One to another question is taken for none at all.
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

    /// What was needed cannot be had: no server answers, or nothing that can be read.
    pub fn give_up(&mut self, by: &Validation<'_>, table: &TrustTable) {
        if let Some(need) = self.need.take() {
            if let Some(task) = self.stack.last_mut()
                && let Second::Asked(learned) = &task.second
            {
                task.second = Second::None(learned.clone());
                return;
            }
            let zone = by.work_of(table).delegation(need.name()).and_then(|(_, zone, _)| zone);
            let bogus = Trust::Bogus(BogusReason::Unreachable);
            table.learn(need.name(), bogus, zone, by.settings.bogus_ttl, by.now);
        }
    }
}
