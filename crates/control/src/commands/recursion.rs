//! `nomen ctl cache`, `nomen ctl forward`, `nomen ctl encryption`, `nomen ctl nta` and `nomen ctl
//! trust-anchors`: the cache, forwarding rules, encrypted transports of authoritative servers, negative trust
//! anchors and trust anchors.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use cache::{Freshness, Held};
use resolver::{ForwardRule, IterateRule, Partition, ServerEncryption, Upstream, UpstreamStats};
use serde_json::{Value, json};
use transport::unix_now;
use validator::AnchorState;
use wire::{NameBuf, Type, UnixTime};

use super::{CommandResult, Pieces};
use crate::fault::{ArgumentFault, CommandFault};
use config::table::value::{AddrPort, parse_duration};
use config::upstreams::rule_servers;
use config::zone_name::zone_name;
use message::print;
use serving::frontend::Frontend;
use serving::recursive::{LONGEST_NEGATIVE, Recursive, ShownAnchor, store};

/// The parts that commands on recursive service use.
#[derive(Clone, Copy)]
pub(super) struct RecursiveParts<'p> {
    pub(super) recursive: &'p Recursive,
    pub(super) frontend: &'p Frontend,
}

/// A forwarding rule to add.
pub(super) struct NewRule {
    pub(super) domain: String,
    pub(super) servers: Vec<String>,
    /// The servers are authoritative.
    pub(super) stub: bool,
}

fn name(text: &str) -> Result<NameBuf, ArgumentFault> {
    zone_name(text).map_err(ArgumentFault::Name)
}

/// Returns the counters of the cache.
pub(super) fn cache_stats(RecursiveParts { recursive, frontend }: RecursiveParts<'_>) -> CommandResult {
    let cache = recursive.service.cache();
    let stats = cache.stats();
    let (accounts, service) = (&frontend.accounts, recursive.service.stats());
    let (hits, misses) = (accounts.sum(|stats| stats.cache_hits.get()), service.misses.get());
    let asked = hits + misses;
    Ok(json!({
        "hits": hits,
        "negative_hits": accounts.sum(|stats| stats.cache_negative.get()),
        "misses": misses,
        "hit_percent": (asked > 0).then(|| (hits as f64 * 1000.0 / asked as f64).round() / 10.0),
        "entries": stats.entries,
        "bytes": stats.bytes,
        "bytes_reserved": cache.reserved(),
        "bytes_at_most": cache.config().bytes,
        "kept": stats.inserts,
        "evicted": stats.evictions,
        "expired": stats.expired,
        "refused_rank": stats.refused_rank,
        "refused_size": stats.refused_size,
        "file": recursive.file.as_ref().map(|file| file.path().display().to_string()),
    }))
}

/// Flushes a name from the cache.
pub(super) fn flush(
    RecursiveParts { recursive, .. }: RecursiveParts<'_>,
    text: &str,
    tree: bool,
    rtype: Option<&str>,
) -> CommandResult {
    let name = name(text)?.as_name().to_lower();
    let read = |text: &str| text.parse().map_err(|_| ArgumentFault::Type(text.to_owned()));
    let qtype: Option<Type> = rtype.map(read).transpose()?;
    Ok(json!({"dropped": recursive.service.flush(name.as_lower(), tree, qtype)}))
}

/// Sends every entry as text; stops if the client has disconnected.
pub(super) fn dump(
    RecursiveParts { recursive, .. }: RecursiveParts<'_>,
    mut pieces: Pieces,
) -> CommandResult {
    let service = &recursive.service;
    let (mut entries, mut connected) = (0u64, true);
    service.cache().for_each(service.now(Instant::now()), |held| {
        if connected {
            entries += 1;
            let of = whose(recursive, held);
            connected = pieces.push(entry(held, &of).trim_end_matches('\n'));
        }
    });
    pieces.finish();
    Ok(json!({"entries": entries}))
}

/// Returns the clients that get an entry, unless all clients without rules of their own do.
fn whose(recursive: &Recursive, held: &Held) -> String {
    match recursive.service.partition_of_held(held) {
        Some(Partition::SHARED) => String::new(),
        Some(partition) => format!(", for {}", recursive.groups_of(partition).join(", ")),
        None => ", for no client: its rule has gone".into(),
    }
}

