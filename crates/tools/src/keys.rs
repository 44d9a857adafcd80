//! `nomen key`: keys of zones, in files.

use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use signer::files::{self, private_files, read_key, read_private_key, read_public_key, write_key};
use signer::key::pair::PrivateKey;
use signer::key::times::{KeyEvent, KeyTimes};
use signer::key::{KeyRole, ZoneKey};
use transport::unix_now;
use wire::rdata::view::{Dnskey, Ds, SigAlgorithm};
use wire::rdata::write_text;
use wire::{Name, NameBuf, Type, UnixTime};
use wording::rfc3339;

use crate::key_args::{KeyDsArgs, KeyGenerateArgs, KeyImportArgs, KeyListArgs, KeyRoleArg, KeyTime, KeyVerb};
use crate::sign_request;
use crate::zone_sign::key_fault;
use config::exit_status::{EXIT_FAULTS, EXIT_OK, EXIT_USAGE};
use config::zone_name::zone_name;

/// Most keys that are generated until one has a tag that no other key of the zone has.
const MAX_TRIES: usize = 100;

/// A message, and the exit code.
type Refusal = (String, u8);

/// Runs the verb; returns the exit code.
pub fn run(verb: &KeyVerb) -> u8 {
    let done = match verb {
        KeyVerb::Generate(args) => generate(args),
        KeyVerb::List(args) => list(args),
        KeyVerb::ExportDs(args) => export_ds(args),
        KeyVerb::Import(args) => import(args),
        KeyVerb::SignRequest(args) => zone_of(&args.zone).and_then(|zone| sign_request::run(args, &zone)),
    };
    done.unwrap_or_else(|(message, code)| {
        eprintln!("nomen: {message}");
        code
    })
}

fn zone_of(text: &str) -> Result<NameBuf, Refusal> {
    zone_name(text).map_err(|fault| (fault.to_string(), EXIT_USAGE))
}

impl KeyRoleArg {
    fn role(self) -> KeyRole {
        match self {
            Self::Csk | Self::Ksk => KeyRole::KeySigning,
            Self::Zsk => KeyRole::ZoneSigning,
        }
    }
}

fn generate(args: &KeyGenerateArgs) -> Result<u8, Refusal> {
    let (zone, now) = (zone_of(&args.zone)?, unix_now());
    let mut times = KeyTimes::default();
    times.set(KeyEvent::Created, now);
    let activate = args.activate.map(|time| time.after(now));
    let publish = args.publish.map_or(activate.map_or(now, |at| at.min(now)), |time| time.after(now));
    times.set(KeyEvent::Publish, publish);
    times.set(KeyEvent::Activate, activate.unwrap_or(publish));
    let mut set = |event, time: Option<KeyTime>| {
        if let Some(time) = time {
            times.set(event, time.after(now));
        }
    };
    set(KeyEvent::Inactive, args.inactive);
    set(KeyEvent::Delete, args.delete);
    check_order(&times)?;
    let others = files::read_zone_tags(&args.folder, zone.as_name()).map_err(|fault| key_fault(&fault))?;
    let key = (0..MAX_TRIES).find_map(|_| {
        let private = match PrivateKey::generate(args.algorithm.into(), args.bits) {
            Ok(private) => private,
            Err(bad) => return Some(Err((bad.to_string(), EXIT_FAULTS))),
        };
        let key = ZoneKey::new(zone.as_name(), args.role.role(), private, times);
        let is_new = key.tags().iter().all(|tag| !others.contains(&(key.algorithm(), *tag)));
        is_new.then_some(Ok(key))
    });
    let no_tag = || Err((format!("{}: no key tag is free", args.folder.display()), EXIT_FAULTS));
    let key = key.unwrap_or_else(no_tag)?.with_ttl(args.ttl);
    written(&args.folder, &key, args.json)
}

/// Refuses times that no key can have in this order.
fn check_order(times: &KeyTimes) -> Result<(), Refusal> {
    let order = [KeyEvent::Publish, KeyEvent::Activate, KeyEvent::Inactive, KeyEvent::Delete];
    let known: Vec<(KeyEvent, UnixTime)> =
        order.into_iter().filter_map(|event| Some((event, times.get(event)?))).collect();
    match known.windows(2).find(|pair| pair[0].1 > pair[1].1) {
        None => Ok(()),
        Some(pair) => {
            let name = |event: KeyEvent| event.field().to_ascii_lowercase();
            Err((format!("--{} is before --{}", name(pair[1].0), name(pair[0].0)), EXIT_USAGE))
        }
    }
}

/// Writes a key and prints its name.
fn written(folder: &Path, key: &ZoneKey, as_json: bool) -> Result<u8, Refusal> {
    let stem = write_key(folder, key).map_err(|fault| key_fault(&fault))?;
    match as_json {
        true => say!("{:#}", json_of(key, &stem, unix_now())),
        false => say!("{}", stem.display()),
    }
    Ok(EXIT_OK)
}

