//! Validates an answer as a resolver would, and stores the DS and DNSKEY responses from the trust anchor
//! down. `validator` decides; this file sends the queries and records the chain.

use transport::unix_now;
use validator::{
    Need, Progress, Response, Security, TrustAnchors, TrustTable, Validated, Validation, ValidationBudget,
    ValidationLimits, ValidationSettings, Validator,
};
use wire::{LowerNameBuf, NameBuf, Rcode, Type, UnixTime};

use super::ask::{self, ReceivedResponse};
use super::steps::{Errand, Steps, WalkStep};
use super::walk::{Walk, WalkFault};
use super::words::Wanted;
use message::{QuerySpec, print};

/// Largest number of names in a chain.
const MAX_NAMES: usize = 4096;

/// Returns the budget of a chase's validation.
pub fn budget() -> ValidationBudget {
    ValidationBudget::new(ValidationLimits { signatures: 64, ..ValidationLimits::default() })
}

/// The source of answers.
pub enum Answerer<'w> {
    /// A resolver.
    Server(&'w Wanted),
    /// The servers of the zones.
    Walk(Walk<'w>),
}

/// An answer from either source.
pub struct Reply {
    /// The response as received.
    pub received: ReceivedResponse,
    /// Its response code.
    pub rcode: Rcode,
    /// The part of it that is used.
    message: Vec<u8>,
    /// The target of an alias, if the answer has no records for it.
    pub leads_to: Option<LowerNameBuf>,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum NoReply {
    /// The walk failed.
    Walk(WalkFault),
    /// The server did not answer, for this reason.
    Server(String),
}

impl std::fmt::Display for NoReply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Walk(fault) => fault.fmt(f),
            Self::Server(why) => f.write_str(why),
        }
    }
}

impl From<std::io::Error> for NoReply {
    fn from(e: std::io::Error) -> Self {
        Self::Walk(WalkFault::Output(e))
    }
}

impl Answerer<'_> {
    /// Sends a query and returns the answer.
    pub fn ask(
        &mut self,
        steps: &mut Steps<'_>,
        errand: Errand,
        name: NameBuf,
        qtype: Type,
    ) -> Result<Reply, NoReply> {
        let wanted = match self {
            Self::Walk(walk) => {
                let reached = walk.find(steps, errand, name, qtype).map_err(NoReply::Walk)?;
                let (rcode, leads_to) = (reached.answer.rcode, reached.answer.leads_to);
                let message = reached.answer.message.into_vec();
                return Ok(Reply { received: reached.reply, rcode, message, leads_to });
            }
            Self::Server(wanted) => *wanted,
        };
        let query = QuerySpec { name, qtype, ..wanted.query.clone() };
        let message = query.message().map_err(|fault| NoReply::Server(fault.to_string()))?;
        let step = WalkStep { errand, zone: NameBuf::ROOT, server: wanted.server, host: None, name, qtype };
        let received = match ask::ask(&Wanted { query, ..wanted.clone() }, &message) {
            Ok(received) => received,
            Err(why) => {
                steps.silent(&step, &why)?;
                return Err(NoReply::Server(why));
            }
        };
        steps.resolved(&step, &received)?;
        let malformed = |_| NoReply::Server(format!("{} sent a malformed answer", wanted.server));
        let rcode = print::rcode(&received.message).map_err(malformed)?;
        let message = received.message.clone();
        Ok(Reply { received, rcode, message, leads_to: None })
    }
}

/// A validated response.
pub struct ChasedAnswer {
    /// The response.
    pub response: Response,
    /// The result of its validation.
    pub validated: Validated,
}

/// The chase of an answer: the DS and DNSKEY responses, and the validated answers along its aliases.
pub struct Chase<'a> {
    /// The trust anchors.
    pub anchors: &'a TrustAnchors,
    /// How responses are validated.
    pub settings: ValidationSettings,
    /// The trust in zones so far.
    pub table: TrustTable,
    budget: ValidationBudget,
    /// The current time.
    pub now: UnixTime,
    /// The DS and DNSKEY responses.
    pub learned: Vec<Response>,
    /// The answers, one for each alias.
    pub links: Vec<ChasedAnswer>,
}

impl<'a> Chase<'a> {
    /// Returns a chase that begins at these anchors, now. No clock skew is allowed, so that expired
    /// signatures show.
    pub fn new(anchors: &'a TrustAnchors) -> Self {
        Chase {
            anchors,
            settings: ValidationSettings { skew: 0, ..ValidationSettings::default() },
            table: TrustTable::new(MAX_NAMES),
            budget: budget(),
            now: unix_now(),
            learned: Vec::new(),
            links: Vec::new(),
        }
    }

    /// Validates an answer, with the queries this takes. Returns the target of an alias, if the answer has no
    /// records for it.
    pub fn validate(
        &mut self,
        source: &mut Answerer<'_>,
        steps: &mut Steps<'_>,
        reply: &Reply,
    ) -> Result<Option<LowerNameBuf>, NoReply> {
        let read = Response::read(&reply.message, reply.rcode);
        let response = read.map_err(|_| NoReply::Server("the answer is malformed".into()))?;
        let mut validator = Validator::answer(response.clone());
        let validated = loop {
            let by = Validation { settings: &self.settings, anchors: self.anchors, now: self.now };
            let need = match validator.step(&by, &self.table, &mut self.budget) {
                Progress::Done(validated) => break validated,
                Progress::Need(need) => need,
                // The user wants to see what this server answers.
                Progress::Again(_) => {
                    validator.give_up(&by, &self.table);
                    continue;
                }
            };
            match ask_for(source, steps, need)? {
                Some(response) => {
                    self.learned.push(response.clone());
                    validator.receive(response, &by, &self.table);
                }
                None => validator.give_up(&by, &self.table),
            }
        };
        let is_alias_asked = matches!(response.qtype, Type::ANY | Type::CNAME);
        let leads_to = validated.leads_to.filter(|_| !is_alias_asked).map(|name| name.as_name().to_lower());
        self.links.push(ChasedAnswer { response, validated });
        Ok(leads_to)
    }

    /// Returns the worst result of all answers.
    pub fn worst(&self) -> Option<&Validated> {
        let rank = |link: &&ChasedAnswer| match link.validated.security {
            Security::Secure => 0,
            Security::Insecure(_) => 1,
            Security::Indeterminate => 2,
            Security::Bogus(_) => 3,
        };
        // Of two equally bad results, the first.
        self.links.iter().rev().max_by_key(rank).map(|link| &link.validated)
    }
}

/// Queries for DS or DNSKEY; returns `None` if they cannot be obtained.
fn ask_for(
    source: &mut Answerer<'_>,
    steps: &mut Steps<'_>,
    need: Need,
) -> Result<Option<Response>, NoReply> {
    match source.ask(steps, Errand::Proof, need.name().to_buf(), need.rtype()) {
        Ok(reply) => Ok(Response::read(&reply.message, reply.rcode).ok()),
        Err(fault @ NoReply::Walk(WalkFault::Output(_) | WalkFault::TooMany)) => Err(fault),
        Err(fault) => {
            eprintln!("nomen: {} of {} cannot be had: {fault}", need.rtype(), need.name());
            Ok(None)
        }
    }
}
