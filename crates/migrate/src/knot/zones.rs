//! Zones and templates of knot.conf.

use std::path::PathBuf;

use super::queries::{self, has_action, is_conditional, is_deny};
use super::{Frame, client_of, members, named_servers, refused};
use super::{limits, signing};
use crate::files::join;
use crate::ledger::Coverage;
use crate::model::{Keys, Setting, Zone};
use crate::network::{Client, Member, Network, passes};
use crate::tree::Statement;
use crate::units;
use crate::work::{Work, domain, path_text};

/// Keys that are translated.
pub(super) const KEYS: &[&str] = &[
    "id",
    "domain",
    "template",
    "storage",
    "file",
    "master",
    "notify",
    "acl",
    "serial-policy",
    "refresh-min-interval",
    "refresh-max-interval",
    "retry-min-interval",
    "retry-max-interval",
    "expire-min-interval",
    "expire-max-interval",
    "journal-max-usage",
    "catalog-role",
    "catalog-template",
    "catalog-zone",
    "catalog-group",
    "zonefile-load",
    "zonemd-verify",
    "zonefile-sync",
    "ddns-master",
    "dnssec-signing",
    "dnssec-policy",
    "zonemd-generate",
    "comment",
];

/// The report for other keys.
pub(super) fn explain(statement: &Statement) -> (Coverage, &'static str) {
    let off = units::switch(statement.value()) == Some(false);
    match statement.key() {
        "semantic-checks" => (Coverage::Unneeded, "nomen checks every zone; see `nomen check`"),
        "dnssec-signing" | "dnssec-validation" if off => (Coverage::Unneeded, "nomen does so anyway"),
        "ds-push" => {
            (Coverage::Differs, "`ds-push` of a zone that is signed, with the servers that have a key")
        }
        "dnskey-sync" => (Coverage::Missing, "nomen does not exchange keys with other signers"),
        "dnssec-validation" => (Coverage::Missing, "nomen does not validate zones that it takes"),
        "journal-content" | "journal-max-depth" | "adjust-threads" | "include-from" | "zonefile-skip" => {
            (Coverage::Unneeded, "nomen keeps changes in `state-dir`, as many as `journal-size` says")
        }
        "zone-max-size" => {
            (Coverage::Missing, "`incoming-max-size` of [transfers] bounds transfers of all zones alike")
        }
        "serial-modulo" => (Coverage::Missing, "nomen gives serial numbers one after the other"),
        "provide-ixfr" if units::switch(statement.value()) == Some(true) => {
            (Coverage::Unneeded, "nomen does so anyway")
        }
        "provide-ixfr" => (Coverage::Missing, "nomen answers IXFR with changes wherever it has them"),
        "zonemd-generate" if off || statement.value() == "none" => {
            (Coverage::Unneeded, "nomen does so anyway")
        }
        "zonemd-generate" => (Coverage::Missing, "nomen makes digests of files only: `nomen zone digest`"),
        "module" | "global-module"
            if statement.values().all(|word| word.text.starts_with("mod-queryacl/")) =>
        {
            (Coverage::Translated, "`allow-query` of the zone")
        }
        "module" | "global-module" if statement.values().all(|word| word.text.starts_with("mod-dnstap/")) => {
            (Coverage::Translated, "[dnstap]")
        }
        "module" | "global-module" if statement.values().all(|word| limits::is_module(&word.text)) => {
            (Coverage::Translated, "[rate-limits], or `cookie-secrets` of [server]")
        }
        "module" | "global-module" => (Coverage::Missing, "nomen has no modules"),
        "via" => (Coverage::Unneeded, "no zone asks or tells this server"),
        "disable-any" => (Coverage::Unneeded, "nomen answers ANY with one RRset"),
        "notify-delay"
        | "master-pin-tolerance"
        | "ixfr-by-one"
        | "ixfr-from-axfr"
        | "ixfr-benevolent"
        | "notify-retry" => (Coverage::Unneeded, "nomen decides this by itself"),
        "reverse-generate" => (Coverage::Missing, "nomen makes no reverse zones"),
        "backend" | "dbname" => (Coverage::Missing, "nomen takes zones from master files and from primaries"),
        key if KEYS.contains(&key) => (Coverage::Unneeded, "it has no effect in this configuration"),
        _ => (Coverage::Missing, "nomen has nothing for it"),
    }
}

