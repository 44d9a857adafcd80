//! Tests of the model, the generator and the text of policy zones.

use super::data::{Data, DataZones, Found, name};
use super::model::{Ask, Model, Outcome, Seen};
use super::rules::{Action, CLIENTS, Maker, Override, Policy, PolicyZone, Prefix, TRIGGERS, Trigger};
use super::variants::{self, Variant, Variants};
use crate::query::{Transport, rtype};
use crate::rng::Rng;
use std::collections::{BTreeMap, BTreeSet};

fn zone(number: usize, rules: &[(Trigger, Action)]) -> PolicyZone {
    let rules: BTreeMap<_, _> = rules.iter().cloned().collect();
    PolicyZone { name: name(&format!("rpz{number}.test.")), given: Override::Given, max_ttl: 60, rules }
}

fn policy(zones: Vec<PolicyZone>) -> Policy {
    Policy { zones, break_dnssec: false, qname_wait: true, min_ns_dots: 1 }
}

fn ask(text: &str) -> Ask {
    Ask {
        name: name(text),
        qtype: rtype::A,
        client: CLIENTS[0],
        dnssec_ok: false,
        ad: false,
        cd: false,
        transport: Transport::Udp,
    }
}

fn qname(text: &str) -> Trigger {
    Trigger::Qname(name(text))
}

fn predict(policy: &Policy, ask: &Ask, set: &[Variant]) -> Outcome {
    let data = DataZones::plan(1);
    let variants = Variants { set: set.to_vec(), forced: None };
    Model::new(&data, policy).predict(ask, &variants).0
}

