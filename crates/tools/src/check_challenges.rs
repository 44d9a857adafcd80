//! Whether the zones of a configuration can have the records of the challenge dns-01 that `[acme]` asks for.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use config::Settings;
use config::acme::ChallengeMethod;
use config::report::Diagnostic;
use wire::ZoneName;
use wire::hash::HashKey;
use zone::Zone;
use zone_manager::challenges::{ChallengeZone, PlaceFault, place_of};
use zone_manager::zones::text::{Meter, examine};
use zone_plan::{WantedZones, ZoneSpec};

/// What was found.
#[derive(Debug, Default)]
pub(super) struct ChallengeFindings {
    /// Names that have no zone which can be changed.
    pub(super) faults: Vec<Diagnostic>,
    /// Names of which only the running server knows that.
    pub(super) warnings: Vec<Diagnostic>,
}

/// Checks that each name has a zone which can be changed. `are_skipped`: no zone is read, so aliases are not
/// known.
pub(super) fn check_challenges(
    settings: &Settings,
    wanted: &WantedZones,
    are_skipped: bool,
) -> ChallengeFindings {
    let mut findings = ChallengeFindings::default();
    let acme = settings.acme.as_ref().filter(|acme| acme.challenge.value == ChallengeMethod::Dns01);
    let Some(acme) = acme else { return findings };
    let specs: HashMap<&ZoneName, &ZoneSpec> = wanted.specs.iter().map(|spec| (&spec.apex, spec)).collect();
    let (key, read) = (HashKey::random(), RefCell::<HashMap<ZoneName, Option<Arc<Zone>>>>::default());
    let find = |apex: &ZoneName| {
        let spec = specs.get(apex)?;
        let takes_changes = wanted.updates.get(apex).is_some_and(|rules| rules.takes_any());
        let is_read = !are_skipped && spec.text.is_read();
        let zone = || is_read.then(|| examine(spec, &key, 0, &Meter::default()).zone).flatten().map(Arc::new);
        let zone = read.borrow_mut().entry(apex.clone()).or_insert_with(zone).clone();
        Some(ChallengeZone { text: spec.text.clone(), takes_changes, zone })
    };
    let views = || wanted.specs.iter().filter_map(|spec| spec.apex.to_view());
    for name in acme.names.iter() {
        let Ok(owner) = name.value.challenge_owner() else { continue };
        let Err(fault) = place_of(&owner, None, &find) else { continue };
        if views().any(|view| place_of(&owner, Some(&view), &find).is_ok()) {
            continue;
        }
        let at = |text: String| Diagnostic::at(name.place.as_ref(), text);
        let is_open = match &fault {
            PlaceFault::NoZone(_) => wanted.database.is_some(),
            PlaceFault::Secondary(_, is_known) => !is_known,
            PlaceFault::TakesNoChanges(_) => are_skipped,
            PlaceFault::Delegated(..) | PlaceFault::Generated(_) | PlaceFault::Aliases(_) => false,
        };
        match is_open {
            true => findings.warnings.push(at(format!(
                "only the running server knows whether a zone can have the record {owner} of the challenge \
                 dns-01: {fault}"
            ))),
            false => {
                let text = format!("no zone can have the record {owner} of the challenge dns-01: {fault}");
                findings.faults.push(at(text).hint(fault.hint()));
            }
        }
    }
    findings
}