/// A zone's entries, with those of its template as fallback.
struct Entries<'t> {
    own: &'t [Statement],
    template: Option<&'t Statement>,
    /// The zone's name; `None` for a template.
    zone: Option<String>,
}

impl<'t> Entries<'t> {
    fn of(frame: &Frame<'t>, own: &'t [Statement], named: Option<&str>) -> Self {
        Self { own, template: frame.templates.get(named.unwrap_or("default")).copied(), zone: None }
    }

    fn get(&self, key: &str) -> Option<&'t Statement> {
        crate::tree::find(self.own, key).or_else(|| self.template?.find(key))
    }

    fn all(&self) -> impl Iterator<Item = &'t Statement> {
        let own = self.own;
        let of_template = self.template.map(Statement::block).unwrap_or_default();
        own.iter().chain(of_template.iter().filter(|entry| crate::tree::find(own, entry.key()).is_none()))
    }
}

/// Converts templates for catalog zones, whose members have no item of their own.
pub(super) fn templates(work: &mut Work, frame: &Frame<'_>, zones: &[&Statement]) {
    let mut wanted: Vec<String> = Vec::new();
    for zone in zones {
        let template = zone.find("template").map(Statement::value);
        let entries = Entries::of(frame, zone.block(), template);
        let interprets = entries.get("catalog-role").is_some_and(|role| role.value() == "interpret");
        for name in
            entries.get("catalog-template").filter(|_| interprets).into_iter().flat_map(Statement::values)
        {
            if !wanted.contains(&name.text) {
                wanted.push(name.text.clone());
            }
        }
    }
    for name in wanted {
        let Some(template) = frame.templates.get(&name) else { continue };
        let entries = Entries { own: template.block(), template: None, zone: None };
        let mut keys = Keys::default();
        zone_keys(work, frame, &entries, &mut keys);
        if keys.get("primaries").is_none() {
            let pattern = pattern(&file(frame, &entries));
            keys.0.insert(0, ("file", Setting::Text(pattern)));
            // Members are read from files, so keys for secondary zones do not apply.
            for key in [
                "allow-notify",
                "min-refresh",
                "max-refresh",
                "min-retry",
                "max-retry",
                "min-expire",
                "max-expire",
                "forward-updates",
            ] {
                keys.remove(key);
            }
        }
        work.nomen.templates.push((name, keys));
    }
}