fn seen(outcome: Outcome) -> Seen {
    match outcome {
        Outcome::Reply(seen) => seen,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_zone_decides_then_the_kind_then_the_longest_name() {
    let client = Trigger::ClientIp(Prefix::of(CLIENTS[0], 32));
    let named = zone(1, &[(qname("*.d.bare."), Action::Nodata), (qname("h0.d.bare."), Action::Nxdomain)]);
    let by_client = zone(2, &[(client.clone(), Action::Drop), (qname("h0.d.bare."), Action::Nodata)]);
    let all = policy(vec![named.clone(), by_client.clone()]);
    assert_eq!(seen(predict(&all, &ask("h0.d.bare."), &[])).rcode, 3, "an exact name comes first");
    assert_eq!(seen(predict(&all, &ask("h1.d.bare."), &[])).rcode, 0);
    assert_eq!(predict(&all, &ask("h0.e.bare."), &[]), Outcome::Silence);
    let turned = policy(vec![by_client, named]);
    assert_eq!(predict(&turned, &ask("h0.d.bare."), &[]), Outcome::Silence, "CLIENT-IP comes before QNAME");
    assert_eq!(predict(&all, &ask("h0.d.bare."), &[Variant::ClientsFirst]), Outcome::Silence);
}

#[test]
fn a_rewritten_name_of_a_chain_keeps_the_aliases_before_it() {
    let data = DataZones::plan(1);
    let alias = data.names().into_iter().find(|name| name.to_string().starts_with("k2x0.")).unwrap();
    let Found::Alias { target, .. } = data.find(&alias, rtype::A) else { panic!("no alias") };
    let all = policy(vec![zone(1, &[(Trigger::Qname(target.clone()), Action::Nxdomain)])]);
    let ask = ask(&alias.to_string());
    let whole = seen(predict(&all, &ask, &[]));
    let alias = (alias, rtype::CNAME, Data::Cname(target).to_wire());
    assert_eq!((whole.rcode, whole.answer), (3, BTreeSet::from([alias])));
    assert_eq!(whole.soa, Some(name("rpz1.test.")));
    assert!(seen(predict(&all, &ask, &[Variant::ChainDropped])).answer.is_empty());
}

#[test]
fn signed_data_is_rewritten_for_do_only_with_break_dnssec() {
    let mut all = policy(vec![zone(1, &[(qname("h0.a.sig."), Action::Nxdomain)])]);
    let signed = Ask { dnssec_ok: true, ..ask("h0.a.sig.") };
    assert_eq!(seen(predict(&all, &signed, &[])).rcode, 0);
    assert_eq!(seen(predict(&all, &ask("h0.a.sig."), &[])).rcode, 3);
    all.break_dnssec = true;
    assert_eq!(seen(predict(&all, &signed, &[])).rcode, 3);
}

#[test]
fn tcp_only_truncates_by_udp_and_passes_by_tcp() {
    let all = policy(vec![zone(1, &[(qname("h0.d.bare."), Action::TcpOnly)])]);
    assert_eq!(predict(&all, &ask("h0.d.bare."), &[]), Outcome::Truncated);
    let by_tcp = Ask { transport: Transport::Tcp, ..ask("h0.d.bare.") };
    let whole = seen(predict(&all, &by_tcp, &[]));
    assert!(!whole.answer.is_empty() && whole.soa.is_none());
}

#[test]
fn a_wildcard_alias_has_the_name_before_it_and_may_be_too_long() {
    let all = policy(vec![zone(1, &[(qname("*.d.bare."), Action::WildCname(name("w.garden.bare.")))])]);
    let alias = Data::Cname(name("h0.d.bare.w.garden.bare."));
    let whole = seen(predict(&all, &ask("h0.d.bare."), &[]));
    assert!(whole.answer.contains(&(name("h0.d.bare."), rtype::CNAME, alias.to_wire())));
    let label = "x".repeat(60);
    let long = format!("{label}.{label}.{label}.{label}.d.bare.");
    assert_eq!(seen(predict(&all, &ask(&long), &[])).rcode, 6);
}

#[test]
fn name_servers_of_all_zones_above_a_name_count() {
    let all = policy(vec![zone(1, &[(Trigger::Nsdname(name("ns1.a.sig.")), Action::Nxdomain)])]);
    assert_eq!(seen(predict(&all, &ask("h0.sub.a.sig."), &[])).rcode, 3);
    assert_eq!(seen(predict(&all, &ask("h0.sub.a.sig."), &[Variant::NsOfZone])).rcode, 0);
    assert_eq!(seen(predict(&all, &ask("h0.b.sig."), &[])).rcode, 0);
}

#[test]
fn of_equal_names_of_servers_the_nearest_decides() {
    let far = (Trigger::Nsdname(name("*.d.bare.")), Action::Nxdomain);
    let near = (Trigger::Nsdname(name("*.host.bare.")), Action::Nodata);
    let all = policy(vec![zone(1, &[far, near])]);
    assert_eq!(seen(predict(&all, &ask("gone.d.bare."), &[])).rcode, 3);
    assert_eq!(seen(predict(&all, &ask("gone.sub.d.bare."), &[])).rcode, 0);
}

#[test]
fn min_ns_dots_leaves_the_servers_of_high_zones_out() {
    let mut all = policy(vec![zone(1, &[(Trigger::Nsdname(name("ns0.d.bare.")), Action::Drop)])]);
    assert_eq!(predict(&all, &ask("h0.d.bare."), &[]), Outcome::Silence);
    all.min_ns_dots = 2;
    assert_eq!(seen(predict(&all, &ask("h0.d.bare."), &[])).rcode, 0);
    assert_eq!(predict(&all, &ask("h0.d.bare."), &[Variant::WithoutNsDots]), Outcome::Silence);
    let top = policy(vec![zone(1, &[(Trigger::Nsdname(name("ns.nic.bare.")), Action::Drop)])]);
    assert_eq!(seen(predict(&top, &ask("h0.d.bare."), &[])).rcode, 0);
    assert_eq!(predict(&top, &ask("h0.d.bare."), &[Variant::NsOfTop]), Outcome::Silence);
}

#[test]
fn a_loop_fails_and_an_alias_to_itself_passes() {
    let rules = [
        (qname("h0.d.bare."), Action::Cname(name("h1.d.bare."))),
        (qname("h1.d.bare."), Action::Cname(name("h0.d.bare."))),
    ];
    let all = policy(vec![zone(1, &rules)]);
    let again = [Variant::RewritesAgain, Variant::LoopFails];
    let failed = seen(predict(&all, &ask("h0.d.bare."), &again));
    assert_eq!((failed.rcode, failed.answer.len(), failed.soa), (2, 0, None));
    let own = policy(vec![zone(1, &[(qname("*.d.bare."), Action::Cname(name("h0.d.bare.")))])]);
    let passed = seen(predict(&own, &ask("h0.d.bare."), &[Variant::LoopFails, Variant::SelfAliasPasses]));
    let plain = seen(predict(&policy(Vec::new()), &ask("h0.d.bare."), &[]));
    assert_eq!((passed.rcode, passed.answer, passed.soa), (0, plain.answer, None));
}

#[test]
fn ttls_of_rules_are_compared_where_they_are_known() {
    let mut all = policy(vec![zone(1, &[(qname("h0.d.bare."), Action::Cname(name("h1.garden.bare.")))])]);
    let ask = ask("h0.d.bare.");
    let ttl = |all: &Policy, set: &[Variant]| {
        let ttls = seen(predict(all, &ask, set)).ttls.unwrap();
        ttls[&(ask.name.clone(), rtype::CNAME)]
    };
    assert_eq!(ttl(&all, &[]), 60, "max-ttl");
    all.zones[0].max_ttl = 3600;
    assert_eq!(ttl(&all, &[]), 300);
    all.zones[0].given = Override::With(Action::Cname(name("h1.garden.bare.")));
    assert_eq!(ttl(&all, &[Variant::OverrideBlockTtl]), 60);
    let prediction = predict(&all, &ask, &[]);
    let mut response = seen(prediction.clone());
    response.ttls = None;
    assert!(prediction.predicts(&Outcome::Reply(response.clone())));
    response.ttls = Some(BTreeMap::from([((ask.name.clone(), rtype::CNAME), 299)]));
    assert!(!prediction.predicts(&Outcome::Reply(response)));
}

#[test]
fn marks_are_those_of_a_rewritten_response() {
    let all = policy(vec![zone(1, &[(qname("h0.d.bare."), Action::Nxdomain)])]);
    let marks = [Variant::Authoritative, Variant::NoSoa];
    for name in ["h0.d.bare.", "h1.d.bare."] {
        for set in [&marks[..], &marks[..1], &marks[1..], &[]] {
            assert_eq!(predict(&all, &ask(name), &[]).marked(set), predict(&all, &ask(name), set));
        }
    }
}

#[test]
fn an_ip_rule_about_the_data_of_a_rule() {
    let server = (Trigger::Nsdname(name("ns0.d.bare.")), Action::Local(vec![Data::A([192, 0, 2, 1].into())]));
    let by_ip = (Trigger::Ip(Prefix::of([192, 0, 2, 0].into(), 24)), Action::Nxdomain);
    let all = policy(vec![zone(1, &[server]), zone(2, &[by_ip])]);
    assert_eq!(seen(predict(&all, &ask("gone.d.bare."), &[])).answer.len(), 1);
    assert_eq!(seen(predict(&all, &ask("gone.d.bare."), &[Variant::OwnDataRewritten])).rcode, 3);
}

#[test]
fn prefixes_are_written_backwards() {
    let owner = |ip: &str, len| Trigger::Ip(Prefix::of(ip.parse().unwrap(), len)).owner();
    assert_eq!(owner("192.0.2.77", 32), "32.77.2.0.192.rpz-ip");
    assert_eq!(owner("192.0.2.77", 24), "24.0.2.0.192.rpz-ip");
    assert_eq!(owner("2001:db8:1::5", 128), "128.5.zz.1.db8.2001.rpz-ip");
    assert_eq!(owner("2001:db8:1::5", 48), "48.zz.1.db8.2001.rpz-ip");
}

#[test]
fn a_seed_decides_the_policy_and_all_triggers_come_up() {
    let data = DataZones::plan(1);
    let maker = Maker::new(&data);
    let text = |policy: &Policy| policy.zones.iter().map(|zone| zone.text(None)).collect::<String>();
    let mut kinds = BTreeSet::new();
    for seed in 0..30 {
        let policy = maker.policy(&mut Rng::new(seed));
        assert_eq!(text(&policy), text(&maker.policy(&mut Rng::new(seed))));
        kinds.extend(policy.zones.iter().flat_map(|zone| zone.rules.keys().map(Trigger::kind)));
    }
    assert_eq!(kinds, TRIGGERS.into_iter().collect());
}

#[test]
fn each_reason_has_a_name_of_its_own() {
    let ids: BTreeSet<_> = variants::all().map(|known| known.id).collect();
    assert_eq!(ids.len(), variants::all().count());
    assert!(variants::all().all(|known| known.why.len() > 40 && !known.servers.is_empty()));
}
