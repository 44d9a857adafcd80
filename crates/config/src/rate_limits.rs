//! `[rate-limits]`: limits on replies over UDP to networks, which `query-path` applies.

use std::sync::Arc;

use query_path::prefix::{LOOPBACK, PRIVATE, PrefixMasks};
use query_path::{LimitLog, ReplyLimits};
use rate_limits::{PrefixFactors, RateLimit, RateTable};
use toml::Spanned;
use toml::de::DeValue;
use wire::Prefix;

use super::resolver::networks::NetworkOr;
use super::table::keys;
use super::table::read::{At, Reader};
use super::table::value::{Int, Size, Time, Value, Word};

/// Largest rate: more than a server sends to one address.
type Rate = Int<u32, 1, 1_000_000>;

keys! {
    /// Limits on the replies over UDP that one client address and its network get, so that queries with
    /// forged source addresses cannot turn nomen against a victim. A reply beyond the limit is dropped, or
    /// truncated, so that the client asks again over TCP, which has no limit; nor have clients with a valid
    /// cookie or TSIG. [RATE-LIMITS.md](RATE-LIMITS.md) explains it.
    pub struct RateLimitSection in "[rate-limits]" {
        /// Whether replies are limited.
        live "enable" enable: bool = true, example false;
        /// Count and log what the limits would drop, and send it.
        live "dry-run" dry_run: bool = false, example true;
        /// Units of answers that an address gets per second. A reply counts one unit for each `unit` bytes
        /// that it has begun.
        live "answers-per-second" answers: Rate = Int(100), example 200;
        /// The same for replies without an answer and without an error: referrals, and names without data of
        /// the type.
        live "referrals-per-second" referrals: Rate = Int(100), example 200;
        /// The same for NXDOMAIN. It is counted apart, so that queries for random names leave the answers.
        live "nxdomains-per-second" nxdomains: Rate = Int(100), example 50;
        /// The same for all other response codes, such as REFUSED.
        live "errors-per-second" errors: Rate = Int(50), example 10;
        /// Bytes of a reply that count as one unit.
        live "unit" unit: Size<64, 65_535> = Size(256), example 512;
        /// Units that may be sent at once after a pause, as the time in which the rate reaches them: with
        /// "2s" and 100 units per second, 200. So long after a flood ends, the counter is empty again.
        live "burst" burst: Time<1_000, 60_000> = Time::secs(2), example "5s";
        /// What the IPv4 networks of an address get, as multiples of what an address gets: its /24, /20 and
        /// /18. 0 is no limit.
        live "ipv4-factors" ipv4: NetworkFactors = NetworkFactors([2, 16, 48]), example [8, 64, 192];
        /// What the IPv6 networks of an address get, as multiples of what an address gets: its /64, /56 and
        /// /48. 0 is no limit.
        live "ipv6-factors" ipv6: NetworkFactors = NetworkFactors([2, 3, 4]), example [1, 2, 4];
        /// Short replies that each address gets per second for sure while it, or a network of it, is limited:
        /// truncated ones, or BADCOOKIE for a query with a client cookie. 0: none.
        live "short-replies-per-second" short: Int<u32, 0, 1_000_000> = Int(1), example 5;
        /// Beyond those, one in this many replies is sent short, and the others are dropped. 1: none is
        /// dropped. 0: all are dropped.
        live "slip" slip: Int<u32, 0, 1000> = Int(5), example 2;
        /// Networks whose clients have no limit, such as those of secondaries, of monitoring and of known
        /// resolvers. "loopback" is this machine, "private" all private, shared and link-local networks
        /// (RFC 1918, RFC 6598, RFC 3927, RFC 4193, RFC 4291). An empty list is none.
        live "exempt" exempt: Vec<At<ExemptNetwork>> = usually_exempt(),
            example ["loopback", "private", "203.0.113.0/24"];
        /// Whether clients that may recurse (`[[resolver.access]]`) are limited, too. Set it if recursion is
        /// open to networks that other machines can forge addresses of.
        live "limit-recursion" recursion: bool = false, example true;
        /// Memory for the counters, eight bytes each. Queries per second, divided by the smallest rate, need
        /// as many counters at most; if there are more, counters are shared and limits become stricter. A
        /// change empties the counters.
        live "table-size" table_size: Size<{ 64 << 10 }, { 1 << 30 }> = Size(2 << 20), example "16MiB";
        /// Size of the tables for `nomen ctl limits top`: the addresses and networks that were limited most.
        /// A change empties them; 0 turns them off, and the log lines about limited networks.
        live "top" top: Int<usize, 0, 100_000> = Int(500), example 2000;
    }
}