/// Converts one zone.
pub(super) fn zone(work: &mut Work, frame: &Frame<'_>, item: &Statement) {
    let Some(name) = item.find("domain").and_then(|found| domain(found.value())) else {
        return work.ledger.missing(item, "it has no name in DNS");
    };
    if work.nomen.zones.iter().any(|zone| zone.name == name) {
        return work.ledger.missing(item, "there is another zone of this name");
    }
    let template = item.find("template");
    let entries = Entries::of(frame, item.block(), template.map(Statement::value));
    let entries = Entries { zone: Some(name.clone()), ..entries };
    if let Some(template) = template {
        match entries.template {
            Some(_) => work.ledger.translated(template, "the template's keys, with the zone's"),
            None => work.ledger.missing(template, "there is no template of this id"),
        }
    }
    if let Some(id) = entries.template.and_then(|template| template.find("id")) {
        work.ledger.translated(id, "[template], where several zones have the same keys");
    }
    let mut keys = Keys::default();
    zone_keys(work, frame, &entries, &mut keys);
    let secondary = keys.get("primaries").is_some();
    if entries.get("master").is_some() && !secondary {
        return work.ledger.missing(item, "none of its primaries can be asked by nomen");
    }
    catalog(work, frame, &entries, &mut keys);
    let path = file(frame, &entries);
    let path = PathBuf::from(file_name(&path_text(&path), &name));
    for key in ["file", "storage"] {
        if let Some(found) = entries.get(key) {
            match secondary {
                _ if keys.get("catalog-produce").is_some() => {
                    work.ledger.unneeded(found, "nomen keeps the zone in `state-dir`");
                }
                true => work.ledger.unneeded(
                    found,
                    "nomen takes the zone from its primaries at the start, and keeps it in `state-dir`",
                ),
                false => work.ledger.translated(found, "`file` of the zone"),
            }
        }
    }
    if let Some(found) = entries.get("domain") {
        work.ledger.translated(found, "`name` of the zone");
    }
    // Entries of the template without a counterpart are reported once, with the template.
    for entry in entries.all().filter(|entry| !KEYS.contains(&entry.key())) {
        let (outcome, why) = explain(entry);
        work.ledger.add(entry, outcome, why.to_owned());
    }
    let produced = keys.get("catalog-produce").is_some();
    if produced || secondary || keys.get("allow-update").is_some() || keys.get("update-policy").is_some() {
        work.keep_state();
    }
    if !secondary && !produced {
        work.zone_files.push((path.clone(), None));
    }
    let file = (!secondary && !produced).then(|| path_text(&path));
    let template =
        template.map(|found| found.value().to_owned()).or(entries.template.map(|_| "default".into()));
    work.nomen.zones.push(Zone { name, file, template, keys, span: Some(item.span.clone()) });
}

/// Converts the keys common to zones and templates.
fn zone_keys(work: &mut Work, frame: &Frame<'_>, entries: &Entries<'_>, keys: &mut Keys) {
    if let Some(found) = entries.get("master") {
        let servers = named_servers(work, frame, found);
        keys.texts("primaries", servers);
        work.ledger.translated(found, "`primaries` of the zone");
    }
    let secondary = keys.get("primaries").is_some();
    if let Some(found) = entries.get("notify") {
        let notified = named_servers(work, frame, found);
        keys.texts("notify", notified);
        work.ledger.translated(found, "`notify` of the zone");
    }
    source(work, frame, entries, keys);
    access(work, frame, entries, secondary, keys);
    for (theirs, ours) in [
        ("refresh-min-interval", "min-refresh"),
        ("refresh-max-interval", "max-refresh"),
        ("retry-min-interval", "min-retry"),
        ("retry-max-interval", "max-retry"),
        ("expire-min-interval", "min-expire"),
        ("expire-max-interval", "max-expire"),
    ] {
        match (entries.get(theirs), secondary) {
            (Some(found), true) => {
                let value = units::seconds(found.value()).and_then(|seconds| seconds.checked_mul(1000));
                work.zone_number(found, keys, ours, value);
            }
            (Some(found), false) => work.ledger.unneeded(found, "the zone has no primaries"),
            (None, _) => {}
        }
    }
    signing::zone(work, frame, &|key| entries.get(key), keys);
    if let Some(found) = entries.get("zonemd-generate").filter(|_| keys.get("dnssec-policy").is_none()) {
        let (outcome, why) = explain(found);
        work.ledger.add(found, outcome, why.to_owned());
    }
    let updated = keys.get("allow-update").is_some() || keys.get("update-policy").is_some();
    contents(work, entries, secondary, keys);
    history(work, entries, updated, secondary, keys);
}

