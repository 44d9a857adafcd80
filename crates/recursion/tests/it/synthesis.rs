//! AAAA records synthesized from A records (DNS64).

use recursion::{Dns64Config, PolicyConfig};
use resolver::LookupFailure;
use wire::{Rcode, Type};

use crate::support::{SOA, Upstream, World, ask, data, denial, domain};
use crate::validation::{Validated, forged};

const WWW: [&str; 1] = ["www.example. 600 A 8.8.8.8"];
const MADE: &str = "www.example. 300 AAAA 64:ff9b::808:808";

fn with_dns64(policy: &mut PolicyConfig) {
    policy.dns64 = Some(Dns64Config::new("64:ff9b::/96".parse().expect("a network")));
}

#[test]
fn addresses_are_made_where_there_are_none_and_what_was_asked_is_cached() {
    let mut world = World::new(with_dns64);
    world.miss(&ask("www.example. AAAA"));
    world.answered("www.example. AAAA", &denial(Rcode::NOERROR));
    assert_eq!(world.asked(), ["www.example. A"]);
    world.answered("www.example. A", &data(&WWW));
    let reply = world.later();
    assert_eq!((reply.says(), reply.answers()), ("NOERROR rd ra".into(), vec![MADE.into()]));
    assert_eq!(world.cached(), ["www.example. A NOERROR 600", "www.example. AAAA NOERROR 300"]);
    world.after(100);
    assert_eq!(world.hit(&ask("www.example. AAAA")).answers(), [MADE.replace("300", "200")]);
    assert_eq!(world.hit(&ask("www.example. A")).answers(), ["www.example. 500 A 8.8.8.8"]);
    assert_eq!(world.service.stats().synthesized.get(), 2);
}

#[test]
fn clients_who_validate_and_those_of_other_networks_get_what_there_is() {
    let mut world = World::new(with_dns64);
    let reply = world.learn("www.example. AAAA do cd", &denial(Rcode::NOERROR));
    assert_eq!((reply.says(), reply.answers().len(), world.asked().len()), ("NOERROR rd ra cd".into(), 0, 0));
    world.change_policy(|policy| {
        let dns64 = policy.dns64.as_mut().expect("on");
        dns64.clients = vec!["127.0.0.2/32".parse().expect("a network")];
    });
    assert_eq!(world.learn("www.example. AAAA", &denial(Rcode::NOERROR)).answers().len(), 0);
    world.miss(&ask("www.example. AAAA").from("127.0.0.2"));
    assert_eq!(world.asked(), ["www.example. A"]);
}

#[test]
fn addresses_that_there_are_stay_but_for_those_that_count_as_none() {
    let mut world = World::new(with_dns64);
    let both = ["www.example. 600 AAAA ::ffff:192.0.2.1", "www.example. 600 AAAA 2001:db8::1"];
    assert_eq!(world.learn("www.example. AAAA", &data(&both)).answers(), [both[1]]);
    assert_eq!(world.hit(&ask("www.example. AAAA")).answers(), [both[1]]);
    world.change_policy(|policy| policy.dns64 = None);
    assert_eq!(world.hit(&ask("www.example. AAAA")).answers(), both);
}

#[test]
fn where_there_is_no_ipv4_address_either_the_client_gets_the_answer_to_its_question() {
    let mut world = World::new(with_dns64);
    world.miss(&ask("www.example. AAAA"));
    world.answered("www.example. AAAA", &denial(Rcode::NOERROR));
    world.answered("www.example. A", &denial(Rcode::NOERROR));
    for reply in [world.later(), world.hit(&ask("www.example. AAAA"))] {
        assert_eq!(reply.says(), "NOERROR rd ra");
        assert_eq!(reply.authorities(), [SOA.replace("900", "300")]);
    }
    assert_eq!(world.learn("no.example. AAAA", &denial(Rcode::NXDOMAIN)).says(), "NXDOMAIN rd ra");
}

/// The client would cache a NODATA answer for as long as the SOA says.
#[test]
fn where_nobody_knows_ipv4_addresses_there_is_no_answer() {
    let mut world = World::new(with_dns64);
    world.miss(&ask("www.example. AAAA"));
    world.answered("www.example. AAAA", &denial(Rcode::NOERROR));
    world.failed("www.example. A", LookupFailure::NoReply);
    assert_eq!(world.later().says(), "SERVFAIL rd ra EDE 22");
}

