//! DNS cookies of the server (RFC 7873), in the form that servers of different makers share (RFC 9018).
//!
//! A client that sends the server cookie of an earlier reply shows that it receives what is sent to its
//! address. A server cookie is a hash of the client cookie, the client's address and the time, under a
//! secret. So nothing is stored for a client, and servers with the same secret accept each other's cookies.

#![forbid(unsafe_code)]

use std::fmt;
use std::hash::Hasher;
use std::net::IpAddr;
use std::str::FromStr;

use arc_swap::ArcSwap;
use siphasher::sip::SipHasher24;

/// Length of a client cookie in bytes (RFC 7873 §4).
pub const CLIENT_COOKIE: usize = 8;
/// Length of a server cookie of version 1 in bytes (RFC 9018 §4).
pub const SERVER_COOKIE: usize = 16;
/// Length of the option's data in a reply.
pub const WHOLE_COOKIE: usize = CLIENT_COOKIE + SERVER_COOKIE;
/// Lengths of a server cookie that a query may have (RFC 7873 §4), in bytes.
const SERVER_COOKIE_LENGTHS: std::ops::RangeInclusive<usize> = 8..=32;

/// The version of the server cookie's form.
const VERSION: u8 = 1;
/// Seconds after which a server cookie is no longer accepted (RFC 9018 §4.3).
pub const MAX_AGE: i32 = 3600;
/// Seconds after which a client gets a new server cookie (RFC 9018 §4.3).
const RENEWED_AFTER: i32 = 1800;
/// Most seconds that the clock of the server that made a cookie may be ahead (RFC 9018 §4.3).
const MAX_AHEAD: i32 = 300;
/// Most secrets at a time: the one that makes cookies, and those before and after it.
pub const MAX_SECRETS: usize = 3;

/// A secret that cookies are made with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CookieSecret([u8; 16]);

impl CookieSecret {
    /// Returns the secret of these bytes.
    pub const fn new(bytes: [u8; 16]) -> Self {
        CookieSecret(bytes)
    }

    /// Returns the hash of a client cookie, the first half of a server cookie, and the client's address.
    fn hash(&self, client: &[u8; CLIENT_COOKIE], head: [u8; 8], address: IpAddr) -> [u8; 8] {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(client);
        hasher.write(&head);
        match address.to_canonical() {
            IpAddr::V4(address) => hasher.write(&address.octets()),
            IpAddr::V6(address) => hasher.write(&address.octets()),
        }
        hasher.finish().to_le_bytes()
    }

    fn server_cookie(&self, client: &[u8; CLIENT_COOKIE], now: u32, address: IpAddr) -> [u8; SERVER_COOKIE] {
        let head = head_at(now);
        let mut cookie = [0; SERVER_COOKIE];
        cookie[..8].copy_from_slice(&head);
        cookie[8..].copy_from_slice(&self.hash(client, head, address));
        cookie
    }
}

/// A secret is not printed.
impl fmt::Debug for CookieSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CookieSecret")
    }
}

/// The text is no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadCookieSecret;

impl fmt::Display for BadCookieSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a cookie secret is 128 bits in 32 hexadecimal digits")
    }
}
impl std::error::Error for BadCookieSecret {}

impl FromStr for CookieSecret {
    type Err = BadCookieSecret;

    /// Reads 32 hexadecimal digits, the form of BIND, Knot DNS, NSD and Unbound.
    fn from_str(text: &str) -> Result<Self, BadCookieSecret> {
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(BadCookieSecret);
        }
        u128::from_str_radix(text, 16)
            .map(|bits| CookieSecret(bits.to_be_bytes()))
            .map_err(|_| BadCookieSecret)
    }
}

/// What a query's COOKIE option shows about its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CookieStanding {
    /// It has a server cookie for this address: the sender receives what is sent there.
    Valid,
    /// It has a client cookie only.
    ClientOnly,
    /// It has a server cookie that is too old, for another address, or of an unknown secret or form.
    Invalid,
}

impl CookieStanding {
    /// Its label in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            CookieStanding::Valid => "valid",
            CookieStanding::ClientOnly => "client-only",
            CookieStanding::Invalid => "invalid",
        }
    }
}

/// The cookie of a query, and the option's data in the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedCookie {
    /// What the query's cookie shows.
    pub standing: CookieStanding,
    /// Client cookie and server cookie of the reply.
    pub reply: [u8; WHOLE_COOKIE],
}

/// Whether an option's data has the length of a cookie (RFC 7873 §5.2.2): a client cookie, alone or with a
/// server cookie.
pub fn is_well_formed(data: &[u8]) -> bool {
    data.len() == CLIENT_COOKIE
        || data.len().checked_sub(CLIENT_COOKIE).is_some_and(|server| SERVER_COOKIE_LENGTHS.contains(&server))
}

