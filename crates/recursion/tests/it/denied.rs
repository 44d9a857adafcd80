//! Names answered without a lookup, since they are proven not to exist or to match a wildcard (RFC 8198).

use recursion::{PolicyConfig, PrivateConfig};
use wire::Ttl;

use crate::support::ask;
use crate::validation::{Validated, forged};

fn with_denials(change: impl FnOnce(&mut PolicyConfig)) -> Validated {
    Validated::new(|policy| {
        policy.aggressive_nsec = true;
        change(policy);
    })
}

fn denied(with: &Validated) -> u64 {
    with.world.service.stats().denied.get()
}

fn expanded(with: &Validated) -> u64 {
    with.world.service.stats().expanded.get()
}

#[test]
fn one_denial_answers_for_all_names_between() {
    for (zone, names) in
        [("nsec.test.", ["nothing0", "nothing1"]), ("hash.test.", ["a.nothing", "b.nothing"])]
    {
        let mut with = with_denials(|policy| policy.nxdomain_cut = false);
        assert_eq!(with.says(&format!("nothing.{zone} A")), "NXDOMAIN rd ra");
        let asked = with.asked.len();
        let [first, second] = names.map(|name| format!("{name}.{zone}"));
        let signed = with.world.hit(&ask(&format!("{first} TXT do")));
        assert_eq!(signed.says(), "NXDOMAIN rd ra ad");
        assert!(signed.authorities().iter().any(|line| line.contains("NSEC")), "{signed:?}");
        assert!(signed.authorities().iter().any(|line| line.contains("RRSIG")), "{signed:?}");
        let plain = with.world.hit(&ask(&format!("{second} A")));
        assert_eq!((plain.says(), plain.authorities().len()), ("NXDOMAIN rd ra".into(), 1), "the SOA");
        assert_eq!((with.asked.len(), denied(&with)), (asked, 2), "no server was asked");
        // Existing names need a lookup.
        assert_eq!(with.says(&format!("www.{zone} A")), "NOERROR rd ra");
        assert!(with.asked.len() > asked);
    }
}

/// Before, NSEC3 with more iterations than the default were never used for other names.
#[test]
fn denials_are_used_again_with_as_many_iterations_and_hashes_as_are_validated() {
    let of = |iterations, hashes| {
        with_denials(move |policy| {
            policy.nxdomain_cut = false;
            policy.validation.settings.max_nsec3_iterations = iterations;
            policy.validation.limits.nsec3_hashes = hashes;
        })
    };
    let mut with = of(51, 450);
    assert_eq!(with.says("nothing.iter.test. A do"), "NXDOMAIN rd ra ad");
    let known = with.world.hit(&ask("a.nothing.iter.test. A do"));
    assert_eq!(known.says(), "NXDOMAIN rd ra ad");
    let hashes = || with.world.service.stats().denial_hashes.get();
    let first = hashes();
    assert!(first > 0 && first <= 3 * 450, "{first}");
    // One query hashes no more than the operator allows, and then goes to the servers.
    with.world.change_policy(|policy| policy.validation.limits.nsec3_hashes = 210);
    assert_eq!(with.says("nothing.iter.test. A do"), "NXDOMAIN rd ra ad");
    let before = with.world.service.stats().denial_hashes.get();
    with.world.miss(&ask("a.b.c.d.e.nosuch.iter.test. A do"));
    let spent = with.world.service.stats().denial_hashes.get() - before;
    assert!(spent <= 210, "{spent}");
    let mut with = of(50, 450);
    assert_eq!(with.says("nothing.iter.test. A do"), "NXDOMAIN rd ra EDE 27");
    with.world.miss(&ask("a.nothing.iter.test. A do"));
}

#[test]
fn one_denial_of_a_type_answers_for_all_types_that_are_not_there() {
    let mut with = with_denials(|_| {});
    assert_eq!(with.says("www.nsec.test. AAAA do"), "NOERROR rd ra ad");
    let asked = with.asked.len();
    assert_eq!(with.world.hit(&ask("www.nsec.test. MX do")).says(), "NOERROR rd ra ad");
    assert_eq!(with.asked.len(), asked);
    assert_eq!(with.says("www.nsec.test. TXT do"), "NOERROR rd ra ad");
    assert!(with.asked.len() > asked, "it is there");
}

