//! Checks of zones and templates that are signed.

use super::{ConfiguredZone, SharedKeys, Template};
use crate::report::{ConfigPlace, Diagnostic};
use crate::signing::{ZoneSigningKeys, effective};
use crate::table::read::At;
use crate::updates::UpdateKeys;

/// Reports that the file of signed zones would be written. `own` are the keys of a zone or of a template,
/// `template` those of the zone's template.
fn check_file(
    own: (&ZoneSigningKeys, &UpdateKeys),
    template: Option<(&ZoneSigningKeys, &UpdateKeys)>,
    faults: &mut Vec<Diagnostic>,
) {
    let Some((_, place)) = effective(own.0, template.map(|keys| keys.0)) else { return };
    let of_template = template.map(|(_, updates)| &updates.write_file_every);
    let written = [Some(&own.1.write_file_every), of_template];
    let Some(every) = written.into_iter().flatten().find(|every| every.is_some()) else { return };
    // A template with both keys has this fault itself.
    if own.0.policy.is_some() || own.1.write_file_every.is_some() {
        let message =
            "the file of a zone with `dnssec-policy` is not written: `write-file-every` is not possible";
        let fault = Diagnostic::at(every.place.as_ref(), message);
        faults.push(fault.also(place, "the zone is signed because of this"));
    }
}

/// Reports the faults of one zone's keys.
pub(super) fn check_zone(
    zone: &ConfiguredZone,
    template: Option<&Template>,
    shared: SharedKeys<'_>,
    faults: &mut Vec<Diagnostic>,
) {
    zone.signing.check(shared.policies, shared.has_state, faults);
    check_file(
        (&zone.signing, &zone.updates),
        template.map(|template| (&template.signing, &template.updates)),
        faults,
    );
    faults.extend(check_iterations(zone, template, shared));
    let of_template = template.map(OthersOf::template);
    check_online(&OthersOf::zone(zone), of_template.as_ref(), shared, faults);
    let servers = &zone.signing.parental_servers;
    if servers.is_some() && effective(&zone.signing, template.map(|template| &template.signing)).is_none() {
        let message = "`parental-servers` has no effect without `dnssec-policy`";
        faults.push(Diagnostic::at(servers.place.as_ref(), message));
    }
}

/// Reports a policy under which a version would have more NSEC3 iterations than the zone may have.
fn check_iterations(
    zone: &ConfiguredZone,
    template: Option<&Template>,
    shared: SharedKeys<'_>,
) -> Option<Diagnostic> {
    let (name, place) = effective(&zone.signing, template.map(|template| &template.signing))?;
    let policy = shared.policies.get(name)?;
    let of_template = template.map(|template| &template.peers.nsec3_max_iterations);
    let limits = [Some(&zone.peers.nsec3_max_iterations), of_template];
    let limit = limits.into_iter().flatten().find(|limit| limit.is_some())?;
    let (most, iterations) = (limit.value.as_ref()?.0, policy.nsec3_iterations.0);
    (iterations > most).then(|| {
        let message = format!("policy `{name}` has {iterations} iterations of NSEC3");
        Diagnostic::at(place, message)
            .also(limit.place.as_ref(), format!("zone {} may have {most}", zone.name.value))
    })
}

/// Keys about other servers that have a zone.
struct OthersOf<'c> {
    signing: &'c ZoneSigningKeys,
    /// Each key with whether it is set, and whether it names any server.
    keys: [(&'static str, bool, bool, Option<&'c ConfigPlace>); 3],
}

impl<'c> OthersOf<'c> {
    fn zone(zone: &'c ConfiguredZone) -> Self {
        let (transfer, peers) = (&zone.allow_transfer, &zone.peers);
        let keys = [
            of_list("allow-transfer", transfer),
            of_list("notify", &peers.notify),
            of_list("primaries", &peers.primaries),
        ];
        OthersOf { signing: &zone.signing, keys }
    }

    fn template(template: &'c Template) -> Self {
        let (transfer, peers) = (&template.allow_transfer, &template.peers);
        let keys = [
            of_list("allow-transfer", transfer),
            of_list("notify", &peers.notify),
            of_list("primaries", &peers.primaries),
        ];
        OthersOf { signing: &template.signing, keys }
    }
}

