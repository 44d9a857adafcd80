//! The local copy of the root zone, which the resolver uses in place of the root servers (RFC 8806). The zone
//! manager stores it as any other zone, but passes each version to this module instead of the catalog that
//! answers clients. A version is used if its digest (ZONEMD, RFC 8976) is correct and signed by keys that the
//! trust anchors lead to. Otherwise the version in use stays, and a version from a primary is not even
//! stored. Without a usable version, the root servers are queried.
//!
//! `authority` answers the resolver from the copy. `secondaries` calls this module before it accepts a
//! version from a primary.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use recursion::PolicyConfig;
use resolver::{LocalCopy, QueryKey, ZoneCopy};
use tracing::{debug, error, info};
use transport::unix_now;
use validator::{
    Progress, Response, Security, TrustAnchors, TrustTable, Validation, ValidationBudget, ValidationLimits,
    ValidationSettings, Validator,
};
use wire::rdata::view::Rrsig;
use wire::{Name, Rcode, Serial, Type, UnixTime};
use zone::Zone;
use zone::catalog::{Catalog, Change};

use crate::own_zones;
use config::peers::ZonemdPolicy;
use telemetry::repeated::log_repeated;
use threads::sync::{lock, read, write};

/// Most steps of a validation, which needs the DNSKEY of the root and nothing else.
const MAX_VALIDATION_STEPS: usize = 4;

/// The trust anchors and settings by which a version is validated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootTrust {
    settings: ValidationSettings,
    /// `None`: the root zone is not validated.
    anchors: Option<TrustAnchors>,
}

impl RootTrust {
    /// Returns the trust by which answers of the root servers are validated.
    pub fn of(policy: &PolicyConfig) -> RootTrust {
        let is_root = policy.domains.iter().find(|domain| domain.name.as_name().is_root());
        let validated = is_root.is_some_and(|domain| domain.validate);
        let anchors = validated.then(|| policy.validation.anchors.clone());
        RootTrust { settings: policy.validation.settings, anchors }
    }
}

/// Whether a version is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Standing {
    /// There is no version.
    #[default]
    Missing,
    /// No version may be used.
    Refused,
    /// A version is in use.
    InUse,
}

/// The state of the copy, as shown to the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalRootStatus {
    /// `ok`, `missing` or `refused`.
    pub word: &'static str,
    /// The serial of the version in use, or of the version refused last.
    pub serial: Option<Serial>,
    /// Why no version is in use, or why a newer version than the one in use was refused.
    pub fault: Option<String>,
    /// When its signatures end.
    pub signed_until: Option<UnixTime>,
}

/// The local copy of the root zone.
#[derive(Default)]
pub struct LocalRoot {
    /// Whether a copy is configured.
    wanted: AtomicBool,
    state: Mutex<State>,
    in_use: RwLock<Option<Arc<RootCopy>>>,
    /// Lookups that queried the root servers although a copy is configured.
    fallbacks: AtomicU64,
}

#[derive(Default)]
struct State {
    trust: Option<RootTrust>,
    /// The version that was valid at the last check.
    good: Option<Arc<Zone>>,
    /// The zone's current version if it is not valid: it may become valid when the clock is corrected or the
    /// trust anchors change.
    offered: Option<Arc<Zone>>,
    /// The last version refused since a version came into use, and why.
    refused: Option<(Serial, String)>,
    standing: Standing,
}

/// A version that the resolver may query.
struct RootCopy {
    catalog: Catalog,
    serial: Serial,
    /// When the first of the signatures of its digest and its keys expires: the
    /// version is then validated again. `None` if all have expired, and validation does not need them.
    until: Option<UnixTime>,
}

impl LocalRootStatus {
    /// Every [`word`](Self::word).
    pub const WORDS: [&'static str; 3] = ["ok", "missing", "refused"];
}

impl LocalRoot {
    /// Returns the copy for the resolver.
    pub fn copy(self: &Arc<Self>) -> LocalCopy {
        LocalCopy::new(Arc::clone(self) as Arc<dyn ZoneCopy>)
    }