#[test]
fn an_answer_that_is_made_for_the_second_time_is_kept() {
    let mut with = with_denials(|_| {});
    let first = with.resolve("nothing.nsec.test. A do");
    let ttl = u64::from(first.ttl().expect("a record").as_secs());
    with.says("x.wild.nsec.test. A do");
    let asked = with.asked.len();
    let made = |with: &Validated| denied(with) + expanded(with);
    for question in ["nothing0.nsec.test. TXT do", "y.x.wild.nsec.test. A do"] {
        let before = made(&with);
        let new = with.world.hit(&ask(question));
        assert_eq!(made(&with), before + 1);
        let old = (0..40).map(|_| with.world.hit(&ask(question))).last().expect("forty");
        assert_eq!(
            (old.says(), old.answers(), old.authorities()),
            (new.says(), new.answers(), new.authorities())
        );
        assert!(old.says().ends_with(" ad"), "{old:?}");
        assert_eq!(made(&with), before + 2);
    }
    let few = made(&with);
    for i in 0..160 {
        with.world.hit(&ask(&format!("nothing0.n{i}.nsec.test. A do")));
    }
    assert_eq!((made(&with), with.asked.len()), (few + 160, asked), "who is asked for once is not kept");
    with.world.after(ttl - 10);
    let left = with.world.hit(&ask("nothing0.nsec.test. TXT do"));
    assert!(left.ttl().is_some_and(|left| left <= Ttl::from_secs(10)), "{left:?}");
    with.world.after(11);
    with.world.miss(&ask("nothing0.nsec.test. TXT do"));
}

#[test]
fn a_denial_is_used_no_longer_than_it_may_be_kept() {
    let mut with = with_denials(|_| {});
    let first = with.resolve("nothing.nsec.test. A do");
    let ttl = first.ttl().expect("a record").as_secs();
    with.world.after(u64::from(ttl) - 10);
    let left = with.world.hit(&ask("nothing0.nsec.test. A do"));
    assert!(left.ttl().is_some_and(|left| left <= Ttl::from_secs(10)), "{left:?}");
    with.world.after(11);
    with.world.miss(&ask("nothing1.nsec.test. A do"));
}

#[test]
fn who_sets_cd_gets_what_servers_say() {
    let mut with = with_denials(|_| {});
    assert_eq!(with.says("nothing.nsec.test. A do"), "NXDOMAIN rd ra ad");
    with.world.miss(&ask("nothing0.nsec.test. A do cd"));
}

#[test]
fn it_can_be_turned_off_and_forgotten() {
    let mut with = with_denials(|_| {});
    assert_eq!(with.says("nothing.nsec.test. A do"), "NXDOMAIN rd ra ad");
    assert!(with.world.service.proven_denials().0 > 0);
    let name = testkit::name("nothing0.nsec.test.").as_name().to_lower();
    with.world.service.flush(name.as_lower(), false, None);
    assert_eq!(with.world.service.proven_denials(), (0, 0), "the name may be there by now");
    with.says("nothing2.nsec.test. A do");
    with.world.change_policy(|policy| policy.aggressive_nsec = false);
    with.world.miss(&ask("nothing0.nsec.test. A do"));
    assert_eq!((denied(&with), with.world.service.proven_denials()), (0, (0, 0)));
}

#[test]
fn what_is_not_secure_denies_nothing_else() {
    let mut with = Validated {
        server: |query_key, reply| forged(query_key, reply, wire::Type::A),
        ..with_denials(|_| {})
    };
    assert_eq!(with.says("nothing.plain.test. A do"), "NXDOMAIN rd ra");
    with.world.miss(&ask("nothing0.plain.test. A do"));
    with.run();
    with.world.late();
    assert_eq!(with.says("nothing.opt.test. A do"), "NXDOMAIN rd ra");
    with.world.miss(&ask("nothing0.opt.test. A do"));
    assert_eq!(denied(&with), 0);
}

#[test]
fn one_name_of_a_wildcard_answers_for_the_others() {
    for zone in ["nsec.test.", "hash.test."] {
        // With NSEC3, the proof for x does not cover its neighbours.
        let mut with = with_denials(|_| {});
        assert_eq!(with.says(&format!("x.wild.{zone} A do")), "NOERROR rd ra ad");
        let asked = with.asked.len();
        let signed = with.world.hit(&ask(&format!("y.x.wild.{zone} A do")));
        assert_eq!(signed.says(), "NOERROR rd ra ad");
        let [answers, proof] = [signed.answers(), signed.authorities()];
        assert!(answers.len() == 2 && answers[0].starts_with("y.x.wild"), "{answers:?}");
        assert!(answers[0].contains(" A 192.0.2.4") && answers[1].contains("RRSIG"), "{answers:?}");
        assert!(proof.len() == 2 && proof[0].contains("NSEC") && proof[1].contains("RRSIG"), "{proof:?}");
        let plain = with.world.hit(&ask(&format!("z.x.wild.{zone} A ad")));
        assert_eq!((plain.says(), plain.answers().len()), ("NOERROR rd ra ad".into(), 1));
        assert_eq!(plain.authorities(), [""; 0]);
        assert_eq!(with.world.hit(&ask(&format!("z.x.wild.{zone} A"))).says(), "NOERROR rd ra");
        assert_eq!((with.asked.len(), expanded(&with)), (asked, 3), "no server was asked");
        // Existing names and unproven ones need a lookup.
        for question in ["here.wild.ZONE A do", "z.x.wild.ZONE TXT do", "x.top.ZONE A do"] {
            with.world.miss(&ask(&question.replace("ZONE", zone)));
            with.run();
            with.world.late();
        }
        // By now the denial of such records at the wildcard is cached.
        let none = with.world.hit(&ask(&format!("w.x.wild.{zone} TXT do")));
        assert_eq!((none.says(), none.answers().len()), ("NOERROR rd ra ad".into(), 0));
        assert_eq!((expanded(&with), denied(&with)), (3, 1));
    }
}

