//! Zones that are signed here, and what their parents are asked.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::text::SeriesLabels;
use super::zones::zone_labels;
use super::{Figures, MetricType, Printer, labelled};
use crate::in_force::InForce;
use validator::children::RefusalReason;
use wire::{UnixTime, ZoneName};
use zone_manager::changes::{
    Changes, DelegationCheckCounts, DelegationCounts, DsPushCounts, ParentCounts, SigningStatus,
};
use zone_manager::managed::online::OnlineTotals;

/// Metrics of zones that are signed here.
pub struct SigningFigures {
    /// Signs zones.
    pub changes: Arc<Changes>,
    /// Whether each zone has its own series.
    pub in_force: Arc<InForce>,
}

impl Figures for SigningFigures {
    fn print(&self, out: &mut Printer<'_>) -> fmt::Result {
        if let Some(delegations) = self.changes.delegations().filter(|delegations| delegations.is_on()) {
            of_delegations(delegations.counts(), out)?;
            let help = "Checks of delegations that were asked for, by NOTIFY or an operator, and wait";
            out.gauge("delegation_checks_waiting", help, delegations.waiting() as u64)?;
        }
        let all = self.changes.all_signing();
        if all.is_empty() {
            return Ok(());
        }
        let failed = all.iter().filter(|(_, status)| status.fault.is_some()).count();
        let states = [("ok", all.len() - failed), ("failed", failed)];
        let states = states.map(|(word, count)| (word, count as u64));
        out.family(
            "signing_zones",
            "Zones that are signed here, by the last look at their keys and signatures: ok, failed",
            MetricType::Gauge,
            labelled("state", states),
        )?;
        let first = |of: fn(&SigningStatus) -> Option<UnixTime>| all.iter().filter_map(|(_, z)| of(z)).min();
        if let Some(expiry) = first(|status| status.earliest) {
            let help =
                "When the first signature of all zones that are signed here expires, in seconds since 1970";
            out.gauge("signing_expiry_timestamp_seconds", help, expiry.as_secs() as f64)?;
        }
        if let Some(next) = first(|status| Some(status.next)) {
            let help = "When the next look at keys and signatures of a zone is due, in seconds since 1970";
            out.gauge("signing_next_timestamp_seconds", help, next.as_secs() as f64)?;
        }
        if let Some(end) = first(|status| status.offline.map(|offline| offline.until.unwrap_or_default())) {
            let help = "When the signatures of the last signed key response expire, of the zone whose KSK is offline \
                where that is first, in seconds since 1970; 0 without a response";
            out.gauge("signing_response_expiry_timestamp_seconds", help, end.as_secs() as f64)?;
        }
        let made = self.changes.counts().signatures.load(Relaxed);
        out.counter("signing_signatures", "Signatures made", made)?;
        if let Some(parents) = self.changes.parents() {
            parental(parents.counts(), out)?;
        }
        if let Some(counts) = self.changes.ds_push_counts() {
            pushes(counts, out)?;
        }
        if let Some(totals) = self.changes.online_totals() {
            of_answers(totals, out)?;
        }
        if self.in_force.settings().counts_per_zone() { each_zone(&all, out) } else { Ok(()) }
    }
}

/// Prints what was signed for answers.
fn of_answers(totals: OnlineTotals, out: &mut Printer<'_>) -> fmt::Result {
    let help = "RRsets of answers that are signed when they are asked for (`online`), by result: cached, made, or \
        refused (the limit of signatures a second)";
    let results = [("cached", totals.hits), ("made", totals.made), ("refused", totals.refused)];
    out.family("signing_answers", help, MetricType::Counter, labelled("result", results))?;
    let help = "RRsets whose signatures the caches of answers have evicted";
    out.counter("signing_answers_evicted", help, totals.evicted)?;
    out.gauge("signing_answers_cache_bytes", "Bytes of signatures that are cached for answers", totals.bytes)
}

/// Prints what was found of delegations.
fn of_delegations(counts: &DelegationCounts, out: &mut Printer<'_>) -> fmt::Result {
    let help = "Checks of delegations of zones here, by result: nothing (the child asks for nothing), unchanged \
        (the zone has what it asks for), changed, would-change (`delegation-dry-run`), refused, or failed (the \
        zone could not be changed)";
    out.family("delegation_checks", help, MetricType::Counter, results(&counts.cds))?;
    let help = "Requests of child zones that were not accepted, by reason";
    out.family("delegation_refusals", help, MetricType::Counter, refusals(&counts.cds))?;
    let help = "Checks of CSYNC records of delegations of zones here, by result, with the same results";
    out.family("delegation_csync_checks", help, MetricType::Counter, results(&counts.csync))?;
    let help = "CSYNC records of child zones that were not accepted, by reason";
    out.family("delegation_csync_refusals", help, MetricType::Counter, refusals(&counts.csync))?;
    let notified = [
        ("taken", counts.notify_taken.load(Relaxed)),
        ("refused", counts.notify_refused.load(Relaxed)),
        ("dropped", counts.notify_dropped.load(Relaxed)),
    ];
    let help = "NOTIFYs for delegations of zones here (RFC 9859), by result: taken (a check follows), refused (the \
        zone does not delegate the name), or dropped (too many checks wait)";
    out.family("delegation_notify", help, MetricType::Counter, labelled("result", notified))
}