fn import(args: &KeyImportArgs) -> Result<u8, Refusal> {
    let zone = zone_of(&args.zone)?;
    let rsa: SigAlgorithm = args.algorithm.into();
    if !matches!(rsa, SigAlgorithm::RSASHA256 | SigAlgorithm::RSASHA512) {
        return Err(("--algorithm: only that of an RSA key is not in the file".into(), EXIT_USAGE));
    }
    let read = read_private_key(&args.file, rsa).map_err(|fault| key_fault(&fault))?;
    let mut times = read.times;
    if times == KeyTimes::default() {
        // As of a key that is generated now.
        let now = unix_now();
        for event in [KeyEvent::Created, KeyEvent::Publish, KeyEvent::Activate] {
            times.set(event, now);
        }
    }
    written(&args.folder, &ZoneKey::new(zone.as_name(), args.role.role(), read.key, times), args.json)
}

/// What a key does at a time, in one word.
fn state(key: &ZoneKey, now: UnixTime) -> &'static str {
    let times = key.times();
    match () {
        () if times.has_come(KeyEvent::Delete, now) => "removed",
        () if !times.is_published(now) => "future",
        () if key.is_revoked() || times.has_come(KeyEvent::Revoke, now) => "revoked",
        () if times.is_active(now) => "active",
        () if times.has_come(KeyEvent::Inactive, now) => "retired",
        () => "published",
    }
}

fn role_text(key: &ZoneKey) -> &'static str {
    match key.role() {
        KeyRole::KeySigning => "ksk",
        KeyRole::ZoneSigning => "zsk",
    }
}

fn json_of(key: &ZoneKey, stem: &Path, now: UnixTime) -> Value {
    let dnskey = Dnskey::read(key.dnskey()).ok();
    let times: serde_json::Map<String, Value> = KeyEvent::ALL
        .into_iter()
        .filter_map(|event| {
            let time = rfc3339(
                std::time::UNIX_EPOCH + std::time::Duration::from_secs(key.times().get(event)?.as_secs()),
            );
            Some((event.field().to_ascii_lowercase(), Value::String(time)))
        })
        .collect();
    json!({
        "zone": key.zone().to_string(),
        "tag": key.tag(),
        "algorithm": key.algorithm().0,
        "algorithm_name": key.algorithm().to_string(),
        "bits": key.bits(),
        "role": role_text(key),
        "flags": dnskey.map(|key| key.flags),
        "state": state(key, now),
        "times": times,
        "ds": key.ds(Ds::SHA256).map(|rdata| text_of(Type::DS, &rdata)),
        "file": stem.display().to_string(),
    })
}

fn text_of(rtype: Type, rdata: &[u8]) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write_text(rtype, rdata, &mut text);
    text
}

fn list(args: &KeyListArgs) -> Result<u8, Refusal> {
    let (now, mut code) = (unix_now(), EXIT_OK);
    let mut keys = Vec::new();
    for path in private_files(&args.folder).map_err(|fault| key_fault(&fault))? {
        let stem = path.with_extension("");
        match read_key(&path) {
            Ok(key) => keys.push((key, stem)),
            Err(fault) => {
                let (message, status) = key_fault(&fault);
                eprintln!("nomen: {message}");
                code = code.max(status);
            }
        }
    }
    if args.json {
        let keys: Vec<Value> = keys.iter().map(|(key, stem)| json_of(key, stem, now)).collect();
        say!("{:#}", Value::Array(keys));
        return Ok(code);
    }
    let mut out = Vec::new();
    for (key, _) in &keys {
        let algorithm = key.algorithm();
        // Writing to a Vec cannot fail.
        let _ = writeln!(
            out,
            "{} {} {algorithm} {} bits {} {}",
            key.zone(),
            key.tag(),
            key.bits(),
            role_text(key),
            state(key, now)
        );
    }
    crate::print_out(&String::from_utf8_lossy(&out));
    Ok(code)
}

fn export_ds(args: &KeyDsArgs) -> Result<u8, Refusal> {
    let public = read_public_key(&args.key).map_err(|fault| key_fault(&fault))?;
    let zone = public.zone;
    let rdata = public.dnskey();
    let key = Dnskey::read(&rdata).map_err(|_| ("not a key".to_owned(), EXIT_FAULTS))?;
    if !key.is_zone_key() {
        let path = args.key.display();
        return Err((
            format!("{path}: no DS can refer to this key: it is revoked or no zone key"),
            EXIT_FAULTS,
        ));
    }
    if !key.is_sep() {
        eprintln!(
            "nomen: key {} is a zone-signing key; a DS usually refers to a key-signing key",
            dnssec::key::tag(&key)
        );
    }
    let mut digests = args.digest.clone();
    digests.dedup();
    let records: Vec<String> = digests
        .iter()
        .filter_map(|digest| dnssec::key::ds(zone.as_name(), &key, digest.code()))
        .map(|rdata| text_of(Type::DS, &rdata))
        .collect();
    if args.json {
        say!("{:#}", json!({ "zone": lower(zone.as_name()), "tag": dnssec::key::tag(&key), "ds": records }));
    } else {
        records.iter().for_each(|record| say!("{} IN DS {record}", lower(zone.as_name())));
    }
    Ok(EXIT_OK)
}

fn lower(name: Name<'_>) -> String {
    name.to_lower().as_name().to_string()
}
