//! Contents and layout of the status page.

use std::fmt::Display;
use std::time::{Duration, SystemTime};

use query_path::stats::RCODES;
use wire::{Rcode, UnixTime, ZoneName};
use zone_plan::ZoneText;

use super::html::Html;
use super::{MAX_FAULTS, MAX_ZONES, urgency};
use crate::rates::{Stretch, Stretches};
use zone_manager::managed::ZoneStatus;
use zone_manager::managed::examination::SignatureAge;
use zone_manager::secondaries::SecondaryStatus;
use zone_manager::zones::manager::LastReload;

/// Largest number of response codes shown, the most frequent first.
const MAX_RESPONSE_CODES: usize = 8;

/// Everything that the page shows.
pub(super) struct Snapshot {
    pub(super) uptime: Duration,
    pub(super) now: SystemTime,
    pub(super) memory: Option<u64>,
    pub(super) listeners: Vec<String>,
    pub(super) connections: u64,
    pub(super) rates: Stretches,
    pub(super) recursive: bool,
    pub(super) states: [StateCount; ZoneStatus::WORDS.len()],
    pub(super) zones: Vec<ZoneRow>,
    pub(super) secondaries: Vec<SecondaryRow>,
    pub(super) last_reload: Option<LastReload>,
    /// Other matters that need the operator's attention.
    pub(super) notes: Vec<String>,
}

/// The number of zones in one state.
#[derive(Debug, Clone, Copy)]
pub(super) struct StateCount {
    pub(super) word: &'static str,
    pub(super) zones: usize,
}

/// A secondary zone as the page shows it.
pub(super) struct SecondaryRow {
    pub(super) apex: ZoneName,
    pub(super) status: SecondaryStatus,
}

/// A zone as the page shows it.
#[derive(Debug, Clone, Default)]
pub(super) struct ZoneRow {
    pub(super) name: String,
    pub(super) state: &'static str,
    pub(super) bad: bool,
    pub(super) serial: Option<u32>,
    pub(super) records: Option<u64>,
    pub(super) loaded: Option<SystemTime>,
    /// Its fault, or its source.
    pub(super) note: String,
}

impl ZoneRow {
    pub(super) fn of(state: &ZoneStatus, now: UnixTime) -> ZoneRow {
        let signatures = state.examined.as_ref().and_then(|found| found.signatures);
        let signatures = signatures.filter(|first| first.age(now) != SignatureAge::Valid);
        let note = match (&state.fault, signatures) {
            (Some(fault), _) if fault.file.is_empty() => fault.message.clone(),
            (Some(fault), _) => format!("{}:{}: {}", fault.file, fault.line, fault.message),
            (None, Some(first)) => format!("its first signature expires at {first} ({})", first.age(now)),
            (None, None) if state.word() == "ok" => match &state.spec.text {
                ZoneText::Primaries => "from primaries".into(),
                text => text.to_string(),
            },
            (None, None) => "from primaries, see below".into(),
        };
        ZoneRow {
            name: state.spec.apex.to_string(),
            state: state.word(),
            bad: urgency(state, now) < 5,
            serial: state.zone.as_ref().map(|zone| zone.serial().0),
            records: state.zone.as_ref().map(|zone| zone.record_count()),
            loaded: state.loaded,
            note,
        }
    }
}

/// The page's style, which is part of it. [`POLICY`] has the hash of the text between the tags.
const STYLE: &str = "\
:root{color-scheme:light dark;font:15px/1.45 system-ui,sans-serif}\
body{max-width:70rem;margin:1rem auto;padding:0 1rem}\
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:1.6rem 0 .3rem}p{margin:.2rem 0}\
table{border-collapse:collapse;width:100%}\
th,td{text-align:left;padding:.15rem .8rem .15rem 0;border-bottom:1px solid #8884;\
vertical-align:top;overflow-wrap:anywhere}\
th{font-weight:600;white-space:nowrap}td{font-variant-numeric:tabular-nums}\
.bad td{color:#c22;font-weight:600}@media(prefers-color-scheme:dark){.bad td{color:#f88}}";

