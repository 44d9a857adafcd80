//! Seeded random zones: few label values, so that names collide; many wildcards, DNAMEs, cuts, ENTs and mixed
//! case, and CNAMEs to any name.

use crate::rng::Rng;
use std::collections::BTreeMap;
use std::fmt::Write as _;

const LABELS: &[&str] = &["a", "b", "B", "c", "Cc", "*", "www", "ns", "x-1", "_tcp", "\\000", "\\255z", "zZ"];

/// Returns `count` zones as name and text, some below others.
pub(crate) fn zones(rng: &mut Rng, count: usize, stem: &str) -> Vec<(String, String)> {
    let mut names: Vec<String> = Vec::new();
    while names.len() < count {
        // A third of them are below an earlier one, at a name that the parent may or may not delegate.
        let name = if names.len() > 2 && rng.chance(33) {
            let parent = rng.pick(&names).clone();
            let above = if rng.chance(30) { "b." } else { "" };
            format!("{}.{above}{parent}", rng.pick(&["a", "c", "www"]))
        } else {
            format!("{stem}{}.test.", names.len())
        };
        if !names.contains(&name) && name.len() < 60 {
            names.push(name);
        }
    }
    let made: Vec<_> = names.iter().map(|name| (name.clone(), zone(rng, name, &names))).collect();
    // NSD treats a zone below another zone's DNAME as data below a DNAME and refuses it.
    let redirected: Vec<String> = made
        .iter()
        .flat_map(|(apex, text)| {
            let owners = text.lines().filter_map(|l| l.split_once(" DNAME ").map(|(owner, _)| owner));
            owners.map(move |owner| format!(".{owner}.{apex}").to_ascii_lowercase())
        })
        .collect();
    made.into_iter().filter(|(apex, _)| !redirected.iter().any(|r| format!(".{apex}").ends_with(r))).collect()
}

#[derive(Default, Clone)]
struct Node {
    cname: bool,
    lines: Vec<String>,
}

fn zone(rng: &mut Rng, apex: &str, all: &[String]) -> String {
    let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
    let mut owners: Vec<String> = vec![String::new()];
    let size = 15 + rng.below(60);
    for _ in 0..size {
        let mut owner = rng.pick(&owners).clone();
        for _ in 0..1 + rng.below(3) {
            let label = rng.pick(LABELS);
            owner = if owner.is_empty() { (*label).to_owned() } else { format!("{label}.{owner}") };
        }
        if owner.len() < 80 {
            owners.push(owner);
        }
    }
    for owner in owners.iter().skip(1) {
        let node = nodes.entry(owner.to_ascii_lowercase()).or_default();
        if node.cname {
            continue;
        }
        add_records(rng, node, owner, &owners, apex, all);
    }
    let mut out = format!(
        "$ORIGIN {apex}\n$TTL {}\n@ SOA ns HostMaster {} 7200 3600 1209600 {}\n@ NS apex-ns\n\
         apex-ns A 192.0.2.1\n",
        300 + rng.below(5) * 100,
        rng.below(1000),
        60 + rng.below(9) * 100
    );
    if rng.chance(50) {
        let _ = writeln!(out, "@ NS ns.not-{apex}");
    }
    if rng.chance(30) {
        out += "@ MX 10 ns\n";
    }
    // Data below a DNAME is left to hand-written zones: NSD refuses such zones.
    let redirected = nodes
        .values()
        .flat_map(|n| &n.lines)
        .filter_map(|l| l.split_once(" DNAME "))
        .map(|(o, _)| o.to_ascii_lowercase());
    let redirected: Vec<_> = redirected.map(|owner| format!(".{owner}")).collect();
    for line in nodes.values().flat_map(|n| &n.lines) {
        let owner = line.split(' ').next().unwrap_or_default().to_ascii_lowercase();
        if redirected.iter().any(|below| owner.ends_with(below)) {
            continue;
        }
        out += line;
        out.push('\n');
    }
    out
}

fn target(rng: &mut Rng, owners: &[String], all: &[String]) -> String {
    let owner = rng.pick(owners).clone();
    match rng.below(10) {
        0 => "www.elsewhere.example.".to_owned(),
        1 => rng.pick(all).clone(),
        2 => format!("{}.{}", rng.pick(LABELS).replace('*', "star"), rng.pick(all)),
        3 if !owner.is_empty() => format!("under.{owner}"),
        _ if owner.is_empty() => "@".to_owned(),
        _ if rng.chance(20) => owner.to_ascii_uppercase(),
        _ => owner,
    }
}

fn add_records(rng: &mut Rng, node: &mut Node, owner: &str, owners: &[String], apex: &str, all: &[String]) {
    let wildcard = owner.split('.').next() == Some("*");
    let fresh = node.lines.is_empty();
    let number = rng.below(254) + 1;
    match rng.below(14) {
        0 | 1 if fresh => {
            node.cname = true;
            node.lines.push(format!("{owner} CNAME {}", target(rng, owners, all)));
        }
        // Wildcard DNAME and NS are left to hand-written zones: they are undefined, so random ones show
        // nothing.
        2 if fresh && !wildcard => {
            node.lines.push(format!("{owner} DNAME {}", target(rng, owners, all)));
            node.cname = true;
        }
        3 | 4 if !wildcard => {
            for i in 0..1 + rng.below(2) {
                if rng.chance(60) {
                    node.lines.push(format!("{owner} NS ns{i}.{owner}"));
                    node.lines.push(format!("ns{i}.{owner} A 192.0.2.{number}"));
                } else {
                    node.lines.push(format!("{owner} NS {}", target(rng, owners, all)));
                }
            }
            if rng.chance(30) {
                node.lines.push(format!("{owner} DS 1 13 2 {}", "0123456789ABCDEF".repeat(4)));
            }
            let _ = apex;
        }
        5 => node.lines.push(format!("{owner} MX 10 {}", target(rng, owners, all))),
        6 => node.lines.push(format!("{owner} SRV 0 0 1 {}", target(rng, owners, all))),
        7 => node.lines.push(format!("{owner} AAAA 2001:db8::{number}")),
        8 => node.lines.push(format!("{owner} TXT \"{number}\"")),
        9 => node.lines.push(format!("{owner} TYPE65280 \\# 1 {:02x}", number)),
        10 => node.lines.push(format!("{owner} SVCB 1 {}", target(rng, owners, all))),
        _ => node.lines.push(format!("{owner} A 192.0.2.{number}")),
    }
}
