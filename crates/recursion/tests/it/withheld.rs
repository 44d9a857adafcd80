//! Private addresses in upstream answers are withheld.

use recursion::{PolicyConfig, PrivateConfig};
use resolver::LookupSink;

use crate::support::{World, ask, data, domain, query_key};

const INSIDE: [&str; 1] = ["www.example. 600 A 10.0.0.1"];

fn guarded(policy: &mut PolicyConfig) {
    policy.private = PrivateConfig {
        blocks: PrivateConfig::usual_blocks(),
        exempt: vec![testkit::name("corp.example.").as_name().to_lower()],
    };
}

#[test]
fn an_answer_with_a_private_address_is_withheld_and_not_cached() {
    let mut world = World::new(guarded);
    let reply = world.learn("www.example. A", &data(&INSIDE));
    assert_eq!((reply.says(), reply.answers().len()), ("NOERROR rd ra EDE 17".into(), 0));
    let again = world.hit(&ask("www.example. A"));
    assert_eq!((again.says(), again.answers().len()), ("NOERROR rd ra".into(), 0));
    assert_eq!(world.cached(), ["www.example. A NOERROR 60"]);
    assert_eq!(world.service.stats().withheld.get(), 1);
    assert_eq!(
        world.learn("a.corp.example. A", &data(&["a.corp.example. 60 A 10.0.0.1"])).answers().len(),
        1
    );
}

/// Clients that have waited long are settled a little later, so that answers do not all go out at once.
#[test]
fn clients_who_are_settled_after_other_lookups_have_ended_do_not_get_it_either() {
    let mut world = World::new(guarded);
    world.miss(&ask("www.example. A"));
    let query_key = query_key("www.example. A");
    let outcome = world.outcome(&query_key, &data(&INSIDE));
    world.completion.ended(&query_key, &outcome, std::time::Instant::now());
    world.learn("other.example. A", &data(&["other.example. 60 A 192.0.2.1"]));
    world.settle(&query_key, &outcome);
    let reply = world.later();
    assert_eq!((reply.says(), reply.answers().len()), ("NOERROR rd ra EDE 17".into(), 0));
}

#[test]
fn an_alias_into_the_private_network_is_withheld_behind_it() {
    let mut world = World::new(|policy| {
        guarded(policy);
        policy.domains.push(domain("evil.example."));
    });
    world.miss(&ask("a.evil.example. A"));
    let link = "a.evil.example. 600 CNAME www.example.";
    world.answered("a.evil.example. A", &data(&[link]));
    world.answered("www.example. A", &data(&INSIDE));
    let reply = world.later();
    assert_eq!((reply.says(), reply.answers()), ("NOERROR rd ra EDE 17".into(), vec![link.to_owned()]));
    assert_eq!(world.cached(), ["a.evil.example. A NOERROR 60", "www.example. A NOERROR 60"]);
}

#[test]
fn what_was_cached_before_addresses_became_private_goes() {
    let mut world = World::new(|_| {});
    world.learn("www.example. A", &data(&INSIDE));
    world.learn("ok.example. A", &data(&["ok.example. 600 A 192.0.2.1"]));
    world.change_policy(guarded);
    assert_eq!(world.cached(), ["ok.example. A NOERROR 600"]);
    world.miss(&ask("www.example. A"));
}
