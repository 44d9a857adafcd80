//! The choice of the next server.

use std::net::SocketAddr;
use std::time::Instant;

use crate::config::ForwardConfig;
use crate::random::Random;
use crate::server_id::ServerId;
use crate::servers::Servers;

/// The tries of one lookup at one server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    /// The server.
    pub(crate) server: ServerId,
    /// Tries sent to it.
    pub(crate) tries: u32,
    /// Of these, tries without a reply in time.
    pub(crate) silent: u32,
    /// Of the silent ones, tries whose link failed.
    pub(crate) broken: u32,
    /// Of the failed links, those that the server refused.
    pub(crate) refused: u32,
    /// Its reply was useless: it is not asked again.
    pub(crate) spent: bool,
    /// It offers recursion, and its reply was not authoritative.
    pub(crate) recursive: bool,
}

impl Asked {
    /// Resets the tries for the next step of the lookup. A server with a useless reply stays excluded.
    pub(crate) fn goes_on(&mut self) {
        *self = Asked { tries: 0, silent: 0, broken: 0, refused: 0, ..*self };
    }

    /// Resets the tries for another kind of query: all servers are asked, the silent ones last.
    pub(crate) fn begins_again(&mut self) {
        let tries = u32::from(self.silent > 0 && !self.spent);
        *self = Asked { server: self.server, tries, recursive: self.recursive, ..Asked::default() };
    }

    /// Resets the tries and excludes the servers that do not offer recursion.
    pub(crate) fn is_asked_for_recursion(&mut self) {
        *self = Asked { spent: !self.recursive, ..Asked { server: self.server, ..Asked::default() } };
    }
}

/// Chooses the next server: the one asked least in this lookup, where a failing server counts one try more;
/// then one of the address family, IPv4 or IPv6, with fewer silent tries; then the fastest, where a server
/// never measured comes first; of failing ones the one asked longest ago. At times the first try explores: it
/// goes to any other server that is not failing.
///
/// Returns an index into `asked`.
pub(crate) fn next(
    asked: &[Asked],
    servers: &Servers,
    config: &ForwardConfig,
    random: &mut impl Random,
) -> Option<usize> {
    let is_v6 = |asked: &Asked| servers.get(asked.server).map(|server| server.upstream.address.is_ipv6());
    let mut silent = [0, 0];
    for asked in asked {
        silent[usize::from(is_v6(asked) == Some(true))] += asked.silent;
    }
    let rank = |at: &usize| {
        let asked = asked.get(*at)?;
        let server = servers.get(asked.server)?;
        let failing = server.is_failing();
        let last = if failing { server.last_asked() } else { None };
        let family = silent[usize::from(server.upstream.address.is_ipv6())];
        Some((asked.tries + u32::from(failing), last, family, server.rtt.smoothed(), *at))
    };
    let best = (0..asked.len()).filter(|&at| !asked[at].spent).min_by_key(rank)?;
    let first = asked.iter().all(|asked| asked.tries == 0 && !asked.spent);
    if !first || config.explore == 0 || random.below(config.explore) != 0 {
        return Some(best);
    }
    let sound = |at: &usize| servers.get(asked[*at].server).is_some_and(|server| !server.is_failing());
    let others: Vec<usize> = (0..asked.len()).filter(|&at| at != best).filter(sound).collect();
    let pick = random.below(others.len() as u32) as usize;
    Some(others.get(pick).copied().unwrap_or(best))
}

/// Returns a failing server that is due for a probe and that this lookup has not asked. The probe is a
/// duplicate of the query to another server.
pub(crate) fn probe(asked: &[Asked], servers: &Servers, now: Instant) -> Option<usize> {
    asked.iter().position(|asked| {
        asked.tries == 0
            && !asked.spent
            && servers.get(asked.server).is_some_and(|server| server.wants_probe(now))
    })
}