    /// Sets whether a copy is configured.
    pub fn want(&self, wanted: bool) {
        if self.wanted.swap(wanted, Relaxed) == wanted {
            return;
        }
        if wanted {
            info!("local root: until there is a copy of the root zone, the root servers are asked");
        } else {
            let mut state = lock(&self.state);
            *state = State { trust: state.trust.take(), ..State::default() };
            *write(&self.in_use) = None;
            info!("local root is off: the root servers are asked");
        }
    }

    /// Applies a change of the zone, in place of the catalog that answers clients.
    pub fn take(&self, step: Change) {
        let mut state = lock(&self.state);
        match step {
            Change::Serve(zone) => state.offered = Some(zone),
            Change::Unload(_) | Change::Remove(_) => {
                (state.good, state.offered, state.refused) = (None, None, None);
            }
        }
        self.look(&mut state);
    }

    /// Returns why a version of a primary must not be accepted, if the zone is a copy for the resolver. The
    /// version in use stays.
    pub fn objection(&self, zone: &Arc<Zone>) -> Option<String> {
        if !self.wanted.load(Relaxed) {
            return None;
        }
        let mut state = lock(&self.state);
        let why = RootCopy::judge(zone, state.trust.as_ref()?, unix_now()).err()?;
        state.refuse(zone.serial(), &why);
        Some(why)
    }

    /// Returns whether a held version may not be used. Its serial is then not compared with those of the
    /// primaries.
    pub fn is_refused(&self) -> bool {
        let state = lock(&self.state);
        state.standing == Standing::Refused && (state.good.is_some() || state.offered.is_some())
    }

    /// Sets the trust by which versions are validated.
    pub fn trust(&self, trust: RootTrust) {
        let mut state = lock(&self.state);
        if state.trust.as_ref() != Some(&trust) {
            state.trust = Some(trust);
            self.look(&mut state);
        }
    }

    /// Checks a refused version again: the clock may have been wrong, or signatures not yet valid.
    pub fn look_again(&self) {
        let mut state = lock(&self.state);
        if state.standing == Standing::Refused || state.offered.is_some() {
            self.look(&mut state);
        }
    }

    /// Selects the version to use: the newest if it is valid, else the one before.
    fn look(&self, state: &mut State) {
        let used = state.choose(unix_now());
        let has_none = state.good.is_none() && state.offered.is_none();
        // Until recursive service starts, no query is resolved.
        let is_missing = state.trust.is_none() || has_none && state.refused.is_none();
        let now = match &used {
            Some(_) => Standing::InUse,
            None if is_missing => Standing::Missing,
            None => Standing::Refused,
        };
        let before = std::mem::replace(&mut state.standing, now);
        match (&used, before) {
            (Some(copy), Standing::InUse) => debug!(serial = copy.serial.0, "local root"),
            (Some(copy), _) => {
                info!("local root: serial {} is asked in place of the root servers", copy.serial);
            }
            (None, Standing::InUse) if now == Standing::Missing => {
                error!("local root: no usable copy, the root servers are asked");
            }
            (None, _) => {}
        }
        *write(&self.in_use) = used.map(Arc::new);
    }

    /// Returns the version that may be queried at this moment.
    fn usable(&self) -> Option<Arc<RootCopy>> {
        let copy = read(&self.in_use).clone()?;
        if copy.until.is_some_and(|until| until < unix_now()) { self.look_after(&copy) } else { Some(copy) }
    }

    /// Judges a copy in use again after a signature has expired. Which signature counted is unknown, since
    /// anyone can add one that is never verified and ends later.
    #[cold]
    fn look_after(&self, copy: &Arc<RootCopy>) -> Option<Arc<RootCopy>> {
        let mut state = lock(&self.state);
        // Another thread may have done so already.
        let is_same = read(&self.in_use).as_ref().is_some_and(|now| Arc::ptr_eq(now, copy));
        if is_same {
            self.look(&mut state);
        }
        read(&self.in_use).clone()
    }

    /// Returns the state of the copy; `None` if none is configured.
    pub fn status(&self) -> Option<LocalRootStatus> {
        if !self.wanted.load(Relaxed) {
            return None;
        }
        let signed_until = self.usable().and_then(|copy| copy.until);
        let state = lock(&self.state);
        let in_use = read(&self.in_use).as_ref().map(|copy| copy.serial);
        let refused = state.refused.as_ref();
        let (serial, why) = (refused.map(|(serial, _)| *serial), refused.map(|(_, why)| why.clone()));
        let held = || state.offered.as_ref().or(state.good.as_ref()).map(|zone| zone.serial());
        let (word, serial, fault) = match state.standing {
            // The zone's status shows the fault of the zone.
            Standing::Missing => {
                let fault = "there is no version: see `nomen ctl zone status .`";
                ("missing", held(), Some(fault.to_owned()))
            }
            Standing::Refused => ("refused", serial, why),
            Standing::InUse => ("ok", in_use, why),
        };
        Some(LocalRootStatus { word, serial, fault, signed_until })
    }