fn of_list<'c, T>(
    key: &'static str,
    list: &'c At<Option<Vec<T>>>,
) -> (&'static str, bool, bool, Option<&'c ConfigPlace>) {
    let names_any = list.value.as_ref().is_some_and(|list| !list.is_empty());
    (key, list.value.is_some(), names_any, list.place.as_ref())
}

/// Reports other servers of a zone whose answers are signed: there is no copy that they could answer from, or
/// that could come from them. `own` are the keys of a zone or a template, `template` those of the zone's
/// template.
fn check_online(
    own: &OthersOf<'_>,
    template: Option<&OthersOf<'_>>,
    shared: SharedKeys<'_>,
    faults: &mut Vec<Diagnostic>,
) {
    let Some((name, place)) = effective(own.signing, template.map(|of| of.signing)) else { return };
    if shared.policies.get(name).is_none_or(|policy| policy.online.value.is_none()) {
        return;
    }
    // A template with both keys has this fault itself.
    let is_own_policy = own.signing.policy.is_some() || template.is_none();
    for (at, (key, is_set, names_any, of_key)) in own.keys.iter().enumerate() {
        let of_template = template.map(|of| of.keys[at]).filter(|_| !is_set);
        let (names_any, of_key) =
            of_template.map_or((*names_any, *of_key), |(_, _, any, place)| (any, place));
        if !names_any || !(is_own_policy || *is_set) {
            continue;
        }
        let why = match *key {
            "primaries" => "a zone from `primaries` is signed beforehand",
            _ => "secondaries cannot sign",
        };
        let message = format!("`{key}` is not possible with `online` of policy `{name}`: {why}");
        faults.push(Diagnostic::at(of_key, message).also(place, "answers are signed because of this"));
    }
}