/// Returns one entry: a line that describes it and the clients `of` it, and its records.
fn entry(held: &Held, of: &str) -> String {
    let freshness = match held.freshness {
        Freshness::Fresh(left) => format!("{left} s left"),
        Freshness::Stale(ago) => format!("expired {ago} s ago"),
    };
    let asked = match held.is_for_every_type() {
        true => "every type".into(),
        false => held.asked().to_string(),
    };
    let flags = [(held.dnssec_ok(), " DO"), (held.checking_disabled(), " CD")];
    let flags: String = flags.into_iter().filter(|(on, _)| *on).map(|(_, word)| word).collect();
    let (name, rcode, age) = (held.name().as_name(), held.rcode(), held.age);
    let mut text = format!("; {name} {asked}{flags} {rcode}, {freshness}, {age} s old{of}\n");
    text += &print::records(&held.message(), held.age).unwrap_or_default();
    text
}

/// Saves the cache to a file.
pub(super) fn save(
    RecursiveParts { recursive, .. }: RecursiveParts<'_>,
    path: Option<String>,
) -> CommandResult {
    let path = file(recursive, path)?;
    let saved = store::save(&path, &recursive.service);
    let entries = saved.map_err(|error| CommandFault::CacheSave(path.clone(), error))?;
    Ok(json!({"entries": entries, "file": path.display().to_string()}))
}

/// Loads a file into the cache.
pub(super) fn load(
    RecursiveParts { recursive, .. }: RecursiveParts<'_>,
    path: Option<String>,
) -> CommandResult {
    let path = file(recursive, path)?;
    let restored = store::load(&path, &recursive.service);
    let restored = restored.map_err(|fault| CommandFault::CacheLoad(path.clone(), fault))?;
    let file = path.display().to_string();
    Ok(json!({"kept": restored.kept, "left_out": restored.left_out, "file": file}))
}

/// Returns the file that a command names, or else the configured one.
fn file(recursive: &Recursive, path: Option<String>) -> Result<PathBuf, ArgumentFault> {
    let configured = || recursive.file.as_ref().map(|file| file.path().to_owned());
    path.map(PathBuf::from).or_else(configured).ok_or(ArgumentFault::NoFile)
}

/// Returns every rule with the state of its servers; for iterated domains, the servers a lookup starts at.
pub(super) fn forward_list(RecursiveParts { recursive, .. }: RecursiveParts<'_>) -> CommandResult {
    let known = recursive.forward.upstreams();
    let server = |upstream: &Upstream| {
        let stats = known.iter().find(|stats| stats.upstream == *upstream);
        stats.map_or_else(|| json!({"server": upstream.to_string()}), |stats| server(stats))
    };
    let rule = |rule: &ForwardRule| {
        let mut shown = json!({
            "domain": rule.domain.to_string(),
            "kind": if rule.recursion_desired { "forward" } else { "stub" },
            "servers": rule.upstreams.iter().map(server).collect::<Vec<_>>(),
        });
        if !rule.partition.is_shared() {
            shown["groups"] = recursive.groups_of(rule.partition).into();
        }
        shown
    };
    let start = |rule: &IterateRule| {
        let servers = rule.servers.iter().flat_map(|server| &server.addresses);
        let servers: Vec<String> = servers.map(ToString::to_string).collect();
        json!({"domain": rule.domain.to_string(), "kind": "iterate", "begins_at": servers})
    };
    let (rules, starts) = recursive.rules();
    Ok(rules.iter().map(rule).chain(starts.iter().map(start)).collect())
}

fn server(stats: &UpstreamStats) -> Value {
    json!({
        "server": stats.upstream.to_string(),
        "state": if stats.is_failing() { "failing" } else { "ok" },
        "rtt_us": stats.smoothed_rtt().map(|rtt| rtt.as_micros() as u64),
        "udp": stats.udp.get(),
        "tcp": stats.tcp.get(),
        "tls": stats.tls.get(),
        "https": stats.https.get(),
        "quic": stats.quic.get(),
        "odoh": stats.odoh.get(),
        "tls_fault": stats.last_fault().map(|fault| fault.text()),
        "timeouts": stats.timeouts.get(),
        "failures": stats.failures.get(),
        "bad_replies": stats.bad_replies.get(),
    })
}

/// Returns the encrypted transports of authoritative servers that were probed.
pub(super) fn encryption_list(RecursiveParts { recursive, .. }: RecursiveParts<'_>) -> CommandResult {
    let all = recursive.encryption().ok_or(CommandFault::NoReply)?;
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs());
    let one = |one: &ServerEncryption| {
        json!({
            "server": AddrPort(one.address).to_string(),
            "transport": one.transport.to_string(),
            "state": one.status.word(),
            "probing": one.probing,
            "queries": one.queries,
            "seconds_since_probe": seconds(one.initiated),
            "seconds_since_result": seconds(one.completed),
            "seconds_since_reply": seconds(one.last_response),
        })
    };
    Ok(all.iter().map(one).collect())
}

