//! [`KeyTimes`]: when a key is published, signs and is removed, as key files of BIND say it.

use wire::UnixTime;

/// An event in the life of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyEvent {
    /// The key was generated.
    Created,
    /// Its DNSKEY record is added to the zone.
    Publish,
    /// It begins to sign.
    Activate,
    /// Its DNSKEY record gets the REVOKE bit (RFC 5011 §2.1).
    Revoke,
    /// It no longer signs.
    Inactive,
    /// Its DNSKEY record is removed from the zone.
    Delete,
    /// Its DS record was added to the parent.
    DsPublish,
    /// Its CDS and CDNSKEY records are added to the zone (RFC 7344).
    SyncPublish,
    /// Its CDS and CDNSKEY records are removed from the zone.
    SyncDelete,
    /// Its DS record was removed from the parent.
    DsRemoved,
}

impl KeyEvent {
    /// All events, in the order of the files.
    pub const ALL: [KeyEvent; 10] = [
        Self::Created,
        Self::Publish,
        Self::Activate,
        Self::Revoke,
        Self::Inactive,
        Self::Delete,
        Self::DsPublish,
        Self::SyncPublish,
        Self::SyncDelete,
        Self::DsRemoved,
    ];

    /// Returns its name in key files.
    pub fn field(self) -> &'static str {
        match self {
            Self::Created => "Created",
            Self::Publish => "Publish",
            Self::Activate => "Activate",
            Self::Revoke => "Revoke",
            Self::Inactive => "Inactive",
            Self::Delete => "Delete",
            Self::DsPublish => "DSPublish",
            Self::SyncPublish => "SyncPublish",
            Self::SyncDelete => "SyncDelete",
            Self::DsRemoved => "DSRemoved",
        }
    }
}

/// The times of a key's events, as far as they are set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyTimes([Option<UnixTime>; KeyEvent::ALL.len()]);

impl KeyTimes {
    /// Returns the time of an event.
    pub fn get(&self, event: KeyEvent) -> Option<UnixTime> {
        self.0[event as usize]
    }

    /// Sets the time of an event.
    pub fn set(&mut self, event: KeyEvent, time: UnixTime) {
        self.0[event as usize] = Some(time);
    }

    /// Whether the event has a time, and `now` is not before it.
    pub fn has_come(&self, event: KeyEvent, now: UnixTime) -> bool {
        self.get(event).is_some_and(|time| time <= now)
    }

    /// Whether the DNSKEY record is in the zone at `now`. A file without any time for it means always.
    pub fn is_published(&self, now: UnixTime) -> bool {
        self.has_begun(&[KeyEvent::Publish, KeyEvent::Activate], now) && !self.has_come(KeyEvent::Delete, now)
    }

    /// Whether the key signs at `now`. A file without any time for it means always.
    pub fn is_active(&self, now: UnixTime) -> bool {
        self.is_published(now)
            && self.has_begun(&[KeyEvent::Activate], now)
            && !self.has_come(KeyEvent::Inactive, now)
    }

    /// Whether CDS and CDNSKEY records of the key are in the zone at `now`, if the zone has any.
    pub fn is_synced(&self, now: UnixTime) -> bool {
        self.has_begun(&[KeyEvent::SyncPublish], now) && !self.has_come(KeyEvent::SyncDelete, now)
    }

    /// Whether one of the events has come, or none of them has a time.
    fn has_begun(&self, events: &[KeyEvent], now: UnixTime) -> bool {
        events.iter().any(|&event| self.has_come(event, now))
            || events.iter().all(|&event| self.get(event).is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_without_times_is_published_and_signs() {
        let (times, now) = (KeyTimes::default(), UnixTime::from_secs(1000));
        assert!(times.is_published(now) && times.is_active(now) && times.is_synced(now));
    }

    #[test]
    fn each_event_has_its_effect_from_its_second_on() {
        let mut times = KeyTimes::default();
        let at = UnixTime::from_secs;
        for (i, event) in [KeyEvent::Publish, KeyEvent::Activate, KeyEvent::Inactive, KeyEvent::Delete]
            .into_iter()
            .enumerate()
        {
            times.set(event, at(100 * (i as u64 + 1)));
        }
        let state = |second| (times.is_published(at(second)), times.is_active(at(second)));
        assert_eq!([99, 100, 199].map(state), [(false, false), (true, false), (true, false)]);
        assert_eq!([200, 299, 300].map(state), [(true, true), (true, true), (true, false)]);
        assert_eq!([399, 400].map(state), [(true, false), (false, false)]);
    }

    #[test]
    fn events_have_the_places_of_their_order() {
        for (i, event) in KeyEvent::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, i);
        }
    }
}
