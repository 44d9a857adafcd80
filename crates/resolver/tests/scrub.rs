//! Invariants of the scrubber for all replies.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use resolver::{Partition, QueryKey, ReferralScope, Scope, ScrubbedAnswer, referral, scrub};
use wire::message::{Builder, Compressor, Header, MAX_MESSAGE, Offset, Owner, Parser, Section};
use wire::rdata::{self, view::Rrsig};
use wire::{Class, Name, NameBuf, Rcode, Ttl, Type};

const NAMES: [&str; 10] = [
    ".",
    "example.",
    "Example.",
    "www.example.",
    "a.www.example.",
    "sub.example.",
    "www.sub.example.",
    "other.",
    "www.other.",
    "b.a.www.example.",
];
const TYPES: [Type; 14] = [
    Type::A,
    Type::A,
    Type::CNAME,
    Type::CNAME,
    Type::DNAME,
    Type::NS,
    Type::SOA,
    Type::TXT,
    Type::RRSIG,
    Type::NSEC,
    Type::NSEC3,
    Type::OPT,
    Type::ANY,
    Type(65_280),
];
const MAX_TTL: u32 = 5000;
const MAX_NEGATIVE_TTL: u32 = 500;

fn name(text: &str) -> NameBuf {
    text.parse().expect("a name")
}

fn any_name() -> impl Strategy<Value = NameBuf> {
    select(&NAMES[..]).prop_map(name)
}

/// RDATA of a type, mostly well formed.
fn data(rtype: Type, target: NameBuf, signer: NameBuf, covered: Type, bytes: Vec<u8>) -> Vec<u8> {
    let wire = |name: &NameBuf| name.as_name().as_wire().to_vec();
    match rtype {
        Type::A => vec![192, 0, 2, bytes.len() as u8],
        Type::CNAME | Type::DNAME | Type::NS => wire(&target),
        Type::SOA => [wire(&target), wire(&signer), vec![0; 18], vec![bytes.len() as u8, 0]].concat(),
        Type::TXT => vec![1, bytes.len() as u8],
        Type::RRSIG => {
            let head = [&covered.0.to_be_bytes()[..], &[13, 1], &[0; 14]].concat();
            [head, wire(&signer), vec![1, bytes.len() as u8]].concat()
        }
        Type::NSEC => [wire(&target), vec![0, 1, 0x40]].concat(),
        Type::NSEC3 => [vec![1, 0, 0, 0, 0, 1, 7], vec![0, 1, 0x40]].concat(),
        _ => bytes,
    }
}

type Entry = (Section, NameBuf, Type, Class, Ttl, Vec<u8>);

fn record() -> impl Strategy<Value = Entry> {
    let section = select(vec![Section::Answer, Section::Answer, Section::Authority, Section::Additional]);
    let class = select(vec![Class::IN, Class::IN, Class::IN, Class::IN, Class(3)]);
    let of = (any_name(), any_name(), select(&TYPES[..]), vec(any::<u8>(), 0..4));
    (section, any_name(), select(&TYPES[..]), class, 0..20_000u32, of, 0..40u8).prop_map(
        |(section, owner, rtype, class, ttl, (target, signer, covered, bytes), spoil)| {
            let data = match spoil {
                0 => bytes,
                _ => data(rtype, target, signer, covered, bytes),
            };
            (section, owner, rtype, class, Ttl::from_secs(ttl), data)
        },
    )
}

prop_compose! {
    fn query_key()(name in any_name(), qtype in select(&TYPES[..]), dnssec_ok: bool) -> QueryKey {
        let name = name.as_name().to_lower();
        QueryKey { name, qtype, qclass: Class::IN, dnssec_ok, checking_disabled: false, partition: Partition::SHARED }
    }
}

fn reply(query_key: &QueryKey, sent: Name<'_>, rcode: Rcode, records: &[Entry]) -> Vec<u8> {
    let (mut buf, mut names) = (vec![0; MAX_MESSAGE], Compressor::large());
    let mut header = Header::query(1).reply();
    header.set_rcode(rcode);
    header.set_authoritative(records.len().is_multiple_of(2));
    let mut b = Builder::new(&mut buf, MAX_MESSAGE, header, &mut names);
    b.question(sent, query_key.qtype, query_key.qclass).expect("fits");
    b.learn(sent, Offset::QNAME);
    for wanted in [Section::Answer, Section::Authority, Section::Additional] {
        for (section, owner, rtype, class, ttl, data) in records {
            if *section == wanted {
                b.record(*section, Owner::Name(owner.as_name()), *rtype, *class, *ttl, data).expect("fits");
            }
        }
    }
    let len = b.finish();
    buf.truncate(len);
    buf
}

