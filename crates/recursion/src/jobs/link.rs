//! The first link of an alias chain, as an answer by itself.

use resolver::ScrubbedAnswer;
use wire::message::{Builder, Compressor, MAX_MESSAGE, Offset, Owner, Parser, Section};
use wire::{LowerNameBuf, Name, Rcode, Type};

use crate::message::Unjoinable;

/// Returns the part of an answer up to the first alias, if there is more behind it; the alias's target is
/// then looked up separately.
pub(super) fn first_link(answer: &ScrubbedAnswer) -> Option<ScrubbedAnswer> {
    let (message, target) = cut(answer).ok().flatten()?;
    Some(ScrubbedAnswer {
        message: message.into(),
        rcode: Rcode::NOERROR,
        negative_ttl: None,
        leads_to: Some(target),
        ..answer.clone()
    })
}

/// Returns the message with the first link and its proofs, and the link's target.
fn cut(answer: &ScrubbedAnswer) -> Result<Option<(Vec<u8>, LowerNameBuf)>, Unjoinable> {
    let (mut header, mut parser) = Parser::new(&answer.message)?;
    let [_, answers, authorities, _] = header.counts();
    header.set_rcode(Rcode::NOERROR);
    let question = parser.question()?;
    if matches!(question.qtype, Type::CNAME | Type::ANY) {
        return Ok(None);
    }
    let mut names = Compressor::large();
    let room = (answer.message.len() * 2 + 512).min(MAX_MESSAGE);
    let mut written = vec![0; room];
    let mut b = Builder::new(&mut written, room, header, &mut names);
    b.question(question.name, question.qtype, question.qclass)?;
    b.learn(question.name, Offset::QNAME);
    let (mut target, mut rdata, mut ends_here) = (None, Vec::new(), answer.leads_to.is_some());
    for (section, count) in [(Section::Answer, answers), (Section::Authority, authorities)] {
        for _ in 0..count {
            let record = parser.record()?;
            let owner = parser.name_at(record.owner_at)?;
            rdata.clear();
            parser.expand_rdata(&record, &mut rdata)?;
            let is_alias = record.rtype == Type::CNAME && owner.as_name() == question.name;
            let is_first = match section {
                // A DNAME precedes the CNAME synthesized from it.
                Section::Answer if target.is_none() => {
                    matches!(record.rtype, Type::CNAME | Type::DNAME | Type::RRSIG)
                }
                Section::Answer => {
                    record.rtype == Type::RRSIG && question.name.is_at_or_below(owner.as_name())
                }
                _ => matches!(record.rtype, Type::NSEC | Type::NSEC3 | Type::RRSIG),
            };
            if is_alias && target.is_none() {
                target = Name::from_wire(&rdata).ok().map(Name::to_lower);
            }
            if is_first {
                let (owner, ttl) = (Owner::Name(owner.as_name()), record.ttl());
                b.record(section, owner, record.rtype, record.class, ttl, &rdata)?;
            } else {
                ends_here = false;
            }
        }
    }
    let len = b.finish();
    written.truncate(len);
    Ok(target.filter(|_| !ends_here).map(|target| (written, target)))
}
