//! The part of a response that the resolver keeps.
//!
//! RFC 2181 §5.4.1: "Unauthenticated RRs received and cached from the least trustworthy of those groupings,
//! that is data from the additional data section, and data from the authority section of a non-authoritative
//! answer, should not be cached in such a way that they would ever be returned as answers to a received
//! query." So an answer only contains the question's own chain; scrubbing it again changes nothing. A
//! referral leads down, towards the name, and has no addresses from outside the queried zone.

use resolver::{Partition, QueryKey, ReferralScope, Scope, ScrubbedAnswer, referral, scrub};
use wire::Name;
use wire::message::{Parser, RawRecord};

pub(crate) fn run(message: &[u8]) {
    let Ok((header, mut parser)) = Parser::new(message) else { return };
    let Ok(question) = parser.question() else { return };
    let query_key = QueryKey {
        name: question.name.to_lower(),
        qtype: question.qtype,
        qclass: question.qclass,
        dnssec_ok: header.checking_disabled(),
        checking_disabled: header.checking_disabled(),
        partition: Partition::SHARED,
    };
    let name = query_key.name.as_name();
    for labels in [0, 1, 2] {
        let zone = name.skip(name.label_count().saturating_sub(labels));
        check_referral(message, &query_key, zone);
    }
    let scope = |sent| Scope {
        domain: Name::ROOT,
        sent,
        records_per_set: 256,
        max_ttl: 86_400,
        max_negative_ttl: 10_800,
        border: None,
    };
    let Ok(answer) = scrub(message, &query_key, header.rcode(), &scope(question.name)) else { return };

    let (header, mut parser) = Parser::new(&answer.message).expect("a header");
    let [questions, answers, authorities, additional] = header.counts();
    assert_eq!((questions, additional), (1, 0));
    let question = parser.question().expect("a question");
    assert_eq!(question.name.as_wire(), query_key.name.as_name().as_wire());
    for _ in 0..answers + authorities {
        let record: RawRecord = parser.record().expect("a record");
        assert!(
            record.class == query_key.qclass && !record.rtype.is_meta() && record.ttl().as_secs() <= 86_400
        );
        let mut data = Vec::new();
        parser.expand_rdata(&record, &mut data).expect("data");
        assert!(wire::rdata::validate(record.rtype, &data).is_ok());
    }
    assert!(parser.at_end());
    let again = scrub(&answer.message, &query_key, answer.rcode, &scope(query_key.name.as_name()));
    // AA is not in the message: the kept part is for the cache.
    assert_eq!(again, Ok(ScrubbedAnswer { authoritative: false, ..answer }));
}

/// Reads the referral in a message, as if a server of `zone` had sent it.
fn check_referral(message: &[u8], query_key: &QueryKey, zone: Name<'_>) {
    let scope = ReferralScope {
        zone,
        name: query_key.name.as_name(),
        class: query_key.qclass,
        servers: 13,
        addresses: 6,
        loopback: false,
        max_ttl: 86_400,
    };
    let Ok(Some(found)) = referral(message, &scope) else { return };
    let cut = found.zone.as_name();
    assert!(scope.name.is_at_or_below(cut) && cut.is_at_or_below(zone) && cut != zone);
    assert!((1..=13).contains(&found.servers.len()) && found.ttl <= 86_400);
    for (name, glue) in &found.servers {
        assert!(glue.is_empty() || name.as_name().is_at_or_below(zone));
        assert!(glue.len() <= 6);
        assert!(!glue.iter().any(|ip| ip.is_unspecified() || ip.is_loopback() || ip.is_multicast()));
    }
}
