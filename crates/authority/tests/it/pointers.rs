//! Names and RRsets at the limits of compression pointers. The test is that two decoders read the right
//! records from a message.

use testkit::decode::Decoded;
use testkit::model::canonical;
use testkit::{ModelRecord, key, name, random};
use wire::{Name, NameBuf, Ttl, Type};

use crate::support::{Query, Server};

const MINUTE: Ttl = Ttl::from_secs(60);

fn record(owner: &str, rtype: Type, rdata: Vec<u8>) -> ModelRecord {
    ModelRecord { owner: name(owner), rtype, ttl: MINUTE, rdata }
}

fn to(owner: &str, rtype: Type, front: &[u8], target: &str) -> ModelRecord {
    record(owner, rtype, [front, name(target).as_name().as_wire()].concat())
}

fn a(owner: &str, last: u8) -> ModelRecord {
    record(owner, Type::A, vec![192, 0, 2, last])
}

/// A signature of `len` bytes: what makes messages large.
fn sig(owner: &str, covered: Type, tag: u8, len: usize) -> ModelRecord {
    let mut rdata = random::rrsig(covered, tag);
    rdata.resize(rdata.len() + len, tag);
    record(owner, Type::RRSIG, rdata)
}

/// Serves `example.` with these records.
fn serve(records: &[ModelRecord]) -> Server {
    let apex = name("example.");
    let mut all = vec![record("example.", Type::SOA, random::soa(apex.as_name(), 1))];
    all.extend_from_slice(records);
    Server::of([testkit::build(apex.as_name(), &key(), &all)])
}

fn ask(server: &Server, qname: &str, qtype: Type) -> Decoded {
    server.ask(&Query::new(name(qname), qtype)).expect("a zone")
}

fn ask_signed(server: &Server, qname: &str, qtype: Type) -> Decoded {
    server.ask(&Query { dnssec_ok: true, ..Query::new(name(qname), qtype) }).expect("a zone")
}

/// A section as (owner, type, canonical RDATA), without signatures.
fn plain(answer: &Decoded, section: usize) -> Vec<(NameBuf, Type, Vec<u8>)> {
    let lines = answer.sections[section].iter().filter(|line| line.rtype != Type::RRSIG);
    lines.map(|line| (line.owner, line.rtype, canonical(line.rtype, &line.rdata))).collect()
}

fn expected(owner: &str, records: &[ModelRecord], rtype: Type) -> Vec<(NameBuf, Type, Vec<u8>)> {
    let of_type = records.iter().filter(|r| r.rtype == rtype);
    of_type.map(|r| (name(owner), rtype, canonical(rtype, &r.rdata))).collect()
}

/// A name of exactly `len` bytes that ends in `.example.`.
fn long(len: usize) -> String {
    let mut left = len - name("example.").as_name().len();
    let mut text = String::new();
    while left > 0 {
        let label = match left {
            65 => 62,
            _ => left.min(64) - 1,
        };
        text.push_str(&"l".repeat(label));
        text.push('.');
        left -= label + 1;
    }
    text + "example."
}

#[test]
fn names_of_every_length_up_to_the_limit_are_answered() {
    let names: Vec<String> = (11..=255).map(long).collect();
    let mut records = Vec::new();
    for owner in &names {
        records.push(to(owner, Type::MX, &[0, 1], owner));
        records.push(to(owner, Type::MX, &[0, 2], "mail.example."));
        records.push(a(owner, 1));
    }
    let server = serve(&records);
    for owner in &names {
        let answer = ask(&server, owner, Type::MX);
        let wanted: Vec<ModelRecord> = records.iter().filter(|r| r.owner == name(owner)).cloned().collect();
        assert_eq!(plain(&answer, 0), expected(owner, &wanted, Type::MX));
        assert_eq!(plain(&answer, 2), expected(owner, &wanted, Type::A));
    }
}