#[test]
fn an_alias_that_a_wildcard_stands_for_is_followed() {
    let mut with = with_denials(|_| {});
    assert_eq!(with.says("x.walias.nsec.test. A do"), "NOERROR rd ra ad");
    assert_eq!(with.says("www.nsec.test. A do"), "NOERROR rd ra ad");
    let asked = with.asked.len();
    let known = with.world.hit(&ask("y.walias.nsec.test. A do"));
    assert_eq!((known.says(), known.answers().len()), ("NOERROR rd ra ad".into(), 5), "{known:?}");
    assert_eq!(with.asked.len(), asked, "both are known");
    let alias = with.world.hit(&ask("z.walias.nsec.test. CNAME do"));
    assert_eq!((alias.says(), alias.answers().len()), ("NOERROR rd ra ad".into(), 2), "{alias:?}");
    // The target is looked up separately.
    assert_eq!(with.says("z.walias.nsec.test. TXT do"), "NOERROR rd ra ad");
    assert_eq!(with.asked[asked..], ["www.nsec.test. TXT do cd"]);
}

/// Before, each name below a cached DNAME needed a lookup (RFC 6672 §3.4).
#[test]
fn each_name_below_a_dname_was_asked_for_though_the_dname_was_known() {
    let mut with = with_denials(|_| {});
    assert_eq!(with.says("x.moved.nsec.test. A do"), "NOERROR rd ra ad");
    let asked = with.asked.len();
    let known = with.world.hit(&ask("y.moved.nsec.test. A do"));
    assert_eq!(known.says(), "NOERROR rd ra ad");
    let answers = known.answers();
    assert!(
        answers[0].contains(" DNAME wild.nsec.test.") && answers[1].contains(" RRSIG DNAME"),
        "{answers:?}"
    );
    assert!(
        answers[2].starts_with("y.moved.nsec.test.") && answers[2].ends_with(" CNAME y.wild.nsec.test."),
        "{answers:?}"
    );
    assert!(
        answers[3].starts_with("y.wild.nsec.test.") && answers[3].contains(" A 192.0.2.4"),
        "{answers:?}"
    );
    assert_eq!(
        (with.asked.len(), with.world.service.stats().redirected.get()),
        (asked, 1),
        "no server was asked"
    );
    // The target is looked up separately.
    assert_eq!(with.says("z.moved.nsec.test. TXT do"), "NOERROR rd ra ad");
    assert_eq!(with.asked[asked..], ["z.wild.nsec.test. TXT do cd"]);
    // A client that sets CD gets the answer of the servers, and an unsigned DNAME redirects nothing.
    with.world.miss(&ask("w.moved.nsec.test. A do cd"));
    let mut with = with_denials(|_| {});
    with.says("x.moved.plain.test. A do");
    with.world.miss(&ask("y.moved.plain.test. A do"));
}

#[test]
fn what_a_wildcard_has_is_used_no_longer_than_all_of_it_may_be_kept() {
    let mut with = with_denials(|_| {});
    let ttl = with.resolve("x.wild.nsec.test. A do").ttl().expect("a record").as_secs();
    with.world.after(u64::from(ttl) - 10);
    let left = with.world.hit(&ask("y.wild.nsec.test. A do"));
    assert!(left.ttl().is_some_and(|left| left <= Ttl::from_secs(10)), "{left:?}");
    with.world.after(11);
    with.world.miss(&ask("z.wild.nsec.test. A do"));
}

#[test]
fn no_wildcard_is_used_against_what_the_operator_or_the_client_says() {
    let mut with = with_denials(|policy| {
        policy.private = PrivateConfig {
            blocks: vec!["192.0.2.4/32".parse().expect("a network")],
            exempt: vec![testkit::name("x.wild.nsec.test.").as_name().to_lower()],
        };
    });
    assert_eq!(with.says("x.wild.nsec.test. A do"), "NOERROR rd ra ad");
    with.world.miss(&ask("y.wild.nsec.test. A do"));
    with.run();
    assert_eq!(with.world.later().answers(), [""; 0], "the address is withheld");
    let mut with = with_denials(|_| {});
    with.says("x.wild.nsec.test. A do");
    with.world.miss(&ask("y.wild.nsec.test. A do cd"));
    let mut with = with_denials(|policy| policy.aggressive_nsec = false);
    with.says("x.wild.nsec.test. A do");
    with.world.miss(&ask("y.wild.nsec.test. A do"));
    let mut with = with_denials(|_| {});
    with.says("x.wild.opt.test. A do");
    with.world.miss(&ask("y.wild.opt.test. A do"));
    assert_eq!(expanded(&with), 0);
}
