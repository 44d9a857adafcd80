//! Limits on replies of other programs.
//!
//! The programs count replies, most of them by network and kind; nomen counts 256 bytes of a reply as one, by
//! address and three networks. The limit of the other program for a network becomes the limit of the smallest
//! network of nomen that contains it, so that no network gets more than before.

/// The networks that nomen counts, and the multiples of an address's limit that they have by default.
const IPV4: [(u8, u64); 3] = [(24, 2), (20, 16), (18, 48)];
const IPV6: [(u8, u64); 3] = [(64, 2), (56, 3), (48, 4)];

/// The prefix lengths of the networks that a program counts together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lengths {
    pub(crate) ipv4: u8,
    pub(crate) ipv6: u8,
}

/// Multiples of an address's limit for the networks that contain it.
pub(crate) type Factors = ([u64; 3], [u64; 3]);

/// Limits on replies of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourceRates {
    /// Answers, replies without one, NXDOMAIN and errors per second; `None` is no limit.
    pub(crate) rates: [Option<u64>; 4],
    /// The time whose replies may be sent at once, in milliseconds.
    pub(crate) burst: u64,
    /// One of this many limited replies is sent truncated; 0 for none.
    pub(crate) slip: u64,
    /// Whether limited replies are sent all the same.
    pub(crate) dry_run: bool,
    /// Networks without limits.
    pub(crate) exempt: Vec<String>,
    pub(crate) factors: Factors,
    /// Whether a network that the program counts together may get more here.
    pub(crate) is_wider: bool,
}

impl SourceRates {
    /// Limits of networks of these prefix lengths.
    pub(crate) fn of_networks(rates: [Option<u64>; 4], slip: u64, lengths: Lengths) -> Self {
        let is_wider = lengths.ipv4 < IPV4[2].0 || lengths.ipv6 < IPV6[2].0;
        let factors = (factors(lengths.ipv4, 32, IPV4), factors(lengths.ipv6, 128, IPV6));
        let none = Vec::new();
        Self { rates, burst: 1000, slip, dry_run: false, exempt: none, factors, is_wider }
    }

    /// The stricter one of each limit.
    pub(crate) fn stricter(self, other: &Self) -> Self {
        let least = |at: usize| match (self.rates[at], other.rates[at]) {
            (Some(one), Some(two)) => Some(one.min(two)),
            (one, two) => one.or(two),
        };
        let fewer = |one: [u64; 3], two: [u64; 3]| std::array::from_fn(|at| one[at].min(two[at]));
        let exempt = self.exempt.iter().filter(|network| other.exempt.contains(network)).cloned();
        Self {
            rates: std::array::from_fn(least),
            burst: self.burst.min(other.burst),
            // 0 is none.
            slip: if self.slip == 0 || other.slip == 0 { 0 } else { self.slip.max(other.slip) },
            dry_run: self.dry_run && other.dry_run,
            exempt: exempt.collect(),
            factors: (fewer(self.factors.0, other.factors.0), fewer(self.factors.1, other.factors.1)),
            is_wider: self.is_wider || other.is_wider,
        }
    }
}

/// The multiples for an address that the program counts together with its network of this prefix length;
/// `all` bits are an address of its own.
fn factors(length: u8, all: u8, networks: [(u8, u64); 3]) -> [u64; 3] {
    let usual = networks.map(|(_, factor)| factor);
    if length >= all {
        return usual;
    }
    let at = networks.iter().position(|(own, _)| *own <= length).unwrap_or(networks.len() - 1);
    std::array::from_fn(|n| if n <= at { 1 } else { usual[n].div_ceil(usual[at]) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_network_gets_more_than_the_one_that_contains_it() {
        for (length, expected) in [
            (32, [2, 16, 48]),
            (30, [1, 8, 24]),
            (24, [1, 8, 24]),
            (22, [1, 1, 3]),
            (20, [1, 1, 3]),
            (18, [1, 1, 1]),
            (8, [1, 1, 1]),
        ] {
            assert_eq!(factors(length, 32, IPV4), expected, "/{length}");
        }
        assert_eq!(factors(64, 128, IPV6), [1, 2, 2]);
        assert_eq!(factors(56, 128, IPV6), [1, 1, 2]);
        assert!(SourceRates::of_networks([None; 4], 2, Lengths { ipv4: 16, ipv6: 56 }).is_wider);
    }
}
