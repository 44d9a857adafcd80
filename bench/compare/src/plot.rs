//! Bar charts as SVG for a web page: one colour per server everywhere, light and dark by the reader's
//! setting, no scripts, no fonts of its own. Also selects the figures.

use std::fmt::Write as _;

use crate::report::{Loading, Results, Row};
use crate::workloads::Phase;

/// A bar: one or two parts of a figure, stacked.
#[derive(Clone, Debug, PartialEq)]
struct Bar {
    server: String,
    parts: Vec<f64>,
    label: String,
}

/// Bars under one heading.
#[derive(Clone, Debug, PartialEq)]
struct Panel {
    title: String,
    bars: Vec<Bar>,
}

/// A chart: file name without its ending, heading, explanation, panels on one scale.
struct Chart {
    file: &'static str,
    title: &'static str,
    note: &'static str,
    panels: Vec<Panel>,
}

/// Returns every chart that the results have figures for, as file name and SVG.
pub(crate) fn charts(results: &Results) -> Vec<(String, String)> {
    let rows = |load: &'static str| move |row: &&Row| row.load.starts_with(load);
    let cpu = |row: &Row| {
        let (user, system) = (row.figures.user_us?, row.figures.system_us?);
        Some((vec![user, system], format!("{:.2} µs ({user:.2})", user + system)))
    };
    let rate = |row: &Row| row.figures.qps.map(|qps| (vec![qps], thousands(qps)));
    let trip = |row: &Row| {
        let (p50, p99) = (row.figures.latency_p50_us?, row.figures.latency_p99_us?);
        Some((vec![p50, (p99 - p50).max(0.0)], format!("{p50:.1} / {p99:.1} µs")))
    };
    let charts = [
        Chart {
            file: "cpu",
            title: "Server CPU per query",
            note: "µs, not saturated; strong: user space (in brackets), pale: kernel. Shorter is better.",
            panels: panels(results, |row| row.load == USUAL, cpu),
        },
        Chart {
            file: "cpu-clients",
            title: "Server CPU per query by number of clients",
            note: "µs, not saturated; strong: user space (in brackets), pale: kernel. Shorter is better.",
            panels: panels(results, |row| row.load.starts_with("fixed rate, ") && row.load != USUAL, cpu),
        },
        Chart {
            file: "cpu-misses",
            title: "Server CPU per miss by rate",
            note: "µs; strong: user space (in brackets), pale: kernel. dnsdist keeps its ports. \
                   Shorter is better.",
            panels: panels(results, rows("fixed rate of "), cpu),
        },
        Chart {
            file: "saturated",
            title: "Answers per second, saturated over loopback",
            note: "One worker on one CPU, dnsperf on another; dnsperf may be the limit. Longer is better.",
            panels: panels(results, rows("saturated, "), rate),
        },
        Chart {
            file: "veth",
            title: "Answers per second, saturated by kxdpgun over veth",
            note: "One worker on one CPU, the generator on another. Longer is better.",
            panels: panels(results, rows("saturated over veth"), rate),
        },
        Chart {
            file: "round-trip",
            title: "Round trip with one query outstanding",
            note: "µs; strong: median, pale: up to the 99th percentile. Shorter is better.",
            panels: panels(results, rows("one outstanding"), trip),
        },
        Chart {
            file: "tcp",
            title: "Server CPU per query over TCP",
            note: "µs; strong: user space (in brackets), pale: kernel. Shorter is better.",
            panels: panels(results, rows("TCP"), cpu),
        },
        Chart {
            file: "client",
            title: "A well-behaved client's latency beside a flood",
            note: "µs; strong: median, pale: up to the 99th percentile. Shorter is better.",
            panels: panels(results, rows("client "), trip),
        },
    ];
    let charts = charts.into_iter().chain(secondary_charts(results)).chain(starts_charts(results));
    let drawn = charts.filter(|chart| !chart.panels.is_empty());
    drawn.map(|chart| (format!("{}.svg", chart.file), draw(&chart))).collect()
}

/// Returns the charts for a secondary of very many zones.
fn secondary_charts(results: &Results) -> [Chart; 3] {
    let served = |row: &&Row| row.workload == "secondaries" && row.load != Phase::Refresh.name();
    [
        Chart {
            file: "secondaries",
            title: "Seconds until a secondary serves all its zones",
            note: "Many small zones from one primary, on one CPU. Shorter is better.",
            panels: panels(results, served, |row| {
                let seconds = row.figures.moved?.seconds?;
                Some((vec![seconds], format!("{seconds:.2} s")))
            }),
        },
        Chart {
            file: "secondaries-cpu",
            title: "CPU seconds until a secondary has done all there is to do",
            note: "Strong: user space (in brackets), pale: kernel. Shorter is better.",
            panels: panels(results, served, |row| {
                let moved = row.figures.moved?;
                let (user, system) = (moved.user?, moved.system?);
                Some((vec![user, system], format!("{:.2} s ({user:.2})", user + system)))
            }),
        },
        Chart {
            file: "secondaries-memory",
            title: "Memory of a secondary of many zones",
            note: "MB resident; strong: at rest, pale: up to the peak. Shorter is better.",
            panels: panels(results, served, |row| {
                let (rest, peak) = (row.figures.moved?.resident? / 1e6, row.figures.peak_bytes? / 1e6);
                Some((vec![rest, (peak - rest).max(0.0)], format!("{rest:.0} / {peak:.0} MB")))
            }),
        },
    ]
}