/// RFC 4592 §3.3: the RRset is that of the wildcard under another, longer name.
#[test]
fn wildcard_sets_move_with_the_length_of_the_question() {
    let records = [
        to("*.w.example.", Type::MX, &[0, 1], "mail.w.example."),
        to("*.w.example.", Type::MX, &[0, 2], "backup.mail.w.example."),
        to("*.w.example.", Type::MX, &[0, 3], "mail.example."),
        to("*.w.example.", Type::MX, &[0, 4], "backup.elsewhere.test."),
        to("*.w.example.", Type::MX, &[0, 5], "more.elsewhere.test."),
        to("*.w.example.", Type::MX, &[0, 6], "x.*.w.example."),
        a("mail.w.example.", 1),
        a("mail.example.", 2),
    ];
    let server = serve(&records);
    for len in 13..=255 {
        let mut qname = long(len - 2);
        qname.insert_str(qname.len() - "example.".len(), "w.");
        let answer = ask(&server, &qname, Type::MX);
        assert_eq!(plain(&answer, 0), expected(&qname, &records, Type::MX), "{qname}");
        assert_eq!(
            plain(&answer, 2),
            [
                (name("mail.w.example."), Type::A, vec![192, 0, 2, 1]),
                (name("mail.example."), Type::A, vec![192, 0, 2, 2]),
            ]
        );
    }
}

/// RFC 1034 §4.3.2 step 3b: the owner of the NS RRset is the cut's name, any number of bytes into the
/// question.
#[test]
fn referrals_move_with_the_length_of_the_question() {
    let records = [
        to("cut.example.", Type::NS, &[], "ns.cut.example."),
        to("cut.example.", Type::NS, &[], "deep.ns.cut.example."),
        to("cut.example.", Type::NS, &[], "ns.elsewhere.test."),
        to("cut.example.", Type::NS, &[], "two.ns.elsewhere.test."),
        to("cut.example.", Type::NS, &[], "ns.other.example."),
        a("ns.cut.example.", 1),
        a("deep.ns.cut.example.", 2),
        a("ns.other.example.", 3),
    ];
    let server = serve(&records);
    for len in 15..=255 {
        let mut qname = long(len - 4);
        qname.insert_str(qname.len() - "example.".len(), "cut.");
        let answer = ask(&server, &qname, Type::A);
        assert_eq!(plain(&answer, 1), expected("cut.example.", &records, Type::NS), "{qname}");
        assert_eq!(plain(&answer, 2).len(), 3);
        for (owner, _, rdata) in plain(&answer, 2) {
            assert!(records.iter().any(|r| r.owner == owner && r.rdata == rdata), "{owner}");
        }
    }
}

/// RRsets at the end of a chain, whose owner is after the question.
#[test]
fn sets_behind_a_chain_have_owners_beyond_the_question() {
    let records = [
        to("c.example.", Type::CNAME, &[], "target.elsewhere.example."),
        to("target.elsewhere.example.", Type::MX, &[0, 1], "target.elsewhere.example."),
        to("target.elsewhere.example.", Type::MX, &[0, 2], "mail.elsewhere.example."),
        to("target.elsewhere.example.", Type::MX, &[0, 3], "far.mail.test."),
        to("target.elsewhere.example.", Type::MX, &[0, 4], "near.far.mail.test."),
        a("target.elsewhere.example.", 1),
        a("mail.elsewhere.example.", 2),
        to("w.example.", Type::CNAME, &[], "any.wild.example."),
        to("*.wild.example.", Type::MX, &[0, 1], "mail.wild.example."),
        to("*.wild.example.", Type::MX, &[0, 2], "mail.test."),
        to("d.example.", Type::DNAME, &[], "elsewhere.example."),
        to("l.example.", Type::CNAME, &[], "x.lower.cut.example."),
        to("cut.example.", Type::NS, &[], "ns.cut.example."),
        a("ns.cut.example.", 3),
    ];
    let server = serve(&records);
    let mxs = |owner: &str, at: &str| {
        let of: Vec<ModelRecord> = records.iter().filter(|r| r.owner == name(at)).cloned().collect();
        expected(owner, &of, Type::MX)
    };
    let target = "target.elsewhere.example.";
    assert_eq!(plain(&ask(&server, "c.example.", Type::MX), 0)[1..], mxs(target, target));
    assert_eq!(plain(&ask(&server, "c.example.", Type::MX), 2).len(), 2);
    assert_eq!(plain(&ask(&server, "target.d.example.", Type::MX), 0)[2..], mxs(target, target));
    let any = mxs("any.wild.example.", "*.wild.example.");
    assert_eq!(plain(&ask(&server, "w.example.", Type::MX), 0)[1..], any);
    let referral = ask(&server, "l.example.", Type::MX);
    assert_eq!(plain(&referral, 1), expected("cut.example.", &records[12..], Type::NS));
    assert_eq!(plain(&referral, 2), expected("ns.cut.example.", &records[13..], Type::A));
}

