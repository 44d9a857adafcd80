//! The schemas of replies, by name, as the OpenAPI document has them.

/// The kind of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemberKind {
    Text,
    Number,
    Flag,
    /// An object whose members have any names.
    Object,
    /// A list of texts.
    Texts,
    /// A list of objects.
    Objects,
    /// A list of objects of another schema.
    Rows(&'static Schema),
    /// An object of another schema.
    One(&'static Schema),
    /// Any value.
    Any,
}

/// A member of an object. Each may be null or missing where there is nothing to report.
pub(super) type Member = (&'static str, MemberKind);

/// The contents of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// An object with these members.
    Object(&'static [Member]),
    /// An object whose members have any names.
    Map,
    /// A list of objects with these members.
    List(&'static [Member]),
    /// Plain text.
    Text,
    /// Server-Sent Events, each with an object with these members.
    Events(&'static [Member]),
}

/// A named schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Schema {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) shape: Shape,
}

use MemberKind::{Any, Flag, Number, Object, Objects, One, Rows, Text, Texts};

/// A fault.
pub(super) static ERROR: Schema = Schema {
    name: "Error",
    about: "Why a request is refused: `field` is the argument at fault, `data` what was done nevertheless.",
    shape: Shape::Object(&[("error", Text), ("field", Text), ("data", Any), ("serial", Number)]),
};

pub(super) static OWN_TOKEN: Schema = Schema {
    name: "OwnToken",
    about: "The token of the request.",
    shape: Shape::Object(&[("token", Text), ("address", Text), ("rights", Objects)]),
};

pub(super) static TOKENS: Schema = Schema {
    name: "Tokens",
    about: "All tokens, without their secrets; times in seconds since 1970.",
    shape: Shape::List(&[
        ("name", Text),
        ("rights", Objects),
        ("expires", Text),
        ("expired", Flag),
        ("requests", Number),
        ("last_used", Number),
        ("last_client", Text),
    ]),
};

pub(super) static SERVER_STATUS: Schema = Schema {
    name: "ServerStatus",
    about: "The state of the server, as `nomen ctl status` reports it.",
    shape: Shape::Object(&[
        ("version", Text),
        ("pid", Number),
        ("started", Number),
        ("uptime_seconds", Number),
        ("configuration", Text),
        ("listeners", Objects),
        ("workers", Number),
        ("tcp_connections", Number),
        ("certificates", Objects),
        ("acme", Object),
        ("zones", Object),
        ("secondary_zones", Object),
        ("signatures", Object),
        ("signing_faults", Objects),
        ("catalogs", Objects),
        ("local_root", Object),
        ("held_back", Texts),
        ("refused", Texts),
        ("log", Text),
        ("memory_bytes", Number),
        ("last_reload", Object),
        ("pending_keys", Objects),
        ("database", Object),
        ("sandbox", Any),
    ]),
};

pub(super) static DATABASE: Schema = Schema {
    name: "Database",
    about: "The state of the database of zones: the numbers of its last change and of the last one that this node \
            has, for how long it may lack changes, and the nodes that use it.",
    shape: Shape::Object(&[
        ("node", Text),
        ("schema", Text),
        ("connected", Flag),
        ("host", Text),
        ("since", Number),
        ("fault", Text),
        ("server", Text),
        ("last_change", Number),
        ("followed", Number),
        ("lag_seconds", Number),
        ("current_at", Number),
        ("zones", Number),
        ("unread", Number),
        ("unfit", Number),
        ("unserved", Number),
        ("shadowed", Number),
        ("held", Number),
        ("sections", Object),
        ("waiting", Number),
        ("signs", Flag),
        ("unserved_zones", Objects),
        ("commits", Object),
        ("nodes", Objects),
        ("nodes_fault", Text),
    ]),
};

pub(super) static COUNTERS: Schema = Schema {
    name: "Counters",
    about: "Every counter by its name, and every series of /metrics except buckets of histograms.",
    shape: Shape::Map,
};

pub(super) static RATES: Schema = Schema {
    name: "Rates",
    about: "Counts of the last minutes: each sample has those since the one before it. `latency` counts answers \
            by their time; its bounds are `latency_bounds_us`, the last count is of slower answers.",
    shape: Shape::Object(&[
        ("interval_seconds", Number),
        ("uptime_seconds", Number),
        ("latency_bounds_us", Any),
        ("total", One(&RATE_SAMPLE)),
        ("samples", Rows(&RATE_SAMPLE)),
    ]),
};

pub(super) static RATE_SAMPLE: Schema = Schema {
    name: "RateSample",
    about: "Counts over a stretch of time that ends at `at`, in seconds since 1970.",
    shape: Shape::Object(&[
        ("at", Number),
        ("seconds", Number),
        ("queries", Number),
        ("replies", Object),
        ("cache_hits", Number),
        ("cache_misses", Number),
        ("unanswered", Number),
        ("latency", Any),
    ]),
};

pub(super) static ZONE_ROW: Schema = Schema {
    name: "ZoneRow",
    about: "A zone in a list.",
    shape: Shape::Object(&[
        ("name", Text),
        ("view", Text),
        ("state", Text),
        ("role", Text),
        ("from", Text),
        ("serial", Number),
        ("records", Number),
        ("signed", Flag),
        ("warnings", Number),
        ("fault", Text),
        ("loaded", Number),
        ("signatures", Text),
    ]),
};

pub(super) static ZONES: Schema = Schema {
    name: "Zones",
    about: "A page of zones by name; `next` is the value of `after` for the next page, `total` counts all pages.",
    shape: Shape::Object(&[("zones", Rows(&ZONE_ROW)), ("next", Text), ("total", Number)]),
};

pub(super) static ZONE_STATUS: Schema = Schema {
    name: "ZoneStatus",
    about: "The state of a zone, as `nomen ctl zone status` reports it; times in seconds since 1970.",
    shape: Shape::Object(&[
        ("name", Text),
        ("view", Text),
        ("state", Text),
        ("role", Text),
        ("file", Text),
        ("file_serial", Number),
        ("file_edited", Flag),
        ("from", Text),
        ("loaded", Number),
        ("serial", Number),
        ("records", Number),
        ("names", Number),
        ("memory_bytes", Number),
        ("negative_ttl", Number),
        ("signed", Flag),
        ("denial", Text),
        ("warnings", Number),
        ("fault", Text),
        ("journal", Any),
        ("findings", Objects),
        ("more_findings", Number),
        ("signatures", Text),
        ("signatures_end", Number),
        ("signing", Any),
        ("signing_keys", Any),
        ("signing_waits", Any),
        ("catalog", Object),
        ("transfers", Object),
        ("updates", Object),
        ("transaction", Object),
        ("frozen", Flag),
        ("edits_refused", Text),
        ("queries", Number),
    ]),
};

pub(super) static RRSET: Schema = Schema {
    name: "RRset",
    about: "Records with one owner and type, in zone file syntax.",
    shape: Shape::Object(&[("name", Text), ("type", Text), ("ttl", Number), ("records", Texts)]),
};

pub(super) static RECORDS: Schema = Schema {
    name: "Records",
    about: "A page of RRsets in canonical order; `next` is the value of `after` for the next page.",
    shape: Shape::Object(&[("serial", Number), ("rrsets", Rows(&RRSET)), ("next", Text)]),
};

pub(super) static ZONE_FILE: Schema =
    Schema { name: "ZoneFile", about: "A zone as master-file text, SOA first.", shape: Shape::Text };

pub(super) static CHANGED_RECORD: Schema = Schema {
    name: "ChangedRecord",
    about: "A record of a change: `-` if it is removed, `+` if it is added.",
    shape: Shape::Object(&[("sign", Text), ("record", Text)]),
};

pub(super) static EDITED: Schema = Schema {
    name: "Edited",
    about: "What an edit has changed, or would change: serials before and after, and records without the serial \
            and signatures. `more_changes` counts records that are left out.",
    shape: Shape::Object(&[
        ("changed", Flag),
        ("from", Number),
        ("to", Number),
        ("changes", Rows(&CHANGED_RECORD)),
        ("more_changes", Number),
        ("warnings", Texts),
    ]),
};

pub(super) static DIFFERENCE: Schema = Schema {
    name: "Difference",
    about: "The difference of two versions of a zone, without signatures.",
    shape: Shape::Object(&[
        ("from", Number),
        ("to", Number),
        ("changes", Rows(&CHANGED_RECORD)),
        ("more_changes", Number),
    ]),
};

pub(super) static STORED_CHANGE: Schema = Schema {
    name: "StoredChange",
    about: "A change of a zone: serials before and after, numbers of records with the SOA; when and by whom it was \
            made, which is known of changes since the start.",
    shape: Shape::Object(&[
        ("from", Number),
        ("to", Number),
        ("removed", Number),
        ("added", Number),
        ("at", Number),
        ("by", Text),
        ("kind", Text),
        ("node", Text),
        ("number", Number),
    ]),
};

pub(super) static HISTORY: Schema = Schema {
    name: "History",
    about: "The newest stored changes of a zone. Those of a zone in the database have `kind`, `node` and `number`.",
    shape: Shape::Object(&[("serial", Number), ("versions", Rows(&STORED_CHANGE))]),
};

pub(super) static EDIT: Schema = Schema {
    name: "Edit",
    about: "An edit of one RRset. `op` is replace (needs ttl), delete, add or remove (records of it); `name` is \
            written in full, or `@`; `records` are data in zone file syntax.",
    shape: Shape::Object(&[
        ("op", Text),
        ("name", Text),
        ("type", Text),
        ("ttl", Number),
        ("records", Texts),
    ]),
};

pub(super) static QUERIES: Schema = Schema {
    name: "ObservedQuery",
    about: "Server-Sent Events: the data of each is one answered query. An event `lost` has the number of queries \
            that were left out, as `{\"lost\": n}`.",
    shape: Shape::Events(&[
        ("time", Number),
        ("client", Text),
        ("port", Number),
        ("transport", Text),
        ("name", Text),
        ("type", Text),
        ("rcode", Text),
        ("zone", Text),
        ("view", Text),
        ("dnssec_ok", Flag),
        ("truncated", Flag),
        ("bytes", Number),
        ("microseconds", Number),
        ("upstream", Text),
        ("policy", Object),
    ]),
};

pub(super) static ROUND: Schema = Schema {
    name: "LoadReport",
    about: "What a reload, or adding or removing a zone, has done.",
    shape: Shape::Map,
};

pub(super) static ZONE_RESULT: Schema = Schema {
    name: "ZoneResult",
    about: "What a command on a zone has done.",
    shape: Shape::Object(&[
        ("zone", Text),
        ("ordered", Text),
        ("frozen", Flag),
        ("was", Flag),
        ("file", Text),
        ("serial", Number),
        ("records", Number),
        ("written", Flag),
        ("dropped", Any),
        ("more_dropped", Number),
        ("from", Number),
        ("to", Number),
        ("removed", Number),
        ("added", Number),
        ("result", Text),
    ]),
};

pub(super) static KEYS: Schema =
    Schema { name: "Keys", about: "The keys of a zone that is signed here.", shape: Shape::Map };

pub(super) static TIMELINE: Schema =
    Schema { name: "KeyTimeline", about: "The coming events of the keys of a zone.", shape: Shape::Map };

pub(super) static DS: Schema =
    Schema { name: "DsRecords", about: "The DS records that the parent is to have.", shape: Shape::Map };

pub(super) static SECONDARIES: Schema = Schema {
    name: "Secondaries",
    about: "Zones with primaries or secondaries, those with faults first; `more` counts those left out.",
    shape: Shape::Object(&[("zones", Objects), ("more", Number)]),
};

pub(super) static EXPLANATION: Schema = Schema {
    name: "Explanation",
    about: "How a query would be answered, step by step, and the answer as text.",
    shape: Shape::Object(&[("steps", Objects), ("answer", Text)]),
};

pub(super) static CACHE: Schema = Schema {
    name: "CacheCounters",
    about: "The counters of the cache.",
    shape: Shape::Object(&[
        ("hits", Number),
        ("negative_hits", Number),
        ("misses", Number),
        ("hit_percent", Number),
        ("entries", Number),
        ("bytes", Number),
        ("bytes_reserved", Number),
        ("bytes_at_most", Number),
        ("kept", Number),
        ("evicted", Number),
        ("expired", Number),
        ("refused_rank", Number),
        ("refused_size", Number),
        ("file", Text),
    ]),
};

pub(super) static CACHE_RESULT: Schema = Schema {
    name: "CacheResult",
    about: "What a command on the cache has done.",
    shape: Shape::Object(&[
        ("dropped", Number),
        ("entries", Number),
        ("kept", Number),
        ("left_out", Number),
        ("file", Text),
    ]),
};

pub(super) static CACHE_DUMP: Schema =
    Schema { name: "CacheDump", about: "Every entry of the cache, one on each line.", shape: Shape::Text };

pub(super) static FORWARD_RULES: Schema = Schema {
    name: "ForwardRules",
    about: "The forwarding rules.",
    shape: Shape::List(&[
        ("domain", Text),
        ("kind", Text),
        ("servers", Objects),
        ("groups", Texts),
        ("begins_at", Texts),
    ]),
};

pub(super) static RULE_RESULT: Schema = Schema {
    name: "RuleResult",
    about: "What a command on rules has done.",
    shape: Shape::Object(&[("result", Text)]),
};

pub(super) static ENCRYPTION: Schema = Schema {
    name: "AuthoritativeEncryption",
    about: "The encrypted transports of authoritative servers that were probed.",
    shape: Shape::List(&[
        ("server", Text),
        ("transport", Text),
        ("state", Text),
        ("probing", Flag),
        ("queries", Number),
        ("seconds_since_probe", Number),
        ("seconds_since_result", Number),
        ("seconds_since_reply", Number),
    ]),
};

pub(super) static TRUST_ANCHORS: Schema = Schema {
    name: "TrustAnchors",
    about: "The trust anchors.",
    shape: Shape::List(&[
        ("zone", Text),
        ("tag", Number),
        ("algorithm", Number),
        ("state", Text),
        ("trusted", Flag),
        ("seconds_in_state", Number),
        ("seconds_to_trust", Number),
        ("followed", Flag),
        ("seconds_since_seen", Number),
        ("seconds_to_next", Number),
    ]),
};

pub(super) static NEGATIVE_ANCHORS: Schema = Schema {
    name: "NegativeTrustAnchors",
    about: "The negative trust anchors.",
    shape: Shape::List(&[("domain", Text), ("seconds_left", Number)]),
};

pub(super) static POLICY_SOURCES: Schema = Schema {
    name: "PolicySources",
    about: "The state of every response policy zone and block list.",
    shape: Shape::List(&[
        ("name", Text),
        ("kind", Text),
        ("loaded", Number),
        ("serial", Number),
        ("rules", Number),
        ("lines_ignored", Number),
        ("lines_unusable", Number),
        ("owners_unusable", Number),
        ("first_unusable", Texts),
        ("fault", Text),
        ("blocked", Number),
        ("queries", Object),
        ("file", Text),
        ("url", Text),
        ("confirmed", Number),
        ("attempted", Number),
        ("next_attempt", Number),
        ("paused_until", Number),
        ("host_addresses", Texts),
        ("over_limit", Number),
    ]),
};

pub(super) static POLICY_RESULT: Schema = Schema {
    name: "PolicyResult",
    about: "What a command on policies has done.",
    shape: Shape::Object(&[("lists", Objects), ("result", Text)]),
};

pub(super) static TOP: Schema = Schema {
    name: "Top",
    about: "What is blocked or limited most, with counts.",
    shape: Shape::Object(&[
        ("by", Text),
        ("period", Text),
        ("queries", Number),
        ("replies", Number),
        ("top", Objects),
        ("others_at_most", Number),
        ("dropped", Number),
    ]),
};

pub(super) static POLICY_TEST: Schema =
    Schema { name: "PolicyTest", about: "Which rule decides about a name.", shape: Shape::Map };

pub(super) static DISCOVERY: Schema =
    Schema { name: "Discovery", about: "How clients discover the encrypted listeners.", shape: Shape::Map };
