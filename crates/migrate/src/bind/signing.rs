//! `dnssec-policy` of BIND: its clauses, and the zones that are signed.

use std::collections::HashMap;

use super::Frame;
use crate::ledger::Coverage;
use crate::model::{Keys, Setting};
use crate::signing::{PolicyDraft, algorithm, of_zone};
use crate::tree::Statement;
use crate::units;
use crate::work::Work;

/// A KSK that the server does not have, in BIND and in nomen.
const OFFLINE_KSK: &str = "offline-ksk";
/// The policies that BIND and nomen have without a clause.
const BUILT_IN: [&str; 2] = ["default", "insecure"];
/// Why a zone that BIND signs cannot be migrated unchanged.
const UNSIGNED: &str = "nomen signs zones with `dnssec-policy` alone: the zone would be served as its file has it, \
                        unsigned, and fail for clients that validate if its parent has DS records";

/// Converts how a zone is signed. `taken`: it comes from primaries.
pub(super) fn zone(work: &mut Work, frame: &Frame<'_>, zone: &Statement, keys: &mut Keys, taken: bool) {
    let policy = policy_of(work, frame, zone, taken);
    let is_signed = policy.is_some_and(|found| sign(work, frame, zone, found, keys));
    let is_off = |found: &&Statement| ["off", "no", "none"].contains(&found.value());
    let Some(found) = policy.filter(|_| is_signed) else {
        // BIND signs a zone with these and keys that an operator made.
        for key in ["auto-dnssec", "inline-signing"] {
            let found = zone.find(key).filter(|found| policy.is_none() && !is_off(found));
            found.into_iter().for_each(|found| work.ledger.missing(found, UNSIGNED));
        }
        for key in ["parental-agents", "checkds", "key-directory", "inline-signing", "dnssec-policy"] {
            let found = zone.find(key).filter(|found| !work.ledger.is_seen(found));
            found.into_iter().for_each(|found| work.ledger.unneeded(found, "the zone is not signed"));
        }
        return;
    };
    if let Some(found) = frame.deciding(zone, "inline-signing") {
        match units::switch(found.value()) {
            Some(false) => work.ledger.differs(
                found,
                "nomen does not write the zone's file: remove the records that BIND's signer has added to it",
            ),
            _ => work.ledger.unneeded(found, "nomen does so anyway"),
        }
    }
    if let Some(found) = frame.deciding(zone, "key-directory") {
        work.ledger.differs(found, "nomen has the keys in the folder `keys` of `state-dir`: copy them there");
    }
    if found.value() == "insecure" {
        work.ledger.part(
            &found.span,
            &found.title(),
            Coverage::Differs,
            "once the zone is unsigned, remove `dnssec-policy` from it",
        );
    }
}

/// Returns the statement with the policy of a zone, if it has one.
fn policy_of<'s>(
    work: &mut Work,
    frame: &'s Frame<'_>,
    zone: &'s Statement,
    taken: bool,
) -> Option<&'s Statement> {
    let found = frame.deciding(zone, "dnssec-policy")?;
    if found.value() == "none" {
        work.ledger.unneeded(found, "nomen does so anyway");
        return None;
    }
    let inline = frame.deciding(zone, "inline-signing").and_then(|found| units::switch(found.value()));
    if taken && zone.find("dnssec-policy").is_none() && inline != Some(true) {
        work.ledger.part(
            &zone.span,
            &zone.title(),
            Coverage::Differs,
            "it is not signed: a zone from primaries is only with `dnssec-policy` or `inline-signing yes`",
        );
        return None;
    }
    Some(found)
}

/// Sets the policy of a zone, and converts its clause. Returns whether the zone is signed.
fn sign(work: &mut Work, frame: &Frame<'_>, zone: &Statement, found: &Statement, keys: &mut Keys) -> bool {
    let name = found.value();
    if !BUILT_IN.contains(&name) {
        let Some(clause) = frame.policies.get(name) else {
            work.ledger.missing(found, format!("there is no `dnssec-policy` {name}; {UNSIGNED}"));
            return false;
        };
        if !clause_of(work, name, clause) {
            work.ledger.missing(found, format!("nomen cannot have this policy; {UNSIGNED}"));
            return false;
        }
    }
    of_zone(work, keys, name);
    let folder = frame.deciding(zone, "key-directory").map_or("", Statement::value);
    let folder = crate::files::join(&frame.directory, folder);
    let folder = folder.display();
    let how = match has_offline_ksk(work, name) {
        false => format!(
            "`dnssec-policy` of the zone; copy the K* files of its keys from {folder} to the folder `keys` of \
             `state-dir` before the first start, or nomen makes new keys, which the DS record at the parent \
             does not fit"
        ),
        true => format!(
            "`dnssec-policy` of the zone; copy the K* files of its ZSKs from {folder} to the folder `keys` of \
             `state-dir` before the first start, then import its present signed key response \
             (`nomen ctl key import-response`): until then the zone is answered unsigned, and fails for clients \
             that validate"
        ),
    };
    work.ledger.differs(found, how);
    true
}

