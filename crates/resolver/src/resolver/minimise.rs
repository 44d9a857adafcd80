//! QNAME minimisation (RFC 9156), and names without a zone cut that replies to partial names show.

use std::time::{Duration, Instant};

use wire::message::Parser;
use wire::{LowerName, Type};

use super::Resolver;
use super::state::{LookupId, Walk};
use crate::config::{IterateConfig, Minimisation};
use crate::delegations::Cut;
use crate::query_key::QueryKey;
use crate::random::Random;
use crate::request::LookupSink;
use crate::scrub::ScrubbedAnswer;

/// Queries that add one label each; later ones divide the remaining labels (RFC 9156 §2.3).
const ONE_LABEL: u16 = 4;

/// Label counts of the partial names below ip6.arpa. A query for each of the 32 digits of an IPv6 address
/// would be of little use: networks are delegated at /16, /32, /48, /56 and /64, if at all.
const IP6_LABELS: [usize; 7] = [1, 2, 6, 10, 14, 16, 18];

/// ip6.arpa. (RFC 3596 §2.5), in wire form.
const IP6_ARPA: &[u8] = b"\x03ip6\x04arpa\x00";

impl Walk {
    /// Adds labels to the query as in RFC 9156 §2.3: at once all `uncut` labels that are known to belong to
    /// the zone. `taken` charges such a query to the budget and returns how many there were before.
    pub(super) fn show_more(
        &mut self,
        query_key: &QueryKey,
        config: &IterateConfig,
        uncut: Option<usize>,
        taken: impl FnOnce() -> Option<u16>,
    ) {
        let name = query_key.name.as_lower();
        let total = name.label_count();
        self.shown = self.shown.max(uncut.unwrap_or_default());
        let left = total.saturating_sub(self.shown);
        self.question = *query_key;
        if config.minimisation == Minimisation::Off || self.whole || left <= 1 {
            self.shown = total;
            return;
        }
        let Some(before) = taken() else {
            self.whole = true;
            return;
        };
        self.shown = if name.is_at_or_below(LowerName::of_checked(IP6_ARPA)) {
            IP6_LABELS.into_iter().find(|&labels| labels > self.shown).unwrap_or(total)
        } else {
            let queries = usize::from(config.budget.minimised.saturating_sub(before)).max(1);
            self.shown + if before < ONE_LABEL { 1 } else { left.div_ceil(queries) }
        };
        if self.shown < total {
            let name = query_key.name.as_name().skip(total - self.shown).to_lower();
            // Type A, since no server treats it specially.
            self.question = QueryKey { name, qtype: Type::A, ..*query_key };
        }
    }
}

impl<O: LookupSink, R: Random> Resolver<O, R> {
    /// Returns how many labels of the name are known to belong to the lookup's current zone.
    pub(super) fn uncut(&mut self, id: LookupId, now: Instant) -> Option<usize> {
        let lookup = self.lookups.get(&id)?;
        let walk = lookup.state.walk().filter(|walk| !walk.whole)?;
        if self.config.iterate.minimisation == Minimisation::Off {
            return None;
        }
        let above = lookup.query_key.name.as_lower().parent()?;
        self.delegations.uncut(above, walk.cut.zone.as_lower(), now)
    }

    /// Caches that a name and its ancestors have no zone cut, since the servers of `cut` answered for it.
    pub(super) fn learn_uncut(
        &mut self,
        name: Option<LowerName<'_>>,
        cut: &Cut,
        ttl: impl FnOnce() -> Option<Duration>,
        now: Instant,
    ) {
        let below = |name: &LowerName<'_>| name.label_count() > cut.zone.as_lower().label_count();
        if let Some(name) = name.filter(below)
            && let Some(ttl) = ttl()
        {
            let most = self.config.iterate.delegation_bytes;
            self.delegations.keep_uncut(name, cut, ttl, now, most);
            self.stats.delegation_bytes.set(self.delegations.bytes() as u64);
        }
    }
}

/// Returns how long an answer is valid: for a denial the SOA's time (RFC 2308 §5), otherwise the lowest TTL.
pub(super) fn lifetime(answer: &ScrubbedAnswer) -> Option<Duration> {
    if let Some(ttl) = answer.negative_ttl {
        return Some(ttl.as_duration());
    }
    let (header, mut parser) = Parser::new(&answer.message).ok()?;
    parser.question().ok()?;
    let ttls = (0..header.counts()[1]).map_while(|_| Some(parser.record().ok()?.ttl().as_secs()));
    ttls.min().map(|seconds| Duration::from_secs(seconds.into()))
}
