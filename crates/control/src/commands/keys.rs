//! `nomen ctl key` and `nomen ctl zone sign`: the keys and signatures of zones that are signed here.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use signer::rollover::{KeyDuty, KeyGoal, KeyId, KeyPurpose, KeyState, RecordTrack, RollTarget};
use wire::rdata::view::Dnskey;
use wire::rdata::write_text;
use wire::{Type, UnixTime, ZoneName};

use super::CommandResult;
use super::zones::find;
use crate::fault::{ArgumentFault, CommandFault, SigningCommandFault as Fault};
use crate::parts::ServerParts;
use crate::protocol::{ControlCommand, RolledRole};
use wording::moment;
use zone::catalog::OnlineDenial;
use zone_manager::changes::{
    Changes, DsPushStatus, OfflineStatus, SignCommand, SignReply, SigningStatus, ZoneKeyStatus,
};

/// A zone that is signed here.
struct SignedZone<'p> {
    changes: &'p Changes,
    apex: ZoneName,
    status: Arc<SigningStatus>,
}

impl SignedZone<'_> {
    /// Returns the zone that a command names.
    fn find<'p>(parts: &'p ServerParts, name: &str) -> Result<SignedZone<'p>, CommandFault> {
        let state = find(&parts.table, name)?;
        let apex = state.spec.apex.clone();
        let not_signed = || Fault::NotSigned(apex.to_string());
        let changes = parts.changes.as_deref().filter(|_| state.spec.signed).ok_or_else(not_signed)?;
        let status = changes.signing(&apex);
        let status = status.ok_or_else(|| Fault::Unknown(apex.to_string(), None))?;
        Ok(SignedZone { changes, apex, status })
    }

    /// Returns the key of this tag, as `TAG` or `TAG/ALGORITHM`.
    fn key(&self, text: &str) -> Result<KeyId, CommandFault> {
        let bad = || ArgumentFault::KeyTag(text.to_owned());
        let (tag, algorithm) = match text.split_once('/') {
            Some((tag, algorithm)) => (tag, Some(algorithm)),
            None => (text, None),
        };
        let tag: u16 = tag.parse().map_err(|_| bad())?;
        let is_of = |id: &KeyId, word: &str| {
            id.algorithm.to_string().eq_ignore_ascii_case(word) || word.parse() == Ok(id.algorithm.0)
        };
        let all: Vec<KeyId> = self.status.keys.iter().map(|key| key.id).collect();
        let fits = |id: &&KeyId| id.tag == tag && algorithm.is_none_or(|word| is_of(id, word));
        let found: Vec<KeyId> = all.iter().filter(fits).copied().collect();
        match (found.as_slice(), &self.status.fault) {
            ([id], _) => Ok(*id),
            ([], Some(fault)) if all.is_empty() => {
                Err(Fault::Unknown(self.apex.to_string(), Some(fault.clone())).into())
            }
            ([], _) => Err(Fault::NoSuchKey(text.to_owned(), all).into()),
            (_, _) => Err(Fault::Several(text.to_owned(), found).into()),
        }
    }

    /// Has the thread that changes zones execute a command.
    fn order(&self, command: SignCommand) -> CommandResult {
        match self.changes.command_signer(&self.apex, command).map_err(Fault::Refused)? {
            SignReply::Done(result) => Ok(json!({"zone": self.apex.to_string(), "result": result})),
            SignReply::Request(text) => Ok(json!({"zone": self.apex.to_string(), "request": text})),
            SignReply::Timeline(events) => {
                let row = |event: &zone_manager::changes::ZoneKeyEvent| {
                    let (at, what) = (event.at.as_secs(), event.event.to_string());
                    let KeyId { tag, algorithm } = event.key;
                    json!({"at": at, "tag": tag, "algorithm": algorithm.to_string(), "event": what})
                };
                let events: Vec<Value> = events.iter().map(row).collect();
                let mut out = json!({"zone": self.apex.to_string(), "events": events});
                put(&mut out, "ds_push", self.changes.ds_push(&self.apex).as_ref().map(pushed));
                put(&mut out, "online", self.status.online.map(OnlineDenial::word));
                Ok(out)
            }
        }
    }
}