/// Returns the charts for starts.
fn starts_charts(results: &Results) -> [Chart; 2] {
    [
        Chart {
            file: "load",
            title: "Seconds from start to answers",
            note: "Text zones, page cache warm. Shorter is better.",
            panels: starts(results, |loading| {
                let seconds = loading.seconds?;
                Some((seconds, format!("{seconds:.2} s")))
            }),
        },
        Chart {
            file: "memory",
            title: "Memory with the zones loaded",
            note: "MB resident, shared pages counted once. Shorter is better.",
            panels: starts(results, |loading| {
                let megabytes = loading.resident_bytes? / 1e6;
                Some((megabytes, format!("{megabytes:.0} MB")))
            }),
        },
    ]
}

fn panels(
    results: &Results,
    wanted: impl Fn(&&Row) -> bool,
    value: impl Fn(&Row) -> Option<(Vec<f64>, String)>,
) -> Vec<Panel> {
    let mut panels: Vec<Panel> = Vec::new();
    for row in results.rows.iter().filter(wanted).filter(|row| row.note.is_none()) {
        let Some((parts, label)) = value(row) else { continue };
        let group = results.groups.iter().find(|group| group.workload == row.workload);
        let heading = group.map_or(row.workload.as_str(), |group| group.title.as_str());
        let title = format!("{heading} — {}", row.load);
        let bar = Bar { server: row.server.clone(), parts, label };
        match panels.iter_mut().find(|panel| panel.title == title) {
            Some(panel) => panel.bars.push(bar),
            None => panels.push(Panel { title, bars: vec![bar] }),
        }
    }
    panels
}

/// Returns the starts of the workloads that have enough records.
fn starts(results: &Results, value: impl Fn(&Loading) -> Option<(f64, String)>) -> Vec<Panel> {
    let mut panels: Vec<Panel> = Vec::new();
    let told = ["load", "load-large", "zones-10k", "zones-100k", "signed-nsec"];
    for loading in results.loading.iter().filter(|loading| told.contains(&loading.workload.as_str())) {
        let group = results.groups.iter().find(|group| group.workload == loading.workload);
        let title = group.map_or_else(|| loading.workload.clone(), |group| group.title.clone());
        let Some((amount, label)) = value(loading) else { continue };
        let bar = Bar { server: loading.server.clone(), parts: vec![amount], label };
        match panels.iter_mut().find(|panel| panel.title == title) {
            Some(panel) => panel.bars.push(bar),
            None => panels.push(Panel { title, bars: vec![bar] }),
        }
    }
    panels
}

/// The load of most rows.
const USUAL: &str = "fixed rate, 20 clients";

const WIDTH: f64 = 760.0;
const MARGIN: f64 = 16.0;
const NAMES: f64 = 185.0;
const LABELS: f64 = 130.0;
const BAR: f64 = 18.0;
const STEP: f64 = 24.0;

const STYLE: &str = "svg{font:13px system-ui,-apple-system,'Segoe UI',sans-serif;background:#fff}\
text{fill:#1c1f24}.title{font-size:17px;font-weight:600}.note{fill:#667}.panel{font-weight:600}\
.nomen{fill:#d9480f}.nsd{fill:#3b76af}.knot{fill:#4c9a6a}.bind{fill:#8661b5}.powerdns{fill:#b99a2e}\
.unbound{fill:#3b76af}.recursor{fill:#b99a2e}.dnsdist{fill:#c07a9d}.kresd{fill:#4c9a6a}\
.reflector{fill:#8a9099}.name{text-anchor:end}.pale{opacity:.42}.base{stroke:#b8bec8}\
@media(prefers-color-scheme:dark){svg{background:#15181d}text{fill:#e4e7ec}.note{fill:#98a2b0}\
.base{stroke:#4a5260}}";

