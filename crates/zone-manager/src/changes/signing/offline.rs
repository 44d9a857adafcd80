//! Zones whose KSK is offline: their ZSKs are generated ahead of time, and the DNSKEY, CDS and CDNSKEY RRsets
//! come with their signatures from a signed key response.

use std::time::Duration;

use signer::key::ZoneKey;
use signer::keyset::{KeySetFault, ZoneKeys};
use signer::policy::SigningGoal;
use signer::rollover::offline::{
    KeySchedule, OfflineKeys, ResponseTerms, ScheduleTimes, SignedKeyResponse, check,
};
use signer::rollover::{KeyDuty, KeyId, KeyPurpose, NewKey, RollFault, SlotUse};
use signer::rrset::PresignedSet;
use tracing::warn;
use update::is_signed;
use wire::rdata::view::Rrsig;
use wire::{Type, UnixTime};
use wording::moment;
use zone::Zone;

use super::{SigningFault, ZoneSigner, rdatas_at_apex};

/// How often an operator is reminded of responses that end.
const REMIND_EVERY: Duration = Duration::from_secs(23 * 3600);
/// The types of the sets that the KSK signs.
const SETS: [Type; 3] = [Type::DNSKEY, Type::CDNSKEY, Type::CDS];

/// What a zone whose KSK is offline has beside its keys.
#[derive(Default)]
pub(super) struct OfflineZone {
    /// The schedule of its ZSKs, and its responses.
    pub(super) keys: OfflineKeys,
    /// Until when the DNSKEY RRset in service has valid signatures, at the last look.
    pub(super) covered: Option<UnixTime>,
    /// When an operator was last reminded that responses end.
    reminded: Option<UnixTime>,
}

/// The responses of a zone whose KSK is offline, for operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OfflineStatus {
    /// When the slot begins that is published; `None`: no slot is.
    pub slot: Option<UnixTime>,
    /// When the next slot begins.
    pub next_slot: Option<UnixTime>,
    /// When the signatures of the last slot expire; `None`: there is no response.
    pub until: Option<UnixTime>,
    /// Until when ZSKs are planned; `None`: without an end.
    pub keys_until: Option<UnixTime>,
}

impl ZoneSigner {
    /// Reads the responses and the schedule of a zone whose KSK is offline, if they were not read, or forgets
    /// them if it no longer is.
    pub(super) fn read_offline(&mut self, zone: &Zone, now: UnixTime) -> Result<(), SigningFault> {
        let policy = &self.rules.policy;
        let is_offline = match policy.goal {
            SigningGoal::Signed => policy.offline_ksk,
            // A zone that was signed so far is to become unsigned.
            SigningGoal::Insecure => self.offline.is_some() || self.store.has_responses()?,
        };
        if !is_offline {
            if self.offline.take().is_some() {
                self.ring = self.store.ring(now)?;
            }
            return Ok(());
        }
        if self.offline.is_none() {
            self.load_offline(now)?;
        }
        if let Some(offline) = &mut self.offline {
            offline.covered = covered(zone, now);
        }
        Ok(())
    }

    fn load_offline(&mut self, now: UnixTime) -> Result<(), SigningFault> {
        self.ring = self.store.ring_with_offline(now)?;
        for id in self.store.private_ksks()? {
            warn!(
                "zone {}: the private KSK {id} is still on this server, and its policy has `offline-ksk`: move the \
                .private file to the machine that signs requests",
                self.apex
            );
        }
        let response = self.store.responses()?.unwrap_or_default();
        self.offline = Some(OfflineZone::default());
        self.set_schedule(response)
    }

    /// Sets the responses, and joins them with the schedule of the ZSKs.
    fn set_schedule(&mut self, response: SignedKeyResponse) -> Result<(), SigningFault> {
        let times = self.schedule_times();
        let zsks = self.store.times()?.into_iter().filter_map(|(id, times)| {
            let key = self.ring.key(id).filter(|key| key.state.role == KeyPurpose::Zsk)?;
            Some((id, KeySchedule::of(&times, &key.state)))
        });
        let keys = OfflineKeys::new(response, zsks.collect(), times.tail);
        if let Some(offline) = &mut self.offline {
            offline.keys = keys;
        }
        // A slot of the same time may have other sets.
        self.keys = None;
        Ok(())
    }

    fn schedule_times(&self) -> ScheduleTimes {
        ScheduleTimes::of(&self.rules.policy, self.facts.largest_ttl.max(self.seen_ttl))
    }

