//! The configuration as text. Keys common to several zones go into a template.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::model::{Keys, Nomen, Setting, Zone};

/// Fewest zones with equal keys for which a template is written.
const SHARED_BY: usize = 2;
/// Keys that a template cannot have.
const ZONES_OWN: &[&str] = &[
    "view",
    "catalog-template",
    "catalog-groups",
    "catalog-answers",
    "catalog-max-removed",
    "catalog-produce",
];

/// The text, with `opening` as a comment at the top.
pub(crate) fn text(nomen: &Nomen, opening: &str) -> String {
    let mut out = opening.lines().fold(String::new(), |out, line| out + "# " + line + "\n");
    single(&mut out, "[server]", &nomen.server);
    blocks(&mut out, "[[server.access]]", &nomen.server_access);
    blocks(&mut out, "[[listen]]", &nomen.listens);
    blocks(&mut out, "[[certificate]]", &nomen.certificates);
    single(&mut out, "[rate-limits]", &nomen.rates);
    single(&mut out, "[transfers]", &nomen.transfers);
    blocks(&mut out, "[[tsig-key]]", &nomen.tsig_keys);
    if let Some(resolver) = &nomen.resolver {
        out.push_str("\n[resolver]\n");
        lines(&mut out, resolver);
    }
    blocks(&mut out, "[[resolver.forward]]", &nomen.forwards);
    blocks(&mut out, "[[resolver.stub]]", &nomen.stubs);
    blocks(&mut out, "[[resolver.access]]", &nomen.access);
    single(&mut out, "[policy]", &nomen.policy);
    blocks(&mut out, "[[policy.zone]]", &nomen.policy_zones);
    blocks(&mut out, "[[policy.list]]", &nomen.policy_lists);
    blocks(&mut out, "[[policy.group]]", &nomen.policy_groups);
    if let Some(metrics) = &nomen.metrics {
        out.push_str("\n[metrics]\n");
        lines(&mut out, metrics);
    }
    single(&mut out, "[log]", &nomen.log);
    if let Some(dnstap) = &nomen.dnstap {
        single(&mut out, "[dnstap]", dnstap);
    }
    blocks(&mut out, "[[view]]", &nomen.views);
    zones(&mut out, nomen);
    out
}

fn single(out: &mut String, header: &str, keys: &Keys) {
    if !keys.0.is_empty() {
        let _ = writeln!(out, "\n{header}");
        lines(out, keys);
    }
}

fn blocks(out: &mut String, header: &str, all: &[Keys]) {
    for keys in all {
        let _ = writeln!(out, "\n{header}");
        lines(out, keys);
    }
}

fn lines(out: &mut String, keys: &Keys) {
    for (key, setting) in &keys.0 {
        let _ = writeln!(out, "{key} = {}", value(setting));
    }
}

fn value(setting: &Setting) -> String {
    match setting {
        Setting::Text(text) => quote(text),
        Setting::Number(number) => number.to_string(),
        Setting::Numbers(numbers) => format!("{numbers:?}"),
        Setting::Switch(on) => on.to_string(),
        Setting::Table(pairs) => {
            let all: Vec<String> =
                pairs.iter().map(|(name, text)| format!("{} = {}", bare(name), quote(text))).collect();
            format!("{{ {} }}", all.join(", "))
        }
        Setting::Texts(texts) => {
            let all: Vec<String> = texts.iter().map(|text| quote(text)).collect();
            let short = all.iter().map(String::len).sum::<usize>() < 90;
            if short {
                format!("[{}]", all.join(", "))
            } else {
                format!("[\n    {},\n]", all.join(",\n    "))
            }
        }
    }
}

/// A TOML basic string.
fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The keys of a zone that a template may have.
fn shared(zone: &Zone) -> Keys {
    Keys(zone.keys.0.iter().filter(|(key, _)| !ZONES_OWN.contains(key)).cloned().collect())
}

