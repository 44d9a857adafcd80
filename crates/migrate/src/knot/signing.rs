//! `dnssec-signing` of Knot DNS, with the items of `policy` and `submission`.

use super::{Frame, named_servers};
use crate::model::Keys;
use crate::signing::{PolicyDraft, algorithm, of_zone, parents, report_parents};
use crate::tree::Statement;
use crate::units;
use crate::work::Work;

/// Seconds of a day.
const DAY: u64 = 86_400;
/// The policy of a zone without `dnssec-policy`.
const DEFAULT: &str = "default";
/// Its name in nomen, where a policy of that name is built in.
const DEFAULT_NAME: &str = "knot-default";
/// Why a zone that Knot signs cannot be migrated unchanged.
const UNSIGNED: &str = "the zone would be served as its file has it, and fail for clients that validate if it is \
                        unsigned and its parent has DS records";

/// Returns the name of a policy in nomen's configuration.
fn name_of(id: &str) -> String {
    match id {
        DEFAULT => DEFAULT_NAME.to_owned(),
        "insecure" | "none" => format!("knot-{id}"),
        _ => id.to_owned(),
    }
}

/// Returns the statement of a zone with this keyword, or that of its template.
type Entry<'t, 'g> = dyn Fn(&str) -> Option<&'t Statement> + 'g;

/// Converts how a zone is signed. `get` returns the zone's statements.
pub(super) fn zone(work: &mut Work, frame: &Frame<'_>, get: &Entry<'_, '_>, keys: &mut Keys) {
    let named = get("dnssec-policy");
    let found = get("dnssec-signing").filter(|found| units::switch(found.value()) == Some(true));
    let Some(found) = found else {
        named.into_iter().for_each(|found| work.ledger.unneeded(found, "the zone is not signed"));
        return;
    };
    let id = named.map(Statement::value).filter(|id| !id.is_empty()).unwrap_or(DEFAULT);
    let item = frame.policies.get(id).copied();
    if item.is_none() && id != DEFAULT {
        let why = format!("there is no policy of this id: {UNSIGNED}");
        return work.ledger.missing(named.unwrap_or(found), why);
    }
    let name = name_of(id);
    if !policy(work, frame, &name, item) {
        return work.ledger.missing(found, format!("nomen cannot have its policy: {UNSIGNED}"));
    }
    of_zone(work, keys, &name);
    if let Some(named) = named {
        work.ledger.translated(named, "`dnssec-policy` of the zone");
    }
    work.ledger.differs(
        found,
        "`dnssec-policy` of the zone; take over its keys before the first start, with `keymgr ZONE list` and \
         `nomen key import` of the PEM files in the folder `keys` of Knot's database, into the folder `keys` of \
         `state-dir`, or nomen makes new keys, which the DS record at the parent does not fit",
    );
    submission(work, frame, item, keys);
    if let Some(found) = get("ds-push").or_else(|| item.and_then(|item| item.find("ds-push"))) {
        let has_cds = item.and_then(|item| item.find("cds-cdnskey-publish")).map(Statement::value);
        let servers = if has_cds == Some("none") { Vec::new() } else { with_key(frame, found).0 };
        keys.texts("ds-push", servers);
    }
    digest(work, get, &name);
}

/// Converts the servers of the parent that `ksk-submission` names.
fn submission(work: &mut Work, frame: &Frame<'_>, policy: Option<&Statement>, keys: &mut Keys) {
    let Some(named) = policy.and_then(|policy| policy.find("ksk-submission")) else { return };
    let Some(item) = frame.submissions.get(named.value()) else { return };
    let Some(found) = item.find("parent") else { return };
    let (all, is_less) = parents(&named_servers(work, frame, found));
    if all.is_empty() {
        let how = "none of them can be asked by nomen: it asks the name servers of the parent";
        return work.ledger.differs(found, how);
    }
    keys.texts("parental-servers", all);
    report_parents(work, found, is_less);
}

/// Returns the servers of an entry that have a key, and whether all of them have one.
fn with_key(frame: &Frame<'_>, found: &Statement) -> (Vec<String>, bool) {
    let all: Vec<&String> =
        found.values().filter_map(|value| frame.remotes.get(&value.text)).flatten().collect();
    let keyed: Vec<String> =
        all.iter().filter(|server| server.contains(" key:")).map(|server| (*server).clone()).collect();
    let is_whole = keyed.len() == all.len();
    (keyed, is_whole)
}

/// Reports `ds-push` of a policy.
fn pushed(work: &mut Work, frame: &Frame<'_>, found: &Statement) {
    match with_key(frame, found) {
        (servers, _) if servers.is_empty() => work.ledger.missing(
            found,
            "`ds-push` of a zone has servers with a key or a certificate: the remotes have none",
        ),
        (_, true) => work.ledger.translated(found, "`ds-push` of the zones"),
        (_, false) => work.ledger.differs(found, "`ds-push` of the zones, with the servers that have a key"),
    }
}