/// The secrets of a server. The first can be replaced while cookies are checked.
#[derive(Debug)]
pub struct CookieSecrets(ArcSwap<Vec<CookieSecret>>);

impl CookieSecrets {
    /// Makes cookies with the first secret, and accepts those of all, of which [`MAX_SECRETS`] are kept.
    pub fn new(mut secrets: Vec<CookieSecret>) -> Self {
        secrets.truncate(MAX_SECRETS);
        CookieSecrets(ArcSwap::from_pointee(secrets))
    }

    /// Makes cookies with this secret from now on. Those of the one before are still accepted.
    pub fn rotate(&self, secret: CookieSecret) {
        self.0.rcu(|old| old.first().map_or_else(|| vec![secret], |before| vec![secret, *before]));
    }

    /// Checks the COOKIE option of a query from this address at this time, in seconds since 1970, and returns
    /// the option of the reply. `None` if its length is wrong, or if there is no secret.
    pub fn check(&self, data: &[u8], address: IpAddr, now: u32) -> Option<CheckedCookie> {
        let (client, server) = data.split_first_chunk::<CLIENT_COOKIE>()?;
        if !is_well_formed(data) {
            return None;
        }
        let secrets = self.0.load();
        let first = secrets.first()?;
        let age = valid_age(&secrets, client, server, address, now);
        let standing = match age {
            Some(_) => CookieStanding::Valid,
            None if server.is_empty() => CookieStanding::ClientOnly,
            None => CookieStanding::Invalid,
        };
        // Servers with the same secret send the same cookie back, also where one of them is being given a new
        // one. What is not in the form of this server's own cookies is replaced.
        let is_own = |age: i32| {
            let head = head_at(now.wrapping_sub_signed(age));
            server.split_at_checked(8) == Some((&head, &first.hash(client, head, address)))
        };
        let mut reply = [0; WHOLE_COOKIE];
        reply[..CLIENT_COOKIE].copy_from_slice(client);
        reply[CLIENT_COOKIE..].copy_from_slice(&match age {
            Some(age) if age <= RENEWED_AFTER && is_own(age) => {
                server.try_into().unwrap_or([0; SERVER_COOKIE])
            }
            _ => first.server_cookie(client, now, address),
        });
        Some(CheckedCookie { standing, reply })
    }
}

/// The first half of the server cookies of this time: version, three reserved bytes, time.
fn head_at(now: u32) -> [u8; 8] {
    let [a, b, c, d] = now.to_be_bytes();
    [VERSION, 0, 0, 0, a, b, c, d]
}

/// Returns the age of a server cookie in seconds, negative if the clock of its server is ahead, if the cookie
/// is valid.
fn valid_age(
    secrets: &[CookieSecret],
    client: &[u8; CLIENT_COOKIE],
    server: &[u8],
    address: IpAddr,
    now: u32,
) -> Option<i32> {
    let (head, hash) = server.split_first_chunk::<8>()?;
    // What the reserved bytes contain is not checked, but hashed (RFC 9018, appendix A.3).
    let [VERSION, _, _, _, time @ ..] = *head else { return None };
    // Serial arithmetic (RFC 9018 §4.3): the 32 bits of the time wrap in 2106.
    let age = now.wrapping_sub(u32::from_be_bytes(time)).cast_signed();
    if !(-MAX_AHEAD..=MAX_AGE).contains(&age) {
        return None;
    }
    let made = |secret: &CookieSecret| is_equal(&secret.hash(client, *head, address), hash);
    secrets.iter().any(made).then_some(age)
}