fn zones(out: &mut String, nomen: &Nomen) {
    let mut groups: Vec<(Keys, Option<&str>, usize)> = Vec::new();
    let mut by_text: HashMap<String, usize> = HashMap::new();
    let mut members = Vec::new();
    for zone in &nomen.zones {
        let keys = shared(zone);
        let hint = zone.template.as_deref();
        let mut text = String::new();
        lines(&mut text, &keys);
        if zone.is_produced() {
            // It has no template.
            text.push_str(&zone.name);
        }
        let at = *by_text.entry(text).or_insert_with(|| {
            groups.push((keys, hint, 0));
            groups.len() - 1
        });
        groups[at].2 += 1;
        groups[at].1 = groups[at].1.or(hint);
        members.push(at);
    }
    let names = names(&groups, &nomen.templates);
    for (name, keys) in &nomen.dnssec_policies {
        let _ = writeln!(out, "\n[dnssec-policy.{}]", bare(name));
        lines(out, keys);
    }
    for (name, keys) in &nomen.templates {
        let _ = writeln!(out, "\n[template.{}]", bare(name));
        lines(out, keys);
    }
    let mut patterns: Vec<Option<String>> = vec![None; groups.len()];
    for (zone, group) in nomen.zones.iter().zip(&members) {
        if let (Some(_), None, Some(file)) = (&names[*group], &patterns[*group], &zone.file) {
            patterns[*group] = Some(pattern(&zone.name, file));
        }
    }
    for (((keys, ..), name), pattern) in groups.iter().zip(&names).zip(&patterns) {
        if let Some(name) = name {
            let _ = writeln!(out, "\n[template.{}]", bare(name));
            if let Some(pattern) = pattern {
                let _ = writeln!(out, "file = {}", quote(pattern));
            }
            lines(out, keys);
        }
    }
    for (zone, group) in nomen.zones.iter().zip(members) {
        let _ = writeln!(out, "\n[[zone]]\nname = {}", quote(&zone.name));
        let of_template = patterns[group].as_ref().and_then(|pattern| filled(pattern, &zone.name));
        if let Some(file) = zone.file.as_ref().filter(|file| of_template.as_ref() != Some(*file)) {
            let _ = writeln!(out, "file = {}", quote(file));
        }
        match &names[group] {
            Some(name) => {
                let _ = writeln!(out, "template = {}", quote(name));
                lines(
                    out,
                    &Keys(zone.keys.0.iter().filter(|key| ZONES_OWN.contains(&key.0)).cloned().collect()),
                );
            }
            None => lines(out, &zone.keys),
        }
    }
}

/// The placeholder for a zone's name in a template's path.
const PLACE: &str = "{zone}";

/// A template's path, derived from the file of one of its zones; zones that do not match have their own path.
fn pattern(zone: &str, file: &str) -> String {
    // Braces delimit placeholders, and cannot be escaped.
    let plain = !file.contains(['{', '}']);
    let (folder, name) = file.rsplit_once('/').unwrap_or((".", file));
    match name.split_once(zone).filter(|_| plain && zone != ".") {
        Some((before, after)) => format!("{folder}/{before}{PLACE}{after}"),
        None if plain => format!("{folder}/{PLACE}.zone"),
        None => format!("/{PLACE}.zone"),
    }
}

/// The path of a zone by a template, if its name needs no escaping.
fn filled(pattern: &str, zone: &str) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (zone != "." && zone.bytes().all(plain)).then(|| pattern.replacen(PLACE, zone, 1))
}

/// A name for each group with a template: the source's own name if it is free.
fn names(groups: &[(Keys, Option<&str>, usize)], taken: &[(String, Keys)]) -> Vec<Option<String>> {
    let mut used: HashMap<String, usize> = taken.iter().map(|(name, _)| (name.clone(), 1)).collect();
    let mut name = |hint: &str| {
        loop {
            let seen = used.entry(hint.to_owned()).or_default();
            *seen += 1;
            let name = if *seen == 1 { hint.to_owned() } else { format!("{hint}-{seen}") };
            if name == hint || !used.contains_key(&name) {
                used.entry(name.clone()).or_insert(1);
                return name;
            }
        }
    };
    let groups = groups.iter();
    groups
        .map(|(keys, hint, zones)| {
            let wanted = !keys.0.is_empty() && *zones >= SHARED_BY;
            wanted.then(|| {
                let usual = if keys.get("primaries").is_some() { "secondary" } else { "primary" };
                name(hint.filter(|hint| !hint.is_empty()).unwrap_or(usual))
            })
        })
        .collect()
}

/// A TOML key: bare if possible.
fn bare(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !name.is_empty() && name.chars().all(plain) { name.to_owned() } else { quote(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_with_the_same_keys_share_a_template() {
        let mut keys = Keys::default();
        keys.add("allow-transfer", "key:k");
        let zone = |name: &str, template: Option<&str>, keys: &Keys| Zone {
            name: name.into(),
            file: Some(format!("/z/{name}")),
            template: template.map(str::to_owned),
            keys: keys.clone(),
            span: None,
        };
        let zones = vec![
            zone("a", None, &keys),
            zone("b", None, &keys),
            zone("c", None, &Keys::default()),
            zone("d", None, &Keys::default()),
        ];
        let text = text(&Nomen { zones, ..Nomen::default() }, "one\ntwo");
        let template = "[template.primary]\nfile = \"/z/{zone}\"\nallow-transfer = [\"key:k\"]\n";
        assert!(text.starts_with(&format!("# one\n# two\n\n{template}")), "{text}");
        assert!(text.contains("[[zone]]\nname = \"a\"\ntemplate = \"primary\"\n"), "{text}");
        assert_eq!(text.matches("template = \"primary\"").count(), 2, "{text}");
        assert!(text.ends_with("[[zone]]\nname = \"d\"\nfile = \"/z/d\"\n"), "{text}");
    }

    #[test]
    fn strings_are_escaped() {
        assert_eq!(quote("a\"\\\n\u{7f}"), "\"a\\\"\\\\\\u000A\\u007F\"");
    }
}