/// Whether the KSK of a converted policy is kept elsewhere.
fn has_offline_ksk(work: &Work, name: &str) -> bool {
    let keys = work.nomen.dnssec_policies.iter().find(|(known, _)| known == name).map(|(_, keys)| keys);
    keys.and_then(|keys| keys.get(OFFLINE_KSK)) == Some(&Setting::Switch(true))
}

/// Converts a clause, once. Returns whether nomen can have such a policy.
fn clause_of(work: &mut Work, name: &str, clause: &Statement) -> bool {
    if work.nomen.dnssec_policies.iter().any(|(known, _)| known == name) {
        return true;
    }
    if work.ledger.is_seen(clause) {
        return false;
    }
    let mut draft = PolicyDraft::new(name);
    work.ledger.open(clause);
    // Wherever it is in the clause.
    let offline = clause.find(OFFLINE_KSK).filter(|found| units::switch(found.value()) == Some(true));
    if let Some(keys) = clause.find("keys")
        && !keys_of(work, keys, &mut draft, offline.is_some())
    {
        return false;
    }
    if let Some(found) = offline {
        match draft.is_split() {
            true => draft.switch(work, OFFLINE_KSK, found, true),
            false => work.ledger.missing(
                found,
                "it needs a KSK and a ZSK, and the policy has a single key, which nomen generates and keeps",
            ),
        }
    }
    for found in clause.block() {
        statement(work, found, &mut draft);
    }
    draft.finish(work);
    true
}

/// Converts `keys { csk lifetime unlimited algorithm 13; … }`. Returns whether nomen can have such keys.
fn keys_of<'t>(work: &mut Work, keys: &'t Statement, draft: &mut PolicyDraft<'t>, is_offline: bool) -> bool {
    let mut by_role: HashMap<&str, &'t Statement> = HashMap::new();
    work.ledger.open(keys);
    let mut word = None;
    for key in keys.block() {
        let named = key.word_after("algorithm").map_or("", |word| &word.text);
        let Some(found) = algorithm(named) else {
            work.ledger.missing(key, format!("nomen does not sign with the algorithm {named}"));
            return false;
        };
        if *word.get_or_insert(found) != found || by_role.insert(key.key(), key).is_some() {
            work.ledger.missing(key, "a policy has one algorithm, and one key of a role");
            return false;
        }
    }
    let split = match (by_role.contains_key("csk"), by_role.contains_key("ksk"), by_role.contains_key("zsk"))
    {
        (true, false, false) => false,
        (false, true, true) => true,
        _ => {
            work.ledger.missing(keys, "a policy has a CSK, or a KSK and a ZSK");
            return false;
        }
    };
    draft.layout(word.unwrap_or("ecdsap256sha256"), split);
    for key in keys.block() {
        key_of(work, key, draft, is_offline && key.key() == "ksk");
    }
    true
}

/// Converts lifetime and size of a key. `is_elsewhere`: the server does not have it.
fn key_of<'t>(work: &mut Work, key: &'t Statement, draft: &mut PolicyDraft<'t>, is_elsewhere: bool) {
    let (lifetime, size) = match key.key() {
        "zsk" => ("zsk-lifetime", "zsk-size"),
        _ => ("ksk-lifetime", "ksk-size"),
    };
    let time = key.word_after("lifetime").map_or("unlimited", |word| &word.text);
    let is_limited = time != "unlimited" && units::seconds(time) != Some(0);
    let bits = key.words().last().and_then(|word| word.text.parse().ok()).filter(|bits| *bits > 100);
    match (is_elsewhere, is_limited, bits) {
        (true, true, _) => work.ledger.differs(
            key,
            format!(
                "{} is not set: the server cannot replace the KSK; generate the next one where the present one \
                 is, and sign the next request with both",
                draft.place(lifetime)
            ),
        ),
        (true, false, Some(_)) => {
            work.ledger.unneeded(key, "the KSK is generated elsewhere, with the size that it has there");
        }
        (true, false, None) => {}
        (false, ..) => {
            if is_limited {
                draft.time_of(work, lifetime, key, time);
            }
            if let Some(bits) = bits {
                draft.size(work, key, size, bits);
            }
        }
    }
    if key.word_after("tag-range").is_some() {
        let why = "nomen chooses key tags by itself";
        work.ledger.part(&key.span, &key.title(), Coverage::Missing, why);
    }
    if units::seconds(time).is_none_or(|seconds| seconds == 0) && !work.ledger.is_seen(key) {
        work.ledger.translated(key, draft.place("single-key"));
    }
}

