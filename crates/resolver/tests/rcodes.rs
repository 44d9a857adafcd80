//! Every pair of response code and records: which replies are accepted, and with which response code.

use resolver::{Partition, QueryKey, ReplyFault, Scope, scrub};
use wire::message::{Builder, Compressor, Header, MAX_MESSAGE, Owner, Section};
use wire::{Class, NameBuf, Rcode, Ttl, Type, rdata, text};

const SOA: &str = "example. SOA ns.example. root.example. 1 2 3 4 300";
/// With the name in front of it, the target of the DNAME below is longer than 255 bytes.
const LONG: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.\
                    bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb.\
                    ccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc.d.example.";
const LONG_DNAME: &str =
    "d.example. DNAME ddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd.d2.example.";

/// The records of a reply, and the results with each response code that may come with records.
struct Row {
    what: &'static str,
    question: String,
    answer: Vec<String>,
    authority: Vec<String>,
    /// Whether the reply is authoritative; `None` if the result is the same.
    authoritative: Option<bool>,
    /// The results for NOERROR, NXDOMAIN and YXDOMAIN.
    taken: [Taken; 3],
}

/// The result for a reply.
#[derive(Clone, Copy, Debug)]
enum Taken {
    /// Accepted with this response code.
    As(Rcode),
    /// Rejected: response code and records contradict each other.
    Refused,
    /// Rejected as a referral.
    Referral,
}

const NOERROR: Taken = Taken::As(Rcode::NOERROR);
const NXDOMAIN: Taken = Taken::As(Rcode::NXDOMAIN);
const YXDOMAIN: Taken = Taken::As(Rcode::YXDOMAIN);

fn row(what: &'static str, question: &str, answer: &[&str], authority: &[&str], taken: [Taken; 3]) -> Row {
    let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
    let (answer, authority, authoritative) = (lines(answer), lines(authority), None);
    Row { what, question: question.to_owned(), answer, authority, authoritative, taken }
}

/// Replies with an empty answer, and with NS or proofs in the authority section.
fn referrals() -> Vec<Row> {
    use Taken::{Referral, Refused};
    let (absence, referral) = ([NOERROR, NXDOMAIN, Refused], [Referral, NXDOMAIN, Refused]);
    let (own, below) = ("example. NS ns.example.", "sub.example. NS ns.sub.example.");
    let (nsec, nsec3) = (
        "a.example. NSEC z.example. A",
        "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom.example. NSEC3 1 0 0 - 2t7b4g4vsa5smi47k61mv5bv1a22bojr A",
    );
    let of = |what, authority: &[&str], authoritative, taken| Row {
        authoritative: Some(authoritative),
        ..row(what, "www.sub.example. A", &[], authority, taken)
    };
    vec![
        of("servers of the own zone", &[own], true, absence),
        of("servers of the own zone, without AA", &[own], false, referral),
        of("servers of a zone below", &[below], true, absence),
        of("servers of a zone below, without AA", &[below], false, referral),
        of("servers of both", &[own, below], true, absence),
        of("servers of the name", &["www.sub.example. NS ns.sub.example."], true, absence),
        of("servers of the name, without AA", &["www.sub.example. NS ns.sub.example."], false, referral),
        of("servers of a zone above the domain", &[". NS ns.other."], true, referral),
        of("servers of a zone above the domain, without AA", &[". NS ns.other."], false, referral),
        of("servers of a zone beside the name", &["other.example. NS ns.example."], true, referral),
        of("servers of a zone below the name", &["x.www.sub.example. NS ns.example."], true, referral),
        of("servers of a zone below and an SOA", &[below, SOA], true, absence),
        of("servers of a zone below and an SOA, without AA", &[below, SOA], false, absence),
        of("servers of a zone below and a proof", &[below, nsec], true, absence),
        of("servers of a zone below and a proof, without AA", &[below, nsec], false, referral),
        of("NSEC alone", &[nsec], true, absence),
        of("NSEC alone, without AA", &[nsec], false, absence),
        of("NSEC3 alone", &[nsec3], true, absence),
        of("NSEC3 alone, without AA", &[nsec3], false, absence),
        of("NSEC and an SOA", &[SOA, nsec], true, absence),
    ]
}

