//! Names that nobody is asked for, since it is proven that they are not there (RFC 8198).

use recursion::PolicyConfig;
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
        assert_eq!((with.asked.len(), denied(&with)), (asked, 2), "nobody was asked");
        // What is there is asked for.
        assert_eq!(with.says(&format!("www.{zone} A")), "NOERROR rd ra");
        assert!(with.asked.len() > asked);
    }
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
    let mut with =
        Validated { server: |inquiry, reply| forged(inquiry, reply, wire::Type::A), ..with_denials(|_| {}) };
    assert_eq!(with.says("nothing.plain.test. A do"), "NXDOMAIN rd ra");
    with.world.miss(&ask("nothing0.plain.test. A do"));
    with.run();
    with.world.late();
    assert_eq!(with.says("nothing.opt.test. A do"), "NXDOMAIN rd ra");
    with.world.miss(&ask("nothing0.opt.test. A do"));
    assert_eq!(denied(&with), 0);
}
