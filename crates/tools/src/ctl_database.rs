//! The answer of `nomen ctl database`, as text.

use serde_json::Value;

use crate::ctl_values::{flat, in_days, value_text};

/// Returns the state of the database and its nodes.
pub(super) fn database_text(state: &Value) -> String {
    let text = |key: &str| flat(&state[key]);
    let mut out = String::new();
    let mut put = |key: &str, value: String| out += &format!("{key:<10}  {value}\n");
    put("database", connection(state));
    if state["schema"] == "powerdns" {
        put("schema", "powerdns: its zones are read only here".into());
    }
    put("node", text("node"));
    put("changes", changes(state));
    put("zones", zones(state));
    put("sections", sections(&state["sections"]));
    for fault in state["sections"]["faults"].as_array().into_iter().flatten() {
        let [kind, name, used, why] = ["kind", "name", "use", "why"].map(|key| flat(&fault[key]));
        put("section", format!("{kind} \"{name}\": {used}: {why}"));
    }
    if let Some(commits) = state["commits"].as_object() {
        let shown = commits.iter().map(|(word, count)| format!("{} {word}", flat(count)));
        let waiting = [format!("{} waiting", text("waiting"))];
        put("commits", shown.chain(waiting).collect::<Vec<_>>().join(", "));
    }
    for zone in state["unserved_zones"].as_array().into_iter().flatten() {
        put("not served", format!("{}: {}", flat(&zone["zone"]), flat(&zone["why"])));
    }
    match (state["nodes_fault"].as_str(), state["nodes"].as_array()) {
        (Some(fault), _) => put("nodes", format!("unknown: {fault}")),
        (None, Some(nodes)) if !nodes.is_empty() => {
            out.push('\n');
            out += &node_table(nodes);
        }
        _ => put("nodes", "none has reported".into()),
    }
    out
}

fn connection(state: &Value) -> String {
    let since = match state["since"].is_null() {
        true => String::new(),
        false => format!(" since {}", value_text("since", &state["since"])),
    };
    let host = state["host"].as_str().map_or_else(String::new, |host| format!(" to {host}"));
    match (state["connected"] == true, state["fault"].as_str()) {
        (true, _) => {
            let server =
                state["server"].as_str().map_or_else(String::new, |server| format!(", PostgreSQL {server}"));
            format!("connected{host}{since}{server}")
        }
        (false, Some(fault)) => format!("not connected{since}: {fault}"),
        (false, None) => format!("not connected{since}"),
    }
}

fn changes(state: &Value) -> String {
    let number = |key: &str| state[key].as_i64().unwrap_or(0);
    let (last, followed) = (number("last_change"), number("followed"));
    let lag = state["lag_seconds"].as_f64().unwrap_or(0.0);
    let current = match &state["current_at"] {
        Value::Null => "; this node has never had all changes".to_owned(),
        at if lag > 0.0 => format!("; all changes until {}", value_text("at", at)),
        _ => "; this node has all of them".to_owned(),
    };
    match followed >= last {
        true => format!("last {last}{current}"),
        false => format!("last {last}, here {followed}{current}"),
    }
}

fn zones(state: &Value) -> String {
    let mut out = flat(&state["zones"]);
    for (key, words) in [
        ("unread", "being read"),
        ("unfit", "with records that are no zone"),
        ("unserved", "not served"),
        ("shadowed", "behind a zone of the same name of this node"),
        ("held", "no longer in the database, held back until `nomen ctl reload --force`"),
    ] {
        if state[key].as_u64().is_some_and(|count| count > 0) {
            out += &format!(", {} {words}", flat(&state[key]));
        }
    }
    out
}