#[rustfmt::skip]
fn rows() -> Vec<Row> {
    use Taken::Refused;
    let data = [NOERROR, Refused, Refused];
    let absence = [NOERROR, NXDOMAIN, Refused];
    // The response code is that of a name which needs its own lookup.
    let beyond = [NOERROR; 3];
    let (a, alias) = ("www.example. A 192.0.2.1", "www.example. CNAME b.example.");
    let (dname, made) = ("y.example. DNAME z.example.", "x.y.example. CNAME x.z.example.");
    let ns = "example. NS ns.example.";
    let mut all = vec![
        row("the data", "www.example. A", &[a], &[], data),
        row("the data and an SOA", "www.example. A", &[a], &[SOA], data),
        row("the data and servers", "www.example. A", &[a], &[ns], data),
        row("all data at a name", "www.example. ANY", &[a], &[SOA], data),
        row("an alias that was asked for", "www.example. CNAME", &[alias], &[], data),
        row("an alias for ANY", "www.example. ANY", &[alias], &[], data),
        row("an alias and its data", "www.example. A", &[alias, "b.example. A 192.0.2.1"], &[], data),
        row("an alias and its data and an SOA", "www.example. A",
            &[alias, "b.example. A 192.0.2.1"], &[SOA], data),
        row("two aliases and their data", "www.example. A",
            &[alias, "b.example. CNAME c.example.", "c.example. A 192.0.2.1"], &[], data),
        row("an alias and a denial", "www.example. A", &[alias], &[SOA], absence),
        row("an alias alone", "www.example. A", &[alias], &[], absence),
        row("an alias and servers of a zone below", "www.example. A", &["www.example. CNAME b.sub.example."],
            &["sub.example. NS ns.sub.example."], absence),
        row("an alias out of the domain", "www.example. A", &["www.example. CNAME www.other."], &[], beyond),
        row("an alias out of the domain and data there", "www.example. A",
            &["www.example. CNAME www.other.", "www.other. A 192.0.2.1"], &[], beyond),
        row("nothing", "www.example. A", &[], &[], absence),
        row("a denial", "www.example. A", &[], &[SOA], absence),
        row("data of another name", "www.example. A", &["x.example. A 192.0.2.1"], &[SOA], absence),
        row("data of another type", "www.example. AAAA", &[a], &[SOA], absence),
        row("a DNAME and data", "x.y.example. A", &[dname, made, "x.z.example. A 192.0.2.1"], &[], data),
        row("a DNAME and a denial", "x.y.example. A", &[dname, made], &[SOA], absence),
        row("a DNAME alone", "x.y.example. A", &[dname, made], &[], absence),
        row("a DNAME that was asked for", "y.example. DNAME", &[dname], &[], data),
        row("a DNAME and a CNAME at one name", "y.example. DNAME",
            &[dname, "y.example. CNAME z.example."], &[SOA], data),
        row("a CNAME that follows and was asked for", "x.y.example. CNAME", &[dname, made], &[], data),
        row("a CNAME that follows, for ANY", "x.y.example. ANY", &[dname, made], &[], beyond),
        row("a CNAME that follows and data, for ANY", "x.y.example. ANY",
            &[dname, made, "x.z.example. A 192.0.2.1"], &[], data),
        row("a CNAME that follows and a denial, for ANY", "x.y.example. ANY",
            &[dname, made], &[SOA], absence),
        row("a DNAME out of the domain", "x.y.example. A", &["y.example. DNAME other."], &[], beyond),
        row("a name that is too long", &format!("{LONG} A"),
            &[LONG_DNAME], &[], [Refused, Refused, YXDOMAIN]),
        row("a name that is too long, for ANY", &format!("{LONG} ANY"),
            &[LONG_DNAME], &[], [Refused, Refused, YXDOMAIN]),
        row("a name that is too long and an SOA", &format!("{LONG} A"),
            &[LONG_DNAME], &[SOA], [Refused, Refused, YXDOMAIN]),
        row("an alias to a name that is too long", "www.example. A",
            &[&format!("www.example. CNAME {LONG}"), LONG_DNAME], &[], [Refused, Refused, YXDOMAIN]),
        row("data at the name that is too long", &format!("{LONG} A"),
            &[LONG_DNAME, &format!("{LONG} A 192.0.2.1")], &[], [Refused, Refused, YXDOMAIN]),
    ];
    all.extend(referrals());
    all
}

