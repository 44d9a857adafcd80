//! The state of a key: [`KeyState`] has how far caches have each of its records, [`KeyDates`] when its
//! events were.

use std::fmt;
use std::time::Duration;

use wire::UnixTime;
use wire::rdata::view::{Dnskey, SigAlgorithm};

use crate::key::times::{KeyEvent, KeyTimes};
use crate::key::{KeyRole, ZoneKey};

/// Which key of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId {
    /// The algorithm.
    pub algorithm: SigAlgorithm,
    /// The key tag without the REVOKE bit (RFC 4034 appendix B).
    pub tag: u16,
}

impl KeyId {
    /// Returns the id of a key.
    pub fn of(key: &ZoneKey) -> KeyId {
        KeyId { algorithm: key.algorithm(), tag: key.tags()[0] }
    }

    /// Returns the id of the key in a DNSKEY record; `None` if the RDATA is malformed.
    pub fn of_dnskey(rdata: &[u8]) -> Option<KeyId> {
        let key = Dnskey::read(rdata).ok()?;
        let flags = (key.flags & !Dnskey::REVOKE).to_be_bytes();
        let plain = [&flags[..], rdata.get(2..)?].concat();
        let tag = dnssec::key::tag(&Dnskey::read(&plain).ok()?);
        Some(KeyId { algorithm: key.algorithm, tag })
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tag, self.algorithm)
    }
}

/// What a key is for in a rollover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyPurpose {
    /// Key-signing key: it signs the DNSKEY RRset, and the parent's DS refers to it.
    Ksk,
    /// Zone-signing key: it signs all other RRsets.
    Zsk,
    /// Combined signing key: it does both.
    Csk,
}

impl KeyPurpose {
    /// Returns the purpose of a key without `.state` file. `has_zsk`: the zone has a ZSK of the same
    /// algorithm; without one, a key with the SEP bit is taken to sign everything.
    pub fn of(role: KeyRole, has_zsk: bool) -> KeyPurpose {
        match role {
            KeyRole::ZoneSigning => Self::Zsk,
            KeyRole::KeySigning if has_zsk => Self::Ksk,
            KeyRole::KeySigning => Self::Csk,
        }
    }

    /// Whether the parent's DS refers to the key, and it signs the DNSKEY RRset.
    pub fn signs_keys(self) -> bool {
        self != Self::Zsk
    }

    /// Whether the key signs the data of the zone.
    pub fn signs_zone(self) -> bool {
        self != Self::Ksk
    }

    /// Returns the role of the key's DNSKEY record.
    pub fn key_role(self) -> KeyRole {
        if self.signs_keys() { KeyRole::KeySigning } else { KeyRole::ZoneSigning }
    }
}

impl fmt::Display for KeyPurpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ksk => "KSK",
            Self::Zsk => "ZSK",
            Self::Csk => "CSK",
        })
    }
}

/// What caches have of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordState {
    /// No cache has the record.
    #[default]
    Hidden,
    /// The record is in service, but some caches may still have data without it.
    Rumoured,
    /// Each cache has the record, or asks for it.
    Omnipresent,
    /// The record is no longer in service, or not with all data, but some caches may still have it.
    Unretentive,
}

impl RecordState {
    /// Its word in RFC 7583 §3.1 and in `.state` files.
    pub fn word(self) -> &'static str {
        match self {
            Self::Hidden => "hidden",
            Self::Rumoured => "rumoured",
            Self::Omnipresent => "omnipresent",
            Self::Unretentive => "unretentive",
        }
    }
}

/// The state of one record of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordTrack {
    /// What caches have.
    pub state: RecordState,
    /// When the record came into service, or went out of service, completely: the time from which caches are
    /// waited for. `None`: that has not happened yet, as while some RRsets lack the signature of a key. The
    /// time lies in the future if caches may hold a version with a greater TTL than the present one has.
    pub since: Option<UnixTime>,
}

impl RecordTrack {
    /// Returns a record in this state since `since`.
    pub const fn new(state: RecordState, since: Option<UnixTime>) -> RecordTrack {
        RecordTrack { state, since }
    }

    /// Whether no cache has the record.
    pub fn is_hidden(&self) -> bool {
        self.state == RecordState::Hidden
    }

    /// Whether every cache has the record.
    pub fn is_omnipresent(&self) -> bool {
        self.state == RecordState::Omnipresent
    }

    /// Whether the record is in service.
    pub fn is_in_service(&self) -> bool {
        matches!(self.state, RecordState::Rumoured | RecordState::Omnipresent)
    }
}

/// What a key is to become.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyGoal {
    /// Its records go.
    Hidden,
    /// Its records come, and stay.
    #[default]
    Omnipresent,
}

/// What a key does while it is in the zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyDuty {
    /// It signs.
    #[default]
    Active,
    /// Its DNSKEY record, and of a KSK its DS record, are there, and it signs nothing until it takes over in
    /// an emergency.
    Standby,
    /// Another key has taken over in an emergency: it signs nothing, and goes.
    Dropped,
}

impl KeyDuty {
    /// Its word in `.state` files and for operators.
    pub fn word(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Standby => "standby",
            Self::Dropped => "dropped",
        }
    }
}