/// Converts another statement of a clause.
fn statement<'t>(work: &mut Work, found: &'t Statement, draft: &mut PolicyDraft<'t>) {
    let time = match found.key() {
        "signatures-validity" => "signature-validity",
        "signatures-refresh" => "signature-refresh",
        "signatures-jitter" => "signature-jitter",
        "dnskey-ttl" => "dnskey-ttl",
        "publish-safety" => "publish-safety",
        "retire-safety" => "retire-safety",
        "zone-propagation-delay" => "zone-propagation-delay",
        "parent-propagation-delay" => "parent-propagation-delay",
        "parent-ds-ttl" => "parent-ds-ttl",
        "purge-keys" => "purge-keys",
        _ => return other(work, found, draft),
    };
    draft.time_of(work, time, found, found.value());
}

fn other<'t>(work: &mut Work, found: &'t Statement, draft: &mut PolicyDraft<'t>) {
    let on = units::switch(found.value());
    let is_offline = draft.is_on(OFFLINE_KSK);
    match found.key() {
        "keys" => {}
        "nsec3param" => nsec3(work, found, draft),
        "inline-signing" if on == Some(true) => work.ledger.unneeded(found, "nomen does so anyway"),
        "inline-signing" => work.ledger.differs(
            found,
            "nomen does not write the files of zones: remove the records that BIND's signer has added to them",
        ),
        "cdnskey" if on == Some(true) => work.ledger.unneeded(found, "nomen does so anyway"),
        "cdnskey" => work.ledger.differs(found, "`cds` of a policy is for CDS and CDNSKEY records together"),
        "cds-digest-types" if is_offline => work.ledger.differs(
            found,
            "CDS records are those of the signed key response: `--digest` or `--no-cds` of `nomen key sign-request`",
        ),
        "cds-digest-types" => {
            let is_empty = found.block().is_empty();
            let usual = found.block().iter().all(|digest| ["sha-256", "sha256", "2"].contains(&digest.key()));
            match (is_empty, usual) {
                (true, _) => draft.switch(work, "cds", found, false),
                (false, true) => work.ledger.unneeded(found, "nomen does so anyway"),
                (false, false) => work.ledger.differs(found, "CDS records have SHA-256 digests"),
            }
        }
        "max-zone-ttl" => work.ledger.unneeded(found, "nomen finds the longest TTL in the zone"),
        "signatures-validity-dnskey" if is_offline => work.ledger.differs(
            found,
            "signatures of DNSKEY records are those of the signed key response: `--validity` of `nomen key \
             sign-request`",
        ),
        "signatures-validity-dnskey" => {
            work.ledger.differs(found, "`signature-validity` is for all signatures of a zone alike");
        }
        OFFLINE_KSK | "manual-mode" if on == Some(false) => {
            work.ledger.unneeded(found, "nomen does so anyway");
        }
        // Converted before the others.
        OFFLINE_KSK if on == Some(true) => {}
        OFFLINE_KSK => work.not_understood(found),
        "manual-mode" => work.ledger.missing(found, "nomen takes the steps of a rollover by itself"),
        _ => work.ledger.missing(found, "a policy has nothing for it"),
    }
}

/// Converts `nsec3param [iterations N] [optout yes|no] [salt-length N]`.
fn nsec3<'t>(work: &mut Work, found: &'t Statement, draft: &mut PolicyDraft<'t>) {
    draft.switch(work, "nsec3", found, true);
    let word = |key: &str| found.word_after(key).map(|word| word.text.as_str());
    // 0 is the default.
    if let Some(number) = word("iterations").filter(|number| *number != "0") {
        draft.iterations(work, found, number.parse().ok());
    }
    if word("optout").and_then(units::switch) == Some(true) {
        draft.silent_switch("nsec3-opt-out", true);
    }
    if word("salt-length").is_some_and(|length| length != "0") {
        let how = "the zone has no salt, as RFC 9276 recommends; `nsec3-salt` of the policy sets one";
        work.ledger.part(&found.span, &found.title(), Coverage::Differs, how);
    }
}