    /// Returns the number of lookups that queried the root servers although a copy is configured.
    pub fn fallbacks(&self) -> u64 {
        self.fallbacks.load(Relaxed)
    }
}

impl State {
    /// Returns the version to use at `now`. Logs each refusal once.
    fn choose(&mut self, now: UnixTime) -> Option<RootCopy> {
        let trust = self.trust.clone()?;
        if let Some(zone) = self.offered.take() {
            match RootCopy::judge(&zone, &trust, now) {
                Ok(copy) => {
                    (self.good, self.refused) = (Some(zone), None);
                    return Some(copy);
                }
                Err(why) => {
                    self.refuse(zone.serial(), &why);
                    self.offered = Some(zone);
                }
            }
        }
        let zone = self.good.clone()?;
        match RootCopy::judge(&zone, &trust, now) {
            Ok(copy) => {
                if self.offered.is_none() && self.standing != Standing::InUse {
                    self.refused = None;
                }
                Some(copy)
            }
            Err(why) => {
                self.refuse(zone.serial(), &why);
                None
            }
        }
    }

    /// Records and logs that a version is refused.
    fn refuse(&mut self, serial: Serial, why: &str) {
        let refused = Some((serial, why.to_owned()));
        if self.refused == refused {
            return;
        }
        self.refused = refused;
        match &self.good {
            Some(good) if self.standing == Standing::InUse && good.serial() != serial => {
                log_repeated!(
                    error,
                    ERROR,
                    ("local root refused", why),
                    "local root: a version is refused, serial {} stays in use: {why}",
                    good.serial()
                );
            }
            _ => {
                if self.standing == Standing::Missing {
                    self.standing = Standing::Refused;
                }
                let about = ("local root not used", why);
                log_repeated!(
                    error,
                    ERROR,
                    about,
                    "local root: the copy is not used, the root servers are asked: {why}"
                );
            }
        }
    }
}

impl ZoneCopy for LocalRoot {
    fn respond(&self, query_key: &QueryKey, message: &mut Vec<u8>) -> bool {
        if !self.wanted.load(Relaxed) {
            return false;
        }
        let responded = self.usable().is_some_and(|copy| {
            copy.respond(query_key.name.as_name(), query_key.qtype, query_key.dnssec_ok, message)
        });
        if !responded {
            self.fallbacks.fetch_add(1, Relaxed);
        }
        responded
    }
}

impl RootCopy {
    /// Returns the version for the resolver if it is valid.
    ///
    /// # Errors
    /// Why it is not valid, as text.
    fn judge(zone: &Arc<Zone>, trust: &RootTrust, now: UnixTime) -> Result<RootCopy, String> {
        let serial = zone.serial();
        let refused = |why: &dyn std::fmt::Display| format!("serial {serial}: {why}");
        if let Some(fault) = ZonemdPolicy::Require.objection(zone) {
            return Err(refused(&fault));
        }
        let catalog = Catalog::new(zone.key()).with([Change::Serve(Arc::clone(zone))]);
        let catalog = catalog.map_err(|fault| refused(&fault))?;
        let mut copy = RootCopy { catalog, serial, until: None };
        copy.validate(trust, now).map_err(|why| refused(&why))?;
        let skew = Duration::from_secs(trust.settings.skew.into());
        let ends = [Type::ZONEMD, Type::DNSKEY].into_iter().flat_map(|rtype| copy.signed_until(rtype, now));
        copy.until = ends.map(|end| end.saturating_add(skew)).filter(|until| *until >= now).min();
        Ok(copy)
    }