/// Converts the handling of changes: serials, the zone file, stored differences.
fn history(work: &mut Work, entries: &Entries<'_>, updated: bool, secondary: bool, keys: &mut Keys) {
    let signed = keys.get("dnssec-policy").is_some();
    let journal = updated || secondary || signed || keys.get("ixfr-from-differences").is_some();
    if let Some(found) = entries.get("serial-policy") {
        let word = match found.value() {
            "dateserial" => "date",
            other => other,
        };
        match (["increment", "unixtime", "date"].contains(&word), updated || signed) {
            (true, true) => {
                keys.text("serial-policy", word);
                work.ledger.translated(found, "`serial-policy` of the zone");
            }
            (true, false) => work.ledger.unneeded(found, "it is about updates, which the zone does not take"),
            (false, _) => work.not_understood(found),
        }
    }
    if let Some(found) = entries.get("zonefile-sync") {
        match (updated, found.value()) {
            (false, _) => {
                work.ledger.unneeded(found, "nothing changes the zone but its file or its primaries")
            }
            (true, value) if signed && value != "-1" => {
                work.ledger.differs(found, "nomen does not write the file of a zone that it signs");
            }
            (true, "-1") => work.ledger.unneeded(found, "nomen does so anyway"),
            (true, value) => {
                let value = units::seconds(value).and_then(|seconds| seconds.checked_mul(1000));
                work.zone_number(found, keys, "write-file-every", value);
            }
        }
    }
    if let Some(found) = entries.get("journal-max-usage") {
        match journal {
            true => work.zone_number(found, keys, "journal-size", units::size(found.value())),
            false => work.ledger.unneeded(found, "the zone has no journal"),
        }
    }
}

/// Converts the source address for queries and NOTIFY to a zone's servers, if all have the same.
fn source(work: &mut Work, frame: &Frame<'_>, entries: &Entries<'_>, keys: &mut Keys) {
    let named =
        ["master", "notify"].into_iter().filter_map(|key| entries.get(key)).flat_map(Statement::values);
    let ids: Vec<&str> =
        named.map(|word| word.text.as_str()).filter(|id| frame.remotes.contains_key(*id)).collect();
    let all: Vec<&[String]> =
        ids.iter().map(|id| frame.sources.get(*id).map_or(&[][..], |found| found.0.as_slice())).collect();
    let Some((first, rest)) = all.split_first() else { return };
    let same = rest.iter().all(|other| other == first);
    if same {
        keys.texts("source", first.to_vec());
    }
    for (_, entry) in ids.iter().filter_map(|id| frame.sources.get(*id)) {
        match same {
            true => work.ledger.translated(entry, "`source` of the zones"),
            false => work.ledger.missing(entry, "a zone has one `source` for all its servers"),
        }
    }
}

/// Converts `zonefile-load` and ZONEMD settings.
fn contents(work: &mut Work, entries: &Entries<'_>, secondary: bool, keys: &mut Keys) {
    if let Some(found) = entries.get("zonefile-load") {
        match found.value() {
            "difference" | "difference-no-serial" if !secondary => {
                keys.switch("ixfr-from-differences", true);
                work.keep_state();
                work.ledger.translated(found, "`ixfr-from-differences` of the zone");
            }
            _ => work.ledger.unneeded(
                found,
                "nomen reads the file at the start and where it has changed, and keeps what updates change \
                 in `state-dir`",
            ),
        }
    }
    if let Some(found) = entries.get("zonemd-verify") {
        match units::switch(found.value()) {
            // Knot also rejects a zone without a digest.
            Some(on) => {
                keys.text("zonemd", if on { "require" } else { "off" });
                work.ledger.translated(found, "`zonemd` of the zone");
            }
            None => work.not_understood(found),
        }
    }
    if let (Some(found), Some(master)) = (entries.get("ddns-master"), entries.get("master")) {
        let first = master.argument(0).is_some_and(|first| first.text == found.value());
        match first || found.value().is_empty() {
            true => work.ledger.unneeded(found, "nomen does so anyway"),
            false => work
                .ledger
                .missing(found, "updates are passed on to the first of `primaries` that can be reached"),
        }
    }
}

/// The `acl` items that a zone names, in order.
fn acl_items<'t>(work: &mut Work, frame: &Frame<'t>, entries: &Entries<'_>) -> Vec<&'t Statement> {
    let mut items = Vec::new();
    let named = entries.get("acl");
    if let Some(found) = named {
        work.ledger.translated(
            found,
            "`allow-query`, `allow-transfer`, `allow-notify` and `allow-update` of the zone",
        );
    }
    for value in named.into_iter().flat_map(Statement::values).filter(|value| !value.text.is_empty()) {
        match frame.acls.get(&value.text) {
            Some(item) => items.push(*item),
            None => {
                work.ledger.part(&value.span, &value.text, Coverage::Missing, "there is no acl of this id")
            }
        }
    }
    items
}

