//! Access control, and answers to clients without recursion.

use recursion::AccessAction;
use wire::{Class, Rcode, Type};

use crate::support::{World, ask, data, denial, record};

const WWW: [&str; 1] = ["www.example. 600 A 192.0.2.80"];

#[test]
fn clients_who_may_not_are_refused_and_nobody_is_asked() {
    let mut world = World::new(|policy| policy.local.data = vec![record("printer.lan. 60 A 192.0.2.5")]);
    world.learn("www.example. A", &data(&WWW));
    for question in ["www.example. A", "new.example. A", "printer.lan. A", "localhost. A"] {
        let reply = world.hit(&ask(question).from("192.0.2.1"));
        assert_eq!((reply.says(), reply.answers().len()), ("REFUSED rd EDE 18".into(), 0), "{question}");
    }
    assert_eq!((world.asked().len(), world.service.stats().refused.get()), (0, 4));
}

#[test]
fn zones_are_for_everybody_and_asked_of_nobody() {
    let mut world = World::new(|policy| policy.local.data = vec![record("ns.local.example. 60 A 192.0.2.5")]);
    for from in ["127.0.0.1", "192.0.2.1"] {
        let reply = world.hit(&ask("ns.local.example. A").from(from));
        assert_eq!(reply.answers(), ["ns.local.example. 60 A 192.0.2.53"]);
        assert_eq!(reply.flags(), if from == "127.0.0.1" { "aa rd ra" } else { "aa rd" });
        assert_eq!(world.hit(&ask("no.local.example. A").from(from)).rcode(), Rcode::NXDOMAIN);
    }
    assert_eq!(world.asked().len(), 0);
}

#[test]
fn without_rd_only_names_of_this_server_are_answered() {
    let data_of = ["printer.lan. 60 A 192.0.2.5", "alias.lan. 60 CNAME www.example."];
    let mut world =
        World::new(|policy| policy.local.data = data_of.iter().map(|line| record(line)).collect());
    world.learn("www.example. A", &data(&WWW));
    let mut quiet = |question: &str| {
        let mut question = ask(question);
        question.recursion_desired = false;
        let reply = world.hit(&question);
        (reply.says(), reply.answers())
    };
    assert_eq!(quiet("www.example. A"), ("REFUSED ra EDE 20".into(), vec![]), "nor from the cache");
    assert_eq!(quiet("printer.lan. A"), ("NOERROR aa ra".into(), vec![data_of[0].to_owned()]));
    assert_eq!(quiet("alias.lan. A"), ("NOERROR aa ra".into(), vec![data_of[1].to_owned()]), "no further");
    assert_eq!(quiet("out.local.example. A").1, ["out.local.example. 60 CNAME www.example."]);
    assert_eq!(world.asked().len(), 0);
}

#[test]
fn other_classes_and_types_of_no_data_are_asked_of_nobody() {
    let mut world = World::new(|_| {});
    let mut other = ask("www.example. A");
    other.qclass = Class::HS;
    assert_eq!(world.hit(&other).says(), "REFUSED rd ra EDE 21");
    let mut maila = ask("www.example. A");
    maila.qtype = Type(254);
    assert_eq!(world.hit(&maila).says(), "NOTIMP rd ra EDE 21");
    assert_eq!(world.asked().len(), 0);
    maila.qtype = Type::ANY;
    world.miss(&maila);
}

#[test]
fn names_without_a_rule_are_refused() {
    let mut world = World::new(|policy| policy.domains = vec![crate::support::domain("corp.example.")]);
    let reply = world.hit(&ask("www.example. A"));
    assert_eq!((reply.says(), world.asked().len()), ("REFUSED rd ra EDE 20".into(), 0));
    world.learn("no.corp.example. A", &denial(Rcode::NXDOMAIN));
}

#[test]
fn who_may_ask_can_change() {
    let mut world = World::new(|_| {});
    world.learn("www.example. A", &data(&WWW));
    world.miss(&ask("new.example. A"));
    world.change_policy(|policy| policy.access[0].action = AccessAction::Refuse);
    assert_eq!(world.hit(&ask("www.example. A")).says(), "REFUSED rd EDE 18");
    world.answered("new.example. A", &data(&["new.example. 60 A 192.0.2.1"]));
    assert_eq!(world.later().rcode(), Rcode::NOERROR, "asked while that was allowed");
    world.change_policy(|policy| policy.access[0].action = AccessAction::Allow);
    assert_eq!(world.hit(&ask("www.example. A")).says(), "NOERROR rd ra");
}