    /// Validates the ZONEMD record as a resolver would validate an answer.
    fn validate(&self, trust: &RootTrust, now: UnixTime) -> Result<(), String> {
        let Some(anchors) = &trust.anchors else { return Ok(()) };
        let by = Validation { settings: &trust.settings, anchors, now };
        let (table, mut budget) =
            (TrustTable::new(MAX_VALIDATION_STEPS), ValidationBudget::new(ValidationLimits::default()));
        let cannot = || "its ZONEMD cannot be validated".to_owned();
        let response = self.response(Name::ROOT, Type::ZONEMD).ok_or_else(cannot)?;
        let mut validator = Validator::answer(response);
        for _ in 0..MAX_VALIDATION_STEPS {
            match validator.step(&by, &table, &mut budget) {
                Progress::Done(validated) => {
                    return match validated.security {
                        Security::Bogus(reason) => Err(format!("its ZONEMD is bogus: {reason}")),
                        // Without a trust anchor for the root, only the digest itself is checked (RFC 8976
                        // §4).
                        Security::Secure | Security::Insecure(_) | Security::Indeterminate => Ok(()),
                    };
                }
                Progress::Need(need) => match self.response(need.name(), need.rtype()) {
                    Some(response) => validator.receive(response, &by, &table),
                    None => validator.give_up(&by, &table),
                },
                Progress::Again(_) => validator.give_up(&by, &table),
            }
        }
        Err(cannot())
    }

    /// Returns when the signatures of a type at the apex expire.
    fn signed_until(&self, rtype: Type, now: UnixTime) -> Vec<UnixTime> {
        let sets = self.response(Name::ROOT, rtype).map(|response| response.sets).unwrap_or_default();
        let of_type = sets.iter().filter(|set| set.rtype == rtype);
        let ends = of_type
            .flat_map(|set| &set.signatures)
            .filter_map(|signature| Some(now.nearest(Rrsig::read(&signature.rdata).ok()?.expiration)));
        ends.collect()
    }

    /// Returns the version's response for a name, with DNSSEC records.
    fn response(&self, name: Name<'_>, rtype: Type) -> Option<Response> {
        let mut message = Vec::new();
        let written = self.respond(name, rtype, true, &mut message);
        written.then(|| Response::read(&message, Rcode::NOERROR).ok()).flatten()
    }

    /// Writes the response to a query into `message`. Returns whether it is complete.
    fn respond(&self, name: Name<'_>, qtype: Type, dnssec_ok: bool, message: &mut Vec<u8>) -> bool {
        own_zones::respond(&self.catalog, name, qtype, dnssec_ok, message)
    }
}

#[cfg(test)]
mod tests {
    use resolver::Partition;
    use testkit::keys::{SigningKey, Validity};
    use testkit::sign::sign_by;
    use testkit::{Chain, ModelRecord, name};
    use wire::{Class, Header, Ttl, Type};
    use zone::zonemd::{self, ZonemdHash};

    use super::*;

    /// When signatures are valid.
    const GOOD: Validity = Validity { inception: 1_000_000_000, expiration: 1_001_000_000 };

    fn signing_key() -> SigningKey {
        SigningKey::new(1, SigningKey::KSK)
    }

    /// A root zone signed with this key, with its digest.
    fn root(key: &SigningKey, validity: Validity) -> Arc<Zone> {
        Arc::new(testkit::build(Name::ROOT, &testkit::key(), &root_records(key, validity)))
    }