/// Compares two hashes in a time that does not depend on where they differ.
fn is_equal(own: &[u8; 8], other: &[u8]) -> bool {
    own.len() == other.len() && own.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex")).collect()
    }

    fn secrets(texts: &[&str]) -> CookieSecrets {
        CookieSecrets::new(texts.iter().map(|text| text.parse().expect("a secret")).collect())
    }

    const SECRET: &str = "e5e973e5a6b2a43f48e7dc849e37bfcf";
    const OTHER: &str = "445536bcd2513298075a5d379663c962";
    const CLIENT: &str = "2464c4abcf10c957";
    const NOW: u32 = 1_559_731_985;

    fn address() -> IpAddr {
        "198.51.100.100".parse().expect("an address")
    }

    #[test]
    fn the_first_example_of_rfc_9018() {
        let checked = secrets(&[SECRET]).check(&hex(CLIENT), address(), NOW).expect("a cookie");
        assert_eq!(checked.standing, CookieStanding::ClientOnly);
        assert_eq!(checked.reply.to_vec(), hex("2464c4abcf10c957010000005cf79f111f8130c3eee29480"));
    }

    #[test]
    fn a_cookie_is_valid_for_its_client_address_and_hour_only() {
        let all = secrets(&[SECRET]);
        let cookie = all.check(&hex(CLIENT), address(), NOW).expect("a cookie").reply;
        let standing = |data: &[u8], address, now| all.check(data, address, now).map(|found| found.standing);
        let (valid, invalid) = (Some(CookieStanding::Valid), Some(CookieStanding::Invalid));
        assert_eq!(standing(&cookie, address(), NOW), valid);
        let mapped = IpAddr::V6("::ffff:198.51.100.100".parse().expect("an address"));
        assert_eq!(standing(&cookie, mapped, NOW), valid);
        assert_eq!(standing(&cookie, "198.51.100.101".parse().expect("an address"), NOW), invalid);
        // RFC 9018 §4.3: an hour back, five minutes ahead.
        for (now, expected) in
            [(NOW + 3600, valid), (NOW + 3601, invalid), (NOW - 300, valid), (NOW - 301, invalid)]
        {
            assert_eq!(standing(&cookie, address(), now), expected, "{now}");
        }
        for at in 0..WHOLE_COOKIE {
            let mut forged = cookie;
            forged[at] ^= 1;
            assert_eq!(standing(&forged, address(), NOW), invalid, "byte {at}");
        }
    }

    #[test]
    fn a_cookie_is_sent_back_for_half_an_hour_and_then_renewed() {
        let all = secrets(&[SECRET]);
        let cookie = all.check(&hex(CLIENT), address(), NOW).expect("a cookie").reply;
        let later = |now| all.check(&cookie, address(), now).expect("a cookie").reply;
        assert_eq!(later(NOW + 1800), cookie);
        assert_ne!(later(NOW + 1801), cookie);
        assert_eq!(later(NOW + 1801)[12..16], (NOW + 1801).to_be_bytes());
    }

    #[test]
    fn the_time_wraps() {
        let all = secrets(&[SECRET]);
        let cookie = all.check(&hex(CLIENT), address(), u32::MAX - 10).expect("a cookie").reply;
        assert_eq!(all.check(&cookie, address(), 20).map(|c| c.standing), Some(CookieStanding::Valid));
    }

    #[test]
    fn a_secret_is_replaced_without_losing_a_client() {
        let before = secrets(&[SECRET]);
        let cookie = before.check(&hex(CLIENT), address(), NOW).expect("a cookie").reply;
        // RFC 9018 §5: the new one is accepted everywhere first, then makes cookies, then the old one goes.
        for all in [&[SECRET, OTHER], &[OTHER, SECRET]] {
            let checked = secrets(all).check(&cookie, address(), NOW).expect("a cookie");
            assert_eq!(checked.standing, CookieStanding::Valid);
            assert_eq!(checked.reply == cookie, all[0] == SECRET);
        }
        let gone = secrets(&[OTHER]).check(&cookie, address(), NOW).expect("a cookie");
        assert_eq!(gone.standing, CookieStanding::Invalid);

        before.rotate(OTHER.parse().expect("a secret"));
        assert_eq!(before.check(&cookie, address(), NOW).map(|c| c.standing), Some(CookieStanding::Valid));
        before.rotate("dd3bdf9344b678b185a6f5cb60fca715".parse().expect("a secret"));
        assert_eq!(before.check(&cookie, address(), NOW).map(|c| c.standing), Some(CookieStanding::Invalid));
    }

    #[test]
    fn lengths_of_rfc_7873() {
        let all = secrets(&[SECRET]);
        for len in 0..64 {
            let expected = len == 8 || (16..=40).contains(&len);
            assert_eq!(is_well_formed(&vec![1; len]), expected, "{len}");
            assert_eq!(all.check(&vec![1; len], address(), NOW).is_some(), expected, "{len}");
        }
        assert_eq!(secrets(&[]).check(&hex(CLIENT), address(), NOW), None);
    }

    #[test]
    fn a_million_forged_cookies_are_refused() {
        let all = secrets(&[SECRET, OTHER]);
        let mut cookie = all.check(&hex(CLIENT), address(), NOW).expect("a cookie").reply;
        let (good, mut state) = (cookie, 1_u64);
        for _ in 0..1_000_000 {
            // A linear congruential generator (Knuth): any hash but the right one.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            cookie[16..].copy_from_slice(&state.to_be_bytes());
            let found = all.check(&cookie, address(), NOW).expect("a cookie");
            assert!(found.standing == CookieStanding::Invalid || cookie == good);
        }
    }

    #[test]
    fn secrets_are_32_hexadecimal_digits_and_are_not_printed() {
        for text in ["", "e5e973e5", "x5e973e5a6b2a43f48e7dc849e37bfcf", "+5e973e5a6b2a43f48e7dc849e37bfcf"] {
            assert_eq!(text.parse::<CookieSecret>(), Err(BadCookieSecret), "{text}");
        }
        let secret: CookieSecret = SECRET.parse().expect("a secret");
        assert_eq!(format!("{secret:?}"), "CookieSecret");
    }
}