/// When the events of a key were, or are planned, as BIND's `.state` files have them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyDates {
    /// The key was generated.
    pub generated: Option<UnixTime>,
    /// Its DNSKEY record was first seen in service.
    pub published: Option<UnixTime>,
    /// Its signatures were first seen in service.
    pub active: Option<UnixTime>,
    /// When its successor is to take over, which may be in the future.
    pub retired: Option<UnixTime>,
    /// Its DNSKEY record went out of service.
    pub removed: Option<UnixTime>,
    /// All servers of the parent had its DS record.
    pub ds_publish: Option<UnixTime>,
    /// No server of the parent had its DS record any more.
    pub ds_removed: Option<UnixTime>,
    /// Its CDS and CDNSKEY records came into service.
    pub publish_cds: Option<UnixTime>,
    /// Its CDS and CDNSKEY records were no longer to be in service.
    pub delete_cds: Option<UnixTime>,
}

/// The state of a key in its rollovers (RFC 7583).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyState {
    /// What the key is for.
    pub role: KeyPurpose,
    /// The size of the key in bits.
    pub bits: usize,
    /// Time from the first use to the start of the successor; `None`: rolled on request only.
    pub lifetime: Option<Duration>,
    /// The key that this one replaces.
    pub predecessor: Option<KeyId>,
    /// The key that replaces this one.
    pub successor: Option<KeyId>,
    /// What the key is to become.
    pub goal: KeyGoal,
    /// What it does meanwhile.
    pub duty: KeyDuty,
    /// When its events were.
    pub dates: KeyDates,
    /// Its DNSKEY record.
    pub dnskey: RecordTrack,
    /// Its signatures over the data of the zone.
    pub zrrsig: RecordTrack,
    /// Its signature over the DNSKEY RRset.
    pub krrsig: RecordTrack,
    /// Its DS record at the parent.
    pub ds: RecordTrack,
}

impl KeyState {
    /// Returns the state of a key of which nothing is in service.
    pub fn new(role: KeyPurpose, bits: usize) -> KeyState {
        KeyState {
            role,
            bits,
            lifetime: None,
            predecessor: None,
            successor: None,
            goal: KeyGoal::Omnipresent,
            duty: KeyDuty::Active,
            dates: KeyDates::default(),
            dnskey: RecordTrack::default(),
            zrrsig: RecordTrack::default(),
            krrsig: RecordTrack::default(),
            ds: RecordTrack::default(),
        }
    }

    /// Returns the state of a key without `.state` file, by the times of its events at `now`. No record is
    /// assumed to be in all caches: the facts about the zone start the waits. A key with a time of its
    /// generation only is not in use.
    pub fn by_times(role: KeyPurpose, bits: usize, times: &KeyTimes, now: UnixTime) -> KeyState {
        let dates = KeyDates {
            generated: times.get(KeyEvent::Created),
            published: times.get(KeyEvent::Publish),
            active: times.get(KeyEvent::Activate),
            retired: times.get(KeyEvent::Inactive),
            removed: times.get(KeyEvent::Delete),
            ds_publish: times.get(KeyEvent::DsPublish),
            ds_removed: times.get(KeyEvent::DsRemoved),
            publish_cds: times.get(KeyEvent::SyncPublish),
            delete_cds: times.get(KeyEvent::SyncDelete),
        };
        let mut state = KeyState { dates, ..KeyState::new(role, bits) };
        let others = KeyEvent::ALL.into_iter().filter(|event| *event != KeyEvent::Created);
        let is_new = dates.generated.is_some() && others.into_iter().all(|event| times.get(event).is_none());
        if is_new {
            return state;
        }
        let ended = |event| times.has_come(event, now);
        if ended(KeyEvent::Inactive) || ended(KeyEvent::Delete) {
            state.goal = KeyGoal::Hidden;
        }
        let track = |in_service, was_in_service| {
            let state = match (in_service, was_in_service) {
                (true, _) => RecordState::Rumoured,
                (false, true) => RecordState::Unretentive,
                (false, false) => RecordState::Hidden,
            };
            RecordTrack::new(state, None)
        };
        state.dnskey = track(times.is_published(now), ended(KeyEvent::Delete));
        let active = track(times.is_active(now), ended(KeyEvent::Inactive));
        if role.signs_zone() {
            state.zrrsig = active;
        }
        if role.signs_keys() {
            state.krrsig = active;
            // Without a time of the DS record the parent may have it.
            let withdrawn = ended(KeyEvent::DsRemoved) || ended(KeyEvent::SyncDelete);
            state.ds = track(times.is_active(now) && !withdrawn, active.state != RecordState::Hidden);
        }
        state
    }

    /// Returns the four records of the key.
    pub fn tracks(&self) -> [&RecordTrack; 4] {
        [&self.dnskey, &self.zrrsig, &self.krrsig, &self.ds]
    }

    /// Whether the key is kept for an emergency.
    pub fn is_standby(&self) -> bool {
        self.duty == KeyDuty::Standby
    }

    /// Whether it can take over at once: each cache has its DNSKEY record, and of a KSK its DS record.
    pub fn can_take_over(&self) -> bool {
        let has_ds = !self.role.signs_keys() || self.ds.is_omnipresent();
        self.is_standby() && self.goal == KeyGoal::Omnipresent && self.dnskey.is_omnipresent() && has_ds
    }

    /// Whether no cache has anything of the key.
    pub fn is_hidden(&self) -> bool {
        self.tracks().into_iter().all(RecordTrack::is_hidden)
    }

    /// Whether nothing of the key was ever in service.
    pub fn is_unused(&self) -> bool {
        let KeyDates { published, active, removed, .. } = self.dates;
        self.is_hidden() && [published, active, removed].iter().all(Option::is_none)
    }
}

/// A key of a zone with its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedKey {
    /// Which key it is.
    pub id: KeyId,
    /// RDATA of its DNSKEY record.
    pub dnskey: Vec<u8>,
    /// Its state.
    pub state: KeyState,
}
