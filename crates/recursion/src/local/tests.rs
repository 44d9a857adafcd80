//! Answers for local names, as text.

use proptest::prelude::*;
use wire::message::{Compressor, Header, Parser};
use wire::rdata;

use super::*;

fn name(text: &str) -> NameBuf {
    text.parse().expect("a name")
}

fn lower(text: &str) -> LowerNameBuf {
    name(text).as_name().to_lower()
}

fn names_of(config: &LocalConfig) -> LocalNames {
    LocalNames::new(config, &key())
}

fn key() -> HashKey {
    HashKey::new([1, 2, 3])
}

fn data(lines: &[&str]) -> LocalConfig {
    LocalConfig {
        data: lines.iter().map(|line| line.parse().expect(line)).collect(),
        ..LocalConfig::default()
    }
}

/// A response as text.
#[derive(Debug, PartialEq)]
struct Response {
    rcode: Rcode,
    answers: Vec<String>,
    authorities: Vec<String>,
    truncated: bool,
    leads_to: Option<String>,
}

/// Sends a query such as `www.example. A`, with this size limit of the message.
fn ask_within(names: &LocalNames, question: &str, limit: usize) -> Option<Response> {
    let (qname, qtype) = question.split_once(' ').expect("a name and a type");
    ask_for(names, name(qname).as_name(), qtype.parse().expect("a type"), Class::IN, limit)
}

fn ask_for(
    names: &LocalNames,
    written: Name<'_>,
    qtype: Type,
    qclass: Class,
    limit: usize,
) -> Option<Response> {
    let mut hashed = HashedName::new();
    hashed.set(&key(), written);
    let (mut buf, mut compressor) = (vec![0; 65_535], Compressor::small());
    let mut b = Builder::new(&mut buf, limit, Header::query(7).reply(), &mut compressor);
    b.question(written, qtype, qclass).expect("there is room");
    let before = (b.len(), b.header());
    let answered = names.answer(&hashed, written, qtype, qclass, &|_| false, &mut b);
    if answered.is_none() {
        assert_eq!((b.len(), b.header()), before, "written although it is not local");
    }
    let answered = answered?;
    let len = b.finish();
    let (header, mut parser) = Parser::new(&buf[..len]).expect("a header");
    parser.question().expect("the question");
    assert!(header.authoritative());
    assert!(header.truncated() || answered.rcode == header.rcode());
    let mut section = |count: u16| (0..count).map(|_| line(&mut parser)).collect();
    let [_, answers, authorities, additional] = header.counts();
    let (answers, authorities) = (section(answers), section(authorities));
    assert!(additional == 0 && parser.at_end());
    let leads_to = answered.leads_to.map(|name| name.to_string());
    Some(Response { rcode: header.rcode(), answers, authorities, truncated: header.truncated(), leads_to })
}

fn line(parser: &mut Parser<'_>) -> String {
    let record = parser.record().expect("a record");
    let owner = parser.name_at(record.owner_at).expect("an owner");
    let (mut data, mut text) = (Vec::new(), String::new());
    parser.expand_rdata(&record, &mut data).expect("data");
    rdata::write_text(record.rtype, &data, &mut text).expect("text");
    assert_eq!(record.class, Class::IN);
    format!("{owner} {} {} {text}", record.ttl(), record.rtype)
}

fn soa_of(zone: &str) -> String {
    format!("{zone} 10800 SOA {zone} nobody.invalid. 1 3600 1200 604800 10800")
}

fn positive(answers: &[&str]) -> Option<Response> {
    let answers = answers.iter().map(|line| line.to_string()).collect();
    Some(Response { rcode: Rcode::NOERROR, answers, authorities: vec![], truncated: false, leads_to: None })
}

fn negative(rcode: Rcode, zone: &str) -> Option<Response> {
    Some(Response {
        rcode,
        answers: vec![],
        authorities: vec![soa_of(zone)],
        truncated: false,
        leads_to: None,
    })
}