/// Converts `zonemd-generate` of a signed zone: nomen's policies have digests.
fn digest(work: &mut Work, get: &Entry<'_, '_>, name: &str) {
    let Some(found) = get("zonemd-generate") else { return };
    let hash = match found.value() {
        "zonemd-sha384" => "sha384",
        "zonemd-sha512" => "sha512",
        _ => return,
    };
    if let Some((_, keys)) = work.nomen.dnssec_policies.iter_mut().find(|(known, _)| known == name) {
        keys.add("zonemd", hash);
        work.ledger.differs(found, format!("`zonemd` of [dnssec-policy.{name}], for all its zones"));
    }
}

/// Converts a policy, once; `None` is that without an item. Returns whether nomen can have it.
fn policy(work: &mut Work, frame: &Frame<'_>, name: &str, item: Option<&Statement>) -> bool {
    if work.nomen.dnssec_policies.iter().any(|(known, _)| known == name) {
        return true;
    }
    if item.is_some_and(|item| work.ledger.is_seen(item)) {
        return false;
    }
    let get = |key: &str| item.and_then(|item| item.find(key));
    item.into_iter().for_each(|item| work.ledger.open(item));
    let named = get("algorithm").map_or("ecdsap256sha256", Statement::value);
    let Some(word) = algorithm(named) else {
        if let Some(found) = get("algorithm") {
            work.ledger.missing(found, format!("nomen does not sign with the algorithm {named}"));
        }
        return false;
    };
    let mut draft = PolicyDraft::new(name);
    let single = get("single-type-signing").and_then(|found| units::switch(found.value())) == Some(true);
    draft.layout(word, !single);
    defaults(&mut draft, &get, single);
    for found in item.map(Statement::block).unwrap_or_default() {
        entry(work, frame, found, &mut draft, single);
    }
    draft.finish(work);
    true
}

/// Sets the times that Knot has without a statement and that are others in nomen.
fn defaults<'t>(draft: &mut PolicyDraft<'t>, get: &dyn Fn(&str) -> Option<&'t Statement>, single: bool) {
    let seconds = |key: &str| get(key).and_then(|found| units::seconds(found.value()));
    draft.time("zone-propagation-delay", seconds("propagation-delay").unwrap_or(3_600), None);
    let manual = get("manual").and_then(|found| units::switch(found.value())) == Some(true);
    if !single && !manual && get("zsk-lifetime").is_none() {
        draft.time("zsk-lifetime", 30 * DAY, None);
    }
    if get("rrsig-refresh").is_none() {
        let validity = seconds("rrsig-lifetime").unwrap_or(14 * DAY);
        draft.time("signature-refresh", validity / 10 + draft.seconds("zone-propagation-delay"), None);
    }
}

/// Converts a key of a policy.
fn entry<'t>(
    work: &mut Work,
    frame: &Frame<'_>,
    found: &'t Statement,
    draft: &mut PolicyDraft<'t>,
    single: bool,
) {
    let value = found.value();
    let (on, number) = (units::switch(value), units::size(value));
    let (off, whole) = (on == Some(false), "nomen decides this by itself");
    match found.key() {
        "id" => work.ledger.translated(found, "its name"),
        "algorithm" => work.ledger.translated(found, draft.place("algorithm")),
        "single-type-signing" => work.ledger.translated(found, draft.place("single-key")),
        "ksk-size" => match number {
            Some(bits) => draft.size(work, found, "ksk-size", bits),
            None => work.not_understood(found),
        },
        "zsk-size" | "zsk-lifetime" if single => work.ledger.unneeded(found, "the policy has no ZSK"),
        "zsk-size" => match number {
            Some(bits) => draft.size(work, found, "zsk-size", bits),
            None => work.not_understood(found),
        },
        "ksk-lifetime" | "zsk-lifetime" if units::seconds(value) == Some(0) => {
            work.ledger.unneeded(found, "nomen rolls keys without a lifetime on request only");
        }
        "ksk-lifetime" => draft.time_of(work, "ksk-lifetime", found, value),
        "zsk-lifetime" => draft.time_of(work, "zsk-lifetime", found, value),
        "dnskey-ttl" => draft.time_of(work, "dnskey-ttl", found, value),
        "propagation-delay" => draft.time_of(work, "zone-propagation-delay", found, value),
        "rrsig-lifetime" => draft.time_of(work, "signature-validity", found, value),
        "rrsig-refresh" => draft.time_of(work, "signature-refresh", found, value),
        "delete-delay" if units::seconds(value) == Some(0) => {
            work.ledger
                .differs(found, "nomen keeps the files of removed keys: `purge-keys` of the policy, 90 days");
        }
        "delete-delay" => draft.time_of(work, "purge-keys", found, value),
        "nsec3" => match on {
            Some(true) => draft.switch(work, "nsec3", found, true),
            _ => work.ledger.unneeded(found, "nomen does so anyway"),
        },
        key if key.starts_with("nsec3-") => nsec3(work, found, draft),
        "cds-cdnskey-publish" => sync(work, found, draft),
        "ksk-submission" => match frame.submissions.get(value) {
            Some(item) => submitted(work, found, item, draft),
            None => work.ledger.missing(found, "there is no submission of this id"),
        },
        "cds-digest-type" if ["sha256", "2"].contains(&value) => {
            work.ledger.unneeded(found, "nomen does so anyway");
        }
        "cds-digest-type" => work.ledger.differs(found, "CDS records have SHA-256 digests"),
        "zone-max-ttl" => work.ledger.unneeded(found, "nomen finds the longest TTL in the zone"),
        "manual" | "offline-ksk" | "ksk-shared" | "unsafe-operation" if off => {
            work.ledger.unneeded(found, "nomen does so anyway");
        }
        "manual" => work.ledger.differs(
            found,
            "keys without a lifetime are rolled when you order it, in steps that nomen takes",
        ),
        "ds-push" => pushed(work, frame, found),
        "rrsig-pre-refresh"
        | "signing-threads"
        | "keytag-modulo"
        | "reproducible-signing"
        | "dnskey-management"
        | "unsafe-operation"
        | "comment" => work.ledger.unneeded(found, whole),
        key => work.ledger.missing(found, missing(key)),
    }
}