fn reply(row: &Row, query_key: &QueryKey, rcode: Rcode, authoritative: bool) -> Vec<u8> {
    let (mut buf, mut names) = (vec![0; MAX_MESSAGE], Compressor::large());
    let mut header = Header::query(1).reply();
    // The upper bits are those of OPT, which the scrubber does not read.
    header.set_rcode(Rcode(rcode.0 & 0xf));
    header.set_authoritative(authoritative);
    let mut b = Builder::new(&mut buf, MAX_MESSAGE, header, &mut names);
    b.question(query_key.name.as_name(), query_key.qtype, query_key.qclass).expect("room");
    for (section, lines) in [(Section::Answer, &row.answer), (Section::Authority, &row.authority)] {
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let owner: NameBuf = words[0].parse().expect("a name");
            let rtype = Type::from_text(words[1].as_bytes()).expect("a type");
            let tokens: Vec<text::Token<'_>> =
                words[2..].iter().map(|word| text::Token { bytes: word.as_bytes(), quoted: false }).collect();
            let mut data = Vec::new();
            rdata::parse_text(rtype, &tokens, None, &mut data).expect("data");
            b.record(section, Owner::Name(owner.as_name()), rtype, Class::IN, Ttl::from_secs(60), &data)
                .expect("room");
        }
    }
    b.message()
}

/// Returns the result of a row's reply with this response code: the same with and without AA, unless the row
/// sets it, and with and without DNSSEC records.
fn outcome(row: &Row, rcode: Rcode) -> Result<Rcode, ReplyFault> {
    let (name, qtype) = row.question.split_once(' ').expect("a name and a type");
    let name: NameBuf = name.parse().expect("a name");
    let domain: NameBuf = "example.".parse().expect("a name");
    let scope = Scope {
        domain: domain.as_name(),
        sent: name.as_name(),
        records_per_set: 100,
        max_ttl: 86_400,
        max_negative_ttl: 3600,
        border: None,
    };
    let flags = row.authoritative.map_or(vec![true, false], |authoritative| vec![authoritative]);
    let all = flags.iter().flat_map(|aa| [(*aa, false), (*aa, true)]).map(|(authoritative, dnssec_ok)| {
        let query_key = QueryKey {
            name: name.as_name().to_lower(),
            qtype: Type::from_text(qtype.as_bytes()).expect("a type"),
            qclass: Class::IN,
            dnssec_ok,
            checking_disabled: false,
            partition: Partition::SHARED,
        };
        let answer = scrub(&reply(row, &query_key, rcode, authoritative), &query_key, rcode, &scope)?;
        let written = Header::of(&answer.message).map(|header| header.rcode());
        assert_eq!(written, Some(answer.rcode), "{}: the message has the same response code", row.what);
        Ok(answer.rcode)
    });
    let mut all: Vec<_> = all.collect();
    all.dedup();
    assert_eq!(all.len(), 1, "{} with {rcode}: AA or DO make a difference: {all:?}", row.what);
    all.remove(0)
}

/// Before, a YXDOMAIN with records but no DNAME, and NXDOMAIN beside the queried data, were passed on.
#[test]
fn a_response_code_that_the_records_prove_wrong_is_refused() {
    for row in rows() {
        for (rcode, taken) in [Rcode::NOERROR, Rcode::NXDOMAIN, Rcode::YXDOMAIN].into_iter().zip(row.taken) {
            let expected = match taken {
                Taken::As(rcode) => Ok(rcode),
                Taken::Refused => Err(ReplyFault::Contradiction(rcode)),
                Taken::Referral => Err(ReplyFault::Referral),
            };
            assert_eq!(outcome(&row, rcode), expected, "{} with {rcode}", row.what);
        }
    }
}

/// Only these three come with records of zones. Response codes from 16 on have bits in OPT.
#[test]
fn all_other_response_codes_are_errors_whatever_records_come_with_them() {
    let answers = [Rcode::NOERROR, Rcode::NXDOMAIN, Rcode::YXDOMAIN];
    for rcode in (0..=23).chain([256, 4095]).map(Rcode).filter(|rcode| !answers.contains(rcode)) {
        for row in rows() {
            assert_eq!(outcome(&row, rcode), Err(ReplyFault::Rcode(rcode)), "{} with {rcode}", row.what);
        }
    }
}