fn check(names: &LocalNames, rows: &[(&str, Option<Response>)]) {
    for (question, response) in rows {
        assert_eq!(ask_within(names, question, 512), *response, "{question}");
    }
}

#[test]
fn localhost_is_this_machine_and_so_is_all_below() {
    check(
        &names_of(&LocalConfig::default()),
        &[
            ("localhost. A", positive(&["localhost. 10800 A 127.0.0.1"])),
            ("LocalHost. AAAA", positive(&["LocalHost. 10800 AAAA ::1"])),
            ("a.b.localhost. A", positive(&["a.b.localhost. 10800 A 127.0.0.1"])),
            ("localhost. MX", negative(Rcode::NOERROR, "localhost.")),
            ("a.b.localhost. TXT", negative(Rcode::NOERROR, "localhost.")),
            ("localhost. NS", positive(&["localhost. 10800 NS localhost."])),
            ("localhost. DS", negative(Rcode::NOERROR, "localhost.")),
            ("1.0.0.127.in-addr.arpa. PTR", positive(&["1.0.0.127.in-addr.arpa. 10800 PTR localhost."])),
        ],
    );
}

#[test]
fn a_special_zone_has_its_top_and_nothing_below() {
    let names = names_of(&LocalConfig::default());
    for special in SpecialName::all().filter(|special| special.below == Below::Nothing) {
        let zone = special.domain;
        let below = format!("absent.here.{zone}");
        for qtype in ["A", "AAAA", "NS", "SOA", "DS", "TXT"] {
            let question = format!("{below} {qtype}");
            assert_eq!(ask_within(&names, &question, 1232), negative(Rcode::NXDOMAIN, zone), "{question}");
        }
        let rows = [
            (format!("{zone} SOA"), positive(&[&soa_of(zone)])),
            (format!("{zone} NS"), positive(&[&format!("{zone} 10800 NS {zone}")])),
            (format!("{zone} TXT"), negative(Rcode::NOERROR, zone)),
        ];
        for (question, response) in rows {
            assert_eq!(ask_within(&names, &question, 1232), response, "{question}");
        }
    }
}

#[test]
fn records_of_special_zones_are_those_of_their_rfcs() {
    let addresses = ["ipv4only.arpa. 10800 A 192.0.0.170", "ipv4only.arpa. 10800 A 192.0.0.171"];
    let one = format!("1.{}ip6.arpa.", "0.".repeat(31));
    check(
        &names_of(&LocalConfig::default()),
        &[
            ("ipv4only.arpa. A", positive(&addresses)),
            ("ipv4only.arpa. AAAA", negative(Rcode::NOERROR, "ipv4only.arpa.")),
            (
                "170.0.0.192.in-addr.arpa. PTR",
                positive(&["170.0.0.192.in-addr.arpa. 10800 PTR ipv4only.arpa."]),
            ),
            (
                "171.0.0.192.in-addr.arpa. PTR",
                positive(&["171.0.0.192.in-addr.arpa. 10800 PTR ipv4only.arpa."]),
            ),
            (&format!("{one} PTR"), positive(&[&format!("{one} 10800 PTR localhost.")])),
            ("2.0.0.127.in-addr.arpa. PTR", negative(Rcode::NXDOMAIN, "127.in-addr.arpa.")),
            // It has names below (RFC 8020 §2).
            ("0.0.127.in-addr.arpa. PTR", negative(Rcode::NOERROR, "127.in-addr.arpa.")),
        ],
    );
}

#[test]
fn names_beside_the_special_ones_are_not_local() {
    let names = names_of(&LocalConfig::default());
    for question in [
        ". NS",
        "arpa. NS",
        "in-addr.arpa. SOA",
        "172.in-addr.arpa. NS",
        "15.172.in-addr.arpa. PTR",
        "32.172.in-addr.arpa. PTR",
        "63.100.in-addr.arpa. PTR",
        "128.100.in-addr.arpa. PTR",
        "0.0.192.in-addr.arpa. PTR",
        "www.example. A",
        "localhost.example. A",
        "c.e.f.ip6.arpa. NS",
    ] {
        assert_eq!(ask_within(&names, question, 512), None, "{question}");
    }
    assert_eq!(ask_for(&names, name("localhost.").as_name(), Type::A, Class::CH, 512), None);
}