    fn root_records(key: &SigningKey, validity: Validity) -> Vec<ModelRecord> {
        let (apex, ttl) = (name("."), Ttl::from_secs(3600));
        let record = |rtype, rdata| ModelRecord { owner: apex, rtype, ttl, rdata };
        let server = name("a.root.").as_name().as_wire().to_vec();
        let numbers = [5u32, 3600, 600, 86_400, 60].map(u32::to_be_bytes).concat();
        let cut = name("example.");
        let records = [
            record(Type::SOA, [&server[..], &server, &numbers].concat()),
            record(Type::NS, server.clone()),
            record(Type::DNSKEY, key.dnskey.clone()),
            record(Type::ZONEMD, [&5u32.to_be_bytes()[..], &[1, 1], &[0; 48]].concat()),
            ModelRecord {
                owner: cut,
                rtype: Type::NS,
                ttl,
                rdata: name("ns.example.").as_name().as_wire().to_vec(),
            },
            ModelRecord { owner: name("ns.example."), rtype: Type::A, ttl, rdata: vec![192, 0, 2, 1] },
            ModelRecord {
                owner: cut,
                rtype: Type::DS,
                ttl,
                rdata: SigningKey::new(2, SigningKey::KSK).ds(cut.as_name()),
            },
        ];
        let sign = |owner, rtype, ttl, rdatas: &[Vec<u8>]| {
            vec![key.sign(Name::ROOT, owner, rtype, ttl, rdatas, validity)]
        };
        let mut records = sign_by(Name::ROOT, &records, &Chain::Nsec, &sign);
        let digest =
            zonemd::records(&testkit::build(Name::ROOT, &testkit::key(), &records), &[ZonemdHash::Sha384]);
        let over_it = key.sign(Name::ROOT, apex, Type::ZONEMD, ttl, &digest, validity);
        for record in &mut records {
            let covers = record.rdata.starts_with(&Type::ZONEMD.0.to_be_bytes());
            match record.rtype {
                Type::ZONEMD => record.rdata.clone_from(&digest[0]),
                Type::RRSIG if covers => record.rdata.clone_from(&over_it.rdata),
                _ => {}
            }
        }
        records
    }

    fn trust() -> RootTrust {
        let mut anchors = TrustAnchors::none();
        anchors.add_ds(Name::ROOT, &signing_key().ds(Name::ROOT)).expect("an anchor");
        RootTrust { settings: ValidationSettings::default(), anchors: Some(anchors) }
    }

    fn query_key(text: &str, qtype: Type) -> QueryKey {
        let name = name(text).as_name().to_lower();
        QueryKey {
            name,
            qtype,
            qclass: Class::IN,
            dnssec_ok: true,
            checking_disabled: true,
            partition: Partition::SHARED,
        }
    }

    fn judged(zone: &Arc<Zone>, trust: &RootTrust, now: u32) -> Result<Option<UnixTime>, String> {
        RootCopy::judge(zone, trust, UnixTime::from_secs(now.into())).map(|copy| copy.until)
    }

    #[test]
    fn a_version_counts_if_its_digest_is_right_and_signed_by_keys_that_are_trusted() {
        let (good, trust) = (root(&signing_key(), GOOD), trust());
        let skew = u64::from(trust.settings.skew);
        assert_eq!(
            judged(&good, &trust, GOOD.inception),
            Ok(Some(UnixTime::from_secs(u64::from(GOOD.expiration) + skew)))
        );
        let forged = root(&SigningKey::new(3, SigningKey::KSK), GOOD);
        let refused = judged(&forged, &trust, GOOD.inception).expect_err("bogus");
        assert!(refused.starts_with("serial 5: its ZONEMD is bogus: "), "{refused}");
        for when in [GOOD.inception - 3600, GOOD.expiration + 3600] {
            let refused = judged(&good, &trust, when).expect_err("not good at that time");
            assert!(refused.contains("its ZONEMD is bogus"), "{refused}");
        }
        // Without validation, or without an anchor for the root, only the digest is checked.
        let blind = RootTrust { anchors: None, ..trust.clone() };
        let without = RootTrust { anchors: Some(TrustAnchors::none()), ..trust };
        for trust in [blind, without] {
            assert!(judged(&forged, &trust, GOOD.inception).is_ok());
        }
    }

    #[test]
    fn a_version_that_is_not_what_its_digest_was_made_of_does_not_count() {
        let refused = |spoil: &dyn Fn(&mut Vec<ModelRecord>)| {
            let mut records = root_records(&signing_key(), GOOD);
            spoil(&mut records);
            let zone = Arc::new(testkit::build(Name::ROOT, &testkit::key(), &records));
            judged(&zone, &trust(), GOOD.inception).expect_err("refused")
        };
        let glue = |records: &mut Vec<ModelRecord>| {
            let of_host = records.iter_mut().filter(|record| record.rtype == Type::A);
            of_host.for_each(|record| record.rdata = vec![192, 0, 2, 66]);
        };
        assert!(refused(&glue).contains("the digest in ZONEMD is not that of the zone"));
        let without = |records: &mut Vec<ModelRecord>| records.retain(|record| record.rtype != Type::ZONEMD);
        assert_eq!(refused(&without), "serial 5: the zone has no ZONEMD");
        // Its digest is correct, but not signed.
        let unsigned = |records: &mut Vec<ModelRecord>| {
            records.retain(|record| !record.rdata.starts_with(&Type::ZONEMD.0.to_be_bytes()));
        };
        assert!(refused(&unsigned).contains("its ZONEMD is bogus"));
    }