fn draw(chart: &Chart) -> String {
    let bars: usize = chart.panels.iter().map(|panel| panel.bars.len()).sum();
    let height = 66.0 + chart.panels.len() as f64 * 40.0 + bars as f64 * STEP + MARGIN;
    let sums = chart.panels.iter().flat_map(|panel| &panel.bars).map(|bar| bar.parts.iter().sum::<f64>());
    let most = sums.fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let scale = (WIDTH - 2.0 * MARGIN - NAMES - LABELS) / most;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\">\n<title>{0}</title>\n<style>{STYLE}</style>\n\
         <text class=\"title\" x=\"{MARGIN}\" y=\"28\">{0}</text>\n\
         <text class=\"note\" x=\"{MARGIN}\" y=\"48\">{1}</text>\n",
        escape(chart.title),
        escape(chart.note)
    );
    let mut y = 66.0;
    for panel in &chart.panels {
        let _ = writeln!(
            out,
            "<text class=\"panel\" x=\"{MARGIN}\" y=\"{:.1}\">{}</text>",
            y + 20.0,
            escape(&panel.title)
        );
        y += 32.0;
        let top = y;
        for bar in &panel.bars {
            draw_bar(&mut out, bar, y, scale);
            y += STEP;
        }
        let base = MARGIN + NAMES;
        let _ = writeln!(
            out,
            "<line class=\"base\" x1=\"{base}\" x2=\"{base}\" y1=\"{top:.1}\" y2=\"{:.1}\"/>",
            y - STEP + BAR
        );
        y += 8.0;
    }
    out.push_str("</svg>\n");
    out
}

fn draw_bar(out: &mut String, bar: &Bar, y: f64, scale: f64) {
    let class = bar.server.split(',').next().unwrap_or_default().to_lowercase();
    let mut x = MARGIN + NAMES;
    let baseline = y + 13.5;
    let name = escape(&bar.server);
    let _ = writeln!(out, "<text class=\"name\" x=\"{:.1}\" y=\"{baseline:.1}\">{name}</text>", x - 8.0);
    for (index, part) in bar.parts.iter().enumerate() {
        let width = part * scale;
        let pale = if index > 0 { " pale" } else { "" };
        let class = escape(&class);
        let _ = writeln!(
            out,
            "<rect class=\"{class}{pale}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\"/>"
        );
        x += width;
    }
    let _ = writeln!(out, "<text x=\"{:.1}\" y=\"{baseline:.1}\">{}</text>", x + 6.0, escape(&bar.label));
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn thousands(value: f64) -> String {
    if value >= 10_000.0 { format!("{:.0}k", value / 1e3) } else { format!("{value:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Figures, Moved, Noise};
    use std::collections::BTreeMap;

    fn row(server: &str, user: f64, system: f64, note: Option<&str>) -> Row {
        let figures = Figures { user_us: Some(user), system_us: Some(system), ..Figures::default() };
        Row {
            workload: "w<1>".to_string(),
            load: "fixed rate, 20 clients".to_string(),
            server: server.to_string(),
            rounds: 1,
            figures,
            noise: Noise::default(),
            samples: Vec::new(),
            rcodes: BTreeMap::new(),
            note: note.map(String::from),
        }
    }

    #[test]
    fn a_secondary_is_drawn_until_it_serves_its_zones() {
        let moved = |load: Phase| {
            let figures = Figures {
                moved: Some(Moved {
                    seconds: Some(2.0),
                    user: Some(1.0),
                    system: Some(0.5),
                    resident: Some(1e7),
                    ..Moved::default()
                }),
                peak_bytes: Some(3e7),
                ..Figures::default()
            };
            let (workload, load) = ("secondaries".to_string(), load.name().to_string());
            Row { workload, load, figures, ..row("nomen", 0.0, 0.0, None) }
        };
        let rows = vec![moved(Phase::Start), moved(Phase::Refresh)];
        let drawn = charts(&Results { rows, ..Results::default() });
        let files: Vec<&str> = drawn.iter().map(|(file, _)| file.as_str()).collect();
        assert_eq!(files, ["secondaries.svg", "secondaries-cpu.svg", "secondaries-memory.svg"]);
        assert!(drawn[2].1.contains("10 / 30 MB"), "{}", drawn[2].1);
        assert!(drawn.iter().all(|(_, svg)| !svg.contains(Phase::Refresh.name())));
    }

    #[test]
    fn bars_are_to_scale_and_wrong_answers_are_not_drawn() {
        let rows = vec![
            row("nomen", 1.0, 3.0, None),
            row("NSD", 2.0, 6.0, None),
            row("BIND", 9.0, 9.0, Some("wrong")),
        ];
        let results = Results { rows, ..Results::default() };
        let drawn = charts(&results);
        assert_eq!(drawn.len(), 1);
        let (file, svg) = &drawn[0];
        assert_eq!(file, "cpu.svg");
        let width = |class: &str| -> f64 {
            let line = svg.lines().find(|line| line.contains(&format!("class=\"{class}\""))).unwrap();
            line.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
        };
        assert!((width("nomen pale") / width("nsd pale") - 0.5).abs() < 0.01);
        assert!((width("nsd") / width("nsd pale") - 1.0 / 3.0).abs() < 0.01);
        assert!(!svg.contains("BIND"));
        assert!(svg.contains("w&lt;1&gt;") && !svg.contains("w<1>"));
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    }
}
