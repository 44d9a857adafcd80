//! Cached trust states alone decide some answers: the result equals that of validation, and no budget is
//! spent.

use testkit::name;
use testkit::tree::UNIX_NOW;
use validator::{
    Progress, Security, TrustTable, Validation, ValidationBudget, ValidationSettings, Validator,
};

use crate::plain::QUESTIONS;
use crate::support::{TREE, reply};

const ZONES: [&str; 8] = [
    "nsec.test.",
    "hash.test.",
    "opt.test.",
    "plain.test.",
    "bare.nsec.test.",
    "bare.hash.test.",
    "odd.test.",
    "child.plain.test.",
];

#[test]
fn what_is_recalled_is_what_validating_finds_and_takes_no_signature() {
    let (settings, anchors) = (ValidationSettings::default(), TREE.anchors());
    let by = Validation { settings: &settings, anchors: &anchors, now: UNIX_NOW };
    let (mut recalled, mut known) = (0, 0);
    for zone in ZONES {
        for (owner, qtype) in QUESTIONS {
            let (answer, table) =
                (reply(&format!("{owner}.{zone}"), *qtype).response(), TrustTable::new(1000));
            let mut validator = Validator::answer(answer.clone());
            assert_eq!(validator.recall(&by, &table), None, "{owner}.{zone} {qtype}: nothing is known");
            let mut budget = ValidationBudget::new(Default::default());
            let validated = loop {
                match validator.step(&by, &table, &mut budget) {
                    Progress::Done(validated) => break validated,
                    Progress::Need(need) => {
                        let honest = TREE.reply(need.name().to_buf(), need.rtype());
                        validator.receive(honest.response(), &by, &table);
                    }
                    Progress::Again(_) => validator.give_up(&by, &table),
                }
            };
            // Now that the zones on the way are cached, with a new validator.
            let (mut again, mut spent) =
                (Validator::answer(answer), ValidationBudget::new(Default::default()));
            let found = again.recall(&by, &table);
            assert_eq!(again.step(&by, &table, &mut spent), Progress::Done(validated.clone()));
            let takes_work = (spent.signatures(), spent.nsec3_hashes()) != (0, 0);
            assert!(!(takes_work && found.is_some()), "{owner}.{zone} {qtype}: {found:?}");
            match found {
                Some(found) => {
                    recalled += 1;
                    assert_eq!(found, validated, "{owner}.{zone} {qtype}");
                    assert_ne!(found.security, Security::Secure, "{owner}.{zone} {qtype}");
                }
                None => assert!(takes_work, "{owner}.{zone} {qtype}: nothing is missing"),
            }
            let insecure = by.knows_insecure(name(&format!("{owner}.{zone}")).as_name(), &table);
            known += usize::from(insecure);
        }
    }
    assert!(recalled > 100 && known > 100, "{recalled} recalled, {known} known to be insecure");
}