/// The content security policy: a browser applies the style with this SHA-256 hash, and nothing else.
pub(super) const POLICY: &str = "default-src 'none'; \
    style-src 'sha256-xBvuWD42WjIAljWbKX0Gmj/MarloOuFePEHHjT2p+5Q='; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'";

/// Writes the head of a page, with more markup in it, and opens the body.
pub(super) fn head(html: &mut Html, more: &'static str) {
    html.markup("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">")
        .markup("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">")
        .markup(more)
        .markup("<title>nomen</title>\n<style>")
        .markup(STYLE)
        .markup("</style></head><body>\n");
}

/// Returns the page.
pub(super) fn page(shown: &Snapshot) -> String {
    let mut html = Html::default();
    head(&mut html, "<meta http-equiv=\"refresh\" content=\"30\">");
    html.markup("<h1>nomen ").text(env!("CARGO_PKG_VERSION")).markup("</h1>\n");
    let memory = shown.memory.map_or_else(String::new, |bytes| format!(", {} MiB in RAM", bytes >> 20));
    let connections = shown.connections;
    html.paragraph(format!("Up for {}{memory}, {connections} TCP connections.", span(shown.uptime)));
    html.paragraph(format!("Listens on {}.", shown.listeners.join(", ")));
    if !shown.notes.is_empty() {
        html.heading("Wants looking at").table(&["what"]);
        for note in &shown.notes {
            html.row(true, &[note]);
        }
        html.end_table();
    }
    traffic(shown, &mut html);
    zones(shown, &mut html);
    secondaries(shown, &mut html);
    last_reload(shown, &mut html);
    if shown.recursive {
        html.markup("<p><a href=\"/why\">Why was this blocked?</a></p>\n");
    }
    html.markup("<p>Refreshes every 30 seconds. <a href=\"/metrics\">All figures</a></p>\n")
        .markup("</body></html>\n");
    html.finish()
}

fn traffic(shown: &Snapshot, html: &mut Html) {
    let Stretches { whole, minute } = &shown.rates;
    let row = |html: &mut Html, bad: bool, what: &dyn Display, count: u64, last: u64| {
        html.row(bad, &[what, &count, &rate(whole.rate(count)), &rate(minute.rate(last))]);
    };
    html.heading("Queries").table(&["", "since the start", "a second since then", "a second, last minute"]);
    row(html, false, &"queries", whole.counted.queries, minute.counted.queries);
    let mut codes: Vec<usize> = (0..RCODES).filter(|&code| whole.counted.replies[code] > 0).collect();
    codes.sort_by_key(|&code| std::cmp::Reverse(whole.counted.replies[code]));
    for code in codes.into_iter().take(MAX_RESPONSE_CODES) {
        let name = match u16::try_from(code) {
            Ok(number) if code + 1 < RCODES => Rcode(number).to_string(),
            _ => "other codes".into(),
        };
        let bad = u16::try_from(code) == Ok(Rcode::SERVFAIL.0) && minute.counted.replies[code] > 0;
        row(html, bad, &name, whole.counted.replies[code], minute.counted.replies[code]);
    }
    html.end_table();
    if shown.recursive {
        let share = |stretch: &Stretch| {
            let (hits, all) = (stretch.counted.hits, stretch.counted.hits + stretch.counted.misses);
            if all == 0 { "–".into() } else { format!("{:.1} %", 100.0 * hits as f64 / all as f64) }
        };
        html.paragraph(format!(
            "Answered from the cache: {} since the start, {} in the last minute.",
            share(whole),
            share(minute)
        ));
    }
}

fn zones(shown: &Snapshot, html: &mut Html) {
    let total: usize = shown.states.iter().map(|state| state.zones).sum();
    let states = shown.states.iter().filter(|state| state.zones > 0);
    let states: Vec<String> = states.map(|state| format!("{} {}", state.zones, state.word)).collect();
    html.heading("Zones");
    match states[..] {
        [] => html.paragraph("There are none."),
        _ => html.paragraph(format!("{total} zones: {}.", states.join(", "))),
    };
    if total > shown.zones.len() {
        html.paragraph(format!("Shown are {}, faults first.", shown.zones.len()));
    }
    html.table(&["zone", "state", "serial", "records", "in service since", ""]);
    for zone in &shown.zones {
        let since = zone.loaded.map_or_else(dash, |at| ago(shown.now, at));
        let (serial, records) = (number(zone.serial), number(zone.records));
        html.row(zone.bad, &[&zone.name, &zone.state, &serial, &records, &since, &zone.note]);
    }
    html.end_table();
}

fn secondaries(shown: &Snapshot, html: &mut Html) {
    if shown.secondaries.is_empty() {
        return;
    }
    html.heading("Zones from primaries");
    if shown.secondaries.len() == MAX_ZONES {
        html.paragraph(format!("At most {MAX_ZONES} zones are shown, faults first."));
    }
    html.table(&["zone", "state", "serial", "confirmed", "next refresh", "expires", "last fault"]);
    for SecondaryRow { apex, status: zone } in &shown.secondaries {
        let confirmed = zone.confirmed.map_or_else(dash, |at| ago(shown.now, at));
        let next = zone.next_refresh.map_or_else(|| "under way".into(), |at| until(shown.now, at));
        let expires = zone.expires.map_or_else(dash, |at| until(shown.now, at));
        let fault = zone.fault.as_ref().map_or_else(String::new, |fault| {
            format!("{}: {}, {}", fault.primary, fault.fault, ago(shown.now, fault.at))
        });
        let state = zone.state.unwrap_or("–");
        let bad = state != "fresh" || zone.fault.is_some();
        html.row(bad, &[&apex, &state, &number(zone.serial), &confirmed, &next, &expires, &fault]);
    }
    html.end_table();
}

fn last_reload(shown: &Snapshot, html: &mut Html) {
    html.heading("Last reload");
    let Some(last) = &shown.last_reload else {
        html.paragraph("There has been none since the start.");
        return;
    };
    let when = ago(shown.now, last.at);
    match &last.result {
        Err(fault) => {
            html.table(&["what"]);
            html.row(true, &[&format!("{when}: it failed, what was served before stays: {fault}")]);
            html.end_table();
        }
        Ok(report) => {
            let (zones, loaded) = (report.summary.zones, report.summary.loaded);
            let outcome = report.complaint().unwrap_or_else(|| "all was good".into());
            html.paragraph(format!("{when}: {zones} zones, {loaded} of them read anew; {outcome}."));
            if !report.faults.is_empty() {
                html.table(&["zone", "file", "fault"]);
                for bad in report.faults.iter().take(MAX_FAULTS) {
                    let zone = bad.zone.as_deref().unwrap_or("–");
                    let place = format!("{}:{}:{}", bad.file, bad.line, bad.column);
                    html.row(true, &[&zone, &place, &bad.fault]);
                }
                html.end_table();
            }
        }
    }
}

fn dash() -> String {
    "–".into()
}

fn number(value: Option<impl Display>) -> String {
    value.map_or_else(dash, |value| value.to_string())
}

fn rate(rate: f64) -> String {
    if rate < 10.0 { format!("{rate:.1}") } else { format!("{rate:.0}") }
}

/// Returns a duration in its two largest units.
fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

fn ago(now: SystemTime, at: impl Into<SystemTime>) -> String {
    now.duration_since(at.into()).map_or_else(|_| "just now".into(), |time| format!("{} ago", span(time)))
}

fn until(now: SystemTime, at: impl Into<SystemTime>) -> String {
    at.into().duration_since(now).map_or_else(|_| "due".into(), |time| format!("in {}", span(time)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::rates::QueryTotals;
    use zone_manager::secondaries::PrimaryFault;
    use zone_manager::zones::manager::ReloadFault;
    use zone_manager::zones::report::{BadFile, RoundReport};

    const EVIL: &str = "<script>alert('x')</script><img src=\"x\" onerror=y>&";

    fn stretch() -> Stretch {
        let mut counted = QueryTotals { queries: 120, hits: 3, misses: 1, ..QueryTotals::default() };
        counted.replies[0] = 100;
        counted.replies[2] = 20;
        Stretch { took: Duration::from_secs(60), counted }
    }

    /// A page in which all outside text is hostile.
    fn hostile(last_reload: LastReload) -> Snapshot {
        let evil = || EVIL.to_owned();
        let fault = PrimaryFault { primary: evil(), at: UnixTime::from_secs(5), fault: evil() };
        let status =
            SecondaryStatus { state: Some("stale"), fault: Some(fault), ..SecondaryStatus::default() };
        let row = ZoneRow { name: evil(), state: "failed", bad: true, note: evil(), ..ZoneRow::default() };
        Snapshot {
            uptime: Duration::from_secs(90_000),
            now: SystemTime::UNIX_EPOCH + Duration::from_secs(1_000),
            memory: Some(5 << 20),
            listeners: vec![evil()],
            connections: 1,
            rates: Stretches { whole: stretch(), minute: stretch() },
            recursive: true,
            states: ZoneStatus::WORDS.map(|word| StateCount { word, zones: usize::from(word == "failed") }),
            zones: vec![row],
            secondaries: vec![SecondaryRow {
                apex: wire::Name::of_checked(b"\x08<script>\0").into(),
                status,
            }],
            last_reload: Some(last_reload),
            notes: vec![evil()],
        }
    }

    fn reloads() -> [LastReload; 2] {
        let bad =
            BadFile { zone: Some(EVIL.into()), file: EVIL.into(), line: 1, column: 2, fault: EVIL.into() };
        let report = RoundReport { faults: vec![bad], ..RoundReport::default() };
        let at = SystemTime::UNIX_EPOCH;
        let failed = ReloadFault::Configuration(EVIL.into());
        [LastReload { at, result: Ok(Arc::new(report)) }, LastReload { at, result: Err(failed) }]
    }

    #[test]
    fn nothing_from_outside_is_markup() {
        for reload in reloads() {
            let page = page(&hostile(reload));
            for evil in ["<script", "<img", "'x'", "onerror=y>"] {
                assert!(!page.contains(evil), "{evil} in {page}");
            }
            assert!(page.matches("&lt;script&gt;alert(&#39;x&#39;)").count() > 4, "{page}");
            for wanted in ["Up for 1 d 1 h", "<td>queries</td><td>120</td><td>2.0</td>", "75.0 %", "1 failed"]
            {
                assert!(page.contains(wanted), "{wanted}: {page}");
            }
        }
    }

    /// A browser applies the style only if its hash is in the policy.
    #[test]
    fn the_policy_has_the_hash_of_the_style() {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, STYLE.as_bytes());
        let mut hash = String::new();
        wire::text::write_base64(digest.as_ref(), &mut hash).expect("written");
        assert!(POLICY.contains(&format!("'sha256-{hash}'")), "it is {hash}");
        let [reload, _] = reloads();
        assert_eq!(page(&hostile(reload)).matches(&format!("<style>{STYLE}</style>")).count(), 1);
    }

    #[test]
    fn times_have_two_units() {
        let text = |seconds| span(Duration::from_secs(seconds));
        let all = [text(59), text(61), text(3_700), text(200_000)];
        assert_eq!(all, ["59 s", "1 min 1 s", "1 h 1 min", "2 d 7 h"]);
        let (early, late) = (SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH + Duration::from_secs(5));
        assert_eq!([ago(late, early), ago(early, late)], ["5 s ago", "just now"]);
        assert_eq!([until(early, late), until(late, early)], ["in 5 s", "due"]);
    }
}
