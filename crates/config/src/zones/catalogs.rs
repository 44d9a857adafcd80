//! Checks of zones and templates as catalog zones, and as members of catalog zones.

use std::collections::HashSet;

use wire::NameBuf;

use super::{ConfiguredZone, Templates};
use crate::report::Diagnostic;
use crate::table::Keys;
use crate::table::read::At;
use wording::did_you_mean;

/// Checks the keys of zones and templates about the catalog zones that list them.
pub(super) fn check_listings<'a>(
    zones: impl Iterator<Item = &'a At<ConfiguredZone>> + Clone,
    templates: &Templates,
    faults: &mut Vec<Diagnostic>,
) {
    let produced: HashSet<&NameBuf> =
        zones.clone().filter(|zone| zone.catalog.is_produced()).map(|zone| &zone.name.value).collect();
    for zone in zones {
        let template = zone.template.as_deref().and_then(|name| templates.get(name));
        zone.listing.check(|name| produced.contains(name), faults);
        if zone.listing.catalog.is_none()
            && template.is_none_or(|template| template.listing.catalog.is_none())
        {
            zone.listing.check_unlisted(faults);
        }
        if zone.listing.catalog.value.as_ref() == Some(&zone.name.value) {
            let message = format!("the catalog zone {} cannot list itself", zone.name.value);
            faults.push(Diagnostic::at(zone.listing.catalog.place.as_ref(), message));
        }
    }
    for template in templates.values() {
        template.listing.check(|name| produced.contains(name), faults);
    }
}

/// Reports keys without effect, missing templates, and members that would have no source.
pub(super) fn check(zone: &ConfiguredZone, templates: &Templates, primaries: bool) -> Vec<Diagnostic> {
    let keys = &zone.catalog;
    let mut faults = Vec::new();
    if keys.template.is_none() {
        let has_effect = |key: &str| match keys.is_produced() {
            true => ["catalog-produce", "catalog-max-removed"].contains(&key),
            false => key == "catalog-produce",
        };
        for value in keys.values().into_iter().filter(|key| key.value.is_some() && !has_effect(key.key)) {
            let place = [&keys.groups.place, &keys.max_removed.place, &keys.answers.place];
            let place = place.into_iter().flatten().next();
            let message = format!("`{}` has no effect without `catalog-template`", value.key);
            faults.push(Diagnostic::at(place, message));
        }
    }
    for (name, place) in keys.templates() {
        let Some(template) = templates.get(name) else {
            let fault = Diagnostic::at(place, format!("there is no [template.{name}]"));
            faults.push(match did_you_mean(name, templates.keys().map(String::as_str)) {
                Some(near) => fault.hint(format!("did you mean \"{near}\"?")),
                None => fault,
            });
            continue;
        };
        if template.file.is_none() && template.peers.primaries.is_none() && !primaries {
            let message = format!(
                "template `{name}` has no `file` and no `primaries`, and the catalog zone {} has no \
                primaries either",
                zone.name.value
            );
            faults.push(Diagnostic::at(place, message));
        }
    }
    faults
}