#[test]
fn made_addresses_are_good_for_as_long_as_it_is_known_that_there_are_no_others() {
    let mut world = World::new(|_| {});
    world.learn("www.example. AAAA", &denial(Rcode::NOERROR));
    world.after(200);
    world.change_policy(with_dns64);
    world.miss(&ask("www.example. AAAA"));
    assert_eq!(world.asked(), ["www.example. A"]);
    world.answered("www.example. A", &data(&WWW));
    assert_eq!(world.later().answers(), [MADE.replace("300", "100")]);
}

#[test]
fn chains_end_in_made_addresses() {
    let mut world = World::new(|policy| {
        with_dns64(policy);
        policy.domains.push(domain("corp.example."));
    });
    world.miss(&ask("www.corp.example. AAAA"));
    let link = "www.corp.example. 600 CNAME www.example.";
    world.answered("www.corp.example. AAAA", &data(&[link]));
    world.answered("www.example. AAAA", &denial(Rcode::NOERROR));
    world.answered("www.example. A", &data(&WWW));
    assert_eq!(world.later().answers(), [link, MADE]);
    assert!(!world.cached().iter().any(|held| held.contains("corp")), "{:?}", world.cached());
    let out = world.hit(&ask("out.local.example. AAAA"));
    assert_eq!(out.answers(), ["out.local.example. 60 CNAME www.example.", MADE]);
}

#[test]
fn a_chain_to_ipv4_addresses_that_leads_elsewhere_is_not_mixed_with_the_one_that_leads_to_none() {
    let mut world = World::new(|policy| {
        with_dns64(policy);
        policy.domains.push(domain("corp.example."));
    });
    world.miss(&ask("www.corp.example. AAAA"));
    let soa = "corp.example. 900 SOA a. b. 1 3600 600 86400 300";
    let nothing = Upstream { authorities: &[soa], ..data(&[]) };
    world.answered("www.corp.example. AAAA", &nothing);
    // The servers answer A differently: an alias to another rule's name, which has no addresses.
    world.answered("www.corp.example. A", &data(&["www.corp.example. 600 CNAME www.example."]));
    world.answered("www.example. A", &denial(Rcode::NOERROR));
    let reply = world.later();
    assert_eq!((reply.answers(), reply.authorities()), (vec![], vec![soa.replace("900", "300")]));
}

#[test]
fn names_of_made_addresses_are_those_of_ipv4() {
    let mut world = World::new(with_dns64);
    let name = "8.0.8.0.8.0.8.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.b.9.f.f.4.6.0.0.ip6.arpa.";
    world.miss(&ask(&format!("{name} PTR")));
    assert_eq!(world.asked(), ["8.8.8.8.in-addr.arpa. PTR"]);
    world.answered("8.8.8.8.in-addr.arpa. PTR", &data(&["8.8.8.8.in-addr.arpa. 60 PTR dns.example."]));
    let link = format!("{name} 3600 CNAME 8.8.8.8.in-addr.arpa.");
    assert_eq!(world.later().answers(), [link.as_str(), "8.8.8.8.in-addr.arpa. 60 PTR dns.example."]);
    assert_eq!(world.hit(&ask(&format!("{name} PTR"))).answers().len(), 2);
}

#[test]
fn when_it_is_turned_off_meanwhile_the_client_gets_the_answer_to_its_question() {
    let mut world = World::new(with_dns64);
    world.miss(&ask("www.example. AAAA"));
    world.answered("www.example. AAAA", &denial(Rcode::NOERROR));
    world.change_policy(|policy| policy.dns64 = None);
    world.answered("www.example. A", &data(&WWW));
    let reply = world.later();
    assert_eq!((reply.says(), reply.answers().len()), ("NOERROR rd ra".into(), 0));
    assert_eq!(reply.authorities(), [SOA.replace("900", "300")]);
}

/// CVE-2026-50243, class 22 of mistakes: bogus answers are not rewritten.
#[test]
fn class_22_nothing_is_made_of_what_is_bogus() {
    // The other prefix must not embed documentation addresses (RFC 6052 §3.1).
    let with_dns64 = |policy: &mut PolicyConfig| {
        policy.dns64 = Some(Dns64Config::new("2001:db8:64::/96".parse().expect("a network")));
    };
    let mut with = Validated::new(with_dns64);
    assert_eq!(with.resolve("www.nsec.test. AAAA").answers().len(), 2);
    let mut with = Validated {
        server: |query_key, reply| forged(query_key, reply, Type::A),
        ..Validated::new(with_dns64)
    };
    assert_eq!(with.says("www.nsec.test. AAAA"), "SERVFAIL rd ra EDE 6");
    assert_eq!(with.says("www.nsec.test. AAAA"), "SERVFAIL rd ra EDE 6");
    assert_eq!(with.world.service.stats().synthesized.get(), 0);
}