    /// Returns the keys with the sets that the plan wants; `None`: the zone cannot be signed now.
    pub(super) fn presigned_keys(
        &self,
        zone: &Zone,
        used: SlotUse,
    ) -> Result<Option<ZoneKeys>, SigningFault> {
        let Some(offline) = &self.offline else { return Ok(None) };
        let slots = &offline.keys.response.slots;
        let slot = slots.iter().find(|slot| Some(slot.inception) == used.slot);
        let mut sets = match slot {
            Some(slot) => slot.sets.clone(),
            None => SETS.into_iter().filter_map(|rtype| set_of(zone, rtype)).collect(),
        };
        sets.retain(|set| set.rtype == Type::DNSKEY || used.with_sync && self.rules.policy.sync);
        if sets.iter().all(|set| set.rtype != Type::DNSKEY || set.sigs.is_empty()) {
            return match is_signed(zone) {
                true => Err(KeySetFault::NoActiveKey.into()),
                false => Ok(None),
            };
        }
        let with_use = |key: ZoneKey| {
            let used = self.plan.use_of(KeyId::of(&key));
            (key, used)
        };
        let keys = self.store.keys()?.into_iter().map(with_use).collect();
        match ZoneKeys::with_presigned(self.apex.as_name(), keys, sets) {
            Err(KeySetFault::NoActiveKey) if !is_signed(zone) => Ok(None),
            keys => Ok(Some(keys?)),
        }
    }

    /// Reminds operators that the responses end.
    pub(super) fn remind(&mut self, now: UnixTime) {
        let validity = self.rules.policy.signature_validity;
        let zone = &self.apex;
        let Some(offline) = &mut self.offline else { return };
        let is_new = offline.reminded.is_none_or(|at| now >= at.saturating_add(REMIND_EVERY));
        let end = offline.keys.response.end();
        let is_late = end.is_none_or(|end| end.saturating_sub(validity) <= now);
        if !is_late {
            offline.reminded = None;
        } else if is_new {
            offline.reminded = Some(now);
            match end {
                Some(end) if end > now => warn!(
                    "zone {zone}: the signatures of the last signed key response expire at {}: import the next one \
                    before",
                    moment(end)
                ),
                Some(end) => warn!(
                    "zone {zone}: the signatures of the last signed key response have expired at {}: import the \
                    next one",
                    moment(end)
                ),
                None => {
                    warn!("zone {zone}: its KSK is offline, and there is no signed key response: import one")
                }
            }
        }
    }

    /// Returns what operators see of the responses.
    pub(super) fn offline_status(&self) -> Option<OfflineStatus> {
        let keys = &self.offline.as_ref()?.keys;
        let slots = keys.response.slots.iter().map(|slot| slot.inception);
        Some(OfflineStatus {
            slot: self.plan.presigned.and_then(|used| used.slot),
            next_slot: slots.into_iter().find(|inception| *inception > self.facts.now),
            until: keys.response.end(),
            keys_until: keys.keys_end(),
        })
    }

    fn offline(&self) -> Result<&OfflineZone, SigningFault> {
        let none = "the policy of the zone does not have `offline-ksk`";
        self.offline.as_ref().ok_or_else(|| SigningFault::Refused(none.into()))
    }

    /// Refuses what operators cannot ask of keys of a zone whose KSK is offline.
    pub(super) fn check_online(&self) -> Result<(), SigningFault> {
        match self.offline {
            Some(_) => Err(SigningFault::Refused(RollFault::Offline.to_string())),
            None => Ok(()),
        }
    }

    /// Generates the ZSKs that are missing until a time.
    pub(super) fn pregenerate(&mut self, until: UnixTime) -> Result<String, SigningFault> {
        let (now, times) = (self.facts.now, self.schedule_times());
        let keys = &self.offline()?.keys;
        let policy = self.rules.policy.clone();
        let last = keys.zsks().last().map(|(id, _)| *id);
        if let Some(other) = last.filter(|id| id.algorithm != policy.zsk.algorithm) {
            return Err(SigningFault::Refused(format!(
                "the zone has the key {other}, and the policy another algorithm: an algorithm is changed while the \
                 KSK is online"
            )));
        }
        let since = last.and_then(|id| self.ring.key(id)?.state.dates.active);
        let refused =
            |fault: signer::rollover::offline::ScheduleFault| SigningFault::Refused(fault.to_string());
        let missing = keys.missing(&policy, times, since, now, until).map_err(refused)?;
        let response = keys.response.clone();
        let mut made = Vec::new();
        for schedule in &missing {
            let new = NewKey {
                role: KeyPurpose::Zsk,
                algorithm: policy.zsk.algorithm,
                bits: policy.zsk.bits,
                predecessor: None,
                duty: KeyDuty::Active,
            };
            let (ttl, times) = (policy.dnskey_ttl, schedule.times(now));
            made.push(self.store.generate(&new, &mut self.ring, ttl, times, now)?);
        }
        let changed: Vec<KeyId> = made.clone();
        self.store.write_states(&mut self.ring, &changed)?;
        self.set_schedule(response)?;
        let keys = &self.offline()?.keys;
        let planned = match keys.keys_end() {
            Some(end) => format!("ZSKs are planned until {}", moment(end)),
            None => "the last ZSK has no end".to_owned(),
        };
        let made: Vec<String> = made.iter().map(|id| id.to_string()).collect();
        Ok(match &made[..] {
            [] => format!("no key is missing; {planned}"),
            [one] => format!("key {one} is generated; {planned}"),
            all => format!("keys {} are generated; {planned}", all.join(", ")),
        })
    }