    #[test]
    fn it_says_what_an_authoritative_server_would_say() {
        let copy = RootCopy::judge(
            &root(&signing_key(), GOOD),
            &trust(),
            UnixTime::from_secs(GOOD.inception.into()),
        )
        .expect("good");
        let mut message = Vec::new();
        let mut says = |text: &str, qtype| {
            assert!(copy.respond(name(text).as_name(), qtype, true, &mut message));
            let header = Header::of(&message).expect("a header");
            (header.rcode(), header.authoritative(), header.counts())
        };
        assert_eq!(
            says("www.example.", Type::A),
            (Rcode::NOERROR, false, [1, 0, 3, 1]),
            "NS, DS, RRSIG, glue"
        );
        assert_eq!(says("example.", Type::DS), (Rcode::NOERROR, true, [1, 2, 0, 0]));
        assert_eq!(says(".", Type::DNSKEY), (Rcode::NOERROR, true, [1, 2, 0, 0]));
        let (rcode, authoritative, [_, answers, authorities, _]) = says("nosuch.", Type::A);
        assert_eq!((rcode, authoritative, answers), (Rcode::NXDOMAIN, true, 0));
        assert!(authorities >= 4, "SOA and NSEC, signed");
    }

    #[test]
    fn it_is_asked_only_while_it_is_wanted_trusted_there_and_good() {
        let forever = Validity { expiration: u32::MAX / 2 + GOOD.inception, ..GOOD };
        let (local_root, zone) = (Arc::new(LocalRoot::default()), root(&signing_key(), forever));
        let asked = || local_root.respond(&query_key("nosuch.", Type::A), &mut Vec::new());
        let word = || local_root.status().map(|status| status.word);
        assert_eq!((asked(), word(), local_root.fallbacks()), (false, None, 0));
        local_root.want(true);
        assert_eq!((asked(), word(), local_root.fallbacks()), (false, Some("missing"), 1));
        local_root.take(Change::Serve(Arc::clone(&zone)));
        assert_eq!((asked(), word()), (false, Some("missing")), "no trust is set yet");
        local_root.trust(trust());
        assert_eq!((asked(), word(), local_root.fallbacks()), (true, Some("ok"), 2));
        // Other anchors, and the first ones again.
        let mut other = TrustAnchors::none();
        other.add_ds(Name::ROOT, &SigningKey::new(3, SigningKey::KSK).ds(Name::ROOT)).expect("an anchor");
        local_root.trust(RootTrust { anchors: Some(other), ..trust() });
        assert_eq!((asked(), word()), (false, Some("refused")));
        local_root.trust(trust());
        assert_eq!((asked(), word()), (true, Some("ok")));
        // It expires, and is valid again.
        local_root.take(Change::Unload(Box::new(name("."))));
        assert_eq!((asked(), word()), (false, Some("missing")));
        local_root.take(Change::Serve(Arc::clone(&zone)));
        assert!(asked());
        local_root.want(false);
        assert_eq!((asked(), word()), (false, None));
    }

