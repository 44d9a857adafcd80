//! [`KeyPlan`]: what a step decides. The caller makes the next version of the zone accordingly.

use std::fmt;

use wire::UnixTime;
use wire::rdata::view::SigAlgorithm;
use wording::moment;

use super::state::{KeyDuty, KeyId, KeyPurpose};
use crate::keyset::KeyUse;

/// A key that has to be generated. [`Keyring::add`](super::Keyring::add) takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewKey {
    /// What it is for.
    pub role: KeyPurpose,
    /// Its algorithm.
    pub algorithm: SigAlgorithm,
    /// Bits of the modulus of RSA keys; 0 for other algorithms.
    pub bits: usize,
    /// The key that it replaces.
    pub predecessor: Option<KeyId>,
    /// What it does at first.
    pub duty: KeyDuty,
}

/// What the next version of the zone has, and what else is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPlan {
    /// What each key of the ring does in the next version.
    pub uses: Vec<(KeyId, KeyUse)>,
    /// Keys to be generated. If there are any, the caller adds them and calls
    /// [`step`](super::Keyring::step) once more before it makes a version.
    pub generate: Vec<NewKey>,
    /// Keys whose state differs from that of their file. They stay in this list until
    /// [`written`](super::Keyring::written) is called.
    pub changed: Vec<KeyId>,
    /// Keys whose files are no longer needed. [`remove`](super::Keyring::remove) takes them from the ring.
    pub purge: Vec<KeyId>,
    /// When the next step has something to do, if nothing else happens before.
    pub wake: Option<UnixTime>,
    /// The zone becomes unsigned: all signatures, keys, CDS records and the chain of denial are removed.
    pub unsign: bool,
    /// The CDS and CDNSKEY RRsets have the record that deletes all DS records (RFC 8078 §4), and no other.
    pub cds_delete: bool,
    /// Keys whose DS record the parent is to have.
    pub parent_ds: Vec<KeyId>,
    /// Why nothing further happens with a key.
    pub waits: Vec<KeyWait>,
    /// Which DNSKEY, CDS and CDNSKEY RRsets the next version has; `None`: those of the keys, which sign them.
    pub presigned: Option<SlotUse>,
}

/// The key sets of a version whose KSK is offline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotUse {
    /// When the slot begins that has the sets; `None`: those of the version in service stay.
    pub slot: Option<UnixTime>,
    /// With its CDS and CDNSKEY RRsets.
    pub with_sync: bool,
}

impl KeyPlan {
    /// Returns the use of a key; none if the ring does not have it.
    pub fn use_of(&self, id: KeyId) -> KeyUse {
        self.uses.iter().find(|(other, _)| *other == id).map(|(_, used)| *used).unwrap_or_default()
    }
}

/// What a rollover waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyWait {
    /// The key; `None` if it is about the zone.
    pub key: Option<KeyId>,
    /// The cause.
    pub cause: WaitCause,
    /// When it ends; `None` if another party decides.
    pub until: Option<UnixTime>,
}

/// Causes of [`KeyWait`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitCause {
    /// Caches may have a DNSKEY RRset without the key.
    DnskeyCaches,
    /// Caches may have a DNSKEY RRset with the key.
    OldDnskeyCaches,
    /// Some RRsets have no signature of the key yet.
    Signing,
    /// Caches may have RRsets without a signature of the key.
    SignatureCaches,
    /// Some RRsets still have a signature of the key.
    OldSignatures,
    /// Caches may have RRsets with a signature of the key.
    OldSignatureCaches,
    /// The parent does not have the key's DS on all servers.
    ParentPublishes,
    /// The parent still has the key's DS.
    ParentWithdraws,
    /// Caches may have a DS RRset without that of the key.
    DsCaches,
    /// Caches may have a DS RRset with that of the key.
    OldDsCaches,
    /// The parent may still find CDS records without that of the key, and act on them.
    OldCds,
    /// Keys are to be generated.
    Generation,
    /// The key is rolled later, by its lifetime.
    Lifetime,
    /// The zone is to be unsigned, and the parent has a DS of a key that is not in the ring.
    OtherDs,
    /// DNSKEY records of others are in the zone: it is not unsigned, their algorithm is not removed, and no
    /// rollover starts by itself.
    ForeignKeys,
    /// The KSK is offline, and no slot of a response has begun.
    NoResponse,
    /// The last slot of the responses has ended.
    ResponseEnded,
    /// The slot of now lacks a key that caches need: the slot before it stays.
    SlotHeld,
}