/// Converts `acl` by action; of several items the first match decides.
fn access(work: &mut Work, frame: &Frame<'_>, entries: &Entries<'_>, secondary: bool, keys: &mut Keys) {
    let items = acl_items(work, frame, entries);
    let list = queries::list(work, frame, &|key| entries.get(key), &items);
    keys.texts("allow-query", list);
    for item in &items {
        item.block()
            .iter()
            .filter(|entry| super::ACL.contains(&entry.key()))
            .for_each(|entry| work.ledger.translated(entry, "the lists of the zones that name it"));
    }
    for (action, ours) in
        [("transfer", "allow-transfer"), ("notify", "allow-notify"), ("update", "allow-update")]
    {
        let mut list: Vec<String> = keys.members(ours).to_vec();
        let mut denied: Vec<Member> = Vec::new();
        for item in &items {
            if !has_action(item, action) {
                continue;
            }
            if is_conditional(work, item, &mut denied) {
                continue;
            }
            let deny = is_deny(item);
            let (clients, whole) = members(work, frame, item);
            if deny && !whole {
                let why = "which clients it refuses cannot be said; no client passes behind it";
                work.ledger.part(&item.span, &item.title(), Coverage::Narrower, why);
                denied.push(refused(None, None));
            }
            for (networks, key) in clients {
                if deny {
                    denied.push(refused(networks, key));
                    continue;
                }
                let all = networks.clone().unwrap_or(Network::all().into());
                let mut one = denied.clone();
                one.push(Member { deny: false, client: Client::Networks(all) });
                let Some(found) = passes(&one) else {
                    let why = "a key is refused before; no client passes";
                    work.ledger.part(&item.span, &item.title(), Coverage::Narrower, why);
                    continue;
                };
                for mut pass in found {
                    pass.key.clone_from(&key);
                    if action == "update" && secondary && limited(item) {
                        let why =
                            "updates are passed on from a client or not, whatever they change; its are not";
                        work.ledger.part(&item.span, &item.title(), Coverage::Missing, why);
                    } else if action == "update" && limited(item) {
                        policy(work, item, &pass.to_string(), entries.zone.as_deref(), keys);
                    } else if !list.contains(&pass.to_string()) {
                        list.push(pass.to_string());
                    }
                }
            }
        }
        if action == "transfer" {
            automatic(work, frame, entries, &denied, &mut list);
        }
        match (action, secondary) {
            ("update", true) => keys.texts("forward-updates", list),
            ("notify", false) => {}
            _ => keys.texts(ours, list),
        }
    }
}

/// With `automatic-acl`, servers that are notified may transfer the zone, unless an `acl` item refuses them.
fn automatic(
    work: &mut Work,
    frame: &Frame<'_>,
    entries: &Entries<'_>,
    denied: &[Member],
    list: &mut Vec<String>,
) {
    let on = frame.automatic.is_some_and(|found| units::switch(found.value()) == Some(true));
    let Some(entry) = entries.get("notify").filter(|_| on) else { return };
    for value in entry.values().filter(|value| !frame.without_automatic.contains(&value.text)) {
        for server in frame.remotes.get(&value.text).into_iter().flatten() {
            let (networks, key) = client_of(server);
            let mut one = denied.to_vec();
            one.push(Member { deny: false, client: Client::Networks(networks.unwrap_or_default()) });
            let Some(found) = passes(&one) else {
                let why = "a key is refused before; it may not transfer the zone";
                work.ledger.part(&value.span, &value.text, Coverage::Narrower, why);
                continue;
            };
            for mut pass in found {
                pass.key.clone_from(&key);
                if !list.contains(&pass.to_string()) {
                    list.push(pass.to_string());
                }
            }
        }
    }
}

