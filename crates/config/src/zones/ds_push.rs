//! Checks of `ds-push`: where the DS records of signed zones are changed.

use std::collections::HashMap;

use wire::{NameBuf, ViewName};

use super::{ConfiguredZone, Template, Templates};
use crate::dnssec_policy::DnssecPolicies;
use crate::peers::{DsPushTarget, PeerKeys};
use crate::report::Diagnostic;
use crate::signing::{ZoneSigningKeys, effective};
use crate::table::read::At;
use crate::updates::UpdateKeys;

/// Whose keys are checked.
#[derive(Clone, Copy)]
pub(super) enum PushKeys<'k> {
    /// A zone's, with those of its template.
    Zone(&'k ConfiguredZone, Option<&'k Template>),
    /// A template's: its zones may have keys of their own.
    Template(&'k Template),
}

impl<'k> PushKeys<'k> {
    /// Returns the keys themselves.
    fn own(self) -> (&'k ZoneSigningKeys, &'k PeerKeys) {
        match self {
            Self::Zone(zone, _) => (&zone.signing, &zone.peers),
            Self::Template(template) => (&template.signing, &template.peers),
        }
    }

    /// Returns those that apply where the own ones are unset.
    fn template(self) -> Option<&'k Template> {
        match self {
            Self::Zone(_, template) => template,
            Self::Template(_) => None,
        }
    }
}

/// Reports the faults of `ds-push` that one zone or template has in itself.
pub(super) fn check(keys: PushKeys<'_>, policies: &DnssecPolicies, faults: &mut Vec<Diagnostic>) {
    let (signing, peers) = keys.own();
    let template = keys.template();
    let Some(targets) = &peers.ds_push.value else { return };
    if targets.iter().all(|target| target.value == DsPushTarget::Nowhere) {
        return;
    }
    let place = peers.ds_push.place.as_ref();
    match effective(signing, template.map(|template| &template.signing)) {
        Some((name, of_policy)) => {
            let without_cds = policies.get(name).filter(|policy| !policy.cds.value);
            faults.extend(without_cds.map(|policy| {
                let message = format!("`ds-push` sends what CDS records say, and policy `{name}` has none");
                let fault = Diagnostic::at(place, message).hint("remove `cds = false`");
                fault.also(policy.cds.place.as_ref().or(of_policy), "`cds = false`")
            }));
        }
        None if matches!(keys, PushKeys::Zone(..)) => {
            faults.push(Diagnostic::at(place, "`ds-push` has no effect without `dnssec-policy`"));
        }
        None => {}
    }
    let alone = targets.iter().find(|target| target.value.server().is_none());
    if let Some(alone) = alone.filter(|_| targets.len() > 1) {
        let message = format!("`ds-push` has \"{}\" and something else", alone.value);
        faults.push(Diagnostic::at(alone.place.as_ref(), message));
    }
    let chains = [Some(peers), template.map(|template| &template.peers)];
    let has_certificate = chains.into_iter().flatten().any(|keys| keys.client_chain.is_some());
    for target in targets {
        let Some(peer) = target.value.server() else { continue };
        if peer.key.is_none() && !(peer.server.is_encrypted() && has_certificate) {
            let message = format!("updates of `ds-push` to {} would not be authenticated", target.value);
            let hint = "add `key:NAME`, or use TLS (`#`) with `client-chain` and `client-key`";
            faults.push(Diagnostic::at(target.place.as_ref(), message).hint(hint));
        }
    }
}

/// The zones of a configuration by name and view.
type NamedZones<'a> = HashMap<(NameBuf, Option<&'a ViewName>), &'a ConfiguredZone>;