/// Executes a command on the keys and signatures of a zone.
pub(super) fn act(parts: &ServerParts, verb: &ControlCommand) -> CommandResult {
    use ControlCommand as Verb;
    match verb {
        Verb::KeyList { name } => Ok(listed(&SignedZone::find(parts, name)?)),
        Verb::KeyTimeline { name } => SignedZone::find(parts, name)?.order(SignCommand::Timeline),
        Verb::KeyRoll { name, key, role, emergency } => {
            let zone = SignedZone::find(parts, name)?;
            let target = match (key, role) {
                (Some(key), _) => RollTarget::Key(zone.key(key)?),
                (None, Some(role)) => RollTarget::Role(purpose(*role)),
                (None, None) => return Err(ArgumentFault::NoKeyGiven.into()),
            };
            zone.order(match emergency {
                true => SignCommand::RollAtOnce(target),
                false => SignCommand::Roll(target),
            })
        }
        Verb::KeyRetire { name, key } => about_key(parts, name, key, SignCommand::Retire),
        Verb::KeyDsPublished { name, key } => about_key(parts, name, key, SignCommand::DsPublished),
        Verb::KeyDsWithdrawn { name, key } => about_key(parts, name, key, SignCommand::DsWithdrawn),
        Verb::KeyExportDs { name, digests } => Ok(exported(&SignedZone::find(parts, name)?, digests)),
        Verb::KeyPregenerate { name, until } => {
            SignedZone::find(parts, name)?.order(SignCommand::Pregenerate(UnixTime::from_secs(*until)))
        }
        Verb::KeyRequest { name, from, until } => {
            let [from, until] = [from, until].map(|time| time.map(UnixTime::from_secs));
            SignedZone::find(parts, name)?.order(SignCommand::Request(from, until))
        }
        Verb::KeyImportResponse { name, text } => {
            SignedZone::find(parts, name)?.order(SignCommand::ImportResponse(text.clone()))
        }
        Verb::ZoneSign { name } => SignedZone::find(parts, name)?.order(SignCommand::Renew),
        _ => Ok(Value::Null),
    }
}

fn about_key(
    parts: &ServerParts,
    name: &str,
    key: &str,
    command: impl FnOnce(KeyId) -> SignCommand,
) -> CommandResult {
    let zone = SignedZone::find(parts, name)?;
    zone.order(command(zone.key(key)?))
}

fn purpose(role: RolledRole) -> KeyPurpose {
    match role {
        RolledRole::Ksk => KeyPurpose::Ksk,
        RolledRole::Zsk => KeyPurpose::Zsk,
        RolledRole::Csk => KeyPurpose::Csk,
    }
}

/// Returns the DS records that the parent is to have.
fn exported(zone: &SignedZone<'_>, digests: &[u8]) -> Value {
    let owner = zone.apex.as_name();
    let of = |key: &ZoneKeyStatus| -> Vec<Value> {
        let Ok(dnskey) = Dnskey::read(&key.dnskey) else { return Vec::new() };
        let record = |digest: &u8| {
            let mut text = format!("{owner} IN DS ");
            write_text(Type::DS, &dnssec::key::ds(owner, &dnskey, *digest)?, &mut text).ok()?;
            Some(text.into())
        };
        digests.iter().filter_map(record).collect()
    };
    let records: Vec<Value> = zone.status.keys.iter().filter(|key| key.wants_ds).flat_map(of).collect();
    json!({"zone": zone.apex.to_string(), "ds": records})
}

/// Returns the keys of a zone.
fn listed(zone: &SignedZone<'_>) -> Value {
    let SigningStatus { policy, keys, earliest, next, waits, offline, online, fault, .. } = &*zone.status;
    let mut out = json!({
        "zone": zone.apex.to_string(),
        "policy": policy,
        "next_look": next.as_secs(),
        "waits": waits,
        "keys": keys.iter().map(key_json).collect::<Vec<_>>(),
    });
    put(&mut out, "signatures_end", earliest.map(UnixTime::as_secs));
    put(&mut out, "online", online.map(OnlineDenial::word));
    put(&mut out, "offline", offline.as_ref().map(responses));
    put(&mut out, "ds_push", zone.changes.ds_push(&zone.apex).as_ref().map(pushed));
    put(&mut out, "fault", fault.as_deref());
    out
}

/// Returns what was pushed to the parent of a zone.
fn pushed(status: &DsPushStatus) -> Value {
    let DsPushStatus { target, state, detail, at, next, failures } = status;
    let mut out = json!({"to": target, "state": state.word(), "failures": failures});
    put(&mut out, "detail", Some(detail.as_str()).filter(|detail| !detail.is_empty()));
    put(&mut out, "at", at.map(UnixTime::as_secs));
    put(&mut out, "next_try", next.map(UnixTime::as_secs));
    out
}

/// Returns what is known of the responses of a zone whose KSK is offline.
fn responses(offline: &OfflineStatus) -> Value {
    let OfflineStatus { slot, next_slot, until, keys_until } = offline;
    let mut out = json!({});
    for (name, time) in [
        ("slot_since", slot),
        ("next_slot", next_slot),
        ("response_until", until),
        ("keys_until", keys_until),
    ] {
        put(&mut out, name, time.map(UnixTime::as_secs));
    }
    out
}

/// Sets a field if there is a value.
fn put(out: &mut Value, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        out[key] = value.into();
    }
}