#[test]
fn delegations_of_special_zones_are_asked_for_at_the_parent() {
    let names = names_of(&LocalConfig::default());
    for special in SpecialName::all() {
        let response = ask_within(&names, &format!("{} DS", special.domain), 512);
        assert_eq!(response.is_none(), special.domain.ends_with(".arpa."), "{}", special.domain);
    }
    assert_eq!(ask_within(&names, "x.home.arpa. DS", 512), negative(Rcode::NXDOMAIN, "home.arpa."));
}

#[test]
fn special_names_can_be_turned_off() {
    let mut config = LocalConfig {
        special_off: SpecialOff::These(vec![lower("Home.arpa.")]),
        forwarded: vec![
            lower("corp.test."),
            lower("1.10.in-addr.arpa."),
            lower("16.172.in-addr.arpa."),
            lower("."),
        ],
        ..LocalConfig::default()
    };
    let names = names_of(&config);
    for (question, is_local) in [
        ("x.home.arpa. A", false),
        ("x.test. A", false),
        ("10.in-addr.arpa. PTR", false),
        ("x.16.172.in-addr.arpa. PTR", false),
        ("17.172.in-addr.arpa. PTR", true),
        ("x.invalid. A", true),
    ] {
        assert_eq!(ask_within(&names, question, 512).is_some(), is_local, "{question}");
    }
    let is_local = |config: &LocalConfig, special: &SpecialName| {
        let name = special.name().expect("a name");
        ask_for(&names_of(config), name.as_name(), Type::A, Class::IN, 512).is_some()
    };
    config.forwarded = vec![lower("arpa.")];
    let below_arpa = |special: &&SpecialName| special.domain.trim_end_matches('.').ends_with("arpa");
    assert!(SpecialName::all().filter(below_arpa).all(|special| !is_local(&config, special)));
    config.special_off = SpecialOff::All;
    assert!(SpecialName::all().all(|special| !is_local(&config, special)));
}

#[test]
fn local_data_is_answered_by_type() {
    let names = names_of(&data(&[
        "printer.lan. 300 A 192.168.1.5",
        "Printer.LAN. 200 A 192.168.1.6",
        "printer.lan. 300 A 192.168.1.5",
        "printer.lan. TXT \"third floor\"",
    ]));
    let both = ["printer.lan. 200 A 192.168.1.5", "printer.lan. 200 A 192.168.1.6"];
    let text = "printer.lan. 3600 TXT \"third floor\"";
    check(
        &names,
        &[
            ("printer.lan. A", positive(&both)),
            ("printer.lan. TXT", positive(&[text])),
            ("printer.lan. ANY", positive(&[both[0], both[1], text])),
            ("printer.lan. AAAA", negative(Rcode::NOERROR, "printer.lan.")),
            ("lan. A", None),
            ("x.printer.lan. A", None),
            ("other.lan. A", None),
        ],
    );
}

#[test]
fn wildcards_are_of_all_names_below_that_have_nothing_of_their_own() {
    let names = names_of(&data(&[
        "*.ads.example. A 0.0.0.0",
        "good.ads.example. A 192.0.2.1",
        "*.x.ads.example. A 1.1.1.1",
    ]));
    check(
        &names,
        &[
            ("a.b.ads.example. A", positive(&["a.b.ads.example. 3600 A 0.0.0.0"])),
            ("a.b.ads.example. AAAA", negative(Rcode::NOERROR, "a.b.ads.example.")),
            ("good.ads.example. A", positive(&["good.ads.example. 3600 A 192.0.2.1"])),
            ("x.ads.example. A", positive(&["x.ads.example. 3600 A 0.0.0.0"])),
            ("y.x.ads.example. A", positive(&["y.x.ads.example. 3600 A 1.1.1.1"])),
            ("ads.example. A", None),
        ],
    );
}

