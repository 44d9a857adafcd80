//! The dashboard and the alerts: Grafana must accept the dashboard, Prometheus the expressions of both, and
//! all names in them must exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

const DASHBOARD: &str = "packaging/grafana-dashboard.json";
const ALERTS: &str = "packaging/prometheus-alerts.yml";
/// Number of columns of Grafana's grid.
const COLUMNS: u64 = 24;
/// Panels of every Grafana, and the units in use.
const PANELS: [&str; 5] = ["row", "stat", "timeseries", "table", "text"];
const UNITS: [&str; 8] = ["short", "s", "ops", "qps", "Bps", "bytes", "percentunit", "dateTimeFromNow"];
/// Built-in variables of Grafana.
const BUILT_IN: [&str; 4] = ["__all", "__rate_interval", "__interval", "__range"];

fn in_tree(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn dashboard() -> Value {
    serde_json::from_str(&fs::read_to_string(in_tree(DASHBOARD)).expect("a file")).expect("JSON")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns the words after each `$` in a text, with or without braces.
fn variables(text: &str) -> Vec<String> {
    let word = |rest: &str| {
        let rest = rest.trim_start_matches('{');
        rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
    };
    text.split('$').skip(1).map(word).collect()
}

/// Returns every string in a value.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(all) => all.iter().flat_map(texts).collect(),
        Value::Object(map) => map.values().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

/// Returns what Grafana would reject, or show otherwise than intended.
fn faults(dashboard: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let source = json!({"type": "prometheus", "uid": "${datasource}"});
    let uid = dashboard["uid"].as_str().unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if uid.is_empty() || uid.len() > 40 || !uid.chars().all(plain) {
        faults.push("uid".into());
    }
    if dashboard["title"].as_str().is_none_or(str::is_empty) || dashboard["schemaVersion"].as_u64() < Some(36)
    {
        faults.push("title or schemaVersion".into());
    }
    let defined = list(&dashboard["templating"]["list"]);
    let is_source = |one: &Value| {
        one["name"] == "datasource" && one["type"] == "datasource" && one["query"] == "prometheus"
    };
    if !defined.first().is_some_and(is_source) {
        faults.push("the first variable is not the data source".into());
    }
    let mut names: BTreeSet<&str> = defined.iter().filter_map(|one| one["name"].as_str()).collect();
    names.extend(BUILT_IN);
    for text in texts(dashboard) {
        let unknown = variables(text).into_iter().filter(|name| !names.contains(name.as_str()));
        faults.extend(unknown.map(|name| format!("no variable {name}: {text}")));
    }
    let (mut taken, mut ids) = (BTreeMap::new(), BTreeSet::new());
    for panel in list(&dashboard["panels"]) {
        let title = panel["title"].as_str().unwrap_or_default();
        let kind = panel["type"].as_str().unwrap_or_default();
        let mut hold = |so: bool, what: &str| {
            if !so {
                faults.push(format!("{title}: {what}"));
            }
        };
        hold(!title.is_empty() && PANELS.contains(&kind), "title or type");
        hold(panel["id"].as_u64().is_some_and(|id| id > 0 && ids.insert(id)), "id");
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().unwrap_or(0));
        hold(w > 0 && h > 0 && x + w <= COLUMNS, "gridPos");
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            if let Some(other) = taken.insert(cell, title) {
                hold(other == title, &format!("lies over {other}"));
            }
        }
        if kind == "row" {
            hold(w == COLUMNS && h == 1 && list(&panel["panels"]).is_empty(), "a row is a line of its own");
            continue;
        }
        let unit = &panel["fieldConfig"]["defaults"]["unit"];
        hold(unit.as_str().is_some_and(|unit| UNITS.contains(&unit)), "unit");
        hold(panel["datasource"] == source, "datasource");
        let targets = list(&panel["targets"]);
        let refs: BTreeSet<&str> = targets.iter().filter_map(|target| target["refId"].as_str()).collect();
        hold(!targets.is_empty() && refs.len() == targets.len(), "targets");
        for target in targets {
            hold(target["datasource"] == source, "datasource of a target");
            hold(
                target["expr"].as_str().is_some_and(|expr| expr.contains("instance=~\"$instance\"")),
                "not of the servers that are chosen",
            );
            let legend = target["legendFormat"].as_str().unwrap_or("{{");
            hold(legend.matches("{{").count() == legend.matches("}}").count(), "legendFormat");
        }
    }
    faults
}

#[test]
fn the_dashboard_is_one_that_grafana_takes() {
    assert_eq!(faults(&dashboard()), Vec::<String>::new());
}