/// Returns why a key of a policy is missing.
fn missing(key: &str) -> &'static str {
    match key {
        "offline-ksk" => "`offline-ksk` of a policy has the format of BIND",
        "ksk-shared" => "each zone has keys of its own",
        "keystore" => "nomen has the keys in the folder `keys` of `state-dir`",
        "dnskey-sync" => "nomen does not exchange keys with other signers",
        _ => "a policy has nothing for it",
    }
}

/// Converts a key about NSEC3.
fn nsec3<'t>(work: &mut Work, found: &'t Statement, draft: &mut PolicyDraft<'t>) {
    if !draft.is_on("nsec3") {
        return work.ledger.unneeded(found, "the policy has no NSEC3");
    }
    match (found.key(), found.value()) {
        ("nsec3-iterations", "0") | ("nsec3-salt-length", "0") => {
            work.ledger.unneeded(found, "nomen does so anyway");
        }
        ("nsec3-iterations", number) => {
            draft.iterations(work, found, number.parse().ok());
            work.ledger.open(found);
        }
        ("nsec3-opt-out", value) => match units::switch(value) {
            Some(true) => draft.switch(work, "nsec3-opt-out", found, true),
            _ => work.ledger.unneeded(found, "nomen does so anyway"),
        },
        ("nsec3-salt-length", _) => work.ledger.differs(
            found,
            "the zone has no salt, as RFC 9276 recommends; `nsec3-salt` of the policy sets one",
        ),
        ("nsec3-salt-lifetime", _) => work.ledger.unneeded(found, "a salt does not change"),
        _ => work.ledger.missing(found, "a policy has nothing for it"),
    }
}

/// Converts `cds-cdnskey-publish`.
fn sync<'t>(work: &mut Work, found: &'t Statement, draft: &mut PolicyDraft<'t>) {
    match found.value() {
        "none" => draft.switch(work, "cds", found, false),
        "always" => work.ledger.unneeded(found, "nomen does so anyway"),
        "rollover" | "double-ds" => {
            work.ledger
                .differs(found, "the zone has CDS and CDNSKEY records always, of the key that is to be used");
        }
        "delete-dnssec" => work.ledger.missing(
            found,
            "the policy `insecure` of nomen makes a zone unsigned: `dnssec-policy = \"insecure\"`",
        ),
        _ => work.not_understood(found),
    }
}

/// Converts an item of `submission`, whose servers are those of the zones.
fn submitted<'t>(work: &mut Work, found: &Statement, item: &Statement, draft: &mut PolicyDraft<'t>) {
    work.ledger.translated(found, "`parental-servers` of the zones");
    work.ledger.open(item);
    for entry in item.block() {
        match entry.key() {
            "id" => work.ledger.translated(entry, "wherever it is named"),
            "parent" => {}
            "parent-delay" => match units::seconds(entry.value()) {
                // The time that nomen adds to it by itself stays.
                Some(seconds) if seconds > draft.seconds("parent-propagation-delay") => {
                    draft.time("parent-propagation-delay", seconds, None);
                    work.ledger.translated(entry, draft.place("parent-propagation-delay"));
                }
                Some(_) => work.ledger.unneeded(entry, "nomen waits longer"),
                None => work.not_understood(entry),
            },
            _ => work.ledger.unneeded(entry, "nomen decides this by itself"),
        }
    }
}
