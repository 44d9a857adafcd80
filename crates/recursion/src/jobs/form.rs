//! A validated answer's messages for clients: with DNSSEC records if DO is set, otherwise without.

use std::sync::Arc;

use resolver::ScrubbedAnswer;
use validator::{Response, Security, Validated};
use wire::message::{Builder, Compressor, MAX_MESSAGE, Offset, Owner, Parser, Section};
use wire::rdata::view::Rrsig;
use wire::{LowerNameBuf, NameBuf, Ttl, Type};

use crate::message::Unjoinable;

/// A message with at most this many records has few names, which fit a small compression table.
const FEW_RECORDS: usize = 16;

/// A validated answer's messages for clients.
pub(crate) struct Form {
    /// The secure RRsets, if the answer is secure: only these are passed on then.
    covered: Vec<(Section, NameBuf, Type)>,
    /// The messages written so far, without and with DO.
    made: [Option<Arc<[u8]>>; 2],
}

impl Form {
    /// The messages of a validated response; none is written yet.
    pub(crate) fn of(response: Option<&Response>, validated: &Validated) -> Form {
        let sets = response.map_or(&[][..], |response| &response.sets);
        let covers = validated.covers.iter().filter_map(|at| sets.get(*at));
        let covered = covers.map(|set| (set.section, set.owner, set.rtype)).collect();
        Form { covered, made: [None, None] }
    }

    /// Returns where the chain leads on, if the answer does not include its end. For ANY and CNAME the first
    /// link is the answer.
    pub(crate) fn leads_to(&self, answer: &ScrubbedAnswer, validated: &Validated) -> Option<LowerNameBuf> {
        let qtype = question_of(answer).ok().map(|(_, qtype)| qtype);
        let further = validated.leads_to.filter(|_| !matches!(qtype, Some(Type::ANY | Type::CNAME)));
        answer.leads_to.or(further.map(|name| name.as_name().to_lower()))
    }

    /// Caps a TTL: for secure data the signatures limit it (RFC 4035 §5.3.3).
    pub(crate) fn cap(&self, validated: &Validated, ttl: Ttl) -> Ttl {
        if validated.security == Security::Secure { ttl.min(validated.ttl) } else { ttl }
    }

    /// Returns the message for clients with or without DO, and whether it was written just now. AD is set if
    /// the answer is secure.
    pub(crate) fn write(
        &mut self,
        answer: &ScrubbedAnswer,
        validated: &Validated,
        dnssec_ok: bool,
    ) -> Result<(Arc<[u8]>, bool), Unjoinable> {
        let [plain, signed] = &self.made;
        if let Some(made) = if dnssec_ok { signed } else { plain } {
            return Ok((Arc::clone(made), false));
        }
        let message: Arc<[u8]> = self.make(answer, validated, dnssec_ok)?.into();
        let [plain, signed] = &mut self.made;
        *(if dnssec_ok { signed } else { plain }) = Some(Arc::clone(&message));
        Ok((message, true))
    }

    fn make(
        &self,
        answer: &ScrubbedAnswer,
        validated: &Validated,
        dnssec_ok: bool,
    ) -> Result<Vec<u8>, Unjoinable> {
        let (mut header, mut parser) = Parser::new(&answer.message)?;
        let [_, answers, authorities, _] = header.counts();
        let is_secure = validated.security == Security::Secure;
        header.set_authentic_data(is_secure);
        header.set_checking_disabled(false);
        let few = usize::from(answers) + usize::from(authorities) <= FEW_RECORDS;
        let mut names = if few { Compressor::small() } else { Compressor::large() };
        // Leaving records out makes it longer only by names that were pointers into these records.
        let room = (answer.message.len() * 2 + 512).min(MAX_MESSAGE);
        let mut written = vec![0; room];
        let mut b = Builder::new(&mut written, room, header, &mut names);
        let question = parser.question()?;
        b.question(question.name, question.qtype, question.qclass)?;
        b.learn(question.name, Offset::QNAME);
        let mut rdata = Vec::new();
        for (section, count) in [(Section::Answer, answers), (Section::Authority, authorities)] {
            for _ in 0..count {
                let record = parser.record()?;
                let owner = parser.name_at(record.owner_at)?;
                rdata.clear();
                parser.expand_rdata(&record, &mut rdata)?;
                let of = match record.rtype {
                    Type::RRSIG => Rrsig::read_type_covered(&rdata)?,
                    rtype => rtype,
                };
                let is_covered = || {
                    let mut covered = self.covered.iter();
                    covered.any(|(where_, name, rtype)| (*where_, *name, *rtype) == (section, owner, of))
                };
                if is_secure && !is_covered()
                    || !dnssec_ok && is_hidden(record.rtype, section, question.qtype)
                {
                    continue;
                }
                let ttl = self.cap(validated, record.ttl());
                b.record(section, Owner::Name(owner.as_name()), record.rtype, record.class, ttl, &rdata)?;
            }
        }
        let len = b.finish();
        written.truncate(len);
        Ok(written)
    }
}

/// Whether records of this type are only sent to clients with DO (RFC 4035 §3.2.1): those for validation,
/// unless queried.
fn is_hidden(rtype: Type, section: Section, qtype: Type) -> bool {
    let asked = section == Section::Answer && (qtype == rtype || qtype == Type::ANY);
    matches!(rtype, Type::RRSIG | Type::NSEC | Type::NSEC3) && !asked
}

fn question_of(answer: &ScrubbedAnswer) -> Result<(NameBuf, Type), Unjoinable> {
    let (_, mut parser) = Parser::new(&answer.message)?;
    let question = parser.question()?;
    Ok((question.name.to_buf(), question.qtype))
}