fn refused(counts: &DelegationCheckCounts) -> impl Iterator<Item = u64> {
    counts.refused.iter().map(|count| count.load(Relaxed))
}

fn refusals(counts: &DelegationCheckCounts) -> impl Iterator<Item = (SeriesLabels<'static, 1>, u64)> + use<> {
    let reasons: Vec<_> =
        RefusalReason::ALL.iter().map(|reason| reason.word()).zip(refused(counts)).collect();
    labelled("reason", reasons)
}

fn results(counts: &DelegationCheckCounts) -> impl Iterator<Item = (SeriesLabels<'static, 1>, u64)> + use<> {
    let results = [
        ("nothing", counts.nothing.load(Relaxed)),
        ("unchanged", counts.unchanged.load(Relaxed)),
        ("changed", counts.changed.load(Relaxed)),
        ("would-change", counts.would_change.load(Relaxed)),
        ("refused", refused(counts).sum()),
        ("failed", counts.failed.load(Relaxed)),
    ];
    labelled("result", results)
}

/// Prints what parents were asked.
fn parental(counts: &ParentCounts, out: &mut Printer<'_>) -> fmt::Result {
    let words = |results: [(&'static str, &AtomicU64); 2]| {
        labelled("result", results.map(|(word, count)| (word, count.load(Relaxed))))
    };
    let unknown = counts.unknown.load(Relaxed);
    let known = counts.rounds.load(Relaxed).saturating_sub(unknown);
    let help = "Rounds in which the servers of a zone's parent were asked for its DS records, by result: asked, or \
        failed (not all servers of the parent are known)";
    let rounds = labelled("result", [("asked", known), ("failed", unknown)]);
    out.family("signing_parent_rounds", help, MetricType::Counter, rounds)?;
    let help = "Servers of parents asked for DS records, by result: answered, or failed";
    let replies = words([("answered", &counts.answers), ("failed", &counts.faults)]);
    out.family("signing_parent_replies", help, MetricType::Counter, replies)?;
    let help = "Zones whose parent was sent a NOTIFY of new CDS or CSYNC records (RFC 9859), by result: acknowledged, or \
        failed (no target, or none acknowledged)";
    let notified = words([("acknowledged", &counts.notified), ("failed", &counts.not_notified)]);
    out.family("signing_parent_notify", help, MetricType::Counter, notified)
}

/// Prints what was pushed to parents.
fn pushes(counts: &DsPushCounts, out: &mut Printer<'_>) -> fmt::Result {
    let results =
        [("accepted", &counts.accepted), ("unchanged", &counts.unchanged), ("failed", &counts.failed)];
    let results = results.map(|(word, count)| (word, count.load(Relaxed)));
    let help = "DS RRsets pushed to parents (`ds-push`), by result: accepted (the parent zone here was changed, or a \
        server has acknowledged the update), unchanged (the parent zone had it), or failed (tried again later)";
    out.family("signing_ds_pushes", help, MetricType::Counter, labelled("result", results))
}

/// Prints the series of each zone.
fn each_zone(all: &[(ZoneName, Arc<SigningStatus>)], out: &mut Printer<'_>) -> fmt::Result {
    let next = all.iter().map(|(apex, status)| (zone_labels(apex), status.next.as_secs()));
    let help = "When the next look at keys and signatures of this zone is due, in seconds since 1970";
    out.family("zone_signing_next_timestamp_seconds", help, MetricType::Gauge, next)?;
    let offline = all.iter().filter_map(|(apex, status)| {
        let until = status.offline?.until.unwrap_or_default();
        Some((zone_labels(apex), until.as_secs()))
    });
    let offline: Vec<_> = offline.collect();
    if !offline.is_empty() {
        let help = "When the signatures of the last signed key response of this zone expire, in seconds since 1970; 0 \
            without a response";
        out.family(
            "zone_signing_response_expiry_timestamp_seconds",
            help,
            MetricType::Gauge,
            offline.into_iter(),
        )?;
    }
    let failed = all.iter().map(|(apex, status)| (zone_labels(apex), u64::from(status.fault.is_some())));
    let help = "1 if the last look at keys and signatures of this zone failed";
    out.family("zone_signing_failed", help, MetricType::Gauge, failed)
}