fn run(
    message: &[u8],
    query_key: &QueryKey,
    sent: Name<'_>,
    domain: Name<'_>,
    rcode: Rcode,
) -> Option<ScrubbedAnswer> {
    let scope = Scope {
        domain,
        sent,
        records_per_set: 4,
        max_ttl: MAX_TTL,
        max_negative_ttl: MAX_NEGATIVE_TTL,
        border: None,
    };
    scrub(message, query_key, rcode, &scope).ok()
}

/// Checks the invariants of an answer; returns the number of its records.
fn check(answer: &ScrubbedAnswer, query_key: &QueryKey, domain: Name<'_>) -> Result<usize, TestCaseError> {
    let message = &answer.message;
    let (header, mut parser) = Parser::new(message).expect("a header");
    let [questions, answers, authorities, additional] = header.counts();
    prop_assert_eq!((questions, additional, header.id()), (1, 0, 0));
    prop_assert!(header.is_response() && !header.truncated() && !header.authoritative());
    let question = parser.question().expect("a question");
    prop_assert_eq!(question.name.as_wire(), query_key.name.as_name().as_wire());
    // The names that the chain has reached, link by link.
    let mut reached: Vec<NameBuf> = vec![query_key.name.into()];
    let mut dname: Option<(NameBuf, NameBuf)> = None;
    for n in 0..answers + authorities {
        let record = parser.record().expect("a record");
        let owner = parser.name_at(record.owner_at).expect("a name");
        let mut data = Vec::new();
        parser.expand_rdata(&record, &mut data).expect("data");
        prop_assert!(rdata::validate(record.rtype, &data).is_ok());
        prop_assert!(!record.rtype.is_meta() && record.class == Class::IN);
        prop_assert!(owner.as_name().is_at_or_below(domain), "{} is out of bailiwick", owner);
        prop_assert!(record.ttl().as_secs() <= MAX_TTL);
        if record.rtype == Type::RRSIG && query_key.qtype != Type::RRSIG && query_key.qtype != Type::ANY {
            let rrsig = Rrsig::read(&data).expect("RRSIG");
            prop_assert!(query_key.dnssec_ok && owner.as_name().is_at_or_below(rrsig.signer));
        }
        if n < answers {
            let last = reached.last().expect("one").as_name();
            let above =
                dname.is_some_and(|(dname, _)| dname == owner) || last.is_at_or_below(owner.as_name());
            // Signatures follow the records they cover, also those that led on.
            let above = above || record.rtype == Type::RRSIG && reached.contains(&owner);
            prop_assert!(above, "{} stands beside the chain", owner);
            // ANY follows nothing but the CNAME synthesized from a DNAME.
            let alias = record.rtype == Type::CNAME
                && (query_key.qtype != Type::ANY
                    || dname.as_ref().is_some_and(|(above, target)| {
                        let next =
                            NameBuf::replace_suffix(last, above.as_name().label_count(), target.as_name());
                        last.is_at_or_below(above.as_name())
                            && next.is_ok_and(|next| next.as_name().as_wire() == data)
                    }));
            if alias && owner.as_name() == last && query_key.qtype != Type::CNAME {
                reached.push(Name::from_wire(&data).expect("a name").to_buf());
            } else if record.rtype == Type::DNAME && owner.as_name() != last {
                dname = Some((owner, Name::from_wire(&data).expect("a name").to_buf()));
            } else if record.rtype != Type::RRSIG {
                prop_assert!(owner.as_name() == last, "{} does not answer", owner);
            }
        } else {
            let allowed = [Type::SOA, Type::NSEC, Type::NSEC3, Type::RRSIG];
            prop_assert!(allowed.contains(&record.rtype), "{} in authority", record.rtype);
            let passed = reached.iter().any(|name| name.as_name().is_at_or_below(owner.as_name()));
            prop_assert!(record.rtype != Type::SOA || passed, "SOA of {}", owner);
            prop_assert!(record.rtype == Type::SOA || query_key.dnssec_ok);
        }
    }
    prop_assert!(parser.at_end());
    prop_assert!(answer.negative_ttl.is_none_or(|ttl| ttl.as_secs() <= MAX_NEGATIVE_TTL));
    Ok(usize::from(answers + authorities))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_kept_belongs_to_the_question_and_keeping_it_again_changes_nothing(
        query_key in query_key(),
        records in vec(record(), 0..12),
        domain in select(vec![".", "example."]),
        rcode in select(vec![Rcode::NOERROR, Rcode::NXDOMAIN]),
    ) {
        let domain = name(domain);
        let message = reply(&query_key, query_key.name.as_name(), rcode, &records);
        let again = |message: &[u8], rcode| {
            run(message, &query_key, query_key.name.as_name(), domain.as_name(), rcode)
        };
        if let Some(answer) = again(&message, rcode) {
            check(&answer, &query_key, domain.as_name())?;
            prop_assert_eq!(answer.authoritative, records.len().is_multiple_of(2));
            // AA is not in the message, since it comes from a cache.
            let kept = ScrubbedAnswer { authoritative: false, ..answer };
            prop_assert_eq!(again(&kept.message, kept.rcode), Some(kept));
        }
    }

    #[test]
    fn a_referral_leads_down_towards_the_name_and_has_glue_of_the_zone_asked_alone(
        query_key in query_key(),
        records in vec(record(), 1..12),
        zone in select(vec![".", "example.", "www.example."]),
    ) {
        let zone = name(zone);
        // Answers would exclude a referral; addresses in the authority section become glue.
        let moved = |(section, owner, rtype, class, ttl, data): &(_, _, Type, _, _, _)| {
            let section = match (*section, *rtype) {
                (_, Type::A) => Section::Additional,
                (_, Type::NS) => Section::Authority,
                (section, _) => section,
            };
            (section, *owner, *rtype, *class, *ttl, Vec::clone(data))
        };
        let mut records: Vec<_> = records.iter().map(moved).collect();
        records.sort_by_key(|record| record.0 as u8);
        let message = reply(&query_key, query_key.name.as_name(), Rcode::NOERROR, &records);
        let asked = query_key.name.as_name();
        let scope = ReferralScope {
            zone: zone.as_name(),
            name: asked,
            class: Class::IN,
            servers: 2,
            addresses: 1,
            loopback: false,
            max_ttl: MAX_TTL,
        };
        if let Ok(Some(found)) = referral(&message, &scope) {
            let cut = found.zone.as_name();
            prop_assert!(asked.is_at_or_below(cut) && cut.is_at_or_below(zone.as_name()) && cut != zone.as_name());
            prop_assert!((1..=2).contains(&found.servers.len()) && found.ttl <= MAX_TTL);
            for (server, glue) in &found.servers {
                prop_assert!(glue.len() <= 1);
                prop_assert!(glue.is_empty() || server.as_name().is_at_or_below(zone.as_name()));
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic(
        query_key in query_key(),
        records in vec(record(), 0..8),
        spoiled in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut message = reply(&query_key, query_key.name.as_name(), Rcode::NOERROR, &records);
        for (at, byte) in spoiled {
            *at.get_mut(&mut message) = byte;
        }
        for message in [&message[..], &message[..cut.index(message.len())]] {
            if let Some(answer) = run(message, &query_key, query_key.name.as_name(), Name::ROOT, Rcode::NOERROR) {
                check(&answer, &query_key, Name::ROOT)?;
            }
        }
    }

    #[test]
    fn the_letter_case_that_was_sent_never_shows(
        query_key in query_key(),
        records in vec(record(), 0..12),
    ) {
        let mixed: Vec<u8> = query_key.name.as_name().as_wire().iter().map(u8::to_ascii_uppercase).collect();
        let sent = Name::from_wire(&mixed).expect("a name");
        // A server that compresses names against the question, whatever their letter case.
        let as_sent = |name: &NameBuf| {
            let end = sent.ancestors().find(|end| name.as_name().is_at_or_below(*end)).unwrap_or(Name::ROOT);
            let drop = end.label_count();
            NameBuf::replace_suffix(name.as_name(), drop, end).unwrap_or(*name)
        };
        let mut compressed = records.clone();
        for (_, owner, rtype, _, _, data) in &mut compressed {
            *owner = as_sent(owner);
            if let (Type::CNAME | Type::NS, Ok(target)) = (*rtype, Name::from_wire(data)) {
                *data = as_sent(&target.to_buf()).as_name().as_wire().to_vec();
            }
        }
        let message = reply(&query_key, sent, Rcode::NOERROR, &compressed);
        let plain = reply(&query_key, query_key.name.as_name(), Rcode::NOERROR, &records);
        let run = |message: &[u8], sent| run(message, &query_key, sent, Name::ROOT, Rcode::NOERROR);
        let (mixed, plain) = (run(&message, sent), run(&plain, query_key.name.as_name()));
        let upper = |answer: &ScrubbedAnswer| answer.message.windows(3).any(|three| three == b"WWW" || three == b"SUB");
        prop_assert!(!mixed.as_ref().is_some_and(upper), "{mixed:?}");
        prop_assert_eq!(mixed.is_some(), plain.is_some());
    }
}