/// Whether updates are limited to certain names or types.
fn limited(item: &Statement) -> bool {
    ["update-type", "update-owner"].iter().any(|key| item.find(key).is_some())
}

/// Adds `update-policy` rules for one client.
fn policy(work: &mut Work, item: &Statement, client: &str, zone: Option<&str>, keys: &mut Keys) {
    let matching = item.find("update-owner-match").map_or("sub-or-equal", Statement::value);
    let types: Vec<String> = item
        .find("update-type")
        .into_iter()
        .flat_map(Statement::values)
        .map(|word| word.text.to_ascii_uppercase())
        .collect();
    let good = types.iter().all(|text| text.parse::<wire::Type>().is_ok_and(|rtype| !rtype.is_meta()));
    let has_key = client.contains("key:");
    let names: Option<Vec<String>> = match (item.find("update-owner").map(Statement::value), matching) {
        (None | Some("zone"), "sub-or-equal") => Some(vec!["zone".into()]),
        (Some("key"), "sub-or-equal") if has_key => Some(vec!["selfsub".into()]),
        (Some("key"), "equal") if has_key => Some(vec!["self".into()]),
        (Some("name"), _) => {
            let names = item.find("update-owner-name").into_iter().flat_map(Statement::values);
            // A name without final dot is relative to the zone; members of a catalog zone have no name here.
            let whole = |text: &str| match (text, zone) {
                (text, _) if text.ends_with('.') => domain(text),
                ("@", Some(zone)) => Some(zone.to_owned()),
                (text, Some(".")) => domain(text),
                (text, Some(zone)) => domain(&format!("{text}.{zone}.")),
                (_, None) => None,
            };
            names.map(|name| relation(matching, whole(&name.text)?.trim_end_matches('.'))).collect()
        }
        _ => None,
    };
    let Some(names) = names.filter(|names| good && !names.is_empty()) else {
        let why = "nomen has no rule for these names; these clients may not update: write `update-policy`";
        return work.ledger.part(&item.span, &item.title(), Coverage::Narrower, why);
    };
    for name in names {
        let rule = format!("grant {client} {name} {}", types.join(" "));
        keys.add("update-policy", rule.trim_end());
    }
}

/// The names that an `update-owner-name` matches, as in nomen's rules.
fn relation(matching: &str, name: &str) -> Option<String> {
    let last = name.rsplit('.').next().unwrap_or_default();
    Some(match matching {
        "sub-or-equal" => format!("subdomain {name}."),
        "equal" => format!("name {name}."),
        "sub" if name.is_empty() => "wildcard *.".into(),
        "sub" => format!("wildcard *.{name}."),
        // A `*` is one label in both, except that a trailing one matches several labels in nomen.
        "pattern" if last == "*" => return None,
        "pattern" if name.split('.').any(|label| label == "*") => format!("pattern {name}."),
        "pattern" => format!("name {name}."),
        _ => return None,
    })
}

/// Converts a zone's catalog role.
fn catalog(work: &mut Work, frame: &Frame<'_>, entries: &Entries<'_>, keys: &mut Keys) {
    let Some(role) = entries.get("catalog-role") else { return };
    match role.value() {
        "generate" => {
            let kept = ["allow-transfer", "notify"];
            *keys = Keys(keys.0.drain(..).filter(|(key, _)| kept.contains(key)).collect());
            keys.switch("catalog-produce", true);
            work.ledger.translated(role, "`catalog-produce` of the zone");
        }
        "member" => {
            let Some((found, name)) = entries.get("catalog-zone").and_then(|f| Some((f, domain(f.value())?)))
            else {
                return work.ledger.missing(role, "it has no `catalog-zone`");
            };
            keys.text("catalog-member", name);
            work.ledger.translated(role, "`catalog-member` of the zone");
            work.ledger.translated(found, "`catalog-member` of the zone");
            if let Some(group) = entries.get("catalog-group").filter(|group| !group.value().is_empty()) {
                keys.text("catalog-group", group.value());
                work.ledger.translated(group, "`catalog-group` of the zone");
            }
        }
        "none" => work.ledger.unneeded(role, "nomen does so anyway"),
        "interpret" => {
            let Some(found) = entries.get("catalog-template") else {
                return work.ledger.missing(role, "it has no `catalog-template`");
            };
            let known: Vec<&str> = found
                .values()
                .map(|word| word.text.as_str())
                .filter(|id| frame.templates.contains_key(*id))
                .collect();
            let Some(first) = known.first() else {
                return work.ledger.missing(found, "there is no template of this id");
            };
            keys.text("catalog-template", *first);
            work.ledger.translated(role, "`catalog-template` of the zone");
            // A member's group is the name of its template.
            if known.len() > 1 {
                let groups = known.iter().map(|id| ((*id).to_owned(), (*id).to_owned())).collect();
                keys.set("catalog-groups", Setting::Table(groups));
            }
            work.ledger.translated(found, "`catalog-template` and `catalog-groups` of the zone");
        }
        _ => work.not_understood(role),
    }
}