#[test]
fn local_data_goes_before_special_names() {
    let names = names_of(&data(&[
        "nas.office.home.arpa. A 192.168.1.9",
        "*.dev.test. A 127.0.0.2",
        "localhost. A 127.0.0.9",
        "5.1.168.192.in-addr.arpa. PTR printer.lan.",
        "home.arpa. TXT here",
    ]));
    check(
        &names,
        &[
            ("nas.office.home.arpa. A", positive(&["nas.office.home.arpa. 3600 A 192.168.1.9"])),
            ("office.home.arpa. A", negative(Rcode::NOERROR, "home.arpa.")),
            ("x.office.home.arpa. A", negative(Rcode::NXDOMAIN, "home.arpa.")),
            ("home.arpa. TXT", positive(&["home.arpa. 3600 TXT \"here\""])),
            ("home.arpa. SOA", positive(&[&soa_of("home.arpa.")])),
            ("home.arpa. DS", None),
            ("x.dev.test. A", positive(&["x.dev.test. 3600 A 127.0.0.2"])),
            ("dev.test. A", negative(Rcode::NOERROR, "test.")),
            ("x.test. A", negative(Rcode::NXDOMAIN, "test.")),
            ("localhost. A", positive(&["localhost. 3600 A 127.0.0.9"])),
            ("localhost. AAAA", negative(Rcode::NOERROR, "localhost.")),
            ("5.1.168.192.in-addr.arpa. PTR", positive(&["5.1.168.192.in-addr.arpa. 3600 PTR printer.lan."])),
            ("6.1.168.192.in-addr.arpa. PTR", negative(Rcode::NXDOMAIN, "168.192.in-addr.arpa.")),
        ],
    );
}

#[test]
fn aliases_are_followed_to_the_end_of_what_is_local() {
    let names = names_of(&data(&[
        "www.lan. CNAME web.lan.",
        "web.lan. A 192.168.1.7",
        "out.lan. CNAME Mid.lan.",
        "mid.lan. CNAME WWW.Example.com.",
        "gone.lan. CNAME x.invalid.",
        "loop.lan. CNAME loop.lan.",
    ]));
    let mut outside = positive(&["out.lan. 3600 CNAME Mid.lan.", "Mid.lan. 3600 CNAME WWW.Example.com."]);
    if let Some(response) = &mut outside {
        response.leads_to = Some("www.example.com.".into());
    }
    let mut gone = negative(Rcode::NXDOMAIN, "invalid.");
    if let Some(response) = &mut gone {
        response.answers.push("gone.lan. 3600 CNAME x.invalid.".into());
    }
    check(
        &names,
        &[
            ("www.lan. A", positive(&["www.lan. 3600 CNAME web.lan.", "web.lan. 3600 A 192.168.1.7"])),
            ("www.lan. CNAME", positive(&["www.lan. 3600 CNAME web.lan."])),
            ("out.lan. A", outside),
            ("gone.lan. A", gone),
        ],
    );
    let round = ask_within(&names, "loop.lan. A", 512).expect("it is local");
    assert_eq!((round.rcode, round.leads_to, round.answers.len()), (Rcode::NOERROR, None, 1 + MAX_LINKS));
}

#[test]
fn what_does_not_fit_is_truncated() {
    let lines: Vec<String> = (0..60).map(|n| format!("many.lan. A 192.168.1.{n}")).collect();
    let names = names_of(&data(&lines.iter().map(String::as_str).collect::<Vec<_>>()));
    assert!(ask_within(&names, "many.lan. A", 512).is_some_and(|response| response.truncated));
    assert!(ask_within(&names, "many.lan. A", 1232).is_some_and(|response| response.answers.len() == 60));
}