    /// Returns the text of a request.
    pub(super) fn request(
        &self,
        from: Option<UnixTime>,
        until: Option<UnixTime>,
        now: UnixTime,
    ) -> Result<String, SigningFault> {
        let refused = |text: String| SigningFault::Refused(text);
        let keys = &self.offline()?.keys;
        let no_end = || refused("the last ZSK has no end: say with --until when the request ends".into());
        let until = match until.or(keys.keys_end()) {
            Some(until) => until,
            // Without keys, that is the fault.
            None if keys.zsks().is_empty() => UnixTime::from_secs(u64::MAX),
            None => return Err(no_end()),
        };
        let dnskey_of = |id| self.ring.key(id).map(|key| key.dnskey.clone());
        let request = keys.request(from.unwrap_or(now), until, self.rules.policy.dnskey_ttl, dnskey_of);
        let request = request.map_err(|fault| refused(fault.to_string()))?;
        Ok(request.write(self.apex.as_name(), now))
    }

    /// Takes a response, if it is good.
    pub(super) fn import(&mut self, text: &str) -> Result<String, SigningFault> {
        let (now, apex) = (self.facts.now, self.apex.clone());
        let refused = |fault: String| SigningFault::Refused(format!("the response is refused: line {fault}"));
        let offline = self.offline()?;
        let response = SignedKeyResponse::parse(text, apex.as_name());
        let response = response.map_err(|fault| refused(fault.to_string()))?;
        let keys = self.ring.keys();
        let signing = keys.iter().filter(|key| key.state.role.signs_zone() && !key.state.zrrsig.is_hidden());
        let signing: Vec<KeyId> = signing.map(|key| key.id).collect();
        let trusted = keys.iter().filter(|key| key.state.role.signs_keys() && !key.state.ds.is_hidden());
        let trusted: Vec<KeyId> = trusted.map(|key| key.id).collect();
        let terms = ResponseTerms {
            zone: apex.as_name(),
            now,
            offline: &offline.keys,
            signing: &signing,
            trusted: &trusted,
            covered: offline.covered,
            zone_delay: self.rules.policy.zone_propagation_delay,
        };
        check::check(&response, &terms).map_err(|fault| refused(fault.to_string()))?;
        let mut joined = offline.keys.response.followed_by(&response);
        joined.forget_past(now);
        for (id, dnskey) in self.ring.new_ksks(&joined) {
            self.store.add_offline(id, dnskey, &mut self.ring, self.rules.policy.dnskey_ttl, now)?;
        }
        self.store.write_responses(&joined, now)?;
        let (first, end) = (response.slots.first().map(|slot| slot.inception), joined.end());
        let said = format!(
            "the signed key response is accepted: {} slots, from {} until {}",
            response.slots.len(),
            first.map(moment).unwrap_or_default(),
            end.map(moment).unwrap_or_default()
        );
        self.set_schedule(joined)?;
        if let Some(offline) = &mut self.offline {
            offline.reminded = None;
        }
        Ok(said)
    }
}

/// Returns an RRset of the apex with its signatures, as a version has it.
fn set_of(zone: &Zone, rtype: Type) -> Option<PresignedSet> {
    let set = zone.apex_node().rrset(rtype)?;
    let mut rdatas = rdatas_at_apex(zone, rtype);
    rdatas.sort_unstable();
    let sig = |record: zone::store::Rdata<'_>| {
        let mut rdata = Vec::new();
        record.copy_to(&mut rdata);
        (0, rdata)
    };
    Some(PresignedSet { line: 0, rtype, ttl: set.ttl(), rdatas, sigs: set.sig_rdatas().map(sig).collect() })
}

/// Until when the DNSKEY RRset of a version has valid signatures.
fn covered(zone: &Zone, now: UnixTime) -> Option<UnixTime> {
    let sigs = set_of(zone, Type::DNSKEY)?.sigs;
    let ends = sigs.iter().filter_map(|(_, sig)| Some(now.nearest(Rrsig::read(sig).ok()?.expiration)));
    ends.max()
}
