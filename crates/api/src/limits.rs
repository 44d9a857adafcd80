//! Limits of each client address: requests in a second, and different wrong tokens in a minute. The table is
//! bounded; addresses that find it full share one entry.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use threads::sync::lock;

/// Largest number of addresses with their own entry.
const MAX_CLIENTS: usize = 4096;
/// The time over which the rate of requests is averaged.
const RATE_PERIOD: Duration = Duration::from_secs(10);
/// The time in which wrong tokens are counted.
const WRONG_PERIOD: Duration = Duration::from_secs(60);
/// The bits of an IPv6 address that its network has; a client can use all addresses of one.
const NETWORK_BITS: u32 = 64;

/// The requests of each client address.
#[derive(Debug, Default)]
pub(crate) struct ClientLimits(Mutex<ClientTable>);

#[derive(Debug, Default)]
struct ClientTable {
    clients: HashMap<IpAddr, ClientRequests>,
    /// The addresses that find the table full.
    others: ClientRequests,
    /// Hashes wrong tokens, with a key of its own.
    hasher: RandomState,
}

/// The requests of one address.
#[derive(Debug, Default)]
struct ClientRequests {
    /// When the requests of the past would have been admitted at the limit: a time ahead of now by at most
    /// [`RATE_PERIOD`].
    admitted_until: Option<Instant>,
    /// The wrong tokens of the current minute.
    wrong: Option<WrongTokens>,
}

/// The wrong tokens of one address in one minute.
#[derive(Debug)]
struct WrongTokens {
    /// When the first of them came.
    since: Instant,
    /// Their hashes, each once.
    hashes: Vec<u64>,
}

impl WrongTokens {
    fn has_ended(&self, now: Instant) -> bool {
        self.since + WRONG_PERIOD <= now
    }
}

impl ClientRequests {
    fn is_idle(&self, now: Instant) -> bool {
        self.admitted_until.is_none_or(|until| until <= now)
            && self.wrong.as_ref().is_none_or(|wrong| wrong.has_ended(now))
    }
}

impl ClientTable {
    fn entry(&mut self, client: IpAddr, now: Instant) -> &mut ClientRequests {
        let network = network(client);
        if self.clients.len() >= MAX_CLIENTS && !self.clients.contains_key(&network) {
            self.clients.retain(|_, requests| !requests.is_idle(now));
        }
        match self.clients.len() >= MAX_CLIENTS && !self.clients.contains_key(&network) {
            true => &mut self.others,
            false => self.clients.entry(network).or_default(),
        }
    }
}

/// Returns the address under which the requests of a client are counted: its network for IPv6.
fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) => {
            let bits = address.to_bits() >> (128 - NETWORK_BITS) << (128 - NETWORK_BITS);
            IpAddr::V6(Ipv6Addr::from_bits(bits))
        }
        address => address,
    }
}

/// Returns a time in whole seconds, rounded up.
fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

impl ClientLimits {
    /// Counts a request. Returns the seconds after which it may be repeated if the address has more than
    /// `per_second`.
    pub(crate) fn admit(&self, client: IpAddr, per_second: u32, now: Instant) -> Result<(), u64> {
        let mut table = lock(&self.0);
        let requests = table.entry(client, now);
        let interval = Duration::from_secs(1) / per_second.max(1);
        let until = requests.admitted_until.map_or(now, |until| until.max(now)) + interval;
        match until.checked_duration_since(now + RATE_PERIOD.max(interval)).filter(|over| !over.is_zero()) {
            Some(over) => Err(seconds(over)),
            None => {
                requests.admitted_until = Some(until);
                Ok(())
            }
        }
    }

    /// Returns the seconds after which tokens of the address are looked at again, if it had `most` different
    /// wrong ones within a minute.
    pub(crate) fn locked_out(&self, client: IpAddr, most: u32, now: Instant) -> Option<u64> {
        let mut table = lock(&self.0);
        let wrong = table.entry(client, now).wrong.as_ref()?;
        let left = (wrong.since + WRONG_PERIOD).checked_duration_since(now).filter(|left| !left.is_zero())?;
        (wrong.hashes.len() >= most as usize).then_some(seconds(left))
    }