fn sections(state: &Value) -> String {
    let mut out = flat(&state["count"]);
    for (key, words) in [
        ("unusable", "with faults"),
        ("own_file", "behind one of the same name in the configuration file"),
        ("no_resolver", "without effect here, since there is no [resolver]"),
    ] {
        if state[key].as_u64().is_some_and(|count| count > 0) {
            out += &format!(", {} {words}", flat(&state[key]));
        }
    }
    if let Some(fault) = state["not_applied"].as_str() {
        out += &format!("; the newest ones are not applied: {fault}");
    }
    if state["held"] == true {
        out += "; the database has none any more, they stay in force until one is set there";
    }
    out
}

fn node_table(nodes: &[Value]) -> String {
    let cell = |node: &Value, key: &str| flat(&node[key]);
    let width = nodes.iter().map(|node| cell(node, "name").chars().count()).max().unwrap_or(0).max(4);
    let mut out = format!(
        "{:width$}  {:>10}  {:>8}  {:>8}  {:>10}  {:5}  {:10}  ADDRESS\n",
        "NODE", "CHANGE", "BEHIND", "ZONES", "SEEN AGO", "SIGNS", "VERSION"
    );
    for node in nodes {
        let [name, change, behind, zones] = ["name", "change", "behind", "zones"].map(|key| cell(node, key));
        let seen = in_days(node["age_seconds"].as_f64().unwrap_or(0.0) as u64);
        let [version, address] = ["version", "address"].map(|key| cell(node, key));
        let signs = if node["signs"] == true { "yes" } else { "" };
        out += &format!(
            "{name:width$}  {change:>10}  {behind:>8}  {zones:>8}  {seen:>10}  {signs:5}  {version:10}  {address}\n"
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state() -> Value {
        json!({
            "node": "ns1", "schema": "nomen", "connected": true, "host": "db1:5432", "since": 1_795_369_660_u64,
            "fault": null, "server": "15.4", "last_change": 7, "followed": 7, "lag_seconds": 0.0,
            "current_at": 1_795_369_660_u64, "zones": 3, "unread": 0, "unfit": 1, "unserved": 0, "shadowed": 0,
            "waiting": 0, "sections": {
                "count": 3, "unusable": 1, "own_file": 1, "no_resolver": 0, "not_applied": null, "held": false,
                "faults": [{"kind": "policy.list", "name": "ads", "use": "unusable", "why": "unknown key"}],
            }, "commits": {"committed": 4}, "unserved_zones": [{"zone": "a.", "why": "no valid version"}],
            "nodes": [{"name": "ns1", "seen": 1_795_369_660_u64, "age_seconds": 1.5, "change": 7, "behind": 0,
                       "zones": 3, "version": "0.1.0", "address": null, "signs": true}],
        })
    }

    #[test]
    fn a_connected_node_that_has_all_changes() {
        let text = database_text(&state());
        for expected in [
            "database    connected to db1:5432 since 2026-11-22 17:47:40 UTC (",
            "), PostgreSQL 15.4\n",
            "changes     last 7; this node has all of them\n",
            "zones       3, 1 with records that are no zone\n",
            "sections    3, 1 with faults, 1 behind one of the same name in the configuration file\n",
            "section     policy.list \"ads\": unusable: unknown key\n",
            "commits     4 committed, 0 waiting\n",
            "not served  a.: no valid version\n",
            "NODE      CHANGE    BEHIND     ZONES    SEEN AGO  SIGNS  VERSION     ADDRESS\n",
            "ns1            7         0         3        0m1s  yes    0.1.0       -\n",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
    }

    #[test]
    fn a_node_without_the_database_names_the_reason() {
        let mut state = state();
        for (key, value) in [
            ("connected", json!(false)),
            ("fault", json!("connection refused")),
            ("lag_seconds", json!(30.0)),
            ("nodes", json!([])),
            ("nodes_fault", json!("the database is not available")),
        ] {
            state[key] = value;
        }
        let text = database_text(&state);
        for expected in [
            "): connection refused\n",
            "; all changes until 2026-11-22 17:47:40 UTC (",
            "nodes       unknown: the database is not available\n",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
    }
}
