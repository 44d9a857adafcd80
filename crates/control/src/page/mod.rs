//! The status page for operators: one page of HTML without scripts and without resources from elsewhere.
//! `crate::http` serves it. `crate::rates` has the last minute, `html` ensures that no outside text
//! becomes markup.

mod html;
mod view;
mod why;

use std::sync::Arc;
use std::time::SystemTime;

use transport::unix_now;

use crate::commands::policy_test;
use crate::parts::ServerParts;
use telemetry::process::resident_memory;
use view::{SecondaryRow, Snapshot, StateCount, ZoneRow};
use wire::UnixTime;
use zone_manager::managed::ZoneStatus;
use zone_manager::managed::examination::SignatureAge;

/// Largest number of zones shown, faults first.
const MAX_ZONES: usize = 100;
/// Largest number of other faults shown, and of faults of the last reload.
const MAX_FAULTS: usize = 20;

/// The page.
pub struct StatusPage {
    parts: ServerParts,
}

impl StatusPage {
    /// Returns a page on these parts.
    pub fn new(parts: ServerParts) -> Arc<StatusPage> {
        Arc::new(StatusPage { parts })
    }

    /// Returns the page as of now. Takes long where there are many zones.
    pub fn render(&self) -> String {
        view::page(&self.snapshot())
    }

    /// Returns the page that shows which rule decides about a query; `query` is that of the URL.
    pub fn why(&self, query: &str) -> String {
        let form = why::WhyForm::read(query);
        let answer = (!form.name.is_empty()).then(|| {
            let client = form.address()?;
            policy_test(&self.parts, &form.name, client, &form.rtype).map_err(|fault| fault.to_string())
        });
        why::page(&form, answer.as_ref())
    }

    /// Returns why the server is not ready, with the names of some zones that have no version in service;
    /// `None` if every zone has one, even an old one.
    pub fn unready(&self) -> Option<String> {
        let zones = self.parts.table.all();
        let mut silent: Vec<_> = zones.iter().filter(|zone| zone.zone.is_none()).collect();
        if silent.is_empty() {
            return None;
        }
        let count = silent.len();
        silent.sort_by(|a, b| a.spec.name().cmp(&b.spec.name()));
        let mut out = format!("not ready: {count} of {} zones are not answered\n", zones.len());
        silent
            .iter()
            .take(MAX_FAULTS)
            .for_each(|zone| out += &format!("{} {}\n", zone.spec.apex, zone.word()));
        Some(out)
    }

    /// Returns the content security policy: a browser may show the page with its own style, and nothing else.
    pub fn policy() -> &'static str {
        view::POLICY
    }

    /// Returns the content security policy of the page with the form, which is sent to this server alone.
    pub fn form_policy() -> String {
        view::POLICY.replace("form-action 'none'", "form-action 'self'")
    }

    fn snapshot(&self) -> Snapshot {
        let ServerParts { frontend, table, secondaries, recursive, in_force, process, .. } = &self.parts;
        let rates = self.parts.rates.stretches();
        let zones = table.all();
        let count = |word| zones.iter().filter(|zone| zone.word() == word).count();
        let folders = table.folders();
        let catalogs = table.catalogs();
        let broken = catalogs.iter().filter_map(|catalog| {
            Some(format!("catalog zone {}: {}", catalog.zone, catalog.fault.as_ref()?))
        });
        let refused = folders.refused.iter().map(ToString::to_string);
        let pending = in_force
            .pending()
            .into_iter()
            .map(|key| format!("{} {}: a change waits for the next start", key.section, key.key));
        let signing = self.parts.changes.iter().flat_map(|changes| changes.all_signing());
        let unsigned = signing.filter_map(|(apex, status)| {
            let fault = status.fault.as_ref()?;
            Some(format!("zone {apex}: its keys and signatures are not maintained: {fault}"))
        });
        let notes = unsigned.chain(folders.held.iter().map(ToString::to_string)).chain(broken).chain(refused);
        let listeners = frontend.listeners();
        let of_primaries = || {
            let worst = secondaries.worst(MAX_ZONES).into_iter();
            worst.map(|(apex, status)| SecondaryRow { apex, status }).collect()
        };
        Snapshot {
            uptime: process.since.elapsed(),
            now: SystemTime::now(),
            memory: resident_memory(),
            listeners: listeners.iter().map(|one| format!("{} {}", one.local, one.carrier)).collect(),
            connections: frontend.tcp_limits.current() as u64,
            rates,
            recursive: recursive.is_some(),
            states: ZoneStatus::WORDS.map(|word| StateCount { word, zones: count(word) }),
            zones: worst(zones, unix_now()),
            secondaries: if secondaries.has_peers() { of_primaries() } else { Vec::new() },
            last_reload: table.last_reload(),
            notes: notes.chain(pending).take(MAX_FAULTS).collect(),
        }
    }
}

/// Returns the zones that are shown: those with faults first, then by name.
fn worst(mut zones: Vec<Arc<ZoneStatus>>, now: UnixTime) -> Vec<ZoneRow> {
    let order = |a: &Arc<ZoneStatus>, b: &Arc<ZoneStatus>| {
        urgency(a, now).cmp(&urgency(b, now)).then_with(|| a.spec.name().cmp(&b.spec.name()))
    };
    if zones.len() > MAX_ZONES {
        zones.select_nth_unstable_by(MAX_ZONES, order);
        zones.truncate(MAX_ZONES);
    }
    zones.sort_by(order);
    zones.iter().map(|state| ZoneRow::of(state, now)).collect()
}

/// Returns how urgently a zone needs the operator's attention; 0 is the most urgent.
fn urgency(state: &ZoneStatus, now: UnixTime) -> u8 {
    let signatures = state.examined.as_ref().and_then(|found| found.signatures).map(|first| first.age(now));
    match (state.word(), signatures) {
        ("failed" | "expired", _) => 0,
        (_, Some(SignatureAge::Expired)) => 1,
        ("empty", _) => 2,
        ("old", _) => 3,
        (_, Some(SignatureAge::Expiring)) => 4,
        _ => 5,
    }
}