    /// Counts a wrong token. One that is sent again is not counted again: a program that still has a token
    /// which is withdrawn guesses nothing, and does not lock out others behind its address.
    pub(crate) fn wrong_token(&self, client: IpAddr, secret: &[u8], now: Instant) {
        let mut table = lock(&self.0);
        let hash = table.hasher.hash_one(secret);
        let requests = table.entry(client, now);
        match requests.wrong.as_mut().filter(|wrong| !wrong.has_ended(now)) {
            Some(wrong) if wrong.hashes.contains(&hash) => {}
            Some(wrong) => wrong.hashes.push(hash),
            None => requests.wrong = Some(WrongTokens { since: now, hashes: vec![hash] }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u32) -> IpAddr {
        IpAddr::from(number.to_be_bytes())
    }

    #[test]
    fn requests_beyond_the_rate_are_refused_until_it_is_kept_again() {
        let (limits, begun) = (ClientLimits::default(), Instant::now());
        let admitted = (0..100).filter(|_| limits.admit(client(1), 2, begun).is_ok()).count();
        assert_eq!(admitted, 20, "2 each second on average of ten seconds");
        assert_eq!(limits.admit(client(1), 2, begun), Err(1));
        assert_eq!(limits.admit(client(2), 2, begun), Ok(()), "another client");
        let later = begun + Duration::from_secs(3);
        assert_eq!((0..100).filter(|_| limits.admit(client(1), 2, later).is_ok()).count(), 6);
    }

    #[test]
    fn an_address_with_different_wrong_tokens_is_refused_for_the_rest_of_a_minute() {
        let (limits, begun) = (ClientLimits::default(), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        for second in 0..3 {
            assert_eq!(limits.locked_out(client(1), 3, at(second)), None);
            limits.wrong_token(client(1), &[second as u8], at(second));
        }
        assert_eq!(limits.locked_out(client(1), 3, at(10)), Some(50));
        assert_eq!(limits.locked_out(client(2), 3, at(10)), None);
        assert_eq!(limits.locked_out(client(1), 3, at(60)), None);
        limits.wrong_token(client(1), b"another", at(61));
        assert_eq!(limits.locked_out(client(1), 3, at(62)), None, "a new minute");
    }

    #[test]
    fn a_program_with_a_token_of_before_locked_out_all_others_of_its_address() {
        let (limits, now) = (ClientLimits::default(), Instant::now());
        for _ in 0..100 {
            limits.wrong_token(client(1), b"withdrawn", now);
        }
        assert_eq!(limits.locked_out(client(1), 2, now), None);
        limits.wrong_token(client(1), b"a guess", now);
        assert!(limits.locked_out(client(1), 2, now).is_some());
    }

    #[test]
    fn all_addresses_of_a_network_are_one_client() {
        let (limits, now) = (ClientLimits::default(), Instant::now());
        let address = |text: &str| -> IpAddr { text.parse().expect("an address") };
        limits.wrong_token(address("2001:db8::1"), b"a", now);
        limits.wrong_token(address("2001:db8::ffff:2"), b"b", now);
        assert!(limits.locked_out(address("2001:db8::3"), 2, now).is_some());
        assert!(limits.locked_out(address("2001:db8:0:1::3"), 2, now).is_none());
        limits.wrong_token(address("::ffff:192.0.2.1"), b"a", now);
        assert!(limits.locked_out(address("192.0.2.1"), 1, now).is_some());
    }

    #[test]
    fn memory_is_bounded_whatever_the_number_of_addresses() {
        let (limits, now) = (ClientLimits::default(), Instant::now());
        for number in 0..2 * MAX_CLIENTS as u32 {
            limits.wrong_token(client(number), &number.to_be_bytes(), now);
        }
        assert_eq!(lock(&limits.0).clients.len(), MAX_CLIENTS);
        assert!(limits.locked_out(client(9_999_999), 10, now).is_some(), "further ones share an entry");
        assert!(limits.locked_out(client(0), 10, now).is_none(), "not those before");
        let later = now + WRONG_PERIOD;
        limits.wrong_token(client(9_999_999), b"a", later);
        assert!(lock(&limits.0).clients.len() < 3, "entries without effect make room");
    }
}