/// A CNAME with signatures of `len` bytes, to a target asked for `rtype`.
fn far(len: usize, target: &str, rest: &[ModelRecord]) -> Server {
    let mut records = vec![
        to("c.example.", Type::CNAME, &[], "mid.example."),
        sig("c.example.", Type::CNAME, 1, len / 2),
        sig("c.example.", Type::CNAME, 2, len - len / 2),
        to("mid.example.", Type::CNAME, &[], target),
    ];
    records.extend_from_slice(rest);
    serve(&records)
}

/// RFC 1035 §4.1.4: pointers have 14 bits. Copies that start around 0x2000 and 0x4000, over TCP.
#[test]
fn sets_around_the_reach_of_pointers_are_right() {
    let mut rest = Vec::new();
    for i in 0..40u8 {
        let host = format!("host{i}.behind.example.");
        rest.push(to("t.behind.example.", Type::MX, &[0, i], &host));
        rest.push(to("*.wild.example.", Type::MX, &[0, i], &host));
        rest.push(a(&host, i));
    }
    let (at_t, at_wild) = (&rest[0].owner, &rest[1].owner);
    for len in [0x1f00, 0x1fd0, 0x2000, 0x3e00, 0x3f00, 0x3f40, 0x3f80, 0x3fa0, 0x3fc0, 0x4000, 0x9000] {
        for (target, owner) in [("t.behind.example.", at_t), ("any.wild.example.", at_wild)] {
            let server = far(len, target, &rest);
            let answer = ask_signed(&server, "c.example.", Type::MX);
            assert!(!answer.header.truncated() && answer.bytes.len() > len);
            let wanted: Vec<ModelRecord> = rest.iter().filter(|r| r.owner == *owner).cloned().collect();
            assert_eq!(plain(&answer, 0)[2..], expected(target, &wanted, Type::MX), "{len:#x} {target}");
            // At most 32 hosts get their addresses.
            let hosts: Vec<ModelRecord> =
                rest.iter().filter(|r| r.rtype == Type::A).take(32).cloned().collect();
            let addresses: Vec<_> = hosts.iter().map(|r| (r.owner, r.rtype, r.rdata.clone())).collect();
            assert_eq!(plain(&answer, 2), addresses, "{len:#x} {target}");
        }
    }
}

/// A name out of reach of pointers is written again, not as the wildcard's name.
#[test]
fn owners_out_of_reach_keep_the_name_the_chain_led_to() {
    let wild = [
        a("*.wild.example.", 1),
        sig("*.wild.example.", Type::A, 1, 1),
        sig("*.wild.example.", Type::TXT, 1, 1),
    ];
    // The target is on each side of the last byte that a pointer reaches.
    for len in (0x3f60..0x3f90).chain([0x4000]) {
        let server = far(len, "Any.wild.example.", &wild);
        let answer = ask_signed(&server, "c.example.", Type::A);
        assert_eq!(answer.sections[0].last().map(|line| line.owner), Some(name("any.wild.example.")));
        assert_eq!(plain(&answer, 0)[2..], expected("any.wild.example.", &wild, Type::A));
    }
    let exact =
        [a("t.example.", 1), sig("t.example.", Type::A, 1, 1), to("d.example.", Type::DNAME, &[], "x.test.")];
    let server = far(0x4000, "t.example.", &exact);
    let answer = ask_signed(&server, "c.example.", Type::A);
    assert_eq!(answer.sections[0].last().map(|line| line.owner), Some(name("t.example.")));
    let server = far(0x4000, "t.d.example.", &exact);
    let answer = ask_signed(&server, "c.example.", Type::A);
    let made = (name("t.d.example."), Type::CNAME, name("t.x.test.").as_name().as_wire().to_vec());
    assert_eq!(plain(&answer, 0).last(), Some(&made));
    let server = serve(&[
        to("d.example.", Type::DNAME, &[], "wild.example."),
        sig("d.example.", Type::DNAME, 1, 0x4000),
        wild[0].clone(),
        wild[1].clone(),
        wild[2].clone(),
    ]);
    let answer = ask_signed(&server, "any.d.example.", Type::RRSIG);
    let owners: Vec<NameBuf> = answer.sections[0].iter().map(|line| line.owner).collect();
    let any = name("any.wild.example.");
    assert_eq!(owners, [name("d.example."), name("d.example."), name("any.d.example."), any, any]);
}