    /// A version with its own keys, a digest that matches it and a high serial replaced the version in use
    /// before it was checked whether trusted keys sign it.
    #[test]
    fn a_bogus_version_replaced_the_good_one() {
        let forever = Validity { expiration: u32::MAX / 2 + GOOD.inception, ..GOOD };
        let (local_root, good) = (LocalRoot::default(), root(&signing_key(), forever));
        let forged = |serial| {
            let mut records = root_records(&SigningKey::new(3, SigningKey::KSK), forever);
            let soa = records.iter_mut().find(|record| record.rtype == Type::SOA).expect("an SOA");
            let at = soa.rdata.len() - 20;
            soa.rdata[at..at + 4].copy_from_slice(&u32::to_be_bytes(serial));
            Arc::new(testkit::build(Name::ROOT, &testkit::key(), &records))
        };
        let shown = || local_root.status().map(|status| (status.word, status.serial, status.fault.is_some()));
        local_root.want(true);
        local_root.trust(trust());
        // A version from a primary is not even accepted.
        let why = local_root.objection(&forged(6)).expect("an objection");
        assert!(why.starts_with("serial 6: "), "{why}");
        assert_eq!(shown(), Some(("refused", Some(Serial(6)), true)));
        assert!(!local_root.is_refused(), "no version is held");
        assert_eq!(local_root.objection(&good), None);
        local_root.take(Change::Serve(Arc::clone(&good)));
        assert_eq!(shown(), Some(("ok", Some(Serial(5)), false)));
        assert!(local_root.objection(&forged(9)).is_some());
        assert_eq!(shown(), Some(("ok", Some(Serial(5)), true)));
        // A version from a file is offered, and the one before stays in use.
        local_root.take(Change::Serve(forged(9)));
        assert_eq!((shown(), local_root.is_refused()), (Some(("ok", Some(Serial(5)), true)), false));
        assert!(local_root.respond(&query_key("nosuch.", Type::A), &mut Vec::new()));
        // If it is the only version, the primaries' version is accepted, whatever its serial.
        let alone = LocalRoot::default();
        alone.want(true);
        alone.trust(trust());
        alone.take(Change::Serve(forged(9)));
        assert!(alone.is_refused());
        alone.take(Change::Serve(good));
        assert!(!alone.is_refused() && alone.status().expect("wanted").fault.is_none());
    }

    /// A copy in use since a time at which it was valid.
    fn in_use(zone: &Arc<Zone>, trust: RootTrust, since: u32) -> Arc<LocalRoot> {
        let local_root = Arc::new(LocalRoot::default());
        local_root.want(true);
        local_root.trust(trust.clone());
        local_root.take(Change::Serve(Arc::clone(zone)));
        let copy =
            RootCopy::judge(zone, &trust, UnixTime::from_secs(since.into())).expect("good at that time");
        let mut state = lock(&local_root.state);
        (state.good, state.offered, state.refused) = (Some(Arc::clone(zone)), None, None);
        state.standing = Standing::InUse;
        *write(&local_root.in_use) = Some(Arc::new(copy));
        drop(state);
        local_root
    }

    fn word(local_root: &LocalRoot) -> &'static str {
        local_root.status().expect("wanted").word
    }

    #[test]
    fn signatures_end_while_a_version_is_in_use() {
        let zone = root(&signing_key(), GOOD);
        let asked =
            |local_root: &LocalRoot| local_root.respond(&query_key("nosuch.", Type::A), &mut Vec::new());
        let local_root = in_use(&zone, trust(), GOOD.inception);
        assert_eq!((asked(&local_root), word(&local_root)), (false, "refused"));
        let fault = local_root.status().and_then(|status| status.fault).expect("a fault");
        assert!(fault.contains("its ZONEMD is bogus: ") && fault.contains("expired"), "{fault}");
        // The status shows that, too, without a query in between.
        assert_eq!(word(&in_use(&zone, trust(), GOOD.inception)), "refused");
        // Without validation the copy stays in use.
        let local_root = in_use(&zone, RootTrust { anchors: None, ..trust() }, GOOD.inception);
        assert_eq!((asked(&local_root), word(&local_root)), (true, "ok"));
    }

    #[test]
    fn a_signature_that_nobody_made_keeps_no_version_in_use() {
        let mut records = root_records(&signing_key(), GOOD);
        // The digest does not cover its own signatures (RFC 8976 §3.3.1), so anyone may add some.
        let covers = |record: &&ModelRecord| record.rdata.starts_with(&Type::ZONEMD.0.to_be_bytes());
        let mut forged = records.iter().find(covers).cloned().expect("signed");
        // After the type, algorithm, labels and TTL; and in the signature itself.
        forged.rdata[8..12].copy_from_slice(&u32::MAX.wrapping_shr(1).to_be_bytes());
        *forged.rdata.last_mut().expect("a signature") ^= 1;
        records.push(forged);
        let zone = Arc::new(testkit::build(Name::ROOT, &testkit::key(), &records));
        let skew = u64::from(trust().settings.skew);
        assert_eq!(
            judged(&zone, &trust(), GOOD.inception),
            Ok(Some(UnixTime::from_secs(u64::from(GOOD.expiration) + skew)))
        );
        assert_eq!(word(&in_use(&zone, trust(), GOOD.inception)), "refused");
    }
}