fn key_json(key: &ZoneKeyStatus) -> Value {
    let state = &key.state;
    let mut out = json!({
        "tag": key.id.tag,
        "algorithm": key.id.algorithm.to_string(),
        "role": state.role.to_string(),
        "bits": state.bits,
        "goal": match state.goal {
            KeyGoal::Hidden => "hidden",
            KeyGoal::Omnipresent => "omnipresent",
        },
        "records": records(key),
        "wants_ds": key.wants_ds,
        "dates": dates(state),
    });
    let duty = Some(state.duty).filter(|duty| *duty != KeyDuty::Active);
    put(&mut out, "duty", duty.map(KeyDuty::word));
    put(&mut out, "predecessor", state.predecessor.map(|id| id.to_string()));
    put(&mut out, "successor", state.successor.map(|id| id.to_string()));
    if let Some((cause, until)) = &key.waits {
        out["waits"] = json!({"for": cause});
        put(&mut out["waits"], "until", until.map(UnixTime::as_secs));
    }
    out
}

/// The states of the records of a key, without those that a key of its role has not.
fn records(key: &ZoneKeyStatus) -> Value {
    let row = |(record, track): (&str, &RecordTrack)| {
        let mut row = json!({"record": record, "state": track.state.word()});
        put(&mut row, "since", track.since.map(UnixTime::as_secs));
        row
    };
    let role = key.state.role;
    let has = |(record, _): &(&str, &RecordTrack)| match *record {
        "key signature" | "ds" => role.signs_keys(),
        "zone signatures" => role.signs_zone(),
        _ => true,
    };
    Value::Array(key.records().into_iter().filter(has).map(row).collect())
}

fn dates(state: &KeyState) -> Value {
    let dates = &state.dates;
    let all = [
        ("generated", dates.generated),
        ("published", dates.published),
        ("active", dates.active),
        ("retired", dates.retired),
        ("removed", dates.removed),
        ("ds_publish", dates.ds_publish),
        ("ds_removed", dates.ds_removed),
        ("publish_cds", dates.publish_cds),
        ("delete_cds", dates.delete_cds),
    ];
    let known = all.into_iter().filter_map(|(name, date)| Some((name.to_owned(), date?.as_secs().into())));
    Value::Object(known.collect::<Map<String, Value>>())
}

/// How a zone is signed here, for `zone status`; null if it is not.
#[derive(Default)]
pub(super) struct SigningSummary {
    /// Policy, times and fault.
    pub(super) signing: Value,
    /// Each key on a line.
    pub(super) keys: Value,
    /// What it waits for, each on a line.
    pub(super) waits: Value,
}

impl SigningSummary {
    /// Returns that of a status, and of what was pushed to the parent.
    pub(super) fn of(status: &SigningStatus, push: Option<&DsPushStatus>) -> SigningSummary {
        let mut signing = json!({
            "policy": status.policy,
            "next_look": status.next.as_secs(),
            "signatures_made": status.signatures,
        });
        put(&mut signing, "first_expiration", status.earliest.map(UnixTime::as_secs));
        put(&mut signing, "fault", status.fault.as_deref());
        put(&mut signing, "ds_push", push.map(|push| push.to_string()));
        put(&mut signing, "online", status.online.map(OnlineDenial::word));
        if let Some(offline) = &status.offline {
            put(&mut signing, "response_until", offline.until.map(UnixTime::as_secs));
            put(&mut signing, "keys_until", offline.keys_until.map(UnixTime::as_secs));
        }
        let mut waits: Vec<Value> =
            status.waits.iter().map(|wait| json!({"for": wait, "text": wait})).collect();
        waits.extend(status.keys.iter().filter_map(|key| {
            let (cause, until) = key.waits.as_ref()?;
            let until_text = until.map(|until| format!(", until {}", moment(until))).unwrap_or_default();
            let text = format!("{}: {cause}{until_text}", key.id);
            let mut wait = json!({"key": key.id.to_string(), "for": cause, "text": text});
            put(&mut wait, "until", until.map(UnixTime::as_secs));
            Some(wait)
        }));
        let keys = status.keys.iter().map(|key| {
            let states = records(key);
            let states =
                states.as_array().into_iter().flatten().filter_map(|row| {
                    Some(format!("{} {}", row["record"].as_str()?, row["state"].as_str()?))
                });
            let duty = match key.state.duty {
                KeyDuty::Active => String::new(),
                duty => format!(" ({})", duty.word()),
            };
            let states = states.collect::<Vec<_>>().join(", ");
            Value::from(format!("{} {}{duty}: {states}", key.id, key.state.role))
        });
        SigningSummary { signing, keys: keys.collect(), waits: Value::Array(waits) }
    }
}
