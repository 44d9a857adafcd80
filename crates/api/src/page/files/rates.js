// The counts of the last minutes as figures that the overview draws.

/** Returns samples {at, queries, hitShare, servfail, unanswered, p50, p99}: rates per second, shares, microseconds. */
export function samplesOf(rates) {
  return rates.samples.filter((one) => one.seconds > 0).map((one) => {
    const asked = one.cache_hits + one.cache_misses;
    const perSecond = (count) => (count || 0) / one.seconds;
    return {
      at: one.at,
      queries: perSecond(one.queries),
      hitShare: asked > 0 ? one.cache_hits / asked : null,
      servfail: perSecond(one.replies.SERVFAIL),
      unanswered: perSecond(one.unanswered),
      p50: quantile(one.latency, rates.latency_bounds_us, 0.5),
      p99: quantile(one.latency, rates.latency_bounds_us, 0.99),
    };
  });
}

/** Returns a quantile of a histogram, with even distribution inside of each interval; null if it is empty. */
function quantile(counts, bounds, share) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  let left = share * total;
  for (let at = 0; at < counts.length; at += 1) {
    if (left <= counts[at] && counts[at] > 0) {
      const from = at === 0 ? 0 : bounds[at - 1];
      const to = bounds[Math.min(at, bounds.length - 1)];
      return from + (to - from) * (left / counts[at]);
    }
    left -= counts[at];
  }
  return bounds[bounds.length - 1];
}

/** Returns the samples of the last minute, and their length in seconds. */
function lastMinute(rates) {
  const samples = rates.samples.filter((one) => one.at >= (rates.total.at || 0) - 60);
  return { samples, seconds: samples.reduce((sum, one) => sum + one.seconds, 0) };
}

/** Returns the queries, then the replies by response code, the most frequent first: {what, count, average, rate} since the start. */
export function countsOf(rates) {
  const { samples, seconds } = lastMinute(rates);
  const row = (what, count, of) => ({
    what, count, average: rates.total.seconds > 0 ? count / rates.total.seconds : null,
    rate: seconds > 0 ? samples.reduce((sum, one) => sum + (of(one) || 0), 0) / seconds : null,
  });
  const replies = Object.entries(rates.total.replies).sort((a, b) => b[1] - a[1]);
  return [row("Queries", rates.total.queries, (one) => one.queries), ...replies.map(([code, count]) => row(code, count, (one) => one.replies[code])),
    row("No reply", rates.total.unanswered, (one) => one.unanswered)];
}

/** Returns the shares of queries that the cache answered, since the start and in the last minute; null where nothing was resolved. */
export function hitsOf(rates) {
  const share = (samples) => {
    const hits = samples.reduce((sum, one) => sum + one.cache_hits, 0);
    const asked = hits + samples.reduce((sum, one) => sum + one.cache_misses, 0);
    return asked > 0 ? hits / asked : null;
  };
  return { whole: share([rates.total]), minute: share(lastMinute(rates).samples) };
}