/// Adds a forwarding rule, which replaces an earlier rule for the same domain, until the configuration is
/// read again.
pub(super) fn forward_add(
    RecursiveParts { recursive, frontend }: RecursiveParts<'_>,
    NewRule { domain, servers, stub }: &NewRule,
) -> CommandResult {
    let domain = name(domain)?;
    if servers.is_empty() {
        return Err(ArgumentFault::NoServers.into());
    }
    if *stub && domain.as_name().is_root() {
        return Err(ArgumentFault::RootStub.into());
    }
    let upstreams = rule_servers(servers).map_err(ArgumentFault::Server)?;
    let own = frontend.addresses();
    if let Some(server) = upstreams.iter().find(|server| own.contains(&server.address)) {
        return Err(ArgumentFault::OwnAddress(server.address).into());
    }
    let mut rule = ForwardRule::new(domain, upstreams);
    rule.recursion_desired = !stub;
    recursive.put_rule(rule).map_err(CommandFault::Policy)?;
    Ok(json!("done, until the next reload"))
}

/// Removes the rule for a domain, which is then resolved like the names above it.
pub(super) fn forward_remove(
    RecursiveParts { recursive, .. }: RecursiveParts<'_>,
    domain: &str,
) -> CommandResult {
    let name = name(domain)?;
    match recursive.drop_rule(name.as_name()).map_err(CommandFault::Policy)? {
        true => Ok(json!("done, until the next reload")),
        false => Err(CommandFault::NoRule(domain.to_owned())),
    }
}

/// Returns the negative trust anchors.
pub(super) fn anchor_list(RecursiveParts { recursive, .. }: RecursiveParts<'_>) -> CommandResult {
    let one = |(domain, left): (NameBuf, Option<Duration>)| json!({"domain": domain.to_string(), "seconds_left": left.map(|left| left.as_secs())});
    Ok(recursive.negative_anchors().into_iter().map(one).collect())
}

/// Returns every key that is a trust anchor, was one, or may become one.
pub(super) fn trust_anchor_list(RecursiveParts { recursive, .. }: RecursiveParts<'_>) -> CommandResult {
    let (zones, now) = (recursive.followed_zones(), unix_now());
    let seconds_since = |at: UnixTime| now.saturating_duration_since(at).as_secs();
    let seconds_until = |at: UnixTime| at.saturating_duration_since(now).as_secs();
    let one = |ShownAnchor { zone, tag, algorithm, state, since }: ShownAnchor| {
        let followed = zones.iter().find(|followed| followed.zone == zone);
        let until = match state {
            Some(AnchorState::Pending { until }) => Some(until),
            _ => None,
        };
        json!({
            "zone": zone.to_string(),
            "tag": tag,
            "algorithm": algorithm,
            "state": state.map_or("configured", AnchorState::word),
            "trusted": state.is_none_or(AnchorState::is_trusted),
            "seconds_in_state": since.map(seconds_since),
            "seconds_to_trust": until.map(seconds_until),
            "followed": followed.is_some(),
            "seconds_since_seen": followed.and_then(|of| of.seen).map(seconds_since),
            "seconds_to_next": followed.map(|of| seconds_until(of.next)),
        })
    };
    Ok(recursive.trust_anchors().into_iter().map(one).collect())
}

/// Adds a negative trust anchor for a domain; it expires after `time`.
pub(super) fn anchor_add(
    RecursiveParts { recursive, .. }: RecursiveParts<'_>,
    domain: &str,
    time: &str,
) -> CommandResult {
    let domain = name(domain)?;
    let time = parse_duration(time).map_err(ArgumentFault::Duration)?;
    if !(Duration::from_secs(1)..=LONGEST_NEGATIVE).contains(&time) {
        return Err(ArgumentFault::DurationRange.into());
    }
    recursive.put_negative_anchor(domain, time).map_err(CommandFault::Policy)?;
    Ok(json!("done; nothing in the domain is validated until then"))
}

/// Removes the negative trust anchor of a domain.
pub(super) fn anchor_remove(
    RecursiveParts { recursive, .. }: RecursiveParts<'_>,
    domain: &str,
) -> CommandResult {
    let domain = name(domain)?;
    match recursive.drop_negative_anchor(&domain).map_err(CommandFault::Policy)? {
        true => Ok(json!("done")),
        false => Err(CommandFault::NoNegativeAnchor(domain.to_string())),
    }
}
