//! Arbitrary input: nothing panics, the budget holds, and data not signed by our keys is never secure.

use proptest::prelude::*;
use testkit::tree::UNIX_NOW;
use validator::{
    Progress, Response, Security, TrustTable, Validation, ValidationBudget, ValidationLimits,
    ValidationSettings, Validator,
};
use wire::Rcode;

use crate::plain::QUESTIONS;
use crate::support::{TREE, reply};

/// Validates the first message, and uses the others as responses to its requests.
fn run(messages: &[Vec<u8>]) -> (Option<Security>, ValidationBudget) {
    let (settings, anchors) = (ValidationSettings::default(), TREE.anchors());
    let by = Validation { settings: &settings, anchors: &anchors, now: UNIX_NOW };
    let mut budget = ValidationBudget::new(ValidationLimits::default());
    let table = TrustTable::new(64);
    let mut messages = messages.iter();
    let Some(Ok(first)) = messages.next().map(|m| Response::read(m, Rcode::NOERROR)) else {
        return (None, budget);
    };
    let mut validator = Validator::answer(first);
    loop {
        match validator.step(&by, &table, &mut budget) {
            Progress::Done(validated) => return (Some(validated.security), budget),
            Progress::Need(need) | Progress::Again(need) => {
                match messages.next().map(|m| Response::read(m, Rcode::NOERROR)) {
                    Some(Ok(response)) => validator.receive(response, &by, &table),
                    Some(Err(_)) => validator.give_up(&by, &table),
                    None => {
                        let honest = TREE.reply(need.name().to_buf(), need.rtype());
                        validator.receive(honest.response(), &by, &table);
                    }
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn damaged_messages_neither_panic_nor_cost_more(
        asked in 0..QUESTIONS.len(),
        zone in prop::sample::select(vec!["nsec.test.", "hash.test.", "opt.test.", "plain.test."]),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        noise in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..3),
        at in 0..3usize,
    ) {
        let (owner, qtype) = QUESTIONS[asked];
        let honest = reply(&format!("{owner}.{zone}"), qtype);
        let mut messages = vec![honest.message()];
        for need in TREE.validate(&honest).needs.iter().take(2) {
            messages.push(TREE.reply(need.name().to_buf(), need.rtype()).message());
        }
        let at = at % messages.len();
        for (place, byte) in damage {
            let message = &mut messages[at];
            let place = place.index(message.len());
            message[place] ^= byte;
        }
        messages.extend(noise);
        let (_, budget) = run(&messages);
        let limits = budget.limits();
        prop_assert!(budget.signatures() <= limits.signatures && budget.failures() <= limits.failures);
        prop_assert!(budget.nsec3_hashes() <= limits.nsec3_hashes && budget.fetches() <= limits.fetches);
    }

    #[test]
    fn noise_behind_a_header_is_never_secure(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let message = [&[0, 0, 0x84, 0, 0, 1, 0, 2, 0, 1, 0, 0, 1, b'a', 0, 0, 1, 0, 1][..], &body].concat();
        prop_assert_ne!(run(&[message]).0, Some(Security::Secure));
    }
}