/// SOA's two names point at each other; after a long answer no pointer reaches them.
#[test]
fn a_soa_out_of_reach_is_written_again() {
    let apex = name("example.");
    let soa = record("example.", Type::SOA, random::soa(name("primary.test.").as_name(), 1));
    for len in (0x1f00..0x4100).step_by(0x61) {
        let records = [
            soa.clone(),
            to("c.example.", Type::CNAME, &[], "nowhere.example."),
            sig("c.example.", Type::CNAME, 1, len),
        ];
        let server = Server::of([testkit::build(apex.as_name(), &key(), &records)]);
        let answer = ask_signed(&server, "c.example.", Type::A);
        assert_eq!(plain(&answer, 1), expected("example.", &records, Type::SOA), "{len:#x}");
    }
}

/// RFC 9460 §2.5.2: `.` means the owner, so the RDATA does not hold the owner of the addresses.
#[test]
fn addresses_of_a_service_at_its_own_name_have_that_name() {
    let records = [
        to("svc.example.", Type::HTTPS, &[0, 1], "."),
        a("svc.example.", 1),
        to("c.example.", Type::CNAME, &[], "svc.example."),
        to("*.wild.example.", Type::HTTPS, &[0, 1], "."),
        a("*.wild.example.", 2),
        to("w.example.", Type::CNAME, &[], "x.wild.example."),
    ];
    let server = serve(&records);
    for (qname, owner, last) in [
        ("svc.example.", "svc.example.", 1),
        ("c.example.", "svc.example.", 1),
        ("x.wild.example.", "x.wild.example.", 2),
        ("w.example.", "x.wild.example.", 2),
    ] {
        let answer = ask(&server, qname, Type::HTTPS);
        assert_eq!(plain(&answer, 2), [(name(owner), Type::A, vec![192, 0, 2, last])], "{qname}");
    }
}

/// RFC 9471 §3.1: all in-domain glue or TC, however many name servers there are.
#[test]
fn many_name_servers_in_domain_bring_all_their_glue_or_truncation() {
    let mut records = Vec::new();
    for i in 0..60u8 {
        let host = format!("ns{i}.cut.example.");
        records.push(to("cut.example.", Type::NS, &[], &host));
        records.push(a(&host, i));
    }
    let server = serve(&records);
    let answer = ask(&server, "www.cut.example.", Type::A);
    assert_eq!((answer.header.truncated(), answer.sections[2].len()), (false, 60));
    let whole = answer.bytes.len();
    for size in [512, 1232, whole - 1, whole] {
        let query = Query { size, ..Query::new(name("www.cut.example."), Type::A) };
        assert_eq!(server.ask(&query).expect("a zone").header.truncated(), size < whole, "{size}");
    }
}

