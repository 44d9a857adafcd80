//! Validation of arbitrary responses.
//!
//! RFC 4035 §4.3: "Bogus: An RRset for which the resolver believes that it ought to be able to establish a
//! chain of trust but for which it is unable to do so". The input has no signature by the root's key, so
//! nothing is secure; and nothing may cost more than the budget, as in KeyTrap (CVE-2023-50387).
//!
//! The input is a sequence of messages, each preceded by its length: the response, and the replies to further
//! queries.

use validator::{
    Progress, Response, Security, TrustAnchors, TrustTable, Validation, ValidationBudget, ValidationLimits,
    ValidationSettings, Validator,
};
use wire::{Header, UnixTime};

/// Returns the next message of the sequence.
fn next(rest: &mut &[u8]) -> Option<Response> {
    let (len, behind) = rest.split_first_chunk::<2>()?;
    let (message, behind) = behind.split_at_checked(u16::from_be_bytes(*len) as usize)?;
    *rest = behind;
    Response::read(message, Header::of(message)?.rcode()).ok()
}

pub(crate) fn run(input: &[u8]) {
    let mut rest = input;
    let Some(response) = next(&mut rest) else { return };
    let settings = ValidationSettings { sha1_signatures: true, ..ValidationSettings::default() };
    let anchors = TrustAnchors::root();
    let by = Validation { settings: &settings, anchors: &anchors, now: UnixTime::from_secs(1_790_000_000) };
    let (table, mut budget) = (TrustTable::new(64), ValidationBudget::new(ValidationLimits::default()));
    let mut validator = Validator::answer(response);
    let validated = loop {
        match validator.step(&by, &table, &mut budget) {
            Progress::Done(validated) => break validated,
            Progress::Need(_) | Progress::Again(_) => match next(&mut rest) {
                Some(response) => validator.receive(response, &by, &table),
                None => validator.give_up(&by, &table),
            },
        }
    };
    assert_ne!(validated.security, Security::Secure);
    let limits = budget.limits();
    assert!(budget.signatures() <= limits.signatures && budget.failures() <= limits.failures);
    assert!(budget.nsec3_hashes() <= limits.nsec3_hashes && budget.fetches() <= limits.fetches);
}