#[test]
fn a_dashboard_that_grafana_does_not_take_is_found() {
    let broken = |pointer: &str, value: Value| {
        let mut dashboard = dashboard();
        *dashboard.pointer_mut(pointer).expect(pointer) = value;
        faults(&dashboard)
    };
    for (pointer, value) in [
        ("/uid", json!("no men")),
        ("/schemaVersion", json!(16)),
        ("/templating/list/0/type", json!("query")),
        ("/panels/1/type", json!("graph")),
        ("/panels/1/id", json!(1)),
        ("/panels/1/gridPos/x", json!(3)),
        ("/panels/1/gridPos/w", json!(25)),
        ("/panels/0/gridPos/w", json!(12)),
        ("/panels/1/fieldConfig/defaults/unit", json!("queries")),
        ("/panels/1/datasource/uid", json!("abc")),
        ("/panels/1/targets/0/datasource/uid", json!("abc")),
        ("/panels/1/targets/0/expr", json!("sum(nomen_queries_total)")),
        ("/panels/1/targets/0/expr", json!("nomen_zones{instance=~\"$instance\",a=\"$b\"}")),
        ("/panels/1/targets", json!([])),
        ("/panels/8/targets/0/legendFormat", json!("{{type}")),
    ] {
        assert!(!broken(pointer, value.clone()).is_empty(), "{pointer} {value}");
    }
}

/// Returns the expressions of the panels, as Grafana would send them.
fn expressions() -> Vec<String> {
    let dashboard = dashboard();
    let targets = list(&dashboard["panels"]).iter().flat_map(|panel| list(&panel["targets"]));
    let sent = |target: &Value| {
        let expr = target["expr"].as_str().expect("an expression");
        expr.replace("$__rate_interval", "5m").replace("$instance", ".*")
    };
    targets.map(sent).collect()
}

/// Returns the labels of each series on the metrics page, except those that every series has.
fn labels() -> BTreeMap<String, BTreeSet<String>> {
    let page = fs::read_to_string(in_tree("docs/METRICS.md")).expect("a page");
    let mut all = BTreeMap::new();
    for row in page.lines().filter_map(|line| line.strip_prefix("| `")) {
        let cells: Vec<&str> = row.split(" | ").collect();
        let [series, kind, labels, ..] = cells[..] else { continue };
        let series = series.trim_end_matches('`');
        let mut labels: BTreeSet<String> =
            labels.split(", ").map(|label| label.trim_matches('`').to_owned()).collect();
        labels.extend(["instance", "job", "le"].map(str::to_owned));
        for end in if kind == "histogram" { &["_bucket", "_sum", "_count"][..] } else { &[""] } {
            all.insert(format!("{series}{end}"), labels.clone());
        }
    }
    all
}

/// Returns the unknown series and labels in an expression.
fn unknown(expr: &str, known: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut missing = Vec::new();
    let mut here = BTreeSet::new();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for (at, _) in expr.match_indices("nomen_").chain(expr.match_indices("process_")) {
        let name: String = expr[at..].chars().take_while(|c| is_name(*c)).collect();
        let Some(labels) = known.get(&name) else {
            missing.push(name);
            continue;
        };
        here.extend(labels.iter().map(String::as_str));
        let matchers = expr[at + name.len()..].strip_prefix('{').and_then(|rest| rest.split('}').next());
        let asked = matchers.into_iter().flat_map(|inside| inside.split("\",")).map(|one| one.trim());
        let asked = asked.map(|one| one.chars().take_while(|c| is_name(*c)).collect::<String>());
        missing.extend(asked.filter(|label| !label.is_empty() && !labels.contains(label)));
    }
    for inside in expr.split("by (").skip(1).filter_map(|rest| rest.split(')').next()) {
        let asked = inside.split(',').map(str::trim).filter(|label| !here.contains(label));
        missing.extend(asked.map(str::to_owned));
    }
    missing
}

#[test]
fn series_and_labels_of_the_dashboard_are_there() {
    let known = labels();
    assert!(known.len() > 100, "{known:?}");
    for expr in expressions() {
        assert_eq!(unknown(&expr, &known), Vec::<String>::new(), "{expr}");
    }
    for (expr, what) in [
        ("sum(nomen_nothing_total)", "nomen_nothing_total"),
        ("nomen_zones{instance=~\".*\",status=\"ok\"}", "status"),
        ("sum by (status) (nomen_zones)", "status"),
    ] {
        assert_eq!(unknown(expr, &known), [what], "{expr}");
    }
}

/// Returns the result of Prometheus' own checker for rules; `None` if it is not installed.
fn checked(rules: &str) -> Option<(bool, String)> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rules.yml");
    fs::write(&path, rules).expect("written");
    let output = Command::new("promtool").args(["check", "rules"]).arg(&path).output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

#[test]
fn prometheus_takes_every_expression() {
    let rule =
        |(number, expr): (usize, &String)| format!("  - record: panel:{number}\n    expr: {}\n", json!(expr));
    let rules = |all: &[String]| {
        "groups:\n- name: panels\n  rules:\n".to_owned()
            + &all.iter().enumerate().map(rule).collect::<String>()
    };
    let Some((good, said)) = checked(&rules(&expressions())) else {
        return testkit::left_out("promtool is missing (on Debian: apt-get install prometheus)");
    };
    assert!(good, "{said}");
    let (good, said) = checked(&fs::read_to_string(in_tree(ALERTS)).expect("alerts")).expect("it is there");
    assert!(good, "{said}");
    assert!(!checked(&rules(&["sum(rate(nomen_queries_total[5m])".to_owned()])).expect("it is there").0);
}