impl fmt::Display for WaitCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DnskeyCaches => "caches may have a DNSKEY RRset without the key",
            Self::OldDnskeyCaches => "caches may have a DNSKEY RRset with the key",
            Self::Signing => "some RRsets have no signature of the key yet",
            Self::SignatureCaches => "caches may have RRsets without a signature of the key",
            Self::OldSignatures => "some RRsets still have a signature of the key",
            Self::OldSignatureCaches => "caches may have RRsets with a signature of the key",
            Self::ParentPublishes => "not all servers of the parent have the DS record of the key",
            Self::ParentWithdraws => "the parent still has the DS record of the key",
            Self::DsCaches => "caches may have a DS RRset without the DS record of the key",
            Self::OldDsCaches => "caches may have the DS record of the key",
            Self::OldCds => "the parent may find CDS records without that of the key",
            Self::Generation => "a key must be generated",
            Self::Lifetime => "the lifetime of the key has not ended",
            Self::OtherDs => "the parent has a DS record of a key that is not here",
            Self::ForeignKeys => "the zone has DNSKEY records whose private keys are not here",
            Self::NoResponse => "the KSK is offline, and no signed key response has begun: import one",
            Self::ResponseEnded => {
                "the KSK is offline, and the last signed key response has ended: import one"
            }
            Self::SlotHeld => {
                "the slot of the signed key response lacks a key that caches need: the one before it stays"
            }
        })
    }
}

/// Why a request about a key was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RollFault {
    /// The ring has no such key.
    NoKey,
    /// The key is being replaced already, by this key if it is there.
    Rolling(Option<KeyId>),
    /// The records of this key are not in all caches yet; the time is the earliest at which they may be, if
    /// it is known.
    NotEstablished(KeyId, WaitCause, Option<UnixTime>),
    /// The previous key of this role is still being removed.
    Unfinished(KeyId, WaitCause, Option<UnixTime>),
    /// No other key can take over: roll the key.
    NoSuccessor,
    /// The policy has no standby key for this one.
    NoStandby,
    /// This standby key cannot take over yet; the time is the earliest at which it may, if it is known.
    StandbyNotReady(KeyId, WaitCause, Option<UnixTime>),
    /// The key is a standby key itself.
    IsStandby,
    /// The policy wants an unsigned zone.
    Unsigned,
    /// The key has no DS record.
    NoDs,
    /// The key is in use, so its DS record is to stay.
    DsNeeded,
    /// The KSK is offline: the schedule of the ZSKs and the responses decide.
    Offline,
}

impl fmt::Display for RollFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let until = |f: &mut fmt::Formatter<'_>, time: &Option<UnixTime>| match time {
            Some(time) => write!(f, "; earliest time: {}", moment(*time)),
            None => Ok(()),
        };
        match self {
            Self::NoKey => f.write_str("the zone has no such key"),
            Self::Rolling(Some(key)) => write!(f, "the key is being replaced by key {key}"),
            Self::Rolling(None) => f.write_str("the key is being replaced"),
            Self::NotEstablished(key, cause, time) => {
                write!(f, "key {key} is still being introduced: {cause}")?;
                until(f, time)
            }
            Self::Unfinished(key, cause, time) => {
                write!(f, "key {key} is still being removed: {cause}")?;
                until(f, time)
            }
            Self::NoStandby => f.write_str(
                "there is no standby key for it (`standby-ksk` and `standby-zsk` of the policy): roll the key \
                 without `--emergency`",
            ),
            Self::StandbyNotReady(key, cause, time) => {
                write!(f, "standby key {key} cannot take over yet: {cause}")?;
                until(f, time)
            }
            Self::IsStandby => f.write_str("the key is a standby key, which signs nothing"),
            Self::NoSuccessor => f.write_str("no other key can take over; roll the key"),
            Self::Unsigned => f.write_str("the policy wants an unsigned zone"),
            Self::NoDs => f.write_str("the key is a ZSK, which has no DS record"),
            Self::Offline => f.write_str(
                "the policy has `offline-ksk`: ZSKs are replaced as planned by `key pregenerate`, KSKs by the \
                 next signed key response",
            ),
            Self::DsNeeded => f.write_str("the key is in use, its DS record must stay"),
        }
    }
}
impl std::error::Error for RollFault {}