/// Reports the faults of a template's keys.
pub(super) fn check_template(template: &Template, shared: SharedKeys<'_>, faults: &mut Vec<Diagnostic>) {
    template.signing.check(shared.policies, shared.has_state, faults);
    check_file((&template.signing, &template.updates), None, faults);
    check_online(&OthersOf::template(template), None, shared, faults);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::signing::policy_of;

    const ZONE: &str = "[[zone]]\nname = \"a.example\"\n";

    fn read(text: &str) -> Result<crate::Configuration, String> {
        let text = format!("[server]\nstate-dir = \"/state\"\n{text}");
        match crate::read_text("test", text, Path::new("/")) {
            Ok(read) => Ok(read.config),
            Err(rejected) => Err(rejected.to_string()),
        }
    }

    #[test]
    fn a_zone_has_its_own_policy_or_that_of_its_template() {
        let template = "[dnssec-policy.own]\n[template.t]\ndirectory = \"d\"\ndnssec-policy = \"own\"\n\
            parental-servers = [\"192.0.2.1\"]\n";
        for (keys, expected) in [
            ("file = \"f\"\ntemplate = \"t\"", Some("own")),
            ("file = \"f\"\ntemplate = \"t\"\ndnssec-policy = \"insecure\"", Some("insecure")),
            ("file = \"f\"\ntemplate = \"t\"\ndnssec-policy = \"none\"", None),
            ("primaries = [\"192.0.2.1\"]\ndnssec-policy = \"default\"", Some("default")),
            ("file = \"f\"\nallow-update = [\"any\"]\ndnssec-policy = \"default\"", Some("default")),
            ("file = \"f\"", None),
        ] {
            let config = read(&format!("{template}{ZONE}{keys}\n")).expect(keys);
            let zone = &config.zones[0];
            let template = zone.template.as_deref().and_then(|name| config.templates.get(name));
            assert_eq!(policy_of(&zone.signing, template.map(|of| &of.signing)), expected, "{keys}");
        }
    }

    #[test]
    fn servers_of_the_parent_have_port_53_unless_another_is_set() {
        let keys = "file = \"f\"\ndnssec-policy = \"default\"\n\
            parental-servers = [\"192.0.2.1\", \"2001:db8::1@5353\"]";
        let config = read(&format!("{ZONE}{keys}\n")).expect("good");
        let servers = config.zones[0].signing.parental_servers.value.as_ref().expect("servers");
        let shown: Vec<String> = servers.iter().map(|server| server.value.0.to_string()).collect();
        assert_eq!(shown, ["192.0.2.1@53", "[2001:db8::1]@5353"]);
    }

    #[test]
    fn a_zone_whose_answers_are_signed_has_no_other_servers() {
        for (text, expected) in [
            (
                format!(
                    "[dnssec-policy.own]\nonline = \"compact\"\n{ZONE}file = \"f\"\ndnssec-policy = \"own\"\n\
                    allow-transfer = [\"192.0.2.1\"]\n"
                ),
                &["`allow-transfer` is not possible with `online` of policy `own`: secondaries cannot sign"],
            ),
            (
                format!(
                    "[dnssec-policy.own]\nonline = \"minimal\"\n{ZONE}primaries = [\"192.0.2.1\"]\n\
                    dnssec-policy = \"own\"\n"
                ),
                &["`primaries` is not possible with `online` of policy `own`"],
            ),
            (
                format!(
                    "[dnssec-policy.own]\nonline = \"compact\"\n[template.t]\nfile = \"f\"\n\
                    notify = [\"192.0.2.1\"]\n{ZONE}template = \"t\"\ndnssec-policy = \"own\"\n"
                ),
                &["`notify` is not possible with `online` of policy `own`"],
            ),
        ] {
            let fault = read(&text).expect_err(expected[0]);
            assert!(
                fault.contains(expected[0]) && fault.contains("answers are signed because of this"),
                "{fault}"
            );
        }
    }

    #[test]
    fn what_a_policy_cannot_apply_to_is_reported() {
        for (text, expected) in [
            (
                format!("[dnssec-policy.slow]\n{ZONE}file = \"f\"\ndnssec-policy = \"slwo\"\n"),
                &["there is no [dnssec-policy.slwo]", "did you mean \"slow\"?"][..],
            ),
            (
                "[template.t]\ndirectory = \"d\"\ndnssec-policy = \"defualt\"\n".to_owned(),
                &["there is no [dnssec-policy.defualt]", "did you mean \"default\"?"],
            ),
            (
                format!("{ZONE}catalog-produce = true\ndnssec-policy = \"default\"\n"),
                &["has `dnssec-policy` and `catalog-produce`"],
            ),
            (
                format!("{ZONE}file = \"f\"\nparental-servers = [\"192.0.2.1\"]\n"),
                &["`parental-servers` has no effect without `dnssec-policy`"],
            ),
            (
                format!("{ZONE}file = \"f\"\ndnssec-policy = \"default\"\nparental-servers = [\"ns1\"]\n"),
                &["`ns1` is not an IPv4 or IPv6 address"],
            ),
            (
                format!(
                    "{ZONE}file = \"f\"\ndnssec-policy = \"default\"\n[resolver]\n[[policy.zone]]\n\
                    name = \"a.example\"\n"
                ),
                &["the response policy zone a.example. has `dnssec-policy`", "it is used here"],
            ),
            (
                format!(
                    "[dnssec-policy.own]\nnsec3 = true\nnsec3-iterations = 5\n{ZONE}file = \"f\"\n\
                    dnssec-policy = \"own\"\nnsec3-max-iterations = 4\n"
                ),
                &["policy `own` has 5 iterations of NSEC3", "zone a.example. may have 4"],
            ),
            (
                format!("{ZONE}file = \"f\"\ndnssec-policy = \"default\"\nwrite-file-every = \"1h\"\n"),
                &["`write-file-every` is not possible", "the zone is signed because of this"],
            ),
            (
                format!(
                    "[template.t]\nfile = \"f\"\nwrite-file-every = \"1h\"\n{ZONE}template = \"t\"\n\
                    dnssec-policy = \"default\"\n"
                ),
                &["`write-file-every` is not possible"],
            ),
        ] {
            let fault = read(&text).expect_err(expected[0]);
            for words in expected {
                assert!(fault.contains(words), "{text}: {fault}");
            }
        }
        let both = "[template.t]\nfile = \"f\"\nwrite-file-every = \"1h\"\ndnssec-policy = \"default\"\n";
        let fault = read(&format!("{both}{ZONE}template = \"t\"\n")).expect_err("both");
        assert_eq!(fault.matches("`write-file-every` is not possible").count(), 1, "{fault}");
        assert!(
            read(&format!("{ZONE}file = \"f\"\ndnssec-policy = \"none\"\nwrite-file-every = \"1h\"\n"))
                .is_ok()
        );
    }
}