/// The path of a zone's file, with its formatters.
fn file(frame: &Frame<'_>, entries: &Entries<'_>) -> PathBuf {
    let storage = entries.get("storage").map_or(frame.base.clone(), |found| join(&frame.base, found.value()));
    join(&storage, entries.get("file").map_or("%s.zone", Statement::value))
}

/// A zone's file from its pattern: `%s` is the name, `%c[N]` and `%c[N-M]` are characters of it, `%l[N]` is a
/// label, counted from the last.
fn file_name(pattern: &str, zone: &str) -> String {
    let labels: Vec<&str> = zone.split('.').filter(|label| !label.is_empty()).collect();
    formatted(pattern, &mut |what, first, last| match what {
        's' if zone == "." => Some("root".into()),
        's' => Some(zone.to_owned()),
        'c' => Some(zone.chars().skip(first).take(last.saturating_sub(first) + 1).collect()),
        'l' => Some(labels.iter().rev().nth(first).map_or(String::new(), |label| (*label).to_owned())),
        _ => None,
    })
}

/// The pattern in nomen's syntax.
fn pattern(path: &std::path::Path) -> String {
    formatted(&path_text(path), &mut |what, first, last| match what {
        's' => Some("{zone}".into()),
        'c' if first <= last && last < 3 => Some((first..=last).map(|n| format!("{{{}}}", n + 1)).collect()),
        'l' if first == 0 => Some("{tld}".into()),
        _ => None,
    })
}

/// Replaces each formatter of a pattern; those without a replacement stay.
fn formatted(pattern: &str, with: &mut dyn FnMut(char, usize, usize) -> Option<String>) -> String {
    let (mut out, mut rest) = (String::new(), pattern);
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        let what = after.chars().next();
        let range = what.and_then(|what| after[what.len_utf8()..].strip_prefix('[')?.split_once(']'));
        let numbers = range.and_then(|(range, _)| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some((first.parse().ok()?, last.parse().ok()?))
        });
        let (found, left) = match (what, numbers, range) {
            (Some('s'), ..) => (with('s', 0, 0), &after[1..]),
            (Some(what @ ('c' | 'l')), Some((first, last)), Some((_, left))) => {
                (with(what, first, last), left)
            }
            (Some('%'), ..) => (Some("%".into()), &after[1..]),
            _ => (None, after),
        };
        match found {
            Some(text) => {
                out.push_str(&text);
                rest = left;
            }
            None => {
                out.push('%');
                rest = after;
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_follow_their_pattern() {
        assert_eq!(file_name("%s.zone", "example.com"), "example.com.zone");
        assert_eq!(file_name("%l[0]/%c[0-1]/%c[0]%%", "example.com"), "com/ex/e%");
        assert_eq!(file_name("%q/%c[x]/%", "a"), "%q/%c[x]/%");
        assert_eq!(pattern(std::path::Path::new("/z/%l[0]/%c[0-1]/%s.zone")), "/z/{tld}/{1}{2}/{zone}.zone");
    }
}