/// At every size a message holds the required RRsets whole, or has TC set; optional ones are left out.
#[test]
fn every_size_gives_a_message_that_is_whole_or_says_so() {
    let mut records = vec![
        to("cut.example.", Type::NS, &[], "ns.cut.example."),
        to("cut.example.", Type::NS, &[], "ns.sibling.example."),
        to("sibling.example.", Type::NS, &[], "ns.sibling.example."),
        a("ns.cut.example.", 1),
        a("ns.sibling.example.", 2),
    ];
    for i in 0..5u8 {
        let host = format!("host{i}.example.");
        records.push(to("big.example.", Type::MX, &[0, i], &host));
        records.push(a(&host, i));
        records.push(record(&host, Type::AAAA, vec![i; 16]));
    }
    let server = serve(&records);
    for (qname, qtype) in
        [("www.cut.example.", Type::A), ("big.example.", Type::MX), ("nx.example.", Type::A)]
    {
        let query = Query::new(name(qname), qtype);
        let all = server.ask(&query).expect("a zone");
        let least = name(qname).as_name().len() + 16;
        let mut before = (true, 0);
        for size in least..=all.bytes.len() {
            let answer = server.ask(&Query { size, ..query }).expect("a zone");
            if !answer.header.truncated() {
                assert_eq!(answer.sections[..2], all.sections[..2], "{qname} {size}");
                assert!(answer.sections[2].iter().all(|line| all.sections[2].contains(line)));
                let required = |line: &testkit::answers::Line| line.owner == name("ns.cut.example.");
                assert_eq!(
                    answer.sections[2].iter().any(required),
                    qtype == Type::A && qname != "nx.example."
                );
            }
            // A larger message never holds less.
            let now = (answer.header.truncated(), answer.sections[2].len());
            assert!(now.0 <= before.0 && (now.1 >= before.1 || before.0), "{qname} {size}");
            before = now;
        }
        assert_eq!(before, (false, all.sections[2].len()));
    }
}

/// The largest RRsets that a message takes, and the first that it does not.
#[test]
fn the_limit_of_tcp_is_the_limit_of_a_message() {
    let txt = |n: usize, last: usize| -> Vec<ModelRecord> {
        (0..n)
            .map(|i| {
                let len = if i + 1 == n { last } else { 255 };
                let mut text = vec![len as u8];
                text.extend_from_slice(&(i as u16).to_be_bytes());
                text.resize(len + 1, b'x');
                record("t.example.", Type::TXT, text)
            })
            .collect()
    };
    // Question: 12 + 11 + 4; a record: 12 + 1 + its text.
    let room = 65_535 - 27;
    let (full, last) = (room / 268, room % 268 - 13);
    let records = txt(full + 1, last);
    let answer = ask(&serve(&records), "t.example.", Type::TXT);
    assert_eq!((answer.header.truncated(), answer.bytes.len()), (false, 65_535));
    assert_eq!(plain(&answer, 0), expected("t.example.", &records, Type::TXT));
    // A query for a wildcard's RRset may have a longer name than the wildcard.
    let wild: Vec<ModelRecord> =
        records.iter().map(|r| ModelRecord { owner: name("*.example."), ..r.clone() }).collect();
    let server = serve(&wild);
    assert!(!ask(&server, "t.example.", Type::TXT).header.truncated());
    assert!(ask(&server, "tt.example.", Type::TXT).header.truncated());
}

/// QNAME may end in the bytes of another name without being below it, if the first of them is part of a
/// label.
#[test]
fn equal_bytes_across_a_label_boundary_are_no_suffix() {
    let inner = Name::from_wire(b"\x09a\x02ns\x04cuty\x07example\0").expect("a name").to_buf();
    let question = inner.as_name().to_lower().into();
    let records = [
        to("mx.example.", Type::MX, &[0, 1], "ns.cuty.example."),
        a("ns.cuty.example.", 1),
        ModelRecord {
            owner: question,
            rtype: Type::MX,
            ttl: MINUTE,
            rdata: [&[0, 1], name("ns.cuty.example.").as_name().as_wire()].concat(),
        },
    ];
    let server = serve(&records);
    let answer = server.ask(&Query::new(question, Type::MX)).expect("a zone");
    assert_eq!(plain(&answer, 2), expected("ns.cuty.example.", &records, Type::A));
    // A pointer into the label would read right, but points at no name (RFC 1035 §4.1.4).
    let address = answer.bytes.len() - 16;
    assert_eq!(answer.bytes[address] & 0xc0, 0xc0);
    let pointer = u16::from_be_bytes([answer.bytes[address], answer.bytes[address + 1]]) & 0x3fff;
    assert!(!(13..22).contains(&pointer), "{pointer}");
}
