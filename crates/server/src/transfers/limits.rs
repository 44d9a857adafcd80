//! How many transfers there may be at a time, in all and to one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use crate::sync::lock;

/// The places for transfers.
#[derive(Debug, Default)]
pub(super) struct Slots(Mutex<Taken>);

#[derive(Debug, Default)]
struct Taken {
    most: usize,
    most_per_client: usize,
    all: usize,
    by_client: HashMap<IpAddr, usize>,
}

impl Slots {
    /// So many there may be from now on, in all and to one address. What is under way goes on.
    pub(super) fn set(&self, most: usize, most_per_client: usize) {
        let mut taken = lock(&self.0);
        (taken.most, taken.most_per_client) = (most, most_per_client);
    }

    /// A place, if one is free.
    pub(super) fn take(self: &Arc<Self>, client: IpAddr) -> Option<Slot> {
        let mut taken = lock(&self.0);
        let theirs = taken.by_client.get(&client).copied().unwrap_or(0);
        if taken.all >= taken.most || theirs >= taken.most_per_client {
            return None;
        }
        taken.all += 1;
        taken.by_client.insert(client, theirs + 1);
        Some(Slot { slots: Arc::clone(self), client })
    }

    /// How many are taken.
    pub(super) fn taken(&self) -> usize {
        lock(&self.0).all
    }
}

/// The place of one transfer; dropping it frees the place.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Slots>,
    client: IpAddr,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = lock(&self.slots.0);
        taken.all = taken.all.saturating_sub(1);
        if let Some(theirs) = taken.by_client.get_mut(&self.client) {
            *theirs = theirs.saturating_sub(1);
            if *theirs == 0 {
                taken.by_client.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_in_all_and_by_client_and_come_back() {
        let slots = Arc::new(Slots::default());
        slots.set(3, 2);
        let [one, other] = [1, 2].map(|n| IpAddr::from([192, 0, 2, n]));
        let (first, _second) = (slots.take(one).expect("a place"), slots.take(one).expect("a place"));
        assert!(slots.take(one).is_none(), "two are its share");
        let third = slots.take(other).expect("a place");
        assert!(slots.take(other).is_none(), "three are all there are");
        drop(first);
        assert_eq!(slots.taken(), 2);
        let _again = slots.take(one).expect("a place");
        drop(third);
        slots.set(1, 1);
        assert!(slots.take(other).is_none(), "more are under way than may be now");
    }
}
