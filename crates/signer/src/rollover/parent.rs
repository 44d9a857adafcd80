//! What the servers of the parent say about the keys of a zone.

use wire::rdata::view::{Dnskey, Ds};
use wire::{Name, Ttl, UnixTime};

use super::facts::ParentView;
use super::state::ManagedKey;

impl ManagedKey {
    /// Whether a DS record, by its RDATA, is of this key.
    pub fn is_of_ds(&self, zone: Name<'_>, rdata: &[u8]) -> bool {
        let (Ok(key), Ok(ds)) = (Dnskey::read(&self.dnskey), Ds::read(rdata)) else { return false };
        dnssec::key::ds(zone, &key, ds.digest_type).is_some_and(|own| own == rdata)
    }
}

impl ParentView {
    /// Returns what the DS RRsets of all servers of the parent, by their RDATA, say about these keys.
    pub fn of(
        zone: Name<'_>,
        keys: &[ManagedKey],
        servers: &[&[Vec<u8>]],
        ds_ttl: Ttl,
        checked: UnixTime,
    ) -> ParentView {
        let has = |set: &[Vec<u8>], key: &ManagedKey| set.iter().any(|rdata| key.is_of_ds(zone, rdata));
        let which = |is: &dyn Fn(&ManagedKey) -> bool| {
            keys.iter().filter(|key| is(key)).map(|key| key.id).collect::<Vec<_>>()
        };
        let is_of_none = |rdata: &Vec<u8>| !keys.iter().any(|key| key.is_of_ds(zone, rdata));
        ParentView {
            checked,
            everywhere: which(&|key| !servers.is_empty() && servers.iter().all(|set| has(set, key))),
            somewhere: which(&|key| servers.iter().any(|set| has(set, key))),
            ds_ttl,
            any_other_ds: servers.iter().any(|set| set.iter().any(is_of_none)),
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::NameBuf;
    use wire::rdata::view::SigAlgorithm;

    use super::*;
    use crate::key::pair::PrivateKey;
    use crate::key::times::KeyTimes;
    use crate::key::{KeyRole, ZoneKey};
    use crate::rollover::{KeyId, KeyPurpose, KeyState};

    #[test]
    fn a_ds_counts_when_every_server_has_it_and_its_digest_is_that_of_the_key() {
        let zone: NameBuf = "example.".parse().expect("a name");
        let key = || {
            let private = PrivateKey::generate(SigAlgorithm::ED25519, 0).expect("a key");
            ZoneKey::new(zone.as_name(), KeyRole::KeySigning, private, KeyTimes::default())
        };
        let (a, b, other) = (key(), key(), key());
        let managed = |key: &ZoneKey| ManagedKey {
            id: KeyId::of(key),
            dnskey: key.dnskey().to_vec(),
            state: KeyState::new(KeyPurpose::Csk, 256),
        };
        let keys = [managed(&a), managed(&b)];
        let ds = |key: &ZoneKey, digest| key.ds(digest).expect("a digest");
        let (one, two) = (vec![ds(&a, Ds::SHA256), ds(&b, Ds::SHA256)], vec![ds(&a, 4)]);
        let view = |servers: &[&[Vec<u8>]]| {
            ParentView::of(zone.as_name(), &keys, servers, Ttl::from_secs(60), UnixTime::from_secs(5))
        };
        let both = view(&[&one, &two]);
        assert_eq!((both.everywhere, both.somewhere), (vec![keys[0].id], vec![keys[0].id, keys[1].id]));
        assert!(!both.any_other_ds);
        // The same tag and algorithm with another digest are another key's.
        let mut forged = ds(&a, Ds::SHA256);
        if let Some(last) = forged.last_mut() {
            *last ^= 1;
        }
        let wrong = view(&[&[forged, ds(&other, Ds::SHA256)]]);
        assert!(wrong.everywhere.is_empty() && wrong.somewhere.is_empty() && wrong.any_other_ds);
        assert!(view(&[]).everywhere.is_empty());
    }
}