/// Multiples of the limit of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkFactors(pub [u32; 3]);

impl NetworkFactors {
    /// Largest factor.
    pub const MAX: u32 = 65_536;
}

impl Value for NetworkFactors {
    fn kind() -> String {
        format!("list of 3 integers (0 to {})", Self::MAX)
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        let Some(array) = node.get_ref().as_array() else {
            reader.wrong_type(node, "a list of 3 integers");
            return None;
        };
        if array.len() != 3 {
            reader.bad_value(node, format!("expected 3 integers, found {}", array.len()));
            return None;
        }
        let mut factors = Vec::new();
        for member in array.iter() {
            factors.extend(Int::<u32, 0, { Self::MAX as u64 }>::read(member, reader).map(|factor| factor.0));
        }
        factors.try_into().ok().map(Self)
    }
    fn render(&self) -> Option<String> {
        let [a, b, c] = self.0;
        Some(format!("[{a}, {b}, {c}]"))
    }
}

/// A network whose clients have no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExemptNetwork(NetworkOr<ExemptWord>);

/// Words for networks whose clients have no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExemptWord {
    /// This machine.
    Loopback,
    /// Private, shared and link-local networks.
    Private,
}

impl Word for ExemptWord {
    const WORDS: &'static [(&'static str, Self)] =
        &[("loopback", Self::Loopback), ("private", Self::Private)];
}

impl Value for ExemptNetwork {
    const MAY_BE_NONE: bool = true;

    fn kind() -> String {
        NetworkOr::<ExemptWord>::kind()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        NetworkOr::read(node, reader).map(Self)
    }
    fn render(&self) -> Option<String> {
        self.0.render()
    }
}

impl ExemptNetwork {
    fn networks(self) -> Vec<Prefix> {
        match self.0 {
            NetworkOr::Network(network) => vec![network.to_canonical()],
            NetworkOr::Word(ExemptWord::Loopback) => LOOPBACK.to_vec(),
            NetworkOr::Word(ExemptWord::Private) => PRIVATE.to_vec(),
        }
    }
}

/// Returns the default of `exempt`.
fn usually_exempt() -> Vec<At<ExemptNetwork>> {
    let words = [ExemptWord::Loopback, ExemptWord::Private];
    words.map(|word| At::unwritten(ExemptNetwork(NetworkOr::Word(word)))).into()
}

impl RateLimitSection {
    /// Returns the limits, with counters in `table`; `None` if they are off.
    pub fn config(&self, table: &Arc<RateTable>, log: Option<Arc<dyn LimitLog>>) -> Option<ReplyLimits> {
        let factors = |NetworkFactors(factors)| PrefixFactors(factors);
        let (v4, v6, burst) = (factors(*self.ipv4), factors(*self.ipv6), self.burst.0);
        let limit = |rate: &At<Rate>| RateLimit::new(rate.0, v4, v6, burst);
        let exempt: Vec<Prefix> = self.exempt.iter().flat_map(|network| network.networks()).collect();
        self.enable.then(|| ReplyLimits {
            table: Arc::clone(table),
            limits: [&self.answers, &self.referrals, &self.nxdomains, &self.errors].map(limit),
            short: (self.short.0 > 0).then(|| RateLimit::of_addresses(self.short.0, SHORT_BURST)),
            slip: self.slip.0,
            unit: self.unit.0,
            exempt: PrefixMasks::any(&exempt),
            recursive: *self.recursion,
            dry_run: *self.dry_run,
            log,
        })
    }
}

/// Short replies are not sent ahead.
const SHORT_BURST: std::time::Duration = std::time::Duration::from_secs(1);