/// Excludes the servers at these addresses from the lookup.
pub(crate) fn set_aside(asked: &mut [Asked], servers: &Servers, unwanted: &[SocketAddr]) {
    for asked in asked.iter_mut().filter(|_| !unwanted.is_empty()) {
        asked.spent |= servers.address(asked.server).is_some_and(|address| unwanted.contains(&address));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::random::ChaCha;
    use crate::server::Server;

    /// Servers with these round-trip times in milliseconds; 0: never measured.
    fn servers(times: &[u64]) -> (Servers, Vec<Asked>) {
        let (mut servers, ids) = crate::servers::tests::servers(times.len() as u8);
        let asked: Vec<_> = ids.iter().map(|&server| Asked { server, ..Default::default() }).collect();
        for (asked, &ms) in asked.iter().zip(times).filter(|(_, ms)| **ms > 0) {
            at(&mut servers, asked).on_reply(Some(Duration::from_millis(ms)));
        }
        (servers, asked)
    }

    fn at<'s>(servers: &'s mut Servers, asked: &Asked) -> &'s mut Server {
        servers.get_mut(asked.server).expect("known")
    }

    fn plain() -> ForwardConfig {
        ForwardConfig { explore: 0, ..Default::default() }
    }

    fn pick(asked: &[Asked], servers: &Servers) -> Option<usize> {
        next(asked, servers, &plain(), &mut ChaCha::new([1; 32]))
    }

    #[test]
    fn the_fastest_is_first_and_the_others_follow() {
        let (servers, mut asked) = servers(&[30, 10, 20]);
        let mut order = Vec::new();
        for _ in 0..4 {
            let at = pick(&asked, &servers).expect("one is left");
            asked[at].tries += 1;
            order.push(at);
        }
        assert_eq!(order, [1, 2, 0, 1]);
    }

    #[test]
    fn one_never_measured_is_tried_first() {
        let (servers, asked) = servers(&[30, 10, 0]);
        assert_eq!(pick(&asked, &servers), Some(2));
    }

    #[test]
    fn a_failing_one_comes_behind_a_sound_one_asked_as_often() {
        let (mut servers, mut asked) = servers(&[10, 50]);
        at(&mut servers, &asked[0]).on_silence(Instant::now());
        assert_eq!(pick(&asked, &servers), Some(1));
        asked[1].tries = 2;
        assert_eq!(pick(&asked, &servers), Some(0));
    }

    #[test]
    fn where_all_fail_the_one_asked_longest_ago_is_next() {
        let (mut servers, asked) = servers(&[10, 20, 30]);
        let (now, config) = (Instant::now(), plain());
        for (n, after) in [(0, 3), (1, 1), (2, 2)] {
            at(&mut servers, &asked[n]).on_silence(now);
            at(&mut servers, &asked[n]).on_asked(now + Duration::from_secs(after), &config.timing);
        }
        assert_eq!(pick(&asked, &servers), Some(1));
    }

    #[test]
    fn one_whose_reply_was_of_no_use_is_not_asked_again() {
        let (servers, mut asked) = servers(&[10, 20]);
        asked[0].spent = true;
        assert_eq!(pick(&asked, &servers), Some(1));
        asked[1].spent = true;
        assert_eq!(pick(&asked, &servers), None);
    }

    #[test]
    fn one_lookup_in_twenty_explores_the_sound_ones() {
        let (mut servers, asked) = servers(&[10, 20, 30, 40]);
        at(&mut servers, &asked[3]).on_silence(Instant::now());
        let (config, mut random) = (ForwardConfig::default(), ChaCha::new([1; 32]));
        let mut counts = [0; 4];
        for _ in 0..10_000 {
            counts[next(&asked, &servers, &config, &mut random).expect("one")] += 1;
        }
        assert!((9_400..9_600).contains(&counts[0]), "{counts:?}");
        assert!(counts[1] > 200 && counts[2] > 200 && counts[3] == 0, "{counts:?}");
    }

    #[test]
    fn only_failing_ones_that_are_due_are_probed() {
        let (mut servers, asked) = servers(&[10, 20]);
        let now = Instant::now();
        assert_eq!(probe(&asked, &servers, now), None);
        at(&mut servers, &asked[1]).on_silence(now);
        assert_eq!(probe(&asked, &servers, now), Some(1));
        at(&mut servers, &asked[1]).on_asked(now, &plain().timing);
        assert_eq!(probe(&asked, &servers, now), None);
    }
}