/// Reports zones with `ds-push = ["here"]` whose parent zone is not one that this server changes.
/// `are_others`: there are zones that the configuration does not name.
pub(super) fn check_parents<'a>(
    zones: impl Iterator<Item = &'a At<ConfiguredZone>> + Clone,
    templates: &Templates,
    are_others: bool,
    faults: &mut Vec<Diagnostic>,
) {
    let template_of = |zone: &ConfiguredZone| {
        let template = zone.template.value.as_deref().and_then(|name| templates.get(name));
        template.map(|template| &template.value)
    };
    let pushes_here = |zone: &&At<ConfiguredZone>| {
        let of_template = template_of(zone).map(|template| &template.peers.ds_push);
        let lists = [Some(&zone.peers.ds_push), of_template];
        let list = lists.into_iter().flatten().find(|list| list.is_some());
        let is_here = |target: &At<DsPushTarget>| target.value == DsPushTarget::Here;
        list.is_some_and(|list| list.value.iter().flatten().any(is_here))
            && effective(&zone.signing, template_of(zone).map(|template| &template.signing)).is_some()
    };
    if !zones.clone().any(|zone| pushes_here(&zone)) {
        return;
    }
    let lower = |name: &NameBuf| name.as_name().to_lower().as_name().to_buf();
    let all: NamedZones<'_> = zones
        .clone()
        .map(|zone| ((lower(&zone.name.value), zone.view.value.as_ref()), &zone.value))
        .collect();
    for zone in zones.filter(pushes_here) {
        let (name, view) = (lower(&zone.name.value), zone.view.value.as_ref());
        let above = name.as_name().ancestors().skip(1).find_map(|above| all.get(&(above.to_buf(), view)));
        let list = &zone.peers.ds_push;
        let place = list.place.as_ref().or(zone.name.place.as_ref());
        let shown = &zone.name.value;
        let message = match above {
            None if are_others => continue,
            None => format!("`ds-push` of zone {shown} is \"here\", and no zone above it is served here"),
            Some(parent) => match unchangeable(parent, template_of(parent)) {
                None => continue,
                Some(why) => {
                    format!("`ds-push` of zone {shown} is \"here\", and zone {} {why}", parent.name.value)
                }
            },
        };
        let fault = Diagnostic::at(place, message);
        faults.push(match above {
            Some(parent) => fault.also(parent.name.place.as_ref(), "the zone above it"),
            None => fault.hint("name a server of the parent zone: \"192.0.2.1 key:NAME\""),
        });
    }
}