fn any_name() -> impl Strategy<Value = NameBuf> {
    let label = prop_oneof![
        prop::sample::select(vec![
            "arpa",
            "in-addr",
            "ip6",
            "10",
            "127",
            "0",
            "1",
            "test",
            "home",
            "localhost",
            "lan",
            "*"
        ])
        .prop_map(str::to_owned),
        "[a-cA-C]{1,2}",
    ];
    prop::collection::vec(label, 0..7).prop_map(|labels| name(&format!("{}.", labels.join("."))))
}

proptest! {
    #[test]
    fn data_and_special_names_are_answered_and_nothing_else(
        owners in prop::collection::vec(any_name(), 0..6),
        qname in any_name(),
        qtype in prop_oneof![any::<u16>().prop_map(Type), Just(Type::A), Just(Type::ANY), Just(Type::SOA)],
        limit in 300..600usize,
    ) {
        let data = owners.iter().map(|owner| LocalRecord {
            owner: *owner, rtype: Type::A, ttl: Ttl::ZERO, rdata: vec![192, 0, 2, 1],
        });
        let names = names_of(&LocalConfig { data: data.collect(), ..LocalConfig::default() });
        let special = SpecialName::all().filter_map(SpecialName::name);
        let is_covered = special.map(|name| name.to_string()).any(|name| {
            qname.as_name().is_at_or_below(lower(&name).as_name())
        }) || owners.iter().any(|owner| match owner.as_name().is_wildcard().then(|| owner.as_name().parent()) {
            Some(parent) => parent.is_some_and(|parent| qname.as_name().is_at_or_below(parent)),
            None => qname.as_name() == owner.as_name(),
        });
        let is_parent = owners.iter().any(|owner| {
            owner.as_name().is_wildcard() && owner.as_name().parent() == Some(qname.as_name())
        });
        let response = ask_for(&names, qname.as_name(), qtype, Class::IN, limit);
        prop_assert!(response.is_none() || is_covered);
        prop_assert!(response.is_some() || !is_covered || is_parent || qtype == Type::DS);
    }
}

#[test]
fn encrypted_listeners_are_discovered_unless_local_data_replaces_them() {
    let svcb = "_dns.resolver.arpa. 600 SVCB 1 dns.example.net. alpn=\"dot\" port=\"853\"";
    let designated = vec![svcb.parse().expect("a record")];
    let config = LocalConfig { designated, ..LocalConfig::default() };
    let names = names_of(&config);
    let found = ask_within(&names, "_DNS.resolver.arpa. SVCB", 512).expect("local");
    assert_eq!((found.rcode, found.answers.len()), (Rcode::NOERROR, 1), "{found:?}");
    assert!(found.answers[0].contains("dns.example.net. alpn=\"dot\" port=853"), "{found:?}");
    for none in ["_dns.resolver.arpa. A", "resolver.arpa. SVCB", "x.resolver.arpa. SVCB"] {
        let found = ask_within(&names, none, 512).expect("local");
        assert_eq!((found.rcode, found.answers.len()), (Rcode::NOERROR, 0), "{none}: {found:?}");
        assert!(found.authorities[0].starts_with("resolver.arpa."), "{none}: {found:?}");
    }
    let own = "_dns.resolver.arpa. 60 SVCB 1 other.example.";
    let replaced = names_of(&LocalConfig { data: data(&[own]).data, ..config.clone() });
    let found = ask_within(&replaced, "_dns.resolver.arpa. SVCB", 512).expect("local");
    assert!(found.answers.len() == 1 && found.answers[0].contains("other.example."), "{found:?}");
    let off = SpecialOff::These(vec![lower("resolver.arpa.")]);
    let off = names_of(&LocalConfig { special_off: off, ..config });
    assert_eq!(ask_within(&off, "_dns.resolver.arpa. SVCB", 512), None);
    let none = names_of(&LocalConfig::default());
    let found = ask_within(&none, "_dns.resolver.arpa. SVCB", 512).expect("local");
    assert_eq!((found.rcode, found.answers.len()), (Rcode::NOERROR, 0), "RFC 9462 §4: no data");
}
