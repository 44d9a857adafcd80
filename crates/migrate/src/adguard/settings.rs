//! Settings of AdGuardHome.yaml with exactly one key in nomen, or none.

use crate::model::Section;
use crate::work::{NamedRule, Rule};

const TUNING: Rule = Rule::Unneeded("nomen decides this by itself");
const PAGE: Rule = Rule::Unneeded("nomen has no page that changes settings");
const RATES: Rule = Rule::Unneeded("it is about `ratelimit`");
const SERVICE: Rule = Rule::Unneeded("it is about a service that is not asked");

/// Sections that have no keys in nomen.
pub(super) const APART: &[NamedRule] = &[
    ("http", PAGE),
    ("users", PAGE),
    ("auth_attempts", PAGE),
    ("block_auth_min", PAGE),
    ("http_proxy", PAGE),
    ("language", PAGE),
    ("theme", PAGE),
    ("bind_host", PAGE),
    ("bind_port", PAGE),
    ("web_session_ttl", PAGE),
    ("debug_pprof", PAGE),
    ("statistics", Rule::Unneeded("[metrics] has figures at any time")),
    ("schema_version", TUNING),
];

/// Settings of `dns`.
pub(super) const DNS: &[NamedRule] = &[
    ("anonymize_client_ip", Rule::Same(&["false"], "nomen's log has the addresses of clients as they are")),
    ("ratelimit", Rule::Unneeded("there is no limit; nomen has its own defaults: see [rate-limits]")),
    ("ratelimit_subnet_len_ipv4", RATES),
    ("ratelimit_subnet_len_ipv6", RATES),
    ("ratelimit_whitelist", RATES),
    ("refuse_any", Rule::Unneeded("nomen answers ANY with one RRset")),
    ("trusted_proxies", TUNING),
    ("cache_enabled", Rule::Same(&["true"], "nomen keeps answers for as long as their TTLs say")),
    ("cache_optimistic_answer_ttl", TUNING),
    ("cache_optimistic_max_age", TUNING),
    ("bogus_nxdomain", Rule::Missing("nomen does not take addresses for missing names")),
    ("aaaa_disabled", Rule::Same(&["false"], "nomen drops no AAAA records")),
    ("max_goroutines", TUNING),
    ("handle_ddr", Rule::Switch(Section::Resolver, "discovery")),
    ("ipset", Rule::Missing("nomen changes no sets of the packet filter")),
    ("ipset_file", Rule::Missing("nomen changes no sets of the packet filter")),
    ("bootstrap_prefer_ipv6", TUNING),
    ("upstream_timeout", TUNING),
    ("use_dns64", Rule::Unneeded("see `dns64-prefix` of [resolver]")),
    ("dns64_prefixes", TUNING),
    ("serve_http3", Rule::Unneeded("it is about HTTPS, which is off")),
    ("use_http3_upstreams", Rule::Same(&["false"], "nomen asks over UDP, TCP and TLS alone")),
    ("serve_plain_dns", Rule::Unneeded("nomen does so anyway")),
    ("pending_requests", Rule::Unneeded("nomen asks once for all clients with one question")),
    ("fastest_timeout", TUNING),
    ("fastest_addr", TUNING),
    ("all_servers", TUNING),
];

/// Settings of `filtering`; in older files they are in `dns`.
pub(super) const FILTERING: &[NamedRule] = &[
    ("protection_disabled_until", TUNING),
    ("parental_block_host", SERVICE),
    ("safebrowsing_block_host", SERVICE),
    ("safe_fs_patterns", Rule::Unneeded("nomen reads the files of the lists that it has")),
    ("safebrowsing_cache_size", SERVICE),
    ("safesearch_cache_size", SERVICE),
    ("parental_cache_size", SERVICE),
    ("cache_time", SERVICE),
    ("rewrites_enabled", TUNING),
];