/// Returns why a zone is not changed here, if so.
fn unchangeable(zone: &ConfiguredZone, template: Option<&Template>) -> Option<&'static str> {
    let of_template = template.filter(|_| zone.file.is_none() && zone.peers.primaries.is_none());
    let primaries = of_template.is_some_and(|template| template.peers.primaries.is_some());
    if zone.peers.primaries.is_some() || primaries {
        return Some("comes from its primaries");
    }
    if zone.catalog.is_produced() {
        return Some("is a catalog zone that nomen generates");
    }
    let all = [Some(&*zone.updates), template.map(|template| &template.updates)];
    let takes = |keys: &UpdateKeys| keys.takes_any() || keys.takes_delegation_updates();
    (!all.into_iter().flatten().any(takes)).then_some(
        "takes no changes: it has no `delegation-updates`, `api`, `allow-update` or `update-policy`",
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::table::value::Value;

    const SIGNED: &str = "file = \"f\"\ndnssec-policy = \"default\"\n";

    /// Reads zones: the child `c.example` with these keys, and other text.
    fn read(keys: &str, more: &str) -> Result<crate::Configuration, String> {
        let text = format!(
            "[server]\nstate-dir = \"/state\"\n{more}[[zone]]\nname = \"c.example\"\n{SIGNED}{keys}\n"
        );
        match crate::read_text("test", text, Path::new("/")) {
            Ok(read) => Ok(read.config),
            Err(rejected) => Err(rejected.to_string()),
        }
    }

    fn parent(keys: &str) -> String {
        format!("[[zone]]\nname = \"Example\"\nfile = \"p\"\n{keys}\n")
    }

    const HERE: &str = "ds-push = [\"here\"]";

    #[test]
    fn targets_are_the_zone_here_or_servers() {
        let targets = |text: &str| {
            let config = read(text, &parent("api = true")).expect(text);
            let list = config.zones[1].peers.ds_push.value.clone().expect("a list");
            list.iter().map(|target| target.value.render().expect("text")).collect::<Vec<_>>()
        };
        assert_eq!(targets(HERE), ["\"here\""]);
        assert_eq!(
            targets("ds-push = [\"192.0.2.1 key:k\", \"2001:db8::1@5353 key:k\"]"),
            ["\"192.0.2.1@53 key:k.\"", "\"[2001:db8::1]@5353 key:k.\""]
        );
        assert_eq!(targets("ds-push = [\"none\"]"), ["\"none\""]);
    }

    #[test]
    fn what_cannot_work_is_reported() {
        let tls = "client-chain = \"c\"\nclient-key = \"k\"\nds-push = [\"192.0.2.1#ns.test\"]";
        for (keys, more, expected) in [
            ("ds-push = [\"192.0.2.1\"]", String::new(), "to 192.0.2.1@53 would not be authenticated"),
            ("ds-push = [\"192.0.2.1#ns.test\"]", String::new(), "would not be authenticated"),
            ("ds-push = [\"ns1 key:k\"]", String::new(), "`ns1` is not an IPv4 or IPv6 address"),
            (
                "ds-push = [\"here\", \"192.0.2.1 key:k\"]",
                parent("api = true"),
                "\"here\" and something else",
            ),
            ("ds-push = [\"here\", \"none\"]", parent("api = true"), "\"here\" and something else"),
            (HERE, String::new(), "no zone above it is served here"),
            (HERE, parent(""), "zone example. takes no changes: it has no `delegation-updates`"),
            (HERE, parent("delegation-updates = [\"none\"]"), "takes no changes"),
            (
                HERE,
                "[[zone]]\nname = \"example\"\nprimaries = [\"192.0.2.9\"]\n".to_owned(),
                "zone example. comes from its primaries",
            ),
            (
                "ds-push = [\"192.0.2.1 key:k\"]\ndnssec-policy = \"none\"",
                String::new(),
                "`ds-push` has no effect without `dnssec-policy`",
            ),
            (
                "ds-push = [\"192.0.2.1 key:k\"]\ndnssec-policy = \"own\"",
                "[dnssec-policy.own]\ncds = false\n".to_owned(),
                "policy `own` has none",
            ),
        ] {
            let keys = keys.to_owned();
            let text = match keys.contains("dnssec-policy") {
                true => {
                    let text = format!(
                        "[server]\nstate-dir = \"/state\"\n{more}[[zone]]\nname = \"c.example\"\nfile = \"f\"\n{keys}\n"
                    );
                    crate::read_text("test", text, Path::new("/"))
                        .map(drop)
                        .map_err(|fault| fault.to_string())
                }
                false => read(&keys, &more).map(drop),
            };
            let fault = text.expect_err(expected);
            assert!(fault.contains(expected), "{keys}: {fault}");
        }
        assert!(read(tls, "").is_ok(), "a client certificate authenticates updates");
    }

    #[test]
    fn the_parent_may_be_any_zone_that_is_changed_here() {
        for keys in ["api = true", "allow-update = [\"any\"]", "delegation-updates = [\"cds\"]"] {
            let resolver = if keys.contains("delegation") { "[resolver]\n" } else { "" };
            let read = read(HERE, &format!("{resolver}{}", parent(keys)));
            assert!(read.is_ok(), "{keys}: {:?}", read.err());
        }
        // The zones of a folder are not known before it is listed.
        let folder = "[template.t]\ndirectory = \"d\"\napi = true\n";
        assert!(read(HERE, folder).is_ok());
        let of_template = "[template.t]\nfile = \"{zone}\"\napi = true\n[[zone]]\nname = \"example\"\n\
            template = \"t\"\n";
        assert!(read(HERE, of_template).is_ok());
    }
}
